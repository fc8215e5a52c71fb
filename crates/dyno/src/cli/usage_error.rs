//! Formats the errors of clap like dyno's own errors: `thing: problem`, then `hint:` lines and the
//! usage.

use std::error::Error;
use std::num::{IntErrorKind, ParseIntError};

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::habits;

/// Returns the message for an error of the command line, without the program's name in front.
pub fn message(error: &clap::Error) -> String {
    let rendered = error.render().to_string();
    let rendered = rendered.trim_end();
    let usage_start = ["\n\nUsage: ", "\n\nFor more information, "]
        .iter()
        .find_map(|start| rendered.rfind(start))
        .unwrap_or(rendered.len());
    let (head, usage) = rendered.split_at(usage_start);
    let head = match problem(error) {
        Some(problem) => problem + &hints(error),
        // An error of dyno itself, or of a rare kind.
        None => head.strip_prefix("error: ").unwrap_or(head).into(),
    };
    head + usage
}

/// Returns the argument at fault and its problem. `None`: the error has no such context.
fn problem(error: &clap::Error) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let arg = || text(ContextKind::InvalidArg).map(argument_name);
    let value = || text(ContextKind::InvalidValue);
    Some(match error.kind() {
        ErrorKind::UnknownArgument => match arg()? {
            option if option.starts_with('-') => format!("{option}: no such option"),
            word => format!("{word}: unexpected argument"),
        },
        ErrorKind::InvalidSubcommand => {
            format!("{}: no such command", text(ContextKind::InvalidSubcommand)?)
        }
        ErrorKind::MissingSubcommand => {
            format!("{}: needs a command", text(ContextKind::InvalidSubcommand)?)
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = list(error.get(ContextKind::InvalidArg)?)?;
            format!("{}: required", missing.join(", "))
        }
        ErrorKind::InvalidValue => {
            let valid = list(error.get(ContextKind::ValidValue)?)?.join(", ");
            match (value()?, valid.as_str()) {
                ("", "") => format!("{}: needs a value", arg()?),
                ("", _) => format!("{}: needs a value\nhint: use one of {valid}", arg()?),
                (value, _) => format!("{} {value:?}: must be one of {valid}", arg()?),
            }
        }
        ErrorKind::ValueValidation => {
            habits::invalid_value(arg()?, value()?, &parser_problem(error.source()?))
        }
        ErrorKind::TooManyValues => format!("{}: takes no value, but got {:?}", arg()?, value()?),
        ErrorKind::ArgumentConflict => {
            let name = arg().or_else(|| text(ContextKind::InvalidSubcommand))?;
            let others = list(error.get(ContextKind::PriorArg)?)?;
            let others: Vec<&str> = others.into_iter().map(argument_name).collect();
            match others[..] {
                [other] if other == name => format!("{name}: may be given only once"),
                _ => format!("{name}: cannot be used with {}", others.join(", ")),
            }
        }
        _ => return None,
    })
}

/// Returns the message of a parser. The standard library's messages about numbers are replaced.
fn parser_problem(source: &(dyn Error + 'static)) -> String {
    match source.downcast_ref::<ParseIntError>().map(ParseIntError::kind) {
        Some(IntErrorKind::InvalidDigit | IntErrorKind::Empty) => "must be a whole number".into(),
        _ => source.to_string(),
    }
}

/// Removes the value from an option as clap names it: `--threads <N>`.
fn argument_name(argument: &str) -> &str {
    argument.split([' ', '=']).next().unwrap_or(argument)
}

/// Returns the texts of a context. `None`: the context has another type.
fn list(context: &ContextValue) -> Option<Vec<&str>> {
    match context {
        ContextValue::String(text) => Some(vec![text]),
        ContextValue::Strings(texts) => Some(texts.iter().map(String::as_str).collect()),
        _ => None,
    }
}

/// Returns the suggestions of clap, one line per suggestion.
fn hints(error: &clap::Error) -> String {
    let similar = |(kind, noun)| {
        let names = list(error.get(kind)?)?;
        match names[..] {
            [] => None,
            [name] => Some(format!("\nhint: a similar {noun} is {name}")),
            _ => Some(format!("\nhint: similar {noun}s are {}", names.join(", "))),
        }
    };
    let kinds = [
        (ContextKind::SuggestedSubcommand, "command"),
        (ContextKind::SuggestedArg, "option"),
        (ContextKind::SuggestedValue, "value"),
    ];
    let mut hints: String = kinds.into_iter().filter_map(similar).collect();
    if let Some(ContextValue::StyledStrs(others)) = error.get(ContextKind::Suggested) {
        hints.extend(others.iter().map(|hint| format!("\nhint: {hint}")));
    }
    hints
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::Cli;
    use super::*;

    /// Returns the message for a command line, without the usage.
    fn head(words: &[&str]) -> String {
        let text = full_message(words);
        let (head, usage) = text.split_once("\n\n").unwrap_or_else(|| panic!("{text}"));
        assert!(usage.contains("--help"), "{text}");
        head.into()
    }

    fn full_message(words: &[&str]) -> String {
        let words: Vec<OsString> = ["dyno"].iter().chain(words).map(OsString::from).collect();
        message(&Cli::read(&words).expect_err("the command must be refused"))
    }

    #[test]
    fn unknown_option_suggests_similar_one() {
        assert_eq!(
            head(&["run", "a.toml", "--repeat", "3"]),
            "--repeat: no such option\nhint: a similar option is --repeats"
        );
        assert_eq!(
            full_message(&["explain", "--zzz"]),
            "--zzz: no such option\nhint: to pass '--zzz' as a value, use '-- --zzz'\n\nUsage: \
             dyno explain [CODE]...\n\nFor more information, try '--help'."
        );
        assert_eq!(head(&["plan", "a.toml", "b.toml"]), "b.toml: unexpected argument");
    }

    #[test]
    fn missing_value_or_argument_is_named() {
        assert_eq!(head(&["run", "a.toml", "--only"]), "--only: needs a value");
        assert_eq!(
            head(&["plan", "a.toml", "--format"]),
            "--format: needs a value\nhint: use one of text, json"
        );
        assert_eq!(head(&["plan"]), "<SUITE>: required");
        assert_eq!(head(&["watch"]), "<--pid <N>|--port <N>|--cgroup <FOLDER>>: required");
    }

    #[test]
    fn invalid_value_names_option_and_valid_values() {
        assert_eq!(
            head(&["plan", "a.toml", "--format", "jsn"]),
            "--format \"jsn\": must be one of text, json\nhint: a similar value is json"
        );
        assert_eq!(
            head(&["plan", "a.toml", "--repeats", "0"]),
            "--repeats \"0\": must be a whole number from 1 to 4294967295"
        );
        assert_eq!(
            head(&["load", "http://h/", "--expect-status", "99"]),
            "--expect-status \"99\": must be a whole number from 200 to 599"
        );
        assert_eq!(
            head(&["load", "http://h/", "-m", "0"]),
            "--streams \"0\": must be a whole number from 1 to 1048576"
        );
        assert_eq!(
            head(&["plan", "a.toml", "--seed", "x"]),
            "--seed \"x\": must be a whole number"
        );
        assert_eq!(
            head(&["load", "http://h/", "--first-byte-timeout", "x"]),
            "--first-byte-timeout \"x\": not a duration\nhint: write it like 500ms, 10s, 2m or 1h"
        );
        assert_eq!(
            head(&["calibrate", "--verdicts=yes"]),
            "--verdicts: takes no value, but got \"yes\""
        );
    }

    #[test]
    fn unknown_command_suggests_similar_one() {
        assert_eq!(head(&["lod"]), "lod: no such command\nhint: a similar command is load");
        assert_eq!(head(&["zzz"]), "zzz: no such command");
    }

    #[test]
    fn conflicting_options_are_named() {
        for (option, value) in [("--driver", "epoll"), ("--runs", "x"), ("--seed", "1")] {
            assert_eq!(
                head(&["run", "--resume", "runs/a", option, value]),
                format!("--resume: cannot be used with {option}")
            );
        }
        assert_eq!(head(&["run", "--anyway", "a.toml"]), "--anyway: cannot be used with [SUITE]");
        assert_eq!(
            head(&["plan", "a.toml", "--seed", "1", "--seed", "2"]),
            "--seed: may be given only once"
        );
        assert_eq!(head(&["load", "http://h/", "--width", "3"]), "--find <OBJECTIVE>: required");
    }

    #[test]
    fn errors_of_dyno_keep_their_text() {
        assert_eq!(
            head(&["run", "--resume", "runs/a", "--subjects", "x"]),
            "--subjects: cannot be used with --resume, because a resumed run keeps its \
             subjects\nhint: remove --subjects"
        );
        assert!(head(&["load", "http://h/", "-host", "x"]).starts_with("-host: no such option\n"));
    }
}
