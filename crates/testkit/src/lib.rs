//! Lists behaviours: servers with a known bottleneck, and the correct verdicts for each at each
//! load. Tests compare dyno's verdicts with this list. The program `testkit` implements most of
//! these servers. For simulated servers, [`resource_use`] computes the samples of their loads.
#![forbid(unsafe_code)]

mod behaviour;
pub mod resource_use;
mod runtimes;
mod rust;

pub use behaviour::{
    BackEnd, Behaviour, ExpectedVerdict, LoadLevel, Need, Program, RequestWork, Runtime,
    TestConditions, ThreadModel,
};

/// Returns all behaviours, those of the Rust server first.
pub fn behaviours() -> impl Iterator<Item = &'static Behaviour> {
    rust::BEHAVIOURS.iter().chain(runtimes::BEHAVIOURS)
}

/// Returns the behaviour of this name. `None`: the name is unknown.
#[must_use]
pub fn find(name: &str) -> Option<&'static Behaviour> {
    behaviours().find(|behaviour| behaviour.name == name)
}
