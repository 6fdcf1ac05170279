//! Benchmarks: workloads in the shape of upstream's `scheduler_perf`, run against the
//! engine, with a full evaluation of every node as the yardstick in the same run.
//!
//! * [`workload`]: what a workload file says, as operations with their objects;
//! * [`measure`]: runs one and counts decisions per second.
//!
//! ```
//! use outrank_bench::measure::{Limits, measure};
//! use outrank_bench::workload::read;
//! use outrank_engine::EngineConfig;
//!
//! let files = |path: &std::path::Path| match path.to_str() {
//!     Some("small.yaml") => Ok(br#"
//! - name: Small
//!   workloadTemplate:
//!   - {opcode: createNodes, count: 3, nodeTemplatePath: node.yaml}
//!   - {opcode: createPods, count: 6, podTemplatePath: pod.yaml, collectMetrics: true}
//!   workloads: [{name: six}]
//! "#.to_vec()),
//!     Some("node.yaml") => Ok(br#"
//! {apiVersion: v1, kind: Node, metadata: {generateName: n-},
//!  status: {capacity: {cpu: "4", memory: 8Gi, pods: "10"}}}"#.to_vec()),
//!     _ => Ok(br#"
//! {apiVersion: v1, kind: Pod, metadata: {generateName: p-},
//!  spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}}"#.to_vec()),
//! };
//! let file = read("small.yaml", &mut { files }).unwrap();
//! let workloads = file.test_cases[0].workloads.as_ref().unwrap();
//! let config = EngineConfig::default();
//! let measured = measure(&workloads[0], &config, &Limits::default()).unwrap();
//! assert_eq!((measured.decisions, measured.scheduled), (6, 6));
//! assert_eq!(measured.same_placements, measured.full_evaluation_decisions);
//! ```

pub mod measure;
pub mod workload;
