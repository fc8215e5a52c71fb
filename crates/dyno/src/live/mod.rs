//! The live view of `dyno load`: [`model`] is what it shows, [`view`] draws that, [`Live`] owns the terminal.

pub mod model;
pub mod view;

use std::io::{self, BufWriter, IsTerminal as _, Stderr, Write as _};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

use self::model::Model;
use self::view::Palette;

/// Room for one screen, so that it reaches the terminal in one write.
const BUFFER_BYTES: usize = 256 * 1024;

/// Whether a [`Live`] holds the terminal. It is given back once, by whoever comes first.
static SHOWN: AtomicBool = AtomicBool::new(false);

/// The terminal while a load runs: the alternate screen on standard error, in raw mode. Given back on drop, and before
/// a panic's message.
#[derive(Debug)]
pub struct Live {
    terminal: Terminal<CrosstermBackend<BufWriter<Stderr>>>,
    palette: Palette,
}

impl Live {
    /// Fails where standard error is not a terminal, or the terminal refuses.
    pub fn start(palette: Palette) -> io::Result<Live> {
        if !io::stderr().is_terminal() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "standard error is not a terminal; let plain lines tell the progress",
            ));
        }
        give_back_before_panics();
        enable_raw_mode()?;
        SHOWN.store(true, Ordering::SeqCst);
        Live::enter(palette).inspect_err(|_| give_back())
    }

    fn enter(palette: Palette) -> io::Result<Live> {
        execute!(io::stderr(), EnterAlternateScreen)?;
        let out = BufWriter::with_capacity(BUFFER_BYTES, io::stderr());
        Ok(Live { terminal: Terminal::new(CrosstermBackend::new(out))?, palette })
    }

    /// Draws at the size the terminal has now. Does nothing once the terminal was given back.
    pub fn show(&mut self, model: &Model) -> io::Result<()> {
        if SHOWN.load(Ordering::SeqCst) {
            self.terminal.draw(|frame| view::draw(frame, model, &self.palette))?;
        }
        Ok(())
    }

    /// Whether q, Esc or Ctrl-C was pressed since this was last asked: once for each press. Does not wait.
    ///
    /// If the terminal was resized since the last call, a key may be seen only with the next key: of two sources that
    /// are ready at once crossterm 0.29 reads one, and epoll does not report the other again. So call this often.
    ///
    /// In raw mode the terminal sends no SIGINT for Ctrl-C, so the caller must act on it.
    pub fn asked_to_quit(&mut self) -> bool {
        while event::poll(Duration::ZERO).unwrap_or(false) {
            match event::read() {
                Ok(Event::Key(key)) if quits(key) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
        false
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        give_back();
    }
}

fn quits(key: KeyEvent) -> bool {
    let quits = match key.code {
        KeyCode::Char('q' | 'Q') | KeyCode::Esc => true,
        KeyCode::Char('c' | 'C') => key.modifiers.contains(KeyModifiers::CONTROL),
        _ => false,
    };
    quits && key.kind == KeyEventKind::Press
}

/// Gives the terminal back if a [`Live`] holds it: for code that ends this process without unwinding. Errors are
/// ignored, because nobody is left to see them.
pub fn give_back() {
    if SHOWN.swap(false, Ordering::SeqCst) {
        let _ = execute!(io::stderr(), LeaveAlternateScreen, Show);
        let _ = io::stderr().flush();
        let _ = disable_raw_mode();
    }
}

/// Otherwise a panic's message, of any thread, would vanish with the alternate screen.
fn give_back_before_panics() {
    static HOOKED: Once = Once::new();
    HOOKED.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            usual(panic);
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q_escape_and_control_c_ask_to_quit() {
        let pressed = |code, modifiers| quits(KeyEvent::new(code, modifiers));
        assert!(pressed(KeyCode::Char('q'), KeyModifiers::NONE));
        assert!(pressed(KeyCode::Char('Q'), KeyModifiers::SHIFT));
        assert!(pressed(KeyCode::Esc, KeyModifiers::NONE));
        assert!(pressed(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert!(!pressed(KeyCode::Char('c'), KeyModifiers::NONE));
        assert!(!pressed(KeyCode::Enter, KeyModifiers::NONE));
        let released =
            KeyEvent { kind: KeyEventKind::Release, ..KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE) };
        assert!(!quits(released));
    }
}
