//! Encodes requests as header blocks, once for many connections.
//!
//! HPACK's table belongs to a connection, so the entries to which a block can refer depend on the
//! earlier blocks of its connection. Requests are therefore compiled in three forms
//! ([`BlockForm`]):
//!
//! - The first request of a connection inserts the fields that all requests of a load share into
//!   the peer's table, always in the same order.
//! - Later requests refer to these entries.
//! - If the peer's table is too small, requests do not use the table.
//!
//! All other fields are literals that are not indexed, so the table never changes again.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::hpack::encode as hpack;
use super::hpack::encode::{Indexing, PendingUpdate};
use super::limits;
use super::settings::{self, PeerSettings};

/// Length of the static table (RFC 7541 Appendix A): the first entry of the dynamic table has the
/// next index.
const STATIC_ENTRIES: usize = 61;

/// The form of a header block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockForm {
    /// The first block of a connection: it inserts the shared fields into the peer's table.
    First,
    /// A later block: it refers to the shared fields in the peer's table.
    Later,
    /// A block for a peer whose table is too small for the shared fields. It does not use the
    /// table.
    Plain,
}

/// A request's header block, or pieces of one, in each form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedBlock {
    /// In the form [`BlockForm::First`].
    pub first: Box<[u8]>,
    /// In the form [`BlockForm::Later`].
    pub later: Box<[u8]>,
    /// In the form [`BlockForm::Plain`].
    pub plain: Box<[u8]>,
    /// Bytes of the names and values.
    pub field_bytes: u32,
}

impl EncodedBlock {
    #[inline]
    #[must_use]
    pub fn form(&self, form: BlockForm) -> &[u8] {
        match form {
            BlockForm::First => &self.first,
            BlockForm::Later => &self.later,
            BlockForm::Plain => &self.plain,
        }
    }
}

/// The fields that all requests of a load share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedFields {
    fields: Vec<(Vec<u8>, Vec<u8>)>,
}

impl SharedFields {
    /// Returns the fields that all `requests` have, as far as they fit into a dynamic table of
    /// 4,096 bytes. Fields in the static table are not among them. Each request is a list of
    /// fields, names in lower case.
    #[must_use]
    pub fn from_requests(requests: &[Vec<(Vec<u8>, Vec<u8>)>]) -> SharedFields {
        let Some((first, others)) = requests.split_first() else { return SharedFields::default() };
        let mut shared = SharedFields::default();
        for field in first {
            let (name, value) = field;
            let is_shared = others.iter().all(|other| other.contains(field));
            // Fields of the same name must remain in order, so they are not moved.
            let is_movable = requests
                .iter()
                .all(|request| request.iter().filter(|(other, _)| other == name).count() == 1);
            let fits = shared.table_bytes() + entry_bytes(field) <= limits::ENCODER_TABLE_BYTES;
            if is_shared && is_movable && fits && !hpack::is_static(name, value) {
                shared.fields.push(field.clone());
            }
        }
        shared
    }

    /// Returns the bytes of the peer's table that the shared fields use (RFC 7541 §4.1).
    #[must_use]
    pub fn table_bytes(&self) -> u32 {
        self.fields.iter().map(entry_bytes).sum()
    }

    /// Returns the index of a shared field after all shared fields were inserted into the table.
    /// The last inserted field has the lowest index (RFC 7541 §2.3.3).
    fn index(&self, field: &(Vec<u8>, Vec<u8>)) -> Option<usize> {
        let position = self.fields.iter().position(|f| f == field)?;
        Some(STATIC_ENTRIES + self.fields.len() - position)
    }

    /// Encodes fields, names in lower case, pseudo-header fields first. Within each group, shared
    /// fields come before other fields, in the order of `self`. Every request therefore fills the
    /// table in the same way.
    #[must_use]
    pub fn encode(&self, fields: &[(Vec<u8>, Vec<u8>)]) -> EncodedBlock {
        let shared_fields = self.fields.iter().filter(|field| fields.contains(field));
        let other_fields = fields.iter().filter(|field| !self.fields.contains(field));
        let mut ordered: Vec<&(Vec<u8>, Vec<u8>)> = shared_fields.chain(other_fields).collect();
        // The sort is stable and puts pseudo-header fields first, because `false` is before `true`.
        ordered.sort_by_key(|(name, _)| name.first() != Some(&b':'));
        let (mut first, mut later, mut plain) = (Vec::new(), Vec::new(), Vec::new());
        for field in ordered {
            let (name, value) = field;
            hpack::put_field(name, value, Indexing::Without, &mut plain);
            if let Some(index) = self.index(field) {
                hpack::put_field(name, value, Indexing::Incremental, &mut first);
                hpack::put_indexed(index, &mut later);
            } else {
                hpack::put_field(name, value, Indexing::Without, &mut first);
                hpack::put_field(name, value, Indexing::Without, &mut later);
            }
        }
        let field_bytes =
            fields.iter().map(|(name, value)| (name.len() + value.len()) as u32).sum();
        EncodedBlock { first: first.into(), later: later.into(), plain: plain.into(), field_bytes }
    }
}

/// Appends the beginning of a literal field that is not indexed, up to its value (RFC 7541 §6.2.2).
pub fn put_name(name: &[u8], out: &mut Vec<u8>) {
    // Any value can be passed, because only the index of the name is used.
    let index = hpack::static_indexes(name, b"\0").named;
    hpack::put_int(4, 0, index.unwrap_or(0), out);
    if index.is_none() {
        hpack::put_string(name, out);
    }
}

/// Bytes of a field as an entry of a table (RFC 7541 §4.1).
fn entry_bytes(field: &(Vec<u8>, Vec<u8>)) -> u32 {
    (field.0.len() + field.1.len() + 32) as u32
}

/// One connection's use of the peer's table.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableUse {
    form: BlockForm,
    shared_bytes: u32,
    /// Size of the table in the peer's decoder, bytes.
    size: u32,
    /// Sizes that the peer has allowed since the last block; `None`: the size has not changed.
    update: Option<PendingUpdate>,
}

impl TableUse {
    pub(super) fn new(shared_bytes: u32) -> TableUse {
        TableUse {
            form: BlockForm::First,
            shared_bytes,
            size: limits::ENCODER_TABLE_BYTES,
            update: None,
        }
    }

    pub(super) const fn form(&self) -> BlockForm {
        self.form
    }

    /// Applies the table sizes in a SETTINGS frame. `peer`: the peer's settings after that frame.
    pub(super) fn apply_settings(&mut self, payload: &[u8], peer: &PeerSettings) {
        if let Some(smallest) = settings::smallest_table(payload) {
            // Only the last size applies from now on, but the smallest size has evicted entries.
            self.apply_size(smallest);
            self.apply_size(peer.header_table_size);
        }
    }

    /// Applies a table size that the peer has announced, bytes.
    pub(super) fn apply_size(&mut self, announced: u32) {
        let size = announced.min(limits::ENCODER_TABLE_BYTES);
        let current_size = self.update.map_or(self.size, |update| update.last);
        if size == current_size {
            return;
        }
        let smallest = self.update.map_or(size, |update| update.smallest.min(size));
        self.update = Some(PendingUpdate { smallest, last: size });
        if smallest < self.shared_bytes {
            // The shared entries are evicted. Inserting them again would cost more than it saves.
            self.form = BlockForm::Plain;
        }
    }

    /// Whether the next block must begin with size updates.
    pub(super) const fn has_pending_update(&self) -> bool {
        self.update.is_some()
    }

    /// Returns the bytes to send for `block`, which has the current form, after any pending size
    /// updates. `updated` is memory for updates and block.
    #[inline]
    pub(super) fn begin<'a>(&mut self, block: &'a [u8], updated: &'a mut Vec<u8>) -> &'a [u8] {
        if self.form == BlockForm::First {
            self.form = BlockForm::Later;
        }
        let Some(PendingUpdate { smallest, last }) = self.update.take() else { return block };
        if smallest < last {
            hpack::put_size_update(smallest, updated);
        }
        hpack::put_size_update(last, updated);
        self.size = last;
        updated.extend_from_slice(block);
        updated
    }
}

#[cfg(test)]
mod tests {
    use super::super::hpack::Decoder;
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    type List = Vec<(Vec<u8>, Vec<u8>)>;

    fn list(fields: &[(&str, &str)]) -> List {
        fields.iter().map(|(n, v)| (n.as_bytes().to_vec(), v.as_bytes().to_vec())).collect()
    }

    fn decode(decoder: &mut Decoder, block: &[u8]) -> List {
        let mut fields = Vec::new();
        decoder.decode(block, |n, v| fields.push((n.to_vec(), v.to_vec()))).unwrap();
        fields
    }

    fn sorted(mut list: List) -> List {
        list.sort();
        list
    }

    #[test]
    fn later_block_of_single_request_has_5_bytes() {
        let request = list(&[
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", "127.0.0.1:8080"),
            (":path", "/plaintext"),
            ("user-agent", "dyno"),
        ]);
        let shared = SharedFields::from_requests(core::slice::from_ref(&request));
        let block = shared.encode(&request);
        assert_eq!(block.later.len(), 5);
        let mut decoder = Decoder::new(4096);
        for bytes in [&block.first, &block.later, &block.later] {
            assert_eq!(sorted(decode(&mut decoder, bytes)), sorted(request.clone()));
        }
        assert_eq!(block.field_bytes, 7 + 3 + 7 + 4 + 10 + 14 + 5 + 10 + 10 + 4);
    }

    #[test]
    fn fields_with_same_name_keep_order() {
        let a = list(&[(":path", "/a"), ("cookie", "1"), ("x", "y"), ("cookie", "2")]);
        let b = list(&[(":path", "/b"), ("cookie", "2"), ("x", "y")]);
        let shared = SharedFields::from_requests(&[a.clone(), b]);
        assert_eq!(shared.fields, list(&[("x", "y")]));
        let fields = decode(&mut Decoder::new(4096), &shared.encode(&a).first);
        let cookies: Vec<_> =
            fields.iter().filter(|(n, _)| n == b"cookie").map(|(_, v)| v[0]).collect();
        assert_eq!(cookies, b"12");
    }

    proptest! {
        /// The peer decodes the fields of each request, for any mix and order of requests, and even
        /// if it changes the size of its table in between.
        #[test]
        fn every_form_decodes_to_fields_of_request(
            requests in proptest::collection::vec(
                proptest::collection::vec((0u8..4, 0u8..3), 0..5),
                1..4,
            ),
            sent in proptest::collection::vec((0usize..4, proptest::option::of(0u32..200)), 1..20),
        ) {
            let requests: Vec<List> = requests
                .into_iter()
                .map(|fields| {
                    let mut list = list(&[(":method", "GET"), (":path", "/path")]);
                    let field = |(n, v): (u8, u8)| (vec![b'a' + n], vec![b'0' + v; 20]);
                    list.extend(fields.into_iter().map(field));
                    list
                })
                .collect();
            let shared = SharedFields::from_requests(&requests);
            let blocks: Vec<EncodedBlock> =
                requests.iter().map(|request| shared.encode(request)).collect();
            let mut table = TableUse::new(shared.table_bytes());
            let mut decoder = Decoder::new(4096);
            for (index, size) in sent {
                let index = index % requests.len();
                if let Some(size) = size {
                    decoder.set_limit(size);
                    table.apply_size(size);
                }
                let mut updated = Vec::new();
                let block = table.begin(blocks[index].form(table.form()), &mut updated).to_vec();
                let decoded = sorted(decode(&mut decoder, &block));
                prop_assert_eq!(decoded, sorted(requests[index].clone()));
            }
        }
    }
}
