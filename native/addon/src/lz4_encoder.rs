//! LZ4 blocks, written (wire.md 16). The same bytes on every target, and those of `lz4-encoder-typescript.ts`. Made for
//! records: a hash table that needs no clearing between inputs, which would cost more than compressing 128 bytes does, an
//! output without room to spare, and a search that ends where the block cannot become shorter than its input any more.

const HASH_BITS: u32 = 12;
const MIN_MATCH: usize = 4;
const MAX_DISTANCE: usize = 65_535;
/// No match starts within the last 12 bytes; none reaches into the last 6 (the format demands 5).
const LAST_START: usize = 12;
const LAST_LITERALS: usize = 6;
/// The search takes steps of one byte at first, and wider ones the longer it finds nothing; in sixteenths of a byte.
const STEP: usize = 16;
const GROWTH: usize = 1;
/// The same in what looks like noise.
const NOISE_STEP: usize = 8 * 16;
const NOISE_GROWTH: usize = 8;
/// What tells noise from the rest: two bits of each byte of the sample are set as often as a coin shows heads.
const SAMPLE_BYTES: usize = 64;
const NOISE_BITS: std::ops::RangeInclusive<u64> = 22..=42;
/// What follows the literals at least: token, distance, and the last literals with their token.
const LEAST_REST: usize = 10;
/// A length nibble that goes on in the bytes behind it.
const EXTENDED: usize = 15;

/// An encoder, kept for all inputs of a thread.
pub struct Encoder {
    /// Where a hash was seen last, as `base` of its input plus the position in it.
    table: Box<[u32; 1 << HASH_BITS]>,
    /// Above every entry that earlier inputs left behind.
    base: u32,
}

impl Encoder {
    pub fn new() -> Self {
        let table = vec![0; 1 << HASH_BITS].into_boxed_slice();
        Self { table: table.try_into().unwrap_or_else(|_| unreachable!("the length is that of the type")), base: 1 }
    }

    /// Writes `input` (13 bytes to 1 GiB) as one block to the start of `output` and returns its length; `None` when it
    /// does not fit. Bytes of `output` behind the block may have changed.
    pub fn compress(&mut self, input: &[u8], output: &mut [u8]) -> Option<usize> {
        let base = self.take_base(input.len());
        let table = &mut *self.table;
        let last_start = input.len().checked_sub(LAST_START)?;
        let match_limit = input.len() - LAST_LITERALS;
        let (first_step, growth) = if noise(input) { (NOISE_STEP, NOISE_GROWTH) } else { (STEP, GROWTH) };
        let mut block = Block { output, length: 0 };
        let mut literals = 0;
        let mut at = 1;
        table[hash(word(input, 0)?)] = base;
        loop {
            // A match that is found behind this position would come too late to make the input shorter.
            let end = last_start.min((literals + block.output.len()).saturating_sub(block.length + LEAST_REST));
            let mut step = first_step;
            let mut next = at;
            let mut candidate = loop {
                at = next;
                next += step / 16;
                step += growth;
                if at > end {
                    return block.last_literals(&input[literals..]);
                }
                // SAFETY: at <= last_start, which is 12 bytes before the end.
                let current = unsafe { word_unchecked(input, at) };
                let slot = &mut table[hash(current)];
                let entry = *slot;
                *slot = base + at as u32;
                // An entry of an earlier input is below `base`, and passed over: the result does not depend on what came
                // before, and a short input meets little else, so that the search seldom looks further than this.
                if entry < base {
                    continue;
                }
                let candidate = (entry - base) as usize;
                // SAFETY: an entry of this input is a position before `at`.
                if at - candidate <= MAX_DISTANCE && unsafe { word_unchecked(input, candidate) } == current {
                    break candidate;
                }
            };
            let distance = at - candidate;
            while candidate > 0 && at > literals && input[at - 1] == input[candidate - 1] {
                at -= 1;
                candidate -= 1;
            }
            let length =
                MIN_MATCH + common_prefix(&input[candidate + MIN_MATCH..], &input[at + MIN_MATCH..match_limit]);
            block.sequence(input, literals, at, distance as u16, length - MIN_MATCH)?;
            at += length;
            literals = at;
            table[hash(word(input, at - 2)?)] = base + at as u32 - 2;
        }
    }

    /// The base of an input of `length` bytes. The next one's is above all its entries.
    fn take_base(&mut self, length: usize) -> u32 {
        let length = length as u32;
        if self.base.checked_add(length).is_none() {
            self.table.fill(0);
            self.base = 1;
        }
        let base = self.base;
        self.base += length;
        base
    }
}

/// The block as far as it is written.
struct Block<'a> {
    output: &'a mut [u8],
    length: usize,
}

impl Block<'_> {
    /// input[from..to] as literals, then a match `distance` back that is 4 bytes longer than `more`.
    #[inline]
    fn sequence(&mut self, input: &[u8], from: usize, to: usize, distance: u16, more: usize) -> Option<()> {
        self.literals(input, from, to, more.min(EXTENDED))?;
        self.output.get_mut(self.length..self.length + 2)?.copy_from_slice(&distance.to_le_bytes());
        self.length += 2;
        if more >= EXTENDED { self.extension(more - EXTENDED) } else { Some(()) }
    }

    fn last_literals(mut self, literals: &[u8]) -> Option<usize> {
        self.literals(literals, 0, literals.len(), 0)?;
        Some(self.length)
    }

    /// The token, with `low` as its lower half, and the literals.
    #[inline]
    fn literals(&mut self, input: &[u8], from: usize, to: usize, low: usize) -> Option<()> {
        let count = to - from;
        *self.output.get_mut(self.length)? = (count.min(EXTENDED) << 4 | low) as u8;
        self.length += 1;
        if count >= EXTENDED {
            self.extension(count - EXTENDED)?;
        }
        // A copy of fixed size is far cheaper; what it copies too much is overwritten, or behind the block.
        if count <= 16 {
            let (source, target) = (input.get(from..from + 16), self.output.get_mut(self.length..self.length + 16));
            if let (Some(source), Some(target)) = (source, target) {
                target.copy_from_slice(source);
                self.length += count;
                return Some(());
            }
        }
        self.output.get_mut(self.length..self.length + count)?.copy_from_slice(&input[from..to]);
        self.length += count;
        Some(())
    }

    #[inline]
    fn extension(&mut self, mut length: usize) -> Option<()> {
        while length >= 255 {
            *self.output.get_mut(self.length)? = 255;
            self.length += 1;
            length -= 255;
        }
        *self.output.get_mut(self.length)? = length as u8;
        self.length += 1;
        Some(())
    }
}

/// Whether the start of `input` looks like noise: encrypted, or compressed already.
#[inline]
fn noise(input: &[u8]) -> bool {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let Some(sample) = input.first_chunk::<SAMPLE_BYTES>() else {
        return false;
    };
    // Eight counts side by side, of at most 8 each.
    let (mut high, mut middle) = (0, 0);
    for eight in sample.chunks_exact(8) {
        let word = long(eight);
        high += word >> 7 & EACH;
        middle += word >> 4 & EACH;
    }
    let sum = |counts: u64| counts.wrapping_mul(EACH) >> 56;
    NOISE_BITS.contains(&sum(high)) && NOISE_BITS.contains(&sum(middle))
}

#[inline]
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// As `word`; four bytes must be there. The search does little else, and the checks cost a quarter of its time.
#[inline]
unsafe fn word_unchecked(bytes: &[u8], at: usize) -> u32 {
    debug_assert!(at + 4 <= bytes.len());
    // SAFETY: the caller's promise; any alignment will do.
    u32::from_le(unsafe { bytes.as_ptr().add(at).cast::<u32>().read_unaligned() })
}

#[inline]
fn hash(word: u32) -> usize {
    (word.wrapping_mul(2_654_435_761) >> (32 - HASH_BITS)) as usize
}

/// How many bytes `a` and `b` have in common at their start; `b` is not the longer one.
#[inline]
fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let mut same = 0;
    for (a, b) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        let difference = long(a) ^ long(b);
        if difference != 0 {
            return same + (difference.trailing_zeros() / 8) as usize;
        }
        same += 8;
    }
    same + a[same..].iter().zip(&b[same..]).take_while(|(a, b)| a == b).count()
}

#[inline]
fn long(eight: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(eight);
    u64::from_le_bytes(bytes)
}
