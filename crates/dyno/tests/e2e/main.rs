//! The whole of dyno against real servers, good and bad.

mod drive;
mod failures;
mod interrupts;
mod load;
mod page;
mod unprivileged;
