//! What may become of a pod: little, once it is there.
//!
//! Images may change, a deadline may come nearer, tolerations may be added, and while a pod is
//! held by scheduling gates it may be told more closely where to go. Source: `ValidatePodUpdate`
//! and its kin in `pkg/apis/core/validation/validation.go`, Kubernetes 1.36.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::affinity::tolerations;
use super::errors::{Errors, between};
use super::pod::stored_pod;
use super::selector::is_empty;
use crate::diagnostic::Here;
use crate::fields_of::{FieldsOf, quantity_of};

const OTHER_FIELDS: &str = "pod updates may not change fields other than \
    `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
    `spec.tolerations` (only additions to existing tolerations),\
    `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

const LISTS: [&str; 2] = ["containers", "initContainers"];
const NODE_AFFINITY: &str = "nodeAffinity";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Checks a pod that comes in the place of another one, beyond what holds for every pod.
pub(super) fn pod_changes(new: &Value, old: &Value, errors: &mut Errors) {
    let here = Here::OBJECT.field("spec");
    let new = new.part("spec").unwrap_or(&Value::Null);
    let old = old.part("spec").unwrap_or(&Value::Null);
    for list in LISTS {
        if !same_containers(new, old, list, &here, errors) {
            return;
        }
    }
    if !deadline(new, old, &here, errors) {
        return;
    }
    added_tolerations(new, old, &here.field("tolerations"), errors);
    removed_gates(new, old, &here.field("schedulingGates"), errors);
    if new == old {
        return;
    }
    let mut wanted = new.clone();
    take_over(&mut wanted, old);
    if !old.list("schedulingGates").is_empty() {
        narrower_nodes(&mut wanted, old, &here, errors);
    }
    if wanted != *old {
        let difference = difference(old, &wanted);
        errors.forbidden(&here, format!("{OTHER_FIELDS}\n{difference}"));
    }
}

/// Whether there are as many containers as before; if so their images are looked at.
fn same_containers(
    new: &Value,
    old: &Value,
    list: &str,
    here: &Here<'_>,
    errors: &mut Errors,
) -> bool {
    let here = here.field(list);
    let containers = new.list(list);
    if containers.len() != old.list(list).len() {
        errors.forbidden(&here, "pod updates may not add or remove containers");
        return false;
    }
    for (index, container) in containers.iter().enumerate() {
        let here = here.index(index);
        if container.text("image").is_empty() {
            errors.required(&here.field("image"), "");
        }
        super::container::image_without_padding(container, &here, errors);
    }
    true
}

/// Whether the deadline is one that the rest is looked at with.
fn deadline(new: &Value, old: &Value, here: &Here<'_>, errors: &mut Errors) -> bool {
    const FIELD: &str = "activeDeadlineSeconds";
    let here = here.field(FIELD);
    let (new, old) = (new.number(FIELD), old.number(FIELD));
    match (new, old) {
        (Some(new), _) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            errors.invalid(&here, new, between(0, i32::MAX.into()));
            false
        }
        (Some(new), Some(old)) if old < new => {
            errors.invalid(&here, new, "must be less than or equal to previous value");
            false
        }
        (None, Some(_)) => {
            let rule = "must not update from a positive integer to nil value";
            errors.invalid(&here, &Value::Null, rule);
            true
        }
        _ => true,
    }
}

fn added_tolerations(new: &Value, old: &Value, here: &Here<'_>, errors: &mut Errors) {
    let bare = |toleration: &Value| {
        let mut bare = toleration.clone();
        if let Value::Object(fields) = &mut bare {
            fields.remove("tolerationSeconds");
        }
        bare
    };
    let text = |toleration: &Value| bare(toleration).to_string();
    let kept: BTreeSet<String> = new.list("tolerations").iter().map(text).collect();
    let is_gone = |toleration: &Value| !kept.contains(&text(toleration));
    if old.list("tolerations").iter().any(is_gone) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.forbidden(here, detail);
        return;
    }
    tolerations(new.list("tolerations"), here, errors);
}

fn removed_gates(new: &Value, old: &Value, here: &Here<'_>, errors: &mut Errors) {
    let old = old.list("schedulingGates").iter();
    let old: BTreeSet<&str> = old.map(|it| it.text("name")).collect();
    for (index, gate) in new.list("schedulingGates").iter().enumerate() {
        let name = gate.text("name");
        if !old.contains(name) {
            let here = here.index(index);
            let detail =
                format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.forbidden(&here.field("name"), detail);
        }
    }
}

/// Puts back what may change, so that only what may not is left to differ.
fn take_over(wanted: &mut Value, old: &Value) {
    for list in LISTS {
        let containers = wanted.get_mut(list).and_then(Value::as_array_mut);
        let pairs = containers.into_iter().flatten().zip(old.list(list));
        for (container, before) in pairs {
            put_back(container, before, "image");
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        put_back(wanted, old, field);
    }
    let grace = |spec: &Value| spec.number("terminationGracePeriodSeconds");
    if grace(old).is_some_and(|seconds| seconds < 0) && grace(wanted) == Some(1) {
        put_back(wanted, old, "terminationGracePeriodSeconds");
    }
}

fn put_back(object: &mut Value, old: &Value, field: &str) {
    if let Value::Object(fields) = object {
        match old.part(field) {
            Some(value) => drop(fields.insert(field.to_owned(), value.clone())),
            None => drop(fields.remove(field)),
        }
    }
}

/// Whether a pod that is held is told more closely where to go; if so that is put back.
fn narrower_nodes(wanted: &mut Value, old: &Value, here: &Here<'_>, errors: &mut Errors) {
    if wanted.part("nodeSelector") != old.part("nodeSelector") {
        let wanted = wanted.part("nodeSelector").unwrap_or(&Value::Null);
        let is_kept = |(key, value): (&str, &Value)| wanted.part(key) == Some(value);
        if !old.entries("nodeSelector").all(is_kept) {
            let rule = "only additions are allowed (no mutations or deletions)";
            errors.invalid(&here.field("nodeSelector"), wanted, rule);
        }
    }
    put_back(wanted, old, "nodeSelector");
    let affinity_of = |spec: &Value| {
        let affinity = spec.part("affinity")?;
        affinity.part(NODE_AFFINITY).cloned()
    };
    let (new_affinity, old_affinity) = (affinity_of(wanted), affinity_of(old));
    if new_affinity == old_affinity {
        return;
    }
    let affinity_here = here.field("affinity");
    let here = affinity_here.field(NODE_AFFINITY);
    let new_affinity = new_affinity.unwrap_or_default();
    narrower_affinity(
        &new_affinity,
        &old_affinity.clone().unwrap_or_default(),
        &here,
        errors,
    );
    let Value::Object(fields) = wanted else {
        return;
    };
    let affinity = fields
        .entry("affinity")
        .or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(affinity) = affinity {
        match old_affinity {
            Some(old) => drop(affinity.insert(NODE_AFFINITY.to_owned(), old)),
            None => drop(affinity.remove(NODE_AFFINITY)),
        }
        if affinity.is_empty() && old.part("affinity").is_none() {
            fields.remove("affinity");
        }
    }
}

fn narrower_affinity(new: &Value, old: &Value, here: &Here<'_>, errors: &mut Errors) {
    let here = here.field(REQUIRED);
    let here = here.field("nodeSelectorTerms");
    let terms = |affinity: &Value| -> Vec<Value> {
        let required = affinity.part(REQUIRED);
        required.map_or(Vec::new(), |it| it.list("nodeSelectorTerms").to_vec())
    };
    let (new_terms, old_terms) = (terms(new), terms(old));
    if old.part(REQUIRED).is_none() || old_terms.is_empty() {
        return;
    }
    if new_terms.len() != old_terms.len() {
        let value = Value::Array(new_terms);
        let rule = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        errors.invalid(&here, &value, rule);
        return;
    }
    for (index, (new, old)) in new_terms.iter().zip(&old_terms).enumerate() {
        let grows = |field: &str| {
            let kept = new.list(field).get(..old.list(field).len());
            kept == Some(old.list(field))
        };
        let old_is_empty = is_empty(old) && old.list("matchFields").is_empty();
        let is_narrower = match old_is_empty {
            true => new == old,
            false => grows("matchExpressions") && grows("matchFields"),
        };
        if !is_narrower {
            let rule = "only additions are allowed (no mutations or deletions)";
            errors.invalid(&here.index(index), new, rule);
        }
    }
}

/// The fields of a pod's spec in the order in which upstream has them.
const FIELD_ORDER: [&str; 41] = [
    "volumes",
    "initContainers",
    "containers",
    "ephemeralContainers",
    "restartPolicy",
    "terminationGracePeriodSeconds",
    "activeDeadlineSeconds",
    "dnsPolicy",
    "nodeSelector",
    "serviceAccountName",
    "automountServiceAccountToken",
    "nodeName",
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "shareProcessNamespace",
    "hostUsers",
    "securityContext",
    "imagePullSecrets",
    "hostname",
    "subdomain",
    "setHostnameAsFQDN",
    "affinity",
    "schedulerName",
    "tolerations",
    "hostAliases",
    "priorityClassName",
    "priority",
    "preemptionPolicy",
    "dnsConfig",
    "readinessGates",
    "runtimeClassName",
    "overhead",
    "enableServiceLinks",
    "topologySpreadConstraints",
    "os",
    "schedulingGates",
    "resourceClaims",
    "resources",
    "hostnameOverride",
    "schedulingGroup",
];

/// The difference of two specs as people read it: lines of JSON with `-` and `+`, and three
/// lines around each change.
fn difference(old: &Value, new: &Value) -> String {
    let (old, new) = (spec_lines(old), spec_lines(new));
    lines_that_differ(&old, &new)
}

/// The lines of a spec, its fields called as in upstream's code.
fn spec_lines(spec: &Value) -> Vec<String> {
    let mut lines = vec!["{".to_owned()];
    for field in FIELD_ORDER {
        let (first, rest) = field.split_at(1);
        let name = format!("{}{rest}", first.to_ascii_uppercase());
        let name = name.replacen("Dns", "DNS", 1);
        let value = spec.part(field).unwrap_or(&Value::Null);
        let json = serde_json::to_string_pretty(value).unwrap_or_default();
        let mut json = json.lines().map(|line| {
            let inner = line.trim_start();
            format!("{}{inner}", " ".repeat((line.len() - inner.len()) / 2 + 1))
        });
        let start = json.next().unwrap_or_default();
        lines.push(format!(" \"{name}\": {}", start.trim_start()));
        lines.extend(json);
        if let Some(last) = lines.last_mut() {
            last.push(',');
        }
    }
    lines.push("}".to_owned());
    lines
}

/// What is common at both ends is left out, but for three lines.
fn lines_that_differ(old: &[String], new: &[String]) -> String {
    const AROUND: usize = 3;
    let pairs = old.iter().zip(new);
    let start = pairs.take_while(|(old, new)| old == new).count();
    let most = old.len().min(new.len()) - start;
    let ends = old.iter().rev().zip(new.iter().rev());
    let end = ends.take(most).take_while(|(old, new)| old == new).count();
    let before = start.saturating_sub(AROUND);
    let after = end.saturating_sub(AROUND);
    let (old_end, new_end) = (old.len() - after, new.len() - after);
    let mut text = format!(
        "@@ -{},{} +{},{} @@\n",
        before + 1,
        old_end - before,
        before + 1,
        new_end - before
    );
    let mut add = |sign: char, lines: &[String]| {
        for line in lines {
            text.push(sign);
            text.push_str(line);
            text.push('\n');
        }
    };
    add(' ', old.get(before..start).unwrap_or_default());
    add('-', old.get(start..old.len() - end).unwrap_or_default());
    add('+', new.get(start..new.len() - end).unwrap_or_default());
    add(' ', old.get(old.len() - end..old_end).unwrap_or_default());
    text.push('\n');
    text
}

/// Whether a resize of a pod is one: nothing but cpu and memory of its containers changes.
pub(super) fn resize(new: &Value, old: &Value, errors: &mut Errors) {
    let here = Here::OBJECT.field("spec");
    stored_pod(new, errors);
    let new = new.part("spec").unwrap_or(&Value::Null);
    let old = old.part("spec").unwrap_or(&Value::Null);
    let mut wanted = new.clone();
    for list in LISTS {
        let list_here = here.field(list);
        let containers = wanted.get_mut(list).and_then(Value::as_array_mut);
        let pairs = containers.into_iter().flatten().zip(old.list(list));
        for (index, (container, before)) in pairs.enumerate() {
            let list_here = list_here.index(index);
            removed_amounts(container, before, &list_here.field("resources"), errors);
            for side in ["requests", "limits"] {
                put_back_amounts(container, before, side);
            }
        }
    }
    if wanted != *old {
        errors.forbidden(&here, "only cpu and memory resources are mutable");
    }
}

fn removed_amounts(new: &Value, old: &Value, here: &Here<'_>, errors: &mut Errors) {
    for (side, detail) in [
        ("requests", "resource requests cannot be removed"),
        ("limits", "resource limits cannot be removed"),
    ] {
        let amounts = |container: &Value| {
            let resources = container.part("resources");
            resources
                .and_then(|it| it.part(side))
                .cloned()
                .unwrap_or_default()
        };
        let (new, old) = (amounts(new), amounts(old));
        let old = old.as_object().into_iter().flatten();
        let mut names = old.map(|(name, _)| name);
        if names.any(|name| new.part(name).and_then(quantity_of).is_none()) {
            errors.forbidden(&here.field(side), detail);
        }
    }
}

fn put_back_amounts(container: &mut Value, before: &Value, side: &str) {
    let old = before.part("resources").and_then(|it| it.part(side));
    let resources = container
        .get_mut("resources")
        .and_then(Value::as_object_mut);
    let Some(amounts) = resources.and_then(|it| it.get_mut(side)) else {
        return;
    };
    if let Value::Object(amounts) = amounts {
        for name in ["cpu", "memory"] {
            match old.and_then(|it| it.part(name)) {
                Some(amount) => drop(amounts.insert(name.to_owned(), amount.clone())),
                None => drop(amounts.remove(name)),
            }
        }
    }
}
