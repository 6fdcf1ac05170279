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
use crate::extender::{self, ExtenderConfig, ExtenderTlsConfig, HTTP_TIMEOUT_DEFAULT};

/// An HTTP extender as a policy states it. An empty verb is not called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyExtender {
    /// Where it is.
    pub url_prefix: String,
    /// Verb of the call that filters.
    pub filter_verb: String,
    /// Verb of the call about preemption.
    pub preempt_verb: String,
    /// Verb of the call that scores.
    pub prioritize_verb: String,
    /// Weight of its scores.
    pub weight: i64,
    /// Verb of the call that binds.
    pub bind_verb: String,
    /// Whether it is called by HTTPS.
    pub enable_https: bool,
    /// How to talk TLS to it.
    pub tls: Option<ExtenderTls>,
    /// How long a call may take, in nanoseconds; 0 is the default.
    pub http_timeout_nanos: i64,
    /// Whether it keeps nodes itself and is told their names only.
    pub node_cache_capable: bool,
    /// Resources that it looks after; none is all pods.
    pub managed_resources: Vec<ManagedResource>,
    /// Whether pods are scheduled though it cannot be reached.
    pub ignorable: bool,
}

impl PolicyExtender {
    /// Whether it has a verb, so that it is called at all.
    pub fn is_called(&self) -> bool {
        let verbs = [
            &self.filter_verb,
            &self.preempt_verb,
            &self.prioritize_verb,
            &self.bind_verb,
        ];
        verbs.iter().any(|verb| !verb.is_empty())
    }
}

impl From<&PolicyExtender> for ExtenderConfig {
    fn from(extender: &PolicyExtender) -> Self {
        // What is not base64 was refused when it was decoded.
        let data = |text: &str| STANDARD.decode(text).unwrap_or_default();
        let tls = extender.tls.as_ref().map(|tls| ExtenderTlsConfig {
            insecure: tls.insecure,
            server_name: tls.server_name.clone(),
            cert_file: tls.cert_file.clone(),
            key_file: tls.key_file.clone(),
            ca_file: tls.ca_file.clone(),
            cert_data: data(&tls.cert_data),
            key_data: data(&tls.key_data),
            ca_data: data(&tls.ca_data),
        });
        let timeout = u64::try_from(extender.http_timeout_nanos).unwrap_or_default();
        Self {
            url_prefix: extender.url_prefix.clone(),
            filter_verb: extender.filter_verb.clone(),
            preempt_verb: extender.preempt_verb.clone(),
            prioritize_verb: extender.prioritize_verb.clone(),
            weight: extender.weight,
            bind_verb: extender.bind_verb.clone(),
            tls: tls.or_else(|| extender.enable_https.then(ExtenderTlsConfig::default)),
            http_timeout: match timeout {
                0 => HTTP_TIMEOUT_DEFAULT,
                nanos => Duration::from_nanos(nanos),
            },
            node_cache_capable: extender.node_cache_capable,
            managed_resources: extender
                .managed_resources
                .iter()
                .map(|resource| extender::ManagedResource {
                    name: resource.name.clone(),
                    ignored_by_scheduler: resource.ignored_by_scheduler,
                })
                .collect(),
            ignorable: extender.ignorable,
        }
    }
}

/// How to talk TLS to an extender.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtenderTls {
    /// Whether its certificate is not checked.
    pub insecure: bool,
    /// The name that its certificate must have, if not that of the address.
    pub server_name: String,
    /// File of our certificate.
    pub cert_file: String,
    /// File of our key.
    pub key_file: String,
    /// File of certificates to trust.
    pub ca_file: String,
    /// Our certificate, base64; before that of the file.
    pub cert_data: String,
    /// Our key, base64; before that of the file.
    pub key_data: String,
    /// Certificates to trust, base64; before those of the file.
    pub ca_data: String,
}

/// A resource that an extender looks after.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManagedResource {
    /// Its name.
    pub name: String,
    /// Whether NodeResourcesFit leaves it to the extender.
    pub ignored_by_scheduler: bool,
}

/// Decodes the entries of `extenders`, which is at `path`.
pub(super) fn decode(
    list: &[Value],
    path: &str,
    errors: &mut Vec<ConfigError>,
) -> Vec<PolicyExtender> {
    let list = list.iter().enumerate();
    let decoded = list.map(|(index, value)| {
        let path = format!("{path}[{index}]");
        let mut object = LooseObject::of(value, path, errors);
        let managed_resources = object.list("managedResources");
        let mut extender = PolicyExtender {
            url_prefix: object.text("urlPrefix"),
            filter_verb: object.text("filterVerb"),
            preempt_verb: object.text("preemptVerb"),
            prioritize_verb: object.text("prioritizeVerb"),
            weight: object.integer("weight"),
            bind_verb: object.text("bindVerb"),
            enable_https: object.boolean("enableHttps"),
            http_timeout_nanos: object.integer("httpTimeout"),
            node_cache_capable: object.boolean("nodeCacheCapable"),
            ignorable: object.boolean("ignorable"),
            ..PolicyExtender::default()
        };
        let tls = object.take("tlsConfig");
        extender.tls = tls.map(|(path, value)| tls_config(value, path, errors));
        let (path, list) = managed_resources;
        for (index, value) in list.iter().enumerate() {
            let mut object = LooseObject::of(value, format!("{path}[{index}]"), errors);
            extender.managed_resources.push(ManagedResource {
                name: object.text("name"),
                ignored_by_scheduler: object.boolean("ignoredByScheduler"),
            });
        }
        extender
    });
    decoded.collect()
}

fn tls_config(value: &Value, path: String, errors: &mut Vec<ConfigError>) -> ExtenderTls {
    let mut object = LooseObject::of(value, path, errors);
    ExtenderTls {
        insecure: object.boolean("insecure"),
        server_name: object.text("serverName"),
        cert_file: object.text("certFile"),
        key_file: object.text("keyFile"),
        ca_file: object.text("caFile"),
        cert_data: object.base64("certData"),
        key_data: object.base64("keyData"),
        ca_data: object.base64("caData"),
    }
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

    fn base64(&mut self, name: &str) -> String {
        let text = |value: &'v Value| value.as_str().filter(|text| is_base64(text));
        let text = self.typed(name, "base64", text);
        text.unwrap_or_default().to_owned()
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

/// Whether a text is base64 with padding; ends of lines do not count.
fn is_base64(text: &str) -> bool {
    let text: Vec<u8> = text
        .bytes()
        .filter(|it| !matches!(it, b'\r' | b'\n'))
        .collect();
    let padding = text.iter().rev().take_while(|it| **it == b'=').count();
    let digits = &text[..text.len() - padding];
    let is_digit = |it: &u8| it.is_ascii_alphanumeric() || matches!(it, b'+' | b'/');
    text.len().is_multiple_of(4) && padding <= 2 && digits.iter().all(is_digit)
}

/// What is wrong with extenders, as [`super::validate`] tells it.
pub(super) fn validate(extenders: &[PolicyExtender]) -> Vec<ConfigError> {
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
pub(super) fn check(extenders: &[PolicyExtender]) -> Result<(), PolicyError> {
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
