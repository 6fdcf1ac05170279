//! Requests that nobody sends who means well, and how they must be answered.

use serde_json::{Value, json};

/// Where most requests go to.
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const OPERATIONS: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A request.
pub(crate) struct Attack {
    pub(crate) what: String,
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) content_type: &'static str,
    pub(crate) body: Vec<u8>,
    /// How it may be answered.
    pub(crate) statuses: &'static [u16],
}

fn attack(
    what: impl Into<String>,
    (method, path): (&'static str, &str),
    content_type: &'static str,
    body: impl Into<Vec<u8>>,
    statuses: &'static [u16],
) -> Attack {
    Attack {
        what: what.into(),
        method,
        path: path.to_owned(),
        content_type,
        body: body.into(),
        statuses,
    }
}

/// Objects that the attacks are about; they must be there.
pub(crate) fn victims() -> [(&'static str, Value); 3] {
    let pod = json!({"containers": [{"name": "c", "image": "i"}]});
    let boats = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.sea.example"},
        "spec": {"group": "sea.example", "scope": "Namespaced",
            "names": {"plural": "boats", "singular": "boat", "kind": "Boat"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema":
                {"openAPIV3Schema": {"type": "object",
                    "x-kubernetes-preserve-unknown-fields": true}}}]}});
    [
        (
            MAPS,
            json!({"metadata": {"name": "victim"}, "data": {"a": "b"}}),
        ),
        (PODS, json!({"metadata": {"name": "victim"}, "spec": pod})),
        (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            boats,
        ),
    ]
}

/// All of them.
pub(crate) fn all() -> Vec<Attack> {
    let mut all = deep();
    all.extend(large());
    all.extend(no_text());
    all.extend(patches());
    all.extend(queries());
    all
}

/// Values that are nested, wherever values are read.
fn deep() -> Vec<Attack> {
    const DEPTH: usize = 100_000;
    let lists = "[".repeat(DEPTH);
    let objects = r#"{"a":"#.repeat(DEPTH);
    let closed = format!("{objects}1{}", "}".repeat(DEPTH));
    let data = format!(r#"{{"metadata":{{"name":"deep"}},"data":{closed}}}"#);
    let yaml = format!("data: {}", "{a: ".repeat(DEPTH));
    let dashes = "- ".repeat(DEPTH);
    let indented: String = (0..2_000)
        .map(|it| format!("{}a:\n", " ".repeat(it)))
        .collect();
    let victim = format!("{MAPS}/victim");
    let mut all = Vec::new();
    for (what, text) in [("lists", &lists), ("objects", &objects), ("data", &data)] {
        let what = |where_to: &str| format!("{what} nested {DEPTH} deep, {where_to}");
        let text = text.as_str();
        for (method, path, kind) in [
            ("POST", MAPS, JSON),
            (
                "POST",
                "/apis/sea.example/v1/namespaces/default/boats",
                JSON,
            ),
            ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", JSON),
            ("PUT", victim.as_str(), JSON),
            ("PATCH", victim.as_str(), MERGE),
            ("PATCH", victim.as_str(), STRATEGIC),
            ("PATCH", victim.as_str(), OPERATIONS),
            ("PATCH", victim.as_str(), APPLY),
            ("DELETE", victim.as_str(), JSON),
            ("POST", &format!("{PODS}/victim/eviction"), JSON),
        ] {
            let where_to = format!("{method} {path} {kind}");
            let path = match kind {
                APPLY => format!("{path}?fieldManager=m"),
                _ => path.to_owned(),
            };
            all.push(attack(what(&where_to), (method, &path), kind, text, &[400]));
        }
    }
    for (what, text) in [
        ("braces", &yaml),
        ("dashes", &dashes),
        ("indents", &indented),
    ] {
        let apply = format!("{victim}?fieldManager=m");
        let what = format!("YAML nested by {what}");
        let text = text.as_str();
        all.push(attack(
            format!("{what}, created"),
            ("POST", MAPS),
            YAML,
            text,
            &[400],
        ));
        all.push(attack(
            format!("{what}, applied"),
            ("PATCH", &apply),
            APPLY,
            text,
            &[400],
        ));
    }
    // Just within what can be read, and so too deep once owners of fields are written into it.
    let depth = 122;
    let nested = format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
    let boat = format!(
        r#"{{"apiVersion":"sea.example/v1","kind":"Boat","metadata":{{"name":"deep"}},"spec":{nested}}}"#
    );
    let boats = "/apis/sea.example/v1/namespaces/default/boats";
    all.push(attack(
        "an object that is too deep for its owners",
        ("POST", boats),
        JSON,
        boat,
        &[400],
    ));
    all
}

/// Bodies near the limit whose reading might take time or memory out of proportion.
fn large() -> Vec<Attack> {
    let million = 1 << 20;
    let long = "k".repeat(million);
    let pair = |text: &str, count: usize| text.repeat(count);
    let boats = "/apis/sea.example/v1/namespaces/default/boats";
    let boat = r#""apiVersion":"sea.example/v1","kind":"Boat","metadata":{"name":"large"}"#;
    let twice = format!(
        r#"{{{boat},"{long}":{{{}"x":1}}}}"#,
        pair(r#""x":1,"#, 250_000)
    );
    let unknown: String = (0..150_000).map(|it| format!(r#""f{it}":1,"#)).collect();
    let unknown = format!(r#"{{{unknown}"metadata":{{"name":"unknown"}}}}"#);
    let limits: String = (0..20_000).map(|it| format!(r#""r{it}":1.5,"#)).collect();
    let limits = format!(
        r#"{{"metadata":{{"name":"limits"}},"spec":{{"containers":[{{"name":"c","image":"i",
            "resources":{{"limits":{{{limits}"cpu":1.5}}}}}}]}}}}"#
    );
    let containers: String = (0..20_000)
        .map(|it| format!(r#"{{"name":"c{it}","image":"i"}},"#))
        .collect();
    let pod = format!(
        r#"{{"metadata":{{"name":"many"}},"spec":{{"containers":[{containers}
            {{"name":"c","image":"i"}}]}}}}"#
    );
    let labels: String = (0..100_000).map(|it| format!(r#""l{it}":"v","#)).collect();
    let labelled = format!(r#"{{"metadata":{{"name":"l","labels":{{{labels}"a":"b"}}}}}}"#);
    let properties = format!(
        r#"{{"metadata":{{"name":"cats.x.y"}},"spec":{{"group":"x.y","scope":"Cluster",
            "names":{{"plural":"cats","kind":"Cat"}},"versions":[{{"name":"v1","served":true,
            "storage":true,"schema":{{"openAPIV3Schema":{{"type":"object","properties":
            {{"{long}":{{{}"type":"object"}}}}}}}}}}]}}}}"#,
        pair(r#""x":1,"#, 250_000)
    );
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let flow = format!(
        "metadata: {{name: flow}}\ndata: {{{}}}",
        pair("a: b, ", 100_000)
    );
    let mut bomb = "metadata: {name: bomb}\na0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..12 {
        let aliases = format!("*a{},", level - 1).repeat(10);
        bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    vec![
        attack(
            "fields twice below a long name",
            ("POST", boats),
            JSON,
            twice.clone(),
            &[201],
        ),
        attack(
            "fields twice, strictly",
            ("POST", &format!("{boats}?fieldValidation=Strict")),
            JSON,
            twice,
            &[400],
        ),
        attack(
            "thousands of unknown fields",
            ("POST", MAPS),
            JSON,
            unknown.clone(),
            &[201],
        ),
        attack(
            "thousands of unknown fields, strictly",
            ("POST", &format!("{MAPS}?fieldValidation=Strict")),
            JSON,
            unknown,
            &[400],
        ),
        attack(
            "unknown fields below a long name",
            ("POST", definitions),
            JSON,
            properties,
            &[201],
        ),
        attack(
            "thousands of quantities with points",
            ("POST", PODS),
            JSON,
            limits,
            &[422],
        ),
        attack(
            "thousands of containers",
            ("POST", &format!("{PODS}?dryRun=All")),
            JSON,
            pod,
            &[201, 422],
        ),
        attack(
            "thousands of labels",
            ("POST", &format!("{MAPS}?dryRun=All")),
            JSON,
            labelled,
            &[201, 422],
        ),
        attack(
            "YAML in one line, each key twice",
            ("POST", MAPS),
            YAML,
            flow,
            &[400],
        ),
        attack(
            "YAML that grows by aliases",
            ("POST", MAPS),
            YAML,
            bomb.clone(),
            &[400],
        ),
        attack(
            "applied YAML that grows by aliases",
            ("PATCH", &format!("{MAPS}/victim?fieldManager=m")),
            APPLY,
            bomb,
            &[400],
        ),
        attack(
            "compressed YAML",
            ("POST", MAPS),
            YAML,
            compressed(),
            &[400],
        ),
    ]
}

/// A hundred MiB in a few bytes.
fn compressed() -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    for _ in 0..100 {
        encoder.write_all(&vec![b' '; 1 << 20]).expect("memory");
    }
    encoder.finish().expect("memory")
}

/// Bytes that are not what they say.
fn no_text() -> Vec<Attack> {
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    // An envelope of a ConfigMap whose parts say that they are longer than all that follows.
    let lying = |length: &[u8]| {
        let mut bytes = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12".to_vec();
        bytes.extend_from_slice(length);
        bytes.extend_from_slice(b"\x0a\x03\x0a\x01a");
        bytes
    };
    let endless = [0xff; 9];
    let far = [0xff, 0xff, 0xff, 0xff, 0x0f];
    let nested: Vec<u8> = b"k8s\0".iter().copied().chain([0x12; 100_000]).collect();
    let mut all = vec![
        attack(
            "no UTF-8",
            ("POST", MAPS),
            JSON,
            b"{\"data\":{\"a\":\"\xff\xfe\"}}".to_vec(),
            &[400],
        ),
        attack(
            "YAML that is no UTF-8",
            ("POST", MAPS),
            YAML,
            b"a: \xff".to_vec(),
            &[400],
        ),
        attack(
            "half a pair",
            ("POST", MAPS),
            JSON,
            br#"{"metadata":{"name":"half"},"data":{"a":"\ud800"}}"#.to_vec(),
            &[201],
        ),
        attack("a NUL", ("POST", MAPS), YAML, b"a: b\0c".to_vec(), &[400]),
        attack("nothing", ("POST", MAPS), JSON, "", &[400]),
        attack("a number", ("POST", MAPS), JSON, "1", &[400]),
        attack(
            "a number too large",
            ("POST", deployments),
            JSON,
            r#"{"metadata":{"name":"d"},"spec":{"replicas":1e999}}"#,
            &[400],
        ),
        attack(
            "a list",
            ("PATCH", &format!("{MAPS}/victim")),
            MERGE,
            "[]",
            &[400],
        ),
        attack("no known type", ("POST", MAPS), "text/html", "<p>", &[415]),
        attack("nested messages", ("POST", MAPS), PROTOBUF, nested, &[400]),
        attack("no envelope", ("POST", MAPS), PROTOBUF, "{}", &[400]),
    ];
    for (what, length) in [
        ("endless", &endless[..]),
        ("far", &far[..]),
        ("no", &[][..]),
    ] {
        let what = format!("protocol buffers of {what} length");
        all.push(attack(
            what,
            ("POST", MAPS),
            PROTOBUF,
            lying(length),
            &[400],
        ));
    }
    all
}

/// Patches that make much of little.
fn patches() -> Vec<Attack> {
    let victim = format!("{MAPS}/victim");
    let pod = format!("{PODS}/victim");
    let many = |count: usize, operation: Value| Value::Array(vec![operation; count]).to_string();
    let test = json!({"op": "test", "path": "/data/a", "value": "b"});
    let doubling: Vec<Value> = (0..40)
        .map(|it| json!({"op": "copy", "from": "/data", "path": format!("/data/{it}")}))
        .collect();
    let wrap = [
        json!({"op": "add", "path": "/b", "value": {}}),
        json!({"op": "move", "from": "/data", "path": "/b/data"}),
        json!({"op": "move", "from": "/b", "path": "/data"}),
    ];
    let wrapping: Vec<&Value> = wrap.iter().cycle().take(9_999).collect();
    let containers: Vec<Value> = (0..20_000)
        .map(|it| json!({"name": format!("c{it}")}))
        .collect();
    let merged = json!({"spec": {"containers": &containers}}).to_string();
    let ordered = json!({"spec": {"$setElementOrder/containers": &containers}}).to_string();
    let deleted: Vec<Value> = (0..20_000)
        .map(|it| json!({"name": format!("c{it}"), "$patch": "delete"}))
        .collect();
    let deleted = json!({"spec": {"containers": deleted}}).to_string();
    let finalizers: Vec<String> = (0..100_000).map(|it| format!("a.b/{it}")).collect();
    let finalizers = json!({"metadata": {"finalizers": finalizers}}).to_string();
    let applied: Vec<Value> = (0..20_000)
        .map(|it| json!({"name": format!("c{it}"), "image": "i"}))
        .collect();
    let applied = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "victim"},
        "spec": {"containers": applied}});
    let apply = format!("{pod}?fieldManager=m&force=true");
    vec![
        attack(
            "100,000 operations",
            ("PATCH", &victim),
            OPERATIONS,
            many(100_000, test.clone()),
            &[413],
        ),
        attack(
            "10,000 operations",
            ("PATCH", &victim),
            OPERATIONS,
            many(10_000, test),
            &[200],
        ),
        attack(
            "copies of copies",
            ("PATCH", &victim),
            OPERATIONS,
            json!(doubling).to_string(),
            &[422],
        ),
        attack(
            "ever deeper",
            ("PATCH", &victim),
            OPERATIONS,
            json!(wrapping).to_string(),
            &[422],
        ),
        attack(
            "thousands of containers merged",
            ("PATCH", &pod),
            STRATEGIC,
            merged,
            &[422],
        ),
        attack(
            "thousands of containers ordered",
            ("PATCH", &pod),
            STRATEGIC,
            ordered,
            &[200, 400, 422],
        ),
        attack(
            "thousands of containers deleted",
            ("PATCH", &pod),
            STRATEGIC,
            deleted,
            &[200],
        ),
        attack(
            "thousands of finalizers merged",
            ("PATCH", &pod),
            STRATEGIC,
            finalizers,
            &[200, 422],
        ),
        attack(
            "thousands of containers applied",
            ("PATCH", &apply),
            APPLY,
            applied.to_string(),
            &[422],
        ),
        attack(
            "no path",
            ("PATCH", &victim),
            OPERATIONS,
            r#"[{"op":"add"}]"#,
            &[422],
        ),
        attack(
            "an unknown operation",
            ("PATCH", &victim),
            OPERATIONS,
            r#"[{"op":"burn","path":"/data"}]"#,
            &[422],
        ),
        attack(
            "the whole object removed",
            ("PATCH", &victim),
            OPERATIONS,
            r#"[{"op":"remove","path":""}]"#,
            &[400, 422],
        ),
        attack(
            "the whole object replaced",
            ("PATCH", &victim),
            OPERATIONS,
            r#"[{"op":"replace","path":"","value":[]}]"#,
            &[400, 422],
        ),
    ]
}

/// Parameters that make no sense.
fn queries() -> Vec<Attack> {
    let get = |what: &str, query: String, statuses| {
        attack(
            what,
            ("GET", &format!("{PODS}?{query}")),
            JSON,
            "",
            statuses,
        )
    };
    let selector: String = (0..6_000).map(|it| format!("v{it},")).collect();
    let requirements: String = (0..5_000).map(|it| format!("k{it},")).collect();
    let token = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIvLi4vLi4vc2VjcmV0cyJ9";
    vec![
        get(
            "a huge set",
            format!("labelSelector=a+in+({selector}x)"),
            &[200],
        ),
        get(
            "many requirements",
            format!("labelSelector={requirements}x"),
            &[200],
        ),
        get(
            "open brackets",
            format!("labelSelector={}", "(".repeat(50_000)),
            &[400],
        ),
        get(
            "an unknown field",
            "fieldSelector=spec.secret%3Dx".to_owned(),
            &[400],
        ),
        get("a limit below zero", "limit=-5".to_owned(), &[200, 400]),
        get(
            "a limit beyond numbers",
            "limit=99999999999999999999".to_owned(),
            &[400],
        ),
        get(
            "a time that is none",
            "timeoutSeconds=abc".to_owned(),
            &[400],
        ),
        attack(
            "a deletion that is not wanted",
            ("DELETE", &format!("{MAPS}/victim")),
            JSON,
            r#"{"dryRun":"All"}"#,
            &[400],
        ),
        attack(
            "a deletion that is tried otherwise",
            ("DELETE", &format!("{MAPS}/victim?dryRun=some")),
            JSON,
            "",
            &[422],
        ),
        get("no token", "continue=%00%ff".to_owned(), &[400]),
        get(
            "a token of somewhere else",
            format!("continue={token}"),
            &[400, 410],
        ),
        get(
            "a version that is none",
            "resourceVersion=-1".to_owned(),
            &[400, 500],
        ),
        get(
            "a version of the future",
            "resourceVersion=18446744073709551615".to_owned(),
            &[504],
        ),
        get(
            "a match that is none",
            "resourceVersionMatch=Perhaps".to_owned(),
            &[422],
        ),
        get(
            "a watch of the past of nothing",
            "watch=1&resourceVersion=x&timeoutSeconds=1".to_owned(),
            &[400, 500],
        ),
        get(
            "a watch that begins and does not",
            "watch=1&sendInitialEvents=true&timeoutSeconds=1".to_owned(),
            &[422],
        ),
        get(
            "a watch beyond time",
            "watch=1&timeoutSeconds=99999999999999999999&resourceVersionMatch=Exact".to_owned(),
            &[400],
        ),
        get(
            "a table of nothing",
            "includeObject=Everything".to_owned(),
            &[200, 400],
        ),
        attack(
            "no such dry run",
            ("POST", &format!("{MAPS}?dryRun=Some")),
            JSON,
            r#"{"metadata":{"name":"a"}}"#,
            &[400, 422],
        ),
        attack(
            "no such validation",
            ("POST", &format!("{MAPS}?fieldValidation=Lax")),
            JSON,
            r#"{"metadata":{"name":"a"}}"#,
            &[422],
        ),
        attack(
            "a manager without end",
            (
                "POST",
                &format!("{MAPS}?fieldManager={}", "m".repeat(10_000)),
            ),
            JSON,
            r#"{"metadata":{"name":"a"}}"#,
            &[422],
        ),
        attack(
            "a name that is none",
            ("POST", MAPS),
            JSON,
            r#"{"metadata":{"name":"../../etc/passwd"}}"#,
            &[422],
        ),
        attack(
            "another namespace",
            ("POST", MAPS),
            JSON,
            r#"{"metadata":{"name":"a","namespace":"kube-system"}}"#,
            &[400],
        ),
    ]
}
