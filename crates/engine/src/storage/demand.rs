//! What a pod demands of storage, so far as it decides where the pod can go.
//!
//! Pods that have a claim each are different pods, but mostly demand the same: a volume of
//! that class and size, or one that these nodes reach. A [`VolumeDemand`] is all that the
//! plugins of volumes read of a pod's volumes, without names where names do not matter: pods
//! with equal demands get equal answers from a node. So answers are kept by demand
//! ([`crate::verdicts`]).
//!
//! A node counts a volume once, however many of its pods use it: where one does already, the
//! name matters. If these are few nodes they are told beside the demand, and answer for the
//! one pod only. If they are many, more pods that share the volume are likely to come, and its
//! name is a part of their demand. (Volumes that are attached without a pod count beside the
//! pod's own, whichever they are.)
//!
//! What those plugins read of a *node* is not here: its labels, its pods, its CSINode, what
//! is attached to it, and which room and free volumes can be reached from it. When that
//! changes, the node is logged ([`Cluster::storage_log`]).

use super::uses::disk_handles;
use super::{
    Claim, ClaimKey, Place, PodDisk, PodVolume, PodVolumes, Storage, StorageClass, Volume,
    VolumeHandle,
};
use crate::cluster::Cluster;
use crate::ids::{NodeId, Symbol};
use crate::node_match::NodeTerm;
use crate::plugins::node_volume_limits::place_of_claim;
use crate::plugins::volume_binding::is_own_claim;
use crate::plugins::volume_restrictions::is_claim_taken;
use crate::pod_match::LabelMatch;
use outrank_api::quantity::Quantity;

/// See the module. The empty one is that of pods without volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct VolumeDemand {
    /// In the pod's order.
    volumes: Vec<Demanded>,
    /// Whether another pod uses a claim that only one may use.
    is_claim_taken: bool,
}

/// What one volume of a pod demands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Demanded {
    Disk(PodDisk),
    Bound(BoundVolume),
    Waiting(WaitingClaim),
}

/// The volume of a claim that is bound.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct BoundVolume {
    is_ephemeral: bool,
    nodes: Option<Box<[NodeTerm]>>,
    migrated: Option<MigratedVolume>,
    topologies: Box<[(Symbol, Box<[Symbol]>)]>,
    places: [Option<DemandedPlace>; 2],
}

/// What is different where a CSI driver has taken over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct MigratedVolume {
    plugin: Symbol,
    nodes: Result<Option<Box<[NodeTerm]>>, Box<str>>,
}

/// A claim that waits for its first pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct WaitingClaim {
    class_name: Symbol,
    class: StorageClass,
    /// Whether the driver tells how much room there is.
    tells_room: bool,
    size: Option<Quantity>,
    access_modes: Box<[Symbol]>,
    mode: Symbol,
    attributes_class: Symbol,
    selector: Option<LabelMatch>,
    /// The only node on which its volume can be.
    selected_node: Option<Symbol>,
    places: [Option<DemandedPlace>; 2],
}

/// A place that a claim takes on a node, if it does not take one there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum DemandedPlace {
    /// One of the driver's. Which volume it is does not matter, only which of the pod's
    /// claims share it (by number).
    Any(Symbol, usize),
    /// That of this volume.
    Known(Place),
}

/// On how many nodes a volume can be already without its name being part of the demand.
const MAXIMUM_NODES_IN_PLACE: usize = 3;

impl VolumeDemand {
    /// What a pod with these volumes demands, and the nodes whose answer is about the one
    /// pod. `None` if that cannot be told without names: something is wrong with a claim, or
    /// a volume is kept for one that waits. O(volumes of the pod).
    pub(crate) fn new(volumes: &PodVolumes, cluster: &Cluster) -> Option<(Self, Vec<NodeId>)> {
        let mut places = Places {
            volumes,
            cluster,
            any: Vec::new(),
            in_place: Vec::new(),
        };
        let namespace = volumes.namespace?;
        let demanded = volumes.volumes.iter().map(|volume| match volume {
            PodVolume::Disk(disk) => Some(Demanded::Disk(disk.clone())),
            PodVolume::Claim(name) => places.demanded((namespace, *name), false),
            PodVolume::Ephemeral(name) => places.demanded((namespace, *name), true),
        });
        let demand = Self {
            volumes: demanded.collect::<Option<_>>()?,
            is_claim_taken: is_claim_taken(volumes, cluster),
        };
        Some((demand, places.in_place))
    }

    /// Whether it is that of pods without volumes.
    pub(crate) fn is_empty(&self) -> bool {
        self.volumes.is_empty()
    }

    /// Grows when nodes may have to be looked at again that were not logged.
    pub(crate) fn epoch(&self, storage: &Storage) -> u64 {
        let classes = self.volumes.iter().filter_map(|volume| match volume {
            Demanded::Waiting(claim) => Some(claim.class_name),
            _ => None,
        });
        classes.map(|class| storage.reach_epoch(class)).sum()
    }
}

/// The places that the claims of a pod take.
struct Places<'c> {
    volumes: &'c PodVolumes,
    cluster: &'c Cluster,
    /// Those without a name, by number.
    any: Vec<Place>,
    /// Nodes that have one of them already.
    in_place: Vec<NodeId>,
}

impl Places<'_> {
    fn demanded(&mut self, key: ClaimKey, is_ephemeral: bool) -> Option<Demanded> {
        let storage = &self.cluster.storage;
        let claim = storage.claim(key)?;
        if is_ephemeral && !is_own_claim(self.volumes, claim) {
            return None;
        }
        let places = self.of_claim(key, claim);
        if claim.is_bound {
            let volume = storage.volume(claim.volume?)?;
            return Some(Demanded::Bound(BoundVolume::new(
                volume,
                is_ephemeral,
                places,
            )));
        }
        let is_kept = storage.kept_volumes(key).next().is_some();
        if claim.volume.is_some() || is_kept {
            return None;
        }
        let claim = WaitingClaim::new(key, claim, storage, places)?;
        Some(Demanded::Waiting(claim))
    }

    /// The places that a claim takes where there is no CSINode, and where there is one.
    fn of_claim(&mut self, key: ClaimKey, claim: &Claim) -> [Option<DemandedPlace>; 2] {
        [false, true].map(|has_csi_node| {
            let place = place_of_claim(self.cluster, key, claim, has_csi_node)?;
            Some(self.demanded_place(place))
        })
    }

    fn demanded_place(&mut self, place: Place) -> DemandedPlace {
        let known = self.any.iter().position(|other| *other == place);
        let is_own_disk = |handle| disk_handles(self.volumes).any(|other| other == handle);
        let number = match (known, place.volume) {
            (Some(number), _) => number,
            // The disk has a name, so that the claim must have it too.
            (None, VolumeHandle::Volume(handle)) if is_own_disk(handle) => {
                return DemandedPlace::Known(place);
            }
            (None, volume) => {
                let rows = self.cluster.storage.rows_in_place(volume);
                let rows: Vec<usize> = rows.take(MAXIMUM_NODES_IN_PLACE + 1).collect();
                if rows.len() > MAXIMUM_NODES_IN_PLACE {
                    return DemandedPlace::Known(place);
                }
                self.in_place
                    .extend(rows.into_iter().map(NodeId::from_index));
                self.any.push(place);
                self.any.len() - 1
            }
        };
        DemandedPlace::Any(place.driver, number)
    }
}

impl BoundVolume {
    fn new(volume: &Volume, is_ephemeral: bool, places: [Option<DemandedPlace>; 2]) -> Self {
        let migrated = volume.migrated.as_ref().map(|migrated| MigratedVolume {
            plugin: migrated.plugin,
            nodes: match &migrated.csi {
                Ok(_) => Ok(migrated.nodes.clone()),
                Err(error) => Err(error.clone()),
            },
        });
        Self {
            is_ephemeral,
            nodes: volume.nodes.clone(),
            migrated,
            topologies: volume.topologies.clone(),
            places,
        }
    }
}

impl WaitingClaim {
    fn new(
        key: ClaimKey,
        claim: &Claim,
        storage: &Storage,
        places: [Option<DemandedPlace>; 2],
    ) -> Option<Self> {
        let class_name = claim.class?;
        let class = storage.class(class_name)?;
        (class.waits_for_consumer == Some(true)).then(|| Self {
            class_name,
            class: class.clone(),
            tells_room: class.provisioner.is_some_and(|it| storage.tells_room(it)),
            size: claim.size.clone(),
            access_modes: claim.access_modes.clone(),
            mode: claim.mode,
            attributes_class: claim.attributes_class,
            selector: claim.selector.clone(),
            selected_node: storage.selected_node(key, claim),
            places,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::VolumeDemand;
    use crate::Engine;
    use crate::ids::NodeId;
    use crate::storage::testing::{
        bound_claim, claim, decide, engine, node, pod, pod_with_claims, tell, volume_everywhere,
        waiting_class,
    };

    fn engine_with_nodes(count: usize) -> Engine {
        let nodes = (0..count).map(|number| node(&format!("n{number}"), json!({})));
        let mut engine = engine(nodes);
        tell(&mut engine, waiting_class("fast", "csi.example.com"));
        engine
    }

    fn demand(engine: &Engine, pod: &str) -> Option<(VolumeDemand, Vec<NodeId>)> {
        let cluster = engine.cluster();
        let pod = engine.pod("default", pod).expect("a pod");
        let volumes = cluster.pod_info(pod).volumes;
        VolumeDemand::new(cluster.storage.pod_volumes(volumes), cluster)
    }

    /// A bound claim with a volume of that name with the driver.
    fn tell_bound(engine: &mut Engine, name: &str, handle: &str) {
        let mut volume = volume_everywhere(&format!("v-{name}"));
        volume["spec"]["csi"]["volumeHandle"] = handle.into();
        tell(engine, volume);
        tell(engine, bound_claim(name, &format!("v-{name}")));
    }

    #[test]
    fn pods_with_a_claim_each_demand_the_same() {
        let mut engine = engine_with_nodes(1);
        for name in ["a", "b"] {
            tell_bound(&mut engine, name, &format!("handle-{name}"));
            let waiting = format!("{name}-waiting");
            tell(&mut engine, claim(&waiting, "fast"));
            tell(&mut engine, pod_with_claims(name, &[name, &waiting]));
        }
        let known = demand(&engine, "a");
        assert!(known.is_some());
        assert_eq!(known, demand(&engine, "b"));
        // With a node chosen the claim is one of its own.
        assert_eq!(decide(&mut engine, "a"), "n0");
        tell(&mut engine, pod_with_claims("c", &["a", "a-waiting"]));
        assert_ne!(known, demand(&engine, "c"));
        assert_eq!(known, demand(&engine, "b"));
    }

    #[test]
    fn a_volume_has_a_name_once_it_is_on_many_nodes() {
        let mut engine = engine_with_nodes(5);
        for name in ["shared", "other"] {
            tell_bound(&mut engine, name, name);
            tell(&mut engine, pod_with_claims(name, &[name]));
        }
        let put = |engine: &mut Engine, claim: &str, number: usize| {
            let mut there = pod_with_claims(&format!("{claim}-{number}"), &[claim]);
            there["spec"]["nodeName"] = format!("n{number}").into();
            tell(engine, there);
        };
        let (of_other, _) = demand(&engine, "other").expect("a demand");
        for number in 0..4 {
            let (of_shared, in_place) = demand(&engine, "shared").expect("a demand");
            assert_eq!(of_shared, of_other);
            assert_eq!(in_place.len(), number);
            put(&mut engine, "shared", number);
        }
        let (of_shared, in_place) = demand(&engine, "shared").expect("a demand");
        assert_ne!(of_shared, of_other);
        assert_eq!(in_place, []);
        (0..4).for_each(|number| put(&mut engine, "other", number));
        let (of_other, _) = demand(&engine, "other").expect("a demand");
        assert_ne!(of_shared, of_other);
    }

    #[test]
    fn nodes_that_have_a_volume_in_any_way_are_told() {
        let mut engine = engine_with_nodes(4);
        tell_bound(&mut engine, "a", "vol-1");
        tell(&mut engine, pod_with_claims("a", &["a"]));
        // By a disk that a pod names itself.
        let disk = json!([{"name": "d", "awsElasticBlockStore": {"volumeID": "vol-1"}}]);
        tell(&mut engine, pod("with-disk", "n1", disk.clone()));
        // By another claim, whose volume is of a plugin that a driver took over.
        let mut taken_over = volume_everywhere("v-b");
        taken_over["spec"]["csi"] = json!(null);
        taken_over["spec"]["awsElasticBlockStore"] = disk[0]["awsElasticBlockStore"].clone();
        tell(&mut engine, taken_over);
        tell(&mut engine, bound_claim("b", "v-b"));
        let with_claim = |name: &str, node: &str, claim: &str| {
            let mut pod = pod_with_claims(name, &[claim]);
            pod["spec"]["nodeName"] = node.into();
            pod
        };
        tell(&mut engine, with_claim("with-claim", "n2", "b"));
        let in_place = |engine: &Engine, pod: &str| {
            let (_, nodes) = demand(engine, pod).expect("a demand");
            let cluster = engine.cluster();
            let names = nodes.iter().map(|node| cluster.name(*node).to_owned());
            names.collect::<Vec<_>>()
        };
        assert_eq!(in_place(&engine, "a"), ["n1", "n2"]);
        // One that is still to be made: by its claim.
        tell(&mut engine, claim("waiting", "fast"));
        tell(&mut engine, pod_with_claims("c", &["waiting"]));
        tell(&mut engine, with_claim("with-waiting", "n2", "waiting"));
        assert_eq!(in_place(&engine, "c"), ["n2"]);
    }

    #[test]
    fn claims_that_want_something_else_demand_something_else() {
        let changes: [(&str, Value); 7] = [
            ("/spec/accessModes", json!(["ReadWriteMany"])),
            ("/spec/resources/requests/storage", json!("2Gi")),
            ("/spec/volumeMode", json!("Block")),
            ("/spec/volumeAttributesClassName", json!("gold")),
            ("/spec/selector", json!({"matchLabels": {"disk": "ssd"}})),
            ("/spec/storageClassName", json!("slow")),
            (
                "/metadata/annotations",
                json!({"volume.kubernetes.io/selected-node": "n0"}),
            ),
        ];
        let mut engine = engine_with_nodes(1);
        tell(&mut engine, waiting_class("slow", "csi.example.com"));
        tell(&mut engine, pod_with_claims("p", &["a"]));
        let mut demands = Vec::new();
        for (field, value) in changes {
            let mut claim = claim("a", "fast");
            set(&mut claim, field, value);
            tell(&mut engine, claim);
            demands.push(demand(&engine, "p").expect("a demand"));
        }
        tell(&mut engine, claim("a", "fast"));
        demands.push(demand(&engine, "p").expect("a demand"));
        all_differ(&demands);
    }

    #[test]
    fn volumes_that_are_elsewhere_are_demanded_as_such() {
        let required = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "zone", "operator": "Exists"}]}]}});
        let zone = json!({"topology.kubernetes.io/zone": "z"});
        let changes: [(&str, Value); 4] = [
            ("/spec/nodeAffinity", required),
            ("/metadata/labels", zone),
            ("/spec/csi/driver", json!("other.example.com")),
            ("/spec/awsElasticBlockStore", json!({"volumeID": "vol-1"})),
        ];
        let mut engine = engine_with_nodes(1);
        tell(&mut engine, bound_claim("p-tmp", "v"));
        let mut own = bound_claim("q-tmp", "v");
        own["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Pod",
            "name": "q", "uid": "uid-q", "controller": true}]);
        tell(&mut engine, own);
        tell(&mut engine, pod_with_claims("p", &["p-tmp"]));
        tell(
            &mut engine,
            pod("q", "", json!([{"name": "tmp", "ephemeral": {}}])),
        );
        let mut demands = Vec::new();
        for (field, value) in changes {
            let mut volume = volume_everywhere("v");
            set(&mut volume, field, value);
            tell(&mut engine, volume);
            demands.push(demand(&engine, "p").expect("a demand"));
        }
        tell(&mut engine, volume_everywhere("v"));
        demands.push(demand(&engine, "p").expect("a demand"));
        // Zones do not matter to a claim that goes with its pod.
        demands.push(demand(&engine, "q").expect("a demand"));
        all_differ(&demands);
    }

    fn set(object: &mut Value, field: &str, value: Value) {
        let (parent, name) = field.rsplit_once('/').expect("a path");
        object.pointer_mut(parent).expect("a parent")[name] = value;
    }

    fn all_differ(demands: &[(VolumeDemand, Vec<NodeId>)]) {
        for (number, (one, _)) in demands.iter().enumerate() {
            let mut others = demands[..number].iter();
            assert!(others.all(|(other, _)| one != other), "demand {number}");
        }
    }

    #[test]
    fn claims_to_one_volume_are_not_claims_to_two() {
        let mut engine = engine_with_nodes(1);
        for (name, handle) in [("a", "one"), ("b", "one"), ("c", "two")] {
            tell_bound(&mut engine, name, handle);
        }
        tell(&mut engine, pod_with_claims("same", &["a", "b"]));
        tell(&mut engine, pod_with_claims("different", &["a", "c"]));
        assert_ne!(demand(&engine, "same"), demand(&engine, "different"));
    }

    #[test]
    fn a_claim_to_the_disk_that_the_pod_names_itself_has_its_name() {
        let mut engine = engine_with_nodes(1);
        let with_disk = |name: &str, claim: &str| -> Value {
            let volumes = json!([
                {"name": "disk", "awsElasticBlockStore": {"volumeID": "vol-1"}},
                {"name": "claim", "persistentVolumeClaim": {"claimName": claim}},
            ]);
            pod(name, "", volumes)
        };
        for (name, handle) in [("a", "vol-1"), ("b", "vol-2")] {
            tell_bound(&mut engine, name, handle);
            tell(&mut engine, with_disk(name, name));
        }
        assert_ne!(demand(&engine, "a"), demand(&engine, "b"));
    }

    #[test]
    fn a_claim_for_which_a_volume_is_kept_is_not_like_others() {
        let mut engine = engine_with_nodes(1);
        tell(&mut engine, claim("a", "fast"));
        tell(&mut engine, pod_with_claims("a", &["a"]));
        assert!(demand(&engine, "a").is_some());
        let mut volume = volume_everywhere("v");
        volume["spec"]["claimRef"] = json!({"namespace": "default", "name": "a"});
        tell(&mut engine, volume);
        assert!(demand(&engine, "a").is_none());
    }
}
