//! ApiVersions (key 18), versions 0 to 5: what this broker can do.
//!
//! Every connection opens with it, and a client newer than the broker opens with a version it does not know: that one alone is
//! answered in version 0 with error 35 and the range of key 18, so that the client tries again lower.

use wire::ErrorCode;
use wire::api_versions::{ApiVersionsRequest, ApiVersionsResponse};

use crate::handlers::Answer;

/// Answers from the one table; refuses a client that names itself in a way that no log could show.
pub(super) fn handle(
    version: i16,
    request: &ApiVersionsRequest<'_>,
) -> Answer<ApiVersionsResponse<'static>> {
    let is_named = version < 3
        || (is_plain_name(&request.client_software_name)
            && is_plain_name(&request.client_software_version));
    if !is_named {
        let error_code = ErrorCode::InvalidRequest;
        return Answer::failed(
            ApiVersionsResponse { error_code, ..Default::default() },
            error_code,
        );
    }
    Answer::ok(ApiVersionsResponse::advertised())
}

/// KIP-511: letters and digits, with `-` and `.` between them.
fn is_plain_name(name: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let ends = [name.chars().next(), name.chars().next_back()];
    ends.iter().all(|end| end.is_some_and(|c| c.is_ascii_alphanumeric()))
        && name.chars().all(is_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_letters_and_digits_with_dots_and_dashes_between() {
        for (name, expected) in [
            ("apache-kafka-java", true),
            ("4.4.0", true),
            ("a", true),
            ("", false),
            ("-a", false),
            ("a.", false),
            ("a b", false),
            ("ünï", false),
        ] {
            assert_eq!(is_plain_name(name), expected, "{name}");
        }
    }
}
