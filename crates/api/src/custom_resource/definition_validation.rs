//! Whether a CustomResourceDefinition is right, in upstream's words.
//!
//! Source, Kubernetes 1.36:
//! `k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go`. Upstream
//! looks at definitions in an older form, in which what all versions share stands at the top;
//! its paths are of that form (`spec.validation` for the schema of a single version), and so
//! are ours. Where it shows versions as a whole their fields are written here as in the API.

use serde_json::Value;

use super::structural::{flag, list, object, text};
use super::version_validation::{columns, deprecation, scale, schema};
use crate::diagnostic::Here;
use crate::field_error::FieldError;
use crate::names::{NameRule, dns1035_label_errors};

/// The annotation that definitions in Kubernetes' own groups must have.
pub const API_APPROVED: &str = "api-approved.kubernetes.io";

const SPEC: Here<'static> = Here::OBJECT.field("spec");

/// What is wrong with a new definition, apart from what holds for the metadata of any object.
/// Defaults must have been written ([`super::default_definition`]).
///
/// Beyond upstream, conversion by a webhook is refused if more than one version is served:
/// there is nobody here to call it.
pub fn validate(crd: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let nothing = Value::Null;
    let spec = crd.get("spec").unwrap_or(&nothing);
    name(crd, spec, &mut errors);
    spec_errors(spec, &mut errors);
    stored_versions(crd, spec, &mut errors);
    approval(crd, None, spec, &mut errors);
    if flag(spec, "preserveUnknownFields") {
        let rule = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                    spec.versions[*].schema instead";
        let here = SPEC.field("preserveUnknownFields");
        errors.push(FieldError::invalid(&here, true, rule));
    }
    errors
}

/// What is wrong with a definition that replaces another, apart from what holds for the
/// metadata of any object.
pub fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let nothing = Value::Null;
    let [spec, old_spec] = [new, old].map(|crd| crd.get("spec").unwrap_or(&nothing));
    spec_errors(spec, &mut errors);
    let mut must_stay = |path: &[&str]| {
        let pointer = format!("/{}", path.join("/"));
        let [new, old] = [spec, old_spec].map(|spec| spec.pointer(&pointer).unwrap_or(&nothing));
        if new != old {
            let path = format!("spec.{}", path.join("."));
            errors.push(FieldError::invalid(
                path.as_str(),
                new,
                "field is immutable",
            ));
        }
    };
    if super::names::is_true(old, "Established") {
        must_stay(&["scope"]);
        must_stay(&["names", "kind"]);
    }
    must_stay(&["group"]);
    must_stay(&["names", "plural"]);
    stored_versions(new, spec, &mut errors);
    approval(new, Some(old), spec, &mut errors);
    errors
}

fn name(crd: &Value, spec: &Value, errors: &mut Vec<FieldError>) {
    let name = crd.pointer("/metadata/name").and_then(Value::as_str);
    let name = name.unwrap_or_default();
    let plural = spec.pointer("/names/plural").and_then(Value::as_str);
    let expected = format!("{}.{}", plural.unwrap_or_default(), text(spec, "group"));
    if !name.is_empty() && name != expected {
        let rule = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", name, rule));
    }
}

fn spec_errors(spec: &Value, errors: &mut Vec<FieldError>) {
    let group = text(spec, "group");
    let here = SPEC.field("group");
    let broken = NameRule::DnsSubdomain.errors(group);
    if group.is_empty() {
        errors.push(FieldError::required(&here, ""));
    } else if !broken.is_empty() {
        errors.push(FieldError::invalid(&here, group, broken.join(",")));
    } else if !group.contains('.') {
        let rule = "should be a domain with at least one dot";
        errors.push(FieldError::invalid(&here, group, rule));
    }
    match text(spec, "scope") {
        "Cluster" | "Namespaced" => {}
        "" => errors.push(FieldError::required(&SPEC.field("scope"), "")),
        scope => errors.push(FieldError::not_supported(
            &SPEC.field("scope"),
            scope,
            &["Cluster", "Namespaced"],
        )),
    }
    versions(spec, errors);
    names(spec, errors);
    shared(spec, errors);
    conversion(spec, errors);
}

/// Whether all versions say the same of something; upstream then has it at the top.
fn is_shared(spec: &Value, name: &str) -> bool {
    let mut versions = list(spec, "versions")
        .iter()
        .map(|version| version.get(name));
    let first = versions.next().flatten();
    versions.all(|other| other == first)
}

fn versions(spec: &Value, errors: &mut Vec<FieldError>) {
    let versions = list(spec, "versions");
    let here = SPEC.field("versions");
    for (index, version) in versions.iter().enumerate() {
        if version
            .pointer("/schema/openAPIV3Schema")
            .is_none_or(Value::is_null)
        {
            let here = here.index(index);
            let here = here.field("schema");
            errors.push(FieldError::required(&here.field("openAPIV3Schema"), ""));
        }
    }
    for (index, version) in versions.iter().enumerate() {
        let here = here.index(index);
        let name = text(version, "name");
        let broken = dns1035_label_errors(name);
        if !broken.is_empty() {
            errors.push(FieldError::invalid(
                &here.field("name"),
                name,
                broken.join(","),
            ));
        }
        deprecation(version, &here, errors);
        if !is_shared(spec, "schema") {
            let has_status = version.pointer("/subresources/status").is_some();
            schema(version, has_status, &here.field("schema"), errors);
        }
        if !is_shared(spec, "subresources") {
            scale(version, &here.field("subresources"), errors);
        }
        if !is_shared(spec, "additionalPrinterColumns") {
            columns(version, &here.field("additionalPrinterColumns"), errors);
        }
    }
    let names: Vec<&str> = versions
        .iter()
        .map(|version| text(version, "name"))
        .collect();
    let shown = spec.get("versions").unwrap_or(&Value::Null);
    if names
        .iter()
        .enumerate()
        .any(|(at, name)| names[..at].contains(name))
    {
        errors.push(FieldError::invalid(
            &here,
            shown,
            "must contain unique version names",
        ));
    }
    if versions
        .iter()
        .filter(|version| flag(version, "storage"))
        .count()
        != 1
    {
        let rule = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid(&here, shown, rule));
    }
}

/// What all versions share.
fn shared(spec: &Value, errors: &mut Vec<FieldError>) {
    let Some(version) = list(spec, "versions").first() else {
        return;
    };
    let has_status = |version: &Value| version.pointer("/subresources/status").is_some();
    if is_shared(spec, "schema") {
        let has_status = list(spec, "versions").iter().any(has_status);
        schema(version, has_status, &SPEC.field("validation"), errors);
    }
    if is_shared(spec, "subresources") {
        scale(version, &SPEC.field("subresources"), errors);
    }
    if is_shared(spec, "additionalPrinterColumns") {
        columns(version, &SPEC.field("additionalPrinterColumns"), errors);
    }
}

fn names(spec: &Value, errors: &mut Vec<FieldError>) {
    let nothing = Value::Null;
    let names = spec.get("names").unwrap_or(&nothing);
    let here = SPEC.field("names");
    for name in ["plural", "singular", "kind", "listKind"] {
        if text(names, name).is_empty() {
            errors.push(FieldError::required(&here.field(name), ""));
        }
    }
    for name in ["plural", "singular", "kind", "listKind"] {
        let found = text(names, name);
        let is_kind = name.to_lowercase().ends_with("kind");
        let broken = match is_kind {
            true => dns1035_label_errors(&found.to_lowercase()),
            false => dns1035_label_errors(found),
        };
        if found.is_empty() || broken.is_empty() {
            continue;
        }
        let start = if is_kind {
            "may have mixed case, but should otherwise match: "
        } else {
            ""
        };
        let rule = format!("{start}{}", broken.join(","));
        errors.push(FieldError::invalid(&here.field(name), found, rule));
    }
    let mut lists = |name: &str| {
        let here = here.field(name);
        for (index, found) in list(names, name).iter().enumerate() {
            let found = found.as_str().unwrap_or_default();
            let broken = dns1035_label_errors(found);
            if !broken.is_empty() {
                errors.push(FieldError::invalid(
                    &here.index(index),
                    found,
                    broken.join(","),
                ));
            }
        }
    };
    lists("shortNames");
    lists("categories");
    let (kind, list_kind) = (text(names, "kind"), text(names, "listKind"));
    if !kind.is_empty() && kind == list_kind {
        let rule = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(
            &here.field("listKind"),
            list_kind,
            rule,
        ));
    }
}

fn conversion(spec: &Value, errors: &mut Vec<FieldError>) {
    let Some(conversion) = object(spec, "conversion") else {
        return;
    };
    let here = SPEC.field("conversion");
    let webhook = object(conversion, "webhook");
    let served = list(spec, "versions")
        .iter()
        .filter(|it| flag(it, "served"));
    match text(conversion, "strategy") {
        "" => errors.push(FieldError::required(&here.field("strategy"), "")),
        "None" => {
            for (name, field) in [
                ("clientConfig", "webhookClientConfig"),
                ("conversionReviewVersions", "conversionReviewVersions"),
            ] {
                if webhook.is_some_and(|webhook| webhook.get(name).is_some()) {
                    let rule = "should not be set when strategy is not set to Webhook";
                    errors.push(FieldError::forbidden(&here.field(field), rule));
                }
            }
        }
        "Webhook" => {
            if webhook.and_then(|it| object(it, "clientConfig")).is_none() {
                let rule = "required when strategy is set to Webhook";
                errors.push(FieldError::required(
                    &here.field("webhookClientConfig"),
                    rule,
                ));
            }
            if served.count() > 1 {
                let rule = "this server calls no conversion webhooks; serve one version, or set the \
                            strategy to None";
                let here = here.field("strategy");
                errors.push(FieldError::invalid(&here, "Webhook", rule));
            }
        }
        other => {
            let known = ["None", "Webhook"];
            errors.push(FieldError::not_supported(
                &here.field("strategy"),
                other,
                &known,
            ));
        }
    }
}

fn stored_versions(crd: &Value, spec: &Value, errors: &mut Vec<FieldError>) {
    let nothing = Value::Null;
    let status = crd.get("status").unwrap_or(&nothing);
    let stored = list(status, "storedVersions");
    let status_here = Here::OBJECT.field("status");
    let here = status_here.field("storedVersions");
    let shown = Value::Array(stored.to_vec());
    if stored.is_empty() {
        let rule = "must have at least one stored version";
        errors.push(FieldError::invalid(&here, &shown, rule));
        return;
    }
    let versions = list(spec, "versions");
    for version in versions.iter().filter(|version| flag(version, "storage")) {
        let name = text(version, "name");
        if !stored.iter().any(|it| it == name) {
            let rule = format!("must have the storage version {name}");
            errors.push(FieldError::invalid(&here, &shown, rule));
        }
    }
    for (index, name) in stored.iter().enumerate() {
        let name = name.as_str().unwrap_or_default();
        if !versions.iter().any(|version| text(version, "name") == name) {
            let rule = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in \
                 spec.versions until a storage migration ensures no data remains persisted in {name} and \
                 removes {name} from status.storedVersions"
            );
            errors.push(FieldError::invalid(&here.index(index), name, rule));
        }
    }
}

/// Kubernetes' own groups are for those who may say so.
fn approval(crd: &Value, old: Option<&Value>, spec: &Value, errors: &mut Vec<FieldError>) {
    const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
    let group = text(spec, "group");
    let is_protected = |domain: &str| group == domain || group.ends_with(&format!(".{domain}"));
    if !(is_protected("k8s.io") || is_protected("kubernetes.io")) {
        return;
    }
    let found = |crd: &Value| -> String {
        let annotations = crd.pointer("/metadata/annotations");
        let found = annotations.and_then(|it| it.get(API_APPROVED)?.as_str());
        found.unwrap_or_default().to_owned()
    };
    let state = |found: &str| match found {
        "" => "missing",
        it if it.starts_with("unapproved") => "bypassed",
        it if it
            .split_once("://")
            .is_some_and(|(_, rest)| !rest.is_empty()) =>
        {
            "approved"
        }
        _ => "invalid",
    };
    let annotation = found(crd);
    if old.is_some_and(|old| state(&found(old)) == state(&annotation)) {
        return;
    }
    let annotations = Here::OBJECT.field("metadata");
    let annotations = annotations.field("annotations");
    let here = annotations.key(API_APPROVED);
    let rule = format!("protected groups must have approval annotation {API_APPROVED:?}");
    match state(&annotation) {
        "missing" => errors.push(FieldError::required(&here, format!("{rule}, {SEE}"))),
        "invalid" => {
            let rule =
                format!("{rule} with either a URL or a reason starting with \"unapproved\", {SEE}");
            errors.push(FieldError::invalid(&here, annotation.as_str(), rule));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{default_definition, warnings};
    use super::*;

    /// A definition whose single version has this schema.
    fn definition(schema: Value) -> Value {
        let mut crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "crontabs.stable.example.com"},
            "spec": {
                "group": "stable.example.com", "scope": "Namespaced",
                "names": {"plural": "crontabs", "kind": "CronTab"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                              "schema": {"openAPIV3Schema": schema}}],
            },
        });
        default_definition(&mut crd);
        crd
    }

    fn texts(errors: Vec<FieldError>) -> Vec<String> {
        errors.iter().map(FieldError::to_string).collect()
    }

    /// What is wrong with the definition after a change.
    fn after(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut crd = definition(json!({"type": "object"}));
        change(&mut crd);
        texts(validate(&crd))
    }

    #[test]
    fn names_groups_and_versions_have_rules() {
        assert_eq!(after(|_| {}), Vec::<String>::new());
        assert_eq!(
            after(|crd| crd["metadata"]["name"] = json!("tabs.stable.example.com")),
            [
                "metadata.name: Invalid value: \"tabs.stable.example.com\": must be \
              spec.names.plural+\".\"+spec.group"
            ]
        );
        assert_eq!(
            after(|crd| {
                crd["spec"]["group"] = json!("example");
                crd["metadata"]["name"] = json!("crontabs.example");
            }),
            ["spec.group: Invalid value: \"example\": should be a domain with at least one dot"]
        );
        assert_eq!(
            after(|crd| crd["spec"]["scope"] = json!("World")),
            [
                "spec.scope: Unsupported value: \"World\": supported values: \"Cluster\", \"Namespaced\""
            ]
        );
        let storage = after(|crd| {
            let mut second = crd["spec"]["versions"][0].clone();
            second["name"] = json!("v2");
            if let Value::Array(versions) = &mut crd["spec"]["versions"] {
                versions.push(second);
            }
        });
        assert!(
            storage
                .iter()
                .any(|text| text.starts_with("spec.versions: Invalid value: ")
                    && text.ends_with("must have exactly one version marked as storage version")),
            "{storage:?}"
        );
        assert_eq!(
            after(|crd| crd["spec"]["names"]["kind"] = json!("Cron_Tab")),
            [
                "spec.names.kind: Invalid value: \"Cron_Tab\": may have mixed case, but should otherwise \
              match: a DNS-1035 label must consist of lower case alphanumeric characters or '-', start \
              with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or \
              'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        );
        assert_eq!(
            after(|crd| crd["spec"]["versions"][0]["schema"] = Value::Null),
            ["spec.versions[0].schema.openAPIV3Schema: Required value"]
        );
        assert_eq!(
            after(|crd| crd["status"]["storedVersions"] = json!(["v0", "v1"])),
            [
                "status.storedVersions[0]: Invalid value: \"v0\": missing from spec.versions; v0 was \
              previously a storage version, and must remain in spec.versions until a storage migration \
              ensures no data remains persisted in v0 and removes v0 from status.storedVersions"
            ]
        );
    }

    #[test]
    fn schemas_must_be_structural() {
        for (schema, errors) in [
            (
                json!({"type": "object", "properties": {"spec": {"properties": {}}}}),
                vec![
                    "spec.validation.openAPIV3Schema.properties[spec].type: Required value: must not be \
                      empty for specified object fields",
                ],
            ),
            (
                json!({"properties": {}}),
                vec![
                    "spec.validation.openAPIV3Schema.type: Required value: must not be empty at the root",
                ],
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "array"}}}),
                vec![
                    "spec.validation.openAPIV3Schema.properties[a].items: Required value: must be \
                      specified",
                ],
            ),
            (
                json!({"type": "object", "anyOf": [{"properties": {"a": {"type": "string"}}}]}),
                vec![
                    "spec.validation.openAPIV3Schema.anyOf[0].properties[a].type: Forbidden: must be empty \
                     to be structural",
                    "spec.validation.openAPIV3Schema.properties[a]: Required value: because it is defined \
                     in spec.validation.openAPIV3Schema.anyOf[0].properties[a]",
                ],
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}),
                vec![
                    "spec.validation.openAPIV3Schema.properties[a].pattern: Invalid value: \"(\": must be \
                      a valid regular expression, but isn't: unclosed group",
                ],
            ),
            (
                json!({"type": "object", "properties": {
                    "a": {"type": "integer", "default": "x"},
                    "b": {"type": "object", "properties": {"c": {"type": "string"}},
                          "default": {"d": 1}}}}),
                vec![
                    "spec.validation.openAPIV3Schema.properties[a].default: Invalid value: \"string\":  in \
                     body must be of type integer: \"string\"",
                    "spec.validation.openAPIV3Schema.properties[b].default: Invalid value: {\"d\":1}: must \
                     not have unknown fields",
                ],
            ),
            (
                json!({"type": "object", "properties": {"a": {
                    "type": "array", "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["k"],
                    "items": {"type": "object", "properties": {"k": {"type": "string"}}}}}}),
                vec![
                    "spec.validation.openAPIV3Schema.properties[a].items.properties[k].default: Required \
                      value: this property is in x-kubernetes-list-map-keys, so it must have a default or \
                      be a required property",
                ],
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "array", "uniqueItems": true,
                       "items": {"type": "string"}}, "b": {"type": "text"}}}),
                vec![
                    "spec.validation.openAPIV3Schema.properties[a].uniqueItems: Forbidden: uniqueItems \
                     cannot be set to true since the runtime complexity becomes quadratic",
                    "spec.validation.openAPIV3Schema.properties[b].type: Unsupported value: \"text\": \
                     supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \
                     \"string\"",
                ],
            ),
            (
                json!({"type": "object", "properties": {"port": {
                    "x-kubernetes-int-or-string": true,
                    "anyOf": [{"type": "integer"}, {"type": "string"}]}}}),
                vec![],
            ),
        ] {
            assert_eq!(
                texts(validate(&definition(schema.clone()))),
                errors,
                "{schema}"
            );
        }
    }

    #[test]
    fn what_is_not_done_here_is_told() {
        let crd = definition(json!({"type": "object", "properties": {
            "a": {"type": "string", "format": "odd",
                  "x-kubernetes-validations": [{"rule": "self != ''"}]},
            "b": {"type": "array", "x-kubernetes-list-type": "set",
                  "items": {"type": "object", "x-kubernetes-map-type": "atomic"}}}}));
        assert_eq!(
            warnings(&crd),
            [
                "unrecognized format \"odd\"",
                "x-kubernetes-list-type: set for items of type \"object\" is not supported by server-side \
                 apply or CEL validation rules",
                "x-kubernetes-validations are not evaluated by this server: objects that break these rules \
                 are accepted",
            ]
        );
        let with_webhook = |crd: &mut Value| {
            crd["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
                "clientConfig": {"url": "https://example.com"}, "conversionReviewVersions": ["v1"]}});
        };
        assert_eq!(
            after(with_webhook),
            Vec::<String>::new(),
            "there is nothing to convert"
        );
        let refused = after(|crd| {
            with_webhook(crd);
            let mut second = crd["spec"]["versions"][0].clone();
            second["name"] = json!("v2");
            second["storage"] = json!(false);
            if let Value::Array(versions) = &mut crd["spec"]["versions"] {
                versions.push(second);
            }
        });
        assert_eq!(
            refused,
            [
                "spec.conversion.strategy: Invalid value: \"Webhook\": this server calls no conversion \
              webhooks; serve one version, or set the strategy to None"
            ]
        );
    }

    #[test]
    fn what_objects_depend_on_stays() {
        let mut old = definition(json!({"type": "object"}));
        let mut new = old.clone();
        new["spec"]["scope"] = json!("Cluster");
        assert_eq!(texts(validate_update(&new, &old)), Vec::<String>::new());
        old["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
        assert_eq!(
            texts(validate_update(&new, &old)),
            ["spec.scope: Invalid value: \"Cluster\": field is immutable"]
        );
    }

    #[test]
    fn kubernetes_own_groups_are_protected() {
        let refused = after(|crd| {
            crd["spec"]["group"] = json!("example.k8s.io");
            crd["metadata"]["name"] = json!("crontabs.example.k8s.io");
        });
        assert_eq!(
            refused,
            [
                "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must \
              have approval annotation \"api-approved.kubernetes.io\", see \
              https://github.com/kubernetes/enhancements/pull/1111"
            ]
        );
    }
}
