//! What kubelets write, carried out in a virtual cluster.

use outrank_controllers::virtual_cluster::VirtualCluster;
use outrank_node::Write;
use outrank_node::kubelets::request_of;

/// Under which name kubelets write.
const KUBELET: &str = "kubelet";

/// Carries out what the kubelet of a node writes. Who is silent is known here: nobody has to say
/// again and again that he is not.
pub(crate) fn carry_out(node: &str, mut write: Write, cluster: &mut VirtualCluster) {
    if let Write::NodeStatus { status } = &mut write {
        let conditions = status.conditions.iter_mut();
        conditions.for_each(|it| it.last_heartbeat_time = None);
    }
    if let Some(request) = request_of(node, write, |key| cluster.stored(key).cloned()) {
        cluster.carry_out(KUBELET, &request);
    }
}
