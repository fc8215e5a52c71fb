use std::fmt::Write as _;
use std::path::Path;

use dyno_model::Protocol;
use dyno_model::plan::{Expect, Request};

use super::*;

/// Returns the settings of a table `[load]`.
fn read(source: &str) -> Result<LoadSettings, String> {
    toml::from_str(source).map_err(|error| error.message().to_string())
}

/// Returns the settings of a command line.
fn set(key: &str, text: &str) -> Result<LoadSettings, String> {
    let mut settings = LoadSettings::default();
    settings.set(Setting::with_key(key), text).map(|()| settings)
}

#[test]
fn suite_and_command_line_set_same_value() {
    for (key, in_suite, text) in [
        ("connections", "[8]", "8"),
        ("threads", "3", "3"),
        ("requests_per_connection", "5000", "5k"),
        ("duration", "\"2s\"", "2"),
        ("warmup", "\"2s\"", "2"),
        ("timeout", "\"500ms\"", "0.5"),
        ("window_bits", "16", "16"),
        ("rate", "\"1k..5k\"", "1k..5k"),
        ("check_one_in", "0", "0"),
        ("driver", "\"epoll\"", "epoll"),
    ] {
        let settings = set(key, text).unwrap();
        assert_eq!(read(&format!("{key} = {in_suite}")), Ok(settings.clone()), "{key}");
        let given: Vec<&str> = settings.given().map(|setting| setting.key).collect();
        assert_eq!(given, [key]);
    }
}

#[test]
fn all_choices_and_defaults_are_valid() {
    for setting in SETTINGS {
        let default = setting.option.and_then(|option| option.default);
        for text in setting.choices().iter().copied().chain(default) {
            set(setting.key, text).unwrap_or_else(|error| panic!("{}: {error}", setting.key));
        }
        // Defaults of the table are the defaults of the load.
        if let Some(default) = default.filter(|_| setting.key != "interval") {
            let mut settings = LoadSettings::default();
            settings.set_default(setting, default).unwrap();
            assert_eq!(settings, LoadSettings::default(), "{}", setting.key);
        }
    }
}

#[test]
fn value_out_of_range_is_refused_with_bounds() {
    for (key, in_suite, text, suite_error, command_line_error) in [
        ("window_bits", "9", "9", "must be 10 to 30", "must be a whole number from 10 to 30"),
        ("threads", "0", "0", "must be at least 1", "must be a whole number from 1 to 4294967295"),
        (
            "requests_per_connection",
            "0",
            "0",
            "must be at least 1",
            "must be a whole number, at least 1",
        ),
        ("timeout", "\"1us\"", "1us", "must be at least 1ms", "must be at least 1ms"),
        ("ramp_connections", "\"0s\"", "0", "must be at least 1ms", "must be at least 1ms"),
        ("interval", "\"5ms\"", "5ms", "must be at least 10ms", "must be at least 10ms"),
    ] {
        let error = read(&format!("{key} = {in_suite}")).unwrap_err();
        assert!(error.starts_with(&format!("`{key}`: {suite_error}")), "{error}");
        let error = set(key, text).unwrap_err();
        assert!(error.starts_with(command_line_error), "{error}");
    }
    for text in ["x", "1.5", "-1"] {
        assert!(set("check_one_in", text).is_err() && set("threads", text).is_err(), "{text}");
    }
    assert!(set("requests", "x").unwrap_err().contains("write it like 5000, 5k"));
    for text in ["99999999999999999999", "18446744073709551616", "99999999999999M"] {
        let error = set("requests", text).unwrap_err();
        assert!(error.contains("must be at most 18446744073709551615"), "{text}: {error}");
    }
    assert_eq!(read("streams = 2000000").unwrap_err(), "`streams`: must be at most 1048576");
    assert_eq!(set("streams", "2M").unwrap_err(), "must be at most 1048576");
    assert!(set("warmup", "auto").is_err(), "only suites warm up until the server is steady");
}

#[test]
fn page_has_more_streams_by_default() {
    let page = Some(Page { connections: 6 });
    let streams = |settings: LoadSettings| [None, page].map(|page| settings.streams_for(page));
    assert_eq!(streams(LoadSettings::default()), [[1], [PAGE_STREAMS]]);
    assert_eq!(streams(set("streams", "1").unwrap()), [[1], [1]]);
}

#[test]
fn conflict_has_same_error_for_option_and_key() {
    let conflict = |words: &[(&str, &str)], notation, protocol| {
        let mut settings = LoadSettings::default();
        for (key, text) in words {
            settings.set(Setting::with_key(key), text).unwrap();
        }
        settings
            .conflict(notation, false)
            .or_else(|| settings.protocol_conflict(notation, &[protocol]))
    };
    for (words, protocol, key, expected) in [
        (
            &[("first_byte_timeout", "10s")][..],
            Protocol::H1,
            "first_byte_timeout",
            "must be shorter than",
        ),
        (
            &[("first_byte_timeout", "2s"), ("timeout", "1s")],
            Protocol::H1,
            "first_byte_timeout",
            "must be shorter than",
        ),
        (&[("arrival", "poisson")], Protocol::H1, "arrival", "rate"),
        (&[("streams", "2")], Protocol::H1Tls, "streams", "needs HTTP/2, but"),
        (&[("window_bits", "30")], Protocol::H1, "window_bits", "needs HTTP/2, but"),
        (&[("pipeline", "2")], Protocol::H2c, "pipeline", "needs HTTP/1.1, but"),
    ] {
        for notation in [Notation::Options, Notation::Keys] {
            let Conflict { key: found, message } = conflict(words, notation, protocol).unwrap();
            assert_eq!(found, key, "{message}");
            let name = match notation {
                Notation::Options => Setting::with_key(key).flag(),
                Notation::Keys => format!("`{key}"),
            };
            assert!(message.starts_with(&name) && message.contains(expected), "{message}");
            assert!(message.contains("\nhint: "), "{message}");
        }
    }
    for (words, protocol) in [
        (&[("first_byte_timeout", "9s")][..], Protocol::H1),
        (&[("arrival", "poisson"), ("rate", "5")], Protocol::H1),
        (&[("streams", "2"), ("window_bits", "30")], Protocol::Auto),
        (&[("pipeline", "2")], Protocol::H1),
    ] {
        assert_eq!(conflict(words, Notation::Options, protocol), None, "{words:?}");
    }
}

#[test]
fn sample_of_checks_needs_sampled_expectation() {
    let mut settings = LoadSettings::default();
    let expect = |expect: Expect| Request { expect, ..Request::default() };
    let exact = expect(Expect { status: Some(200), ..Expect::default() });
    let sampled = expect(Expect { body_contains: Some("x".into()), ..Expect::default() });
    let conflict = |settings: &LoadSettings, notation, requests: &[&Request]| {
        settings.expectation_conflict(notation, requests.iter().copied())
    };
    assert_eq!(conflict(&settings, Notation::Keys, &[&exact]), None, "the default is no conflict");
    settings.set(Setting::with_key("check_one_in"), "1").unwrap();
    for (notation, name, hint) in [
        (Notation::Options, "--check-one-in: applies to", "such as --expect-json"),
        (Notation::Keys, "`check_one_in`: applies to", "such as `json` in `expect`"),
    ] {
        let Conflict { key, message } = conflict(&settings, notation, &[&exact]).unwrap();
        assert_eq!(key, "check_one_in");
        assert!(message.starts_with(name) && message.contains(hint), "{message}");
        assert_eq!(conflict(&settings, notation, &[&exact, &sampled]), None);
    }
}

#[test]
fn reference_page_has_all_settings() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/suite-keys.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let head = "| key | default | meaning |\n|---|---|---|\n";
    let table_start = page.find("## `[load]`").unwrap();
    let rows_start = table_start + page[table_start..].find(head).unwrap() + head.len();
    let rows_end = rows_start + page[rows_start..].find("\n\n").unwrap() + 1;
    let mut rows = String::new();
    for Setting { key, suite_key, .. } in SETTINGS {
        let Some(SuiteKey { default, meaning }) = suite_key else { continue };
        if !meaning.is_empty() {
            let _ = writeln!(rows, "| `{key}` | {default} | {meaning} |");
        }
    }
    let overridden = page.lines().find(|line| line.ends_with("replace the settings of `[load]` |"));
    for Setting { key, .. } in SETTINGS.iter().filter(|setting| setting.is_per_workload) {
        assert!(overridden.is_some_and(|line| line.contains(&format!("`{key}`"))), "{key}");
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let page = [&page[..rows_start], &rows, &page[rows_end..]].concat();
        std::fs::write(&path, page).unwrap();
        return;
    }
    assert!(
        page[rows_start..rows_end] == rows,
        "docs/reference/suite-keys.md is stale: run `UPDATE_GOLDEN=1 cargo test -p dyno-lab \
         settings`"
    );
}
