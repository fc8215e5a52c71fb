//! Finds secrets in texts of any form: logs, messages, comments, and bodies with placeholders.
//!
//! A text may quote another text, so quotes and line ends are also recognised after backslashes.

use std::ops::Range;

use dyno_config::secret::{
    is_distinctive, is_scheme, is_secret, is_secret_field, is_secret_parameter, is_token,
    may_be_secret, may_be_secret_header, without_escapes,
};

use super::MARK;
use super::commands::is_user_secret;
use super::members::member_spans;
use super::name::{Span, ValueName, is_message_about_name, name_at_end};
use super::value::{
    self, Value, end_of_quotation, end_of_word, is_harmless, is_ordinary, looks_random, quotation,
};
use crate::terminal::colour_sequence;

/// Returns the secrets of a text in order, without overlaps.
pub(super) fn spans(text: &str) -> Vec<Span> {
    if !text.contains('\x1b') {
        return plain_spans(text);
    }
    // Loggers may colour names and values separately.
    let (plain, offsets) = without_colours(text);
    let in_text = |range: Range<usize>| offsets[range.start]..offsets[range.end - 1] + 1;
    let found = plain_spans(&plain).into_iter();
    found.map(|span| Span { range: in_text(span.range), ..span }).collect()
}

/// Returns the text without colours (SGR), and the offset of each byte in the original text.
fn without_colours(text: &str) -> (String, Vec<usize>) {
    let (mut plain, mut offsets) =
        (String::with_capacity(text.len()), Vec::with_capacity(text.len()));
    let mut offset = 0;
    while let Some(c) = text[offset..].chars().next() {
        if let Some(length) = colour_sequence(&text[offset..]) {
            offset += length;
            continue;
        }
        plain.push(c);
        offsets.extend(offset..offset + c.len_utf8());
        offset += c.len_utf8();
    }
    (plain, offsets)
}

/// Returns the secrets of a text without colours. Overlapping secrets are merged.
fn plain_spans(text: &str) -> Vec<Span> {
    let mut found = named_spans(text);
    found.extend(member_spans(text));
    found.extend(option_spans(text));
    found.extend(curl_user_spans(text));
    found.extend(element_spans(text));
    found.extend(form_part_spans(text));
    found.extend(expectation_spans(text));
    found.extend(listed_header_spans(text));
    found.extend(private_key_spans(text));
    found.extend(credential_spans(text));
    found.extend(escaped_credential_spans(text));
    found.retain(|span| !span.range.is_empty() && !text[span.range.start..].starts_with(MARK));
    found.sort_by_key(|span| span.range.start);
    let mut merged: Vec<Span> = Vec::with_capacity(found.len());
    for span in found {
        match merged.last_mut().filter(|last| span.range.start < last.range.end) {
            Some(last) => {
                last.range.end = last.range.end.max(span.range.end);
                last.is_sure |= span.is_sure;
            }
            None => merged.push(span),
        }
    }
    merged
}

/// How certain it is that the value of a name is a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Secrecy {
    Certain,
    Possible,
}

/// Returns how certain it is that the value of a name is a secret. `None`: the value is not secret.
/// `is_variable`: the form is `NAME=value`, without quotation marks around the name and without a
/// blank after `=`.
fn secrecy(name: &ValueName<'_>, is_variable: bool, is_header: bool) -> Option<Secrecy> {
    let plain = without_escapes(&value::without_unicode_escapes(name.text));
    if is_secret(&plain) {
        return Some(Secrecy::Certain);
    }
    let is_capital = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let is_possible = match name.before {
        // A quoted text with a blank is code, not a name: `compare --undecided pass`.
        _ if name.quote.is_some() => {
            let is_field =
                is_secret_field(&plain) || plain.contains('-') && may_be_secret_header(&plain);
            is_field && !plain.contains(' ')
        }
        Some('?' | '&') => is_secret_parameter(&plain),
        // An HTML form body in quotation marks: `"pin=1234"`.
        Some('"' | '\'' | '`') if is_variable && is_secret_field(&plain) => true,
        _ if is_header => may_be_secret_header(&plain),
        // Only whole words are compared, because AUTHOR contains AUTH.
        _ if plain.chars().all(is_capital) => {
            let is_word =
                may_be_secret_header(&plain) || plain.split('_').any(|word| word == "PAT");
            is_variable && is_word && may_be_secret(&plain)
        }
        _ => is_variable && plain.contains(['_', '-', '.']) && is_secret_field(&plain),
    };
    is_possible.then_some(Secrecy::Possible)
}

/// Finds values after a secret name: `name=value`, `Name: value`, `"name": "value"`.
fn named_spans(text: &str) -> Vec<Span> {
    let signs = text.match_indices(['=', ':']);
    signs.flat_map(|(at, sign)| named_spans_at(text, at, sign == ":")).collect()
}

/// Maximum number of digits of a port or a line. A longer number after a colon is a value.
const MAX_PORT_DIGITS: usize = 5;

/// Finds the value after the `=` or `:` at this index, if it follows a secret name.
fn named_spans_at(text: &str, at: usize, is_colon: bool) -> Vec<Span> {
    let (before, after) = (&text[..at], &text[at + 1..]);
    let is_operator_or_url = match is_colon {
        true => after.starts_with("//") || after.starts_with([':', '=']) || before.ends_with(':'),
        // A comparison.
        false => before.ends_with([' ', '!', '<', '>']) && after.starts_with('='),
    };
    if is_operator_or_url {
        return Vec::new();
    }
    let Some(name) = name_at_end(before.strip_suffix(':').unwrap_or(before)) else {
        return Vec::new();
    };
    // `:name => value`, as in Ruby.
    let after = after.strip_prefix('>').unwrap_or(after);
    let value = after.trim_start_matches([' ', '\t']);
    let is_spaced = value.len() < after.len();
    let is_bare = name.quote.is_none();
    if is_colon && is_spaced && is_message_about_name(&name, value) {
        return Vec::new();
    }
    let is_header = is_colon && is_bare && (is_short_header(name.text) || name.text.contains('-'));
    let Some(secrecy) = secrecy(&name, !is_colon && is_bare && !is_spaced, is_header) else {
        return if is_colon { Vec::new() } else { encoded_spans(text, value) };
    };
    // `token-service:8080`, `session.rs:12:5`
    let after_digits = value.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_number = (1..=MAX_PORT_DIGITS).contains(&(value.len() - after_digits.len()))
        && !after_digits.starts_with(|c: char| c.is_ascii_alphanumeric());
    let is_port_or_line = is_colon && is_bare && !is_spaced && is_number;
    if is_port_or_line {
        return Vec::new();
    }
    let start = text.len() - value.len();
    let may_be_in_sentence = is_colon && is_spaced && is_bare;
    let kind = if is_header {
        // In `'Cookie: …'`, the quotation mark ends the value.
        Value::Header { quote: name.before.filter(|c| is_bare && value::QUOTES.contains(c)) }
    } else if may_be_in_sentence && (!name.is_first || value::is_sentence(value)) {
        Value::InSentence
    } else {
        Value::Word
    };
    let ranges = value::ranges(name.text, value, &kind);
    let is_sure = secrecy == Secrecy::Certain;
    ranges.into_iter().map(|r| Span { range: start + r.start..start + r.end, is_sure }).collect()
}

/// Whether a name without a hyphen is the name of a header with credentials.
fn is_short_header(name: &str) -> bool {
    ["authorization", "cookie"].iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Maximum length of a value that is searched for an encoded secret. Only the beginning of a longer
/// value is searched.
const LONGEST_ENCODED: usize = 1000;

/// Finds a percent-encoded value that contains a secret, such as a URL.
fn encoded_spans(text: &str, value: &str) -> Vec<Span> {
    let start = text.len() - value.len();
    let word = value::first_chars(value, LONGEST_ENCODED);
    let word = &word[..end_of_word(word)];
    let plain = without_escapes(word);
    if plain == word {
        return Vec::new();
    }
    let has_user = plain
        .split_once("://")
        .is_some_and(|(_, remainder)| remainder.contains('@') && remainder.contains(':'));
    let is_secret = has_user || plain.contains(['=', ':']) && !plain_spans(&plain).is_empty();
    if is_secret {
        vec![Span { range: start..start + word.len(), is_sure: false }]
    } else {
        Vec::new()
    }
}

/// Whether a new word begins at this index.
fn is_start(text: &str, at: usize) -> bool {
    text[..at].chars().next_back().is_none_or(|c| c.is_whitespace() || "\"'`([,=".contains(c))
}

/// Finds values of options in the next word: `--password hunter`, `'--password', 'hunter'`.
fn option_spans(text: &str) -> Vec<Span> {
    let places = text.match_indices("--").filter(|(at, _)| is_start(text, *at));
    let value_of = |(at, _): (usize, &str)| {
        let remainder = &text[at + 2..];
        let end = remainder.find(|c: char| !c.is_ascii_alphanumeric() && !"-_".contains(c))?;
        let name = Some(&remainder[..end]).filter(|name| is_secret(name))?;
        let after = remainder[end..].trim_start_matches(value::QUOTES);
        // After an option in the marks of code, a sentence continues: `--cookies` with steps.
        if remainder[end..].starts_with('`') && text[..at].ends_with('`') {
            return None;
        }
        let value = after.trim_start_matches([' ', ',', '\t']);
        let quote = value.chars().next().filter(|c| value::QUOTES.contains(c));
        let value = value.trim_start_matches(value::QUOTES);
        let end = quote
            .map_or_else(|| end_of_word(value), |quote| value.find(quote).unwrap_or(value.len()));
        let word = &value[..end];
        let is_value = after.starts_with([' ', ',', '\t'])
            && !word.starts_with(['-', '{', '$', '<', '[', '(', '/'])
            // A placeholder in a help text: `--token TOKEN`.
            && !name.to_ascii_lowercase().contains(&word.to_ascii_lowercase())
            && !is_ordinary(word)
            && !is_harmless(name, word);
        let start = text.len() - value.len();
        is_value.then_some(Span { range: start..start + end, is_sure: true })
    };
    places.filter_map(value_of).collect()
}

/// Finds passwords in `curl -u user:password`, and tokens in `curl -u token:`.
fn curl_user_spans(text: &str) -> Vec<Span> {
    let flags = ["-u ", "-U ", "--user ", "--user=", "--proxy-user ", "--proxy-user="];
    let places = flags.iter().flat_map(|flag| text.match_indices(flag));
    let password_of = |(at, flag): (usize, &str)| {
        let after = text[at + flag.len()..].trim_start_matches(value::QUOTES);
        let word = &after[..end_of_word(after)];
        // A colon without a password is not part of the word.
        let is_alone = !word.contains(':') && after[word.len()..].starts_with(':');
        let (user, password) = if is_alone { (word, "") } else { word.split_once(':')? };
        let line = text[..at].rsplit('\n').next().unwrap_or_default();
        let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        // Other programs take a group there: `docker run -u app:app`, `-u 1000:1000`.
        let is_password = !(password.starts_with("//") || is_number(user) && is_number(password));
        let is_curl = line.contains("curl")
            || looks_random(password)
            || is_token(user)
            || is_distinctive(user);
        let end = at + flag.len() + text[at + flag.len()..].find(word)? + word.len();
        let secret = if is_user_secret(user, password) { word } else { password };
        let range = end - secret.len()..end;
        (is_start(text, at) && is_password && is_curl).then_some(Span { range, is_sure: true })
    };
    places.filter_map(password_of).collect()
}

/// Finds texts of XML elements with secret names: `<password>hunter</password>`.
fn element_spans(text: &str) -> Vec<Span> {
    let content_of = |(at, _): (usize, &str)| {
        let name = text[at + 2..].split(['>', '<', ' ', '\n']).next()?;
        let local = name.rsplit(':').next().unwrap_or(name);
        let is_sure = is_secret(local);
        if !is_sure && !is_secret_field(local) {
            return None;
        }
        const CDATA: &str = "<![CDATA[";
        let range = match text[..at].strip_suffix("]]>") {
            Some(before) => before.rfind(CDATA)? + CDATA.len()..before.len(),
            None => text[..at].rfind('>')? + 1..at,
        };
        let content = text[range.clone()].trim();
        let is_text =
            !content.is_empty() && !content.contains('<') && !content.starts_with(['{', '$']);
        let is_text = is_text && !is_harmless(local, content);
        is_text.then_some(Span { range, is_sure })
    };
    text.match_indices("</").filter_map(content_of).collect()
}

/// Maximum length of the head of a form part.
const LONGEST_HEAD: usize = 400;

/// Finds parts of `multipart/form-data` (RFC 7578) with secret names.
fn form_part_spans(text: &str) -> Vec<Span> {
    let value_of = |(at, found): (usize, &str)| {
        let remainder = &text[at + found.len()..];
        let remainder = value::first_chars(remainder, LONGEST_HEAD);
        let end = value::first_match(remainder, &["\r\n\r\n", "\n\n", "\\r\\n\\r\\n", "\\n\\n"])?;
        let head = &remainder[..end.start];
        let name = head.split(';').find_map(|part| part.trim().strip_prefix("name="))?;
        let name = name.trim_start_matches('\\').trim_start_matches(value::QUOTES);
        let name = name.split(|c: char| "\"'\\\r\n".contains(c)).next()?;
        let is_sure = is_secret(&without_escapes(name));
        let start = at + found.len() + end.end;
        let value = &text[start..];
        let length = value::first_match(value, &["\r\n--", "\n--", "\\r\\n--", "\\n--"]);
        let length = length.map_or(value.len(), |end| end.start);
        let is_named = is_sure || is_secret_parameter(name);
        (is_named && !is_harmless(name, value[..length].trim()))
            .then_some(Span { range: start..start + length, is_sure })
    };
    text.match_indices("form-data").filter_map(value_of).collect()
}

/// Finds values in dyno's sentences on expectations: `JSON /token "hunter"`,
/// `header Cookie is not "a"`.
fn expectation_spans(text: &str) -> Vec<Span> {
    let value_of = |(at, found): (usize, &str)| {
        let remainder = &text[at + found.len()..];
        let (name, remainder) =
            remainder.split_once(if found.ends_with('"') { '"' } else { ' ' })?;
        let remainder = remainder.strip_prefix(' ').unwrap_or(remainder);
        let is_sure = is_secret(name);
        if !(is_sure || found == HEADER && may_be_secret_header(name)) {
            return None;
        }
        let expression = remainder
            .strip_prefix("does not match ")
            .or_else(|| remainder.strip_prefix("matching "));
        let value = match (expression, remainder.strip_prefix("is not ")) {
            (Some(value), _) | (None, Some(value)) => value,
            (None, None) if found == "JSON /" => remainder,
            (None, None) => return None,
        };
        let start = text.len() - value.len();
        let range = match quotation(value) {
            Some((mark, inside)) => {
                start + mark.len()..start + mark.len() + end_of_quotation(inside, mark)
            }
            None if expression.is_some() => {
                let end = value::first_match(value, &[", ", "; ", "\n", "\\n"])
                    .map_or(value.len(), |end| end.start);
                start..start + value[..end].trim_end_matches(':').len()
            }
            None => start..start + value.find([',', ';', ' ', '\n']).unwrap_or(value.len()),
        };
        let literal = text[range.clone()].trim_start_matches('^').trim_end_matches('$');
        (!is_harmless(name, literal)).then_some(Span { range, is_sure })
    };
    const HEADER: &str = "header ";
    let places = ["JSON /", "JSON pointer \"", HEADER]
        .into_iter()
        .flat_map(|start| text.match_indices(start));
    places.filter_map(value_of).collect()
}

/// Finds values of headers in a list of names and values: `('cookie', 'a=b')`,
/// `['Cookie', 'a=b', …]`.
fn listed_header_spans(text: &str) -> Vec<Span> {
    let value_of = |(at, _): (usize, &str)| {
        let name = name_at_end(&text[..at]).filter(|name| name.quote.is_some())?;
        let is_option = name.text.starts_with('-');
        let is_header = is_short_header(name.text) || name.text.contains('-') && !is_option;
        let value = text[at + 1..].trim_start();
        let value =
            value.strip_prefix('b').filter(|v| v.starts_with(value::QUOTES)).unwrap_or(value);
        if !is_header || !is_secret(name.text) {
            return None;
        }
        let (mark, inside) = quotation(value)?;
        let end = end_of_quotation(inside, mark);
        let start = text.len() - inside.len();
        // In a list of names (`['Cookie', 'Accept']`), the next item looks like a name, too. Such
        // an item is a value only if a parenthesis closes the pair after it.
        let is_name = inside[..end].chars().all(|c| c.is_ascii_alphabetic() || c == '-');
        let is_value =
            !is_name || inside.get(end + mark.len()..).is_some_and(|after| after.starts_with(')'));
        let is_value = is_value && !is_harmless(name.text, &inside[..end]);
        is_value.then_some(Span { range: start..start + end, is_sure: true })
    };
    text.match_indices(',').filter_map(value_of).collect()
}

/// Finds private keys in PEM (RFC 7468).
fn private_key_spans(text: &str) -> Vec<Span> {
    const END: &str = "PRIVATE KEY-----";
    let key_after = |(at, _): (usize, &str)| {
        let start = at + END.len();
        let line = text[..at].rsplit("-----").next()?;
        let length = text[start..].find("-----END").unwrap_or(text.len() - start);
        line.trim_start()
            .starts_with("BEGIN")
            .then_some(Span { range: start..start + length, is_sure: true })
    };
    text.match_indices(END).filter_map(key_after).collect()
}

/// Finds tokens that are known by their form, and words after a scheme of authentication.
fn credential_spans(text: &str) -> Vec<Span> {
    let is_end = |c: char| c.is_whitespace() || "=;,\"'&?:()[]{}<>\\|`@/#".contains(c);
    let mut found = Vec::new();
    let mut start = 0;
    for word in text.split(is_end) {
        let range = start..start + word.len();
        start += word.len() + text[range.end..].chars().next().map_or(0, char::len_utf8);
        // An escaped line end before a word: `\nghp_…`.
        let is_escaped = text[..range.start].ends_with('\\') && word.starts_with(['n', 'r', 't']);
        let from = usize::from(is_escaped);
        let plain = word[from..].trim_end_matches('.');
        let token_range = range.start + from..range.start + from + plain.len();
        if is_token(plain) {
            found.push(Span { range: token_range, is_sure: true });
        } else if is_scheme(plain) {
            found.extend(scheme_word_span(text, plain, token_range.end));
        }
    }
    found
}

/// Finds credentials next to percent-escapes and plus signs, as in URLs: `?q=%22ghp_…%22`,
/// `Bearer+…`.
fn escaped_credential_spans(text: &str) -> Vec<Span> {
    if !text.contains(['%', '+']) {
        return Vec::new();
    }
    // A plus is a blank in a form (WHATWG URL §5.1), and a character of Base64.
    let readings = [true, false].map(|is_form| without_url_escapes(text, is_form));
    let spans = readings.iter().flat_map(|(plain, offsets)| {
        let in_text = |range: Range<usize>| offsets[range.start]..offsets[range.end];
        let found = credential_spans(plain).into_iter();
        found.map(move |span| Span { range: in_text(span.range), ..span })
    });
    spans.collect()
}

/// Decodes percent-escapes. Escapes of non-ASCII characters become blanks. With `is_form`, a plus
/// becomes a blank, too. Also returns the offset of each byte in the original text, and of the end.
fn without_url_escapes(text: &str, is_form: bool) -> (String, Vec<usize>) {
    let (mut plain, mut offsets) = (String::with_capacity(text.len()), Vec::new());
    let mut offset = 0;
    while let Some(c) = text[offset..].chars().next() {
        let digits = if c == '%' { text.get(offset + 1..offset + 3) } else { None };
        let digits = digits.filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let (decoded, length) = match byte {
            // `%25` becomes a blank, so that a separator that is encoded twice also ends a word.
            Some(byte) if byte.is_ascii() && byte != b'%' => (char::from(byte), 3),
            Some(_) => (' ', 3),
            None if c == '+' && is_form => (' ', 1),
            None => (c, c.len_utf8()),
        };
        offsets.extend(std::iter::repeat_n(offset, decoded.len_utf8()));
        plain.push(decoded);
        offset += length;
    }
    offsets.push(offset);
    (plain, offsets)
}

/// Finds the credentials after an authentication scheme such as `Bearer`.
fn scheme_word_span(text: &str, scheme: &str, end: usize) -> Option<Span> {
    let after = text[end..].trim_start_matches(' ');
    let start = Some(text.len() - after.len()).filter(|start| *start > end)?;
    let length = after.find(|c: char| !c.is_ascii_alphanumeric() && !"-._~+/=".contains(c));
    let word = after[..length.unwrap_or(after.len())].trim_end_matches('.');
    let is_bearer = scheme.eq_ignore_ascii_case("bearer");
    // Base64 has `=` only at its end. Elsewhere it belongs to parameters of a challenge or a form.
    let is_base64 = !word.trim_end_matches('=').contains('=');
    let is_basic = scheme.eq_ignore_ascii_case("basic");
    let is_random = looks_random(word) && (is_bearer || is_basic || word.len() >= 16);
    // The next option of a command: `--token-type bearer --token-file F`.
    let is_option = word.starts_with("--");
    let is_word = word.len() >= 6 && is_base64 && !is_option;
    let is_secret = is_word && (is_random || is_bearer && !is_ordinary(word));
    is_secret.then_some(Span { range: start..start + word.len(), is_sure: true })
}
