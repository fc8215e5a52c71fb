//! One question over HTTP/2.

use std::io::{self, Error};

use dyno_wire::h1::response::RequestKind;
use dyno_wire::h2::settings::ClientSettings;
use dyno_wire::h2::{Client, Code, Counts, EncodedRequest, Event, Io, Shared};

use super::answer::{Answer, Keep};
use super::transport::{Transport, closed};

/// GETs `path` on a fresh connection.
pub(super) fn get(
    transport: &mut Transport,
    scheme: &str,
    host: &str,
    path: &str,
    keep: Keep,
) -> io::Result<Answer> {
    let fields = [(":method", "GET"), (":scheme", scheme), (":authority", host), (":path", path)];
    let block = Shared::default().encode(&fields.map(|(name, value)| (name.into(), value.into())));
    let (mut out, mut counts) = (Vec::new(), Counts::default());
    let mut client: Client<()> =
        Client::new(ClientSettings::default(), 0, &mut Io { out: &mut out, counts: &mut counts });
    let mut is_asked = false;
    let mut answer = Answer { status: 0, headers: Vec::new(), body: Vec::new(), reusable: true };
    let mut buffer = [0; 16 * 1024];
    loop {
        transport.write_all(&std::mem::take(&mut out))?;
        let n = transport.read(&mut buffer)?;
        if n == 0 {
            return Err(closed());
        }
        let mut io = Io { out: &mut out, counts: &mut counts };
        if take(&mut client, &buffer[..n], keep, &mut answer, &mut io)? {
            return Ok(answer);
        }
        // Not before the server's settings have come.
        if !is_asked && client.room() > 0 {
            is_asked = true;
            let request = EncodedRequest {
                block: block.form(client.form()),
                field_bytes: block.field_bytes,
                body: &[],
                kind: RequestKind::Other,
                wants_fields: true,
            };
            client.request(&request, (), &mut io);
        }
    }
}

/// Reads what has come. Returns whether the answer is complete.
fn take(
    client: &mut Client<()>,
    mut bytes: &[u8],
    keep: Keep,
    answer: &mut Answer,
    io: &mut Io<'_>,
) -> io::Result<bool> {
    loop {
        match client.next(&mut bytes, io).map_err(Error::other)? {
            Event::NeedMore => return Ok(false),
            Event::Head { stream, status, end } => {
                answer.status = status;
                let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
                let fields = client.data_and_fields(stream).1.iter();
                answer.headers = fields.map(|(name, value)| (text(name), text(value))).collect();
                if end {
                    return Ok(true);
                }
            }
            Event::Body { data, end, .. } => {
                answer.extend(data, keep)?;
                if end {
                    return Ok(true);
                }
            }
            Event::End { .. } => return Ok(true),
            Event::Reset { code, .. } => return Err(refused(code)),
            Event::GoAway { code } if code != Code::NoError => return Err(refused(code)),
            Event::Malformed { why, .. } => return Err(Error::other(why)),
            Event::Handled
            | Event::Settings
            | Event::Window
            | Event::Informational { .. }
            | Event::GoAway { .. } => {}
        }
    }
}

fn refused(code: Code) -> Error {
    Error::other(format!("the server refused the request: {code:?}"))
}
