//! The machine of a run, as far as its plan depends on it.

use dyno_model::plan::DriverKind;

/// Facts of the machine on which a plan is run. The caller reads them: a plan is a function of its
/// suite, its definitions and these facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunMachine {
    /// CPUs that dyno may use.
    pub cpus: Vec<u32>,
    /// The best driver that the machine supports.
    pub driver: DriverKind,
    /// Seed of a run for which neither the suite nor the command line sets one.
    pub seed: u64,
}

#[cfg(test)]
impl RunMachine {
    pub(crate) fn with_two_cpus() -> RunMachine {
        RunMachine { cpus: vec![0, 1], driver: DriverKind::Epoll, seed: 3 }
    }
}
