//! NodeDeclaredFeatures: pods that need a feature of the kubelet go to nodes that declare it.
//!
//! What a pod needs is read from its spec: a user namespace on the node's network, or
//! restart rules that restart all containers. Other features that nodes declare matter to
//! changes of pods only. Sources: `plugins/nodedeclaredfeatures/nodedeclaredfeatures.go` and
//! `component-helpers/nodedeclaredfeatures/features`, Kubernetes 1.36.

use outrank_api::types::PodSpec;

use crate::alone::failure;
use crate::cluster::Cluster;
use crate::framework::{Code, DependsOn, FilterPlugin, Plugin, Reason, Refusal};
use crate::ids::NodeId;
use crate::pod_class::PodClass;

/// Features of the kubelet that pods can need to be placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FeatureSet(u8);

impl FeatureSet {
    const RESTART_ALL_CONTAINERS: Self = Self(1);
    const USER_NAMESPACES_HOST_NETWORK: Self = Self(2);

    /// The features that a node declares; those that no pod can need are left out.
    pub(crate) fn declared(names: &[String]) -> Self {
        let sets = names.iter().map(|name| match name.as_str() {
            "RestartAllContainersOnContainerExits" => Self::RESTART_ALL_CONTAINERS,
            "UserNamespacesHostNetworkSupport" => Self::USER_NAMESPACES_HOST_NETWORK,
            _ => Self::default(),
        });
        sets.fold(Self::default(), Self::and)
    }

    /// The features that a pod needs.
    pub(crate) fn needed(spec: &PodSpec) -> Self {
        let mut containers = spec.init_containers.iter().chain(&spec.containers);
        let restarts_all = containers.any(|container| {
            let mut rules = container.restart_policy_rules.iter();
            rules.any(|rule| rule.action == "RestartAllContainers")
        });
        let has_user_namespace = spec.host_users == Some(false);
        let mut needed = Self::default();
        if restarts_all {
            needed = needed.and(Self::RESTART_ALL_CONTAINERS);
        }
        if spec.host_network && has_user_namespace {
            needed = needed.and(Self::USER_NAMESPACES_HOST_NETWORK);
        }
        needed
    }

    fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of them are among `others`.
    pub fn is_within(self, others: Self) -> bool {
        self.0 & !others.0 == 0
    }
}

/// See the module.
pub struct NodeDeclaredFeatures;

impl NodeDeclaredFeatures {
    /// Name in configurations.
    pub const NAME: &'static str = "NodeDeclaredFeatures";
}

impl Plugin for NodeDeclaredFeatures {
    fn name(&self) -> &'static str {
        Self::NAME
    }
}

impl FilterPlugin for NodeDeclaredFeatures {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeObject
    }

    fn applies(&self, class: &PodClass) -> bool {
        class.needed_features != FeatureSet::default()
    }

    fn filter_node(
        &self,
        class: &PodClass,
        cluster: &Cluster,
        node: NodeId,
    ) -> Result<(), Refusal> {
        if class
            .needed_features
            .is_within(cluster.declared_features(node))
        {
            return Ok(());
        }
        let code = Code::UnschedulableAndUnresolvable;
        Err(Refusal::new(
            Self::NAME,
            code,
            Reason::DeclaredFeaturesMismatch,
        ))
    }

    fn filter_node_alone(&self, _: &PodClass, _: &Cluster, _: NodeId) -> Result<(), Refusal> {
        let text = "error reading \"PreFilterNodeDeclaredFeatures\" from cycle-state: not found";
        Err(failure(Self::NAME, text))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::storage::testing::{engine, node, pod, refusals};

    const MISSING: &str = "node(s) didn't match Pod's required features";

    fn declaring(name: &str, features: Value) -> Value {
        let mut node = node(name, json!({}));
        node["status"]["declaredFeatures"] = features;
        node
    }

    #[test]
    fn a_pod_that_needs_a_feature_goes_where_it_is_declared() {
        let restarts = "RestartAllContainersOnContainerExits";
        let users = "UserNamespacesHostNetworkSupport";
        let mut plain = pod("plain", "", json!([]));
        plain["spec"]["hostUsers"] = false.into();
        let mut restarting = pod("restarting", "", json!([]));
        restarting["spec"]["containers"][0]["restartPolicyRules"] =
            json!([{"action": "RestartAllContainers"}]);
        let mut isolated = pod("isolated", "", json!([]));
        isolated["spec"]["hostUsers"] = false.into();
        isolated["spec"]["hostNetwork"] = true.into();
        let engine = engine([
            declaring("none", json!([])),
            declaring("one", json!([restarts, "SomethingElse"])),
            declaring("other", json!([users])),
            plain,
            restarting,
            isolated,
        ]);
        let refused = |pod: &str| {
            let refusals = refusals(&engine, pod);
            assert!(refusals.values().all(|reasons| reasons == &[MISSING]));
            refusals.into_keys().collect::<Vec<_>>()
        };
        assert!(refused("plain").is_empty());
        assert_eq!(refused("restarting"), ["none", "other"]);
        assert_eq!(refused("isolated"), ["none", "one"]);
    }
}
