//! One file per command.

mod calibrate;
mod doctor;
mod load;
mod plan;
mod report;
mod resume;
mod run;
mod subjects;

use std::path::{Path, PathBuf};

use dyno_runner::plan::Overrides;

use crate::cli::{Choices, Cli, Command, Places, SubjectsPlace};
use crate::exit::{Exit, bad};

pub fn dispatch(cli: Cli) -> anyhow::Result<Exit> {
    match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Load(args) => load::run(*args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Subjects(args) => subjects::run(&args),
        Command::Doctor(subjects) => doctor::run(&subjects),
        Command::ServeNull { port, while_stdin, write } => {
            if while_stdin {
                std::thread::spawn(|| {
                    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
                    std::process::exit(0);
                });
            }
            dyno_driver::null::serve(port, write.into())?;
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
            driver: self.driver.map(Into::into),
        }
    }
}

impl SubjectsPlace {
    /// Where the subjects are: as asked; else the first folder `subjects` beside the suite, above it, here, or above.
    fn find(&self, suite: Option<&Path>) -> anyhow::Result<PathBuf> {
        if let Some(folder) = &self.folder {
            return folder
                .canonicalize()
                .map_err(|error| bad(format!("--subjects {}: {error}", folder.display())));
        }
        let beside =
            suite.and_then(Path::parent).map(|p| if p.as_os_str().is_empty() { Path::new(".") } else { p });
        beside
            .and_then(|place| dyno_runner::suite::find_upwards(place, "subjects"))
            .or_else(|| dyno_runner::suite::find_upwards(Path::new("."), "subjects"))
            .ok_or_else(|| {
                bad("there is no folder `subjects` beside or above the suite or the current folder; name it with `--subjects FOLDER`")
            })
    }
}

impl Places {
    /// Where builds are kept.
    fn cache_folder(&self) -> anyhow::Result<PathBuf> {
        cache_folder(self.cache.as_deref())
    }
}

/// Makes the folder in which builds and calibrations are kept: the one that was asked for, or the user's own.
fn cache_folder(asked: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(folder) = asked {
        std::fs::create_dir_all(folder)?;
        return Ok(folder.canonicalize()?);
    }
    let folder = default_cache_folder();
    dyno_runner::launch::folder::make_own(&folder).map_err(|error| {
        anyhow::anyhow!("{} cannot be made: {error}; name another folder with `--cache`", folder.display())
    })?;
    Ok(folder)
}

/// Where builds and calibrations are kept unless the user says.
pub fn default_cache_folder() -> PathBuf {
    // One that is empty or relative counts as not set (XDG Base Directory Specification).
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base =
        folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache"))).unwrap_or_else(
            || std::env::temp_dir().join(format!("dyno-of-{}", dyno_runner::launch::folder::user())),
        );
    base.join("dyno")
}

/// The words by which this dyno was called, as records keep them.
fn command_line() -> Vec<String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// dyno's own version, and the commit it was built from.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
pub const COMMIT: Option<&str> = option_env!("DYNO_COMMIT");

/// The machine in one line.
pub fn machine_name(facts: &dyno_archive::Facts) -> String {
    let cpu = facts.cpu_model.as_deref().unwrap_or("an unknown CPU");
    let kernel = facts.kernel.as_deref().unwrap_or("of unknown version");
    format!("{} × {cpu}, Linux {kernel}", facts.cpus)
}
