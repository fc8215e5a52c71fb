//! HTTP as pure state machines: bytes in, events out.
//!
//! Nothing here opens a socket, reads a clock or allocates per message on the fast path, so every state can be
//! replayed, cut into arbitrary pieces and fuzzed. The crate is `no_std`, which lets the compiler hold that line.
//!
//! A peer that breaks the protocol is an expected event of a load test. Every way of breaking it is a named
//! [`h1::Error`], and none of them is a panic.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod h1;
pub mod h2;
