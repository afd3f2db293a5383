//! LZ4 blocks, written (wire.md 16). The bytes are those of lz4_flex for inputs below 64 KiB, which upstream stores
//! with, and the same on every target. What lz4_flex lacks and this has: a hash table that needs no clearing between
//! inputs, which would cost more than compressing a record of 128 bytes does, and an output without room to spare.

const HASH_BITS: u32 = 12;
const MIN_MATCH: usize = 4;
const MAX_DISTANCE: usize = 65_535;
/// No match starts within the last 12 bytes; none reaches into the last 6 (the format demands 5).
const LAST_START: usize = 12;
const LAST_LITERALS: usize = 6;
/// The search takes wider steps after each 2^5 positions without a match.
const STEP_SHIFT: u32 = 5;
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
        Self { table: table.try_into().unwrap_or_else(|_| unreachable!("the length is that of the type")), base: 0 }
    }

    /// Writes `input` (13 bytes to 1 GiB) as one block to the start of `output` and returns its length; `None` when it
    /// does not fit. Bytes of `output` behind the block may have changed.
    pub fn compress(&mut self, input: &[u8], output: &mut [u8]) -> Option<usize> {
        let base = self.take_base(input.len());
        let table = &mut *self.table;
        // An entry of an earlier input is below `base` and counts as position 0: a candidate like any other, compared
        // before it is believed. So the result does not depend on what came before.
        let seen = |entry: u32| entry.saturating_sub(base) as usize;

        let last_start = input.len().checked_sub(LAST_START)?;
        let match_limit = input.len() - LAST_LITERALS;
        let mut block = Block { output, length: 0 };
        let mut literals = 0;
        let mut at = 1;
        table[hash(word(input, 0)?)] = base;
        loop {
            let mut misses = 1 << STEP_SHIFT;
            let mut next = at;
            let mut candidate = loop {
                at = next;
                next += misses >> STEP_SHIFT;
                misses += 1;
                if at > last_start {
                    return block.last_literals(&input[literals..]);
                }
                // SAFETY: at <= last_start, which is 12 bytes before the end.
                let current = unsafe { word_unchecked(input, at) };
                let slot = &mut table[hash(current)];
                let candidate = seen(*slot);
                *slot = base + at as u32;
                // SAFETY: candidate < at.
                if candidate < at
                    && at - candidate <= MAX_DISTANCE
                    && unsafe { word_unchecked(input, candidate) } == current
                {
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
            self.base = 0;
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
