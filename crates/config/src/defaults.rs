//! What a configuration says when it says everything.
//!
//! Sources: `apis/config/v1/defaults.go`, `apis/config/v1/default_plugins.go`,
//! `component-base/config/v1alpha1/defaults.go`, Kubernetes 1.36.

use outrank_engine::profile::DEFAULT_SCHEDULER_NAME;
use serde_json::{Value, json};

use crate::ApiVersion;
use crate::known_plugins::PLUGINS;

/// The configuration that an empty one means, in full. [`crate::read`] makes the same of
/// both.
///
/// It is kube-scheduler's but for one field: `percentageOfNodesToScore` is left out, so that
/// every node is considered; there it is 0.
pub fn default_document() -> Value {
    json!({
        "apiVersion": ApiVersion::V1.name(),
        "kind": "KubeSchedulerConfiguration",
        "parallelism": 16,
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 10,
        "enableProfiling": true,
        "enableContentionProfiling": true,
        "clientConnection": {
            "kubeconfig": "",
            "acceptContentTypes": "",
            "contentType": "application/vnd.kubernetes.protobuf",
            "qps": 50,
            "burst": 100,
        },
        "leaderElection": {
            "leaderElect": true,
            "leaseDuration": "15s",
            "renewDeadline": "10s",
            "retryPeriod": "2s",
            "resourceLock": "leases",
            "resourceName": "kube-scheduler",
            "resourceNamespace": "kube-system",
        },
        "profiles": [{
            "schedulerName": DEFAULT_SCHEDULER_NAME,
            "plugins": {"multiPoint": {"enabled": plugins()}},
            "pluginConfig": arguments(),
        }],
    })
}

fn plugins() -> Value {
    let plugin = |plugin: &crate::known_plugins::KnownPlugin| match plugin.default_weight {
        0 => json!({"name": plugin.name}),
        weight => json!({"name": plugin.name, "weight": weight}),
    };
    PLUGINS.iter().map(plugin).collect()
}

fn arguments() -> Value {
    let resources = json!([{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]);
    let strategy = json!({"type": "LeastAllocated", "resources": resources});
    let arguments = [
        (
            "DefaultPreemption",
            json!({"minCandidateNodesAbsolute": 100, "minCandidateNodesPercentage": 10}),
        ),
        (
            "DynamicResources",
            json!({"filterTimeout": "10s", "bindingTimeout": "10m0s"}),
        ),
        ("InterPodAffinity", json!({"hardPodAffinityWeight": 1})),
        ("NodeAffinity", json!({})),
        (
            "NodeResourcesBalancedAllocation",
            json!({"resources": resources}),
        ),
        ("NodeResourcesFit", json!({"scoringStrategy": strategy})),
        ("PodTopologySpread", json!({"defaultingType": "System"})),
        ("VolumeBinding", json!({"bindTimeoutSeconds": 600})),
    ];
    let argument = |(name, mut args): (&str, Value)| {
        args["apiVersion"] = ApiVersion::V1.name().into();
        args["kind"] = format!("{name}Args").into();
        json!({"name": name, "args": args})
    };
    arguments.into_iter().map(argument).collect()
}
