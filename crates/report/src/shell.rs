//! Commands as they can be pasted into a shell.

/// The words of a command, each quoted where a POSIX shell would not read it as one word.
#[must_use]
pub fn command(words: &[String]) -> String {
    let words = words.iter().map(String::as_str);
    // No argument of a process can hold a NUL. One in an edited archive is passed through.
    shlex::Quoter::new().allow_nul(true).join(words).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_comes_back_word_by_word() {
        let words = ["dyno", "run", "my suite.toml", "-H", "X: $(id) `id` 'a' \"b\"; rm *", "", "a\nb", "ü"];
        let words = words.map(String::from);
        let line = command(&words);
        assert_eq!(shlex::split(&line).unwrap(), words, "{line}");
        let shell = std::process::Command::new("sh").args(["-c", &format!("printf '%s\\0' {line}")]).output();
        let printed = String::from_utf8(shell.unwrap().stdout).unwrap();
        assert_eq!(printed.split_terminator('\0').collect::<Vec<_>>(), words);
        assert_eq!(
            command(&["dyno".into(), "run".into(), "suites/hello.toml".into()]),
            "dyno run suites/hello.toml"
        );
    }
}
