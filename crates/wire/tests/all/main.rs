//! All tests of this crate through its public interface, in one program: it is linked once.

mod h1_request;
mod h1_response;
mod h1_tolerance;
mod h2_client;
mod h2_cuts;
mod h2_halves;
mod h2_peer;
mod hpack;
mod hpack_vectors;
mod talk;
