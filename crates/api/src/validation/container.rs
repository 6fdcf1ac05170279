//! Containers: of all three kinds, with their ports, variables, mounts and probes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::errors::{
    Errors, descending_path, dns_label, dns_subdomain, no_back_steps, port_number,
    port_number_or_name,
};
use super::resources::{Place, requirements};
use super::security::security_context;
use crate::diagnostic::Here;
use crate::fields_of::FieldsOf;
use crate::names::{
    config_key_errors, env_name_errors, header_name_errors, label_key_errors, port_name_errors,
};
use crate::quantity::Quantity;

pub(super) const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// The fields of a pod's spec that hold containers, in the order in which all are visited.
pub(super) const LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// What containers are checked against.
pub(super) struct Surroundings<'p> {
    /// The pod's spec.
    pub(super) spec: &'p Value,
    /// The pod's volumes that are valid, by name.
    pub(super) volumes: BTreeMap<&'p str, &'p Value>,
    /// The names of the pod's resource claims.
    pub(super) claims: BTreeSet<&'p str>,
}

impl Surroundings<'_> {
    fn shares_users_with_host(&self) -> bool {
        self.spec.some_flag("hostUsers").unwrap_or(true)
    }
}

/// Checks the containers that run side by side.
pub(super) fn containers(around: &Surroundings<'_>, here: &Here<'_>, errors: &mut Errors) {
    let containers = around.spec.list("containers");
    let here = here.field("containers");
    if containers.is_empty() {
        errors.required(&here, "");
        return;
    }
    let mut names = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        let here = here.index(index);
        common(container, around, &here, errors);
        if !names.insert(container.text("name")) {
            errors.duplicate(&here.field("name"), container.text("name"));
        }
        lifecycle_and_probes(container, around.spec, &here, errors);
        if let Some(policy) = container.some_text("restartPolicy") {
            let supported = ["Always", "OnFailure", "Never"];
            errors.word(policy, &supported, &here.field("restartPolicy"));
        }
    }
    host_port_conflicts(containers, &here, errors);
}

/// Checks the containers that run before the others.
pub(super) fn init_containers(around: &Surroundings<'_>, here: &Here<'_>, errors: &mut Errors) {
    let here = here.field("initContainers");
    let regular = around.spec.list("containers").iter();
    let mut names: BTreeSet<&str> = regular.map(|it| it.text("name")).collect();
    for (index, container) in around.spec.list("initContainers").iter().enumerate() {
        let list = here;
        let here = here.index(index);
        common(container, around, &here, errors);
        let policy = container.some_text("restartPolicy");
        if let Some(policy) = policy {
            let supported = ["Always", "OnFailure", "Never"];
            errors.word(policy, &supported, &here.field("restartPolicy"));
        }
        let name = container.text("name");
        if names.contains(name) {
            errors.duplicate(&here.field("name"), name);
        } else if !name.is_empty() {
            names.insert(name);
        }
        host_port_conflicts(std::slice::from_ref(container), &list, errors);
        if policy == Some("Always") {
            lifecycle_and_probes(container, around.spec, &here, errors);
            continue;
        }
        for field in [
            "lifecycle",
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
        ] {
            if container.part(field).is_some() {
                let detail = "may not be set for init containers without restartPolicy=Always";
                errors.forbidden(&here.field(field), detail);
            }
        }
    }
}

/// Checks the containers that are added to running pods.
pub(super) fn ephemeral_containers(
    around: &Surroundings<'_>,
    here: &Here<'_>,
    errors: &mut Errors,
) {
    const FORBIDDEN: [&str; 8] = [
        "ports",
        "resources",
        "resizePolicy",
        "restartPolicy",
        "lifecycle",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
    ];
    let here = here.field("ephemeralContainers");
    let others = ["containers", "initContainers"].into_iter();
    let others = others.flat_map(|list| around.spec.list(list));
    let others: BTreeSet<&str> = others.map(|it| it.text("name")).collect();
    let mut names = others.clone();
    for (index, container) in around.spec.list("ephemeralContainers").iter().enumerate() {
        let here = here.index(index);
        common(container, around, &here, errors);
        image_without_padding(container, &here, errors);
        let name = container.text("name");
        if !names.insert(name) {
            errors.duplicate(&here.field("name"), name);
        }
        let target = container.text("targetContainerName");
        if !target.is_empty() && !others.contains(target) {
            errors.not_found(&here.field("targetContainerName"), target);
        }
        let is_set = |field: &str| match container.part(field) {
            Some(Value::Object(fields)) => field != "resources" || !fields.is_empty(),
            Some(Value::Array(elements)) => !elements.is_empty(),
            other => other.is_some(),
        };
        for field in FORBIDDEN.into_iter().filter(|field| is_set(field)) {
            let detail = "cannot be set for an Ephemeral Container";
            errors.forbidden(&here.field(field), detail);
        }
        let mounts = here.field("volumeMounts");
        for (index, mount) in container.list("volumeMounts").iter().enumerate() {
            for field in ["subPath", "subPathExpr"] {
                if !mount.text(field).is_empty() {
                    let detail = "cannot be set for an Ephemeral Container";
                    errors.forbidden(&mounts.index(index).field(field), detail);
                }
            }
        }
    }
}

/// Images of pods have no space before or after them; those of templates may.
pub(super) fn image_without_padding(container: &Value, here: &Here<'_>, errors: &mut Errors) {
    let image = container.text("image");
    if image.trim().len() != image.len() {
        let rule = "must not have leading or trailing whitespace";
        errors.invalid(&here.field("image"), image, rule);
    }
}

/// What holds for containers of all kinds.
fn common(container: &Value, around: &Surroundings<'_>, here: &Here<'_>, errors: &mut Errors) {
    errors.required_text(dns_label, container.text("name"), &here.field("name"));
    if container.text("image").is_empty() {
        errors.required(&here.field("image"), "");
    }
    let policy = container.text("terminationMessagePolicy");
    let supported = ["File", "FallbackToLogsOnError"];
    errors.required_word(policy, &supported, &here.field("terminationMessagePolicy"));
    ports(container.list("ports"), &here.field("ports"), errors);
    variables(container, here, errors);
    mounts(container, around, &here.field("volumeMounts"), errors);
    devices(container, around, &here.field("volumeDevices"), errors);
    let supported = ["Always", "IfNotPresent", "Never"];
    let policy = container.text("imagePullPolicy");
    errors.required_word(policy, &supported, &here.field("imagePullPolicy"));
    let resources = container.part("resources").unwrap_or(&Value::Null);
    let claims = &around.claims;
    let resources_here = here.field("resources");
    requirements(resources, Place::Container, claims, &resources_here, errors);
    resize_policy(container, around.spec, &here.field("resizePolicy"), errors);
    if let Some(context) = container.part("securityContext") {
        let here = here.field("securityContext");
        security_context(context, around.shares_users_with_host(), &here, errors);
    }
}

fn ports(ports: &[Value], here: &Here<'_>, errors: &mut Errors) {
    let mut names = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let here = here.index(index);
        let name = port.text("name");
        if !name.is_empty() {
            let broken = port_name_errors(name);
            let is_valid = broken.is_empty();
            for rule in broken {
                errors.invalid(&here.field("name"), name, rule);
            }
            if is_valid && !names.insert(name) {
                errors.duplicate(&here.field("name"), name);
            }
        }
        match port.number("containerPort").unwrap_or(0) {
            0 => errors.required(&here.field("containerPort"), ""),
            number => port_number(number, &here.field("containerPort"), errors),
        }
        let host_port = port.number("hostPort").unwrap_or(0);
        if host_port != 0 {
            port_number(host_port, &here.field("hostPort"), errors);
        }
        let protocol = port.text("protocol");
        errors.required_word(protocol, &PROTOCOLS, &here.field("protocol"));
    }
}

fn host_port_conflicts(containers: &[Value], here: &Here<'_>, errors: &mut Errors) {
    let mut taken = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        let container_here = here.index(index);
        let here = container_here.field("ports");
        for (index, port) in container.list("ports").iter().enumerate() {
            let number = port.number("hostPort").unwrap_or(0);
            let (protocol, ip) = (port.text("protocol"), port.text("hostIP"));
            let place = format!("{protocol}/{ip}/{number}");
            if number != 0 && !taken.insert(place.clone()) {
                errors.duplicate(&here.index(index).field("hostPort"), place.as_str());
            }
        }
    }
}

fn variables(container: &Value, here: &Here<'_>, errors: &mut Errors) {
    let env = here.field("env");
    for (index, variable) in container.list("env").iter().enumerate() {
        let here = env.index(index);
        errors.required_text(env_name_errors, variable.text("name"), &here.field("name"));
        if let Some(source) = variable.part("valueFrom") {
            let has_value = !variable.text("value").is_empty();
            value_from(source, has_value, &here.field("valueFrom"), errors);
        }
    }
    let env_from = here.field("envFrom");
    for (index, source) in container.list("envFrom").iter().enumerate() {
        let here = env_from.index(index);
        errors.optional_text(
            env_name_errors,
            source.text("prefix"),
            &here.field("prefix"),
        );
        let refs = ["configMapRef", "secretRef"];
        let given = refs.into_iter().filter(|it| source.part(it).is_some());
        let given: Vec<&str> = given.collect();
        for field in &given {
            let name = source.part(field).map_or("", |it| it.text("name"));
            let here = here.field(field);
            errors.required_text(dns_subdomain, name, &here.field("name"));
        }
        match given.len() {
            0 => {
                let rule = "must specify one of: `configMapRef` or `secretRef`";
                errors.invalid(&env_from, "", rule);
            }
            1 => {}
            _ => errors.invalid(&env_from, "", MORE_THAN_ONE),
        }
    }
}

const MORE_THAN_ONE: &str = "may not have more than one field specified at a time";

/// Fields of its pod that a variable may be set to.
const ENV_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

fn value_from(source: &Value, has_value: bool, here: &Here<'_>, errors: &mut Errors) {
    let mut count = 0;
    if let Some(field) = source.part("fieldRef") {
        count += 1;
        field_ref(field, &ENV_FIELDS, &here.field("fieldRef"), errors);
    }
    if let Some(resource) = source.part("resourceFieldRef") {
        count += 1;
        resource_ref(resource, false, &here.field("resourceFieldRef"), errors);
    }
    if source.part("fileKeyRef").is_some() {
        count += 1;
    }
    for field in ["configMapKeyRef", "secretKeyRef"] {
        if let Some(key) = source.part(field) {
            count += 1;
            let here = here.field(field);
            errors.text(dns_subdomain, key.text("name"), &here.field("name"));
            errors.required_text(config_key_errors, key.text("key"), &here.field("key"));
        }
    }
    if count == 0 {
        let rule = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or \
                    `secretKeyRef`";
        errors.invalid(here, "", rule);
    } else if has_value {
        errors.invalid(here, "", "may not be specified when `value` is not empty");
    } else if count > 1 {
        errors.invalid(here, "", MORE_THAN_ONE);
    }
}

/// A field of the pod: one of `known`, or an annotation or a label of it.
pub(super) fn field_ref(field: &Value, known: &[&str], here: &Here<'_>, errors: &mut Errors) {
    let (api_version, path) = (field.text("apiVersion"), field.text("fieldPath"));
    if api_version.is_empty() {
        errors.required(&here.field("apiVersion"), "");
        return;
    }
    if path.is_empty() {
        errors.required(&here.field("fieldPath"), "");
        return;
    }
    let subscript = path.strip_suffix("']").and_then(|it| it.split_once("['"));
    let mut readable = ENV_FIELDS.iter().chain(&FURTHER_FIELDS);
    match subscript {
        Some(("metadata.annotations", key)) => {
            for rule in label_key_errors(&key.to_lowercase()) {
                errors.invalid(here, key, rule);
            }
        }
        Some(("metadata.labels", key)) => errors.text(label_key_errors, key, here),
        None if known.contains(&path) => {}
        None if readable.any(|it| *it == path) => {
            errors.not_supported(&here.field("fieldPath"), path, known);
        }
        _ => {
            let rule = format!("error converting fieldPath: field label not supported: {path}");
            errors.invalid(&here.field("fieldPath"), path, rule);
        }
    }
}

/// Fields that can be read, but not into variables.
const FURTHER_FIELDS: [&str; 4] = [
    "metadata.annotations",
    "metadata.labels",
    "spec.restartPolicy",
    "spec.schedulerName",
];

/// Resources of containers that can be read.
const READABLE_RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// A resource of a container; in volumes the container must be named.
pub(super) fn resource_ref(field: &Value, in_volume: bool, here: &Here<'_>, errors: &mut Errors) {
    let resource = field.text("resource");
    let is_pages =
        |it: &str| it.starts_with("limits.hugepages-") || it.starts_with("requests.hugepages-");
    if in_volume && field.text("containerName").is_empty() {
        errors.required(&here.field("containerName"), "");
    } else if resource.is_empty() {
        errors.required(&here.field("resource"), "");
    } else if !is_pages(resource) {
        errors.word(resource, &READABLE_RESOURCES, &here.field("resource"));
    }
    let divisor = field
        .part("divisor")
        .and_then(crate::fields_of::quantity_of);
    let divisor = divisor.filter(|it| !it.is_zero());
    if let Some(divisor) = divisor {
        check_divisor(resource, &divisor, &here.field("divisor"), errors);
    }
}

fn check_divisor(resource: &str, divisor: &Quantity, here: &Here<'_>, errors: &mut Errors) {
    const SIZES: [&str; 13] = [
        "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
    ];
    let divisor = divisor.to_string();
    let kind = match resource {
        "limits.cpu" | "requests.cpu" => {
            if !["1m", "1"].contains(&divisor.as_str()) {
                let rule = "only divisor's values 1m and 1 are supported with the cpu resource";
                errors.invalid(here, resource, rule);
            }
            return;
        }
        "limits.memory" | "requests.memory" => "memory",
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => "local ephemeral storage",
        resource if resource.contains(".hugepages-") => "hugepages",
        _ => return,
    };
    if !SIZES.contains(&divisor.as_str()) {
        let sizes = SIZES.join(", ");
        let rule = format!("only divisor's values {sizes} are supported with the {kind} resource");
        errors.invalid(here, resource, rule);
    }
}

fn mounts(container: &Value, around: &Surroundings<'_>, here: &Here<'_>, errors: &mut Errors) {
    let mut paths = BTreeSet::new();
    let devices = container.list("volumeDevices").iter();
    let device_names: BTreeSet<&str> = devices.clone().map(|it| it.text("name")).collect();
    let device_paths: BTreeSet<&str> = devices.map(|it| it.text("devicePath")).collect();
    for (index, mount) in container.list("volumeMounts").iter().enumerate() {
        let list = here;
        let here = here.index(index);
        let (name, path) = (mount.text("name"), mount.text("mountPath"));
        if name.is_empty() {
            errors.required(&here.field("name"), "");
        }
        let volume = around.volumes.get(name);
        if volume.is_none() {
            errors.not_found(&here.field("name"), name);
        }
        if path.is_empty() {
            errors.required(&here.field("mountPath"), "");
        }
        if !paths.insert(path) {
            errors.invalid(&here.field("mountPath"), path, "must be unique");
        }
        if device_names.contains(name) {
            let rule = "must not already exist in volumeDevices";
            errors.invalid(&here.field("name"), name, rule);
        }
        if device_paths.contains(path) {
            let rule = "must not already exist as a path in volumeDevices";
            errors.invalid(&here.field("mountPath"), path, rule);
        }
        sub_paths(mount, list, &here, errors);
        propagation(mount, container, list, errors);
    }
}

/// Paths inside a volume. Mistakes in them are reported without the index of the mount.
fn sub_paths(mount: &Value, list: &Here<'_>, here: &Here<'_>, errors: &mut Errors) {
    let (path, expression) = (mount.text("subPath"), mount.text("subPathExpr"));
    if !path.is_empty() {
        descending_path(path, &list.field("subPath"), errors);
    }
    if !expression.is_empty() {
        if !path.is_empty() {
            let rule = "subPathExpr and subPath are mutually exclusive";
            errors.invalid(&here.field("subPathExpr"), expression, rule);
        }
        descending_path(expression, &list.field("subPathExpr"), errors);
    }
}

fn propagation(mount: &Value, container: &Value, list: &Here<'_>, errors: &mut Errors) {
    let Some(propagation) = mount.some_text("mountPropagation") else {
        return;
    };
    let supported = ["Bidirectional", "HostToContainer", "None"];
    let here = list.field("mountPropagation");
    errors.word(propagation, &supported, &here);
    let context = container.part("securityContext").unwrap_or(&Value::Null);
    if propagation == "Bidirectional" && !context.flag("privileged") {
        let detail = "Bidirectional mount propagation is available only to privileged containers";
        errors.forbidden(&here, detail);
    }
}

fn devices(container: &Value, around: &Surroundings<'_>, here: &Here<'_>, errors: &mut Errors) {
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    let mounts = container.list("volumeMounts").iter();
    let mount_names: BTreeSet<&str> = mounts.clone().map(|it| it.text("name")).collect();
    let mount_paths: BTreeSet<&str> = mounts.map(|it| it.text("mountPath")).collect();
    for (index, device) in container.list("volumeDevices").iter().enumerate() {
        let here = here.index(index);
        let (name, path) = (device.text("name"), device.text("devicePath"));
        let (name_here, path_here) = (here.field("name"), here.field("devicePath"));
        if name.is_empty() {
            errors.required(&name_here, "");
        }
        if names.contains(name) {
            errors.invalid(&name_here, name, "must be unique");
        }
        match around.volumes.get(name) {
            None => errors.not_found(&name_here, name),
            Some(volume) => {
                let mut kinds = ["persistentVolumeClaim", "ephemeral"].into_iter();
                if !kinds.any(|kind| volume.part(kind).is_some()) {
                    let rule = "can only use volume source type of PersistentVolumeClaim or \
                                Ephemeral for block mode";
                    errors.invalid(&name_here, name, rule);
                }
            }
        }
        if path.is_empty() {
            errors.required(&path_here, "");
        }
        if paths.contains(path) {
            errors.invalid(&path_here, path, "must be unique");
        }
        let mut steps = Errors::default();
        no_back_steps(path, &path_here, &mut steps);
        if steps.0.is_empty() {
            paths.insert(path);
        } else {
            errors.invalid(&path_here, path, "can not contain backsteps ('..')");
        }
        if mount_names.contains(name) {
            let rule = "must not already exist in volumeMounts";
            errors.invalid(&name_here, name, rule);
        }
        if mount_paths.contains(path) {
            let rule = "must not already exist as a path in volumeMounts";
            errors.invalid(&path_here, path, rule);
        }
        if !name.is_empty() {
            names.insert(name);
        }
    }
}

fn resize_policy(container: &Value, spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, policy) in container.list("resizePolicy").iter().enumerate() {
        let (name, restart) = (policy.text("resourceName"), policy.text("restartPolicy"));
        if !seen.insert(name) {
            errors.duplicate(&here.index(index), name);
        }
        errors.required_word(name, &["cpu", "memory"], here);
        errors.required_word(restart, &["NotRequired", "RestartContainer"], here);
        if spec.text("restartPolicy") == "Never" && restart != "NotRequired" {
            let rule = "must be 'NotRequired' when `restartPolicy` is 'Never'";
            errors.invalid(here, restart, rule);
        }
    }
}

fn lifecycle_and_probes(container: &Value, spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    let grace_seconds = spec.number("terminationGracePeriodSeconds");
    if let Some(lifecycle) = container.part("lifecycle") {
        let here = here.field("lifecycle");
        for field in ["postStart", "preStop"] {
            if let Some(action) = lifecycle.part(field) {
                handler(action, grace_seconds, &here.field(field), errors);
            }
        }
    }
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(given) = container.part(field) else {
            continue;
        };
        let here = here.field(field);
        probe(given, &here, errors);
        let threshold = given.number("successThreshold").unwrap_or(0);
        if field != "readinessProbe" && threshold != 1 {
            errors.invalid(&here.field("successThreshold"), threshold, "must be 1");
        }
        if field == "readinessProbe"
            && let Some(seconds) = given.part("terminationGracePeriodSeconds")
        {
            let rule = "must not be set for readinessProbes";
            errors.invalid(&here.field("terminationGracePeriodSeconds"), seconds, rule);
        }
    }
}

fn probe(probe: &Value, here: &Here<'_>, errors: &mut Errors) {
    handler(probe, None, here, errors);
    for field in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        errors.not_negative(probe, field, here);
    }
    if let Some(seconds) = probe.number("terminationGracePeriodSeconds")
        && seconds <= 0
    {
        let here = here.field("terminationGracePeriodSeconds");
        errors.invalid(&here, seconds, "must be greater than 0");
    }
}

/// Checks what is done: one thing, and one only.
fn handler(handler: &Value, grace_seconds: Option<i64>, here: &Here<'_>, errors: &mut Errors) {
    let mut is_given = false;
    for field in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let Some(action) = handler.part(field) else {
            continue;
        };
        let here = here.field(field);
        if is_given {
            errors.forbidden(&here, "may not specify more than 1 handler type");
            continue;
        }
        is_given = true;
        match field {
            "exec" => {
                if action.list("command").is_empty() {
                    errors.required(&here.field("command"), "");
                }
            }
            "httpGet" => http_get(action, &here, errors),
            "sleep" => sleep(action, grace_seconds, &here, errors),
            _ => port_number_or_name(action.part("port"), &here.field("port"), errors),
        }
    }
    if !is_given {
        errors.required(here, "must specify a handler type");
    }
}

fn http_get(action: &Value, here: &Here<'_>, errors: &mut Errors) {
    if action.text("path").is_empty() {
        errors.required(&here.field("path"), "");
    }
    port_number_or_name(action.part("port"), &here.field("port"), errors);
    errors.word(
        action.text("scheme"),
        &["HTTP", "HTTPS"],
        &here.field("scheme"),
    );
    for header in action.list("httpHeaders") {
        let here = here.field("httpHeaders");
        errors.text(header_name_errors, header.text("name"), &here);
    }
}

fn sleep(action: &Value, grace_seconds: Option<i64>, here: &Here<'_>, errors: &mut Errors) {
    let seconds = action.number("seconds").unwrap_or(0);
    if let Some(grace_seconds) = grace_seconds
        && !(0..=grace_seconds).contains(&seconds)
    {
        let rule = format!(
            "must be non-negative and less than terminationGracePeriodSeconds ({grace_seconds})"
        );
        errors.invalid(here, seconds, rule);
    }
}
