//! Volumes of pods: one source each, and what each source must say.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::container::{field_ref, resource_ref};
use super::errors::{Errors, descending_path, dns_label, dns_subdomain, no_back_steps};
use super::storage::claim_spec;
use crate::diagnostic::Here;
use crate::fields_of::{FieldsOf, quantity_of};

/// The sources of volumes in the order in which they are looked at.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// Checks volumes and answers those that are valid, by name. `pod_name` is empty in templates.
pub(super) fn volumes<'v>(
    volumes: &'v [Value],
    pod_name: &str,
    here: &Here<'_>,
    errors: &mut Errors,
) -> BTreeMap<&'v str, &'v Value> {
    let mut valid = BTreeMap::new();
    let ephemeral = volumes.iter().filter(|it| it.part("ephemeral").is_some());
    let made: BTreeSet<String> = match pod_name {
        "" => BTreeSet::new(),
        pod => ephemeral
            .map(|it| format!("{pod}-{}", it.text("name")))
            .collect(),
    };
    for (index, volume) in volumes.iter().enumerate() {
        let here = here.index(index);
        let name = volume.text("name");
        let mut own = Errors::default();
        sources(volume, pod_name, &here, &mut own);
        errors_of_name(name, &here.field("name"), &mut own);
        if valid.contains_key(name) {
            own.duplicate(&here.field("name"), name);
        }
        match own.0.is_empty() {
            true => drop(valid.insert(name, volume)),
            false => errors.0.append(&mut own.0),
        }
        let claim = volume.part("persistentVolumeClaim");
        let claim = claim.map_or("", |it| it.text("claimName"));
        if made.contains(claim) {
            let here = here.field("persistentVolumeClaim");
            let rule = "must not reference a PVC that gets created for an ephemeral volume";
            errors.invalid(&here.field("claimName"), claim, rule);
        }
    }
    valid
}

fn errors_of_name(name: &str, here: &Here<'_>, errors: &mut Errors) {
    errors.required_text(dns_label, name, here);
}

fn sources(volume: &Value, pod_name: &str, here: &Here<'_>, errors: &mut Errors) {
    let mut is_given = false;
    for kind in SOURCES {
        let Some(source) = volume.part(kind) else {
            continue;
        };
        if is_given {
            let here = here.field(kind);
            errors.forbidden(&here, "may not specify more than 1 volume type");
            continue;
        }
        is_given = true;
        let source_here = here.field(kind);
        one_source(kind, source, &source_here, errors);
        let name = volume.text("name");
        if kind == "ephemeral" && !pod_name.is_empty() && !name.is_empty() {
            let claim = format!("{pod_name}-{name}");
            for rule in dns_subdomain(&claim) {
                let rule = format!("PVC name {claim:?}: {rule}");
                errors.invalid(&here.field("name"), name, rule);
            }
        }
    }
    if !is_given {
        errors.required(here, "must specify a volume type");
    }
}

/// Fields that a source must have, be it of a pod's volume or of a persistent volume.
pub(super) fn required_fields(kind: &str) -> &'static [&'static str] {
    match kind {
        "gcePersistentDisk" => &["pdName"],
        "awsElasticBlockStore" | "cinder" => &["volumeID"],
        "nfs" => &["server", "path"],
        "glusterfs" => &["endpoints", "path"],
        "cephfs" => &["monitors"],
        "rbd" => &["monitors", "image"],
        "quobyte" => &["registry", "volume"],
        "flexVolume" => &["driver"],
        "azureFile" => &["secretName", "shareName"],
        "vsphereVolume" => &["volumePath"],
        "photonPersistentDisk" => &["pdID"],
        "portworxVolume" => &["volumeID"],
        "azureDisk" => &["diskURI"],
        "scaleIO" => &["gateway", "system", "volumeName"],
        "iscsi" => &["targetPortal", "iqn"],
        _ => &[],
    }
}

/// Checks that the fields that a source must have are there.
pub(super) fn demand_fields(kind: &str, source: &Value, here: &Here<'_>, errors: &mut Errors) {
    for field in required_fields(kind) {
        let is_there = match source.part(field) {
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Array(elements)) => !elements.is_empty(),
            other => other.is_some(),
        };
        if !is_there {
            errors.required(&here.field(field), "");
        }
    }
}

fn one_source(kind: &str, source: &Value, here: &Here<'_>, errors: &mut Errors) {
    demand_fields(kind, source, here, errors);
    match kind {
        "emptyDir" => {
            let limit = source.part("sizeLimit").and_then(quantity_of);
            if limit.is_some_and(|limit| limit.sign() < 0) {
                let detail = "SizeLimit field must be a valid resource quantity";
                errors.forbidden(&here.field("sizeLimit"), detail);
            }
        }
        "hostPath" => host_path(source, here, errors),
        "nfs" if !source.text("path").is_empty() && !source.text("path").starts_with('/') => {
            let rule = "must be an absolute path";
            errors.invalid(&here.field("path"), source.text("path"), rule);
        }
        "persistentVolumeClaim" if source.text("claimName").is_empty() => {
            errors.required(&here.field("claimName"), "");
        }
        "secret" => keys_of(source, "secretName", here, errors),
        "configMap" => keys_of(source, "name", here, errors),
        "downwardAPI" => {
            mode(source, "defaultMode", here, errors);
            downward(source, here, errors);
        }
        "projected" => projected(source, here, errors),
        "csi" => csi_driver_name(source, here, errors),
        "ephemeral" => ephemeral(source, here, errors),
        _ => {}
    }
}

/// Checks a path on the node.
pub(super) fn host_path(source: &Value, here: &Here<'_>, errors: &mut Errors) {
    const TYPES: [&str; 8] = [
        "",
        "BlockDevice",
        "CharDevice",
        "Directory",
        "DirectoryOrCreate",
        "File",
        "FileOrCreate",
        "Socket",
    ];
    let path = source.text("path");
    if path.is_empty() {
        errors.required(&here.field("path"), "");
        return;
    }
    no_back_steps(path, &here.field("path"), errors);
    if let Some(host_type) = source.some_text("type") {
        errors.word(host_type, &TYPES, &here.field("type"));
    }
}

/// Checks the name of a CSI driver.
pub(super) fn csi_driver_name(source: &Value, here: &Here<'_>, errors: &mut Errors) {
    const BYTES_MAX: usize = 63;
    let (driver, here) = (source.text("driver"), here.field("driver"));
    if driver.is_empty() {
        errors.required(&here, "");
    }
    if driver.len() > BYTES_MAX {
        let error = crate::field_error::FieldError::too_long(&here, BYTES_MAX);
        errors.0.push(error);
    }
    for rule in dns_subdomain(&driver.to_lowercase()) {
        errors.invalid(&here, driver, rule);
    }
}

/// A Secret or a ConfigMap, and which of its keys become files.
fn keys_of(source: &Value, name: &str, here: &Here<'_>, errors: &mut Errors) {
    if source.text(name).is_empty() {
        errors.required(&here.field(name), "");
    }
    mode(source, "defaultMode", here, errors);
    items(source, here, errors);
}

fn items(source: &Value, here: &Here<'_>, errors: &mut Errors) {
    let items = here.field("items");
    for (index, item) in source.list("items").iter().enumerate() {
        let here = items.index(index);
        if item.text("key").is_empty() {
            errors.required(&here.field("key"), "");
        }
        let path = item.text("path");
        match path {
            "" => errors.required(&here.field("path"), ""),
            path => local_path(path, &here.field("path"), errors),
        }
        mode(item, "mode", &here, errors);
    }
}

/// A path that leads downwards and begins with no two dots.
fn local_path(path: &str, here: &Here<'_>, errors: &mut Errors) {
    descending_path(path, here, errors);
    if path.starts_with("..") && !path.starts_with("../") && path != ".." {
        errors.invalid(here, path, "must not start with '..'");
    }
}

fn mode(source: &Value, field: &str, here: &Here<'_>, errors: &mut Errors) {
    const MODE_MAX: i64 = 0o777;
    if let Some(mode) = source.number(field)
        && !(0..=MODE_MAX).contains(&mode)
    {
        let rule = "must be a number between 0 and 0777 (octal), both inclusive";
        errors.invalid(&here.field(field), mode, rule);
    }
}

/// Fields of its pod that a file may have.
const FILE_FIELDS: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];

fn downward(source: &Value, here: &Here<'_>, errors: &mut Errors) {
    for file in source.list("items") {
        let path = file.text("path");
        match path {
            "" => errors.required(&here.field("path"), ""),
            path => local_path(path, &here.field("path"), errors),
        }
        match (file.part("fieldRef"), file.part("resourceFieldRef")) {
            (Some(field), resource) => {
                field_ref(field, &FILE_FIELDS, &here.field("fieldRef"), errors);
                if resource.is_some() {
                    let rule = "fieldRef and resourceFieldRef can not be specified simultaneously";
                    errors.invalid(here, "resource", rule);
                }
            }
            (None, Some(resource)) => {
                resource_ref(resource, true, &here.field("resourceFieldRef"), errors);
            }
            (None, None) => {
                let detail = "one of fieldRef and resourceFieldRef is required";
                errors.required(&here.field("fieldRef"), detail);
            }
        }
        mode(file, "mode", here, errors);
    }
}

fn projected(source: &Value, here: &Here<'_>, errors: &mut Errors) {
    mode(source, "defaultMode", here, errors);
    let kinds = [
        "secret",
        "configMap",
        "downwardAPI",
        "serviceAccountToken",
        "clusterTrustBundle",
        "podCertificate",
    ];
    let mut paths = BTreeSet::new();
    let sources = here.field("sources");
    for (index, projection) in source.list("sources").iter().enumerate() {
        let here = sources.index(index);
        let mut given = false;
        for kind in kinds {
            let Some(inner) = projection.part(kind) else {
                continue;
            };
            let here = here.field(kind);
            if given {
                errors.forbidden(&here, "may not specify more than 1 volume type per source");
                continue;
            }
            given = true;
            match kind {
                "secret" | "configMap" => {
                    if inner.text("name").is_empty() {
                        errors.required(&here.field("name"), "");
                    }
                    items(inner, &here, errors);
                }
                "downwardAPI" => downward(inner, &here, errors),
                "serviceAccountToken" => token(inner, &here, errors),
                _ => {}
            }
            for path in inner.list("items").iter().map(|item| item.text("path")) {
                if !path.is_empty() && !paths.insert(path) {
                    let detail = "conflicting duplicate paths";
                    errors.invalid(&sources, path, detail);
                }
            }
        }
        if !given {
            let detail = "no projection source specified";
            errors.required(&here, detail);
        }
    }
}

fn token(token: &Value, here: &Here<'_>, errors: &mut Errors) {
    const SECONDS_MIN: i64 = 10 * 60;
    const SECONDS_MAX: i64 = 1 << 32;
    let seconds = token.number("expirationSeconds").unwrap_or(0);
    let here_seconds = here.field("expirationSeconds");
    if seconds < SECONDS_MIN {
        let rule = "may not specify a duration less than 10 minutes";
        errors.invalid(&here_seconds, seconds, rule);
    }
    if seconds > SECONDS_MAX {
        let rule = "may not specify a duration larger than 2^32 seconds";
        errors.invalid(&here_seconds, seconds, rule);
    }
    match token.text("path") {
        "" => errors.required(&here.field("path"), ""),
        path => local_path(path, &here.field("path"), errors),
    }
}

fn ephemeral(source: &Value, here: &Here<'_>, errors: &mut Errors) {
    let here = here.field("volumeClaimTemplate");
    match source.part("volumeClaimTemplate") {
        None => errors.required(&here, ""),
        Some(template) => {
            let metadata = template.part("metadata").unwrap_or(&Value::Null);
            let metadata_here = here.field("metadata");
            errors.annotations(metadata, "annotations", &metadata_here);
            errors.labels(metadata, "labels", &metadata_here);
            let spec = template.part("spec").unwrap_or(&Value::Null);
            claim_spec(spec, &here.field("spec"), errors);
        }
    }
}
