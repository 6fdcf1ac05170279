//! Reads workload files from memory, and all that the project has from disk.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use outrank_api::decode::Object;
use outrank_api::diagnostic::Diagnostic;
use outrank_api::types::{Node, Pod};
use outrank_bench::measure::{Limits, measure};
use outrank_bench::workload::{NodeStrategy, Op, Workload, WorkloadFile, read, read_from_disk};
use outrank_engine::EngineConfig;
use outrank_engine::preemption::safety::PreemptionSafetyArgs;
use outrank_engine::profile::ProfileConfig;

const POD: &str = "
apiVersion: v1
kind: Pod
metadata: { generateName: web- }
spec: { containers: [{ name: c, image: nginx }] }
";

fn read_files(files: &[(&str, &str)]) -> Result<WorkloadFile, Diagnostic> {
    let files: BTreeMap<&str, &str> = files.iter().copied().collect();
    read(
        "suite/perf.yaml",
        &mut |path| match path.to_str().and_then(|path| files.get(path)) {
            Some(text) => Ok(text.as_bytes().to_vec()),
            None => Err(io::Error::new(io::ErrorKind::NotFound, "no such file")),
        },
    )
}

/// A file with one test case with these operations and these fields in its one workload.
fn suite(ops: &str, workload: &str) -> String {
    let ops: String = ops
        .trim()
        .lines()
        .map(|line| format!("  {line}\n"))
        .collect();
    format!("- name: Case\n  workloadTemplate:\n{ops}  workloads:\n  - {{ name: w, {workload} }}\n")
}

fn read_suite(ops: &str, workload: &str) -> WorkloadFile {
    let text = suite(ops, workload);
    read_files(&[("suite/perf.yaml", &text), ("suite/pod.yaml", POD)]).unwrap()
}

fn only_workload(file: WorkloadFile) -> Workload {
    let case = file.test_cases.into_iter().next().unwrap();
    case.workloads.unwrap().into_iter().next().unwrap()
}

fn error(ops: &str, workload: &str) -> String {
    let text = suite(ops, workload);
    error_in(&[("suite/perf.yaml", &text), ("suite/pod.yaml", POD)])
}

fn error_in(files: &[(&str, &str)]) -> String {
    read_files(files).unwrap_err().to_string()
}

fn nodes(op: &Op) -> Vec<Node> {
    match op {
        Op::CreateNodes(op) => op.nodes().collect(),
        other => panic!("{other:?}"),
    }
}

fn pods(op: &Op) -> Vec<Pod> {
    match op {
        Op::CreatePods(op) => op.pods().collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn parameters_give_the_sizes() {
    let text = "
- name: Basic
  labels: [all]
  featureGates: { A: true, B: true }
  defaultPodTemplatePath: pod.yaml
  schedulerConfigPath: config/most-allocated.yaml
  workloadTemplate:
  - { opcode: createNodes, countParam: $nodes }
  - { opcode: createPods, countParam: $before, namespace: old }
  - { opcode: barrier }
  - { opcode: createPods, count: 7, countParam: $pods, collectMetrics: true }
  workloads:
  - name: small
    labels: [short]
    featureGates: { B: false }
    params: { nodes: 2, before: 1, pods: 3 }
  - { name: large, threshold: 270, params: { nodes: 20, before: 10, pods: 30 } }
";
    let file = read_files(&[("suite/perf.yaml", text), ("suite/pod.yaml", POD)]).unwrap();
    assert_eq!(file.warnings, []);
    let [case] = file.test_cases.as_slice() else {
        panic!("one test case")
    };
    assert_eq!(case.name, "Basic");
    assert_eq!(
        case.scheduler_config_path.as_deref().and_then(Path::to_str),
        Some("suite/config/most-allocated.yaml")
    );
    let [small, large] = case.workloads.as_ref().unwrap().as_slice() else {
        panic!("two workloads")
    };
    assert_eq!(
        (small.name.as_str(), large.name.as_str()),
        ("small", "large")
    );
    assert_eq!(small.labels, ["all", "short"]);
    let gates = BTreeMap::from([("A".to_owned(), true), ("B".to_owned(), false)]);
    assert_eq!(small.feature_gates, gates);
    let [created, before, Op::Barrier, measured] = small.ops.as_slice() else {
        panic!("{:?}", small.ops)
    };
    let names: Vec<String> = nodes(created)
        .into_iter()
        .map(|node| node.metadata.name)
        .collect();
    assert_eq!(names, ["node-0", "node-1"]);
    let keys = |op| pods(op).iter().map(Pod::key).collect::<Vec<_>>();
    assert_eq!(keys(before), ["old/web-0"]);
    assert_eq!(
        keys(measured),
        [
            "namespace-3/web-1",
            "namespace-3/web-2",
            "namespace-3/web-3"
        ]
    );
    let collects: Vec<bool> = large
        .ops
        .iter()
        .filter_map(|op| match op {
            Op::CreatePods(op) => Some(op.collect_metrics),
            _ => None,
        })
        .collect();
    assert_eq!(collects, [false, true]);
    assert_eq!(
        pods(&large.ops[3]).len(),
        30,
        "countParam goes before count"
    );
}

#[test]
fn objects_without_template_are_upstreams() {
    let ops = "
- { opcode: createNodes, count: 1 }
- { opcode: createPods, count: 1 }
- { opcode: createNamespaces, count: 2, prefix: team }
";
    let workload = only_workload(read_suite(ops, ""));
    let node = nodes(&workload.ops[0]).remove(0);
    let allocatable = |name: &str| node.status.allocatable[name].to_string();
    assert_eq!(
        ["cpu", "memory", "pods"].map(allocatable),
        ["4", "32Gi", "110"]
    );
    assert_eq!(node.metadata.labels["kubernetes.io/hostname"], "node-0");
    let pod = pods(&workload.ops[1]).remove(0);
    let requests = &pod.spec.containers[0].resources.requests;
    assert_eq!(requests["cpu"].to_string(), "100m");
    assert_eq!(requests["memory"].to_string(), "500Mi");
    let Op::CreateNamespaces(namespaces) = &workload.ops[2] else {
        panic!()
    };
    let names: Vec<_> = namespaces.namespaces().map(|it| it.metadata.name).collect();
    assert_eq!(names, ["team-0", "team-1"]);
}

#[test]
fn namespace_templates_need_no_name() {
    let text = suite(
        "- { opcode: createNamespaces, count: 1, prefix: team, namespaceTemplatePath: ns.yaml }",
        "",
    );
    let template = "{ apiVersion: v1, kind: Namespace, metadata: { labels: { team: a } } }";
    let files = [
        ("suite/perf.yaml", text.as_str()),
        ("suite/ns.yaml", template),
    ];
    let workload = only_workload(read_files(&files).unwrap());
    let Op::CreateNamespaces(op) = &workload.ops[0] else {
        panic!()
    };
    let labels = op.namespaces().next().unwrap().metadata.labels;
    assert_eq!(labels["team"], "a");
    assert_eq!(labels["kubernetes.io/metadata.name"], "team-0");
}

#[test]
fn nodes_differ_by_strategy() {
    let ops = "
- { opcode: createNodes, count: 1 }
- opcode: createNodes
  count: 3
  labelNodePrepareStrategy: { labelKey: zone, labelValues: [a, b] }
- opcode: createNodes
  count: 2
  uniqueNodeLabelStrategy: { labelKey: unique }
- opcode: createNodes
  count: 1
  nodeAllocatableStrategy: { nodeAllocatable: { pods: '5', example.com/gpu: '8' } }
";
    let workload = only_workload(read_suite(ops, ""));
    let labels = |op: &Op, key: &str| -> Vec<String> {
        nodes(op)
            .iter()
            .map(|node| node.metadata.labels[key].clone())
            .collect()
    };
    assert_eq!(labels(&workload.ops[1], "zone"), ["a", "b", "a"]);
    assert_eq!(labels(&workload.ops[2], "unique"), ["node-4", "node-5"]);
    let allocatable = nodes(&workload.ops[3]).remove(0).status.allocatable;
    let amounts = ["cpu", "pods", "example.com/gpu"].map(|name| allocatable[name].to_string());
    assert_eq!(amounts, ["4", "5", "8"]);
    let Op::CreateNodes(first) = &workload.ops[0] else {
        panic!()
    };
    assert_eq!(first.strategy, NodeStrategy::Trivial);
}

#[test]
fn pod_sets_are_the_same_pods_in_several_namespaces() {
    let ops = "
- { opcode: createNamespaces, count: 2, prefix: team }
- opcode: createPodSets
  countParam: $sets
  namespacePrefix: team
  createPodsOp: { opcode: createPods, count: 3 }
";
    let workload = only_workload(read_suite(ops, "params: { sets: 2 }"));
    let sets = &workload.ops[1..];
    let described: Vec<(&str, usize, usize)> = sets
        .iter()
        .map(|op| match op {
            Op::CreatePods(pods) => (&*pods.namespace, pods.count, pods.first_index),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(described, [("team-0", 3, 0), ("team-1", 3, 3)]);
}

const VOLUME: &str = "
apiVersion: v1
kind: PersistentVolume
spec:
  accessModes: [ReadOnlyMany]
  capacity: { storage: 1Gi }
  csi: { driver: csi.example.com, volumeHandle: h }
";

const CLAIM: &str = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: { annotations: { pv.kubernetes.io/bind-completed: 'true' } }
spec: { accessModes: [ReadOnlyMany], resources: { requests: { storage: 1Gi } } }
";

fn files_with_storage(text: &str) -> [(&str, &str); 4] {
    [
        ("suite/perf.yaml", text),
        ("suite/pod.yaml", POD),
        ("suite/pv.yaml", VOLUME),
        ("suite/pvc.yaml", CLAIM),
    ]
}

#[test]
fn pods_may_have_a_claim_each_that_is_bound() {
    let ops = "
- opcode: createPods
  count: 1
- opcode: createPods
  count: 2
  podTemplatePath: pod.yaml
  namespace: web
  persistentVolumeTemplatePath: pv.yaml
  persistentVolumeClaimTemplatePath: pvc.yaml";
    let text = suite(ops, "");
    let workload = only_workload(read_files(&files_with_storage(&text)).unwrap());
    let [Op::CreatePods(before), Op::CreatePods(op)] = workload.ops.as_slice() else {
        panic!("{:?}", workload.ops);
    };
    assert_eq!(before.storage_objects().count(), 0);
    let claims = op.pods().map(|pod| {
        let claim = pod.spec.volumes[0].persistent_volume_claim.clone();
        claim.expect("a claim").claim_name
    });
    assert_eq!(claims.collect::<Vec<_>>(), ["pvc-1", "pvc-2"]);
    let objects: Vec<Object> = op.storage_objects().collect();
    let [
        Object::PersistentVolume(volume),
        Object::PersistentVolumeClaim(claim),
        _,
        _,
    ] = objects.as_slice()
    else {
        panic!("{objects:?}");
    };
    assert_eq!(volume.metadata.name, "web-vol-1");
    let csi = volume.spec.csi.as_ref().expect("a CSI volume");
    assert_eq!(csi.volume_handle, "vol-1");
    let kept_for = volume.spec.claim_ref.as_ref().expect("a claim");
    assert_eq!((&*kept_for.namespace, &*kept_for.name), ("web", "pvc-1"));
    let metadata = &claim.metadata;
    assert_eq!((&*metadata.namespace, &*metadata.name), ("web", "pvc-1"));
    assert_eq!(claim.spec.volume_name, "web-vol-1");
}

#[test]
fn csi_drivers_may_have_limits_and_storage_be_created() {
    let ops = "
- opcode: createNodes
  count: 2
  nodeAllocatableStrategy:
    nodeAllocatable: {}
    csiNodeAllocatable: { csi.example.com: { count: 39 } }
- opcode: createAny
  count: 1
  namespace: web
  templatePath: pvc.yaml";
    let text = suite(ops, "");
    let workload = only_workload(read_files(&files_with_storage(&text)).unwrap());
    let [Op::CreateNodes(nodes), Op::CreateStorage(storage)] = workload.ops.as_slice() else {
        panic!("{:?}", workload.ops);
    };
    let csi_nodes: Vec<_> = nodes.csi_nodes().collect();
    let names: Vec<String> = nodes.nodes().map(|node| node.metadata.name).collect();
    let csi_names = csi_nodes.iter().map(|node| &*node.metadata.name);
    assert_eq!(csi_names.collect::<Vec<_>>(), names);
    let allocatable = csi_nodes[0].spec.drivers[0].allocatable;
    assert_eq!(allocatable.and_then(|limit| limit.count), Some(39));
    let claim = storage.objects().next().expect("a claim");
    assert_eq!(claim.metadata().namespace, "web");
}

#[test]
fn unsupported_operations_spare_other_test_cases() {
    let pods = "
- { opcode: createPods, count: 1, steadyState: true, duration: 1m }";
    let csi = "
- opcode: createNodes
  count: 1
  nodeAllocatableStrategy: { nodeAllocatable: {}, migratedPlugins: [a] }";
    let text = [
        suite("- { opcode: churn, number: 3, mode: create }", ""),
        suite(pods, ""),
        suite(csi, ""),
        suite("- { opcode: createPods, count: 1, steadyState: false }", ""),
    ]
    .concat();
    let cases = read_files(&[("suite/perf.yaml", &text)])
        .unwrap()
        .test_cases;
    let refusals: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            case.workloads
                .as_ref()
                .err()
                .map(|errors| errors[0].to_string())
        })
        .collect();
    assert_eq!(
        refusals,
        [
            "suite/perf.yaml: error: [0].workloadTemplate[0]: opcode churn is not supported; \
             supported are createNodes, createPods, createPodSets, createNamespaces, createAny, \
             barrier",
            "suite/perf.yaml: error: [1].workloadTemplate[0].duration: is not supported with \
             opcode createPods",
            "suite/perf.yaml: error: [2].workloadTemplate[0].nodeAllocatableStrategy.\
             migratedPlugins: is not supported with opcode createNodes",
        ]
    );
    assert_eq!(cases[3].workloads.as_ref().map(Vec::len), Ok(1));
}

#[test]
fn mistakes_name_their_field() {
    let nodes = "- { opcode: createNodes, countParam: $nodes }";
    let place = "suite/perf.yaml: error: [0].";
    for (ops, workload, expected) in [
        (
            "- { opcode: createCats }",
            "",
            "workloadTemplate[0]: there is no opcode \"createCats\"",
        ),
        ("- { count: 1 }", "", "workloadTemplate[0]: needs an opcode"),
        (
            "- { opcode: createNodes }",
            "",
            "workloadTemplate[0]: needs count or countParam",
        ),
        (
            "- { opcode: createNodes, count: -1 }",
            "",
            "workloadTemplate[0].count: expected a whole number from 0 to 10000000, found -1",
        ),
        (
            "- { opcode: createNodes, count: 10000001 }",
            "",
            "workloadTemplate[0].count: expected a whole number from 0 to 10000000, \
             found 10000001",
        ),
        (
            nodes,
            "params: { nodes: many }",
            "workloads[0].params.nodes: expected a number, found a text",
        ),
        (
            nodes,
            "params: { node: 1 }",
            "workloadTemplate[0].countParam: there is no parameter \"nodes\" in \
             [0].workloads[0].params",
        ),
        (
            "- { opcode: createNodes, countParam: nodes }",
            "",
            "workloadTemplate[0].countParam: expected a parameter such as $nodes, found \"nodes\"",
        ),
        (
            "- { opcode: createPods, count: 1, colectMetrics: true }",
            "",
            "workloadTemplate[0].colectMetrics: there is no such field; there are opcode, count, \
             countParam, podTemplatePath, namespace, collectMetrics",
        ),
        (
            "- { opcode: createPods, count: 1, collectMetrics: 'yes' }",
            "",
            "workloadTemplate[0].collectMetrics: expected true or false, found a text",
        ),
        (
            "- { opcode: createPods, count: 1, collectMetrics: true, skipWaitToCompletion: true }",
            "",
            "workloadTemplate[0]: collectMetrics and skipWaitToCompletion exclude each other",
        ),
        (
            "- { opcode: createPods, count: 1, podTemplatePath: nowhere.yaml }",
            "",
            "workloadTemplate[0].podTemplatePath: cannot read suite/nowhere.yaml: no such file",
        ),
        (
            "- { opcode: createNodes, count: 1, nodeTemplatePath: pod.yaml }",
            "",
            "workloadTemplate[0].nodeTemplatePath: is not the template of a Node",
        ),
        (
            "- { opcode: createNodes, count: 1, labelNodePrepareStrategy: { labelKey: a } }",
            "",
            "workloadTemplate[0].labelNodePrepareStrategy: needs at least one of labelValues",
        ),
        (
            "- { opcode: createPods, count: 1, persistentVolumeTemplatePath: pv.yaml }",
            "",
            "workloadTemplate[0]: needs both persistentVolumeTemplatePath and \
             persistentVolumeClaimTemplatePath, or neither",
        ),
        (
            "- { opcode: createAny, count: 1, templatePath: pod.yaml }",
            "",
            "workloadTemplate[0].templatePath: opcode createAny is supported for objects about \
             storage only",
        ),
        (
            "- { opcode: createNamespaces, count: 1 }",
            "",
            "workloadTemplate[0].prefix: is missing",
        ),
    ] {
        let found = error(ops, workload);
        assert!(
            found.starts_with(&format!("{place}{expected}")),
            "{ops}: {found}"
        );
    }
}

#[test]
fn files_must_be_lists_of_test_cases() {
    for (text, expected) in [
        ("name: Case", ": expected a list, found an object"),
        ("", ": expected one document, a list of test cases; found 0"),
        (
            "- a\n---\n- b",
            ": expected one document, a list of test cases; found 2",
        ),
        ("- name: a\n  name: b", ":2: error: \"name\" is there twice"),
        ("- [", "error"),
        ("- name: a", "[0].workloadTemplate: is missing"),
    ] {
        let found = error_in(&[("suite/perf.yaml", text)]);
        assert!(
            found.starts_with("suite/perf.yaml:") && found.contains(expected),
            "{found}"
        );
    }
    assert_eq!(error_in(&[]), "suite/perf.yaml: error: no such file");
    let twice = suite("- { opcode: barrier }", "").replace("name: w", "name: w }\n  - { name: w");
    assert_eq!(
        error_in(&[("suite/perf.yaml", &twice)]),
        "suite/perf.yaml: error: [0].workloads[1].name: an earlier workload has the same name"
    );
}

#[test]
fn templates_are_checked_as_other_input_is() {
    let text = suite(
        "- { opcode: createPods, count: 1, podTemplatePath: pod.yaml }",
        "",
    );
    let with =
        |pod: &str| read_files(&[("suite/perf.yaml", &text), ("suite/pod.yaml", pod)]).unwrap();
    let errors = |pod: &str| with(pod).test_cases.remove(0).workloads.unwrap_err();
    let wrong = &errors(&POD.replace("image: nginx", "image: [1]"))[0];
    assert_eq!(
        (&*wrong.file, wrong.path.as_str()),
        ("suite/pod.yaml", "spec.containers[0].image")
    );
    let unknown = with(&POD.replace("image:", "imag: a, image:"));
    assert_eq!(unknown.warnings[0].path, "spec.containers[0].imag");
    assert_eq!(
        unknown.test_cases[0].workloads.as_ref().map(Vec::len),
        Ok(1)
    );
    for (pod, expected) in [
        (format!("{POD}---{POD}"), "one object"),
        (POD.replace("web-", "'web-{{.Index}}'"), "placeholders"),
        (
            POD.replace("kind: Pod", "kind: ConfigMap"),
            "one Node, Pod, Namespace or object about storage",
        ),
    ] {
        let errors = errors(&pod);
        assert!(errors[0].message.contains(expected), "{errors:?}");
    }
}

#[test]
fn fixed_names_are_used_once() {
    let named = POD.replace("generateName: web-", "name: web");
    let read = |ops: &str| {
        let text = suite(ops, "");
        let files = [
            ("suite/perf.yaml", text.as_str()),
            ("suite/pod.yaml", named.as_str()),
        ];
        read_files(&files).map_err(|error| error.to_string())
    };
    let op =
        |rest: &str| format!("- {{ opcode: createPods, podTemplatePath: pod.yaml, {rest} }}\n");
    let two = read(&op("count: 2")).unwrap_err();
    assert!(
        two.contains("podTemplatePath: the template names its pod in namespace"),
        "{two}"
    );
    let again = [op("count: 1, namespace: a"), op("count: 1, namespace: a")].concat();
    assert!(read(&again).is_err());
    let apart = [op("count: 1, namespace: a"), op("count: 1, namespace: b")].concat();
    let workload = only_workload(read(&apart).unwrap());
    assert_eq!(pods(&workload.ops[1])[0].key(), "b/web");
}

#[test]
fn test_cases_are_limited() {
    let barriers = |count: usize| "- { opcode: barrier }\n".repeat(count);
    assert_eq!(only_workload(read_suite(&barriers(100), "")).ops.len(), 100);
    let found = error(&barriers(101), "");
    assert!(found.ends_with("workloadTemplate: there may be at most 100 of these, found 101"));
    let workloads: String = (0..101)
        .map(|i| format!("  - {{ name: w{i} }}\n"))
        .collect();
    let text = format!("- name: Case\n  workloadTemplate: []\n  workloads:\n{workloads}");
    let found = error_in(&[("suite/perf.yaml", &text)]);
    assert!(
        found.ends_with("workloads: there may be at most 100 of these, found 101"),
        "{found}"
    );
}

#[test]
fn unused_parameters_are_warned_of() {
    let file = read_suite("- { opcode: createNodes, count: 1 }", "params: { pods: 3 }");
    let warnings: Vec<String> = file.warnings.iter().map(ToString::to_string).collect();
    let expected = "suite/perf.yaml: warning: [0].workloads[0].params.pods: no operation uses it";
    assert_eq!(warnings, [expected]);
}

#[test]
fn the_projects_own_workloads_are_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benchmarks");
    let sizes = |name: &str| -> Vec<(usize, usize)> {
        let file = read_from_disk(&folder.join(name)).unwrap();
        assert_eq!(file.warnings, [], "{name}");
        let workloads = file
            .test_cases
            .into_iter()
            .flat_map(|case| case.workloads.unwrap());
        workloads
            .map(|workload| {
                let count = |(nodes, measured): (usize, usize), op: &Op| match op {
                    Op::CreateNodes(op) => (nodes + op.count, measured),
                    Op::CreatePods(op) if op.collect_metrics => (nodes, measured + op.count),
                    _ => (nodes, measured),
                };
                workload.ops.iter().fold((0, 0), count)
            })
            .collect()
    };
    assert_eq!(sizes("basic.yaml"), [(5, 10), (5_000, 10_000)]);
    assert_eq!(sizes("node-affinity.yaml"), [(5, 10), (5_000, 10_000)]);
    assert_eq!(
        sizes("preferred-node-affinity.yaml"),
        [(5, 10), (5_000, 10_000)]
    );
    let of_namespaces = [(10, 6), (5_000, 1_000)].repeat(4);
    assert_eq!(sizes("namespace-selectors.yaml"), of_namespaces);
    assert_eq!(sizes("mixed.yaml"), [(5, 4), (5_000, 1_000)]);
    assert_eq!(sizes("volumes.yaml"), [(5, 10), (5_000, 10_000)].repeat(2));
    assert_eq!(sizes("daemonset.yaml"), [(6, 10), (15_001, 30_000)]);
    let sizes_of_preemption = [(5, 5), (500, 500), (1_000, 1_000), (5_000, 5_000)];
    assert_eq!(sizes("preemption.yaml"), sizes_of_preemption.repeat(2));
    let curve = [500, 1_000, 5_000, 10_000, 50_000].map(|nodes| (nodes, 10_000));
    assert_eq!(sizes("curve.yaml"), curve);
}

#[test]
fn preemptions_are_carried_out_and_agree_with_the_yardstick() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benchmarks");
    let file = read_from_disk(&folder.join("preemption.yaml")).unwrap();
    let safe = ProfileConfig {
        preemption_safety: Some(PreemptionSafetyArgs {
            strict_pdb: true,
            ..PreemptionSafetyArgs::default()
        }),
        ..ProfileConfig::default()
    };
    for (case, profile) in file.test_cases.iter().zip([ProfileConfig::default(), safe]) {
        let workloads = case.workloads.as_ref().unwrap();
        let config = EngineConfig {
            profiles: vec![profile],
            ..EngineConfig::default()
        };
        let measured = measure(&workloads[0], &config, &Limits::default()).unwrap();
        assert_eq!((measured.decisions, measured.scheduled), (5, 5));
        assert_eq!(measured.full_evaluation_decisions, 5);
        assert_eq!(measured.same_placements, 5);
    }
}
