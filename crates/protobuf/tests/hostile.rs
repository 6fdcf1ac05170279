//! Bodies that nobody means well with: no panic, no more than linear work and memory, and what
//! is accepted can be encoded again.
//!
//! Mutations are made of the recorded bodies, from fixed seeds.

#[path = "../../../tests/random.rs"]
mod random;
mod wire;

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use outrank_protobuf::{decode, encode};
use random::Random;
use serde_json::{Value, json};
use wire::field;

const RECORDS: &[u8] = include_bytes!("../../../tests/golden/components/protobuf.jsonl.gz");

const ROUNDS: u64 = 40_000;

fn bodies() -> Vec<Vec<u8>> {
    let mut text = String::new();
    let mut records = flate2::read::GzDecoder::new(RECORDS);
    records.read_to_string(&mut text).expect("gzipped text");
    let bodies = text.lines().map(|line| {
        let record: Value = serde_json::from_str(line).expect("a record a line");
        let body = record["input"]["base64"].as_str().expect("base64");
        STANDARD.decode(body).expect("base64")
    });
    bodies.collect()
}

/// Takes out fields that are null: they are not told from absent ones when encoding.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(without_nulls),
        Value::Object(map) => {
            map.values_mut().for_each(without_nulls);
            map.retain(|_, value| !value.is_null());
        }
        _ => {}
    }
}

/// Decodes a body; if it is an object, it must survive being encoded. Returns whether it is.
fn try_out(body: &[u8], what: &str) -> bool {
    let Ok(decoded) = decode(body) else {
        return false;
    };
    let mut object = decoded.object;
    let again = encode(&object).unwrap_or_else(|error| panic!("{what}: {error}: {object}"));
    let mut again = decode(&again)
        .unwrap_or_else(|error| panic!("{what}: {error}"))
        .object;
    without_nulls(&mut object);
    without_nulls(&mut again);
    assert_eq!(object, again, "{what}");
    true
}

impl Random {
    fn mutate(&mut self, body: &mut Vec<u8>) {
        // The first bytes are always checked first, so there is little to learn from them.
        let at = 4 + self.below(body.len().saturating_sub(4));
        let end = (at + self.below(12)).min(body.len());
        let values = [0, 1, 2, 8, 10, 18, 0x7f, 0x80, 0xff];
        match self.below(6) {
            0 if at < body.len() => body[at] ^= 1 << self.below(8),
            1 if at < body.len() => body[at] = *self.pick(&values),
            2 => body.insert(at.min(body.len()), *self.pick(&values)),
            3 => body.truncate(at),
            4 => drop(body.drain(at.min(end)..end)),
            _ => {
                let copied = body[at.min(end)..end].to_vec();
                body.splice(at.min(end)..at.min(end), copied);
            }
        }
    }
}

#[test]
fn mutated_bodies_do_no_harm() {
    let bodies = bodies();
    let mut accepted = 0;
    for seed in 0..ROUNDS {
        let mut random = Random(seed);
        let mut body = random.pick(&bodies).clone();
        for _ in 0..=random.below(4) {
            random.mutate(&mut body);
        }
        accepted += usize::from(try_out(&body, &format!("seed {seed}")));
    }
    // Both outcomes are tried.
    assert!((1_000..39_000).contains(&accepted), "{accepted} accepted");
}

#[test]
fn bodies_that_end_early_do_no_harm() {
    for (index, body) in bodies().iter().enumerate() {
        for len in 0..body.len() {
            try_out(&body[..len], &format!("{len} bytes of body {index}"));
        }
    }
}

#[test]
fn random_bytes_in_an_envelope_do_no_harm() {
    let kinds = [
        ("v1", "Pod"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ];
    for seed in 0..ROUNDS / 4 {
        let mut random = Random(seed);
        let (api_version, kind) = *random.pick(&kinds);
        let len = random.below(60);
        let mut raw: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
        for byte in &mut raw {
            // Small numbers are the keys and lengths that lead on.
            if random.one_in(2) {
                *byte &= 0x1f;
            }
        }
        try_out(&enclose(api_version, kind, raw), &format!("seed {seed}"));
    }
}

fn enclose(api_version: &str, kind: &str, raw: Vec<u8>) -> Vec<u8> {
    let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &type_meta), field(2, &raw)].concat()
}

/// A definition of a custom resource with `properties` inside of each other.
fn nested_schema(depth: usize) -> Vec<u8> {
    let schema = (0..depth).fold(Vec::new(), |schema, _| {
        let entry = [field(1, b"a"), field(2, &schema)].concat();
        field(29, &entry)
    });
    let validation = field(1, &schema);
    let version = [field(1, b"v1"), field(4, &validation)].concat();
    let spec = field(7, &version);
    enclose(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        field(2, &spec),
    )
}

#[test]
fn objects_inside_of_each_other_have_a_limit() {
    assert!(try_out(&nested_schema(40), "40 schemas"));
    for depth in [60, 1_000, 20_000] {
        let error = decode(&nested_schema(depth)).unwrap_err().to_string();
        let problem = ": more than 100 lists and objects inside of each other";
        assert!(error.ends_with(problem), "{depth}: {error}");
    }
    let mut schema = json!({});
    for _ in 0..500 {
        schema = json!({ "not": schema });
    }
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "spec": { "versions": [{ "schema": { "openAPIV3Schema": schema } }] },
    });
    let error = encode(&definition).unwrap_err().to_string();
    assert!(error.contains("more than 100"), "{error}");
}

#[test]
fn a_few_bytes_do_not_become_many_values() {
    // Two bytes for a container, which has a name, an image and resources.
    let containers = |count: usize| enclose("v1", "Pod", field(2, field(2, []).repeat(count)));
    assert!(decode(&containers(1_000)).is_ok());
    let error = decode(&containers(1_500_000)).unwrap_err().to_string();
    assert!(
        error.ends_with("too many values for so few bytes"),
        "{error}"
    );
}

#[test]
fn groups_inside_of_each_other_need_no_stack() {
    let raw = vec![0x0b; 1 << 20];
    let error = decode(&enclose("v1", "Pod", raw)).unwrap_err().to_string();
    assert_eq!(error, "Pod: the bytes end within a field");
}
