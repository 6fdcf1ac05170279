//! What a cluster would do that a rehearsal leaves out, and that shows in the input.

use std::collections::{BTreeMap, BTreeSet};

use outrank_api::decode::Object;
use outrank_api::taints::find_untolerated;
use outrank_api::types::{Node, Pod, Taint};

/// Pods that run and would be evicted from their nodes: they stay here.
pub(super) fn evictions(nodes: &[Node], pods: &[Pod]) -> Vec<String> {
    let nodes = nodes.iter().map(|node| (node.metadata.name.as_str(), node));
    let nodes: BTreeMap<&str, &Node> = nodes.collect();
    let mut evicted: BTreeMap<(&str, &str), Vec<&Pod>> = BTreeMap::new();
    let running = pods.iter().filter(|pod| pod.status.phase == "Running");
    for pod in running {
        let node = nodes.get(pod.spec.node_name.as_str());
        if let Some((node, taint)) = node.and_then(|node| Some((node, evicting_taint(pod, node)?)))
        {
            let key = (node.metadata.name.as_str(), taint.key.as_str());
            evicted.entry(key).or_default().push(pod);
        }
    }
    let told = evicted.into_iter().map(|((node, key), pods)| {
        format!(
            "node {node}: {} running pods ({}, ...) do not tolerate its NoExecute taint {key}; a \
             cluster evicts them, here they stay",
            pods.len(),
            pods[0].key()
        )
    });
    told.collect()
}

/// The first `NoExecute` taint of a node that a pod does not tolerate.
pub(crate) fn evicting_taint<'n>(pod: &Pod, node: &'n Node) -> Option<&'n Taint> {
    find_untolerated(&node.spec.taints, &pod.spec.tolerations, false, |taint| {
        taint.effect == "NoExecute"
    })
}

/// Quotas: pods that they would refuse are created here.
pub(super) fn quotas(objects: &[Object]) -> Option<String> {
    let mut quotas = objects.iter().filter_map(|object| match object {
        Object::ResourceQuota(it) => Some(&it.metadata),
        _ => None,
    });
    let first = quotas.next()?;
    let more = match quotas.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "ResourceQuota {}/{}{more}: a cluster refuses pods over a quota, here they are created",
        first.namespace, first.name
    ))
}

/// Namespaces of new pods that are not among the namespaces of the input, if it has any.
pub(super) fn missing_namespaces<'p>(
    objects: &[Object],
    new_pods: impl Iterator<Item = &'p Pod>,
) -> Vec<String> {
    let namespaces = objects.iter().filter_map(|object| match object {
        Object::Namespace(it) => Some(it.metadata.name.as_str()),
        _ => None,
    });
    let mut known: BTreeSet<&str> = namespaces.collect();
    if known.is_empty() {
        return Vec::new();
    }
    known.insert("default");
    let wanted: BTreeSet<&str> = new_pods
        .map(|pod| pod.metadata.namespace.as_str())
        .collect();
    let missing = wanted.difference(&known);
    let told = missing.map(|namespace| {
        format!(
            "namespace {namespace} is not in the input, though others are; a cluster refuses pods \
             of a namespace that does not exist"
        )
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use crate::scenario::scenario_of;

    #[test]
    fn pods_that_would_be_evicted_are_told() {
        let cluster = "apiVersion: v1\nkind: Node\nmetadata: {name: a}\nspec: {taints: [{key: \
                       broken, effect: NoExecute}]}\nstatus: {allocatable: {cpu: 4, memory: 8Gi, \
                       pods: 9}}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: \
                       {nodeName: a, containers: [{name: c, image: i}]}\nstatus: {phase: \
                       Running}\n";
        let told = scenario_of(cluster).warnings;
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("node a: 1 running pods (default/p, ...) do not tolerate"));
        let tolerates = cluster.replace("{nodeName", "{tolerations: [{key: broken}], nodeName");
        let tolerates = tolerates.replace("{key: broken}]", "{key: broken, operator: Exists}]");
        assert_eq!(scenario_of(&tolerates).warnings, Vec::<String>::new());
    }

    #[test]
    fn namespaces_that_do_not_exist_are_told() {
        let cluster = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: shop}\nspec: \
                       {containers: [{name: c, image: i}]}\n";
        assert_eq!(scenario_of(cluster).warnings, Vec::<String>::new());
        let other = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: bank}\n";
        let told = scenario_of(&format!("{cluster}{other}")).warnings;
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("namespace shop is not in the input"));
    }

    #[test]
    fn quotas_are_told() {
        let quota = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: few}\nspec: {hard: \
                     {pods: 1}}\n";
        let told = scenario_of(quota).warnings;
        assert_eq!(
            told,
            [
                "ResourceQuota default/few: a cluster refuses pods over a quota, here they are created"
            ]
        );
        let more = format!("{quota}---\n{}", quota.replace("few", "many"));
        let told = scenario_of(&more).warnings;
        assert!(told[0].starts_with("ResourceQuota default/few and 1 more: "));
    }
}
