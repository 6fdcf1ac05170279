//! Preemption: which pods must go so that one that no node takes has a place.
//!
//! When every node has refused a pod, *PostFilter* plugins are asked. DefaultPreemption looks
//! for nodes on which the pod would fit if pods of lower priority were not there:
//!
//! 1. Whether the pod may preempt at all: not if its `preemptionPolicy` is `Never`, nor while
//!    pods that it preempted before are still going from the node it is nominated to.
//! 2. Potential nodes are those whose refusal other pods' going could cure (code
//!    Unschedulable).
//! 3. A *dry run* on each takes away all pods of lower priority. If the pod fits then, they are
//!    brought back one at a time, those first whose PodDisruptionBudget does not allow them to
//!    go, and among these the more important first: of higher priority, then started earlier.
//!    Who cannot be brought back is a *victim*. Nodes on which all pods of lower priority
//!    together do not free enough are told from sums ([`crate::use_by_priority`]).
//! 4. Extenders may say which of these *candidates* are left, and who is to go there.
//! 5. The best of them has the fewest violations of budgets; then the lowest
//!    highest priority among its victims; then the smallest sum of priorities; then the fewest
//!    victims; then those that started last.
//! 6. The pod is *nominated* to the node: pods of the same or lower priority must leave it that
//!    room. Nominations of pods of lower priority to the same node end.
//!
//! Nobody is killed here. [`Preemption`] says who is to be; whoever runs the engine deletes
//! them, and tells the engine once they go.
//!
//! Sources: `framework/preemption/preemption.go`,
//! `plugins/defaultpreemption/default_preemption.go`, Kubernetes 1.36.

mod budgets;
mod candidates;
pub mod safety;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::cluster::{Cluster, PodUsage};
use crate::diagnosis::count_refusals;
use crate::evaluation::{Evaluation, Filters};
use crate::extender::Preempting;
use crate::framework::{Code, IncomingPod, Reason, Refusal};
use crate::ids::{NodeId, PodId, Symbol};
use crate::pod_row::{PodRow, PodTable, Standing};
use crate::profile::{PostFilterPlugin, Profile};
use crate::queue::TimeNanos;
use crate::tie_order::TieOrder;
use crate::use_by_priority::Freed;
use crate::verdicts::Verdicts;

use budgets::BudgetCount;
pub(crate) use budgets::Budgets;
pub(crate) use candidates::{CandidateSets, Candidates};
use safety::{Protected, Rules};

/// Pods that are to be deleted so that another has a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preemption {
    /// Where the pod is to go once they are gone.
    pub node: NodeId,
    /// Who is to be deleted, the most important first, and what that does to budgets. Some may
    /// be on their way already.
    pub victims: Victims,
    /// Pods of lower priority that are no longer nominated to the node.
    pub cleared_nominations: Vec<PodId>,
}

/// Pods that must go from a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Victims {
    /// The pods, the most important first; at least one.
    pub pods: Vec<PodId>,
    /// Those of them that a PodDisruptionBudget does not allow to go.
    pub violating: Vec<PodId>,
}

/// A node on which the pod would have a place if others went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The node.
    pub node: NodeId,
    /// Who would have to go.
    pub victims: Victims,
}

/// Everything about preempting for one pod that no node takes.
#[derive(Clone, Debug, Default)]
pub struct PreemptionReport {
    /// What PostFilter plugins said, in order; empty if victims were found.
    pub refusals: Vec<PostFilterRefusal>,
    /// Whether the pod may preempt others; `None` if DefaultPreemption was not asked.
    pub is_eligible: Option<bool>,
    /// Nodes on which it helps, by row.
    pub candidates: Vec<Candidate>,
    /// Nodes that were tried and on which it does not help, by row, and why.
    pub rejected: Vec<(NodeId, Refusal)>,
    /// The best of the candidates, by row: all that are equally good.
    pub possible_nodes: Vec<NodeId>,
    /// What is done; `None` if nothing helps.
    pub preemption: Option<Preemption>,
    /// When a rule may no longer hold the pod back, on the engine's clock.
    pub retry_at: Option<TimeNanos>,
}

impl PreemptionReport {
    /// Notes a node on which it does not help, until that may be otherwise.
    fn reject(&mut self, node: NodeId, refusal: Refusal, retry_at: Option<TimeNanos>) {
        self.rejected.push((node, refusal));
        let times = [self.retry_at, retry_at].into_iter().flatten();
        self.retry_at = times.min();
    }
}

/// Why a PostFilter plugin could not help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PostFilterRefusal {
    /// DynamicResources: the pod holds no devices that could be given back.
    NothingToDeallocate,
    /// DynamicResources: its PreFilter was not reached, so that it knows nothing of the pod.
    StateNotFound,
    /// The pod's `preemptionPolicy` is `Never`.
    NeverPreempts,
    /// Pods that were preempted for it are still going.
    VictimsTerminating,
    /// No node would take it even if pods of lower priority went.
    NotHelpful {
        /// How many nodes there are; those that are in none of `rejected` were not tried.
        node_count: usize,
        /// Why nodes that were tried are of no use, and how many.
        rejected: Vec<(Refusal, usize)>,
    },
    /// Extenders left no candidate ([`crate::extender`]).
    NoCandidate,
    /// A rule holds the pod back ([`safety`]).
    Held {
        /// The rule, and what it is about now.
        reason: String,
        /// Who would be killed, were it not a dry run.
        would_be: Option<Preemption>,
    },
    /// A plugin failed.
    Failed(String),
}

impl PostFilterRefusal {
    /// Upstream's text.
    pub fn text(&self, cluster: &Cluster) -> String {
        let text = match self {
            Self::NothingToDeallocate => return "no new claims to deallocate".into(),
            Self::StateNotFound => return "not found".into(),
            Self::NeverPreempts => "not eligible due to preemptionPolicy=Never.".into(),
            Self::VictimsTerminating => {
                "not eligible due to a terminating pod on the nominated node.".into()
            }
            Self::NotHelpful {
                node_count,
                rejected,
            } => not_helpful(*node_count, rejected, cluster),
            Self::NoCandidate => "no candidate node for preemption".into(),
            Self::Held { reason, .. } => reason.clone(),
            Self::Failed(error) => error.clone(),
        };
        format!("preemption: {text}")
    }

    /// Why nodes that were tried are of no use, and how many.
    pub fn rejected(&self) -> &[(Refusal, usize)] {
        match self {
            Self::NotHelpful { rejected, .. } => rejected,
            _ => &[],
        }
    }

    /// What kind of no.
    pub fn code(&self) -> Code {
        match self {
            Self::StateNotFound | Self::Failed(_) => Code::Error,
            _ => Code::Unschedulable,
        }
    }
}

fn not_helpful(node_count: usize, rejected: &[(Refusal, usize)], cluster: &Cluster) -> String {
    let tried: usize = rejected.iter().map(|(_, nodes)| nodes).sum();
    let mut reasons: Vec<(String, usize)> = Vec::new();
    let mut add = |text: String, nodes: usize| match reasons.iter_mut().find(|it| it.0 == text) {
        Some((_, count)) => *count += nodes,
        None => reasons.push((text, nodes)),
    };
    for (refusal, nodes) in rejected {
        for reason in &refusal.reasons {
            add(reason.text(cluster), *nodes);
        }
    }
    if node_count > tried {
        add(
            "Preemption is not helpful for scheduling".into(),
            node_count - tried,
        );
    }
    let lines = reasons.into_iter();
    let mut lines: Vec<String> = lines
        .map(|(text, nodes)| format!("{nodes} {text}"))
        .collect();
    lines.sort_unstable();
    format!("0/{node_count} nodes are available: {}.", lines.join(", "))
}

/// The refusal of a node without any pod of lower priority.
fn no_victims() -> Refusal {
    Refusal::new(
        "",
        Code::UnschedulableAndUnresolvable,
        Reason::Fixed("No preemption victims found for incoming pod"),
    )
}

/// What preempting for one pod depends on.
pub(crate) struct Preemptor<'p> {
    pub(crate) pod: PodId,
    pub(crate) row: &'p PodRow,
    pub(crate) incoming: IncomingPod<'p>,
    pub(crate) profile: &'p Profile,
    pub(crate) pods: PodTable<'p>,
    pub(crate) budgets: &'p Budgets,
    /// All pods that are nominated to a node, by its name.
    pub(crate) nominated: &'p BTreeMap<Symbol, Vec<PodId>>,
    pub(crate) ties: &'p TieOrder,
    pub(crate) rules: Rules<'p>,
    /// Extenders that have a say.
    pub(crate) extenders: Option<Preempting<'p>>,
}

/// Of how many victims on a node an extender said that PodDisruptionBudgets would keep them.
type ToldViolations = BTreeMap<NodeId, i64>;

impl<'p> Preemptor<'p> {
    /// Asks the PostFilter plugins about a pod that `evaluation` found no node for.
    /// O(potential nodes × their pods of lower priority × plugins), and maybe a copy of the
    /// cluster ([`Scene`]).
    pub(crate) fn post_filter(
        &self,
        evaluation: &Evaluation,
        mut scene: Scene<'_>,
    ) -> PreemptionReport {
        let preempt = |report: &mut _| self.preempt(evaluation, &mut scene, report);
        self.ask(&self.deallocate(evaluation), preempt)
    }

    /// The same for a pod that `verdicts` found no node for, by candidates that are kept.
    /// O(potential nodes that changed × their pods of lower priority × plugins), and as much for
    /// the node that is chosen.
    pub(crate) fn post_filter_by(
        &self,
        candidates: &mut Candidates,
        verdicts: &Verdicts,
        cluster: &mut Cluster,
    ) -> PreemptionReport {
        let preempt = |report: &mut _| self.preempt_by(candidates, verdicts, cluster, report);
        self.ask(&PostFilterRefusal::NothingToDeallocate, preempt)
    }

    /// Asks the PostFilter plugins, of which DynamicResources says `deallocate`.
    fn ask(
        &self,
        deallocate: &PostFilterRefusal,
        mut preempt: impl FnMut(&mut PreemptionReport) -> Option<PostFilterRefusal>,
    ) -> PreemptionReport {
        let mut report = PreemptionReport::default();
        for plugin in &self.profile.post_filters {
            let refusal = match plugin {
                PostFilterPlugin::DynamicResources => Some(deallocate.clone()),
                PostFilterPlugin::DefaultPreemption => preempt(&mut report),
            };
            let Some(refusal) = refusal else {
                report.refusals.clear();
                break;
            };
            let is_error = refusal.code() == Code::Error;
            report.refusals.push(refusal);
            if is_error {
                // Nothing but the error is told.
                report.refusals.drain(..report.refusals.len() - 1);
                break;
            }
        }
        report
    }

    /// DynamicResources has devices given back that the pod holds on the wrong nodes. It knows
    /// nothing of the pod if an earlier plugin ended PreFilter.
    fn deallocate(&self, evaluation: &Evaluation) -> PostFilterRefusal {
        let refused = evaluation.pre_filter.as_ref();
        let reached = refused.is_none_or(|refusal| {
            refusal.code != Code::UnschedulableAndUnresolvable
                || self.profile.reaches_dynamic_resources(refusal.plugin)
        });
        match reached {
            true => PostFilterRefusal::NothingToDeallocate,
            false => PostFilterRefusal::StateNotFound,
        }
    }

    fn preempt(
        &self,
        evaluation: &Evaluation,
        scene: &mut Scene<'_>,
        report: &mut PreemptionReport,
    ) -> Option<PostFilterRefusal> {
        let nominated_code = self.nominated_code(evaluation, scene.cluster());
        let refusal = self.held_back(nominated_code, scene.cluster(), report);
        if refusal.is_some() {
            return refusal;
        }
        self.find_candidates(evaluation, scene, report);
        let cluster = scene.cluster();
        let told = match self.ask_extenders(cluster, report) {
            Ok(told) => told,
            Err(refusal) => return Some(refusal),
        };
        let Some(best) = self.choose(report, &told) else {
            return Some(refused(counted(&report.rejected), cluster));
        };
        report.retry_at = None;
        self.carry_out(&best, cluster, report)
    }

    /// Has extenders say which candidates are left, and at whose expense. What rules do not allow
    /// they cannot have either.
    fn ask_extenders(
        &self,
        cluster: &Cluster,
        report: &mut PreemptionReport,
    ) -> Result<ToldViolations, PostFilterRefusal> {
        let Some(extenders) = &self.extenders else {
            return Ok(ToldViolations::new());
        };
        if report.candidates.is_empty() {
            return Ok(ToldViolations::new());
        }
        let candidates = report.candidates.drain(..).map(|candidate| {
            let Victims { pods, violating } = candidate.victims;
            (candidate.node, (pods, violating.len() as i64))
        });
        let chosen = extenders.choose(cluster, candidates.collect());
        let chosen = chosen.map_err(PostFilterRefusal::Failed)?;
        if chosen.is_empty() {
            return Err(PostFilterRefusal::NoCandidate);
        }
        let mut told = ToldViolations::new();
        for (node, (pods, violations)) in chosen {
            told.insert(node, violations);
            let violating = self.violating(&pods, cluster);
            let victims = Victims { pods, violating };
            match self.allowed(&victims) {
                Ok(()) => report.candidates.push(Candidate { node, victims }),
                Err((refusal, retry_at)) => report.reject(node, refusal, retry_at),
            }
        }
        Ok(told)
    }

    /// Those of the pods that a PodDisruptionBudget does not allow to go, if they go in this
    /// order.
    fn violating(&self, pods: &[PodId], cluster: &Cluster) -> Vec<PodId> {
        let mut count = self.count_budgets();
        let pods = pods.iter().copied();
        pods.filter(|pod| self.violates(&mut count, *pod, cluster))
            .collect()
    }

    fn count_budgets(&self) -> BudgetCount<'p> {
        let is_strict = self.rules.is_strict(self.row.standing.priority);
        self.budgets.count(is_strict)
    }

    /// Counts a pod that goes; returns whether some PodDisruptionBudget does not allow that.
    fn violates(&self, count: &mut BudgetCount<'_>, pod: PodId, cluster: &Cluster) -> bool {
        let identity = cluster.identity(cluster.pod_info(pod).identity);
        let row = self.pods.row(pod);
        row.is_some_and(|row| count.take(identity, row.name))
    }

    /// Whether rules allow these victims, or why not and until when.
    fn allowed(&self, victims: &Victims) -> Result<(), (Refusal, Option<TimeNanos>)> {
        let priority = self.row.standing.priority;
        let mut protected = Protected::default();
        let rows = victims.pods.iter().filter_map(|pod| self.pods.row(*pod));
        for row in rows {
            let protection = self.rules.protection(&row.standing, priority);
            protection.into_iter().for_each(|it| protected.add(it));
        }
        if protected.is_any() {
            let mut refusal = no_victims();
            refusal.reasons.extend(protected.reasons());
            return Err((refusal, protected.until));
        }
        let toll = self.rules.toll(victims, priority, self.pods);
        let checked = self.rules.check(&toll);
        checked.map_err(|hold| (hold.refusal(), hold.retry_at))
    }

    /// Why nobody is killed for the pod, whoever it would be.
    fn held_back(
        &self,
        nominated_code: Option<Code>,
        cluster: &Cluster,
        report: &mut PreemptionReport,
    ) -> Option<PostFilterRefusal> {
        let refusal = self.ineligible(nominated_code, cluster);
        report.is_eligible = Some(refusal.is_none());
        if refusal.is_some() {
            return refusal;
        }
        let waits_since = self.row.waits_since.unwrap_or(self.rules.now);
        let hold = self.rules.hold(self.row.standing.priority, waits_since)?;
        report.retry_at = hold.retry_at;
        Some(PostFilterRefusal::Held {
            reason: hold.reason,
            would_be: None,
        })
    }

    /// Has the victims of the best candidate go, or says who would have to.
    fn carry_out(
        &self,
        best: &Candidate,
        cluster: &Cluster,
        report: &mut PreemptionReport,
    ) -> Option<PostFilterRefusal> {
        let preemption = self.preemption(best, cluster);
        if self.rules.is_dry_run(self.row.standing.priority) {
            return Some(self.would_be(preemption, cluster));
        }
        report.preemption = Some(preemption);
        None
    }

    /// What a dry run says.
    fn would_be(&self, preemption: Preemption, cluster: &Cluster) -> PostFilterRefusal {
        let victims = preemption.victims.pods.iter().filter_map(|pod| {
            let row = self.pods.row(*pod)?;
            let text = |symbol| cluster.symbols.text(symbol);
            Some(format!("{}/{}", text(row.namespace), text(row.name)))
        });
        let victims: Vec<String> = victims.collect();
        PostFilterRefusal::Held {
            reason: format!(
                "PreemptionSafety: mode is DryRun; would have killed {} on {}",
                victims.join(", "),
                cluster.name(preemption.node)
            ),
            would_be: Some(preemption),
        }
    }

    fn preempt_by(
        &self,
        candidates: &mut Candidates,
        verdicts: &Verdicts,
        cluster: &mut Cluster,
        report: &mut PreemptionReport,
    ) -> Option<PostFilterRefusal> {
        let refusal = self.held_back(None, cluster, report);
        if refusal.is_some() {
            return refusal;
        }
        let filters = Filters::of_nodes(self.profile, self.incoming.class);
        let mut dry_run = DryRun::new(self, filters, cluster).pruned();
        match candidates.best(&mut dry_run, verdicts) {
            Some(best) => self.carry_out(&best, cluster, report),
            None => {
                report.retry_at = candidates.retry_at(&self.rules);
                Some(candidates.refused(&self.rules, cluster))
            }
        }
    }

    /// What of the pod itself says, besides its class, whom it may preempt, so that candidates
    /// that are kept hold for all pods that have it in common.
    pub(crate) fn kept_by(&self) -> i32 {
        self.row.standing.priority
    }

    /// The pods nominated to a node that must be left room there, and what they take.
    fn nominated_at(&self, node: NodeId, cluster: &Cluster) -> Vec<(PodId, &'p PodUsage)> {
        let nominated = self.nominated.get(&cluster.name_symbol(node));
        nominated.map_or_else(Vec::new, |pods| self.pods.counting(self.pod, pods))
    }

    fn find_candidates(
        &self,
        evaluation: &Evaluation,
        scene: &mut Scene<'_>,
        report: &mut PreemptionReport,
    ) {
        let nodes = potential_nodes(evaluation, scene.cluster());
        if nodes.is_empty() {
            return;
        }
        match scene {
            Scene::Live(cluster) => {
                let filters = Filters::new(self.profile, &self.incoming, cluster);
                if filters.look_at_one_node() {
                    drop(filters);
                    let filters = Filters::of_nodes(self.profile, self.incoming.class);
                    let dry_run = DryRun::new(self, filters, cluster).pruned();
                    return self.try_nodes(nodes, dry_run, report);
                }
                let mut copy = cluster.clone();
                let dry_run = DryRun::new(self, filters, &mut copy).pruned();
                self.try_nodes(nodes, dry_run, report);
            }
            Scene::Shared(cluster) => {
                let filters = Filters::new(self.profile, &self.incoming, cluster);
                let mut copy = cluster.clone();
                self.try_nodes(nodes, DryRun::new(self, filters, &mut copy), report);
            }
        }
    }

    fn try_nodes(
        &self,
        nodes: Vec<NodeId>,
        mut dry_run: DryRun<'_, '_, '_>,
        report: &mut PreemptionReport,
    ) {
        let enough = self.enough_candidates(nodes.len());
        let mut without_violation = 0;
        for node in nodes {
            let (result, until) = self.try_node(&mut dry_run, node);
            let result = result.map_err(|refusal| (refusal, until));
            let allowed = result.and_then(|victims| {
                self.allowed(&victims)?;
                Ok(victims)
            });
            match allowed {
                Ok(victims) => {
                    without_violation += usize::from(victims.violating.is_empty());
                    report.candidates.push(Candidate { node, victims });
                    if without_violation > 0 && report.candidates.len() >= enough {
                        break;
                    }
                }
                Err((refusal, retry_at)) => report.reject(node, refusal, retry_at),
            }
        }
    }

    /// How many candidates of so many nodes end the search.
    fn enough_candidates(&self, nodes: usize) -> usize {
        let Some(minimum) = self.profile.minimum_candidates else {
            return nodes;
        };
        let share = nodes * usize::from(minimum.percentage) / 100;
        share.max(minimum.absolute).min(nodes)
    }

    /// Who must go from a node, or why that is of no use; and when that may be otherwise since
    /// pods that may not be victims may be then.
    fn try_node(
        &self,
        dry_run: &mut DryRun<'_, '_, '_>,
        node: NodeId,
    ) -> (Result<Victims, Refusal>, Option<TimeNanos>) {
        let protected = self.protected(node, dry_run.cluster);
        let result = dry_run.select_victims(node).map_err(|mut refusal| {
            refusal.reasons.extend(protected.reasons());
            refusal
        });
        (result, protected.until)
    }

    /// The pods of lower priority of a node that may not be victims.
    fn protected(&self, node: NodeId, cluster: &Cluster) -> Protected {
        let mut protected = Protected::default();
        if !self.rules.are_any() {
            return protected;
        }
        let priority = self.row.standing.priority;
        let rows = cluster
            .pods(node)
            .iter()
            .filter_map(|pod| self.pods.row(*pod));
        for row in rows.filter(|row| row.standing.priority < priority) {
            if let Some(protection) = self.rules.protection(&row.standing, priority) {
                protected.add(protection);
            }
        }
        protected
    }

    /// What the node said to which the pod is nominated; `None` if it is not nominated.
    fn nominated_code(&self, evaluation: &Evaluation, cluster: &Cluster) -> Option<Code> {
        let node = cluster.node_named(self.row.nominated_node?);
        let mut refused = evaluation.refused.iter();
        let refusal = refused.find(|(refused, _)| Some(*refused) == node);
        let code = refusal.map(|(_, refusal)| refusal.code);
        Some(code.unwrap_or(Code::UnschedulableAndUnresolvable))
    }

    /// Why the pod may not preempt others; `nominated_code` is what the node said that it is
    /// nominated to.
    pub(crate) fn ineligible(
        &self,
        nominated_code: Option<Code>,
        cluster: &Cluster,
    ) -> Option<PostFilterRefusal> {
        if !self.rules.preempts(&self.row.standing) {
            return Some(match self.row.standing.is_non_preemptible {
                true => PostFilterRefusal::Held {
                    reason: "not eligible due to preemptionPolicy=NonPreemptible.".into(),
                    would_be: None,
                },
                false => PostFilterRefusal::NeverPreempts,
            });
        }
        if nominated_code == Some(Code::UnschedulableAndUnresolvable) {
            return None;
        }
        let node = cluster.node_named(self.row.nominated_node?)?;
        let mut pods = cluster.pods(node).iter();
        let waits = pods.any(|pod| {
            let row = self.pods.row(*pod);
            row.is_some_and(|it| it.standing.is_preempted && self.may_preempt(&it.standing))
        });
        waits.then_some(PostFilterRefusal::VictimsTerminating)
    }

    /// Whether a pod may be a victim of this one.
    fn may_preempt(&self, victim: &Standing) -> bool {
        let priority = self.row.standing.priority;
        victim.priority < priority && self.rules.protection(victim, priority).is_none()
    }

    /// The best candidate; the rest of what is as good goes into the report.
    fn choose(&self, report: &mut PreemptionReport, told: &ToldViolations) -> Option<Candidate> {
        let costs = report.candidates.iter().map(|candidate| {
            let mut cost = Cost::new(&candidate.victims, self.pods, &self.rules);
            cost.pdb_violations = *told.get(&candidate.node).unwrap_or(&cost.pdb_violations);
            cost
        });
        let costs: Vec<Cost> = costs.collect();
        let least = costs.iter().min()?;
        let candidates = report.candidates.iter().zip(&costs);
        let best = candidates.filter(|(_, cost)| *cost == least);
        let best: Vec<&Candidate> = best.map(|(candidate, _)| candidate).collect();
        report.possible_nodes = best.iter().map(|candidate| candidate.node).collect();
        let first = best
            .into_iter()
            .min_by_key(|candidate| self.ties.rank(candidate.node));
        first.cloned()
    }

    /// What is done if a candidate is chosen.
    pub(crate) fn preemption(&self, candidate: &Candidate, cluster: &Cluster) -> Preemption {
        let nominated = self.nominated.get(&cluster.name_symbol(candidate.node));
        let lower = nominated.into_iter().flatten().copied().filter(|other| {
            let row = self.pods.row(*other);
            row.is_some_and(|row| row.standing.priority < self.row.standing.priority)
        });
        Preemption {
            node: candidate.node,
            victims: candidate.victims.clone(),
            cleared_nominations: lower.filter(|other| *other != self.pod).collect(),
        }
    }
}

/// Where preemption is tried by definition.
pub(crate) enum Scene<'c> {
    /// In the cluster itself, which is as before afterwards. Only if there are filters that look
    /// at more than one node and so hold the cluster as it is do dry runs take a copy.
    Live(&'c mut Cluster),
    /// In a copy, for whoever must not change anything. Nothing is left out there, so that it is
    /// what all else is held against.
    Shared(&'c Cluster),
}

impl Scene<'_> {
    fn cluster(&self) -> &Cluster {
        match self {
            Self::Live(cluster) => cluster,
            Self::Shared(cluster) => cluster,
        }
    }
}

/// Nodes whose refusal other pods' going could cure, by row.
fn potential_nodes(evaluation: &Evaluation, cluster: &Cluster) -> Vec<NodeId> {
    if let Some(refusal) = &evaluation.pre_filter {
        return match refusal.code {
            Code::Unschedulable => cluster.nodes().collect(),
            _ => Vec::new(),
        };
    }
    let refused = evaluation.refused.iter();
    let curable = refused.filter(|(_, refusal)| refusal.code == Code::Unschedulable);
    curable.map(|(node, _)| *node).collect()
}

/// Refusals, and how many nodes got each.
fn counted(rejected: &[(NodeId, Refusal)]) -> Vec<(Refusal, usize)> {
    let mut counted: Vec<(Refusal, usize)> = Vec::new();
    count_refusals(&mut counted, rejected);
    counted
}

/// What is told if there is no candidate.
fn refused(rejected: Vec<(Refusal, usize)>, cluster: &Cluster) -> PostFilterRefusal {
    let refusals = rejected.iter().map(|(refusal, _)| refusal);
    let failed = refusals.filter(|refusal| refusal.code == Code::Error);
    let reasons = failed.flat_map(|refusal| &refusal.reasons);
    let mut errors: Vec<String> = reasons.map(|reason| reason.text(cluster)).collect();
    if errors.is_empty() {
        return PostFilterRefusal::NotHelpful {
            node_count: cluster.node_count(),
            rejected,
        };
    }
    // As upstream joins them: several in brackets, each once.
    errors.sort_unstable();
    errors.dedup();
    PostFilterRefusal::Failed(match errors.as_slice() {
        [error] => error.clone(),
        errors => format!("[{}]", errors.join(", ")),
    })
}

/// What a candidate costs: the less the better, field by field in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cost {
    pdb_violations: i64,
    /// That of the most important victim, which comes first.
    highest_priority: i32,
    /// Work that victims lose, if that counts; else 0.
    lost_work: u64,
    /// Each priority counts from the lowest possible one on, so that every pod counts.
    priority_sum: i64,
    victims: usize,
    /// When the first of the victims with the highest priority started: the later the better.
    started_nanos: Reverse<i64>,
}

impl Cost {
    pub(crate) fn new(victims: &Victims, pods: PodTable<'_>, rules: &Rules<'_>) -> Self {
        let rows = || victims.pods.iter().filter_map(|pod| pods.row(*pod));
        let standings = || rows().map(|row| row.standing);
        let highest = standings().map(|it| it.priority).max().unwrap_or(i32::MIN);
        let started = standings().filter(|it| it.priority == highest);
        let started = started.map(|it| it.started_nanos).min();
        Self {
            pdb_violations: victims.violating.len() as i64,
            highest_priority: standings().next().map_or(i32::MIN, |it| it.priority),
            lost_work: standings()
                .map(|it| rules.lost_work(&it))
                .fold(0, u64::saturating_add),
            priority_sum: standings()
                .map(|it| i64::from(it.priority) - i64::from(i32::MIN))
                .sum(),
            victims: victims.pods.len(),
            started_nanos: Reverse(started.unwrap_or(i64::MAX)),
        }
    }
}

/// Tries what would be if pods went.
pub(crate) struct DryRun<'d, 'p, 'f> {
    preemptor: &'d Preemptor<'p>,
    filters: Filters<'f>,
    cluster: &'d mut Cluster,
    /// Whether some budget selected a potential victim on the node of the last dry run.
    is_under_budget: bool,
    /// Whether nodes are left out that sums tell to be of no use.
    is_pruned: bool,
}

impl<'d, 'p, 'f> DryRun<'d, 'p, 'f> {
    /// Dry runs on nodes of `cluster`, which afterwards is as it was before.
    pub(crate) fn new(
        preemptor: &'d Preemptor<'p>,
        filters: Filters<'f>,
        cluster: &'d mut Cluster,
    ) -> Self {
        Self {
            preemptor,
            filters,
            cluster,
            is_under_budget: false,
            is_pruned: false,
        }
    }

    /// The same, with nodes left out that what their pods of lower priority take together tells
    /// to be of no use: no pod is taken away there.
    pub(crate) fn pruned(self) -> Self {
        Self {
            is_pruned: true,
            ..self
        }
    }

    /// Who must go from a node so that the pod fits, or why that does not help.
    pub(crate) fn select_victims(&mut self, node: NodeId) -> Result<Victims, Refusal> {
        self.is_under_budget = false;
        if let Some(refusal) = self.refusal_by_sums(node) {
            return Err(refusal);
        }
        let mut potential = self.potential_victims(node);
        if potential.is_empty() {
            return Err(no_victims());
        }
        let before = self.cluster.remember(node);
        for &(pod, usage) in &potential {
            self.take_away(node, pod, usage);
        }
        let result = match self.refusal(node) {
            Some(refusal) => Err((refusal, potential)),
            None => {
                self.sort_by_importance(&mut potential);
                Ok(self.reprieve(node, potential))
            }
        };
        let (result, away) = match result {
            Ok((victims, away)) => (Ok(victims), away),
            Err((refusal, away)) => (Err(refusal), away),
        };
        for (pod, usage) in away {
            self.bring_back(node, pod, usage);
        }
        self.cluster.undo(node, before);
        match result {
            Ok(victims) if victims.pods.is_empty() => Err(self.no_victim_needed(node)),
            result => result,
        }
    }

    /// Why the node would not take the pod even without all potential victims, if it is known
    /// from what they take together.
    fn refusal_by_sums(&self, node: NodeId) -> Option<Refusal> {
        if !self.is_pruned {
            return None;
        }
        // Not all pods of lower priority are potential victims if there are rules.
        let of_victims = self.preemptor.rules.are_any().then(|| {
            let mut freed = Freed::default();
            let potential = self.potential_victims(node);
            potential.iter().for_each(|(_, usage)| freed.add(usage));
            freed
        });
        let priority = self.preemptor.row.standing.priority;
        let freed = match &of_victims {
            Some(freed) => Some(freed).filter(|freed| freed.pods() > 0),
            None => self.cluster.freed_below(node, priority),
        };
        let Some(freed) = freed else {
            return Some(no_victims());
        };
        let nominated = self.preemptor.nominated_at(node, self.cluster);
        if !nominated.is_empty() {
            return None;
        }
        let told = self.filters.first_refusal_freed(self.cluster, node, freed);
        told?.err()
    }

    fn potential_victims(&self, node: NodeId) -> Vec<(PodId, &'p PodUsage)> {
        let pods = self.cluster.pods(node).iter();
        let lower = pods.filter_map(|pod| {
            let row = self.preemptor.pods.row(*pod)?;
            let usage = self.preemptor.pods.usage(*pod)?;
            let may_preempt = self.preemptor.may_preempt(&row.standing);
            may_preempt.then_some((*pod, usage))
        });
        lower.collect()
    }

    /// Of higher priority first, then started earlier. The sort is stable.
    fn sort_by_importance(&self, pods: &mut [(PodId, &PodUsage)]) {
        pods.sort_by_key(|(pod, _)| {
            let standing = self.preemptor.pods.row(*pod).map(|row| row.standing);
            standing.map(|it| (Reverse(it.priority), it.started_nanos))
        });
    }

    /// Brings back, of pods in order of importance that were taken away, those that can stay.
    /// Returns who cannot, and all who are still away.
    #[allow(clippy::type_complexity)]
    fn reprieve(
        &mut self,
        node: NodeId,
        potential: Vec<(PodId, &'p PodUsage)>,
    ) -> (Victims, Vec<(PodId, &'p PodUsage)>) {
        let mut count = self.preemptor.count_budgets();
        let violates =
            |(pod, _): &(PodId, _)| self.preemptor.violates(&mut count, *pod, self.cluster);
        let (violating, others): (Vec<_>, Vec<_>) = potential.into_iter().partition(violates);
        self.is_under_budget = count.has_selected();
        let is_mixed = !violating.is_empty() && !others.is_empty();
        let mut away = Vec::new();
        for (pod, usage) in violating {
            away.extend(self.reprieve_one(node, pod, usage));
        }
        let violating = away.iter().map(|(pod, _)| *pod).collect();
        for (pod, usage) in others {
            away.extend(self.reprieve_one(node, pod, usage));
        }
        if is_mixed {
            self.sort_by_importance(&mut away);
        }
        let victims = Victims {
            pods: away.iter().map(|(pod, _)| *pod).collect(),
            violating,
        };
        (victims, away)
    }

    /// Brings a pod back if it can stay; else returns it.
    fn reprieve_one(
        &mut self,
        node: NodeId,
        pod: PodId,
        usage: &'p PodUsage,
    ) -> Option<(PodId, &'p PodUsage)> {
        self.bring_back(node, pod, usage);
        self.refusal(node)?;
        self.take_away(node, pod, usage);
        Some((pod, usage))
    }

    fn take_away(&mut self, node: NodeId, pod: PodId, usage: &PodUsage) {
        self.cluster.take_away(node, pod, usage);
        self.filters.count_pod(pod, node, -1);
    }

    fn bring_back(&mut self, node: NodeId, pod: PodId, usage: &PodUsage) {
        self.cluster.bring_back(node, pod, usage);
        self.filters.count_pod(pod, node, 1);
    }

    /// Why the node would not take the pod now; it must do so with and without the pods that
    /// are nominated to it.
    fn refusal(&mut self, node: NodeId) -> Option<Refusal> {
        let nominated = self.preemptor.nominated_at(node, self.cluster);
        let with_nominated = match nominated.as_slice() {
            [] => None,
            pods => {
                let (filters, cluster) = (&mut self.filters, &mut *self.cluster);
                filters.first_refusal_with(cluster, node, pods)
            }
        };
        with_nominated.or_else(|| self.filters.first_refusal(self.cluster, node))
    }

    fn no_victim_needed(&self, node: NodeId) -> Refusal {
        let name = self.cluster.name(node);
        let text = format!("expected at least one victim pod on node {name:?}");
        Refusal::new("", Code::Error, Reason::Text(text.into()))
    }
}
