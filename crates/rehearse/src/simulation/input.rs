//! From what was read to a cluster in which time passes.

use std::collections::{BTreeMap, BTreeSet};

use outrank_api::decode::{LoadedObject, Object, ObjectKind};
use outrank_api::defaults::default_object;
use outrank_api::time::rfc3339;
use outrank_api::types::{
    ControllerRevision, DaemonSet, Namespace, ObjectMeta, PersistentVolume, Pod, ResourceQuota,
    StatefulSet,
};
use outrank_controllers::garbage_collection::GarbageCollector;
use outrank_controllers::lost_revisions::lost_revision;
use outrank_controllers::node_lifecycle::NodeLifecycleOptions;
use outrank_controllers::quota_status::QuotaStatusController;
use outrank_controllers::virtual_cluster::{Admission, PodLife, VirtualCluster};
use outrank_controllers::workloads::PODS_MAX;
use outrank_controllers::{
    Controllers, Kind, Outcome, Stored, cluster_controllers, workload_controllers,
};

use super::Simulation;
use crate::run::RunOptions;
use crate::scenario::admission::{RESOURCE_QUOTA, RUNTIME_CLASS};
use crate::scenario::{AdmissionOptions, newest_time, replica_sets};

/// Namespaces that every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

impl Simulation {
    /// A cluster with these objects, at the newest time that they tell. Objects that the API server
    /// has given an identifier, pods that have their node, and what others only look up (nodes,
    /// classes, quotas, budgets) are there; workloads, claims and other pods are made now. All of it
    /// is there before anybody acts. Of objects that come twice the later one counts.
    ///
    /// # Errors
    /// What the engine refuses in its configuration, and more pods than there can be.
    pub fn of(
        mut objects: Vec<LoadedObject>,
        options: &RunOptions,
        admission: &AdmissionOptions,
    ) -> Result<Self, String> {
        refuse_too_many(&objects)?;
        let missing = replica_sets::missing(&objects);
        let missing = missing.into_iter().map(Box::new).map(Object::ReplicaSet);
        objects.extend(missing.map(LoadedObject::from));
        give_uids(&mut objects);
        let start = rfc3339(newest_time(objects.iter().map(|it| &it.object)));
        let mut simulation = Self::new(
            controllers(&objects),
            &options.engine,
            options.extensions.clone(),
            &start,
        )?;
        simulation.load_namespaces(&objects);
        // What admission looks up comes before what is admitted.
        objects.sort_by_key(|it| order_of(it.object.kind()));
        let (there, new): (Vec<_>, Vec<_>) =
            objects.into_iter().partition(|it| is_there(&it.object));
        let mut there: Vec<Stored> = there.into_iter().map(as_stored).collect();
        count_quotas(&mut there, &start);
        for stored in there {
            simulation.cluster.load(stored);
        }
        simulation.load_lost_revisions();
        simulation.cluster.admission = Some(admission_of(&simulation, admission)?);
        for loaded in new {
            simulation.make(loaded);
        }
        simulation.settle();
        Ok(simulation)
    }

    /// Makes an object as a person would; if it is refused, the timeline says so.
    pub(super) fn make(&mut self, loaded: LoadedObject) {
        let stored = Stored::from(loaded);
        let key = stored.key();
        if let Outcome::Refused(refusal) = self.cluster.try_create(stored) {
            let now = self.cluster.now();
            self.timeline.refused(&key, refusal.message, now);
        }
    }

    /// Sets whose revisions the input left out go on with the one that they say they are at.
    fn load_lost_revisions(&mut self) {
        let mut lost = Vec::new();
        let stored = self.cluster.objects().map(|(_, stored)| &**stored);
        for set in sets_without_revision(&stored.collect::<Vec<_>>()) {
            let uid = &set.metadata().uid;
            let pods = self.cluster.all::<Pod>();
            let pods = pods.filter(|pod| is_controlled_by(pod, uid));
            lost.extend(lost_revision(set, &pods.collect::<Vec<_>>()));
        }
        for revision in lost {
            self.cluster.load(Stored::typed(revision));
        }
    }

    /// Inputs seldom have the namespaces of their objects.
    fn load_namespaces(&mut self, objects: &[LoadedObject]) {
        let of_objects = objects
            .iter()
            .map(|it| it.object.metadata().namespace.as_str());
        let mut names: BTreeSet<&str> = of_objects.filter(|name| !name.is_empty()).collect();
        names.extend(NAMESPACES);
        for loaded in objects {
            if let Object::Namespace(known) = &loaded.object {
                names.remove(known.metadata.name.as_str());
            }
        }
        for name in names {
            let mut namespace = Object::Namespace(Box::new(Namespace {
                metadata: ObjectMeta {
                    name: name.to_owned(),
                    ..ObjectMeta::default()
                },
                ..Namespace::default()
            }));
            default_object(&mut namespace);
            self.cluster.load(Stored::typed(namespace));
        }
    }
}

/// All controllers. Owners that are not in the input may well be there.
fn controllers(objects: &[LoadedObject]) -> Controllers {
    let nodes = NodeLifecycleOptions {
        silent_nodes_are_lost: false,
        ..NodeLifecycleOptions::default()
    };
    let uids: BTreeSet<&str> = objects
        .iter()
        .map(|it| it.object.metadata().uid.as_str())
        .collect();
    let references = objects
        .iter()
        .flat_map(|it| &it.object.metadata().owner_references);
    let absent = references.filter(|it| !uids.contains(it.uid.as_str()));
    let collector = GarbageCollector::new().without(absent.map(|it| it.uid.clone()));
    let mut controllers = workload_controllers();
    controllers.extend(cluster_controllers(nodes, collector));
    Controllers::new(controllers)
}

fn admission_of(simulation: &Simulation, options: &AdmissionOptions) -> Result<Admission, String> {
    // Without any class in the input, pods that name one are not to be refused for that.
    let mut objects = simulation.cluster.objects();
    let is_class = |kind: &Kind| *kind == Kind::Known(ObjectKind::RuntimeClass);
    let chain = match objects.any(|(key, _)| is_class(&key.kind)) {
        true => options.chain()?,
        false => options.without(RUNTIME_CLASS).chain()?,
    };
    let limited = options.limited_resources.clone();
    Ok(Admission::new(chain, options.runs(RESOURCE_QUOTA), limited))
}

/// Whether an object is there before anything happens, and is not made by it.
fn is_there(object: &Object) -> bool {
    match object {
        Object::Node(_)
        | Object::Namespace(_)
        | Object::PriorityClass(_)
        | Object::RuntimeClass(_)
        | Object::LimitRange(_)
        | Object::ResourceQuota(_)
        | Object::PodDisruptionBudget(_) => true,
        // A pod that was written by hand and names its node has yet to be admitted.
        Object::Pod(pod) => {
            let runs = !pod.spec.node_name.is_empty() && !pod.status.phase.is_empty();
            runs || is_stored(&pod.metadata)
        }
        other => is_stored(other.metadata()),
    }
}

fn is_stored(metadata: &ObjectMeta) -> bool {
    !metadata.uid.is_empty() || metadata.creation_timestamp.is_some()
}

fn order_of(kind: ObjectKind) -> u8 {
    match kind {
        ObjectKind::Namespace => 0,
        ObjectKind::PriorityClass | ObjectKind::RuntimeClass | ObjectKind::LimitRange => 1,
        ObjectKind::ResourceQuota => 2,
        ObjectKind::Node => 3,
        kind if kind.is_storage() => 4,
        ObjectKind::PodDisruptionBudget | ObjectKind::Service => 5,
        ObjectKind::Pod => 7,
        _ => 6,
    }
}

/// Objects that people wrote without identifier and that others name as their owner get the one
/// that is meant, so that they are known to belong together.
fn give_uids(objects: &mut [LoadedObject]) {
    let mut meant: BTreeMap<(String, String, String), String> = BTreeMap::new();
    for loaded in objects.iter() {
        let metadata = loaded.object.metadata();
        for owner in &metadata.owner_references {
            let key = (
                owner.kind.clone(),
                metadata.namespace.clone(),
                owner.name.clone(),
            );
            meant.entry(key).or_insert_with(|| owner.uid.clone());
        }
    }
    for loaded in objects {
        let kind = loaded.object.kind().name().to_owned();
        let metadata = loaded.object.metadata_mut();
        if !metadata.uid.is_empty() {
            continue;
        }
        let key = (kind, metadata.namespace.clone(), metadata.name.clone());
        if let Some(uid) = meant.get(&key).filter(|uid| !uid.is_empty()) {
            metadata.uid.clone_from(uid);
            if let Some(fields) = loaded.raw.get_mut("metadata") {
                fields["uid"] = uid.as_str().into();
            }
        }
    }
}

fn as_stored(mut loaded: LoadedObject) -> Stored {
    default_object(&mut loaded.object);
    with_phase(Stored::from(loaded))
}

/// Has quotas say what is used of them, as their controller does, before more is made.
fn count_quotas(there: &mut [Stored], start: &str) {
    let quotas = there
        .iter()
        .filter(|it| it.get::<ResourceQuota>().is_some());
    let namespaces: BTreeSet<String> = quotas.map(|it| it.metadata().namespace.clone()).collect();
    if namespaces.is_empty() {
        return;
    }
    let controller = Box::new(QuotaStatusController::new());
    let mut counting = VirtualCluster::new(Controllers::new(vec![controller]), start);
    counting.pod_life = PodLife::OfKubelets;
    for stored in there.iter() {
        if namespaces.contains(&stored.metadata().namespace) {
            counting.load(stored.clone());
        }
    }
    counting.settle();
    for stored in there {
        if stored.get::<ResourceQuota>().is_some()
            && let Some(counted) = counting.stored(&stored.key())
        {
            *stored = Stored::clone(counted);
        }
    }
}

/// A volume that nobody has looked at yet is free.
fn with_phase(stored: Stored) -> Stored {
    let is_new = |volume: &PersistentVolume| {
        volume.status.phase.is_empty() && volume.spec.claim_ref.is_none()
    };
    if !stored.get::<PersistentVolume>().is_some_and(is_new) {
        return stored;
    }
    let mut volume = stored
        .get::<PersistentVolume>()
        .cloned()
        .unwrap_or_default();
    volume.status.phase = "Available".to_owned();
    Stored::typed(Object::PersistentVolume(Box::new(volume)))
}

/// What of the input may not be meant so, where time passes.
pub fn doubts(objects: &[LoadedObject]) -> Vec<String> {
    let missing = replica_sets::missing(objects);
    let mut doubts: Vec<String> = missing.iter().map(replica_sets::warning).collect();
    let stored: Vec<Stored> = objects.iter().cloned().map(Stored::from).collect();
    for set in sets_without_revision(&stored.iter().collect::<Vec<_>>()) {
        let (kind, metadata) = (set.kind(), set.metadata());
        let pods = stored.iter().filter_map(|it| it.get::<Pod>());
        let pods = pods.filter(|pod| is_controlled_by(pod, &metadata.uid));
        let pods: Vec<&Pod> = pods.collect();
        if is_stored(metadata) && !pods.is_empty() && lost_revision(set, &pods).is_none() {
            doubts.push(format!(
                "{} {}/{} has no ControllerRevision in the input, and its status does not say \
                 which pods are of its template: they count as outdated and are made anew; dump \
                 controllerrevisions, too",
                kind.name(),
                metadata.namespace,
                metadata.name
            ));
        }
    }
    doubts
}

/// The StatefulSets and DaemonSets that own no ControllerRevision.
fn sets_without_revision<'s>(objects: &[&'s Stored]) -> Vec<&'s Stored> {
    let revisions = objects.iter();
    let revisions = revisions.filter(|it| it.get::<ControllerRevision>().is_some());
    let owners = revisions.flat_map(|it| &it.metadata().owner_references);
    let with_revision: BTreeSet<&str> = owners.map(|owner| owner.uid.as_str()).collect();
    let sets = objects.iter().copied().filter(|it| {
        let has_revisions = it.get::<StatefulSet>().is_some() || it.get::<DaemonSet>().is_some();
        has_revisions && !with_revision.contains(it.metadata().uid.as_str())
    });
    sets.collect()
}

fn is_controlled_by(pod: &Pod, uid: &str) -> bool {
    let controller = pod.metadata.controller();
    controller.is_some_and(|owner| owner.uid == uid)
}

/// # Errors
/// If workloads ask for more pods together than there can be.
fn refuse_too_many(objects: &[LoadedObject]) -> Result<(), String> {
    let wanted = objects.iter().map(|loaded| match &loaded.object {
        Object::Deployment(it) => it.spec.replicas,
        Object::ReplicationController(it) => it.spec.replicas,
        Object::StatefulSet(it) => it.spec.replicas,
        Object::Job(it) => it.spec.parallelism,
        Object::ReplicaSet(it) if it.metadata.controller().is_none() => it.spec.replicas,
        _ => None,
    });
    let wanted: u64 = wanted
        .flatten()
        .map(|pods| u64::try_from(pods).unwrap_or(0))
        .sum();
    match wanted > PODS_MAX as u64 {
        true => Err(format!(
            "workloads want {wanted} pods; all together can have at most {PODS_MAX}: ask for fewer \
             replicas"
        )),
        false => Ok(()),
    }
}
