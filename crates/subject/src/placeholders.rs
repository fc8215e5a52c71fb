//! Replaces placeholders in commands and templates: `{port}` by its value, `{{port}}` by the
//! literal text `{port}`.
//!
//! Any text in the form of a placeholder is treated as one, so that a misspelt name is reported.
//! The exception is `${NAME}`, the syntax of shells and other languages.

use std::borrow::Cow;

use dyno_config::text::nearest;

/// Placeholders of all commands of a subject.
pub const COMMON_NAMES: [&str; 3] = ["out", "dir", "dyno"];

/// Additional placeholders of a build.
pub const BUILD_NAMES: [&str; 1] = ["cache"];

/// Additional placeholders of a start, which also has the ports of back ends.
pub const START_NAMES: [&str; 7] = ["port", "tls_port", "cert", "key", "cpus", "work", "name"];

/// Additional placeholders of a command for a running server.
pub const PROFILE_NAMES: [&str; 1] = ["pid"];

/// Suffixes of a back end's name in a placeholder: `{db.port}`.
pub const BACKEND_SUFFIXES: [&str; 3] = ["port", "tls_port", "host"];

/// The value of each placeholder in commands and templates.
#[derive(Clone, Debug, Default)]
pub struct Placeholders(pub Vec<(Cow<'static, str>, String)>);

/// A piece of a text with placeholders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    /// The name between the braces.
    Placeholder(&'a str),
}

impl Placeholders {
    /// Replaces placeholders by their values. A placeholder without a value is kept, because
    /// [`PlaceholderScope::check`] reports it.
    #[must_use]
    pub fn fill(&self, text: &str) -> String {
        let value = |name: &str| {
            self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
        };
        let mut filled = String::with_capacity(text.len());
        for piece in pieces(text) {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Placeholder(name) => match value(name) {
                    Some(value) => filled.push_str(value),
                    None => filled.extend(["{", name, "}"]),
                },
            }
        }
        filled
    }

    /// Does the same as [`fill`](Self::fill), for a shell command. Values are not quoted, because
    /// placeholders can be within quotes. A value that a shell would not read literally is refused.
    ///
    /// # Errors
    /// A sentence that names the value.
    pub fn fill_command(&self, command: &str) -> Result<String, String> {
        let is_used = |name: &str| names(command).any(|used| used == name);
        match self.0.iter().find(|(name, value)| is_used(name) && !is_one_word(value)) {
            None => Ok(self.fill(command)),
            Some((name, value)) => Err(format!(
                "{{{name}}}: the value {value:?} has blanks or special characters, so a shell \
                 would not read it as one word\nhint: use a folder without blanks and special \
                 characters in its path ({})",
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
        Piece::Placeholder(name) => Some(name),
        Piece::Text(_) => None,
    })
}

/// Returns the names of the back ends whose ports a text uses.
pub fn backends_in(text: &str) -> impl Iterator<Item = &str> {
    names(text).filter_map(|name| Some(name.split_once('.')?.0))
}

/// The use of a text, which decides the placeholders that are allowed in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceholderScope {
    /// A command that queries a tool, such as the command for the version.
    Query,
    Build,
    Start,
    /// A command for a running server.
    Profile,
}

impl PlaceholderScope {
    /// Returns the names of the placeholders in this scope, without those of back ends.
    fn placeholder_names(self) -> Vec<&'static str> {
        let (base, extra): (&[&str], &[&str]) = match self {
            PlaceholderScope::Query => (&[], &[]),
            PlaceholderScope::Build => (&BUILD_NAMES, &[]),
            PlaceholderScope::Start => (&START_NAMES, &[]),
            PlaceholderScope::Profile => (&START_NAMES, &PROFILE_NAMES),
        };
        COMMON_NAMES.iter().chain(base).chain(extra).copied().collect()
    }

    /// Returns whether the ports of back ends are known.
    const fn has_backend_ports(self) -> bool {
        matches!(self, PlaceholderScope::Start | PlaceholderScope::Profile)
    }

    /// Checks that all placeholders of a text are known, and that a program can receive the text.
    ///
    /// # Errors
    /// The first unknown placeholder.
    pub fn check(self, text: &str) -> Result<(), String> {
        if text.contains('\0') {
            return Err(
                "has a NUL character, which cannot be passed to a program (execve(2))\nhint: \
                 remove the NUL"
                    .into(),
            );
        }
        self.check_contents(text)
    }

    /// Checks that all placeholders in the contents of a file are known. A file can have NULs.
    ///
    /// # Errors
    /// The first unknown placeholder.
    pub fn check_contents(self, text: &str) -> Result<(), String> {
        let known_names = self.placeholder_names();
        let is_port = |name: &str| {
            let parts = name.split_once('.').filter(|_| self.has_backend_ports());
            parts.is_some_and(|(backend, suffix)| {
                !backend.is_empty() && BACKEND_SUFFIXES.contains(&suffix)
            })
        };
        let Some(unknown) = names(text).find(|name| !known_names.contains(name) && !is_port(name))
        else {
            return Ok(());
        };
        let hint = match nearest(unknown, known_names.iter().copied()) {
            Some(near) => format!("did you mean {{{near}}}?"),
            None => {
                let names = known_names
                    .iter()
                    .map(|name| format!("{{{name}}}"))
                    .collect::<Vec<_>>()
                    .join(", ");
                let ports = if self.has_backend_ports() {
                    ", or {NAME.port} for the port of a back end"
                } else {
                    ""
                };
                format!("use {names}{ports}.")
            }
        };
        Err(format!(
            "unknown placeholder {{{unknown}}}\nhint: {hint} Write {{{{{unknown}}}}} for the \
             literal text {{{unknown}}}"
        ))
    }
}

/// Splits a text into literal text and placeholders.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    // The text before `start` is in `pieces`, and the text before `searched` has been searched.
    let mut start = 0;
    let mut searched = 0;
    while let Some(offset) = text[searched..].find('{') {
        let open = searched + offset;
        let Some(name) = name_at(text, open) else {
            searched = open + 1;
            continue;
        };
        let close = open + 1 + name.len();
        let is_shell_variable = text[..open].ends_with('$');
        let is_escaped = text[..open].ends_with('{') && text[close + 1..].starts_with('}');
        searched = close + 1;
        if is_shell_variable {
            continue;
        }
        if is_escaped {
            // The inner pair of braces stays.
            pieces.push(Piece::Text(&text[start..open - 1]));
            pieces.push(Piece::Text(&text[open..=close]));
            searched = close + 2;
        } else {
            pieces.push(Piece::Text(&text[start..open]));
            pieces.push(Piece::Placeholder(name));
        }
        start = searched;
    }
    pieces.push(Piece::Text(&text[start..]));
    pieces
}

/// Returns the name in the braces that open at a position; `None`: no valid name.
fn name_at(text: &str, open: usize) -> Option<&str> {
    let inside = &text[open + 1..];
    let name = &inside[..inside.find('}')?];
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    (name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(is_part))
        .then_some(name)
}

/// Returns whether a shell reads a text literally, with or without quotes.
fn is_one_word(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%:,=~".contains(c);
    !text.starts_with('~')
        && text.chars().all(|c| is_plain(c) || (!c.is_ascii() && !c.is_whitespace()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fill_replaces_placeholders_and_unescapes() {
        let placeholders =
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
            assert_eq!(placeholders.fill(text), filled, "{text}");
        }
    }

    #[test]
    fn check_unknown_placeholder_suggests_name() {
        let error = |scope: PlaceholderScope, text: &str| scope.check(text).unwrap_err();
        assert!(
            error(PlaceholderScope::Start, "a {prot}")
                .contains("unknown placeholder {prot}\nhint: did you mean {port}?")
        );
        assert!(
            error(PlaceholderScope::Build, "{port}").contains("use {out}, {dir}, {dyno}, {cache}")
        );
        assert!(
            error(PlaceholderScope::Start, "{db.prot}").contains("unknown placeholder {db.prot}")
        );
        assert!(
            error(PlaceholderScope::Query, "{cache}")
                .ends_with("Write {{cache}} for the literal text {cache}")
        );
        for (scope, text) in [
            (
                PlaceholderScope::Start,
                "{port} {tls_port} {db.port} {db.host} {{prot}} ${HOME} { x }",
            ),
            (PlaceholderScope::Build, "{cache} {out} awk '{{print}}'"),
            (PlaceholderScope::Query, "{out} {dir} {dyno}"),
        ] {
            assert_eq!(scope.check(text), Ok(()), "{text}");
        }
        assert_eq!(backends_in("{db.port}{port}{{x.port}}").collect::<Vec<_>>(), ["db"]);
    }

    #[test]
    fn fill_command_with_blank_in_value_fails() {
        let placeholders = Placeholders(vec![("out".into(), "/a b".into())]);
        assert!(placeholders.fill_command("ls {out}").unwrap_err().contains("--cache FOLDER"));
        assert_eq!(placeholders.fill_command("ls {{out}}").unwrap(), "ls {out}");
    }
}
