//! What controllers do, told as stories: objects come, time passes, and this happens.

mod daemon_sets;
mod deployments;
mod driver;
mod jobs;
mod replica_sets;
mod stateful_sets;
mod story;
