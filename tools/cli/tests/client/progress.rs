//! Progress of long work: shown to people, and to nobody else.

use super::*;

/// The output of `command` on a terminal of its own.
fn on_a_terminal(command: &str) -> String {
    // util-linux' script makes the terminal, and copies what is written to it.
    let output = Command::new("script")
        .args(["--quiet", "--return", "--command", command, "/dev/null"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    text
}

#[test]
fn progress_is_shown_on_a_terminal_only() {
    let address = &node().kafka;
    // Input that comes in two parts: at the second one the work has taken long enough to be shown.
    let produce =
        format!("(echo first; sleep 1.2; seq 20000) | {BINARY} produce progress-test -b {address}");
    let shown = on_a_terminal(&produce);
    assert!(shown.contains("B/s"), "{shown}");
    assert!(shown.contains("corelog: progress-test: 20001 records"), "{shown}");
    // The same with errors going to a file.
    let file = data_dir_of("progress").with_extension("txt");
    on_a_terminal(&format!("({produce}) 2>{}", file.display()));
    let said = std::fs::read_to_string(&file).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("corelog: progress-test: 20001 records"), "{said}");
    std::fs::remove_file(&file).unwrap();
}
