//! The extenders of a policy: decoded as Go reads JSON (the case of letters does not matter,
//! fields that nobody knows are left out), validated, and made as far as no file is read.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use outrank_api::names::label_key_errors;
use outrank_api::pod_resources::is_extended_resource_name;
use serde_json::{Map, Value};

use super::{NOT_CREATED, PolicyError, Stage, problem};
use crate::ConfigError;
use crate::extender::{ExtenderConfig, ExtenderTlsConfig, HTTP_TIMEOUT_DEFAULT, ManagedResource};

/// Decodes the entries of `extenders`, which is at `path`.
pub(super) fn decode(
    list: &[Value],
    path: &str,
    errors: &mut Vec<ConfigError>,
) -> Vec<ExtenderConfig> {
    let list = list.iter().enumerate();
    let decoded = list.map(|(index, value)| {
        let path = format!("{path}[{index}]");
        let mut object = LooseObject::of(value, path, errors);
        let extender = ExtenderConfig {
            url_prefix: object.text("urlPrefix"),
            filter_verb: object.text("filterVerb"),
            preempt_verb: object.text("preemptVerb"),
            prioritize_verb: object.text("prioritizeVerb"),
            weight: object.integer("weight"),
            bind_verb: object.text("bindVerb"),
            tls: None,
            http_timeout: match object.integer("httpTimeout") {
                0 => HTTP_TIMEOUT_DEFAULT,
                nanos => Duration::from_nanos(u64::try_from(nanos).unwrap_or_default()),
            },
            node_cache_capable: object.boolean("nodeCacheCapable"),
            managed_resources: Vec::new(),
            ignorable: object.boolean("ignorable"),
        };
        let is_https = object.boolean("enableHttps");
        let tls = object.take("tlsConfig");
        let (resources_path, resources) = object.list("managedResources");
        ExtenderConfig {
            tls: match tls {
                Some((path, value)) => Some(tls_config(value, path, is_https, errors)),
                // Without roots there is nothing to look at the server's certificate with.
                None => is_https.then(|| ExtenderTlsConfig {
                    insecure: true,
                    ..ExtenderTlsConfig::default()
                }),
            },
            managed_resources: managed_resources(resources, &resources_path, errors),
            ..extender
        }
    });
    decoded.collect()
}

fn managed_resources(
    list: &[Value],
    path: &str,
    errors: &mut Vec<ConfigError>,
) -> Vec<ManagedResource> {
    let list = list.iter().enumerate();
    let resources = list.map(|(index, value)| {
        let mut object = LooseObject::of(value, format!("{path}[{index}]"), errors);
        ManagedResource {
            name: object.text("name"),
            ignored_by_scheduler: object.boolean("ignoredByScheduler"),
        }
    });
    resources.collect()
}

fn tls_config(
    value: &Value,
    path: String,
    is_https: bool,
    errors: &mut Vec<ConfigError>,
) -> ExtenderTlsConfig {
    let mut object = LooseObject::of(value, path, errors);
    let mut tls = ExtenderTlsConfig {
        insecure: object.boolean("insecure"),
        server_name: object.text("serverName"),
        cert_file: object.text("certFile"),
        key_file: object.text("keyFile"),
        ca_file: object.text("caFile"),
        cert_data: object.base64("certData"),
        key_data: object.base64("keyData"),
        ca_data: object.base64("caData"),
    };
    let has_roots = !tls.ca_file.is_empty() || !tls.ca_data.is_empty();
    tls.insecure |= is_https && !has_roots;
    tls
}

/// An object whose fields are found whatever the case of their letters.
struct LooseObject<'v, 'e> {
    path: String,
    fields: Option<&'v Map<String, Value>>,
    errors: &'e mut Vec<ConfigError>,
}

impl<'v, 'e> LooseObject<'v, 'e> {
    fn of(value: &'v Value, path: String, errors: &'e mut Vec<ConfigError>) -> Self {
        if !value.is_object() && !value.is_null() {
            errors.push(problem(&path, format!("expected an object, found {value}")));
        }
        Self {
            path,
            fields: value.as_object(),
            errors,
        }
    }

    /// The last of the fields that could be meant, unless it is `null`.
    fn take(&self, name: &str) -> Option<(String, &'v Value)> {
        let mut fields = self.fields?.iter().rev();
        let (key, value) = fields.find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        (!value.is_null()).then(|| (format!("{}.{key}", self.path), value))
    }

    fn typed<T>(
        &mut self,
        name: &str,
        expected: &str,
        typed: impl FnOnce(&'v Value) -> Option<T>,
    ) -> Option<T> {
        let (path, value) = self.take(name)?;
        let found = typed(value);
        if found.is_none() {
            let message = format!("expected {expected}, found {value}");
            self.errors.push(problem(&path, message));
        }
        found
    }

    fn text(&mut self, name: &str) -> String {
        let text = self.typed(name, "a string", Value::as_str);
        text.unwrap_or_default().to_owned()
    }

    /// Ends of lines do not count.
    fn base64(&mut self, name: &str) -> Vec<u8> {
        let data = |value: &'v Value| {
            let text = value.as_str()?.replace(['\r', '\n'], "");
            STANDARD.decode(text).ok()
        };
        self.typed(name, "base64", data).unwrap_or_default()
    }

    fn integer(&mut self, name: &str) -> i64 {
        self.typed(name, "an integer", Value::as_i64).unwrap_or(0)
    }

    fn boolean(&mut self, name: &str) -> bool {
        let value = self.typed(name, "true or false", Value::as_bool);
        value.unwrap_or(false)
    }

    fn list(&mut self, name: &str) -> (String, &'v [Value]) {
        let path = format!("{}.{name}", self.path);
        let list = self.typed(name, "a list", Value::as_array);
        (path, list.map_or(&[], Vec::as_slice))
    }
}

/// What is wrong with extenders, as [`super::validate`] tells it.
pub(super) fn validate(extenders: &[ExtenderConfig]) -> Vec<ConfigError> {
    let mut errors = Vec::new();
    let mut managed: BTreeSet<&str> = BTreeSet::new();
    let mut refuse = |path: &str, value: String, message: &str| {
        errors.push(problem(path, format!("Invalid value: {value}: {message}")));
    };
    for (index, extender) in extenders.iter().enumerate() {
        let path = format!("extenders[{index}]");
        if !extender.prioritize_verb.is_empty() && extender.weight <= 0 {
            let message = "must have a positive weight applied to it";
            refuse(
                &format!("{path}.weight"),
                extender.weight.to_string(),
                message,
            );
        }
        for (index, ManagedResource { name, .. }) in extender.managed_resources.iter().enumerate() {
            let path = format!("{path}.managedResources[{index}].name");
            for message in resource_name_errors(name) {
                refuse(&path, format!("{name:?}"), &message);
            }
            if !managed.insert(name) {
                let message = "duplicate extender managed resource name";
                refuse(&path, format!("{name:?}"), message);
            }
        }
    }
    let binders = extenders
        .iter()
        .filter(|it| !it.bind_verb.is_empty())
        .count();
    if binders > 1 {
        let found = format!("\"found {binders} extenders implementing bind\"");
        refuse("extenders", found, "only one extender can implement bind");
    }
    errors
}

/// What is wrong with the name of an extended resource.
fn resource_name_errors(name: &str) -> Vec<String> {
    // 1.20 calls a label key what it is besides.
    let of_1_20 = |message: String| message.replacen("a valid label key", "a qualified name", 1);
    let errors: Vec<String> = label_key_errors(name).into_iter().map(of_1_20).collect();
    match errors.is_empty() && !is_extended_resource_name(name) {
        true => vec![format!("{name} is an invalid extended resource name")],
        false => errors,
    }
}

/// What can be known to be wrong with an extender's TLS without reading files.
pub(super) fn check(extenders: &[ExtenderConfig]) -> Result<(), PolicyError> {
    for (index, extender) in extenders.iter().enumerate() {
        let Some(tls) = &extender.tls else { continue };
        let has_ca = !tls.ca_file.is_empty() || !tls.ca_data.is_empty();
        if has_ca && tls.insecure {
            let message =
                "specifying a root certificates file with the insecure flag is not allowed";
            let text = format!("{NOT_CREATED}{message}");
            let path = format!("extenders[{index}].tlsConfig");
            let stage = Stage::Extenders;
            return Err(PolicyError::single(stage, &path, message.into(), text));
        }
    }
    Ok(())
}
