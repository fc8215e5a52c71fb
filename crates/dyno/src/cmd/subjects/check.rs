//! `dyno subjects check`: starts each server as a run would, and prints each request, what was
//! expected, and the response.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use dyno_archive::dir::{Run, RunHeader};
use dyno_archive::start::FailureKind;
use dyno_archive::trial::CheckResult;
use dyno_archive::{Facts, LoadRecord, Protocol, RunDir, StartRecord};
use dyno_launch::guard::Guard;
use dyno_launch::supervision::Supervision;
use dyno_report::terminal::line;
use dyno_runner::plan::{Overrides, Planned, resolve};
use dyno_runner::prepare::prepare;
use dyno_runner::run::{RunEnd, RunEvent, Runner};
use dyno_runner::suite::SuiteFile;
use dyno_subject::definition::prerequisites::Prerequisites;
use dyno_subject::definition::{Definition, ReadyBy};
use dyno_workload::text::FileError;

use super::{ChosenSubjects, INTERRUPTED, Subject, build, show_output};
use crate::exit::Exit;
use crate::terminal::{ThirdInterrupt, catch_interrupts, print_text, say};

/// Checks all that are chosen, one after the other, and prints a table of them at the end.
pub(super) fn run(chosen: &ChosenSubjects, cache: &Path, guard: &Guard) -> anyhow::Result<Exit> {
    let interrupts =
        catch_interrupts("stopping: shutting down this subject", ThirdInterrupt::Ends)?;
    let supervision = Supervision { guard, interrupts: &interrupts };
    let here = Prerequisites::new(&supervision);
    let mut exit = chosen.print_mistakes();
    let mut rows = Vec::new();
    for subject in &chosen.subjects {
        if interrupts.count() > 0 {
            break;
        }
        let seen = check(chosen, subject, cache, &here, &supervision)?;
        exit = worse(exit, seen.exit(chosen));
        rows.push((subject, seen));
    }
    if rows.len() > 1 {
        print_text("\n")?;
        chosen.row("subject", &columns("built", "protocols", "checks", "result"))?;
        rows.iter().try_for_each(|(subject, seen)| {
            chosen.row(&subject.id, &seen.columns(&subject.definition))
        })?;
    }
    if interrupts.count() > 0 {
        say(INTERRUPTED);
        return Ok(Exit::Failed);
    }
    Ok(exit)
}

fn columns(built: &str, protocols: &str, checks: &str, result: &str) -> String {
    format!("{built:<10} {protocols:<32} {checks:<9} {result}")
}

/// Returns the more severe of two. A failed file or machine outweighs an incorrect response.
fn worse(a: Exit, b: Exit) -> Exit {
    let weight = |exit: Exit| match exit {
        Exit::Failed => 3,
        Exit::Usage => 2,
        Exit::Invalid => 1,
        _ => 0,
    };
    if weight(b) > weight(a) { b } else { a }
}

/// Results of a start.
struct Started {
    start: StartRecord,
    /// Protocols over which its short loads got responses.
    answered: BTreeSet<Protocol>,
}

/// Outcome of the check of a subject.
enum CheckOutcome {
    Skipped(String),
    /// A back end has mistakes.
    Wrong(FileError),
    /// With the end of the build's output.
    NotBuilt(String),
    Started(Started),
    /// The check was not reached.
    Nothing,
}

fn check(
    chosen: &ChosenSubjects,
    subject: &Subject,
    cache: &Path,
    here: &Prerequisites<'_>,
    supervision: &Supervision<'_>,
) -> anyhow::Result<CheckOutcome> {
    print_text(&format!("{}\n", line(&subject.id)))?;
    let suite = SuiteFile::parse(Path::new("check"), &suite_of(subject), &[])?;
    let cpus = dyno_launch::allowed_cpus();
    let resolved =
        resolve(suite, &chosen.folders, &Overrides::default(), &cpus, &|d| here.unmet_need(d));
    let mut planned = match resolved {
        Ok(planned) => planned,
        Err(error) => {
            let seen = CheckOutcome::Wrong(error);
            print_text(&seen.describe())?;
            return Ok(seen);
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
    let seen = match (&planned_subject.skipped, &planned_subject.build_failed) {
        (Some(why), _) => CheckOutcome::Skipped(why.clone()),
        (None, Some(why)) => CheckOutcome::NotBuilt(why.clone()),
        (None, None) => {
            let (ended, run) = walk(&planned, &builds, supervision)?;
            let answered = answering_protocols(&run);
            let start = run.starts.into_iter().next().filter(|_| ended == RunEnd::Complete);
            start.map_or(CheckOutcome::Nothing, |start| {
                CheckOutcome::Started(Started { start, answered })
            })
        }
    };
    print_text(&seen.describe())?;
    Ok(seen)
}

/// Returns a suite with very short loads. Subjects are started, checked and stopped as in a run.
/// Each protocol has a workload, so that every subject takes part.
fn suite_of(subject: &Subject) -> String {
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

fn walk(
    planned: &Planned,
    builds: &dyno_runner::prepare::Builds,
    supervision: &Supervision<'_>,
) -> anyhow::Result<(RunEnd, Run)> {
    let header = RunHeader {
        schema: dyno_archive::run::SCHEMA.into(),
        id: "check".into(),
        started: String::new(),
        command: Vec::new(),
        plan: planned.plan.clone(),
        facts: Facts::default(),
        resumptions: Vec::new(),
    };
    let place = dyno_launch::folder::make("check", supervision.guard)?;
    let dir = RunDir::create(&place, &header)?;
    let mut on = |event: RunEvent<'_>| {
        if let RunEvent::Printed { name, line } = event {
            show_output(name, line);
        }
    };
    let result = Runner {
        plan: &planned.plan,
        arms: &planned.arms,
        snapshots: &planned.snapshots,
        builds,
        dir: &dir,
        guard: supervision.guard,
        interrupts: supervision.interrupts,
        on_event: &mut on,
    }
    .walk()
    .and_then(|ended| Ok((ended, dir.read()?)));
    let _ = std::fs::remove_dir_all(&place);
    Ok(result?)
}

impl CheckOutcome {
    /// Describes all that was seen, line by line.
    fn describe(&self) -> String {
        match self {
            CheckOutcome::Skipped(why) => format!("  skipped: {why}\n"),
            CheckOutcome::Wrong(error) => {
                format!("  {}\n", error.to_string().replace('\n', "\n  "))
            }
            CheckOutcome::NotBuilt(why) => {
                format!("  build failed: {}\n", why.replace('\n', "\n    "))
            }
            CheckOutcome::Nothing => String::new(),
            CheckOutcome::Started(Started { start, .. }) => describe_checks(start),
        }
    }

    fn exit(&self, chosen: &ChosenSubjects) -> Exit {
        match self {
            CheckOutcome::Skipped(_) => chosen.selection.exit_with_skipped(Exit::Valid),
            CheckOutcome::Wrong(_) => Exit::Usage,
            CheckOutcome::NotBuilt(_) | CheckOutcome::Nothing => Exit::Failed,
            CheckOutcome::Started(Started { start, .. }) => match &start.failure {
                Some(failure) if failure.kind != FailureKind::WrongAnswers => Exit::Failed,
                Some(_) => Exit::Invalid,
                None if results(start).any(|check| !check.ok && !check.waived) => Exit::Invalid,
                None => Exit::Valid,
            },
        }
    }

    /// The row of the subject in the table.
    fn columns(&self, definition: &Definition) -> String {
        match self {
            CheckOutcome::Skipped(why) => {
                columns("–", "–", "–", &format!("skipped: {}", first_line(why)))
            }
            CheckOutcome::Wrong(error) => {
                columns("–", "–", "–", &format!("not started: {}", first_line(&error.message)))
            }
            CheckOutcome::NotBuilt(why) => columns("failed", "–", "–", first_line(why)),
            CheckOutcome::Nothing => columns("–", "–", "–", "not checked"),
            CheckOutcome::Started(started) => {
                let start = &started.start;
                let served = protocols_served(definition, started);
                let all: Vec<&CheckResult> = results(start).collect();
                let passed = all.iter().filter(|check| check.ok).count();
                let waived = all.iter().filter(|check| !check.ok && check.waived).count();
                let result = match (&start.failure, passed == all.len()) {
                    (Some(failure), _) => {
                        format!("{}: {}", failure.kind.name(), first_line(&failure.message))
                    }
                    (None, true) if all.is_empty() => "no contract, so nothing was checked".into(),
                    (None, true) => "all passed".into(),
                    (None, false) if passed + waived == all.len() => format!("{waived} waived"),
                    (None, false) => format!("{} failed", all.len() - passed - waived),
                };
                let served = if served.is_empty() { "none".into() } else { served.join(" ") };
                let built = if definition.build.is_some() { "yes" } else { "not needed" };
                columns(built, &served, &format!("{passed}/{}", all.len()), &result)
            }
        }
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Returns the checks before the load, and those after it with another result.
fn results(start: &StartRecord) -> impl Iterator<Item = &CheckResult> {
    let part = start.subject();
    let before = part.map_or(&[][..], |part| &part.checks_before);
    let after = part.map_or(&[][..], |part| &part.checks_after);
    let is_news = |check: &&CheckResult| {
        let same = |b: &CheckResult| {
            (&b.name, b.protocol, b.ok) == (&check.name, check.protocol, check.ok)
        };
        !check.ok && !before.iter().any(same)
    };
    before.iter().chain(after.iter().filter(is_news))
}

/// The protocols over which the short loads got any response, correct or not. A protocol that the
/// server declined to switch to is not among them.
fn answering_protocols(run: &Run) -> BTreeSet<Protocol> {
    let spoke = |load: &LoadRecord| {
        let mut outcomes = load.intervals.iter().flat_map(|interval| interval.outcomes.iter());
        let declined =
            load.http2.as_ref().is_some_and(|h2| h2.fallen_back + h2.upgrades_declined > 0);
        !declined && outcomes.any(|(outcome, n)| outcome.is_completed() && n > 0)
    };
    let trials = run.trials.iter().filter(|trial| spoke(&trial.load));
    let plan = &run.header.plan;
    trials.map(|trial| plan.workloads[plan.trials[trial.trial].workload].protocol).collect()
}

/// The protocols over which the server answered and no check failed.
fn protocols_served(definition: &Definition, started: &Started) -> Vec<&'static str> {
    let broken = |protocol: Protocol| {
        results(&started.start)
            .any(|check| check.protocol == protocol && !check.ok && !check.waived)
    };
    let served = |protocol: &&Protocol| started.answered.contains(*protocol) && !broken(**protocol);
    definition.protocols.iter().filter(served).map(|protocol| protocol.name()).collect()
}

fn describe_checks(start: &StartRecord) -> String {
    let mut text = String::new();
    for check in results(start) {
        let mark = match check {
            CheckResult { ok: true, .. } => "✓",
            CheckResult { waived: true, .. } => "✗ (waived)",
            CheckResult { answered: false, .. } => "– (late)",
            _ => "✗",
        };
        let _ = write!(text, "  {mark} {} {}", check.protocol, check.name);
        if check.ok {
            let _ =
                writeln!(text, ": {} → {} (expected {})", check.asked, check.got, check.expected);
            continue;
        }
        let _ = writeln!(text);
        for (what, said) in
            [("asked", &check.asked), ("expected", &check.expected), ("got", &check.got)]
        {
            let _ = writeln!(
                text,
                "      {what:<9}{}",
                said.trim_end().replace('\n', "\n               ")
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
                "  the last lines that {} wrote:\n    {}",
                part.name,
                tail.replace('\n', "\n    ")
            );
        }
    }
    let all: Vec<&CheckResult> = results(start).collect();
    let passed = all.iter().filter(|check| check.ok).count();
    let _ = match all.len() {
        0 if start.failure.is_some() => Ok(()),
        0 => {
            writeln!(text, "  no contract (`checks` in its file), so only its start was checked")
        }
        n => writeln!(text, "  {passed} of {n} checks passed"),
    };
    text
}
