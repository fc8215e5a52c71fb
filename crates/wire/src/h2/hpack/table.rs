//! The static and the dynamic table, which map indexes to fields (RFC 7541 §2.3).

use super::HpackError;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Bytes of an entry in addition to its name and value (RFC 7541 §4.1).
pub const ENTRY_OVERHEAD: usize = 32;

/// Initial size of the dynamic table, bytes (RFC 9113 §6.5.2).
pub const INITIAL_SIZE: u32 = 4096;

/// The static table of RFC 7541 Appendix A, from index 1. Entries with the same name are adjacent.
pub static STATIC_TABLE: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// Size of a field as an entry of a table, bytes (RFC 7541 §4.1).
#[inline]
pub fn entry_size(name: &[u8], value: &[u8]) -> usize {
    name.len() + value.len() + ENTRY_OVERHEAD
}

/// The last fields of one direction, newest first (RFC 7541 §2.3.2).
///
/// All names and values are in one buffer, in the order of insertion. An insertion appends to it.
/// An eviction leaves unused bytes at the front of the buffer, which are removed once they are more
/// than half of the buffer.
#[derive(Debug)]
pub struct DynamicTable {
    /// Newest entry first.
    entries: VecDeque<Entry>,
    bytes: Vec<u8>,
    /// Number of bytes that preceded `bytes[0]` and were removed.
    removed: u64,
    /// Size of all entries in bytes (RFC 7541 §4.1).
    size: usize,
    max_size: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Offset of its name, counted from the first byte that was ever inserted. The value follows
    /// the name.
    start: u64,
    name_len: u32,
    value_len: u32,
}

impl Entry {
    fn len(&self) -> usize {
        self.name_len as usize + self.value_len as usize
    }
}

impl DynamicTable {
    pub fn new(max_size: u32) -> Self {
        Self { entries: VecDeque::new(), bytes: Vec::new(), removed: 0, size: 0, max_size }
    }

    pub fn max_size(&self) -> u32 {
        self.max_size
    }

    /// Changes the size. Evicts entries that no longer fit (RFC 7541 §4.3).
    pub fn set_max_size(&mut self, max_size: u32) {
        self.max_size = max_size;
        self.evict_above(max_size as usize);
        self.compact();
    }

    /// Inserts a field. Evicts entries until it fits. A field larger than the table empties the
    /// table and is not inserted (RFC 7541 §4.4).
    pub fn insert(&mut self, name: &[u8], value: &[u8]) {
        let size = entry_size(name, value);
        let Some(remaining) = (self.max_size as usize).checked_sub(size) else {
            self.evict_above(0);
            self.compact();
            return;
        };
        self.evict_above(remaining);
        self.compact();
        let start = self.removed + self.bytes.len() as u64;
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        // The entry fits into the table, whose size has 32 bits. Its lengths therefore fit into 32
        // bits.
        self.entries.push_front(Entry {
            start,
            name_len: name.len() as u32,
            value_len: value.len() as u32,
        });
        self.size += size;
    }

    /// Returns the field at `index`, in the static table or in this one (RFC 7541 §2.3.3).
    #[inline]
    pub fn look_up(&self, index: usize) -> Result<(&[u8], &[u8]), HpackError> {
        let position = index.checked_sub(1).ok_or(HpackError::IndexZero)?;
        if let Some((name, value)) = STATIC_TABLE.get(position) {
            return Ok((name.as_bytes(), value.as_bytes()));
        }
        let entry =
            self.entries.get(position - STATIC_TABLE.len()).ok_or(HpackError::IndexOutOfRange)?;
        Ok(self.strings(entry))
    }

    /// The entries from the newest to the oldest. The newest has the index after the last of the
    /// static table.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.entries.iter().map(|entry| self.strings(entry))
    }

    #[inline]
    fn strings(&self, entry: &Entry) -> (&[u8], &[u8]) {
        let start = (entry.start - self.removed) as usize;
        self.bytes[start..start + entry.len()].split_at(entry.name_len as usize)
    }

    fn evict_above(&mut self, size: usize) {
        while self.size > size
            && let Some(oldest) = self.entries.pop_back()
        {
            self.size -= oldest.len() + ENTRY_OVERHEAD;
        }
    }

    /// Removes unused bytes at the buffer's front if they are more than half of the buffer. A
    /// removal then moves fewer bytes than it removes, so on average each byte is moved at most
    /// once.
    fn compact(&mut self) {
        let unused = match self.entries.back() {
            Some(oldest) => (oldest.start - self.removed) as usize,
            None => self.bytes.len(),
        };
        if unused > self.bytes.len() / 2 {
            self.bytes.drain(..unused);
            self.removed += unused as u64;
        }
    }
}
