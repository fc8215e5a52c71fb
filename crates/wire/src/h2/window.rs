//! Flow-control windows (RFC 9113 §5.2, §6.9).

/// The largest window there may be (§6.9.1).
const MOST: i64 = i32::MAX as i64;

/// Bytes that we may still send. A change of SETTINGS can make the number negative (§6.9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendWindow(i64);

impl SendWindow {
    #[must_use]
    pub const fn new(size: u32) -> SendWindow {
        SendWindow(size as i64)
    }

    /// Bytes that may leave now.
    #[inline]
    #[must_use]
    pub const fn room(self) -> usize {
        if self.0 > 0 { self.0 as usize } else { 0 }
    }

    pub const fn take(&mut self, bytes: usize) {
        self.0 -= bytes as i64;
    }

    /// Applies a WINDOW_UPDATE, or a change of the initial size. `false`: the window would become
    /// too large.
    #[must_use]
    pub const fn change(&mut self, by: i64) -> bool {
        self.0 += by;
        self.0 <= MOST
    }
}

/// The bytes that the peer may send. `size`: the size to which the window is raised. `left`: bytes
/// that were announced to the peer and that it has not sent.
///
/// Bytes that have been read are given back once they are half of the window: often enough that the
/// peer is never held up by our silence, and so seldom that there are at most two WINDOW_UPDATEs
/// for each window's worth of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveWindow {
    size: i64,
    left: i64,
}

impl ReceiveWindow {
    /// Creates a window of `size` bytes, of which `announced` bytes are known to the peer.
    #[must_use]
    pub const fn new(size: u32, announced: u32) -> ReceiveWindow {
        ReceiveWindow { size: size as i64, left: announced as i64 }
    }

    /// Takes `bytes` that came off the window. `false`: the peer sent more than it was allowed.
    #[inline]
    #[must_use]
    pub const fn take(&mut self, bytes: u32) -> bool {
        self.left -= bytes as i64;
        self.left >= 0
    }

    /// By how much to raise the window now; 0: not yet.
    #[inline]
    pub const fn give_back(&mut self) -> u32 {
        let missing = self.size - self.left;
        if missing < 1 || missing * 2 < self.size {
            return 0;
        }
        self.left = self.size;
        missing as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_a_window_is_given_back_at_once() {
        let mut window = ReceiveWindow::new(1000, 1000);
        assert!(window.take(499));
        assert_eq!(window.give_back(), 0);
        assert!(window.take(1));
        assert_eq!(window.give_back(), 500);
        assert!(window.take(1000));
        assert!(!window.take(1));
    }

    #[test]
    fn there_are_at_most_two_updates_per_window() {
        for size in 1..200 {
            let (mut window, mut updates) = (ReceiveWindow::new(size, size), 0);
            for _ in 0..size * 100 {
                assert!(window.take(1), "the peer is held up");
                updates += u32::from(window.give_back() > 0);
            }
            assert!(updates <= 200, "{updates} updates of {size} bytes");
        }
    }

    #[test]
    fn window_that_cannot_be_shrunk_is_not_refilled_above_its_size() {
        // Every connection begins with 65,535 (§6.9.2).
        let mut window = ReceiveWindow::new(1023, 65_535);
        assert!(window.take(64_512));
        assert_eq!(window.give_back(), 0);
        assert!(window.take(600));
        assert_eq!(window.give_back(), 600);
    }

    #[test]
    fn send_window_may_be_negative_and_not_too_large() {
        let mut window = SendWindow::new(10);
        window.take(10);
        assert!(window.change(-5));
        assert_eq!(window.room(), 0);
        assert!(window.change(6));
        assert_eq!(window.room(), 1);
        assert!(window.change(MOST - 1));
        assert!(!window.change(1));
    }
}
