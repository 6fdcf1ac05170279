//! From what was read to a cluster that can be rehearsed: changes applied, workloads
//! expanded into pods, pods defaulted and admitted.

mod changes;
mod replica_sets;
mod rollouts;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use outrank_admission::PriorityResolver;
use outrank_api::decode::{LoadedObject, Object, ObjectKind};
use outrank_api::defaults::{add_default_tolerations, default_pod};
use outrank_api::types::{Node, Pod, PodSpec, PriorityClass};
use outrank_controllers::volumes::PersistentVolumeBinder;
use outrank_controllers::{Workload, reconcile};
use outrank_engine::Event;

use crate::storage;

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
    /// What had to be assumed because the input does not say.
    pub warnings: Vec<String>,
    /// Pods that admission refused; they are not among `pods`.
    pub refused: Vec<RefusedPod>,
    /// Pods that go: those that are too many to their controllers, and those that a change
    /// deletes. They are not among `pods`, but another pod of the same name may be.
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
    /// Builds the cluster: `objects` as they are, `changes` on top, as `kubectl apply` puts
    /// them there ([`outrank_api::apply`]). Changes must have been read with
    /// [`keep_raw`](outrank_api::decode::LoadOptions), and so should the objects that they
    /// change. Of objects that come twice the later one counts.
    ///
    /// # Errors
    /// If a change does not go together with what is there, a priority class could not be
    /// created, or workloads ask for too many pods.
    pub fn new(mut objects: Vec<LoadedObject>, changes: Vec<LoadedObject>) -> Result<Self, String> {
        let mut warnings = Vec::new();
        // Before any change: pods that run are of the templates that were.
        let missing = replica_sets::missing(&objects);
        warnings.extend(missing.iter().map(replica_sets::warning));
        let missing = missing.into_iter().map(Box::new).map(Object::ReplicaSet);
        objects.extend(missing.map(LoadedObject::from));
        let changed = changes::apply(objects, changes, &mut warnings)?;
        let mut objects = changed.objects;
        name_pods(&mut objects);
        let mut nodes = Vec::new();
        let mut pods = Vec::new();
        let mut classes = Vec::new();
        let mut workloads = Vec::new();
        let mut surroundings = Vec::new();
        for object in &objects {
            match object {
                Object::Node(node) => nodes.push((**node).clone()),
                Object::Pod(pod) => pods.push((**pod).clone()),
                Object::PriorityClass(class) => classes.push((**class).clone()),
                Object::Namespace(it) => {
                    surroundings.push(Event::NamespaceChanged((**it).clone()));
                }
                Object::Service(it) => surroundings.push(Event::ServiceChanged((**it).clone())),
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
        let deleted: Vec<Pod> = changed.deleted.into_iter().chain(surplus).collect();
        warnings.extend(rollouts::warnings(
            &objects,
            &changed.new_templates,
            &pods,
            &deleted,
            &reconciled.create,
        ));
        warnings.extend(nodes.iter().filter_map(without_resources));
        for replica_set in reconciled.replica_sets {
            surroundings.extend(Event::of_owner(&Object::ReplicaSet(Box::new(replica_set))));
        }
        let mut scenario = Self {
            nodes,
            surroundings,
            warnings,
            deleted,
            ..Self::default()
        };
        scenario.admit(pods, reconciled.create, &classes)?;
        let (storage, binder) = storage::prepare(
            &objects,
            &scenario.nodes,
            &scenario.pods,
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
        let mut scenario = Self {
            nodes,
            ..Self::default()
        };
        scenario.admit(pods, Vec::new(), classes)?;
        Ok(scenario)
    }

    fn admit(
        &mut self,
        present: Vec<Pod>,
        created: Vec<Pod>,
        classes: &[PriorityClass],
    ) -> Result<(), String> {
        let resolver = PriorityResolver::new(classes);
        for class in classes {
            resolver
                .admit_class(class)
                .map_err(|error| error.to_string())?;
        }
        let mut admission = Admission {
            resolver,
            seen: HashMap::new(),
        };
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
        Ok(())
    }
}

/// `Kind/name` of a pod's controller.
pub fn owner_of(pod: &Pod) -> Option<String> {
    pod.metadata
        .controller()
        .map(|owner| format!("{}/{}", owner.kind, owner.name))
}

/// Whether the API server has this pod already.
fn is_stored(pod: &Pod) -> bool {
    pod.metadata.creation_timestamp.is_some() && pod.spec.priority.is_some()
}

/// Defaults and admits pods; pods that share a spec before share one afterwards.
struct Admission {
    resolver: PriorityResolver,
    /// By the address of the spec before, which the entry keeps alive.
    seen: HashMap<*const PodSpec, (Arc<PodSpec>, Admitted)>,
}

/// An admitted spec, or admission's message.
type Admitted = Result<Arc<PodSpec>, String>;

impl Admission {
    fn admit(&mut self, pod: &mut Pod) -> Result<(), String> {
        let address = Arc::as_ptr(&pod.spec);
        if let Some((_, admitted)) = self.seen.get(&address) {
            pod.spec = admitted.clone()?;
            return Ok(());
        }
        let before = Arc::clone(&pod.spec);
        default_pod(pod);
        add_default_tolerations(pod);
        let admitted = self
            .resolver
            .resolve(pod)
            .map_err(|error| error.to_string());
        let result = admitted.map(|()| Arc::clone(&pod.spec));
        self.seen.insert(address, (before, result.clone()));
        result.map(|_| ())
    }
}

/// Names pods that leave that to the API server (`generateName`), by their number.
fn name_pods(objects: &mut [Object]) {
    let pods = objects
        .iter_mut()
        .filter(|object| object.kind() == ObjectKind::Pod);
    for (number, object) in pods.enumerate() {
        let metadata = object.metadata_mut();
        if metadata.name.is_empty() {
            metadata.name = format!("{}{number:05}", metadata.generate_name);
        }
    }
}

/// What to say of a node where nothing fits.
fn without_resources(node: &Node) -> Option<String> {
    node.status.allocatable.is_empty().then(|| {
        let name = &node.metadata.name;
        format!("node {name} has no allocatable resources: nothing can be placed there")
    })
}

/// The scenario of a manifest without mistakes.
#[cfg(test)]
pub(crate) fn scenario_of(manifest: &str) -> Scenario {
    let loaded = outrank_api::decode::load([("test.yaml", manifest.as_bytes())]);
    assert_eq!(loaded.errors, []);
    Scenario::new(loaded.objects, Vec::new()).expect("a scenario")
}
