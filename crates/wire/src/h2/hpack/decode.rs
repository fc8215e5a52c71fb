//! Reading header blocks.

use super::table::{self, Dynamic};
use super::{HpackError, huffman, limits};
use alloc::vec::Vec;

/// Reads the header blocks of one direction of a connection, in order.
///
/// After an error the connection is of no more use (RFC 9113 §4.3): the fields that were shown
/// before it are right, but later blocks may refer to what was not read.
#[derive(Debug)]
pub struct Decoder {
    table: Dynamic,
    /// The largest size that the peer may give the table, in bytes.
    limit: u32,
    /// The next block must begin with a size update to this or less.
    owed: Option<u32>,
    generation: u64,
    literal: Literal,
}

impl Decoder {
    /// `limit` is the `SETTINGS_HEADER_TABLE_SIZE` that we announce before the first block, in
    /// bytes: the peer may use up to it.
    ///
    /// The table begins with the 4096 bytes of RFC 9113 §6.5.2, or with `limit` if that is less. In
    /// the latter case a peer should begin with a size update, but one that does not, and keeps to
    /// the limit, is understood as well.
    #[must_use]
    pub fn new(limit: u32) -> Self {
        Self {
            table: Dynamic::new(limit.min(table::INITIAL_SIZE)),
            limit,
            owed: None,
            generation: 0,
            literal: Literal::default(),
        }
    }

    /// The announced limit changed, and the peer acknowledged it.
    ///
    /// If the table is larger, the next block must begin with a size update. If the limit changes
    /// several times until then, that must be one to the smallest (RFC 7541 §4.2).
    pub fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
        if limit < self.table.max_size() {
            self.owed = Some(self.owed.map_or(limit, |owed| owed.min(limit)));
            self.generation += 1;
        }
    }

    /// A number that changes with every change of the dynamic table: insertion, eviction, change of
    /// size or of an update owed. A block that did not change it decodes to the same fields for as
    /// long as the number stays the same.
    #[must_use]
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Decodes one whole header block and shows every field's name and value, in order.
    pub fn decode(
        &mut self,
        block: &[u8],
        mut field: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), HpackError> {
        let mut input = Input { rest: block };
        let mut list = List { size: 0 };
        self.size_updates(&mut input)?;
        while let Some(first) = input.next() {
            match first {
                0x80.. => {
                    let index = input.integer(first, 7)?;
                    let (name, value) = self.table.look_up(index as usize)?;
                    list.add(name, value)?;
                    field(name, value);
                }
                0x40..0x80 => {
                    let (name, value) = self.literal.read(&mut input, first, 6, &self.table)?;
                    list.add(name, value)?;
                    field(name, value);
                    self.table.insert(name, value);
                    self.generation += 1;
                }
                0x20..0x40 => return Err(HpackError::SizeUpdateNotFirst),
                // Not indexed or never indexed: the difference is for those who pass fields on.
                0x00..0x20 => {
                    let (name, value) = self.literal.read(&mut input, first, 4, &self.table)?;
                    list.add(name, value)?;
                    field(name, value);
                }
            }
        }
        Ok(())
    }

    /// Reads the size updates that begin a block (RFC 7541 §6.3). There may be two in a row: to the
    /// smallest size since the last block, then to the final one.
    fn size_updates(&mut self, input: &mut Input<'_>) -> Result<(), HpackError> {
        while let Some((first @ 0x20..0x40, rest)) = input.rest.split_first() {
            input.rest = rest;
            let size = input.integer(*first, 5)?;
            if size > self.limit {
                return Err(HpackError::SizeAboveLimit);
            }
            if self.owed.take().is_some_and(|owed| size > owed) {
                return Err(HpackError::SizeUpdateMissing);
            }
            self.table.set_max_size(size);
            self.generation += 1;
        }
        if self.owed.is_some() { Err(HpackError::SizeUpdateMissing) } else { Ok(()) }
    }
}

/// The size of a block's fields so far, in bytes (RFC 9113 §6.5.2).
struct List {
    size: usize,
}

impl List {
    #[inline]
    fn add(&mut self, name: &[u8], value: &[u8]) -> Result<(), HpackError> {
        self.size += table::entry_size(name, value);
        if self.size > limits::HEADER_LIST_BYTES {
            Err(HpackError::HeaderListTooLarge)
        } else {
            Ok(())
        }
    }
}

/// The strings of the literal field that is being read, unless they stand in the block as they are.
/// Kept to save allocations.
#[derive(Debug, Default)]
struct Literal {
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Literal {
    /// A literal field (RFC 7541 §6.2) that begins with `first`, whose low `prefix` bits begin the
    /// name's index.
    #[inline]
    fn read<'s, 'block: 's>(
        &'s mut self,
        input: &mut Input<'block>,
        first: u8,
        prefix: u32,
        table: &Dynamic,
    ) -> Result<(&'s [u8], &'s [u8]), HpackError> {
        let name = match input.integer(first, prefix)? {
            0 => input.string(&mut self.name)?,
            index => {
                // Copied, since inserting the field may evict the entry that it has its name from
                // (RFC 7541 §4.4).
                self.name.clear();
                self.name.extend_from_slice(table.look_up(index as usize)?.0);
                &self.name
            }
        };
        Ok((name, input.string(&mut self.value)?))
    }
}

/// The unread part of a block.
struct Input<'block> {
    rest: &'block [u8],
}

impl<'block> Input<'block> {
    #[inline]
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    /// An integer that begins in the low `prefix` bits of `first` (RFC 7541 §5.1).
    #[inline]
    fn integer(&mut self, first: u8, prefix: u32) -> Result<u32, HpackError> {
        let full = (1 << prefix) - 1;
        let value = u32::from(first) & full;
        if value < full { Ok(value) } else { self.long_integer(full) }
    }

    /// The rest of an integer whose prefix is `full`.
    fn long_integer(&mut self, full: u32) -> Result<u32, HpackError> {
        let mut value = u64::from(full);
        for position in 0..limits::INTEGER_CONTINUATION_BYTES {
            let byte = self.next().ok_or(HpackError::Truncated)?;
            value += u64::from(byte & 0x7f) << (7 * position);
            if byte & 0x80 == 0 {
                return u32::try_from(value).map_err(|_| HpackError::IntegerTooLarge);
            }
        }
        Err(HpackError::IntegerTooLarge)
    }

    /// A string (RFC 7541 §5.2), in `scratch` if it is coded.
    #[inline]
    fn string<'s>(&mut self, scratch: &'s mut Vec<u8>) -> Result<&'s [u8], HpackError>
    where
        'block: 's,
    {
        let first = self.next().ok_or(HpackError::Truncated)?;
        let length = self.integer(first, 7)? as usize;
        if length > limits::STRING_BYTES {
            return Err(HpackError::StringTooLong);
        }
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(HpackError::Truncated)?;
        self.rest = rest;
        if first & 0x80 == 0 {
            return Ok(bytes);
        }
        scratch.clear();
        huffman::decode(bytes, scratch)?;
        if scratch.len() > limits::STRING_BYTES {
            Err(HpackError::StringTooLong)
        } else {
            Ok(scratch)
        }
    }
}
