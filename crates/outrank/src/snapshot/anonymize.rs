//! Other names for everything in a dump.
//!
//! What decides where pods go must stay: amounts, priorities, times, and what is equal to what. So
//! each text has one pseudonym wherever it stands. Of texts, only those stay that Kubernetes itself
//! knows: well-known labels, taints and annotations, built-in names, amounts, times, and fields
//! whose values are words of the API, such as `NoSchedule`. Whatever is not known to be harmless is
//! replaced.

use std::collections::HashMap;

use outrank_api::quantity::Quantity;
use outrank_api::time::unix_nanos;
use serde_json::{Map, Value};

/// The pseudonyms given so far.
#[derive(Default)]
pub(super) struct Pseudonyms {
    known: HashMap<String, String>,
}

/// Domains of keys that Kubernetes itself gives a meaning, and of ours.
const KNOWN_DOMAINS: [&str; 3] = ["kubernetes.io", "k8s.io", "outrank.dev"];

/// Names that are there in every cluster.
const KNOWN_NAMES: [&str; 14] = [
    "",
    "default",
    "kube-system",
    "kube-public",
    "kube-node-lease",
    "kubernetes",
    "kube-root-ca.crt",
    "system-cluster-critical",
    "system-node-critical",
    "default-scheduler",
    "nvidia.com/gpu",
    "amd.com/gpu",
    "true",
    "false",
];

/// Fields whose values are words of the API, or identify objects without telling of them.
const WORDS: [&str; 40] = [
    "apiVersion",
    "kind",
    "uid",
    "resourceVersion",
    "phase",
    "status",
    "type",
    "reason",
    "effect",
    "operator",
    "protocol",
    "restartPolicy",
    "dnsPolicy",
    "imagePullPolicy",
    "terminationMessagePolicy",
    "preemptionPolicy",
    "qosClass",
    "whenUnsatisfiable",
    "nodeAffinityPolicy",
    "nodeTaintsPolicy",
    "scopeName",
    "podManagementPolicy",
    "completionMode",
    "podReplacementPolicy",
    "concurrencyPolicy",
    "schedule",
    "volumeBindingMode",
    "reclaimPolicy",
    "persistentVolumeReclaimPolicy",
    "volumeMode",
    "unhealthyPodEvictionPolicy",
    "whenDeleted",
    "whenScaled",
    "action",
    "sessionAffinity",
    "operatingSystem",
    "architecture",
    "attachRequired",
    "allocationMode",
    "mode",
];

/// Lists of words of the API.
const WORD_LISTS: [&str; 4] = ["accessModes", "scopes", "finalizers", "policyTypes"];

/// Fields that tell about programs, people or machines and on which nothing depends.
const DROPPED: [&str; 20] = [
    "args",
    "command",
    "env",
    "envFrom",
    "lifecycle",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "message",
    "description",
    "nodeInfo",
    "addresses",
    "hostIP",
    "hostIPs",
    "podIP",
    "podIPs",
    "data",
    "binaryData",
    "stringData",
    "parameters",
];

/// Maps of labels.
const LABELS: [&str; 4] = ["labels", "matchLabels", "nodeSelector", "selector"];

/// Fields that hold the key of a label or taint, alone or in a list.
const KEYS: [&str; 6] = [
    "key",
    "topologyKey",
    "labelKey",
    "matchLabelKeys",
    "mismatchLabelKeys",
    "topologyKeys",
];

/// Maps of amounts by resource.
const AMOUNTS: [&str; 8] = [
    "requests",
    "limits",
    "capacity",
    "allocatable",
    "hard",
    "used",
    "overhead",
    "podFixed",
];

impl Pseudonyms {
    /// Gives an object other names.
    pub(super) fn apply(&mut self, object: &mut Value) {
        let is_role = object["kind"]
            .as_str()
            .is_some_and(|it| it.contains("Role"));
        if let (true, Value::Object(fields)) = (is_role, &mut *object) {
            // Who may do what decides nothing about pods.
            for field in ["rules", "subjects", "aggregationRule"] {
                fields.remove(field);
            }
        }
        self.walk("", object);
    }

    fn walk(&mut self, field: &str, value: &mut Value) {
        match value {
            Value::Array(_) if WORD_LISTS.contains(&field) => {}
            Value::Array(elements) => elements.iter_mut().for_each(|it| self.walk(field, it)),
            Value::Object(fields) => self.walk_fields(fields),
            Value::String(_) if WORDS.contains(&field) => {}
            Value::String(text) if KEYS.contains(&field) => *text = self.key(text),
            Value::String(text) if field == "image" || field == "names" => {
                *text = format!("registry.example/{}", self.pseudonym(text));
            }
            Value::String(text) => *text = self.text(text),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn walk_fields(&mut self, fields: &mut Map<String, Value>) {
        fields.retain(|field, _| !DROPPED.contains(&field.as_str()));
        for (field, value) in fields.iter_mut() {
            match (field.as_str(), &mut *value) {
                ("annotations", Value::Object(annotations)) => self.annotations(annotations),
                (field, Value::Object(map)) if LABELS.contains(&field) && is_texts(map) => {
                    self.labels(map);
                }
                (field, Value::Object(map)) if AMOUNTS.contains(&field) => self.amounts(map),
                (field, value) => self.walk(field, value),
            }
        }
    }

    /// Of annotations, those that Kubernetes or we give a meaning stay, with other names in them.
    fn annotations(&mut self, annotations: &mut Map<String, Value>) {
        annotations.retain(|key, _| is_known_key(key));
        for (key, value) in annotations.iter_mut() {
            if !key.contains("outrank.dev/") {
                self.walk("", value);
            }
        }
    }

    fn labels(&mut self, labels: &mut Map<String, Value>) {
        for (key, mut value) in std::mem::take(labels) {
            if !matches!(key.as_str(), "kubernetes.io/os" | "kubernetes.io/arch") {
                self.walk("", &mut value);
            }
            labels.insert(self.key(&key), value);
        }
    }

    /// Amounts stay; resources of one's own have other names. In quotas, names of resources and
    /// classes are part of longer ones.
    fn amounts(&mut self, amounts: &mut Map<String, Value>) {
        for (name, amount) in std::mem::take(amounts) {
            let prefix = ["requests.", "limits."]
                .iter()
                .find(|it| name.starts_with(**it));
            let (prefix, rest) = name.split_at(prefix.map_or(0, |it| it.len()));
            let is_plain = !rest.contains('/')
                || is_known_key(rest)
                || rest.starts_with("count/")
                || KNOWN_NAMES.contains(&rest);
            let other = match rest.split_once(".storageclass.storage.k8s.io/") {
                Some((class, what)) => {
                    format!("{}.storageclass.storage.k8s.io/{what}", self.text(class))
                }
                None if is_plain => rest.to_owned(),
                None => format!("example.com/{}", self.pseudonym(rest)),
            };
            amounts.insert(format!("{prefix}{other}"), amount);
        }
    }

    fn key(&mut self, key: &str) -> String {
        match is_known_key(key) || key.starts_with("metadata.") {
            true => key.to_owned(),
            false => format!("example.com/{}", self.pseudonym(key)),
        }
    }

    fn text(&mut self, text: &str) -> String {
        // Numbers are sizes and counts, as in `Gt`, and parts of a whole.
        let is_amount = text
            .strip_suffix('%')
            .unwrap_or(text)
            .parse::<Quantity>()
            .is_ok();
        let is_harmless = KNOWN_NAMES.contains(&text)
            || is_amount
            || unix_nanos(text).is_some()
            || text.starts_with("system:");
        match is_harmless {
            true => text.to_owned(),
            false => self.pseudonym(text),
        }
    }

    fn pseudonym(&mut self, text: &str) -> String {
        let number = self.known.len() + 1;
        let pseudonym = self.known.entry(text.to_owned());
        pseudonym
            .or_insert_with(|| format!("n-{number:06}"))
            .clone()
    }
}

fn is_known_key(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let is_in = |known: &str| domain == known || domain.ends_with(&format!(".{known}"));
    KNOWN_DOMAINS.iter().any(|it| is_in(it))
}

fn is_texts(map: &Map<String, Value>) -> bool {
    map.values().all(Value::is_string)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_equal_stays_equal_and_nothing_tells() {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "secret-project-0", "namespace": "team-blue",
                "labels": {"app": "secret-project", "topology.kubernetes.io/zone": "zone-a"},
                "annotations": {"owner": "jane@corp.example"}},
            "spec": {"nodeName": "host17.corp", "priority": 1000,
                "containers": [{"name": "main", "image": "registry.corp/secret:1",
                    "args": ["--token=abc"], "env": [{"name": "A", "value": "jane"}],
                    "resources": {"requests": {"cpu": "1", "corp.example/fpga": "2"}}}],
                "tolerations": [{"key": "corp", "value": "gpu", "effect": "NoSchedule"}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
        let mut service = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "s", "namespace": "team-blue"},
            "spec": {"selector": {"app": "secret-project"}}});
        let mut namespace = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "team-blue"}});
        let mut pseudonyms = Pseudonyms::default();
        for object in [&mut pod, &mut service, &mut namespace] {
            pseudonyms.apply(object);
        }
        let text = format!("{pod}{service}{namespace}");
        for told in [
            "secret", "blue", "jane", "corp", "host17", "zone-a", "main", "token",
        ] {
            assert!(!text.contains(told), "{told} in {text}");
        }
        assert_eq!(pod["metadata"]["namespace"], namespace["metadata"]["name"]);
        let selector = service["spec"]["selector"].as_object().expect("a map");
        let (key, value) = selector.iter().next().expect("a label");
        assert_eq!(pod["metadata"]["labels"][key], *value);
        assert_eq!(pod["spec"]["priority"], 1000);
        assert_eq!(pod["status"]["conditions"][0]["type"], "Ready");
        assert_eq!(pod["spec"]["tolerations"][0]["effect"], "NoSchedule");
        assert_eq!(
            pod["spec"]["containers"][0]["resources"]["requests"]["cpu"],
            "1"
        );
    }
}
