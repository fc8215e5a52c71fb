//! `dyno subjects check`: starts each server as in a run, and prints each request, the expected and
//! the received response.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use dyno_archive::RunDir;
use dyno_config::text::FileError;
use dyno_lab::prepare::prepare;
use dyno_lab::run::{RealHost, RunEnd, RunEvent, RunMemory, Runner};
use dyno_lab::this_machine;
use dyno_launch::guard::Guard;
use dyno_launch::supervision::Supervision;
use dyno_model::run::{Run, RunHeader};
use dyno_model::start::FailureKind;
use dyno_model::trial::CheckResult;
use dyno_model::{Facts, LoadRecord, Protocol, RunId, StartRecord};
use dyno_report::terminal::escape_line;
use dyno_subject::definition::prerequisites::Prerequisites;
use dyno_subject::definition::{Definition, ReadyBy};
use dyno_suite::file::SuiteFile;
use dyno_suite::plan::{Overrides, Planned, resolve};

use super::{ChosenSubjects, INTERRUPTED, Subject, build, show_output};
use crate::exit::Exit;
use crate::terminal::{
    Printer, ThirdInterrupt, catch_interrupts, print_text, print_text_about, say,
};

/// Checks the chosen subjects one after the other, and prints a table of them at the end. A closed
/// standard output ends no check.
pub(super) fn run(chosen: &ChosenSubjects, cache: &Path, guard: &Guard) -> anyhow::Result<Exit> {
    let interrupts =
        catch_interrupts("stopping: shutting down this subject", ThirdInterrupt::Ends)?;
    let supervision = Supervision { guard, interrupts: &interrupts };
    let prerequisites = Prerequisites::new(&supervision);
    let mut exit = chosen.print_mistakes();
    let (mut rows, mut printer) = (Vec::new(), Printer::default());
    for subject in &chosen.subjects {
        if interrupts.count() > 0 {
            break;
        }
        let outcome = check(chosen, subject, cache, &prerequisites, &supervision, &mut printer)?;
        exit = more_severe(exit, outcome.exit(chosen));
        rows.push((subject, outcome));
    }
    if rows.len() > 1 {
        printer.print(|| {
            print_text("\n")?;
            chosen.row("subject", &table_row("built", "protocols", "checks", "result"))?;
            rows.iter().try_for_each(|(subject, outcome)| {
                chosen.row(&subject.id, &outcome.row(&subject.definition))
            })
        });
    }
    if interrupts.count() > 0 {
        say(INTERRUPTED);
        return Ok(Exit::Failed);
    }
    printer.end(exit).map(|()| exit)
}

fn table_row(built: &str, protocols: &str, checks: &str, result: &str) -> String {
    format!("{built:<10} {protocols:<32} {checks:<9} {result}")
}

/// Returns the more severe of two exit statuses. A failed file or machine outweighs an incorrect
/// response.
fn more_severe(a: Exit, b: Exit) -> Exit {
    let weight = |exit: Exit| match exit {
        Exit::Failed => 3,
        Exit::Usage => 2,
        Exit::Invalid => 1,
        _ => 0,
    };
    if weight(b) > weight(a) { b } else { a }
}

/// Results of a start.
pub(super) struct Started {
    start: StartRecord,
    /// Results of the checks during the short loads of the start.
    checks_under_load: Vec<CheckResult>,
    /// Protocols over which the short loads got responses.
    protocols: BTreeSet<Protocol>,
}

/// Outcome of the check of a subject.
pub(super) enum CheckOutcome {
    Skipped(String),
    /// The subject or a back end has a mistake in its file.
    Mistake(FileError),
    /// The build failed. The text is the end of its output.
    NotBuilt(String),
    Started(Started),
    /// The check was not reached.
    NotReached,
}

/// Builds, starts and checks one subject, and prints the results.
pub(super) fn check(
    chosen: &ChosenSubjects,
    subject: &Subject,
    cache: &Path,
    prerequisites: &Prerequisites<'_>,
    supervision: &Supervision<'_>,
    printer: &mut Printer,
) -> anyhow::Result<CheckOutcome> {
    printer.print(|| print_text(&format!("{}\n", escape_line(&subject.id))));
    let suite = SuiteFile::parse(Path::new("check"), &check_suite(subject), &[])?;
    let machine = this_machine::read(dyno_launch::allowed_cpus());
    let resolved = resolve(suite, &chosen.folders, &Overrides::default(), &machine, &|d| {
        prerequisites.unmet_need(d)
    });
    let mut planned = match resolved {
        Ok(planned) => planned,
        Err(error) => {
            let outcome = CheckOutcome::Mistake(error);
            printer.print(|| print_text(&outcome.describe()));
            return Ok(outcome);
        }
    };
    let builds = prepare(&mut planned, cache, supervision, &mut |event| match event {
        RunEvent::Printed { name, line } => show_output(name, line),
        RunEvent::Built { name, result: Ok(built) } => {
            show_output(name, &build::build_time_text(built));
        }
        _ => {}
    })?;
    let planned_subject = &planned.plan.subjects[0];
    let mut backends = planned.plan.backends.iter();
    let unbuilt =
        backends.find_map(|backend| Some((&backend.name, backend.build_failed.as_ref()?)));
    let outcome = match (unbuilt, &planned_subject.skipped, &planned_subject.build_failed) {
        (Some((name, output)), ..) => CheckOutcome::NotBuilt(format!("back end {name}: {output}")),
        (None, Some(reason), _) => CheckOutcome::Skipped(reason.clone()),
        (None, None, Some(output)) => CheckOutcome::NotBuilt(output.clone()),
        (None, None, None) => {
            let (ended, run) = run_checks(&planned, &builds, supervision)?;
            let protocols = responding_protocols(&run);
            let trials = run.trials.into_iter();
            let checks_under_load = trials.flat_map(|trial| trial.checks).collect();
            let start = run.starts.into_iter().next().filter(|_| ended == RunEnd::Complete);
            start.map_or(CheckOutcome::NotReached, |start| {
                CheckOutcome::Started(Started { start, checks_under_load, protocols })
            })
        }
    };
    printer.print(|| print_text_about(&planned.plan, &outcome.describe()));
    Ok(outcome)
}

/// Returns a suite with very short loads, in which the subject is started, checked and stopped as
/// in a run. Each protocol has a workload, so that every subject takes part.
fn check_suite(subject: &Subject) -> String {
    let path = match &subject.definition.ready.by {
        ReadyBy::Answer { path, .. } => path.as_str(),
        ReadyBy::Listening | ReadyBy::Command(_) => "/",
    };
    let workload = |protocol: Protocol| {
        let (name, protocol, tls) = (protocol.name(), protocol.base_name(), protocol.is_tls());
        format!(
            "[[workloads]]\nname = {name:?}\nprotocol = {protocol:?}\ntls = {tls}\npath = \
             {path:?}\n"
        )
    };
    format!(
        "subjects = [{:?}]\n[suite]\nname = \"check\"\nrepeats = 1\norder = \
         \"fixed\"\n[load]\nconnections = 1\nwarmup = \"0\"\nduration = \"50ms\"\ninterval = \
         \"50ms\"\n{}",
        subject.id,
        Protocol::OF_SERVERS.map(workload).concat()
    )
}

/// Runs the planned start in a temporary archive. Returns how the run ended, and its records.
fn run_checks(
    planned: &Planned,
    builds: &dyno_lab::builds::Builds,
    supervision: &Supervision<'_>,
) -> anyhow::Result<(RunEnd, Run)> {
    let header = RunHeader {
        schema: dyno_model::run::SCHEMA.into(),
        id: "check".into(),
        run_id: RunId::default(),
        started: String::new(),
        command: Vec::new(),
        plan: planned.plan.clone(),
        facts: Facts::default(),
        resumptions: Vec::new(),
    };
    let folder = supervision.guard.make_folder("check")?;
    let dir = RunDir::create(&folder, &header)?;
    let run = dir.read()?;
    let mut on_event = |event: RunEvent<'_>| {
        if let RunEvent::Printed { name, line } = event {
            show_output(name, line);
        }
    };
    let mut walk = |host: &RealHost<'_>| {
        Runner {
            plan: &planned.plan,
            host,
            dir: &dir,
            interrupts: supervision.interrupts,
            on_event: &mut on_event,
            memory: RunMemory::default(),
        }
        .walk(&run)
    };
    let result = RealHost::new(planned, builds, *supervision)
        .and_then(|host| walk(&host))
        .and_then(|ended| Ok((ended, dir.read()?)));
    let _ = dyno_launch::folder::remove(&folder);
    Ok(result?)
}

impl CheckOutcome {
    /// Describes the results of all checks, line by line.
    fn describe(&self) -> String {
        match self {
            CheckOutcome::Skipped(reason) => format!("  skipped: {reason}\n"),
            CheckOutcome::Mistake(error) => {
                format!("  {}\n", error.to_string().replace('\n', "\n  "))
            }
            CheckOutcome::NotBuilt(output) => {
                format!("  build failed: {}\n", output.replace('\n', "\n    "))
            }
            CheckOutcome::NotReached => String::new(),
            CheckOutcome::Started(started) => started.describe_checks(),
        }
    }

    pub(super) fn exit(&self, chosen: &ChosenSubjects) -> Exit {
        match self {
            CheckOutcome::Skipped(_) => chosen.selection.exit_with_skipped(Exit::Valid),
            CheckOutcome::Mistake(_) => Exit::Usage,
            CheckOutcome::NotBuilt(_) | CheckOutcome::NotReached => Exit::Failed,
            CheckOutcome::Started(started) => match &started.start.failure {
                Some(failure) if failure.kind != FailureKind::IncorrectResponses => Exit::Failed,
                Some(_) => Exit::Invalid,
                None if started.results().iter().any(|check| !check.ok && !check.waived) => {
                    Exit::Invalid
                }
                None => Exit::Valid,
            },
        }
    }

    /// The row of the subject in the table.
    pub(super) fn row(&self, definition: &Definition) -> String {
        match self {
            CheckOutcome::Skipped(reason) => {
                table_row("–", "–", "–", &format!("skipped: {}", first_line(reason)))
            }
            CheckOutcome::Mistake(error) => {
                table_row("–", "–", "–", &format!("not started: {}", first_line(&error.message)))
            }
            CheckOutcome::NotBuilt(output) => table_row("failed", "–", "–", first_line(output)),
            CheckOutcome::NotReached => table_row("–", "–", "–", "not checked"),
            CheckOutcome::Started(started) => {
                let start = &started.start;
                let served = protocols_served(definition, started);
                let checks = started.results();
                let passed = checks.iter().filter(|check| check.ok).count();
                let waived = checks.iter().filter(|check| !check.ok && check.waived).count();
                let result = match (&start.failure, passed == checks.len()) {
                    (Some(failure), _) => {
                        format!("{}: {}", failure.kind.name(), first_line(&failure.message))
                    }
                    (None, true) if checks.is_empty() => {
                        "nothing checked, because the subject has no contract".into()
                    }
                    (None, true) => "all passed".into(),
                    (None, false) if passed + waived == checks.len() => format!("{waived} waived"),
                    (None, false) => format!("{} failed", checks.len() - passed - waived),
                };
                let served = if served.is_empty() { "none".into() } else { served.join(" ") };
                let built = if definition.build.is_some() { "yes" } else { "not needed" };
                table_row(built, &served, &format!("{passed}/{}", checks.len()), &result)
            }
        }
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

impl Started {
    /// Returns the results of the checks before the load, and the failures of checks that failed
    /// only during or after the load. A check during the load that got no response is omitted,
    /// because a late response does not break the contract.
    fn results(&self) -> Vec<&CheckResult> {
        let part = self.start.subject();
        let mut results: Vec<&CheckResult> =
            part.iter().flat_map(|part| &part.checks_before).collect();
        let under_load = self.checks_under_load.iter().filter(|check| check.has_response);
        let after = part.iter().flat_map(|part| &part.checks_after);
        for check in under_load.chain(after).filter(|check| !check.ok) {
            let is_same_failure = |other: &&CheckResult| {
                !other.ok && (&other.name, other.protocol) == (&check.name, check.protocol)
            };
            if !results.iter().any(is_same_failure) {
                results.push(check);
            }
        }
        results
    }

    /// Describes the results of all checks, and a failure of the start.
    fn describe_checks(&self) -> String {
        let (start, checks) = (&self.start, self.results());
        let mut text = String::new();
        for &check in &checks {
            let mark = match check {
                CheckResult { ok: true, .. } => "✓",
                CheckResult { waived: true, .. } => "✗ (waived)",
                CheckResult { has_response: false, .. } => "– (late)",
                _ => "✗",
            };
            let _ = write!(text, "  {mark} {} {}", check.protocol, check.name);
            if check.ok {
                let _ = writeln!(
                    text,
                    ": {} → {} (expected {})",
                    check.asked, check.got, check.expected
                );
                continue;
            }
            let _ = writeln!(text);
            for (name, content) in
                [("asked", &check.asked), ("expected", &check.expected), ("got", &check.got)]
            {
                let _ = writeln!(
                    text,
                    "      {name:<9}{}",
                    content.trim_end().replace('\n', "\n               ")
                );
            }
        }
        if let Some(failure) = &start.failure {
            let message = failure.message.replace('\n', "\n    ");
            let _ = writeln!(text, "  {}: {message}", failure.kind.name());
        }
        for part in &start.parts {
            if let Some(tail) = &part.log_tail {
                let _ = writeln!(
                    text,
                    "  last output lines of {}:\n    {}",
                    part.name,
                    tail.replace('\n', "\n    ")
                );
            }
        }
        let passed = checks.iter().filter(|check| check.ok).count();
        let _ = match checks.len() {
            0 if start.failure.is_some() => Ok(()),
            0 => {
                writeln!(
                    text,
                    "  no contract (`checks` in the subject's file), so only the start was \
                     checked"
                )
            }
            n => writeln!(text, "  {passed} of {n} checks passed"),
        };
        text
    }
}

/// Returns the protocols over which the short loads got any response, correct or incorrect. A
/// protocol upgrade that the server declined is not included.
fn responding_protocols(run: &Run) -> BTreeSet<Protocol> {
    let has_response = |load: &LoadRecord| {
        let mut outcomes = load.intervals.iter().flat_map(|interval| interval.outcomes.iter());
        let declined =
            load.http2.as_ref().is_some_and(|h2| h2.fallen_back + h2.upgrades_declined > 0);
        !declined && outcomes.any(|(outcome, n)| outcome.is_completed() && n > 0)
    };
    let trials = run.trials.iter().filter(|trial| has_response(&trial.load));
    let plan = &run.header.plan;
    trials.map(|trial| plan.workloads[plan.trials[trial.trial].workload].protocol).collect()
}

/// Returns the protocols over which the server responded and no check failed.
fn protocols_served(definition: &Definition, started: &Started) -> Vec<&'static str> {
    let results = started.results();
    let has_failed = |protocol: Protocol| {
        results.iter().any(|check| check.protocol == protocol && !check.ok && !check.waived)
    };
    let is_served =
        |protocol: &&Protocol| started.protocols.contains(*protocol) && !has_failed(**protocol);
    definition.protocols.iter().filter(is_served).map(|protocol| protocol.name()).collect()
}

#[cfg(test)]
mod tests {
    use dyno_model::Party;
    use dyno_model::start::PartStart;

    use super::*;

    fn check(name: &str, ok: bool, has_response: bool) -> CheckResult {
        CheckResult {
            name: name.into(),
            protocol: Protocol::H1,
            ok,
            has_response,
            waived: false,
            is_lifecycle: false,
            asked: String::new(),
            expected: String::new(),
            got: String::new(),
        }
    }

    #[test]
    fn check_that_fails_under_load_is_reported_once() {
        let part = PartStart {
            checks_before: vec![check("a", true, true), check("b", true, true)],
            checks_after: vec![check("a", false, true), check("b", true, true)],
            ..PartStart::new(Party::SUBJECT, "x".into())
        };
        let checks_under_load =
            vec![check("a", false, true), check("b", false, false), check("b", true, true)];
        let start = StartRecord { parts: vec![part], ..StartRecord::default() };
        let mut started = Started { start, checks_under_load, protocols: BTreeSet::new() };
        let names = |started: &Started| {
            let results = started.results().into_iter();
            results.map(|check| (check.name.clone(), check.ok)).collect::<Vec<_>>()
        };
        let both = [("a".to_string(), true), ("b".into(), true)];
        assert_eq!(names(&started), [&both[..], &[("a".into(), false)]].concat());
        started.start.parts[0].checks_after.clear();
        assert_eq!(names(&started), [&both[..], &[("a".into(), false)]].concat());
        started.checks_under_load.clear();
        assert_eq!(names(&started), both);
    }
}
