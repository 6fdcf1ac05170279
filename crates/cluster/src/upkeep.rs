//! What else a cluster keeps up: where services lead, what every namespace has, volumes for claims,
//! and that old events go.
//!
//! These controllers make objects that no decision reads, or take no time; they look at what is
//! there and write what is missing, after a short pause in which more may change.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use outrank_admission::default_storage_class::default_class;
use outrank_api::decode::{Object, ObjectKind};
use outrank_api::types::{Node, PersistentVolumeClaim};
use outrank_apiserver::custom_types::CLEANUP;
use outrank_apiserver::served_types::ServedType;
use outrank_apiserver::server::delete::DeleteOptions;
use outrank_apiserver::server::read::ListOptions;
use outrank_apiserver::server::{ApiServer, Changed, Target};
use outrank_controllers::volumes::{ClaimName, Unbound, bind_waiting};
use outrank_controllers::{Change, Key, Kind, Stored, Write};
use outrank_store::{ListQuery, Range};
use serde_json::{Value, json};

use crate::client::Client;
use crate::endpoints::{self, MANAGED_BY, SERVICE_NAME};
use crate::{bootstrap, claims};

/// How long changes are gathered.
const PAUSE: Duration = Duration::from_millis(20);

/// How long events are kept, in nanoseconds. Source: `--event-ttl` of kube-apiserver.
const EVENTS_KEPT: i64 = 3_600_000_000_000;

/// How often old events are looked for when nothing else happens.
const LOOK_FOR_EVENTS: Duration = Duration::from_secs(30);

const SLICE: (&str, &str) = ("discovery.k8s.io/v1", "EndpointSlice");
const ENDPOINTS: (&str, &str) = ("v1", "Endpoints");
const DEFINITION: (&str, &str) = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");

/// How often something that cannot be done yet is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Runs until there is no more news.
/// `has_controllers` says whether to do what is the business of controllers, too, beside that of the
/// API server.
pub(crate) fn run(
    client: Client,
    certificate_authority: String,
    has_controllers: bool,
    changes: Receiver<Change>,
) -> std::io::Result<JoinHandle<()>> {
    let mut upkeep = Upkeep {
        old_events: OldEvents::of(client.server()),
        client,
        certificate_authority,
        objects: BTreeMap::new(),
        services: BTreeSet::new(),
        namespaces: BTreeSet::new(),
        going_definitions: BTreeSet::new(),
        has_controllers,
        has_storage_news: false,
        told_unbound: BTreeMap::new(),
    };
    let run = move || {
        loop {
            let patience = match upkeep.going_definitions.is_empty() {
                true => LOOK_FOR_EVENTS,
                false => RETRY,
            };
            match changes.recv_timeout(patience) {
                Ok(change) => {
                    upkeep.handle(change);
                    std::thread::sleep(PAUSE);
                    changes.try_iter().for_each(|change| upkeep.handle(change));
                    upkeep.work();
                }
                Err(RecvTimeoutError::Timeout) => upkeep.work(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            upkeep.old_events.drop_old(&upkeep.client);
        }
    };
    std::thread::Builder::new()
        .name("upkeep".to_owned())
        .spawn(run)
}

struct Upkeep {
    client: Client,
    old_events: OldEvents,
    certificate_authority: String,
    /// Objects of the kinds that matter here.
    objects: BTreeMap<Key, Arc<Stored>>,
    /// Services to look at.
    services: BTreeSet<Key>,
    /// Namespaces to look at.
    namespaces: BTreeSet<String>,
    /// Definitions that are being deleted, and whose objects go first.
    going_definitions: BTreeSet<Key>,
    has_controllers: bool,
    has_storage_news: bool,
    /// Why claims are not bound, as far as it was told.
    told_unbound: BTreeMap<ClaimName, Unbound>,
}

impl Upkeep {
    fn handle(&mut self, change: Change) {
        let (key, new) = match change {
            Change::Set(stored) => (stored.key(), Some(stored)),
            Change::Gone { key, .. } => (key, None),
        };
        let matters = match &key.kind {
            Kind::Known(kind) => {
                kind.is_storage()
                    || matches!(
                        kind,
                        ObjectKind::Pod
                            | ObjectKind::Service
                            | ObjectKind::Node
                            | ObjectKind::Namespace
                    )
            }
            other => [SLICE, ENDPOINTS, DEFINITION].contains(&(other.api_version(), other.name())),
        };
        if !matters {
            let made_here = ["ServiceAccount", "ConfigMap"].contains(&key.kind.name());
            if made_here && new.is_none() {
                self.namespaces.insert(key.namespace.to_string());
            }
            return;
        }
        self.note(&key, new.as_deref());
        match new {
            Some(stored) => self.objects.insert(key, stored),
            None => self.objects.remove(&key),
        };
    }

    /// Notes what there is to look at since an object has changed.
    fn note(&mut self, key: &Key, new: Option<&Stored>) {
        match &key.kind {
            Kind::Known(ObjectKind::Service) => _ = self.services.insert(key.clone()),
            Kind::Known(ObjectKind::Pod) => {
                let services = self.within(ObjectKind::Service.into(), &key.namespace);
                let keys: Vec<Key> = services.map(|it| it.key()).collect();
                self.services.extend(keys);
            }
            Kind::Known(ObjectKind::Namespace) if new.is_some() => {
                self.namespaces.insert(key.name.to_string());
            }
            Kind::Known(kind) => self.has_storage_news |= kind.is_storage(),
            Kind::Other(_) if key.kind.name() == DEFINITION.1 => {
                match new.is_some_and(|it| it.metadata().deletion_timestamp.is_some()) {
                    true => self.going_definitions.insert(key.clone()),
                    false => self.going_definitions.remove(key),
                };
            }
            Kind::Other(_) => {}
        }
    }

    fn work(&mut self) {
        let own = Key::new(ObjectKind::Service, "default", "kubernetes");
        if self.services.contains(&own) && !self.objects.contains_key(&own) {
            // The server's own service is made again whoever deletes it.
            let _ = self.client.make(bootstrap::service());
        }
        for definition in self.going_definitions.clone() {
            self.clean_up(&definition);
        }
        if !self.has_controllers {
            self.services.clear();
            self.namespaces.clear();
            return;
        }
        for namespace in std::mem::take(&mut self.namespaces) {
            self.fill_namespace(&namespace);
        }
        for service in std::mem::take(&mut self.services) {
            self.lead(&service);
        }
        if std::mem::take(&mut self.has_storage_news) {
            self.bind_volumes();
        }
    }

    /// Deletes the objects of a definition that is to go, and lets it go when there are none left.
    fn clean_up(&self, key: &Key) {
        let server = self.client.server();
        let types = server.types();
        let is_own = |served: &&ServedType| {
            let definition = served.definition.as_ref();
            definition.is_some_and(|it| it["metadata"]["name"] == *key.name)
        };
        let mut has_objects = false;
        if let Some(served) = types.iter().find(is_own) {
            let target = Target {
                served: served.clone(),
                namespace: String::new(),
                name: String::new(),
                subresource: String::new(),
            };
            let (all, options) = (ListOptions::default(), DeleteOptions::default());
            let _ = server.delete_collection(&target, &all, &options);
            let left = server.list(&target, &all);
            has_objects = left.is_ok_and(|it| !it.entries.is_empty());
        }
        let definition = self.objects.get(key).filter(|_| !has_objects);
        if let Some(definition) = definition {
            let finalizers = definition.metadata().finalizers.iter();
            let others: Vec<&String> = finalizers.filter(|it| *it != CLEANUP).collect();
            let mut changed = definition.to_value();
            changed["metadata"]["finalizers"] = json!(others);
            let _ = self.client.put(changed);
        }
    }

    /// Every namespace has an account for its pods, and the certificate by which they know the
    /// server.
    fn fill_namespace(&self, namespace: &str) {
        let key = Key::new(ObjectKind::Namespace, "", namespace);
        let is_going = |it: &Arc<Stored>| it.metadata().deletion_timestamp.is_some();
        if self.objects.get(&key).is_none_or(is_going) {
            return;
        }
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": namespace}});
        let certificate = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "kube-root-ca.crt", "namespace": namespace, "annotations": {
                "kubernetes.io/description": "Contains a CA bundle that can be used to verify the \
                    kube-apiserver when using internal endpoints such as the internal service IP \
                    or kubernetes.default.svc. No other usage is guaranteed across distributions \
                    of Kubernetes clusters."}},
            "data": {"ca.crt": self.certificate_authority}});
        for object in [account, certificate] {
            // A namespace may have begun to go meanwhile.
            let _ = self.client.make(object);
        }
    }

    /// Writes where a service leads.
    fn lead(&self, key: &Key) {
        let Some(service) = self.objects.get(key) else {
            return;
        };
        let value = service.to_value();
        let pods: Vec<&Stored> = self
            .within(ObjectKind::Pod.into(), &key.namespace)
            .map(|it| &**it)
            .collect();
        let Some(wanted) = endpoints::of_service(&value, &pods) else {
            return;
        };
        let owner = json!([{"apiVersion": "v1", "kind": "Service", "name": &*key.name,
            "uid": service.metadata().uid, "controller": true, "blockOwnerDeletion": true}]);
        let mut labels = value["metadata"]["labels"].clone();
        if !labels.is_object() {
            labels = json!({});
        }
        labels[SERVICE_NAME] = (&*key.name).into();
        labels["endpointslice.kubernetes.io/managed-by"] = MANAGED_BY.into();
        let known: Vec<&Arc<Stored>> = self
            .within(Kind::of(SLICE.0, SLICE.1), &key.namespace)
            .filter(|it| {
                it.metadata()
                    .labels
                    .get(SERVICE_NAME)
                    .is_some_and(|it| **it == *key.name)
            })
            .collect();
        for (index, mut slice) in wanted.slices.into_iter().enumerate() {
            slice["apiVersion"] = SLICE.0.into();
            slice["kind"] = SLICE.1.into();
            slice["metadata"] = json!({"namespace": &*key.namespace, "labels": labels,
                "ownerReferences": owner, "generateName": format!("{}-", key.name)});
            match known.get(index) {
                Some(old) if is_same(&old.to_value(), &slice) => {}
                Some(old) => {
                    slice["metadata"]["name"] = old.metadata().name.as_str().into();
                    let _ = self.client.put(slice);
                }
                None => _ = self.client.make(slice),
            }
        }
        self.put_endpoints(key, &value, wanted.subsets);
    }

    fn put_endpoints(&self, key: &Key, service: &Value, subsets: Value) {
        let old = self.objects.get(&Key::new(
            Kind::of(ENDPOINTS.0, ENDPOINTS.1),
            &key.namespace,
            &key.name,
        ));
        let old = old.map(|it| it.to_value());
        if old.is_some_and(|it| it["subsets"] == subsets) {
            return;
        }
        let mut labels = service["metadata"]["labels"].clone();
        if !labels.is_object() {
            labels = json!({});
        }
        labels["endpoints.kubernetes.io/managed-by"] = "endpoint-controller".into();
        let _ = self
            .client
            .put(json!({"apiVersion": "v1", "kind": "Endpoints",
            "metadata": {"name": &*key.name, "namespace": &*key.namespace, "labels": labels},
            "subsets": subsets}));
    }

    /// Binds claims to volumes, and has volumes made for them.
    fn bind_volumes(&mut self) {
        self.give_default_class();
        let all = || self.objects.values().filter_map(|it| it.object());
        let nodes: Vec<Node> = all().filter_map(Object::get::<Node>).cloned().collect();
        let storage: Vec<Object> = all().filter(|it| it.kind().is_storage()).cloned().collect();
        let (changed, unbound) = bind_waiting(&nodes, &storage);
        let mut volumes = BTreeMap::new();
        for object in changed {
            let metadata = object.metadata();
            let key = Key::new(object.kind(), &metadata.namespace, &metadata.name);
            let mut value = object.to_value();
            match &object {
                Object::PersistentVolume(volume) => {
                    if !self.objects.contains_key(&key) {
                        let class = self.class(&volume.spec.storage_class_name);
                        claims::complete_made(&mut value, class.as_ref());
                    }
                    claims::complete_volume(&mut value);
                    volumes.insert(volume.metadata.name.clone(), value["spec"].clone());
                }
                Object::PersistentVolumeClaim(claim) => {
                    claims::complete_claim(&mut value, volumes.get(&claim.spec.volume_name));
                }
                _ => {}
            }
            self.put_with_status(&key, value);
        }
        self.tell_unbound(&unbound);
    }

    /// Writes an object and its status.
    fn put_with_status(&self, key: &Key, mut value: Value) {
        if let Value::Object(metadata) = &mut value["metadata"] {
            metadata.remove("resourceVersion");
        }
        let status = json!({"status": value["status"]});
        let _ = self.client.put(value);
        let _ = self.client.put_status(key, &status);
    }

    fn class(&self, name: &str) -> Option<Value> {
        let key = Key::new(ObjectKind::StorageClass, "", name);
        self.objects.get(&key).map(|it| it.to_value())
    }

    /// Claims that name no class get the default one, once there is one.
    fn give_default_class(&self) {
        let classes = self.within(ObjectKind::StorageClass.into(), "");
        let Some(class) = default_class(classes.filter_map(|it| it.get())) else {
            return;
        };
        let class = &class.metadata.name;
        for (key, stored) in &self.objects {
            let claim = stored.get::<PersistentVolumeClaim>();
            if claim.is_some_and(claims::wants_default_class) {
                let _ = self.client.put(json!({
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                    "metadata": {"name": &*key.name, "namespace": &*key.namespace},
                    "spec": {"storageClassName": class},
                }));
            }
        }
    }

    /// Tells once of each claim why it is not bound.
    fn tell_unbound(&mut self, unbound: &BTreeMap<ClaimName, Unbound>) {
        self.told_unbound
            .retain(|claim, _| unbound.contains_key(claim));
        for (claim, why) in unbound {
            if self.told_unbound.get(claim) == Some(why) {
                continue;
            }
            let key = Key::new(ObjectKind::PersistentVolumeClaim, &claim.0, &claim.1);
            let Some(stored) = self.objects.get(&key) else {
                continue;
            };
            if let Some(event) = claims::event_of(stored, *why) {
                let write = Write::Event(event);
                self.client.carry_out("persistentvolume-controller", &write);
            }
            self.told_unbound.insert(claim.clone(), *why);
        }
    }

    fn within<'u>(
        &'u self,
        kind: Kind,
        namespace: &'u str,
    ) -> impl Iterator<Item = &'u Arc<Stored>> {
        let first = Key::new(kind.clone(), namespace, "");
        let from_here = self.objects.range(first..);
        let own =
            from_here.take_while(move |(key, _)| key.kind == kind && &*key.namespace == namespace);
        own.map(|(_, stored)| stored)
    }
}

/// Events by when they were last written. They are of use for an hour.
struct OldEvents(Arc<Mutex<VecDeque<(i64, outrank_store::Key, u64)>>>);

impl OldEvents {
    /// The events of a server, from now on; those that are there already count as new.
    fn of(server: &ApiServer) -> Self {
        let queue = Arc::new(Mutex::new(VecDeque::new()));
        let (clock, shared) = (server.clock().clone(), queue.clone());
        server.observe(Box::new(move |entry, changed| {
            if &*entry.key.resource == "events" && changed == Changed::Set {
                let written = (clock.now(), entry.key.clone(), entry.version);
                shared
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push_back(written);
            }
        }));
        let known = server
            .store()
            .list(&Range::Resource("events".into()), ListQuery::default());
        let now = server.clock().now();
        if let Ok(known) = known {
            let known = known.entries.into_iter();
            let known = known.map(|entry| (now, entry.key, entry.version));
            queue
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend(known);
        }
        Self(queue)
    }

    fn drop_old(&self, client: &Client) {
        let server = client.server();
        let oldest = server.clock().now().saturating_sub(EVENTS_KEPT);
        loop {
            let (key, version) = {
                let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                match queue.front() {
                    Some((written, ..)) if *written < oldest => {}
                    _ => return,
                }
                let Some((_, key, version)) = queue.pop_front() else {
                    return;
                };
                (key, version)
            };
            // One that was written again has a later place in the queue.
            if server
                .store()
                .get(&key)
                .is_some_and(|it| it.version == version)
            {
                let kind = Kind::of("v1", "Event");
                let _ = client.remove(&Key::new(kind, &key.namespace, &key.name));
            }
        }
    }
}

/// Whether a slice says what it is to say.
fn is_same(old: &Value, new: &Value) -> bool {
    let parts = ["/addressType", "/endpoints", "/ports", "/metadata/labels"];
    let empty = |value: Option<&Value>| match value {
        Some(Value::Array(elements)) if elements.is_empty() => Value::Null,
        Some(value) => value.clone(),
        None => Value::Null,
    };
    parts
        .iter()
        .all(|it| empty(old.pointer(it)) == empty(new.pointer(it)))
}
