//! HTTP as pure state machines: bytes in, events out.
//!
//! The crate opens no socket, reads no clock, and allocates no memory per message on the fast path.
//! Tests can therefore replay every state, cut input into arbitrary pieces, and fuzz it. The crate
//! is `no_std`, so the compiler refuses sockets and clocks.
//!
//! A peer that breaks the protocol is an expected event of a load test. Each violation is a named
//! [`h1::Http1Error`], [`h2::Http2Error`] or [`h2::Malformed`]. No input causes a panic.
//!
//! # What HTTP/1.x tolerates on purpose
//!
//! A parser that accepts more than the RFC defines would treat a broken server's responses as
//! correct. Input outside of this list and of the grammar of RFC 9112 is refused with a named
//! error. `tests/h1_tolerance.rs` has a case for each line.
//!
//! | accepted | because |
//! |---|---|
//! | a status line without a reason, and without the blank before it | words may be separated by blanks alone, and the reason is to be ignored (RFC 9112 §4) |
//! | any bytes except CR and LF in a reason | the reason is to be ignored (RFC 9112 §4) |
//! | a status code from 100 to 999 | three digits; an unknown code is treated as its class, or as unexpected (RFC 9110 §15) |
//! | bytes above 127 in a field's value, and control characters other than NUL, CR and LF | may be retained if they are harmless (RFC 9110 §5.5) |
//! | a folded field of a response, also in trailers: the line break and the blanks around it are read as blanks | user agents unfold (RFC 9112 §5.2) |
//! | Content-Length as a list that repeats one number, in one line or several | RFC 9110 §8.6, RFC 9112 §6.3 |
//! | Content-Length or transfer codings on a response without a body (1xx, 204, 304, to HEAD) | they are ignored there (RFC 9112 §6.3, rule 1) |
//! | empty members of the lists in Connection and Transfer-Encoding | a recipient ignores them (RFC 9110 §5.6.1.2) |
//! | transfer codings before `chunked`; the body is returned without decoding them | RFC 9112 §6.1; dyno does not request them, and does not need to decode them |
//! | any parameters of these codings, and any options of Connection other than `close` and `keep-alive` | unknown parameters and options do not change the framing (RFC 9110 §7.6.1, RFC 9112 §7) |
//! | a response whose last coding is not `chunked`: its body extends to the close | RFC 9112 §6.3, rule 4 |
//! | a response without a length: its body extends to the close | RFC 9112 §6.3, rule 8 |
//! | chunk extensions, with blanks around `;` and `=` | unknown extensions are to be ignored (RFC 9112 §7.1.1) |
//! | leading zeros of a chunk's size, up to sixteen digits in total | RFC 9112 §7.1 |
//! | trailer fields with any name and value; they are skipped | a recipient may discard them (RFC 9112 §7.1.2) |
//!
//! The following input is refused, although the RFC allows a recipient, or some recipients, to
//! accept it. Sections without a number of an RFC are of RFC 9112.
//!
//! | refused input | error | the RFC says |
//! |---|---|---|
//! | lines that end in a bare line feed | [`h1::Http1Error::BareLineFeed`] | may be recognised (§2.2) |
//! | a CR without LF anywhere in a head, a chunk's line or trailers | [`h1::Http1Error::BareCarriageReturn`] | invalid, or to be replaced by a blank (§2.2) |
//! | an empty line before a status line or a request line | [`h1::Http1Error::StatusLine`], [`h1::Http1Error::RequestLine`] | servers should skip one empty line; clients are not mentioned (§2.2) |
//! | a folded field of a request | [`h1::Http1Error::FoldedField`] | a server may respond with 400 (§5.2) |
//! | blanks before the first field | [`h1::Http1Error::FoldedField`] | may be ignored (§2.2) |
//! | blanks between a field's name and the colon | [`h1::Http1Error::FieldName`] | proxies remove them (§5.1) |
//! | more than one blank, or a tab, between the words of the first line | [`h1::Http1Error::StatusLine`], [`h1::Http1Error::RequestLine`] | may be accepted (§3, §4) |
//! | versions other than 1.0 and 1.1 | [`h1::Http1Error::Version`] | a higher minor version may be read as the highest known (RFC 9110 §2.5) |
//! | parameters of `chunked`, and a Transfer-Encoding without a coding | [`h1::Http1Error::TransferCoding`] | `chunked` has no parameters (§7.1); senders must not generate an empty list (RFC 9110 §5.6.1.1), and the length would be a guess |
//! | both Content-Length and Transfer-Encoding | [`h1::Http1Error::LengthAndTransferEncoding`] | Transfer-Encoding overrides Content-Length, but such a message ought to be handled as an error (§6.3) |
//! | blanks after a chunk's size without an extension after them | [`h1::Http1Error::ChunkExtension`] | not in the grammar (§7.1); some parsers trim these blanks |
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod h1;
pub mod h2;
pub mod server_protocol;
