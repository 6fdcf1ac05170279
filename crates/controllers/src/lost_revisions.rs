//! Revisions that a dump left out.
//!
//! StatefulSets and DaemonSets tell pods of their template from older ones by the name of a
//! ControllerRevision, which keeps the template. In a dump without ControllerRevisions the names
//! are still there, at the pods and in the status; taken literally, a controller would give the
//! template a name of its own and make all pods anew. So the revision is made up again, if what is
//! there says which it is.

use std::collections::BTreeMap;

use outrank_api::decode::Object;
use outrank_api::types::{DaemonSet, Pod, StatefulSet};

use crate::daemon_set;
use crate::stateful_set;
use crate::world::Stored;

/// The revision of the template of a set that has none, given its pods. `None` if the status is
/// about another template, or does not say which pods are of it.
///
/// A StatefulSet names the revision in its status. A DaemonSet says how many pods are of it, and it
/// must be clear which these are.
pub fn lost_revision(set: &Stored, pods: &[&Pod]) -> Option<Object> {
    let metadata = set.metadata();
    if let Some(it) = set.get::<StatefulSet>() {
        let name = &it.status.update_revision;
        let is_said = !name.is_empty() && it.status.observed_generation >= metadata.generation;
        let hash = name.strip_prefix(&format!("{}-", metadata.name));
        let hash = hash.unwrap_or(name).to_owned();
        let template = stateful_set::template_of(set, it);
        return is_said.then(|| template.named(name.clone(), hash));
    }
    let it = set.get::<DaemonSet>()?;
    if it.status.observed_generation < metadata.generation {
        return None;
    }
    let hash = hash_of_updated(pods, it.status.updated_number_scheduled)?;
    let name = format!("{}-{hash}", metadata.name);
    Some(daemon_set::template_of(set, it).named(name, hash.to_owned()))
}

/// The only hash that so many pods have.
fn hash_of_updated<'p>(pods: &[&'p Pod], updated: i32) -> Option<&'p str> {
    let mut counts: BTreeMap<&str, i32> = BTreeMap::new();
    let labels = pods.iter().map(|pod| &pod.metadata.labels);
    for hash in labels.filter_map(|it| it.get(daemon_set::HASH_LABEL)) {
        *counts.entry(hash).or_default() += 1;
    }
    let mut fitting = counts.iter().filter(|(_, count)| **count == updated);
    match (fitting.next(), fitting.next()) {
        (Some((hash, _)), None) => Some(*hash),
        _ => None,
    }
}
