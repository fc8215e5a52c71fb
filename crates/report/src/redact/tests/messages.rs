//! Messages of dyno about options and keys whose names are those of secrets.

use super::*;

#[test]
fn sentence_after_option_or_key_keeps_its_words() {
    for message in [
        "`cookies`: only the visitors of a sequence keep cookies",
        "dyno: --cookies: needs the steps of a sequence\nhint: use `--cookies` with steps",
    ] {
        assert_eq!(Secrets::default().log(message), message);
    }
}

#[test]
fn value_after_option_or_key_is_withheld() {
    for (log, redacted) in [
        ("--cookies: a1b2c3 the steps", "--cookies: (withheld) the steps"),
        ("`token`: hunter", "`token`: (withheld)"),
        ("`password`: correct horse battery", "`password`: (withheld) horse battery"),
    ] {
        assert_eq!(Secrets::default().log(log), redacted);
    }
}
