//! Security contexts of pods and containers, and what an operating system rules out.

use std::collections::BTreeSet;

use serde_json::Value;

use super::container::LISTS;
use super::errors::{Errors, descending_path, dns_subdomain, identity};
use crate::diagnostic::Here;
use crate::field_error::FieldError;
use crate::fields_of::FieldsOf;

/// Checks the context of a pod; `spec` is its spec.
pub(super) fn pod_security_context(
    context: &Value,
    spec: &Value,
    here: &Here<'_>,
    errors: &mut Errors,
) {
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        identity(context, field, here, errors);
    }
    let groups = here.field("supplementalGroups");
    for (index, group) in context.list("supplementalGroups").iter().enumerate() {
        let id = group.as_i64().unwrap_or(0);
        if !(0..=i64::from(i32::MAX)).contains(&id) {
            let rule = super::errors::between(0, i32::MAX.into());
            errors.invalid(&groups.index(index), id, rule);
        }
    }
    if spec.flag("shareProcessNamespace") && spec.flag("hostPID") {
        let rule = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(&here.field("shareProcessNamespace"), true, rule);
    }
    sysctls(context, spec, &here.field("sysctls"), errors);
    if let Some(policy) = context.some_text("fsGroupChangePolicy") {
        let here = here.field("fsGroupChangePolicy");
        errors.word(policy, &["Always", "OnRootMismatch"], &here);
    }
    profiles(context, here, errors);
    if let Some(policy) = context.some_text("supplementalGroupsPolicy") {
        let here = here.field("supplementalGroupsPolicy");
        errors.word(policy, &["Merge", "Strict"], &here);
    }
    if let Some(policy) = context.some_text("seLinuxChangePolicy") {
        let here = here.field("seLinuxChangePolicy");
        errors.word(policy, &["MountOption", "Recursive"], &here);
    }
}

fn sysctls(context: &Value, spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    let mut names = BTreeSet::new();
    for (index, sysctl) in context.list("sysctls").iter().enumerate() {
        let here = here.index(index);
        let here = here.field("name");
        let name = sysctl.text("name");
        if name.is_empty() {
            errors.required(&here, "");
        } else if !is_sysctl(name) {
            let rule = "must have at most 253 characters and match regex \
                        ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            errors.invalid(&here, name, rule);
        } else if names.contains(name) {
            errors.duplicate(&here, name);
        }
        names.insert(name);
        let name_of_old = name.replace('/', ".");
        let is_of = |prefix: &str| name_of_old.starts_with(prefix);
        if spec.flag("hostNetwork") && is_of("net.") {
            let rule = "may not be specified when 'hostNetwork' is true";
            errors.invalid(&here, name, rule);
        }
        let is_of_ipc = is_of("kernel.shm") || is_of("kernel.msg") || is_of("fs.mqueue.");
        if spec.flag("hostIPC") && (is_of_ipc || name_of_old == "kernel.sem") {
            let rule = "may not be specified when 'hostIPC' is true";
            errors.invalid(&here, name, rule);
        }
    }
}

fn is_sysctl(name: &str) -> bool {
    let outer = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= 253
        && name.split(['.', '/']).all(|part| {
            let bytes = part.as_bytes();
            let ends = [bytes.first(), bytes.last()];
            ends.into_iter().all(|end| end.is_some_and(|&it| outer(it)))
                && bytes
                    .iter()
                    .all(|&it| outer(it) || matches!(it, b'-' | b'_'))
        })
}

/// Profiles that pods and containers may have.
fn profiles(context: &Value, here: &Here<'_>, errors: &mut Errors) {
    if let Some(profile) = context.part("seccompProfile") {
        seccomp_profile(profile, &here.field("seccompProfile"), errors);
    }
    if let Some(options) = context.part("windowsOptions") {
        windows_options(options, &here.field("windowsOptions"), errors);
    }
    if let Some(profile) = context.part("appArmorProfile") {
        app_armor_profile(profile, &here.field("appArmorProfile"), errors);
    }
}

const PROFILE_TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];

fn seccomp_profile(profile: &Value, here: &Here<'_>, errors: &mut Errors) {
    let path_here = here.field("localhostProfile");
    match profile.text("type") {
        "" => {
            let detail = "type is required when seccompProfile is set";
            errors.required(&here.field("type"), detail);
        }
        word => errors.word(word, &PROFILE_TYPES, &here.field("type")),
    }
    match (profile.text("type"), profile.some_text("localhostProfile")) {
        ("Localhost", None) => {
            errors.required(&path_here, "must be set when seccomp type is Localhost");
        }
        ("Localhost", Some(path)) => descending_path(path, &path_here, errors),
        (_, Some(_)) => {
            let rule = "can only be set when seccomp type is Localhost";
            errors.invalid(&path_here, profile, rule);
        }
        (_, None) => {}
    }
}

fn app_armor_profile(profile: &Value, here: &Here<'_>, errors: &mut Errors) {
    const PATH_BYTES_MAX: usize = 4095;
    const DEMANDED: &str = "must be set when AppArmor type is Localhost";
    let path_here = here.field("localhostProfile");
    let path = profile.some_text("localhostProfile");
    match (profile.text("type"), path) {
        ("Localhost", None) => errors.required(&path_here, DEMANDED),
        ("Localhost", Some(path)) => {
            if path.trim() != path {
                errors.invalid(&path_here, path, "must not be padded with whitespace");
            } else if path.is_empty() {
                errors.required(&path_here, DEMANDED);
            }
            if path.len() > PATH_BYTES_MAX {
                errors
                    .0
                    .push(FieldError::too_long(&path_here, PATH_BYTES_MAX));
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(path)) => {
            let rule = "can only be set when AppArmor type is Localhost";
            errors.invalid(&path_here, path, rule);
        }
        ("RuntimeDefault" | "Unconfined", None) => {}
        ("", _) => {
            let detail = "type is required when appArmorProfile is set";
            errors.required(&here.field("type"), detail);
        }
        (word, _) => errors.word(word, &PROFILE_TYPES, &here.field("type")),
    }
}

fn windows_options(options: &Value, here: &Here<'_>, errors: &mut Errors) {
    const CREDENTIAL_BYTES_MAX: usize = 64 * 1024;
    if let Some(name) = options.some_text("gmsaCredentialSpecName") {
        errors.text(dns_subdomain, name, &here.field("gmsaCredentialSpecName"));
    }
    if let Some(spec) = options.some_text("gmsaCredentialSpec") {
        let here = here.field("gmsaCredentialSpec");
        if spec.is_empty() {
            errors.invalid(&here, spec, "gmsaCredentialSpec cannot be an empty string");
        } else if spec.len() > CREDENTIAL_BYTES_MAX {
            let rule = "gmsaCredentialSpec size must be under 64 KiB";
            errors.invalid(&here, spec, rule);
        }
    }
    if let Some(name) = options.some_text("runAsUserName") {
        let here = here.field("runAsUserName");
        if name.is_empty() {
            errors.invalid(&here, name, "runAsUserName cannot be an empty string");
        } else if name.contains(|c: char| c.is_ascii_control()) {
            let rule = "runAsUserName cannot contain control characters";
            errors.invalid(&here, name, rule);
        } else if name.matches('\\').count() > 1 {
            let rule = "runAsUserName cannot contain more than one backslash";
            errors.invalid(&here, name, rule);
        }
    }
}

/// Checks the context of a container. `on_host_users`: its users are those of the host.
pub(super) fn security_context(
    context: &Value,
    on_host_users: bool,
    here: &Here<'_>,
    errors: &mut Errors,
) {
    for field in ["runAsUser", "runAsGroup"] {
        identity(context, field, here, errors);
    }
    if let Some(mount) = context.some_text("procMount") {
        let here = here.field("procMount");
        errors.word(mount, &["Default", "Unmasked"], &here);
        if on_host_users && mount == "Unmasked" {
            let rule = "`hostUsers` must be false to use `Unmasked`";
            errors.invalid(&here, mount, rule);
        }
    }
    if let Some(profile) = context.part("seccompProfile") {
        seccomp_profile(profile, &here.field("seccompProfile"), errors);
    }
    if context.some_flag("allowPrivilegeEscalation") == Some(false) {
        if context.flag("privileged") {
            let rule = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.invalid(here, context, rule);
        }
        let capabilities = context.part("capabilities").unwrap_or(&Value::Null);
        for _ in capabilities
            .texts("add")
            .filter(|it| *it == "CAP_SYS_ADMIN")
        {
            let rule = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` \
                        CAP_SYS_ADMIN";
            errors.invalid(here, context, rule);
        }
    }
    if let Some(options) = context.part("windowsOptions") {
        windows_options(options, &here.field("windowsOptions"), errors);
    }
    if let Some(profile) = context.part("appArmorProfile") {
        app_armor_profile(profile, &here.field("appArmorProfile"), errors);
    }
}

/// Checks what goes with users of the pod's own.
pub(super) fn host_users(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    if spec.some_flag("hostUsers").unwrap_or(true) {
        return;
    }
    for (field, shown) in [
        ("hostNetwork", "hostNetwork"),
        ("hostPID", "HostPID"),
        ("hostIPC", "HostIPC"),
    ] {
        if spec.flag(field) {
            let detail = "when `pod.Spec.HostUsers` is false";
            errors.forbidden(&here.field(shown), detail);
        }
    }
}

/// Checks that containers which are processes of a Windows host are so together.
pub(super) fn host_processes(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    let of = |holder: &Value| {
        let context = holder.part("securityContext")?;
        context.part("windowsOptions")?.some_flag("hostProcess")
    };
    let of_pod = of(spec);
    let (mut all, mut processes) = (0, 0);
    for list in LISTS {
        let list_here = here.field(list);
        for (index, container) in spec.list(list).iter().enumerate() {
            let own = of(container);
            if let (Some(of_pod), Some(own)) = (of_pod, own)
                && of_pod != own
            {
                let rule = format!(
                    "pod hostProcess value must be identical if both are specified, was {of_pod}"
                );
                let here = list_here.index(index);
                let here = here.field("securityContext");
                let here = here.field("windowsOptions");
                errors.invalid(&here.field("hostProcess"), own, rule);
            }
            all += 1;
            processes += i32::from(own.or(of_pod) == Some(true));
        }
    }
    if processes > 0 && processes != all {
        let rule = "If pod contains any hostProcess containers then all containers must be \
                    HostProcess containers";
        errors.invalid(here, "", rule);
    }
    if processes > 0 && !spec.flag("hostNetwork") {
        let rule = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.invalid(&here.field("hostNetwork"), false, rule);
    }
}

/// Checks the operating system of a pod, and what it has no use for.
pub(super) fn operating_system(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    let Some(os) = spec.part("os") else {
        return;
    };
    let os_here = here.field("os");
    match os.text("name") {
        "" => errors.required(&os_here.field("name"), "cannot be empty"),
        "linux" => {
            let detail = "windows options cannot be set for a linux pod";
            forbid_in_contexts(spec, &["windowsOptions"], &[], detail, here, errors);
        }
        "windows" => forbid_for_windows(spec, here, errors),
        name => errors.not_supported(&os_here, name, &["linux", "windows"]),
    }
}

fn forbid_for_windows(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    const DETAIL: &str = "cannot be set for a windows pod";
    const OF_POD: [&str; 8] = [
        "seccompProfile",
        "fsGroup",
        "fsGroupChangePolicy",
        "sysctls",
        "runAsUser",
        "runAsGroup",
        "supplementalGroups",
        "supplementalGroupsPolicy",
    ];
    const OF_CONTAINER: [&str; 10] = [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "capabilities",
        "readOnlyRootFilesystem",
        "privileged",
        "allowPrivilegeEscalation",
        "procMount",
        "runAsUser",
        "runAsGroup",
    ];
    let context_here = here.field("securityContext");
    let context = spec.part("securityContext").unwrap_or(&Value::Null);
    for field in ["appArmorProfile", "seLinuxOptions"] {
        if context.part(field).is_some() {
            errors.forbidden(&context_here.field(field), DETAIL);
        }
    }
    for field in ["hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"] {
        let is_set = match field {
            "hostPID" | "hostIPC" => spec.flag(field),
            field => spec.part(field).is_some(),
        };
        if is_set {
            errors.forbidden(&here.field(field), DETAIL);
        }
    }
    let mut last = OF_POD.to_vec();
    last.push("seLinuxChangePolicy");
    forbid_in_contexts(spec, &last, &OF_CONTAINER, DETAIL, here, errors);
}

/// Forbids fields of the pod's context and, as far as they are named for containers or the same
/// for both, of theirs.
fn forbid_in_contexts(
    spec: &Value,
    of_pod: &[&str],
    of_containers: &[&str],
    detail: &str,
    here: &Here<'_>,
    errors: &mut Errors,
) {
    let of_containers = if of_containers.is_empty() {
        of_pod
    } else {
        of_containers
    };
    let mut forbid = |holder: &Value, fields: &[&str], here: &Here<'_>| {
        let context = holder.part("securityContext").unwrap_or(&Value::Null);
        let here = here.field("securityContext");
        for field in fields.iter().filter(|it| context.part(it).is_some()) {
            errors.forbidden(&here.field(field), detail);
        }
    };
    forbid(spec, of_pod, here);
    for list in LISTS {
        let list_here = here.field(list);
        for (index, container) in spec.list(list).iter().enumerate() {
            forbid(container, of_containers, &list_here.index(index));
        }
    }
}
