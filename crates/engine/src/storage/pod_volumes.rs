//! The volumes of a pod that matter to scheduling: claims and disks.

use outrank_api::types::{Pod, Volume};

use super::{ClaimKey, CloudDisk, CsiVolume, csi_migration};
use crate::ids::{Symbol, Symbols};

/// Volumes of a pod, in order, those left out that do not matter to where it can go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodVolumes {
    /// The namespace of the pod and its claims; `None` if there are no volumes.
    pub namespace: Option<Symbol>,
    /// The pod, if a claim goes with it.
    pub owner: Option<EphemeralOwner>,
    /// The volumes.
    pub volumes: Box<[PodVolume]>,
}

/// A pod with a claim that goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EphemeralOwner {
    /// Its name.
    pub name: Symbol,
    /// Its UID, which the controller of the claim must have.
    pub uid: Symbol,
}

/// One volume of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PodVolume {
    /// A claim, by name.
    Claim(Symbol),
    /// A claim that goes with the pod, by name.
    Ephemeral(Symbol),
    /// A disk.
    Disk(PodDisk),
}

/// A disk that a pod names itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodDisk {
    /// The disk, of the kinds that pods cannot share.
    pub disk: Option<Disk>,
    /// The disk as its cloud knows it.
    pub cloud: Option<CloudDisk>,
    /// The disk as the CSI driver knows it that took over from the plugin built into
    /// Kubernetes, or why it cannot; `None` if none took over.
    pub csi: Option<Result<CsiVolume, Box<str>>>,
}

/// A disk of a kind that pods cannot share freely.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Disk {
    /// A GCE disk, and whether it is mounted read-only.
    Gce(Symbol, bool),
    /// An EBS disk.
    Aws(Symbol),
    /// An iSCSI disk, and whether it is mounted read-only.
    Iscsi(Symbol, bool),
    /// A Ceph block device.
    Rbd {
        /// Addresses of the monitors.
        monitors: Box<[Symbol]>,
        /// Pool and image.
        image: (Symbol, Symbol),
        /// Whether it is mounted read-only.
        is_read_only: bool,
    },
}

impl Disk {
    /// Whether two pods with these disks cannot be on one node: it is the same disk, and not
    /// both only read (an EBS disk always counts).
    pub fn conflicts(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Gce(one, read_one), Self::Gce(two, read_two))
            | (Self::Iscsi(one, read_one), Self::Iscsi(two, read_two)) => {
                one == two && !(*read_one && *read_two)
            }
            (Self::Aws(one), Self::Aws(two)) => one == two,
            (
                Self::Rbd {
                    monitors,
                    image,
                    is_read_only,
                },
                Self::Rbd {
                    monitors: other_monitors,
                    image: other_image,
                    is_read_only: other_is_read_only,
                },
            ) => {
                image == other_image
                    && !(*is_read_only && *other_is_read_only)
                    && monitors
                        .iter()
                        .any(|monitor| other_monitors.contains(monitor))
            }
            _ => false,
        }
    }
}

impl PodVolumes {
    /// Compiles the volumes of a pod.
    pub(crate) fn compile(pod: &Pod, symbols: &mut Symbols) -> Self {
        let volumes: Box<[PodVolume]> = pod
            .spec
            .volumes
            .iter()
            .filter_map(|volume| PodVolume::compile(volume, pod, symbols))
            .collect();
        if volumes.is_empty() {
            return Self::default();
        }
        let has_ephemeral = volumes
            .iter()
            .any(|it| matches!(it, PodVolume::Ephemeral(_)));
        Self {
            namespace: Some(symbols.intern(&pod.metadata.namespace)),
            owner: has_ephemeral.then(|| EphemeralOwner {
                name: symbols.intern(&pod.metadata.name),
                uid: symbols.intern(&pod.metadata.uid),
            }),
            volumes,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.volumes.is_empty()
    }

    /// Claims that do not go with the pod.
    pub fn claims(&self) -> impl Iterator<Item = ClaimKey> {
        let namespace = self.namespace.into_iter();
        namespace.flat_map(|namespace| {
            self.volumes.iter().filter_map(move |volume| match volume {
                PodVolume::Claim(name) => Some((namespace, *name)),
                _ => None,
            })
        })
    }

    /// All claims, and whether each goes with the pod.
    pub fn all_claims(&self) -> impl Iterator<Item = (ClaimKey, bool)> {
        let namespace = self.namespace.into_iter();
        namespace.flat_map(|namespace| {
            self.volumes.iter().filter_map(move |volume| match volume {
                PodVolume::Claim(name) => Some(((namespace, *name), false)),
                PodVolume::Ephemeral(name) => Some(((namespace, *name), true)),
                PodVolume::Disk(_) => None,
            })
        })
    }

    /// Disks that pods cannot share freely.
    pub fn disks(&self) -> impl Iterator<Item = &Disk> {
        self.volumes.iter().filter_map(|volume| match volume {
            PodVolume::Disk(disk) => disk.disk.as_ref(),
            _ => None,
        })
    }
}

impl PodVolume {
    fn compile(volume: &Volume, pod: &Pod, symbols: &mut Symbols) -> Option<Self> {
        if let Some(claim) = &volume.persistent_volume_claim {
            return Some(Self::Claim(symbols.intern(&claim.claim_name)));
        }
        if volume.ephemeral.is_some() {
            let name = format!("{}-{}", pod.metadata.name, volume.name);
            return Some(Self::Ephemeral(symbols.intern(&name)));
        }
        let disk = PodDisk {
            disk: Disk::compile(volume, symbols),
            cloud: CloudDisk::of_pod(volume, symbols),
            csi: csi_migration::inline_disk(volume, symbols),
        };
        (disk.disk.is_some() || disk.csi.is_some()).then_some(Self::Disk(disk))
    }
}

impl Disk {
    fn compile(volume: &Volume, symbols: &mut Symbols) -> Option<Self> {
        if let Some(disk) = &volume.gce_persistent_disk {
            return Some(Self::Gce(symbols.intern(&disk.pd_name), disk.read_only));
        }
        if let Some(disk) = &volume.aws_elastic_block_store {
            return Some(Self::Aws(symbols.intern(&disk.volume_id)));
        }
        if let Some(disk) = &volume.iscsi {
            return Some(Self::Iscsi(symbols.intern(&disk.iqn), disk.read_only));
        }
        let disk = volume.rbd.as_ref()?;
        Some(Self::Rbd {
            monitors: disk
                .monitors
                .iter()
                .map(|monitor| symbols.intern(monitor))
                .collect(),
            image: (symbols.intern(&disk.pool), symbols.intern(&disk.image)),
            is_read_only: disk.read_only,
        })
    }
}
