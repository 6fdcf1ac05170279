//! Configuration of admission plugins: the file of `--admission-control-config-file`.
//!
//! An AdmissionConfiguration lists plugins with their configurations, each in place or in a
//! file of its own:
//!
//! ```yaml
//! apiVersion: apiserver.config.k8s.io/v1
//! kind: AdmissionConfiguration
//! plugins:
//! - name: ResourceQuota
//!   configuration:
//!     apiVersion: apiserver.config.k8s.io/v1
//!     kind: ResourceQuotaConfiguration
//!     limitedResources:
//!     - resource: pods
//!       matchScopes:
//!       - {scopeName: PriorityClass, operator: In, values: [high]}
//! ```
//!
//! That a plugin is listed does not switch it on ([`crate::plugin_names`] does). Of several
//! entries for one plugin the first counts, and of an entry with both a configuration and a
//! path the configuration. Unlike in kube-apiserver, a field that does not exist is an error,
//! and all errors are told at once.
//!
//! Sources: `k8s.io/apiserver/pkg/admission/config.go` and, for quotas, `config.go` and
//! `apis/resourcequota` of `k8s.io/apiserver/pkg/admission/plugin/resourcequota`, Kubernetes
//! 1.36.

use std::collections::BTreeMap;
use std::fmt;

use outrank_api::diagnostic::{Finding, Suggestion};
use outrank_api::document;
use outrank_api::schema::{findings_of_type, nearest};
use outrank_api::types::{
    AdmissionConfiguration, AdmissionPluginConfiguration, LimitedResource,
    ResourceQuotaConfiguration,
};
use outrank_api::validation::QUOTA_SCOPES;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::plugin_names;

/// Kinds that an AdmissionConfiguration may be of, with their API versions.
const KINDS: [(&str, &str); 2] = [
    ("apiserver.config.k8s.io/v1", "AdmissionConfiguration"),
    ("apiserver.k8s.io/v1alpha1", "AdmissionConfiguration"),
];

/// Kinds that the configuration of the ResourceQuota plugin may be of.
const RESOURCE_QUOTA_KINDS: [(&str, &str); 4] = [
    ("apiserver.config.k8s.io/v1", "ResourceQuotaConfiguration"),
    ("resourcequota.admission.k8s.io/v1", "Configuration"),
    ("resourcequota.admission.k8s.io/v1beta1", "Configuration"),
    ("resourcequota.admission.k8s.io/v1alpha1", "Configuration"),
];

/// Plugins whose configuration once was the whole file, by the key that tells.
const PLUGINS_OF_WHOLE_FILES: [(&str, &str); 2] = [
    ("imagePolicy", "ImagePolicyWebhook"),
    ("podNodeSelectorPluginConfig", "PodNodeSelector"),
];

/// What plugins are told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PluginConfigurations {
    /// Resources that nobody may use where no quota covers them (plugin ResourceQuota).
    pub limited_resources: Vec<LimitedResource>,
    /// The configurations of all other plugins that have one, by name, as they were written.
    pub others: BTreeMap<String, Value>,
    /// What may not be meant so.
    pub warnings: Vec<ConfigurationProblem>,
}

/// Something wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigurationProblem {
    /// The file, as `path` names it; `None` is the file that was read first.
    pub file: Option<String>,
    /// The field; empty is the file as a whole.
    pub path: String,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl fmt::Display for ConfigurationProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// Reads an AdmissionConfiguration, YAML or JSON. `file` gives the content of a file that an
/// entry names by its `path`; a path that is relative starts at the folder of the
/// AdmissionConfiguration.
///
/// # Errors
/// All that is wrong.
pub fn read(
    bytes: &[u8],
    file: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>,
) -> Result<PluginConfigurations, Vec<ConfigurationProblem>> {
    let mut reader = Reader::default();
    let configurations = reader.read(bytes, file);
    if reader.errors.is_empty() {
        let warnings = reader.warnings;
        return Ok(PluginConfigurations {
            warnings,
            ..configurations
        });
    }
    Err(reader.errors)
}

/// Where a value stands: in which file, at which path.
#[derive(Clone, Default)]
struct Place {
    file: Option<String>,
    path: String,
}

impl Place {
    fn problem(&self, path: &str, message: impl Into<String>) -> ConfigurationProblem {
        let dot = if self.path.is_empty() || path.is_empty() {
            ""
        } else {
            "."
        };
        ConfigurationProblem {
            file: self.file.clone(),
            path: format!("{}{dot}{path}", self.path),
            message: message.into(),
        }
    }
}

#[derive(Default)]
struct Reader {
    errors: Vec<ConfigurationProblem>,
    warnings: Vec<ConfigurationProblem>,
}

impl Reader {
    fn read(
        &mut self,
        bytes: &[u8],
        file: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>,
    ) -> PluginConfigurations {
        let mut configurations = PluginConfigurations::default();
        let place = Place::default();
        let Some(value) = self.document(bytes, &place) else {
            return configurations;
        };
        if let Some(others) = configurations_of_old(&value) {
            configurations.others = others;
            return configurations;
        }
        let name = "AdmissionConfiguration";
        let Some(configuration) = self.typed(&value, &KINDS, name, &place) else {
            return configurations;
        };
        let configuration: AdmissionConfiguration = configuration;
        let mut seen = Vec::new();
        for (index, plugin) in configuration.plugins.iter().enumerate() {
            let place = Place {
                file: None,
                path: format!("plugins[{index}]"),
            };
            self.note_name(&plugin.name, &seen, &place);
            let is_first = !seen.contains(&plugin.name.as_str());
            seen.push(plugin.name.as_str());
            if is_first && let Some((value, place)) = self.configuration(plugin, &place, file) {
                self.keep(&plugin.name, value, &place, &mut configurations);
            }
        }
        configurations
    }

    fn note_name(&mut self, name: &str, seen: &[&str], place: &Place) {
        let message = match name {
            "" => "without a name this entry has no effect".to_owned(),
            name if seen.contains(&name) => {
                format!("there is an entry for {name} before, which counts; this one does not")
            }
            name if !plugin_names::is_plugin(name) => {
                let suggestion = plugin_names::suggestion(name);
                format!("there is no plugin {name:?}, so this entry has no effect{suggestion}")
            }
            _ => return,
        };
        self.warnings.push(place.problem("name", message));
    }

    /// The configuration of a plugin, from the entry or from the file that it names.
    fn configuration(
        &mut self,
        plugin: &AdmissionPluginConfiguration,
        place: &Place,
        file: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>,
    ) -> Option<(Value, Place)> {
        let path = plugin.path.as_str();
        if let Some(value) = &plugin.configuration {
            if !path.is_empty() {
                let message = format!("{path} is not read, as there is a configuration beside it");
                self.warnings.push(place.problem("path", message));
            }
            let place = Place {
                path: format!("{}.configuration", place.path),
                ..place.clone()
            };
            return Some((value.clone(), place));
        }
        if path.is_empty() {
            return None;
        }
        match file(path) {
            Ok(bytes) => {
                let place = Place {
                    file: Some(path.to_owned()),
                    path: String::new(),
                };
                Some((self.document(&bytes, &place)?, place))
            }
            Err(error) => {
                self.errors
                    .push(place.problem("path", format!("{path}: {error}")));
                None
            }
        }
    }

    fn keep(
        &mut self,
        plugin: &str,
        value: Value,
        place: &Place,
        configurations: &mut PluginConfigurations,
    ) {
        if plugin != "ResourceQuota" {
            configurations.others.insert(plugin.to_owned(), value);
            return;
        }
        let name = "ResourceQuotaConfiguration";
        let configuration = self.typed(&value, &RESOURCE_QUOTA_KINDS, name, place);
        let configuration: ResourceQuotaConfiguration = configuration.unwrap_or_default();
        for (index, limited) in configuration.limited_resources.iter().enumerate() {
            self.check_limited(limited, &format!("limitedResources[{index}]"), place);
        }
        configurations.limited_resources = configuration.limited_resources;
    }

    fn check_limited(&mut self, limited: &LimitedResource, path: &str, place: &Place) {
        if limited.resource.is_empty() {
            let message = "Required value: the plural name of the objects, such as pods";
            self.errors
                .push(place.problem(&format!("{path}.resource"), message));
        }
        for (index, scope) in limited.match_scopes.iter().enumerate() {
            let path = format!("{path}.matchScopes[{index}]");
            let name = scope.scope_name.as_str();
            if !QUOTA_SCOPES.contains(&name) {
                let nearest = nearest(name, QUOTA_SCOPES.iter().copied());
                let suggestion = nearest.map(|near| format!("; did you mean {near}?"));
                let suggestion = suggestion.unwrap_or_default();
                let message = format!("no object is in a scope {name:?}{suggestion}");
                self.warnings
                    .push(place.problem(&format!("{path}.scopeName"), message));
            }
            let has_values = !scope.values.is_empty();
            let is_valid = match scope.operator.as_str() {
                "In" | "NotIn" => has_values,
                "Exists" | "DoesNotExist" => !has_values,
                _ => false,
            };
            if !is_valid {
                let message = "as it stands this condition never holds, and may keep others from \
                               being looked at: the operator must be In or NotIn with values, or \
                               Exists or DoesNotExist without";
                self.warnings.push(place.problem(&path, message));
            }
        }
    }

    /// The one document of a file.
    fn document(&mut self, bytes: &[u8], place: &Place) -> Option<Value> {
        let message = match document::values(bytes) {
            Ok(mut values) if values.len() == 1 => return values.pop(),
            Ok(values) => format!("expected one document, found {}", values.len()),
            Err(error) => error.to_string(),
        };
        self.errors.push(place.problem("", message));
        None
    }

    /// A value of one of these kinds; `type_name` is their type in the tables.
    fn typed<T: DeserializeOwned>(
        &mut self,
        value: &Value,
        kinds: &[(&str, &str)],
        type_name: &str,
        place: &Place,
    ) -> Option<T> {
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let kind = (text("apiVersion"), text("kind"));
        if !kinds.contains(&kind) {
            let known = kinds
                .iter()
                .map(|(version, kind)| format!("{kind} of {version}"));
            let known: Vec<String> = known.collect();
            let found = match kind {
                ("", _) => "apiVersion is missing".to_owned(),
                (_, "") => "kind is missing".to_owned(),
                (version, kind) => format!("there is no {kind} of {version} here"),
            };
            let message = format!("{found}; expected {}", known.join(", or "));
            self.errors.push(place.problem("", message));
            return None;
        }
        let findings = findings_of_type(type_name, value);
        if findings.is_empty() {
            return match serde_json::from_value(value.clone()) {
                Ok(typed) => Some(typed),
                // The table and the types disagree; better a rough message than none.
                Err(error) => {
                    self.errors.push(place.problem("", error.to_string()));
                    None
                }
            };
        }
        let errors = findings.iter();
        let errors = errors.map(|it| place.problem(&it.path.to_string(), said(it)));
        self.errors.extend(errors);
        None
    }
}

fn said(finding: &Finding) -> String {
    let message = &finding.message;
    match &finding.suggestion {
        Suggestion::None => message.clone(),
        Suggestion::Text(text) => format!("{message}; {text}"),
        Suggestion::Quote(json) => format!("{message}; write it as \"{json}\""),
    }
}

/// Configurations from a file of the time when the whole file was that of one plugin.
fn configurations_of_old(value: &Value) -> Option<BTreeMap<String, Value>> {
    let is_of_a_kind = value.get("apiVersion").is_some() && value.get("kind").is_some();
    let mut keys = PLUGINS_OF_WHOLE_FILES.iter();
    if is_of_a_kind || !keys.any(|(key, _)| value.get(key).is_some()) {
        return None;
    }
    let plugins = PLUGINS_OF_WHOLE_FILES.iter();
    Some(
        plugins
            .map(|(_, plugin)| ((*plugin).to_owned(), value.clone()))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_file(path: &str) -> Result<Vec<u8>, String> {
        Err(format!("nobody should read {path}"))
    }

    fn errors(text: &str) -> Vec<String> {
        let problems = read(text.as_bytes(), &mut no_file).expect_err(text);
        problems.iter().map(ToString::to_string).collect()
    }

    const LIMITED: &str = "limitedResources: [{resource: pods, matchScopes: [{scopeName: \
                           PriorityClass, operator: In, values: [high]}]}]";

    #[test]
    fn all_versions_mean_the_same() {
        for (root, version, kind) in [
            (
                "apiserver.config.k8s.io/v1",
                "apiserver.config.k8s.io/v1",
                "ResourceQuotaConfiguration",
            ),
            (
                "apiserver.k8s.io/v1alpha1",
                "resourcequota.admission.k8s.io/v1beta1",
                "Configuration",
            ),
            (
                "apiserver.config.k8s.io/v1",
                "resourcequota.admission.k8s.io/v1",
                "Configuration",
            ),
        ] {
            let text = format!(
                "apiVersion: {root}\nkind: AdmissionConfiguration\nplugins:\n- name: \
                 ResourceQuota\n  configuration:\n    apiVersion: {version}\n    kind: {kind}\n    \
                 {LIMITED}\n"
            );
            let read = read(text.as_bytes(), &mut no_file).expect("valid");
            assert_eq!(read.warnings, []);
            assert_eq!(read.limited_resources.len(), 1);
            assert_eq!(read.limited_resources[0].match_scopes[0].values, ["high"]);
        }
    }

    #[test]
    fn a_path_is_read_by_the_caller() {
        let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n\
                    - {name: ResourceQuota, path: quota.yaml}\n- {name: PodSecurity, path: gone}\n";
        let mut file = |path: &str| match path {
            "quota.yaml" => Ok(format!(
                "apiVersion: apiserver.config.k8s.io/v1\nkind: ResourceQuotaConfiguration\n{}",
                LIMITED.replace("resource: pods, ", "")
            )
            .into_bytes()),
            _ => Err("no such file".to_owned()),
        };
        let problems = read(text.as_bytes(), &mut file).expect_err("two errors");
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            problems,
            [
                "quota.yaml: limitedResources[0].resource: Required value: the plural name of the \
                 objects, such as pods",
                "plugins[1].path: gone: no such file",
            ]
        );
    }

    #[test]
    fn all_errors_are_told_with_their_fields() {
        assert_eq!(
            errors(
                "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- \
                 name: ResourceQuota\n  configuration:\n    apiVersion: \
                 apiserver.config.k8s.io/v1\n    kind: ResourceQuotaConfiguration\n    \
                 limitedResources:\n    - resource: 7\n      matchScope: []\n      matchContains: \
                 pods\n"
            ),
            [
                "plugins[0].configuration.limitedResources[0].matchContains: expected a list, found \
                 a string",
                "plugins[0].configuration.limitedResources[0].matchScope: unknown field; did you \
                 mean \"matchScopes\"?",
                "plugins[0].configuration.limitedResources[0].resource: expected a string, found \
                 number 7; write it as \"7\"",
            ]
        );
        assert_eq!(
            errors("apiVersion: v1\nkind: AdmissionConfiguration\n"),
            [
                "there is no AdmissionConfiguration of v1 here; expected AdmissionConfiguration of \
                 apiserver.config.k8s.io/v1, or AdmissionConfiguration of apiserver.k8s.io/v1alpha1"
            ]
        );
        assert_eq!(errors(""), ["expected one document, found 0"]);
        assert_eq!(
            errors("a: 1\n---\nb: 1\n"),
            ["expected one document, found 2"]
        );
    }

    #[test]
    fn what_has_no_effect_is_told() {
        let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n\
                    - {name: resourcequota}\n- name: ResourceQuota\n  path: a.yaml\n  configuration: \
                    {apiVersion: apiserver.config.k8s.io/v1, kind: ResourceQuotaConfiguration, \
                    limitedResources: [{resource: pods, matchScopes: [{scopeName: PriorityClas, \
                    operator: In}]}]}\n- {name: ResourceQuota, path: b.yaml}\n";
        let read = read(text.as_bytes(), &mut no_file).expect("accepted, as upstream does");
        let warnings = read.warnings.iter().map(ToString::to_string);
        assert_eq!(
            warnings.collect::<Vec<_>>(),
            [
                "plugins[0].name: there is no plugin \"resourcequota\", so this entry has no effect; \
                 did you mean ResourceQuota?",
                "plugins[1].path: a.yaml is not read, as there is a configuration beside it",
                "plugins[1].configuration.limitedResources[0].matchScopes[0].scopeName: no object is \
                 in a scope \"PriorityClas\"; did you mean PriorityClass?",
                "plugins[1].configuration.limitedResources[0].matchScopes[0]: as it stands this \
                 condition never holds, and may keep others from being looked at: the operator must \
                 be In or NotIn with values, or Exists or DoesNotExist without",
                "plugins[2].name: there is an entry for ResourceQuota before, which counts; this one \
                 does not",
            ]
        );
    }

    #[test]
    fn a_file_of_the_time_before_there_were_kinds() {
        let read = read(b"imagePolicy: {allowTTL: 5}\n", &mut no_file).expect("accepted");
        assert_eq!(
            read.others["ImagePolicyWebhook"]["imagePolicy"]["allowTTL"],
            5
        );
    }
}
