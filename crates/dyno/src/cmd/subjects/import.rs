//! `dyno subjects import`: drafts a subject.toml from another collection of servers.

use std::io;
use std::path::Path;

use anyhow::Context as _;
use dyno_launch::folder::{ExistingFile, read_without_links, write_whole};
use dyno_subject::definition::{Definition, Role};
use dyno_subject::import::{self, ImportedSubject};
use dyno_subject::limits::IMPORTED_BYTES;

use crate::cli::{Collection, ImportArgs};
use crate::exit::{Exit, usage_error};
use crate::terminal::{print_text, quote};

/// Writes the subject.toml of a server in another collection, and prints the remaining work.
pub(super) fn run(args: &ImportArgs) -> anyhow::Result<Exit> {
    print_text(&draft(args)?)?;
    Ok(Exit::Valid)
}

/// Writes the subject.toml, and returns the remaining work.
pub(super) fn draft(args: &ImportArgs) -> anyhow::Result<String> {
    let folder = args
        .server
        .canonicalize()
        .map_err(|error| usage_error(format!("{}: {error}", args.server.display())))?;
    let name =
        folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let Collection::Techempower = args.collection;
    let ImportedSubject { toml, remaining_steps } =
        import::techempower(&name, &|name| read(name, &folder), Some(&args.test))
            .map_err(|reason| usage_error(format!("{}: {reason}", folder.display())))?;
    let path = folder.join(Role::Subject.file());
    write(&path, &toml, if args.force { ExistingFile::Replace } else { ExistingFile::Keep })?;
    let mistakes = Definition::read(&folder).err();
    let remaining_steps = remaining_steps
        .into_iter()
        .chain(mistakes.map(|error| format!("Fix the mistakes in the draft: {error}")));
    let mut summary = format!("{}\nRemaining work:\n", path.display());
    for work in remaining_steps {
        summary.push_str(&format!("  - {}\n", work.replace('\n', "\n      ")));
    }
    let parent = quote(&folder.parent().unwrap_or(Path::new("/")).display().to_string());
    summary.push_str(&format!("Then: dyno subjects check {} --subjects {parent}\n", quote(&name)));
    Ok(summary)
}

/// Reads a file of the folder. Links, pipes and devices are refused, because the folder may be
/// untrusted.
fn read(name: &str, folder: &Path) -> Result<Option<String>, String> {
    match read_without_links(Path::new(name), folder, IMPORTED_BYTES) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Err(error.to_string()),
        Err(error) => Err(format!("{name}: cannot be read: {error}")),
    }
}

/// Writes the definition. A link is treated as an existing file.
fn write(path: &Path, toml: &str, existing: ExistingFile) -> anyhow::Result<()> {
    match write_whole(path, toml.as_bytes(), existing) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(usage_error(format!(
            "{}: exists already\nhint: replace the file with --force",
            path.display()
        ))),
        written => written.with_context(|| format!("{}: cannot be written", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::unix::fs::symlink;

    #[test]
    fn read_refuses_link_out_of_folder() {
        let root = tempfile::tempdir().unwrap();
        symlink("/dev/zero", root.path().join("x")).unwrap();
        assert!(read("x", root.path()).unwrap_err().contains("is a link"));
        assert_eq!(read("y", root.path()), Ok(None));
        std::fs::write(root.path().join("z"), [b'a', 0xff]).unwrap();
        assert_eq!(read("z", root.path()), Ok(Some("a\u{fffd}".into())));
    }
}
