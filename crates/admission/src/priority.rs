//! The Priority admission plugin: priority class names become numbers.
//!
//! People write `priorityClassName: high`; the scheduler compares the integer
//! `spec.priority`. Between the two stands this plugin, which runs when a pod is
//! created:
//!
//! 1. a pod that names a class gets the class's value and preemption policy; an
//!    unknown name is refused;
//! 2. a pod that names none gets the class that is marked `globalDefault`, and the
//!    priority 0 if there is none;
//! 3. a pod that brings a number or a policy of its own is refused unless it is the
//!    very one that the class gives.
//!
//! A pod that exists already keeps what it was given when it was made, even if its
//! class has gone since: do not resolve it again.
//!
//! What a class may be is said in [`crate::priority_class`]; here is only that there is one
//! default among them.
//!
//! Kubernetes 1.11 to 1.16 knew critical pods by an annotation, too, and kept the classes of
//! critical value to the namespace `kube-system`. [`CriticalPods`] brings that back; it is off
//! unless asked for.
//!
//! Sources: `plugin/pkg/admission/priority/admission.go` of Kubernetes 1.36, and of 1.13 for
//! critical pods (with `pkg/kubelet/types/pod_update.go`).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use outrank_api::decode::Object;
use outrank_api::status::Status;
use outrank_api::types::{Pod, PodSpec, PriorityClass};

use crate::chain::{AdmissionPlugin, Attributes, Cluster, Operation};
use crate::priority_class::{PREEMPT_LOWER_PRIORITY, SYSTEM_CLASSES};

/// The priority of pods without a class where no class is the default.
const PRIORITY_WITHOUT_CLASS: i32 = 0;

/// Fills in the priority of pods from a set of priority classes.
#[derive(Clone, Debug)]
pub struct PriorityResolver {
    classes: BTreeMap<String, ClassFacts>,
    /// Name of the class for pods that name none.
    default_class: Option<String>,
}

/// What the plugin does about critical pods beyond 1.36, as older releases did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CriticalPods {
    /// Whether a pod of `kube-system` that names no class and has the annotation
    /// [`CRITICAL_POD`], empty, gets the class `system-cluster-critical` (gate
    /// ExperimentalCriticalPodAnnotation).
    pub by_annotation: bool,
    /// Whether the built-in classes may be named only where [`Cluster::allows_critical_pods`]
    /// says so, which is in `kube-system` unless the cluster knows better.
    pub only_where_allowed: bool,
}

/// The annotation that made a pod of `kube-system` critical.
pub const CRITICAL_POD: &str = "scheduler.alpha.kubernetes.io/critical-pod";

/// The namespace of the system.
pub const KUBE_SYSTEM: &str = "kube-system";

/// What a pod takes from its class.
#[derive(Clone, Debug)]
struct ClassFacts {
    value: i32,
    preemption_policy: String,
    global_default: bool,
}

impl PriorityResolver {
    /// A resolver for `classes` and the built-in ones.
    ///
    /// Of two classes of one name the later counts. If several are marked as the
    /// default (an API server lets that happen only in a race), the one with the lowest
    /// value is it, and of equal ones the first by name.
    pub fn new<'a>(classes: impl IntoIterator<Item = &'a PriorityClass>) -> Self {
        let built_in = SYSTEM_CLASSES.map(|(name, value)| {
            let policy = PREEMPT_LOWER_PRIORITY.to_owned();
            let facts = ClassFacts {
                value,
                preemption_policy: policy,
                global_default: false,
            };
            (name.to_owned(), facts)
        });
        let mut by_name = BTreeMap::from(built_in);
        for class in classes {
            by_name.insert(class.metadata.name.clone(), ClassFacts::of(class));
        }
        let default_class = by_name
            .iter()
            .filter(|(_, facts)| facts.global_default)
            .min_by_key(|(_, facts)| facts.value)
            .map(|(name, _)| name.clone());
        Self {
            classes: by_name,
            default_class,
        }
    }

    /// Fills `spec.priority`, `spec.priorityClassName` and `spec.preemptionPolicy` of a
    /// pod that is being created. A spec that is complete already stays shared.
    ///
    /// # Errors
    ///
    /// If the class does not exist, or the pod brings a priority or policy that differs
    /// from that of its class. The pod is then unchanged.
    pub fn resolve(&self, pod: &mut Pod) -> Result<(), PriorityError> {
        let answer = self.answer_for(&pod.spec)?;
        if !answer.is_in(&pod.spec) {
            answer.write_to(Arc::make_mut(&mut pod.spec));
        }
        Ok(())
    }

    /// Fills the same fields as [`resolve`](Self::resolve), with critical pods treated as
    /// `critical` says; `may_be_critical` is whether the pod's namespace may have such.
    ///
    /// # Errors
    ///
    /// As [`resolve`](Self::resolve), and if the pod's class is kept to other namespaces.
    pub fn resolve_with(
        &self,
        pod: &mut Pod,
        critical: CriticalPods,
        may_be_critical: bool,
    ) -> Result<(), PriorityError> {
        let name = pod.spec.priority_class_name.as_str();
        let is_critical = SYSTEM_CLASSES.iter().any(|(known, _)| *known == name);
        if critical.only_where_allowed && is_critical && !may_be_critical {
            return Err(PriorityError::NotInNamespace {
                name: name.to_owned(),
                namespace: pod.metadata.namespace.clone(),
            });
        }
        if !(critical.by_annotation && name.is_empty() && is_marked_critical(pod)) {
            return self.resolve(pod);
        }
        let mut marked = pod.clone();
        let (class, _) = SYSTEM_CLASSES[0];
        class.clone_into(&mut Arc::make_mut(&mut marked.spec).priority_class_name);
        self.resolve(&mut marked)?;
        *pod = marked;
        Ok(())
    }

    /// Whether `class` may be created as far as the default goes: there can be only one.
    ///
    /// # Errors
    ///
    /// If `class` is marked as the default and a class already is, be it one of the same
    /// name: the API server looks at this before it finds the name taken.
    pub fn admit_new_class(&self, class: &PriorityClass) -> Result<(), PriorityError> {
        match &self.default_class {
            Some(existing) if class.global_default => Err(PriorityError::SecondDefault {
                existing: existing.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// The same for a class that is among those of the resolver, or takes the place of the
    /// one of its name.
    ///
    /// # Errors
    ///
    /// If `class` is marked as the default and another class already is.
    pub fn admit_class(&self, class: &PriorityClass) -> Result<(), PriorityError> {
        if self.default_class.as_ref() == Some(&class.metadata.name) {
            return Ok(());
        }
        self.admit_new_class(class)
    }

    fn answer_for(&self, spec: &PodSpec) -> Result<Answer<'_>, PriorityError> {
        let answer = self.class_of(spec)?;
        if let Some(given) = spec.priority
            && given != answer.priority
        {
            return Err(PriorityError::PriorityDiffers {
                given,
                computed: answer.priority,
            });
        }
        if let Some(given) = &spec.preemption_policy
            && given != answer.preemption_policy
        {
            return Err(PriorityError::PreemptionPolicyDiffers {
                given: given.clone(),
                computed: answer.preemption_policy.to_owned(),
            });
        }
        Ok(answer)
    }

    fn class_of(&self, spec: &PodSpec) -> Result<Answer<'_>, PriorityError> {
        let name = match (spec.priority_class_name.as_str(), &self.default_class) {
            ("", Some(default)) => default,
            ("", None) => return Ok(Answer::WITHOUT_CLASS),
            (name, _) => name,
        };
        match self.classes.get_key_value(name) {
            Some((name, facts)) => Ok(Answer {
                class_name: name,
                priority: facts.value,
                preemption_policy: &facts.preemption_policy,
            }),
            None => Err(PriorityError::UnknownClass {
                name: name.to_owned(),
            }),
        }
    }
}

/// Whether a pod is marked as old releases knew critical pods.
fn is_marked_critical(pod: &Pod) -> bool {
    let annotations = &pod.metadata.annotations;
    pod.metadata.namespace == KUBE_SYSTEM
        && annotations.get(CRITICAL_POD).is_some_and(String::is_empty)
}

impl ClassFacts {
    /// An absent policy is what the API server fills in.
    fn of(class: &PriorityClass) -> Self {
        let policy = class
            .preemption_policy
            .as_deref()
            .unwrap_or(PREEMPT_LOWER_PRIORITY);
        Self {
            value: class.value,
            preemption_policy: policy.to_owned(),
            global_default: class.global_default,
        }
    }
}

/// The three fields that a pod gets.
struct Answer<'a> {
    class_name: &'a str,
    priority: i32,
    preemption_policy: &'a str,
}

impl Answer<'static> {
    const WITHOUT_CLASS: Self = Self {
        class_name: "",
        priority: PRIORITY_WITHOUT_CLASS,
        preemption_policy: PREEMPT_LOWER_PRIORITY,
    };
}

impl Answer<'_> {
    fn is_in(&self, spec: &PodSpec) -> bool {
        spec.priority == Some(self.priority)
            && spec.priority_class_name == self.class_name
            && spec.preemption_policy.as_deref() == Some(self.preemption_policy)
    }

    fn write_to(&self, spec: &mut PodSpec) {
        spec.priority = Some(self.priority);
        spec.priority_class_name = self.class_name.to_owned();
        spec.preemption_policy = Some(self.preemption_policy.to_owned());
    }
}

/// Why a pod or class was refused. Displays as upstream's text, without the
/// `pods "name" is forbidden: ` that the API server puts in front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PriorityError {
    /// The pod names a class that does not exist.
    UnknownClass {
        /// The name.
        name: String,
    },
    /// The pod brings a priority that is not that of its class.
    PriorityDiffers {
        /// What the pod brings.
        given: i32,
        /// What the class gives.
        computed: i32,
    },
    /// The pod brings a preemption policy that is not that of its class.
    PreemptionPolicyDiffers {
        /// What the pod brings.
        given: String,
        /// What the class gives.
        computed: String,
    },
    /// The pod names a built-in class that its namespace may not use.
    NotInNamespace {
        /// Name of the class.
        name: String,
        /// The namespace.
        namespace: String,
    },
    /// A class wants to be the default while another one is.
    SecondDefault {
        /// Name of the class that is the default.
        existing: String,
    },
}

impl fmt::Display for PriorityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownClass { name } => {
                write!(f, "no PriorityClass with name {name} was found")
            }
            Self::PriorityDiffers { given, computed } => write!(
                f,
                "the integer value of priority ({given}) must not be provided in pod spec; \
                 priority admission controller computed {computed} from the given \
                 PriorityClass name"
            ),
            Self::PreemptionPolicyDiffers { given, computed } => write!(
                f,
                "the string value of PreemptionPolicy ({given}) must not be provided in pod \
                 spec; priority admission controller computed {computed} from the given \
                 PriorityClass name"
            ),
            Self::NotInNamespace { name, namespace } => write!(
                f,
                "pods with {name} priorityClass is not permitted in {namespace} namespace"
            ),
            Self::SecondDefault { existing } => write!(
                f,
                "PriorityClass {existing} is already marked as default. Only one default can \
                 exist"
            ),
        }
    }
}

impl std::error::Error for PriorityError {}

/// The plugin `Priority`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Priority {
    /// What is done about critical pods.
    pub critical_pods: CriticalPods,
}

impl AdmissionPlugin for Priority {
    fn name(&self) -> &'static str {
        "Priority"
    }

    fn admit(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&mut Object>,
        cluster: &dyn Cluster,
    ) -> Result<(), Status> {
        let Some(Object::Pod(pod)) = object else {
            return Ok(());
        };
        match (attributes.operation, attributes.old) {
            _ if !attributes.subresource.is_empty() => Ok(()),
            (Operation::Create, _) => {
                let classes = cluster.priority_classes();
                let may_be_critical = cluster.allows_critical_pods(attributes.namespace);
                let resolved = classes.resolve_with(pod, self.critical_pods, may_be_critical);
                resolved.map_err(|why| attributes.forbidden(Some(&pod.metadata), why))
            }
            (Operation::Update, Some(Object::Pod(old))) => {
                keep_priority(pod, old);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
        cluster: &dyn Cluster,
    ) -> Result<(), Status> {
        let is_class = matches!(object, Some(Object::PriorityClass(_)));
        if !is_class || !attributes.subresource.is_empty() {
            return Ok(());
        }
        let classes = cluster.priority_classes();
        let admitted = match (attributes.operation, object) {
            (Operation::Create, Some(Object::PriorityClass(class))) => {
                classes.admit_new_class(class)
            }
            (Operation::Update, Some(Object::PriorityClass(class))) => classes.admit_class(class),
            _ => Ok(()),
        };
        let metadata = object.map(Object::metadata);
        admitted.map_err(|why| attributes.forbidden(metadata, why))
    }
}

/// An update that leaves out what admission once filled in keeps it.
fn keep_priority(pod: &mut Pod, old: &Pod) {
    let (spec, old) = (&pod.spec, &old.spec);
    let is_lost = |new: bool, old: bool| !new && old;
    let priority_lost = is_lost(spec.priority.is_some(), old.priority.is_some());
    let policy_lost = is_lost(
        spec.preemption_policy.is_some(),
        old.preemption_policy.is_some(),
    );
    if priority_lost || policy_lost {
        let spec = Arc::make_mut(&mut pod.spec);
        spec.priority = spec.priority.or(old.priority);
        if policy_lost {
            spec.preemption_policy.clone_from(&old.preemption_policy);
        }
    }
}

#[cfg(test)]
mod tests {
    use outrank_api::types::ObjectMeta;

    use super::*;

    fn class(name: &str, value: i32, policy: Option<&str>) -> PriorityClass {
        PriorityClass {
            metadata: ObjectMeta {
                name: name.into(),
                ..Default::default()
            },
            value,
            preemption_policy: policy.map(str::to_owned),
            ..Default::default()
        }
    }

    fn default_class(name: &str, value: i32) -> PriorityClass {
        PriorityClass {
            global_default: true,
            ..class(name, value, None)
        }
    }

    fn pod(class_name: &str) -> Pod {
        let spec = PodSpec {
            priority_class_name: class_name.into(),
            ..Default::default()
        };
        Pod {
            spec: Arc::new(spec),
            ..Default::default()
        }
    }

    /// The three fields after resolving, or the text of the refusal.
    fn resolved(
        resolver: &PriorityResolver,
        mut pod: Pod,
    ) -> Result<(String, i32, String), String> {
        resolver
            .resolve(&mut pod)
            .map_err(|error| error.to_string())?;
        let spec = &pod.spec;
        let policy = spec.preemption_policy.clone().unwrap_or_default();
        Ok((
            spec.priority_class_name.clone(),
            spec.priority.unwrap_or(i32::MIN),
            policy,
        ))
    }

    fn fields(name: &str, priority: i32, policy: &str) -> Result<(String, i32, String), String> {
        Ok((name.to_owned(), priority, policy.to_owned()))
    }

    /// Classes and pods as people write them (JSON is the same to the typed objects).
    #[test]
    fn an_online_class_that_never_preempts_and_a_low_one_below_zero() {
        let classes: Vec<PriorityClass> = serde_json::from_str(
            r#"[{"metadata": {"name": "high"}, "value": 10000, "preemptionPolicy": "Never",
                 "globalDefault": false, "description": "for high priority service pods"},
                {"metadata": {"name": "low"}, "value": -999, "globalDefault": false}]"#,
        )
        .unwrap();
        let template: PodSpec = serde_json::from_str(
            r#"{"containers": [{"name": "nginx", "image": "nginx",
                 "resources": {"limits": {"cpu": "500m"}}}], "priorityClassName": "high"}"#,
        )
        .unwrap();
        let rules = crate::priority_class::ClassRules::default();
        assert!(classes.iter().all(|class| rules.validate(class).is_empty()));
        let resolver = PriorityResolver::new(&classes);
        let high = Pod {
            spec: Arc::new(template),
            ..Default::default()
        };
        assert_eq!(resolved(&resolver, high), fields("high", 10000, "Never"));
        let low = pod("low");
        assert_eq!(
            resolved(&resolver, low),
            fields("low", -999, "PreemptLowerPriority")
        );
        let none = pod("");
        assert_eq!(
            resolved(&resolver, none),
            fields("", 0, "PreemptLowerPriority")
        );
    }

    #[test]
    fn built_in_classes_are_always_there() {
        let resolver = PriorityResolver::new([]);
        let policy = "PreemptLowerPriority";
        for (name, value) in [
            ("system-node-critical", 2_000_001_000),
            ("system-cluster-critical", 2_000_000_000),
        ] {
            assert_eq!(resolved(&resolver, pod(name)), fields(name, value, policy));
        }
    }

    #[test]
    fn an_unknown_class_is_refused() {
        let refusal = resolved(&PriorityResolver::new([]), pod("nope"));
        assert_eq!(
            refusal,
            Err("no PriorityClass with name nope was found".into())
        );
    }

    #[test]
    fn a_number_of_ones_own_must_be_that_of_the_class() {
        let low = class("low", -2_147_483_648, None);
        let resolver = PriorityResolver::new([&low]);
        let mut own = pod("low");
        Arc::make_mut(&mut own.spec).priority = Some(10_000);
        assert_eq!(
            resolved(&resolver, own),
            Err(
                "the integer value of priority (10000) must not be provided in pod spec; \
                 priority admission controller computed -2147483648 from the given PriorityClass \
                 name"
                    .into()
            )
        );
        let mut same = pod("low");
        Arc::make_mut(&mut same.spec).priority = Some(i32::MIN);
        assert_eq!(
            resolved(&resolver, same),
            fields("low", i32::MIN, "PreemptLowerPriority")
        );
    }

    #[test]
    fn a_policy_of_ones_own_must_be_that_of_the_class() {
        let mut own = pod("");
        Arc::make_mut(&mut own.spec).preemption_policy = Some("Never".into());
        assert_eq!(
            resolved(&PriorityResolver::new([]), own),
            Err(
                "the string value of PreemptionPolicy (Never) must not be provided in pod spec; \
                 priority admission controller computed PreemptLowerPriority from the given \
                 PriorityClass name"
                    .into()
            )
        );
    }

    #[test]
    fn a_refused_pod_is_unchanged() {
        let mut refused = pod("nope");
        let before = refused.clone();
        assert!(PriorityResolver::new([]).resolve(&mut refused).is_err());
        assert_eq!(refused, before);
    }

    #[test]
    fn the_lowest_of_several_defaults_counts() {
        let classes = [
            default_class("b", 7),
            default_class("a", 7),
            default_class("z", -3),
            class("c", -9, None),
        ];
        let resolver = PriorityResolver::new(&classes);
        assert_eq!(
            resolved(&resolver, pod("")),
            fields("z", -3, "PreemptLowerPriority")
        );
        let resolver = PriorityResolver::new(&classes[..2]);
        assert_eq!(
            resolved(&resolver, pod("")),
            fields("a", 7, "PreemptLowerPriority")
        );
    }

    #[test]
    fn there_can_be_only_one_default() {
        let first = default_class("default-a", 0);
        let resolver = PriorityResolver::new([&first]);
        assert_eq!(
            resolver.admit_new_class(&class("default-b", 1, None)),
            Ok(())
        );
        assert_eq!(resolver.admit_class(&first), Ok(()));
        let second = default_class("default-b", 1);
        for refused in [
            resolver.admit_new_class(&first),
            resolver.admit_new_class(&second),
            resolver.admit_class(&second),
        ] {
            assert_eq!(
                refused.unwrap_err().to_string(),
                "PriorityClass default-a is already marked as default. Only one default can exist"
            );
        }
    }

    #[test]
    fn a_resolved_pod_is_not_copied_again() {
        let resolver = PriorityResolver::new([]);
        let mut pod = pod("system-node-critical");
        resolver.resolve(&mut pod).unwrap();
        let before = Arc::clone(&pod.spec);
        resolver.resolve(&mut pod).unwrap();
        assert!(Arc::ptr_eq(&before, &pod.spec));
    }
}
