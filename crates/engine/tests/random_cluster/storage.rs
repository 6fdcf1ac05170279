//! Random storage: claims that pods share or have for themselves, volumes, and what CSI
//! drivers tell. Names are few here too, so that claims compete for volumes and volumes for
//! places.

use outrank_api::decode::{Object, ObjectKind, decode_value};
use outrank_engine::Event;
use proptest::prelude::*;
use proptest::sample::subsequence;
use serde_json::{Value, json};

use super::FEW_NODES;

/// Claims that pods share.
pub(crate) const CLAIM_NAMES: [&str; 3] = ["c0", "c1", "c2"];

const VOLUME_NAMES: [&str; 4] = ["v0", "v1", "v2", "v3"];
const CLASS_NAMES: [&str; 2] = ["found", "made"];
const ATTACHMENT_NAMES: [&str; 2] = ["t0", "t1"];
const DRIVER: &str = "csi.example.com";
const EBS_DRIVER: &str = "ebs.csi.aws.com";

/// Claims that each pod of a template has for itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims {
    own: Option<ClaimShape>,
    /// One that goes with the pod.
    ephemeral: Option<ClaimShape>,
}

/// What is random about a claim.
#[derive(Clone, Debug)]
pub(crate) struct ClaimShape {
    class: &'static str,
    mode: &'static str,
    size_gib: u8,
    /// Whether only volumes labelled as fast will do.
    wants_fast: bool,
    is_block: bool,
    /// The volume that it is bound to; without one it waits.
    volume: Option<VolumeShape>,
    /// Whether it is bound to a volume that is not there.
    is_volume_missing: bool,
    selected_node: Option<&'static str>,
}

/// What is random about a volume.
#[derive(Clone, Debug)]
pub(crate) struct VolumeShape {
    disk: VolumeDisk,
    size_gib: u8,
    /// Zones that can reach it.
    reach: Option<Vec<&'static str>>,
    /// Zones that a label names.
    label: Option<&'static str>,
    is_fast: bool,
    is_block: bool,
    takes_one_pod: bool,
}

#[derive(Clone, Debug)]
enum VolumeDisk {
    /// Of a CSI driver that knows it by its name.
    Named,
    /// Of a CSI driver that knows it by this.
    Handle(&'static str),
    /// An EBS disk, for which a CSI driver takes over where the CSINode says so.
    Ebs(&'static str),
}

/// Something about the claims that a pod has for itself.
#[derive(Clone, Debug)]
pub(crate) enum StorageStep {
    /// They are others now.
    Set(Claims),
    /// The volume of one that waits is made, and bound.
    Provision(ClaimShape, VolumeShape),
    Remove,
    RemoveVolume,
    /// The volume is attached to a node, or else to that of the pod.
    Attach(Option<&'static str>),
    Detach,
}

fn own_claim(pod: &str) -> String {
    format!("own-{pod}")
}

fn ephemeral_claim(pod: &str) -> String {
    format!("{pod}-tmp")
}

fn volume_of(claim: &str) -> String {
    format!("v-{claim}")
}

fn attachment_of(pod: &str) -> String {
    format!("t-{pod}")
}

impl Claims {
    /// The volumes of the pod of that name that are these claims.
    pub(super) fn volumes(&self, pod: &str) -> Vec<Value> {
        let own = self.own.as_ref().map(
            |_| json!({"name": "own", "persistentVolumeClaim": {"claimName": own_claim(pod)}}),
        );
        let ephemeral = self.ephemeral.as_ref();
        let ephemeral = ephemeral.map(|_| json!({"name": "tmp", "ephemeral": {}}));
        own.into_iter().chain(ephemeral).collect()
    }

    /// The claims of the pod of that name, and their volumes.
    pub(super) fn objects(&self, pod: &str) -> Vec<Object> {
        let own = self.own.iter().map(|shape| (own_claim(pod), shape, false));
        let ephemeral = self.ephemeral.iter();
        let ephemeral = ephemeral.map(|shape| (ephemeral_claim(pod), shape, true));
        let claims = own.chain(ephemeral);
        let objects = claims.flat_map(|(name, shape, is_ephemeral)| {
            let mut claim = claim(&name, shape, Some(&volume_of(&name)));
            if is_ephemeral {
                claim["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1",
                    "kind": "Pod", "name": pod, "uid": format!("uid-{pod}"),
                    "controller": true}]);
            }
            let there = shape.volume.as_ref().filter(|_| !shape.is_volume_missing);
            let volume = there.map(|shape| volume(&volume_of(&name), shape, Some(&name)));
            volume.into_iter().chain([claim]).map(object)
        });
        objects.collect()
    }
}

impl StorageStep {
    /// What happens for a pod, which may be on a node.
    pub(super) fn events(&self, pod: &str, node: Option<&str>) -> Vec<Event> {
        let changed = |value: Value| Event::StorageChanged(object(value));
        let gone = |kind: ObjectKind, name: String| Event::StorageGone {
            kind,
            namespace: namespace_of(kind).into(),
            name,
        };
        let name = own_claim(pod);
        match self {
            Self::Set(claims) => {
                let objects = claims.objects(pod).into_iter();
                objects.map(Event::StorageChanged).collect()
            }
            Self::Provision(claim_shape, volume_shape) => {
                let bound = ClaimShape {
                    volume: Some(volume_shape.clone()),
                    ..claim_shape.clone()
                };
                let volume_name = volume_of(&name);
                let volume = volume(&volume_name, volume_shape, Some(&name));
                let mut claim = claim(&name, &bound, Some(&volume_name));
                if let Some(node) = node {
                    claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] =
                        node.into();
                }
                vec![changed(volume), changed(claim)]
            }
            Self::Remove => vec![gone(ObjectKind::PersistentVolumeClaim, name)],
            Self::RemoveVolume => vec![gone(ObjectKind::PersistentVolume, volume_of(&name))],
            Self::Attach(other) => {
                let node = other.or(node);
                let node = node.into_iter();
                let attach = |node| attachment(&attachment_of(pod), &volume_of(&name), node);
                node.map(|node| changed(attach(node))).collect()
            }
            Self::Detach => vec![gone(ObjectKind::VolumeAttachment, attachment_of(pod))],
        }
    }
}

/// The namespace of random objects of a kind.
pub(super) fn namespace_of(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::PersistentVolumeClaim | ObjectKind::CSIStorageCapacity => "default",
        _ => "",
    }
}

fn object(value: Value) -> Object {
    decode_value(&value).expect("an object")
}

fn claim(name: &str, shape: &ClaimShape, volume: Option<&str>) -> Value {
    let mut claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": "default", "name": name, "annotations": {}},
        "spec": {"accessModes": [shape.mode], "storageClassName": shape.class,
            "resources": {"requests": {"storage": format!("{}Gi", shape.size_gib)}}}});
    if shape.wants_fast {
        claim["spec"]["selector"] = json!({"matchLabels": {"speed": "fast"}});
    }
    if shape.is_block {
        claim["spec"]["volumeMode"] = "Block".into();
    }
    if let (Some(volume), Some(_)) = (volume, &shape.volume) {
        claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = "yes".into();
        claim["spec"]["volumeName"] = volume.into();
    } else if let Some(node) = shape.selected_node {
        claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = node.into();
    }
    claim
}

fn volume(name: &str, shape: &VolumeShape, claim: Option<&str>) -> Value {
    let mut volume = json!({"apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": {}},
        "spec": {"capacity": {"storage": format!("{}Gi", shape.size_gib)},
            "accessModes": ["ReadWriteOnce"], "storageClassName": "found"},
        "status": {"phase": "Available"}});
    if shape.takes_one_pod {
        volume["spec"]["accessModes"] = json!(["ReadWriteOnce", "ReadWriteOncePod"]);
    }
    if shape.is_fast {
        volume["metadata"]["labels"]["speed"] = "fast".into();
    }
    if shape.is_block {
        volume["spec"]["volumeMode"] = "Block".into();
    }
    match &shape.disk {
        VolumeDisk::Named => {
            volume["spec"]["csi"] = json!({"driver": DRIVER, "volumeHandle": name});
        }
        VolumeDisk::Handle(handle) => {
            volume["spec"]["csi"] = json!({"driver": DRIVER, "volumeHandle": handle});
        }
        VolumeDisk::Ebs(id) => {
            volume["spec"]["awsElasticBlockStore"] = json!({"volumeID": id});
        }
    }
    if let Some(zones) = &shape.reach {
        volume["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": zones}]}]}});
    }
    if let Some(zones) = shape.label {
        volume["metadata"]["labels"]["topology.kubernetes.io/zone"] = zones.into();
    }
    if let Some(claim) = claim {
        volume["spec"]["claimRef"] = json!({"namespace": "default", "name": claim});
    }
    volume
}

fn attachment(name: &str, volume: &str, node: &str) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
        "metadata": {"name": name}, "spec": {"attacher": DRIVER, "nodeName": node,
            "source": {"persistentVolumeName": volume}}})
}

fn claim_shape() -> impl Strategy<Value = ClaimShape> {
    (
        prop_oneof![1 => Just("found"), 2 => Just("made")],
        prop_oneof![4 => Just("ReadWriteOnce"), 1 => Just("ReadWriteOncePod")],
        prop_oneof![3 => Just(1), 1 => Just(2u8)],
        (prop::bool::weighted(0.1), prop::bool::weighted(0.1)),
        prop::option::of(volume_shape()),
        prop::bool::weighted(0.03),
        prop::option::weighted(0.1, prop::sample::select(FEW_NODES.to_vec())),
    )
        .prop_map(
            |(class, mode, size_gib, wants, volume, is_volume_missing, selected_node)| ClaimShape {
                class,
                mode,
                size_gib,
                wants_fast: wants.0,
                is_block: wants.1,
                volume,
                is_volume_missing,
                selected_node,
            },
        )
}

fn volume_shape() -> impl Strategy<Value = VolumeShape> {
    let disk = prop_oneof![
        5 => Just(VolumeDisk::Named),
        1 => prop::sample::select(vec!["v0", "h1"]).prop_map(VolumeDisk::Handle),
        1 => prop::sample::select(vec!["vol-0", "vol-1", "aws://no/disk"])
            .prop_map(VolumeDisk::Ebs),
    ];
    let zones = prop_oneof![
        3 => Just(None),
        2 => subsequence(vec!["z0", "z1", "z2"], 1..=2).prop_map(Some),
    ];
    let label = prop_oneof![
        4 => Just(None),
        1 => prop::sample::select(vec!["z0", "z0__z1", "z2"]).prop_map(Some),
    ];
    let flags = (
        prop::bool::weighted(0.7),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.7),
    );
    (disk, 1..4u8, zones, label, flags).prop_map(|(disk, size_gib, reach, label, flags)| {
        let (is_fast, is_block, takes_one_pod) = flags;
        VolumeShape {
            disk,
            size_gib,
            reach,
            label,
            is_fast,
            is_block,
            takes_one_pod,
        }
    })
}

/// Claims that each pod has for itself: mostly one.
pub(super) fn claims() -> impl Strategy<Value = Claims> {
    (
        prop::option::weighted(0.8, claim_shape()),
        prop::option::weighted(0.2, claim_shape()),
    )
        .prop_map(|(own, ephemeral)| Claims { own, ephemeral })
}

/// Volumes that pods share: claims and disks.
pub(super) fn volumes() -> impl Strategy<Value = Value> {
    let claims = subsequence(CLAIM_NAMES.to_vec(), 1..=2).prop_map(|names| {
        let claims = names
            .iter()
            .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
        claims.collect::<Value>()
    });
    let gce = (prop::sample::select(vec!["d0", "d1"]), prop::bool::ANY).prop_map(
        |(disk, read_only)| {
            json!([{"name": "d", "gcePersistentDisk": {"pdName": disk, "readOnly": read_only}}])
        },
    );
    let ebs = prop::sample::select(vec!["vol-0", "vol-1", "aws://no/disk"])
        .prop_map(|id| json!([{"name": "d", "awsElasticBlockStore": {"volumeID": id}}]));
    prop_oneof![4 => claims, 1 => gce, 1 => ebs]
}

/// Storage classes that are there from the start.
pub(super) fn storage_classes() -> impl Iterator<Item = Object> {
    CLASS_NAMES.into_iter().map(|name| {
        let provisioner = match name {
            "found" => "kubernetes.io/no-provisioner",
            _ => DRIVER,
        };
        class(name, provisioner, None)
    })
}

fn class(name: &str, provisioner: &str, zone: Option<&str>) -> Object {
    let mut class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": name}, "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer"});
    if let Some(zone) = zone {
        class["allowedTopologies"] =
            json!([{"matchLabelExpressions": [{"key": "zone", "values": [zone]}]}]);
    }
    object(class)
}

/// Storage that is not of one pod and is new or changes: claims and volumes; classes;
/// limits of drivers and what is attached, and the room that they tell of.
pub(super) fn shared_storage() -> impl Strategy<Value = Object> {
    let volume_name = || prop::sample::select(VOLUME_NAMES.to_vec());
    let node = || prop::sample::select(FEW_NODES.to_vec());
    let shared_claim = (
        prop::sample::select(CLAIM_NAMES.to_vec()),
        claim_shape(),
        volume_name(),
    )
        .prop_map(|(name, shape, volume)| object(claim(name, &shape, Some(volume))));
    let kept_for = prop::option::weighted(0.3, prop::sample::select(CLAIM_NAMES.to_vec()));
    let shared_volume = (volume_name(), volume_shape(), kept_for)
        .prop_map(|(name, shape, claim)| object(volume(name, &shape, claim)));
    let class = (
        prop::sample::select(vec![DRIVER, DRIVER, EBS_DRIVER, "kubernetes.io/aws-ebs"]),
        prop::option::weighted(0.3, prop::sample::select(vec!["z0", "z1"])),
    )
        .prop_map(|(provisioner, zone)| class("made", provisioner, zone));
    let attached = (
        prop::sample::select(ATTACHMENT_NAMES.to_vec()),
        volume_name(),
        node(),
    )
        .prop_map(|(name, volume, node)| object(attachment(name, volume, node)));
    let driver = prop::bool::ANY.prop_map(|tells| {
        object(
            json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
            "metadata": {"name": DRIVER}, "spec": {"storageCapacity": tells}}),
        )
    });
    prop_oneof![
        4 => shared_claim,
        3 => shared_volume,
        1 => class,
        5 => csi_node(),
        3 => attached,
        1 => driver,
        2 => capacity(),
    ]
}

/// Limits of drivers on a node, and whether one has taken over there.
fn csi_node() -> impl Strategy<Value = Object> {
    let node = prop::sample::select(FEW_NODES.to_vec());
    let limits = (0..3, prop::option::of(0..3));
    (node, limits, prop::bool::ANY).prop_map(|(node, (limit, ebs_limit), is_migrated)| {
        let driver = |name: &str, count: Option<i32>| {
            json!({"name": name, "nodeID": node, "allocatable": {"count": count}})
        };
        let drivers = json!([driver(DRIVER, Some(limit)), driver(EBS_DRIVER, ebs_limit)]);
        let mut csi_node = json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
            "metadata": {"name": node, "annotations": {}}, "spec": {"drivers": drivers}});
        if is_migrated {
            csi_node["metadata"]["annotations"]["storage.alpha.kubernetes.io/migrated-plugins"] =
                "kubernetes.io/aws-ebs".into();
        }
        object(csi_node)
    })
}

/// Room that a driver tells of: in a zone, or on nodes with a disk.
fn capacity() -> impl Strategy<Value = Object> {
    let labels = prop_oneof![
        3 => (0..3u8).prop_map(|zone| json!({"zone": format!("z{zone}")})),
        1 => Just(json!({"disk": "ssd"})),
        1 => Just(json!({})),
    ];
    (0..3u8, labels, 0..3u32).prop_map(|(name, labels, size)| {
        object(
            json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
            "metadata": {"namespace": "default", "name": format!("r{name}")},
            "storageClassName": "made", "capacity": format!("{size}Gi"),
            "nodeTopology": {"matchLabels": labels}}),
        )
    })
}

/// Storage that can go away.
pub(super) fn removable() -> impl Strategy<Value = (ObjectKind, &'static str)> {
    let of = |kind: ObjectKind, names: &[&'static str]| {
        prop::sample::select(names.to_vec()).prop_map(move |name| (kind, name))
    };
    prop_oneof![
        of(ObjectKind::PersistentVolumeClaim, &CLAIM_NAMES),
        of(ObjectKind::PersistentVolume, &VOLUME_NAMES),
        of(ObjectKind::CSINode, &FEW_NODES),
        of(ObjectKind::VolumeAttachment, &ATTACHMENT_NAMES),
        of(ObjectKind::CSIStorageCapacity, &["r0", "r1", "r2"]),
        of(ObjectKind::CSIDriver, &[DRIVER]),
        of(ObjectKind::StorageClass, &["made"]),
    ]
}

pub(super) fn storage_step() -> impl Strategy<Value = StorageStep> {
    let other_node = prop::option::weighted(0.6, prop::sample::select(FEW_NODES.to_vec()));
    prop_oneof![
        3 => claims().prop_map(StorageStep::Set),
        4 => (claim_shape(), volume_shape())
            .prop_map(|(claim, volume)| StorageStep::Provision(claim, volume)),
        1 => Just(StorageStep::Remove),
        1 => Just(StorageStep::RemoveVolume),
        4 => other_node.prop_map(StorageStep::Attach),
        1 => Just(StorageStep::Detach),
    ]
}
