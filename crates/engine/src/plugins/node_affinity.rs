//! NodeAffinity: node selector, required and preferred node affinity.
//!
//! Required affinity refuses nodes. If every term names nodes by `metadata.name`, only
//! those nodes are looked at at all (PreFilter); terms that contradict each other refuse
//! the pod at once. Preferred terms add their weights to the score. The scheduler's
//! configuration may add affinity of its own to every pod (`addedAffinity`).
//! Source: `plugins/nodeaffinity/node_affinity.go`, Kubernetes 1.36.

use outrank_api::types::{NodeAffinity as NodeAffinitySpec, NodeSelectorTerm};

use crate::cluster::Cluster;
use crate::framework::{
    Code, DependsOn, FilterPlugin, Normalize, Plugin, Reason, Refusal, ScorePlugin,
};
use crate::ids::{NodeId, Symbol, Symbols};
use crate::node_match::{NodeTerm, PreferredNodes, any_matches, compile_terms};
use crate::pod_class::PodClass;
use crate::release::Release;

/// See the module.
#[derive(Default)]
pub struct NodeAffinity {
    release: Release,
    added_required: Option<Box<[NodeTerm]>>,
    added_preferred: Option<PreferredNodes>,
}

impl NodeAffinity {
    /// Name in configurations.
    pub const NAME: &'static str = "NodeAffinity";

    /// The plugin as of a release, with the affinity that the configuration adds.
    ///
    /// # Errors
    /// Upstream's text if the added affinity cannot be parsed.
    pub fn new(
        release: Release,
        added: Option<&NodeAffinitySpec>,
        symbols: &mut Symbols,
    ) -> Result<Self, String> {
        let Some(added) = added else {
            return Ok(Self {
                release,
                ..Self::default()
            });
        };
        let preferred = match added.preferred.as_slice() {
            [] => None,
            terms => Some(PreferredNodes::compile(terms, symbols)?),
        };
        let required = added
            .required
            .as_ref()
            .map(|required| compile_terms(required, symbols));
        Ok(Self {
            release,
            added_required: required,
            added_preferred: preferred,
        })
    }
}

/// The nodes, sorted, to which required terms restrict a pod by name; `None` if a term
/// leaves the name open or there are no terms.
pub(crate) fn listed_nodes(
    terms: &[NodeSelectorTerm],
    symbols: &mut Symbols,
) -> Option<Box<[Symbol]>> {
    if terms.is_empty() {
        return None;
    }
    let mut names: Vec<&str> = Vec::new();
    for term in terms {
        let mut of_term: Option<Vec<&str>> = None;
        for field in &term.match_fields {
            if field.key != "metadata.name" || field.operator != "In" {
                continue;
            }
            let values: Vec<&str> = field.values.iter().map(String::as_str).collect();
            of_term = Some(match of_term {
                None => values,
                Some(names) => names
                    .into_iter()
                    .filter(|name| values.contains(name))
                    .collect(),
            });
        }
        names.extend(of_term?);
    }
    names.sort_unstable();
    names.dedup();
    Some(names.into_iter().map(|name| symbols.intern(name)).collect())
}

impl Plugin for NodeAffinity {
    fn name(&self) -> &'static str {
        Self::NAME
    }
}

impl FilterPlugin for NodeAffinity {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeObject
    }

    fn applies(&self, class: &PodClass) -> bool {
        self.added_required.is_some() || !class.required_nodes.is_empty()
    }

    fn pre_filter(&self, class: &PodClass) -> Result<(), Refusal> {
        if class
            .listed_nodes
            .as_ref()
            .is_none_or(|names| !names.is_empty())
        {
            return Ok(());
        }
        let code = Code::UnschedulableAndUnresolvable;
        Err(Refusal::new(Self::NAME, code, Reason::NodeAffinityConflict))
    }

    fn filter_node(
        &self,
        class: &PodClass,
        cluster: &Cluster,
        node: NodeId,
    ) -> Result<(), Refusal> {
        let enforced = self.added_required.as_ref();
        let reason = if enforced.is_some_and(|terms| !any_matches(terms, cluster, node)) {
            Reason::EnforcedNodeAffinityMismatch
        } else if !class.required_nodes.matches(cluster, node) {
            match self.release {
                Release::V1_36 => Reason::NodeAffinityMismatch,
                Release::V1_20 => Reason::Fixed("node(s) didn't match Pod's node affinity"),
            }
        } else {
            return Ok(());
        };
        Err(Refusal::new(
            Self::NAME,
            Code::UnschedulableAndUnresolvable,
            reason,
        ))
    }
}

impl ScorePlugin for NodeAffinity {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeObject
    }

    fn normalize(&self) -> Normalize {
        Normalize::ByMaximum
    }

    fn pre_score(&self, class: &PodClass) -> Result<bool, String> {
        match &class.preferred_nodes {
            Some(Err(error)) => Err(error.clone()),
            Some(Ok(_)) => Ok(true),
            // 1.20 rates every pod, those without preferences 0 everywhere.
            None => Ok(self.added_preferred.is_some() || self.release == Release::V1_20),
        }
    }

    fn score_node(&self, class: &PodClass, cluster: &Cluster, node: NodeId) -> i64 {
        let added = self.added_preferred.as_ref();
        let own = class
            .preferred_nodes
            .as_ref()
            .and_then(|preferred| preferred.as_ref().ok());
        added
            .into_iter()
            .chain(own)
            .map(|preferred| preferred.score(cluster, node))
            .sum()
    }
}
