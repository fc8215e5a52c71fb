//! Go's profile format, of which `go tool pprof` and many services read files
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
    function: Vec<FunctionOf>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
}

/// Both are places in the table of strings, as are all texts below.
#[derive(Clone, Copy, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    r#type: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    /// The innermost first.
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
    line: Vec<LineOf>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct LineOf {
    #[prost(uint64, tag = "1")]
    function_id: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct FunctionOf {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// Texts, each once; the first is empty, as the format wants it.
#[derive(Default)]
struct Strings {
    all: Vec<String>,
    places: HashMap<String, i64>,
}

impl Strings {
    fn place(&mut self, text: &str) -> i64 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = self.all.len() as i64;
        self.all.push(text.into());
        self.places.insert(text.into(), place);
        place
    }
}

/// A compressed file of the format. `period_ns`: time that a sample stands for; `length_ns`: how
/// long samples were taken.
///
/// # Errors
/// None that memory does not have.
pub fn pprof(
    lines: &[Line],
    side: SampleKind,
    period_ns: u64,
    length_ns: u64,
) -> io::Result<Vec<u8>> {
    let mut strings = Strings::default();
    strings.place("");
    let what = match side {
        SampleKind::Running => "cpu",
        SampleKind::Waiting => "wait",
    };
    let mut value = |name: &str, unit: &str| ValueType {
        r#type: strings.place(name),
        unit: strings.place(unit),
    };
    let sample_type = vec![value("samples", "count"), value(what, "nanoseconds")];
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
                let file = function.module.as_deref().unwrap_or(function.kind.name());
                let (name, filename) = (strings.place(&function.name), strings.place(file));
                profile.function.push(FunctionOf { id: next, name, filename });
                profile
                    .location
                    .push(Location { id: next, line: vec![LineOf { function_id: next }] });
                next
            }));
        }
        let value = vec![line.samples as i64, (line.samples * period_ns) as i64];
        profile.sample.push(Sample { location_id, value });
    }
    profile.string_table = strings.all;
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
    fn file_tells_what_was_sampled() {
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
        let text = |place: i64| profile.string_table[place as usize].as_str();
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
