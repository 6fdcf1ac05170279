//! Deployments: a ReplicaSet for each template there has been, of which one carries the
//! replicas.

use std::cmp::Reverse;
use std::collections::HashMap;

use outrank_api::types::{Deployment, LabelSelector, Pod, PodTemplateSpec, ReplicaSet};

use crate::pod_state::is_active;

use super::existing::{ExistingPods, Orphans, selector_of};
use super::pods::{Owner, PodMaker};
use super::replica_set::{bring_to, count};
use super::{TooManyPods, Workload};
use crate::generated_names::{NAME_BYTES_MAX, shortened, template_hash};

const TEMPLATE_HASH_LABEL: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";

/// The ReplicaSets of the input, and which of them belong to a Deployment of the input.
pub(super) struct ReplicaSets<'a> {
    all: Vec<&'a ReplicaSet>,
    /// Indices by namespace and name of the Deployment that controls them.
    owned: HashMap<(&'a str, &'a str), Vec<usize>>,
    orphans: Orphans<'a>,
    /// Whether each has been claimed by a Deployment.
    claimed: Vec<bool>,
}

impl<'a> ReplicaSets<'a> {
    pub(super) fn new(workloads: &[Workload<'a>]) -> Self {
        let all: Vec<&ReplicaSet> = workloads
            .iter()
            .filter_map(|workload| match workload {
                Workload::ReplicaSet(replica_set) => Some(*replica_set),
                _ => None,
            })
            .collect();
        let mut owned: HashMap<_, Vec<usize>> = HashMap::new();
        for (index, replica_set) in all.iter().enumerate() {
            if let Some(owner) = replica_set.metadata.controller() {
                let key = (replica_set.metadata.namespace.as_str(), owner.name.as_str());
                owned.entry(key).or_default().push(index);
            }
        }
        let orphans = Orphans::new(all.iter().map(|replica_set| &replica_set.metadata));
        let claimed = vec![false; all.len()];
        Self {
            all,
            owned,
            orphans,
            claimed,
        }
    }

    /// Those that belong to a Deployment, or have no controller and match its selector.
    fn claim(&mut self, owner: &Owner<'_>, deployment: &Deployment) -> Vec<&'a ReplicaSet> {
        let key = (owner.namespace, owner.name.as_str());
        let all = &self.all;
        let owned = self.owned.get(&key).map(Vec::as_slice).unwrap_or_default();
        let mut mine: Vec<usize> = owned
            .iter()
            .copied()
            .filter(|index| {
                all[*index]
                    .metadata
                    .controller()
                    .is_some_and(|it| owner.is_meant_by(it))
            })
            .collect();
        let spec = &deployment.spec;
        if let Some(selector) = selector_of(spec.selector.as_ref(), &spec.template.metadata) {
            mine.extend(self.orphans.adopt(owner.namespace, &selector, |_| true));
        }
        mine.iter().for_each(|index| self.claimed[*index] = true);
        mine.iter().map(|index| all[*index]).collect()
    }

    /// Those that no Deployment of the input has claimed, in input order.
    pub(super) fn without_deployment(&self) -> impl Iterator<Item = &'a ReplicaSet> {
        let claimed = self.all.iter().zip(&self.claimed);
        claimed
            .filter(|(_, claimed)| !**claimed)
            .map(|(replica_set, _)| *replica_set)
    }
}

pub(super) fn reconcile<'a>(
    deployment: &'a Deployment,
    replica_sets: &mut ReplicaSets<'a>,
    existing: &mut ExistingPods<'_>,
    maker: &mut PodMaker,
) -> Result<(), TooManyPods> {
    let owner = Owner::of(&Workload::Deployment(deployment));
    let mine = replica_sets.claim(&owner, deployment);
    let carrier = carrier_of(deployment, &mine);
    let new;
    let mut sets: Vec<(&ReplicaSet, u64)> = Vec::new();
    match carrier {
        Carrier::One(carrier) => {
            let wanted = |it: &ReplicaSet| {
                if std::ptr::eq(it, carrier) {
                    count(deployment.spec.replicas)
                } else {
                    0
                }
            };
            sets.extend(mine.iter().map(|it| (*it, wanted(it))));
        }
        Carrier::New => {
            new = new_replica_set(deployment, &owner);
            maker.create_replica_set(&new);
            sets.extend(mine.iter().map(|it| (*it, 0)));
            sets.push((&new, count(deployment.spec.replicas)));
        }
        Carrier::AsTheyAre => {
            sets.extend(mine.iter().map(|it| (*it, count(it.spec.replicas))));
        }
    }
    bring_all_to(&sets, existing, maker)
}

/// Which ReplicaSet has the replicas when the rollout is over.
enum Carrier<'a> {
    One(&'a ReplicaSet),
    /// One that has to be made.
    New,
    /// A held rollout is divided among several.
    AsTheyAre,
}

/// The one whose template is the Deployment's, the latest of several. While the rollout
/// is held no new one is made, and the one that is in use stays in use.
fn carrier_of<'a>(deployment: &Deployment, mine: &[&'a ReplicaSet]) -> Carrier<'a> {
    let template = &deployment.spec.template;
    let current = mine
        .iter()
        .filter(|it| is_same(&it.spec.template, template))
        .max_by_key(latest);
    if !deployment.spec.paused {
        return current.map_or(Carrier::New, |current| Carrier::One(current));
    }
    let mut in_use = mine.iter().filter(|it| count(it.spec.replicas) > 0);
    match (in_use.next(), in_use.next()) {
        (Some(_), Some(_)) => Carrier::AsTheyAre,
        (Some(only), None) => Carrier::One(only),
        (None, _) => {
            let newest = current.or_else(|| mine.iter().max_by_key(latest));
            newest.map_or(Carrier::AsTheyAre, |newest| Carrier::One(newest))
        }
    }
}

/// By revision; of equal ones the oldest, then the first by name.
fn latest<'a>(replica_set: &&&'a ReplicaSet) -> impl Ord + use<'a> {
    let meta = &replica_set.metadata;
    let revision = meta
        .annotations
        .get(REVISION)
        .and_then(|text| text.parse::<i64>().ok());
    (
        revision,
        Reverse((meta.creation_timestamp.as_deref(), meta.name.as_str())),
    )
}

/// Whether two templates make the same pods but for the hash label.
pub(crate) fn is_same(a: &PodTemplateSpec, b: &PodTemplateSpec) -> bool {
    let labels = |template: &PodTemplateSpec| {
        let mut labels = template.metadata.labels.clone();
        labels.remove(TEMPLATE_HASH_LABEL);
        labels
    };
    a.spec == b.spec
        && a.unread == b.unread
        && a.metadata.annotations == b.metadata.annotations
        && labels(a) == labels(b)
}

/// The ReplicaSet that the Deployment controller would make for the template.
fn new_replica_set(deployment: &Deployment, owner: &Owner<'_>) -> ReplicaSet {
    let hash = template_hash(&deployment.spec.template, None, None);
    let base = shortened(&deployment.metadata.name, NAME_BYTES_MAX - 1 - hash.len());
    let mut replica_set = ReplicaSet::default();
    replica_set.metadata.name = format!("{base}-{hash}");
    replica_set.metadata.namespace = deployment.metadata.namespace.clone();
    replica_set.metadata.owner_references = vec![owner.reference()];
    let spec = &mut replica_set.spec;
    spec.template = deployment.spec.template.clone();
    let mut selector = deployment
        .spec
        .selector
        .clone()
        .unwrap_or_else(|| LabelSelector {
            match_labels: spec.template.metadata.labels.clone(),
            ..Default::default()
        });
    selector
        .match_labels
        .insert(TEMPLATE_HASH_LABEL.to_owned(), hash.clone());
    spec.selector = Some(selector);
    spec.template
        .metadata
        .labels
        .insert(TEMPLATE_HASH_LABEL.to_owned(), hash);
    replica_set
}

/// Brings the ReplicaSets of one Deployment to their numbers of pods.
fn bring_all_to(
    sets: &[(&ReplicaSet, u64)],
    existing: &mut ExistingPods<'_>,
    maker: &mut PodMaker,
) -> Result<(), TooManyPods> {
    let mut claimed: Vec<(Owner<'_>, Vec<&Pod>)> = Vec::new();
    for (replica_set, _) in sets {
        let owner = Owner::of(&Workload::ReplicaSet(replica_set));
        let template = &replica_set.spec.template;
        let selector = selector_of(replica_set.spec.selector.as_ref(), &template.metadata);
        let pods = existing.claim(&owner, selector.as_ref(), is_active);
        claimed.push((owner, pods));
    }
    let related: Vec<&Pod> = claimed.iter().flat_map(|(_, pods)| pods).copied().collect();
    for ((replica_set, wanted), (owner, pods)) in sets.iter().zip(claimed) {
        bring_to(
            *wanted,
            pods,
            &related,
            &owner,
            &replica_set.spec.template,
            maker,
        )?;
    }
    Ok(())
}
