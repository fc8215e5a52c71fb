//! Cookie jars of curl commands: whether later requests send the cookies of earlier responses.

use crate::ReadFile;
use crate::import::{ChangeKind, Changes, ImportOrder};

/// The cookies that one command names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JarUse {
    /// Number of the command's line, from 1.
    pub line: usize,
    /// Value of `-b` without `=`. An empty name only turns cookies on.
    pub read: Option<String>,
    /// Value of `-c`.
    pub written: Option<String>,
    /// Number of URLs.
    pub requests: usize,
    pub literal: LiteralCookies,
}

/// Whether a command has cookies as text, in `-b name=value` or a header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LiteralCookies {
    #[default]
    None,
    Some,
}

/// Returns whether the requests of these commands are a sequence with cookies: a single command
/// with several URLs, or commands that share a jar from the first one on. Commands with cookies as
/// text are none, because a visitor that keeps cookies cannot have the header Cookie as well.
/// `Err`: a command reads cookies that dyno does not have.
pub fn order(
    commands: &[JarUse],
    changes: &mut Changes,
    read: ReadFile<'_>,
) -> Result<ImportOrder, String> {
    let Some((first, later)) = commands.split_first() else { return Ok(ImportOrder::Random) };
    let begins_empty = match (&first.read, &first.written) {
        (None, _) => true,
        (Some(file), _) if file.is_empty() => true,
        // curl begins with an empty jar if the file does not exist. A file that dyno may not read
        // may have cookies.
        (Some(file), Some(written)) => {
            file == written && read(file).is_err_and(|reason| reason.contains(NOT_FOUND))
        }
        (Some(_), None) => false,
    };
    let requests: usize = commands.iter().map(|command| command.requests).sum();
    let keeps_cookies = first.written.is_some() || first.read.is_some();
    // Without a jar the cookies end with the first command.
    let is_shared =
        later.iter().all(|command| first.written.is_some() && command.read == first.written);
    let is_literal = commands.iter().any(|command| command.literal == LiteralCookies::Some);
    let is_sequence = begins_empty && requests > 1 && keeps_cookies && is_shared && !is_literal;
    if is_sequence {
        let ends = later.iter().rev().skip(1).filter(|command| command.written.is_none());
        ends.for_each(|command| changes.add(ChangeKind::CookieJar, &line(command)));
        return Ok(ImportOrder::Sequence);
    }
    let reader = commands.iter().find(|c| c.read.as_ref().is_some_and(|file| !file.is_empty()));
    match reader {
        None => Ok(ImportOrder::Random),
        Some(command) => Err(format!("{}: {NO_COOKIE_FILES}", line(command))),
    }
}

/// Part of the operating system's message about a file that does not exist (ENOENT).
const NOT_FOUND: &str = "No such file";

/// The message omits the name, which may be a secret cookie without a name.
const NO_COOKIE_FILES: &str = "-b: cookies cannot be read from a file\nhint: write -b \
                               'name=value'. To keep cookies, share one jar between all commands \
                               (-c in the first, -b in the others), or use --step and --cookies";

fn line(command: &JarUse) -> String {
    format!("line {}", command.line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jars(read: Option<&str>, written: Option<&str>, requests: usize) -> JarUse {
        let (read, written) = (read.map(Into::into), written.map(Into::into));
        JarUse { line: 1, read, written, requests, literal: LiteralCookies::None }
    }

    fn literal(jars: JarUse) -> JarUse {
        JarUse { literal: LiteralCookies::Some, ..jars }
    }

    #[test]
    fn commands_with_shared_jar_are_sequence() {
        let missing = |_: &str| Err("jar: No such file or directory (os error 2)".to_string());
        let order = |commands: &[JarUse]| order(commands, &mut Changes::default(), &missing);
        let (a, b) = (Some("jar"), Some("other"));
        for (commands, expected) in [
            (vec![jars(None, a, 1), jars(a, a, 1), jars(a, None, 1)], Some(ImportOrder::Sequence)),
            (vec![jars(a, a, 1), jars(a, a, 1)], Some(ImportOrder::Sequence)),
            (vec![jars(None, a, 2)], Some(ImportOrder::Sequence)),
            (vec![jars(Some(""), None, 2)], Some(ImportOrder::Sequence)),
            (vec![jars(None, a, 1)], Some(ImportOrder::Random)),
            (vec![jars(None, None, 2)], Some(ImportOrder::Random)),
            (vec![jars(None, a, 1), jars(None, None, 1)], Some(ImportOrder::Random)),
            (vec![jars(None, a, 1), jars(b, None, 1)], None),
            (vec![jars(None, a, 1), jars(None, None, 1), jars(a, None, 1)], None),
            (vec![jars(a, None, 2)], None),
            (vec![jars(Some(""), None, 1), jars(None, None, 1)], Some(ImportOrder::Random)),
            (vec![literal(jars(None, a, 2))], Some(ImportOrder::Random)),
            (vec![literal(jars(Some(""), None, 2))], Some(ImportOrder::Random)),
            (vec![jars(None, a, 1), literal(jars(None, a, 1))], Some(ImportOrder::Random)),
            (vec![jars(None, a, 1), literal(jars(a, None, 1))], None),
        ] {
            assert_eq!(order(&commands).ok(), expected, "{commands:?}");
        }
    }

    #[test]
    fn jar_with_cookies_is_refused() {
        let mut changes = Changes::default();
        let commands = [jars(Some("jar"), Some("jar"), 2)];
        let found = |_: &str| Ok(b"cookies".to_vec());
        let error = order(&commands, &mut changes, &found).unwrap_err();
        assert!(error.starts_with("line 1: -b: cookies cannot be read from a file\nhint: "));
        // A file outside the folder that dyno may read.
        let refused = |_: &str| Err("/tmp/jar: only files below the folder are read".to_string());
        assert!(order(&commands, &mut changes, &refused).is_err());
        let commands =
            [jars(None, Some("j"), 1), jars(Some("j"), None, 1), jars(Some("j"), None, 1)];
        assert_eq!(order(&commands, &mut changes, &found), Ok(ImportOrder::Sequence));
        let lines = changes.lines().join("\n");
        assert!(lines.contains("commands without -c whose cookies are kept"), "{lines}");
    }
}
