//! A new object on its way into the store: the phases of admission, and what lies between them.
//!
//! What plugins fill in may not go together with what was written. A container that requests two
//! CPUs and gets a limit of one from a LimitRange is invalid then, though nobody wrote anything
//! wrong; so validation comes after the first phase.
//!
//! [`Writes`](crate::Writes) does the same for a request, of which all is looked at;
//! [`admit`] is for objects that were read and found right before.
//!
//! Source: `k8s.io/apiserver/pkg/registry/generic/registry/store.go`, Kubernetes 1.36.

use outrank_api::decode::{Object, ObjectKind};
use outrank_api::status::Status;
use outrank_api::validation::resource_errors;

use crate::chain::{AdmissionChain, Attributes, Cluster};

/// Lets a new object through, perhaps changed. ResourceQuota is asked after that.
///
/// # Errors
///
/// The answer, if it is refused. What was changed until then stays; the object is of no use.
pub fn admit(
    chain: &AdmissionChain,
    attributes: &Attributes<'_>,
    object: &mut Object,
    cluster: &dyn Cluster,
) -> Result<(), Status> {
    chain.admit(attributes, Some(&mut *object), cluster)?;
    if let Object::Pod(pod) = &*object {
        let errors = resource_errors(pod);
        if !errors.is_empty() {
            let kind = ObjectKind::Pod.qualified();
            return Err(Status::invalid(kind, &pod.metadata.name, &errors));
        }
    }
    chain.validate(attributes, Some(&*object), cluster)
}

#[cfg(test)]
mod tests {
    use outrank_api::types::LimitRange;
    use serde_json::{Value, json};

    use super::*;
    use crate::chain::Operation;
    use crate::{PluginFlags, PriorityResolver};

    struct Limited(PriorityResolver, LimitRange);

    impl Cluster for Limited {
        fn priority_classes(&self) -> &PriorityResolver {
            &self.0
        }

        fn limit_ranges(&self, _: &str) -> Vec<&LimitRange> {
            vec![&self.1]
        }
    }

    /// The answer to a pod with these resources where containers get a limit of 500m CPUs and two
    /// GPUs.
    fn answer(resources: Value) -> Option<String> {
        let range = json!({"spec": {"limits": [{"type": "Container",
            "default": {"cpu": "500m", "nvidia.com/gpu": 2}}]}});
        let range = serde_json::from_value(range).expect("a LimitRange");
        let cluster = Limited(PriorityResolver::new([]), range);
        let chain = AdmissionChain::default_plugins(&PluginFlags::default());
        let pod = json!({"metadata": {"name": "p", "namespace": "n"},
            "spec": {"containers": [{"name": "c", "resources": resources}]}});
        let pod = serde_json::from_value(pod).expect("a pod");
        let attributes = Attributes {
            namespace: "n",
            ..Attributes::of(Operation::Create, ObjectKind::Pod)
        };
        let chain = chain.expect("no flags, no mistakes");
        let answer = admit(&chain, &attributes, &mut Object::Pod(pod), &cluster);
        answer.err().map(|status| {
            assert_eq!(status.code, 422);
            status.message
        })
    }

    #[test]
    fn what_defaults_make_wrong_is_refused() {
        let of = |cpu: &str, gpus: i32| json!({"requests": {"cpu": cpu, "nvidia.com/gpu": gpus}});
        assert_eq!(answer(of("500m", 2)), None);
        assert_eq!(
            answer(of("1", 2)).as_deref(),
            Some(
                "Pod \"p\" is invalid: spec.containers[0].resources.requests: Invalid value: \
                 \"1\": must be less than or equal to cpu limit of 500m"
            )
        );
        assert_eq!(
            answer(of("100m", 1)).as_deref(),
            Some(
                "Pod \"p\" is invalid: spec.containers[0].resources.requests: Invalid value: \
                 \"1\": must be equal to nvidia.com/gpu limit of 2"
            )
        );
    }

    #[test]
    fn what_is_written_with_its_limit_stays() {
        let resources = json!({"requests": {"cpu": "2"}, "limits": {"cpu": "2"}});
        assert_eq!(answer(resources), None);
    }
}
