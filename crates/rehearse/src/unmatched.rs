//! Names in a configuration that nothing in the cluster has.
//!
//! A share or a budget of a class that is misspelt limits nobody, and nobody notices until it
//! is needed.

use std::collections::BTreeSet;

use outrank_admission::priority_class::SYSTEM_CLASSES;
use outrank_engine::Event;
use outrank_engine::preemption::safety::PreemptionBudget;
use outrank_engine::profile::ProfileConfig;
use outrank_engine::shares::SharePods;

use crate::Scenario;

/// A warning for each priority class, namespace and resource that arguments of PriorityShare and
/// PreemptionSafety name and that the cluster does not have.
pub fn warnings(profiles: &[ProfileConfig], scenario: &Scenario) -> Vec<String> {
    let known = Known::of(scenario);
    let mut warnings = BTreeSet::new();
    for profile in profiles {
        for share in &profile.priority_shares {
            let class = match &share.pods {
                SharePods::PriorityClass(class) => Some(class),
                SharePods::Priorities { .. } => None,
            };
            let missing = known.missing(class, share.namespace.as_ref());
            let resource = (!known.resources.contains(share.resource.as_str()))
                .then(|| format!("no node offers {}", share.resource));
            warnings.extend(
                missing
                    .into_iter()
                    .chain(resource)
                    .map(|what| format!("PriorityShare: {what}: this share limits nobody")),
            );
        }
        let safety = profile.preemption_safety.iter();
        for PreemptionBudget {
            priority_class_name,
            namespace,
            ..
        } in safety.flat_map(|it| &it.budgets)
        {
            let missing = known.missing(priority_class_name.as_ref(), namespace.as_ref());
            warnings.extend(
                missing
                    .into_iter()
                    .map(|what| format!("PreemptionSafety: {what}: this budget protects nobody")),
            );
        }
    }
    warnings.into_iter().collect()
}

struct Known<'s> {
    classes: BTreeSet<&'s str>,
    namespaces: BTreeSet<&'s str>,
    resources: BTreeSet<&'s str>,
}

impl<'s> Known<'s> {
    fn of(scenario: &'s Scenario) -> Self {
        let mut known = Self {
            classes: SYSTEM_CLASSES.iter().map(|(name, _)| *name).collect(),
            namespaces: BTreeSet::new(),
            resources: BTreeSet::new(),
        };
        for event in &scenario.surroundings {
            match event {
                Event::PriorityClassChanged(it) => _ = known.classes.insert(&it.metadata.name),
                Event::NamespaceChanged(it) => _ = known.namespaces.insert(&it.metadata.name),
                _ => {}
            }
        }
        for pod in &scenario.pods {
            known.classes.insert(&pod.spec.priority_class_name);
            known.namespaces.insert(&pod.metadata.namespace);
        }
        let offered = scenario.nodes.iter().map(|node| &node.status.allocatable);
        let names = offered.flat_map(|allocatable| allocatable.keys());
        known.resources.extend(names.map(String::as_str));
        known
    }

    fn missing(&self, class: Option<&String>, namespace: Option<&String>) -> Vec<String> {
        let class = class.filter(|it| !self.classes.contains(it.as_str()));
        let namespace = namespace.filter(|it| !self.namespaces.contains(it.as_str()));
        let class = class.map(|it| format!("there is no priority class {it:?}"));
        let namespace = namespace.map(|it| format!("there is no namespace {it:?}"));
        class.into_iter().chain(namespace).collect()
    }
}
