//! `dyno subjects list|build|check`.

use std::path::Path;

use dyno_report::format::{bytes, micros};
use dyno_runner::build::Care;
use dyno_runner::launch::guard::Guard;
use dyno_runner::plan::{Overrides, resolve};
use dyno_runner::run::Runner;
use dyno_runner::subject::{self, Definition};
use dyno_runner::suite::SuiteFile;
use dyno_runner::text::nearest;
use dyno_runner::{build, checks};

use crate::cli::{SubjectsArgs, SubjectsCommand};
use crate::exit::{Exit, bad};
use crate::terminal::catch_interrupts;

pub fn run(args: &SubjectsArgs) -> anyhow::Result<Exit> {
    let folder = args.places.subjects_folder(None)?;
    let all = subject::all(&folder)?;
    match &args.command {
        None => list(&choose(all, &[])?),
        Some(SubjectsCommand::List { names }) => list(&choose(all, names)?),
        Some(SubjectsCommand::Build { names }) => {
            build_all(&choose(all, names)?, &args.places.cache_folder()?)
        }
        Some(SubjectsCommand::Check { names }) => {
            check_all(&choose(all, names)?, &folder, &args.places.cache_folder()?)
        }
    }
}

fn choose(all: Vec<Definition>, names: &[String]) -> anyhow::Result<Vec<Definition>> {
    if let Some(unknown) = names.iter().find(|n| !all.iter().any(|d| d.name == **n)) {
        let hint = match nearest(unknown, all.iter().map(|d| d.name.as_str())) {
            Some(near) => format!("did you mean {near:?}?"),
            None => "`dyno subjects list` shows which there are".into(),
        };
        return Err(bad(format!("there is no subject {unknown:?}; {hint}")));
    }
    Ok(all.into_iter().filter(|d| names.is_empty() || names.contains(&d.name)).collect())
}

fn list(definitions: &[Definition]) -> anyhow::Result<Exit> {
    println!("{:<22} {:<12} {:<10} here", "subject", "language", "protocols");
    for d in definitions {
        let state = d.unmet().map_or("yes".into(), |why| format!("no: {why}"));
        println!("{:<22} {:<12} {:<10} {state}", d.name, d.language, d.protocols.join(" "));
        for variant in d.variants.keys() {
            println!("{:<22}", format!("{}/{variant}", d.name));
        }
    }
    Ok(Exit::Valid)
}

fn build_all(definitions: &[Definition], cache: &Path) -> anyhow::Result<Exit> {
    let interrupts = catch_interrupts("ending the build")?;
    let guard = Guard::start()?;
    let care = Care { guard: &guard, interrupts: &interrupts };
    let mut exit = Exit::Valid;
    for d in definitions {
        if let Some(why) = d.unmet() {
            println!("{:<22} skipped: {why}", d.name);
            continue;
        }
        match build::build(d, cache, &care) {
            Ok(built) => match built.build {
                None => println!("{:<22} needs no build", d.name),
                Some(b) => {
                    let how = if b.cached { "built before, in" } else { "built in" };
                    let cpu =
                        b.cpu_ns.map_or(String::new(), |ns| format!(", {} of CPU", micros(ns as f64 / 1e3)));
                    let size = bytes(b.artefact_bytes as f64);
                    println!("{:<22} {how} {}{cpu}, {size}", d.name, micros(b.wall_ns as f64 / 1e3));
                }
            },
            Err(why) => {
                println!("{:<22} build failed: {why}", d.name);
                exit = Exit::Failed;
            }
        }
    }
    Ok(exit)
}

/// A check is a run of a suite whose load is nearly nothing: the same starting, checking and stopping.
fn check_all(definitions: &[Definition], folder: &Path, cache: &Path) -> anyhow::Result<Exit> {
    let names: Vec<String> = definitions.iter().map(|d| format!("{:?}", d.name)).collect();
    let source = format!(
        "subjects = [{}]\n[suite]\nname = \"check\"\nrepeats = 1\norder = \"fixed\"\n[load]\nconnections = 1\nwarmup = \"0\"\nduration = \"50ms\"\ninterval = \"50ms\"\n",
        names.join(", ")
    );
    let suite = SuiteFile::parse(Path::new("check"), &source)?;
    let mut planned = resolve(suite, folder, &Overrides::default(), &dyno_runner::allowed_cpus())?;
    let interrupts = catch_interrupts("ending after this subject is taken down")?;
    let guard = Guard::start()?;
    let care = Care { guard: &guard, interrupts: &interrupts };
    let built = dyno_runner::run::prepare(&mut planned, cache, &care, &mut |_| {})?;
    let place = std::env::temp_dir().join(format!("dyno-check-{}", std::process::id()));
    let header = dyno_archive::dir::Header {
        schema: dyno_archive::dir::SCHEMA.into(),
        id: "check".into(),
        started: String::new(),
        command: Vec::new(),
        plan: planned.plan.clone(),
        facts: dyno_archive::Facts::default(),
    };
    guard.watch_folder(&place);
    let dir = dyno_archive::RunDir::create(&place, &header)?;
    let result = Runner {
        plan: &planned.plan,
        definitions: &planned.definitions,
        built: &built,
        dir: &dir,
        guard: &guard,
        interrupts: &interrupts,
        on: &mut |_| {},
    }
    .walk()
    .and_then(|_| Ok(dir.read()?));
    let _ = std::fs::remove_dir_all(&place);
    Ok(print_checks(&dyno_analysis::report::report(&result?)))
}

fn print_checks(report: &dyno_analysis::Report) -> Exit {
    let mut exit = Exit::Valid;
    for s in &report.subjects {
        if let Some(why) = &s.skipped {
            println!("{:<22} skipped: {why}", s.id);
            continue;
        }
        for failure in &s.failures {
            println!("{:<22} {}: {}", s.id, failure.failure.kind.name(), failure.failure.message);
            exit = Exit::Failed;
        }
        let passed = s.checks.iter().filter(|c| c.ok).count();
        println!(
            "{:<22} {passed} of {} checks passed",
            s.id,
            s.checks.len().max(checks::contract("hello").len())
        );
        for check in s.checks.iter().filter(|c| !c.ok) {
            println!("{:<22}   {}: {}", "", check.name, check.detail.replace('\n', "\n    "));
            exit = if exit == Exit::Valid { Exit::Invalid } else { exit };
        }
    }
    exit
}
