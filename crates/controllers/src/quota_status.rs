//! ResourceQuota status: what is used, counted anew.
//!
//! Admission adds to the status of a quota what new objects use, and never takes anything away.
//! This controller counts again: when there is a new quota or its limits change, when objects end
//! or go, and five minutes after anything else has happened in the namespace (upstream does every
//! five minutes, whether anything has or not). What counts is said in [`outrank_admission::resource_quota`].
//!
//! Source: `pkg/controller/resourcequota`, Kubernetes 1.36.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outrank_admission::resource_quota::{
    DevicesClaimed, GroupResource, QuotaObject, is_charged, status,
};
use outrank_api::decode::ObjectKind;
use outrank_api::types::{PersistentVolumeClaim, Pod, ResourceClaim, ResourceQuota, Service};
use serde_json::Value;

use crate::controller::{Controller, Plan};
use crate::world::{Key, Kind, Seen, Stored, World};
use crate::write::{Event, Outcome, Refusal, Write};

/// `--resource-quota-sync-period`, in nanoseconds.
const SYNC_PERIOD: i64 = 5 * 60 * 1_000_000_000;

/// The controller of the statuses of ResourceQuotas.
#[derive(Clone, Debug, Default)]
pub struct QuotaStatusController {
    /// Quotas to be counted at once.
    urgent: BTreeSet<Key>,
    /// Quotas of which something may have changed since they were counted.
    stale: BTreeSet<Key>,
    /// When each was counted.
    counted_at: BTreeMap<Key, i64>,
}

impl QuotaStatusController {
    /// The controller.
    pub fn new() -> Self {
        Self::default()
    }

    fn note_quota(&mut self, seen: &Seen) -> Vec<Key> {
        let [old, new] = seen.both::<ResourceQuota>();
        let is_as_before = old.is_some_and(|old| {
            new.is_some_and(|new| {
                old.metadata.uid == new.metadata.uid && old.spec.hard == new.spec.hard
            })
        });
        if new.is_none() {
            self.urgent.remove(&seen.key);
            self.stale.remove(&seen.key);
            self.counted_at.remove(&seen.key);
        }
        if is_as_before || new.is_none() {
            return Vec::new();
        }
        self.urgent.insert(seen.key.clone());
        vec![seen.key.clone()]
    }

    /// When a quota is to be counted at the latest; a time that has passed if it was never.
    fn due(&self, key: &Key) -> i64 {
        let counted_at = self.counted_at.get(key);
        counted_at.map_or(i64::MIN, |it| it.saturating_add(SYNC_PERIOD))
    }
}

impl Controller for QuotaStatusController {
    fn name(&self) -> &'static str {
        "resourcequota-controller"
    }

    fn concerned(&mut self, seen: &Seen, world: &World, now: i64) -> Vec<Key> {
        if seen.key.kind == Kind::Known(ObjectKind::ResourceQuota) {
            return self.note_quota(seen);
        }
        let is_urgent = may_free(seen, now);
        let mut keys = Vec::new();
        for quota in world.within::<ResourceQuota>(&seen.key.namespace) {
            let key = Key::of::<ResourceQuota>(&quota.metadata);
            let is_new = match is_urgent && tracks(quota, &seen.key.kind) {
                true => {
                    self.urgent.insert(key.clone());
                    true
                }
                false => self.stale.insert(key.clone()),
            };
            keys.extend(is_new.then_some(key));
        }
        keys
    }

    fn reconcile(&mut self, key: &Key, world: &World, now: i64) -> Plan {
        let mut plan = Plan::nothing();
        let stored = world.stored(key);
        let Some((stored, quota)) = stored.and_then(|it| Some((it, it.get::<ResourceQuota>()?)))
        else {
            return plan;
        };
        if self.urgent.remove(key) || self.due(key) <= now {
            let content = Content::of(&quota.metadata.namespace, world);
            if let Some(new) = status(quota, &content.countable, content.objects(), now) {
                let write = Write::status(stored, &quota.status, &new);
                plan.step(write.map(|it| it.at_version(stored)));
            }
            self.counted_at.insert(key.clone(), now);
            self.stale.remove(key);
            // Pods that are going count until their time is over, which nobody tells.
            if content.has_departing(now) {
                self.stale.insert(key.clone());
            }
        }
        if self.stale.contains(key) {
            plan.look_at(self.due(key));
        }
        plan
    }

    fn refused(&mut self, key: &Key, _: &World, _: i64, _: &[(Write, Refusal)]) -> Vec<Write> {
        self.urgent.insert(key.clone());
        Vec::new()
    }

    fn tell(&self, _: &Key, _: &World, _: &Write, _: &Outcome) -> Option<Event> {
        None
    }
}

/// Whether a change may leave more of a quota than before. New objects are what admission counts.
fn may_free(seen: &Seen, now: i64) -> bool {
    if seen.new.is_none() {
        return true;
    }
    if let [Some(old), Some(new)] = seen.both::<Pod>() {
        let deadlines = [old, new].map(|pod| pod.spec.active_deadline_seconds.is_some());
        return is_charged(old, now) && !is_charged(new, now)
            || deadlines[0] != deadlines[1]
            || resources_of(old) != resources_of(new);
    }
    if let [Some(old), Some(new)] = seen.both::<Service>() {
        return outside_type(old) != outside_type(new);
    }
    match seen.both::<PersistentVolumeClaim>() {
        [Some(old), Some(new)] => old.spec != new.spec || old.status != new.status,
        _ => false,
    }
}

/// The type of a service that asks for something outside of the cluster.
fn outside_type(service: &Service) -> Option<&str> {
    let service_type = service.spec.service_type.as_str();
    Some(service_type).filter(|it| matches!(*it, "NodePort" | "LoadBalancer"))
}

/// What the containers of a pod ask for, and what they have.
fn resources_of(pod: &Pod) -> impl PartialEq {
    let asked = pod.spec.containers.iter().chain(&pod.spec.init_containers);
    let asked: Vec<_> = asked.map(|container| &container.resources).collect();
    let status = &pod.status;
    let had = status
        .container_statuses
        .iter()
        .chain(&status.init_container_statuses);
    let had: Vec<_> = had
        .map(|it| (&it.resources, &it.allocated_resources))
        .collect();
    (asked, had, &pod.spec.resources)
}

/// Whether objects of a kind use something that the quota limits.
fn tracks(quota: &ResourceQuota, kind: &Kind) -> bool {
    let may_use_much = match kind {
        Kind::Known(kind) => matches!(
            kind,
            ObjectKind::Pod | ObjectKind::Service | ObjectKind::PersistentVolumeClaim
        ),
        Kind::Other(_) => kind.name() == RESOURCE_CLAIM,
    };
    let (resource, group_resource) = (kind.plural(), kind.group_resource());
    let mut names = quota.spec.hard.keys();
    may_use_much
        || names.any(|name| {
            *name == resource || name.strip_prefix("count/") == Some(group_resource.as_str())
        })
}

const RESOURCE_CLAIM: &str = "ResourceClaim";

/// The objects of a namespace as quotas see them.
struct Content<'w> {
    /// All resources whose objects are known, if there are any.
    countable: BTreeSet<GroupResource>,
    resources: BTreeMap<Kind, GroupResource>,
    stored: Vec<&'w Arc<Stored>>,
    claims: BTreeMap<Key, ResourceClaim>,
    /// By DeviceClass.
    extended_resources: BTreeMap<String, String>,
}

impl<'w> Content<'w> {
    fn of(namespace: &'w str, world: &'w World) -> Self {
        let typed = ObjectKind::ALL
            .iter()
            .copied()
            .filter(|kind| kind.is_namespaced());
        let kinds = typed.map(Kind::Known).chain(world.kinds().cloned());
        let resource = |kind: &Kind| GroupResource::new(kind.group(), &kind.plural());
        let resources: BTreeMap<Kind, GroupResource> =
            kinds.map(|kind| (kind.clone(), resource(&kind))).collect();
        let stored: Vec<&Arc<Stored>> = world.everything_within(namespace).collect();
        let claims = stored
            .iter()
            .filter(|it| it.kind().name() == RESOURCE_CLAIM);
        let claims = claims.filter_map(|it| {
            let claim = serde_json::from_value(Value::clone(it.raw()?)).ok()?;
            Some((it.key(), claim))
        });
        let classes = Kind::of("resource.k8s.io/v1", "DeviceClass");
        let classes = world.untyped(&classes).filter_map(|class| {
            let name = class.raw()?.pointer("/spec/extendedResourceName")?;
            Some((class.metadata().name.clone(), name.as_str()?.to_owned()))
        });
        Content {
            countable: resources.values().cloned().collect(),
            claims: claims.collect(),
            extended_resources: classes.collect(),
            resources,
            stored,
        }
    }

    /// Whether there are pods that are being deleted and are charged for now.
    fn has_departing(&self, now: i64) -> bool {
        let pods = self.stored.iter().filter_map(|it| it.get::<Pod>());
        let mut going = pods.filter(|pod| pod.metadata.deletion_timestamp.is_some());
        going.any(|pod| is_charged(pod, now))
    }

    fn objects(&self) -> impl Iterator<Item = (&GroupResource, QuotaObject<'_>)> {
        self.stored.iter().filter_map(|stored| {
            let resource = self.resources.get(&stored.kind())?;
            Some((resource, self.object(stored)))
        })
    }

    fn object<'s>(&'s self, stored: &'s Stored) -> QuotaObject<'s> {
        if let Some(pod) = stored.get() {
            return QuotaObject::Pod(pod);
        }
        if let Some(service) = stored.get() {
            return QuotaObject::Service(service);
        }
        if let Some(claim) = stored.get() {
            return QuotaObject::PersistentVolumeClaim(claim);
        }
        match self.claims.get(&stored.key()) {
            Some(claim) => QuotaObject::ResourceClaim(DevicesClaimed {
                claim,
                extended_resources: &self.extended_resources,
            }),
            None => QuotaObject::Other(stored.metadata()),
        }
    }
}
