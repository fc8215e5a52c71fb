use std::collections::BTreeMap;

use serde_json::Value;

use super::*;

mod amounts;
mod bytes;
mod headers;
mod members;
mod messages;
mod names;
mod plan;
mod urls;

fn words(line: &str) -> Vec<String> {
    shlex::split(line).unwrap()
}

#[test]
fn command_in_any_spelling_withholds_secrets() {
    for line in [
        "dyno load -H 'Authorization: Bearer abc123xyz' http://x/",
        "dyno load --header 'Cookie: id=abc123xyz' http://x/",
        "dyno load '--header=X-Api-Key: abc123xyz' http://x/",
        "dyno load '-HX-Auth-Token:abc123xyz' http://x/",
        "dyno load http://me:abc123xyz@x/",
        "dyno load --curl \"curl -H 'Authorization: abc123xyz' http://x/\"",
        "dyno load --curl 'curl -u bob:abc123xyz http://x/'",
        "dyno load --curl 'curl -sSubob:abc123xyz http://x/'",
        "dyno load --curl 'curl -ksu bob:abc123xyz http://x/'",
        "dyno load --curl='curl --user=bob:abc123xyz http://x/'",
        "dyno load --curl 'curl --proxy-user bob:abc123xyz http://x/'",
        "dyno load --curl 'curl --oauth2-bearer abc123xyz http://x/'",
        "dyno load --curl 'curl -u abc123xyz: http://x/'",
        "dyno load --curl 'curl -u abc123xyz http://x/'",
        "dyno load --curl 'curl --cert c.pem:abc123xyz http://x/'",
        "dyno load --curl 'curl --pass abc123xyz http://x/'",
        "dyno load --curl 'curl -b id=abc123xyz http://x/'",
        "dyno load --curl 'http://x/ -u admin:abc123xyz'",
        "dyno load '--curl=http://x/ -u admin:abc123xyz'",
        "dyno load --curl 'curl\thttp://x/ -u admin:abc123xyz'",
        "dyno load --curl \"http://x/ -d \\$'it\\\\'s' -u 'b c:abc123xyz' -d \\$'it\\\\'s'\"",
        "dyno load --curl \"http://x/ -u admin:abc123xyz -d 'unclosed\"",
    ] {
        let mut secrets = Secrets::default();
        let redacted = crate::shell::command(&secrets.command(&words(line)));
        assert!(!redacted.contains("abc123xyz") && redacted.contains(MARK), "{line}: {redacted}");
        assert_eq!(secrets.count, 1, "{line}");
    }
    for plain in [
        "dyno run -H 'Accept: */*' suite.toml --only a --seed 7",
        "dyno load --curl 'curl -u bob -sS --compressed -X POST http://x/'",
        "dyno load --curl 'curl --cert client.pem --key k.pem http://x/'",
    ] {
        let mut secrets = Secrets::default();
        assert_eq!(secrets.command(&words(plain)), words(plain));
        assert_eq!(secrets.count, 0);
    }
}

/// Parts of `user:password` are erased elsewhere, too.
#[test]
fn users_and_passwords_are_separate_secrets() {
    for (user, secrets_elsewhere) in [
        ("abc123xyz:", vec!["abc123xyz"]),
        ("loadtest01:hunter2pw", vec!["hunter2pw"]),
        ("abc123xyz:x-oauth-basic", vec!["abc123xyz"]),
    ] {
        let mut secrets = Secrets::default();
        let line = format!("dyno load --curl 'curl -u {user} http://x/'");
        let redacted = crate::shell::command(&secrets.command(&words(&line)));
        let log = secrets.erase_from_foreign("- abc123xyz [28/Nov] password hunter2pw");
        for secret in secrets_elsewhere {
            assert!(!redacted.contains(secret), "{redacted}");
            assert!(!log.contains(secret), "{log}");
        }
    }
}

#[test]
fn source_withholds_secret_settings_only() {
    let source = "name = \"tokens\"\nheaders = \
                  { Authorization = \"Bearer a\\\"bc\", Accept = \"*/*\" }\n\"Cookie\" = \
                  \"id=1\"\nsubjects = [\"token-a\", \"b\"]\nenv = \
                  { API_TOKEN = 'x y', LANG = \"C\" }\nabout = \"token: how to\"\nunclosed = \"";
    let mut secrets = Secrets::default();
    let redacted = secrets.source(source);
    assert_eq!(
        redacted,
        "name = \"tokens\"\nheaders = \
         { Authorization = \"(withheld)\", Accept = \"*/*\" }\n\"Cookie\" = \
         \"(withheld)\"\nsubjects = [\"token-a\", \"b\"]\nenv = \
         { API_TOKEN = '(withheld)', LANG = \"C\" }\nabout = \"token: how to\"\nunclosed = \""
    );
    assert_eq!(secrets.count, 3);
}

#[test]
fn source_withholds_credentials_of_any_name() {
    let source = "headers = { X-Custom = \"Basic dXNlcjpwYXNz\", Accept = \"*/*\" }\n";
    assert_eq!(
        Secrets::default().source(source),
        "headers = { X-Custom = \"(withheld)\", Accept = \"*/*\" }\n"
    );
}

#[test]
fn source_withholds_whole_lists_of_secrets() {
    let source = "vary = { \"request.token\" = [\"a1\", # ] first\n  # and\n  \"b1\"], \
                  \"env.LANG\" = [\"C\", \"D\"] }";
    assert_eq!(
        Secrets::default().source(source),
        source.replace("\"a1\"", "\"(withheld)\"").replace("\"b1\"", "\"(withheld)\"")
    );
}

#[test]
fn source_withholds_ambiguous_settings_and_url_passwords() {
    let source = "env = { DB_PASS = \"sesame\", URL = \"postgres://u:tomtom@h/d\", PORT = \"80\" }";
    let redacted = Secrets::default().source(source);
    assert_eq!(
        redacted,
        "env = { DB_PASS = \"(withheld)\", URL = \"postgres://u:(withheld)@h/d\", PORT = \"80\" }"
    );
}

/// The archive omits variables of a server's environment by the same rules as reports.
#[test]
fn source_withholds_environment_values_with_secrets() {
    for (source, redacted) in [
        ("env = { OPTS = \"-Dhttps.proxyPassword=hunter2\" }", "env = { OPTS = \"(withheld)\" }"),
        (
            "[subjects.env]\nhttp_proxy = 'me:pw@proxy:3128'",
            "[subjects.env]\nhttp_proxy = '(withheld)'",
        ),
        ("env.OPTS = \"-Dx=\\\"a\\\" -Dy.secret=b\"", "env.OPTS = \"(withheld)\""),
        (
            "vary = { \"env.OPTS\" = [\"-Dx.password=a\", \"-Xmx1g\"] }",
            "vary = { \"env.OPTS\" = [\"(withheld)\", \"-Xmx1g\"] }",
        ),
        (
            "env = { HOSTS = \"pg://u:p1@h1/d,pg://u:p2@h2/d\" }",
            "env = { HOSTS = \"pg://u:(withheld)@h1/d,pg://u:(withheld)@h2/d\" }",
        ),
        (
            "env = { GIT = \"https://ghp_abc123@github.com/x\" }",
            "env = { GIT = \"https://(withheld)@github.com/x\" }",
        ),
        // A description is not a setting.
        (
            "description = \"H2O's session tickets\"\nenv = {}",
            "description = \"H2O's session tickets\"\nenv = {}",
        ),
        ("env = { URL = \"pg://postgres@h/d\" }", "env = { URL = \"pg://postgres@h/d\" }"),
    ] {
        assert_eq!(Secrets::default().source(source), redacted);
    }
}

#[test]
fn ambiguous_headers_and_parameters_are_withheld() {
    let mut secrets = Secrets::default();
    for line in ["Ocp-Apim-Subscription-Key: opensesame", "x-functions-key: opensesame"] {
        let name = line.split(':').next().unwrap();
        assert_eq!(secrets.header_line(line), format!("{name}: (withheld)"));
    }
    let url = "http://x/?key=AIza4567&api_key=B&author=tolstoy&keyword=war&sort_key=2";
    let redacted =
        "http://x/?key=(withheld)&api_key=(withheld)&author=tolstoy&keyword=war&sort_key=2";
    assert_eq!(secrets.without_password(url), redacted);
    assert_eq!(
        Secrets::default().log("GET /x?page=2;key=b;sig=c&n=1 over h1; code=5"),
        "GET /x?page=2;key=(withheld);sig=(withheld)&n=1 over h1; code=5"
    );
    // An ambiguous secret is erased elsewhere only if it cannot be a word.
    assert_eq!(secrets.erase_from_foreign("opensesame AIza4567"), "opensesame (withheld)");
    // Credentials are recognised under any name, and erased elsewhere.
    assert_eq!(secrets.header_line("X-Custom: Basic dXNlcjpwYXNz"), "X-Custom: (withheld)");
    let mut value = "Bearer 0a1b2c3d4e".to_string();
    secrets.header("X-Upstream", &mut value);
    assert_eq!(value, "(withheld)");
    assert_eq!(
        secrets.without_password("http://x/?t=ghp_0123456789abcdefghij"),
        "http://x/?t=(withheld)"
    );
    let logged =
        secrets.erase_from_foreign("got dXNlcjpwYXNz, 0a1b2c3d4e and ghp_0123456789abcdefghij");
    assert_eq!(logged, "got (withheld), (withheld) and (withheld)");
    for (name, plain) in [("X-Bypass-Cache", "enabled"), ("WWW-Authenticate", "Basic")] {
        let mut value = plain.to_string();
        secrets.header(name, &mut value);
        assert_eq!(value, plain);
    }
    for (url, redacted) in [
        ("http://me:pa,ss@h/", "http://me:(withheld)@h/"),
        ("pg://u:p1@h1,pg://u:p2@h2", "pg://u:(withheld)@h1,pg://u:(withheld)@h2"),
        ("http://a,http://u:pw@b", "http://a,http://u:(withheld)@b"),
    ] {
        assert_eq!(Secrets::default().without_password(url), redacted);
    }
}

#[test]
fn body_fields_with_secret_names_are_withheld() {
    let redacted = |text: &str| Secrets::default().fields(text);
    for (text, expected) in [
        ("password=formpw&x=1", "password=(withheld)&x=1"),
        ("user=a&client_secret=b%20c", "user=a&client_secret=(withheld)"),
        (r#"{"user":"a","password":"b","n":1}"#, r#"{"n":1,"password":"(withheld)","user":"a"}"#),
        (r#"[{"access_token":12345}]"#, r#"[{"access_token":"(withheld)"}]"#),
        (r#"{"a":{"api_key":["b","c"]}}"#, r#"{"a":{"api_key":["(withheld)","(withheld)"]}}"#),
    ] {
        let without_order = |text: &str| serde_json::from_str::<Value>(text).ok();
        let same = without_order(expected).is_some()
            && without_order(&redacted(text)) == without_order(expected);
        assert!(same || redacted(text) == expected, "{text}: {}", redacted(text));
    }
    for plain in [
        "a=1&b=2",
        r#"{ "name": "a",  "n": 1 }"#,
        "the password is long",
        "{not json, token}",
        "password",
        "",
    ] {
        assert_eq!(redacted(plain), plain);
    }
    assert_eq!(
        redacted_words("dyno load http://h/ -b 'password=formpw&x=1'"),
        "-b password=(withheld)&x=1"
    );
}

/// Redacts a command, and returns its words, without the first three.
fn redacted_words(line: &str) -> String {
    Secrets::default().command(&words(line))[3..].join(" ")
}

#[test]
fn erase_finds_secrets_and_their_parts_but_no_words() {
    let mut secrets = Secrets::default();
    for value in
        ["Bearer abc123xyz987", "id=cookieval77; theme=dark", "server", "abc123xyz9876", "hunter"]
    {
        secrets.withhold(value);
    }
    let log = "token abc123xyz987 cookie cookieval77 of hunter, not abc123xyz9876 nor hunters in \
               the dark";
    let redacted =
        "token (withheld) cookie (withheld) of (withheld), not (withheld) nor hunters in the dark";
    assert_eq!(secrets.erase_from_foreign(log), redacted);
    let sentence = "server_starved: the server had abc123xyz987 requests";
    assert_eq!(secrets.erase(sentence), "server_starved: the server had (withheld) requests");
}

#[test]
fn distinctive_value_is_erased_within_words() {
    let mut secrets = Secrets::default();
    ["abc123xyz987", "hunter"].into_iter().for_each(|value| drop(secrets.withhold(value)));
    for (log, redacted) in [
        ("\u{1b}[0mabc123xyz987\u{1b}[0m", "\u{1b}[0m(withheld)\u{1b}[0m"),
        ("/?k%3Dabc123xyz987%26a", "/?k%3D(withheld)%26a"),
        ("{\"log\":\"a\\nabc123xyz987\\nhunters\"}", "{\"log\":\"a\\n(withheld)\\nhunters\"}"),
    ] {
        assert_eq!(secrets.erase_from_foreign(log), redacted);
        assert_eq!(secrets.erase(log), redacted);
    }
}

#[test]
fn secret_word_is_erased_only_from_quotations() {
    let mut secrets = Secrets::default();
    ["crashed", "hunter"].into_iter().for_each(|value| drop(secrets.withhold(value)));
    let quoting = BTreeSet::from(["crashed: hunter is wrong: crashed".to_string()]);
    for (sentence, redacted) in [
        ("crashed: hunter is wrong: crashed", "crashed: (withheld) is wrong: (withheld)"),
        (
            "crashed: hunter is wrong: crashed Others crashed too.",
            "crashed: (withheld) is wrong: (withheld) Others crashed too.",
        ),
        ("some crashed: hunter", "some crashed: hunter"),
    ] {
        assert_eq!(secrets.erase_from_own(sentence, &quoting), redacted);
    }
}

#[test]
fn names_that_differ_only_in_secrets_stay_distinct() {
    let mut secrets = Secrets::default();
    ["abc123xyz987", "abc123xyz988"].into_iter().for_each(|value| drop(secrets.withhold(value)));
    let names = ["a", "a?token=hunter", "b-abc123xyz987", "b-abc123xyz988", "b-(withheld) 2"];
    let renamed: BTreeMap<_, _> =
        secrets.rename_all(names.map(String::from).into()).into_iter().collect();
    let redacted = [
        ("a?token=hunter", "a?token=(withheld)"),
        ("b-abc123xyz987", "b-(withheld)"),
        ("b-abc123xyz988", "b-(withheld) 3"),
    ];
    assert_eq!(renamed, redacted.map(|(old, new)| (old.into(), new.into())).into());
}

#[test]
fn counts_with_equal_redacted_keys_are_added() {
    let mut secrets = Secrets::default();
    ["hunter", "hunted"].into_iter().for_each(|value| drop(secrets.withhold(value)));
    let counts = [("not \"hunted\"", 2), ("not \"hunter\"", 3), ("other", 1)];
    let redacted = secrets.erase_from_keys(&counts.map(|(text, n)| (text.into(), n)).into());
    assert_eq!(
        redacted,
        [("not \"(withheld)\"", 5), ("other", 1)].map(|(t, n)| (t.into(), n)).into()
    );
}

#[test]
fn multiline_strings_are_withheld_whole() {
    let source = "# don't\nCookie = \"\"\"\na = \"b\"\nid=1\"\"\"\nname = 'x\n'''\nToken = \
                  '''a'\nb'''\npath = \"/a\"";
    assert_eq!(
        Secrets::default().source(source),
        "# don't\nCookie = \"\"\"(withheld)\"\"\"\nname = 'x\n'''\nToken = '''a'\nb'''\npath = \
         \"/a\""
    );
    assert_eq!(
        Secrets::default().source("Token = '''a'\nb'''\nc = 1"),
        "Token = '''(withheld)'''\nc = 1"
    );
}

#[test]
fn withheld_note_states_number_of_values() {
    assert_eq!(withheld_note(Withheld(0)), None);
    assert!(withheld_note(Withheld(2)).unwrap().starts_with("2 values"));
}

#[test]
fn logs_withhold_values_of_secret_names() {
    let long_token = format!("ghp_{}", "abcdefghij0123456789");
    for (log, redacted) in [
        (
            "connecting to postgres://app:horse@db:5432/x",
            "connecting to postgres://app:(withheld)@db:5432/x",
        ),
        ("to redis://:pa/ss@db:6379/0 now", "to redis://:(withheld)@db:6379/0 now"),
        ("Authorization: Bearer opensesame", "Authorization: (withheld)"),
        ("Authorization: Bearer a1 status=200", "Authorization: (withheld) status=200"),
        (
            "path=/c auth=Bearer opensesame7 cookie=None",
            "path=/c auth=Bearer (withheld) cookie=None",
        ),
        (
            "Set-Cookie: id=a; Path=/\nX-Auth-Token: b\nA: c",
            "Set-Cookie: (withheld)\nX-Auth-Token: (withheld)\nA: c",
        ),
        ("Cookie: a=1; b=2, Host: h", "Cookie: (withheld), Host: h"),
        (&format!("using {long_token}"), "using (withheld)"),
        (
            "DB_PASSWORD=hunter2 PWD=/root GITHUB_PAT=a PATH=/bin",
            "DB_PASSWORD=(withheld) PWD=/root GITHUB_PAT=(withheld) PATH=/bin",
        ),
        (
            "GET /x?token=a&page=2&key=b&sort_key=c",
            "GET /x?token=(withheld)&page=2&key=(withheld)&sort_key=c",
        ),
        (
            "['--api-key=a', '--password', 'b', '--db', 'c']",
            "['--api-key=(withheld)', '--password', '(withheld)', '--db', 'c']",
        ),
        ("msg=login password=\"a b\" user=c", "msg=login password=\"(withheld)\" user=c"),
        ("{'cookie': 'a=b', 'n': 1}", "{'cookie': '(withheld)', 'n': 1}"),
        ("{cookie=[a=b], host=[c]}", "{cookie=[(withheld)], host=[c]}"),
        ("User { password: Some(\"a\"), n: 1 }", "User { password: Some(\"(withheld)\"), n: 1 }"),
        (
            "body {\\\"password\\\":\\\"a\\\",\\\"n\\\":1}",
            "body {\\\"password\\\":\\\"(withheld)\\\",\\\"n\\\":1}",
        ),
        ("\x1b[3mtoken\x1b[0m=\x1b[2mabc\x1b[0m", "\x1b[3mtoken\x1b[0m=\x1b[2m(withheld)\x1b[0m"),
        (
            "-----BEGIN PRIVATE KEY-----\na\n-----END",
            "-----BEGIN PRIVATE KEY-----(withheld)-----END",
        ),
        ("curl -u admin:a http://h/", "curl -u admin:(withheld) http://h/"),
        ("curl -u abc123xyz: http://h/", "curl -u (withheld): http://h/"),
        ("curl \\\n  -u a1b2c3d4e5f6: \\\n http://h/", "curl \\\n  -u (withheld): \\\n http://h/"),
        ("user: u\ntoken: abc\n", "user: u\ntoken: (withheld)\n"),
        ("GET /?next=%2Fa%3Ftoken%3Dabc&n=%2Fb HTTP", "GET /?next=(withheld)&n=%2Fb HTTP"),
        ("[(b'cookie', b'ab'), (b'host', b'c')]", "[(b'cookie', b'(withheld)'), (b'host', b'c')]"),
        ("[ 'X-Api-Key', 'abc1', 'Host', 'c' ]", "[ 'X-Api-Key', '(withheld)', 'Host', 'c' ]"),
        ("map[Authorization:[Bearer abc] Host:[c]]", "map[Authorization:[(withheld)] Host:[c]]"),
        ("header Set-Cookie is not \"a=b\"", "header Set-Cookie is not \"(withheld)\""),
        ("header X-Key does not match ^a b", "header X-Key does not match (withheld)"),
        ("JSON pointer \"/token\" is not \"a\"", "JSON pointer \"/token\" is not \"(withheld)\""),
        ("v1 --password=a", "v1 --password=(withheld)"),
        ("use password: hunter2 to log in", "use password: (withheld) to log in"),
    ] {
        assert_eq!(Secrets::default().log(log), redacted);
    }
}

#[test]
fn logs_keep_ordinary_words() {
    for log in [
        "error: token: expired; session: started in 5 ms; the password is long",
        "panicked at src/session.rs:42:13: token-service:8080 refused",
        "tokens=5 max_tokens=100 session_timeout=30 --token TOKEN --password-file /run/x",
        "docker run -u 1000:1000 -u app:app image",
        "Basic plan, Token ring networks, Bearer authentication failed",
        "GET /?page=2&sort_key=3 code=500 key=None password=***",
        "http://h:80/a@b and http://[::1]:8/",
        "password={user.password} token=$TOKEN",
        "Cookie: (withheld), Host: h",
        "token: expired\nsession: closed by peer\n",
        "`compare --undecided pass`: an undecided gate does not fail",
        "token_type=bearer expires_in=3600 session.cookie.name = SID AUTHOR=me",
        "\"GET /a?page=2&q=token HTTP/1.1\" 200",
        r#"{"session":"started","tokens":512,"cookie":null,"password":null,"csrf":false}"#,
        "allowed: ['authorization', 'set-cookie', 'host']",
        "/etc/passwd: is an absolute path",
        "../token: No such file",
        "\"http://h/b c?page=1\": write path \"/b c\"",
        "\"Authorization Bearer\": write it like 'Name: value'",
        "header ETag is not \"a\", JSON pointer \"/n\" is not 1",
    ] {
        assert_eq!(Secrets::default().log(log), log);
    }
}

#[test]
fn bodies_with_placeholders_or_multipart_are_searched() {
    let multipart = |mark: &str| {
        let head = "Content-Disposition: form-data; name=";
        format!(
            "--x\r\n{head}\"password\"\r\n\r\n{mark}\r\n--x\r\n{head}\"n\"\r\n\r\nb\r\n--x--\r\n"
        )
    };
    for (body, redacted) in [
        (r#"{"id":{seq},"password":"a"}"#, r#"{"id":{seq},"password":"(withheld)"}"#),
        (
            r#"{"id":{seq},"tokens":["a","b"]}"#,
            r#"{"id":{seq},"tokens":["(withheld)","(withheld)"]}"#,
        ),
        (r#"{"id":{seq},"pass\u0077ord":"a"}"#, r#"{"id":{seq},"pass\u0077ord":"(withheld)"}"#),
        (r#"{\"id\":{seq},\"password\":\"a\"}"#, r#"{\"id\":{seq},\"password\":\"(withheld)\"}"#),
        (
            "{\"token\":\"a\"}\n{\"token\":\"b\"}\n",
            "{\"token\":\"(withheld)\"}\n{\"token\":\"(withheld)\"}\n",
        ),
        ("user=u&password=a\n", "user=u&password=(withheld)\n"),
        ("text=a b&password=c d", "text=a b&password=(withheld)"),
        (r#"data={"password":"a"}&x=1"#, r#"data={"password":"(withheld)"}&x=1"#),
        ("data=%7B%22password%22%3A%22a%22%7D&x=1", "data=(withheld)&x=1"),
        (&multipart("a"), &multipart(MARK)),
        ("<a><password>b</password><n>c</n></a>", "<a><password>(withheld)</password><n>c</n></a>"),
        ("mutation { login(password: \"a\") }", "mutation { login(password: \"(withheld)\") }"),
        (
            "1 POST /a {\"id\":{seq},\"password\":\"b\"}",
            "1 POST /a {\"id\":{seq},\"password\":\"(withheld)\"}",
        ),
    ] {
        assert_eq!(Secrets::default().fields(body), redacted);
        let command = ["dyno", "load", body].map(String::from);
        assert_eq!(Secrets::default().command(&command)[2], redacted);
    }
    // A part of a body may be binary.
    let bytes = [b"\xff\n".as_slice(), multipart("a").as_bytes()].concat();
    let redacted = [b"\xff\n".as_slice(), multipart(MARK).as_bytes()].concat();
    assert_eq!(Secrets::default().bytes(&bytes), redacted);
}

#[test]
fn json_withholds_members_of_secret_objects() {
    let redacted = |text: &str| Secrets::default().fields(text);
    for (body, expected) in [
        (
            r#"{"credentials":{"value":"a"},"n":"b"}"#,
            r#"{"credentials":{"value":"(withheld)"},"n":"b"}"#,
        ),
        (r#"{"auth":{"key":"a","mode":"b"}}"#, r#"{"auth":{"key":"(withheld)","mode":"b"}}"#),
        (r#"[{"name":"token","value":"a"}]"#, r#"[{"name":"token","value":"(withheld)"}]"#),
        (r#"{"pin":"1234"}"#, r#"{"pin":"(withheld)"}"#),
        (
            r#"{"to":"https://u:a@h/?token=b&c=d"}"#,
            r#"{"to":"https://u:(withheld)@h/?token=(withheld)&c=d"}"#,
        ),
        (r#"{"inner":"{\"password\":\"a\"}"}"#, r#"{"inner":"{\"password\":\"(withheld)\"}"}"#),
    ] {
        assert_eq!(redacted(body), expected);
    }
    for plain in [r#"{"key":"a","code":"b","session":{"theme":"dark"}}"#, r#"{"next":"/?page=2"}"#]
    {
        assert_eq!(redacted(plain), plain);
    }
}

#[test]
fn request_withholds_expectations_and_urls_in_headers() {
    let mut request = Request {
        path: "/a?x=1;token=semi".into(),
        headers: vec![("Referer".into(), "https://app:horse@h/?token=staple".into())],
        ..Request::default()
    };
    let expect = &mut request.expect;
    expect.headers =
        vec![("location".into(), Some("https://u:horse@h/?code=staple&page=2".into()))];
    expect.headers_match =
        vec![("set-cookie".into(), "^id=hunter2pw".into()), ("via".into(), "^1".into())];
    expect.json_match = vec![("/token".into(), "^hunter3pw$".into()), ("/n".into(), "^1$".into())];
    expect.json = vec![("/session/token".into(), "staple".into()), ("/ok".into(), true.into())];
    expect.body_contains = Some("token=staple".into());
    expect.body_matches = Some("got hunter2pw or hunter3pw".into());
    let mut secrets = Secrets::default();
    secrets.request(&mut request);
    secrets.erase_from_request(&mut request);
    let redacted = serde_json::to_string(&request).unwrap();
    for secret in ["semi", "horse", "staple", "hunter"] {
        assert!(!redacted.contains(secret), "{redacted}");
    }
    for kept in ["x=1;token=", "page=2", "\"^1\"", "\"^1$\"", "code="] {
        assert!(redacted.contains(kept), "{redacted}");
    }
}

#[test]
fn check_texts_withhold_secrets() {
    let asked = r#"POST /d?api_key=a&n=1, A: b, body "{\"password\":\"c\"}""#;
    let redacted = r#"POST /d?api_key=(withheld)&n=1, A: b, body "{\"password\":\"(withheld)\"}""#;
    assert_eq!(Secrets::default().text(asked), redacted);
    let expected =
        r#"status 418, location: http://u:a@h/, JSON /token "b", JSON /jwt matching ^c, JSON /n 1"#;
    let redacted = "status 418, location: http://u:(withheld)@h/, JSON /token \"(withheld)\", \
                    JSON /jwt matching (withheld), JSON /n 1";
    assert_eq!(Secrets::default().text(expected), redacted);
}

#[test]
fn source_withholds_secrets_in_strings_and_comments() {
    for (source, redacted) in [
        ("# log in with --password hunter\na = 1", "# log in with --password (withheld)\na = 1"),
        (
            "x = { \"set-cookie\" = { matches = \"^id=a$\" } }",
            "x = { \"set-cookie\" = { matches = \"(withheld)\" } }",
        ),
        (
            "x = { Cookie = {matches=\"^a\"}, n = {matches=\"^b\"} }",
            "x = { Cookie = {matches=\"(withheld)\"}, n = {matches=\"^b\"} }",
        ),
        (
            r#"body = "{\"n\":{seq},\"password\":\"a\"}""#,
            r#"body = "{\"n\":{seq},\"password\":\"(withheld)\"}""#,
        ),
        (
            "h = { Referer = \"https://u:a@h/?token=b&c=d\" }",
            "h = { Referer = \"https://u:(withheld)@h/?token=(withheld)&c=d\" }",
        ),
        (
            "path = \"/?x=1;token=a\"\npassword = 12",
            "path = \"/?x=1;token=(withheld)\"\npassword = (withheld)",
        ),
    ] {
        assert_eq!(Secrets::default().source(source), redacted);
    }
    // The value is known from the request, and escaped in this text.
    let mut secrets = Secrets::default();
    secrets.pattern("set-cookie", &mut r"^id=\d+".to_string());
    assert_eq!(secrets.source(r#"matches = "^id=\\d+""#), "matches = \"(withheld)\"");
}

#[test]
fn command_in_any_spelling_withholds_bodies() {
    for line in [
        "dyno load http://x/ --request '1 POST /ok pin=12x'",
        "dyno load http://x/ '--request=1 POST /ok a=1&pin=12x'",
        "dyno load http://x/ --request '1 POST /ok {\"pin\":{\"v\":\"12x\"}}'",
        "dyno load http://x/ --step 'POST /ok pin=12x'",
        "dyno load http://x/ '--step=POST /ok a=1&pin=12x'",
        "dyno load http://x/ --step 'POST /ok {\"pin\":{\"v\":\"12x\"}}'",
        "dyno load http://x/ -bpin=12x",
        "dyno load http://x/ --body pin=12x",
        "dyno load http://x/ -b '{\"token\":{\"v\":[\"12x\"]}}'",
        "dyno load http://x/ --expect-contains pin=12x",
        "dyno load http://x/ --expect-json /pin/v=12x",
        "dyno load --curl 'curl http://x/ -dpin=12x'",
        "dyno load --curl \"curl http://x/ -d $'pin=12x'\"",
        "dyno load --curl 'curl http://x/ --data-raw=pin=12x'",
        "dyno load --curl 'curl http://x/ -F pin=12x'",
        "dyno load --curl 'http://x/ -d pin=12x'",
        "dyno load --curl 'curl http://x/ --json {\\\"pin\\\":\\\"12x\\\"}'",
    ] {
        let redacted = crate::shell::command(&Secrets::default().command(&words(line)));
        assert!(!redacted.contains("12x") && redacted.contains(MARK), "{line}: {redacted}");
    }
}

/// The words are the same as those of bash.
#[test]
fn command_keeps_options_of_sequences() {
    let line = "dyno load --cookies --step 'GET /a' --extract '1 token=json:/token' --step 'GET \
                /b?token={extract.token}' http://x/";
    let redacted = crate::shell::command(&Secrets::default().command(&words(line)));
    assert_eq!(redacted, line);
    // The option of another program may have a value.
    let line = "dyno run s.toml -- server --cookies abc123xyz";
    let redacted = crate::shell::command(&Secrets::default().command(&words(line)));
    assert!(redacted.contains(MARK), "{redacted}");
}

#[test]
fn curl_command_keeps_other_words() {
    let redacted = |curl: &str| {
        let command = ["dyno", "load", "--curl", curl].map(String::from);
        Secrets::default().command(&command)[3].clone()
    };
    assert_eq!(
        redacted("http://x/ -d $'it\\'s' -d \"a\\\"b\" \\\n -d '' -d c\\ d -u me:abc123xyz # last"),
        "http://x/ -d \"it's\" -d 'a\"b' -d '' -d 'c d' -u 'me:(withheld)'"
    );
    let plain = "http://x/ -d $'it\\'s' # first\n-d b";
    assert_eq!(redacted(plain), plain);
}

#[test]
fn ambiguous_secret_is_erased_elsewhere_unless_word() {
    let mut secrets = Secrets::default();
    assert_eq!(secrets.fields("pin=swordfish&key=Zq7x001d"), "pin=(withheld)&key=(withheld)");
    assert_eq!(secrets.erase("got swordfish and Zq7x001d"), "got swordfish and (withheld)");
}

#[test]
fn mark_of_record_is_kept() {
    let kept = [
        "token=(not recorded) a",
        "password: (not recorded), b",
        "Authorization: Bearer (not recorded)",
        "https://me:(not recorded)@h/",
    ];
    for line in kept {
        assert_eq!(Secrets::default().log(line), line);
    }
    let line = "Cookie: a=Zq81hhTT01; b=(not recorded)";
    assert!(!Secrets::default().log(line).contains("Zq81hhTT01"));
}

#[test]
fn form_in_quotation_marks_is_withheld() {
    let redacted = |line: &str| Secrets::default().log(line);
    assert_eq!(redacted("the body has no \"pin=12x\""), "the body has no \"pin=(withheld)\"");
    assert_eq!(redacted("the body has no \"code=500\""), "the body has no \"code=500\"");
}

#[test]
fn json_pointers_into_secret_objects_are_withheld() {
    let mut secrets = Secrets::default();
    for pointer in ["/pin/v", "/token/0", "/a/password"] {
        let mut value = serde_json::json!("12x");
        secrets.json_fields(pointer, &mut value);
        assert_eq!(value, MARK, "{pointer}");
    }
}

/// The text of a result and its page withhold the same credentials in the query of a URL.
#[test]
fn encoded_credentials_in_urls_are_withheld() {
    const TOKEN: &str = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    const WEB_TOKEN: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefghijklmnop";
    for url in [
        format!("http://a/ok?q=%22{TOKEN}%22"),
        format!("http://a/ok?q=a+{TOKEN}+b"),
        format!("http://a/ok?h=Bearer%20{TOKEN}"),
        format!("http://a/ok?h=Bearer+{TOKEN}"),
        format!("http://a/ok?j={WEB_TOKEN}%26x"),
        "http://a/ok?h=Basic%20dXNlcjpwYXNzd29yZDEyMw%3D%3D".to_string(),
        format!("http://a/%7B%22t%22%3A%22{TOKEN}%22%7D"),
        format!("http://a/?q=%E2%80%9C{TOKEN}%E2%80%9D"),
        "http://a/?h=Basic%20YWJj+MTIzNDU2Nzg5MDEyMzQ1Ng".to_string(),
    ] {
        let shown = text(&url);
        let is_hidden = [TOKEN, WEB_TOKEN, "dXNlcjpwYXNzd29yZDEyMw", "MTIzNDU2Nzg5MDEyMzQ1Ng"]
            .iter()
            .all(|s| !shown.contains(s));
        assert!(is_hidden && shown.contains(MARK) && shown.starts_with("http://a/"), "{shown}");
    }
    for plain in ["http://a/?q=basic+plan&x=%20", "50 % of 1+1", "%", "%2", "a%zzb", "100%25"] {
        assert_eq!(text(plain), plain);
    }
}
