//! NodeVolumeLimits: how many volumes a CSI driver can attach to a node.
//!
//! The limit is what the node's CSINode says of the driver. Volumes count once, however
//! many pods of the node use them, and so do volumes that are attached without a pod. A
//! claim that is not bound yet counts as a volume of the driver that will make it.
//! Source: `plugins/nodevolumelimits/csi.go`, Kubernetes 1.36.

use rustc_hash::FxHashSet;

use crate::cluster::{Cluster, PodInfo};
use crate::framework::{
    ClusterFilterPlugin, Code, IncomingPod, NodeFilter, Plugin, Reason, Refusal,
};
use crate::ids::{NodeId, Symbol};
use crate::plugins::volume_binding::{is_own_claim, not_own_claim};
use crate::storage::{Claim, ClaimKey, CsiNode, PodVolume, PodVolumes};

/// See the module.
pub struct NodeVolumeLimits;

impl NodeVolumeLimits {
    /// Name in configurations.
    pub const NAME: &'static str = "NodeVolumeLimits";
}

impl Plugin for NodeVolumeLimits {
    fn name(&self) -> &'static str {
        Self::NAME
    }
}

/// A volume that takes one of a driver's places on a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Counted {
    driver: Symbol,
    volume: Handle,
}

/// What tells volumes of one driver apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Handle {
    Volume(Symbol),
    /// A volume that is still to be made, by its claim.
    ToBeMade(ClaimKey),
}

struct Filter<'c> {
    cluster: &'c Cluster,
    volumes: &'c PodVolumes,
}

impl ClusterFilterPlugin for NodeVolumeLimits {
    fn prepare_filter<'c>(
        &'c self,
        pod: &IncomingPod<'c>,
        cluster: &'c Cluster,
    ) -> Option<Box<dyn NodeFilter + 'c>> {
        if pod.info.volumes == 0 {
            return None;
        }
        let volumes = cluster.storage.pod_volumes(pod.info.volumes);
        let counts = |volume: &PodVolume| match volume {
            PodVolume::Claim(_) | PodVolume::Ephemeral(_) => true,
            PodVolume::Disk(disk) => disk.csi.is_some(),
        };
        let has_any = volumes.volumes.iter().any(counts);
        has_any.then(|| Box::new(Filter { cluster, volumes }) as Box<dyn NodeFilter>)
    }

    fn may_help(&self, pod: &IncomingPod<'_>, other: PodInfo, came: bool, _: &Cluster) -> bool {
        !came && pod.info.volumes != 0 && other.volumes != 0
    }
}

impl Filter<'_> {
    /// The volumes of a pod that count on a node. Claims that do not exist are an error for
    /// the incoming pod only.
    fn count(
        &self,
        volumes: &PodVolumes,
        csi_node: Option<&CsiNode>,
        is_incoming: bool,
        counted: &mut FxHashSet<Counted>,
    ) -> Result<(), Refusal> {
        let Some(namespace) = volumes.namespace else {
            return Ok(());
        };
        for volume in &volumes.volumes {
            let (name, is_ephemeral) = match volume {
                PodVolume::Claim(name) => (*name, false),
                PodVolume::Ephemeral(name) => (*name, true),
                PodVolume::Disk(disk) => {
                    // Without a CSINode no driver has taken over there.
                    if let (Some(csi), Some(_)) = (&disk.csi, csi_node) {
                        let csi = csi.as_ref().map_err(|text| error(text))?;
                        counted.insert(Counted {
                            driver: csi.driver,
                            volume: Handle::Volume(csi.handle),
                        });
                    }
                    continue;
                }
            };
            let key = (namespace, name);
            let Some(claim) = self.cluster.storage.claim(key) else {
                if is_incoming {
                    return Err(self.not_found(key));
                }
                continue;
            };
            if is_ephemeral && !is_own_claim(volumes, claim) {
                return Err(error(&not_own_claim(volumes, key, self.cluster)));
            }
            counted.extend(self.counted(key, claim, csi_node));
        }
        Ok(())
    }

    /// What a claim counts as.
    fn counted(&self, key: ClaimKey, claim: &Claim, csi_node: Option<&CsiNode>) -> Option<Counted> {
        let storage = &self.cluster.storage;
        if let Some(volume) = claim.volume.and_then(|name| storage.volume(name)) {
            let csi = match (&volume.csi, &volume.migrated, csi_node) {
                (Some(csi), ..) => *csi,
                (None, Some(migrated), Some(_)) => *migrated.csi.as_ref().ok()?,
                _ => return None,
            };
            let is_named = !self.cluster.symbols.text(csi.handle).is_empty();
            return is_named.then_some(Counted {
                driver: csi.driver,
                volume: Handle::Volume(csi.handle),
            });
        }
        let (driver, is_successor) = storage.class(claim.class?)?.driver?;
        (!is_successor || csi_node.is_some()).then_some(Counted {
            driver,
            volume: Handle::ToBeMade(key),
        })
    }

    fn not_found(&self, key: ClaimKey) -> Refusal {
        let (namespace, name) = (
            self.cluster.symbols.text(key.0),
            self.cluster.symbols.text(key.1),
        );
        let text =
            format!("looking up PVC {namespace}/{name}: persistentvolumeclaim {name:?} not found");
        let code = Code::UnschedulableAndUnresolvable;
        Refusal::new(NodeVolumeLimits::NAME, code, Reason::Text(text.into()))
    }
}

fn error(text: &str) -> Refusal {
    Refusal::new(
        NodeVolumeLimits::NAME,
        Code::Error,
        Reason::Text(text.into()),
    )
}

impl NodeFilter for Filter<'_> {
    fn filter_node(&self, node: NodeId) -> Result<(), Refusal> {
        let cluster = self.cluster;
        let node_name = cluster.name_symbol(node);
        let csi_node = cluster.storage.csi_node(node_name);
        let mut wanted = FxHashSet::default();
        self.count(self.volumes, csi_node, true, &mut wanted)?;
        let Some(csi_node) = csi_node.filter(|it| !wanted.is_empty() && !it.limits.is_empty())
        else {
            return Ok(());
        };
        let mut attached = FxHashSet::default();
        for pod in cluster.pods(node) {
            let number = cluster.pod_info(*pod).volumes;
            if number != 0 {
                let volumes = cluster.storage.pod_volumes(number);
                self.count(volumes, Some(csi_node), false, &mut attached)?;
            }
        }
        wanted.retain(|volume| !attached.contains(volume));
        attached.extend(cluster.storage.attached(node_name).map(|csi| Counted {
            driver: csi.driver,
            volume: Handle::Volume(csi.handle),
        }));
        let of = |volumes: &FxHashSet<Counted>, driver| {
            volumes
                .iter()
                .filter(|volume| volume.driver == driver)
                .count() as i64
        };
        let exceeds = |volume: &Counted| {
            let limit = csi_node.limit(volume.driver);
            let count = of(&wanted, volume.driver) + of(&attached, volume.driver);
            limit.is_some_and(|limit| count > limit)
        };
        if wanted.iter().any(exceeds) {
            let reason = Reason::MaxVolumeCountExceeded;
            return Err(Refusal::new(
                NodeVolumeLimits::NAME,
                Code::Unschedulable,
                reason,
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::Engine;
    use crate::storage::testing::{
        bound_claim, claim, decide, engine, node, pod, pod_with_claims, refusals, tell,
        volume_everywhere, waiting_class,
    };

    const FULL: &str = "node(s) exceed max volume count";

    fn csi_node(driver: &str, count: Value) -> Value {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "a"},
            "spec": {"drivers": [{"name": driver, "nodeID": "a",
                "allocatable": {"count": count}}]}})
    }

    /// A node with room for a number of volumes, and bound claims `c0` to `c3`.
    fn engine_with(count: Value) -> Engine {
        let mut engine = engine([node("a", json!({})), csi_node("csi.example.com", count)]);
        for number in 0..4 {
            let name = format!("v{number}");
            tell(&mut engine, volume_everywhere(&name));
            tell(&mut engine, bound_claim(&format!("c{number}"), &name));
        }
        engine
    }

    #[test]
    fn volumes_count_once_however_many_pods_use_them() {
        let mut engine = engine_with(json!(2));
        tell(&mut engine, pod_with_claims("p", &["c0", "c1"]));
        assert_eq!(decide(&mut engine, "p"), "a");
        tell(&mut engine, pod_with_claims("same", &["c1"]));
        assert_eq!(decide(&mut engine, "same"), "a");
        tell(&mut engine, pod_with_claims("more", &["c1", "c2"]));
        assert_eq!(refusals(&engine, "more")["a"], [FULL]);
        tell(&mut engine, csi_node("csi.example.com", json!(3)));
        assert_eq!(decide(&mut engine, "more"), "a");
    }

    #[test]
    fn a_driver_without_a_limit_attaches_what_it_is_asked_to() {
        let mut engine = engine_with(json!(null));
        tell(&mut engine, pod_with_claims("p", &["c0", "c1", "c2", "c3"]));
        assert_eq!(decide(&mut engine, "p"), "a");
    }

    #[test]
    fn volumes_attached_without_a_pod_count() {
        let mut engine = engine_with(json!(1));
        tell(
            &mut engine,
            json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
            "metadata": {"name": "left-behind"}, "spec": {"attacher": "csi.example.com",
                "nodeName": "a", "source": {"persistentVolumeName": "v3"}}}),
        );
        tell(&mut engine, pod_with_claims("p", &["c0"]));
        assert_eq!(refusals(&engine, "p")["a"], [FULL]);
    }

    #[test]
    fn claims_that_wait_count_as_volumes_of_their_classs_driver() {
        let mut engine = engine_with(json!(1));
        tell(&mut engine, waiting_class("fast", "csi.example.com"));
        for name in ["p", "q"] {
            tell(&mut engine, claim(name, "fast"));
            tell(&mut engine, pod_with_claims(name, &[name]));
        }
        assert_eq!(decide(&mut engine, "p"), "a");
        assert_eq!(refusals(&engine, "q")["a"], [FULL]);
    }

    #[test]
    fn disks_count_for_the_driver_that_took_over() {
        let mut engine = engine([node("a", json!({})), csi_node("ebs.csi.aws.com", json!(1))]);
        let disk = |id| json!([{"name": "d", "awsElasticBlockStore": {"volumeID": id}}]);
        tell(&mut engine, pod("there", "a", disk("vol-1")));
        tell(&mut engine, pod("p", "", disk("aws://us-east-1a/vol-2")));
        assert_eq!(refusals(&engine, "p")["a"], [FULL]);
        tell(&mut engine, pod("q", "", disk("aws://us-east-1a/disk-2")));
        let error = "running \"NodeVolumeLimits\" filter plugin: converting volume(d) from \
                     inline to csi: failed to translate Kubernetes ID to EBS Volume ID Invalid \
                     format for AWS volume (aws://us-east-1a/disk-2)";
        assert_eq!(decide(&mut engine, "q"), error);
    }
}
