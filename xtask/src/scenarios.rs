//! Scheduling scenarios: a cluster, pods tried one after the other, and everything that
//! kube-scheduler answered about each.

use std::collections::BTreeSet;
use std::sync::Arc;

use outrank_api::decode::{Object, decode_value};
use outrank_api::types::Pod;
use outrank_engine::diagnosis::Diagnosis;
use outrank_engine::evaluation::Evaluation;
use outrank_engine::framework::{Code, Refusal};
use outrank_engine::ids::{NodeId, PodId};
use outrank_engine::preemption::{PostFilterRefusal, PreemptionReport};
use outrank_engine::{Decision, Engine, EngineConfig, Event, Outcome, PodState};
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
    "preemption-basic",
    "preemption-big",
    "preemption-constraints",
    "preemption-extended",
    "preemption-nominated",
    "preemption-order",
    "preemption-pdb",
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

/// Whether scenarios of the family can be run.
pub(crate) fn is_served(family: &str) -> bool {
    SERVED.contains(&family)
}

/// Runs a scenario and compares it with the recorded answer.
///
/// # Errors
/// The first difference, readable.
pub(crate) fn check(scenario: &Value, expected: &Value) -> Result<(), String> {
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
        let mut expected = expected.clone();
        let is_other_choice = follow_ties(&mut expected, &actual);
        compare(&expected, &actual).map_err(|difference| {
            format!(
                "  pod {}: {difference}",
                expected["pod"].as_str().unwrap_or_default()
            )
        })?;
        if is_other_choice {
            // From here on the clusters are not the same.
            break;
        }
    }
    Ok(())
}

/// Which of several equal pods of a node is evicted depends on an order of pods that is not
/// part of the answer: where the record says that there are such, another choice of as many
/// is as good. Returns whether that changes what happens.
fn follow_ties(expected: &mut Value, actual: &Value) -> bool {
    let candidates = expected.pointer_mut("/preemption/candidates");
    let Some(candidates) = candidates.and_then(Value::as_array_mut) else {
        return false;
    };
    let mut other_victims = None;
    let actual = &actual["preemption"]["candidates"];
    for (index, candidate) in candidates.iter_mut().enumerate() {
        let Some(candidate) = candidate.as_object_mut() else {
            continue;
        };
        let chosen = &actual[index]["victims"];
        let count = |victims: &Value| victims.as_array().map(Vec::len);
        if candidate.remove("orderTies").is_some()
            && candidate["victims"] != *chosen
            && count(&candidate["victims"]) == count(chosen)
        {
            candidate["victims"] = chosen.clone();
            if candidate["node"] == actual[index]["node"] {
                other_victims = Some((candidate["node"].clone(), chosen.clone()));
            }
        }
    }
    match other_victims {
        Some((node, victims)) if expected["preemption"]["nominatedNode"] == node => {
            expected["preemption"]["victims"] = victims;
            true
        }
        _ => false,
    }
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
                Object::PodDisruptionBudget(it) => engine.handle(Event::BudgetChanged(*it), 0),
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
        let report = self.engine.preemption(id, &evaluation, 0);
        if let Some(report) = &report {
            answer.insert("preemption".into(), self.describe_preemption(report));
        }
        let decision = self.decide(id)?;
        self.agree(&evaluation, report.as_ref(), &decision)?;
        if let Outcome::Unschedulable(diagnosis) = &decision.outcome {
            let message = diagnosis.message(self.engine.cluster());
            answer.insert("message".into(), message.into());
        }
        self.carry_out(index, &decision, &mut answer)?;
        Ok(answer.into())
    }

    fn decide(&mut self, pod: PodId) -> Result<Decision, String> {
        let decision = self.engine.decide_pod(pod, 0);
        decision.ok_or_else(|| "the pod wants no place".into())
    }

    /// Does what is decided: the pod starts on its node, or others go and it is tried again.
    fn carry_out(
        &mut self,
        index: usize,
        decision: &Decision,
        answer: &mut Map<String, Value>,
    ) -> Result<(), String> {
        if let Outcome::Scheduled { node, .. } = decision.outcome {
            self.start(index, node);
            return Ok(());
        }
        let Some(preemption) = &decision.preemption else {
            if !self.pods[index].status.nominated_node_name.is_empty() {
                // The record goes on as if the nomination was still there.
                let pod = self.pods[index].clone();
                self.engine.handle(Event::PodPending(pod), 0);
            }
            return Ok(());
        };
        for victim in &preemption.victims.pods {
            let (namespace, name) = self.engine.pod_name(*victim).ok_or("victim was lost")?;
            let gone = Event::PodGone {
                namespace: namespace.into(),
                name: name.into(),
            };
            self.engine.handle(gone, 0);
        }
        let again = self.engine.evaluate(decision.pod).ok_or("pod was lost")?;
        for lower in &preemption.cleared_nominations {
            let key = self.pod_key(*lower);
            for pod in self.pods.iter_mut().filter(|pod| pod.key() == key) {
                pod.status.nominated_node_name.clear();
            }
        }
        let is_placed = again.via_nominated_node == Some(preemption.node);
        let at_node = again
            .refused
            .iter()
            .find(|(node, _)| *node == preemption.node);
        let refusal = again.pre_filter.as_ref().or(at_node.map(|(_, it)| it));
        if is_placed {
            answer["preemption"]["placed"] = true.into();
            self.decide(decision.pod)?;
            self.start(index, preemption.node);
        } else if let Some(refusal) = refusal {
            answer["preemption"]["notPlaced"] = self.status(refusal);
            answer["preemption"]["placed"] = false.into();
            let node_name = self.engine.cluster().name(preemption.node).to_owned();
            self.pods[index].status.nominated_node_name = node_name;
        }
        Ok(())
    }

    /// The kubelet of a node takes the pod.
    fn start(&mut self, index: usize, node: NodeId) {
        let mut pod = self.pods[index].clone();
        let node_name = self.engine.cluster().name(node).to_owned();
        Arc::make_mut(&mut pod.spec).node_name = node_name;
        pod.status.phase = "Running".into();
        pod.status.nominated_node_name = String::new();
        let (minutes, seconds) = ((index + 1) / 60, (index + 1) % 60);
        pod.status.start_time = Some(format!("2026-06-01T00:{minutes:02}:{seconds:02}Z"));
        self.engine.handle(Event::PodChanged(pod), 0);
    }

    /// The decision must be what the evaluation from scratch says.
    fn agree(
        &self,
        evaluation: &Evaluation,
        report: Option<&PreemptionReport>,
        decision: &Decision,
    ) -> Result<(), String> {
        let cluster = self.engine.cluster();
        let outcome = &decision.outcome;
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
                let evaluated = Diagnosis {
                    post_filter: report.map_or_else(Vec::new, |it| it.refusals.clone()),
                    ..evaluation.diagnosis(cluster)
                };
                diagnosis.message(cluster) == evaluated.message(cluster)
                    && decision.preemption == report.and_then(|it| it.preemption.clone())
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
                evaluation.diagnosis(cluster).filter_message(cluster).into(),
            );
        }
    }

    /// What PostFilter did, without what came of it.
    fn describe_preemption(&self, report: &PreemptionReport) -> Value {
        let cluster = self.engine.cluster();
        let texts = report.refusals.iter().map(|refusal| refusal.text(cluster));
        let texts: Vec<String> = texts.collect();
        let codes = report.refusals.iter().map(PostFilterRefusal::code);
        let code = codes.max().map_or("Success", Code::name);
        let mut described = json!({"code": code, "message": texts.join(", ")});
        let mut insert = |name: &str, value: Value| {
            if value != json!([]) && value != json!({}) {
                described[name] = value;
            }
        };
        if let Some(is_eligible) = report.is_eligible {
            insert("eligible", is_eligible.into());
            if !is_eligible && let Some(last) = texts.last() {
                let reason = last.trim_start_matches("preemption: ");
                insert("ineligibleReason", reason.into());
            }
        }
        let mut candidates: Vec<Value> = report
            .candidates
            .iter()
            .map(|candidate| {
                json!({"node": cluster.name(candidate.node),
                    "victims": self.pod_keys(&candidate.victims.pods),
                    "pdbViolations": candidate.victims.violating.len()})
            })
            .collect();
        candidates.sort_by_key(|candidate| candidate["node"].as_str().map(str::to_owned));
        insert("candidates", candidates.into());
        let rejected = report.rejected.iter();
        let rejected = rejected.map(|(node, refusal)| (cluster.name(*node), self.status(refusal)));
        insert("rejected", object(rejected));
        insert("possibleNodes", self.names(&report.possible_nodes));
        if let Some(preemption) = &report.preemption {
            insert("nominatedNode", cluster.name(preemption.node).into());
            insert("victims", self.pod_keys(&preemption.victims.pods).into());
            let mut cleared = self.pod_keys(&preemption.cleared_nominations);
            cleared.sort_unstable();
            insert("clearedNominations", cleared.into());
        }
        described
    }

    fn pod_keys(&self, pods: &[PodId]) -> Vec<String> {
        pods.iter().map(|pod| self.pod_key(*pod)).collect()
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
    let decoded = list.iter().filter(is_read).map(decode_value);
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

/// Compares two answers field by field.
fn compare(expected: &Value, actual: &Value) -> Result<(), String> {
    compare_without(&[], expected, actual)
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
