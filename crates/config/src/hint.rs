//! Splits and formats messages, so that all messages have the same form: `thing: problem`, and in a
//! second line `hint: action`.

const HINT_PREFIX: &str = "\nhint: ";

/// Splits a message into the problem and the hint. `None`: the message has no hint.
#[must_use]
pub fn split(message: &str) -> (&str, Option<&str>) {
    message.split_once(HINT_PREFIX).map_or((message, None), |(problem, hint)| (problem, Some(hint)))
}

/// Returns a message in one line, with its hint in parentheses, for tables and sentences.
#[must_use]
pub fn one_line(message: &str) -> String {
    match split(message) {
        (problem, Some(hint)) => format!("{problem} ({hint})"),
        (problem, None) => problem.into(),
    }
}

/// Returns a message with its own hint. A message without a hint gets `hint`.
#[must_use]
pub fn with_default(message: String, hint: &str) -> String {
    match split(&message) {
        (_, Some(_)) => message,
        (_, None) => format!("{message}{HINT_PREFIX}{hint}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_is_split_at_its_hint() {
        assert_eq!(split("x: missing\nhint: add it"), ("x: missing", Some("add it")));
        assert_eq!(split("x: missing"), ("x: missing", None));
        assert_eq!(one_line("x: missing\nhint: add it"), "x: missing (add it)");
        assert_eq!(one_line("x: missing"), "x: missing");
    }

    #[test]
    fn message_keeps_its_own_hint() {
        assert_eq!(with_default("x: missing".into(), "add it"), "x: missing\nhint: add it");
        assert_eq!(with_default("x\nhint: a".into(), "b"), "x\nhint: a");
    }
}
