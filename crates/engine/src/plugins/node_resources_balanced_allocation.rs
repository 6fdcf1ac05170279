//! NodeResourcesBalancedAllocation: prefers nodes whose resources the pod would use more
//! evenly.
//!
//! How even is measured by the standard deviation of the used fractions; the score is
//! about 75 when the pod changes nothing, up to 100 when it makes the node more even and
//! down to 50 when less. Only what pods really request counts (no 100m and 200Mi), and
//! pods that request nothing are not rated.
//! Source: `plugins/noderesources/balanced_allocation.go`, Kubernetes 1.36.

use crate::cluster::Cluster;
use crate::framework::{DependsOn, MAX_NODE_SCORE, Plugin, ScorePlugin};
use crate::ids::{NodeId, ResourceId};
use crate::pod_class::PodClass;

/// See the module.
pub struct NodeResourcesBalancedAllocation {
    resources: Vec<ResourceId>,
}

impl NodeResourcesBalancedAllocation {
    /// Name in configurations.
    pub const NAME: &'static str = "NodeResourcesBalancedAllocation";

    /// The plugin over these resources.
    pub fn new(resources: &[String], cluster: &mut Cluster) -> Self {
        Self {
            resources: resources
                .iter()
                .map(|name| cluster.resource(name))
                .collect(),
        }
    }
}

/// Collects used fractions and tells how even they are.
#[derive(Default)]
struct Fractions {
    first: [f64; 2],
    rest: Vec<f64>,
    count: usize,
}

impl Fractions {
    fn push(&mut self, used: i64, allocatable: i64) {
        let fraction = used as f64 / allocatable as f64;
        let fraction = if fraction > 1.0 { 1.0 } else { fraction };
        match self.first.get_mut(self.count) {
            Some(slot) => *slot = fraction,
            None => self.rest.push(fraction),
        }
        self.count += 1;
    }

    fn standard_deviation(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        if self.count == 2 {
            return ((self.first[0] - self.first[1]) / 2.0).abs();
        }
        // Summed in the order of the resources, as upstream does: floating point
        // addition is not associative.
        let all = || self.first.iter().chain(&self.rest);
        let count = self.count as f64;
        let mean = all().fold(0.0, |sum, fraction| sum + fraction) / count;
        let squares = all().fold(0.0, |sum, fraction| {
            sum + (fraction - mean) * (fraction - mean)
        });
        (squares / count).sqrt()
    }

    fn score(&self) -> i64 {
        ((1.0 - self.standard_deviation()) * MAX_NODE_SCORE as f64) as i64
    }
}

impl Plugin for NodeResourcesBalancedAllocation {
    fn name(&self) -> &'static str {
        Self::NAME
    }
}

impl ScorePlugin for NodeResourcesBalancedAllocation {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeUsage
    }

    fn pre_score(&self, class: &PodClass) -> Result<bool, String> {
        Ok(class
            .balanced_score_requests
            .iter()
            .any(|&request| request != 0))
    }

    fn score_node(&self, class: &PodClass, cluster: &Cluster, node: NodeId) -> i64 {
        let mut with_pod = Fractions::default();
        let mut without_pod = Fractions::default();
        for (&resource, &request) in self.resources.iter().zip(&class.balanced_score_requests) {
            let allocatable = cluster.allocatable(node, resource);
            if allocatable == 0 || (request == 0 && resource.is_scalar()) {
                continue;
            }
            let used = cluster.requested(node, resource);
            without_pod.push(used, allocatable);
            with_pod.push(used.wrapping_add(request), allocatable);
        }
        let half = MAX_NODE_SCORE / 2;
        half + (half + with_pod.score() - without_pod.score()) / 2
    }
}
