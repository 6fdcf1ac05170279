//! What a pod demands of storage, so far as it decides where the pod can go.
//!
//! Pods that have a claim each are different pods, but mostly demand the same: a volume of
//! that class and size, or one that these nodes reach. A [`VolumeDemand`] is all that the
//! plugins of volumes read of a pod's volumes, without names where names do not matter: pods
//! with equal demands get equal answers from a node. So answers are kept by demand
//! ([`crate::verdicts`]).
//!
//! A node on which a volume is already, since a pod there uses it or it is still attached,
//! counts it once: there the name matters. If these are few nodes they are told beside the
//! demand, and answer for the one pod only. If they are many, pods that share a volume are
//! likely to come, and its name is a part of their demand.
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
                let nodes = self.cluster.nodes_in_place(volume, MAXIMUM_NODES_IN_PLACE);
                let Some(nodes) = nodes else {
                    return DemandedPlace::Known(place);
                };
                self.in_place.extend(nodes);
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
