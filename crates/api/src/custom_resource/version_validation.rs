//! Whether a version of a CustomResourceDefinition is right, in upstream's words: its schema,
//! subresources and columns.
//!
//! Source, Kubernetes 1.36:
//! `k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go`.

use serde_json::Value;

use super::openapi::{self, Place};
use super::structural::{self, flag, list, object, text};
use crate::diagnostic::Here;
use crate::field_error::FieldError;

pub(super) fn deprecation(version: &Value, here: &Here<'_>, errors: &mut Vec<FieldError>) {
    let Some(Value::String(warning)) = version.get("deprecationWarning") else {
        return;
    };
    let rule = if !flag(version, "deprecated") {
        "can only be set for deprecated versions".to_owned()
    } else if warning.len() > 256 {
        "must be <= 256 characters long".to_owned()
    } else if warning.is_empty() {
        "must not be an empty string".to_owned()
    } else if let Some(at) = warning.find(char::is_control) {
        format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {at}"
        )
    } else {
        return;
    };
    let here = here.field("deprecationWarning");
    errors.push(FieldError::invalid(&here, warning.as_str(), rule));
}

pub(super) fn schema(
    version: &Value,
    has_status: bool,
    here: &Here<'_>,
    errors: &mut Vec<FieldError>,
) {
    let Some(schema) = version
        .get("schema")
        .and_then(|schema| object(schema, "openAPIV3Schema"))
    else {
        return;
    };
    let here = here.field("openAPIV3Schema");
    if has_status {
        root_of_status(schema, &here, errors);
    }
    if flag(schema, "nullable") {
        let rule = "nullable cannot be true at the root";
        errors.push(FieldError::forbidden(&here.field("nullable"), rule));
    }
    let mut own = structural::errors(schema, &here);
    if own.is_empty() {
        openapi::default_errors(schema, &here, &mut own);
    }
    errors.extend(own);
    openapi::errors(schema, &here, Place::ROOT, errors);
}

/// If the status is written apart, its schema is `properties.status`, so nothing else at the
/// root may be about it.
fn root_of_status(schema: &Value, here: &Here<'_>, errors: &mut Vec<FieldError>) {
    const FORBIDDEN: [&str; 12] = [
        "additionalProperties",
        "allOf",
        "anyOf",
        "default",
        "enum",
        "maxProperties",
        "minProperties",
        "not",
        "nullable",
        "oneOf",
        "x-kubernetes-int-or-string",
        "x-kubernetes-map-type",
    ];
    const ALLOWED: &str = "[Description Type Format Title Maximum ExclusiveMaximum Minimum \
                           ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems \
                           MultipleOf Required Items Properties ExternalDocs Example \
                           XPreserveUnknownFields XValidations]";
    let found = text(schema, "type");
    if !matches!(found, "" | "object") {
        let rule = "only \"object\" is allowed as the type at the root of the schema if the status \
                    subresource is enabled";
        errors.push(FieldError::invalid(&here.field("type"), found, rule));
    } else if FORBIDDEN
        .iter()
        .any(|name| schema.get(*name).is_some_and(|it| !it.is_null()))
    {
        let rule = format!(
            "only {ALLOWED} fields are allowed at the root of the schema if the status subresource is \
             enabled"
        );
        errors.push(FieldError::invalid(here, schema, rule));
    }
}

pub(super) fn scale(version: &Value, here: &Here<'_>, errors: &mut Vec<FieldError>) {
    let Some(scale) = version
        .get("subresources")
        .and_then(|subresources| object(subresources, "scale"))
    else {
        return;
    };
    for (name, prefixes, under) in [
        ("specReplicasPath", &[".spec."][..], "under .spec"),
        ("statusReplicasPath", &[".status."][..], "under .status"),
        (
            "labelSelectorPath",
            &[".spec.", ".status."][..],
            "under either .spec or .status",
        ),
    ] {
        let (path, here) = (text(scale, name), here.field("scale"));
        let here = here.field(name);
        if path.is_empty() {
            if name != "labelSelectorPath" {
                errors.push(FieldError::required(&here, ""));
            }
        } else if !path.starts_with('.') {
            let rule = "must be a simple json path starting with .";
            errors.push(FieldError::invalid(&here, path, rule));
        } else if !prefixes.iter().any(|prefix| path.starts_with(prefix)) {
            let rule = format!("should be a json path {under}");
            errors.push(FieldError::invalid(&here, path, rule));
        }
    }
}

pub(super) fn columns(version: &Value, here: &Here<'_>, errors: &mut Vec<FieldError>) {
    const TYPES: &str = "must be one of boolean,date,integer,number,string";
    const FORMATS: [&str; 8] = [
        "byte",
        "date",
        "date-time",
        "double",
        "float",
        "int32",
        "int64",
        "password",
    ];
    for (index, column) in list(version, "additionalPrinterColumns").iter().enumerate() {
        let here = here.index(index);
        if text(column, "name").is_empty() {
            errors.push(FieldError::required(&here.field("name"), ""));
        }
        match text(column, "type") {
            "boolean" | "date" | "integer" | "number" | "string" => {}
            "" => errors.push(FieldError::required(&here.field("type"), TYPES)),
            other => errors.push(FieldError::invalid(&here.field("type"), other, TYPES)),
        }
        let format = text(column, "format");
        if !format.is_empty() && !FORMATS.contains(&format) {
            let rule = format!("must be one of {}", FORMATS.join(","));
            errors.push(FieldError::invalid(&here.field("format"), format, rule));
        }
        match text(column, "jsonPath") {
            "" => errors.push(FieldError::required(&here.field("JSONPath"), "")),
            path if !path.starts_with('.') => {
                let rule = "must be a simple json path starting with .";
                errors.push(FieldError::invalid(&here.field("JSONPath"), path, rule));
            }
            _ => {}
        }
    }
}
