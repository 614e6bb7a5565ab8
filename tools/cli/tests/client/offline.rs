//! A partition that its node cannot open: told at once, beside what is served of the others.

use std::path::Path;

use super::*;

const REFUSED: i32 = 1;

/// A process that does not outlive the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Serves `data_dir` for as long as `body` takes, and stops in order.
fn served(data_dir: &Path, body: impl FnOnce(&str)) {
    let mut child = Command::new(BINARY)
        .args(["serve", "--shards", "1", "--listen", "127.0.0.1:0", "--set", "admin.listen=none"])
        .arg("--data-dir")
        .arg(data_dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map(Ended)
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let kafka = line.split_whitespace().find_map(|word| word.strip_prefix("kafka=")).unwrap();
    body(kafka);
    let pid = child.0.id().to_string();
    assert!(Command::new("kill").arg(&pid).status().unwrap().success());
    assert!(child.0.wait().unwrap().success());
}

/// What a command prints and says that must fail so.
fn refused(address: &str, args: &[&str], input: &str) -> (String, String) {
    let output = on(address, args, input);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(REFUSED), "{args:?}: {said}");
    (String::from_utf8(output.stdout).unwrap(), said)
}

/// That partition 1 is named with what to do, which is not to wait for space alone.
fn check_said(said: &str) {
    assert!(said.contains("orders-1: offline: ") && said.contains("KAFKA_STORAGE_ERROR"), "{said}");
    let next = said.lines().last().unwrap();
    assert!(next.starts_with("next: ") && next.contains("bring back from a copy"), "{said}");
    assert!(next.contains("log verify"), "{said}");
}

#[test]
fn a_partition_that_is_offline_is_told_at_once_beside_what_is_served() {
    let data_dir = data_dir_of("offline");
    drop(std::fs::remove_dir_all(&data_dir));
    served(&data_dir, |address| {
        ok(on(address, &["topic", "create", "orders", "--partitions", "3"], ""));
        for partition in ["0", "1", "2"] {
            ok(on(address, &["produce", "orders", "-p", partition], "a\nb\nc\n"));
        }
        let doctor = ok(on(address, &["doctor"], ""));
        assert!(doctor.contains("partitions  3 of 3 are served"), "{doctor}");
    });
    std::fs::remove_dir_all(data_dir.join("topics/orders-1")).unwrap();
    served(&data_dir, |address| {
        reads_are_told(address);
        changes_are_told(address);
    });
    drop(std::fs::remove_dir_all(&data_dir));
}

fn reads_are_told(address: &str) {
    let (table, said) = refused(address, &["topic", "describe", "orders"], "");
    check_said(&said);
    let rows = words(&table);
    let ends: Vec<&[&str]> = rows[2..5].iter().map(|row| &row[row.len() - 2..]).collect();
    assert_eq!(ends, [&["0", "3"], &["offline", "offline"], &["0", "3"]], "{table}");
    let (json, _) = refused(address, &["topic", "describe", "orders", "-o", "json"], "");
    let lost = "\"offline\":true,\"start_offset\":null,\"end_offset\":null";
    assert!(json.contains(lost) && json.matches("\"offline\":false").count() == 2, "{json}");

    let (table, said) = refused(address, &["offsets", "orders"], "");
    check_said(&said);
    let expected = [["0", "0", "3", "3"], ["1", "offline", "offline", "-"], ["2", "0", "3", "3"]];
    assert_eq!(words(&table)[1..], expected);
    let (table, _) = refused(address, &["offsets", "orders", "--at", "earliest"], "");
    assert_eq!(words(&table)[1..3], [["0", "0", "-"], ["1", "offline", "-"]]);
    assert_eq!(ok(on(address, &["offsets", "orders", "-p", "0"], "")).lines().count(), 2);

    let (nothing, said) = refused(address, &["consume", "orders", "-p", "1"], "");
    check_said(&said);
    assert_eq!(nothing, "");
    // Some records are not all of them: nobody is to take them for that.
    let (nothing, said) = refused(address, &["consume", "orders"], "");
    check_said(&said);
    assert!(nothing.is_empty() && said.contains("; -p 0 -p 2 reads the others\n"), "{said}");
    let others = ok(on(address, &["consume", "orders", "-p", "0", "-p", "2"], ""));
    assert_eq!(others.lines().count(), 6);

    let (doctor, said) = refused(address, &["doctor"], "");
    let named = "FAILED   partitions  1 of 3 is offline: orders-1\n";
    assert!(doctor.contains(named) && doctor.contains("log verify"), "{doctor}");
    assert!(doctor.contains("ok       skew") && said.contains("1 check failed"), "{doctor}{said}");
}

fn changes_are_told(address: &str) {
    let (_, said) = refused(address, &["produce", "orders", "-p", "1"], "d\n");
    check_said(&said);
    assert!(said.contains("created before and missing now"), "the broker's reason: {said}");
    assert!(said.contains("no record is stored"), "{said}");

    let delete = ["records", "delete", "orders", "--before", "2"];
    let dry = [&delete[..], &["--dry-run"]].concat();
    for args in [&dry[..], &delete] {
        let (table, said) = refused(address, args, "");
        check_said(&said);
        assert_eq!(words(&table)[1..], [["0", "2"], ["2", "2"]]);
        assert!(said.contains("cut short: 2 of 3 partitions, as shown; not 1"), "{said}");
    }
}
