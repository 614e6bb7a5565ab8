//! What the tests share: nodes to speak to, a client to speak with, and short forms of the common requests.

mod batches;
mod client;
mod faulty;
mod node;
mod requests;

pub(crate) use batches::{
    TIME, batch, batch_of, changed, offsets_of, plain, record, sequenced, values_of,
};
pub(crate) use client::{Client, Frame, http_get};
pub(crate) use node::{Node, PATIENCE, serve_if_child};
pub(crate) use requests::{
    Topic, fetch_of, fetched, list_of, listed, produce_of, produced, produced_all,
};
