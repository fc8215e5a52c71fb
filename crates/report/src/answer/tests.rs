//! Tests sentences of the answer.

use super::ratios::rounded_ratio;
use super::*;

#[test]
fn tie_text_of_mutual_tie_includes_best() {
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
    let groups = groups.into_iter().map(|(names, from)| (names.to_string(), from.to_string()));
    assert_eq!(
        tie_sentence(" over h1", groups).unwrap(),
        "b and c cannot be distinguished from a by peak throughput over h1 (tie), nor can d and e."
    );
}

#[test]
fn unranked_sentence_names_subjects_with_few_repeats() {
    let ranked = |title: &str, repeats: usize| Ranked { title: title.to_string(), repeats };
    for (subjects, expected) in [
        (
            &[ranked("nginx", 2), ranked("caddy", 3)][..],
            Some("nginx has 2 usable repeats, too few for a rank."),
        ),
        (
            &[ranked("a", 1), ranked("b", 3), ranked("c", 2)],
            Some(
                "a (1 usable repeat) and c (2 usable repeats) have too few usable repeats for \
                  a rank.",
            ),
        ),
        (
            &[ranked("a", 2), ranked("b", 1)],
            Some(
                "With 2 usable repeats, differences in peak throughput are not significant. The \
                 order is not a ranking.",
            ),
        ),
        (&[ranked("a", 3), ranked("b", 3)], None),
        (&[ranked("a", 1)], None),
    ] {
        assert_eq!(unranked_sentence("", subjects).as_deref(), expected, "{subjects:?}");
    }
}

#[test]
fn medians_of_repeats_states_their_range() {
    for (repeats, expected) in [
        (&[3, 3][..], Some("medians of 3 repeats")),
        (&[3, 2, 3], Some("medians of 2 to 3 repeats")),
        (&[1, 1], Some("one repeat, so no interval")),
        (&[], None),
    ] {
        assert_eq!(medians_of(repeats.iter().copied()).as_deref(), expected, "{repeats:?}");
    }
}

#[test]
fn ratio_has_three_digits_and_reads_one_only_if_equal() {
    for (value, low, nearest, high) in [
        (1.0, "1.00", "1.00", "1.00"),
        (1.0012, "1.001", "1.001", "1.01"),
        (1.0048, "1.004", "1.005", "1.01"),
        (0.9996, "0.999", "0.9996", "0.9996"),
        (1.000_000_1, "1.00", "1.00", "1.01"),
        (2.3, "2.30", "2.30", "2.30"),
        (10.64, "10.6", "10.6", "10.7"),
        (1234.5, "1234", "1235", "1235"),
        (0.098_76, "0.0987", "0.0988", "0.0988"),
        (0.5, "0.500", "0.500", "0.500"),
    ] {
        let texts = [f64::floor, f64::round, f64::ceil].map(|end| rounded_ratio(value, end));
        assert_eq!(texts, [low, nearest, high], "{value}");
    }
}
