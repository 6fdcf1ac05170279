//! The engine: events in, decisions out.
//!
//! [`Engine::handle`] takes in what happened ([`Event`]), [`Engine::next`] decides one
//! pod. The engine is synchronous and keeps no clock: every call says what time it is.
//! The same calls give the same decisions.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outrank_api::decode::{Object, ObjectKind};
use outrank_api::types::{
    LabelSelector, Namespace, Node, Pod, PodDisruptionBudget, PodSpec, PriorityClass, Service,
    Taint,
};
use rustc_hash::FxHashMap;

use crate::cluster::{Cluster, OwnerKey, PodInfo, PodUsage};
use crate::cross::CrossPlan;
use crate::diagnosis::Diagnosis;
use crate::evaluation::{
    Evaluation, Filters, Nominations, Question, first_refusal_by_node, listed_nodes,
};
use crate::extender::{EXTENDER, Extenders};
use crate::extensions::Extensions;
use crate::framework::{ClusterEvent, Code, IncomingPod, Refusal};
use crate::ids::{ClassId, Interner, NodeId, PodId, ResourceId, Symbol};
use crate::ingest::{compile_class, compile_info, compile_node, compile_owner, compile_usage};
use crate::plugins::default_binder::Binding;
use crate::plugins::priority_share::PriorityShare;
use crate::plugins::scheduling_gates::SchedulingGates;
use crate::pod_class::PodClass;
use crate::pod_match::{LabelMatch, compile_labels};
use crate::pod_row::{PodRow, PodTable, Standing};
use crate::preemption::safety::{ClassRule, ClassRules, KillLog, Rules};
use crate::preemption::{
    Budgets, CandidateSets, PostFilterRefusal, Preemption, PreemptionReport, Preemptor, Scene,
};
use crate::profile::{DEFAULT_PREEMPTION, DEFAULT_SCHEDULER_NAME, Profile, ProfileConfig};
use crate::queue::{Backoff, SchedulingQueue, TimeNanos};
use crate::release::Release;
use crate::sampling::{Rotation, Sample};
use crate::storage::VolumeDemand;
use crate::tie_order::TieOrder;
use crate::verdicts::{Context, Verdicts};

/// Something that happened in the cluster: the only way to change what the engine knows.
#[derive(Clone, Debug)]
pub enum Event {
    /// A node is new or has changed.
    NodeChanged(Node),
    /// A node is gone; its pods are not, until their own events say so.
    NodeGone {
        /// Its name.
        name: String,
    },
    /// A pod is new or has changed. Finished pods count as gone.
    PodChanged(Pod),
    /// A pod is to be placed even though it may name its node: NodeName then holds it to
    /// that node. For whoever asks where a bound pod could go.
    PodPending(Pod),
    /// A namespace is new or its labels have changed.
    NamespaceChanged(Namespace),
    /// A service is new or has changed.
    ServiceChanged(Service),
    /// Something that storage is made of is new or has changed: a PersistentVolume or a claim
    /// to one, a StorageClass, CSINode, CSIDriver, CSIStorageCapacity or VolumeAttachment.
    /// Objects of other kinds are left out.
    StorageChanged(Object),
    /// Something that storage is made of is gone.
    StorageGone {
        /// Its kind.
        kind: ObjectKind,
        /// Its namespace; empty if it has none.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A service is gone.
    ServiceGone {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A workload that controls pods is new, has changed or is gone.
    OwnerChanged {
        /// `ReplicaSet`, `StatefulSet` or `ReplicationController`.
        kind: String,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Which pods it selects; `None` if it is gone.
        selector: Option<LabelSelector>,
    },
    /// A PodDisruptionBudget is new or has changed; its status counts.
    BudgetChanged(PodDisruptionBudget),
    /// A PriorityClass is new or has changed: what it says of preemption counts, its priority is
    /// that of pods already.
    PriorityClassChanged(PriorityClass),
    /// A PriorityClass is gone.
    PriorityClassGone {
        /// Its name.
        name: String,
    },
    /// A PodDisruptionBudget is gone.
    BudgetGone {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A pod is gone.
    PodGone {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

impl Event {
    /// The event that something which storage is made of is new or has changed; `None` for
    /// objects of other kinds.
    pub fn of_storage(object: Object) -> Option<Self> {
        let is_storage = object.kind().is_storage();
        is_storage.then_some(Self::StorageChanged(object))
    }

    /// The event that a workload is new or has changed, if pods that it controls are spread
    /// by its selector.
    pub fn of_owner(object: &Object) -> Option<Self> {
        let selector = match object {
            Object::ReplicaSet(set) => set.spec.selector.clone(),
            Object::StatefulSet(set) => set.spec.selector.clone(),
            Object::ReplicationController(controller) => Some(LabelSelector {
                match_labels: controller.spec.selector.clone(),
                ..LabelSelector::default()
            }),
            _ => return None,
        };
        let metadata = object.metadata();
        Some(Self::OwnerChanged {
            kind: object.kind().name().to_owned(),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            selector,
        })
    }
}

/// How an engine decides.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Profiles, by the scheduler names that pods ask for.
    pub profiles: Vec<ProfileConfig>,
    /// How long refused pods wait at least.
    pub backoff: Backoff,
    /// Seed of the order of nodes with equal scores; without one, the smallest name wins.
    pub tie_seed: Option<u64>,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            profiles: vec![ProfileConfig::default()],
            backoff: Backoff::default(),
            tie_seed: None,
        }
    }
}

impl EngineConfig {
    /// Has all profiles preempt, or none (as `disablePreemption: true` did in configurations
    /// of the past).
    pub fn switch_preemption(&mut self, is_on: bool) {
        for profile in &mut self.profiles {
            let is_there = profile.preempts();
            match is_on {
                true if !is_there => profile.post_filter.push(DEFAULT_PREEMPTION.into()),
                true => {}
                false => profile
                    .post_filter
                    .retain(|name| name != DEFAULT_PREEMPTION),
            }
        }
    }

    /// Whether some profile preempts.
    pub fn preempts(&self) -> bool {
        self.profiles.iter().any(ProfileConfig::preempts)
    }
}

/// What was decided about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The pod.
    pub pod: PodId,
    /// What becomes of it.
    pub outcome: Outcome,
    /// Who is to be deleted so that it has a place, if no node takes it as things are.
    pub preemption: Option<Preemption>,
}

/// What becomes of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It goes to a node and already counts as being there.
    Scheduled {
        /// The node.
        node: NodeId,
        /// How many nodes could have taken it.
        feasible_nodes: usize,
        /// The node's score; 0 if it was the only one, which is not scored.
        total_score: i64,
    },
    /// No node takes it; it waits until that changes.
    Unschedulable(Arc<Diagnosis>),
    /// A plugin found something wrong with it.
    Error(Arc<str>),
}

/// Where a pod is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodState {
    /// Held by scheduling gates.
    Gated(Refusal),
    /// To be tried.
    Queued,
    /// Refused by every node.
    Unschedulable(Arc<Diagnosis>),
    /// A plugin found something wrong with it.
    Error(Arc<str>),
    /// On a node.
    Placed(NodeId),
    /// Bound to a node that is not known.
    OnUnknownNode(Symbol),
    /// Left to another scheduler.
    Ignored,
}

/// The least recently used verdicts are dropped when more rows than this are kept (about
/// 1 GiB).
const MAXIMUM_VERDICT_SLOTS: usize = 16 << 20;

/// How many plans are remembered by pod before they are worked out anew.
const MAXIMUM_KNOWN_PLANS: usize = 1 << 20;

/// How many demands of storage are remembered; each may be that of one pod only.
const MAXIMUM_KNOWN_DEMANDS: usize = 1 << 16;

/// See the module.
pub struct Engine {
    cluster: Cluster,
    profiles: Vec<Profile>,
    ties: TieOrder,
    /// In which order nodes are tried; `None` if every profile considers all of them.
    rotation: Option<Rotation>,
    extenders: Extenders,
    queue: SchedulingQueue,
    classes: Interner<PodClass>,
    usages: Interner<PodUsage>,
    last_class: Option<LastClass>,
    plans: Interner<CrossPlan>,
    known_plans: FxHashMap<PlanKey, KnownPlan>,
    /// Grows whenever plans may have changed for another reason than new affinity terms.
    plan_epoch: u64,
    /// What pods demand of storage; that of pods without volumes comes first.
    demands: Interner<VolumeDemand>,
    /// Keys of `verdicts`, in the order in which they were first needed.
    verdict_keys: Interner<VerdictKey>,
    verdicts: Vec<Option<Box<Verdicts>>>,
    verdict_slots: usize,
    last_used: Vec<u64>,
    decisions: u64,
    /// For pods that no node takes.
    candidates: CandidateSets,
    pods: Vec<Option<PodRow>>,
    free_pods: Vec<PodId>,
    pod_index: FxHashMap<(Symbol, Symbol), PodId>,
    on_unknown_nodes: FxHashMap<Symbol, Vec<PodId>>,
    /// Pods that wait for room that preemption makes, by the node's name.
    nominated: BTreeMap<Symbol, Vec<PodId>>,
    /// Waiting pods that what happens on other nodes may help.
    watching: BTreeSet<PodId>,
    /// Classes with waiting pods that would be tried if their shares had room for them.
    held_back: BTreeSet<ClassId>,
    budgets: Budgets,
    /// What priority classes say of preemption, by their names.
    class_rules: ClassRules,
    kills: KillLog,
    /// Waiting pods that a rule no longer holds back at some time.
    timed: BTreeSet<(TimeNanos, PodId)>,
}

/// Class and usage of the pod that came last.
struct LastClass {
    spec: Arc<PodSpec>,
    /// Some shares are those of a namespace.
    namespace: String,
    class: ClassId,
    usage: u32,
}

/// What the engine makes of a pod object.
struct Compiled {
    class: ClassId,
    usage: u32,
    standing: Standing,
    info: PodInfo,
    owner: Option<OwnerKey>,
}

/// On what the plan of a pod depends: class, identity, affinity terms, whether it has
/// volumes, owner.
type PlanKey = (ClassId, u32, u32, bool, Option<OwnerKey>);

/// On what the verdicts about a pod depend: class, plan, and what it demands of storage.
type VerdictKey = (ClassId, u32, u32);

/// What it is that told what becomes of a pod.
enum Basis {
    /// The evaluation of every node.
    Evaluation(Box<Evaluation>),
    /// The verdicts of this number, which were brought up to date for it.
    Verdicts(usize),
    /// Neither was needed.
    Nothing,
}

/// A plan that was worked out, and when.
#[derive(Clone, Copy)]
struct KnownPlan {
    epoch: u64,
    affinity_terms: u32,
    /// Its number; `None` if every node must be evaluated.
    plan: Option<u32>,
}

impl Engine {
    /// An engine that knows nothing yet.
    ///
    /// # Errors
    /// What is wrong with a profile.
    pub fn new(config: &EngineConfig) -> Result<Self, String> {
        Self::with_extensions(config, Extensions::default())
    }

    /// An engine that knows nothing yet, with plugins and extenders beside its own.
    ///
    /// # Errors
    /// What is wrong with a profile, or a plugin whose name is taken.
    pub fn with_extensions(config: &EngineConfig, extensions: Extensions) -> Result<Self, String> {
        extensions.check_names()?;
        let mut cluster = Cluster::new();
        let samples = config.profiles.iter().any(ProfileConfig::samples_nodes);
        let profiles = config.profiles.iter();
        let profiles: Result<Vec<Profile>, String> = profiles
            .map(|profile| Profile::new(profile, &extensions.plugins, &mut cluster))
            .collect();
        Ok(Self {
            cluster,
            profiles: profiles?,
            ties: TieOrder::new(config.tie_seed),
            rotation: samples.then(Rotation::default),
            extenders: Extenders::new(extensions.extenders),
            queue: SchedulingQueue::new(config.backoff),
            classes: Interner::default(),
            usages: Interner::default(),
            last_class: None,
            plans: Interner::default(),
            known_plans: FxHashMap::default(),
            plan_epoch: 0,
            demands: [VolumeDemand::default()].into_iter().collect(),
            verdict_keys: Interner::default(),
            verdicts: Vec::new(),
            verdict_slots: 0,
            last_used: Vec::new(),
            decisions: 0,
            candidates: CandidateSets::default(),
            pods: Vec::new(),
            free_pods: Vec::new(),
            pod_index: FxHashMap::default(),
            on_unknown_nodes: FxHashMap::default(),
            nominated: BTreeMap::new(),
            watching: BTreeSet::new(),
            held_back: BTreeSet::new(),
            budgets: Budgets::default(),
            class_rules: ClassRules::default(),
            kills: KillLog::default(),
            timed: BTreeSet::new(),
        })
    }

    /// Takes in what happened. Pods that it may help are queued again.
    pub fn handle(&mut self, event: Event, now: TimeNanos) {
        self.take_in(event, now);
        self.retry_held_back(now);
    }

    fn take_in(&mut self, event: Event, now: TimeNanos) {
        match event {
            Event::NodeChanged(node) => self.node_changed(&node, now),
            Event::NodeGone { name } => self.node_gone(&name, now),
            Event::PodChanged(pod) if pod.is_finished() => {
                self.pod_gone(&pod.metadata.namespace, &pod.metadata.name, now);
            }
            Event::PodChanged(pod) => self.pod_changed(&pod, !pod.spec.node_name.is_empty(), now),
            Event::PodPending(pod) => self.pod_changed(&pod, false, now),
            Event::PodGone { namespace, name } => self.pod_gone(&namespace, &name, now),
            Event::NamespaceChanged(namespace) => {
                let symbols = &mut self.cluster.symbols;
                let name = symbols.intern(&namespace.metadata.name);
                let labels = compile_labels(&namespace.metadata.labels, symbols);
                self.cluster.set_namespace(name, labels);
                self.surroundings_changed(&ClusterEvent::Namespace, now);
            }
            Event::ServiceChanged(service) => {
                let symbols = &mut self.cluster.symbols;
                let namespace = symbols.intern(&service.metadata.namespace);
                let name = symbols.intern(&service.metadata.name);
                let labels = service
                    .spec
                    .selector
                    .map(|labels| compile_labels(&labels, symbols));
                self.cluster.set_service(namespace, name, labels);
                self.surroundings_changed(&ClusterEvent::Selection, now);
            }
            Event::StorageChanged(object) => {
                let kind = object.kind();
                let key = self.cluster.set_storage(&object);
                self.wake_watching(&ClusterEvent::Storage { kind, key }, now);
            }
            Event::StorageGone {
                kind,
                namespace,
                name,
            } => {
                let symbols = &mut self.cluster.symbols;
                let key = (symbols.intern(&namespace), symbols.intern(&name));
                self.cluster.forget_storage(kind, key);
                self.wake_watching(&ClusterEvent::Storage { kind, key }, now);
            }
            // Nobody is retried: upstream has no such event, and all can be killed anyway.
            Event::BudgetChanged(budget) => {
                self.budgets.set(&budget, &mut self.cluster.symbols);
            }
            Event::PriorityClassChanged(class) => {
                let name = self.cluster.symbols.intern(&class.metadata.name);
                self.class_rules.set(name, ClassRule::of(&class));
            }
            Event::PriorityClassGone { name } => {
                let name = self.cluster.symbols.intern(&name);
                self.class_rules.set(name, None);
            }
            Event::BudgetGone { namespace, name } => {
                let symbols = &mut self.cluster.symbols;
                let (namespace, name) = (symbols.intern(&namespace), symbols.intern(&name));
                self.budgets.remove(namespace, name);
            }
            Event::ServiceGone { namespace, name } => {
                let symbols = &mut self.cluster.symbols;
                let (namespace, name) = (symbols.intern(&namespace), symbols.intern(&name));
                self.cluster.set_service(namespace, name, None);
                self.surroundings_changed(&ClusterEvent::Selection, now);
            }
            Event::OwnerChanged {
                kind,
                namespace,
                name,
                selector,
            } => {
                let symbols = &mut self.cluster.symbols;
                let owner = (
                    symbols.intern(&kind),
                    symbols.intern(&namespace),
                    symbols.intern(&name),
                );
                let selector =
                    selector.map(|selector| LabelMatch::compile(Some(&selector), symbols));
                self.cluster.set_owner_selector(owner, selector);
                self.surroundings_changed(&ClusterEvent::Selection, now);
            }
        }
    }

    /// Decides the pod that is next, or `None` if no pod can be tried now. A scheduled pod
    /// counts as being on its node from here on.
    pub fn next(&mut self, now: TimeNanos) -> Option<Decision> {
        for pod in self.queue.flush(now) {
            self.queue_again(pod, now, true);
        }
        self.retry_timed(now);
        let pods = &self.pods;
        let pod = self
            .queue
            .pop(|pod| Some(pods[pod.index()].as_ref()?.queue))?;
        self.attempt(pod, now)
    }

    /// When the next waiting pod is to be tried again because a rule may no longer hold it back.
    pub fn next_retry(&self) -> Option<TimeNanos> {
        self.timed.first().map(|(at, _)| *at)
    }

    /// Queues the waiting pods that no rule holds back any more.
    fn retry_timed(&mut self, now: TimeNanos) {
        let mut due = Vec::new();
        while let Some(&(at, pod)) = self.timed.first()
            && at <= now
        {
            self.timed.pop_first();
            due.push(pod);
        }
        self.stop_waiting(due, now);
    }

    /// Decides one pod out of its turn; `None` if it does not want a place. Otherwise as
    /// [`Engine::next`].
    pub fn decide_pod(&mut self, pod: PodId, now: TimeNanos) -> Option<Decision> {
        let row = self.pods.get_mut(pod.index())?.as_mut()?;
        match row.state {
            PodState::Queued | PodState::Unschedulable(_) | PodState::Error(_) => {}
            _ => return None,
        }
        self.queue.remove(pod, row.class, &mut row.queue);
        self.attempt(pod, now)
    }

    /// Evaluates one pod against every node from scratch, changing nothing. Extenders are
    /// asked.
    pub fn evaluate(&self, pod: PodId) -> Option<Evaluation> {
        let row = self.pods.get(pod.index())?.as_ref()?;
        let incoming = self.incoming(pod, row);
        let profile = &self.profiles[incoming.class.profile];
        let nominations = self.nominations(pod);
        let own = row.nominated_node;
        let order = self.rotation.as_ref().map(Rotation::order);
        Some(Evaluation::new(&Question {
            profile,
            pod: incoming,
            cluster: &self.cluster,
            nominations,
            own_nominated_node: own.and_then(|name| self.cluster.node_named(name)),
            sample: order.as_ref().map(|order| self.sample(profile, order)),
            extenders: self.extenders.interested_in(pod),
        }))
    }

    /// The part of the nodes on which a pod of the profile is tried now.
    fn sample<'o>(&self, profile: &Profile, order: &'o [NodeId]) -> Sample<'o> {
        Sample {
            order,
            start: self.rotation.as_ref().map_or(0, Rotation::next_start),
            percentage: profile.percentage_of_nodes_to_score.unwrap_or(100),
            first_is_enough: profile.scores().is_empty() && !self.extenders.have_say(),
        }
    }

    /// Why one of `plugins` refuses a node for a pod, if one does.
    pub fn refusal(&self, pod: PodId, node: NodeId, plugins: &[&str]) -> Option<Refusal> {
        let row = self.pods.get(pod.index())?.as_ref()?;
        let class = &self.classes[row.class.index()];
        let filters = self.profiles[class.profile]
            .node_filters()
            .map(|(_, plugin)| plugin);
        let mut asked = filters.filter(|filter| plugins.contains(&filter.name()));
        asked.find_map(|filter| filter.filter_node(class, &self.cluster, node).err())
    }

    /// What a pod takes of its node, by resource.
    pub fn pod_requests(&self, pod: PodId) -> &[(ResourceId, i64)] {
        let row = self.pods.get(pod.index()).and_then(Option::as_ref);
        row.map_or(&[], |row| &self.usages[row.usage as usize].requests)
    }

    /// Puts a pod that is not on a node there, whatever filters say: for whoever decides
    /// beside the engine. Returns whether it did.
    pub fn place(&mut self, pod: PodId, node: NodeId, now: TimeNanos) -> bool {
        let Some(row) = self.pods.get_mut(pod.index()).and_then(Option::as_mut) else {
            return false;
        };
        if matches!(row.state, PodState::Placed(_)) || !self.cluster.is_present(node) {
            return false;
        }
        let class = row.class;
        self.queue.remove(pod, class, &mut row.queue);
        self.put(pod, node, now);
        true
    }

    /// The cluster as the engine sees it.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The pod of that name.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<PodId> {
        let symbols = &self.cluster.symbols;
        self.pod_index
            .get(&(symbols.find(namespace)?, symbols.find(name)?))
            .copied()
    }

    /// Namespace and name of a pod.
    pub fn pod_name(&self, pod: PodId) -> Option<(&str, &str)> {
        let row = self.pods.get(pod.index())?.as_ref()?;
        let symbols = &self.cluster.symbols;
        Some((symbols.text(row.namespace), symbols.text(row.name)))
    }

    /// What is to be bound by a decision; `None` if it did not place its pod.
    pub fn binding(&self, decision: &Decision) -> Option<Binding<'_>> {
        let Outcome::Scheduled { node, .. } = decision.outcome else {
            return None;
        };
        let (namespace, name) = self.pod_name(decision.pod)?;
        Some(Binding {
            namespace,
            name,
            node_name: self.cluster.name(node),
        })
    }

    /// Where a pod is.
    pub fn pod_state(&self, pod: PodId) -> Option<&PodState> {
        Some(&self.pods.get(pod.index())?.as_ref()?.state)
    }

    /// The name of the node on which room is kept for a waiting pod: its
    /// `status.nominatedNodeName` as it should be after a decision.
    pub fn nominated_node(&self, pod: PodId) -> Option<&str> {
        let row = self.pods.get(pod.index())?.as_ref()?;
        Some(self.cluster.symbols.text(row.nominated_node?))
    }

    /// How often a pod was tried.
    pub fn attempts(&self, pod: PodId) -> u32 {
        let row = self.pods.get(pod.index()).and_then(Option::as_ref);
        row.map_or(0, |row| row.queue.attempts)
    }

    /// All pods, by row.
    pub fn pods(&self) -> impl Iterator<Item = PodId> + '_ {
        let pods = self.pods.iter().enumerate();
        pods.filter(|(_, row)| row.is_some())
            .map(|(row, _)| PodId::from_index(row))
    }

    fn attempt(&mut self, pod: PodId, now: TimeNanos) -> Option<Decision> {
        let row = self.pods[pod.index()].as_mut()?;
        SchedulingQueue::tried(&mut row.queue);
        let class = row.class;
        let (outcome, basis) = self.decide(pod, class);
        let (outcome, preemption) = match outcome {
            Outcome::Unschedulable(diagnosis) => {
                if let Some(row) = self.pods[pod.index()].as_mut() {
                    row.waits_since.get_or_insert(now);
                }
                self.post_filter(pod, diagnosis, basis, now)
            }
            outcome => (outcome, None),
        };
        // Before the pod waits, so that the room it no longer needs does not wake itself.
        if let Some(preemption) = &preemption {
            self.make_room(pod, preemption, now);
        }
        self.carry_out(pod, class, &outcome, now);
        self.retry_held_back(now);
        Some(Decision {
            pod,
            outcome,
            preemption,
        })
    }

    /// Asks PostFilter plugins about a pod that no node takes; `basis` is how that came out.
    fn post_filter(
        &mut self,
        pod: PodId,
        diagnosis: Arc<Diagnosis>,
        basis: Basis,
        now: TimeNanos,
    ) -> (Outcome, Option<Preemption>) {
        let report = match basis {
            _ if !self.asks_post_filters(pod) => None,
            Basis::Evaluation(evaluation) => self.preemption_by_evaluation(pod, &evaluation, now),
            Basis::Verdicts(key) => self.preemption_by_verdicts(pod, key, now),
            Basis::Nothing => self
                .evaluate(pod)
                .and_then(|evaluation| self.preemption_by_evaluation(pod, &evaluation, now)),
        };
        let Some(report) = report else {
            return (Outcome::Unschedulable(diagnosis), None);
        };
        if let Some(at) = report.retry_at {
            self.timed.insert((at, pod));
        }
        if report.refusals.contains(&PostFilterRefusal::NoCandidate) {
            self.watching.insert(pod);
        }
        let is_in_vain =
            |it: &PostFilterRefusal| matches!(it, PostFilterRefusal::NotHelpful { .. });
        if report.refusals.iter().any(is_in_vain) {
            self.give_up_nomination(pod, now);
        }
        let diagnosis = Diagnosis {
            post_filter: report.refusals,
            ..Diagnosis::clone(&diagnosis)
        };
        (Outcome::Unschedulable(diagnosis.into()), report.preemption)
    }

    /// Whether there are PostFilter plugins that could help a pod.
    fn asks_post_filters(&self, pod: PodId) -> bool {
        let row = self.pods.get(pod.index()).and_then(Option::as_ref);
        row.is_some_and(|row| {
            let profile = &self.profiles[self.classes[row.class.index()].profile];
            self.cluster.node_count() > 0 && !profile.post_filters.is_empty()
        })
    }

    /// Of how many nodes it is kept whether they are candidates for preemption.
    #[cfg(test)]
    pub(crate) fn kept_candidate_rows(&self) -> usize {
        self.candidates.row_count()
    }

    /// The same as [`Engine::preemption`] for a decision of the engine's own: dry runs are made in
    /// the cluster itself.
    fn preemption_by_evaluation(
        &mut self,
        pod: PodId,
        evaluation: &Evaluation,
        now: TimeNanos,
    ) -> Option<PreemptionReport> {
        if !self.may_preempt(pod, evaluation) {
            return None;
        }
        self.with_preemptor(pod, now, |_, preemptor, cluster| {
            preemptor.post_filter(evaluation, Scene::Live(cluster))
        })
    }

    /// Everything about preempting for a pod that verdicts found no node for: by candidates
    /// that are kept if they tell all, else by evaluating every node.
    fn preemption_by_verdicts(
        &mut self,
        pod: PodId,
        key: usize,
        now: TimeNanos,
    ) -> Option<PreemptionReport> {
        let (class, plan, demand) = self.verdict_keys[key];
        let row = self.pods[pod.index()].as_ref()?;
        let info = self.cluster.pod_info(pod);
        let concerns_extenders = self.extenders.preempting_for(pod).is_some();
        let matters_itself =
            row.nominated_node.is_some() || info.volumes != 0 || concerns_extenders;
        let looks_at_others = demand != 0 || !self.plans[plan as usize].filters.is_empty();
        if matters_itself || looks_at_others || self.verdicts[key].is_none() {
            let evaluation = self.evaluate(pod)?;
            return self.preemption_by_evaluation(pod, &evaluation, now);
        }
        let kind = (class, row.standing.priority);
        let mut candidates = self.candidates.take(kind);
        let report = self.with_preemptor(pod, now, |engine, preemptor, cluster| {
            let verdicts = engine.verdicts[key].as_deref()?;
            Some(preemptor.post_filter_by(&mut candidates, verdicts, cluster))
        });
        self.candidates.keep(kind, candidates);
        report?
    }

    /// Everything about preempting for a pod that `evaluation` found no node for, changing
    /// nothing; `None` if no PostFilter plugin is asked.
    pub fn preemption(
        &self,
        pod: PodId,
        evaluation: &Evaluation,
        now: TimeNanos,
    ) -> Option<PreemptionReport> {
        if !self.may_preempt(pod, evaluation) {
            return None;
        }
        let mut ties = Cow::Borrowed(&self.ties);
        if !ties.is_fresh(&self.cluster) {
            ties.to_mut().refresh(&self.cluster);
        }
        let preemptor = self.preemptor(pod, &self.cluster, &ties, now)?;
        Some(preemptor.post_filter(evaluation, Scene::Shared(&self.cluster)))
    }

    /// Whether PostFilter plugins are asked about a pod once `evaluation` found no node for it.
    fn may_preempt(&self, pod: PodId, evaluation: &Evaluation) -> bool {
        let is_refused = evaluation.feasible.is_empty() && evaluation.error.is_none();
        let is_placed = evaluation.via_nominated_node.is_some();
        is_refused && !is_placed && self.asks_post_filters(pod)
    }

    /// Has a pod preempt, with the cluster lent for dry runs, which leave it as it was.
    fn with_preemptor<T>(
        &mut self,
        pod: PodId,
        now: TimeNanos,
        preempt: impl FnOnce(&Self, &Preemptor<'_>, &mut Cluster) -> T,
    ) -> Option<T> {
        let mut cluster = std::mem::take(&mut self.cluster);
        let preemptor = self.preemptor(pod, &cluster, &self.ties, now);
        let report = preemptor.map(|preemptor| preempt(self, &preemptor, &mut cluster));
        self.cluster = cluster;
        report
    }

    /// What preempting for a pod depends on.
    fn preemptor<'e>(
        &'e self,
        pod: PodId,
        cluster: &Cluster,
        ties: &'e TieOrder,
        now: TimeNanos,
    ) -> Option<Preemptor<'e>> {
        let row = self.pods.get(pod.index())?.as_ref()?;
        let class = &self.classes[row.class.index()];
        let profile = &self.profiles[class.profile];
        Some(Preemptor {
            pod,
            row,
            incoming: incoming_pod(class, cluster.pod_info(pod), row),
            profile,
            pods: PodTable::new(&self.pods, &self.usages),
            budgets: &self.budgets,
            nominated: &self.nominated,
            ties,
            rules: Rules {
                safety: profile.preemption_safety.as_ref(),
                classes: &self.class_rules,
                kills: &self.kills,
                now,
            },
            extenders: self.extenders.preempting_for(pod),
        })
    }

    fn standing(&mut self, pod: &Pod) -> Standing {
        let reads_gpus = |profile: &Profile| {
            let safety = profile.preemption_safety.as_ref();
            safety.is_some_and(|it| it.args.prefers_least_lost_work)
        };
        let reads_gpus = self.profiles.iter().any(reads_gpus);
        Standing::of(pod, reads_gpus, &mut self.cluster.symbols)
    }

    /// The nominated pods that count when `pod` is filtered.
    fn nominations(&self, pod: PodId) -> Vec<Nominations<'_>> {
        nominations(
            pod,
            &self.nominated,
            &self.pods,
            &self.usages,
            &self.cluster,
        )
    }

    /// Notes who is killed, for rules that count victims. Those on their way are not.
    fn note_kills(&mut self, preemption: &Preemption, now: TimeNanos) {
        for victim in &preemption.victims.pods {
            let row = self.pods.get(victim.index()).and_then(Option::as_ref);
            let Some(row) = row.filter(|row| !row.standing.is_terminating) else {
                continue;
            };
            self.kills.push(now, row);
            let identity = self.cluster.pod_info(*victim).identity;
            self.budgets.note_kill(self.cluster.identity(identity));
        }
    }

    /// Has others leave room for a pod on the node on which pods are to go for it.
    fn make_room(&mut self, pod: PodId, preemption: &Preemption, now: TimeNanos) {
        let node_name = self.cluster.name_symbol(preemption.node);
        self.note_kills(preemption, now);
        self.give_up_nomination(pod, now);
        for lower in &preemption.cleared_nominations {
            self.give_up_nomination(*lower, now);
        }
        self.nominate(pod, node_name);
        self.stop_waiting(preemption.cleared_nominations.clone(), now);
    }

    /// What becomes of a pod, and what told it.
    fn decide(&mut self, pod: PodId, class: ClassId) -> (Outcome, Basis) {
        let (outcome, basis) = self.choose_node(pod, class);
        let profile = &self.profiles[self.classes[class.index()].profile];
        let outcome = match &profile.reserve_error {
            Some(error) if matches!(outcome, Outcome::Scheduled { .. }) => {
                Outcome::Error(error.as_str().into())
            }
            _ => outcome,
        };
        (outcome, basis)
    }

    fn choose_node(&mut self, pod: PodId, class: ClassId) -> (Outcome, Basis) {
        self.ties.refresh(&self.cluster);
        let pod_class = &self.classes[class.index()];
        let profile = &self.profiles[pod_class.profile];
        let Some(row) = self.pods[pod.index()].as_ref() else {
            return (Outcome::Error("pod was lost".into()), Basis::Nothing);
        };
        let incoming = self.incoming(pod, row);
        let name = incoming.name;
        let volumes = incoming.info.volumes;
        let has_volumes = volumes != 0;
        if let Some(refusal) = profile.pre_filter(&incoming, &self.cluster) {
            if has_volumes {
                self.watching.insert(pod);
            }
            if refusal.plugin == PriorityShare::NAME {
                self.held_back.insert(class);
            }
            let release = profile.release;
            if refusal.code == Code::Error {
                let error = refusal.pre_filter_error(release, name, &self.cluster);
                return (Outcome::Error(error.into()), Basis::Nothing);
            }
            let nodes = self.cluster.node_count();
            let evaluation = Evaluation::of_pre_filter(release, refusal.clone());
            let diagnosis = Diagnosis::of_pre_filter(release, refusal, nodes);
            let outcome = Outcome::Unschedulable(Arc::new(diagnosis));
            return (outcome, Basis::Evaluation(Box::new(evaluation)));
        }
        // A nominated node is tried first even if PreFilter names others.
        let tries_unlisted = row.nominated_node.is_some() && pod_class.listed_nodes.is_some();
        let interests_extenders = self.extenders.interested_in(pod).is_some();
        if tries_unlisted || interests_extenders || self.rotation.is_some() {
            self.watching.insert(pod);
            return self.decide_by_evaluation(pod);
        }
        let plan = self.plan(pod);
        let demand = plan.and_then(|_| self.demand(volumes));
        let (Some(plan), Some((demand, in_place))) = (plan, demand) else {
            self.watching.insert(pod);
            return self.decide_by_evaluation(pod);
        };
        if has_volumes || !self.plans[plan as usize].is_empty() {
            self.watching.insert(pod);
            // What nominated pods do to nodes is counted for filters only.
            let has_filters = has_volumes || !self.plans[plan as usize].filters.is_empty();
            if has_filters && !self.nominated.is_empty() {
                return self.decide_by_evaluation(pod);
            }
        }
        let overruled = if self.nominated.is_empty() {
            Vec::new()
        } else {
            let overruled = self.refused_for_nominated(pod);
            if overruled.iter().any(|(_, it)| it.code == Code::Error) {
                return self.decide_by_evaluation(pod);
            }
            if let Some(node) = self.own_nominated_node(pod, &overruled) {
                let outcome = Outcome::Scheduled {
                    node,
                    feasible_nodes: 1,
                    total_score: 0,
                };
                return (outcome, Basis::Nothing);
            }
            overruled
        };
        let key = (class, plan, demand);
        match self.best_node(pod, key, &in_place, overruled) {
            Some((outcome, key)) => (outcome, Basis::Verdicts(key)),
            None => self.decide_by_evaluation(pod),
        }
    }

    /// The number of the plan of a pod; `None` if every node must be evaluated.
    fn plan(&mut self, pod: PodId) -> Option<u32> {
        let row = self.pods[pod.index()].as_ref()?;
        let incoming = self.incoming(pod, row);
        let info = incoming.info;
        let has_volumes = info.volumes != 0;
        let key = (row.class, info.identity, info.terms, has_volumes, row.owner);
        let affinity_terms = self.cluster.affinity_terms_count();
        if let Some(known) = self.known_plans.get(&key)
            && (known.epoch, known.affinity_terms) == (self.plan_epoch, affinity_terms)
        {
            return known.plan;
        }
        let plan = self.profiles[incoming.class.profile].cross_plan(&incoming, &self.cluster);
        let plan = plan.map(|plan| self.plans.insert_full(plan).0 as u32);
        if self.known_plans.len() >= MAXIMUM_KNOWN_PLANS {
            self.known_plans.clear();
        }
        let known = KnownPlan {
            epoch: self.plan_epoch,
            affinity_terms,
            plan,
        };
        self.known_plans.insert(key, known);
        plan
    }

    /// The number of what a pod with these volumes demands of storage, and the nodes whose
    /// answer is about the one pod; `None` if every node must be evaluated. That is so for the first pod with a demand: many demands are those
    /// of one pod that is decided once, and verdicts would take more room than they are worth.
    fn demand(&mut self, volumes: u32) -> Option<(u32, Vec<NodeId>)> {
        if volumes == 0 {
            return Some((0, Vec::new()));
        }
        let volumes = self.cluster.storage.pod_volumes(volumes);
        let (demand, in_place) = VolumeDemand::new(volumes, &self.cluster)?;
        if self.demands.len() >= MAXIMUM_KNOWN_DEMANDS {
            self.forget_demands();
        }
        let (number, is_new) = self.demands.insert_full(demand);
        (!is_new).then_some((number as u32, in_place))
    }

    /// Forgets all demands of storage but that of pods without volumes, and their verdicts.
    fn forget_demands(&mut self) {
        self.demands.truncate(1);
        let keys = std::mem::take(&mut self.verdict_keys);
        let verdicts = std::mem::take(&mut self.verdicts);
        let last_used = std::mem::take(&mut self.last_used);
        for ((key, verdicts), last_used) in keys.into_iter().zip(verdicts).zip(last_used) {
            let (_, _, demand) = key;
            if demand == 0 {
                self.verdict_keys.insert(key);
                self.verdicts.push(verdicts);
                self.last_used.push(last_used);
            } else {
                self.verdict_slots -= verdicts.map_or(0, |verdicts| verdicts.slot_count());
            }
        }
    }

    /// Decides by looking at every node, where verdicts of the class do not tell enough.
    fn decide_by_evaluation(&mut self, pod: PodId) -> (Outcome, Basis) {
        if let Some(rotation) = &mut self.rotation {
            rotation.refresh();
        }
        let Some(evaluation) = self.evaluate(pod) else {
            return (Outcome::Error("pod was lost".into()), Basis::Nothing);
        };
        if let Some(rotation) = &mut self.rotation
            && evaluation.via_nominated_node.is_none()
        {
            rotation.advance(evaluation.looked_at);
        }
        let outcome = self.outcome(&evaluation);
        (outcome, Basis::Evaluation(Box::new(evaluation)))
    }

    /// What an evaluation comes to.
    fn outcome(&self, evaluation: &Evaluation) -> Outcome {
        let only = match evaluation.feasible.as_slice() {
            // PreFilter may leave out the node that the pod is nominated to.
            _ if evaluation.via_nominated_node.is_some() => None,
            [] if evaluation.error.is_none() => {
                let diagnosis = evaluation.diagnosis(&self.cluster);
                return Outcome::Unschedulable(Arc::new(diagnosis));
            }
            [only] => Some(*only),
            _ => None,
        };
        if let Some(node) = evaluation.via_nominated_node.or(only) {
            return Outcome::Scheduled {
                node,
                feasible_nodes: 1,
                total_score: 0,
            };
        }
        if let Some(error) = &evaluation.error {
            return Outcome::Error(error.as_str().into());
        }
        let total_score = evaluation.totals.iter().copied().max().unwrap_or(0);
        let best = evaluation
            .best()
            .into_iter()
            .min_by_key(|node| self.ties.rank(*node));
        let feasible_nodes = evaluation.feasible.len();
        match best {
            Some(node) => Outcome::Scheduled {
                node,
                feasible_nodes,
                total_score,
            },
            None => Outcome::Error("no node has the highest score".into()),
        }
    }

    fn incoming<'e>(&'e self, pod: PodId, row: &PodRow) -> IncomingPod<'e> {
        let class = &self.classes[row.class.index()];
        incoming_pod(class, self.cluster.pod_info(pod), row)
    }

    /// Decides by the verdicts of the key, with some nodes overruled; `None` if they do not
    /// tell all. Returns their number, too.
    fn best_node(
        &mut self,
        pod: PodId,
        verdict_key: VerdictKey,
        in_place: &[NodeId],
        overruled: Vec<(NodeId, Refusal)>,
    ) -> Option<(Outcome, usize)> {
        let (key, is_new) = self.verdict_keys.insert_full(verdict_key);
        if is_new {
            self.verdicts.push(None);
            self.last_used.push(0);
        }
        let (class, plan, demand) = verdict_key;
        let pod_class = &self.classes[class.index()];
        let profile = &self.profiles[pod_class.profile];
        let row = self.pods[pod.index()].as_ref()?;
        let incoming = incoming_pod(pod_class, self.cluster.pod_info(pod), row);
        let volume_filters = match demand {
            0 => Vec::new(),
            _ => profile.prepare_volume_filters(&incoming, &self.cluster),
        };
        let context = Context {
            profile,
            class: pod_class,
            cluster: &self.cluster,
            ties: &self.ties,
            plan: &self.plans[plan as usize],
            demand: &self.demands[demand as usize],
            in_place,
            volume_filters: &volume_filters,
        };
        self.decisions += 1;
        self.last_used[key] = self.decisions;
        let verdicts = match &mut self.verdicts[key] {
            Some(verdicts) => {
                self.verdict_slots -= verdicts.slot_count();
                verdicts.refresh(context);
                verdicts
            }
            unknown => unknown.insert(Box::new(Verdicts::new(context))),
        };
        self.verdict_slots += verdicts.slot_count();
        if !verdicts.is_usable(context.plan) {
            return None;
        }
        let nodes: Vec<NodeId> = overruled.iter().map(|(node, _)| *node).collect();
        for (node, refusal) in overruled {
            verdicts.overrule(node, refusal);
        }
        let outcome = outcome_of(verdicts, context);
        for node in nodes {
            verdicts.restore(context, node);
        }
        drop(volume_filters);
        if self.verdict_slots > MAXIMUM_VERDICT_SLOTS {
            self.forget_verdicts(key);
        }
        Some((outcome, key))
    }

    /// The nodes that refuse the pod once the pods nominated to them are counted.
    fn refused_for_nominated(&mut self, pod: PodId) -> Vec<(NodeId, Refusal)> {
        let Some(row) = self.pods[pod.index()].as_ref() else {
            return Vec::new();
        };
        let class = &self.classes[row.class.index()];
        let profile = &self.profiles[class.profile];
        let nominations = nominations(
            pod,
            &self.nominated,
            &self.pods,
            &self.usages,
            &self.cluster,
        );
        let mut refused = Vec::new();
        for at in nominations {
            let refusal = self.cluster.with_pods(at.node, &at.pods, |cluster| {
                first_refusal_by_node(profile, class, cluster, at.node)
            });
            refused.extend(refusal.map(|refusal| (at.node, refusal)));
        }
        refused
    }

    /// The node to which the pod itself is nominated, if that takes it now.
    fn own_nominated_node(&self, pod: PodId, overruled: &[(NodeId, Refusal)]) -> Option<NodeId> {
        let row = self.pods[pod.index()].as_ref()?;
        let node = self.cluster.node_named(row.nominated_node?)?;
        let class = &self.classes[row.class.index()];
        let profile = &self.profiles[class.profile];
        let is_overruled = overruled.iter().any(|(other, _)| *other == node);
        let fits = || first_refusal_by_node(profile, class, &self.cluster, node).is_none();
        (!is_overruled && fits()).then_some(node)
    }

    /// Drops verdicts, the least recently used first, until half the room is free.
    fn forget_verdicts(&mut self, keep: usize) {
        let mut kept: Vec<(u64, usize)> = (0..self.verdicts.len())
            .filter(|&class| self.verdicts[class].is_some() && class != keep)
            .map(|class| (self.last_used[class], class))
            .collect();
        kept.sort_unstable();
        for (_, class) in kept {
            if self.verdict_slots <= MAXIMUM_VERDICT_SLOTS / 2 {
                break;
            }
            let dropped = self.verdicts[class].take();
            self.verdict_slots -= dropped.map_or(0, |verdicts| verdicts.slot_count());
        }
    }

    fn carry_out(&mut self, pod: PodId, class: ClassId, outcome: &Outcome, now: TimeNanos) {
        let Some(row) = self.pods[pod.index()].as_mut() else {
            return;
        };
        row.state = match outcome {
            Outcome::Scheduled { node, .. } => {
                let node = *node;
                self.watching.remove(&pod);
                self.reserve(pod, node);
                self.put(pod, node, now);
                let came = ClusterEvent::PodCame(self.cluster.pod_info(pod));
                return self.wake_watching(&came, now);
            }
            Outcome::Unschedulable(diagnosis) => PodState::Unschedulable(Arc::clone(diagnosis)),
            Outcome::Error(error) => PodState::Error(Arc::clone(error)),
        };
        let priority = row.standing.priority;
        self.queue.wait(pod, class, priority, &mut row.queue, now);
    }

    /// Takes what a pod needs besides its node: volumes.
    fn reserve(&mut self, pod: PodId, node: NodeId) {
        let Some(row) = self.pods[pod.index()].as_ref() else {
            return;
        };
        let incoming = self.incoming(pod, row);
        if incoming.info.volumes == 0 {
            return;
        }
        let profile = &self.profiles[incoming.class.profile];
        if let Some(reservation) = profile.reserve(&incoming, &self.cluster, node) {
            self.cluster.reserve_storage(pod, node, reservation);
        }
    }

    /// What was assumed of volumes stays if the pod comes back bound, and is taken back if
    /// it does not.
    fn confirm_volumes(&mut self, pod: PodId, is_bound: bool, now: TimeNanos) {
        if is_bound {
            return self.cluster.storage.settle(pod);
        }
        for (kind, key) in self.cluster.unreserve_storage(pod) {
            self.wake_watching(&ClusterEvent::Storage { kind, key }, now);
        }
    }

    fn put(&mut self, pod: PodId, node: NodeId, now: TimeNanos) {
        let kept = self.kept_room(pod);
        let Some(row) = self.pods[pod.index()].as_mut() else {
            return;
        };
        let usage = &self.usages[row.usage as usize];
        row.position = self.cluster.add_pod(node, pod, usage);
        row.state = PodState::Placed(node);
        self.extenders.place_pod(pod, self.cluster.name(node));
        self.clear_nomination(pod);
        if let Some(kept) = kept.filter(|kept| *kept != node) {
            self.room_is_free(kept, now);
        }
    }

    /// The node on which room is kept for a waiting pod. When it no longer is, pods that
    /// wait may find room there (`eventhandlers.go`, Kubernetes 1.36).
    fn kept_room(&self, pod: PodId) -> Option<NodeId> {
        let row = self.pods[pod.index()].as_ref()?;
        self.cluster.node_named(row.nominated_node?)
    }

    fn nominate(&mut self, pod: PodId, node_name: Symbol) {
        self.clear_nomination(pod);
        if let Some(row) = self.pods[pod.index()].as_mut() {
            row.nominated_node = Some(node_name);
            self.nominated.entry(node_name).or_default().push(pod);
            self.log_nomination(node_name);
        }
        self.keep_share(pod, 1);
    }

    /// Has what a nominated pod asks for counted in its shares, or not any more. Nobody will
    /// go to a node that is not there.
    fn keep_share(&mut self, pod: PodId, by: i128) {
        let Some(row) = self.pods[pod.index()].as_ref() else {
            return;
        };
        let node = row.nominated_node;
        if node.is_some_and(|name| self.cluster.node_named(name).is_some()) {
            let usage = &self.usages[row.usage as usize];
            let shares = &mut self.cluster.shares;
            shares.nominate(usage, row.standing.priority, by);
        }
    }

    /// The same for all pods that are nominated to a node, which is new or about to go.
    fn keep_shares(&mut self, node_name: Symbol, by: i128) {
        let pods = self.nominated.get(&node_name).cloned().unwrap_or_default();
        for pod in pods {
            self.keep_share(pod, by);
        }
    }

    /// No longer keeps room for a pod: others may find it.
    fn give_up_nomination(&mut self, pod: PodId, now: TimeNanos) {
        let kept = self.kept_room(pod);
        self.clear_nomination(pod);
        if let Some(kept) = kept {
            self.room_is_free(kept, now);
        }
    }

    /// Queues the pods that may find room that is no longer kept for another one.
    fn room_is_free(&mut self, node: NodeId, now: TimeNanos) {
        self.wake(node, |_| true, now);
        self.wake_preemptors(node, &BTreeSet::new(), now);
    }

    fn clear_nomination(&mut self, pod: PodId) {
        self.keep_share(pod, -1);
        let row = self.pods[pod.index()].as_mut();
        let Some(name) = row.and_then(|row| row.nominated_node.take()) else {
            return;
        };
        if let Some(pods) = self.nominated.get_mut(&name) {
            pods.retain(|other| *other != pod);
            if pods.is_empty() {
                self.nominated.remove(&name);
            }
        }
        self.log_nomination(name);
    }

    /// Candidates are looked at again where nominations change: pods nominated there count.
    fn log_nomination(&mut self, node_name: Symbol) {
        if let Some(node) = self.cluster.node_named(node_name) {
            self.cluster.log_nomination(node);
        }
    }

    fn lift(&mut self, pod: PodId, node: NodeId) {
        let Some(row) = self.pods[pod.index()].as_ref() else {
            return;
        };
        let (position, usage) = (row.position, &self.usages[row.usage as usize]);
        let moved = self.cluster.remove_pod(node, position, usage);
        if let Some(moved) = moved.and_then(|moved| self.pods[moved.index()].as_mut()) {
            moved.position = position;
        }
    }

    fn node_changed(&mut self, node: &Node, now: TimeNanos) {
        let object = compile_node(node, &mut self.cluster);
        let name = object.name;
        let known = self.cluster.node_named(name);
        // What is kept for nominated pods is not the node's own affair.
        let known_alone = known.filter(|_| !self.nominated.contains_key(&name));
        let took = known_alone.map_or_else(Vec::new, |node| self.classes_that_fit(node));
        let preemptors = known_alone;
        let preemptors =
            preemptors.map_or_else(BTreeSet::new, |node| self.preemptors(node, i32::MAX));
        let hopeless = known.map_or_else(Vec::new, |node| self.nominated_in_vain(node));
        let look_before = known.map(|node| self.look(node));
        let id = self.cluster.set_node(object);
        if known.is_none() {
            self.keep_shares(name, 1);
        }
        self.extenders.set_node(id, node);
        if let Some(rotation) = &mut self.rotation {
            rotation.set(id, node);
        }
        let node = id;
        let pods = self.on_unknown_nodes.remove(&name).unwrap_or_default();
        for &pod in &pods {
            self.put(pod, node, now);
        }
        // Pods that the node could take all along wait for something else.
        self.wake(node, |class| !took.contains(&class), now);
        self.wake_preemptors(node, &preemptors, now);
        let mut in_vain = self.nominated_in_vain(node);
        in_vain.retain(|pod| !hopeless.contains(pod));
        self.stop_waiting(in_vain, now);
        let look = self.look(node);
        if look_before.as_ref() != Some(&look) {
            let event = ClusterEvent::Node {
                labels_before: look_before.as_ref().map_or(&[], |look| &look.labels),
                labels_after: &look.labels,
            };
            self.wake_watching(&event, now);
        } else {
            let watching = self.watching.iter().copied();
            let refused = watching.filter(|pod| self.is_refused_by_extender(*pod));
            self.stop_waiting(refused.collect(), now);
        }
        for pod in pods {
            let came = ClusterEvent::PodCame(self.cluster.pod_info(pod));
            self.wake_watching(&came, now);
        }
    }

    /// Pods nominated to a node that would not take them whoever goes. They need not wait for
    /// who is going there, but may preempt others (`default_preemption.go`
    /// PodEligibleToPreemptOthers, Kubernetes 1.36). There they learn it when they are tried
    /// because they waited for five minutes.
    fn nominated_in_vain(&self, node: NodeId) -> Vec<PodId> {
        let nominated = self.nominated.get(&self.cluster.name_symbol(node));
        let in_vain = nominated.into_iter().flatten().copied().filter(|pod| {
            let Some(row) = self.pods[pod.index()].as_ref() else {
                return false;
            };
            let class = &self.classes[row.class.index()];
            let profile = &self.profiles[class.profile];
            first_refusal_by_node(profile, class, &self.cluster, node)
                .is_some_and(|refusal| refusal.code == Code::UnschedulableAndUnresolvable)
        });
        in_vain.collect()
    }

    fn look(&self, node: NodeId) -> NodeLook {
        NodeLook {
            labels: self.cluster.labels(node).into(),
            taints: self.cluster.taints(node).into(),
        }
    }

    fn node_gone(&mut self, name: &str, now: TimeNanos) {
        let Some(node) = self.cluster.node(name) else {
            return;
        };
        let name = self.cluster.name_symbol(node);
        let labels = self.look(node).labels;
        let pods = self.cluster.pods(node).to_vec();
        for &pod in pods.iter().rev() {
            self.lift(pod, node);
            if let Some(row) = self.pods[pod.index()].as_mut() {
                row.state = PodState::OnUnknownNode(name);
            }
        }
        self.keep_shares(name, -1);
        self.cluster.remove_node(node);
        self.extenders.forget_node(node);
        if let Some(rotation) = &mut self.rotation {
            rotation.remove(node);
        }
        let nominated = self.nominated.get(&name).cloned();
        self.stop_waiting(nominated.unwrap_or_default(), now);
        let event = ClusterEvent::Node {
            labels_before: &labels,
            labels_after: &[],
        };
        self.wake_watching(&event, now);
        for &pod in &pods {
            let left = ClusterEvent::PodLeft(self.cluster.pod_info(pod));
            self.wake_watching(&left, now);
        }
        if !pods.is_empty() {
            self.on_unknown_nodes.insert(name, pods);
        }
    }

    fn pod_changed(&mut self, pod: &Pod, is_bound: bool, now: TimeNanos) {
        let symbols = &mut self.cluster.symbols;
        let namespace = symbols.intern(&pod.metadata.namespace);
        let name = symbols.intern(&pod.metadata.name);
        let known = self.pod_index.get(&(namespace, name)).copied();
        let compiled = self.compile(pod);
        if let Some(known) = known
            && !is_bound
            && self.takes_in_status(known, pod, &compiled)
        {
            return;
        }
        let nomination = self.nomination_told(known, pod);
        let old_info = known.map(|pod| self.cluster.pod_info(pod));
        let kept = known.and_then(|pod| self.kept_room(pod));
        let before_look = known.and_then(|pod| self.look_of_pod(pod));
        let before = known.and_then(|pod| self.take_out(pod));
        if let Some(pod) = known {
            self.confirm_volumes(pod, is_bound, now);
        }
        let freed = before.as_ref().and_then(|row| match row.state {
            PodState::Placed(node) => Some((node, Left::new(row, old_info.unwrap_or_default()))),
            _ => None,
        });
        let waits_since = before.as_ref().and_then(|row| row.waits_since);
        let Compiled { info, .. } = compiled;
        let row = PodRow {
            namespace,
            name,
            class: compiled.class,
            usage: compiled.usage,
            standing: compiled.standing,
            waits_since,
            position: 0,
            state: PodState::Ignored,
            queue: before.map(|row| row.queue).unwrap_or_default(),
            nominated_node: None,
            is_nomination_told: !pod.status.nominated_node_name.is_empty(),
            owner: compiled.owner,
        };
        let id = known.or_else(|| self.free_pods.pop());
        let id = id.unwrap_or_else(|| {
            self.pods.push(None);
            PodId::from_index(self.pods.len() - 1)
        });
        self.pods[id.index()] = Some(row);
        self.cluster.set_pod_info(id, info);
        self.pod_index.insert((namespace, name), id);
        if is_bound {
            self.extenders.set_pod(id, pod, true);
            self.bring_to_node(id, &pod.spec.node_name, now);
            self.wake_watching(&ClusterEvent::PodCame(info), now);
        } else {
            self.extenders.set_pod(id, pod, false);
            self.bring_to_queue(id, pod, nomination, now);
        }
        let keeps_as_before = before_look == self.look_of_pod(id);
        if let Some(kept) = kept
            && !(keeps_as_before && self.kept_room(id) == Some(kept))
        {
            self.room_is_free(kept, now);
        }
        if let Some((node, left)) = freed {
            self.pod_left(node, id, left, now);
        }
    }

    fn compile(&mut self, pod: &Pod) -> Compiled {
        let (class, usage) = self.class_and_usage(pod);
        Compiled {
            class,
            usage,
            standing: self.standing(pod),
            info: compile_info(pod, &mut self.cluster),
            owner: compile_owner(pod, &mut self.cluster.symbols),
        }
    }

    /// Takes in news of a pod that is to be placed if they are not about what it asks for, such
    /// as that its status now says what was decided about it; returns whether that is so. It
    /// then keeps its turn, or goes on to wait (`scheduling_queue.go` Update, Kubernetes 1.36).
    fn takes_in_status(&mut self, id: PodId, pod: &Pod, compiled: &Compiled) -> bool {
        let nomination = self.nomination_told(Some(id), pod);
        let is_gated = SchedulingGates::pre_enqueue(&pod.spec.scheduling_gates).is_err();
        let is_same_info = self.cluster.pod_info(id) == compiled.info;
        let Some(row) = self.pods[id.index()].as_mut() else {
            return false;
        };
        let wants_place = matches!(row.state, PodState::Queued | PodState::Unschedulable(_));
        let is_same = (row.class, row.usage, row.standing, row.owner)
            == (
                compiled.class,
                compiled.usage,
                compiled.standing,
                compiled.owner,
            )
            && row.nominated_node == nomination
            && is_same_info;
        if !wants_place || !is_same || is_gated {
            return false;
        }
        row.is_nomination_told = !pod.status.nominated_node_name.is_empty();
        self.extenders.set_pod(id, pod, false);
        true
    }

    /// Where a pod is nominated after news of it. A nomination that its status never told is
    /// still on its way there and stays (`nominator.go` UpdateNominatedPod, Kubernetes 1.36).
    fn nomination_told(&mut self, known: Option<PodId>, pod: &Pod) -> Option<Symbol> {
        let name = &pod.status.nominated_node_name;
        if !name.is_empty() {
            return Some(self.cluster.symbols.intern(name));
        }
        let row = self.pods[known?.index()].as_ref()?;
        row.nominated_node.filter(|_| !row.is_nomination_told)
    }

    /// What a nominated pod takes, and of whom: usage, priority and what others see of it.
    fn look_of_pod(&self, pod: PodId) -> Option<(u32, i32, PodInfo)> {
        let row = self.pods[pod.index()].as_ref()?;
        let info = self.cluster.pod_info(pod);
        Some((row.usage, row.standing.priority, info))
    }

    fn bring_to_node(&mut self, id: PodId, node_name: &str, now: TimeNanos) {
        let name = self.cluster.symbols.intern(node_name);
        match self.cluster.node_named(name) {
            Some(node) => self.put(id, node, now),
            None => {
                self.on_unknown_nodes.entry(name).or_default().push(id);
                self.set_state(id, PodState::OnUnknownNode(name));
            }
        }
    }

    /// Queues a pod, or sets it aside if it is gated or another scheduler's.
    fn bring_to_queue(&mut self, id: PodId, pod: &Pod, nomination: Option<Symbol>, now: TimeNanos) {
        let Some(profile) = self.profile_of(&pod.spec.scheduler_name) else {
            return;
        };
        if self.profiles[profile].holds_gated_pods
            && let Err(refusal) = SchedulingGates::pre_enqueue(&pod.spec.scheduling_gates)
        {
            return self.set_state(id, PodState::Gated(refusal));
        }
        self.set_state(id, PodState::Queued);
        if let Some(node) = nomination {
            self.nominate(id, node);
        }
        if let Some(row) = self.pods[id.index()].as_mut() {
            self.queue
                .add(id, row.standing.priority, &mut row.queue, now);
        }
    }

    fn pod_gone(&mut self, namespace: &str, name: &str, now: TimeNanos) {
        let Some(pod) = self.pod(namespace, name) else {
            return;
        };
        let kept = self.kept_room(pod);
        let Some(row) = self.take_out(pod) else {
            return;
        };
        self.cluster.storage.settle(pod);
        self.pod_index.remove(&(row.namespace, row.name));
        self.free_pods.push(pod);
        self.extenders.forget_pod(pod);
        if let Some(kept) = kept {
            self.room_is_free(kept, now);
        }
        if let PodState::Placed(node) = row.state {
            let left = Left::new(&row, self.cluster.pod_info(pod));
            self.pod_left(node, pod, left, now);
        }
    }

    /// Queues the pods that may fit now that a pod left its node, or takes another part of it.
    fn pod_left(&mut self, node: NodeId, pod: PodId, before: Left, now: TimeNanos) {
        let mut fit = self.classes_that_fit(node);
        if self.nominated.is_empty() && !fit.is_empty() {
            // Pods that the node could take with the other one wait for something else.
            let (classes, profiles) = (&self.classes, &self.profiles);
            let left = (pod, &self.usages[before.usage as usize]);
            fit = self
                .cluster
                .with_pod_as(node, left, before.info, |cluster| {
                    let fitted =
                        |class: &ClassId| fits(profiles, &classes[class.index()], cluster, node);
                    fit.into_iter().filter(|class| !fitted(class)).collect()
                });
        }
        self.wake(node, |class| fit.contains(&class), now);
        if !self.stays_as_before(node, pod, before) {
            self.retry_nominated(node, now);
            self.wake_preemptors_of(node, pod, before, now);
        }
        self.wake_watching(&ClusterEvent::PodLeft(before.info), now);
    }

    /// Whether a pod takes of its node what it took, at the priority that it had.
    fn stays_as_before(&self, node: NodeId, pod: PodId, before: Left) -> bool {
        let row = self.pods[pod.index()].as_ref();
        row.is_some_and(|row| {
            row.state == PodState::Placed(node)
                && (row.usage, row.standing.priority) == (before.usage, before.priority)
        })
    }

    /// Queues the waiting pods that are nominated to a node. They count on what goes there and
    /// must learn if it is not enough: else room is kept for them for ever.
    fn retry_nominated(&mut self, node: NodeId, now: TimeNanos) {
        let name = self.cluster.name_symbol(node);
        let nominated = self.nominated.get(&name).cloned();
        self.stop_waiting(nominated.unwrap_or_default(), now);
    }

    /// Queues the waiting pods that may have a place if pods of lower priority go, now that one
    /// that they cannot have go left the node.
    fn wake_preemptors_of(&mut self, node: NodeId, pod: PodId, before: Left, now: TimeNanos) {
        // What is kept for nominated pods may have been what was missing.
        let keeps_room = self.nominated.contains_key(&self.cluster.name_symbol(node));
        for (class, priority) in self.preemptors(node, before.priority) {
            let (classes, profiles) = (&self.classes, &self.profiles);
            let pods = PodTable::new(&self.pods, &self.usages);
            let lower = pods.below(priority, &self.cluster, node);
            let left = (pod, &self.usages[before.usage as usize]);
            let fitted = self.cluster.without_pods(node, &lower, |cluster| {
                cluster.with_pod_as(node, left, before.info, |cluster| {
                    fits(profiles, &classes[class.index()], cluster, node)
                })
            });
            if !fitted || keeps_room {
                self.wake_waiting(class, priority, now);
            }
        }
    }

    /// Queues the waiting pods that may have a place on a node if pods of lower priority go,
    /// but for those of which that was known `before`.
    fn wake_preemptors(&mut self, node: NodeId, before: &BTreeSet<(ClassId, i32)>, now: TimeNanos) {
        for (class, priority) in self.preemptors(node, i32::MAX) {
            if !before.contains(&(class, priority)) {
                self.wake_waiting(class, priority, now);
            }
        }
    }

    fn wake_waiting(&mut self, class: ClassId, priority: i32, now: TimeNanos) {
        for pod in self.queue.take_waiting_of(class, priority) {
            self.queue_again(pod, now, false);
        }
    }

    /// Classes of waiting pods, with their priority up to `highest`, that a node could take if
    /// its pods of lower priority went, as far as the node itself is concerned. O(classes × pods
    /// of the node).
    fn preemptors(&mut self, node: NodeId, highest: i32) -> BTreeSet<(ClassId, i32)> {
        let rows = self.cluster.pods(node).iter();
        let rows = rows.filter_map(|pod| self.pods[pod.index()].as_ref());
        let Some(lowest) = rows.map(|row| row.standing.priority).min() else {
            return BTreeSet::new();
        };
        let waiting = self.queue.waiting_kinds();
        let mut preemptors: BTreeSet<(ClassId, i32)> = waiting
            .filter(|(class, priority)| {
                let profile = self.classes[class.index()].profile;
                let is_between = lowest < *priority && *priority <= highest;
                is_between && !self.profiles[profile].post_filters.is_empty()
            })
            .collect();
        preemptors.retain(|(class, priority)| self.fits_without_lower(*class, *priority, node));
        preemptors
    }

    /// Whether a node could take pods of a class if its pods below a priority went. Mostly what
    /// these take together tells.
    fn fits_without_lower(&mut self, class: ClassId, priority: i32, node: NodeId) -> bool {
        let class = &self.classes[class.index()];
        let profile = &self.profiles[class.profile];
        let filters = Filters::of_nodes(profile, class);
        let freed = self.cluster.freed_below(node, priority);
        let told = freed.and_then(|it| filters.first_refusal_freed(&self.cluster, node, it));
        if let Some(told) = told {
            return may_go_to(profile, class, &self.cluster, node) && !is_refused(told.err());
        }
        let pods = PodTable::new(&self.pods, &self.usages);
        let lower = pods.below(priority, &self.cluster, node);
        let profiles = &self.profiles;
        self.cluster
            .without_pods(node, &lower, |cluster| fits(profiles, class, cluster, node))
    }

    /// Takes a pod off its node and out of the queue, and its row out of the table.
    fn take_out(&mut self, pod: PodId) -> Option<PodRow> {
        match self.pods[pod.index()].as_ref()?.state {
            PodState::Placed(node) => self.lift(pod, node),
            PodState::OnUnknownNode(name) => {
                if let Some(pods) = self.on_unknown_nodes.get_mut(&name) {
                    pods.retain(|other| *other != pod);
                }
            }
            _ => {}
        }
        self.clear_nomination(pod);
        self.watching.remove(&pod);
        let mut row = self.pods[pod.index()].take()?;
        self.queue.remove(pod, row.class, &mut row.queue);
        Some(row)
    }

    /// Queues the waiting pods of those classes that a node could take, as far as the node
    /// itself is concerned.
    fn wake(&mut self, node: NodeId, is_wanted: impl Fn(ClassId) -> bool, now: TimeNanos) {
        for class in self.classes_that_fit(node) {
            if !is_wanted(class) {
                continue;
            }
            if self.is_over_share(class) {
                self.held_back.insert(class);
                continue;
            }
            for pod in self.queue.take_waiting(class) {
                self.queue_again(pod, now, false);
            }
        }
    }

    /// Whether no pod of a class would fit its shares, whatever nodes are there.
    fn is_over_share(&self, class: ClassId) -> bool {
        let class = &self.classes[class.index()];
        let plugin = self.profiles[class.profile].priority_share.as_ref();
        plugin.is_some_and(|it| it.refuses_all(&class.usage, &self.cluster))
    }

    /// Queues the pods that were held back by shares which have room for them now. O(shares)
    /// while no share grows, and then O(waiting pods of these shares).
    fn retry_held_back(&mut self, now: TimeNanos) {
        let grown = self.cluster.shares.take_grown();
        if grown.is_empty() {
            return;
        }
        let classes = self.held_back.iter().copied().filter(|class| {
            let mut shares = self.classes[class.index()].usage.shares.iter();
            shares.any(|(share, _)| grown.contains(share))
        });
        for class in classes.collect::<Vec<_>>() {
            let waiting = self.queue.waiting(class);
            let (fit, held): (Vec<_>, Vec<_>) = waiting.partition(|pod| self.fits_shares(*pod));
            if held.is_empty() {
                self.held_back.remove(&class);
            }
            self.stop_waiting(fit, now);
        }
    }

    fn fits_shares(&self, pod: PodId) -> bool {
        let Some(row) = self.pods[pod.index()].as_ref() else {
            return false;
        };
        let incoming = self.incoming(pod, row);
        let plugin = self.profiles[incoming.class.profile]
            .priority_share
            .as_ref();
        plugin.is_none_or(|it| it.refusal(&incoming, &self.cluster).is_none())
    }

    /// Classes of waiting pods that a node could take, as far as the node itself is
    /// concerned.
    fn classes_that_fit(&self, node: NodeId) -> Vec<ClassId> {
        let classes = self.queue.waiting_classes();
        let fit = classes.filter(|class| {
            fits(
                &self.profiles,
                &self.classes[class.index()],
                &self.cluster,
                node,
            )
        });
        fit.collect()
    }

    /// Whether extenders had a part in that a pod waits. Nobody knows what helps then, so
    /// that anything may (`schedule_one.go` findNodesThatFitPod, Kubernetes 1.36).
    fn is_refused_by_extender(&self, pod: PodId) -> bool {
        let refused = |diagnosis: &Diagnosis| diagnosis.names(EXTENDER);
        self.extenders.are_asked()
            && matches!(self.pod_state(pod), Some(PodState::Unschedulable(it)) if refused(it))
    }

    /// Labels, services or the like changed: what is counted for pods may have, too.
    fn surroundings_changed(&mut self, event: &ClusterEvent<'_>, now: TimeNanos) {
        self.plan_epoch += 1;
        self.wake_watching(event, now);
    }

    /// Queues those of the watching pods that an event may help: one of the plugins that
    /// refused them says so.
    fn wake_watching(&mut self, event: &ClusterEvent<'_>, now: TimeNanos) {
        let watching = self.watching.iter().copied();
        let helped = watching.filter(|pod| self.may_help(*pod, event));
        self.stop_waiting(helped.collect(), now);
    }

    /// Queues those of the pods that wait.
    fn stop_waiting(&mut self, pods: Vec<PodId>, now: TimeNanos) {
        for pod in pods {
            let Some(row) = self.pods[pod.index()].as_mut() else {
                continue;
            };
            if self.queue.stop_waiting(pod, row.class, &mut row.queue) {
                self.queue_again(pod, now, false);
            }
        }
    }

    fn may_help(&self, pod: PodId, event: &ClusterEvent<'_>) -> bool {
        let Some(row) = self.pods[pod.index()].as_ref() else {
            return false;
        };
        if self.is_refused_by_extender(pod) {
            return true;
        }
        let refused_by = |plugin: &str| match &row.state {
            PodState::Unschedulable(diagnosis) => diagnosis.names(plugin),
            _ => true,
        };
        let incoming = self.incoming(pod, row);
        let mut refusers = self.profiles[incoming.class.profile].cluster_refusers();
        refusers.any(|filter| {
            refused_by(filter.name()) && filter.may_help(&incoming, event, &self.cluster)
        })
    }

    fn queue_again(&mut self, pod: PodId, now: TimeNanos, is_due: bool) {
        let Some(row) = self.pods[pod.index()].as_mut() else {
            return;
        };
        if is_due {
            self.queue
                .activate(pod, row.standing.priority, &mut row.queue);
        } else {
            self.queue
                .requeue(pod, row.standing.priority, &mut row.queue, now);
        }
    }

    fn set_state(&mut self, pod: PodId, state: PodState) {
        if let Some(row) = self.pods[pod.index()].as_mut() {
            row.state = state;
        }
    }

    fn profile_of(&self, scheduler_name: &str) -> Option<usize> {
        let name = if scheduler_name.is_empty() {
            DEFAULT_SCHEDULER_NAME
        } else {
            scheduler_name
        };
        self.profiles
            .iter()
            .position(|profile| profile.scheduler_name == name)
    }

    /// The class and usage of a pod. Pods made from one template come one after the other
    /// and share their spec: those after the first cost nothing.
    fn class_and_usage(&mut self, pod: &Pod) -> (ClassId, u32) {
        let reads_annotations = || self.profiles.iter().any(|it| !it.annotations.is_empty());
        let is_fresh = pod.status.container_statuses.is_empty()
            && pod.status.init_container_statuses.is_empty()
            && pod.status.resources.is_none()
            && !reads_annotations();
        if let Some(last) = &self.last_class
            && is_fresh
            && Arc::ptr_eq(&last.spec, &pod.spec)
            && last.namespace == pod.metadata.namespace
        {
            return (last.class, last.usage);
        }
        let profile = self.profile_of(&pod.spec.scheduler_name).unwrap_or(0);
        // Classes of 1.20 depend on the pod's controller too, which is not in the spec.
        let is_fresh = is_fresh && self.profiles[profile].release == Release::V1_36;
        let class = compile_class(pod, profile, &self.profiles[profile], &mut self.cluster);
        let usage = compile_usage(pod, &mut self.cluster);
        let usage = self.usages.insert_full(usage).0 as u32;
        let class = self.classes.insert_full(class).0;
        let class = ClassId::from_index(class);
        if is_fresh {
            self.last_class = Some(LastClass {
                spec: Arc::clone(&pod.spec),
                namespace: pod.metadata.namespace.clone(),
                class,
                usage,
            });
        }
        (class, usage)
    }
}

/// What the framework sees of a pod.
fn incoming_pod<'c>(class: &'c PodClass, info: PodInfo, row: &PodRow) -> IncomingPod<'c> {
    IncomingPod {
        name: row.name,
        class,
        info,
        owner: row.owner,
        priority: row.standing.priority,
        is_nominated: row.nominated_node.is_some(),
    }
}

/// What verdicts say about a pod.
fn outcome_of(verdicts: &mut Verdicts, context: Context<'_>) -> Outcome {
    match verdicts.best(context) {
        (None, _) => Outcome::Unschedulable(verdicts.diagnosis(context)),
        // A single feasible node is taken without scoring, as upstream does.
        (Some(best), 1) => Outcome::Scheduled {
            node: best.node,
            feasible_nodes: 1,
            total_score: 0,
        },
        (Some(best), feasible_nodes) => match verdicts.error() {
            Some(error) => Outcome::Error(error.into()),
            None => Outcome::Scheduled {
                node: best.node,
                feasible_nodes,
                total_score: best.total_score,
            },
        },
    }
}

/// What a pod was that left its node.
#[derive(Clone, Copy)]
struct Left {
    usage: u32,
    priority: i32,
    info: PodInfo,
}

impl Left {
    fn new(row: &PodRow, info: PodInfo) -> Self {
        Self {
            usage: row.usage,
            priority: row.standing.priority,
            info,
        }
    }
}

/// What pods on other nodes see of a node.
#[derive(PartialEq, Eq)]
struct NodeLook {
    labels: Box<[(Symbol, Symbol)]>,
    taints: Box<[Taint]>,
}

/// Whether a node could take pods of a class, as far as the node itself is concerned. A filter
/// that fails there refuses nothing: pods are to be tried, and told so.
fn fits(profiles: &[Profile], class: &PodClass, cluster: &Cluster, node: NodeId) -> bool {
    let profile = &profiles[class.profile];
    may_go_to(profile, class, cluster, node)
        && !is_refused(first_refusal_by_node(profile, class, cluster, node))
}

/// Whether pods of a class are tried on a node at all.
fn may_go_to(profile: &Profile, class: &PodClass, cluster: &Cluster, node: NodeId) -> bool {
    cluster.is_present(node)
        && listed_nodes(profile, class)
            .is_none_or(|names| names.contains(&cluster.name_symbol(node)))
}

fn is_refused(refusal: Option<Refusal>) -> bool {
    refusal.is_some_and(|refusal| refusal.code != Code::Error)
}

/// The nominated pods that count when `pod` is filtered: those of the same or higher
/// priority.
fn nominations<'u>(
    pod: PodId,
    nominated: &BTreeMap<Symbol, Vec<PodId>>,
    rows: &'u [Option<PodRow>],
    usages: &'u Interner<PodUsage>,
    cluster: &Cluster,
) -> Vec<Nominations<'u>> {
    let table = PodTable::new(rows, usages);
    let mut nominations = Vec::new();
    for (name, pods) in nominated {
        let Some(node) = cluster.node_named(*name) else {
            continue;
        };
        let pods = table.counting(pod, pods);
        if !pods.is_empty() {
            nominations.push(Nominations { node, pods });
        }
    }
    nominations
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Engine, EngineConfig, Outcome};
    use crate::storage::testing::{
        bound_claim, decide, engine, node, pod, pod_with_claims, tell, volume, volume_everywhere,
    };

    /// How many nodes could take a pod, which is decided.
    fn feasible_nodes(engine: &mut Engine, pod: &str) -> usize {
        let pod = engine.pod("default", pod).expect("a pod");
        let decision = engine.decide_pod(pod, 0).expect("a pod that waits");
        match decision.outcome {
            Outcome::Scheduled { feasible_nodes, .. } => feasible_nodes,
            outcome => panic!("{outcome:?}"),
        }
    }

    #[test]
    fn a_node_that_has_a_volume_already_says_so_to_its_pods_only() {
        let csi_node = |name: &str, count: i32| {
            json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
                "metadata": {"name": name}, "spec": {"drivers": [{"name": "csi.example.com",
                    "nodeID": name, "allocatable": {"count": count}}]}})
        };
        let mut engine = engine([
            node("a", json!({})),
            node("b", json!({})),
            csi_node("a", 9),
            csi_node("b", 1),
        ]);
        for name in ["first", "shared", "next", "last"] {
            tell(&mut engine, volume_everywhere(name));
            tell(&mut engine, bound_claim(name, name));
            tell(&mut engine, pod_with_claims(name, &[name]));
        }
        let mut there = pod_with_claims("there", &["shared"]);
        there["spec"]["nodeName"] = "b".into();
        tell(&mut engine, there);
        // Of the second pod on they have verdicts in common.
        let counts = ["first", "shared", "next"].map(|pod| feasible_nodes(&mut engine, pod));
        assert_eq!(counts, [1, 2, 1]);
        tell(&mut engine, pod_with_claims("again", &["shared"]));
        let counts = ["again", "last"].map(|pod| feasible_nodes(&mut engine, pod));
        assert_eq!(counts, [2, 1]);
    }

    #[test]
    fn filters_of_volumes_after_those_of_other_pods_keep_their_place() {
        let mut config = EngineConfig::default();
        let filters = &mut config.profiles[0].filter;
        filters.retain(|name| name != "VolumeBinding");
        filters.push("VolumeBinding".into());
        let mut engine = Engine::new(&config).expect("a profile");
        tell(&mut engine, node("a", json!({"zone": "one"})));
        let mut there = pod("there", "a", json!([]));
        there["metadata"]["labels"] = json!({"app": "x"});
        tell(&mut engine, there);
        tell(&mut engine, volume("v", "", "1Gi", "two"));
        tell(&mut engine, bound_claim("data", "v"));
        let message = "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules.";
        for (name, claims) in [("plain", &[][..]), ("p", &["data"]), ("q", &["data"])] {
            let mut pod = pod_with_claims(name, claims);
            pod["spec"]["affinity"]["podAntiAffinity"] = json!({
                "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone",
                    "labelSelector": {"matchLabels": {"app": "x"}}}]});
            tell(&mut engine, pod);
            assert_eq!(decide(&mut engine, name), message, "{name}");
        }
    }

    #[test]
    fn forgotten_demands_leave_other_verdicts_alone() {
        let nodes = [("a", "one"), ("b", "two")];
        let nodes = nodes.map(|(name, zone)| node(name, json!({"zone": zone})));
        let mut engine = engine(nodes);
        for claim in ["c0", "c1", "c2", "c3"] {
            tell(&mut engine, volume(claim, "", "1Gi", "two"));
            tell(&mut engine, bound_claim(claim, claim));
            let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]);
            tell(&mut engine, pod(&format!("with-{claim}"), "", volumes));
        }
        for name in ["p", "q"] {
            tell(&mut engine, pod(name, "", json!([])));
        }
        assert_eq!(decide(&mut engine, "with-c0"), "b");
        assert_eq!(decide(&mut engine, "p"), "a");
        assert_eq!(decide(&mut engine, "with-c1"), "b");
        assert_eq!((engine.demands.len(), engine.verdicts.len()), (2, 2));
        engine.forget_demands();
        assert_eq!((engine.demands.len(), engine.verdicts.len()), (1, 1));
        assert_eq!(engine.verdict_slots, 2);
        assert_eq!(decide(&mut engine, "q"), "a");
        assert_eq!(decide(&mut engine, "with-c2"), "b");
        assert_eq!(decide(&mut engine, "with-c3"), "b");
        assert_eq!(engine.verdict_slots, 4);
    }
}
