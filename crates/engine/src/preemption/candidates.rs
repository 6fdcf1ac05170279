//! The candidates for a kind of pods, kept up to date: the fast path of preemption.
//!
//! Pods of one class and priority that no node takes have the same candidates. The first of them
//! tries every potential node; what comes of it is kept here, and the next one tries again only
//! the nodes that changed. The best candidate is the first of a sorted set, so that preempting
//! costs O(changed nodes × their pods × plugins + log nodes) instead of O(nodes × ...). Who must
//! go from the best node is worked out once more when it is chosen: victims are not kept, but
//! what they cost is.
//!
//! What a node says depends on the node, on the pods on it, on those nominated to it, all of
//! which the log of changes tells, and on budgets, which have epochs. If only what a budget
//! allows changed, nodes without pods that budgets select are not tried again.
//!
//! The answer is exactly that of [`Preemptor::post_filter`](super::Preemptor::post_filter), which
//! is the definition. It serves whoever is not decided by verdicts, and pods with volumes, with a
//! plan of what is counted on other nodes, or with a nomination of their own.

use std::collections::{BTreeMap, BTreeSet};

use super::budgets::BudgetEpochs;
use super::{Candidate, Cost, DryRun, PostFilterRefusal, refused};
use crate::cluster::Cluster;
use crate::framework::{Code, Refusal};
use crate::ids::{ClassId, Interner, NodeId};
use crate::verdicts::Verdicts;

/// The least recently used candidates are dropped when more rows than this are kept (about
/// 512 MiB).
const MAXIMUM_CANDIDATE_ROWS: usize = 4 << 20;

/// See the module.
#[derive(Default)]
pub(crate) struct Candidates {
    /// By row of the node.
    rows: Vec<Known>,
    /// All candidates, the best first: the order of nodes with equal costs is that of ties.
    best: BTreeSet<(Cost, u32, NodeId)>,
    refusals: Interner<Refusal>,
    refused_counts: Vec<usize>,
    /// Nodes that what budgets allow matters to.
    under_budget: BTreeSet<NodeId>,
    /// Up to where the log is read, and the epochs then; `None` if nothing was tried yet.
    read: Option<Read>,
    /// What is told if there is no candidate, kept until something changes.
    refused: Option<PostFilterRefusal>,
}

/// What is known of a node.
#[derive(Clone, Copy, Default)]
enum Known {
    /// It is not there, or its refusal cannot be cured.
    #[default]
    NotTried,
    /// Nobody's going helps: a number of `refusals`.
    Rejected(u32),
    /// What it would cost, and its rank in the order of ties.
    Candidate(Cost, u32),
}

#[derive(Clone, Copy)]
struct Read {
    log_end: u64,
    tie_epoch: u64,
    budgets: BudgetEpochs,
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
        let (_, _, node) = *self.best.first()?;
        let victims = dry_run.select_victims(node).ok()?;
        Some(Candidate { node, victims })
    }

    /// What is told if there is no candidate.
    pub(crate) fn refused(&mut self, cluster: &Cluster) -> PostFilterRefusal {
        let counted = self.refusals.iter().zip(&self.refused_counts);
        let told = self.refused.get_or_insert_with(|| {
            let counted = counted.filter(|(_, nodes)| **nodes > 0);
            let counted = counted.map(|(refusal, nodes)| (refusal.clone(), *nodes));
            refused(counted.collect(), cluster)
        });
        told.clone()
    }

    /// Tries again what changed since the last call.
    fn refresh(&mut self, dry_run: &mut DryRun<'_, '_, '_>, verdicts: &Verdicts) {
        let now = Read {
            log_end: dry_run.cluster.log().end(),
            tie_epoch: dry_run.preemptor.ties.epoch(),
            budgets: dry_run.preemptor.budgets.epochs(),
        };
        let Some(mut changed) = self.changed_until(now, dry_run.cluster) else {
            *self = Self::default();
            self.read = Some(now);
            self.rows
                .resize(dry_run.cluster.row_count(), Known::NotTried);
            let nodes: Vec<NodeId> = dry_run.cluster.nodes().collect();
            return self.try_again(nodes, dry_run, verdicts);
        };
        if self.read.is_some_and(|it| it.budgets != now.budgets) {
            changed.extend(&self.under_budget);
        }
        self.read = Some(now);
        self.rows
            .resize(dry_run.cluster.row_count(), Known::NotTried);
        self.try_again(changed, dry_run, verdicts);
    }

    /// The nodes that changed since the last call; `None` if all must be tried again.
    fn changed_until(&self, now: Read, cluster: &Cluster) -> Option<Vec<NodeId>> {
        let read = self.read?;
        let is_as_before =
            (read.tie_epoch, read.budgets.selection) == (now.tie_epoch, now.budgets.selection);
        if !is_as_before {
            return None;
        }
        let changes = cluster.log().since(read.log_end)?;
        Some(changes.map(|(node, _)| node).collect())
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
        match std::mem::take(&mut self.rows[node.index()]) {
            Known::NotTried => {}
            Known::Rejected(refusal) => self.refused_counts[refusal as usize] -= 1,
            Known::Candidate(cost, rank) => _ = self.best.remove(&(cost, rank, node)),
        }
        self.under_budget.remove(&node);
    }

    fn try_node(&mut self, node: NodeId, dry_run: &mut DryRun<'_, '_, '_>, verdicts: &Verdicts) {
        if dry_run.code(node, verdicts) != Some(Code::Unschedulable) {
            return;
        }
        self.rows[node.index()] = match dry_run.select_victims(node) {
            Ok(victims) => {
                let cost = Cost::new(&victims, dry_run.preemptor.pods, &dry_run.preemptor.rules);
                let rank = dry_run.preemptor.ties.rank(node);
                self.best.insert((cost, rank, node));
                Known::Candidate(cost, rank)
            }
            Err(refusal) => Known::Rejected(self.count_refusal(refusal)),
        };
        if dry_run.is_under_budget {
            self.under_budget.insert(node);
        }
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
