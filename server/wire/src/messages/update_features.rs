//! UpdateFeatures (key 57): raises or lowers the levels that the whole cluster has settled on.

use alloc::vec::Vec;

use crate::error::ErrorCode;
use crate::field::Text;
use crate::message::message;

message! {
    /// Levels to settle on.
    request(UpdateFeatures) UpdateFeaturesRequest<'a> {
        /// How long the request may take.
        timeout_ms: i32, in 0.., default 60000;
        /// The features.
        feature_updates: Vec<FeatureUpdateKey<'a>>, in 0..;
        /// Only say what would happen.
        validate_only: bool, in 1..;
    }

    /// The level of one feature.
    part FeatureUpdateKey<'a> {
        /// Its name.
        feature: Text<'a>, in 0..;
        /// The level; 0 to drop the feature.
        max_version_level: i16, in 0..;
        /// Whether the level may be lower than before.
        allow_downgrade: bool, in 0..=0;
        /// 1 upgrade, 2 downgrade that loses nothing, 3 downgrade that may lose metadata.
        upgrade_type: i8, in 1.., default 1;
    }

    /// What became of the levels.
    response(UpdateFeatures) UpdateFeaturesResponse<'a> {
        /// How long the client should wait before its next request.
        throttle_time_ms: i32, in 0..;
        /// What went wrong, if anything did: no level has changed then.
        error_code: ErrorCode, in 0..;
        /// What went wrong, in words.
        error_message: Option<Text<'a>>, in 0.., null 0..;
        /// The answers, by feature.
        results: Vec<UpdatableFeatureResult<'a>>, in 0..=1;
    }

    /// What became of one feature.
    part UpdatableFeatureResult<'a> {
        /// Its name.
        feature: Text<'a>, in 0..;
        /// What went wrong, if anything did.
        error_code: ErrorCode, in 0..;
        /// What went wrong, in words.
        error_message: Option<Text<'a>>, in 0.., null 0..;
    }
}
