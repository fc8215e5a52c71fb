//! Runs commands that end by themselves: builds, queries of tools, and a server's own commands. All
//! processes of a command are ended with it. Each command runs below a minder, a process that ends
//! all descendants of the command.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dyno_observer::{monotonic_ns, proc};

use crate::environment::Environment;
use crate::limits::OUTPUT_BYTES;
use crate::log::{Log, LogFollower};
use crate::minder::{self, Descendants, MindedCommand};
use crate::network::Network;
use crate::process::{self, COOKIE};
use crate::supervision::Supervision;
use crate::sys::{self, ChildSetup};

/// A shell command and its settings.
#[derive(Clone, Copy, Debug)]
pub struct ToolCommand<'a> {
    pub command: &'a str,
    pub folder: &'a Path,
    pub environment: &'a Environment,
    pub deadline: Duration,
}

/// How a command ended.
#[derive(Clone, Copy, Debug)]
pub enum ToolExit {
    /// The command ended by itself. The CPU time includes all its waited-for descendants.
    Ended { status: ExitStatus, wall_ns: u64, cpu_ns: u64 },
    /// The user interrupted dyno.
    Interrupted,
    /// The command was ended at its deadline.
    TimedOut,
    /// The command was ended because it printed more than [`OUTPUT_BYTES`].
    TooMuchOutput,
}

/// Output of a command, or the reason why it is unavailable.
#[derive(Clone, Debug)]
pub enum ToolOutput {
    Ended {
        status: ExitStatus,
        output: String,
    },
    /// The command did not exit by itself, or printed too much. The reason follows the name of the
    /// command: `had not ended after 5 s`.
    Unfinished(String),
}

/// Whether a running command may continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutputCheck {
    Continue,
    TooMuch,
}

impl ToolCommand<'_> {
    /// Runs the command with its output in a log, and passes each line to `on_line` while it runs.
    /// `log` must have been created with the secrets of this environment, because the log erases
    /// these secrets.
    pub fn run(
        self,
        log: &Log,
        supervision: &Supervision<'_>,
        on_line: &mut dyn FnMut(&str),
    ) -> io::Result<ToolExit> {
        self.run_with_grace(log, supervision, Duration::ZERO, on_line)
    }

    /// Runs the command like [`run`](Self::run), but gives its programs time to end by themselves.
    /// `grace`: the time from SIGTERM, sent at the deadline or when the user interrupts dyno, to
    /// SIGKILL.
    pub fn run_with_grace(
        self,
        log: &Log,
        supervision: &Supervision<'_>,
        grace: Duration,
        on_line: &mut dyn FnMut(&str),
    ) -> io::Result<ToolExit> {
        let mut follower = LogFollower::new(log);
        let end = self.supervise([log.stdio()?, log.stdio()?], supervision, grace, || {
            follower.read_lines(on_line);
            log.trim();
            OutputCheck::Continue
        });
        follower.finish(on_line);
        log.erase_secrets()?;
        end
    }

    /// Runs the command and returns its standard output, without the secrets of its environment.
    pub fn read_output(self, supervision: &Supervision<'_>) -> ToolOutput {
        let secrets = self.environment.secret_values();
        match self.read_raw_output(supervision) {
            ToolOutput::Ended { status, output } => ToolOutput::Ended {
                status,
                output: secrets.erase(output.as_bytes(), &[output.len()]),
            },
            unfinished @ ToolOutput::Unfinished(_) => unfinished,
        }
    }

    /// Runs the command and returns its standard output as data. Texts must not quote the output,
    /// because it may contain secrets of the environment.
    pub fn read_raw_output(self, supervision: &Supervision<'_>) -> ToolOutput {
        self.try_read_output(supervision)
            .unwrap_or_else(|error| ToolOutput::Unfinished(format!("could not be run ({error})")))
    }

    /// Runs the command with its standard output in a temporary file, and reads that file.
    fn try_read_output(self, supervision: &Supervision<'_>) -> io::Result<ToolOutput> {
        // The output goes to a file and not to a pipe, because dyno would have to wait for a
        // descendant that keeps a pipe open.
        let output = tempfile::tempfile()?;
        let length = |file: &File| file.metadata().map_or(0, |m| m.len());
        let check_output = || match length(&output) {
            ..=OUTPUT_BYTES => OutputCheck::Continue,
            _ => OutputCheck::TooMuch,
        };
        let stdout = output.try_clone()?.into();
        let outputs = [stdout, Stdio::null()];
        let end = self.supervise(outputs, supervision, Duration::ZERO, check_output)?;
        Ok(match end {
            ToolExit::Ended { status, .. } => {
                let mut bytes = vec![0; length(&output).min(OUTPUT_BYTES) as usize];
                output.read_exact_at(&mut bytes, 0)?;
                ToolOutput::Ended { status, output: String::from_utf8_lossy(&bytes).into_owned() }
            }
            ToolExit::TimedOut => ToolOutput::Unfinished(format!(
                "had not ended after {}",
                duration_text(self.deadline)
            )),
            ToolExit::Interrupted => ToolOutput::Unfinished("was interrupted by the user".into()),
            ToolExit::TooMuchOutput => {
                ToolOutput::Unfinished(format!("printed more than {OUTPUT_BYTES} bytes"))
            }
        })
    }

    /// Runs the command until it ends or has to be ended, and kills all its processes.
    fn supervise(
        self,
        [stdout, stderr]: [Stdio; 2],
        supervision: &Supervision<'_>,
        grace: Duration,
        mut check_output: impl FnMut() -> OutputCheck,
    ) -> io::Result<ToolExit> {
        let cookie = new_cookie();
        let mut shell = Command::new("sh");
        self.environment.apply(&mut shell);
        shell.args(["-c", self.command]).current_dir(self.folder).env(COOKIE, &cookie);
        shell.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        // The cookie is registered before the start. All descendants inherit the cookie, in any
        // session.
        supervision.guard.watch_cookie(&cookie);
        let started = minder::spawn(&mut shell, ChildSetup::default(), Descendants::End);
        let end = started.map_err(io::Error::from).and_then(|mut minded| {
            supervision.guard.watch_session(minded.first);
            let end = self.wait(&mut minded, supervision, &mut check_output);
            if !grace.is_zero() && !matches!(end, Ok(ToolExit::Ended { .. })) {
                Self::ask_to_end(&mut minded, supervision, grace);
            }
            let unended = process::unended_text_of(process::kill_all(&mut minded, &cookie));
            supervision.guard.forget_session(minded.first);
            match unended {
                Some(text) => Err(io::Error::other(text)),
                None => end,
            }
        });
        if end.is_err() {
            process::kill_marked(&cookie);
        }
        supervision.guard.forget_cookie(&cookie);
        end
    }

    /// Sends SIGTERM to the programs that the shell runs, and waits until the shell has ended.
    fn ask_to_end(minded: &mut MindedCommand, supervision: &Supervision<'_>, grace: Duration) {
        // The shell gets no SIGTERM, because the minder kills all programs at once when the shell
        // ends.
        let mut programs = proc::session_pids(minded.first);
        programs.retain(|pid| *pid != minded.first);
        programs.into_iter().for_each(|pid| sys::kill(pid, libc::SIGTERM));
        // The clock only limits the wait. It measures no result.
        let deadline_ns = monotonic_ns() + grace.as_nanos() as u64;
        while monotonic_ns() < deadline_ns
            && supervision.interrupts.count() < 2
            && matches!(minded.try_wait(), Ok(None))
        {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the command ends, is late, prints too much, or is interrupted.
    fn wait(
        self,
        minded: &mut MindedCommand,
        supervision: &Supervision<'_>,
        check_output: &mut impl FnMut() -> OutputCheck,
    ) -> io::Result<ToolExit> {
        let mut pause = Duration::from_millis(1);
        loop {
            // This clock reading only checks the deadline. It is read before the command is
            // checked, so that a command that has ended in time is not treated as late.
            let is_late = u128::from(monotonic_ns() - minded.began_ns) > self.deadline.as_nanos();
            if let Some((status, cpu_ns)) = minded.try_wait()? {
                return Ok(ToolExit::Ended {
                    status,
                    wall_ns: monotonic_ns() - minded.began_ns,
                    cpu_ns,
                });
            }
            if supervision.interrupts.count() > 0 {
                return Ok(ToolExit::Interrupted);
            }
            if is_late {
                return Ok(ToolExit::TimedOut);
            }
            if check_output() == OutputCheck::TooMuch {
                return Ok(ToolExit::TooMuchOutput);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }
}

/// Creates a cookie (a value of the variable `COOKIE`) that is unique on this machine.
fn new_cookie() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    // The clock distinguishes this process from an earlier process with the same PID.
    format!("dyno-{}-tool-{count}-{}", std::process::id(), monotonic_ns())
}

/// Formats a duration for people.
pub fn duration_text(time: Duration) -> String {
    match (time.as_secs(), time.as_millis()) {
        (s @ 60.., _) if s % 60 == 0 => format!("{} min", s / 60),
        (s @ 1.., ms) if ms % 1000 == 0 => format!("{s} s"),
        (_, ms) => format!("{ms} ms"),
    }
}

/// Why a server's command did not succeed. The text follows the command's name, and has the last
/// lines of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// dyno could not run the command, for example because it could open no further file.
    NotRun(String),
    /// The command ended with a failure status, or had to be ended.
    Failed(String),
    /// The user interrupted dyno.
    Interrupted,
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::NotRun(reason) => write!(f, "could not be run ({reason})"),
            CommandError::Failed(problem) => f.write_str(problem),
            CommandError::Interrupted => f.write_str("was interrupted by the user"),
        }
    }
}

/// A command from a server's definition, for example to load or restore its data.
#[derive(Debug)]
pub struct ServerCommand {
    pub command: String,
    pub folder: PathBuf,
    pub environment: Environment,
    pub deadline: Duration,
    /// Network of the servers, in which the command is run.
    pub network: Network,
}

impl ServerCommand {
    /// Runs the command. Returns how long it took, in nanoseconds.
    ///
    /// # Errors
    /// The command failed, or could not be run.
    pub fn run(&self, supervision: &Supervision<'_>) -> Result<u64, CommandError> {
        let ServerCommand { command, folder, environment, deadline, network } = self;
        let not_run = |error: io::Error| CommandError::NotRun(error.to_string());
        let log = Log::anonymous(environment.secret_values()).map_err(not_run)?;
        let tool = ToolCommand { command, folder, environment, deadline: *deadline };
        let end = network
            .as_server(|| tool.run(&log, supervision, &mut |_| {}))
            .flatten()
            .map_err(not_run)?;
        let problem = match end {
            ToolExit::Ended { status, wall_ns, .. } if status.success() => return Ok(wall_ns),
            ToolExit::Ended { status, .. } => format!("ended with {status}"),
            ToolExit::Interrupted => return Err(CommandError::Interrupted),
            ToolExit::TimedOut => format!("had not ended after {}", duration_text(*deadline)),
            ToolExit::TooMuchOutput => format!("printed more than {OUTPUT_BYTES} bytes"),
        };
        Err(CommandError::Failed(match log.tail(20) {
            tail if tail.is_empty() => problem,
            tail => format!("{problem}:\n{tail}"),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::unix::process::ExitStatusExt as _;

    use crate::environment::DynoVariables;
    use crate::guard::Guard;
    use crate::supervision::Interrupts;

    fn ask(command: &str, deadline: Duration, interrupts: &Interrupts) -> ToolOutput {
        let root = tempfile::tempdir().unwrap();
        let environment = Environment::for_tool(&DynoVariables::read(), &[], root.path());
        // The guard of a test is this test program, which ends immediately with the unknown
        // argument.
        let guard = Guard::start().unwrap();
        let tool =
            ToolCommand { command, folder: root.path(), environment: &environment, deadline };
        tool.read_output(&Supervision { guard: &guard, interrupts })
    }

    /// Whether a process with this command line exists.
    fn is_running(command: &str) -> bool {
        let arguments = command.replace(' ', "\0");
        let cmdline = |pid| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let matches = |pid| String::from_utf8_lossy(&cmdline(pid)).starts_with(&arguments);
        dyno_observer::proc::all_pids().into_iter().any(matches)
    }

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn daemons_of_tool_are_ended_with_it() {
        // A daemon in its own session that keeps standard output open.
        let outcome = ask("setsid sleep 98765 & echo hello; exit 3", PATIENCE, &Interrupts::new());
        let ToolOutput::Ended { status, output } = outcome else { panic!("{outcome:?}") };
        assert_eq!((status.code(), output.as_str()), (Some(3), "hello\n"));
        assert!(!is_running("sleep 98765"));
        // A daemon without a parent, in its own session and with an empty environment.
        let daemon = "(setsid env -i sh -c 'sleep 98764 & sleep 98764' &); until pgrep -f 'sleep \
                      9876[4]'; do :; done";
        for (ending, patience) in [("", PATIENCE), ("; sleep 98763", Duration::from_secs(2))] {
            let outcome = ask(&format!("{daemon} >&2{ending}"), patience, &Interrupts::new());
            assert_eq!(
                matches!(outcome, ToolOutput::Ended { .. }),
                ending.is_empty(),
                "{outcome:?}"
            );
            assert!(!is_running("sleep 98764") && !is_running("sleep 98763"));
        }
    }

    #[test]
    fn output_of_commands_has_no_secrets() {
        let root = tempfile::tempdir().unwrap();
        let mut environment = Environment::for_server(&DynoVariables::read(), &[], root.path());
        environment.set("MY_TOKEN", "Zq81-hhTT");
        environment.set("DB_PASS", "swordfish");
        let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
        let supervision = Supervision { guard: &guard, interrupts: &interrupts };
        let command = "echo $MY_TOKEN, $DB_PASS; printf %s $MY_TOKEN | base64; exit 1";
        let tool = ToolCommand {
            command,
            folder: root.path(),
            environment: &environment,
            deadline: PATIENCE,
        };
        let expected = "(not recorded), (not recorded)\n(not recorded)";
        let answer = tool.read_output(&supervision);
        let ToolOutput::Ended { output, .. } = answer else { panic!("{answer:?}") };
        assert_eq!(output.trim_end(), expected);
        let log = Log::create(&root.path().join("log"), environment.secret_values()).unwrap();
        let mut lines = Vec::new();
        tool.run(&log, &supervision, &mut |line| lines.push(line.to_string())).unwrap();
        assert_eq!(lines.join("\n"), expected);
        assert_eq!(log.tail(20), expected);
        assert_eq!(std::fs::read_to_string(root.path().join("log")).unwrap().trim_end(), expected);
        let command = ServerCommand {
            command: command.into(),
            folder: root.path().into(),
            environment,
            deadline: PATIENCE,
            network: Network::default(),
        };
        let error = command.run(&supervision).unwrap_err();
        assert_eq!(error.to_string(), format!("ended with exit status: 1:\n{expected}"));
    }

    #[test]
    fn late_tool_may_end_by_itself_within_grace() {
        let root = tempfile::tempdir().unwrap();
        let environment = Environment::for_tool(&DynoVariables::read(), &[], root.path());
        let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
        let supervision = Supervision { guard: &guard, interrupts: &interrupts };
        let ends_itself = |grace| {
            let log = Log::anonymous(environment.secret_values()).unwrap();
            let command = "sh -c 'trap \"touch ended; exit\" TERM; while :; do sleep 0.01; done'\n\
                           exit $?";
            let tool = ToolCommand {
                command,
                folder: root.path(),
                environment: &environment,
                deadline: Duration::from_secs(1),
            };
            let exit = tool.run_with_grace(&log, &supervision, grace, &mut |_| {}).unwrap();
            assert!(matches!(exit, ToolExit::TimedOut), "{exit:?}");
            root.path().join("ended").exists()
        };
        assert!(!ends_itself(Duration::ZERO));
        assert!(ends_itself(PATIENCE));
    }

    #[test]
    fn killed_tool_error_names_signal() {
        let outcome = ask("kill -9 $$", PATIENCE, &Interrupts::new());
        let ToolOutput::Ended { status, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!(status.signal(), Some(9));
    }

    #[test]
    fn tool_is_ended_at_deadline_interrupt_or_output_limit() {
        let reason = |outcome| {
            if let ToolOutput::Unfinished(reason) = outcome {
                reason
            } else {
                panic!("{outcome:?}")
            }
        };
        let late = ask("setsid sleep 98766; true", Duration::from_millis(100), &Interrupts::new());
        assert_eq!(reason(late), "had not ended after 100 ms");
        assert!(!is_running("sleep 98766"));
        // A stopped minder does not prevent that.
        let late =
            ask("kill -STOP $PPID; sleep 98766", Duration::from_millis(100), &Interrupts::new());
        assert_eq!(reason(late), "had not ended after 100 ms");
        assert!(!is_running("sleep 98766"));
        let interrupts = Interrupts::new();
        interrupts.raise();
        assert_eq!(
            reason(ask("sleep 98767", PATIENCE, &interrupts)),
            "was interrupted by the user"
        );
        assert!(reason(ask("yes", PATIENCE, &Interrupts::new())).contains("printed more than"));
    }
}
