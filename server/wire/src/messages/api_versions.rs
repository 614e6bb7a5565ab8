//! ApiVersions (key 18): what the server can do. Every connection opens with it.

use alloc::vec::Vec;

use crate::api::ApiKey;
use crate::decode::BodyError;
use crate::error::ErrorCode;
use crate::field::Text;
use crate::message::{Message, message};

message! {
    /// Asks which APIs and versions are served.
    request(ApiVersions) ApiVersionsRequest<'a> {
        /// The client library.
        client_software_name: Text<'a>, in 3..;
        /// Its version.
        client_software_version: Text<'a>, in 3..;
        /// The cluster that the client believes to talk to (KIP-1242).
        cluster_id: Option<Text<'a>>, in 5.., null 5..;
        /// The node that the client believes to talk to; -1 where it does not know.
        node_id: i32, in 5.., default -1;
    }

    /// The APIs and versions served.
    response(ApiVersions) ApiVersionsResponse<'a> {
        /// [`ErrorCode::UnsupportedVersion`] when the request came in a version that is not served.
        error_code: ErrorCode, in 0..;
        /// One entry for each API.
        api_keys: Vec<ApiVersion>, in 0..;
        /// How long the client should wait before its next request.
        throttle_time_ms: i32, in 1..;
        /// Features that this node supports.
        supported_features: Vec<SupportedFeatureKey<'a>>, in 3.., tag 0;
        /// Epoch of the finalized features; -1 where it is unknown.
        finalized_features_epoch: i64, in 3.., tag 1, default -1;
        /// Features that are on in the whole cluster.
        finalized_features: Vec<FinalizedFeatureKey<'a>>, in 3.., tag 2;
        /// A relic of ZooKeeper; always false.
        zk_migration_ready: bool, in 3.., tag 3;
    }

    /// The versions of one API.
    part ApiVersion {
        /// Its key.
        api_key: i16, in 0..;
        /// The lowest version.
        min_version: i16, in 0..;
        /// The highest version.
        max_version: i16, in 0..;
    }

    /// The levels of a feature that a node supports.
    part SupportedFeatureKey<'a> {
        /// Its name.
        name: Text<'a>, in 3..;
        /// The lowest level.
        min_version: i16, in 3..;
        /// The highest level.
        max_version: i16, in 3..;
    }

    /// The levels of a feature that the cluster has settled on.
    part FinalizedFeatureKey<'a> {
        /// Its name.
        name: Text<'a>, in 3..;
        /// The highest level.
        max_version_level: i16, in 3..;
        /// The lowest level.
        min_version_level: i16, in 3..;
    }
}

impl ApiVersion {
    /// What is advertised of `api`; `None` for one that is not served.
    #[must_use]
    pub const fn of(api: ApiKey) -> Option<Self> {
        let row = api.api();
        match row.advertised {
            Some(versions) => Some(Self {
                api_key: row.key,
                min_version: versions.min,
                max_version: versions.max,
            }),
            None => None,
        }
    }
}

impl<'a> ApiVersionsResponse<'a> {
    /// The answer that the table gives.
    #[must_use]
    pub fn advertised() -> Self {
        let api_keys = ApiKey::ALL.iter().copied().filter_map(ApiVersion::of).collect();
        Self { api_keys, ..Self::default() }
    }

    /// The answer to a version of ApiVersions that is not served; to be written in version 0.
    #[must_use]
    pub fn unsupported() -> Self {
        Self {
            error_code: ErrorCode::UnsupportedVersion,
            api_keys: ApiVersion::of(ApiKey::ApiVersions).into_iter().collect(),
            ..Self::default()
        }
    }

    /// Reads the answer to a request of `version`, which comes in version 0 when the server does not serve that.
    pub fn decode_answer(version: i16, body: &'a [u8]) -> Result<Self, BodyError> {
        let unsupported = ErrorCode::UnsupportedVersion.code().to_be_bytes();
        let version = if body.starts_with(&unsupported) { 0 } else { version };
        Self::decode(version, body)
    }
}
