//! Loads the probes of a run and attaches them to processes. Probes are optional observers of a
//! server, in addition to the counters that are always read.
//!
//! A probe is attached to the parties of a start, read with every sample, and detached when the
//! start ends. Only file descriptors of this process refer to a probe. The kernel therefore removes
//! the probe when this process ends for any reason, and dyno's guard process need not do it.
//!
//! A probe that reads `/proc` at the edges of a window is a [`WindowReader`] of `WINDOW_READERS`.

mod working_set;

use std::collections::BTreeSet;
use std::sync::Arc;

use dyno_model::probe::{Probe, RefusedProbe, RequestedProbes};
use dyno_model::sample::PartyUse;

use crate::kernel::Refusal;
use crate::kernel_probes::{CallCounting, ObservationChoice, PartyMonitor, ProcessObserver};
use crate::stacks;

/// Programs of a run's probes, loaded once.
#[derive(Default)]
#[allow(missing_debug_implementations)] // Maps in the kernel have none.
pub struct Probes {
    /// The kernel observer, or the reason why it is unavailable. `None`: no requested probe needs
    /// it.
    observer: Option<Result<ProcessObserver, Refusal>>,
    /// Why profiles are unavailable. `None`: profiles are available, or not requested.
    profile_refusal: Option<Refusal>,
}

impl Probes {
    /// Loads the programs that these probes need. If a probe is unavailable, its values stay
    /// unknown, and [`Probes::probes_use`] returns the reason.
    #[must_use]
    pub fn load(requested: &BTreeSet<Probe>) -> Probes {
        let choice = observation_choice(requested);
        Probes {
            observer: (!choice.is_empty()).then(|| ProcessObserver::load(choice)),
            profile_refusal: requested.contains(&Probe::Profile).then(stacks::refusal).flatten(),
        }
    }

    /// Attaches the requested probes to a process and its descendants. `None`: no requested probe
    /// is attached to processes, or none is available.
    ///
    /// # Errors
    /// Too many processes are monitored already.
    pub fn attach(
        &self,
        requested: &BTreeSet<Probe>,
        pid: u32,
    ) -> Result<Option<Arc<PartyMonitor>>, String> {
        if observation_choice(requested).is_empty() {
            return Ok(None);
        }
        match &self.observer {
            Some(Ok(observer)) => Ok(Some(Arc::new(observer.watch(pid)?))),
            Some(Err(_)) | None => Ok(None),
        }
    }

    /// Splits the requested probes into available and refused ones.
    #[must_use]
    pub fn probes_use(&self, requested: &BTreeSet<Probe>) -> RequestedProbes {
        let refused: Vec<RefusedProbe> =
            requested.iter().filter_map(|probe| self.probe_refusal(*probe)).collect();
        let is_refused = |probe: &&Probe| refused.iter().any(|refused| refused.probe == **probe);
        let available = requested.iter().filter(|probe| !is_refused(probe)).copied().collect();
        // The field `attached` lists all available probes, even probes that are not attached to
        // processes.
        RequestedProbes { attached: available, refused }
    }

    /// Returns why a probe is unavailable. `None`: the probe is available. An observer without eBPF
    /// counts system calls, but refuses all other probes.
    fn probe_refusal(&self, probe: Probe) -> Option<RefusedProbe> {
        let own_refusal = window_readers([probe]).find_map(|reader| (reader.refusal)());
        let refusal = match probe {
            Probe::Profile => self.profile_refusal.as_ref(),
            _ if probe.is_attached() => match &self.observer {
                Some(Ok(_)) if probe.counts_calls() => None,
                Some(Ok(observer)) => observer.refusal(),
                Some(Err(refusal)) => Some(refusal),
                // The probe was not requested when the programs were loaded.
                None => None,
            },
            _ => own_refusal.as_ref(),
        };
        refusal.map(|refusal| refuse(probe, refusal))
    }
}

fn refuse(probe: Probe, Refusal { reason, hint }: &Refusal) -> RefusedProbe {
    RefusedProbe { probe, reason: reason.clone(), hint: (*hint).into() }
}

/// A probe that reads `/proc` at the edges of a window.
#[derive(Clone, Copy, Debug)]
pub struct WindowReader {
    pub probe: Probe,
    /// Returns why the probe is unavailable on this machine. `None`: it is available.
    pub refusal: fn() -> Option<Refusal>,
    /// Begins the observation of these processes. Returns why one of them cannot be observed.
    pub open: fn(&[u32]) -> Result<(), Refusal>,
    /// Adds the values of these processes since the window opened. Returns why they are unknown.
    pub close: fn(&[u32], &mut PartyUse) -> Result<(), Refusal>,
}

/// The probes that read `/proc` at the edges of a window.
const WINDOW_READERS: &[WindowReader] = &[working_set::READER];

/// Returns the readers of these probes.
fn window_readers(
    probes: impl IntoIterator<Item = Probe>,
) -> impl Iterator<Item = &'static WindowReader> {
    let reader = |probe| WINDOW_READERS.iter().find(move |reader| reader.probe == probe);
    probes.into_iter().filter_map(reader)
}

/// A window of a party in which probes read `/proc`.
#[derive(Clone, Debug, Default)]
pub struct ObservedWindow {
    readers: Vec<&'static WindowReader>,
    refused: Vec<RefusedProbe>,
}

impl ObservedWindow {
    /// Opens the window of these processes. A probe that cannot observe all of them reads nothing,
    /// and is refused.
    #[must_use]
    pub fn open(requested: &BTreeSet<Probe>, pids: &[u32]) -> ObservedWindow {
        let mut window = ObservedWindow::default();
        for reader in window_readers(requested.iter().copied()) {
            match (reader.open)(pids) {
                Ok(()) => window.readers.push(reader),
                Err(refusal) => window.refused.push(refuse(reader.probe, &refusal)),
            }
        }
        window
    }

    /// Adds the values of these processes, which may be others than at the beginning.
    pub fn close(&mut self, pids: &[u32], used: &mut PartyUse) {
        for reader in &self.readers {
            if let Err(refusal) = (reader.close)(pids, used) {
                self.refused.push(refuse(reader.probe, &refusal));
            }
        }
    }

    /// Returns the probes whose values are unknown in this window.
    #[must_use]
    pub fn refused(&self) -> &[RefusedProbe] {
        &self.refused
    }
}

/// Returns why eBPF programs cannot observe processes on this machine. `None`: they can. Without
/// eBPF, system calls may still be countable ([`can_count_syscalls`]).
#[must_use]
pub fn refusal() -> Option<Refusal> {
    // Every kind of observation. Both ways to count calls need the same support of the kernel.
    let choice = ObservationChoice { states: true, modes: true, calls: CallCounting::Sliced };
    match ProcessObserver::load(choice) {
        Ok(observer) => observer.refusal().cloned(),
        Err(refusal) => Some(refusal),
    }
}

/// Whether system calls can be counted on this machine, with or without an eBPF program.
#[must_use]
pub fn can_count_syscalls() -> bool {
    ProcessObserver::load(ObservationChoice {
        calls: CallCounting::Sliced,
        ..ObservationChoice::default()
    })
    .is_ok()
}

/// Refuses all available probes that have to be attached to processes, because
/// [`Probes::attach`] failed. `reason`: its error, as the end of a sentence.
pub fn refuse_unattached(used: &mut RequestedProbes, reason: &str) {
    let unattached: Vec<Probe> =
        used.attached.iter().copied().filter(|probe| probe.is_attached()).collect();
    for probe in unattached {
        used.refuse(Some(RefusedProbe {
            probe,
            reason: reason.into(),
            hint: "Run fewer servers at the same time. If this persists, report a bug.".into(),
        }));
    }
}

fn observation_choice(requested: &BTreeSet<Probe>) -> ObservationChoice {
    let has = |probe| requested.contains(&probe);
    let calls = match (has(Probe::EverySyscall), has(Probe::Syscalls)) {
        (true, _) => CallCounting::Every,
        (false, true) => CallCounting::Sliced,
        (false, false) => CallCounting::None,
    };
    ObservationChoice { states: has(Probe::States), modes: has(Probe::Modes), calls }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unavailable_probe_is_refused_with_its_reason() {
        let reason = "permission denied";
        let refusal = Refusal { reason: reason.into(), hint: "Be root." };
        let probes = Probes { observer: Some(Err(refusal)), profile_refusal: None };
        let used = probes.probes_use(&[Probe::KernelStamps, Probe::States].into());
        assert_eq!(used.attached, [Probe::KernelStamps].into());
        assert_eq!(
            used.refused,
            [RefusedProbe { probe: Probe::States, reason: reason.into(), hint: "Be root.".into() }]
        );
        assert!(probes.attach(&[Probe::States].into(), 1).unwrap().is_none());
    }

    #[test]
    fn probes_are_refused_if_attaching_fails() {
        let mut used = RequestedProbes {
            attached: [Probe::Syscalls, Probe::KernelStamps, Probe::States].into(),
            refused: Vec::new(),
        };
        refuse_unattached(&mut used, "at most 16 process groups can be monitored at once");
        assert_eq!(used.attached, [Probe::KernelStamps].into());
        let refused: BTreeSet<Probe> = used.refused.iter().map(|refused| refused.probe).collect();
        assert_eq!(refused, [Probe::Syscalls, Probe::States].into());
        assert!(used.refused.iter().all(|refused| refused.reason.starts_with("at most 16")));
    }

    #[test]
    fn window_names_probe_without_values() {
        const READER: WindowReader = WindowReader {
            probe: Probe::WorkingSet,
            refusal: || None,
            open: |_| Ok(()),
            close: |_, _| Err(Refusal { reason: "it is closed".into(), hint: "Open it." }),
        };
        let mut window = ObservedWindow { readers: vec![&READER], refused: Vec::new() };
        assert_eq!(window.refused(), []);
        window.close(&[1], &mut PartyUse::empty(dyno_model::Party::SUBJECT));
        let expected = Refusal { reason: "it is closed".into(), hint: "Open it." };
        assert_eq!(window.refused(), [refuse(Probe::WorkingSet, &expected)]);
    }

    #[test]
    fn observer_is_not_loaded_unless_probe_needs_it() {
        for requested in [BTreeSet::new(), [Probe::KernelStamps].into()] {
            let probes = Probes::load(&requested);
            assert!(probes.observer.is_none());
            assert_eq!(
                probes.probes_use(&requested),
                RequestedProbes { attached: requested, refused: Vec::new() }
            );
        }
    }
}
