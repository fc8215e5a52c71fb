//! Writes result files completely or not at all, so that a failed write leaves the previous file.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{
    FileExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _, fchown,
};
use std::path::{Path, PathBuf};

use dyno_launch::may_write;
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::exit::usage_error;

/// Maximum number of links in a chain (path_resolution(7)).
const MAX_LINKS: usize = 40;

/// Identity of a file, independent of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileIdentity {
    /// Device and inode.
    Present(u64, u64),
    /// The file does not exist yet.
    Absent(PathBuf),
}

impl FileIdentity {
    pub fn from_metadata(file: &Metadata) -> FileIdentity {
        FileIdentity::Present(file.dev(), file.ino())
    }
}

/// The target of a path after all links.
enum Target {
    /// A regular file, or a file that does not exist yet.
    File(PathBuf),
    /// A pipe, a device, or an open file of a process, such as `/proc/7/fd/3`.
    Special(PathBuf),
}

/// Whether an output goes to standard output: its path is `-` or `/dev/stdout`, or leads to the
/// file or pipe that standard output is.
pub fn is_standard_output(path: &Path) -> bool {
    // Outputs into the same device, such as /dev/null, do not overwrite each other.
    let identity = |path: &Path| {
        let file = fs::metadata(path).ok().filter(|f| !f.file_type().is_char_device())?;
        Some(FileIdentity::from_metadata(&file))
    };
    let is_descriptor = || match target(path) {
        Ok(Target::Special(path)) => descriptor(&path) == Some((std::process::id() as i32, 1)),
        _ => false,
    };
    let standard_output = Path::new("/proc/self/fd/1");
    path == Path::new("-")
        || is_descriptor()
        || identity(path).is_some_and(|file| Some(file) == identity(standard_output))
}

/// Checks before the measurements that a file can be written, without changing it. `None`: the file
/// is a pipe or a device.
pub fn check(path: &Path) -> anyhow::Result<Option<FileIdentity>> {
    try_check(path)
        .map_err(|error| usage_error(format!("{}: cannot be written: {error}", path.display())))
}

fn try_check(path: &Path) -> io::Result<Option<FileIdentity>> {
    let target = match target(path)? {
        Target::File(target) => target,
        Target::Special(special) => return check_special(&special),
    };
    match fs::metadata(&target) {
        Ok(_) => {
            let file = File::options().append(true).open(&target)?;
            Ok(Some(FileIdentity::from_metadata(&file.metadata()?)))
        }
        Err(_) => {
            let folder = folder(&target).canonicalize()?;
            may_write(&folder)?;
            let name = target.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
            Ok(Some(FileIdentity::Absent(folder.join(name))))
        }
    }
}

fn check_special(path: &Path) -> io::Result<Option<FileIdentity>> {
    let file = fs::metadata(path)?;
    if file.file_type().is_socket() {
        return Err(io::Error::other("the path is a socket\nhint: name a file or a pipe"));
    }
    if file.is_file() {
        return open_special(path).map(|_| Some(FileIdentity::from_metadata(&file)));
    }
    // The check does not open a pipe or a device. If the check opened and closed a pipe, the reader
    // of the pipe would see the end of the file. Opening a device can affect the device.
    may_write(path).map(|()| None)
}

/// Writes a file completely or not at all. Pipes, devices and open files of a process are written
/// directly.
///
/// # Errors
/// The file cannot be written. In this case, the file is unchanged.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let target = match target(path)? {
        Target::File(target) => target,
        Target::Special(special) => return open_special(&special)?.write_all(bytes),
    };
    let before = fs::metadata(&target).ok();
    if before.is_some() {
        // A file without write permission must not be replaced by a rename.
        may_write(&target)?;
    }
    match replace(&target, bytes, before.as_ref()) {
        // The folder does not accept a new file, or the file is a mount point, so the file is
        // written in place.
        Err(error) if before.is_some() && must_write_in_place(&error) => overwrite(&target, bytes),
        result => result,
    }
}

/// Opens an open file of a process, such as `/dev/fd/3`. Its content is kept. `None`: the path is
/// another file, a pipe or a device.
pub fn open_file_of_process(path: &Path) -> io::Result<Option<File>> {
    match target(path)? {
        Target::Special(path) if fs::metadata(&path)?.is_file() => open_special(&path).map(Some),
        _ => Ok(None),
    }
}

/// Opens a pipe or a device, or shares an open file with its process. The process may write to the
/// file, too, so the next byte of either comes after the last byte of both.
fn open_special(path: &Path) -> io::Result<File> {
    let file = fs::metadata(path)?;
    if let Some(shared) = shared_descriptor(path).filter(|_| file.is_file()) {
        return Ok(shared);
    }
    // The descriptor cannot be written or shared (before Linux 5.6, or in some containers).
    File::options().write(true).append(file.is_file()).open(path)
}

/// Duplicates the descriptor that a path names. Both have one position. `None`: the path names no
/// descriptor, or one that cannot be shared or written.
fn shared_descriptor(path: &Path) -> Option<File> {
    let (process, number) = descriptor(path)?;
    let process = pidfd_open(Pid::from_raw(process)?, PidfdFlags::empty()).ok()?;
    let file = File::from(pidfd_getfd(process, number, PidfdGetfdFlags::empty()).ok()?);
    let is_writable = fcntl_getfl(&file).ok()?.intersects(OFlags::WRONLY | OFlags::RDWR);
    is_writable.then_some(file)
}

/// Returns the process and the number of the descriptor that a path such as `/proc/7/fd/3` names.
fn descriptor(path: &Path) -> Option<(i32, i32)> {
    let number = |name: &OsStr| name.to_str()?.parse().ok();
    let is_descriptor = path.starts_with("/proc") && folder(path).ends_with("fd");
    let process = path.iter().nth(2).filter(|_| is_descriptor)?;
    Some((number(process)?, number(path.file_name()?)?))
}

/// Whether the error means that the target's folder accepts no new file, or that a rename cannot
/// replace the target.
fn must_write_in_place(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(error.kind(), Kind::PermissionDenied | Kind::ReadOnlyFilesystem | Kind::ResourceBusy)
}

/// Writes a file in place. If the new content is longer than the old content, the bytes beyond the
/// old length are written first. On a full disk this write fails before the old content changes.
fn overwrite(target: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = File::options().write(true).open(target)?;
    let (old, new) = (file.metadata()?.len(), bytes.len() as u64);
    if let Some(added) = bytes.get(old as usize..).filter(|added| !added.is_empty()) {
        // Some file systems, such as NFS, report a full disk only when they synchronise.
        let grown = file.write_all_at(added, old).and_then(|()| file.sync_all());
        if grown.is_err() {
            let _ = file.set_len(old);
            return grown;
        }
    }
    file.write_all_at(&bytes[..bytes.len().min(old as usize)], 0)?;
    file.set_len(new)?;
    file.sync_all()
}

/// Writes a new file and renames it to `target`. The new file gets the owner and mode of `before`.
fn replace(target: &Path, bytes: &[u8], before: Option<&Metadata>) -> io::Result<()> {
    if before.is_some_and(Metadata::is_dir) {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let mode = Permissions::from_mode(0o666);
    let mut new =
        tempfile::Builder::new().prefix(".dyno").permissions(mode).tempfile_in(folder(target))?;
    if let Some(before) = before {
        let new_metadata = new.as_file().metadata()?;
        if (new_metadata.uid(), new_metadata.gid()) != (before.uid(), before.gid()) {
            fchown(new.as_file(), Some(before.uid()), Some(before.gid()))?;
        }
        new.as_file().set_permissions(before.permissions())?;
    }
    new.write_all(bytes)?;
    // If the file were renamed before its bytes are on the disk, it could be empty after a power
    // failure.
    new.as_file().sync_all()?;
    new.persist(target).map_err(io::Error::from).map(drop)
}

/// Follows all links of a path.
fn target(path: &Path) -> io::Result<Target> {
    let mut path = std::path::absolute(path)?;
    for _ in 0..MAX_LINKS {
        // No file has a name that ends with a slash. A later rename to this name would fail only
        // after the measurements.
        if path.as_os_str().as_bytes().ends_with(b"/") {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        // The folder can be a link into /proc, as /dev/fd is. There, the target of a link to an
        // open pipe (`pipe:[1]`) is not a path.
        let folder_path = folder(&path).canonicalize()?;
        path = folder_path.join(path.file_name().unwrap_or(OsStr::new("..")));
        if path.starts_with("/proc") {
            return Ok(Target::Special(path));
        }
        match fs::symlink_metadata(&path) {
            Ok(file) if file.is_symlink() => path = folder(&path).join(fs::read_link(&path)?),
            Ok(file) if !file.is_file() && !file.is_dir() => {
                return Ok(Target::Special(path));
            }
            Ok(_) => return Ok(Target::File(path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Target::File(path)),
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from_raw_os_error(rustix::io::Errno::LOOP.raw_os_error()))
}

/// Returns the folder of an absolute path.
fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::io::Seek as _;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::symlink;

    use crate::reasons::not_run;

    fn inode(path: &Path) -> u64 {
        fs::metadata(path).unwrap().ino()
    }

    #[test]
    fn write_replaces_previous_file_by_rename() {
        let root = tempfile::tempdir().unwrap();
        let (path, link) = (root.path().join("result"), root.path().join("link"));
        fs::write(&path, "a much longer previous result.").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        symlink("result", &link).unwrap();
        let (before, opened) = (inode(&path), fs::File::open(&path).unwrap());
        write(&link, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_ne!(inode(&path), before, "a new file replaced the old one");
        assert_eq!(
            opened.metadata().unwrap().len(),
            30,
            "a reader of the old file still has it completely"
        );
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2);
    }

    #[test]
    fn check_changes_nothing() {
        let root = tempfile::tempdir().unwrap();
        let (old, new) = (root.path().join("old"), root.path().join("new"));
        fs::write(&old, "kept").unwrap();
        symlink("old", root.path().join("link")).unwrap();
        symlink("new", root.path().join("dangling")).unwrap();
        assert_eq!(check(&old).unwrap(), check(&root.path().join("link")).unwrap());
        assert_eq!(check(&new).unwrap(), check(&root.path().join("dangling")).unwrap());
        assert_ne!(check(&old).unwrap(), check(&new).unwrap());
        assert!(!new.exists() && fs::read(&old).unwrap() == b"kept");
        assert!(check(root.path()).is_err() && check(&root.path().join("no/file")).is_err());
        write(&root.path().join("dangling"), b"x").unwrap();
        assert_eq!(fs::read(&new).unwrap(), b"x");
    }

    #[test]
    fn pipe_or_open_file_is_written_directly() {
        let (mut reader, writer) = io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
        // The shell names a process substitution like this: `-o >(jq .)`.
        let substitution = path.replace("/proc/self", "/dev");
        for path in [path, substitution] {
            assert_eq!(check(Path::new(&path)).unwrap(), None);
            write(Path::new(&path), b"result").unwrap();
        }
        drop(writer);
        assert_eq!(io::read_to_string(&mut reader).unwrap(), "resultresult");
        assert_eq!(check(Path::new("/dev/null")).unwrap(), None);
        write(Path::new("/dev/null"), b"x").unwrap();
        assert!(write(Path::new("/dev/full"), b"x").is_err());
    }

    fn by_descriptor(file: &File) -> PathBuf {
        format!("/dev/fd/{}", file.as_raw_fd()).into()
    }

    #[test]
    fn open_file_of_process_keeps_its_content() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("result");
        fs::write(&path, "old ").unwrap();
        // If a descriptor can only be read, the file is opened again.
        for opened in [File::options().append(true).open(&path), File::open(&path)] {
            let opened = opened.unwrap();
            let file = by_descriptor(&opened);
            assert_eq!(check(&file).unwrap(), check(&path).unwrap());
            write(&file, b"result ").unwrap();
            open_file_of_process(&file).unwrap().unwrap().write_all(b"stream ").unwrap();
        }
        let content = fs::read_to_string(&path).unwrap();
        assert_eq!(content, "old result stream result stream ");
        assert!(open_file_of_process(&path).unwrap().is_none());
        assert!(open_file_of_process(Path::new("/dev/null")).unwrap().is_none());
    }

    #[test]
    fn open_file_of_process_shares_its_position() {
        let mut file = tempfile::tempfile().unwrap();
        let resolved = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        if shared_descriptor(Path::new(&resolved)).is_none() {
            return not_run("a shared descriptor: pidfd_getfd(2) is missing or refused");
        }
        file.write_all(b"old ").unwrap();
        write(&by_descriptor(&file), b"result ").unwrap();
        file.write_all(b"new").unwrap();
        file.rewind().unwrap();
        assert_eq!(io::read_to_string(&file).unwrap(), "old result new");
    }

    #[test]
    fn descriptor_is_read_from_path() {
        for path in ["/proc/7/fd/3", "/proc/7/task/8/fd/3"] {
            assert_eq!(descriptor(Path::new(path)), Some((7, 3)), "{path}");
        }
        for path in ["/proc/7/fdinfo/3", "/proc/7/fd/x", "/tmp/7/fd/3", "/dev/null", "-"] {
            assert_eq!(descriptor(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn overwrite_without_space_keeps_file() {
        use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
        let file = fs::File::from(memfd_create("result", MemfdFlags::ALLOW_SEALING).unwrap());
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        for content in ["first", "and longer", "short"] {
            overwrite(&path, content.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        // It cannot grow, as on a full disk.
        fcntl_add_seals(&file, SealFlags::GROW).unwrap();
        assert!(overwrite(&path, b"a longer result").is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "short");
    }

    #[test]
    fn unwritable_file_is_not_replaced() {
        let root = tempfile::tempdir().unwrap();
        assert!(write(root.path(), b"x").is_err());
        // It would fail only after the measurements.
        assert!(check(&root.path().join("no-folder/")).is_err());
        let path = root.path().join("loop");
        symlink("loop", &path).unwrap();
        assert!(write(&path, b"x").is_err());
    }
}
