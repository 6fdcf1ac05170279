//! Makes the table of Kubernetes types, `crates/api/src/schema/types.txt`, from the
//! OpenAPI schemas that the crate `k8s-openapi` carries for Kubernetes 1.36.
//!
//! Only compiled with the feature `schema`, so that an ordinary build does not
//! compile all of the Kubernetes API:
//!
//! ```text
//! cargo run --release -p xtask --features schema -- schema > crates/api/src/schema/types.txt
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result, bail};
use k8s_openapi::api;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration as aggregator;
use k8s_openapi::schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value};

const HEADER: &str = "\
# The types of the Kubernetes 1.36 API, one line for each kind, type and field.
#
# Made by `cargo run --release -p xtask --features schema -- schema` from the crate
# k8s-openapi; do not edit. What the API's schema does not say (values of
# enumerations, ranges, required fields) is in rules.txt.
#
#   kind API_VERSION KIND TYPE     objects of this kind have this type
#   type TYPE PACKAGE              the fields that follow belong to this type, which
#                                  OpenAPI calls PACKAGE with the last part of TYPE
#     FIELD FIELD_TYPE [required]  required: the API's own schema says so
#
# A field type is a TYPE or any, bool, bytes, double, int32, int64, intOrString,
# quantity, string, time; [T] is a list of T and {T} a map from strings to T.

";

/// The kinds of the table: API version, kind and schema.
macro_rules! kinds {
    ($generator:ident, $kinds:ident; $($module:path { $($kind:ident)* })*) => {
        $({
            use $module as module;
            $(
                let api_version = <module::$kind as k8s_openapi::Resource>::API_VERSION;
                $generator.subschema_for::<module::$kind>();
                let schema_name = <module::$kind as JsonSchema>::schema_name().into_owned();
                $kinds.push((api_version, stringify!($kind), schema_name));
            )*
        })*
    };
}

/// The table as text.
///
/// # Errors
///
/// A schema of a form that the table cannot express.
pub fn table() -> Result<String> {
    let mut generator = SchemaGenerator::new(SchemaSettings::draft07());
    let mut kinds: Vec<(&str, &str, String)> = Vec::new();
    kinds! { generator, kinds;
        api::admissionregistration::v1 {
            MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration
            ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
            ValidatingWebhookConfiguration
        }
        apiextensions::v1 { CustomResourceDefinition }
        aggregator::v1 { APIService }
        api::apps::v1 { ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet }
        api::authentication::v1 { SelfSubjectReview TokenRequest TokenReview }
        api::authorization::v1 {
            LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview
            SubjectAccessReview
        }
        api::autoscaling::v1 { HorizontalPodAutoscaler Scale }
        api::autoscaling::v2 { HorizontalPodAutoscaler }
        api::batch::v1 { CronJob Job }
        api::certificates::v1 { CertificateSigningRequest }
        api::coordination::v1 { Lease }
        api::core::v1 {
            Binding ComponentStatus ConfigMap Endpoints Event LimitRange Namespace Node
            PersistentVolume PersistentVolumeClaim Pod PodTemplate ReplicationController
            ResourceQuota Secret Service ServiceAccount
        }
        api::discovery::v1 { EndpointSlice }
        api::events::v1 { Event }
        api::flowcontrol::v1 { FlowSchema PriorityLevelConfiguration }
        api::networking::v1 {
            IPAddress Ingress IngressClass NetworkPolicy ServiceCIDR
        }
        api::node::v1 { RuntimeClass }
        api::policy::v1 { Eviction PodDisruptionBudget }
        api::rbac::v1 { ClusterRole ClusterRoleBinding Role RoleBinding }
        api::resource::v1 { DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice }
        api::scheduling::v1 { PriorityClass }
        api::storage::v1 {
            CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment
            VolumeAttributesClass
        }
    }
    // What an API server answers beside objects.
    generator.subschema_for::<meta::v1::APIResourceList>();
    generator.subschema_for::<meta::v1::ListMeta>();
    generator.subschema_for::<meta::v1::Status>();
    let definitions = generator.take_definitions(true);
    let names = short_names(definitions.keys());
    let mut out = HEADER.to_owned();
    kinds.sort();
    for (api_version, kind, schema_name) in &kinds {
        let type_name = names.get(schema_name).context("kind without a schema")?;
        writeln!(out, "kind {api_version} {kind} {type_name}")?;
    }
    let mut types = BTreeMap::new();
    for (name, schema) in &definitions {
        let schema = schema
            .as_object()
            .context("a schema that is not an object")?;
        if scalar(name).is_none() && schema.contains_key("properties") {
            let package = name.rsplit_once('.').map_or("", |(package, _)| package);
            types.insert(&names[name], (package, fields(schema, &names)?));
        }
    }
    for (type_name, (package, fields)) in types {
        writeln!(out, "\ntype {type_name} {package}")?;
        for (field, field_type) in fields {
            writeln!(out, "  {field} {field_type}")?;
        }
    }
    Ok(out)
}

/// Short names of schemas: the last part if it is unique among all, else with its group
/// and version before it.
fn short_names<'a>(names: impl Iterator<Item = &'a String> + Clone) -> BTreeMap<String, String> {
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    for name in names.clone() {
        *uses
            .entry(name.rsplit('.').next().unwrap_or(name))
            .or_default() += 1;
    }
    let short = |name: &String| {
        let mut parts = name.rsplit('.');
        let last = parts.next().unwrap_or(name);
        match (uses[last], parts.next(), parts.next()) {
            (2.., Some(version), Some(group)) => format!("{group}.{version}.{last}"),
            _ => last.to_owned(),
        }
    };
    names.map(|name| (name.clone(), short(name))).collect()
}

/// The fields of a type, each with what its line says after the name.
fn fields(
    schema: &Map<String, Value>,
    names: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_array);
    let is_required =
        |field: &str| required.is_some_and(|names| names.iter().any(|it| it == field));
    let mut fields = BTreeMap::new();
    for (field, schema) in properties.into_iter().flatten() {
        let mut line = field_type(schema, names).with_context(|| field.clone())?;
        // The crate always has metadata; the API does not demand it.
        if is_required(field) && field != "metadata" {
            line.push_str(" required");
        }
        fields.insert(field.clone(), line);
    }
    Ok(fields)
}

fn field_type(schema: &Value, names: &BTreeMap<String, String>) -> Result<String> {
    if let Some(reference) = reference(schema) {
        let scalar = scalar(reference).map(str::to_owned);
        return scalar
            .or_else(|| names.get(reference).cloned())
            .with_context(|| format!("unknown reference {reference}"));
    }
    let text = |name: &str| schema.get(name).and_then(Value::as_str).unwrap_or_default();
    Ok(match (text("type"), text("format")) {
        ("string", "byte") => "bytes".to_owned(),
        ("string", _) => "string".to_owned(),
        ("boolean", _) => "bool".to_owned(),
        ("integer", "int32") => "int32".to_owned(),
        ("integer", _) => "int64".to_owned(),
        ("number", _) => "double".to_owned(),
        ("array", _) => {
            let items = schema.get("items").context("a list without items")?;
            format!("[{}]", field_type(items, names)?)
        }
        ("object", _) => match schema.get("additionalProperties") {
            Some(values) => format!("{{{}}}", field_type(values, names)?),
            None => "any".to_owned(),
        },
        ("", _) => "any".to_owned(),
        (other, _) => bail!("unknown type {other}"),
    })
}

/// The schema a `$ref` points to, also when it is wrapped in `allOf` to add a description.
fn reference(schema: &Value) -> Option<&str> {
    let own = schema.get("$ref").and_then(Value::as_str);
    let wrapped = || schema.pointer("/allOf/0/$ref").and_then(Value::as_str);
    own.or_else(wrapped)?.strip_prefix("#/definitions/")
}

/// Schemas that are one value in JSON.
fn scalar(schema_name: &str) -> Option<&'static str> {
    Some(
        match schema_name.rsplit('.').next().unwrap_or(schema_name) {
            "Quantity" => "quantity",
            "Time" | "MicroTime" => "time",
            "IntOrString" => "intOrString",
            "FieldsV1"
            | "RawExtension"
            | "JSON"
            | "Patch"
            | "JSONSchemaPropsOrArray"
            | "JSONSchemaPropsOrBool"
            | "JSONSchemaPropsOrStringArray"
            | "CustomResourceSubresourceStatus" => "any",
            _ => return None,
        },
    )
}
