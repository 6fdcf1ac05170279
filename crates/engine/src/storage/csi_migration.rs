//! Volumes of the plugins that were built into Kubernetes, as the CSI drivers that took over
//! know them.
//!
//! Of the plugins with a successor, those of Amazon, Google, Azure disks, OpenStack and
//! Portworx count here; for the others (Azure files, vSphere) the scheduler does not look at
//! the driver. Sources: `csi-translation-lib/plugins`, Kubernetes 1.36.

use std::collections::BTreeSet;

use outrank_api::types::{
    AwsElasticBlockStoreVolumeSource, AzureDiskVolumeSource, CinderVolumeSource,
    GcePersistentDiskVolumeSource, NodeSelector, NodeSelectorRequirement, PersistentVolume,
    PersistentVolumeSpec, PortworxVolumeSource, StringMap, Volume,
};

use super::{CsiVolume, ZONE_SEPARATOR, compile_nodes};
use crate::ids::{Symbol, Symbols};
use crate::node_match::NodeTerm;

const BETA_ZONE: &str = super::TOPOLOGY_LABELS[0];
const BETA_REGION: &str = super::TOPOLOGY_LABELS[1];
const ZONE: &str = super::TOPOLOGY_LABELS[2];
const REGION: &str = super::TOPOLOGY_LABELS[3];

/// A plugin that was built into Kubernetes, and its successor.
struct Migration {
    plugin: &'static str,
    driver: &'static str,
    /// The node label by which the driver knows zones; `None` if zones stay as they are.
    zone_key: Option<&'static str>,
}

const AWS: Migration = Migration {
    plugin: "kubernetes.io/aws-ebs",
    driver: "ebs.csi.aws.com",
    zone_key: Some("topology.ebs.csi.aws.com/zone"),
};
const AZURE_DISK: Migration = Migration {
    plugin: "kubernetes.io/azure-disk",
    driver: "disk.csi.azure.com",
    zone_key: None,
};
const CINDER: Migration = Migration {
    plugin: "kubernetes.io/cinder",
    driver: "cinder.csi.openstack.org",
    zone_key: Some("topology.cinder.csi.openstack.org/zone"),
};
const GCE: Migration = Migration {
    plugin: "kubernetes.io/gce-pd",
    driver: "pd.csi.storage.gke.io",
    zone_key: Some("topology.gke.io/zone"),
};
const PORTWORX: Migration = Migration {
    plugin: "kubernetes.io/portworx-volume",
    driver: "pxd.portworx.com",
    zone_key: None,
};
const MIGRATIONS: [Migration; 5] = [AWS, AZURE_DISK, CINDER, GCE, PORTWORX];

/// Plugins that have a successor which the scheduler does not look at.
const UNCOUNTED: [&str; 2] = ["kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"];

/// A volume of a plugin that was built into Kubernetes, as the CSI driver knows it.
#[derive(Clone, Debug)]
pub struct Migrated {
    /// The plugin's name, such as `kubernetes.io/aws-ebs`.
    pub plugin: Symbol,
    /// What it is to the driver, or why it is nothing.
    pub csi: Result<CsiVolume, Box<str>>,
    /// The nodes that can reach it, by the labels that the driver knows; `None` is all.
    pub nodes: Option<Box<[NodeTerm]>>,
}

impl Migrated {
    /// Compiles a volume, if a plugin with a successor serves it.
    pub(super) fn compile(volume: &PersistentVolume, symbols: &mut Symbols) -> Option<Self> {
        let spec = &volume.spec;
        let labels = &volume.metadata.labels;
        let (migration, handle) = Disks::of_volume(spec).taken_over(labels)?;
        let affinity = spec
            .node_affinity
            .as_ref()
            .and_then(|affinity| affinity.required.clone());
        let affinity = match migration.zone_key {
            Some(key) => migrate_affinity(affinity, labels, key),
            None => affinity,
        };
        Some(Self {
            plugin: symbols.intern(migration.plugin),
            csi: handle
                .map(|handle| migration.volume(&handle, symbols))
                .map_err(|error| format!("could not translate pv: {error}").into()),
            nodes: affinity.map(|affinity| compile_nodes(&affinity, symbols)),
        })
    }
}

impl Migration {
    fn volume(&self, handle: &str, symbols: &mut Symbols) -> CsiVolume {
        CsiVolume {
            driver: symbols.intern(self.driver),
            handle: symbols.intern(handle),
        }
    }
}

/// The disks of plugins with a successor that counts; at most one is there.
struct Disks<'v> {
    aws: &'v Option<AwsElasticBlockStoreVolumeSource>,
    azure: &'v Option<AzureDiskVolumeSource>,
    cinder: &'v Option<CinderVolumeSource>,
    gce: &'v Option<GcePersistentDiskVolumeSource>,
    portworx: &'v Option<PortworxVolumeSource>,
}

impl<'v> Disks<'v> {
    fn of_volume(spec: &'v PersistentVolumeSpec) -> Self {
        Self {
            aws: &spec.aws_elastic_block_store,
            azure: &spec.azure_disk,
            cinder: &spec.cinder,
            gce: &spec.gce_persistent_disk,
            portworx: &spec.portworx_volume,
        }
    }

    fn of_pod(volume: &'v Volume) -> Self {
        Self {
            aws: &volume.aws_elastic_block_store,
            azure: &volume.azure_disk,
            cinder: &volume.cinder,
            gce: &volume.gce_persistent_disk,
            portworx: &volume.portworx_volume,
        }
    }

    /// Who took over, and the driver's name of the disk or why there is none. `labels` are
    /// those of the volume.
    fn taken_over(&self, labels: &StringMap) -> Option<(Migration, Result<String, String>)> {
        Some(if let Some(disk) = self.gce {
            (GCE, gce_handle(&disk.pd_name, labels))
        } else if let Some(disk) = self.aws {
            (AWS, aws_handle(disk))
        } else if let Some(disk) = self.cinder {
            (CINDER, Ok(disk.volume_id.clone()))
        } else if let Some(disk) = self.azure {
            (AZURE_DISK, azure_handle(disk))
        } else if let Some(disk) = self.portworx {
            (PORTWORX, Ok(disk.volume_id.clone()))
        } else {
            return None;
        })
    }
}

/// A disk of a pod itself as a CSI driver knows it; `None` if none took over.
pub(super) fn inline_disk(
    volume: &Volume,
    symbols: &mut Symbols,
) -> Option<Result<CsiVolume, Box<str>>> {
    let (migration, handle) = Disks::of_pod(volume).taken_over(&StringMap::new())?;
    let text = |error| {
        format!(
            "converting volume({}) from inline to csi: {error}",
            volume.name
        )
    };
    let handle = handle.map_err(|error| text(error).into());
    Some(handle.map(|handle| migration.volume(&handle, symbols)))
}

/// The CSI driver that makes the volumes of a provisioner, and whether it took over from a
/// plugin of that name; `None` if its volumes are not counted.
pub(super) fn driver_of(provisioner: &str, symbols: &mut Symbols) -> Option<(Symbol, bool)> {
    if provisioner.is_empty() || UNCOUNTED.contains(&provisioner) {
        return None;
    }
    let migration = MIGRATIONS
        .iter()
        .find(|migration| migration.plugin == provisioner);
    let driver = migration.map_or(provisioner, |migration| migration.driver);
    Some((symbols.intern(driver), migration.is_some()))
}

fn aws_handle(disk: &AwsElasticBlockStoreVolumeSource) -> Result<String, String> {
    let id = &disk.volume_id;
    let Some(address) = id.strip_prefix("aws://") else {
        return Ok(id.clone());
    };
    let address = address.split(['?', '#']).next().unwrap_or_default();
    let path = address.split_once('/').map_or("", |(_, path)| path);
    let path = path.trim_matches('/');
    if path.starts_with("vol-") && !path.contains('/') {
        return Ok(path.to_owned());
    }
    Err(format!(
        "failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({id})"
    ))
}

fn azure_handle(disk: &AzureDiskVolumeSource) -> Result<String, String> {
    match &disk.kind {
        Some(kind) if !kind.eq_ignore_ascii_case("Managed") => {
            Err(format!("kind({kind}) is not supported in csi migration"))
        }
        _ => Ok(disk.disk_uri.clone()),
    }
}

fn gce_handle(disk_name: &str, labels: &StringMap) -> Result<String, String> {
    const UNKNOWN: &str = "UNSPECIFIED";
    let of = |key: &str| labels.get(key).filter(|zones| !zones.is_empty());
    let zones = of(BETA_ZONE).or_else(|| of(ZONE));
    let zones: Vec<&str> = zones.map_or(vec![UNKNOWN], |it| it.split(ZONE_SEPARATOR).collect());
    if let [zone] = zones.as_slice() {
        return Ok(format!("projects/{UNKNOWN}/zones/{zone}/disks/{disk_name}"));
    }
    let region =
        gce_region(&zones).map_err(|error| format!("failed to get region from zones: {error}"))?;
    Ok(format!(
        "projects/{UNKNOWN}/regions/{region}/disks/{disk_name}"
    ))
}

/// The region in which zones are.
fn gce_region(zones: &[&str]) -> Result<String, String> {
    let mut regions = BTreeSet::new();
    for zone in zones {
        let [locale, region, _] = zone.split('-').collect::<Vec<_>>()[..] else {
            return Err(format!(
                "zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            ));
        };
        regions.insert(format!("{locale}-{region}"));
    }
    match (regions.pop_first(), regions.is_empty()) {
        (Some(region), true) => Ok(region),
        _ => Err("multiple or no regions gotten from zones".into()),
    }
}

/// The nodes that can reach a volume, with zones under the driver's own label.
fn migrate_affinity(
    affinity: Option<NodeSelector>,
    labels: &StringMap,
    zone_key: &str,
) -> Option<NodeSelector> {
    let (zone, region) = topology_labels(affinity.as_ref(), labels);
    let mut affinity = affinity;
    if has_values(affinity.as_ref(), zone) {
        rename(affinity.as_mut(), zone, zone_key);
    } else if let Some(zones) = labels.get(zone) {
        let zones = zones.split(ZONE_SEPARATOR).map(str::trim);
        let zones: BTreeSet<&str> = zones.filter(|zone| !zone.is_empty()).collect();
        if !zones.is_empty() {
            let terms = &mut affinity.get_or_insert_default().node_selector_terms;
            if terms.is_empty() {
                terms.push(Default::default());
            }
            for term in terms {
                term.match_expressions.push(NodeSelectorRequirement {
                    key: zone_key.to_owned(),
                    operator: "In".to_owned(),
                    values: zones.iter().map(ToString::to_string).collect(),
                });
            }
        }
    }
    if region == BETA_REGION && has_values(affinity.as_ref(), region) {
        rename(affinity.as_mut(), region, REGION);
    }
    affinity
}

/// The labels by which a volume says where it is: today's, or those of the past if it has
/// only these.
fn topology_labels(
    affinity: Option<&NodeSelector>,
    labels: &StringMap,
) -> (&'static str, &'static str) {
    let (today, past) = ((ZONE, REGION), (BETA_ZONE, BETA_REGION));
    let names = |key: &str| expressions(affinity).any(|requirement| requirement.key == key);
    if names(ZONE) {
        today
    } else if names(BETA_ZONE) {
        past
    } else if labels.contains_key(ZONE) || !labels.contains_key(BETA_ZONE) {
        today
    } else {
        past
    }
}

fn expressions(affinity: Option<&NodeSelector>) -> impl Iterator<Item = &NodeSelectorRequirement> {
    let terms = affinity.into_iter().flat_map(|it| &it.node_selector_terms);
    terms.flat_map(|term| &term.match_expressions)
}

fn has_values(affinity: Option<&NodeSelector>, key: &str) -> bool {
    expressions(affinity).any(|it| it.key == key && !it.values.is_empty())
}

fn rename(affinity: Option<&mut NodeSelector>, from: &str, to: &str) {
    let terms = affinity
        .into_iter()
        .flat_map(|it| &mut it.node_selector_terms);
    for requirement in terms.flat_map(|term| &mut term.match_expressions) {
        if requirement.key == from {
            requirement.key = to.to_owned();
        }
    }
}
