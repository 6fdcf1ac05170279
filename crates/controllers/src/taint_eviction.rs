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
//! * A node that is deleted stops no timer.
//!
//! Source: `pkg/controller/tainteviction/taint_eviction.go`, Kubernetes 1.36.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use outrank_api::taints::tolerates;
use outrank_api::types::{Taint, Toleration};

/// Nanoseconds since 1970.
pub type TimeNanos = i64;

/// The reason of all events of taint eviction.
pub const EVENT_REASON: &str = "TaintManagerEviction";

/// The reason of the condition `DisruptionTarget` of a pod that goes for a taint.
pub const CONDITION_REASON: &str = "DeletionByTaintManager";

/// The message of that condition.
pub const CONDITION_MESSAGE: &str = "Taint manager: deleting due to NoExecute taint";

const NANOS_PER_SECOND: i64 = 1_000_000_000;

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
        Some(seconds) if seconds <= i64::MAX / NANOS_PER_SECOND => Departure::After(seconds),
        _ => Departure::Never,
    };
    Judgement {
        departure,
        all_tolerated: true,
        used,
    }
}

/// A pod by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodName {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What becomes of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It will have to go at that time.
    Schedule {
        /// The pod.
        pod: PodName,
        /// When it goes.
        fire_at: TimeNanos,
    },
    /// It need not go at the time that was set.
    Cancel {
        /// The pod.
        pod: PodName,
    },
    /// It goes now: it gets the condition `DisruptionTarget` and is deleted.
    Evict {
        /// The pod.
        pod: PodName,
    },
}

impl Step {
    /// The message of the event that upstream writes for the pod, if it writes one.
    pub fn event_message(&self) -> Option<String> {
        match self {
            Step::Schedule { .. } => None,
            Step::Cancel { pod } => Some(format!("Cancelling deletion of Pod {pod}")),
            Step::Evict { pod } => Some(format!("Marking for deletion Pod {pod}")),
        }
    }
}

/// Which pods are on nodes with NoExecute taints, and when they have to go.
///
/// Say what happens, each at its time; before that, and whenever
/// [`next_departure`](Self::next_departure) is reached, call [`depart`](Self::depart). Pods may
/// be told of as often as one likes: only a new node or new tolerations count.
#[derive(Clone, Debug, Default)]
pub struct TaintEviction {
    /// NoExecute taints by node; nodes without are absent.
    taints: BTreeMap<String, Vec<Taint>>,
    pods: BTreeMap<PodName, SeenPod>,
    pods_by_node: BTreeMap<String, BTreeSet<PodName>>,
    timers: BTreeMap<PodName, Timer>,
    departures: BTreeSet<(TimeNanos, PodName)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct SeenPod {
    node_name: String,
    tolerations: Vec<Toleration>,
}

#[derive(Clone, Copy, Debug)]
struct Timer {
    set_at: TimeNanos,
    fire_at: TimeNanos,
}

impl TaintEviction {
    /// The node is there, with these taints.
    pub fn node_seen(&mut self, node: &str, taints: &[Taint], now: TimeNanos) -> Vec<Step> {
        let driving = taints.iter().filter(|taint| taint.effect == "NoExecute");
        let driving: Vec<Taint> = driving.cloned().collect();
        let known = self.taints.get(node).map_or(&[][..], Vec::as_slice);
        if known == driving {
            return Vec::new();
        }
        if driving.is_empty() {
            self.taints.remove(node);
        } else {
            self.taints.insert(node.to_owned(), driving);
        }
        let pods = self.pods_by_node.get(node).cloned().unwrap_or_default();
        let mut steps = Vec::new();
        for pod in pods {
            self.reconsider(&pod, now, &mut steps);
        }
        steps
    }

    /// The node is gone. Pods that have to leave it still have to.
    pub fn node_gone(&mut self, node: &str) {
        self.taints.remove(node);
    }

    /// The pod is there, on this node, with these tolerations. A pod that is on no node is none
    /// of ours yet.
    pub fn pod_seen(
        &mut self,
        pod: &PodName,
        node_name: &str,
        tolerations: &[Toleration],
        now: TimeNanos,
    ) -> Vec<Step> {
        let known = self.pods.get(pod);
        if node_name.is_empty()
            || known.is_some_and(|known| {
                known.node_name == node_name && known.tolerations == tolerations
            })
        {
            return Vec::new();
        }
        self.forget(pod);
        let seen = SeenPod {
            node_name: node_name.to_owned(),
            tolerations: tolerations.to_vec(),
        };
        self.pods.insert(pod.clone(), seen);
        let pods = self.pods_by_node.entry(node_name.to_owned()).or_default();
        pods.insert(pod.clone());
        let mut steps = Vec::new();
        if self.taints.contains_key(node_name) {
            self.reconsider(pod, now, &mut steps);
        }
        steps
    }

    /// The pod is gone.
    pub fn pod_gone(&mut self, pod: &PodName) -> Vec<Step> {
        self.forget(pod);
        let mut steps = Vec::new();
        self.cancel(pod, &mut steps);
        steps
    }

    /// When the next pod has to go, unless something happens before.
    pub fn next_departure(&self) -> Option<TimeNanos> {
        self.departures.first().map(|(time, _)| *time)
    }

    /// Lets those go whose time has come, in the order of their times, then of their names.
    pub fn depart(&mut self, now: TimeNanos) -> Vec<Step> {
        let mut steps = Vec::new();
        while self.next_departure().is_some_and(|time| time <= now) {
            if let Some((_, pod)) = self.departures.pop_first() {
                self.timers.remove(&pod);
                steps.push(Step::Evict { pod });
            }
        }
        steps
    }

    /// What the taints of its node mean for a pod now.
    fn reconsider(&mut self, pod: &PodName, now: TimeNanos, steps: &mut Vec<Step>) {
        let Some(seen) = self.pods.get(pod) else {
            return;
        };
        let taints = self.taints.get(&seen.node_name);
        let judgement = judge(taints.map_or(&[][..], Vec::as_slice), &seen.tolerations);
        let all_tolerated = judgement.all_tolerated;
        match judgement.departure {
            Departure::Never => self.cancel(pod, steps),
            Departure::Now if !all_tolerated => {
                self.cancel(pod, steps);
                steps.push(Step::Evict { pod: pod.clone() });
            }
            Departure::Now => self.schedule(pod, 0, now, steps),
            Departure::After(seconds) => self.schedule(pod, seconds, now, steps),
        }
    }

    /// Sets the timer of a pod, unless one of an earlier time runs: then nothing is changed, even
    /// if the pod tolerates its taints for no time any more.
    fn schedule(&mut self, pod: &PodName, seconds: i64, now: TimeNanos, steps: &mut Vec<Step>) {
        if self.timers.get(pod).is_some_and(|timer| timer.set_at < now) {
            return;
        }
        self.cancel(pod, steps);
        if seconds == 0 {
            steps.push(Step::Evict { pod: pod.clone() });
            return;
        }
        let fire_at = now.saturating_add(seconds.saturating_mul(NANOS_PER_SECOND));
        let timer = Timer {
            set_at: now,
            fire_at,
        };
        self.timers.insert(pod.clone(), timer);
        self.departures.insert((fire_at, pod.clone()));
        let pod = pod.clone();
        steps.push(Step::Schedule { pod, fire_at });
    }

    fn cancel(&mut self, pod: &PodName, steps: &mut Vec<Step>) {
        if let Some(timer) = self.timers.remove(pod) {
            self.departures.remove(&(timer.fire_at, pod.clone()));
            steps.push(Step::Cancel { pod: pod.clone() });
        }
    }

    /// Forgets where the pod is, not its timer.
    fn forget(&mut self, pod: &PodName) {
        let Some(seen) = self.pods.remove(pod) else {
            return;
        };
        if let Some(pods) = self.pods_by_node.get_mut(&seen.node_name) {
            pods.remove(pod);
            if pods.is_empty() {
                self.pods_by_node.remove(&seen.node_name);
            }
        }
    }
}
