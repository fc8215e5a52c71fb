//! Reads the keys that end a load, and detects a closed terminal.
//!
//! crossterm's own reader never returns if the terminal was hung up. It takes the end of the file
//! for an incomplete key, and reads again in a loop.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Input from the terminal since the last call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    Nothing,
    /// q, Esc or Ctrl-C.
    Quit,
    /// The terminal is gone, because its window was closed or its connection was lost.
    HungUp,
}

/// The terminal that keys come from.
#[derive(Debug)]
pub struct Keyboard(OwnedFd);

impl Keyboard {
    /// Opens standard input, or the controlling terminal if standard input is another file.
    /// crossterm sets the modes of the same file.
    pub fn open() -> io::Result<Keyboard> {
        let stdin = io::stdin();
        if rustix::termios::isatty(&stdin) {
            return stdin.as_fd().try_clone_to_owned().map(Keyboard);
        }
        File::options().read(true).write(true).open("/dev/tty").map(|tty| Keyboard(tty.into()))
    }

    /// Whether this process may use the terminal. In the background, a read or a change of its
    /// modes would stop this process.
    pub fn is_ours(&self) -> bool {
        // Only the controlling terminal has a foreground group.
        rustix::termios::tcgetpgrp(&self.0).is_ok_and(|group| group == rustix::process::getpgrp())
            || rustix::termios::tcgetsid(&self.0).is_err()
    }

    /// Reads available input, without waiting.
    pub fn input(&self) -> Input {
        let mut bytes = [0; 256];
        loop {
            match poll_state(self.0.as_fd(), PollFlags::IN) {
                TerminalState::Gone => return Input::HungUp,
                TerminalState::Ready if self.is_ours() => {}
                TerminalState::Idle | TerminalState::Ready => return Input::Nothing,
            }
            match rustix::io::read(&self.0, &mut bytes) {
                Ok(0) => return Input::HungUp,
                Ok(length) if has_quit(&bytes[..length]) => return Input::Quit,
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Input::Nothing,
                Err(_) => return Input::HungUp,
            }
        }
    }
}

/// The present state of a terminal.
enum TerminalState {
    Idle,
    Ready,
    Gone,
}

fn poll_state(terminal: BorrowedFd<'_>, events: PollFlags) -> TerminalState {
    let mut polled = [PollFd::from_borrowed_fd(terminal, events)];
    match poll(&mut polled, Some(&Timespec::default())) {
        Ok(0) | Err(_) => TerminalState::Idle,
        Ok(_)
            if polled[0]
                .revents()
                .intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) =>
        {
            TerminalState::Gone
        }
        Ok(_) => TerminalState::Ready,
    }
}

/// Whether a terminal was hung up.
pub fn is_gone(terminal: impl AsFd) -> bool {
    matches!(poll_state(terminal.as_fd(), PollFlags::empty()), TerminalState::Gone)
}

/// Whether q, Esc or Ctrl-C is among the keys that a terminal sends in raw mode.
fn has_quit(bytes: &[u8]) -> bool {
    const ESC: u8 = 0x1B;
    const CONTROL_C: u8 = 0x03;
    let mut remaining = bytes;
    while let [first, after @ ..] = remaining {
        remaining = match (*first, after) {
            (b'q' | b'Q' | CONTROL_C, _) | (ESC, [] | [ESC, ..]) => return true,
            // Sequences of other keys: `ESC [ … letter`, `ESC O letter`, and `ESC letter` of Alt
            // (ECMA-48).
            (ESC, [b'[', sequence @ ..]) => {
                let end = sequence.iter().position(|byte| (0x40..0x7F).contains(byte));
                end.map_or(&[], |end| &sequence[end + 1..])
            }
            (ESC, [b'O', _, after @ ..] | [_, after @ ..]) => after,
            _ => after,
        };
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_q_escape_and_control_c_quit() {
        for quits in ["q", "Q", "\x1b", "\x03", "xq", "\x1b[Aq", "\x1b\x1b", "\x1bOA\x03"] {
            assert!(has_quit(quits.as_bytes()), "{quits:?}");
        }
        for other in
            ["", "x", "\r", "\x1b[A", "\x1b[1;5C", "\x1bOQ", "\x1bx", "\x1b[", "é", "\x1b[<0;3;4M"]
        {
            assert!(!has_quit(other.as_bytes()), "{other:?}");
        }
    }

    #[test]
    fn end_of_file_means_hung_up() {
        let (reader, writer) = io::pipe().unwrap();
        let keyboard = Keyboard(reader.into());
        assert_eq!(keyboard.input(), Input::Nothing);
        io::Write::write_all(&mut &writer, b"xq").unwrap();
        assert_eq!(keyboard.input(), Input::Quit);
        drop(writer);
        assert_eq!(keyboard.input(), Input::HungUp);
        assert!(is_gone(&keyboard.0));
    }
}
