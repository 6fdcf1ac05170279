//! Which admission plugins run: the flags `--enable-admission-plugins`,
//! `--disable-admission-plugins` and the old `--admission-control`.
//!
//! Some plugins are on by default. The first two flags add to them and take away from them;
//! the old flag, which goes with neither of the others, names all that are to run. In what
//! order plugins are named never matters: they run in an order of their own.
//!
//! Sources: `pkg/kubeapiserver/options/{plugins,admission}.go` and
//! `k8s.io/apiserver/pkg/server/options/admission.go`, Kubernetes 1.36.

use std::collections::BTreeSet;

use outrank_api::schema::nearest;

/// Every plugin of kube-apiserver 1.36 in the order in which they run, and whether it is on by
/// default. Those that change objects all run before those that only look at them.
pub const PLUGINS: [(&str, bool); 41] = [
    ("AlwaysAdmit", false),
    ("NamespaceAutoProvision", false),
    ("NamespaceLifecycle", true),
    ("NamespaceExists", false),
    ("LimitPodHardAntiAffinityTopology", false),
    ("LimitRanger", true),
    ("ServiceAccount", true),
    ("NodeRestriction", false),
    ("TaintNodesByCondition", true),
    ("AlwaysPullImages", false),
    ("ImagePolicyWebhook", false),
    ("PodSecurity", true),
    ("PodNodeSelector", false),
    ("Priority", true),
    ("DefaultTolerationSeconds", true),
    ("PodTolerationRestriction", false),
    ("EventRateLimit", false),
    ("ExtendedResourceToleration", false),
    ("DefaultStorageClass", true),
    ("StorageObjectInUseProtection", true),
    ("PodGroupProtection", true),
    ("OwnerReferencesPermissionEnforcement", false),
    ("PersistentVolumeClaimResize", true),
    ("RuntimeClass", true),
    ("CertificateApproval", true),
    ("CertificateSigning", true),
    ("ClusterTrustBundleAttest", true),
    ("CertificateSubjectRestriction", true),
    ("DefaultIngressClass", true),
    ("DenyServiceExternalIPs", false),
    ("PodTopologyLabels", true),
    ("PodGroupWorkloadExists", true),
    ("NodeDeclaredFeatureValidator", true),
    ("JobValidation", true),
    ("PodResizeValidator", true),
    ("MutatingAdmissionPolicy", true),
    ("MutatingAdmissionWebhook", true),
    ("ValidatingAdmissionPolicy", true),
    ("ValidatingAdmissionWebhook", true),
    ("ResourceQuota", true),
    ("AlwaysDeny", false),
];

/// What the flags say; `None` where a flag is not given. A flag that is given several times
/// says all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginFlags {
    /// `--enable-admission-plugins`.
    pub enable: Option<Vec<String>>,
    /// `--disable-admission-plugins`.
    pub disable: Option<Vec<String>>,
    /// `--admission-control`.
    pub admission_control: Option<Vec<String>>,
}

/// The names in a flag's value, which are separated by commas.
///
/// ```
/// use outrank_admission::plugin_names::names_in;
///
/// assert_eq!(names_in("Priority,ResourceQuota"), ["Priority", "ResourceQuota"]);
/// assert!(names_in("").is_empty());
/// ```
pub fn names_in(value: &str) -> Vec<String> {
    match value {
        "" => Vec::new(),
        names => names.split(',').map(str::to_owned).collect(),
    }
}

impl PluginFlags {
    /// The plugins that run, in the order in which they do.
    ///
    /// # Errors
    /// All that is wrong with the flags.
    ///
    /// ```
    /// use outrank_admission::plugin_names::{PluginFlags, names_in};
    ///
    /// let flags = PluginFlags {
    ///     admission_control: Some(names_in("ResourceQuota,Priority")),
    ///     ..PluginFlags::default()
    /// };
    /// assert_eq!(flags.plugins().unwrap(), ["Priority", "ResourceQuota"]);
    ///
    /// let flags = PluginFlags { enable: Some(names_in("Quota")), ..PluginFlags::default() };
    /// assert_eq!(
    ///     flags.plugins().unwrap_err(),
    ///     ["enable-admission-plugins plugin \"Quota\" is unknown"],
    /// );
    /// ```
    pub fn plugins(&self) -> Result<Vec<&'static str>, Vec<String>> {
        let errors = self.errors();
        if !errors.is_empty() {
            return Err(errors);
        }
        let has = |names: &Option<Vec<String>>, plugin: &str| {
            names.iter().flatten().any(|name| name == plugin)
        };
        let runs = |plugin: &str, by_default: bool| match &self.admission_control {
            Some(_) => has(&self.admission_control, plugin),
            None => has(&self.enable, plugin) || by_default && !has(&self.disable, plugin),
        };
        let plugins = PLUGINS.into_iter();
        let plugins = plugins.filter(|(plugin, by_default)| runs(plugin, *by_default));
        Ok(plugins.map(|(plugin, _)| plugin).collect())
    }

    fn errors(&self) -> Vec<String> {
        let mut errors = Vec::new();
        if self.admission_control.is_some() && (self.enable.is_some() || self.disable.is_some()) {
            errors.push(
                "admission-control and enable-admission-plugins/disable-admission-plugins flags \
                 are mutually exclusive"
                    .to_owned(),
            );
        }
        for (flag, names) in [
            ("admission-control", &self.admission_control),
            ("enable-admission-plugins", &self.enable),
            ("disable-admission-plugins", &self.disable),
        ] {
            let unknown = names.iter().flatten().filter(|name| !is_plugin(name));
            errors.extend(unknown.map(|name| {
                let suggestion = suggestion(name);
                format!("{flag} plugin {name:?} is unknown{suggestion}")
            }));
        }
        let enabled: BTreeSet<&String> = self.enable.iter().flatten().collect();
        let disabled: BTreeSet<&String> = self.disable.iter().flatten().collect();
        let both: Vec<&str> = enabled
            .intersection(&disabled)
            .map(|name| name.as_str())
            .collect();
        if !both.is_empty() {
            let names = both.join(" ");
            errors.push(format!(
                "[{names}] in enable-admission-plugins and disable-admission-plugins overlapped"
            ));
        }
        errors
    }
}

/// Whether kube-apiserver has a plugin of that name.
pub(crate) fn is_plugin(name: &str) -> bool {
    PLUGINS.iter().any(|(plugin, _)| *plugin == name)
}

/// `; did you mean ...?`, or nothing if no plugin has a name like that.
pub(crate) fn suggestion(name: &str) -> String {
    let names = PLUGINS.iter().map(|(plugin, _)| *plugin);
    match nearest(name, names) {
        Some(plugin) => format!("; did you mean {plugin}?"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(enable: &str, disable: &str) -> PluginFlags {
        PluginFlags {
            enable: Some(names_in(enable)),
            disable: Some(names_in(disable)),
            admission_control: None,
        }
    }

    #[test]
    fn flags_add_to_the_default_and_take_away() {
        let by_default = PluginFlags::default().plugins().unwrap();
        assert!(by_default.contains(&"Priority") && by_default.contains(&"ResourceQuota"));
        assert!(!by_default.contains(&"AlwaysDeny"));
        let plugins = flags("AlwaysDeny,Priority", "ResourceQuota")
            .plugins()
            .unwrap();
        assert!(plugins.contains(&"Priority") && !plugins.contains(&"ResourceQuota"));
        assert_eq!(plugins.last(), Some(&"AlwaysDeny"));
        assert_eq!(plugins.len(), by_default.len());
    }

    #[test]
    fn all_that_is_wrong_is_told() {
        let mut flags = flags("priority,LimitRanger", "LimitRanger,Nonsense");
        flags.admission_control = Some(names_in("ResourceQuotas"));
        assert_eq!(
            flags.plugins().unwrap_err(),
            [
                "admission-control and enable-admission-plugins/disable-admission-plugins flags \
                 are mutually exclusive",
                "admission-control plugin \"ResourceQuotas\" is unknown; did you mean \
                 ResourceQuota?",
                "enable-admission-plugins plugin \"priority\" is unknown; did you mean Priority?",
                "disable-admission-plugins plugin \"Nonsense\" is unknown",
                "[LimitRanger] in enable-admission-plugins and disable-admission-plugins \
                 overlapped",
            ]
        );
    }
}
