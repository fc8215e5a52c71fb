//! Tests dyno with pseudo-terminals (pty(7)): a lost terminal, a background job, and escaped
//! control characters.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use crate::drive::{DYNO, Sandbox, Server, soon, stored_run};

/// The control sequence for the alternate screen, on which the live view is.
const SECOND_SCREEN: &str = "\x1b[?1049h";

/// Rows and columns of a usual terminal.
const USUAL_SIZE: (u16, u16) = (40, 120);

/// Opens a terminal of these rows and columns. Returns its window's end, and the end for programs.
fn terminal((ws_row, ws_col): (u16, u16)) -> (File, OwnedFd) {
    let (mut window, mut inner) = (0, 0);
    let size = libc::winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: all pointers are valid, and this function owns the descriptors afterwards.
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
        // The program must not keep its own window open.
        libc::fcntl(window, libc::F_SETFD, libc::FD_CLOEXEC);
        (File::from_raw_fd(window), OwnedFd::from_raw_fd(inner))
    }
}

/// Starts a program as the session leader of a terminal of the usual size.
fn start(command: &mut Command, is_stdin: bool) -> (File, Child) {
    start_in(terminal(USUAL_SIZE), command, is_stdin)
}

/// Starts a program as the session leader of a terminal.
fn start_in(
    (window, inner): (File, OwnedFd),
    command: &mut Command,
    is_stdin: bool,
) -> (File, Child) {
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

/// Reads the output of a terminal until the receiver is dropped or the terminal is closed.
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
fn terminals_may_be_lost_sizeless_or_shared() {
    let (sandbox, server) = (Sandbox::new(), Server::null());
    let url = server.url("/");
    assert_result_outlives_terminal(&sandbox, &url);
    assert_live_view_needs_size(&sandbox, &url);
    assert_background_load_is_not_stopped(&sandbox, &url);
    assert_paths_are_escaped(&sandbox);
}

fn assert_result_outlives_terminal(sandbox: &Sandbox, url: &str) {
    for is_stdin in [true, false] {
        let archive = sandbox.path().join(format!("kept-{is_stdin}"));
        let mut command = sandbox.command(Path::new(DYNO));
        command
            .args(["load", url, "-d", "1h", "-c", "2", "--interval", "100ms", "--save"])
            .arg(&archive);
        let (window, mut child) = start(&mut command, is_stdin);
        let pieces = follow(&window);
        let mut screen = String::new();
        // After the first interval, the load has a result to save.
        while !(screen.contains(SECOND_SCREEN) && screen.contains("measured")) {
            screen.push_str(&pieces.recv().expect("the live view is shown"));
        }
        // The reader ends with the next piece, which releases the window.
        drop((pieces, window));
        let status = ended(&mut child).expect("dyno ends");
        assert_eq!(status.code(), Some(3));
        let run = fs::read_dir(&archive).unwrap().next().unwrap().unwrap().path();
        assert_eq!(fs::read_dir(run.join("trials")).unwrap().count(), 1);
        sandbox.assert_nothing_is_left();
    }
}

/// A serial console, or a container's terminal, may report a size of 0.
fn assert_live_view_needs_size(sandbox: &Sandbox, url: &str) {
    let mut command = sandbox.command(Path::new(DYNO));
    command.args(["load", url, "-d", "300ms", "-c", "2"]);
    let (window, mut child) = start_in(terminal((0, 0)), &mut command, true);
    let pieces = follow(&window);
    let status = ended(&mut child);
    // The reader ends by itself once the program's end is closed, of which the command has copies.
    drop((window, command));
    let screen: String = pieces.iter().collect();
    assert!(status.is_some() && !screen.contains(SECOND_SCREEN), "{screen}");
    assert!(screen.contains("requests/s"), "{screen}");
}

fn assert_background_load_is_not_stopped(sandbox: &Sandbox, url: &str) {
    // A shell with job control, which gives the job a separate process group.
    let mut command = Command::new("sh");
    command.args(["-c", "set -m; \"$@\" & wait $!; echo \"status $?\"", "sh", DYNO, "load", url]);
    command.args(["-d", "300ms", "-c", "2"]).env("TMPDIR", sandbox.path());
    let (window, mut child) = start(&mut command, true);
    let pieces = follow(&window);
    let status = ended(&mut child);
    drop(window);
    let screen: String = pieces.try_iter().collect();
    assert!(status.is_some(), "it was stopped: {screen}");
    assert!(!screen.contains(SECOND_SCREEN) && screen.contains("requests/s"), "{screen}");
}

/// Control characters of paths are shown, and do not control the terminal.
fn assert_paths_are_escaped(sandbox: &Sandbox) {
    let odd = sandbox.path().join("x\x1b]0;pwn\x07y");
    let copied = Command::new("cp").arg("-r").args([&stored_run(), &odd]).status();
    assert!(copied.unwrap().success());
    let missing = sandbox.path().join("no\x1b]0;pwn\x07ne");
    for arguments in
        [["report".as_ref(), odd.as_os_str()], ["report".as_ref(), missing.as_os_str()]]
    {
        let mut command = sandbox.command(Path::new(DYNO));
        let (window, mut child) = start(command.args(arguments), true);
        let pieces = follow(&window);
        assert!(ended(&mut child).is_some());
        // The reader ends by itself once the program's end is closed, of which the command has
        // copies.
        drop((window, command));
        let screen: String = pieces.iter().collect();
        assert!(screen.contains("]0;pwn"), "{screen}");
        assert!(!screen.contains("\x1b]0;") && !screen.contains('\x07'), "{screen:?}");
    }
}
