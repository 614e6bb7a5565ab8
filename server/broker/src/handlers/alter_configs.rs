//! AlterConfigs (key 33), versions 0 to 2: replaces all that is set for a topic or a broker.
//!
//! What is not named goes back to its default. Old clients have nothing else; newer ones use IncrementalAlterConfigs.

use cluster::ConfigChange;
use wire::ErrorCode;
use wire::alter_configs::{
    AlterConfigsRequest, AlterConfigsResource, AlterConfigsResourceResponse, AlterConfigsResponse,
};

use crate::handlers::{Answer, Call, config_resource};
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};

/// Has the coordinator change them.
pub(super) async fn handle<'a, P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &AlterConfigsRequest<'a>,
) -> Answer<AlterConfigsResponse<'a>> {
    let asked = request.resources.iter();
    let asked = asked.map(|asked| (asked.resource_type, &*asked.resource_name, change(asked)));
    let results = config_resource::alter(call, asked.collect(), request.validate_only).await;
    let responses = request.resources.iter().zip(results).map(|(asked, result)| {
        let (error_code, error_message) = config_resource::told(result);
        AlterConfigsResourceResponse {
            error_code,
            error_message,
            resource_type: asked.resource_type,
            resource_name: asked.resource_name.clone(),
        }
    });
    let responses: Vec<_> = responses.collect();
    let errors: Vec<ErrorCode> = responses.iter().map(|response| response.error_code).collect();
    Answer::with_errors(AlterConfigsResponse { responses, ..Default::default() }, errors)
}

fn change(asked: &AlterConfigsResource<'_>) -> ConfigChange {
    let value = |value: &wire::Text<'_>| value.to_string();
    let configs = asked.configs.iter();
    let values = configs.map(|config| (config.name.to_string(), config.value.as_ref().map(value)));
    ConfigChange::Replace(values.collect())
}
