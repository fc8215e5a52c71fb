//! Encodes header blocks: with a dynamic table ([`Encoder`]), or field by field without one.

use super::huffman;
use super::table::{self, DynamicTable, STATIC_TABLE};
use alloc::vec::Vec;

/// Effect of a literal field on the decoder's dynamic table (RFC 7541 §6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indexing {
    /// The field is inserted. This is for [`Encoder`] and other callers that know the contents of
    /// the peer's table.
    Incremental,
    /// The table does not change.
    Without,
    /// The table does not change, and intermediaries must not index the field either: for secrets
    /// (RFC 7541 §7.1.3).
    Never,
}

impl Indexing {
    /// The flags in the field's first byte, and the width of the name-index prefix in bits.
    fn pattern(self) -> (u8, u8) {
        match self {
            Self::Incremental => (0x40, 6),
            Self::Without => (0x00, 4),
            Self::Never => (0x10, 4),
        }
    }
}

/// Appends an integer that begins in the low `prefix_bits` (1 to 8) of a byte. The other bits of
/// that byte are `flags` (RFC 7541 §5.1).
pub fn put_int(prefix_bits: u8, flags: u8, value: usize, out: &mut Vec<u8>) {
    let full = 0xff >> (8 - prefix_bits);
    if value < usize::from(full) {
        out.push(flags | value as u8);
        return;
    }
    out.push(flags | full);
    let mut rest = value - usize::from(full);
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Appends a string, Huffman-coded if that is shorter (RFC 7541 §5.2).
pub fn put_string(bytes: &[u8], out: &mut Vec<u8>) {
    let coded = huffman::encoded_len(bytes);
    if coded < bytes.len() {
        put_int(7, 0x80, coded, out);
        huffman::encode(bytes, out);
    } else {
        put_int(7, 0, bytes.len(), out);
        out.extend_from_slice(bytes);
    }
}

/// Appends a reference to an entry of the tables (RFC 7541 §6.1).
pub fn put_indexed(index: usize, out: &mut Vec<u8>) {
    put_int(7, 0x80, index, out);
}

/// Appends a size update of the dynamic table, in bytes. It is allowed at the beginning of a block
/// only (RFC 7541 §6.3).
pub fn put_size_update(size: u32, out: &mut Vec<u8>) {
    put_int(5, 0x20, size as usize, out);
}

/// Appends a field without use of the dynamic table: a reference to its static entry or, if it has
/// none, a literal. [`Indexing::Never`] always gives a literal (RFC 7541 §6.2.3).
pub fn put_field(name: &[u8], value: &[u8], indexing: Indexing, out: &mut Vec<u8>) {
    put_indexed_or_literal(static_indexes(name, value), name, value, indexing, out);
}

/// Indexes of the entries to which a field can refer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldIndexes {
    /// Index of the entry with the field's name and value.
    pub full: Option<usize>,
    /// Index of an entry with the field's name.
    pub named: Option<usize>,
}

/// Returns the indexes of a field in the static table. `named` is the first entry with its name.
#[must_use]
pub fn static_indexes(name: &[u8], value: &[u8]) -> FieldIndexes {
    let Some(first) = STATIC_TABLE.iter().position(|entry| entry.0.as_bytes() == name) else {
        return FieldIndexes { full: None, named: None };
    };
    let full = STATIC_TABLE[first..]
        .iter()
        .take_while(|entry| entry.0.as_bytes() == name)
        .position(|entry| entry.1.as_bytes() == value);
    // Indexes begin at 1.
    FieldIndexes { full: full.map(|position| first + position + 1), named: Some(first + 1) }
}

/// Whether the static table has an entry with this name and value.
#[must_use]
pub fn is_static(name: &[u8], value: &[u8]) -> bool {
    static_indexes(name, value).full.is_some()
}

/// Appends a field. The field becomes:
///
/// - with `indexes.full`, a reference to this entry, except with [`Indexing::Never`];
/// - otherwise a literal. Its name is a reference to `indexes.named` if there is one, or a string.
fn put_indexed_or_literal(
    indexes: FieldIndexes,
    name: &[u8],
    value: &[u8],
    indexing: Indexing,
    out: &mut Vec<u8>,
) {
    if let Some(index) = indexes.full
        && indexing != Indexing::Never
    {
        return put_indexed(index, out);
    }
    let (flags, prefix_bits) = indexing.pattern();
    // Index 0 means that the name follows as a string.
    put_int(prefix_bits, flags, indexes.named.unwrap_or(0), out);
    if indexes.named.is_none() {
        put_string(name, out);
    }
    put_string(value, out);
}

/// Writes the header blocks of one direction of a connection, in order, with a dynamic table.
#[derive(Debug)]
pub struct Encoder {
    table: DynamicTable,
    pending_update: Option<PendingUpdate>,
}

/// Sizes of the table since the last block, bytes. The next block must begin with updates to both
/// (RFC 7541 §4.2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingUpdate {
    pub(crate) smallest: u32,
    pub(crate) last: u32,
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Encoder {
    /// Creates an encoder with a table of 4096 bytes (RFC 9113 §6.5.2).
    #[must_use]
    pub fn new() -> Self {
        Self { table: DynamicTable::new(table::INITIAL_SIZE), pending_update: None }
    }

    /// Sets the table's size in bytes. It must not exceed the peer's `SETTINGS_HEADER_TABLE_SIZE`.
    pub fn set_max_size(&mut self, max_size: u32) {
        let smallest =
            self.pending_update.map_or(max_size, |pending| pending.smallest.min(max_size));
        self.pending_update = Some(PendingUpdate { smallest, last: max_size });
        self.table.set_max_size(max_size);
    }

    /// Appends one whole header block. Every field that fits is inserted into the table.
    pub fn encode<'a>(
        &mut self,
        fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
        out: &mut Vec<u8>,
    ) {
        self.begin(out);
        for (name, value) in fields {
            self.put(name, value, Indexing::Incremental, out);
        }
    }

    /// Begins a block. The caller then [puts](Self::put) its fields one by one.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        let Some(PendingUpdate { smallest, last }) = self.pending_update.take() else { return };
        if smallest < last {
            put_size_update(smallest, out);
        }
        put_size_update(last, out);
    }

    /// Appends one field.
    pub fn put(&mut self, name: &[u8], value: &[u8], indexing: Indexing, out: &mut Vec<u8>) {
        let fits = table::entry_size(name, value) <= self.table.max_size() as usize;
        // A field that does not fit would only empty the table (RFC 7541 §4.4).
        let indexing =
            if indexing == Indexing::Incremental && !fits { Indexing::Without } else { indexing };
        let indexes = self.find(name, value);
        put_indexed_or_literal(indexes, name, value, indexing, out);
        if indexes.full.is_none() && indexing == Indexing::Incremental {
            self.table.insert(name, value);
        }
    }

    /// Returns the indexes of a field in the static table, or else in the dynamic table.
    fn find(&self, name: &[u8], value: &[u8]) -> FieldIndexes {
        let in_static = static_indexes(name, value);
        if in_static.full.is_some() {
            return in_static;
        }
        let first_dynamic = STATIC_TABLE.len() + 1;
        let full = self.table.iter().position(|entry| entry == (name, value));
        let named = self.table.iter().position(|entry| entry.0 == name);
        FieldIndexes {
            full: full.map(|position| first_dynamic + position),
            named: in_static.named.or(named.map(|position| first_dynamic + position)),
        }
    }
}
