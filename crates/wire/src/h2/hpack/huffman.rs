//! Encodes and decodes strings with HPACK's Huffman code (RFC 7541 §5.2, Appendix B).
//!
//! The decoder looks at windows of 11 bits. A table, computed at compile time, has the one or two
//! symbols at the beginning of each possible window. One lookup therefore decodes up to two
//! symbols.

use super::HpackError;
use alloc::vec::Vec;

/// The end-of-string symbol. It must not occur on the wire: only its first bits are used, as
/// padding.
const END_OF_STRING: usize = 256;

/// Bits of the shortest code.
const SHORTEST: usize = 5;

/// Bits of the longest code.
const LONGEST: usize = 30;

/// Bits per lookup. A window of 12 bits is slightly faster, but its table fills half of a
/// first-level cache, which the rest of the program needs too.
const WINDOW: usize = 11;

/// Bits that are available after [`Bits::refill`]. Fewer are available at the end of the string.
const REFILL: usize = 56;

/// Length in bits of each symbol's code, end-of-string last (RFC 7541 Appendix B). The code is
/// canonical: the lengths determine the codes.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, // 0x00
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, // 0x10
     6, 10, 10, 12, 13,  6,  8, 11, 10, 10,  8, 11,  8,  6,  6,  6, // 0x20
     5,  5,  5,  6,  6,  6,  6,  6,  6,  6,  7,  8, 15,  6, 12, 10, // 0x30
    13,  6,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7, // 0x40
     7,  7,  7,  7,  7,  7,  7,  7,  8,  7,  8, 13, 19, 13, 14,  6, // 0x50
    15,  5,  6,  5,  6,  5,  6,  6,  6,  5,  7,  7,  6,  6,  6,  5, // 0x60
     6,  7,  6,  5,  5,  6,  7,  7,  7,  7,  7, 15, 11, 14, 13, 28, // 0x70
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, // 0x80
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, // 0x90
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, // 0xa0
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, // 0xb0
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, // 0xc0
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, // 0xd0
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, // 0xe0
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, // 0xf0
    30, // end of string
];

/// Each symbol's code, right-aligned, and the number of its bits.
static CODES: [(u32, u8); 257] = CANONICAL.codes;

/// The symbols in the order of their codes, without end-of-string.
static SYMBOLS: [u8; 256] = CANONICAL.symbols;

/// The codes of each length.
static RUNS: [Run; LONGEST + 1] = CANONICAL.runs;

/// The symbols at the beginning of each window of [`WINDOW`] bits.
static STEPS: [Step; 1 << WINDOW] = build_steps();

/// The code, computed from [`LENGTHS`]. Codes are consecutive numbers: shorter codes first, and
/// codes of the same length in the order of their symbols.
const CANONICAL: CanonicalCode = build_canonical_code();

// The last code is all ones, so every bit string begins with a code.
const _: () = assert!(CANONICAL.codes[END_OF_STRING].0 == (1 << LONGEST) - 1);

struct CanonicalCode {
    /// By symbol: the code, and the number of its bits.
    codes: [(u32, u8); 257],
    /// In the order of their codes, without end-of-string, which would be the last.
    symbols: [u8; 256],
    /// By length in bits.
    runs: [Run; LONGEST + 1],
}

/// The codes of one length, which are consecutive numbers.
#[derive(Clone, Copy)]
struct Run {
    first_code: u32,
    /// Index of the symbol of `first_code` in `symbols`.
    first_symbol: u32,
    /// The code after the last one, left-aligned in 32 bits.
    end: u64,
}

const fn build_canonical_code() -> CanonicalCode {
    let mut result = CanonicalCode {
        codes: [(0, 0); 257],
        symbols: [0; 256],
        runs: [Run { first_code: 0, first_symbol: 0, end: 0 }; LONGEST + 1],
    };
    let (mut code, mut count) = (0u32, 0);
    let mut length = SHORTEST;
    while length <= LONGEST {
        let (first_code, first_symbol) = (code, count as u32);
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as usize == length {
                result.codes[symbol] = (code, length as u8);
                if symbol != END_OF_STRING {
                    result.symbols[count] = symbol as u8;
                }
                code += 1;
                count += 1;
            }
            symbol += 1;
        }
        result.runs[length] = Run { first_code, first_symbol, end: (code as u64) << (32 - length) };
        code <<= 1;
        length += 1;
    }
    result
}

/// The one or two symbols whose codes begin a window of [`WINDOW`] bits.
#[derive(Clone, Copy)]
struct Step {
    /// The second symbol is unused if `count` is 1.
    symbols: [u8; 2],
    count: u8,
    /// Bits of these symbols' codes, or [`Step::LONG`].
    bits: u8,
}

impl Step {
    /// Value of `bits` if the first code is longer than the window. The value exceeds any number of
    /// available bits, so [`Bits::next_step`] returns `None`.
    const LONG: u8 = u8::MAX;
}

/// Returns the step for each window. The index is the inverted window, see [`Bits`].
const fn build_steps() -> [Step; 1 << WINDOW] {
    let single = build_single_steps();
    let mut steps = single;
    let mut window = 0;
    while window < steps.len() {
        let first = single[window];
        if first.bits != Step::LONG {
            // The window that begins after the first code.
            let second = single[(window << first.bits) % single.len()];
            if second.bits != Step::LONG && (first.bits + second.bits) as usize <= WINDOW {
                let symbols = [first.symbols[0], second.symbols[0]];
                steps[window] = Step { symbols, count: 2, bits: first.bits + second.bits };
            }
        }
        window += 1;
    }
    steps
}

/// Builds the table of [`build_steps`], but with one symbol per step. A code that is shorter than
/// the window begins several windows: one for each value of the low bits.
const fn build_single_steps() -> [Step; 1 << WINDOW] {
    let mut steps = [Step { symbols: [0; 2], count: 0, bits: Step::LONG }; 1 << WINDOW];
    let mut symbol = 0;
    while symbol < END_OF_STRING {
        let (code, bits) = CANONICAL.codes[symbol];
        if bits as usize <= WINDOW {
            let free = WINDOW - bits as usize;
            let mut low = 0;
            while low < 1 << free {
                let window = ((code as usize) << free) | low;
                steps[steps.len() - 1 - window] =
                    Step { symbols: [symbol as u8, 0], count: 1, bits };
                low += 1;
            }
        }
        symbol += 1;
    }
    steps
}

/// Returns the number of bytes that [`encode`] appends.
#[must_use]
pub fn encoded_len(bytes: &[u8]) -> usize {
    let code_bits = |byte: &u8| {
        let (_code, bits) = CODES[usize::from(*byte)];
        usize::from(bits)
    };
    bytes.iter().map(code_bits).sum::<usize>().div_ceil(8)
}

/// Appends the code of `bytes` to `out`.
pub fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    // The low `count` bits of `pending` are still to be written.
    let (mut pending, mut count) = (0u64, 0);
    for byte in bytes {
        let (code, bits) = CODES[usize::from(*byte)];
        pending = pending << bits | u64::from(code);
        count += bits;
        while count >= 8 {
            count -= 8;
            out.push((pending >> count) as u8);
        }
    }
    if count > 0 {
        out.push((pending << (8 - count)) as u8 | 0xff >> count);
    }
}

/// Decodes `bytes` and appends the string to `out`. After an error `out` is unchanged.
pub fn decode(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    let start = out.len();
    // Room for as many symbols as the shortest codes would give, plus one: a step always writes two
    // bytes, even if only the first is used.
    out.resize(start + bytes.len() * 8 / SHORTEST + 1, 0);
    let decoded = decode_into(bytes, &mut out[start..]);
    out.truncate(start + decoded.unwrap_or(0));
    decoded.map(|_| ())
}

/// Decodes `bytes` into `out`. Returns the number of bytes written.
fn decode_into(bytes: &[u8], out: &mut [u8]) -> Result<usize, HpackError> {
    let mut bits = Bits { inverted: 0, available: 0, rest: bytes };
    let mut written = 0;
    'refill: loop {
        bits.refill();
        // The bits of a refill are enough for this many windows.
        for _ in 0..REFILL / WINDOW {
            let Some(step) = bits.next_step() else {
                // The next code is longer than the window, or the string ends.
                bits.refill();
                if bits.is_padding() {
                    return Ok(written);
                }
                out[written] = bits.next_long_symbol()?;
                written += 1;
                continue 'refill;
            };
            out[written..written + 2].copy_from_slice(&step.symbols);
            written += usize::from(step.count);
        }
    }
}

/// The bits that are still to be decoded.
struct Bits<'a> {
    /// The next bits, inverted, the first one at the top. Padding consists of ones, so inverted
    /// padding consists of zeros, like the bits after the end of the string.
    inverted: u64,
    /// Number of bits of `inverted` that have been taken from the string, from the top. Lower bits
    /// have the values of the following bits of the string, or 0.
    available: u32,
    rest: &'a [u8],
}

impl Bits<'_> {
    /// Fills `inverted` with at least [`REFILL`] bits, or with all that are left.
    #[inline]
    fn refill(&mut self) {
        if let Some(word) = self.rest.first_chunk() {
            self.inverted |= !u64::from_be_bytes(*word) >> self.available;
            let bytes = (63 - self.available) / 8;
            self.rest = &self.rest[bytes as usize..];
            self.available += bytes * 8;
            return;
        }
        while self.available <= 56
            && let Some((byte, rest)) = self.rest.split_first()
        {
            self.inverted |= u64::from(!byte) << (56 - self.available);
            self.available += 8;
            self.rest = rest;
        }
    }

    #[inline]
    fn skip(&mut self, bits: u32) {
        self.inverted <<= bits;
        self.available -= bits;
    }

    /// Takes one or two symbols with short codes. `None`: the next code is longer than the window,
    /// or fewer bits are available.
    #[inline]
    fn next_step(&mut self) -> Option<&'static Step> {
        let step = &STEPS[(self.inverted >> (u64::BITS as usize - WINDOW)) as usize];
        let bits = u32::from(step.bits);
        if bits > self.available {
            return None;
        }
        self.skip(bits);
        Some(step)
    }

    /// Whether only valid padding is left: less than a byte, all ones (RFC 7541 §5.2).
    #[inline]
    fn is_padding(&self) -> bool {
        self.available < 8 && self.inverted == 0
    }

    /// Takes a symbol whose code is longer than the window.
    fn next_long_symbol(&mut self) -> Result<u8, HpackError> {
        let next_bits = !(self.inverted >> 32) as u32;
        // Longer codes are higher numbers. The next code therefore has the first length whose codes
        // end above the next bits.
        let length = (WINDOW + 1..LONGEST)
            .find(|length| u64::from(next_bits) < RUNS[*length].end)
            .unwrap_or(LONGEST);
        if length as u32 > self.available {
            return Err(if self.inverted == 0 {
                HpackError::HuffmanPaddingTooLong
            } else {
                HpackError::HuffmanPadding
            });
        }
        self.skip(length as u32);
        let run = &RUNS[length];
        let symbol = run.first_symbol + (next_bits >> (32 - length)) - run.first_code;
        SYMBOLS.get(symbol as usize).copied().ok_or(HpackError::HuffmanEndOfString)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The step of the window that begins with these codes and ends with the low bits of `fill`.
    fn find_step(codes: &[(u32, u8)], fill: usize) -> Step {
        let bits: usize = codes.iter().map(|code| usize::from(code.1)).sum();
        let begin = codes.iter().fold(0, |begin, (code, bits)| begin << bits | *code as usize);
        let window = begin << (WINDOW - bits) | (fill & ((1 << (WINDOW - bits)) - 1));
        STEPS[STEPS.len() - 1 - window]
    }

    #[test]
    fn window_with_two_short_codes_gives_two_symbols() {
        let short = || (0..END_OF_STRING).filter(|symbol| usize::from(CODES[*symbol].1) <= WINDOW);
        for first in short() {
            for second in short() {
                let codes = [CODES[first], CODES[second]];
                let bits = codes[0].1 + codes[1].1;
                if usize::from(bits) <= WINDOW {
                    let step = find_step(&codes, 0);
                    assert_eq!((step.count, step.bits), (2, bits), "{first} {second}");
                    assert_eq!(step.symbols.map(usize::from), [first, second]);
                }
            }
            // Ones begin a code longer than the window, so only the first symbol is complete.
            let single = find_step(&[CODES[first]], usize::MAX);
            assert_eq!(
                (single.count, single.bits, usize::from(single.symbols[0])),
                (1, CODES[first].1, first)
            );
        }
    }
}
