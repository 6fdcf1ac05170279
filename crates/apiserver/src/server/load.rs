//! Taking over objects that another cluster has stored.

use outrank_api::status::Status;
use outrank_store::{Key, Operation};
use serde_json::Value;

use super::{ApiServer, Target, WriteOptions, check_depth, refused_commit, with_version};
use crate::versions;

impl ApiServer {
    /// Stores an object of a dump or a manifest. One that was stored before, which its uid shows,
    /// is taken as it is, with its status, in the place of one of its name; another is made as a
    /// client would make it.
    ///
    /// # Errors
    ///
    /// If its kind is not served, or it is refused.
    pub fn load(&self, mut object: Value) -> Result<(), Status> {
        let text = |pointer: &str| {
            let text = object.pointer(pointer).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let (api_version, kind) = (text("/apiVersion"), text("/kind"));
        let (name, mut namespace) = (text("/metadata/name"), text("/metadata/namespace"));
        let was_stored = !text("/metadata/uid").is_empty() && !name.is_empty();
        let types = self.types();
        let served = types
            .of_kind(&api_version, &kind)
            .filter(|it| it.is_stored());
        let served = served.ok_or_else(|| {
            Status::bad_request(format!(
                "no kind {kind:?} of {api_version:?} is served here"
            ))
        })?;
        if !served.resource.is_namespaced {
            namespace.clear();
        } else if namespace.is_empty() {
            namespace = "default".to_owned();
            object["metadata"]["namespace"] = namespace.as_str().into();
        }
        let target = Target {
            served: served.clone(),
            namespace: namespace.clone(),
            name: name.clone(),
            subresource: String::new(),
        };
        if !was_stored {
            // Its version was that of another cluster.
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.remove("resourceVersion");
            }
            let options = WriteOptions {
                manager: "outrank".to_owned(),
                ..WriteOptions::default()
            };
            return match self.create(&target, object, &options) {
                Err(status) if status.code == 409 => Ok(()),
                outcome => outcome.map(|_| ()),
            };
        }
        let mut object = versions::to_stored(&served.resource, &served.stored, object);
        if !object["metadata"]["creationTimestamp"].is_string() {
            object["metadata"]["creationTimestamp"] = self.now().into();
        }
        check_depth(&object)?;
        let key = Key::new(&*served.store_name, &*namespace, &*name);
        let operation = match self.store().get(&key) {
            Some(entry) => Operation::Update {
                key: key.clone(),
                expected: Some(entry.version),
                make: with_version(key.resource.clone(), object),
            },
            None => Operation::Create {
                key: key.clone(),
                make: with_version(key.resource.clone(), object),
            },
        };
        let committed = self.commit(vec![operation]);
        committed
            .map(|_| ())
            .map_err(|error| refused_commit(&error, &target))
    }
}
