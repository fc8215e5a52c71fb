//! Lengths of time for people who wait.

use std::time::Duration;

/// Minutes and seconds.
pub fn clock(time: Duration) -> String {
    let s = time.as_secs();
    if s >= 60 { format!("{} min {:02} s", s / 60, s % 60) } else { format!("{s} s") }
}
