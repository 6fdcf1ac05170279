//! NodeVolumeLimits: how many volumes a CSI driver can attach to a node.
//!
//! The limit is what the node's CSINode says of the driver. Volumes count once, however
//! many pods of the node use them, and so do volumes that are attached without a pod. A
//! claim that is not bound yet counts as a volume of the driver that will make it.
//! Source: `plugins/nodevolumelimits/csi.go`, Kubernetes 1.36.

use std::borrow::Cow;

use outrank_api::decode::ObjectKind;
use rustc_hash::FxHashSet;

use crate::cluster::Cluster;
use crate::framework::{
    ClusterEvent, ClusterFilterPlugin, Code, IncomingPod, MovedPods, NodeFilter, Plugin,
    ReadsVolumes, Reason, Refusal,
};
use crate::ids::{NodeId, PodId};
use crate::plugins::volume_binding::{is_own_claim, not_own_claim};
use crate::storage::{Claim, ClaimKey, Place, PlacesTaken, PodVolume, PodVolumes, VolumeHandle};

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

    fn reads_volumes(&self) -> ReadsVolumes {
        ReadsVolumes::Demand
    }
}

/// The place that a claim takes on a node with or without a CSINode; `None` if no driver
/// counts it.
pub(crate) fn place_of_claim(
    cluster: &Cluster,
    key: ClaimKey,
    claim: &Claim,
    has_csi_node: bool,
) -> Option<Place> {
    let storage = &cluster.storage;
    if let Some(volume) = claim.volume.and_then(|name| storage.volume(name)) {
        let csi = match (&volume.csi, &volume.migrated, has_csi_node) {
            (Some(csi), ..) => *csi,
            (None, Some(migrated), true) => *migrated.csi.as_ref().ok()?,
            _ => return None,
        };
        let is_named = !cluster.symbols.text(csi.handle).is_empty();
        return is_named.then_some(Place {
            driver: csi.driver,
            volume: VolumeHandle::Volume(csi.handle),
        });
    }
    let (driver, is_successor) = storage.class(claim.class?)?.driver?;
    (!is_successor || has_csi_node).then_some(Place {
        driver,
        volume: VolumeHandle::ToBeMade(key),
    })
}

struct Filter<'c> {
    counting: Counting<'c>,
    /// What the pod takes where there is no CSINode, and where there is one.
    wanted: [PlacesTaken; 2],
    moved: MovedPods,
}

struct Counting<'c> {
    cluster: &'c Cluster,
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
        if !has_any {
            return None;
        }
        let counting = Counting { cluster };
        let wanted = [false, true].map(|has_csi_node| {
            let mut wanted = FxHashSet::default();
            let counted = counting.count(volumes, has_csi_node, true, &mut wanted);
            counted.map(|()| wanted)
        });
        Some(Box::new(Filter {
            counting,
            wanted,
            moved: MovedPods::default(),
        }))
    }

    fn may_help(&self, pod: &IncomingPod<'_>, event: &ClusterEvent<'_>, cluster: &Cluster) -> bool {
        let storage = &cluster.storage;
        match event {
            ClusterEvent::PodLeft(other) => other.volumes != 0,
            ClusterEvent::Storage { kind, key } => match kind {
                ObjectKind::VolumeAttachment | ObjectKind::CSINode => true,
                ObjectKind::PersistentVolumeClaim | ObjectKind::PersistentVolume => {
                    storage.concerns(storage.pod_volumes(pod.info.volumes), *kind, *key)
                }
                _ => false,
            },
            _ => false,
        }
    }
}

impl Counting<'_> {
    /// The volumes of a pod that count on a node. Claims that do not exist are an error for
    /// the incoming pod only.
    fn count(
        &self,
        volumes: &PodVolumes,
        has_csi_node: bool,
        is_incoming: bool,
        counted: &mut FxHashSet<Place>,
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
                    if let (Some(csi), true) = (&disk.csi, has_csi_node) {
                        let csi = csi.as_ref().map_err(|text| error(text))?;
                        counted.insert(Place {
                            driver: csi.driver,
                            volume: VolumeHandle::Volume(csi.handle),
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
            counted.extend(place_of_claim(self.cluster, key, claim, has_csi_node));
        }
        Ok(())
    }

    /// The places that pods take.
    fn count_pods(&self, pods: impl Iterator<Item = PodId>) -> PlacesTaken {
        let mut taken = FxHashSet::default();
        for pod in pods {
            let number = self.cluster.pod_info(pod).volumes;
            if number != 0 {
                let volumes = self.cluster.storage.pod_volumes(number);
                self.count(volumes, true, false, &mut taken)?;
            }
        }
        Ok(taken)
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
        let cluster = self.counting.cluster;
        let node_name = cluster.name_symbol(node);
        let csi_node = cluster.storage.csi_node(node_name);
        let wanted = &self.wanted[usize::from(csi_node.is_some())];
        let wanted = wanted.as_ref().map_err(Clone::clone)?;
        let Some(csi_node) = csi_node.filter(|it| !wanted.is_empty() && !it.limits.is_empty())
        else {
            return Ok(());
        };
        let count_pods = || self.counting.count_pods(self.moved.pods(cluster, node));
        let taken = match self.moved.concern(node) {
            true => Cow::Owned(count_pods()),
            false => cluster.storage.places_taken(node.index(), count_pods),
        };
        let taken = taken.as_ref().as_ref().map_err(Clone::clone)?;
        let attached = || {
            let attached = cluster.storage.attached(node_name).map(|csi| Place {
                driver: csi.driver,
                volume: VolumeHandle::Volume(csi.handle),
            });
            attached.filter(|it| !taken.contains(it))
        };
        let is_new = |volume: &&Place| !taken.contains(*volume);
        let exceeds = |volume: &Place| {
            let is_of_driver = |it: &Place| it.driver == volume.driver;
            let attached: FxHashSet<Place> = attached().filter(is_of_driver).collect();
            let count = wanted
                .iter()
                .filter(is_new)
                .filter(|it| is_of_driver(it))
                .count()
                + taken.iter().filter(|it| is_of_driver(it)).count()
                + attached.len();
            let limit = csi_node.limit(volume.driver);
            limit.is_some_and(|limit| count as i64 > limit)
        };
        if wanted.iter().filter(is_new).any(exceeds) {
            let reason = Reason::MaxVolumeCountExceeded;
            return Err(Refusal::new(
                NodeVolumeLimits::NAME,
                Code::Unschedulable,
                reason,
            ));
        }
        Ok(())
    }

    fn count_pod(&mut self, pod: PodId, node: NodeId, by: i64) {
        self.moved.count(pod, node, by);
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
