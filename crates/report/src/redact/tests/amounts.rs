//! Tests numbers and words whose name contains the name of a secret: amounts, types and places are
//! kept, and passwords of digits are withheld.

use super::*;

#[test]
fn numeric_passwords_under_any_name_are_withheld() {
    for (log, redacted) in [
        ("DB_PASS=12345678", "DB_PASS=(withheld)"),
        ("GET /login?user=bob&pass=12345678", "GET /login?user=bob&pass=(withheld)"),
        ("ADMIN_PASSWORD=19840512", "ADMIN_PASSWORD=(withheld)"),
        ("ADMIN_PASSWORD: 19840512", "ADMIN_PASSWORD: (withheld)"),
        ("management_token=998877", "management_token=(withheld)"),
        ("account_token='998877'", "account_token='(withheld)'"),
        ("max_pass=12345678 passwords=12345678", "max_pass=(withheld) passwords=(withheld)"),
        ("GET /?max_pin=4711&age_code=4711", "GET /?max_pin=(withheld)&age_code=4711"),
        ("message_signature=12345678", "message_signature=(withheld)"),
        ("session_address=12345678", "session_address=(withheld)"),
        ("admin_token:99887766", "admin_token:(withheld)"),
        (r#"{"adminPassword":19840512,"n":{seq}}"#, r#"{"adminPassword":(withheld),"n":{seq}}"#),
        (
            "<admin_password>19840512</admin_password>",
            "<admin_password>(withheld)</admin_password>",
        ),
        ("['--admin-password', '19840512']", "['--admin-password', '(withheld)']"),
    ] {
        assert_eq!(Secrets::default().log(log), redacted);
    }
    for (body, redacted) in [
        (
            r#"{"id":{seq},"admin_password":"19840512"}"#,
            r#"{"id":{seq},"admin_password":"(withheld)"}"#,
        ),
        (r#"{"admin_password":"19840512"}"#, r#"{"admin_password":"(withheld)"}"#),
        (r#"{"admin_password":19840512}"#, r#"{"admin_password":"(withheld)"}"#),
        (r#"{"admin_password":{"v":19840512}}"#, r#"{"admin_password":{"v":"(withheld)"}}"#),
        ("admin_password=19840512&n=1", "admin_password=(withheld)&n=1"),
    ] {
        assert_eq!(Secrets::default().fields(body), redacted);
    }
}

/// Lines of a log with amounts.
const LINES: [&str; 3] = [
    "max_tokens=100 maxTokens=100 MAX_TOKENS=128000 promptTokens=9 total_tokens=-1",
    "session_timeout=30 sessionTimeout=30 sessiontimeout=30 cookie_max_age=86400",
    "password_length=12 token_expires_in=3600 session_ttl_seconds=30 token_usage=512",
];

/// Texts with amounts, types and missing values.
const TEXTS: [&str; 13] = [
    "max_tokens: 128000",
    "tokens:128000",
    r#"{"max_tokens":128000,"token_type":"bearer","cookie":null,"n":1}"#,
    r#"{"max_tokens":[128000,4096],"temperature":0.5}"#,
    r#"{"usage":{"tokens":{"prompt":128000,"completion":30}}}"#,
    r#"{"auth":{"token_type":"bearer","max_token_age":300}}"#,
    r#"[{"name":"max_tokens","value":128000}]"#,
    r#"{"id":{seq},"auth":{"token_type":"bearer"}}"#,
    "max_tokens=128000&session_timeout=300&token_type=bearer",
    "/v1?max_tokens=128000&session_timeout=300",
    "server --max-tokens 128000 --session-timeout 300 --token-type bearer --token-file ./x",
    "<max_tokens>128000</max_tokens><token_type>bearer</token_type>",
    "JSON /max_tokens 128000, JSON /token_type \"bearer\", header X-Session-Timeout is not \"30\"",
];

#[test]
fn amounts_and_types_are_kept_in_every_form() {
    for text in LINES.into_iter().chain(TEXTS) {
        let mut secrets = Secrets::default();
        assert_eq!(secrets.log(text), text);
        assert_eq!(secrets.text(text), text);
        assert_eq!(secrets.source(&format!("# {text}")), format!("# {text}"));
        let command: Vec<String> = text.split(' ').map(String::from).collect();
        assert_eq!(secrets.command(&command), command);
        assert_eq!(secrets.count, 0, "{text}");
        let log = "completed 128000 requests of the bearer";
        assert_eq!(secrets.erase_from_foreign(log), log);
    }
    for body in TEXTS {
        assert_eq!(Secrets::default().fields(body), body);
    }
    let part = "--x\r\nContent-Disposition: form-data; name=\"max_tokens\"\r\n\r\n128000\r\n--x--";
    assert_eq!(Secrets::default().fields(part), part);
}

#[test]
fn amounts_in_headers_and_settings_are_kept() {
    for (name, value) in [
        ("X-Session-Timeout", "300"),
        ("X-Ratelimit-Tokens", "128000"),
        ("X-Token-Type", "bearer"),
        ("Cookie", "****"),
    ] {
        let mut secrets = Secrets::default();
        let mut header = value.to_string();
        secrets.header(name, &mut header);
        let mut pattern = format!("^{value}$");
        secrets.pattern(name, &mut pattern);
        assert_eq!((&*header, pattern), (value, format!("^{value}$")), "{name}");
        assert_eq!(secrets.setting(name, value), value);
        assert_eq!(secrets.count, 0, "{name}");
    }
    let source = "env = { MAX_TOKENS = \"128000\", AUTH_TYPE = \"basic\", PASS_FILE = \"/run/x\" }";
    assert_eq!(Secrets::default().source(source), source);
    // A credential is withheld under any name.
    let mut header = "Bearer abc123xyz987".to_string();
    Secrets::default().header("X-Token-Type", &mut header);
    assert_eq!(header, MARK);
    assert_eq!(Secrets::default().setting("AUTH_TYPE", "Basic dXNlcjpwYXNz"), MARK);
    let body = r#"{"token_type":"Bearer abc123xyz987"}"#;
    assert_eq!(Secrets::default().fields(body), r#"{"token_type":"(withheld)"}"#);
}
