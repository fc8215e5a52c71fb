//! Compiles the part of requests that only requests of sequences have: cookies and extractions.

use std::sync::Arc;

use dyno_engine::cookies::CookieTransport;
use dyno_engine::extraction::{CompiledExtraction, ValuePlace, ValueSource};
use dyno_engine::sequence::{AfterFailure, CompiledSequence, CookiePolicy, SequenceRequest};
use dyno_engine::stored_body::BodyBudget;
use dyno_engine::traffic::{RequestPart, Template};
use dyno_model::plan::{self, Cookies, ExtractionSource};

use super::{Field, FieldError, FieldList, check_pointer, expression};
use crate::header;
use crate::value_names::ValueNames;

/// Whether the visitors of a workload keep cookies.
pub(super) fn cookie_policy(workload: &plan::Workload) -> CookiePolicy {
    match workload.sequence.map(|sequence| sequence.cookies) {
        Some(Cookies::Kept) => CookiePolicy::Keep,
        Some(Cookies::Ignored) | None => CookiePolicy::Ignore,
    }
}

/// Compiles a sequence. `names`: the values, after all requests have noted their uses. `None`: the
/// workload is not a sequence. `Err`: the index of the request, and its mistake.
pub(super) fn compile(
    workload: &plan::Workload,
    host: &str,
    names: &ValueNames,
) -> Result<Option<CompiledSequence>, (usize, FieldError)> {
    let requests = workload.requests.iter().enumerate().map(|(i, request)| {
        let extractions = request.extract.iter().map(|extraction| {
            extract(i, request, extraction, names, workload.sequence.is_some())
                .map_err(|error| (i, (Field::Extract(extraction.name.clone()), error)))
        });
        Ok(SequenceRequest {
            host: cookie_host(request, host),
            extractions: extractions.collect::<Result<_, _>>()?,
        })
    });
    let requests = requests.collect::<Result<_, _>>()?;
    let transport =
        if workload.protocol.is_tls() { CookieTransport::Tls } else { CookieTransport::Plain };
    Ok(workload.sequence.map(|_| CompiledSequence {
        requests,
        values: names.count(),
        cookies: cookie_policy(workload),
        transport,
        after_failure: AfterFailure::NewVisit,
        budget: BodyBudget::default(),
        epoch_s: 0,
    }))
}

fn extract(
    index: usize,
    request: &plan::Request,
    extraction: &plan::Extraction,
    names: &ValueNames,
    is_sequence: bool,
) -> Result<CompiledExtraction, String> {
    let plan::Extraction { name, source, matches } = extraction;
    if !is_sequence {
        return Err(format!(
            "value {name:?}: only steps of a sequence can extract values\nhint: write the requests \
             as `steps`, or remove `extract`"
        ));
    }
    let is_same = |other: &&plan::Extraction| other.name == *name;
    let is_repeated = request.extract.iter().filter(is_same).count() > 1;
    if let Some(first) = names.first_request(name).filter(|first| *first != index || is_repeated) {
        return Err(format!(
            "value {name:?}: step {} already extracts a value of this name\nhint: give each value \
             its own name",
            first + 1
        ));
    }
    let source = match source {
        ExtractionSource::Body => ValueSource::Body,
        ExtractionSource::Header(header) => match header::name_fault(header) {
            Some(fault) => return Err(format!("value {name:?}: {fault}")),
            None => ValueSource::Header(header.as_str().into()),
        },
        ExtractionSource::Json(pointer) => {
            check_pointer(pointer)?;
            ValueSource::Json(pointer.as_str().into())
        }
    };
    if request.method == "HEAD" && !matches!(source, ValueSource::Header(_)) {
        return Err(format!(
            "value {name:?}: a response to HEAD has no body\nhint: use GET, or extract a header"
        ));
    }
    if matches.as_deref() == Some("") {
        return Err(format!(
            "value {name:?}: an empty expression extracts nothing\nhint: write an expression such \
             as id=([0-9]+), or remove it"
        ));
    }
    let pattern = matches.as_deref().map(expression).transpose()?;
    let (value, place) = names.index_and_place(name).ok_or_else(|| {
        format!(
            "value {name:?}: no later step uses it\nhint: use it as {{extract.{name}}} in a path, \
             header or body, or remove it"
        )
    })?;
    Ok(CompiledExtraction { name: name.as_str().into(), value, source, pattern, place })
}

/// Returns the host whose cookies a request sends: that of its header Host, or of the server. In
/// lower case, without port and brackets.
fn cookie_host(request: &plan::Request, host: &str) -> Arc<[u8]> {
    let header = request
        .headers
        .iter()
        .find(|(name, value)| name.eq_ignore_ascii_case("host") && !value.contains('{'));
    let authority = header.map_or(host, |(_, value)| value.trim());
    let host = match authority.strip_prefix('[') {
        Some(address) => address.split(']').next().unwrap_or(address),
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    };
    host.to_ascii_lowercase().into_bytes().into()
}

/// Checks that a request does not set the header that its visitor's cookies set.
pub(super) fn check_cookie_header(request: &plan::Request) -> Result<(), FieldError> {
    match request.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("cookie")) {
        None => Ok(()),
        Some((name, _)) => Err((
            Field::Header(name.clone()),
            "the header Cookie cannot be set, because the visitor's own cookies are sent in this \
             header\nhint: remove the header, or do not keep cookies (`cookies`, --cookies)"
                .into(),
        )),
    }
}

/// Adds the visitor's cookies to an HTTP/1.1 message, as the last line of its head.
pub(super) fn with_cookie_line(template: Template) -> Template {
    let (mut head, body) = match template {
        Template::Fixed(bytes) => {
            let end =
                bytes.windows(4).position(|w| w == b"\r\n\r\n").map_or(bytes.len(), |at| at + 4);
            let body = Some(RequestPart::Bytes(bytes[end..].into())).filter(|_| end < bytes.len());
            (vec![RequestPart::Bytes(bytes[..end].into())], body.into_iter().collect())
        }
        Template::Varying { head, body } => (head, body),
    };
    let Some(RequestPart::Bytes(last)) = head.pop() else {
        unreachable!("a head ends with an empty line")
    };
    let lines = last.strip_suffix(b"\r\n").expect("a head should end with an empty line");
    head.push(RequestPart::Bytes(lines.into()));
    head.push(RequestPart::CookieLine);
    head.push(RequestPart::Bytes(b"\r\n"[..].into()));
    Template::Varying { head, body }
}

impl FieldList {
    /// Adds the visitor's cookies.
    pub(super) fn with_cookies(mut self) -> FieldList {
        let path = self.fields.iter_mut().find(|(name, _)| name == b":path");
        path.expect("a request should have a path").1.push(RequestPart::TargetEnd);
        self.fields.push((b"cookie".to_vec(), vec![RequestPart::Cookies]));
        self
    }
}

/// Returns the place of a header's value or of a path.
pub(super) const fn place(part: super::HeadPart<'_>) -> ValuePlace {
    match part {
        super::HeadPart::Path => ValuePlace::Path,
        super::HeadPart::Header(_) => ValuePlace::Header,
    }
}

#[cfg(test)]
mod tests;
