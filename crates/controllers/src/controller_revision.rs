//! Revisions of templates: how StatefulSets and DaemonSets tell old pods from new.
//!
//! A ControllerRevision keeps a template, as the patch that would bring it back. If a template
//! comes again its revision is used again, under a higher number.
//!
//! Source: `pkg/controller/history/controller_history.go`, Kubernetes 1.36.

use std::sync::Arc;

use outrank_api::decode::Object;
use outrank_api::labels::Selector;
use outrank_api::types::{ControllerRevision, ObjectMeta, PodTemplateSpec};
use serde_json::{Value, json};

use crate::claim::{claim, reference_to};
use crate::controller::Plan;
use crate::generated_names::{short_hash, shortened};
use crate::world::{Stored, World};
use crate::write::{Create, Write, without_nulls};

/// Where a revision keeps the spec of its template.
pub(crate) const TEMPLATE_SPEC: &str = "/data/spec/template/spec";

/// Longest part of the owner's name in the name of a revision, in bytes.
const OWNER_BYTES_MAX: usize = 223;

/// The revisions of an owner, the oldest first.
pub(crate) struct Revisions<'w> {
    pub(crate) all: Vec<Revision<'w>>,
}

/// One of them.
#[derive(Clone, Copy)]
pub(crate) struct Revision<'w> {
    pub(crate) stored: &'w Arc<Stored>,
    pub(crate) revision: &'w ControllerRevision,
}

impl<'w> Revision<'w> {
    pub(crate) fn name(&self) -> &'w str {
        &self.revision.metadata.name
    }

    /// Its template; `None` if it cannot be read.
    pub(crate) fn template(&self) -> Option<PodTemplateSpec> {
        let template = self.revision.data.pointer("/spec/template")?;
        serde_json::from_value(template.clone()).ok()
    }

    /// JSON that has the template at [`TEMPLATE_SPEC`].
    pub(crate) fn source(&self) -> Arc<Value> {
        Arc::new(json!({ "data": self.revision.data }))
    }
}

/// What an owner's template needs to have a revision.
pub(crate) struct Template<'w> {
    pub(crate) owner: &'w Stored,
    pub(crate) template: &'w PodTemplateSpec,
    pub(crate) collisions: Option<i32>,
    /// The label of the revision with its hash.
    pub(crate) hash_label: &'static str,
}

impl<'w> Revisions<'w> {
    /// The revisions of `owner`; those that are to be adopted are written into `plan`.
    pub(crate) fn of(
        world: &'w World,
        owner: &'w Stored,
        selector: &Selector,
        plan: &mut Plan,
    ) -> Self {
        let claimed = claim::<ControllerRevision>(world, owner, selector, |_| true);
        plan.step(claimed.writes);
        let all = claimed.own.into_iter();
        let all = all.filter_map(|stored| {
            let revision = stored.get()?;
            Some(Revision { stored, revision })
        });
        let mut all: Vec<Revision<'w>> = all.collect();
        all.sort_by_key(|it| {
            let metadata = &it.revision.metadata;
            (
                it.revision.revision,
                &metadata.creation_timestamp,
                &metadata.name,
            )
        });
        Self { all }
    }

    /// The revision of a template. If it is not there, or not the newest, what is to be written
    /// first.
    pub(crate) fn current(&self, template: &Template<'_>) -> Result<Revision<'w>, Box<Write>> {
        let data = template.data();
        let mut known = self.all.iter().rev();
        let same = known.find(|it| is_same(&it.revision.data, &data));
        let newest = self.all.last().map_or(0, |it| it.revision.revision);
        match same {
            Some(same) if same.revision.revision == newest => Ok(*same),
            Some(same) => {
                let changes = json!({"revision": newest.saturating_add(1)});
                Err(Box::new(Write::patch(same.stored, changes)))
            }
            None => Err(Box::new(template.create(data, newest.saturating_add(1)))),
        }
    }

    /// Deletes revisions beyond the limit that are not `live`, the oldest first. Those that are
    /// `counted` are held against the limit.
    pub(crate) fn truncate(
        &self,
        limit: Option<i32>,
        is_counted: impl Fn(&Revision<'w>) -> bool,
        is_live: impl Fn(&Revision<'w>) -> bool,
    ) -> Vec<Write> {
        let Ok(limit) = usize::try_from(limit.unwrap_or(10)) else {
            return Vec::new();
        };
        let counted = self.all.iter().filter(|it| is_counted(it)).count();
        let old = self.all.iter().filter(|it| !is_live(it));
        let surplus = old.take(counted.saturating_sub(limit));
        surplus.map(|it| Write::delete(it.stored)).collect()
    }
}

impl Template<'_> {
    /// The patch that brings the template back.
    fn data(&self) -> Value {
        let written = self.owner.raw().and_then(|it| it.pointer("/spec/template"));
        let mut template = match written {
            Some(written) => written.clone(),
            None => serde_json::to_value(self.template).unwrap_or_default(),
        };
        without_nulls(&mut template);
        if let Value::Object(fields) = &mut template {
            fields.insert("$patch".to_owned(), "replace".into());
        }
        json!({"spec": {"template": template}})
    }

    fn create(&self, data: Value, revision: i64) -> Write {
        let bytes = serde_json::to_vec(&data).unwrap_or_default();
        let collisions = self.collisions.filter(|it| *it > 0).map(i32::to_le_bytes);
        let mut parts = vec![bytes.as_slice()];
        parts.extend(collisions.as_ref().map(<[u8; 4]>::as_slice));
        let hash = short_hash(&parts);
        let owner = self.owner.metadata();
        let name = shortened(&owner.name, OWNER_BYTES_MAX);
        let name = format!("{name}-{hash}");
        Write::Create(Box::new(Create {
            object: self.object(name, hash, data, revision),
            written: None,
        }))
    }

    /// The revision under a name that it has got already.
    pub(crate) fn named(&self, name: String, hash: String) -> Object {
        self.object(name, hash, self.data(), 1)
    }

    fn object(&self, name: String, hash: String, data: Value, revision: i64) -> Object {
        let owner = self.owner.metadata();
        let mut labels = self.template.metadata.labels.clone();
        labels.insert(self.hash_label.to_owned(), hash);
        let metadata = ObjectMeta {
            name,
            namespace: owner.namespace.clone(),
            labels,
            annotations: owner.annotations.clone(),
            owner_references: vec![reference_to(self.owner)],
            ..Default::default()
        };
        Object::ControllerRevision(Box::new(ControllerRevision {
            metadata,
            data,
            revision,
        }))
    }
}

fn is_same(kept: &Value, data: &Value) -> bool {
    if kept == data {
        return true;
    }
    let mut kept = kept.clone();
    without_nulls(&mut kept);
    kept == *data
}
