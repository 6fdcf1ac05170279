//! Deleting objects.
//!
//! Deletion is a wish. An object with finalizers stays, marked, until they are gone; a pod has time
//! to end, and its kubelet removes it; a namespace goes after all that is in it. What becomes of
//! objects that are owned is the business of the garbage collector, which is told by finalizers.
//!
//! Sources, Kubernetes 1.36: `k8s.io/apiserver/pkg/registry/rest/delete.go`,
//! `registry/generic/registry/store.go`, `pkg/registry/core/pod/strategy.go`,
//! `pkg/registry/core/namespace/storage/storage.go`.

use outrank_admission::{Attributes, Operation as Admitted};
use outrank_api::status::{Qualified, Status};
use outrank_api::time::rfc3339;
use outrank_store::{CommitError, Entry, Operation};
use serde_json::{Value, json};

use super::read::ListOptions;
use super::update::is_over;
use super::{ApiServer, Target, refused_commit, with_version};
use crate::stored_object::StoredObject;

/// Nanoseconds of a second.
const SECOND: i64 = 1_000_000_000;

/// How an object is to be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Seconds that it has to end; what it says itself if absent.
    pub grace_seconds: Option<i64>,
    /// `Background`, `Foreground` or `Orphan`; what the kind says if absent.
    pub propagation: Option<String>,
    /// Only if it has this uid.
    pub uid: Option<String>,
    /// Only if it has this version.
    pub resource_version: Option<String>,
    /// Whether nothing is to come of it.
    pub dry_run: bool,
}

/// What came of a deletion.
#[derive(Clone, Debug)]
pub enum Deleted {
    /// The object is gone; this is how it was at the end.
    Gone(Entry<StoredObject>),
    /// It is on its way.
    Going(Entry<StoredObject>),
}

impl ApiServer {
    /// Deletes an object.
    ///
    /// # Errors
    ///
    /// The answer, if the request is refused.
    pub fn delete(&self, target: &Target, options: &DeleteOptions) -> Result<Deleted, Status> {
        loop {
            let entry = self.get(target)?;
            let live = entry.value.to_value(&target.served.stored);
            let resource = target.served.resource.resource();
            options.check_preconditions(resource, &target.name, &live)?;
            let attributes = Attributes {
                namespace: &target.namespace,
                name: &target.name,
                dry_run: options.dry_run,
                ..Attributes::of(Admitted::Delete, &*target.served.stored)
            };
            self.with_writes(|writes| writes.delete(&attributes))?;
            match self.delete_once(target, &entry, live, options) {
                Err(CommitError::Conflict { .. }) if options.resource_version.is_none() => {}
                Err(error) => return Err(refused_commit(&error, target)),
                Ok(deleted) => return Ok(deleted),
            }
        }
    }

    /// Deletes all objects that are selected, one after another; those that were there.
    ///
    /// # Errors
    ///
    /// The answer to the first deletion that is refused.
    pub fn delete_collection(
        &self,
        target: &Target,
        selected: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<Vec<Entry<StoredObject>>, Status> {
        let listed = self.list(target, selected)?;
        for entry in &listed.entries {
            let one = Target {
                namespace: entry.key.namespace.to_string(),
                name: entry.key.name.to_string(),
                ..target.clone()
            };
            match self.delete(&one, options) {
                Err(status) if status.code != 404 => return Err(status),
                _ => {}
            }
        }
        Ok(listed.entries)
    }

    fn delete_once(
        &self,
        target: &Target,
        entry: &Entry<StoredObject>,
        live: Value,
        options: &DeleteOptions,
    ) -> Result<Deleted, CommitError> {
        let now = self.clock().now();
        let going = marked(&live, target, options, now);
        if going == live {
            return Ok(Deleted::Going(entry.clone()));
        }
        let is_over = is_over(&going);
        let make = with_version(entry.key.resource.clone(), going.clone());
        if options.dry_run {
            let entry = Entry {
                value: StoredObject::new(&entry.key.resource, going).into(),
                ..entry.clone()
            };
            return Ok(match is_over {
                true => Deleted::Gone(entry),
                false => Deleted::Going(entry),
            });
        }
        let (key, expected) = (entry.key.clone(), Some(entry.version));
        let operation = match is_over {
            true => Operation::Delete {
                key,
                expected,
                make: Some(make),
            },
            false => Operation::Update {
                key,
                expected,
                make,
            },
        };
        let entries = self.commit(vec![operation])?;
        let written = entries.into_iter().next().unwrap_or_else(|| entry.clone());
        Ok(match is_over {
            true => Deleted::Gone(written),
            false => Deleted::Going(written),
        })
    }
}

impl DeleteOptions {
    /// Options from an object of kind DeleteOptions whose fields have their types, or from `null`.
    pub fn read(options: &Value) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let orphan = options["orphanDependents"].as_bool();
        let orphan = orphan.map(|it| if it { "Orphan" } else { "Background" }.to_owned());
        let preconditions = &options["preconditions"];
        let dry_run = options["dryRun"].as_array();
        Self {
            grace_seconds: options["gracePeriodSeconds"].as_i64(),
            propagation: text(&options["propagationPolicy"]).or(orphan),
            uid: text(&preconditions["uid"]),
            resource_version: text(&preconditions["resourceVersion"]),
            dry_run: dry_run.is_some_and(|it| !it.is_empty()),
        }
    }

    /// Whether the object of this name is the one that is meant.
    pub(super) fn check_preconditions(
        &self,
        resource: Qualified<'_>,
        name: &str,
        live: &Value,
    ) -> Result<(), Status> {
        let conditions = [
            ("UID", "uid", &self.uid, "deleted and then recreated"),
            (
                "ResourceVersion",
                "resourceVersion",
                &self.resource_version,
                "modified",
            ),
        ];
        for (called, field, wanted, else_was) in conditions {
            let found = live["metadata"][field].as_str().unwrap_or_default();
            if let Some(wanted) = wanted
                && wanted != found
            {
                let why = format!(
                    "the {called} in the precondition ({wanted}) does not match the {called} in \
                     record ({found}). The object might have been {else_was}"
                );
                return Err(Status::conflict(resource, name, why));
            }
        }
        Ok(())
    }
}

/// The object as it is when its deletion has been asked for.
fn marked(live: &Value, target: &Target, options: &DeleteOptions, now: i64) -> Value {
    let mut going = live.clone();
    let finalizers = finalizers_after(live, options.propagation.as_deref());
    let metadata = &mut going["metadata"];
    match finalizers.is_empty() {
        true => {
            if let Value::Object(fields) = metadata {
                fields.remove("finalizers");
            }
        }
        false => metadata["finalizers"] = finalizers.into(),
    }
    let grace = grace_seconds(live, target, options);
    let is_first = !live["metadata"]["deletionTimestamp"].is_string();
    let remaining = live["metadata"]["deletionGracePeriodSeconds"]
        .as_i64()
        .unwrap_or(0);
    if is_first || grace < remaining {
        let begun = match is_first {
            true => now,
            // A shorter time counts from when the deletion was asked for.
            false => since(live, remaining).unwrap_or(now),
        };
        let end = begun.saturating_add(grace.saturating_mul(SECOND));
        let end = if is_first { end } else { end.max(now) };
        metadata["deletionTimestamp"] = rfc3339(end).into();
        // A namespace goes when all that is in it has gone, not after a time.
        if target.served.stored.kind != "Namespace" {
            metadata["deletionGracePeriodSeconds"] = grace.into();
        }
        if is_first
            && let Some(generation) = metadata["generation"].as_i64()
            && generation > 0
        {
            metadata["generation"] = generation.saturating_add(1).into();
        }
        if target.served.stored.kind == "Namespace" {
            going["status"]["phase"] = json!("Terminating");
        }
    }
    going
}

/// When the deletion of an object was asked for.
fn since(live: &Value, grace_seconds: i64) -> Option<i64> {
    let end = live["metadata"]["deletionTimestamp"].as_str()?;
    let end = outrank_api::time::unix_nanos(end)?;
    Some(end.saturating_sub(grace_seconds.saturating_mul(SECOND)))
}

/// How long an object has to end. Only pods that run on a node have any time.
fn grace_seconds(live: &Value, target: &Target, options: &DeleteOptions) -> i64 {
    if &*target.served.store_name != "pods" {
        return 0;
    }
    let own = live["spec"]["terminationGracePeriodSeconds"].as_i64();
    let asked = options.grace_seconds.or(own).unwrap_or(0);
    let phase = live["status"]["phase"].as_str().unwrap_or_default();
    let has_node = live["spec"]["nodeName"]
        .as_str()
        .is_some_and(|it| !it.is_empty());
    if !has_node || matches!(phase, "Succeeded" | "Failed") {
        return 0;
    }
    // A negative time is the shortest that there is.
    if asked < 0 { 1 } else { asked }
}

/// The finalizers of an object that is deleted so.
fn finalizers_after(live: &Value, propagation: Option<&str>) -> Vec<String> {
    const OF_PROPAGATION: [&str; 2] = ["foregroundDeletion", "orphan"];
    let known = live["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten();
    let known = known.filter_map(Value::as_str).map(str::to_owned);
    let Some(propagation) = propagation else {
        return known.collect();
    };
    let added = match propagation {
        "Foreground" => Some(OF_PROPAGATION[0]),
        "Orphan" => Some(OF_PROPAGATION[1]),
        _ => None,
    };
    let others = known.filter(|it| !OF_PROPAGATION.contains(&it.as_str()));
    others.chain(added.map(str::to_owned)).collect()
}
