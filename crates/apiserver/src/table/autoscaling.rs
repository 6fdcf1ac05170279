//! HorizontalPodAutoscalers, and the scale of what they and people scale.
//!
//! A target is shown as `current/wanted`, after the name of the resource if it is about one:
//! `cpu: 37%/50%`. Version 1 has a field for the processor alone, and the other metrics in
//! annotations, in a form of their own (`pkg/apis/autoscaling/v1/conversion.go`).

use serde_json::{Map, Value, json};

use super::BuiltIn;
use super::cell::{self, NONE, UNKNOWN, UNSET, integer, list, text};
use super::column::{AGE, Heading, NAME, integer as integers, text as texts};

/// How many targets are shown one by one.
const MAX_SHOWN: usize = 2;

const COLUMNS: &[Heading] = &[
    NAME,
    texts("Reference", "What is scaled."),
    texts("Targets", "What is measured, and what it should be."),
    texts("MinPods", "How few pods there may be."),
    texts("MaxPods", "How many pods there may be."),
    texts("Replicas", "How many pods there are."),
    AGE,
];

pub(super) static AUTOSCALERS_V2: BuiltIn = BuiltIn::new(COLUMNS, autoscaler_v2_cells);

pub(super) static AUTOSCALERS_V1: BuiltIn = BuiltIn::new(COLUMNS, autoscaler_v1_cells);

/// Of the subresource `scale`.
pub(super) static SCALES: BuiltIn = BuiltIn::new(
    &[
        NAME.formatted(""),
        integers("Desired", "How many pods there should be."),
        integers("Available", "How many pods there are."),
        AGE,
    ],
    scale_cells,
);

fn scale_cells(scale: &Value, now_nanos: i64) -> Vec<Value> {
    cells![
        cell::name(scale),
        integer(&scale["spec"]["replicas"]),
        integer(&scale["status"]["replicas"]),
        cell::age(scale, now_nanos),
    ]
}

fn autoscaler_v2_cells(autoscaler: &Value, now_nanos: i64) -> Vec<Value> {
    let metrics = list(&autoscaler["spec"]["metrics"]);
    let current = list(&autoscaler["status"]["currentMetrics"]);
    autoscaler_cells(autoscaler, targets(metrics, current), now_nanos)
}

fn autoscaler_v1_cells(autoscaler: &Value, now_nanos: i64) -> Vec<Value> {
    let (metrics, current) = (metrics_of_v1(autoscaler), current_metrics_of_v1(autoscaler));
    autoscaler_cells(autoscaler, targets(&metrics, &current), now_nanos)
}

fn autoscaler_cells(autoscaler: &Value, targets: String, now_nanos: i64) -> Vec<Value> {
    let (spec, status) = (&autoscaler["spec"], &autoscaler["status"]);
    let scaled = &spec["scaleTargetRef"];
    let min_pods = spec["minReplicas"].as_i64();
    cells![
        cell::name(autoscaler),
        format!("{}/{}", text(&scaled["kind"]), text(&scaled["name"])),
        targets,
        min_pods.map_or_else(|| UNSET.to_owned(), |min| min.to_string()),
        integer(&spec["maxReplicas"]),
        integer(&status["currentReplicas"]),
        cell::age(autoscaler, now_nanos),
    ]
}

/// The metrics of a spec with the measurements of a status, which stand in the same order.
fn targets(metrics: &[Value], current: &[Value]) -> String {
    if metrics.is_empty() {
        return NONE.to_owned();
    }
    let shown = metrics.iter().enumerate().take(MAX_SHOWN);
    let shown = shown.map(|(i, metric)| target(metric, current.get(i).unwrap_or(&Value::Null)));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match metrics.len().saturating_sub(MAX_SHOWN) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

fn target(metric: &Value, measured: &Value) -> String {
    let source = match text(&metric["type"]) {
        "External" => "external",
        "Object" => "object",
        "Pods" => "pods",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let (target, current) = (&metric[source]["target"], &measured[source]["current"]);
    let average = &target["averageValue"];
    match source {
        "pods" => format!(
            "{}/{}",
            amount(current, "averageValue"),
            go_quantity(average)
        ),
        "external" | "object" if average.is_null() => {
            let wanted = go_quantity(&target["value"]);
            format!("{}/{wanted}", amount(current, "value"))
        }
        "external" | "object" => {
            // That it was measured is not enough, the average must have been.
            let measured = match &current["averageValue"] {
                Value::Null => UNKNOWN.to_owned(),
                average => cell::quantity(average),
            };
            format!("{measured}/{} (avg)", cell::quantity(average))
        }
        _ => {
            let name = text(&metric[source]["name"]);
            format!("{name}: {}", resource_target(target, current))
        }
    }
}

/// The target of a resource: an amount per pod, or a part of what pods request.
fn resource_target(target: &Value, current: &Value) -> String {
    let average = &target["averageValue"];
    if !average.is_null() {
        let measured = amount(current, "averageValue");
        return format!("{measured}/{}", cell::quantity(average));
    }
    let percentage = |value: &Value, absent: &str| match value["averageUtilization"].as_i64() {
        Some(utilization) => format!("{utilization}%"),
        None => absent.to_owned(),
    };
    let measured = percentage(current, UNKNOWN);
    format!("{measured}/{}", percentage(target, "<auto>"))
}

/// A measured amount; unknown if nothing was measured.
fn amount(current: &Value, field: &str) -> String {
    match current {
        Value::Null => UNKNOWN.to_owned(),
        current => go_quantity(&current[field]),
    }
}

/// A quantity; Go shows an absent one so.
fn go_quantity(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        value => cell::quantity(value),
    }
}

const METRICS_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/current-metrics";

/// The metrics of version 1 in the form of version 2.
fn metrics_of_v1(autoscaler: &Value) -> Vec<Value> {
    let spec = &autoscaler["spec"];
    let convert = |metric: &Value| metric_of_v1(metric, "target", target_of_v1);
    let mut metrics = annotated(autoscaler, METRICS_ANNOTATION, convert);
    let percentage = &spec["targetCPUUtilizationPercentage"];
    if !percentage.is_null() {
        let target = json!({"averageUtilization": percentage});
        metrics.push(json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}));
    }
    metrics
}

/// The measurements of version 1 in the form of version 2.
fn current_metrics_of_v1(autoscaler: &Value) -> Vec<Value> {
    let status = &autoscaler["status"];
    let convert = |metric: &Value| metric_of_v1(metric, "current", current_of_v1);
    let mut metrics = annotated(autoscaler, CURRENT_METRICS_ANNOTATION, convert);
    let percentage = &status["currentCPUUtilizationPercentage"];
    if !percentage.is_null() {
        let current = json!({"averageUtilization": percentage});
        metrics.push(json!({"type": "Resource", "resource": {"name": "cpu", "current": current}}));
    }
    metrics
}

/// The list in an annotation, each element converted; empty if it cannot be read.
fn annotated(object: &Value, annotation: &str, convert: impl Fn(&Value) -> Value) -> Vec<Value> {
    let text = text(&object["metadata"]["annotations"][annotation]);
    let list: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
    list.iter().map(convert).collect()
}

/// A metric or measurement of version 1, whose amounts version 2 gathers in `gathered`.
fn metric_of_v1(metric: &Value, gathered: &str, gather: fn(&Value) -> Value) -> Value {
    let fields = metric.as_object().into_iter().flatten();
    let convert = |(name, source): (&String, &Value)| {
        let converted = match source {
            Value::Object(_) => json!({"name": source["name"], gathered: gather(source)}),
            other => other.clone(),
        };
        (name.clone(), converted)
    };
    Value::Object(fields.map(convert).collect::<Map<_, _>>())
}

fn target_of_v1(source: &Value) -> Value {
    // Objects have `averageValue`, all others `targetAverageValue`.
    json!({
        "averageUtilization": source["targetAverageUtilization"],
        "averageValue": first(&source["targetAverageValue"], &source["averageValue"]),
        "value": source["targetValue"],
    })
}

fn current_of_v1(source: &Value) -> Value {
    json!({
        "averageUtilization": source["currentAverageUtilization"],
        "averageValue": first(&source["currentAverageValue"], &source["averageValue"]),
        "value": source["currentValue"],
    })
}

fn first<'v>(one: &'v Value, other: &'v Value) -> &'v Value {
    if one.is_null() { other } else { one }
}
