//! Autoscalers, and scales.

use outrank_apiserver::table::Columns;
use serde_json::{Value, json};

use super::{Cases, NOW, completed};
use crate::nanos;

pub(super) fn check(cases: &mut Cases) {
    let kind = "HorizontalPodAutoscaler";
    let autoscaler = |metrics: Value, current: Value| {
        json!({
            "spec": {
                "scaleTargetRef": {"kind": "Deployment", "name": "web"}, "minReplicas": 1,
                "maxReplicas": 3, "metrics": metrics,
            },
            "status": {"currentReplicas": 2, "currentMetrics": current},
        })
    };
    let expected = |targets: &str| json!(["it", "Deployment/web", targets, "1", 3, 2, "5m"]);
    let metric = |type_: &str, source: &str, target: Value| {
        json!([{
            "type": type_, source: {"name": "cpu", "target": target},
        }])
    };
    let measured = |source: &str, current: Value| json!([{source: {"current": current}}]);
    let half = json!({"averageUtilization": 50});
    let (average, value) = (json!({"averageValue": "1500m"}), json!({"value": "7"}));
    let cases_of_v2 = [
        (json!([]), json!([]), "<none>"),
        (
            metric("Resource", "resource", half.clone()),
            json!([]),
            "cpu: <unknown>/50%",
        ),
        (
            metric("Resource", "resource", half.clone()),
            measured("resource", json!({"averageUtilization": 37})),
            "cpu: 37%/50%",
        ),
        (
            metric("Resource", "resource", json!({})),
            json!([]),
            "cpu: <unknown>/<auto>",
        ),
        (
            metric("ContainerResource", "containerResource", average.clone()),
            measured("containerResource", json!({"averageValue": "2000m"})),
            "cpu: 2/1500m",
        ),
        (
            metric("Pods", "pods", average.clone()),
            measured("pods", json!({"averageValue": "1k"})),
            "1k/1500m",
        ),
        (
            metric("Object", "object", value.clone()),
            measured("object", value.clone()),
            "7/7",
        ),
        (
            metric("External", "external", value.clone()),
            json!([]),
            "<unknown>/7",
        ),
        (
            metric("External", "external", average.clone()),
            measured("external", value),
            "<unknown>/1500m (avg)",
        ),
        (
            metric("Object", "object", average.clone()),
            measured("object", average),
            "1500m/1500m (avg)",
        ),
        (
            json!([{"type": "Mood"}, {}, {}]),
            json!([]),
            "<unknown type>, <unknown type> + 1 more...",
        ),
    ];
    for (metrics, current, targets) in cases_of_v2 {
        cases.check(
            "autoscaling/v2",
            kind,
            autoscaler(metrics, current),
            expected(targets),
        );
    }
    let mut old = autoscaler(json!([]), json!([]));
    old["spec"]["targetCPUUtilizationPercentage"] = 80.into();
    cases.check(
        "autoscaling/v1",
        kind,
        old.clone(),
        expected("cpu: <unknown>/80%"),
    );
    old["status"]["currentCPUUtilizationPercentage"] = 20.into();
    cases.check(
        "autoscaling/v1",
        kind,
        old.clone(),
        expected("cpu: 20%/80%"),
    );
    old["metadata"] = json!({"annotations": {
        "autoscaling.alpha.kubernetes.io/metrics":
            r#"[{"type":"Pods","pods":{"metricName":"m","targetAverageValue":"5"}}]"#,
        "autoscaling.alpha.kubernetes.io/current-metrics":
            r#"[{"type":"Pods","pods":{"metricName":"m","currentAverageValue":"4"}}]"#,
    }});
    cases.check("autoscaling/v1", kind, old, expected("4/5, cpu: 20%/80%"));
    let scale = completed(json!({"spec": {"replicas": 3}, "status": {"replicas": 2}}));
    let cells = Columns::of_scale().cells(&scale, nanos(NOW));
    assert_eq!(json!(cells), json!(["it", 3, 2, "5m"]));
}
