//! `dyno calibrate --verdicts`: runs servers with known bottlenecks and compares the verdicts with
//! the correct verdicts.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use dyno_analysis::report::Report;
use dyno_analysis::validation::{KnownStep, NotRun, User, Validation};
use dyno_archive::RunDir;
use dyno_launch::environment::{DynoVariables, Environment};
use dyno_launch::folder::user;
use dyno_launch::group;
use dyno_launch::guard::Guard;
use dyno_launch::log::Log;
use dyno_launch::supervision::Supervision;
use dyno_launch::tool::{ToolCommand, ToolExit, ToolOutput, duration_text};
use dyno_observer::cgroup::Layout;
use dyno_observer::facts::may_make_groups;
use dyno_report::{json, validation};
use dyno_testkit::{Behaviour, Need, Runtime, behaviours};

use super::known_bottlenecks;
use crate::calibration::machine;
use crate::cli::CalibrateArgs;
use crate::cmd::report::write_out;
use crate::exit::{Exit, usage_error};
use crate::terminal::{self, ThirdInterrupt, quote};

/// The user and group ID of an account without rights.
const UNPRIVILEGED: u32 = 65_534;

/// Error of a calibration that could not test any verdict.
const NOTHING_TESTED: &str = "--verdicts: no verdict could be tested, because no server ran, or no \
                              load was valid\nhint: the result lists the reasons. Choose other \
                              servers, or use a quieter machine";

/// Time limit of the build of a behaviour, in case it hangs.
const BUILD_DEADLINE: Duration = Duration::from_secs(900);

/// Time limit of a run of a behaviour, in case it hangs.
const RUN_DEADLINE: Duration = Duration::from_secs(180);

/// Time limit of a run to stop its servers and remove its control groups after it is ended.
const GRACE: Duration = Duration::from_secs(10);

/// Type of a file system in memory (`statfs`).
const TMPFS: u64 = 0x0102_1994;

/// Runs the servers, and writes how many verdicts are correct.
pub fn run(args: &CalibrateArgs) -> anyhow::Result<Exit> {
    let chosen = choose_behaviours(&args.only)?;
    let source = source_tree()?;
    let interrupts =
        terminal::catch_interrupts("ending early: there will be no result", ThirdInterrupt::Ends)?;
    let guard = Guard::start()?;
    let supervision = Supervision { guard: &guard, interrupts: &interrupts };
    let cache = super::super::cache_folder(args.cache.as_deref())?;
    let folder = guard.make_folder("verdicts")?;
    let bench = Bench { source, cache, folder, supervision };
    let measured = bench.measure_all(&chosen);
    let removed = fs::remove_dir_all(&bench.folder);
    if removed.is_ok() {
        guard.forget_folder(&bench.folder);
    }
    let (steps, not_run) = measured?;
    removed.with_context(|| format!("{}: cannot be removed", bench.folder.display()))?;
    let result = Validation::new(machine(), steps, not_run);
    let text = match args.format.is_text() {
        true => validation::text(&result, terminal::style()),
        false => json::lines(&result),
    };
    write_out(args.output.as_deref(), &text)?;
    if result.high_wrong == 0 && result.judged == 0 {
        return Err(anyhow::Error::msg(NOTHING_TESTED));
    }
    Ok(if result.high_wrong == 0 { Exit::Valid } else { Exit::Invalid })
}

/// Returns the behaviours that `only` names, or all behaviours if `only` is empty.
fn choose_behaviours(only: &[String]) -> anyhow::Result<Vec<&'static Behaviour>> {
    if only.is_empty() {
        return Ok(behaviours().collect());
    }
    let names = || behaviours().map(|b| b.name).collect::<Vec<_>>().join(", ");
    let find = |name: &String| {
        let problem = || {
            usage_error(format!(
                "--only {name}: unknown behaviour\nhint: choose one of {}",
                names()
            ))
        };
        dyno_testkit::find(name).ok_or_else(problem)
    };
    only.iter().map(find).collect()
}

/// Finds the source tree of dyno, above the current folder or above its executable.
fn source_tree() -> anyhow::Result<PathBuf> {
    let starts = [std::env::current_dir().ok(), std::env::current_exe().ok()];
    let trees = starts.iter().flatten().flat_map(|start| start.ancestors());
    let is_tree = |path: &&Path| path.join("crates/testkit/Cargo.toml").is_file();
    trees.into_iter().find(is_tree).map(Path::to_path_buf).ok_or_else(|| {
        usage_error(
            "--verdicts: the servers with known bottlenecks were not found\n\
             hint: run dyno in its source tree (git clone), with cargo installed",
        )
    })
}

/// The steps of a behaviour, or the reason why the behaviour has no steps.
type Measurement = Result<Vec<KnownStep>, String>;

/// The measured steps, and the behaviours that did not run.
type KnownSteps = (Vec<KnownStep>, Vec<NotRun>);

/// The folders in which servers are built and run, and the supervision of their processes.
struct Bench<'a> {
    source: PathBuf,
    cache: PathBuf,
    /// Temporary folder, removed at the end.
    folder: PathBuf,
    supervision: Supervision<'a>,
}

impl Bench<'_> {
    /// Runs each behaviour as each user. Returns the steps, and the behaviours that did not run.
    fn measure_all(&self, chosen: &[&'static Behaviour]) -> anyhow::Result<KnownSteps> {
        // The ordinary user must be able to read the programs.
        fs::set_permissions(&self.folder, Permissions::from_mode(0o755))?;
        self.build_testkit()?;
        let (mut steps, mut not_run) = (Vec::new(), Vec::new());
        let missing = self.build_servers(chosen)?;
        let mut skip = |behaviour: &Behaviour, user, reason| {
            not_run.push(NotRun { behaviour: behaviour.name.into(), user, reason });
        };
        for user in self.users() {
            for behaviour in chosen {
                let missing_runtime =
                    missing.iter().find(|(runtime, _)| needs(behaviour, *runtime));
                let obstacle = match missing_runtime {
                    Some((_, reason)) => Some(reason.clone()),
                    None => self.unavailable_reason(behaviour, user),
                };
                let outcome = match obstacle {
                    Some(reason) => Err(reason),
                    None => self.measure_again_if_invalid(behaviour, user)?,
                };
                match outcome {
                    Ok(measured) => {
                        print_result(behaviour, user, &measured);
                        steps.extend(measured);
                    }
                    Err(reason) => {
                        terminal::say(&format!("calibrate: {}: not run: {reason}", behaviour.name));
                        skip(behaviour, user, reason);
                    }
                }
            }
        }
        Ok((steps, not_run))
    }

    /// Returns the users as which the servers run.
    fn users(&self) -> Vec<User> {
        match is_root() {
            true => vec![User::Root, User::Ordinary],
            false => vec![User::Ordinary],
        }
    }

    fn programs(&self) -> PathBuf {
        self.folder.join("programs")
    }

    fn environment(&self, temporary: &Path) -> Environment {
        Environment::for_tool(&DynoVariables::read(), &[], temporary)
    }

    /// Runs a shell command. `Err`: its failure, with its last output.
    fn shell(
        &self,
        command: &str,
        folder: &Path,
        environment: &Environment,
        deadline: Duration,
    ) -> anyhow::Result<Result<(), String>> {
        let log = Log::anonymous(environment.secret_values())?;
        let tool = ToolCommand { command, folder, environment, deadline };
        Ok(match tool.run_with_grace(&log, &self.supervision, GRACE, &mut |_| {})? {
            ToolExit::Ended { status, .. } if status.success() => Ok(()),
            ToolExit::Ended { status, .. } => Err(format!("{status}: {}", log.tail(5))),
            ToolExit::Interrupted => anyhow::bail!("--verdicts: interrupted"),
            ToolExit::TimedOut | ToolExit::TooMuchOutput => {
                Err(format!("had not ended after {}:\n{}", duration_text(deadline), log.tail(5)))
            }
        })
    }

    /// Builds the Rust server in the cache, so that it is compiled only once. Copies the server and
    /// dyno to a folder from which the ordinary user can run both.
    fn build_testkit(&self) -> anyhow::Result<()> {
        let (programs, target) = (self.programs(), self.cache.join("testkit"));
        fs::create_dir(&programs)?;
        terminal::say("calibrate: building the servers");
        let command = format!(
            "cargo build --quiet --locked --release -p dyno-testkit --bin testkit --target-dir {}",
            quote(&target.display().to_string())
        );
        let environment = self.environment(&self.folder);
        self.shell(&command, &self.source, &environment, BUILD_DEADLINE)?.map_err(|problem| {
            anyhow::anyhow!(
                "test server (testkit): cannot be built: {problem}\nhint: for all of its output, \
                 run `{command}` in {}",
                self.source.display()
            )
        })?;
        let copies =
            [(target.join("release/testkit"), "testkit"), (std::env::current_exe()?, "dyno")];
        for (from, name) in copies {
            let to = programs.join(name);
            fs::copy(&from, &to)
                .with_context(|| format!("{}: cannot be copied", from.display()))?;
            fs::set_permissions(&to, Permissions::from_mode(0o755))?;
        }
        Ok(fs::set_permissions(&programs, Permissions::from_mode(0o755))?)
    }

    /// Builds the servers of other runtimes. Returns the missing runtimes with the reasons.
    fn build_servers(&self, chosen: &[&Behaviour]) -> anyhow::Result<Vec<(Runtime, String)>> {
        let servers = self.source.join("crates/testkit/servers");
        let programs = quote(&self.programs().display().to_string());
        let mut missing = Vec::new();
        for runtime in [Runtime::Java, Runtime::Go, Runtime::Node, Runtime::Python] {
            if !chosen.iter().any(|behaviour| needs(behaviour, runtime)) {
                continue;
            }
            let build = match runtime {
                Runtime::Java => format!("javac -d {programs} Server.java Work.java"),
                Runtime::Go => format!("go build -o {programs}/goserver server.go"),
                Runtime::Node => format!("install -m 644 server.js {programs}"),
                Runtime::Python => format!("install -m 644 server.py {programs}"),
            };
            let (test, hint) = known_bottlenecks::requirement(runtime);
            let environment = self.environment(&self.folder);
            let tool = |command| ToolCommand {
                command,
                folder: &servers,
                environment: &environment,
                deadline: Duration::from_secs(60),
            };
            let is_installed = tool(test).read_output(&self.supervision);
            let is_installed =
                matches!(is_installed, ToolOutput::Ended { status, .. } if status.success());
            if !is_installed {
                missing.push((runtime, format!("`{test}` failed. {hint}")));
            } else if let Err(problem) =
                self.shell(&build, &servers, &environment, BUILD_DEADLINE)?
            {
                missing.push((runtime, format!("`{build}` failed: {problem}")));
            }
        }
        Ok(missing)
    }

    /// Returns the reason why a behaviour is unavailable here. `None`: the behaviour is available.
    fn unavailable_reason(&self, behaviour: &Behaviour, user: User) -> Option<String> {
        let has = |need| behaviour.needs.contains(&need);
        let may_limit = user == User::Root && may_make_groups(&Layout::read());
        if has(Need::Root) && !may_limit {
            return Some("needs root and control groups, because dyno limits this server".into());
        }
        let in_memory =
            || rustix::fs::statfs(&self.folder).is_ok_and(|fs| fs.f_type as u64 == TMPFS);
        if has(Need::Disk) && in_memory() {
            return Some("needs temporary files on a disk (set TMPDIR)".into());
        }
        let has_one_cpu = dyno_launch::allowed_cpus().len() < 2;
        (behaviour.conditions.is_on_several_cpus && has_one_cpu).then(|| "needs two CPUs".into())
    }

    /// Runs a behaviour. Runs it once more if most of its steps are not valid, because a busy
    /// machine is often quieter later. Returns the run with more valid steps.
    fn measure_again_if_invalid(
        &self,
        behaviour: &'static Behaviour,
        user: User,
    ) -> anyhow::Result<Measurement> {
        let valid_count =
            |steps: &[KnownStep]| steps.iter().filter(|step| step.is_evaluated()).count();
        let first_attempt = match self.measure(behaviour, user, 1)? {
            Ok(steps) if 2 * valid_count(&steps) < steps.len() => steps,
            outcome => return Ok(outcome),
        };
        Ok(match self.measure(behaviour, user, 2)? {
            Ok(second) if valid_count(&second) > valid_count(&first_attempt) => Ok(second),
            _ => Ok(first_attempt),
        })
    }

    /// Runs a behaviour at all its loads. `Err`: the reason why there is no result.
    fn measure(
        &self,
        behaviour: &'static Behaviour,
        user: User,
        attempt: u32,
    ) -> anyhow::Result<Measurement> {
        let prefix = if user == User::Root { "root" } else { "ordinary" };
        let folder = self.folder.join(format!("{prefix}-{}-{attempt}", behaviour.name));
        let programs = self.programs();
        let back_end = behaviour.back_end.and_then(|back| dyno_testkit::find(back.behaviour));
        let is_monitored = behaviour.back_end.is_some_and(|back| back.is_monitored);
        // A back end that dyno shall not monitor is not in the suite: the script starts it.
        let port = (back_end.is_some() && !is_monitored).then(free_port).transpose()?;
        write_subject(
            &folder,
            behaviour.name,
            &known_bottlenecks::subject(behaviour, &programs, port),
        )?;
        if let Some(back_end) = back_end.filter(|_| is_monitored) {
            write_subject(
                &folder,
                back_end.name,
                &known_bottlenecks::subject(back_end, &programs, None),
            )?;
        }
        let cpus = dyno_launch::allowed_cpus();
        fs::write(folder.join("suite.toml"), known_bottlenecks::suite(behaviour, &cpus))?;
        fs::create_dir(folder.join("tmp"))?;
        // The commands of programs that run next to the server.
        let mut companions = Vec::new();
        if let Some((back_end, port)) = back_end.zip(port) {
            companions.push(known_bottlenecks::command(
                back_end,
                &programs,
                &port.to_string(),
                None,
            ));
        }
        if behaviour.conditions.is_machine_busy {
            let testkit = programs.join("testkit").display().to_string();
            companions.push(vec![testkit, "--burn".into(), cpus.len().to_string()]);
        }
        let script = self.script(&companions, user);
        let mut environment = self.environment(&folder.join("tmp"));
        if user == User::Ordinary && is_root() {
            environment.set("HOME", &folder);
            give_to_ordinary_user(&folder)?;
        }
        let outcome = self.shell(&script, &folder, &environment, RUN_DEADLINE);
        // A dyno process that had to be killed leaves its control groups behind.
        group::sweep_abandoned();
        let outcome = outcome?;
        let Some(report) = read_report(&folder.join("runs"))? else {
            return Ok(Err(outcome.err().unwrap_or_else(|| "no run was saved".into())));
        };
        Ok(compare_verdicts(behaviour, user, &report))
    }

    /// Writes the shell script of a run. The companions are background processes that end with the
    /// shell. A shell can replace itself by its last command. The last line (`exit $?`) prevents
    /// that for dyno, so that the shell and the companions outlive dyno.
    fn script(&self, companions: &[Vec<String>], user: User) -> String {
        let line = |command: &[String]| {
            command.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
        };
        let background: String = companions
            .iter()
            .map(|command| format!("{} >/dev/null 2>&1 &\n", line(command)))
            .collect();
        let dyno = quote(&self.programs().join("dyno").display().to_string());
        let user_change = match user == User::Ordinary && is_root() {
            true => {
                format!("setpriv --reuid {UNPRIVILEGED} --regid {UNPRIVILEGED} --clear-groups ")
            }
            false => String::new(),
        };
        format!(
            "{background}{user_change}{dyno} run suite.toml --subjects subjects --runs runs \
             --cache cache\nexit $?\n"
        )
    }
}

fn is_root() -> bool {
    user() == 0
}

fn needs(behaviour: &Behaviour, runtime: Runtime) -> bool {
    behaviour.needs.contains(&Need::Runtime(runtime))
}

fn print_result(behaviour: &Behaviour, user: User, steps: &[KnownStep]) {
    let tested: Vec<&KnownStep> = steps.iter().filter(|step| step.is_evaluated()).collect();
    let correct = tested.iter().filter(|step| step.is_correct()).count();
    terminal::say(&format!(
        "calibrate: {} as {}: {correct} of {} verdicts are correct, {} other steps are not valid",
        behaviour.name,
        user.name(),
        tested.len(),
        steps.len() - tested.len()
    ));
}

fn write_subject(parent: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let folder = parent.join("subjects").join(name);
    fs::create_dir_all(&folder)?;
    Ok(fs::write(folder.join("subject.toml"), text)?)
}

/// Makes the ordinary user the owner of a folder and its contents.
fn give_to_ordinary_user(path: &Path) -> anyhow::Result<()> {
    chown(path, Some(UNPRIVILEGED), Some(UNPRIVILEGED))?;
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            give_to_ordinary_user(&entry?.path())?;
        }
    }
    Ok(())
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Reads the report of the only run in a folder. `None`: the folder has no run.
fn read_report(runs: &Path) -> anyhow::Result<Option<Report>> {
    let Some(run) = fs::read_dir(runs).ok().and_then(|mut entries| entries.next()) else {
        return Ok(None);
    };
    Ok(Some(dyno_analysis::report::report(&RunDir::open(run?.path())?.read()?)))
}

/// Pairs the verdicts of a run with the correct verdicts. `Err`: the reason why nothing was
/// measured.
fn compare_verdicts(behaviour: &'static Behaviour, user: User, report: &Report) -> Measurement {
    let step = |trial: &dyno_analysis::trial::TrialResult| {
        let load = known_bottlenecks::load_of(behaviour, &trial.step)?;
        let level = known_bottlenecks::load_in_words(load.at);
        let step = KnownStep::new(
            trial,
            behaviour.name,
            level,
            user,
            known_bottlenecks::correct_verdicts(load, user),
        );
        Some(KnownStep { is_of_machine: behaviour.conditions.is_machine_busy, ..step })
    };
    let steps: Vec<KnownStep> = report.trials.iter().filter_map(step).collect();
    if !steps.is_empty() {
        return Ok(steps);
    }
    let reason = report.subjects.iter().find_map(|subject| match &subject.skipped {
        Some(reason) => Some(reason.clone()),
        None => Some(subject.failures.first()?.failure.message.clone()),
    });
    Err(reason.unwrap_or_else(|| "no step was measured".into()))
}
