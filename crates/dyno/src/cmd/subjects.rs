//! `dyno subjects list|build|check`.

use std::fmt::Write as _;
use std::path::Path;

use dyno_archive::Protocol;
use dyno_archive::start::FailureKind;
use dyno_contract::contracts;
use dyno_launch::guard::Guard;
use dyno_launch::supervision::{Interrupts, Supervision};
use dyno_report::format::{bytes, micros};
use dyno_report::terminal::{line, shown};
use dyno_runner::plan::{Overrides, resolve};
use dyno_runner::run::{Ended, Runner};
use dyno_runner::suite::SuiteFile;
use dyno_subject::build;
use dyno_subject::definition::{self, Definition};
use dyno_workload::text::nearest;

use crate::cli::{SubjectsArgs, SubjectsCommand};
use crate::exit::{Exit, bad};
use crate::terminal::{Third, catch_interrupts, print, say};

const INTERRUPTED: &str = "Interrupted: what is not listed above was not done.";

/// A subject as it is started: by itself, or as one of its variants.
struct Chosen {
    id: String,
    definition: Definition,
}

pub fn run(args: &SubjectsArgs) -> anyhow::Result<Exit> {
    let folder = args.places.subjects.find(None)?;
    let all = with_variants(definition::all(&folder)?)?;
    let guard = Guard::start()?;
    match &args.command {
        None => list(&choose(all, &[])?, &guard),
        Some(SubjectsCommand::List { names }) => list(&choose(all, names)?, &guard),
        Some(SubjectsCommand::Build { names }) => {
            build_all(&choose(all, names)?, Selection::by(names), &args.places.cache_folder()?, &guard)
        }
        Some(SubjectsCommand::Check { names }) => {
            let chosen = choose(all, names)?;
            check_all(&chosen, Selection::by(names), &folder, &args.places.cache_folder()?, &guard)
        }
    }
}

/// The subjects that a command is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Selection {
    /// Every subject that can be built and started here: one that is skipped is no failure.
    All,
    /// Subjects named on the command line: one that is skipped is a failure.
    Named,
}

impl Selection {
    fn by(names: &[String]) -> Selection {
        if names.is_empty() { Selection::All } else { Selection::Named }
    }

    /// The exit status once a subject was skipped.
    fn skipped(self, exit: Exit) -> Exit {
        if self == Selection::Named { Exit::Failed } else { exit }
    }
}

fn with_variants(definitions: Vec<Definition>) -> anyhow::Result<Vec<Chosen>> {
    let mut all = Vec::new();
    for definition in definitions {
        let variants = definition.variants.keys().map(|variant| {
            let id = format!("{}/{variant}", definition.name);
            Ok(Chosen { id, definition: definition.with_variant(variant).map_err(bad)? })
        });
        let variants: Vec<Chosen> = variants.collect::<anyhow::Result<_>>()?;
        all.push(Chosen { id: definition.name.clone(), definition });
        all.extend(variants);
    }
    Ok(all)
}

/// `NAME` is a subject with its variants, `NAME/VARIANT` one of them; no name is all.
fn choose(all: Vec<Chosen>, names: &[String]) -> anyhow::Result<Vec<Chosen>> {
    if let Some(unknown) = names.iter().find(|n| !all.iter().any(|c| c.id == **n)) {
        let hint = match nearest(unknown, all.iter().map(|c| c.id.as_str())) {
            Some(near) => format!("did you mean {near:?}?"),
            None => "`dyno subjects list` shows which there are".into(),
        };
        return Err(bad(format!("there is no subject {unknown:?}; {hint}")));
    }
    let wanted = |c: &Chosen| names.is_empty() || names.contains(&c.definition.name) || names.contains(&c.id);
    Ok(all.into_iter().filter(wanted).collect())
}

fn list(chosen: &[Chosen], guard: &Guard) -> anyhow::Result<Exit> {
    let interrupts = Interrupts::new();
    let supervision = Supervision { guard, interrupts: &interrupts };
    let mut table = format!("{:<22} {:<12} {:<30} here\n", "subject", "language", "protocols");
    for Chosen { id, definition: d } in chosen {
        let state = d.unmet(&supervision).map_or("yes".into(), |why| format!("no: {why}"));
        let protocols: Vec<&str> = d.protocols.iter().map(|protocol| protocol.name()).collect();
        let words = format!("{id:<22} {:<12} {:<30} {state}", d.language, protocols.join(" "));
        let _ = writeln!(table, "{}", shown(&words));
    }
    print(&table)?;
    Ok(Exit::Valid)
}

fn build_all(chosen: &[Chosen], selection: Selection, cache: &Path, guard: &Guard) -> anyhow::Result<Exit> {
    let interrupts = catch_interrupts("ending the build", Third::Ends)?;
    let supervision = Supervision { guard, interrupts: &interrupts };
    let mut exit = Exit::Valid;
    for (i, Chosen { id, definition: d }) in chosen.iter().enumerate() {
        // Most variants share their subject's build.
        let is_built = |c: &Chosen| c.definition.name == d.name && c.definition.build == d.build;
        if chosen[..i].iter().any(is_built) {
            continue;
        }
        if let Some(why) = d.unmet(&supervision) {
            print(&format!("{}\n", shown(&format!("{id:<22} skipped: {why}"))))?;
            exit = selection.skipped(exit);
            continue;
        }
        if interrupts.count() > 0 {
            say(INTERRUPTED);
            return Ok(Exit::Failed);
        }
        match build::build(d, cache, &supervision) {
            Ok(built) => match built.build {
                None => print(&format!("{:<22} needs no build\n", line(id)))?,
                Some(b) => {
                    let how = if b.cached { "built before, in" } else { "built in" };
                    let cpu =
                        b.cpu_ns.map_or(String::new(), |ns| format!(", {} of CPU", micros(ns as f64 / 1e3)));
                    let size = bytes(b.artefact_bytes as f64);
                    print(&format!(
                        "{:<22} {how} {}{cpu}, {size}\n",
                        line(id),
                        micros(b.wall_ns as f64 / 1e3)
                    ))?;
                }
            },
            Err(why) => {
                print(&format!("{}\n", shown(&format!("{id:<22} build failed: {why}"))))?;
                exit = Exit::Failed;
            }
        }
    }
    Ok(exit)
}

/// A check is a run of a suite whose load is nearly nothing: the same starting, checking and stopping. Each protocol has
/// a workload, so that every subject takes part.
fn check_all(
    chosen: &[Chosen],
    selection: Selection,
    folder: &Path,
    cache: &Path,
    guard: &Guard,
) -> anyhow::Result<Exit> {
    let names: Vec<String> = chosen.iter().map(|c| format!("{:?}", c.id)).collect();
    let workload = |protocol: Protocol| {
        let (name, protocol, tls) = (protocol.name(), protocol.base_name(), protocol.is_tls());
        format!(
            "[[workloads]]\nname = {name:?}\nprotocol = {protocol:?}\ntls = {tls}\npath = \"/plaintext\"\n"
        )
    };
    let source = format!(
        "subjects = [{}]\n[suite]\nname = \"check\"\nrepeats = 1\norder = \"fixed\"\n[load]\nconnections = 1\nwarmup = \"0\"\nduration = \"50ms\"\ninterval = \"50ms\"\n{}",
        names.join(", "),
        Protocol::OF_SERVERS.map(workload).concat()
    );
    let suite = SuiteFile::parse(Path::new("check"), &source)?;
    let interrupts = catch_interrupts("ending after this subject is taken down", Third::Ends)?;
    let supervision = Supervision { guard, interrupts: &interrupts };
    let mut planned =
        resolve(suite, folder, &Overrides::default(), &dyno_launch::allowed_cpus(), &|subject| {
            subject.unmet(&supervision)
        })?;
    let built = dyno_runner::prepare::prepare(&mut planned, cache, &supervision, &mut |_| {})?;
    let header = dyno_archive::dir::Header {
        schema: dyno_archive::run::SCHEMA.into(),
        id: "check".into(),
        started: String::new(),
        command: Vec::new(),
        plan: planned.plan.clone(),
        facts: dyno_archive::Facts::default(),
        resumptions: Vec::new(),
    };
    let place = dyno_launch::folder::make("check", guard)?;
    let dir = dyno_archive::RunDir::create(&place, &header)?;
    let result = Runner {
        plan: &planned.plan,
        arms: &planned.arms,
        built: &built,
        backends: &[],
        dir: &dir,
        guard,
        interrupts: &interrupts,
        on: &mut |_| {},
    }
    .walk()
    .and_then(|ended| Ok((ended, dir.read()?)));
    let _ = std::fs::remove_dir_all(&place);
    let (ended, run) = result?;
    let exit = print_checks(&dyno_analysis::report::report(&run), chosen, selection)?;
    if ended == Ended::Interrupted {
        say(INTERRUPTED);
        return Ok(Exit::Failed);
    }
    Ok(exit)
}

fn print_checks(
    report: &dyno_analysis::Report,
    chosen: &[Chosen],
    selection: Selection,
) -> anyhow::Result<Exit> {
    let mut exit = Exit::Valid;
    for s in &report.subjects {
        if let Some(why) = &s.skipped {
            print(&format!("{}\n", shown(&format!("{:<22} skipped: {why}", s.id))))?;
            exit = selection.skipped(exit);
            continue;
        }
        for failure in &s.failures {
            let words = format!("{}: {}", failure.failure.kind.name(), failure.failure.message);
            print(&format!("{:<22} {}\n", line(&s.id), shown(&words)))?;
            exit = match failure.failure.kind {
                FailureKind::WrongAnswers if exit != Exit::Failed => Exit::Invalid,
                _ => Exit::Failed,
            };
        }
        let expected = chosen
            .iter()
            .find(|c| c.id == s.id)
            .map_or(0, |c| contracts::count(&c.definition.checks, &c.definition.protocols));
        let passed = s.checks.iter().filter(|c| c.ok).count();
        print(&format!("{:<22} {passed} of {} checks passed\n", line(&s.id), s.checks.len().max(expected)))?;
        for check in s.checks.iter().filter(|c| !c.ok) {
            let words = format!("{}: {}", check.name, check.detail.replace('\n', "\n    "));
            print(&format!("{:<22}   {}\n", "", shown(&words)))?;
            exit = if exit == Exit::Valid { Exit::Invalid } else { exit };
        }
    }
    Ok(exit)
}
