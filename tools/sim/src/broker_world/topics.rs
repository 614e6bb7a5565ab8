//! The topics of the world, as an administrator makes and finds them.
//!
//! Owns the creation of those that last. Once a creation was acknowledged the topic is there in all lives, under one id.

use std::rc::Rc;
use std::time::Duration;

use wire::ErrorCode;
use wire::create_topics::{
    CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, CreateTopicsResponse,
};
use wire::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponse};

use super::connection::{Connection, read};
use super::{LifePlan, World};
use crate::platform::SimMachine;
use crate::verdict::{Verdict, broken};

/// Attempts to make a topic on a good disk.
const ATTEMPTS_MAX: u32 = 100;

/// Makes what is not there yet, and looks for what is.
pub(super) async fn ensure(world: &Rc<World>, machine: &SimMachine, plan: LifePlan) -> Verdict {
    let count = world.history.borrow().topics.len();
    for topic in 0..count {
        let mut attempts = 0;
        while !ensure_one(world, machine, plan, topic).await? {
            attempts += 1;
            if attempts > ATTEMPTS_MAX {
                return broken("topics can be created", format!("topic {topic}"));
            }
            world.executor.sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

fn config(name: &'static str, value: &str) -> CreatableTopicConfig<'static> {
    CreatableTopicConfig { name: name.into(), value: Some(value.to_owned().into()) }
}

/// True once the topic is known.
async fn ensure_one(
    world: &Rc<World>,
    machine: &SimMachine,
    plan: LifePlan,
    topic: usize,
) -> Verdict<bool> {
    let (name, partitions, known) = {
        let history = world.history.borrow();
        let topic = &history.topics[topic];
        (Rc::clone(&topic.name), topic.partitions, topic.id)
    };
    let Some(mut connection) = Connection::open(world, machine, plan) else { return Ok(false) };
    if known.is_none() {
        let request = CreateTopicsRequest {
            topics: vec![CreatableTopic {
                name: (&*name).into(),
                num_partitions: partitions,
                replication_factor: 1,
                configs: vec![
                    config("segment.ms", &world.config.segment_ms.to_string()),
                    config("write.caching", &world.config.caches.to_string()),
                    config("retention.bytes", &world.config.retention_bytes.to_string()),
                ],
                ..Default::default()
            }],
            timeout_ms: 10_000,
            ..Default::default()
        };
        let Some(frame) = connection.call(7, &request).await? else { return Ok(false) };
        let answer: CreateTopicsResponse<'_> = read(7, &frame)?;
        let made = answer.topics.first().map(|made| made.error_code);
        match made {
            Some(ErrorCode::None | ErrorCode::TopicAlreadyExists) => {}
            other => return broken("topics can be created", format!("{name}: {other:?}")),
        }
    }
    let asked = MetadataRequestTopic { name: Some((&*name).into()), ..Default::default() };
    let request = MetadataRequest { topics: Some(vec![asked]), ..Default::default() };
    let Some(frame) = connection.call(10, &request).await? else { return Ok(false) };
    let answer: MetadataResponse<'_> = read(10, &frame)?;
    let Some(found) = answer.topics.first() else { return Ok(false) };
    if found.error_code != ErrorCode::None {
        return broken(
            "a topic that was created is there",
            format!("{name}: {:?}", found.error_code),
        );
    }
    let count = i32::try_from(found.partitions.len()).expect("a few");
    let is_same = known.is_none_or(|known| known == found.topic_id) && count == partitions;
    if !is_same {
        let detail =
            format!("{name}: {} with {count} partitions, known as {known:?}", found.topic_id);
        return broken("a topic stays what it is", detail);
    }
    world.history.borrow_mut().topics[topic].id = Some(found.topic_id);
    Ok(true)
}
