//! The controller: keeps the statuses of budgets, and takes back what did not come true.

use std::collections::{BTreeMap, HashMap};

use outrank_api::decode::ObjectKind;
use outrank_api::labels::Selector;
use outrank_api::names::quoted;
use outrank_api::resource_type::ResourceType;
use outrank_api::time::unix_nanos;
use outrank_api::types::{
    Deployment, LabelSelector, OwnerReference, Pod, PodCondition, PodDisruptionBudget,
    PodDisruptionBudgetStatus, ReplicaSet, ReplicationController, StatefulSet,
};

use super::{Expected, SYNC_FAILED, Scale, Selected, set_allowed, tell_whether_allowed};
use crate::controller::{Controller, Plan};
use crate::pod_state::set_condition;
use crate::world::{Key, Kind, Seen, Stored, World};
use crate::write::{Event, Outcome, Write};

/// How long a pod that is to be disrupted may take to be deleted, in nanoseconds.
const DELETION_TIMEOUT: i64 = 2 * 60 * 1_000_000_000;

/// The controller of PodDisruptionBudgets.
///
/// A pod that several budgets select counts for all of them, and people are told. Upstream looks at
/// one of them when a pod changes, and at the others later; which one is drawn, and here it is the
/// first by name that is told.
#[derive(Clone, Debug, Default)]
pub struct DisruptionController {
    /// By budget: what it counts of its pods, kept in step as they change.
    counted: HashMap<Key, Counted>,
    /// Pods that several budgets select and of which that is to be told, with the first of these.
    ambiguous: BTreeMap<Key, String>,
}

/// The pods of a budget.
#[derive(Clone, Debug)]
struct Counted {
    selector: Selector,
    pods: Selected,
}

impl DisruptionController {
    /// The controller.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a change of a pod; returns the budgets that select it, or did.
    fn note_pod(&mut self, seen: &Seen, world: &World) -> Vec<Key> {
        let [old, new] = seen.both::<Pod>();
        let mut keys = Vec::new();
        let mut selecting = Vec::new();
        for budget in world.within::<PodDisruptionBudget>(&seen.key.namespace) {
            let key = Key::of::<PodDisruptionBudget>(&budget.metadata);
            let [was, is] = match self.counted.get_mut(&key) {
                Some(counted) => counted.note(old, new),
                None => match Selector::from_label_selector(budget.spec.selector.as_ref()) {
                    Ok(it) => [old, new].map(|pod| pod.is_some_and(|pod| selects(&it, pod))),
                    Err(_) => [false; 2],
                },
            };
            if was || is {
                keys.push(key);
            }
            selecting.extend(is.then_some(&budget.metadata.name));
        }
        if let [first, _, ..] = selecting[..] {
            self.ambiguous.insert(seen.key.clone(), first.clone());
        }
        keys
    }

    fn counted(
        &mut self,
        key: &Key,
        budget: &PodDisruptionBudget,
        world: &World,
    ) -> Result<&Counted, String> {
        if !self.counted.contains_key(key) {
            let selector = Selector::from_label_selector(budget.spec.selector.as_ref())?;
            let pods = world.within::<Pod>(&key.namespace);
            let pods = Selected::of(pods.filter(|pod| selects(&selector, pod)));
            self.counted.insert(key.clone(), Counted { selector, pods });
        }
        let counted = self.counted.get(key);
        counted.ok_or_else(|| format!("{key} is not counted"))
    }
}

impl Counted {
    /// Takes a change of a pod; whether it was one of the budget's, and is.
    fn note(&mut self, old: Option<&Pod>, new: Option<&Pod>) -> [bool; 2] {
        let selects = |pod: &&Pod| selects(&self.selector, pod);
        let (old, new) = (old.filter(selects), new.filter(selects));
        old.into_iter().for_each(|pod| self.pods.take(pod));
        new.into_iter().for_each(|pod| self.pods.add(pod));
        [old, new].map(|pod| pod.is_some())
    }
}

fn selects(selector: &Selector, pod: &Pod) -> bool {
    selector.matches(&pod.metadata.labels)
}

impl Controller for DisruptionController {
    fn name(&self) -> &'static str {
        "controllermanager"
    }

    fn concerned(&mut self, seen: &Seen, world: &World, _: i64) -> Vec<Key> {
        match seen.key.kind {
            Kind::Known(ObjectKind::PodDisruptionBudget) => {
                let selectors = seen
                    .both::<PodDisruptionBudget>()
                    .map(|it| it.map(|it| &it.spec.selector));
                if selectors[0] != selectors[1] {
                    self.counted.remove(&seen.key);
                }
                vec![seen.key.clone()]
            }
            Kind::Known(ObjectKind::Pod) => {
                let mut keys = self.note_pod(seen, world);
                let stale = seen.both::<Pod>()[1].and_then(disruption_ends);
                let is_told = self.ambiguous.contains_key(&seen.key);
                keys.extend((is_told || stale.is_some()).then(|| seen.key.clone()));
                keys
            }
            _ => Vec::new(),
        }
    }

    fn reconcile(&mut self, key: &Key, world: &World, now: i64) -> Plan {
        let mut plan = Plan::nothing();
        let first_budget = self.ambiguous.remove(key);
        let Some(stored) = world.stored(key) else {
            return plan;
        };
        if let Some(budget) = first_budget {
            let text = ambiguous_text(key, &budget);
            let event = Event::warning(stored, "MultiplePodDisruptionBudgets", text);
            plan.step([Write::Event(event)]);
        }
        if let Some(budget) = stored.get::<PodDisruptionBudget>() {
            self.keep_status(stored, budget, world, now, &mut plan);
        }
        if let Some(pod) = stored.get::<Pod>()
            && let Some(time) = disruption_ends(pod)
        {
            match time <= now {
                true => plan.step(end_disruption(stored, pod, now)),
                false => plan.look_at(time),
            }
        }
        plan
    }

    fn tell(&self, _: &Key, _: &World, _: &Write, _: &Outcome) -> Option<Event> {
        None
    }
}

/// When a pod need no longer expect to be disrupted; `None` if it does not expect it. What the
/// kubelet announced stays, and so does what came true.
fn disruption_ends(pod: &Pod) -> Option<i64> {
    if pod.metadata.deletion_timestamp.is_some() || pod.is_finished() {
        return None;
    }
    let mut conditions = pod.status.conditions.iter();
    let condition = conditions.find(|it| it.type_ == "DisruptionTarget")?;
    let is_ours = condition.status == "True" && condition.reason != "TerminationByKubelet";
    let since = condition
        .last_transition_time
        .as_deref()
        .and_then(unix_nanos);
    is_ours.then(|| since.unwrap_or(0).saturating_add(DELETION_TIMEOUT))
}

fn end_disruption(stored: &Stored, pod: &Pod, now: i64) -> Option<Write> {
    let mut status = pod.status.clone();
    let condition = PodCondition {
        type_: "DisruptionTarget".to_owned(),
        observed_generation: pod.metadata.generation,
        status: "False".to_owned(),
        ..PodCondition::default()
    };
    set_condition(&mut status.conditions, condition, now);
    Some(Write::status(stored, &pod.status, &status)?.at_version(stored))
}

impl DisruptionController {
    fn keep_status(
        &mut self,
        stored: &Stored,
        budget: &PodDisruptionBudget,
        world: &World,
        now: i64,
        plan: &mut Plan,
    ) {
        let (expected, counted) = match self.count(stored, budget, world, plan) {
            Ok(counted) => counted,
            Err(error) => return fail_safe(stored, budget, error, now, plan),
        };
        let mut status = budget.status.clone();
        expire_disrupted(stored, &mut status, &counted.selector, world, now, plan);
        status.observed_generation = budget.metadata.generation;
        let mut status = expected.status(&counted.pods, status);
        tell_whether_allowed(&mut status, now);
        plan.step(written(stored, &budget.status, &status));
    }

    /// Counts the pods of a budget and those that there should be, and tells what is odd about
    /// them.
    fn count(
        &mut self,
        stored: &Stored,
        budget: &PodDisruptionBudget,
        world: &World,
        plan: &mut Plan,
    ) -> Result<(Expected, &Counted), String> {
        let mut warn = |reason, text| {
            plan.step([Write::Event(Event::warning(stored, reason, text))]);
        };
        let counted = self.counted(&stored.key(), budget, world);
        let counted = counted.inspect_err(|error| {
            warn("NoPods", format!("Failed to get pods: {error}"));
        })?;
        let namespace = &budget.metadata.namespace;
        let scale = |owner: &OwnerReference| scale_of(owner, namespace, world);
        let expected = Expected::of(budget, &counted.pods, &scale).inspect_err(|error| {
            let text = format!("Failed to calculate the number of expected pods: {error}");
            warn("CalculateExpectedPodCountFailed", text);
        })?;
        if expected.has_unmanaged {
            let text = unmanaged_text(budget.spec.selector.as_ref());
            warn("UnmanagedPods", text);
        }
        if counted.pods.count() == 0 {
            let text = "No matching pods found".to_owned();
            plan.step([Write::Event(Event::normal(stored, "NoPods", text))]);
        }
        Ok((expected, counted))
    }
}

/// Forgets pods that are being deleted or have gone, and those that have not gone in time.
fn expire_disrupted(
    stored: &Stored,
    status: &mut PodDisruptionBudgetStatus,
    selector: &Selector,
    world: &World,
    now: i64,
    plan: &mut Plan,
) {
    status.disrupted_pods.retain(|name, since| {
        let namespace = &stored.metadata().namespace;
        let pod = world.find::<Pod>(namespace, name);
        let pod = pod.filter(|pod| selects(selector, pod));
        let Some(pod) = pod.filter(|pod| pod.metadata.deletion_timestamp.is_none()) else {
            return false;
        };
        let since = since.as_deref().and_then(unix_nanos).unwrap_or(0);
        let expires = since.saturating_add(DELETION_TIMEOUT);
        if expires > now {
            plan.look_at(expires);
            return true;
        }
        // Upstream names the namespace twice, and not the budget.
        let text =
            format!("Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't");
        let pod = world.stored(&Key::of::<Pod>(&pod.metadata));
        let event = pod.map(|pod| Write::Event(Event::warning(pod, "NotDeleted", text)));
        plan.step(event);
        false
    });
}

/// Nothing is allowed while it is not known what is right.
fn fail_safe(
    stored: &Stored,
    budget: &PodDisruptionBudget,
    error: String,
    now: i64,
    plan: &mut Plan,
) {
    let mut status = budget.status.clone();
    status.disruptions_allowed = 0;
    set_allowed(&mut status, "False", SYNC_FAILED, error, now);
    plan.step(written(stored, &budget.status, &status));
}

/// The write of a status that was counted: only if nobody has charged the budget since. Otherwise
/// what an eviction has just taken would be given back, and the budget spent twice.
fn written(
    stored: &Stored,
    old: &PodDisruptionBudgetStatus,
    new: &PodDisruptionBudgetStatus,
) -> Option<Write> {
    Some(Write::status(stored, old, new)?.at_version(stored))
}

/// How many replicas the controller of a pod asks for. A ReplicaSet of a Deployment asks for those
/// of the Deployment, unless that has gone.
fn scale_of(
    owner: &OwnerReference,
    namespace: &str,
    world: &World,
) -> Result<Option<Scale>, String> {
    let key = Key::new(
        Kind::of(&owner.api_version, &owner.kind),
        namespace,
        &owner.name,
    );
    let stored = world
        .stored(&key)
        .filter(|it| it.metadata().uid == owner.uid);
    let Some(stored) = stored else {
        return match has_scale(owner) {
            true => Ok(None),
            false => Err(no_scale(&key.kind)),
        };
    };
    if let Some(set) = stored.get::<ReplicaSet>()
        && let Some(above) = set.metadata.controller()
        && above.kind == "Deployment"
        && let Some(deployment) = world.find::<Deployment>(namespace, &above.name)
        && deployment.metadata.uid == above.uid
    {
        return Ok(Some(Scale {
            uid: deployment.metadata.uid.clone(),
            replicas: deployment.spec.replicas.unwrap_or(1),
        }));
    }
    let replicas = if let Some(it) = stored.get::<ReplicaSet>() {
        it.spec.replicas
    } else if let Some(it) = stored.get::<ReplicationController>() {
        it.spec.replicas
    } else if let Some(it) = stored.get::<StatefulSet>() {
        it.spec.replicas
    } else if let Some(it) = stored.get::<Deployment>() {
        it.spec.replicas
    } else {
        return scale_of_others(stored).map(Some);
    };
    let uid = owner.uid.clone();
    let replicas = replicas.unwrap_or(1);
    Ok(Some(Scale { uid, replicas }))
}

/// A custom resource has a scale if it looks so: replicas where most have them.
fn scale_of_others(stored: &Stored) -> Result<Scale, String> {
    let replicas = match stored.kind() {
        Kind::Other(_) => stored
            .raw()
            .and_then(|raw| raw.pointer("/spec/replicas")?.as_i64()),
        Kind::Known(_) => None,
    };
    match replicas.and_then(|replicas| i32::try_from(replicas).ok()) {
        Some(replicas) => Ok(Scale {
            uid: stored.metadata().uid.clone(),
            replicas,
        }),
        None => Err(no_scale(&stored.kind())),
    }
}

/// Whether objects of the owner's kind have a scale, as far as is known.
fn has_scale(owner: &OwnerReference) -> bool {
    let resource = ResourceType::of_kind(&owner.api_version, &owner.kind);
    resource.is_none_or(|it| it.has_subresource("scale"))
}

fn no_scale(kind: &Kind) -> String {
    let resource = kind.group_resource();
    format!("{resource} does not implement the scale subresource")
}

fn ambiguous_text(pod: &Key, budget: &str) -> String {
    format!(
        "Pod {}/{} matches multiple PodDisruptionBudgets.  Chose {} arbitrarily.",
        quoted(&pod.namespace),
        quoted(&pod.name),
        quoted(budget)
    )
}

fn unmanaged_text(selector: Option<&LabelSelector>) -> String {
    format!(
        "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a \
         result, the status of the PDB cannot be calculated correctly, which may result in \
         undefined behavior. To account for these pods please set \".spec.minAvailable\" field \
         of the PDB to an integer value.",
        selector_text(selector)
    )
}

/// A selector as Go prints the type.
fn selector_text(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else {
        return "nil".to_owned();
    };
    let labels = selector.match_labels.iter();
    let labels: String = labels
        .map(|(key, value)| format!("{key}: {value},"))
        .collect();
    let expressions = selector.match_expressions.iter().map(|it| {
        let (key, operator, values) = (&it.key, &it.operator, it.values.join(" "));
        format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
    });
    let expressions: String = expressions.collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::world::Change;

    #[test]
    fn a_status_is_written_only_over_the_one_it_was_counted_from() {
        let mut world = World::new();
        let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "b", "namespace": "n", "uid": "u", "resourceVersion": "7"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}});
        let broken = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "broken", "namespace": "n", "uid": "v", "resourceVersion": "7"},
            "spec": {"minAvailable": "some", "selector": {"matchLabels": {"app": "a"}}}});
        let mut controller = DisruptionController::new();
        for budget in [budget, broken] {
            let stored = Arc::new(Stored::whole(budget));
            let key = stored.key();
            world.apply(Change::Set(stored));
            let plan = controller.reconcile(&key, &world, 0);
            let patches: Vec<_> = plan
                .steps
                .iter()
                .flatten()
                .filter_map(|write| match write {
                    Write::Patch(patch) => Some(patch.resource_version.as_deref()),
                    _ => None,
                })
                .collect();
            assert_eq!(patches, [Some("7")], "{key}");
        }
    }
}
