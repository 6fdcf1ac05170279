//! NoExecute taints: when they drive a pod off its node.
//!
//! A taint with the effect `NoExecute` does not only keep pods away, it also drives out those
//! that are there. A pod may tolerate it, for ever or for `tolerationSeconds`; that is how pods
//! sit out a short outage of their node. [`judge`] says what the taints of a node mean for a pod;
//! [`TaintEviction`] remembers who was told to go when.
//!
//! What is easily expected otherwise:
//!
//! * Of several tolerations that match a taint only the first counts, in the pod's order. Among
//!   the taints, the one that is tolerated for the shortest time decides.
//! * Time runs from when the taint is seen together with the pod. `timeAdded` of the taint has
//!   no influence.
//! * A timer that runs is not moved, neither by other taints nor by other tolerations. It is
//!   stopped when the pod tolerates all taints of its node for ever, or there are none; and when
//!   a taint is not tolerated at all, since then the pod goes at once.
//! * A node that is deleted stops no timer; one that is there again without taints does.
//!
//! Source: `pkg/controller/tainteviction/taint_eviction.go`, Kubernetes 1.36.

use std::collections::{BTreeMap, BTreeSet};

use outrank_api::decode::ObjectKind;
use outrank_api::taints::tolerates;
use outrank_api::types::{Node, Pod, PodCondition, Taint, Toleration};

use crate::controller::{Controller, Plan};
use crate::pod_state::set_condition;
use crate::world::{Key, Kind, Seen, World};
use crate::write::{Event, Outcome, Refusal, Write};

/// The reason of all events of taint eviction.
pub const EVENT_REASON: &str = "TaintManagerEviction";

/// The reason of the condition `DisruptionTarget` of a pod that goes for a taint.
pub const CONDITION_REASON: &str = "DeletionByTaintManager";

/// The message of that condition.
pub const CONDITION_MESSAGE: &str = "Taint manager: deleting due to NoExecute taint";

const SECOND: i64 = 1_000_000_000;

/// When a pod has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// It may stay.
    Never,
    /// At once.
    Now,
    /// When it has stayed for so many seconds, at least 1.
    After(i64),
}

/// What the taints of a node mean for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement<'a> {
    /// When the pod has to go.
    pub departure: Departure,
    /// Whether each NoExecute taint is tolerated, at least for some time.
    pub all_tolerated: bool,
    /// The toleration that counts for each NoExecute taint, in the order of the taints; empty if
    /// not all are tolerated.
    pub used: Vec<&'a Toleration>,
}

/// What the taints of a node mean for a pod with these tolerations.
///
/// ```
/// use outrank_api::types::{Taint, Toleration};
/// use outrank_controllers::taint_eviction::{Departure, judge};
///
/// let outage = Taint { key: "node.kubernetes.io/unreachable".into(), effect: "NoExecute".into(), ..Taint::default() };
/// let patience = Toleration { toleration_seconds: Some(300), operator: "Exists".into(), ..Toleration::default() };
/// assert_eq!(judge(&[outage.clone()], &[patience]).departure, Departure::After(300));
/// assert_eq!(judge(&[outage], &[]).departure, Departure::Now);
/// ```
pub fn judge<'a>(taints: &[Taint], tolerations: &'a [Toleration]) -> Judgement<'a> {
    let mut driving = taints.iter().filter(|taint| taint.effect == "NoExecute");
    let used: Option<Vec<&Toleration>> =
        driving.try_fold(Vec::new(), |mut used: Vec<&Toleration>, taint| {
            let mut matching = tolerations.iter();
            used.push(matching.find(|toleration| tolerates(toleration, taint, false))?);
            Some(used)
        });
    let Some(used) = used else {
        return Judgement {
            departure: Departure::Now,
            all_tolerated: false,
            used: Vec::new(),
        };
    };
    let seconds = used.iter().filter_map(|used| used.toleration_seconds).min();
    let departure = match seconds {
        Some(..=0) => Departure::Now,
        // Upstream's durations end after 292 years.
        Some(seconds) if seconds <= i64::MAX / SECOND => Departure::After(seconds),
        _ => Departure::Never,
    };
    Judgement {
        departure,
        all_tolerated: true,
        used,
    }
}

/// What becomes of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It will have to go at that time, in nanoseconds since 1970.
    Schedule {
        /// The pod.
        pod: Key,
        /// When it goes.
        fire_at: i64,
    },
    /// It need not go at the time that was set.
    Cancel {
        /// The pod.
        pod: Key,
    },
    /// It goes now: it gets the condition `DisruptionTarget` and is deleted.
    Evict {
        /// The pod.
        pod: Key,
    },
}

impl Step {
    /// The message of the event that upstream writes for the pod, if it writes one.
    pub fn event_message(&self) -> Option<String> {
        let (text, pod) = match self {
            Step::Schedule { .. } => return None,
            Step::Cancel { pod } => ("Cancelling deletion of Pod", pod),
            Step::Evict { pod } => ("Marking for deletion Pod", pod),
        };
        Some(format!("{text} {}/{}", pod.namespace, pod.name))
    }

    /// The pod.
    pub fn pod(&self) -> &Key {
        match self {
            Step::Schedule { pod, .. } | Step::Cancel { pod } | Step::Evict { pod } => pod,
        }
    }
}

/// Which nodes have NoExecute taints, and when their pods have to go.
///
/// Say what happens, each at its time in nanoseconds since 1970; before that, and whenever
/// [`next_departure`](Self::next_departure) is reached, call [`depart`](Self::depart).
#[derive(Clone, Debug, Default)]
pub struct TaintEviction {
    /// NoExecute taints by node that is there; mostly none.
    taints: BTreeMap<String, Vec<Taint>>,
    timers: BTreeMap<Key, Timer>,
    departures: BTreeSet<(i64, Key)>,
}

#[derive(Clone, Copy, Debug)]
struct Timer {
    set_at: i64,
    fire_at: i64,
}

impl TaintEviction {
    /// The node is there, with these taints and these pods, which have tolerations.
    pub fn node_seen<'p>(
        &mut self,
        node: &str,
        taints: &[Taint],
        pods: impl IntoIterator<Item = (Key, &'p [Toleration])>,
        now: i64,
    ) -> Vec<Step> {
        let driving = taints.iter().filter(|taint| taint.effect == "NoExecute");
        let driving: Vec<Taint> = driving.cloned().collect();
        if self.taints.get(node) == Some(&driving) {
            return Vec::new();
        }
        let mut steps = Vec::new();
        for (pod, tolerations) in pods {
            self.reconsider(&pod, judge(&driving, tolerations), now, &mut steps);
        }
        self.taints.insert(node.to_owned(), driving);
        steps
    }

    /// The node is gone. Pods that have to leave it still have to.
    pub fn node_gone(&mut self, node: &str) {
        self.taints.remove(node);
    }

    /// The pod is on this node, which is new, or its tolerations are.
    pub fn pod_seen(
        &mut self,
        pod: &Key,
        node: &str,
        tolerations: &[Toleration],
        now: i64,
    ) -> Vec<Step> {
        let mut steps = Vec::new();
        let taints = self.taints.get(node);
        if let Some(taints) = taints.filter(|taints| !taints.is_empty()) {
            self.reconsider(pod, judge(taints, tolerations), now, &mut steps);
        }
        steps
    }

    /// The pod is gone.
    pub fn pod_gone(&mut self, pod: &Key) -> Vec<Step> {
        let mut steps = Vec::new();
        self.cancel(pod, &mut steps);
        steps
    }

    /// When the next pod has to go, unless something happens before.
    pub fn next_departure(&self) -> Option<i64> {
        self.departures.first().map(|(time, _)| *time)
    }

    /// When this pod has to go, unless something happens before.
    pub fn departure_of(&self, pod: &Key) -> Option<i64> {
        self.timers.get(pod).map(|timer| timer.fire_at)
    }

    /// Lets those go whose time has come, in the order of their times, then of their names.
    pub fn depart(&mut self, now: i64) -> Vec<Step> {
        let mut steps = Vec::new();
        while self.next_departure().is_some_and(|time| time <= now) {
            if let Some((_, pod)) = self.departures.pop_first() {
                self.timers.remove(&pod);
                steps.push(Step::Evict { pod });
            }
        }
        steps
    }

    fn reconsider(&mut self, pod: &Key, judgement: Judgement<'_>, now: i64, steps: &mut Vec<Step>) {
        match judgement.departure {
            Departure::Never => self.cancel(pod, steps),
            Departure::Now if !judgement.all_tolerated => {
                self.cancel(pod, steps);
                steps.push(Step::Evict { pod: pod.clone() });
            }
            Departure::Now => self.schedule(pod, 0, now, steps),
            Departure::After(seconds) => self.schedule(pod, seconds, now, steps),
        }
    }

    /// Sets the timer of a pod, unless one of an earlier time runs: then nothing is changed, even
    /// if the pod tolerates its taints for no time any more.
    fn schedule(&mut self, pod: &Key, seconds: i64, now: i64, steps: &mut Vec<Step>) {
        if self.timers.get(pod).is_some_and(|timer| timer.set_at < now) {
            return;
        }
        self.cancel(pod, steps);
        if seconds == 0 {
            steps.push(Step::Evict { pod: pod.clone() });
            return;
        }
        let fire_at = now.saturating_add(seconds.saturating_mul(SECOND));
        let timer = Timer {
            set_at: now,
            fire_at,
        };
        self.timers.insert(pod.clone(), timer);
        self.departures.insert((fire_at, pod.clone()));
        let pod = pod.clone();
        steps.push(Step::Schedule { pod, fire_at });
    }

    fn cancel(&mut self, pod: &Key, steps: &mut Vec<Step>) {
        if let Some(timer) = self.timers.remove(pod) {
            self.departures.remove(&(timer.fire_at, pod.clone()));
            steps.push(Step::Cancel { pod: pod.clone() });
        }
    }
}

/// The controller: carries [`TaintEviction`] out.
///
/// A pod that goes is told of, gets the condition `DisruptionTarget` and is deleted.
#[derive(Debug, Default)]
pub struct TaintEvictionController {
    eviction: TaintEviction,
    /// What is to be done next for each pod.
    steps: BTreeMap<Key, Vec<Step>>,
    /// Pods whose eviction was refused: it is tried again, but not told again.
    told: BTreeSet<Key>,
}

impl TaintEvictionController {
    /// A controller that knows nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn node_changed(&mut self, seen: &Seen, world: &World, now: i64) -> Vec<Step> {
        let name = &seen.key.name;
        let [_, node] = seen.both::<Node>();
        let Some(node) = node else {
            self.eviction.node_gone(name);
            return Vec::new();
        };
        let pods = world.pods_on(name);
        let pods = pods.map(|pod| (Key::of::<Pod>(&pod.metadata), &pod.spec.tolerations[..]));
        self.eviction.node_seen(name, &node.spec.taints, pods, now)
    }

    fn pod_changed(&mut self, seen: &Seen, now: i64) -> Vec<Step> {
        let [old, new] = seen.both::<Pod>();
        let Some(new) = new else {
            self.told.remove(&seen.key);
            return self.eviction.pod_gone(&seen.key);
        };
        let mut steps = Vec::new();
        let old = old.filter(|old| old.metadata.uid == new.metadata.uid);
        if old.is_none() && seen.old.is_some() {
            steps = self.eviction.pod_gone(&seen.key);
        }
        let is_known = old.is_some_and(|old| {
            old.spec.node_name == new.spec.node_name && old.spec.tolerations == new.spec.tolerations
        });
        if !is_known && !new.spec.node_name.is_empty() {
            let (node, tolerations) = (&new.spec.node_name, &new.spec.tolerations);
            steps.extend(self.eviction.pod_seen(&seen.key, node, tolerations, now));
        }
        steps
    }

    /// Notes what is to be done, and returns for whom.
    fn note(&mut self, steps: Vec<Step>) -> Vec<Key> {
        let mut pods: Vec<Key> = Vec::new();
        for step in steps {
            let pod = step.pod().clone();
            self.steps.entry(pod.clone()).or_default().push(step);
            pods.push(pod);
        }
        pods.dedup();
        pods
    }
}

impl Controller for TaintEvictionController {
    fn name(&self) -> &'static str {
        "taint-eviction-controller"
    }

    fn concerned(&mut self, seen: &Seen, world: &World, now: i64) -> Vec<Key> {
        let steps = match seen.key.kind {
            Kind::Known(ObjectKind::Node) => self.node_changed(seen, world, now),
            Kind::Known(ObjectKind::Pod) => self.pod_changed(seen, now),
            _ => Vec::new(),
        };
        self.note(steps)
    }

    fn reconcile(&mut self, key: &Key, world: &World, now: i64) -> Plan {
        let departing = self.eviction.depart(now);
        // Others that depart now have their own turn, since their timers ask for it.
        self.note(departing);
        let mut plan = Plan::nothing();
        for step in self.steps.remove(key).unwrap_or_default() {
            match &step {
                Step::Schedule { .. } => {}
                Step::Cancel { .. } => plan.step(event(&step)),
                Step::Evict { .. } => {
                    if !self.told.remove(key) {
                        plan.step(event(&step));
                    }
                    evict(key, world, now, &mut plan);
                }
            }
        }
        plan.look_again = self.eviction.departure_of(key);
        plan
    }

    fn refused(
        &mut self,
        key: &Key,
        _: &World,
        _: i64,
        refusals: &[(Write, Refusal)],
    ) -> Vec<Write> {
        if refusals.iter().any(|(_, refusal)| !refusal.is_not_found()) {
            self.told.insert(key.clone());
            self.note(vec![Step::Evict { pod: key.clone() }]);
        }
        Vec::new()
    }

    fn tell(&self, _: &Key, _: &World, _: &Write, _: &Outcome) -> Option<Event> {
        None
    }
}

/// Upstream knows the pod by its name alone when it tells of it.
fn event(step: &Step) -> Option<Write> {
    Some(Write::Event(Event {
        regarding: step.pod().clone(),
        uid: String::new(),
        resource_version: String::new(),
        is_warning: false,
        reason: EVENT_REASON.into(),
        message: step.event_message()?,
    }))
}

fn evict(key: &Key, world: &World, now: i64, plan: &mut Plan) {
    let stored = world.stored(key);
    let Some((stored, pod)) = stored.and_then(|it| Some((it, it.get::<Pod>()?))) else {
        return;
    };
    let mut status = pod.status.clone();
    let condition = PodCondition {
        type_: "DisruptionTarget".to_owned(),
        observed_generation: pod.metadata.generation,
        status: "True".to_owned(),
        reason: CONDITION_REASON.to_owned(),
        message: CONDITION_MESSAGE.to_owned(),
        last_transition_time: None,
    };
    set_condition(&mut status.conditions, condition, now);
    let patch = Write::status(stored, &pod.status, &status);
    plan.step(patch.map(|patch| patch.at_version(stored)));
    plan.step([Write::delete(stored)]);
}
