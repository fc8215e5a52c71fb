//! curl's command line, as browsers copy it and as people write it.
//!
//! Words are split as bash splits them; then options get curl's meaning (curl(1), checked against curl 7.88). What only
//! a shell could fill in (variables, pipes) is refused.

use std::mem;

use base64::Engine as _;

use super::{BASE64, Imported, Url, form_encoded, load, some};
use crate::ReadFile;
use crate::text::nearest;

/// Separates the parts of a form.
const BOUNDARY: &str = "------------------------dyno-form-boundary";
const FORM_TYPE: &str = "multipart/form-data; boundary=";

/// Reads curl commands, one a line or separated by `;`, each with one or more URLs. The word `curl` may be missing from
/// the first. `Err`: a shell or curl would not take it, or dyno cannot do the same.
///
/// What curl adds of its own accord, `User-Agent: curl/…` and `Accept: */*`, is not added here.
pub fn curl(command: &str, read: ReadFile) -> Result<Vec<Imported>, String> {
    if command.contains("^\"") || command.contains("Invoke-WebRequest") {
        return Err("this command was copied for Windows; choose \"Copy as cURL (bash)\" instead".into());
    }
    let mut requests = Vec::new();
    for (i, mut words) in commands(command)?.into_iter().enumerate() {
        let line = words[0].line;
        drop_name(&mut words, i == 0).map_err(|error| format!("line {line}: {error}"))?;
        requests.extend(Command::parse(line, words, read)?.requests(read)?);
    }
    some(requests, "there is no curl command; paste one, like curl http://localhost:8080/")
}

/// Takes `$ curl` off a command.
fn drop_name(words: &mut Vec<Word>, first: bool) -> Result<(), String> {
    // The prompt.
    words.drain(..usize::from(words[0].bytes == b"$"));
    let name = String::from_utf8_lossy(words.first().map_or(b"", |word| &word.bytes)).into_owned();
    if matches!(name.rsplit('/').next(), Some("curl" | "curl.exe")) {
        words.remove(0);
    } else if !first || !(name.starts_with('-') || name.contains(['.', ':', '/'])) {
        let hint = "quote what holds blanks, ; or &, and end a line that goes on with a backslash";
        return Err(format!("expected curl, found {name:?}; {hint}"));
    }
    Ok(())
}

// ---- the shell's part ----

/// A word of a command, without its quotes. Bytes, because `\xHH` makes any.
#[derive(Debug)]
struct Word {
    /// Counted from 1.
    line: usize,
    bytes: Vec<u8>,
}

/// Splits a script into commands, none of them empty, and these into words.
fn commands(script: &str) -> Result<Vec<Vec<Word>>, String> {
    let mut shell = Shell { rest: script.trim_start_matches('\u{feff}'), line: 1 };
    let mut commands = shell.commands().map_err(|error| format!("line {}: {error}", shell.line))?;
    commands.retain(|words| !words.is_empty());
    Ok(commands)
}

struct Shell<'a> {
    rest: &'a str,
    line: usize,
}

impl Shell<'_> {
    fn commands(&mut self) -> Result<Vec<Vec<Word>>, String> {
        let (mut commands, mut words, mut word) = (Vec::new(), Vec::new(), None);
        loop {
            let line = self.line;
            let c = match self.take() {
                // Before anything but a blank, it cuts through a URL that lost its quotes.
                Some('&') if self.rest.is_empty() || self.rest.starts_with(['&', ' ', '\r', '\n']) => {
                    Some(';')
                }
                c => c,
            };
            match c {
                Some('\\') if self.eat_line_end() => {}
                Some('#') if word.is_none() => self.rest = self.rest.trim_start_matches(|c| c != '\n'),
                Some(' ' | '\t' | '\r') => words.extend(word.take()),
                None | Some('\n' | ';') => {
                    words.extend(word.take());
                    commands.push(mem::take(&mut words));
                    if c.is_none() {
                        return Ok(commands);
                    }
                }
                Some(c @ ('&' | '|' | '<' | '>' | '(' | ')')) => {
                    return Err(format!(
                        "{c} is for a shell; quote what holds it, or take it and the rest out"
                    ));
                }
                Some(c) => {
                    let word = word.get_or_insert_with(|| Word { line, bytes: Vec::new() });
                    self.part(c, &mut word.bytes)?;
                }
            }
        }
    }

    /// The part of a word that begins with `c`: something in quotes, or one character.
    fn part(&mut self, c: char, out: &mut Vec<u8>) -> Result<(), String> {
        match c {
            '\'' => self.quoted("'", out)?,
            '"' => self.quoted("\"", out)?,
            '$' if self.eat("'") => self.quoted("$'", out)?,
            '$' if self.eat("\"") => self.quoted("\"", out)?,
            '$' | '`' => self.dollar(c, out)?,
            '\\' => push(out, self.take().unwrap_or(c)),
            c => push(out, c),
        }
        Ok(())
    }

    /// What follows the opening quotes, up to the closing one.
    fn quoted(&mut self, open: &str, out: &mut Vec<u8>) -> Result<(), String> {
        let (line, close) = (self.line, if open == "\"" { '"' } else { '\'' });
        while let Some(c) = self.take() {
            match (open, c) {
                (_, c) if c == close => return Ok(()),
                ("$'", '\\') => self.escape(out)?,
                ("\"", '$' | '`') => self.dollar(c, out)?,
                ("\"", '\\') if self.eat_line_end() => {}
                ("\"", '\\') if self.rest.starts_with(['$', '`', '"', '\\']) => {
                    push(out, self.take().unwrap_or(c));
                }
                (_, c) => push(out, c),
            }
        }
        self.line = line;
        Err(format!("the quote {open} is never closed; add the other one"))
    }

    /// A dollar that stands for itself. What a shell would put something else for is an error.
    fn dollar(&self, c: char, out: &mut Vec<u8>) -> Result<(), String> {
        let name: String = self.rest.chars().take_while(|&c| c.is_ascii_alphanumeric() || c == '_').collect();
        if c == '`'
            || !name.is_empty()
            || self.rest.starts_with(['{', '(', '@', '*', '#', '?', '!', '$', '-'])
        {
            return Err(format!("a shell replaces {c}{name}…; write what comes out, or use single quotes"));
        }
        push(out, c);
        Ok(())
    }

    /// What follows a backslash in `$'…'`: bash(1), "QUOTING".
    fn escape(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        match self.take().unwrap_or('\\') {
            'n' => out.push(b'\n'),
            'r' => out.push(b'\r'),
            't' => out.push(b'\t'),
            c @ ('\\' | '\'' | '"' | '?') => push(out, c),
            'u' => push(out, self.unicode()?),
            'x' => out.push(self.number(2).ok_or("\\x names no byte; write it like \\x0a")? as u8),
            c => return Err(format!("\\{c} is not known in $'…'; write it like \\x0a")),
        }
        Ok(())
    }

    /// A code point. Browsers write those beyond U+FFFF as two surrogates, which bash would not put together.
    fn unicode(&mut self) -> Result<char, String> {
        let mut code = self.number(4);
        if let Some(high @ 0xd800..0xdc00) = code
            && self.eat("\\u")
        {
            let low = self.number(4).and_then(|low| low.checked_sub(0xdc00));
            code = low.map(|low| 0x10000 + ((high - 0xd800) << 10) + low);
        }
        code.and_then(char::from_u32).ok_or_else(|| "\\u names no character; write it like \\u00e4".into())
    }

    /// The number in up to `most` hexadecimal digits, if there are any.
    fn number(&mut self, most: usize) -> Option<u32> {
        let count = self.rest.chars().take(most).take_while(char::is_ascii_hexdigit).count();
        let digits;
        (digits, self.rest) = self.rest.split_at(count);
        u32::from_str_radix(digits, 16).ok()
    }

    fn take(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn eat(&mut self, prefix: &str) -> bool {
        self.rest.strip_prefix(prefix).map(|rest| self.rest = rest).is_some()
    }

    fn eat_line_end(&mut self) -> bool {
        let eaten = self.eat("\n") || self.eat("\r\n");
        self.line += usize::from(eaten);
        eaten
    }
}

fn push(out: &mut Vec<u8>, c: char) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

// ---- curl's part ----

/// What an option takes, and whether a load cares.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Flag,
    Value,
    IdleFlag,
    IdleValue,
    /// It would change what is sent in a way that dyno does not follow.
    Refused,
}

/// The options of curl that are known here: long name, and short name after a slash.
const OPTIONS: [(Kind, &str); 5] = [
    (
        Kind::Flag,
        "compressed get/G head/I insecure/k location/L location-trusted globoff/g http1.1 http2 \
         http2-prior-knowledge",
    ),
    (
        Kind::Value,
        "request/X header/H data/d data-ascii data-raw data-binary data-urlencode json form/F form-string \
         user-agent/A referer/e cookie/b user/u oauth2-bearer range/r upload-file/T url max-time/m connect-timeout \
         resolve unix-socket cacert cert/E key",
    ),
    (
        Kind::IdleFlag,
        "silent/s show-error/S verbose/v include/i show-headers fail/f fail-with-body fail-early progress-bar/# \
         no-progress-meter no-buffer/N remote-name/O remote-name-all remote-header-name/J remote-time/R disable/q \
         basic ipv4/4 ipv6/6 no-keepalive tlsv1/1 tlsv1.0 tlsv1.1 tlsv1.2 tlsv1.3 no-sessionid tcp-nodelay \
         tcp-fastopen path-as-is raw create-dirs parallel/Z parallel-immediate trace-time no-styled-output post301 \
         post302 post303 retry-all-errors retry-connrefused junk-session-cookies/j no-clobber remove-on-error \
         http0.9",
    ),
    (
        Kind::IdleValue,
        "output/o output-dir write-out/w dump-header/D stderr trace trace-ascii cookie-jar/c libcurl retry \
         retry-delay retry-max-time max-redirs max-filesize speed-limit/Y speed-time/y keepalive-time \
         parallel-max proto proto-redir noproxy expect100-timeout happy-eyeballs-timeout-ms etag-save",
    ),
    (
        Kind::Refused,
        "proxy/x preproxy socks4 socks4a socks5 socks5-hostname proxy-user/U proxytunnel/p digest ntlm negotiate \
         anyauth aws-sigv4 netrc/n netrc-file netrc-optional config/K http1.0/0 http3 http3-only url-query \
         request-target proto-default continue-at/C time-cond/z etag-compare limit-rate connect-to pass next/: \
         no-alpn tls-max ciphers tls13-ciphers curves cert-type key-type",
    ),
];

/// The kind, long and short name of each.
fn options() -> impl Iterator<Item = (Kind, &'static str, Option<char>)> {
    OPTIONS.iter().flat_map(|&(kind, names)| {
        names.split_whitespace().map(move |name| match name.split_once('/') {
            Some((long, short)) => (kind, long, short.chars().next()),
            None => (kind, name, None),
        })
    })
}

/// The options that a word spells, and the value of the last one, if the word has it too.
fn spelled(word: &[u8]) -> Result<(Vec<(Kind, &'static str)>, Option<Vec<u8>>), String> {
    let value = |bytes: &[u8]| Some(bytes.to_vec()).filter(|bytes| !bytes.is_empty());
    let mut letters = match word {
        b"--" => return Ok((Vec::new(), None)),
        [b'-', b'-', option @ ..] => return long(&text(option.to_vec())?),
        [b'-', letters @ ..] if !letters.is_empty() => letters,
        _ => return Ok((vec![(Kind::Value, "url")], Some(word.to_vec()))),
    };
    let mut spelled = Vec::new();
    while let Some((&letter, rest)) = letters.split_first() {
        let known = options().find(|(_, _, short)| *short == Some(char::from(letter)));
        let written = String::from_utf8_lossy(letters).chars().next().unwrap_or_default();
        let unknown = || format!("dyno knows no -{written} of curl; take it out if the load can do without");
        let (kind, name, _) = known.ok_or_else(unknown)?;
        spelled.push((kind, name));
        if matches!(kind, Kind::Value | Kind::IdleValue) {
            return Ok((spelled, value(rest)));
        }
        letters = rest;
    }
    Ok((spelled, None))
}

fn long(option: &str) -> Result<(Vec<(Kind, &'static str)>, Option<Vec<u8>>), String> {
    let (name, value) = option.split_once('=').map_or((option, None), |(n, v)| (n, Some(v.into())));
    match options().find(|(_, long, _)| *long == name) {
        Some((Kind::Flag | Kind::IdleFlag, ..)) if value.is_some() => {
            Err(format!("--{name} takes no value; take the = and what follows out"))
        }
        Some((kind, name, _)) => Ok((vec![(kind, name)], value)),
        None => Err(match nearest(name, options().map(|(_, long, _)| long)) {
            Some(near) => format!("dyno knows no --{name} of curl; did you mean --{near}?"),
            None => format!("dyno knows no --{name} of curl; take it out if the load can do without"),
        }),
    }
}

/// What the options of one command ask for.
#[derive(Default)]
struct Command {
    line: usize,
    method: Option<String>,
    /// Of -H. Without a value: not to be sent, even where curl would add it.
    headers: Vec<(String, Option<String>)>,
    /// Headers that other options ask for.
    asked: Vec<(&'static str, String)>,
    cookies: Vec<String>,
    data: Option<Vec<u8>>,
    json: bool,
    get: bool,
    head: bool,
    globoff: bool,
    form: Vec<Part>,
    uploads: Vec<String>,
    urls: Vec<String>,
    options: Vec<(String, String)>,
}

impl Command {
    fn parse(line: usize, words: Vec<Word>, read: ReadFile) -> Result<Command, String> {
        let mut command = Command { line, ..Command::default() };
        let mut words = words.into_iter();
        while let Some(Word { line, bytes }) = words.next() {
            let located = |error| format!("line {line}: {error}");
            let (options, mut attached) = spelled(&bytes).map_err(located)?;
            for (kind, name) in options {
                let takes = matches!(kind, Kind::Value | Kind::IdleValue);
                let mut next = || attached.take().or_else(|| words.next().map(|word| word.bytes));
                let value = if takes { next() } else { Some(Vec::new()) };
                let missing = || located(format!("--{name} needs a value; write it after the option"));
                command.apply(kind, name, value.ok_or_else(missing)?, read).map_err(located)?;
            }
        }
        Ok(command)
    }

    fn apply(
        &mut self,
        kind: Kind,
        name: &'static str,
        value: Vec<u8>,
        read: ReadFile,
    ) -> Result<(), String> {
        match (kind, name) {
            (Kind::IdleFlag | Kind::IdleValue, _) => Ok(()),
            (Kind::Refused, _) => {
                let hint = "take it out, or write what it comes to as URL or -H";
                Err(format!("dyno does not follow --{name}; {hint}"))
            }
            (_, "data" | "data-ascii" | "data-binary" | "data-raw" | "data-urlencode" | "json") => {
                data(name, value, read).map(|data| self.add_data(name, &data))
            }
            (Kind::Flag | Kind::Value, _) => self.apply_text(name, text(value)?, read),
        }
    }

    fn apply_text(&mut self, name: &'static str, value: String, read: ReadFile) -> Result<(), String> {
        match name {
            "url" => self.urls.push(value),
            "request" => self.method = Some(value),
            "get" => self.get = true,
            "head" => self.head = true,
            "globoff" => self.globoff = true,
            "header" => self.headers.push(header(&value)?),
            "form" => self.form.push(Part::parse(&value, read)?),
            "form-string" => self.form.push(Part::literal(&value)?),
            "upload-file" => self.uploads.push(value),
            "compressed" => self.ask("Accept-Encoding", "deflate, gzip, br, zstd".into()),
            "user-agent" => self.ask("User-Agent", value),
            "referer" => self.ask("Referer", value.trim_end_matches(";auto").into()),
            "cookie" if value.is_empty() => {}
            "cookie" if value.contains('=') => self.cookies.push(value),
            "cookie" => return Err(format!("-b {value} reads cookies from a file; write -b 'name=value'")),
            "user" if value.contains(':') => {
                self.ask("Authorization", format!("Basic {}", BASE64.encode(value)));
            }
            "user" => return Err(format!("curl would ask for a password; write -u '{value}:password'")),
            "oauth2-bearer" => self.ask("Authorization", format!("Bearer {value}")),
            "range" => self.ask("Range", format!("bytes={value}")),
            "max-time" | "connect-timeout"
                if !value.parse::<f64>().is_ok_and(|s| s.is_finite() && s >= 0.0) =>
            {
                return Err(format!("--{name} {value} is not a number of seconds; write it like 2.5"));
            }
            "location-trusted" => self.set("location", value),
            _ => self.set(name, value),
        }
        Ok(())
    }

    /// Notes what means something to a load. As in curl the last one counts, but for --resolve.
    fn set(&mut self, name: &str, value: String) {
        let same = |other: &str| other == name || (name.starts_with("http") && other.starts_with("http"));
        self.options.retain(|(other, _)| name == "resolve" || !same(other));
        self.options.push((name.into(), value));
    }

    fn ask(&mut self, name: &'static str, value: String) {
        self.asked.retain(|(other, _)| *other != name);
        self.asked.push((name, value));
    }

    fn add_data(&mut self, name: &str, more: &[u8]) {
        self.json |= name == "json";
        let data = self.data.get_or_insert_default();
        if !data.is_empty() && name != "json" {
            data.push(b'&');
        }
        data.extend_from_slice(more);
    }

    /// One request for each URL.
    fn requests(mut self, read: ReadFile) -> Result<Vec<Imported>, String> {
        let query = if self.get { self.data.take() } else { None };
        let mut requests = Vec::new();
        for (i, url) in self.urls.iter().enumerate() {
            let several = if self.urls.len() > 1 { format!(", URL {}", i + 1) } else { String::new() };
            let place = format!("line {}{several}", self.line);
            let url = self.url(url, query.as_deref());
            let request = url.and_then(|url| self.request(url, self.uploads.get(i), read));
            let request = request.map_err(|error| format!("{place}: {error}"))?;
            requests.push(Imported { place, ..request }.checked()?);
        }
        some(
            requests,
            &format!("line {}: the command has no URL; add one, like http://localhost/", self.line),
        )
    }

    fn request(&self, mut url: String, upload: Option<&String>, read: ReadFile) -> Result<Imported, String> {
        let form = if self.json { "application/json" } else { "application/x-www-form-urlencoded" };
        let (method, body, content_type) = match (&self.data, &self.form[..], upload) {
            (None, [], None) => (if self.head { "HEAD" } else { "GET" }, None, None),
            _ if self.head => return Err("-I cannot come with a body; take it out, or add -G".into()),
            (Some(data), [], None) => ("POST", Some(data.clone()), Some(form.into())),
            (None, parts, None) => ("POST", Some(multipart(parts)), Some(FORM_TYPE.to_string() + BOUNDARY)),
            (None, [], Some(path)) => {
                url = with_file_name(url, path);
                ("PUT", Some(load(path, read)?), None)
            }
            _ => return Err("-d, -F and -T exclude each other; keep one of them".into()),
        };
        let mut request = Imported::new(String::new(), self.method.as_deref().unwrap_or(method), &url);
        request.headers = self.headers(content_type);
        (request.body, request.options) = (body, self.options.clone());
        Ok(request)
    }

    /// The URL that curl would ask for: with a scheme, without the marks of its globbing, with the data of -G.
    fn url(&self, url: &str, query: Option<&[u8]>) -> Result<String, String> {
        let url = url.split('#').next().unwrap_or_default();
        let url = if url.contains("://") { url.to_string() } else { format!("http://{url}") };
        let mut url = if self.globoff { url } else { unglobbed(&url)? };
        if let Some(query) = query.filter(|query| !query.is_empty()) {
            let joint = if url.contains('?') { "&" } else { "?" };
            url.push_str(if url.ends_with(['?', '&']) { "" } else { joint });
            url.push_str(&text(query.to_vec())?);
        }
        Ok(url)
    }

    /// First what other options ask for, then -H, which wins.
    fn headers(&self, content_type: Option<String>) -> Vec<(String, String)> {
        let mut asked = self.asked.clone();
        asked.push(("Cookie", self.cookies.join(";")));
        asked.push(("Accept", if self.json { "application/json".into() } else { String::new() }));
        asked.push(("Content-Type", content_type.unwrap_or_default()));
        // Only the form itself knows its boundary.
        let wins = |name: &str| self.form.is_empty() || !name.eq_ignore_ascii_case("content-type");
        let own = |name: &str| self.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name) && wins(n));
        asked.retain(|(name, value)| !value.is_empty() && !own(name));
        let asked = asked.into_iter().map(|(name, value)| (name.into(), value));
        let own = self.headers.iter().filter(|(name, _)| wins(name));
        asked.chain(own.filter_map(|(name, value)| Some((name.clone(), value.clone()?)))).collect()
    }
}

/// `Name: value`; `Name;` is one with an empty value, and `Name:` takes one away.
fn header(text: &str) -> Result<(String, Option<String>), String> {
    if let Some(path) = text.strip_prefix('@') {
        return Err(format!("-H @{path} reads headers from a file; write each one as -H 'Name: value'"));
    }
    match (text.split_once(':'), text.trim_end().strip_suffix(';')) {
        (Some((name, value)), _) if value.trim().is_empty() => Ok((name.trim().into(), None)),
        (Some((name, value)), _) => Ok((name.trim().into(), Some(value.trim().into()))),
        (None, Some(name)) => Ok((name.trim().into(), Some(String::new()))),
        (None, None) => Err(format!("the header {text:?} has no colon; write -H 'Name: value'")),
    }
}

/// The bytes that a data option stands for.
fn data(name: &str, value: Vec<u8>, read: ReadFile) -> Result<Vec<u8>, String> {
    match (name, value.strip_prefix(b"@")) {
        ("data-urlencode", _) => urlencoded(&text(value)?, read),
        ("data-raw", _) | (_, None) => Ok(value),
        (_, Some(path)) => {
            let mut bytes = load(&text(path.to_vec())?, read)?;
            bytes.retain(|byte| !matches!(name, "data" | "data-ascii") || !b"\r\n\0".contains(byte));
            Ok(bytes)
        }
    }
}

/// `content`, `=content`, `name=content`, `@file`, `name@file`: the name stays as it is.
fn urlencoded(value: &str, read: ReadFile) -> Result<Vec<u8>, String> {
    let (name, content) = match (value.split_once('='), value.split_once('@')) {
        (Some((name, content)), _) => (name, content.into()),
        (None, Some((name, path))) => (name, load(path, read)?),
        (None, None) => ("", value.into()),
    };
    let joint = if name.is_empty() { "" } else { "=" };
    Ok(format!("{name}{joint}{}", form_encoded(&content)).into_bytes())
}

fn text(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|error| {
        let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
        format!("{text:?} is not UTF-8; write it so")
    })
}

/// Takes off the backslashes that protect brackets from curl's globbing. Sets of URLs are not spelt out.
fn unglobbed(url: &str) -> Result<String, String> {
    // The brackets of an IPv6 address are no glob, nor is an empty pair.
    let path = Url::parse(url).map_or(0, |parts| url.len() - parts.rest.len());
    let protected = ["\\[", "\\]", "\\{", "\\}"];
    let bare = protected.iter().fold(url[path..].replace("[]", ""), |url, mark| url.replace(mark, ""));
    if bare.contains(['[', ']', '{', '}']) {
        return Err("curl takes brackets for a set of URLs; write these one by one, or add -g".into());
    }
    Ok(protected.iter().fold(url.into(), |url: String, mark| url.replace(mark, &mark[1..])))
}

/// Curl puts the name of an uploaded file at the end of a URL that names a folder.
fn with_file_name(url: String, path: &str) -> String {
    match Url::parse(&url).map(|parts| parts.rest.to_string()).as_deref() {
        Ok("") => format!("{url}/{}", file_name(path)),
        Ok(rest) if rest.ends_with('/') && !rest.contains('?') => format!("{url}{}", file_name(path)),
        _ => url,
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A part of a form (RFC 7578).
#[derive(Default)]
struct Part {
    name: String,
    file_name: Option<String>,
    content_type: Option<String>,
    content: Vec<u8>,
}

impl Part {
    /// `name=content`, as it stands.
    fn literal(field: &str) -> Result<Part, String> {
        let wrong = || format!("{field:?} is not a field; write it like -F name=value");
        let (name, content) = field.split_once('=').ok_or_else(wrong)?;
        Ok(Part { name: name.into(), content: content.into(), ..Part::default() })
    }

    /// `name=content` or `name=@file`, with `;type=` and `;filename=` after it.
    fn parse(field: &str, read: ReadFile) -> Result<Part, String> {
        let mut part = Part::literal(field)?;
        let value = text(mem::take(&mut part.content))?;
        let path = value.strip_prefix('@');
        let (word, suffixes) = form_word(path.unwrap_or(&value));
        if value.starts_with('<') || word.contains('\\') || path.is_some() && word.contains(',') {
            return Err(format!("dyno does not follow -F {field}; write it like name=value or name=@file"));
        }
        part.suffixes(suffixes)?;
        if path.is_none() {
            part.content = word.into();
            return Ok(part);
        }
        part.content = load(word, read)?;
        let file_name = part.file_name.get_or_insert_with(|| file_name(word).into());
        let guess = guess_type(file_name).or_else(|| guess_type(word)).unwrap_or("application/octet-stream");
        part.content_type.get_or_insert_with(|| guess.into());
        Ok(part)
    }

    fn suffixes(&mut self, mut rest: &str) -> Result<(), String> {
        while !rest.is_empty() {
            let suffix = rest.trim_start_matches([';', ' ']);
            if let Some(value) = suffix.strip_prefix("type=") {
                // A type may have parameters of its own, after semicolons.
                let (kind, after) = value.split_at(value.find(";filename=").unwrap_or(value.len()));
                (self.content_type, rest) = (Some(kind.trim().into()), after);
            } else if let Some(value) = suffix.strip_prefix("filename=") {
                let (name, after) = form_word(value);
                (self.file_name, rest) = (Some(name.into()), after);
            } else {
                let hint = "write ;type= or ;filename=, or quote the value like 'a=\"b;c\"'";
                return Err(format!("-F knows no {rest:?}; {hint}"));
            }
        }
        Ok(())
    }
}

/// A word up to a semicolon, or in double quotes, and what follows it.
fn form_word(text: &str) -> (&str, &str) {
    let quoted = text.trim_start().strip_prefix('"').and_then(|text| text.split_once('"'));
    let (word, rest) = quoted.unwrap_or_else(|| text.split_at(text.find(';').unwrap_or(text.len())));
    (if quoted.is_some() { word } else { word.trim() }, rest)
}

/// By the file's ending, from curl's own table.
fn guess_type(path: &str) -> Option<&'static str> {
    const TYPES: &str = "gif=image/gif jpg=image/jpeg jpeg=image/jpeg png=image/png svg=image/svg+xml txt=text/plain \
                         htm=text/html html=text/html pdf=application/pdf xml=application/xml";
    let ending = path.rsplit_once('.')?.1.to_ascii_lowercase();
    TYPES.split_whitespace().find_map(|pair| pair.strip_prefix(ending.as_str())?.strip_prefix('='))
}

/// The body of a form.
fn multipart(parts: &[Part]) -> Vec<u8> {
    let quoted = |text: &str| text.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A");
    let mut body = Vec::new();
    for part in parts {
        let file = part.file_name.iter().map(|name| format!("; filename=\"{}\"", quoted(name)));
        let kind = part.content_type.iter().map(|kind| format!("\r\nContent-Type: {kind}"));
        let head = format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{}\"", quoted(&part.name));
        let head = [head].into_iter().chain(file).chain(kind).chain(["\r\n\r\n".into()]).collect::<String>();
        body.extend([head.as_bytes(), &part.content, b"\r\n"].concat());
    }
    body.extend(format!("--{BOUNDARY}--\r\n").bytes());
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str) -> Result<Vec<u8>, String> {
        match path {
            "dir/a.txt" => Ok(b"1\r\n2\n".to_vec()),
            "b.bin" => Ok(vec![0, 255]),
            _ => Err("no such file".into()),
        }
    }

    /// All requests, each as `METHOD URL | Name: value | … | body`.
    fn shown(command: &str) -> String {
        let show = |r: Imported| {
            let mut parts = vec![format!("{} {}", r.method, r.url)];
            parts.extend(r.headers.iter().map(|(n, v)| format!("{n}: {v}")));
            parts.extend(r.body.map(|body| String::from_utf8_lossy(&body).into_owned()));
            parts.join(" | ")
        };
        let requests = curl(command, &read).unwrap_or_else(|error| panic!("{command:?} says {error}"));
        requests.into_iter().map(show).collect::<Vec<_>>().join(" + ")
    }

    /// Lines of `command → what is shown`. ⏎, ␍ and ␉ are what they look like, FORM the type of -d.
    fn check(cases: &str) {
        for case in cases.trim().lines() {
            let form = "Content-Type: application/x-www-form-urlencoded";
            let case = case.replace('⏎', "\n").replace('␍', "\r").replace('␉', "\t").replace("FORM", form);
            let (command, expected) = case.split_once(" → ").unwrap();
            assert_eq!(shown(command), expected, "{command}");
        }
    }

    #[test]
    fn words_are_split_as_by_a_shell() {
        check(
            r#"
curl 'http://a/it'\''s' → GET http://a/it's
curl "http://a/\"\\\$\`\d$'" → GET http://a/"\$`\d$'
curl http://a/"b"'c'$'d'\&e#f → GET http://a/bcd&e
$ curl \␍⏎  a/b \⏎ -H "X: 1\⏎2" # 'c → GET http://a/b | X: 12
⏎⏎/usr/bin/curl a -H X:\ \$'␉'y → GET http://a | X: $␉y
a:80/b → GET http://a:80/b
-X PUT ''a"" → PUT http://a
curl a -H 'X;' -H "Y: ⏎ " --data-raw z → POST http://a | FORM | X:  | z
curl a;curl b & → GET http://a + GET http://b
"#,
        );
    }

    #[test]
    fn ansi_quotes_make_any_byte() {
        check(
            r#"
curl a -A $'\'\\\"\?\t\x41\x9Z\u00e4\u41\ud83d\ude00!' → GET http://a | User-Agent: '\"?␉A␉ZäA😀!
curl a --data-raw $'{\n\r\u0021'\n → POST http://a | FORM | {⏎␍!n
"#,
        );
        assert_eq!(curl(r"curl a -d $'\xff\x00'x", &read).unwrap()[0].body, Some(vec![255, 0, b'x']));
    }

    #[test]
    fn a_script_may_have_several_commands_with_several_urls() {
        let text = "curl http://a/ -d 1 ;\n# then\ncurl \\\n b c && curl d/ &\ncurl --url e\n";
        let places: Vec<_> =
            curl(text, &read).unwrap().into_iter().map(|r| (r.place, r.method, r.url)).collect();
        let expected = [
            ("line 1", "POST", "http://a/"),
            ("line 3, URL 1", "GET", "http://b"),
            ("line 3, URL 2", "GET", "http://c"),
            ("line 4", "GET", "http://d/"),
            ("line 5", "GET", "http://e"),
        ];
        assert_eq!(places, expected.map(|(p, m, u)| (p.into(), m.into(), u.into())));
    }

    #[test]
    fn what_browsers_copy_is_read() {
        check(
            r#"
curl 'https://a.b/c?d=%20&e=\[1\]' \⏎  -H 'accept: */*' \⏎  -b 's=1; t="2"' \⏎  -H 'sec-ch-ua: "Not)A;B";v="8"' \⏎  --data-raw $'{"q":"it\'s\u0021"}' \⏎  --insecure ; → POST https://a.b/c?d=%20&e=[1] | Cookie: s=1; t="2" | FORM | accept: */* | sec-ch-ua: "Not)A;B";v="8" | {"q":"it's!"}
curl 'http://a/' --compressed -X 'POST' -H 'Content-Type: text/plain' --data-binary 'é' → POST http://a/ | Accept-Encoding: deflate, gzip, br, zstd | Content-Type: text/plain | é
"#,
        );
    }

    #[test]
    fn data_is_joined_read_and_encoded() {
        check(
            r"
curl a -d x=1 -dy --data-raw @z --data-ascii '' → POST http://a | FORM | x=1&y&@z&
curl a -d @dir/a.txt --data-binary @dir/a.txt → POST http://a | FORM | 12&1␍⏎2⏎
curl a --data-urlencode 'a b=c d&ü' --data-urlencode '=~=' --data-urlencode n@dir/a.txt → POST http://a | FORM | a b=c+d%26%C3%BC&~%3D&n=1%0D%0A2%0A
curl a --json '{}' --json @dir/a.txt → POST http://a | Accept: application/json | Content-Type: application/json | {}1␍⏎2⏎
curl a -H 'content-type: x' -H accept: --json 1 → POST http://a | content-type: x | 1
curl a -XGET -d 1 -H content-type: → GET http://a | 1
curl 'a?b#c' -G -d d --data-urlencode 'e= ' → GET http://a/?b&d&e=+
curl a? -IGd d → HEAD http://a/?d
curl a/ -T dir/a.txt → PUT http://a/a.txt | 1␍⏎2⏎
curl a/b -T dir/a.txt -X POST → POST http://a/b | 1␍⏎2⏎
",
        );
    }

    #[test]
    fn forms_are_multipart() {
        let text = "curl a -H content-type:multipart/form-data -F 'a\"=b;type=x/y; z=1' -F 'c=\";d\"' \
                    --form-string e=@f -F 'g=@dir/a.txt' -F 'h=@b.bin;filename=\"i;j.PNG\"' -F k=@b.bin";
        let b = BOUNDARY;
        let part = |head: &str, body: &str| {
            format!("--{b}\r\nContent-Disposition: form-data; name={head}\r\n\r\n{body}\r\n")
        };
        let parts = [
            part("\"a%22\"\r\nContent-Type: x/y; z=1", "b"),
            part("\"c\"", ";d"),
            part("\"e\"", "@f"),
            part("\"g\"; filename=\"a.txt\"\r\nContent-Type: text/plain", "1\r\n2\n"),
            part("\"h\"; filename=\"i;j.PNG\"\r\nContent-Type: image/png", "\0\u{fffd}"),
            part("\"k\"; filename=\"b.bin\"\r\nContent-Type: application/octet-stream", "\0\u{fffd}"),
        ];
        let body = format!("{}--{b}--\r\n", parts.concat());
        assert_eq!(
            shown(text),
            format!("POST http://a | Content-Type: multipart/form-data; boundary={b} | {body}")
        );
    }

    #[test]
    fn headers_of_options_give_way_to_those_written_out() {
        check(
            r"
curl a -u me:p:w -r0-9 -A x -A y -e 'z;auto' -b c=1 -b d=2 → GET http://a | Authorization: Basic bWU6cDp3 | Range: bytes=0-9 | User-Agent: y | Referer: z | Cookie: c=1;d=2
curl a --compressed -H 'Accept-Encoding: br' -A x -H user-agent: -u a: -H 'authorization: z' → GET http://a | Accept-Encoding: br | authorization: z
curl a -A '' -H 'Host: b' -H Content-Length:3 -H 'X: 1' -H 'X: 2' -H Y: → GET http://a | Host: b | X: 1 | X: 2
",
        );
    }

    #[test]
    fn options_that_mean_something_to_a_load_come_along() {
        let text = "curl -sSLk --resolve a:1:b -o/dev/null -w '%{http_code}' a --http2 --resolve c:2:d -m 9 --max-time=2.5 \
                    --cacert x -E y --key z --unix-socket /s --connect-timeout 1 --http1.1 -# --retry 3 -4 --";
        let options = curl(text, &read).unwrap().remove(0).options;
        let options: Vec<_> = options.iter().map(|(n, v)| format!("{n}={v}")).collect();
        let expected = "location= insecure= resolve=a:1:b resolve=c:2:d max-time=2.5 cacert=x cert=y key=z \
                        unix-socket=/s connect-timeout=1 http1.1=";
        assert_eq!(options.join(" "), expected);
    }

    #[test]
    fn brackets_are_only_taken_literally_where_curl_does() {
        check(
            r"
curl 'http://[::1]:80/a[]\{b\}' → GET http://[::1]:80/a[]{b}
curl -g 'a/{b}[1-2]\[' → GET http://a/{b}[1-2]\[
",
        );
    }

    /// `command → how the error begins`.
    const WRONG: &str = r#"
# → there is no curl command; paste one, like curl http://localhost:8080/
curl -s → line 1: the command has no URL; add one
wget a → line 1: expected curl, found "wget"; quote what holds blanks
curl a⏎ -H X:1 → line 2: expected curl, found "-H"; quote what holds blanks, ; or &, and end a line
curl \⏎ 'a⏎⏎ → line 2: the quote ' is never closed; add the other one
curl a \⏎ -d "$HOME" → line 2: a shell replaces $HOME…; write what comes out
curl `a` → line 1: a shell replaces `a…
curl a?b=1&c=2 → line 1: & is for a shell; quote what holds it
curl a | jq → line 1: | is for a shell
curl a 2>/dev/null → line 1: > is for a shell
curl a -d $'\ud83dx' → line 1: \u names no character; write it like \u00e4
curl a -d $'\q' → line 1: \q is not known in $'…'
curl ^"a^" → this command was copied for Windows; choose
curl a --heder x → line 1: dyno knows no --heder of curl; did you mean --header?
curl a -sy → line 1: --speed-time needs a value; write it after the option
curl a -sü → line 1: dyno knows no -ü of curl; take it out
curl a --silent=1 → line 1: --silent takes no value; take the = and what follows out
curl a --proxy x → line 1: dyno does not follow --proxy; take it out
curl a -H @x → line 1: -H @x reads headers from a file; write each one
curl a -H x → line 1: the header "x" has no colon; write -H 'Name: value'
curl a -H 'x y: z' → line 1: "x y" is not the name of a header
curl a -H $'x: y\nz: 1' → line 1: the value of header x holds a line break or NUL; take it out
curl a -H $'x: \xff' → line 1: "x: �" is not UTF-8; write it so
curl a -b jar → line 1: -b jar reads cookies from a file; write -b
curl a -u me → line 1: curl would ask for a password; write -u 'me:password'
curl http://u:p@a/ → line 1: the URL "http://u:p@a/" holds credentials
curl a -m soon → line 1: --max-time soon is not a number of seconds; write it like 2.5
curl \⏎ a \⏎ -d @x → line 3: x cannot be read (no such file); check the path
curl a -d @- → line 1: this would read standard input; put what it reads into a file
curl a -F x → line 1: "x" is not a field; write it like -F name=value
curl a -F 'x=@b.bin,c' → line 1: dyno does not follow -F x=@b.bin,c; write it
curl a -F 'x=1;encoder=y' → line 1: -F knows no ";encoder=y"; write ;type= or ;filename=
curl a -d x -F y=z → line 1: -d, -F and -T exclude each other; keep one of them
curl a -I -d x → line 1: -I cannot come with a body; take it out, or add -G
curl a/[1-9] b → line 1, URL 1: curl takes brackets for a set of URLs; write these one by one, or add -g
curl b ftp://a → line 1, URL 2: "ftp://a" begins with ftp://; write http://a or https://a
curl 'a b' → line 1: the URL "http://a b" holds a blank or control character; percent-encode it
curl a -X 'GE T' → line 1: "GE T" is not a method; write GET, POST or the like
"#;

    #[test]
    fn wrong_commands_are_named_with_what_to_do() {
        for case in WRONG.trim().lines() {
            let (command, begin) = case.split_once(" → ").unwrap();
            let error = curl(&command.replace('⏎', "\n"), &read).unwrap_err();
            assert!(error.starts_with(begin), "{command} says {error}");
        }
    }
}
