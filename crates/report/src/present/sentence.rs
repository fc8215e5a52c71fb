//! Sentences as data. Each form of output renders the parts of a sentence and escapes them here.

use maud::{Markup, Render, html};

use super::escape;
use crate::terminal;

/// A sentence, or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sentence(Vec<Part>);

/// A part of a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// A key, a command or an option.
    Code(String),
    /// The name of the thing that the sentence is about.
    Strong(String),
}

impl Sentence {
    /// Reads a text in which backticks surround code.
    pub(crate) fn new(text: &str) -> Sentence {
        let texts: Vec<&str> = text.split('`').collect();
        // An unpaired backtick comes from foreign text, which is shown unchanged.
        if texts.len().is_multiple_of(2) {
            return Sentence(vec![Part::Text(text.into())]);
        }
        let part = |(i, text): (usize, &&str)| match i % 2 {
            0 => Part::Text((*text).into()),
            _ => Part::Code((*text).into()),
        };
        Sentence(texts.iter().enumerate().map(part).collect())
    }

    /// Begins a sentence with an emphasised name.
    pub(crate) fn about(name: impl Into<String>) -> Sentence {
        Sentence(vec![Part::Strong(name.into())])
    }

    /// Appends a text, which is shown unchanged.
    pub(crate) fn then(mut self, text: impl Into<String>) -> Sentence {
        self.0.push(Part::Text(text.into()));
        self
    }

    /// Returns the sentence as plain text, with backticks around code.
    pub(crate) fn text(&self) -> String {
        let part = |part: &Part| match part {
            Part::Code(text) => format!("`{text}`"),
            Part::Strong(text) | Part::Text(text) => text.clone(),
        };
        self.0.iter().map(part).collect()
    }

    /// Renders the sentence as Markdown on one line.
    pub(crate) fn markdown(&self) -> String {
        let part = |part: &Part| match part {
            Part::Code(text) if !text.trim().is_empty() => {
                format!("`{}`", terminal::escape_line(text))
            }
            Part::Code(text) => escape::markdown(&format!("`{text}`")),
            Part::Strong(text) => format!("**{}**", escape::markdown(text)),
            Part::Text(text) => escape::markdown(text),
        };
        self.0.iter().map(part).collect()
    }
}

impl Render for Sentence {
    fn render(&self) -> Markup {
        html! {
            @for part in &self.0 {
                @match part {
                    Part::Text(text) => (text),
                    Part::Code(text) => code { (text) },
                    Part::Strong(text) => b { (text) },
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_escape_texts_and_keep_parts() {
        let sentence = Sentence::new("Use `a|b` for *x* & <y>.");
        assert_eq!(sentence.markdown(), "Use `a|b` for \\*x\\* & \\<y\\>.");
        let page = sentence.render().into_string();
        assert_eq!(page, "Use <code>a|b</code> for *x* &amp; &lt;y&gt;.");
        let named = Sentence::about("*a*").then(" `b` failed");
        assert_eq!(named.markdown(), "**\\*a\\*** \\`b\\` failed");
        assert_eq!(named.render().into_string(), "<b>*a*</b> `b` failed");
    }

    #[test]
    fn unpaired_or_empty_backticks_are_text() {
        assert_eq!(Sentence::new("a ` b").markdown(), "a \\` b");
        assert_eq!(Sentence::new("a `` b").markdown(), "a \\`\\` b");
        assert_eq!(Sentence::new("a `\n# b` c").markdown(), "a ` # b` c");
    }
}
