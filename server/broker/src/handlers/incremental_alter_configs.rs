//! IncrementalAlterConfigs (key 44), versions 0 and 1: single changes to what is set for a topic or a broker.
//!
//! A change sets, deletes, or lets items join or leave a list. All changes to one resource are made, or none.

use cluster::{ConfigChange, ConfigEdit, ConfigOperation};
use wire::ErrorCode;
use wire::incremental_alter_configs::{
    AlterConfigsResource, AlterConfigsResourceResponse, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
};

use crate::handlers::{Answer, Call, config_resource};
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};

/// Has the coordinator change them.
pub(super) async fn handle<'a, P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &IncrementalAlterConfigsRequest<'a>,
) -> Answer<IncrementalAlterConfigsResponse<'a>> {
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
    Answer::with_errors(IncrementalAlterConfigsResponse { responses, ..Default::default() }, errors)
}

fn change(asked: &AlterConfigsResource<'_>) -> ConfigChange {
    let edits = asked.configs.iter().map(|config| ConfigEdit {
        name: config.name.to_string(),
        operation: ConfigOperation::from_code(config.config_operation),
        value: config.value.as_ref().map(ToString::to_string),
    });
    ConfigChange::Edit(edits.collect())
}
