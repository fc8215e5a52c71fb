//! Suggests the equivalent option of dyno when a user types an option of another load generator.

mod tools;

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use self::tools::{
    DURATION, IDLE_TIMEOUT, LOG, LoadTool, METHOD, SAME, Spelling, TIMEOUT, TOOLS, WARMUP,
};

/// Returns a hint for an option of `dyno load` that clap refused. `None`: no known tool has it.
pub fn hint(error: &clap::Error, load: &clap::Command) -> Option<String> {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let option = context(ContextKind::InvalidArg)?;
    match error.kind() {
        ErrorKind::UnknownArgument if option.contains("://") => Some(format!(
            "{option}: is a second URL, but a load has only one\nhint: use --request for several \
             paths of a server, or --import FILE"
        )),
        ErrorKind::UnknownArgument => {
            unknown_option_hint(option.split('=').next().unwrap_or(option))
        }
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => {
            let problem = error.source().map(ToString::to_string);
            misuse_hint(
                option.split(' ').next().unwrap_or(option),
                context(ContextKind::InvalidValue).filter(|value| !value.is_empty()),
                problem.as_deref(),
                load,
            )
        }
        _ => None,
    }
}

/// Removes the dashes of an option. `None`: the tool does not use this spelling.
fn strip_dashes(typed: &str, spelling: Spelling) -> Option<&str> {
    let (name, dashes) = match (typed.strip_prefix("--"), typed.strip_prefix('-')) {
        (Some(name), _) => (name, 2),
        (None, Some(name)) => (name, 1),
        (None, None) => return None,
    };
    let is_letter = name.chars().count() == 1;
    let is_valid = match spelling {
        Spelling::Go => true,
        Spelling::Gnu if is_letter => dashes == 1,
        Spelling::Gnu => dashes == 2,
    };
    is_valid.then_some(name)
}

/// Returns the equivalent of an option of a tool. `None`: the tool has no such option.
fn equivalent(tool: &LoadTool, typed: &str) -> Option<&'static str> {
    let name = strip_dashes(typed, tool.spelling)?;
    let has = |names: &str| names.split(' ').any(|option| option == name);
    tool.options.iter().find(|(names, _)| has(names)).map(|(_, equivalent)| *equivalent)
}

/// Returns a hint per meaning of an option in other tools, with the names of these tools. A tool in
/// which the option means the same as in dyno is omitted. `is_relevant` selects meanings.
fn equivalent_hints(typed: &str, is_relevant: impl Fn(&str) -> bool) -> Option<String> {
    let mut hints: Vec<(&str, Vec<&str>)> = Vec::new();
    for tool in &TOOLS {
        let Some(meaning) =
            equivalent(tool, typed).filter(|text| *text != SAME && is_relevant(text))
        else {
            continue;
        };
        match hints.iter_mut().find(|(other, _)| *other == meaning) {
            Some((_, tools)) => tools.push(tool.name),
            None => hints.push((meaning, vec![tool.name])),
        }
    }
    let line = |(meaning, tools): (&str, Vec<&str>)| {
        format!("\nhint: {typed} in {}: {meaning}", tools.join(", "))
    };
    (!hints.is_empty()).then(|| hints.into_iter().map(line).collect())
}

/// Returns the error and the hints for an option that dyno lacks. `None`: no known tool has it.
fn unknown_option_hint(typed: &str) -> Option<String> {
    Some(format!("{typed}: no such option{}", equivalent_hints(typed, |_| true)?))
}

/// Whether a value fits the option of another tool with this equivalent.
fn is_value_for(equivalent: &str, value: &str) -> bool {
    // A number fits only as a time with a unit.
    if value.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) {
        let is_time = value.ends_with(|c: char| c.is_ascii_alphabetic());
        return is_time && [DURATION, TIMEOUT, IDLE_TIMEOUT, WARMUP].contains(&equivalent);
    }
    match equivalent {
        METHOD => value.bytes().all(|byte| byte.is_ascii_alphabetic()),
        LOG => false,
        _ if equivalent.contains("TEXT") => true,
        _ if equivalent.contains("FILE") => value.contains(['.', '/', '@']),
        _ => equivalent.contains("-H '") && value.contains([':', '=', '/']),
    }
}

/// Returns a hint for an option of dyno with an invalid value that fits the same option of another
/// tool. `long`: name of the option. `value`: `None` if the value is missing. `problem`: message of
/// the option's parser.
fn misuse_hint(
    long: &str,
    value: Option<&str>,
    problem: Option<&str>,
    load: &clap::Command,
) -> Option<String> {
    let arg = load.get_arguments().find(|arg| arg.get_long() == long.strip_prefix("--"))?;
    let short = arg.get_short().map(|letter| format!("-{letter}"));
    let mut spellings = [short.as_deref(), Some(long)].into_iter().flatten();
    let is_relevant = |equivalent: &str| match value {
        Some(value) => is_value_for(equivalent, value),
        None => true,
    };
    let (typed, hints) = spellings
        .find_map(|spelling| Some((spelling, equivalent_hints(spelling, is_relevant)?)))?;
    let problem = match value {
        Some(value) => invalid_value(typed, value, problem?),
        None => format!("{typed}: needs a value"),
    };
    let same =
        if typed == long { String::new() } else { format!("\nhint: in dyno, {typed} is {long}") };
    Some(format!("{problem}{same}{hints}"))
}

/// Formats an invalid value with the message of its parser. The parser may repeat the value.
pub fn invalid_value(option: &str, value: &str, problem: &str) -> String {
    let quoted = format!("{value:?}");
    let problem = problem.trim_start_matches(&quoted).trim_start_matches(": ").trim();
    format!("{option} {quoted}: {problem}")
}

/// Returns a hint for a long name after one dash, as in Go's tools. clap would read `-rate 100` as
/// `-r ate 100`, and `-host` as a request for help.
pub fn single_dash_hint(words: &[OsString], load: &clap::Command) -> Option<String> {
    let words = words.iter().skip(1).filter_map(|word| word.to_str());
    let mut words = words.take_while(|word| *word != "--").skip_while(|word| *word != "load");
    words.find_map(|word| {
        let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-'))?;
        let name = letters.split('=').next()?;
        if name.chars().count() < 2 {
            return help_letter_hint(letters, load);
        }
        let (go, gnu) = (format!("-{name}"), format!("--{name}"));
        if let Some(hint) = unknown_option_hint(&go) {
            return Some(hint);
        }
        if load.get_arguments().any(|arg| arg.get_long() == Some(name)) {
            return Some(format!("-{name}: long names have two dashes\nhint: use {gnu}"));
        }
        unknown_option_hint(&gnu).or_else(|| help_letter_hint(letters, load))
    })
}

/// Returns a hint for letters in which clap would find a request for help instead of a load.
fn help_letter_hint(letters: &str, load: &clap::Command) -> Option<String> {
    let is_flag = |letter: char| {
        let arg = load.get_arguments().find(|arg| arg.get_short() == Some(letter));
        arg.is_some_and(|arg| !arg.get_action().takes_values())
    };
    let asks_for_help =
        letters.trim_start_matches(|c: char| c != 'h' && is_flag(c)).starts_with('h');
    let has_only_flags = letters.chars().all(is_flag);
    // A word with only flags may be a real request for help.
    (asks_for_help && !has_only_flags)
        .then(|| format!("-{letters}: no such option\nhint: use -h alone to show the options"))
}

#[cfg(test)]
mod tests;
