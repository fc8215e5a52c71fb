//! Reads text that people write: TOML files, quantities with units, relative paths and names. It
//! reports mistakes with their line, the wrong words and a suggestion.
//!
//! The crate is the lowest layer, so that other crates can read text and report mistakes in the
//! same way. These things are absent on purpose:
//!
//! - Keys. Suites, servers and contracts are defined where their values are used.
//! - Files. The caller reads them, and passes their text.
//! - Other crates of the workspace.
//!
//! Messages quote the text that they are about, and other people read terminals and logs of CI. The
//! rules that detect secrets are therefore here ([`secret`]), and all crates that withhold secrets
//! use them.
#![forbid(unsafe_code)]

pub mod document;
pub mod hint;
pub mod keys;
pub mod mistake;
pub mod one_or_many;
pub mod quotation;
pub mod relative_path;
pub mod secret;
pub mod text;
pub mod units;
