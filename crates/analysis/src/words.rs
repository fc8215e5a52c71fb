//! Numbers as text, for the sentences of verdicts and caveats.

/// A share as a percentage with at most one decimal.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 10.0 || percent == 0.0 { format!("{percent:.0} %") } else { format!("{percent:.1} %") }
}

/// `one CPU` or `1.5 CPUs`.
pub(crate) fn cpus(n: f64) -> String {
    if (n - 1.0).abs() < 0.01 { "one CPU".into() } else { format!("{n:.1} CPUs") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_said_in_words() {
        assert_eq!(
            (percent(0.934), percent(0.0123), percent(0.0)),
            ("93 %".into(), "1.2 %".into(), "0 %".into())
        );
        assert_eq!((percent(0.1), percent(0.0994)), ("10 %".into(), "9.9 %".into()));
        assert_eq!((cpus(1.004), cpus(1.5)), ("one CPU".into(), "1.5 CPUs".into()));
        assert_eq!((cpus(0.98), cpus(1.02)), ("1.0 CPUs".into(), "1.0 CPUs".into()));
    }
}
