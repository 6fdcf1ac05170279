//! Broken and hostile inputs: nothing panics, and what is kept grows no faster than the
//! input. Every test runs from fixed seeds.

#[path = "../../../tests/random.rs"]
mod random;

use std::io::Write;

use outrank_api::decode::{self, Loaded};
use outrank_api::document::{self, ALIAS_BYTES_BASE, DEPTH_MAX, Document, DuplicateKey, Receiver};
use serde_json::Value;

use random::Random;

fn load(bytes: &[u8]) -> Loaded {
    decode::load([("fuzz", bytes)])
}

/// Loads and looks at everything that comes out.
fn survive(bytes: &[u8]) -> Loaded {
    let loaded = load(bytes);
    for diagnostic in loaded.warnings.iter().chain(&loaded.errors) {
        let line = diagnostic.to_string();
        assert!(!line.contains('\n'), "{line}");
        assert!(line.len() < 10_000, "{} bytes", line.len());
    }
    let most = 2 * (decode::FINDINGS_PER_FILE_MAX + 2);
    assert!(loaded.warnings.len() + loaded.errors.len() <= most);
    loaded
}

/// Counts the values and bytes that documents hold.
#[derive(Default)]
struct Weigh {
    bytes: usize,
}

fn weight(value: &Value) -> usize {
    32 + match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(weight).sum(),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| key.len() + weight(value))
            .sum(),
        _ => 0,
    }
}

impl Receiver for Weigh {
    fn document(&mut self, document: Document) {
        self.bytes += weight(&document.value);
    }

    fn duplicate_key(&mut self, duplicate: DuplicateKey) {
        self.bytes += duplicate.key.len();
    }
}

/// Everything that a text becomes must be at most this: its own size by a constant, and
/// what aliases may add.
#[track_caller]
fn assert_linear(text: &str) {
    let mut weigh = Weigh::default();
    // Whether the text is right is not the question here.
    let _ = document::read(text, &mut weigh);
    let allowed = 64 * text.len() + 2 * (ALIAS_BYTES_BASE + text.len()) + 1024;
    assert!(
        weigh.bytes <= allowed,
        "{} bytes of text became {}",
        text.len(),
        weigh.bytes
    );
}

const MANIFESTS: [&str; 3] = [
    "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  labels: &l {app: web, \"tier\": \
    'front'}\n\
     spec:\n  nodeSelector:\n    <<: *l\n  containers:\n  - name: app\n    image: nginx:1\n    \
     resources:\n      requests: {cpu: 500m, memory: 1Gi}\n      limits:\n        cpu: 1\n    \
     ports:\n    \
     - containerPort: 80 # http\n  tolerations:\n  - key: a\n    operator: Exists\n---\n\
     apiVersion: v1\n\
     kind: Node\nmetadata: {name: n1}\nspec:\n  taints:\n  - {key: k, effect: NoSchedule}\n\
     status:\n  \
     allocatable: {cpu: \"4\", pods: 110}\n",
    "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[{\"apiVersion\":\"apps/v1\",\"kind\":\"D\
    eployment\",\
     \"metadata\":{\"name\":\"d\",\"managedFields\":[{}]},\"spec\":{\"replicas\":3,\"selector\":\
     {\"matchLabels\":\
     {\"a\":\"b\"}},\"template\":{\"metadata\":{\"labels\":{\"a\":\"b\"}},\"spec\":{\"container\
     s\":[{\"name\":\"c\",\
     \"image\":\"i\",\"resources\":{\"limits\":{\"cpu\":0.5,\"memory\":\"1e3\"}}}]}}}},null,7]}",
    "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata:\n  name: high\nvalue: 1000\n\
     description: >-\n  folded\n  text\npreemptionPolicy: !!str Never\n---\n\
     apiVersion: batch/v1\nkind: CronJob\n\
     metadata: {name: c}\nspec:\n  schedule: '* * * * *'\n  jobTemplate:\n    spec:\n      \
     template:\n        \
     spec:\n          restartPolicy: Never\n          containers: [{name: c, image: i}]\n",
];

#[test]
fn the_manifests_themselves_are_fine() {
    for manifest in MANIFESTS {
        let loaded = survive(manifest.as_bytes());
        let errors: Vec<String> = loaded.errors.iter().map(ToString::to_string).collect();
        assert!(
            errors.iter().all(|error| error.contains("found text")),
            "{errors:?}"
        );
        assert!(!loaded.objects.is_empty());
    }
}

#[test]
fn random_bytes() {
    let mut random = Random(1);
    for _ in 0..2_000 {
        let length = random.below(200);
        let bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        survive(&bytes);
    }
}

#[test]
fn random_texts_of_yaml_and_json_signs() {
    const SIGNS: &[u8] = b"{}[]:,-?&*!|>'\"%@`#\\ \t\n\r.~<=0123456789eEaxnyNY_+";
    let mut random = Random(2);
    for _ in 0..5_000 {
        let length = random.below(120);
        let mut bytes: Vec<u8> = Vec::with_capacity(length);
        for _ in 0..length {
            bytes.push(SIGNS[random.below(SIGNS.len())]);
        }
        survive(&bytes);
        assert_linear(&String::from_utf8(bytes).expect("ASCII"));
    }
}

#[test]
fn mutated_manifests() {
    const PIECES: [&[u8]; 16] = [
        b"\n",
        b"\t",
        b"  ",
        b"- ",
        b": ",
        b"null",
        b"-1",
        b"99999999999999999999",
        b"1e999",
        b"{",
        b"]",
        b"&l ",
        b"*l",
        b"<<: ",
        b"\xff",
        b"\0",
    ];
    let mut random = Random(3);
    for round in 0..6_000 {
        let mut bytes = MANIFESTS[round % MANIFESTS.len()].as_bytes().to_vec();
        for _ in 0..1 + random.below(4) {
            let at = random.below(bytes.len());
            match random.below(4) {
                _ if bytes.is_empty() => break,
                0 => {
                    bytes.remove(at);
                }
                1 => bytes.truncate(at.max(1)),
                2 => {
                    let piece = PIECES[random.below(PIECES.len())];
                    bytes.splice(at..at, piece.iter().copied());
                }
                _ => {
                    let end = (at + random.below(40)).min(bytes.len());
                    let copy = bytes[at..end].to_vec();
                    let to = random.below(bytes.len());
                    bytes.splice(to..to, copy);
                }
            }
        }
        survive(&bytes);
    }
}

/// Every value of the manifests replaced by every kind of value.
#[test]
fn wrong_values_everywhere() {
    let wrong = [
        Value::Null,
        Value::Bool(true),
        (-1).into(),
        u64::MAX.into(),
        1.5.into(),
        "".into(),
        "x y".into(),
        Value::Array(vec![Value::Null]),
        serde_json::json!({"a": {}}),
    ];
    fn paths(value: &Value, path: &str, all: &mut Vec<String>) {
        all.push(path.to_owned());
        match value {
            Value::Array(values) => {
                for (index, value) in values.iter().enumerate() {
                    paths(value, &format!("{path}/{index}"), all);
                }
            }
            Value::Object(map) => {
                for (key, value) in map {
                    paths(value, &format!("{path}/{}", key.replace('/', "~1")), all);
                }
            }
            _ => {}
        }
    }
    for manifest in MANIFESTS {
        struct Collect(Vec<Value>);
        impl Receiver for Collect {
            fn document(&mut self, document: Document) {
                self.0.push(document.value);
            }
            fn duplicate_key(&mut self, _: DuplicateKey) {}
        }
        let mut documents = Collect(Vec::new());
        document::read(manifest, &mut documents).expect("a good manifest");
        for document in documents.0 {
            let mut all = Vec::new();
            paths(&document, "", &mut all);
            for path in all {
                for wrong in &wrong {
                    let mut changed = document.clone();
                    *changed.pointer_mut(&path).expect("a path of it") = wrong.clone();
                    survive(changed.to_string().as_bytes());
                    // Refusing is fine, panicking is not.
                    let _ = decode::decode_value(&changed);
                }
            }
        }
    }
}

#[test]
fn alias_bombs_are_refused() {
    let mut laughs = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for level in 1..20 {
        let below = format!("*a{}, ", level - 1).repeat(9);
        laughs += &format!("a{level}: &a{level} [{below}]\n");
    }
    let long = format!(
        "a: &a \"{}\"\nb: [{}]\n",
        "x".repeat(1 << 20),
        "*a, ".repeat(10_000)
    );
    let mut merges = "a0: &a0 {x: 1, y: 2}\n".to_owned();
    for level in 1..40 {
        let below = level - 1;
        merges += &format!(
            "a{level}: &a{level} {{p{level}: *a{below}, q{level}: *a{below}, <<: *a{below}}}\n"
        );
    }
    let nested = format!("{}x{}\n", "&a [&b [".repeat(50), "]]".repeat(50));
    for bomb in [&laughs, &long, &merges] {
        let loaded = survive(bomb.as_bytes());
        let error = loaded.errors[0].to_string();
        assert!(
            error.ends_with("aliases repeat too much; write the values out"),
            "{error}"
        );
        assert_linear(bomb);
    }
    assert_linear(&nested);
    let own = survive(b"a: &a [*a]\n");
    assert!(
        own.errors[0].to_string().contains("alias"),
        "{}",
        own.errors[0]
    );
    survive(b"a: *nothing\n");
}

#[test]
fn deep_nesting_is_refused() {
    let n = 10_000;
    let texts = [
        "[".repeat(n),
        "{\"a\":".repeat(n),
        "{a: ".repeat(n),
        "- ".repeat(n),
        format!("{{\"items\":[{}", "[".repeat(n)),
        format!(
            "{{\"kind\":\"List\",\"items\":[{}",
            "{\"items\":[".repeat(n)
        ),
        (0..2_000)
            .map(|depth| format!("{}a:\n", " ".repeat(depth)))
            .collect(),
        "[".repeat(n) + &"]".repeat(n),
        "? ".repeat(n),
    ];
    for text in &texts {
        let loaded = survive(text.as_bytes());
        assert!(!loaded.errors.is_empty(), "{}", &text[..20]);
        assert_linear(text);
    }
    let fine = DEPTH_MAX - 2;
    let annotation = format!("{}{}", "[".repeat(fine), "]".repeat(fine));
    for text in [
        format!("apiVersion: v1\nkind: X\nx: {annotation}\n"),
        format!("{{\"apiVersion\":\"v1\",\"kind\":\"X\",\"x\":{annotation}}}"),
    ] {
        assert!(load(text.as_bytes()).errors.is_empty());
    }
}

#[test]
fn ten_megabytes_in_one_line() {
    let size = 10 << 20;
    let texts = [
        "x".repeat(size),
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: \"{}\"}}",
            "x".repeat(size)
        ),
        format!(
            "{{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"{}\":1}}",
            "y".repeat(size)
        ),
        format!("[{}]", "1,".repeat(size / 16)),
        format!("a: {}", " ".repeat(size)),
        format!("# {}", "c".repeat(size)),
        format!("\"{}", "\\n".repeat(size / 2)),
        format!("{{{}}}", "a: 1, ".repeat(size / 48)),
    ];
    for text in &texts {
        survive(text.as_bytes());
        assert_linear(text);
    }
}

#[test]
fn numbers_out_of_range() {
    let numbers = [
        "99999999999999999999",
        "-99999999999999999999",
        "1e400",
        "-1e400",
        "1e-400",
        "0x1ffffffffffffffff",
        "9223372036854775808",
        "2147483648",
        "-2147483649",
        "1.0e18",
        "00000000000000000000000000001",
        "123456789012345678901234567890.5",
        "1_0_0",
        "-",
        "+",
        "-0",
        "0b",
        "0x",
        "0o8",
        "._",
        "1.e",
        ".e1",
    ];
    let fields = [
        "spec: {priority: N}",
        "spec: {terminationGracePeriodSeconds: N}",
        "spec: {overhead: {cpu: N}}",
        "metadata: {creationTimestamp: N}",
        "spec: {containers: [{ports: [{containerPort: N}]}]}",
        "status: {containerStatuses: [{restartCount: N}]}",
        "spec: N",
        "N: N",
        "- N",
    ];
    for number in numbers {
        for field in fields {
            let text = format!(
                "apiVersion: v1\nkind: Pod\n{}\n",
                field.replace('N', number)
            );
            survive(text.as_bytes());
            let json = format!(
                "{{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"spec\":{{\"priority\":{number}}}}}"
            );
            survive(json.as_bytes());
        }
    }
}

#[test]
fn gzip_bombs_are_refused() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let zeros = vec![b' '; 1 << 20];
    for _ in 0..120 {
        gzip.write_all(&zeros).expect("writable");
    }
    let bytes = gzip.finish().expect("finished");
    let loaded = survive(&bytes);
    let error = loaded.errors[0].to_string();
    assert!(error.contains("gzip file holds more than"), "{error}");
    for end in [1, 2, 5, 9, 10, 20, bytes.len() / 2] {
        survive(&bytes[..end.min(bytes.len())]);
    }
}

/// Many things of every sort, each of which a quadratic step would make endless.
#[test]
fn many_of_everything() {
    let n = 20_000;
    let lines = |line: &dyn Fn(usize) -> String| (0..n).map(line).collect::<String>();
    let texts = [
        lines(&|k| format!("k{k}: {k}\n")),
        "a: 1\n".repeat(n),
        lines(&|k| format!("- &a{k} {k}\n- *a{k}\n")),
        "---\n".repeat(n),
        "---\na: 1\n".repeat(n),
        "# comment\n".repeat(n),
        "%TAG ! x\n---\n".repeat(n),
        "- - - -\n".repeat(n),
        format!(
            "apiVersion: v1\nkind: Pod\nspec:\n{}",
            lines(&|k| format!("  k{k}: {k}\n"))
        ),
        format!(
            "apiVersion: v1\nkind: Pod\nspec:\n  tolerations:\n{}",
            "  - {key: A B, effect: x}\n".repeat(n)
        ),
        format!(
            "{{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[{}1]}}",
            "{\"kind\":\"Pod\"},".repeat(n)
        ),
        "{}".repeat(n),
        "{\"a\":1,\"a\":1}".repeat(n),
        "? a\n".repeat(n),
        "\"\n\n\"\n".repeat(n),
        "a: |\n".repeat(n),
    ];
    for text in &texts {
        survive(text.as_bytes());
        assert_linear(text);
    }
}
