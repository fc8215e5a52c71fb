use std::collections::BTreeMap;

use serde_json::Value;

use super::*;

fn words(line: &str) -> Vec<String> {
    shlex::split(line).unwrap()
}

#[test]
fn secrets_of_the_command_are_withheld_however_they_are_written() {
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
        "dyno load --curl 'curl -b id=abc123xyz http://x/'",
    ] {
        let mut secrets = Secrets::default();
        let shown = crate::shell::command(&secrets.command(&words(line)));
        assert!(!shown.contains("abc123xyz") && shown.contains(MARK), "{line}: {shown}");
        assert_eq!(secrets.found, 1, "{line}");
    }
    for plain in [
        "dyno run -H 'Accept: */*' suite.toml --only a --seed 7",
        "dyno load --curl 'curl -u bob -sS --compressed -X POST http://x/'",
    ] {
        let mut secrets = Secrets::default();
        assert_eq!(secrets.command(&words(plain)), words(plain));
        assert_eq!(secrets.found, 0);
    }
}

#[test]
fn settings_of_the_suite_are_withheld_and_nothing_else() {
    let source = "name = \"tokens\"\nheaders = \
                  { Authorization = \"Bearer a\\\"bc\", Accept = \"*/*\" }\n\"Cookie\" = \
                  \"id=1\"\nsubjects = [\"token-a\", \"b\"]\nenv = \
                  { API_TOKEN = 'x y', LANG = \"C\" }\nabout = \"token: how to\"\nunclosed = \"";
    let mut secrets = Secrets::default();
    let shown = secrets.source(source);
    assert_eq!(
        shown,
        "name = \"tokens\"\nheaders = \
         { Authorization = \"(withheld)\", Accept = \"*/*\" }\n\"Cookie\" = \
         \"(withheld)\"\nsubjects = [\"token-a\", \"b\"]\nenv = \
         { API_TOKEN = '(withheld)', LANG = \"C\" }\nabout = \"token: how to\"\nunclosed = \""
    );
    assert_eq!(secrets.found, 3);
}

#[test]
fn credentials_in_a_suite_are_withheld_whatever_they_are_called() {
    let source = "headers = { X-Custom = \"Basic dXNlcjpwYXNz\", Accept = \"*/*\" }\n";
    assert_eq!(
        Secrets::default().source(source),
        "headers = { X-Custom = \"(withheld)\", Accept = \"*/*\" }\n"
    );
}

#[test]
fn lists_of_secrets_are_withheld_to_their_end() {
    let source = "vary = { \"request.token\" = [\"a1\", # ] first\n  # and\n  \"b1\"], \
                  \"env.LANG\" = [\"C\", \"D\"] }";
    assert_eq!(
        Secrets::default().source(source),
        source.replace("\"a1\"", "\"(withheld)\"").replace("\"b1\"", "\"(withheld)\"")
    );
}

#[test]
fn settings_that_may_be_secrets_are_withheld_and_passwords_in_addresses() {
    let source = "env = { DB_PASS = \"sesame\", URL = \"postgres://u:tomtom@h/d\", PORT = \"80\" }";
    let shown = Secrets::default().source(source);
    assert_eq!(
        shown,
        "env = { DB_PASS = \"(withheld)\", URL = \"postgres://u:(withheld)@h/d\", PORT = \"80\" }"
    );
}

/// By the rules by which the archive records no variable of a server's environment.
#[test]
fn settings_that_hold_secrets_are_withheld_whatever_they_are_called() {
    for (written, shown) in [
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
        // A description is no setting.
        (
            "description = \"H2O's session tickets\"\nenv = {}",
            "description = \"H2O's session tickets\"\nenv = {}",
        ),
        ("env = { URL = \"pg://postgres@h/d\" }", "env = { URL = \"pg://postgres@h/d\" }"),
    ] {
        assert_eq!(Secrets::default().source(written), shown);
    }
}

#[test]
fn headers_and_parameters_that_may_be_secrets_are_withheld() {
    let mut secrets = Secrets::default();
    for line in ["Ocp-Apim-Subscription-Key: opensesame", "x-functions-key: opensesame"] {
        let name = line.split(':').next().unwrap();
        assert_eq!(secrets.header_line(line), format!("{name}: (withheld)"));
    }
    let url = "http://x/?key=AIza4567&api_key=B&author=tolstoy&keyword=war&sort_key=2";
    let shown = "http://x/?key=(withheld)&api_key=(withheld)&author=tolstoy&keyword=war&sort_key=2";
    assert_eq!(secrets.without_password(url), shown);
    // One that only may be a secret is erased elsewhere if it can be no word.
    assert_eq!(secrets.erase_from_foreign("opensesame AIza4567"), "opensesame (withheld)");
    // Credentials are known under any name, and are looked for elsewhere.
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
    for plain in ["X-Bypass-Cache: enabled", "WWW-Authenticate: Basic"] {
        assert_eq!(secrets.header_line(plain), plain);
    }
    for (url, shown) in [
        ("http://me:pa,ss@h/", "http://me:(withheld)@h/"),
        ("pg://u:p1@h1,pg://u:p2@h2", "pg://u:(withheld)@h1,pg://u:(withheld)@h2"),
        ("http://a,http://u:pw@b", "http://a,http://u:(withheld)@b"),
    ] {
        assert_eq!(Secrets::default().without_password(url), shown);
    }
}

#[test]
fn secrets_in_bodies_are_withheld_by_the_names_of_their_fields() {
    let shown = |text: &str| Secrets::default().fields(text);
    for (text, wanted) in [
        ("password=formpw&x=1", "password=(withheld)&x=1"),
        ("user=a&client_secret=b%20c", "user=a&client_secret=(withheld)"),
        (r#"{"user":"a","password":"b","n":1}"#, r#"{"n":1,"password":"(withheld)","user":"a"}"#),
        (r#"[{"access_token":12345}]"#, r#"[{"access_token":"(withheld)"}]"#),
        (r#"{"a":{"api_key":["b","c"]}}"#, r#"{"a":{"api_key":["(withheld)","(withheld)"]}}"#),
    ] {
        let without_order = |text: &str| serde_json::from_str::<Value>(text).ok();
        let same =
            without_order(wanted).is_some() && without_order(&shown(text)) == without_order(wanted);
        assert!(same || shown(text) == wanted, "{text}: {}", shown(text));
    }
    for plain in [
        "a=1&b=2",
        r#"{ "name": "a",  "n": 1 }"#,
        "the password is long",
        "{not json, token}",
        "password",
        "",
    ] {
        assert_eq!(shown(plain), plain);
    }
    assert_eq!(
        words_shown("dyno load http://h/ -b 'password=formpw&x=1'"),
        "-b password=(withheld)&x=1"
    );
}

/// The end of a command, from its fourth word on.
fn words_shown(line: &str) -> String {
    Secrets::default().command(&words(line))[3..].join(" ")
}

#[test]
fn what_was_withheld_is_found_again_whole_and_in_parts_and_no_word_is() {
    let mut secrets = Secrets::default();
    for value in
        ["Bearer abc123xyz987", "id=cookieval77; theme=dark", "server", "abc123xyz9876", "hunter"]
    {
        secrets.withhold(value);
    }
    let log = "token abc123xyz987 cookie cookieval77 of hunter, not abc123xyz9876 nor hunters in \
               the dark";
    let gone =
        "token (withheld) cookie (withheld) of (withheld), not (withheld) nor hunters in the dark";
    assert_eq!(secrets.erase_from_foreign(log), gone);
    let said = "server_starved: the server had abc123xyz987 requests";
    assert_eq!(secrets.erase(said), "server_starved: the server had (withheld) requests");
}

#[test]
fn value_that_can_be_no_word_is_found_beside_letters_and_digits() {
    let mut secrets = Secrets::default();
    ["abc123xyz987", "hunter"].into_iter().for_each(|value| drop(secrets.withhold(value)));
    for (log, gone) in [
        ("\u{1b}[0mabc123xyz987\u{1b}[0m", "\u{1b}[0m(withheld)\u{1b}[0m"),
        ("/?k%3Dabc123xyz987%26a", "/?k%3D(withheld)%26a"),
        ("{\"log\":\"a\\nabc123xyz987\\nhunters\"}", "{\"log\":\"a\\n(withheld)\\nhunters\"}"),
    ] {
        assert_eq!(secrets.erase_from_foreign(log), gone);
        assert_eq!(secrets.erase(log), gone);
    }
}

#[test]
fn word_is_taken_for_a_secret_where_dyno_quotes_and_nowhere_else() {
    let mut secrets = Secrets::default();
    ["crashed", "hunter"].into_iter().for_each(|value| drop(secrets.withhold(value)));
    let quoting = BTreeSet::from(["crashed: hunter is wrong: crashed".to_string()]);
    for (said, gone) in [
        ("crashed: hunter is wrong: crashed", "crashed: (withheld) is wrong: (withheld)"),
        (
            "crashed: hunter is wrong: crashed Others crashed too.",
            "crashed: (withheld) is wrong: (withheld) Others crashed too.",
        ),
        ("some crashed: hunter", "some crashed: hunter"),
    ] {
        assert_eq!(secrets.erase_from_own(said, &quoting), gone);
    }
}

#[test]
fn names_that_differ_in_their_secrets_alone_stay_apart() {
    let mut secrets = Secrets::default();
    ["abc123xyz987", "abc123xyz988"].into_iter().for_each(|value| drop(secrets.withhold(value)));
    let names = ["a", "a?token=hunter", "b-abc123xyz987", "b-abc123xyz988", "b-(withheld) 2"];
    let renamed: BTreeMap<_, _> =
        secrets.rename_all(names.map(String::from).into()).into_iter().collect();
    let shown = [
        ("a?token=hunter", "a?token=(withheld)"),
        ("b-abc123xyz987", "b-(withheld)"),
        ("b-abc123xyz988", "b-(withheld) 3"),
    ];
    assert_eq!(renamed, shown.map(|(old, new)| (old.into(), new.into())).into());
}

#[test]
fn counts_whose_texts_become_one_are_added() {
    let mut secrets = Secrets::default();
    ["hunter", "hunted"].into_iter().for_each(|value| drop(secrets.withhold(value)));
    let counts = [("not \"hunted\"", 2), ("not \"hunter\"", 3), ("other", 1)];
    let shown = secrets.erase_from_keys(&counts.map(|(text, n)| (text.into(), n)).into());
    assert_eq!(shown, [("not \"(withheld)\"", 5), ("other", 1)].map(|(t, n)| (t.into(), n)).into());
}

#[test]
fn strings_over_several_lines_are_withheld_whole() {
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
fn plan_in_json_withholds_secrets() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/hello/run");
    let run = dyno_archive::RunDir::open(std::path::Path::new(folder)).unwrap().read().unwrap();
    let mut open = run.header.plan;
    assert_eq!(plan(&open).unwrap(), (serde_json::to_value(&open).unwrap(), Withheld(0)));
    let set = |name: &str, value: &str| (name.to_string(), value.to_string());
    open.workloads[0].requests[0].headers.push(set("Authorization", "Bearer abc123xyz"));
    open.workloads[0].requests[0].path = "/a?access_token=abc124xyz".into();
    let env = [set("DB_PASSWORD", "abc125xyz"), set("URL", "redis://:abc126xyz@h:1")];
    open.arms[0].conditions.env.extend(env);
    // Names that may be secret, and values that are words.
    let words = [set("STRIPE_KEY", "correct-horse"), set("DATABASE_DSN", "app:hunter@tcp(db)/x")];
    open.arms[0].conditions.env.extend(words);
    // A value of requests that is a part of a secret header.
    open.workloads[0].requests[0].headers.push(set("Cookie", "{request.who}"));
    open.arms[0].conditions.request.extend([set("who", "somebody"), set("page", "kept")]);
    open.suite.source.push_str(
        "\nenv = { API_TOKEN = \"abc127xyz\", X = \"kept\" }\nrequest = { who = \"somebody\" }",
    );
    let (json, withheld) = plan(&open).unwrap();
    let text = json.to_string();
    for secret in ["abc12", "correct-horse", "hunter", "somebody"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    assert!(text.contains("kept") && json["arms"][0]["conditions"]["request"]["page"] == "kept");
    assert_eq!(withheld, Withheld(9));
}

#[test]
fn what_was_withheld_is_said() {
    assert_eq!(withheld_note(Withheld(0)), None);
    assert!(withheld_note(Withheld(2)).unwrap().starts_with("2 values"));
}

#[test]
fn logs_withhold_what_names_say() {
    let long_token = format!("ghp_{}", "abcdefghij0123456789");
    for (log, shown) in [
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
        assert_eq!(Secrets::default().log(log), shown);
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
fn bodies_that_are_no_strict_json_or_form_are_searched() {
    let multipart = |mark: &str| {
        let head = "Content-Disposition: form-data; name=";
        format!(
            "--x\r\n{head}\"password\"\r\n\r\n{mark}\r\n--x\r\n{head}\"n\"\r\n\r\nb\r\n--x--\r\n"
        )
    };
    for (body, shown) in [
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
        assert_eq!(Secrets::default().fields(body), shown);
        let command = ["dyno", "load", body].map(String::from);
        assert_eq!(Secrets::default().command(&command)[2], shown);
    }
    // A part may be no text.
    let bytes = [b"\xff\n".as_slice(), multipart("a").as_bytes()].concat();
    let shown = [b"\xff\n".as_slice(), multipart(MARK).as_bytes()].concat();
    assert_eq!(Secrets::default().bytes(&bytes), shown);
}

#[test]
fn json_withholds_what_objects_of_secrets_hold() {
    let shown = |text: &str| Secrets::default().fields(text);
    for (body, wanted) in [
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
        assert_eq!(shown(body), wanted);
    }
    for plain in [r#"{"key":"a","code":"b","session":{"theme":"dark"}}"#, r#"{"next":"/?page=2"}"#]
    {
        assert_eq!(shown(plain), plain);
    }
}

#[test]
fn expectations_and_addresses_in_headers_are_withheld() {
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
    let shown = serde_json::to_string(&request).unwrap();
    for secret in ["semi", "horse", "staple", "hunter"] {
        assert!(!shown.contains(secret), "{shown}");
    }
    for kept in ["x=1;token=", "page=2", "\"^1\"", "\"^1$\"", "code="] {
        assert!(shown.contains(kept), "{shown}");
    }
}

#[test]
fn checks_withhold_what_was_asked_and_expected() {
    let asked = r#"POST /d?api_key=a&n=1, A: b, body "{\"password\":\"c\"}""#;
    let shown = r#"POST /d?api_key=(withheld)&n=1, A: b, body "{\"password\":\"(withheld)\"}""#;
    assert_eq!(Secrets::default().text(asked), shown);
    let expected =
        r#"status 418, location: http://u:a@h/, JSON /token "b", JSON /jwt matching ^c, JSON /n 1"#;
    let shown = r#"status 418, location: http://u:(withheld)@h/, JSON /token "(withheld)", JSON /jwt matching (withheld), JSON /n 1"#;
    assert_eq!(Secrets::default().text(expected), shown);
}

#[test]
fn settings_hold_secrets_in_any_string_and_comment() {
    for (source, shown) in [
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
        assert_eq!(Secrets::default().source(source), shown);
    }
    // Known from the request, with what escapes it here.
    let mut secrets = Secrets::default();
    secrets.pattern("set-cookie", &mut r"^id=\d+".to_string());
    assert_eq!(secrets.source(r#"matches = "^id=\\d+""#), "matches = \"(withheld)\"");
}

#[test]
fn bodies_in_commands_are_withheld_however_they_are_written() {
    for line in [
        "dyno load http://x/ --request '1 POST /ok pin=12x'",
        "dyno load http://x/ '--request=1 POST /ok a=1&pin=12x'",
        "dyno load http://x/ --request '1 POST /ok {\"pin\":{\"v\":\"12x\"}}'",
        "dyno load http://x/ -bpin=12x",
        "dyno load http://x/ --body pin=12x",
        "dyno load http://x/ -b '{\"token\":{\"v\":[\"12x\"]}}'",
        "dyno load http://x/ --expect-contains pin=12x",
        "dyno load http://x/ --expect-json /pin/v=12x",
        "dyno load --curl 'curl http://x/ -dpin=12x'",
        "dyno load --curl \"curl http://x/ -d $'pin=12x'\"",
        "dyno load --curl 'curl http://x/ --data-raw=pin=12x'",
        "dyno load --curl 'curl http://x/ -F pin=12x'",
        "dyno load --curl 'curl http://x/ --json {\\\"pin\\\":\\\"12x\\\"}'",
    ] {
        let shown = crate::shell::command(&Secrets::default().command(&words(line)));
        assert!(!shown.contains("12x") && shown.contains(MARK), "{line}: {shown}");
    }
}

#[test]
fn ambiguous_secret_is_erased_elsewhere_unless_a_word() {
    let mut secrets = Secrets::default();
    assert_eq!(secrets.fields("pin=swordfish&key=Zq7x001d"), "pin=(withheld)&key=(withheld)");
    assert_eq!(secrets.erase("got swordfish and Zq7x001d"), "got swordfish and (withheld)");
}

#[test]
fn form_in_quotation_marks_is_withheld() {
    let shown = |line: &str| Secrets::default().log(line);
    assert_eq!(shown("the body has no \"pin=12x\""), "the body has no \"pin=(withheld)\"");
    assert_eq!(shown("the body has no \"code=500\""), "the body has no \"code=500\"");
}

#[test]
fn pointers_into_an_object_of_secrets_are_withheld() {
    let mut secrets = Secrets::default();
    for pointer in ["/pin/v", "/token/0", "/a/password"] {
        let mut value = serde_json::json!("12x");
        secrets.json_fields(pointer, &mut value);
        assert_eq!(value, MARK, "{pointer}");
    }
}
