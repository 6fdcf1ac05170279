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
//!   `nodeAllocatableStrategy` (with `nodeAllocatable`), `labelNodePrepareStrategy` and
//!   `uniqueNodeLabelStrategy`;
//! * `createPods` with `count` or `countParam`, `podTemplatePath`, `namespace`,
//!   `collectMetrics` and `skipWaitToCompletion`;
//! * `createPodSets` with `count` or `countParam`, `namespacePrefix` and a `createPodsOp`,
//!   which is done in each of these namespaces;
//! * `createNamespaces` with `count` or `countParam`, `prefix` and `namespaceTemplatePath`;
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

use outrank_api::diagnostic::Diagnostic;
use outrank_api::types::{Namespace, Node, ObjectMeta, Pod, ResourceList};

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
    /// Whether the placing of these pods is what is measured.
    pub collect_metrics: bool,
    /// Whether the next operation begins before these pods are placed.
    pub skip_wait_to_completion: bool,
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
}

impl CreatePods {
    /// The pods. They share one spec.
    pub fn pods(&self) -> impl Iterator<Item = Pod> {
        (0..self.count).map(|i| {
            let mut pod = (*self.template).clone();
            let metadata = &mut pod.metadata;
            name_by_number(metadata, self.first_index + i);
            metadata.namespace.clone_from(&self.namespace);
            pod
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
