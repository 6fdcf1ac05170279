//! What an API server knows of itself: other servers behind it, and how it shares out its time.

use std::cmp::Ordering;

use serde_json::Value;

use super::BuiltIn;
use super::cell::{self, NONE, condition, integer, text};
use super::column::{AGE, NAME, text as texts};

/// Source: `k8s.io/kube-aggregator/pkg/registry/apiservice/etcd/etcd.go`, Kubernetes 1.36.
pub(super) static API_SERVICES: BuiltIn = BuiltIn::new(
    &[
        NAME,
        texts("Service", "The service that answers, or Local."),
        texts("Available", "Whether it does."),
        AGE,
    ],
    api_service_cells,
);

pub(super) static FLOW_SCHEMAS: BuiltIn = BuiltIn {
    order: Some(flow_schema_order),
    ..BuiltIn::new(
        &[
            NAME,
            texts("PriorityLevel", "The level that requests get."),
            texts(
                "MatchingPrecedence",
                "Which schema goes first; the lower, the earlier.",
            ),
            texts(
                "DistinguisherMethod",
                "What separates the flows of requests.",
            ),
            AGE,
            texts("MissingPL", "Whether the level is missing."),
        ],
        flow_schema_cells,
    )
};

pub(super) static PRIORITY_LEVEL_CONFIGURATIONS: BuiltIn = BuiltIn::new(
    &[
        NAME,
        texts("Type", "Whether requests of the level are limited."),
        texts(
            "NominalConcurrencyShares",
            "The share of requests at a time.",
        ),
        texts("Queues", "How many queues there are."),
        texts("HandSize", "How many queues a flow is dealt."),
        texts("QueueLengthLimit", "How many requests may wait in a queue."),
        AGE,
    ],
    priority_level_configuration_cells,
);

fn api_service_cells(api_service: &Value, now_nanos: i64) -> Vec<Value> {
    let service = match &api_service["spec"]["service"] {
        Value::Null => "Local".to_owned(),
        it => format!("{}/{}", text(&it["namespace"]), text(&it["name"])),
    };
    cells![
        cell::name(api_service),
        service,
        availability(&api_service["status"]),
        cell::age(api_service, now_nanos),
    ]
}

/// The status of the condition, and its reason if that is not good.
fn availability(status: &Value) -> String {
    let Some(available) = condition(&status["conditions"], "Available") else {
        return "Unknown".to_owned();
    };
    match (text(&available["status"]), text(&available["reason"])) {
        (status @ "True", _) | (status, "") => status.to_owned(),
        (status, reason) => format!("{status} ({reason})"),
    }
}

/// The order in which schemas are tried.
fn flow_schema_order(a: &Value, b: &Value) -> Ordering {
    let precedence = |it: &Value| integer(&it["spec"]["matchingPrecedence"]);
    (precedence(a), cell::name(a)).cmp(&(precedence(b), cell::name(b)))
}

fn flow_schema_cells(schema: &Value, now_nanos: i64) -> Vec<Value> {
    let spec = &schema["spec"];
    let method = match &spec["distinguisherMethod"] {
        Value::Null => NONE,
        method => text(&method["type"]),
    };
    let dangling = condition(&schema["status"]["conditions"], "Dangling");
    cells![
        cell::name(schema),
        text(&spec["priorityLevelConfiguration"]["name"]),
        integer(&spec["matchingPrecedence"]),
        method,
        cell::age(schema, now_nanos),
        dangling.map_or("?", |condition| text(&condition["status"])),
    ]
}

fn priority_level_configuration_cells(level: &Value, now_nanos: i64) -> Vec<Value> {
    let (spec, limited) = (&level["spec"], &level["spec"]["limited"]);
    let queuing = &limited["limitResponse"]["queuing"];
    // The cells of what there is are integers, the others text.
    let number = |parent: &Value, field| match parent {
        Value::Null => Value::from(NONE),
        parent => Value::from(integer(&parent[field])),
    };
    cells![
        cell::name(level),
        text(&spec["type"]),
        number(limited, "nominalConcurrencyShares"),
        number(queuing, "queues"),
        number(queuing, "handSize"),
        number(queuing, "queueLengthLimit"),
        cell::age(level, now_nanos),
    ]
}
