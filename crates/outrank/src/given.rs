//! Objects that a cluster is given to begin with: manifests, or a dump of another cluster.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use outrank_api::document::{self, Document, DuplicateKey, Receiver};
use outrank_cluster::Given;
use outrank_rehearse::input::{Input, read_inputs};
use serde_json::{Value, json};

/// Kinds on which objects of other kinds depend, in the order in which they are made.
const FIRST: [&str; 5] = [
    "Namespace",
    "CustomResourceDefinition",
    "PriorityClass",
    "StorageClass",
    "Node",
];

/// Namespaces that are always there.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// The objects of files, those first on which others depend. A namespace that objects are in and
/// that is not among them is made, as dumps of single kinds lack it; those are returned, too.
pub(crate) fn read(paths: &[PathBuf]) -> Result<(Vec<Given>, Vec<String>)> {
    let paths = paths.iter().map(PathBuf::as_path);
    let inputs = read_inputs(paths, &mut std::io::stdin())?;
    let mut objects = Vec::new();
    for input in &inputs {
        objects.extend(objects_of(input)?);
    }
    let missing = missing_namespaces(&objects);
    objects.extend(missing.iter().map(|name| {
        Given::from(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
    }));
    objects.sort_by_key(|given| {
        let kind = given.value["kind"].as_str().unwrap_or_default();
        let rank = FIRST.iter().position(|it| *it == kind);
        rank.unwrap_or(FIRST.len())
    });
    Ok((objects, missing))
}

/// The objects of one input. Lists are handed on item by item.
pub(crate) fn objects_of(input: &Input) -> Result<Vec<Given>> {
    struct Objects<'i> {
        input: &'i Input,
        objects: Vec<Given>,
        duplicate: Option<DuplicateKey>,
    }
    impl Receiver for Objects<'_> {
        fn document(&mut self, document: Document) {
            let origin = format!("{}:{}", self.input.name, document.location.line);
            let value = document.value;
            let is_list = value["items"].is_array() && {
                let kind = value["kind"].as_str();
                kind.is_some_and(|kind| kind.ends_with("List"))
            };
            if !is_list {
                self.objects.push(Given { origin, value });
            }
        }
        fn duplicate_key(&mut self, duplicate: DuplicateKey) {
            self.duplicate.get_or_insert(duplicate);
        }
    }
    let name = &input.name;
    let at = |line: usize| format!("{name}:{line}");
    let mut found = Objects {
        input,
        objects: Vec::new(),
        duplicate: None,
    };
    let text = document::text(&input.bytes).map_err(|error| anyhow!("{}", error.message));
    let text = text.with_context(|| name.clone())?;
    document::read(&text, &mut found)
        .map_err(|error| anyhow!("{}: {}", at(error.line), error.message))?;
    match found.duplicate {
        Some(duplicate) => Err(anyhow!("{}: {duplicate}", at(duplicate.line))),
        None => Ok(found.objects),
    }
}

fn missing_namespaces(objects: &[Given]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let namespaces = objects.iter().filter(|it| it.value["kind"] == "Namespace");
    let mut known: BTreeSet<String> = namespaces
        .map(|it| text(&it.value["metadata"]["name"]))
        .collect();
    known.extend(NAMESPACES.map(str::to_owned));
    known.insert(String::new());
    let used: BTreeSet<String> = objects
        .iter()
        .map(|it| text(&it.value["metadata"]["namespace"]))
        .collect();
    used.difference(&known).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(text: &str) -> Input {
        Input {
            name: "f.yaml".to_owned(),
            bytes: text.as_bytes().to_vec(),
        }
    }

    #[test]
    fn lists_are_their_items() {
        let list = "kind: List\napiVersion: v1\nitems:\n- kind: ConfigMap\n  metadata: {name: a}\n\
                    - kind: ConfigMap\n  metadata: {name: b}\n---\nkind: Pod\n---\n";
        let json =
            r#"{"kind": "NodeList", "items": [{"kind": "Node", "metadata": {"name": "n"}}]}"#;
        let origins = |text: &str| -> Vec<(String, String)> {
            let objects = objects_of(&input(text)).expect("it can be read");
            let kind = |given: &Given| given.value["kind"].as_str().unwrap_or_default().to_owned();
            let objects = objects.into_iter();
            objects.map(|it| (it.origin.clone(), kind(&it))).collect()
        };
        let told = |line: &str, kind: &str| (format!("f.yaml:{line}"), kind.to_owned());
        let expected = [
            told("4", "ConfigMap"),
            told("6", "ConfigMap"),
            told("9", "Pod"),
        ];
        assert_eq!(origins(list), expected);
        assert_eq!(origins(json), [told("1", "Node")]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, expected) in [("a: 1\nb: [\n", "f.yaml:"), ("a: 1\na: 2\n", "f.yaml:2: ")] {
            let error = objects_of(&input(text)).expect_err("wrong").to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn namespaces_that_are_not_given_are_missing() {
        let text = "kind: Namespace\nmetadata: {name: a}\n---\nkind: Pod\nmetadata: {namespace: \
                    a}\n---\nkind: Pod\nmetadata: {namespace: b}\n---\nkind: Pod\nmetadata: \
                    {namespace: kube-system}\n---\nkind: Node\n";
        let objects = objects_of(&input(text)).expect("it can be read");
        assert_eq!(missing_namespaces(&objects), ["b"]);
    }
}
