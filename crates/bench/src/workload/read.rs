//! Reads workload files.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use outrank_api::decode::{self, Object};
use outrank_api::diagnostic::{Diagnostic, Severity};
use outrank_api::document::{self, Document, DuplicateKey, Receiver};
use outrank_api::quantity::Quantity;
use outrank_api::types::{
    Namespace, Node, ObjectMeta, PersistentVolume, PersistentVolumeClaim, Pod, ResourceList,
};
use serde_json::Value;

use super::field::{Field, Fields, Problem};
use super::{
    CreateNamespaces, CreateNodes, CreatePods, CreateStorage, NodeStrategy, OBJECTS_MAX, OPS_MAX,
    Op, POD_SETS_MAX, StorageTemplates, TestCase, WORKLOADS_MAX, Workload, WorkloadFile,
};

/// What upstream's files may say besides [`SUPPORTED_OPCODES`].
const OTHER_OPCODES: &[&str] = &[
    "allocResourceClaims",
    "churn",
    "createResourceClaims",
    "createResourceDriver",
    "deletePods",
    "sleep",
    "startCollectingMetrics",
    "stopCollectingMetrics",
    "updateAny",
];
const SUPPORTED_OPCODES: &[&str] = &[
    "createNodes",
    "createPods",
    "createPodSets",
    "createNamespaces",
    "createAny",
    "barrier",
];

const DEFAULT_NODE: &str = "
apiVersion: v1
kind: Node
metadata: { generateName: node- }
status: { capacity: { cpu: '4', memory: 32Gi, pods: '110' } }
";
const DEFAULT_POD: &str = "
apiVersion: v1
kind: Pod
metadata: { generateName: pod- }
spec:
  containers:
  - name: pause
    image: registry.k8s.io/pause:3.10
    ports: [{ containerPort: 80 }]
    resources:
      limits: { cpu: 100m, memory: 500Mi }
      requests: { cpu: 100m, memory: 500Mi }
";
const DEFAULT_NAMESPACE: &str = "{ apiVersion: v1, kind: Namespace }";

/// Where files are read from: a path in, its bytes out.
type Source<'s> = &'s mut dyn FnMut(&Path) -> io::Result<Vec<u8>>;

/// Reads a workload file and its templates. `source` is asked for the file at `path` and
/// then for each template once, by its path relative to that of the file.
///
/// # Errors
///
/// The first thing that is wrong with the file itself. What is wrong with a template is
/// told by the test cases that use it.
pub fn read(path: impl AsRef<Path>, source: Source<'_>) -> Result<WorkloadFile, Diagnostic> {
    let path = path.as_ref();
    let document = document_of(path, source)?;
    let mut reader = Reader {
        file: path,
        source,
        templates: BTreeMap::new(),
        warnings: Vec::new(),
    };
    let root = Field {
        path: String::new(),
        value: &document,
    };
    let test_cases = root
        .list()
        .and_then(|cases| cases.iter().map(|case| reader.test_case(case)).collect());
    match test_cases {
        Ok(test_cases) => Ok(WorkloadFile {
            test_cases,
            warnings: reader.warnings,
        }),
        Err(problem) => Err(reader.diagnostic(problem)),
    }
}

/// The only document of the file.
fn document_of(path: &Path, source: Source<'_>) -> Result<Value, Diagnostic> {
    #[derive(Default)]
    struct Documents {
        documents: Vec<Document>,
        duplicates: Vec<DuplicateKey>,
    }
    impl Receiver for Documents {
        fn document(&mut self, document: Document) {
            self.documents.push(document);
        }
        fn duplicate_key(&mut self, duplicate: DuplicateKey) {
            self.duplicates.push(duplicate);
        }
    }
    let fail = |line, message: String| file_error(path, line, message);
    let bytes = source(path).map_err(|error| fail(0, error.to_string()))?;
    let mut received = Documents::default();
    document::text(&bytes)
        .and_then(|text| document::read(&text, &mut received))
        .map_err(|error| fail(error.line, error.message))?;
    if let Some(duplicate) = received.duplicates.first() {
        return Err(fail(
            duplicate.line,
            format!("{:?} is there twice", duplicate.key),
        ));
    }
    let count = received.documents.len();
    match received.documents.pop() {
        Some(document) if count == 1 => Ok(document.value),
        _ => Err(fail(
            0,
            format!("expected one document, a list of test cases; found {count}"),
        )),
    }
}

fn file_error(file: &Path, line: usize, message: String) -> Diagnostic {
    Diagnostic {
        severity: Severity::Error,
        file: file.to_string_lossy().into(),
        line,
        path: String::new(),
        message,
        suggestion: None,
        more: 0,
    }
}

enum Failure {
    /// Of the file.
    Field(Problem),
    /// Of the test case.
    Template(Vec<Diagnostic>),
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Failure::Field(problem)
    }
}

#[derive(Clone)]
enum Template {
    Node(Arc<Node>),
    Pod(Arc<Pod>),
    Namespace(Arc<Namespace>),
    Volume(Arc<PersistentVolume>),
    Claim(Arc<PersistentVolumeClaim>),
    /// Another object that storage is made of.
    Storage(Arc<Object>),
}

struct Reader<'r> {
    file: &'r Path,
    source: Source<'r>,
    /// By path.
    templates: BTreeMap<PathBuf, Template>,
    warnings: Vec<Diagnostic>,
}

/// One run through the operations of a test case, with the parameters of a workload.
struct Run<'c> {
    default_pod_template: Option<Field<'c>>,
    params: BTreeMap<&'c str, Field<'c>>,
    params_path: String,
    used_params: BTreeSet<&'c str>,
    nodes: usize,
    pods: usize,
    /// Names of nodes and pods that templates fix.
    names: BTreeSet<String>,
}

impl Reader<'_> {
    fn test_case(&mut self, case: &Field<'_>) -> Result<TestCase, Problem> {
        let fields = case.object(&[
            "name",
            "labels",
            "featureGates",
            "defaultPodTemplatePath",
            "schedulerConfigPath",
            "workloadTemplate",
            "workloads",
            "metricsCollectorConfig",
            "defaultThresholdMetricSelector",
        ])?;
        let name = fields.require("name")?.text()?.to_owned();
        let config_path = fields.text("schedulerConfigPath")?;
        let ops = fields.require("workloadTemplate")?;
        let op_fields = ops.list_of_at_most(OPS_MAX)?;
        let workloads = match first_unsupported(&op_fields)? {
            Some(problem) => Err(vec![self.diagnostic(problem)]),
            None => match self.workloads(&fields, &op_fields) {
                Ok(workloads) => Ok(workloads),
                Err(Failure::Template(diagnostics)) => Err(diagnostics),
                Err(Failure::Field(problem)) => return Err(problem),
            },
        };
        Ok(TestCase {
            name,
            scheduler_config_path: config_path.map(|path| self.resolve(path)),
            workloads,
        })
    }

    fn workloads(
        &mut self,
        case: &Fields<'_>,
        ops: &[Field<'_>],
    ) -> Result<Vec<Workload>, Failure> {
        let mut names = BTreeSet::new();
        let mut workloads = Vec::new();
        let list = case.require("workloads")?;
        for workload in list.list_of_at_most(WORKLOADS_MAX)? {
            let fields = workload.object(&[
                "name",
                "labels",
                "featureGates",
                "params",
                "threshold",
                "thresholdMetricSelector",
            ])?;
            let name = fields.require("name")?;
            if !names.insert(name.text()?) {
                return Err(name.problem("an earlier workload has the same name").into());
            }
            let mut labels = case.texts("labels")?;
            labels.extend(fields.texts("labels")?);
            let mut feature_gates = gates(case)?;
            feature_gates.extend(gates(&fields)?);
            workloads.push(Workload {
                name: name.text()?.to_owned(),
                labels,
                feature_gates,
                ops: self.ops(case, &workload, &fields, ops)?,
            });
        }
        Ok(workloads)
    }

    fn ops(
        &mut self,
        case: &Fields<'_>,
        workload: &Field<'_>,
        fields: &Fields<'_>,
        ops: &[Field<'_>],
    ) -> Result<Vec<Op>, Failure> {
        let params = fields
            .get("params")
            .map(|params| params.entries())
            .transpose()?;
        let mut run = Run {
            default_pod_template: case.get("defaultPodTemplatePath"),
            params: params.unwrap_or_default().into_iter().collect(),
            params_path: format!("{}.params", workload.path),
            used_params: BTreeSet::new(),
            nodes: 0,
            pods: 0,
            names: BTreeSet::new(),
        };
        let mut done = Vec::new();
        for (index, op) in ops.iter().enumerate() {
            if opcode(op)? == "createPodSets" {
                done.extend(self.create_pod_sets(op, &mut run)?);
            } else {
                done.push(self.op(op, index, &mut run)?);
            }
        }
        for (name, param) in &run.params {
            if !run.used_params.contains(name) {
                let mut warning = self.diagnostic(param.problem("no operation uses it"));
                warning.severity = Severity::Warning;
                self.warnings.push(warning);
            }
        }
        Ok(done)
    }

    fn op<'c>(&mut self, op: &Field<'c>, index: usize, run: &mut Run<'c>) -> Result<Op, Failure> {
        match opcode(op)? {
            "createNodes" => self.create_nodes(op, run),
            "createPods" => {
                let namespace = format!("namespace-{index}");
                self.create_pods(op, namespace, run)
            }
            "createNamespaces" => self.create_namespaces(op, run),
            "createAny" => self.create_any(op, format!("namespace-{index}"), run),
            _ => {
                op.object(&["opcode", "namespaces", "labelSelector", "stageRequirement"])?;
                Ok(Op::Barrier)
            }
        }
    }

    fn create_nodes<'c>(&mut self, op: &Field<'c>, run: &mut Run<'c>) -> Result<Op, Failure> {
        let fields = op.object(&[
            "opcode",
            "count",
            "countParam",
            "nodeTemplatePath",
            "nodeAllocatableStrategy",
            "labelNodePrepareStrategy",
            "uniqueNodeLabelStrategy",
        ])?;
        let count = run.count(op, &fields)?;
        let path = fields.get("nodeTemplatePath");
        let Template::Node(template) = self.template(path.as_ref(), DEFAULT_NODE)? else {
            return Err(path
                .as_ref()
                .unwrap_or(op)
                .problem("is not the template of a Node")
                .into());
        };
        run.check_name(
            path.as_ref().unwrap_or(op),
            &template.metadata,
            count,
            "node",
        )?;
        let first_index = run.nodes;
        run.nodes += count;
        let strategy = node_strategy(op, &fields)?;
        let csi_limits = match fields.get("nodeAllocatableStrategy") {
            Some(strategy) => csi_limits(&strategy)?,
            None => BTreeMap::new(),
        };
        Ok(Op::CreateNodes(CreateNodes {
            count,
            first_index,
            template,
            strategy,
            csi_limits,
        }))
    }

    fn create_pods<'c>(
        &mut self,
        op: &Field<'c>,
        default_namespace: String,
        run: &mut Run<'c>,
    ) -> Result<Op, Failure> {
        let supported = [
            "opcode",
            "count",
            "countParam",
            "podTemplatePath",
            "namespace",
            "collectMetrics",
            "skipWaitToCompletion",
            "persistentVolumeTemplatePath",
            "persistentVolumeClaimTemplatePath",
        ];
        let fields = op.object(&[&supported, UNSUPPORTED_POD_FIELDS].concat())?;
        let count = run.count(op, &fields)?;
        let path = fields.get("podTemplatePath");
        let path = path.as_ref().or(run.default_pod_template.as_ref());
        let Template::Pod(template) = self.template(path, DEFAULT_POD)? else {
            return Err(path
                .unwrap_or(op)
                .problem("is not the template of a Pod")
                .into());
        };
        let namespace = fields.text("namespace")?;
        let namespace = namespace.map_or(default_namespace, str::to_owned);
        let what = format!("pod in namespace {namespace}");
        let place = Field {
            path: path.unwrap_or(op).path.clone(),
            value: op.value,
        };
        run.check_name(&place, &template.metadata, count, &what)?;
        let collect_metrics = fields.flag("collectMetrics")?;
        let skip_wait_to_completion = fields.flag("skipWaitToCompletion")?;
        if collect_metrics && skip_wait_to_completion {
            let message = "collectMetrics and skipWaitToCompletion exclude each other";
            return Err(op.problem(message).into());
        }
        let storage = self.storage_templates(op, &fields)?;
        let first_index = run.pods;
        run.pods += count;
        Ok(Op::CreatePods(CreatePods {
            count,
            first_index,
            template,
            namespace,
            storage,
            collect_metrics,
            skip_wait_to_completion,
        }))
    }

    /// What claims of pods and their volumes are made from.
    fn storage_templates(
        &mut self,
        op: &Field<'_>,
        fields: &Fields<'_>,
    ) -> Result<Option<StorageTemplates>, Failure> {
        let volume = fields.get("persistentVolumeTemplatePath");
        let claim = fields.get("persistentVolumeClaimTemplatePath");
        let (volume_path, claim_path) = match (volume, claim) {
            (None, None) => return Ok(None),
            (Some(volume), Some(claim)) => (volume, claim),
            _ => {
                let message = "needs both persistentVolumeTemplatePath and \
                               persistentVolumeClaimTemplatePath, or neither";
                return Err(op.problem(message).into());
            }
        };
        let Template::Volume(volume) = self.template_at(&volume_path)? else {
            let message = "is not the template of a PersistentVolume";
            return Err(volume_path.problem(message).into());
        };
        let Template::Claim(claim) = self.template_at(&claim_path)? else {
            let message = "is not the template of a PersistentVolumeClaim";
            return Err(claim_path.problem(message).into());
        };
        Ok(Some(StorageTemplates { volume, claim }))
    }

    fn create_any<'c>(
        &mut self,
        op: &Field<'c>,
        default_namespace: String,
        run: &mut Run<'c>,
    ) -> Result<Op, Failure> {
        let known = ["opcode", "count", "countParam", "templatePath", "namespace"];
        let fields = op.object(&known)?;
        let path = fields.require("templatePath")?;
        let template = match self.template_at(&path)? {
            Template::Volume(volume) => Object::PersistentVolume((*volume).clone().into()),
            Template::Claim(claim) => Object::PersistentVolumeClaim((*claim).clone().into()),
            Template::Storage(object) => (*object).clone(),
            _ => {
                let message = "opcode createAny is supported for objects about storage only";
                return Err(path.problem(message).into());
            }
        };
        let count = run.count(op, &fields)?;
        let namespace = fields.text("namespace")?;
        let namespace = namespace.map_or(default_namespace, str::to_owned);
        let what = format!("{} in namespace {namespace}", template.kind().name());
        run.check_name(&path, template.metadata(), count, &what)?;
        Ok(Op::CreateStorage(CreateStorage {
            count,
            template: Arc::new(template),
            namespace,
        }))
    }

    /// The same pods in each of several namespaces.
    fn create_pod_sets<'c>(
        &mut self,
        op: &Field<'c>,
        run: &mut Run<'c>,
    ) -> Result<Vec<Op>, Failure> {
        let known = [
            "opcode",
            "count",
            "countParam",
            "namespacePrefix",
            "createPodsOp",
        ];
        let fields = op.object(&known)?;
        let prefix = fields.require("namespacePrefix")?.text()?.to_owned();
        let pods = fields.require("createPodsOp")?;
        let count = run.count(op, &fields)?;
        if count > POD_SETS_MAX {
            let message = format!("{count} sets of pods are too many: at most {POD_SETS_MAX}");
            return Err(op.problem(message).into());
        }
        (0..count)
            .map(|number| self.create_pods(&pods, format!("{prefix}-{number}"), run))
            .collect()
    }

    fn create_namespaces<'c>(&mut self, op: &Field<'c>, run: &mut Run<'c>) -> Result<Op, Failure> {
        let known = [
            "opcode",
            "count",
            "countParam",
            "prefix",
            "namespaceTemplatePath",
        ];
        let fields = op.object(&known)?;
        let path = fields.get("namespaceTemplatePath");
        let Template::Namespace(template) = self.template(path.as_ref(), DEFAULT_NAMESPACE)? else {
            let place = path.as_ref().unwrap_or(op);
            return Err(place.problem("is not the template of a Namespace").into());
        };
        Ok(Op::CreateNamespaces(CreateNamespaces {
            count: run.count(op, &fields)?,
            prefix: fields.require("prefix")?.text()?.to_owned(),
            template,
        }))
    }

    /// The template in the file that a field names, or the built-in one.
    fn template(&mut self, path: Option<&Field<'_>>, built_in: &str) -> Result<Template, Failure> {
        let Some(path) = path else {
            return self.decode_template(Path::new("built-in template"), built_in.as_bytes());
        };
        self.template_at(path)
    }

    /// The template in the file that a field names.
    fn template_at(&mut self, path: &Field<'_>) -> Result<Template, Failure> {
        let file = self.resolve(path.text()?);
        if let Some(template) = self.templates.get(&file) {
            return Ok(template.clone());
        }
        let bytes = (self.source)(&file)
            .map_err(|error| path.problem(format!("cannot read {}: {error}", file.display())))?;
        let template = self.decode_template(&file, &bytes)?;
        self.templates.insert(file, template.clone());
        Ok(template)
    }

    fn decode_template(&mut self, file: &Path, bytes: &[u8]) -> Result<Template, Failure> {
        let fail =
            |message: &str| Err(Failure::Template(vec![file_error(file, 0, message.into())]));
        if bytes.windows(2).any(|pair| pair == b"{{") {
            return fail("placeholders ({{...}}) are not supported in templates");
        }
        let mut loaded = decode::load([(&*file.to_string_lossy(), bytes)]);
        let mut objects = loaded.objects.into_iter().map(|loaded| loaded.object);
        let object = objects.next();
        if object.as_ref().is_some_and(is_named_by_operation) {
            loaded.errors.retain(|error| error.path != "metadata.name");
        }
        if !loaded.errors.is_empty() {
            return Err(Failure::Template(loaded.errors));
        }
        self.warnings.append(&mut loaded.warnings);
        let template = match object {
            Some(Object::Node(node)) => Template::Node(Arc::from(node)),
            Some(Object::Pod(pod)) => Template::Pod(Arc::from(pod)),
            Some(Object::Namespace(namespace)) => Template::Namespace(Arc::from(namespace)),
            Some(Object::PersistentVolume(volume)) => Template::Volume(Arc::from(volume)),
            Some(Object::PersistentVolumeClaim(claim)) => Template::Claim(Arc::from(claim)),
            Some(object) if object.kind().is_storage() => Template::Storage(Arc::new(object)),
            _ => return fail("a template is one Node, Pod, Namespace or object about storage"),
        };
        if objects.next().is_some() {
            return fail("a template is one object, and this file has more");
        }
        Ok(template)
    }

    /// A path that is relative to the workload file.
    fn resolve(&self, path: &str) -> PathBuf {
        let folder = self.file.parent().unwrap_or(Path::new(""));
        folder.join(path)
    }

    fn diagnostic(&self, problem: Problem) -> Diagnostic {
        Diagnostic {
            path: problem.path,
            ..file_error(self.file, 0, problem.message)
        }
    }
}

impl<'c> Run<'c> {
    /// `countParam`, or else `count`.
    fn count(&mut self, op: &Field<'c>, fields: &Fields<'c>) -> Result<usize, Problem> {
        let Some(reference) = fields.get("countParam") else {
            let count = fields.get("count");
            let count = count.ok_or_else(|| op.problem("needs count or countParam"))?;
            return count.count(OBJECTS_MAX);
        };
        let text = reference.text()?;
        let Some(name) = text.strip_prefix('$') else {
            let message = format!("expected a parameter such as $nodes, found {text:?}");
            return Err(reference.problem(message));
        };
        let Some((name, param)) = self.params.get_key_value(name) else {
            let message = format!("there is no parameter {name:?} in {}", self.params_path);
            return Err(reference.problem(message));
        };
        self.used_params.insert(name);
        param.count(OBJECTS_MAX)
    }

    /// A fixed name can be used once.
    fn check_name(
        &mut self,
        place: &Field<'_>,
        metadata: &ObjectMeta,
        count: usize,
        what: &str,
    ) -> Result<(), Problem> {
        let name = &metadata.name;
        if name.is_empty() || count == 0 {
            return Ok(());
        }
        if count > 1 || !self.names.insert(format!("{what}/{name}")) {
            let message = format!(
                "the template names its {what} {name:?}, so there can be one only; \
                 use metadata.generateName"
            );
            return Err(place.problem(message));
        }
        Ok(())
    }
}

/// What of an operation `createPods` is upstream's but not supported.
const UNSUPPORTED_POD_FIELDS: &[&str] = &[
    "steadyState",
    "steadyStateParam",
    "duration",
    "durationParam",
];

/// What of the strategy `nodeAllocatableStrategy` is.
const UNSUPPORTED_STRATEGY_FIELDS: &[&str] = &["migratedPlugins"];

fn opcode<'a>(op: &Field<'a>) -> Result<&'a str, Problem> {
    let code = op.entries()?.into_iter().find(|(key, _)| *key == "opcode");
    let (_, code) = code.ok_or_else(|| op.problem("needs an opcode"))?;
    code.text()
}

/// The first operation, or field of one, that cannot be run.
fn first_unsupported(ops: &[Field<'_>]) -> Result<Option<Problem>, Problem> {
    for op in ops {
        let code = opcode(op)?;
        if OTHER_OPCODES.contains(&code) {
            let supported = SUPPORTED_OPCODES.join(", ");
            let message = format!("opcode {code} is not supported; supported are {supported}");
            return Ok(Some(op.problem(message)));
        }
        if !SUPPORTED_OPCODES.contains(&code) {
            return Err(op.problem(format!("there is no opcode {code:?}")));
        }
        let mut entries = op.entries()?;
        if let Some((_, strategy)) = entries
            .iter()
            .find(|(key, _)| *key == "nodeAllocatableStrategy")
        {
            entries.extend(strategy.entries()?);
        }
        let unsupported = entries.into_iter().find(|(key, field)| {
            let off = matches!(field.value, Value::Null | Value::Bool(false));
            let known =
                UNSUPPORTED_POD_FIELDS.contains(key) || UNSUPPORTED_STRATEGY_FIELDS.contains(key);
            known && !off
        });
        if let Some((_, field)) = unsupported {
            return Ok(Some(
                field.problem(format!("is not supported with opcode {code}")),
            ));
        }
    }
    Ok(None)
}

fn gates(fields: &Fields<'_>) -> Result<BTreeMap<String, bool>, Problem> {
    let Some(gates) = fields.get("featureGates") else {
        return Ok(BTreeMap::new());
    };
    let gates = gates.entries()?;
    gates
        .into_iter()
        .map(|(name, on)| Ok((name.to_owned(), on.boolean()?)))
        .collect()
}

/// Whether an object without a name gets one from the operation that makes it.
fn is_named_by_operation(object: &Object) -> bool {
    let can_be = matches!(
        object,
        Object::Namespace(_) | Object::PersistentVolume(_) | Object::PersistentVolumeClaim(_)
    );
    can_be && object.metadata().name.is_empty()
}

fn strategy_fields() -> Vec<&'static str> {
    let supported: &[&str] = &["nodeAllocatable", "csiNodeAllocatable"];
    [supported, UNSUPPORTED_STRATEGY_FIELDS].concat()
}

/// How many volumes each CSI driver can attach to a node.
fn csi_limits(strategy: &Field<'_>) -> Result<BTreeMap<String, i32>, Problem> {
    let fields = strategy.object(&strategy_fields())?;
    let Some(drivers) = fields.get("csiNodeAllocatable") else {
        return Ok(BTreeMap::new());
    };
    let limits = drivers.entries()?.into_iter().map(|(driver, limit)| {
        let count = limit.object(&["count"])?.require("count")?;
        let count = count.count(i32::MAX as usize)?;
        Ok((driver.to_owned(), i32::try_from(count).unwrap_or(i32::MAX)))
    });
    limits.collect()
}

fn node_strategy(op: &Field<'_>, fields: &Fields<'_>) -> Result<NodeStrategy, Problem> {
    let allocatable = fields.get("nodeAllocatableStrategy");
    let label = fields.get("labelNodePrepareStrategy");
    let unique = fields.get("uniqueNodeLabelStrategy");
    match (allocatable, label, unique) {
        (None, None, None) => Ok(NodeStrategy::Trivial),
        (Some(strategy), None, None) => {
            let amounts = strategy
                .object(&strategy_fields())?
                .require("nodeAllocatable")?
                .entries()?;
            let amounts = amounts.into_iter().map(|(name, field)| {
                let amount: Result<Quantity, _> = field.text()?.parse();
                let amount = amount.map_err(|error| field.problem(error.to_string()))?;
                Ok((name.to_owned(), amount))
            });
            Ok(NodeStrategy::Allocatable(
                amounts.collect::<Result<ResourceList, Problem>>()?,
            ))
        }
        (None, Some(strategy), None) => {
            let strategy_fields = strategy.object(&["labelKey", "labelValues"])?;
            let key = strategy_fields.require("labelKey")?.text()?.to_owned();
            let values = strategy_fields.texts("labelValues")?;
            if values.is_empty() {
                return Err(strategy.problem("needs at least one of labelValues"));
            }
            Ok(NodeStrategy::Label { key, values })
        }
        (None, None, Some(strategy)) => {
            let strategy_fields = strategy.object(&["labelKey"])?;
            let key = strategy_fields.require("labelKey")?.text()?.to_owned();
            Ok(NodeStrategy::UniqueLabel { key })
        }
        _ => Err(op.problem("may have only one strategy")),
    }
}
