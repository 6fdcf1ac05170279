//! Stories of controllers that read like a log.
//!
//! A [`Story`] is a small cluster. Things are done to it and time passes; then
//! [`Story::happened`] says what controllers wrote since last asked, a line each:
//!
//! ```text
//!   0s creates Pod web-*
//!   0s ReplicaSet web: SuccessfulCreate: Created pod: web-*
//! ```
//!
//! A name that was generated ends with `*` where the API server drew lots; the hash that ends the
//! name of a Deployment's ReplicaSet is told as its revision. Changes of status are
//! not told unless asked for ([`Story::status`]).

use outrank_api::decode::ObjectKind;
use outrank_api::document::{Document, DuplicateKey, Receiver, read};
use outrank_api::time::rfc3339;
use outrank_api::types::Pod;
use outrank_controllers::virtual_cluster::{PodLife, SECOND, VirtualCluster};
use outrank_controllers::write::{Delete, Propagation, Subresource};
use outrank_controllers::{Controllers, Key, Kind, Refusal, Write};
use serde_json::{Value, json};

pub(crate) const START: &str = "2026-01-01T00:00:00Z";

pub(crate) struct Story {
    pub(crate) cluster: VirtualCluster,
    start: i64,
    told: usize,
}

impl Story {
    /// A cluster of these controllers in which pods are ready at once.
    pub(crate) fn of(controllers: Controllers) -> Self {
        let cluster = VirtualCluster::new(controllers, START);
        let start = cluster.now();
        Self {
            cluster,
            start,
            told: 0,
        }
    }

    /// Pods take some seconds to be ready, and some to end.
    pub(crate) fn pods_take(mut self, start_seconds: i64, stop_seconds: i64) -> Self {
        self.cluster.pod_life = PodLife::Takes {
            start_seconds,
            stop_seconds,
        };
        self
    }

    /// Pods stay pending until somebody says otherwise.
    pub(crate) fn pods_wait(mut self) -> Self {
        self.cluster.pod_life = PodLife::Pending;
        self
    }

    /// Somebody applies these objects, YAML; the controllers work until nothing moves.
    pub(crate) fn apply(&mut self, yaml: &str) -> &mut Self {
        struct Values(Vec<Value>);
        impl Receiver for Values {
            fn document(&mut self, document: Document) {
                self.0.push(document.value);
            }
            fn duplicate_key(&mut self, duplicate: DuplicateKey) {
                panic!("{} twice", duplicate.key);
            }
        }
        let mut values = Values(Vec::new());
        if let Err(error) = read(yaml, &mut values) {
            panic!("{yaml}\n{error:?}");
        }
        for value in values.0 {
            self.cluster.create(value);
        }
        self.cluster.settle();
        self
    }

    /// Somebody changes an object, by kind and name in namespace `default`.
    pub(crate) fn change(&mut self, object: &str, changes: Value) -> &mut Self {
        self.cluster.patch(&key(object), changes);
        self.cluster.settle();
        self
    }

    pub(crate) fn scale(&mut self, object: &str, replicas: i32) -> &mut Self {
        self.change(object, json!({"spec": {"replicas": replicas}}))
    }

    pub(crate) fn delete(&mut self, object: &str) -> &mut Self {
        self.cluster.delete(&key(object));
        self.cluster.settle();
        self
    }

    /// Somebody deletes an object and says what becomes of those that it owns.
    pub(crate) fn delete_so(&mut self, object: &str, propagation: Propagation) -> &mut Self {
        delete_so(&mut self.cluster, key(object), propagation);
        self.cluster.settle();
        self
    }

    /// Whether an object is there.
    pub(crate) fn is_there(&self, object: &str) -> bool {
        self.cluster.stored(&key(object)).is_some()
    }

    /// A pod gets a phase, and is ready if it runs.
    pub(crate) fn pod_becomes(&mut self, name: &str, phase: &str) -> &mut Self {
        let key = key(&format!("Pod {name}"));
        self.cluster.set_pod_status(&key, phase, phase == "Running");
        self.cluster.settle();
        self
    }

    pub(crate) fn wait(&mut self, seconds: i64) -> &mut Self {
        self.cluster.run_seconds(seconds);
        self
    }

    /// From now on the API server refuses to create pods.
    pub(crate) fn refuse_pods(&mut self, message: &'static str) -> &mut Self {
        self.cluster.refuse = Some(Box::new(move |write| {
            let is_pod = matches!(write, Write::Create(it) if it.object.kind() == ObjectKind::Pod);
            is_pod.then(|| Refusal {
                code: 403,
                reason: "Forbidden".into(),
                message: message.into(),
                causes: Vec::new(),
            })
        }));
        self
    }

    /// From now on the API server refuses to delete anything.
    pub(crate) fn refuse_deletions(&mut self) -> &mut Self {
        self.cluster.refuse = Some(Box::new(|write| {
            matches!(write, Write::Delete(_)).then(|| Refusal {
                code: 500,
                reason: "InternalError".into(),
                message: "not now".into(),
                causes: Vec::new(),
            })
        }));
        self
    }

    /// The time, as objects say it.
    pub(crate) fn now(&self) -> String {
        rfc3339(self.cluster.now())
    }

    /// How many seconds have passed.
    pub(crate) fn seconds(&self) -> i64 {
        (self.cluster.now() - self.start) / SECOND
    }

    pub(crate) fn refuse_nothing(&mut self) -> &mut Self {
        self.cluster.refuse = None;
        self
    }

    /// The pods of namespace `default`: name, phase and `ready`, `going` if they are.
    pub(crate) fn pods(&self) -> Vec<String> {
        let pods = self.cluster.pods("default");
        let line = |key: Key| {
            let stored = self.cluster.stored(&key)?;
            let pod: &Pod = stored.get()?;
            let mut line = format!(
                "{} {}",
                shown(&pod.metadata.name, &pod.metadata.generate_name),
                pod.status.phase
            );
            let ready = pod
                .status
                .conditions
                .iter()
                .any(|it| it.type_ == "Ready" && it.status == "True");
            if ready {
                line.push_str(" ready");
            }
            if pod.metadata.deletion_timestamp.is_some() {
                line.push_str(" going");
            }
            Some(line)
        };
        pods.filter_map(line).collect()
    }

    /// Names of the pods of namespace `default`.
    pub(crate) fn pod_names(&self) -> Vec<String> {
        self.cluster
            .pods("default")
            .map(|key| key.name.to_string())
            .collect()
    }

    /// An object as JSON.
    pub(crate) fn value(&self, object: &str) -> Value {
        self.cluster.value(&key(object))
    }

    /// All objects of a kind.
    pub(crate) fn values(&self, kind: &str) -> Vec<Value> {
        let objects = self.cluster.objects();
        let of_kind = objects.filter(|(key, _)| key.kind.name() == kind);
        of_kind.map(|(_, stored)| stored.to_value()).collect()
    }

    /// The only ReplicaSet.
    pub(crate) fn only_replica_set(&self) -> Value {
        let mut sets = self.values("ReplicaSet");
        assert_eq!(sets.len(), 1);
        sets.remove(0)
    }

    /// A text with the revision of each ReplicaSet of a Deployment in place of its hash.
    fn without_hashes(&self, mut text: String) -> String {
        for set in self.values("ReplicaSet") {
            let metadata = &set["metadata"];
            let name = metadata["name"].as_str().unwrap_or_default();
            let revision = metadata["annotations"]["deployment.kubernetes.io/revision"].as_str();
            if let (Some(revision), Some((base, _))) = (revision, name.rsplit_once('-')) {
                text = text.replace(name, &format!("{base}-{revision}"));
            }
        }
        text
    }

    /// The status of an object.
    pub(crate) fn status(&self, object: &str) -> Value {
        self.value(object)["status"].clone()
    }

    /// One of the conditions of an object: `status reason: message`.
    pub(crate) fn condition(&self, object: &str, condition: &str) -> String {
        let status = self.status(object);
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let text = |it: &Value, name: &str| it[name].as_str().unwrap_or_default().to_owned();
        let found = conditions.iter().find(|it| it["type"] == condition);
        let text = found.map_or_else(String::new, |it| {
            format!(
                "{} {}: {}",
                text(it, "status"),
                text(it, "reason"),
                text(it, "message")
            )
        });
        self.without_hashes(text)
    }

    /// What the controllers wrote since this was last asked, but for status.
    pub(crate) fn happened(&mut self) -> String {
        let log = &self.cluster.log[self.told..];
        let lines = log.iter().filter_map(|(time, _, write)| {
            let seconds = (time - self.start) / SECOND;
            Some(format!("{seconds}s {}\n", told(write)?))
        });
        let text = self.without_hashes(lines.collect());
        self.told = self.cluster.log.len();
        text
    }
}

/// Deletes an object and says what becomes of those that it owns.
pub(crate) fn delete_so(cluster: &mut VirtualCluster, key: Key, propagation: Propagation) {
    let delete = Write::Delete(Delete {
        key,
        uid: None,
        resource_version: None,
        grace_seconds: None,
        propagation: Some(propagation),
    });
    cluster.carry_out("somebody", &delete);
}

fn told(write: &Write) -> Option<String> {
    let name = |key: &Key| format!("{} {}", key.kind.name(), shown(&key.name, ""));
    Some(match write {
        Write::Create(create) => {
            let metadata = create.object.metadata();
            let shown = match metadata.name.as_str() {
                "" => format!("{}*", metadata.generate_name),
                name => name.to_owned(),
            };
            format!("creates {} {shown}", create.object.kind().name())
        }
        Write::Patch(patch) if patch.subresource == Some(Subresource::Status) => return None,
        Write::Patch(patch) => format!("patches {} {}", name(&patch.key), patch.changes),
        Write::Delete(delete) => format!("deletes {}", name(&delete.key)),
        Write::Event(event) => {
            let words = event.message.split(' ').map(|word| shown(word, ""));
            let message: Vec<String> = words.collect();
            format!(
                "{}: {}: {}",
                name(&event.regarding),
                event.reason,
                message.join(" ")
            )
        }
    })
}

/// A name with `*` for what was generated.
fn shown(name: &str, generate_name: &str) -> String {
    let generated = |text: &str| {
        text.len() == 5
            && text
                .bytes()
                .all(|it| b"bcdfghjklmnpqrstvwxz2456789".contains(&it))
    };
    match name.rsplit_once('-') {
        Some((base, suffix))
            if generated(suffix) || !generate_name.is_empty() && suffix.len() == 5 =>
        {
            format!("{base}-*")
        }
        _ => name.to_owned(),
    }
}

/// The key of `Kind name`, in namespace `default` if the kind has one.
pub(crate) fn key(object: &str) -> Key {
    let (kind, name) = object.split_once(' ').expect("kind and name");
    let kind = ObjectKind::of_resource(kind).expect("a kind");
    let namespace = if kind.is_namespaced() { "default" } else { "" };
    Key::new(Kind::Known(kind), namespace, name)
}
