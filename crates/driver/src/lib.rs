//! Drivers of the load engine over real sockets: [`Uring`] (io_uring) and [`Epoll`]. They implement
//! [`dyno_engine::StreamDriver`] and [`dyno_engine::DatagramDriver`]. All system calls, clock reads
//! and `unsafe` code of the load path are in this crate.
//!
//! Both drivers and the simulator pass the same contract tests (`tests/all/contract.rs`). A driver
//! belongs to the thread that created it: each worker has one, without shared state.
#![allow(unsafe_code)]

mod epoll;
pub mod limits;
pub mod sys;
mod uring;

use std::io;
use std::net::SocketAddr;

use dyno_model::plan::DriverKind;

pub use epoll::Epoll;
pub use sys::{Endpoint, PeerAddress, Stamps};
pub use uring::Uring;

/// Returns the best driver that this kernel supports. If it is epoll, also returns the error of
/// io_uring.
#[must_use]
pub fn best_driver() -> (DriverKind, Option<io::Error>) {
    let unused = SocketAddr::from(([127, 0, 0, 1], 1));
    match Uring::new(&unused.into(), 1) {
        Ok(_) => (DriverKind::Uring, None),
        Err(error) => (DriverKind::Epoll, Some(error)),
    }
}

/// Returns why a driver cannot record the kernel's timestamps. `None`: it can.
#[must_use]
pub const fn stamps_refusal(driver: DriverKind) -> Option<&'static str> {
    match driver {
        DriverKind::Epoll => None,
        DriverKind::Uring => Some(NO_STAMPS),
    }
}

/// Error for a driver that does not support the probe `kernel_stamps`.
const NO_STAMPS: &str = "driver \"uring\": cannot read the kernel's timestamps\nhint: use \
                         \"epoll\", or remove the probe `kernel_stamps`";
