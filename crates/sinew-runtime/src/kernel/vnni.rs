//! Sixteen lanes of pairs in one register of 512 bits, and one instruction that multiplies two numbers a lane by two
//! others and adds both products to a third: AVX-512 with VNNI (Ice Lake, Zen 4 and later). Only `turn` asks for it; all
//! else is AVX2's.
//!
//! The one place with `unsafe`: pulp has no token for these instructions that would not have faer use AVX-512 too and
//! fits end in other bits. A [`Vnni`] is the proof that the processor has them, as pulp's tokens are; its twins are the
//! other two [`Lanes`].

use core::arch::x86_64::{
    __m256, __m512i, _mm512_castps512_ps256, _mm512_cvtepi32_ps, _mm512_dpwssd_epi32, _mm512_extractf32x8_ps,
    _mm512_load_si512, _mm512_madd_epi16, _mm512_set1_epi32,
};

use pulp::x86::V3;

use super::lanes::{Kernel, Lanes, Packed, Pairs, Row};

/// Made by [`Vnni::try_new`] only: the processor has every feature of [`compiled`].
#[derive(Clone, Copy)]
pub(super) struct Vnni(V3);

impl Vnni {
    /// Nothing if the processor lacks any of the instructions.
    pub fn try_new() -> Option<Self> {
        let has = std::is_x86_feature_detected!("avx512f")
            && std::is_x86_feature_detected!("avx512vl")
            && std::is_x86_feature_detected!("avx512bw")
            && std::is_x86_feature_detected!("avx512dq")
            && std::is_x86_feature_detected!("avx512vnni");
        V3::try_new().filter(|_| has).map(Self)
    }
}

/// A kernel with these instructions; everything that it calls is inlined.
#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt,avx512f,avx512vl,avx512bw,avx512dq,avx512vnni")]
fn compiled<K: Kernel>(lanes: Vnni, kernel: K) {
    // Aligns the stack, as for AVX2.
    std::hint::black_box(&Row::default());
    kernel.run(lanes);
}

/// Methods that are AVX2's.
macro_rules! as_avx2 {
    ($($name:ident($($argument:ident: $of:ty),*) -> $result:ty;)*) => {
        $(#[inline(always)]
        fn $name(self, $($argument: $of),*) -> $result {
            self.0.$name($($argument),*)
        })*
    };
}

impl Lanes for Vnni {
    type V = __m256;
    type Pairs = __m512i;
    type Wholes = __m512i;

    as_avx2! {
        splat(value: f32) -> __m256;
        load(row: &Row) -> __m256;
        load_array(values: &[f32; 8]) -> __m256;
        unpack(rows: &Packed) -> [__m256; 2];
        transpose(rows: [__m256; 8]) -> [__m256; 8];
        array(v: __m256) -> [f32; 8];
        add(a: __m256, b: __m256) -> __m256;
        sub(a: __m256, b: __m256) -> __m256;
        mul(a: __m256, b: __m256) -> __m256;
        div(a: __m256, b: __m256) -> __m256;
        sqrt(a: __m256) -> __m256;
        inverse_sqrt_estimate(a: __m256) -> __m256;
        inverse_sqrt(a: __m256) -> __m256;
        mul_add(a: __m256, b: __m256, c: __m256) -> __m256;
        neg_mul_add(a: __m256, b: __m256, c: __m256) -> __m256;
        select_less(a: __m256, b: __m256, yes: __m256, no: __m256) -> __m256;
        all_less(a: __m256, b: __m256) -> bool;
        points(rows: [__m256; 3]) -> [[f32; 3]; 8];
        point_halves(rows: [__m256; 3]) -> [[[f32; 3]; 4]; 2];
        spread(rows: [__m256; 3]) -> [[f32; 4]; 8];
        pairs(a: __m256, b: __m256) -> [u32; 8];
    }

    #[inline(always)]
    fn splat_pair(self, pair: u32) -> __m512i {
        // SAFETY: `self` proves that the processor has AVX-512 F.
        unsafe { _mm512_set1_epi32(pair as i32) }
    }
    #[inline(always)]
    fn load_pairs(self, values: &Pairs) -> __m512i {
        // SAFETY: as above; `Pairs` is 64 bytes that stand at a multiple of 64.
        unsafe { _mm512_load_si512(std::ptr::from_ref(values).cast()) }
    }
    #[inline(always)]
    fn mul_pairs(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves that the processor has AVX-512 BW.
        unsafe { _mm512_madd_epi16(a, b) }
    }
    #[inline(always)]
    fn mul_add_pairs(self, a: __m512i, b: __m512i, c: __m512i) -> __m512i {
        // SAFETY: `self` proves that the processor has AVX-512 VNNI.
        unsafe { _mm512_dpwssd_epi32(c, a, b) }
    }
    #[inline(always)]
    fn floats(self, values: __m512i) -> [__m256; 2] {
        // SAFETY: `self` proves that the processor has AVX-512 F and DQ.
        unsafe {
            let floats = _mm512_cvtepi32_ps(values);
            [_mm512_castps512_ps256(floats), _mm512_extractf32x8_ps::<1>(floats)]
        }
    }
    #[inline(always)]
    fn run<K: Kernel>(self, kernel: K) {
        // SAFETY: `self` proves that the processor has every feature that `compiled` enables.
        unsafe { compiled(self, kernel) }
    }
}
