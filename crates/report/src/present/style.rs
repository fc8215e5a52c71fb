//! Colours of a text for a terminal. They are optional, because the text may be piped to a file.

use dyno_analysis::Severity;

/// Whether the text is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Plain,
    Colour,
}

impl Style {
    /// Colours a text by an SGR code.
    fn paint(self, code: &str, text: &str) -> String {
        match self {
            Style::Plain => text.to_string(),
            Style::Colour => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }

    #[must_use]
    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// Colours a text by a severity.
    pub(crate) fn paint_severity(self, severity: Severity, text: &str) -> String {
        match severity {
            Severity::Info => self.dim(text),
            Severity::Warning => self.paint("33", text),
            Severity::Invalid => self.paint("31;1", text),
        }
    }
}
