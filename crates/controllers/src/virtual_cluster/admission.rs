//! Admission of what is made in a virtual cluster: the plugins, in their order, and quotas last.

use outrank_admission::namespace_lifecycle::NamespacePhase;
use outrank_admission::resource_quota::{
    GroupResource, Operation, QuotaObject, QuotaRequest, admit,
};
use outrank_admission::{AdmissionChain, Attributes, Cluster, PriorityResolver, chain, creation};
use outrank_api::decode::{Object, ObjectKind, Typed};
use outrank_api::status::Status;
use outrank_api::types::{
    LimitRange, LimitedResource, Namespace, PriorityClass, ResourceList, ResourceQuota,
    RuntimeClass,
};

use crate::world::{self, Key, Kind, Objects, Stored};
use crate::write::Refusal;

/// What an API server asks before it stores a new object.
pub struct Admission {
    chain: AdmissionChain,
    limited_resources: Vec<LimitedResource>,
    /// From the priority classes that there are; `None` if these have changed.
    resolver: Option<PriorityResolver>,
    has_quotas: bool,
}

/// What a new object adds to a quota: the quota, and what is used of it then.
pub(super) type Charges = Vec<(Key, ResourceList)>;

impl Admission {
    /// These plugins. `limited_resources` may not be used where no quota covers them; without
    /// `has_quotas` nobody asks quotas.
    pub fn new(
        chain: AdmissionChain,
        has_quotas: bool,
        limited_resources: Vec<LimitedResource>,
    ) -> Self {
        Self {
            chain,
            limited_resources,
            resolver: None,
            has_quotas,
        }
    }

    /// Notes that an object has changed.
    pub(super) fn note(&mut self, key: &Key) {
        if key.kind == Kind::Known(ObjectKind::PriorityClass) {
            self.resolver = None;
        }
    }

    /// Lets a new object through, perhaps changed, and says what it adds to quotas.
    pub(super) fn create(
        &mut self,
        stored: &mut Stored,
        objects: &Objects,
        now: i64,
    ) -> Result<Charges, Refusal> {
        let key = stored.key();
        let Kind::Known(kind) = key.kind else {
            return Ok(Charges::new());
        };
        let resolver = self.resolver.get_or_insert_with(|| resolver(objects));
        let lookup = Lookup { objects, resolver };
        let attributes = Attributes {
            namespace: &key.namespace,
            name: &key.name,
            ..Attributes::of(chain::Operation::Create, kind)
        };
        let mut result = Ok(());
        stored.change(|object| {
            result = creation::admit(&self.chain, &attributes, object, &lookup);
        });
        result.map_err(refusal_of)?;
        match stored.object() {
            Some(object) if self.has_quotas => self.charge(&key, object, objects, now),
            _ => Ok(Charges::new()),
        }
    }

    fn charge(
        &self,
        key: &Key,
        object: &Object,
        objects: &Objects,
        now: i64,
    ) -> Result<Charges, Refusal> {
        let quotas: Vec<ResourceQuota> = within::<ResourceQuota>(objects, &key.namespace)
            .cloned()
            .collect();
        let request = QuotaRequest {
            operation: Operation::Create,
            resource: &GroupResource::from(object.kind()),
            subresource: "",
            namespace: &key.namespace,
            object: match object {
                Object::Pod(it) => QuotaObject::Pod(it),
                Object::Service(it) => QuotaObject::Service(it),
                Object::PersistentVolumeClaim(it) => QuotaObject::PersistentVolumeClaim(it),
                other => QuotaObject::Other(other.metadata()),
            },
            old_object: None,
            dry_run: false,
        };
        let charges = admit(&quotas, &self.limited_resources, &request, now);
        let charges = charges.map_err(|refusal| Refusal {
            code: refusal.code(),
            reason: refusal.reason().to_owned(),
            message: refusal.to_string(),
            causes: Vec::new(),
        })?;
        let charges = charges.into_iter().map(|charge| {
            let metadata = &quotas[charge.quota].metadata;
            (Key::of::<ResourceQuota>(metadata), charge.used)
        });
        Ok(charges.collect())
    }
}

/// What plugins look up: the objects of the cluster.
struct Lookup<'o> {
    objects: &'o Objects,
    resolver: &'o PriorityResolver,
}

impl Cluster for Lookup<'_> {
    fn priority_classes(&self) -> &PriorityResolver {
        self.resolver
    }

    fn namespace(&self, name: &str) -> Option<NamespacePhase> {
        let key = Key::new(ObjectKind::Namespace, "", name);
        let namespace = self.objects.get(&key)?.get::<Namespace>()?;
        Some(match namespace.metadata.deletion_timestamp {
            Some(_) => NamespacePhase::Terminating,
            None => NamespacePhase::Active,
        })
    }

    fn limit_ranges(&self, namespace: &str) -> Vec<&LimitRange> {
        within::<LimitRange>(self.objects, namespace).collect()
    }

    fn runtime_class(&self, name: &str) -> Option<&RuntimeClass> {
        let key = Key::new(ObjectKind::RuntimeClass, "", name);
        self.objects.get(&key)?.get::<RuntimeClass>()
    }
}

fn resolver(objects: &Objects) -> PriorityResolver {
    PriorityResolver::new(within::<PriorityClass>(objects, ""))
}

/// Objects of a type in a namespace, by name.
fn within<'o, T: Typed>(
    objects: &'o Objects,
    namespace: &str,
) -> impl Iterator<Item = &'o T> + use<'o, T> {
    world::within(objects, T::KIND.into(), namespace).filter_map(|stored| stored.get())
}

fn refusal_of(status: Status) -> Refusal {
    let details = status.details.into_iter();
    let causes = details.flat_map(|details| details.causes);
    Refusal {
        code: status.code,
        reason: status
            .reason
            .map_or_else(String::new, |it| format!("{it:?}")),
        message: status.message,
        causes: causes.map(|cause| cause.reason).collect(),
    }
}
