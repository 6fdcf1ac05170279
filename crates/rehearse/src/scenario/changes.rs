//! Changes on top of a cluster, as `kubectl apply` makes them.

use std::collections::{HashMap, HashSet};

use outrank_api::apply;
use outrank_api::decode::{LoadedObject, Object, ObjectKind};
use outrank_api::defaults::add_default_tolerations;
use outrank_api::update::refused_change;

/// Kind, namespace and name.
type Key = (ObjectKind, String, String);

/// Puts changes on top of objects. Of objects that come twice on one side, the later one
/// counts, with a warning. What a cluster would refuse to change is taken as deleted and
/// created anew, with a warning, and what belonged to it is gone.
///
/// # Errors
/// Changes whose outcome is not valid: all of them, one a line.
pub(super) fn apply(
    objects: Vec<Object>,
    changes: Vec<LoadedObject>,
    warnings: &mut Vec<String>,
) -> Result<Vec<Object>, String> {
    let mut merged = the_later_ones(objects, |object| object, warnings);
    let changes = the_later_ones(changes, |change| &change.object, warnings);
    let places = merged.iter().enumerate();
    let places: HashMap<Key, usize> = places.map(|(place, it)| (key(it), place)).collect();
    let mut replaced = Vec::new();
    let mut wrong = Vec::new();
    for change in changes {
        let place = places.get(&key(&change.object));
        // Objects that get their name from the server are always new.
        let Some(place) = place.filter(|_| is_named(&change.object)) else {
            merged.push(change.object);
            continue;
        };
        match apply::apply(&merged[*place], &change.raw) {
            Ok(mut object) => match refused(&merged[*place], &mut object) {
                None => merged[*place] = object,
                Some(path) => {
                    warnings.push(created_anew(&merged[*place], path));
                    replaced.push(key(&change.object));
                    merged[*place] = change.object;
                }
            },
            Err(findings) => {
                let findings = findings.iter();
                wrong.extend(findings.map(|it| format!("{}: error: {it}", change.origin)));
            }
        }
    }
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }
    remove_dependents(&mut merged, replaced);
    Ok(merged)
}

/// What the API server would refuse of a change, after its admission has had its say.
fn refused(before: &Object, after: &mut Object) -> Option<&'static str> {
    if let Object::Pod(pod) = after {
        add_default_tolerations(pod);
    }
    refused_change(before, after)
}

/// `items` without those of which a later one has the same kind and name, in their order.
fn the_later_ones<T>(
    items: Vec<T>,
    object: impl Fn(&T) -> &Object,
    warnings: &mut Vec<String>,
) -> Vec<T> {
    let mut places: HashMap<Key, usize> = HashMap::new();
    let mut kept: Vec<T> = Vec::new();
    for item in items {
        if is_named(object(&item)) {
            if let Some(place) = places.get(&key(object(&item))) {
                let name = described(object(&item));
                warnings.push(format!("{name} comes twice; the later one counts"));
                kept[*place] = item;
                continue;
            }
            places.insert(key(object(&item)), kept.len());
        }
        kept.push(item);
    }
    kept
}

fn is_named(object: &Object) -> bool {
    !object.metadata().name.is_empty()
}

fn key(object: &Object) -> Key {
    let metadata = object.metadata();
    (
        object.kind(),
        metadata.namespace.clone(),
        metadata.name.clone(),
    )
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
        Object::PriorityClass(_) => ", by which pods that exist keep their priority",
        Object::Pod(_) => ", by which it loses its node",
        Object::PersistentVolumeClaim(_) => ", by which it loses its volume",
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

/// Takes out what belongs to objects that were deleted, as garbage collection does.
fn remove_dependents(objects: &mut Vec<Object>, owners: Vec<Key>) {
    let mut owners: HashSet<Key> = owners.into_iter().collect();
    loop {
        let before = objects.len();
        let mut gone = Vec::new();
        objects.retain(|object| {
            let metadata = object.metadata();
            let is_gone = metadata.owner_references.iter().any(|owner| {
                let kind = ObjectKind::find(&owner.api_version, &owner.kind);
                kind.is_some_and(|kind| {
                    let namespace = match kind.is_namespaced() {
                        true => metadata.namespace.clone(),
                        false => String::new(),
                    };
                    owners.contains(&(kind, namespace, owner.name.clone()))
                })
            });
            if is_gone {
                gone.push(key(object));
            }
            !is_gone
        });
        owners.extend(gone);
        if owners.is_empty() || objects.len() == before {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use outrank_api::decode::{LoadOptions, load_with};

    use super::*;

    fn read(text: &str) -> Vec<LoadedObject> {
        let options = LoadOptions { keep_raw: true };
        let loaded = load_with(options, [("test.yaml", text.as_bytes())]);
        assert_eq!(loaded.errors, []);
        loaded.objects
    }

    /// The objects after the change, and the warnings.
    fn changed(objects: &str, changes: &str) -> Result<(Vec<Object>, Vec<String>), String> {
        let objects = read(objects).into_iter().map(|it| it.object).collect();
        let mut warnings = Vec::new();
        apply(objects, read(changes), &mut warnings).map(|merged| (merged, warnings))
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
        let mut live = read(&change).remove(0).object;
        let Object::Pod(pod) = &mut live else {
            panic!("{live:?}")
        };
        add_default_tolerations(pod);
        let mut warnings = Vec::new();
        let merged = apply(vec![live.clone()], read(&change), &mut warnings);
        assert_eq!((merged, warnings.len()), (Ok(vec![live]), 0));
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
}
