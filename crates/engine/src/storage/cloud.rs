//! Disks of clouds, as the volume plugins that were built into Kubernetes know them.

use outrank_api::types::{PersistentVolumeSpec, Volume};

use crate::ids::{Symbol, Symbols};

/// A cloud with disks that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cloud {
    /// Amazon's EBS.
    Ebs,
    /// Google's persistent disks.
    Gce,
    /// Azure's disks.
    AzureDisk,
    /// OpenStack's Cinder.
    Cinder,
}

impl Cloud {
    /// The plugin that makes such disks, as storage classes name it.
    pub fn provisioner(self) -> &'static str {
        match self {
            Self::Ebs => "kubernetes.io/aws-ebs",
            Self::Gce => "kubernetes.io/gce-pd",
            Self::AzureDisk => "kubernetes.io/azure-disk",
            Self::Cinder => "kubernetes.io/cinder",
        }
    }

    /// What nodes call their limit, after `attachable-volumes-`.
    pub fn limit_key(self) -> &'static str {
        match self {
            Self::Ebs => "aws-ebs",
            Self::Gce => "gce-pd",
            Self::AzureDisk => "azure-disk",
            Self::Cinder => "cinder",
        }
    }
}

/// A disk of a cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CloudDisk {
    /// The cloud.
    pub cloud: Cloud,
    /// The disk's name there.
    pub id: Symbol,
}

impl CloudDisk {
    /// Compiles a disk that a pod names itself.
    pub(crate) fn of_pod(volume: &Volume, symbols: &mut Symbols) -> Option<Self> {
        let (cloud, id) = if let Some(disk) = &volume.aws_elastic_block_store {
            (Cloud::Ebs, &disk.volume_id)
        } else if let Some(disk) = &volume.gce_persistent_disk {
            (Cloud::Gce, &disk.pd_name)
        } else if let Some(disk) = &volume.azure_disk {
            (Cloud::AzureDisk, &disk.disk_name)
        } else {
            (Cloud::Cinder, &volume.cinder.as_ref()?.volume_id)
        };
        let id = symbols.intern(id);
        Some(Self { cloud, id })
    }

    /// Compiles the disk of a PersistentVolume.
    pub(crate) fn of_volume(spec: &PersistentVolumeSpec, symbols: &mut Symbols) -> Option<Self> {
        let (cloud, id) = if let Some(disk) = &spec.aws_elastic_block_store {
            (Cloud::Ebs, &disk.volume_id)
        } else if let Some(disk) = &spec.gce_persistent_disk {
            (Cloud::Gce, &disk.pd_name)
        } else if let Some(disk) = &spec.azure_disk {
            (Cloud::AzureDisk, &disk.disk_name)
        } else {
            (Cloud::Cinder, &spec.cinder.as_ref()?.volume_id)
        };
        let id = symbols.intern(id);
        Some(Self { cloud, id })
    }
}
