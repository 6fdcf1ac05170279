//! The pods that hold a place on a node, with the sums of what they take.
//!
//! A pod holds its place from its admission until its last container has ended, however long
//! it has been failed or deleted by then. The sums are kept while pods come and go, so that
//! asking whether one more fits does not cost a look at all of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use outrank_api::pod_resources::{SchedulerResources, scheduler_resources};
use outrank_api::types::{Container, Pod, PodSpec};

/// The number under which a pod is kept; the kubelet lists its pods in this order.
pub type PodNumber = u64;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct ActivePods {
    pods: BTreeMap<PodNumber, (Arc<Pod>, Taken)>,
    requested: SchedulerResources,
    /// How many pods use each.
    host_ports: BTreeMap<HostPort, usize>,
}

/// What one pod takes.
#[derive(Clone, Debug)]
struct Taken {
    resources: SchedulerResources,
    host_ports: Vec<HostPort>,
}

/// A port of the node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HostPort {
    port: i32,
    protocol: String,
    ip: String,
}

impl ActivePods {
    /// Adds a pod, or puts it in place of the one of that number. O(log pods).
    pub fn insert(&mut self, number: PodNumber, pod: Arc<Pod>) {
        self.remove(number);
        let taken = Taken {
            resources: scheduler_resources(&pod),
            host_ports: host_ports(&pod.spec),
        };
        self.count(&taken.resources, i64::wrapping_add);
        for port in &taken.host_ports {
            *self.host_ports.entry(port.clone()).or_default() += 1;
        }
        self.pods.insert(number, (pod, taken));
    }

    /// Takes a pod away, if it is there. O(log pods).
    pub fn remove(&mut self, number: PodNumber) {
        let Some((_, taken)) = self.pods.remove(&number) else {
            return;
        };
        self.count(&taken.resources, i64::wrapping_sub);
        for port in &taken.host_ports {
            if let Some(users) = self.host_ports.get_mut(port) {
                *users -= 1;
                if *users == 0 {
                    self.host_ports.remove(port);
                }
            }
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.pods.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// The pods, by number.
    pub fn iter(&self) -> impl Iterator<Item = (PodNumber, &Arc<Pod>)> {
        self.pods.iter().map(|(number, (pod, _))| (*number, pod))
    }

    /// What they request together.
    pub fn requested(&self) -> &SchedulerResources {
        &self.requested
    }

    /// Whether one of them uses a port that the pod wants.
    pub(crate) fn has_taken_port_of(&self, pod: &Pod) -> bool {
        let wanted = host_ports(&pod.spec);
        wanted.iter().any(|wanted| {
            let first = HostPort {
                ip: String::new(),
                ..wanted.clone()
            };
            let same_port = self.host_ports.range(first..).map(|(used, _)| used);
            let mut same_port = same_port
                .take_while(|used| used.port == wanted.port && used.protocol == wanted.protocol);
            same_port.any(|used| {
                used.ip == wanted.ip || wanted.ip == ALL_ADDRESSES || used.ip == ALL_ADDRESSES
            })
        })
    }

    fn count(&mut self, resources: &SchedulerResources, add: fn(i64, i64) -> i64) {
        let total = &mut self.requested;
        for (total, amount) in [
            (&mut total.cpu_milli, resources.cpu_milli),
            (&mut total.memory_bytes, resources.memory_bytes),
            (
                &mut total.ephemeral_storage_bytes,
                resources.ephemeral_storage_bytes,
            ),
            (&mut total.non_zero_cpu_milli, resources.non_zero_cpu_milli),
            (
                &mut total.non_zero_memory_bytes,
                resources.non_zero_memory_bytes,
            ),
        ] {
            *total = add(*total, amount);
        }
        for (name, amount) in &resources.scalar {
            let total = total.scalar.entry(name.clone()).or_default();
            *total = add(*total, *amount);
        }
    }
}

impl FromIterator<Pod> for ActivePods {
    /// The pods, numbered as they come.
    fn from_iter<I: IntoIterator<Item = Pod>>(pods: I) -> Self {
        let mut active_pods = Self::default();
        for (number, pod) in (0..).zip(pods) {
            active_pods.insert(number, Arc::new(pod));
        }
        active_pods
    }
}

/// The address that stands for all of them.
const ALL_ADDRESSES: &str = "0.0.0.0";

/// The ports of the node that containers and sidecars use.
fn host_ports(spec: &PodSpec) -> Vec<HostPort> {
    let sidecars = spec.init_containers.iter().filter(|it| it.is_sidecar());
    let ports = sidecars
        .chain(&spec.containers)
        .flat_map(|container: &Container| &container.ports);
    let or = |text: &str, default: &str| if text.is_empty() { default } else { text }.to_owned();
    ports
        .filter(|port| port.host_port > 0)
        .map(|port| HostPort {
            port: port.host_port,
            protocol: or(&port.protocol, "TCP"),
            ip: or(&port.host_ip, ALL_ADDRESSES),
        })
        .collect()
}
