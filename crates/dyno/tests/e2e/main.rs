//! The whole of dyno against real servers, good and bad.

mod arms;
mod authors;
mod broken;
mod database;
mod drive;
mod elasticsearch;
mod failures;
mod inside;
mod interrupts;
mod life;
mod load;
mod output;
mod page;
mod parts;
mod policy;
mod promises;
mod protocols;
mod safety;
mod saved;
mod stall;
mod streams;
mod tutorial;
mod unprivileged;
mod walk;
mod warming;
mod words;
