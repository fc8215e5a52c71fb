//! What is nobody else's business: values whose names say so, of headers, settings and variables of the environment, and what values hold.

/// Parts of such names, in small letters, without anything between words.
const PARTS: [&str; 13] = [
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
    "xauth",
];

/// Whether the value of something named so is a secret.
#[must_use]
pub fn is_secret(name: &str) -> bool {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    let plain = letters.collect::<String>().to_ascii_lowercase();
    PARTS.iter().any(|part| plain.contains(part))
}

/// Whether the value of something named so is a secret, or may be one.
#[must_use]
pub fn may_be_secret(name: &str) -> bool {
    is_secret(name) || is_perhaps_secret(name)
}

/// Parts of names of what may be a secret, besides those of any name that says so ([`is_secret`]).
const PERHAPS: [&str; 6] = ["KEY", "AUTH", "PASS", "PWD", "CRED", "DSN"];

/// Variables by which a shell names the folder that it is in.
const FOLDERS: [&str; 2] = ["PWD", "OLDPWD"];

/// Whether the value of something named so may be a secret, although its name does not say so.
#[must_use]
pub fn is_perhaps_secret(name: &str) -> bool {
    let capitals = name.to_ascii_uppercase();
    // Bundler: BUNDLE_GEMS__EXAMPLE__COM is what opens gems.example.com, and settings are written alike.
    let is_bundlers = || name.strip_prefix("BUNDLE_").is_some_and(|host| host.contains("__"));
    !FOLDERS.contains(&name) && (PERHAPS.iter().any(|part| capitals.contains(part)) || is_bundlers())
}

/// Whether the value of a header of this name may be a secret: one of its words says so. Parts of words say nothing: `X-Bypass-Cache`.
#[must_use]
pub fn may_be_secret_header(name: &str) -> bool {
    let is_word = |word: &str| PERHAPS.iter().any(|part| part.eq_ignore_ascii_case(word));
    is_secret(name) || name.split(|c: char| !c.is_ascii_alphanumeric()).any(is_word)
}

/// Whether the value of a query's parameter of this name may be a secret: it says so, or is called no more than that. More would hide what people
/// search for: `sort_key`.
#[must_use]
pub fn is_secret_parameter(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let plain = plain.to_ascii_lowercase();
    let is_key_of = ["subscriptionkey", "accesskey"].iter().any(|end| plain.ends_with(end));
    is_secret(name) || is_key_of || ["key", "auth", "pass", "pwd", "sig"].contains(&&*plain)
}

/// Whether a value of any name holds a secret: settings within it that are called so, or a user's name and password.
#[must_use]
pub fn holds_secret(value: &str) -> bool {
    // Folders are called what they like, also `/opt/node@18/bin` and `/home/secretary`.
    let is_list_of_paths = value.split(':').all(|part| part.is_empty() || part.starts_with('/'));
    if is_list_of_paths && !value.contains(['=', '?', ' ']) {
        return false;
    }
    let set =
        value.split(|c: char| c.is_whitespace() || "?&;,".contains(c)).filter_map(|w| w.split_once('='));
    is_secret(value) || set.into_iter().any(|(name, _)| is_perhaps_secret(name)) || holds_userinfo(value)
}

/// Whether there is a `user:password@` that is not where URLs have it, without a scheme or with characters that end a URL's
/// authority.
fn holds_userinfo(value: &str) -> bool {
    let rest = without_userinfo(value).replace("***@", "").replace("://", "");
    rest.rsplit_once('@').is_some_and(|(before, _)| before.contains(':'))
}

/// Takes names and passwords out of URLs (RFC 3986 §3.2.1), of which a value may hold several.
#[must_use]
pub fn without_userinfo(value: &str) -> String {
    let mut shown = String::new();
    let mut rest = value;
    while let Some(at) = rest.find("://") {
        let (scheme, after) = rest.split_at(at + 3);
        shown.push_str(scheme);
        let end = end_of_authority(after);
        let authority = &after[..end];
        let host = authority.rfind('@').map(|at| &authority[at..]);
        shown.push_str(&host.map_or_else(|| authority.into(), |host| format!("***{host}")));
        rest = &after[end..];
    }
    shown + rest
}

/// Where the authority of a URL ends that may be one of a list: at a comma only where a host is before it. A password may have one.
#[must_use]
pub fn end_of_authority(text: &str) -> usize {
    let most = text.find(['/', '?', '#', '"', '\'', ' ']).unwrap_or(text.len());
    let whole = &text[..most];
    let cuts = whole.match_indices([',', '|']).map(|(at, _)| at);
    let mut cuts = cuts.filter(|at| whole[..*at].contains('@') || !whole.contains('@'));
    cuts.next().unwrap_or(most)
}
