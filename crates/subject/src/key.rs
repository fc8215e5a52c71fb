//! A hash over a list of parts, as a key of builds and starts.

use sha2::{Digest as _, Sha256};

/// A hash over a list of parts.
#[derive(Clone, Default)]
pub(crate) struct PartsHash(Sha256);

impl PartsHash {
    /// Lengths first, so that no two lists of parts run together.
    pub(crate) fn add(&mut self, part: &[u8]) {
        self.0.update((part.len() as u64).to_le_bytes());
        self.0.update(part);
    }

    pub(crate) fn text(self) -> String {
        self.0.finalize().iter().map(|b| format!("{b:02x}")).collect()
    }
}
