//! Development tasks of Outrank, as a library so that tests can run them too.
//!
//! ```no_run
//! use std::path::Path;
//!
//! let report = xtask::golden::run(Path::new("tests/golden"), &Default::default()).unwrap();
//! assert!(report.failed() == 0, "{report}");
//! ```

pub mod components;
pub mod golden;
pub mod kubectl;
mod policies;
pub mod python_client;
mod scenarios;
#[cfg(feature = "schema")]
pub mod schema;
