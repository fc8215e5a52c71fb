//! `dyno subjects list|build|check|import`: commands for the servers under test.

mod build;
mod check;
mod import;
mod list;
#[cfg(test)]
mod tests;

use dyno_config::text::{FileError, nearest};
use dyno_launch::guard::Guard;
use dyno_report::terminal::{escape_controls, escape_line};
use dyno_subject::definition::Definition;
use dyno_subject::definition::find::Folders;

use super::FolderOptions;
use crate::cli::{SubjectsArgs, SubjectsCommand};
use crate::exit::{Exit, usage_error};
use crate::terminal::{print_text, say};

const INTERRUPTED: &str = "Interrupted: subjects that are not listed above were not processed.";

/// Runs the subcommand; without one, lists all subjects.
pub fn run(args: &SubjectsArgs) -> anyhow::Result<Exit> {
    // An import names its own folder and needs no other subjects.
    if let Some(SubjectsCommand::Import(args)) = &args.command {
        return import::run(args);
    }
    let guard = Guard::start()?;
    let chosen = choose(args)?;
    let cache = || args.folder_options.cache_folder();
    match &args.command {
        Some(SubjectsCommand::Build { .. }) => build::run(&chosen, &cache()?, &guard),
        Some(SubjectsCommand::Check { .. }) => check::run(&chosen, &cache()?, &guard),
        None | Some(SubjectsCommand::List { .. } | SubjectsCommand::Import(_)) => {
            list::run(&chosen, &guard)
        }
    }
}

/// Chooses the subjects that the subcommand is for.
fn choose(args: &SubjectsArgs) -> anyhow::Result<ChosenSubjects> {
    let (names, except, scope) = match &args.command {
        Some(SubjectsCommand::Build { selection } | SubjectsCommand::Check { selection }) => {
            (&selection.names[..], &selection.except[..], FolderScope::Named)
        }
        Some(SubjectsCommand::List { names }) => (&names[..], &[][..], FolderScope::All),
        None | Some(SubjectsCommand::Import(_)) => (&[][..], &[][..], FolderScope::All),
    };
    ChosenSubjects::from_names(&args.folder_options, names, scope)?.exclude(except)
}

/// The folders from which a command without names takes its subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FolderScope {
    All,
    /// Only the folders that the user names, if any.
    Named,
}

/// The subjects that a command is for.
struct ChosenSubjects {
    folders: Folders,
    selection: Selection,
    /// Subjects in the order of their names, each before its variants.
    subjects: Vec<Subject>,
    /// Files with mistakes: the names of their subjects, and the errors.
    mistakes: Vec<(String, FileError)>,
}

/// A subject to start: the subject of a file, or one of its variants.
struct Subject {
    id: String,
    definition: Definition,
}

/// The way in which the subjects were chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Selection {
    /// Every subject that can be built and started here. A skipped subject is not a failure.
    All,
    /// Subjects named on the command line. A skipped subject is a failure.
    Named,
}

impl Selection {
    /// Returns the exit status after a subject was skipped.
    fn exit_with_skipped(self, exit: Exit) -> Exit {
        if self == Selection::Named { Exit::Failed } else { exit }
    }
}

impl ChosenSubjects {
    /// Chooses subjects: `NAME` with its variants, or `NAME/VARIANT`. Without names, all are
    /// chosen.
    fn from_names(
        folder_options: &FolderOptions,
        names: &[String],
        scope: FolderScope,
    ) -> anyhow::Result<ChosenSubjects> {
        let (folders, named_count) = folder_options.subjects.find_all(None)?;
        let definitions = match (names, named_count) {
            ([], 1..) if scope == FolderScope::Named => {
                Folders(folders.0[..named_count].to_vec()).definitions_in_folders()?
            }
            _ => folders.definitions()?,
        };
        let (mut subjects, mut mistakes) = (Vec::new(), Vec::new());
        for (name, read) in definitions {
            match read.and_then(|definition| with_variants(&definition)) {
                Ok(with_variants) => subjects.extend(with_variants),
                Err(error) => mistakes.push((name, error)),
            }
        }
        let selection = if names.is_empty() { Selection::All } else { Selection::Named };
        if selection == Selection::Named {
            check_names(names, &subjects, &mistakes)?;
            subjects.retain(|s| names.contains(&s.definition.name) || names.contains(&s.id));
            mistakes.retain(|(subject, _)| {
                names.iter().any(|name| name.split('/').next() == Some(subject))
            });
        }
        Ok(ChosenSubjects { folders, selection, subjects, mistakes })
    }

    /// Removes subjects from the selection.
    fn exclude(mut self, except: &[String]) -> anyhow::Result<ChosenSubjects> {
        check_names(except, &self.subjects, &self.mistakes)?;
        self.subjects.retain(|s| !except.contains(&s.definition.name) && !except.contains(&s.id));
        self.mistakes.retain(|(subject, _)| !except.contains(subject));
        Ok(self)
    }

    /// Width of a column with the names of the subjects.
    fn width(&self) -> usize {
        self.subjects.iter().map(|s| s.id.chars().count()).max().unwrap_or(0).max("subject".len())
    }

    /// Prints a row of a table whose first column is the subject.
    fn row(&self, id: &str, columns: &str) -> anyhow::Result<()> {
        print_text(&format!("{:<width$} {columns}\n", escape_line(id), width = self.width()))
    }

    /// Prints the mistakes of subject files, and returns the exit status for them.
    fn print_mistakes(&self) -> Exit {
        for (_, error) in &self.mistakes {
            say(&escape_controls(&error.to_string()));
        }
        if self.mistakes.is_empty() { Exit::Valid } else { Exit::Usage }
    }
}

/// Returns a subject and its variants.
fn with_variants(definition: &Definition) -> Result<Vec<Subject>, FileError> {
    let variants = definition.variants.keys().map(|variant| {
        let id = format!("{}/{variant}", definition.name);
        let file_error = |message: String| FileError::without_position(&definition.folder, message);
        Ok(Subject { id, definition: definition.with_variant(variant).map_err(file_error)? })
    });
    let itself = Subject { id: definition.name.clone(), definition: definition.clone() };
    std::iter::once(Ok(itself)).chain(variants).collect()
}

/// Refuses names that no subject has.
fn check_names(
    names: &[String],
    subjects: &[Subject],
    mistakes: &[(String, FileError)],
) -> anyhow::Result<()> {
    let is_known = |name: &String| {
        subjects.iter().any(|s| s.id == *name)
            || mistakes.iter().any(|(subject, _)| name.split('/').next() == Some(subject))
    };
    let Some(unknown) = names.iter().find(|name| !is_known(name)) else { return Ok(()) };
    let hint = match nearest(unknown, subjects.iter().map(|s| s.id.as_str())) {
        Some(near) => format!("did you mean {near:?}?"),
        None => "list subjects with `dyno subjects list`".into(),
    };
    Err(usage_error(format!("subject {unknown:?}: not found\nhint: {hint}")))
}

/// Shows a line of a build or of a starting server, if standard error is a terminal.
fn show_output(name: &str, text: &str) {
    if std::io::IsTerminal::is_terminal(&std::io::stderr()) {
        say(&escape_line(&format!("  {name} | {text}")));
    }
}
