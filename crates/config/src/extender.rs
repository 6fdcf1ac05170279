//! `extenders`: schedulers beside the scheduler, asked over HTTP.
//!
//! Sources: `kube-scheduler/config/v1/types.go` Extender,
//! `apis/config/validation/validation.go` validateExtenders, Kubernetes 1.36.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use outrank_api::names::label_key_errors;
use outrank_api::pod_resources::is_extended_resource_name;
use serde_json::Value;

use crate::duration::{SignedDuration, duration};
use crate::fields::Fields;
use crate::{ConfigError, ConfigWarning, Configuration, NamedFile};

/// How long an extender may take if its configuration does not say.
pub(crate) const HTTP_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

/// An extender as configured. A verb that is empty is not asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtenderConfig {
    /// Where it is; verbs are appended with a slash between.
    pub url_prefix: String,
    /// Path of the call that refuses nodes.
    pub filter_verb: String,
    /// Path of the call that chooses victims.
    pub preempt_verb: String,
    /// Path of the call that rates nodes.
    pub prioritize_verb: String,
    /// By what ratings are multiplied; positive if there is a prioritize verb.
    pub weight: i64,
    /// Path of the call that binds the pod.
    pub bind_verb: String,
    /// TLS; `None` if neither `enableHTTPS` nor `tlsConfig` is there.
    pub tls: Option<ExtenderTlsConfig>,
    /// How long one call may take.
    pub http_timeout: Duration,
    /// Whether it knows the nodes, so that names are sent instead of objects.
    pub node_cache_capable: bool,
    /// Extended resources of its pods; if there are none all pods are its.
    pub managed_resources: Vec<ManagedResource>,
    /// Whether its errors are passed over.
    pub ignorable: bool,
}

impl ExtenderConfig {
    /// Whether it has a verb, so that it is asked anything at all.
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

/// One of an extender's `managedResources`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedResource {
    /// Name of an extended resource.
    pub name: String,
    /// Whether NodeResourcesFit leaves the resource to the extender.
    pub ignored_by_scheduler: bool,
}

/// How to speak TLS with an extender. Data takes precedence over files.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ExtenderTlsConfig {
    /// Whether the server's certificate is not looked at.
    pub insecure: bool,
    /// Name that the server's certificate must have; empty is the host of the URL.
    pub server_name: String,
    /// File of the client's certificate, PEM.
    pub cert_file: String,
    /// File of the client's key, PEM.
    pub key_file: String,
    /// File of the roots that the server is trusted by, PEM.
    pub ca_file: String,
    /// The client's certificate, PEM.
    pub cert_data: Vec<u8>,
    /// The client's key, PEM.
    pub key_data: Vec<u8>,
    /// The roots that the server is trusted by, PEM.
    pub ca_data: Vec<u8>,
}

impl ExtenderTlsConfig {
    /// Whether there is a certificate of the client. It is used if there is a key, too.
    pub fn has_certificate(&self) -> bool {
        !self.cert_file.is_empty() || !self.cert_data.is_empty()
    }

    /// Whether there is a key of the client. It is used if there is a certificate, too.
    pub fn has_key(&self) -> bool {
        !self.key_file.is_empty() || !self.key_data.is_empty()
    }
}

/// Everything but the key.
impl fmt::Debug for ExtenderTlsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExtenderTlsConfig")
            .field("insecure", &self.insecure)
            .field("server_name", &self.server_name)
            .field("cert_file", &self.cert_file)
            .field("key_file", &self.key_file)
            .field("ca_file", &self.ca_file)
            .finish_non_exhaustive()
    }
}

/// Reads `extenders`.
pub(crate) fn read(
    fields: &mut Fields<'_>,
    config: &mut Configuration,
    errors: &mut Vec<ConfigError>,
) {
    let Some((path, list)) = fields.list("extenders", errors) else {
        return;
    };
    for (index, value) in list.iter().enumerate() {
        let path = format!("{path}[{index}]");
        if let Some(fields) = Fields::of(value, &path, errors) {
            let extender = read_one(fields, config, errors);
            config.extenders.push(extender);
        }
    }
    check_together(&config.extenders, &path, errors);
}

fn read_one(
    mut fields: Fields<'_>,
    config: &mut Configuration,
    errors: &mut Vec<ConfigError>,
) -> ExtenderConfig {
    let mut text = |name| {
        let text = fields.text(name, errors);
        text.map(|(_, text)| text.to_owned()).unwrap_or_default()
    };
    let url_prefix = text("urlPrefix");
    let filter_verb = text("filterVerb");
    let preempt_verb = text("preemptVerb");
    let prioritize_verb = text("prioritizeVerb");
    let bind_verb = text("bindVerb");
    let weight = fields.integer("weight", errors).map_or(0, |(_, it)| it);
    let http_timeout = duration(
        &mut fields,
        "httpTimeout",
        SignedDuration::of_seconds(0),
        errors,
    );
    let http_timeout = match http_timeout.at_least_zero() {
        Duration::ZERO => HTTP_TIMEOUT_DEFAULT,
        timeout => timeout,
    };
    let mut switch = |name| fields.boolean(name, errors).unwrap_or(false);
    let node_cache_capable = switch("nodeCacheCapable");
    let ignorable = switch("ignorable");
    let enable_https = switch("enableHTTPS");
    let tls = read_tls(&mut fields, enable_https, config, errors);
    let managed_resources = read_managed_resources(&mut fields, errors);
    check_url(&url_prefix, fields.path("urlPrefix"), &mut config.warnings);
    if !prioritize_verb.is_empty() && weight <= 0 {
        errors.push(ConfigError {
            path: fields.path("weight"),
            message: format!("{weight}: must have a positive weight applied to it"),
        });
    }
    fields.finish(errors);
    ExtenderConfig {
        url_prefix,
        filter_verb,
        preempt_verb,
        prioritize_verb,
        weight,
        bind_verb,
        tls,
        http_timeout,
        node_cache_capable,
        managed_resources,
        ignorable,
    }
}

/// Upstream does not look; nothing can come of its calls.
fn check_url(url_prefix: &str, path: String, warnings: &mut Vec<ConfigWarning>) {
    let (scheme, rest) = url_prefix.split_once("://").unwrap_or_default();
    let is_known = ["http", "https"]
        .iter()
        .any(|known| scheme.eq_ignore_ascii_case(known));
    if !is_known || rest.is_empty() || rest.starts_with('/') {
        let message = format!(
            "{url_prefix:?} is not a URL such as \"http://127.0.0.1:8888/scheduler\": every call \
             will fail"
        );
        warnings.push(ConfigWarning { path, message });
    }
}

fn read_tls(
    fields: &mut Fields<'_>,
    enable_https: bool,
    config: &mut Configuration,
    errors: &mut Vec<ConfigError>,
) -> Option<ExtenderTlsConfig> {
    let Some(mut fields) = fields.object("tlsConfig", errors) else {
        // Without roots there is nothing to look at the server's certificate with.
        return enable_https.then(|| ExtenderTlsConfig {
            insecure: true,
            ..ExtenderTlsConfig::default()
        });
    };
    let mut text = |name| {
        let text = fields.text(name, errors);
        text.map(|(_, text)| text.to_owned()).unwrap_or_default()
    };
    let mut tls = ExtenderTlsConfig {
        server_name: text("serverName"),
        cert_file: text("certFile"),
        key_file: text("keyFile"),
        ca_file: text("caFile"),
        ..ExtenderTlsConfig::default()
    };
    tls.insecure = fields.boolean("insecure", errors).unwrap_or(false);
    let mut data = |name| bytes(&mut fields, name, errors);
    tls.cert_data = data("certData");
    tls.key_data = data("keyData");
    tls.ca_data = data("caData");
    let has_roots = !tls.ca_file.is_empty() || !tls.ca_data.is_empty();
    if tls.insecure && has_roots {
        errors.push(ConfigError {
            path: fields.path("insecure"),
            message: "specifying a root certificates file with the insecure flag is not allowed"
                .into(),
        });
    }
    if tls.has_certificate() != tls.has_key() {
        let (missing, there) = match tls.has_key() {
            true => ("certFile", "the client's key has no certificate"),
            false => ("keyFile", "the client's certificate has no key"),
        };
        config.warnings.push(ConfigWarning {
            path: fields.path(missing),
            message: format!("{there}, and is not used"),
        });
    }
    for (name, file, data) in [
        ("caFile", &tls.ca_file, &tls.ca_data),
        ("certFile", &tls.cert_file, &tls.cert_data),
        ("keyFile", &tls.key_file, &tls.key_data),
    ] {
        if !file.is_empty() && data.is_empty() {
            config.files.push(NamedFile {
                path: fields.path(name),
                file: file.clone(),
            });
        }
    }
    tls.insecure |= enable_https && !has_roots;
    fields.finish(errors);
    Some(tls)
}

/// A field of bytes, base64 in the file.
fn bytes(fields: &mut Fields<'_>, name: &str, errors: &mut Vec<ConfigError>) -> Vec<u8> {
    let Some((path, text)) = fields.text(name, errors) else {
        return Vec::new();
    };
    STANDARD.decode(text).unwrap_or_else(|error| {
        let message = format!("is not base64: {error}");
        errors.push(ConfigError { path, message });
        Vec::new()
    })
}

fn read_managed_resources(
    fields: &mut Fields<'_>,
    errors: &mut Vec<ConfigError>,
) -> Vec<ManagedResource> {
    let Some((path, list)) = fields.list("managedResources", errors) else {
        return Vec::new();
    };
    let read = |(index, value): (usize, &Value)| {
        let mut fields = Fields::of(value, &format!("{path}[{index}]"), errors)?;
        let name = fields.text("name", errors).map_or("", |(_, name)| name);
        let ignored = fields.boolean("ignoredByScheduler", errors);
        check_resource_name(name, &fields.path("name"), errors);
        fields.finish(errors);
        Some(ManagedResource {
            name: name.to_owned(),
            ignored_by_scheduler: ignored.unwrap_or(false),
        })
    };
    list.iter().enumerate().filter_map(read).collect()
}

fn check_resource_name(name: &str, path: &str, errors: &mut Vec<ConfigError>) {
    let mut messages = label_key_errors(name);
    if messages.is_empty() && !is_extended_resource_name(name) {
        messages.push("is an invalid extended resource name".into());
    }
    errors.extend(messages.into_iter().map(|message| ConfigError {
        path: path.to_owned(),
        message: format!("{name:?}: {message}"),
    }));
}

/// What extenders must not have in common.
fn check_together(extenders: &[ExtenderConfig], path: &str, errors: &mut Vec<ConfigError>) {
    let mut managed: Vec<&str> = Vec::new();
    for (index, extender) in extenders.iter().enumerate() {
        for (at, resource) in extender.managed_resources.iter().enumerate() {
            if managed.contains(&&*resource.name) {
                errors.push(ConfigError {
                    path: format!("{path}[{index}].managedResources[{at}].name"),
                    message: format!(
                        "{:?}: duplicate extender managed resource name",
                        resource.name
                    ),
                });
            }
            managed.push(&resource.name);
        }
    }
    let binders = extenders.iter().filter(|it| !it.bind_verb.is_empty());
    let binders = binders.count();
    if binders > 1 {
        errors.push(ConfigError {
            path: path.to_owned(),
            message: format!(
                "found {binders} extenders implementing bind: only one extender can implement bind"
            ),
        });
    }
}
