//! The load path's only system calls, its only clock and its only `unsafe`: [`Uring`] and [`Epoll`]
//! behind [`dyno_engine::Driver`].
//!
//! Both pass the contract suite in `tests/contract.rs`, and so does the simulator. A driver belongs
//! to the thread that made it: one per worker, nothing shared.
#![allow(unsafe_code)]

mod epoll;
pub mod limits;
pub mod sys;
mod uring;

use std::io;
use std::net::SocketAddr;

use dyno_archive::plan::DriverKind;

pub use epoll::Epoll;
pub use sys::{Endpoint, PeerAddress, Stamps};
pub use uring::Uring;

/// The best driver this kernel offers, and the reason if that is not io_uring.
#[must_use]
pub fn best_driver() -> (DriverKind, Option<io::Error>) {
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
    match Uring::new(&nowhere.into(), 1) {
        Ok(_) => (DriverKind::Uring, None),
        Err(error) => (DriverKind::Epoll, Some(error)),
    }
}
