//! The PodTopologyLabels admission plugin: pods learn in which zone and region they run.
//!
//! A pod that is made for a node gets the node's labels of zone and region, whatever it says
//! itself. One that is bound later gets them then ([`labels`]). Source:
//! `plugin/pkg/admission/podtopologylabels/admission.go`, Kubernetes 1.36 (KEP 4742).

use outrank_api::decode::Object;
use outrank_api::status::Status;
use outrank_api::types::Node;

use crate::chain::{AdmissionPlugin, Attributes, Cluster, Operation};

/// Labels of nodes that say where they are.
pub const KEYS: [&str; 2] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
];

/// The labels that pods on a node get.
pub fn labels(node: &Node) -> impl Iterator<Item = (&'static str, &str)> {
    let labels = &node.metadata.labels;
    KEYS.into_iter()
        .filter_map(|key| Some((key, labels.get(key)?.as_str())))
}

/// The plugin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodTopologyLabels;

impl AdmissionPlugin for PodTopologyLabels {
    fn name(&self) -> &'static str {
        "PodTopologyLabels"
    }

    fn admit(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&mut Object>,
        cluster: &dyn Cluster,
    ) -> Result<(), Status> {
        let is_new = attributes.operation == Operation::Create && attributes.is_about_whole();
        if let Some(Object::Pod(pod)) = object.filter(|_| is_new)
            && !pod.spec.node_name.is_empty()
            && let Some(node) = cluster.node(&pod.spec.node_name)
        {
            let labels = labels(node).map(|(key, value)| (key.to_owned(), value.to_owned()));
            pod.metadata.labels.extend(labels);
        }
        Ok(())
    }
}
