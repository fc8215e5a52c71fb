//! Lists servers with a known bottleneck, and the correct verdicts for each at each load. dyno is
//! tested against them. The program `testkit` is most of these servers.
#![forbid(unsafe_code)]

mod behaviour;
mod runtimes;
mod rust;

pub use behaviour::{
    BackEnd, Behaviour, ExpectedVerdict, LoadLevel, Need, Program, RequestWork, Runtime,
    TestConditions, ThreadModel,
};

/// All behaviours, the Rust server's behaviours first.
pub fn behaviours() -> impl Iterator<Item = &'static Behaviour> {
    rust::BEHAVIOURS.iter().chain(runtimes::BEHAVIOURS)
}

/// The behaviour of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Behaviour> {
    behaviours().find(|behaviour| behaviour.name == name)
}
