//! What a budget counts of the pods that it selects, pod by pod.

use std::collections::{BTreeMap, BTreeSet};

use outrank_api::types::{OwnerReference, Pod};

use super::is_healthy;

/// Counts over the pods that a budget selects. A pod that changes is taken away as it was and
/// added as it is: O(log pods).
#[derive(Clone, Debug, Default)]
pub struct Selected {
    count: usize,
    /// Names of those that are healthy.
    healthy: BTreeSet<String>,
    /// By controller, the names of its pods.
    managed: BTreeMap<Manager, BTreeSet<String>>,
    unmanaged: usize,
}

/// API version, kind, name and uid of a controller.
type Manager = (String, String, String, String);

impl Selected {
    /// Counts over these pods.
    pub fn of<'p>(pods: impl IntoIterator<Item = &'p Pod>) -> Self {
        let mut selected = Self::default();
        pods.into_iter().for_each(|pod| selected.add(pod));
        selected
    }

    /// Counts a pod.
    pub fn add(&mut self, pod: &Pod) {
        self.count += 1;
        let name = &pod.metadata.name;
        if is_healthy(pod) {
            self.healthy.insert(name.clone());
        }
        match manager_of(pod) {
            Some(manager) => {
                self.managed
                    .entry(manager)
                    .or_default()
                    .insert(name.clone());
            }
            None => self.unmanaged += 1,
        }
    }

    /// Takes a pod back that was counted as it is.
    pub fn take(&mut self, pod: &Pod) {
        self.count = self.count.saturating_sub(1);
        let name = &pod.metadata.name;
        self.healthy.remove(name);
        let Some(manager) = manager_of(pod) else {
            self.unmanaged = self.unmanaged.saturating_sub(1);
            return;
        };
        if let Some(names) = self.managed.get_mut(&manager) {
            names.remove(name);
            if names.is_empty() {
                self.managed.remove(&manager);
            }
        }
    }

    /// How many pods there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// How many are healthy, without those that are on their way out.
    pub(super) fn healthy<'n>(&self, disrupted: impl Iterator<Item = &'n String>) -> usize {
        let leaving = disrupted.filter(|name| self.healthy.contains(*name));
        self.healthy.len().saturating_sub(leaving.count())
    }

    /// Whether there are pods without a controller.
    pub(super) fn has_unmanaged(&self) -> bool {
        self.unmanaged > 0
    }

    /// The controllers, and the first pod of each by name.
    pub(super) fn managers(&self) -> impl Iterator<Item = (OwnerReference, &str)> {
        self.managed.iter().map(|(manager, pods)| {
            let (api_version, kind, name, uid) = manager.clone();
            let owner = OwnerReference {
                api_version,
                kind,
                name,
                uid,
                controller: Some(true),
                ..OwnerReference::default()
            };
            (owner, pods.first().map_or("", String::as_str))
        })
    }
}

fn manager_of(pod: &Pod) -> Option<Manager> {
    let owner = pod.metadata.controller()?;
    Some((
        owner.api_version.clone(),
        owner.kind.clone(),
        owner.name.clone(),
        owner.uid.clone(),
    ))
}
