//! Who uses which volumes: pods on nodes, by claims and disks, and attachments.
//!
//! Tables are sorted lists of pairs, so that one of many claims with one user each costs no
//! more than that.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use super::{ClaimKey, Migrated, PodVolume, PodVolumes, Volume, VolumeHandle};
use crate::ids::Symbol;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Uses {
    /// How many volumes of the pods on the node of a row are the claim, those included that
    /// go with their pods.
    claims: BTreeMap<(ClaimKey, usize), usize>,
    /// How many disks that pods on the node of a row name themselves have this name with the
    /// CSI driver that took over.
    disks: BTreeMap<(Symbol, usize), usize>,
    /// Volumes and the claims that say that they are bound to them.
    claims_of_volumes: BTreeSet<(Symbol, ClaimKey)>,
    /// Names that CSI drivers have for volumes, and the volumes.
    volumes_of_handles: BTreeSet<(Symbol, Symbol)>,
    /// Volumes and their attachments.
    attachments_of_volumes: BTreeSet<(Symbol, Symbol)>,
}

const FIRST: Symbol = Symbol(0);
const LAST: Symbol = Symbol(u32::MAX);

impl Uses {
    /// Counts the volumes of a pod that came to the node of this row (`by` is 1) or left it
    /// (-1).
    pub(super) fn count(&mut self, row: usize, volumes: &PodVolumes, by: isize) {
        for (claim, _) in volumes.all_claims() {
            add(&mut self.claims, (claim, row), by);
        }
        for handle in disk_handles(volumes) {
            add(&mut self.disks, (handle, row), by);
        }
    }

    /// Notes which volume a claim says it is bound to, or takes that back.
    pub(super) fn index_claim(&mut self, claim: ClaimKey, volume: Symbol, is_there: bool) {
        set(&mut self.claims_of_volumes, (volume, claim), is_there);
    }

    /// Notes what CSI drivers call a volume, or takes that back.
    pub(super) fn index_volume(&mut self, name: Symbol, volume: &Volume, is_there: bool) {
        let migrated = volume.migrated.as_ref();
        let migrated = migrated.and_then(|Migrated { csi, .. }| csi.as_ref().ok());
        for csi in volume.csi.iter().chain(migrated) {
            set(&mut self.volumes_of_handles, (csi.handle, name), is_there);
        }
    }

    /// Notes that an attachment is one of a volume, or takes that back.
    pub(super) fn index_attachment(&mut self, name: Symbol, volume: Symbol, is_there: bool) {
        set(&mut self.attachments_of_volumes, (volume, name), is_there);
    }

    /// The rows of the nodes with pods that use the claim.
    pub(super) fn rows_of_claim(&self, claim: ClaimKey) -> impl Iterator<Item = usize> {
        let uses = self.claims.range((claim, 0)..=(claim, usize::MAX));
        uses.map(|((_, row), _)| *row)
    }

    /// The rows of the nodes with pods that use a claim which is bound to the volume.
    pub(super) fn rows_of_volume(&self, volume: Symbol) -> impl Iterator<Item = usize> {
        let claims = self.claims_of(volume);
        claims.flat_map(|claim| self.rows_of_claim(claim))
    }

    /// The rows of the nodes with pods that use any claim, some more than once.
    pub(super) fn rows(&self) -> impl Iterator<Item = usize> {
        self.claims.keys().map(|(_, row)| *row)
    }

    /// The attachments of a volume.
    pub(super) fn attachments_of(&self, volume: Symbol) -> impl Iterator<Item = Symbol> {
        let attachments = self
            .attachments_of_volumes
            .range((volume, FIRST)..=(volume, LAST));
        attachments.map(|(_, attachment)| *attachment)
    }

    /// The rows of the nodes with pods that use this volume of a driver, some maybe more
    /// than once. Volumes of all drivers count that have the same name.
    pub(super) fn rows_in_place(
        &self,
        volume: VolumeHandle,
    ) -> Box<dyn Iterator<Item = usize> + '_> {
        let handle = match volume {
            VolumeHandle::ToBeMade(claim) => return Box::new(self.rows_of_claim(claim)),
            VolumeHandle::Volume(handle) => handle,
        };
        let disks = self.disks.range((handle, 0)..=(handle, usize::MAX));
        let disks = disks.map(|((_, row), _)| *row);
        let volumes = self.volumes_of(handle);
        Box::new(disks.chain(volumes.flat_map(|volume| self.rows_of_volume(volume))))
    }

    fn volumes_of(&self, handle: Symbol) -> impl Iterator<Item = Symbol> {
        let volumes = self
            .volumes_of_handles
            .range((handle, FIRST)..=(handle, LAST));
        volumes.map(|(_, volume)| *volume)
    }

    fn claims_of(&self, volume: Symbol) -> impl Iterator<Item = ClaimKey> {
        let (first, last) = ((FIRST, FIRST), (LAST, LAST));
        let claims = self
            .claims_of_volumes
            .range((volume, first)..=(volume, last));
        claims.map(|(_, claim)| *claim)
    }
}

/// What CSI drivers call the disks that a pod names itself.
pub(super) fn disk_handles(volumes: &PodVolumes) -> impl Iterator<Item = Symbol> {
    volumes.volumes.iter().filter_map(|volume| match volume {
        PodVolume::Disk(disk) => Some(disk.csi.as_ref()?.as_ref().ok()?.handle),
        _ => None,
    })
}

fn add<K: Ord>(counts: &mut BTreeMap<K, usize>, key: K, by: isize) {
    match counts.entry(key) {
        Entry::Occupied(mut entry) => {
            let count = entry.get().saturating_add_signed(by);
            match count {
                0 => drop(entry.remove()),
                count => drop(entry.insert(count)),
            }
        }
        Entry::Vacant(entry) => {
            entry.insert(usize::try_from(by).unwrap_or(0));
        }
    }
}

fn set<T: Ord>(pairs: &mut BTreeSet<T>, pair: T, is_there: bool) {
    match is_there {
        true => pairs.insert(pair),
        false => pairs.remove(&pair),
    };
}
