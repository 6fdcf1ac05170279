//! What controllers do, told as stories: objects come, time passes, and this happens.

mod nodes;
mod replica_sets;
mod story;
