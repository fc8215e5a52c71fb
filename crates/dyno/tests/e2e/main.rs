//! The whole of dyno against real servers, good and bad.

mod arms;
mod broken;
mod drive;
mod failures;
mod interrupts;
mod load;
mod output;
mod page;
mod parts;
mod policy;
mod protocols;
mod safety;
mod saved;
mod stall;
mod streams;
mod unprivileged;
mod walk;
mod warming;
mod words;
