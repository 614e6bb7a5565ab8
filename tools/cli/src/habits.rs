//! Flags that people know from Kafka's own tools, and what stands for each here.
//!
//! Owns the list, and what is printed where the command line is wrong. It accepts nothing by itself: two ways to say one thing
//! would have to be kept for ever.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::exit::Exit;

/// Flags of Kafka's tools that no command of ours has, or not this one, with what to do instead.
const HABITS: &[(&[&str], &str)] = &[
    (
        &["--topic"],
        "a topic is named without a flag, behind the command: corelog consume TOPIC, corelog topic create TOPIC",
    ),
    (
        &["--from-beginning"],
        "leave it out: consume starts at the beginning by itself; --offset says where else, end for what is yet to come",
    ),
    (
        &["--group", "--group-id"],
        "leave it out: there are no consumer groups yet, and each consume reads by itself; --offset PLACE says where it starts",
    ),
    (
        &["--bootstrap-server", "--broker-list", "--bootstrap-controller", "--zookeeper"],
        "commands that ask a node take -b HOST:PORT; serve takes its own address with --listen IP:PORT, and the others ask \
         no node",
    ),
    (
        &["--create", "--list", "--describe", "--alter", "--delete"],
        "what is to be done is a word, not a flag: corelog topic create TOPIC, corelog config describe --topic TOPIC",
    ),
    (
        &["--add-config"],
        "one -c KEY=VALUE for each option: corelog config alter --topic TOPIC -c KEY=VALUE",
    ),
    (
        &["--delete-config"],
        "one --reset KEY for each option: corelog config alter --topic TOPIC --reset KEY",
    ),
    (
        &["--entity-type", "--entity-name", "--entity-default"],
        "say whose options: --topic NAME, --node ID or --all-nodes",
    ),
    (
        &["--property", "--formatter-property", "--reader-property", "--formatter"],
        "consume takes --print FIELD,... and --key-separator TEXT, produce --key-separator TEXT, --null TEXT and --header \
         KEY=VALUE",
    ),
    (
        &[
            "--command-config",
            "--command-property",
            "--consumer.config",
            "--consumer-config",
            "--consumer-property",
            "--producer.config",
            "--producer-config",
            "--producer-property",
        ],
        "leave it out: this client is set by its flags alone (--help lists them), and has neither users nor TLS yet",
    ),
    (
        &["--offset-json-file"],
        "name them on the command line: corelog records delete TOPIC --partition N --before OFFSET",
    ),
    (&["--topic-partitions"], "corelog offsets TOPIC --partition N"),
    (
        &["--time"],
        "corelog offsets TOPIC --at PLACE: ends, earliest, latest, max-timestamp or a time",
    ),
    (
        &["--files", "--print-data-log", "--deep-iteration"],
        "files stand without a flag: corelog log dump PATH",
    ),
    (&["--override"], "corelog serve --set KEY=VALUE"),
];

fn habit_of(flag: &str) -> Option<&'static str> {
    // As it was typed, the value behind `=` included.
    let name = flag.split('=').next().unwrap_or(flag);
    HABITS.iter().find(|(flags, _)| flags.contains(&name)).map(|(_, advice)| *advice)
}

/// What to do instead, where the command line is wrong by a flag of Kafka's. Takes out the guesses that clap made.
fn advice(error: &mut clap::Error) -> Option<&'static str> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    let advice = habit_of(flag)?;
    // The usage is that of the flag which it took this one for.
    for guess in [ContextKind::SuggestedArg, ContextKind::Suggested, ContextKind::Usage] {
        error.remove(guess);
    }
    Some(advice)
}

/// Prints help where it was asked for, or what is wrong with the command line; and ends.
pub(crate) fn exit(mut error: clap::Error) -> ! {
    let Some(advice) = advice(&mut error) else { error.exit() };
    // Where standard error is closed there is nobody to tell.
    drop(error.print());
    eprintln!("next: {advice}");
    std::process::exit(i32::from(Exit::Usage as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_of_kafkas_is_met_with_what_stands_for_it_and_no_guess() {
        let check = |line: &str, expected: Option<&str>| {
            let words = line.split_whitespace();
            let mut error = crate::command_line().try_get_matches_from(words).unwrap_err();
            let found = advice(&mut error);
            let is_so = match (found, expected) {
                (Some(found), Some(expected)) => found.contains(expected),
                (found, expected) => found == expected,
            };
            assert!(is_so, "{line}: {found:?}");
            let text = error.render().to_string();
            assert_eq!(text.contains("tip:"), expected.is_none(), "{line}: {text}");
        };
        check("corelog consume orders --group g", Some("no consumer groups yet"));
        check("corelog consume orders --group=g", Some("no consumer groups yet"));
        check("corelog consume orders --from-beginning", Some("leave it out"));
        check("corelog consume --topic orders", Some("corelog consume TOPIC"));
        check("corelog consume --bootstrap-server b:1 --topic orders", Some("consume TOPIC"));
        check("corelog config explain node.id --bootstrap-server b:1", Some("ask no node"));
        check("corelog serve --bootstrap-server b:1", Some("--listen"));
        check("corelog topic --create --topic orders", Some("corelog topic create TOPIC"));
        check("corelog config alter --entity-type topics", Some("--topic NAME"));
        check("corelog produce orders --property parse.key=true", Some("--key-separator"));
        check("corelog consume orders --partitio 3", None);
        check("corelog consume orders --quite-another", None);
    }

    #[test]
    fn what_is_advised_is_on_the_command_line() {
        for (flags, advice) in HABITS {
            for part in advice.split("corelog ").skip(1) {
                let words = part.split([',', ':', ';']).next().unwrap_or_default();
                let number = |word| if ["N", "OFFSET"].contains(&word) { "1" } else { word };
                let words = words.split_whitespace().map(number).map(|word| match word {
                    "KEY=VALUE" => "k=v",
                    word => word,
                });
                let line = std::iter::once("corelog").chain(words.map(|word| match word {
                    "PLACE" => "ends",
                    word => word,
                }));
                let parsed = crate::command_line().try_get_matches_from(line);
                assert!(parsed.is_ok(), "{flags:?}: {part}: {}", parsed.unwrap_err());
            }
        }
    }
}
