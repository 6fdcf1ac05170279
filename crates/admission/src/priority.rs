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
//! Two classes are always there, above anything a user may define:
//! `system-cluster-critical` (2,000,000,000) and `system-node-critical`
//! (2,000,001,000).
//!
//! Sources, Kubernetes 1.36: `plugin/pkg/admission/priority/admission.go` (resolving,
//! the single default), `pkg/apis/scheduling/v1/{helpers,defaults}.go` (built-in
//! classes, default policy), `pkg/apis/scheduling/validation/validation.go` (checks of
//! a class).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use outrank_api::types::{Pod, PodSpec, PriorityClass};

/// The highest value that a class of a user may have.
pub const USER_PRIORITY_MAX: i32 = 1_000_000_000;

/// The value from which pods count as critical; that of `system-cluster-critical`.
pub const SYSTEM_CRITICAL_PRIORITY: i32 = 2 * USER_PRIORITY_MAX;

/// What the names of built-in classes, and of no others, begin with.
pub const SYSTEM_CLASS_PREFIX: &str = "system-";

/// The built-in classes by name, with their values.
pub const SYSTEM_CLASSES: [(&str, i32); 2] = [
    ("system-cluster-critical", SYSTEM_CRITICAL_PRIORITY),
    ("system-node-critical", SYSTEM_CRITICAL_PRIORITY + 1000),
];

/// The priority of pods without a class where no class is the default.
const PRIORITY_WITHOUT_CLASS: i32 = 0;

const PREEMPT_LOWER_PRIORITY: &str = "PreemptLowerPriority";
const NEVER: &str = "Never";

/// Fills in the priority of pods from a set of priority classes.
#[derive(Clone, Debug)]
pub struct PriorityResolver {
    classes: BTreeMap<String, ClassFacts>,
    /// Name of the class for pods that name none.
    default_class: Option<String>,
}

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
            Self::SecondDefault { existing } => write!(
                f,
                "PriorityClass {existing} is already marked as default. Only one default can \
                 exist"
            ),
        }
    }
}

impl std::error::Error for PriorityError {}

/// One thing that is wrong with a PriorityClass. Displays as `field: text`, upstream's
/// form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassProblem {
    /// Path of the field, such as `metadata.name`.
    pub field: &'static str,
    /// What is wrong, in upstream's words.
    pub text: String,
}

impl fmt::Display for ClassProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.text)
    }
}

/// Everything that is wrong with a class that is being created, in upstream's order;
/// empty if nothing is. Of the metadata only the name is looked at; labels and
/// annotations follow the rules of all objects.
pub fn validate_class(class: &PriorityClass) -> Vec<ClassProblem> {
    let mut problems = Vec::new();
    let name = class.metadata.name.as_str();
    check_name(class, &mut problems);
    if name.starts_with(SYSTEM_CLASS_PREFIX) {
        if let Err(why) = check_built_in(class) {
            let text = format!(
                "Forbidden: priority class names with '{SYSTEM_CLASS_PREFIX}' prefix are \
                 reserved for system use only. error: {why}"
            );
            problems.push(ClassProblem {
                field: "metadata.name",
                text,
            });
        }
    } else if class.value > USER_PRIORITY_MAX {
        let text = format!(
            "Forbidden: maximum allowed value of a user defined priority is {USER_PRIORITY_MAX}"
        );
        problems.push(ClassProblem {
            field: "value",
            text,
        });
    }
    let policy_problem = match class.preemption_policy.as_deref() {
        None | Some(PREEMPT_LOWER_PRIORITY | NEVER) => None,
        Some("") => Some("Required value".to_owned()),
        Some(other) => Some(format!(
            "Unsupported value: {other:?}: supported values: {PREEMPT_LOWER_PRIORITY:?}, {NEVER:?}"
        )),
    };
    problems.extend(policy_problem.map(|text| ClassProblem {
        field: "preemptionPolicy",
        text,
    }));
    problems
}

/// A name that begins as those of the built-in classes do must be one of theirs, and
/// the class must be like it.
fn check_built_in(class: &PriorityClass) -> Result<(), String> {
    let name = &class.metadata.name;
    let Some((_, value)) = SYSTEM_CLASSES.iter().find(|(known, _)| known == name) else {
        return Err(format!("{name} is not a known system priority class"));
    };
    if class.value != *value {
        return Err(format!("value of {name} PriorityClass must be {value}"));
    }
    if class.global_default {
        return Err(format!(
            "globalDefault of {name} PriorityClass must be false"
        ));
    }
    Ok(())
}

/// Longest name of an object, in bytes.
const NAME_BYTES_MAX: usize = 253;

fn check_name(class: &PriorityClass, problems: &mut Vec<ClassProblem>) {
    let name = class.metadata.name.as_str();
    let mut report = |text| {
        problems.push(ClassProblem {
            field: "metadata.name",
            text,
        })
    };
    if name.is_empty() {
        if class.metadata.generate_name.is_empty() {
            report("Required value: name or generateName is required".to_owned());
        }
        return;
    }
    if name.len() > NAME_BYTES_MAX {
        report(format!(
            "Invalid value: {name:?}: must be no more than {NAME_BYTES_MAX} characters"
        ));
    }
    if !is_dns_subdomain(name) {
        report(format!(
            "Invalid value: {name:?}: a lowercase RFC 1123 subdomain must consist of lower case \
             alphanumeric characters, '-' or '.', and must start and end with an alphanumeric \
             character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        ));
    }
}

fn is_dns_subdomain(name: &str) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.split('.').map(str::as_bytes).all(|part| {
        part.first().is_some_and(alphanumeric)
            && part.last().is_some_and(alphanumeric)
            && part.iter().all(|byte| alphanumeric(byte) || *byte == b'-')
    })
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
        assert!(classes.iter().all(|class| validate_class(class).is_empty()));
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

    fn problems(class: &PriorityClass) -> Vec<String> {
        validate_class(class)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn classes_within_bounds_are_valid() {
        for (name, value) in [
            ("batch.example.com", USER_PRIORITY_MAX),
            ("low", i32::MIN),
            ("system-node-critical", 2_000_001_000),
            ("systematic", 5),
        ] {
            assert!(
                problems(&class(name, value, Some("Never"))).is_empty(),
                "{name}"
            );
        }
    }

    #[test]
    fn all_problems_of_a_class_are_told_at_once() {
        assert_eq!(
            problems(&class("batch", i32::MAX, Some("Sometimes"))),
            [
                "value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
                "preemptionPolicy: Unsupported value: \"Sometimes\": supported values: \
                 \"PreemptLowerPriority\", \"Never\"",
            ]
        );
        assert_eq!(
            problems(&class("low", 1, Some(""))),
            ["preemptionPolicy: Required value"]
        );
        assert_eq!(
            problems(&class("", 1, None)),
            ["metadata.name: Required value: name or generateName is required"]
        );
    }

    #[test]
    fn the_system_prefix_is_reserved() {
        let reserved = "metadata.name: Forbidden: priority class names with 'system-' prefix are \
                        reserved for system use only. error: ";
        let cases = [
            (
                class("system-mine", 1, None),
                "system-mine is not a known system priority class",
            ),
            (
                class("system-node-critical", 7, None),
                "value of system-node-critical PriorityClass must be 2000001000",
            ),
            (
                default_class("system-cluster-critical", 2_000_000_000),
                "globalDefault of system-cluster-critical PriorityClass must be false",
            ),
        ];
        for (class, why) in cases {
            assert_eq!(problems(&class), [format!("{reserved}{why}")]);
        }
    }

    #[test]
    fn names_are_dns_subdomains() {
        for bad in ["Bad_Name", "-x", "x-", "a..b", ".a", "ünïcode"] {
            let problems = problems(&class(bad, 1, None));
            let start = format!("metadata.name: Invalid value: \"{bad}\": a lowercase RFC 1123");
            assert!(
                matches!(&problems[..], [only] if only.starts_with(&start)),
                "{problems:?}"
            );
        }
        let long = problems(&class(&"a".repeat(254), 1, None));
        assert!(long[0].ends_with("must be no more than 253 characters"));
    }
}
