//! Shared parts of the loaders of eBPF programs. These parts check whether this machine supports
//! the programs, and explain a refusal with a hint.

use std::io;

use aya::Ebpf;

/// Reason why an observation is unavailable, and the action that makes it available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub reason: String,
    pub hint: &'static str,
}

const NOT_ALLOWED: &str = "Run dyno as root, or give it the capabilities: `setcap \
                           cap_bpf,cap_perfmon,cap_sys_ptrace,cap_syslog+ep dyno`.";

impl Refusal {
    /// Explains an error. `requirements`: the hint for an error other than a lack of permission.
    pub(crate) fn from_error(error: &ProgramError, requirements: &'static str) -> Refusal {
        if error.is_forbidden {
            let reason = "this user cannot load eBPF programs (bpf(2))".into();
            return Refusal { reason, hint: NOT_ALLOWED };
        }
        Refusal {
            reason: format!("the kernel refused the eBPF program: {}", error.message),
            hint: requirements,
        }
    }
}

/// Checks whether eBPF programs can run and identify processes here.
///
/// # Errors
/// The architecture is not supported, or dyno is in a PID namespace.
pub(crate) fn check_support() -> Result<(), Refusal> {
    if !cfg!(target_arch = "x86_64") {
        let reason = "the eBPF program supports only x86-64".into();
        return Err(Refusal { reason, hint: "Measure on x86-64." });
    }
    if !is_first_namespace(&std::fs::read_link("/proc/self/ns/pid").unwrap_or_default()) {
        let reason = "dyno runs in its own PID namespace, such as in a container, and its process \
                      IDs differ from the kernel's"
            .into();
        return Err(Refusal {
            reason,
            hint: "Run dyno outside of the container, or start the container with `--pid=host`.",
        });
    }
    Ok(())
}

/// Whether a link names the PID namespace of the machine's first process (PROC_PID_INIT_INO in the
/// kernel's include/linux/proc_ns.h).
fn is_first_namespace(link: &std::path::Path) -> bool {
    link == std::path::Path::new("pid:[4026531836]")
}

/// Takes a map of the program by its name.
pub(crate) fn map(ebpf: &mut Ebpf, name: &str) -> Result<aya::maps::Map, ProgramError> {
    ebpf.take_map(name).ok_or_else(|| ProgramError::missing_part(name))
}

/// Error of loading or using an eBPF program.
#[derive(Debug)]
pub(crate) struct ProgramError {
    pub(crate) message: String,
    /// Whether this user lacks the permission.
    pub(crate) is_forbidden: bool,
}

impl ProgramError {
    pub(crate) fn new(error: impl std::error::Error + 'static) -> ProgramError {
        let mut message = error.to_string();
        let mut is_forbidden = is_forbidden_by(&error);
        let mut cause = error.source();
        while let Some(error) = cause {
            is_forbidden |= is_forbidden_by(error);
            let text = error.to_string();
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            cause = error.source();
        }
        // Further lines are the verifier's log.
        let message = message.lines().next().unwrap_or_default().to_string();
        ProgramError { message, is_forbidden }
    }

    pub(crate) fn missing_part(part: &str) -> ProgramError {
        ProgramError { message: format!("the eBPF object has no {part}"), is_forbidden: false }
    }
}

fn is_forbidden_by(error: &(dyn std::error::Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::PermissionDenied)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;

    use sha2::{Digest as _, Sha256};

    use super::*;

    /// Checks that a committed object was built from its source, without clang.
    pub(crate) fn check_source(name: &str, source: &[u8], object: &[u8], sums: &str) {
        let sum = |bytes: &[u8]| {
            Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        let expected = format!("{}  {name}.c\n{}  {name}.o\n", sum(source), sum(object));
        assert_eq!(sums, expected, "run scripts/bpf and commit the files that it writes");
    }

    #[test]
    fn only_initial_pid_namespace_is_first() {
        assert!(is_first_namespace(Path::new("pid:[4026531836]")));
        assert!(!is_first_namespace(Path::new("pid:[4026532201]")));
        assert!(!is_first_namespace(Path::new("")));
    }
}
