//! What holds of Priority for any classes and pods.

use std::sync::Arc;

use outrank_admission::PriorityResolver;
use outrank_admission::priority::CriticalPods;
use outrank_api::types::{ObjectMeta, Pod, PodSpec, PriorityClass};
use proptest::prelude::*;

const NAMES: [&str; 4] = ["low", "high", "system-node-critical", "nope"];
const POLICIES: [&str; 2] = ["PreemptLowerPriority", "Never"];

fn policy() -> impl Strategy<Value = Option<String>> {
    proptest::option::of(proptest::sample::select(
        POLICIES.map(str::to_owned).to_vec(),
    ))
}

fn class() -> impl Strategy<Value = PriorityClass> {
    let names = proptest::sample::select(vec!["low", "high", "other"]);
    (names, -3..3, any::<bool>(), policy()).prop_map(|(name, value, global_default, policy)| {
        PriorityClass {
            metadata: ObjectMeta {
                name: name.to_owned(),
                ..ObjectMeta::default()
            },
            value,
            global_default,
            preemption_policy: policy,
            ..PriorityClass::default()
        }
    })
}

fn pod() -> impl Strategy<Value = Pod> {
    let names = proptest::option::of(proptest::sample::select(NAMES.to_vec()));
    let annotated = any::<bool>();
    let namespaces = proptest::sample::select(vec!["kube-system", "shop"]);
    (
        names,
        proptest::option::of(-3..3),
        policy(),
        annotated,
        namespaces,
    )
        .prop_map(
            |(name, priority, preemption_policy, is_annotated, namespace)| {
                let spec = PodSpec {
                    priority_class_name: name.unwrap_or_default().to_owned(),
                    priority,
                    preemption_policy,
                    ..PodSpec::default()
                };
                let mut pod = Pod {
                    spec: Arc::new(spec),
                    ..Pod::default()
                };
                namespace.clone_into(&mut pod.metadata.namespace);
                if is_annotated {
                    let key = outrank_admission::priority::CRITICAL_POD.to_owned();
                    pod.metadata.annotations.insert(key, String::new());
                }
                pod
            },
        )
}

fn critical_pods() -> impl Strategy<Value = CriticalPods> {
    (any::<bool>(), any::<bool>()).prop_map(|(by_annotation, only_where_allowed)| CriticalPods {
        by_annotation,
        only_where_allowed,
    })
}

proptest! {
    #[test]
    fn resolving_again_changes_nothing_and_a_refusal_changes_nothing(
        classes in proptest::collection::vec(class(), 0..4),
        pod in pod(),
        critical in critical_pods(),
    ) {
        let resolver = PriorityResolver::new(&classes);
        let allowed = pod.metadata.namespace == "kube-system";
        let mut once = pod.clone();
        match resolver.resolve_with(&mut once, critical, allowed) {
            Err(_) => prop_assert_eq!(once, pod),
            Ok(()) => {
                prop_assert!(once.spec.priority.is_some());
                prop_assert!(once.spec.preemption_policy.is_some());
                let mut twice = once.clone();
                prop_assert_eq!(resolver.resolve_with(&mut twice, critical, allowed), Ok(()));
                prop_assert_eq!(&twice, &once);
                // What the pod brought is what it has.
                prop_assert!(pod.spec.priority.is_none_or(|it| Some(it) == once.spec.priority));
            }
        }
    }
}
