//! The Huffman code of strings (RFC 7541 §5.2, Appendix B).

use super::HpackError;
use alloc::vec::Vec;

/// The symbol that ends no string on the wire: it is there for its first bits, which are the
/// padding.
const END_OF_STRING: usize = 256;

/// Bits of the shortest code and of the longest.
const SHORTEST: usize = 5;
const LONGEST: usize = 30;

/// Bits that are looked at together. One more is a little faster still, but its table fills half of
/// a first-level cache that the rest of the program needs too.
const WINDOW: usize = 11;

/// Bits that one [`Bits::refill`] makes sure of, unless the string ends.
const REFILL: usize = 56;

/// Length in bits of each symbol's code, end-of-string last (RFC 7541 Appendix B). Nothing else
/// needs to be written down, as the code is canonical.
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
static STEPS: [Step; 1 << WINDOW] = steps();

/// The codes that follow from [`LENGTHS`]: they count upwards, from short to long and then in the
/// order of the symbols.
const CANONICAL: Canonical = canonical();

// The last code is all ones, so the lengths leave no gap and every bit string begins with some
// code.
const _: () = assert!(CANONICAL.codes[END_OF_STRING].0 == (1 << LONGEST) - 1);

struct Canonical {
    codes: [(u32, u8); 257],
    /// In the order of their codes; end-of-string would be the last.
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

const fn canonical() -> Canonical {
    let mut all = Canonical {
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
                all.codes[symbol] = (code, length as u8);
                if symbol != END_OF_STRING {
                    all.symbols[count] = symbol as u8;
                }
                code += 1;
                count += 1;
            }
            symbol += 1;
        }
        all.runs[length] = Run { first_code, first_symbol, end: (code as u64) << (32 - length) };
        code <<= 1;
        length += 1;
    }
    all
}

/// The symbols whose codes begin a window of [`WINDOW`] bits.
#[derive(Clone, Copy)]
struct Step {
    /// Two where two short codes fit; the second is void otherwise.
    symbols: [u8; 2],
    count: u8,
    /// Bits of these symbols' codes, or [`Step::LONG`].
    bits: u8,
}

impl Step {
    /// The code is longer than the window: more bits than there ever are.
    const LONG: u8 = u8::MAX;
}

/// Windows are kept inverted, see [`Bits`].
const fn steps() -> [Step; 1 << WINDOW] {
    let single = single_steps();
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

const fn single_steps() -> [Step; 1 << WINDOW] {
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

/// Bytes that [`encode`] would add.
#[must_use]
pub fn encoded_len(bytes: &[u8]) -> usize {
    let bits: usize = bytes.iter().map(|byte| usize::from(CODES[usize::from(*byte)].1)).sum();
    bits.div_ceil(8)
}

/// Appends the code of `bytes` to `out`.
pub fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    // The low `have` bits are still to be written.
    let (mut pending, mut have) = (0u64, 0);
    for byte in bytes {
        let (code, bits) = CODES[usize::from(*byte)];
        pending = pending << bits | u64::from(code);
        have += bits;
        while have >= 8 {
            have -= 8;
            out.push((pending >> have) as u8);
        }
    }
    if have > 0 {
        out.push((pending << (8 - have)) as u8 | 0xff >> have);
    }
}

/// Appends to `out` the string that `bytes` are the code of. After an error `out` is as it was.
pub fn decode(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    let start = out.len();
    // A step may write one byte too many.
    out.resize(start + bytes.len() * 8 / SHORTEST + 1, 0);
    let decoded = decode_into(bytes, &mut out[start..]);
    out.truncate(start + decoded.unwrap_or(0));
    decoded.map(|_| ())
}

/// Returns how many bytes were written.
fn decode_into(bytes: &[u8], out: &mut [u8]) -> Result<usize, HpackError> {
    let mut bits = Bits { inverted: 0, have: 0, rest: bytes };
    let mut written = 0;
    'refill: loop {
        bits.refill();
        for _ in 0..REFILL / WINDOW {
            let Some(step) = bits.short() else {
                bits.refill();
                if bits.are_padding() {
                    return Ok(written);
                }
                out[written] = bits.long()?;
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
    /// The next bits, the first one at the top. They are inverted, so that what lies beyond the end
    /// reads like the padding: it is zeros here.
    inverted: u64,
    /// How many bits of `inverted` count. Those below them are the next ones, too, or zeros beyond
    /// the end.
    have: u32,
    rest: &'a [u8],
}

impl Bits<'_> {
    /// Fills `inverted` up to [`REFILL`] bits at least, or to all there are.
    #[inline]
    fn refill(&mut self) {
        if let Some(word) = self.rest.first_chunk() {
            self.inverted |= !u64::from_be_bytes(*word) >> self.have;
            let bytes = (63 - self.have) / 8;
            self.rest = &self.rest[bytes as usize..];
            self.have += bytes * 8;
            return;
        }
        while self.have <= 56
            && let Some((byte, rest)) = self.rest.split_first()
        {
            self.inverted |= u64::from(!byte) << (56 - self.have);
            self.have += 8;
            self.rest = rest;
        }
    }

    #[inline]
    fn skip(&mut self, bits: u32) {
        self.inverted <<= bits;
        self.have -= bits;
    }

    /// One or two symbols with short codes.
    #[inline]
    fn short(&mut self) -> Option<&'static Step> {
        let step = &STEPS[(self.inverted >> (u64::BITS as usize - WINDOW)) as usize];
        let bits = u32::from(step.bits);
        if bits > self.have {
            return None;
        }
        self.skip(bits);
        Some(step)
    }

    /// Whether the string ends here as it should: less than a byte is left, of ones (RFC 7541
    /// §5.2).
    #[inline]
    fn are_padding(&self) -> bool {
        self.have < 8 && self.inverted == 0
    }

    /// The symbol whose code is longer than a window.
    fn long(&mut self) -> Result<u8, HpackError> {
        let ahead = !(self.inverted >> 32) as u32;
        // The longest codes end above everything.
        let length = (WINDOW + 1..LONGEST)
            .find(|length| u64::from(ahead) < RUNS[*length].end)
            .unwrap_or(LONGEST);
        if length as u32 > self.have {
            return Err(if self.inverted == 0 {
                HpackError::HuffmanPaddingTooLong
            } else {
                HpackError::HuffmanPadding
            });
        }
        self.skip(length as u32);
        let run = &RUNS[length];
        let symbol = run.first_symbol + (ahead >> (32 - length)) - run.first_code;
        SYMBOLS.get(symbol as usize).copied().ok_or(HpackError::HuffmanEndOfString)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The step of the bits with which these codes begin, filled up with what is given.
    fn step_of(codes: &[(u32, u8)], fill: usize) -> Step {
        let bits: usize = codes.iter().map(|code| usize::from(code.1)).sum();
        let begin = codes.iter().fold(0, |begin, (code, bits)| begin << bits | *code as usize);
        let window = begin << (WINDOW - bits) | (fill & ((1 << (WINDOW - bits)) - 1));
        STEPS[STEPS.len() - 1 - window]
    }

    #[test]
    fn two_codes_that_fit_a_window_are_read_at_once() {
        let short = || (0..END_OF_STRING).filter(|symbol| usize::from(CODES[*symbol].1) <= WINDOW);
        for first in short() {
            for second in short() {
                let codes = [CODES[first], CODES[second]];
                let bits = codes[0].1 + codes[1].1;
                if usize::from(bits) <= WINDOW {
                    let step = step_of(&codes, 0);
                    assert_eq!((step.count, step.bits), (2, bits), "{first} {second}");
                    assert_eq!(step.symbols.map(usize::from), [first, second]);
                }
            }
            // Only ones follow: the longest codes begin so.
            let alone = step_of(&[CODES[first]], usize::MAX);
            assert_eq!(
                (alone.count, alone.bits, usize::from(alone.symbols[0])),
                (1, CODES[first].1, first)
            );
        }
    }
}
