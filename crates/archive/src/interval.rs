//! What the generator recorded, interval by interval.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::outcome::Outcomes;
use crate::times::Times;

/// The part of a trial an instant belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    Warmup,
    Measured,
    /// After the measured window: nothing new starts, what is in flight may still end.
    Drain,
}

/// The distributions kept for exchanges. What each means is defined in docs/terminology.md.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExchangeTimes {
    /// done − intended.
    pub response: Times,
    /// done − sent.
    pub service: Times,
    /// sent − intended.
    pub send_lag: Times,
    /// first byte − sent.
    pub first_byte: Times,
}

impl ExchangeTimes {
    pub fn add(&mut self, other: &ExchangeTimes) {
        self.response.add(&other.response);
        self.service.add(&other.service);
        self.send_lag.add(&other.send_lag);
        self.first_byte.add(&other.first_byte);
    }
}

/// What one worker, or all of them merged, saw between two instants.
///
/// An exchange belongs to the phase in which it was *intended* and to the interval in which it *ended*. The times
/// of an exchange that was intended in an earlier phase than the one it ended in are kept only if it was intended
/// in the measured window; it is counted in any case (`carried`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub phase: Phase,
    /// Nanoseconds since the load began.
    pub start_ns: u64,
    pub end_ns: u64,
    /// Exchanges of this phase (in `Drain`: of the measured window) that ended here.
    pub outcomes: Outcomes,
    /// Exchanges of an earlier phase that ended here; in `Drain`, those intended before the measured window.
    pub carried: Outcomes,
    pub started: u64,
    pub dropped: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub body_received: u64,
    /// ∫ exchanges in flight dt over the interval, in nanoseconds.
    pub in_flight_ns: u64,
    pub times: ExchangeTimes,
    pub connect: Times,
    pub tls_handshake: Times,
    /// How long the generator was busy in each of its turns.
    pub loop_lag: Times,
    /// How much later than asked each timed sleep ended.
    pub wake_lag: Times,
}

impl Interval {
    #[must_use]
    pub fn new(phase: Phase, start_ns: u64, end_ns: u64) -> Self {
        Interval {
            phase,
            start_ns,
            end_ns,
            outcomes: Outcomes::default(),
            carried: Outcomes::default(),
            started: 0,
            dropped: 0,
            bytes_sent: 0,
            bytes_received: 0,
            body_received: 0,
            in_flight_ns: 0,
            times: ExchangeTimes::default(),
            connect: Times::new(),
            tls_handshake: Times::new(),
            loop_lag: Times::new(),
            wake_lag: Times::new(),
        }
    }

    /// Adds what another worker saw in the same interval: the one of the same phase and start. The later end wins,
    /// because a load that ends with its last answer ends a little later on one worker than on another.
    pub fn merge(&mut self, other: &Interval) {
        assert_eq!((self.phase, self.start_ns), (other.phase, other.start_ns), "these are two intervals");
        self.end_ns = self.end_ns.max(other.end_ns);
        self.outcomes.add(&other.outcomes);
        self.carried.add(&other.carried);
        self.started += other.started;
        self.dropped += other.dropped;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.body_received += other.body_received;
        self.in_flight_ns += other.in_flight_ns;
        self.times.add(&other.times);
        self.connect.add(&other.connect);
        self.tls_handshake.add(&other.tls_handshake);
        self.loop_lag.add(&other.loop_lag);
        self.wake_lag.add(&other.wake_lag);
    }
}
