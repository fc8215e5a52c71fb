//! Reads a response's header block and checks it as RFC 9113 §8 requires.

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

    /// Names and values in their order, `:status` among them.
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

/// The values of a header block that decide how its message is read, with the first fault in it.
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
    /// Takes the next field into account.
    pub(super) fn see(&mut self, name: &[u8], value: &[u8]) {
        self.field_bytes = self.field_bytes.saturating_add((name.len() + value.len()) as u32);
        if let Err(why) = self.check(name, value) {
            self.malformed.get_or_insert(why);
        }
    }

    fn check(&mut self, name: &[u8], value: &[u8]) -> Result<(), Malformed> {
        if name.first() == Some(&b':') {
            self.has_pseudo = true;
            return self.check_pseudo(name, value);
        }
        self.has_fields = true;
        // RFC 9113 §8.2.1: what a recipient must refuse at least.
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
        let length =
            core::str::from_utf8(value).ok().filter(|v| v.bytes().all(|b| b.is_ascii_digit()));
        let length = length.and_then(|v| v.parse().ok()).ok_or(Malformed::ContentLength)?;
        match self.content_length.replace(length) {
            Some(other) if other != length => Err(Malformed::ContentLength),
            _ => Ok(()),
        }
    }

    /// The status of a response's head.
    pub(super) fn head(&self) -> Result<u16, Malformed> {
        match self.malformed {
            Some(why) => Err(why),
            None if self.status == 0 => Err(Malformed::Status),
            None => Ok(self.status),
        }
    }

    pub(super) fn trailers(&self) -> Result<(), Malformed> {
        match self.malformed {
            _ if self.has_pseudo => Err(Malformed::Trailers),
            Some(why) => Err(why),
            None => Ok(()),
        }
    }
}

/// Reads the header blocks of a connection's responses.
#[derive(Debug)]
pub(super) struct Heads {
    decoder: Decoder,
    cache: BlockCache,
    fields: Fields,
}

impl Heads {
    /// `table_size`: bytes that the peer may use of the dynamic table.
    pub(super) fn new(table_size: u32) -> Heads {
        Heads {
            decoder: Decoder::new(table_size),
            cache: BlockCache::default(),
            fields: Fields::default(),
        }
    }

    pub(super) fn set_limit(&mut self, table_size: u32) {
        self.decoder.set_limit(table_size);
    }

    /// The fields of the last block that was read with `wants_fields`.
    pub(super) fn fields(&self) -> &Fields {
        &self.fields
    }

    #[inline]
    pub(super) fn read(
        &mut self,
        block: &[u8],
        wants_fields: bool,
    ) -> Result<HeadSummary, Http2Error> {
        if !wants_fields && let Some(seen) = self.cache.find(block, self.decoder.generation()) {
            return Ok(seen);
        }
        self.decode(block, wants_fields)
    }

    fn decode(&mut self, block: &[u8], wants_fields: bool) -> Result<HeadSummary, Http2Error> {
        let before = self.decoder.generation();
        let mut seen = HeadSummary::default();
        let fields = &mut self.fields;
        fields.clear();
        self.decoder.decode(block, |name, value| {
            seen.see(name, value);
            if wants_fields {
                fields.push(name, value);
            }
        })?;
        if self.decoder.generation() == before {
            self.cache.learn(block, before, seen);
        }
        Ok(seen)
    }
}

/// The last header block that left the dynamic table as it was, and the result of decoding it.
///
/// Servers under load send the same block again and again; to compare it with the last one costs a
/// fraction of decoding it. It says the same as long as the table is the same.
#[derive(Clone, Debug, Default)]
struct BlockCache {
    /// Empty: nothing is known.
    block: Vec<u8>,
    generation: u64,
    seen: HeadSummary,
}

impl BlockCache {
    #[inline]
    fn find(&self, block: &[u8], generation: u64) -> Option<HeadSummary> {
        (self.generation == generation && self.block == block && !block.is_empty())
            .then_some(self.seen)
    }

    fn learn(&mut self, block: &[u8], generation: u64, seen: HeadSummary) {
        if block.len() <= limits::CACHED_BLOCK_BYTES {
            self.block.clear();
            self.block.extend_from_slice(block);
            self.generation = generation;
            self.seen = seen;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn see(fields: &[(&str, &str)]) -> HeadSummary {
        let mut seen = HeadSummary::default();
        fields.iter().for_each(|(name, value)| seen.see(name.as_bytes(), value.as_bytes()));
        seen
    }

    #[test]
    fn right_heads_are_read() {
        let seen = see(&[
            (":status", "204"),
            ("content-length", "12"),
            ("content-length", "12"),
            ("a", "b c"),
        ]);
        assert_eq!((seen.head(), seen.content_length), (Ok(204), Some(12)));
        assert_eq!(seen.field_bytes, 10 + 16 + 16 + 4);
    }

    #[test]
    fn wrong_heads_are_named() {
        for (fields, why) in [
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
            assert_eq!(see(fields).head(), Err(why), "{fields:?}");
        }
        assert_eq!(see(&[(":status", "200")]).trailers(), Err(Malformed::Trailers));
        assert_eq!(see(&[("grpc-status", "0")]).trailers(), Ok(()));
    }

    #[test]
    fn fields_are_kept_apart() {
        let mut fields = Fields::default();
        fields.push(b":status", b"200");
        fields.push(b"a", b"");
        fields.push(b"bc", b"d");
        let all: Vec<_> = fields.iter().collect();
        assert_eq!(all, [(&b":status"[..], &b"200"[..]), (b"a", b""), (b"bc", b"d")]);
    }

    #[test]
    fn only_blocks_that_leave_the_table_as_it_was_are_remembered() {
        let mut heads = Heads::new(4096);
        let status_200 = [0x88];
        let indexed_from_now_on = [0x88, 0x40, 1, b'a', 1, b'b'];
        heads.read(&indexed_from_now_on, false).unwrap();
        let generation = heads.decoder.generation();
        assert!(heads.cache.find(&indexed_from_now_on, generation).is_none());
        heads.read(&status_200, false).unwrap();
        assert_eq!(heads.cache.find(&status_200, generation).map(|seen| seen.status), Some(200));
        heads.read(&indexed_from_now_on, false).unwrap();
        assert!(
            heads.cache.find(&status_200, heads.decoder.generation()).is_none(),
            "the table has changed"
        );
    }
}
