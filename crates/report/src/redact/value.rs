//! Finds the end of the value after a secret name, and decides whether it is a secret.

use std::ops::Range;

use dyno_config::secret::{
    NOT_RECORDED, STATES, is_scheme, is_secret, is_secret_field, is_secret_parameter,
    may_be_secret, small_letters, without_escapes,
};

pub(super) const QUOTES: [char; 3] = ['"', '\'', '`'];

/// The form in which a value is written.
pub(super) enum Value {
    /// One word, or a quotation.
    Word,
    /// `name: word`, which also occurs in sentences.
    InSentence,
    /// A header's value. `quote`: the mark that ends it.
    Header { quote: Option<char> },
}

/// Words that replace a missing or hidden value.
const NONE: &str = " none null nil true false undefined redacted filtered masked hidden withheld ";

/// Words that are common in sentences.
const PROSE: &str = " not is was are the a an and or for how of to in as must should can cannot \
                     has had failure error wrong bad token tokens password passwords secret \
                     secrets session sessions cookie cookies authentication authorization \
                     authenticated credentials scheme header headers format unauthorized forbidden \
                     number integer text bytes value sent used ";

/// Whether one of the lists contains a word.
fn is_one_of(word: &str, lists: &[&str]) -> bool {
    let word = format!(" {} ", word.to_ascii_lowercase());
    lists.iter().any(|list| list.contains(&word))
}

/// Whether a word represents a missing or hidden value.
fn is_missing(word: &str) -> bool {
    word.chars().all(|c| matches!(c, '*' | '.' | '…' | '•' | '-' | '_')) || is_one_of(word, &[NONE])
}

/// Whether a word is ordinary in settings, logs or sentences.
pub(super) fn is_ordinary(word: &str) -> bool {
    is_missing(word) || is_one_of(word, &[STATES, PROSE])
}

/// Whether a word is unlikely to occur in a sentence.
pub(super) fn looks_random(word: &str) -> bool {
    let has = |is: fn(&char) -> bool| word.chars().any(|c| is(&c));
    let is_mixed = has(char::is_ascii_uppercase) && has(char::is_ascii_lowercase);
    let length = word.chars().count();
    has(char::is_ascii_digit) && has(|c| c.is_alphabetic()) && length >= 6
        || is_mixed && length >= 12
}

/// Returns the ranges of the secrets after a name. A list may have several secrets.
pub(super) fn ranges(name: &str, text: &str, kind: &Value) -> Vec<Range<usize>> {
    // `Some("…")` of Rust, `b'…'` of Python.
    let remainder = text.strip_prefix("Some(").unwrap_or(text);
    let remainder = remainder
        .strip_prefix(['b', 'r', 'u'])
        .filter(|remainder| remainder.starts_with(QUOTES))
        .unwrap_or(remainder);
    let start = text.len() - remainder.len();
    if let Some((mark, inside)) = quotation(remainder) {
        let end = end_of_quotation(inside, mark);
        let from = start + mark.len();
        let value = &inside[..end];
        let is_state = is_one_of(value, &[STATES]) && !is_password_name(name);
        return if is_state || is_harmless(name, value) {
            Vec::new()
        } else {
            single(from..from + end)
        };
    }
    if remainder.starts_with('[') {
        let found = list_quotations(remainder).into_iter();
        return found
            .map(|r| start + r.start..start + r.end)
            .filter(|r| !is_harmless(name, &text[r.clone()]))
            .collect();
    }
    let end = match kind {
        Value::Header { quote } => end_of_header(remainder, *quote),
        Value::Word | Value::InSentence => end_of_word(remainder),
    };
    let value = &remainder[..end];
    let is_secret = match kind {
        Value::InSentence => !is_ordinary(value) && (is_password_name(name) || looks_random(value)),
        Value::Word => !is_one_of(value, &[STATES]),
        Value::Header { .. } => true,
    };
    // A placeholder is not a literal value.
    let is_literal = !value.is_empty() && !value.starts_with(['{', '$']);
    if is_secret && is_literal && !is_erased(remainder, end) && !is_harmless(name, value) {
        single(start..start + end)
    } else {
        Vec::new()
    }
}

/// Whether the mark [`NOT_RECORDED`], which has two words, already replaces the value. `end`: end
/// of the first word.
fn is_erased(text: &str, end: usize) -> bool {
    let Some((first, last)) = NOT_RECORDED.split_once(' ') else { return false };
    let before = text[..end].strip_suffix(first).map(str::trim);
    before.is_some_and(|before| before.is_empty() || is_scheme(before))
        && text[end..].trim_start().starts_with(last)
}

/// Returns a list of one range.
fn single(range: Range<usize>) -> Vec<Range<usize>> {
    Vec::from_iter(Some(range))
}

/// Whether a value has several words, as in `token: how to get one`, or is an ordinary word.
pub(super) fn is_sentence(value: &str) -> bool {
    let end = first_match(value, &["\n", "\r", "\\n", "\\r"]).map_or(value.len(), |end| end.start);
    let line = value[..end].trim();
    line.contains(' ') || is_ordinary(line)
}

/// Whether a value is missing, or only describes secrets: a number of tokens, a password file.
pub(super) fn is_harmless(name: &str, value: &str) -> bool {
    let name = without_escapes(&without_unicode_escapes(name));
    let letters = small_letters(&name);
    let is_place = ["file", "path", "dir", "folder"].iter().any(|end| letters.ends_with(end));
    let is_about = letters.ends_with("name") || letters.ends_with("type");
    is_missing(value)
        || is_placeholder(value)
        || is_about
        || is_count(&name) && value.split(',').all(|item| is_number(item.trim()))
        || is_place && value.starts_with(['/', '.'])
}

/// Whether a value is taken from a response: a placeholder, such as `{extract.token}`, or the place
/// of the value in the response, such as `json:/token`.
fn is_placeholder(value: &str) -> bool {
    let name = value.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let is_name = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    name.is_some_and(|name| name.starts_with("extract.") && is_name(name))
        || ["json:/", "header:", "matches:"].iter().any(|kind| value.starts_with(kind))
}

/// Whether a text is a number in decimal digits.
pub(super) fn is_number(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit() || c == '-') && text.parse::<f64>().is_ok()
}

/// Words of names whose value is an amount.
const AMOUNTS: &str = " age bytes count counter counts days exp expiration expire expires expiry \
                       hours len length lifetime limit max maxage maximum min minimum minutes \
                       seconds size timeout total ttl usage ";

/// Whether a number of this name is an amount, as in `max_tokens` and `sessionTimeout`. Only whole
/// words are compared: `admin` contains `min`, and `management` contains `age`.
fn is_count(name: &str) -> bool {
    let words = words(name);
    let Some(last) = words.last() else { return false };
    // The end of `DB_PASS` is no plural.
    let singular = last.strip_suffix('s').filter(|singular| !singular.ends_with('s'));
    let is_plural = singular.is_some_and(|noun| is_secret(noun) && !is_password_name(noun));
    // `sessiontimeout`
    let ends = ["expiry", "length", "lifetime", "maxage", "timeout", "ttl"];
    let is_amount = is_one_of(last, &[AMOUNTS]) || ends.iter().any(|end| last.ends_with(end));
    // The name of a password says so in any word. Other secrets are named by the last word.
    let is_secret_name = is_password_name(name)
        || is_secret_field(name)
        || may_be_secret(last)
        || is_secret_parameter(last);
    is_plural
        || is_amount
        || !is_secret_name && words.iter().any(|word| is_one_of(word, &[AMOUNTS]))
}

/// Returns the words of a name in lower case: `max` and `tokens` of `MAX_TOKENS` and `maxTokens`.
fn words(name: &str) -> Vec<String> {
    let (mut words, mut word, mut is_after_small) = (Vec::new(), String::new(), false);
    for c in name.chars() {
        if !c.is_ascii_alphabetic() || c.is_ascii_uppercase() && is_after_small {
            words.push(std::mem::take(&mut word));
        }
        word.extend(Some(c.to_ascii_lowercase()).filter(char::is_ascii_alphabetic));
        is_after_small = c.is_ascii_lowercase();
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

/// Whether a name certainly belongs to a password or key.
pub(super) fn is_password_name(name: &str) -> bool {
    let name = small_letters(name);
    ["password", "passwd", "passphrase", "pwd", "apikey"].iter().any(|part| name.contains(part))
}

/// Splits a text into its quotation mark, with the backslashes before it, and the text after it.
pub(super) fn quotation(text: &str) -> Option<(&str, &str)> {
    let remainder = text.trim_start_matches('\\');
    let after = remainder.strip_prefix(QUOTES)?;
    Some(text.split_at(text.len() - after.len()))
}

/// Returns the end of a quotation that began with `mark`. An unclosed quotation ends with its line.
pub(super) fn end_of_quotation(inside: &str, mark: &str) -> usize {
    let (escapes, quote) = mark.split_at(mark.len() - 1);
    let ends = |(at, found): (usize, &str)| {
        if found == "\n" {
            return Some(at);
        }
        // JSON within JSON text: each level of quotation doubles the backslashes of the content.
        let slashes = at - inside[..at].trim_end_matches('\\').len();
        let of_content = slashes.checked_sub(escapes.len())?;
        of_content.is_multiple_of(2 * mark.len()).then_some(at - escapes.len())
    };
    let quote = quote.chars().next();
    let mut places = inside.match_indices(|c| c == '\n' || Some(c) == quote);
    places.find_map(ends).unwrap_or(inside.len())
}

/// Returns the quoted values of a list. A list without quotes is one value.
fn list_quotations(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 1;
    while let Some(next) = text[at..].find(['"', '\'', '\\', ']', '\n']) {
        at += next;
        let Some((mark, inside)) = quotation(&text[at..]) else { break };
        let end = end_of_quotation(inside, mark);
        found.push(at + mark.len()..at + mark.len() + end);
        at += mark.len() + end;
        if !text[at..].starts_with(mark) {
            break;
        }
        at += mark.len();
    }
    // `{cookie=[id=1]}` of Java.
    let line = &text[1..text.find(['\n', '<']).unwrap_or(text.len()).max(1)];
    match line.find(']').filter(|end| *end > 0 && found.is_empty()) {
        Some(end) => single(1..1 + end),
        None => found,
    }
}

/// Whether a text begins with an escaped line end, tab or quotation mark.
fn is_escape(remainder: &str) -> bool {
    let escaped = remainder.strip_prefix('\\').and_then(|remainder| remainder.chars().next());
    escaped.is_some_and(|c| matches!(c, 'n' | 'r' | 't' | '"' | '\'' | '\\'))
}

/// Returns the end of a word. A sentence or the next item of a list ends it.
pub(super) fn end_of_word(text: &str) -> usize {
    let is_end = |(at, c): &(usize, char)| match c {
        '&' | '<' | '|' => true,
        ',' | ';' => is_end_of_item(&text[at + 1..]),
        '\\' => is_escape(&text[*at..]),
        c => c.is_whitespace() || QUOTES.contains(c),
    };
    let end = text.char_indices().find(is_end).map_or(text.len(), |(at, _)| at);
    text[..end].trim_end_matches([')', ']', '}', ',', '.', ';', ':']).len()
}

/// Whether a list continues with another name and value after its comma.
fn is_end_of_item(remainder: &str) -> bool {
    let name = remainder
        .find(|c: char| !c.is_ascii_alphanumeric() && !"_-.".contains(c))
        .unwrap_or(remainder.len());
    let is_next = name > 0 && remainder[name..].starts_with(['=', ':']);
    remainder.is_empty()
        || remainder.starts_with(|c: char| c.is_whitespace() || QUOTES.contains(&c))
        || is_next
}

/// Returns the end of a header's value in a line. Cookies have spaces after `;`, and credentials
/// after their scheme.
fn end_of_header(text: &str, quote: Option<char>) -> usize {
    let is_end = |(at, c): &(usize, char)| match c {
        '\n' | '\r' => true,
        '\\' => is_escape(&text[*at..]),
        // The next header of a list.
        ',' => text[at + 1..].strip_prefix(' ').is_some_and(is_header),
        c => Some(*c) == quote,
    };
    let line = text.char_indices().find(is_end).map_or(text.len(), |(at, _)| at);
    let line = &text[..line];
    let (first, remainder) = line.split_once(' ').unwrap_or((line, ""));
    if first.eq_ignore_ascii_case("digest") {
        return line.len();
    }
    if is_scheme(first) {
        let word = remainder.trim_start();
        return line.len() - word.len() + word.find(' ').unwrap_or(word.len());
    }
    let mut spaces = line.match_indices(' ').map(|(at, _)| at);
    spaces.find(|at| !line[..*at].ends_with([';', ',', ' '])).unwrap_or(line.len())
}

/// Whether a text begins with the name of a header and its colon.
fn is_header(text: &str) -> bool {
    let name = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(text.len());
    name > 0 && text[name..].starts_with(": ") || text.starts_with("body \"")
}

/// Returns the first `max_chars` characters of a text.
pub(super) fn first_chars(text: &str, max_chars: usize) -> &str {
    text.char_indices().nth(max_chars).map_or(text, |(end, _)| &text[..end])
}

/// Returns the range of the first match of any of several texts.
pub(super) fn first_match(text: &str, patterns: &[&str]) -> Option<Range<usize>> {
    let matches = patterns.iter().filter_map(|p| text.find(p).map(|start| start..start + p.len()));
    matches.min_by_key(|range| (range.start, std::cmp::Reverse(range.end)))
}

/// Decodes escapes such as `\u0061` in the name of a JSON member (RFC 8259 §7).
pub(super) fn without_unicode_escapes(name: &str) -> String {
    let mut parts = name.split("\\u");
    let first = parts.next().unwrap_or_default().to_string();
    parts.fold(first, |decoded, part| {
        let code = part.get(..4).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        match code.and_then(char::from_u32) {
            Some(c) => decoded.trim_end_matches('\\').to_string() + &c.to_string() + &part[4..],
            None => decoded + "\\u" + part,
        }
    })
}
