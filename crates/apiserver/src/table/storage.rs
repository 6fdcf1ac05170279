//! Volumes, claims to them, their classes, and the drivers that provide them.

use serde_json::Value;

use super::BuiltIn;
use super::cell::{self, NONE, UNSET, boolean, list, text};
use super::column::{AGE, Heading, NAME, boolean as booleans, integer as integers, text as texts};
use super::network::default_name;

const VOLUME_MODE: Heading = texts("VolumeMode", "A file system, or a block device.").wide();

pub(super) static PERSISTENT_VOLUMES: BuiltIn = BuiltIn::new(
    &[
        NAME,
        texts("Capacity", "How large the volume is."),
        texts("Access Modes", "Who may use the volume at a time."),
        texts(
            "Reclaim Policy",
            "What becomes of the volume when its claim is gone.",
        ),
        texts("Status", "Whether the volume is free, bound, or done with."),
        texts("Claim", "The claim that has the volume."),
        texts("StorageClass", "The class of the volume."),
        texts(
            "VolumeAttributesClass",
            "The class of attributes of the volume.",
        ),
        texts("Reason", "Why the volume is as it is."),
        AGE,
        VOLUME_MODE,
    ],
    persistent_volume_cells,
);

pub(super) static PERSISTENT_VOLUME_CLAIMS: BuiltIn = BuiltIn::new(
    &[
        NAME,
        texts("Status", "Whether the claim has a volume."),
        texts("Volume", "The volume of the claim."),
        texts("Capacity", "How large the volume is."),
        texts("Access Modes", "Who may use the volume at a time."),
        texts("StorageClass", "The class that the claim asks for."),
        texts(
            "VolumeAttributesClass",
            "The class of attributes that the claim asks for.",
        ),
        AGE,
        VOLUME_MODE,
    ],
    persistent_volume_claim_cells,
);

pub(super) static STORAGE_CLASSES: BuiltIn = BuiltIn::new(
    &[
        NAME,
        texts("Provisioner", "The driver that makes volumes."),
        texts(
            "ReclaimPolicy",
            "What becomes of a volume when its claim is gone.",
        ),
        texts("VolumeBindingMode", "When claims get their volume."),
        texts("AllowVolumeExpansion", "Whether claims can be enlarged."),
        AGE,
    ],
    storage_class_cells,
);

pub(super) static VOLUME_ATTRIBUTES_CLASSES: BuiltIn = BuiltIn::new(
    &[
        NAME,
        texts("DriverName", "The driver that the class is for."),
        AGE,
    ],
    volume_attributes_class_cells,
);

pub(super) static VOLUME_ATTACHMENTS: BuiltIn = BuiltIn::new(
    &[
        NAME,
        texts("Attacher", "The driver that attaches the volume.").formatted("name"),
        texts("PV", "The volume."),
        texts("Node", "The node that it is attached to."),
        booleans("Attached", "Whether it is."),
        AGE,
    ],
    volume_attachment_cells,
);

pub(super) static CSI_NODES: BuiltIn = BuiltIn::new(
    &[
        NAME,
        integers("Drivers", "How many drivers the node has."),
        AGE,
    ],
    csi_node_cells,
);

pub(super) static CSI_DRIVERS: BuiltIn = BuiltIn::new(
    &[
        NAME,
        booleans(
            "AttachRequired",
            "Whether volumes must be attached before they are mounted.",
        ),
        booleans(
            "PodInfoOnMount",
            "Whether the driver is told for which pod it mounts.",
        ),
        booleans(
            "StorageCapacity",
            "Whether the driver says how much room there is.",
        ),
        texts(
            "TokenRequests",
            "For whom the driver needs tokens of the pod.",
        ),
        booleans(
            "RequiresRepublish",
            "Whether the driver is called again and again.",
        ),
        texts(
            "Modes",
            "Whether volumes live with their pod or by themselves.",
        ),
        AGE,
    ],
    csi_driver_cells,
);

pub(super) static CSI_STORAGE_CAPACITIES: BuiltIn = BuiltIn::new(
    &[
        NAME,
        texts("StorageClassName", "The class that there is room for."),
        texts("Capacity", "How much room there is."),
    ],
    csi_storage_capacity_cells,
);

fn persistent_volume_cells(volume: &Value, now_nanos: i64) -> Vec<Value> {
    let (spec, status) = (&volume["spec"], &volume["status"]);
    let claim = match &spec["claimRef"] {
        Value::Null => String::new(),
        claim => format!("{}/{}", text(&claim["namespace"]), text(&claim["name"])),
    };
    cells![
        cell::name(volume),
        cell::quantity(&spec["capacity"]["storage"]),
        access_modes(&spec["accessModes"]),
        text(&spec["persistentVolumeReclaimPolicy"]),
        phase(volume),
        claim,
        storage_class(volume),
        cell::present_or(&spec["volumeAttributesClassName"], UNSET),
        text(&status["reason"]),
        cell::age(volume, now_nanos),
        cell::present_or(&spec["volumeMode"], UNSET),
    ]
}

fn persistent_volume_claim_cells(claim: &Value, now_nanos: i64) -> Vec<Value> {
    let (spec, status) = (&claim["spec"], &claim["status"]);
    let volume = text(&spec["volumeName"]);
    // What a claim has is unknown until it has a volume.
    let (capacity, modes) = match volume {
        "" => (String::new(), String::new()),
        _ => (
            cell::quantity(&status["capacity"]["storage"]),
            access_modes(&status["accessModes"]),
        ),
    };
    cells![
        cell::name(claim),
        phase(claim),
        volume,
        capacity,
        modes,
        storage_class(claim),
        cell::present_or(&spec["volumeAttributesClassName"], UNSET),
        cell::age(claim, now_nanos),
        cell::present_or(&spec["volumeMode"], UNSET),
    ]
}

fn phase(object: &Value) -> &str {
    if cell::is_deleted(object) {
        return "Terminating";
    }
    text(&object["status"]["phase"])
}

/// The class of a volume or claim; an old annotation goes before the field.
fn storage_class(object: &Value) -> &str {
    const ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
    let annotation = &object["metadata"]["annotations"][ANNOTATION];
    cell::present_or(annotation, text(&object["spec"]["storageClassName"]))
}

/// Short forms in a fixed order; what is not known is not shown.
fn access_modes(modes: &Value) -> String {
    const SHORT: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let has = |mode| list(modes).iter().any(|it| text(it) == mode);
    let short = SHORT.iter().filter(|(mode, _)| has(*mode));
    cell::joined(short.map(|(_, short)| *short))
}

fn storage_class_cells(class: &Value, now_nanos: i64) -> Vec<Value> {
    const DEFAULT: [&str; 2] = [
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ];
    let is_default = DEFAULT
        .iter()
        .any(|it| cell::has_true_annotation(class, it));
    cells![
        default_name(class, is_default),
        text(&class["provisioner"]),
        cell::present_or(&class["reclaimPolicy"], "Delete"),
        cell::present_or(&class["volumeBindingMode"], "Immediate"),
        boolean(&class["allowVolumeExpansion"]),
        cell::age(class, now_nanos),
    ]
}

fn volume_attributes_class_cells(class: &Value, now_nanos: i64) -> Vec<Value> {
    cells![
        cell::name(class),
        text(&class["driverName"]),
        cell::age(class, now_nanos),
    ]
}

fn volume_attachment_cells(attachment: &Value, now_nanos: i64) -> Vec<Value> {
    let spec = &attachment["spec"];
    cells![
        cell::name(attachment),
        text(&spec["attacher"]),
        text(&spec["source"]["persistentVolumeName"]),
        text(&spec["nodeName"]),
        boolean(&attachment["status"]["attached"]),
        cell::age(attachment, now_nanos),
    ]
}

fn csi_node_cells(node: &Value, now_nanos: i64) -> Vec<Value> {
    cells![
        cell::name(node),
        cell::count(&node["spec"]["drivers"]),
        cell::age(node, now_nanos),
    ]
}

fn csi_driver_cells(driver: &Value, now_nanos: i64) -> Vec<Value> {
    let spec = &driver["spec"];
    let token_requests = match spec["tokenRequests"].as_array() {
        None => UNSET.to_owned(),
        Some(requests) => cell::joined(requests.iter().map(|it| text(&it["audience"]))),
    };
    let modes = cell::joined(list(&spec["volumeLifecycleModes"]).iter().map(text));
    cells![
        cell::name(driver),
        spec["attachRequired"].as_bool().unwrap_or(true),
        boolean(&spec["podInfoOnMount"]),
        boolean(&spec["storageCapacity"]),
        token_requests,
        boolean(&spec["requiresRepublish"]),
        cell::or(&modes, NONE),
        cell::age(driver, now_nanos),
    ]
}

fn csi_storage_capacity_cells(capacity: &Value, _now_nanos: i64) -> Vec<Value> {
    let amount = match &capacity["capacity"] {
        Value::Null => UNSET.to_owned(),
        amount => cell::quantity(amount),
    };
    cells![
        cell::name(capacity),
        text(&capacity["storageClassName"]),
        amount,
    ]
}
