//! Encodes and decodes strings with HPACK's Huffman code (RFC 7541 §5.2, Appendix B).
//!
//! The decoder reads windows of 11 bits, each of which gives up to two symbols. A table with one
//! entry per window, computed at compile time, makes this one lookup.

use super::HpackError;
use alloc::vec::Vec;

/// The end-of-string symbol. It must not occur on the wire: only its first bits are used, as
/// padding.
const END_OF_STRING: usize = 256;

/// Bits of the shortest code and of the longest.
const SHORTEST: usize = 5;
const LONGEST: usize = 30;

/// Bits per lookup. A window of 12 bits is slightly faster, but its table fills half of a
/// first-level cache, which the rest of the program needs too.
const WINDOW: usize = 11;

/// Bits that are available after [`Bits::refill`], unless the string ends.
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
static SYMBOLS: [u8; 256] = CANONICAL.symbols;
static RUNS: [Run; LONGEST + 1] = CANONICAL.runs;
static STEPS: [Step; 1 << WINDOW] = build_steps();

/// The codes that follow from [`LENGTHS`]: they count upwards, from short to long and then in the
/// order of the symbols.
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
    /// The second is unused if `count` is 1.
    symbols: [u8; 2],
    count: u8,
    /// Bits of these symbols' codes, or [`Step::LONG`].
    bits: u8,
}

impl Step {
    /// The code is longer than the window. The value exceeds any number of available bits.
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

/// Does the same as [`build_steps`], with one symbol per step.
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
    let bits: usize = bytes.iter().map(|byte| usize::from(CODES[usize::from(*byte)].1)).sum();
    bits.div_ceil(8)
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
    // A step writes two bytes even if only one counts.
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
        for _ in 0..REFILL / WINDOW {
            let Some(step) = bits.next_step() else {
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
    /// The next bits, the first one at the top. Padding is ones, and inverted it is zeros: then the
    /// bits after the end of the string look like padding without further work.
    inverted: u64,
    /// Number of valid bits of `inverted`. The bits below are the following ones, or zeros after
    /// the end.
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
        // Codes of the greatest length are the highest numbers.
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
