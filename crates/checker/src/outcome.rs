//! The two directions: nothing is where it may not be, nothing waits without need.

use std::collections::{BTreeMap, BTreeSet};

use outrank_api::defaults::SCHEDULER_NAME;
use outrank_api::types::{Node, Pod, Volume};

use crate::rules::{Place, RULES, Site, Subject};
use crate::shares::{Share, ShareUse};
use crate::violation::{Breach, Violation, WronglyPending};

/// What the checker must know beside the outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The pods that were on a node before the scheduler began, as `namespace/name`, with
    /// that node: bound earlier, or created with `spec.nodeName`. They count as having
    /// been there before anything was placed.
    pub placed_before: BTreeMap<String, String>,
    /// Names of the schedulers whose work is checked; pods of others wait or are in
    /// `placed_before`. The default is `default-scheduler`.
    pub scheduler_names: BTreeSet<String>,
    /// Whether tolerations may use `Lt` and `Gt` (gate TaintTolerationComparisonOperators,
    /// off by default in Kubernetes 1.36).
    pub taint_comparison_operators: bool,
    /// What pods may use together (PriorityShare); no limits by default.
    pub shares: Vec<Share>,
    /// How many candidates may end the search for whom to preempt; all are compared by default.
    pub enough_candidates: Option<EnoughCandidates>,
}

/// How many nodes on which preempting helps end the search for more, once one of them violates
/// no PodDisruptionBudget (the arguments of DefaultPreemption): the larger of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnoughCandidates {
    /// `minCandidateNodesPercentage`, of the nodes that are tried.
    pub percentage: u8,
    /// `minCandidateNodesAbsolute`.
    pub absolute: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            placed_before: BTreeMap::new(),
            scheduler_names: BTreeSet::from([SCHEDULER_NAME.to_owned()]),
            taint_comparison_operators: false,
            shares: Vec::new(),
            enough_candidates: None,
        }
    }
}

impl Options {
    /// The default, with the pods that are on a node in this state as `placed_before`.
    pub fn starting_from(pods: &[Pod]) -> Self {
        let placed = pods.iter().filter(|pod| !pod.spec.node_name.is_empty());
        let placed_before = placed
            .map(|pod| (pod.key(), pod.spec.node_name.clone()))
            .collect();
        Self {
            placed_before,
            ..Self::default()
        }
    }

    pub(crate) fn is_ours(&self, pod: &Pod) -> bool {
        let name = pod.spec.scheduler_name.as_str();
        self.scheduler_names.contains(if name.is_empty() {
            SCHEDULER_NAME
        } else {
            name
        })
    }
}

/// Every placement that may not be, in the order of `pods`; none if all is well.
///
/// `pods` are all pods in their final state, with `spec.nodeName` where they are placed.
/// Finished pods use nothing and are not looked at. Takes time linear in the pods, apart
/// from pods with host ports, which are compared with each other on each node.
pub fn check(nodes: &[Node], pods: &[Pod], options: &Options) -> Vec<Violation> {
    let subjects = subjects(pods);
    let sites = sites(nodes, &subjects);
    let shares = ShareUse::of_all(&options.shares, &sites, &subjects);
    let mut violations = Vec::new();
    let mut seen = BTreeSet::new();
    for subject in &subjects {
        let pod = subject.pod;
        let mut report = |breach| {
            violations.push(Violation {
                pod: pod.key(),
                node: pod.spec.node_name.clone(),
                breach,
            });
        };
        if !seen.insert(pod.key()) {
            report(Breach::ListedTwice);
        }
        match options.placed_before.get(&pod.key()) {
            Some(before) if *before != pod.spec.node_name => {
                report(Breach::Moved {
                    from: before.clone(),
                });
            }
            Some(_) => {}
            None if pod.spec.node_name.is_empty() => {}
            None => match sites.get(pod.spec.node_name.as_str()) {
                Some(site) => breaches(subject, site, &shares, options).for_each(report),
                None => report(Breach::UnknownNode),
            },
        }
    }
    violations
}

/// Every pod that waits although there is a node that it fits on, in the order of `pods`.
///
/// Pods that have no reason to be placed are left out: finished, deleted, gated, of other
/// schedulers. So are pods that may have a reason to wait that is not checked yet: their
/// own affinity to pods, topology spread, volumes or claims; and all pods if one that is
/// placed has a required anti-affinity. A node where preemption made room for another pod
/// (`status.nominatedNodeName`) is no place for pods of the same or a lower priority. Takes
/// time proportional to waiting pods times nodes.
pub fn wrongly_pending(nodes: &[Node], pods: &[Pod], options: &Options) -> Vec<WronglyPending> {
    let subjects = subjects(pods);
    let sites = sites(nodes, &subjects);
    let shares = ShareUse::of_all(&options.shares, &sites, &subjects);
    let placed = pods
        .iter()
        .filter(|pod| !pod.spec.node_name.is_empty() && !pod.is_finished());
    if placed.into_iter().any(repels_others) {
        return Vec::new();
    }
    let waiting = subjects.iter().filter(|subject| {
        let pod = subject.pod;
        pod.spec.node_name.is_empty()
            && pod.metadata.deletion_timestamp.is_none()
            && !has_unchecked_constraints(pod)
    });
    let nominated = nominated(&subjects);
    waiting
        .filter_map(|subject| {
            // In the order in which the nodes are given.
            let mut feasible = nodes.iter().filter(|node| {
                let name = node.metadata.name.as_str();
                let is_promised = nominated
                    .get(name)
                    .is_some_and(|pods| pods.iter().any(|other| precedes(other, subject.pod)));
                let site = sites.get(name);
                let fits = |site| breaches(subject, site, &shares, options).next().is_none();
                !is_promised && site.is_some_and(fits)
            });
            let first = feasible.next()?;
            Some(WronglyPending {
                pod: subject.pod.key(),
                node: first.metadata.name.clone(),
                feasible_nodes: 1 + feasible.count(),
            })
        })
        .collect()
}

/// Waiting pods by the node that is promised to them.
fn nominated<'a>(subjects: &[Subject<'a>]) -> BTreeMap<&'a str, Vec<&'a Pod>> {
    let mut nominated: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
    for subject in subjects {
        if let Some(node) = subject.promised_node() {
            nominated.entry(node).or_default().push(subject.pod);
        }
    }
    nominated
}

/// Whether what is promised to the one pod is not for the other.
fn precedes(nominated: &Pod, pod: &Pod) -> bool {
    let priority = |pod: &Pod| pod.spec.priority.unwrap_or_default();
    !std::ptr::eq(nominated, pod) && priority(nominated) >= priority(pod)
}

/// All that a pod breaks on a node.
pub(crate) fn breaches<'a>(
    subject: &'a Subject<'a>,
    site: &'a Site<'a>,
    shares: &'a [ShareUse<'a>],
    options: &'a Options,
) -> impl Iterator<Item = Breach> + 'a {
    let place = Place {
        pod: subject,
        node: site,
        shares,
        options,
    };
    RULES.iter().flat_map(move |rule| rule(&place))
}

/// The pods that are not finished.
pub(crate) fn subjects(pods: &[Pod]) -> Vec<Subject<'_>> {
    pods.iter()
        .filter(|pod| !pod.is_finished())
        .map(Subject::of)
        .collect()
}

/// The nodes by name, with what the pods on them take.
pub(crate) fn sites<'a>(
    nodes: &'a [Node],
    subjects: &[Subject<'a>],
) -> BTreeMap<&'a str, Site<'a>> {
    let mut sites: BTreeMap<&str, Site<'_>> = nodes
        .iter()
        .map(|node| (node.metadata.name.as_str(), Site::of(node)))
        .collect();
    for subject in subjects {
        if let Some(site) = sites.get_mut(subject.pod.spec.node_name.as_str()) {
            site.add(subject);
        }
    }
    sites
}

pub(crate) fn repels_others(pod: &Pod) -> bool {
    let affinity = pod.spec.affinity.as_ref();
    let anti_affinity = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    anti_affinity.is_some_and(|terms| !terms.required.is_empty())
}

pub(crate) fn has_unchecked_constraints(pod: &Pod) -> bool {
    let spec = &pod.spec;
    let affinity = spec.affinity.as_ref();
    let pod_affinity = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
    let mut spread = spec.topology_spread_constraints.iter();
    pod_affinity.is_some_and(|terms| !terms.required.is_empty())
        || repels_others(pod)
        || spread.any(|constraint| constraint.when_unsatisfiable != "ScheduleAnyway")
        || spec.volumes.iter().any(may_keep_from_nodes)
        || !spec.resource_claims.is_empty()
}

/// Whether a node may refuse a pod for the volume: claims, and disks that are named.
fn may_keep_from_nodes(volume: &Volume) -> bool {
    volume.persistent_volume_claim.is_some()
        || volume.ephemeral.is_some()
        || volume.aws_elastic_block_store.is_some()
        || volume.azure_disk.is_some()
        || volume.cinder.is_some()
        || volume.gce_persistent_disk.is_some()
        || volume.iscsi.is_some()
        || volume.portworx_volume.is_some()
        || volume.rbd.is_some()
}
