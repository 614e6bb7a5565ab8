//! Any text as a node's configuration, and as configurations that a client sets on a topic.
//!
//! Input: three texts with a zero byte between them: the file, the environment (`NAME=VALUE` a line), what followed each
//! `--set` (one a line). Holds: every error is one line of bounded length; what is accepted is accepted again with the same
//! meaning when each value is given on the command line, as an operator would who moves it there; a topic's value that is
//! accepted is accepted again in the form in which it is kept.
#![no_main]

use broker::config::{Config, Place, Sources};
use cluster::{Accepted, check_topic_config};
use libfuzzer_sys::fuzz_target;

/// Enough for a place, a key, an excerpt of a value and its bound; far from the text that was given.
const ERROR_BYTES_MAX: usize = 4096;

fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| line.split_once('='))
}

fn check_node(sources: &Sources) {
    match Config::load(sources) {
        Err(errors) => {
            for error in errors.errors() {
                let text = error.to_string();
                assert!(!text.is_empty() && text.len() <= ERROR_BYTES_MAX, "{text:?}");
                assert!(!text.contains(char::is_control), "{text:?}");
            }
        }
        Ok(config) => {
            assert!(!config.broker_configs().is_empty());
            if !matches!(config.settings["listeners"].place, Place::File { .. }) {
                check_moved(&config);
            }
        }
    }
}

/// Tables of listeners have fields that no single option holds, and stay where they are.
fn check_moved(config: &Config) {
    let set = config.settings.iter().filter(|(_, setting)| setting.place != Place::Default);
    let sets = set.filter_map(|(key, setting)| Some(format!("{key}={}", setting.value.as_ref()?)));
    let sources = Sources { sets: sets.collect(), ..Sources::default() };
    let moved = Config::load(&sources).expect("what was accepted is accepted again");
    assert_eq!(
        Config { settings: config.settings.clone(), warnings: Vec::new(), ..moved },
        Config { warnings: Vec::new(), ..config.clone() }
    );
}

fn check_topic(name: &str, value: Option<&str>) {
    match check_topic_config(name, value) {
        Ok(Accepted::Keep { name, value }) => {
            assert_eq!(check_topic_config(name, Some(value)), Ok(Accepted::Keep { name, value }));
        }
        Ok(Accepted::Ignore) => {}
        Err(refusal) => {
            let text = refusal.to_string();
            assert!(!text.is_empty() && text.len() <= ERROR_BYTES_MAX, "{text:?}");
        }
    }
}

fuzz_target!(|text: &str| {
    let mut parts = text.splitn(3, '\0');
    let mut next = || parts.next().unwrap_or_default();
    let (file, environment, sets) = (next(), next(), next());
    check_node(&Sources {
        file: Some(("corelog.toml".to_owned(), file.to_owned())),
        environment: pairs(environment).map(|(name, value)| (name.into(), value.into())).collect(),
        sets: sets.lines().map(str::to_owned).collect(),
        flags: Vec::new(),
    });
    for (name, value) in pairs(sets) {
        check_topic(name, Some(value));
    }
    check_topic(sets, None);
});
