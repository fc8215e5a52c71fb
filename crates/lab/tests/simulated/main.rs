//! Walks plans on a simulated machine, in virtual time, and compares the archives and their
//! verdicts with the exact expectation.

mod experiments;
mod failures;
mod find;
mod host;
mod interrupts;
mod parts;
mod reads;
mod search;
mod server;
mod turns;
mod walk;
mod warming;
mod world;
