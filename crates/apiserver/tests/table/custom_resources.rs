//! Tables of custom resources, and what of the object goes along.

use outrank_api::resource_type::ResourceType;
use outrank_apiserver::table::{
    Columns, CustomColumn, IncludeObject, TableOptions, TableVersion, event_table, table,
};
use serde_json::{Value, json};

use super::nanos;

const NOW: &str = "2026-01-01T00:00:10Z";

fn custom_type() -> ResourceType {
    ResourceType {
        group: "example.com".to_owned(),
        version: "v1".to_owned(),
        kind: "Train".to_owned(),
        plural: "trains".to_owned(),
        singular: "train".to_owned(),
        short_names: Vec::new(),
        categories: Vec::new(),
        is_namespaced: true,
        verbs: Vec::new(),
        subresources: Vec::new(),
        type_name: None,
        schema: None,
    }
}

fn definition() -> Value {
    json!({"spec": {"versions": [
        {"name": "v1alpha1"},
        {"name": "v1", "additionalPrinterColumns": [
            {"name": "Cars", "type": "integer", "format": "int32", "jsonPath": ".spec.cars"},
            {
                "name": "Ready", "type": "string", "description": "Whether it goes.",
                "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status",
            },
            {
                "name": "Line", "type": "string", "priority": 1,
                "jsonPath": ".metadata.labels.example\\.com/line",
            },
            {"name": "Since", "type": "date", "jsonPath": ".status.since"},
        ]},
    ]}})
}

fn train() -> Value {
    json!({
        "apiVersion": "example.com/v1",
        "kind": "Train",
        "metadata": {
            "name": "ice",
            "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"example.com/line": "s1"},
        },
        "spec": {"cars": 12},
        "status": {
            "conditions": [
                {"type": "Cleaned", "status": "False"},
                {"type": "Ready", "status": "True"},
            ],
            "since": "2026-01-01T00:00:07Z",
        },
    })
}

#[test]
fn columns_are_those_of_the_definition() {
    let custom = CustomColumn::of_definition(&definition(), "v1");
    let columns = Columns::of(&custom_type(), &custom);
    let definitions = serde_json::to_value(columns.definitions()).unwrap();
    assert_eq!(
        definitions[1],
        json!({
            "name": "Cars", "type": "integer", "format": "int32", "priority": 0,
            "description": "Custom resource definition column (in JSONPath format): .spec.cars",
        })
    );
    assert_eq!(definitions[2]["description"], "Whether it goes.");
    assert_eq!(definitions[3]["priority"], 1);
    let cells = columns.cells(&train(), nanos(NOW));
    assert_eq!(
        cells,
        [
            "ice".into(),
            json!(12),
            "True".into(),
            "s1".into(),
            "3s".into()
        ]
    );
    let bare = json!({"metadata": {"name": "ghost"}});
    let cells = columns.cells(&bare, nanos(NOW));
    assert_eq!(
        cells,
        [
            "ghost".into(),
            Value::Null,
            Value::Null,
            Value::Null,
            Value::Null
        ]
    );
}

#[test]
fn without_columns_there_is_the_age() {
    let custom = CustomColumn::of_definition(&definition(), "v1alpha1");
    let columns = Columns::of(&custom_type(), &custom);
    let definitions = serde_json::to_value(columns.definitions()).unwrap();
    assert_eq!(
        (&definitions[1]["name"], &definitions[1]["type"]),
        (&json!("Age"), &json!("date"))
    );
    assert_eq!(columns.cells(&train(), nanos(NOW)), ["ice", "10s"]);
    assert_eq!(
        columns.cells(&json!({}), nanos(NOW)),
        ["".into(), Value::Null]
    );
}

#[test]
fn of_the_object_goes_along_what_was_asked_for() {
    let columns = Columns::of(&custom_type(), &[]);
    let row = |include_object, version, object: &Value| {
        let options = TableOptions {
            version,
            include_object,
        };
        let made = event_table(&columns, object, false, &options, 0);
        assert_eq!(made["apiVersion"], version.api_version());
        assert_eq!(made["columnDefinitions"], Value::Null);
        assert_eq!(
            made["metadata"]["resourceVersion"],
            object["metadata"]["resourceVersion"]
        );
        made["rows"][0]["object"].clone()
    };
    let train = train();
    assert_eq!(row(IncludeObject::Object, TableVersion::V1, &train), train);
    assert_eq!(
        row(IncludeObject::None, TableVersion::V1, &train),
        Value::Null
    );
    assert_eq!(
        row(IncludeObject::Metadata, TableVersion::V1Beta1, &train),
        json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1beta1",
            "metadata": train["metadata"],
        })
    );
    let bookmark = json!({"metadata": {
        "resourceVersion": "9",
        "annotations": {"k8s.io/initial-events-end": "true"},
    }});
    let object = row(IncludeObject::None, TableVersion::V1, &bookmark);
    assert_eq!(object["metadata"], bookmark["metadata"]);
}

#[test]
fn the_metadata_of_a_list_is_taken_over() {
    let columns = Columns::of(&custom_type(), &[]);
    let metadata = json!({
        "resourceVersion": "8", "continue": "more", "remainingItemCount": 5, "selfLink": "x",
    });
    let made = table(&columns, [], &metadata, &TableOptions::default(), 0);
    let expected = json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": "8", "continue": "more", "remainingItemCount": 5},
        "columnDefinitions": columns.definitions(),
        "rows": [],
    });
    assert_eq!(made, expected);
    let made = table(&columns, [], &json!({}), &TableOptions::default(), 0);
    assert_eq!(made["metadata"], json!({}));
}

#[test]
fn wrong_inclusions_are_refused() {
    let error = IncludeObject::parse("All").unwrap_err();
    assert_eq!(
        error.message,
        "Unable to convert to Table as requested: includeObject: Invalid value: \"All\": must be \
         'Metadata', 'Object', 'None', or empty"
    );
}
