//! What limits and orders workloads: quotas, budgets of disruptions, priorities.

use serde_json::Value;

use super::BuiltIn;
use super::cell::{self, boolean, integer, text};
use super::column::{AGE, NAME, boolean as booleans, integer as integers, text as texts};

pub(super) static RESOURCE_QUOTAS: BuiltIn = BuiltIn::new(
    &[
        NAME,
        texts("Request", "What is used of what may be used, save limits."),
        texts(
            "Limit",
            "What is used of what containers may be limited to.",
        ),
        AGE,
    ],
    resource_quota_cells,
);

pub(super) static POD_DISRUPTION_BUDGETS: BuiltIn = BuiltIn::new(
    &[
        NAME,
        texts("Min Available", "How many pods must stay."),
        texts("Max Unavailable", "How many pods may be away."),
        integers("Allowed Disruptions", "How many pods may go now."),
        AGE,
    ],
    pod_disruption_budget_cells,
);

pub(super) static PRIORITY_CLASSES: BuiltIn = BuiltIn::new(
    &[
        NAME,
        integers("Value", "The priority of pods of the class."),
        booleans(
            "Global-Default",
            "Whether pods without a class are of this one.",
        ),
        AGE,
        texts(
            "PreemptionPolicy",
            "Whether pods of the class may take the place of others.",
        ),
    ],
    priority_class_cells,
);

/// `resource: used/hard` of all resources, those whose name begins with `limits.` apart.
fn resource_quota_cells(quota: &Value, now_nanos: i64) -> Vec<Value> {
    let status = &quota["status"];
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    // The map is in order of names, as upstream sorts them.
    for (resource, hard) in status["hard"].as_object().into_iter().flatten() {
        let (used, hard) = (&status["used"][resource], cell::quantity(hard));
        let shown = format!("{resource}: {}/{hard}", cell::quantity(used));
        if resource.starts_with("limits.") {
            limits.push(shown);
        } else {
            requests.push(shown);
        }
    }
    cells![
        cell::name(quota),
        requests.join(", "),
        limits.join(", "),
        cell::age(quota, now_nanos),
    ]
}

fn pod_disruption_budget_cells(budget: &Value, now_nanos: i64) -> Vec<Value> {
    let spec = &budget["spec"];
    cells![
        cell::name(budget),
        number_or_percentage(&spec["minAvailable"]),
        number_or_percentage(&spec["maxUnavailable"]),
        integer(&budget["status"]["disruptionsAllowed"]),
        cell::age(budget, now_nanos),
    ]
}

fn number_or_percentage(value: &Value) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        Value::String(percentage) => percentage.clone(),
        _ => "N/A".to_owned(),
    }
}

fn priority_class_cells(class: &Value, now_nanos: i64) -> Vec<Value> {
    cells![
        cell::name(class),
        integer(&class["value"]),
        boolean(&class["globalDefault"]),
        cell::age(class, now_nanos),
        text(&class["preemptionPolicy"]),
    ]
}
