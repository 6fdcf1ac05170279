//! The cluster as decisions see it: nodes and what runs on them, in columns.
//!
//! A node is a row number ([`NodeId`]); each property is a column indexed by it, and
//! each resource has a column of what nodes offer and one of what their pods ask for.
//! A filter that looks at memory touches two numbers a node and nothing else.
//!
//! Two kinds of change are logged, because caches care about the difference: a node
//! was *used* differently (a pod came or went), or the node *object* changed (labels,
//! taints, capacity, or the node is new or gone). See [`ChangeLog`]. What changes about
//! storage around a node has a log of its own, which only pods with volumes care about.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use outrank_api::decode::{Object, ObjectKind};
use outrank_api::types::{StringMap, Taint};
use rustc_hash::FxHashMap;

use crate::ids::{Interner, NodeId, PodId, ResourceId, ShareId, Symbol, Symbols, TaintSetId};
use crate::node_labels::NodeLabels;
use crate::node_tree::{NodeTree, ZoneKey};
use crate::plugins::legacy::node_conditions::NodeConditions;
use crate::plugins::node_declared_features::FeatureSet;
use crate::pod_match::{AffinityTerms, LabelMatch, Labels, PodIdentity, label_value};
use crate::shares::Shares;
use crate::storage::{Storage, TOPOLOGY_LABELS, VolumeReservation};
use crate::use_by_priority::{Freed, UseByPriority};

/// Nodes, their use, and the tables of interned names.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// Label keys and values, names, images, addresses.
    pub symbols: Symbols,
    /// Claims, volumes, and what is known of where they can be.
    pub storage: Storage,
    /// What pods of some priority use of a resource together, if that is limited.
    pub shares: Shares,
    resource_names: Interner<Box<str>>,
    taint_sets: Interner<Box<[Taint]>>,
    by_name: FxHashMap<Symbol, NodeId>,
    free_rows: Vec<NodeId>,
    image_states: FxHashMap<Symbol, ImageState>,
    images_epoch: u64,
    identities: Interner<PodIdentity>,
    affinity_terms: Interner<AffinityTerms>,
    /// How many pods on nodes have these affinity terms.
    placed_with_terms: Vec<usize>,
    pod_info: Vec<PodInfo>,
    namespaces: BTreeMap<Symbol, Labels>,
    services: BTreeMap<(Symbol, Symbol), Labels>,
    owner_selectors: BTreeMap<OwnerKey, LabelMatch>,
    /// Annotations that plugins read.
    annotation_keys: BTreeSet<String>,

    name: Vec<Symbol>,
    present: Vec<bool>,
    labels: Vec<Box<[(Symbol, Symbol)]>>,
    annotations: Vec<Box<[(Symbol, Symbol)]>>,
    taint_set: Vec<TaintSetId>,
    unschedulable: Vec<bool>,
    declared_features: Vec<FeatureSet>,
    images: Vec<Box<[Symbol]>>,
    allowed_pods: Vec<i64>,
    allocatable: Vec<Vec<i64>>,
    requested: Vec<Vec<i64>>,
    non_zero_cpu_milli: Vec<i64>,
    non_zero_memory_bytes: Vec<i64>,
    host_ports: Vec<Vec<HostPort>>,
    pods: Vec<Vec<PodId>>,
    use_by_priority: Vec<UseByPriority>,
    legacy: Option<Legacy>,
    log: ChangeLog,
    storage_log: ChangeLog,
    labels_of_storage: NodeLabels,
}

/// If storage changes for more nodes than this at once, all are looked at again: that costs
/// about as much, and less while many objects come.
const MAXIMUM_LOGGED_NODES: usize = 64;

/// What is kept if there are plugins of the past.
#[derive(Clone, Debug, Default)]
struct Legacy {
    nodes: Vec<LegacyNode>,
    /// The scheduler's own order of nodes.
    tree: NodeTree,
}

/// What only plugins of the past read of a node.
#[derive(Clone, Debug, Default)]
pub struct LegacyNode {
    /// Conditions that keep pods away.
    pub conditions: NodeConditions,
    /// Controllers, by kind and UID, whose pods had better go elsewhere (annotation
    /// `scheduler.alpha.kubernetes.io/preferAvoidPods`).
    pub avoided_controllers: Box<[(Symbol, Symbol)]>,
    /// How many volumes can be attached, by what follows `attachable-volumes-` in the names
    /// of the node's allocatable.
    pub attachable_volumes: Box<[(Box<str>, i64)]>,
    /// On how many nodes each of its images was when the node was last told of, sorted by
    /// image.
    image_node_counts: Box<[(Symbol, u32)]>,
}

impl LegacyNode {
    /// What is known of a node when its object is compiled.
    pub(crate) fn new(
        conditions: NodeConditions,
        avoided_controllers: Box<[(Symbol, Symbol)]>,
        attachable_volumes: Box<[(Box<str>, i64)]>,
    ) -> Self {
        Self {
            conditions,
            avoided_controllers,
            attachable_volumes,
            image_node_counts: Box::default(),
        }
    }

    /// On how many nodes an image was when this one was last told of; 0 if it is not here.
    pub fn image_node_count(&self, image: Symbol) -> u32 {
        let counts = &self.image_node_counts;
        let found = counts.binary_search_by_key(&image, |(image, _)| *image);
        found.map_or(0, |place| counts[place].1)
    }
}

/// What other pods can see of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodInfo {
    /// Namespace and labels: a number of [`Cluster::identity`].
    pub identity: u32,
    /// Affinity terms: a number of [`Cluster::affinity_terms`]; 0 has none.
    pub terms: u32,
    /// Volumes: a number of [`Storage::pod_volumes`]; 0 has none that matter.
    pub volumes: u32,
    /// Whether the pod is being deleted.
    pub is_terminating: bool,
    /// Its priority.
    pub priority: i32,
}

/// A workload by which pods can be owned: kind, namespace and name.
pub type OwnerKey = (Symbol, Symbol, Symbol);

/// What is known of an image that is on some node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageState {
    /// Its size in bytes, as the first node said that had it.
    pub size_bytes: i64,
    /// On how many nodes it is.
    pub node_count: u32,
}

/// A port of the node itself that a pod uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    /// Address; `0.0.0.0` is all of them.
    pub ip: Symbol,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Symbol,
    /// Port number, 1 to 65535.
    pub port: i32,
}

/// A node object, compiled: what [`Cluster::set_node`] takes.
#[derive(Clone, Debug)]
pub struct NodeObject {
    /// Name.
    pub name: Symbol,
    /// Labels, sorted by key.
    pub labels: Box<[(Symbol, Symbol)]>,
    /// Annotations that plugins read, sorted by key.
    pub annotations: Box<[(Symbol, Symbol)]>,
    /// Taints in the order of the object.
    pub taints: Box<[Taint]>,
    /// Whether the node is cordoned.
    pub unschedulable: bool,
    /// Features of the kubelet that pods can need.
    pub declared_features: FeatureSet,
    /// Images by each of their names, with their sizes in bytes.
    pub images: Vec<(Symbol, i64)>,
    /// How many pods the node takes.
    pub allowed_pods: i64,
    /// What pods may use, by resource.
    pub allocatable: Vec<(ResourceId, i64)>,
    /// What only plugins of the past read; `None` if there are none.
    pub legacy: Option<LegacyNode>,
}

/// What one pod takes of its node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodUsage {
    /// Requests by resource.
    pub requests: Box<[(ResourceId, i64)]>,
    /// CPU with 100m in place of missing requests, for scoring.
    pub non_zero_cpu_milli: i64,
    /// Memory with 200Mi in place of missing requests, for scoring.
    pub non_zero_memory_bytes: i64,
    /// Ports of the node.
    pub host_ports: Box<[HostPort]>,
    /// Shares of which the pod is, and what of these requests counts there; above zero.
    pub shares: Box<[(ShareId, i64)]>,
}

/// The pods of a node and the ports that they use.
#[derive(Clone, Debug)]
pub(crate) struct Remembered {
    pods: Vec<PodId>,
    host_ports: Vec<HostPort>,
}

impl Cluster {
    /// An empty cluster.
    pub fn new() -> Self {
        let mut cluster = Self::default();
        for name in ["cpu", "memory", "ephemeral-storage"] {
            cluster.resource(name);
        }
        cluster.taint_sets.insert_full(Box::default());
        cluster.intern_terms(AffinityTerms::default());
        cluster
    }

    /// The identifier of a resource, a new one if it was not seen before.
    pub fn resource(&mut self, name: &str) -> ResourceId {
        if let Some(index) = self.resource_names.get_index_of(name) {
            return ResourceId::from_index(index);
        }
        let (index, _) = self.resource_names.insert_full(name.into());
        self.allocatable.push(vec![0; self.name.len()]);
        self.requested.push(vec![0; self.name.len()]);
        ResourceId::from_index(index)
    }

    /// The name of a resource.
    pub fn resource_name(&self, resource: ResourceId) -> &str {
        &self.resource_names[resource.index()]
    }

    /// All resources ever named, in the order in which they came.
    pub fn resources(&self) -> impl Iterator<Item = ResourceId> + use<> {
        (0..self.resource_names.len()).map(ResourceId::from_index)
    }

    /// The node of that name.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.by_name.get(&self.symbols.find(name)?).copied()
    }

    /// The node whose name is `name`.
    pub fn node_named(&self, name: Symbol) -> Option<NodeId> {
        self.by_name.get(&name).copied()
    }

    /// All nodes, by row.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        let present = self
            .present
            .iter()
            .enumerate()
            .filter(|(_, present)| **present);
        present.map(|(row, _)| NodeId::from_index(row))
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.by_name.len()
    }

    /// How many rows the columns have, those of deleted nodes included.
    pub fn row_count(&self) -> usize {
        self.name.len()
    }

    /// Whether the row holds a node.
    pub fn is_present(&self, node: NodeId) -> bool {
        self.present[node.index()]
    }

    /// The node's name.
    pub fn name(&self, node: NodeId) -> &str {
        self.symbols.text(self.name[node.index()])
    }

    /// The node's name, interned.
    pub fn name_symbol(&self, node: NodeId) -> Symbol {
        self.name[node.index()]
    }

    /// The value of a label of the node. O(log labels).
    pub fn label(&self, node: NodeId, key: Symbol) -> Option<Symbol> {
        label_value(self.labels(node), key)
    }

    /// The node's labels, sorted by key.
    pub fn labels(&self, node: NodeId) -> &[(Symbol, Symbol)] {
        &self.labels[node.index()]
    }

    /// The value of an annotation of the node, if a plugin says that it reads it
    /// ([`Plugin::annotations`](crate::framework::Plugin::annotations)). O(log annotations).
    pub fn annotation(&self, node: NodeId, key: &str) -> Option<&str> {
        let annotations = &self.annotations[node.index()];
        let value = label_value(annotations, self.symbols.find(key)?)?;
        Some(self.symbols.text(value))
    }

    /// Keeps annotations of nodes that come from now on.
    pub(crate) fn keep_annotation(&mut self, key: &str) {
        self.annotation_keys.insert(key.to_owned());
    }

    /// Annotations of a node that plugins read.
    pub(crate) fn compile_annotations(&mut self, all: &StringMap) -> Box<[(Symbol, Symbol)]> {
        let read = all
            .iter()
            .filter(|(key, _)| self.annotation_keys.contains(*key));
        let symbols = &mut self.symbols;
        let mut kept: Vec<(Symbol, Symbol)> = read
            .map(|(key, value)| (symbols.intern(key), symbols.intern(value)))
            .collect();
        kept.sort_unstable();
        kept.into()
    }

    /// Features of the kubelet that the node declares.
    pub fn declared_features(&self, node: NodeId) -> FeatureSet {
        self.declared_features[node.index()]
    }

    /// The node's taints.
    pub fn taints(&self, node: NodeId) -> &[Taint] {
        &self.taint_sets[self.taint_set[node.index()].index()]
    }

    /// What only plugins of the past read of the node; `None` if nobody has it kept.
    pub fn legacy_node(&self, node: NodeId) -> Option<&LegacyNode> {
        self.legacy.as_ref()?.nodes.get(node.index())
    }

    /// Whether there are plugins of the past.
    pub(crate) fn keeps_legacy(&self) -> bool {
        self.legacy.is_some()
    }

    /// Has what only plugins of the past read kept. To be called before there are nodes.
    pub(crate) fn keep_legacy(&mut self) {
        self.legacy.get_or_insert_default();
    }

    /// All nodes in the scheduler's own order, in which zones take turns; none if nobody
    /// has it kept. O(nodes).
    pub fn nodes_in_turns(&self) -> Vec<NodeId> {
        let tree = self.legacy.as_ref().map(|legacy| &legacy.tree);
        tree.map(NodeTree::in_turns).unwrap_or_default()
    }

    /// Whether the node is cordoned.
    pub fn is_unschedulable(&self, node: NodeId) -> bool {
        self.unschedulable[node.index()]
    }

    /// What is known of an image, if it is on the node. O(log images).
    pub fn image_on_node(&self, node: NodeId, image: Symbol) -> Option<ImageState> {
        self.images[node.index()].binary_search(&image).ok()?;
        self.image(image)
    }

    /// What is known of an image, if any node has it.
    pub fn image(&self, image: Symbol) -> Option<ImageState> {
        self.image_states.get(&image).copied()
    }

    /// Grows whenever the number of nodes, or of nodes with some image, changes.
    pub fn images_epoch(&self) -> u64 {
        self.images_epoch
    }

    /// How many pods the node takes.
    pub fn allowed_pods(&self, node: NodeId) -> i64 {
        self.allowed_pods[node.index()]
    }

    /// What the node offers of the resource.
    pub fn allocatable(&self, node: NodeId, resource: ResourceId) -> i64 {
        self.allocatable[resource.index()][node.index()]
    }

    /// What the node's pods ask of the resource.
    pub fn requested(&self, node: NodeId, resource: ResourceId) -> i64 {
        self.requested[resource.index()][node.index()]
    }

    /// CPU asked for by the node's pods, 100m counted where nothing is asked.
    pub fn non_zero_cpu_milli(&self, node: NodeId) -> i64 {
        self.non_zero_cpu_milli[node.index()]
    }

    /// Memory asked for by the node's pods, 200Mi counted where nothing is asked.
    pub fn non_zero_memory_bytes(&self, node: NodeId) -> i64 {
        self.non_zero_memory_bytes[node.index()]
    }

    /// Ports of the node that its pods use.
    pub fn host_ports(&self, node: NodeId) -> &[HostPort] {
        &self.host_ports[node.index()]
    }

    /// The node's pods.
    pub fn pods(&self, node: NodeId) -> &[PodId] {
        &self.pods[node.index()]
    }

    /// What would be free on the node if all its pods below a priority went; `None` if there
    /// are none. O(log priorities).
    pub fn freed_below(&self, node: NodeId, priority: i32) -> Option<&Freed> {
        self.use_by_priority[node.index()].below(priority)
    }

    /// Namespace and labels of a pod.
    pub fn identity(&self, number: u32) -> &PodIdentity {
        &self.identities[number as usize]
    }

    /// The number of an identity, a new one if it was not seen before.
    pub(crate) fn intern_identity(&mut self, identity: PodIdentity) -> u32 {
        self.identities.insert_full(identity).0 as u32
    }

    /// How many identities there are.
    pub fn identity_count(&self) -> usize {
        self.identities.len()
    }

    /// Affinity terms of pods.
    pub fn affinity_terms(&self, number: u32) -> &AffinityTerms {
        &self.affinity_terms[number as usize]
    }

    /// How many different affinity terms there are, the empty ones included.
    pub fn affinity_terms_count(&self) -> u32 {
        self.affinity_terms.len() as u32
    }

    /// The number of affinity terms, a new one if they were not seen before.
    pub(crate) fn intern_terms(&mut self, terms: AffinityTerms) -> u32 {
        let (number, is_new) = self.affinity_terms.insert_full(terms);
        if is_new {
            self.placed_with_terms.push(0);
        }
        number as u32
    }

    /// Numbers of the affinity terms, not empty, that pods on nodes have.
    pub fn placed_terms(&self) -> impl Iterator<Item = u32> + '_ {
        let placed = self.placed_with_terms.iter().enumerate().skip(1);
        placed
            .filter(|(_, pods)| **pods > 0)
            .map(|(number, _)| number as u32)
    }

    /// What other pods can see of a pod.
    pub fn pod_info(&self, pod: PodId) -> PodInfo {
        self.pod_info.get(pod.index()).copied().unwrap_or_default()
    }

    /// Tells what other pods can see of a pod that is not on a node.
    pub(crate) fn set_pod_info(&mut self, pod: PodId, info: PodInfo) {
        if self.pod_info.len() <= pod.index() {
            self.pod_info.resize(pod.index() + 1, PodInfo::default());
        }
        self.pod_info[pod.index()] = info;
    }

    /// The labels of a namespace; none if there is no such namespace.
    pub fn namespace_labels(&self, namespace: Symbol) -> &[(Symbol, Symbol)] {
        self.namespaces.get(&namespace).map_or(&[], |labels| labels)
    }

    /// The namespaces whose labels a selector matches, in order.
    pub fn namespaces_matching(&self, selector: &LabelMatch) -> impl Iterator<Item = Symbol> {
        let matching = self
            .namespaces
            .iter()
            .filter(|(_, labels)| selector.matches(labels));
        matching.map(|(name, _)| *name)
    }

    /// Tells the labels of a namespace.
    pub(crate) fn set_namespace(&mut self, name: Symbol, labels: Labels) {
        self.namespaces.insert(name, labels);
    }

    /// Tells which pods a service selects; `None` forgets it.
    pub(crate) fn set_service(&mut self, namespace: Symbol, name: Symbol, labels: Option<Labels>) {
        match labels {
            Some(labels) => self.services.insert((namespace, name), labels),
            None => self.services.remove(&(namespace, name)),
        };
    }

    /// Labels that services select, of those services that select the pod.
    pub fn service_labels(&self, pod: &PodIdentity) -> Vec<(Symbol, Symbol)> {
        let start = (pod.namespace, Symbol(0));
        let own = self
            .services
            .range(start..)
            .take_while(|((ns, _), _)| *ns == pod.namespace);
        let selecting =
            own.filter(|(_, labels)| LabelMatch::of_labels(labels).matches(&pod.labels));
        let mut labels: Vec<(Symbol, Symbol)> = selecting
            .flat_map(|(_, labels)| labels.iter().copied())
            .collect();
        labels.sort_unstable();
        labels.dedup();
        labels
    }

    /// The labels that a service selects which selects the pod: the first such, by name.
    pub fn first_service(&self, pod: &PodIdentity) -> Option<&Labels> {
        let start = (pod.namespace, Symbol(0));
        let own = self
            .services
            .range(start..)
            .take_while(|((ns, _), _)| *ns == pod.namespace);
        let selects = |labels: &&Labels| LabelMatch::of_labels(labels).matches(&pod.labels);
        own.map(|(_, labels)| labels).find(selects)
    }

    /// Tells which pods a workload selects; `None` forgets it.
    pub(crate) fn set_owner_selector(&mut self, owner: OwnerKey, selector: Option<LabelMatch>) {
        match selector {
            Some(selector) => self.owner_selectors.insert(owner, selector),
            None => self.owner_selectors.remove(&owner),
        };
    }

    /// Which pods a workload selects.
    pub fn owner_selector(&self, owner: OwnerKey) -> Option<&LabelMatch> {
        self.owner_selectors.get(&owner)
    }

    /// What workloads select which select the pod; none selects a pod without labels.
    /// O(workloads).
    pub fn selectors_of_owners<'c>(
        &'c self,
        pod: &'c PodIdentity,
    ) -> impl Iterator<Item = &'c LabelMatch> {
        let owners = self.owner_selectors.iter();
        let own = owners.filter(|((_, namespace, _), _)| *namespace == pod.namespace);
        own.map(|(_, selector)| selector)
            .filter(|_| !pod.labels.is_empty())
            .filter(|selector| !selector.is_empty() && selector.matches(&pod.labels))
    }

    /// What changed, for caches.
    pub fn log(&self) -> &ChangeLog {
        &self.log
    }

    /// Nodes around which something about storage changed that matters to pods with volumes:
    /// CSINode, attachments, what volumes of its pods are, free volumes and room that can be
    /// reached from there. If there were too many, [`Storage::reach_epoch`] moved instead.
    pub(crate) fn storage_log(&self) -> &ChangeLog {
        &self.storage_log
    }

    /// Takes in an object about storage that is new or has changed. Returns its namespace,
    /// empty if it has none, and name.
    pub(crate) fn set_storage(&mut self, object: &Object) -> (Symbol, Symbol) {
        let (kind, metadata) = (object.kind(), object.metadata());
        let namespace = self.symbols.intern(&metadata.namespace);
        let key = (namespace, self.symbols.intern(&metadata.name));
        self.log_storage(kind, key);
        self.storage.take_in(object, key, &mut self.symbols);
        self.log_storage(kind, key);
        key
    }

    /// Forgets an object about storage.
    pub(crate) fn forget_storage(&mut self, kind: ObjectKind, key: (Symbol, Symbol)) {
        self.log_storage(kind, key);
        self.storage.forget(kind, key);
    }

    /// Assumes what was reserved for a pod that goes to a node.
    pub(crate) fn reserve_storage(
        &mut self,
        pod: PodId,
        node: NodeId,
        reservation: VolumeReservation,
    ) {
        let none = self.symbols.intern("");
        for (volume, _) in &reservation.bindings {
            self.log_storage(ObjectKind::PersistentVolume, (none, *volume));
        }
        let node_name = self.name_symbol(node);
        self.storage.reserve(pod, node_name, reservation);
    }

    /// Takes back what was assumed for a pod that did not get its place after all. Returns
    /// the claims and volumes about which something was, by kind, namespace and name.
    pub(crate) fn unreserve_storage(&mut self, pod: PodId) -> Vec<(ObjectKind, (Symbol, Symbol))> {
        let freed = self.storage.unreserve(pod);
        for (kind, key) in &freed {
            self.log_storage(*kind, *key);
        }
        freed
    }

    /// Logs the nodes for which an object about storage matters. To be called before it
    /// changes and after.
    fn log_storage(&mut self, kind: ObjectKind, key: (Symbol, Symbol)) {
        let concerned = self.storage.concerned(kind, key);
        let named = concerned.names.iter();
        let named = named.filter_map(|name| self.by_name.get(name)).copied();
        let rows = concerned.rows.into_iter().map(NodeId::from_index);
        let mut nodes: Vec<NodeId> = rows.chain(named).collect();
        if let Some((class, required)) = concerned.reach {
            let required = required.map(|(key, values)| (key, Box::from(values)));
            match self.few_nodes_with(required) {
                Some(reaching) => nodes.extend(reaching),
                None => self.storage.end_reach_epoch(class),
            }
        }
        for node in nodes {
            self.storage.recount_places(node.index());
            self.storage_log.push(node, Change::Usage);
        }
    }

    /// The nodes with one of some values of a label; `None` if they are too many.
    fn few_nodes_with(&mut self, required: Option<(Symbol, Box<[Symbol]>)>) -> Option<Vec<NodeId>> {
        let (key, values) = required?;
        if !self.labels_of_storage.knows(key) {
            if !self.labels_of_storage.keep(key) {
                return None;
            }
            let nodes: Vec<NodeId> = self.nodes().collect();
            for node in nodes {
                let labels = &self.labels[node.index()];
                self.labels_of_storage.set(node, labels, true);
            }
        }
        let nodes = self.labels_of_storage.with(key, &values);
        let nodes: Vec<NodeId> = nodes.take(MAXIMUM_LOGGED_NODES + 1).collect();
        (nodes.len() <= MAXIMUM_LOGGED_NODES).then_some(nodes)
    }

    /// Adds a node, or replaces the object of the node of that name; its pods stay.
    pub fn set_node(&mut self, object: NodeObject) -> NodeId {
        let node = match self.by_name.get(&object.name) {
            Some(&node) => {
                self.count_offer(node, -1);
                node
            }
            None => self.add_row(object.name),
        };
        let row = node.index();
        self.set_images(row, object.images);
        let labels = std::mem::replace(&mut self.labels[row], object.labels);
        self.labels_of_storage.set(node, &labels, false);
        self.labels_of_storage.set(node, &self.labels[row], true);
        self.annotations[row] = object.annotations;
        self.taint_set[row] = TaintSetId::from_index(self.taint_sets.insert_full(object.taints).0);
        self.unschedulable[row] = object.unschedulable;
        self.declared_features[row] = object.declared_features;
        self.allowed_pods[row] = object.allowed_pods;
        for column in &mut self.allocatable {
            column[row] = 0;
        }
        for (resource, amount) in object.allocatable {
            self.allocatable[resource.index()][row] = amount;
        }
        self.count_offer(node, 1);
        if let Some(legacy) = object.legacy {
            self.set_legacy(node, legacy);
        }
        self.log.push(node, Change::Object);
        node
    }

    /// Removes a node. Its pods are the caller's to remove first.
    pub fn remove_node(&mut self, node: NodeId) {
        debug_assert!(
            self.pods[node.index()].is_empty(),
            "pods left on a deleted node"
        );
        let row = node.index();
        self.count_offer(node, -1);
        self.set_images(row, Vec::new());
        self.labels_of_storage.set(node, &self.labels[row], false);
        self.by_name.remove(&self.name[row]);
        if let Some(legacy) = &mut self.legacy {
            legacy.tree.remove(node);
        }
        self.present[row] = false;
        self.images_epoch += 1;
        self.free_rows.push(node);
        self.log.push(node, Change::Object);
    }

    /// Puts a pod on a node.
    pub fn add_pod(&mut self, node: NodeId, pod: PodId, usage: &PodUsage) -> u32 {
        self.bring_back(node, pod, usage);
        let priority = self.pod_info(pod).priority;
        self.use_by_priority[node.index()].add(priority, usage);
        self.log.push(node, Change::Usage);
        self.pods[node.index()].len() as u32 - 1
    }

    /// Takes the pod at `position` off a node; the node's last pod moves into the gap
    /// and is returned. As upstream, a port is free once *one* of its users is gone.
    pub fn remove_pod(&mut self, node: NodeId, position: u32, usage: &PodUsage) -> Option<PodId> {
        let row = node.index();
        self.use_node(row, usage, i64::wrapping_sub);
        self.host_ports[row].retain(|port| !usage.host_ports.contains(port));
        let pod = self.pods[row].swap_remove(position as usize);
        self.count_terms(row, pod, -1);
        let priority = self.pod_info(pod).priority;
        self.use_by_priority[row].remove(priority, usage);
        self.log.push(node, Change::Usage);
        self.pods[row].get(position as usize).copied()
    }

    /// Looks at a node as if more pods were there; nothing is logged and all is as before
    /// afterwards.
    pub(crate) fn with_pods<T>(
        &mut self,
        node: NodeId,
        pods: &[(PodId, &PodUsage)],
        look: impl FnOnce(&Self) -> T,
    ) -> T {
        let row = node.index();
        let host_ports = self.host_ports[row].clone();
        for (pod, usage) in pods {
            self.use_node(row, usage, i64::wrapping_add);
            self.host_ports[row].extend(&usage.host_ports);
            self.pods[row].push(*pod);
            self.count_terms(row, *pod, 1);
        }
        let seen = look(self);
        for (pod, _) in pods {
            self.count_terms(row, *pod, -1);
        }
        for (_, usage) in pods {
            self.use_node(row, usage, i64::wrapping_sub);
        }
        self.host_ports[row] = host_ports;
        let before = self.pods[row].len() - pods.len();
        self.pods[row].truncate(before);
        seen
    }

    /// The same with a pod that was there once, and of which others saw `info` then.
    pub(crate) fn with_pod_as<T>(
        &mut self,
        node: NodeId,
        pod: (PodId, &PodUsage),
        info: PodInfo,
        look: impl FnOnce(&Self) -> T,
    ) -> T {
        let now = self.pod_info(pod.0);
        self.set_pod_info(pod.0, info);
        let seen = self.with_pods(node, &[pod], look);
        self.set_pod_info(pod.0, now);
        seen
    }

    /// Looks at a node as if some of its pods were not there; nothing is logged and all is as
    /// before afterwards.
    pub(crate) fn without_pods<T>(
        &mut self,
        node: NodeId,
        pods: &[(PodId, &PodUsage)],
        look: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let before = self.remember(node);
        for (pod, usage) in pods {
            self.take_away(node, *pod, usage);
        }
        let seen = look(self);
        for (pod, usage) in pods {
            self.bring_back(node, *pod, usage);
        }
        self.undo(node, before);
        seen
    }

    /// Takes a pod off a node for a while: nothing is logged. [`Cluster::undo`] ends that.
    pub(crate) fn take_away(&mut self, node: NodeId, pod: PodId, usage: &PodUsage) {
        let row = node.index();
        self.use_node(row, usage, i64::wrapping_sub);
        self.host_ports[row].retain(|port| !usage.host_ports.contains(port));
        self.pods[row].retain(|other| *other != pod);
        self.count_terms(row, pod, -1);
    }

    /// Brings back a pod that was taken away.
    pub(crate) fn bring_back(&mut self, node: NodeId, pod: PodId, usage: &PodUsage) {
        let row = node.index();
        self.use_node(row, usage, i64::wrapping_add);
        for port in &usage.host_ports {
            if !self.host_ports[row].contains(port) {
                self.host_ports[row].push(*port);
            }
        }
        self.pods[row].push(pod);
        self.count_terms(row, pod, 1);
    }

    /// Logs that a node counts as used differently, though no pod came or went: one was
    /// nominated to it, or is no longer.
    pub(crate) fn log_nomination(&mut self, node: NodeId) {
        self.log.push(node, Change::Usage);
    }

    /// What [`Cluster::undo`] needs to know of a node.
    pub(crate) fn remember(&self, node: NodeId) -> Remembered {
        let row = node.index();
        Remembered {
            pods: self.pods[row].clone(),
            host_ports: self.host_ports[row].clone(),
        }
    }

    /// Has a node, to which all pods were brought back, as it was before they were taken away:
    /// also in order.
    pub(crate) fn undo(&mut self, node: NodeId, before: Remembered) {
        let row = node.index();
        self.pods[row] = before.pods;
        self.host_ports[row] = before.host_ports;
    }

    fn set_legacy(&mut self, node: NodeId, mut object: LegacyNode) {
        let images = self.images[node.index()].iter();
        let counts = images.filter_map(|image| Some((*image, self.image(*image)?.node_count)));
        object.image_node_counts = counts.collect();
        let zone = self.zone_key(node);
        if let Some(legacy) = &mut self.legacy {
            let rows = self.name.len();
            legacy.nodes.resize_with(rows, LegacyNode::default);
            legacy.nodes[node.index()] = object;
            legacy.tree.set(node, zone);
        }
    }

    /// Region and zone of a node by the labels of the past, or else by today's.
    fn zone_key(&self, node: NodeId) -> ZoneKey {
        let [past_zone, past_region, zone, region] = TOPOLOGY_LABELS.map(|key| {
            let key = self.symbols.find(key)?;
            let value = self.label(node, key)?;
            (!self.symbols.text(value).is_empty()).then_some(value)
        });
        (past_region.or(region), past_zone.or(zone))
    }

    fn count_terms(&mut self, row: usize, pod: PodId, by: isize) {
        let info = self.pod_info[pod.index()];
        let count = &mut self.placed_with_terms[info.terms as usize];
        *count = count.saturating_add_signed(by);
        self.storage.count_users(row, info.volumes, by);
    }

    fn use_node(&mut self, row: usize, usage: &PodUsage, change: fn(i64, i64) -> i64) {
        for &(resource, amount) in &usage.requests {
            let used = &mut self.requested[resource.index()][row];
            *used = change(*used, amount);
        }
        for &(share, amount) in &usage.shares {
            self.shares.hold(share, change(0, amount));
        }
        let cpu = &mut self.non_zero_cpu_milli[row];
        *cpu = change(*cpu, usage.non_zero_cpu_milli);
        let memory = &mut self.non_zero_memory_bytes[row];
        *memory = change(*memory, usage.non_zero_memory_bytes);
    }

    /// Counts what a node offers of the resources of shares, or does so no more.
    fn count_offer(&mut self, node: NodeId, by: i128) {
        let allocatable = &self.allocatable;
        self.shares
            .offer(|resource| allocatable[resource.index()][node.index()], by);
    }

    fn add_row(&mut self, name: Symbol) -> NodeId {
        self.images_epoch += 1;
        let node = match self.free_rows.pop() {
            Some(node) => node,
            None => self.grow(name),
        };
        self.name[node.index()] = name;
        self.present[node.index()] = true;
        self.by_name.insert(name, node);
        node
    }

    fn grow(&mut self, name: Symbol) -> NodeId {
        let node = NodeId::from_index(self.name.len());
        self.name.push(name);
        self.present.push(true);
        self.labels.push(Box::default());
        self.annotations.push(Box::default());
        self.taint_set.push(TaintSetId(0));
        self.unschedulable.push(false);
        self.declared_features.push(FeatureSet::default());
        self.images.push(Box::default());
        self.allowed_pods.push(0);
        for column in self.allocatable.iter_mut().chain(&mut self.requested) {
            column.push(0);
        }
        self.non_zero_cpu_milli.push(0);
        self.non_zero_memory_bytes.push(0);
        self.host_ports.push(Vec::new());
        self.pods.push(Vec::new());
        self.use_by_priority.push(UseByPriority::default());
        self.storage.grow();
        self.log.add_row();
        self.storage_log.add_row();
        node
    }

    fn set_images(&mut self, row: usize, images: Vec<(Symbol, i64)>) {
        for image in std::mem::take(&mut self.images[row]) {
            self.images_epoch += 1;
            if let Some(state) = self.image_states.get_mut(&image) {
                state.node_count -= 1;
                if state.node_count == 0 {
                    self.image_states.remove(&image);
                }
            }
        }
        let mut names: Vec<Symbol> = images.iter().map(|(image, _)| *image).collect();
        names.sort_unstable();
        names.dedup();
        for (image, size_bytes) in images {
            self.image_states.entry(image).or_insert(ImageState {
                size_bytes,
                node_count: 0,
            });
        }
        for image in &names {
            self.images_epoch += 1;
            if let Some(state) = self.image_states.get_mut(image) {
                state.node_count += 1;
            }
        }
        self.images[row] = names.into();
    }
}

/// What about a node changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A pod came or went, or its nomination did.
    Usage,
    /// The object changed, is new or gone.
    Object,
}

/// The last changes of nodes, so that a cache looks again only at what changed.
///
/// Each change has a sequence number. A reader remembers up to which one it has read
/// ([`ChangeLog::end`]) and asks for the rest; when the log no longer reaches back so
/// far, the reader must look at everything. The log holds about two entries a node.
#[derive(Clone, Debug, Default)]
pub struct ChangeLog {
    start: u64,
    entries: VecDeque<(NodeId, Change)>,
    last_usage: Vec<u64>,
    last_object: Vec<u64>,
}

impl ChangeLog {
    const MINIMUM_ENTRIES: usize = 1024;
    const NEVER: u64 = u64::MAX;

    /// The sequence number after the newest change.
    pub fn end(&self) -> u64 {
        self.start + self.entries.len() as u64
    }

    /// The changes from `sequence` on, each node once: a change of the object makes one of
    /// the use go without saying. `None` if the log does not reach back that far.
    /// O(changes).
    pub fn since(&self, sequence: u64) -> Option<impl Iterator<Item = (NodeId, Change)> + '_> {
        let skip = usize::try_from(sequence.checked_sub(self.start)?).ok()?;
        let changes = self.entries.range(skip.min(self.entries.len())..);
        let numbered = changes.zip(sequence..);
        Some(
            numbered
                .filter(move |((node, change), number)| {
                    let object = self.last(*node, Change::Object);
                    let covered =
                        *change == Change::Usage && object != Self::NEVER && object >= sequence;
                    !covered && self.last(*node, *change) == *number
                })
                .map(|(entry, _)| *entry),
        )
    }

    fn last(&self, node: NodeId, change: Change) -> u64 {
        match change {
            Change::Usage => self.last_usage[node.index()],
            Change::Object => self.last_object[node.index()],
        }
    }

    fn push(&mut self, node: NodeId, change: Change) {
        let number = self.end();
        match change {
            Change::Usage => self.last_usage[node.index()] = number,
            Change::Object => self.last_object[node.index()] = number,
        }
        self.entries.push_back((node, change));
        if self.entries.len() > Self::MINIMUM_ENTRIES + 2 * self.last_usage.len() {
            let dropped = self.entries.len() / 2;
            self.entries.drain(..dropped);
            self.start += dropped as u64;
        }
    }

    fn add_row(&mut self) {
        self.last_usage.push(Self::NEVER);
        self.last_object.push(Self::NEVER);
    }
}
