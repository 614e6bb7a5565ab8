//! `docs/protocol.md`, written from the tables.
//!
//! Owns the wording around them and no fact: whatever it lists stands in [`crate::api`] and [`crate::error`].

use alloc::format;
use alloc::string::{String, ToString};

use crate::api::{Api, ApiKey};
use crate::error::{ErrorCode, Retry};

/// The page as Markdown. `cargo xtask` writes it and checks that it is current.
#[must_use]
pub fn protocol_markdown() -> String {
    let mut page = String::from(INTRODUCTION);
    page.push_str("| Key | API | Served | Advertised | Flexible from | What it does |\n");
    page.push_str("|---:|---|---|---|---:|---|\n");
    for api in ApiKey::ALL {
        push_api(&mut page, api.api());
    }
    page.push_str(ERRORS);
    page.push_str("| Code | Name | A client tries again | Meaning |\n");
    page.push_str("|---:|---|---|---|\n");
    for code in ErrorCode::LISTED {
        let retry = match code.retry() {
            Retry::Safe => "yes",
            Retry::Never => "no",
        };
        let (number, name, text) = (code.code(), code.name(), code.text());
        page.push_str(&format!("| {number} | {name} | {retry} | {text} |\n"));
    }
    page
}

fn push_api(page: &mut String, api: &Api) {
    let Api { key, name, text, flexible_from, .. } = api;
    let (Some(served), Some(advertised)) = (api.served, api.advertised) else { return };
    let advertised =
        if advertised == served { "the same".to_string() } else { advertised.to_string() };
    page.push_str(&format!(
        "| {key} | {name} | {served} | {advertised} | {flexible_from} | {text} |\n"
    ));
}

const INTRODUCTION: &str = "\
# The Kafka protocol as Corelog speaks it

This page is generated from the tables in `server/wire/src/api.rs` and `server/wire/src/error.rs`: change them, then run
`cargo xtask docs`.

A request outside these versions closes the connection, as Kafka does it; only ApiVersions answers a version that it does
not know, in version 0 and with error 35, so that the client can ask again. A frame above `socket.request.max.bytes`, and a
body that does not hold what it announces, close the connection too.

Produce 0 to 2 is advertised and refused: older librdkafka switches compression off when these versions are missing from the
list (KAFKA-18659).

## Requests

";

const ERRORS: &str = "
## Error codes

Names and numbers are Kafka 4.4's.

";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_lists_what_is_served_and_nothing_else() {
        let page = protocol_markdown();
        let row = "| 0 | Produce | 3\u{2013}13 | 0\u{2013}13 | 9 | Appends batches of records |\n";
        assert!(page.contains(row));
        assert!(page.contains("| 1 | Fetch | 4\u{2013}18 | the same | 12 |"));
        for api in ApiKey::ALL.iter().filter(|api| api.api().served.is_none()) {
            assert!(!page.contains(&alloc::format!("| {} |", api.name())), "{api}");
        }
        assert!(page.contains("| 6 | NOT_LEADER_OR_FOLLOWER | yes |"));
        let served = ApiKey::ALL.iter().filter(|api| api.api().served.is_some()).count();
        let rows = page.lines().filter(|line| line.starts_with("| ")).count();
        // Two headings, the APIs, the error codes.
        assert_eq!(rows, 2 + served + ErrorCode::LISTED.len());
    }
}
