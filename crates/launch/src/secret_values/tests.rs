use super::*;

fn secrets(variables: &[(&str, &str)]) -> SecretValues {
    SecretValues::from_variables(variables.iter().map(|(name, value)| (*name, OsStr::new(value))))
}

fn erase(variables: &[(&str, &str)], text: &str) -> String {
    secrets(variables).erase(text.as_bytes(), &[]).replace(NOT_RECORDED, "#")
}

#[test]
fn values_of_withheld_variables_are_erased() {
    for name in ["NPM_TOKEN", "PGPASSWORD", "DB_PASS", "PGPASS", "AUTH", "MY_PAT", "API_KEYS"] {
        for value in ["Zq81hh-TT", "hunter2", "swordfish", "SwordFish", "123456", "pass phrase"] {
            let text = format!("a {value}, pg://u:{value}@h -p{value} \x1b[31m{value}\x1b[0m");
            assert_eq!(erase(&[(name, value)], &text), "a #, pg://u:#@h -p# \x1b[31m#\x1b[0m");
        }
    }
}

#[test]
fn short_and_common_values_leave_text_unchanged() {
    let variables = [
        ("TOKEN", "12"),
        ("NOT_RECORDED", ""),
        ("DB_PASS", "root"),
        ("AUTH_MODE", "disabled"),
        ("SESSION_STORE", "default"),
        ("CSRF_COOKIE", "enabled"),
        ("POSTGRES_PASSWORD", "postgres"),
        ("PIP_KEYRING_PROVIDER", "import"),
        ("AUTHOR", "somebody"),
        ("STORE", "session"),
        ("DATABASE_URL", "postgres://postgres:postgres@db/app"),
        ("NAME", "visible1"),
        ("PWD", "/a/b2345678"),
        ("MAVEN_OPTS", "-Xmx2048m -Dmy.host=example01.test -Dmy.token=1"),
    ];
    let text = "-Xmx2048m example01.test root: import of 12 visible1 sessions disabled \
                by somebody in /a/b2345678, postgres";
    assert_eq!(erase(&variables, text), text);
    let text = "postgresql listens on 123456789";
    assert_eq!(erase(&[("DB_PASS", "postgres"), ("PIN_TOKEN", "123456")], text), text);
}

/// The letters of an escape are not a part of the word after the escape.
#[test]
fn word_after_escape_is_erased() {
    for before in ["password\\u003d", "\\u001b[31m", "\\x1b[1;31m", "line\\n"] {
        let text = format!("{before}swordfish");
        assert_eq!(erase(&[("DB_PASS", "swordfish")], &text), format!("{before}#"));
    }
}

#[test]
fn parts_of_values_are_erased() {
    for (name, value, part) in [
        ("GRADLE_OPTS", "-Xmx1g -Dhttps.proxyPassword=swordfish", "swordfish"),
        ("TOOL_OPTS", "--user me --password swordfish", "swordfish"),
        ("http_proxy", "me:swordfish@proxy:3128", "swordfish"),
        ("HTTPS_PROXY", "https://me:swordfish@proxy:3128", "swordfish"),
        ("HTTPS_PROXY", "https://me:sword%40fish@proxy:3128", "sword@fish"),
        ("http_proxy", "http://me:p/wordfish@proxy", "p/wordfish"),
        ("ORIGIN", "https://ghp9876543@git.test/x", "ghp9876543"),
        ("AUTH", "Bearer opaque-words", "opaque-words"),
        ("SPRING_JSON", "{\"db\":{\"password\" : \"swordfish\"}}", "swordfish"),
        ("CONNECTION", "Server=db;User Id=sa;Password=swordfish;", "swordfish"),
        ("COMPOSER_AUTH", "{\"http-basic\":{\"x\":{\"password\":\"p4ssw0rds\"}}}", "p4ssw0rds"),
        (
            "DEPLOY_KEY",
            "-----BEGIN KEY-----\nb3BlbnNzaC1r\nZXktdjEAAAA\n-----END-----",
            "ZXktdjEAAAA",
        ),
    ] {
        assert_eq!(erase(&[(name, value)], &format!("got {part}.")), "got #.", "{name}={value}");
    }
    assert_eq!(erase(&[("DEPLOY_KEY", "first line\nsecond line")], "a first line\nb"), "a #\nb");
}

#[test]
fn escaped_values_are_erased() {
    for (value, text) in [
        ("a b+c/d=e%f", "a%20b%2Bc%2fd%3De%25f"),
        ("a b+c/d=e%f", "a+b%2Bc/d%3De%25f"),
        ("say \"hi\\you\"", "say \\\"hi\\\\you\\\""),
        ("say \"hi\"", "say \\u0022hi\\u0022"),
        ("first\nlast9", "first\\nlast9"),
        ("100%25sure", "100%25sure"),
        ("swordfish", "%73word%66ish"),
        ("pässwörtlang", "p\\u00e4ssw\\u00f6rtlang"),
        ("key😀word9", "key\\ud83d\\ude00word9"),
        ("Zq/t&Pw+7\"xK9<ü1", "Zq/t\\u0026Pw+7\\\"xK9\\u003c\\u00fc1"),
        ("pä9ssword", "p\\xc3\\xa49ssword"),
        ("pä9ssword", "p\\xe49ssword"),
        ("key😀word9", "key\\U0001f600word9"),
    ] {
        let text = format!("<{text}>");
        assert_eq!(erase(&[("MY_TOKEN", value)], &text), "<#>", "{value:?} in {text}");
    }
}

#[test]
fn escape_is_read_only_at_beginning_of_text() {
    assert_eq!(char_of_escape(b"\\u0041bcdef"), Some((6, 'A')));
    assert_eq!(char_of_escape(b"abcdef\\u0041"), None);
    assert_eq!(char_of_escape(b"\\ud83dabcdef"), None);
}

#[test]
fn values_in_base64_are_erased() {
    for value in ["swordfish", "Zq81hh", "Zq81hhT", "Zq81hhTT", "ÿþýüûúÿþ", "a?b>c~d?b>"] {
        for before in ["", "u", "me", "app"] {
            for after in ["", ":x", "\n"] {
                let whole = format!("{before}{value}{after}");
                for encoded in [STANDARD_NO_PAD.encode(&whole), URL_SAFE_NO_PAD.encode(&whole)] {
                    let shown = erase(&[("MY_TOKEN", value)], &format!("Basic {encoded}= ok"));
                    let kept = shown.split_once('#').unwrap_or_else(|| panic!("{shown}"));
                    assert!(kept.0.starts_with("Basic ") && kept.1.ends_with("= ok"), "{shown}");
                    let longest =
                        (8 * before.len()).div_ceil(6) + (8 * after.len()).div_ceil(6) + 1;
                    assert!(shown.len() <= "Basic #= ok".len() + longest, "{shown}");
                }
            }
        }
    }
}

/// Wherever output is cut, at most three bytes of a value remain.
#[test]
fn cut_values_are_erased() {
    for (value, spelled) in [
        ("Zq81-hhTT_xyz", "Zq81-hhTT_xyz"),
        ("a b+cdef9", "a%20b%2Bcdef9"),
        ("swordfish", "swordfish"),
    ] {
        let secrets = secrets(&[("MY_TOKEN", value)]);
        for at in 1..spelled.len() {
            let (first, last) = spelled.split_at(at);
            let before = secrets.erase(format!("x {first}").as_bytes(), &[first.len() + 2]);
            let after = secrets.erase(format!("{last} x").as_bytes(), &[0]);
            let both = secrets.erase(format!("x {first}y{last} x").as_bytes(), &[at + 2]);
            assert!(
                before.len() <= "x ".len() + 9 || before == format!("x {NOT_RECORDED}"),
                "{before}"
            );
            assert!(
                after.len() <= " x".len() + 9 || after == format!("{NOT_RECORDED} x"),
                "{after}"
            );
            assert!(first.len() < 12 || both.starts_with(&format!("x {NOT_RECORDED}")), "{both}");
        }
    }
}

#[test]
fn overlapping_and_binary_values_are_erased() {
    let variables = [("A_TOKEN", "abc123def"), ("B_TOKEN", "def456ghi")];
    assert_eq!(erase(&variables, "abc123def456ghi!"), "#!");
    let value = OsStr::from_bytes(b"\xFF\xFEbinary\xFD");
    let secrets = SecretValues::from_variables([("MY_TOKEN", value)]);
    assert_eq!(secrets.erase(b"a \xFF\xFEbinary\xFD b", &[]), format!("a {NOT_RECORDED} b"));
}
