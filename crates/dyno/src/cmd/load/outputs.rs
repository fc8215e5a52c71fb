//! Outputs while a load runs: a line of JSON per interval, and a page of OpenMetrics.

use std::fs::{File, FileType, Metadata};
use std::io::{BufWriter, ErrorKind, Read as _, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use dyno_analysis::load::Config;
use dyno_archive::Interval;
use dyno_launch::{may_write, pipe_to_a_reader};
use dyno_report::{intervals, openmetrics};

use crate::cli::LoadArgs;
use crate::exit::{bad, unwritten};
use crate::terminal;

/// Checks before the load that every output file can be written, and that no two outputs are the same file.
pub fn check_files(args: &LoadArgs) -> anyhow::Result<()> {
    let standard_output = Path::new("-");
    if [&args.hgrm, &args.hlog].into_iter().flatten().any(|path| path == standard_output) {
        return Err(bad("--hgrm and --hlog need the name of a file; standard output has the result"));
    }
    let mut seen = Vec::new();
    for path in [&args.output, &args.hgrm, &args.hlog, &args.stream].into_iter().flatten() {
        if path == standard_output {
            continue;
        }
        let Some(is) = check_file(path)? else { continue };
        if seen.contains(&(is.dev(), is.ino())) {
            return Err(bad(format!(
                "{} would be written twice; give each output a file of its own",
                path.display()
            )));
        }
        seen.push((is.dev(), is.ino()));
    }
    Ok(())
}

/// Checks before anything is measured that a file can be written, and makes it if it is not there. `None`: it is a pipe or a
/// device.
pub fn check_file(path: &Path) -> anyhow::Result<Option<Metadata>> {
    let unwritable = |error| bad(format!("{} cannot be written: {error}", path.display()));
    if let Some(is) = std::fs::metadata(path).ok().filter(|is| !is.is_file() && !is.is_dir()) {
        check_unopened(path, is.file_type()).map_err(unwritable)?;
        return Ok(None);
    }
    let file = File::options().create(true).append(true).open(path).map_err(unwritable)?;
    file.metadata().map(Some).map_err(unwritable)
}

/// Checks a pipe or a device without opening it: that would end whoever reads the pipe, and a device may do anything.
fn check_unopened(path: &Path, is: FileType) -> std::io::Result<()> {
    if is.is_socket() {
        return Err(std::io::Error::other("it is a socket; name a file or a pipe"));
    }
    may_write(path)
}

/// The output of `--stream`: each interval is written as it ends.
pub struct Stream {
    to: Box<dyn Write>,
    is_standard_output: bool,
}

impl Stream {
    /// Opens the output. If it is a pipe, waits until somebody reads it.
    pub fn open(path: &Path, config: &Config) -> anyhow::Result<Stream> {
        let is_standard_output = path == Path::new("-");
        let to: Box<dyn Write> = if is_standard_output {
            Box::new(std::io::stdout())
        } else {
            let file = create(path).map_err(|error| bad(format!("--stream {}: {error}", path.display())))?;
            Box::new(BufWriter::new(file))
        };
        let mut stream = Stream { to, is_standard_output };
        stream.line(&intervals::stream_head(config))?;
        Ok(stream)
    }

    pub fn interval(&mut self, interval: &Interval) -> anyhow::Result<()> {
        self.line(&intervals::stream_line(interval))
    }

    /// Writes a line and flushes it, so that whoever follows the file reads whole lines.
    fn line(&mut self, line: &str) -> anyhow::Result<()> {
        writeln!(self.to, "{line}").and_then(|()| self.to.flush()).map_err(|error| match error.kind() {
            ErrorKind::BrokenPipe if self.is_standard_output => unwritten(error),
            ErrorKind::BrokenPipe => anyhow::anyhow!("whoever read the stream has gone before its end"),
            _ => anyhow::Error::new(error).context("the stream cannot be written"),
        })
    }
}

/// Creates a file, or opens a pipe as soon as somebody reads it.
fn create(path: &Path) -> std::io::Result<File> {
    if !std::fs::metadata(path).is_ok_and(|is| is.file_type().is_fifo()) {
        return File::create(path);
    }
    // Held until the pipe is open for good: its reader would see an end of file in between.
    let reader = pipe_to_a_reader(path)?;
    if reader.is_none() {
        terminal::say(&format!("waiting until somebody reads {}", path.display()));
    }
    File::create(path)
}

/// A page of OpenMetrics at `/metrics`, whatever is on it.
pub struct Served {
    page: Arc<Mutex<String>>,
    /// Its URL.
    pub url: String,
}

impl Served {
    pub fn begin(addr: SocketAddr, page: String) -> anyhow::Result<Served> {
        let listener = TcpListener::bind(addr).map_err(|error| {
            bad(format!("--metrics {addr}: {error}; give another port, or 0 for any free one"))
        })?;
        let url = format!("http://{}/metrics", listener.local_addr()?);
        terminal::say(&format!("metrics at {url}"));
        let page = Arc::new(Mutex::new(page));
        let shown = Arc::clone(&page);
        // The thread ends with the process: it holds nothing that must be given back.
        thread::Builder::new().name("metrics".into()).spawn(move || {
            for stream in listener.incoming().flatten() {
                let page = shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let _ = answer(stream, &page);
            }
        })?;
        Ok(Served { page, url })
    }

    pub fn show(&self, page: String) {
        *self.page.lock().unwrap_or_else(PoisonError::into_inner) = page;
    }
}

/// Serves the sums of a load so far.
pub struct Metrics {
    sums: openmetrics::Sums,
    pub served: Served,
}

impl Metrics {
    pub fn serve(addr: SocketAddr, config: &Config) -> anyhow::Result<Metrics> {
        let sums = openmetrics::Sums::new(config);
        let served = Served::begin(addr, sums.page())?;
        Ok(Metrics { sums, served })
    }

    pub fn interval(&mut self, interval: &Interval) {
        self.sums.add(interval);
        self.served.show(self.sums.page());
    }
}

fn answer(mut stream: TcpStream, page: &str) -> std::io::Result<()> {
    const PATIENCE: Duration = Duration::from_secs(2);
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while !head.windows(4).any(|w| w == b"\r\n\r\n") && head.len() < 16 * 1024 {
        match stream.read(&mut part)? {
            0 => return Ok(()),
            n => head.extend_from_slice(&part[..n]),
        }
    }
    let is_metrics = head.starts_with(b"GET /metrics ") || head.starts_with(b"GET /metrics?");
    let (status, body) = if is_metrics { ("200 OK", page) } else { ("404 Not Found", "see /metrics\n") };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        openmetrics::CONTENT_TYPE,
        body.len()
    )
}
