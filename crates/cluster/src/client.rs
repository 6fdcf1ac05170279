//! A client in the same process: carries out what controllers, scheduler and kubelets want
//! written, by the requests that clients outside would send.

use std::sync::Arc;

use outrank_api::decode::Object;
use outrank_api::patch::PatchType;
use outrank_api::status::Status;
use outrank_api::types::ObjectMeta;
use outrank_apiserver::server::delete::{DeleteOptions, Deleted};
use outrank_apiserver::server::{ApiServer, Target, WriteOptions};
use outrank_apiserver::stored_object::StoredObject;
use outrank_controllers::write::{Bind, Create, Delete, Patch, Propagation, Subresource};
use outrank_controllers::{Key, Kind, Outcome, Refusal, Stored, Write, write};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::events::Recorder;

/// A client with a name of its own.
pub struct Client {
    server: ApiServer,
    manager: &'static str,
    recorder: Recorder,
}

impl Client {
    /// A client that is called so in `managedFields`, and that tells events by a recorder.
    pub fn new(server: ApiServer, manager: &'static str, recorder: Recorder) -> Self {
        Self {
            server,
            manager,
            recorder,
        }
    }

    /// The server.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// Carries out a write. `component` is who tells of it in events.
    pub fn carry_out(&mut self, component: &str, write: &Write) -> Outcome {
        let outcome = match write {
            Write::Create(create) => self.create(create),
            Write::Patch(patch) => self.patch(patch),
            Write::Delete(delete) => self.delete(delete),
            Write::Bind(bind) => self.bind(bind),
            Write::Event(event) => self.tell(component, event),
        };
        outcome.unwrap_or_else(|status| Outcome::Refused(refusal_of(status)))
    }

    /// Makes an object, unless it is there.
    ///
    /// # Errors
    ///
    /// The server's answer, if it refuses.
    pub fn make(&self, object: Value) -> Result<(), Status> {
        let target = self.target_of(&object)?;
        if !target.name.is_empty() && self.server.get(&target).is_ok() {
            return Ok(());
        }
        match self.server.create(&target, object, &self.options()) {
            Err(status) if status.code == 409 => Ok(()),
            outcome => outcome.map(|_| ()),
        }
    }

    /// Makes an object, or puts what is said of it into the one that is there.
    ///
    /// # Errors
    ///
    /// The server's answer, if it refuses.
    pub fn put(&self, object: Value) -> Result<(), Status> {
        let target = self.target_of(&object)?;
        let options = self.options();
        if self.server.get(&target).is_err() {
            match self.server.create(&target, object.clone(), &options) {
                Err(status) if status.code == 409 => {}
                outcome => return outcome.map(|_| ()),
            }
        }
        let text = object.to_string();
        let patched = self
            .server
            .patch(&target, PatchType::Merge, &text, &options, &|_, _| Ok(()));
        patched.map(|_| ())
    }

    /// Puts what is said of the status of an object into it.
    ///
    /// # Errors
    ///
    /// The server's answer, if it refuses.
    pub fn put_status(&self, key: &Key, changes: &Value) -> Result<(), Status> {
        let target = self.target(key, "status")?;
        let (text, options) = (changes.to_string(), self.options());
        let patched = self
            .server
            .patch(&target, PatchType::Merge, &text, &options, &|_, _| Ok(()));
        patched.map(|_| ())
    }

    /// Deletes an object.
    ///
    /// # Errors
    ///
    /// The server's answer, if it refuses.
    pub fn remove(&self, key: &Key) -> Result<(), Status> {
        let target = self.target(key, "")?;
        self.server
            .delete(&target, &DeleteOptions::default())
            .map(|_| ())
    }

    fn create(&self, create: &Create) -> Result<Outcome, Status> {
        let value = create.to_value();
        let target = self.target_of(&value)?;
        let written = self.server.create(&target, value, &self.options())?;
        Ok(Outcome::Stored(stored(&target, &written.object)))
    }

    fn patch(&self, patch: &Patch) -> Result<Outcome, Status> {
        let subresource = match patch.subresource {
            Some(Subresource::Status) => "status",
            Some(Subresource::Scale) => "scale",
            Some(Subresource::Finalize) => "finalize",
            None => "",
        };
        let target = self.target(&patch.key, subresource)?;
        let (options, body) = (self.options(), patch.to_value());
        let object = match patch.subresource {
            Some(Subresource::Scale) => {
                self.server.set_scale(&target, &options, &|old| {
                    let mut new = old.clone();
                    write::merge(&mut new, &body);
                    Ok(new)
                })?;
                self.server.get(&target)?.value
            }
            Some(Subresource::Finalize) => self.server.finalize(&target, &body, &options)?.object,
            _ => {
                let text = body.to_string();
                let patched = self.server.patch(
                    &target,
                    PatchType::Merge,
                    &text,
                    &options,
                    &|_, _| Ok(()),
                )?;
                patched.object
            }
        };
        Ok(Outcome::Stored(stored(&target, &object)))
    }

    fn delete(&self, delete: &Delete) -> Result<Outcome, Status> {
        let target = self.target(&delete.key, "")?;
        let propagation = delete.propagation.map(|it| match it {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        });
        let options = DeleteOptions {
            grace_seconds: delete.grace_seconds,
            propagation: propagation.map(str::to_owned),
            uid: delete.uid.clone(),
            resource_version: delete.resource_version.clone(),
            dry_run: false,
        };
        Ok(match self.server.delete(&target, &options)? {
            Deleted::Gone(_) => Outcome::Done,
            Deleted::Going(entry) => Outcome::Stored(stored(&target, &entry.value)),
        })
    }

    fn bind(&self, bind: &Bind) -> Result<Outcome, Status> {
        let target = self.target(&bind.key, "binding")?;
        let binding = json!({"metadata": {"name": &*bind.key.name, "uid": bind.uid},
            "target": {"kind": "Node", "name": bind.node}});
        let written = self.server.bind(&target, &binding, &self.options())?;
        Ok(Outcome::Stored(stored(&target, &written.object)))
    }

    fn tell(&mut self, component: &str, event: &write::Event) -> Result<Outcome, Status> {
        let now = self.server.clock().now();
        let Some(object) = self.recorder.record(component, event, now) else {
            return Ok(Outcome::Done);
        };
        self.put(object).map(|()| Outcome::Done)
    }

    fn target_of(&self, object: &Value) -> Result<Target, Status> {
        let text = |pointer: &str| {
            let text = object.pointer(pointer).and_then(Value::as_str);
            text.unwrap_or_default()
        };
        let kind = Kind::of(text("/apiVersion"), text("/kind"));
        let key = Key::new(kind, text("/metadata/namespace"), text("/metadata/name"));
        self.target(&key, "")
    }

    fn target(&self, key: &Key, subresource: &str) -> Result<Target, Status> {
        let types = self.server.types();
        let served = types.of_kind(key.kind.api_version(), key.kind.name());
        let served = served.ok_or_else(|| {
            Status::bad_request(format!(
                "no kind {} in {} is served",
                key.kind.name(),
                key.kind.api_version()
            ))
        })?;
        Ok(Target {
            served: served.clone(),
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            subresource: subresource.to_owned(),
        })
    }

    fn options(&self) -> WriteOptions {
        WriteOptions {
            manager: self.manager.to_owned(),
            ..WriteOptions::default()
        }
    }
}

/// An object as clients know it. Of what there may be much, no more is kept than somebody here
/// asks for: of pods what their type says, of maps and secrets the metadata.
pub(crate) fn stored(target: &Target, object: &StoredObject) -> Arc<Stored> {
    let resource = &target.served.stored;
    let lean = match resource.type_name {
        Some("Pod") => serde_json::from_slice(object.json())
            .map(|pod| Stored::typed(Object::Pod(pod)))
            .ok(),
        Some("ConfigMap" | "Secret") => serde_json::from_slice(object.json())
            .map(|Named { metadata }| {
                let kind = Kind::of(&resource.api_version(), &resource.kind);
                Stored::of_metadata(kind, metadata)
            })
            .ok(),
        _ => None,
    };
    Arc::new(lean.unwrap_or_else(|| Stored::whole(object.to_value(resource))))
}

/// An object of which only the metadata is read.
#[derive(Deserialize)]
struct Named {
    metadata: ObjectMeta,
}

fn refusal_of(status: Status) -> Refusal {
    let details = status.details.into_iter();
    Refusal {
        code: status.code,
        reason: status
            .reason
            .map_or_else(String::new, |it| format!("{it:?}")),
        message: status.message,
        causes: details.flat_map(|it| it.causes).collect(),
    }
}
