//! ReplicaSets and ReplicationControllers: so many pods, all alike.

use outrank_api::types::{LabelSelector, Pod, PodTemplateSpec, ReplicaSet, ReplicationController};

use super::deletion_order::first_of_replica_set;
use crate::pod_state::is_active;

use super::existing::{ExistingPods, selector_of};
use super::pods::{NewPod, Owner, PodMaker};
use super::{TooManyPods, Workload};

pub(super) fn reconcile(
    replica_set: &ReplicaSet,
    existing: &mut ExistingPods<'_>,
    maker: &mut PodMaker,
) -> Result<(), TooManyPods> {
    let owner = Owner::of(&Workload::ReplicaSet(replica_set));
    let spec = &replica_set.spec;
    let selector = selector_of(spec.selector.as_ref(), &spec.template.metadata);
    let pods = existing.claim(&owner, selector.as_ref(), is_active);
    bring_to(
        count(spec.replicas),
        pods,
        &[],
        &owner,
        &spec.template,
        maker,
    )
}

pub(super) fn reconcile_controller(
    controller: &ReplicationController,
    existing: &mut ExistingPods<'_>,
    maker: &mut PodMaker,
) -> Result<(), TooManyPods> {
    let owner = Owner::of(&Workload::ReplicationController(controller));
    let spec = &controller.spec;
    let match_labels = spec.selector.clone();
    let given = LabelSelector {
        match_labels,
        ..Default::default()
    };
    let given = (!spec.selector.is_empty()).then_some(&given);
    let selector = selector_of(given, &spec.template.metadata);
    let pods = existing.claim(&owner, selector.as_ref(), is_active);
    bring_to(
        count(spec.replicas),
        pods,
        &[],
        &owner,
        &spec.template,
        maker,
    )
}

/// `replicas` as a number: 1 if absent, none if negative (which the API server refuses).
pub(super) fn count(replicas: Option<i32>) -> u64 {
    u64::try_from(replicas.unwrap_or(1)).unwrap_or(0)
}

/// Creates or deletes until there are `wanted` active pods. `related` is as in
/// [`first_of_replica_set`].
pub(super) fn bring_to(
    wanted: u64,
    mut pods: Vec<&Pod>,
    related: &[&Pod],
    owner: &Owner<'_>,
    template: &PodTemplateSpec,
    maker: &mut PodMaker,
) -> Result<(), TooManyPods> {
    pods.retain(|pod| is_active(pod));
    let active = pods.len() as u64;
    if active > wanted {
        let surplus = usize::try_from(active - wanted).unwrap_or(usize::MAX);
        let first = first_of_replica_set(pods, surplus, related, None);
        first.into_iter().for_each(|pod| maker.delete(pod));
        return Ok(());
    }
    maker.reserve(wanted - active)?;
    let prefix = format!("{}-", owner.name);
    let mut tried = 0;
    for _ in active..wanted {
        maker.create_with_suffix(NewPod::of(owner, template), &prefix, &mut tried);
    }
    Ok(())
}
