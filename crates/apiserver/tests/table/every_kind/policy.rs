//! What limits workloads, and who may do what.

use serde_json::{Value, json};

use super::Cases;

pub(super) fn check(cases: &mut Cases) {
    cases.check(
        "v1",
        "ResourceQuota",
        json!({"status": {
            "hard": {"pods": "4", "limits.cpu": "2", "requests.cpu": "1000m", "limits.memory": "1Gi"},
            "used": {"pods": "1", "limits.cpu": "500m"},
        }}),
        json!(["it", "pods: 1/4, requests.cpu: 0/1", "limits.cpu: 500m/2, limits.memory: 0/1Gi", "5m"]),
    );
    let budget = json!({"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 2}});
    let group = "policy/v1";
    cases.check(
        group,
        "PodDisruptionBudget",
        budget,
        json!(["it", "50%", "N/A", 2, "5m"]),
    );
    let budget = json!({"spec": {"maxUnavailable": 1}});
    cases.check(
        group,
        "PodDisruptionBudget",
        budget,
        json!(["it", "N/A", "1", 0, "5m"]),
    );
    cases.check(
        "scheduling.k8s.io/v1",
        "PriorityClass",
        json!({"value": -7, "globalDefault": true, "preemptionPolicy": "Never"}),
        json!(["it", -7, true, "5m", "Never"]),
    );
    for kind in ["RoleBinding", "ClusterRoleBinding"] {
        cases.check(
            "rbac.authorization.k8s.io/v1",
            kind,
            json!({
                "roleRef": {"kind": "ClusterRole", "name": "view"},
                "subjects": [
                    {"kind": "User", "name": "u1"}, {"kind": "Group", "name": "g1"},
                    {"kind": "User", "name": "u2"}, {"kind": "Robot", "name": "r"},
                    {"kind": "ServiceAccount", "namespace": "n", "name": "s"},
                ],
            }),
            json!(["it", "ClusterRole/view", "5m", "u1, u2", "g1", "n/s"]),
        );
    }
    let request = |conditions: Value, certificate: &str| {
        json!({
            "spec": {"signerName": "s.io/s", "username": "u", "expirationSeconds": 3600},
            "status": {"conditions": conditions, "certificate": certificate},
        })
    };
    let requests = [
        (request(json!([]), ""), "Pending"),
        (
            request(json!([{"type": "Approved"}]), "AA=="),
            "Approved,Issued",
        ),
        (
            request(json!([{"type": "Approved"}, {"type": "Denied"}]), ""),
            "Denied",
        ),
        (
            request(json!([{"type": "Failed"}, {"type": "Approved"}]), ""),
            "Approved,Failed",
        ),
    ];
    for (request, state) in requests {
        cases.check(
            "certificates.k8s.io/v1",
            "CertificateSigningRequest",
            request,
            json!(["it", "5m", "s.io/s", "u", "60m", state]),
        );
    }
    let lease = json!({"spec": {"holderIdentity": "node-1"}});
    cases.check(
        "coordination.k8s.io/v1",
        "Lease",
        lease,
        json!(["it", "node-1", "5m"]),
    );
    let class = json!({"handler": "runsc"});
    cases.check(
        "node.k8s.io/v1",
        "RuntimeClass",
        class,
        json!(["it", "runsc", "5m"]),
    );
}
