//! The plugins that a request passes, one after the other.
//!
//! Admission has two phases. In the first each plugin may change the object; then the object is
//! validated; in the second each plugin may only refuse it. A plugin that refuses ends the
//! request with a [`Status`]. The order is fixed ([`crate::plugin_names`]), whatever the order
//! on the command line, and ResourceQuota comes last, so that a request that another plugin
//! refuses is not counted.
//!
//! [`AdmissionChain::default_plugins`] has the plugins that are here; further ones join with
//! [`AdmissionChain::with`] and are put in their place. What plugins look up is in a
//! [`Cluster`].
//!
//! Sources, Kubernetes 1.36: `k8s.io/apiserver/pkg/admission/{chain,errors}.go`.
//!
//! ```
//! use outrank_admission::chain::{AdmissionChain, Attributes, Cluster, Operation};
//! use outrank_admission::{PluginFlags, PriorityResolver};
//! use outrank_api::decode::{Object, ObjectKind};
//! use outrank_api::types::Pod;
//!
//! struct NoClasses(PriorityResolver);
//!
//! impl Cluster for NoClasses {
//!     fn priority_classes(&self) -> &PriorityResolver {
//!         &self.0
//!     }
//! }
//!
//! let chain = AdmissionChain::default_plugins(&PluginFlags::default()).unwrap();
//! let attributes = Attributes { namespace: "default", ..Attributes::of(Operation::Create, ObjectKind::Pod) };
//! let mut pod = Object::Pod(Box::new(Pod::default()));
//! let cluster = NoClasses(PriorityResolver::new([]));
//! chain.admit(&attributes, Some(&mut pod), &cluster).unwrap();
//! let Object::Pod(pod) = pod else { unreachable!() };
//! assert_eq!(pod.spec.priority, Some(0));
//! assert_eq!(pod.spec.tolerations.len(), 2);
//! ```

use std::fmt;

use outrank_api::decode::{Object, ObjectKind};
use outrank_api::resource_type::ResourceType;
use outrank_api::status::Status;
use outrank_api::types::{LimitRange, Node, ObjectMeta, RuntimeClass, StorageClass};
use serde_json::Value;

use crate::default_storage_class::DefaultStorageClass;
use crate::default_toleration_seconds::DefaultTolerationSeconds;
use crate::limit_ranger::LimitRanger;
use crate::namespace_lifecycle::{NamespaceLifecycle, NamespacePhase};
use crate::plugin_names::{PLUGINS, PluginFlags};
use crate::pod_topology_labels::PodTopologyLabels;
use crate::priority::{KUBE_SYSTEM, Priority, PriorityResolver};
use crate::runtime_class::RuntimeClassPlugin;
use crate::service_account::{AccountSettings, ServiceAccount};
use crate::taint_nodes_by_condition::TaintNodesByCondition;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// It makes an object.
    Create,
    /// It puts another object in the place of one.
    Update,
    /// It removes an object.
    Delete,
}

/// What a request is about, beside its object.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'r> {
    /// What it does.
    pub operation: Operation,
    /// The type of the object.
    pub resource: &'r ResourceType,
    /// The subresource, such as `status`; empty for the object itself.
    pub subresource: &'r str,
    /// The namespace; empty where there is none.
    pub namespace: &'r str,
    /// The name; empty if it is in the object alone.
    pub name: &'r str,
    /// The object as it is stored, in updates and deletions.
    pub old: Option<&'r Object>,
    /// Whether nothing is to come of it.
    pub dry_run: bool,
    /// What names that plugins make up end with; the caller draws it.
    pub suffix: &'r str,
}

impl<'r> Attributes<'r> {
    /// A request for an object itself, without names. The type may be given by a kind that
    /// decisions read.
    pub fn of(operation: Operation, resource: impl Into<&'r ResourceType>) -> Self {
        Attributes {
            operation,
            resource: resource.into(),
            subresource: "",
            namespace: "",
            name: "",
            old: None,
            dry_run: false,
            suffix: "",
        }
    }

    /// The kind of the object, if it is one that decisions read.
    pub fn kind(&self) -> Option<ObjectKind> {
        self.resource.object_kind()
    }

    /// Whether an object itself is made, or changed, and not a part of it.
    pub(crate) fn is_about_whole(&self) -> bool {
        self.subresource.is_empty()
    }

    /// The answer of a plugin that refuses the request. An object whose name is yet to be made
    /// is called by the beginning of it.
    pub fn forbidden(&self, metadata: Option<&ObjectMeta>, why: impl fmt::Display) -> Status {
        let of_object = metadata.map(|it| [it.name.as_str(), it.generate_name.as_str()]);
        let names = [self.name]
            .into_iter()
            .chain(of_object.into_iter().flatten());
        let name = names.into_iter().find(|name| !name.is_empty());
        Status::forbidden(self.resource.resource(), name.unwrap_or("Unknown"), why)
    }
}

/// What plugins look up.
pub trait Cluster {
    /// The priority classes.
    fn priority_classes(&self) -> &PriorityResolver;

    /// How far the life of a namespace is; `None` if there is none of the name. Unless this
    /// is answered, every namespace is there.
    fn namespace(&self, _name: &str) -> Option<NamespacePhase> {
        Some(NamespacePhase::Active)
    }

    /// The limit ranges of a namespace, in the order in which they apply.
    fn limit_ranges(&self, _namespace: &str) -> Vec<&LimitRange> {
        Vec::new()
    }

    /// The runtime class of this name.
    fn runtime_class(&self, _name: &str) -> Option<&RuntimeClass> {
        None
    }

    /// The node of this name.
    fn node(&self, _name: &str) -> Option<&Node> {
        None
    }

    /// The storage classes, in any order.
    fn storage_classes(&self) -> Vec<&StorageClass> {
        Vec::new()
    }

    /// What the service account of this name gives to its pods; `None` if there is none. Unless
    /// this is answered, every account is there and has no wishes.
    fn service_account(&self, _namespace: &str, _name: &str) -> Option<AccountSettings> {
        Some(AccountSettings::default())
    }

    /// Whether pods of a namespace may have a built-in priority class, where that is asked
    /// ([`crate::priority::CriticalPods`]). A cluster with quotas may allow it to namespaces
    /// that have one for the class.
    fn allows_critical_pods(&self, namespace: &str) -> bool {
        namespace == KUBE_SYSTEM
    }
}

/// A plugin of the API server. It takes part in one phase or in both.
pub trait AdmissionPlugin: fmt::Debug + Send + Sync {
    /// The name, as on the command line of kube-apiserver.
    fn name(&self) -> &'static str;

    /// The first phase: refuses the request, or changes the object. There is none in deletions.
    ///
    /// # Errors
    ///
    /// The answer, if the request is refused.
    fn admit(
        &self,
        _attributes: &Attributes<'_>,
        _object: Option<&mut Object>,
        _cluster: &dyn Cluster,
    ) -> Result<(), Status> {
        Ok(())
    }

    /// The first phase for fields that no decision reads, given the object as JSON with its
    /// defaults. What the plugins do to the typed object in the same phase is not in it yet.
    ///
    /// # Errors
    ///
    /// The answer, if the request is refused.
    fn admit_fields(
        &self,
        _attributes: &Attributes<'_>,
        _object: &mut Value,
        _cluster: &dyn Cluster,
    ) -> Result<(), Status> {
        Ok(())
    }

    /// The second phase: refuses the request, or lets it pass.
    ///
    /// # Errors
    ///
    /// The answer, if the request is refused.
    fn validate(
        &self,
        _attributes: &Attributes<'_>,
        _object: Option<&Object>,
        _cluster: &dyn Cluster,
    ) -> Result<(), Status> {
        Ok(())
    }
}

/// The plugins that are enabled and here, in their order.
#[derive(Debug)]
pub struct AdmissionChain {
    enabled: Vec<&'static str>,
    plugins: Vec<Box<dyn AdmissionPlugin>>,
}

impl AdmissionChain {
    /// A chain of the plugins of this crate, as far as they are enabled, with their default
    /// arguments.
    ///
    /// # Errors
    ///
    /// What is wrong with the flags: all of it.
    pub fn default_plugins(flags: &PluginFlags) -> Result<Self, Vec<String>> {
        let chain = Self {
            enabled: flags.plugins()?,
            plugins: Vec::new(),
        };
        Ok(chain
            .with(NamespaceLifecycle)
            .with(LimitRanger)
            .with(ServiceAccount)
            .with(TaintNodesByCondition)
            .with(Priority::default())
            .with(DefaultTolerationSeconds::default())
            .with(DefaultStorageClass)
            .with(RuntimeClassPlugin)
            .with(PodTopologyLabels))
    }

    /// The chain with a plugin at its place, in the place of one of the same name. A plugin
    /// that is not enabled is left out.
    #[must_use]
    pub fn with(mut self, plugin: impl AdmissionPlugin + 'static) -> Self {
        self.plugins.retain(|other| other.name() != plugin.name());
        if self.enabled.contains(&plugin.name()) {
            self.plugins.push(Box::new(plugin));
            let place = |name: &str| PLUGINS.iter().position(|(known, _)| *known == name);
            self.plugins.sort_by_key(|plugin| place(plugin.name()));
        }
        self
    }

    /// The names of the plugins, in their order.
    pub fn names(&self) -> Vec<&'static str> {
        self.plugins.iter().map(|plugin| plugin.name()).collect()
    }

    /// Plugins that are enabled and that nobody carries out here.
    pub fn left_out(&self) -> Vec<&'static str> {
        let here = self.names();
        let enabled = self.enabled.iter().copied();
        enabled.filter(|name| !here.contains(name)).collect()
    }

    /// The first phase.
    ///
    /// # Errors
    ///
    /// The answer of the first plugin that refuses. What plugins before it did to the object
    /// stays; the object is of no use then.
    pub fn admit(
        &self,
        attributes: &Attributes<'_>,
        mut object: Option<&mut Object>,
        cluster: &dyn Cluster,
    ) -> Result<(), Status> {
        let mut plugins = self.plugins.iter();
        plugins.try_for_each(|plugin| plugin.admit(attributes, object.as_deref_mut(), cluster))
    }

    /// The first phase for an object in full: the typed object, if its kind has one, and its JSON,
    /// of which the caller makes one when all is done.
    ///
    /// # Errors
    ///
    /// The answer of the first plugin that refuses.
    pub fn admit_whole(
        &self,
        attributes: &Attributes<'_>,
        mut object: Option<&mut Object>,
        fields: &mut Value,
        cluster: &dyn Cluster,
    ) -> Result<(), Status> {
        for plugin in &self.plugins {
            plugin.admit(attributes, object.as_deref_mut(), cluster)?;
            plugin.admit_fields(attributes, fields, cluster)?;
        }
        Ok(())
    }

    /// The second phase.
    ///
    /// # Errors
    ///
    /// The answer of the first plugin that refuses.
    pub fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
        cluster: &dyn Cluster,
    ) -> Result<(), Status> {
        let mut plugins = self.plugins.iter();
        plugins.try_for_each(|plugin| plugin.validate(attributes, object, cluster))
    }
}
