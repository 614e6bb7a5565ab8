//! Settings of topics that change while clients are served.
//!
//! Owns the administrator who changes them. No setting changes what a client was promised: what `write.caching` leaves to the
//! kernel outlives every kill, and it changes only where power does not fail.

use std::rc::Rc;

use broker::sync::Flag;
use wire::ErrorCode;
use wire::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
};

use super::connection::{Answered, Connection, read, visit};
use super::{LifePlan, World};
use crate::platform::SimMachine;
use crate::prng::OneIn;
use crate::verdict::{Verdict, broken};

/// Of IncrementalAlterConfigs.
const VERSION: i16 = 1;
/// A topic, as the protocol numbers it.
const TOPIC: i8 = 2;
/// Sets a value.
const SET: i8 = 0;

/// Changes settings until `is_over`.
pub(super) async fn alter(
    world: Rc<World>,
    machine: SimMachine,
    plan: LifePlan,
    is_over: Flag,
) -> Verdict {
    let act = async |connection: &mut Connection| alter_one(&world, connection, plan).await;
    visit((&world, &machine, plan), is_over, (5, 1_500), act).await
}

async fn alter_one(world: &World, connection: &mut Connection, plan: LifePlan) -> Verdict {
    let topic = {
        let history = world.history.borrow();
        world.chance(|prng| Rc::clone(&prng.pick(&history.topics).name))
    };
    let (name, value) = draw(world);
    let config =
        AlterableConfig { name: name.into(), config_operation: SET, value: Some(value.into()) };
    let resource = AlterConfigsResource {
        resource_type: TOPIC,
        resource_name: (&*topic).into(),
        configs: vec![config],
    };
    let request =
        IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    if !plan.is_last && world.chance(|prng| prng.happens(OneIn(8))) {
        connection.send(VERSION, &request, Answered::Yes);
        return Ok(());
    }
    let Some(frame) = connection.call(VERSION, &request).await? else { return Ok(()) };
    let answer: IncrementalAlterConfigsResponse<'_> = read(VERSION, &frame)?;
    match answer.responses.first().map(|altered| altered.error_code) {
        Some(ErrorCode::None) => {
            world.count(|stats| stats.alterations += 1);
            Ok(())
        }
        Some(_) if plan.disk.may_refuse_changes() => Ok(()),
        other => {
            let detail = format!("{topic}: {name} = {value}: {other:?}");
            broken("refusals are explained by faults", detail)
        }
    }
}

/// A setting and its value. What is acknowledged from memory is safe only where power does not fail.
fn draw(world: &World) -> (&'static str, &'static str) {
    world.chance(|prng| {
        if world.config.caches && prng.coin() {
            return ("write.caching", if prng.coin() { "true" } else { "false" });
        }
        ("segment.ms", *prng.pick(&["1000", "5000", "604800000"]))
    })
}
