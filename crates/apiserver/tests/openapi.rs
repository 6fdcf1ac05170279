//! OpenAPI documents hang together: references lead somewhere, what is served is described, and
//! what clients look for is where they look.

use std::collections::BTreeSet;
use std::sync::Arc;

use outrank_api::resource_type::ResourceType;
use outrank_apiserver::openapi::{CustomSchema, OpenApi};
use serde_json::{Value, json};

fn built_in() -> OpenApi {
    OpenApi::new(ResourceType::built_in(), Vec::new())
}

fn document(openapi: &OpenApi, path: &str) -> Value {
    serde_json::from_slice(openapi.document(path).unwrap().body()).unwrap()
}

fn path_of(it: &ResourceType) -> String {
    match it.group.as_str() {
        "" => format!("api/{}", it.version),
        group => format!("apis/{group}/{}", it.version),
    }
}

/// All documents by path.
fn documents(openapi: &OpenApi) -> Vec<(String, Value)> {
    let index: Value = serde_json::from_slice(openapi.index().body()).unwrap();
    let paths = index["paths"].as_object().unwrap().keys();
    paths
        .map(|path| (path.clone(), document(openapi, path)))
        .collect()
}

fn references<'v>(value: &'v Value, found: &mut BTreeSet<&'v str>) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get("$ref") {
                found.insert(reference);
            }
            map.values().for_each(|value| references(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

fn kind_of(it: &ResourceType) -> Value {
    json!({ "group": it.group, "kind": it.kind, "version": it.version })
}

/// A custom type `trainings.batch.example.com`.
fn trainings() -> Arc<ResourceType> {
    Arc::new(ResourceType {
        group: "batch.example.com".to_owned(),
        version: "v1".to_owned(),
        kind: "Training".to_owned(),
        plural: "trainings".to_owned(),
        singular: "training".to_owned(),
        short_names: Vec::new(),
        categories: Vec::new(),
        is_namespaced: true,
        verbs: ["create", "delete", "get", "list", "patch", "update"]
            .map(str::to_owned)
            .to_vec(),
        subresources: vec!["status".to_owned(), "scale".to_owned()],
        type_name: None,
        schema: None,
    })
}

#[test]
fn every_reference_leads_to_a_schema() {
    let openapi = OpenApi::new(&with_trainings(), Vec::new());
    for (path, document) in documents(&openapi) {
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        for reference in &found {
            let name = reference.strip_prefix("#/components/schemas/").unwrap();
            assert!(schemas.contains_key(name), "{path}: {name}");
        }
        // And every schema but these is referred to: documents are no larger than they must be.
        for name in schemas.keys() {
            let reference = format!("#/components/schemas/{name}");
            let last = name.rsplit('.').next().unwrap();
            let may_be_alone = ["DeleteOptions", "ListMeta", "ObjectMeta", "Status"];
            let is_used = found.contains(reference.as_str()) || may_be_alone.contains(&last);
            assert!(is_used, "{path}: {name}");
        }
    }
}

fn with_trainings() -> Vec<Arc<ResourceType>> {
    let mut types = ResourceType::built_in().to_vec();
    types.push(trainings());
    types
}

#[test]
fn every_kind_has_one_schema_and_its_operations() {
    let openapi = built_in();
    for it in ResourceType::built_in() {
        let document = document(&openapi, &path_of(it));
        let mut schemas = document["components"]["schemas"]
            .as_object()
            .unwrap()
            .iter();
        let kind = kind_of(it);
        let (name, _) = schemas
            .find(|(_, schema)| {
                let kinds = schema["x-kubernetes-group-version-kind"].as_array();
                kinds.is_some_and(|kinds| kinds.contains(&kind))
            })
            .unwrap_or_else(|| panic!("{}", it.kind));
        assert!(name.ends_with(&format!(".{}", it.kind)), "{name}");

        let paths = document["paths"].as_object().unwrap();
        let methods = |path: &str| paths.get(path).cloned().unwrap_or_default();
        let base = format!("/{}", path_of(it));
        let namespace = if it.is_namespaced {
            "/namespaces/{namespace}"
        } else {
            ""
        };
        let collection = methods(&format!("{base}{namespace}/{}", it.plural));
        let object = methods(&format!("{base}{namespace}/{}/{{name}}", it.plural));
        for (verb, operation) in [
            ("list", &collection["get"]),
            ("create", &collection["post"]),
            ("deletecollection", &collection["delete"]),
            ("get", &object["get"]),
            ("update", &object["put"]),
            ("patch", &object["patch"]),
            ("delete", &object["delete"]),
        ] {
            assert_eq!(
                operation.is_object(),
                it.has_verb(verb),
                "{} {verb}",
                it.kind
            );
            if it.has_verb(verb) {
                assert_eq!(operation["x-kubernetes-group-version-kind"], kind, "{verb}");
            }
        }
    }
}

#[test]
fn writes_take_what_kubectl_looks_for() {
    for (path, document) in documents(&built_in()) {
        let mut identifiers = BTreeSet::new();
        for (url, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                if method == "parameters" || url.ends_with('/') {
                    continue;
                }
                let identifier = operation["operationId"].as_str().unwrap();
                assert!(
                    identifiers.insert(identifier.to_owned()),
                    "{path}: {identifier}"
                );
                let parameters = operation["parameters"].as_array().into_iter().flatten();
                let names: Vec<&str> = parameters.map(|it| it["name"].as_str().unwrap()).collect();
                let is_connection = operation["x-kubernetes-action"] == "connect";
                let is_write = matches!(method.as_str(), "post" | "put" | "patch");
                let expected = is_write && !is_connection;
                assert_eq!(
                    names.contains(&"fieldValidation"),
                    expected,
                    "{method} {url}"
                );
                let expected = expected || (method == "delete" && !is_connection);
                assert_eq!(names.contains(&"dryRun"), expected, "{method} {url}");
            }
        }
    }
}

#[test]
fn fields_say_how_they_are_merged() {
    let core = document(&built_in(), "api/v1");
    let schemas = &core["components"]["schemas"];
    let properties = |name: &str| &schemas[format!("io.k8s.api.core.v1.{name}")]["properties"];
    let containers = &properties("PodSpec")["containers"];
    assert_eq!(containers["x-kubernetes-patch-strategy"], "merge");
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(containers["x-kubernetes-list-type"], "map");
    assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
    assert_eq!(
        containers["items"]["$ref"],
        "#/components/schemas/io.k8s.api.core.v1.Container"
    );
    let volumes = &properties("PodSpec")["volumes"];
    assert_eq!(volumes["x-kubernetes-patch-strategy"], "merge,retainKeys");
    assert_eq!(
        properties("PodSpec")["nodeSelector"]["x-kubernetes-map-type"],
        "atomic"
    );
    assert_eq!(
        schemas["io.k8s.api.core.v1.NodeSelector"]["x-kubernetes-map-type"],
        "atomic"
    );
    assert_eq!(
        schemas["io.k8s.api.core.v1.Container"]["required"],
        json!(["name"])
    );
    let limits = &properties("ResourceRequirements")["limits"]["additionalProperties"];
    let quantity = "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity";
    assert_eq!(limits["$ref"], quantity);
    let effect = &properties("Taint")["effect"];
    assert_eq!(
        effect["enum"],
        json!(["NoSchedule", "PreferNoSchedule", "NoExecute"])
    );
    let modes = &properties("PersistentVolumeClaimSpec")["accessModes"];
    assert_eq!(modes["items"]["enum"][0], "ReadWriteOnce");
    let meta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    let finalizers = &schemas[meta]["properties"]["finalizers"];
    assert_eq!(finalizers["x-kubernetes-list-type"], "set");
    // A reference with a description stands in an `allOf`, or the description would not count.
    let metadata = &properties("Pod")["metadata"];
    assert_eq!(
        metadata["allOf"][0]["$ref"],
        format!("#/components/schemas/{meta}")
    );
    assert!(metadata["description"].as_str().unwrap().contains("Name"));
}

#[test]
fn schemas_of_custom_resources_go_in_as_they_are() {
    let schema = json!({
        "type": "object",
        "required": ["spec"],
        "properties": { "spec": {
            "type": "object",
            "description": "What is trained.",
            "properties": { "epochs": { "type": "integer", "minimum": 1 } },
            "x-kubernetes-validations": [{ "rule": "self.epochs < 1000" }],
        } },
    });
    let custom = CustomSchema {
        group: "batch.example.com".to_owned(),
        version: "v1".to_owned(),
        kind: "Training".to_owned(),
        schema: schema.clone(),
    };
    let openapi = OpenApi::new(&with_trainings(), vec![custom.clone()]);
    let path = "apis/batch.example.com/v1";
    let own = document(&openapi, path);
    let schemas = &own["components"]["schemas"];
    let training = &schemas["com.example.batch.v1.Training"];
    assert_eq!(training["properties"]["spec"], schema["properties"]["spec"]);
    assert_eq!(training["required"], schema["required"]);
    assert_eq!(
        training["x-kubernetes-group-version-kind"],
        json!([kind_of(&trainings())])
    );
    assert!(training["properties"]["metadata"]["allOf"][0]["$ref"].is_string());
    assert!(schemas["com.example.batch.v1.TrainingList"].is_object());
    assert!(schemas["io.k8s.api.autoscaling.v1.Scale"].is_object());
    let url = "/apis/batch.example.com/v1/namespaces/{namespace}/trainings/{name}";
    let patch = own["paths"][url]["patch"]["requestBody"]["content"]
        .as_object()
        .unwrap();
    assert!(patch.contains_key("application/merge-patch+json"));
    assert!(!patch.contains_key("application/strategic-merge-patch+json"));

    // The hash tells that something has changed, and of this document alone.
    let without = OpenApi::new(&with_trainings(), Vec::new());
    let hash = |openapi: &OpenApi, path| openapi.document(path).unwrap().hash().to_owned();
    assert_ne!(hash(&openapi, path), hash(&without, path));
    assert_eq!(hash(&openapi, "api/v1"), hash(&without, "api/v1"));
    assert_ne!(openapi.index().hash(), without.index().hash());
}

#[test]
fn odd_schemas_of_custom_resources_do_no_harm() {
    let odd = [
        json!(null),
        json!("x"),
        json!([1]),
        json!({ "properties": 1 }),
        json!({ "properties": null, "type": ["a"] }),
        json!({ "properties": { "metadata": 3, "kind": [] } }),
    ];
    for schema in odd {
        let custom = CustomSchema {
            group: "batch.example.com".to_owned(),
            version: "v1".to_owned(),
            kind: "Training".to_owned(),
            schema,
        };
        let openapi = OpenApi::new(&with_trainings(), vec![custom]);
        let own = document(&openapi, "apis/batch.example.com/v1");
        let training = &own["components"]["schemas"]["com.example.batch.v1.Training"];
        assert_eq!(training["type"], "object");
        assert_eq!(training["properties"]["kind"]["type"], "string");
    }
}

#[test]
fn the_index_names_each_document_with_its_hash() {
    let openapi = built_in();
    let index: Value = serde_json::from_slice(openapi.index().body()).unwrap();
    let paths = index["paths"].as_object().unwrap();
    let groups: BTreeSet<String> = ResourceType::built_in()
        .iter()
        .map(|it| path_of(it))
        .collect();
    assert_eq!(paths.keys().cloned().collect::<BTreeSet<String>>(), groups);
    for (path, entry) in paths {
        let hash = openapi.document(path).unwrap().hash();
        assert_eq!(
            entry["serverRelativeURL"],
            format!("/openapi/v3/{path}?hash={hash}")
        );
    }
    for path in [
        "",
        "api",
        "api/v1/",
        "apis/apps",
        "/api/v1",
        "apis/nosuch/v1",
    ] {
        assert!(openapi.document(path).is_none(), "{path}");
    }
}

#[test]
fn all_of_it_is_small() {
    let openapi = built_in();
    let start = std::time::Instant::now();
    openapi.index();
    let time = start.elapsed();
    let (mut plain, mut compressed) = (0, 0);
    let groups: BTreeSet<String> = ResourceType::built_in()
        .iter()
        .map(|it| path_of(it))
        .collect();
    for path in &groups {
        let document = openapi.document(path).unwrap();
        plain += document.body().len();
        compressed += document.gzip().len();
    }
    println!(
        "{} documents, {plain} bytes, {compressed} compressed, {time:?}",
        groups.len()
    );
    assert!(plain < 4_000_000, "{plain}");
    assert!(compressed < 500_000, "{compressed}");
}
