//! SchedulingGates: pods with gates stay out of the queue.
//!
//! Whoever set a gate removes it when the pod may be scheduled (KEP-3521).
//! Source: `plugins/schedulinggates/scheduling_gates.go`, Kubernetes 1.36.

use outrank_api::types::PodSchedulingGate;

use crate::framework::{Code, Reason, Refusal};

/// See the module.
pub struct SchedulingGates;

impl SchedulingGates {
    /// Name in configurations.
    pub const NAME: &'static str = "SchedulingGates";

    /// The PreEnqueue stage: whether a pod may enter the queue.
    ///
    /// # Errors
    /// The gates that hold the pod.
    pub fn pre_enqueue(gates: &[PodSchedulingGate]) -> Result<(), Refusal> {
        if gates.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = gates.iter().map(|gate| gate.name.as_str()).collect();
        let text = format!("waiting for scheduling gates: [{}]", names.join(" "));
        let code = Code::UnschedulableAndUnresolvable;
        Err(Refusal::new(Self::NAME, code, Reason::Text(text.into())))
    }
}
