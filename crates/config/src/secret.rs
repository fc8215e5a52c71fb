//! Detects secrets by the names of headers, settings and environment variables, and by the form of
//! values. Archives and reports withhold secrets.

/// Parts of names that mark a secret, in lower case, without separators.
const PARTS: [&str; 19] = [
    "authorization",
    "cookie",
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "apikey",
    "credential",
    "privatekey",
    "signature",
    "session",
    "sessid",
    "accountkey",
    "sharedkey",
    "xauth",
    "jwt",
    "csrf",
    "xsrf",
];

/// Whether a name marks its value as a secret.
#[must_use]
pub fn is_secret(name: &str) -> bool {
    let plain = small_letters(name);
    PARTS.iter().any(|part| plain.contains(part))
}

/// Whether the value of this name is a secret, or may be one.
#[must_use]
pub fn may_be_secret(name: &str) -> bool {
    is_secret(name) || is_possible_secret(name)
}

/// Parts of names whose values may be secrets, in addition to [`PARTS`].
const PERHAPS: [&str; 6] = ["KEY", "AUTH", "PASS", "PWD", "CRED", "DSN"];

/// Variables in which a shell stores its current folder.
const FOLDERS: [&str; 2] = ["PWD", "OLDPWD"];

/// Whether the value of this name may be a secret, although the name does not mark it.
#[must_use]
pub fn is_possible_secret(name: &str) -> bool {
    let capitals = name.to_ascii_uppercase();
    // PAT is a personal access token. It counts only as a whole word, because PATH is no secret.
    let has_pat = || capitals.split('_').any(|word| word == "PAT");
    // Bundler stores the credentials of gems.example.com in BUNDLE_GEMS__EXAMPLE__COM. Settings of
    // Bundler have names of the same form.
    let is_bundler_credential =
        || name.strip_prefix("BUNDLE_").is_some_and(|host| host.contains("__"));
    let has_mark = PERHAPS.iter().any(|mark| capitals.contains(mark));
    !FOLDERS.contains(&name) && (has_mark || has_pat() || is_bundler_credential())
}

/// Returns whether a word of a name marks its value as a secret, as in `DB_PASS` and `PGPASS`. Only
/// the end of a word is compared: a key ring is not a key, and an author is not authentication.
#[must_use]
pub fn has_secret_word(name: &str) -> bool {
    let capitals = name.to_ascii_uppercase();
    let ends_with_mark =
        |word: &str| word == "PAT" || PERHAPS.iter().any(|mark| word.ends_with(mark));
    let is_marked = |word: &str| {
        let singular = word.strip_suffix('S').unwrap_or(word);
        ends_with_mark(word) || ends_with_mark(singular)
    };
    let is_bundler_credential = || is_possible_secret(name) && name.starts_with("BUNDLE_");
    let mut words = capitals.split(|c: char| !c.is_ascii_alphabetic());
    !FOLDERS.contains(&name) && (words.any(is_marked) || is_bundler_credential())
}

/// Text that replaces a secret in records.
pub const NOT_RECORDED: &str = "(not recorded)";

/// Minimum length of a value that is erased from texts. Shorter values would match ordinary words.
pub const MIN_ERASED_CHARS: usize = 6;

/// Minimum length of a value that cannot be an ordinary word. Shorter values could match codes.
const MIN_DISTINCTIVE_CHARS: usize = 8;

/// Returns whether a value is unlikely to be an ordinary word: it is long, with letters and digits.
#[must_use]
pub fn is_distinctive(value: &str) -> bool {
    let has = |is: fn(&char) -> bool| value.chars().any(|c| is(&c));
    value.chars().count() >= MIN_DISTINCTIVE_CHARS
        && has(char::is_ascii_digit)
        && has(|c| c.is_alphabetic())
}

/// Words that describe the state of a setting, as in `AUTH=disabled`. These words are not secrets.
pub const STATES: &str = " yes no on off ok set unset empty missing required invalid expired valid \
                          present absent bearer basic digest string optional disabled enabled \
                          failed denied rejected refused revoked unknown incorrect mismatch \
                          created deleted started ended closed opened resumed accepted received \
                          unused found default ";

/// Words that mark a secret in names of headers, in addition to [`PERHAPS`]. DPoP is a proof of RFC
/// 9449.
const HEADER_WORDS: [&str; 3] = ["DPOP", "HMAC", "AUTHENTICATION"];

/// Whether the value of a header of this name may be a secret. One word of the name is a mark of a
/// secret, or the name or one of its words ends with a mark: `X-LicenseKey`.
#[must_use]
pub fn may_be_secret_header(name: &str) -> bool {
    let is_marked = |word: &str| {
        let word = word.to_ascii_lowercase();
        let mut marks = HEADER_WORDS.iter().chain(&FIELDS);
        marks.any(|mark| mark.eq_ignore_ascii_case(&word))
            || !HARMLESS_WORDS.contains(&&*word)
                && PERHAPS.iter().any(|mark| word.ends_with(&mark.to_ascii_lowercase()))
    };
    let is_field = || is_secret_field(name.trim_start_matches(['x', 'X']));
    is_secret(name) || is_field() || name.split(|c: char| !c.is_ascii_alphanumeric()).any(is_marked)
}

/// Words of header names that end like a mark of a secret by chance.
const HARMLESS_WORDS: [&str; 4] = ["bypass", "compass", "hotkey", "monkey"];

/// Complete names of parameters whose values may be secrets. `code` is a name of OAuth 2.0 (RFC
/// 6749 §4.1.2), and `ticket` is a name of CAS.
const PARAMETERS: [&str; 4] = ["key", "auth", "code", "ticket"];

/// Words that mark a secret in settings and headers, too, not only in queries and forms as
/// [`PARAMETERS`] do. `assertion` is a name of OAuth 2.0 (RFC 7521 §4.1). `key` and `code` are
/// excluded, because programs have other keys and codes.
const FIELDS: [&str; 19] = [
    "pass",
    "pwd",
    "sig",
    "hmac",
    "otp",
    "totp",
    "mfa",
    "assertion",
    "samlresponse",
    "samlart",
    "dpop",
    "pin",
    "passcode",
    "cvv",
    "cvc",
    "ssn",
    "creditcard",
    "cardnumber",
    "dsn",
];

/// Whether the value of a query parameter of this name may be a secret: the name contains a mark of
/// a secret, or is one of `PARAMETERS`. A wider rule would hide harmless parameters: `sort_key`.
#[must_use]
pub fn is_secret_parameter(name: &str) -> bool {
    let name = without_escapes(name);
    let last = name.rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    let is_field = is_secret_field(&name) || FIELDS.contains(&&*last.to_ascii_lowercase());
    is_secret(&name) || is_field || PARAMETERS.contains(&&*small_letters(&name))
}

/// Whether the value of a field or setting of this name may be a secret, although the name does not
/// mark it: `pin`, `db_pass`, `AccessKey`.
#[must_use]
pub fn is_secret_field(name: &str) -> bool {
    let plain = small_letters(name);
    let is_key_of =
        ["subscriptionkey", "accesskey", "accesskeyid"].iter().any(|end| plain.ends_with(end));
    let last = name.rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    let is_password = ["pass", "pwd"].iter().any(|word| word.eq_ignore_ascii_case(last));
    !FOLDERS.contains(&name) && (is_key_of || is_password || FIELDS.contains(&&*plain))
}

/// Returns a name in lower case, without separators.
#[must_use]
pub fn small_letters(name: &str) -> String {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    letters.collect::<String>().to_ascii_lowercase()
}

/// Decodes percent-encoded characters of a part of a URL (RFC 3986 §2.1): `%74oken` is `token`. A
/// URL within a URL may be encoded several times: `%2574oken` is `token`, too. Non-ASCII bytes
/// remain encoded, because names of secrets do not contain them.
#[must_use]
pub fn without_escapes(text: &str) -> String {
    const MAX_DEPTH: usize = 4;
    let mut plain = text.to_string();
    for _ in 0..MAX_DEPTH {
        let decoded = decode_escapes(&plain);
        if decoded == plain {
            break;
        }
        plain = decoded;
    }
    plain
}

fn decode_escapes(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut remainder = text;
    while let Some(at) = remainder.find('%') {
        shown.push_str(&remainder[..at]);
        let byte =
            remainder.get(at + 1..at + 3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let (c, taken) = byte.filter(u8::is_ascii).map_or(('%', 1), |byte| (char::from(byte), 3));
        shown.push(c);
        remainder = &remainder[at + taken..];
    }
    shown + remainder
}

/// Returns a URL, or its part from the path on, with each parameter replaced by the result of
/// `shown`. Parameters are in the query (`name=value` between `&` or `;`) and in segments of the
/// path (`;name=value`, RFC 3986 §3.3).
#[must_use]
pub fn with_parameters(url: &str, mut shown: impl FnMut(&str) -> String) -> String {
    let (path, query) =
        url.split_once('?').map_or((url, None), |(path, query)| (path, Some(query)));
    let segments = path.split('/').map(|segment| {
        let mut parts = segment.split(';');
        let first = parts.next().unwrap_or_default().to_string();
        parts.fold(first, |all, part| all + ";" + &shown(part))
    });
    let path = segments.collect::<Vec<String>>().join("/");
    let Some(query) = query else { return path };
    let pairs = query.split('&').map(|pairs| {
        let pairs: Vec<String> = parameters(pairs).into_iter().map(&mut shown).collect();
        pairs.join(";")
    });
    let query = pairs.collect::<Vec<String>>().join("&");
    format!("{path}?{query}")
}

/// Returns the parameters between `;`. A `;` without a name after it is part of a value.
fn parameters(text: &str) -> Vec<&str> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "_.-%[]".contains(c);
    let is_named = |option: &str| {
        option
            .split_once('=')
            .is_some_and(|(name, _)| !name.is_empty() && name.chars().all(is_of_name))
    };
    let starts = text.match_indices(';').map(|(at, _)| at + 1).filter(|at| is_named(&text[*at..]));
    let starts: Vec<usize> = [0].into_iter().chain(starts).collect();
    let ends = starts.iter().skip(1).map(|start| start - 1).chain([text.len()]);
    starts.iter().zip(ends).map(|(start, end)| &text[*start..end]).collect()
}

/// Schemes of HTTP authentication whose credentials are one word after the scheme (RFC 9110 §11.4).
const SCHEMES: [&str; 6] = ["basic", "bearer", "negotiate", "ntlm", "token", "apikey"];

/// Prefixes of tokens of services, as scanners for leaked secrets use them.
const PREFIXES: [&str; 44] = [
    "AGE-SECRET-KEY-",
    "AIza",
    "AKIA",
    "ATATT3",
    "ASIA",
    "PMAK-",
    "SG.",
    "dckr_pat_",
    "doo_v1_",
    "dop_v1_",
    "dor_v1_",
    "figd_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "glsa_",
    "hf_",
    "hvs.",
    "lin_api_",
    "npm_",
    "nvapi-",
    "pscale_",
    "pypi-",
    "rk_live_",
    "rubygems_",
    "shpat_",
    "shpca_",
    "shppa_",
    "shpss_",
    "sk-",
    "sq0atp-",
    "sk_live_",
    "sk_test_",
    "tskey-",
    "whsec_",
    "xapp-",
    "xoxb-",
    "xoxp-",
    "xoxs-",
    "ya29.",
];

/// Minimum length of a token with a known prefix. Shorter words are ordinary, such as `sk-learn`.
const SHORTEST_TOKEN: usize = 16;

/// Minimum length of credentials after a scheme. `Token ring` and `Basic plan` do not contain
/// credentials.
const SHORTEST_CREDENTIALS: usize = 6;

/// Whether a value looks like credentials, regardless of its name: a scheme and a word, a JSON Web
/// Token (RFC 7519), or a token of a known service.
#[must_use]
pub fn is_credential(value: &str) -> bool {
    let has_scheme = value.trim().split_once(' ').is_some_and(|(scheme, word)| {
        let word = word.trim();
        let is_word = |b: u8| b.is_ascii_alphanumeric() || b"-._~+/=".contains(&b);
        is_scheme(scheme)
            && word.len() >= SHORTEST_CREDENTIALS
            && word.bytes().all(is_word)
            // A challenge, which a server sends, has parameters.
            && !word.contains("realm=")
    });
    let is_end = |c: char| c.is_whitespace() || "=;,\"'&?:".contains(c);
    has_scheme || value.split(is_end).any(is_token)
}

/// Whether a word is an authentication scheme whose credentials are one word.
#[must_use]
pub fn is_scheme(word: &str) -> bool {
    SCHEMES.iter().any(|known| known.eq_ignore_ascii_case(word))
}

/// Whether a word has the form of a token: a JSON Web Token, or a token of a known service.
#[must_use]
pub fn is_token(word: &str) -> bool {
    is_web_token(word) || is_token_of_service(word)
}

fn is_web_token(word: &str) -> bool {
    let is_part =
        |part: &str| part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    // The header of a token is JSON. It begins with `{"`, in Base64 `eyJ`.
    word.starts_with("eyJ") && word.split('.').count() == 3 && word.split('.').all(is_part)
}

fn is_token_of_service(word: &str) -> bool {
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    let Some(random) = PREFIXES.iter().find_map(|prefix| word.strip_prefix(prefix)) else {
        return false;
    };
    word.len() >= SHORTEST_TOKEN && word.bytes().all(is_token) && looks_random(random)
}

/// Whether the part of a token after its prefix looks random. It has a digit, or is one word with
/// letters of both cases, or is a long word in capitals. `sk-learn-contributors` is none of these.
fn looks_random(random: &str) -> bool {
    let has = |is: fn(&u8) -> bool| random.bytes().any(|b| is(&b));
    let is_one_word = random.bytes().all(|b| b.is_ascii_alphanumeric());
    let has_capital = has(u8::is_ascii_uppercase);
    let is_long_or_mixed = has(u8::is_ascii_lowercase) || random.len() >= 16;
    has(u8::is_ascii_digit) || (is_one_word && has_capital && is_long_or_mixed)
}

/// Whether a value contains a secret, regardless of its name: credentials, settings with a secret
/// name, or a user name and password.
#[must_use]
pub fn holds_secret(value: &str) -> bool {
    // Paths are excluded, because folders have names such as `/opt/node@18/bin` and
    // `/home/secretary`.
    let is_list_of_paths = value.split(':').all(|part| part.is_empty() || part.starts_with('/'));
    if is_list_of_paths && !value.contains(['=', '?', ' ']) {
        return false;
    }
    let set = value
        .split(|c: char| c.is_whitespace() || "?&;,".contains(c))
        .filter_map(|w| w.split_once('='));
    is_credential(value)
        || is_secret(value)
        || set.into_iter().any(|(name, _)| is_possible_secret(name))
        || holds_userinfo(value)
}

/// Whether there is a `user:password@` that [`without_userinfo`] does not find: without a scheme,
/// or with a password that contains a character that ends an authority, such as `/`.
fn holds_userinfo(value: &str) -> bool {
    // Colons of schemes, and passwords that were found, do not count.
    let remainder = without_userinfo(value).replace("***@", "").replace("://", "");
    remainder.rsplit_once('@').is_some_and(|(before, _)| before.contains(':'))
}

/// Replaces user names and passwords in the URLs of a value (RFC 3986 §3.2.1).
#[must_use]
pub fn without_userinfo(value: &str) -> String {
    let mut shown = String::new();
    let mut remainder = value;
    while let Some(at) = remainder.find("://") {
        let (scheme, after) = remainder.split_at(at + 3);
        shown.push_str(scheme);
        let end = end_of_authority(after);
        let authority = &after[..end];
        let host = authority.rfind('@').map(|at| &authority[at..]);
        shown.push_str(&host.map_or_else(|| authority.into(), |host| format!("***{host}")));
        remainder = &after[end..];
    }
    shown + remainder
}

/// Returns the end of a URL's authority. In a list of URLs, a comma or `|` ends the authority. A
/// comma or `|` before the `@` does not end it, because a password may contain these characters.
#[must_use]
pub fn end_of_authority(text: &str) -> usize {
    let is_end = |c: char| c.is_whitespace() || "/?#\"'<>`".contains(c);
    let terminator = text.find(is_end).unwrap_or(text.len());
    let whole = &text[..terminator];
    let cuts = whole.match_indices([',', '|']).map(|(at, _)| at);
    let mut cuts = cuts.filter(|at| whole[..*at].contains('@') || !whole.contains('@'));
    cuts.next().unwrap_or(terminator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_names_of_headers_and_parameters_are_detected() {
        let headers = ["X-CSRF-Token", "X-Csrf", "x-xsrf", "X-JWT-Assertion", "X-Api-Key", "DPoP"];
        let fields = ["Authentication", "X-Hub-HMAC", "X-OTP", "X-User-Pin", "X-TOTP"];
        let joined = ["AccessKey", "X-LicenseKey", "X-UserPass", "X-Card-Number"];
        for header in headers.into_iter().chain(fields).chain(joined) {
            assert!(may_be_secret_header(header), "{header}");
        }
        for header in ["X-Bypass-Cache", "X-Shipping", "Accept", "X-Spin"] {
            assert!(!may_be_secret_header(header), "{header}");
        }
        for parameter in ["jwt", "id_token", "code", "otp", "user_pin", "X-Amz-Signature"] {
            assert!(is_secret_parameter(parameter), "{parameter}");
        }
        for escaped in ["%74oken", "api%5Fkey", "p%61ss%77ord", "%63ode", "%252574oken"] {
            assert!(is_secret_parameter(escaped), "{escaped}");
        }
        for plain in ["country_code", "zip_code", "sort_key", "tickets", "page", "spin", "compass"]
        {
            assert!(!is_secret_parameter(plain), "{plain}");
        }
        let fields = ["pin", "db_pass", "AccessKey", "PGPWD", "otp", "hmac", "SAMLResponse", "mfa"];
        for field in fields.into_iter().chain(["AWSAccessKeyId", "creditCard", "card_number"]) {
            assert_eq!(is_secret_field(field), field != "PGPWD", "{field}");
        }
        for plain in ["key", "code", "PWD", "OLDPWD", "shipping", "id"] {
            assert!(!is_secret_field(plain), "{plain}");
        }
        assert!(is_possible_secret("GITHUB_PAT") && !is_possible_secret("PATH"));
    }

    #[test]
    fn with_parameters_replaces_query_and_path_parameters() {
        let shown = |pair: &str| format!("<{pair}>");
        for (url, expected) in [
            ("/a/b", "/a/b"),
            ("/a;x=1/b;y;z=2?p=1&q", "/a;<x=1>/b;<y>;<z=2>?<p=1>&<q>"),
            ("http://h/a;jsessionid=1#f", "http://h/a;<jsessionid=1#f>"),
            ("/a?p=;&q=/;r=1", "/a?<p=;>&<q=/>;<r=1>"),
            ("/a?x=1;token=2;3&y", "/a?<x=1>;<token=2;3>&<y>"),
        ] {
            assert_eq!(with_parameters(url, shown), expected);
        }
        assert_eq!(without_escapes("a%2Bb%zz%C3%A4%"), "a+b%zz%C3%A4%");
    }

    #[test]
    fn credentials_are_detected_under_any_name() {
        for value in [
            "Basic dXNlcjpwYXNz",
            "bearer 0a1b2c3d4e",
            "Bearer  some.opaque-token",
            "Token 9944b09199c62bcf",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
            "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
            "v=1; key=glpat-abcdefghij0123456789",
            "AKIAIOSFODNN7EXAMPLE",
            "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
            "shpat_0123456789abcdef0123456789abcdef",
            // Without a digit: `hf_[A-Za-z]{34}`, and a few per cent of other tokens.
            "hf_AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGh",
            "glpat-xYzAbCdEfGhIjKlMnOpQ",
            "AKIAIOSFODNNEXAMPLEX",
        ] {
            assert!(is_credential(value) && holds_secret(value), "{value}");
        }
        for plain in [
            "",
            "Basic",
            "Basic plan",
            "Basic realm=\"staging\"",
            "Token ring",
            "application/json; charset=utf-8",
            "gzip, br;q=0.9",
            "sk-learn",
            "sk-learn-and-other-libraries",
            "npm_config_registry_of_mine",
            "eyJ",
            "Wed, 21 Oct 2015 07:28:00 GMT",
            "\"33a64df551425fcc55e4d42a148795d9f25f89d4\"",
            "Mozilla/5.0 (X11; Linux x86_64)",
            "550e8400-e29b-41d4-a716-446655440000",
        ] {
            assert!(!is_credential(plain), "{plain}");
        }
    }
}
