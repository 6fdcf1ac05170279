//! VolumeBinding: nodes that can reach the pod's volumes, or where missing ones can be had.
//!
//! Claims that are bound must be to volumes that the node can reach. Claims that wait for
//! their first pod get the smallest volume that fits and that the node can reach; those for
//! which there is none are provisioned, if their class can do so there and the driver, if
//! it tells, has room. Claims that should be bound already, but are not, refuse the pod.
//!
//! When the pod has its node, the volumes found for it are taken, and the claims to be
//! provisioned are tied to the node ([`Storage::reserve`](crate::storage::Storage)).
//!
//! The plugin's score rates nodes by storage capacity and is behind a feature gate that is
//! off in 1.36 (StorageCapacityScoring), so that it never rates any.
//! Sources: `plugins/volumebinding/{volume_binding,binder}.go` and
//! `component-helpers/storage/volume/pv_helpers.go`, Kubernetes 1.36.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use outrank_api::quantity::Quantity;

use crate::alone::RefusesAll;
use crate::cluster::Cluster;
use crate::framework::{
    ClusterEvent, ClusterFilterPlugin, ClusterScorePlugin, Code, IncomingPod, NodeFilter,
    NodeScore, Plugin, ReadsVolumes, Reason, Refusal,
};
use crate::ids::{NodeId, Symbol};
use crate::release::Release;
use crate::storage::{
    Claim, ClaimKey, FreeVolumes, PodVolumes, Volume, VolumeReservation, reaches,
};

/// See the module.
pub struct VolumeBinding {
    release: Release,
}

impl VolumeBinding {
    /// Name in configurations.
    pub const NAME: &'static str = "VolumeBinding";

    /// The plugin as of a release. In 1.20 no CSI driver takes over from a plugin that is
    /// built into Kubernetes, and drivers do not tell how much room there is.
    pub fn new(release: Release) -> Self {
        Self { release }
    }
}

impl Plugin for VolumeBinding {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn reserve_error_alone(&self) -> Option<&'static str> {
        Some("not found")
    }

    fn reads_volumes(&self) -> ReadsVolumes {
        match self.release {
            Release::V1_36 => ReadsVolumes::Demand,
            Release::V1_20 => ReadsVolumes::Anything,
        }
    }
}

/// The refusal of a pod that names a claim which does not exist.
pub(crate) fn claim_not_found(plugin: &'static str, name: Symbol, cluster: &Cluster) -> Refusal {
    let text = format!(
        "persistentvolumeclaim {:?} not found",
        cluster.symbols.text(name)
    );
    Refusal::new(
        plugin,
        Code::UnschedulableAndUnresolvable,
        Reason::Text(text.into()),
    )
}

/// Whether a claim that goes with a pod was made for that pod.
pub(crate) fn is_own_claim(volumes: &PodVolumes, claim: &Claim) -> bool {
    volumes
        .owner
        .is_some_and(|owner| claim.controller_uid == Some(owner.uid))
}

/// What is wrong with a claim that goes with a pod and was not made for it
/// (`component-helpers/storage/ephemeral/ephemeral.go`, Kubernetes 1.36).
pub(crate) fn not_own_claim(volumes: &PodVolumes, key: ClaimKey, cluster: &Cluster) -> String {
    let text = |symbol| cluster.symbols.text(symbol);
    let (namespace, claim) = (text(key.0), text(key.1));
    let pod = volumes.owner.map_or("", |owner| text(owner.name));
    format!("PVC {namespace}/{claim} was not created for pod {namespace}/{pod} (pod is not owner)")
}

/// Why a pod cannot have a claim, whatever the node; `None` if nothing is wrong.
fn claim_problem(
    release: Release,
    volumes: &PodVolumes,
    (key, is_ephemeral): (ClaimKey, bool),
    cluster: &Cluster,
) -> Option<String> {
    let text = |symbol| cluster.symbols.text(symbol);
    let name = text(key.1);
    let Some(claim) = cluster.storage.claim(key) else {
        return Some(if is_ephemeral {
            format!(
                "waiting for ephemeral volume controller to create the persistentvolumeclaim \
                 {name:?}"
            )
        } else {
            format!("persistentvolumeclaim {name:?} not found")
        });
    };
    if claim.is_lost && release > Release::V1_20 {
        let volume = claim.volume.map_or("", text);
        return Some(format!(
            "persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}"
        ));
    }
    if claim.is_deleting {
        return Some(format!("persistentvolumeclaim {name:?} is being deleted"));
    }
    (is_ephemeral && !is_own_claim(volumes, claim)).then(|| not_own_claim(volumes, key, cluster))
}

/// The claims of a pod, by what is to be done for them.
#[derive(Default)]
struct PodClaims<'c> {
    bound: Vec<&'c Claim>,
    /// Those that wait for their first pod, smallest first.
    waiting: Vec<(ClaimKey, &'c Claim)>,
    /// Whether a claim is not bound and should be.
    has_unbound_immediate: bool,
}

impl<'c> PodClaims<'c> {
    fn new(volumes: &PodVolumes, cluster: &'c Cluster) -> Result<Self, String> {
        let mut claims = Self::default();
        for (key, _) in volumes.all_claims() {
            let Some(claim) = cluster.storage.claim(key) else {
                continue;
            };
            if claim.is_bound {
                claims.bound.push(claim);
            } else if waits_for_consumer(claim, cluster)? && claim.volume.is_none() {
                claims.waiting.push((key, claim));
            } else {
                claims.has_unbound_immediate = true;
            }
        }
        Ok(claims)
    }
}

fn waits_for_consumer(claim: &Claim, cluster: &Cluster) -> Result<bool, String> {
    let Some(name) = claim.class else {
        return Ok(false);
    };
    let Some(class) = cluster.storage.class(name) else {
        return Ok(false);
    };
    class.waits_for_consumer.ok_or_else(|| {
        let name = cluster.symbols.text(name);
        format!("VolumeBindingMode not set for StorageClass {name:?}")
    })
}

struct Filter<'c> {
    release: Release,
    cluster: &'c Cluster,
    claims: PodClaims<'c>,
    /// What each of `claims.waiting` could get that is not being provisioned.
    candidates: BTreeMap<ClaimKey, Candidates<'c>>,
}

impl<'c> Filter<'c> {
    fn new(release: Release, pod: &IncomingPod<'_>, cluster: &'c Cluster) -> Option<Self> {
        if pod.info.volumes == 0 {
            return None;
        }
        let volumes = cluster.storage.pod_volumes(pod.info.volumes);
        let claims = PodClaims::new(volumes, cluster).ok()?;
        if claims.bound.is_empty() && claims.waiting.is_empty() {
            return None;
        }
        let waiting = claims.waiting.iter();
        let unmade =
            waiting.filter(|(key, claim)| cluster.storage.selected_node(*key, claim).is_none());
        let candidates = unmade
            .map(|(key, claim)| (*key, Candidates::new(*key, claim, cluster)))
            .collect();
        Some(Self {
            release,
            cluster,
            claims,
            candidates,
        })
    }

    /// What is to be taken if the pod goes to the node.
    fn find(&self, node: NodeId) -> Result<VolumeReservation, Refusal> {
        let bound = self.check_bound(node)?;
        let mut reservation = VolumeReservation::default();
        let unbound = self.find_unbound(node, &mut reservation);
        // Reasons come in upstream's order: a missing volume last.
        let mut reasons: Vec<Reason> = bound.into_iter().chain(unbound).collect();
        if reasons.first() == Some(&Reason::VolumeMissing) {
            reasons.reverse();
        }
        if reasons.is_empty() {
            return Ok(reservation);
        }
        if self.release == Release::V1_20 {
            reasons = reasons.into_iter().map(words_of_1_20).collect();
        }
        Err(Refusal {
            plugin: VolumeBinding::NAME,
            code: Code::UnschedulableAndUnresolvable,
            reasons,
        })
    }

    /// Why the node cannot have the volumes of claims that are bound.
    fn check_bound(&self, node: NodeId) -> Result<Option<Reason>, Refusal> {
        let storage = &self.cluster.storage;
        let csi_node = match self.release {
            Release::V1_36 => storage.csi_node(self.cluster.name_symbol(node)),
            Release::V1_20 => None,
        };
        for claim in &self.claims.bound {
            let volume = claim
                .volume
                .and_then(|name| self.cluster.storage.volume(name));
            let Some(volume) = volume else {
                return Ok(Some(Reason::VolumeMissing));
            };
            let nodes = volume.reachable_nodes(csi_node).map_err(error)?;
            if !reaches(nodes, self.cluster, node) {
                return Ok(Some(Reason::VolumeNodeAffinityConflict));
            }
        }
        Ok(None)
    }

    /// Finds volumes for claims that wait, or why the node cannot have them.
    fn find_unbound(&self, node: NodeId, found: &mut VolumeReservation) -> Option<Reason> {
        let node_name = self.cluster.name_symbol(node);
        let storage = &self.cluster.storage;
        let mut to_match = Vec::new();
        for (key, claim) in &self.claims.waiting {
            match storage.selected_node(*key, claim) {
                None => to_match.push((*key, *claim)),
                Some(selected) if selected == node_name => found.provisions.push(*key),
                Some(_) => return Some(Reason::NoVolumeToBind),
            }
        }
        to_match.sort_by(|(_, one), (_, other)| compare_sizes(one, other));
        for (key, _) in to_match {
            let candidates = self.candidates.get(&key);
            let volume = candidates.and_then(|it| it.smallest(self.cluster, node, &found.bindings));
            match volume {
                Some(volume) => found.bindings.push((volume, key)),
                None => found.provisions.push(key),
            }
        }
        let mut provisions = found.provisions.iter();
        provisions.find_map(|key| self.check_provision(*key, node))
    }

    /// Why no volume can be made for a claim on the node.
    fn check_provision(&self, key: ClaimKey, node: NodeId) -> Option<Reason> {
        let storage = &self.cluster.storage;
        let claim = storage.claim(key)?;
        let class_name = claim.class?;
        let class = storage.class(class_name)?;
        let Some(provisioner) = class.provisioner else {
            return Some(Reason::NoVolumeToBind);
        };
        if !reaches(class.topologies.as_deref(), self.cluster, node) {
            return Some(Reason::NoVolumeToBind);
        }
        let size = claim.size.as_ref()?;
        let labels = self.cluster.labels(node);
        let has_room = self.release == Release::V1_20
            || storage.has_room(class_name, provisioner, size, labels);
        (!has_room).then_some(Reason::NotEnoughStorage)
    }
}

/// What 1.20 said in other words.
fn words_of_1_20(reason: Reason) -> Reason {
    match reason {
        Reason::VolumeMissing => Reason::Fixed("pvc(s) bound to non-existent pv(s)"),
        Reason::VolumeNodeAffinityConflict => {
            Reason::Fixed("node(s) had volume node affinity conflict")
        }
        other => other,
    }
}

/// The volumes that a claim could get, whatever the node.
struct Candidates<'c> {
    claim: &'c Claim,
    /// The volume that is kept for the claim: it gets this or none.
    kept: Option<Symbol>,
    /// Volumes of its class that are kept for nobody.
    free: Option<&'c FreeVolumes>,
}

impl<'c> Candidates<'c> {
    /// O(volumes kept for the claim).
    fn new(key: ClaimKey, claim: &'c Claim, cluster: &'c Cluster) -> Self {
        let storage = &cluster.storage;
        let mut kept = storage.kept_volumes(key).filter(|(name, volume)| {
            let kept_for = storage.claim_of(*name, volume);
            volume.class == claim.class
                && could_bind(claim, volume)
                && kept_for.is_some_and(|kept_for| kept_for.means(key, claim))
        });
        Self {
            claim,
            kept: kept.next().map(|(name, _)| name),
            free: claim.class.and_then(|class| storage.free_volumes(class)),
        }
    }

    /// The volume that is kept for the claim, or else the smallest that the node reaches and
    /// that is not taken; of equals the first.
    fn smallest(
        &self,
        cluster: &Cluster,
        node: NodeId,
        taken: &[(Symbol, ClaimKey)],
    ) -> Option<Symbol> {
        let volume_of = |name: Symbol| {
            let volume = cluster.storage.volume(name)?;
            reaches(volume.nodes.as_deref(), cluster, node).then_some(volume)
        };
        if let Some(kept) = self.kept {
            return volume_of(kept).map(|_| kept);
        }
        let will_do = |(_, name): &&(Quantity, Symbol)| {
            taken.iter().all(|(taken, _)| taken != name)
                && volume_of(*name).is_some_and(|volume| {
                    could_bind(self.claim, volume) && fits(self.claim, volume)
                })
        };
        let size = self.claim.size.clone().unwrap_or_default();
        let from = (size, Symbol(0));
        let sets = self.free.into_iter();
        let sets = sets.flat_map(|free| free.sets(cluster.labels(node)));
        let first = sets.filter_map(|volumes| volumes.range(&from..).find(will_do));
        let first = first.min().map(|(_, name)| *name);
        // The same by looking at all volumes: tests of random histories see to it.
        debug_assert_eq!(first, {
            let is_free = |(name, volume): &(Symbol, &Volume)| {
                volume.class == self.claim.class
                    && cluster.storage.claim_of(*name, volume).is_none()
            };
            let all = cluster.storage.volumes().filter(is_free);
            let all = all.map(|(name, volume)| (volume.size.clone(), name));
            let fitting: Vec<_> = all.filter(|thing| will_do(&thing)).collect();
            fitting.into_iter().min().map(|(_, name)| name)
        });
        first
    }
}

fn error(text: &str) -> Refusal {
    Refusal::new(VolumeBinding::NAME, Code::Error, Reason::Text(text.into()))
}

fn compare_sizes(one: &Claim, other: &Claim) -> Ordering {
    let zero = Quantity::default();
    let size = |claim: &Claim| claim.size.clone().unwrap_or_else(|| zero.clone());
    size(one).cmp(&size(other))
}

/// Whether a volume could be the claim's, were it kept for it.
fn could_bind(claim: &Claim, volume: &Volume) -> bool {
    claim.size.as_ref().is_none_or(|size| volume.size >= *size)
        && claim.mode == volume.mode
        && claim.attributes_class == volume.attributes_class
        && !volume.is_deleting
}

/// Whether a volume that is kept for nobody is what the claim wants.
fn fits(claim: &Claim, volume: &Volume) -> bool {
    volume.is_available
        && claim
            .selector
            .as_ref()
            .is_none_or(|selector| selector.matches(&volume.labels))
        && claim
            .access_modes
            .iter()
            .all(|mode| volume.access_modes.contains(mode))
}

impl ClusterFilterPlugin for VolumeBinding {
    fn pre_filter(&self, pod: &IncomingPod<'_>, cluster: &Cluster) -> Result<(), Refusal> {
        if pod.info.volumes == 0 {
            return Ok(());
        }
        let volumes = cluster.storage.pod_volumes(pod.info.volumes);
        let refuse = |text: String| {
            let reason = Reason::Text(text.into());
            Err(Refusal::new(
                Self::NAME,
                Code::UnschedulableAndUnresolvable,
                reason,
            ))
        };
        let mut claims = volumes.all_claims();
        if let Some(problem) =
            claims.find_map(|claim| claim_problem(self.release, volumes, claim, cluster))
        {
            return refuse(problem);
        }
        let claims = PodClaims::new(volumes, cluster).map_err(|text| error(&text))?;
        if claims.has_unbound_immediate {
            return refuse("pod has unbound immediate PersistentVolumeClaims".into());
        }
        Ok(())
    }

    fn prepare_filter<'c>(
        &'c self,
        pod: &IncomingPod<'c>,
        cluster: &'c Cluster,
    ) -> Option<Box<dyn NodeFilter + 'c>> {
        let filter = Filter::new(self.release, pod, cluster)?;
        Some(Box::new(filter))
    }

    fn prepare_filter_alone<'c>(
        &'c self,
        _: &IncomingPod<'c>,
        _: &'c Cluster,
    ) -> Option<Box<dyn NodeFilter + 'c>> {
        let text = "not found";
        Some(RefusesAll::failing(Self::NAME, text))
    }

    fn reserve(
        &self,
        pod: &IncomingPod<'_>,
        cluster: &Cluster,
        node: NodeId,
    ) -> Option<VolumeReservation> {
        let filter = Filter::new(self.release, pod, cluster)?;
        if filter.claims.waiting.is_empty() {
            return None;
        }
        filter.find(node).ok()
    }

    fn may_help(&self, pod: &IncomingPod<'_>, event: &ClusterEvent<'_>, cluster: &Cluster) -> bool {
        let storage = &cluster.storage;
        match event {
            ClusterEvent::Storage { kind, key } => {
                storage.concerns(storage.pod_volumes(pod.info.volumes), *kind, *key)
            }
            ClusterEvent::Node {
                labels_before,
                labels_after,
            } => labels_before != labels_after,
            _ => false,
        }
    }
}

impl NodeFilter for Filter<'_> {
    fn filter_node(&self, node: NodeId) -> Result<(), Refusal> {
        self.find(node).map(drop)
    }
}

impl ClusterScorePlugin for VolumeBinding {
    fn prepare_score<'c>(
        &'c self,
        _: &IncomingPod<'c>,
        _: &'c Cluster,
        _: &[NodeId],
    ) -> Option<Box<dyn NodeScore + 'c>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::storage::testing::{
        bound_claim, claim, decide, engine, node, pod, pod_with_claims, refusals, tell, volume,
        waiting_class,
    };
    use crate::{Engine, Event};

    fn two_zones() -> [serde_json::Value; 2] {
        [
            node("a", json!({"zone": "one"})),
            node("b", json!({"zone": "two"})),
        ]
    }

    #[test]
    fn a_pod_stays_where_its_bound_volumes_can_be_reached() {
        let mut engine = engine(two_zones());
        tell(&mut engine, volume("v", "", "1Gi", "two"));
        tell(&mut engine, bound_claim("data", "v"));
        tell(&mut engine, pod_with_claims("p", &["data"]));
        let reason = "node(s) didn't match PersistentVolume's node affinity";
        assert_eq!(refusals(&engine, "p")["a"], [reason]);
        assert_eq!(decide(&mut engine, "p"), "b");
    }

    #[test]
    fn claims_that_cannot_be_had_refuse_the_pod_for_all_nodes() {
        let mut engine = engine(two_zones());
        tell(&mut engine, claim("immediate", "no-such-class"));
        let mut lost = bound_claim("lost", "gone");
        lost["status"] = json!({"phase": "Lost"});
        tell(&mut engine, lost);
        let mut leaving = bound_claim("leaving", "v");
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        tell(&mut engine, leaving);
        for (pod, text) in [
            ("missing", "persistentvolumeclaim \"missing\" not found"),
            (
                "immediate",
                "pod has unbound immediate PersistentVolumeClaims",
            ),
            (
                "lost",
                "persistentvolumeclaim \"lost\" bound to non-existent persistentvolume \"gone\"",
            ),
            (
                "leaving",
                "persistentvolumeclaim \"leaving\" is being deleted",
            ),
        ] {
            tell(&mut engine, pod_with_claims(pod, &[pod]));
            assert_eq!(refusals(&engine, pod)[""], [text]);
            let message = format!("0/2 nodes are available: {text}.");
            assert_eq!(decide(&mut engine, pod), message);
        }
    }

    #[test]
    fn a_claim_that_goes_with_a_pod_must_be_that_pods() {
        let mut engine = engine(two_zones());
        tell(
            &mut engine,
            pod("p", "", json!([{"name": "tmp", "ephemeral": {}}])),
        );
        let waiting = "waiting for ephemeral volume controller to create the \
                       persistentvolumeclaim \"p-tmp\"";
        assert_eq!(refusals(&engine, "p")[""], [waiting]);
        let mut made = bound_claim("p-tmp", "v");
        tell(&mut engine, made.clone());
        let not_own = "PVC default/p-tmp was not created for pod default/p (pod is not owner)";
        assert_eq!(refusals(&engine, "p")[""], [not_own]);
        made["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Pod",
            "name": "p", "uid": "uid-p", "controller": true}]);
        tell(&mut engine, made);
        tell(&mut engine, volume("v", "", "1Gi", "one"));
        assert_eq!(decide(&mut engine, "p"), "a");
    }

    #[test]
    fn the_smallest_volume_that_fits_is_taken_and_the_next_pod_gets_another() {
        let mut engine = engine(two_zones());
        tell(
            &mut engine,
            waiting_class("local", "kubernetes.io/no-provisioner"),
        );
        tell(&mut engine, volume("large", "local", "5Gi", "one"));
        tell(&mut engine, volume("small", "local", "512Mi", "one"));
        tell(&mut engine, volume("right", "local", "2Gi", "two"));
        for (pod, node) in [("p", "a"), ("q", "b")] {
            tell(&mut engine, claim(pod, "local"));
            tell(&mut engine, pod_with_claims(pod, &[pod]));
            assert_eq!(decide(&mut engine, pod), node);
        }
        tell(&mut engine, claim("r", "local"));
        tell(&mut engine, pod_with_claims("r", &["r"]));
        let message = "0/2 nodes are available: 2 node(s) didn't find available persistent \
                       volumes to bind.";
        assert_eq!(decide(&mut engine, "r"), message);
    }

    /// Pods p and q each want the one local volume; p was decided first.
    fn where_p_took_the_only_volume() -> Engine {
        let mut engine = engine(two_zones());
        tell(
            &mut engine,
            waiting_class("local", "kubernetes.io/no-provisioner"),
        );
        tell(&mut engine, volume("v", "local", "2Gi", "one"));
        for name in ["p", "q"] {
            tell(&mut engine, claim(name, "local"));
            tell(&mut engine, pod_with_claims(name, &[name]));
        }
        assert_eq!(decide(&mut engine, "p"), "a");
        engine
    }

    #[test]
    fn what_was_assumed_is_taken_back_when_the_pod_comes_back_unbound() {
        let mut engine = where_p_took_the_only_volume();
        assert!(decide(&mut engine, "q").starts_with("0/2"));
        tell(&mut engine, pod_with_claims("p", &["p"]));
        assert_eq!(decide(&mut engine, "q"), "a");
    }

    #[test]
    fn what_was_assumed_stays_when_the_pod_is_bound_and_goes() {
        let mut engine = where_p_took_the_only_volume();
        let gone = Event::PodGone {
            namespace: "default".into(),
            name: "p".into(),
        };
        engine.handle(gone, 0);
        assert!(decide(&mut engine, "q").starts_with("0/2"));
    }

    #[test]
    fn a_claim_to_be_provisioned_is_tied_to_the_node() {
        let mut engine = engine(two_zones());
        let mut class = waiting_class("fast", "csi.example.com");
        class["allowedTopologies"] = json!([{"matchLabelExpressions":
            [{"key": "zone", "values": ["two"]}]}]);
        tell(&mut engine, class);
        tell(&mut engine, claim("data", "fast"));
        tell(&mut engine, pod_with_claims("p", &["data"]));
        assert_eq!(decide(&mut engine, "p"), "b");
        tell(&mut engine, node("c", json!({"zone": "two"})));
        tell(&mut engine, pod_with_claims("q", &["data"]));
        let reason = "node(s) didn't find available persistent volumes to bind";
        assert_eq!(refusals(&engine, "q")["c"], [reason]);
        assert_eq!(decide(&mut engine, "q"), "b");
    }

    #[test]
    fn a_driver_that_tells_must_have_room_and_more_room_wakes_the_pod() {
        let mut engine = engine(two_zones());
        tell(&mut engine, waiting_class("fast", "csi.example.com"));
        tell(
            &mut engine,
            json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
            "metadata": {"name": "csi.example.com"}, "spec": {"storageCapacity": true}}),
        );
        tell(&mut engine, claim("data", "fast"));
        tell(&mut engine, pod_with_claims("p", &["data"]));
        let message = "0/2 nodes are available: 2 node(s) did not have enough free storage.";
        assert_eq!(decide(&mut engine, "p"), message);
        assert_eq!(engine.next(0), None, "it waits");
        let mut capacity = json!({"apiVersion": "storage.k8s.io/v1",
            "kind": "CSIStorageCapacity", "metadata": {"namespace": "kube-system", "name": "c"},
            "storageClassName": "fast", "capacity": "10Gi", "maximumVolumeSize": "512Mi",
            "nodeTopology": {"matchLabels": {"zone": "two"}}});
        tell(&mut engine, capacity.clone());
        assert_eq!(refusals(&engine, "p").len(), 2, "the largest volume counts");
        capacity["maximumVolumeSize"] = "1Gi".into();
        tell(&mut engine, capacity);
        assert!(engine.next(1_000_000_000_000).is_some(), "it was woken");
    }

    #[test]
    fn reasons_add_up() {
        let mut engine = engine(two_zones());
        tell(
            &mut engine,
            waiting_class("local", "kubernetes.io/no-provisioner"),
        );
        tell(&mut engine, claim("wanted", "local"));
        tell(&mut engine, bound_claim("data", "v"));
        tell(&mut engine, pod_with_claims("p", &["data", "wanted"]));
        // VolumeZone looks first at volumes that must exist; without it VolumeBinding would.
        assert_eq!(
            refusals(&engine, "p")[""],
            ["persistentvolume \"v\" not found"]
        );
        tell(&mut engine, volume("v", "", "1Gi", "two"));
        let unbound = "node(s) didn't find available persistent volumes to bind";
        let unreached = "node(s) didn't match PersistentVolume's node affinity";
        assert_eq!(refusals(&engine, "p")["a"], [unreached, unbound]);
        assert_eq!(refusals(&engine, "p")["b"], [unbound]);
    }

    #[test]
    fn a_driver_that_took_over_knows_zones_by_its_own_label() {
        let mut engine = engine([
            node("a", json!({"topology.gke.io/zone": "z"})),
            node("b", json!({"topology.kubernetes.io/zone": "z"})),
        ]);
        let mut disk = volume("v", "", "1Gi", "z");
        disk["spec"]["csi"] = json!(null);
        disk["spec"]["gcePersistentDisk"] = json!({"pdName": "disk"});
        disk["spec"]["nodeAffinity"]["required"] = json!({"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In",
                "values": ["z"]}]}]});
        tell(&mut engine, disk);
        tell(&mut engine, bound_claim("data", "v"));
        tell(&mut engine, pod_with_claims("p", &["data"]));
        assert_eq!(refusals(&engine, "p").keys().collect::<Vec<_>>(), ["a"]);
        for node in ["a", "b"] {
            tell(
                &mut engine,
                json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
                "metadata": {"name": node, "annotations":
                    {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/gce-pd"}}}),
            );
        }
        assert_eq!(refusals(&engine, "p").keys().collect::<Vec<_>>(), ["b"]);
    }
}
