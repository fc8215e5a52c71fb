//! Placeholders in commands and templates: `{port}` stands for a value, `{{port}}` for the literal
//! text `{port}`.
//!
//! Any text in the form of a placeholder is one, so that a misspelt name is reported and not passed
//! on. The exception is `${NAME}`, the syntax of shells and languages.

use std::borrow::Cow;

use dyno_workload::text::nearest;

/// Placeholders of all commands of a subject.
pub const ALWAYS: [&str; 3] = ["out", "dir", "dyno"];

/// Additional placeholders of a build.
pub const OF_BUILD: [&str; 1] = ["cache"];

/// Additional placeholders of a start, which also has the ports of back ends.
pub const OF_START: [&str; 7] = ["port", "tls_port", "cert", "key", "cpus", "work", "name"];

/// Additional placeholders of a command for a server that is up.
pub const OF_PROFILE: [&str; 1] = ["pid"];

/// Suffixes of a back end's name in a placeholder: `{db.port}`.
pub const OF_BACKEND: [&str; 3] = ["port", "tls_port", "host"];

/// The value of each placeholder in commands and templates.
#[derive(Clone, Debug, Default)]
pub struct Placeholders(pub Vec<(Cow<'static, str>, String)>);

/// A piece of a text that may hold placeholders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    /// The name between the braces.
    Place(&'a str),
}

impl Placeholders {
    /// Replaces placeholders by their values. A placeholder without a value stays: the reader of
    /// the text has refused it, or the text has changed since.
    #[must_use]
    pub fn fill(&self, text: &str) -> String {
        let value = |name: &str| {
            self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
        };
        let mut filled = String::with_capacity(text.len());
        for piece in pieces(text) {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Place(name) => match value(name) {
                    Some(value) => filled.push_str(value),
                    None => filled.extend(["{", name, "}"]),
                },
            }
        }
        filled
    }

    /// As [`fill`](Self::fill), for a shell command. Authors write placeholders with and without
    /// quotes, so that a value cannot be quoted here. A value that a shell would not take literally
    /// is refused.
    ///
    /// # Errors
    /// A sentence on the value.
    pub fn fill_command(&self, command: &str) -> Result<String, String> {
        let is_used = |name: &str| names(command).any(|used| used == name);
        match self.0.iter().find(|(name, value)| is_used(name) && !is_one_word(value)) {
            None => Ok(self.fill(command)),
            Some((name, value)) => Err(format!(
                "{{{name}}}: its value {value:?} is not one word in a shell\nhint: use a folder \
                 without blanks and special characters in its path ({})",
                match name.as_ref() {
                    "out" | "cache" => "`--cache FOLDER`",
                    "dir" => "`--subjects FOLDER`",
                    "work" | "cert" | "key" => "`TMPDIR=FOLDER`",
                    _ => "the folder of dyno itself",
                }
            )),
        }
    }
}

/// Returns the names of all placeholders in a text.
pub fn names(text: &str) -> impl Iterator<Item = &str> {
    pieces(text).into_iter().filter_map(|piece| match piece {
        Piece::Place(name) => Some(name),
        Piece::Text(_) => None,
    })
}

/// Returns the names of the back ends whose ports a text uses.
pub fn backends_in(text: &str) -> impl Iterator<Item = &str> {
    names(text).filter_map(|name| Some(name.split_once('.')?.0))
}

/// Place of a text in a file, which decides the placeholders that it may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceholderScope {
    /// A command about the subject, such as that for its version.
    Question,
    Build,
    Start,
    /// A command for a server that is up.
    Profile,
}

impl PlaceholderScope {
    fn placeholder_names(self) -> Vec<&'static str> {
        let (more, most): (&[&str], &[&str]) = match self {
            PlaceholderScope::Question => (&[], &[]),
            PlaceholderScope::Build => (&OF_BUILD, &[]),
            PlaceholderScope::Start => (&OF_START, &[]),
            PlaceholderScope::Profile => (&OF_START, &OF_PROFILE),
        };
        ALWAYS.iter().chain(more).chain(most).copied().collect()
    }

    /// Returns whether the ports of back ends are known there.
    const fn is_of_a_start(self) -> bool {
        matches!(self, PlaceholderScope::Start | PlaceholderScope::Profile)
    }

    /// Checks that all placeholders of a text are known at its place.
    ///
    /// # Errors
    /// The first unknown placeholder; as a sentence.
    pub fn check(self, text: &str) -> Result<(), String> {
        if text.contains('\0') {
            return Err(
                "has a NUL, which cannot be passed to a program (execve(2))\nhint: remove it"
                    .into(),
            );
        }
        self.check_contents(text)
    }

    /// The same for the contents of a file, which may have NULs.
    ///
    /// # Errors
    /// As for [`check`](Self::check).
    pub fn check_contents(self, text: &str) -> Result<(), String> {
        let known = self.placeholder_names();
        let is_port = |name: &str| {
            let of_backend = name.split_once('.').filter(|_| self.is_of_a_start());
            of_backend
                .is_some_and(|(backend, what)| !backend.is_empty() && OF_BACKEND.contains(&what))
        };
        let Some(unknown) = names(text).find(|name| !known.contains(name) && !is_port(name)) else {
            return Ok(());
        };
        let hint = match nearest(unknown, known.iter().copied()) {
            Some(near) => format!("did you mean {{{near}}}?"),
            None => {
                let all =
                    known.iter().map(|name| format!("{{{name}}}")).collect::<Vec<_>>().join(", ");
                let ports = if self.is_of_a_start() {
                    ", or {NAME.port} for the port of a back end"
                } else {
                    ""
                };
                format!("use {all}{ports}.")
            }
        };
        Err(format!(
            "unknown placeholder {{{unknown}}}\nhint: {hint} Write {{{{{unknown}}}}} for the text \
             itself"
        ))
    }
}

/// Splits a text into literal text and placeholders.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut all = Vec::new();
    let mut from = 0;
    let mut at = 0;
    while let Some(found) = text[at..].find('{') {
        let open = at + found;
        let Some(name) = name_at(text, open) else {
            at = open + 1;
            continue;
        };
        let close = open + 1 + name.len();
        let is_of_others = text[..open].ends_with('$');
        let is_escaped = text[..open].ends_with('{') && text[close + 1..].starts_with('}');
        at = close + 1;
        if is_of_others {
            continue;
        }
        if is_escaped {
            // The inner pair of braces stays.
            all.push(Piece::Text(&text[from..open - 1]));
            all.push(Piece::Text(&text[open..=close]));
            at = close + 2;
        } else {
            all.push(Piece::Text(&text[from..open]));
            all.push(Piece::Place(name));
        }
        from = at;
    }
    all.push(Piece::Text(&text[from..]));
    all
}

/// Returns the name in the braces that open at a place; `None`: no valid name.
fn name_at(text: &str, open: usize) -> Option<&str> {
    let inside = &text[open + 1..];
    let name = &inside[..inside.find('}')?];
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    (name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(is_part))
        .then_some(name)
}

/// Returns whether a shell takes a text literally, with or without quotes.
fn is_one_word(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%:,=~".contains(c);
    !text.starts_with('~')
        && text.chars().all(|c| is_plain(c) || (!c.is_ascii() && !c.is_whitespace()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced_and_escapes_are_undone() {
        let places =
            Placeholders(vec![("port".into(), "80".into()), ("db.port".into(), "{port}".into())]);
        for (text, filled) in [
            ("a{port}b{x}{}{", "a80b{x}{}{"),
            // Values are not searched for placeholders.
            ("{db.port}{port}", "{port}80"),
            ("{{port}} {{ port }} ${port} ${{port}}", "{port} {{ port }} ${port} ${port}"),
            ("{{port}", "{80"),
            ("{ 1 } {3} {a b} {é}", "{ 1 } {3} {a b} {é}"),
            ("{{{port}}}", "{{port}}"),
        ] {
            assert_eq!(places.fill(text), filled, "{text}");
        }
    }

    #[test]
    fn misspelt_placeholder_is_reported_with_the_correct_one() {
        let wrong = |place: PlaceholderScope, text: &str| place.check(text).unwrap_err();
        assert!(
            wrong(PlaceholderScope::Start, "a {prot}")
                .contains("unknown placeholder {prot}\nhint: did you mean {port}?")
        );
        assert!(
            wrong(PlaceholderScope::Build, "{port}").contains("use {out}, {dir}, {dyno}, {cache}")
        );
        assert!(
            wrong(PlaceholderScope::Start, "{db.prot}").contains("unknown placeholder {db.prot}")
        );
        assert!(
            wrong(PlaceholderScope::Question, "{cache}")
                .ends_with("Write {{cache}} for the text itself")
        );
        for (place, text) in [
            (
                PlaceholderScope::Start,
                "{port} {tls_port} {db.port} {db.host} {{prot}} ${HOME} { x }",
            ),
            (PlaceholderScope::Build, "{cache} {out} awk '{{print}}'"),
            (PlaceholderScope::Question, "{out} {dir} {dyno}"),
        ] {
            assert_eq!(place.check(text), Ok(()), "{text}");
        }
        assert_eq!(backends_in("{db.port}{port}{{x.port}}").collect::<Vec<_>>(), ["db"]);
    }

    #[test]
    fn value_that_a_shell_would_split_is_refused() {
        let places = Placeholders(vec![("out".into(), "/a b".into())]);
        assert!(places.fill_command("ls {out}").unwrap_err().contains("--cache FOLDER"));
        assert_eq!(places.fill_command("ls {{out}}").unwrap(), "ls {out}");
    }
}
