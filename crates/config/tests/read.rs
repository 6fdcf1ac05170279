//! Scheduler configurations: defaults, plugins, arguments, and what is said about mistakes.

use outrank_config::{ConfigError, Configuration, read, read_with_plugins};
use outrank_engine::cluster::Cluster;
use outrank_engine::extensions::{Extensions, OwnPlugin};
use outrank_engine::framework::{DependsOn, Plugin, ScorePlugin, Stages};
use outrank_engine::ids::NodeId;
use outrank_engine::pod_class::PodClass;
use outrank_engine::profile::{
    ProfileConfig, ResourceSpec, ScoringStrategy, UtilizationShapePoint,
};
use outrank_engine::{Engine, EngineConfig};
use serde_json::{Value, json};

/// A configuration with these fields.
fn document(fields: Value) -> Value {
    let mut document = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
    });
    for (name, value) in fields.as_object().expect("an object") {
        document[name] = value.clone();
    }
    document
}

fn config(fields: Value) -> EngineConfig {
    let config = configuration(fields).engine;
    Engine::new(&config)
        .map(drop)
        .expect("what is read without errors is accepted");
    config
}

fn configuration(fields: Value) -> Configuration {
    read(&document(fields)).unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn warnings(fields: Value) -> Vec<String> {
    let warnings = configuration(fields).warnings;
    warnings.iter().map(ToString::to_string).collect()
}

/// The only profile, with these plugins.
fn with_plugins(plugins: Value) -> ProfileConfig {
    let mut config = config(json!({"profiles": [{"plugins": plugins}]}));
    assert_eq!(config.profiles.len(), 1);
    config.profiles.remove(0)
}

/// The only profile, with these arguments of a plugin.
fn with_args(name: &str, args: Value) -> ProfileConfig {
    let args = json!([{"name": name, "args": args}]);
    config(json!({"profiles": [{"pluginConfig": args}]}))
        .profiles
        .remove(0)
}

/// `path: message` of all that is wrong.
fn errors(fields: Value) -> Vec<String> {
    let errors = read(&document(fields)).expect_err("something is wrong");
    errors.iter().map(ConfigError::to_string).collect()
}

fn plugin_errors(plugins: Value) -> Vec<String> {
    errors(json!({"profiles": [{"plugins": plugins}]}))
}

fn args_errors(name: &str, args: Value) -> Vec<String> {
    errors(json!({"profiles": [{"pluginConfig": [{"name": name, "args": args}]}]}))
}

fn strategy_errors(strategy: Value) -> Vec<String> {
    args_errors("NodeResourcesFit", json!({"scoringStrategy": strategy}))
}

const STRATEGY: &str = "profiles[0].pluginConfig[0].args.scoringStrategy";

fn weight_of(profile: &ProfileConfig, plugin: &str) -> Option<i64> {
    let mut scores = profile.score.iter();
    scores
        .find(|(name, _)| name == plugin)
        .map(|(_, weight)| *weight)
}

#[test]
fn what_is_not_said_is_kube_schedulers_default() {
    let default = ProfileConfig::default();
    for profiles in [Value::Null, json!([]), json!([{}])] {
        let profiles = config(json!({"profiles": profiles})).profiles;
        assert_eq!(profiles, std::slice::from_ref(&default));
    }
    assert_eq!(config(json!({})).profiles, std::slice::from_ref(&default));
    assert_eq!(with_plugins(json!({})), default);
    assert_eq!(with_args("NodeResourcesFit", json!({})), default);
    assert_eq!(with_args("NodeAffinity", json!({})), default);
    assert_eq!(weight_of(&default, "TaintToleration"), Some(3));
    assert_eq!(weight_of(&default, "NodeAffinity"), Some(2));
    assert_eq!(weight_of(&default, "ImageLocality"), Some(1));
    let backoff = config(json!({})).backoff;
    assert_eq!((backoff.initial_seconds, backoff.maximum_seconds), (1, 10));
}

#[test]
fn fields_without_effect_here_are_accepted() {
    config(json!({
        "parallelism": 16,
        "percentageOfNodesToScore": 100,
        "leaderElection": {"leaderElect": true, "leaseDuration": "20s", "resourceLock": "leases"},
        "clientConnection": {"kubeconfig": "/etc/scheduler.conf", "qps": 50, "burst": 100},
        "enableProfiling": false,
        "enableContentionProfiling": false,
        "delayCacheUntilActive": true,
        "extenders": [],
    }));
}

#[test]
fn profiles_have_names_of_their_own() {
    let profiles = json!([{"schedulerName": "packer"}, {"schedulerName": "default-scheduler"}]);
    let profiles = config(json!({"profiles": profiles})).profiles;
    let names: Vec<&str> = profiles
        .iter()
        .map(|profile| &*profile.scheduler_name)
        .collect();
    assert_eq!(names, ["packer", "default-scheduler"]);

    let profiles = json!([{"schedulerName": "a"}, {"schedulerName": "b"}, {"schedulerName": "a"}]);
    assert_eq!(
        errors(json!({"profiles": profiles})),
        ["profiles[2].schedulerName: another profile is called \"a\" already"]
    );

    let required = "is required; only a single profile may leave it out";
    assert_eq!(
        errors(json!({"profiles": [{}, {"schedulerName": "b"}]})),
        [format!("profiles[0].schedulerName: {required}")]
    );
    assert_eq!(
        errors(json!({"profiles": [{"schedulerName": ""}]})),
        [format!("profiles[0].schedulerName: {required}")]
    );
}

#[test]
fn what_is_said_of_the_process_is_checked() {
    assert_eq!(
        errors(json!({
            "parallelism": 0,
            "clientConnection": {"burst": -1, "rate": 1},
            "leaderElection": {
                "leaseDuration": "10s",
                "renewDeadline": "15s",
                "retryPeriod": "-2s",
                "resourceLock": "endpoints",
            },
            "enableProfiling": "yes",
        })),
        [
            "enableProfiling: expected true or false, found \"yes\"",
            "parallelism: 0: should be an integer value greater than zero",
            "clientConnection.burst: -1: must be non-negative",
            "clientConnection.rate: there is no such field",
            "leaderElection.retryPeriod: must be greater than zero",
            "leaderElection.leaseDuration: must be greater than renewDeadline",
            "leaderElection.resourceLock: resourceLock value must be \"leases\"",
        ]
    );
    assert_eq!(
        errors(json!({"leaderElection": {"leaseDuration": "15"}})),
        ["leaderElection.leaseDuration: \"15\" is not a duration such as \"15s\" or \"1m30s\""]
    );
    // Without an election there is nothing to check.
    config(json!({"leaderElection": {"leaderElect": false, "resourceLock": "endpoints"}}));
}

#[test]
fn percentages_of_profiles_come_before_that_of_all() {
    let percentages = |fields: Value| -> Vec<Option<u8>> {
        let profiles = config(fields).profiles;
        let percentages = profiles.iter().map(|it| it.percentage_of_nodes_to_score);
        percentages.collect()
    };
    assert_eq!(percentages(json!({})), [None]);
    let two = json!([
        {"schedulerName": "a"},
        {"schedulerName": "b", "percentageOfNodesToScore": 30},
    ]);
    assert_eq!(percentages(json!({"profiles": two})), [None, Some(30)]);
    assert_eq!(
        percentages(json!({"percentageOfNodesToScore": 0, "profiles": two})),
        [Some(0), Some(30)]
    );
    assert_eq!(
        errors(json!({
            "percentageOfNodesToScore": 101,
            "profiles": [{"percentageOfNodesToScore": -1}],
        })),
        [
            "percentageOfNodesToScore: 101: not in valid range [0-100]",
            "profiles[0].percentageOfNodesToScore: -1: not in valid range [0-100]",
        ]
    );
}

#[test]
fn profiles_need_one_queue_sort_plugin_and_one_that_binds() {
    let disabled = |name: &str| json!({"disabled": [{"name": name}]});
    assert_eq!(
        plugin_errors(json!({"queueSort": disabled("PrioritySort"), "bind": disabled("*")})),
        [
            "profiles[0].plugins.queueSort: only one queue sort plugin required for profile with \
             scheduler name \"default-scheduler\", but got 0",
            "profiles[0].plugins.bind: at least one bind plugin is needed for profile with \
             scheduler name \"default-scheduler\"",
        ]
    );
    let queue_sort = json!({"queueSort": {"enabled": [{"name": "PrioritySort"}]}});
    assert_eq!(
        errors(json!({"profiles": [
            {"schedulerName": "a"},
            {"schedulerName": "b", "plugins": queue_sort},
        ]})),
        ["profiles[1].plugins.queueSort: must be the same for all profiles"]
    );
}

#[test]
fn version_v1beta3_is_read_with_a_warning() {
    let document = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1beta3",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"filter": {"enabled": [{"name": "EBSLimits"}]}}}],
    });
    let config = read(&document).expect("accepted");
    assert_eq!(config.engine.profiles, [ProfileConfig::default()]);
    let warnings: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "apiVersion: kube-scheduler reads v1beta3 no more since Kubernetes 1.29; v1 has the \
             same fields",
            "profiles[0].plugins.filter.enabled[0].name: EBSLimits is part of NodeVolumeLimits \
             now, left out",
        ]
    );
    // In v1 it is an error.
    assert_eq!(
        plugin_errors(json!({"filter": {"enabled": [{"name": "EBSLimits"}]}})),
        [
            "profiles[0].plugins.filter.enabled[0].name: \"EBSLimits\": was invalid in version \
             \"kubescheduler.config.k8s.io/v1\" (KubeSchedulerConfiguration is version \
             \"kubescheduler.config.k8s.io/v1\")"
        ]
    );
}

#[test]
fn odd_weights_and_names_are_pointed_out() {
    assert_eq!(
        warnings(json!({"profiles": [{"plugins": {
            "score": {"enabled": [
                {"name": "NodeAffinity", "weight": 0},
                {"name": "ImageLocality", "weight": -2},
            ]},
            "filter": {"enabled": [{"name": "NodeName", "weight": 5}]},
            "permit": {"disabled": [{"name": "NodeResourceFit"}]},
        }}]})),
        [
            "profiles[0].plugins.filter.enabled[0].weight: only scores are weighted",
            "profiles[0].plugins.score.enabled[0].weight: 0 counts as 1; to leave the plugin out, \
             put it into disabled",
            "profiles[0].plugins.score.enabled[1].weight: a negative weight prefers the nodes \
             that the plugin rates low",
            "profiles[0].plugins.permit.disabled[0]: there is no plugin \"NodeResourceFit\" to \
             disable",
        ]
    );
}

#[test]
fn what_profiles_mean_is_told_point_by_point() {
    let score = json!({"score": {"disabled": [{"name": "*"}],
                                 "enabled": [{"name": "ImageLocality", "weight": 4}]}});
    let config = configuration(json!({"profiles": [{"plugins": score}]}));
    let points = &config.profiles[0].extension_points;
    let names: Vec<&str> = points.iter().map(|point| point.name).collect();
    assert_eq!(
        names,
        [
            "preEnqueue",
            "queueSort",
            "preFilter",
            "filter",
            "postFilter",
            "preScore",
            "score",
            "reserve",
            "preBind",
            "bind",
        ]
    );
    let plugin = &points[6].plugins[0];
    assert_eq!((&*plugin.name, plugin.weight), ("ImageLocality", Some(4)));
    let binder = &points[9].plugins[0];
    assert_eq!((&*binder.name, binder.weight), ("DefaultBinder", None));
}

fn extender_errors(extenders: Value) -> Vec<String> {
    errors(json!({"extenders": extenders}))
}

#[test]
fn extenders_are_read() {
    let config = configuration(json!({"extenders": [
        {"urlPrefix": "http://a:80/x", "filterVerb": "filter", "ignorable": true},
        {
            "urlPrefix": "https://b",
            "prioritizeVerb": "rate",
            "weight": 3,
            "enableHTTPS": true,
            "httpTimeout": "1.5s",
            "nodeCacheCapable": true,
            "managedResources": [
                {"name": "example.com/foo", "ignoredByScheduler": true},
                {"name": "example.com/bar"},
            ],
            "tlsConfig": {"serverName": "c", "certData": "QQ==", "keyData": "Qg=="},
        },
    ]}));
    // Those whose errors do not matter come last.
    let [one, other] = config.extenders.as_slice() else {
        panic!("two extenders");
    };
    assert_eq!(
        (&*one.url_prefix, &*other.url_prefix),
        ("https://b", "http://a:80/x")
    );
    assert_eq!((one.weight, one.http_timeout.as_millis()), (3, 1500));
    assert_eq!((other.http_timeout.as_secs(), other.ignorable), (5, true));
    assert!(one.node_cache_capable && !other.node_cache_capable);
    let tls = one.tls.as_ref().expect("TLS");
    // Without roots the server's certificate cannot be looked at.
    assert!(tls.insecure);
    assert_eq!((&*tls.cert_data, &*tls.key_data), (&b"A"[..], &b"B"[..]));
    assert!(!format!("{tls:?}").contains("key_data"));
    assert!(other.tls.is_none());
    let fit = &config.engine.profiles[0].node_resources_fit;
    assert_eq!(fit.ignored_resources, ["example.com/foo"]);
}

#[test]
fn wrong_extenders_are_named() {
    let at = |fields: Value| {
        let mut extender = json!({"urlPrefix": "http://a"});
        for (name, value) in fields.as_object().expect("an object") {
            extender[name] = value.clone();
        }
        extender
    };
    assert_eq!(
        extender_errors(json!([at(json!({"prioritizeVerb": "rate"}))])),
        ["extenders[0].weight: 0: must have a positive weight applied to it"]
    );
    assert_eq!(
        extender_errors(json!([
            at(json!({"bindVerb": "a"})),
            at(json!({"bindVerb": "b"}))
        ])),
        ["extenders: found 2 extenders implementing bind: only one extender can implement bind"]
    );
    let managed = |name: &str| at(json!({"managedResources": [{"name": name}]}));
    assert_eq!(
        extender_errors(json!([
            managed("example.com/foo"),
            managed("example.com/foo")
        ])),
        [
            "extenders[1].managedResources[0].name: \"example.com/foo\": duplicate extender \
             managed resource name"
        ]
    );
    for name in ["cpu", "kubernetes.io/foo", "requests.example.com/foo"] {
        assert_eq!(
            extender_errors(json!([managed(name)])),
            [format!(
                "extenders[0].managedResources[0].name: {name:?}: is an invalid extended \
                 resource name"
            )]
        );
    }
    let tls = json!({"insecure": true, "caFile": "ca.pem", "certFile": "c.pem", "caData": "?"});
    let errors = extender_errors(json!([at(json!({"tlsConfig": tls, "httpTimeout": 5}))]));
    let paths: Vec<&str> = errors
        .iter()
        .filter_map(|error| error.split(": ").next())
        .collect();
    assert_eq!(
        paths,
        [
            "extenders[0].httpTimeout",
            "extenders[0].tlsConfig.caData",
            "extenders[0].tlsConfig.insecure",
        ]
    );
}

#[test]
fn extenders_that_upstream_takes_are_taken_with_warnings() {
    let warned = |extender: Value| warnings(json!({"extenders": [extender]}));
    for url_prefix in ["", "localhost", "/a", "ftp://a", "http://", "https:///a"] {
        assert_eq!(
            warned(json!({"urlPrefix": url_prefix})),
            [format!(
                "extenders[0].urlPrefix: {url_prefix:?} is not a URL such as \
                 \"http://127.0.0.1:8888/scheduler\": every call will fail"
            )]
        );
    }
    for url_prefix in ["HTTP://a", "http://a", "HttpS://a:1/b"] {
        assert!(warned(json!({"urlPrefix": url_prefix})).is_empty());
    }
    let with_tls = |tls: Value| warned(json!({"urlPrefix": "https://a", "tlsConfig": tls}));
    assert_eq!(
        with_tls(json!({"certFile": "a.pem"})),
        [
            "extenders[0].tlsConfig.keyFile: the client's certificate has no key, and is not \
             used"
        ]
    );
    assert_eq!(
        with_tls(json!({"keyData": "QQ=="})),
        [
            "extenders[0].tlsConfig.certFile: the client's key has no certificate, and is not \
             used"
        ]
    );
}

#[test]
fn files_that_are_needed_are_told() {
    let tls = json!({"caFile": "ca", "certFile": "cert", "certData": "QQ==", "keyFile": "key"});
    let config = configuration(json!({"extenders": [
        {"urlPrefix": "http://a"},
        {"urlPrefix": "http://b", "tlsConfig": tls},
    ]}));
    let files = config.files.iter();
    let files: Vec<(&str, &str)> = files.map(|it| (&*it.path, &*it.file)).collect();
    // Data takes precedence over a file.
    assert_eq!(
        files,
        [
            ("extenders[1].tlsConfig.caFile", "ca"),
            ("extenders[1].tlsConfig.keyFile", "key"),
        ]
    );
}

#[test]
fn without_score_plugins_extenders_begin_from_zero() {
    let has_extenders = |extenders: Value| {
        let config = config(json!({"extenders": extenders}));
        config.profiles[0].has_extenders
    };
    assert!(!has_extenders(json!([])));
    assert!(has_extenders(json!([{"urlPrefix": "http://a"}])));
}

#[test]
fn arguments_without_effect_here_are_checked() {
    let path = "profiles[0].pluginConfig[0].args";
    let zero = json!({"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0});
    assert_eq!(
        args_errors("DefaultPreemption", zero),
        [
            format!(
                "{path}.minCandidateNodesPercentage: 0: cannot be zero at the same time as \
                 minCandidateNodesAbsolute"
            ),
            format!(
                "{path}.minCandidateNodesAbsolute: 0: cannot be zero at the same time as \
                 minCandidateNodesPercentage"
            ),
        ]
    );
    assert_eq!(
        args_errors(
            "DynamicResources",
            json!({"filterTimeout": "-1s", "bindingTimeout": "0s"})
        ),
        [
            format!("{path}.filterTimeout: must be zero or positive"),
            format!("{path}.bindingTimeout: must be at least 1 second"),
        ]
    );
    assert_eq!(
        args_errors("DefaultPreemption", json!({"kind": "NodeAffinityArgs"})),
        [format!(
            "{path}.kind: args for plugin DefaultPreemption were not of type \
             DefaultPreemptionArgs, got NodeAffinityArgs"
        )]
    );
}

#[test]
fn backoff_is_in_whole_seconds() {
    let backoff = config(json!({"podInitialBackoffSeconds": 3, "podMaxBackoffSeconds": 30}));
    assert_eq!(backoff.backoff.initial_seconds, 3);
    assert_eq!(backoff.backoff.maximum_seconds, 30);
    assert_eq!(
        errors(json!({"podInitialBackoffSeconds": 0, "podMaxBackoffSeconds": "10"})),
        [
            "podInitialBackoffSeconds: must be a number of seconds greater than 0",
            "podMaxBackoffSeconds: must be a number of seconds greater than 0",
        ]
    );
    assert_eq!(
        errors(json!({"podInitialBackoffSeconds": 20})),
        ["podMaxBackoffSeconds: 10 must not be below podInitialBackoffSeconds, which is 20"]
    );
}

#[test]
fn a_stage_can_weigh_a_plugin_otherwise() {
    let enabled = json!([{"name": "ImageLocality", "weight": 40}, {"name": "NodeAffinity"}]);
    let profile = with_plugins(json!({"score": {"enabled": enabled}}));
    // Those that the stage names come first, in its order; no weight is weight 1.
    assert_eq!(profile.score[0], ("ImageLocality".to_owned(), 40));
    assert_eq!(profile.score[1], ("NodeAffinity".to_owned(), 1));
    assert_eq!(profile.score.len(), ProfileConfig::default().score.len());
    assert_eq!(weight_of(&profile, "TaintToleration"), Some(3));
}

#[test]
fn a_stage_can_disable_a_plugin() {
    let off = json!({"disabled": [{"name": "NodePorts"}]});
    let profile = with_plugins(json!({"preFilter": off, "filter": off}));
    let mut expected = ProfileConfig::default();
    expected.filter.retain(|name| name != "NodePorts");
    assert_eq!(profile, expected);
}

#[test]
fn a_stage_is_apart_from_the_one_that_prepares_it() {
    let default = ProfileConfig::default();
    let off = json!({"disabled": [{"name": "NodePorts"}, {"name": "VolumeBinding"}]});
    let profile = with_plugins(json!({"filter": off}));
    let has = |names: &Option<Vec<String>>, name: &str| {
        let names = names.as_ref().expect("stages of their own");
        names.iter().any(|other| other == name)
    };
    assert!(!profile.filter.contains(&"NodePorts".to_owned()));
    assert!(has(&profile.pre_filter, "NodePorts"));
    assert!(has(&profile.reserve, "VolumeBinding"));
    // What has no PreFilter stage is not there.
    assert!(!has(&profile.pre_filter, "NodeName"));

    let profile = with_plugins(json!({"preFilter": off}));
    assert_eq!(profile.filter, default.filter);
    assert!(!has(&profile.pre_filter, "NodePorts"));

    let off = json!({"disabled": [{"name": "NodeAffinity"}]});
    let profile = with_plugins(json!({"preScore": off}));
    assert_eq!(profile.score, default.score);
    assert!(!has(&profile.pre_score, "NodeAffinity"));
    assert!(!has(&profile.pre_score, "ImageLocality"));

    // DynamicResources scores by what PreFilter leaves.
    let off = json!({"disabled": [{"name": "DynamicResources"}]});
    let profile = with_plugins(json!({"preFilter": off, "filter": off, "reserve": off}));
    assert!(!has(&profile.pre_filter, "DynamicResources"));
    let multi_point = json!({"disabled": [{"name": "DynamicResources"}]});
    let profile = with_plugins(json!({"multiPoint": multi_point}));
    assert_eq!(profile.pre_filter, None);
}

#[test]
fn a_star_disables_all_plugins_but_those_that_are_enabled() {
    let score = json!({
        "disabled": [{"name": "*"}],
        "enabled": [{"name": "NodeResourcesFit", "weight": 2}],
    });
    let profile = with_plugins(json!({"score": score}));
    assert_eq!(profile.score, [("NodeResourcesFit".to_owned(), 2)]);
    assert_eq!(profile.filter, ProfileConfig::default().filter);

    let nothing = with_plugins(json!({"score": {"disabled": [{"name": "*"}]}}));
    assert_eq!(nothing.score, []);
}

#[test]
fn multi_point_changes_all_stages() {
    let everywhere = json!({
        "disabled": [{"name": "TaintToleration"}, {"name": "SchedulingGates"}],
        "enabled": [{"name": "NodeAffinity", "weight": 9}],
    });
    let profile = with_plugins(json!({"multiPoint": everywhere}));
    assert!(!profile.filter.iter().any(|name| name == "TaintToleration"));
    assert_eq!(weight_of(&profile, "TaintToleration"), None);
    assert_eq!(weight_of(&profile, "NodeAffinity"), Some(9));
    assert_eq!(profile.pre_enqueue, [] as [String; 0]);

    // A stage has the last word.
    let stages = json!({
        "multiPoint": {"enabled": [{"name": "NodeAffinity", "weight": 9}]},
        "score": {"enabled": [{"name": "NodeAffinity", "weight": 4}]},
    });
    assert_eq!(weight_of(&with_plugins(stages), "NodeAffinity"), Some(4));

    let enabled = ["NodeName", "PrioritySort", "DefaultBinder"].map(|name| json!({"name": name}));
    let only = json!({"multiPoint": {"disabled": [{"name": "*"}], "enabled": enabled}});
    let profile = with_plugins(only);
    assert_eq!(profile.filter, ["NodeName"]);
    assert_eq!(profile.score, []);
}

#[test]
fn strategies_are_read() {
    let spec = |name: &str, weight| ResourceSpec {
        name: name.to_owned(),
        weight,
    };
    let strategy = |strategy| {
        let args = json!({"scoringStrategy": strategy});
        with_args("NodeResourcesFit", args)
            .node_resources_fit
            .scoring_strategy
    };
    assert_eq!(
        strategy(json!({"type": "MostAllocated"})),
        ScoringStrategy::MostAllocated(vec![spec("cpu", 1), spec("memory", 1)])
    );
    let resources = json!([{"name": "nvidia.com/gpu", "weight": 5}, {"name": "cpu"}]);
    assert_eq!(
        strategy(json!({"type": "LeastAllocated", "resources": resources})),
        ScoringStrategy::LeastAllocated(vec![spec("nvidia.com/gpu", 5), spec("cpu", 1)])
    );
    let shape = json!([{"utilization": 0, "score": 0}, {"utilization": 80, "score": 10}]);
    let points = [(0, 0), (80, 10)];
    let points = points.map(|(utilization, score)| UtilizationShapePoint { utilization, score });
    assert_eq!(
        strategy(json!({
            "type": "RequestedToCapacityRatio",
            "resources": [{"name": "cpu", "weight": 2}],
            "requestedToCapacityRatio": {"shape": shape},
        })),
        ScoringStrategy::RequestedToCapacityRatio(vec![spec("cpu", 2)], points.into())
    );
}

#[test]
fn other_arguments_are_read() {
    let args = json!({
        "ignoredResources": ["example.com/foo"],
        "ignoredResourceGroups": ["example.org"],
    });
    let fit = with_args("NodeResourcesFit", args).node_resources_fit;
    assert_eq!(fit.ignored_resources, ["example.com/foo"]);
    assert_eq!(fit.ignored_resource_groups, ["example.org"]);

    let args = json!({"resources": [{"name": "cpu", "weight": 1}, {"name": "nvidia.com/gpu"}]});
    let profile = with_args("NodeResourcesBalancedAllocation", args);
    assert_eq!(
        profile.balanced_allocation_resources,
        ["cpu", "nvidia.com/gpu"]
    );

    let term = json!({"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]});
    let required = json!({"nodeSelectorTerms": [term]});
    let args =
        json!({"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
    let added = with_args("NodeAffinity", args)
        .added_affinity
        .expect("added affinity");
    let terms = added.required.expect("required").node_selector_terms;
    assert_eq!(terms[0].match_expressions[0].key, "pool");
}

#[test]
fn other_documents_are_refused() {
    let errors = read(&json!({"apiVersion": "v1", "kind": "Pod", "spec": {}}));
    let errors: Vec<String> = errors
        .expect_err("wrong")
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        errors,
        [
            "apiVersion: expected \"kubescheduler.config.k8s.io/v1\", found \"v1\"",
            "kind: expected \"KubeSchedulerConfiguration\", found \"Pod\"",
            "spec: there is no such field",
        ]
    );
    for document in [json!([]), json!("text"), json!(1), json!(true)] {
        assert_eq!(read(&document).expect_err("wrong").len(), 1, "{document}");
    }
    assert_eq!(read(&Value::Null).expect_err("wrong").len(), 2);
}

#[test]
fn unknown_fields_are_named_with_their_path() {
    assert_eq!(
        errors(json!({"profile": []})),
        ["profile: there is no such field"]
    );
    assert_eq!(
        errors(json!({"profiles": [{"schedulerName": "a"}, {"schedulerName": "b", "name": "c"}]}))
            [0],
        "profiles[1].name: there is no such field"
    );
    assert_eq!(
        plugin_errors(json!({"scores": {}})),
        ["profiles[0].plugins.scores: there is no such field"]
    );
    assert_eq!(
        plugin_errors(json!({"score": {"enable": []}})),
        ["profiles[0].plugins.score.enable: there is no such field"]
    );
    assert_eq!(
        strategy_errors(json!({"type": "LeastAllocated", "resource": []})),
        [format!("{STRATEGY}.resource: there is no such field")]
    );
}

#[test]
fn wrong_plugins_are_named() {
    assert_eq!(
        plugin_errors(json!({"score": {"enabled": [{"name": "NodeAffinity"}, {"name": "Fit"}]}})),
        ["profiles[0].plugins.score.enabled[1].name: plugin \"Fit\" does not exist"]
    );
    assert_eq!(
        plugin_errors(json!({"filter": {"enabled": [{"weight": 1}]}})),
        ["profiles[0].plugins.filter.enabled[0].name: plugin \"\" does not exist"]
    );
    let twice = json!([{"name": "NodeName"}, {"name": "NodeName"}]);
    assert_eq!(
        plugin_errors(json!({"filter": {"enabled": twice}})),
        [
            "profiles[0].plugins.filter.enabled[1]: plugin \"NodeName\" already registered as \
             \"FilterPlugin\""
        ]
    );
    assert_eq!(
        plugin_errors(json!({"score": {"enabled": [{"name": "NodeName"}]}})),
        [
            "profiles[0].plugins.score.enabled[0]: plugin \"NodeName\" does not extend \
             ScorePlugin plugin"
        ]
    );
}

fn plugin_config_warnings(entry: Value) -> Vec<String> {
    warnings(json!({"profiles": [{"pluginConfig": [entry]}]}))
}

/// Upstream hands arguments to the plugins that it has and that take some; it does not look
/// at others.
#[test]
fn arguments_that_nobody_takes_are_warned_of() {
    let entry = "profiles[0].pluginConfig[0]";
    for (name, args) in [
        ("NoSuchPlugin", Value::Null),
        ("NoSuchPlugin", json!({"a": 1})),
        ("NoSuchPlugin", json!("text")),
        ("NodeResourcesFitArgs", json!({})),
        ("", json!({})),
    ] {
        assert_eq!(
            plugin_config_warnings(json!({"name": name, "args": args})),
            [format!(
                "{entry}.name: there is no plugin {name:?}; this entry has no effect"
            )]
        );
    }
    for args in [json!({"a": 1}), json!("text")] {
        assert_eq!(
            plugin_config_warnings(json!({"name": "ImageLocality", "args": args})),
            [format!(
                "{entry}.args: plugin \"ImageLocality\" takes no arguments; these have no effect"
            )]
        );
    }
    for name in ["ImageLocality", "NodeResourcesFit"] {
        assert!(plugin_config_warnings(json!({"name": name})).is_empty());
        assert!(plugin_config_warnings(json!({"name": name, "args": null})).is_empty());
    }
    let twice = json!([{"name": "NoSuchPlugin"}, {"name": "NoSuchPlugin"}]);
    assert_eq!(
        errors(json!({"profiles": [{"pluginConfig": twice}]})),
        ["profiles[0].pluginConfig[1].name: arguments of \"NoSuchPlugin\" are given twice"]
    );
}

#[test]
fn plugins_that_are_gone_take_no_arguments() {
    for name in [
        "AzureDiskLimits",
        "CinderLimits",
        "EBSLimits",
        "GCEPDLimits",
    ] {
        let profiles = json!([{"pluginConfig": [{"name": name}]}]);
        assert_eq!(
            errors(json!({"profiles": profiles})),
            [format!(
                "profiles[0].pluginConfig[0]: {name:?}: was invalid in version \
                 \"kubescheduler.config.k8s.io/v1\" (KubeSchedulerConfiguration is version \
                 \"kubescheduler.config.k8s.io/v1\")"
            )]
        );
        let version = "kubescheduler.config.k8s.io/v1beta3";
        let warnings = warnings(json!({"apiVersion": version, "profiles": profiles}));
        assert_eq!(
            warnings[1..],
            [format!(
                "profiles[0].pluginConfig[0].name: there is no plugin {name:?}; this entry has \
                 no effect"
            )]
        );
    }
}

#[test]
fn wrong_types_are_named() {
    assert_eq!(
        plugin_errors(json!({"score": {"enabled": {"name": "NodeAffinity"}}})),
        ["profiles[0].plugins.score.enabled: expected a list, found \
             {\"name\":\"NodeAffinity\"}"]
    );
    assert_eq!(
        plugin_errors(json!({"score": {"enabled": [{"name": "NodeAffinity", "weight": "9"}]}})),
        ["profiles[0].plugins.score.enabled[0].weight: expected an integer, found \"9\""]
    );
    assert_eq!(
        errors(json!({"profiles": [7]})),
        ["profiles[0]: expected an object, found 7"]
    );
}

#[test]
fn wrong_weights_are_named() {
    let resources = json!([{"name": "cpu", "weight": 101}, {"name": "memory", "weight": -1}]);
    assert_eq!(
        strategy_errors(json!({"type": "LeastAllocated", "resources": resources})),
        [
            format!(
                "{STRATEGY}.resources[0].weight: resource weight of cpu not in valid range \
                 (0, 100]: 101"
            ),
            format!(
                "{STRATEGY}.resources[1].weight: resource weight of memory not in valid range \
                 (0, 100]: -1"
            ),
        ]
    );
    let resources = json!({"resources": [{"name": "cpu", "weight": 2}]});
    assert_eq!(
        args_errors("NodeResourcesBalancedAllocation", resources),
        ["profiles[0].pluginConfig[0].args.resources[0].weight: 2: must be 1"]
    );
    let enabled = json!([{"name": "NodeAffinity", "weight": 1_i64 << 40}]);
    assert_eq!(
        plugin_errors(json!({"score": {"enabled": enabled}})),
        [
            "profiles[0].plugins.score.enabled[0].weight: 1099511627776 is out of range, from \
             -2147483648 to 2147483647"
        ]
    );
}

#[test]
fn wrong_shapes_are_named() {
    let errors = |points: Value| {
        strategy_errors(json!({
            "type": "RequestedToCapacityRatio",
            "requestedToCapacityRatio": {"shape": points},
        }))
    };
    let shape = format!("{STRATEGY}.requestedToCapacityRatio.shape");
    assert_eq!(
        errors(json!([])),
        [format!("{shape}: at least one point must be specified")]
    );
    assert_eq!(
        errors(json!([{"utilization": 101, "score": 11}])),
        [
            format!("{shape}[0].utilization: not in valid range [0, 100]"),
            format!("{shape}[0].score: not in valid range [0, 10]"),
        ]
    );
    assert_eq!(
        errors(json!([{"utilization": 50, "score": 1}, {"utilization": 50, "score": 2}])),
        [format!(
            "{shape}[1].utilization: values must be sorted in increasing order"
        )]
    );
    assert_eq!(
        strategy_errors(json!({"type": "RequestedToCapacityRatio"})),
        [format!(
            "{STRATEGY}.requestedToCapacityRatio: must be specified when type is \
             RequestedToCapacityRatio"
        )]
    );
    assert_eq!(
        strategy_errors(json!({"type": "Emptiest"})),
        [format!(
            "{STRATEGY}.type: \"Emptiest\" is not supported: it must be LeastAllocated, \
             MostAllocated or RequestedToCapacityRatio"
        )]
    );
}

#[test]
fn wrong_affinity_is_named() {
    let term = json!({"matchExpressions": [{"key": "a b", "operator": "Near", "values": []}]});
    let required = json!({"nodeSelectorTerms": [{}, term]});
    let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": required});
    let errors = args_errors("NodeAffinity", json!({"addedAffinity": affinity}));
    let path = "profiles[0].pluginConfig[0].args.addedAffinity.\
                requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1]: ";
    assert!(!errors.is_empty());
    assert!(
        errors.iter().all(|error| error.starts_with(path)),
        "{errors:?}"
    );
    let errors = args_errors("NodeAffinity", json!({"addedAffinity": 5}));
    assert!(errors[0].starts_with("profiles[0].pluginConfig[0].args.addedAffinity: "));
}

#[test]
fn what_arguments_take_from_the_api_is_checked_to_the_last_field() {
    let terms = json!({"nodeSelectorTerm": []});
    let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": terms});
    let path = "profiles[0].pluginConfig[0].args.addedAffinity.\
                requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerm";
    let found = args_errors("NodeAffinity", json!({"addedAffinity": affinity}));
    assert!(
        found[0].starts_with(&format!("{path}: unknown field")),
        "{found:?}"
    );
    let constraint = |more: Value| {
        let mut constraint = json!({"maxSkew": 1, "topologyKey": "zone",
            "whenUnsatisfiable": "ScheduleAnyway"});
        for (key, value) in more.as_object().expect("fields") {
            constraint[key] = value.clone();
        }
        json!({"defaultConstraints": [constraint], "defaultingType": "List"})
    };
    with_args("PodTopologySpread", constraint(json!({})));
    for (more, field) in [
        (
            json!({"bogus": 1}),
            "defaultConstraints[0].bogus: unknown field",
        ),
        (
            json!({"topologyKey": "not a label!"}),
            "defaultConstraints[0].topologyKey: ",
        ),
    ] {
        let found = args_errors("PodTopologySpread", constraint(more));
        assert!(found[0].contains(field), "{found:?}");
    }
    let mut untyped = constraint(json!({}));
    untyped["defaultingType"] = "".into();
    let found = args_errors("PodTopologySpread", untyped);
    assert!(found[0].contains("args.defaultingType: "), "{found:?}");
    with_args("PodTopologySpread", json!({"defaultingType": ""}));
    let other = json!({"apiVersion": "kubescheduler.config.k8s.io/v77"});
    assert_eq!(args_errors("NodeResourcesFit", other).len(), 1);
}

#[test]
fn everything_wrong_is_said_at_once() {
    let errors = errors(json!({
        "podMaxBackoffSeconds": -1,
        "profiles": [
            {"plugins": {"score": {"enabled": [{"name": "A"}]}}},
            {"plugins": {"filter": {"enabled": [{"name": "B"}]}}, "pluginConfig": [{}]},
        ],
        "extra": 1,
    }));
    let paths: Vec<&str> = errors
        .iter()
        .filter_map(|error| error.split(": ").next())
        .collect();
    for path in [
        "podMaxBackoffSeconds",
        "profiles[0].plugins.score.enabled[0].name",
        "profiles[1].plugins.filter.enabled[0].name",
        "profiles[1].schedulerName",
        "extra",
    ] {
        assert!(paths.contains(&path), "{path} is not among {paths:?}");
    }
}

#[test]
fn plugins_of_ones_own_are_known_by_name() {
    struct Mine;

    impl Plugin for Mine {
        fn name(&self) -> &'static str {
            "Mine"
        }
    }

    impl ScorePlugin for Mine {
        fn depends_on(&self) -> DependsOn {
            DependsOn::NodeObject
        }

        fn score_node(&self, _: &PodClass, _: &Cluster, _: NodeId) -> i64 {
            0
        }
    }

    let plugins = vec![OwnPlugin::new(Stages::score(Mine)).expect("a stage")];
    let enabled = |point: &str| {
        let enabled = json!({point: {"enabled": [{"name": "Mine", "weight": 7}]}});
        document(json!({"profiles": [{"plugins": enabled}]}))
    };
    let config = read_with_plugins(&enabled("score"), &plugins).expect("accepted");
    assert_eq!(weight_of(&config.engine.profiles[0], "Mine"), Some(7));
    let points = &config.profiles[0].extension_points;
    let score = points.iter().find(|it| it.name == "score").expect("score");
    assert!(score.plugins.iter().any(|plugin| plugin.name == "Mine"));
    let everywhere = read_with_plugins(&enabled("multiPoint"), &plugins).expect("accepted");
    assert_eq!(weight_of(&everywhere.engine.profiles[0], "Mine"), Some(7));
    // It does not filter, it is not there by itself, and elsewhere nobody knows it.
    assert!(read_with_plugins(&enabled("filter"), &plugins).is_err());
    let default = read_with_plugins(&document(json!({})), &plugins).expect("accepted");
    assert_eq!(weight_of(&default.engine.profiles[0], "Mine"), None);
    assert!(read(&enabled("score")).is_err());
    let extensions = Extensions {
        plugins: [&plugins[..], &plugins[..]].concat(),
        ..Extensions::default()
    };
    let twice = Engine::with_extensions(&config.engine, extensions).err();
    assert_eq!(twice.as_deref(), Some("there is another plugin \"Mine\""));
}

#[test]
fn rules_that_make_preemption_safer_are_read_and_checked() {
    let config = |args: serde_json::Value| {
        serde_json::json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"pluginConfig": [{"name": "PreemptionSafety", "args": args}]}],
        })
    };
    let read = outrank_config::read(&config(serde_json::json!({
        "mode": "DryRun",
        "delaySeconds": 30,
        "minimumRunSeconds": 600,
        "strictPodDisruptionBudgets": true,
        "budgets": [{"priorityClassName": "batch", "victimsPerMinute": 2}],
    })));
    let read = read.expect("a valid configuration");
    let safety = read.engine.profiles[0].preemption_safety.as_ref();
    let safety = safety.expect("the rules");
    assert_eq!(
        (safety.delay_seconds, safety.minimum_run_seconds),
        (30, 600)
    );
    assert!(safety.strict_pdb && safety.budgets.len() == 1);
    let errors = outrank_config::read(&config(serde_json::json!({
        "mode": "Maybe", "delaySeconds": -1, "budgets": [{"namespace": "a"}], "speed": 1,
    })))
    .expect_err("mistakes");
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let path = "profiles[0].pluginConfig[0].args";
    for expected in [
        format!("{path}.mode: \"Maybe\": must be Off, DryRun or Enforce"),
        format!("{path}.delaySeconds: -1: not in valid range [0, 2147483647]"),
        format!("{path}.budgets[0]: needs victimsPerMinute or victimsPerDecision"),
    ] {
        assert!(errors.contains(&expected), "{errors:?}");
    }
    assert!(
        errors.iter().any(|error| error.contains("speed")),
        "{errors:?}"
    );
}

#[test]
fn preemption_looks_at_no_more_candidates_than_asked_for() {
    let config = serde_json::json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": "DefaultPreemption",
            "args": {"minCandidateNodesPercentage": 20, "minCandidateNodesAbsolute": 5}}]}],
    });
    let read = outrank_config::read(&config).expect("a valid configuration");
    let minimum = read.engine.profiles[0].minimum_candidates.expect("told");
    assert_eq!((minimum.percentage, minimum.absolute), (20, 5));
}

#[test]
fn numbers_of_32_bits_are_no_longer() {
    let config = serde_json::json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"burst": 2_147_483_648_i64},
        "profiles": [{"pluginConfig": [{"name": "DefaultPreemption",
            "args": {"minCandidateNodesAbsolute": 99_999_999_999_i64}}]}],
    });
    let errors = outrank_config::read(&config).expect_err("numbers that are too large");
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let expected = [
        "clientConnection.burst: 2147483648: does not fit into 32 bits",
        "profiles[0].pluginConfig[0].args.minCandidateNodesAbsolute: 99999999999: does not fit \
         into 32 bits",
    ];
    for expected in expected {
        assert!(errors.iter().any(|error| error == expected), "{errors:?}");
    }
}
