//! Encodes requests as header blocks, once for many connections.
//!
//! HPACK's table belongs to a connection, so the entries that a block may refer to depend on the
//! earlier blocks of its connection. Requests are therefore compiled in three forms. The first
//! request of a connection inserts the fields that all requests of a load share into the peer's
//! table, always in the same order. Later requests refer to these entries. All other fields are
//! literals that are not indexed, so the table never changes again.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::hpack::encode as hpack;
use super::hpack::encode::Indexing;
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
    /// A block for a peer whose table is too small for the shared fields: it does not use the
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
    /// The fields that all `requests` have, that are not in the static table, and that fit into a
    /// dynamic table of 4,096 bytes. Each request is a list of fields, names in lower case.
    #[must_use]
    pub fn from_requests(requests: &[Vec<(Vec<u8>, Vec<u8>)>]) -> SharedFields {
        let Some((first, others)) = requests.split_first() else { return SharedFields::default() };
        let has_unique_name = |name: &[u8], request: &Vec<(Vec<u8>, Vec<u8>)>| {
            // Fields of the same name must keep their order, so none of them is moved.
            request.iter().filter(|(n, _)| n == name).count() == 1
        };
        let mut shared = SharedFields::default();
        for field in first {
            let is_shared = others
                .iter()
                .all(|other| other.contains(field) && has_unique_name(&field.0, other));
            if is_shared
                && has_unique_name(&field.0, first)
                && !hpack::is_static(&field.0, &field.1)
                && shared.table_bytes() + entry_bytes(field) <= limits::ENCODER_TABLE_BYTES
            {
                shared.fields.push(field.clone());
            }
        }
        shared
    }

    /// Bytes of the peer's table that the shared fields take (RFC 7541 §4.1).
    #[must_use]
    pub fn table_bytes(&self) -> u32 {
        self.fields.iter().map(entry_bytes).sum()
    }

    /// The index of a shared field once all are in the table: the last one inserted has the lowest
    /// (RFC 7541 §2.3.3).
    fn index(&self, field: &(Vec<u8>, Vec<u8>)) -> Option<usize> {
        let position = self.fields.iter().position(|f| f == field)?;
        Some(STATIC_ENTRIES + self.fields.len() - position)
    }

    /// Encodes fields, names in lower case, pseudo-header fields first. Shared fields come before
    /// the others, in the order of `self`, so that every request fills the table in the same way.
    #[must_use]
    pub fn encode(&self, fields: &[(Vec<u8>, Vec<u8>)]) -> EncodedBlock {
        let (mut first, mut later, mut plain) = (Vec::new(), Vec::new(), Vec::new());
        let is_pseudo = |field: &&(Vec<u8>, Vec<u8>)| field.0.first() == Some(&b':');
        let is_shared = |field: &&(Vec<u8>, Vec<u8>)| self.fields.contains(field);
        let select = |pseudo: bool, shared: bool| {
            let other_fields =
                fields.iter().filter(move |f| !shared && is_pseudo(f) == pseudo && !is_shared(f));
            let shared_fields = self
                .fields
                .iter()
                .filter(move |f| shared && is_pseudo(f) == pseudo && fields.contains(f));
            other_fields.chain(shared_fields)
        };
        for field in select(true, true)
            .chain(select(true, false))
            .chain(select(false, true))
            .chain(select(false, false))
        {
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
    // The value is irrelevant: only the index of the name is used.
    let (_, index) = hpack::static_index(name, b"\0");
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
    /// The smallest and the last size that the peer has allowed since the last block. The next
    /// block begins with updates to both (RFC 7541 §4.2). `None`: the size has not changed.
    update: Option<(u32, u32)>,
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
            // Only the last value applies from now on, but the smallest has evicted entries.
            self.apply_size(smallest);
            self.apply_size(peer.header_table_size);
        }
    }

    /// Applies a table size that the peer has announced, bytes.
    pub(super) fn apply_size(&mut self, announced: u32) {
        let size = announced.min(limits::ENCODER_TABLE_BYTES);
        let now = self.update.map_or(self.size, |(_, last)| last);
        if size == now {
            return;
        }
        let smallest = self.update.map_or(size, |(smallest, _)| smallest.min(size));
        self.update = Some((smallest, size));
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
        let Some((smallest, last)) = self.update.take() else { return block };
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
