//! Why a pod waits: counts by refusal, and upstream's message rendered from them.

use std::collections::BTreeMap;

use crate::cluster::Cluster;
use crate::extender::EXTENDER;
use crate::framework::Refusal;
use crate::ids::NodeId;
use crate::preemption::PostFilterRefusal;
use crate::release::Release;

/// Why no node would take a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnosis {
    /// How many nodes there were.
    pub node_count: usize,
    /// The refusal by a PreFilter plugin, which holds for all nodes.
    pub pre_filter: Option<Refusal>,
    /// Each distinct refusal by a Filter plugin, and how many nodes got it.
    pub refusals: Vec<(Refusal, usize)>,
    /// How many nodes were not looked at because PreFilter restricted the nodes, and the
    /// plugins that did.
    pub unlisted: Option<(usize, Vec<&'static str>)>,
    /// Why PostFilter plugins did not help either; empty if they did, or were not asked.
    pub post_filter: Vec<PostFilterRefusal>,
}

impl Diagnosis {
    /// The diagnosis of a pod that PreFilter refused for all of some nodes. 1.20 says so of
    /// each node.
    pub(crate) fn of_pre_filter(release: Release, refusal: Refusal, node_count: usize) -> Self {
        let (pre_filter, refusals) = match release {
            Release::V1_36 => (Some(refusal), Vec::new()),
            Release::V1_20 => (None, vec![(refusal, node_count)]),
        };
        Self {
            node_count,
            pre_filter,
            refusals,
            ..Self::default()
        }
    }

    /// Upstream's text, such as `0/5 nodes are available: 2 Too many pods, 3 Insufficient cpu.
    /// preemption: 0/5 nodes are available: 5 No preemption victims found for incoming pod.`
    /// (`framework/types.go` FitError, Kubernetes 1.36).
    pub fn message(&self, cluster: &Cluster) -> String {
        let mut message = self.filter_message(cluster);
        let added = self.post_filter.iter().map(|refusal| refusal.text(cluster));
        let added: Vec<String> = added.collect();
        if !added.is_empty() {
            message.push(' ');
            message.push_str(&added.join(", "));
        }
        message
    }

    /// The text before PostFilter adds its own, such as
    /// `0/5 nodes are available: 2 Too many pods, 3 Insufficient cpu.`
    pub fn filter_message(&self, cluster: &Cluster) -> String {
        if self.node_count == 0 {
            return "no nodes available to schedule pods".into();
        }
        let mut message = format!("0/{} nodes are available:", self.node_count);
        if let Some(refusal) = &self.pre_filter {
            let reasons: Vec<String> = refusal
                .reasons
                .iter()
                .map(|reason| reason.text(cluster))
                .collect();
            message.push_str(&format!(" {}.", reasons.join(", ")));
            return message;
        }
        let mut lines: Vec<String> = self
            .reasons(cluster)
            .into_iter()
            .map(|(reason, count)| format!("{count} {reason}"))
            .collect();
        lines.sort_unstable();
        if !lines.is_empty() {
            message.push_str(&format!(" {}.", lines.join(", ")));
        }
        message
    }

    /// Whether a plugin refused the pod or a node, or would even if pods of lower priority went.
    pub fn names(&self, plugin: &str) -> bool {
        let by_nodes = self.refusals.iter();
        let in_dry_runs = self
            .post_filter
            .iter()
            .flat_map(PostFilterRefusal::rejected);
        let by_nodes = by_nodes.chain(in_dry_runs).map(|(refusal, _)| refusal);
        let mut refusals = self.pre_filter.iter().chain(by_nodes);
        let is_left_no_candidate = self.post_filter.contains(&PostFilterRefusal::NoCandidate);
        (is_left_no_candidate && plugin == EXTENDER)
            || refusals.any(|refusal| refusal.plugin == plugin)
    }

    /// How many nodes gave each reason. A node that gave several counts for each.
    pub fn reasons(&self, cluster: &Cluster) -> BTreeMap<String, usize> {
        let mut reasons = BTreeMap::new();
        for (refusal, count) in &self.refusals {
            for reason in &refusal.reasons {
                *reasons.entry(reason.text(cluster)).or_insert(0) += count;
            }
        }
        if let Some((count, plugins)) = &self.unlisted
            && *count > 0
        {
            let reason = format!("node(s) didn't satisfy plugin(s) [{}]", plugins.join(" "));
            *reasons.entry(reason).or_insert(0) += count;
        }
        reasons
    }
}

/// Adds the refusals of nodes to how many nodes got each. O(refusals × distinct ones).
pub(crate) fn count_refusals(counted: &mut Vec<(Refusal, usize)>, refused: &[(NodeId, Refusal)]) {
    for (_, refusal) in refused {
        count_refusal(counted, refusal, 1);
    }
}

/// Adds a refusal that so many nodes gave. O(distinct refusals).
pub(crate) fn count_refusal(counted: &mut Vec<(Refusal, usize)>, refusal: &Refusal, nodes: usize) {
    match counted.iter_mut().find(|(known, _)| known == refusal) {
        Some((_, count)) => *count += nodes,
        None => counted.push((refusal.clone(), nodes)),
    }
}
