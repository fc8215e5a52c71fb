//! Reads the statistics of a server's runtime (such as a JVM or Node.js) while a load runs.
//!
//! A process with statistics listens at a Unix socket, `$DYNO_RUNTIME.PID`, and responds to each
//! connection with one JSON object of numbers. Only dyno connects to the socket. A separate thread
//! reads the statistics, because a slow runtime must not delay samples.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Instant;

use dyno_model::probe::{Probe, RefusedProbe};
use dyno_model::runtime::RuntimeReading;
use dyno_observer::{Sampler, hsperfdata, monotonic_ns};
use dyno_subject::definition::RuntimeSpec;
use socket2::{Domain, SockAddr, Socket, Type};

use crate::limits::{RUNTIME_BYTES, RUNTIME_PAUSE, RUNTIME_TIMEOUT, RUNTIME_VALUES};

/// Variable with the path prefix of the socket of a server's runtime. The server appends a dot and
/// its process id.
const VARIABLE: &str = "DYNO_RUNTIME";

/// Variable with command-line options of Node.js.
const NODE_OPTIONS: &str = "NODE_OPTIONS";

/// Script that Node.js loads first to serve its statistics.
const NODE_SCRIPT: &str = include_str!("runtime.cjs");

/// Prepares a server's working folder for runtime statistics. Returns the environment variables
/// that enable the statistics. The caller appends the value of `NODE_OPTIONS` to an existing value.
pub(crate) fn prepare(
    runtime: RuntimeSpec,
    work: &Path,
) -> std::io::Result<Vec<(&'static str, String)>> {
    let sockets = (VARIABLE, socket_prefix(work).display().to_string());
    Ok(match runtime {
        RuntimeSpec::Jvm => Vec::new(),
        RuntimeSpec::Own => vec![sockets],
        RuntimeSpec::Node => {
            let script = work.join("dyno-runtime.cjs");
            fs::write(&script, NODE_SCRIPT)?;
            vec![sockets, (NODE_OPTIONS, format!("--require={}", script.display()))]
        }
    })
}

/// Returns the path prefix of the sockets of a server's processes.
fn socket_prefix(work: &Path) -> PathBuf {
    work.join("dyno-runtime")
}

/// A runtime with statistics.
#[derive(Clone, Debug)]
pub(crate) struct SampledRuntime {
    runtime: RuntimeSpec,
    work: PathBuf,
    sampler: Sampler,
}

impl SampledRuntime {
    pub(crate) fn new(runtime: RuntimeSpec, work: &Path, sampler: &Sampler) -> SampledRuntime {
        SampledRuntime { runtime, work: work.into(), sampler: sampler.clone() }
    }

    /// Reads the statistics repeatedly until the sender of `stop` is dropped. Returns the readings.
    /// If there are no readings, also returns the reason.
    pub(crate) fn follow(
        &self,
        stop: &mpsc::Receiver<()>,
    ) -> (Vec<RuntimeReading>, Option<RefusedProbe>) {
        let mut readings = Vec::new();
        let mut refused = None;
        loop {
            match self.read() {
                Ok(reading) => readings.push(reading),
                Err(reason) => refused = Some(reason),
            }
            if !matches!(stop.recv_timeout(RUNTIME_PAUSE), Err(mpsc::RecvTimeoutError::Timeout)) {
                let refused = refused.filter(|_| readings.is_empty());
                return (readings, refused.map(|reason| self.refusal(reason)));
            }
        }
    }

    /// Reads the statistics of all processes once.
    fn read(&self) -> Result<RuntimeReading, String> {
        // The clock is read before and after the request, to measure its duration.
        let requested_ns = monotonic_ns();
        let (processes, socket_pids, values) = match self.runtime {
            RuntimeSpec::Jvm => {
                let (processes, values) = hsperfdata::read(&self.sampler.pids());
                (processes, BTreeSet::new(), values)
            }
            RuntimeSpec::Node | RuntimeSpec::Own => {
                let (socket_pids, values) = read_all_processes(&self.work)?;
                (socket_pids.len() as u32, socket_pids, values)
            }
        };
        let at_ns = monotonic_ns();
        if values.is_empty() {
            return Err("no process of the server returned statistics".into());
        }
        Ok(RuntimeReading {
            at_ns,
            took_ns: at_ns - requested_ns,
            processes,
            sockets: socket_pids,
            values,
        })
    }

    /// Returns the reason why there are no statistics, with a hint for this kind of runtime.
    fn refusal(&self, reason: String) -> RefusedProbe {
        let hint = match self.runtime {
            RuntimeSpec::Jvm => {
                "Run the JVM without -XX:-UsePerfData, and with a /tmp that dyno can read."
            }
            RuntimeSpec::Node => {
                "Use Node.js 16 or later, and do not remove the environment variable NODE_OPTIONS."
            }
            RuntimeSpec::Own => {
                "See docs/reference/subject-keys.md for how a server provides statistics."
            }
        };
        RefusedProbe { probe: Probe::Runtime, reason, hint: hint.into() }
    }
}

/// Reads the statistics of every process with a socket. Returns the process ids, which are the
/// extensions of the sockets' names, and the sum of each value over all processes. A process that
/// has ended is skipped.
fn read_all_processes(work: &Path) -> Result<(BTreeSet<String>, BTreeMap<String, f64>), String> {
    let mut sum = BTreeMap::new();
    let mut socket_pids = BTreeSet::new();
    let mut failed = None;
    let files = fs::read_dir(work).map_err(|error| error.to_string())?.flatten();
    // The script of Node.js has the same name as the sockets, with another extension.
    let is_socket = |path: &PathBuf| {
        path.file_stem() == socket_prefix(work).file_name()
            && path.extension().is_some_and(|ext| ext != "cjs")
    };
    for path in files.map(|file| file.path()).filter(is_socket) {
        match read_process(&path) {
            Ok(values) if values.is_empty() => {}
            Ok(values) => {
                socket_pids.extend(path.extension().map(|pid| pid.to_string_lossy().into_owned()));
                for (name, value) in values {
                    *sum.entry(name).or_insert(0.0) += value;
                }
            }
            Err(reason) => failed = Some(reason),
        }
    }
    match failed {
        // Sums over some of the processes would not be comparable from one reading to the next.
        Some(reason) => Err(reason),
        None => Ok((socket_pids, sum)),
    }
}

/// Reads the statistics of one process. The result is empty if the process no longer listens.
fn read_process(socket: &Path) -> Result<BTreeMap<String, f64>, String> {
    let mut response = Vec::new();
    match connect(socket).and_then(|stream| read_to_end(stream, &mut response)) {
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            return Ok(BTreeMap::new());
        }
        Err(error) => {
            return Err(format!(
                "the process did not respond to the request for statistics: {error}"
            ));
        }
        Ok(()) if response.len() as u64 > RUNTIME_BYTES => {
            return Err(format!("the process sent more than {RUNTIME_BYTES} bytes of statistics"));
        }
        Ok(()) => {}
    }
    parse(&response)
}

/// Connects with a time-out. `UnixStream::connect` would block for as long as the accept queue is
/// full.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // The write time-out also limits the time to connect (unix_stream_connect in
    // net/unix/af_unix.c).
    socket.set_write_timeout(Some(RUNTIME_TIMEOUT))?;
    socket.connect(&SockAddr::unix(path)?)?;
    Ok(UnixStream::from(OwnedFd::from(socket)))
}

/// Reads a response to its end, or until it is longer than the longest allowed response. `Err`: the
/// time-out, or an error of the connection.
fn read_to_end(mut stream: UnixStream, response: &mut Vec<u8>) -> io::Result<()> {
    // This clock only limits the wait.
    let until = Instant::now() + RUNTIME_TIMEOUT;
    let mut part = [0; 4096];
    while response.len() as u64 <= RUNTIME_BYTES {
        let remaining = until.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(remaining))?;
        match stream.read(&mut part) {
            Ok(0) => return Ok(()),
            Ok(n) => response.extend_from_slice(&part[..n]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Parses a response: names of lower-case letters, digits and `_`, with finite numbers.
fn parse(response: &[u8]) -> Result<BTreeMap<String, f64>, String> {
    let values: BTreeMap<String, f64> = serde_json::from_slice(response).map_err(|error| {
        format!("the statistics of the process are not a JSON object of numbers: {error}")
    })?;
    let is_name = |name: &&String| {
        (1..=64).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    if let Some(invalid) = values.keys().find(|name| !is_name(name)) {
        return Err(format!(
            "the server's statistic {invalid:?}: the name must be 1 to 64 characters of a–z, 0–9 \
             and `_`"
        ));
    }
    if values.len() > RUNTIME_VALUES {
        return Err(format!("the process sent more than {RUNTIME_VALUES} statistics"));
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::io::Write as _;
    use std::os::unix::net::UnixListener;
    use std::thread;

    /// Listens like a process with statistics, and sends each element of `responses` on one
    /// connection.
    fn serve(work: &Path, pid: u32, responses: Vec<&'static str>) -> thread::JoinHandle<()> {
        let listener = UnixListener::bind(work.join(format!("dyno-runtime.{pid}"))).unwrap();
        thread::spawn(move || {
            for response in responses {
                listener.accept().unwrap().0.write_all(response.as_bytes()).unwrap();
            }
        })
    }

    #[test]
    fn read_all_processes_sums_values() {
        let work = tempfile::tempdir().unwrap();
        let first = serve(work.path(), 1, vec!["{\"gc_cycles_total\": 2, \"heap_bytes\": 10.5}"]);
        let second = serve(work.path(), 2, vec!["{\"gc_cycles_total\": 3}"]);
        let primary = serve(work.path(), 3, vec!["{}"]);
        // A socket of a process that has ended, and the script of Node.js.
        drop(UnixListener::bind(work.path().join("dyno-runtime.4")).unwrap());
        prepare(RuntimeSpec::Node, work.path()).unwrap();
        let (socket_pids, values) = read_all_processes(work.path()).unwrap();
        assert_eq!(socket_pids, ["1", "2"].map(String::from).into());
        assert_eq!(values, [("gc_cycles_total".into(), 5.0), ("heap_bytes".into(), 10.5)].into());
        [first, second, primary].into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(read_all_processes(work.path()).unwrap(), (BTreeSet::new(), BTreeMap::new()));
    }

    #[test]
    fn parse_invalid_response_fails() {
        for (response, words) in [
            ("", "not a JSON object of numbers"),
            ("[1]", "not a JSON object of numbers"),
            ("{\"a\": \"b\"}", "not a JSON object of numbers"),
            ("{\"a\": 1e999}", "not a JSON object of numbers"),
            ("{\"GC pauses\": 1}", "statistic \"GC pauses\": the name must be 1 to 64 characters"),
        ] {
            let error = parse(response.as_bytes()).unwrap_err();
            assert!(error.contains(words), "{response}: {error}");
        }
        let too_many_values =
            (0..=RUNTIME_VALUES).map(|n| (format!("v{n}"), 1.0)).collect::<BTreeMap<_, _>>();
        assert!(
            parse(&serde_json::to_vec(&too_many_values).unwrap())
                .unwrap_err()
                .contains("more than")
        );
    }

    /// A stopped process with a full accept queue, and one that sends single bytes without end.
    #[test]
    fn read_process_times_out_without_complete_response() {
        let work = tempfile::tempdir().unwrap();
        let path = work.path().join("dyno-runtime.1");
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        socket.bind(&SockAddr::unix(&path).unwrap()).unwrap();
        socket.listen(1).unwrap();
        let results: Vec<_> = (0..4).map(|_| read_process(&path)).collect();
        assert!(
            results.iter().all(|result| result
                .as_ref()
                .is_err_and(|reason| reason.contains("did not respond"))),
            "{results:?}"
        );
        let path = work.path().join("dyno-runtime.2");
        let listener = UnixListener::bind(&path).unwrap();
        let slow_sender = thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            while stream.write_all(b" ").is_ok() {
                thread::sleep(std::time::Duration::from_millis(20));
            }
        });
        assert!(read_process(&path).unwrap_err().contains("did not respond"));
        slow_sender.join().unwrap();
    }

    #[test]
    fn runtime_without_statistics_is_refused_with_hint() {
        let work = tempfile::tempdir().unwrap();
        let sampler = Sampler {
            group: dyno_observer::cgroup::Group::default(),
            processes: dyno_observer::Processes::Descendants(u32::MAX),
        };
        for runtime in [RuntimeSpec::Jvm, RuntimeSpec::Own] {
            let (to, stop) = mpsc::channel::<()>();
            drop(to);
            let (readings, refused) =
                SampledRuntime::new(runtime, work.path(), &sampler).follow(&stop);
            assert!(readings.is_empty());
            let RefusedProbe { probe, reason, hint } = refused.unwrap();
            assert_eq!(probe, Probe::Runtime);
            assert_eq!(reason, "no process of the server returned statistics");
            assert!(!hint.is_empty());
        }
    }
}
