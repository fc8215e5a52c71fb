//! Detects packets that the machine dropped while a server seemed to fail. The machine is then
//! reported as the cause.

use dyno_analysis::drops::MachineDrops;
use dyno_archive::drops::PathUse;
use dyno_archive::start::{Failure, FailureKind};
use dyno_observer::{Files, path};

/// Counters of dropped packets, read when an operation begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DropWatch(PathUse);

impl DropWatch {
    pub(crate) fn begin() -> DropWatch {
        DropWatch(read())
    }

    /// Returns the growth of the counters since they were read.
    pub(crate) fn growth(self) -> PathUse {
        read().growth_since(self.0)
    }

    /// Returns the failure of a server, or of the machine if it has dropped packets since the
    /// counters were read.
    pub(crate) fn explain(self, failure: Failure) -> Failure {
        explain(&MachineDrops::from_path(&self.growth()), failure)
    }
}

fn read() -> PathUse {
    path::counters(&Files::with_limit(0))
}

/// Returns the failure of a server, or of the machine if it dropped packets meanwhile. A server
/// that exited or gave an incorrect response failed by itself.
pub(crate) fn explain(drops: &MachineDrops, failure: Failure) -> Failure {
    let is_silence = matches!(
        failure.kind,
        FailureKind::NeverReady | FailureKind::Deaf | FailureKind::DataFailed
    );
    let Some(explained) = drops.explanation().filter(|_| is_silence) else { return failure };
    let message = format!(
        "the machine dropped packets: {}. The server {}: {}\nhint: {}",
        explained.causes,
        failure.kind.name(),
        failure.message,
        explained.remedies
    );
    Failure { kind: FailureKind::Harness, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: FailureKind) -> Failure {
        Failure { kind, message: "by its deadline, connections to port 7 timed out".into() }
    }

    #[test]
    fn silence_during_drops_is_machine_failure() {
        let drops = MachineDrops {
            tracking: Some(3),
            tracking_entries: Some(64),
            max_tracking_entries: Some(64),
            ..MachineDrops::default()
        };
        let explained = explain(&drops, failure(FailureKind::NeverReady));
        assert_eq!(explained.kind, FailureKind::Harness);
        assert!(!explained.kind.is_caused_by_subject());
        let begin = "the machine dropped packets: 3 by connection tracking, with 64 of 64 table \
                     entries in use. The server did not become ready: by its deadline, connections \
                     to port 7 timed out\nhint: ";
        assert!(explained.message.starts_with(begin), "{}", explained.message);
        assert_eq!(explain(&drops, failure(FailureKind::Deaf)).kind, FailureKind::Harness);
        assert_eq!(explain(&drops, failure(FailureKind::DataFailed)).kind, FailureKind::Harness);
    }

    #[test]
    fn failure_without_drops_or_with_exit_is_unchanged() {
        let never = failure(FailureKind::NeverReady);
        assert_eq!(explain(&MachineDrops::default(), never.clone()), never);
        let full = MachineDrops { tracking_entries: Some(64), ..MachineDrops::default() };
        assert_eq!(explain(&full, never.clone()), never, "a full table has dropped nothing yet");
        let drops = MachineDrops { tracking: Some(3), ..MachineDrops::default() };
        for kind in [
            FailureKind::Crashed,
            FailureKind::OutOfMemory,
            FailureKind::IncorrectResponses,
            FailureKind::NotStarted,
            FailureKind::Interrupted,
        ] {
            assert_eq!(explain(&drops, failure(kind)), failure(kind));
        }
    }
}
