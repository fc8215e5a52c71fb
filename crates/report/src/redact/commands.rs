//! Withholds secrets in commands: dyno's own commands, and curl commands in values of their
//! options.

use dyno_config::secret::{is_credential, is_distinctive, is_secret, is_token, without_escapes};

use super::Secrets;
use super::value::is_harmless;

/// What the value of an option contains.
#[derive(Clone, Copy)]
enum ValueKind {
    /// `Name: value`.
    Header,
    /// `user:password`.
    User,
    /// `file:password`.
    KeyFile,
    /// A secret and nothing else.
    Secret,
    /// A body.
    Body,
    /// `WEIGHT METHOD PATH BODY`, the value of `--request`. `--step` has no weight.
    Request,
    /// A command of curl, which may lack the word `curl`.
    Curl,
}

/// An option whose value may be a secret.
struct SecretOption {
    /// Letter of the option. Its value may follow in the same word.
    short: Option<char>,
    long: &'static str,
    kind: ValueKind,
}

const fn option(short: Option<char>, long: &'static str, kind: ValueKind) -> SecretOption {
    SecretOption { short, long, kind }
}

const OPTIONS: [SecretOption; 5] = [
    option(Some('H'), "--header", ValueKind::Header),
    option(Some('b'), "--body", ValueKind::Body),
    option(None, "--request", ValueKind::Request),
    option(None, "--step", ValueKind::Request),
    option(None, "--curl", ValueKind::Curl),
];

const CURL_OPTIONS: [SecretOption; 18] = [
    option(Some('E'), "--cert", ValueKind::KeyFile),
    option(None, "--proxy-cert", ValueKind::KeyFile),
    option(None, "--pass", ValueKind::Secret),
    option(None, "--proxy-pass", ValueKind::Secret),
    option(Some('H'), "--header", ValueKind::Header),
    option(Some('u'), "--user", ValueKind::User),
    option(Some('U'), "--proxy-user", ValueKind::User),
    option(Some('b'), "--cookie", ValueKind::Secret),
    option(None, "--oauth2-bearer", ValueKind::Secret),
    option(None, "--proxy-header", ValueKind::Header),
    option(Some('d'), "--data", ValueKind::Body),
    option(None, "--data-raw", ValueKind::Body),
    option(None, "--data-binary", ValueKind::Body),
    option(None, "--data-ascii", ValueKind::Body),
    option(None, "--data-urlencode", ValueKind::Body),
    option(None, "--json", ValueKind::Body),
    option(Some('F'), "--form", ValueKind::Body),
    option(None, "--form-string", ValueKind::Body),
];

/// Standard headers of requests whose values are not secret, in lower case. A command could not be
/// repeated without these headers. The value of any other header may be secret.
pub(super) const PLAIN_HEADERS: &str = "accept accept-charset accept-encoding accept-language \
                                        access-control-request-headers \
                                        access-control-request-method cache-control connection \
                                        content-encoding content-language content-length \
                                        content-type date expect host if-match if-modified-since \
                                        if-none-match if-range if-unmodified-since keep-alive \
                                        origin pragma priority range referer te trailer \
                                        transfer-encoding upgrade upgrade-insecure-requests \
                                        user-agent x-requested-with";

/// Whether the values of this header are not secret.
pub(super) fn is_plain_header(name: &str) -> bool {
    let name = name.trim().to_ascii_lowercase();
    PLAIN_HEADERS.split(' ').any(|plain| plain == name)
}

/// Letters of curl's options without a value. These letters may precede another letter in a word,
/// as in `-sSu`.
const SWITCHES: &str = "0123456#aBfgGiIjJkLlMnNOpqRsSvZ";

/// Whether the user name is a secret: some services expect a token as user name, with an empty or
/// fixed password.
pub(super) fn is_user_secret(user: &str, password: &str) -> bool {
    !user.is_empty() && password.is_empty() || is_token(user) || is_distinctive(user)
}

impl SecretOption {
    /// Splits a word into flag and value. `None`: the word does not have both.
    fn split<'a>(&self, word: &'a str) -> Option<(&'a str, &'a str, ValueKind)> {
        let joined = word.strip_prefix(self.long).and_then(|remainder| remainder.strip_prefix('='));
        let value = joined.or_else(|| self.after_letter(word)).filter(|value| !value.is_empty())?;
        Some((&word[..word.len() - value.len()], value, self.kind))
    }

    /// Returns the rest of a word after the option's letter. `None`: the word lacks the letter.
    fn after_letter<'a>(&self, word: &'a str) -> Option<&'a str> {
        let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-'))?;
        letters.trim_start_matches(|letter| SWITCHES.contains(letter)).strip_prefix(self.short?)
    }

    /// Whether the option's value is the word after this one.
    fn takes_next(&self, word: &str) -> bool {
        word == self.long || self.after_letter(word) == Some("")
    }
}

/// Options of dyno without a value whose names are those of secrets.
const SWITCHES_OF_DYNO: [&str; 1] = ["cookies"];

impl Secrets {
    /// Withholds secrets in a command. A word that is itself a command of curl is searched word by
    /// word.
    pub(super) fn command(&mut self, words: &[String]) -> Vec<String> {
        self.redact_words(words, &OPTIONS)
    }

    /// Withholds secrets in the words of a command with these options.
    fn redact_words(&mut self, words: &[String], options: &[SecretOption]) -> Vec<String> {
        let mut redacted = Vec::with_capacity(words.len());
        let mut next_kind: Option<ValueKind> = None;
        // An option of a program that the command starts: `-- server --password …`.
        let dynos_words = words.iter().position(|word| word == "--").unwrap_or(words.len());
        let takes_secret = |index: usize, word: &str| {
            let name = word.strip_prefix("--").filter(|name| !name.contains('='));
            let is_switch = |name: &&str| index < dynos_words && SWITCHES_OF_DYNO.contains(name);
            let (name, next) = (name.filter(|name| !is_switch(name)), words.get(index + 1));
            let is_about_secrets = |name| next.is_some_and(|value| is_harmless(name, value));
            name.is_some_and(|name| is_secret(name) && !is_about_secrets(name))
        };
        for (index, word) in words.iter().enumerate() {
            let word = if let Some(kind) = next_kind.take() {
                self.option_value(kind, word)
            } else {
                next_kind =
                    options.iter().find(|option| option.takes_next(word)).map(|option| option.kind);
                next_kind = next_kind.or(takes_secret(index, word).then_some(ValueKind::Secret));
                match options.iter().find_map(|option| option.split(word)) {
                    Some((flag, value, kind)) => {
                        format!("{flag}{}", self.option_value(kind, value))
                    }
                    // A curl command of a program that the command starts: `-- sh -c 'curl …'`.
                    None if word.contains("curl ") => self.curl_command(word),
                    None => word.clone(),
                }
            };
            redacted.push(self.fields(&word));
        }
        redacted
    }

    /// Withholds the secret in an option's value.
    fn option_value(&mut self, kind: ValueKind, value: &str) -> String {
        match (kind, value.split_once(':')) {
            (ValueKind::Header, _) => self.header_line(value),
            (ValueKind::User, Some((user, password))) => {
                let is_secret = is_user_secret(user, password);
                let user = if is_secret { self.withhold(user) } else { user.into() };
                format!("{user}:{}", self.withhold_part(password))
            }
            (ValueKind::User, None) if !is_user_secret(value, value) => value.into(),
            (ValueKind::User, None) => self.withhold(value),
            (ValueKind::KeyFile, Some((file, password))) => {
                format!("{file}:{}", self.withhold_part(password))
            }
            (ValueKind::KeyFile, None) => value.into(),
            (ValueKind::Secret, _) => self.withhold(value),
            (ValueKind::Body, _) => self.fields(value),
            (ValueKind::Request, _) => self.request_line(value),
            (ValueKind::Curl, _) => self.curl_command(value),
        }
    }

    /// Withholds a part of a value, which may be empty.
    fn withhold_part(&mut self, part: &str) -> String {
        if part.is_empty() { String::new() } else { self.withhold(part) }
    }

    /// Withholds secrets in `WEIGHT METHOD PATH BODY`.
    fn request_line(&mut self, line: &str) -> String {
        let after_path =
            line.find('/').and_then(|path| Some(path + line[path..].find(char::is_whitespace)?));
        let (head, body) = line.split_at(after_path.unwrap_or(line.len()));
        let blank = body.len() - body.trim_start().len();
        format!("{head}{}{}", &body[..blank], self.fields(&body[blank..]))
    }

    /// Withholds the value in `Name: value`, the value of `-H`, unless the header is plain.
    pub(super) fn header_line(&mut self, line: &str) -> String {
        match line.split_once(':') {
            Some((_, value)) if value.trim().is_empty() => line.into(),
            Some((name, value)) if is_credential(value) || !is_plain_header(name) => {
                let is_sure = is_secret(&without_escapes(name)) || is_credential(value);
                format!("{name}: {}", self.withhold_if(is_sure, true, value.trim()))
            }
            _ => line.into(),
        }
    }

    /// Withholds secrets in a word that is a command of curl.
    fn curl_command(&mut self, word: &str) -> String {
        let words = shell_words(word);
        let redacted = self.redact_words(&words, &CURL_OPTIONS);
        if redacted == words { word.into() } else { crate::shell::command(&redacted) }
    }
}

/// Splits a command into words as bash does, including `$'…'`. An unclosed quotation ends with the
/// command, so that a faulty command is searched, too.
fn shell_words(command: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), None::<String>);
    let mut chars = command.chars().peekable();
    // The closing quote, and whether backslashes escape.
    let mut quote: Option<(char, bool)> = None;
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some((close, _)), c) if c == close => quote = None,
            (None | Some((_, true)), '\\') => {
                let is_c_string = quote.is_some_and(|(close, _)| close == '\'');
                match (chars.next(), is_c_string) {
                    (Some('\n'), false) => continue,
                    (Some('n' | 'r'), true) => word.get_or_insert_default().push('\n'),
                    (escaped, _) => word.get_or_insert_default().extend(escaped),
                }
            }
            (None, '$') if chars.next_if_eq(&'\'').is_some() => quote = Some(('\'', true)),
            (None, '\'' | '"') => quote = Some((c, c == '"')),
            (None, '#') if word.is_none() => while chars.next_if(|c| *c != '\n').is_some() {},
            (None, c) if c.is_ascii_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
        if quote.is_some() {
            word.get_or_insert_default();
        }
    }
    words.extend(word);
    words
}
