//! `outrank up` as clients see it, those that everybody uses and those that mean it ill.
//!
//! The program itself runs, each test with one of its own, and is talked to over the network:
//!
//! * [`rust_client`] and [`python_client`]: client libraries, without any special settings;
//! * [`crash`]: the program is killed at any moment, and nothing acknowledged is lost;
//! * [`disk`]: the disk fails, and everybody who asks is told;
//! * [`races`]: many clients want the same at once;
//! * [`hostile`], [`slow`] and [`crowd`]: clients that send nonsense, read and write slowly, or
//!   come in thousands; others are answered all the while, and memory stays bounded.

// The walks use what is not used here.
#[allow(dead_code)]
#[path = "../walks/api.rs"]
mod api;
mod attacks;
mod cluster;
mod connection;
mod crash;
mod crowd;
mod disk;
mod hostile;
mod python_client;
mod races;
mod random;
mod rust_client;
mod slow;
