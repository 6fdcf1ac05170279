//! Storage as decisions see it: claims, volumes, storage classes, and what CSI drivers tell.
//!
//! A pod names *claims* (PersistentVolumeClaim), a claim is bound to a *volume*
//! (PersistentVolume), now or once the first pod that uses it has a place
//! (`WaitForFirstConsumer`). Then the scheduler chooses a volume that is there and not taken
//! (static), or a node on which a new one is to be made (dynamic). What it chose is
//! *assumed* here until the objects say so themselves, so that the next pod does not get
//! the same volume (`plugins/volumebinding/passive_assume_cache.go`, Kubernetes 1.36).
//!
//! Names are symbols; a claim is a namespace and a name.

mod by_reach;
mod cloud;
mod csi_migration;
mod demand;
mod pod_volumes;
#[cfg(test)]
pub(crate) mod testing;
mod uses;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use outrank_api::decode::{Object, ObjectKind};
use outrank_api::quantity::Quantity;
use outrank_api::types as api;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::framework::Refusal;

use crate::ids::{Interner, NodeId, PodId, Symbol, Symbols};
use crate::node_match::{NodeRequirement, NodeTerm, compile_terms};
use crate::pod_match::{LabelMatch, LabelRequirement, Labels, compile_labels};

use by_reach::{RequiredLabel, required_by_labels, required_by_terms};
use uses::Uses;

pub use by_reach::ByReach;
pub use cloud::{Cloud, CloudDisk};
pub use csi_migration::Migrated;
pub(crate) use demand::VolumeDemand;
pub use pod_volumes::{Disk, EphemeralOwner, PodDisk, PodVolume, PodVolumes};

/// Volumes that a claim of their class could get, by size and name.
pub type FreeVolumes = ByReach<(Quantity, Symbol)>;

/// How large a volume can be made, in bytes, and the namespace and name of what tells so.
type Room = ByReach<(i64, (Symbol, Symbol))>;

/// Namespace and name of a claim.
pub type ClaimKey = (Symbol, Symbol);

/// A volume as a CSI driver knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CsiVolume {
    /// Name of the driver.
    pub driver: Symbol,
    /// The driver's name of the volume.
    pub handle: Symbol,
}

/// A PersistentVolumeClaim.
#[derive(Clone, Debug)]
pub struct Claim {
    /// UID; `None` if it has none yet.
    pub uid: Option<Symbol>,
    /// UID of the object that controls it.
    pub controller_uid: Option<Symbol>,
    /// The volume that it is bound to, or meant for.
    pub volume: Option<Symbol>,
    /// Whether binding is complete.
    pub is_bound: bool,
    /// Its storage class.
    pub class: Option<Symbol>,
    /// The size that it asks for, in bytes.
    pub size: Option<Quantity>,
    /// Its access modes.
    pub access_modes: Box<[Symbol]>,
    /// Whether only one pod may use it (`ReadWriteOncePod`).
    pub is_for_one_pod: bool,
    /// `Filesystem` or `Block`.
    pub mode: Symbol,
    /// Its VolumeAttributesClass; empty is none.
    pub attributes_class: Symbol,
    /// Volumes that will do, by labels.
    pub selector: Option<LabelMatch>,
    /// The node on which a volume is being made.
    pub selected_node: Option<Symbol>,
    /// Whether its volume is gone.
    pub is_lost: bool,
    /// Whether it is being deleted.
    pub is_deleting: bool,
}

/// The claim that a volume is bound to, or kept for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimReference {
    /// The claim.
    pub claim: ClaimKey,
    /// Its UID; `None` if any claim of that name will do.
    pub uid: Option<Symbol>,
}

/// A PersistentVolume.
#[derive(Clone, Debug)]
pub struct Volume {
    /// The claim that it is bound to, or kept for.
    pub claim: Option<ClaimReference>,
    /// Its storage class.
    pub class: Option<Symbol>,
    /// Its size in bytes.
    pub size: Quantity,
    /// Its access modes.
    pub access_modes: Box<[Symbol]>,
    /// `Filesystem` or `Block`.
    pub mode: Symbol,
    /// Its VolumeAttributesClass; empty is none.
    pub attributes_class: Symbol,
    /// Labels.
    pub labels: Labels,
    /// Whether it can be bound (phase `Available`).
    pub is_available: bool,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// Nodes that can reach it, one term of several; `None` is all of them.
    pub nodes: Option<Box<[NodeTerm]>>,
    /// What it is to its CSI driver.
    pub csi: Option<CsiVolume>,
    /// The disk of a cloud that it is.
    pub cloud: Option<CloudDisk>,
    /// What it is where a CSI driver has taken over from the volume plugin built into
    /// Kubernetes.
    pub migrated: Option<Migrated>,
    /// Values of its zone and region labels that a node must have one of, by label.
    pub topologies: Box<[(Symbol, Box<[Symbol]>)]>,
}

/// A StorageClass.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StorageClass {
    /// Who makes volumes; `None` if nobody does.
    pub provisioner: Option<Symbol>,
    /// The CSI driver that makes them, if the scheduler counts its volumes, and whether it
    /// took over from a plugin that was built into Kubernetes.
    pub driver: Option<(Symbol, bool)>,
    /// Whether claims wait for the first pod that uses them; `None` if the class does not
    /// say, which the API server never lets happen.
    pub waits_for_consumer: Option<bool>,
    /// Where volumes can be made, one term of several; `None` is everywhere.
    pub topologies: Option<Box<[NodeTerm]>>,
}

/// A CSINode.
#[derive(Clone, Debug)]
pub struct CsiNode {
    /// How many volumes each driver can attach there, of those that have a limit.
    pub limits: Box<[(Symbol, i64)]>,
    /// Volume plugins built into Kubernetes that a CSI driver has taken over there.
    pub migrated_plugins: Box<[Symbol]>,
}

/// A CSIStorageCapacity.
#[derive(Clone, Debug)]
pub struct Capacity {
    class: Symbol,
    /// Size in bytes of the largest volume that can be made; `None` is none at all.
    largest_bytes: Option<i64>,
    nodes: Option<LabelMatch>,
}

/// What Reserve takes for a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeReservation {
    /// Volumes to bind, each with the claim that gets it.
    pub bindings: Vec<(Symbol, ClaimKey)>,
    /// Claims for which a volume is to be made on the node.
    pub provisions: Vec<ClaimKey>,
}

/// All storage of the cluster.
#[derive(Clone, Debug)]
pub struct Storage {
    claims: FxHashMap<ClaimKey, Claim>,
    volumes: FxHashMap<Symbol, Volume>,
    /// Volumes that are kept for nobody, what is assumed considered: by class, the smallest
    /// first.
    free_volumes: FxHashMap<Symbol, FreeVolumes>,
    /// Volumes that are bound to a claim or kept for it, what is assumed included.
    kept_volumes: FxHashMap<ClaimKey, BTreeSet<Symbol>>,
    classes: FxHashMap<Symbol, StorageClass>,
    csi_nodes: FxHashMap<Symbol, CsiNode>,
    /// Whether a driver tells how much room there is.
    drivers: FxHashMap<Symbol, bool>,
    capacities: BTreeMap<(Symbol, Symbol), Capacity>,
    /// By class, the largest volume that can be made and the name of what tells so.
    capacities_by_class: FxHashMap<Symbol, Room>,
    attachments: BTreeMap<Symbol, Attachment>,
    attached: FxHashMap<Symbol, BTreeSet<Symbol>>,
    pod_volumes: Interner<PodVolumes>,
    /// How many volumes of pods on nodes are a claim, those left out that go with their pods.
    users: FxHashMap<ClaimKey, usize>,
    uses: Uses,
    /// By row of the cluster: what the pods of the node take of drivers' places, counted
    /// when it is asked for and then kept until something about it changes.
    places: Vec<OnceLock<PlacesTaken>>,
    assumed_bindings: FxHashMap<Symbol, ClaimReference>,
    assumed_nodes: FxHashMap<ClaimKey, Symbol>,
    reservations: FxHashMap<PodId, VolumeReservation>,
    /// By class, how often free volumes or room changed for more nodes than were logged.
    reach_epochs: FxHashMap<Symbol, u64>,
}

/// Nodes for which an object about storage may matter, beside those of the pods that are
/// still to be placed.
#[derive(Debug, Default)]
pub(crate) struct Concerned<'s> {
    /// Rows of nodes, some maybe more than once.
    pub rows: Vec<usize>,
    /// Nodes by name.
    pub names: Vec<Symbol>,
    /// The class of a volume that is free, or of room, and what nodes must have to reach it.
    pub reach: Option<(Symbol, RequiredLabel<'s>)>,
}

/// A volume that takes one of a driver's places on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    /// Name of the driver.
    pub driver: Symbol,
    /// What tells volumes of the driver apart.
    pub volume: VolumeHandle,
}

/// What tells volumes of one driver apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum VolumeHandle {
    /// The driver's name of the volume.
    Volume(Symbol),
    /// A volume that is still to be made, by its claim.
    ToBeMade(ClaimKey),
}

/// The places that the pods of a node take, or why they cannot be counted.
pub(crate) type PlacesTaken = Result<FxHashSet<Place>, Refusal>;

/// A VolumeAttachment of a PersistentVolume.
#[derive(Clone, Copy, Debug)]
struct Attachment {
    node: Symbol,
    attacher: Symbol,
    volume: Symbol,
}

impl Default for Storage {
    fn default() -> Self {
        let mut pod_volumes = Interner::default();
        pod_volumes.insert_full(PodVolumes::default());
        Self {
            claims: FxHashMap::default(),
            volumes: FxHashMap::default(),
            free_volumes: FxHashMap::default(),
            kept_volumes: FxHashMap::default(),
            classes: FxHashMap::default(),
            csi_nodes: FxHashMap::default(),
            drivers: FxHashMap::default(),
            capacities: BTreeMap::new(),
            capacities_by_class: FxHashMap::default(),
            attachments: BTreeMap::new(),
            attached: FxHashMap::default(),
            pod_volumes,
            users: FxHashMap::default(),
            uses: Uses::default(),
            places: Vec::new(),
            assumed_bindings: FxHashMap::default(),
            assumed_nodes: FxHashMap::default(),
            reservations: FxHashMap::default(),
            reach_epochs: FxHashMap::default(),
        }
    }
}

impl Storage {
    /// The volumes of pods that matter to scheduling; those of number 0 are none.
    pub fn pod_volumes(&self, number: u32) -> &PodVolumes {
        &self.pod_volumes[number as usize]
    }

    /// The number of volumes, a new one if they were not seen before.
    pub(crate) fn intern_pod_volumes(&mut self, volumes: PodVolumes) -> u32 {
        if volumes.is_empty() {
            return 0;
        }
        self.pod_volumes.insert_full(volumes).0 as u32
    }

    /// The claim of that name.
    pub fn claim(&self, claim: ClaimKey) -> Option<&Claim> {
        self.claims.get(&claim)
    }

    /// The volume of that name.
    pub fn volume(&self, name: Symbol) -> Option<&Volume> {
        self.volumes.get(&name)
    }

    /// The volumes of a storage class that are kept for nobody, what is assumed considered.
    pub fn free_volumes(&self, class: Symbol) -> Option<&FreeVolumes> {
        self.free_volumes.get(&class)
    }

    /// The volumes that are bound to the claim of that name or kept for it, what is assumed
    /// included, in a fixed order.
    pub fn kept_volumes(&self, claim: ClaimKey) -> impl Iterator<Item = (Symbol, &Volume)> {
        let names = self.kept_volumes.get(&claim).into_iter().flatten();
        names.filter_map(|name| Some((*name, self.volumes.get(name)?)))
    }

    /// The claim that a volume is bound to or kept for, what is assumed included.
    pub fn claim_of(&self, name: Symbol, volume: &Volume) -> Option<ClaimReference> {
        self.assumed_bindings.get(&name).copied().or(volume.claim)
    }

    /// The node on which a volume for the claim is being made, what is assumed included.
    pub fn selected_node(&self, key: ClaimKey, claim: &Claim) -> Option<Symbol> {
        self.assumed_nodes
            .get(&key)
            .copied()
            .or(claim.selected_node)
    }

    /// The storage class of that name.
    pub fn class(&self, name: Symbol) -> Option<&StorageClass> {
        self.classes.get(&name)
    }

    /// What is known of the CSI drivers of the node of that name.
    pub fn csi_node(&self, node_name: Symbol) -> Option<&CsiNode> {
        self.csi_nodes.get(&node_name)
    }

    /// Whether there is room for a volume of the class and size on a node with these
    /// labels. There always is if the driver does not tell. O(log capacities), if what tells
    /// of room asks nodes for a label.
    pub fn has_room(
        &self,
        class_name: Symbol,
        provisioner: Symbol,
        size: &Quantity,
        node_labels: &[(Symbol, Symbol)],
    ) -> bool {
        if !self.tells_room(provisioner) {
            return true;
        }
        let Some(capacities) = self.capacities_by_class.get(&class_name) else {
            return false;
        };
        let reaches = |key: &(Symbol, Symbol)| {
            let nodes = self.capacities.get(key).and_then(|it| it.nodes.as_ref());
            nodes.is_some_and(|nodes| nodes.matches(node_labels))
        };
        let size_bytes = size.value();
        let has_room = capacities.sets(node_labels).any(|capacities| {
            // The largest first.
            let large_enough = capacities.iter().rev();
            let mut large_enough = large_enough.take_while(|(largest, _)| *largest >= size_bytes);
            large_enough.any(|(_, key)| reaches(key))
        });
        debug_assert_eq!(has_room, {
            let of_class = self.capacities.iter();
            let mut of_class = of_class.filter(|(_, it)| it.class == class_name);
            of_class.any(|(key, it)| it.largest_bytes >= Some(size_bytes) && reaches(key))
        });
        has_room
    }

    /// Whether a driver tells how much room there is.
    pub(crate) fn tells_room(&self, driver: Symbol) -> bool {
        self.drivers.get(&driver) == Some(&true)
    }

    /// The rows of the nodes with pods that use this volume of a driver, some maybe more than
    /// once.
    pub(crate) fn rows_in_place(&self, volume: VolumeHandle) -> impl Iterator<Item = usize> {
        self.uses.rows_in_place(volume)
    }

    /// Grows when free volumes or room of a class changed for more nodes than were logged.
    pub(crate) fn reach_epoch(&self, class: Symbol) -> u64 {
        self.reach_epochs.get(&class).copied().unwrap_or(0)
    }

    /// Notes that free volumes or room of a class changed for all nodes.
    pub(crate) fn end_reach_epoch(&mut self, class: Symbol) {
        *self.reach_epochs.entry(class).or_insert(0) += 1;
    }

    /// All volumes.
    pub(crate) fn volumes(&self) -> impl Iterator<Item = (Symbol, &Volume)> {
        self.volumes.iter().map(|(name, volume)| (*name, volume))
    }

    /// Volumes of CSI drivers that are attached to a node, each by the driver that attached
    /// it.
    pub fn attached(&self, node_name: Symbol) -> impl Iterator<Item = CsiVolume> {
        let names = self.attached.get(&node_name).into_iter().flatten();
        names.filter_map(|name| {
            let attachment = self.attachments.get(name)?;
            let handle = self.volumes.get(&attachment.volume)?.csi?.handle;
            Some(CsiVolume {
                driver: attachment.attacher,
                handle,
            })
        })
    }

    /// Whether a pod on a node uses the claim.
    pub fn is_used(&self, claim: ClaimKey) -> bool {
        self.users.get(&claim).is_some_and(|users| *users > 0)
    }

    /// Whether an object has a part in where a pod with these volumes may go, as far as
    /// claims are concerned. O(claims of the pod).
    pub fn concerns(&self, volumes: &PodVolumes, kind: ObjectKind, key: (Symbol, Symbol)) -> bool {
        let name = key.1;
        let claims = || {
            let claims = volumes.all_claims();
            claims.filter_map(|(key, _)| Some((key, self.claims.get(&key)?)))
        };
        let class_of = |claim: &Claim| self.classes.get(&claim.class?);
        match kind {
            ObjectKind::PersistentVolumeClaim => {
                volumes.all_claims().any(|(claim, _)| claim == key)
            }
            ObjectKind::PersistentVolume => {
                let volume = self.volumes.get(&name);
                claims().any(|(key, claim)| {
                    let could_get = |volume: &Volume| match volume.claim {
                        Some(kept_for) => kept_for.claim == key,
                        None => claim.volume.is_none() && volume.class == claim.class,
                    };
                    claim.volume == Some(name) || volume.is_some_and(could_get)
                })
            }
            ObjectKind::StorageClass => claims().any(|(_, claim)| claim.class == Some(name)),
            ObjectKind::CSIDriver => claims().any(|(_, claim)| {
                class_of(claim).is_some_and(|class| class.provisioner == Some(name))
            }),
            ObjectKind::CSIStorageCapacity => {
                let class = self.capacities.get(&key).map(|capacity| capacity.class);
                class.is_some() && claims().any(|(_, claim)| claim.class == class)
            }
            ObjectKind::CSINode => claims().next().is_some(),
            _ => false,
        }
    }

    /// What the pods of the node in this row take of drivers' places; `count` counts it if
    /// that is not known.
    pub(crate) fn places_taken(
        &self,
        row: usize,
        count: impl Fn() -> PlacesTaken,
    ) -> Cow<'_, PlacesTaken> {
        let Some(places) = self.places.get(row) else {
            return Cow::Owned(count());
        };
        let taken = places.get_or_init(&count);
        // What is kept is what would be counted: tests of random histories see to it.
        debug_assert_eq!(taken, &count());
        Cow::Borrowed(taken)
    }

    /// Makes room for the node of a new row.
    pub(crate) fn grow(&mut self) {
        self.places.push(OnceLock::new());
    }

    /// Counts the claims of a pod that came to the node of this row (`by` is 1) or left it
    /// (-1).
    pub(crate) fn count_users(&mut self, row: usize, pod_volumes: u32, by: isize) {
        if pod_volumes == 0 {
            return;
        }
        if let Some(places) = self.places.get_mut(row) {
            places.take();
        }
        let pod_volumes = &self.pod_volumes[pod_volumes as usize];
        self.uses.count(row, pod_volumes, by);
        for claim in pod_volumes.claims() {
            let users = self.users.entry(claim).or_insert(0);
            *users = users.saturating_add_signed(by);
            if *users == 0 {
                self.users.remove(&claim);
            }
        }
    }

    /// Assumes what was reserved for a pod that goes to a node.
    pub(crate) fn reserve(
        &mut self,
        pod: PodId,
        node_name: Symbol,
        reservation: VolumeReservation,
    ) {
        for &(volume, claim) in &reservation.bindings {
            let uid = self.claims.get(&claim).and_then(|claim| claim.uid);
            self.assume_binding(volume, Some(ClaimReference { claim, uid }));
        }
        for &claim in &reservation.provisions {
            self.assumed_nodes.insert(claim, node_name);
        }
        if !reservation.bindings.is_empty() || !reservation.provisions.is_empty() {
            self.reservations.insert(pod, reservation);
        }
    }

    /// What was reserved for a pod, until it is known to be bound to its node.
    pub fn reservation(&self, pod: PodId) -> Option<&VolumeReservation> {
        self.reservations.get(&pod)
    }

    /// Takes back what was assumed for a pod that did not get its place after all. Returns
    /// the claims and volumes about which something was, by kind, namespace and name.
    pub(crate) fn unreserve(&mut self, pod: PodId) -> Vec<(ObjectKind, (Symbol, Symbol))> {
        let Some(reservation) = self.reservations.remove(&pod) else {
            return Vec::new();
        };
        let mut freed = Vec::new();
        for (volume, claim) in reservation.bindings {
            let assumed = self.assumed_bindings.get(&volume);
            if assumed.is_some_and(|assumed| assumed.claim == claim) {
                self.assume_binding(volume, None);
            }
            freed.push((ObjectKind::PersistentVolume, (claim.0, volume)));
            freed.push((ObjectKind::PersistentVolumeClaim, claim));
        }
        for claim in reservation.provisions {
            self.assumed_nodes.remove(&claim);
            freed.push((ObjectKind::PersistentVolumeClaim, claim));
        }
        freed
    }

    /// Forgets which assumptions are those of a pod that is gone; they stay.
    pub(crate) fn settle(&mut self, pod: PodId) {
        self.reservations.remove(&pod);
    }

    /// Takes in an object of that namespace and name that is new or has changed. Objects that
    /// are not about storage are left out. What was assumed of a claim or volume ends, since
    /// the object says now.
    pub(super) fn take_in(
        &mut self,
        object: &Object,
        key: (Symbol, Symbol),
        symbols: &mut Symbols,
    ) {
        let (_, name) = key;
        match object {
            Object::PersistentVolumeClaim(it) => {
                self.set_claim(key, Some(Claim::compile(it, symbols)));
            }
            Object::PersistentVolume(it) => {
                self.set_volume(name, Some(Volume::compile(it, symbols)));
            }
            Object::StorageClass(it) => {
                self.classes
                    .insert(name, StorageClass::compile(it, symbols));
            }
            Object::CSINode(it) => {
                self.csi_nodes.insert(name, CsiNode::compile(it, symbols));
            }
            Object::CSIDriver(it) => {
                let tells_capacity = it.spec.storage_capacity == Some(true);
                self.drivers.insert(name, tells_capacity);
            }
            Object::CSIStorageCapacity(it) => {
                self.set_capacity(key, Some(Capacity::compile(it, symbols)));
            }
            Object::VolumeAttachment(it) => {
                self.set_attachment(name, Attachment::compile(it, symbols));
            }
            _ => {}
        }
    }

    /// Forgets an object.
    pub(crate) fn forget(&mut self, kind: ObjectKind, key: (Symbol, Symbol)) {
        let (_, name) = key;
        match kind {
            ObjectKind::PersistentVolumeClaim => self.set_claim(key, None),
            ObjectKind::PersistentVolume => self.set_volume(name, None),
            ObjectKind::StorageClass => drop(self.classes.remove(&name)),
            ObjectKind::CSINode => drop(self.csi_nodes.remove(&name)),
            ObjectKind::CSIDriver => drop(self.drivers.remove(&name)),
            ObjectKind::CSIStorageCapacity => self.set_capacity(key, None),
            ObjectKind::VolumeAttachment => self.set_attachment(name, None),
            _ => {}
        }
    }

    /// The nodes for which an object may matter.
    pub(crate) fn concerned(&self, kind: ObjectKind, key: (Symbol, Symbol)) -> Concerned<'_> {
        let (_, name) = key;
        let mut concerned = Concerned::default();
        match kind {
            ObjectKind::PersistentVolumeClaim => {
                concerned.rows = self.uses.rows_of_claim(key).collect();
            }
            ObjectKind::PersistentVolume => {
                concerned.rows = self.uses.rows_of_volume(name).collect();
                let attachments = self.uses.attachments_of(name);
                let attachments = attachments.filter_map(|it| self.attachments.get(&it));
                concerned.names = attachments.map(|it| it.node).collect();
                concerned.reach = self.reach_of_free(name);
            }
            ObjectKind::StorageClass => concerned.rows = self.uses.rows().collect(),
            ObjectKind::CSINode => concerned.names.push(name),
            ObjectKind::VolumeAttachment => {
                let attachment = self.attachments.get(&name);
                concerned.names.extend(attachment.map(|it| it.node));
            }
            ObjectKind::CSIStorageCapacity => {
                let capacity = self.capacities.get(&key);
                concerned.reach = capacity.map(|capacity| {
                    let required = capacity.nodes.as_ref().and_then(required_by_labels);
                    (capacity.class, required)
                });
            }
            // Drivers matter to the pods that wait only.
            _ => {}
        }
        concerned
    }

    /// The class of a volume that is kept for nobody, and what nodes must have to reach it.
    fn reach_of_free(&self, name: Symbol) -> Option<(Symbol, RequiredLabel<'_>)> {
        let volume = self.volumes.get(&name)?;
        let is_free = self.claim_of(name, volume).is_none();
        let required = required_by_terms(volume.nodes.as_deref());
        is_free.then_some((volume.class?, required))
    }

    /// Forgets what the pods of the node in this row take of drivers' places: it is to be
    /// counted anew.
    pub(crate) fn recount_places(&mut self, row: usize) {
        if let Some(places) = self.places.get_mut(row) {
            places.take();
        }
    }

    fn set_claim(&mut self, key: ClaimKey, claim: Option<Claim>) {
        // The object says now what was assumed.
        self.assumed_nodes.remove(&key);
        let volume = claim.as_ref().and_then(|claim| claim.volume);
        let before = match claim {
            Some(claim) => self.claims.insert(key, claim),
            None => self.claims.remove(&key),
        };
        if let Some(before) = before.and_then(|before| before.volume) {
            self.uses.index_claim(key, before, false);
        }
        if let Some(volume) = volume {
            self.uses.index_claim(key, volume, true);
        }
    }

    fn set_volume(&mut self, name: Symbol, volume: Option<Volume>) {
        self.index_volume(name, false);
        self.assumed_bindings.remove(&name);
        if let Some(before) = self.volumes.remove(&name) {
            self.uses.index_volume(name, &before, false);
        }
        if let Some(volume) = volume {
            self.uses.index_volume(name, &volume, true);
            self.volumes.insert(name, volume);
        }
        self.index_volume(name, true);
    }

    fn assume_binding(&mut self, name: Symbol, claim: Option<ClaimReference>) {
        self.index_volume(name, false);
        match claim {
            Some(claim) => drop(self.assumed_bindings.insert(name, claim)),
            None => drop(self.assumed_bindings.remove(&name)),
        }
        self.index_volume(name, true);
    }

    /// Notes for whom a volume is, or takes that back.
    fn index_volume(&mut self, name: Symbol, is_there: bool) {
        let Some(volume) = self.volumes.get(&name) else {
            return;
        };
        let claim = self.claim_of(name, volume).map(|claim| claim.claim);
        if let Some(claim) = claim {
            let kept = self.kept_volumes.entry(claim).or_default();
            match is_there {
                true => kept.insert(name),
                false => kept.remove(&name),
            };
            if kept.is_empty() {
                self.kept_volumes.remove(&claim);
            }
        } else if let Some(class) = volume.class {
            let free = self.free_volumes.entry(class).or_default();
            let thing = (volume.size.clone(), name);
            let required = required_by_terms(volume.nodes.as_deref());
            match is_there {
                true => free.insert(&thing, required),
                false => free.remove(&thing, required),
            }
        }
    }

    fn set_capacity(&mut self, key: (Symbol, Symbol), capacity: Option<Capacity>) {
        self.index_capacity(key, false);
        match capacity {
            Some(capacity) => drop(self.capacities.insert(key, capacity)),
            None => drop(self.capacities.remove(&key)),
        }
        self.index_capacity(key, true);
    }

    fn index_capacity(&mut self, key: (Symbol, Symbol), is_there: bool) {
        let Some(capacity) = self.capacities.get(&key) else {
            return;
        };
        let Some(largest_bytes) = capacity.largest_bytes else {
            return;
        };
        let required = capacity.nodes.as_ref().and_then(required_by_labels);
        let by_class = self.capacities_by_class.entry(capacity.class).or_default();
        match is_there {
            true => by_class.insert(&(largest_bytes, key), required),
            false => by_class.remove(&(largest_bytes, key), required),
        }
    }

    fn set_attachment(&mut self, name: Symbol, attachment: Option<Attachment>) {
        if let Some(before) = self.attachments.remove(&name) {
            self.uses.index_attachment(name, before.volume, false);
            if let Some(names) = self.attached.get_mut(&before.node) {
                names.remove(&name);
            }
        }
        if let Some(attachment) = attachment {
            self.uses.index_attachment(name, attachment.volume, true);
            self.attached
                .entry(attachment.node)
                .or_default()
                .insert(name);
            self.attachments.insert(name, attachment);
        }
    }
}

impl Attachment {
    /// Compiles an attachment of a PersistentVolume; `None` if it is of something else.
    fn compile(attachment: &api::VolumeAttachment, symbols: &mut Symbols) -> Option<Self> {
        let spec = &attachment.spec;
        let volume = spec.source.persistent_volume_name.as_ref()?;
        (!spec.attacher.is_empty()).then(|| Self {
            node: symbols.intern(&spec.node_name),
            attacher: symbols.intern(&spec.attacher),
            volume: symbols.intern(volume),
        })
    }
}

impl ClaimReference {
    /// Whether it means this claim (`component-helpers/storage/volume/pv_helpers.go`
    /// IsVolumeBoundToClaim, Kubernetes 1.36).
    pub fn means(&self, key: ClaimKey, claim: &Claim) -> bool {
        self.claim == key && self.uid.is_none_or(|uid| claim.uid == Some(uid))
    }
}

impl Claim {
    /// Compiles a claim.
    pub(crate) fn compile(claim: &api::PersistentVolumeClaim, symbols: &mut Symbols) -> Self {
        let (metadata, spec) = (&claim.metadata, &claim.spec);
        let annotations = &metadata.annotations;
        let class = claim.class_name().filter(|class| !class.is_empty());
        let (uid, volume) = (
            name(&metadata.uid, symbols),
            name(&spec.volume_name, symbols),
        );
        let mut intern = |text: &str| symbols.intern(text);
        Self {
            uid,
            controller_uid: metadata.controller().map(|owner| intern(&owner.uid)),
            volume,
            is_bound: volume.is_some() && annotations.contains_key(api::BIND_COMPLETED),
            class: class.map(&mut intern),
            size: spec.resources.requests.get("storage").cloned(),
            access_modes: spec.access_modes.iter().map(|mode| intern(mode)).collect(),
            is_for_one_pod: spec
                .access_modes
                .iter()
                .any(|mode| mode == "ReadWriteOncePod"),
            selected_node: annotations.get(api::SELECTED_NODE).map(|node| intern(node)),
            mode: mode(spec.volume_mode.as_deref(), symbols),
            attributes_class: symbols.intern(
                spec.volume_attributes_class_name
                    .as_deref()
                    .unwrap_or_default(),
            ),
            selector: spec
                .selector
                .as_ref()
                .map(|selector| LabelMatch::compile(Some(selector), symbols)),
            is_lost: claim.status.phase == "Lost",
            is_deleting: metadata.deletion_timestamp.is_some(),
        }
    }
}

impl Volume {
    /// Compiles a volume.
    pub(crate) fn compile(volume: &api::PersistentVolume, symbols: &mut Symbols) -> Self {
        let (metadata, spec) = (&volume.metadata, &volume.spec);
        let required = spec
            .node_affinity
            .as_ref()
            .and_then(|affinity| affinity.required.as_ref());
        let claim = spec.claim_ref.as_ref().map(|claim| ClaimReference {
            claim: (
                symbols.intern(&claim.namespace),
                symbols.intern(&claim.name),
            ),
            uid: name(&claim.uid, symbols),
        });
        Self {
            claim,
            class: name(volume.class_name(), symbols),
            size: spec.capacity.get("storage").cloned().unwrap_or_default(),
            access_modes: spec
                .access_modes
                .iter()
                .map(|mode| symbols.intern(mode))
                .collect(),
            mode: mode(spec.volume_mode.as_deref(), symbols),
            attributes_class: symbols.intern(
                spec.volume_attributes_class_name
                    .as_deref()
                    .unwrap_or_default(),
            ),
            labels: compile_labels(&metadata.labels, symbols),
            is_available: volume.status.phase == "Available",
            is_deleting: metadata.deletion_timestamp.is_some(),
            nodes: required.map(|required| compile_nodes(required, symbols)),
            csi: spec.csi.as_ref().map(|csi| CsiVolume {
                driver: symbols.intern(&csi.driver),
                handle: symbols.intern(&csi.volume_handle),
            }),
            cloud: CloudDisk::of_volume(spec, symbols),
            migrated: Migrated::compile(volume, symbols),
            topologies: topologies(&metadata.labels, symbols),
        }
    }

    /// The nodes that can reach it from a node with these CSI drivers: where a driver has
    /// taken over, it knows zones by labels of its own.
    ///
    /// # Errors
    /// Why the driver cannot take the volume over.
    pub fn reachable_nodes(&self, csi_node: Option<&CsiNode>) -> Result<Option<&[NodeTerm]>, &str> {
        match (&self.migrated, csi_node) {
            (Some(migrated), Some(node)) if node.migrated_plugins.contains(&migrated.plugin) => {
                match &migrated.csi {
                    Ok(_) => Ok(migrated.nodes.as_deref()),
                    Err(error) => Err(error),
                }
            }
            _ => Ok(self.nodes.as_deref()),
        }
    }
}

fn name(text: &str, symbols: &mut Symbols) -> Option<Symbol> {
    (!text.is_empty()).then(|| symbols.intern(text))
}

fn mode(mode: Option<&str>, symbols: &mut Symbols) -> Symbol {
    symbols.intern(mode.unwrap_or("Filesystem"))
}

/// Compiles the nodes that can reach a volume. Upstream looks at labels only: the node's
/// name counts as empty there.
fn compile_nodes(selector: &api::NodeSelector, symbols: &mut Symbols) -> Box<[NodeTerm]> {
    let terms = compile_terms(selector, symbols).into_vec().into_iter();
    let terms = terms.filter_map(|term| {
        let is_named = |it: &NodeRequirement| matches!(it, NodeRequirement::Named(_));
        let not_named = |it: &NodeRequirement| matches!(it, NodeRequirement::NotNamed(_));
        if term.0.iter().any(is_named) {
            return None;
        }
        let labels = term.0.into_vec().into_iter().filter(|it| !not_named(it));
        Some(NodeTerm(labels.collect()))
    });
    terms.collect()
}

/// Label keys by which volumes and nodes say where they are.
pub(crate) const TOPOLOGY_LABELS: [&str; 4] = [
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
];

/// Separates zones in a label.
const ZONE_SEPARATOR: &str = "__";

/// Zone and region labels; one with an empty zone in its list is left out.
fn topologies(labels: &api::StringMap, symbols: &mut Symbols) -> Box<[(Symbol, Box<[Symbol]>)]> {
    let mut topologies = Vec::new();
    for key in TOPOLOGY_LABELS {
        let Some(value) = labels.get(key) else {
            continue;
        };
        let zones: Vec<&str> = value.split(ZONE_SEPARATOR).map(str::trim).collect();
        if zones.iter().all(|zone| !zone.is_empty()) {
            let zones = zones.iter().map(|zone| symbols.intern(zone)).collect();
            topologies.push((symbols.intern(key), zones));
        }
    }
    topologies.into()
}

impl StorageClass {
    /// Compiles a storage class.
    pub(crate) fn compile(class: &api::StorageClass, symbols: &mut Symbols) -> Self {
        let provisioner = symbols.intern(&class.provisioner);
        let mut compile = |term: &api::TopologySelectorTerm| {
            let requirements = term.match_label_expressions.iter().map(|requirement| {
                let values = requirement.values.iter().map(|value| symbols.intern(value));
                let values = values.collect();
                let key = symbols.intern(&requirement.key);
                NodeRequirement::Label(LabelRequirement::In(key, values))
            });
            NodeTerm(requirements.collect())
        };
        let terms = class.allowed_topologies.iter();
        let terms = terms.filter(|term| !term.match_label_expressions.is_empty());
        let terms: Box<[NodeTerm]> = terms.map(&mut compile).collect();
        let mode = class.volume_binding_mode.as_deref();
        Self {
            provisioner: class.makes_volumes().then_some(provisioner),
            driver: csi_migration::driver_of(&class.provisioner, symbols),
            waits_for_consumer: mode.map(|mode| mode == "WaitForFirstConsumer"),
            topologies: (!class.allowed_topologies.is_empty()).then_some(terms),
        }
    }
}

impl CsiNode {
    /// Compiles what is known of the CSI drivers of a node.
    pub(crate) fn compile(node: &api::CSINode, symbols: &mut Symbols) -> Self {
        let limits = node.spec.drivers.iter().filter_map(|driver| {
            let count = driver.allocatable?.count?;
            Some((symbols.intern(&driver.name), i64::from(count)))
        });
        let limits = limits.collect();
        let migrated = "storage.alpha.kubernetes.io/migrated-plugins";
        let migrated = node.metadata.annotations.get(migrated);
        let plugins = migrated.iter().flat_map(|plugins| plugins.split(','));
        Self {
            limits,
            migrated_plugins: plugins.map(|plugin| symbols.intern(plugin)).collect(),
        }
    }

    /// How many volumes a driver can attach there; `None` is without limit.
    pub fn limit(&self, driver: Symbol) -> Option<i64> {
        // Of a driver that is named twice the last counts.
        let mut limits = self.limits.iter().rev();
        limits
            .find(|(name, _)| *name == driver)
            .map(|(_, limit)| *limit)
    }
}

impl Capacity {
    /// Compiles how much room there is somewhere.
    pub(crate) fn compile(capacity: &api::CSIStorageCapacity, symbols: &mut Symbols) -> Self {
        let largest = capacity
            .maximum_volume_size
            .as_ref()
            .or(capacity.capacity.as_ref());
        let topology = capacity.node_topology.as_ref();
        Self {
            class: symbols.intern(&capacity.storage_class_name),
            largest_bytes: largest.map(Quantity::value),
            nodes: topology.map(|selector| LabelMatch::compile(Some(selector), symbols)),
        }
    }
}

/// Whether a node is one of those that can reach something.
pub(crate) fn reaches(
    nodes: Option<&[NodeTerm]>,
    cluster: &crate::cluster::Cluster,
    node: NodeId,
) -> bool {
    nodes.is_none_or(|terms| crate::node_match::any_matches(terms, cluster, node))
}
