//! `dyno subjects list`: lists the subjects, with the reason if one is unavailable here.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use dyno_launch::guard::Guard;
use dyno_launch::supervision::{Interrupts, Supervision};
use dyno_report::terminal::escape_controls;
use dyno_subject::definition::prerequisites::Prerequisites;

use super::{ChosenSubjects, Subject};
use crate::exit::Exit;
use crate::terminal::print_text;

/// Lists the chosen subjects, with the reason if one is unavailable here.
pub(super) fn run(chosen: &ChosenSubjects, guard: &Guard) -> anyhow::Result<Exit> {
    let interrupts = Interrupts::new();
    let supervision = Supervision { guard, interrupts: &interrupts };
    let prerequisites = Prerequisites::new(&supervision);
    print_text(&table(chosen, &prerequisites))?;
    if let Some(command) = install_command(chosen, &prerequisites) {
        print_text(&format!("\nInstall missing Debian packages with: {command}\n"))?;
    }
    Ok(chosen.print_mistakes())
}

/// Returns a row for each subject, and for each file with a mistake.
pub(super) fn table(chosen: &ChosenSubjects, prerequisites: &Prerequisites<'_>) -> String {
    let width = chosen.width();
    let mut table = format!("{:<width$} {:<12} {:<30} here\n", "subject", "language", "protocols");
    for Subject { id, definition: d } in &chosen.subjects {
        let state =
            chosen.folders.unavailable_reason(d, prerequisites).map_or("yes".into(), |reason| {
                format!("no: {}", reason.lines().next().unwrap_or_default())
            });
        let protocols: Vec<&str> = d.protocols.iter().map(|protocol| protocol.name()).collect();
        let row = format!("{id:<width$} {:<12} {:<30} {state}", d.language, protocols.join(" "));
        let _ = writeln!(table, "{}", escape_controls(&row));
    }
    for (name, error) in &chosen.mistakes {
        let message = error.message.lines().next().unwrap_or_default();
        let _ = writeln!(
            table,
            "{}",
            escape_controls(&format!("{name:<width$} {:<12} {:<30} no: {message}", "", ""))
        );
    }
    table
}

/// Returns the command that installs the Debian packages of all unmet requirements, including those
/// of back ends.
fn install_command(chosen: &ChosenSubjects, prerequisites: &Prerequisites<'_>) -> Option<String> {
    let definitions =
        chosen.subjects.iter().flat_map(|s| chosen.folders.with_backends(&s.definition)).flatten();
    let packages: BTreeSet<String> = definitions
        .flat_map(|definition| {
            let unmet = prerequisites.unmet_needs(&definition);
            unmet.filter_map(|(need, _)| need.debian.clone()).collect::<Vec<_>>()
        })
        .collect();
    let packages: Vec<String> = packages.into_iter().collect();
    (!packages.is_empty()).then(|| format!("apt-get install {}", packages.join(" ")))
}
