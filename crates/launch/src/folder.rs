//! Creates, writes, reads and removes files safely where other users may write too. dyno often runs
//! as root, and a link of another user must not redirect it. Files that users name are read only if
//! no link leads out of the intended folder.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Component, Path, PathBuf};

/// Removes a folder that dyno created, with all its content. Servers and builds may have mounted
/// other folders below the folder. These are unmounted first, because their files must not be
/// removed. If a link has replaced the folder, only the link is removed.
///
/// # Errors
/// A folder is still mounted below the folder, or a file cannot be removed.
pub fn remove(folder: &Path) -> io::Result<()> {
    if std::fs::symlink_metadata(folder)?.is_symlink() {
        return std::fs::remove_file(folder);
    }
    unmount_below(folder)?;
    match std::fs::remove_dir_all(folder) {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            make_writable(folder);
            std::fs::remove_dir_all(folder)
        }
        result => result,
    }
}

/// Unmounts everything at or below a folder, so that removing the folder does not remove the
/// mounted files.
///
/// # Errors
/// Something cannot be unmounted.
pub fn unmount_below(folder: &Path) -> io::Result<()> {
    let real = folder.canonicalize()?;
    loop {
        let points = mounts_below(&real)?;
        let Some(last) = points.last() else { return Ok(()) };
        // A recursive bind mount, for example of /dev, shares the mounts below it with the original
        // /dev, its peer. Unmounting a shared mount here would also unmount it below the peer, so
        // the mounts are detached from their peers first.
        for point in &points {
            crate::sys::detach_from_peers(point)
                .or_else(ignore_gone)
                .map_err(|e| unmount_error(point, &e))?;
        }
        // The last mount is tried first, because it may cover an earlier mount or be below one.
        // Only one is unmounted per pass: the mount that it covered may still be shared, and is
        // detached in the next pass.
        if !points.iter().rev().any(|point| crate::sys::unmount(point).is_ok()) {
            return Err(unmount_error(last, &io::ErrorKind::ResourceBusy.into()));
        }
    }
}

/// Ignores the error that nothing is mounted at a path any more.
fn ignore_gone(error: io::Error) -> io::Result<()> {
    let is_gone = matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOENT | libc::ENOTDIR));
    if is_gone { Ok(()) } else { Err(error) }
}

fn unmount_error(point: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: cannot be unmounted: {error}", point.display()))
}

/// Makes a folder and all folders below it writable for this user. Some programs write-protect
/// their caches: Go, for example, its modules.
fn make_writable(folder: &Path) {
    // A folder of another user cannot be changed. Removing it then fails, with a reason.
    let _ = std::fs::set_permissions(folder, Permissions::from_mode(0o700));
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    // A link to a folder is not a folder.
    let is_folder = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries.filter(is_folder).for_each(|entry| make_writable(&entry.path()));
}

/// Returns the mount points at or below a folder, in the order in which they were mounted.
fn mounts_below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mounts = std::fs::read("/proc/self/mountinfo")?;
    let points = mounts.split(|byte| *byte == b'\n').filter_map(mount_point);
    Ok(points.filter(|point| point.starts_with(folder)).collect())
}

/// Parses the mount point of a line of mountinfo (proc(5)): the fifth field, in which a space, a
/// tab, a newline and a backslash are `\NNN`, octal.
fn mount_point(line: &[u8]) -> Option<PathBuf> {
    let field = line.split(|byte| *byte == b' ').nth(4)?;
    let (mut path, mut rest) = (Vec::new(), field);
    while let Some((byte, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *byte == b'\\');
        let escaped = digits.and_then(|d| u8::from_str_radix(std::str::from_utf8(d).ok()?, 8).ok());
        path.push(escaped.unwrap_or(*byte));
        rest = if escaped.is_some() { &after[3..] } else { after };
    }
    Some(PathBuf::from(OsString::from_vec(path)))
}

/// Creates a permanent folder with its missing parents. Programs that are built in the folder are
/// run later, so the folder must belong to this user, and other users must not be able to write to
/// it.
///
/// # Errors
/// The folder cannot be created, belongs to another user, or is writable for other users.
pub fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let refuse = |problem: &str| {
        Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("the folder {problem}")))
    };
    // Another user may have created an entry of a world-writable folder.
    for part in [Some(folder), folder.parent()]
        .into_iter()
        .flatten()
        .filter(|part| is_shared(part.parent()))
    {
        let metadata = std::fs::symlink_metadata(part)?;
        if metadata.is_symlink() {
            return refuse("is a symbolic link in a folder that all users can write to");
        }
        if ![user(), 0].contains(&metadata.uid()) {
            return refuse(
                "belongs to another user, and is in a folder that all users can write to",
            );
        }
    }
    if is_shared(Some(folder)) {
        return refuse("can be written to by all users");
    }
    Ok(())
}

/// Whether every user can create files in a folder, such as the folder for temporary files.
fn is_shared(folder: Option<&Path>) -> bool {
    folder.and_then(|f| std::fs::metadata(f).ok()).is_some_and(|m| m.mode() & 0o002 != 0)
}

/// Returns a base folder of this user: the value of `variable`, or `default` below the home folder.
/// An empty or relative path is treated as not set (XDG Base Directory Specification). `None`:
/// neither is set.
#[must_use]
pub fn base_folder(variable: &str, default: &str) -> Option<PathBuf> {
    let folder =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    folder(variable).or_else(|| folder("HOME").map(|home| home.join(default)))
}

/// Returns the user ID that dyno runs as.
#[must_use]
pub fn user() -> u32 {
    crate::sys::user()
}

/// Writes a new file that only this user can read.
///
/// # Errors
/// The name exists, even as a dangling link, or the file cannot be written.
pub fn write_new(path: &Path, text: &str) -> io::Result<()> {
    create(path, OpenOptions::new().write(true), 0o600)?.write_all(text.as_bytes())
}

/// Creates and opens a new file.
pub fn create(path: &Path, options: &mut OpenOptions, mode: u32) -> io::Result<File> {
    options.create_new(true).mode(mode).custom_flags(libc::O_NOFOLLOW).open(path)
}

/// Treatment of an existing file with the path of a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExistingFile {
    Keep,
    Replace,
}

/// Writes a file atomically: an old file stays until the new one is complete. If the path is a
/// link, the link itself is replaced. The umask decides on the permissions.
///
/// # Errors
/// The file cannot be written, or an old file exists and must not be replaced. In both cases
/// nothing has changed.
pub fn write_whole(path: &Path, bytes: &[u8], existing: ExistingFile) -> io::Result<()> {
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let permissions = Permissions::from_mode(0o666);
    let mut file =
        tempfile::Builder::new().prefix(".dyno-").permissions(permissions).tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    let result = match existing {
        ExistingFile::Keep => file.persist_noclobber(path),
        ExistingFile::Replace => file.persist(path),
    };
    result.map(drop).map_err(|error| error.error)
}

/// Resolves a path in `folder`, links included.
///
/// # Errors
/// The path does not exist, or a link leads out of the folder.
pub fn resolve_within(name: &Path, folder: &Path) -> io::Result<PathBuf> {
    let root = folder.canonicalize()?;
    let path = root.join(name).canonicalize()?;
    if path.starts_with(&root) { Ok(path) } else { Err(outside_error(name, &path)) }
}

/// Reads the file of this name in `folder`. `max_bytes`: largest allowed size of the file, bytes.
///
/// # Errors
/// The file cannot be read, is longer than `max_bytes`, is not a regular file, or a link leads out
/// of the folder. Reading a pipe would block, and reading a device may never end.
pub fn read_in_folder(name: &Path, folder: &Path, max_bytes: usize) -> io::Result<Vec<u8>> {
    let path = resolve_within(name, folder)?;
    read_file(&open_path(&path)?, name, max_bytes)
}

/// Reads a file, following links. `max_bytes`: largest allowed size of the file, bytes.
///
/// # Errors
/// The file cannot be read, is longer than `max_bytes`, or is not a regular file.
pub fn read_regular(path: &Path, max_bytes: usize) -> io::Result<Vec<u8>> {
    read_file(&open_path(path)?, path, max_bytes)
}

/// Reads the file of this name in `folder` without following any link. `max_bytes`: largest allowed
/// size of the file, bytes.
///
/// # Errors
/// The file cannot be read, is longer than `max_bytes`, is not a regular file, or its path contains
/// a link or `..`.
pub fn read_without_links(name: &Path, folder: &Path, max_bytes: usize) -> io::Result<Vec<u8>> {
    let is_plain = |part: &Component<'_>| matches!(part, Component::Normal(_));
    if name.as_os_str().is_empty() || !name.components().all(|part| is_plain(&part)) {
        return Err(refused_error(name, "must be the path of a file in the folder, without `..`"));
    }
    let mut opened =
        File::options().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(folder)?;
    for part in name.components() {
        // Each part is opened relative to the opened folder before it. Another process can thus not
        // replace a folder of the path by a link between the check and the read.
        let path = descriptor(&opened).join(part);
        opened =
            File::options().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW).open(path)?;
        if opened.metadata()?.is_symlink() {
            return Err(refused_error(
                name,
                "is a link, or its path contains a link\nhint: replace the link by the file itself",
            ));
        }
    }
    read_file(&opened, name, max_bytes)
}

/// Reads the file of a path descriptor (O_PATH). Pipes and devices are never opened, because
/// opening alone may block or have effects.
fn read_file(opened: &File, name: &Path, max_bytes: usize) -> io::Result<Vec<u8>> {
    let metadata = opened.metadata()?;
    if !metadata.is_file() {
        return Err(refused_error(name, "is not a regular file"));
    }
    if metadata.len() > max_bytes as u64 {
        return Err(refused_error(
            name,
            &format!("has {} bytes, more than the limit of {max_bytes}", metadata.len()),
        ));
    }
    let mut bytes = Vec::new();
    File::open(descriptor(opened))?.take(max_bytes as u64 + 1).read_to_end(&mut bytes)?;
    // The length may be wrong: files of /proc report none, and other files may grow while they are
    // read.
    if bytes.len() > max_bytes {
        return Err(refused_error(name, &format!("has more bytes than the limit of {max_bytes}")));
    }
    Ok(bytes)
}

/// Opens only the path (O_PATH), not the file itself.
fn open_path(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(libc::O_PATH).open(path)
}

fn descriptor(file: &File) -> PathBuf {
    Path::new("/proc/self/fd").join(file.as_raw_fd().to_string())
}

fn refused_error(name: &Path, reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {reason}", name.display()))
}

/// Returns the error for a link that leads out of its folder.
#[must_use]
pub fn outside_error(name: &Path, to: &Path) -> io::Error {
    let message = format!(
        "{}: is a link that leads out of its folder, to {}\nhint: replace the link by a copy of \
         its target",
        name.display(),
        to.display()
    );
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use crate::pipe::make_pipe;
    use crate::reasons::not_run;

    #[test]
    fn mount_points_are_parsed() {
        let point = |line: &[u8]| mount_point(line).map(|path| path.display().to_string());
        let line =
            b"36 35 98:0 /data /tmp/a\\040b\\134c\\9 rw,noatime master:1 - ext4 /dev/root rw";
        assert_eq!(point(line).as_deref(), Some("/tmp/a b\\c\\9"));
        assert_eq!((point(b""), point(b"36 35 98:0")), (None, None));
    }

    /// A folder is mounted below another one, twice at one place, and a third below that.
    #[test]
    fn removal_keeps_files_of_mounted_folders() {
        if user() != 0 {
            return not_run("mounts: only root makes them");
        }
        let root = tempfile::tempdir().unwrap();
        let [folder, data] = ["folder", "data"].map(|name| root.path().join(name));
        fs::create_dir_all(folder.join("at")).unwrap();
        fs::create_dir_all(data.join("sub")).unwrap();
        fs::write(data.join("sub/file"), "precious").unwrap();
        for point in ["at", "at", "at/sub"] {
            let at = folder.join(point);
            let mount = Command::new("mount").arg("--bind").args([&data, &at]).status();
            assert!(mount.unwrap().success());
        }
        remove(&folder).unwrap();
        assert!(!folder.exists());
        assert_eq!(fs::read_to_string(data.join("sub/file")).unwrap(), "precious");
        assert!(mounts_below(root.path()).unwrap().is_empty());
        assert_eq!(remove(&folder).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    /// The recursive copy of a shared mount is unmounted, and the mounts below the original stay.
    #[test]
    fn removal_keeps_mounts_of_peers() {
        if user() != 0 {
            return not_run("mounts: only root makes them");
        }
        let root = tempfile::tempdir().unwrap();
        let [folder, original] = ["folder", "original"].map(|name| root.path().join(name));
        fs::create_dir_all(folder.join("at")).unwrap();
        fs::create_dir(&original).unwrap();
        let mount = |options: &[&str], paths: &[&Path]| {
            assert!(Command::new("mount").args(options).args(paths).status().unwrap().success());
        };
        mount(&["-t", "tmpfs", "tmpfs"], &[&original]);
        mount(&["--make-shared"], &[&original]);
        fs::create_dir(original.join("sub")).unwrap();
        mount(&["-t", "tmpfs", "tmpfs"], &[&original.join("sub")]);
        fs::write(original.join("sub/file"), "precious").unwrap();
        mount(&["--rbind"], &[&original, &folder.join("at")]);
        let removed = remove(&folder);
        let content = fs::read_to_string(original.join("sub/file"));
        unmount_below(&original).unwrap();
        assert_eq!(content.unwrap(), "precious");
        assert!(removed.is_ok() && !folder.exists(), "{removed:?}");
    }

    #[test]
    fn removal_of_link_keeps_its_target() {
        let root = tempfile::tempdir().unwrap();
        let [link, target] = ["link", "target"].map(|name| root.path().join(name));
        fs::create_dir(&target).unwrap();
        fs::write(target.join("file"), "precious").unwrap();
        fs::set_permissions(&target, Permissions::from_mode(0o500)).unwrap();
        symlink(&target, &link).unwrap();
        remove(&link).unwrap();
        assert!(!link.exists() && target.join("file").exists());
        assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o500);
        fs::set_permissions(&target, Permissions::from_mode(0o700)).unwrap();
    }

    #[test]
    fn write_protected_folders_become_writable() {
        let root = tempfile::tempdir().unwrap();
        let [folder, outside] = ["folder", "outside"].map(|name| root.path().join(name));
        fs::create_dir_all(folder.join("cache/module")).unwrap();
        fs::create_dir(&outside).unwrap();
        symlink(&outside, folder.join("cache/link")).unwrap();
        let folders = [outside, folder.join("cache/module"), folder.join("cache")];
        for each in &folders {
            fs::set_permissions(each, Permissions::from_mode(0o500)).unwrap();
        }
        make_writable(&folder);
        let modes = folders.map(|each| fs::metadata(each).unwrap().permissions().mode() & 0o777);
        assert_eq!(modes, [0o500, 0o700, 0o700]);
        remove(&folder).unwrap();
        assert!(!folder.exists());
    }

    #[test]
    fn world_writable_private_folder_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let cache = root.path().join("a/b");
        make_private(&cache).unwrap();
        make_private(&cache).unwrap();
        assert_eq!(fs::metadata(&cache).unwrap().permissions().mode() & 0o777, 0o700);
        fs::set_permissions(&cache, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(make_private(&cache).unwrap_err().to_string().ends_with("by all users"));
        let shared = root.path().join("shared");
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
        symlink(root.path().join("a"), shared.join("link")).unwrap();
        assert!(
            make_private(&shared.join("link/c")).unwrap_err().to_string().contains("link in a")
        );
    }

    #[test]
    fn write_new_does_not_follow_links() {
        let root = tempfile::tempdir().unwrap();
        let (victim, link) = (root.path().join("victim"), root.path().join("link"));
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, &link).unwrap();
        assert!(write_new(&link, "x").is_err() && write_new(&victim, "x").is_err());
        symlink(root.path().join("nowhere"), root.path().join("dangling")).unwrap();
        assert!(write_new(&root.path().join("dangling"), "x").is_err());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert!(!root.path().join("nowhere").exists());
    }

    #[test]
    fn read_in_folder_refuses_links_out_of_it() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("x");
        std::fs::create_dir_all(folder.join("sub")).unwrap();
        std::fs::write(folder.join("sub/a"), "1").unwrap();
        std::fs::write(root.path().join("secret"), "2").unwrap();
        symlink("sub/a", folder.join("link")).unwrap();
        symlink("../secret", folder.join("out")).unwrap();
        make_pipe(folder.join("pipe"));
        let read =
            |name: &str| read_in_folder(Path::new(name), &folder, 1).map_err(|e| e.to_string());
        assert_eq!(read("sub/a").unwrap(), b"1");
        assert_eq!(read("link").unwrap(), b"1");
        std::fs::write(folder.join("long"), "12").unwrap();
        assert!(read("long").unwrap_err().contains("has 2 bytes, more than the limit of 1"));
        assert!(read("out").unwrap_err().contains("leads out of its folder"));
        for odd in ["pipe", "sub"] {
            assert!(read(odd).unwrap_err().contains("is not a regular file"), "{odd}");
        }
    }

    #[test]
    fn no_link_is_followed_where_none_may_be() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("x");
        fs::create_dir_all(folder.join("sub")).unwrap();
        fs::write(folder.join("sub/a"), "1").unwrap();
        fs::write(folder.join("long"), "12").unwrap();
        symlink("sub", folder.join("linked")).unwrap();
        symlink("sub/a", folder.join("link")).unwrap();
        symlink("/dev/zero", folder.join("device")).unwrap();
        make_pipe(folder.join("pipe"));
        let read =
            |name: &str| read_without_links(Path::new(name), &folder, 1).map_err(|e| e.to_string());
        assert_eq!(read("sub/a").unwrap(), b"1");
        for (odd, reason) in [
            ("link", "is a link"),
            ("linked/a", "its path contains a link"),
            ("device", "is a link"),
            ("pipe", "is not a regular file"),
            ("sub", "is not a regular file"),
            ("long", "has 2 bytes, more than the limit of 1"),
            ("sub/../long", "must be the path"),
            ("/dev/null", "must be the path"),
            ("", "must be the path"),
            ("absent", "No such file"),
        ] {
            let error = read(odd).unwrap_err();
            assert!(error.contains(reason), "{odd}: {error}");
        }
        // A device itself, and a file that hides its length.
        let read =
            |folder: &str, name: &str| read_without_links(Path::new(name), Path::new(folder), 10);
        assert!(read("/dev", "zero").unwrap_err().to_string().contains("is not a regular file"));
        assert!(
            read("/proc/self", "status")
                .unwrap_err()
                .to_string()
                .contains("has more bytes than the limit of 10")
        );
    }

    #[test]
    fn write_whole_replaces_existing_file_only_if_told_to() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("x.toml");
        symlink(root.path().join("elsewhere"), &path).unwrap();
        let error = write_whole(&path, b"a", ExistingFile::Keep).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        write_whole(&path, b"b", ExistingFile::Replace).unwrap();
        assert!(path.symlink_metadata().unwrap().is_file());
        assert!(write_whole(&path, b"c", ExistingFile::Keep).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "b");
        // A target that cannot be replaced stays, and no temporary file is left.
        let folder = root.path().join("folder");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("kept"), "x").unwrap();
        assert!(write_whole(&folder, b"a", ExistingFile::Replace).is_err());
        assert!(folder.join("kept").is_file());
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2);
    }
}
