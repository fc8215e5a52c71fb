//! `dyno run --resume`: resumes an interrupted run, if it is still the same experiment.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::SystemTime;

use dyno_archive::dir::{Run, RunHeader, SCHEMA};
use dyno_archive::plan::{Backend, Build, Plan, Subject};
use dyno_archive::start::PartStart;
use dyno_archive::{Facts, Party, Resumption, ResumptionDifference, RunDir, StartRecord};
use dyno_launch::supervision::Supervision;
use dyno_runner::files::Folder;
use dyno_runner::plan::Planned;
use dyno_runner::prepare::include_with_backends;
use dyno_subject::build::input_key;
use dyno_subject::definition::Definition;

use super::prepare::{PreparedRun, build_all};
use crate::cli::RunArgs;
use crate::exit::bad;
use crate::progress::Progress;
use crate::this_machine;

/// Whether a run may be resumed although something has changed since it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mixing {
    Refused,
    /// Allowed by `--anyway`; the report says so.
    Anyway,
}

impl Mixing {
    pub(super) fn from_args(args: &RunArgs) -> Mixing {
        if args.anyway { Mixing::Anyway } else { Mixing::Refused }
    }

    /// Refuses to resume if there are differences, and lists them.
    fn check(self, path: &Path, differences: &[ResumptionDifference]) -> anyhow::Result<()> {
        if self == Mixing::Anyway || differences.is_empty() {
            return Ok(());
        }
        let items: Vec<String> = differences
            .iter()
            .map(|d| format!("  {}: {} then, {} now", d.what, d.before, d.now))
            .collect();
        let path = crate::terminal::quote(&path.display().to_string());
        Err(bad(format!(
            "{path}: cannot be resumed as the same experiment:\n{}\nhint: restore these, begin a \
             new run, or let the report mark both parts with: dyno run --resume {path} --anyway",
            items.join("\n")
        )))
    }
}

/// Checks that a run has the format of this version and comes from a suite without revisions.
fn check_resumable(path: &Path, run: &Run) -> anyhow::Result<()> {
    if run.header.schema != SCHEMA {
        return Err(bad(format!(
            "{}: cannot be resumed: it was written in format {:?}, this version writes \
             {SCHEMA:?}\nhint: begin a new run",
            path.display(),
            run.header.schema
        )));
    }
    if !run.header.plan.suite.is_of_a_file() {
        return Err(bad(format!(
            "{}: cannot be resumed: it was written by --save and is not a run of a suite\nhint: \
             measure again, with --save for another archive",
            path.display()
        )));
    }
    if run.header.plan.subjects.iter().any(|subject| subject.revision.is_some()) {
        return Err(bad(format!(
            "{}: cannot be resumed: it compares revisions, whose work trees are removed\nhint: \
             compare them again with dyno compare --rev",
            path.display()
        )));
    }
    Ok(())
}

pub(super) fn resume(
    path: &Path,
    mixing: Mixing,
    cache: &Path,
    supervision: &Supervision<'_>,
    progress: &mut Progress,
) -> anyhow::Result<PreparedRun> {
    let dir = RunDir::open(path)?.lock()?;
    let run = dir.read()?;
    check_resumable(path, &run)?;
    let mut planned = Planned::from_archived(run.header.plan.clone())?;
    let back = include_with_backends(&mut planned.plan);
    let facts = dyno_observer::facts::read_facts(this_machine::VERSION, this_machine::COMMIT);
    // Comparisons that need no build come first, so that a refusal needs no wait.
    let mut differences = compare_facts(&run.header.facts, &facts);
    let files = hash_files(&planned.plan);
    differences.extend(compare_files(&planned.plan, &files));
    // Requests of this part use the present files.
    let now = files.into_iter().filter_map(|(name, hash)| Some((name, hash.ok()?)));
    planned.plan.files.extend(now);
    for (subject, definition) in run.header.plan.subjects.iter().zip(&planned.definitions) {
        let then =
            Then { id: subject.id(), definition: &subject.definition, build: &subject.build };
        differences.extend(compare_definition(&then, definition, supervision));
    }
    for (backend, definition) in run.header.plan.backends.iter().zip(&planned.backends) {
        let id = format!("back end {}", backend.name);
        let then = Then { id, definition: &backend.definition, build: &backend.build };
        differences.extend(compare_definition(&then, definition, supervision));
    }
    let plan = &run.header.plan;
    for (arm, definition) in planned.arms.iter().enumerate() {
        let of_arm = |start: &StartRecord| plan.launches[start.launch].arms.contains(&arm);
        let parts = run.starts.iter().filter(|s| of_arm(s)).filter_map(StartRecord::subject);
        differences.extend(compare_environment(&plan.arms[arm].name, parts, definition));
    }
    for (i, definition) in planned.backends.iter().enumerate() {
        let parts = run.starts.iter().filter_map(|start| start.part(Party::Backend(i)));
        differences.extend(compare_environment(
            &format!("back end {}", plan.backends[i].name),
            parts,
            definition,
        ));
    }
    mixing.check(path, &differences)?;
    let built = build_all(&mut planned, cache, supervision, progress)?;
    for (then, now) in run.header.plan.subjects.iter().zip(&planned.plan.subjects) {
        differences.extend(compare_build(then, now));
    }
    for (then, now) in run.header.plan.backends.iter().zip(&planned.plan.backends) {
        differences.extend(compare_backend(then, now));
    }
    mixing.check(path, &differences)?;
    let header = resumed_header(&run, &planned.plan, &back, facts, differences);
    let files = std::mem::take(&mut planned.plan.files);
    planned.plan = Plan { files, ..header.plan.clone() };
    dir.write_header(&header)?;
    Ok((planned, built, dir))
}

/// Returns the run's header with this resumption added. The first part is unchanged. `back`:
/// subjects without a first part, because a back end could not be built.
fn resumed_header(
    run: &Run,
    now: &Plan,
    back: &[usize],
    facts: Facts,
    differences: Vec<ResumptionDifference>,
) -> RunHeader {
    let mut header = run.header.clone();
    header.resumptions.push(Resumption {
        started: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        command: super::command_line(),
        from_start: run.starts.iter().map(|s| s.start + 1).max().unwrap_or(0),
        differences,
        facts,
        subjects: now.subjects.clone(),
    });
    // A subject that could not be built then has no first part.
    let subjects = header.plan.subjects.iter_mut().zip(&now.subjects).enumerate();
    for (_, (then, now)) in
        subjects.filter(|(i, (then, _))| then.build_failed.is_some() || back.contains(i))
    {
        then.clone_from(now);
    }
    let backends = header.plan.backends.iter_mut().zip(&now.backends);
    for (then, now) in backends.filter(|(then, _)| then.build_failed.is_some()) {
        then.clone_from(now);
    }
    header
}

fn difference(
    what: impl Into<String>,
    before: impl Into<String>,
    now: impl Into<String>,
) -> ResumptionDifference {
    ResumptionDifference { what: what.into(), before: before.into(), now: now.into() }
}

/// Differences in the machine and in dyno itself, named like the facts in the archive.
fn compare_facts(then: &Facts, now: &Facts) -> Vec<ResumptionDifference> {
    let fields = |facts: &Facts| match serde_json::to_value(facts) {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => unreachable!("facts are a table of text and numbers"),
    };
    let (then, now) = (fields(then), fields(now));
    let names = then.keys().chain(now.keys().filter(|name| !then.contains_key(*name)));
    // `missing` only explains other facts.
    let changed = names.filter(|name| *name != "missing" && then.get(*name) != now.get(*name));
    let shown = |value: Option<&serde_json::Value>| match value {
        None | Some(serde_json::Value::Null) => "unknown".to_string(),
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    changed
        .map(|name| difference(name.replace('_', " "), shown(then.get(name)), shown(now.get(name))))
        .collect()
}

/// Differences in the files that the suite's requests name: their contents are sent.
fn compare_files(
    plan: &Plan,
    now: &BTreeMap<String, Result<String, String>>,
) -> Vec<ResumptionDifference> {
    let changed = |(name, then): (&String, &String)| {
        let (Ok(now) | Err(now)) = &now[name];
        (now != then).then(|| difference(format!("file {name}"), short(then), short(now)))
    };
    plan.files.iter().filter_map(changed).collect()
}

/// SHA-256 of each file that the suite's requests name, as it is now; `Err`: why it cannot be read.
fn hash_files(plan: &Plan) -> BTreeMap<String, Result<String, String>> {
    let folder = Folder::from_suite(Path::new(&plan.suite.path));
    let hash = |name: &String| folder.read(name).map(|_| folder.file_hashes()[name].clone());
    plan.files.keys().map(|name| (name.clone(), hash(name))).collect()
}

/// A subject or a back end as it was when the run began.
struct Then<'a> {
    id: String,
    definition: &'a Option<String>,
    build: &'a Option<Build>,
}

/// Differences in how a subject is started and in what it is built from, as far as known without
/// building it.
fn compare_definition(
    then: &Then<'_>,
    definition: &Definition,
    supervision: &Supervision<'_>,
) -> Vec<ResumptionDifference> {
    let id = &then.id;
    let mut all = Vec::new();
    let now = definition.fingerprint().unwrap_or_else(|error| format!("unreadable ({error})"));
    if let Some(before) = then.definition.as_ref().filter(|before| **before != now) {
        all.push(difference(format!("{id}, definition"), short(before), short(&now)));
    }
    if let (Some(build), Some(spec)) = (then.build, &definition.build) {
        let now = input_key(definition, spec, supervision).unwrap_or_else(|why| why);
        if now != build.inputs {
            all.push(difference(
                format!("{id}, inputs of its build"),
                short(&build.inputs),
                short(&now),
            ));
        }
    }
    all
}

/// Differences in the variables that the starts of an arm or of a back end get from dyno's own
/// environment.
fn compare_environment<'a>(
    whose: &str,
    mut parts: impl Iterator<Item = &'a PartStart>,
    definition: &Definition,
) -> Vec<ResumptionDifference> {
    let Some(part) = parts.find(|part| !part.environment.is_empty()) else { return Vec::new() };
    let now = definition.inherited_variables();
    // The subject's own variables are part of its definition.
    let before = part.inherited_variables(|name| !definition.start.env.contains_key(name));
    let names: BTreeSet<&str> =
        before.keys().copied().chain(now.keys().map(String::as_str)).collect();
    let shown = |value: Option<&str>| value.unwrap_or("not set").to_string();
    let of_name = |name: &str| {
        let (before, now) = (before.get(name).copied(), now.get(name).map(String::as_str));
        let what = || format!("{whose}, environment variable {name}");
        (before != now).then(|| difference(what(), shown(before), shown(now)))
    };
    names.into_iter().filter_map(of_name).collect()
}

/// A difference in the result of a subject's build: it fails now, or it has another version.
fn compare_build(then: &Subject, now: &Subject) -> Option<ResumptionDifference> {
    let shown = |version: &Option<String>| version.clone().unwrap_or_else(|| "unknown".into());
    let was_there = then.skipped.is_none() && then.build_failed.is_none();
    if let Some(why) = now.build_failed.as_ref().filter(|_| was_there) {
        let why = why.lines().next().unwrap_or_default();
        return Some(difference(
            format!("{}, build", then.id()),
            "succeeded",
            format!("failed ({why})"),
        ));
    }
    (was_there && then.version != now.version).then(|| {
        difference(format!("{}, version", then.id()), shown(&then.version), shown(&now.version))
    })
}

/// A difference in the version of a back end, which may have become unavailable.
fn compare_backend(then: &Backend, now: &Backend) -> Option<ResumptionDifference> {
    let shown = |backend: &Backend| match (&backend.build_failed, &backend.version) {
        (Some(why), _) => format!("not built ({})", why.lines().next().unwrap_or_default()),
        (None, Some(version)) => version.clone(),
        (None, None) => "unknown".into(),
    };
    // A back end that could not be built served no subject.
    let was_there = then.skipped.is_none() && then.build_failed.is_none();
    (was_there && shown(then) != shown(now))
        .then(|| difference(format!("back end {}, version", then.name), shown(then), shown(now)))
}

/// The first 12 digits of a SHA-256; any other text whole.
fn short(text: &str) -> &str {
    if text.len() == 64 && text.is_ascii() { &text[..12] } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_that_differ_are_named() {
        let then = Facts {
            cpus: 4,
            kernel: Some("6.1".into()),
            dyno_version: "1".into(),
            ..Facts::default()
        };
        let now = Facts { cpus: 2, kernel: None, dyno_version: "1".into(), ..Facts::default() };
        assert_eq!(compare_facts(&then, &then), []);
        assert_eq!(
            compare_facts(&then, &now),
            [difference("cpus", "4", "2"), difference("kernel", "6.1", "unknown")]
        );
    }
}
