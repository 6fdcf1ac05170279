//! Making pods from templates: names, identities and owners.

use std::collections::HashSet;
use std::sync::Arc;

use outrank_api::types::{
    ObjectMeta, OwnerReference, Pod, PodSpec, PodStatus, PodTemplateSpec, ReplicaSet, StringMap,
};

use crate::generated_names::{GENERATED_BASE_BYTES_MAX, fnv1a, shortened, suffix, uid_of};

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
