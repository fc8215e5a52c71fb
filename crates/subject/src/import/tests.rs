//! Tests of the definition of an imported server, and of the remaining steps for the user.

use super::*;

type Files<'a> = &'a [(&'a str, &'a str)];

fn import(files: Files<'_>, test: Option<&str>) -> Result<(toml::Table, ImportedSubject), String> {
    let read = |name: &str| {
        Ok(files.iter().find(|(path, _)| *path == name).map(|(_, text)| (*text).to_string()))
    };
    let subject = techempower("quick", &read, test)?;
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("subjects/quick");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("subject.toml"), &subject.toml).unwrap();
    crate::definition::Definition::read(&folder)
        .unwrap_or_else(|error| panic!("{error}\n{}", subject.toml));
    Ok((subject.toml.parse().unwrap(), subject))
}

const CONFIG_JSON: &str = r#"{"framework": "quick", "tests": [{
    "default": {"plaintext_url": "/plaintext", "json_url": "/json", "port": 8080,
                "language": "Go", "display_name": "Qu\u200bick",
                "approach": "Realistic", "classification": "Platform", "webserver": "None",
                "database": "None"},
    "pg": {"json_url": "/json", "db_url": "/db", "query_url": "/queries?n=", "port": 9000,
           "database": "Postgres", "language": "Go"}
}]}"#;

/// Returns the definition of a default test with these members.
fn definition(members: &str) -> Result<toml::Table, String> {
    let config = format!(r#"{{"framework": "quick", "tests": [{{"default": {{{members}}}}}]}}"#);
    import(&[(CONFIG, &config), ("quick.dockerfile", "FROM x\n")], None).map(|(toml, _)| toml)
}

#[test]
fn techempower_writes_settings_and_lists_steps() {
    let docker = "FROM golang:1.24\nWORKDIR /quick\nRUN go build \\\n  -o app .\nEXPOSE 8080\nCMD \
                  ./app -p 8080\n";
    let (toml, subject) =
        import(&[(CONFIG, CONFIG_JSON), ("quick.dockerfile", docker)], None).unwrap();
    assert_eq!(toml["title"].as_str(), Some("Qu\u{200b}ick"));
    assert_eq!(toml["checks"][0].as_str(), Some("techempower"));
    assert_eq!(toml["start"]["port"].as_integer(), Some(8080));
    assert_eq!(toml["endpoints"]["plaintext"].as_str(), Some("/plaintext"));
    assert_eq!(toml["ready"]["path"].as_str(), Some("/plaintext"));
    let steps = subject.remaining_steps.join("\n");
    for step in ["FROM golang:1.24", "RUN go build \\\n  -o app .", "CMD ./app -p 8080"] {
        assert!(steps.contains(step), "{step}: {steps}");
        for line in step.lines() {
            assert!(subject.toml.contains(&format!("#   {line}\n")), "{line}: {}", subject.toml);
        }
    }
    assert!(steps.ends_with("to import another test of this framework: pg (Postgres)."), "{steps}");
}

#[test]
fn techempower_commands_of_dockerfile_are_comments() {
    let docker = "FROM golang\nENV A=b\nRUN touch /tmp/pwned\nENTRYPOINT [\"/pwned\"]\nCMD pwned\n";
    let config =
        CONFIG_JSON.replace("\"port\": 8080", "\"port\": 8080, \"docker_cmd\": \"pwned\\n[x]\"");
    let (toml, subject) = import(&[(CONFIG, &config), ("quick.dockerfile", docker)], None).unwrap();
    assert!(toml.get("build").is_none() && toml.get("version").is_none(), "{toml}");
    assert_eq!(toml["start"]["command"].as_array().unwrap().len(), 1);
    assert_eq!(toml["start"]["command"][0].as_str(), Some("false"));
    assert!(toml["start"].get("env").is_none());
    let requires = toml["requires"].as_array().unwrap();
    assert_eq!((requires.len(), requires[0]["test"].as_str()), (1, Some("false")));
    let mentions = subject.toml.lines().filter(|line| line.contains("pwned"));
    assert!(mentions.clone().count() == 4 && mentions.clone().all(|line| line.starts_with('#')));
}

#[test]
fn techempower_steps_cannot_leave_comments() {
    let docker = "FROM x\nRUN a\rname = \"evil\"\nRUN <<E\n'''\n\"\"\"\n[start]\ncommand = \
                  [\"evil\"]\nE\nRUN \u{2028}x = 1\u{85}y = 2\u{c}z\nCMD [\"a\"]\n";
    let (toml, _) = import(&[(CONFIG, CONFIG_JSON), ("quick.dockerfile", docker)], None).unwrap();
    let mut keys: Vec<&str> = toml.keys().map(String::as_str).collect();
    keys.sort_unstable();
    let expected_keys = [
        "checks",
        "description",
        "endpoints",
        "language",
        "name",
        "protocols",
        "ready",
        "requires",
        "start",
        "title",
    ];
    assert_eq!(keys, expected_keys);
    assert_eq!(toml["name"].as_str(), Some("quick"));
    // The name of the Dockerfile stays in its line, and a value in its string.
    let config = CONFIG_JSON
        .replace("\"port\": 8080", "\"port\": 8080, \"dockerfile\": \"d\\n[build]\\n'''\"")
        .replace("Qu\\u200bick", "a\\\"\\n[build]\\n\\u007f");
    let (toml, _) = import(&[(CONFIG, &config), ("d\n[build]\n'''", "FROM x\n")], None).unwrap();
    assert!(toml.get("build").is_none(), "{toml}");
}

#[test]
fn techempower_port_may_be_text_or_number() {
    let port = |text: &str| definition(&format!(r#""json_url": "/json", "port": {text}"#));
    for text in ["9000", "\"9000\"", "\" 9000 \""] {
        assert_eq!(port(text).unwrap()["start"]["port"].as_integer(), Some(9000), "{text}");
    }
    assert!(port("null").unwrap()["start"].get("port").is_none());
    for text in ["\"\"", "\"x\"", "0", "70000", "\"-1\"", "90.5"] {
        let error = port(text).unwrap_err();
        assert!(error.contains("must be a number from 1 to 65535"), "{text}: {error}");
    }
    let toml = definition(
        r#""display_name": 3, "language": true, "webserver": null, "versus": [], "port": 1, "db_url": null"#,
    )
    .unwrap();
    assert_eq!((toml["title"].as_str(), toml["language"].as_str()), (Some("3"), Some("true")));
    assert!(toml["endpoints"].as_table().unwrap().is_empty());
}

#[test]
fn techempower_database_becomes_backend_postgres() {
    let docker = "FROM python:3.11\nENV URL=postgres://u:p@tfb-database:5432/hello_world\nCMD \
                  [\"gunicorn\"]\n";
    let files = [(CONFIG, CONFIG_JSON), ("quick-pg.dockerfile", docker)];
    let (toml, subject) = import(&files, Some("pg")).unwrap();
    assert!(toml.get("checks").is_none(), "{toml}");
    assert_eq!(toml["backends"][0].as_str(), Some("postgres"));
    assert_eq!(toml["endpoints"]["query"].as_str(), Some("/queries?n="));
    let steps = subject.remaining_steps.join("\n");
    for part in [
        "port 9000",
        "The responses of the server are not checked",
        "`backends/postgres`",
        "grep -r",
        "default",
    ] {
        assert!(steps.contains(part), "{part}: {steps}");
    }
}

#[test]
fn techempower_lists_databases_that_are_not_set_up() {
    let steps = |members: &str| {
        let config = format!(
            r#"{{"framework": "quick", "tests": [
                {{"default": {{"port": 1, {members}}}}},
                {{"my": {{"database": "MySQL"}}, "plain": {{"database": "None"}}}}]}}"#
        );
        let files = [(CONFIG, config.as_str()), ("quick.dockerfile", "FROM x\n")];
        let (toml, subject) = import(&files, None).unwrap();
        (toml.contains_key("backends"), subject.remaining_steps.join("\n"))
    };
    let text = "which dyno does not set up.";
    for (members, has_backend, listed) in [
        (r#""db_url": "/db", "database": "mysql""#, false, Some("the test uses mysql, ")),
        (r#""db_url": "/db", "database": "Postgres""#, true, None),
        (r#""db_url": "/db", "database": "postgres, Redis""#, true, Some("the test uses Redis, ")),
        (
            r#""db_url": "/db", "database": ["mysql", "MongoDB"]"#,
            false,
            Some("the test uses mysql and MongoDB, "),
        ),
        (r#""db_url": "/db", "database": "None""#, false, None),
        (r#""db_url": "/db", "database": null"#, false, None),
    ] {
        let (found, steps) = steps(members);
        assert!(steps.ends_with("this framework: my (MySQL), plain."), "{steps}");
        assert_eq!(found, has_backend, "{members}");
        assert_eq!(steps.contains(text), listed.is_some(), "{members}: {steps}");
        assert!(steps.contains(listed.unwrap_or_default()), "{members}: {steps}");
    }
    let unused = steps(r#""database": "postgres""#).1;
    assert!(unused.contains("names the database PostgreSQL, but no URL"), "{unused}");
    let on_windows =
        steps(r#""db_url": "/db", "database": "postgres", "database_os": "Windows""#).1;
    assert!(on_windows.contains("runs on Windows (`database_os`)"), "{on_windows}");
    assert!(
        !steps(r#""db_url": "/db", "database": "postgres", "database_os": "Linux""#)
            .1
            .contains("database_os")
    );
}

#[test]
fn techempower_invalid_folder_fails() {
    let error = |files: Files<'_>, test| import(files, test).unwrap_err();
    assert!(error(&[], None).contains("benchmark_config.json: not found"));
    let config = [(CONFIG, CONFIG_JSON)];
    assert!(error(&config, Some("x")).contains("no test \"x\"\nhint: use one of default, pg"));
    assert!(error(&config, None).contains("quick.dockerfile: not found"));
    assert!(error(&[(CONFIG, "{")], None).contains("benchmark_config.json: EOF"));
    let outside = CONFIG_JSON.replace("\"port\": 8080", "\"dockerfile\": \"../x\"");
    assert!(error(&[(CONFIG, &outside)], None).contains("leads out of the folder"));
    let refused = |_: &str| Err("x is a link".to_string());
    assert_eq!(techempower("quick", &refused, None).unwrap_err(), "x is a link");
}
