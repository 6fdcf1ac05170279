//! Cluster traces: what a real cluster was asked to run, as two CSV files.
//!
//! One file lists the machines, the other the tasks with what they asked for, when they
//! came and when they went. Column names are by default those of the public GPU trace
//! *openb* (cluster-trace-gpu-v2023 of alibaba/clusterdata); every one can be replaced,
//! so that other traces fit.
//!
//! | key | default column | needed | meaning |
//! | --- | --- | --- | --- |
//! | `nodes.name` | `sn` | yes | name of the machine, unique |
//! | `nodes.cpu_milli` | `cpu_milli` | yes | CPU in thousandths of a core |
//! | `nodes.memory_mib` | `memory_mib` | yes | memory in MiB |
//! | `nodes.gpu` | `gpu` | no | number of GPUs |
//! | `nodes.gpu_model` | `model` | no | model of the GPUs; empty is none |
//! | `pods.name` | `name` | yes | name of the task, unique |
//! | `pods.cpu_milli` | `cpu_milli` | yes | CPU requested, in thousandths of a core |
//! | `pods.memory_mib` | `memory_mib` | yes | memory requested, in MiB |
//! | `pods.num_gpu` | `num_gpu` | no | number of GPUs requested |
//! | `pods.gpu_milli` | `gpu_milli` | no | share of a GPU in thousandths; 1000 is a whole one |
//! | `pods.gpu_spec` | `gpu_spec` | no | models that will do, as `A|B`; empty is any |
//! | `pods.qos` | `qos` | no | service class, becomes the priority class |
//! | `pods.creation_seconds` | `creation_time` | no | when the task came |
//! | `pods.deletion_seconds` | `deletion_time` | no | when it went; empty is never |
//! | `pods.scheduled_seconds` | `scheduled_time` | no | when it was placed; empty is never |
//!
//! Times are whole seconds from any common start. Columns without a key are ignored, and
//! so is the order of columns.
//!
//! # What becomes of a row
//!
//! * A machine becomes a Node with `cpu`, `memory`, `pods`
//!   ([`TraceOptions::pods_per_node`]) and, if it has any, `nvidia.com/gpu`; the model is
//!   the label `nvidia.com/gpu.product`.
//! * A task becomes a Pod with one container. GPUs are whole: a share of one (`num_gpu` 1,
//!   `gpu_milli` 460) asks for one `nvidia.com/gpu`, because a device plugin gives out no
//!   less.
//! * `gpu_spec` becomes a required node affinity to these values of the model's label.
//! * `qos` becomes a priority class, see [`TraceOptions::priorities`].
//! * Tasks that ask for the same share one spec.
//!
//! ```
//! use outrank_rehearse::trace::{Source, TraceOptions, parse_trace};
//!
//! let nodes = "sn,cpu_milli,memory_mib,gpu,model\nrack-1,32000,262144,8,T4\n";
//! let pods = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,qos,creation_time\n\
//!             chat-0,6000,12288,1,460,LS,30\n";
//! let trace = parse_trace(
//!     Source { name: "nodes.csv".into(), reader: nodes.as_bytes() },
//!     Source { name: "pods.csv".into(), reader: pods.as_bytes() },
//!     &TraceOptions::default(),
//! )
//! .unwrap();
//! let chat = &trace.pods[0];
//! assert_eq!(chat.arrival_seconds, 30);
//! let container = &chat.pod.spec.containers[0];
//! assert_eq!(container.resources.requests["nvidia.com/gpu"].value(), 1);
//! assert_eq!(chat.pod.spec.priority_class_name, "trace-ls");
//! ```

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::RangeInclusive;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use csv::ByteRecord;
use flate2::read::MultiGzDecoder;
use outrank_api::quantity::{Format, Quantity};
use outrank_api::types::{
    Affinity, Container, Node, NodeAffinity, NodeCondition, NodeSelector, NodeSelectorRequirement,
    NodeSelectorTerm, NodeStatus, ObjectMeta, Pod, PodSpec, PodStatus, PriorityClass, ResourceList,
    ResourceRequirements,
};

/// The resource that GPUs are.
pub const GPU_RESOURCE: &str = "nvidia.com/gpu";

/// The node label that holds the model of the GPUs, as NVIDIA's feature discovery sets it.
pub const GPU_MODEL_LABEL: &str = "nvidia.com/gpu.product";

/// Pods that a node takes unless [`TraceOptions::pods_per_node`] says otherwise: the
/// kubelet's default `maxPods`.
pub const PODS_PER_NODE_DEFAULT: u32 = 110;

/// Namespace of all pods of a trace.
pub const TRACE_NAMESPACE: &str = "default";

/// Problems that are told one by one; of further ones only the number is.
pub const PROBLEMS_MAX: usize = 50;

/// A trace as typed objects.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The machines, in file order.
    pub nodes: Vec<Node>,
    /// The classes that the pods may name; none if the file has no service classes.
    pub priority_classes: Vec<PriorityClass>,
    /// The tasks by arrival; those that came in the same second are in file order.
    pub pods: Vec<TracePod>,
}

impl Trace {
    /// Has tasks come closer together, or further apart, until their work, GPUs times seconds, is
    /// so many percent of what all GPUs give in the time in which they come (CPUs if there are
    /// no GPUs). How long each runs stays; what runs on after the last came counts, too. Nothing changes if no time passes, or if no task ends.
    pub fn scale_load(&mut self, percent: u32) {
        let Some(first) = self.pods.first().map(|task| task.arrival_seconds) else {
            return;
        };
        let has_gpus = |node: &Node| node.status.allocatable.contains_key(GPU_RESOURCE);
        let resource = match self.nodes.iter().any(has_gpus) {
            true => GPU_RESOURCE,
            false => "cpu",
        };
        let amount = |list: &ResourceList| {
            let quantity = list.get(resource);
            quantity.map_or(0.0, |quantity| quantity.value() as f64)
        };
        let nodes = self.nodes.iter();
        let capacity: f64 = nodes.map(|node| amount(&node.status.allocatable)).sum();
        let work = self.pods.iter().filter_map(|task| {
            let seconds = task.departure_seconds?.saturating_sub(task.arrival_seconds);
            let containers = task.pod.spec.containers.iter();
            let asked: f64 = containers.map(|it| amount(&it.resources.requests)).sum();
            Some(asked * seconds as f64)
        });
        let work: f64 = work.sum();
        let span = self
            .pods
            .last()
            .map_or(0, |task| task.arrival_seconds - first);
        let wanted_span = work / (capacity * f64::from(percent) / 100.0);
        if span <= 0 || !wanted_span.is_normal() {
            return;
        }
        let factor = wanted_span / span as f64;
        for task in &mut self.pods {
            let moved = ((task.arrival_seconds - first) as f64 * factor).round() as i64;
            let earlier = task.arrival_seconds - first.saturating_add(moved);
            task.arrival_seconds -= earlier;
            task.departure_seconds = task.departure_seconds.map(|end| end - earlier);
        }
    }
}

/// One task of a trace.
#[derive(Clone, Debug)]
pub struct TracePod {
    /// What was asked for. Its priority is not resolved yet.
    pub pod: Pod,
    /// When it came, in seconds; 0 if the file does not say.
    pub arrival_seconds: i64,
    /// When it went, in seconds; not before `arrival_seconds`.
    pub departure_seconds: Option<i64>,
    /// When the traced cluster placed it, in seconds.
    pub scheduled_seconds: Option<i64>,
}

/// How to read a trace.
#[derive(Clone, Debug)]
pub struct TraceOptions {
    /// Where in the files things are.
    pub columns: TraceColumns,
    /// Pods that a node takes.
    pub pods_per_node: u32,
    /// What the service classes mean. A class that is not listed is an error; an empty
    /// field is no class, that is priority 0.
    pub priorities: Vec<QosPriority>,
}

impl Default for TraceOptions {
    /// Columns of openb, [`PODS_PER_NODE_DEFAULT`], and these classes, in the order in
    /// which such clusters let work go when they run out of room:
    ///
    /// | qos | priority class | value |
    /// | --- | --- | --- |
    /// | `LS` (latency sensitive: online services) | `trace-ls` | 1000 |
    /// | `Guaranteed` | `trace-guaranteed` | 500 |
    /// | `Burstable` | `trace-burstable` | 200 |
    /// | `BE` (best effort: batch) | `trace-be` | 100 |
    fn default() -> Self {
        let classes = [
            ("LS", 1000),
            ("Guaranteed", 500),
            ("Burstable", 200),
            ("BE", 100),
        ];
        Self {
            columns: TraceColumns::default(),
            pods_per_node: PODS_PER_NODE_DEFAULT,
            priorities: classes
                .map(|(qos, value)| QosPriority::new(qos, value))
                .to_vec(),
        }
    }
}

/// A service class and its priority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QosPriority {
    /// As the trace writes it.
    pub qos: String,
    /// Name of the priority class.
    pub class_name: String,
    /// Value of the priority class.
    pub value: i32,
}

impl QosPriority {
    /// The class is called `trace-` and the service class in small letters.
    pub fn new(qos: &str, value: i32) -> Self {
        let class_name = format!("trace-{}", qos.to_ascii_lowercase());
        Self {
            qos: qos.to_owned(),
            class_name,
            value,
        }
    }

    fn to_class(&self) -> PriorityClass {
        PriorityClass {
            metadata: ObjectMeta {
                name: self.class_name.clone(),
                ..Default::default()
            },
            value: self.value,
            description: format!("Tasks of the trace whose qos is {}.", self.qos),
            ..Default::default()
        }
    }
}

/// Reads a trace from two files.
///
/// # Errors
///
/// All that is wrong in both files, up to [`PROBLEMS_MAX`].
pub fn read_trace(nodes: &Path, pods: &Path, options: &TraceOptions) -> Result<Trace, TraceErrors> {
    let mut problems = Problems::default();
    let mut open = |path: &Path| match open_file(path) {
        Ok(reader) => Some(Source {
            name: path.display().to_string(),
            reader,
        }),
        Err(error) => {
            let place = Place {
                file: path.display().to_string(),
                line: 0,
                column: 0,
            };
            problems.add(place, format!("cannot be opened: {error}"));
            None
        }
    };
    match (open(nodes), open(pods)) {
        (Some(nodes), Some(pods)) => parse_trace(nodes, pods, options),
        _ => Err(problems.into_errors()),
    }
}

/// Opens a file, decompressing it as it is read if it is gzip.
fn open_file(path: &Path) -> io::Result<Box<dyn Read>> {
    let mut file = BufReader::new(File::open(path)?);
    let is_gzip = file.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    Ok(match is_gzip {
        true => Box::new(MultiGzDecoder::new(file)),
        false => Box::new(file),
    })
}

/// A file's content and the name by which errors call it.
#[derive(Debug)]
pub struct Source<R> {
    /// Name of the file.
    pub name: String,
    /// Its content; need not be buffered.
    pub reader: R,
}

/// Reads a trace from two streams, row by row.
///
/// # Errors
///
/// All that is wrong in both streams, up to [`PROBLEMS_MAX`].
pub fn parse_trace<N: Read, P: Read>(
    nodes: Source<N>,
    pods: Source<P>,
    options: &TraceOptions,
) -> Result<Trace, TraceErrors> {
    let mut problems = Problems::default();
    let mut trace = Trace::default();
    read_nodes(nodes, options, &mut trace, &mut problems);
    read_pods(pods, options, &mut trace, &mut problems);
    if problems.count > 0 {
        return Err(problems.into_errors());
    }
    trace.pods.sort_by_key(|pod| pod.arrival_seconds);
    Ok(trace)
}

fn read_nodes<R: Read>(
    source: Source<R>,
    options: &TraceOptions,
    trace: &mut Trace,
    problems: &mut Problems,
) {
    let headers = options.columns.headers_of(&NODE_FIELDS);
    each_row(source, &NODE_FIELDS, headers, problems, |mut row| {
        let [name, cpu_milli, memory_mib, gpus, model] = [0, 1, 2, 3, 4];
        let node_name = row.unique_name(name);
        let cpu_milli = row.needed_number(cpu_milli, AMOUNT, "thousandths of a core");
        let memory_mib = row.needed_number(memory_mib, MIB, "MiB");
        let gpus = row.number(gpus, AMOUNT, "GPUs");
        let model = row.text(model);
        let (Some(name), Some(cpu_milli), Some(memory_mib), Ok(gpus), Some(model)) =
            (node_name, cpu_milli, memory_mib, gpus, model)
        else {
            return;
        };
        let mut allocatable = amounts(cpu_milli, memory_mib, gpus.unwrap_or(0));
        allocatable.insert("pods".to_owned(), count(i64::from(options.pods_per_node)));
        trace.nodes.push(node(name, model, allocatable));
    });
}

fn read_pods<R: Read>(
    source: Source<R>,
    options: &TraceOptions,
    trace: &mut Trace,
    problems: &mut Problems,
) {
    let headers = options.columns.headers_of(&POD_FIELDS);
    let mut specs: BTreeMap<Request, Arc<PodSpec>> = BTreeMap::new();
    let mut has_qos = false;
    each_row(source, &POD_FIELDS, headers, problems, |mut row| {
        has_qos |= row.has(QOS);
        let name = row.unique_name(0);
        let request = row.request(options);
        let times = row.times();
        let (Some(name), Some(request), Some(times)) = (name, request, times) else {
            return;
        };
        let [arrival, departure, scheduled] = times;
        let spec = match specs.get(&request) {
            Some(spec) => Arc::clone(spec),
            None => {
                let spec = Arc::new(request.to_spec(options));
                specs.insert(request, Arc::clone(&spec));
                spec
            }
        };
        trace.pods.push(TracePod {
            pod: pod(name, spec),
            arrival_seconds: arrival.unwrap_or(0),
            departure_seconds: departure,
            scheduled_seconds: scheduled,
        });
    });
    if has_qos {
        trace.priority_classes = options
            .priorities
            .iter()
            .map(QosPriority::to_class)
            .collect();
    }
}

/// What a task asks for; equal ones share a spec.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Request {
    cpu_milli: i64,
    memory_mib: i64,
    gpus: i64,
    gpu_models: Vec<String>,
    /// Index into the options' priorities.
    qos: Option<usize>,
}

impl Request {
    fn to_spec(&self, options: &TraceOptions) -> PodSpec {
        let requests = amounts(self.cpu_milli, self.memory_mib, self.gpus);
        // The API takes extended resources only with equal limits.
        let limits = requests.iter().filter(|(name, _)| *name == GPU_RESOURCE);
        let limits = limits
            .map(|(name, amount)| (name.clone(), amount.clone()))
            .collect();
        let class = self.qos.and_then(|index| options.priorities.get(index));
        PodSpec {
            containers: vec![Container {
                name: "task".to_owned(),
                resources: ResourceRequirements { requests, limits },
                ..Default::default()
            }],
            affinity: (!self.gpu_models.is_empty()).then(|| model_affinity(&self.gpu_models)),
            priority_class_name: class
                .map(|class| class.class_name.clone())
                .unwrap_or_default(),
            scheduler_name: "default-scheduler".to_owned(),
            ..Default::default()
        }
    }
}

fn model_affinity(models: &[String]) -> Affinity {
    let requirement = NodeSelectorRequirement {
        key: GPU_MODEL_LABEL.to_owned(),
        operator: "In".to_owned(),
        values: models.to_vec(),
    };
    let term = NodeSelectorTerm {
        match_expressions: vec![requirement],
        ..Default::default()
    };
    let required = NodeSelector {
        node_selector_terms: vec![term],
    };
    let node_affinity = NodeAffinity {
        required: Some(required),
        ..Default::default()
    };
    Affinity {
        node_affinity: Some(node_affinity),
        ..Default::default()
    }
}

fn node(name: String, model: &str, allocatable: ResourceList) -> Node {
    let mut labels = BTreeMap::from([("kubernetes.io/hostname".to_owned(), name.clone())]);
    if !model.is_empty() {
        labels.insert(GPU_MODEL_LABEL.to_owned(), model.to_owned());
    }
    let ready = NodeCondition {
        type_: "Ready".to_owned(),
        status: "True".to_owned(),
        ..Default::default()
    };
    Node {
        metadata: ObjectMeta {
            name,
            labels,
            ..Default::default()
        },
        status: NodeStatus {
            capacity: allocatable.clone(),
            allocatable,
            conditions: vec![ready],
            ..Default::default()
        },
        ..Default::default()
    }
}

fn pod(name: String, spec: Arc<PodSpec>) -> Pod {
    let namespace = TRACE_NAMESPACE.to_owned();
    Pod {
        metadata: ObjectMeta {
            name,
            namespace,
            ..Default::default()
        },
        spec,
        status: PodStatus {
            phase: "Pending".to_owned(),
            ..Default::default()
        },
    }
}

/// `memory_mib` is within [`MIB`], so its bytes fit.
fn amounts(cpu_milli: i64, memory_mib: i64, gpus: i64) -> ResourceList {
    let memory_bytes = memory_mib.saturating_mul(1 << 20);
    let mut amounts = ResourceList::from([
        (
            "cpu".to_owned(),
            Quantity::from_milli(cpu_milli, Format::DecimalSi),
        ),
        (
            "memory".to_owned(),
            Quantity::from_value(memory_bytes, Format::BinarySi),
        ),
    ]);
    if gpus > 0 {
        amounts.insert(GPU_RESOURCE.to_owned(), count(gpus));
    }
    amounts
}

fn count(amount: i64) -> Quantity {
    Quantity::from_value(amount, Format::DecimalSi)
}

// ---------------------------------------------------------------------------
// Columns
// ---------------------------------------------------------------------------

/// Which column of the files holds what; by default the names of openb.
///
/// Written as `key=column` pairs with commas between: `nodes.name=host,pods.qos=tier`.
/// The keys are in the table at the head of [this module](self). A column that is named
/// like this must be in the file; `pods.qos=` (nothing after the sign) leaves an optional
/// column out even if the file has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceColumns {
    /// Column names by key, where they are not the default.
    replaced: BTreeMap<&'static str, String>,
}

/// A thing that a row says, and the column it is in by default.
struct Field {
    key: &'static str,
    column: &'static str,
    needed: bool,
}

const fn needed(key: &'static str, column: &'static str) -> Field {
    Field {
        key,
        column,
        needed: true,
    }
}

const fn optional(key: &'static str, column: &'static str) -> Field {
    Field {
        key,
        column,
        needed: false,
    }
}

const NODE_FIELDS: [Field; 5] = [
    needed("nodes.name", "sn"),
    needed("nodes.cpu_milli", "cpu_milli"),
    needed("nodes.memory_mib", "memory_mib"),
    optional("nodes.gpu", "gpu"),
    optional("nodes.gpu_model", "model"),
];

const POD_FIELDS: [Field; 10] = [
    needed("pods.name", "name"),
    needed("pods.cpu_milli", "cpu_milli"),
    needed("pods.memory_mib", "memory_mib"),
    optional("pods.num_gpu", "num_gpu"),
    optional("pods.gpu_milli", "gpu_milli"),
    optional("pods.gpu_spec", "gpu_spec"),
    optional("pods.qos", "qos"),
    optional("pods.creation_seconds", "creation_time"),
    optional("pods.deletion_seconds", "deletion_time"),
    optional("pods.scheduled_seconds", "scheduled_time"),
];

/// Places in [`POD_FIELDS`].
const QOS: usize = 6;
const CREATION: usize = 7;
const DELETION: usize = 8;
const SCHEDULED: usize = 9;

impl FromStr for TraceColumns {
    type Err = String;

    /// # Errors
    ///
    /// A sentence that says which pair is wrong and which keys there are.
    fn from_str(pairs: &str) -> Result<Self, String> {
        let mut columns = Self::default();
        for pair in pairs
            .split(',')
            .map(str::trim)
            .filter(|pair| !pair.is_empty())
        {
            let Some((key, column)) = pair.split_once('=') else {
                return Err(format!("\"{pair}\" is not of the form key=column"));
            };
            let (key, column) = (key.trim(), column.trim());
            let Some(field) = NODE_FIELDS
                .iter()
                .chain(&POD_FIELDS)
                .find(|field| field.key == key)
            else {
                let keys = NODE_FIELDS.iter().chain(&POD_FIELDS).map(|field| field.key);
                let keys = keys.collect::<Vec<_>>().join(", ");
                return Err(format!("there is no key \"{key}\"; the keys are {keys}"));
            };
            if column.is_empty() && field.needed {
                return Err(format!("{key} cannot be left out: name its column"));
            }
            if columns
                .replaced
                .insert(field.key, column.to_owned())
                .is_some()
            {
                return Err(format!("{key} is given twice"));
            }
        }
        Ok(columns)
    }
}

/// The column that holds a field; an empty name is "left out".
struct Header<'a> {
    name: &'a str,
    needed: bool,
}

impl TraceColumns {
    fn headers_of<'a, const N: usize>(&'a self, fields: &'a [Field; N]) -> [Header<'a>; N] {
        std::array::from_fn(|index| {
            let field = &fields[index];
            match self.replaced.get(field.key) {
                Some(name) => Header {
                    name,
                    needed: !name.is_empty(),
                },
                None => Header {
                    name: field.column,
                    needed: field.needed,
                },
            }
        })
    }
}

// ---------------------------------------------------------------------------
// Rows
// ---------------------------------------------------------------------------

/// Amounts that are counted as they are.
const AMOUNT: RangeInclusive<i64> = 0..=1_000_000_000_000;

/// Memory: as many MiB as have a number of bytes.
const MIB: RangeInclusive<i64> = 0..=(i64::MAX >> 20);

/// Times: more than thirty thousand years.
const SECONDS: RangeInclusive<i64> = 0..=1_000_000_000;

/// Calls `row` for every row that has as many fields as the header.
fn each_row<R: Read, const N: usize>(
    source: Source<R>,
    fields: &[Field; N],
    headers: [Header<'_>; N],
    problems: &mut Problems,
    mut row: impl FnMut(Row<'_, N>),
) {
    let file = source.name;
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(source.reader);
    let head = match reader.byte_headers() {
        Ok(head) => head.clone(),
        Err(error) => {
            let place = Place {
                file,
                line: 1,
                column: 0,
            };
            return problems.add(place, format!("cannot be read: {error}"));
        }
    };
    let Some(columns) = locate(&file, &head, fields, &headers, problems) else {
        return;
    };
    let mut names_seen = HashMap::new();
    let mut record = ByteRecord::new();
    loop {
        let line_before = reader.position().line();
        match reader.read_byte_record(&mut record) {
            Ok(false) => return,
            Ok(true) => {}
            Err(error) => {
                let place = Place {
                    file,
                    line: line_before,
                    column: 0,
                };
                return problems.add(place, format!("cannot be read: {error}"));
            }
        }
        let line = record.position().map_or(line_before, csv::Position::line);
        if record.len() != head.len() {
            let place = Place {
                file: file.clone(),
                line,
                column: 0,
            };
            let (has, should) = (record.len(), head.len());
            let text = format!("the row has {has} fields where the header has {should}");
            problems.add(place, text);
            continue;
        }
        let names_seen = &mut names_seen;
        let headers = &headers;
        row(Row {
            file: &file,
            line,
            record: &record,
            columns,
            headers,
            names_seen,
            problems,
        });
    }
}

/// Finds the columns by the names in the header row.
fn locate<const N: usize>(
    file: &str,
    head: &ByteRecord,
    fields: &[Field; N],
    headers: &[Header<'_>; N],
    problems: &mut Problems,
) -> Option<[Option<usize>; N]> {
    let mut complete = true;
    let columns = std::array::from_fn(|index| {
        let header = &headers[index];
        let found = head.iter().position(|name| name == header.name.as_bytes());
        if found.is_none() && header.needed {
            complete = false;
            let there = head
                .iter()
                .map(String::from_utf8_lossy)
                .collect::<Vec<_>>()
                .join(", ");
            let text = format!(
                "there is no column \"{}\"; the file has: {}. Say which one it is: {}=COLUMN",
                header.name,
                shortened(&there),
                fields[index].key
            );
            problems.add(
                Place {
                    file: file.to_owned(),
                    line: 1,
                    column: 0,
                },
                text,
            );
        }
        found.filter(|_| !header.name.is_empty())
    });
    complete.then_some(columns)
}

/// A row with the places of its fields. Methods take the place of a field in the list of
/// fields, and put what is wrong on the list of problems.
struct Row<'a, const N: usize> {
    file: &'a str,
    line: u64,
    record: &'a ByteRecord,
    /// Per field its column, if the file has it.
    columns: [Option<usize>; N],
    headers: &'a [Header<'a>; N],
    /// Names of earlier rows with their lines.
    names_seen: &'a mut HashMap<String, u64>,
    problems: &'a mut Problems,
}

impl<'a, const N: usize> Row<'a, N> {
    fn has(&self, field: usize) -> bool {
        self.columns[field].is_some()
    }

    /// The text of a field, empty if the file has no such column; none after a problem.
    fn text(&mut self, field: usize) -> Option<&'a str> {
        let record = self.record;
        let bytes = self.columns[field]
            .and_then(|column| record.get(column))
            .unwrap_or_default();
        match std::str::from_utf8(bytes) {
            Ok(text) => Some(text),
            Err(_) => {
                self.report(
                    field,
                    "is not UTF-8; save the file in that encoding".to_owned(),
                );
                None
            }
        }
    }

    fn unique_name(&mut self, field: usize) -> Option<String> {
        let name = self.text(field)?;
        if name.is_empty() {
            self.report(field, "is empty; every row needs a name".to_owned());
            return None;
        }
        if let Some(line) = self.names_seen.insert(name.to_owned(), self.line) {
            let name = shortened(name);
            self.report(
                field,
                format!("\"{name}\" is on line {line} already; names are unique"),
            );
            return None;
        }
        Some(name.to_owned())
    }

    fn needed_number(
        &mut self,
        field: usize,
        range: RangeInclusive<i64>,
        unit: &str,
    ) -> Option<i64> {
        match self.number(field, range.clone(), unit) {
            Ok(Some(number)) => Some(number),
            Ok(None) => {
                let (low, high) = range.into_inner();
                self.report(
                    field,
                    format!("is empty; write {unit}, from {low} to {high}"),
                );
                None
            }
            Err(Reported) => None,
        }
    }

    /// A whole number within `range`; none if the field is empty. `12.0` is whole: tools
    /// that keep columns as floating point numbers write so.
    fn number(
        &mut self,
        field: usize,
        range: RangeInclusive<i64>,
        unit: &str,
    ) -> Result<Option<i64>, Reported> {
        let text = self.text(field).ok_or(Reported)?;
        if text.is_empty() {
            return Ok(None);
        }
        let digits = match text.split_once('.') {
            Some((whole, zeros)) if zeros.bytes().all(|digit| digit == b'0') => whole,
            _ => text,
        };
        match digits.parse() {
            Ok(number) if range.contains(&number) => Ok(Some(number)),
            _ => {
                let (low, high) = range.into_inner();
                let text = shortened(text);
                let right = format!("write {unit}, a whole number from {low} to {high}");
                self.report(field, format!("\"{text}\" will not do: {right}"));
                Err(Reported)
            }
        }
    }

    fn report(&mut self, field: usize, text: String) {
        let column = self.columns[field].map_or(0, |column| column + 1);
        let place = Place {
            file: self.file.to_owned(),
            line: self.line,
            column,
        };
        self.problems
            .add(place, format!("{} {text}", self.headers[field].name));
    }
}

impl Row<'_, { POD_FIELDS.len() }> {
    fn request(&mut self, options: &TraceOptions) -> Option<Request> {
        let cpu_milli = self.needed_number(1, AMOUNT, "thousandths of a core");
        let memory_mib = self.needed_number(2, MIB, "MiB");
        let num_gpu = self.number(3, AMOUNT, "GPUs");
        let gpu_milli = self.number(4, AMOUNT, "thousandths of a GPU");
        let models = self.text(5);
        let qos = self.qos(options);
        let (Ok(num_gpu), Ok(gpu_milli), Ok(qos)) = (num_gpu, gpu_milli, qos) else {
            return None;
        };
        Some(Request {
            cpu_milli: cpu_milli?,
            memory_mib: memory_mib?,
            gpus: whole_gpus(num_gpu.unwrap_or(0), gpu_milli.unwrap_or(0)),
            gpu_models: models_of(models?),
            qos,
        })
    }

    fn qos(&mut self, options: &TraceOptions) -> Result<Option<usize>, Reported> {
        let text = self.text(QOS).ok_or(Reported)?;
        if text.is_empty() {
            return Ok(None);
        }
        let known = options
            .priorities
            .iter()
            .position(|priority| priority.qos == text);
        if known.is_none() {
            let all = options
                .priorities
                .iter()
                .map(|priority| priority.qos.as_str());
            let all = all.collect::<Vec<_>>().join(", ");
            let text = shortened(text);
            self.report(
                QOS,
                format!("\"{text}\" has no priority; those that have: {all}"),
            );
            return Err(Reported);
        }
        Ok(known)
    }

    /// Arrival, departure and placement.
    fn times(&mut self) -> Option<[Option<i64>; 3]> {
        let times =
            [CREATION, DELETION, SCHEDULED].map(|field| self.number(field, SECONDS, "seconds"));
        let [Ok(arrival), Ok(departure), Ok(scheduled)] = times else {
            return None;
        };
        if let Some(departure) = departure
            && departure < arrival.unwrap_or(0)
        {
            let column = self.headers[CREATION].name;
            self.report(
                DELETION,
                format!("is before {column}: a task cannot go before it comes"),
            );
            return None;
        }
        Some([arrival, departure, scheduled])
    }
}

/// `num_gpu` where it is given; a share without a number rounds up to whole GPUs.
fn whole_gpus(num_gpu: i64, gpu_milli: i64) -> i64 {
    if num_gpu > 0 {
        num_gpu
    } else {
        (gpu_milli + 999) / 1000
    }
}

/// `A|B|A` names two models.
fn models_of(text: &str) -> Vec<String> {
    let mut models: Vec<String> = text
        .split('|')
        .map(str::trim)
        .filter(|model| !model.is_empty())
        .map(str::to_owned)
        .collect();
    models.sort_unstable();
    models.dedup();
    models
}

// ---------------------------------------------------------------------------
// Problems
// ---------------------------------------------------------------------------

/// Everything that is wrong with a trace. Displays one problem a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceErrors {
    /// The first [`PROBLEMS_MAX`] problems, in order.
    pub problems: Vec<TraceProblem>,
    /// How many more there are.
    pub further: usize,
}

/// One thing that is wrong. Displays as `file:line:column: text`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceProblem {
    /// Name of the file.
    pub file: String,
    /// Line, from 1; 0 if the whole file is meant.
    pub line: u64,
    /// Which column of the table it is, from 1; 0 if the whole row is meant.
    pub column: usize,
    /// What is wrong and what would be right.
    pub text: String,
}

impl fmt::Display for TraceProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        if self.column > 0 {
            write!(f, ":{}", self.column)?;
        }
        write!(f, ": {}", self.text)
    }
}

impl fmt::Display for TraceErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        if self.further > 0 {
            write!(f, "\nand {} more", self.further)?;
        }
        Ok(())
    }
}

impl std::error::Error for TraceErrors {}

/// Marks that a problem is on the list already.
struct Reported;

struct Place {
    file: String,
    line: u64,
    column: usize,
}

#[derive(Default)]
struct Problems {
    shown: Vec<TraceProblem>,
    count: usize,
}

impl Problems {
    fn add(&mut self, place: Place, text: String) {
        self.count += 1;
        if self.shown.len() < PROBLEMS_MAX {
            let Place { file, line, column } = place;
            self.shown.push(TraceProblem {
                file,
                line,
                column,
                text,
            });
        }
    }

    fn into_errors(self) -> TraceErrors {
        TraceErrors {
            further: self.count - self.shown.len(),
            problems: self.shown,
        }
    }
}

/// Input is quoted in messages, but not megabytes of it, nor what a terminal would obey.
fn shortened(text: &str) -> String {
    const CHARS_MAX: usize = 80;
    let mut shown = String::new();
    for (number, letter) in text.chars().enumerate() {
        if number == CHARS_MAX {
            shown.push_str("...");
            break;
        }
        if letter.is_control() {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    shown
}
