//! StatefulSets: pods with numbers, names and claims that stay theirs.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use outrank_api::types::{PersistentVolumeClaimVolumeSource, Pod, PodSpec, StatefulSet, Volume};

use super::existing::{ExistingPods, selector_of};
use super::pods::{NewPod, Owner, PodMaker};
use super::replica_set::count;
use super::{TooManyPods, Workload};
use crate::generated_names::template_hash;

/// Makes what is missing, in the order of ordinals, and deletes what is beyond them, the
/// highest first. A pod that has ended is replaced by one of the same name.
pub(super) fn reconcile(
    set: &StatefulSet,
    existing: &mut ExistingPods<'_>,
    maker: &mut PodMaker,
) -> Result<(), TooManyPods> {
    let owner = Owner::of(&Workload::StatefulSet(set));
    let selector = selector_of(set.spec.selector.as_ref(), &set.spec.template.metadata);
    let is_member = |pod: &Pod| ordinal_of(set, pod).is_some();
    let pods = existing.claim(&owner, selector.as_ref(), is_member);
    let by_ordinal: HashMap<i64, &Pod> = pods
        .iter()
        .filter_map(|pod| Some((ordinal_of(set, pod)?, *pod)))
        .collect();

    let wanted = ordinals(set);
    let is_going = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
    // One that is being deleted has its name until it is gone.
    let is_there = |pod: &Pod| !pod.is_finished() || is_going(pod);
    let there = by_ordinal
        .iter()
        .filter(|(number, pod)| wanted.contains(number) && is_there(pod))
        .count();
    maker.reserve(count(set.spec.replicas) - there as u64)?;
    let revision = format!(
        "{}-{}",
        set.metadata.name,
        template_hash(&set.spec.template, None, None)
    );
    for ordinal in wanted.clone() {
        match by_ordinal.get(&ordinal) {
            Some(pod) if is_there(pod) => continue,
            Some(ended) => maker.delete(ended),
            None => {}
        }
        maker.create_named(new_pod(set, &owner, ordinal, &revision));
    }
    let mut beyond: Vec<_> = by_ordinal
        .into_iter()
        .filter(|(number, pod)| !wanted.contains(number) && !is_going(pod))
        .collect();
    beyond.sort_unstable_by_key(|(number, _)| std::cmp::Reverse(*number));
    beyond.iter().for_each(|(_, pod)| maker.delete(pod));
    Ok(())
}

pub(crate) fn ordinals(set: &StatefulSet) -> Range<i64> {
    let start = set
        .spec
        .ordinals
        .as_ref()
        .map_or(0, |ordinals| i64::from(ordinals.start));
    start..start.saturating_add_unsigned(count(set.spec.replicas))
}

/// The number in a pod's name, if the rest of the name is the set's.
fn ordinal_of(set: &StatefulSet, pod: &Pod) -> Option<i64> {
    ordinal_in(&set.metadata.name, pod)
}

/// Whether the name of a pod is that of a set with a number, however that is written.
pub(crate) fn is_member_of(set: &str, pod: &Pod) -> bool {
    let parts = pod.metadata.name.rsplit_once('-');
    parts.is_some_and(|(parent, number)| {
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        parent == set && is_number && !number.is_empty()
    })
}

/// The number in a pod's name, if the rest of the name is the name of its set. A number that the
/// set would write otherwise (`007`) is none.
pub(crate) fn ordinal_in(set: &str, pod: &Pod) -> Option<i64> {
    let (parent, number) = pod.metadata.name.rsplit_once('-')?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    let is_plain = number == "0" || !number.starts_with('0');
    let ordinal = number.parse::<i32>().ok();
    let ordinal = ordinal.filter(|_| is_number && is_plain)?;
    (parent == set).then_some(i64::from(ordinal))
}

fn new_pod<'a>(
    set: &StatefulSet,
    owner: &'a Owner<'a>,
    ordinal: i64,
    revision: &str,
) -> NewPod<'a> {
    let mut pod = NewPod::of(owner, &set.spec.template);
    pod.name = format!("{}-{ordinal}", set.metadata.name);
    pod.generate_name = format!("{}-", set.metadata.name);
    pod.label("statefulset.kubernetes.io/pod-name", pod.name.clone());
    pod.label("apps.kubernetes.io/pod-index", ordinal.to_string());
    pod.label("controller-revision-hash", revision.to_owned());
    if !set.spec.volume_claim_templates.is_empty() {
        pod.spec = Arc::new(with_claims(set, &pod.name));
    }
    pod
}

/// The spec with the pod's own claims as volumes; they take the place of volumes of the
/// same name. Without claim templates all pods share the template's spec.
fn with_claims(set: &StatefulSet, pod_name: &str) -> PodSpec {
    let mut spec = PodSpec::clone(&set.spec.template.spec);
    let claims = set.spec.volume_claim_templates.iter().map(|template| {
        let name = template.metadata.name.clone();
        let claim_name = format!("{name}-{pod_name}");
        let source = PersistentVolumeClaimVolumeSource {
            claim_name,
            read_only: false,
        };
        let volume = Volume {
            name: name.clone(),
            persistent_volume_claim: Some(source),
            ..Default::default()
        };
        (name, volume)
    });
    let claims: BTreeMap<String, Volume> = claims.collect();
    spec.volumes
        .retain(|volume| !claims.contains_key(&volume.name));
    spec.volumes.splice(0..0, claims.into_values());
    spec
}
