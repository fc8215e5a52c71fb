//! Hashes a list of parts. The hash is the key of a build, or the fingerprint of a start.

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

    /// Returns the hash in hexadecimal.
    pub(crate) fn into_text(self) -> String {
        hexadecimal(self.0)
    }
}

/// Hashes of the inputs of a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputKey {
    /// Hash of everything that can change the artefact on this machine.
    pub all: String,
    /// Hash of the inputs that are the same on all machines, without values that may be secret.
    pub portable: String,
}

/// A hash of all inputs of a build, and a hash of the portable ones.
#[derive(Clone, Default)]
pub(crate) struct InputsHash {
    all: PartsHash,
    portable: PartsHash,
}

impl InputsHash {
    pub(crate) fn add(&mut self, part: &[u8]) {
        self.all.add(part);
        self.portable.add(part);
    }

    /// Adds a part that differs between machines, or that may be secret.
    pub(crate) fn add_local(&mut self, part: &[u8]) {
        self.all.add(part);
    }

    pub(crate) fn into_key(self) -> InputKey {
        InputKey { all: self.all.into_text(), portable: self.portable.into_text() }
    }
}

/// Returns the SHA-256 of a file's contents in hexadecimal. The contents are read in pieces,
/// because the file may be larger than the memory.
pub(crate) fn contents_hash(mut file: impl Read) -> io::Result<String> {
    let mut contents = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hexadecimal(contents)),
            n => contents.update(&buffer[..n]),
        }
    }
}

fn hexadecimal(hash: Sha256) -> String {
    hash.finalize().iter().map(|b| format!("{b:02x}")).collect()
}
