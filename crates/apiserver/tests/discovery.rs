//! Discovery of the built-in types against what Kubernetes 1.36.2 answered
//! (`recorded/discovery.jsonl.gz`: commands with their requests and output), and of types that
//! are not built in.

mod recorded;

use std::sync::Arc;

use outrank_api::resource_type::ResourceType;
use outrank_apiserver::discovery::{AggregatedVersion, Discovery, Form};
use recorded::recorded;
use serde_json::{Value, json};

/// The address of the server that was recorded.
const ADDRESS: &str = "127.0.0.1:16443";

const AGGREGATED: Form = Form::Aggregated(AggregatedVersion::V2);

fn text_of(discovery: &Discovery, path: &str, form: Form) -> String {
    let document = discovery.document(path, form).unwrap();
    String::from_utf8(document.body().to_vec()).unwrap()
}

fn value_of(discovery: &Discovery, path: &str, form: Form) -> Value {
    serde_json::from_str(&text_of(discovery, path, form)).unwrap()
}

fn built_in() -> Discovery {
    Discovery::new(ResourceType::built_in(), ADDRESS)
}

/// A custom type of a group, version and plural.
fn custom(group: &str, version: &str, plural: &str) -> Arc<ResourceType> {
    let deployment = ResourceType::of_kind("apps/v1", "Deployment").unwrap();
    Arc::new(ResourceType {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: format!("Kind of {plural}"),
        plural: plural.to_owned(),
        singular: "one".to_owned(),
        short_names: Vec::new(),
        type_name: None,
        schema: None,
        ..ResourceType::clone(deployment)
    })
}

#[test]
fn plain_documents_are_those_of_kubernetes() {
    for path in [
        "/api",
        "/apis",
        "/api/v1",
        "/apis/apps",
        "/apis/apps/v1",
        "/apis/scheduling.k8s.io/v1",
        "/apis/events.k8s.io/v1",
        "/apis/coordination.k8s.io/v1",
        "/apis/policy/v1",
    ] {
        let expected = recorded(&format!("--raw '{path}'"));
        assert_eq!(text_of(&built_in(), path, Form::Plain), expected, "{path}");
    }
}

#[test]
fn aggregated_documents_are_those_of_kubernetes() {
    for path in ["/api", "/apis"] {
        let own = value_of(&built_in(), path, AGGREGATED);
        // It was recorded with indentation, for curl.
        let own = serde_json::to_string_pretty(&own).unwrap();
        let expected: Value = serde_json::from_str(&recorded(&format!(":18080{path}"))).unwrap();
        assert_eq!(
            own,
            serde_json::to_string_pretty(&expected).unwrap(),
            "{path}"
        );
    }
}

#[test]
fn both_versions_of_the_aggregated_form_tell_the_same() {
    let discovery = built_in();
    let v2 = text_of(&discovery, "/apis", AGGREGATED);
    let form = Form::Aggregated(AggregatedVersion::V2Beta1);
    let beta = text_of(&discovery, "/apis", form);
    assert_eq!(v2.replacen("/v2\"", "/v2beta1\"", 1), beta);
    let documents = [AGGREGATED, form].map(|it| discovery.document("/apis", it).unwrap());
    assert_ne!(documents[0].etag(), documents[1].etag());
}

#[test]
fn the_version_has_the_fields_of_kubernetes_and_counts_as_1_36() {
    let own = value_of(&built_in(), "/version", Form::Plain);
    let expected: Value = serde_json::from_str(&recorded("--raw '/version'")).unwrap();
    let fields =
        |version: &Value| -> Vec<String> { version.as_object().unwrap().keys().cloned().collect() };
    assert_eq!(fields(&own), fields(&expected));
    for same in ["major", "minor", "emulationMinor", "minCompatibilityMinor"] {
        assert_eq!(own[same], expected[same], "{same}");
    }
    let git_version = own["gitVersion"].as_str().unwrap();
    assert!(git_version.starts_with("v1.36.2+outrank-"), "{git_version}");
}

#[test]
fn the_root_names_what_kubernetes_names_of_groups() {
    let own = value_of(&built_in(), "/", Form::Plain);
    let expected: Value = serde_json::from_str(&recorded("--raw '/'")).unwrap();
    let of_groups = |paths: &Value| -> Vec<String> {
        let paths = paths["paths"].as_array().unwrap().iter();
        let paths = paths.map(|path| path.as_str().unwrap().to_owned());
        paths.filter(|path| path.starts_with("/api")).collect()
    };
    assert_eq!(of_groups(&own), of_groups(&expected));
}

#[test]
fn custom_types_stand_behind_those_of_kubernetes() {
    let mut types = vec![
        custom("zoo.example.com", "v1", "lions"),
        custom("apples.example.com", "v1beta1", "apples"),
        custom("apples.example.com", "v1", "apples"),
    ];
    types.extend(ResourceType::built_in().iter().cloned());
    types.push(custom("apples.example.com", "v2", "pears"));
    let discovery = Discovery::new(&types, ADDRESS);

    let groups = value_of(&discovery, "/apis", Form::Plain)["groups"].clone();
    let names = groups
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap());
    let names: Vec<&str> = names.collect();
    assert_eq!(names[0], "apiregistration.k8s.io");
    let last = [
        "flowcontrol.apiserver.k8s.io",
        "apples.example.com",
        "zoo.example.com",
    ];
    assert_eq!(names[names.len() - 3..], last);
    let apples = value_of(&discovery, "/apis/apples.example.com", Form::Plain);
    assert_eq!(
        apples,
        json!({
            "kind": "APIGroup",
            "apiVersion": "v1",
            "name": "apples.example.com",
            "versions": [
                {"groupVersion": "apples.example.com/v2", "version": "v2"},
                {"groupVersion": "apples.example.com/v1", "version": "v1"},
                {"groupVersion": "apples.example.com/v1beta1", "version": "v1beta1"},
            ],
            "preferredVersion": {"groupVersion": "apples.example.com/v2", "version": "v2"},
        })
    );
    // By which of two versions objects are stored is not known here.
    let resources = value_of(&discovery, "/apis/apples.example.com/v1", Form::Plain);
    assert_eq!(resources["resources"][0].get("storageVersionHash"), None);
    let resources = value_of(&discovery, "/apis/zoo.example.com/v1", Form::Plain);
    let hash = resources["resources"][0]["storageVersionHash"]
        .as_str()
        .unwrap();
    assert_eq!(hash.len(), 12);
    assert_eq!(resources["resources"][1]["name"], "lions/scale");
}

#[test]
fn the_tag_changes_with_the_types_alone() {
    let tag_of = |types: &[Arc<ResourceType>]| {
        let discovery = Discovery::new(types, ADDRESS);
        discovery.document("/apis", AGGREGATED).unwrap().etag()
    };
    let mut types = ResourceType::built_in().to_vec();
    let before = tag_of(&types);
    assert_eq!(before, tag_of(&types));
    types.push(custom("zoo.example.com", "v1", "lions"));
    assert_ne!(before, tag_of(&types));
}

#[test]
fn what_is_not_served_is_not_there() {
    let discovery = built_in();
    for path in [
        "",
        "api",
        "//",
        "/apis//v1",
        "/apis//",
        "/api/",
        "/apis/apps/v2",
        "/apis/apps/v1/pods",
        "/api/v2",
        "/apis/v1",
        "/nosuch",
        "/apis/nosuch",
        "/version/x",
        "/api/v1/pods",
    ] {
        let is_there = discovery.document(path, Form::Plain).is_some();
        // A slash at the end changes nothing.
        assert_eq!(is_there, path == "/api/", "{path}");
    }
    let nothing = Discovery::new(&[], ADDRESS);
    assert_eq!(
        value_of(&nothing, "/api", Form::Plain)["versions"],
        json!([])
    );
    assert_eq!(value_of(&nothing, "/apis", AGGREGATED)["items"], json!([]));
}
