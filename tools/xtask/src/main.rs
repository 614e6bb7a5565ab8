//! `cargo xtask`: the rules of the design, as a program that fails.
//!
//! Owns the two verbs. `check` runs every rule and prints one line for each; `docs` writes the generated pages, which
//! `check` compares. It never changes a source file.

mod docs;
mod report;
mod rules;
mod steps;
#[cfg(test)]
mod testing;
mod workspace;

use std::process::ExitCode;

use workspace::Workspace;

const USAGE: &str = "\
cargo xtask check [--quick]   every rule of the design; --quick leaves out rustfmt and clippy
cargo xtask docs              writes the generated pages (docs/protocol.md, the option table of docs/operations.md)";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["check"] => check(&steps::ALL),
        ["check", "--quick"] => check(&[]),
        ["docs"] => write_docs(),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn check(steps: &[steps::Step]) -> ExitCode {
    let workspace = match Workspace::load() {
        Ok(workspace) => workspace,
        Err(error) => return refuse(&error),
    };
    let mut report = report::Report::new();
    for rule in rules::ALL {
        report.add(rule.name, rule.promise, rule.cure, &(rule.find)(&workspace));
    }
    report.add(
        "generated docs",
        "the generated pages say what the code says",
        "run `cargo xtask docs` and commit what it wrote",
        &docs::stale(&workspace.root),
    );
    for step in steps {
        report.add(step.name, step.promise, step.cure, &step.run(&workspace.root));
    }
    report.finish()
}

fn write_docs() -> ExitCode {
    let written = Workspace::load().and_then(|workspace| docs::write(&workspace.root));
    match written {
        Ok(paths) => {
            for path in paths {
                println!("wrote {path}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => refuse(&error),
    }
}

fn refuse(error: &workspace::LoadError) -> ExitCode {
    eprintln!("xtask: {error}");
    ExitCode::from(2)
}
