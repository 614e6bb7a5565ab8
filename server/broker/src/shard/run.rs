//! The life of a data core: bind, open the logs, serve, stop.
//!
//! Owns the order of these steps; the control executor owns their timing.

use crate::calls::{CoreStop, Reply, Request};
use crate::mesh_call::{Caller, Message};
use crate::platform::{Mesh, Platform};
use crate::shard::Shard;
use crate::shard::listening::Listening;
use crate::shard::serving::serve_mesh;

/// Runs a data core until the control executor stops it.
pub async fn run_data_core<P: Platform, M: Mesh<Message>>(platform: P, mesh: M) {
    let caller = Caller::new(platform.clone(), mesh.clone());
    let listening = Listening::default();
    while let Some((from, message)) = mesh.receive().await {
        let Message::Call(id, request) = message else {
            tracing::error!("a data core got an answer before it asked");
            continue;
        };
        match request {
            Request::Listen(at) => {
                let bound = listening.bind(&platform, at).await;
                caller.answer(from, id, Reply::Listening(bound)).await;
            }
            Request::Open(state) => {
                let opening = Shard::open(platform.clone(), caller.clone(), state, listening);
                return match opening.await {
                    Ok(shard) => {
                        let opened = Reply::Opened(Ok(shard.partition_count()));
                        caller.answer(from, id, opened).await;
                        serve_mesh(shard, mesh).await;
                    }
                    Err(detail) => caller.answer(from, id, Reply::Opened(Err(detail))).await,
                };
            }
            // The node gives up before this core has opened anything.
            Request::Drain => caller.answer(from, id, Reply::Done).await,
            Request::Stop => {
                let stopped = Reply::Stopped(CoreStop::default());
                return caller.answer(from, id, stopped).await;
            }
            other => tracing::error!("a data core was asked before it was opened: {other:?}"),
        }
    }
}
