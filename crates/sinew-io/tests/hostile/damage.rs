//! Ways to damage a file, in an endless sequence that is the same on every machine.

/// A pseudo-random sequence (splitmix64).
struct Sequence(u64);

impl Sequence {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// Damaged copies of a file, each with a word on how.
pub struct Damages<'a> {
    bytes: &'a [u8],
    sequence: Sequence,
    count: usize,
}

impl<'a> Damages<'a> {
    /// The same damages for the same bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, sequence: Sequence(7), count: 0 }
    }

    /// A place to damage: headers and tables are where sizes stand, so half are in the first and last kilobyte.
    fn place(&mut self) -> usize {
        let length = self.bytes.len();
        match self.sequence.below(4) {
            0 => self.sequence.below(length.min(1024)),
            1 => length - 1 - self.sequence.below(length.min(1024)),
            _ => self.sequence.below(length),
        }
    }

    fn flip(&mut self, damaged: &mut [u8]) {
        for _ in 0..=self.sequence.below(3) {
            damaged[self.place()] ^= 1 << self.sequence.below(8);
        }
    }

    /// An absurd or nearly right number over four or eight bytes, little or big end first.
    fn renumber(&mut self, damaged: &mut [u8]) {
        let place = self.place();
        let numbers = [u64::MAX, 0x7f7f_7f7f_7f7f_7f7f, 1 << 40, 1 << 31, 0, damaged.len() as u64, 0xffff];
        let number = numbers[self.sequence.below(numbers.len())].wrapping_add(self.sequence.below(3) as u64);
        let bytes = if self.sequence.below(4) == 0 { number.to_be_bytes() } else { number.to_le_bytes() };
        let width = if self.sequence.below(2) == 0 { 4 } else { 8 };
        for (byte, new) in damaged.iter_mut().skip(place).zip(bytes).take(width) {
            *byte = new;
        }
    }

    /// Moves a piece of the file over another place, doubles it, or cuts it out.
    fn splice(&mut self, damaged: &mut Vec<u8>) {
        let from = self.place();
        let length = (1 + self.sequence.below(64)).min(damaged.len() - from);
        let piece = damaged[from..from + length].to_vec();
        let to = self.place().min(damaged.len() - length);
        match self.sequence.below(3) {
            0 => damaged[to..to + length].copy_from_slice(&piece),
            1 => drop(damaged.splice(to..to, piece)),
            _ => drop(damaged.drain(from..from + length)),
        }
    }
}

impl Iterator for Damages<'_> {
    type Item = (Vec<u8>, String);

    fn next(&mut self) -> Option<Self::Item> {
        let k = self.count;
        self.count += 1;
        let mut damaged = self.bytes.to_vec();
        let how = match k % 8 {
            0 => {
                let length = if k < 256 { k / 8 } else { self.sequence.below(damaged.len()) };
                damaged.truncate(length);
                "cut short"
            }
            1 | 2 => {
                self.splice(&mut damaged);
                "spliced"
            }
            3 | 4 => {
                self.renumber(&mut damaged);
                "with another number"
            }
            _ => {
                self.flip(&mut damaged);
                "with flipped bits"
            }
        };
        Some((damaged, format!("damage {k} ({how})")))
    }
}
