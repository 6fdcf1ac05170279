//! What is counted, under the names that kube-apiserver has.

use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::answer::Answer;
use crate::lookups::entries_within;
use crate::served_types::ServedTypes;
use crate::server::ApiServer;

type Labels = Vec<(&'static str, String)>;

/// What is counted.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Labels, Counter>,
    durations: Family<Labels, Histogram>,
    objects: Family<Labels, Gauge>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let requests = Family::<Labels, Counter>::default();
        // From a tenth of a millisecond to some seconds.
        let buckets = || Histogram::new(exponential_buckets(0.000_1, 2.0, 16));
        let durations = Family::<Labels, Histogram>::new_with_constructor(buckets as fn() -> _);
        let objects = Family::<Labels, Gauge>::default();
        let mut registry = Registry::default();
        registry.register(
            "apiserver_request",
            "Requests, by method and HTTP code",
            requests.clone(),
        );
        registry.register(
            "apiserver_request_duration_seconds",
            "How long requests took to answer, by method",
            durations.clone(),
        );
        registry.register(
            "apiserver_storage_objects",
            "Objects that are stored, by resource",
            objects.clone(),
        );
        Self {
            registry,
            requests,
            durations,
            objects,
        }
    }

    /// Counts a request.
    pub(crate) fn request(&self, verb: &str, code: u16, took: Duration) {
        let verb = ("verb", verb.to_owned());
        let labels = vec![verb.clone(), ("code", code.to_string())];
        self.requests.get_or_create(&labels).inc();
        self.durations
            .get_or_create(&vec![verb])
            .observe(took.as_secs_f64());
    }

    /// All that was counted, as text.
    pub(crate) fn answer(&self, server: &ApiServer, types: &ServedTypes) -> Answer {
        for served in types.iter().filter(|it| it.is_stored()) {
            let count = entries_within(server.store(), &served.store_name, "").len();
            let labels = vec![("resource", served.store_name.to_string())];
            let gauge = self.objects.get_or_create(&labels);
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        let mut text = String::new();
        match encode(&mut text, &self.registry) {
            Ok(()) => Answer::bytes(
                200,
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
                text.into_bytes(),
            ),
            Err(_) => Answer::text(500, "the metrics cannot be written"),
        }
    }
}
