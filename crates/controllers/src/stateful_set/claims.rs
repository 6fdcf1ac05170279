//! Claims of a StatefulSet's pods: made with a pod, kept for the next of its name.
//!
//! Who owns a claim decides when it goes. With `whenDeleted: Delete` it goes with the set, with
//! `whenScaled: Delete` it goes with a pod that is beyond the set's number; else it stays.

use outrank_api::decode::Object;
use outrank_api::types::{
    ObjectMeta, OwnerReference, PersistentVolumeClaim, StatefulSet, VolumeClaimTemplate,
};

use super::{Member, Turn};
use crate::claim::{reference_to, with_owners};
use crate::world::Key;
use crate::write::{Create, Write, Written};

/// The pod of a set that a claim of this name belongs to.
pub(super) fn pod_of<'n>(set: &StatefulSet, claim: &'n str) -> Option<&'n str> {
    let templates = set.spec.volume_claim_templates.iter();
    let mut pods = templates.filter_map(|template| {
        let pod = claim
            .strip_prefix(template.metadata.name.as_str())?
            .strip_prefix('-')?;
        let number = pod
            .strip_prefix(set.metadata.name.as_str())?
            .strip_prefix('-')?;
        number.bytes().all(|it| it.is_ascii_digit()).then_some(pod)
    });
    pods.next()
}

impl Turn<'_> {
    /// Creates the claims of a pod that are not there.
    pub(super) fn missing_claims(&self, ordinal: i64) -> Vec<Write> {
        let pod = self.pod_name(ordinal);
        let templates = self.set.spec.volume_claim_templates.iter().enumerate();
        let missing = templates.filter(|(_, template)| {
            let claim = self.claim_of(template, &pod);
            self.world.stored(&claim).is_none()
        });
        missing
            .map(|(index, template)| self.new_claim(index, template, &pod))
            .collect()
    }

    /// Whether a claim of the pod to come still belongs to a pod that has gone, and goes with it.
    /// Where claims stay when pods go, that does not matter.
    pub(super) fn has_stale_claim(&self, ordinal: i64) -> bool {
        let policy = &self.set.spec.persistent_volume_claim_retention_policy;
        if policy.as_ref().is_none_or(|it| it.when_scaled != "Delete") {
            return false;
        }
        let pod = self.pod_name(ordinal);
        let is_stale = |template: &VolumeClaimTemplate| {
            let claim = self.world.stored(&self.claim_of(template, &pod));
            let owners = claim.map(|it| &it.metadata().owner_references);
            let mut owners = owners.into_iter().flatten();
            owners.any(|owner| owner.kind == "Pod" && owner.name == pod)
        };
        self.set.spec.volume_claim_templates.iter().any(is_stale)
    }

    /// What is wrong with the claims of the pod to come, if some are there and about to go.
    pub(super) fn going_claims(&self, ordinal: i64) -> Option<String> {
        let pod = self.pod_name(ordinal);
        let templates = self.set.spec.volume_claim_templates.iter();
        let going = templates.filter_map(|template| {
            let claim = self.world.stored(&self.claim_of(template, &pod))?;
            let metadata = claim.metadata();
            metadata.deletion_timestamp.as_ref()?;
            Some(format!("pvc {} is being deleted", metadata.name))
        });
        let going: Vec<String> = going.collect();
        match going.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            several => Some(format!("[{}]", several.join(", "))),
        }
    }

    /// Gives the claims of pods the owners that the retention policy says.
    pub(super) fn keep_all_claims(&self) -> Vec<Write> {
        let unkept = self.sums.unkept();
        let writes = unkept.flat_map(|(ordinal, it)| self.keep_claims(ordinal, &it));
        writes.collect()
    }

    /// Whether claims of a member that are missing are to be made: it waits for them.
    pub(super) fn may_lack_claims(&self, ordinal: i64, member: &Member<'_>) -> bool {
        member.pod.status.phase == "Pending" && self.wanted().contains(&ordinal)
    }

    /// The ordinals of those whose claims were to be looked at and are as they should be.
    pub(super) fn kept(&self) -> Vec<i64> {
        let unkept = self.sums.unkept();
        let kept = unkept.filter(|(ordinal, it)| {
            let is_lacking = self.may_lack_claims(*ordinal, it);
            let is_lacking = is_lacking && !self.missing_claims(*ordinal).is_empty();
            !is_lacking && self.keep_claims(*ordinal, it).is_empty()
        });
        kept.map(|(ordinal, _)| ordinal).collect()
    }

    /// Gives the claims of a pod the owners that the retention policy says.
    fn keep_claims(&self, ordinal: i64, member: &Member<'_>) -> Vec<Write> {
        let Some(policy) = &self.set.spec.persistent_volume_claim_retention_policy else {
            return Vec::new();
        };
        let is_surplus = !self.wanted().contains(&ordinal);
        let goes_with_pod = policy.when_scaled == "Delete" && is_surplus;
        let goes_with_set = policy.when_deleted == "Delete" && !goes_with_pod;
        let owner = match (goes_with_pod, goes_with_set) {
            (true, _) => Some(reference_to(member.stored)),
            (_, true) => Some(reference_to(self.stored)),
            _ => None,
        };
        let mine = [&self.stored.metadata().uid, &member.pod.metadata.uid];
        let templates = self.set.spec.volume_claim_templates.iter();
        let claims = templates.filter_map(|template| {
            let key = self.claim_of(template, &member.pod.metadata.name);
            let claim = self.world.stored(&key)?;
            let metadata = claim.metadata();
            let is_others = |it: &OwnerReference| !mine.contains(&&it.uid);
            // A claim that somebody else manages is left alone.
            if metadata.controller().is_some_and(is_others) {
                return None;
            }
            let kept = metadata
                .owner_references
                .iter()
                .filter(|it| is_others(it))
                .cloned();
            let owners: Vec<OwnerReference> = kept.chain(owner.clone()).collect();
            (owners != metadata.owner_references).then(|| with_owners(claim, owners))
        });
        claims.collect()
    }

    fn claim_of(&self, template: &VolumeClaimTemplate, pod: &str) -> Key {
        let name = format!("{}-{pod}", template.metadata.name);
        let kind = outrank_api::decode::ObjectKind::PersistentVolumeClaim;
        Key::new(kind, &self.set.metadata.namespace, &name)
    }

    fn new_claim(&self, index: usize, template: &VolumeClaimTemplate, pod: &str) -> Write {
        let mut labels = template.metadata.labels.clone();
        let selector = self.set.spec.selector.clone().unwrap_or_default();
        labels.extend(selector.match_labels);
        let claim = PersistentVolumeClaim {
            metadata: ObjectMeta {
                name: self.claim_of(template, pod).name.to_string(),
                namespace: self.set.metadata.namespace.clone(),
                labels,
                annotations: template.metadata.annotations.clone(),
                ..Default::default()
            },
            spec: template.spec.clone(),
            ..Default::default()
        };
        Write::Create(Box::new(Create {
            object: Object::PersistentVolumeClaim(Box::new(claim)),
            written: self.stored.raw().map(|source| Written {
                at: "/spec",
                source: source.clone(),
                pointer: format!("/spec/volumeClaimTemplates/{index}/spec").into(),
                edits: Vec::new(),
            }),
        }))
    }
}
