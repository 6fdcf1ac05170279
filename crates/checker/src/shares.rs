//! Shares: what pods of some priority may use of a resource together.
//!
//! kube-scheduler has no such limits; they are those of the plugin PriorityShare. A share
//! names its pods, a resource and a limit, which is so many percent of what all nodes offer
//! together, rounded down, or an amount. What pods on nodes hold counts as used, whoever put
//! them there. Who is placed must fit the limit; who was there before stays.

use std::collections::BTreeMap;

use outrank_api::types::Pod;

use crate::rules::{Site, Subject, amount};
use crate::violation::Breach;

/// Some pods, a resource, and what they may use of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Whose pods.
    pub pods: SharePods,
    /// The namespace of the pods; `None` is all.
    pub namespace: Option<String>,
    /// The resource.
    pub resource: String,
    /// What they may use of it.
    pub limit: ShareLimit,
}

/// Whose pods are of a share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SharePods {
    /// Those of the priority class of that name.
    PriorityClass(String),
    /// Those with a priority from `least` to `most`; pods without a priority have 0.
    Priorities {
        /// The lowest priority.
        least: i32,
        /// The highest priority.
        most: i32,
    },
}

/// How much is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareLimit {
    /// So many percent of what all nodes offer together, rounded down.
    Percent(u8),
    /// So much: thousandths of a core for `cpu`, else whole units.
    Amount(i64),
}

impl Share {
    fn has_pod(&self, pod: &Pod) -> bool {
        let priority = pod.spec.priority.unwrap_or_default();
        let by_priority = match &self.pods {
            SharePods::PriorityClass(name) => *name == pod.spec.priority_class_name,
            SharePods::Priorities { least, most } => *least <= priority && priority <= *most,
        };
        let namespace = self.namespace.as_ref();
        by_priority && namespace.is_none_or(|name| *name == pod.metadata.namespace)
    }

    fn text(&self) -> String {
        let pods = match &self.pods {
            SharePods::PriorityClass(name) => format!("priority class {name}"),
            SharePods::Priorities { least, most } => format!("priorities {least} to {most}"),
        };
        match &self.namespace {
            Some(namespace) => format!("{pods} in namespace {namespace}"),
            None => pods,
        }
    }
}

/// A share as things are.
pub(crate) struct ShareUse<'a> {
    share: &'a Share,
    allowed: i128,
    /// What pods on nodes hold.
    held: i128,
    /// Pods that a node is promised to, and what they ask for.
    promised: Vec<(&'a Pod, i128)>,
}

impl<'a> ShareUse<'a> {
    /// The shares, with what pods on the nodes use and what is promised there.
    pub(crate) fn of_all(
        shares: &'a [Share],
        sites: &BTreeMap<&str, Site<'_>>,
        subjects: &[Subject<'a>],
    ) -> Vec<Self> {
        shares
            .iter()
            .map(|share| Self::of(share, sites, subjects))
            .collect()
    }

    fn of(share: &'a Share, sites: &BTreeMap<&str, Site<'_>>, subjects: &[Subject<'a>]) -> Self {
        let resource = share.resource.as_str();
        let offered: i128 = sites.values().map(|site| site.offers(resource)).sum();
        let allowed = match share.limit {
            ShareLimit::Percent(percent) => (offered * i128::from(percent)).div_euclid(100),
            ShareLimit::Amount(amount) => i128::from(amount),
        };
        let mut held = 0;
        let mut promised = Vec::new();
        for subject in subjects.iter().filter(|subject| share.has_pod(subject.pod)) {
            let pod = subject.pod;
            if sites.contains_key(pod.spec.node_name.as_str()) {
                held += amount(&subject.held, resource);
            } else if let Some(node) = subject.promised_node()
                && sites.contains_key(node)
            {
                promised.push((pod, amount(&subject.asked, resource)));
            }
        }
        Self {
            share,
            allowed,
            held,
            promised,
        }
    }

    /// How a pod would overdraw the share.
    pub(crate) fn breach(&self, subject: &Subject<'_>) -> Option<Breach> {
        let used_by_others = self.used_by_others(subject)?;
        let resource = self.share.resource.as_str();
        let asked = amount(&subject.asked, resource);
        (asked + used_by_others > self.allowed).then(|| Breach::OverShare {
            share: self.share.text(),
            resource: resource.to_owned(),
            asked,
            used_by_others,
            allowed: self.allowed,
        })
    }

    /// What others of the share use, if the pod is of it and asks for some: those on nodes,
    /// and for a pod that has no node yet also what is promised to pods that go first.
    fn used_by_others(&self, subject: &Subject<'_>) -> Option<i128> {
        let pod = subject.pod;
        let resource = self.share.resource.as_str();
        if !self.share.has_pod(pod) || amount(&subject.asked, resource) == 0 {
            return None;
        }
        if !pod.spec.node_name.is_empty() {
            return Some(self.held - amount(&subject.held, resource));
        }
        let promised = self.promised.iter();
        let before = promised.filter(|(other, _)| goes_first(other, subject));
        Some(self.held + before.map(|(_, asked)| asked).sum::<i128>())
    }
}

/// Whether what is promised to another pod is not for this one. Of pods of the same priority
/// to which something is promised, who comes first goes first.
fn goes_first(other: &Pod, subject: &Subject<'_>) -> bool {
    let priority = |pod: &Pod| pod.spec.priority.unwrap_or_default();
    let (other, own) = (priority(other), priority(subject.pod));
    match subject.promised_node() {
        Some(_) => other > own,
        None => other >= own,
    }
}
