//! A node in memory: its data cores and its control executor, started and stopped.
//!
//! Owns the start. Each core is a broker of its own to clients, so that a test chooses by which it comes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use broker::Stopped;
use broker::config::{Config, Sources};
use broker::mutant::Mutant;
use record::{BatchBuilder, Codec, NewRecord, Timestamp};
use sim::platform::{NodePlan, SimNode, SimSocket};
use wire::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponse};

use crate::client::{Client, Topic, read};
use crate::world::World;

/// Where core 0 listens.
const PORT: u16 = 9092;
/// Where the admin server does.
const ADMIN_PORT: u16 = 9901;
/// Room of each queue between two cores.
const MESH_MESSAGES_MAX: usize = 64;

/// A running node.
pub(crate) struct Node {
    world: World,
    cores: u16,
    node: SimNode,
}

impl Node {
    /// A node of so many data cores, ready.
    pub(crate) async fn start(world: &World, cores: u16, settings: &[&str]) -> Self {
        let plan = NodePlan {
            config: Arc::new(config(settings)),
            cores,
            mesh_messages_max: MESH_MESSAGES_MAX,
            mutant: Mutant::default(),
        };
        let (node, ready) = SimNode::start(world.machine(), plan);
        assert!(ready.await.is_some(), "{:?}", node.outcome().await);
        Self { world: world.clone(), cores, node }
    }

    /// Asks the node to stop.
    pub(crate) fn ask_to_stop(&self) {
        self.node.ask_to_stop();
    }

    /// Whether it has.
    pub(crate) fn has_ended(&self) -> bool {
        self.node.has_ended()
    }

    /// Stops the node, which must end well, and in time.
    pub(crate) async fn stop(&self) {
        self.ask_to_stop();
        let ended = self.world.within(Duration::from_secs(120), self.node.outcome()).await;
        assert_eq!(ended, Some(Ok(Stopped::InOrder)), "the node does not stop");
    }

    fn socket(&self, address: SocketAddr) -> SimSocket {
        self.world.network().connect(address).expect("something listens there")
    }

    /// A client of that core.
    pub(crate) fn connect(&self, core: u16) -> Client {
        let address = SocketAddr::from(([127, 0, 0, 1], PORT + core));
        Client::new(&self.world, self.socket(address))
    }

    /// A new topic with one partition on each of so many cores, and the partition of each.
    pub(crate) async fn topic(&self, name: &'static str, cores: i32) -> (Topic, Vec<i32>) {
        let (topic, on) = self.topic_of(name, cores).await;
        (topic, on.iter().map(|partitions| partitions[0]).collect())
    }

    /// A new topic of so many partitions, and those of each core.
    pub(crate) async fn topic_of(
        &self,
        name: &'static str,
        partitions: i32,
    ) -> (Topic, Vec<Vec<i32>>) {
        self.connect(0).create(name, partitions).await;
        self.known_topic(name).await
    }

    /// A topic that is there, and the partitions of each core.
    pub(crate) async fn known_topic(&self, name: &'static str) -> (Topic, Vec<Vec<i32>>) {
        let asked = MetadataRequestTopic { name: Some(name.into()), ..Default::default() };
        let request = MetadataRequest { topics: Some(vec![asked]), ..Default::default() };
        let bytes = self.connect(0).call(10, &request).await;
        let answer: MetadataResponse<'_> = read(10, &bytes);
        let found = &answer.topics[0];
        let mut on = vec![Vec::new(); usize::from(self.cores)];
        for partition in &found.partitions {
            let core = usize::try_from(partition.leader_id.0 / 10_000).unwrap();
            on[core].push(partition.partition_index.0);
        }
        (Topic { name, id: found.topic_id }, on)
    }

    /// Asks for a page of the admin server, and does not wait for it.
    pub(crate) fn ask_for_page(&self, path: &str) -> SimSocket {
        let address = SocketAddr::from(([127, 0, 0, 1], ADMIN_PORT));
        let socket = self.socket(address);
        socket.send(format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n").as_bytes());
        socket
    }

    /// A page of the admin server, head and body; `None` where it does not come.
    pub(crate) async fn page(&self, path: &str) -> Option<String> {
        let socket = self.ask_for_page(path);
        let page = async {
            let mut bytes = Vec::new();
            let mut byte = [0];
            while socket.fill(&mut byte).await {
                bytes.extend(byte);
            }
            String::from_utf8(bytes).unwrap()
        };
        self.world.within(Duration::from_secs(60), page).await
    }

    /// The sum of a metric over its series.
    pub(crate) async fn metric(&self, name: &str) -> u64 {
        let page = self.page("/metrics").await.unwrap();
        let lines = page.lines().filter(|line| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{']))
        });
        let values = lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap());
        let values: Vec<u64> = values.collect();
        assert!(!values.is_empty(), "no metric {name} in {page}");
        values.into_iter().sum()
    }
}

fn config(settings: &[&str]) -> Config {
    let own = [
        "listeners=127.0.0.1:9092",
        "advertise=core",
        "admin.listen=127.0.0.1:9901",
        "tail.cache.bytes=8388608",
    ];
    let sets = own.iter().chain(settings).map(|setting| (*setting).to_owned()).collect();
    Config::load(&Sources { sets, ..Sources::default() }).unwrap()
}

/// A batch of one record with a value of so many bytes.
pub(crate) fn batch(bytes: usize) -> Vec<u8> {
    let value = vec![b'v'; bytes];
    let timestamp = Timestamp(1_767_225_600_000);
    let mut builder = BatchBuilder::new(Codec::None);
    builder.append(&NewRecord { timestamp, value: Some(&value), ..NewRecord::default() });
    builder.build()
}
