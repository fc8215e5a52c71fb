//! Differences between a run and its resumption: in subjects, in the machine and in dyno.

mod environment;

use std::collections::BTreeMap;
use std::path::Path;

use dyno_launch::keyed_hashes::KeyFile;
use dyno_launch::supervision::Supervision;
use dyno_model::plan::{Backend, Build, Plan, Subject};
use dyno_model::run::{Run, RunHeader, SCHEMA};
use dyno_model::{Facts, Resumption, ResumptionDifference};
use dyno_subject::build::input_key;
use dyno_subject::definition::Definition;
use dyno_suite::files::Folder;
use dyno_suite::plan::Planned;

/// Checks that a run has the format of this version and comes from a suite without revisions.
///
/// # Errors
/// The run cannot be resumed.
pub fn check_resumable(path: &Path, run: &Run) -> Result<(), String> {
    let schema = &run.header.schema;
    // Records of two formats in one run could not be read.
    if schema != SCHEMA {
        return Err(format!(
            "{}: cannot be resumed: the run has format {schema:?}, but this version writes \
             {SCHEMA:?}\nhint: begin a new run",
            path.display()
        ));
    }
    if !run.header.plan.suite.is_from_file() {
        return Err(format!(
            "{}: cannot be resumed: --save wrote this archive, which is not the run of a \
             suite\nhint: measure again with --save",
            path.display()
        ));
    }
    if run.header.plan.subjects.iter().any(|subject| subject.revision.is_some()) {
        return Err(format!(
            "{}: cannot be resumed: the run compares revisions, and their work trees are \
             removed\nhint: compare the revisions again with dyno compare --rev",
            path.display()
        ));
    }
    Ok(())
}

/// Differences that need no build.
#[derive(Debug, Default)]
pub struct InputComparison {
    pub differences: Vec<ResumptionDifference>,
    /// Variables whose values cannot be compared, because archives withhold them and a key of their
    /// hashes is missing or is another user's: `OWNER: NAME`.
    pub uncompared: Vec<String>,
}

/// Compares everything that needs no build: the machine, files that requests send, definitions, and
/// environment variables. Requests use the files as they are now, so the plan gets their present
/// hashes. `key`: key of the hashes of values that archives withhold.
pub fn compare_inputs(
    run: &Run,
    planned: &mut Planned,
    facts: &Facts,
    supervision: &Supervision<'_>,
    key: &KeyFile,
) -> InputComparison {
    let plan = &run.header.plan;
    let mut differences = compare_facts(&run.header.facts, facts);
    let files = hash_files(&planned.plan);
    differences.extend(compare_files(&planned.plan, &files));
    let hashes = files.into_iter().filter_map(|(name, hash)| Some((name, hash.ok()?)));
    planned.plan.files.extend(hashes);
    for (subject, definition) in plan.subjects.iter().zip(&planned.definitions) {
        let before = RecordedServer {
            id: subject.id(),
            definition: &subject.definition,
            build: &subject.build,
        };
        differences.extend(compare_definition(&before, definition, supervision));
    }
    for (backend, definition) in plan.backends.iter().zip(&planned.backends) {
        let id = format!("back end {}", backend.name);
        let before = RecordedServer { id, definition: &backend.definition, build: &backend.build };
        differences.extend(compare_definition(&before, definition, supervision));
    }
    let mut comparison = InputComparison { differences, uncompared: Vec::new() };
    comparison.add_environments(run, planned, key);
    comparison
}

/// Returns the differences in the builds of the servers.
#[must_use]
pub fn compare_builds(before: &Plan, now: &Plan) -> Vec<ResumptionDifference> {
    let subjects = before.subjects.iter().zip(&now.subjects);
    let backends = before.backends.iter().zip(&now.backends);
    subjects
        .filter_map(|(before, now)| compare_build(before, now))
        .chain(backends.filter_map(|(before, now)| compare_backend(before, now)))
        .collect()
}

/// Returns the number of the first start after a resumption.
#[must_use]
pub fn next_start(run: &Run) -> usize {
    run.starts.iter().map(|start| start.start + 1).max().unwrap_or(0)
}

/// Returns the run's header with this resumption added. Subjects that the run has measured before
/// keep their description. `newly_included`: indices of subjects that were not measured before,
/// because their back end could not be built.
#[must_use]
pub fn resumed_header(
    run: &Run,
    now: &Plan,
    newly_included: &[usize],
    resumption: Resumption,
) -> RunHeader {
    let mut header = run.header.clone();
    header.resumptions.push(resumption);
    let subjects = header.plan.subjects.iter_mut().zip(&now.subjects);
    for (i, (before, now)) in subjects.enumerate() {
        let was_measured = before.build_failed.is_none() && !newly_included.contains(&i);
        if !was_measured {
            before.clone_from(now);
        }
    }
    let backends = header.plan.backends.iter_mut().zip(&now.backends);
    for (before, now) in backends.filter(|(before, _)| before.build_failed.is_some()) {
        before.clone_from(now);
    }
    header
}

fn difference(
    name: impl Into<String>,
    before: impl Into<String>,
    now: impl Into<String>,
) -> ResumptionDifference {
    ResumptionDifference { name: name.into(), before: before.into(), now: now.into() }
}

/// Returns the differences in the machine and in dyno, with the names of the facts in the archive.
fn compare_facts(before: &Facts, now: &Facts) -> Vec<ResumptionDifference> {
    let fields = |facts: &Facts| match serde_json::to_value(facts) {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => unreachable!("facts are a table of text and numbers"),
    };
    let (before, now) = (fields(before), fields(now));
    let names = before.keys().chain(now.keys().filter(|name| !before.contains_key(*name)));
    // The fact `missing` only explains why other facts are unknown.
    let changed = names.filter(|name| *name != "missing" && before.get(*name) != now.get(*name));
    let text = |value: Option<&serde_json::Value>| match value {
        None | Some(serde_json::Value::Null) => "unknown".to_string(),
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    changed
        .map(|name| difference(name.replace('_', " "), text(before.get(name)), text(now.get(name))))
        .collect()
}

/// Returns the differences in the files whose contents the requests of the suite send.
fn compare_files(
    plan: &Plan,
    now: &BTreeMap<String, Result<String, String>>,
) -> Vec<ResumptionDifference> {
    let changed = |(name, before): (&String, &String)| {
        // The reason why a file cannot be read differs from every hash.
        let (Ok(now) | Err(now)) = &now[name];
        (now != before).then(|| difference(format!("file {name}"), short(before), short(now)))
    };
    plan.files.iter().filter_map(changed).collect()
}

/// Returns the present SHA-256 of each file that requests of the suite name. `Err`: the reason why
/// the file cannot be read.
fn hash_files(plan: &Plan) -> BTreeMap<String, Result<String, String>> {
    let folder = Folder::from_suite(Path::new(&plan.suite.path));
    let hash = |name: &String| folder.read(name).map(|_| folder.file_hashes()[name].clone());
    plan.files.keys().map(|name| (name.clone(), hash(name))).collect()
}

/// A subject or a back end, as recorded when the run began.
struct RecordedServer<'a> {
    id: String,
    /// Fingerprint of the definition.
    definition: &'a Option<String>,
    build: &'a Option<Build>,
}

/// Returns the differences in the definition of a subject and in the inputs of its build. Builds
/// nothing.
fn compare_definition(
    before: &RecordedServer<'_>,
    definition: &Definition,
    supervision: &Supervision<'_>,
) -> Vec<ResumptionDifference> {
    let id = &before.id;
    let mut differences = Vec::new();
    let now = definition.fingerprint().unwrap_or_else(|error| format!("unreadable ({error})"));
    if let Some(recorded) = before.definition.as_ref().filter(|recorded| **recorded != now) {
        differences.push(difference(format!("{id}, definition"), short(recorded), short(&now)));
    }
    if let (Some(build), Some(spec)) = (before.build, &definition.build) {
        let key = input_key(definition, spec, supervision);
        let now = key.map_or_else(|reason| reason, |key| key.all);
        if now != build.inputs {
            differences.push(difference(
                format!("{id}, inputs of its build"),
                short(&build.inputs),
                short(&now),
            ));
        }
    }
    differences
}

/// Returns the difference in the build of a subject: it fails now, or has another version or
/// artefact.
fn compare_build(before: &Subject, now: &Subject) -> Option<ResumptionDifference> {
    let text = |version: &Option<String>| version.clone().unwrap_or_else(|| "unknown".into());
    let was_available = before.skipped.is_none() && before.build_failed.is_none();
    if let Some(reason) = now.build_failed.as_ref().filter(|_| was_available) {
        let reason = reason.lines().next().unwrap_or_default();
        return Some(difference(
            format!("{}, build", before.id()),
            "succeeded",
            format!("failed ({reason})"),
        ));
    }
    if was_available && before.version != now.version {
        let name = format!("{}, version", before.id());
        return Some(difference(name, text(&before.version), text(&now.version)));
    }
    compare_artefacts(&before.id(), before.build.as_ref(), now.build.as_ref())
}

/// Returns the difference in the artefact of a build: in the hash, or in the size if an older
/// version of dyno recorded no hash. A build can read files outside of its folder, so equal inputs
/// do not imply equal artefacts.
fn compare_artefacts(
    owner: &str,
    before: Option<&Build>,
    now: Option<&Build>,
) -> Option<ResumptionDifference> {
    let (before, now) = (before?, now?);
    let bytes = |build: &Build| format!("{} bytes", build.artefact_bytes);
    let (before, now) = match (&before.artefact, &now.artefact) {
        (Some(before), Some(now)) => (before.clone(), now.clone()),
        _ => (bytes(before), bytes(now)),
    };
    (before != now)
        .then(|| difference(format!("{owner}, result of its build"), short(&before), short(&now)))
}

/// Returns the difference in the version or the artefact of a back end, which may have become
/// unavailable.
fn compare_backend(before: &Backend, now: &Backend) -> Option<ResumptionDifference> {
    let text = |backend: &Backend| match (&backend.build_failed, &backend.version) {
        (Some(reason), _) => format!("not built ({})", reason.lines().next().unwrap_or_default()),
        (None, Some(version)) => version.clone(),
        (None, None) => "unknown".into(),
    };
    // If a back end could not be built, no measured subject has used it. A new version then changes
    // no result.
    let was_available = before.skipped.is_none() && before.build_failed.is_none();
    let owner = format!("back end {}", before.name);
    if was_available && text(before) != text(now) {
        return Some(difference(format!("{owner}, version"), text(before), text(now)));
    }
    compare_artefacts(&owner, before.build.as_ref(), now.build.as_ref())
}

/// Shortens a SHA-256 to its first 12 digits. Other texts are unchanged.
fn short(text: &str) -> &str {
    if text.len() == 64 && text.is_ascii() { &text[..12] } else { text }
}

#[cfg(test)]
mod tests {
    use dyno_archive::RunDir;
    use dyno_model::plan::Revision;

    use super::*;

    /// `--save` of `dyno load` and of `dyno calibrate` writes runs without a suite.
    #[test]
    fn runs_without_suite_or_with_revisions_are_not_resumed() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/hello/run");
        let mut run = RunDir::open(folder).unwrap().read().unwrap();
        run.header.plan.suite.path = "/suites/hello.toml".into();
        let revision = || Some(Revision { name: "main".into(), commit: None });
        let check = |change: &dyn Fn(&mut Run)| {
            let mut changed = run.clone();
            change(&mut changed);
            check_resumable(Path::new("r"), &changed)
        };
        check(&|_| {}).unwrap();
        let changes: [(&dyn Fn(&mut Run), &str); 3] = [
            (&|run| run.header.schema = "dyno.run/0".into(), "has format \"dyno.run/0\""),
            (&|run| run.header.plan.suite.path.clear(), "is not the run of a suite"),
            (&|run| run.header.plan.subjects[0].revision = revision(), "compares revisions"),
        ];
        for (change, expected) in changes {
            let error = check(change).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn build_with_other_artefact_is_a_difference() {
        let built = |artefact_bytes, hash: Option<&str>| {
            let artefact = hash.map(|digit| digit.repeat(64));
            Some(Build { artefact_bytes, artefact, ..Build::default() })
        };
        let cases = [
            (built(7, Some("a")), built(7, Some("a")), None),
            (built(7, Some("a")), built(7, Some("b")), Some(("aaaaaaaaaaaa", "bbbbbbbbbbbb"))),
            (built(7, None), built(7, Some("b")), None),
            (built(17_311, None), built(17_315, Some("b")), Some(("17311 bytes", "17315 bytes"))),
            (built(7, Some("a")), None, None),
        ];
        for (before, now, expected) in cases {
            let subject =
                |build: &Option<Build>| Subject { build: build.clone(), ..Subject::default() };
            let backend =
                |build: &Option<Build>| Backend { build: build.clone(), ..Backend::default() };
            let differences = [
                compare_build(&subject(&before), &subject(&now)),
                compare_backend(&backend(&before), &backend(&now)),
            ];
            for found in differences {
                let values = found.as_ref().map(|found| (&*found.before, &*found.now));
                assert_eq!(values, expected, "{before:?} {now:?}");
            }
        }
    }

    #[test]
    fn compare_facts_lists_changed_facts() {
        let earlier = Facts {
            cpus: 4,
            kernel: Some("6.1".into()),
            dyno_version: "1".into(),
            ..Facts::default()
        };
        let now = Facts { cpus: 2, kernel: None, dyno_version: "1".into(), ..Facts::default() };
        assert_eq!(compare_facts(&earlier, &earlier), []);
        assert_eq!(
            compare_facts(&earlier, &now),
            [difference("cpus", "4", "2"), difference("kernel", "6.1", "unknown")]
        );
    }
}
