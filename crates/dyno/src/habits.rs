//! Options of other load generators, and what to use here instead.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// An option that dyno does not have, the tools that have it, and what to type instead.
type Habit = (&'static str, &'static str, &'static str);

const HABITS: &[Habit] = &[
    ("--latency", "wrk and wrk2", "not needed: the percentiles always stand in the result"),
    ("--u-latency", "wrk2", "not needed: service time and response time both stand in the result"),
    ("-z", "oha and hey", "-d, such as -d 10s"),
    ("-q", "oha and hey", "-r, requests per second over all connections, such as -r 5k"),
    ("-R", "wrk2", "-r, such as -r 5k"),
    ("--qps", "fortio", "-r, such as -r 5k"),
    ("--rps", "h2load", "-r, over all connections, such as -r 5k"),
    ("--query-per-second", "oha", "-r, such as -r 5k"),
    ("--latency-correction", "oha", "what -r does: response time counts from the intended start"),
    ("-s", "wrk", "--request for a mix, or --import; there are no scripts"),
    ("--script", "wrk", "--request for a mix, or --import; there are no scripts"),
    ("-D", "h2load (a duration) and oha, hey (a body's file)", "-d 10s, or --body-file FILE"),
    ("--body-path", "oha", "--body-file FILE"),
    ("-T", "oha and hey", "-H 'Content-Type: …'"),
    ("-A", "oha and hey", "-H 'Accept: …'"),
    ("-a", "oha and hey", "-H 'Authorization: Basic …'"),
    ("-x", "hey and curl", "nothing: dyno loads a server, not a proxy"),
    ("-L", "curl", "nothing: redirects are answers, and never followed"),
    ("-i", "k6 and h2load", "-n for a number of requests, or --import for a file of URLs"),
    ("-u", "k6 and curl", "-c for visitors or connections, -H 'Authorization: Basic …' for a user"),
    ("--vus", "k6", "-c"),
    ("--iterations", "k6", "-n"),
    ("--stages", "k6", "-r with stretches, such as -r 1k@10s,1k..5k@30s"),
    ("--clients", "h2load", "-c"),
    ("--concurrency", "ab, siege and fortio", "-c"),
    ("--workers", "vegeta", "-c for connections, -t for threads"),
    ("--max-connections", "vegeta", "-c"),
    ("--targets", "vegeta", "--import FILE"),
    ("--input-file", "h2load", "--import FILE"),
    ("--amount", "autocannon", "-n"),
    ("--pipelining", "autocannon", "-p"),
    ("--overallRate", "autocannon", "-r"),
    ("--max-concurrent-streams", "h2load", "-m"),
    ("--parallel", "oha", "-m for streams of HTTP/2"),
    ("--h1", "h2load", "--protocol h1"),
    ("--http1.1", "curl and oha", "--protocol h1"),
    ("--http2", "oha, hey and curl", "--protocol h2 over https, --protocol h2c over http"),
    ("--http2-prior-knowledge", "curl", "--protocol h2c"),
    ("--http3", "curl and h2load", "nothing yet: there is no HTTP/3"),
    ("--no-keepalive", "several", "--requests-per-connection 1"),
    ("--disable-keepalive", "oha and hey", "--requests-per-connection 1"),
    ("--warm-up-time", "h2load", "-w, such as -w 2s"),
    ("--connect-to", "oha and curl", "--resolve HOST:PORT:ADDRESS"),
    ("--connection-active-timeout", "h2load", "--timeout, from sent to done"),
    ("--json", "several", "--format json"),
    ("-j", "oha", "--format json"),
    ("--output-format", "oha", "--format"),
    ("--data", "curl", "-b"),
    ("--lua", "wrk", "--request for a mix; there are no scripts"),
];

/// A hint for an option of `dyno load` that clap refused; `None`: no other tool is known to have it so.
pub fn hint(error: &clap::Error) -> Option<String> {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let option = context(ContextKind::InvalidArg)?;
    match error.kind() {
        ErrorKind::UnknownArgument => known(option.split('=').next().unwrap_or(option)),
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => {
            misused(option.split(' ').next().unwrap_or(option), context(ContextKind::InvalidValue)?)
        }
        _ => None,
    }
}

fn known(option: &str) -> Option<String> {
    let (option, whose, here) = HABITS.iter().find(|(name, ..)| *name == option)?;
    Some(format!("there is no {option} here; what it is in {whose} is {here}"))
}

/// A hint for an option that means another thing here.
fn misused(option: &str, value: &str) -> Option<String> {
    let is_method = !value.is_empty() && value.bytes().all(|b| b.is_ascii_uppercase());
    let begins_with_letter = value.starts_with(|c: char| !c.is_ascii_digit());
    match option {
        "--streams" if is_method => {
            Some(format!("-m is the number of streams of HTTP/2 here; the method is -X {value}"))
        }
        "--threads" if dyno_workload::units::duration(value).is_ok() => {
            Some(format!("-t is the number of threads here; the time-out is --timeout {value}"))
        }
        "--duration" if begins_with_letter => {
            Some("-d is the length of the load here, such as -d 10s; a body is -b (--body)".into())
        }
        _ => None,
    }
}

/// A hint for a long name after one dash, as Go's tools have it: clap would read `-rate 100` as `-r ate 100`.
pub fn one_dash(words: &[OsString], load: &clap::Command) -> Option<String> {
    let is_long = |name: &str| {
        let option = format!("--{name}");
        load.get_arguments().any(|arg| arg.get_long() == Some(name))
            || HABITS.iter().any(|(habit, ..)| *habit == option)
    };
    let words = words.iter().skip(1).filter_map(|word| word.to_str());
    let mut words = words.take_while(|word| *word != "--").skip_while(|word| *word != "load");
    words.find_map(|word| {
        let name = word.strip_prefix('-').filter(|name| !name.starts_with('-'))?.split('=').next()?;
        if name.len() < 2 || !is_long(name) {
            return None;
        }
        let option = format!("--{name}");
        Some(known(&option).unwrap_or_else(|| format!("long names have two dashes here: {option}")))
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    fn error(words: &[&str]) -> String {
        let words: Vec<OsString> = ["dyno", "load"].iter().chain(words).map(OsString::from).collect();
        Cli::read(&words).unwrap_err().to_string()
    }

    #[test]
    fn every_habit_is_answered_with_what_exists_here() {
        let mut command = Cli::command();
        command.build();
        let load = command.find_subcommand("load").unwrap();
        let has = |word: &str| match word.strip_prefix("--") {
            Some(long) => load.get_arguments().any(|arg| arg.get_long() == Some(long)),
            None => load.get_arguments().any(|arg| arg.get_short() == word[1..].chars().next()),
        };
        for (option, whose, here) in HABITS {
            let said = error(&["http://127.0.0.1:1/", option]);
            assert!(said.contains(here) && said.contains(whose), "{option}: {said}");
            let words = here.split([' ', ',', ';']).filter(|word| word.starts_with('-') && word.len() > 1);
            for word in words.filter(|word| word[1..].starts_with(|c: char| c == '-' || c.is_alphabetic())) {
                assert!(has(word), "{option}: there is no {word} here");
            }
        }
    }

    #[test]
    fn options_that_mean_another_thing_here_are_told() {
        assert!(error(&["http://h/", "-m", "POST"]).contains("-X POST"));
        assert!(error(&["http://h/", "-t", "30s"]).contains("--timeout 30s"));
        assert!(error(&["http://h/", "-d", "{\"a\":1}"]).contains("a body is -b"));
        assert!(error(&["-rate", "100", "http://h/"]).contains("--rate"));
        assert!(error(&["-duration=10s", "http://h/"]).contains("--duration"));
        assert!(error(&["-workers=10", "http://h/"]).contains("-c for connections"));
    }

    #[test]
    fn a_bare_duration_is_in_seconds() {
        for (words, ns) in [(["-d2", "http://h/"], 2_000_000_000), (["-d0.5", "http://h/"], 500_000_000)] {
            let words: Vec<OsString> = ["dyno", "load"].iter().chain(&words).map(OsString::from).collect();
            let crate::cli::Command::Load(args) = Cli::read(&words).unwrap().command else { panic!() };
            assert_eq!(args.duration.unwrap().0, ns);
        }
    }
}
