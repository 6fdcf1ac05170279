//! New pods as the API server would store them: defaulted and admitted.
//!
//! Limit ranges and runtime classes count as far as they are in the input; a pod whose runtime
//! class is not there is let through, for inputs seldom have everything.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use outrank_admission::limit_ranger::LIMIT_RANGER;
use outrank_admission::plugin_names::PluginFlags;
use outrank_admission::{
    AdmissionChain, Attributes, Cluster, Operation, PriorityResolver, creation,
};
use outrank_api::decode::{Object, ObjectKind};
use outrank_api::defaults::default_pod;
use outrank_api::types::{LimitRange, LimitedResource, Pod, PodSpec, PriorityClass, RuntimeClass};

use super::quotas::{Quotas, without_pod};

/// The plugin that quotas belong to.
pub(crate) const RESOURCE_QUOTA: &str = "ResourceQuota";

/// The plugin that asks for runtime classes.
pub(crate) const RUNTIME_CLASS: &str = "RuntimeClass";

/// How the API server admits.
#[derive(Clone, Debug, PartialEq)]
pub struct AdmissionOptions {
    /// Names of the plugins that run. Of those that are not part of Outrank none has an effect.
    pub plugins: Vec<&'static str>,
    /// Resources that nobody may use without a quota for them.
    pub limited_resources: Vec<LimitedResource>,
}

impl Default for AdmissionOptions {
    /// As kube-apiserver does unless told otherwise.
    fn default() -> Self {
        Self {
            // No flag, no mistake in it.
            plugins: PluginFlags::default().plugins().unwrap_or_default(),
            limited_resources: Vec::new(),
        }
    }
}

impl AdmissionOptions {
    pub(crate) fn runs(&self, plugin: &str) -> bool {
        self.plugins.contains(&plugin)
    }

    /// The same without a plugin.
    pub(crate) fn without(&self, plugin: &str) -> Self {
        let mut options = self.clone();
        options.plugins.retain(|it| *it != plugin);
        options
    }

    /// The plugins, as far as they are part of Outrank.
    pub(crate) fn chain(&self) -> Result<AdmissionChain, String> {
        let flags = PluginFlags {
            admission_control: Some(self.plugins.iter().map(|it| (*it).to_owned()).collect()),
            ..PluginFlags::default()
        };
        AdmissionChain::default_plugins(&flags).map_err(|errors| errors.join("\n"))
    }
}

/// What admission looks up.
#[derive(Clone, Debug, Default)]
pub(super) struct AdmissionObjects {
    pub(super) priority_classes: Vec<PriorityClass>,
    /// By namespace and name.
    pub(super) limit_ranges: BTreeMap<String, BTreeMap<String, LimitRange>>,
    /// By name.
    pub(super) runtime_classes: BTreeMap<String, RuntimeClass>,
}

impl AdmissionObjects {
    pub(super) fn add_limit_range(&mut self, range: LimitRange) {
        let metadata = &range.metadata;
        let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
        let ranges = self.limit_ranges.entry(namespace).or_default();
        ranges.insert(name, range);
    }
}

/// Defaults and admits pods; pods that share a spec before share one afterwards.
pub(super) struct Admission<'o> {
    lookup: Lookup<'o>,
    chain: AdmissionChain,
    /// For pods whose runtime class is not in the input.
    chain_without_class: AdmissionChain,
    quotas: Quotas,
    /// By the address of the spec before, which the entry keeps alive, and the namespace if
    /// that matters.
    seen: HashMap<(*const PodSpec, String), (Arc<PodSpec>, Admitted)>,
}

/// What plugins look up. Namespaces are all there: inputs seldom have them.
struct Lookup<'o> {
    objects: &'o AdmissionObjects,
    resolver: PriorityResolver,
}

impl Cluster for Lookup<'_> {
    fn priority_classes(&self) -> &PriorityResolver {
        &self.resolver
    }

    fn limit_ranges(&self, namespace: &str) -> Vec<&LimitRange> {
        let ranges = self.objects.limit_ranges.get(namespace);
        ranges.into_iter().flat_map(BTreeMap::values).collect()
    }

    fn runtime_class(&self, name: &str) -> Option<&RuntimeClass> {
        self.objects.runtime_classes.get(name)
    }
}

/// An admitted spec and what LimitRanger notes about it, or admission's message.
type Admitted = Result<(Arc<PodSpec>, Option<String>), String>;

impl<'o> Admission<'o> {
    /// # Errors
    /// If a priority class could not be created.
    pub(super) fn new(
        objects: &'o AdmissionObjects,
        options: &AdmissionOptions,
        quotas: Quotas,
    ) -> Result<Self, String> {
        let resolver = PriorityResolver::new(&objects.priority_classes);
        for class in &objects.priority_classes {
            resolver
                .admit_class(class)
                .map_err(|error| format!("PriorityClass {}: {error}", class.metadata.name))?;
        }
        Ok(Self {
            lookup: Lookup { objects, resolver },
            chain: options.chain()?,
            chain_without_class: options.without(RUNTIME_CLASS).chain()?,
            quotas,
            seen: HashMap::new(),
        })
    }

    /// # Errors
    /// Admission's message, if the pod is refused.
    pub(super) fn admit(&mut self, pod: &mut Pod) -> Result<(), String> {
        self.admit_spec(pod)?;
        self.quotas.admit(pod)
    }

    /// The quotas, with what is used of them by now.
    pub(super) fn into_quotas(self) -> Quotas {
        self.quotas
    }

    /// All but quotas, which look at one pod after the other.
    fn admit_spec(&mut self, pod: &mut Pod) -> Result<(), String> {
        let is_limited = self
            .lookup
            .objects
            .limit_ranges
            .contains_key(&pod.metadata.namespace);
        let namespace = match is_limited {
            true => pod.metadata.namespace.clone(),
            false => String::new(),
        };
        let key = (Arc::as_ptr(&pod.spec), namespace);
        if let Some((_, admitted)) = self.seen.get(&key) {
            let (spec, note) = admitted.clone()?;
            pod.spec = spec;
            if let Some(note) = note {
                pod.metadata
                    .annotations
                    .insert(LIMIT_RANGER.to_owned(), note);
            }
            return Ok(());
        }
        let before = Arc::clone(&pod.spec);
        let result = self.admit_anew(pod).map(|()| {
            let note = pod.metadata.annotations.get(LIMIT_RANGER);
            (Arc::clone(&pod.spec), note.filter(|_| is_limited).cloned())
        });
        self.seen.insert(key, (before, result.clone()));
        result.map(|_| ())
    }

    fn admit_anew(&self, pod: &mut Pod) -> Result<(), String> {
        default_pod(pod);
        let class = pod.spec.runtime_class_name.as_ref();
        let chain = match class.is_none_or(|it| self.lookup.runtime_class(it).is_some()) {
            true => &self.chain,
            false => &self.chain_without_class,
        };
        let namespace = pod.metadata.namespace.clone();
        let attributes = Attributes {
            namespace: &namespace,
            ..Attributes::of(Operation::Create, ObjectKind::Pod)
        };
        let mut object = Object::Pod(Box::new(std::mem::take(pod)));
        let admitted = creation::admit(chain, &attributes, &mut object, &self.lookup);
        if let Object::Pod(changed) = object {
            *pod = *changed;
        }
        admitted.map_err(|status| without_pod(&status.message, pod))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(namespace: &str, spec: &Arc<PodSpec>) -> Pod {
        let mut pod = Pod {
            spec: Arc::clone(spec),
            ..Pod::default()
        };
        namespace.clone_into(&mut pod.metadata.namespace);
        pod
    }

    #[test]
    fn limits_are_those_of_the_namespace() {
        let range = json!({
            "metadata": {"name": "l", "namespace": "small"},
            "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "100m"},
                                 "min": {"memory": "1Gi"}}]},
        });
        let mut objects = AdmissionObjects::default();
        objects.add_limit_range(serde_json::from_value(range).expect("a LimitRange"));
        let options = AdmissionOptions::default();
        let admission = Admission::new(&objects, &options, Quotas::default());
        let mut admission = admission.expect("no class is wrong");
        let spec = |memory: &str| {
            let requests = json!({"requests": {"memory": memory}});
            let spec = json!({"containers": [{"name": "c", "resources": requests}]});
            serde_json::from_value::<Arc<PodSpec>>(spec).expect("a spec")
        };
        let (large, small) = (spec("2Gi"), spec("2Mi"));
        // Twice: the second time from what is remembered.
        for _ in 0..2 {
            let mut elsewhere = pod("large", &small);
            assert_eq!(admission.admit(&mut elsewhere), Ok(()));
            assert!(elsewhere.metadata.annotations.is_empty());
            assert!(
                !elsewhere.spec.containers[0]
                    .resources
                    .requests
                    .contains_key("cpu")
            );
            let mut here = pod("small", &large);
            assert_eq!(admission.admit(&mut here), Ok(()));
            assert_eq!(
                here.metadata.annotations[LIMIT_RANGER],
                "LimitRanger plugin set: cpu request for container c"
            );
            assert_eq!(
                here.spec.containers[0].resources.requests["cpu"].milli_value(),
                100
            );
            assert_eq!(
                admission.admit(&mut pod("small", &small)),
                Err("minimum memory usage per Container is 1Gi, but request is 2Mi".to_owned())
            );
        }
    }

    #[test]
    fn a_request_above_the_limit_by_default_is_refused() {
        let range = json!({
            "metadata": {"name": "l", "namespace": "small"},
            "spec": {"limits": [{"type": "Container", "default": {"cpu": "500m"}}]},
        });
        let mut objects = AdmissionObjects::default();
        objects.add_limit_range(serde_json::from_value(range).expect("a LimitRange"));
        let options = AdmissionOptions::default();
        let admission = Admission::new(&objects, &options, Quotas::default());
        let mut admission = admission.expect("no class is wrong");
        let resources = json!({"requests": {"cpu": "1"}});
        let spec = json!({"containers": [{"name": "c", "resources": resources}]});
        let spec: Arc<PodSpec> = serde_json::from_value(spec).expect("a spec");
        assert_eq!(admission.admit(&mut pod("large", &spec)), Ok(()));
        let refusal = "spec.containers[0].resources.requests: Invalid value: \"1\": must be less than \
                       or equal to cpu limit of 500m";
        // Twice: the second time from what is remembered.
        for _ in 0..2 {
            let admitted = admission.admit(&mut pod("small", &spec));
            assert_eq!(admitted, Err(refusal.to_owned()));
        }
    }
}
