//! `dyno subjects build`: builds the chosen subjects.

use std::path::Path;

use dyno_launch::guard::Guard;
use dyno_launch::supervision::Supervision;
use dyno_report::format::{bytes, micros};
use dyno_subject::build::{self, Built};
use dyno_subject::definition::prerequisites::Prerequisites;

use super::{ChosenSubjects, INTERRUPTED, Subject, show_output};
use crate::exit::Exit;
use crate::terminal::{ThirdInterrupt, catch_interrupts, say};

/// Builds the chosen subjects, and prints a row for each.
pub(super) fn run(chosen: &ChosenSubjects, cache: &Path, guard: &Guard) -> anyhow::Result<Exit> {
    let interrupts = catch_interrupts("ending the build", ThirdInterrupt::Ends)?;
    let supervision = Supervision { guard, interrupts: &interrupts };
    let prerequisites = Prerequisites::new(&supervision);
    let mut exit = chosen.print_mistakes();
    for (i, Subject { id, definition: d }) in chosen.subjects.iter().enumerate() {
        // Most variants share their subject's build.
        let is_built = |s: &Subject| s.definition.name == d.name && s.definition.build == d.build;
        if let Some(earlier) = chosen.subjects[..i].iter().find(|s| is_built(s)) {
            // The variant may have other unmet requirements.
            match prerequisites.unmet_need(d) {
                None => chosen.row(id, &format!("as {}", earlier.id))?,
                Some(reason) => chosen.row(id, &format!("skipped: {reason}"))?,
            }
            continue;
        }
        if let Some(reason) = prerequisites.unmet_need(d) {
            chosen.row(id, &format!("skipped: {reason}"))?;
            exit = chosen.selection.exit_with_skipped(exit);
            continue;
        }
        if interrupts.count() > 0 {
            say(INTERRUPTED);
            return Ok(Exit::Failed);
        }
        match build::build(d, cache, &supervision, &mut |text| show_output(id, text)) {
            Ok(built) => chosen.row(id, &build_time_text(&built))?,
            Err(message) => {
                chosen.row(id, &format!("build failed: {message}"))?;
                exit = Exit::Failed;
            }
        }
    }
    Ok(exit)
}

/// Describes the time and the size of a build.
pub(super) fn build_time_text(built: &Built) -> String {
    let Some(b) = &built.build else { return "needs no build".into() };
    let verb = if b.cached { "built before, in" } else { "built in" };
    let cpu = b.cpu_ns.map_or(String::new(), |ns| format!(", {} of CPU", micros(ns as f64 / 1e3)));
    format!("{verb} {}{cpu}, {}", micros(b.wall_ns as f64 / 1e3), bytes(b.artefact_bytes as f64))
}
