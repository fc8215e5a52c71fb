//! Formats durations for people who wait.

use std::time::Duration;

/// Formats a duration: `2 min 05 s`, or `59 s` below a minute. Fractions are cut off.
pub fn clock(time: Duration) -> String {
    let s = time.as_secs();
    if s >= 60 { format!("{} min {:02} s", s / 60, s % 60) } else { format!("{s} s") }
}
