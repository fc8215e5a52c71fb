//! Commands that end by themselves: builds, and queries of tools. All processes that they start end
//! with them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dyno_observer::monotonic_ns;

use crate::environment::Environment;
use crate::limits::ANSWER_BYTES;
use crate::log::{Follower, Log};
use crate::minder::{self, Descendants, MindedCommand};
use crate::network::Network;
use crate::process::{self, COOKIE};
use crate::supervision::Supervision;
use crate::sys::ChildSetup;

/// A shell command and its settings.
#[derive(Clone, Copy, Debug)]
pub struct ToolCommand<'a> {
    pub command: &'a str,
    pub folder: &'a Path,
    pub environment: &'a Environment,
    pub deadline: Duration,
}

/// End of a command.
#[derive(Clone, Copy, Debug)]
pub enum ToolEnd {
    /// The command ended by itself. CPU time is of all its descendants that were waited for.
    Ended { status: ExitStatus, wall_ns: u64, cpu_ns: u64 },
    /// The user wanted the command to end.
    Interrupted,
    /// The command was ended at its deadline.
    Late,
    /// The command was ended because it printed more than [`ANSWER_BYTES`].
    Talkative,
}

/// The answer of a tool.
#[derive(Clone, Debug)]
pub enum ToolAnswer {
    Ended {
        status: ExitStatus,
        output: String,
    },
    /// No valid answer: the reason, as the end of a sentence about the command.
    None(String),
}

/// Whether a running command may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    GoOn,
    TooMuch,
}

impl ToolCommand<'_> {
    /// Runs it with its output in a log, and passes on each line while it runs.
    pub fn run(
        self,
        log: &Log,
        supervision: &Supervision<'_>,
        on_line: &mut dyn FnMut(&str),
    ) -> io::Result<ToolEnd> {
        let mut follower = Follower::new(log);
        let ending = self.supervise(log.stdio()?, log.stdio()?, supervision, || {
            follower.lines(on_line);
            log.trim();
            Verdict::GoOn
        });
        follower.rest(on_line);
        ending
    }

    /// Runs it and returns its standard output.
    pub fn ask(self, supervision: &Supervision<'_>) -> ToolAnswer {
        self.try_ask(supervision)
            .unwrap_or_else(|error| ToolAnswer::None(format!("could not be run ({error})")))
    }

    fn try_ask(self, supervision: &Supervision<'_>) -> io::Result<ToolAnswer> {
        // A file without a name, not a pipe: a descendant that keeps a pipe open would have us wait
        // for it.
        let output = tempfile::tempfile()?;
        let length = |file: &File| file.metadata().map_or(0, |m| m.len());
        let look = || if length(&output) > ANSWER_BYTES { Verdict::TooMuch } else { Verdict::GoOn };
        let ending =
            self.supervise(output.try_clone()?.into(), Stdio::null(), supervision, look)?;
        Ok(match ending {
            ToolEnd::Ended { status, .. } => {
                let mut bytes = vec![0; length(&output).min(ANSWER_BYTES) as usize];
                output.read_exact_at(&mut bytes, 0)?;
                ToolAnswer::Ended { status, output: String::from_utf8_lossy(&bytes).into_owned() }
            }
            ToolEnd::Late => {
                ToolAnswer::None(format!("had not ended after {}", duration_text(self.deadline)))
            }
            ToolEnd::Interrupted => ToolAnswer::None("was ended by the user".into()),
            ToolEnd::Talkative => {
                ToolAnswer::None(format!("printed more than {ANSWER_BYTES} bytes"))
            }
        })
    }

    fn supervise(
        self,
        stdout: Stdio,
        stderr: Stdio,
        supervision: &Supervision<'_>,
        mut look: impl FnMut() -> Verdict,
    ) -> io::Result<ToolEnd> {
        let cookie = new_cookie();
        let mut shell = Command::new("sh");
        self.environment.apply(&mut shell);
        shell.args(["-c", self.command]).current_dir(self.folder).env(COOKIE, &cookie);
        shell.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        // Before there is anything to end: all descendants will carry it, in whatever session they
        // are.
        supervision.guard.watch_cookie(&cookie);
        let ending = minder::spawn(&mut shell, ChildSetup::default(), Descendants::End).and_then(
            |mut minded| {
                supervision.guard.watch_session(minded.first);
                let ending = self.wait(&mut minded, supervision, &mut look);
                minded.end();
                // Processes that a minder did not end, because it was killed itself.
                process::end_session(minded.first);
                supervision.guard.forget_session(minded.first);
                ending
            },
        );
        process::end_cookie(&cookie);
        supervision.guard.forget_cookie(&cookie);
        ending
    }

    fn wait(
        self,
        minded: &mut MindedCommand,
        supervision: &Supervision<'_>,
        look: &mut impl FnMut() -> Verdict,
    ) -> io::Result<ToolEnd> {
        let mut pause = Duration::from_millis(1);
        loop {
            // No result is a time here: it only ends what takes too long. Read before the look at
            // the command, which may have ended long before we come to that.
            let is_late = u128::from(monotonic_ns() - minded.began_ns) > self.deadline.as_nanos();
            if let Some((status, cpu_ns)) = minded.try_wait()? {
                // The command has ended: its time is from its exec.
                return Ok(ToolEnd::Ended {
                    status,
                    wall_ns: monotonic_ns() - minded.began_ns,
                    cpu_ns,
                });
            }
            if supervision.interrupts.count() > 0 {
                return Ok(ToolEnd::Interrupted);
            }
            if is_late {
                return Ok(ToolEnd::Late);
            }
            if look() == Verdict::TooMuch {
                return Ok(ToolEnd::Talkative);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }
}

/// Name of a command that is unique on this machine, now and later.
fn new_cookie() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    // The clock distinguishes this process from an earlier one with the same PID.
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

/// A command of a server, ready to be run: it loads the server's data, or restores them.
#[derive(Debug)]
pub struct OwnCommand {
    pub command: String,
    pub folder: PathBuf,
    pub environment: Environment,
    pub deadline: Duration,
    /// Network of the servers, in which it is run.
    pub network: Network,
}

impl OwnCommand {
    /// Runs it; returns how long it took, in nanoseconds. `Err`: how it failed, as the end of a
    /// sentence, with the last lines that it printed.
    pub fn run(&self, supervision: &Supervision<'_>) -> Result<u64, String> {
        let OwnCommand { command, folder, environment, deadline, network } = self;
        let log = Log::anonymous().map_err(|error| format!("could not be run ({error})"))?;
        let tool = ToolCommand { command, folder, environment, deadline: *deadline };
        let ending = network
            .as_server(|| tool.run(&log, supervision, &mut |_| {}))
            .flatten()
            .map_err(|error| format!("could not be run ({error})"))?;
        let how = match ending {
            ToolEnd::Ended { status, wall_ns, .. } if status.success() => return Ok(wall_ns),
            ToolEnd::Ended { status, .. } => format!("ended with {status}"),
            ToolEnd::Interrupted => "was ended by the user".into(),
            ToolEnd::Late | ToolEnd::Talkative => {
                format!("had not ended after {}", duration_text(*deadline))
            }
        };
        Err(match log.tail(20) {
            tail if tail.is_empty() => how,
            tail => format!("{how}:\n{tail}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::unix::process::ExitStatusExt as _;

    use crate::environment::DynoVariables;
    use crate::guard::Guard;
    use crate::supervision::Interrupts;

    fn ask(command: &str, deadline: Duration, interrupts: &Interrupts) -> ToolAnswer {
        let root = tempfile::tempdir().unwrap();
        let environment = Environment::for_tool(&DynoVariables::read(), &[], root.path());
        // The guard of a test is this test program, which ends at once with the unknown argument.
        let guard = Guard::start().unwrap();
        let tool =
            ToolCommand { command, folder: root.path(), environment: &environment, deadline };
        tool.ask(&Supervision { guard: &guard, interrupts })
    }

    fn runs(words: &str) -> bool {
        let wanted = words.replace(' ', "\0");
        let line = |pid| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let runs = |pid| String::from_utf8_lossy(&line(pid)).starts_with(&wanted);
        dyno_observer::proc::all_pids().into_iter().any(runs)
    }

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn what_a_tool_leaves_behind_is_ended() {
        // A daemon in a session of its own that keeps standard output open.
        let answer = ask("setsid sleep 98765 & echo hello; exit 3", PATIENCE, &Interrupts::new());
        let ToolAnswer::Ended { status, output } = answer else { panic!("{answer:?}") };
        assert_eq!((status.code(), output.as_str()), (Some(3), "hello\n"));
        assert!(!runs("sleep 98765"));
        // One that has forgotten everything by which it could be known.
        let daemon = "(setsid env -i sh -c 'sleep 98764 & sleep 98764' &); until pgrep -f 'sleep \
                      9876[4]'; do :; done";
        for (ending, patience) in [("", PATIENCE), ("; sleep 98763", Duration::from_secs(2))] {
            let answer = ask(&format!("{daemon} >&2{ending}"), patience, &Interrupts::new());
            assert_eq!(matches!(answer, ToolAnswer::Ended { .. }), ending.is_empty(), "{answer:?}");
            assert!(!runs("sleep 98764") && !runs("sleep 98763"));
        }
    }

    #[test]
    fn killed_tool_error_names_signal() {
        let answer = ask("kill -9 $$", PATIENCE, &Interrupts::new());
        let ToolAnswer::Ended { status, .. } = answer else { panic!("{answer:?}") };
        assert_eq!(status.signal(), Some(9));
    }

    #[test]
    fn tool_ends_at_its_deadline_with_the_user_or_when_it_says_too_much() {
        let why =
            |answer| if let ToolAnswer::None(why) = answer { why } else { panic!("{answer:?}") };
        let late = ask("setsid sleep 98766; true", Duration::from_millis(100), &Interrupts::new());
        assert_eq!(why(late), "had not ended after 100 ms");
        assert!(!runs("sleep 98766"));
        // A minder that was stopped is not waited for.
        let late =
            ask("kill -STOP $PPID; sleep 98766", Duration::from_millis(100), &Interrupts::new());
        assert_eq!(why(late), "had not ended after 100 ms");
        assert!(!runs("sleep 98766"));
        let interrupts = Interrupts::new();
        interrupts.raise();
        assert_eq!(why(ask("sleep 98767", PATIENCE, &interrupts)), "was ended by the user");
        assert!(why(ask("yes", PATIENCE, &Interrupts::new())).contains("printed more than"));
    }
}
