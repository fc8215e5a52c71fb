//! Facts of this machine that plans depend on.

use dyno_suite::machine::RunMachine;

/// Returns this machine, with a new seed. `cpus`: CPUs that dyno may use.
#[must_use]
pub fn read(cpus: Vec<u32>) -> RunMachine {
    RunMachine { cpus, driver: dyno_driver::best_driver().0, seed: dyno_observer::monotonic_ns() }
}
