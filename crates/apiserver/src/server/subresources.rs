//! Parts of objects that are written by themselves, and things that are done to objects.

use std::collections::BTreeMap;

use outrank_admission::pod_topology_labels::KEYS;
use outrank_api::decode::{Object, ObjectKind, decode_value};
use outrank_api::field_error::FieldError;
use outrank_api::metadata;
use outrank_api::names::{joined_errors, quoted};
use outrank_api::resource_type::{self, ResourceType};
use outrank_api::server_side_apply::{self, ApplyWrite};
use outrank_api::status::{Qualified, Reason, Status, StatusDetails};
use outrank_api::types::{ObjectMeta, Pod, PodDisruptionBudget};
use outrank_controllers::eviction::{self, Denial};
use outrank_store::{CommitError, Entry, Key, Operation};
use serde_json::{Value, json};

use super::delete::{DeleteOptions, Deleted};
use super::{ApiServer, Target, WriteOptions, Written, with_version};
use crate::lookups::entries_within;
use crate::stored_object::StoredObject;
use crate::versions;

/// Kinds of which the number of replicas is a subresource: where it is wanted, where it is told,
/// and where the selector is.
const SCALED: [(&str, &str); 4] = [
    ("replicationcontrollers", ""),
    ("deployments", "apps"),
    ("replicasets", "apps"),
    ("statefulsets", "apps"),
];

impl ApiServer {
    /// Binds a pod to a node.
    ///
    /// # Errors
    ///
    /// If the pod has a node, or is being deleted.
    pub fn bind(
        &self,
        target: &Target,
        binding: &Value,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        self.admit_part(target, options.dry_run)?;
        check_named_as(target, binding, "Binding")?;
        check_binding(binding)?;
        let text = |pointer: &str| binding.pointer(pointer).and_then(Value::as_str);
        let now = self.now();
        let node = text("/target/name").unwrap_or_default();
        let places = match text("/target/kind") {
            Some("Node") => self.places_of(node),
            _ => Vec::new(),
        };
        let given = |field: &str| binding["metadata"][field].as_object().into_iter().flatten();
        self.modify(target, options, &|live| {
            check_bindable(target, binding, live)?;
            let mut bound = live.clone();
            bound["spec"]["nodeName"] = node.into();
            if let Value::Object(status) = &mut bound["status"] {
                status.remove("nominatedNodeName");
            }
            for field in ["annotations", "labels"] {
                for (name, value) in given(field) {
                    bound["metadata"][field][name] = value.clone();
                }
            }
            for (name, value) in &places {
                bound["metadata"]["labels"][name] = value.as_str().into();
            }
            set_condition(
                &mut bound,
                json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": now,
                    "lastProbeTime": null}),
            );
            Ok((bound, Vec::new()))
        })
    }

    /// The labels of a node that say where it is, which its pods have, too (KEP-4742).
    fn places_of(&self, node: &str) -> Vec<(&'static str, String)> {
        let node = self.store().get(&Key::new("nodes", "", node));
        let labels = node.as_ref().map(|it| it.value.labels());
        let places = KEYS.iter().filter_map(|name| {
            let value = labels?.get(*name)?;
            Some((*name, value.clone()))
        });
        places.collect()
    }

    /// Evicts a pod: deletes it if its budget allows that.
    ///
    /// # Errors
    ///
    /// The answer, if the budget does not allow it, or the pod cannot be deleted.
    pub fn evict(&self, target: &Target, eviction: &Value, dry_run: bool) -> Result<(), Status> {
        self.admit_part(target, dry_run)?;
        check_named_as(target, eviction, "Eviction")?;
        let mut options = DeleteOptions::read(&eviction["deleteOptions"]);
        let of_body = &eviction["deleteOptions"]["dryRun"];
        if dry_run && options.dry_run && *of_body != json!(["All"]) {
            let values = of_body.as_array().into_iter().flatten();
            let values: Vec<&str> = values.filter_map(Value::as_str).collect();
            return Err(Status::unknown_error(format!(
                "Non-matching dry-run options in request and content: [All] and [{}]",
                values.join(" ")
            )));
        }
        options.dry_run |= dry_run;
        loop {
            let entry = self.get(target)?;
            let value = entry.value.to_value(&target.served.stored);
            let Ok(Object::Pod(pod)) = decode_value(&value) else {
                return Err(Status::internal_error("the pod cannot be read"));
            };
            match self.charge_budget(target, &pod, options.dry_run) {
                Ok(()) => {}
                Err(NotCharged::Raced) => continue,
                Err(NotCharged::Refused(status)) => return Err(*status),
            }
            if !options.dry_run {
                self.mark_evicted(target, &mut options)?;
            }
            return self.delete(target, &options).map(|_| ());
        }
    }

    /// Takes one disruption from the budget of a pod, if it has one.
    fn charge_budget(&self, target: &Target, pod: &Pod, dry_run: bool) -> Result<(), NotCharged> {
        let resource: &ResourceType = ObjectKind::PodDisruptionBudget.into();
        let store_name = resource.resource().to_string();
        let entries = entries_within(self.store(), &store_name, &target.namespace);
        let values: Vec<Value> = entries
            .iter()
            .map(|it| it.value.to_value(resource))
            .collect();
        let budgets: Vec<PodDisruptionBudget> = values
            .iter()
            .filter_map(|value| serde_json::from_value(value.clone()).ok())
            .collect();
        if budgets.len() != entries.len() {
            return Err(Status::internal_error("a PodDisruptionBudget cannot be read").into());
        }
        let budgets: Vec<&PodDisruptionBudget> = budgets.iter().collect();
        let charged = eviction::evict(pod, &budgets, self.clock().now());
        let charged = charged.map_err(|denial| NotCharged::from(refused_eviction(&denial)))?;
        let Some((index, status)) = charged.filter(|_| !dry_run) else {
            return Ok(());
        };
        let (Some(entry), Some(value)) = (entries.get(index), values.get(index)) else {
            return Ok(());
        };
        let mut value = value.clone();
        value["status"]["disruptionsAllowed"] = status.disruptions_allowed.into();
        let disrupted: BTreeMap<_, _> = status.disrupted_pods.into_iter().collect();
        value["status"]["disruptedPods"] = serde_json::to_value(disrupted).unwrap_or_default();
        value["status"]["conditions"] = serde_json::to_value(status.conditions).unwrap_or_default();
        let operation = Operation::Update {
            key: entry.key.clone(),
            expected: Some(entry.version),
            make: with_version(entry.key.resource.clone(), value),
        };
        match self.commit(vec![operation]) {
            Ok(_) => Ok(()),
            Err(CommitError::Conflict { .. } | CommitError::NotFound { .. }) => {
                Err(NotCharged::Raced)
            }
            Err(error) => Err(Status::internal_error(&error).into()),
        }
    }

    /// Says in the status of a pod that it is to go since it was evicted, if it is the one that is
    /// meant. Who meant a version of it means the one that is written.
    fn mark_evicted(&self, target: &Target, options: &mut DeleteOptions) -> Result<(), Status> {
        let now = self.now();
        let of_status = Target {
            subresource: "status".to_owned(),
            ..target.clone()
        };
        let by_server = WriteOptions {
            manager: "kube-apiserver".to_owned(),
            ..WriteOptions::default()
        };
        let evicted = Qualified {
            group: "",
            name: "Pod",
        };
        let marked = self.modify(&of_status, &by_server, &|live| {
            options.check_preconditions(evicted, &target.name, live)?;
            let mut pod = live.clone();
            set_condition(
                &mut pod,
                json!({"type": "DisruptionTarget", "status": "True",
                    "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
                    "lastTransitionTime": now}),
            );
            Ok((pod, Vec::new()))
        })?;
        if options.resource_version.is_some() {
            let pod = marked.object.to_value(&target.served.stored);
            let version = pod["metadata"]["resourceVersion"].as_str();
            options.resource_version = version.map(str::to_owned);
        }
        Ok(())
    }

    /// The scale of an object: how many replicas it wants and has.
    ///
    /// # Errors
    ///
    /// If the object is not there, or has no scale.
    pub fn scale(&self, target: &Target) -> Result<Value, Status> {
        let entry = self.get(target)?;
        let value = entry.value.to_value(&target.served.stored);
        ScalePaths::of(target)
            .map(|paths| paths.scale_of(&value))
            .ok_or_else(|| Status::not_found(target.served.resource.resource(), &target.name))
    }

    /// Changes how many replicas an object wants; `change` makes a scale of the one that is.
    ///
    /// # Errors
    ///
    /// The answer, if the request is refused.
    pub fn set_scale(
        &self,
        target: &Target,
        options: &WriteOptions,
        change: &dyn Fn(&Value) -> Result<Value, Status>,
    ) -> Result<Value, Status> {
        let Some(paths) = ScalePaths::of(target) else {
            return Err(Status::not_found(
                target.served.resource.resource(),
                &target.name,
            ));
        };
        let written = self.modify(target, options, &|live| {
            let old = paths.scale_of(live);
            let new = change(&old)?;
            check_scale(target, &new, live)?;
            let replicas = new["spec"]["replicas"].as_i64().unwrap_or(0);
            let mut changed = live.clone();
            set_pointer(&mut changed, &paths.wanted, replicas.into());
            Ok((changed, Vec::new()))
        })?;
        Ok(paths.scale_of(&written.object.to_value(&target.served.stored)))
    }

    /// Applies a configuration of a scale, YAML or JSON: server-side apply. What it says is owned
    /// as a part of the object that is scaled. Also what the client is warned of.
    ///
    /// # Errors
    ///
    /// The answer, if the request is refused, with the conflicts if there are any.
    pub fn apply_scale(
        &self,
        target: &Target,
        text: &str,
        options: &WriteOptions,
    ) -> Result<(Value, Vec<String>), Status> {
        let served = &target.served;
        let paths = ScalePaths::of(target)
            .ok_or_else(|| Status::not_found(served.resource.resource(), &target.name))?;
        let now = self.now();
        let options = &WriteOptions {
            is_applied: true,
            ..options.clone()
        };
        let write = ApplyWrite {
            manager: &options.manager,
            force: options.force,
            subresource: "",
            now: &now,
        };
        // Applied to nothing it is what it says itself, if it is a scale at all.
        let scale_type = resource_type::scale();
        let validation = options.field_validation;
        let scale = server_side_apply::apply_body(scale_type, None, text, validation, write)?;
        check_scale_name(target, &scale.value)?;
        let write = ApplyWrite {
            subresource: "scale",
            ..write
        };
        let written = self.modify(target, options, &|live| {
            check_scale(target, &scale.value, live)?;
            let live = versions::to_served(&served.resource, &served.stored, live.clone());
            let configuration = paths.configuration_of(target, &scale.value);
            let new =
                server_side_apply::apply(&served.resource, Some(&live), configuration, write)?;
            let new = versions::to_stored(&served.resource, &served.stored, new);
            Ok((new, Vec::new()))
        })?;
        let scale_of_new = paths.scale_of(&written.object.to_value(&served.stored));
        Ok((scale_of_new, scale.warnings))
    }

    /// Sets the finalizers of a namespace, and lets it go if none is left.
    ///
    /// # Errors
    ///
    /// The answer, if the request is refused.
    pub fn finalize(
        &self,
        target: &Target,
        body: &Value,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        let version = body["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default();
        self.modify(target, options, &|live| {
            let mut changed = live.clone();
            changed["spec"]["finalizers"] = match &body["spec"]["finalizers"] {
                Value::Array(finalizers) => finalizers.clone().into(),
                _ => json!([]),
            };
            if !version.is_empty() {
                changed["metadata"]["resourceVersion"] = version.into();
            }
            Ok((changed, Vec::new()))
        })
    }
}

enum NotCharged {
    Raced,
    Refused(Box<Status>),
}

impl From<Status> for NotCharged {
    fn from(status: Status) -> Self {
        Self::Refused(Box::new(status))
    }
}

/// A body that is about an object must name the one that the path names.
fn check_named_as(target: &Target, body: &Value, kind: &str) -> Result<(), Status> {
    let name = body["metadata"]["name"].as_str().unwrap_or_default();
    match name == target.name {
        true => Ok(()),
        false => Err(Status::bad_request(format!(
            "name in URL does not match name in {kind} object"
        ))),
    }
}

/// Whether a binding names a node. Upstream answers what is wrong as it would a fault of its own.
fn check_binding(binding: &Value) -> Result<(), Status> {
    let target = &binding["target"];
    let kind = target["kind"].as_str().unwrap_or_default();
    let is_of_node = matches!(kind, "" | "Node");
    let has_name = target["name"].as_str().is_some_and(|it| !it.is_empty());
    let of_kind = || FieldError::not_supported("target.kind", kind, &["Node", "<empty>"]);
    let of_name = || FieldError::required("target.name", "");
    let errors = (!is_of_node).then(of_kind).into_iter();
    let errors = errors.chain((!has_name).then(of_name));
    let texts: Vec<String> = errors.map(|error| error.to_string()).collect();
    match texts.is_empty() {
        true => Ok(()),
        false => Err(Status {
            code: 500,
            reason: None,
            ..Status::bad_request(joined_errors(&texts))
        }),
    }
}

/// Whether a pod is the one that the binding means, and can be given a node.
fn check_bindable(target: &Target, binding: &Value, live: &Value) -> Result<(), Status> {
    let (name, metadata) = (target.name.as_str(), &live["metadata"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for (field, called) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let [given, found] = [&binding["metadata"], metadata].map(|it| text(&it[field]));
        if !given.is_empty() && given != found {
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: /registry/pods/{}/{name}, \
                 ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {called} in \
                 precondition: {given}, {called} in object meta: {found}",
                target.namespace
            );
            return Err(Status::conflict(ObjectKind::Pod.resource(), name, why));
        }
    }
    let has_node = text(&live["spec"]["nodeName"]);
    let gates = live["spec"]["schedulingGates"].as_array();
    let obstacle = if metadata["deletionTimestamp"].is_string() {
        format!("pod {name} is being deleted, cannot be assigned to a host")
    } else if !has_node.is_empty() {
        let node = quoted(&has_node);
        format!("pod {name} is already assigned to node {node}")
    } else if gates.is_some_and(|it| !it.is_empty()) {
        format!("pod {name} has non-empty .spec.schedulingGates")
    } else {
        return Ok(());
    };
    let bindings = Qualified {
        group: "",
        name: "pods/binding",
    };
    Err(Status::conflict(bindings, name, obstacle))
}

fn refused_eviction(denial: &Denial) -> Status {
    let refusal = &denial.refusal;
    let status = match (refusal.code, &denial.budget) {
        (403, Some(budget)) => {
            let budgets = Qualified {
                group: "policy",
                name: "poddisruptionbudget",
            };
            Status::forbidden(budgets, budget, "")
        }
        (429, _) => Status {
            reason: Some(Reason::TooManyRequests),
            details: Some(Box::new(StatusDetails {
                causes: refusal.causes.clone(),
                retry_after_seconds: denial.retry_after_seconds,
                ..StatusDetails::default()
            })),
            ..Status::bad_request("")
        },
        _ => Status {
            reason: None,
            ..Status::bad_request("")
        },
    };
    Status {
        code: refusal.code,
        message: refusal.message.clone(),
        ..status
    }
}

/// Whether a scale may take the place of that of an object.
fn check_scale(target: &Target, new: &Value, live: &Value) -> Result<(), Status> {
    let replicas = new["spec"]["replicas"].as_i64().unwrap_or(0);
    if replicas < 0 {
        let rule = "must be greater than or equal to 0";
        let error = FieldError::invalid("spec.replicas", replicas, rule);
        let kind = resource_type::scale().qualified();
        return Err(Status::invalid(kind, &target.name, &[error]));
    }
    let version = new["metadata"]["resourceVersion"].as_str();
    let version = version.filter(|it| !it.is_empty());
    if version.is_some_and(|it| live["metadata"]["resourceVersion"] != json!(it)) {
        let resource = target.served.resource.resource();
        return Err(Status::modified_since(resource, &target.name));
    }
    Ok(())
}

/// A scale that has a name has that of its object.
fn check_scale_name(target: &Target, scale: &Value) -> Result<(), Status> {
    let metadata = ObjectMeta {
        name: match scale["metadata"]["name"].as_str() {
            None | Some("") => target.name.clone(),
            Some(name) => name.to_owned(),
        },
        ..ObjectMeta::default()
    };
    metadata::check_name(&metadata, &target.name)
}

/// Where the numbers of a scale are in an object.
struct ScalePaths {
    wanted: String,
    has: String,
    selector: String,
}

impl ScalePaths {
    fn of(target: &Target) -> Option<Self> {
        let stored = &target.served.stored;
        if let Some(definition) = &target.served.definition {
            let versions = definition["spec"]["versions"].as_array()?.iter();
            let mut own = versions.filter(|it| it["name"] == json!(target.served.resource.version));
            let scale = &own.next()?["subresources"]["scale"];
            let pointer = |field: &str| scale[field].as_str().map(|it| it.replace('.', "/"));
            return Some(Self {
                wanted: pointer("specReplicasPath")?,
                has: pointer("statusReplicasPath")?,
                selector: pointer("labelSelectorPath").unwrap_or_default(),
            });
        }
        let is_scaled = SCALED.contains(&(stored.plural.as_str(), stored.group.as_str()));
        is_scaled.then(|| Self {
            wanted: "/spec/replicas".to_owned(),
            has: "/status/replicas".to_owned(),
            selector: "/spec/selector".to_owned(),
        })
    }

    /// What a configuration of a scale says of the object that is scaled.
    fn configuration_of(&self, target: &Target, scale: &Value) -> Value {
        let resource = &target.served.resource;
        let mut configuration = json!({"apiVersion": resource.api_version(),
            "kind": resource.kind, "metadata": {"name": target.name}});
        if let Some(replicas) = scale.pointer("/spec/replicas") {
            set_pointer(&mut configuration, &self.wanted, replicas.clone());
        }
        configuration
    }

    fn scale_of(&self, object: &Value) -> Value {
        let metadata = &object["metadata"];
        let mut own = serde_json::Map::new();
        for field in [
            "name",
            "namespace",
            "uid",
            "resourceVersion",
            "creationTimestamp",
        ] {
            if let Some(value) = metadata.get(field) {
                own.insert(field.to_owned(), value.clone());
            }
        }
        let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64);
        let mut spec = json!({});
        if let Some(wanted) = number(&self.wanted).filter(|it| *it != 0) {
            spec["replicas"] = wanted.into();
        }
        let mut status = json!({"replicas": number(&self.has).unwrap_or(0)});
        let selector = selector_text(object.pointer(&self.selector));
        if !selector.is_empty() {
            status["selector"] = selector.into();
        }
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": own,
            "spec": spec, "status": status})
    }
}

/// A selector of any form as text.
fn selector_text(selector: Option<&Value>) -> String {
    match selector {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Object(fields))
            if fields.contains_key("matchLabels") || fields.contains_key("matchExpressions") =>
        {
            let selector = serde_json::from_value(Value::Object(fields.clone())).ok();
            let selector = outrank_api::labels::Selector::from_label_selector(selector.as_ref());
            selector.map_or_else(|_| String::new(), |it| it.to_string())
        }
        Some(Value::Object(labels)) => {
            let pairs = labels.iter();
            let pairs =
                pairs.filter_map(|(name, value)| Some(format!("{name}={}", value.as_str()?)));
            pairs.collect::<Vec<_>>().join(",")
        }
        _ => String::new(),
    }
}

/// Sets a value at a pointer, making the objects on the way.
fn set_pointer(object: &mut Value, pointer: &str, value: Value) {
    let mut place = object;
    for part in pointer.split('/').skip(1) {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[part];
    }
    *place = value;
}

/// Puts a condition in the place of the one of its type. Its time is that of the last change of
/// its status.
fn set_condition(object: &mut Value, mut condition: Value) {
    if !object["status"].is_object() {
        object["status"] = json!({});
    }
    let status = &mut object["status"];
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Value::Array(conditions) = &mut status["conditions"] else {
        return;
    };
    if let Value::Object(fields) = &mut condition {
        fields.retain(|_, value| !value.is_null());
    }
    match conditions
        .iter_mut()
        .find(|it| it["type"] == condition["type"])
    {
        Some(old) => {
            if old["status"] == condition["status"] && old["lastTransitionTime"].is_string() {
                condition["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            *old = condition;
        }
        None => conditions.push(condition),
    }
}

/// What is left to say of a pod that was evicted.
pub fn evicted() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
}

/// The entry of what came of a deletion.
pub fn deleted_entry(deleted: &Deleted) -> &Entry<StoredObject> {
    match deleted {
        Deleted::Gone(entry) | Deleted::Going(entry) => entry,
    }
}
