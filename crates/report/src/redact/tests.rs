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
    let source = "name = \"tokens\"\nheaders = { Authorization = \"Bearer a\\\"bc\", Accept = \"*/*\" }\n\"Cookie\" = \"id=1\"\nsubjects = [\"token-a\", \"b\"]\nenv = { API_TOKEN = 'x y', LANG = \"C\" }\nabout = \"token: how to\"\nunclosed = \"";
    let mut secrets = Secrets::default();
    let shown = secrets.source(source);
    assert_eq!(
        shown,
        "name = \"tokens\"\nheaders = { Authorization = \"(withheld)\", Accept = \"*/*\" }\n\"Cookie\" = \"(withheld)\"\nsubjects = [\"token-a\", \"b\"]\nenv = { API_TOKEN = '(withheld)', LANG = \"C\" }\nabout = \"token: how to\"\nunclosed = \""
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
    let source = "vary = { \"request.token\" = [\"a1\", # ] first\n  # and\n  \"b1\"], \"env.LANG\" = [\"C\", \"D\"] }";
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
        ("[subjects.env]\nhttp_proxy = 'me:pw@proxy:3128'", "[subjects.env]\nhttp_proxy = '(withheld)'"),
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
    // What only may be one is no reason to look for it elsewhere.
    assert_eq!(secrets.erase_from_foreign("opensesame AIza4567"), "opensesame AIza4567");
    // Credentials are known under any name, and are looked for elsewhere.
    assert_eq!(secrets.header_line("X-Custom: Basic dXNlcjpwYXNz"), "X-Custom: (withheld)");
    let mut value = "Bearer 0a1b2c3d4e".to_string();
    secrets.header("X-Upstream", &mut value);
    assert_eq!(value, "(withheld)");
    assert_eq!(secrets.without_password("http://x/?t=ghp_0123456789abcdefghij"), "http://x/?t=(withheld)");
    let logged = secrets.erase_from_foreign("got dXNlcjpwYXNz, 0a1b2c3d4e and ghp_0123456789abcdefghij");
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
        let same = without_order(wanted).is_some() && without_order(&shown(text)) == without_order(wanted);
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
    assert_eq!(words_shown("dyno load http://h/ -b 'password=formpw&x=1'"), "-b password=(withheld)&x=1");
}

/// The end of a command, from its fourth word on.
fn words_shown(line: &str) -> String {
    Secrets::default().command(&words(line))[3..].join(" ")
}

#[test]
fn what_was_withheld_is_found_again_whole_and_in_parts_and_no_word_is() {
    let mut secrets = Secrets::default();
    for value in ["Bearer abc123xyz987", "id=cookieval77; theme=dark", "server", "abc123xyz9876", "hunter"] {
        secrets.withhold(value);
    }
    let log = "token abc123xyz987 cookie cookieval77 of hunter, not abc123xyz9876 nor hunters in the dark";
    let gone = "token (withheld) cookie (withheld) of (withheld), not (withheld) nor hunters in the dark";
    assert_eq!(secrets.erase_from_foreign(log), gone);
    let said = "server_starved: the server had abc123xyz987 requests";
    assert_eq!(secrets.erase(said), "server_starved: the server had (withheld) requests");
}

#[test]
fn a_value_that_can_be_no_word_is_found_beside_letters_and_digits() {
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
fn a_word_is_taken_for_a_secret_where_dyno_quotes_and_nowhere_else() {
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
    let renamed: BTreeMap<_, _> = secrets.renamed(names.map(String::from).into()).into_iter().collect();
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
    let source =
        "# don't\nCookie = \"\"\"\na = \"b\"\nid=1\"\"\"\nname = 'x\n'''\nToken = '''a'\nb'''\npath = \"/a\"";
    assert_eq!(
        Secrets::default().source(source),
        "# don't\nCookie = \"\"\"(withheld)\"\"\"\nname = 'x\n'''\nToken = '''a'\nb'''\npath = \"/a\""
    );
    assert_eq!(Secrets::default().source("Token = '''a'\nb'''\nc = 1"), "Token = '''(withheld)'''\nc = 1");
}

#[test]
fn what_was_withheld_is_said() {
    assert_eq!(said(Withheld(0)), None);
    assert!(said(Withheld(2)).unwrap().starts_with("2 values"));
}
