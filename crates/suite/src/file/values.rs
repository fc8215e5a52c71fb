//! Values that a suite gives as numbers or as text.

use std::fmt;

use dyno_config::mistake::{Mistake, mistake};
use dyno_config::secret::may_be_secret;
use serde::Deserialize;

/// A value of a factor or of a request's placeholder, as the suite writes it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged, expecting = "a value is a number, or a text in quotes")]
pub(super) enum NumberOrText {
    Whole(i64),
    Number(f64),
    Text(String),
}

impl fmt::Display for NumberOrText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NumberOrText::Whole(n) => write!(f, "{n}"),
            NumberOrText::Number(n) => write!(f, "{n}"),
            NumberOrText::Text(text) => f.write_str(text),
        }
    }
}

impl NumberOrText {
    /// Returns a value that is used as text. `name`: name of the value. If the name suggests a
    /// secret, a number is refused, because excerpts of the suite hide only values in quotes.
    pub(super) fn text(&self, name: &str) -> Result<String, Mistake> {
        match self {
            NumberOrText::Whole(_) if may_be_secret(name) => Err(mistake(
                "level",
                "the value may be a secret, and reports can hide a secret only if the suite has it \
                 in quotes\nhint: put the value into quotes",
            )),
            NumberOrText::Number(n) => Err(mistake(
                "level",
                format!(
                    "{n}: must be in quotes, because it is used as text, and 1.1 and 1.10 are \
                     different texts\nhint: put the value into quotes"
                ),
            )),
            NumberOrText::Whole(_) | NumberOrText::Text(_) => Ok(self.to_string()),
        }
    }

    /// Returns the value as a number; `None`: it is not a finite number.
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            NumberOrText::Whole(n) => Some(*n as f64),
            NumberOrText::Number(n) => Some(*n),
            NumberOrText::Text(text) => text.parse().ok(),
        }
        .filter(|n| n.is_finite())
    }
}
