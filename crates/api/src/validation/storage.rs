//! Persistent volumes, claims, and what describes storage.

use std::collections::BTreeSet;

use serde_json::Value;

use super::errors::{Errors, dns_subdomain};
use super::resources::{Place, amount, resource_name};
use super::selector::{label_selector, node_selector};
use super::volume::{csi_driver_name, demand_fields, host_path};
use crate::diagnostic::Here;
use crate::fields_of::{FieldsOf, quantity_of};
use crate::names::label_key_errors;
use crate::quantity::Quantity;

const ACCESS_MODES: [&str; 4] = [
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];
const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];
const SINGLE: &str = "ReadWriteOncePod";

/// The sources of persistent volumes in the order in which they are looked at.
pub(super) const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

fn access_modes(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    let here = here.field("accessModes");
    for mode in spec.texts("accessModes") {
        errors.word(mode, &ACCESS_MODES, &here);
    }
    let is_single = spec.texts("accessModes").any(|mode| mode == SINGLE);
    let mut others = spec.texts("accessModes").filter(|mode| *mode != SINGLE);
    if is_single && others.any(|mode| ACCESS_MODES.contains(&mode)) {
        let detail = "may not use ReadWriteOncePod with other access modes";
        errors.forbidden(&here, detail);
    }
}

fn positive(size: &Quantity, here: &Here<'_>, errors: &mut Errors) {
    if size.sign() <= 0 {
        errors.invalid(here, size, "must be greater than zero");
    }
}

fn volume_mode(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    if let Some(mode) = spec.some_text("volumeMode") {
        errors.word(mode, &VOLUME_MODES, &here.field("volumeMode"));
    }
}

/// Checks the spec of a persistent volume.
pub(super) fn volume_spec(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    if spec.list("accessModes").is_empty() {
        errors.required(&here.field("accessModes"), "");
    }
    access_modes(spec, here, errors);
    let capacity = here.field("capacity");
    let names: Vec<&str> = spec.entries("capacity").map(|it| it.0).collect();
    if names.is_empty() {
        errors.required(&capacity, "");
    }
    if names.as_slice() != ["storage"] {
        let value = spec.part("capacity").unwrap_or(&Value::Null);
        errors.not_supported(&capacity, value, &["storage"]);
    }
    for (name, size) in spec.amounts("capacity") {
        let here = capacity.key(name);
        positive(&size, &here, errors);
    }
    let reclaim = spec.text("persistentVolumeReclaimPolicy");
    if !reclaim.is_empty() {
        let here = here.field("persistentVolumeReclaimPolicy");
        errors.word(reclaim, &["Delete", "Recycle", "Retain"], &here);
    }
    let affinity = spec.part("nodeAffinity");
    if let Some(affinity) = affinity {
        let here = here.field("nodeAffinity");
        let here = here.field("required");
        match affinity.part("required") {
            Some(required) => node_selector(required, &here, errors),
            None => errors.required(&here, "must specify required node constraints"),
        }
    }
    volume_source(spec, here, errors);
    let path = spec.part("hostPath").map_or("", |it| it.text("path"));
    if reclaim == "Recycle" && !path.is_empty() && path.trim_end_matches('/').is_empty() {
        let detail = "may not be 'recycle' for a hostPath mount of '/'";
        errors.forbidden(&here.field("persistentVolumeReclaimPolicy"), detail);
    }
    let class = spec.text("storageClassName");
    errors.optional_text(dns_subdomain, class, &here.field("storageClassName"));
    volume_mode(spec, here, errors);
    attributes_class(spec, here, errors);
}

fn attributes_class(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    let Some(class) = spec.some_text("volumeAttributesClassName") else {
        return;
    };
    let class_here = here.field("volumeAttributesClassName");
    match class {
        "" => errors.required(&class_here, "an empty string is disallowed"),
        class => errors.text(dns_subdomain, class, &class_here),
    }
    if spec.part("csi").is_none() {
        let detail = "has to be specified when using volumeAttributesClassName";
        errors.required(&here.field("csi"), detail);
    }
}

fn volume_source(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    let mut is_given = false;
    for kind in SOURCES {
        let Some(source) = spec.part(kind) else {
            continue;
        };
        let source_here = here.field(kind);
        if is_given {
            errors.forbidden(&source_here, "may not specify more than 1 volume type");
            continue;
        }
        is_given = true;
        demand_fields(kind, source, &source_here, errors);
        match kind {
            "hostPath" => host_path(source, &source_here, errors),
            "csi" => {
                csi_driver_name(source, &source_here, errors);
                if source.text("volumeHandle").is_empty() {
                    errors.required(&source_here.field("volumeHandle"), "");
                }
            }
            "local" => {
                if source.text("path").is_empty() {
                    errors.required(&source_here.field("path"), "");
                } else {
                    let path = source.text("path");
                    super::errors::no_back_steps(path, &source_here.field("path"), errors);
                }
                if spec.part("nodeAffinity").is_none() {
                    let detail = "Local volume requires node affinity";
                    errors.required(&here.field("nodeAffinity"), detail);
                }
            }
            _ => {}
        }
    }
    if !is_given {
        errors.required(here, "must specify a volume type");
    }
}

/// Checks the spec of a claim.
pub(super) fn claim_spec(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    if spec.list("accessModes").is_empty() {
        let detail = "at least 1 access mode is required";
        errors.required(&here.field("accessModes"), detail);
    }
    label_selector(spec, "selector", here, errors);
    access_modes(spec, here, errors);
    let resources = spec.part("resources").unwrap_or(&Value::Null);
    let requests = resources.part("requests").unwrap_or(&Value::Null);
    let size_here = here.field("resources");
    let size_here = size_here.key("storage");
    match requests.part("storage").and_then(quantity_of) {
        None => errors.required(&size_here, ""),
        Some(size) => positive(&size, &size_here, errors),
    }
    if let Some(class) = spec.some_text("storageClassName") {
        errors.optional_text(dns_subdomain, class, &here.field("storageClassName"));
    }
    volume_mode(spec, here, errors);
    for field in ["dataSource", "dataSourceRef"] {
        if let Some(source) = spec.part(field) {
            data_source(source, &here.field(field), errors);
        }
    }
    if let Some(class) = spec.some_text("volumeAttributesClassName") {
        let here = here.field("volumeAttributesClassName");
        errors.optional_text(dns_subdomain, class, &here);
    }
}

fn data_source(source: &Value, here: &Here<'_>, errors: &mut Errors) {
    for field in ["name", "kind"] {
        if source.text(field).is_empty() {
            errors.required(&here.field(field), "");
        }
    }
    let (group, kind) = (source.text("apiGroup"), source.text("kind"));
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        let rule = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.invalid(here, kind, rule);
    }
    errors.optional_text(dns_subdomain, group, &here.field("apiGroup"));
}

/// Checks a StorageClass.
pub(super) fn storage_class(class: &Value, errors: &mut Errors) {
    let here = Here::OBJECT;
    provisioner(
        class.text("provisioner"),
        &here.field("provisioner"),
        errors,
    );
    let parameters = here.field("parameters");
    if class.entries("parameters").any(|(key, _)| key.is_empty()) {
        errors.invalid(&parameters, "", "field can not be empty.");
    }
    if let Some(policy) = class.some_text("reclaimPolicy") {
        let here = here.field("reclaimPolicy");
        errors.word(policy, &["Delete", "Retain"], &here);
    }
    match class.some_text("volumeBindingMode") {
        None => errors.required(&here.field("volumeBindingMode"), ""),
        Some(mode) => {
            let here = here.field("volumeBindingMode");
            errors.word(mode, &["Immediate", "WaitForFirstConsumer"], &here);
        }
    }
    let topologies = here.field("allowedTopologies");
    for (index, term) in class.list("allowedTopologies").iter().enumerate() {
        let here = topologies.index(index);
        topology_term(term, &here.field("matchLabelExpressions"), errors);
    }
}

fn provisioner(name: &str, here: &Here<'_>, errors: &mut Errors) {
    if name.is_empty() {
        errors.required(here, "");
    } else {
        for rule in label_key_errors(&name.to_lowercase()) {
            errors.invalid(here, name, rule);
        }
    }
}

fn topology_term(term: &Value, here: &Here<'_>, errors: &mut Errors) {
    let mut keys = BTreeSet::new();
    let requirements = term.list("matchLabelExpressions");
    for (index, requirement) in requirements.iter().enumerate() {
        let here = here.index(index);
        let values_here = here.field("values");
        if requirement.list("values").is_empty() {
            errors.required(&values_here, "");
        }
        let mut values = BTreeSet::new();
        for (index, value) in requirement.texts("values").enumerate() {
            if !values.insert(value) {
                errors.duplicate(&values_here.index(index), value);
            }
        }
        let key = requirement.text("key");
        errors.text(label_key_errors, key, &here.field("key"));
        if !keys.insert(key) {
            errors.duplicate(&here.field("key"), key);
        }
    }
}

/// Checks a CSINode.
pub(super) fn csi_node(node: &Value, errors: &mut Errors) {
    let spec_here = Here::OBJECT.field("spec");
    let here = spec_here.field("drivers");
    let spec = node.part("spec").unwrap_or(&Value::Null);
    let mut names = BTreeSet::new();
    for (index, driver) in spec.list("drivers").iter().enumerate() {
        let here = here.index(index);
        let name = driver.text("name");
        if name.is_empty() {
            errors.required(&here.field("name"), "");
        }
        for rule in dns_subdomain(&name.to_lowercase()) {
            errors.invalid(&here.field("name"), name, rule);
        }
        if driver.text("nodeID").is_empty() {
            errors.required(&here.field("nodeID"), "");
        }
        if let Some(allocatable) = driver.part("allocatable") {
            let here = here.field("allocatable");
            errors.not_negative(allocatable, "count", &here);
        }
        if !names.insert(name) {
            errors.duplicate(&here.field("name"), name);
        }
        let keys_here = here.field("topologyKeys");
        let mut keys = BTreeSet::new();
        for key in driver.texts("topologyKeys") {
            if !keys.insert(key) {
                errors.duplicate(&keys_here, key);
            }
            errors.text(label_key_errors, key, &keys_here);
        }
    }
}

/// Checks a CSIDriver.
pub(super) fn csi_driver(driver: &Value, errors: &mut Errors) {
    let here = Here::OBJECT.field("spec");
    let spec = driver.part("spec").unwrap_or(&Value::Null);
    for field in ["attachRequired", "podInfoOnMount", "storageCapacity"] {
        if spec.some_flag(field).is_none() {
            errors.required(&here.field(field), "");
        }
    }
    if let Some(policy) = spec.some_text("fsGroupPolicy") {
        let supported = ["ReadWriteOnceWithFSType", "File", "None"];
        errors.word(policy, &supported, &here.field("fsGroupPolicy"));
    }
    let modes = here.field("volumeLifecycleModes");
    for mode in spec.texts("volumeLifecycleModes") {
        errors.word(mode, &["Ephemeral", "Persistent"], &modes);
    }
}

/// Checks a CSIStorageCapacity.
pub(super) fn storage_capacity(capacity: &Value, errors: &mut Errors) {
    let here = Here::OBJECT;
    label_selector(capacity, "nodeTopology", &here, errors);
    let class = capacity.text("storageClassName");
    errors.text(dns_subdomain, class, &here.field("storageClassName"));
    for field in ["capacity", "maximumVolumeSize"] {
        let size = capacity.part(field).and_then(quantity_of);
        if let Some(size) = size.filter(|size| size.sign() < 0) {
            errors.invalid(&here.field(field), &size, super::errors::NOT_NEGATIVE);
        }
    }
}

/// Checks a VolumeAttachment.
pub(super) fn volume_attachment(attachment: &Value, errors: &mut Errors) {
    let here = Here::OBJECT.field("spec");
    let spec = attachment.part("spec").unwrap_or(&Value::Null);
    provisioner(spec.text("attacher"), &here.field("attacher"), errors);
    let source = spec.part("source").unwrap_or(&Value::Null);
    let name = source.some_text("persistentVolumeName");
    let source_here = here.field("source");
    match (source.part("inlineVolumeSpec"), name) {
        (None, None) => {
            let detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
            errors.required(&source_here, detail);
        }
        (Some(_), Some(_)) => {
            let detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
            errors.forbidden(&source_here, detail);
        }
        (None, Some("")) => {
            let detail = "must specify non empty persistentVolumeName";
            errors.required(&source_here.field("persistentVolumeName"), detail);
        }
        _ => {}
    }
    errors.text(
        dns_subdomain,
        spec.text("nodeName"),
        &here.field("nodeName"),
    );
}

/// Checks a RuntimeClass.
pub(super) fn runtime_class(class: &Value, errors: &mut Errors) {
    let here = Here::OBJECT;
    let handler = class.text("handler");
    errors.text(super::errors::dns_label, handler, &here.field("handler"));
    let overhead = class.part("overhead").unwrap_or(&Value::Null);
    let overhead_here = here.field("overhead");
    let fixed_here = overhead_here.field("podFixed");
    let limits = fixed_here.field("limits");
    for (name, value) in overhead.amounts("podFixed") {
        let here = limits.key(name);
        resource_name(name, Place::Container, &here, errors);
        amount(name, &value, &here, errors);
    }
    if let Some(scheduling) = class.part("scheduling") {
        let here = here.field("scheduling");
        errors.labels(scheduling, "nodeSelector", &here);
        let tolerations = scheduling.list("tolerations");
        super::affinity::tolerations(tolerations, &here.field("tolerations"), errors);
    }
}
