//! Runs the commands. There is one file or folder per command.

mod calibrate;
mod compare;
mod doctor;
mod explain;
mod load;
mod plan;
mod prepare;
mod profile;
mod report;
mod resume;
mod run;
mod subjects;
mod watch;

use std::hash::{BuildHasher as _, RandomState};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use dyno_archive::RunDir;
use dyno_archive::dir::ArchiveError;
use dyno_model::run::{RunHeader, SCHEMA};
use dyno_model::{Plan, RunId};
use dyno_subject::definition::find::Folders;
use dyno_suite::plan::Overrides;

use crate::cli::{Choices, Cli, Command, FolderOptions, SubjectFolders};
use crate::exit::{Exit, usage_error};
use crate::{terminal, this_machine};

/// Runs the command that the user named.
pub fn dispatch(cli: Cli) -> anyhow::Result<Exit> {
    match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Load(args) => load::run(*args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Profile(args) => profile::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Subjects(args) => subjects::run(&args),
        Command::Doctor(subjects) => doctor::run(&subjects),
        Command::Explain(args) => explain::run(&args),
        Command::ServeClosed { port } => {
            dyno_responder::reserve_port(port)?;
            Ok(Exit::Valid)
        }
        Command::ServeNull { port, while_stdin, write, answer, answer_type, work } => {
            if while_stdin {
                std::thread::spawn(|| {
                    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
                    std::process::exit(0);
                });
            }
            let fixed_response = answer.map(|answer| dyno_responder::Content {
                media: answer_type,
                body: answer.into_bytes(),
            });
            dyno_responder::serve(port, write, fixed_response.as_ref(), work)?;
            Ok(Exit::Valid)
        }
    }
}

impl Choices {
    fn overrides(&self) -> Overrides {
        Overrides {
            seed: self.seed,
            repeats: self.repeats,
            only: self.only.clone(),
            driver: self.driver,
            observe: self.observe.clone(),
        }
    }
}

impl SubjectFolders {
    /// Finds the folders of the subjects, in this order:
    ///
    /// - the folders of `--subjects`, or else of `DYNO_SUBJECTS`;
    /// - the first folder `subjects` next to the suite or above it;
    /// - the first folder `subjects` in the current folder or above it.
    fn find(&self, suite: Option<&Path>) -> anyhow::Result<Folders> {
        self.find_all(suite).map(|(folders, _)| folders)
    }

    /// Finds the folders of the subjects. Also returns the number of folders that the user named.
    fn find_all(&self, suite: Option<&Path>) -> anyhow::Result<(Folders, usize)> {
        let mut folders = Vec::new();
        let mut add = |folder: PathBuf| {
            if !folders.contains(&folder) {
                folders.push(folder);
            }
            folders.len()
        };
        let mut named_count = 0;
        // `add` returns the number of different folders so far.
        for folder in self.named_folders() {
            let canonical = folder.canonicalize();
            named_count = add(canonical.map_err(|error| {
                usage_error(format!("--subjects {}: cannot be read: {error}", folder.display()))
            })?);
        }
        let suite_folder = suite
            .and_then(Path::parent)
            .map(|p| if p.as_os_str().is_empty() { Path::new(".") } else { p });
        for start in suite_folder.into_iter().chain([Path::new(".")]) {
            dyno_suite::file::find_upwards(start, "subjects").map(&mut add);
        }
        if folders.is_empty() {
            return Err(usage_error(
                "subjects: no such folder next to the suite, in the current folder, or in a folder \
                 above them\nhint: name the folder with --subjects FOLDER",
            ));
        }
        Ok((Folders(folders), named_count))
    }

    /// Returns the folders that the user named.
    fn named_folders(&self) -> Vec<PathBuf> {
        if !self.folders.is_empty() {
            return self.folders.clone();
        }
        let named = std::env::var_os("DYNO_SUBJECTS").unwrap_or_default();
        std::env::split_paths(&named).filter(|path| !path.as_os_str().is_empty()).collect()
    }
}

impl FolderOptions {
    /// Creates the folder of the builds, and returns its path.
    fn cache_folder(&self) -> anyhow::Result<PathBuf> {
        cache_folder(self.cache.as_deref())
    }
}

/// Creates the folder of builds and calibrations: `requested`, or the default folder of the user.
fn cache_folder(requested: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(folder) = requested {
        return std::fs::create_dir_all(folder).and_then(|()| folder.canonicalize()).map_err(
            |error| {
                usage_error(format!(
                    "--cache {}: cannot be used: {error}\nhint: name a folder that can be written",
                    folder.display()
                ))
            },
        );
    }
    let folder = this_machine::default_cache_folder();
    dyno_launch::folder::make_private(&folder).map_err(|error| {
        usage_error(format!(
            "{}: cannot be used for builds: {error}\nhint: name another folder with --cache",
            folder.display()
        ))
    })?;
    Ok(folder)
}

/// Opens the archive of a run from the command line.
fn open_run(path: &Path) -> anyhow::Result<RunDir> {
    if !path.try_exists().unwrap_or(true) {
        return Err(usage_error(format!(
            "{}: no such run\nhint: name the folder of a run, such as runs/hello-20260102-030405",
            path.display()
        )));
    }
    if path.is_dir() && !path.join("run.json").try_exists().unwrap_or(true) {
        return Err(usage_error(format!(
            "{}: is not the folder of a run, because run.json is missing\nhint: name the folder of \
             a run, such as runs/hello-20260102-030405",
            path.display()
        )));
    }
    Ok(RunDir::open(path)?)
}

/// Creates an archive in the folder that `option` names. Called before the measurements, because an
/// unwritable folder would waste them.
fn create_archive(option: &str, folder: &Path, plan: &Plan) -> anyhow::Result<RunDir> {
    RunDir::create_among(folder, header(plan))
        .and_then(RunDir::lock)
        .map_err(|error| archive_folder_error(option, error))
}

/// Creates the folder of archives that `option` names, and checks that an archive can be created in
/// it. Called before work that takes long.
fn check_archive_folder(option: &str, folder: &Path) -> anyhow::Result<()> {
    let test = folder.join(format!(".dyno-{}", std::process::id()));
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::create_dir(&test))
        .and_then(|()| std::fs::remove_dir(&test))
        .map_err(|source| {
            archive_folder_error(option, ArchiveError::Write { path: folder.into(), source })
        })
}

/// Returns the error of a folder of archives that cannot be used. A full disk is no usage error.
fn archive_folder_error(option: &str, error: ArchiveError) -> anyhow::Error {
    let is_out_of_space = matches!(&error, ArchiveError::Write { source, .. }
        if is_out_of_space(source.kind()));
    let error = anyhow::Error::new(error);
    match is_out_of_space {
        true => error.context(option.to_string()),
        false => usage_error(format!("{option} {error:#}\nhint: name another folder")),
    }
}

/// Whether a write failed because the disk, a quota or a size limit is full.
const fn is_out_of_space(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

/// Prints a sentence, and the command that shows the report of an archive.
fn print_saved(dir: &RunDir, sentence: &str) {
    let path = terminal::quote(&dir.path().display().to_string());
    terminal::say(&format!("\n{sentence} To see the report:\n  dyno report {path}"));
}

/// The sentence about an archive with measurements.
const MEASUREMENTS_SAVED: &str = "The measurements are saved.";

/// Returns the header of a run that begins now.
fn header(plan: &Plan) -> RunHeader {
    let (id, started) = name_run(&plan.suite.name);
    RunHeader {
        schema: SCHEMA.into(),
        id,
        run_id: random_run_id(),
        started,
        command: command_line(),
        plan: plan.clone(),
        facts: dyno_observer::facts::read_facts(this_machine::VERSION, this_machine::COMMIT),
        resumptions: Vec::new(),
    }
}

/// Returns the id of a new run. The hasher of `std` has random keys.
fn random_run_id() -> RunId {
    let random = RandomState::new();
    RunId::from_bits(random.hash_one(0), random.hash_one(1))
}

/// Returns the name of a run, such as `hello-20260102-030405`, and the same instant as RFC 3339.
fn name_run(suite: &str) -> (String, String) {
    let started = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let digits: String = started.chars().filter(char::is_ascii_digit).collect();
    (format!("{}-{}-{}", folder_name(suite), &digits[..8], &digits[8..]), started)
}

/// Converts the name of a suite to the beginning of a folder name. The result is short enough for
/// any file system, and does not look like an option.
fn folder_name(suite: &str) -> String {
    /// In bytes. A file name has at most 255, and the time and a number follow.
    const MAX_BYTES: usize = 100;
    let is_safe = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let safe: String = suite.chars().map(|c| if is_safe(c) { c } else { '-' }).collect();
    let name = safe.trim_matches('-');
    let name = if name.is_empty() { "run" } else { name };
    name.char_indices()
        .take_while(|(at, c)| at + c.len_utf8() <= MAX_BYTES)
        .map(|(_, c)| c)
        .collect()
}

/// Returns the words of this command line, for the archive.
fn command_line() -> Vec<String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use dyno_model::plan::DriverKind;

    use super::*;
    use crate::exit::exit_status;

    fn parse(words: &[&str]) -> Cli {
        let words = ["dyno"].iter().chain(words).map(Into::into);
        Cli::read(&words.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn plan_and_run_have_same_choices() {
        let options = ["--only", "a", "--repeats", "4", "--seed", "9", "--driver", "epoll"];
        for command in ["plan", "run"] {
            let cli = parse(&[&[command, "suite.toml"], &options[..]].concat());
            let overrides = match cli.command {
                Command::Plan(args) => args.choices.overrides(),
                Command::Run(args) => args.choices.overrides(),
                other => panic!("{other:?}"),
            };
            assert_eq!((overrides.seed, overrides.repeats), (Some(9), Some(4)), "{command}");
            assert_eq!(overrides.driver, Some(DriverKind::Epoll), "{command}");
            assert_eq!(overrides.only, ["a"], "{command}");
        }
    }

    #[test]
    fn output_that_is_file_of_run_is_refused() {
        let run = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/hello/run");
        let header = format!("{run}/run.json");
        for command in [&["report", run, "--format", "json"][..], &["compare", run, run]] {
            let error = dispatch(parse(&[command, &["-o", &header]].concat())).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("this output would overwrite an input"), "{text}");
            assert_eq!(exit_status(&error), Exit::Usage);
        }
    }

    #[test]
    fn unusable_archive_folder_is_usage_error() {
        let root = tempfile::tempdir().unwrap();
        let (file, folder) = (root.path().join("file"), root.path().join("a/b"));
        std::fs::write(&file, "").unwrap();
        let error = check_archive_folder("--runs", &file).unwrap_err();
        assert!(error.is::<crate::exit::BadInput>(), "{error:?}");
        assert!(error.to_string().starts_with("--runs "), "{error}");
        check_archive_folder("--runs", &folder).unwrap();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        let full = ErrorKind::StorageFull.into();
        let error = ArchiveError::Write { path: folder, source: full };
        assert!(!archive_folder_error("--runs", error).is::<crate::exit::BadInput>());
    }

    #[test]
    fn folder_name_of_any_suite_is_safe() {
        let cases = [
            ("hello", "hello"),
            ("", "run"),
            ("../../x", "x"),
            ("-rf", "rf"),
            ("a b/c", "a-b-c"),
            ("日本", "日本"),
        ];
        for (name, folder) in cases {
            assert_eq!(folder_name(name), folder, "{name:?}");
        }
        assert_eq!(folder_name(&"é".repeat(300)).len(), 100);
    }
}
