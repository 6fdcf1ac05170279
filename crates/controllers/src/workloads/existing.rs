//! Which existing objects belong to whom: by controller reference, or by adoption.

use std::collections::HashMap;

use outrank_api::labels::{Operator, Selector};
use outrank_api::types::{LabelSelector, ObjectMeta, Pod};

use super::pods::Owner;

/// The pods that exist, found by owner or by label.
pub(super) struct ExistingPods<'a> {
    pods: &'a [Pod],
    /// Indices by namespace, kind and name of the controller.
    owned: HashMap<(&'a str, &'a str, &'a str), Vec<usize>>,
    orphans: Orphans<'a>,
}

impl<'a> ExistingPods<'a> {
    pub(super) fn new(pods: &'a [Pod]) -> Self {
        let mut owned: HashMap<_, Vec<usize>> = HashMap::new();
        for (index, pod) in pods.iter().enumerate() {
            if let Some(owner) = pod.metadata.controller() {
                let key = (
                    pod.metadata.namespace.as_str(),
                    owner.kind.as_str(),
                    owner.name.as_str(),
                );
                owned.entry(key).or_default().push(index);
            }
        }
        Self {
            pods,
            owned,
            orphans: Orphans::new(pods.iter().map(|pod| &pod.metadata)),
        }
    }

    /// The pods whose controller reference means `owner`, in input order.
    pub(super) fn owned_by(&self, owner: &Owner<'_>) -> Vec<&'a Pod> {
        let key = (owner.namespace, owner.kind, owner.name.as_str());
        let indices = self.owned.get(&key).map(Vec::as_slice).unwrap_or_default();
        let pods = indices.iter().map(|index| &self.pods[*index]);
        let is_meant = |pod: &&Pod| {
            pod.metadata
                .controller()
                .is_some_and(|it| owner.is_meant_by(it))
        };
        pods.filter(is_meant).collect()
    }

    /// The pods of `owner` that match its selector, and those without a controller that
    /// do and are `fit` to be adopted: they are from now on its own. Without a selector,
    /// the reference alone decides.
    pub(super) fn claim(
        &mut self,
        owner: &Owner<'_>,
        selector: Option<&Selector>,
        fit: impl Fn(&Pod) -> bool,
    ) -> Vec<&'a Pod> {
        let mut claimed = self.owned_by(owner);
        let Some(selector) = selector else {
            return claimed;
        };
        claimed.retain(|pod| selector.matches(&pod.metadata.labels));
        let pods = self.pods;
        let adopted = self
            .orphans
            .adopt(owner.namespace, selector, |index| fit(&pods[index]));
        claimed.extend(adopted.into_iter().map(|index| &pods[index]));
        claimed
    }
}

/// Objects without a controller, found by their labels.
pub(super) struct Orphans<'a> {
    labels: Vec<Option<&'a ObjectMeta>>,
    by_label: HashMap<(&'a str, &'a str, &'a str), Vec<usize>>,
    by_namespace: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Orphans<'a> {
    /// Of all `objects`, those that have no controller and are not being deleted.
    pub(super) fn new(objects: impl Iterator<Item = &'a ObjectMeta>) -> Self {
        let mut orphans = Self {
            labels: Vec::new(),
            by_label: HashMap::new(),
            by_namespace: HashMap::new(),
        };
        for (index, meta) in objects.enumerate() {
            if meta.controller().is_some() || meta.deletion_timestamp.is_some() {
                orphans.labels.push(None);
                continue;
            }
            orphans.labels.push(Some(meta));
            orphans
                .by_namespace
                .entry(&meta.namespace)
                .or_default()
                .push(index);
            for (key, value) in &meta.labels {
                orphans
                    .by_label
                    .entry((&meta.namespace, key, value))
                    .or_default()
                    .push(index);
            }
        }
        orphans
    }

    /// Takes those of a namespace that match; each can be taken only once.
    pub(super) fn adopt(
        &mut self,
        namespace: &str,
        selector: &Selector,
        fit: impl Fn(usize) -> bool,
    ) -> Vec<usize> {
        // Any one label that must be there narrows the search.
        let mut requirements = selector.requirements().unwrap_or_default().iter();
        let candidates = match requirements.find(|it| it.operator == Operator::Equals) {
            Some(label) => {
                let value = label.values.first().map(String::as_str).unwrap_or_default();
                self.by_label.get(&(namespace, label.key.as_str(), value))
            }
            None => self.by_namespace.get(namespace),
        };
        let mut adopted = Vec::new();
        for index in candidates.map(Vec::as_slice).unwrap_or_default() {
            let free = &mut self.labels[*index];
            if free.is_some_and(|meta| selector.matches(&meta.labels)) && fit(*index) {
                *free = None;
                adopted.push(*index);
            }
        }
        adopted
    }
}

/// The selector of a workload; the template's labels where old API versions let it be
/// left out. An empty one would take every pod there is, and one that cannot be read
/// means nothing, so both count as none; the API server refuses them.
pub(super) fn selector_of(
    selector: Option<&LabelSelector>,
    template: &ObjectMeta,
) -> Option<Selector> {
    let selector = match selector {
        Some(selector) => Selector::from_label_selector(Some(selector)).ok()?,
        None => Selector::from_set(&template.labels),
    };
    (!selector.is_empty()).then_some(selector)
}
