//! What the API server warns of though it takes it, for Warning headers.
//!
//! Sources: `pkg/api/pod/warnings.go`, `pkg/api/node/util.go`,
//! `pkg/api/persistentvolumeclaim/util.go`, `pkg/api/storage/util.go` and the strategies in
//! `pkg/registry`, Kubernetes 1.36.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use super::container::LISTS;
use super::errors::dns_label;
use crate::diagnostic::{FieldPath, Here};
use crate::fields_of::{FieldsOf, quantity_of};
use crate::resource_type::ResourceType;

/// Something that may not be meant so.
#[derive(Debug)]
pub(crate) struct Warning {
    /// The field.
    pub(crate) path: FieldPath,
    /// What is strange.
    pub(crate) text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.text)
    }
}

#[derive(Default)]
struct Warnings(Vec<Warning>);

impl Warnings {
    fn add(&mut self, here: &Here<'_>, text: impl Into<String>) {
        self.0.push(Warning {
            path: here.path(),
            text: text.into(),
        });
    }
}

/// What the client is warned of when it makes an object, in the order of the API server.
///
/// ```
/// use outrank_api::decode::ObjectKind;
/// use outrank_api::validation::warnings;
/// use serde_json::json;
///
/// let variable = json!({"name": "A", "value": "1"});
/// let container = json!({"name": "c", "env": [variable, variable]});
/// let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [container]}});
/// assert_eq!(
///     warnings(ObjectKind::Pod.into(), &pod),
///     ["spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped \
///       when using apply"],
/// );
/// ```
pub fn warnings(resource: &ResourceType, object: &Value) -> Vec<String> {
    let mut texts = Vec::new();
    let metadata = object.part("metadata").unwrap_or(&Value::Null);
    if resource.type_name == Some("Pod") {
        let broken = dns_label(metadata.text("name"));
        if !broken.is_empty() {
            texts.push(format!(
                "metadata.name: this is used in the Pod's hostname, which can result in \
                 surprising behavior; a DNS label is recommended: [{}]",
                broken.join(" ")
            ));
        }
    }
    texts.extend(of_names(resource, metadata.text("name")));
    let found = of_pods(resource, object);
    texts.extend(found.iter().map(Warning::to_string));
    texts
}

/// What the client is warned of when it changes an object. Of a workload nothing is said again
/// unless its template has changed.
pub fn update_warnings(resource: &ResourceType, new: &Value, old: &Value) -> Vec<String> {
    let template = |object: &Value| {
        let (template, _) = template_of(resource.type_name?, object)?;
        Some(template.clone())
    };
    if resource.type_name == Some("Pod") || template(new) == template(old) {
        return Vec::new();
    }
    let found = of_pods(resource, new);
    found.iter().map(Warning::to_string).collect()
}

/// Names of controllers become labels and host names of pods.
fn of_names(resource: &ResourceType, name: &str) -> Option<String> {
    let broken = dns_label(name);
    let kind = resource.type_name?;
    if !matches!(kind, "Deployment" | "ReplicaSet" | "Job" | "CronJob") || broken.is_empty() {
        return None;
    }
    Some(format!(
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising \
         behavior; a DNS label is recommended: [{}]",
        broken.join(" ")
    ))
}

/// The template of a workload's pods, and the names of the fields that lead to it.
fn template_of<'o>(
    type_name: &str,
    object: &'o Value,
) -> Option<(&'o Value, &'static [&'static str])> {
    let steps: &[&str] = match type_name {
        "Deployment"
        | "ReplicaSet"
        | "DaemonSet"
        | "StatefulSet"
        | "Job"
        | "ReplicationController" => &["spec", "template"],
        "CronJob" => &["spec", "jobTemplate", "spec", "template"],
        "PodTemplate" => &["template"],
        _ => return None,
    };
    let template = steps
        .iter()
        .try_fold(object, |value, step| value.part(step))?;
    Some((template, steps))
}

/// What is strange about a pod, or about the pods that are to be made.
pub(crate) fn of_pods(resource: &ResourceType, object: &Value) -> Vec<Warning> {
    let mut warnings = Warnings::default();
    let type_name = resource.type_name.unwrap_or_default();
    if type_name == "Pod" {
        pod(object, &Here::OBJECT, &mut warnings);
    } else if let Some((template, steps)) = template_of(type_name, object) {
        below(steps, &Here::OBJECT, &mut |here| {
            pod(template, here, &mut warnings)
        });
    }
    warnings.0
}

/// Does something where some steps lead to.
fn below(steps: &[&str], here: &Here<'_>, act: &mut dyn FnMut(&Here<'_>)) {
    match steps.split_first() {
        None => act(here),
        Some((step, rest)) => below(rest, &here.field(step), act),
    }
}

fn pod(pod: &Value, here: &Here<'_>, warnings: &mut Warnings) {
    let spec = pod.part("spec").unwrap_or(&Value::Null);
    let spec_here = here.field("spec");
    node_labels(spec, &spec_here, warnings);
    annotations(pod, here, warnings);
    volumes(spec, &spec_here, warnings);
    duplicates(spec, "hostAliases", "ip", &spec_here, warnings);
    duplicates(spec, "imagePullSecrets", "name", &spec_here, warnings);
    let secrets = spec_here.field("imagePullSecrets");
    for (index, secret) in spec.list("imagePullSecrets").iter().enumerate() {
        if secret.text("name").is_empty() {
            let here = secrets.index(index);
            warnings.add(&here.field("name"), "invalid empty name \"\"");
        }
    }
    fractions(
        spec,
        "overhead",
        &["memory", "ephemeral-storage"],
        &spec_here,
        warnings,
    );
    for list in LISTS {
        let list_here = spec_here.field(list);
        for (index, container) in spec.list(list).iter().enumerate() {
            let here = list_here.index(index);
            let resources = container.part("resources").unwrap_or(&Value::Null);
            let resources_here = here.field("resources");
            for resource in ["memory", "ephemeral-storage"] {
                for side in ["limits", "requests"] {
                    fractions(resources, side, &[resource], &resources_here, warnings);
                }
            }
            variables(container, &here.field("env"), warnings);
        }
    }
    ports(spec, &spec_here, warnings);
    affinities(spec, &spec_here, warnings);
}

/// Labels of nodes that have other names today.
const OLD_LABELS: [(&str, &str); 5] = [
    (
        "beta.kubernetes.io/arch",
        "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
    (
        "beta.kubernetes.io/os",
        "deprecated since v1.14; use \"kubernetes.io/os\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
];

fn old_label(key: &str) -> Option<&'static str> {
    let mut labels = OLD_LABELS.iter();
    labels.find(|(old, _)| *old == key).map(|(_, text)| *text)
}

fn node_labels(spec: &Value, here: &Here<'_>, warnings: &mut Warnings) {
    let selector = here.field("nodeSelector");
    for (key, _) in spec.entries("nodeSelector") {
        if let Some(text) = old_label(key) {
            warnings.add(&selector.key(key), text);
        }
    }
    let affinity = spec
        .pointer("/affinity/nodeAffinity")
        .unwrap_or(&Value::Null);
    let affinity_here = here.field("affinity");
    let affinity_here = affinity_here.field("nodeAffinity");
    let required_here = affinity_here.field("requiredDuringSchedulingIgnoredDuringExecution");
    let terms_here = required_here.field("nodeSelectorTerms");
    let required = affinity.part("requiredDuringSchedulingIgnoredDuringExecution");
    let terms = required.map_or(&[][..], |it| it.list("nodeSelectorTerms"));
    for (index, term) in terms.iter().enumerate() {
        old_keys(term, &terms_here.index(index), warnings);
    }
    let preferred = affinity_here.field("preferredDuringSchedulingIgnoredDuringExecution");
    let terms = affinity.list("preferredDuringSchedulingIgnoredDuringExecution");
    for (index, term) in terms.iter().enumerate() {
        let here = preferred.index(index);
        let term = term.part("preference").unwrap_or(&Value::Null);
        old_keys(term, &here.field("preference"), warnings);
    }
    let spread = here.field("topologySpreadConstraints");
    for (index, constraint) in spec.list("topologySpreadConstraints").iter().enumerate() {
        let here = spread.index(index);
        let key = constraint.text("topologyKey");
        if let Some(text) = old_label(key) {
            warnings.add(&here.field("topologyKey"), format!("{key} is {text}"));
        }
        if constraint.part("labelSelector").is_none() {
            warnings.add(&here.field("labelSelector"), NO_SELECTOR);
        }
    }
}

const NO_SELECTOR: &str = "a null labelSelector results in matching no pod";

fn old_keys(term: &Value, here: &Here<'_>, warnings: &mut Warnings) {
    let expressions = here.field("matchExpressions");
    for (index, requirement) in term.list("matchExpressions").iter().enumerate() {
        let key = requirement.text("key");
        if let Some(text) = old_label(key) {
            let here = expressions.index(index);
            warnings.add(&here.field("key"), format!("{key} is {text}"));
        }
    }
}

/// Annotations that do nothing any more.
const OLD_ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];

fn annotations(pod: &Value, here: &Here<'_>, warnings: &mut Warnings) {
    let metadata = pod.part("metadata").unwrap_or(&Value::Null);
    let annotations = metadata.part("annotations").unwrap_or(&Value::Null);
    let metadata_here = here.field("metadata");
    let here = metadata_here.field("annotations");
    for (key, text) in OLD_ANNOTATIONS {
        if annotations.part(key).is_some() {
            warnings.add(&here.key(key), text);
        }
    }
    let spec = pod.part("spec").unwrap_or(&Value::Null);
    let has_profile = |holder: &Value| {
        let context = holder.part("securityContext");
        context.is_some_and(|context| context.part("seccompProfile").is_some())
    };
    let text = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
    let key = "seccomp.security.alpha.kubernetes.io/pod";
    if annotations.part(key).is_some() && !has_profile(spec) {
        warnings.add(&here.key(key), text);
    }
    for container in LISTS.into_iter().flat_map(|list| spec.list(list)) {
        let name = container.text("name");
        let key = format!("container.seccomp.security.alpha.kubernetes.io/{name}");
        if annotations.part(&key).is_some() && !has_profile(container) {
            warnings.add(&here.key(&key), text);
        }
    }
}

/// Sources of volumes that do nothing any more, or soon.
const OLD_VOLUMES: [(&str, &str, &str); 9] = [
    (
        "photonPersistentDisk",
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    (
        "gitRepo",
        "gitRepo",
        "deprecated in v1.11, and disabled by default in v1.33+",
    ),
    (
        "scaleIO",
        "scaleIO",
        "deprecated in v1.16, non-functional in v1.22+",
    ),
    (
        "flocker",
        "flocker",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "storageos",
        "storageOS",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "quobyte",
        "quobyte",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "glusterfs",
        "glusterfs",
        "deprecated in v1.25, non-functional in v1.26+",
    ),
    (
        "cephfs",
        "cephfs",
        "deprecated in v1.28, non-functional in v1.31+",
    ),
    (
        "rbd",
        "rbd",
        "deprecated in v1.28, non-functional in v1.31+",
    ),
];

fn volumes(spec: &Value, here: &Here<'_>, warnings: &mut Warnings) {
    let volumes = here.field("volumes");
    for (index, volume) in spec.list("volumes").iter().enumerate() {
        let here = volumes.index(index);
        for (field, shown, text) in OLD_VOLUMES {
            if volume.part(field).is_some() {
                warnings.add(&here.field(shown), text);
            }
        }
    }
}

fn duplicates(spec: &Value, list: &str, field: &str, here: &Here<'_>, warnings: &mut Warnings) {
    let here = here.field(list);
    let mut seen = BTreeSet::new();
    for (index, element) in spec.list(list).iter().enumerate() {
        let text = element.text(field);
        if !seen.insert(text) {
            let here = here.index(index);
            warnings.add(&here.field(field), format!("duplicate {field} {text:?}"));
        }
    }
}

/// Amounts of bytes that are not whole.
fn fractions(
    object: &Value,
    field: &str,
    resources: &[&str],
    here: &Here<'_>,
    warnings: &mut Warnings,
) {
    let amounts = object.part(field).unwrap_or(&Value::Null);
    let here = here.field(field);
    for resource in resources {
        let amount = amounts.part(resource).and_then(quantity_of);
        if let Some(amount) = amount.filter(|amount| amount.milli_value() % 1000 != 0) {
            let text = format!("fractional byte value \"{amount}\" is invalid, must be an integer");
            warnings.add(&here.key(resource), text);
        }
    }
}

/// Variables that stand twice, unless the second is made of the first.
fn variables(container: &Value, here: &Here<'_>, warnings: &mut Warnings) {
    let mut seen = BTreeSet::new();
    for (index, variable) in container.list("env").iter().enumerate() {
        let (name, value) = (variable.text("name"), variable.text("value"));
        if seen.insert(name) {
            continue;
        }
        let reference = format!("$({name})");
        let is_made_of_it = value.contains(&reference) && value != reference;
        if variable.part("valueFrom").is_some() || !is_made_of_it {
            let text = format!(
                "hides previous definition of {name:?}, which may be dropped when using apply"
            );
            warnings.add(&here.index(index), text);
        }
    }
}

/// With how many earlier ports of the same number one is compared, so that a pod full of them
/// does not cost its square. Nobody has that many by mistake.
const COMPARED_PORTS_MAX: usize = 16;

/// Ports of all containers that are the same, or in each other's way.
fn ports(spec: &Value, here: &Here<'_>, warnings: &mut Warnings) {
    let mut all: BTreeMap<(i64, &str), Vec<(FieldPath, &Value)>> = BTreeMap::new();
    for list in LISTS {
        let list_here = here.field(list);
        for (index, container) in spec.list(list).iter().enumerate() {
            let container_here = list_here.index(index);
            let ports_here = container_here.field("ports");
            for (index, port) in container.list("ports").iter().enumerate() {
                let here = ports_here.index(index);
                // A port without a number is wrong already.
                let Some(number) = port.number("containerPort").filter(|it| *it != 0) else {
                    continue;
                };
                let others = all.entry((number, port.text("protocol"))).or_default();
                for (other_path, other) in others.iter() {
                    if let Some(how) = conflict(port, other) {
                        warnings.add(&here, format!("{how} port definition with {other_path}"));
                    }
                }
                if others.len() < COMPARED_PORTS_MAX {
                    others.push((here.path(), port));
                }
            }
        }
    }
}

fn conflict(port: &Value, other: &Value) -> Option<&'static str> {
    let host = |port: &Value| port.number("hostPort").unwrap_or(0);
    let (ip, other_ip) = (port.text("hostIP"), other.text("hostIP"));
    if ip == other_ip && host(port) == host(other) {
        Some("duplicate")
    } else if host(port) == 0 || host(other) == 0 {
        Some("overlapping")
    } else if host(port) == host(other) && ip.is_empty() != other_ip.is_empty() {
        Some("dangerously ambiguous")
    } else {
        None
    }
}

/// Terms of affinity that select no pod.
fn affinities(spec: &Value, here: &Here<'_>, warnings: &mut Warnings) {
    let affinity = spec.part("affinity").unwrap_or(&Value::Null);
    let affinity_here = here.field("affinity");
    for field in ["podAffinity", "podAntiAffinity"] {
        let terms = affinity.part(field).unwrap_or(&Value::Null);
        let here = affinity_here.field(field);
        let list = "requiredDuringSchedulingIgnoredDuringExecution";
        let required = here.field(list);
        for (index, term) in terms.list(list).iter().enumerate() {
            no_selector(term, &required.index(index), warnings);
        }
        let list = "preferredDuringSchedulingIgnoredDuringExecution";
        let preferred = here.field(list);
        for (index, weighted) in terms.list(list).iter().enumerate() {
            let term = weighted.part("podAffinityTerm").unwrap_or(&Value::Null);
            let here = preferred.index(index);
            no_selector(term, &here.field("podAffinityTerm"), warnings);
        }
    }
}

fn no_selector(term: &Value, here: &Here<'_>, warnings: &mut Warnings) {
    if term.part("labelSelector").is_none() {
        warnings.add(&here.field("labelSelector"), NO_SELECTOR);
    }
}
