//! The candidates for a kind of pods, kept up to date: the fast path of preemption.
//!
//! Pods of one class and priority that no node takes have the same candidates. The first of them
//! tries every potential node; what comes of it is kept here, and the next one tries again only
//! the nodes that changed. The best candidate is the first of a sorted set, so that preempting
//! costs O(changed nodes × their pods × plugins + log nodes) instead of O(nodes × ...).
//!
//! What a node says depends on the node, on the pods on it, on those nominated to it, all of
//! which the log of changes tells, and on budgets, which have epochs. If only what a budget
//! allows changed, nodes without pods that budgets select are not tried again.
//!
//! Rules ([`super::safety`]) add what upstream lacks:
//!
//! * What priority classes say has an epoch; all nodes are tried again when it moves.
//! * A protection that ends at a time has its node tried again then.
//! * How many victims there may be depends on who was killed lately, so that it is asked anew
//!   each time; but not of each candidate: those whose victims count alike have a [`Toll`] in
//!   common and get the same answer.
//! * Work that victims lose grows with time. If it counts, all costs are worked out anew when
//!   time has passed, from the victims that are known.
//!
//! The answer is exactly that of [`Preemptor::post_filter`](super::Preemptor::post_filter), which
//! is the definition. It serves whoever is not decided by verdicts, pods with volumes, with a
//! plan of what is counted on other nodes or with a nomination of their own, and those about
//! which an extender has a say.

use std::collections::{BTreeMap, BTreeSet};

use super::budgets::BudgetEpochs;
use super::safety::{Hold, Rules, Toll};
use super::{Candidate, Cost, DryRun, PostFilterRefusal, Victims, refused};
use crate::cluster::Cluster;
use crate::diagnosis::count_refusal;
use crate::framework::{Code, Refusal};
use crate::ids::{ClassId, Interner, NodeId};
use crate::queue::TimeNanos;
use crate::verdicts::Verdicts;

/// The least recently used candidates are dropped when more rows than this are kept (about
/// 512 MiB).
const MAXIMUM_CANDIDATE_ROWS: usize = 2 << 20;

/// See the module.
#[derive(Default)]
pub(crate) struct Candidates {
    /// By row of the node.
    rows: Vec<Known>,
    tolls: Interner<Toll>,
    /// The candidates with each toll, the best first: the order of nodes with equal costs is that
    /// of ties.
    best: Vec<BTreeSet<(Cost, u32, NodeId)>>,
    refusals: Interner<Refusal>,
    refused_counts: Vec<usize>,
    /// Nodes that what budgets allow matters to.
    under_budget: BTreeSet<NodeId>,
    /// Nodes on which a protection ends, and when.
    due: BTreeSet<(TimeNanos, NodeId)>,
    /// Up to where the log is read, and the epochs then; `None` if nothing was tried yet.
    read: Option<Read>,
    /// What is told if there is no candidate whatever its toll, kept until something changes.
    refused: Option<PostFilterRefusal>,
}

/// What is known of a node.
#[derive(Default)]
enum Known {
    /// It is not there, or its refusal cannot be cured.
    #[default]
    NotTried,
    /// Nobody's going helps.
    Rejected {
        /// A number of `refusals`.
        refusal: u32,
        /// When that may be otherwise.
        until: Option<TimeNanos>,
    },
    /// It would help if some went.
    Candidate(Box<Kept>),
}

/// A candidate, and what counts when one is chosen.
struct Kept {
    victims: Victims,
    cost: Cost,
    /// In the order of ties.
    rank: u32,
    /// A number of `tolls`.
    toll: u32,
    /// When there may be other victims.
    until: Option<TimeNanos>,
}

impl Known {
    fn until(&self) -> Option<TimeNanos> {
        match self {
            Self::NotTried => None,
            Self::Rejected { until, .. } => *until,
            Self::Candidate(kept) => kept.until,
        }
    }
}

/// What tells whether anything changed.
#[derive(Clone, Copy)]
struct Read {
    log_end: u64,
    tie_epoch: u64,
    budgets: BudgetEpochs,
    class_epoch: u64,
    now: TimeNanos,
}

impl Read {
    fn new(dry_run: &DryRun<'_, '_, '_>) -> Self {
        let preemptor = dry_run.preemptor;
        let rules = &preemptor.rules;
        let is_strict = rules.is_strict(preemptor.row.standing.priority);
        Self {
            log_end: dry_run.cluster.log().end(),
            tie_epoch: preemptor.ties.epoch(),
            budgets: preemptor.budgets.epochs(is_strict),
            class_epoch: rules.classes.epoch(),
            now: rules.now,
        }
    }
}

impl Candidates {
    /// The best candidate, if there is one, for a pod that `verdicts`, just refreshed, found no
    /// node for.
    pub(crate) fn best(
        &mut self,
        dry_run: &mut DryRun<'_, '_, '_>,
        verdicts: &Verdicts,
    ) -> Option<Candidate> {
        self.refresh(dry_run, verdicts);
        let preemptor = dry_run.preemptor;
        let tolls = self.tolls.iter();
        let allowed: Vec<bool> = tolls
            .map(|toll| preemptor.rules.check(toll).is_ok())
            .collect();
        let tried = self.refused_counts.iter().sum::<usize>()
            + self.best.iter().map(BTreeSet::len).sum::<usize>();
        let enough = preemptor.enough_candidates(tried);
        let node = match enough < tried {
            true => self.best_of_first(enough, &allowed),
            false => self.best_of_all(&allowed),
        }?;
        let Known::Candidate(kept) = &self.rows[node.index()] else {
            return None;
        };
        let victims = kept.victims.clone();
        Some(Candidate { node, victims })
    }

    fn best_of_all(&self, allowed: &[bool]) -> Option<NodeId> {
        let sets = self
            .best
            .iter()
            .zip(allowed)
            .filter(|(_, is_allowed)| **is_allowed);
        let (_, _, node) = sets.filter_map(|(set, _)| set.first()).min()?;
        Some(*node)
    }

    /// The best of the first so many, by row, and those after them up to the first that no
    /// PodDisruptionBudget is against: the search ends there.
    fn best_of_first(&self, enough: usize, allowed: &[bool]) -> Option<NodeId> {
        let candidates = self.rows.iter().enumerate();
        let candidates = candidates.filter_map(|(row, known)| match known {
            Known::Candidate(kept) if allowed[kept.toll as usize] => Some((row, kept)),
            _ => None,
        });
        let mut best = None;
        let mut is_any_without_violation = false;
        for (count, (row, kept)) in (1..).zip(candidates) {
            let this = (kept.cost, kept.rank, NodeId::from_index(row));
            best = Some(best.map_or(this, |best| this.min(best)));
            is_any_without_violation |= kept.victims.violating.is_empty();
            if is_any_without_violation && count >= enough {
                break;
            }
        }
        best.map(|(_, _, node)| node)
    }

    /// What is told if there is no candidate that rules allow.
    pub(crate) fn refused(&mut self, rules: &Rules<'_>, cluster: &Cluster) -> PostFilterRefusal {
        if let Some(told) = &self.refused {
            return told.clone();
        }
        let rejected = self.refusals.iter().zip(&self.refused_counts);
        let mut counted = Vec::new();
        for (refusal, nodes) in rejected.filter(|(_, nodes)| **nodes > 0) {
            counted.push((refusal.clone(), *nodes));
        }
        let held = self.held(rules);
        let is_any_held = !held.is_empty();
        for (hold, nodes) in held {
            count_refusal(&mut counted, &hold.refusal(), nodes);
        }
        let told = refused(counted, cluster);
        // What rules say of candidates is about now.
        self.refused = (!is_any_held).then(|| told.clone());
        told
    }

    /// When some node may be a candidate that rules allow, if none is now.
    pub(crate) fn retry_at(&self, rules: &Rules<'_>) -> Option<TimeNanos> {
        let mut due = self.due.iter();
        let is_rejected = |node: NodeId| matches!(self.rows[node.index()], Known::Rejected { .. });
        let rejected = due.find(|(_, node)| is_rejected(*node));
        let held = self.held(rules);
        let held = held.into_iter().filter_map(|(hold, _)| hold.retry_at);
        held.chain(rejected.map(|(at, _)| *at)).min()
    }

    /// Why candidates are not allowed, and how many.
    fn held(&self, rules: &Rules<'_>) -> Vec<(Hold, usize)> {
        let candidates = self.tolls.iter().zip(&self.best);
        let candidates = candidates.filter(|(_, nodes)| !nodes.is_empty());
        let held =
            candidates.filter_map(|(toll, nodes)| Some((rules.check(toll).err()?, nodes.len())));
        held.collect()
    }

    /// Tries again what changed since the last call.
    fn refresh(&mut self, dry_run: &mut DryRun<'_, '_, '_>, verdicts: &Verdicts) {
        let now = Read::new(dry_run);
        let rows = dry_run.cluster.row_count();
        let Some(mut changed) = self.changed_until(now, dry_run.cluster) else {
            *self = Self::default();
            self.read = Some(now);
            self.rows.resize_with(rows, Known::default);
            let nodes: Vec<NodeId> = dry_run.cluster.nodes().collect();
            return self.try_again(nodes, dry_run, verdicts);
        };
        let read = self.read.replace(now);
        if read.is_some_and(|it| it.budgets != now.budgets) {
            changed.extend(&self.under_budget);
        }
        let due = self.due.iter().take_while(|(at, _)| *at <= now.now);
        changed.extend(due.map(|(_, node)| *node));
        self.rows.resize_with(rows, Known::default);
        self.try_again(changed, dry_run, verdicts);
        if read.is_some_and(|it| it.now != now.now) {
            self.let_time_pass(dry_run);
        }
    }

    /// The nodes that changed since the last call; `None` if all must be tried again.
    fn changed_until(&self, now: Read, cluster: &Cluster) -> Option<Vec<NodeId>> {
        let read = self.read?;
        let epochs = |it: Read| (it.tie_epoch, it.budgets.selection, it.class_epoch);
        // A clock that was put back may bring protections back.
        if epochs(read) != epochs(now) || now.now < read.now {
            return None;
        }
        let changes = cluster.log().since(read.log_end)?;
        Some(changes.map(|(node, _)| node).collect())
    }

    /// Works out all costs anew if they grow with time. O(candidates × (victims + log nodes)).
    fn let_time_pass(&mut self, dry_run: &DryRun<'_, '_, '_>) {
        let preemptor = dry_run.preemptor;
        if !preemptor.rules.prefers_least_lost_work() {
            return;
        }
        self.best.iter_mut().for_each(BTreeSet::clear);
        for (row, known) in self.rows.iter_mut().enumerate() {
            if let Known::Candidate(kept) = known {
                kept.cost = Cost::new(&kept.victims, preemptor.pods, &preemptor.rules);
                let node = NodeId::from_index(row);
                self.best[kept.toll as usize].insert((kept.cost, kept.rank, node));
            }
        }
    }

    fn try_again(
        &mut self,
        nodes: Vec<NodeId>,
        dry_run: &mut DryRun<'_, '_, '_>,
        verdicts: &Verdicts,
    ) {
        for node in nodes {
            self.refused = None;
            self.withdraw(node);
            if dry_run.cluster.is_present(node) && verdicts.looks_at(node) {
                self.try_node(node, dry_run, verdicts);
            }
        }
    }

    /// Forgets what was known of a node.
    fn withdraw(&mut self, node: NodeId) {
        let known = std::mem::take(&mut self.rows[node.index()]);
        if let Some(until) = known.until() {
            self.due.remove(&(until, node));
        }
        match known {
            Known::NotTried => {}
            Known::Rejected { refusal, .. } => self.refused_counts[refusal as usize] -= 1,
            Known::Candidate(kept) => {
                let set = &mut self.best[kept.toll as usize];
                set.remove(&(kept.cost, kept.rank, node));
            }
        }
        self.under_budget.remove(&node);
    }

    fn try_node(&mut self, node: NodeId, dry_run: &mut DryRun<'_, '_, '_>, verdicts: &Verdicts) {
        if dry_run.code(node, verdicts) != Some(Code::Unschedulable) {
            return;
        }
        let preemptor = dry_run.preemptor;
        let (result, until) = preemptor.try_node(dry_run, node);
        self.rows[node.index()] = match result {
            Ok(victims) => {
                let (pods, rules) = (preemptor.pods, &preemptor.rules);
                let kept = Kept {
                    cost: Cost::new(&victims, pods, rules),
                    rank: preemptor.ties.rank(node),
                    toll: self.toll_number(rules.toll(&victims, preemptor.kept_by(), pods)),
                    victims,
                    until,
                };
                self.best[kept.toll as usize].insert((kept.cost, kept.rank, node));
                Known::Candidate(Box::new(kept))
            }
            Err(refusal) => Known::Rejected {
                refusal: self.count_refusal(refusal),
                until,
            },
        };
        self.due.extend(until.map(|until| (until, node)));
        if dry_run.is_under_budget {
            self.under_budget.insert(node);
        }
    }

    fn toll_number(&mut self, toll: Toll) -> u32 {
        let (number, is_new) = self.tolls.insert_full(toll);
        if is_new {
            self.best.push(BTreeSet::new());
        }
        number as u32
    }

    fn count_refusal(&mut self, refusal: Refusal) -> u32 {
        let (number, is_new) = self.refusals.insert_full(refusal);
        if is_new {
            self.refused_counts.push(0);
        }
        self.refused_counts[number] += 1;
        number as u32
    }
}

impl DryRun<'_, '_, '_> {
    /// What kind of no the node says as things are. Verdicts know it unless pods are nominated
    /// to the node, which must be left room.
    fn code(&mut self, node: NodeId, verdicts: &Verdicts) -> Option<Code> {
        let nominated = self.preemptor.nominated_at(node, self.cluster);
        if nominated.is_empty() {
            return verdicts.refusal(node).map(|refusal| refusal.code);
        }
        self.refusal(node).map(|refusal| refusal.code)
    }
}

/// Of which pods candidates are kept: their class and priority.
type Kind = (ClassId, i32);

/// The candidates of all kinds of pods.
#[derive(Default)]
pub(crate) struct CandidateSets {
    by_kind: BTreeMap<Kind, (u64, Candidates)>,
    rows: usize,
    /// Grows with each use.
    uses: u64,
}

impl CandidateSets {
    /// Takes out the candidates of a kind; new ones, which know nothing, if none are kept.
    pub(crate) fn take(&mut self, kind: Kind) -> Candidates {
        let kept = self.by_kind.remove(&kind);
        let candidates = kept.map_or_else(Candidates::default, |(_, candidates)| candidates);
        self.rows -= candidates.rows.len();
        candidates
    }

    /// Keeps the candidates of a kind. If there are too many, those that were not used for
    /// longest are dropped until half the room is free.
    pub(crate) fn keep(&mut self, kind: Kind, candidates: Candidates) {
        self.uses += 1;
        self.rows += candidates.rows.len();
        self.by_kind.insert(kind, (self.uses, candidates));
        if self.rows > MAXIMUM_CANDIDATE_ROWS {
            self.drop_half();
        }
    }

    /// How many rows are kept.
    #[cfg(test)]
    pub(crate) fn row_count(&self) -> usize {
        self.rows
    }

    fn drop_half(&mut self) {
        let kept = self.by_kind.iter();
        let mut by_use: Vec<(u64, Kind)> = kept.map(|(kind, (used, _))| (*used, *kind)).collect();
        by_use.sort_unstable();
        for (_, kind) in by_use {
            if self.rows <= MAXIMUM_CANDIDATE_ROWS / 2 {
                break;
            }
            // What is taken is no longer kept.
            drop(self.take(kind));
        }
    }
}

#[cfg(test)]
mod tests {
    use outrank_api::types::PodDisruptionBudget;
    use serde_json::{Value, json};

    use crate::storage::testing::{engine, node, pod, tell};
    use crate::{Engine, Event};

    fn budget(app: &str, allowed: i32) -> PodDisruptionBudget {
        let budget = json!({"metadata": {"namespace": "default", "name": "budget"},
            "spec": {"selector": {"matchLabels": {"app": app}}},
            "status": {"disruptionsAllowed": allowed}});
        serde_json::from_value(budget).expect("a budget")
    }

    fn with_port(name: &str, node: &str, priority: i32) -> Value {
        let mut pod = pod(name, node, json!([]));
        pod["metadata"]["labels"] = json!({"app": name});
        pod["spec"]["priority"] = priority.into();
        pod["spec"]["containers"] = json!([{"name": "c", "image": "i",
            "ports": [{"containerPort": 80, "hostPort": 80}]}]);
        pod
    }

    /// Where a pod that comes, and goes again, would have others go.
    fn chosen(engine: &mut Engine) -> String {
        tell(engine, with_port("high", "", 9));
        let pod = engine.pod("default", "high").expect("a pod");
        let decision = engine.decide_pod(pod, 0).expect("a pod that waits");
        let node = decision.preemption.expect("victims").node;
        let name = engine.cluster().name(node).to_owned();
        let gone = Event::PodGone {
            namespace: "default".into(),
            name: "high".into(),
        };
        engine.handle(gone, 0);
        name
    }

    #[test]
    fn nodes_are_tried_again_when_budgets_change() {
        let mut engine = engine([node("a", json!({})), node("b", json!({}))]);
        tell(&mut engine, with_port("dear", "a", 1));
        tell(&mut engine, with_port("cheap", "b", 0));
        assert_eq!(chosen(&mut engine), "b");
        // Of what was chosen the log tells anyway, since the pod was nominated there.
        for (app, allowed, expected) in [
            ("dear", 0, "b"),
            ("cheap", 0, "a"),
            ("cheap", 1, "b"),
            ("cheap", 0, "a"),
            ("other", 0, "b"),
        ] {
            engine.handle(Event::BudgetChanged(budget(app, allowed)), 0);
            assert_eq!(chosen(&mut engine), expected, "{app} {allowed}");
        }
        engine.handle(Event::BudgetChanged(budget("cheap", 0)), 0);
        assert_eq!(chosen(&mut engine), "a");
        engine.handle(
            Event::BudgetGone {
                namespace: "default".into(),
                name: "budget".into(),
            },
            0,
        );
        assert_eq!(chosen(&mut engine), "b");
        assert_eq!(engine.kept_candidate_rows(), 2);
    }
}
