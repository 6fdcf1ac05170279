//! The default configuration and the schema say what the reader does.

use outrank_config::{ConfigError, Configuration, default_document, json_schema, read};
use serde_json::{Value, json};

fn accepted(document: &Value) -> Configuration {
    read(document).unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn empty() -> Value {
    json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"})
}

#[test]
fn the_default_document_means_what_an_empty_one_means() {
    let (default, empty) = (accepted(&default_document()), accepted(&empty()));
    assert_eq!(default.engine.profiles, empty.engine.profiles);
    assert_eq!(default.profiles, empty.profiles);
    let seconds = |config: &Configuration| {
        let backoff = config.engine.backoff;
        (backoff.initial_seconds, backoff.maximum_seconds)
    };
    assert_eq!(seconds(&default), seconds(&empty));
    assert_eq!(default.warnings, []);
}

/// kube-scheduler writes its configuration with all extension points, most of them empty.
#[test]
fn what_kube_scheduler_writes_is_read() {
    let mut document = default_document();
    document["percentageOfNodesToScore"] = 0.into();
    document["extenders"] = Value::Null;
    let profile = &mut document["profiles"][0];
    for point in [
        "bind",
        "filter",
        "permit",
        "postBind",
        "postFilter",
        "preBind",
        "preEnqueue",
        "preFilter",
        "preScore",
        "queueSort",
        "reserve",
        "score",
    ] {
        profile["plugins"][point] = json!({});
    }
    let config = accepted(&document);
    let mut profiles = accepted(&empty()).engine.profiles;
    profiles[0].percentage_of_nodes_to_score = Some(0);
    assert_eq!(config.engine.profiles, profiles);
    assert_eq!(config.warnings, []);
}

fn says_no_such_field(document: &Value, path: &str) -> bool {
    let errors: Vec<ConfigError> = read(document).err().unwrap_or_default();
    let missing =
        |error: &ConfigError| error.path == path && error.message == "there is no such field";
    errors.iter().any(missing)
}

/// Each object of the schema: the reader knows its fields, and no others.
fn check_objects(schema: &Value, path: &str, wrap: &dyn Fn(Value) -> Value) -> usize {
    if let Some(alternatives) = schema["oneOf"].as_array() {
        // Plugin arguments, told apart by the plugin's name.
        let checked = alternatives.iter().map(|schema| {
            let name = &schema["properties"]["name"]["const"];
            let args = &schema["properties"]["args"];
            check_objects(args, &format!("{path}.args"), &|inner| {
                wrap(json!({"name": name, "args": inner}))
            })
        });
        return checked.sum();
    }
    if !schema["items"].is_null() {
        let path = format!("{path}[0]");
        return check_objects(&schema["items"], &path, &|inner| wrap(json!([inner])));
    }
    let Some(properties) = schema["properties"].as_object() else {
        return 0;
    };
    let at = |name: &str| {
        let dot = if path.is_empty() { "" } else { "." };
        format!("{path}{dot}{name}")
    };
    let unknown = wrap(json!({"noSuchField": 1}));
    assert!(says_no_such_field(&unknown, &at("noSuchField")), "{path}");
    let mut checked = 1;
    for (name, schema) in properties {
        let document = wrap(json!({name: null}));
        assert!(!says_no_such_field(&document, &at(name)), "{}", at(name));
        checked += check_objects(schema, &at(name), &|inner| wrap(json!({name: inner})));
    }
    checked
}

#[test]
fn the_schema_has_the_fields_that_the_reader_knows() {
    let schema = json_schema();
    let wrap = |inner: Value| {
        let mut document = empty();
        for (name, value) in inner.as_object().expect("an object") {
            document[name] = value.clone();
        }
        document
    };
    let checked = check_objects(&schema, "", &wrap);
    assert!(checked > 60, "only {checked} objects");
}

/// All fields of a document are in the schema.
fn check_fields(value: &Value, schema: &Value, path: &str) {
    match value {
        Value::Array(list) => {
            let items = &schema["items"];
            for value in list {
                let mut alternatives = items["oneOf"].as_array().into_iter().flatten();
                let named = |it: &&Value| it["properties"]["name"]["const"] == value["name"];
                check_fields(value, alternatives.find(named).unwrap_or(items), path);
            }
        }
        Value::Object(map) => {
            for (name, value) in map {
                let schema = &schema["properties"][name];
                assert!(!schema.is_null(), "{path}.{name} is not in the schema");
                check_fields(value, schema, &format!("{path}.{name}"));
            }
        }
        _ => {}
    }
}

#[test]
fn the_default_document_is_of_the_schema() {
    check_fields(&default_document(), &json_schema(), "");
}
