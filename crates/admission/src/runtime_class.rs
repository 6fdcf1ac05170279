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

/// The tolerations without those that another one covers; of equal ones the first stays.
fn without_redundant(all: Vec<Toleration>) -> Vec<Toleration> {
    let mut kept: Vec<Toleration> = Vec::with_capacity(all.len());
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

/// Whether `wide` tolerates all that `narrow` does.
fn covers(wide: &Toleration, narrow: &Toleration) -> bool {
    if wide == narrow {
        return true;
    }
    let has_key = wide.key == narrow.key || wide.key.is_empty() && wide.operator == "Exists";
    let has_effect = wide.effect.is_empty() || wide.effect == narrow.effect;
    let lasts = match (wide.effect.as_str(), wide.toleration_seconds) {
        ("NoExecute", Some(wide)) => narrow.toleration_seconds.is_some_and(|it| it <= wide),
        _ => true,
    };
    let has_value = match wide.operator.as_str() {
        "Exists" => true,
        "" | "Equal" => narrow.operator == "Equal" && narrow.value == wide.value,
        _ => false,
    };
    has_key && has_effect && lasts && has_value
}
