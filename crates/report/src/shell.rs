//! Formats commands so that they can be pasted into a shell.

/// Joins the words of a command. Words that a POSIX shell would change or split are quoted.
#[must_use]
pub fn command(words: &[String]) -> String {
    let words = words.iter().map(String::as_str);
    // Arguments of a process contain no NUL. An edited archive may contain one, which is kept.
    shlex::Quoter::new().allow_nul(true).join(words).unwrap_or_default()
}

/// Returns the command that repeats a run. If the original command has no seed, the random seed of
/// the run is added.
#[must_use]
pub(crate) fn rerun_command(words: &[String], seed: u64) -> String {
    let has_option = |option: &str| {
        words.iter().any(|word| word == option || word.starts_with(&format!("{option}=")))
    };
    let mut words = words.to_vec();
    if words.get(1).is_some_and(|name| name == "run")
        && !has_option("--seed")
        && !has_option("--resume")
    {
        words.extend(["--seed".into(), seed.to_string()]);
    }
    command(&words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rerun_command_without_seed_gets_seed_of_run() {
        let rerun = |line: &str| rerun_command(&shlex::split(line).unwrap(), 7);
        assert_eq!(rerun("dyno run a.toml"), "dyno run a.toml --seed 7");
        for line in [
            "dyno run a.toml --seed 3",
            "dyno run '--seed=3' a.toml",
            "dyno run --resume results/a",
            "dyno load URL",
        ] {
            assert_eq!(rerun(line), line);
        }
    }

    #[test]
    fn command_is_split_by_shell_into_same_words() {
        let words = [
            "dyno",
            "run",
            "my suite.toml",
            "-H",
            "X: $(id) `id` 'a' \"b\"; rm *",
            "",
            "a\nb",
            "ü",
        ];
        let words = words.map(String::from);
        let line = command(&words);
        assert_eq!(shlex::split(&line).unwrap(), words, "{line}");
        let shell = std::process::Command::new("sh")
            .args(["-c", &format!("printf '%s\\0' {line}")])
            .output();
        let printed = String::from_utf8(shell.unwrap().stdout).unwrap();
        assert_eq!(printed.split_terminator('\0').collect::<Vec<_>>(), words);
        assert_eq!(
            command(&["dyno".into(), "run".into(), "suites/hello.toml".into()]),
            "dyno run suites/hello.toml"
        );
    }
}
