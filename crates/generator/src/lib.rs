//! Runs loads. Worker threads, each with a driver, send requests. A watch samples the server on the
//! same clock.
//!
//! A [`LoadSpec`] has everything that a generator needs. An [`Instrument`] starts its workers. They
//! send events to the [`Controller`], a state machine without a clock, and obey its orders.
//! `session` executes the controller's commands with a real clock, and `simulated` with a virtual
//! one.

#![forbid(unsafe_code)]

mod answer_wait;
mod controller;
#[cfg(test)]
mod controller_tests;
mod instrument;
pub mod limits;
mod load_requests;
mod machine;
mod mailbox;
mod messages;
mod native;
mod observations;
mod pauses;
mod readings;
mod record;
mod resources;
mod response_counts;
mod session;
mod shared_use;
mod sharing;
mod simulated;
mod sink;
mod spec;
mod watch;
mod worker_share;

pub use controller::Controller;
pub use instrument::{Capabilities, GeneratorReadings, Instrument, StartedLoad, Support};
pub use load_requests::LoadRequests;
pub use messages::{GeneratorOrder, LoadCommand, Message, WorkerEvent, WorkerId, WorkerResult};
pub use native::Native;
pub use resources::unused_open_files;
pub use response_counts::ResponseCounts;
pub use session::{MonitoredLoad, run, run_together};
pub use shared_use::exchange_server_use;
pub use sharing::Sharing;
pub use simulated::{CounterReader, EarlyEnd, SimulatedLoad, simulate, simulate_together};
pub use sink::Sink;
pub use spec::{LoadSpec, LoadTarget, share_cpus, single_request, take_turns};
pub use watch::{Edge, LoadStopReason, StopWhen, Watch};
