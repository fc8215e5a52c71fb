//! The probes of a run: optional observers of a server, besides the counters that are always read.
//! Each is attached to the parties of a start, read with every sample, and detached with them.
//!
//! The guard does not track probes: only file descriptors of this process hold them, and the kernel
//! removes them when it ends, in whatever way.

use std::collections::BTreeSet;
use std::sync::Arc;

use dyno_archive::probe::{Probe, ProbesUse, RefusedProbe};

use crate::kernel::Refusal;
use crate::kernel_probes::{CallCounting, ObservationChoice, ProcessObserver, Watching};
use crate::stacks;

/// Programs of a run's probes, loaded once.
#[derive(Default)]
#[allow(missing_debug_implementations)] // Maps in the kernel have none.
pub struct Probes {
    /// `None`: nothing of it is wanted.
    inside: Option<Result<ProcessObserver, Refusal>>,
    /// Why there are no profiles; `None`: there are, or none is wanted.
    no_profile: Option<Refusal>,
}

impl Probes {
    /// Loads what these probes need. An unavailable probe is no error: its values stay unknown, and
    /// [`Probes::probes_use`] says why.
    #[must_use]
    pub fn load(asked: &BTreeSet<Probe>) -> Probes {
        let wanted = observation_choice(asked);
        Probes {
            inside: (wanted != ObservationChoice::default()).then(|| ProcessObserver::load(wanted)),
            no_profile: asked.contains(&Probe::Profile).then(stacks::refusal).flatten(),
        }
    }

    /// Attaches the probes that are asked for to a process and its descendants. `None`: none of
    /// them is attached to processes, or none is available.
    ///
    /// # Errors
    /// Too many processes are monitored already; as a sentence.
    pub fn attach(
        &self,
        asked: &BTreeSet<Probe>,
        pid: u32,
    ) -> Result<Option<Arc<Watching>>, String> {
        let inside = self.inside.as_ref().and_then(|inside| inside.as_ref().ok());
        let inside = inside.filter(|_| observation_choice(asked) != ObservationChoice::default());
        inside.map(|inside| inside.watch(pid).map(Arc::new)).transpose()
    }

    /// The requested probes that are available.
    #[must_use]
    pub fn probes_use(&self, asked: &BTreeSet<Probe>) -> ProbesUse {
        let refused: Vec<RefusedProbe> =
            asked.iter().filter_map(|probe| self.probe_refusal(*probe)).collect();
        let is_refused = |probe: &&Probe| refused.iter().any(|refused| refused.probe == **probe);
        let attached = asked.iter().filter(|probe| !is_refused(probe)).copied().collect();
        ProbesUse { attached, refused }
    }

    fn probe_refusal(&self, probe: Probe) -> Option<RefusedProbe> {
        let refusal = match probe {
            Probe::Profile => self.no_profile.as_ref(),
            _ if is_inside(probe) => self.inside.as_ref().and_then(|inside| match inside {
                Ok(inside) => inside.refusal().filter(|_| !is_counted(probe)),
                Err(refusal) => Some(refusal),
            }),
            _ => None,
        };
        refusal.map(|Refusal { why, hint }| RefusedProbe {
            probe,
            why: why.clone(),
            hint: (*hint).into(),
        })
    }
}

/// Why processes cannot be observed from the kernel here, except perhaps for call counts; `None`:
/// they can.
#[must_use]
pub fn refusal() -> Option<Refusal> {
    let wanted = ObservationChoice { states: true, modes: true, calls: CallCounting::Sliced };
    match ProcessObserver::load(wanted) {
        Ok(inside) => inside.refusal().cloned(),
        Err(refusal) => Some(refusal),
    }
}

/// Whether calls can be counted here all the same.
#[must_use]
pub fn counts_calls() -> bool {
    ProcessObserver::load(ObservationChoice {
        calls: CallCounting::Sliced,
        ..ObservationChoice::default()
    })
    .is_ok()
}

/// Whether a probe can do without a program in the kernel.
const fn is_counted(probe: Probe) -> bool {
    matches!(probe, Probe::Syscalls | Probe::EverySyscall)
}

/// Whether a probe needs a program in the kernel.
const fn is_inside(probe: Probe) -> bool {
    match probe {
        Probe::Syscalls | Probe::EverySyscall | Probe::States | Probe::Modes => true,
        Probe::KernelStamps | Probe::Profile | Probe::Runtime => false,
    }
}

fn observation_choice(asked: &BTreeSet<Probe>) -> ObservationChoice {
    let calls = match (asked.contains(&Probe::EverySyscall), asked.contains(&Probe::Syscalls)) {
        (true, _) => CallCounting::Every,
        (false, true) => CallCounting::Sliced,
        (false, false) => CallCounting::None,
    };
    ObservationChoice {
        states: asked.contains(&Probe::States),
        modes: asked.contains(&Probe::Modes),
        calls,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_named_with_the_reason() {
        let why = "this user may not";
        let refusal = Refusal { why: why.into(), hint: "Be root." };
        let probes = Probes { inside: Some(Err(refusal)), no_profile: None };
        let used = probes.probes_use(&[Probe::KernelStamps, Probe::States].into());
        assert_eq!(used.attached, [Probe::KernelStamps].into());
        assert_eq!(
            used.refused,
            [RefusedProbe { probe: Probe::States, why: why.into(), hint: "Be root.".into() }]
        );
        assert!(probes.attach(&[Probe::States].into(), 1).unwrap().is_none());
    }

    #[test]
    fn nothing_is_loaded_for_who_asks_for_nothing() {
        for asked in [BTreeSet::new(), [Probe::KernelStamps].into()] {
            let probes = Probes::load(&asked);
            assert!(probes.inside.is_none());
            assert_eq!(
                probes.probes_use(&asked),
                ProbesUse { attached: asked, refused: Vec::new() }
            );
        }
    }
}
