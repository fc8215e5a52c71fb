//! All tests of this crate through its public interface, in one program: it is linked once.

mod bodies;
mod contract;
mod floods;
