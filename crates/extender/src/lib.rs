//! Extenders over HTTP: the edge beside the engine.
//!
//! [`HttpExtender`] implements the engine's [`Extender`] by asking a server, as kube-scheduler
//! does: each call is a POST of JSON to the URL prefix with a verb appended; the answer is
//! JSON with status 200, within the timeout. Whatever a server does, be it wrong, slow, huge
//! or not there at all, comes back as an error in words; what comes of that the engine
//! decides.
//!
//! Binding is a call too ([`HttpExtender::bind`]), but not of the engine, which carries nothing
//! out: it is for whoever does. A rehearsal never binds.
//!
//! What differs from upstream: the objects that are sent have the fields that decisions read,
//! labels and annotations among them, not all that the API server knows; redirects are errors
//! and proxies are not used.
//!
//! Sources: `extender.go`, `kube-scheduler/extender/v1/types.go`, Kubernetes 1.36.

mod protocol;
mod tls;

use std::collections::BTreeMap;
use std::fmt;

use outrank_api::types::{Node, Pod};
use outrank_config::ExtenderConfig;
use outrank_engine::extender::{Extender, ExtenderFilterResult, MetaVictims, NodeVictims};
use serde::Serialize;
use serde_json::Value;
use ureq::Agent;

use protocol::{ExtenderArgs, ExtenderBindingArgs, ExtenderPreemptionArgs};

/// The most bytes of an answer. One that lists 5,000 nodes in full has some tens of MiB.
const BODY_BYTES_MAX: u64 = 256 << 20;

/// An extender that is asked over HTTP.
pub struct HttpExtender {
    config: ExtenderConfig,
    agent: Agent,
    /// The value of the Host header, if it is not that of the URL.
    host: Option<String>,
    /// Where requests go: the prefix without slashes at its end.
    base_url: String,
    body_bytes_max: u64,
}

impl HttpExtender {
    /// Reads the files that the configuration names. The server is not called yet.
    ///
    /// # Errors
    /// What is wrong with a file. What is wrong with the URL calls tell, as upstream does it.
    pub fn new(config: &ExtenderConfig) -> Result<Self, String> {
        let connection = tls::connection(config)?;
        Ok(Self {
            config: config.clone(),
            agent: connection.agent,
            host: connection.host,
            base_url: connection.base_url,
            body_bytes_max: BODY_BYTES_MAX,
        })
    }

    /// Accepts shorter answers only.
    #[must_use]
    pub fn with_body_bytes_max(mut self, bytes: u64) -> Self {
        self.body_bytes_max = bytes;
        self
    }

    /// Whether the extender binds pods that it is interested in.
    pub fn is_binder(&self) -> bool {
        !self.config.bind_verb.is_empty()
    }

    /// Has the extender bind a pod to a node.
    ///
    /// # Errors
    /// Why the pod may not be bound.
    pub fn bind(&self, pod: &Pod, node_name: &str) -> Result<(), String> {
        let args = ExtenderBindingArgs {
            pod_name: &pod.metadata.name,
            pod_namespace: &pod.metadata.namespace,
            pod_uid: &pod.metadata.uid,
            node: node_name,
        };
        let answer = self.send(&self.config.bind_verb, &args)?;
        protocol::binding_result(&answer)
    }

    fn args<'a>(&self, pod: &'a Pod, nodes: &'a [&'a Node]) -> ExtenderArgs<'a> {
        ExtenderArgs::new(pod, nodes, self.config.node_cache_capable)
    }

    /// Posts to a verb; the JSON that comes back.
    fn send(&self, verb: &str, args: &impl Serialize) -> Result<Value, String> {
        let url = format!("{}/{verb}", self.base_url);
        // Errors name the URL that was configured, whatever name TLS asks for.
        let told = format!("{}/{verb}", self.name().trim_end_matches('/'));
        let failed = |error: ureq::Error| format!("Post {told:?}: {error}");
        let body = serde_json::to_vec(args).map_err(|error| error.to_string())?;
        let mut request = self
            .agent
            .post(&url)
            .header("Content-Type", "application/json");
        if let Some(host) = &self.host {
            request = request.header("Host", host);
        }
        let mut response = request.send(body).map_err(failed)?;
        let code = response.status().as_u16();
        if code != 200 {
            return Err(format!(
                "failed {verb} with extender at URL {told}, code {code}"
            ));
        }
        let reader = response.body_mut().with_config();
        let bytes = reader
            .limit(self.body_bytes_max)
            .read_to_vec()
            .map_err(failed)?;
        protocol::first_value(&bytes).map_err(|error| format!("Post {told:?}: {error}"))
    }
}

/// Without the key, which the agent holds.
impl fmt::Debug for HttpExtender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HttpExtender").field(&self.config).finish()
    }
}

impl Extender for HttpExtender {
    fn name(&self) -> &str {
        &self.config.url_prefix
    }

    fn is_ignorable(&self) -> bool {
        self.config.ignorable
    }

    fn is_filter(&self) -> bool {
        !self.config.filter_verb.is_empty()
    }

    fn is_prioritizer(&self) -> bool {
        !self.config.prioritize_verb.is_empty()
    }

    fn weight(&self) -> i64 {
        self.config.weight
    }

    fn is_interested(&self, pod: &Pod) -> bool {
        let managed = &self.config.managed_resources;
        let is_managed = |name: &String| managed.iter().any(|resource| resource.name == *name);
        let mut containers = pod.spec.containers.iter().chain(&pod.spec.init_containers);
        managed.is_empty()
            || containers.any(|container| {
                let resources = &container.resources;
                let mut names = resources.requests.keys().chain(resources.limits.keys());
                names.any(is_managed)
            })
    }

    fn filter(&self, pod: &Pod, nodes: &[&Node]) -> Result<ExtenderFilterResult, String> {
        let answer = self.send(&self.config.filter_verb, &self.args(pod, nodes))?;
        protocol::filter_result(&answer, self.config.node_cache_capable)
    }

    fn prioritize(&self, pod: &Pod, nodes: &[&Node]) -> Result<Vec<(String, i64)>, String> {
        let answer = self.send(&self.config.prioritize_verb, &self.args(pod, nodes))?;
        protocol::host_priorities(&answer)
    }

    fn supports_preemption(&self) -> bool {
        !self.config.preempt_verb.is_empty()
    }

    fn preempt(
        &self,
        pod: &Pod,
        victims: &BTreeMap<String, NodeVictims<'_>>,
    ) -> Result<BTreeMap<String, MetaVictims>, String> {
        let args = ExtenderPreemptionArgs::new(pod, victims, self.config.node_cache_capable);
        let answer = self.send(&self.config.preempt_verb, &args)?;
        protocol::preemption_result(&answer)
    }
}
