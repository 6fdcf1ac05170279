//! What controllers do, told as stories: objects come, time passes, and this happens.

mod budgets;
mod daemon_sets;
mod deployments;
mod driver;
mod garbage;
mod jobs;
mod namespaces;
mod nodes;
mod odd;
mod pod_garbage;
mod quotas;
mod replica_sets;
mod stateful_sets;
mod story;
