//! What keeps pods running: Deployments, ReplicaSets, StatefulSets, DaemonSets and
//! ReplicationControllers.
//!
//! Source: `pkg/apis/apps/validation/validation.go`, Kubernetes 1.36.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::errors::{Errors, at_most_all, count_or_percent, dns_subdomain, is_zero_count};
use super::pod::{pod_template, template_metadata};
use super::selector::{compiled, is_empty, label_selector, labels_of, shown};
use super::storage::claim_spec;
use crate::diagnostic::Here;
use crate::field_error::{BadValue, go_json};
use crate::fields_of::FieldsOf;
use crate::labels::Selector;

const NO_MATCH: &str = "`selector` does not match template `labels`";

/// Checks the spec of a Deployment.
pub(super) fn deployment(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    errors.not_negative(spec, "replicas", here);
    selected_replicas(spec, here, errors);
    deployment_strategy(spec, &here.field("strategy"), errors);
    for field in [
        "minReadySeconds",
        "revisionHistoryLimit",
        "progressDeadlineSeconds",
    ] {
        errors.not_negative(spec, field, here);
    }
    let ready_seconds = spec.number("minReadySeconds").unwrap_or(0);
    if let Some(seconds) = spec.number("progressDeadlineSeconds")
        && seconds <= ready_seconds
    {
        let rule = "must be greater than minReadySeconds";
        errors.invalid(&here.field("progressDeadlineSeconds"), seconds, rule);
    }
}

/// Checks the spec of a ReplicaSet.
pub(super) fn replica_set(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    errors.not_negative(spec, "replicas", here);
    errors.not_negative(spec, "minReadySeconds", here);
    selected_replicas(spec, here, errors);
}

/// Checks the selector and the template of a Deployment or ReplicaSet, in words that name only the
/// first.
fn selected_replicas(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    let template = |selector: &Selector, errors: &mut Errors| {
        replica_template(spec, selector, "ReplicaSet", here, errors);
    };
    let empty = "empty selector is invalid for deployment";
    selected(
        spec,
        empty,
        "invalid label selector",
        here,
        errors,
        template,
    );
}

/// Checks a selector, and the template if that can be applied.
fn selected(
    spec: &Value,
    empty: &str,
    invalid: &str,
    here: &Here<'_>,
    errors: &mut Errors,
    check_template: impl FnOnce(&Selector, &mut Errors),
) {
    let selector = spec.part("selector");
    let selector_here = here.field("selector");
    match selector {
        None => errors.required(&selector_here, ""),
        Some(given) => {
            label_selector(spec, "selector", here, errors);
            if is_empty(given) {
                errors.invalid(&selector_here, shown(selector), empty);
            }
        }
    }
    match compiled(selector) {
        None => errors.invalid(&selector_here, shown(selector), invalid),
        Some(selector) => check_template(&selector, errors),
    }
}

fn template_of(spec: &Value) -> &Value {
    spec.part("template").unwrap_or(&Value::Null)
}

/// Whether the selector selects the labels of the template.
fn matches_template(spec: &Value, selector: &Selector, here: &Here<'_>, errors: &mut Errors) {
    let template = template_of(spec);
    if !selector.is_empty() && !selector.matches(&labels_of(template)) {
        let labels = template.pointer("/metadata/labels").unwrap_or(&Value::Null);
        let template_here = here.field("template");
        let here = template_here.field("metadata");
        errors.invalid(&here.field("labels"), labels, NO_MATCH);
    }
}

fn replica_template(
    spec: &Value,
    selector: &Selector,
    kind: &str,
    here: &Here<'_>,
    errors: &mut Errors,
) {
    matches_template(spec, selector, here, errors);
    pod_template(template_of(spec), &here.field("template"), errors);
    runs_for_good(spec, kind, here, errors);
}

/// Pods that are kept running restart always, and have no deadline.
fn runs_for_good(spec: &Value, kind: &str, here: &Here<'_>, errors: &mut Errors) {
    let template_here = here.field("template");
    let here = template_here.field("spec");
    let spec = template_of(spec).part("spec").unwrap_or(&Value::Null);
    let policy = spec.text("restartPolicy");
    errors.word(policy, &["Always"], &here.field("restartPolicy"));
    if spec.part("activeDeadlineSeconds").is_some() {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.forbidden(&here.field("activeDeadlineSeconds"), detail);
    }
}

fn deployment_strategy(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    let strategy = spec.part("strategy").unwrap_or(&Value::Null);
    let rolling = strategy.part("rollingUpdate");
    let rolling_here = here.field("rollingUpdate");
    match (strategy.text("type"), rolling) {
        ("Recreate", Some(_)) => {
            let detail = "may not be specified when strategy `type` is 'Recreate'";
            errors.forbidden(&rolling_here, detail);
        }
        ("Recreate", None) => {}
        ("RollingUpdate", None) => {
            let detail = "this should be defaulted and never be nil";
            errors.required(&rolling_here, detail);
        }
        ("RollingUpdate", Some(rolling)) => {
            let fields = ["maxUnavailable", "maxSurge"];
            let given = fields.map(|field| rolling.part(field));
            for (field, value) in fields.into_iter().zip(given) {
                let value = value.unwrap_or(&Value::Null);
                count_or_percent(value, &rolling_here.field(field), errors);
            }
            let unavailable = given[0].unwrap_or(&Value::Null);
            let here = rolling_here.field("maxUnavailable");
            if given.into_iter().all(is_zero_count) {
                errors.invalid(&here, unavailable, "may not be 0 when `maxSurge` is 0");
            }
            at_most_all(unavailable, &here, errors);
        }
        _ => {
            let shown = go_struct(
                strategy,
                &["type", "rollingUpdate"],
                |field, value| match field {
                    "rollingUpdate" => {
                        let fields = ["maxUnavailable", "maxSurge"];
                        go_struct(value, &fields, |_, value| go_json(value))
                    }
                    _ => go_json(value),
                },
            );
            let supported = ["Recreate", "RollingUpdate"];
            errors.not_supported(here, BadValue::json(shown), &supported);
        }
    }
}

/// An object as Go shows one whose fields have no names in JSON: with those that they have in
/// its code, in their order.
pub(super) fn go_struct(
    object: &Value,
    fields: &[&str],
    show: impl Fn(&str, &Value) -> String,
) -> String {
    let fields = fields.iter().map(|field| {
        let (first, rest) = field.split_at(1);
        let name = format!("{}{rest}", first.to_ascii_uppercase());
        let value = match object.part(field) {
            Some(value) => show(field, value),
            None => "null".to_owned(),
        };
        format!("\"{name}\":{value}")
    });
    let fields: Vec<String> = fields.collect();
    format!("{{{}}}", fields.join(","))
}

/// Checks the spec of a DaemonSet.
pub(super) fn daemon_set(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    let selector = spec.part("selector");
    let selector_here = here.field("selector");
    if selector.is_none() {
        errors.required(&selector_here, "");
    }
    label_selector(spec, "selector", here, errors);
    if let Some(compiled) = compiled(selector) {
        let is_nothing = selector.is_none();
        if is_nothing || !compiled.is_empty() {
            matches_template(spec, &compiled, here, errors);
        }
    }
    if selector.is_some_and(is_empty) {
        let rule = "empty selector is invalid for daemonset";
        errors.invalid(&selector_here, shown(selector), rule);
    }
    pod_template(template_of(spec), &here.field("template"), errors);
    runs_for_good(spec, "DaemonSet", here, errors);
    errors.not_negative(spec, "minReadySeconds", here);
    daemon_strategy(spec, &here.field("updateStrategy"), errors);
    errors.not_negative(spec, "revisionHistoryLimit", here);
}

fn daemon_strategy(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    let strategy = spec.part("updateStrategy").unwrap_or(&Value::Null);
    let rolling_here = here.field("rollingUpdate");
    match (strategy.text("type"), strategy.part("rollingUpdate")) {
        ("OnDelete", _) => {}
        ("RollingUpdate", None) => errors.required(&rolling_here, ""),
        ("RollingUpdate", Some(rolling)) => {
            let fields = ["maxUnavailable", "maxSurge"];
            let [unavailable, surge] = fields.map(|field| rolling.part(field));
            for (field, value) in fields.into_iter().zip([unavailable, surge]) {
                let value = value.unwrap_or(&Value::Null);
                let here = rolling_here.field(field);
                count_or_percent(value, &here, errors);
                at_most_all(value, &here, errors);
            }
            let here = rolling_here.field("maxUnavailable");
            match (is_zero_count(unavailable), is_zero_count(surge)) {
                (false, false) => {
                    let value = surge.unwrap_or(&Value::Null);
                    let rule = "may not be set when maxUnavailable is non-zero";
                    errors.invalid(&rolling_here.field("maxSurge"), value, rule);
                }
                (true, true) => {
                    let detail = "cannot be 0 when maxSurge is 0";
                    errors.required(&here, detail);
                }
                _ => {}
            }
        }
        (kind, _) => {
            let supported = ["RollingUpdate", "OnDelete"];
            errors.not_supported(&here.field("type"), kind, &supported);
        }
    }
}

/// Checks the spec of a StatefulSet. Upstream does not look into its pods' specs, since the
/// volumes that they mount come from the claims; nor is that done here.
pub(super) fn stateful_set(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    match spec.text("podManagementPolicy") {
        "" => errors.required(&here.field("podManagementPolicy"), ""),
        "OrderedReady" | "Parallel" => {}
        policy => {
            let rule = "must be 'OrderedReady' or 'Parallel'";
            errors.invalid(&here.field("podManagementPolicy"), policy, rule);
        }
    }
    stateful_strategy(spec, &here.field("updateStrategy"), errors);
    if let Some(retention) = spec.part("persistentVolumeClaimRetentionPolicy") {
        let here = here.field("persistentVolumeClaimRetentionPolicy");
        for field in ["whenDeleted", "whenScaled"] {
            let word = retention.text(field);
            errors.word(word, &["Retain", "Delete"], &here.field(field));
        }
    }
    errors.not_negative(spec, "replicas", here);
    errors.not_negative(spec, "minReadySeconds", here);
    if let Some(ordinals) = spec.part("ordinals") {
        errors.not_negative(ordinals, "start", &here.field("ordinals"));
    }
    errors.not_negative(spec, "revisionHistoryLimit", here);
    let service = spec.text("serviceName");
    errors.optional_text(dns_subdomain, service, &here.field("serviceName"));
    let template = |selector: &Selector, errors: &mut Errors| {
        matches_template(spec, selector, here, errors);
        template_metadata(template_of(spec), &here.field("template"), errors);
    };
    let empty = "empty selector is invalid for statefulset";
    selected(spec, empty, "", here, errors, template);
    runs_for_good(spec, "StatefulSet", here, errors);
}

fn stateful_strategy(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    let strategy = spec.part("updateStrategy").unwrap_or(&Value::Null);
    let rolling = strategy.part("rollingUpdate");
    let rolling_here = here.field("rollingUpdate");
    match (strategy.text("type"), rolling) {
        ("", _) => errors.required(here, ""),
        ("OnDelete", Some(rolling)) => {
            let fields = ["partition", "maxUnavailable"];
            let shown = go_struct(rolling, &fields, |_, value| go_json(value));
            let rule = "only allowed for updateStrategy 'RollingUpdate'";
            errors.invalid(&rolling_here, BadValue::json(shown), rule);
        }
        ("OnDelete", None) | ("RollingUpdate", None) => {}
        ("RollingUpdate", Some(rolling)) => {
            errors.not_negative(rolling, "partition", &rolling_here);
            if let Some(unavailable) = rolling.part("maxUnavailable") {
                let here = rolling_here.field("maxUnavailable");
                count_or_percent(unavailable, &here, errors);
                if is_zero_count(Some(unavailable)) {
                    errors.invalid(&here, unavailable, "cannot be 0");
                }
                at_most_all(unavailable, &here, errors);
            }
        }
        _ => {
            let value = json!({ "Type": strategy.text("type"), "RollingUpdate": rolling });
            let rule = "must be 'RollingUpdate' or 'OnDelete'";
            errors.invalid(here, &value, rule);
        }
    }
}

/// Checks what the pods of a StatefulSet and its claims say, which the API server leaves to the
/// pods and claims that are made of it.
pub(super) fn stateful_pods(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    let mut template = template_of(spec).clone();
    let claims = spec.list("volumeClaimTemplates");
    if let Some(pod) = template.get_mut("spec").and_then(Value::as_object_mut) {
        let volumes = pod.entry("volumes").or_insert_with(|| json!([]));
        if let Value::Array(volumes) = volumes {
            let names = claims.iter().map(|it| it.pointer("/metadata/name"));
            let names: Vec<&Value> = names.flatten().collect();
            let known: BTreeSet<&str> = names.iter().filter_map(|it| it.as_str()).collect();
            volumes.retain(|volume| !known.contains(volume.text("name")));
            volumes.extend(
                names.into_iter().map(
                    |name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}),
                ),
            );
        }
    }
    pod_template(&template, &here.field("template"), errors);
    let templates = here.field("volumeClaimTemplates");
    let mut names = BTreeSet::new();
    for (index, claim) in claims.iter().enumerate() {
        let here = templates.index(index);
        let metadata = claim.part("metadata").unwrap_or(&Value::Null);
        let metadata_here = here.field("metadata");
        let (name, name_here) = (metadata.text("name"), metadata_here.field("name"));
        errors.required_text(super::errors::dns_label, name, &name_here);
        if !name.is_empty() && !names.insert(name) {
            errors.duplicate(&name_here, name);
        }
        let spec = claim.part("spec").unwrap_or(&Value::Null);
        claim_spec(spec, &here.field("spec"), errors);
    }
}

/// Checks the spec of a ReplicationController.
pub(super) fn replication_controller(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    errors.not_negative(spec, "minReadySeconds", here);
    let labels: crate::types::StringMap = spec
        .entries("selector")
        .map(|(key, value)| {
            let value = value.as_str().unwrap_or_default();
            (key.to_owned(), value.to_owned())
        })
        .collect();
    if labels.is_empty() {
        errors.required(&here.field("selector"), "");
    }
    errors.not_negative(spec, "replicas", here);
    match spec.part("template") {
        None => errors.required(&here.field("template"), ""),
        Some(_) => {
            let selector = Selector::from_set(&labels);
            replica_template(spec, &selector, "ReplicationController", here, errors);
        }
    }
}
