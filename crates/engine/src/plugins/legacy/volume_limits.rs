//! How many volumes can be attached to a node, as 1.20 has it: EBSLimits, GCEPDLimits,
//! AzureDiskLimits and CinderLimits count disks of a cloud, NodeVolumeLimits those of CSI
//! drivers.
//!
//! A limit is what the node's allocatable says under `attachable-volumes-...`; for CSI
//! drivers, the node's CSINode says it too and is believed more; for clouds there is a limit
//! of their own otherwise. Volumes count once. A claim that is not bound, or to a volume that
//! is not there, counts as one of whoever makes volumes for its class.
//! Sources: `plugins/nodevolumelimits/{non_csi,csi}.go`, Kubernetes 1.20. No CSI driver
//! takes over from a plugin built into Kubernetes there (all such gates are off).

use rustc_hash::FxHashSet;

use crate::cluster::Cluster;
use crate::framework::{
    ClusterEvent, ClusterFilterPlugin, Code, IncomingPod, MovedPods, NodeFilter, Plugin, Reason,
    Refusal,
};
use crate::ids::{NodeId, PodId, Symbol};
use crate::plugins::node_volume_limits::NodeVolumeLimits;
use crate::storage::{Claim, ClaimKey, Cloud, CloudDisk, PodVolume, PodVolumes};

/// One of the plugins.
pub struct VolumeLimits {
    counted: Counted,
    /// Labels by which a node says of which type the machine is.
    instance_type_labels: [Symbol; 2],
}

/// Which volumes count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    Cloud {
        cloud: Cloud,
        /// The plugin built into Kubernetes that makes such disks.
        provisioner: Symbol,
    },
    Csi,
}

impl VolumeLimits {
    /// Name of the plugin for EBS disks.
    pub const EBS: &'static str = "EBSLimits";
    /// Name of the plugin for GCE disks.
    pub const GCE: &'static str = "GCEPDLimits";
    /// Name of the plugin for Azure disks.
    pub const AZURE_DISK: &'static str = "AzureDiskLimits";
    /// Name of the plugin for OpenStack disks.
    pub const CINDER: &'static str = "CinderLimits";

    /// The plugin for disks of a cloud.
    pub fn of_cloud(cloud: Cloud, cluster: &mut Cluster) -> Self {
        let provisioner = cluster.symbols.intern(cloud.provisioner());
        Self::new(Counted::Cloud { cloud, provisioner }, cluster)
    }

    /// The plugin for volumes of CSI drivers.
    pub fn of_csi_drivers(cluster: &mut Cluster) -> Self {
        Self::new(Counted::Csi, cluster)
    }

    fn new(counted: Counted, cluster: &mut Cluster) -> Self {
        let labels = [
            "beta.kubernetes.io/instance-type",
            "node.kubernetes.io/instance-type",
        ];
        Self {
            counted,
            instance_type_labels: labels.map(|label| cluster.symbols.intern(label)),
        }
    }
}

impl Plugin for VolumeLimits {
    fn name(&self) -> &'static str {
        match self.counted {
            Counted::Csi => NodeVolumeLimits::NAME,
            Counted::Cloud { cloud, .. } => match cloud {
                Cloud::Ebs => Self::EBS,
                Cloud::Gce => Self::GCE,
                Cloud::AzureDisk => Self::AZURE_DISK,
                Cloud::Cinder => Self::CINDER,
            },
        }
    }
}

/// A volume that takes a place.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Attached {
    /// The CSI driver; `None` is the cloud that the plugin is for.
    driver: Option<Symbol>,
    handle: Handle,
}

/// What tells volumes apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Handle {
    Volume(Symbol),
    /// A volume that is not known, by its claim.
    Unknown(ClaimKey),
}

struct Filter<'c> {
    plugin: &'c VolumeLimits,
    cluster: &'c Cluster,
    wanted: FxHashSet<Attached>,
    moved: MovedPods,
}

impl ClusterFilterPlugin for VolumeLimits {
    fn prepare_filter<'c>(
        &'c self,
        pod: &IncomingPod<'c>,
        cluster: &'c Cluster,
    ) -> Option<Box<dyn NodeFilter + 'c>> {
        let volumes = cluster.storage.pod_volumes(pod.info.volumes);
        let wanted: FxHashSet<Attached> = self.attached(volumes, cluster).collect();
        let filter = Filter {
            plugin: self,
            cluster,
            wanted,
            moved: MovedPods::default(),
        };
        (!filter.wanted.is_empty()).then(|| Box::new(filter) as Box<dyn NodeFilter>)
    }

    fn may_help(&self, _: &IncomingPod<'_>, event: &ClusterEvent<'_>, _: &Cluster) -> bool {
        match event {
            ClusterEvent::PodLeft(other) => other.volumes != 0,
            ClusterEvent::Storage { .. } => true,
            _ => false,
        }
    }
}

impl VolumeLimits {
    /// The volumes of a pod that count.
    fn attached(&self, volumes: &PodVolumes, cluster: &Cluster) -> impl Iterator<Item = Attached> {
        let namespace = volumes.namespace.into_iter();
        namespace.flat_map(move |namespace| {
            let volumes = volumes.volumes.iter();
            volumes.filter_map(move |volume| match volume {
                PodVolume::Disk(disk) => self.disk(disk.cloud.as_ref()),
                PodVolume::Claim(name) => {
                    let key = (namespace, *name);
                    self.volume(key, cluster.storage.claim(key)?, cluster)
                }
                PodVolume::Ephemeral(_) => None,
            })
        })
    }

    fn disk(&self, disk: Option<&CloudDisk>) -> Option<Attached> {
        let disk = disk?;
        let is_counted =
            matches!(self.counted, Counted::Cloud { cloud, .. } if cloud == disk.cloud);
        is_counted.then_some(Attached {
            driver: None,
            handle: Handle::Volume(disk.id),
        })
    }

    fn volume(&self, key: ClaimKey, claim: &Claim, cluster: &Cluster) -> Option<Attached> {
        let storage = &cluster.storage;
        if let Some(volume) = claim.volume.and_then(|name| storage.volume(name)) {
            let csi = match self.counted {
                Counted::Cloud { .. } => return self.disk(volume.cloud.as_ref()),
                Counted::Csi => volume.csi?,
            };
            let is_named = [csi.driver, csi.handle]
                .iter()
                .all(|name| !cluster.symbols.text(*name).is_empty());
            return is_named.then_some(Attached {
                driver: Some(csi.driver),
                handle: Handle::Volume(csi.handle),
            });
        }
        let class = storage.class(claim.class?)?;
        let driver = match self.counted {
            Counted::Cloud { provisioner, .. } => {
                (class.provisioner == Some(provisioner)).then_some(None)?
            }
            Counted::Csi => match class.driver? {
                // Made by a plugin built into Kubernetes.
                (_, true) => return None,
                (driver, false) => Some(driver),
            },
        };
        Some(Attached {
            driver,
            handle: Handle::Unknown(key),
        })
    }

    /// How many volumes of a driver, or of the cloud, the node can have; `None` is without
    /// limit.
    fn limit(&self, driver: Option<Symbol>, cluster: &Cluster, node: NodeId) -> Option<i64> {
        let legacy = cluster.legacy_node(node);
        let told = legacy.map_or(&[][..], |node| &node.attachable_volumes);
        let told = |key: &str| {
            told.iter()
                .find(|(name, _)| **name == *key)
                .map(|(_, it)| *it)
        };
        match (self.counted, driver) {
            (Counted::Cloud { cloud, .. }, _) => Some(
                told(cloud.limit_key()).unwrap_or_else(|| self.cloud_limit(cloud, cluster, node)),
            ),
            (Counted::Csi, Some(driver)) => {
                let csi_node = cluster.storage.csi_node(cluster.name_symbol(node));
                let of_csi_node = csi_node.and_then(|csi_node| csi_node.limit(driver));
                of_csi_node.or_else(|| told(&format!("csi-{}", cluster.symbols.text(driver))))
            }
            (Counted::Csi, None) => None,
        }
    }

    /// The limit of a cloud for a node that does not tell.
    fn cloud_limit(&self, cloud: Cloud, cluster: &Cluster, node: NodeId) -> i64 {
        match cloud {
            Cloud::Gce | Cloud::AzureDisk => 16,
            Cloud::Cinder => 256,
            Cloud::Ebs => {
                let mut labels = self.instance_type_labels.iter();
                let instance_type = labels.find_map(|label| cluster.label(node, *label));
                let instance_type = instance_type.map_or("", |it| cluster.symbols.text(it));
                if is_nitro(instance_type) { 25 } else { 39 }
            }
        }
    }
}

/// Whether a machine of Amazon is of a type that attaches disks by NVMe
/// (`pkg/volume/util/attach_limit.go` EBSNitroLimitRegex).
fn is_nitro(instance_type: &str) -> bool {
    let of_family_5 = ["c5", "m5", "r5"];
    of_family_5
        .iter()
        .any(|family| instance_type.starts_with(family))
        || instance_type.contains("t3")
        || instance_type.contains("z1d")
}

impl NodeFilter for Filter<'_> {
    fn filter_node(&self, node: NodeId) -> Result<(), Refusal> {
        let cluster = self.cluster;
        let pods = self.moved.pods(cluster, node);
        let there: FxHashSet<Attached> = pods
            .flat_map(|pod| {
                let number = cluster.pod_info(pod).volumes;
                let volumes = cluster.storage.pod_volumes(number);
                self.plugin.attached(volumes, cluster)
            })
            .collect();
        let of = |volumes: &mut dyn Iterator<Item = &Attached>, driver| {
            volumes.filter(|volume| volume.driver == driver).count() as i64
        };
        let exceeds = |driver: Option<Symbol>| {
            let new = of(&mut self.wanted.difference(&there), driver);
            let limit = self.plugin.limit(driver, cluster, node);
            // A CSI driver is asked only if it is to attach something new; a cloud always.
            let is_asked = new > 0 || driver.is_none();
            is_asked && limit.is_some_and(|limit| of(&mut there.iter(), driver) + new > limit)
        };
        if self.wanted.iter().any(|volume| exceeds(volume.driver)) {
            let reason = Reason::MaxVolumeCountExceeded;
            let plugin = self.plugin.name();
            return Err(Refusal::new(plugin, Code::Unschedulable, reason));
        }
        Ok(())
    }

    fn count_pod(&mut self, pod: PodId, node: NodeId, by: i64) {
        self.moved.count(pod, node, by);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::profile::ProfileConfig;
    use crate::storage::testing::{
        bound_claim, claim, node, pod, refusals, tell, volume_everywhere, waiting_class,
    };
    use crate::{Engine, EngineConfig, Release};

    fn engine(plugin: &str) -> Engine {
        let profile = ProfileConfig {
            release: Release::V1_20,
            filter: vec![plugin.to_owned()],
            ..ProfileConfig::default()
        };
        let config = EngineConfig {
            profiles: vec![ProfileConfig {
                score: Vec::new(),
                ..profile
            }],
            ..EngineConfig::default()
        };
        Engine::new(&config).expect("a profile")
    }

    fn disks(source: &str, field: &str, numbers: std::ops::Range<i64>) -> Value {
        let disk = |number: i64| {
            json!({"name": format!("d{number}"),
            source: {field: format!("disk-{number}")}})
        };
        numbers.map(disk).collect()
    }

    /// Whether one disk more than these is refused by a node.
    fn is_full(plugin: &str, (source, field): (&str, &str), there: i64, node: &Value) -> bool {
        let mut engine = engine(plugin);
        tell(&mut engine, node.clone());
        tell(
            &mut engine,
            pod("there", "a", disks(source, field, 0..there)),
        );
        // The last of those that are there counts once.
        tell(
            &mut engine,
            pod("p", "", disks(source, field, there - 1..there + 1)),
        );
        refusals(&engine, "p").contains_key("a")
    }

    #[test]
    fn clouds_have_limits_of_their_own_unless_the_node_tells() {
        let ebs = ("awsElasticBlockStore", "volumeID");
        let of_type = |kind: &str| node("a", json!({"beta.kubernetes.io/instance-type": kind}));
        let mut told = node("a", json!({}));
        told["status"]["allocatable"]["attachable-volumes-aws-ebs"] = "3".into();
        for (plugin, disk, node, limit) in [
            ("EBSLimits", ebs, node("a", json!({})), 39),
            ("EBSLimits", ebs, of_type("m4.large"), 39),
            ("EBSLimits", ebs, of_type("m5.large"), 25),
            ("EBSLimits", ebs, of_type("t3.nano"), 25),
            ("EBSLimits", ebs, told, 3),
            (
                "GCEPDLimits",
                ("gcePersistentDisk", "pdName"),
                node("a", json!({})),
                16,
            ),
            (
                "AzureDiskLimits",
                ("azureDisk", "diskName"),
                node("a", json!({})),
                16,
            ),
            (
                "CinderLimits",
                ("cinder", "volumeID"),
                node("a", json!({})),
                256,
            ),
        ] {
            assert!(
                !is_full(plugin, disk, limit - 1, &node),
                "{plugin} below {limit}"
            );
            assert!(is_full(plugin, disk, limit, &node), "{plugin} at {limit}");
        }
        assert!(!is_full("GCEPDLimits", ebs, 100, &node("a", json!({}))));
    }

    #[test]
    fn claims_count_as_their_volumes_or_as_those_of_their_class() {
        let mut engine = engine("NodeVolumeLimits");
        let mut told = node("a", json!({}));
        told["status"]["allocatable"]["attachable-volumes-csi-csi.example.com"] = "1".into();
        tell(&mut engine, told);
        tell(&mut engine, volume_everywhere("v"));
        tell(&mut engine, bound_claim("bound", "v"));
        tell(&mut engine, waiting_class("fast", "csi.example.com"));
        tell(&mut engine, waiting_class("slow", "kubernetes.io/aws-ebs"));
        tell(&mut engine, claim("waiting", "fast"));
        tell(&mut engine, claim("elsewhere", "slow"));
        let using = |name: &str, node: &str, claim: &str| {
            pod(
                name,
                node,
                json!([{"name": "v",
                "persistentVolumeClaim": {"claimName": claim}}]),
            )
        };
        tell(&mut engine, using("there", "a", "bound"));
        for (claim, is_refused) in [
            ("bound", false),
            ("waiting", true),
            ("elsewhere", false),
            // One that does not exist is the business of VolumeBinding.
            ("missing", false),
        ] {
            tell(&mut engine, using("p", "", claim));
            assert_eq!(
                refusals(&engine, "p").contains_key("a"),
                is_refused,
                "{claim}"
            );
        }
    }
}
