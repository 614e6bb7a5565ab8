//! The cluster as a whole: its brokers, its controller, and what each broker serves.
//!
//! Owns the reading of DescribeCluster, and of what every connection was told when it opened.

use broker::Platform;
use record::NodeId;
use wire::Versions;
use wire::describe_cluster::{DescribeClusterRequest, DescribeClusterResponse};

use crate::client::{Client, ClientError};

/// A cluster as it tells of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cluster {
    /// Its identity.
    pub(crate) id: String,
    /// Who takes administrative requests; [`NodeId::NONE`] where nobody does.
    pub(crate) controller: NodeId,
    /// Its brokers, ascending by id.
    pub(crate) brokers: Vec<Broker>,
}

/// A broker as it wants to be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Broker {
    /// Its id.
    pub(crate) id: NodeId,
    /// Host, as it stands in the answer: nothing says that it is a good one.
    pub(crate) host: String,
    /// Port, as it stands in the answer.
    pub(crate) port: i32,
    /// Where it stands.
    pub(crate) rack: Option<String>,
}

impl<P: Platform> Client<P> {
    /// Describes the cluster.
    pub(crate) async fn cluster(&mut self) -> Result<Cluster, ClientError> {
        self.retried(async |client| client.cluster_now().await).await
    }

    /// [`Client::cluster`], asked once.
    pub(crate) async fn cluster_now(&mut self) -> Result<Cluster, ClientError> {
        let answer = self.ask_any(&DescribeClusterRequest::default()).await?;
        let response: DescribeClusterResponse<'_> = answer.read()?;
        ClientError::check("cluster", response.error_code, response.error_message.as_deref())?;
        let brokers = response.brokers.iter().map(|broker| Broker {
            id: broker.broker_id,
            host: broker.host.to_string(),
            port: broker.port,
            rack: broker.rack.as_ref().map(ToString::to_string),
        });
        let mut brokers: Vec<Broker> = brokers.collect();
        brokers.sort_by_key(|broker| broker.id);
        let (id, controller) = (response.cluster_id.to_string(), response.controller_id);
        Ok(Cluster { id, controller, brokers })
    }

    /// The APIs that the first broker to answer serves, ascending by key.
    pub(crate) async fn served_apis(&mut self) -> Result<Vec<(i16, Versions)>, ClientError> {
        let connection = self.take_any().await?;
        let mut served = connection.served().to_vec();
        served.sort_by_key(|(key, _)| *key);
        self.any = Some(connection);
        Ok(served)
    }
}
