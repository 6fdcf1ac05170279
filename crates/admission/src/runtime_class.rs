//! The RuntimeClass admission plugin: what a pod costs and where it may go because of the way
//! its containers are run.
//!
//! A runtime class may say that each pod costs something beyond its containers (a virtual
//! machine, for instance), and which nodes can run it. New pods of the class get both written
//! into their specs. The overhead is the class's to say: a pod that brings another one, or
//! one without a class that has any, is refused.
//!
//! Sources, Kubernetes 1.36: `plugin/pkg/admission/runtimeclass/admission.go`,
//! `pkg/util/tolerations/tolerations.go`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use outrank_api::decode::Object;
use outrank_api::status::Status;
use outrank_api::types::{Pod, ResourceList, RuntimeClass, Toleration};

use crate::chain::{AdmissionPlugin, Attributes, Cluster, Operation};

const OTHER_OVERHEAD: &str =
    "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
const OVERHEAD_OF_NO_CLASS: &str =
    "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";

/// The plugin `RuntimeClass`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuntimeClassPlugin;

impl AdmissionPlugin for RuntimeClassPlugin {
    fn name(&self) -> &'static str {
        "RuntimeClass"
    }

    fn admit(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&mut Object>,
        cluster: &dyn Cluster,
    ) -> Result<(), Status> {
        let Some(Object::Pod(pod)) = object.filter(|_| is_new(attributes)) else {
            return Ok(());
        };
        let written = class_of(pod, cluster).and_then(|class| match class {
            Some(class) => write(pod, class),
            None => Ok(()),
        });
        written.map_err(|why| attributes.forbidden(Some(&pod.metadata), why))
    }

    fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
        cluster: &dyn Cluster,
    ) -> Result<(), Status> {
        let Some(Object::Pod(pod)) = object.filter(|_| is_new(attributes)) else {
            return Ok(());
        };
        let checked = class_of(pod, cluster).and_then(|class| {
            match class.and_then(|class| class.overhead.as_ref()) {
                Some(overhead) if overhead.pod_fixed != pod.spec.overhead => {
                    Err(OTHER_OVERHEAD.to_owned())
                }
                None if !pod.spec.overhead.is_empty() => Err(OVERHEAD_OF_NO_CLASS.to_owned()),
                _ => Ok(()),
            }
        });
        checked.map_err(|why| attributes.forbidden(Some(&pod.metadata), why))
    }
}

fn is_new(attributes: &Attributes<'_>) -> bool {
    attributes.operation == Operation::Create && attributes.subresource.is_empty()
}

/// The class that a pod names, if it names one.
fn class_of<'c>(pod: &Pod, cluster: &'c dyn Cluster) -> Result<Option<&'c RuntimeClass>, String> {
    let Some(name) = &pod.spec.runtime_class_name else {
        return Ok(None);
    };
    match cluster.runtime_class(name) {
        Some(class) => Ok(Some(class)),
        None => Err(format!("pod rejected: RuntimeClass {name:?} not found")),
    }
}

/// Writes what the class says into the pod.
///
/// # Errors
///
/// Admission's message, if they contradict each other; the pod is then unchanged.
pub fn write(pod: &mut Pod, class: &RuntimeClass) -> Result<(), String> {
    let own: &ResourceList = &pod.spec.overhead;
    let overhead = class.overhead.as_ref().map(|overhead| &overhead.pod_fixed);
    if overhead.is_some_and(|overhead| !own.is_empty() && own != overhead) {
        return Err(OTHER_OVERHEAD.to_owned());
    }
    let scheduling = class.scheduling.clone().unwrap_or_default();
    for (key, value) in &scheduling.node_selector {
        match pod.spec.node_selector.get(key) {
            Some(own) if own != value => {
                return Err(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; \
                     pod.spec.nodeSelector[{key}] = {own}"
                ));
            }
            _ => {}
        }
    }
    let spec = Arc::make_mut(&mut pod.spec);
    if let Some(overhead) = overhead {
        spec.overhead = overhead.clone();
    }
    spec.node_selector.extend(scheduling.node_selector);
    if class.scheduling.is_some() {
        spec.tolerations.extend(scheduling.tolerations);
        spec.tolerations = without_redundant(std::mem::take(&mut spec.tolerations));
    }
    Ok(())
}

/// The tolerations without those that another one covers; of equal ones the first stays. Costs
/// O(n log n): who may cover one is looked up by what it is about.
fn without_redundant(all: Vec<Toleration>) -> Vec<Toleration> {
    let mut later = Coverage::default();
    all.iter().for_each(|toleration| later.add(toleration));
    let mut before = Coverage::default();
    let mut is_kept = Vec::with_capacity(all.len());
    for toleration in &all {
        later.take(toleration);
        let stays = !before.has_equal(toleration)
            && !before.has_wider(toleration)
            && !later.has_wider(toleration);
        if stays {
            before.add(toleration);
        }
        is_kept.push(stays);
    }
    let all = all.into_iter().zip(is_kept);
    all.filter_map(|(toleration, stays)| stays.then_some(toleration))
        .collect()
}

/// Some tolerations of a list, each perhaps several times.
#[derive(Default)]
struct Coverage<'t> {
    /// How many there are of each.
    equal: HashMap<&'t Toleration, usize>,
    /// By what they are about, how many there are that last so long.
    lasting: HashMap<Subject<'t>, BTreeMap<i128, usize>>,
}

/// Key and effect of the taints that are tolerated, and their value if that matters.
type Subject<'t> = (&'t str, &'t str, Option<&'t str>);

const FOR_EVER: i128 = i128::MAX;

impl<'t> Coverage<'t> {
    fn add(&mut self, toleration: &'t Toleration) {
        *self.equal.entry(toleration).or_default() += 1;
        if let Some(subject) = subject(toleration) {
            let lasting = self.lasting.entry(subject).or_default();
            *lasting.entry(lasts(toleration)).or_default() += 1;
        }
    }

    fn take(&mut self, toleration: &'t Toleration) {
        if let Some(count) = self.equal.get_mut(toleration) {
            *count -= 1;
        }
        let lasting = subject(toleration).and_then(|subject| self.lasting.get_mut(&subject));
        if let Some(lasting) = lasting
            && let Some(count) = lasting.get_mut(&lasts(toleration))
        {
            *count -= 1;
            if *count == 0 {
                lasting.remove(&lasts(toleration));
            }
        }
    }

    fn has_equal(&self, toleration: &Toleration) -> bool {
        self.equal.get(toleration).is_some_and(|count| *count > 0)
    }

    /// Whether another one than this tolerates all that it does.
    fn has_wider(&self, narrow: &Toleration) -> bool {
        let own = subject(narrow);
        let equal = self.equal.get(narrow).copied().unwrap_or(0);
        wider_subjects(narrow).any(|subject| {
            let Some(lasting) = self.lasting.get(&subject) else {
                return false;
            };
            let needed = match subject.1 {
                NO_EXECUTE => narrow.toleration_seconds.map_or(FOR_EVER, i128::from),
                _ => i128::MIN,
            };
            // Those that are equal are about the same and last as long.
            let is_other = |(time, count): (&i128, &usize)| {
                let is_as_long = own == Some(subject) && *time == lasts(narrow);
                *count > if is_as_long { equal } else { 0 }
            };
            lasting.range(needed..).any(is_other)
        })
    }
}

const NO_EXECUTE: &str = "NoExecute";

/// What a toleration is about; those with other operators cover nothing but their equals.
fn subject(toleration: &Toleration) -> Option<Subject<'_>> {
    let value = match toleration.operator.as_str() {
        "Exists" => None,
        "" | "Equal" => Some(toleration.value.as_str()),
        _ => return None,
    };
    Some((&toleration.key, &toleration.effect, value))
}

/// How long a toleration lasts; that matters only for what drives pods out.
fn lasts(toleration: &Toleration) -> i128 {
    match toleration.effect.as_str() {
        NO_EXECUTE => toleration.toleration_seconds.map_or(FOR_EVER, i128::from),
        _ => 0,
    }
}

/// What those may be about that cover a toleration: its key or any, its effect or any, any value
/// or, of its own key, the one that it names.
fn wider_subjects(narrow: &Toleration) -> impl Iterator<Item = Subject<'_>> {
    let (key, effect) = (narrow.key.as_str(), narrow.effect.as_str());
    let keys = [Some(key), Some("").filter(|any| *any != key)];
    let effects = [Some(effect), Some("").filter(|any| *any != effect)];
    keys.into_iter().flatten().flat_map(move |of_key| {
        effects.into_iter().flatten().flat_map(move |of_effect| {
            let names_value = of_key == key && narrow.operator == "Equal";
            let with_value = names_value.then_some(Some(narrow.value.as_str()));
            let values = [Some(None), with_value];
            let values = values.into_iter().flatten();
            values.map(move |value| (of_key, of_effect, value))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Upstream's rule, one against the other.
    fn covers(wide: &Toleration, narrow: &Toleration) -> bool {
        if wide == narrow {
            return true;
        }
        let has_key = wide.key == narrow.key || wide.key.is_empty() && wide.operator == "Exists";
        let has_effect = wide.effect.is_empty() || wide.effect == narrow.effect;
        let lasts = match (wide.effect.as_str(), wide.toleration_seconds) {
            (NO_EXECUTE, Some(wide)) => narrow.toleration_seconds.is_some_and(|it| it <= wide),
            _ => true,
        };
        let has_value = match wide.operator.as_str() {
            "Exists" => true,
            "" | "Equal" => narrow.operator == "Equal" && narrow.value == wide.value,
            _ => false,
        };
        has_key && has_effect && lasts && has_value
    }

    fn one_against_the_other(all: &[Toleration]) -> Vec<Toleration> {
        let mut kept: Vec<Toleration> = Vec::new();
        for (index, toleration) in all.iter().enumerate() {
            let before = kept.iter().any(|other| covers(other, toleration));
            let mut later = all.iter().skip(index + 1);
            let after = later.any(|other| other != toleration && covers(other, toleration));
            if !before && !after {
                kept.push(toleration.clone());
            }
        }
        kept
    }

    fn some_tolerations() -> Vec<Toleration> {
        let texts = [
            (["", "Exists", "", ""], None),
            (["", "Exists", "", NO_EXECUTE], Some(5)),
            (["", "Equal", "v", ""], None),
            (["k", "Exists", "", ""], None),
            (["k", "Exists", "", ""], Some(5)),
            (["k", "Exists", "", NO_EXECUTE], None),
            (["k", "Exists", "", NO_EXECUTE], Some(5)),
            (["k", "Equal", "v", NO_EXECUTE], Some(5)),
            (["k", "Equal", "v", NO_EXECUTE], Some(7)),
            (["k", "", "v", NO_EXECUTE], Some(5)),
            (["k", "Equal", "w", "NoSchedule"], None),
            (["k", "", "w", "NoSchedule"], None),
            (["k", "Gt", "3", "NoSchedule"], None),
        ];
        let tolerations = texts
            .into_iter()
            .map(|([key, operator, value, effect], seconds)| Toleration {
                key: key.to_owned(),
                operator: operator.to_owned(),
                value: value.to_owned(),
                effect: effect.to_owned(),
                toleration_seconds: seconds,
            });
        tolerations.collect()
    }

    #[test]
    fn the_rest_is_that_of_holding_each_against_each() {
        let some = some_tolerations();
        let number = some.len();
        for places in 0..number.pow(4) {
            let places = [1, number, number.pow(2), number.pow(3)].map(|it| places / it % number);
            let all = places.map(|place| some[place].clone());
            let expected = one_against_the_other(&all);
            assert_eq!(without_redundant(all.to_vec()), expected, "{all:#?}");
        }
    }

    #[test]
    fn many_tolerations_are_merged_in_no_time() {
        let toleration = |number: i64| Toleration {
            key: format!("k{number}"),
            operator: "Exists".to_owned(),
            ..Toleration::default()
        };
        let all: Vec<Toleration> = (0..200_000).map(toleration).collect();
        assert_eq!(without_redundant(all.clone()), all);
    }
}
