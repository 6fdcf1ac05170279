//! Pods and pod templates.
//!
//! Source: `ValidatePodCreate`, `ValidatePodTemplateSpec` and `ValidatePodSpec` in
//! `pkg/apis/core/validation/validation.go`, Kubernetes 1.36.

use std::collections::BTreeSet;

use serde_json::Value;

use super::affinity::{affinity, spread, tolerations};
use super::container::{
    Surroundings, containers, ephemeral_containers, image_without_padding, init_containers,
};
use super::errors::{Errors, between, dns_label, dns_subdomain, ip};
use super::resources::{Place, requirements};
use super::security::{host_processes, host_users, operating_system, pod_security_context};
use super::volume::volumes;
use crate::defaults::containers_total;
use crate::diagnostic::Here;
use crate::fields_of::{FieldsOf, quantity_of};
use crate::names::label_key_errors;
use crate::types::PodSpec;

/// Checks a new pod beyond its metadata.
pub(super) fn pod(pod: &Value, errors: &mut Errors) {
    stored_pod(pod, errors);
    let here = Here::OBJECT.field("spec");
    let spec = pod.part("spec").unwrap_or(&Value::Null);
    if !spec.list("ephemeralContainers").is_empty() {
        let here = here.field("ephemeralContainers");
        errors.forbidden(&here, "cannot be set on create");
    }
    if !spec.text("nodeName").is_empty() && !spec.list("schedulingGates").is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errors.forbidden(&here.field("nodeName"), detail);
    }
}

/// Checks what holds for pods whenever they are written.
pub(super) fn stored_pod(pod: &Value, errors: &mut Errors) {
    let metadata = pod.part("metadata").unwrap_or(&Value::Null);
    let metadata_here = Here::OBJECT.field("metadata");
    let spec = pod.part("spec").unwrap_or(&Value::Null);
    let here = Here::OBJECT.field("spec");
    pod_annotations(metadata, &metadata_here.field("annotations"), errors);
    pod_spec(spec, Some(metadata.text("name")), &here, errors);
    for list in ["containers", "initContainers"] {
        let here = here.field(list);
        for (index, container) in spec.list(list).iter().enumerate() {
            image_without_padding(container, &here.index(index), errors);
        }
    }
}

/// Checks a template of pods.
pub(super) fn pod_template(template: &Value, here: &Here<'_>, errors: &mut Errors) {
    template_metadata(template, here, errors);
    let spec = template.part("spec").unwrap_or(&Value::Null);
    let spec_here = here.field("spec");
    pod_spec(spec, None, &spec_here, errors);
    if !spec.list("ephemeralContainers").is_empty() {
        let here = spec_here.field("ephemeralContainers");
        errors.forbidden(&here, "ephemeral containers not allowed in pod template");
    }
}

/// Checks the labels and annotations of a template, which are reported without `metadata`.
pub(super) fn template_metadata(template: &Value, here: &Here<'_>, errors: &mut Errors) {
    let metadata = template.part("metadata").unwrap_or(&Value::Null);
    errors.labels(metadata, "labels", here);
    errors.annotations(metadata, "annotations", here);
    pod_annotations(metadata, &here.field("annotations"), errors);
}

/// Annotations whose values the server reads.
fn pod_annotations(metadata: &Value, here: &Here<'_>, errors: &mut Errors) {
    const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
    let annotations = metadata.part("annotations").unwrap_or(&Value::Null);
    if let Some(cost) = annotations.some_text(COST)
        && cost.parse::<i32>().is_err()
    {
        errors.invalid(&here.key(COST), cost, "must be a 32bit integer");
    }
}

/// Checks the spec of a pod, or of a template, which has no name.
pub(super) fn pod_spec(spec: &Value, pod_name: Option<&str>, here: &Here<'_>, errors: &mut Errors) {
    if spec.part("terminationGracePeriodSeconds").is_none() {
        errors.required(&here.field("terminationGracePeriodSeconds"), "");
    }
    let volumes_here = here.field("volumes");
    let name = pod_name.unwrap_or_default();
    let claims = spec.list("resourceClaims").iter();
    let claims = claims.map(|claim| claim.text("name"));
    let around = Surroundings {
        spec,
        volumes: volumes(spec.list("volumes"), name, &volumes_here, errors),
        claims: claims.filter(|name| !name.is_empty()).collect(),
    };
    resource_claims(spec, &here.field("resourceClaims"), errors);
    containers(&around, here, errors);
    init_containers(&around, here, errors);
    ephemeral_containers(&around, here, errors);
    whole_pod_resources(&around, here, errors);
    host_ports(spec, pod_name.is_some(), here, errors);
    policies(spec, here, errors);
    errors.labels(spec, "nodeSelector", here);
    if let Some(context) = spec.part("securityContext") {
        pod_security_context(context, spec, &here.field("securityContext"), errors);
    }
    if let Some(given) = spec.part("affinity") {
        affinity(given, &here.field("affinity"), errors);
    }
    dns_config(spec, &here.field("dnsConfig"), errors);
    gates(spec, here, errors);
    let constraints = spec.list("topologySpreadConstraints");
    spread(
        constraints,
        &here.field("topologySpreadConstraints"),
        errors,
    );
    host_processes(spec, here, errors);
    host_users(spec, here, errors);
    names_and_deadline(spec, here, errors);
    tolerations(spec.list("tolerations"), &here.field("tolerations"), errors);
    host_aliases(spec, &here.field("hostAliases"), errors);
    classes(spec, here, errors);
    if let Some(overhead) = spec.part("overhead") {
        // Upstream takes it for limits, and reports it so.
        let limits = serde_json::json!({ "limits": overhead });
        let here = here.field("overhead");
        requirements(&limits, Place::Container, &around.claims, &here, errors);
    }
    operating_system(spec, here, errors);
}

fn resource_claims(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    let mut names = BTreeSet::new();
    for (index, claim) in spec.list("resourceClaims").iter().enumerate() {
        let here = here.index(index);
        let name = claim.text("name");
        if name.is_empty() {
            errors.required(&here.field("name"), "");
        } else if names.contains(name) {
            errors.duplicate(&here.field("name"), name);
        } else {
            errors.text(dns_label, name, &here.field("name"));
            names.insert(name);
        }
        let fields = ["resourceClaimName", "resourceClaimTemplateName"];
        let given = fields.map(|field| claim.some_text(field));
        match given {
            [Some(_), Some(_)] => {
                let rule = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may \
                            be specified";
                errors.invalid(&here, claim, rule);
            }
            [None, None] => {
                let rule = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
                errors.invalid(&here, claim, rule);
            }
            _ => {}
        }
        for (field, given) in fields.into_iter().zip(given) {
            if let Some(name) = given {
                errors.text(dns_subdomain, name, &here.field(field));
            }
        }
    }
}

/// Resources of the pod as a whole, and whether they hold those of the containers.
fn whole_pod_resources(around: &Surroundings<'_>, here: &Here<'_>, errors: &mut Errors) {
    let Some(resources) = around.spec.part("resources") else {
        return;
    };
    let here = here.field("resources");
    if !resources.list("claims").is_empty() {
        let detail = "claims cannot be set for Resources at pod-level";
        errors.forbidden(&here.field("claims"), detail);
    }
    requirements(resources, Place::Pod, &around.claims, &here, errors);
    let Ok(spec) = serde_json::from_value::<PodSpec>(around.spec.clone()) else {
        return;
    };
    let requests = here.field("requests");
    let whole = resources.part("requests").unwrap_or(&Value::Null);
    for (name, total) in containers_total(&spec, |own| &own.requests) {
        let own = whole.part(&name).and_then(quantity_of).unwrap_or_default();
        if total > own {
            let rule =
                format!("must be greater than or equal to aggregate container requests of {total}");
            errors.invalid(&requests.key(&name), &own, rule);
        }
    }
    let whole = resources.part("limits").unwrap_or(&Value::Null);
    let containers = here.field("containers");
    for (index, container) in around.spec.list("containers").iter().enumerate() {
        let own = container.part("resources").unwrap_or(&Value::Null);
        for (name, limit) in own.amounts("limits") {
            let most = whole.part(name).and_then(quantity_of);
            if let Some(most) = most.filter(|most| limit > *most) {
                let here = containers.index(index);
                let here = here.key(name);
                let rule = format!("must be less than or equal to pod limits of {most}");
                errors.invalid(&here.field("limits"), &limit, rule);
            }
        }
    }
}

/// In the host's network ports are those of the host. Templates may leave that open.
fn host_ports(spec: &Value, is_pod: bool, here: &Here<'_>, errors: &mut Errors) {
    if !spec.flag("hostNetwork") {
        return;
    }
    let list = here.field("containers");
    for (index, container) in spec.list("containers").iter().enumerate() {
        let container_here = list.index(index);
        let ports = container_here.field("ports");
        for (index, port) in container.list("ports").iter().enumerate() {
            let on_host = port.number("hostPort").unwrap_or(0);
            let inside = port.number("containerPort").unwrap_or(0);
            if (is_pod || on_host != 0) && on_host != inside {
                let here = ports.index(index);
                let rule = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(&here.field("hostPort"), on_host, rule);
            }
        }
    }
}

fn policies(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    let restart = ["Always", "OnFailure", "Never"];
    let dns = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    for (field, supported) in [("restartPolicy", &restart[..]), ("dnsPolicy", &dns[..])] {
        errors.required_word(spec.text(field), supported, &here.field(field));
    }
}

fn dns_config(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    const SERVERS_MAX: usize = 3;
    const SEARCHES_MAX: usize = 32;
    const SEARCH_BYTES_MAX: usize = 2048;
    let config = spec.part("dnsConfig");
    if spec.text("dnsPolicy") == "None" {
        if config.is_none() {
            errors.required(here, "must provide `dnsConfig` when `dnsPolicy` is None");
            return;
        }
        if config.is_some_and(|config| config.list("nameservers").is_empty()) {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            errors.required(&here.field("nameservers"), detail);
            return;
        }
    }
    let Some(config) = config else { return };
    let (servers, searches) = (here.field("nameservers"), here.field("searches"));
    let shown = |field: &str| config.part(field).cloned().unwrap_or_default();
    if config.list("nameservers").len() > SERVERS_MAX {
        let rule = format!("must not have more than {SERVERS_MAX} nameservers");
        errors.invalid(&servers, &shown("nameservers"), rule);
    }
    for (index, server) in config.texts("nameservers").enumerate() {
        ip(server, &servers.index(index), errors);
    }
    let all: Vec<&str> = config.texts("searches").collect();
    if all.len() > SEARCHES_MAX {
        let rule = format!("must not have more than {SEARCHES_MAX} search paths");
        errors.invalid(&searches, &shown("searches"), rule);
    }
    if all.join(" ").len() > SEARCH_BYTES_MAX {
        let rule = format!(
            "must not have more than {SEARCH_BYTES_MAX} characters (including spaces) in the \
             search list"
        );
        errors.invalid(&searches, &shown("searches"), rule);
    }
    for (index, search) in all.iter().enumerate().filter(|(_, it)| **it != ".") {
        let search = search.strip_suffix('.').unwrap_or(search);
        // Underscores are allowed; letters show whether the rest is right.
        for rule in dns_subdomain(&search.replace('_', "a")) {
            errors.invalid(&searches.index(index), search, rule);
        }
    }
    let options = here.field("options");
    for (index, option) in config.list("options").iter().enumerate() {
        if option.text("name").is_empty() {
            errors.required(&options.index(index), "must not be empty");
        }
    }
}

fn gates(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    let readiness = here.field("readinessGates");
    for (index, gate) in spec.list("readinessGates").iter().enumerate() {
        let here = readiness.index(index);
        let condition = gate.text("conditionType");
        errors.text(label_key_errors, condition, &here.field("conditionType"));
    }
    let scheduling = here.field("schedulingGates");
    let mut names = BTreeSet::new();
    for (index, gate) in spec.list("schedulingGates").iter().enumerate() {
        let (name, here) = (gate.text("name"), scheduling.index(index));
        errors.text(label_key_errors, name, &here);
        if !names.insert(name) {
            errors.duplicate(&here, name);
        }
    }
}

fn names_and_deadline(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    for field in ["serviceAccountName", "nodeName"] {
        errors.optional_text(dns_subdomain, spec.text(field), &here.field(field));
    }
    if let Some(seconds) = spec.number("activeDeadlineSeconds")
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let here = here.field("activeDeadlineSeconds");
        errors.invalid(&here, seconds, between(1, i32::MAX.into()));
    }
    for field in ["hostname", "subdomain"] {
        errors.optional_text(dns_label, spec.text(field), &here.field(field));
    }
}

fn host_aliases(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    for (index, alias) in spec.list("hostAliases").iter().enumerate() {
        let here = here.index(index);
        ip(alias.text("ip"), &here.field("ip"), errors);
        let hostnames = here.field("hostnames");
        for (index, hostname) in alias.texts("hostnames").enumerate() {
            errors.text(dns_subdomain, hostname, &hostnames.index(index));
        }
    }
}

fn classes(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    let class = spec.text("priorityClassName");
    errors.optional_text(dns_subdomain, class, &here.field("priorityClassName"));
    if let Some(class) = spec.some_text("runtimeClassName") {
        errors.text(dns_subdomain, class, &here.field("runtimeClassName"));
    }
    if let Some(policy) = spec.some_text("preemptionPolicy") {
        let here = here.field("preemptionPolicy");
        match policy {
            // A priority class with that policy gives it to its pods.
            "NonPreemptible" => {}
            policy => errors.required_word(policy, &["PreemptLowerPriority", "Never"], &here),
        }
    }
}
