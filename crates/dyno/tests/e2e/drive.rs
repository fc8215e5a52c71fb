//! Runs dyno as a user would, in a place of its own, and looks at what it leaves.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

/// One dyno at a time: they would slow each other beyond recognition.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

pub const DYNO: &str = env!("CARGO_BIN_EXE_dyno");

/// The server that misbehaves on demand.
pub fn unruly() -> PathBuf {
    Path::new(DYNO).parent().expect("it lies in a folder").join("examples/unruly")
}

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository is here")
}

/// A folder with subjects, suites and runs of one test.
pub struct Place {
    pub folder: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Place {
    pub fn new() -> Place {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        let place = Place { folder, _turn: turn };
        place.copy_subject("null");
        place
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Takes a subject of the repository along.
    pub fn copy_subject(&self, name: &str) {
        let status = Command::new("cp")
            .arg("-r")
            .arg(repository().join("subjects").join(name))
            .arg(self.subjects())
            .status()
            .unwrap();
        assert!(status.success());
    }

    fn subjects(&self) -> PathBuf {
        let folder = self.path().join("subjects");
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// A subject that is the unruly server with these arguments.
    pub fn add_unruly(&self, name: &str, arguments: &[&str], extra: &str) {
        let folder = self.subjects().join(name);
        fs::create_dir_all(&folder).unwrap();
        let mut command = vec![unruly().display().to_string(), "--port".into(), "{port}".into()];
        command.extend(arguments.iter().map(ToString::to_string));
        let text = format!(
            "name = {name:?}\ntitle = \"Unruly {name}\"\nlanguage = \"Rust\"\nprotocols = [\"h1\"]\nchecks = [\"hello\"]\n\
             [start]\ncommand = {command:?}\n[stop]\ndeadline = \"1s\"\n[ready]\npath = \"/plaintext\"\ndeadline = \"2s\"\n{extra}"
        );
        fs::write(folder.join("subject.toml"), text).unwrap();
    }

    pub fn write_suite(&self, subjects: &[&str], extra: &str) -> PathBuf {
        let path = self.path().join("suite.toml");
        let text = format!(
            "subjects = {subjects:?}\n{extra}\n[suite]\nrepeats = 1\norder = \"fixed\"\nseed = 7\n\
             [[workloads]]\npath = \"/plaintext\"\nexpect = {{ status = 200, body = \"Hello, World!\" }}\n\
             [load]\nconnections = [2, 4]\nwarmup = \"50ms\"\nduration = \"400ms\"\ninterval = \"200ms\"\ntimeout = \"1s\"\n"
        );
        fs::write(&path, text).unwrap();
        path
    }

    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.path()).env("DYNO_CACHE", self.path().join("cache"));
        command.env("NO_COLOR", "1").stdin(Stdio::null());
        command
    }

    pub fn dyno(&self, arguments: &[&str]) -> Output {
        self.command(Path::new(DYNO)).args(arguments).output().unwrap()
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

    /// Every process that was started from this place, its control group and its folder, is gone.
    pub fn assert_nothing_is_left(&self) {
        let left = self.left();
        assert!(left.is_empty(), "left behind: {left:?}");
    }

    /// Waits for what only the guard can clean up.
    pub fn assert_nothing_is_left_soon(&self) {
        for _ in 0..100 {
            if self.left().is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        self.assert_nothing_is_left();
    }

    fn left(&self) -> Vec<String> {
        let processes = dyno_observer::proc::all_pids().into_iter().filter_map(|pid| {
            let words = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?.replace('\0', " ");
            let folder = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
            let ours = words.contains("examples/unruly")
                || words.contains("examples/broken")
                || words.contains("serve-null")
                || is_work_folder(&folder);
            ours.then(|| format!("process {pid}: {words} in {}", folder.display()))
        });
        let folders =
            entries("/tmp").into_iter().filter(|p| is_work_folder(p)).map(|p| p.display().to_string());
        let layout = dyno_observer::cgroup::Layout::read();
        let bases = layout.v1.into_values().chain(layout.v2.into_iter().map(|v2| v2.folder));
        let groups = bases
            .flat_map(|base| entries(&base.display().to_string()))
            .filter(|p| is_work_folder(p) && !p.to_string_lossy().ends_with("-self"))
            .map(|p| p.display().to_string());
        processes.chain(folders).chain(groups).collect()
    }
}

fn entries(folder: &str) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().filter_map(|e| Some(e.ok()?.path())).collect()
}

/// `dyno-PID-N`.
fn is_work_folder(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut parts = name.split('-');
    parts.next() == Some("dyno")
        && parts.next().is_some_and(|p| p.parse::<u32>().is_ok())
        && parts.next().is_some()
}

/// Says why a test cannot run here. Written past the test harness, which keeps the output of passing tests.
pub fn not_run(why: &str) {
    let _ = writeln!(std::io::stderr(), "NOT RUN: {why}");
}

pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A server outside of dyno's care, for `dyno load`. Killed on drop.
pub struct Server {
    child: Child,
    pub port: u16,
    count_port: u16,
}

impl Server {
    pub fn start(mode: &[&str]) -> Server {
        Server::of(&unruly(), mode)
    }

    /// The server that breaks each rule a known number of times.
    pub fn broken(mode: &[&str]) -> Server {
        Server::of(&unruly().with_file_name("broken"), mode)
    }

    /// The HTTP/2 server of another implementation.
    pub fn streams(mode: &[&str]) -> Server {
        let count_port = free_port().to_string();
        let mode = [mode, &["--count-port", &count_port]].concat();
        let mut server = Server::of(&unruly().with_file_name("streams"), &mode);
        server.count_port = count_port.parse().unwrap();
        server
    }

    fn of(program: &Path, mode: &[&str]) -> Server {
        let port = free_port();
        let mut command = Command::new(program);
        command.args(["--port", &port.to_string()]).args(mode).stdout(Stdio::null());
        let server = Server { child: command.spawn().unwrap(), port, count_port: port };
        for _ in 0..500 {
            if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return server;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the unruly server never listened");
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: a signal to a child that has not been waited for.
        #[allow(unsafe_code)]
        let status = unsafe { libc::kill(self.child.id() as i32, signal) };
        assert_eq!(status, 0);
    }

    /// Requests that the server itself has counted.
    pub fn count(&self) -> u64 {
        self.counts().parse().unwrap()
    }

    /// Requests that the HTTP/2 server has counted, and bytes of their bodies.
    pub fn answered(&self) -> (u64, u64) {
        let counts = self.counts();
        let (requests, bytes) = counts.split_once(' ').unwrap();
        (requests.parse().unwrap(), bytes.parse().unwrap())
    }

    fn counts(&self) -> String {
        let stream = std::net::TcpStream::connect(("127.0.0.1", self.count_port)).unwrap();
        let answer = dyno_runner::client::get(stream, "/count", Duration::from_secs(5)).unwrap();
        String::from_utf8(answer.body).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
