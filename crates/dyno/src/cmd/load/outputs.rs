//! Writes outputs while a load runs: a line of JSON per interval, and a page of OpenMetrics.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Read as _, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use dyno_analysis::load::LoadConfig;
use dyno_archive::Interval;
use dyno_launch::open_pipe_with_reader;
use dyno_report::{intervals, openmetrics};
use dyno_workload::command_line;

use super::requests::ReadableFiles;
use crate::cli::LoadArgs;
use crate::exit::{unwritten, usage_error};
use crate::inputs::Inputs;
use crate::{calibration, terminal};

/// Checks before the load that every output file can be written, that all outputs are different
/// files, and that none of them is an input.
pub fn check_files(args: &LoadArgs, files: &ReadableFiles) -> anyhow::Result<()> {
    let standard_output = Path::new("-");
    if [&args.hgrm, &args.hlog].into_iter().flatten().any(|path| path == standard_output) {
        return Err(usage_error(
            "--hgrm and --hlog: must be files, because standard output has the result\nhint: name \
             a file, such as --hgrm load.hgrm",
        ));
    }
    let inputs = input_files(args, files);
    let mut outputs = Vec::new();
    for path in [&args.output, &args.hgrm, &args.hlog, &args.stream].into_iter().flatten() {
        if path == standard_output {
            continue;
        }
        let Some(identity) = inputs.check(path)? else { continue };
        if outputs.contains(&identity) {
            return Err(usage_error(format!(
                "{}: would be written by two outputs\nhint: give each output its own file",
                path.display()
            )));
        }
        outputs.push(identity);
    }
    Ok(())
}

/// Returns the files that a load reads.
fn input_files(args: &LoadArgs, files: &ReadableFiles) -> Inputs {
    let options = [&args.trace, &args.body_file, &args.import, &args.cacert, &args.cert, &args.key];
    let mut inputs = Inputs::default();
    options.into_iter().flatten().for_each(|path| inputs.add(path));
    files.paths().iter().for_each(|path| inputs.add(path));
    inputs.add(&calibration::ceilings_file());
    let inputs = RefCell::new(inputs);
    for text in &args.mix {
        // Parsed again only for the names of the bodies.
        let _ = command_line::parse_mix_entry(text, &|name| {
            inputs.borrow_mut().add(Path::new(name));
            Ok(Vec::new())
        });
    }
    inputs.into_inner()
}

/// The output of `--stream`. Each interval is written when it ends. Until the load has begun, a
/// file stays as it is.
pub struct IntervalStream {
    output: StreamOutput,
    /// The first line; `None`: the line has been written.
    head: Option<String>,
}

enum StreamOutput {
    Standard,
    Pipe(BufWriter<File>),
    /// `new`: the path of a file that did not exist. It is removed if the load never begins.
    File {
        file: BufWriter<File>,
        new: Option<PathBuf>,
    },
}

impl StreamOutput {
    /// Opens an output. If it is a pipe, waits for a reader.
    fn open(path: &Path) -> io::Result<StreamOutput> {
        if path == Path::new("-") {
            return Ok(StreamOutput::Standard);
        }
        let before = std::fs::metadata(path).ok();
        if before.as_ref().is_some_and(|file| file.file_type().is_fifo()) {
            return Ok(StreamOutput::Pipe(BufWriter::new(open_pipe(path)?)));
        }
        let file = File::options().write(true).create(true).truncate(false).open(path)?;
        // The path itself may be a link to a file that did not exist.
        let new = if before.is_none() { path.canonicalize().ok() } else { None };
        Ok(StreamOutput::File { file: BufWriter::new(file), new })
    }

    /// Empties a file for the first line.
    fn clear(&mut self) -> io::Result<()> {
        match self {
            // Devices have no length.
            StreamOutput::File { file, .. } if file.get_ref().metadata()?.is_file() => {
                file.get_ref().set_len(0)
            }
            _ => Ok(()),
        }
    }

    /// Writes a line and flushes it, so that a reader of the growing file sees whole lines.
    fn line(&mut self, line: &str) -> io::Result<()> {
        let output: &mut dyn Write = match self {
            StreamOutput::Standard => &mut io::stdout(),
            StreamOutput::Pipe(file) | StreamOutput::File { file, .. } => file,
        };
        writeln!(output, "{line}").and_then(|()| output.flush())
    }
}

impl IntervalStream {
    /// Opens the output. If it is a pipe, waits for a reader.
    pub fn open(path: &Path, config: &LoadConfig) -> anyhow::Result<IntervalStream> {
        let output = StreamOutput::open(path).map_err(|error| {
            usage_error(format!("--stream {}: cannot be opened: {error}", path.display()))
        })?;
        Ok(IntervalStream { output, head: Some(intervals::stream_head(config)) })
    }

    /// Writes the first line, unless it is written.
    pub fn begin(&mut self) -> anyhow::Result<()> {
        let Some(head) = self.head.take() else { return Ok(()) };
        let result = self.output.clear().and_then(|()| self.output.line(&head));
        result.map_err(|error| self.explain(error))
    }

    pub fn interval(&mut self, interval: &Interval) -> anyhow::Result<()> {
        self.begin()?;
        let result = self.output.line(&intervals::stream_line(interval));
        result.map_err(|error| self.explain(error))
    }

    fn explain(&self, error: io::Error) -> anyhow::Error {
        match (error.kind(), &self.output) {
            (ErrorKind::BrokenPipe, StreamOutput::Standard) => unwritten(error),
            (ErrorKind::BrokenPipe, _) => {
                anyhow::anyhow!(
                    "--stream: its reader closed it before the load ended\nhint: use a reader that \
                     reads to the end, or a file"
                )
            }
            _ => anyhow::Error::new(error).context("--stream: cannot be written"),
        }
    }
}

impl Drop for IntervalStream {
    fn drop(&mut self) {
        if let (Some(_), StreamOutput::File { new: Some(path), .. }) = (&self.head, &self.output) {
            // An empty file would be left of a load that never began.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Opens a pipe as soon as it has a reader.
fn open_pipe(path: &Path) -> io::Result<File> {
    // Held until the pipe is open. Otherwise its reader would see an end of file.
    let reader = open_pipe_with_reader(path)?;
    if reader.is_none() {
        terminal::say(&format!("{}: waiting for a reader of this pipe", path.display()));
    }
    File::create(path)
}

/// The page at `/metrics`, in the format OpenMetrics.
pub struct MetricsPage {
    page: Arc<Mutex<String>>,
    /// The URL of the page.
    pub url: String,
}

impl MetricsPage {
    pub fn begin(addr: SocketAddr, page: String) -> anyhow::Result<MetricsPage> {
        let listener = TcpListener::bind(addr).map_err(|error| {
            usage_error(format!(
                "--metrics {addr}: cannot be opened: {error}\nhint: give another port, or 0 for \
                 any free port"
            ))
        })?;
        let url = format!("http://{}/metrics", listener.local_addr()?);
        terminal::say(&format!("metrics at {url}"));
        let page = Arc::new(Mutex::new(page));
        let served_page = Arc::clone(&page);
        // The thread ends with the process, because it has nothing to clean up.
        thread::Builder::new().name("metrics".into()).spawn(move || {
            serve(&listener, &served_page);
        })?;
        Ok(MetricsPage { page, url })
    }

    pub fn update(&self, page: String) {
        *self.page.lock().unwrap_or_else(PoisonError::into_inner) = page;
    }
}

/// Serves the totals of a load so far.
pub struct Metrics {
    totals: openmetrics::LoadTotals,
    pub page: MetricsPage,
}

impl Metrics {
    pub fn serve(addr: SocketAddr, config: &LoadConfig) -> anyhow::Result<Metrics> {
        let totals = openmetrics::LoadTotals::new(config);
        let page = MetricsPage::begin(addr, totals.page())?;
        Ok(Metrics { totals, page })
    }

    pub fn interval(&mut self, interval: &Interval) {
        self.totals.add(interval);
        self.page.update(self.totals.page());
    }
}

/// Maximum number of concurrent readers of metrics. A further reader replaces the oldest one, so
/// that slow readers do not block others.
const READERS: usize = 32;

/// Time limit of a reader, from its connection to the end of the page.
const READER_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves readers until the process ends, each in its own thread.
fn serve(listener: &TcpListener, page: &Arc<Mutex<String>>) {
    let mut readers: VecDeque<Weak<TcpStream>> = VecDeque::new();
    for stream in listener.incoming() {
        let Ok(stream) = stream.map(Arc::new) else {
            // Without a free file descriptor the next accept would fail immediately as well.
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        readers.retain(|reader| reader.strong_count() > 0);
        if readers.len() >= READERS
            && let Some(oldest) = readers.pop_front().and_then(|reader| reader.upgrade())
        {
            let _ = oldest.shutdown(Shutdown::Both);
        }
        readers.push_back(Arc::downgrade(&stream));
        let page = Arc::clone(page);
        let serve_reader = move || {
            // This clock only limits the reader's time. It measures nothing.
            let _ = respond(
                &TimedConnection { stream: &stream, deadline: Instant::now() + READER_TIMEOUT },
                &page,
            );
        };
        // Without a thread the connection is closed.
        let _ = thread::Builder::new().name("metrics".into()).spawn(serve_reader);
    }
}

/// A connection with one deadline for all its reads and writes.
struct TimedConnection<'a> {
    stream: &'a TcpStream,
    deadline: Instant,
}

impl TimedConnection<'_> {
    /// Returns the time left.
    fn remaining_time(&self) -> io::Result<Option<Duration>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }

    fn read(&self, part: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.remaining_time()?)?;
        let mut stream = self.stream;
        stream.read(part)
    }

    fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.stream.set_write_timeout(self.remaining_time()?)?;
            let mut stream = self.stream;
            match stream.write(bytes)? {
                0 => return Err(ErrorKind::WriteZero.into()),
                n => bytes = &bytes[n..],
            }
        }
        Ok(())
    }
}

fn respond(reader: &TimedConnection<'_>, page: &Mutex<String>) -> io::Result<()> {
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while !head.windows(4).any(|w| w == b"\r\n\r\n") && head.len() < 16 * 1024 {
        match reader.read(&mut part)? {
            0 => return Ok(()),
            n => head.extend_from_slice(&part[..n]),
        }
    }
    let is_metrics = head.starts_with(b"GET /metrics ") || head.starts_with(b"GET /metrics?");
    let page = || page.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let (status, body) =
        if is_metrics { ("200 OK", page()) } else { ("404 Not Found", "see /metrics\n".into()) };
    let response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: \
         close\r\n\r\n{body}",
        openmetrics::CONTENT_TYPE,
        body.len()
    );
    reader.write_all(response.as_bytes())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::super::requests;
    use super::*;
    use crate::cli::{Cli, Command};

    /// Checks the outputs of `dyno load` with these words, after reading its requests.
    fn check_outputs(words: &[&str]) -> Result<(), String> {
        let words = ["dyno", "load"].iter().chain(words);
        let Command::Load(mut args) = Cli::parse_from(words).command else { panic!() };
        let files = requests::readable_files(&args);
        requests::read_requests(&mut args, &files).unwrap();
        if args.files.is_some() {
            // Read by a placeholder when requests are compiled.
            let _ = files.read("users.csv");
        }
        check_files(&args, &files).map_err(|error| error.to_string())
    }

    #[test]
    fn output_that_is_input_of_load_is_refused() {
        const URL: &str = "https://127.0.0.1:1/";
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().to_str().unwrap();
        let at = |name: &str| format!("{folder}/{name}");
        std::fs::write(at("users.csv"), "id\n7\n").unwrap();
        std::fs::write(at("urls"), URL).unwrap();
        let (file, urls, new) = (&*at("users.csv"), &*at("urls"), &*at("new"));
        let mixed = format!("1 POST / @{file}");
        for inputs in [
            &[URL, "--body-file", file][..],
            &[URL, "--trace", file],
            &[URL, "--request", &mixed],
            &[URL, "--cacert", file],
            &[URL, "--cert", file, "--key", urls],
            &[URL, "--cert", urls, "--key", file],
            // A placeholder such as {csv:users.csv:id}.
            &[URL, "--files", folder],
        ] {
            for output in ["-o", "--hlog", "--hgrm", "--stream"] {
                let error = check_outputs(&[inputs, &[output, file]].concat()).unwrap_err();
                assert!(
                    error.contains("an input would be overwritten"),
                    "{inputs:?} {output}: {error}"
                );
                assert_eq!(
                    check_outputs(&[inputs, &[output, new]].concat()),
                    Ok(()),
                    "{inputs:?} {output}"
                );
            }
        }
        assert!(check_outputs(&["--import", urls, "--hlog", urls]).is_err());
    }

    /// Bodies that an imported command names are read with `--files`.
    #[test]
    fn output_that_is_body_of_import_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().to_str().unwrap();
        let at = |name: &str| format!("{folder}/{name}");
        let (input, commands) = (&*at("in.txt"), &*at("commands"));
        std::fs::write(input, "precious").unwrap();
        for options in ["-d @in.txt", "--data-binary @in.txt", "-T in.txt", "-F f=@in.txt"] {
            let command = format!("curl {options} http://127.0.0.1:1/");
            std::fs::write(commands, &command).unwrap();
            for import in [["--curl", &command], ["--import", commands]] {
                let words = [&import[..], &["--files", folder, "-o", input]].concat();
                let error = check_outputs(&words).unwrap_err();
                assert!(error.contains("an input would be overwritten"), "{words:?}: {error}");
            }
        }
    }

    fn fetch(url: &str) -> String {
        let addr = url.trim_start_matches("http://").trim_end_matches("/metrics");
        let mut stream = TcpStream::connect(addr).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        io::read_to_string(stream).unwrap()
    }

    #[test]
    fn slow_readers_do_not_block_others() {
        let served = MetricsPage::begin("127.0.0.1:0".parse().unwrap(), "first\n".into()).unwrap();
        let addr =
            served.url.trim_start_matches("http://").trim_end_matches("/metrics").to_string();
        // Each sends a part of its request. There are more than can be served concurrently.
        let slow: Vec<TcpStream> = (0..2 * READERS)
            .map(|_| {
                let mut stream = TcpStream::connect(&addr).unwrap();
                stream.write_all(b"GET /met").unwrap();
                stream
            })
            .collect();
        assert!(fetch(&served.url).ends_with("first\n"));
        served.update("second\n".into());
        assert!(fetch(&served.url).ends_with("second\n"));
        // The oldest readers were disconnected.
        let mut oldest = &slow[0];
        oldest.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        assert!(matches!(oldest.read(&mut [0; 1]), Ok(0)));
    }

    #[test]
    fn reader_past_deadline_is_timed_out() {
        let (client, server) = {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            (
                TcpStream::connect(listener.local_addr().unwrap()).unwrap(),
                listener.accept().unwrap().0,
            )
        };
        (&client).write_all(b"G").unwrap();
        // The deadline has passed, although a byte has just arrived.
        let reader = TimedConnection { stream: &server, deadline: Instant::now() };
        let ended = respond(&reader, &Mutex::new(String::new()));
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::TimedOut);
    }
}
