//! Detects packets that the machine dropped while a server seemed to fail. In that case the machine
//! is reported as the cause, not the server.

use dyno_analysis::drops::{DropExplanation, MachineDrops, connect_timeouts};
use dyno_model::LoadRecord;
use dyno_model::drops::PathUse;
use dyno_model::start::{Failure, FailureKind};
use dyno_observer::{Files, path, tracking};

/// Counters of dropped packets, read when an operation begins.
#[derive(Clone, Copy, Debug)]
pub struct DropWatch {
    /// Reads the counters now.
    read: fn() -> PathUse,
    began: PathUse,
    /// Packets dropped during the load before the operation, from the record of that load. No drops
    /// if the operation does not follow a load.
    earlier: MachineDrops,
    /// Attempts to connect that timed out before the operation.
    earlier_timeouts: u64,
}

impl DropWatch {
    /// Begins a watch of this machine.
    pub(crate) fn begin() -> DropWatch {
        DropWatch::with_counters(read)
    }

    /// Begins a watch of a machine with these counters.
    pub fn with_counters(read: fn() -> PathUse) -> DropWatch {
        let began = read();
        DropWatch { read, began, earlier: MachineDrops::default(), earlier_timeouts: 0 }
    }

    /// Returns a watch that began after a load, with the drops in the record of the load.
    pub(crate) fn after_load(self, record: &LoadRecord) -> DropWatch {
        DropWatch {
            earlier: MachineDrops::from_load(record).unwrap_or_default(),
            earlier_timeouts: connect_timeouts(record),
            ..self
        }
    }

    /// Returns the growth of the counters since they were read.
    pub(crate) fn growth(self) -> PathUse {
        (self.read)().growth_since(self.began)
    }

    /// Returns the failure of a server. If the server may have waited for dropped packets, and the
    /// machine has dropped packets since the counters were read, returns a failure of the machine.
    pub(crate) fn explain(self, failure: Failure) -> Failure {
        match is_unresponsive(failure.kind) {
            true => self.explain_silence(failure),
            false => failure,
        }
    }

    /// Returns the failure of a part (a server or back end) that runs and does not respond. If the
    /// machine has dropped packets, returns a failure of the machine.
    pub(crate) fn explain_silence(self, failure: Failure) -> Failure {
        explain_silence(self.explanation(), failure)
    }

    /// Returns the packets that the machine dropped since the counters were read, as a sentence
    /// without its full stop. `None`: the machine dropped nothing.
    pub(crate) fn cause_text(self) -> Option<String> {
        self.explanation().map(|explained| machine_text(&explained.causes))
    }

    /// Returns the drops since the counters were read. If there were none, returns the drops of
    /// the earlier load.
    fn explanation(self) -> Option<DropExplanation> {
        // A failure does not show whether a connection timed out, so dyno tests a connection to
        // itself.
        let test_timeouts = || u64::from(tracking::is_connect_dropped());
        let earlier = || self.earlier.explanation_with(self.earlier_timeouts);
        self.explanation_with(test_timeouts).or_else(earlier)
    }

    /// Returns the drops since the counters were read. `connect_timeouts` returns the number of
    /// attempts to connect that timed out in this time. It is called only if the connection
    /// tracking table is full and its counters cannot be read.
    pub(crate) fn explanation_with(
        self,
        connect_timeouts: impl FnOnce() -> u64,
    ) -> Option<DropExplanation> {
        let drops = MachineDrops::from_path(&self.growth());
        let timeouts = if drops.is_tracking_suspected() { connect_timeouts() } else { 0 };
        drops.explanation_with(timeouts)
    }
}

fn read() -> PathUse {
    path::counters(&Files::with_limit(0))
}

/// Returns whether a server that failed in this way may have waited for dropped packets. A server
/// that exited or gave an incorrect response failed by itself. `BackendFailed` is not included,
/// because a failed back end may have exited.
const fn is_unresponsive(kind: FailureKind) -> bool {
    matches!(kind, FailureKind::NeverReady | FailureKind::Deaf | FailureKind::DataFailed)
}

/// Returns the failure of a part that does not respond. If the machine dropped packets, returns a
/// failure of the machine. An interrupt, or a failure of the machine, is unchanged.
fn explain_silence(drops: Option<DropExplanation>, failure: Failure) -> Failure {
    let is_failure_of_part =
        !matches!(failure.kind, FailureKind::Harness | FailureKind::Interrupted);
    let Some(explained) = drops.filter(|_| is_failure_of_part) else { return failure };
    let message = format!(
        "{}. The server {}: {}\nhint: {}",
        machine_text(&explained.causes),
        failure.kind.name(),
        failure.message,
        explained.remedies
    );
    Failure { kind: FailureKind::Harness, message }
}

fn machine_text(causes: &str) -> String {
    format!("the machine dropped packets: {causes}")
}

#[cfg(test)]
impl DropWatch {
    /// Returns a watch that shows this number of packets dropped by connection tracking.
    pub(crate) fn with_tracking_drops(dropped: u64) -> DropWatch {
        let earlier = MachineDrops { tracking: Some(dropped), ..MachineDrops::default() };
        DropWatch { earlier, ..DropWatch::begin() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: FailureKind) -> Failure {
        Failure { kind, message: "by its deadline, connections to port 7 timed out".into() }
    }

    const DROPS: MachineDrops = MachineDrops {
        tracking: Some(3),
        tracking_evictions: None,
        tracking_entries: Some(64),
        max_tracking_entries: Some(64),
        backlog: None,
        neighbours: None,
        tcp_memory: None,
        tcp_memory_pages: None,
        tcp_memory_max_pages: None,
    };

    #[test]
    fn silence_during_drops_is_machine_failure() {
        let explain = |kind| explain_silence(DROPS.explanation(), failure(kind));
        let explained = explain(FailureKind::NeverReady);
        assert_eq!(explained.kind, FailureKind::Harness);
        assert!(!explained.kind.is_caused_by_subject());
        let begin = "the machine dropped packets: 3 by connection tracking, with 64 of 64 table \
                     entries in use. The server did not become ready: by its deadline, connections \
                     to port 7 timed out\nhint: ";
        assert!(explained.message.starts_with(begin), "{}", explained.message);
        for kind in [FailureKind::Deaf, FailureKind::DataFailed, FailureKind::BackendFailed] {
            assert_eq!(explain(kind).kind, FailureKind::Harness);
        }
    }

    #[test]
    fn silence_without_drops_is_unchanged() {
        let never = failure(FailureKind::NeverReady);
        assert_eq!(explain_silence(None, never.clone()), never);
        let full = MachineDrops { tracking: Some(0), ..DROPS };
        assert_eq!(full.explanation(), None, "nothing was dropped yet");
        for kind in [FailureKind::Harness, FailureKind::Interrupted] {
            assert_eq!(explain_silence(DROPS.explanation(), failure(kind)), failure(kind));
        }
    }

    #[test]
    fn exit_and_incorrect_response_are_unchanged_by_drops() {
        let watch = DropWatch { earlier: DROPS, ..DropWatch::begin() };
        assert_eq!(watch.explain(failure(FailureKind::Deaf)).kind, FailureKind::Harness);
        for kind in [
            FailureKind::Crashed,
            FailureKind::OutOfMemory,
            FailureKind::IncorrectResponses,
            FailureKind::NotStarted,
            FailureKind::BackendFailed,
            FailureKind::Interrupted,
        ] {
            assert_eq!(watch.explain(failure(kind)), failure(kind));
        }
    }
}
