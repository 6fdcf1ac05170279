//! Random quotas, and random requests in a namespace that has them. Whatever comes:
//!
//! * what admission adds up is what counting anew finds,
//! * no quota is exceeded by what was allowed,
//! * what was refused changes nothing, nor does a dry run.

#[path = "../../../tests/random.rs"]
mod random;

use std::collections::BTreeSet;
use std::sync::Arc;

use outrank_admission::resource_quota::{
    self, GroupResource, Operation, QuotaObject, QuotaRequest,
};
use outrank_api::decode::{self, Object};
use outrank_api::defaults;
use outrank_api::types::{ObjectMeta, ResourceQuota};
use serde_json::{Value, json};

use random::Random;

/// Limits on pods that may be in any scope of pods.
const POD_LIMITS: [(&str, &str); 7] = [
    ("pods", "4"),
    ("count/pods", "6"),
    ("requests.cpu", "2500m"),
    ("limits.memory", "3Gi"),
    ("requests.ephemeral-storage", "2Gi"),
    ("requests.nvidia.com/gpu", "3"),
    ("hugepages-2Mi", "8Mi"),
];

const OTHER_LIMITS: [(&str, &str); 10] = [
    ("services", "3"),
    ("services.nodeports", "4"),
    ("services.loadbalancers", "1"),
    ("persistentvolumeclaims", "3"),
    ("requests.storage", "10Gi"),
    ("gold.storageclass.storage.k8s.io/requests.storage", "4Gi"),
    (
        "gold.storageclass.storage.k8s.io/persistentvolumeclaims",
        "2",
    ),
    ("configmaps", "3"),
    ("count/configmaps", "2"),
    ("count/deployments.apps", "2"),
];

const SCOPES: [&str; 5] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "CrossNamespacePodAffinity",
];

fn random_quota(number: usize, random: &mut Random) -> ResourceQuota {
    let mut spec = json!({"hard": {}});
    let is_scoped = random.one_in(2);
    let mut limits = POD_LIMITS.to_vec();
    if !is_scoped {
        limits.extend(OTHER_LIMITS);
    }
    for (name, amount) in limits {
        if random.one_in(3) {
            spec["hard"][name] = json!(amount);
        }
    }
    if is_scoped && random.one_in(2) {
        spec["scopes"] = json!([random.pick(&SCOPES)]);
    } else if is_scoped {
        let operator = *random.pick(&["In", "NotIn", "Exists", "DoesNotExist"]);
        let mut condition = json!({"scopeName": "PriorityClass", "operator": operator});
        if operator.ends_with("In") {
            condition["values"] = json!(["high", "mid"]);
        }
        spec["scopeSelector"] = json!({"matchExpressions": [condition]});
    } else if random.one_in(6) {
        let condition = json!({"scopeName": "VolumeAttributesClass", "operator": "In",
            "values": ["fast"]});
        spec["scopeSelector"] = json!({"matchExpressions": [condition]});
    }
    let metadata = json!({"name": format!("quota-{number}"), "namespace": "team"});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).expect("a quota")
}

fn random_pod_spec(random: &mut Random) -> Value {
    let mut container = json!({"name": "c", "image": "i", "resources": {}});
    for (side, name, amount) in [
        ("requests", "cpu", "300m"),
        ("limits", "cpu", "500m"),
        ("limits", "memory", "600Mi"),
        ("requests", "ephemeral-storage", "700Mi"),
        ("limits", "nvidia.com/gpu", "1"),
        ("limits", "hugepages-2Mi", "2Mi"),
    ] {
        if random.one_in(2) {
            container["resources"][side][name] = json!(amount);
        }
    }
    let mut spec = json!({"containers": [container]});
    if random.one_in(2) {
        spec["priorityClassName"] = json!(random.pick(&["high", "mid", "low"]));
    }
    if random.one_in(3) {
        spec["activeDeadlineSeconds"] = json!(60);
    }
    if random.one_in(4) {
        let term = json!({"topologyKey": "zone", "namespaces": ["other"]});
        spec["affinity"] =
            json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    }
    spec
}

/// An object that is to be created.
fn random_object(number: usize, random: &mut Random) -> Value {
    let (api_version, kind, spec) = match random.below(5) {
        0 | 1 => ("v1", "Pod", random_pod_spec(random)),
        2 => {
            let service_type = random.pick(&["ClusterIP", "NodePort", "LoadBalancer"]);
            let ports: Vec<Value> = (0..=random.below(2))
                .map(|port| json!({"port": 80 + port}))
                .collect();
            (
                "v1",
                "Service",
                json!({"type": service_type, "ports": ports}),
            )
        }
        3 => {
            let mut spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests":
                {"storage": random.pick(&["1Gi", "2Gi", "1500M", "100.5"])}}});
            if random.one_in(2) {
                spec["storageClassName"] = json!("gold");
            }
            if random.one_in(3) {
                spec["volumeAttributesClassName"] = json!("fast");
            }
            ("v1", "PersistentVolumeClaim", spec)
        }
        _ => {
            let template = json!({"metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]}});
            let selector = json!({"matchLabels": {"a": "b"}});
            (
                "apps/v1",
                "Deployment",
                json!({"selector": selector, "template": template}),
            )
        }
    };
    let metadata = json!({"name": format!("object-{number}"), "namespace": "team",
        "resourceVersion": number.to_string()});
    json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})
}

/// A change of an object that updates may make.
fn changed(object: &Object, random: &mut Random) -> Object {
    let mut object = object.clone();
    match &mut object {
        Object::Pod(pod) => {
            let spec = Arc::make_mut(&mut pod.spec);
            spec.active_deadline_seconds = Some(60).filter(|_| random.one_in(2));
        }
        Object::Service(service) => {
            let service_type = *random.pick(&["ClusterIP", "NodePort", "LoadBalancer"]);
            service.spec.service_type = service_type.to_owned();
        }
        Object::PersistentVolumeClaim(claim) => {
            let size = random.pick(&["1Gi", "3Gi"]).parse().expect("a size");
            let requests = &mut claim.spec.resources.requests;
            requests.insert("storage".to_owned(), size);
            let class = Some("fast".to_owned()).filter(|_| random.one_in(2));
            claim.spec.volume_attributes_class_name = class;
        }
        _ => {}
    }
    object
}

/// A config map has no type here; it counts as an object.
enum Stored {
    Typed(Object),
    ConfigMap(Box<ObjectMeta>),
}

impl Stored {
    fn resource(&self) -> GroupResource {
        match self {
            Stored::Typed(object) => GroupResource::from(object.kind()),
            Stored::ConfigMap(_) => GroupResource::new("", "configmaps"),
        }
    }

    fn as_quota_object(&self) -> QuotaObject<'_> {
        match self {
            Stored::Typed(Object::Pod(it)) => QuotaObject::Pod(it),
            Stored::Typed(Object::Service(it)) => QuotaObject::Service(it),
            Stored::Typed(Object::PersistentVolumeClaim(it)) => {
                QuotaObject::PersistentVolumeClaim(it)
            }
            Stored::Typed(object) => QuotaObject::Other(object.metadata()),
            Stored::ConfigMap(metadata) => QuotaObject::Other(metadata),
        }
    }
}

struct Namespace {
    quotas: Vec<ResourceQuota>,
    objects: Vec<(GroupResource, Stored)>,
    countable: BTreeSet<GroupResource>,
}

impl Namespace {
    fn new(quotas: Vec<ResourceQuota>) -> Self {
        let countable = BTreeSet::from([GroupResource::new("apps", "deployments")]);
        let mut namespace = Self {
            quotas,
            objects: Vec::new(),
            countable,
        };
        namespace.count();
        namespace
    }

    fn objects(&self) -> impl Iterator<Item = (&GroupResource, QuotaObject<'_>)> {
        let objects = self.objects.iter();
        objects.map(|(resource, object)| (resource, object.as_quota_object()))
    }

    /// The quota controller comes by.
    fn count(&mut self) {
        let statuses: Vec<_> = self
            .quotas
            .iter()
            .map(|quota| resource_quota::status(quota, &self.countable, self.objects(), 0))
            .collect();
        for (quota, status) in self.quotas.iter_mut().zip(statuses) {
            quota.status = status.unwrap_or_else(|| quota.status.clone());
        }
    }

    /// Whether the request is allowed; what it adds is added.
    fn admit(&mut self, new: &Stored, old: Option<usize>, dry_run: bool) -> bool {
        let old = old.and_then(|index| self.objects.get(index));
        let request = QuotaRequest {
            operation: match old {
                Some(_) => Operation::Update,
                None => Operation::Create,
            },
            resource: &new.resource(),
            subresource: "",
            namespace: "team",
            object: new.as_quota_object(),
            old_object: old.map(|(_, old)| old.as_quota_object()),
            dry_run,
        };
        let charges = resource_quota::admit(&self.quotas, &[], &request, 0);
        let is_allowed = charges.is_ok();
        for charge in charges.unwrap_or_default() {
            assert!(!dry_run, "a dry run writes");
            self.quotas[charge.quota].status.used = charge.used;
        }
        is_allowed
    }

    fn check(&self, is_exact: bool, what: &str) {
        for quota in &self.quotas {
            let counted = resource_quota::usage(quota, &self.countable, self.objects(), 0);
            let status = &quota.status;
            if is_exact {
                assert_eq!(status.used, counted, "{what}: {}", quota.metadata.name);
            }
            for (name, amount) in &counted {
                assert!(*amount <= status.hard[name], "{what}: {name} is exceeded");
                assert!(
                    *amount <= status.used[name],
                    "{what}: {name} is not all counted"
                );
            }
        }
    }
}

fn run(seed: u64) -> (usize, usize) {
    let mut random = Random(seed);
    let quotas = (0..=random.below(3)).map(|number| random_quota(number, &mut random));
    let mut namespace = Namespace::new(quotas.collect());
    let (mut allowed, mut refused) = (0, 0);
    for number in 0..60 {
        let what = format!("seed {seed}, step {number}");
        let index = random.below(namespace.objects.len());
        let is_known = index < namespace.objects.len();
        match random.below(6) {
            0 if is_known => {
                namespace.objects.swap_remove(index);
                namespace.check(false, &what);
                namespace.count();
            }
            1 if is_known => {
                if let (_, Stored::Typed(Object::Pod(pod))) = &mut namespace.objects[index] {
                    pod.status.phase = "Failed".to_owned();
                }
                namespace.count();
            }
            2 if is_known => {
                let (_, Stored::Typed(old)) = &namespace.objects[index] else {
                    continue;
                };
                let new = Stored::Typed(changed(old, &mut random));
                if namespace.admit(&new, Some(index), false) {
                    namespace.objects[index].1 = new;
                    namespace.check(false, &what);
                    namespace.count();
                }
            }
            _ => {
                let new = match random.one_in(5) {
                    true => Stored::ConfigMap(Box::default()),
                    false => {
                        let object = decode::decode_value(&random_object(number, &mut random));
                        let mut object = object.expect("an object");
                        defaults::default_object(&mut object);
                        Stored::Typed(object)
                    }
                };
                let dry = namespace.admit(&new, None, true);
                let is_allowed = namespace.admit(&new, None, false);
                assert_eq!(dry, is_allowed, "{what}: a dry run tells the outcome");
                if is_allowed {
                    namespace.objects.push((new.resource(), new));
                }
                allowed += usize::from(is_allowed);
                refused += usize::from(!is_allowed);
            }
        }
        namespace.check(true, &what);
    }
    (allowed, refused)
}

#[test]
fn what_is_added_up_is_what_is_there() {
    let runs = (0..300).map(run);
    let (allowed, refused) = runs.fold((0, 0), |sum, run| (sum.0 + run.0, sum.1 + run.1));
    assert!(allowed > 1000, "{allowed} allowed");
    assert!(refused > 1000, "{refused} refused");
}
