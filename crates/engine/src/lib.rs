//! The load engine: sends requests on schedule and records their times.
//!
//! A [`Worker`] is a pure state machine. It turns a [`Schedule`] into operations for a
//! [`StreamDriver`]. The driver reports completed operations, which the worker turns into exchanges
//! (requests with their responses) and records in intervals. Time, randomness and I/O are
//! parameters: a run depends only on its configuration, its seed and the completions.
//!
//! [`sim`] has a driver with a simulated network, server and clock. The simulator knows the true
//! times, and tests compare the measured times with them.
#![forbid(unsafe_code)]

mod coding;
mod config;
mod conversation;
mod cookie_date;
mod cookie_watch;
pub mod cookies;
mod draw;
pub mod driver;
mod exchange;
pub mod expect;
pub mod extraction;
mod json;
mod kinds;
pub mod limits;
pub mod proxy;
mod recorder;
pub mod rng;
pub mod schedule;
pub mod sequence;
mod session;
pub mod sim;
pub mod slices;
mod slot;
pub mod stored_body;
mod time;
mod tls;
pub mod traffic;
mod turn;
mod visits;
mod worker;

// The protocols of loads, as archives name them.
pub use dyno_model::Protocol;
pub use dyno_model::plan::Http2;

pub use config::{Policy, SpinPolicy, WorkerConfig};
pub use conversation::upgrade_settings;
pub use driver::{
    Completion, CompletionKind, ConnId, ConnectError, DatagramDriver, Driver, StreamDriver,
};
pub use expect::Expectation;
pub use recorder::Window;
pub use schedule::Schedule;
pub use time::Instant;
pub use tls::Tls;
pub use tls::reason::error_text as tls_error_text;
pub use traffic::{CompiledRequest, Draws, Traffic};
pub use turn::{Stop, run, run_until_drained};
pub use worker::{Worker, WorkerReport};
