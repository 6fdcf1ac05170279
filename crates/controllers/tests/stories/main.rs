//! What controllers do, told as stories: objects come, time passes, and this happens.

mod budgets;
mod garbage;
mod namespaces;
mod nodes;
mod pod_garbage;
mod quotas;
mod replica_sets;
mod story;
