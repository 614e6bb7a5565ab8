//! What the tests that run the binary share.

use std::process::Command;

/// The binary in an environment that sets none of its options: a node refuses every `CORELOG_` variable that is none.
pub(crate) fn corelog() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_corelog"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CORELOG_") {
            command.env_remove(name);
        }
    }
    command
}
