//! Decodes the header blocks of responses and checks them as RFC 9113 §8 requires.

use alloc::vec::Vec;

use super::hpack::Decoder;
use super::{Http2Error, Malformed, limits};

/// The fields of a message, copied from its header block.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    bytes: Vec<u8>,
    /// Ends of each name and each value.
    ends: Vec<(u32, u32)>,
}

impl Fields {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(name);
        let name_end = self.bytes.len() as u32;
        self.bytes.extend_from_slice(value);
        self.ends.push((name_end, self.bytes.len() as u32));
    }

    /// Names and values in order, including `:status`.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let starts = core::iter::once(0).chain(self.ends.iter().map(|(_, end)| *end));
        starts.zip(&self.ends).map(|(start, &(name_end, end))| {
            (
                &self.bytes[start as usize..name_end as usize],
                &self.bytes[name_end as usize..end as usize],
            )
        })
    }
}

/// The values of a header block that decide how its message is read, and its first violation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HeadSummary {
    /// 100 to 999, or 0: none yet.
    pub(super) status: u16,
    pub(super) content_length: Option<u64>,
    /// Bytes of names and values.
    pub(super) field_bytes: u32,
    pub(super) malformed: Option<Malformed>,
    has_fields: bool,
    has_pseudo: bool,
}

impl HeadSummary {
    /// Checks and counts the next field.
    pub(super) fn add_field(&mut self, name: &[u8], value: &[u8]) {
        self.field_bytes = self.field_bytes.saturating_add((name.len() + value.len()) as u32);
        if let Err(violation) = self.check(name, value) {
            self.malformed.get_or_insert(violation);
        }
    }

    fn check(&mut self, name: &[u8], value: &[u8]) -> Result<(), Malformed> {
        if name.first() == Some(&b':') {
            self.has_pseudo = true;
            return self.check_pseudo(name, value);
        }
        self.has_fields = true;
        // The minimum that a recipient must refuse (RFC 9113 §8.2.1).
        if name.is_empty()
            || name.iter().any(|b| matches!(b, 0..=0x20 | b'A'..=b'Z' | b':' | 0x7F..))
        {
            return Err(Malformed::FieldName);
        }
        let blank = |b: &u8| matches!(b, b' ' | b'\t');
        if value.iter().any(|b| matches!(b, 0 | b'\r' | b'\n'))
            || value.first().is_some_and(blank)
            || value.last().is_some_and(blank)
        {
            return Err(Malformed::FieldValue);
        }
        match name {
            b"connection" | b"proxy-connection" | b"keep-alive" | b"transfer-encoding"
            | b"upgrade" => Err(Malformed::ConnectionField),
            b"content-length" => self.check_length(value),
            _ => Ok(()),
        }
    }

    fn check_pseudo(&mut self, name: &[u8], value: &[u8]) -> Result<(), Malformed> {
        if name != b":status" || self.has_fields {
            return Err(Malformed::PseudoField);
        }
        match value {
            [a @ b'1'..=b'9', b, c]
                if self.status == 0 && b.is_ascii_digit() && c.is_ascii_digit() =>
            {
                let digit = |d: &u8| u16::from(d - b'0');
                self.status = digit(a) * 100 + digit(b) * 10 + digit(c);
                Ok(())
            }
            _ => Err(Malformed::Status),
        }
    }

    fn check_length(&mut self, value: &[u8]) -> Result<(), Malformed> {
        // Without the filter, `parse` would accept a plus sign.
        let digits =
            core::str::from_utf8(value).ok().filter(|v| v.bytes().all(|b| b.is_ascii_digit()));
        let length = digits.and_then(|v| v.parse().ok()).ok_or(Malformed::ContentLength)?;
        match self.content_length.replace(length) {
            Some(earlier) if earlier != length => Err(Malformed::ContentLength),
            _ => Ok(()),
        }
    }

    /// Checks the block as a response's head. Returns the status.
    pub(super) fn check_head(&self) -> Result<u16, Malformed> {
        match self.malformed {
            Some(violation) => Err(violation),
            None if self.status == 0 => Err(Malformed::Status),
            None => Ok(self.status),
        }
    }

    /// Checks the block as trailers.
    pub(super) fn check_trailers(&self) -> Result<(), Malformed> {
        if self.has_pseudo {
            return Err(Malformed::Trailers);
        }
        self.malformed.map_or(Ok(()), Err)
    }
}

/// Reads the header blocks of a connection's responses.
#[derive(Debug)]
pub(super) struct HeadDecoder {
    decoder: Decoder,
    cache: BlockCache,
    fields: Fields,
}

impl HeadDecoder {
    /// `table_size`: bytes of the dynamic table that the peer may use.
    pub(super) fn new(table_size: u32) -> HeadDecoder {
        HeadDecoder {
            decoder: Decoder::new(table_size),
            cache: BlockCache::default(),
            fields: Fields::default(),
        }
    }

    pub(super) fn set_limit(&mut self, table_size: u32) {
        self.decoder.set_limit(table_size);
    }

    /// Returns the fields of the last block, which must have been read with `wants_fields`.
    pub(super) fn fields(&self) -> &Fields {
        &self.fields
    }

    #[inline]
    pub(super) fn read(
        &mut self,
        block: &[u8],
        wants_fields: bool,
    ) -> Result<HeadSummary, Http2Error> {
        if !wants_fields && let Some(summary) = self.cache.find(block, self.decoder.generation()) {
            return Ok(summary);
        }
        self.decode(block, wants_fields)
    }

    fn decode(&mut self, block: &[u8], wants_fields: bool) -> Result<HeadSummary, Http2Error> {
        let before = self.decoder.generation();
        let mut summary = HeadSummary::default();
        let fields = &mut self.fields;
        fields.clear();
        self.decoder.decode(block, |name, value| {
            summary.add_field(name, value);
            if wants_fields {
                fields.push(name, value);
            }
        })?;
        if self.decoder.generation() == before {
            self.cache.store(block, before, summary);
        }
        Ok(summary)
    }
}

/// The last header block that did not change the dynamic table, and the result of decoding it.
///
/// Servers under load repeat the same block. Comparing a block with the last one costs a fraction
/// of decoding it. Equal blocks decode to the same fields as long as the table is the same.
#[derive(Clone, Debug, Default)]
struct BlockCache {
    /// Empty: no such block has arrived yet.
    block: Vec<u8>,
    generation: u64,
    summary: HeadSummary,
}

impl BlockCache {
    #[inline]
    fn find(&self, block: &[u8], generation: u64) -> Option<HeadSummary> {
        (self.generation == generation && self.block == block && !block.is_empty())
            .then_some(self.summary)
    }

    fn store(&mut self, block: &[u8], generation: u64, summary: HeadSummary) {
        if block.len() <= limits::CACHED_BLOCK_BYTES {
            self.block.clear();
            self.block.extend_from_slice(block);
            self.generation = generation;
            self.summary = summary;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summarize(fields: &[(&str, &str)]) -> HeadSummary {
        let mut summary = HeadSummary::default();
        for (name, value) in fields {
            summary.add_field(name.as_bytes(), value.as_bytes());
        }
        summary
    }

    #[test]
    fn valid_head_gives_status_and_length() {
        let summary = summarize(&[
            (":status", "204"),
            ("content-length", "12"),
            ("content-length", "12"),
            ("a", "b c"),
        ]);
        assert_eq!((summary.check_head(), summary.content_length), (Ok(204), Some(12)));
        assert_eq!(summary.field_bytes, 10 + 16 + 16 + 4);
    }

    #[test]
    fn invalid_head_gives_its_violation() {
        for (fields, violation) in [
            (&[("a", "b")][..], Malformed::Status),
            (&[(":status", "200"), (":status", "200")], Malformed::Status),
            (&[(":status", "20")], Malformed::Status),
            (&[(":status", "0200")], Malformed::Status),
            (&[(":path", "/")], Malformed::PseudoField),
            (&[("a", "b"), (":status", "200")], Malformed::PseudoField),
            (&[(":status", "200"), ("Date", "x")], Malformed::FieldName),
            (&[(":status", "200"), ("", "x")], Malformed::FieldName),
            (&[(":status", "200"), ("a", "b\r\nc")], Malformed::FieldValue),
            (&[(":status", "200"), ("a", " b")], Malformed::FieldValue),
            (&[(":status", "200"), ("connection", "close")], Malformed::ConnectionField),
            (&[(":status", "200"), ("content-length", "+1")], Malformed::ContentLength),
            (
                &[(":status", "200"), ("content-length", "1"), ("content-length", "2")],
                Malformed::ContentLength,
            ),
        ] {
            assert_eq!(summarize(fields).check_head(), Err(violation), "{fields:?}");
        }
        assert_eq!(summarize(&[(":status", "200")]).check_trailers(), Err(Malformed::Trailers));
        assert_eq!(summarize(&[("grpc-status", "0")]).check_trailers(), Ok(()));
    }

    #[test]
    fn fields_iter_returns_pushed_pairs() {
        let mut fields = Fields::default();
        fields.push(b":status", b"200");
        fields.push(b"a", b"");
        fields.push(b"bc", b"d");
        let pairs: Vec<_> = fields.iter().collect();
        assert_eq!(pairs, [(&b":status"[..], &b"200"[..]), (b"a", b""), (b"bc", b"d")]);
    }

    #[test]
    fn cache_skips_blocks_that_change_table() {
        let mut heads = HeadDecoder::new(4096);
        let status_200 = [0x88];
        let inserts_entry = [0x88, 0x40, 1, b'a', 1, b'b'];
        heads.read(&inserts_entry, false).unwrap();
        let generation = heads.decoder.generation();
        assert!(heads.cache.find(&inserts_entry, generation).is_none());
        heads.read(&status_200, false).unwrap();
        assert_eq!(
            heads.cache.find(&status_200, generation).map(|summary| summary.status),
            Some(200)
        );
        heads.read(&inserts_entry, false).unwrap();
        assert!(
            heads.cache.find(&status_200, heads.decoder.generation()).is_none(),
            "the table has changed"
        );
    }
}
