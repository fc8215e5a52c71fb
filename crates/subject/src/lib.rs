//! Servers under test: what their files say of them ([`definition`]), what is built from these
//! ([`build`]), and the certificates that they are given ([`certs`]).
#![forbid(unsafe_code)]

pub mod build;
pub mod certs;
pub mod definition;
pub mod import;
mod key;
pub mod limits;
pub mod limits_keys;
pub mod paths;
pub mod placeholders;
