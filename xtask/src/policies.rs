//! Scenarios of the legacy scheduler Policy: what kube-scheduler 1.20.5 made of a file, and
//! decided.

use outrank_config::policy::{self, Policy, PolicyError, Reading, Stage};
use outrank_engine::profile::{NodeLabelArgs, ProfileConfig, ResourceSpec, ServiceAffinityArgs};
use serde_json::{Map, Value, json};

use crate::scenarios::{Run, compare_without, object};

/// Plugins of 1.20 with a PreFilter stage.
const PRE_FILTER: &[&str] = &[
    "InterPodAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "PodTopologySpread",
    "ServiceAffinity",
    "VolumeBinding",
];

/// Plugins of 1.20 with a PreScore stage.
const PRE_SCORE: &[&str] = &["InterPodAffinity", "PodTopologySpread", "TaintToleration"];

/// Runs a scenario and compares it with the recorded answer.
///
/// # Errors
/// The first difference, readable.
pub(crate) fn check(scenario: &Value, expected: &Value) -> Result<(), String> {
    let text = match &scenario["policyText"] {
        Value::String(text) => text.clone(),
        _ => scenario["policy"].to_string(),
    };
    let mut policy = match (
        policy::read(&text, Reading::V1_20),
        &expected["configError"],
    ) {
        (Ok(policy), Value::Null) => policy,
        (Ok(_), error) => return Err(format!("  expected to be refused: {error}")),
        (Err(error), Value::Null) => return Err(format!("  refused: {}", error.text_of_1_20)),
        (Err(error), _) => return check_error(&error, expected),
    };
    check_converted(&policy)?;
    let [profile] = policy.engine.profiles.as_slice() else {
        return Err("  expected one profile".into());
    };
    differ("plugins", &expected["plugins"], &plugins(profile, &policy))?;
    // What PostFilter did was not recorded.
    policy.engine.profiles[0].post_filter.clear();
    let mut run = Run::new(&policy.engine, scenario)?;
    differ("nodeOrder", &expected["nodeOrder"], &node_order(&run))?;
    let results = expected["results"].as_array();
    for (index, expected) in results
        .ok_or("the answer has no results")?
        .iter()
        .enumerate()
    {
        let mut actual = run.next(index)?;
        if let Some(answer) = actual.as_object_mut()
            && let Some(message) = answer.remove("filterMessage")
        {
            answer.insert("message".into(), message);
        }
        compare_without(&[], expected, &actual).map_err(|difference| {
            let pod = expected["pod"].as_str().unwrap_or_default();
            format!("  pod {pod}: {difference}")
        })?;
    }
    Ok(())
}

/// Whatever is a policy has an equal of today that is accepted.
fn check_converted(policy: &Policy) -> Result<(), String> {
    let converted = policy::convert(policy).configuration;
    let Err(errors) = outrank_config::read(&converted) else {
        return Ok(());
    };
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    Err(format!("  converted: {}", errors.join("; ")))
}

fn differ(what: &str, expected: &Value, actual: &Value) -> Result<(), String> {
    if expected == actual {
        return Ok(());
    }
    compare_without(&[], expected, actual)
        .map_err(|difference| format!("  {what}: {difference}"))?;
    Err(format!(
        "  {what}\n    expected {expected}\n    actual   {actual}"
    ))
}

/// What 1.20 does with an error: the names of a policy are looked up by a part that ends the
/// program.
fn kind(stage: Stage) -> &'static str {
    match stage {
        Stage::Map => "fatal",
        _ => "error",
    }
}

/// Texts of the stage `decode` come from libraries of Go and quote the document: what counts
/// is that they say so, and which field is unknown. Where 1.20 crashed any refusal will do.
fn check_error(error: &PolicyError, expected: &Value) -> Result<(), String> {
    let stage = match error.stage {
        Stage::Decode => "decode",
        Stage::Validate => "validate",
        Stage::Map => "map",
        Stage::Extenders => "extenders",
        Stage::Plugins => "plugins",
    };
    differ(
        "configErrorStage",
        &expected["configErrorStage"],
        &stage.into(),
    )?;
    let (actual, expected_text) = (&error.text_of_1_20, &expected["configError"]);
    let expected_text = expected_text.as_str().unwrap_or_default();
    let agrees = match expected["configErrorKind"].as_str() {
        Some("panic") => true,
        recorded if recorded != Some(kind(error.stage)) => false,
        _ if error.stage == Stage::Decode => {
            actual.starts_with("invalid policy: ")
                && unknown_field(expected_text).is_none_or(|it| unknown_field(actual) == Some(it))
        }
        _ => actual == expected_text,
    };
    match agrees {
        true => Ok(()),
        false => Err(format!(
            "  configError\n    expected {expected_text}\n    actual   {actual}"
        )),
    }
}

/// NAME in `found unknown field: NAME`.
fn unknown_field(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("found unknown field: ")?;
    rest.split([',', ' ']).next()
}

fn node_order(run: &Run) -> Value {
    let cluster = run.engine.cluster();
    let nodes = cluster.nodes_in_turns().into_iter();
    nodes.map(|node| cluster.name(node)).collect()
}

/// What the policy becomes, in the recorded form.
fn plugins(profile: &ProfileConfig, policy: &Policy) -> Value {
    let of = |stage: &[&str], names: &mut dyn Iterator<Item = &String>| -> Value {
        let names = names.filter(|name| stage.contains(&name.as_str()));
        names.cloned().collect()
    };
    let score_names = || profile.score.iter().map(|(name, _)| name);
    let binds_volumes = ["VolumeBinding"];
    let scores = profile.score.iter();
    let scores = scores.map(|(name, weight)| json!({"name": name, "weight": weight}));
    let mut plugins = Map::new();
    let mut insert = |name: &str, value: Value| {
        // The list of scores is there even if it is empty.
        if name == "score" || (value != json!([]) && value != json!({}) && value != json!(0)) {
            plugins.insert(name.to_owned(), value);
        }
    };
    insert("queueSort", json!(["PrioritySort"]));
    insert("preFilter", of(PRE_FILTER, &mut profile.filter.iter()));
    insert("filter", json!(profile.filter));
    insert("postFilter", json!(["DefaultPreemption"]));
    insert("preScore", of(PRE_SCORE, &mut score_names()));
    insert("score", scores.collect());
    insert("reserve", of(&binds_volumes, &mut profile.filter.iter()));
    insert("preBind", of(&binds_volumes, &mut profile.filter.iter()));
    insert("bind", json!(["DefaultBinder"]));
    let args = profile.filter.iter().chain(score_names());
    let args = args.filter_map(|name| Some((name.as_str(), arguments(name, profile)?)));
    insert("args", object(args));
    insert("extenders", json!(policy.extenders.len()));
    plugins.into()
}

/// The arguments of a plugin as v1beta1 spells them, if it takes any.
fn arguments(name: &str, profile: &ProfileConfig) -> Option<Value> {
    let legacy = &profile.legacy;
    let cpu_and_memory = || {
        let resources = ["cpu", "memory"].map(|name| json!({"name": name, "weight": 1}));
        json!({"resources": resources})
    };
    Some(match name {
        "NodeAffinity" => json!({}),
        "NodeResourcesFit" => {
            let ignored = &profile.node_resources_fit.ignored_resources;
            without_empty(json!({"ignoredResources": ignored}))
        }
        "NodeResourcesLeastAllocated" | "NodeResourcesMostAllocated" => cpu_and_memory(),
        "InterPodAffinity" => {
            json!({"hardPodAffinityWeight": profile.inter_pod_affinity.hard_pod_affinity_weight})
        }
        "PodTopologySpread" => {
            let is_list = profile.default_spread_constraints.is_some();
            json!({"defaultingType": if is_list { "List" } else { "System" }})
        }
        "NodeLabel" => node_label(&legacy.node_label),
        "ServiceAffinity" => service_affinity(&legacy.service_affinity),
        "RequestedToCapacityRatio" => {
            let shape = legacy
                .ratio_shape
                .iter()
                .map(|point| json!({"utilization": point.utilization, "score": point.score}));
            let resources = legacy
                .ratio_resources
                .iter()
                .map(|ResourceSpec { name, weight }| json!({"name": name, "weight": weight}));
            let (shape, resources): (Value, Value) = (shape.collect(), resources.collect());
            without_empty(json!({"shape": shape, "resources": resources}))
        }
        _ => return None,
    })
}

fn node_label(args: &NodeLabelArgs) -> Value {
    without_empty(json!({
        "presentLabels": args.present_labels,
        "absentLabels": args.absent_labels,
        "presentLabelsPreference": args.present_labels_preference,
        "absentLabelsPreference": args.absent_labels_preference,
    }))
}

fn service_affinity(args: &ServiceAffinityArgs) -> Value {
    without_empty(json!({
        "affinityLabels": args.affinity_labels,
        "antiAffinityLabelsPreference": args.anti_affinity_labels_preference,
    }))
}

fn without_empty(mut args: Value) -> Value {
    if let Some(fields) = args.as_object_mut() {
        fields.retain(|_, value| *value != json!([]));
    }
    args
}
