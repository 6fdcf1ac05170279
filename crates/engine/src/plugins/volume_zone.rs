//! VolumeZone: pods stay where their volumes are, by the zone and region labels of the
//! volumes.
//!
//! A label of a volume may name several zones (`a__b`). A node without any zone or region
//! label can take every volume; one that has some must have a value that each label of the
//! volume names, under the same key or, for the keys of the past, under today's.
//! Source: `plugins/volumezone/volume_zone.go`, Kubernetes 1.36.

use outrank_api::decode::ObjectKind;

use crate::alone::RefusesAll;
use crate::cluster::Cluster;
use crate::framework::{
    ClusterEvent, ClusterFilterPlugin, Code, IncomingPod, NodeFilter, Plugin, ReadsVolumes, Reason,
    Refusal,
};
use crate::ids::{NodeId, Symbol, Symbols};
use crate::plugins::volume_binding::claim_not_found;
use crate::release::Release;
use crate::storage::{ClaimKey, TOPOLOGY_LABELS, Volume};

/// See the module.
pub struct VolumeZone {
    release: Release,
    labels: [Symbol; 4],
}

impl VolumeZone {
    /// Name in configurations.
    pub const NAME: &'static str = "VolumeZone";

    /// The plugin as of a release. In 1.20 what is wrong with a claim is an error of each
    /// node with a zone, and the keys of the past and of today are not the same.
    pub fn new(release: Release, symbols: &mut Symbols) -> Self {
        Self {
            release,
            labels: TOPOLOGY_LABELS.map(|label| symbols.intern(label)),
        }
    }

    /// Today's key in place of one of the past.
    fn todays(&self, key: Symbol) -> Symbol {
        let [past_zone, past_region, zone, region] = self.labels;
        match key {
            key if self.release == Release::V1_20 => key,
            key if key == past_zone => zone,
            key if key == past_region => region,
            key => key,
        }
    }
}

impl Plugin for VolumeZone {
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

fn refuse(text: String) -> Refusal {
    let reason = Reason::Text(text.into());
    Refusal::new(VolumeZone::NAME, Code::UnschedulableAndUnresolvable, reason)
}

/// The volume that a claim is bound to; `None` if it waits for its first pod.
fn volume_of(key: ClaimKey, cluster: &Cluster) -> Result<Option<&Volume>, Refusal> {
    let text = |symbol| cluster.symbols.text(symbol);
    let claim = cluster.storage.claim(key);
    let claim = claim.ok_or_else(|| claim_not_found(VolumeZone::NAME, key.1, cluster))?;
    if let Some(name) = claim.volume {
        let volume = cluster.storage.volume(name);
        let missing = || refuse(format!("persistentvolume {:?} not found", text(name)));
        return volume.ok_or_else(missing).map(Some);
    }
    let Some(class) = claim.class else {
        let message = "PersistentVolumeClaim had no pv name and storageClass name";
        return Err(refuse(message.into()));
    };
    let waits = cluster
        .storage
        .class(class)
        .map(|class| class.waits_for_consumer);
    let class = text(class);
    Err(refuse(match waits {
        Some(Some(true)) => return Ok(None),
        Some(Some(false)) => "PersistentVolume had no name".into(),
        Some(None) => format!("VolumeBindingMode not set for StorageClass {class:?}"),
        None => format!("storageclass.storage.k8s.io {class:?} not found"),
    }))
}

struct Filter<'c> {
    plugin: &'c VolumeZone,
    cluster: &'c Cluster,
    /// The volumes up to the first claim that something is wrong with.
    volumes: Vec<&'c Volume>,
    /// What is wrong with that claim.
    problem: Option<Refusal>,
}

impl ClusterFilterPlugin for VolumeZone {
    fn pre_filter(&self, pod: &IncomingPod<'_>, cluster: &Cluster) -> Result<(), Refusal> {
        if pod.info.volumes == 0 || self.release == Release::V1_20 {
            return Ok(());
        }
        let mut claims = cluster.storage.pod_volumes(pod.info.volumes).claims();
        claims.try_for_each(|claim| volume_of(claim, cluster).map(drop))
    }

    fn prepare_filter<'c>(
        &'c self,
        pod: &IncomingPod<'c>,
        cluster: &'c Cluster,
    ) -> Option<Box<dyn NodeFilter + 'c>> {
        if pod.info.volumes == 0 {
            return None;
        }
        let claims = cluster.storage.pod_volumes(pod.info.volumes).claims();
        let mut filter = Filter {
            plugin: self,
            cluster,
            volumes: Vec::new(),
            problem: None,
        };
        for claim in claims {
            match volume_of(claim, cluster) {
                Ok(None) => {}
                Ok(Some(volume)) if volume.topologies.is_empty() => {}
                Ok(Some(volume)) => filter.volumes.push(volume),
                Err(problem) => {
                    filter.problem = Some(Refusal {
                        code: Code::Error,
                        ..problem
                    });
                    break;
                }
            }
        }
        let has_a_say = !filter.volumes.is_empty() || filter.problem.is_some();
        has_a_say.then(|| Box::new(filter) as Box<dyn NodeFilter>)
    }

    /// What PreFilter would say of the pod Filter says of each node.
    fn prepare_filter_alone<'c>(
        &'c self,
        pod: &IncomingPod<'c>,
        cluster: &'c Cluster,
    ) -> Option<Box<dyn NodeFilter + 'c>> {
        match self.pre_filter(pod, cluster) {
            Ok(()) => self.prepare_filter(pod, cluster),
            Err(refusal) => Some(Box::new(RefusesAll(refusal))),
        }
    }

    fn may_help(&self, pod: &IncomingPod<'_>, event: &ClusterEvent<'_>, cluster: &Cluster) -> bool {
        let storage = &cluster.storage;
        let ClusterEvent::Storage { kind, key } = event else {
            return self.labels.iter().any(|label| event.moves_node(*label));
        };
        let counts = matches!(
            kind,
            ObjectKind::PersistentVolumeClaim
                | ObjectKind::PersistentVolume
                | ObjectKind::StorageClass
        );
        counts && storage.concerns(storage.pod_volumes(pod.info.volumes), *kind, *key)
    }
}

impl NodeFilter for Filter<'_> {
    fn filter_node(&self, node: NodeId) -> Result<(), Refusal> {
        let label = |key| self.cluster.label(node, key);
        let is_somewhere = self.plugin.labels.iter().any(|key| label(*key).is_some());
        let mut topologies = self.volumes.iter().flat_map(|volume| &volume.topologies);
        let is_there = |(key, values): &(Symbol, Box<[Symbol]>)| {
            let value = label(*key).or_else(|| label(self.plugin.todays(*key)));
            value.is_some_and(|value| values.contains(&value))
        };
        if !is_somewhere {
            return Ok(());
        }
        if topologies.all(is_there) {
            return self.problem.clone().map_or(Ok(()), Err);
        }
        let code = Code::UnschedulableAndUnresolvable;
        Err(Refusal::new(
            VolumeZone::NAME,
            code,
            Reason::VolumeZoneConflict,
        ))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::storage::testing::{
        bound_claim, engine, node, pod_with_claims, refusals, tell, volume_everywhere,
    };

    /// Whether nodes with some labels are refused for a volume with others.
    fn refused(volume_labels: Value, node_labels: Value) -> bool {
        let mut engine = engine([node("a", node_labels)]);
        let mut volume = volume_everywhere("v");
        volume["metadata"]["labels"] = volume_labels;
        tell(&mut engine, volume);
        tell(&mut engine, bound_claim("data", "v"));
        tell(&mut engine, pod_with_claims("p", &["data"]));
        match refusals(&engine, "p").get("a").map(Vec::as_slice) {
            None => false,
            Some(reasons) => {
                assert_eq!(reasons, ["node(s) had no available volume zone"]);
                true
            }
        }
    }

    #[test]
    fn a_node_must_be_in_a_zone_of_the_volume() {
        const ZONE: &str = "topology.kubernetes.io/zone";
        const PAST: &str = "failure-domain.beta.kubernetes.io/zone";
        const REGION: &str = "topology.kubernetes.io/region";
        for (volume, node, is_refused) in [
            (json!({ZONE: "a"}), json!({ZONE: "a"}), false),
            (json!({ZONE: "a"}), json!({ZONE: "b"}), true),
            (json!({ZONE: "b__ a"}), json!({ZONE: "a"}), false),
            // A list with an empty zone cannot be read and does not count.
            (json!({ZONE: "b____c"}), json!({ZONE: "a"}), false),
            // A node without any of the labels takes everything, one with another does not.
            (json!({ZONE: "a"}), json!({}), false),
            (json!({ZONE: "a"}), json!({REGION: "r"}), true),
            (json!({PAST: "a"}), json!({ZONE: "a"}), false),
            (json!({ZONE: "a"}), json!({PAST: "a"}), true),
            (
                json!({ZONE: "a", REGION: "r"}),
                json!({ZONE: "a", REGION: "s"}),
                true,
            ),
        ] {
            assert_eq!(
                refused(volume.clone(), node.clone()),
                is_refused,
                "{volume} on {node}"
            );
        }
    }
}
