//! Tests of plans as JSON and of texts about plans.

use dyno_model::Plan;
use dyno_model::plan::{Extraction, ExtractionSource};

use crate::redact::{RedactedPlan, Withheld};

fn golden_plan() -> Plan {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/hello/run");
    let run = dyno_archive::RunDir::open(std::path::Path::new(folder)).unwrap().read().unwrap();
    run.header.plan
}

#[test]
fn plan_in_json_withholds_secrets() {
    let mut open = golden_plan();
    let redacted = RedactedPlan::new(&open).unwrap();
    assert_eq!(redacted.withheld(), Withheld(0));
    assert_eq!(redacted.into_json(), serde_json::to_value(&open).unwrap());
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
    let redacted = RedactedPlan::new(&open).unwrap();
    let withheld = redacted.withheld();
    let json = redacted.into_json();
    let text = json.to_string();
    for secret in ["abc12", "correct-horse", "hunter", "somebody"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    assert!(text.contains("kept") && json["arms"][0]["conditions"]["request"]["page"] == "kept");
    assert_eq!(withheld, Withheld(9));
}

/// A secret of one request may be a part of an extraction, where no name marks it.
#[test]
fn extraction_withholds_secrets_of_other_places() {
    let mut open = golden_plan();
    let request = &mut open.workloads[0].requests[0];
    request.headers.push(("Authorization".into(), "Bearer abc123xyz".into()));
    let extraction = |source, matches: Option<&str>| Extraction {
        name: "id".into(),
        source,
        matches: matches.map(String::from),
    };
    request.extract = vec![
        extraction(ExtractionSource::Json("/users/abc123xyz/id".into()), None),
        extraction(ExtractionSource::Body, Some("of abc123xyz is ([0-9]+)")),
        extraction(ExtractionSource::Json("/kept".into()), Some("^[a-z]+$")),
    ];
    let json = RedactedPlan::new(&open).unwrap().into_json();
    let extract = &json["workloads"][0]["requests"][0]["extract"];
    assert_eq!(extract[0]["source"]["json"], "/users/(withheld)/id");
    assert_eq!(extract[1]["matches"], "of (withheld) is ([0-9]+)");
    assert_eq!(extract[2]["source"]["json"], "/kept");
    assert_eq!(extract[2]["matches"], "^[a-z]+$");
}

/// Texts about a plan repeat its names, paths and descriptions.
#[test]
fn text_about_plan_withholds_same_secrets_as_json() {
    let mut open = golden_plan();
    let set = |name: &str, value: &str| (name.to_string(), value.to_string());
    open.arms[0].conditions.env.extend([set("DB_PASSWORD", "abc125xyz"), set("PAGE", "kept-7x")]);
    open.suite.description = "with abc125xyz at kept-7x".into();
    let request = &mut open.workloads[0].requests[0];
    request.path = "/u/abc125xyz?pin=4711&n=2".into();
    request.headers.push(set("X-Api-Key", "abc126xyz"));
    open.workloads[0].name = "as abc126xyz".into();
    let redacted = RedactedPlan::new(&open).unwrap();
    let describe = |plan: &Plan| {
        let workload = &plan.workloads[0];
        format!("{} · {} · {}", plan.suite.description, workload.name, workload.requests[0].path)
    };
    let text = redacted.text(&describe(redacted.plan()));
    let expected = "with (withheld) at kept-7x · as (withheld) · /u/(withheld)?pin=(withheld)&n=2";
    assert_eq!(text, expected);
    // Other texts quote the plan as it is.
    assert_eq!(redacted.text("step of abc126xyz failed"), "step of (withheld) failed");
    let json = redacted.into_json().to_string();
    for secret in ["abc12", "4711"] {
        assert!(describe(&open).contains(secret) && !json.contains(secret), "{secret}: {json}");
    }
}

/// Descriptions, labels and names are shown as they are, and contain secrets of other forms than
/// the settings of the plan.
#[test]
fn plan_withholds_secrets_of_texts_and_names() {
    let mut open = golden_plan();
    open.suite.description = "staging: https://admin:hunter2@stg/".into();
    open.suite.name = "with glpat-AbCd1234EfGh5678".into();
    let label = "token=opensesame at https://u:hunter2@h/".to_string();
    open.report.markers.push(dyno_model::plan::Marker { connections: 4.0, label });
    open.workloads[0].name = "/app.js?token=opensesame".into();
    let request = &mut open.workloads[0].requests[0];
    let mut second = request.clone();
    request.name = "/app.js?token=opensesame".into();
    second.name = "/app.js?token=opensesame2".into();
    open.workloads[0].requests.push(second);
    open.arms[0].name = "a?pin=opensesame".into();
    open.report.baseline = Some(open.arms[0].name.clone());
    let redacted = RedactedPlan::new(&open).unwrap();
    assert!(redacted.withheld().0 > 0);
    let mut about = serde_json::json!({"steps": ["step of /app.js?token=opensesame"]});
    redacted.erase_from_json(&mut about);
    assert_eq!(about["steps"][0], "step of /app.js?token=(withheld)");
    let named = redacted.plan().workloads[0].name.clone();
    assert_eq!(redacted.text(&named), "/app.js?token=(withheld)");
    let json = redacted.into_json();
    let text = json.to_string();
    for secret in ["hunter2", "opensesame", "glpat-"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    assert_eq!(json["suite"]["description"], "staging: https://admin:(withheld)@stg/");
    let workload = &json["workloads"][0];
    assert_eq!(workload["name"], "/app.js?token=(withheld)");
    assert_ne!(workload["requests"][0]["name"], workload["requests"][1]["name"]);
    assert_eq!(json["arms"][0]["name"], json["report"]["baseline"]);
}
