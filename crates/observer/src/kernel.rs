//! Common parts of the eBPF programs: reasons why one is not available, and its maps.

use std::io;

use aya::Ebpf;

/// Reason why observation is not available, and its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub why: String,
    pub hint: &'static str,
}

const NOT_ALLOWED: &str = "Run dyno as root, or give it the capabilities: `setcap \
                           cap_bpf,cap_perfmon,cap_sys_ptrace,cap_syslog+ep dyno`.";

impl Refusal {
    /// `needs`: what the kernel must be to run the program.
    pub(crate) fn from_error(error: &ProgramError, needs: &'static str) -> Refusal {
        if error.is_forbidden {
            let why = "this user may not load eBPF programs (bpf(2))".into();
            return Refusal { why, hint: NOT_ALLOWED };
        }
        Refusal {
            why: format!("the kernel refused the eBPF program: {}", error.message),
            hint: needs,
        }
    }
}

/// # Errors
/// The eBPF programs cannot identify processes here.
pub(crate) fn check_support() -> Result<(), Refusal> {
    if !cfg!(target_arch = "x86_64") {
        let why = "the eBPF program supports only x86-64".into();
        return Err(Refusal { why, hint: "Measure on x86-64." });
    }
    if !is_first_namespace(&std::fs::read_link("/proc/self/ns/pid").unwrap_or_default()) {
        let why =
            "dyno is in its own PID namespace, as in a container, where PIDs differ from the \
                   kernel's"
                .into();
        return Err(Refusal {
            why,
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

pub(crate) fn map(ebpf: &mut Ebpf, name: &str) -> Result<aya::maps::Map, ProgramError> {
    ebpf.take_map(name).ok_or_else(|| ProgramError::missing_part(name))
}

/// Why the program cannot be used.
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
        while let Some(deeper) = cause {
            is_forbidden |= is_forbidden_by(deeper);
            let text = deeper.to_string();
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            cause = deeper.source();
        }
        // The log of the verifier is left out.
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
        let of = |bytes: &[u8]| {
            Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        let wanted = format!("{}  {name}.c\n{}  {name}.o\n", of(source), of(object));
        assert_eq!(sums, wanted, "run scripts/bpf and commit what it writes");
    }

    #[test]
    fn container_has_numbers_of_its_own() {
        assert!(is_first_namespace(Path::new("pid:[4026531836]")));
        assert!(!is_first_namespace(Path::new("pid:[4026532201]")));
        assert!(!is_first_namespace(Path::new("")));
    }
}
