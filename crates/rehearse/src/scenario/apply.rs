//! Objects on top of a cluster, as `kubectl apply` puts them there.

use std::collections::{HashMap, HashSet};

use outrank_api::apply;
use outrank_api::decode::{LoadedObject, Object, ObjectKey};
use outrank_api::defaults::add_default_tolerations;
use outrank_api::diagnostic::Finding;
use outrank_api::types::{Pod, PodTemplateSpec};
use outrank_api::update::refused_change;

use super::garbage;

/// Objects after changes.
#[derive(Debug, Default)]
pub(super) struct Changed {
    /// All objects.
    pub objects: Vec<Object>,
    /// Pods that were deleted, with what they belonged to or to be created anew.
    pub deleted: Vec<Pod>,
    /// Workloads whose template says something else now.
    pub new_templates: HashSet<ObjectKey>,
}

/// Puts changes on top of objects. Of objects that come twice on one side, the later one
/// counts, with a warning. What a cluster would refuse to change is taken as deleted and
/// created anew, with a warning, and what belonged to it is gone.
///
/// # Errors
/// Changes whose outcome is not valid: all of them, one a line.
pub(super) fn apply(
    objects: Vec<LoadedObject>,
    changes: Vec<LoadedObject>,
    warnings: &mut Vec<String>,
) -> Result<Changed, String> {
    let mut merged = the_later_ones(objects, warnings);
    let changes = the_later_ones(changes, warnings);
    let places = merged.iter().enumerate();
    let places: HashMap<ObjectKey, usize> =
        places.map(|(place, it)| (it.object.key(), place)).collect();
    let mut changed = Changed::default();
    let mut replaced = Vec::new();
    let mut wrong = Vec::new();
    for change in changes {
        let place = places.get(&change.object.key());
        // Objects that get their name from the server are always new.
        let Some(place) = place.filter(|_| is_named(&change.object)) else {
            merged.push(change);
            continue;
        };
        let before = &mut merged[*place];
        let mut after = match apply::apply(before, &change.raw) {
            Ok(after) => after,
            Err(findings) => {
                wrong.extend(told(&change, findings));
                continue;
            }
        };
        if let Some(path) = refused(before, &mut after) {
            warnings.push(created_anew(&before.object, &path));
            wrong.extend(told(&change, change.findings()));
            replaced.push(change.object.key());
            changed.deleted.extend(placed(&before.object));
            after = change;
        } else if template(&before.object) != template(&after.object) {
            changed.new_templates.insert(after.object.key());
        }
        *before = after;
    }
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }
    changed.objects = merged.into_iter().map(|it| it.object).collect();
    remove_dependents(&mut changed, replaced);
    Ok(changed)
}

/// What is wrong with a change, with its place.
fn told(change: &LoadedObject, findings: Vec<Finding>) -> impl Iterator<Item = String> {
    let findings = findings.into_iter();
    findings.map(|finding| format!("{}: error: {finding}", change.origin))
}

/// The pod, if an object is one that has a node.
fn placed(object: &Object) -> Option<Pod> {
    match object {
        Object::Pod(pod) if !pod.spec.node_name.is_empty() && !pod.is_finished() => {
            Some((**pod).clone())
        }
        _ => None,
    }
}

/// From what a workload makes pods, if it replaces those that are there by nothing else.
fn template(object: &Object) -> Option<&PodTemplateSpec> {
    match object {
        Object::StatefulSet(set) => Some(&set.spec.template),
        Object::DaemonSet(set) => Some(&set.spec.template),
        _ => None,
    }
}

/// What the API server would refuse of a change, after its admission has had its say.
fn refused(before: &LoadedObject, after: &mut LoadedObject) -> Option<String> {
    if let Object::Pod(pod) = &mut after.object {
        add_default_tolerations(pod);
    }
    refused_change(before, after)
}

/// `objects` without those of which a later one has the same kind and name, in their order.
fn the_later_ones(objects: Vec<LoadedObject>, warnings: &mut Vec<String>) -> Vec<LoadedObject> {
    let mut places: HashMap<ObjectKey, usize> = HashMap::new();
    let mut kept: Vec<LoadedObject> = Vec::new();
    for loaded in objects {
        if is_named(&loaded.object) {
            if let Some(place) = places.get(&loaded.object.key()) {
                let name = described(&loaded.object);
                warnings.push(format!("{name} comes twice; the later one counts"));
                kept[*place] = loaded;
                continue;
            }
            places.insert(loaded.object.key(), kept.len());
        }
        kept.push(loaded);
    }
    kept
}

fn is_named(object: &Object) -> bool {
    !object.metadata().name.is_empty()
}

/// Kind, namespace and name for people.
fn described(object: &Object) -> String {
    let (kind, metadata) = (object.kind().name(), object.metadata());
    let (namespace, name) = (&metadata.namespace, &metadata.name);
    let slash = if namespace.is_empty() { "" } else { "/" };
    format!("{kind} {namespace}{slash}{name}")
}

/// What to say of a change that the API server would refuse although its outcome can be
/// had.
fn created_anew(before: &Object, path: &str) -> String {
    let consequence = match before {
        Object::PriorityClass(_) => ", by which pods that have a priority keep it",
        Object::Pod(pod) if !pod.spec.node_name.is_empty() => ", by which it loses its node",
        Object::PersistentVolumeClaim(claim) if !claim.spec.volume_name.is_empty() => {
            ", by which it loses its volume"
        }
        Object::Deployment(_)
        | Object::ReplicaSet(_)
        | Object::ReplicationController(_)
        | Object::StatefulSet(_)
        | Object::DaemonSet(_)
        | Object::Job(_) => ", with all its pods",
        _ => "",
    };
    format!(
        "{}: a cluster refuses to change this ({path}); taken as deleted and created \
         anew{consequence}",
        described(before)
    )
}

/// Takes out what belongs to objects that were deleted, as garbage collection does. O(n).
fn remove_dependents(changed: &mut Changed, replaced: Vec<ObjectKey>) {
    let gone = garbage::dependents(&mut changed.objects, replaced);
    let objects = std::mem::take(&mut changed.objects);
    for (index, object) in objects.into_iter().enumerate() {
        if gone.contains(&index) {
            changed.deleted.extend(placed(&object));
        } else {
            changed.objects.push(object);
        }
    }
}

#[cfg(test)]
mod tests {
    use outrank_api::decode::{KeepRaw, LoadOptions, load_with};

    use super::*;

    fn read(text: &str, partial: Option<&HashSet<ObjectKey>>) -> Vec<LoadedObject> {
        let keep_raw = KeepRaw::All;
        let options = LoadOptions { keep_raw, partial };
        let loaded = load_with(options, [("test.yaml", text.as_bytes())]);
        assert_eq!(loaded.errors, []);
        loaded.objects
    }

    /// The objects after the change, and the warnings.
    fn changed(objects: &str, changes: &str) -> Result<(Vec<Object>, Vec<String>), String> {
        let mut warnings = Vec::new();
        let objects = read(objects, None);
        let known = objects.iter().map(|it| it.object.key()).collect();
        let changed = apply(objects, read(changes, Some(&known)), &mut warnings)?;
        Ok((changed.objects, warnings))
    }

    const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, uid: u1}\nspec:\n  \
                       nodeName: a\n  containers: [{name: c, image: i, resources: {requests: \
                       {cpu: 1}}}]\nstatus: {phase: Running}\n";

    fn manifest(cpu: u32) -> String {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  containers: [{{name: c, \
             image: i, resources: {{requests: {{cpu: {cpu}}}}}}}]\n"
        )
    }

    fn node_of(objects: &[Object]) -> &str {
        match objects {
            [Object::Pod(pod)] => &pod.spec.node_name,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_pod_that_runs_stays_where_it_is() {
        let (objects, warnings) = changed(POD, &manifest(1)).expect("applied");
        assert_eq!((node_of(&objects), warnings.len()), ("a", 0));
        let (objects, warnings) = changed(POD, &manifest(2)).expect("applied");
        assert_eq!(node_of(&objects), "");
        assert_eq!(
            warnings,
            [
                "Pod default/p: a cluster refuses to change this (spec of a pod, but for images and \
              a few fields more); taken as deleted and created anew, by which it loses its node"
            ]
        );
    }

    #[test]
    fn tolerations_that_admission_added_are_not_a_change() {
        let tolerations = "  tolerations: [{key: gpu, operator: Exists}]\n";
        let change = format!("{}{tolerations}", manifest(1));
        let mut live = read(&change, None).remove(0).object;
        let Object::Pod(pod) = &mut live else {
            panic!("{live:?}")
        };
        add_default_tolerations(pod);
        let mut warnings = Vec::new();
        let changes = read(&change, None);
        let changed = apply(vec![live.clone().into()], changes, &mut warnings);
        assert_eq!(changed.expect("applied").objects, [live]);
        assert_eq!(warnings, Vec::<String>::new());
    }

    #[test]
    fn a_bound_claim_keeps_its_volume() {
        let claim = |more: &str| {
            format!(
                "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: c}}\nspec:\n  \
                 accessModes: [ReadWriteOnce]\n  resources: {{requests: {{storage: 2Gi}}}}\n{more}"
            )
        };
        let bound = claim("  volumeName: v\nstatus: {phase: Bound}\n");
        let (objects, warnings) = changed(&bound, &claim("")).expect("applied");
        let [Object::PersistentVolumeClaim(claim)] = objects.as_slice() else {
            panic!("{objects:?}")
        };
        assert_eq!(claim.spec.volume_name, "v");
        assert_eq!(claim.status.phase, "Bound");
        assert_eq!(warnings, Vec::<String>::new());
    }

    #[test]
    fn what_belonged_to_a_workload_goes_with_it() {
        let job = |cpu: u32| {
            format!(
                "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: j}}\nspec:\n  template:\n    \
                 spec:\n      restartPolicy: Never\n      containers: [{{name: c, image: i, \
                 resources: {{requests: {{cpu: {cpu}}}}}}}]\n"
            )
        };
        let owner = "  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: j, uid: u, \
                     controller: true}]\n";
        let pod = POD.replace(
            "{name: p, uid: u1}\n",
            &format!("\n  name: p\n  uid: u1\n{owner}"),
        );
        let cluster = format!("{}---\n{pod}", job(1));
        assert_eq!(changed(&cluster, &job(1)).expect("applied").0.len(), 2);
        let (objects, warnings) = changed(&cluster, &job(2)).expect("applied");
        assert!(matches!(objects.as_slice(), [Object::Job(_)]));
        assert!(
            warnings[0]
                .ends_with("(spec.template); taken as deleted and created anew, with all its pods"),
            "{warnings:?}"
        );
    }

    #[test]
    fn of_two_changes_the_later_one_counts() {
        let changes = format!("{}---\n{}", manifest(2), manifest(1));
        let (objects, warnings) = changed(POD, &changes).expect("applied");
        assert_eq!(node_of(&objects), "a");
        assert_eq!(
            warnings,
            ["Pod default/p comes twice; the later one counts"]
        );
    }

    #[test]
    fn a_change_that_does_not_fit_is_refused_with_its_place() {
        let change = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers: [{name: \
                      c, image: i, resources: {limits: {cpu: 500m}}}]\n";
        let wrong = changed(POD, change).expect_err("a request above the limit");
        assert!(
            wrong.starts_with("test.yaml:1: error: spec.containers[0].resources"),
            "{wrong}"
        );
    }

    #[test]
    fn a_part_of_a_manifest_is_enough_for_what_is_there() {
        let change = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {a: b}}\n";
        let (objects, _) = changed(POD, change).expect("applied");
        assert_eq!(objects[0].metadata().labels["a"], "b");
    }
}
