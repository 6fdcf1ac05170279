//! Two priority classes, a Deployment, a quota on the high class and a configuration that keeps
//! the class to namespaces with such a quota, as published: what a cluster makes of them, up to
//! the eleventh pod.

use std::collections::BTreeSet;

use outrank_admission::PriorityResolver;
use outrank_admission::configuration;
use outrank_admission::resource_quota::{
    self, GroupResource, Operation, QuotaObject, QuotaRequest, Refusal,
};
use outrank_api::decode::{self, Object};
use outrank_api::defaults;
use outrank_api::types::{
    Deployment, LimitedResource, ObjectMeta, Pod, PriorityClass, ResourceQuota,
};

const CLASSES: &[u8] = include_bytes!("../../../tests/seeds/priority-classes.yaml");
const DEPLOYMENT: &[u8] = include_bytes!("../../../tests/seeds/deployment-high-priority.yaml");
const QUOTA: &[u8] = include_bytes!("../../../tests/seeds/resource-quota-high-priority.yaml");
const CONFIGURATION: &[u8] = include_bytes!("../../../tests/seeds/admission-configuration.yaml");

fn objects(manifest: &[u8]) -> Vec<Object> {
    let loaded = decode::load([("manifest", manifest)]);
    assert!(loaded.errors.is_empty(), "{:?}", loaded.errors);
    loaded.objects.into_iter().map(|it| it.object).collect()
}

/// A cluster with the namespace `default`.
struct Cluster {
    classes: Vec<PriorityClass>,
    limited_resources: Vec<LimitedResource>,
    quotas: Vec<ResourceQuota>,
    pods: Vec<Pod>,
}

impl Cluster {
    /// With the two classes and the configuration; there is no quota yet.
    fn new() -> Self {
        let mut file = |path: &str| Err(format!("no file {path}"));
        let read = configuration::read(CONFIGURATION, &mut file);
        let read = read.expect("a valid configuration");
        assert_eq!(read.warnings, []);
        let classes = objects(CLASSES).into_iter();
        let classes = classes.filter_map(|object| match object {
            Object::PriorityClass(class) => Some(*class),
            _ => None,
        });
        Self {
            classes: classes.collect(),
            limited_resources: read.limited_resources,
            quotas: Vec::new(),
            pods: Vec::new(),
        }
    }

    /// The quota is created, and its controller counts.
    fn create_quota(&mut self) {
        let quotas = objects(QUOTA).into_iter();
        self.quotas.extend(quotas.filter_map(|object| match object {
            Object::ResourceQuota(quota) => Some(*quota),
            _ => None,
        }));
        self.count();
    }

    fn count(&mut self) {
        let pods = GroupResource::new("", "pods");
        for quota in &mut self.quotas {
            let objects = self.pods.iter().map(|pod| (&pods, QuotaObject::Pod(pod)));
            if let Some(status) = resource_quota::status(quota, &BTreeSet::new(), objects, 0) {
                quota.status = status;
            }
        }
    }

    /// A pod of the Deployment is created: Priority is asked, then ResourceQuota.
    fn create_pod(&mut self, name: &str, class: &str) -> Result<(), Refusal> {
        let mut pod = deployment_pod(name);
        std::sync::Arc::make_mut(&mut pod.spec).priority_class_name = class.to_owned();
        let priorities = PriorityResolver::new(&self.classes);
        priorities.resolve(&mut pod).expect("the class exists");
        let request = QuotaRequest {
            operation: Operation::Create,
            resource: &GroupResource::new("", "pods"),
            subresource: "",
            namespace: "default",
            object: QuotaObject::Pod(&pod),
            old_object: None,
            dry_run: false,
        };
        let limited = &self.limited_resources;
        for charge in resource_quota::admit(&self.quotas, limited, &request, 0)? {
            self.quotas[charge.quota].status.used = charge.used;
        }
        self.pods.push(pod);
        Ok(())
    }
}

fn deployment_pod(name: &str) -> Pod {
    let deployments = objects(DEPLOYMENT).into_iter();
    let mut deployments = deployments.filter_map(|object| match object {
        Object::Deployment(it) => Some(*it),
        _ => None,
    });
    let Deployment { spec, .. } = deployments.next().expect("a Deployment");
    let mut pod = Pod {
        metadata: ObjectMeta {
            name: name.to_owned(),
            labels: spec.template.metadata.labels,
            ..ObjectMeta::default()
        },
        spec: spec.template.spec,
        ..Pod::default()
    };
    defaults::default_pod(&mut pod);
    pod
}

#[test]
fn the_eleventh_pod_of_the_high_class_is_refused() {
    let mut cluster = Cluster::new();
    cluster.create_quota();
    for number in 1..=10 {
        let created = cluster.create_pod(&format!("high-nginx-{number}"), "high");
        assert_eq!(created, Ok(()), "pod {number}");
    }
    assert_eq!(cluster.pods[9].spec.priority, Some(10_000));
    let refusal = cluster.create_pod("high-nginx-11", "high").unwrap_err();
    assert_eq!((refusal.code(), refusal.reason()), (403, "Forbidden"));
    assert_eq!(
        refusal.to_string(),
        "pods \"high-nginx-11\" is forbidden: exceeded quota: high-priority, requested: pods=1, \
         used: pods=10, limited: pods=10"
    );

    // Pods of the other class are not limited.
    assert_eq!(cluster.create_pod("low-nginx-1", "low"), Ok(()));

    // Once a pod is gone there is room for another.
    cluster.pods.remove(0);
    cluster.count();
    assert_eq!(cluster.create_pod("high-nginx-12", "high"), Ok(()));
}

#[test]
fn without_the_quota_nobody_may_use_the_high_class() {
    let mut cluster = Cluster::new();
    let refusal = cluster.create_pod("high-nginx-1", "high").unwrap_err();
    assert_eq!((refusal.code(), refusal.reason()), (500, ""));
    assert_eq!(
        refusal.to_string(),
        "insufficient quota to match these scopes: [{PriorityClass In [high]}]"
    );
    assert_eq!(cluster.create_pod("low-nginx-1", "low"), Ok(()));
}
