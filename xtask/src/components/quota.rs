//! Quotas: what admission decides, and what is used.

use std::collections::{BTreeMap, BTreeSet};

use outrank_admission::resource_quota::{
    self, GroupResource, Operation, QuotaObject, QuotaRequest,
};
use outrank_api::decode::Object;
use outrank_api::defaults;
use outrank_api::time::unix_nanos;
use outrank_api::types::{LimitedResource, ObjectMeta, Pod, ResourceList, ResourceQuota};
use serde_json::{Value, json};

use super::field;

/// Our answer to an operation; `None` if the topic is not one of these.
pub(super) fn answer(topic: &str, op: &str, input: &Value) -> Option<Result<Value, String>> {
    Some(match (topic, op) {
        ("quota-admission", "admission") => admission(input),
        ("quota-usage", "usage") => usage(input),
        _ => return None,
    })
}

fn admission(input: &Value) -> Result<Value, String> {
    let namespace: String = field(input, "namespace")?;
    let mut quotas: Vec<ResourceQuota> = field(input, "quotas")?;
    let limited: Option<Vec<LimitedResource>> = field(input, "limitedResources")?;
    let limited = limited.unwrap_or_default();
    let steps: Vec<Value> = field(input, "steps")?;
    let mut answers = Vec::new();
    for step in &steps {
        let mut answer = admit(&namespace, &mut quotas, &limited, step)?;
        let used = quotas.iter();
        let used = used.map(|quota| (quota.metadata.name.as_str(), &quota.status.used));
        answer["used"] = json!(used.collect::<BTreeMap<_, _>>());
        answers.push(answer);
    }
    Ok(json!({ "steps": answers }))
}

fn admit(
    namespace: &str,
    quotas: &mut [ResourceQuota],
    limited: &[LimitedResource],
    step: &Value,
) -> Result<Value, String> {
    let operation: String = field(step, "operation")?;
    let resource: String = field(step, "resource")?;
    let (object, old_object) = (stored(&step["object"])?, stored(&step["oldObject"])?);
    let object = object.ok_or("a step without an object")?;
    let request = QuotaRequest {
        operation: match operation.as_str() {
            "CREATE" => Operation::Create,
            "UPDATE" => Operation::Update,
            other => return Err(format!("operation {other}")),
        },
        resource: &GroupResource::new("", &resource),
        subresource: "",
        namespace,
        object: object.as_quota_object(),
        old_object: old_object.as_ref().map(Stored::as_quota_object),
        dry_run: step["dryRun"] == true,
    };
    let now = 0; // No object of the record is being deleted.
    match resource_quota::admit(quotas, limited, &request, now) {
        Ok(charges) => {
            for charge in charges {
                quotas[charge.quota].status.used = charge.used;
            }
            Ok(json!({ "allowed": true }))
        }
        Err(refusal) => {
            let mut answer = json!({ "allowed": false, "error": refusal.to_string() });
            // The record has a code where the error carries one; else it is the server's.
            if !refusal.reason().is_empty() {
                answer["code"] = refusal.code().into();
                answer["reason"] = refusal.reason().into();
            }
            Ok(answer)
        }
    }
}

/// An object as the API server would store it.
enum Stored {
    Typed(Object),
    Other(Box<ObjectMeta>),
}

fn stored(object: &Value) -> Result<Option<Stored>, String> {
    if object.is_null() {
        return Ok(None);
    }
    if object["kind"] == "ConfigMap" {
        return Ok(Some(Stored::Other(Box::new(field(object, "metadata")?))));
    }
    let object = outrank_api::decode::decode_value(object);
    let mut object = object.map_err(|findings| format!("{findings:?}"))?;
    defaults::default_object(&mut object);
    Ok(Some(Stored::Typed(object)))
}

impl Stored {
    fn as_quota_object(&self) -> QuotaObject<'_> {
        match self {
            Self::Typed(Object::Pod(it)) => QuotaObject::Pod(it),
            Self::Typed(Object::Service(it)) => QuotaObject::Service(it),
            Self::Typed(Object::PersistentVolumeClaim(it)) => {
                QuotaObject::PersistentVolumeClaim(it)
            }
            Self::Typed(object) => QuotaObject::Other(object.metadata()),
            Self::Other(metadata) => QuotaObject::Other(metadata),
        }
    }
}

fn usage(input: &Value) -> Result<Value, String> {
    let quota: ResourceQuota = field(input, "quota")?;
    let pods: Vec<Pod> = field(input, "pods")?;
    let now: String = field(input, "now")?;
    let now = unix_nanos(&now).ok_or("now is not a time")?;
    let resource = GroupResource::new("", "pods");
    // The record's controller knows of pods alone, so nothing else is counted.
    let objects = pods.iter().map(|pod| (&resource, QuotaObject::Pod(pod)));
    let mut used = resource_quota::usage(&quota, &BTreeSet::new(), objects, now);
    used.retain(|name, _| is_of_pods(&quota, name));
    let pods = pods.iter().map(|pod| {
        let object = QuotaObject::Pod(pod);
        json!({
            "pod": pod.metadata.name,
            "usage": resource_quota::object_usage(&resource, &object, now),
            "matches": resource_quota::selects(&quota, &resource, &object),
        })
    });
    Ok(json!({ "used": used, "pods": pods.collect::<Vec<_>>() }))
}

fn is_of_pods(quota: &ResourceQuota, name: &str) -> bool {
    let limit = quota.spec.hard.get_key_value(name);
    let limit = limit.map(|(name, amount)| (name.clone(), amount.clone()));
    let mut only = ResourceQuota::default();
    only.spec.hard = ResourceList::from_iter(limit);
    let pod = Pod::default();
    let resource = GroupResource::new("", "pods");
    resource_quota::selects(&only, &resource, &QuotaObject::Pod(&pod))
}
