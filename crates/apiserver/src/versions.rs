//! One object in several versions of the API.
//!
//! Events are known as `v1` and as `events.k8s.io/v1`, autoscalers as `autoscaling/v1` and `v2`.
//! Both have one stored form; here is how the other is made of it and back. Sources, Kubernetes
//! 1.36: `pkg/apis/core/v1/conversion.go`, `pkg/apis/events/v1/conversion.go`,
//! `pkg/apis/autoscaling/v1/conversion.go`.

use outrank_api::resource_type::ResourceType;
use serde_json::{Map, Value, json};

/// Fields of events by their names in `v1` and in `events.k8s.io/v1`.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// What `autoscaling/v1` has no field for stands in annotations.
const METRICS_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CURRENT_METRICS_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/conditions";

/// The object as it is stored, of one as it is served.
pub fn to_stored(served: &ResourceType, stored: &ResourceType, object: Value) -> Value {
    convert(served, stored, object)
}

/// The object as it is served, of one as it is stored.
pub fn to_served(served: &ResourceType, stored: &ResourceType, object: Value) -> Value {
    convert(stored, served, object)
}

fn convert(from: &ResourceType, to: &ResourceType, mut object: Value) -> Value {
    if let Value::Object(fields) = &mut object {
        match (
            from.group.as_str(),
            from.version.as_str(),
            to.group.as_str(),
        ) {
            ("events.k8s.io", _, "") => rename(fields, |(core, own)| (own, core)),
            ("", _, "events.k8s.io") => rename(fields, |(core, own)| (core, own)),
            ("autoscaling", "v1", _) if to.version == "v2" => to_autoscaling_v2(fields),
            ("autoscaling", "v2", _) if to.version == "v1" => to_autoscaling_v1(fields),
            _ => {}
        }
        fields.insert("apiVersion".to_owned(), to.api_version().into());
        fields.insert("kind".to_owned(), to.kind.as_str().into());
    }
    object
}

fn rename(
    fields: &mut Map<String, Value>,
    direction: impl Fn((&'static str, &'static str)) -> (&'static str, &'static str),
) {
    for (from, to) in EVENT_FIELDS.map(direction) {
        if let Some(value) = fields.remove(from) {
            fields.insert(to.to_owned(), value);
        }
    }
}

fn to_autoscaling_v2(fields: &mut Map<String, Value>) {
    let mut annotation = |name: &str| {
        let annotations = fields.get_mut("metadata")?.get_mut("annotations")?;
        let text = annotations.as_object_mut()?.remove(name)?;
        serde_json::from_str::<Value>(text.as_str()?).ok()
    };
    let metrics = annotation(METRICS_ANNOTATION);
    let behavior = annotation(BEHAVIOR_ANNOTATION);
    let current = annotation(CURRENT_METRICS_ANNOTATION);
    let conditions = annotation(CONDITIONS_ANNOTATION);
    if let Some(Value::Object(spec)) = fields.get_mut("spec") {
        let percent = spec.remove("targetCPUUtilizationPercentage");
        let of_cpu = percent.map(|percent| {
            json!({"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": percent}}})
        });
        let more = metrics
            .and_then(|it| it.as_array().cloned())
            .unwrap_or_default();
        let all: Vec<Value> = more.into_iter().chain(of_cpu).collect();
        if !all.is_empty() {
            spec.insert("metrics".to_owned(), all.into());
        }
        spec.extend(behavior.map(|it| ("behavior".to_owned(), it)));
    }
    if let Some(Value::Object(status)) = fields.get_mut("status") {
        let percent = status.remove("currentCPUUtilizationPercentage");
        let of_cpu = percent.map(|percent| {
            json!({"type": "Resource", "resource": {"name": "cpu",
                "current": {"averageUtilization": percent, "averageValue": "0"}}})
        });
        let more = current
            .and_then(|it| it.as_array().cloned())
            .unwrap_or_default();
        let all: Vec<Value> = more.into_iter().chain(of_cpu).collect();
        if !all.is_empty() {
            status.insert("currentMetrics".to_owned(), all.into());
        }
        status.extend(conditions.map(|it| ("conditions".to_owned(), it)));
    }
}

fn to_autoscaling_v1(fields: &mut Map<String, Value>) {
    let mut annotations = Vec::new();
    if let Some(Value::Object(spec)) = fields.get_mut("spec") {
        let (percent, rest) = without_cpu(spec.remove("metrics"), "target");
        spec.extend(percent.map(|it| ("targetCPUUtilizationPercentage".to_owned(), it)));
        annotations.extend(rest.map(|it| (METRICS_ANNOTATION, it)));
        annotations.extend(spec.remove("behavior").map(|it| (BEHAVIOR_ANNOTATION, it)));
    }
    if let Some(Value::Object(status)) = fields.get_mut("status") {
        let (percent, rest) = without_cpu(status.remove("currentMetrics"), "current");
        status.extend(percent.map(|it| ("currentCPUUtilizationPercentage".to_owned(), it)));
        annotations.extend(rest.map(|it| (CURRENT_METRICS_ANNOTATION, it)));
        let conditions = status.remove("conditions");
        annotations.extend(conditions.map(|it| (CONDITIONS_ANNOTATION, it)));
    }
    if annotations.is_empty() {
        return;
    }
    if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
        let place = metadata.entry("annotations").or_insert_with(|| json!({}));
        if let Value::Object(place) = place {
            let texts = annotations.into_iter();
            place.extend(texts.map(|(name, value)| (name.to_owned(), value.to_string().into())));
        }
    }
}

/// The utilization of CPU among metrics, and the other metrics.
fn without_cpu(metrics: Option<Value>, part: &str) -> (Option<Value>, Option<Value>) {
    let Some(Value::Array(metrics)) = metrics else {
        return (None, None);
    };
    let mut percent = None;
    let mut rest = Vec::new();
    for metric in metrics {
        let is_cpu = metric.pointer("/resource/name").and_then(Value::as_str) == Some("cpu");
        let utilization = metric.pointer(&format!("/resource/{part}/averageUtilization"));
        match utilization.cloned().filter(|_| is_cpu && percent.is_none()) {
            Some(found) => percent = Some(found),
            None => rest.push(metric),
        }
    }
    (percent, (!rest.is_empty()).then_some(Value::Array(rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(served: (&str, &str), stored: (&str, &str)) -> [&'static ResourceType; 2] {
        [served, stored].map(|(version, kind)| {
            &**ResourceType::of_kind(version, kind).expect("a built-in type")
        })
    }

    #[test]
    fn events_have_two_names_for_their_fields() {
        let [served, stored] = types(("events.k8s.io/v1", "Event"), ("v1", "Event"));
        let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": {"name": "e"}, "note": "hello", "regarding": {"kind": "Pod"},
            "reportingController": "me", "reason": "Why"});
        let kept = to_stored(served, stored, event.clone());
        assert_eq!(
            kept,
            json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"},
            "message": "hello", "involvedObject": {"kind": "Pod"},
            "reportingComponent": "me", "reason": "Why"})
        );
        assert_eq!(to_served(served, stored, kept), event);
    }

    #[test]
    fn autoscalers_go_both_ways() {
        let kind = "HorizontalPodAutoscaler";
        let [served, stored] = types(("autoscaling/v1", kind), ("autoscaling/v2", kind));
        let old = json!({"apiVersion": "autoscaling/v1", "kind": kind,
            "metadata": {"name": "h", "annotations": {"a": "b"}},
            "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 70}});
        let kept = to_stored(served, stored, old.clone());
        let target = kept.pointer("/spec/metrics/0/resource/target/averageUtilization");
        assert_eq!(target, Some(&json!(70)));
        assert_eq!(to_served(served, stored, kept), old);
    }
}
