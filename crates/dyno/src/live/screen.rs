//! Draws on a terminal that may refuse output at any time.

use std::io;

use ratatui::backend::Backend;
use ratatui::{Frame, Terminal};

/// A terminal whose contents are known only after a complete drawing.
#[derive(Debug)]
pub(super) struct Screen<B: Backend> {
    terminal: Terminal<B>,
    /// Whether the terminal shows the last drawing, so that the next one needs only differences.
    has_contents: bool,
}

impl<B: Backend<Error = io::Error>> Screen<B> {
    /// Takes a terminal that shows nothing yet.
    pub(super) const fn new(terminal: Terminal<B>) -> Screen<B> {
        Screen { terminal, has_contents: true }
    }

    pub(super) const fn backend(&mut self) -> &mut B {
        self.terminal.backend_mut()
    }

    /// Writes the rest of the last drawing.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.backend().flush()
    }

    pub(super) const fn has_contents(&self) -> bool {
        self.has_contents
    }

    /// Notes that the terminal may show anything, so that the next drawing covers all cells.
    pub(super) const fn lose_contents(&mut self) {
        self.has_contents = false;
    }

    /// Draws a frame. After an error, the next drawing covers all cells, because a part of this one
    /// may be missing.
    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        if !std::mem::take(&mut self.has_contents) {
            // `Terminal::clear` would ask the terminal for the position of its cursor and wait for
            // the answer. `Terminal::resize` clears the terminal, too.
            let area = self.terminal.size()?.into();
            self.terminal.resize(area)?;
            // A failed drawing leaves its cells here.
            self.terminal.current_buffer_mut().reset();
        }
        self.terminal.draw(draw)?;
        self.has_contents = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ratatui::backend::{ClearType, TestBackend, WindowSize};
    use ratatui::buffer::Cell;
    use ratatui::layout::{Position, Size};

    use super::*;

    /// A terminal that accepts only the next `room` cells, and answers no questions.
    struct SlowTerminal {
        shown: TestBackend,
        room: usize,
    }

    fn accept(result: Result<(), std::convert::Infallible>) -> io::Result<()> {
        result.map_err(|never| match never {})
    }

    impl Backend for SlowTerminal {
        type Error = io::Error;

        fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
        where
            I: Iterator<Item = (u16, u16, &'a Cell)>,
        {
            for cell in content {
                if self.room == 0 {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                self.room -= 1;
                accept(self.shown.draw(std::iter::once(cell)))?;
            }
            Ok(())
        }

        fn hide_cursor(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn show_cursor(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn get_cursor_position(&mut self) -> io::Result<Position> {
            Err(io::Error::other("the terminal does not report its cursor"))
        }

        fn set_cursor_position<P: Into<Position>>(&mut self, _: P) -> io::Result<()> {
            Ok(())
        }

        fn clear(&mut self) -> io::Result<()> {
            self.clear_region(ClearType::All)
        }

        fn clear_region(&mut self, region: ClearType) -> io::Result<()> {
            accept(self.shown.clear_region(region))
        }

        fn size(&self) -> io::Result<Size> {
            Ok(Size::new(4, 1))
        }

        fn window_size(&mut self) -> io::Result<WindowSize> {
            Ok(WindowSize { columns_rows: Size::new(4, 1), pixels: Size::new(0, 0) })
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn screen() -> Screen<SlowTerminal> {
        let backend = SlowTerminal { shown: TestBackend::new(4, 1), room: usize::MAX };
        Screen::new(Terminal::new(backend).unwrap())
    }

    fn draw(screen: &mut Screen<SlowTerminal>, text: &str) -> io::Result<()> {
        screen.draw(|frame| frame.render_widget(text, frame.area()))
    }

    fn shown(screen: &mut Screen<SlowTerminal>) -> String {
        screen.backend().shown.buffer().content().iter().map(Cell::symbol).collect()
    }

    #[test]
    fn drawing_after_refused_output_covers_all_cells() {
        let mut screen = screen();
        draw(&mut screen, "abcd").unwrap();
        screen.backend().room = 2;
        let error = draw(&mut screen, "efgh").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(shown(&mut screen), "efcd", "half of the drawing");
        screen.backend().room = usize::MAX;
        draw(&mut screen, "xb").unwrap();
        assert_eq!(shown(&mut screen), "xb  ");
        draw(&mut screen, "xy").unwrap();
        assert_eq!(shown(&mut screen), "xy  ");
    }

    /// Another program has written to the terminal.
    #[test]
    fn lost_contents_are_drawn_without_asking_for_cursor() {
        let mut screen = screen();
        draw(&mut screen, "abcd").unwrap();
        accept(screen.backend().shown.draw([(3, 0, &Cell::new("$"))].into_iter())).unwrap();
        screen.lose_contents();
        draw(&mut screen, "abcd").unwrap();
        assert_eq!(shown(&mut screen), "abcd");
    }
}
