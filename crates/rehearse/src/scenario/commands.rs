//! Deleting, scaling, cordoning, tainting and draining, as kubectl does it, with what
//! controllers make of it.
//!
//! Only the end counts. Pods that go are gone, whatever their grace period; that their
//! controllers make new ones is for [`outrank_controllers::reconcile`].

use std::collections::{BTreeSet, HashMap, HashSet};

use outrank_admission::namespace_lifecycle::IMMORTAL_NAMESPACES;
use outrank_api::decode::{Object, ObjectKey, ObjectKind};
use outrank_api::schema::nearest;
use outrank_api::taints::{TaintSpecs, taint_string, tolerates};
use outrank_api::types::{Node, Pod, Taint};

use super::changes::{Changes, NodeTaint, ObjectName, Scale};
use super::{budgets, garbage, named};
use crate::storage::claim_of;

/// Objects after commands.
#[derive(Debug, Default)]
pub(super) struct CarriedOut {
    /// All objects.
    pub objects: Vec<Object>,
    /// Pods that were deleted or evicted and had not ended.
    pub deleted: Vec<Pod>,
}

/// Makes all changes but those by applied objects.
///
/// # Errors
/// Changes of what there is not, and taints that cannot be added or removed: all of them, one
/// a line.
pub(super) fn carry_out(
    changes: &Changes,
    objects: Vec<Object>,
    warnings: &mut Vec<String>,
) -> Result<CarriedOut, String> {
    let mut carried = CarriedOut {
        objects,
        deleted: Vec::new(),
    };
    // An index of all objects is worth its time only if there is something to look up.
    if !changes.has_commands() {
        return Ok(carried);
    }
    let mut cluster = Cluster {
        places: places(&carried.objects),
        objects: std::mem::take(&mut carried.objects),
        deleted: Vec::new(),
        terminating: HashSet::new(),
        warnings,
        wrong: Vec::new(),
    };
    cluster.delete(&changes.delete);
    cluster.scale(&changes.scale);
    for name in &changes.cordon {
        cluster.cordon("cordon", name);
    }
    cluster.taint(&changes.taint);
    cluster.drain(&changes.drain);
    if !cluster.wrong.is_empty() {
        return Err(cluster.wrong.join("\n"));
    }
    cluster.remove_unused();
    Ok(CarriedOut {
        objects: cluster.objects,
        deleted: cluster.deleted,
    })
}

struct Cluster<'w> {
    objects: Vec<Object>,
    /// Where each object is.
    places: HashMap<ObjectKey, usize>,
    deleted: Vec<Pod>,
    /// Claims and volumes that go as soon as nobody uses them.
    terminating: HashSet<ObjectKey>,
    warnings: &'w mut Vec<String>,
    wrong: Vec<String>,
}

fn places(objects: &[Object]) -> HashMap<ObjectKey, usize> {
    let places = objects.iter().enumerate();
    places
        .map(|(place, object)| (object.key(), place))
        .collect()
}

impl Cluster<'_> {
    /// Deletes objects with their dependents, all at once: what a namespace holds, and the
    /// pods of a node, which the pod garbage collector takes away, belong to them.
    fn delete(&mut self, names: &[ObjectName]) {
        let mut doomed: HashSet<usize> = HashSet::new();
        let (mut nodes, mut namespaces) = (HashSet::new(), HashSet::new());
        for name in names {
            match self.doomed_by(name) {
                Ok(place) => doomed.extend(place),
                Err(why) => {
                    self.wrong.push(format!("cannot delete {name}: {why}"));
                    continue;
                }
            }
            match name.kind {
                ObjectKind::Node => nodes.insert(name.name.as_str()),
                ObjectKind::Namespace => namespaces.insert(name.name.as_str()),
                _ => continue,
            };
        }
        // Who names a pod without a controller knows that it goes for good.
        let is_controlled = |pod: &Pod| pod.metadata.controller().is_some();
        let named = doomed.iter().copied();
        let named = named.filter(|place| self.pod(*place).is_some_and(is_controlled));
        let left_behind = self.pods_on(&nodes, |_| true);
        let pods: BTreeSet<usize> = named.chain(left_behind).collect();
        self.tell_without_controller(&pods);
        doomed.extend(pods);
        let places = self.objects.iter().enumerate();
        let inside = places.filter(|(_, it)| namespaces.contains(&*it.metadata().namespace));
        doomed.extend(inside.map(|(place, _)| place));
        self.remove(doomed);
    }

    /// The object that is to be deleted. It may not be there itself: a namespace that has
    /// something in it, or a pod that is made again at once.
    fn doomed_by(&mut self, name: &ObjectName) -> Result<Option<usize>, String> {
        if name.kind == ObjectKind::Namespace {
            if IMMORTAL_NAMESPACES.contains(&name.name.as_str()) {
                return Err("this namespace may not be deleted".to_owned());
            }
            let mut objects = self.objects.iter();
            if objects.any(|object| object.metadata().namespace == name.name) {
                return Ok(self.find(name).ok());
            }
        }
        let place = self.find(name)?;
        if let Object::Pod(pod) = &self.objects[place]
            && is_mirror(pod)
        {
            let warning =
                format!("{name} is a mirror pod, which its kubelet makes again: it stays");
            self.warnings.push(warning);
            return Ok(None);
        }
        Ok(Some(place))
    }

    fn scale(&mut self, scales: &[Scale]) {
        for Scale {
            object: name,
            replicas,
        } in scales
        {
            let place = match self.find(name) {
                Ok(place) => place,
                Err(why) => {
                    self.wrong.push(format!("cannot scale {name}: {why}"));
                    continue;
                }
            };
            let object = &mut self.objects[place];
            if let Some(number) = replicas_of(object) {
                *number = Some(*replicas);
            }
            let owner = self.objects[place].metadata().controller();
            if let Some(owner) = owner.filter(|owner| owner.kind == "Deployment") {
                self.warnings.push(format!(
                    "{name} belongs to Deployment {}, which says how many pods it has: scale that",
                    owner.name
                ));
            }
        }
    }

    /// Marks a node as unschedulable; `what` is done to it, for errors.
    fn cordon(&mut self, what: &str, name: &str) {
        if let Some(node) = self.node(what, name) {
            node.spec.unschedulable = true;
            // The node lifecycle controller says it with a taint, too.
            let taint = Taint {
                key: "node.kubernetes.io/unschedulable".to_owned(),
                effect: "NoSchedule".to_owned(),
                ..Taint::default()
            };
            let is_same = |it: &Taint| it.key == taint.key && it.effect == taint.effect;
            if !node.spec.taints.iter().any(is_same) {
                node.spec.taints.push(taint);
            }
        }
    }

    /// Taints nodes, and evicts the pods that do not tolerate a new taint for ever.
    fn taint(&mut self, taints: &[NodeTaint]) {
        let mut evicted = BTreeSet::new();
        for NodeTaint { node: name, taints } in taints {
            let Some(node) = self.node("taint", name) else {
                continue;
            };
            match tainted(node, taints) {
                Ok(taints) => node.spec.taints = taints,
                Err(why) => {
                    self.wrong.push(format!("cannot taint Node {name}: {why}"));
                    continue;
                }
            }
            let goes = |pod: &Pod| taints.add.iter().any(|taint| evicts(taint, pod));
            evicted.extend(self.pods_on(&HashSet::from([name.as_str()]), |pod| {
                goes(pod) && !is_mirror(pod)
            }));
        }
        self.evict(evicted);
    }

    /// Cordons nodes and evicts their pods, but those that would be back at once.
    fn drain(&mut self, names: &[String]) {
        for name in names {
            self.cordon("drain", name);
        }
        let nodes = names.iter().map(String::as_str).collect();
        let evicted = self.pods_on(&nodes, is_drained);
        let pods: Vec<&Pod> = evicted.iter().filter_map(|it| self.pod(*it)).collect();
        let warnings = budgets::warnings(&self.objects, &pods);
        self.warnings.extend(warnings);
        self.evict(evicted);
    }

    fn evict(&mut self, pods: BTreeSet<usize>) {
        self.tell_without_controller(&pods);
        self.remove(pods.into_iter().collect());
    }

    /// Takes out objects and what belongs to them.
    fn remove(&mut self, doomed: HashSet<usize>) {
        if doomed.is_empty() {
            return;
        }
        let owners = doomed.iter().map(|place| self.objects[*place].key());
        let owners = owners.collect();
        let mut gone = garbage::dependents(&mut self.objects, owners);
        gone.extend(doomed);
        let objects = std::mem::take(&mut self.objects);
        for (place, mut object) in objects.into_iter().enumerate() {
            if !gone.contains(&place) {
                self.objects.push(object);
                continue;
            }
            match &mut object {
                Object::Pod(pod) if !pod.is_finished() => self.deleted.push((**pod).clone()),
                // Finalizers keep them until nobody uses them; only then it is known who does.
                Object::PersistentVolumeClaim(_) | Object::PersistentVolume(_) => {
                    // When does not matter to anybody here, only that it is so.
                    let time = "1970-01-01T00:00:00Z".to_owned();
                    object.metadata_mut().deletion_timestamp.get_or_insert(time);
                    self.terminating.insert(object.key());
                    self.objects.push(object);
                }
                _ => {}
            }
        }
        self.places = places(&self.objects);
    }

    /// Takes out deleted claims that no pod on a node uses, and deleted volumes that are not
    /// bound (`pkg/controller/volume/{pvcprotection,pvprotection}`, Kubernetes 1.36).
    fn remove_unused(&mut self) {
        if self.terminating.is_empty() {
            return;
        }
        let pods = self.objects.iter().filter_map(|object| match object {
            Object::Pod(pod) if !pod.spec.node_name.is_empty() => Some(pod),
            _ => None,
        });
        let used = pods.flat_map(|pod| pod.spec.volumes.iter().filter_map(|it| claim_of(pod, it)));
        let used: HashSet<(String, String)> = used.collect();
        let terminating = std::mem::take(&mut self.terminating);
        self.objects.retain(|object| match object {
            Object::PersistentVolumeClaim(claim) => {
                let metadata = &claim.metadata;
                !terminating.contains(&object.key())
                    || used.contains(&(metadata.namespace.clone(), metadata.name.clone()))
            }
            _ => true,
        });
        let bound = self.objects.iter().filter_map(|object| match object {
            Object::PersistentVolumeClaim(claim) => Some(claim.spec.volume_name.clone()),
            _ => None,
        });
        let bound: HashSet<String> = bound.collect();
        self.objects.retain(|object| match object {
            Object::PersistentVolume(volume) => {
                !terminating.contains(&object.key()) || bound.contains(&volume.metadata.name)
            }
            _ => true,
        });
    }

    /// Tells of pods which nobody makes anew, or of which it is not known.
    fn tell_without_controller(&mut self, pods: &BTreeSet<usize>) {
        let (mut bare, mut unknown) = (Vec::new(), Vec::new());
        for pod in pods.iter().filter_map(|place| self.pod(*place)) {
            let Some(controller) = pod.metadata.controller() else {
                bare.push(pod);
                continue;
            };
            let key = garbage::owner_key(&pod.metadata, controller);
            if key.is_none_or(|key| !self.places.contains_key(&key)) {
                unknown.push(pod);
            }
        }
        let mut told = Vec::new();
        if !bare.is_empty() {
            let names = named(&bare);
            told.push(format!("pods without a controller go for good: {names}"));
        }
        if !unknown.is_empty() {
            let names = named(&unknown);
            told.push(format!(
                "pods go whose controllers are not in the input, and are taken not to come back: \
                 {names}"
            ));
        }
        self.warnings.extend(told);
    }

    /// The places of the pods on some nodes that have not ended and that `filter` lets
    /// through. Pods that have ended hold nothing; to their controllers they count as before.
    fn pods_on(&self, nodes: &HashSet<&str>, filter: impl Fn(&Pod) -> bool) -> BTreeSet<usize> {
        let places = (0..self.objects.len()).filter(|place| {
            let pod = self.pod(*place).filter(|pod| !pod.is_finished());
            pod.is_some_and(|pod| nodes.contains(&*pod.spec.node_name) && filter(pod))
        });
        places.collect()
    }

    fn pod(&self, place: usize) -> Option<&Pod> {
        match &self.objects[place] {
            Object::Pod(pod) => Some(pod),
            _ => None,
        }
    }

    /// A node, to change. That it is not there is noted as an error of `what` is done to it.
    fn node(&mut self, what: &str, name: &str) -> Option<&mut Node> {
        let name = ObjectName::node(name);
        match self.find(&name) {
            Ok(place) => match &mut self.objects[place] {
                Object::Node(node) => Some(node),
                _ => None,
            },
            Err(why) => {
                self.wrong.push(format!("cannot {what} {name}: {why}"));
                None
            }
        }
    }

    /// Where an object is.
    ///
    /// # Errors
    /// That it is not there, and what may be meant.
    fn find(&self, name: &ObjectName) -> Result<usize, String> {
        let key = (name.kind, name.namespace.clone(), name.name.clone());
        if let Some(place) = self.places.get(&key) {
            return Ok(*place);
        }
        let of_kind = self.objects.iter().filter(|it| it.kind() == name.kind);
        let others: Vec<ObjectName> = of_kind.map(name_of).collect();
        if others.is_empty() {
            return Err(format!("the cluster has no {}", name.kind.plural()));
        }
        let elsewhere = others.iter().find(|other| other.name == name.name);
        let near = elsewhere.or_else(|| {
            let same = others.iter().filter(|it| it.namespace == name.namespace);
            let near = nearest(&name.name, same.clone().map(|other| other.name.as_str()))?;
            same.clone().find(|other| other.name == near)
        });
        let meant = near.map(|near| match near.kind {
            ObjectKind::Node => format!("; did you mean {}?", near.name),
            _ => format!("; did you mean {}?", near.written()),
        });
        Err(format!("it is not there{}", meant.unwrap_or_default()))
    }
}

fn name_of(object: &Object) -> ObjectName {
    let (kind, namespace, name) = object.key();
    ObjectName {
        kind,
        namespace,
        name,
    }
}

/// The number of pods that a workload asks for, if it is one that can be scaled.
fn replicas_of(object: &mut Object) -> Option<&mut Option<i32>> {
    match object {
        Object::Deployment(it) => Some(&mut it.spec.replicas),
        Object::ReplicaSet(it) => Some(&mut it.spec.replicas),
        Object::StatefulSet(it) => Some(&mut it.spec.replicas),
        Object::ReplicationController(it) => Some(&mut it.spec.replicas),
        Object::Job(it) => Some(&mut it.spec.parallelism),
        _ => None,
    }
}

/// Whether a drain has a pod go: not one that would be back at once.
pub(crate) fn is_drained(pod: &Pod) -> bool {
    let controller = pod.metadata.controller();
    !is_mirror(pod) && controller.is_none_or(|it| it.kind != "DaemonSet")
}

/// Whether a pod only shows what a kubelet runs by itself.
fn is_mirror(pod: &Pod) -> bool {
    let annotations = &pod.metadata.annotations;
    annotations.contains_key("kubernetes.io/config.mirror")
}

/// The taints of a node after a change.
///
/// # Errors
/// That a taint to add is there already, or that one to remove is not.
pub(crate) fn tainted(node: &Node, taints: &TaintSpecs) -> Result<Vec<Taint>, String> {
    let is_same = |a: &Taint, b: &Taint| a.key == b.key && a.effect == b.effect;
    let mut old = node.spec.taints.iter();
    if let Some(old) = old.find(|old| taints.add.iter().any(|new| is_same(old, new))) {
        let name = &node.metadata.name;
        return Err(format!(
            "it has {} already; remove that first, as {name}={}:{}-",
            taint_string(old),
            old.key,
            old.effect
        ));
    }
    let (_, taints) = taints.apply(node, true)?;
    Ok(taints)
}

/// Whether a taint drives a pod away sooner or later. Of its tolerations the first that
/// tolerates the taint says for how long (`pkg/controller/tainteviction`, Kubernetes 1.36).
fn evicts(taint: &Taint, pod: &Pod) -> bool {
    let mut tolerations = pod.spec.tolerations.iter();
    let tolerating = tolerations.find(|toleration| tolerates(toleration, taint, false));
    taint.effect == "NoExecute" && tolerating.is_none_or(|it| it.toleration_seconds.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What there is after changes, what was deleted, and the warnings.
    struct After {
        objects: Vec<Object>,
        deleted: Vec<String>,
        warnings: Vec<String>,
    }

    impl After {
        fn names(&self) -> Vec<String> {
            self.objects
                .iter()
                .map(|it| name_of(it).written())
                .collect()
        }

        fn nodes(&self) -> Vec<&Node> {
            let nodes = self.objects.iter().filter_map(|object| match object {
                Object::Node(node) => Some(&**node),
                _ => None,
            });
            nodes.collect()
        }
    }

    fn after(manifest: &str, changes: &Changes) -> Result<After, String> {
        let loaded = outrank_api::decode::load([("test.yaml", manifest.as_bytes())]);
        assert_eq!(loaded.errors, []);
        let objects = loaded.objects.into_iter().map(|it| it.object).collect();
        let mut warnings = Vec::new();
        let carried_out = carry_out(changes, objects, &mut warnings)?;
        Ok(After {
            objects: carried_out.objects,
            deleted: carried_out.deleted.iter().map(Pod::key).collect(),
            warnings,
        })
    }

    fn done(manifest: &str, changes: &Changes) -> After {
        after(manifest, changes).expect("carried out")
    }

    fn delete(names: &[&str]) -> Changes {
        let delete = names.iter().map(|it| it.parse().expect("a name")).collect();
        Changes {
            delete,
            ..Changes::default()
        }
    }

    fn taint(taints: &[&str]) -> Changes {
        let taint = taints
            .iter()
            .map(|it| it.parse().expect("a taint"))
            .collect();
        Changes {
            taint,
            ..Changes::default()
        }
    }

    fn drain(node: &str) -> Changes {
        Changes {
            drain: vec![node.to_owned()],
            ..Changes::default()
        }
    }

    const NODE: &str = "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n";

    /// A pod that runs on node `a`, with more of its metadata, spec and status.
    fn pod(name: &str, metadata: &str, spec: &str) -> String {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, {metadata}}}\nspec: \
             {{nodeName: a, {spec} containers: [{{name: c, image: i}}]}}\nstatus: {{phase: \
             Running}}\n"
        )
    }

    fn owned(kind: &str, name: &str) -> String {
        format!(
            "ownerReferences: [{{apiVersion: apps/v1, kind: {kind}, name: {name}, uid: u, \
             controller: true}}]"
        )
    }

    const MIRROR: &str = "annotations: {kubernetes.io/config.mirror: x}";

    #[test]
    fn nothing_is_done_without_changes() {
        let cluster = [NODE, &pod("p", "", "")].concat();
        let after = done(&cluster, &Changes::default());
        assert_eq!(after.names(), ["node/a", "pod/p"]);
        assert!(after.deleted.is_empty() && after.warnings.is_empty());
    }

    #[test]
    fn objects_are_deleted_at_once_in_whatever_order_they_are_named() {
        let set = "---\napiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: r}\nspec: \
                   {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: \
                   {containers: [{name: c, image: i}]}}}\n";
        let cluster = [NODE, set, &pod("p", &owned("ReplicaSet", "r"), "")].concat();
        for names in [["rs/r", "pod/p"], ["pod/p", "rs/r"]] {
            let after = done(&cluster, &delete(&names));
            assert_eq!(after.names(), ["node/a"]);
            assert_eq!(after.deleted, ["default/p"]);
        }
    }

    #[test]
    fn a_namespace_need_not_be_in_the_input_itself() {
        let inside = pod("p", "namespace: shop", "");
        let cluster = [NODE, &inside, &pod("q", "", "")].concat();
        let after = done(&cluster, &delete(&["ns/shop"]));
        assert_eq!(after.names(), ["node/a", "pod/q"]);
        assert!(done(&cluster, &Changes::default()).warnings.is_empty());
    }

    #[test]
    fn pods_that_have_ended_stay_when_their_node_goes() {
        // Jobs count them.
        let ended = pod("p", "", "").replace("Running", "Succeeded");
        let cluster = [NODE, &ended, &pod("q", "", "")].concat();
        let after = done(&cluster, &delete(&["node/a"]));
        assert_eq!(after.names(), ["pod/p"]);
        assert_eq!(after.deleted, ["default/q"]);
        assert_eq!(done(&cluster, &drain("a")).names(), ["node/a", "pod/p"]);
        assert!(done(&cluster, &delete(&["pod/p"])).deleted.is_empty());
    }

    #[test]
    fn a_claim_in_use_goes_only_with_its_pods() {
        let claim = "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: \
                     c}\nspec: {accessModes: [ReadWriteOnce], volumeName: v, resources: \
                     {requests: {storage: 1Gi}}}\n---\napiVersion: v1\nkind: \
                     PersistentVolume\nmetadata: {name: v}\nspec: {accessModes: \
                     [ReadWriteOnce], capacity: {storage: 1Gi}, hostPath: {path: /v}}\n";
        let user = pod(
            "p",
            "",
            "volumes: [{name: v, persistentVolumeClaim: {claimName: c}}],",
        );
        let cluster = [NODE, claim, &user].concat();
        let mut changes = delete(&["pvc/c", "pv/v"]);
        let after = done(&cluster, &changes);
        assert_eq!(after.names().len(), 4);
        let is_going = |object: &&Object| object.metadata().deletion_timestamp.is_some();
        assert_eq!(after.objects.iter().filter(is_going).count(), 2);
        changes.drain = vec!["a".to_owned()];
        assert_eq!(done(&cluster, &changes).names(), ["node/a"]);
    }

    #[test]
    fn a_cordoned_node_is_tainted_by_its_controller() {
        let cordon = vec!["a".to_owned(), "a".to_owned()];
        let changes = Changes {
            cordon,
            ..Changes::default()
        };
        let after = done(NODE, &changes);
        let spec = &after.nodes()[0].spec;
        assert!(spec.unschedulable);
        let taints: Vec<String> = spec.taints.iter().map(taint_string).collect();
        assert_eq!(taints, ["node.kubernetes.io/unschedulable:NoSchedule"]);
    }

    #[test]
    fn the_first_fitting_toleration_says_for_how_long() {
        let always = "{key: k, operator: Exists}";
        let awhile = "{key: k, operator: Exists, effect: NoExecute, tolerationSeconds: 60}";
        let other = "{key: other, operator: Exists}";
        for (tolerations, goes) in [
            (String::new(), true),
            (other.to_owned(), true),
            (always.to_owned(), false),
            (awhile.to_owned(), true),
            (format!("{always}, {awhile}"), false),
            (format!("{awhile}, {always}"), true),
        ] {
            let spec = format!("tolerations: [{tolerations}],");
            let cluster = [NODE, &pod("p", "", &spec)].concat();
            let after = done(&cluster, &taint(&["a=k=v:NoExecute"]));
            assert_eq!(!after.deleted.is_empty(), goes, "{tolerations}");
        }
    }

    #[test]
    fn only_new_taints_that_say_so_evict() {
        let node = NODE.replace(
            "{name: a}\n",
            "{name: a}\nspec: {taints: [{key: o, effect: NoExecute}]}\n",
        );
        let cluster = [node.as_str(), &pod("p", "", "")].concat();
        for change in ["a=k:NoSchedule", "a=k:PreferNoSchedule", "a=o-"] {
            assert!(
                done(&cluster, &taint(&[change])).deleted.is_empty(),
                "{change}"
            );
        }
        let twice = done(&cluster, &taint(&["a=k:NoExecute", "a=l:NoExecute"]));
        assert_eq!(twice.deleted, ["default/p"]);
        assert_eq!(twice.warnings.len(), 1);
    }

    #[test]
    fn a_drain_leaves_what_would_be_back_at_once() {
        let cluster = [
            NODE,
            &pod("daemon", &owned("DaemonSet", "d"), ""),
            &pod("mirror", MIRROR, ""),
            &pod("set", &owned("StatefulSet", "s"), ""),
            &pod("bare", "", ""),
        ]
        .concat();
        let after = done(&cluster, &drain("a"));
        assert_eq!(after.deleted, ["default/set", "default/bare"]);
        assert!(after.nodes()[0].spec.unschedulable);
        assert_eq!(
            after.warnings,
            [
                "pods without a controller go for good: default/bare",
                "pods go whose controllers are not in the input, and are taken not to come back: \
                 default/set"
            ]
        );
    }

    #[test]
    fn a_named_pod_of_an_unknown_controller_is_told() {
        let cluster = [
            NODE,
            &pod("p", &owned("Rollout", "r"), ""),
            &pod("q", "", ""),
        ]
        .concat();
        let after = done(&cluster, &delete(&["pod/p", "pod/q"]));
        assert_eq!(after.deleted, ["default/p", "default/q"]);
        assert_eq!(after.warnings.len(), 1);
        assert!(after.warnings[0].ends_with("taken not to come back: default/p"));
    }

    #[test]
    fn mirror_pods_go_with_their_node_only() {
        let cluster = [NODE, &pod("mirror", MIRROR, "")].concat();
        assert!(done(&cluster, &delete(&["pod/mirror"])).deleted.is_empty());
        assert!(
            done(&cluster, &taint(&["a=k:NoExecute"]))
                .deleted
                .is_empty()
        );
        assert_eq!(
            done(&cluster, &delete(&["node/a"])).deleted,
            ["default/mirror"]
        );
    }

    #[test]
    fn a_job_is_scaled_in_what_runs_at_once() {
        let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {template: \
                   {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}\n";
        let changes = Changes {
            scale: vec!["job/j=4".parse().expect("a scale")],
            ..Changes::default()
        };
        let after = done(job, &changes);
        let [Object::Job(job)] = after.objects.as_slice() else {
            panic!("{:?}", after.objects)
        };
        assert_eq!(
            (job.spec.parallelism, job.spec.completions),
            (Some(4), Some(1))
        );
    }

    #[test]
    fn all_that_is_not_there_is_told() {
        let mut changes = delete(&["pod/q", "node/b"]);
        changes.drain = vec!["aa".to_owned()];
        let cluster = [NODE, &pod("p", "", "")].concat();
        let wrong = after(&cluster, &changes).err().expect("refused");
        assert_eq!(wrong.lines().count(), 3, "{wrong}");
        assert!(wrong.ends_with("cannot drain Node aa: it is not there; did you mean a?"));
    }
}
