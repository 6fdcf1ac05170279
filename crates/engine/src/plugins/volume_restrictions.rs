//! VolumeRestrictions: disks that pods of one node cannot share, and claims that only one
//! pod may use.
//!
//! Disks that a pod names itself conflict if another pod of the node has the same: GCE and
//! iSCSI disks and Ceph block devices unless both only read them, EBS disks always. A claim
//! with access mode `ReadWriteOncePod` that a pod uses refuses every node.
//! Source: `plugins/volumerestrictions/volume_restrictions.go`, Kubernetes 1.36.

use outrank_api::decode::ObjectKind;

use crate::alone::failure;
use crate::cluster::Cluster;
use crate::framework::{
    ClusterEvent, ClusterFilterPlugin, Code, IncomingPod, MovedPods, NodeFilter, Plugin,
    ReadsVolumes, Reason, Refusal,
};
use crate::ids::{NodeId, PodId};
use crate::plugins::volume_binding::claim_not_found;
use crate::release::Release;
use crate::storage::{ClaimKey, Disk, PodVolumes};

/// See the module.
pub struct VolumeRestrictions {
    release: Release,
}

impl VolumeRestrictions {
    /// Name in configurations.
    pub const NAME: &'static str = "VolumeRestrictions";

    /// The plugin as of a release; in 1.20 it looks at disks only.
    pub fn new(release: Release) -> Self {
        Self { release }
    }
}

impl Plugin for VolumeRestrictions {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn reads_volumes(&self) -> ReadsVolumes {
        match self.release {
            Release::V1_36 => ReadsVolumes::Demand,
            Release::V1_20 => ReadsVolumes::Anything,
        }
    }
}

struct Filter<'c> {
    cluster: &'c Cluster,
    volumes: &'c PodVolumes,
    /// How many claims that only one pod may use are used by another.
    taken_claims: i64,
    moved: MovedPods,
}

/// Whether another pod uses a claim of these that only one may use.
pub(crate) fn is_claim_taken(volumes: &PodVolumes, cluster: &Cluster) -> bool {
    claims_for_one_pod(volumes, cluster).any(|key| cluster.storage.is_used(key))
}

/// Claims of the pod that only one pod may use.
fn claims_for_one_pod<'c>(
    volumes: &'c PodVolumes,
    cluster: &'c Cluster,
) -> impl Iterator<Item = ClaimKey> + 'c {
    volumes.claims().filter(|key| {
        let claim = cluster.storage.claim(*key);
        claim.is_some_and(|claim| claim.is_for_one_pod)
    })
}

/// How many of the claims that only one pod may use are used by another.
fn taken_claims(volumes: &PodVolumes, cluster: &Cluster) -> i64 {
    let mut taken: Vec<ClaimKey> = claims_for_one_pod(volumes, cluster)
        .filter(|key| cluster.storage.is_used(*key))
        .collect();
    taken.sort_unstable();
    taken.dedup();
    taken.len() as i64
}

impl ClusterFilterPlugin for VolumeRestrictions {
    fn pre_filter(&self, pod: &IncomingPod<'_>, cluster: &Cluster) -> Result<(), Refusal> {
        if pod.info.volumes == 0 || self.release == Release::V1_20 {
            return Ok(());
        }
        let volumes = cluster.storage.pod_volumes(pod.info.volumes);
        let missing = volumes
            .claims()
            .find(|key| cluster.storage.claim(*key).is_none());
        match missing {
            Some((_, name)) => Err(claim_not_found(Self::NAME, name, cluster)),
            None => Ok(()),
        }
    }

    fn prepare_filter<'c>(
        &'c self,
        pod: &IncomingPod<'c>,
        cluster: &'c Cluster,
    ) -> Option<Box<dyn NodeFilter + 'c>> {
        if pod.info.volumes == 0 {
            return None;
        }
        let volumes = cluster.storage.pod_volumes(pod.info.volumes);
        let filter = Filter {
            cluster,
            volumes,
            taken_claims: match self.release {
                Release::V1_20 => 0,
                Release::V1_36 => taken_claims(volumes, cluster),
            },
            moved: MovedPods::default(),
        };
        let has_disks = volumes.disks().next().is_some();
        (has_disks || filter.taken_claims > 0).then(|| Box::new(filter) as Box<dyn NodeFilter>)
    }

    /// Disks come first, and need no PreFilter.
    fn prepare_filter_alone<'c>(
        &'c self,
        pod: &IncomingPod<'c>,
        cluster: &'c Cluster,
    ) -> Option<Box<dyn NodeFilter + 'c>> {
        Some(Box::new(DisksOnly(Filter {
            cluster,
            volumes: cluster.storage.pod_volumes(pod.info.volumes),
            taken_claims: 0,
            moved: MovedPods::default(),
        })))
    }

    fn may_help(&self, pod: &IncomingPod<'_>, event: &ClusterEvent<'_>, cluster: &Cluster) -> bool {
        let storage = &cluster.storage;
        let own = storage.pod_volumes(pod.info.volumes);
        match event {
            ClusterEvent::PodLeft(other) => {
                let others = storage.pod_volumes(other.volumes);
                let is_shared = |claim| others.claims().any(|other| other == claim);
                own.disks().any(|disk| conflicts(disk, others)) || own.claims().any(is_shared)
            }
            ClusterEvent::Storage { kind, key } => {
                *kind == ObjectKind::PersistentVolumeClaim && storage.concerns(own, *kind, *key)
            }
            _ => false,
        }
    }
}

fn conflicts(disk: &Disk, others: &PodVolumes) -> bool {
    others.disks().any(|other| disk.conflicts(other))
}

impl NodeFilter for Filter<'_> {
    fn filter_node(&self, node: NodeId) -> Result<(), Refusal> {
        let has_conflict = |disk: &Disk| {
            let mut pods = self.moved.pods(self.cluster, node);
            pods.any(|pod| {
                let number = self.cluster.pod_info(pod).volumes;
                number != 0 && conflicts(disk, self.cluster.storage.pod_volumes(number))
            })
        };
        let reason = if self.volumes.disks().any(has_conflict) {
            Reason::DiskConflict
        } else if self.taken_claims > 0 {
            Reason::ReadWriteOncePodConflict
        } else {
            return Ok(());
        };
        Err(Refusal::new(
            VolumeRestrictions::NAME,
            Code::Unschedulable,
            reason,
        ))
    }

    /// Claims are told apart by name alone, as upstream does it: a pod of another namespace
    /// counts, too (`volume_restrictions.go` conflictingPVCRefCountForPod).
    fn count_pod(&mut self, pod: PodId, node: NodeId, by: i64) {
        self.moved.count(pod, node, by);
        let (volumes, cluster) = (self.volumes, self.cluster);
        let others = cluster.storage.pod_volumes(cluster.pod_info(pod).volumes);
        let shared = others.claims().filter(|(_, name)| {
            let mut own = claims_for_one_pod(volumes, cluster);
            own.any(|(_, own)| own == *name)
        });
        self.taken_claims += by * shared.count() as i64;
    }
}

/// The filter where PreFilter has not looked at claims.
struct DisksOnly<'c>(Filter<'c>);

impl NodeFilter for DisksOnly<'_> {
    fn filter_node(&self, node: NodeId) -> Result<(), Refusal> {
        self.0.filter_node(node)?;
        let text = "cannot read \"PreFilterVolumeRestrictions\" from cycleState";
        Err(failure(VolumeRestrictions::NAME, text))
    }

    fn count_pod(&mut self, pod: PodId, node: NodeId, by: i64) {
        self.0.count_pod(pod, node, by);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::storage::testing::{
        bound_claim, decide, engine, node, pod, pod_with_claims, refusals, tell, volume_everywhere,
    };
    use crate::{Engine, Event};

    fn disk(source: &str, value: Value) -> Value {
        json!([{"name": "disk", source: value}])
    }

    #[test]
    fn disks_conflict_unless_both_pods_only_read_them() {
        let gce = |read_only| {
            disk(
                "gcePersistentDisk",
                json!({"pdName": "d", "readOnly": read_only}),
            )
        };
        let iscsi = |iqn| disk("iscsi", json!({"iqn": iqn, "readOnly": false}));
        let rbd =
            |monitor, image| disk("rbd", json!({"monitors": ["m1", monitor], "image": image}));
        let ebs = || disk("awsElasticBlockStore", json!({"volumeID": "vol-1"}));
        for (there, incoming, conflicts) in [
            (gce(true), gce(true), false),
            (gce(true), gce(false), true),
            (gce(false), gce(false), true),
            (iscsi("one"), iscsi("two"), false),
            (iscsi("one"), iscsi("one"), true),
            (rbd("m2", "i"), rbd("m3", "i"), true),
            (rbd("m2", "i"), rbd("m3", "j"), false),
            (ebs(), ebs(), true),
            (ebs(), gce(false), false),
        ] {
            let mut engine = engine([node("a", json!({}))]);
            tell(&mut engine, pod("there", "a", there.clone()));
            tell(&mut engine, pod("p", "", incoming.clone()));
            let refused = refusals(&engine, "p").contains_key("a");
            assert_eq!(refused, conflicts, "{there} and {incoming}");
        }
    }

    /// The bound claim `data`, which only one pod may use.
    fn claim_data_for_one_pod(engine: &mut Engine) {
        let mut claim = bound_claim("data", "v");
        claim["spec"]["accessModes"] = json!(["ReadWriteOncePod"]);
        tell(engine, claim);
        tell(engine, volume_everywhere("v"));
    }

    #[test]
    fn a_claim_for_one_pod_is_free_again_once_its_pod_is_gone() {
        let mut engine = engine([node("a", json!({})), node("b", json!({}))]);
        claim_data_for_one_pod(&mut engine);
        tell(&mut engine, pod_with_claims("p", &["data"]));
        tell(&mut engine, pod_with_claims("q", &["data"]));
        assert_eq!(decide(&mut engine, "p"), "a");
        let message = "0/2 nodes are available: 2 node(s) unavailable due to \
                       PersistentVolumeClaim with ReadWriteOncePod access mode already in-use \
                       by another pod.";
        assert_eq!(decide(&mut engine, "q"), message);
        let gone = Event::PodGone {
            namespace: "default".into(),
            name: "p".into(),
        };
        engine.handle(gone, 0);
        assert_eq!(decide(&mut engine, "q"), "a");
    }

    #[test]
    fn a_claim_of_the_same_name_in_another_namespace_is_another_claim() {
        let mut engine = engine([node("a", json!({}))]);
        claim_data_for_one_pod(&mut engine);
        let mut other = pod_with_claims("p", &["data"]);
        other["metadata"]["namespace"] = "other".into();
        other["spec"]["nodeName"] = "a".into();
        tell(&mut engine, other);
        tell(&mut engine, pod_with_claims("q", &["data"]));
        assert_eq!(decide(&mut engine, "q"), "a");
    }
}
