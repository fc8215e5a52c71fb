//! Stores requests as compiled byte templates, and chooses randomly among the requests of a mix.
//! Compilation before the load avoids formatting and allocation during the load.

use std::sync::Arc;

use dyno_wire::h1::request::{RequestEvent, RequestReader};
use dyno_wire::h1::response::RequestKind;
use dyno_wire::h2::hpack::encode as hpack;
use dyno_wire::h2::{BlockForm, EncodedBlock};

use crate::draw::Draw;
use crate::expect::Expectation;
use crate::rng::Rng;
use crate::sequence::{AfterFailure, CompiledSequence};
use crate::session::VisitorSession;

/// The requests of a load and their weights.
#[derive(Clone, Debug)]
pub struct Traffic {
    requests: Vec<CompiledRequest>,
    /// Properties of each request as an HTTP/1.1 message, by index.
    traits: Vec<MessageTraits>,
    /// Whether any request closes its connection.
    has_closing: bool,
    /// Whether the body of any request waits for 100 (Continue).
    has_expect_continue: bool,
    /// Bytes of an HTTP/2 server's HPACK table that the fields shared by all requests use.
    shared_bytes: u32,
    /// Number of the first request, as [`RequestPart::Sequence`] shows it.
    first_number: u64,
    choice: Choice,
    /// `None`: the requests are independent of each other.
    sequence: Option<Arc<CompiledSequence>>,
}

/// Properties of an HTTP/1.1 message that decide whether it may be retried, and whether other
/// requests may follow it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MessageTraits {
    /// Whether the method is idempotent (RFC 9110 §9.2.2).
    is_idempotent: bool,
    /// Whether the message is the last on its connection (RFC 9112 §9.6).
    closes: bool,
    /// Whether the message asks to switch protocols (RFC 9110 §7.8).
    requests_upgrade: bool,
    /// Whether the body of the message waits for 100 (Continue).
    expects_continue: bool,
}

/// Method of drawing the next request.
#[derive(Clone, Debug)]
enum Choice {
    Single,
    /// The index of a request for each unit of weight. A random entry is drawn.
    Table(Box<[u16]>),
    /// Cumulative weights, by index. The first sum above a random number is drawn.
    Sums(Box<[u64]>),
}

/// A compiled request: its bytes, or a template for them. The compiled form of `Request` in a plan.
#[derive(Clone, Debug)]
pub struct CompiledRequest {
    /// HTTP/1.1 message.
    pub template: Template,
    /// The same message with the fields that request HTTP/2 (RFC 7540 §3.2); only for loads that
    /// upgrade.
    pub upgrade: Option<Template>,
    /// HTTP/2 stream; only for loads that may use HTTP/2.
    pub stream: Option<StreamTemplate>,
    pub kind: RequestKind,
    pub expect: Expectation,
}

impl CompiledRequest {
    /// Creates a request with the same bytes every time.
    #[must_use]
    pub fn from_bytes(bytes: &[u8], kind: RequestKind, expect: Expectation) -> CompiledRequest {
        let template = Template::Fixed(Arc::from(bytes));
        CompiledRequest { template, upgrade: None, stream: None, kind, expect }
    }

    /// Whether the request has checks that the load makes only for a sample of its responses.
    fn has_full_checks(&self) -> bool {
        !self.expect.full_checks.is_empty()
    }
}

/// Encoding of a request in HTTP/1.1.
#[derive(Clone, Debug)]
pub enum Template {
    /// The same bytes every time.
    Fixed(Arc<[u8]>),
    /// Parts, some of which vary between requests.
    Varying { head: Vec<RequestPart>, body: Vec<RequestPart> },
}

/// Encoding of a request on an HTTP/2 stream.
#[derive(Clone, Debug)]
pub enum StreamTemplate {
    /// The same header block and body every time.
    Fixed { block: EncodedBlock, body: Arc<[u8]> },
    /// Pieces, some of which vary between requests.
    Varying { fields: Vec<FieldPiece>, body: Vec<RequestPart> },
}

/// A piece of a header block.
#[derive(Clone, Debug)]
pub enum FieldPiece {
    /// Fields that are the same every time.
    Fixed(EncodedBlock),
    /// A field with a fixed name and a varying value.
    Varying {
        /// Encoded beginning of a literal field, up to its value (RFC 7541 §6.2.2).
        name: Box<[u8]>,
        /// Length of the name before encoding, bytes.
        name_bytes: u32,
        value: Vec<RequestPart>,
    },
}

/// Memory for rendering varying requests, reused between requests.
#[derive(Debug, Default)]
pub(crate) struct RequestScratch {
    block: Vec<u8>,
    value: Vec<u8>,
    body: Vec<u8>,
}

/// A rendered request for a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamRequest<'a> {
    pub(crate) block: &'a [u8],
    /// Bytes of the names and values in `block`.
    pub(crate) field_bytes: u32,
    pub(crate) body: &'a [u8],
}

/// A part of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestPart {
    Bytes(Box<[u8]>),
    /// The number of the request, or of the visit in a sequence: 0, 1, 2, … over all workers, each
    /// used once.
    Sequence,
    /// A uniformly distributed integer between two bounds, both inclusive.
    Random(u64, u64),
    /// A random UUID (RFC 9562, version 4).
    Uuid,
    /// A value of a column. Request n takes row n, starting over after the last row.
    Column(Arc<[Box<[u8]>]>),
    /// The intended start of the request, nanoseconds since the load began. It relates the log of
    /// the server to the record of each request.
    Intended,
    /// The length of the body; only in a head.
    BodyLength,
    /// A value that the visitor extracted from an earlier response, by index.
    Extracted(u16),
    /// The end of the target of an HTTP/2 request of a visitor who keeps cookies. It is not sent.
    TargetEnd,
    /// The cookies of the visitor that belong to the request: the value of an HTTP/2 field, which
    /// is not sent without cookies.
    Cookies,
    /// The whole line of the header `Cookie` in an HTTP/1.1 head, or nothing without cookies.
    CookieLine,
}

/// Random generator and counters for requests, one per worker.
#[derive(Clone, Debug)]
pub struct Draws {
    /// Chooses among requests.
    rng: Rng,
    /// Seed of the random values in requests.
    seed: u64,
    /// Number of the worker's first request.
    first_number: u64,
    /// Difference between the numbers of two consecutive requests of the worker: the number of
    /// workers.
    step: u64,
    /// Intended start of the next request, nanoseconds since the load began; for
    /// [`RequestPart::Intended`].
    pub(crate) intended_ns: u64,
    /// Number of requests drawn so far.
    drawn: u64,
    /// Memory for rendering bodies, reused between requests.
    scratch: Vec<u8>,
}

impl Traffic {
    /// Creates traffic from at most 65,536 requests with their weights. At least one weight must be
    /// above zero.
    pub fn new(weighted: Vec<(CompiledRequest, u32)>) -> Result<Traffic, String> {
        let divisor = weighted.iter().fold(0, |d, (_, weight)| gcd(d, *weight));
        let total: u64 = weighted.iter().map(|(_, weight)| u64::from(*weight)).sum();
        if total == 0 {
            return Err("at least one request must have a weight above 0".into());
        }
        if weighted.len() > usize::from(u16::MAX) + 1 {
            return Err(format!(
                "{} different requests exceed the limit of 65,536 per load\nhint: remove some \
                 requests",
                weighted.len()
            ));
        }
        let indexed = weighted.iter().enumerate();
        let choice = if weighted.len() == 1 {
            Choice::Single
        } else if total / u64::from(divisor) <= crate::limits::CHOICE_TABLE_UNITS {
            let table = indexed
                .flat_map(|(i, (_, w))| std::iter::repeat_n(i as u16, (*w / divisor) as usize));
            Choice::Table(table.collect())
        } else {
            let sums = weighted.iter().scan(0, |sum, (_, weight)| {
                *sum += u64::from(*weight);
                Some(*sum)
            });
            Choice::Sums(sums.collect())
        };
        Ok(Traffic::from_choice(weighted.into_iter().map(|(request, _)| request).collect(), choice))
    }

    /// Creates traffic of a single request.
    #[must_use]
    pub fn single(request: CompiledRequest) -> Traffic {
        Traffic::from_choice(vec![request], Choice::Single)
    }

    fn from_choice(requests: Vec<CompiledRequest>, choice: Choice) -> Traffic {
        let traits: Vec<MessageTraits> = requests
            .iter()
            .map(|request| MessageTraits::from_template(&request.template))
            .collect();
        let has_closing = traits.iter().any(|traits| traits.closes);
        let has_expect_continue = traits.iter().any(|traits| traits.expects_continue);
        // The test requests of `trials` take the lower numbers.
        let first_number =
            requests.iter().filter(|request| request.has_full_checks()).count() as u64;
        Traffic {
            requests,
            traits,
            has_closing,
            has_expect_continue,
            shared_bytes: 0,
            first_number,
            choice,
            sequence: None,
        }
    }

    /// Makes the requests a sequence, which visitors send in order.
    #[must_use]
    pub fn with_sequence(mut self, sequence: CompiledSequence) -> Traffic {
        assert!(sequence.requests.len() == self.requests.len(), "one entry per request");
        // The trial before the load is one visit, which takes one number.
        self.first_number = self.first_number.min(1);
        self.sequence = Some(Arc::new(sequence));
        self
    }

    /// Sets the time of day at instant 0 of the load's clock, seconds since 1970. It dates cookies
    /// of servers that send no Date. Without a sequence it has no effect.
    #[must_use]
    pub fn with_epoch(mut self, epoch_s: i64) -> Traffic {
        if let Some(sequence) = &mut self.sequence {
            Arc::make_mut(sequence).epoch_s = epoch_s;
        }
        self
    }

    /// Returns the sequence of the requests; `None`: they are independent of each other.
    #[must_use]
    pub fn sequence(&self) -> Option<&Arc<CompiledSequence>> {
        self.sequence.as_ref()
    }

    /// Returns the traffic of the test requests that are sent before the load: one for each request
    /// that has full checks, with the request's index. Test requests take the first request
    /// numbers, and the load takes the following ones. A server that accepts each number only once
    /// therefore accepts the load as well. Not for sequences: see [`trial_visit`].
    ///
    /// [`trial_visit`]: Traffic::trial_visit
    pub fn trials(&self) -> impl Iterator<Item = (usize, Traffic)> {
        let requests = self.requests.iter().enumerate();
        let with_full_checks = requests.filter(|(_, request)| request.has_full_checks());
        (0..).zip(with_full_checks).map(|(number, (index, request))| {
            let single = Traffic::single(request.clone()).with_shared_bytes(self.shared_bytes);
            (index, Traffic { first_number: number, ..single })
        })
    }

    /// Returns the traffic of the test visit before a load of sequences that have full checks. It
    /// ends with the first failure.
    /// `None`: no sequence, or no full checks.
    #[must_use]
    pub fn trial_visit(&self) -> Option<Traffic> {
        let has_full_checks = self.requests.iter().any(CompiledRequest::has_full_checks);
        let sequence = self.sequence.as_deref().filter(|_| has_full_checks)?;
        let after_failure = AfterFailure::EndOfLoad;
        let sequence = CompiledSequence { after_failure, ..sequence.clone() };
        Some(Traffic { first_number: 0, sequence: Some(Arc::new(sequence)), ..self.clone() })
    }

    /// Creates the draws of worker `worker` of `workers`: its own random numbers, and every
    /// `workers`-th request number.
    #[must_use]
    pub fn draws(&self, seed: u64, worker: u64, workers: u64) -> Draws {
        Draws { first_number: self.first_number + worker, ..Draws::new(seed, worker, workers) }
    }

    /// Sets the number of bytes that the shared fields of the stream templates take in the header
    /// table of an HTTP/2 peer.
    #[must_use]
    pub fn with_shared_bytes(mut self, shared_bytes: u32) -> Traffic {
        self.shared_bytes = shared_bytes;
        self
    }

    #[must_use]
    pub fn shared_bytes(&self) -> u32 {
        self.shared_bytes
    }

    #[must_use]
    pub fn requests(&self) -> &[CompiledRequest] {
        &self.requests
    }

    #[inline]
    pub(crate) fn request(&self, index: u16) -> &CompiledRequest {
        &self.requests[usize::from(index)]
    }

    /// Whether a request is the last of its HTTP/1.1 connection.
    #[inline]
    pub(crate) fn closes(&self, index: u16) -> bool {
        self.has_closing && self.traits[usize::from(index)].closes
    }

    /// Whether a request asks to switch protocols.
    pub(crate) fn requests_upgrade(&self, index: u16) -> bool {
        self.traits[usize::from(index)].requests_upgrade
    }

    /// Whether a request's body waits for 100 (Continue).
    #[inline]
    pub(crate) fn expects_continue(&self, index: u16) -> bool {
        self.has_expect_continue && self.traits[usize::from(index)].expects_continue
    }

    /// Whether the body of any request waits for 100 (Continue).
    pub(crate) fn has_expect_continue(&self) -> bool {
        self.has_expect_continue
    }

    /// Whether every request is the last of its connection.
    pub(crate) fn all_close(&self) -> bool {
        self.traits.iter().all(|traits| traits.closes)
    }

    /// Whether an HTTP/1.1 request may be retried although the server may have processed it (RFC
    /// 9110 §9.2.2).
    pub(crate) fn is_idempotent(&self, index: u16) -> bool {
        self.traits[usize::from(index)].is_idempotent
    }

    /// Draws the index of the next request.
    #[inline]
    pub(crate) fn choose(&self, draws: &mut Draws) -> u16 {
        match &self.choice {
            Choice::Single => 0,
            Choice::Table(table) => table[draws.rng.next_below(table.len() as u64) as usize],
            Choice::Sums(sums) => {
                let drawn = draws.rng.next_below(sums.last().copied().unwrap_or(1));
                sums.partition_point(|sum| *sum <= drawn) as u16
            }
        }
    }
}

impl MessageTraits {
    /// Parses the bytes that are sent. Requests without an HTTP/1.1 message, which can be sent only
    /// over HTTP/2, have default properties.
    fn from_template(template: &Template) -> MessageTraits {
        let rendered;
        let has_varying_body =
            matches!(template, Template::Varying { body, .. } if !body.is_empty());
        let bytes: &[u8] = match template {
            Template::Fixed(bytes) => bytes,
            Template::Varying { head, .. } => {
                // A digit replaces each varying part, except a whole line.
                rendered = head.iter().map(|part| match part {
                    RequestPart::Bytes(bytes) => bytes,
                    RequestPart::CookieLine => &b""[..],
                    _ => &b"0"[..],
                });
                &rendered.collect::<Vec<_>>().concat()
            }
        };
        let mut reader = RequestReader::new();
        let Ok((_, RequestEvent::Head(head))) = reader.next(bytes) else {
            return MessageTraits::default();
        };
        let has_body = has_varying_body || head.framing.content_length.is_some_and(|n| n > 0);
        let expect = head.fields().get("expect");
        let has_expect = expect.is_some_and(|value| value.eq_ignore_ascii_case(b"100-continue"));
        MessageTraits {
            is_idempotent: matches!(
                head.method,
                b"GET" | b"HEAD" | b"PUT" | b"DELETE" | b"OPTIONS" | b"TRACE"
            ),
            closes: head.framing.close,
            requests_upgrade: head.fields().get("upgrade").is_some(),
            // A request without a body does not wait.
            expects_continue: has_body && has_expect,
        }
    }
}

const fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Draws {
    /// Creates the draws of worker `worker` of `workers`: its own random numbers, and every
    /// `workers`-th request number.
    #[must_use]
    pub fn new(seed: u64, worker: u64, workers: u64) -> Draws {
        let rng = Rng::new(seed ^ (worker + 1).wrapping_mul(0xA076_1D64_78BD_642F));
        Draws {
            rng,
            seed,
            first_number: worker,
            step: workers,
            drawn: 0,
            intended_ns: 0,
            scratch: Vec::new(),
        }
    }

    /// Returns the values and the random generator for the request of `draw`. Both are the same for
    /// each retry. If `draw` is `NONE`, draws the next request and sets `draw`.
    /// `salt`: distinguishes the random values of requests with the same number; 0 without
    /// sequences.
    #[inline]
    fn values(&mut self, draw: &mut Draw, salt: u64) -> (RequestValues, Rng) {
        let index = if *draw == Draw::NONE {
            let next = self.drawn;
            self.drawn += 1;
            *draw = Draw::from_index(next);
            next
        } else {
            draw.index(self.drawn - 1)
        };
        let number = self.first_number + index * self.step;
        // The seed is mixed twice. Otherwise the sequences of neighbouring requests would be
        // shifted copies of each other.
        let mut mixer =
            Rng::new(self.seed.wrapping_add(number.wrapping_mul(0xD1B5_4A32_D192_ED03)));
        let values = RequestValues { number, intended_ns: self.intended_ns, body_length: 0 };
        (values, Rng::new(mixer.next_u64().wrapping_add(salt)))
    }

    /// Draws whether the next request belongs to a random sample of one in `every` requests. If
    /// `every` is 0, no request does.
    #[inline]
    pub(crate) fn is_sampled(&mut self, every: u64) -> bool {
        every == 1 || (every > 1 && self.rng.next_below(every) == 0)
    }
}

impl Template {
    /// Renders the next request. `buffer`: memory for varying requests.
    #[inline]
    pub fn bytes<'a>(&'a self, draws: &mut Draws, buffer: &'a mut Vec<u8>) -> &'a [u8] {
        let mut draw = Draw::NONE;
        self.bytes_for(&mut draw, draws, None, buffer)
    }

    /// Renders the request of `draw`, or the next one if `draw` is `NONE`. `session`: the state of
    /// its visitor, if it belongs to a sequence.
    #[inline]
    pub(crate) fn bytes_for<'a>(
        &'a self,
        draw: &mut Draw,
        draws: &mut Draws,
        session: Option<&mut VisitorSession>,
        buffer: &'a mut Vec<u8>,
    ) -> &'a [u8] {
        match self {
            Template::Fixed(bytes) => bytes,
            Template::Varying { head, body } => {
                render(head, body, draw, draws, session, buffer);
                buffer
            }
        }
    }
}

impl StreamTemplate {
    /// Renders the request of `draw`, or the next one if `draw` is `NONE`, with a header block in
    /// the form that the connection needs. `session`: the state of its visitor, if it belongs to a
    /// sequence.
    #[inline]
    pub(crate) fn render<'a>(
        &'a self,
        form: BlockForm,
        draw: &mut Draw,
        draws: &mut Draws,
        session: Option<&mut VisitorSession>,
        scratch: &'a mut RequestScratch,
    ) -> StreamRequest<'a> {
        match self {
            StreamTemplate::Fixed { block, body } => {
                StreamRequest { block: block.form(form), field_bytes: block.field_bytes, body }
            }
            StreamTemplate::Varying { fields, body } => {
                let source = PartSource::new(draw, draws, session);
                render_stream(fields, body, form, source, scratch)
            }
        }
    }
}

fn render_stream<'a>(
    fields: &[FieldPiece],
    body: &[RequestPart],
    form: BlockForm,
    mut source: PartSource<'_>,
    scratch: &'a mut RequestScratch,
) -> StreamRequest<'a> {
    scratch.block.clear();
    scratch.body.clear();
    body.iter().for_each(|part| part.put(&mut source, &mut scratch.body));
    source.values.body_length = scratch.body.len();
    let mut field_bytes = 0;
    for field in fields {
        match field {
            FieldPiece::Fixed(block) => {
                scratch.block.extend_from_slice(block.form(form));
                field_bytes += block.field_bytes;
            }
            FieldPiece::Varying { name, name_bytes, value } => {
                scratch.value.clear();
                value.iter().for_each(|part| part.put(&mut source, &mut scratch.value));
                if scratch.value.is_empty() && matches!(value[..], [RequestPart::Cookies]) {
                    continue;
                }
                scratch.block.extend_from_slice(name);
                // Huffman coding is not used, because it would cost CPU time per request.
                hpack::put_int(7, 0, scratch.value.len(), &mut scratch.block);
                scratch.block.extend_from_slice(&scratch.value);
                field_bytes += name_bytes + scratch.value.len() as u32;
            }
        }
    }
    StreamRequest { block: &scratch.block, field_bytes, body: &scratch.body }
}

fn render(
    head: &[RequestPart],
    body: &[RequestPart],
    draw: &mut Draw,
    draws: &mut Draws,
    session: Option<&mut VisitorSession>,
    out: &mut Vec<u8>,
) {
    let mut source = PartSource::new(draw, draws, session);
    // The buffer is moved out and back, so that its memory is reused.
    let mut rendered_body = std::mem::take(&mut draws.scratch);
    rendered_body.clear();
    out.clear();
    body.iter().for_each(|part| part.put(&mut source, &mut rendered_body));
    source.values.body_length = rendered_body.len();
    head.iter().for_each(|part| part.put(&mut source, out));
    out.extend_from_slice(&rendered_body);
    draws.scratch = rendered_body;
}

/// Values for the varying parts of one request, except random ones.
#[derive(Clone, Copy, Debug)]
struct RequestValues {
    number: u64,
    intended_ns: u64,
    /// Set after the body is rendered.
    body_length: usize,
}

/// The source of the varying parts of one request.
#[derive(Debug)]
struct PartSource<'a> {
    values: RequestValues,
    rng: Rng,
    /// `None`: the request belongs to no sequence.
    session: Option<&'a mut VisitorSession>,
}

impl<'a> PartSource<'a> {
    /// Draws the values of a request. All requests of a visit have the number of the visit, so that
    /// they take the same row of a file.
    #[inline]
    fn new(
        draw: &mut Draw,
        draws: &mut Draws,
        mut session: Option<&'a mut VisitorSession>,
    ) -> PartSource<'a> {
        let (values, rng) = match &mut session {
            None => draws.values(draw, 0),
            Some(session) => {
                let salt = session.salt();
                draws.values(session.draw(), salt)
            }
        };
        PartSource { values, rng, session }
    }
}

impl RequestPart {
    fn put(&self, source: &mut PartSource<'_>, out: &mut Vec<u8>) {
        let (values, rng) = (source.values, &mut source.rng);
        match self {
            RequestPart::Bytes(bytes) => out.extend_from_slice(bytes),
            RequestPart::Sequence => put_decimal(values.number, out),
            RequestPart::Intended => put_decimal(values.intended_ns, out),
            RequestPart::Random(from, to) => {
                let n = match (to - from).checked_add(1) {
                    Some(span) => from + rng.next_below(span),
                    // All 2⁶⁴ values.
                    None => rng.next_u64(),
                };
                put_decimal(n, out);
            }
            RequestPart::Uuid => put_uuid(rng, out),
            RequestPart::Column(rows) => {
                out.extend_from_slice(&rows[(values.number % rows.len() as u64) as usize]);
            }
            RequestPart::BodyLength => put_decimal(values.body_length as u64, out),
            part => {
                let session = source.session.as_deref_mut();
                part.put_session(session.expect("the request should belong to a sequence"), out);
            }
        }
    }

    /// Appends a part that depends on the visitor.
    fn put_session(&self, session: &mut VisitorSession, out: &mut Vec<u8>) {
        match self {
            RequestPart::Extracted(index) => out.extend_from_slice(session.value(*index)),
            RequestPart::TargetEnd => session.set_target(out),
            RequestPart::Cookies => session.put_cookies(b"", out),
            RequestPart::CookieLine => {
                session.set_target(target(out));
                let length = out.len();
                session.put_cookies(b"Cookie: ", out);
                if out.len() > length {
                    out.extend_from_slice(b"\r\n");
                }
            }
            part => unreachable!("{part:?} does not depend on the visitor"),
        }
    }
}

/// Returns the target of an HTTP/1.1 head: the second word of its first line.
fn target(head: &[u8]) -> &[u8] {
    head.split(|byte| *byte == b' ').nth(1).unwrap_or_default()
}

fn put_decimal(mut n: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

fn put_uuid(rng: &mut Rng, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&rng.next_u64().to_be_bytes());
    bytes[8..].copy_from_slice(&rng.next_u64().to_be_bytes());
    // RFC 9562 §5.4: version 4, variant 10.
    bytes[6] = bytes[6] & 0x0F | 0x40;
    bytes[8] = bytes[8] & 0x3F | 0x80;
    for (i, byte) in bytes.into_iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
}

#[cfg(test)]
mod tests;
