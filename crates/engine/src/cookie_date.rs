//! Parses the dates of cookies (RFC 6265 §5.1.1), in the tolerant way of browsers. The algorithm
//! also reads the dates of HTTP (RFC 9110 §5.6.7).

const MONTHS: [&[u8]; 12] = [
    b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec",
];

/// The parts of a date that were found so far.
#[derive(Clone, Copy, Debug, Default)]
struct FoundParts {
    /// Seconds of the day.
    time_s: Option<i64>,
    day: Option<i64>,
    /// From 1.
    month: Option<i64>,
    year: Option<i64>,
}

/// Returns the seconds since 1970 of a date in UTC; `None`: not a date.
pub(crate) fn seconds_since_epoch(text: &[u8]) -> Option<i64> {
    let mut found = FoundParts::default();
    for token in text.split(|byte| is_delimiter(*byte)).filter(|token| !token.is_empty()) {
        found.add(token);
    }
    let (day, month, year) = (found.day?, found.month?, found.year?);
    let year = match year {
        70..=99 => year + 1900,
        0..=69 => year + 2000,
        year => year,
    };
    if !(1..=31).contains(&day) || year < 1601 {
        return None;
    }
    Some(days_since_epoch(year, month, day) * 86_400 + found.time_s?)
}

impl FoundParts {
    /// Adds the part that a token has. Each part is taken from the first token that can have it.
    fn add(&mut self, token: &[u8]) {
        if self.time_s.is_none()
            && let Some(time_s) = parse_time(token)
        {
            self.time_s = Some(time_s);
        } else if self.day.is_none()
            && let Some(day) = parse_number(token, 1, 2)
        {
            self.day = Some(day);
        } else if self.month.is_none()
            && let Some(month) = parse_month(token)
        {
            self.month = Some(month);
        } else if self.year.is_none() {
            self.year = parse_number(token, 2, 4);
        }
    }
}

const fn is_delimiter(byte: u8) -> bool {
    matches!(byte, 0x09 | 0x20..=0x2F | 0x3B..=0x40 | 0x5B..=0x60 | 0x7B..=0x7E)
}

/// Parses `hh:mm:ss`. Returns the seconds of the day.
fn parse_time(token: &[u8]) -> Option<i64> {
    let mut fields = token.splitn(3, |byte| *byte == b':');
    let mut field = || parse_number(fields.next()?, 1, 2);
    let (hour, minute, second) = (field()?, field()?, field()?);
    let is_valid = hour < 24 && minute < 60 && second < 60;
    is_valid.then_some((hour * 60 + minute) * 60 + second)
}

/// Parses the number at the start of a token, with at least `min` and at most `max` digits. Other
/// characters may follow.
fn parse_number(token: &[u8], min: usize, max: usize) -> Option<i64> {
    let digits = token.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if !(min..=max).contains(&digits) {
        return None;
    }
    Some(token[..digits].iter().fold(0, |n, digit| n * 10 + i64::from(digit - b'0')))
}

/// Returns the number of a month, from 1, by its first three letters.
fn parse_month(token: &[u8]) -> Option<i64> {
    let name = token.get(..3)?;
    let index = MONTHS.iter().position(|month| name.eq_ignore_ascii_case(month))?;
    Some(index as i64 + 1)
}

/// Returns the days from 1970-01-01 to a date of the Gregorian calendar.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    // The year begins in March, so that the leap day is its last day.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    let days_before_month = (153 * month + 2) / 5;
    /// Days from the first of March of year 0 to 1970-01-01.
    const EPOCH: i64 = 719_468;
    year * 365 + leap_days + days_before_month + day - 1 - EPOCH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_servers_are_read() {
        for (text, expected) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Thu, 01-Jan-1970 00:00:10 GMT", Some(10)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777)),
            ("Sun Nov  6 08:49:37 1994", Some(784_111_777)),
            ("Thu, 29 Feb 2024 12:00:00 GMT", Some(1_709_208_000)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(253_402_300_799)),
            ("Mon, 01 Jan 1601 00:00:00 GMT", Some(-11_644_473_600)),
            ("Mon, 01 Jan 1600 00:00:00 GMT", None),
            ("Mon, 32 Jan 2000 00:00:00 GMT", None),
            ("Mon, 01 Jan 2000 24:00:00 GMT", None),
            ("Mon, 01 Foo 2000 00:00:00 GMT", None),
            ("0", None),
            ("", None),
        ] {
            assert_eq!(seconds_since_epoch(text.as_bytes()), expected, "{text}");
        }
    }
}
