//! Sentences of made reports.

use super::*;

#[test]
fn tie_names_its_best_only_where_all_are_tied_with_all() {
    let tie = |with: &[&str], mutual| Tie {
        workload: "w".into(),
        best: "a".into(),
        with: with.iter().map(ToString::to_string).collect(),
        mutual,
        lower_bounds: Vec::new(),
    };
    let upper = |id: &str| id.to_uppercase();
    assert_eq!(tie_text(&tie(&["b"], true), upper), ("A and B".into(), String::new()));
    assert_eq!(tie_text(&tie(&["b", "c"], false), upper), ("B and C".into(), " from A".into()));
    let groups = [("b and c", " from a"), ("d and e", "")];
    let groups = groups.into_iter().map(|(who, from)| (who.to_string(), from.to_string()));
    assert_eq!(
        tie_sentence(" over h1", groups).unwrap(),
        "b and c cannot be distinguished from a by peak throughput over h1 (tie), nor can d and e."
    );
}

#[test]
fn too_few_repeats_give_no_ranking() {
    let of = |name: &str, repeats: usize| (name.to_string(), repeats);
    for (all, wanted) in [
        (
            &[of("nginx", 2), of("caddy", 3)][..],
            Some("nginx has 2 valid repeats, too few for a rank."),
        ),
        (
            &[of("a", 1), of("b", 3), of("c", 2)],
            Some(
                "a (1 valid repeat) and c (2 valid repeats) have too few valid repeats for a \
                  rank.",
            ),
        ),
        (
            &[of("a", 2), of("b", 1)],
            Some(
                "With 2 valid repeats, differences in peak throughput are not significant. The \
                 order is not a ranking.",
            ),
        ),
        (&[of("a", 3), of("b", 3)], None),
        (&[of("a", 1)], None),
    ] {
        assert_eq!(unranked_sentence("", all).as_deref(), wanted, "{all:?}");
    }
}

#[test]
fn medians_say_of_how_many_repeats_they_are() {
    for (repeats, wanted) in [
        (&[3, 3][..], Some("medians of 3 repeats")),
        (&[3, 2, 3], Some("medians of 2 to 3 repeats")),
        (&[1, 1], Some("one repeat, so no interval")),
        (&[], None),
    ] {
        assert_eq!(medians_of(repeats.iter().copied()).as_deref(), wanted, "{repeats:?}");
    }
}
