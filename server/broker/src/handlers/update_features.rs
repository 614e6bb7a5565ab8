//! UpdateFeatures (key 57), versions 0 to 2: the level that the cluster has settled on.
//!
//! All levels change, or none; 2 leaves out the results by feature, which say nothing more. There is one feature, ours: see
//! `cluster::FEATURE_NAME`.

use cluster::{FeatureUpdate, Intent, UpdateFeatures};
use wire::ErrorCode;
use wire::update_features::{
    FeatureUpdateKey, UpdatableFeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse,
};

use crate::context::{Operation, Resource};
use crate::error_code::ToErrorCode;
use crate::handlers::{Answer, Call};
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};

/// Kafka's number of an upgrade.
const UPGRADE: i8 = 1;
/// Kafka's number of a downgrade that loses nothing.
const SAFE_DOWNGRADE: i8 = 2;

/// Has the coordinator settle on the levels.
pub(super) async fn handle<'a, P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &UpdateFeaturesRequest<'a>,
) -> Answer<UpdateFeaturesResponse<'a>> {
    if !call.context.may(Operation::Alter, Resource::Cluster) {
        let message = "not allowed to alter the cluster".to_owned();
        return refuse(ErrorCode::ClusterAuthorizationFailed, message);
    }
    let updates = request.feature_updates.iter().map(|asked| update(call.version, asked));
    let intent = if request.validate_only { Intent::ValidateOnly } else { Intent::Apply };
    let update = UpdateFeatures { updates: updates.collect(), intent };
    match call.shard.update_features(update).await {
        Err(error) => refuse(error.error_code(), error.to_string()),
        Ok(Err(refusal)) => refuse(refusal.error_code(), refusal.to_string()),
        Ok(Ok(())) => {
            let features = request.feature_updates.iter();
            let results = features.map(|asked| UpdatableFeatureResult {
                feature: asked.feature.clone(),
                ..Default::default()
            });
            Answer::ok(UpdateFeaturesResponse { results: results.collect(), ..Default::default() })
        }
    }
}

fn update(version: i16, asked: &FeatureUpdateKey<'_>) -> FeatureUpdate {
    let upgrade_type = match version {
        0 if asked.allow_downgrade => SAFE_DOWNGRADE,
        0 => UPGRADE,
        _ => asked.upgrade_type,
    };
    let (name, level) = (asked.feature.to_string(), asked.max_version_level);
    FeatureUpdate { name, level, upgrade_type }
}

fn refuse<'a>(error_code: ErrorCode, message: String) -> Answer<UpdateFeaturesResponse<'a>> {
    let error_message = Some(message.into());
    let body = UpdateFeaturesResponse { error_code, error_message, ..Default::default() };
    Answer::failed(body, error_code)
}
