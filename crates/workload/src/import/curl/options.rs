//! The table of curl's options, and the parser of a word with options.

use dyno_config::text::nearest;

use super::shell::into_text;

/// Whether an option takes a value, and whether it has an effect on a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OptionKind {
    Flag,
    Value,
    /// A flag without effect on a load.
    IgnoredFlag,
    /// An option with a value, without effect on a load.
    IgnoredValue,
    /// An option that would change the requests in a way that dyno does not support.
    Refused,
}

/// The known options of curl: the long name, and the short name after a slash.
const OPTIONS: [(OptionKind, &str); 5] = [
    (
        OptionKind::Flag,
        "compressed get/G head/I insecure/k location/L location-trusted globoff/g http1.1 http2 \
         http2-prior-knowledge",
    ),
    (
        OptionKind::Value,
        "request/X header/H data/d data-ascii data-raw data-binary data-urlencode json form/F \
         form-string user-agent/A referer/e cookie/b user/u oauth2-bearer range/r upload-file/T \
         url max-time/m connect-timeout resolve unix-socket cacert cert/E key",
    ),
    (
        OptionKind::IgnoredFlag,
        "silent/s show-error/S verbose/v include/i show-headers fail/f fail-with-body fail-early \
         progress-bar/# no-progress-meter no-buffer/N remote-name/O remote-name-all \
         remote-header-name/J remote-time/R disable/q basic ipv4/4 ipv6/6 no-keepalive tlsv1/1 \
         tlsv1.0 tlsv1.1 tlsv1.2 tlsv1.3 no-sessionid tcp-nodelay tcp-fastopen path-as-is raw \
         create-dirs parallel/Z parallel-immediate trace-time no-styled-output post301 post302 \
         post303 retry-all-errors retry-connrefused junk-session-cookies/j no-clobber \
         remove-on-error http0.9",
    ),
    (
        OptionKind::IgnoredValue,
        "output/o output-dir write-out/w dump-header/D stderr trace trace-ascii cookie-jar/c \
         libcurl retry retry-delay retry-max-time max-redirs max-filesize speed-limit/Y \
         speed-time/y keepalive-time parallel-max proto proto-redir noproxy expect100-timeout \
         happy-eyeballs-timeout-ms etag-save",
    ),
    (
        OptionKind::Refused,
        "proxy/x preproxy socks4 socks4a socks5 socks5-hostname proxy-user/U proxytunnel/p digest \
         ntlm negotiate anyauth aws-sigv4 netrc/n netrc-file netrc-optional config/K http1.0/0 \
         http3 http3-only url-query request-target proto-default continue-at/C time-cond/z \
         etag-compare limit-rate connect-to pass next/: no-alpn tls-max ciphers tls13-ciphers \
         curves cert-type key-type",
    ),
];

/// Returns the kind, the long and the short name of each option.
fn options() -> impl Iterator<Item = (OptionKind, &'static str, Option<char>)> {
    OPTIONS.iter().flat_map(|&(kind, names)| {
        names.split_whitespace().map(move |name| match name.split_once('/') {
            Some((long, short)) => (kind, long, short.chars().next()),
            None => (kind, name, None),
        })
    })
}

/// Returns the kind and long name of each option.
#[cfg(test)]
pub fn names() -> impl Iterator<Item = (OptionKind, &'static str)> {
    options().map(|(kind, long, _)| (kind, long))
}

/// Returns the options in a word, and the value of the last option, if the word contains this
/// value. A word without a dash is a URL, and is returned as the value of `--url`.
pub fn parse_word(
    word: &[u8],
) -> Result<(Vec<(OptionKind, &'static str)>, Option<Vec<u8>>), String> {
    let value = |bytes: &[u8]| Some(bytes.to_vec()).filter(|bytes| !bytes.is_empty());
    let mut letters = match word {
        b"--" => return Ok((Vec::new(), None)),
        [b'-', b'-', option @ ..] => return parse_long(&into_text(option.to_vec())?),
        [b'-', letters @ ..] if !letters.is_empty() => letters,
        _ => return Ok((vec![(OptionKind::Value, "url")], Some(word.to_vec()))),
    };
    let mut parsed = Vec::new();
    while let Some((&letter, rest)) = letters.split_first() {
        let option = options().find(|(_, _, short)| *short == Some(char::from(letter)));
        let character = String::from_utf8_lossy(letters).chars().next().unwrap_or_default();
        let unknown = || {
            format!(
                "-{character}: unknown option of curl\nhint: remove the option if the load does \
                 not need it"
            )
        };
        let (kind, name, _) = option.ok_or_else(unknown)?;
        parsed.push((kind, name));
        if matches!(kind, OptionKind::Value | OptionKind::IgnoredValue) {
            return Ok((parsed, value(rest)));
        }
        letters = rest;
    }
    Ok((parsed, None))
}

/// Parses a long option, with `=` and a value or without.
fn parse_long(option: &str) -> Result<(Vec<(OptionKind, &'static str)>, Option<Vec<u8>>), String> {
    let (name, value) = option.split_once('=').map_or((option, None), |(n, v)| (n, Some(v.into())));
    match options().find(|(_, long, _)| *long == name) {
        Some((OptionKind::Flag | OptionKind::IgnoredFlag, ..)) if value.is_some() => {
            Err(format!("--{name}: takes no value\nhint: remove the = and the text after it"))
        }
        Some((kind, name, _)) => Ok((vec![(kind, name)], value)),
        None => Err(match nearest(name, options().map(|(_, long, _)| long)) {
            Some(near) => format!("--{name}: unknown option of curl\nhint: did you mean --{near}?"),
            None => {
                format!(
                    "--{name}: unknown option of curl\nhint: remove the option if the load does \
                     not need it"
                )
            }
        }),
    }
}
