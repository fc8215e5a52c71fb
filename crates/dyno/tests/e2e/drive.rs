//! Helpers of the tests: they run dyno as a user would, in a temporary folder, and check that
//! nothing remains after it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

#[path = "../../../../tests/support/only_entry.rs"]
mod only_entry;
#[path = "../../../../tests/support/port.rs"]
mod ports;
#[path = "../../../../tests/support/not_run.rs"]
mod reasons;

pub use only_entry::only_in;
pub use ports::free_port;
pub use reasons::not_run;

/// Maximum wait for an event, even on a very slow machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Lets one test at a time load a server, because loads would slow each other down.
static ONE_LOAD: Mutex<()> = Mutex::new(());

/// Waits until no other test loads a server.
pub fn wait_for_other_loads() -> MutexGuard<'static, ()> {
    ONE_LOAD.lock().unwrap_or_else(PoisonError::into_inner)
}

pub const DYNO: &str = env!("CARGO_BIN_EXE_dyno");

/// User ID without privileges (65534 on Debian).
const USER: u32 = 65534;

pub fn runs_as_root() -> bool {
    // SAFETY: no memory is involved.
    #[allow(unsafe_code)]
    unsafe {
        libc::geteuid() == 0
    }
}

/// Copies a program to where any user can run it.
pub fn copy_program(from: &Path, to: &Path) {
    fs::copy(from, to).unwrap();
    fs::set_permissions(to, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The server that misbehaves on demand.
pub fn unruly() -> PathBuf {
    example("unruly")
}

/// Path of a program of `crates/dyno/examples`, next to dyno's.
pub fn example(name: &str) -> PathBuf {
    Path::new(DYNO).parent().expect("the program is in a folder").join("examples").join(name)
}

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the repository is here")
}

/// A folder with subjects, suites and runs of one test.
pub struct Sandbox {
    pub folder: tempfile::TempDir,
    _only_load: Option<MutexGuard<'static, ()>>,
}

impl Sandbox {
    /// Returns a sandbox for a test that loads a server. One such test runs at a time.
    pub fn new() -> Sandbox {
        Sandbox::with_lock(Some(wait_for_other_loads()))
    }

    /// Returns a sandbox for a test that loads no server. Such tests run next to others.
    pub fn without_load() -> Sandbox {
        Sandbox::with_lock(None)
    }

    fn with_lock(only_load: Option<MutexGuard<'static, ()>>) -> Sandbox {
        let folder = tempfile::tempdir().unwrap();
        let sandbox = Sandbox { folder, _only_load: only_load };
        fs::create_dir(sandbox.temporary()).unwrap();
        sandbox.copy_subject("null");
        sandbox
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Copies a subject of the repository.
    pub fn copy_subject(&self, name: &str) {
        let status = Command::new("cp")
            .arg("-r")
            .arg(repository().join("subjects").join(name))
            .arg(self.subjects())
            .status()
            .unwrap();
        assert!(status.success());
    }

    /// Returns the folder of temporary files of all processes that are started from this sandbox.
    fn temporary(&self) -> PathBuf {
        self.path().join("tmp")
    }

    /// Each dyno that was started from this sandbox writes its process id here.
    fn pids(&self) -> PathBuf {
        self.path().join("pids")
    }

    fn subjects(&self) -> PathBuf {
        let folder = self.path().join("subjects");
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// Adds a subject that is the unruly server with these arguments. It has no short deadline to
    /// start or to stop.
    pub fn add_unruly(&self, name: &str, arguments: &[&str], extra: &str) {
        self.add_unruly_within("60s", name, arguments, extra);
    }

    /// Adds a subject that does not start or does not stop, which is detected after `deadline`.
    pub fn add_unruly_within(&self, deadline: &str, name: &str, arguments: &[&str], extra: &str) {
        let folder = self.subjects().join(name);
        fs::create_dir_all(&folder).unwrap();
        let mut command = vec![unruly().display().to_string(), "--port".into(), "{port}".into()];
        command.extend(arguments.iter().map(ToString::to_string));
        let text = format!(
            "name = {name:?}\ntitle = \"Unruly {name}\"\nlanguage = \"Rust\"\n\
             protocols = [\"h1\"]\nchecks = [\"hello\"]\n\
             [start]\ncommand = {command:?}\n[stop]\ndeadline = {deadline:?}\n[ready]\n\
             path = \"/plaintext\"\ndeadline = {deadline:?}\n{extra}"
        );
        fs::write(folder.join("subject.toml"), text).unwrap();
    }

    pub fn write_suite(&self, subjects: &[&str], extra: &str) -> PathBuf {
        self.write_suite_of(&format!("{subjects:?}"), extra)
    }

    /// Writes a suite. `subjects`: a list in TOML, which may contain tables.
    pub fn write_suite_of(&self, subjects: &str, extra: &str) -> PathBuf {
        let path = self.path().join("suite.toml");
        let text = format!(
            "subjects = {subjects}\n{extra}\n[suite]\nrepeats = 1\norder = \"fixed\"\nseed = 7\n\
             contaminated = \"counts\"\n\
             [[workloads]]\npath = \"/plaintext\"\n\
             expect = {{ status = 200, body = \"Hello, World!\" }}\n\
             [load]\nconnections = [2, 4]\nwarmup = \"50ms\"\nduration = \"400ms\"\n\
             interval = \"200ms\"\ntimeout = \"5s\"\n"
        );
        fs::write(&path, text).unwrap();
        path
    }

    /// Replaces a part of the text of a file, which must contain it.
    pub fn replace(&self, file: &str, from: &str, to: &str) {
        let path = self.path().join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{from}: {text}");
        fs::write(path, text.replace(from, to)).unwrap();
    }

    /// Returns a command for a program, which first writes its process id into this sandbox.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ >>\"$0\" && exec \"$@\""]).arg(self.pids()).arg(program);
        command
            .env("TMPDIR", self.temporary())
            .current_dir(self.path())
            .env("DYNO_CACHE", self.path().join("cache"))
            .env("XDG_STATE_HOME", self.path().join("state"));
        command.env("NO_COLOR", "1").stdin(Stdio::null());
        command
    }

    pub fn dyno(&self, arguments: &[&str]) -> Output {
        self.command(Path::new(DYNO)).args(arguments).output().unwrap()
    }

    /// Runs dyno as an ordinary user, who then owns this sandbox.
    pub fn dyno_as_ordinary_user(&self, arguments: &[&str]) -> Output {
        let program = self.path().join("dyno");
        if !program.exists() {
            copy_program(Path::new(DYNO), &program);
        }
        let mut command = self.command(&program);
        command.args(arguments).env("HOME", self.path());
        if runs_as_root() {
            let script =
                format!("chown -R {USER}:{USER} {0}; chmod 755 {0}", self.path().display());
            assert!(
                Command::new("sh").args(["-ec", &script]).status().unwrap().success(),
                "{script}"
            );
            command.uid(USER).gid(USER);
        }
        command.output().unwrap()
    }

    /// Runs the suite; returns the exit status and the report.
    pub fn run(&self, subjects: &[&str], extra: &str) -> (i32, Value) {
        self.write_suite(subjects, extra);
        let output = self.dyno(&["run", "suite.toml"]);
        let status = output.status.code().expect("dyno ends by itself");
        assert!(self.run_folder().is_some(), "no run:\n{}", text(&output));
        self.assert_nothing_is_left();
        (status, self.report())
    }

    pub fn run_folder(&self) -> Option<PathBuf> {
        fs::read_dir(self.path().join("runs")).ok()?.next()?.ok().map(|e| e.path())
    }

    pub fn report(&self) -> Value {
        let folder = self.run_folder().expect("there is a run");
        serde_json::from_str(&fs::read_to_string(folder.join("report.json")).unwrap()).unwrap()
    }

    /// Asserts that all processes that were started from this sandbox have ended, and that their
    /// control groups and folders were removed.
    pub fn assert_nothing_is_left(&self) {
        let left = self.remains();
        assert!(left.is_empty(), "left behind: {left:?}");
    }

    /// Does the same after a wait, because only the guard can clean up.
    pub fn assert_nothing_is_left_soon(&self) {
        soon(|| self.remains().is_empty().then_some(()));
        self.assert_nothing_is_left();
    }

    /// Returns the remains of this sandbox's runs. Other runs and tests are ignored.
    fn remains(&self) -> Vec<String> {
        [self.processes_left(), self.folders_left(), self.groups_left()].concat()
    }

    /// Returns the processes that have this sandbox in their environment, working directory or
    /// command line. A guard, which outlives its dyno for a moment, and direct children of this
    /// test process are ignored.
    fn processes_left(&self) -> Vec<String> {
        let here = self.path().display().to_string();
        let left = |pid: u32| {
            let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            let [words, environment] = ["cmdline", "environ"]
                .map(|f| String::from_utf8_lossy(&read(f)).replace('\0', " "));
            let folder = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
            let is_ours =
                words.contains(&here) || environment.contains(&here) || folder.starts_with(&here);
            let is_guard = words.contains(dyno_launch::guard::ARGUMENT);
            let is_tests = dyno_observer::proc::Stat::read(pid)
                .is_some_and(|s| s.parent == std::process::id());
            (is_ours && !is_guard && !is_tests)
                .then(|| format!("process {pid}: {words} in {}", folder.display()))
        };
        dyno_observer::proc::all_pids().into_iter().filter_map(left).collect()
    }

    fn folders_left(&self) -> Vec<String> {
        let is_dynos =
            |p: &PathBuf| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("dyno"));
        entries(&self.temporary())
            .into_iter()
            .filter(is_dynos)
            .map(|p| p.display().to_string())
            .collect()
    }

    /// Returns the remaining control groups. Their names have the process id of their dyno.
    fn groups_left(&self) -> Vec<String> {
        let ours: Vec<String> = fs::read_to_string(self.pids())
            .unwrap_or_default()
            .lines()
            .map(|pid| format!("dyno-{pid}-"))
            .collect();
        let is_ours = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            ours.iter().any(|prefix| name.starts_with(prefix)) && !name.contains("-self")
        };
        let layout = dyno_observer::cgroup::Layout::read();
        let bases = layout.v1.into_values().chain(layout.v2.into_iter().map(|v2| v2.folder));
        let groups = bases.flat_map(|base| entries(&base)).filter(is_ours);
        groups.map(|p| p.display().to_string()).collect()
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().filter_map(|e| Some(e.ok()?.path())).collect()
}

/// Polls `look`, and returns its first result, or `None` after [`PATIENCE`].
pub fn soon<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let began = Instant::now();
    loop {
        let found = look();
        if found.is_some() || began.elapsed() > PATIENCE {
            return found;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the codes of caveats that make this step or load invalid. Codes that only report a busy
/// machine are left out, because they are unrelated to the test.
pub fn refused_for(caveats: &Value) -> Vec<&str> {
    const MACHINE: &[&str] = &[
        "clumped",
        "generator_busy",
        "generator_late",
        "generator_starved",
        "steal",
        "still_warming",
    ];
    let invalid = caveats.as_array().unwrap().iter().filter(|c| c["severity"] == "invalid");
    invalid.map(|c| c["code"].as_str().unwrap()).filter(|code| !MACHINE.contains(code)).collect()
}

/// Returns the writing end of a pipe whose reading end is closed.
pub fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// A run that is stored in the repository.
pub fn stored_run() -> PathBuf {
    repository().join("tests/golden/hello/run")
}

pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Whether a program runs whose command line has these consecutive words.
pub fn is_running(words: &[&str]) -> bool {
    let is_started_with = |pid| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line: Vec<&str> = line.split('\0').collect();
        line.windows(words.len()).any(|part| part == words)
    };
    dyno_observer::proc::all_pids().into_iter().any(is_started_with)
}

/// Returns the characters that a terminal would execute.
pub fn control_characters(printed: &str) -> Vec<char> {
    printed.chars().filter(|c| c.is_control() && !"\n\t".contains(*c)).collect()
}

/// A server that dyno did not start, for `dyno load`. It is killed on drop.
pub struct Server {
    child: Child,
    pub port: u16,
    count_port: u16,
}

impl Server {
    /// The server of [`unruly`], which behaves.
    pub fn start() -> Server {
        Server::start_command(Command::new(unruly()), &[])
    }

    /// The server that breaks each rule a known number of times.
    pub fn broken(mode: &[&str]) -> Server {
        Server::start_command(Command::new(unruly().with_file_name("broken")), mode)
    }

    /// The null responder.
    pub fn null() -> Server {
        let mut command = Command::new(DYNO);
        command.arg("serve-null");
        Server::start_command(command, &[])
    }

    /// Starts the null responder with this number of additional rounds of work per response.
    pub fn null_that_works(rounds: u32) -> Server {
        let mut command = Command::new(DYNO);
        command.arg("serve-null");
        Server::start_command(command, &["--work", &rounds.to_string()])
    }

    /// Starts an HTTP/2 server of another implementation.
    pub fn streams(mode: &[&str]) -> Server {
        let count_port = free_port().to_string();
        let mode = [mode, &["--count-port", &count_port]].concat();
        let mut server =
            Server::start_command(Command::new(unruly().with_file_name("streams")), &mode);
        server.count_port = count_port.parse().unwrap();
        server
    }

    fn start_command(mut command: Command, mode: &[&str]) -> Server {
        let port = free_port();
        command.args(["--port", &port.to_string()]).args(mode).stdout(Stdio::null());
        let mut server = Server { child: command.spawn().unwrap(), port, count_port: port };
        let listens = soon(|| {
            let status = server.child.try_wait().unwrap();
            assert!(status.is_none(), "{command:?} ended immediately: {status:?}");
            std::net::TcpStream::connect(("127.0.0.1", port)).ok()
        });
        assert!(listens.is_some(), "{command:?} did not listen");
        server
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Returns the number of requests that the HTTP/2 server has counted, and the bytes of their
    /// bodies.
    pub fn answered(&self) -> (u64, u64) {
        let stream = std::net::TcpStream::connect(("127.0.0.1", self.count_port)).unwrap();
        let answer = dyno_contract::client::get(stream, "/count", Duration::from_secs(60)).unwrap();
        let counts = String::from_utf8(answer.body).unwrap();
        let (requests, bytes) = counts.split_once(' ').unwrap();
        (requests.parse().unwrap(), bytes.parse().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn send_signal(pid: u32, signal: i32) {
    // SAFETY: no memory is involved.
    #[allow(unsafe_code)]
    let result = unsafe { libc::kill(pid as libc::pid_t, signal) };
    assert_eq!(result, 0);
}
