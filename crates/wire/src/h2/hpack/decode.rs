//! Decodes header blocks.

use super::table::{self, DynamicTable};
use super::{HpackError, huffman, limits};
use alloc::vec::Vec;

/// Reads the header blocks of one direction of a connection, in order.
///
/// After an error the connection is unusable (RFC 9113 §4.3): fields before the error are correct,
/// but later blocks may refer to entries that were not read.
#[derive(Debug)]
pub struct Decoder {
    table: DynamicTable,
    /// The largest size that the peer may give the table, in bytes.
    limit: u32,
    /// The next block must begin with an update to this size or less.
    required_update: Option<u32>,
    generation: u64,
    literal: Literal,
}

impl Decoder {
    /// Creates a decoder. `limit`: the `SETTINGS_HEADER_TABLE_SIZE` that dyno announces before the
    /// first block, in bytes.
    ///
    /// The table's initial size is the 4096 bytes of RFC 9113 §6.5.2, or `limit` if `limit` is
    /// lower. A peer should begin its first block with a size update if `limit` is lower. Blocks
    /// without the update are also decoded correctly if the peer's table stays within the limit.
    #[must_use]
    pub fn new(limit: u32) -> Self {
        Self {
            table: DynamicTable::new(limit.min(table::INITIAL_SIZE)),
            limit,
            required_update: None,
            generation: 0,
            literal: Literal::default(),
        }
    }

    /// Applies a new announced limit, once the peer has acknowledged it.
    ///
    /// If the table is larger than the new limit, the next block must begin with a size update. If
    /// the limit changes several times before that block, the update must be to the lowest of these
    /// limits, or to less (RFC 7541 §4.2).
    pub fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
        if limit < self.table.max_size() {
            let smallest = self.required_update.map_or(limit, |earlier| earlier.min(limit));
            self.required_update = Some(smallest);
            self.generation += 1;
        }
    }

    /// Returns a number that changes with every change of the dynamic table: insertion, eviction,
    /// change of size or of the required update. A block that did not change the number decodes to
    /// the same fields while the number stays the same.
    #[must_use]
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Decodes one whole header block. Calls `field` with the name and value of each field.
    pub fn decode(
        &mut self,
        block: &[u8],
        mut field: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), HpackError> {
        let mut input = Input { rest: block };
        let mut list = FieldListSize { bytes: 0 };
        self.read_size_updates(&mut input)?;
        while let Some(first) = input.next() {
            match first {
                0x80.. => {
                    let index = input.read_integer(first, 7)?;
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
                // Not indexed, or never indexed: the difference concerns intermediaries only.
                0x00..0x20 => {
                    let (name, value) = self.literal.read(&mut input, first, 4, &self.table)?;
                    list.add(name, value)?;
                    field(name, value);
                }
            }
        }
        Ok(())
    }

    /// Reads the size updates that begin a block (RFC 7541 §6.3). A block can begin with two of
    /// them: to the smallest size since the last block, then to the final size.
    fn read_size_updates(&mut self, input: &mut Input<'_>) -> Result<(), HpackError> {
        while let Some((first @ 0x20..0x40, rest)) = input.rest.split_first() {
            input.rest = rest;
            let size = input.read_integer(*first, 5)?;
            if size > self.limit {
                return Err(HpackError::SizeAboveLimit);
            }
            let required = self.required_update.take();
            if required.is_some_and(|required| size > required) {
                return Err(HpackError::SizeUpdateMissing);
            }
            self.table.set_max_size(size);
            self.generation += 1;
        }
        if self.required_update.is_some() { Err(HpackError::SizeUpdateMissing) } else { Ok(()) }
    }
}

/// The size of a block's fields so far (RFC 9113 §6.5.2).
struct FieldListSize {
    bytes: usize,
}

impl FieldListSize {
    #[inline]
    fn add(&mut self, name: &[u8], value: &[u8]) -> Result<(), HpackError> {
        self.bytes += table::entry_size(name, value);
        if self.bytes > limits::HEADER_LIST_BYTES {
            Err(HpackError::HeaderListTooLarge)
        } else {
            Ok(())
        }
    }
}

/// Memory for the strings of a literal field that cannot be borrowed from the block, such as
/// Huffman-coded ones. It is reused to save allocations.
#[derive(Debug, Default)]
struct Literal {
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Literal {
    /// Reads a literal field (RFC 7541 §6.2). The low `prefix` bits of its byte `first` begin the
    /// index of the name.
    #[inline]
    fn read<'s, 'block: 's>(
        &'s mut self,
        input: &mut Input<'block>,
        first: u8,
        prefix: u32,
        table: &DynamicTable,
    ) -> Result<(&'s [u8], &'s [u8]), HpackError> {
        let name = match input.read_integer(first, prefix)? {
            0 => input.read_string(&mut self.name)?,
            index => {
                // The name is copied, because the insertion of the field can evict the entry from
                // which the name comes (RFC 7541 §4.4).
                self.name.clear();
                self.name.extend_from_slice(table.look_up(index as usize)?.0);
                &self.name
            }
        };
        Ok((name, input.read_string(&mut self.value)?))
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

    /// Reads an integer that begins in the low `prefix` bits of `first` (RFC 7541 §5.1).
    #[inline]
    fn read_integer(&mut self, first: u8, prefix: u32) -> Result<u32, HpackError> {
        let full = (1 << prefix) - 1;
        let value = u32::from(first) & full;
        if value < full { Ok(value) } else { self.read_long_integer(full) }
    }

    /// Reads the rest of an integer whose prefix is `full`.
    fn read_long_integer(&mut self, full: u32) -> Result<u32, HpackError> {
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

    /// Reads a string (RFC 7541 §5.2). A Huffman-coded string is decoded into `scratch`.
    #[inline]
    fn read_string<'s>(&mut self, scratch: &'s mut Vec<u8>) -> Result<&'s [u8], HpackError>
    where
        'block: 's,
    {
        let first = self.next().ok_or(HpackError::Truncated)?;
        let length = self.read_integer(first, 7)? as usize;
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
