//! `dyno subjects build`: builds the chosen subjects.

use std::path::Path;

use dyno_launch::guard::Guard;
use dyno_launch::supervision::Supervision;
use dyno_report::format::{bytes, micros};
use dyno_subject::build::{self, Built};
use dyno_subject::definition::prerequisites::Prerequisites;

use super::{ChosenSubjects, INTERRUPTED, Subject, show_output};
use crate::exit::Exit;
use crate::terminal::{Printer, ThirdInterrupt, catch_interrupts, say};

/// Builds the chosen subjects, and prints a row for each. A closed standard output ends no build.
pub(super) fn run(chosen: &ChosenSubjects, cache: &Path, guard: &Guard) -> anyhow::Result<Exit> {
    let interrupts = catch_interrupts("ending the build", ThirdInterrupt::Ends)?;
    let supervision = Supervision { guard, interrupts: &interrupts };
    let mut printer = Printer::default();
    let built = build_all(chosen, cache, &supervision, &mut |id, result| {
        printer.print(|| chosen.row(id, result));
    });
    let Some(exit) = built else {
        say(INTERRUPTED);
        return Ok(Exit::Failed);
    };
    printer.end(exit).map(|()| exit)
}

/// Builds the chosen subjects, and passes the result of each to `print_row`. `None`: interrupted.
pub(super) fn build_all(
    chosen: &ChosenSubjects,
    cache: &Path,
    supervision: &Supervision<'_>,
    print_row: &mut dyn FnMut(&str, &str),
) -> Option<Exit> {
    let prerequisites = Prerequisites::new(supervision);
    let (mut exit, mut processed) = (chosen.print_mistakes(), Vec::<&Subject>::new());
    for subject @ Subject { id, definition: d } in &chosen.subjects {
        let unmet_need = prerequisites.unmet_need(d);
        // A requirement seems unmet if its command was interrupted.
        if supervision.interrupts.count() > 0 {
            return None;
        }
        if let Some(reason) = unmet_need {
            print_row(id, &format!("skipped: {reason}"));
            exit = chosen.selection.exit_with_skipped(exit);
            continue;
        }
        // Most variants share their subject's build.
        let is_same = |s: &&&Subject| s.definition.name == d.name && s.definition.build == d.build;
        if let Some(earlier) = processed.iter().find(is_same) {
            print_row(id, &format!("same build as {}", earlier.id));
            continue;
        }
        processed.push(subject);
        match build::build(d, cache, supervision, &mut |text| show_output(id, text)) {
            Ok(built) => print_row(id, &build_time_text(&built)),
            Err(message) => {
                print_row(id, &format!("build failed: {message}"));
                exit = Exit::Failed;
            }
        }
    }
    Some(exit)
}

/// Describes the time and the size of a build.
pub(super) fn build_time_text(built: &Built) -> String {
    let Some(b) = &built.build else { return "needs no build".into() };
    let verb = if b.cached { "built before, in" } else { "built in" };
    let cpu = b.cpu_ns.map_or(String::new(), |ns| format!(", {} of CPU", micros(ns as f64 / 1e3)));
    format!("{verb} {}{cpu}, {}", micros(b.wall_ns as f64 / 1e3), bytes(b.artefact_bytes as f64))
}
