//! `dyno calibrate --verdicts`: runs servers with known bottlenecks and judges the verdicts.

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
use dyno_launch::folder::{make, user};
use dyno_launch::guard::Guard;
use dyno_launch::log::Log;
use dyno_launch::supervision::Supervision;
use dyno_launch::tool::{ToolAnswer, ToolCommand, ToolEnd};
use dyno_observer::cgroup::Layout;
use dyno_observer::facts::may_make_groups;
use dyno_report::validation;
use dyno_testkit::{Behaviour, Need, Runtime, behaviours};

use super::known_bottlenecks;
use crate::calibration::machine;
use crate::cli::{CalibrateArgs, PlanFormat};
use crate::cmd::report::write_out;
use crate::exit::{Exit, bad};
use crate::terminal::{self, ThirdInterrupt, quote};

/// The user and group ID of an account without rights.
const UNPRIVILEGED: u32 = 65_534;

/// Ends a build, or a run of a behaviour, that hangs.
const BUILD_DEADLINE: Duration = Duration::from_secs(900);
const RUN_DEADLINE: Duration = Duration::from_secs(180);

/// Type of a file system in memory (`statfs`).
const TMPFS: u64 = 0x0102_1994;

pub fn run(args: &CalibrateArgs) -> anyhow::Result<Exit> {
    let chosen = choose(&args.only)?;
    let source = source_tree()?;
    let interrupts =
        terminal::catch_interrupts("ending early: there is no result", ThirdInterrupt::Ends)?;
    let guard = Guard::start()?;
    let supervision = Supervision { guard: &guard, interrupts: &interrupts };
    let cache = super::super::cache_folder(args.cache.as_deref())?;
    let folder = make("verdicts", &guard)?;
    let bench = Bench { source, cache, folder, supervision };
    let measured = bench.measure_all(&chosen);
    let removed = fs::remove_dir_all(&bench.folder);
    if removed.is_ok() {
        guard.forget_folder(&bench.folder);
    }
    let (steps, not_run) = measured?;
    removed.with_context(|| format!("{}: cannot be removed", bench.folder.display()))?;
    let result = Validation::new(machine(), steps, not_run);
    let text = match args.format {
        PlanFormat::Text => validation::text(&result, terminal::style()),
        PlanFormat::Json => serde_json::to_string_pretty(&result)? + "\n",
    };
    write_out(args.output.as_deref(), &text)?;
    Ok(if result.high_wrong == 0 { Exit::Valid } else { Exit::Invalid })
}

/// The behaviours of these names, or all.
fn choose(only: &[String]) -> anyhow::Result<Vec<&'static Behaviour>> {
    if only.is_empty() {
        return Ok(behaviours().collect());
    }
    let known = || behaviours().map(|b| b.name).collect::<Vec<_>>().join(", ");
    let find = |name: &String| {
        let problem =
            || bad(format!("--only {name}: unknown behaviour\nhint: choose one of {}", known()));
        dyno_testkit::find(name).ok_or_else(problem)
    };
    only.iter().map(find).collect()
}

/// The source tree of dyno: that of the current folder, or that in which dyno was built.
fn source_tree() -> anyhow::Result<PathBuf> {
    let starts = [std::env::current_dir().ok(), std::env::current_exe().ok()];
    let trees = starts.iter().flatten().flat_map(|start| start.ancestors());
    let is_tree = |path: &&Path| path.join("crates/testkit/Cargo.toml").is_file();
    trees.into_iter().find(is_tree).map(Path::to_path_buf).ok_or_else(|| {
        bad("--verdicts: the servers with known bottlenecks were not found\n\
             hint: run dyno in its source tree (git clone), with cargo installed")
    })
}

/// The steps of a behaviour, or why there are none.
type Measurement = Result<Vec<KnownStep>, String>;

type KnownSteps = (Vec<KnownStep>, Vec<NotRun>);

/// The parts of the servers, and their place.
struct Bench<'a> {
    source: PathBuf,
    cache: PathBuf,
    /// Removed at the end.
    folder: PathBuf,
    supervision: Supervision<'a>,
}

impl Bench<'_> {
    fn measure_all(&self, chosen: &[&'static Behaviour]) -> anyhow::Result<KnownSteps> {
        // The ordinary user reads the programs there.
        fs::set_permissions(&self.folder, Permissions::from_mode(0o755))?;
        self.build_testkit()?;
        let (mut steps, mut not_run) = (Vec::new(), Vec::new());
        let missing = self.build_servers(chosen)?;
        let mut refuse = |behaviour: &Behaviour, user, reason| {
            not_run.push(NotRun { behaviour: behaviour.name.into(), user, reason });
        };
        for user in self.users() {
            for behaviour in chosen {
                let lack = missing.iter().find(|(runtime, _)| needs(behaviour, *runtime));
                let lack = lack.map(|(_, reason)| reason.clone());
                let ended = match lack.or_else(|| self.unavailable_reason(behaviour, user)) {
                    Some(reason) => Err(reason),
                    None => self.measure_again_if_invalid(behaviour, user)?,
                };
                match ended {
                    Ok(measured) => {
                        say(behaviour, user, &measured);
                        steps.extend(measured);
                    }
                    Err(reason) => {
                        terminal::say(&format!("calibrate: {}: not run: {reason}", behaviour.name));
                        refuse(behaviour, user, reason);
                    }
                }
            }
        }
        Ok((steps, not_run))
    }

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

    /// Runs a command of a shell. `Err`: how it failed, with what it printed.
    fn shell(
        &self,
        command: &str,
        folder: &Path,
        environment: &Environment,
        deadline: Duration,
    ) -> anyhow::Result<Result<(), String>> {
        let log = Log::anonymous()?;
        let tool = ToolCommand { command, folder, environment, deadline };
        Ok(match tool.run(&log, &self.supervision, &mut |_| {})? {
            ToolEnd::Ended { status, .. } if status.success() => Ok(()),
            ToolEnd::Ended { status, .. } => Err(format!("{status}: {}", log.tail(5))),
            ToolEnd::Interrupted => anyhow::bail!("--verdicts: interrupted"),
            ToolEnd::TimedOut | ToolEnd::TooMuchOutput => {
                Err(format!("did not end in time: {}", log.tail(5)))
            }
        })
    }

    /// Builds the Rust server into the cache, so that it is compiled once, and copies it and dyno
    /// to where the ordinary user may run them.
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
            anyhow::anyhow!("testkit: cannot be built: {problem}\nhint: run `{command}` to see why")
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

    /// Builds the servers of other runtimes. Returns the runtimes that are missing, and why.
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
            let is_there = tool(test).ask(&self.supervision);
            let is_there = matches!(is_there, ToolAnswer::Ended { status, .. } if status.success());
            if !is_there {
                missing.push((runtime, format!("`{test}` failed. {hint}")));
            } else if let Err(problem) =
                self.shell(&build, &servers, &environment, BUILD_DEADLINE)?
            {
                missing.push((runtime, format!("`{build}` failed: {problem}")));
            }
        }
        Ok(missing)
    }

    /// Returns why a behaviour is unavailable here. `None`: it is available.
    fn unavailable_reason(&self, behaviour: &Behaviour, user: User) -> Option<String> {
        let has = |need| behaviour.needs.contains(&need);
        let may_limit = user == User::Root && may_make_groups(&Layout::read());
        if has(Need::Root) && !may_limit {
            return Some("needs root and control groups, for its limits".into());
        }
        let in_memory =
            || rustix::fs::statfs(&self.folder).is_ok_and(|fs| fs.f_type as u64 == TMPFS);
        if has(Need::Disk) && in_memory() {
            return Some("needs temporary files on a disk: set TMPDIR".into());
        }
        let is_alone = dyno_launch::allowed_cpus().len() < 2;
        (behaviour.conditions.is_on_several_cpus && is_alone).then(|| "needs two CPUs".into())
    }

    /// Runs a behaviour, and once more if most of its steps are invalid: on a busy machine the
    /// second run often finds a quieter moment. Keeps the run with more steps to judge.
    fn measure_again_if_invalid(
        &self,
        behaviour: &'static Behaviour,
        user: User,
    ) -> anyhow::Result<Measurement> {
        let count = |steps: &[KnownStep]| steps.iter().filter(|step| step.is_judged()).count();
        let first = match self.measure(behaviour, user, 1)? {
            Ok(steps) if 2 * count(&steps) < steps.len() => steps,
            ended => return Ok(ended),
        };
        Ok(match self.measure(behaviour, user, 2)? {
            Ok(second) if count(&second) > count(&first) => Ok(second),
            _ => Ok(first),
        })
    }

    /// Runs a behaviour at all its loads. `Err`: why there is no result.
    fn measure(
        &self,
        behaviour: &'static Behaviour,
        user: User,
        attempt: u32,
    ) -> anyhow::Result<Measurement> {
        let prefix = if user == User::Root { "root" } else { "ordinary" };
        let place = self.folder.join(format!("{prefix}-{}-{attempt}", behaviour.name));
        let programs = self.programs();
        let back_end = behaviour.back_end.and_then(|back| dyno_testkit::find(back.behaviour));
        let is_monitored = behaviour.back_end.is_some_and(|back| back.is_monitored);
        let port = (back_end.is_some() && !is_monitored).then(free_port).transpose()?;
        write_subject(
            &place,
            behaviour.name,
            &known_bottlenecks::subject(behaviour, &programs, port),
        )?;
        if let Some(back_end) = back_end.filter(|_| is_monitored) {
            write_subject(
                &place,
                back_end.name,
                &known_bottlenecks::subject(back_end, &programs, None),
            )?;
        }
        let cpus = dyno_launch::allowed_cpus();
        fs::write(place.join("suite.toml"), known_bottlenecks::suite(behaviour, &cpus))?;
        fs::create_dir(place.join("tmp"))?;
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
        let mut environment = self.environment(&place.join("tmp"));
        if user == User::Ordinary && is_root() {
            environment.set("HOME", &place);
            give_to_ordinary_user(&place)?;
        }
        let ended = self.shell(&script, &place, &environment, RUN_DEADLINE)?;
        let Some(report) = read_report(&place.join("runs"))? else {
            return Ok(Err(ended.err().unwrap_or_else(|| "no run was saved".into())));
        };
        Ok(judge(behaviour, user, &report))
    }

    /// The shell commands of a run: companions end with the shell.
    fn script(&self, companions: &[Vec<String>], user: User) -> String {
        let line =
            |words: &[String]| words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ");
        let background: String =
            companions.iter().map(|words| format!("{} >/dev/null 2>&1 &\n", line(words))).collect();
        let dyno = quote(&self.programs().join("dyno").display().to_string());
        let drop = match user == User::Ordinary && is_root() {
            true => {
                format!("setpriv --reuid {UNPRIVILEGED} --regid {UNPRIVILEGED} --clear-groups ")
            }
            false => String::new(),
        };
        format!(
            "{background}{drop}{dyno} run suite.toml --subjects subjects --runs runs --cache \
             cache\n"
        )
    }
}

fn is_root() -> bool {
    user() == 0
}

fn needs(behaviour: &Behaviour, runtime: Runtime) -> bool {
    behaviour.needs.contains(&Need::Runtime(runtime))
}

fn say(behaviour: &Behaviour, user: User, steps: &[KnownStep]) {
    let judged = steps.iter().filter(|step| step.is_judged());
    let (judged, right) =
        judged.fold((0, 0), |(all, right), s| (all + 1, right + usize::from(s.is_right())));
    terminal::say(&format!(
        "calibrate: {} as {}: {right} of {judged} verdicts correct, {} steps invalid",
        behaviour.name,
        user.name(),
        steps.len() - judged
    ));
}

fn write_subject(place: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let folder = place.join("subjects").join(name);
    fs::create_dir_all(&folder)?;
    Ok(fs::write(folder.join("subject.toml"), text)?)
}

/// Gives a folder and all that is in it to the ordinary user.
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

/// The report of the one run in a folder. `None`: there is none.
fn read_report(runs: &Path) -> anyhow::Result<Option<Report>> {
    let Some(run) = fs::read_dir(runs).ok().and_then(|mut entries| entries.next()) else {
        return Ok(None);
    };
    Ok(Some(dyno_analysis::report::report(&RunDir::open(run?.path())?.read()?)))
}

/// The verdicts of a run next to the right ones. `Err`: why the server was not measured.
fn judge(behaviour: &'static Behaviour, user: User, report: &Report) -> Measurement {
    let step = |trial: &dyno_analysis::trial::TrialResult| {
        let load = known_bottlenecks::load_of(behaviour, &trial.step)?;
        let words = known_bottlenecks::load_in_words(load.at);
        let step = KnownStep::new(
            trial,
            behaviour.name,
            words,
            user,
            known_bottlenecks::right(load, user),
        );
        Some(KnownStep { is_of_machine: behaviour.conditions.is_machine_busy, ..step })
    };
    let steps: Vec<KnownStep> = report.trials.iter().filter_map(step).collect();
    if !steps.is_empty() {
        return Ok(steps);
    }
    let failed = report.subjects.iter().find_map(|subject| {
        subject.skipped.clone().or_else(|| Some(subject.failures.first()?.failure.message.clone()))
    });
    Err(failed.unwrap_or_else(|| "no step was measured".into()))
}
