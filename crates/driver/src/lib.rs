//! The load path's only system calls, its only clock and its only `unsafe`: [`Uring`] and [`Epoll`] behind
//! [`dyno_engine::Driver`].
//!
//! Both pass the contract suite in `tests/contract.rs`, and so does the simulator. A driver belongs to the thread
//! that made it: one per worker, nothing shared.
#![allow(unsafe_code)]

mod epoll;
pub mod limits;
pub mod null;
pub mod sys;
mod uring;

use std::io;
use std::net::SocketAddr;

pub use epoll::Epoll;
pub use sys::{Endpoint, Peer, Stamps};
pub use uring::Uring;

/// Which driver to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Uring,
    Epoll,
}

impl Kind {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Uring => "uring",
            Kind::Epoll => "epoll",
        }
    }

    #[must_use]
    pub fn from_name(name: &str) -> Option<Kind> {
        [Kind::Uring, Kind::Epoll].into_iter().find(|k| k.name() == name)
    }

    /// The best driver this kernel offers, and the reason if that is not io_uring.
    #[must_use]
    pub fn best() -> (Kind, Option<io::Error>) {
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
        match Uring::new(&nowhere.into(), 1) {
            Ok(_) => (Kind::Uring, None),
            Err(error) => (Kind::Epoll, Some(error)),
        }
    }
}
