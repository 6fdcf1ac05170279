//! Kinds that no decision reads, as far as people and controllers notice what they may say:
//! ConfigMaps, Secrets, Leases, Events, roles and their bindings, autoscalers, network policies.

use std::collections::BTreeSet;

use serde_json::Value;

use super::errors::{Errors, IMMUTABLE, TextRule, dns_subdomain, port_number};
use super::selector::label_selector;
use crate::diagnostic::Here;
use crate::field_error::FieldError;
use crate::fields_of::FieldsOf;
use crate::names::{NameRule, config_key_errors, label_key_errors};

/// Bytes of all values of a ConfigMap or a Secret together, at most.
const DATA_BYTES_MAX: usize = 1024 * 1024;
const IMMUTABLE_DATA: &str = "field is immutable when `immutable` is set";

/// The bytes that a base64 text stands for.
fn decoded_len(text: &str) -> usize {
    text.len() / 4 * 3
        - text
            .bytes()
            .rev()
            .take(2)
            .filter(|it| *it == b'=')
            .count()
            .min(text.len())
}

/// Checks a ConfigMap.
pub(super) fn config_map(map: &Value, errors: &mut Errors) {
    let mut bytes = 0;
    let here = Here::OBJECT;
    let binary: BTreeSet<&str> = map.entries("binaryData").map(|it| it.0).collect();
    let data = here.field("data");
    for (key, value) in map.entries("data") {
        errors.text(config_key_errors, key, &data.key(key));
        if binary.contains(key) {
            let rule = "duplicate of key present in binaryData";
            errors.invalid(&data.key(key), key, rule);
        }
        bytes += value.as_str().map_or(0, str::len);
    }
    let data = here.field("binaryData");
    for (key, value) in map.entries("binaryData") {
        errors.text(config_key_errors, key, &data.key(key));
        bytes += value.as_str().map_or(0, decoded_len);
    }
    if bytes > DATA_BYTES_MAX {
        errors.0.push(FieldError::too_long(&here, DATA_BYTES_MAX));
    }
}

/// Checks a Secret.
pub(super) fn secret(secret: &Value, errors: &mut Errors) {
    const ACCOUNT: &str = "kubernetes.io/service-account.name";
    let here = Here::OBJECT.field("data");
    let mut bytes = 0;
    for (key, value) in secret.entries("data") {
        errors.text(config_key_errors, key, &here.key(key));
        bytes += value.as_str().map_or(0, decoded_len);
    }
    if bytes > DATA_BYTES_MAX {
        errors.0.push(FieldError::too_long(&here, DATA_BYTES_MAX));
    }
    let data = secret.part("data").unwrap_or(&Value::Null);
    let has = |key: &str| data.part(key).is_some();
    let mut demand = |keys: &[&str]| {
        for key in keys {
            errors.required(&here.key(key), "");
        }
    };
    match secret.text("type") {
        "kubernetes.io/service-account-token" => {
            let annotations = secret.pointer("/metadata/annotations");
            let name = annotations.map_or("", |it| it.text(ACCOUNT));
            if name.is_empty() {
                let metadata = Here::OBJECT.field("metadata");
                let here = metadata.field("annotations");
                errors.required(&here.key(ACCOUNT), "");
            }
        }
        "kubernetes.io/dockercfg" if !has(".dockercfg") => demand(&[".dockercfg"]),
        "kubernetes.io/dockerconfigjson" if !has(".dockerconfigjson") => {
            demand(&[".dockerconfigjson"]);
        }
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            demand(&["username", "password"]);
        }
        "kubernetes.io/ssh-auth" if data.text("ssh-privatekey").is_empty() => {
            demand(&["ssh-privatekey"]);
        }
        "kubernetes.io/tls" => {
            let missing = ["tls.crt", "tls.key"].into_iter().filter(|key| !has(key));
            demand(&missing.collect::<Vec<_>>());
        }
        _ => {}
    }
}

/// Checks what may become of a ConfigMap or a Secret: nothing, once it says so.
pub(super) fn data_update(new: &Value, old: &Value, errors: &mut Errors) {
    let here = Here::OBJECT;
    if !old.flag("immutable") {
        return;
    }
    if !new.flag("immutable") {
        errors.forbidden(&here.field("immutable"), IMMUTABLE_DATA);
    }
    for field in ["data", "binaryData"] {
        if new.part(field) != old.part(field) {
            errors.forbidden(&here.field(field), IMMUTABLE_DATA);
        }
    }
}

/// Checks a Lease.
pub(super) fn lease(lease: &Value, errors: &mut Errors) {
    let here = Here::OBJECT.field("spec");
    let spec = lease.part("spec").unwrap_or(&Value::Null);
    if let Some(seconds) = spec.number("leaseDurationSeconds")
        && seconds <= 0
    {
        let rule = "must be greater than 0";
        errors.invalid(&here.field("leaseDurationSeconds"), seconds, rule);
    }
    if let Some(count) = spec.number("leaseTransitions")
        && count < 0
    {
        let rule = "must be greater than or equal to 0";
        errors.invalid(&here.field("leaseTransitions"), count, rule);
    }
}

/// Checks a namespace.
pub(super) fn namespace(namespace: &Value, errors: &mut Errors) {
    let spec_here = Here::OBJECT.field("spec");
    let here = spec_here.field("finalizers");
    let spec = namespace.part("spec").unwrap_or(&Value::Null);
    for name in spec.texts("finalizers") {
        errors.text(label_key_errors, name, &here);
        if !name.contains('/') && !["kubernetes", "orphan", "foregroundDeletion"].contains(&name) {
            let rule = "name is neither a standard finalizer name nor is it fully qualified";
            errors.invalid(&here, name, rule);
        }
    }
}

/// Checks an Event: that it stands in the namespace of what it is about.
pub(super) fn event(event: &Value, field: &str, errors: &mut Errors) {
    let metadata = event.part("metadata").unwrap_or(&Value::Null);
    let about = event.part(field).unwrap_or(&Value::Null);
    let (own, other) = (metadata.text("namespace"), about.text("namespace"));
    let here = Here::OBJECT.field(field);
    let is_right = match other {
        "" => matches!(own, "default" | "kube-system"),
        other => own == other,
    };
    if !is_right {
        let rule = "does not match event.namespace";
        errors.invalid(&here.field("namespace"), other, rule);
    }
}

/// Checks the rules of a role. Roles of a namespace have no say in URLs.
pub(super) fn role(role: &Value, is_namespaced: bool, errors: &mut Errors) {
    let rules = Here::OBJECT.field("rules");
    for (index, rule) in role.list("rules").iter().enumerate() {
        let here = rules.index(index);
        if rule.list("verbs").is_empty() {
            errors.required(
                &here.field("verbs"),
                "verbs must contain at least one value",
            );
        }
        let has = |field: &str| !rule.list(field).is_empty();
        if has("nonResourceURLs") {
            let here_urls = here.field("nonResourceURLs");
            if is_namespaced {
                let value = rule.part("nonResourceURLs").unwrap_or(&Value::Null);
                let detail = "namespaced rules cannot apply to non-resource URLs";
                errors.invalid(&here_urls, value, detail);
            }
            if has("apiGroups") || has("resources") || has("resourceNames") {
                let value = rule.part("nonResourceURLs").unwrap_or(&Value::Null);
                let detail = "rules cannot apply to both regular resources and non-resource URLs";
                errors.invalid(&here_urls, value, detail);
            }
            continue;
        }
        if !has("apiGroups") {
            let detail = "resource rules must supply at least one api group";
            errors.required(&here.field("apiGroups"), detail);
        }
        if !has("resources") {
            let detail = "resource rules must supply at least one resource";
            errors.required(&here.field("resources"), detail);
        }
    }
    if let Some(aggregation) = role.part("aggregationRule") {
        let here = Here::OBJECT.field("aggregationRule");
        let here = here.field("clusterRoleSelectors");
        let selectors = aggregation.list("clusterRoleSelectors");
        if selectors.is_empty() {
            errors.required(
                &here,
                "at least one clusterRoleSelector required if aggregationRule is non-nil",
            );
        }
    }
}

const RBAC: &str = "rbac.authorization.k8s.io";

/// Checks a binding of a role.
pub(super) fn role_binding(binding: &Value, is_namespaced: bool, errors: &mut Errors) {
    let here = Here::OBJECT.field("roleRef");
    let role = binding.part("roleRef").unwrap_or(&Value::Null);
    let path: TextRule = |name| NameRule::PathSegment.errors(name);
    errors.word(role.text("apiGroup"), &[RBAC], &here.field("apiGroup"));
    let kinds: &[&str] = match is_namespaced {
        true => &["Role", "ClusterRole"],
        false => &["ClusterRole"],
    };
    errors.word(role.text("kind"), kinds, &here.field("kind"));
    errors.required_text(path, role.text("name"), &here.field("name"));
    let subjects = Here::OBJECT.field("subjects");
    for (index, subject) in binding.list("subjects").iter().enumerate() {
        let here = subjects.index(index);
        let (name, group) = (subject.text("name"), subject.text("apiGroup"));
        if name.is_empty() {
            errors.required(&here.field("name"), "");
        }
        match subject.text("kind") {
            "ServiceAccount" => {
                errors.optional_text(dns_subdomain, name, &here.field("name"));
                if !group.is_empty() {
                    errors.not_supported(&here.field("apiGroup"), group, &[""]);
                }
                if !is_namespaced && subject.text("namespace").is_empty() {
                    errors.required(&here.field("namespace"), "");
                }
            }
            "User" | "Group" => errors.word(group, &[RBAC], &here.field("apiGroup")),
            kind => {
                let supported = ["ServiceAccount", "User", "Group"];
                errors.not_supported(&here.field("kind"), kind, &supported);
            }
        }
    }
}

/// The role that a binding binds stays.
pub(super) fn role_binding_update(new: &Value, old: &Value, errors: &mut Errors) {
    if new.part("roleRef") != old.part("roleRef") {
        let value = new.part("roleRef").unwrap_or(&Value::Null);
        let here = Here::OBJECT.field("roleRef");
        errors.invalid(&here, value, "cannot change roleRef");
    }
}

/// Checks the spec of a HorizontalPodAutoscaler.
pub(super) fn autoscaler(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    let min = spec.number("minReplicas");
    let max = spec.number("maxReplicas").unwrap_or(0);
    if let Some(min) = min
        && min < 1
    {
        let rule = "must be greater than or equal to 1";
        errors.invalid(&here.field("minReplicas"), min, rule);
    }
    let max_here = here.field("maxReplicas");
    if max < 1 {
        errors.invalid(&max_here, max, "must be greater than 0");
    }
    if min.is_some_and(|min| max < min) {
        let rule = "must be greater than or equal to `minReplicas`";
        errors.invalid(&max_here, max, rule);
    }
    let target = spec.part("scaleTargetRef").unwrap_or(&Value::Null);
    let here = here.field("scaleTargetRef");
    let path: TextRule = |name| NameRule::PathSegment.errors(name);
    for field in ["kind", "name"] {
        errors.required_text(path, target.text(field), &here.field(field));
    }
}

/// Checks the spec of a NetworkPolicy.
pub(super) fn network_policy(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    label_selector(spec, "podSelector", here, errors);
    for (list, peers) in [("ingress", "from"), ("egress", "to")] {
        let rules = here.field(list);
        for (index, rule) in spec.list(list).iter().enumerate() {
            let here = rules.index(index);
            let ports = here.field("ports");
            for (index, port) in rule.list("ports").iter().enumerate() {
                let here = ports.index(index);
                let protocol = port.text("protocol");
                let supported = ["SCTP", "TCP", "UDP"];
                errors.word(protocol, &supported, &here.field("protocol"));
                if let Some(number) = port.number("port") {
                    port_number(number, &here.field("port"), errors);
                }
            }
            let peers_here = here.field(peers);
            for (index, peer) in rule.list(peers).iter().enumerate() {
                let here = peers_here.index(index);
                label_selector(peer, "podSelector", &here, errors);
                label_selector(peer, "namespaceSelector", &here, errors);
                let count = ["podSelector", "namespaceSelector", "ipBlock"];
                if count.iter().all(|field| peer.part(field).is_none()) {
                    errors.required(&here, "must specify a peer");
                }
            }
        }
    }
    let types = here.field("policyTypes");
    for (index, word) in spec.texts("policyTypes").enumerate() {
        errors.word(word, &["Egress", "Ingress"], &types.index(index));
    }
}

/// Checks an IngressClass or what an Ingress says of its rules.
pub(super) fn ingress(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    if spec.list("rules").is_empty() && spec.part("defaultBackend").is_none() {
        let rule = "either `defaultBackend` or `rules` must be specified";
        errors.invalid(here, spec, rule);
    }
    if let Some(backend) = spec.part("defaultBackend") {
        ingress_backend(backend, &here.field("defaultBackend"), errors);
    }
    let rules = here.field("rules");
    for (index, rule) in spec.list("rules").iter().enumerate() {
        let here = rules.index(index);
        let host = rule.text("host");
        let host_name = host.strip_prefix("*.").unwrap_or(host);
        errors.optional_text(dns_subdomain, host_name, &here.field("host"));
        let Some(http) = rule.part("http") else {
            continue;
        };
        let http_here = here.field("http");
        let paths = http_here.field("paths");
        if http.list("paths").is_empty() {
            errors.required(&paths, "");
        }
        for (index, path) in http.list("paths").iter().enumerate() {
            let here = paths.index(index);
            match path.some_text("pathType") {
                None => errors.required(&here.field("pathType"), "pathType must be specified"),
                Some(kind) => {
                    let supported = ["Exact", "ImplementationSpecific", "Prefix"];
                    errors.word(kind, &supported, &here.field("pathType"));
                    let text = path.text("path");
                    if kind != "ImplementationSpecific" && !text.starts_with('/') {
                        let rule = "must be an absolute path";
                        errors.invalid(&here.field("path"), text, rule);
                    }
                }
            }
            let backend = path.part("backend").unwrap_or(&Value::Null);
            ingress_backend(backend, &here.field("backend"), errors);
        }
    }
}

fn ingress_backend(backend: &Value, here: &Here<'_>, errors: &mut Errors) {
    match (backend.part("service"), backend.part("resource")) {
        (Some(_), Some(_)) => {
            let rule = "cannot set both resource and service backends";
            errors.invalid(here, "", rule);
        }
        (None, None) => {
            errors.required(here, "resource or service backend is required");
        }
        (Some(service), None) => {
            let here = here.field("service");
            let name: TextRule = |name| NameRule::Dns1035Label.errors(name);
            errors.required_text(name, service.text("name"), &here.field("name"));
            let port = service.part("port").unwrap_or(&Value::Null);
            if port.text("name").is_empty() && port.number("number").unwrap_or(0) == 0 {
                errors.required(&here, "port name or number is required");
            }
        }
        (None, Some(_)) => {}
    }
}

/// Fields of an object that may not change at all.
pub(super) fn unchanged(new: &Value, old: &Value, fields: &[&str], errors: &mut Errors) {
    for field in fields {
        errors.immutable(new, old, field, &Here::OBJECT);
    }
}

/// The field as a whole may not change.
pub(super) fn unchanged_spec(new: &Value, old: &Value, errors: &mut Errors) {
    if new.part("spec") != old.part("spec") {
        let value = new.part("spec").unwrap_or(&Value::Null);
        errors.invalid(&Here::OBJECT.field("spec"), value, IMMUTABLE);
    }
}
