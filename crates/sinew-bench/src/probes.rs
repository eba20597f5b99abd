//! What this machine can do: multiply-adds a second and bytes a second, measured in the same run as everything else.

/// Fused multiply-adds in flight in [`multiply_adds`]: enough independent chains to hide their latency (4 cycles × 2
/// pipes on current cores) with registers to spare.
const CHAINS: usize = 12;

/// Runs 8-lane multiply-adds from registers; returns how many multiply-adds that were, lanes counted.
#[must_use]
pub fn multiply_adds(steps: usize) -> u64 {
    let sum = vectorized(Fma { steps });
    std::hint::black_box(sum);
    (steps * CHAINS * 8) as u64
}

/// Reads all of `from` and writes the same number of floats to `to`, the way a kernel streams its data; returns the
/// bytes moved, reads and writes.
pub fn stream(from: &[f32], to: &mut [f32]) -> u64 {
    vectorized(Stream { from, to });
    (from.len().min(to.len()) * 8) as u64
}

fn vectorized<F: pulp::NullaryFnOnce>(work: F) -> F::Output {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = pulp::x86::V3::try_new() {
        return simd.vectorize(work);
    }
    work.call()
}

struct Fma {
    steps: usize,
}

impl pulp::NullaryFnOnce for Fma {
    type Output = f32;

    #[inline(always)]
    fn call(self) -> f32 {
        // black_box keeps the compiler from knowing the factors; values stay near one, far from denormals.
        let (a, b) = (std::hint::black_box([0.999_f32; 8]), std::hint::black_box([0.001_f32; 8]));
        let mut chains = [[1.0_f32; 8]; CHAINS];
        for _ in 0..self.steps {
            for chain in &mut chains {
                for lane in 0..8 {
                    chain[lane] = chain[lane].mul_add(a[lane], b[lane]);
                }
            }
        }
        chains.as_flattened().iter().sum()
    }
}

struct Stream<'a> {
    from: &'a [f32],
    to: &'a mut [f32],
}

impl pulp::NullaryFnOnce for Stream<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (to, from) in self.to.iter_mut().zip(self.from) {
            *to = from + 1.0;
        }
    }
}
