//! From what was read to a cluster that can be rehearsed: changes made, workloads expanded
//! into pods, pods defaulted and admitted.

pub(crate) mod admission;
mod apply;
mod budgets;
mod changes;
pub(crate) mod commands;
mod garbage;
mod left_out;
pub(crate) mod quotas;
pub(crate) mod replica_sets;
mod rollouts;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use outrank_api::decode::{LoadedObject, Object, ObjectKey, ObjectKind};
use outrank_api::quantity::{Format, Quantity};
use outrank_api::time::unix_nanos;
use outrank_api::types::{Node, Pod, PodDisruptionBudget, PodSpec, PriorityClass};
use outrank_controllers::volumes::PersistentVolumeBinder;
use outrank_controllers::{Workload, reconcile};
use outrank_engine::Event;
use outrank_engine::preemption::safety::{NON_PREEMPTIBLE, PREEMPTION_POLICY};

use crate::run::kills::scales;
use crate::storage;

use admission::{Admission, AdmissionObjects, RESOURCE_QUOTA};
use quotas::Quotas;

pub use admission::AdmissionOptions;
pub use changes::{Changes, NodeTaint, ObjectName, Scale};

/// A cluster with everything that wants to run on it.
#[derive(Clone, Debug, Default)]
pub struct Scenario {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// Pods that were there, in the order of the input, and then those that their
    /// controllers create. All are defaulted and have their priority.
    pub pods: Vec<Pod>,
    /// Labels of namespaces, services, which pods workloads select, and storage: what is
    /// read beside pods and nodes.
    pub surroundings: Vec<Event>,
    /// Who binds claims to volumes once their pods are placed.
    pub binder: PersistentVolumeBinder,
    /// PodDisruptionBudgets, as they were written.
    pub budgets: Vec<PodDisruptionBudget>,
    /// ResourceQuotas, with what all these pods use of them.
    pub(crate) quotas: Quotas,
    /// How many replicas controllers ask for.
    pub scales: HashMap<ObjectKey, i32>,
    /// The newest time that objects tell (of their creation, start, conditions, heartbeats), in
    /// nanoseconds since 1970; 0 if there is none.
    pub as_of_nanos: i64,
    /// What had to be assumed because the input does not say.
    pub warnings: Vec<String>,
    /// Pods that admission refused; they are not among `pods`.
    pub refused: Vec<RefusedPod>,
    /// Pods that go: those that a change deletes or evicts, and those that are too many to
    /// their controllers. They are not among `pods`, but another pod of the same name may be.
    pub deleted: Vec<Pod>,
}

/// A pod that the API server would not have created.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct RefusedPod {
    /// `namespace/name`.
    pub pod: String,
    /// Kind and name of its owner, if it has one.
    pub owner: Option<String>,
    /// Admission's message.
    pub message: String,
}

impl Scenario {
    /// Builds the cluster: `objects` as they are, with `changes` made to them. Of objects
    /// that come twice the later one counts.
    ///
    /// # Errors
    /// If a change does not go together with what is there, a priority class could not be
    /// created, or workloads ask for too many pods.
    pub fn new(objects: Vec<LoadedObject>, changes: Changes) -> Result<Self, String> {
        Self::with_admission(objects, changes, &AdmissionOptions::default())
    }

    /// The same where the API server's admission is not configured as usual.
    ///
    /// # Errors
    /// As [`Scenario::new`].
    pub fn with_admission(
        mut objects: Vec<LoadedObject>,
        mut changes: Changes,
        options: &AdmissionOptions,
    ) -> Result<Self, String> {
        let mut warnings = Vec::new();
        // Before any change: pods that run are of the templates that were.
        let missing = replica_sets::missing(&objects);
        warnings.extend(missing.iter().map(replica_sets::warning));
        let missing = missing.into_iter().map(Box::new).map(Object::ReplicaSet);
        objects.extend(missing.map(LoadedObject::from));
        let applied = std::mem::take(&mut changes.apply);
        let mut applied = apply::apply(objects, applied, &mut warnings)?;
        name_objects(&mut applied.objects);
        let carried_out = commands::carry_out(&changes, applied.objects, &mut warnings)?;
        let objects = carried_out.objects;
        let mut nodes = Vec::new();
        let mut pods = Vec::new();
        let mut admission = AdmissionObjects::default();
        let mut workloads = Vec::new();
        let mut surroundings = Vec::new();
        let mut budgets = Vec::new();
        for object in &objects {
            match object {
                Object::Node(node) => nodes.push((**node).clone()),
                Object::Pod(pod) => pods.push((**pod).clone()),
                Object::PriorityClass(class) => {
                    admission.priority_classes.push((**class).clone());
                    surroundings.push(Event::PriorityClassChanged((**class).clone()));
                }
                Object::Namespace(it) => {
                    surroundings.push(Event::NamespaceChanged((**it).clone()));
                }
                Object::Service(it) => surroundings.push(Event::ServiceChanged((**it).clone())),
                Object::PodDisruptionBudget(it) => budgets.push((**it).clone()),
                Object::LimitRange(it) => admission.add_limit_range((**it).clone()),
                Object::RuntimeClass(it) => {
                    let name = it.metadata.name.clone();
                    admission.runtime_classes.insert(name, (**it).clone());
                }
                workload => {
                    workloads.extend(Workload::of(workload));
                    surroundings.extend(Event::of_owner(workload));
                }
            }
        }
        let reconciled = reconcile(&workloads, &pods, &nodes).map_err(|error| error.to_string())?;
        let surplus: HashSet<&String> = reconciled.delete.iter().collect();
        let (surplus, pods): (Vec<Pod>, Vec<Pod>) = pods
            .into_iter()
            .partition(|pod| surplus.contains(&pod.key()));
        let replaced: Vec<Pod> = applied.deleted.into_iter().chain(surplus).collect();
        warnings.extend(rollouts::warnings(
            &objects,
            &applied.new_templates,
            &pods,
            &replaced,
            &reconciled.create,
        ));
        let deleted = carried_out.deleted.into_iter().chain(replaced).collect();
        warnings.extend(nodes.iter().filter_map(without_resources));
        warnings.extend(
            admission
                .priority_classes
                .iter()
                .filter_map(misspelt_policy),
        );
        warnings.extend(boundless_requests(pods.iter().chain(&reconciled.create)));
        warnings.extend(left_out::evictions(&nodes, &pods));
        let new_pods = pods
            .iter()
            .filter(|pod| !is_stored(pod) && !pod.is_finished());
        let new_pods = new_pods.chain(&reconciled.create);
        warnings.extend(left_out::missing_namespaces(&objects, new_pods));
        let mut scales = scales(objects.iter());
        for replica_set in reconciled.replica_sets {
            let metadata = &replica_set.metadata;
            let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
            let replicas = replica_set.spec.replicas.unwrap_or(1);
            scales.insert((ObjectKind::ReplicaSet, namespace, name), replicas);
            surroundings.extend(Event::of_owner(&Object::ReplicaSet(Box::new(replica_set))));
        }
        let mut scenario = Self {
            nodes,
            surroundings,
            warnings,
            deleted,
            budgets,
            scales,
            as_of_nanos: newest_time(objects.iter()),
            ..Self::default()
        };
        let mut quotas = Quotas::default();
        if options.runs(RESOURCE_QUOTA) {
            let stored = pods.iter().filter(|pod| is_stored(pod));
            let limited = &options.limited_resources;
            quotas = Quotas::new(&objects, stored, limited, scenario.as_of_nanos);
        }
        let mut admission = Admission::new(&admission, options, quotas)?;
        scenario.admit(pods, reconciled.create, &mut admission);
        scenario.quotas = admission.into_quotas();
        let (storage, binder) = storage::prepare(
            &objects,
            &scenario.nodes,
            &scenario.pods,
            &scenario.deleted,
            &mut scenario.warnings,
        );
        scenario.surroundings.extend(storage);
        scenario.binder = binder;
        Ok(scenario)
    }

    /// Builds a cluster of nodes and pods that are new to it.
    ///
    /// # Errors
    /// If a priority class could not be created.
    pub fn of_new_pods(
        nodes: Vec<Node>,
        pods: Vec<Pod>,
        classes: &[PriorityClass],
    ) -> Result<Self, String> {
        let classes_told = classes.iter().cloned().map(Event::PriorityClassChanged);
        let mut scenario = Self {
            nodes,
            surroundings: classes_told.collect(),
            ..Self::default()
        };
        let admission = AdmissionObjects {
            priority_classes: classes.to_vec(),
            ..AdmissionObjects::default()
        };
        let options = AdmissionOptions::default();
        let mut admission = Admission::new(&admission, &options, Quotas::default())?;
        scenario.admit(pods, Vec::new(), &mut admission);
        Ok(scenario)
    }

    fn admit(&mut self, present: Vec<Pod>, created: Vec<Pod>, admission: &mut Admission<'_>) {
        let present = present.into_iter().map(|pod| (is_stored(&pod), pod));
        let created = created.into_iter().map(|pod| (false, pod));
        for (is_stored, mut pod) in present.chain(created) {
            // What the API server has stored went through admission then.
            match if is_stored {
                Ok(())
            } else {
                admission.admit(&mut pod)
            } {
                Ok(()) => self.pods.push(pod),
                Err(message) => self.refused.push(RefusedPod {
                    pod: pod.key(),
                    owner: owner_of(&pod),
                    message,
                }),
            }
        }
    }
}

/// `Kind/name` of a pod's controller.
pub fn owner_of(pod: &Pod) -> Option<String> {
    pod.metadata
        .controller()
        .map(|owner| format!("{}/{}", owner.kind, owner.name))
}

/// Pods for people: the first few, and how many more there are.
fn named(pods: &[&Pod]) -> String {
    const NAMED: usize = 3;
    let mut names: Vec<String> = pods.iter().take(NAMED).map(|pod| pod.key()).collect();
    if pods.len() > NAMED {
        names.push(format!("{} more", pods.len() - NAMED));
    }
    names.join(", ")
}

/// Whether the API server has this pod already: what it has says when it was created, or at
/// least that it runs.
fn is_stored(pod: &Pod) -> bool {
    let runs = !pod.spec.node_name.is_empty() && !pod.status.phase.is_empty();
    pod.spec.priority.is_some() && (pod.metadata.creation_timestamp.is_some() || runs)
}

/// Names objects that leave that to the API server (`generateName`), by their number.
fn name_objects(objects: &mut [Object]) {
    let taken: HashSet<ObjectKey> = objects.iter().map(Object::key).collect();
    let mut numbers: HashMap<ObjectKind, usize> = HashMap::new();
    for object in objects {
        if !object.metadata().name.is_empty() {
            continue;
        }
        let number = numbers.entry(object.kind()).or_default();
        loop {
            let metadata = object.metadata_mut();
            metadata.name = format!("{}{number:05}", metadata.generate_name);
            *number += 1;
            if !taken.contains(&object.key()) {
                break;
            }
        }
    }
}

/// The newest time that objects tell: of their creation, start, conditions and heartbeats.
pub(crate) fn newest_time<'o>(objects: impl Iterator<Item = &'o Object>) -> i64 {
    let times = objects.flat_map(|object| {
        let created = object.metadata().creation_timestamp.as_deref();
        let told: Vec<&str> = match object {
            Object::Pod(pod) => {
                let conditions = pod.status.conditions.iter();
                let changed = conditions.filter_map(|it| it.last_transition_time.as_deref());
                changed.chain(pod.status.start_time.as_deref()).collect()
            }
            Object::Node(node) => {
                let conditions = node.status.conditions.iter();
                let times =
                    conditions.flat_map(|it| [&it.last_heartbeat_time, &it.last_transition_time]);
                times.flatten().map(String::as_str).collect()
            }
            _ => Vec::new(),
        };
        created.into_iter().chain(told)
    });
    times.filter_map(unix_nanos).max().unwrap_or(0)
}

/// What to say of a node where nothing fits.
fn without_resources(node: &Node) -> Option<String> {
    node.status.allocatable.is_empty().then(|| {
        let name = &node.metadata.name;
        format!("node {name} has no allocatable resources: nothing can be placed there")
    })
}

/// What to say of a priority class whose annotation protects nobody since it is misspelt.
fn misspelt_policy(class: &PriorityClass) -> Option<String> {
    let policy = class.metadata.annotations.get(PREEMPTION_POLICY)?;
    (policy != NON_PREEMPTIBLE).then(|| {
        format!(
            "PriorityClass {}: annotation {PREEMPTION_POLICY}: {policy:?} means nothing; did you \
             mean {NON_PREEMPTIBLE:?}?",
            class.metadata.name
        )
    })
}

/// What to say of pods that ask for so much that sums of a few of them do not fit into 64 bits.
fn boundless_requests<'p>(pods: impl Iterator<Item = &'p Pod>) -> Option<String> {
    // An exbibyte, or so many units.
    let much = Quantity::from_value(1 << 60, Format::BinarySi);
    let mut last: Option<&Arc<PodSpec>> = None;
    let mut pods = pods.filter(|pod| {
        let is_told = last.is_some_and(|spec| Arc::ptr_eq(spec, &pod.spec));
        last = Some(&pod.spec);
        let containers = pod.spec.containers.iter().chain(&pod.spec.init_containers);
        let mut requests = containers.flat_map(|it| it.resources.requests.values());
        !is_told && requests.any(|amount| *amount > much)
    });
    let first = pods.next()?.key();
    let more = match pods.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "pod {first}{more}: asks for more than 1Ei of a resource; sums beyond 64 bits overflow, as \
         they do in kube-scheduler"
    ))
}

/// The scenario of a manifest without mistakes.
#[cfg(test)]
pub(crate) fn scenario_of(manifest: &str) -> Scenario {
    let loaded = outrank_api::decode::load([("test.yaml", manifest.as_bytes())]);
    assert_eq!(loaded.errors, []);
    Scenario::new(loaded.objects, Changes::default()).expect("a scenario")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use outrank_api::decode::{KeepRaw, LoadOptions, load_with};

    use super::*;

    const NODE: &str = "apiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus: {allocatable: \
                        {cpu: 4, memory: 8Gi, pods: 9}}\n";

    /// A Deployment of one pod, and a ReplicaSet and a pod as the cluster made them of it.
    fn deployment(args: &str) -> String {
        format!(
            "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web, uid: d}}\nspec:\n  \
             selector: {{matchLabels: {{app: web}}}}\n  template:\n    metadata: {{labels: {{app: \
             web}}}}\n    spec: {{containers: [{{name: c, image: i, args: [{args}]}}]}}\n"
        )
    }

    fn running(args: &str) -> String {
        let owner = |kind: &str, name: &str, uid: &str| {
            format!(
                "ownerReferences: [{{apiVersion: apps/v1, kind: {kind}, name: {name}, uid: {uid}, \
                 controller: true}}]"
            )
        };
        let (of_deployment, of_set) = (
            owner("Deployment", "web", "d"),
            owner("ReplicaSet", "web-1", "r"),
        );
        format!(
            "---\napiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {{name: web-1, uid: r, \
             {of_deployment}}}\nspec:\n  replicas: 1\n  selector: {{matchLabels: {{app: \
             web}}}}\n  template:\n    metadata: {{labels: {{app: web, pod-template-hash: \
             \"1\"}}}}\n    spec: {{containers: [{{name: c, image: i, args: [{args}]}}]}}\n\
             ---\napiVersion: v1\nkind: Pod\nmetadata: {{name: web-1-x, labels: {{app: web, \
             pod-template-hash: \"1\"}}, {of_set}}}\nspec: {{nodeName: a, containers: [{{name: c, \
             image: i, args: [{args}]}}]}}\nstatus: {{phase: Running}}\n"
        )
    }

    fn changed(cluster: &str, change: &str) -> Scenario {
        let read = |text: &str, partial: Option<&HashSet<ObjectKey>>| {
            let keep_raw = KeepRaw::All;
            let options = LoadOptions { keep_raw, partial };
            let loaded = load_with(options, [("test.yaml", text.as_bytes())]);
            assert_eq!(loaded.errors, []);
            loaded.objects
        };
        let objects = read(cluster, None);
        let known = objects.iter().map(|it| it.object.key()).collect();
        Scenario::new(objects, read(change, Some(&known)).into()).expect("a scenario")
    }

    fn is_replaced(scenario: &Scenario) -> bool {
        scenario
            .deleted
            .iter()
            .any(|pod| pod.metadata.name == "web-1-x")
    }

    #[test]
    fn what_only_the_kubelet_reads_is_rolled_out_too() {
        let cluster = [NODE, &deployment("x"), &running("x")].concat();
        assert!(!is_replaced(&changed(&cluster, &deployment("x"))));
        let scenario = changed(&cluster, &deployment("z"));
        assert!(is_replaced(&scenario));
        assert_eq!(scenario.pods.len(), 1);
        assert_ne!(scenario.pods[0].metadata.name, "web-1-x");
    }

    #[test]
    fn a_change_is_rolled_out_without_the_replica_set_in_the_dump() {
        let running = running("x");
        let (_, pod) = running.split_once("---\napiVersion: v1").expect("a pod");
        let cluster = [NODE, &deployment("x"), "---\napiVersion: v1", pod].concat();
        assert!(!is_replaced(&changed(&cluster, &deployment("x"))));
        assert!(is_replaced(&changed(&cluster, &deployment("z"))));
    }

    #[test]
    fn generated_names_are_not_those_that_are_taken() {
        let pod = |name: &str| {
            format!(
                "---\napiVersion: v1\nkind: Pod\nmetadata: {{{name}}}\nspec: {{containers: [{{name: \
                 c, image: i}}]}}\n"
            )
        };
        let pods = [
            pod("name: k-00000"),
            pod("generateName: k-"),
            pod("generateName: k-"),
        ];
        let scenario = scenario_of(&pods.concat());
        let names: HashSet<&str> = scenario
            .pods
            .iter()
            .map(|pod| &*pod.metadata.name)
            .collect();
        assert_eq!(names.len(), 3, "{names:?}");
        let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: j-}\nspec: {template: \
                   {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}\n";
        assert!(scenario_of(job).pods[0].metadata.name.starts_with("j-0"));
    }
}
