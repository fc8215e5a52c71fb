//! Reads the keys of `[limits]` in suites and in files of back ends.

use dyno_config::mistake::{Mistake, mistake};
use dyno_config::units;
use dyno_model::plan::Limits;
use serde::Deserialize;

/// Limits of a file, with unchecked values.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawLimits {
    pub cpus: Option<f64>,
    pub cpuset: Option<String>,
    pub memory: Option<String>,
    pub files: Option<u64>,
}

/// Limits with checked values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CheckedLimits {
    pub limits: Limits,
    /// CPUs on which processes may run; `None`: any.
    pub cpuset: Option<Vec<u32>>,
}

impl RawLimits {
    /// # Errors
    /// A limit cannot be parsed, or is too low for any process.
    pub fn check(self) -> Result<CheckedLimits, Mistake> {
        if self.cpus.is_some_and(|cpus| !(0.01..=4096.0).contains(&cpus)) {
            return Err(mistake(
                "cpus",
                "`cpus`: must be a number of CPUs from 0.01 to 4096, such as 1.5",
            ));
        }
        let memory = self
            .memory
            .as_deref()
            .map(units::bytes)
            .transpose()
            .map_err(|m| mistake("memory", m))?;
        if memory.is_some_and(|bytes| bytes < 1 << 20) {
            return Err(mistake(
                "memory",
                "`memory`: must be at least 1MiB, because a process needs this much to start",
            ));
        }
        // Three standard streams, a listener and a connection.
        if self.files.is_some_and(|files| files < 5) {
            return Err(mistake(
                "files",
                "`files`: must be at least 5, because a server needs this many open files",
            ));
        }
        let cpuset = self
            .cpuset
            .as_deref()
            .map(dyno_model::cpus::cpu_list)
            .transpose()
            .map_err(|m| mistake("cpuset", m))?;
        Ok(CheckedLimits {
            limits: Limits { cpus: self.cpus, memory_bytes: memory, open_files: self.files },
            cpuset,
        })
    }
}

/// Returns the default limits, replaced by `overrides` where these have a value.
#[must_use]
pub fn override_limits(overrides: &CheckedLimits, defaults: &CheckedLimits) -> CheckedLimits {
    let (new, old) = (&overrides.limits, &defaults.limits);
    CheckedLimits {
        limits: Limits {
            cpus: new.cpus.or(old.cpus),
            memory_bytes: new.memory_bytes.or(old.memory_bytes),
            open_files: new.open_files.or(old.open_files),
        },
        cpuset: overrides.cpuset.clone().or_else(|| defaults.cpuset.clone()),
    }
}
