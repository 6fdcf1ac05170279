//! Quantities, selectors, taints and the resources of pods.

use outrank_api::fields::FieldSelector;
use outrank_api::labels::Selector;
use outrank_api::node_selector::RequiredNodeAffinity;
use outrank_api::pod_resources::{self, PodResourcesOptions};
use outrank_api::qos::qos_class;
use outrank_api::quantity::{Format, Quantity};
use outrank_api::taints::{TaintSpecs, taint_string, tolerates};
use outrank_api::types::{LabelSelector, Node, Pod, ResourceList, StringMap, Taint, Toleration};
use serde_json::{Value, json};

use super::field;

/// Our answer to an operation; `None` if the topic is not one of these.
pub(super) fn answer(topic: &str, op: &str, input: &Value) -> Option<Result<Value, String>> {
    Some(match (topic, op) {
        ("quantity", "parse") => quantity(input),
        ("quantity", "arith") => arithmetic(input),
        ("selectors", "labelSelectorString") => label_selector_string(input),
        ("selectors", "labelSelectorObject") => label_selector_object(input),
        ("selectors", "nodeAffinity") => node_affinity(input),
        ("selectors", "fieldSelectorString") => field_selector_string(input),
        ("taints", "kubectlTaint") => kubectl_taint(input),
        ("taints", "tolerates") => toleration(input),
        ("pod-resources", "podResources") => pod_resources(input),
        _ => return None,
    })
}

fn quantity(input: &Value) -> Result<Value, String> {
    let text: String = field(input, "string")?;
    let quantity: Quantity = match text.parse() {
        Ok(quantity) => quantity,
        Err(error) => return Ok(json!({ "error": format!("{error}") })),
    };
    let mut rounded = quantity.clone();
    rounded.round_up(0);
    Ok(json!({
        "canonical": quantity.to_string(),
        "format": quantity.format().name(),
        "value": quantity.value(),
        "milliValue": quantity.milli_value(),
        "scaledKilo": quantity.scaled_value(3),
        "scaledMicro": quantity.scaled_value(-6),
        "sign": quantity.sign(),
        "isZero": quantity.is_zero(),
        "asInt64": quantity.as_i64(),
        "roundedUp": rounded.to_string(),
    }))
}

fn arithmetic(input: &Value) -> Result<Value, String> {
    let (a, b): (Quantity, Quantity) = (field(input, "a")?, field(input, "b")?);
    let (mut sum, mut difference) = (a.clone(), a.clone());
    sum += &b;
    difference -= &b;
    Ok(json!({
        "cmp": a.cmp(&b) as i32,
        "equal": a == b,
        "sum": sum.to_string(),
        "difference": difference.to_string(),
        "negatedA": (-a).to_string(),
    }))
}

fn label_selector_string(input: &Value) -> Result<Value, String> {
    let text: String = field(input, "selector")?;
    let mut answer = selector_answer(input, Selector::parse(&text))?;
    if let Ok(selector) = Selector::parse(&text) {
        answer["empty"] = json!(selector.is_empty());
    }
    Ok(answer)
}

fn label_selector_object(input: &Value) -> Result<Value, String> {
    let selector: Option<LabelSelector> = field(input, "selector")?;
    selector_answer(input, Selector::from_label_selector(selector.as_ref()))
}

fn selector_answer(input: &Value, selector: Result<Selector, String>) -> Result<Value, String> {
    let label_sets: Vec<StringMap> = field(input, "labelSets")?;
    Ok(match selector {
        Err(error) => json!({ "error": error }),
        Ok(selector) => json!({
            "canonical": selector.to_string(),
            "matches": label_sets.iter().map(|set| selector.matches(set)).collect::<Vec<_>>(),
        }),
    })
}

fn node_affinity(input: &Value) -> Result<Value, String> {
    let (pod, node): (Pod, Node) = (field(input, "pod")?, field(input, "node")?);
    let affinity = RequiredNodeAffinity::of(&pod.spec);
    Ok(
        match affinity.matches(&node.metadata.name, &node.metadata.labels) {
            Ok(matches) => json!({ "match": matches }),
            Err(error) => json!({ "match": false, "error": error }),
        },
    )
}

fn field_selector_string(input: &Value) -> Result<Value, String> {
    let text: String = field(input, "selector")?;
    let selector = match FieldSelector::parse(&text) {
        Ok(selector) => selector,
        Err(error) => return Ok(json!({ "error": error })),
    };
    let requirements = selector.requirements().iter().map(|requirement| {
        let operator = if requirement.equal { "=" } else { "!=" };
        json!({ "field": requirement.key, "operator": operator, "value": requirement.value })
    });
    Ok(json!({
        "canonical": selector.to_string(),
        "requirements": requirements.collect::<Vec<_>>(),
    }))
}

fn kubectl_taint(input: &Value) -> Result<Value, String> {
    let (node, args): (Node, Vec<String>) = (field(input, "node")?, field(input, "args")?);
    let specs = match TaintSpecs::parse(&args) {
        Ok(specs) => specs,
        Err(error) => return Ok(json!({ "parseError": error })),
    };
    let mut answer = json!({ "add": specs.add, "remove": specs.remove });
    match specs.apply(&node, field(input, "overwrite")?) {
        Ok((operation, taints)) => {
            answer["operation"] = json!(operation.to_string());
            answer["taints"] = json!(taints);
        }
        Err(error) => answer["applyError"] = json!(error),
    }
    Ok(answer)
}

fn toleration(input: &Value) -> Result<Value, String> {
    let taint: Taint = field(input, "taint")?;
    let toleration: Toleration = field(input, "toleration")?;
    Ok(json!({
        "tolerates": tolerates(&toleration, &taint, false),
        "toleratesWithComparisonOperators": tolerates(&toleration, &taint, true),
        "taintString": taint_string(&taint),
    }))
}

fn pod_resources(input: &Value) -> Result<Value, String> {
    let pod: Pod = field(input, "pod")?;
    let options = PodResourcesOptions::default();
    let excluding_overhead = PodResourcesOptions {
        exclude_overhead: true,
        ..options.clone()
    };
    let containers_only = PodResourcesOptions {
        skip_pod_level_resources: true,
        ..options.clone()
    };
    let scoring_defaults = PodResourcesOptions {
        non_missing_container_requests: ResourceList::from([
            (
                "cpu".to_owned(),
                Quantity::from_milli(100, Format::DecimalSi),
            ),
            (
                "memory".to_owned(),
                Quantity::from_value(200 << 20, Format::BinarySi),
            ),
        ]),
        ..options.clone()
    };
    let scheduler = pod_resources::scheduler_resources(&pod);
    Ok(json!({
        "qosClass": qos_class(&pod).name(),
        "requests": pod_resources::pod_requests(&pod, &options),
        "limits": pod_resources::pod_limits(&pod, &options),
        "requestsExcludingOverhead": pod_resources::pod_requests(&pod, &excluding_overhead),
        "requestsContainersOnly": pod_resources::pod_requests(&pod, &containers_only),
        "requestsWithScoringDefaults": pod_resources::pod_requests(&pod, &scoring_defaults),
        "schedulerMilliCPU": scheduler.cpu_milli,
        "schedulerMemory": scheduler.memory_bytes,
        "schedulerEphemeralStorage": scheduler.ephemeral_storage_bytes,
        "schedulerScalar": scheduler.scalar,
        "schedulerNonZeroMilliCPU": scheduler.non_zero_cpu_milli,
        "schedulerNonZeroMemory": scheduler.non_zero_memory_bytes,
    }))
}
