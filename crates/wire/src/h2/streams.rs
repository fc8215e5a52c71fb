//! The open streams of a connection, found by their identifier.

use alloc::boxed::Box;
use alloc::vec::Vec;

/// Where a stream is kept while it is open. Once it has been removed the key stands for nothing, also when another stream
/// takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    place: u32,
    id: u32,
}

/// A map from stream identifiers to values.
///
/// A client's identifiers rise by two, and those that are open at once are neighbours; a hash spreads them out.
#[derive(Debug)]
pub struct Streams<S> {
    /// Open addressing with linear probing: identifier and place, or an identifier of 0.
    index: Box<[(u32, u32)]>,
    places: Vec<Place<S>>,
    free: Vec<u32>,
    len: usize,
}

#[derive(Debug)]
struct Place<S> {
    /// Whose it is, or was.
    id: u32,
    stream: Option<S>,
}

impl<S> Default for Streams<S> {
    fn default() -> Self {
        Streams { index: Box::new([(0, 0); 16]), places: Vec::new(), free: Vec::new(), len: 0 }
    }
}

impl<S> Streams<S> {
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Adds a stream. `id` must not be 0 and not be there already.
    #[inline]
    pub fn insert(&mut self, id: u32, stream: S) -> Key {
        // At most a quarter full, so that a search ends after a step or two.
        if (self.len + 1) * 4 > self.index.len() {
            self.grow();
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { id: 0, stream: None });
            (self.places.len() - 1) as u32
        });
        self.places[place as usize] = Place { id, stream: Some(stream) };
        self.enter(id, place);
        self.len += 1;
        Key { place, id }
    }

    #[inline]
    #[must_use]
    pub fn find(&self, id: u32) -> Option<Key> {
        let mut at = self.home(id);
        loop {
            match self.index[at] {
                (0, _) => return None,
                (found, place) if found == id => return Some(Key { place, id }),
                _ => at = (at + 1) & (self.index.len() - 1),
            }
        }
    }

    /// # Panics
    /// If the stream has been removed.
    #[inline]
    pub fn get_mut(&mut self, key: Key) -> &mut S {
        self.try_get_mut(key).expect("a key is used while its stream is open")
    }

    /// # Panics
    /// If the stream has been removed.
    #[inline]
    #[must_use]
    pub fn get(&self, key: Key) -> &S {
        let place = self.places.get(key.place as usize).filter(|place| place.id == key.id);
        place.and_then(|place| place.stream.as_ref()).expect("a key is used while its stream is open")
    }

    #[inline]
    pub fn remove(&mut self, id: u32) -> Option<S> {
        let mut at = self.home(id);
        let place = loop {
            match self.index[at] {
                (0, _) => return None,
                (found, place) if found == id => break place,
                _ => at = (at + 1) & (self.index.len() - 1),
            }
        };
        self.close_gap(at);
        self.free.push(place);
        self.len -= 1;
        self.places[place as usize].stream.take()
    }

    /// The stream, unless it has been removed.
    #[inline]
    pub fn try_get_mut(&mut self, key: Key) -> Option<&mut S> {
        self.places.get_mut(key.place as usize).filter(|place| place.id == key.id)?.stream.as_mut()
    }

    /// All of them, in no order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut S)> {
        let places = self.places.iter_mut().enumerate();
        places.filter_map(|(i, place)| Some((Key { place: i as u32, id: place.id }, place.stream.as_mut()?)))
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &S)> {
        let places = self.places.iter().enumerate();
        places.filter_map(|(i, place)| Some((Key { place: i as u32, id: place.id }, place.stream.as_ref()?)))
    }

    #[inline]
    fn home(&self, id: u32) -> usize {
        // Multiplied by 2³² over the golden ratio, its upper bits taken (Knuth, The Art of Computer Programming 6.4): without
        // it neighbours would stand side by side, and to remove one would mean to look at all of them.
        (id.wrapping_mul(0x9E37_79B9) >> (32 - self.index.len().trailing_zeros())) as usize
    }

    fn enter(&mut self, id: u32, place: u32) {
        let mut at = self.home(id);
        while self.index[at].0 != 0 {
            at = (at + 1) & (self.index.len() - 1);
        }
        self.index[at] = (id, place);
    }

    /// Moves later entries of the same run back, so that searches need no tombstones.
    fn close_gap(&mut self, mut gap: usize) {
        let mask = self.index.len() - 1;
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            let (id, _) = self.index[at];
            if id == 0 {
                break;
            }
            // How far the entry is from its home, and from the gap: it may move if its home is not between the two.
            if (at.wrapping_sub(self.home(id)) & mask) >= (at.wrapping_sub(gap) & mask) {
                self.index[gap] = self.index[at];
                gap = at;
            }
        }
        self.index[gap] = (0, 0);
    }

    fn grow(&mut self) {
        let bigger = alloc::vec![(0, 0); self.index.len() * 2].into_boxed_slice();
        let old = core::mem::replace(&mut self.index, bigger);
        for &(id, place) in old.iter().filter(|(id, _)| *id != 0) {
            self.enter(id, place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    #[test]
    fn the_connection_itself_is_no_stream() {
        let mut streams = Streams::default();
        streams.insert(1, ());
        assert_eq!((streams.find(0), streams.remove(0)), (None, None));
        assert_eq!(streams.len(), 1);
    }

    #[test]
    fn a_key_stands_for_its_stream_alone() {
        let mut streams = Streams::default();
        let first = streams.insert(1, 'a');
        assert_eq!(streams.remove(1), Some('a'));
        assert_eq!(streams.try_get_mut(first), None);
        let second = streams.insert(3, 'b');
        assert_eq!(streams.try_get_mut(first), None, "another stream has its place");
        assert_eq!(streams.try_get_mut(second), Some(&mut 'b'));
    }

    proptest! {
        #[test]
        fn it_holds_what_a_map_holds(steps in proptest::collection::vec((any::<bool>(), 0u32..200), 1..400)) {
            let mut streams = Streams::default();
            let mut truth = BTreeMap::new();
            for (adds, n) in steps {
                // Identifiers that lie far apart share homes.
                let id = 1 + 2 * (n % 50) + 1024 * (n / 50);
                if adds && !truth.contains_key(&id) {
                    let key = streams.insert(id, n);
                    prop_assert_eq!(*streams.get(key), n);
                    truth.insert(id, n);
                } else if !adds {
                    prop_assert_eq!(streams.remove(id), truth.remove(&id));
                }
                prop_assert_eq!(streams.len(), truth.len());
                for (id, n) in &truth {
                    let key = streams.find(*id).unwrap();
                    prop_assert_eq!(streams.get_mut(key), n);
                }
            }
            let mut all: Vec<u32> = streams.iter().map(|(_, n)| *n).collect();
            all.sort_unstable();
            let mut expected: Vec<u32> = truth.values().copied().collect();
            expected.sort_unstable();
            prop_assert_eq!(all, expected);
        }
    }
}
