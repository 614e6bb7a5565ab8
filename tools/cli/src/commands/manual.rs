//! `corelog completions` and `corelog man`: what a shell and `man` are told of the command line.
//!
//! Owns nothing but where the texts go: they are written from the command line's own definition, so that they cannot differ.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::exit::{Failure, Outcome};
use crate::output::{Format, Output};

const NAME: &str = "corelog";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  corelog completions bash > /etc/bash_completion.d/corelog
  corelog completions zsh > _corelog
  corelog completions fish > ~/.config/fish/completions/corelog.fish";

const MAN_EXAMPLES: &str = "\
Examples:
  corelog man > corelog.1
  corelog man --dir /usr/local/share/man/man1";

/// Arguments of `completions`.
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Arguments of `man`.
#[derive(Debug, Args)]
#[command(after_help = MAN_EXAMPLES)]
pub(crate) struct ManArgs {
    /// Write a page for each command into this directory instead of the main page on standard output
    #[arg(short, long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Prints the script of a shell.
pub(crate) fn completions(args: &CompletionsArgs, mut command: Command) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, NAME, &mut script);
    print(&script)
}

/// Prints the page, or writes all of them.
pub(crate) fn man(args: &ManArgs, command: Command) -> Outcome {
    let Some(dir) = &args.dir else {
        return print(&page(command).map_err(|error| Failure::io("page", &error))?);
    };
    std::fs::create_dir_all(dir).map_err(|error| Failure::io(dir.display(), &error))?;
    clap_mangen::generate_to(command, dir).map_err(|error| Failure::io(dir.display(), &error))
}

fn page(command: Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    Ok(page)
}

fn print(text: &[u8]) -> Outcome {
    let mut output = Output::new(Format::Table);
    output.with(|sink: &mut dyn Write| sink.write_all(text))?;
    output.flush()
}
