//! NodePorts: two pods cannot use one port of a node.
//!
//! A port clashes with the same port and protocol on the same address; the address
//! `0.0.0.0` clashes with every address.
//! Source: `plugins/nodeports/node_ports.go`, Kubernetes 1.36.

use crate::alone::failure;
use crate::cluster::{Cluster, HostPort};
use crate::framework::{Code, DependsOn, FilterPlugin, Plugin, Reason, Refusal};
use crate::ids::{NodeId, Symbol, Symbols};
use crate::pod_class::PodClass;
use crate::use_by_priority::Freed;

/// See the module.
pub struct NodePorts {
    all_addresses: Symbol,
}

impl NodePorts {
    /// Name in configurations.
    pub const NAME: &'static str = "NodePorts";
    /// The address that stands for all of them.
    pub(crate) const ALL_ADDRESSES: &'static str = "0.0.0.0";

    /// The plugin.
    pub fn new(symbols: &mut Symbols) -> Self {
        Self {
            all_addresses: symbols.intern(Self::ALL_ADDRESSES),
        }
    }

    fn clash(&self, wanted: &HostPort, used: &HostPort) -> bool {
        wanted.port == used.port
            && wanted.protocol == used.protocol
            && (wanted.ip == used.ip
                || wanted.ip == self.all_addresses
                || used.ip == self.all_addresses)
    }
}

impl Plugin for NodePorts {
    fn name(&self) -> &'static str {
        Self::NAME
    }
}

impl FilterPlugin for NodePorts {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeUsage
    }

    fn applies(&self, class: &PodClass) -> bool {
        !class.host_ports.is_empty()
    }

    fn filter_node(
        &self,
        class: &PodClass,
        cluster: &Cluster,
        node: NodeId,
    ) -> Result<(), Refusal> {
        let used = cluster.host_ports(node);
        let taken = |wanted| used.iter().any(|used| self.clash(wanted, used));
        if !class.host_ports.iter().any(taken) {
            return Ok(());
        }
        Err(Refusal::new(
            Self::NAME,
            Code::Unschedulable,
            Reason::PortsTaken,
        ))
    }

    /// Who goes takes no port.
    fn filter_node_freed(
        &self,
        class: &PodClass,
        cluster: &Cluster,
        node: NodeId,
        _: &Freed,
    ) -> Option<Result<(), Refusal>> {
        self.filter_node(class, cluster, node).ok().map(Ok)
    }

    fn filter_node_alone(&self, _: &PodClass, _: &Cluster, _: NodeId) -> Result<(), Refusal> {
        let text = "reading \"PreFilterNodePorts\" from cycleState: not found";
        Err(failure(Self::NAME, text))
    }
}
