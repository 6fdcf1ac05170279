//! Scheduling scenarios: a cluster, pods tried one after the other, and everything that
//! kube-scheduler answered about each.

use std::collections::BTreeSet;

use outrank_api::decode::{Object, decode_value};
use outrank_api::types::Pod;
use outrank_engine::evaluation::Evaluation;
use outrank_engine::framework::Refusal;
use outrank_engine::ids::{NodeId, PodId};
use outrank_engine::{Engine, EngineConfig, Event, Outcome, PodState};
use serde_json::{Map, Value, json};

/// Families that use only what is served.
const SERVED: &[&str] = &[
    "balanced-allocation",
    "csilimits",
    "declared-features",
    "fit-basic",
    "fit-composite",
    "fit-extended",
    "fit-resize",
    "gates",
    "hostports",
    "imagelocality",
    "nodeaffinity-preferred",
    "nodeaffinity-required",
    "nodename",
    "nodeselector",
    "nominated",
    "podaffinity-preferred",
    "podaffinity-required",
    "podantiaffinity-required",
    "profiles",
    "realistic",
    "realistic-tight",
    "scoring-strategies",
    "spread-defaults",
    "spread-hard",
    "spread-soft",
    "taints",
    "taints-prefer",
    "unschedulable",
    "volumebinding",
    "volumerestrictions",
    "volumezone",
];

/// What PostFilter adds to an answer, which is not served yet.
const NOT_SERVED_FIELDS: &[&str] = &["message", "preemption"];

/// Whether scenarios of the family can be run.
pub(crate) fn is_served(family: &str) -> bool {
    SERVED.contains(&family)
}

/// Runs a scenario and compares it with the recorded answer. Answers after a preemption
/// changed the cluster are not compared; returns how many those were.
///
/// # Errors
/// The first difference, readable.
pub(crate) fn check(scenario: &Value, expected: &Value) -> Result<usize, String> {
    let config = match &scenario["config"] {
        Value::Null => EngineConfig::default(),
        config => {
            let config = outrank_config::read(config).map_err(|errors| {
                let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
                format!("  configuration refused: {}", errors.join("; "))
            })?;
            config.engine
        }
    };
    let mut run = Run::new(&config, scenario)?;
    let expected = expected["results"]
        .as_array()
        .ok_or("the answer has no results")?;
    for (index, expected) in expected.iter().enumerate() {
        let actual = run.next(index)?;
        compare(expected, &actual).map_err(|difference| {
            format!(
                "  pod {}: {difference}",
                expected["pod"].as_str().unwrap_or_default()
            )
        })?;
        if !expected["preemption"]["nominatedNode"].is_null() {
            return Ok(run.pods.len() - index - 1);
        }
    }
    Ok(0)
}

/// A scenario under way.
pub(crate) struct Run {
    pub(crate) engine: Engine,
    pods: Vec<Pod>,
}

impl Run {
    /// Builds the cluster of a scenario, with its pods waiting.
    pub(crate) fn new(config: &EngineConfig, scenario: &Value) -> Result<Self, String> {
        let mut engine = Engine::new(config)?;
        for object in objects(&scenario["objects"])? {
            match object {
                Object::Namespace(it) => engine.handle(Event::NamespaceChanged(*it), 0),
                Object::Service(it) => engine.handle(Event::ServiceChanged(*it), 0),
                Object::Node(node) => engine.handle(Event::NodeChanged(*node), 0),
                // Pending pods among the objects are never tried; they matter only
                // through nominations.
                Object::Pod(pod) => engine.handle(Event::PodChanged(*pod), 0),
                other => {
                    let event = Event::of_owner(&other).or_else(|| Event::of_storage(other));
                    if let Some(event) = event {
                        engine.handle(event, 0);
                    }
                }
            }
        }
        let pods = objects(&scenario["pods"])?
            .into_iter()
            .filter_map(|object| match object {
                Object::Pod(pod) => Some(*pod),
                _ => None,
            });
        let pods: Vec<Pod> = pods.collect();
        for pod in &pods {
            // A pod that names its node is tried like any other here.
            engine.handle(Event::PodPending(pod.clone()), 0);
        }
        Ok(Self { engine, pods })
    }

    /// Tries the pod at `index` and tells everything about it, in the recorded form.
    pub(crate) fn next(&mut self, index: usize) -> Result<Value, String> {
        let pod = self.pods.get(index).ok_or("more answers than pods")?;
        let key = pod.key();
        let id = self.engine.pod(&pod.metadata.namespace, &pod.metadata.name);
        let id = id.ok_or("pod was lost")?;
        let mut answer = Map::new();
        answer.insert("pod".into(), key.into());
        if let Some(PodState::Gated(refusal)) = self.engine.pod_state(id) {
            answer.insert("outcome".into(), "gated".into());
            let refusal = refusal.clone();
            answer.insert("gate".into(), self.status(&refusal));
            return Ok(answer.into());
        }
        if self.engine.pod_state(id) == Some(&PodState::Ignored) {
            answer.insert("outcome".into(), "ignored".into());
            return Ok(answer.into());
        }
        let evaluation = self.engine.evaluate(id).ok_or("pod was lost")?;
        self.describe(&evaluation, &mut answer);
        let decision = self
            .engine
            .decide_pod(id, 0)
            .ok_or("the pod wants no place")?;
        self.agree(&evaluation, &decision.outcome)?;
        Ok(answer.into())
    }

    /// The decision must be what the evaluation from scratch says.
    fn agree(&self, evaluation: &Evaluation, outcome: &Outcome) -> Result<(), String> {
        let cluster = self.engine.cluster();
        let agrees = match outcome {
            Outcome::Scheduled { node, .. } if evaluation.via_nominated_node.is_some() => {
                evaluation.via_nominated_node == Some(*node)
            }
            Outcome::Scheduled {
                node,
                feasible_nodes,
                ..
            } => {
                *feasible_nodes == evaluation.feasible.len()
                    && (evaluation.feasible == [*node]
                        || self.first(&evaluation.best()) == Some(*node))
            }
            Outcome::Unschedulable(diagnosis) => {
                diagnosis.message(cluster) == evaluation.diagnosis(cluster).message(cluster)
            }
            Outcome::Error(error) => Some(&**error) == evaluation.error.as_deref(),
        };
        if agrees {
            return Ok(());
        }
        Err(format!(
            "  decision {outcome:?} differs from the evaluation of every node"
        ))
    }

    fn describe(&self, evaluation: &Evaluation, answer: &mut Map<String, Value>) {
        let cluster = self.engine.cluster();
        let outcome = match evaluation {
            Evaluation { error: Some(_), .. } => "error",
            Evaluation { feasible, .. } if feasible.is_empty() => "unschedulable",
            _ => "scheduled",
        };
        let mut insert = |name: &str, value: Value| {
            if value != json!([]) && value != json!({}) {
                answer.insert(name.into(), value);
            }
        };
        insert("outcome", outcome.into());
        if let Some(error) = &evaluation.error {
            insert("error", error.as_str().into());
        }
        if let Some(refusal) = &evaluation.pre_filter {
            insert("preFilter", self.status(refusal));
        }
        if let Some(names) = &evaluation.listed_nodes {
            let names = names.iter().map(|name| cluster.symbols.text(*name));
            insert("preFilterNodes", names.collect());
        }
        let refused = evaluation.refused.iter();
        let refused = refused.map(|(node, refusal)| {
            let mut status = self.status(refusal);
            let mut by_node = evaluation.refused_by.iter();
            if let Some((_, all)) = by_node.find(|(other, _)| other == node) {
                status["all"] = self.statuses(all);
            }
            (cluster.name(*node), status)
        });
        insert("filter", object(refused));
        insert("feasible", self.names(&evaluation.feasible));
        let by_node = |values: &[i64]| {
            let nodes = evaluation.feasible.iter().map(|node| cluster.name(*node));
            object(nodes.zip(values.iter().map(|value| Value::from(*value))))
        };
        let scores = evaluation.scores.iter();
        insert(
            "rawScores",
            object(scores.clone().map(|s| (s.plugin, by_node(&s.raw)))),
        );
        insert(
            "scores",
            object(scores.map(|s| (s.plugin, by_node(&s.weighted)))),
        );
        insert("total", by_node(&evaluation.totals));
        let best = evaluation.best();
        insert("best", self.names(&best));
        if evaluation.via_nominated_node.is_some() {
            insert("viaNominatedNode", true.into());
        }
        let nominated = evaluation.nominated.iter().map(|(node, pods)| {
            let mut names: Vec<String> = pods.iter().map(|pod| self.pod_key(*pod)).collect();
            names.sort_unstable();
            (cluster.name(*node), Value::from(names))
        });
        insert("nominatedPods", object(nominated));
        if let Some(chosen) = evaluation.via_nominated_node.or(self.first(&best)) {
            insert("chosen", cluster.name(chosen).into());
        }
        if outcome == "unschedulable" && cluster.node_count() > 0 {
            insert(
                "filterMessage",
                evaluation.diagnosis(cluster).message(cluster).into(),
            );
        }
    }

    fn pod_key(&self, pod: PodId) -> String {
        let (namespace, name) = self.engine.pod_name(pod).unwrap_or_default();
        format!("{namespace}/{name}")
    }

    fn names(&self, nodes: &[NodeId]) -> Value {
        let mut names: Vec<&str> = nodes
            .iter()
            .map(|node| self.engine.cluster().name(*node))
            .collect();
        names.sort_unstable();
        names.into()
    }

    fn first(&self, nodes: &[NodeId]) -> Option<NodeId> {
        nodes
            .iter()
            .copied()
            .min_by_key(|node| self.engine.cluster().name(*node))
    }

    /// What each of several plugins said.
    fn statuses(&self, refusals: &[Refusal]) -> Value {
        let statuses = refusals.iter().map(|refusal| {
            let Value::Object(mut status) = self.status(refusal) else {
                return (refusal.plugin, Value::Null);
            };
            status.remove("plugin");
            (refusal.plugin, status.into())
        });
        object(statuses)
    }

    fn status(&self, refusal: &Refusal) -> Value {
        let cluster = self.engine.cluster();
        let mut reasons: Vec<String> = refusal
            .reasons
            .iter()
            .map(|reason| reason.text(cluster))
            .collect();
        reasons.sort_unstable();
        json!({"plugin": refusal.plugin, "code": refusal.code.name(), "reasons": reasons})
    }
}

fn objects(list: &Value) -> Result<Vec<Object>, String> {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    // Kinds that no decision reads are left out.
    let is_read = |value: &&Value| {
        let (version, kind) = (value["apiVersion"].as_str(), value["kind"].as_str());
        let kind = outrank_api::decode::ObjectKind::find(
            version.unwrap_or_default(),
            kind.unwrap_or_default(),
        );
        kind.is_some()
    };
    let decoded = list
        .iter()
        .filter(is_read)
        .map(|value| decode_value(value.clone()));
    decoded
        .collect::<Result<_, _>>()
        .map_err(|findings| format!("  object refused: {findings:?}"))
}

/// An object with these fields.
pub(crate) fn object<'a>(entries: impl Iterator<Item = (&'a str, Value)>) -> Value {
    Value::Object(
        entries
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    )
}

/// Compares two answers field by field, those that are not served left out.
fn compare(expected: &Value, actual: &Value) -> Result<(), String> {
    compare_without(NOT_SERVED_FIELDS, expected, actual)
}

/// Compares two answers field by field, some left out.
///
/// # Errors
/// The first difference.
pub(crate) fn compare_without(
    left_out: &[&str],
    expected: &Value,
    actual: &Value,
) -> Result<(), String> {
    let names = |value: &Value| {
        value
            .as_object()
            .map(|fields| fields.keys().cloned().collect())
    };
    let names: [Option<BTreeSet<String>>; 2] = [names(expected), names(actual)];
    for name in names
        .into_iter()
        .flatten()
        .flatten()
        .collect::<BTreeSet<_>>()
    {
        let (expected, actual) = (&expected[&name], &actual[&name]);
        if expected != actual && !left_out.contains(&name.as_str()) {
            return Err(format!(
                "{name}\n    expected {expected}\n    actual   {actual}"
            ));
        }
    }
    Ok(())
}
