//! One pod against every node, from scratch: the slow path.
//!
//! This is the definition of a decision. It looks at every node with every plugin, keeps
//! everything it learns, and is what [`crate::verdicts`] must agree with; it also serves
//! whoever wants to see all of it.

use std::collections::BTreeMap;

use crate::cluster::{Cluster, PodUsage};
use crate::diagnosis::{Diagnosis, count_refusals};
use crate::extender::{ExtenderScores, Interested};
use crate::framework::{
    Code, FilterPlugin, FilterStage, IncomingPod, NodeFilter, NodeScore, Reason, Refusal,
    ScorePlugin, ScoreStage,
};
use crate::ids::{NodeId, PodId, Symbol};
use crate::plugins::node_affinity::NodeAffinity;
use crate::pod_class::PodClass;
use crate::profile::Profile;
use crate::release::Release;
use crate::sampling::Sample;
use crate::use_by_priority::Freed;

/// Pods that preemption made room for on a node and that count there already when pods of
/// the same or lower priority are filtered.
pub(crate) struct Nominations<'u> {
    pub(crate) node: NodeId,
    pub(crate) pods: Vec<(PodId, &'u PodUsage)>,
}

/// What an evaluation is about.
pub(crate) struct Question<'q> {
    pub(crate) profile: &'q Profile,
    pub(crate) pod: IncomingPod<'q>,
    pub(crate) cluster: &'q Cluster,
    pub(crate) nominations: Vec<Nominations<'q>>,
    /// The node to which the pod itself is nominated.
    pub(crate) own_nominated_node: Option<NodeId>,
    /// The nodes that are tried; `None` is all.
    pub(crate) sample: Option<Sample<'q>>,
    /// Extenders that have a say about the pod.
    pub(crate) extenders: Option<Interested<'q>>,
}

/// Everything about one pod and every node.
#[derive(Clone, Debug, Default)]
pub struct Evaluation {
    /// Whose decision it is.
    pub release: Release,
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
    /// How many nodes were looked at; fewer than there are if PreFilter restricted them, or
    /// if the profile samples and enough feasible ones were found.
    pub looked_at: usize,
    /// Nodes that were refused, by row; where all filters are asked, with all they say.
    pub refused: Vec<(NodeId, Refusal)>,
    /// What each filter said of the nodes that were refused, where all are asked.
    pub refused_by: Vec<(NodeId, Vec<Refusal>)>,
    /// Nodes that may take the pod, by row.
    pub feasible: Vec<NodeId>,
    /// What a plugin found wrong with the pod; there are then no scores, and unless it was
    /// a PreScore or Score plugin no feasible nodes.
    pub error: Option<String>,
    /// What Reserve finds wrong once the pod has its node.
    pub reserve_error: Option<String>,
    /// Scores of the feasible nodes, plugin by plugin.
    pub scores: Vec<PluginScores>,
    /// Scores by extenders; if there is only one feasible node they are not asked.
    pub extender_scores: Vec<ExtenderScores>,
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
    /// Evaluates every node, or those of a sample. O(nodes × plugins), and what extenders
    /// take.
    pub(crate) fn new(question: &Question<'_>) -> Self {
        let mut evaluation = Self {
            release: question.profile.release,
            reserve_error: question.profile.reserve_error.clone(),
            ..Self::default()
        };
        let nominations = question.nominations.iter();
        let nominated = nominations.map(|at| {
            let pods = at.pods.iter().map(|(pod, _)| *pod).collect();
            (at.node, pods)
        });
        evaluation.nominated = nominated.collect();
        let (profile, cluster) = (question.profile, question.cluster);
        match profile.pre_filter(&question.pod, cluster) {
            Some(refusal) if refusal.code == Code::Error => {
                let name = question.pod.name;
                let error = refusal.pre_filter_error(profile.release, name, cluster);
                evaluation.error = Some(error);
                return evaluation;
            }
            Some(refusal) => {
                evaluation.pre_filter = Some(refusal);
                return evaluation;
            }
            None => {}
        }
        let own_refusal = evaluation.try_nominated_node(question);
        if let Some(node) = evaluation.via_nominated_node
            && question.extenders.is_some()
        {
            // Extenders are not asked more than they need to be.
            evaluation.feasible.push(node);
            evaluation.totals.push(0);
            return evaluation;
        }
        evaluation.search(question, own_refusal);
        evaluation.take_filter_errors(question);
        evaluation.ask_extenders(question);
        if !evaluation.feasible.is_empty() {
            evaluation.score(profile, &question.pod, cluster);
            evaluation.add_extender_scores(question);
        }
        evaluation
    }

    /// The evaluation of a pod that PreFilter refuses: no node is looked at.
    pub(crate) fn of_pre_filter(release: Release, refusal: Refusal) -> Self {
        Self {
            release,
            pre_filter: Some(refusal),
            ..Self::default()
        }
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
        let nodes = cluster.node_count();
        let mut diagnosis = match &self.pre_filter {
            Some(refusal) => Diagnosis::of_pre_filter(self.release, refusal.clone(), nodes),
            None => Diagnosis {
                node_count: nodes,
                ..Diagnosis::default()
            },
        };
        count_refusals(&mut diagnosis.refusals, &self.refused);
        if self.listed_nodes.is_some() {
            let unlisted = cluster.node_count() - self.looked_at;
            diagnosis.unlisted = Some((unlisted, vec![NodeAffinity::NAME]));
        }
        diagnosis
    }

    /// Searches for feasible nodes. `own_refusal` is that of the node that was tried first.
    fn search(&mut self, question: &Question<'_>, own_refusal: Option<(NodeId, Refusal)>) {
        let nodes = self.candidates(question);
        let count = nodes.len();
        let enough = question.sample.map_or(count, |sample| sample.limit(count));
        self.filter(question, &nodes, enough);
        // A sample, or PreFilter, may have left out the node that was tried first.
        if let Some((node, refusal)) = own_refusal
            && !nodes[..self.looked_at].contains(&node)
        {
            self.refused.push((node, refusal));
            self.looked_at += 1;
        }
    }

    /// The nodes that are tried, in order: all, or those that PreFilter names.
    fn candidates(&mut self, question: &Question<'_>) -> Vec<NodeId> {
        let cluster = question.cluster;
        let names = listed_nodes(question.profile, question.pod.class);
        let mut nodes: Vec<NodeId> = match (names, question.sample) {
            (None, None) => cluster.nodes().collect(),
            (None, Some(sample)) => sample.order.to_vec(),
            (Some(names), _) => {
                self.listed_nodes = Some(names.to_vec());
                let nodes = names.iter().filter_map(|name| cluster.node_named(*name));
                let mut nodes: Vec<NodeId> = nodes.collect();
                nodes.sort_unstable();
                nodes
            }
        };
        if let Some(sample) = question.sample
            && !nodes.is_empty()
        {
            let start = sample.start % nodes.len();
            nodes.rotate_left(start);
        }
        nodes
    }

    /// Filters nodes until `enough` are feasible, and those after them up to the next
    /// feasible one: kube-scheduler stops only there.
    fn filter(&mut self, question: &Question<'_>, nodes: &[NodeId], enough: usize) {
        let (profile, pod, cluster) = (question.profile, &question.pod, question.cluster);
        let nominated = |node| question.nominations.iter().find(|at| at.node == node);
        let mut filters = Filters::new(profile, pod, cluster);
        let mut copy = (!question.nominations.is_empty()).then(|| cluster.clone());
        for &node in nodes {
            // With nominated pods a node must pass twice: with them, and without, since
            // they may never come.
            let with_nominated = nominated(node)
                .and_then(|at| filters.first_refusal_with(copy.as_mut()?, node, &at.pods));
            match with_nominated.or_else(|| self.ask(&filters, profile, cluster, node)) {
                Some(refusal) => self.refused.push((node, refusal)),
                None if self.feasible.len() == enough => break,
                None => self.feasible.push(node),
            }
        }
        self.looked_at = self.refused.len() + self.feasible.len();
        self.refused.sort_by_key(|(node, _)| *node);
        self.feasible.sort_unstable();
    }

    /// Tries the node to which the pod is nominated. Returns its refusal, if it refuses; if
    /// a filter or an extender fails there, the node counts like any other.
    fn try_nominated_node(&mut self, question: &Question<'_>) -> Option<(NodeId, Refusal)> {
        let node = question.own_nominated_node?;
        let mut alone = Self::default();
        alone.filter(question, &[node], 1);
        alone.take_filter_errors(question);
        alone.ask_extenders(question);
        if !alone.feasible.is_empty() {
            self.via_nominated_node = Some(node);
        }
        alone.refused.pop()
    }

    /// Asks extenders about the feasible nodes; an error of theirs ends the pod's cycle.
    fn ask_extenders(&mut self, question: &Question<'_>) {
        let Some(extenders) = &question.extenders else {
            return;
        };
        if self.feasible.is_empty() {
            return;
        }
        let mut refused: BTreeMap<NodeId, Refusal> = self.refused.drain(..).collect();
        match extenders.filter(question.cluster, &self.feasible, &mut refused) {
            Ok(left) => {
                self.feasible = left;
                self.refused = refused.into_iter().collect();
            }
            Err(error) => {
                self.feasible.clear();
                self.error = Some(error);
            }
        }
    }

    /// Adds what extenders say of feasible nodes, if there is a choice.
    fn add_extender_scores(&mut self, question: &Question<'_>) {
        let Some(extenders) = &question.extenders else {
            return;
        };
        if self.feasible.len() < 2 || self.error.is_some() {
            return;
        }
        if question.profile.scores().is_empty() {
            self.totals.fill(0);
        }
        self.extender_scores = extenders.prioritize(question.cluster, &self.feasible);
        for scores in &self.extender_scores {
            for (total, score) in self.totals.iter_mut().zip(&scores.weighted) {
                *total = total.wrapping_add(*score);
            }
        }
    }

    /// Asks the filters about a node: the first that refuses it, or all.
    fn ask(
        &mut self,
        filters: &Filters<'_>,
        profile: &Profile,
        cluster: &Cluster,
        node: NodeId,
    ) -> Option<Refusal> {
        if !profile.checks_all_filters {
            return filters.first_refusal(cluster, node);
        }
        let refusals = filters.all_refusals(cluster, node);
        let merged = merge(&refusals)?;
        self.refused_by.push((node, refusals));
        Some(merged)
    }

    /// If a filter failed on some node, the pod's cycle ends: no node may take it.
    fn take_filter_errors(&mut self, question: &Question<'_>) {
        let (profile, cluster) = (question.profile, question.cluster);
        let failed = self
            .refused
            .iter_mut()
            .map(|(_, refusal)| refusal)
            .filter(|it| it.code == Code::Error);
        let mut errors = Vec::new();
        for refusal in failed {
            let error = refusal.filter_error(profile.release, question.pod.name, cluster);
            refusal.reasons = vec![Reason::Text(error.as_str().into())];
            errors.push(error);
        }
        self.error = errors.into_iter().min();
        if self.error.is_none() {
            return;
        }
        self.feasible.clear();
        if profile.release > Release::V1_20 {
            self.refused.clear();
            self.refused_by.clear();
        }
    }

    fn score(&mut self, profile: &Profile, pod: &IncomingPod<'_>, cluster: &Cluster) {
        let scores = match profile.pre_score_error(pod.class) {
            Some(error) => Err(error),
            None => self.plugin_scores(profile, pod, cluster),
        };
        self.totals = vec![0; self.feasible.len()];
        match scores {
            Ok(scores) => self.scores = scores,
            Err(error) => {
                self.error = Some(error);
                self.totals.clear();
                return;
            }
        }
        for scores in &self.scores {
            for (total, score) in self.totals.iter_mut().zip(&scores.weighted) {
                *total += score;
            }
        }
        if profile.scores().is_empty() {
            self.totals.fill(profile.score_without_plugins);
        }
    }

    /// The scores of all plugins that rate the pod.
    fn plugin_scores(
        &self,
        profile: &Profile,
        pod: &IncomingPod<'_>,
        cluster: &Cluster,
    ) -> Result<Vec<PluginScores>, String> {
        let mut all = Vec::new();
        for scoring in profile.scores() {
            let scores = match &scoring.stage {
                ScoreStage::Node(plugin) => {
                    self.score_by_node(plugin.as_ref(), scoring.is_alone, pod, cluster)
                }
                ScoreStage::Cluster(plugin) => {
                    let prepared = if scoring.is_alone {
                        let alone = plugin.prepare_score_alone(pod, cluster, &self.feasible);
                        alone.map(Some)
                    } else {
                        Ok(plugin.prepare_score(pod, cluster, &self.feasible))
                    };
                    let scores = |prepared: Option<Box<dyn NodeScore + '_>>| {
                        Some(self.score_by_cluster(plugin.name(), &*prepared?))
                    };
                    prepared.map(scores)
                }
            };
            let name = scoring.stage.plugin().name();
            let scores = scores.map_err(|error| {
                format!("running Score plugins: plugin {name:?} failed with: {error}")
            })?;
            all.extend(scores.map(|mut scores| {
                scores
                    .weighted
                    .iter_mut()
                    .for_each(|score| *score *= scoring.weight);
                scores
            }));
        }
        Ok(all)
    }

    /// Raw and normalized scores; `None` if PreScore skips the plugin.
    fn score_by_node(
        &self,
        plugin: &dyn ScorePlugin,
        is_alone: bool,
        pod: &IncomingPod<'_>,
        cluster: &Cluster,
    ) -> Result<Option<PluginScores>, String> {
        let nodes = self.feasible.iter();
        let raw: Vec<i64> = if is_alone {
            let raw = nodes.map(|&node| plugin.score_node_alone(pod.class, cluster, node));
            raw.collect::<Result<_, _>>()?
        } else if plugin.pre_score(pod.class)? {
            let raw = nodes.map(|&node| plugin.score_node(pod.class, cluster, node));
            raw.collect()
        } else {
            return Ok(None);
        };
        let maximum = raw.iter().copied().max().unwrap_or(0);
        let normalized = raw
            .iter()
            .map(|&raw| plugin.normalize().apply(raw, maximum));
        let weighted = normalized.collect();
        Ok(Some(PluginScores {
            plugin: plugin.name(),
            raw,
            weighted,
        }))
    }

    fn score_by_cluster(&self, plugin: &'static str, prepared: &dyn NodeScore) -> PluginScores {
        let raw: Vec<i64> = self
            .feasible
            .iter()
            .map(|node| prepared.score_node(*node))
            .collect();
        let mut weighted = raw.clone();
        prepared.normalize(&self.feasible, &mut weighted);
        PluginScores {
            plugin,
            raw,
            weighted,
        }
    }
}

/// All Filter stages that have something to say about a pod, those that look at the whole
/// cluster prepared.
///
/// Nodes can then be asked about in the same cluster or in one that differs by a few pods, of
/// which the filters must be told ([`Filters::count_pod`]). Stages that had nothing to say at
/// first are not asked again, as upstream does it: so the affinity of nominated pods may go
/// unnoticed.
pub(crate) struct Filters<'c> {
    class: &'c PodClass,
    stages: Vec<PreparedFilter<'c>>,
}

enum PreparedFilter<'c> {
    Node(&'c dyn FilterPlugin),
    Cluster(Box<dyn NodeFilter + 'c>),
}

impl<'c> Filters<'c> {
    pub(crate) fn new(profile: &'c Profile, pod: &IncomingPod<'c>, cluster: &'c Cluster) -> Self {
        let prepare = |stage: &'c FilterStage| match stage {
            FilterStage::Node(plugin) => plugin
                .applies(pod.class)
                .then(|| PreparedFilter::Node(plugin.as_ref())),
            FilterStage::Cluster(plugin) => plugin
                .prepare_filter(pod, cluster)
                .map(PreparedFilter::Cluster),
        };
        Self {
            class: pod.class,
            stages: profile.filters().iter().filter_map(prepare).collect(),
        }
    }

    /// Only the stages that look at one node: they borrow no cluster.
    pub(crate) fn of_nodes(profile: &'c Profile, class: &'c PodClass) -> Self {
        let stages = profile.node_filters().map(|(_, plugin)| plugin);
        let stages = stages.filter(|plugin| plugin.applies(class));
        Self {
            class,
            stages: stages.map(PreparedFilter::Node).collect(),
        }
    }

    /// Has a pod counted more (`by` is 1) or less (-1) on a node than there were at first.
    pub(crate) fn count_pod(&mut self, pod: PodId, node: NodeId, by: i64) {
        for stage in &mut self.stages {
            if let PreparedFilter::Cluster(filter) = stage {
                filter.count_pod(pod, node, by);
            }
        }
    }

    /// The refusal of the first stage that refuses the node.
    pub(crate) fn first_refusal(&self, cluster: &Cluster, node: NodeId) -> Option<Refusal> {
        self.refusals(cluster, node).next()
    }

    /// What the stages would say if pods went that take `freed` together: the first refusal, if
    /// there is one. `None` if that depends on which pods these are.
    pub(crate) fn first_refusal_freed(
        &self,
        cluster: &Cluster,
        node: NodeId,
        freed: &Freed,
    ) -> Option<Result<(), Refusal>> {
        for stage in &self.stages {
            let PreparedFilter::Node(plugin) = stage else {
                return None;
            };
            let told = plugin.filter_node_freed(self.class, cluster, node, freed)?;
            if told.is_err() {
                return Some(told);
            }
        }
        Some(Ok(()))
    }

    /// Whether all stages that have something to say look at one node.
    pub(crate) fn look_at_one_node(&self) -> bool {
        let mut stages = self.stages.iter();
        stages.all(|stage| matches!(stage, PreparedFilter::Node(_)))
    }

    /// The same with some pods more on the node.
    pub(crate) fn first_refusal_with(
        &mut self,
        cluster: &mut Cluster,
        node: NodeId,
        more: &[(PodId, &PodUsage)],
    ) -> Option<Refusal> {
        for (pod, _) in more {
            self.count_pod(*pod, node, 1);
        }
        let refusal = cluster.with_pods(node, more, |cluster| self.first_refusal(cluster, node));
        for (pod, _) in more {
            self.count_pod(*pod, node, -1);
        }
        refusal
    }

    /// The refusals of all stages that refuse the node; if one fails, that alone.
    fn all_refusals(&self, cluster: &Cluster, node: NodeId) -> Vec<Refusal> {
        let refusals: Vec<Refusal> = self.refusals(cluster, node).collect();
        let failed = refusals.iter().find(|refusal| refusal.code == Code::Error);
        match failed {
            Some(failed) => vec![failed.clone()],
            None => refusals,
        }
    }

    fn refusals(&self, cluster: &Cluster, node: NodeId) -> impl Iterator<Item = Refusal> {
        let refuse = move |stage: &PreparedFilter<'_>| match stage {
            PreparedFilter::Node(plugin) => plugin.filter_node(self.class, cluster, node).err(),
            PreparedFilter::Cluster(filter) => filter.filter_node(node).err(),
        };
        self.stages.iter().filter_map(refuse)
    }
}

/// One refusal that says what several say: that of the first plugin, for all reasons;
/// unresolvable if one of them is.
fn merge(refusals: &[Refusal]) -> Option<Refusal> {
    let mut merged = refusals.first()?.clone();
    for refusal in &refusals[1..] {
        merged.reasons.extend(refusal.reasons.iter().cloned());
        if refusal.code == Code::UnschedulableAndUnresolvable {
            merged.code = refusal.code;
        }
    }
    Some(merged)
}

/// The refusal of the first stage that refuses the node, of those that look at one node.
pub(crate) fn first_refusal_by_node(
    profile: &Profile,
    class: &PodClass,
    cluster: &Cluster,
    node: NodeId,
) -> Option<Refusal> {
    let mut filters = profile
        .node_filters()
        .filter(|(_, plugin)| plugin.applies(class));
    filters.find_map(|(_, plugin)| plugin.filter_node(class, cluster, node).err())
}

/// The nodes to which the profile's plugins restrict the pod by name.
pub(crate) fn listed_nodes<'c>(profile: &Profile, class: &'c PodClass) -> Option<&'c [Symbol]> {
    if profile.restricts_to_listed_nodes {
        class.listed_nodes.as_deref()
    } else {
        None
    }
}
