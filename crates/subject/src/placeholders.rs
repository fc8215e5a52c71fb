//! Placeholders in commands and templates of subjects.

use std::borrow::Cow;

/// The value of each placeholder in commands and templates.
#[derive(Clone, Debug, Default)]
pub struct Placeholders(pub Vec<(Cow<'static, str>, String)>);

impl Placeholders {
    /// Replaces the known placeholders; all other braces stay.
    #[must_use]
    pub fn fill(&self, text: &str) -> String {
        self.0
            .iter()
            .fold(text.to_string(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
    }

    /// As [`fill`](Self::fill), for a command of a shell. Authors write placeholders within quotes and without, so that
    /// a value cannot be quoted here: one that a shell would not take as it is is refused.
    ///
    /// # Errors
    /// A sentence on the value.
    pub fn fill_command(&self, command: &str) -> Result<String, String> {
        let is_used = |name: &str| command.contains(&format!("{{{name}}}"));
        match self.0.iter().find(|(name, value)| is_used(name) && !is_one_word(value)) {
            None => Ok(self.fill(command)),
            Some((name, value)) => Err(format!(
                "{{{name}}} is {value:?} here, which a shell would not take for one word: use a folder without blanks and special characters in its path ({})",
                match name.as_ref() {
                    "out" => "`--cache FOLDER`",
                    "dir" => "`--subjects FOLDER`",
                    _ => "where dyno itself lies",
                }
            )),
        }
    }
}

/// Whether a shell takes a text as it is, within any quotes and without.
fn is_one_word(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%:,=~".contains(c);
    !text.starts_with('~') && text.chars().all(|c| is_plain(c) || (!c.is_ascii() && !c.is_whitespace()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_placeholders_are_replaced() {
        let places = Placeholders(vec![("port".into(), "80".into())]);
        assert_eq!(places.fill("a{port}b{x}{}{"), "a80b{x}{}{");
    }
}
