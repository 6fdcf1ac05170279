//! Laws that hold for all quantities and selectors.

use std::hash::{DefaultHasher, Hash, Hasher};

use outrank_api::fields::FieldSelector;
use outrank_api::labels::{Operator, Requirement, Selector};
use outrank_api::node_selector::{RequiredNodeAffinity, parse_term};
use outrank_api::pod_resources::{
    PodResourcesOptions, incoming_requests, pod_requests, scheduler_resources,
};
use outrank_api::quantity::{Format, MAX_INTEGER_DIGITS, Quantity};
use outrank_api::taints::{TaintSpecs, taint_string};
use outrank_api::types::{
    Container, Node, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, StringMap,
};
use proptest::prelude::*;

fn quantity() -> impl Strategy<Value = Quantity> {
    let number = "-?(0|[1-9][0-9]{0,17})(\\.[0-9]{1,9})?";
    let suffix = "n|u|m||k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e[0-9]|e-[0-9]|e30";
    (number, suffix).prop_map(|(number, suffix)| {
        let text = number + &suffix;
        text.parse()
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    })
}

fn sum(a: &Quantity, b: &Quantity) -> Quantity {
    let mut sum = a.clone();
    sum += b;
    sum
}

fn difference(a: &Quantity, b: &Quantity) -> Quantity {
    let mut difference = a.clone();
    difference -= b;
    difference
}

fn hash(quantity: &Quantity) -> u64 {
    let mut hasher = DefaultHasher::new();
    quantity.hash(&mut hasher);
    hasher.finish()
}

/// Whether the canonical form keeps the amount: it has no suffix beyond `E` and `Ei`, and
/// what is read is capped in binary and rounded to `1n`.
fn is_printable(quantity: &Quantity) -> bool {
    let exa = Quantity::from_value(i64::MAX, Format::DecimalSi);
    let magnitude = if quantity.sign() < 0 {
        -quantity.clone()
    } else {
        quantity.clone()
    };
    magnitude < exa
}

proptest! {
    #[test]
    fn printing_and_reading_gives_the_amount_back(quantity in quantity()) {
        prop_assume!(is_printable(&quantity));
        let read: Quantity = quantity.to_string().parse().unwrap();
        prop_assert_eq!(&read, &quantity);
        prop_assert_eq!(hash(&read), hash(&quantity));
        prop_assert_eq!(read.to_string(), quantity.to_string());
        let json = serde_json::to_string(&quantity).unwrap();
        prop_assert_eq!(serde_json::from_str::<Quantity>(&json).unwrap(), quantity);
    }

    #[test]
    fn addition_is_commutative_and_associative(a in quantity(), b in quantity(), c in quantity()) {
        prop_assert_eq!(sum(&a, &b), sum(&b, &a));
        prop_assert_eq!(sum(&sum(&a, &b), &c), sum(&a, &sum(&b, &c)));
    }

    #[test]
    fn subtraction_undoes_addition(a in quantity(), b in quantity()) {
        prop_assert_eq!(difference(&sum(&a, &b), &b), a.clone());
        prop_assert_eq!(difference(&a, &b), sum(&a, &-b.clone()));
        prop_assert!(difference(&a, &a).is_zero());
        prop_assert_eq!(-(-a.clone()), a);
    }

    #[test]
    fn order_is_that_of_the_difference(a in quantity(), b in quantity()) {
        prop_assert_eq!(a.cmp(&b) as i32, difference(&a, &b).sign());
        prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
        if a == b {
            prop_assert_eq!(hash(&a), hash(&b));
        }
    }

    #[test]
    fn the_sum_has_the_format_of_the_first_that_is_not_zero(a in quantity(), b in quantity()) {
        let expected = if a.is_zero() { b.format() } else { a.format() };
        prop_assert_eq!(sum(&a, &b).format(), expected);
        prop_assert_eq!(difference(&a, &b).format(), expected);
    }

    #[test]
    fn values_are_rounded_up(value in -1_000_000_000_000i64..1_000_000_000_000) {
        let quantity = Quantity::from_milli(value, Format::DecimalSi);
        prop_assert_eq!(quantity.milli_value(), value);
        let whole = value.abs().div_euclid(1000) + i64::from(value % 1000 != 0);
        prop_assert_eq!(quantity.value(), whole * value.signum());
        let mut rounded = quantity.clone();
        prop_assert_eq!(rounded.round_up(0), value % 1000 == 0);
        prop_assert_eq!(rounded, Quantity::from_value(whole * value.signum(), Format::DecimalSi));
    }

    #[test]
    fn large_exponents_are_refused_or_kept(exponent in -2_000_000_000i64..2_000_000_000) {
        let read = format!("3e{exponent}").parse::<Quantity>();
        prop_assert_eq!(read.is_ok(), exponent < MAX_INTEGER_DIGITS);
        if exponent < -9 {
            prop_assert_eq!(read.unwrap(), "1n".parse().unwrap());
        }
    }
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c]", "in", "notin", "example\\.com/[a-c]"]
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c]?", "[0-9]{1,2}", "in", "notin"]
}

fn labels() -> impl Strategy<Value = StringMap> {
    proptest::collection::btree_map(key(), value(), 0..5)
}

fn requirement() -> impl Strategy<Value = Requirement> {
    let operator = prop_oneof![
        Just(Operator::In),
        Just(Operator::NotIn),
        Just(Operator::Equals),
        Just(Operator::DoubleEquals),
        Just(Operator::NotEquals),
        Just(Operator::Exists),
        Just(Operator::DoesNotExist),
        Just(Operator::GreaterThan),
        Just(Operator::LessThan),
    ];
    let values = proptest::collection::btree_set(value(), 1..4);
    (key(), operator, values, 0..100u8).prop_map(|(key, operator, values, number)| {
        let mut values: Vec<String> = values.into_iter().collect();
        match operator {
            Operator::In | Operator::NotIn => {}
            Operator::Exists | Operator::DoesNotExist => values.clear(),
            Operator::GreaterThan | Operator::LessThan => values = vec![number.to_string()],
            _ => values.truncate(1),
        }
        Requirement::new(&key, operator, values, "").unwrap()
    })
}

proptest! {
    #[test]
    fn selectors_survive_printing(requirements in proptest::collection::vec(requirement(), 0..5)) {
        let selector = Selector::of(requirements);
        prop_assert_eq!(Selector::parse(&selector.to_string()), Ok(selector));
    }

    #[test]
    fn a_selector_is_the_conjunction_of_its_requirements(
        requirements in proptest::collection::vec(requirement(), 0..5),
        labels in labels(),
    ) {
        let all = requirements.iter().all(|requirement| requirement.matches(&labels));
        prop_assert_eq!(Selector::of(requirements).matches(&labels), all);
    }

    #[test]
    fn operators_have_complements(key in key(), value in value(), labels in labels()) {
        let holds = |operator, values: &[&String]| {
            let values = values.iter().map(|value| (*value).clone()).collect();
            Requirement::new(&key, operator, values, "").unwrap().matches(&labels)
        };
        prop_assert_ne!(holds(Operator::In, &[&value]), holds(Operator::NotIn, &[&value]));
        prop_assert_ne!(holds(Operator::Equals, &[&value]), holds(Operator::NotEquals, &[&value]));
        prop_assert_ne!(holds(Operator::Exists, &[]), holds(Operator::DoesNotExist, &[]));
        if let Ok(number) = value.parse::<i64>() {
            let next = (number + 1).to_string();
            let greater = holds(Operator::GreaterThan, &[&value]);
            let less = holds(Operator::LessThan, &[&next]);
            let integer = labels.get(&key).is_some_and(|label| label.parse::<i64>().is_ok());
            prop_assert_eq!(greater != less, integer);
        }
    }

    #[test]
    fn a_set_selects_exactly_its_supersets(set in labels(), labels in labels()) {
        let selector = Selector::from_set(&set);
        let superset = set.iter().all(|(key, value)| labels.get(key) == Some(value));
        prop_assert_eq!(selector.matches(&labels), superset);
        prop_assert_eq!(selector.is_empty(), set.is_empty());
    }

    #[test]
    fn field_selectors_survive_printing(pairs in proptest::collection::vec(
        ("[a-z.]{0,3}", any::<bool>(), "[a,=\\\\!é]{0,4}"), 0..5,
    )) {
        let terms: Vec<String> = pairs.iter().map(|(key, equal, value)| {
            let escaped: String = value
                .chars()
                .flat_map(|c| matches!(c, ',' | '=' | '\\').then_some('\\').into_iter().chain([c]))
                .collect();
            format!("{key}{}{escaped}", if *equal { "=" } else { "!=" })
        }).collect();
        let selector = FieldSelector::parse(&terms.join(",")).unwrap();
        let again = FieldSelector::parse(&selector.to_string()).unwrap();
        prop_assert_eq!(&again, &selector);
        let given = pairs.iter().filter(|(key, _, value)| !(key.is_empty() && value.is_empty()));
        prop_assert_eq!(selector.requirements().len(), given.count());
    }

    #[test]
    fn a_node_is_selected_by_one_term_of_many(
        terms in proptest::collection::vec(proptest::collection::vec((key(), value()), 0..3), 0..4),
        labels in labels(),
    ) {
        let terms: Vec<NodeSelectorTerm> = terms.into_iter().map(|requirements| {
            let requirement = |(key, value)| NodeSelectorRequirement {
                key, operator: "In".into(), values: vec![value],
            };
            NodeSelectorTerm {
                match_expressions: requirements.into_iter().map(requirement).collect(),
                ..NodeSelectorTerm::default()
            }
        }).collect();
        let any = terms.iter().any(|term| {
            !term.match_expressions.is_empty()
                && parse_term(term, "").unwrap().matches("node", &labels)
        });
        let spec: PodSpec = serde_json::from_value(serde_json::json!({
            "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": terms,
            }}},
        })).unwrap();
        prop_assert_eq!(RequiredNodeAffinity::of(&spec).matches("node", &labels), Ok(any));
    }

    #[test]
    fn added_taints_can_be_removed(
        key in key(), value in value(), effect in "NoSchedule|PreferNoSchedule|NoExecute",
    ) {
        let spec = format!("{key}={value}:{effect}");
        let specs = TaintSpecs::parse(&[&spec]).unwrap();
        let mut node = Node::default();
        node.spec.taints = specs.apply(&node, false).unwrap().1;
        let expected = if value.is_empty() { format!("{key}:{effect}") } else { spec };
        prop_assert_eq!(taint_string(&node.spec.taints[0]), expected);
        prop_assert!(specs.apply(&node, false).is_err());
        for removal in [format!("{key}-"), format!("{key}:{effect}-")] {
            let specs = TaintSpecs::parse(&[removal]).unwrap();
            prop_assert!(specs.apply(&node, false).unwrap().1.is_empty());
        }
    }

    #[test]
    fn a_pod_requests_at_least_each_of_its_stages(
        containers in proptest::collection::vec(0i64..5000, 0..4),
        init in proptest::collection::vec((0i64..5000, any::<bool>()), 0..4),
    ) {
        let container = |milli: i64, sidecar: bool| {
            let mut container = Container::default();
            let cpu = Quantity::from_milli(milli, Format::DecimalSi);
            container.resources.requests.insert("cpu".into(), cpu);
            container.restart_policy = sidecar.then(|| "Always".to_owned());
            container
        };
        let spec = PodSpec {
            containers: containers.iter().map(|&milli| container(milli, false)).collect(),
            init_containers: init.iter().map(|&(milli, beside)| container(milli, beside)).collect(),
            ..PodSpec::default()
        };
        let pod = Pod { spec: spec.into(), ..Pod::default() };
        let mut sidecars = 0;
        let mut largest = 0;
        for (milli, sidecar) in init {
            largest = largest.max(sidecars + milli);
            sidecars += if sidecar { milli } else { 0 };
        }
        let expected = largest.max(sidecars + containers.iter().sum::<i64>());
        let requests = pod_requests(&pod, &PodResourcesOptions::default());
        prop_assert_eq!(requests.get("cpu").map_or(0, Quantity::milli_value), expected);
        prop_assert_eq!(incoming_requests(&pod).cpu_milli, expected);
        prop_assert_eq!(scheduler_resources(&pod).cpu_milli, expected);
    }
}
