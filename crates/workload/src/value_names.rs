//! The names of the values that a sequence extracts, and the places where its requests use them.

use dyno_engine::extraction::ValuePlace;
use dyno_engine::traffic::RequestPart;
use dyno_model::plan::{EXTRACTED_VALUE, Workload};

use dyno_config::text::nearest;

/// The values that the placeholders `{extract.NAME}` of a workload can have. Empty: the workload is
/// not a sequence, or extracts nothing.
#[derive(Clone, Debug, Default)]
pub struct ValueNames {
    values: Vec<NamedValue>,
    is_sequence: bool,
    /// Index of the request whose placeholders are parsed.
    request: usize,
}

#[derive(Clone, Debug)]
struct NamedValue {
    name: String,
    /// Index of the request whose responses have the value.
    request: usize,
    /// Strictest place of use so far.
    place: Option<ValuePlace>,
}

impl ValueNames {
    #[must_use]
    pub fn new(workload: &Workload) -> ValueNames {
        let requests = workload.requests.iter().enumerate();
        let values = requests.flat_map(|(request, r)| {
            r.extract.iter().map(move |extraction| NamedValue {
                name: extraction.name.clone(),
                request,
                place: None,
            })
        });
        ValueNames {
            values: values.collect(),
            is_sequence: workload.sequence.is_some(),
            request: 0,
        }
    }

    /// Begins the placeholders of a request, by its index.
    pub fn begin_request(&mut self, request: usize) {
        self.request = request;
    }

    /// Returns the number of values.
    #[must_use]
    pub fn count(&self) -> usize {
        self.values.len()
    }

    /// Returns the index of a value, and the strictest place of its uses. `None`: no request uses
    /// the value.
    #[must_use]
    pub fn index_and_place(&self, name: &str) -> Option<(u16, ValuePlace)> {
        let index = self.values.iter().position(|value| value.name == name)?;
        Some((index as u16, self.values[index].place?))
    }

    /// Returns the index of the request that extracts a value before the current one does, if any.
    #[must_use]
    pub fn first_request(&self, name: &str) -> Option<usize> {
        self.values.iter().find(|value| value.name == name).map(|value| value.request)
    }

    /// Returns the part of a request for a value.
    ///
    /// # Errors
    /// No earlier request extracts the value.
    pub fn part(&self, name: &str) -> Result<RequestPart, String> {
        let placeholder = format!("{{{EXTRACTED_VALUE}{name}}}");
        if !self.is_sequence {
            return Err(format!(
                "{placeholder}: has no value here, because only steps of a sequence extract \
                 values\nhint: write the requests as `steps` (--step). To send the text itself, \
                 write {{{placeholder}}}"
            ));
        }
        let Some(index) = self.values.iter().position(|value| value.name == name) else {
            let names: Vec<&str> = self.values.iter().map(|value| &*value.name).collect();
            let hint = match nearest(name, names.iter().copied()) {
                Some(near) => format!("did you mean {{{EXTRACTED_VALUE}{near}}}?"),
                None => format!("add `extract = {{ {name} = … }}` (--extract) to an earlier step."),
            };
            return Err(format!(
                "{placeholder}: no step extracts this value\nhint: {hint} To send the text itself, \
                 write {{{placeholder}}}"
            ));
        };
        let extracted_by = self.values[index].request;
        if extracted_by >= self.request {
            return Err(format!(
                "{placeholder}: is used before step {} has extracted it\nhint: use the value in a \
                 later step, or extract it in an earlier one",
                extracted_by + 1
            ));
        }
        Ok(RequestPart::Extracted(index as u16))
    }

    /// Notes that parts are used at a place.
    pub fn note_use(&mut self, parts: &[RequestPart], place: ValuePlace) {
        for part in parts {
            if let RequestPart::Extracted(index) = part {
                let known = &mut self.values[usize::from(*index)].place;
                *known = (*known).max(Some(place));
            }
        }
    }
}
