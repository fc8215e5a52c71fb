//! Secrets of commands: of dyno's own, and of curl's, which some options take.

use dyno_archive::secret::{is_credential, is_secret, may_be_secret_header, without_escapes};

use super::Secrets;

/// The content of an option's value.
#[derive(Clone, Copy)]
enum Holds {
    /// `Name: value`.
    Header,
    /// `user:password`.
    User,
    /// Nothing but a secret.
    Secret,
    /// A body.
    Body,
    /// `WEIGHT METHOD PATH BODY`, as `--request` takes it.
    Request,
}

/// An option whose value may be a secret.
struct SecretOption {
    /// Its letter; the value may follow in the same word.
    short: Option<char>,
    long: &'static str,
    holds: Holds,
}

const fn option(short: Option<char>, long: &'static str, holds: Holds) -> SecretOption {
    SecretOption { short, long, holds }
}

const OPTIONS: [SecretOption; 3] = [
    option(Some('H'), "--header", Holds::Header),
    option(Some('b'), "--body", Holds::Body),
    option(None, "--request", Holds::Request),
];

const OPTIONS_OF_CURL: [SecretOption; 14] = [
    option(Some('H'), "--header", Holds::Header),
    option(Some('u'), "--user", Holds::User),
    option(Some('U'), "--proxy-user", Holds::User),
    option(Some('b'), "--cookie", Holds::Secret),
    option(None, "--oauth2-bearer", Holds::Secret),
    option(None, "--proxy-header", Holds::Header),
    option(Some('d'), "--data", Holds::Body),
    option(None, "--data-raw", Holds::Body),
    option(None, "--data-binary", Holds::Body),
    option(None, "--data-ascii", Holds::Body),
    option(None, "--data-urlencode", Holds::Body),
    option(None, "--json", Holds::Body),
    option(Some('F'), "--form", Holds::Body),
    option(None, "--form-string", Holds::Body),
];

/// Letters of curl's options without a value: they may precede another option's letter in a word,
/// as in `-sSu`.
const SWITCHES: &str = "0123456#aBfgGiIjJkLlMnNOpqRsSvZ";

impl SecretOption {
    /// The flag and the value of a word that holds both; `None`: it does not.
    fn split<'a>(&self, word: &'a str) -> Option<(&'a str, &'a str, Holds)> {
        let joined = word.strip_prefix(self.long).and_then(|rest| rest.strip_prefix('='));
        let value = joined.or_else(|| self.after_letter(word)).filter(|value| !value.is_empty())?;
        Some((&word[..word.len() - value.len()], value, self.holds))
    }

    /// The rest of a word after the option's letter; `None`: the word does not have the letter.
    fn after_letter<'a>(&self, word: &'a str) -> Option<&'a str> {
        let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-'))?;
        letters.trim_start_matches(|letter| SWITCHES.contains(letter)).strip_prefix(self.short?)
    }

    /// Whether the option's value is the word after this one.
    fn takes_next(&self, word: &str) -> bool {
        word == self.long || self.after_letter(word) == Some("")
    }
}

impl Secrets {
    /// A command without secrets. A word that is itself a command, as `--curl` takes it, is
    /// searched word by word.
    pub(super) fn command(&mut self, words: &[String]) -> Vec<String> {
        self.redact_words(words, &OPTIONS)
    }

    fn redact_words(&mut self, words: &[String], options: &[SecretOption]) -> Vec<String> {
        let mut shown = Vec::with_capacity(words.len());
        let mut wanted: Option<Holds> = None;
        // Of a program that the command starts: `-- server --password …`.
        let takes_secret =
            |word: &str| word.strip_prefix("--").is_some_and(|n| !n.contains('=') && is_secret(n));
        for word in words {
            let word = if let Some(holds) = wanted.take() {
                self.value_of(holds, word)
            } else {
                wanted = options
                    .iter()
                    .find(|option| option.takes_next(word))
                    .map(|option| option.holds);
                wanted = wanted.or_else(|| takes_secret(word).then_some(Holds::Secret));
                match options.iter().find_map(|option| option.split(word)) {
                    Some((flag, value, holds)) => format!("{flag}{}", self.value_of(holds, value)),
                    None => word.clone(),
                }
            };
            let word = if word.contains("curl ") { self.words_within(&word) } else { word };
            shown.push(self.fields(&word));
        }
        shown
    }

    /// An option's value without its secret.
    fn value_of(&mut self, holds: Holds, value: &str) -> String {
        match (holds, value.split_once(':')) {
            (Holds::Header, _) => self.header_line(value),
            (Holds::User, Some((user, password))) => format!("{user}:{}", self.withhold(password)),
            (Holds::User, None) => value.into(),
            (Holds::Secret, _) => self.withhold(value),
            // `$'…'` of a shell keeps its dollar here.
            (Holds::Body, _) => self.fields(value.strip_prefix('$').unwrap_or(value)),
            (Holds::Request, _) => self.request_line(value),
        }
    }

    /// `WEIGHT METHOD PATH BODY` without secrets.
    fn request_line(&mut self, line: &str) -> String {
        let after_path =
            line.find('/').and_then(|path| Some(path + line[path..].find(char::is_whitespace)?));
        let (head, body) = line.split_at(after_path.unwrap_or(line.len()));
        let blank = body.len() - body.trim_start().len();
        format!("{head}{}{}", &body[..blank], self.fields(&body[blank..]))
    }

    /// `Name: value`, as `-H` takes it, without a secret value.
    pub(super) fn header_line(&mut self, line: &str) -> String {
        match line.split_once(':') {
            Some((name, value)) if is_credential(value) || may_be_secret_header(name) => {
                let is = is_secret(&without_escapes(name)) || is_credential(value);
                format!("{name}: {}", self.withhold_if(is, true, value.trim()))
            }
            _ => line.into(),
        }
    }

    /// A word that holds a command of curl.
    fn words_within(&mut self, word: &str) -> String {
        let Some(words) = shlex::split(word) else {
            return word.into();
        };
        let inner = self.redact_words(&words, &OPTIONS_OF_CURL);
        if inner == words { word.into() } else { crate::shell::command(&inner) }
    }
}
