//! Seeded random numbers that stay the same on every machine and with every compiler.

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// The sequence of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in 0 … `count` − 1.
    pub fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    /// Uniform in `low..high`.
    pub fn range(&mut self, low: f64, high: f64) -> f64 {
        // The upper 53 bits fill an f64's mantissa.
        low + (high - low) * ((self.next() >> 11) as f64 / (1u64 << 53) as f64)
    }
}
