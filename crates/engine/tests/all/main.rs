//! All tests of this crate through its public interface, in one program: it is linked once.

mod closes;
mod flood;
mod h2;
mod pages;
mod records;
mod sequences;
mod slices;
mod tls;
mod truth;
mod world;
