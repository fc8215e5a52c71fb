//! A pool of receive buffers in a ring that the driver shares with the kernel. One pool serves all
//! connections, so idle connections need no buffer.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types;

use crate::limits;

/// Receive buffers that a ring shares with the kernel (`IORING_REGISTER_PBUF_RING`).
#[derive(Debug)]
pub(super) struct Buffers {
    pub(super) ring: *mut types::BufRingEntry,
    memory: *mut u8,
    pub(super) count: u16,
    tail: u16,
}

impl Buffers {
    /// Creates the buffers. `count` must be a power of two.
    pub(super) fn new(count: u16) -> Buffers {
        let (ring_layout, memory_layout) = Self::layouts(count);
        // SAFETY: neither layout is of size zero.
        let (ring, memory) = unsafe { (alloc_zeroed(ring_layout), alloc_zeroed(memory_layout)) };
        if ring.is_null() || memory.is_null() {
            handle_alloc_error(memory_layout);
        }
        let mut buffers = Buffers { ring: ring.cast(), memory, count, tail: 0 };
        (0..count).for_each(|id| buffers.release(id));
        buffers
    }

    fn layouts(count: u16) -> (Layout, Layout) {
        const PAGE: usize = 4096;
        let count = usize::from(count);
        let layout =
            |bytes| Layout::from_size_align(bytes, PAGE).expect("the size should be small");
        (layout(count * size_of::<types::BufRingEntry>()), layout(count * limits::BUFFER_BYTES))
    }

    fn address(&self, id: u16) -> *mut u8 {
        // SAFETY: ids are below `count`, for which the memory was allocated.
        unsafe { self.memory.add(usize::from(id) * limits::BUFFER_BYTES) }
    }

    pub(super) fn get(&mut self, id: u16, len: usize) -> &mut [u8] {
        assert!(id < self.count && len <= limits::BUFFER_BYTES);
        // SAFETY: the kernel has filled `len` bytes of this buffer and does not touch it until it
        // is released.
        unsafe { std::slice::from_raw_parts_mut(self.address(id), len) }
    }

    pub(super) fn release(&mut self, id: u16) {
        let index = self.tail & (self.count - 1);
        // SAFETY: the index is below `count`, and the kernel reads an entry only after the tail has
        // passed it.
        unsafe {
            let entry = &mut *self.ring.add(usize::from(index));
            entry.set_addr(self.address(id) as u64);
            entry.set_len(limits::BUFFER_BYTES as u32);
            entry.set_bid(id);
            self.tail = self.tail.wrapping_add(1);
            let tail = types::BufRingEntry::tail(self.ring).cast::<AtomicU16>();
            (*tail).store(self.tail, Ordering::Release);
        }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        let (ring_layout, memory_layout) = Self::layouts(self.count);
        // SAFETY: `new` allocated both with these layouts, and the driver's drop has unregistered
        // the ring.
        unsafe {
            dealloc(self.ring.cast(), ring_layout);
            dealloc(self.memory, memory_layout);
        }
    }
}
