//! Reads values of JSON bodies as they are written, with all digits of numbers.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::Value;
use serde_json::value::RawValue;

/// Message for a body that is not JSON.
pub(crate) const NOT_JSON: &str = "the body is not JSON";

/// Returns the JSON of a body; `None`: the body is not JSON. Nesting may have any depth.
pub(crate) fn parse(body: &[u8]) -> Option<&RawValue> {
    serde_json::from_slice(body).ok()
}

/// Returns the value at a JSON pointer (RFC 6901), as it is written in the body. Of equal keys the
/// last one counts.
pub(crate) fn at_pointer<'a>(json: &'a RawValue, pointer: &str) -> Option<&'a RawValue> {
    pointer.split('/').skip(1).try_fold(json, |value, token| {
        let token = token.replace("~1", "/").replace("~0", "~");
        let text = value.get();
        if text.starts_with('{') {
            let mut members: HashMap<Cow<'a, str>, &'a RawValue> =
                serde_json::from_str(text).ok()?;
            return members.remove(token.as_str());
        }
        // An index has no leading zero.
        let is_index = token == "0" || !token.starts_with(['0', '+']);
        let index: usize = token.parse().ok().filter(|_| is_index)?;
        let items: Vec<&'a RawValue> = serde_json::from_str(text).ok()?;
        items.get(index).copied()
    })
}

/// Returns the text of a value: a string without quotes and escapes, anything else as it is
/// written. A string with an unpaired surrogate is not text, and is returned as it is written.
pub(crate) fn text(value: &RawValue) -> String {
    serde_json::from_str(value.get()).unwrap_or_else(|_| value.get().to_string())
}

/// Whether a value is equal to the expected one, as readers of JSON compare them: `1` and `1.0` are
/// the same number (RFC 8259 §6). Integers of 64 bits are compared exactly. `Err`: why the value
/// cannot be compared.
pub(crate) fn is_equal(value: &RawValue, expected: &Value) -> Result<bool, &'static str> {
    match serde_json::from_str::<Value>(value.get()) {
        Ok(value) => Ok(are_equal(&value, expected)),
        Err(error) if error.to_string().contains("number out of range") => {
            Err("is a number outside of the range of a 64-bit float, or contains one")
        }
        // The syntax is correct, so a string has an unpaired surrogate, or the nesting is too deep.
        Err(_) => Err("cannot be compared, because it is nested too deeply or has an unpaired \
                       surrogate (use json_matches)"),
    }
}

fn are_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (as_integer(a), as_integer(b)) {
            (Some(a), Some(b)) => a == b,
            _ => a.as_f64() == b.as_f64(),
        },
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| are_equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let is_same = |(key, a): (&String, &Value)| b.get(key).is_some_and(|b| are_equal(a, b));
            a.len() == b.len() && a.iter().all(is_same)
        }
        _ => a == b,
    }
}

/// Returns a JSON number as an integer, also if it is written as `1.0`. `None`: it has a fraction,
/// or is too large.
fn as_integer(number: &serde_json::Number) -> Option<i128> {
    /// Every float below this fits into an `i128`, whose maximum is 1.7·10³⁸.
    const MAX_FLOAT: f64 = 1e30;
    number.as_i128().or_else(|| {
        let float = number.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < MAX_FLOAT)?;
        Some(float as i128)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_by_value() {
        let is_equal = |a: &str, b: &str| {
            let expected = serde_json::from_str::<Value>(b).unwrap();
            is_equal(parse(a.as_bytes()).unwrap(), &expected).unwrap()
        };
        for (a, b) in [
            ("1", "1.0"),
            ("100", "1e2"),
            ("-0.0", "0"),
            ("[1, {\"a\": 2.0}]", "[1.0, {\"a\": 2}]"),
        ] {
            assert!(is_equal(a, b), "{a} {b}");
        }
        // Equal as floats, and different integers.
        for (a, b) in [
            ("9007199254740993", "9007199254740992"),
            ("9007199254740993", "9007199254740992.0"),
            ("1", "1.5"),
            ("1", "\"1\""),
            ("{}", "{\"a\": 1}"),
        ] {
            assert!(!is_equal(a, b), "{a} {b}");
        }
    }

    #[test]
    fn only_compared_values_have_limits() {
        let deep = format!("{}7{}", "[".repeat(300), "]".repeat(300));
        let body = format!(r#"{{"n": 1e400, "s": "\ud800", "d": {deep}, "b": 1}}"#);
        let json = parse(body.as_bytes()).unwrap();
        let compared =
            |pointer: &str| is_equal(at_pointer(json, pointer).unwrap(), &Value::from(1));
        assert_eq!(compared("/b"), Ok(true));
        assert!(compared("/n").unwrap_err().contains("range of a 64-bit float"));
        assert!(compared("/d").is_err() && compared("/s").is_err());
        let text = |pointer: &str| text(at_pointer(json, pointer).unwrap());
        assert_eq!(
            (text("/n"), text("/d"), text("/s")),
            ("1e400".into(), deep, r#""\ud800""#.into())
        );
        assert!(parse(br#"{"a": 1e, "b": 1}"#).is_none());
    }
}
