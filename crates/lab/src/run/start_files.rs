//! Checks before each start that the files of a server are those of the plan.

use dyno_model::start::{Failure, NewFiles};
use dyno_subject::build::Built;
use dyno_subject::definition::Definition;
use dyno_subject::definition::snapshot::Snapshot;

use super::failure_cause::harness;

/// Refuses a start whose files were edited after the run was planned, or whose artefacts were
/// changed or lost after their build: the plan has the hashes of the earlier files. Returns the
/// files that are new.
pub(super) fn check_files(
    planned: &Snapshot,
    definition: &Definition,
    built: &Built,
) -> Result<Option<NewFiles>, Failure> {
    let new = planned.new_files(definition).map_err(|file| {
        harness(format!(
            "{} of {} changed after the run was planned, so repeats would measure different servers\
             \nhint: restore the file and resume the run with `--resume`, or start a new run. If \
             the server itself writes the file, make the server write to the folder {{work}} \
             instead",
            file.display(),
            definition.name
        ))
    })?;
    let unmade = built.check_artefacts().map_err(|path| {
        harness(format!(
            "{} was changed or removed after {} was built, so repeats would measure different \
             servers\nhint: resume the run with `--resume`, or start a new run. Both build the \
             server again. A comparison of revisions (`--rev`) cannot be resumed. If the server \
             itself writes the file, make the server write to the folder {{work}} instead",
            path.display(),
            definition.name
        ))
    })?;
    let new = new.iter().map(|file| file.display().to_string()).chain(unmade);
    let new: Vec<String> = new.collect();
    Ok(new.first().map(|first| NewFiles { count: new.len(), first: first.clone() }))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use dyno_launch::guard::Guard;
    use dyno_launch::supervision::{Interrupts, Supervision};
    use dyno_model::start::FailureKind;
    use dyno_subject::build;

    use super::*;

    #[test]
    fn start_with_changed_artefact_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("x");
        fs::create_dir(&folder).unwrap();
        let text = "language = \"C\"\nprotocols = [\"h1\"]\n[build]\ncommand = \"echo 1 > \
                    {out}/server\"\ninputs = []\n[start]\ncommand = [\"{out}/server\"]\n";
        fs::write(folder.join("subject.toml"), text).unwrap();
        let definition = Definition::read(&folder).unwrap();
        let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
        let supervision = Supervision { guard: &guard, interrupts: &interrupts };
        let cache = root.path().join("cache");
        let built = build::build(&definition, &cache, &supervision, &mut |_| {}).unwrap();
        let planned = Snapshot::take(&definition);
        let check = || check_files(&planned, &definition, &built);
        assert_eq!(check().unwrap(), None);
        fs::write(built.out.join("cache.json"), "{}").unwrap();
        let first = "cache.json".to_string();
        assert_eq!(check().unwrap(), Some(NewFiles { count: 1, first }));
        fs::write(built.out.join("server"), "2\n").unwrap();
        let failure = check().unwrap_err();
        assert_eq!(failure.kind, FailureKind::Harness);
        let message = failure.message;
        assert!(
            message.contains("out/server was changed or removed") && message.contains("\nhint: ")
        );
    }
}
