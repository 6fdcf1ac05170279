//! PodDisruptionBudgets that a drain would have to wait for. What a budget has to say about a pod is
//! [`outrank_controllers::eviction`]'s.

use std::collections::{BTreeMap, HashMap};

use outrank_api::decode::Object;
use outrank_api::labels::Selector;
use outrank_api::types::{Pod, PodDisruptionBudget};
use outrank_controllers::eviction::{asks_budgets, is_free};

use super::named;

/// What to tell people about budgets that do not allow all these pods to be evicted at once.
pub(super) fn warnings(objects: &[Object], evicted: &[&Pod]) -> Vec<String> {
    let budgets = by_namespace(objects);
    let mut counted: BTreeMap<[&str; 2], (&PodDisruptionBudget, Vec<&Pod>)> = BTreeMap::new();
    let mut warnings = Vec::new();
    for pod in evicted.iter().copied().filter(|pod| asks_budgets(pod)) {
        let own = budgets.get(pod.metadata.namespace.as_str());
        let own = own.map(Vec::as_slice).unwrap_or_default();
        let own = own
            .iter()
            .filter(|(_, selector)| selector.matches(&pod.metadata.labels));
        let own: Vec<&PodDisruptionBudget> = own.map(|(budget, _)| *budget).collect();
        match own.as_slice() {
            [] => {}
            [budget] if is_free(pod, budget) => {}
            [budget] => {
                let metadata = &budget.metadata;
                let counted = counted.entry([&metadata.namespace, &metadata.name]);
                counted.or_insert((budget, Vec::new())).1.push(pod);
            }
            several => {
                let names = several.iter().map(|budget| budget.metadata.name.as_str());
                warnings.push(format!(
                    "Pod {} has more than one PodDisruptionBudget ({}); a cluster never evicts \
                     such a pod, here it goes",
                    pod.key(),
                    names.collect::<Vec<_>>().join(", ")
                ));
            }
        }
    }
    for ([namespace, name], (budget, pods)) in counted {
        let allowed = usize::try_from(budget.status.disruptions_allowed).unwrap_or(0);
        if pods.len() > allowed {
            warnings.push(format!(
                "PodDisruptionBudget {namespace}/{name} allows {allowed} of its pods to be evicted \
                 now, and {} are drained ({}); a cluster waits until it allows more, here all go \
                 at once",
                pods.len(),
                named(&pods)
            ));
        }
    }
    warnings
}

type Budgets<'o> = HashMap<&'o str, Vec<(&'o PodDisruptionBudget, Selector)>>;

fn by_namespace(objects: &[Object]) -> Budgets<'_> {
    let mut budgets = Budgets::new();
    for object in objects {
        // One whose selector cannot be read selects no pods.
        if let Object::PodDisruptionBudget(budget) = object
            && let Ok(selector) = Selector::from_label_selector(budget.spec.selector.as_ref())
        {
            let own = budgets.entry(&budget.metadata.namespace).or_default();
            own.push((budget, selector));
        }
    }
    budgets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(budget: &str, status: &str, pods: usize) -> Vec<String> {
        let mut manifest = format!(
            "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{name: web}}\nspec: \
             {{{budget}}}\nstatus: {{currentHealthy: 3, expectedPods: 3, disruptionsAllowed: 1, \
             desiredHealthy: 2}}\n"
        );
        for number in 0..pods {
            manifest.push_str(&format!(
                "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p{number}, labels: {{app: \
                 web}}}}\nspec: {{nodeName: a, containers: [{{name: c, image: i}}]}}\nstatus: \
                 {{{status}}}\n"
            ));
        }
        let loaded = outrank_api::decode::load([("test.yaml", manifest.as_bytes())]);
        assert_eq!(loaded.errors, []);
        let objects: Vec<Object> = loaded.objects.into_iter().map(|it| it.object).collect();
        let pods = objects.iter().filter_map(|object| match object {
            Object::Pod(pod) => Some(&**pod),
            _ => None,
        });
        warnings(&objects, &pods.collect::<Vec<_>>())
    }

    const WEB: &str = "selector: {matchLabels: {app: web}}, minAvailable: 2";
    const READY: &str = "phase: Running, conditions: [{type: Ready, status: \"True\"}]";

    #[test]
    fn budgets_that_do_not_allow_it_are_told() {
        assert_eq!(told(WEB, READY, 1), Vec::<String>::new());
        let told = told(WEB, READY, 2);
        assert_eq!(
            told,
            [
                "PodDisruptionBudget default/web allows 1 of its pods to be evicted now, and 2 are \
                 drained (default/p0, default/p1); a cluster waits until it allows more, here all \
                 go at once"
            ]
        );
    }

    #[test]
    fn only_pods_that_count_are_counted() {
        const UNREADY: &str = "phase: Running, conditions: [{type: Ready, status: \"False\"}]";
        for status in ["phase: Pending", "phase: Succeeded", UNREADY] {
            assert_eq!(told(WEB, status, 2), Vec::<String>::new(), "{status}");
        }
        let other = "selector: {matchLabels: {app: db}}, minAvailable: 2";
        assert_eq!(told(other, READY, 2), Vec::<String>::new());
        assert_eq!(told("minAvailable: 2", READY, 2), Vec::<String>::new());
        let all = "selector: {}, minAvailable: 2";
        assert_eq!(told(all, READY, 2).len(), 1);
    }
}
