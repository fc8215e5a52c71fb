//! Checks whether this machine has what a server needs.

use dyno_config::mistake::{Mistake, mistake};
use dyno_model::cpus::cpu_list_text;
use dyno_subject::definition::Definition;

/// Returns why this machine cannot run a server, as a sentence. `None`: the machine can run it.
pub type UnmetNeed<'a> = dyn Fn(&Definition) -> Option<String> + 'a;

/// Checks that dyno may use these CPUs.
pub(crate) fn check_cpuset(cpuset: &[u32], allowed: &[u32]) -> Result<(), Mistake> {
    let missing: Vec<u32> = cpuset.iter().copied().filter(|cpu| !allowed.contains(cpu)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let (noun, verb) = if missing.len() == 1 { ("CPU", "is") } else { ("CPUs", "are") };
    let message = format!(
        "`cpuset`: {noun} {} {verb} not available to dyno\nhint: use CPUs from the list {}, or \
         remove `cpuset`",
        cpu_list_text(&missing),
        cpu_list_text(allowed)
    );
    Err(mistake("cpuset", message))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use dyno_config::text::Position;

    use super::*;

    #[test]
    fn unavailable_cpuset_is_refused_with_position() {
        let source = "subjects = [\"a\"]\n[limits]\ncpuset = \"0,2\"\n";
        let error = check_cpuset(&[0, 2], &[0, 1]).unwrap_err().with_parent("limits");
        let error = error.locate(Path::new("s.toml"), source);
        assert_eq!(error.position, Some(Position { line: 3, column: 10 }));
        assert!(
            error.message.contains("CPU 2 is not available")
                && error.hint.as_deref().is_some_and(|hint| hint.contains("from the list 0,1")),
            "{error}"
        );
        let error = check_cpuset(&[8, 0, 9], &[0, 1]).unwrap_err().locate(Path::new("s.toml"), "");
        assert!(error.message.contains("CPUs 8,9 are not available"), "{error}");
        assert_eq!(check_cpuset(&[0, 1], &[0, 1]), Ok(()));
    }
}
