//! Terminals: real ones (pty(7)), which are lost, in the background, or shown what they would obey.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use crate::drive::{DYNO, Place, Server, soon};

/// How a terminal is asked for its second screen, on which the live view is.
const SECOND_SCREEN: &str = "\x1b[?1049h";

/// The two ends of a new terminal: the one that is its window, and the one that programs have.
fn terminal() -> (File, OwnedFd) {
    let (mut window, mut inner) = (0, 0);
    let size = libc::winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: all places are valid; the descriptors are ours afterwards.
    #[allow(unsafe_code)]
    unsafe {
        let opened = libc::openpty(
            &raw mut window,
            &raw mut inner,
            std::ptr::null_mut(),
            std::ptr::null(),
            &raw const size,
        );
        assert_eq!(opened, 0);
        // The program is not to hold its own window open.
        libc::fcntl(window, libc::F_SETFD, libc::FD_CLOEXEC);
        (File::from_raw_fd(window), OwnedFd::from_raw_fd(inner))
    }
}

/// Starts a program as the first of a terminal's session.
fn start(command: &mut Command, is_stdin: bool) -> (File, Child) {
    let (window, inner) = terminal();
    let end = || Stdio::from(inner.try_clone().unwrap());
    command.env("TERM", "xterm").stdout(end()).stderr(end());
    command.stdin(if is_stdin { end() } else { Stdio::null() });
    // SAFETY: system calls only.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            libc::ioctl(2, libc::TIOCSCTTY, 0);
            Ok(())
        });
    }
    let child = command.spawn().unwrap();
    (window, child)
}

/// Reads what is shown in a terminal, piece by piece, until the end of the reader or of the
/// terminal.
fn follow(window: &File) -> Receiver<String> {
    let mut window = window.try_clone().unwrap();
    let (to, from) = mpsc::channel();
    thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(length @ 1..) = window.read(&mut piece) {
            if to.send(String::from_utf8_lossy(&piece[..length]).into_owned()).is_err() {
                return;
            }
        }
    });
    from
}

fn ended(child: &mut Child) -> Option<ExitStatus> {
    let status = soon(|| child.try_wait().unwrap());
    if status.is_none() {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    status
}

#[test]
fn lost_terminal_ends_the_live_view_and_keeps_the_result() {
    let place = Place::new();
    let server = Server::null();
    let url = format!("http://127.0.0.1:{}/", server.port);
    for is_stdin in [true, false] {
        let kept = place.path().join(format!("kept-{is_stdin}"));
        let mut command = place.command(Path::new(DYNO));
        command
            .args(["load", &url, "-d", "1h", "-c", "2", "--interval", "100ms", "--save"])
            .arg(&kept);
        let (window, mut child) = start(&mut command, is_stdin);
        let pieces = follow(&window);
        let mut shown = String::new();
        // A load whose first interval is shown has something to keep.
        while !(shown.contains(SECOND_SCREEN) && shown.contains("measured")) {
            shown.push_str(&pieces.recv().expect("the live view is shown"));
        }
        // The reader ends with the next piece, which releases the window.
        drop((pieces, window));
        let status = ended(&mut child).expect("dyno ends");
        assert_eq!(status.code(), Some(3));
        let run = fs::read_dir(&kept).unwrap().next().unwrap().unwrap().path();
        assert_eq!(fs::read_dir(run.join("trials")).unwrap().count(), 1);
        place.assert_nothing_is_left();
    }
}

#[test]
fn load_in_the_background_is_not_stopped_by_its_terminal() {
    let place = Place::new();
    let server = Server::null();
    let url = format!("http://127.0.0.1:{}/", server.port);
    // A shell with job control, which gives the job a process group of its own.
    let mut command = Command::new("sh");
    command.args(["-c", "set -m; \"$@\" & wait $!; echo \"status $?\"", "sh", DYNO, "load", &url]);
    command.args(["-d", "300ms", "-c", "2"]).env("TMPDIR", place.path());
    let (window, mut child) = start(&mut command, true);
    let pieces = follow(&window);
    let status = ended(&mut child);
    drop(window);
    let shown: String = pieces.try_iter().collect();
    assert!(status.is_some(), "it was stopped: {shown}");
    assert!(!shown.contains(SECOND_SCREEN) && shown.contains("requests/s"), "{shown}");
}

#[test]
fn control_characters_of_a_path_do_not_reach_the_terminal() {
    let place = Place::new();
    place.run(&["null"], "");
    let run = place.run_folder().unwrap();
    let odd = place.path().join("x\x1b]0;pwn\x07y");
    fs::rename(run, &odd).unwrap();
    let missing = place.path().join("no\x1b]0;pwn\x07ne");
    for arguments in
        [["report".as_ref(), odd.as_os_str()], ["report".as_ref(), missing.as_os_str()]]
    {
        let mut command = place.command(Path::new(DYNO));
        let (window, mut child) = start(command.args(arguments), true);
        let pieces = follow(&window);
        assert!(ended(&mut child).is_some());
        // The reader ends by itself once the program's end is closed, of which the command has
        // copies.
        drop((window, command));
        let shown: String = pieces.iter().collect();
        assert!(shown.contains("]0;pwn"), "{shown}");
        assert!(!shown.contains("\x1b]0;") && !shown.contains('\x07'), "{shown:?}");
    }
}
