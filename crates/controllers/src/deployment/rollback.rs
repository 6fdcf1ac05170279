//! Going back to an earlier template, as an annotation asks for it.
//!
//! Clients of today copy the template of the ReplicaSet themselves. The annotation is what is left of
//! a field that older versions of the API had.
//!
//! Source: `pkg/controller/deployment/rollback.go`, Kubernetes 1.36.

use serde_json::{Map, Value, json};

use super::revision::{HASH_LABEL, OWN_ANNOTATIONS, ROLLBACK_TO};
use super::{Rollout, Set};
use crate::controller::Plan;
use crate::write::{Event, Write, difference};

impl Rollout<'_> {
    /// The revision that is asked for; 0 is the last one before the current.
    pub(super) fn rollback_to(&self) -> Option<i64> {
        let text = self.deployment.metadata.annotations.get(ROLLBACK_TO)?;
        text.parse().ok()
    }

    /// Goes back to a revision, or says why not; either way it is not asked for any more.
    pub(super) fn roll_back(&self, revision: i64, plan: &mut Plan) {
        if self.revise(true, plan).is_moving() {
            return;
        }
        let revision = match revision {
            0 => self.last_revision(),
            revision => Some(revision),
        };
        let name = &self.deployment.metadata.name;
        let Some(revision) = revision else {
            return self.give_up(NOT_FOUND, "Unable to find last revision.".to_owned(), plan);
        };
        let mut sets = self.all();
        let Some(set) = sets.find(|it| number(it) == Some(revision)) else {
            let message = "Unable to find the revision to rollback to.";
            return self.give_up(NOT_FOUND, message.to_owned(), plan);
        };
        if crate::workloads::is_same(&set.set.spec.template, &self.deployment.spec.template) {
            let message = format!(
                "The rollback revision contains the same template as current deployment {name:?}"
            );
            return self.give_up("DeploymentRollbackTemplateUnchanged", message, plan);
        }
        plan.step([self.take_template(set)]);
        let message = format!("Rolled back deployment {name:?} to revision {revision}");
        let event = Event::normal(self.stored, "DeploymentRollback", message);
        plan.step([Write::Event(event)]);
    }

    fn give_up(&self, reason: &'static str, message: String, plan: &mut Plan) {
        let event = Event::warning(self.stored, reason, message);
        let changes = json!({"metadata": {"annotations": {ROLLBACK_TO: null}}});
        plan.step([Write::Event(event), Write::patch(self.stored, changes)]);
    }

    /// The second highest revision.
    fn last_revision(&self) -> Option<i64> {
        let mut numbers: Vec<i64> = self.all().filter_map(number).collect();
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        numbers.get(1).copied().filter(|it| *it > 0)
    }

    /// Takes over the template of a ReplicaSet, and its annotations but for those about revisions.
    fn take_template(&self, set: &Set<'_>) -> Write {
        let mut template = set.stored.to_value()["spec"]["template"].take();
        if let Some(Value::Object(labels)) = template.pointer_mut("/metadata/labels") {
            labels.remove(HASH_LABEL);
        }
        let known = self.stored.to_value()["spec"]["template"].take();
        let mut annotations = Map::new();
        for name in self.handed_down().map(|(name, _)| name) {
            annotations.insert(name.clone(), Value::Null);
        }
        for (name, value) in &set.set.metadata.annotations {
            if !OWN_ANNOTATIONS.contains(&name.as_str()) {
                annotations.insert(name.clone(), value.as_str().into());
            }
        }
        annotations.insert(ROLLBACK_TO.to_owned(), Value::Null);
        let mut changes = json!({"metadata": {"annotations": annotations}});
        if let Some(difference) = difference(&known, &template) {
            changes["spec"]["template"] = difference;
        }
        Write::patch(self.stored, changes)
    }
}

const NOT_FOUND: &str = "DeploymentRollbackRevisionNotFound";

/// The revision of a ReplicaSet, if it says one; 0 if it says none.
fn number(set: &Set<'_>) -> Option<i64> {
    super::revision::parsed(&set.set.metadata)
}
