//! The format of configurations as a JSON Schema, for editors and other checkers.
//!
//! It says which fields there are and of what types; what [`crate::read`] checks beyond that
//! (fields that must go together, names that must differ) is not in it.

use serde_json::{Value, json};

use crate::ApiVersion;
use crate::known_plugins::{ADDED_PLUGINS, EXTENSION_POINTS, MULTI_POINT, PLUGINS};

/// The JSON Schema (draft 2020-12) of a `KubeSchedulerConfiguration`.
pub fn json_schema() -> Value {
    let mut schema = object(json!({
        "apiVersion": {"enum": [ApiVersion::V1.name(), ApiVersion::V1Beta3.name()]},
        "kind": {"const": "KubeSchedulerConfiguration"},
        "parallelism": integer(1, i32::MAX.into()),
        "percentageOfNodesToScore": percentage(),
        "podInitialBackoffSeconds": integer(1, i64::MAX),
        "podMaxBackoffSeconds": integer(1, i64::MAX),
        "enableProfiling": boolean(),
        "enableContentionProfiling": boolean(),
        "delayCacheUntilActive": boolean(),
        "clientConnection": client_connection(),
        "leaderElection": leader_election(),
        "profiles": list(profile()),
        "extenders": list(extender()),
    }));
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    schema["title"] = "KubeSchedulerConfiguration".into();
    schema["required"] = json!(["apiVersion", "kind"]);
    schema
}

fn client_connection() -> Value {
    object(json!({
        "kubeconfig": text(),
        "acceptContentTypes": text(),
        "contentType": text(),
        "qps": {"type": "number"},
        "burst": integer(0, i32::MAX.into()),
    }))
}

fn leader_election() -> Value {
    object(json!({
        "leaderElect": boolean(),
        "leaseDuration": duration(),
        "renewDeadline": duration(),
        "retryPeriod": duration(),
        "resourceLock": text(),
        "resourceName": text(),
        "resourceNamespace": text(),
    }))
}

fn profile() -> Value {
    object(json!({
        "schedulerName": text(),
        "percentageOfNodesToScore": percentage(),
        "plugins": plugins(),
        "pluginConfig": {"type": ["array", "null"], "items": {"oneOf": plugin_arguments()}},
    }))
}

fn plugins() -> Value {
    let known = || PLUGINS.iter().chain(ADDED_PLUGINS);
    let mut points = json!({});
    for point in EXTENSION_POINTS {
        let having = known().filter(|plugin| plugin.points.contains(point));
        points[point] = plugin_set(having.map(|plugin| plugin.name.into()).collect());
    }
    points[MULTI_POINT] = plugin_set(known().map(|plugin| plugin.name.into()).collect());
    object(points)
}

fn plugin_set(names: Vec<Value>) -> Value {
    let weight = integer(i32::MIN.into(), i32::MAX.into());
    let mut enabled = object(json!({"name": {"enum": names}, "weight": weight}));
    enabled["required"] = json!(["name"]);
    let mut disabled = object(json!({"name": text(), "weight": weight}));
    disabled["required"] = json!(["name"]);
    object(json!({"enabled": list(enabled), "disabled": list(disabled)}))
}

/// One alternative for each plugin that has arguments.
fn plugin_arguments() -> Vec<Value> {
    let constraints = list(json!({"type": "object"}));
    let resources = resources();
    let arguments = [
        (
            "DefaultPreemption",
            json!({
                "minCandidateNodesPercentage": integer(0, 100),
                "minCandidateNodesAbsolute": integer(0, i32::MAX.into()),
            }),
        ),
        (
            "DynamicResources",
            json!({"filterTimeout": duration(), "bindingTimeout": duration()}),
        ),
        (
            "InterPodAffinity",
            json!({
                "hardPodAffinityWeight": integer(0, 100),
                "ignorePreferredTermsOfExistingPods": boolean(),
            }),
        ),
        (
            "NodeAffinity",
            json!({"addedAffinity": {"type": ["object", "null"]}}),
        ),
        (
            "NodeResourcesBalancedAllocation",
            json!({"resources": resources}),
        ),
        (
            "NodeResourcesFit",
            json!({
                "ignoredResources": list(text()),
                "ignoredResourceGroups": list(text()),
                "scoringStrategy": scoring_strategy(),
            }),
        ),
        (
            "PodTopologySpread",
            json!({
                "defaultConstraints": constraints,
                "defaultingType": {"enum": ["System", "List"]},
            }),
        ),
        (
            "PreemptionSafety",
            json!({
                "mode": {"enum": ["Off", "DryRun", "Enforce"]},
                "exemptPriority": integer(i32::MIN.into(), i32::MAX.into()),
                "delaySeconds": integer(0, i32::MAX.into()),
                "minimumRunSeconds": integer(0, i32::MAX.into()),
                "preferLeastLostWork": {"type": "boolean"},
                "strictPodDisruptionBudgets": {"type": "boolean"},
                "budgets": list(object(json!({
                    "priorityClassName": text(),
                    "namespace": text(),
                    "victimsPerMinute": integer(0, i32::MAX.into()),
                    "victimsPerDecision": integer(0, i32::MAX.into()),
                }))),
            }),
        ),
        ("PriorityShare", json!({"shares": list(share())})),
        (
            "VolumeBinding",
            json!({"bindTimeoutSeconds": integer(0, i64::MAX)}),
        ),
    ];
    let alternative = |(name, mut args): (&str, Value)| {
        args["apiVersion"] = text();
        args["kind"] = json!({"const": format!("{name}Args")});
        let mut alternative = object(json!({"name": {"const": name}, "args": object(args)}));
        alternative["required"] = json!(["name"]);
        alternative
    };
    arguments.into_iter().map(alternative).collect()
}

fn resources() -> Value {
    list(object(json!({"name": text(), "weight": integer(0, 100)})))
}

fn share() -> Value {
    let priority = integer(i32::MIN.into(), i32::MAX.into());
    let mut share = object(json!({
        "priorityClassName": text(),
        "minPriority": priority,
        "maxPriority": priority,
        "namespace": text(),
        "resource": text(),
        "limit": {"type": ["string", "number"]},
    }));
    share["required"] = json!(["resource", "limit"]);
    share
}

fn scoring_strategy() -> Value {
    let point = json!({"utilization": integer(0, 100), "score": integer(0, 10)});
    object(json!({
        "type": {"enum": ["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]},
        "resources": resources(),
        "requestedToCapacityRatio": object(json!({"shape": list(object(point))})),
    }))
}

fn extender() -> Value {
    let managed = json!({"name": text(), "ignoredByScheduler": boolean()});
    let mut extender = object(json!({
        "urlPrefix": {"type": "string", "pattern": "^[hH][tT][tT][pP][sS]?://[^/]"},
        "filterVerb": text(),
        "preemptVerb": text(),
        "prioritizeVerb": text(),
        "bindVerb": text(),
        "weight": integer(i64::MIN, i64::MAX),
        "enableHTTPS": boolean(),
        "httpTimeout": duration(),
        "nodeCacheCapable": boolean(),
        "ignorable": boolean(),
        "managedResources": list(object(managed)),
        "tlsConfig": object(json!({
            "insecure": boolean(),
            "serverName": text(),
            "certFile": text(),
            "keyFile": text(),
            "caFile": text(),
            "certData": text(),
            "keyData": text(),
            "caData": text(),
        })),
    }));
    extender["required"] = json!(["urlPrefix"]);
    extender
}

/// An object with these fields and no others, or nothing.
fn object(properties: Value) -> Value {
    json!({
        "type": ["object", "null"],
        "properties": properties,
        "additionalProperties": false,
    })
}

fn list(items: Value) -> Value {
    json!({"type": ["array", "null"], "items": items})
}

fn text() -> Value {
    json!({"type": ["string", "null"]})
}

fn boolean() -> Value {
    json!({"type": ["boolean", "null"]})
}

fn integer(least: i64, most: i64) -> Value {
    json!({"type": ["integer", "null"], "minimum": least, "maximum": most})
}

fn percentage() -> Value {
    integer(0, 100)
}

/// As Go writes durations.
fn duration() -> Value {
    let number = "([0-9]+(\\.[0-9]*)?|\\.[0-9]+)";
    let pattern = format!("^[-+]?(0|({number}(ns|us|\u{b5}s|\u{3bc}s|ms|s|m|h))+)$");
    json!({"type": ["string", "null"], "pattern": pattern})
}
