//! DescribeCluster (key 60): the nodes of the cluster.

use alloc::vec::Vec;

use record::NodeId;

use crate::error::ErrorCode;
use crate::field::Text;
use crate::message::message;

message! {
    /// Asks for the nodes of the cluster.
    request(DescribeCluster) DescribeClusterRequest {
        /// Whether to say which operations on the cluster are allowed.
        include_cluster_authorized_operations: bool, in 0..;
        /// 1 the brokers, 2 the controllers.
        endpoint_type: i8, in 1.., default 1;
        /// Whether to list nodes that are fenced too.
        include_fenced_brokers: bool, in 2..;
    }

    /// The nodes of the cluster.
    response(DescribeCluster) DescribeClusterResponse<'a> {
        /// How long the client should wait before its next request.
        throttle_time_ms: i32, in 0..;
        /// What went wrong, if anything did.
        error_code: ErrorCode, in 0..;
        /// What went wrong, in words.
        error_message: Option<Text<'a>>, in 0.., null 0..;
        /// 1 the brokers, 2 the controllers.
        endpoint_type: i8, in 1.., default 1;
        /// The cluster.
        cluster_id: Text<'a>, in 0..;
        /// The node to send administrative requests to; -1 for none.
        controller_id: NodeId, in 0.., default NodeId::NONE;
        /// The nodes.
        brokers: Vec<DescribeClusterBroker<'a>>, in 0..;
        /// Operations allowed on the cluster, as a bit field; `i32::MIN` when it was not asked for.
        cluster_authorized_operations: i32, in 0.., default i32::MIN;
    }

    /// One node, as clients reach it.
    part DescribeClusterBroker<'a> {
        /// The node.
        broker_id: NodeId, in 0..;
        /// The host to connect to.
        host: Text<'a>, in 0..;
        /// The port to connect to.
        port: i32, in 0..;
        /// The rack that it stands in.
        rack: Option<Text<'a>>, in 0.., null 0..;
        /// Whether it is fenced.
        is_fenced: bool, in 2..;
    }
}
