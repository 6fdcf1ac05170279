//! One pod against every node, from scratch: the slow path.
//!
//! This is the definition of a decision. It looks at every node with every plugin, keeps
//! everything it learns, and is what [`crate::verdicts`] must agree with; it also serves
//! whoever wants to see all of it.

use crate::cluster::{Cluster, PodUsage};
use crate::diagnosis::Diagnosis;
use crate::framework::Refusal;
use crate::ids::{NodeId, PodId, Symbol};
use crate::plugins::node_affinity::NodeAffinity;
use crate::pod_class::PodClass;
use crate::profile::Profile;

/// Pods that preemption made room for on a node and that count there already when pods of
/// the same or lower priority are filtered.
pub(crate) struct Nominations<'u> {
    pub(crate) node: NodeId,
    pub(crate) pods: Vec<(PodId, &'u PodUsage)>,
}

/// Everything about one pod and every node.
#[derive(Clone, Debug, Default)]
pub struct Evaluation {
    /// The refusal by a PreFilter plugin; nothing else is then known.
    pub pre_filter: Option<Refusal>,
    /// Names of the nodes to which PreFilter restricted the pod, sorted; others were not
    /// looked at.
    pub listed_nodes: Option<Vec<Symbol>>,
    /// Pods nominated to nodes that counted there, by node.
    pub nominated: Vec<(NodeId, Vec<PodId>)>,
    /// The pod's own nominated node, if it may take the pod: it is then taken, whatever
    /// the scores.
    pub via_nominated_node: Option<NodeId>,
    /// Nodes that were refused, by row.
    pub refused: Vec<(NodeId, Refusal)>,
    /// Nodes that may take the pod, by row.
    pub feasible: Vec<NodeId>,
    /// What a PreScore plugin found wrong with the pod; there are then no scores.
    pub error: Option<String>,
    /// Scores of the feasible nodes, plugin by plugin.
    pub scores: Vec<PluginScores>,
    /// Sums of the weighted scores, in the order of `feasible`.
    pub totals: Vec<i64>,
}

/// The scores that one plugin gave.
#[derive(Clone, Debug)]
pub struct PluginScores {
    /// The plugin.
    pub plugin: &'static str,
    /// Scores as the plugin gave them, in the order of the feasible nodes.
    pub raw: Vec<i64>,
    /// Scores normalized and multiplied by the plugin's weight.
    pub weighted: Vec<i64>,
}

impl Evaluation {
    /// Evaluates every node. O(nodes × plugins).
    pub(crate) fn new(
        profile: &Profile,
        class: &PodClass,
        cluster: &Cluster,
        nominations: &[Nominations<'_>],
    ) -> Self {
        let mut evaluation = Self::default();
        let nominated = nominations
            .iter()
            .map(|at| (at.node, at.pods.iter().map(|(pod, _)| *pod).collect()));
        evaluation.nominated = nominated.collect();
        if let Some(refusal) = profile
            .filters()
            .find_map(|plugin| plugin.pre_filter(class).err())
        {
            evaluation.pre_filter = Some(refusal);
            return evaluation;
        }
        evaluation.filter(profile, class, cluster, nominations);
        if !evaluation.feasible.is_empty() {
            evaluation.score(profile, class, cluster);
        }
        evaluation
    }

    /// The nodes with the highest total, by row.
    pub fn best(&self) -> Vec<NodeId> {
        let Some(highest) = self.totals.iter().max() else {
            return Vec::new();
        };
        let scored = self.feasible.iter().zip(&self.totals);
        scored
            .filter(|(_, total)| *total == highest)
            .map(|(node, _)| *node)
            .collect()
    }

    /// Why no node may take the pod, counted.
    pub fn diagnosis(&self, cluster: &Cluster) -> Diagnosis {
        let mut diagnosis = Diagnosis {
            node_count: cluster.node_count(),
            pre_filter: self.pre_filter.clone(),
            ..Diagnosis::default()
        };
        for (_, refusal) in &self.refused {
            match diagnosis
                .refusals
                .iter_mut()
                .find(|(known, _)| known == refusal)
            {
                Some((_, count)) => *count += 1,
                None => diagnosis.refusals.push((refusal.clone(), 1)),
            }
        }
        if self.listed_nodes.is_some() {
            let looked_at = self.refused.len() + self.feasible.len();
            diagnosis.unlisted = Some((cluster.node_count() - looked_at, vec![NodeAffinity::NAME]));
        }
        diagnosis
    }

    fn filter(
        &mut self,
        profile: &Profile,
        class: &PodClass,
        cluster: &Cluster,
        nominations: &[Nominations<'_>],
    ) {
        let nodes: Vec<NodeId> = match listed_nodes(profile, class) {
            None => cluster.nodes().collect(),
            Some(names) => {
                self.listed_nodes = Some(names.to_vec());
                let mut nodes: Vec<NodeId> = names
                    .iter()
                    .filter_map(|name| cluster.node_named(*name))
                    .collect();
                nodes.sort_unstable();
                nodes
            }
        };
        let nominated = |node| nominations.iter().find(|at| at.node == node);
        let mut copy = (!nominations.is_empty()).then(|| cluster.clone());
        for node in nodes {
            // With nominated pods a node must pass twice: with them, and without, since
            // they may never come.
            let with_nominated = nominated(node).and_then(|at| {
                copy.as_mut()?.with_pods(node, &at.pods, |cluster| {
                    first_refusal(profile, class, cluster, node)
                })
            });
            match with_nominated.or_else(|| first_refusal(profile, class, cluster, node)) {
                Some(refusal) => self.refused.push((node, refusal)),
                None => self.feasible.push(node),
            }
        }
    }

    fn score(&mut self, profile: &Profile, class: &PodClass, cluster: &Cluster) {
        self.totals = vec![0; self.feasible.len()];
        for (plugin, weight) in profile.scores() {
            match plugin.pre_score(class) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) => {
                    let name = plugin.name();
                    self.error = Some(format!("running PreScore plugin \"{name}\": {error}"));
                    self.scores.clear();
                    self.totals.clear();
                    return;
                }
            }
            let nodes = self.feasible.iter();
            let raw: Vec<i64> = nodes
                .map(|&node| plugin.score_node(class, cluster, node))
                .collect();
            let maximum = raw.iter().copied().max().unwrap_or(0);
            let normalized = raw
                .iter()
                .map(|&raw| plugin.normalize().apply(raw, maximum));
            let weighted: Vec<i64> = normalized.map(|score| score * weight).collect();
            for (total, score) in self.totals.iter_mut().zip(&weighted) {
                *total += score;
            }
            self.scores.push(PluginScores {
                plugin: plugin.name(),
                raw,
                weighted,
            });
        }
        if self.scores.is_empty() && profile.scores().next().is_none() {
            // Without any Score plugin every node counts 1, as upstream has it.
            self.totals.fill(1);
        }
    }
}

/// The refusal of the first plugin that refuses the node.
pub(crate) fn first_refusal(
    profile: &Profile,
    class: &PodClass,
    cluster: &Cluster,
    node: NodeId,
) -> Option<Refusal> {
    let mut filters = profile.filters().filter(|plugin| plugin.applies(class));
    filters.find_map(|plugin| plugin.filter_node(class, cluster, node).err())
}

/// The nodes to which the profile's plugins restrict the pod by name.
pub(crate) fn listed_nodes<'c>(profile: &Profile, class: &'c PodClass) -> Option<&'c [Symbol]> {
    let restricts = profile
        .filters()
        .any(|plugin| plugin.name() == NodeAffinity::NAME);
    if restricts {
        class.listed_nodes.as_deref()
    } else {
        None
    }
}
