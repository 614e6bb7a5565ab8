//! What configurations belong to, as requests name it: a kind and a name.
//!
//! Owns the numbers of the kinds, who may change them, and the refusal of kinds that nothing here is configured by. Describing
//! and altering share it.

use cluster::{AlterConfigs, ConfigChange, ConfigTarget, Intent, node_of_endpoint};
use record::NodeId;
use wire::{ErrorCode, Text};

use crate::context::{Operation, Resource};
use crate::error_code::ToErrorCode;
use crate::handlers::Call;
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};

/// A topic, by name.
pub(super) const TOPIC: i8 = 2;
/// A broker, by id; all of them, by no name.
pub(super) const BROKER: i8 = 4;
/// The loggers of a broker's process.
pub(super) const BROKER_LOGGER: i8 = 8;
/// What clients report about themselves.
pub(super) const CLIENT_METRICS: i8 = 16;
/// A group.
pub(super) const GROUP: i8 = 32;

/// Why a resource is not described or altered.
pub(super) type Refusal = (ErrorCode, String);

/// What became of a change, as both responses tell it.
pub(super) fn told(result: Result<(), Refusal>) -> (ErrorCode, Option<Text<'static>>) {
    match result {
        Ok(()) => (ErrorCode::None, None),
        Err((error_code, message)) => (error_code, Some(message.into())),
    }
}

/// What a kind and a name stand for.
pub(super) fn target<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    kind: i8,
    name: &str,
) -> Result<ConfigTarget, Refusal> {
    match kind {
        TOPIC => Ok(ConfigTarget::Topic(name.to_owned())),
        BROKER if name.is_empty() => Ok(ConfigTarget::AllNodes),
        BROKER => {
            let own = call.shard.state().node_id;
            // As it is written, not 01 or +1: each name is answered once, and there is one for each broker.
            let asked: Option<i32> = name.parse().ok().filter(|id: &i32| id.to_string() == name);
            if asked.map(|id| node_of_endpoint(NodeId(id))) == Some(own) {
                return Ok(ConfigTarget::Node(own));
            }
            let name = cluster::excerpt(name);
            Err((ErrorCode::InvalidRequest, format!("broker {name}: this is broker {own}")))
        }
        other => Err((ErrorCode::InvalidRequest, unconfigured(other))),
    }
}

fn unconfigured(kind: i8) -> String {
    match kind {
        BROKER_LOGGER => {
            "loggers cannot be changed while the node runs; set trace.filter".to_owned()
        }
        CLIENT_METRICS => "client metrics are not collected here".to_owned(),
        GROUP => "groups are not supported yet".to_owned(),
        other => format!("resource type {other} has no configuration"),
    }
}

/// [`target`], for someone who may change it.
fn alterable<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    kind: i8,
    name: &str,
) -> Result<ConfigTarget, Refusal> {
    let target = target(call, kind, name)?;
    let (resource, error) = match &target {
        ConfigTarget::Topic(name) => (Resource::Topic(name), ErrorCode::TopicAuthorizationFailed),
        ConfigTarget::Node(_) | ConfigTarget::AllNodes => {
            (Resource::Cluster, ErrorCode::ClusterAuthorizationFailed)
        }
    };
    if !call.context.may(Operation::AlterConfigs, resource) {
        return Err((error, "not allowed to alter this configuration".to_owned()));
    }
    Ok(target)
}

/// Has the coordinator make the changes; one result a resource, in their order.
pub(super) async fn alter<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    resources: Vec<(i8, &str, ConfigChange)>,
    validate_only: bool,
) -> Vec<Result<(), Refusal>> {
    let mut allowed = Vec::new();
    let mut results = Vec::with_capacity(resources.len());
    for (kind, name, change) in resources {
        let target = alterable(call, kind, name);
        results.push(target.map(|target| allowed.push((target, change))));
    }
    let intent = if validate_only { Intent::ValidateOnly } else { Intent::Apply };
    let alteration = AlterConfigs { resources: allowed, intent };
    let altered = call.shard.alter_configs(alteration, call.memory.clone()).await;
    let mut altered = match altered {
        Ok(outcomes) => outcomes
            .into_iter()
            .map(|outcome| outcome.map_err(|refusal| (refusal.error_code(), refusal.to_string())))
            .collect(),
        Err(error) => {
            let refused = |_: &()| Err((error.error_code(), error.to_string()));
            results.iter().flatten().map(refused).collect::<Vec<_>>()
        }
    }
    .into_iter();
    for result in &mut results {
        if result.is_ok() {
            *result = altered.next().expect("one outcome for each resource that was asked for");
        }
    }
    results
}
