//! Small kinds of the core group, and what is shown of kinds that have no columns of their own.

use outrank_api::time::rfc3339;
use serde_json::Value;

use super::BuiltIn;
use super::age::time;
use super::cell::{self, condition, text};
use super::column::{AGE, NAME, date, text as texts};

/// For kinds that upstream has no columns for: Roles, ClusterRoles, LimitRanges,
/// CustomResourceDefinitions. Source: `k8s.io/apiserver/pkg/registry/rest/table.go`.
pub(super) static DEFAULT: BuiltIn = BuiltIn::new(
    &[NAME, date("Created At", "When the object was created.")],
    default_cells,
);

pub(super) static NAMESPACES: BuiltIn = BuiltIn::new(
    &[
        NAME,
        texts("Status", "Whether the namespace is in use, or going."),
        AGE,
    ],
    namespace_cells,
);

pub(super) static SECRETS: BuiltIn = BuiltIn::new(
    &[
        NAME,
        texts("Type", "What the secret is for."),
        texts("Data", "How many values it has."),
        AGE,
    ],
    secret_cells,
);

pub(super) static CONFIG_MAPS: BuiltIn = BuiltIn::new(
    &[NAME, texts("Data", "How many values it has."), AGE],
    config_map_cells,
);

pub(super) static SERVICE_ACCOUNTS: BuiltIn = BuiltIn::new(&[NAME, AGE], name_and_age);

pub(super) static COMPONENT_STATUSES: BuiltIn = BuiltIn::new(
    &[
        NAME,
        texts("Status", "Whether the component works."),
        texts("Message", "What it says of itself."),
        texts("Error", "Why it does not work."),
    ],
    component_status_cells,
);

fn default_cells(object: &Value, _now_nanos: i64) -> Vec<Value> {
    let created = time(&object["metadata"]["creationTimestamp"]);
    // Go's time zero is the first of January of the year 1.
    let created = created.map_or_else(|| "0001-01-01T00:00:00Z".to_owned(), rfc3339);
    cells![cell::name(object), created]
}

/// For kinds of which nothing but their name is worth a column.
pub(super) fn name_and_age(object: &Value, now_nanos: i64) -> Vec<Value> {
    cells![cell::name(object), cell::age(object, now_nanos)]
}

fn namespace_cells(namespace: &Value, now_nanos: i64) -> Vec<Value> {
    cells![
        cell::name(namespace),
        text(&namespace["status"]["phase"]),
        cell::age(namespace, now_nanos),
    ]
}

fn secret_cells(secret: &Value, now_nanos: i64) -> Vec<Value> {
    cells![
        cell::name(secret),
        text(&secret["type"]),
        cell::count(&secret["data"]),
        cell::age(secret, now_nanos),
    ]
}

fn config_map_cells(config_map: &Value, now_nanos: i64) -> Vec<Value> {
    let (texts, binaries) = (&config_map["data"], &config_map["binaryData"]);
    cells![
        cell::name(config_map),
        cell::count(texts).saturating_add(cell::count(binaries)),
        cell::age(config_map, now_nanos),
    ]
}

fn component_status_cells(component: &Value, _now_nanos: i64) -> Vec<Value> {
    let healthy = condition(&component["conditions"], "Healthy");
    let status = match healthy.map(|condition| text(&condition["status"])) {
        Some("True") => "Healthy",
        Some(_) => "Unhealthy",
        None => "Unknown",
    };
    let said = |field| healthy.map_or("", |condition| text(&condition[field]));
    cells![
        cell::name(component),
        status,
        said("message"),
        said("error")
    ]
}
