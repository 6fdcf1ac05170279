//! Taints keep pods off a node; tolerations let them on again.
//!
//! The module decides whether a toleration tolerates a taint, and understands the
//! arguments of `kubectl taint`. Sources: `k8s.io/api/core/v1/toleration.go` and
//! `k8s.io/kubectl/pkg/cmd/taint`, Kubernetes 1.36, whose error texts it uses.

use std::collections::HashSet;
use std::fmt;

use crate::names;
use crate::types::{Node, Taint, Toleration};

/// Whether a toleration tolerates a taint. `comparison_operators` tells whether the
/// operators `Lt` and `Gt` count (gate TaintTolerationComparisonOperators, off by default
/// in Kubernetes 1.36).
pub fn tolerates(toleration: &Toleration, taint: &Taint, comparison_operators: bool) -> bool {
    let effect_fits = toleration.effect.is_empty() || toleration.effect == taint.effect;
    let key_fits = toleration.key.is_empty() || toleration.key == taint.key;
    if !effect_fits || !key_fits {
        return false;
    }
    let integers = || {
        let taint_value = decimal_integer(&taint.value)?;
        Some((taint_value, decimal_integer(&toleration.value)?))
    };
    match toleration.operator.as_str() {
        "" | "Equal" => toleration.value == taint.value,
        "Exists" => true,
        "Lt" => comparison_operators && integers().is_some_and(|(taint, bound)| taint < bound),
        "Gt" => comparison_operators && integers().is_some_and(|(taint, bound)| taint > bound),
        _ => false,
    }
}

/// The first of the taints that `filter` lets through and none of the tolerations
/// tolerates.
pub fn find_untolerated<'a>(
    taints: &'a [Taint],
    tolerations: &[Toleration],
    comparison_operators: bool,
    filter: impl Fn(&Taint) -> bool,
) -> Option<&'a Taint> {
    let tolerated = |taint: &Taint| {
        tolerations
            .iter()
            .any(|toleration| tolerates(toleration, taint, comparison_operators))
    };
    taints
        .iter()
        .find(|taint| filter(taint) && !tolerated(taint))
}

/// `key=value:effect`, without the parts that are empty.
pub fn taint_string(taint: &Taint) -> String {
    let Taint {
        key, value, effect, ..
    } = taint;
    match (value.is_empty(), effect.is_empty()) {
        (true, true) => key.clone(),
        (true, false) => format!("{key}:{effect}"),
        (false, _) => format!("{key}={value}:{effect}"),
    }
}

/// What `kubectl taint` did to a node, as it reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Taints were added.
    Tainted,
    /// Taints were removed, or nothing changed.
    Untainted,
    /// Both, or with `--overwrite` anything.
    Modified,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Tainted => "tainted",
            Operation::Untainted => "untainted",
            Operation::Modified => "modified",
        })
    }
}

/// The taint arguments of `kubectl taint`: `key=value:effect` and `key:effect` add a
/// taint, `key:effect-` removes one, `key-` all with that key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaintSpecs {
    /// Taints to add, in order of the arguments.
    pub add: Vec<Taint>,
    /// Taints to remove, in order; without value, and without effect to remove all.
    pub remove: Vec<Taint>,
}

impl TaintSpecs {
    /// Reads the arguments. The error is upstream's text.
    pub fn parse<S: AsRef<str>>(args: &[S]) -> Result<Self, String> {
        let mut specs = Self::default();
        let mut seen = HashSet::new();
        for arg in args.iter().map(AsRef::as_ref) {
            if let Some(spec) = arg.strip_suffix('-') {
                let taint = Taint {
                    value: String::new(),
                    ..parse_taint(spec)?
                };
                specs.remove.push(taint);
                continue;
            }
            let taint = parse_taint(arg)?;
            if taint.effect.is_empty() {
                return Err(format!("invalid taint spec: {arg}"));
            }
            if !seen.insert((taint.key.clone(), taint.effect.clone())) {
                let Taint {
                    key, value, effect, ..
                } = taint;
                return Err(format!(
                    "duplicated taints with the same key and effect: \
                     {{{key} {value} {effect} <nil>}}"
                ));
            }
            specs.add.push(taint);
        }
        Ok(specs)
    }

    /// The message with which `kubectl` refuses to add and remove the same taint, if the
    /// arguments do that.
    pub fn conflict(&self) -> Option<String> {
        let mut conflicts = Vec::new();
        for add in &self.add {
            for remove in self.remove.iter().filter(|remove| removes(remove, add)) {
                conflicts.push(format!("{}={}", remove.key, remove.effect));
            }
        }
        (!conflicts.is_empty()).then(|| {
            format!(
                "can not both modify and remove the following taint(s) in the same command: {}",
                conflicts.join(", ")
            )
        })
    }

    /// What is done to the node, and its new taints: the added ones before the old ones.
    /// The error is upstream's text: a taint to remove is not there, or one to add is and
    /// `overwrite` is false.
    pub fn apply(&self, node: &Node, overwrite: bool) -> Result<(Operation, Vec<Taint>), String> {
        let old = &node.spec.taints;
        if !overwrite {
            self.refuse_existing(node)?;
        }
        let mut taints = self.add.clone();
        let mut seen: HashSet<_> = self.add.iter().map(identity).collect();
        taints.extend(old.iter().filter(|old| seen.insert(identity(old))).cloned());
        // Upstream looks at the numbers only, and at the last removal only.
        let added = taints.len() != old.len();
        let mut removed = false;
        let mut errors = Vec::new();
        for remove in &self.remove {
            let before = taints.len();
            taints.retain(|taint| !removes(remove, taint));
            removed = taints.len() != before;
            if !removed {
                errors.push(format!(
                    "taint {} not found",
                    names::quoted(&taint_string(remove))
                ));
            }
        }
        if !errors.is_empty() {
            return Err(names::joined_errors(&errors));
        }
        let operation = match (added, removed) {
            _ if overwrite => Operation::Modified,
            (true, true) => Operation::Modified,
            (true, false) => Operation::Tainted,
            (false, _) => Operation::Untainted,
        };
        Ok((operation, taints))
    }

    fn refuse_existing(&self, node: &Node) -> Result<(), String> {
        let old: HashSet<_> = node.spec.taints.iter().map(identity).collect();
        let existing = self.add.iter().filter(|add| old.contains(&identity(add)));
        let existing: Vec<&str> = existing.map(|add| add.key.as_str()).collect();
        if existing.is_empty() {
            return Ok(());
        }
        Err(format!(
            "node {} already has {} taint(s) with same effect(s) and --overwrite is false",
            node.metadata.name,
            existing.join(",")
        ))
    }
}

/// Taints are the same if key and effect are.
fn identity(taint: &Taint) -> (&str, &str) {
    (&taint.key, &taint.effect)
}

fn removes(remove: &Taint, taint: &Taint) -> bool {
    remove.key == taint.key && (remove.effect.is_empty() || remove.effect == taint.effect)
}

/// Reads `key=value:effect`, `key:effect` or `key`.
fn parse_taint(spec: &str) -> Result<Taint, String> {
    let mut taint = Taint::default();
    let invalid = |errors: &[String]| {
        let rules: String = errors.join("; ");
        let separator = if rules.is_empty() { "" } else { ", " };
        format!("invalid taint spec: {spec}{separator}{rules}")
    };
    match spec.split(':').collect::<Vec<_>>().as_slice() {
        [key] => taint.key = (*key).to_owned(),
        [key_value, effect] => {
            if !matches!(*effect, "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
                return Err(format!(
                    "invalid taint effect: {effect}, unsupported taint effect"
                ));
            }
            let (key, value) = key_value.split_once('=').unwrap_or((key_value, ""));
            if value.contains('=') {
                return Err(invalid(&[]));
            }
            let errors = names::label_value_errors(value);
            if !errors.is_empty() {
                return Err(invalid(&errors));
            }
            taint.key = key.to_owned();
            taint.value = value.to_owned();
            taint.effect = (*effect).to_owned();
        }
        _ => return Err(invalid(&[])),
    }
    let errors = names::label_key_errors(&taint.key);
    if errors.is_empty() {
        Ok(taint)
    } else {
        Err(invalid(&errors))
    }
}

/// An integer written in canonical form: no plus, no leading zeros, no negative zero.
fn decimal_integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let canonical = text == "0" || !digits.starts_with(['0', '+']);
    if canonical { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_canonical_integers_only() {
        for (text, expected) in [
            ("0", Some(0)),
            ("-7", Some(-7)),
            ("-0", None),
            ("+7", None),
            ("-+7", None),
            ("07", None),
            ("", None),
            ("-", None),
            ("9223372036854775808", None),
        ] {
            assert_eq!(decimal_integer(text), expected, "{text}");
        }
    }

    #[test]
    fn finds_the_first_untolerated_taint() {
        let taint = |key: &str, effect: &str| Taint {
            key: key.into(),
            effect: effect.into(),
            ..Taint::default()
        };
        let taints = [
            taint("a", "NoSchedule"),
            taint("b", "PreferNoSchedule"),
            taint("c", "NoExecute"),
        ];
        let tolerations = [Toleration {
            key: "a".into(),
            operator: "Exists".into(),
            ..Toleration::default()
        }];
        let hard = |taint: &Taint| taint.effect != "PreferNoSchedule";
        assert_eq!(
            find_untolerated(&taints, &tolerations, false, hard),
            Some(&taints[2])
        );
        assert_eq!(
            find_untolerated(&taints, &tolerations, false, |_| true),
            Some(&taints[1])
        );
        assert_eq!(
            find_untolerated(&taints[..1], &tolerations, false, hard),
            None
        );
    }

    #[test]
    fn refuses_to_add_and_remove_the_same() {
        let specs = TaintSpecs::parse(&["a=b:NoSchedule", "a-"]).unwrap();
        assert!(
            specs
                .conflict()
                .is_some_and(|message| message.ends_with("command: a="))
        );
        let specs = TaintSpecs::parse(&["a=b:NoSchedule", "a:NoExecute-"]).unwrap();
        assert_eq!(specs.conflict(), None);
    }
}
