//! Reads and builds servers under test: their definitions ([`definition`]), their builds
//! ([`build`]), and their certificates ([`certs`]).
#![forbid(unsafe_code)]

pub mod artefact;
pub mod build;
pub mod certs;
pub mod definition;
pub mod import;
mod key;
pub mod limits;
pub mod limits_keys;
pub mod paths;
#[cfg(test)]
#[path = "../../../tests/support/pipe.rs"]
mod pipe;
pub mod placeholders;
