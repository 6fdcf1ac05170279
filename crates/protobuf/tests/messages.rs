//! Messages written by hand: what becomes of each of their peculiarities.

mod wire;

use outrank_protobuf::{DecodeError, EncodeError, decode, encode};
use serde_json::{Value, json};
use wire::field;

fn envelope(api_version: &str, kind: &str, rest: &[Vec<u8>]) -> Vec<u8> {
    let type_meta = [field(1, api_version), field(2, kind)].concat();
    [b"k8s\0".to_vec(), field(1, type_meta), rest.concat()].concat()
}

/// What is decoded of an object of the core group whose fields these are.
fn object(kind: &str, fields: &[Vec<u8>]) -> Result<Value, String> {
    let body = envelope("v1", kind, &[field(2, fields.concat())]);
    let decoded = decode(&body).map_err(|error| error.to_string())?;
    Ok(decoded.object)
}

#[test]
fn zeros_are_shown_as_go_shows_them() {
    assert_eq!(
        object("Pod", &[]).unwrap(),
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {}, "spec": { "containers": null }, "status": {},
        })
    );
    let port = field(2, field(1, []));
    assert_eq!(
        object("Service", &[port]).unwrap()["spec"],
        json!({ "ports": [{ "port": 0, "targetPort": 0 }] })
    );
    // A pointer that is on the wire is shown, whatever it points to.
    let grace_seconds = vec![0x20, 0];
    assert_eq!(
        object("Pod", &[field(2, grace_seconds)]).unwrap()["spec"],
        json!({ "containers": null, "terminationGracePeriodSeconds": 0 })
    );
}

#[test]
fn messages_add_up_and_the_last_scalar_counts() {
    let first = field(1, [field(1, "a"), field(3, "team")].concat());
    let second = field(1, field(1, "b"));
    let data = |key: &str, value: &str| field(2, [field(1, key), field(2, value)].concat());
    let fields = [
        first,
        data("x", "1"),
        data("y", "2"),
        second,
        data("x", "3"),
        // An entry without a value has the zero of its type.
        field(2, field(1, "z")),
    ];
    assert_eq!(
        object("ConfigMap", &fields).unwrap(),
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "b", "namespace": "team" },
            "data": { "x": "3", "y": "2", "z": "" },
        })
    );
}

#[test]
fn unknown_fields_are_passed_over() {
    let unknown = [
        vec![0xf8, 0x07, 1],                      // 127, a varint
        vec![0xf9, 0x07, 0, 0, 0, 0, 0, 0, 0, 0], // eight bytes
        vec![0xfb, 0x07, 0x08, 1, 0xfc, 0x07],    // a group
        vec![0xfd, 0x07, 0, 0, 0, 0],             // four bytes
        vec![0xfa, 0x07, 1, 0xff],                // bytes
    ];
    let fields = [
        unknown.concat(),
        field(1, [unknown.concat(), field(1, "a")].concat()),
    ];
    assert_eq!(
        object("ConfigMap", &fields).unwrap()["metadata"],
        json!({ "name": "a" })
    );
}

#[test]
fn values_of_other_forms_are_read_as_go_reads_them() {
    // Quantities become canonical.
    let hard = |text: &str| {
        let entry = [field(1, "cpu"), field(2, field(1, text))].concat();
        let object = object("ResourceQuota", &[field(2, field(1, entry))])?;
        Ok::<_, String>(object["spec"]["hard"]["cpu"].clone())
    };
    assert_eq!(hard("0.1"), Ok(json!("100m")));
    assert_eq!(hard("1024Ki"), Ok(json!("1Mi")));
    assert!(
        hard("lots")
            .unwrap_err()
            .starts_with("spec.hard[cpu]: \"lots\" is no quantity: ")
    );
    // Text that is not UTF-8: a replacement for each wrong byte.
    let metadata = field(1, field(1, b"a\xe4\xb8b"));
    assert_eq!(
        object("ConfigMap", &[metadata]).unwrap()["metadata"]["name"],
        "a\u{fffd}\u{fffd}b"
    );
    // Numbers that stand together.
    let context = field(14, [field(4, [1, 0x80, 1])].concat());
    assert_eq!(
        object("Pod", &[field(2, context)]).unwrap()["spec"]["securityContext"],
        json!({ "supplementalGroups": [1, 128] })
    );
}

#[test]
fn mistakes_are_told_with_their_place() {
    let image = field(2, field(2, [0x10, 1]));
    assert_eq!(
        object("Pod", &[image]).unwrap_err(),
        "spec.containers[0].image: wrong wire type: expected bytes, found a varint"
    );
    // In JSON the source of a volume is not a field of its own.
    let volume = field(1, field(2, [8, 1]));
    assert_eq!(
        object("Pod", &[field(2, volume)]).unwrap_err(),
        "spec.volumes[0].hostPath: wrong wire type: expected bytes, found a varint"
    );
    assert_eq!(
        object("Pod", &[vec![0x0a, 5, 1]]).unwrap_err(),
        "Pod: the bytes end within a field"
    );
    let port = field(4, [8, 2]);
    assert_eq!(
        object("Service", &[field(2, field(1, port))]).unwrap_err(),
        "spec.ports[0].targetPort: the type must be 0 (a number) or 1 (a text), not 2"
    );
    let time = field(8, [&[8][..], &[0xff; 8], &[0x7f]].concat());
    assert_eq!(
        object("ConfigMap", &[field(1, time)]).unwrap_err(),
        "metadata.creationTimestamp: 9223372036854775807 s and 0 ns since 1970 \
         are in no year from 0 to 9999"
    );
    let fields = field(17, field(7, field(1, "{")));
    let error = object("ConfigMap", &[field(1, fields)]).unwrap_err();
    assert!(
        error.starts_with("metadata.managedFields[0].fieldsV1: not JSON: "),
        "{error}"
    );
}

#[test]
fn an_envelope_says_what_is_inside() {
    let of = |body: &[u8]| decode(body).unwrap_err();
    assert_eq!(of(b""), DecodeError::NoMagic);
    assert_eq!(of(b"{}"), DecodeError::NoMagic);
    assert_eq!(of(b"k8s\0"), DecodeError::NoKind);
    assert_eq!(of(&envelope("", "Pod", &[])), DecodeError::NoApiVersion);
    assert_eq!(of(&envelope("v1", "", &[])), DecodeError::NoKind);
    assert_eq!(
        of(&envelope("example.com/v1", "Widget", &[])).to_string(),
        r#"there is no message for kind "Widget" of "example.com/v1""#
    );
    let gzip = field(3, "gzip");
    assert!(matches!(
        of(&envelope("v1", "Pod", &[gzip])),
        DecodeError::UnknownContent { field: "contentEncoding", value } if value == "gzip"
    ));
    let cbor = field(4, "application/cbor");
    assert!(matches!(
        of(&envelope("v1", "Pod", &[cbor])),
        DecodeError::UnknownContent { field: "contentType", value } if value == "application/cbor"
    ));
}

#[test]
fn an_envelope_may_hold_json() {
    let json_in = |api_version: &str, kind: &str, text: &str| {
        let rest = [field(2, text), field(4, "application/json")];
        decode(&envelope(api_version, kind, &rest)).map_err(|error| error.to_string())
    };
    let widget = json_in("example.com/v1", "Widget", r#"{"size": 3}"#).unwrap();
    assert_eq!(
        widget.object,
        json!({ "apiVersion": "example.com/v1", "kind": "Widget", "size": 3 })
    );
    let inside = r#"{"apiVersion": "v1", "kind": "Pod"}"#;
    assert_eq!(json_in("", "", inside).unwrap().kind, "Pod");
    assert_eq!(
        json_in("v1", "Node", inside).unwrap_err(),
        r#"kind: is "Pod", and "Node" in the envelope"#
    );
    assert_eq!(
        json_in("v1", "Pod", "[]").unwrap_err(),
        "Pod: must be an object"
    );
    assert!(
        json_in("v1", "Pod", "{")
            .unwrap_err()
            .starts_with("Pod: not JSON")
    );
}

#[test]
fn what_cannot_be_encoded_is_told_with_its_place() {
    let of = |object: Value| encode(&object).unwrap_err();
    assert_eq!(of(json!([])), EncodeError::NoType("apiVersion"));
    assert_eq!(
        of(json!({ "apiVersion": "v1" })),
        EncodeError::NoType("kind")
    );
    let pod = |spec: Value| {
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "spec": spec });
        encode(&pod).unwrap_err().to_string()
    };
    assert_eq!(pod(json!("x")), "spec: must be an object, and is a text");
    assert_eq!(
        pod(json!({ "containers": [{ "name": 1 }] })),
        "spec.containers[0].name: must be a text, and is a number"
    );
    assert_eq!(
        pod(json!({ "priority": 2_147_483_648_u32 })),
        "spec.priority: must be a whole number of 32 bits, and is a number"
    );
    assert_eq!(
        pod(json!({ "overhead": { "cpu": "much" } })),
        "spec.overhead[cpu]: must be a quantity, and is a text"
    );
    let widget = json!({ "apiVersion": "example.com/v1", "kind": "Widget" });
    assert!(matches!(of(widget), EncodeError::UnknownKind { .. }));
}

#[test]
fn fields_without_a_number_are_not_encoded() {
    let with = json!({ "apiVersion": "v1", "kind": "Namespace", "size": 1, "status": null });
    let without = json!({ "apiVersion": "v1", "kind": "Namespace" });
    assert_eq!(encode(&with), encode(&without));
}

#[test]
fn schemas_of_custom_resources_keep_their_forms() {
    let schema = json!({
        "additionalProperties": false,
        "default": { "a": 1 },
        "items": [{ "type": "string" }, {}],
        "dependencies": { "a": ["b"], "c": { "type": "object" }, "d": null },
        "maximum": 10,
        "minimum": 0.5,
        "properties": { "x": { "additionalProperties": { "type": "integer" }, "items": {} } },
        "x-kubernetes-preserve-unknown-fields": true,
    });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": schema },
                "subresources": { "status": {} },
            }],
        },
        "status": {
            "acceptedNames": { "plural": "", "kind": "" },
            "conditions": null, "storedVersions": null,
        },
    });
    let body = encode(&definition).unwrap();
    assert_eq!(decode(&body).unwrap().object, definition);
}
