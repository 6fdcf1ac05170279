//! Making pods from templates: names, identities and owners.

use std::collections::HashSet;
use std::sync::Arc;

use outrank_api::types::{
    ObjectMeta, OwnerReference, Pod, PodSpec, PodStatus, PodTemplateSpec, ReplicaSet, StringMap,
};

use super::{PODS_MAX, Reconciled, TooManyPods, Workload};

/// Collects what is to be created and deleted, and keeps names unique.
pub(super) struct PodMaker {
    done: Reconciled,
    /// `namespace/name` of all pods, existing and new.
    taken: HashSet<String>,
    /// The workload at work, for errors.
    kind: &'static str,
    workload: String,
}

impl PodMaker {
    pub(super) fn new(pods: &[Pod]) -> Self {
        Self {
            done: Reconciled::default(),
            taken: pods.iter().map(Pod::key).collect(),
            kind: "",
            workload: String::new(),
        }
    }

    pub(super) fn begin(&mut self, workload: &Workload<'_>) {
        let ObjectMeta {
            namespace, name, ..
        } = workload.metadata();
        self.kind = workload.kind();
        self.workload = format!("{namespace}/{name}");
    }

    pub(super) fn into_reconciled(self) -> Reconciled {
        self.done
    }

    /// Notes a ReplicaSet that a Deployment creates.
    pub(super) fn create_replica_set(&mut self, replica_set: &ReplicaSet) {
        self.done.replica_sets.push(replica_set.clone());
    }

    /// Makes room before `count` pods are made.
    pub(super) fn reserve(&mut self, count: u64) -> Result<(), TooManyPods> {
        let room = PODS_MAX - self.done.create.len();
        match usize::try_from(count) {
            Ok(count) if count <= room => {
                self.done.create.reserve(count);
                self.taken.reserve(count);
                Ok(())
            }
            _ => {
                let workload = self.workload.clone();
                Err(TooManyPods {
                    kind: self.kind,
                    workload,
                    wanted: count,
                })
            }
        }
    }

    /// Notes that a pod is to be deleted. Its name may be used again.
    pub(super) fn delete(&mut self, pod: &Pod) {
        let key = pod.key();
        self.taken.remove(&key);
        self.done.delete.push(key);
    }

    /// Creates a pod called `prefix` and a suffix of five characters. `tried` counts the
    /// suffixes that are used up; begin with 0.
    pub(super) fn create_with_suffix(
        &mut self,
        mut new: NewPod<'_>,
        prefix: &str,
        tried: &mut u64,
    ) {
        let base = shortened(prefix, GENERATED_BASE_BYTES_MAX);
        let seed = fnv1a(&[new.owner.uid.as_bytes(), prefix.as_bytes()]);
        loop {
            new.name = format!("{base}{}", suffix(seed, *tried));
            *tried += 1;
            if self.taken.insert(new.key()) {
                break;
            }
        }
        new.generate_name = prefix.to_owned();
        self.done.create.push(new.into_pod());
    }

    /// Creates a pod of a given name, unless somebody else's pod has it: the API server
    /// would refuse that.
    pub(super) fn create_named(&mut self, new: NewPod<'_>) {
        if self.taken.insert(new.key()) {
            self.done.create.push(new.into_pod());
        }
    }
}

/// A pod about to be made.
pub(super) struct NewPod<'a> {
    pub(super) owner: &'a Owner<'a>,
    pub(super) name: String,
    pub(super) generate_name: String,
    pub(super) labels: StringMap,
    pub(super) annotations: StringMap,
    pub(super) spec: Arc<PodSpec>,
}

impl<'a> NewPod<'a> {
    /// A pod as the template has it; it shares the template's spec.
    pub(super) fn of(owner: &'a Owner<'a>, template: &PodTemplateSpec) -> Self {
        Self {
            owner,
            name: String::new(),
            generate_name: String::new(),
            labels: template.metadata.labels.clone(),
            annotations: template.metadata.annotations.clone(),
            spec: Arc::clone(&template.spec),
        }
    }

    pub(super) fn label(&mut self, key: &str, value: String) {
        self.labels.insert(key.to_owned(), value);
    }

    /// `namespace/name`.
    fn key(&self) -> String {
        format!("{}/{}", self.owner.namespace, self.name)
    }

    fn into_pod(self) -> Pod {
        let uid = uid_of(&[&self.owner.uid, &self.name]);
        Pod {
            metadata: ObjectMeta {
                name: self.name,
                generate_name: self.generate_name,
                namespace: self.owner.namespace.to_owned(),
                uid,
                labels: self.labels,
                annotations: self.annotations,
                owner_references: vec![self.owner.reference()],
                ..Default::default()
            },
            spec: self.spec,
            status: PodStatus {
                phase: "Pending".to_owned(),
                ..Default::default()
            },
        }
    }
}

/// The object that a controller reference points to.
#[derive(Clone, Debug)]
pub(super) struct Owner<'a> {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    pub(super) namespace: &'a str,
    pub(super) name: String,
    pub(super) uid: String,
    /// Whether the API server gave the uid; a made-up one says nothing about who owns
    /// existing pods.
    pub(super) uid_is_given: bool,
}

impl<'a> Owner<'a> {
    pub(super) fn of(workload: &Workload<'a>) -> Self {
        let meta = workload.metadata();
        let (api_version, kind) = (workload.api_version(), workload.kind());
        Self::new(
            api_version,
            kind,
            &meta.namespace,
            meta.name.clone(),
            &meta.uid,
        )
    }

    pub(super) fn new(
        api_version: &'static str,
        kind: &'static str,
        namespace: &'a str,
        name: String,
        uid: &str,
    ) -> Self {
        let uid_is_given = !uid.is_empty();
        let uid = if uid_is_given {
            uid.to_owned()
        } else {
            uid_of(&[kind, namespace, &name])
        };
        Self {
            api_version,
            kind,
            namespace,
            name,
            uid,
            uid_is_given,
        }
    }

    /// Whether a controller reference of an object in the owner's namespace means it.
    pub(super) fn is_meant_by(&self, reference: &OwnerReference) -> bool {
        reference.kind == self.kind
            && reference.name == self.name
            && (!self.uid_is_given || reference.uid.is_empty() || reference.uid == self.uid)
    }

    pub(super) fn reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: self.api_version.to_owned(),
            kind: self.kind.to_owned(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }
}

/// A short hash of a template, as it ends names of ReplicaSets.
///
/// The form is upstream's (FNV-1a of 32 bits, written in [`SAFE_CHARACTERS`]); the value
/// is not, because upstream hashes a memory dump of its own types.
pub(super) fn template_hash(template: &PodTemplateSpec) -> String {
    let bytes = serde_json::to_vec(template).unwrap_or_default();
    let hash = fnv1a(&[&bytes]);
    let folded = (hash >> 32) as u32 ^ hash as u32;
    folded
        .to_string()
        .bytes()
        .map(|digit| safe_character(usize::from(digit)))
        .collect()
}

/// What upstream writes generated names in: no vowels and nothing that looks like one.
const SAFE_CHARACTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

fn safe_character(number: usize) -> char {
    char::from(SAFE_CHARACTERS[number % SAFE_CHARACTERS.len()])
}

/// Longest base of a generated name, in bytes; the suffix makes it 63.
pub(super) const GENERATED_BASE_BYTES_MAX: usize = 58;

/// As many suffixes as five of 27 characters make.
const SUFFIXES: u64 = 27_u64.pow(5);

/// Has no divisor in common with [`SUFFIXES`], so `SUFFIXES` steps reach every suffix once.
const SUFFIX_STEP: u64 = 8_868_112;
const _: () = assert!(!SUFFIX_STEP.is_multiple_of(3) && SUFFIX_STEP < SUFFIXES);
const _: () = assert!((PODS_MAX as u64) < SUFFIXES);

/// The suffix number `index` from `seed` on. No two indices below [`SUFFIXES`] give the
/// same one.
pub(super) fn suffix(seed: u64, index: u64) -> String {
    let mut rest = (seed % SUFFIXES + (index % SUFFIXES) * SUFFIX_STEP) % SUFFIXES;
    let digits = (0..5).map(|_| {
        let digit = rest % 27;
        rest /= 27;
        safe_character(digit as usize)
    });
    digits.collect()
}

/// A UUID that depends on nothing but `parts` (version 8 of RFC 9562: a hash of one's own).
pub(super) fn uid_of(parts: &[&str]) -> String {
    let bytes: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
    let high = fnv1a(&bytes);
    let low = fnv1a(&[
        &high.to_le_bytes(),
        bytes.last().copied().unwrap_or_default(),
    ]);
    format!(
        "{:08x}-{:04x}-8{:03x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        0x8000 | low >> 48 & 0x3fff,
        low & 0xffff_ffff_ffff
    )
}

/// FNV-1a over the parts, with a mark between them.
pub(super) fn fnv1a(parts: &[&[u8]]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let bytes = parts.iter().flat_map(|part| part.iter().chain(&[0xff]));
    bytes.fold(OFFSET, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(PRIME)
    })
}

/// The first `bytes_max` bytes, or fewer if that would cut a character.
pub(super) fn shortened(text: &str, bytes_max: usize) -> &str {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_do_not_repeat() {
        let suffixes: HashSet<String> = (0..200_000).map(|index| suffix(77, index)).collect();
        assert_eq!(suffixes.len(), 200_000);
        let safe = |character: char| SAFE_CHARACTERS.contains(&(character as u8));
        assert!(
            suffixes
                .iter()
                .all(|suffix| suffix.len() == 5 && suffix.chars().all(safe))
        );
    }

    #[test]
    fn uids_look_like_uuids_and_differ() {
        let uids: HashSet<String> = (0..10_000)
            .map(|i| uid_of(&["rs", &i.to_string()]))
            .collect();
        assert_eq!(uids.len(), 10_000);
        for uid in uids {
            let lengths: Vec<usize> = uid.split('-').map(str::len).collect();
            assert_eq!(lengths, [8, 4, 4, 4, 12], "{uid}");
        }
        assert_ne!(uid_of(&["ab", "c"]), uid_of(&["a", "bc"]));
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        assert_eq!(shortened("abc", 58), "abc");
        assert_eq!(shortened("aé", 2), "a");
    }
}
