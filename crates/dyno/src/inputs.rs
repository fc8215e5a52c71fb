//! Reads the files that the command line names, and records the files that a command reads, because
//! an output must not overwrite them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{fs, io};

use dyno_suite::files;
use dyno_suite::limits::MAX_INPUT_BYTES;

use crate::exit::usage_error;
use crate::result_file::{self, FileIdentity};

/// The inputs that the command line names and that were read.
static READ_INPUTS: ReadInputs = ReadInputs::new(MAX_INPUT_BYTES);

/// Reads a file that is named on the command line. `-` is standard input, which is read only once.
/// These files together must fit into [`MAX_INPUT_BYTES`]. Files that requests name have a limit of
/// their own.
pub fn read_file(path: &str) -> Result<Vec<u8>, String> {
    READ_INPUTS.read(path, std::io::stdin())
}

/// Inputs that were read into memory.
struct ReadInputs {
    /// Whether standard input was read. A second reading would be empty.
    is_stdin_read: AtomicBool,
    /// Total length of the inputs, bytes.
    bytes: AtomicU64,
    /// Largest total length, bytes.
    max_bytes: u64,
}

impl ReadInputs {
    const fn new(max_bytes: u64) -> ReadInputs {
        let (is_stdin_read, bytes) = (AtomicBool::new(false), AtomicU64::new(0));
        ReadInputs { is_stdin_read, bytes, max_bytes }
    }

    /// Reads a file, or `stdin` if the path is `-`.
    fn read(&self, path: &str, stdin: impl io::Read) -> Result<Vec<u8>, String> {
        let used = self.bytes.load(Ordering::Relaxed);
        let bytes = if path != "-" {
            files::read_file(Path::new(path), used, self.max_bytes)?
        } else if self.is_stdin_read.swap(true, Ordering::Relaxed) {
            return Err(
                "standard input was already read for an earlier option\nhint: save the input to a \
                 file, and name the file for both options"
                    .into(),
            );
        } else {
            files::read_input(stdin, used, self.max_bytes)?
        };
        self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

/// Files by their identity, so that symbolic and hard links to them are recognised.
#[derive(Debug, Default)]
pub struct Inputs(Vec<(FileIdentity, PathBuf)>);

impl Inputs {
    /// Adds a file. `-` is standard input. Pipes and devices are ignored, because they cannot be
    /// overwritten.
    pub fn add(&mut self, path: &Path) {
        let opened = if path == Path::new("-") { Path::new("/dev/stdin") } else { path };
        if let Ok(file) = fs::metadata(opened)
            && file.is_file()
        {
            self.0.push((FileIdentity::from_metadata(&file), path.into()));
        }
    }

    /// Adds all files of a folder and its subfolders.
    pub fn add_folder(&mut self, folder: &Path) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            // A link to a folder is not followed, because the link can lead back to a parent.
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.add_folder(&entry.path()),
                _ => self.add(&entry.path()),
            }
        }
    }

    /// Adds the archive of a run, without its reports.
    pub fn add_run(&mut self, run: &Path) {
        for entry in fs::read_dir(run).into_iter().flatten().flatten() {
            let is_report = entry.file_name().to_string_lossy().starts_with("report.");
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.add_folder(&entry.path()),
                _ if is_report => {}
                _ => self.add(&entry.path()),
            }
        }
    }

    /// Checks that an output can be written and is not an input. `None`: the output is a pipe or a
    /// device.
    pub fn check(&self, output: &Path) -> anyhow::Result<Option<FileIdentity>> {
        let identity = result_file::check(output)?;
        let input = self.0.iter().find(|(input_id, _)| identity.as_ref() == Some(input_id));
        match input {
            Some((_, input)) => Err(usage_error(format!(
                "{}: this output would overwrite an input ({})\nhint: write the output to another \
                 file",
                output.display(),
                input.display()
            ))),
            None => Ok(identity),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use dyno_workload::command_line;

    use super::*;

    #[test]
    fn second_reading_of_standard_input_fails() {
        let inputs = ReadInputs::new(1000);
        let read = |name: &str| inputs.read(name, &b"body"[..]);
        let first = command_line::parse_mix_entry("1 POST /a @-", &read).unwrap();
        assert_eq!(first.body.unwrap().0, b"body");
        let error = command_line::parse_mix_entry("1 POST /b @-", &read).unwrap_err();
        assert!(
            error.starts_with("-: standard input was already read for an earlier option\nhint: ")
        );
    }

    #[test]
    fn inputs_of_command_line_share_one_limit() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("body");
        fs::write(&file, [b'x'; 600]).unwrap();
        let inputs = ReadInputs::new(1000);
        let read = |name: &str| inputs.read(name, io::repeat(b'x'));
        let entry = format!("1 POST /a @{}", file.display());
        assert_eq!(
            command_line::parse_mix_entry(&entry, &read).unwrap().body.unwrap().0.len(),
            600
        );
        for entry in [entry, "1 POST /a @-".into()] {
            let error = command_line::parse_mix_entry(&entry, &read).unwrap_err();
            let name = entry.split_once('@').unwrap().1;
            assert!(error.starts_with(name), "{error}");
            assert!(error.contains("it exceeds the limit of 1000 bytes"), "{error}");
            assert!(error.contains("\nhint: use shorter or fewer files"), "{error}");
        }
    }

    #[test]
    fn output_that_is_input_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::write(at("body"), "kept").unwrap();
        fs::hard_link(at("body"), at("hard")).unwrap();
        symlink("body", at("link")).unwrap();
        fs::write(at("other"), "").unwrap();
        let mut inputs = Inputs::default();
        inputs.add(&at("link"));
        let file = fs::File::open(at("body")).unwrap();
        let by_descriptor = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        let names = ["body", "./body", "hard", "link"].map(at);
        for path in names.into_iter().chain([by_descriptor.into()]) {
            let error = inputs.check(&path).unwrap_err().to_string();
            assert!(
                error.contains("this output would overwrite an input") && error.contains("hint:"),
                "{error}"
            );
        }
        assert!(inputs.check(&at("other")).unwrap().is_some());
        assert!(inputs.check(&at("new")).unwrap().is_some());
        assert_eq!(inputs.check(Path::new("/dev/null")).unwrap(), None);
        assert_eq!(fs::read(at("body")).unwrap(), b"kept");
        // A missing input is an error where it is read.
        Inputs::default().add(&at("absent"));
    }

    #[test]
    fn archive_is_input_but_its_reports_are_not() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir(at("trials")).unwrap();
        symlink(".", at("trials/loop")).unwrap();
        for name in ["run.json", "report.csv", "trials/0000.json"] {
            fs::write(at(name), "").unwrap();
        }
        let mut inputs = Inputs::default();
        inputs.add_run(root.path());
        assert!(
            inputs.check(&at("run.json")).is_err()
                && inputs.check(&at("trials/0000.json")).is_err()
        );
        assert!(inputs.check(&at("report.csv")).is_ok() && inputs.check(&at("trials.csv")).is_ok());
    }
}
