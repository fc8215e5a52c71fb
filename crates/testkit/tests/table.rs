//! Tests that the list of behaviours is consistent.

use std::collections::BTreeSet;

use dyno_testkit::{LoadLevel, Need, Program, RequestWork, ThreadModel, behaviours, find};

#[test]
fn behaviour_names_are_unique() {
    let names: BTreeSet<&str> = behaviours().map(|b| b.name).collect();
    assert_eq!(names.len(), behaviours().count());
    assert!(names.len() >= 30);
}

#[test]
fn every_load_has_expected_verdicts() {
    for behaviour in behaviours() {
        assert!(!behaviour.loads.is_empty(), "{}", behaviour.name);
        for load in behaviour.loads {
            assert!(!load.correct.is_empty(), "{}", behaviour.name);
        }
    }
}

#[test]
fn loads_are_listed_from_low_to_high() {
    let size = |at: LoadLevel| match at {
        LoadLevel::Connections(n) => (0, n),
        LoadLevel::Rate(n) => (1, n),
    };
    for behaviour in behaviours() {
        assert!(
            behaviour.loads.is_sorted_by(|a, b| size(a.at) < size(b.at)),
            "{}: {:?}",
            behaviour.name,
            behaviour.loads
        );
    }
}

#[test]
fn back_ends_are_in_table_and_are_called() {
    for behaviour in behaviours() {
        let calls = matches!(
            behaviour.program,
            Program::Testkit(_, RequestWork::CallBackEnd | RequestWork::CallPooled(_))
        );
        assert_eq!(calls, behaviour.back_end.is_some(), "{}", behaviour.name);
        let Some(back_end) = behaviour.back_end else { continue };
        let service = find(back_end.behaviour).expect("the back end is in the table");
        assert!(service.back_end.is_none() && service.needs.is_empty(), "{}", behaviour.name);
    }
}

#[test]
fn timer_work_is_only_in_event_loops() {
    for behaviour in behaviours() {
        if let Program::Testkit(model, RequestWork::Timer(_)) = behaviour.program {
            assert!(matches!(model, ThreadModel::EventLoop), "{}", behaviour.name);
        }
    }
}

#[test]
fn behaviours_with_limits_need_root() {
    for behaviour in behaviours() {
        let conditions = behaviour.conditions;
        let limits = conditions.quota_milli.is_some() || conditions.memory_mib.is_some();
        assert_eq!(limits, behaviour.needs.contains(&Need::Root), "{}", behaviour.name);
    }
}
