//! Reads the keys that end a load, and detects a closed terminal.
//!
//! crossterm's own reader never returns if the terminal was hung up: it treats the end of the file
//! as an incomplete key, and reads again in a loop.

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
pub struct Keyboard {
    terminal: OwnedFd,
    /// Beginning of a key, whose remaining bytes may come with the next read.
    incomplete: Vec<u8>,
}

impl Keyboard {
    /// Opens standard input, or the controlling terminal if standard input is another file.
    /// crossterm sets the modes of the same file.
    pub fn open() -> io::Result<Keyboard> {
        let stdin = io::stdin();
        if rustix::termios::isatty(&stdin) {
            return stdin.as_fd().try_clone_to_owned().map(Keyboard::new);
        }
        File::options().read(true).write(true).open("/dev/tty").map(|tty| Keyboard::new(tty.into()))
    }

    fn new(terminal: OwnedFd) -> Keyboard {
        Keyboard { terminal, incomplete: Vec::new() }
    }

    /// Whether this process may use the terminal. In the background, reading from the terminal or
    /// changing its modes would stop this process.
    pub fn is_usable(&self) -> bool {
        let is_in_foreground = rustix::termios::tcgetpgrp(&self.terminal)
            .is_ok_and(|group| group == rustix::process::getpgrp());
        // Only the controlling terminal of a process has a foreground group. Any process can use
        // other terminals.
        let is_controlling = rustix::termios::tcgetsid(&self.terminal).is_ok();
        is_in_foreground || !is_controlling
    }

    /// Reads available input, without waiting. An Esc at the end of the input can be the beginning
    /// of another key. If no more bytes follow, the next call treats it as the key Esc.
    pub fn input(&mut self) -> Input {
        let mut bytes = [0; 256];
        let mut has_read = false;
        loop {
            match poll_state(self.terminal.as_fd(), PollFlags::IN) {
                TerminalState::Gone => return Input::HungUp,
                TerminalState::Ready if self.is_usable() => {}
                // All available input has been read.
                TerminalState::Idle | TerminalState::Ready if has_read => return Input::Nothing,
                // This call has read no byte, so an incomplete key of an earlier call has ended.
                TerminalState::Idle | TerminalState::Ready => return self.end_incomplete_key(),
            }
            has_read = true;
            match rustix::io::read(&self.terminal, &mut bytes) {
                Ok(0) => return Input::HungUp,
                Ok(length) if self.has_quit(&bytes[..length]) => return Input::Quit,
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Input::Nothing,
                Err(_) => return Input::HungUp,
            }
        }
    }

    /// Whether a key that ends the load is complete after these bytes.
    fn has_quit(&mut self, bytes: &[u8]) -> bool {
        /// Longest sequence of a key.
        const MAX_SEQUENCE: usize = 64;
        self.incomplete.extend_from_slice(bytes);
        match parse_keys(&self.incomplete) {
            Keys::Quit => true,
            Keys::Other { complete } => {
                self.incomplete.drain(..complete);
                self.incomplete.truncate(MAX_SEQUENCE);
                false
            }
        }
    }

    /// Handles the end of input within a key: Esc alone is a key.
    fn end_incomplete_key(&mut self) -> Input {
        match std::mem::take(&mut self.incomplete)[..] {
            [ESC] => Input::Quit,
            _ => Input::Nothing,
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

const ESC: u8 = 0x1B;
const CONTROL_C: u8 = 0x03;

/// Keys that a terminal sends in raw mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keys {
    /// The keys include q, Esc or Ctrl-C.
    Quit,
    /// Other keys. The first `complete` bytes are whole keys. The remaining bytes can be the
    /// beginning of a key.
    Other { complete: usize },
}

fn parse_keys(bytes: &[u8]) -> Keys {
    let mut remaining = bytes;
    loop {
        let incomplete = Keys::Other { complete: bytes.len() - remaining.len() };
        remaining = match remaining {
            [b'q' | b'Q' | CONTROL_C, ..] | [ESC, ESC, ..] => return Keys::Quit,
            // Sequences of other keys: `ESC [ … letter`, `ESC O letter`, and `ESC letter` of Alt
            // (ECMA-48).
            [] | [ESC] | [ESC, b'O'] => return incomplete,
            [ESC, b'[', sequence @ ..] => {
                match sequence.iter().position(|byte| (0x40..0x7F).contains(byte)) {
                    Some(end) => &sequence[end + 1..],
                    None => return incomplete,
                }
            }
            [ESC, b'O', _, after @ ..] | [ESC, _, after @ ..] | [_, after @ ..] => after,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_q_escape_and_control_c_quit() {
        for quits in ["q", "Q", "\x03", "xq", "\x1b[Aq", "\x1b\x1b", "\x1bOA\x03"] {
            assert_eq!(parse_keys(quits.as_bytes()), Keys::Quit, "{quits:?}");
        }
        for other in ["", "x", "\r", "\x1b[A", "\x1b[1;5C", "\x1bOQ", "\x1bx", "é", "\x1b[<0;3;4M"]
        {
            let complete = other.len();
            assert_eq!(parse_keys(other.as_bytes()), Keys::Other { complete }, "{other:?}");
        }
        for (incomplete, complete) in [("\x1b", 0), ("x\x1b[1;", 1), ("\x1b[A\x1bO", 3)] {
            assert_eq!(parse_keys(incomplete.as_bytes()), Keys::Other { complete });
        }
    }

    /// An arrow key may come in two reads. Esc alone ends the load at the next call.
    #[test]
    fn split_arrow_key_is_not_escape() {
        let (reader, writer) = io::pipe().unwrap();
        let mut keyboard = Keyboard::new(reader.into());
        for piece in ["\x1b", "[A", "\x1b[", "1;5C", "\x1bO", "B"] {
            io::Write::write_all(&mut &writer, piece.as_bytes()).unwrap();
            assert_eq!(keyboard.input(), Input::Nothing, "{piece:?}");
        }
        assert_eq!(keyboard.input(), Input::Nothing);
        io::Write::write_all(&mut &writer, b"\x1b").unwrap();
        assert_eq!(keyboard.input(), Input::Nothing);
        assert_eq!(keyboard.input(), Input::Quit);
        assert_eq!(keyboard.input(), Input::Nothing);
    }

    #[test]
    fn end_of_file_means_hung_up() {
        let (reader, writer) = io::pipe().unwrap();
        let mut keyboard = Keyboard::new(reader.into());
        assert_eq!(keyboard.input(), Input::Nothing);
        io::Write::write_all(&mut &writer, b"xq").unwrap();
        assert_eq!(keyboard.input(), Input::Quit);
        drop(writer);
        assert_eq!(keyboard.input(), Input::HungUp);
        assert!(is_gone(&keyboard.terminal));
    }
}
