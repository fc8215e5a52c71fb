//! A map of the open streams of a connection, by identifier.
//!
//! Every frame needs a lookup, so a lookup is an index computation and not a search.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

/// The key of an open stream. A connection uses each identifier once (RFC 9113 §5.1.1), so the key
/// of a removed stream never refers to another stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamKey {
    id: u32,
}

/// A map from stream identifiers to values.
///
/// Identifiers rise by two, and the identifiers of open streams are nearly always neighbours. The
/// identifier therefore determines the entry in a ring, whose length is at least twice the number
/// of open streams. If a stream's entry is occupied by an older stream, the new stream is stored in
/// `overflow`.
#[derive(Debug)]
pub struct StreamMap<S> {
    /// Ring buffer; its length is a power of two.
    ring: Box<[Option<Entry<S>>]>,
    /// Open streams whose entry in the ring is occupied by another stream, by identifier.
    overflow: BTreeMap<u32, S>,
    len: usize,
}

#[derive(Debug)]
struct Entry<S> {
    id: u32,
    stream: S,
}

impl<S> Default for StreamMap<S> {
    fn default() -> Self {
        StreamMap { ring: Self::empty_ring(4), overflow: BTreeMap::new(), len: 0 }
    }
}

impl<S> StreamMap<S> {
    /// Allocates space for this many open streams, so that opening them allocates nothing.
    pub fn reserve(&mut self, streams: usize) {
        if streams * 2 > self.ring.len() {
            self.grow((streams * 2).next_power_of_two());
        }
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Adds a stream. `id` must not be in the map.
    #[inline]
    pub fn insert(&mut self, id: u32, stream: S) -> StreamKey {
        self.len += 1;
        self.reserve(self.len);
        let entry = &mut self.ring[ring_index(id, self.ring.len())];
        if entry.is_none() {
            *entry = Some(Entry { id, stream });
        } else {
            self.overflow.insert(id, stream);
        }
        StreamKey { id }
    }

    #[inline]
    #[must_use]
    pub fn find(&self, id: u32) -> Option<StreamKey> {
        self.try_get(id).map(|_| StreamKey { id })
    }

    #[inline]
    pub fn find_mut(&mut self, id: u32) -> Option<(StreamKey, &mut S)> {
        let key = StreamKey { id };
        self.try_get_mut(key).map(|stream| (key, stream))
    }

    /// # Panics
    /// If the stream has been removed.
    #[inline]
    pub fn get_mut(&mut self, key: StreamKey) -> &mut S {
        self.try_get_mut(key).expect("the stream of a key should be open")
    }

    /// # Panics
    /// If the stream has been removed.
    #[inline]
    #[must_use]
    pub fn get(&self, key: StreamKey) -> &S {
        self.try_get(key.id).expect("the stream of a key should be open")
    }

    /// # Panics
    /// If the stream has been removed.
    pub fn take(&mut self, key: StreamKey) -> S {
        self.remove(key.id).expect("the stream of a key should be open")
    }

    /// Removes a stream without returning it, which costs less than [`take`](Self::take).
    ///
    /// # Panics
    /// If the stream has been removed.
    #[inline]
    pub fn discard(&mut self, key: StreamKey) {
        let entry = &mut self.ring[ring_index(key.id, self.ring.len())];
        match entry {
            Some(Entry { id, .. }) if *id == key.id => {
                *entry = None;
                self.len -= 1;
            }
            _ => drop(self.take(key)),
        }
    }

    pub fn remove(&mut self, id: u32) -> Option<S> {
        let entry = &mut self.ring[ring_index(id, self.ring.len())];
        let from_ring = entry.take_if(|entry| entry.id == id);
        let stream = from_ring.map(|entry| entry.stream).or_else(|| self.overflow.remove(&id));
        self.len -= usize::from(stream.is_some());
        stream
    }

    /// Returns the stream; `None`: it has been removed.
    #[inline]
    pub fn try_get_mut(&mut self, key: StreamKey) -> Option<&mut S> {
        match &mut self.ring[ring_index(key.id, self.ring.len())] {
            Some(entry) if entry.id == key.id => Some(&mut entry.stream),
            _ => self.overflow.get_mut(&key.id),
        }
    }

    /// Returns all streams, in arbitrary order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (StreamKey, &mut S)> {
        let entries = self
            .ring
            .iter_mut()
            .flatten()
            .map(|entry| (StreamKey { id: entry.id }, &mut entry.stream));
        entries.chain(self.overflow.iter_mut().map(|(id, stream)| (StreamKey { id: *id }, stream)))
    }

    /// Returns all streams, in arbitrary order.
    pub fn iter(&self) -> impl Iterator<Item = (StreamKey, &S)> {
        let entries =
            self.ring.iter().flatten().map(|entry| (StreamKey { id: entry.id }, &entry.stream));
        entries.chain(self.overflow.iter().map(|(id, stream)| (StreamKey { id: *id }, stream)))
    }

    #[inline]
    fn try_get(&self, id: u32) -> Option<&S> {
        match &self.ring[ring_index(id, self.ring.len())] {
            Some(entry) if entry.id == id => Some(&entry.stream),
            _ => self.overflow.get(&id),
        }
    }

    #[cold]
    fn grow(&mut self, entries: usize) {
        let old = core::mem::replace(&mut self.ring, Self::empty_ring(entries));
        for entry in old.into_iter().flatten() {
            // Two streams with different entries in the shorter ring have different entries in the
            // longer ring, because the longer length is a multiple of the shorter length.
            let index = ring_index(entry.id, entries);
            self.ring[index] = Some(entry);
        }
    }

    fn empty_ring(entries: usize) -> Box<[Option<Entry<S>>]> {
        core::iter::repeat_with(|| None).take(entries).collect()
    }
}

#[inline]
const fn ring_index(id: u32, entries: usize) -> usize {
    (id as usize >> 1) & (entries - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn find_stream_zero_returns_none() {
        let mut streams = StreamMap::default();
        streams.insert(1, ());
        assert_eq!((streams.find(0), streams.remove(0)), (None, None));
        assert_eq!(streams.len(), 1);
    }

    #[test]
    fn key_of_removed_stream_finds_nothing() {
        let mut streams = StreamMap::default();
        let first = streams.insert(1, 'a');
        assert_eq!(streams.remove(1), Some('a'));
        assert_eq!(streams.try_get_mut(first), None);
        let second = streams.insert(9, 'b');
        assert_eq!(streams.try_get_mut(first), None, "another stream has its entry");
        assert_eq!(streams.try_get_mut(second), Some(&mut 'b'));
    }

    #[test]
    fn old_stream_keeps_entry_and_ring_stays_small() {
        let mut streams = StreamMap::default();
        let old = streams.insert(1, 0);
        for id in (3..999).step_by(2) {
            let key = streams.insert(id, id);
            assert_eq!((*streams.get(old), *streams.get(key), streams.len()), (0, id, 2));
            assert_eq!(streams.remove(id), Some(id));
        }
        assert_eq!(streams.ring.len(), 4, "the length depends on the open streams only");
    }

    #[test]
    fn neighbours_do_not_overflow_and_reserve_grows_once() {
        let mut streams = StreamMap::default();
        for open in 1..=100usize {
            streams.insert(2 * open as u32 - 1, ());
            assert!(streams.overflow.is_empty() && streams.ring.len() >= 2 * open, "{open}");
        }
        let mut reserved: StreamMap<()> = StreamMap::default();
        for (count, entries) in [(1, 4), (2, 4), (3, 8), (64, 128), (65, 256), (10, 256)] {
            reserved.reserve(count);
            assert_eq!(reserved.ring.len(), entries, "{count}");
        }
    }

    proptest! {
        #[test]
        fn stream_map_equals_btree_map(
            steps in proptest::collection::vec((any::<bool>(), 0u32..200), 1..400),
        ) {
            let mut streams = StreamMap::default();
            let mut reference = BTreeMap::new();
            for (adds, n) in steps {
                // Identifiers that lie far apart share entries.
                let id = 1 + 2 * (n % 50) + 1024 * (n / 50);
                if adds && !reference.contains_key(&id) {
                    let key = streams.insert(id, n);
                    prop_assert_eq!(*streams.get(key), n);
                    reference.insert(id, n);
                } else if !adds {
                    prop_assert_eq!(streams.remove(id), reference.remove(&id));
                }
                prop_assert_eq!(streams.len(), reference.len());
                for (id, n) in &reference {
                    let key = streams.find(*id).unwrap();
                    prop_assert_eq!(streams.get_mut(key), n);
                }
            }
            let mut values: Vec<u32> = streams.iter().map(|(_, n)| *n).collect();
            values.sort_unstable();
            let mut expected: Vec<u32> = reference.values().copied().collect();
            expected.sort_unstable();
            prop_assert_eq!(values, expected);
        }
    }
}
