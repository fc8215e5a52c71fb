//! A hash of a list of parts: the key of builds, and the fingerprint of starts.

use std::io::{self, Read};

use sha2::{Digest as _, Sha256};

/// A hash of a list of parts.
#[derive(Clone, Default)]
pub(crate) struct PartsHash(Sha256);

impl PartsHash {
    /// Adds a part. Its length is hashed first, so that different lists give different bytes.
    pub(crate) fn add(&mut self, part: &[u8]) {
        self.0.update((part.len() as u64).to_le_bytes());
        self.0.update(part);
    }

    /// Adds the hash of a file's contents, because the file may be larger than the memory.
    pub(crate) fn add_contents(&mut self, mut file: impl Read) -> io::Result<()> {
        let mut contents = Sha256::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                n => contents.update(&buffer[..n]),
            }
        }
        self.add(&contents.finalize());
        Ok(())
    }

    /// Returns the hash in hexadecimal.
    pub(crate) fn into_text(self) -> String {
        self.0.finalize().iter().map(|b| format!("{b:02x}")).collect()
    }
}
