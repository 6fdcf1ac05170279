//! What a PriorityClass may be, and the two that are always there.
//!
//! A class gives a name to a number. Users may take any number up to a limit; above it are
//! `system-cluster-critical` and `system-node-critical`, which the API server makes itself,
//! whose names no other class may resemble, and which cannot be deleted. The number and the
//! preemption policy of a class stay as they are: pods have them written into their specs, and
//! would not follow.
//!
//! `NonPreemptible` is a policy of our own: pods of such a class are not preempted once they
//! run. Unless it is switched on ([`ClassRules::non_preemptible`]) it is refused as upstream
//! refuses any unknown policy.
//!
//! Sources, Kubernetes 1.36: `pkg/apis/scheduling/validation/validation.go`,
//! `pkg/apis/scheduling/v1/{helpers,defaults}.go`,
//! `pkg/registry/scheduling/priorityclass/storage/storage.go` (deletion).
//!
//! ```
//! use outrank_admission::priority_class::ClassRules;
//! use outrank_api::types::{ObjectMeta, PriorityClass};
//!
//! let class = PriorityClass {
//!     metadata: ObjectMeta { name: "urgent".into(), ..Default::default() },
//!     value: 2_000_000_000,
//!     ..Default::default()
//! };
//! assert_eq!(
//!     ClassRules::default().validate(&class)[0].to_string(),
//!     "value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
//! );
//! ```

use outrank_api::decode::ObjectKind;
use outrank_api::field_error::FieldError;
use outrank_api::metadata;
use outrank_api::names::NameRule;
use outrank_api::status::Status;
use outrank_api::types::{ObjectMeta, PriorityClass};

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

/// The policy of pods that make room for themselves at the cost of lower ones.
pub const PREEMPT_LOWER_PRIORITY: &str = "PreemptLowerPriority";

/// The policy of pods that wait until there is room.
pub const NEVER: &str = "Never";

/// Our own policy, of pods that are not preempted.
pub const NON_PREEMPTIBLE: &str = "NonPreemptible";

/// The built-in classes as the API server makes them.
pub fn system_classes() -> [PriorityClass; 2] {
    const DESCRIPTIONS: [&str; 2] = [
        "Used for system critical pods that must run in the cluster, but can be moved to another \
         node if necessary.",
        "Used for system critical pods that must not be moved from their current node.",
    ];
    let mut descriptions = DESCRIPTIONS.into_iter();
    SYSTEM_CLASSES.map(|(name, value)| PriorityClass {
        metadata: ObjectMeta {
            name: name.to_owned(),
            ..ObjectMeta::default()
        },
        value,
        preemption_policy: Some(PREEMPT_LOWER_PRIORITY.to_owned()),
        description: descriptions.next().unwrap_or_default().to_owned(),
        ..PriorityClass::default()
    })
}

/// Whether a class of this name may be deleted.
///
/// # Errors
///
/// If it is built in, whether it is there or not.
pub fn refuse_deletion(name: &str) -> Result<(), Status> {
    if !SYSTEM_CLASSES.iter().any(|(known, _)| *known == name) {
        return Ok(());
    }
    let why = "this is a system priority class and cannot be deleted";
    let resource = ObjectKind::PriorityClass.resource();
    Err(Status::forbidden(resource, name, why))
}

/// The rules for classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassRules {
    /// Whether [`NON_PREEMPTIBLE`] is a policy.
    pub non_preemptible: bool,
}

impl ClassRules {
    /// Everything that is wrong with a class that is being created, in upstream's order; empty
    /// if nothing is.
    pub fn validate(&self, class: &PriorityClass) -> Vec<FieldError> {
        let mut errors = metadata::validate(&class.metadata, false, NameRule::DnsSubdomain);
        if class.metadata.name.starts_with(SYSTEM_CLASS_PREFIX) {
            if let Err(why) = check_built_in(class) {
                let why = format!(
                    "priority class names with '{SYSTEM_CLASS_PREFIX}' prefix are reserved for \
                     system use only. error: {why}"
                );
                errors.push(FieldError::forbidden("metadata.name", why));
            }
        } else if class.value > USER_PRIORITY_MAX {
            let why =
                format!("maximum allowed value of a user defined priority is {USER_PRIORITY_MAX}");
            errors.push(FieldError::forbidden("value", why));
        }
        errors.extend(self.check_policy(class));
        errors
    }

    /// Everything that is wrong with a class that takes the place of another one of its name.
    /// Only what may not change is looked at.
    pub fn validate_update(&self, new: &PriorityClass, old: &PriorityClass) -> Vec<FieldError> {
        let mut errors = metadata::validate_update(&new.metadata, &old.metadata, false);
        if new.value != old.value {
            errors.push(FieldError::forbidden(
                "value",
                "may not be changed in an update.",
            ));
        }
        errors.extend(metadata::immutable(
            "preemptionPolicy",
            &new.preemption_policy,
            &old.preemption_policy,
        ));
        errors
    }

    fn check_policy(&self, class: &PriorityClass) -> Option<FieldError> {
        // What is told is upstream's, whose clients compare texts.
        const TOLD: [&str; 2] = [PREEMPT_LOWER_PRIORITY, NEVER];
        match class.preemption_policy.as_deref()? {
            "" => Some(FieldError::required("preemptionPolicy", "")),
            NON_PREEMPTIBLE if self.non_preemptible => None,
            policy if TOLD.contains(&policy) => None,
            policy => Some(FieldError::not_supported("preemptionPolicy", policy, &TOLD)),
        }
    }
}

/// A name that begins as those of the built-in classes do must be one of theirs, and the class
/// must be like it.
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

#[cfg(test)]
mod tests {
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

    #[test]
    fn a_policy_of_our_own_is_refused_unless_it_is_switched_on() {
        let class = class("online", 10, Some(NON_PREEMPTIBLE));
        assert_eq!(
            problems(&class),
            [
                "preemptionPolicy: Unsupported value: \"NonPreemptible\": supported values: \
              \"PreemptLowerPriority\", \"Never\""
            ]
        );
        let rules = ClassRules {
            non_preemptible: true,
        };
        assert_eq!(rules.validate(&class), []);
    }

    #[test]
    fn number_and_policy_of_a_class_stay() {
        let mut old = class("high", 7, Some(NEVER));
        old.metadata.resource_version = "1".to_owned();
        let rules = ClassRules::default();
        let texts = |new: &PriorityClass| -> Vec<String> {
            let errors = rules.validate_update(new, &old);
            errors.iter().map(ToString::to_string).collect()
        };
        let mut new = old.clone();
        new.global_default = true;
        new.description = "for people".to_owned();
        assert_eq!(texts(&new), Vec::<String>::new());
        new.value = 8;
        new.preemption_policy = Some(PREEMPT_LOWER_PRIORITY.to_owned());
        assert_eq!(
            texts(&new),
            [
                "value: Forbidden: may not be changed in an update.",
                "preemptionPolicy: Invalid value: \"PreemptLowerPriority\": field is immutable",
            ]
        );
    }

    #[test]
    fn built_in_classes_are_valid_and_stay() {
        for class in system_classes() {
            assert_eq!(problems(&class), Vec::<String>::new());
            let name = &class.metadata.name;
            assert_eq!(
                refuse_deletion(name).unwrap_err().message,
                format!(
                    "priorityclasses.scheduling.k8s.io \"{name}\" is forbidden: this is a system \
                     priority class and cannot be deleted"
                )
            );
        }
        assert_eq!(refuse_deletion("high"), Ok(()));
    }

    fn problems(class: &PriorityClass) -> Vec<String> {
        ClassRules::default()
            .validate(class)
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
