//! What the API server knows of itself, and devices.

use serde_json::{Value, json};

use super::{Cases, NOW};

pub(super) fn check(cases: &mut Cases) {
    let service = |status: Value| {
        json!({
            "spec": {"service": {"namespace": "n", "name": "s"}},
            "status": {"conditions": [status]},
        })
    };
    let group = "apiregistration.k8s.io/v1";
    let available = json!({"type": "Available", "status": "True", "reason": "Passed"});
    cases.check(
        group,
        "APIService",
        service(available),
        json!(["it", "n/s", "True", "5m"]),
    );
    let missing = json!({"type": "Available", "status": "False", "reason": "Missing"});
    cases.check(
        group,
        "APIService",
        service(missing),
        json!(["it", "n/s", "False (Missing)", "5m"]),
    );
    cases.check(
        group,
        "APIService",
        json!({}),
        json!(["it", "Local", "Unknown", "5m"]),
    );
    let group = "flowcontrol.apiserver.k8s.io/v1";
    cases.check(
        group,
        "FlowSchema",
        json!({
            "spec": {
                "priorityLevelConfiguration": {"name": "exempt"}, "matchingPrecedence": 2,
                "distinguisherMethod": {"type": "ByUser"},
            },
            "status": {"conditions": [{"type": "Dangling", "status": "False"}]},
        }),
        json!(["it", "exempt", 2, "ByUser", "5m", "False"]),
    );
    cases.check(
        group,
        "FlowSchema",
        json!({}),
        json!(["it", "", 0, "<none>", "5m", "?"]),
    );
    let queuing = json!({"queues": 64, "handSize": 6, "queueLengthLimit": 50});
    let limited = json!({
        "nominalConcurrencyShares": 30, "limitResponse": {"type": "Queue", "queuing": queuing},
    });
    let kind = "PriorityLevelConfiguration";
    cases.check(
        group,
        kind,
        json!({"spec": {"type": "Limited", "limited": limited}}),
        json!(["it", "Limited", 30, 64, 6, 50, "5m"]),
    );
    cases.check(
        group,
        kind,
        json!({"spec": {"type": "Exempt", "exempt": {}}}),
        json!(["it", "Exempt", "<none>", "<none>", "<none>", "<none>", "5m"]),
    );
    admission(cases);
    let group = "resource.k8s.io/v1";
    for kind in ["DeviceClass", "ResourceClaimTemplate"] {
        cases.check(group, kind, json!({}), json!(["it", "5m"]));
    }
    let claim = |deleted: Value, status: Value| {
        json!({
            "metadata": {"deletionTimestamp": deleted}, "status": status,
        })
    };
    let (none, yes) = (Value::Null, Value::from(NOW));
    let (allocated, reserved) = (
        json!({"allocation": {}}),
        json!({"allocation": {}, "reservedFor": [{}]}),
    );
    let claims = [
        (claim(none.clone(), json!({})), "pending"),
        (claim(none.clone(), allocated.clone()), "allocated"),
        (claim(none, reserved.clone()), "allocated,reserved"),
        (claim(yes.clone(), json!({})), "deleted"),
        (claim(yes.clone(), allocated), "deleted,allocated"),
        (claim(yes, reserved), "deleted,allocated,reserved"),
    ];
    for (claim, state) in claims {
        cases.check(group, "ResourceClaim", claim, json!(["it", state, "5m"]));
    }
    cases.check(
        group,
        "ResourceSlice",
        json!({"spec": {"nodeName": "n", "driver": "gpu.io", "pool": {"name": "p"}}}),
        json!(["it", "n", "gpu.io", "p", "5m"]),
    );
}

fn admission(cases: &mut Cases) {
    let group = "admissionregistration.k8s.io/v1";
    for kind in [
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    ] {
        cases.check(
            group,
            kind,
            json!({"webhooks": [{}, {}]}),
            json!(["it", 2, "5m"]),
        );
    }
    for (kind, rules) in [
        ("MutatingAdmissionPolicy", "mutations"),
        ("ValidatingAdmissionPolicy", "validations"),
    ] {
        let param_kind = json!({"apiVersion": "v1", "kind": "ConfigMap"});
        let policy = json!({"spec": {"paramKind": param_kind, rules: [{}]}});
        cases.check(group, kind, policy, json!(["it", 1, "v1/ConfigMap", "5m"]));
        cases.check(group, kind, json!({}), json!(["it", 0, "<unset>", "5m"]));
    }
    let selector = json!({
        "matchLabels": {"b": "2", "a": "1"},
        "matchExpressions": [{"key": "c", "operator": "In", "values": ["x", "y"]}],
    });
    let references = [
        (json!({"name": "p", "namespace": "n"}), "n/p"),
        (json!({"name": "p"}), "*/p"),
        (
            json!({"selector": selector}),
            "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},MatchExpressions:\
             []LabelSelectorRequirement{LabelSelectorRequirement{Key:c,Operator:In,Values:[x y],},},}",
        ),
        (json!(null), "<unset>"),
    ];
    for kind in [
        "MutatingAdmissionPolicyBinding",
        "ValidatingAdmissionPolicyBinding",
    ] {
        for (reference, shown) in &references {
            let binding = json!({"spec": {"policyName": "policy", "paramRef": reference}});
            cases.check(group, kind, binding, json!(["it", "policy", shown, "5m"]));
        }
    }
}
