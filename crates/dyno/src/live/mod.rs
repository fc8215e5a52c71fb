//! The live view of `dyno load`. [`model`] has its numbers, [`view`] draws them, and [`Live`]
//! controls the terminal.

mod keyboard;
pub mod model;
mod screen;
pub mod view;

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, IsTerminal as _};
use std::mem::ManuallyDrop;
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::style::{Attribute, SetAttribute};
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

pub use self::keyboard::Input;
use self::keyboard::Keyboard;
use self::model::LiveModel;
use self::screen::Screen;
use self::view::Palette;

/// Size of a buffer for one screen, so that it reaches the terminal in one write.
const BUFFER_BYTES: usize = 256 * 1024;

/// Whether a [`Live`] controls the terminal. The terminal is restored only once.
static IS_LIVE: AtomicBool = AtomicBool::new(false);

/// The terminal while a load runs: the alternate screen on standard error, in raw mode. The
/// terminal is restored on drop, and before the message of a panic.
#[derive(Debug)]
pub struct Live {
    /// Never dropped, because its drop panics if it can neither show the cursor nor print to
    /// standard error. [`restore_terminal`] does the clean-up.
    screen: ManuallyDrop<Screen<CrosstermBackend<BufWriter<File>>>>,
    keyboard: Keyboard,
    palette: Palette,
    /// Whether another process used the terminal since the last complete drawing.
    was_in_background: bool,
}

impl Live {
    /// Starts the live view. Fails if standard error is not a terminal, the terminal refuses or has
    /// no cells, or this process is in the background of the terminal.
    pub fn start(palette: Palette) -> io::Result<Live> {
        if !io::stderr().is_terminal() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "standard error is not a terminal, so progress is shown as plain lines",
            ));
        }
        let keyboard = Keyboard::open()?;
        if !keyboard.is_usable() {
            return Err(io::Error::other("dyno runs in the background of the terminal"));
        }
        let (columns, rows) = ratatui::crossterm::terminal::size()?;
        if columns == 0 || rows == 0 {
            return Err(io::Error::other("the terminal has no size"));
        }
        restore_terminal_before_panics();
        enable_raw_mode()?;
        IS_LIVE.store(true, Ordering::SeqCst);
        Live::enter(keyboard, palette).inspect_err(|_| restore_terminal())
    }

    /// Switches to the alternate screen.
    fn enter(keyboard: Keyboard, palette: Palette) -> io::Result<Live> {
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, open_screen()?);
        execute!(out, EnterAlternateScreen)?;
        let terminal = Terminal::new(CrosstermBackend::new(out))?;
        let screen = ManuallyDrop::new(Screen::new(terminal));
        Ok(Live { screen, keyboard, palette, was_in_background: false })
    }

    /// Draws at the present size of the terminal. Does nothing after the terminal was restored, in
    /// the background, or while the terminal accepts no output. A load must not wait for its
    /// screen.
    pub fn show(&mut self, model: &LiveModel) -> io::Result<()> {
        if !IS_LIVE.load(Ordering::SeqCst) {
            return Ok(());
        }
        if !self.keyboard.is_usable() {
            self.was_in_background = true;
            return Ok(());
        }
        let draw_result = self.draw(model);
        if draw_result.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
            Ok(())
        } else {
            draw_result
        }
    }

    fn draw(&mut self, model: &LiveModel) -> io::Result<()> {
        // The rest of the last screen is written first, because the next screen is drawn as the
        // differences from the last screen.
        self.screen.flush()?;
        if self.was_in_background {
            self.screen.lose_contents();
            // A shell has changed the modes. crossterm would not set a mode that it assumes to be
            // set.
            disable_raw_mode()?;
            enable_raw_mode()?;
            execute!(self.screen.backend(), EnterAlternateScreen)?;
            self.was_in_background = false;
        }
        if !self.screen.has_contents() {
            // The last drawing may have ended after a colour was set.
            execute!(self.screen.backend(), SetAttribute(Attribute::Reset))?;
        }
        self.screen.draw(|frame| view::draw(frame, model, &self.palette))
    }

    /// Returns input from the terminal since the last call. Does not wait.
    ///
    /// In raw mode the terminal sends no SIGINT for Ctrl-C, so the caller must act on it.
    pub fn input(&mut self) -> Input {
        if keyboard::is_gone(io::stderr()) { Input::HungUp } else { self.keyboard.input() }
    }
}

/// Opens the terminal of standard error again, in a mode in which writes do not block. A hanging
/// connection may accept no output for minutes.
fn open_screen() -> io::Result<File> {
    const NO_WAIT: i32 =
        rustix::fs::OFlags::NONBLOCK.union(rustix::fs::OFlags::NOCTTY).bits() as i32;
    let opened = File::options().write(true).custom_flags(NO_WAIT).open("/proc/self/fd/2");
    // After a change of the user ID, opening the terminal can be forbidden.
    opened.or_else(|_| io::stderr().as_fd().try_clone_to_owned().map(File::from))
}

impl Drop for Live {
    fn drop(&mut self) {
        restore_terminal();
    }
}

/// Restores the terminal if a [`Live`] controls it, also for code that ends this process without
/// unwinding. Errors are ignored, because they cannot be displayed.
pub fn restore_terminal() {
    if IS_LIVE.swap(false, Ordering::SeqCst)
        && Keyboard::open().is_ok_and(|keyboard| keyboard.is_usable())
    {
        let _ = open_screen().and_then(|mut screen| execute!(screen, LeaveAlternateScreen, Show));
        let _ = disable_raw_mode();
    }
}

/// Restores the terminal before the message of a panic in any thread. Otherwise the message would
/// vanish with the alternate screen.
fn restore_terminal_before_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let default_hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore_terminal();
            default_hook(panic);
        }));
    });
}
