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

use anyhow::Context as _;
use dyno_analysis::load::LoadConfig;
use dyno_launch::open_pipe_with_reader;
use dyno_model::Interval;
use dyno_report::format::plural;
use dyno_report::{intervals, openmetrics};
use dyno_workload::command_line;

use super::requests::ReadableFiles;
use crate::cli::LoadArgs;
use crate::exit::{unwritten, usage_error};
use crate::inputs::Inputs;
use crate::line_writer::{LineWriter, WriterState};
use crate::result_file::{is_standard_output, open_file_of_process};
use crate::{calibration, terminal};

/// Whether the stream of a load goes to standard output.
pub fn streams_to_stdout(args: &LoadArgs) -> bool {
    args.stream.as_deref().is_some_and(is_standard_output)
}

/// Checks before the load that every output file can be written, that all outputs are different
/// files, and that none of them is an input.
pub fn check_files(args: &LoadArgs, files: &ReadableFiles) -> anyhow::Result<()> {
    if [&args.hgrm, &args.hlog].into_iter().flatten().any(|path| is_standard_output(path)) {
        return Err(usage_error(
            "--hgrm and --hlog: must be files, because standard output has the result\nhint: name \
             a file, such as --hgrm load.hgrm",
        ));
    }
    let inputs = input_files(args, files);
    let mut outputs = Vec::new();
    for path in [&args.output, &args.hgrm, &args.hlog, &args.stream].into_iter().flatten() {
        if is_standard_output(path) {
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
        // Parses the mix again, only to collect the names of its body files.
        let _ = command_line::parse_mix_entry(text, &|name| {
            inputs.borrow_mut().add(Path::new(name));
            Ok(Vec::new())
        });
    }
    inputs.into_inner()
}

/// The output of `--stream`. Each interval is passed to a writing thread when it ends, so that a
/// stalled reader does not delay the load. An existing file keeps its content until the load has
/// begun.
pub struct IntervalStream {
    /// `None`: the stream has ended.
    writer: Option<LineWriter>,
    /// The first line. `None`: the line has been passed to the writer.
    head: Option<String>,
    is_standard_output: bool,
    /// The path of the output, if dyno created the file. If the load never begins, the file is
    /// removed.
    created_file: Option<PathBuf>,
}

enum StreamOutput {
    Standard,
    /// A pipe, or an open file of a process, whose content is kept.
    Direct(BufWriter<File>),
    File(BufWriter<File>),
}

impl StreamOutput {
    /// Opens an output. If it is a pipe, waits for a reader. Also returns the path of the file, if
    /// this function created the file.
    fn open(path: &Path) -> io::Result<(StreamOutput, Option<PathBuf>)> {
        if is_standard_output(path) {
            return Ok((StreamOutput::Standard, None));
        }
        let before = std::fs::metadata(path).ok();
        if before.as_ref().is_some_and(|file| file.file_type().is_fifo()) {
            return Ok((StreamOutput::Direct(BufWriter::new(open_pipe(path)?)), None));
        }
        if let Some(file) = open_file_of_process(path)? {
            return Ok((StreamOutput::Direct(BufWriter::new(file)), None));
        }
        let file = File::options().write(true).create(true).truncate(false).open(path)?;
        // If the path is a link to a file that did not exist, dyno created the file, not the link.
        // The canonical path is that of the file.
        let created_file = if before.is_none() { path.canonicalize().ok() } else { None };
        Ok((StreamOutput::File(BufWriter::new(file)), created_file))
    }

    /// Empties a file for the first line.
    fn clear(&mut self) -> io::Result<()> {
        match self {
            // Devices have no length.
            StreamOutput::File(file) if file.get_ref().metadata()?.is_file() => {
                file.get_ref().set_len(0)
            }
            _ => Ok(()),
        }
    }

    /// Writes a line and flushes it, so that a reader of the growing file sees whole lines.
    fn line(&mut self, line: &str) -> io::Result<()> {
        let output: &mut dyn Write = match self {
            StreamOutput::Standard => &mut io::stdout(),
            StreamOutput::Direct(file) | StreamOutput::File(file) => file,
        };
        writeln!(output, "{line}").and_then(|()| output.flush())
    }

    /// Starts the thread that writes the lines. A file is emptied before the first line.
    fn into_writer(mut self) -> io::Result<LineWriter> {
        let mut is_cleared = false;
        LineWriter::start(move |line| {
            if !is_cleared {
                self.clear()?;
                is_cleared = true;
            }
            self.line(line)
        })
    }
}

impl IntervalStream {
    /// Opens the output. If it is a pipe, waits for a reader.
    pub fn open(path: &Path, config: &LoadConfig) -> anyhow::Result<IntervalStream> {
        let (output, created_file) = StreamOutput::open(path).map_err(|error| {
            usage_error(format!("--stream {}: cannot be opened: {error}", path.display()))
        })?;
        let is_standard_output = matches!(output, StreamOutput::Standard);
        let head = Some(intervals::stream_head(config));
        let mut stream = IntervalStream { writer: None, head, is_standard_output, created_file };
        stream.writer = Some(output.into_writer().context("--stream: no thread can be started")?);
        Ok(stream)
    }

    /// Passes the first line to the writer, unless an earlier call has done so.
    fn begin(&mut self) {
        if let (Some(head), Some(writer)) = (self.head.take(), &mut self.writer) {
            writer.line(head);
        }
    }

    /// Passes an interval to the writer. Never waits.
    pub fn interval(&mut self, interval: &Interval) {
        self.begin();
        if let Some(writer) = &mut self.writer {
            writer.line(intervals::stream_line(interval));
        }
    }

    /// Waits for the last lines, but at most for `patience`, and returns the number of lines that
    /// are missing because of a slow reader. If the load has begun but had no interval, the first
    /// line is still written.
    ///
    /// # Errors
    /// The stream cannot be written, or its reader has closed it.
    pub fn end(mut self, has_begun: bool, patience: Duration) -> anyhow::Result<u64> {
        if has_begun {
            self.begin();
        }
        let Some(end) = self.writer.take().map(|writer| writer.end(patience)) else { return Ok(0) };
        match end.state {
            WriterState::Failed(error) => Err(self.explain(error)),
            WriterState::Finished | WriterState::Blocked => Ok(end.missing_lines),
        }
    }

    fn explain(&self, error: io::Error) -> anyhow::Error {
        match error.kind() {
            ErrorKind::BrokenPipe if self.is_standard_output => unwritten(error),
            ErrorKind::BrokenPipe => {
                anyhow::anyhow!(
                    "--stream: the reader closed the pipe before the load ended\nhint: use a \
                     reader that reads to the end, or a file"
                )
            }
            _ => anyhow::Error::new(error).context("--stream: cannot be written"),
        }
    }
}

impl Drop for IntervalStream {
    fn drop(&mut self) {
        if let (Some(_), Some(path)) = (&self.head, &self.created_file) {
            // The file is empty, because the load never began.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Returns the warning about missing lines of a stream. `None`: the stream is complete.
pub fn missing_lines_warning(missing_lines: u64) -> Option<String> {
    (missing_lines > 0).then(|| {
        let (lines, are) =
            (plural(missing_lines, "line"), if missing_lines == 1 { "is" } else { "are" });
        format!(
            "--stream: {lines} {are} missing, because the reader was too slow. The result of the \
             load is complete.\nhint: use a reader that reads to the end, or write the stream to \
             a file"
        )
    })
}

/// Opens a pipe as soon as it has a reader.
fn open_pipe(path: &Path) -> io::Result<File> {
    // Stays open until the end of this function. Otherwise the reader could see an end of file
    // before `File::create` opens the pipe.
    let first_writer = open_pipe_with_reader(path)?;
    if first_writer.is_none() {
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

/// Counts the totals of a load, and serves them as a page.
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
            // Without a free file descriptor, the next accept would fail immediately, too.
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
    let page = || page.lock().unwrap_or_else(PoisonError::into_inner).clone();
    reader.write_all(metrics_response(&head, page).as_bytes())
}

/// Returns the response to a request with this head. `page`: reads the page of metrics.
fn metrics_response(head: &[u8], page: impl FnOnce() -> String) -> String {
    const TEXT: &str = "text/plain; charset=utf-8";
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    let (status, media, body) = match (path, method) {
        (b"/metrics", b"GET" | b"HEAD") => ("200 OK", openmetrics::CONTENT_TYPE, page()),
        (b"/metrics", _) => {
            ("405 Method Not Allowed\r\nAllow: GET, HEAD", TEXT, "use GET\n".into())
        }
        _ => ("404 Not Found", TEXT, "see /metrics\n".into()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media}\r\nContent-Length: {}\r\nConnection: \
         close\r\n\r\n",
        body.len()
    );
    // A response to HEAD has the same head without the body (RFC 9110, 9.3.2).
    if method == b"HEAD" { head } else { head + &body }
}

#[cfg(test)]
mod tests {
    use super::super::requests;
    use super::super::tests::parse;
    use super::*;

    /// Checks the outputs of `dyno load` with these words, after reading its requests.
    fn check_outputs(words: &[&str]) -> Result<(), String> {
        let mut args = parse(words).unwrap();
        let files = requests::readable_files(&args);
        requests::read_requests(&mut args, &files).unwrap();
        if args.files.is_some() {
            // Read by a placeholder when requests are compiled.
            let _ = files.read("users.csv");
        }
        check_files(&args, &files).map_err(|error| error.to_string())
    }

    #[test]
    fn metrics_response_depends_on_method_and_path() {
        let response = |line: &str| {
            metrics_response(format!("{line}\r\n\r\n").as_bytes(), || "# EOF\n".into())
        };
        let get = response("GET /metrics HTTP/1.1");
        assert!(
            get.starts_with("HTTP/1.1 200 OK\r\n") && get.ends_with("\r\n\r\n# EOF\n"),
            "{get}"
        );
        assert_eq!(response("GET /metrics?name[]=up HTTP/1.1"), get);
        let head = response("HEAD /metrics HTTP/1.1");
        assert_eq!(format!("{head}# EOF\n"), get, "the same head without the body");
        let missing = response("GET /metric HTTP/1.1");
        assert!(missing.starts_with("HTTP/1.1 404 Not Found\r\n"), "{missing}");
        assert!(missing.contains("Content-Type: text/plain"), "{missing}");
        assert!(!response("HEAD / HTTP/1.1").contains("see /metrics"));
        let post = response("POST /metrics HTTP/1.1");
        assert!(
            post.starts_with("HTTP/1.1 405 ") && post.contains("\r\nAllow: GET, HEAD\r\n"),
            "{post}"
        );
        assert!(response("").starts_with("HTTP/1.1 404 "));
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
                    error.contains("this output would overwrite an input"),
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
                assert!(
                    error.contains("this output would overwrite an input"),
                    "{words:?}: {error}"
                );
            }
        }
    }

    fn stream_to(path: &Path) -> IntervalStream {
        let (output, created_file) = StreamOutput::open(path).unwrap();
        let writer = Some(output.into_writer().unwrap());
        IntervalStream {
            writer,
            head: Some("head".into()),
            is_standard_output: false,
            created_file,
        }
    }

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn unused_new_stream_file_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let (new, old) = (root.path().join("new"), root.path().join("old"));
        std::fs::write(&old, "kept").unwrap();
        for path in [&new, &old] {
            assert_eq!(stream_to(path).end(false, PATIENCE).unwrap(), 0);
            drop(stream_to(path));
        }
        assert!(!new.exists());
        assert_eq!(std::fs::read_to_string(&old).unwrap(), "kept");
        for path in [&new, &old] {
            assert_eq!(stream_to(path).end(true, PATIENCE).unwrap(), 0);
            assert_eq!(std::fs::read_to_string(path).unwrap(), "head\n");
        }
    }

    #[test]
    fn stalled_stream_reports_missing_lines() {
        let (reader, mut pipe) = io::pipe().unwrap();
        let writer = LineWriter::start(move |line| pipe.write_all(line.as_bytes())).unwrap();
        let head = Some("x".repeat(8 << 20));
        let mut stream = IntervalStream {
            writer: Some(writer),
            head,
            is_standard_output: false,
            created_file: None,
        };
        stream.interval(&Interval::new(dyno_model::Phase::Measured, 0, 1));
        let missing_lines = stream.end(true, Duration::ZERO).unwrap();
        assert_eq!(missing_lines, 2);
        let warning = missing_lines_warning(missing_lines).unwrap();
        assert!(warning.contains("--stream: 2 lines are missing"), "{warning}");
        assert!(warning.contains("\nhint: "), "{warning}");
        assert_eq!(missing_lines_warning(0), None);
        drop(reader);
    }

    #[test]
    fn closed_stream_is_an_error() {
        let (reader, pipe) = io::pipe().unwrap();
        drop(reader);
        for is_standard_output in [false, true] {
            let mut pipe = pipe.try_clone().unwrap();
            let writer = LineWriter::start(move |line| pipe.write_all(line.as_bytes())).unwrap();
            let head = Some("head".into());
            let stream = IntervalStream {
                writer: Some(writer),
                head,
                is_standard_output,
                created_file: None,
            };
            let error = stream.end(true, PATIENCE).unwrap_err();
            assert_eq!(error.is::<crate::exit::Unread>(), is_standard_output, "{error}");
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
