//! What the author of a definition is told, although it is right.
//!
//! Source, Kubernetes 1.36:
//! `k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/strategy.go`.

use serde_json::Value;

use super::format;
use super::schema::{ListType, Schema, ValueType};
use super::structural::{list, text};

/// What the author of a definition should know: formats that are not looked at, sets that
/// server-side apply does not merge, and, beyond upstream, what is not done here.
pub fn warnings(crd: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let nothing = Value::Null;
    let spec = crd.get("spec").unwrap_or(&nothing);
    let (mut sets, mut has_rules) = (Vec::new(), false);
    for version in list(spec, "versions") {
        let Some(props) = version.pointer("/schema/openAPIV3Schema") else {
            continue;
        };
        let schema = Schema::read(props);
        unknown_formats(&schema, &mut warnings);
        compound_sets(&schema, &mut sets);
        has_rules |= schema.has_rules;
    }
    sets.sort_unstable();
    sets.dedup();
    warnings.extend(sets);
    if has_rules {
        warnings.push(
            "x-kubernetes-validations are not evaluated by this server: objects that break these \
             rules are accepted"
                .to_owned(),
        );
    }
    if text(spec.get("conversion").unwrap_or(&nothing), "strategy") == "Webhook" {
        warnings.push(
            "conversion webhooks are not called by this server: of objects that are stored in \
             another version only the apiVersion is changed"
                .to_owned(),
        );
    }
    warnings
}

fn unknown_formats(schema: &Schema, warnings: &mut Vec<String>) {
    if !format::is_known(schema) {
        warnings.push(format!("unrecognized format {:?}", schema.format));
    }
    schema
        .parts()
        .for_each(|part| unknown_formats(part, warnings));
}

fn compound_sets(schema: &Schema, warnings: &mut Vec<String>) {
    let items = schema.items.as_ref().and_then(|items| items.value_type);
    if let (ListType::Set, Some(items @ (ValueType::Array | ValueType::Object))) =
        (&schema.list_type, items)
    {
        warnings.push(format!(
            "x-kubernetes-list-type: set for items of type {:?} is not supported by server-side apply \
             or CEL validation rules",
            items.name()
        ));
    }
    schema
        .parts()
        .for_each(|part| compound_sets(part, warnings));
}
