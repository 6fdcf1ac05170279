//! Other names for everything in a dump.
//!
//! What decides where pods go must stay: amounts, priorities, times, words of the API, and what is
//! equal to what. The API's own schema says of each field what it is ([`schema`]): numbers, amounts
//! and words stay, and all other text is a name, which gets the same pseudonym wherever it stands
//! ([`Pseudonyms`]), in the form that it had: an address is an address, a path a path. So whatever
//! is not known to be harmless is replaced, and what is read stays valid.
//!
//! Names that controllers make of others are made of their pseudonyms: the pods of a StatefulSet
//! and its claims are known by them.

mod pseudonyms;

use std::collections::{BTreeMap, BTreeSet};

use outrank_api::schema::{self, Field, FieldType};
use serde_json::{Map, Value, json};

use pseudonyms::Pseudonyms;

/// API groups, and types of the core group, of which nothing depends and which tell of people and
/// their programs: who may do what, webhooks, types of one's own, devices, addresses of pods.
const LEFT_OUT: [&str; 6] = [
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "discovery.k8s.io",
    "endpoints",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
];

/// Fields that tell about programs, people or machines and on which nothing depends.
const DROPPED: [&str; 23] = [
    "addresses",
    "args",
    "command",
    "config",
    "description",
    "env",
    "envFrom",
    "except",
    "externalID",
    "fieldPath",
    "hostIP",
    "hostIPs",
    "managedFields",
    "message",
    "nodeInfo",
    "note",
    "podCIDR",
    "podCIDRs",
    "podIP",
    "podIPs",
    "providerID",
    "selfLink",
    "volumesInUse",
];

/// Conditions that Kubernetes itself writes.
const KNOWN_CONDITIONS: [&str; 35] = [
    "AbleToScale",
    "Available",
    "Complete",
    "ContainersReady",
    "ControllerResizeError",
    "DiskPressure",
    "DisruptionAllowed",
    "DisruptionTarget",
    "Failed",
    "FailureTarget",
    "FileSystemResizePending",
    "Initialized",
    "MemoryPressure",
    "ModifyVolumeError",
    "ModifyingVolume",
    "NamespaceContentRemaining",
    "NamespaceDeletionContentFailure",
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceDeletionGroupVersionParsingFailure",
    "NamespaceFinalizersRemaining",
    "NetworkUnavailable",
    "NodeResizeError",
    "PIDPressure",
    "PodReadyToStartContainers",
    "PodResizeInProgress",
    "PodResizePending",
    "PodScheduled",
    "Progressing",
    "Ready",
    "ReplicaFailure",
    "Resizing",
    "ScalingActive",
    "ScalingLimited",
    "SuccessCriteriaMet",
    "Suspended",
];

/// Gives the objects of a cluster other names, and leaves out those that would tell too much.
pub(super) fn anonymize(objects: &mut Vec<Value>) {
    objects.retain(|object| !is_left_out(object));
    let mut anonymizer = Anonymizer {
        names: Pseudonyms::default(),
    };
    anonymizer.learn(objects);
    for object in objects {
        anonymizer.apply(object);
    }
}

fn is_left_out(object: &Value) -> bool {
    let api_version = text(object, "/apiVersion");
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let kind = text(object, "/kind");
    LEFT_OUT.contains(&group)
        || group.is_empty() && kind == "Endpoints"
        || schema::type_of(api_version, kind).is_none()
}

struct Anonymizer {
    names: Pseudonyms,
}

/// What a text in a field is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// A word of the API, or what does not tell.
    Word,
    /// What nothing depends on.
    Dropped,
    /// The key of a label or taint.
    Key,
    /// A container image.
    Image,
    /// A field of a pod, such as `metadata.labels['app']`.
    FieldPath,
    /// A resource, such as `limits.cpu`.
    Resource,
    /// A group and version.
    ApiVersion,
    /// A kind.
    Kind,
    /// The type of a condition.
    Condition,
    /// A reason for programs.
    Reason,
    /// The name of something, or any other text.
    Name,
}

impl Anonymizer {
    /// Gives names their pseudonyms in the order of the names, so that what is tried in this order
    /// still is. Names that are made of others come first.
    fn learn(&mut self, objects: &[Value]) {
        let nodes = objects.iter().filter(|it| text(it, "/kind") == "Node");
        let nodes: BTreeSet<&str> = nodes.map(|it| text(it, "/metadata/name")).collect();
        nodes.into_iter().for_each(|it| drop(self.names.text(it)));
        let composed = composed_names(objects);
        let names = objects.iter().map(|it| text(it, "/metadata/name"));
        let names: BTreeSet<&str> = names.filter(|it| !composed.contains_key(*it)).collect();
        names.into_iter().for_each(|it| drop(self.names.text(it)));
        for (name, parts) in &composed {
            self.names.compose(name, parts);
        }
    }

    fn apply(&mut self, object: &mut Value) {
        let type_name = schema::type_of(text(object, "/apiVersion"), text(object, "/kind"));
        // What is in a revision is of the type of its owner.
        let owner = text(object, "/metadata/ownerReferences/0/kind").to_owned();
        let data = (type_name == Some("ControllerRevision"))
            .then(|| object.get_mut("data").map(Value::take))
            .flatten();
        if let (Some(type_name), Value::Object(fields)) = (type_name, &mut *object) {
            self.fields(type_name, fields);
        }
        if let Some(mut data) = data {
            match (schema::type_of("apps/v1", &owner), &mut data) {
                (Some(type_name), Value::Object(fields)) => self.fields(type_name, fields),
                _ => data = json!({}),
            }
            object["data"] = data;
        }
    }

    fn fields(&mut self, type_name: &str, fields: &mut Map<String, Value>) {
        let known: BTreeMap<&str, &Field> = schema::fields(type_name).into_iter().collect();
        let has_own_condition = type_name.ends_with("Condition")
            && fields
                .get("type")
                .and_then(Value::as_str)
                .is_some_and(|it| !KNOWN_CONDITIONS.contains(&it));
        fields.retain(|name, value| {
            // A patch says so of the template that it replaces.
            if name == "$patch" {
                return true;
            }
            let Some(field) = known.get(name.as_str()) else {
                return false;
            };
            let meaning = match meaning(type_name, name, field) {
                Meaning::Reason if has_own_condition => Meaning::Name,
                meaning => meaning,
            };
            self.value(meaning, &field.field_type, value, name)
                || keep_place(type_name, name, field, value)
        });
    }

    /// Gives a value other names; whether it is to stay.
    fn value(
        &mut self,
        meaning: Meaning,
        field_type: &FieldType,
        value: &mut Value,
        name: &str,
    ) -> bool {
        if meaning == Meaning::Dropped {
            return false;
        }
        match (field_type, &mut *value) {
            (FieldType::Object(type_name), Value::Object(fields)) => self.fields(type_name, fields),
            (FieldType::List(element_type), Value::Array(elements)) => {
                elements.retain_mut(|it| self.value(meaning, element_type, it, name));
            }
            (FieldType::Map(value_type), Value::Object(map)) => {
                return self.map(meaning, value_type, map, name);
            }
            (FieldType::String | FieldType::IntOrString, Value::String(text)) => {
                *text = self.text(meaning, text);
            }
            (FieldType::Any | FieldType::Bytes, _) => return false,
            (_, Value::Object(_) | Value::Array(_)) => return false,
            _ => {}
        }
        true
    }

    /// Gives a map other names; whether it is to stay.
    fn map(
        &mut self,
        meaning: Meaning,
        value_type: &FieldType,
        map: &mut Map<String, Value>,
        name: &str,
    ) -> bool {
        let is_of_labels = matches!(name, "labels" | "matchLabels" | "nodeSelector" | "selector");
        match value_type {
            FieldType::String if name == "annotations" => self.annotations(map),
            FieldType::String if is_of_labels => {
                for (key, mut value) in std::mem::take(map) {
                    if let Value::String(text) = &mut value {
                        *text = self.names.text(text);
                    }
                    map.insert(self.names.key(&key), value);
                }
            }
            FieldType::Quantity => self.rename(map, Pseudonyms::resource),
            FieldType::String if meaning == Meaning::Word => self.rename(map, Pseudonyms::resource),
            FieldType::Time => self.rename(map, Pseudonyms::text),
            // Settings of programs, and what is in ConfigMaps and Secrets.
            _ => return false,
        }
        true
    }

    fn rename(
        &mut self,
        map: &mut Map<String, Value>,
        renamed: fn(&mut Pseudonyms, &str) -> String,
    ) {
        for (key, value) in std::mem::take(map) {
            map.insert(renamed(&mut self.names, &key), value);
        }
    }

    /// Of annotations, those that Kubernetes or we give a meaning stay, with other names in them.
    fn annotations(&mut self, annotations: &mut Map<String, Value>) {
        for (key, mut value) in std::mem::take(annotations) {
            let Value::String(text) = &mut value else {
                continue;
            };
            let is_ours = pseudonyms::is_of_domain(&key, "outrank.dev");
            // What describes others in full, as JSON or with their names in the key.
            let is_description = text.starts_with(['{', '[']) || key.contains("security.");
            if !is_ours && (is_description || !pseudonyms::is_known_key(&key)) {
                continue;
            }
            if !is_ours {
                let parts = text.split(',').map(|it| self.names.text(it));
                *text = parts.collect::<Vec<_>>().join(",");
            }
            annotations.insert(self.behaviour_key(key), value);
        }
    }

    /// Annotations about what pods do may end in the name of a container.
    fn behaviour_key(&mut self, key: String) -> String {
        let behaviour = key.strip_prefix("node.outrank.dev/");
        match behaviour.and_then(|it| it.split_once('.')) {
            Some((what, container)) => {
                format!("node.outrank.dev/{what}.{}", self.names.text(container))
            }
            None => key,
        }
    }

    fn text(&mut self, meaning: Meaning, text: &str) -> String {
        let names = &mut self.names;
        let is_known = match meaning {
            Meaning::Word => true,
            Meaning::Condition => KNOWN_CONDITIONS.contains(&text),
            Meaning::Reason => text.bytes().all(|it| it.is_ascii_alphanumeric()),
            Meaning::Kind => schema::kinds().iter().any(|(_, kind, _)| *kind == text),
            _ => false,
        };
        match meaning {
            _ if is_known => text.to_owned(),
            Meaning::Key => names.key(text),
            Meaning::Image => names.image(text),
            Meaning::FieldPath => names.field_path(text),
            Meaning::Resource => names.resource(text),
            Meaning::ApiVersion => names.api_version(text),
            _ => names.text(text),
        }
    }
}

fn meaning(type_name: &str, name: &str, field: &Field) -> Meaning {
    match (type_name, name) {
        _ if field.has_words => Meaning::Word,
        ("ContainerPort", "hostIP") => Meaning::Name,
        ("ObjectFieldSelector", "fieldPath") => Meaning::FieldPath,
        (_, name) if DROPPED.contains(&name) => Meaning::Dropped,
        (_, "apiVersion" | "apiGroup") => Meaning::ApiVersion,
        (_, "kind") => Meaning::Kind,
        (_, "reason") => Meaning::Reason,
        (_, "conditionType") | ("PodFailurePolicyOnPodConditionsPattern", "type") => {
            Meaning::Condition
        }
        (condition, "type") if condition.ends_with("Condition") => Meaning::Condition,
        (_, "topologyKey" | "topologyKeys" | "matchLabelKeys" | "mismatchLabelKeys") => {
            Meaning::Key
        }
        (holder, "key") if !holder.ends_with("KeySelector") && holder != "KeyToPath" => {
            Meaning::Key
        }
        ("RBDVolumeSource" | "RBDPersistentVolumeSource", _) => Meaning::Name,
        (_, "image") | ("ContainerImage", "names") | ("ImageVolumeSource", "reference") => {
            Meaning::Image
        }
        ("ResourceFieldSelector", "resource") => Meaning::Resource,
        _ => Meaning::Name,
    }
}

/// Puts something into a field that must be there and is to tell nothing; whether it could.
fn keep_place(type_name: &str, name: &str, field: &Field, value: &mut Value) -> bool {
    *value = match (&field.field_type, type_name, name) {
        (_, "ExecAction", "command") => json!(["true"]),
        (FieldType::String, _, _) if field.is_required => "".into(),
        _ => return false,
    };
    true
}

/// The names that controllers make of others, with their parts: pods of StatefulSets, claims of
/// these, and claims of pods.
fn composed_names(objects: &[Value]) -> BTreeMap<String, Vec<String>> {
    let of_kind = |kind: &'static str| objects.iter().filter(move |it| text(it, "/kind") == kind);
    let mut composed = BTreeMap::new();
    let sets: Vec<&Value> = of_kind("StatefulSet").collect();
    for named in of_kind("Pod").chain(of_kind("PersistentVolumeClaim")) {
        let name = text(named, "/metadata/name");
        let namespace = text(named, "/metadata/namespace");
        let Some((stem, ordinal)) = name.rsplit_once('-') else {
            continue;
        };
        if !ordinal.bytes().all(|it| it.is_ascii_digit()) {
            continue;
        }
        for set in &sets {
            if text(set, "/metadata/namespace") != namespace {
                continue;
            }
            let own = text(set, "/metadata/name");
            let parts = match stem.strip_suffix(own).map(|it| it.strip_suffix('-')) {
                Some(_) if stem == own => vec![own, ordinal],
                Some(Some(template)) => vec![template, own, ordinal],
                _ => continue,
            };
            composed.insert(
                name.to_owned(),
                parts.into_iter().map(str::to_owned).collect(),
            );
        }
    }
    for pod in of_kind("Pod") {
        let name = text(pod, "/metadata/name");
        let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array);
        for volume in volumes.into_iter().flatten() {
            if volume.get("ephemeral").is_some() {
                let volume = text(volume, "/name");
                let mut parts = composed.get(name).cloned();
                let parts = parts.get_or_insert_with(|| vec![name.to_owned()]);
                parts.push(volume.to_owned());
                composed.insert(format!("{name}-{volume}"), std::mem::take(parts));
            }
        }
    }
    composed
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    let text = value.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default()
}

#[cfg(test)]
mod tests;
