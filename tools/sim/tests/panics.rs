//! A world that panics says all that a report needs, even where the process aborts; a mutant's failure replays as it is.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::rc::Rc;

use sim::broker_world::BrokerWorld;
use sim::log_world::LogWorld;
use sim::mutants;
use sim::panics::{Loudness, Watched, watch};
use sim::runner::{Range, World, WorldName};
use sim::trace::{Keep, Trace};

/// As `commitlog::abort_on_panic` without the feature `mutants`, which every test of this crate is built with.
struct Abort;

impl Drop for Abort {
    fn drop(&mut self) {
        std::process::abort();
    }
}

#[test]
fn a_panic_that_aborts_has_said_its_seed_step_text_trace_and_replay_before() {
    const CHILD: &str = "CORELOG_SIM_PANIC_CHILD";
    let trace = Rc::new(Trace::new(Keep::Lines));
    if std::env::var_os(CHILD).is_some() {
        let mutant = None;
        let loudness = Loudness::Loud;
        let watched = Watched {
            world: WorldName::Log,
            seed: 4711,
            mutant,
            trace: Rc::clone(&trace),
            loudness,
        };
        let _ = watch(&watched, || {
            let _abort = Abort;
            trace.note("polled", "topics/orders-0", [3, 9]);
            panic!("durable past written");
        });
        return;
    }
    let test = "a_panic_that_aborts_has_said_its_seed_step_text_trace_and_replay_before";
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    // 6: SIGABRT.
    assert_eq!(child.status.signal(), Some(6), "{child:?}");
    let (said, shown) =
        (String::from_utf8_lossy(&child.stderr), String::from_utf8_lossy(&child.stdout));
    assert!(said.contains("seed 4711, step 0: panic at "), "{said}");
    assert!(said.contains(": durable past written\n"), "{said}");
    assert!(said.contains("replay: cargo run -p sim -- replay 4711\n"), "{said}");
    assert!(shown.contains("polled       topics/orders-0 3 9"), "{shown}");
}

#[test]
fn a_mutants_failure_prints_the_command_that_shows_it_again() {
    let named = mutants::named::<LogWorld>("ack-before-sync").unwrap();
    let range = Range { from: 0, seeds: 3_000, threads: 2 };
    let found = mutants::hunt::<LogWorld>(&named, range).unwrap();
    let printed = found.to_string();
    let (_, arguments) = printed.split_once(" -- ").unwrap();
    let replayed = Command::new(env!("CARGO_BIN_EXE_sim"))
        .args(arguments.split_whitespace())
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&replayed.stdout);
    assert!(!replayed.status.success(), "{arguments}");
    assert!(shown.ends_with(&format!("{printed}\n")), "{printed}: {replayed:?}");
}

#[test]
fn every_mutant_has_one_name_that_a_shell_takes_as_it_is() {
    check_names::<LogWorld>();
    check_names::<BrokerWorld>();
}

fn check_names<W: World>() {
    for named in W::mutants() {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
        assert!(named.name.bytes().all(plain), "{}", named.name);
        let found = mutants::named::<W>(named.name).map(|found| found.mutant);
        assert!(found == Some(named.mutant), "{}", named.name);
    }
}
