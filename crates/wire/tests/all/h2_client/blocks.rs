//! Header blocks and the two dynamic tables.

use super::*;

#[test]
fn header_block_in_pieces_must_not_be_interrupted() {
    let ok = block(&[(":status", "200"), ("server", "x")]);
    let (a, rest) = ok.split_at(1);
    let (b, c) = rest.split_at(1);
    run([
        case(
            "§6.10 a block in three frames",
            [headers(1, a, END_STREAM), continuation(1, b, 0), continuation(1, c, END_HEADERS)],
            [Head(1, 200), End(1)],
        ),
        case(
            "§6.10 empty pieces",
            [
                headers(1, &[], END_STREAM),
                continuation(1, &ok, 0),
                continuation(1, &[], END_HEADERS),
            ],
            [Head(1, 200), End(1)],
        ),
        breaks(
            "§6.10 another frame within a block",
            [headers(1, a, 0), ping(&[0; 8], 0)],
            E::InterruptedBlock,
            PROTOCOL,
        ),
        breaks(
            "§6.10 DATA within a block",
            [headers(1, a, 0), data(1, "x", 0)],
            E::InterruptedBlock,
            PROTOCOL,
        ),
        breaks(
            "§6.10 HEADERS within a block",
            [headers(1, a, 0), head(1, 200, 0)],
            E::InterruptedBlock,
            PROTOCOL,
        ),
        breaks(
            "§5.5 an unknown frame within a block",
            [headers(1, a, 0), raw(raw_frame(99, 0, 1, b""))],
            E::InterruptedBlock,
            PROTOCOL,
        ),
    ]);
}

#[test]
fn continuation_without_block_refused() {
    let ok = block(&[(":status", "200"), ("server", "x")]);
    let (a, rest) = ok.split_at(1);
    run([
        breaks(
            "§6.10 a block continued on another stream",
            [headers(1, a, 0), continuation(3, rest, END_HEADERS)],
            E::InterruptedBlock,
            PROTOCOL,
        )
        .with_requests(2),
        breaks(
            "§6.10 CONTINUATION without a block",
            [continuation(1, rest, END_HEADERS)],
            E::Continuation,
            PROTOCOL,
        ),
        case(
            "§6.10 CONTINUATION of a block that has ended",
            [head(1, 200, 0), continuation(1, rest, END_HEADERS)],
            [Head(1, 200), Error(E::Continuation, PROTOCOL)],
        ),
        breaks(
            "§6.10 CONTINUATION on stream 0",
            [headers(1, a, 0), continuation(0, rest, END_HEADERS)],
            E::WrongStream,
            PROTOCOL,
        ),
    ]);
}

#[test]
fn header_block_above_limits_refused() {
    let ok = block(&[(":status", "200"), ("server", "x")]);
    let a = &ok[..1];
    let endless = std::iter::once(headers(1, a, 0)).chain((0..65).map(|_| continuation(1, &[], 0)));
    let sixty_four = std::iter::once(headers(1, &ok, END_STREAM))
        .chain((1..64).map(|_| continuation(1, &[], 0)))
        .chain([continuation(1, &[], END_HEADERS)]);
    let large = std::iter::once(headers(1, &[0; 16_384], 0))
        .chain((0..8).map(|_| continuation(1, &[0; 16_384], 0)));
    // Fields of 16,380 bytes, up to the limit.
    let long = format!("{:0>16350}", 1);
    let piece = block(&[("x", &long)]);
    let full = std::iter::once(headers(1, &ok, END_STREAM))
        .chain((1..limits::BLOCK_BYTES / 16_384).map(|_| continuation(1, &piece, 0)))
        .chain([continuation(1, &[], END_HEADERS)]);
    run([
        breaks(
            "§10.5.1 CONTINUATION without end",
            endless.collect::<Vec<_>>(),
            E::TooManyContinuations,
            ErrorCode::EnhanceYourCalm,
        ),
        case(
            "§10.5.1 as many CONTINUATIONs as are allowed",
            sixty_four.collect::<Vec<_>>(),
            [Head(1, 200), End(1)],
        ),
        breaks(
            "§10.5.1 a block is too large",
            large.collect::<Vec<_>>(),
            E::BlockTooLarge,
            ErrorCode::EnhanceYourCalm,
        ),
        case(
            "§10.5.1 a block is almost too large",
            full.collect::<Vec<_>>(),
            [Head(1, 200), End(1)],
        ),
    ]);
}

#[test]
fn undecodable_header_block_refused() {
    run([
        breaks(
            "§4.3 a block that cannot be decoded",
            [headers(1, &[0x80], END_HEADERS)],
            E::Hpack(hpack::HpackError::IndexZero),
            ErrorCode::CompressionError,
        ),
        breaks(
            "§4.3 a block that ends early",
            [headers(1, &[0x00], END_HEADERS)],
            E::Hpack(hpack::HpackError::Truncated),
            ErrorCode::CompressionError,
        ),
        breaks(
            "RFC 7541 §2.3.3 an index outside of the tables",
            [headers(1, &[0x80 | 62], END_HEADERS)],
            E::Hpack(hpack::HpackError::IndexOutOfRange),
            ErrorCode::CompressionError,
        ),
        malformed(
            "§8.1 an empty block has no status",
            [headers(1, &[], END_HEADERS | END_STREAM)],
            M::Status,
        ),
    ]);
}

#[test]
fn ignored_header_block_updates_table() {
    run([
        // All streams share the table, so blocks of streams that have ended count.
        case(
            "§4.3 a block of a reset stream fills the table",
            [
                Step::Cancel(1),
                headers(
                    1,
                    &block_with(&[(":status", "202"), ("a", "b")], Indexing::Incremental),
                    END_HEADERS,
                ),
                headers(3, &[0x80 | 63, 0x80 | 62], END_HEADERS | END_STREAM),
            ],
            [Observed::Sent(Sent::Reset(1, ErrorCode::Cancel)), Head(3, 202), End(3)],
        )
        .with_requests(2),
        case(
            "§4.3 a malformed head fills the table",
            [
                headers(
                    1,
                    &block_with(&[("a", "b"), (":status", "202")], Indexing::Incremental),
                    END_HEADERS,
                ),
                headers(3, &[0x80 | 62, 0x80 | 63], END_HEADERS | END_STREAM),
            ],
            [Malformed(1, M::PseudoField, PROTOCOL), Head(3, 202), End(3)],
        )
        .with_requests(2),
        case(
            "§4.3 trailers fill the table",
            [
                head(1, 200, 0),
                headers(
                    1,
                    &block_with(&[("a", "b")], Indexing::Incremental),
                    END_HEADERS | END_STREAM,
                ),
                headers(3, &[0x88, 0x80 | 62], END_HEADERS | END_STREAM),
            ],
            [Head(1, 200), Trailers(1), Head(3, 200), End(3)],
        )
        .with_requests(2),
    ]);
}

#[test]
fn cached_block_invalid_after_table_change() {
    run([
        // A cached block is valid only while the table is unchanged.
        case(
            "§4.3 a block decodes differently once the table has changed",
            [
                headers(
                    1,
                    &block_with(&[(":status", "202")], Indexing::Incremental),
                    END_HEADERS | END_STREAM,
                ),
                headers(3, &[0x80 | 62], END_HEADERS | END_STREAM),
                headers(
                    5,
                    &block_with(&[(":status", "203")], Indexing::Incremental),
                    END_HEADERS | END_STREAM,
                ),
                headers(7, &[0x80 | 62], END_HEADERS | END_STREAM),
                headers(9, &[0x80 | 63], END_HEADERS | END_STREAM),
            ],
            [
                Head(1, 202),
                End(1),
                Head(3, 202),
                End(3),
                Head(5, 203),
                End(5),
                Head(7, 203),
                End(7),
                Head(9, 202),
                End(9),
            ],
        )
        .with_requests(5),
        case(
            "§8.1 a block that is a valid head is not valid as trailers",
            [head(1, 200, 0), head(1, 200, END_STREAM)],
            [Head(1, 200), Malformed(1, M::Trailers, PROTOCOL)],
        ),
    ]);
}

/// Client settings with a table of another size.
fn table_of_size(size: u32) -> ClientSettings {
    ClientSettings { header_table_size: size, ..LARGE }
}

/// A block that begins with an update of the table's size.
fn with_size_update(size: u32, rest: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_size_update(size, &mut out);
    [&out, rest].concat()
}

fn compression(violation: hpack::HpackError) -> Observed {
    Error(E::Hpack(violation), ErrorCode::CompressionError)
}

/// The steps that begin a connection with two requests, and these steps.
fn after_requests(steps: &[Step]) -> Vec<Step> {
    [&[settings(&[]), get(), get()], steps].concat()
}

/// The events of [`after_requests`], and these events.
fn events_after_requests(events: &[Observed]) -> Vec<Observed> {
    [&[sent_ack(), Settings, sent_get(1), sent_get(3)], events].concat()
}

fn response(stream: u32, block: &[u8]) -> Step {
    headers(stream, block, END_HEADERS | END_STREAM)
}

/// The server's use of the table that the client offers.
#[test]
fn server_table_above_allowed_size_refused() {
    run([
        case(
            "RFC 7541 §4.2 a smaller table is acknowledged with a size update",
            after_requests(&[
                ack(),
                response(1, &with_size_update(0, &[0x88])),
                response(3, &[0x88]),
            ]),
            events_after_requests(&[Head(1, 200), End(1), Head(3, 200), End(3)]),
        )
        .bare()
        .with_settings(table_of_size(0)),
        case(
            "RFC 7541 §4.2 a smaller table is not announced",
            after_requests(&[ack(), response(1, &[0x88])]),
            events_after_requests(&[compression(hpack::HpackError::SizeUpdateMissing)]),
        )
        .bare()
        .with_settings(table_of_size(0)),
        case(
            "RFC 7541 §4.2 a table is still larger than allowed",
            after_requests(&[ack(), response(1, &with_size_update(101, &[0x88]))]),
            events_after_requests(&[compression(hpack::HpackError::SizeAboveLimit)]),
        )
        .bare()
        .with_settings(table_of_size(100)),
    ]);
}

#[test]
fn server_table_limit_applies_after_acknowledgement() {
    run([
        case(
            "RFC 7541 §4.2 the default table applies until the acknowledgement",
            after_requests(&[
                response(1, &block_with(&[(":status", "299"), ("a", "b")], Indexing::Incremental)),
                response(3, &[0x80 | 63]),
            ]),
            events_after_requests(&[Head(1, 299), End(1), Head(3, 299), End(3)]),
        )
        .bare()
        .with_settings(table_of_size(0)),
        case(
            "RFC 7541 §4.3 entries that no longer fit are evicted",
            after_requests(&[
                response(
                    1,
                    &block_with(
                        &[(":status", "299"), ("a", &"b".repeat(60))],
                        Indexing::Incremental,
                    ),
                ),
                ack(),
                response(3, &with_size_update(100, &[0x80 | 63])),
            ]),
            events_after_requests(&[
                Head(1, 299),
                End(1),
                compression(hpack::HpackError::IndexOutOfRange),
            ]),
        )
        .bare()
        .with_settings(table_of_size(100)),
        case(
            "RFC 7541 §6.3 a size update after a field",
            after_requests(&[response(1, &[0x88, 0x20])]),
            events_after_requests(&[compression(hpack::HpackError::SizeUpdateNotFirst)]),
        )
        .bare(),
    ]);
}

#[test]
fn server_table_above_default_size_accepted() {
    run([
        case(
            "RFC 7541 §4.2 a larger table, used",
            after_requests(&[
                ack(),
                response(
                    1,
                    &with_size_update(
                        65_536,
                        &block_with(
                            &[(":status", "299"), ("a", &"b".repeat(9000))],
                            Indexing::Incremental,
                        ),
                    ),
                ),
                response(3, &[0x80 | 63, 0x80 | 62]),
            ]),
            events_after_requests(&[Head(1, 299), End(1), Head(3, 299), End(3)]),
        )
        .bare()
        .with_settings(table_of_size(65_536)),
        case(
            "RFC 7541 §4.2 a larger table, not used",
            after_requests(&[ack(), response(1, &[0x88])]),
            events_after_requests(&[Head(1, 200), End(1)]),
        )
        .bare()
        .with_settings(table_of_size(65_536)),
    ]);
}

/// SETTINGS that offer a table of `size` bytes.
fn table(size: u32) -> Step {
    settings(&[(HEADER_TABLE_SIZE, size)])
}

/// Size updates at the beginning of the client's next block.
fn sizes(sizes: &[u32]) -> Observed {
    Observed::Sent(Sent::Sizes(sizes.to_vec()))
}

/// The acknowledgement of settings.
fn acknowledged() -> [Observed; 2] {
    [sent_ack(), Settings]
}

/// The client's encoder uses the table that the server offers. The checker decodes with that table.
#[test]
fn client_table_has_offered_size() {
    run([
        case(
            "RFC 7541 §4.2 no table from the beginning",
            [table(0), get(), get()],
            [&acknowledged()[..], &[sizes(&[0]), sent_get(1), sent_get(3)]].concat(),
        )
        .bare(),
        case(
            "RFC 7541 §4.2 a table too small for the shared fields",
            [table(60), get(), get()],
            [&acknowledged()[..], &[sizes(&[60]), sent_get(1), sent_get(3)]].concat(),
        )
        .bare(),
        case(
            "RFC 7541 §4.2 a table just large enough",
            [table(200), get(), get()],
            [&acknowledged()[..], &[sizes(&[200]), sent_get(1), sent_get(3)]].concat(),
        )
        .bare(),
        case(
            "RFC 7541 §4.2 a larger table is not needed",
            [table(1 << 20), get(), get()],
            [&acknowledged()[..], &[sent_get(1), sent_get(3)]].concat(),
        )
        .bare(),
    ]);
}

#[test]
fn client_table_change_sends_size_update() {
    run([
        case(
            "RFC 7541 §4.2 a table that is removed and restored",
            [get(), table(0), get(), table(4096), get(), get()],
            [
                &[sent_get(1)],
                &acknowledged()[..],
                &[sizes(&[0]), sent_get(3)],
                &acknowledged(),
                &[sizes(&[4096]), sent_get(5), sent_get(7)],
            ]
            .concat(),
        )
        .with_requests(0),
        case(
            "RFC 7541 §4.2 a table that is removed and restored between two requests",
            [get(), table(0), table(4096), get(), get()],
            [
                &[sent_get(1)],
                &acknowledged()[..],
                &acknowledged(),
                &[sizes(&[0, 4096]), sent_get(3), sent_get(5)],
            ]
            .concat(),
        )
        .with_requests(0),
    ]);
}

#[test]
fn client_table_changes_send_smallest_and_last() {
    run([
        case(
            "RFC 7541 §4.2 the smallest and the last of many",
            [get(), table(3000), table(100), table(7000), table(900), get()],
            [
                &[sent_get(1)],
                &acknowledged()[..],
                &acknowledged(),
                &acknowledged(),
                &acknowledged(),
                &[sizes(&[100, 900]), sent_get(3)],
            ]
            .concat(),
        )
        .with_requests(0),
        case(
            "RFC 7541 §4.2 a table that is removed and restored within one frame",
            [get(), settings(&[(HEADER_TABLE_SIZE, 0), (HEADER_TABLE_SIZE, 4096)]), get(), get()],
            [&[sent_get(1)], &acknowledged()[..], &[sizes(&[0, 4096]), sent_get(3), sent_get(5)]]
                .concat(),
        )
        .with_requests(0),
        case(
            "RFC 7541 §4.2 a smaller table that keeps all entries",
            [get(), table(300), get(), table(4096), get()],
            [
                &[sent_get(1)],
                &acknowledged()[..],
                &[sizes(&[300]), sent_get(3)],
                &acknowledged(),
                &[sizes(&[4096]), sent_get(5)],
            ]
            .concat(),
        )
        .with_requests(0),
    ]);
}
