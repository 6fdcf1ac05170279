//! Workloads: which nodes and pods a benchmark creates, in which order.
//!
//! A workload file is a YAML list of test cases in the format of upstream's benchmarks
//! (`test/integration/scheduler_perf`, Kubernetes 1.36). A test case has operations
//! (`workloadTemplate`) and workloads: sets of parameters with which the same operations
//! are run at different sizes. Objects are made from templates, which are files with one
//! Kubernetes object each; paths are relative to the workload file.
//!
//! ```yaml
//! - name: SchedulingBasic
//!   defaultPodTemplatePath: templates/pod.yaml
//!   workloadTemplate:
//!   - opcode: createNodes
//!     countParam: $nodes
//!   - opcode: createPods
//!     countParam: $pods
//!     collectMetrics: true
//!   workloads:
//!   - name: 500Nodes
//!     params: { nodes: 500, pods: 1000 }
//! ```
//!
//! Operations that are understood:
//!
//! * `createNodes` with `count` or `countParam`, `nodeTemplatePath`, and at most one of
//!   `nodeAllocatableStrategy` (with `nodeAllocatable` and `csiNodeAllocatable`),
//!   `labelNodePrepareStrategy` and `uniqueNodeLabelStrategy`;
//! * `createPods` with `count` or `countParam`, `podTemplatePath`, `namespace`,
//!   `collectMetrics` and `skipWaitToCompletion`; with `persistentVolumeTemplatePath` and
//!   `persistentVolumeClaimTemplatePath` each pod has a claim that is bound to a volume of
//!   its own;
//! * `createPodSets` with `count` or `countParam`, `namespacePrefix` and a `createPodsOp`,
//!   which is done in each of these namespaces;
//! * `createNamespaces` with `count` or `countParam`, `prefix` and `namespaceTemplatePath`;
//! * `createAny` with `count` or `countParam`, `templatePath` and `namespace`, for objects
//!   that storage is made of, such as claims;
//! * `barrier`.
//!
//! A test case that uses more than that, or a template that cannot be used, is read but
//! cannot be run: its `workloads` are the reason. Anything else that is wrong is an error of
//! the whole file.
//!
//! Where a template is left out, nodes have 4 cpus, 32 GiB and room for 110 pods, and pods
//! request 100m cpu and 500 MiB, as upstream's do.

mod field;
mod read;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use outrank_api::decode::Object;
use outrank_api::diagnostic::Diagnostic;
use outrank_api::types::{
    CSINode, ClaimReference, CsiNodeDriver, Namespace, Node, ObjectMeta, PersistentVolume,
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, ResourceList, Volume,
    VolumeNodeResources,
};

pub use read::read;

/// Most objects that one operation may create.
pub const OBJECTS_MAX: usize = 10_000_000;

/// Most operations that a test case may have.
pub const OPS_MAX: usize = 100;

/// Most sets of pods that one operation may create.
pub const POD_SETS_MAX: usize = 10_000;

/// Most workloads that a test case may have; each has all operations of the test case.
pub const WORKLOADS_MAX: usize = 100;

/// What a workload file holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkloadFile {
    /// The test cases, in order.
    pub test_cases: Vec<TestCase>,
    /// What may not be meant so: fields of templates that do not exist, parameters that
    /// nothing uses.
    pub warnings: Vec<Diagnostic>,
}

/// A test case.
#[derive(Clone, Debug, PartialEq)]
pub struct TestCase {
    /// Its name.
    pub name: String,
    /// Path of its `KubeSchedulerConfiguration`, if it has its own.
    pub scheduler_config_path: Option<PathBuf>,
    /// Its workloads in order, or why it cannot be run: the first thing in it that is not
    /// supported, or all that is wrong with a template.
    pub workloads: Result<Vec<Workload>, Vec<Diagnostic>>,
}

/// The operations of a test case at one size.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Its name, unique in the test case.
    pub name: String,
    /// Labels by which workloads are chosen, such as `performance` or `short`; those of
    /// the test case come first.
    pub labels: Vec<String>,
    /// Feature gates that it sets; those of the test case where it sets none.
    pub feature_gates: BTreeMap<String, bool>,
    /// What is done, in order.
    pub ops: Vec<Op>,
}

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Adds nodes.
    CreateNodes(CreateNodes),
    /// Adds pods, which the scheduler is to place.
    CreatePods(CreatePods),
    /// Adds namespaces.
    CreateNamespaces(CreateNamespaces),
    /// Adds objects about storage.
    CreateStorage(CreateStorage),
    /// Waits until the scheduler has looked at every pod.
    Barrier,
}

/// Adds nodes: see [`Self::nodes`].
#[derive(Clone, Debug, PartialEq)]
pub struct CreateNodes {
    /// How many.
    pub count: usize,
    /// How many nodes earlier operations of the workload add; generated names go on from
    /// there.
    pub first_index: usize,
    /// What a node is made from.
    pub template: Arc<Node>,
    /// In what nodes differ from the template and from each other.
    pub strategy: NodeStrategy,
    /// How many volumes each CSI driver can attach, by its name. If there are any, each node
    /// has a CSINode.
    pub csi_limits: BTreeMap<String, i32>,
}

/// In what nodes differ from their template and from each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum NodeStrategy {
    /// In nothing but the name.
    #[default]
    Trivial,
    /// In allocatable resources, which are set to these.
    Allocatable(ResourceList),
    /// In a label, whose values take turns.
    Label {
        /// Its key.
        key: String,
        /// Its values, at least one.
        values: Vec<String>,
    },
    /// In a label with a value of its own for each node.
    UniqueLabel {
        /// Its key.
        key: String,
    },
}

/// Adds pods: see [`Self::pods`].
#[derive(Clone, Debug, PartialEq)]
pub struct CreatePods {
    /// How many.
    pub count: usize,
    /// How many pods earlier operations of the workload add; generated names go on from
    /// there.
    pub first_index: usize,
    /// What a pod is made from.
    pub template: Arc<Pod>,
    /// The pods' namespace.
    pub namespace: String,
    /// What the claim of each pod and its volume are made from; `None` if they have none.
    pub storage: Option<StorageTemplates>,
    /// Whether the placing of these pods is what is measured.
    pub collect_metrics: bool,
    /// Whether the next operation begins before these pods are placed.
    pub skip_wait_to_completion: bool,
}

/// What the claim of a pod and its volume are made from.
#[derive(Clone, Debug, PartialEq)]
pub struct StorageTemplates {
    /// The volume.
    pub volume: Arc<PersistentVolume>,
    /// The claim, which is bound to it.
    pub claim: Arc<PersistentVolumeClaim>,
}

/// Adds objects about storage: see [`Self::objects`].
#[derive(Clone, Debug, PartialEq)]
pub struct CreateStorage {
    /// How many.
    pub count: usize,
    /// What an object is made from.
    pub template: Arc<Object>,
    /// The namespace of claims.
    pub namespace: String,
}

/// Adds namespaces: see [`Self::namespaces`].
#[derive(Clone, Debug, PartialEq)]
pub struct CreateNamespaces {
    /// How many.
    pub count: usize,
    /// Their names are this, a dash and a number from 0.
    pub prefix: String,
    /// What a namespace is made from.
    pub template: Arc<Namespace>,
}

impl CreateNodes {
    /// The nodes. Each has the label `kubernetes.io/hostname` with its name.
    pub fn nodes(&self) -> impl Iterator<Item = Node> {
        (0..self.count).map(|i| {
            let mut node = (*self.template).clone();
            let metadata = &mut node.metadata;
            name_by_number(metadata, self.first_index + i);
            let hostname = metadata.name.clone();
            metadata
                .labels
                .insert("kubernetes.io/hostname".to_owned(), hostname);
            match &self.strategy {
                NodeStrategy::Trivial => {}
                NodeStrategy::Allocatable(allocatable) => {
                    node.status.allocatable.extend(allocatable.clone());
                }
                NodeStrategy::Label { key, values } => {
                    let value = values.iter().cycle().nth(i % values.len().max(1));
                    metadata
                        .labels
                        .extend(value.map(|value| (key.clone(), value.clone())));
                }
                NodeStrategy::UniqueLabel { key } => {
                    metadata.labels.insert(key.clone(), metadata.name.clone());
                }
            }
            node
        })
    }

    /// What is known of the CSI drivers of the nodes.
    pub fn csi_nodes(&self) -> impl Iterator<Item = CSINode> {
        let drivers = self.csi_limits.iter().map(|(name, count)| CsiNodeDriver {
            name: name.clone(),
            allocatable: Some(VolumeNodeResources {
                count: Some(*count),
            }),
            ..CsiNodeDriver::default()
        });
        let drivers: Vec<CsiNodeDriver> = drivers.collect();
        let nodes = if drivers.is_empty() { 0 } else { self.count };
        (0..nodes).map(move |i| {
            let mut node = CSINode {
                metadata: self.template.metadata.clone(),
                ..CSINode::default()
            };
            name_by_number(&mut node.metadata, self.first_index + i);
            node.spec.drivers.clone_from(&drivers);
            node
        })
    }
}

impl CreatePods {
    /// The pods. They share one spec, unless each has a claim.
    pub fn pods(&self) -> impl Iterator<Item = Pod> {
        (0..self.count).map(|i| {
            let number = self.first_index + i;
            let mut pod = (*self.template).clone();
            let metadata = &mut pod.metadata;
            name_by_number(metadata, number);
            metadata.namespace.clone_from(&self.namespace);
            if self.storage.is_some() {
                Arc::make_mut(&mut pod.spec).volumes = vec![claim_volume(number)];
            }
            pod
        })
    }

    /// The claims of the pods and their volumes, each bound to the other, as upstream's
    /// `CreatePodWithPersistentVolume` makes them (`test/utils/runners.go`).
    pub fn storage_objects(&self) -> impl Iterator<Item = Object> {
        let numbers = self.first_index..self.first_index + self.count;
        let templates = self.storage.iter();
        let pairs = templates.flat_map(move |templates| {
            let numbers = numbers.clone();
            numbers.map(|number| templates.objects(number, &self.namespace))
        });
        pairs.flatten()
    }
}

impl StorageTemplates {
    /// A volume and the claim that is bound to it.
    fn objects(&self, number: usize, namespace: &str) -> [Object; 2] {
        let mut volume = (*self.volume).clone();
        let mut claim = (*self.claim).clone();
        let (volume_name, claim_name) = (format!("vol-{number}"), claim_name(number));
        let spec = &mut volume.spec;
        if let Some(csi) = &mut spec.csi {
            csi.volume_handle.clone_from(&volume_name);
        }
        if let Some(disk) = &mut spec.aws_elastic_block_store {
            disk.volume_id.clone_from(&volume_name);
        }
        spec.claim_ref = Some(ClaimReference {
            namespace: namespace.to_owned(),
            name: claim_name.clone(),
            ..ClaimReference::default()
        });
        volume.status.phase = "Bound".to_owned();
        // Volumes are not in a namespace: their names must be unique without it.
        volume.metadata.name = format!("{namespace}-{volume_name}");
        claim.metadata.namespace = namespace.to_owned();
        claim.metadata.name = claim_name;
        claim.spec.volume_name.clone_from(&volume.metadata.name);
        claim.status.phase = "Bound".to_owned();
        [
            Object::PersistentVolume(volume.into()),
            Object::PersistentVolumeClaim(claim.into()),
        ]
    }
}

fn claim_name(number: usize) -> String {
    format!("pvc-{number}")
}

fn claim_volume(number: usize) -> Volume {
    Volume {
        name: "vol".to_owned(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: claim_name(number),
            ..PersistentVolumeClaimVolumeSource::default()
        }),
        ..Volume::default()
    }
}

impl CreateStorage {
    /// The objects.
    pub fn objects(&self) -> impl Iterator<Item = Object> {
        (0..self.count).map(|i| {
            let mut object = (*self.template).clone();
            if matches!(object, Object::PersistentVolumeClaim(_)) {
                object.metadata_mut().namespace.clone_from(&self.namespace);
            }
            name_by_number(object.metadata_mut(), i);
            object
        })
    }
}

impl CreateNamespaces {
    /// The namespaces. Each has the label `kubernetes.io/metadata.name` with its name.
    pub fn namespaces(&self) -> impl Iterator<Item = Namespace> {
        (0..self.count).map(|i| {
            let mut namespace = (*self.template).clone();
            namespace.metadata.name = format!("{}-{i}", self.prefix);
            outrank_api::defaults::default_namespace(&mut namespace);
            namespace
        })
    }
}

/// Names an object that leaves that to the API server.
fn name_by_number(metadata: &mut ObjectMeta, number: usize) {
    if metadata.name.is_empty() {
        metadata.name = format!("{}{number}", metadata.generate_name);
    }
}

/// Reads a workload file and its templates from disk; see [`read`].
///
/// # Errors
///
/// As [`read`] reports them.
pub fn read_from_disk(path: &Path) -> Result<WorkloadFile, Diagnostic> {
    read(path, &mut |path| std::fs::read(path))
}
