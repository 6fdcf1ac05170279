//! Reading cluster traces: the example of the repository, columns of other traces, and
//! what is said about broken files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use outrank_api::types::Pod;
use outrank_rehearse::trace::{
    GPU_MODEL_LABEL, GPU_RESOURCE, PROBLEMS_MAX, QosPriority, Source, Trace, TraceErrors,
    TraceOptions, TracePod, parse_trace, read_trace,
};

const NODES: &str = "sn,cpu_milli,memory_mib,gpu,model\n\
                     rack-1,32000,262144,8,T4\n\
                     rack-2,64000,131072,0,\n";

const POD_HEADER: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,\
                          creation_time,deletion_time,scheduled_time\n";

fn parse(nodes: &str, pods: &str, options: &TraceOptions) -> Result<Trace, TraceErrors> {
    parse_trace(
        Source {
            name: "nodes.csv".into(),
            reader: nodes.as_bytes(),
        },
        Source {
            name: "pods.csv".into(),
            reader: pods.as_bytes(),
        },
        options,
    )
}

/// The trace of some pod rows, by default columns and options.
fn pods(rows: &str) -> Vec<TracePod> {
    parse(
        NODES,
        &format!("{POD_HEADER}{rows}"),
        &TraceOptions::default(),
    )
    .unwrap()
    .pods
}

/// What is said about broken pod rows; the header is line 1.
fn errors(rows: &str) -> String {
    let pods = format!("{POD_HEADER}{rows}");
    parse(NODES, &pods, &TraceOptions::default())
        .unwrap_err()
        .to_string()
}

fn requests(pod: &Pod, resource: &str) -> Option<i64> {
    let requests = &pod.spec.containers[0].resources.requests;
    requests.get(resource).map(|amount| amount.milli_value())
}

fn models(pod: &Pod) -> Vec<String> {
    let affinity = pod
        .spec
        .affinity
        .as_ref()
        .and_then(|it| it.node_affinity.as_ref());
    let Some(required) = affinity.and_then(|it| it.required.as_ref()) else {
        return Vec::new();
    };
    let [term] = &required.node_selector_terms[..] else {
        panic!("one term expected")
    };
    let [models] = &term.match_expressions[..] else {
        panic!("one requirement expected")
    };
    assert_eq!(
        (models.key.as_str(), models.operator.as_str()),
        (GPU_MODEL_LABEL, "In")
    );
    models.values.clone()
}

#[test]
fn a_machine_becomes_a_node() {
    let options = TraceOptions {
        pods_per_node: 64,
        ..Default::default()
    };
    let trace = parse(NODES, POD_HEADER, &options).unwrap();
    let [gpu_node, cpu_node] = &trace.nodes[..] else {
        panic!("two nodes expected")
    };
    assert_eq!(gpu_node.metadata.name, "rack-1");
    assert_eq!(gpu_node.metadata.labels[GPU_MODEL_LABEL], "T4");
    let allocatable = &gpu_node.status.allocatable;
    assert_eq!(allocatable["cpu"].milli_value(), 32_000);
    assert_eq!(allocatable["memory"].value(), 262_144 << 20);
    assert_eq!(allocatable["pods"].value(), 64);
    assert_eq!(allocatable[GPU_RESOURCE].value(), 8);
    assert_eq!(gpu_node.status.capacity, *allocatable);
    assert!(!cpu_node.status.allocatable.contains_key(GPU_RESOURCE));
    assert!(!cpu_node.metadata.labels.contains_key(GPU_MODEL_LABEL));
}

#[test]
fn a_task_becomes_a_pod() {
    let pods = pods("chat-0,6000,12288,1,460,V100M32|V100M16|V100M32,LS,Running,30,90,31\n");
    let [
        TracePod {
            pod,
            arrival_seconds: 30,
            departure_seconds,
            scheduled_seconds,
        },
    ] = &pods[..]
    else {
        panic!("one pod expected: {pods:?}")
    };
    assert_eq!(
        (*departure_seconds, *scheduled_seconds),
        (Some(90), Some(31))
    );
    assert_eq!(pod.key(), "default/chat-0");
    assert_eq!(requests(pod, "cpu"), Some(6000));
    assert_eq!(requests(pod, "memory"), Some((12288 << 20) * 1000));
    assert_eq!(requests(pod, GPU_RESOURCE), Some(1000));
    let limits = &pod.spec.containers[0].resources.limits;
    assert_eq!(limits.keys().collect::<Vec<_>>(), [GPU_RESOURCE]);
    assert_eq!(models(pod), ["V100M16", "V100M32"]);
    assert_eq!(pod.spec.priority_class_name, "trace-ls");
}

#[test]
fn a_share_of_a_gpu_rounds_up_to_one() {
    for (num_gpu, gpu_milli, gpus) in [
        ("0", "0", 0),
        ("1", "1", 1),
        ("1", "1000", 1),
        ("8", "1000", 8),
        ("", "1001", 2),
    ] {
        let pods = pods(&format!("a,1,1,{num_gpu},{gpu_milli},,,,,,\n"));
        let asked = requests(&pods[0].pod, GPU_RESOURCE).unwrap_or(0) / 1000;
        assert_eq!(asked, gpus, "num_gpu {num_gpu}, gpu_milli {gpu_milli}");
    }
}

#[test]
fn pods_come_by_arrival_and_then_in_file_order() {
    let pods = pods("d,1,1,,,,,,7,,\nb,1,1,,,,,,5,,\nc,1,1,,,,,,5.0,,\na,1,1,,,,,,,,\n");
    let order: Vec<_> = pods
        .iter()
        .map(|pod| (pod.pod.metadata.name.as_str(), pod.arrival_seconds))
        .collect();
    assert_eq!(order, [("a", 0), ("b", 5), ("c", 5), ("d", 7)]);
    assert!(pods.iter().all(|pod| pod.departure_seconds.is_none()));
}

#[test]
fn tasks_that_ask_for_the_same_share_a_spec() {
    let pods =
        pods("a,1,2,1,500,T4|A10,BE,,,,\nb,1,2,1,600,A10|T4,BE,,,,\nc,1,2,1,600,T4,BE,,,,\n");
    assert!(Arc::ptr_eq(&pods[0].pod.spec, &pods[1].pod.spec));
    assert!(!Arc::ptr_eq(&pods[0].pod.spec, &pods[2].pod.spec));
}

#[test]
fn service_classes_become_priority_classes() {
    let options = TraceOptions::default();
    let trace = parse(NODES, POD_HEADER, &options).unwrap();
    assert!(
        trace.priority_classes.is_empty(),
        "no row, so nobody names a class"
    );
    let rows = format!("{POD_HEADER}a,1,1,,,,BE,,,,\nb,1,1,,,,,,,,\n");
    let trace = parse(NODES, &rows, &options).unwrap();
    let classes: Vec<_> = trace
        .priority_classes
        .iter()
        .map(|it| (it.metadata.name.as_str(), it.value))
        .collect();
    let expected = [
        ("trace-ls", 1000),
        ("trace-guaranteed", 500),
        ("trace-burstable", 200),
        ("trace-be", 100),
    ];
    assert_eq!(classes, expected);
    assert_eq!(trace.pods[0].pod.spec.priority_class_name, "trace-be");
    assert_eq!(trace.pods[1].pod.spec.priority_class_name, "");

    let gold = vec![QosPriority::new("Gold", 7)];
    let options = TraceOptions {
        priorities: gold,
        ..Default::default()
    };
    let rows = format!("{POD_HEADER}a,1,1,,,,Gold,,,,\n");
    let trace = parse(NODES, &rows, &options).unwrap();
    assert_eq!(trace.pods[0].pod.spec.priority_class_name, "trace-gold");
}

#[test]
fn optional_columns_may_be_missing() {
    let rows = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,12000,16384,1,1000\n";
    let trace = parse(
        "sn,cpu_milli,memory_mib\nn,1,1\n",
        rows,
        &TraceOptions::default(),
    )
    .unwrap();
    assert!(trace.priority_classes.is_empty());
    let pod = &trace.pods[0];
    assert_eq!((pod.arrival_seconds, pod.departure_seconds), (0, None));
    assert_eq!(pod.pod.spec.priority_class_name, "");
    assert!(pod.pod.spec.affinity.is_none());
}

#[test]
fn columns_can_have_other_names() {
    let columns = "nodes.name=host, nodes.gpu=cards,pods.creation_seconds=submit,pods.qos=";
    let options = TraceOptions {
        columns: columns.parse().unwrap(),
        ..Default::default()
    };
    let nodes = "cards,memory_mib,cpu_milli,host,sn\n4,2,1,rack-9,serial\n";
    let pods = "submit,qos,name,memory_mib,cpu_milli\n17,whatever,a,1,1\n";
    let trace = parse(nodes, pods, &options).unwrap();
    assert_eq!(trace.nodes[0].metadata.name, "rack-9");
    assert_eq!(trace.nodes[0].status.allocatable[GPU_RESOURCE].value(), 4);
    assert_eq!(trace.pods[0].arrival_seconds, 17);
    assert_eq!(trace.pods[0].pod.spec.priority_class_name, "");

    let error = parse(nodes, "name,cpu_milli,memory_mib\na,1,1\n", &options).unwrap_err();
    assert_eq!(
        error.to_string(),
        "pods.csv:1: there is no column \"submit\"; the file has: name, cpu_milli, memory_mib. Say \
         which one it is: pods.creation_seconds=COLUMN"
    );
}

#[test]
fn wrong_column_pairs_are_explained() {
    use outrank_rehearse::trace::TraceColumns;
    let error = |pairs: &str| pairs.parse::<TraceColumns>().unwrap_err();
    assert_eq!(
        error("nodes.name"),
        "\"nodes.name\" is not of the form key=column"
    );
    assert!(error("node.name=a").starts_with("there is no key \"node.name\"; the keys are nodes."));
    assert_eq!(
        error("pods.name="),
        "pods.name cannot be left out: name its column"
    );
    assert_eq!(error("pods.qos=a,pods.qos=b"), "pods.qos is given twice");
    assert_eq!("".parse(), Ok(TraceColumns::default()));
}

#[test]
fn every_problem_is_told_with_file_line_and_column() {
    let told = errors(
        "a,abc,1,1,1000,,LS,,0,,\n\
         b,1,,1,1000,,LS,,0,,\n\
         a,1,1,1,1000,,LS,,0,,\n\
         c,1,1,-1,1000,,LS,,0,,\n\
         d,1,1,1,1000,,Silver,,0,,\n\
         e,1,1,1,1000,,LS,,10,9,\n\
         ,1,1,1,1000,,LS,,10,9,\n\
         f,1,1\n\
         g,1,9223372036854775807,1,0.5,,LS,,1e3,,\n",
    );
    let expected = [
        "pods.csv:2:2: cpu_milli \"abc\" will not do: write thousandths of a core, a whole number \
         from 0 to 1000000000000",
        "pods.csv:3:3: memory_mib is empty; write MiB, from 0 to 8796093022207",
        "pods.csv:4:1: name \"a\" is on line 2 already; names are unique",
        "pods.csv:5:4: num_gpu \"-1\" will not do: write GPUs, a whole number from 0 to \
         1000000000000",
        "pods.csv:6:7: qos \"Silver\" has no priority; those that have: LS, Guaranteed, Burstable, \
         BE",
        "pods.csv:7:10: deletion_time is before creation_time: a task cannot go before it comes",
        "pods.csv:8:1: name is empty; every row needs a name",
        "pods.csv:8:10: deletion_time is before creation_time: a task cannot go before it comes",
        "pods.csv:9: the row has 3 fields where the header has 11",
        "pods.csv:10:3: memory_mib \"9223372036854775807\" will not do: write MiB, a whole number \
         from 0 to 8796093022207",
        "pods.csv:10:5: gpu_milli \"0.5\" will not do: write thousandths of a GPU, a whole number \
         from 0 to 1000000000000",
        "pods.csv:10:9: creation_time \"1e3\" will not do: write seconds, a whole number from 0 to \
         1000000000",
    ];
    assert_eq!(told, expected.join("\n"));
}

#[test]
fn problems_of_both_files_are_told_together() {
    let error = parse("", "name\nx\n", &TraceOptions::default()).unwrap_err();
    let places: Vec<_> = error
        .problems
        .iter()
        .map(|it| (it.file.as_str(), it.line))
        .collect();
    let expected = [
        ("nodes.csv", 1),
        ("nodes.csv", 1),
        ("nodes.csv", 1),
        ("pods.csv", 1),
        ("pods.csv", 1),
    ];
    assert_eq!(places, expected);
    let missing = read_trace(
        Path::new("no/n.csv"),
        Path::new("no/p.csv"),
        &TraceOptions::default(),
    );
    let missing = missing.unwrap_err();
    assert_eq!(missing.problems.len(), 2);
    assert!(
        missing.problems[1]
            .to_string()
            .starts_with("no/p.csv: cannot be opened: ")
    );
}

#[test]
fn only_so_many_problems_are_told() {
    let rows: String = (0..200)
        .map(|index| format!("p{index},x,1,,,,,,,,\n"))
        .collect();
    let pods = format!("{POD_HEADER}{rows}");
    let error = parse(NODES, &pods, &TraceOptions::default()).unwrap_err();
    assert_eq!(
        (error.problems.len(), error.further),
        (PROBLEMS_MAX, 200 - PROBLEMS_MAX)
    );
    assert!(error.to_string().ends_with("\nand 150 more"));
}

#[test]
fn hostile_bytes_are_problems_not_panics() {
    let long = "x".repeat(1 << 20);
    let with_long_field = format!("a,{long},1,,,,,,,,\n");
    assert!(errors(&with_long_field).len() < 400);
    let mut bytes = POD_HEADER.as_bytes().to_vec();
    bytes.extend(b"\xff\xfe,1,1,,,,,,,,\nb,1\0,1,,,,,,,,\n\"open,1");
    let error = parse_trace(
        Source {
            name: "nodes.csv".into(),
            reader: NODES.as_bytes(),
        },
        Source {
            name: "pods.csv".into(),
            reader: &bytes[..],
        },
        &TraceOptions::default(),
    );
    let told = error.unwrap_err().to_string();
    assert!(told.starts_with("pods.csv:2:1: name is not UTF-8; save the file in that encoding\n"));
    assert!(
        told.contains("pods.csv:3:2: cpu_milli \"1\\u{0}\" will not do"),
        "{told}"
    );
    assert!(
        told.ends_with("pods.csv:4: the row has 1 fields where the header has 11"),
        "{told}"
    );
}

fn example(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples/trace")
        .join(file)
}

#[test]
fn the_example_is_a_day_of_a_mixed_gpu_cluster() {
    let trace = read_trace(
        &example("nodes.csv"),
        &example("pods.csv"),
        &TraceOptions::default(),
    )
    .unwrap();
    assert_eq!((trace.nodes.len(), trace.pods.len()), (40, 400));
    assert!(trace.pods.is_sorted_by_key(|pod| pod.arrival_seconds));
    assert!(trace.pods.iter().all(|pod| pod.arrival_seconds < 24 * 3600));
    let models: std::collections::BTreeSet<_> = trace
        .nodes
        .iter()
        .filter_map(|node| node.metadata.labels.get(GPU_MODEL_LABEL))
        .collect();
    assert_eq!(models.len(), 3);
    for class in [
        "trace-ls",
        "trace-guaranteed",
        "trace-burstable",
        "trace-be",
    ] {
        let has_class = |pod: &&TracePod| pod.pod.spec.priority_class_name == class;
        assert!(trace.pods.iter().filter(has_class).count() >= 10, "{class}");
    }
    let asked = trace.pods.iter().flat_map(|pod| self::models(&pod.pod));
    assert!(asked.into_iter().all(|model| models.contains(&model)));
}

/// Two tasks with 4 and 8 of 8 GPUs run 100 s each: 1,200 GPU seconds. At full load they come
/// within 150 s, at double load within 75 s.
#[test]
fn arrivals_are_moved_until_the_load_is_what_is_asked_for() {
    let pods = format!(
        "{POD_HEADER}a,1000,1024,4,1000,,LS,Running,1000,1100,1000\n\
         b,1000,1024,8,1000,,LS,Running,5000,5100,5000\n"
    );
    for (percent, second) in [(100, 1150), (200, 1075), (50, 1300)] {
        let mut trace = parse(NODES, &pods, &TraceOptions::default()).expect("a trace");
        trace.scale_load(percent);
        let times = trace
            .pods
            .iter()
            .map(|task| (task.arrival_seconds, task.departure_seconds));
        let times: Vec<(i64, Option<i64>)> = times.collect();
        assert_eq!(times, [(1000, Some(1100)), (second, Some(second + 100))]);
    }
}
