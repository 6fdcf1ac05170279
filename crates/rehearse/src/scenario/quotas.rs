//! ResourceQuotas, and what new pods take of them.
//!
//! What is used at first is counted from what there is in the end of all changes: pods that go
//! give back what they used. Then new pods are charged one after the other, those of the input
//! before those that controllers make.

use std::collections::{BTreeMap, BTreeSet};

use outrank_admission::resource_quota::{
    GroupResource, Operation, QuotaObject, QuotaRequest, admit, object_usage, selects, status,
};
use outrank_api::decode::{Object, ObjectKind};
use outrank_api::types::{LimitedResource, Pod, ResourceQuota};

/// Quotas by namespace, and resources that nobody may use without one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quotas {
    by_namespace: BTreeMap<String, Vec<ResourceQuota>>,
    limited: Vec<LimitedResource>,
    now_nanos: i64,
}

impl Quotas {
    /// Quotas among `objects`, with what these and the stored pods of `pods` use of them.
    pub(super) fn new<'p>(
        objects: &[Object],
        pods: impl Iterator<Item = &'p Pod>,
        limited: &[LimitedResource],
        now_nanos: i64,
    ) -> Self {
        let mut quotas = Self {
            limited: limited.to_vec(),
            now_nanos,
            ..Self::default()
        };
        for object in objects {
            if let Object::ResourceQuota(quota) = object {
                let namespace = quota.metadata.namespace.clone();
                let of_namespace = quotas.by_namespace.entry(namespace).or_default();
                of_namespace.push((**quota).clone());
            }
        }
        if !quotas.by_namespace.is_empty() {
            quotas.count(objects, pods);
        }
        quotas
    }

    fn count<'p>(&mut self, objects: &[Object], pods: impl Iterator<Item = &'p Pod>) {
        let kinds = ObjectKind::ALL.iter().copied();
        let resources: BTreeMap<ObjectKind, GroupResource> = kinds
            .map(|kind| (kind, GroupResource::from(kind)))
            .collect();
        let countable: BTreeSet<GroupResource> = resources.values().cloned().collect();
        let pods: Vec<&Pod> = pods.collect();
        for (namespace, quotas) in &mut self.by_namespace {
            let pods = pods
                .iter()
                .filter(|pod| pod.metadata.namespace == *namespace);
            let pods = pods.map(|pod| (ObjectKind::Pod, QuotaObject::Pod(pod)));
            let others = objects
                .iter()
                .filter(|it| it.metadata().namespace == *namespace);
            let others = others.filter_map(|it| Some((it.kind(), seen_by_quotas(it)?)));
            let content: Vec<(ObjectKind, QuotaObject<'_>)> = pods.chain(others).collect();
            for quota in quotas {
                let content = content.iter().map(|(kind, it)| (&resources[kind], *it));
                if let Some(status) = status(quota, &countable, content, self.now_nanos) {
                    quota.status = status;
                }
            }
        }
    }

    /// Gives back what a pod used that is gone.
    pub(crate) fn release(&mut self, pod: &Pod) {
        let resource = GroupResource::from(ObjectKind::Pod);
        let object = QuotaObject::Pod(pod);
        let quotas = self.by_namespace.get_mut(&pod.metadata.namespace);
        for quota in quotas.into_iter().flatten() {
            if !selects(quota, &resource, &object) {
                continue;
            }
            for (name, amount) in object_usage(&resource, &object, self.now_nanos) {
                if let Some(used) = quota.status.used.get_mut(&name) {
                    *used -= &amount;
                }
            }
        }
    }

    /// Charges the quotas of a pod's namespace for the pod.
    ///
    /// # Errors
    /// Admission's message, if one of them does not let the pod through.
    pub(crate) fn admit(&mut self, pod: &Pod) -> Result<(), String> {
        let quotas = self.by_namespace.get_mut(&pod.metadata.namespace);
        if quotas.is_none() && self.limited.is_empty() {
            return Ok(());
        }
        let mut none = Vec::new();
        let quotas = quotas.unwrap_or(&mut none);
        let request = QuotaRequest {
            operation: Operation::Create,
            resource: &GroupResource::from(ObjectKind::Pod),
            subresource: "",
            namespace: &pod.metadata.namespace,
            object: QuotaObject::Pod(pod),
            old_object: None,
            dry_run: false,
        };
        let charges = admit(quotas, &self.limited, &request, self.now_nanos);
        for charge in charges.map_err(|refusal| without_pod(&refusal.to_string(), pod))? {
            quotas[charge.quota].status.used = charge.used;
        }
        Ok(())
    }
}

/// An object other than a pod, as quotas see it.
fn seen_by_quotas(object: &Object) -> Option<QuotaObject<'_>> {
    match object {
        Object::Pod(_) => None,
        Object::Service(it) => Some(QuotaObject::Service(it)),
        Object::PersistentVolumeClaim(it) => Some(QuotaObject::PersistentVolumeClaim(it)),
        other => Some(QuotaObject::Other(other.metadata())),
    }
}

/// A message without the name of the pod that it begins with, so that those of many pods are
/// one.
pub(super) fn without_pod(message: &str, pod: &Pod) -> String {
    let name = match pod.metadata.name.as_str() {
        "" if pod.metadata.generate_name.is_empty() => "Unknown",
        "" => &pod.metadata.generate_name,
        name => name,
    };
    let beginnings = [
        format!("pods {name:?} is forbidden: "),
        format!("Pod {:?} is invalid: ", pod.metadata.name),
    ];
    let mut rest = beginnings.iter().filter_map(|it| message.strip_prefix(it));
    rest.next().unwrap_or(message).to_owned()
}
