use outrank_api::decode::load;
use outrank_api::resource_type::ResourceType;
use outrank_api::validation;
use outrank_rehearse::run::RunOptions;
use outrank_rehearse::scenario::{Changes, Scenario};

use super::*;

/// A cluster with objects of every kind, whose every name of people's own has `acme` in it.
const CLUSTER: &str = include_str!("tests.yaml");

fn cluster() -> Vec<Value> {
    let mut objects = outrank_api::document::values(CLUSTER.as_bytes()).expect("documents");
    let position = |kind: &str, objects: &[Value]| {
        let mut objects = objects.iter();
        objects
            .position(|it| text(it, "/kind") == kind)
            .expect(kind)
    };
    let deployment = position("Deployment", &objects);
    let spec = objects[deployment]["spec"]["template"]["spec"].clone();
    let replica_set = position("ReplicaSet", &objects);
    objects[replica_set]["spec"]["template"]["spec"] = spec;
    objects
}

fn text_of(objects: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string()
}

fn anonymized() -> Vec<Value> {
    let mut objects = cluster();
    anonymize(&mut objects);
    objects
}

#[test]
fn nothing_tells_a_name() {
    let text = text_of(&anonymized());
    if let Some(at) = text.find("acme") {
        panic!("{}", &text[at.saturating_sub(300)..at + 40]);
    }
    for told in ["203.0.113", "2001:db8", "198.51.100", "hunter2"] {
        assert!(!text.contains(told), "{told}");
    }
}

#[test]
fn all_is_as_valid_as_it_was() {
    let mut warnings = Vec::new();
    for objects in [cluster(), anonymized()] {
        let loaded = load([("cluster.json", text_of(&objects).as_bytes())]);
        assert_eq!(loaded.errors, []);
        let found = loaded.warnings.iter().map(ToString::to_string);
        warnings.push(found.collect::<Vec<_>>());
        // Those that no rehearsal reads are validated, too.
        for object in &objects {
            let (version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
            if outrank_api::decode::ObjectKind::find(version, kind).is_some() {
                continue;
            }
            let mut types = ResourceType::built_in().iter();
            let resource = types.find(|it| it.api_version() == version && it.kind == kind);
            let resource = resource.unwrap_or_else(|| panic!("{version} {kind}"));
            let mut object = object.clone();
            outrank_api::defaults::fill_in(resource, &mut object);
            let errors = validation::errors(resource, &object);
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(errors, [""; 0], "{object}");
        }
    }
    // Of volumes that no longer work, and of nothing else.
    assert!(
        warnings[0]
            .iter()
            .all(|it| it.contains(": deprecated in v1"))
    );
    assert_eq!(warnings[0], warnings[1]);
}

#[test]
fn every_kind_that_decisions_read_is_there() {
    let objects = cluster();
    for kind in outrank_api::decode::ObjectKind::ALL {
        let is_there = objects.iter().any(|it| text(it, "/kind") == kind.name());
        assert!(is_there, "{kind:?}");
    }
}

#[test]
fn a_rehearsal_comes_out_the_same() {
    let outcome = |objects: &[Value]| {
        let loaded = load([("cluster.json", text_of(objects).as_bytes())]);
        let scenario = Scenario::new(loaded.objects, Changes::default()).expect("a scenario");
        let report = outrank_rehearse::run(&scenario, &RunOptions::default(), &mut |_, _| {});
        report.expect("a report")
    };
    let (plain, other) = (outcome(&cluster()), outcome(&anonymized()));
    assert_eq!(plain.summary, other.summary);
    assert!(plain.summary.placed > 3, "{:?}", plain.summary);
    let per_node = |report: &outrank_rehearse::report::Report| {
        let nodes = report.nodes.iter();
        nodes.map(|it| it.placed).collect::<Vec<_>>()
    };
    assert_eq!(per_node(&plain), per_node(&other));
    // What controllers made is still theirs: nothing is deleted, and nothing made twice.
    assert_eq!((plain.deleted.len(), other.deleted.len()), (0, 0));
}

#[test]
fn the_form_of_a_text_stays() {
    let mut names = Pseudonyms::default();
    let mut forms = |texts: &[&str]| {
        let forms = texts.iter().map(|it| names.text(it));
        forms.collect::<Vec<_>>()
    };
    let texts = [
        "203.0.113.7",
        "2001:db8::7",
        "0.0.0.0",
        "203.0.113.0/24",
        "/srv/acme",
    ];
    let expected = ["10.0.0.1", "fd00::2", "0.0.0.0", "10.0.3.0/24", "/n-000001"];
    assert_eq!(forms(&texts), expected);
    let texts = [
        "*.acme.example",
        "https://acme.example/x",
        "acme:6789",
        "web-",
        "50%",
        "8",
    ];
    let expected = [
        "*.n-000002",
        "https://n-000003/",
        "n-000004:6789",
        "n-000005-",
        "50%",
        "8",
    ];
    assert_eq!(forms(&texts), expected);
    let texts = ["acme.example/ready", "kubernetes.io/tls"];
    let expected = ["example.com/n-000006", "kubernetes.io/tls"];
    // Whenever it comes.
    assert_eq!(forms(&texts), expected);
    assert_eq!(forms(&texts), expected);
}
