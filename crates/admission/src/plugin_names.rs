//! Which admission plugins there are, in which order they come, and which are enabled.
//!
//! kube-apiserver runs some plugins unless told otherwise. `--enable-admission-plugins` adds to
//! them, `--disable-admission-plugins` takes away, and the old `--admission-control` names all
//! that run. The order on the command line does not matter.
//!
//! Sources, Kubernetes 1.36: `pkg/kubeapiserver/options/{plugins,admission}.go`,
//! `k8s.io/apiserver/pkg/server/options/admission.go`.
//!
//! ```
//! use outrank_admission::PluginSelection;
//!
//! let selection = PluginSelection {
//!     enable: vec!["AlwaysPullImages".into()],
//!     disable: vec!["Priority".into()],
//!     ..Default::default()
//! };
//! let enabled = selection.enabled().unwrap();
//! assert!(enabled.contains(&"AlwaysPullImages") && !enabled.contains(&"Priority"));
//! ```

/// All plugins of kube-apiserver, in the order in which a request passes them.
pub const ORDER: [&str; 37] = [
    "AlwaysAdmit",
    "NamespaceAutoProvision",
    "NamespaceLifecycle",
    "NamespaceExists",
    "LimitPodHardAntiAffinityTopology",
    "LimitRanger",
    "ServiceAccount",
    "NodeRestriction",
    "TaintNodesByCondition",
    "AlwaysPullImages",
    "ImagePolicyWebhook",
    "PodSecurity",
    "PodNodeSelector",
    "Priority",
    "DefaultTolerationSeconds",
    "PodTolerationRestriction",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "DefaultStorageClass",
    "StorageObjectInUseProtection",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeClaimResize",
    "RuntimeClass",
    "CertificateApproval",
    "CertificateSigning",
    "ClusterTrustBundleAttest",
    "CertificateSubjectRestriction",
    "DefaultIngressClass",
    "DenyServiceExternalIPs",
    "PodTopologyLabels",
    "NodeDeclaredFeatureValidator",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
    "AlwaysDeny",
];

/// Plugins that are off unless they are enabled.
const OFF: [&str; 14] = [
    "AlwaysAdmit",
    "AlwaysDeny",
    "AlwaysPullImages",
    "DenyServiceExternalIPs",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "ImagePolicyWebhook",
    "LimitPodHardAntiAffinityTopology",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "NodeRestriction",
    "OwnerReferencesPermissionEnforcement",
    "PodNodeSelector",
    "PodTolerationRestriction",
];

/// What the command line says of plugins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginSelection {
    /// `--enable-admission-plugins`.
    pub enable: Vec<String>,
    /// `--disable-admission-plugins`.
    pub disable: Vec<String>,
    /// `--admission-control`: exactly these. Goes with neither of the others.
    pub only: Option<Vec<String>>,
}

impl PluginSelection {
    /// The plugins that are enabled, in their order.
    ///
    /// # Errors
    ///
    /// What is wrong, in kube-apiserver's words: all of it.
    pub fn enabled(&self) -> Result<Vec<&'static str>, Vec<String>> {
        let errors = self.errors();
        if !errors.is_empty() {
            return Err(errors);
        }
        let has = |names: &[String], name: &str| names.iter().any(|it| it == name);
        let is_enabled = |name: &&str| match &self.only {
            Some(only) => has(only, name),
            None => has(&self.enable, name) || !has(&self.disable, name) && !OFF.contains(name),
        };
        Ok(ORDER.into_iter().filter(is_enabled).collect())
    }

    fn errors(&self) -> Vec<String> {
        let mut errors = Vec::new();
        if self.only.is_some() && !(self.enable.is_empty() && self.disable.is_empty()) {
            errors.push(
                "admission-control and enable-admission-plugins/disable-admission-plugins flags \
                 are mutually exclusive"
                    .to_owned(),
            );
        }
        let only = self.only.as_deref().unwrap_or_default();
        for (flag, names) in [
            ("admission-control", only),
            ("enable-admission-plugins", self.enable.as_slice()),
            ("disable-admission-plugins", self.disable.as_slice()),
        ] {
            let unknown = names.iter().filter(|name| !ORDER.contains(&name.as_str()));
            errors.extend(unknown.map(|name| format!("{flag} plugin {name:?} is unknown")));
        }
        let both = self
            .enable
            .iter()
            .filter(|name| self.disable.contains(name));
        let mut both: Vec<&str> = both.map(String::as_str).collect();
        both.sort_unstable();
        both.dedup();
        if !both.is_empty() {
            let both = both.join(" ");
            errors.push(format!(
                "[{both}] in enable-admission-plugins and disable-admission-plugins overlapped"
            ));
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn without_a_word_the_usual_plugins_run() {
        let enabled = PluginSelection::default()
            .enabled()
            .expect("nothing is wrong");
        for name in [
            "NamespaceLifecycle",
            "LimitRanger",
            "Priority",
            "DefaultTolerationSeconds",
            "RuntimeClass",
        ] {
            assert!(enabled.contains(&name), "{name}");
        }
        assert_eq!(enabled.last(), Some(&"ResourceQuota"));
        assert!(!enabled.contains(&"AlwaysDeny"));
    }

    #[test]
    fn the_old_flag_names_all_that_run() {
        let selection = PluginSelection {
            only: Some(names(&["ResourceQuota", "Priority"])),
            ..Default::default()
        };
        assert_eq!(selection.enabled(), Ok(vec!["Priority", "ResourceQuota"]));
    }

    #[test]
    fn all_mistakes_are_told_at_once() {
        let selection = PluginSelection {
            enable: names(&["Priority", "Nonsense"]),
            disable: names(&["Priority"]),
            only: Some(Vec::new()),
        };
        assert_eq!(
            selection.enabled().unwrap_err(),
            [
                "admission-control and enable-admission-plugins/disable-admission-plugins flags \
                 are mutually exclusive",
                "enable-admission-plugins plugin \"Nonsense\" is unknown",
                "[Priority] in enable-admission-plugins and disable-admission-plugins overlapped",
            ]
        );
    }
}
