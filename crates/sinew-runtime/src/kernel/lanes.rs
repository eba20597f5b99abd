//! Eight f32 lanes, the width every kernel is written for.
//!
//! A kernel is a struct with a `run` that is generic over [`Lanes`]; [`Instructions::run`] compiles it once for
//! AVX2 + FMA (through pulp, whose token proves that the processor has them, so that no kernel needs `unsafe`) and
//! once as plain arrays (and `turn` once more, see `vnni`). The plain one is the twin that tests compare with; on other processors the compiler turns it
//! into what they have (NEON on aarch64).
//!
//! The two differ in the last bits: AVX2 fuses multiply and add, the twin rounds in between.

#[cfg(target_arch = "x86_64")]
use super::vnni::Vnni;

/// Eight f32 where a register can be loaded from: aligned, so that no load touches two cache lines.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[repr(C, align(32))]
pub(crate) struct Row(pub [f32; 8]);

/// The lanes in the order of [`Lanes::spread`]: the halves of a register are taken apart side by side.
pub(crate) const SPREAD: [usize; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

/// Two rows in the space of one: whole numbers of 16 bits in steps that whoever reads them must multiply by. What waits for
/// memory is done sooner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C, align(32))]
pub(crate) struct Packed(pub [i32; 8]);

impl Packed {
    /// The step that reaches the largest of these values: rows are off by half of 2¹⁶ such steps at most, 1.6e-5 of it.
    pub fn step(values: impl Iterator<Item = f64>) -> f64 {
        values.fold(f64::MIN_POSITIVE, |most, value| most.max(value.abs())) / f64::from(i32::from(i16::MAX) << 16)
    }

    /// Two rows in these steps.
    pub fn new(rows: [[f64; 8]; 2], steps: [f64; 8]) -> Self {
        let wholes = |l: usize| {
            let [low, high] = rows.map(|row| row[l] / steps[l] / 65_536.0);
            let low = i32::from(low.round() as i16) & 0xffff;
            // Read as it is, the high half has the low one behind its point.
            let high = i32::from((high - f64::from(low) / 65_536.0).round() as i16);
            high << 16 | low
        };
        Self(std::array::from_fn(wholes))
    }
}

/// Two i16 for each of sixteen lanes, which are two registers of eight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C, align(64))]
pub(crate) struct Pairs(pub [[i16; 2]; 16]);

/// Arithmetic on eight f32 at once, and on pairs of i16.
pub(crate) trait Lanes: Copy {
    /// Eight f32.
    type V: Copy;
    /// Pairs of i16, one in each of sixteen lanes: two registers of eight.
    type Pairs: Copy;
    /// Sixteen i32.
    type Wholes: Copy;

    fn splat(self, value: f32) -> Self::V;
    fn load(self, row: &Row) -> Self::V;
    /// Eight f32 from anywhere.
    fn load_array(self, values: &[f32; 8]) -> Self::V;
    /// Two rows, in steps.
    fn unpack(self, rows: &Packed) -> [Self::V; 2];
    /// Row i, lane j becomes row j, lane i.
    fn transpose(self, rows: [Self::V; 8]) -> [Self::V; 8];
    fn array(self, v: Self::V) -> [f32; 8];
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    fn sqrt(self, a: Self::V) -> Self::V;
    /// 1/√a as the processor estimates it, off by at most 1.5 × 2⁻¹² = 3.7e-4 of itself; a must be a normal number above 0.
    fn inverse_sqrt_estimate(self, a: Self::V) -> Self::V;
    /// 1/√a, off by 3e-7 of itself; a must be a normal number above 0.
    fn inverse_sqrt(self, a: Self::V) -> Self::V;
    /// a·b + c.
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// c − a·b.
    fn neg_mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `yes` where a < b, else `no`.
    fn select_less(self, a: Self::V, b: Self::V, yes: Self::V, no: Self::V) -> Self::V;
    /// Whether a < b in every lane.
    fn all_less(self, a: Self::V, b: Self::V) -> bool;
    /// The points (x, y, z) of three rows of lanes, one after the other.
    fn points(self, rows: [Self::V; 3]) -> [[f32; 3]; 8];
    /// The points of lanes 0 … 3, and those of lanes 4 … 7.
    fn point_halves(self, rows: [Self::V; 3]) -> [[[f32; 3]; 4]; 2];
    /// The points of lanes [`SPREAD`], each with a fourth number that means nothing: what is cheapest to take apart.
    fn spread(self, rows: [Self::V; 3]) -> [[f32; 4]; 8];
    /// To the nearest whole numbers of 16 bits: a's in the low halves, b's in the high ones.
    fn pairs(self, a: Self::V, b: Self::V) -> [u32; 8];
    /// The two numbers of `pair`, low half first, in every lane.
    fn splat_pair(self, pair: u32) -> Self::Pairs;
    fn load_pairs(self, values: &Pairs) -> Self::Pairs;
    /// In each lane the product of the first numbers plus that of the second ones.
    fn mul_pairs(self, a: Self::Pairs, b: Self::Pairs) -> Self::Wholes;
    /// The same plus c.
    fn mul_add_pairs(self, a: Self::Pairs, b: Self::Pairs, c: Self::Wholes) -> Self::Wholes;
    /// The first and the second eight.
    fn floats(self, values: Self::Wholes) -> [Self::V; 2];
    /// Compiles `kernel` for these instructions and runs it.
    fn run<K: Kernel>(self, kernel: K);
}

/// Work for eight lanes at a time.
pub(crate) trait Kernel {
    /// Must be `#[inline(always)]`, or it is compiled without the lanes' instructions.
    fn run<L: Lanes>(self, lanes: L);
}

/// Which instructions the kernels use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instructions {
    /// No kernel: each method's own plain loop over vertices, as its file states it. What the kernels are tested with.
    Plain,
    /// The kernels on plain arrays, left to the compiler: the fallback.
    Portable,
    /// AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// The same, and AVX-512 with VNNI for palette normals.
    #[cfg(target_arch = "x86_64")]
    Vnni,
}

impl Instructions {
    /// The fastest that this processor has.
    #[must_use]
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if pulp::x86::V3::try_new().is_some() {
            return if Vnni::try_new().is_some() { Self::Vnni } else { Self::Avx2 };
        }
        Self::Portable
    }

    /// Runs `kernel`.
    pub(crate) fn run(self, kernel: impl Kernel) {
        match self {
            Self::Plain | Self::Portable => Portable.run(kernel),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 | Self::Vnni => match pulp::x86::V3::try_new() {
                Some(simd) => simd.run(kernel),
                None => Portable.run(kernel),
            },
        }
    }
    /// Runs a `kernel` that multiplies pairs.
    pub(crate) fn run_pairs(self, kernel: impl Kernel) {
        #[cfg(target_arch = "x86_64")]
        if let (Self::Vnni, Some(lanes)) = (self, Vnni::try_new()) {
            return lanes.run(kernel);
        }
        self.run(kernel);
    }
}

/// The twin: eight lanes as an array.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

impl Lanes for Portable {
    type V = [f32; 8];
    type Pairs = [[i16; 2]; 16];
    type Wholes = [i32; 16];

    #[inline(always)]
    fn splat(self, value: f32) -> Self::V {
        [value; 8]
    }
    #[inline(always)]
    fn load(self, row: &Row) -> Self::V {
        row.0
    }
    #[inline(always)]
    fn load_array(self, values: &[f32; 8]) -> Self::V {
        *values
    }
    #[inline(always)]
    fn unpack(self, rows: &Packed) -> [Self::V; 2] {
        [rows.0.map(|both| (both << 16) as f32), rows.0.map(|both| both as f32)]
    }
    #[inline(always)]
    fn transpose(self, rows: [Self::V; 8]) -> [Self::V; 8] {
        std::array::from_fn(|i| std::array::from_fn(|j| rows[j][i]))
    }
    #[inline(always)]
    fn array(self, v: Self::V) -> [f32; 8] {
        v
    }
    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|l| a[l] + b[l])
    }
    #[inline(always)]
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|l| a[l] - b[l])
    }
    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|l| a[l] * b[l])
    }
    #[inline(always)]
    fn div(self, a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|l| a[l] / b[l])
    }
    #[inline(always)]
    fn sqrt(self, a: Self::V) -> Self::V {
        a.map(f32::sqrt)
    }
    #[inline(always)]
    fn inverse_sqrt_estimate(self, a: Self::V) -> Self::V {
        self.inverse_sqrt(a)
    }
    #[inline(always)]
    fn inverse_sqrt(self, a: Self::V) -> Self::V {
        std::array::from_fn(|l| 1.0 / a[l].sqrt())
    }
    #[inline(always)]
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        // Not `f32::mul_add`: without the instruction that is a call into the C library.
        std::array::from_fn(|l| a[l] * b[l] + c[l])
    }
    #[inline(always)]
    fn neg_mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        std::array::from_fn(|l| c[l] - a[l] * b[l])
    }
    #[inline(always)]
    fn select_less(self, a: Self::V, b: Self::V, yes: Self::V, no: Self::V) -> Self::V {
        std::array::from_fn(|l| if a[l] < b[l] { yes[l] } else { no[l] })
    }
    #[inline(always)]
    fn all_less(self, a: Self::V, b: Self::V) -> bool {
        a.iter().zip(&b).all(|(a, b)| a < b)
    }
    #[inline(always)]
    fn points(self, [x, y, z]: [Self::V; 3]) -> [[f32; 3]; 8] {
        std::array::from_fn(|l| [x[l], y[l], z[l]])
    }
    #[inline(always)]
    fn point_halves(self, rows: [Self::V; 3]) -> [[[f32; 3]; 4]; 2] {
        let points = self.points(rows);
        [0, 4].map(|first| std::array::from_fn(|l| points[first + l]))
    }
    #[inline(always)]
    fn spread(self, [x, y, z]: [Self::V; 3]) -> [[f32; 4]; 8] {
        SPREAD.map(|l| [x[l], y[l], z[l], z[l]])
    }
    #[inline(always)]
    fn pairs(self, a: Self::V, b: Self::V) -> [u32; 8] {
        let whole = |x: f32| u32::from(x.round_ties_even() as i16 as u16);
        std::array::from_fn(|l| whole(b[l]) << 16 | whole(a[l]))
    }
    #[inline(always)]
    fn splat_pair(self, pair: u32) -> Self::Pairs {
        [[pair as i16, (pair >> 16) as i16]; 16]
    }
    #[inline(always)]
    fn load_pairs(self, values: &Pairs) -> Self::Pairs {
        values.0
    }
    #[inline(always)]
    fn mul_pairs(self, a: Self::Pairs, b: Self::Pairs) -> Self::Wholes {
        self.mul_add_pairs(a, b, [0; 16])
    }
    #[inline(always)]
    fn mul_add_pairs(self, a: Self::Pairs, b: Self::Pairs, c: Self::Wholes) -> Self::Wholes {
        let product = |l: usize, k: usize| i32::from(a[l][k]) * i32::from(b[l][k]);
        std::array::from_fn(|l| c[l].wrapping_add(product(l, 0)).wrapping_add(product(l, 1)))
    }
    #[inline(always)]
    fn floats(self, values: Self::Wholes) -> [Self::V; 2] {
        std::array::from_fn(|r| std::array::from_fn(|l| values[8 * r + l] as f32))
    }
    #[inline(always)]
    fn run<K: Kernel>(self, kernel: K) {
        kernel.run(self);
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{Kernel, Lanes, Packed, Pairs, Row};
    use core::arch::x86_64::{__m256, __m256i};
    use pulp::x86::V3;

    /// A kernel and the proof that its instructions exist.
    struct Compiled<K>(V3, K);

    impl<K: Kernel> pulp::NullaryFnOnce for Compiled<K> {
        type Output = ();
        #[inline(always)]
        fn call(self) {
            // What a kernel has no register for goes to the stack, and comes back late if it lies across two cache lines
            // there. A row on the stack makes the compiler align all of it.
            std::hint::black_box(&Row::default());
            self.1.run(self.0);
        }
    }

    /// Points of four lanes in each half, by pairs: (x0 y0 z0 x1), (y1 z1 x2 y2), (z2 x3 y3 z3).
    #[inline(always)]
    fn woven(s: V3, [x, y, z]: [__m256; 3]) -> [__m256; 3] {
        let avx = s.avx;
        // First (x0 x2 y0 y2), (y1 y3 z1 z3), (z0 z2 x1 x3).
        let xy = avx._mm256_shuffle_ps::<0b10_00_10_00>(x, y);
        let yz = avx._mm256_shuffle_ps::<0b11_01_11_01>(y, z);
        let zx = avx._mm256_shuffle_ps::<0b11_01_10_00>(z, x);
        [
            avx._mm256_shuffle_ps::<0b10_00_10_00>(xy, zx),
            avx._mm256_shuffle_ps::<0b11_01_10_00>(yz, xy),
            avx._mm256_shuffle_ps::<0b11_01_11_01>(zx, yz),
        ]
    }

    impl Lanes for V3 {
        type V = __m256;
        type Pairs = [__m256i; 2];
        type Wholes = [__m256i; 2];

        #[inline(always)]
        fn splat(self, value: f32) -> __m256 {
            self.avx._mm256_set1_ps(value)
        }
        #[inline(always)]
        fn load(self, row: &Row) -> __m256 {
            bytemuck::cast(row.0)
        }
        #[inline(always)]
        fn load_array(self, values: &[f32; 8]) -> __m256 {
            bytemuck::cast(*values)
        }
        #[inline(always)]
        fn unpack(self, rows: &Packed) -> [__m256; 2] {
            let both = bytemuck::cast(rows.0);
            let low = self.avx2._mm256_slli_epi32::<16>(both);
            [self.avx._mm256_cvtepi32_ps(low), self.avx._mm256_cvtepi32_ps(both)]
        }
        #[inline(always)]
        fn transpose(self, [a, b, c, d, e, f, g, h]: [__m256; 8]) -> [__m256; 8] {
            let avx = self.avx;
            // Pairs of rows woven together, then fours, then the halves put in their places.
            let low = |x, y| avx._mm256_unpacklo_ps(x, y);
            let high = |x, y| avx._mm256_unpackhi_ps(x, y);
            let even = |x, y| avx._mm256_shuffle_ps::<0b01_00_01_00>(x, y);
            let odd = |x, y| avx._mm256_shuffle_ps::<0b11_10_11_10>(x, y);
            let (ab, cd, ef, gh) = (low(a, b), low(c, d), low(e, f), low(g, h));
            let (ab2, cd2, ef2, gh2) = (high(a, b), high(c, d), high(e, f), high(g, h));
            let front = [even(ab, cd), odd(ab, cd), even(ab2, cd2), odd(ab2, cd2)];
            let back = [even(ef, gh), odd(ef, gh), even(ef2, gh2), odd(ef2, gh2)];
            std::array::from_fn(|k| match k {
                0..4 => avx._mm256_permute2f128_ps::<0x20>(front[k], back[k]),
                _ => avx._mm256_permute2f128_ps::<0x31>(front[k - 4], back[k - 4]),
            })
        }
        #[inline(always)]
        fn array(self, v: __m256) -> [f32; 8] {
            bytemuck::cast(v)
        }
        #[inline(always)]
        fn add(self, a: __m256, b: __m256) -> __m256 {
            self.avx._mm256_add_ps(a, b)
        }
        #[inline(always)]
        fn sub(self, a: __m256, b: __m256) -> __m256 {
            self.avx._mm256_sub_ps(a, b)
        }
        #[inline(always)]
        fn mul(self, a: __m256, b: __m256) -> __m256 {
            self.avx._mm256_mul_ps(a, b)
        }
        #[inline(always)]
        fn div(self, a: __m256, b: __m256) -> __m256 {
            self.avx._mm256_div_ps(a, b)
        }
        #[inline(always)]
        fn sqrt(self, a: __m256) -> __m256 {
            self.avx._mm256_sqrt_ps(a)
        }
        #[inline(always)]
        fn inverse_sqrt_estimate(self, a: __m256) -> __m256 {
            self.avx._mm256_rsqrt_ps(a)
        }
        #[inline(always)]
        fn inverse_sqrt(self, a: __m256) -> __m256 {
            // Twelve bits from a table, doubled by a step of Newton: r (3 − a r²) / 2.
            let r = self.inverse_sqrt_estimate(a);
            let rest = self.neg_mul_add(self.mul(a, r), r, self.splat(3.0));
            self.mul(self.mul(r, self.splat(0.5)), rest)
        }
        #[inline(always)]
        fn mul_add(self, a: __m256, b: __m256, c: __m256) -> __m256 {
            self.fma._mm256_fmadd_ps(a, b, c)
        }
        #[inline(always)]
        fn neg_mul_add(self, a: __m256, b: __m256, c: __m256) -> __m256 {
            self.fma._mm256_fnmadd_ps(a, b, c)
        }
        #[inline(always)]
        fn select_less(self, a: __m256, b: __m256, yes: __m256, no: __m256) -> __m256 {
            // 17: less than, false for NaN, as the twin's `<`.
            self.avx._mm256_blendv_ps(no, yes, self.avx._mm256_cmp_ps::<17>(a, b))
        }
        #[inline(always)]
        fn all_less(self, a: __m256, b: __m256) -> bool {
            self.avx._mm256_movemask_ps(self.avx._mm256_cmp_ps::<17>(a, b)) == 0xff
        }
        #[inline(always)]
        fn points(self, rows: [__m256; 3]) -> [[f32; 3]; 8] {
            let (avx, [a, b, c]) = (self.avx, woven(self, rows));
            bytemuck::cast([
                avx._mm256_permute2f128_ps::<0x20>(a, b),
                avx._mm256_permute2f128_ps::<0x30>(c, a),
                avx._mm256_permute2f128_ps::<0x31>(b, c),
            ])
        }
        #[inline(always)]
        fn point_halves(self, rows: [__m256; 3]) -> [[[f32; 3]; 4]; 2] {
            let [a, b, c] = woven(self, rows);
            let half = |a, b, c| bytemuck::cast([a, b, c]);
            let (low, high) =
                (|v: __m256| self.avx._mm256_castps256_ps128(v), |v: __m256| self.avx._mm256_extractf128_ps::<1>(v));
            [half(low(a), low(b), low(c)), half(high(a), high(b), high(c))]
        }
        #[inline(always)]
        fn spread(self, [x, y, z]: [__m256; 3]) -> [[f32; 4]; 8] {
            let avx = self.avx;
            // Within each half (x0 y0 x1 y1) and (x2 y2 x3 y3), then a z to each pair.
            let (low, high) = (avx._mm256_unpacklo_ps(x, y), avx._mm256_unpackhi_ps(x, y));
            bytemuck::cast([
                avx._mm256_shuffle_ps::<0b00_00_01_00>(low, z),
                avx._mm256_shuffle_ps::<0b01_01_11_10>(low, z),
                avx._mm256_shuffle_ps::<0b10_10_01_00>(high, z),
                avx._mm256_shuffle_ps::<0b11_11_11_10>(high, z),
            ])
        }
        #[inline(always)]
        fn pairs(self, a: __m256, b: __m256) -> [u32; 8] {
            let (low, high) = (self.avx._mm256_cvtps_epi32(a), self.avx._mm256_cvtps_epi32(b));
            let high = self.avx2._mm256_slli_epi32::<16>(high);
            bytemuck::cast(self.avx2._mm256_blend_epi16::<0b10_10_10_10>(low, high))
        }
        #[inline(always)]
        fn splat_pair(self, pair: u32) -> [__m256i; 2] {
            [self.avx._mm256_set1_epi32(pair as i32); 2]
        }
        #[inline(always)]
        fn load_pairs(self, values: &Pairs) -> [__m256i; 2] {
            bytemuck::cast(values.0)
        }
        #[inline(always)]
        fn mul_pairs(self, a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
            [self.avx2._mm256_madd_epi16(a[0], b[0]), self.avx2._mm256_madd_epi16(a[1], b[1])]
        }
        #[inline(always)]
        fn mul_add_pairs(self, a: [__m256i; 2], b: [__m256i; 2], c: [__m256i; 2]) -> [__m256i; 2] {
            let products = self.mul_pairs(a, b);
            [self.avx2._mm256_add_epi32(c[0], products[0]), self.avx2._mm256_add_epi32(c[1], products[1])]
        }
        #[inline(always)]
        fn floats(self, values: [__m256i; 2]) -> [__m256; 2] {
            [self.avx._mm256_cvtepi32_ps(values[0]), self.avx._mm256_cvtepi32_ps(values[1])]
        }
        #[inline(always)]
        fn run<K: Kernel>(self, kernel: K) {
            self.vectorize(Compiled(self, kernel));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every operation on one row of awkward numbers, as arrays.
    struct Operations<'out>(&'out mut Vec<[f32; 8]>);

    impl Kernel for Operations<'_> {
        fn run<L: Lanes>(self, s: L) {
            let a = s.load(&Row([0.0, -0.0, 1.0, -2.5, 1e-18, 1e15, 3.0, 7.0]));
            let b = s.load(&Row([1.0, 0.5, -1.0, -2.5, 2.0, 1e10, 0.1, 1e-10]));
            let c = s.splat(0.25);
            let results = [
                s.add(a, b),
                s.sub(a, b),
                s.mul(a, b),
                s.div(a, b),
                s.sqrt(s.mul(a, a)),
                s.inverse_sqrt(s.mul(b, b)),
                s.mul_add(a, b, c),
                s.neg_mul_add(a, b, c),
                s.select_less(a, b, c, a),
            ];
            self.0.extend(results.map(|v| s.array(v)));
            // Times the root again: one, to within what the estimate promises; rounded to what both sets must agree on.
            let estimate = s.mul(s.inverse_sqrt_estimate(s.mul(b, b)), s.sqrt(s.mul(b, b)));
            assert!(s.array(estimate).iter().all(|one| (one - 1.0).abs() <= 3.7e-4));
            let eight = results[..8].try_into().unwrap_or([a; 8]);
            self.0.extend(s.transpose(eight).map(|v| s.array(v)));
            self.0.push(s.array(s.load_array(&s.array(b))));
            self.0.extend(s.unpack(&Packed([0, 1, -1, 70_000, -70_000, i32::MAX, i32::MIN, 7])).map(|v| s.array(v)));
            let awkward = [0, 1, -1, 181, 16_384, -16_385, 32_767, -32_767];
            let wholes = Pairs(std::array::from_fn(|l| [awkward[l % 8], awkward[(l + l / 8) % 8]]));
            let numbers = s.load(&Row([1.0, 32_767.0, -32_767.0, 16_384.4, -0.5, 0.5, 1.5, -77.7]));
            for pair in s.pairs(numbers, s.sub(c, numbers)) {
                let (pair, wholes) = (s.splat_pair(pair), s.load_pairs(&wholes));
                let products = s.mul_pairs(pair, wholes);
                for sums in [products, s.mul_add_pairs(pair, wholes, products)] {
                    self.0.extend(s.floats(sums).map(|v| s.array(v)));
                }
            }
            self.0.extend(s.spread([a, b, c]).map(|[x, y, z, _]| [x, y, z, 0.0, 0.0, 0.0, 0.0, 0.0]));
            self.0.extend(s.points([a, b, c]).map(|p| std::array::from_fn(|k| p.get(k).copied().unwrap_or(0.0))));
        }
    }

    #[test]
    fn all_instruction_sets_do_the_same() {
        let [mut plain, mut fast, mut pairs] = [Vec::new(), Vec::new(), Vec::new()];
        Instructions::Portable.run(Operations(&mut plain));
        Instructions::detect().run(Operations(&mut fast));
        Instructions::detect().run_pairs(Operations(&mut pairs));
        assert_eq!((fast.len(), pairs.len()), (plain.len(), plain.len()));
        for (row, (plain, fast)) in plain.iter().zip(&fast).chain(plain.iter().zip(&pairs)).enumerate() {
            for (p, f) in plain.iter().zip(fast) {
                // Fusing saves one rounding, half an ulp of the product.
                assert!((p - f).abs() <= 1e-6 * p.abs().max(1.0), "operation {row}: {p} and {f}");
            }
        }
    }

    #[test]
    fn packed_rows_stand_for_their_values() {
        let rows =
            [[0.0, 1.0, -1.0, 0.333, -0.001, 0.999_99, 1e-9, -0.5], [1.0, -1.0, 1.0, 0.0, 0.7, -1.0, -1e-9, 0.25]];
        let step = Packed::step(rows.as_flattened().iter().copied());
        let unpacked = Portable.unpack(&Packed::new(rows, [step; 8]));
        for (value, whole) in rows.as_flattened().iter().zip(unpacked.as_flattened()) {
            // Half of 1/32,767 of the largest, and the last bit of the quotient.
            assert!((value - f64::from(*whole) * step).abs() <= 1.6e-5, "{value}: {whole}");
        }
        assert_eq!(Packed::new([[0.0; 8]; 2], [Packed::step([0.0].into_iter()); 8]), Packed::default());
    }
}
