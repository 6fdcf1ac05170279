//! Documents of every form, and what is said about mistakes in them.

use std::io::Write;

use outrank_api::decode::{self, KeepRaw, LoadOptions, Loaded, Object, ObjectKind};
use outrank_api::document;
use serde_json::json;

fn load(name: &str, text: &str) -> Loaded {
    decode::load([(name, text.as_bytes())])
}

/// All diagnostics, warnings first, one a line.
fn said(loaded: &Loaded) -> String {
    let lines = loaded.warnings.iter().chain(&loaded.errors);
    lines.map(|diagnostic| format!("{diagnostic}\n")).collect()
}

fn names(loaded: &Loaded) -> Vec<&str> {
    loaded
        .objects
        .iter()
        .map(|loaded| loaded.object.metadata().name.as_str())
        .collect()
}

/// Loads a manifest that stands in the test with the indentation of `text`, and compares
/// everything that is said about it.
#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(said(&load("f.yaml", text)), expected);
}

fn pod_with(spec: &str) -> String {
    let head = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\nspec:\n";
    format!("{head}  containers:\n  - name: c\n    image: i\n{spec}")
}

const NAMESPACE: &str =
    "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"NAME\"}}";

fn namespace(name: &str) -> String {
    NAMESPACE.replace("NAME", name)
}

#[test]
fn yaml_may_hold_several_documents() {
    let text = "# nothing yet\n---\n\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n\
                ---\n# empty\n--- # comment\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: \
                b\n...\n";
    let loaded = load("f.yaml", text);
    assert_eq!(said(&loaded), "");
    assert_eq!(names(&loaded), ["a", "b"]);
    let lines: Vec<usize> = loaded
        .objects
        .iter()
        .map(|object| object.origin.line)
        .collect();
    assert_eq!(lines, [5, 11]);
}

#[test]
fn json_may_hold_several_documents() {
    let text = format!(
        "{}{}\n---\n{}\n",
        namespace("a"),
        namespace("b"),
        namespace("c")
    );
    let loaded = load("f.json", &text);
    assert_eq!(said(&loaded), "");
    assert_eq!(names(&loaded), ["a", "b", "c"]);
    assert_eq!(loaded.objects[2].origin.to_string(), "f.json:3");
}

#[test]
fn yaml_in_flow_style_is_not_taken_for_json() {
    let loaded = load(
        "f",
        "{apiVersion: v1, kind: Namespace, metadata: {name: a}}",
    );
    assert_eq!(said(&loaded), "");
    assert_eq!(names(&loaded), ["a"]);
}

#[test]
fn gzip_and_byte_order_marks_are_seen_through() {
    let text = format!("\u{feff}{}", namespace("a"));
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).expect("writable");
    let gzip = gzip.finish().expect("finished");
    let loaded = decode::load([("a.gz", gzip.as_slice()), ("a", text.as_bytes())]);
    assert_eq!(said(&loaded), "");
    assert_eq!(names(&loaded), ["a", "a"]);
}

#[test]
fn lists_of_all_kinds_are_flattened() {
    let (a, b) = (namespace("a"), namespace("b"));
    let lists = [
        format!("{{\"apiVersion\":\"v1\",\"items\":[\n{a},\n{b}],\"kind\":\"List\"}}"),
        format!("apiVersion: v1\nitems:\n- {a}\n- {b}\nkind: List\n"),
        "{\"kind\":\"NamespaceList\",\"apiVersion\":\"v1\",\"items\":[\n\
         {\"metadata\":{\"name\":\"a\"}},\n{\"metadata\":{\"name\":\"b\"}}]}"
            .to_owned(),
        "apiVersion: v1\nitems:\n- metadata: {name: a}\n- metadata: {name: b}\nkind: \
        NamespaceList\n"
            .to_owned(),
        format!(
            "apiVersion: v1\nkind: List\nitems: [{{apiVersion: v1, kind: List, items: \
        [{a}]}}, {b}]"
        ),
        format!("apiVersion: v1\nkind: List\nitems: []\n---\n{a}\n---\n{b}"),
    ];
    for list in lists {
        let loaded = load("f", &list);
        assert_eq!(said(&loaded), "", "{list}");
        assert_eq!(names(&loaded), ["a", "b"], "{list}");
    }
}

#[test]
fn items_know_their_lines() {
    let json = format!(
        "{{\"apiVersion\":\"v1\",\"items\":[\n{},\n\n{}]",
        namespace("a"),
        namespace("B")
    );
    let json = format!("{json},\"kind\":\"List\"}}");
    let loaded = load("f", &json);
    assert_eq!(loaded.objects[1].origin.line, 4);
    let said = said(&loaded);
    assert!(
        said.starts_with(
            "f:4: error: metadata.name: Invalid value: \"B\": a lowercase RFC 1123 label "
        ),
        "{said}"
    );
}

#[test]
fn kinds_that_nobody_reads_are_listed_once_a_file() {
    let secret = |name| format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\n---\n");
    let text = format!(
        "{}{}apiVersion: x.io/v1\nkind: Widget\n",
        secret("a"),
        secret("b")
    );
    let loaded = load("f.yaml", &text);
    assert_eq!(said(&loaded), "");
    let ignored: Vec<String> = loaded
        .ignored
        .iter()
        .map(|i| {
            format!(
                "{} {} {} {} {}",
                i.origin, i.api_version, i.kind, i.count, i.name
            )
        })
        .collect();
    assert_eq!(
        ignored,
        ["f.yaml:1 v1 Secret 2 a", "f.yaml:9 x.io/v1 Widget 1 "]
    );
}

#[test]
fn managed_fields_are_left_out_and_the_rest_kept_on_demand() {
    for text in [
        r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a","managedFields":[{}]},
            "spec":{"finalizers":["kubernetes"]}}"#,
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: a, managedFields: [{}]}\n\
         spec: {finalizers: [kubernetes]}\n",
    ] {
        let options = LoadOptions {
            keep_raw: KeepRaw::All,
            ..LoadOptions::default()
        };
        let loaded = decode::load_with(options, [("f", text.as_bytes())]);
        let expected = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"},
            "spec": {"finalizers": ["kubernetes"]},
        });
        assert_eq!(loaded.objects[0].raw, expected);
        assert!(load("f", text).objects[0].raw.is_null());
    }
}

#[test]
fn anchors_and_merge_keys_work() {
    let text = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  labels: &l {v: '1', w: \
    '2'}\n\
                \x20 annotations:\n    <<: *l\n    w: '3'\n";
    let loaded = load("f.yaml", text);
    assert_eq!(said(&loaded), "");
    let annotations = &loaded.objects[0].object.metadata().annotations;
    assert_eq!(format!("{annotations:?}"), r#"{"v": "1", "w": "3"}"#);
}

#[test]
fn keys_that_are_not_text_become_text() {
    let text = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  labels: {yes: a, 1: b, \
    0x10: c}\n";
    let loaded = load("f.yaml", text);
    let labels: Vec<&String> = loaded.objects[0].object.metadata().labels.keys().collect();
    assert_eq!(labels, ["1", "16", "kubernetes.io/metadata.name", "true"]);
}

#[test]
fn old_groups_are_read_as_their_successors() {
    let text = "apiVersion: extensions/v1beta1\nkind: Deployment\nmetadata: {name: d}\nspec:\n  \
                template:\n    metadata: {labels: {app: web}}\n    spec: {containers: [{name: c, \
                image: i}]}\n";
    let loaded = load("f.yaml", text);
    assert_eq!(
        said(&loaded),
        "f.yaml:1: warning: apiVersion: extensions/v1beta1 is gone since Kubernetes 1.16; \
         read as apps/v1\n",
    );
    let Object::Deployment(deployment) = &loaded.objects[0].object else {
        panic!("a Deployment")
    };
    let selector = deployment
        .spec
        .selector
        .as_ref()
        .expect("made from the labels");
    assert_eq!(selector.match_labels["app"], "web");
    assert_eq!(deployment.spec.replicas, Some(1));
    let without_selector = text.replace("extensions/v1beta1", "apps/v1");
    check(
        &without_selector,
        "f.yaml:4: error: spec.selector: Required value\n\
         f.yaml:6: error: spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: \
         `selector` does not match template `labels`\n",
    );
}

#[test]
fn misspelt_fields_are_named_and_not_applied() {
    let loaded = load(
        "f.yaml",
        &pod_with("  schedulername: mine\n  nodeSelectr: {a: b}\n  xyz: 1\n"),
    );
    assert_eq!(
        said(&loaded),
        "f.yaml:9: warning: spec.schedulername: unknown field, left out; \
         did you mean \"schedulerName\"?\n\
         f.yaml:10: warning: spec.nodeSelectr: unknown field, left out; \
         did you mean \"nodeSelector\"?\n\
         f.yaml:11: warning: spec.xyz: unknown field, left out\n",
    );
    let Object::Pod(pod) = &loaded.objects[0].object else {
        panic!("a Pod")
    };
    assert_eq!(pod.spec.scheduler_name, "default-scheduler");
}

#[test]
fn wrong_types_say_how_to_write_it() {
    check(
        &pod_with(
            "  nodeName: 1.10\n  hostNetwork: \"yes\"\n  priority: \"7\"\n  tolerations: {key: \
            a}\n  \
             nodeSelector: [a]\n  terminationGracePeriodSeconds: 1.5\n  overhead: {cpu: 2 Gib}\n",
        ),
        "f.yaml:9: error: spec.nodeName: expected a string, found number 1.1; write it as \
        \"1.10\"\n\
         f.yaml:10: error: spec.hostNetwork: expected true or false, found a string; \
         write it as true, without quotes\n\
         f.yaml:11: error: spec.priority: expected a whole number, found a string; \
         write it as 7, without quotes\n\
         f.yaml:12: error: spec.tolerations: expected a list, found a map; \
         begin each element with \"- \"\n\
         f.yaml:13: error: spec.nodeSelector: expected a map, found a list; \
         leave out the \"- \" before it\n\
         f.yaml:14: error: spec.terminationGracePeriodSeconds: expected a whole number, \
         found number 1.5\n\
         f.yaml:15: error: spec.overhead[cpu]: \"2 Gib\" is not a quantity such as 500m, 2 or 2Gi; \
         write it as 2Gi\n",
    );
}

#[test]
fn impossible_values_are_errors() {
    check(
        &pod_with(
            "    resources:\n      requests: {cpu: 2, memory: -1, a/gpu: 1}\n      limits: {cpu: \
            1}\n    \
             ports: [{containerPort: 70000}, {hostPort: 80}]\n  - name: c\n    image: i\n  \
             restartPolicy: always\n  priority: 3000000000\n  tolerations:\n  \
             - {key: a, operator: Is}\n  \
             - {effect: NoRun, operator: Exists}\n",
        ),
        "f.yaml:10: error: spec.containers[0].resources.requests: Invalid value: \"2\": must be \
         less than or equal to cpu limit of 1\n\
         f.yaml:10: error: spec.containers[0].resources.requests[memory]: Invalid value: \"-1\": \
         must be greater than or equal to 0\n\
         f.yaml:11: error: spec.containers[0].resources.limits: Required value: Limit must be set \
         for non overcommitable resources\n\
         f.yaml:12: error: spec.containers[0].ports[0].containerPort: 70000 is out of range: \
         must be between 1 and 65535, inclusive\n\
         f.yaml:12: error: spec.containers[0].ports[1].containerPort: required field is missing or \
         empty\n\
         f.yaml:13: error: spec.containers[1].name: Duplicate value: \"c\"\n\
         f.yaml:15: error: spec.restartPolicy: \"always\" is not one of Always, OnFailure, Never; \
         did you mean \"Always\"?\n\
         f.yaml:16: error: spec.priority: 3000000000 is out of range, from -2147483648 to \
         2147483647\n\
         f.yaml:18: error: spec.tolerations[0].operator: \"Is\" is not one of Exists, Equal\n\
         f.yaml:19: error: spec.tolerations[1].effect: \"NoRun\" is not one of NoSchedule, \
         PreferNoSchedule, NoExecute\n",
    );
}

#[test]
fn storage_that_no_server_would_take_is_an_error() {
    let claim = |spec: &str| {
        format!(
            "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: c}}\nspec:\n  \
             resources: {{requests: {{storage: 1Gi}}}}\n{spec}"
        )
    };
    check(
        &claim("  accessModes: [ReadWriteOnes]\n  volumeMode: block\n"),
        "f.yaml:6: error: spec.accessModes[0]: \"ReadWriteOnes\" is not one of ReadWriteOnce, \
         ReadOnlyMany, ReadWriteMany, ReadWriteOncePod; did you mean \"ReadWriteOnce\"?\n\
         f.yaml:7: error: spec.volumeMode: \"block\" is not one of Filesystem, Block; did you \
         mean \"Block\"?\n",
    );
    check(
        "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: s}\n\
         volumeBindingMode: waitForFirstConsumer\n",
        "f.yaml:1: error: provisioner: required field is missing or empty\n\
         f.yaml:4: error: volumeBindingMode: \"waitForFirstConsumer\" is not one of Immediate, \
         WaitForFirstConsumer; did you mean \"WaitForFirstConsumer\"?\n",
    );
    check(
        &pod_with("  volumes:\n  - name: v\n    emptyDir: {}\n    hostPath: {path: /x}\n"),
        "f.yaml:12: error: spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume \
         type\n",
    );
    check(
        &pod_with(
            "  volumes:\n  - name: v\n    ephemeral:\n      volumeClaimTemplate:\n        \
             spec: {accessModes: [], resources: {}}\n",
        ),
        "f.yaml:13: error: spec.volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes: \
         required field is missing or empty\n\
         f.yaml:13: error: \
         spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources[storage]: Required value\n",
    );
    check(
        &pod_with("    volumeMounts: [{name: dta, mountPath: /d}]\n  volumes: [{name: data}]\n"),
        "f.yaml:9: error: spec.containers[0].volumeMounts[0].name: Not found: \
         \"dta\"; did you mean \"data\"?\n",
    );
    check(
        "apiVersion: storage.k8s.io/v1\nkind: CSINode\nmetadata: {name: m1}\nspec:\n  drivers:\n  \
         - {name: d, nodeID: m1, allocatable: {count: -1}}\n",
        "f.yaml:6: error: spec.drivers[0].allocatable.count: -1 is out of range: must be at \
         least 0\n",
    );
    check(
        "apiVersion: storage.k8s.io/v1\nkind: CSIStorageCapacity\nmetadata: {name: c}\n\
         storageClassName: s\ncapacity: -1Gi\n",
        "f.yaml:5: error: capacity: Invalid value: \"-1Gi\": must be greater than or equal to 0\n",
    );
    check(
        "apiVersion: storage.k8s.io/v1\nkind: VolumeAttachment\nmetadata: {name: a}\n",
        "f.yaml:1: error: spec: required field is missing or empty\n",
    );
}

#[test]
fn names_and_lists_of_storage_are_checked() {
    let volume = |spec: &str| {
        format!(
            "apiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: v}}\nspec:\n  capacity: \
             {{storage: 1Gi}}\n  accessModes: [ReadWriteOnce]\n{spec}"
        )
    };
    check(
        &volume("  local: {path: /d}\n"),
        "f.yaml:4: error: spec.nodeAffinity: must be there where local is\n",
    );
    let misnamed = volume("  hostPath: {path: /d}\n  storageClassName: Foo_Bar\n");
    let found = said(&load("f.yaml", &misnamed.replace("1Gi", "1Gi, cpu: 1")));
    let expected = [
        "f.yaml:5: error: spec.capacity: Unsupported value: {\"cpu\":\"1\",\"storage\":\"1Gi\"}: supported \
         values: \"storage\"\n",
        "f.yaml:8: error: spec.storageClassName: Invalid value: \"Foo_Bar\": a lowercase RFC 1123",
    ];
    assert!(found.starts_with(&expected.concat()), "{found}");
    check(
        &volume(""),
        "f.yaml:4: error: spec: one of these must be given: awsElasticBlockStore, azureDisk, \
         azureFile, cephfs, cinder, csi, fc, flexVolume, flocker, gcePersistentDisk, glusterfs, \
         hostPath, iscsi, local, nfs, photonPersistentDisk, portworxVolume, quobyte, rbd, scaleIO, \
         storageos, vsphereVolume\n",
    );
    check(
        "apiVersion: storage.k8s.io/v1\nkind: CSINode\nmetadata: {name: m1}\nspec:\n  drivers:\n  \
         - {name: d, nodeID: m1, topologyKeys: [a, a]}\n  - {name: d, nodeID: m1}\n",
        "f.yaml:6: error: spec.drivers[0].topologyKeys: Duplicate value: \"a\"\n\
         f.yaml:7: error: spec.drivers[1].name: Duplicate value: \"d\"\n",
    );
}

#[test]
fn claims_of_a_stateful_set_are_volumes_of_its_pods() {
    let set = |mount: &str, modes: &str| {
        format!(
            "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {{name: s}}\nspec:\n  \
             selector: {{matchLabels: {{a: b}}}}\n  template:\n    metadata: {{labels: {{a: \
             b}}}}\n    spec:\n      containers:\n      - {{name: c, image: i, volumeMounts: \
             [{{name: {mount}, mountPath: /d}}]}}\n  volumeClaimTemplates:\n  - metadata: \
             {{name: data}}\n    spec: {{accessModes: [{modes}], resources: {{requests: \
             {{storage: 1Gi}}}}}}\n"
        )
    };
    check(&set("data", "ReadWriteOnce"), "");
    check(
        &set("other", "Once"),
        "f.yaml:10: error: spec.template.spec.containers[0].volumeMounts[0].name: Not found: \
         \"other\"\n\
         f.yaml:13: error: spec.volumeClaimTemplates[0].spec.accessModes[0]: \"Once\" is not one \
         of ReadWriteOnce, ReadOnlyMany, ReadWriteMany, ReadWriteOncePod\n",
    );
}

#[test]
fn memory_in_milli_is_doubted() {
    check(
        &pod_with("    resources: {requests: {memory: 500m}}\n"),
        "f.yaml:9: warning: spec.containers[0].resources.requests[memory]: 500m is a fraction of a \
         byte; did you mean 500Mi?\n",
    );
}

#[test]
fn workloads_must_fit_themselves() {
    let text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n  replicas: \
    -2\n  \
                selector: {matchLabels: {app: web}}\n  template:\n    \
                metadata: {labels: {app: wen}}\n    \
                spec:\n      restartPolicy: Never\n      containers: [{name: c, image: i}]\n";
    check(
        text,
        "f.yaml:5: error: spec.replicas: -2 is out of range: must be at least 0\n\
         f.yaml:8: error: spec.template.metadata.labels: Invalid value: {\"app\":\"wen\"}: \
         `selector` does not match template `labels`\n\
         f.yaml:10: error: spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported \
         values: \"Always\"\n",
    );
}

#[test]
fn places_are_right_in_json_too() {
    let text = "{\n \"apiVersion\": \"v1\",\n \"kind\": \"Pod\",\n \"metadata\": {\"name\": \
    \"p\"},\n \
                \"spec\": {\n  \"containers\": [\n   {\"name\": \"a\", \"image\": \"i\"},\n   \
                {\"name\": \"b\",\n    \"image\": 1.50}\n  ]\n }\n}\n";
    check(
        text,
        "f.yaml:9: error: spec.containers[1].image: expected a string, found number 1.5; \
         write it as \"1.50\"\n",
    );
}

#[test]
fn the_same_mistake_is_said_once_a_file() {
    let pods: String = (0..1000)
        .map(|_| pod_with("  schedulername: x\n") + "---\n")
        .collect();
    check(
        &pods,
        "f.yaml:9: warning: spec.schedulername: unknown field, left out; \
         did you mean \"schedulerName\"? (and in 999 more places)\n",
    );
}

#[test]
fn a_flood_of_different_mistakes_is_cut() {
    let fields: String = (0..1000).map(|n| format!("  unknown{n}: 1\n")).collect();
    let loaded = load("f.yaml", &pod_with(&fields));
    assert_eq!(loaded.warnings.len(), decode::FINDINGS_PER_FILE_MAX + 1);
    let last = loaded.warnings.last().expect("a warning").to_string();
    assert_eq!(last, "f.yaml: warning: 800 more of these are not shown");
}

#[test]
fn what_is_not_an_object_is_an_error() {
    check(
        "kind: Pod\n",
        "f.yaml:1: error: not a Kubernetes object: apiVersion is missing\n",
    );
    check(
        "\na: 1\n",
        "f.yaml:2: error: not a Kubernetes object: apiVersion and kind are missing\n",
    );
    check(
        "hello",
        "f.yaml:1: error: expected a Kubernetes object, found text\n",
    );
    check(
        "[{\"apiVersion\": \"v1\", \"kind\": \"Pod\"}]",
        "f.yaml:1: error: expected a Kubernetes object, found a list; write it as the items of an \
         object of kind List\n",
    );
    check(
        "- a\n",
        "f.yaml:1: error: expected a Kubernetes object, found a list; write it as the items of an \
         object of kind List\n",
    );
    check("", "");
}

#[test]
fn broken_text_is_an_error_with_its_line() {
    let said_of = |bytes: &[u8]| said(&decode::load([("f", bytes)]));
    assert_eq!(
        said_of(b"a: 1\nb: \xff\n"),
        "f:2: error: byte 8 (0xff) is not UTF-8; save the file as UTF-8\n"
    );
    assert_eq!(
        said_of(b"a: 1\n\nb: \0\n"),
        "f:3: error: byte 9 is NUL, which no text may contain\n"
    );
    assert_eq!(
        said_of(b"\x1f\x8bnot gzip"),
        "f:1: error: broken gzip file: invalid gzip header\n"
    );
    assert_eq!(
        said_of(b"{\"a\": 1,\n \"b\": }"),
        "f:2: error: expected value\n"
    );
    assert_eq!(
        said_of(b"a:\n\tb: 1\n"),
        "f:2: error: tabs disallowed within this context (block indentation); YAML is indented \
        with spaces\n",
    );
}

#[test]
fn duplicate_keys_are_warned_of() {
    check(
        "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  name: b\n",
        "f.yaml:5: warning: key \"name\" appears twice; the last one counts\n",
    );
    let loaded = load(
        "f",
        r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a","name":"b"}}"#,
    );
    assert_eq!(
        said(&loaded),
        "f:1: warning: key \"name\" appears twice; the last one counts\n"
    );
    assert_eq!(names(&loaded), ["b"]);
}

#[test]
fn a_duplicate_key_is_told_with_its_place() {
    let refused = |text: &str| {
        let error = document::values(text.as_bytes()).expect_err("a key is there twice");
        error.to_string()
    };
    let place = "a.b[1].c";
    let expected = format!("line 5: {place}: key \"c\" already set in map");
    let yaml = "a:\n  b:\n  - {}\n  - c: 1\n    c: {c: 2}\n";
    assert_eq!(refused(yaml), expected);
    let json = "{\"a\":\n{\"b\": [{},\n{\"c\": 1,\n\n\"c\": {\"c\":\n2}}]}}";
    assert_eq!(refused(json), expected);
    // The first of several; in a list of objects, too.
    let json = "{\"items\": [\n{\"kind\": 1,\n\"kind\": 1}],\n\"items\": []}";
    assert_eq!(
        refused(json),
        "line 3: items[0].kind: key \"kind\" already set in map"
    );
    assert_eq!(
        refused("a: 1\n\"a\": 2\n"),
        "line 2: a: key \"a\" already set in map"
    );
    // What a merge brings may be said otherwise.
    let merged = "x: &x {a: 1}\ny:\n  <<: *x\n  a: 2\n";
    assert!(document::values(merged.as_bytes()).is_ok());
}

#[test]
fn null_means_absent() {
    let loaded = load(
        "f",
        &pod_with("    resources: null\n  nodeName: ~\n  hostNetwork:\n  nodeSelector: {a: }\n"),
    );
    assert_eq!(said(&loaded), "");
    let Object::Pod(pod) = &loaded.objects[0].object else {
        panic!("a Pod")
    };
    assert_eq!(pod.spec.node_selector["a"], "");
}

#[test]
fn values_decode_without_a_file() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"nodeName": null}});
    assert_eq!(
        decode::decode_value(&pod).expect("a Pod").kind(),
        ObjectKind::Pod
    );
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"nodeName": 1, "priority": "x",
        "y": 1, "containers": [{"name": "c"}]}});
    let errors = decode::decode_value(&pod).expect_err("two wrong types");
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "spec.nodeName: expected a string, found number 1",
            "spec.priority: expected a whole number, found a string",
        ]
    );
    let widget = json!({"apiVersion": "x.io/v1", "kind": "Widget"});
    assert!(decode::decode_value(&widget).is_err());
}

/// Manifests as people publish them, with what is to be said about them.
#[test]
fn published_manifests_are_read() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/seeds");
    let mut paths: Vec<_> = std::fs::read_dir(directory)
        .expect("seeds")
        .map(|entry| entry.expect("entry").path())
        .collect();
    paths.sort();
    let inputs: Vec<(String, Vec<u8>)> = paths
        .iter()
        .map(|path| {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            (name, std::fs::read(path).expect("readable"))
        })
        .collect();
    let loaded = decode::load(
        inputs
            .iter()
            .map(|(name, bytes)| (name.as_str(), bytes.as_slice())),
    );
    assert_eq!(
        said(&loaded),
        "deployment-node-name.yaml:1: warning: apiVersion: extensions/v1beta1 is gone since \
         Kubernetes 1.16; read as apps/v1\n\
         deployment-node-selector.yaml:1: warning: apiVersion: extensions/v1beta1 is gone since \
         Kubernetes 1.16; read as apps/v1\n\
         pod-schedulername.yaml:8: warning: spec.schedulername: unknown field, left out; \
         did you mean \"schedulerName\"?\n",
    );
    assert_eq!(
        names(&loaded),
        [
            "high-nginx",
            "myweb",
            "myweb",
            "affinity-pod",
            "affinity",
            "affinity",
            "affinity",
            "annotation-second-scheduler",
            "pod-1",
            "high",
            "low",
            "high-priority",
        ]
    );
    let ignored: Vec<&str> = loaded
        .ignored
        .iter()
        .map(|ignored| ignored.kind.as_str())
        .collect();
    assert_eq!(ignored, ["AdmissionConfiguration", "Policy"]);
    let replicas: Vec<Option<i32>> = loaded
        .objects
        .iter()
        .filter_map(|loaded| match &loaded.object {
            Object::Deployment(deployment) => Some(deployment.spec.replicas),
            _ => None,
        })
        .collect();
    assert_eq!(replicas, [Some(1), Some(7), Some(5)]);
}

#[test]
fn a_number_beyond_its_range_is_told_the_range() {
    let of = |seconds: &str| pod_with(&format!("  activeDeadlineSeconds: {seconds}\n"));
    let text = "is out of range: must be between 1 and 2147483647, inclusive";
    check(
        &of("9223372036854775807"),
        &format!("f.yaml:9: error: spec.activeDeadlineSeconds: 9223372036854775807 {text}\n"),
    );
    check(
        &of("0"),
        &format!("f.yaml:9: error: spec.activeDeadlineSeconds: 0 {text}\n"),
    );
}

/// Objects that clusters have, though they would refuse to make them: what came after the creation,
/// and what older releases let through.
const OF_A_CLUSTER: &str = r#"
apiVersion: v1
kind: Pod
metadata:
  {name: debugged, uid: u1, deletionTimestamp: "2026-01-01T00:00:00Z", deletionGracePeriodSeconds: 30, finalizers: [example.com/keep]}
spec:
  nodeName: a
  schedulingGates: [{name: example.com/gate}]
  containers: [{name: c, image: i, resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}]}]
  ephemeralContainers: [{name: debug, image: busybox, targetContainerName: c}]
status:
  phase: Running
  resize: InProgress
  conditions: [{type: PodResizeInProgress, status: "True"}]
  containerStatuses: [{name: c, image: i, imageID: "", ready: true, restartCount: 0, allocatedResources: {cpu: "1"}, resources: {requests: {cpu: "1"}}}]
  ephemeralContainerStatuses: [{name: debug, image: busybox, imageID: "", ready: false, restartCount: 0, state: {running: {}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: without-identifier}
spec: {nodeName: a, containers: [{name: c, image: i}], ephemeralContainers: [{name: debug, image: busybox}]}
status: {phase: Running}
---
apiVersion: v1
kind: Service
metadata: {name: 1st, uid: u2}
spec: {type: NodePort, clusterIP: 010.0.0.1, clusterIPs: [010.0.0.1], ports: [{port: 80, nodePort: 30080}]}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: system-of-a-provider, uid: u3}
value: 1500000000
---
apiVersion: batch/v1
kind: Job
metadata: {name: j, uid: u4}
spec:
  selector: {matchLabels: {batch.kubernetes.io/controller-uid: u4}}
  template:
    metadata: {labels: {batch.kubernetes.io/controller-uid: u4}}
    spec: {restartPolicy: Never, containers: [{name: c, image: i}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, uid: u5}
spec:
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d, "of/too/many": parts}}
    spec: {containers: [{name: c, image: i}, {name: c, image: i}], topologySpreadConstraints: [{maxSkew: 1, topologyKey: t, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: "not valid"}}}]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: c, uid: u6, finalizers: [kubernetes.io/pvc-protection]}
spec: {accessModes: [ReadWriteOnce], volumeName: v, resources: {requests: {storage: 0}}}
status: {phase: Bound, accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}}
"#;

#[test]
fn what_a_cluster_has_is_taken() {
    let loaded = load("dump.yaml", OF_A_CLUSTER);
    assert_eq!(loaded.errors, []);
    assert_eq!(loaded.objects.len(), 7);
    let warnings: Vec<String> = loaded.warnings.iter().map(ToString::to_string).collect();
    let reserved = "metadata.name: Forbidden: names that begin with system- are reserved for the \
                    built-in classes; taken as it is, as a cluster has it";
    assert!(
        warnings.iter().any(|it| it.ends_with(reserved)),
        "{warnings:#?}"
    );
    assert!(
        !warnings.iter().any(|it| it.contains("ephemeralContainers")),
        "{warnings:#?}"
    );
}

/// The same objects are refused where they are to be made.
#[test]
fn what_is_new_is_held_to_the_rules() {
    let lines = OF_A_CLUSTER.replace("status: {phase: Running}", "status: {}");
    let new: String = lines
        .lines()
        .map(|line| {
            let uid = line.find(", uid: u").map(|at| at..at + ", uid: u1".len());
            let mut line = line.to_owned();
            uid.into_iter().for_each(|it| line.replace_range(it, ""));
            line + "\n"
        })
        .collect();
    let new = new.replace("  phase: Running\n", "");
    let loaded = load("new.yaml", &new);
    let errors: Vec<String> = loaded.errors.iter().map(ToString::to_string).collect();
    let expected = [
        "spec.ephemeralContainers: Forbidden: cannot be set on create",
        "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
        "metadata.name: Forbidden: names that begin with system-",
        "spec.template.spec.containers[1].name: Duplicate value: \"c\"",
    ];
    for wanted in expected {
        assert!(
            errors.iter().any(|it| it.contains(wanted)),
            "{wanted} in {errors:#?}"
        );
    }
}

/// A change of an object that would be refused today is held to what it changes.
#[test]
fn a_change_answers_for_itself_alone() {
    let options = LoadOptions {
        keep_raw: KeepRaw::All,
        partial: None,
    };
    let loaded = decode::load_with(options, [("dump.yaml", OF_A_CLUSTER.as_bytes())]);
    let change = |index: usize, change: serde_json::Value| {
        outrank_api::apply::apply(&loaded.objects[index], &change)
    };
    let labelled = change(0, json!({"metadata": {"labels": {"a": "b"}}}));
    assert_eq!(labelled.expect("valid").object.metadata().labels["a"], "b");
    let longer = change(5, json!({"spec": {"replicas": 4}}));
    assert!(longer.is_ok(), "{longer:?}");
    let wrong = change(5, json!({"metadata": {"labels": {"a": "not valid"}}}));
    let wrong: Vec<String> = wrong
        .expect_err("wrong")
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert!(
        wrong[0].starts_with("metadata.labels: Invalid value: \"not valid\""),
        "{wrong:?}"
    );
}
