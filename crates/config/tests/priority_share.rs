//! PriorityShare in configurations: how it is enabled, what its arguments mean, and what is
//! said about mistakes.

use outrank_config::{ConfigError, Configuration, default_document, read};
use outrank_engine::Engine;
use outrank_engine::plugins::priority_share::{LimitedShare, ShareLimit};
use outrank_engine::shares::SharePods;
use serde_json::{Value, json};

fn document(profile: Value) -> Value {
    json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    })
}

fn configuration(profile: Value) -> Configuration {
    let config = read(&document(profile)).unwrap_or_else(|errors| panic!("{errors:?}"));
    Engine::new(&config.engine)
        .map(drop)
        .expect("what is read without errors is accepted");
    config
}

fn with_shares(shares: Value) -> Value {
    json!({"pluginConfig": [{"name": "PriorityShare", "args": {"shares": shares}}]})
}

fn share() -> Value {
    json!({"priorityClassName": "training", "resource": "nvidia.com/gpu", "limit": "50%"})
}

/// The share with other fields; those that are null are left out.
fn share_with(fields: Value) -> Value {
    let mut share = share();
    for (name, value) in fields.as_object().expect("fields") {
        share[name] = value.clone();
    }
    let fields = share.as_object_mut().expect("fields");
    fields.retain(|_, value| !value.is_null());
    share
}

/// What is wrong with shares: `path: message`, the path from the list on.
fn errors(shares: Value) -> Vec<String> {
    let errors = read(&document(with_shares(shares))).expect_err("something is wrong");
    let told = errors.iter().map(ConfigError::to_string);
    told.map(|error| error.replace("profiles[0].pluginConfig[0].args.", ""))
        .collect()
}

fn pre_filter(config: &Configuration) -> Vec<&str> {
    let mut points = config.profiles[0].extension_points.iter();
    let point = points.find(|point| point.name == "preFilter");
    let plugins = point.map_or(&[][..], |point| &point.plugins).iter();
    plugins.map(|plugin| &*plugin.name).collect()
}

/// Whether decisions are held to shares.
fn is_enabled(config: &Configuration) -> bool {
    let pre_filter = config.engine.profiles[0].pre_filter.as_ref();
    let is_decided = pre_filter.is_some_and(|it| it.iter().any(|name| name == "PriorityShare"));
    assert_eq!(pre_filter_has(config), is_decided);
    is_decided
}

fn pre_filter_has(config: &Configuration) -> bool {
    pre_filter(config).contains(&"PriorityShare")
}

fn warnings(config: &Configuration) -> Vec<String> {
    config.warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn arguments_say_who_may_use_how_much() {
    let config = configuration(with_shares(json!([
        share(),
        share_with(
            json!({"priorityClassName": null, "minPriority": -5, "maxPriority": 100,
            "namespace": "research", "limit": "32"})
        ),
        share_with(json!({"priorityClassName": null, "maxPriority": 0, "limit": 32})),
        share_with(
            json!({"priorityClassName": null, "minPriority": 7, "resource": "cpu",
            "limit": 1.5})
        ),
        share_with(json!({"resource": "memory", "limit": "2Gi"})),
        share_with(json!({"namespace": "research", "limit": "0%"})),
    ])));
    let priorities = |least, most| SharePods::Priorities { least, most };
    let training = || SharePods::PriorityClass("training".into());
    let shares = config.engine.profiles[0].priority_shares.iter();
    let shares: Vec<_> = shares
        .map(|share: &LimitedShare| {
            let namespace = share.namespace.as_deref();
            (share.pods.clone(), namespace, &*share.resource, share.limit)
        })
        .collect();
    let (gpu, research) = ("nvidia.com/gpu", Some("research"));
    assert_eq!(
        shares,
        [
            (training(), None, gpu, ShareLimit::Percent(50)),
            (priorities(-5, 100), research, gpu, ShareLimit::Amount(32)),
            (priorities(i32::MIN, 0), None, gpu, ShareLimit::Amount(32)),
            (
                priorities(7, i32::MAX),
                None,
                "cpu",
                ShareLimit::Amount(1500)
            ),
            (training(), None, "memory", ShareLimit::Amount(2 << 30)),
            (training(), research, gpu, ShareLimit::Percent(0)),
        ]
    );
}

#[test]
fn it_is_off_unless_it_is_enabled_or_has_arguments() {
    let off = configuration(json!({}));
    assert!(!is_enabled(&off));
    assert!(!default_document().to_string().contains("PriorityShare"));

    let by_arguments = configuration(with_shares(json!([share()])));
    assert!(is_enabled(&by_arguments));
    assert_eq!(warnings(&by_arguments), Vec::<String>::new());
    // It comes last, and nothing else is other than by default.
    let mut plugins = pre_filter(&by_arguments);
    assert_eq!(plugins.pop(), Some("PriorityShare"));
    assert_eq!(plugins, pre_filter(&off));

    for point in ["preFilter", "multiPoint"] {
        let mut profile = with_shares(json!([share()]));
        profile["plugins"] = json!({point: {"enabled": [{"name": "PriorityShare"}]}});
        let config = configuration(profile.clone());
        assert_eq!(config.profiles, by_arguments.profiles, "{point}");

        profile
            .as_object_mut()
            .expect("fields")
            .remove("pluginConfig");
        let config = configuration(profile);
        assert!(is_enabled(&config));
        let warning = "profiles[0].plugins: PriorityShare has no effect without arguments";
        assert_eq!(warnings(&config), [warning]);
    }
}

#[test]
fn whoever_disables_it_is_told_that_its_arguments_have_no_effect() {
    for plugins in [
        json!({"preFilter": {"disabled": [{"name": "PriorityShare"}]}}),
        json!({"preFilter": {"disabled": [{"name": "*"}]}}),
        json!({"multiPoint": {"disabled": [{"name": "PriorityShare"}]}}),
    ] {
        let mut profile = with_shares(json!([share()]));
        profile["plugins"] = plugins.clone();
        let config = configuration(profile);
        assert!(!is_enabled(&config), "{plugins}");
        let warning = "profiles[0].pluginConfig: arguments of PriorityShare have no effect, since \
                       it is disabled";
        assert_eq!(warnings(&config), [warning], "{plugins}");
    }
    // All defaults are; it is none of them.
    let mut profile = with_shares(json!([share()]));
    let needed = json!([{"name": "PrioritySort"}, {"name": "DefaultBinder"}]);
    profile["plugins"] = json!({"multiPoint": {"disabled": [{"name": "*"}], "enabled": needed}});
    assert_eq!(pre_filter(&configuration(profile)), ["PriorityShare"]);
}

#[test]
fn it_filters_before_nodes_are_looked_at_and_nowhere_else() {
    let plugins = json!({"filter": {"enabled": [{"name": "PriorityShare"}]}});
    let errors = read(&document(json!({"plugins": plugins}))).expect_err("no such point");
    assert_eq!(
        errors[0].to_string(),
        "profiles[0].plugins.filter.enabled[0]: plugin \"PriorityShare\" does not extend \
         FilterPlugin plugin"
    );
}

#[test]
fn a_share_is_of_a_class_or_of_priorities() {
    let class = |fields| errors(json!([share_with(fields)]));
    let both = ["shares[0]: cannot have priorityClassName beside minPriority or maxPriority"];
    assert_eq!(class(json!({"minPriority": 0})), both);
    assert_eq!(class(json!({"maxPriority": 0})), both);
    assert_eq!(
        class(json!({"priorityClassName": null})),
        ["shares[0]: must have priorityClassName, or minPriority, maxPriority or both"]
    );
    let range = |least: i64, most: i64| {
        class(json!({"priorityClassName": null, "minPriority": least, "maxPriority": most}))
    };
    assert_eq!(
        range(2, 1),
        ["shares[0].minPriority: 2 must not be above maxPriority, which is 1"]
    );
    assert_eq!(
        range(0, 1 << 31),
        ["shares[0].maxPriority: 2147483648 is out of range, from -2147483648 to 2147483647"]
    );
    let bad = class(json!({"priorityClassName": "No Such", "namespace": "a.b"}));
    assert!(
        bad[0].starts_with("shares[0].priorityClassName: \"No Such\": "),
        "{bad:?}"
    );
    assert_eq!(
        bad[1],
        "shares[0].namespace: \"a.b\": must not contain dots"
    );
    let bad = class(json!({"priorityClassName": ""}));
    assert!(
        bad[0].starts_with("shares[0].priorityClassName: \"\": "),
        "{bad:?}"
    );
}

#[test]
fn resources_and_limits_are_checked() {
    let limit = |limit: Value| errors(json!([share_with(json!({"limit": limit}))]));
    for (given, message) in [
        (json!("101%"), "101%: not in valid range [0%, 100%]"),
        (json!("-1%"), "-1%: not in valid range [0%, 100%]"),
        (
            json!("half%"),
            "\"half%\": expected a whole number of percent",
        ),
        (
            json!("12.5%"),
            "\"12.5%\": expected a whole number of percent",
        ),
        (json!(-1), "-1: must not be negative"),
        (
            json!("500m"),
            "500m: must be a whole number of units below 2^63",
        ),
        (
            json!("1e30"),
            "1e30: must be a whole number of units below 2^63",
        ),
        (json!(null), "is required"),
    ] {
        assert_eq!(limit(given), [format!("shares[0].limit: {message}")]);
    }
    let text = limit(json!("many"));
    let start = "shares[0].limit: \"many\" is neither a percentage nor a quantity: ";
    assert!(text[0].starts_with(start), "{text:?}");
    assert_eq!(
        limit(json!(true)),
        [
            "shares[0].limit: expected a percentage such as \"50%\" or a quantity such as 32, found \
          true"
        ]
    );
    let resource = |resource: Value| errors(json!([share_with(json!({"resource": resource}))]));
    assert_eq!(resource(json!(null)), ["shares[0].resource: is required"]);
    assert_eq!(
        resource(json!("pods")),
        [
            "shares[0].resource: \"pods\" is not supported: it must be cpu, memory, \
          ephemeral-storage, hugepages or an extended resource such as nvidia.com/gpu"
        ]
    );
    let small = share_with(json!({"resource": "cpu", "limit": "1.0001"}));
    assert_eq!(
        errors(json!([small])),
        ["shares[0].limit: 1.0001: must be a whole number of thousandths below 2^63"]
    );
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    let none = ["shares: at least one share must be specified"];
    assert_eq!(errors(json!([])), none);
    assert_eq!(errors(Value::Null), none);
    let twice = share_with(json!({"limit": 3}));
    assert_eq!(
        errors(json!([share(), 7, {"limits": 1}, twice])),
        [
            "shares[1]: expected an object, found 7",
            "shares[2]: must have priorityClassName, or minPriority, maxPriority or both",
            "shares[2].resource: is required",
            "shares[2].limit: is required",
            "shares[2].limits: there is no such field",
            "shares[3]: is of the same pods and resource as shares[0]",
        ]
    );
    let unknown = json!([{"name": "PriorityShare", "args": {"shares": [share()], "mode": "x"}}]);
    let errors = read(&document(json!({"pluginConfig": unknown}))).expect_err("no such field");
    assert_eq!(
        errors[0].to_string(),
        "profiles[0].pluginConfig[0].args.mode: there is no such field"
    );
}
