//! What a DaemonSet keeps of nodes and its pods on them, so that it need not look at all of them
//! each time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use outrank_api::node_selector::RequiredNodeAffinity;
use outrank_api::types::{Node, Pod, PodSpec};

use super::{GENERATION_LABEL, HASH_LABEL};
use crate::pod_edit::PodEdit;
use crate::pod_state::{Availability, is_going, is_ready};
use crate::roster::Sums;
use crate::workloads::{Verdict, daemon_pod_order, daemon_tolerations, target_node, verdict};
use crate::world::{Key, Objects, Stored, World};

/// What the sums depend on beside pods and nodes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Basis {
    /// That of the template.
    pub(super) spec: Arc<PodSpec>,
    /// The label of pods of the template, if it has been told.
    pub(super) hash: String,
    /// The older label of them.
    pub(super) generation: Option<String>,
    pub(super) min_ready_seconds: i32,
}

/// How far a node is from one template to the next, told by its pods that stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Stage {
    /// One of the new template, available.
    NewUp,
    /// One of the new template, not available.
    NewDown,
    /// One of an old template, available.
    OldUp,
    /// One of an old template, not available.
    OldDown,
    /// One of each, and the new one is available.
    BothDone,
    /// One of each, and the new one is not available yet.
    BothBusy,
    /// Several of a template.
    Unclear,
    /// None.
    Empty,
}

/// What a node adds to the sums.
#[derive(Clone, Debug)]
struct View {
    /// `None` if there is no such node.
    verdict: Option<Verdict>,
    /// `None` if there is no pod, not even one that is going.
    stage: Option<Stage>,
    /// Whether there may be something to do beside replacing old pods.
    needs_attention: bool,
    counts: Counts,
    /// When one of its pods becomes available.
    next_time: Option<i64>,
}

/// What the status counts: nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) desired: i32,
    pub(super) misscheduled: i32,
    pub(super) current: i32,
    pub(super) updated: i32,
    pub(super) ready: i32,
    pub(super) available: i32,
}

/// Sums over nodes and the pods on them, or waiting for them.
#[derive(Clone, Debug)]
pub(super) struct DaemonSums {
    basis: Basis,
    /// What the pods ask for, and of nodes.
    spec: PodSpec,
    required: RequiredNodeAffinity,
    knows_nodes: bool,
    verdicts: HashMap<String, Verdict>,
    /// Without those that have ended and are going.
    on_node: BTreeMap<String, Objects>,
    /// How many of them have each hash.
    hashes: HashMap<String, usize>,
    /// Nodes that are to be looked at again.
    stale: BTreeSet<String>,
    views: HashMap<String, View>,
    counts: Counts,
    attention: BTreeSet<String>,
    stages: BTreeMap<Stage, BTreeSet<String>>,
    times: BTreeSet<(i64, String)>,
}

impl DaemonSums {
    /// Takes a change of a node.
    pub(super) fn note_node(&mut self, name: &str, node: Option<&Node>) {
        match node {
            Some(node) => {
                let verdict = verdict(&self.spec, &self.required, node);
                self.verdicts.insert(name.to_owned(), verdict);
            }
            None => {
                self.verdicts.remove(name);
            }
        }
        self.stale.insert(name.to_owned());
    }

    /// Takes note of what has changed, and of the time.
    pub(super) fn refresh(&mut self, world: &World, now: i64) {
        if !self.knows_nodes {
            self.knows_nodes = true;
            for node in world.all::<Node>() {
                self.note_node(&node.metadata.name, Some(node));
            }
        }
        while let Some((time, node)) = self.times.first().cloned()
            && time <= now
        {
            self.times.pop_first();
            self.stale.insert(node);
        }
        while let Some(node) = self.stale.pop_first() {
            self.look_at(node, now);
        }
    }

    /// When one of the pods becomes available next.
    pub(super) fn next_time(&self) -> Option<i64> {
        self.times.first().map(|(time, _)| *time)
    }

    /// What the status counts.
    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// The nodes where there may be something to do beside replacing old pods, by name, and what
    /// is wanted of each; `None` if there is no such node.
    pub(super) fn attention(&self) -> impl Iterator<Item = (&str, Option<Verdict>)> {
        let nodes = self.attention.iter();
        nodes.map(|node| (node.as_str(), self.verdicts.get(node).copied()))
    }

    /// The nodes at a stage, by name.
    pub(super) fn at(&self, stage: Stage) -> impl Iterator<Item = &str> {
        let nodes = self.stages.get(&stage).into_iter().flatten();
        nodes.map(String::as_str)
    }

    /// How many nodes are at a stage.
    pub(super) fn count_at(&self, stage: Stage) -> usize {
        self.stages.get(&stage).map_or(0, BTreeSet::len)
    }

    /// What is wanted of a node, if it is there.
    pub(super) fn verdict(&self, node: &str) -> Option<Verdict> {
        self.verdicts.get(node).copied()
    }

    /// The pods on a node, by name.
    pub(super) fn pods_on(&self, node: &str) -> Vec<&Pod> {
        let pods = self.on_node.get(node).into_iter().flat_map(Objects::values);
        pods.filter_map(|stored| stored.get()).collect()
    }

    /// Whether any pod has this hash.
    pub(super) fn has_hash(&self, hash: &str) -> bool {
        self.hashes.contains_key(hash)
    }

    /// Whether a pod is of the current template.
    pub(super) fn is_updated(&self, pod: &Pod) -> bool {
        let labels = &pod.metadata.labels;
        let Basis {
            hash, generation, ..
        } = &self.basis;
        let has_hash = labels.get(HASH_LABEL).is_some_and(|it| it == hash);
        has_hash || generation.is_some() && labels.get(GENERATION_LABEL) == generation.as_ref()
    }

    /// Whether a pod is available at this time.
    pub(super) fn availability(&self, pod: &Pod, now: i64) -> Availability {
        Availability::of(pod, self.basis.min_ready_seconds, now)
    }

    fn look_at(&mut self, node: String, now: i64) {
        if let Some(old) = self.views.remove(&node) {
            self.counts = self.counts.plus(&old.counts, -1);
            self.attention.remove(&node);
            if let Some(stage) = old.stage
                && let Some(nodes) = self.stages.get_mut(&stage)
            {
                nodes.remove(&node);
            }
            if let Some(time) = old.next_time {
                self.times.remove(&(time, node.clone()));
            }
        }
        let view = self.view(&node, now);
        if view.verdict.is_none() && view.stage.is_none() {
            return;
        }
        self.counts = self.counts.plus(&view.counts, 1);
        if view.needs_attention {
            self.attention.insert(node.clone());
        }
        if let Some(stage) = view.stage {
            self.stages.entry(stage).or_default().insert(node.clone());
        }
        if let Some(time) = view.next_time {
            self.times.insert((time, node.clone()));
        }
        self.views.insert(node, view);
    }

    fn view(&self, node: &str, now: i64) -> View {
        let verdict = self.verdict(node);
        let pods = self.pods_on(node);
        let staying: Vec<&Pod> = pods.iter().copied().filter(|pod| !is_going(pod)).collect();
        let availability = |pod: &Pod| self.availability(pod, now);
        let is_up = |pod: &Pod| availability(pod) == Availability::Now;
        let (new, old): (Vec<&Pod>, Vec<&Pod>) =
            staying.iter().partition(|pod| self.is_updated(pod));
        let stage = match (new.as_slice(), old.as_slice()) {
            ([], []) => Stage::Empty,
            ([new], []) if is_up(new) => Stage::NewUp,
            ([_], []) => Stage::NewDown,
            ([], [old]) if is_up(old) => Stage::OldUp,
            ([], [_]) => Stage::OldDown,
            ([new], [_]) if is_up(new) => Stage::BothDone,
            ([_], [_]) => Stage::BothBusy,
            _ => Stage::Unclear,
        };
        let is_odd = staying.len() > 1 || staying.iter().any(|pod| pod.is_finished());
        let needs_attention = match verdict {
            Some(Verdict::Run) => staying.is_empty() || is_odd,
            Some(Verdict::Keep) => is_odd,
            Some(Verdict::Leave) => !staying.is_empty(),
            None => staying.iter().any(|pod| pod.spec.node_name.is_empty()),
        };
        let next_time = pods.iter().filter_map(|pod| match availability(pod) {
            Availability::At(time) => Some(time),
            _ => None,
        });
        View {
            verdict,
            stage: (!pods.is_empty()).then_some(stage),
            needs_attention,
            counts: self.counts_of(verdict, &pods, now),
            next_time: next_time.min(),
        }
    }

    /// Of several pods on a node, the status counts the oldest.
    fn counts_of(&self, verdict: Option<Verdict>, pods: &[&Pod], now: i64) -> Counts {
        let mut counts = Counts::default();
        let oldest = pods.iter().min_by(|a, b| daemon_pod_order(a, b));
        match (verdict, oldest) {
            (None, _) => {}
            (Some(Verdict::Run), None) => counts.desired = 1,
            (Some(Verdict::Run), Some(pod)) => {
                counts.desired = 1;
                counts.current = 1;
                counts.updated = i32::from(self.is_updated(pod));
                counts.ready = i32::from(is_ready(pod));
                let is_available = self.availability(pod, now) == Availability::Now;
                counts.available = i32::from(is_available);
            }
            (Some(_), oldest) => counts.misscheduled = i32::from(oldest.is_some()),
        }
        counts
    }
}

impl Counts {
    fn plus(self, other: &Self, times: i32) -> Self {
        Self {
            desired: self.desired + times * other.desired,
            misscheduled: self.misscheduled + times * other.misscheduled,
            current: self.current + times * other.current,
            updated: self.updated + times * other.updated,
            ready: self.ready + times * other.ready,
            available: self.available + times * other.available,
        }
    }
}

impl Sums for DaemonSums {
    type Basis = Basis;

    fn of(basis: &Basis) -> Self {
        let mut spec = PodSpec::clone(&basis.spec);
        for toleration in daemon_tolerations(spec.host_network) {
            PodEdit::Toleration(toleration).edit(&mut spec);
        }
        Self {
            basis: basis.clone(),
            required: RequiredNodeAffinity::of(&spec),
            spec,
            knows_nodes: false,
            verdicts: HashMap::new(),
            on_node: BTreeMap::new(),
            hashes: HashMap::new(),
            stale: BTreeSet::new(),
            views: HashMap::new(),
            counts: Counts::default(),
            attention: BTreeSet::new(),
            stages: BTreeMap::new(),
            times: BTreeSet::new(),
        }
    }

    fn add(&mut self, key: &Key, stored: &Arc<Stored>, pod: &Pod) {
        let Some(node) = place_of(pod) else {
            return;
        };
        let pods = self.on_node.entry(node.to_owned()).or_default();
        pods.insert(key.clone(), stored.clone());
        if let Some(hash) = pod.metadata.labels.get(HASH_LABEL) {
            *self.hashes.entry(hash.clone()).or_default() += 1;
        }
        self.stale.insert(node.to_owned());
    }

    fn take(&mut self, key: &Key, _: &Arc<Stored>, pod: &Pod) {
        let Some(node) = place_of(pod) else {
            return;
        };
        if let Some(pods) = self.on_node.get_mut(node) {
            pods.remove(key);
            if pods.is_empty() {
                self.on_node.remove(node);
            }
        }
        if let Some(hash) = pod.metadata.labels.get(HASH_LABEL)
            && let Some(count) = self.hashes.get_mut(hash)
        {
            *count -= 1;
            if *count == 0 {
                self.hashes.remove(hash);
            }
        }
        self.stale.insert(node.to_owned());
    }
}

/// The node that a pod is on or waits for, unless it has ended and is going.
fn place_of(pod: &Pod) -> Option<&str> {
    let is_over = pod.is_finished() && is_going(pod);
    target_node(&pod.spec).filter(|_| !is_over)
}
