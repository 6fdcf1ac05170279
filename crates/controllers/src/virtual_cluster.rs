//! A cluster in memory with a clock that jumps: where controllers run in rehearsals and tests.
//!
//! It does what an API server does with the writes of controllers (names, uids, versions,
//! generations, merge patches, preconditions, grace periods, finalizers, namespaces that end) and
//! no more: nothing is validated, and there is no admission but [`VirtualCluster::refuse`]. Instead of kubelets and
//! a scheduler there is [`PodLife`], or whoever calls [`VirtualCluster::set_pod_status`].
//!
//! ```
//! use outrank_controllers::virtual_cluster::VirtualCluster;
//! use outrank_controllers::{Controllers, replica_set::ReplicaSetController};
//! use serde_json::json;
//!
//! let controllers = Controllers::new(vec![Box::new(ReplicaSetController::new())]);
//! let mut cluster = VirtualCluster::new(controllers, "2026-01-01T00:00:00Z");
//! cluster.create(json!({
//!     "apiVersion": "apps/v1", "kind": "ReplicaSet",
//!     "metadata": {"name": "web", "namespace": "shop"},
//!     "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {
//!         "metadata": {"labels": {"app": "web"}},
//!         "spec": {"containers": [{"name": "c", "image": "nginx", "args": ["-q"]}]}}},
//! }));
//! cluster.settle();
//! let pods: Vec<_> = cluster.pods("shop").collect();
//! assert_eq!(pods.len(), 3);
//! assert_eq!(cluster.value(&pods[0])["spec"]["containers"][0]["args"][0], "-q");
//! ```

mod admission;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use outrank_api::decode::{Object, ObjectKind, Typed};
use outrank_api::defaults::{NAMESPACE, default_object, select_pods_of_job};
use outrank_api::status::StatusCause;
use outrank_api::time::{rfc3339, unix_nanos};
use outrank_api::types::{
    Namespace, Pod, PodCondition, PodDisruptionBudget, PodSpec, ResourceList,
};
use serde_json::{Value, json};

use crate::controllers::Controllers;
use crate::eviction::evict;
use crate::garbage_collection::{FOREGROUND, ORPHAN};
use crate::generated_names::{GENERATED_BASE_BYTES_MAX, fnv1a, shortened, suffix, uid_of};
use crate::pod_state::set_condition;
use crate::world::{self, Change, Key, Kind, Objects, Stored};
use crate::write::{
    Bind, Create, Delete, Event, Outcome, Patch, Propagation, Refusal, Subresource, Write, merge,
};

pub use admission::Admission;
use admission::Charges;

/// Nanoseconds of a second.
pub const SECOND: i64 = 1_000_000_000;

/// What becomes of pods when nobody else says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodLife {
    /// They stay pending.
    Pending,
    /// Kubelets say, as other clients: a pod that has its node goes when its kubelet deletes it
    /// without grace.
    OfKubelets,
    /// They run and are ready as soon as they are made, and go as soon as they are to.
    AtOnce,
    /// They run and are ready some seconds after they are made, and go some seconds after they
    /// are to, at the latest when their grace period ends.
    Takes {
        /// Seconds until a pod is ready.
        start_seconds: i64,
        /// Seconds until a pod has ended.
        stop_seconds: i64,
    },
}

/// Decides what the API server refuses.
pub type Refuse = Box<dyn FnMut(&Write) -> Option<Refusal> + Send>;

/// A cluster with its controllers.
pub struct VirtualCluster {
    controllers: Controllers,
    objects: Objects,
    now: i64,
    version: u64,
    /// How many names were generated from each base.
    generated: HashMap<String, u64>,
    /// Changes that the controllers do not know yet, and when they will.
    feed: VecDeque<(i64, Change)>,
    /// Changes that others have yet to take, if there are any who do.
    news: Option<Vec<Change>>,
    /// What pods will do, by time and order.
    pod_plans: BTreeMap<(i64, u64), (Key, PodStep)>,
    /// The template that was defaulted last, and what it became: pods go on sharing it.
    defaulted: Option<(Arc<PodSpec>, Arc<PodSpec>)>,
    /// What becomes of pods.
    pub pod_life: PodLife,
    /// How long the controllers' feed lags behind, in nanoseconds.
    pub lag: i64,
    /// What is refused.
    pub refuse: Option<Refuse>,
    /// What new objects pass before they are stored; `None` lets everything through.
    pub admission: Option<Admission>,
    /// Events so far, with their times.
    pub events: Vec<(i64, Event)>,
    /// Writes of controllers so far: time, controller, what.
    pub log: Vec<(i64, &'static str, Write)>,
    /// Whether `log` and `events` are kept.
    pub is_logging: bool,
}

#[derive(Clone, Copy, Debug)]
enum PodStep {
    Run,
    End,
}

impl VirtualCluster {
    /// A cluster without objects at a time, RFC 3339.
    pub fn new(controllers: Controllers, start: &str) -> Self {
        Self {
            controllers,
            objects: BTreeMap::new(),
            now: unix_nanos(start).unwrap_or_default(),
            version: 0,
            generated: HashMap::new(),
            feed: VecDeque::new(),
            news: None,
            pod_plans: BTreeMap::new(),
            defaulted: None,
            pod_life: PodLife::AtOnce,
            lag: 0,
            refuse: None,
            admission: None,
            events: Vec::new(),
            log: Vec::new(),
            is_logging: true,
        }
    }

    /// The time.
    pub fn now(&self) -> i64 {
        self.now
    }

    /// The controllers.
    pub fn controllers(&self) -> &Controllers {
        &self.controllers
    }

    /// Sets the clock to a later time. What is due until then happens when the cluster settles.
    pub fn set_time(&mut self, now: i64) {
        self.now = self.now.max(now);
    }

    /// The changes since the last call, for whoever is part of the cluster beside the
    /// controllers. The first call says that somebody is, and brings what is there.
    pub fn take_news(&mut self) -> Vec<Change> {
        let present = || self.objects.values().cloned().map(Change::Set).collect();
        match self.news.replace(Vec::new()) {
            Some(news) => news,
            None => present(),
        }
    }

    /// An object as it is stored.
    pub fn stored(&self, key: &Key) -> Option<&Arc<Stored>> {
        self.objects.get(key)
    }

    /// An object as JSON; `null` if it is not there.
    pub fn value(&self, key: &Key) -> Value {
        self.objects
            .get(key)
            .map_or(Value::Null, |it| it.to_value())
    }

    /// All objects, by kind, namespace and name.
    pub fn objects(&self) -> impl Iterator<Item = (&Key, &Arc<Stored>)> {
        self.objects.iter()
    }

    /// All objects of a type, by namespace and name.
    pub fn all<T: Typed>(&self) -> impl Iterator<Item = &T> {
        world::all(&self.objects)
    }

    /// The keys of the pods of a namespace, by name.
    pub fn pods(&self, namespace: &str) -> impl Iterator<Item = Key> {
        let first = Key::new(ObjectKind::Pod, namespace, "");
        let namespace = first.namespace.clone();
        let from_here = self.objects.range(first..);
        let keys = from_here.map(|(key, _)| key);
        keys.take_while(move |key| {
            key.kind == Kind::Known(ObjectKind::Pod) && key.namespace == namespace
        })
        .cloned()
    }

    /// Stores an object as it is, such as one of a dump: with its status, and its uid if it has
    /// one.
    pub fn load(&mut self, mut stored: Stored) {
        let key = stored.key();
        let now = rfc3339(self.now);
        stored.change_metadata(|metadata| {
            if metadata.uid.is_empty() {
                metadata.uid = uid_of(&[key.kind.name(), &key.namespace, &key.name]);
            }
            metadata.creation_timestamp.get_or_insert(now);
        });
        self.store(stored);
    }

    /// Makes an object as a person would; the namespace is `default` if none is given.
    ///
    /// # Panics
    ///
    /// If there is one of the name already.
    pub fn create(&mut self, value: Value) -> Key {
        self.create_stored(Stored::whole(value))
    }

    /// Makes an object of which no more is known than its types say, as [`Self::create`] does.
    ///
    /// # Panics
    ///
    /// If there is one of the name already.
    pub fn create_typed(&mut self, object: Object) -> Key {
        self.create_stored(Stored::typed(object))
    }

    fn create_stored(&mut self, mut stored: Stored) -> Key {
        let is_namespaced = !matches!(stored.kind(), Kind::Known(kind) if !kind.is_namespaced());
        if is_namespaced && stored.metadata().namespace.is_empty() {
            stored.change_metadata(|it| it.namespace = NAMESPACE.to_owned());
        }
        match self.make(stored) {
            Outcome::Stored(stored) => stored.key(),
            other => panic!("not made: {other:?}"),
        }
    }

    /// Makes an object as a person would, unless the API server refuses it.
    pub fn try_create(&mut self, stored: Stored) -> Outcome {
        self.make(stored)
    }

    /// Changes an object as a person would, unless the API server refuses it.
    pub fn try_patch(&mut self, patch: &Patch) -> Outcome {
        self.change(patch)
    }

    /// Changes an object as a person would.
    ///
    /// # Panics
    ///
    /// If it is not there.
    pub fn patch(&mut self, key: &Key, changes: Value) {
        let subresource = changes.get("status").map(|_| Subresource::Status);
        let patch = Patch {
            key: key.clone(),
            subresource,
            changes,
            uid: None,
            resource_version: None,
        };
        if let Outcome::Refused(refusal) = self.change(&patch) {
            panic!("{key} not changed: {}", refusal.message);
        }
    }

    /// Deletes an object as a person would.
    pub fn delete(&mut self, key: &Key) -> Outcome {
        self.remove(&Delete {
            key: key.clone(),
            uid: None,
            resource_version: None,
            grace_seconds: None,
            propagation: None,
        })
    }

    /// Evicts a pod as whoever drains its node does: only if its budgets allow it.
    pub fn evict(&mut self, key: &Key) -> Outcome {
        let Some(stored) = self.objects.get(key).cloned() else {
            return Outcome::Refused(not_found(key));
        };
        let Some(pod) = stored.get::<Pod>() else {
            return Outcome::Refused(not_found(key));
        };
        let kind = ObjectKind::PodDisruptionBudget.into();
        let budgets = world::within(&self.objects, kind, &key.namespace);
        let budgets: Vec<&PodDisruptionBudget> = budgets.filter_map(|it| it.get()).collect();
        let charge = match evict(pod, &budgets, self.now) {
            Ok(charge) => charge,
            Err(denial) => return Outcome::Refused(denial.refusal),
        };
        let charge = charge.map(|(index, status)| {
            let metadata = &budgets[index].metadata;
            (Key::of::<PodDisruptionBudget>(metadata), status)
        });
        if let Some((budget, status)) = charge
            && let Some(mut stored) = self.objects.get(&budget).map(|it| (**it).clone())
        {
            stored.change(|object| {
                if let Object::PodDisruptionBudget(budget) = object {
                    budget.status = status;
                }
            });
            self.store(stored);
        }
        self.mark_evicted(&stored);
        self.delete(key)
    }

    /// Says in the status of a pod that it is to go since it was evicted.
    fn mark_evicted(&mut self, stored: &Stored) {
        let now = self.now;
        let mut marked = stored.clone();
        marked.change(|object| {
            let Object::Pod(pod) = object else { return };
            let condition = PodCondition {
                type_: "DisruptionTarget".to_owned(),
                status: "True".to_owned(),
                reason: "EvictionByEvictionAPI".to_owned(),
                message: "Eviction API: evicting".to_owned(),
                ..Default::default()
            };
            set_condition(&mut pod.status.conditions, condition, now);
        });
        self.store(marked);
    }

    /// Sets the phase of a pod and whether it is ready, as a kubelet would.
    pub fn set_pod_status(&mut self, key: &Key, phase: &str, is_ready: bool) {
        let Some(mut stored) = self.objects.get(key).map(|it| (**it).clone()) else {
            return;
        };
        let now = rfc3339(self.now);
        stored.change(|object| {
            let Object::Pod(pod) = object else { return };
            pod.status.phase = phase.to_owned();
            let status = if is_ready { "True" } else { "False" };
            let old = pod.status.conditions.iter().find(|it| it.type_ == "Ready");
            let since = old.filter(|it| it.status == status);
            let since = since.and_then(|it| it.last_transition_time.clone());
            pod.status.conditions.retain(|it| it.type_ != "Ready");
            pod.status.conditions.push(PodCondition {
                type_: "Ready".to_owned(),
                status: status.to_owned(),
                last_transition_time: Some(since.unwrap_or_else(|| now.clone())),
                ..Default::default()
            });
            if phase == "Running" {
                pod.status.start_time.get_or_insert(now);
            }
        });
        self.store(stored);
        if matches!(phase, "Succeeded" | "Failed") {
            self.finish_if_going(key);
        }
    }

    /// Lets a pod end: removes it if it is being deleted.
    pub fn end_pod(&mut self, key: &Key) {
        let stored = self.objects.get(key);
        if stored.is_some_and(|it| it.metadata().deletion_timestamp.is_some()) {
            self.set_pod_status(key, "Failed", false);
            self.finish_if_going(key);
        }
    }

    /// Lets the controllers work until nothing moves at this time.
    pub fn settle(&mut self) {
        loop {
            self.deliver();
            let Some(work) = self.controllers.next(self.now) else {
                if self.step_pods() {
                    continue;
                }
                return;
            };
            let mut outcomes = Vec::with_capacity(work.writes.len());
            for write in work.writes.iter() {
                outcomes.push(self.carry_out(work.controller, write));
            }
            self.controllers.done(work, outcomes, self.now);
        }
    }

    /// Lets time pass until a time, with everything that happens on the way.
    pub fn run_until(&mut self, time: i64) {
        loop {
            self.settle();
            match self.next_time() {
                Some(next) if next <= time => self.now = self.now.max(next),
                _ => break,
            }
        }
        self.now = self.now.max(time);
        self.settle();
    }

    /// Lets seconds pass.
    pub fn run_seconds(&mut self, seconds: i64) {
        self.run_until(after(self.now, seconds));
    }

    /// When something happens next by itself, if anything does.
    pub fn next_time(&self) -> Option<i64> {
        let fed = self.feed.front().map(|(time, _)| *time);
        let pods = self.pod_plans.keys().next().map(|(time, _)| *time);
        let times = [self.controllers.next_time(), fed, pods];
        times.into_iter().flatten().min()
    }

    /// Carries out a write of a controller.
    pub fn carry_out(&mut self, controller: &'static str, write: &Write) -> Outcome {
        if self.is_logging {
            self.log.push((self.now, controller, write.clone()));
        }
        if let Some(refusal) = self.refuse.as_mut().and_then(|refuse| refuse(write)) {
            return Outcome::Refused(refusal);
        }
        match write {
            Write::Create(create) => self.make_of(create),
            Write::Patch(patch) => self.change(patch),
            Write::Delete(delete) => self.remove(delete),
            Write::Bind(bind) => self.bind(bind),
            Write::Event(event) => {
                if self.is_logging {
                    self.events.push((self.now, event.clone()));
                }
                Outcome::Done
            }
        }
    }

    fn deliver(&mut self) {
        while let Some((time, _)) = self.feed.front()
            && *time <= self.now
            && let Some((_, change)) = self.feed.pop_front()
        {
            self.controllers.handle(change, self.now);
        }
    }

    /// Does what pods do by now. False if none does anything.
    fn step_pods(&mut self) -> bool {
        let mut has_moved = false;
        while let Some(entry) = self.pod_plans.first_entry()
            && entry.key().0 <= self.now
        {
            let (key, step) = entry.remove();
            has_moved = true;
            match step {
                PodStep::Run => self.run_pod(&key),
                PodStep::End => self.end_pod(&key),
            }
        }
        has_moved
    }

    fn run_pod(&mut self, key: &Key) {
        let pod = self.objects.get(key).and_then(|it| it.get::<Pod>());
        let waits =
            |pod: &Pod| pod.status.phase == "Pending" && pod.metadata.deletion_timestamp.is_none();
        if pod.is_some_and(waits) {
            self.set_pod_status(key, "Running", true);
        }
    }

    fn plan_pod(&mut self, key: &Key, seconds: i64, step: PodStep) {
        let time = after(self.now, seconds);
        self.version += 1;
        self.pod_plans
            .insert((time, self.version), (key.clone(), step));
    }

    fn make_of(&mut self, create: &Create) -> Outcome {
        let mut stored = Stored::typed(create.object.clone());
        if create.written.is_some() {
            stored.set_raw(create.to_value());
        }
        self.make(stored)
    }

    fn make(&mut self, mut stored: Stored) -> Outcome {
        let metadata = stored.metadata();
        if metadata.name.is_empty() && !metadata.generate_name.is_empty() {
            let name = self.generated_name(&stored.key(), &metadata.generate_name.clone());
            stored.change_metadata(|metadata| metadata.name = name);
        }
        let key = stored.key();
        if self.objects.contains_key(&key) {
            return Outcome::Refused(already_exists(&key));
        }
        if self.is_ending(&key.namespace) {
            return Outcome::Refused(namespace_ends(&key));
        }
        let number = (self.version + 1).to_string();
        let now = rfc3339(self.now);
        stored.change_metadata(|metadata| {
            metadata.uid = uid_of(&[key.kind.name(), &key.namespace, &key.name, &number]);
            metadata.creation_timestamp = Some(now);
            metadata.generation = 1;
            metadata.deletion_timestamp = None;
        });
        stored.change(|object| {
            if let Object::Job(job) = object {
                select_pods_of_job(job);
            }
        });
        self.default(&mut stored);
        match self.admit(&mut stored) {
            Ok(charges) => charges
                .into_iter()
                .for_each(|(key, used)| self.charge(&key, used)),
            Err(refusal) => return Outcome::Refused(refusal),
        }
        let stored = self.store(stored);
        if key.kind == Kind::Known(ObjectKind::Pod) {
            self.begin_pod(&key);
        }
        Outcome::Stored(self.objects.get(&key).cloned().unwrap_or(stored))
    }

    fn admit(&mut self, stored: &mut Stored) -> Result<Charges, Refusal> {
        let now = self.now;
        let admission = self.admission.as_mut();
        admission.map_or_else(
            || Ok(Charges::new()),
            |it| it.create(stored, &self.objects, now),
        )
    }

    /// Writes what is used of a quota.
    fn charge(&mut self, key: &Key, used: ResourceList) {
        let Some(mut quota) = self.objects.get(key).map(|it| (**it).clone()) else {
            return;
        };
        quota.change(|object| {
            if let Object::ResourceQuota(quota) = object {
                quota.status.used = used;
            }
        });
        self.store(quota);
    }

    fn begin_pod(&mut self, key: &Key) {
        match self.pod_life {
            PodLife::Pending | PodLife::OfKubelets => {}
            PodLife::AtOnce => self.run_pod(key),
            PodLife::Takes { start_seconds, .. } => {
                self.plan_pod(key, start_seconds, PodStep::Run);
            }
        }
    }

    /// A name that is free, for an object of the kind and namespace of `key`.
    fn generated_name(&mut self, key: &Key, base: &str) -> String {
        let base = shortened(base, GENERATED_BASE_BYTES_MAX);
        let seed = fnv1a(&[key.namespace.as_bytes(), base.as_bytes()]);
        let count = self.generated.entry(format!("{}/{base}", key.namespace));
        let count = count.or_default();
        loop {
            let name = format!("{base}{}", suffix(seed, *count));
            *count += 1;
            let key = Key::new(key.kind.clone(), &key.namespace, &name);
            if !self.objects.contains_key(&key) {
                return name;
            }
        }
    }

    /// Fills in what the API server does; pods of one template go on sharing their spec.
    fn default(&mut self, stored: &mut Stored) {
        let template = stored.get::<Pod>().map(|pod| pod.spec.clone());
        let shared = self.defaulted.as_ref();
        let shared =
            shared.filter(|it| template.as_ref().is_some_and(|own| Arc::ptr_eq(own, &it.0)));
        if let (Some((_, spec)), Some(Object::Pod(pod))) = (shared, stored.object_mut()) {
            pod.spec = spec.clone();
            pod.status.phase = "Pending".to_owned();
            return;
        }
        stored.object_mut().into_iter().for_each(default_object);
        stored.change(|object| {
            if let Object::Namespace(namespace) = object {
                namespace.spec.finalizers = vec!["kubernetes".to_owned()];
                namespace.status.phase = "Active".to_owned();
            }
        });
        if let (Some(template), Some(pod)) = (template, stored.get::<Pod>()) {
            self.defaulted = Some((template, pod.spec.clone()));
        }
    }

    fn change(&mut self, patch: &Patch) -> Outcome {
        let Some(known) = self.objects.get(&patch.key).cloned() else {
            return Outcome::Refused(not_found(&patch.key));
        };
        if let Some(refusal) = broken_condition(&known, &patch.uid, &patch.resource_version) {
            return Outcome::Refused(refusal);
        }
        let mut value = known.to_value();
        let before = value.clone();
        match patch.subresource {
            Some(Subresource::Scale) => {
                let replicas = patch.changes.pointer("/spec/replicas");
                let replicas = replicas.cloned().unwrap_or_default();
                merge(&mut value, &json!({"spec": {"replicas": replicas}}));
            }
            Some(Subresource::Finalize) => {
                let finalizers = patch.changes.pointer("/spec/finalizers");
                let finalizers = finalizers.cloned().unwrap_or_default();
                merge(&mut value, &json!({"spec": {"finalizers": finalizers}}));
            }
            Some(Subresource::Status) => {
                if let Some(status) = patch.changes.get("status") {
                    merge(&mut value, &json!({ "status": status }));
                }
                if let Some(annotations) = patch.changes.pointer("/metadata/annotations") {
                    merge(
                        &mut value,
                        &json!({"metadata": {"annotations": annotations}}),
                    );
                }
            }
            None => merge(&mut value, &patch.changes),
        }
        if value == before {
            return Outcome::Stored(known);
        }
        if value.get("spec") != before.get("spec") {
            value["metadata"]["generation"] = known.metadata().generation.saturating_add(1).into();
        }
        let mut stored = Stored::whole(value);
        stored.object_mut().into_iter().for_each(default_object);
        stored.share_specs_with(&known);
        if known.raw().is_none() {
            stored.forget_raw_of(&known);
        }
        let was_held = is_held(&known);
        let is_going = stored.metadata().deletion_timestamp.is_some();
        let is_over = is_going && was_held && !is_held(&stored);
        let stored = self.store(stored);
        if is_over && !self.is_running(&patch.key) {
            self.drop_object(&patch.key);
        }
        Outcome::Stored(stored)
    }

    /// Binds a pod that has no node yet and is to stay.
    fn bind(&mut self, bind: &Bind) -> Outcome {
        let Some(known) = self.objects.get(&bind.key).cloned() else {
            return Outcome::Refused(not_found(&bind.key));
        };
        if let Some(refusal) = broken_condition(&known, &Some(bind.uid.clone()), &None) {
            return Outcome::Refused(refusal);
        }
        let Some(pod) = known.get::<Pod>() else {
            return Outcome::Refused(not_found(&bind.key));
        };
        let name = &pod.metadata.name;
        let obstacle = match (
            pod.metadata.deletion_timestamp.is_some(),
            &*pod.spec.node_name,
        ) {
            (true, _) => Some(format!(
                "pod {name} is being deleted, cannot be assigned to a host"
            )),
            (false, "") => None,
            (false, node) => Some(format!("pod {name} is already assigned to node {node:?}")),
        };
        if let Some(why) = obstacle {
            return Outcome::Refused(Refusal {
                message: format!("Operation cannot be fulfilled on pods/binding \"{name}\": {why}"),
                ..conflict(&bind.key, "")
            });
        }
        let now = rfc3339(self.now);
        let mut bound = (*known).clone();
        bound.change(|object| {
            let Object::Pod(pod) = object else { return };
            Arc::make_mut(&mut pod.spec).node_name = bind.node.clone();
            pod.status.nominated_node_name.clear();
            pod.status
                .conditions
                .retain(|it| it.type_ != "PodScheduled");
            pod.status.conditions.push(PodCondition {
                type_: "PodScheduled".to_owned(),
                status: "True".to_owned(),
                last_transition_time: Some(now),
                ..Default::default()
            });
        });
        Outcome::Stored(self.store(bound))
    }

    fn remove(&mut self, delete: &Delete) -> Outcome {
        let key = &delete.key;
        let Some(known) = self.objects.get(key).cloned() else {
            return Outcome::Refused(not_found(key));
        };
        if let Some(refusal) = broken_condition(&known, &delete.uid, &delete.resource_version) {
            return Outcome::Refused(refusal);
        }
        let is_running = self.is_running(key);
        let grace = match is_running {
            true => self.grace_seconds(&known, delete.grace_seconds),
            false => 0,
        };
        let is_first = known.metadata().deletion_timestamp.is_none();
        let mut going = (*known).clone();
        let finalizers = finalizers_on_deletion(&known.metadata().finalizers, delete.propagation);
        going.change_metadata(|metadata| metadata.finalizers = finalizers);
        if grace == 0 && !is_held(&going) {
            self.drop_object(key);
            return Outcome::Done;
        }
        if !is_first {
            return match going == *known {
                true => Outcome::Stored(known),
                false => Outcome::Stored(self.store(going)),
            };
        }
        let end = rfc3339(after(self.now, grace));
        going.change_metadata(|metadata| {
            metadata.deletion_timestamp = Some(end);
            metadata.deletion_grace_period_seconds = Some(grace);
        });
        going.change(|object| {
            if let Object::Namespace(namespace) = object {
                namespace.status.phase = "Terminating".to_owned();
            }
        });
        let stored = self.store(going);
        let seconds = match self.pod_life {
            PodLife::OfKubelets => None,
            PodLife::Takes { stop_seconds, .. } => Some(stop_seconds.min(grace)),
            PodLife::AtOnce | PodLife::Pending => Some(grace),
        };
        if let Some(seconds) = seconds.filter(|_| is_running) {
            self.plan_pod(key, seconds, PodStep::End);
        }
        Outcome::Stored(stored)
    }

    /// Whether an object is a pod that takes time to end.
    fn is_running(&self, key: &Key) -> bool {
        let pod = self.objects.get(key).and_then(|it| it.get::<Pod>());
        pod.is_some_and(|pod| match self.pod_life {
            PodLife::OfKubelets => !pod.spec.node_name.is_empty() && !pod.is_finished(),
            _ => pod.status.phase == "Running",
        })
    }

    fn grace_seconds(&self, stored: &Stored, asked: Option<i64>) -> i64 {
        if self.pod_life == PodLife::AtOnce {
            return 0;
        }
        let pod = stored.get::<Pod>();
        let own = pod.and_then(|pod| pod.spec.termination_grace_period_seconds);
        match asked.or(own).unwrap_or(0) {
            // So the API server takes it.
            ..0 => 1,
            seconds => seconds,
        }
    }

    /// Whether a namespace is being deleted.
    fn is_ending(&self, namespace: &str) -> bool {
        let key = Key::new(ObjectKind::Namespace, "", namespace);
        let namespace = self.objects.get(&key);
        namespace.is_some_and(|it| it.metadata().deletion_timestamp.is_some())
    }

    /// Removes an object that is being deleted and that nothing holds any more.
    fn finish_if_going(&mut self, key: &Key) {
        let Some(stored) = self.objects.get(key) else {
            return;
        };
        if stored.metadata().deletion_timestamp.is_some() && !is_held(stored) {
            self.drop_object(key);
        }
    }

    fn store(&mut self, mut stored: Stored) -> Arc<Stored> {
        self.version += 1;
        let version = self.version.to_string();
        stored.change_metadata(|metadata| metadata.resource_version = version);
        let stored = Arc::new(stored);
        self.objects.insert(stored.key(), stored.clone());
        self.tell(Change::Set(stored.clone()));
        stored
    }

    fn drop_object(&mut self, key: &Key) {
        if self.objects.remove(key).is_some() {
            self.version += 1;
            let (key, version) = (key.clone(), self.version);
            self.tell(Change::Gone { key, version });
        }
    }

    fn tell(&mut self, change: Change) {
        if let Some(admission) = &mut self.admission {
            match &change {
                Change::Set(stored) => admission.note(&stored.key()),
                Change::Gone { key, .. } => admission.note(key),
            }
        }
        if let Some(news) = &mut self.news {
            news.push(change.clone());
        }
        self.feed
            .push_back((self.now.saturating_add(self.lag), change));
    }
}

/// Whether finalizers keep an object that is being deleted.
fn is_held(stored: &Stored) -> bool {
    let namespace = stored.get::<Namespace>();
    let holds_itself = namespace.is_some_and(|it| !it.spec.finalizers.is_empty());
    holds_itself || !stored.metadata().finalizers.is_empty()
}

/// The finalizers of an object that is deleted so. If nobody says how, it says so itself.
fn finalizers_on_deletion(known: &[String], propagation: Option<Propagation>) -> Vec<String> {
    let Some(propagation) = propagation else {
        return known.to_vec();
    };
    let of_others = known.iter().filter(|it| *it != FOREGROUND && *it != ORPHAN);
    let added = match propagation {
        Propagation::Background => None,
        Propagation::Foreground => Some(FOREGROUND.to_owned()),
        Propagation::Orphan => Some(ORPHAN.to_owned()),
    };
    of_others.cloned().chain(added).collect()
}

fn namespace_ends(key: &Key) -> Refusal {
    let (resource, name, namespace) = (key.kind.group_resource(), &key.name, &key.namespace);
    Refusal {
        code: 403,
        reason: "Forbidden".to_owned(),
        message: format!(
            "{resource} \"{name}\" is forbidden: unable to create new content in namespace \
             {namespace} because it is being terminated"
        ),
        causes: vec![StatusCause {
            reason: "NamespaceTerminating".to_owned(),
            ..StatusCause::default()
        }],
    }
}

/// A time some seconds after another; the end of time if that is too far.
fn after(now: i64, seconds: i64) -> i64 {
    now.saturating_add(seconds.saturating_mul(SECOND))
}

fn broken_condition(
    known: &Stored,
    uid: &Option<String>,
    resource_version: &Option<String>,
) -> Option<Refusal> {
    let metadata = known.metadata();
    let is_other = uid.as_ref().is_some_and(|it| *it != metadata.uid);
    let version = &metadata.resource_version;
    let is_older = resource_version.as_ref().is_some_and(|it| it != version);
    (is_other || is_older).then(|| conflict(&known.key(), "the object has been modified"))
}

fn conflict(key: &Key, what: &str) -> Refusal {
    Refusal {
        code: 409,
        reason: "Conflict".to_owned(),
        message: format!(
            "Operation cannot be fulfilled on {} \"{}\": {what}",
            key.kind.group_resource(),
            key.name
        ),
        causes: Vec::new(),
    }
}

fn not_found(key: &Key) -> Refusal {
    Refusal {
        code: 404,
        reason: "NotFound".to_owned(),
        message: format!("{} \"{}\" not found", key.kind.group_resource(), key.name),
        causes: Vec::new(),
    }
}

fn already_exists(key: &Key) -> Refusal {
    Refusal {
        code: 409,
        reason: "AlreadyExists".to_owned(),
        message: format!(
            "{} \"{}\" already exists",
            key.kind.group_resource(),
            key.name
        ),
        causes: Vec::new(),
    }
}
