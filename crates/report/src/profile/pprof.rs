//! Writes Go's profile format, which `go tool pprof` and many services read
//! (<https://github.com/google/pprof/blob/main/proto/profile.proto>).

use std::collections::HashMap;
use std::io::{self, Write as _};

use dyno_analysis::profile::{Function, Line, SampleKind};
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<PprofFunction>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
}

/// A type and a unit. Both are indices in the table of strings, like all texts in this format.
#[derive(Clone, Copy, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    r#type: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    /// Locations, the innermost first.
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<PprofLine>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct PprofLine {
    #[prost(uint64, tag = "1")]
    function_id: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct PprofFunction {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// Table of distinct strings. The first is empty, as the format requires.
#[derive(Default)]
struct Strings {
    texts: Vec<String>,
    indices: HashMap<String, i64>,
}

impl Strings {
    /// Returns the index of a text, which is added if it is new.
    fn index(&mut self, text: &str) -> i64 {
        if let Some(index) = self.indices.get(text) {
            return *index;
        }
        let index = self.texts.len() as i64;
        self.texts.push(text.into());
        self.indices.insert(text.into(), index);
        index
    }
}

/// Writes a compressed profile. `period_ns`: time that a sample represents. `length_ns`: duration
/// of the profile.
///
/// # Errors
/// No error occurs in practice, because the profile is written to memory.
pub(super) fn pprof(
    lines: &[Line],
    side: SampleKind,
    period_ns: u64,
    length_ns: u64,
) -> io::Result<Vec<u8>> {
    let mut strings = Strings::default();
    strings.index("");
    let kind = match side {
        SampleKind::Running => "cpu",
        SampleKind::Waiting => "wait",
    };
    let mut value = |name: &str, unit: &str| ValueType {
        r#type: strings.index(name),
        unit: strings.index(unit),
    };
    let sample_type = vec![value("samples", "count"), value(kind, "nanoseconds")];
    let mut profile = Profile {
        period_type: sample_type.last().copied(),
        sample_type,
        period: period_ns as i64,
        duration_nanos: length_ns as i64,
        ..Profile::default()
    };
    let mut ids: HashMap<&Function, u64> = HashMap::new();
    for line in lines {
        let mut location_id = Vec::new();
        for function in line.functions.iter().rev() {
            let next = ids.len() as u64 + 1;
            location_id.push(*ids.entry(function).or_insert_with(|| {
                let (name, filename) =
                    (strings.index(&function.name), strings.index(function.file()));
                profile.function.push(PprofFunction { id: next, name, filename });
                profile
                    .location
                    .push(Location { id: next, line: vec![PprofLine { function_id: next }] });
                next
            }));
        }
        let value = vec![line.samples as i64, (line.samples * period_ns) as i64];
        profile.sample.push(Sample { location_id, value });
    }
    profile.string_table = strings.texts;
    let mut file = GzEncoder::new(Vec::new(), Compression::default());
    file.write_all(&profile.encode_to_vec())?;
    file.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    use dyno_analysis::profile::FunctionKind;

    #[test]
    fn profile_has_samples_innermost_first() {
        let function = |name: &str| Function {
            name: name.into(),
            module: Some("x".into()),
            kind: FunctionKind::Native,
        };
        let line = Line { functions: vec![function("main"), function("leaf")], samples: 3 };
        let file = pprof(&[line], SampleKind::Running, 1000, 9000).unwrap();
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(&file[..]).read_to_end(&mut bytes).unwrap();
        let profile = Profile::decode(&bytes[..]).unwrap();
        let text = |index: i64| profile.string_table[index as usize].as_str();
        assert_eq!(text(0), "");
        let types: Vec<_> =
            profile.sample_type.iter().map(|t| (text(t.r#type), text(t.unit))).collect();
        assert_eq!(types, [("samples", "count"), ("cpu", "nanoseconds")]);
        let [sample] = &profile.sample[..] else { panic!("one stack is one sample") };
        let names: Vec<&str> = sample
            .location_id
            .iter()
            .map(|id| text(profile.function[*id as usize - 1].name))
            .collect();
        assert_eq!((names, &sample.value[..]), (vec!["leaf", "main"], &[3, 3000][..]));
        assert_eq!((profile.period, profile.duration_nanos), (1000, 9000));
    }
}
