//! Tracks flow-control windows: the number of bytes that each side may still send (RFC 9113 §5.2,
//! §6.9).

/// The largest window that is allowed (§6.9.1).
const MAX_WINDOW: i64 = i32::MAX as i64;

/// Bytes that this side may still send. A change of SETTINGS can make the number negative (§6.9.2).
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

    /// Subtracts bytes that were sent.
    pub const fn take(&mut self, bytes: usize) {
        self.0 -= bytes as i64;
    }

    /// Applies a WINDOW_UPDATE, or a change of the initial size. `false`: the window became too
    /// large.
    #[must_use]
    pub const fn change(&mut self, difference: i64) -> bool {
        self.0 += difference;
        self.0 <= MAX_WINDOW
    }
}

/// The bytes that the peer may send.
///
/// The window is raised again once half of it has been used. Usually the peer then gets the
/// WINDOW_UPDATE before the rest is used. One window of data costs at most two WINDOW_UPDATEs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveWindow {
    /// The size to which the window is raised, bytes.
    size: i64,
    /// Bytes that were announced to the peer, but that the peer has not sent.
    left: i64,
}

impl ReceiveWindow {
    /// Creates a window of `size` bytes. `announced`: the size of the window that the peer knows.
    #[must_use]
    pub const fn new(size: u32, announced: u32) -> ReceiveWindow {
        ReceiveWindow { size: size as i64, left: announced as i64 }
    }

    /// Subtracts received bytes. `false`: the peer sent more than the window allowed.
    #[inline]
    #[must_use]
    pub const fn take(&mut self, bytes: u32) -> bool {
        self.left -= bytes as i64;
        self.left >= 0
    }

    /// Returns the increment of the WINDOW_UPDATE to send now; 0: no WINDOW_UPDATE is needed yet.
    #[inline]
    pub const fn take_increment(&mut self) -> u32 {
        let missing = self.size - self.left;
        let is_half_used = missing * 2 >= self.size;
        if missing < 1 || !is_half_used {
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
    fn receive_window_at_half_is_raised() {
        let mut window = ReceiveWindow::new(1000, 1000);
        assert!(window.take(499));
        assert_eq!(window.take_increment(), 0);
        assert!(window.take(1));
        assert_eq!(window.take_increment(), 500);
        assert!(window.take(1000));
        assert!(!window.take(1));
    }

    #[test]
    fn receive_window_needs_two_updates_per_size() {
        for size in 1..200 {
            let (mut window, mut updates) = (ReceiveWindow::new(size, size), 0);
            for _ in 0..size * 100 {
                assert!(window.take(1), "the window is empty");
                updates += u32::from(window.take_increment() > 0);
            }
            assert!(updates <= 200, "{updates} updates of {size} bytes");
        }
    }

    #[test]
    fn receive_window_above_size_is_not_raised() {
        // Every connection begins with 65,535 (§6.9.2).
        let mut window = ReceiveWindow::new(1023, 65_535);
        assert!(window.take(64_512));
        assert_eq!(window.take_increment(), 0);
        assert!(window.take(600));
        assert_eq!(window.take_increment(), 600);
    }

    #[test]
    fn send_window_negative_allowed_overflow_reported() {
        let mut window = SendWindow::new(10);
        window.take(10);
        assert!(window.change(-5));
        assert_eq!(window.room(), 0);
        assert!(window.change(6));
        assert_eq!(window.room(), 1);
        assert!(window.change(MAX_WINDOW - 1));
        assert!(!window.change(1));
    }
}
