//! ApiVersions (key 18), versions 0 to 5: what this broker can do.
//!
//! Every connection opens with it, and a client newer than the broker opens with a version it does not know: that one alone is
//! answered in version 0 with error 35 and the range of key 18, so that the client tries again lower.

use cluster::{FEATURE_LEVEL_KNOWN, FEATURE_LEVEL_MIN, FEATURE_NAME, Image};
use record::NodeId;
use wire::ErrorCode;
use wire::api_versions::{
    ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};

use crate::handlers::metadata::controller;
use crate::handlers::{Answer, Call};
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};

/// Answers from the one table; refuses a client that names itself in a way that no log could show.
pub(super) fn handle<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &ApiVersionsRequest<'_>,
) -> Answer<ApiVersionsResponse<'static>> {
    let is_named = call.version < 3
        || (is_plain_name(&request.client_software_name)
            && is_plain_name(&request.client_software_version));
    if !is_named {
        let error_code = ErrorCode::InvalidRequest;
        return Answer::failed(
            ApiVersionsResponse { error_code, ..Default::default() },
            error_code,
        );
    }
    let image = call.shard.image();
    if let Some(error_code) = wrong_address(call, &image, request) {
        return Answer::failed(
            ApiVersionsResponse { error_code, ..Default::default() },
            error_code,
        );
    }
    // Kafka's epoch of the features is the offset of the metadata that they are known by.
    let finalized_features_epoch = image.next_offset().0.saturating_sub(1);
    Answer::ok(ApiVersionsResponse {
        supported_features: vec![SupportedFeatureKey {
            name: FEATURE_NAME.into(),
            min_version: level(FEATURE_LEVEL_MIN),
            max_version: level(FEATURE_LEVEL_KNOWN),
        }],
        finalized_features_epoch,
        finalized_features: vec![FinalizedFeatureKey {
            name: FEATURE_NAME.into(),
            max_version_level: level(image.feature_level()),
            min_version_level: level(image.feature_level()),
        }],
        ..ApiVersionsResponse::advertised()
    })
}

/// KIP-1242: the client believes to talk to another cluster, or to another node of this one. It names both or neither.
fn wrong_address<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    image: &Image,
    request: &ApiVersionsRequest<'_>,
) -> Option<ErrorCode> {
    let names_node = request.node_id != NodeId::NONE.0;
    let asked = match request.cluster_id.as_deref() {
        Some(asked) if names_node => asked,
        None if !names_node => return None,
        _ => return Some(ErrorCode::InvalidRequest),
    };
    let is_own_cluster = image.cluster_id().is_none_or(|own| own.as_ref() == asked);
    let seen = controller(call, image);
    let is_own_node = seen == NodeId::NONE || request.node_id == seen.0;
    (!is_own_cluster || !is_own_node).then_some(ErrorCode::RebootstrapRequired)
}

fn level(level: u16) -> i16 {
    i16::try_from(level).unwrap_or(i16::MAX)
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
