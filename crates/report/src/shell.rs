//! Commands as they can be pasted into a shell.

/// The words of a command, each quoted where a POSIX shell would not read it as one word.
#[must_use]
pub fn command(words: &[String]) -> String {
    let words = words.iter().map(String::as_str);
    // No argument of a process can hold a NUL. One in an edited archive is passed through.
    shlex::Quoter::new().allow_nul(true).join(words).unwrap_or_default()
}

/// The command that makes a run again: its own, with the seed that was drawn for it if it names
/// none.
#[must_use]
pub(crate) fn rerun_command(words: &[String], seed: u64) -> String {
    let says = |option: &str| {
        words.iter().any(|word| word == option || word.starts_with(&format!("{option}=")))
    };
    let mut words = words.to_vec();
    if words.get(1).is_some_and(|name| name == "run") && !says("--seed") && !says("--resume") {
        words.extend(["--seed".into(), seed.to_string()]);
    }
    command(&words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_is_made_again_with_its_seed() {
        let again = |line: &str| rerun_command(&shlex::split(line).unwrap(), 7);
        assert_eq!(again("dyno run a.toml"), "dyno run a.toml --seed 7");
        for line in [
            "dyno run a.toml --seed 3",
            "dyno run '--seed=3' a.toml",
            "dyno run --resume results/a",
            "dyno load URL",
        ] {
            assert_eq!(again(line), line);
        }
    }

    #[test]
    fn command_comes_back_word_by_word() {
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
