//! The load engine: sends requests on schedule and records their times.
//!
//! A [`Worker`] is a pure state machine: it turns a [`Schedule`] into operations for a [`Driver`]
//! and the driver's completions into exchanges, which its recorder keeps in intervals. Time,
//! randomness and I/O are parameters, so a run is a function of its configuration, its seed and the
//! driver's completions. [`sim`] holds a driver whose world, server and clock are ours: there the
//! truth is known, and the instrument can be graded against it.
#![forbid(unsafe_code)]

mod coding;
pub mod driver;
pub mod expect;
pub mod limits;
pub mod proxy;
mod recorder;
pub mod rng;
pub mod schedule;
pub mod sim;
pub mod slices;
mod slot;
mod time;
mod tls;
pub mod traffic;
mod turn;
mod worker;

// The protocols of loads, as archives name them.
pub use dyno_archive::Protocol;
pub use dyno_archive::plan::Http2;

pub use driver::{Completion, CompletionKind, ConnId, ConnectError, Driver};
pub use expect::Expectation;
pub use recorder::Window;
pub use schedule::Schedule;
pub use time::Instant;
pub use tls::Tls;
pub use tls::reason::error_text as tls_error_text;
pub use traffic::{CompiledRequest, Draws, Traffic};
pub use turn::{Stop, run, run_until_drained};
pub use worker::{Policy, SpinPolicy, Worker, WorkerConfig, WorkerReport, upgrade_settings};
