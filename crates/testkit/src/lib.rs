//! Servers whose bottleneck is known by construction. `behaviours` is the table of them: what each
//! does, and which verdicts are right at which load. The program `testkit` is the server.
#![forbid(unsafe_code)]

mod behaviour;
mod runtimes;
mod rust;

pub use behaviour::{
    BackEnd, Behaviour, ExpectedVerdict, LoadLevel, Need, Program, RequestWork, Runtime,
    TestConditions, ThreadModel,
};

/// All behaviours, those of the Rust server first.
pub fn behaviours() -> impl Iterator<Item = &'static Behaviour> {
    rust::BEHAVIOURS.iter().chain(runtimes::BEHAVIOURS)
}

/// The behaviour of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Behaviour> {
    behaviours().find(|behaviour| behaviour.name == name)
}
