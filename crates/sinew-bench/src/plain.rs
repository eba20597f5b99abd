//! The loop that everyone writes first, as in Eigen: blend the matrices of a vertex, then transform it.
//!
//! Compiled for AVX2 and FMA like our kernels, so that the comparison is of arrangement, not of instructions. Columns
//! of four floats, as `Eigen::Affine3f` and glam keep them; multiply-adds are written out because Rust, unlike a C++
//! compiler at its default, does not contract them by itself.

use sinew_runtime::Skin;

/// A 4×4 matrix by columns, the fourth row unused.
pub type Columns = [[f32; 4]; 4];

/// Poses every vertex; `palette` (J), `rest` and `out` (V). The number of influences is known to the compiler up to 8,
/// as it would be in an engine.
pub fn linear_blend(skin: &Skin, palette: &[Columns], rest: &[[f32; 3]], out: &mut [[f32; 3]]) {
    match skin.width {
        1 => run::<1>(skin, palette, rest, out),
        2 => run::<2>(skin, palette, rest, out),
        3 => run::<3>(skin, palette, rest, out),
        4 => run::<4>(skin, palette, rest, out),
        5 => run::<5>(skin, palette, rest, out),
        6 => run::<6>(skin, palette, rest, out),
        7 => run::<7>(skin, palette, rest, out),
        8 => run::<8>(skin, palette, rest, out),
        width => panic!("the plain loop is compiled for 1 to 8 influences, not {width}"),
    }
}

fn run<const K: usize>(skin: &Skin, palette: &[Columns], rest: &[[f32; 3]], out: &mut [[f32; 3]]) {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = pulp::x86::V3::try_new() {
        simd.vectorize(Loop::<K> { simd, skin, palette, rest, out });
        return;
    }
    portable::<K>(skin, palette, rest, out);
}

/// As Eigen vectorises it: a matrix is two registers of eight, blended whole; then its columns, registers of four.
#[cfg(target_arch = "x86_64")]
struct Loop<'a, const K: usize> {
    simd: pulp::x86::V3,
    skin: &'a Skin,
    palette: &'a [Columns],
    rest: &'a [[f32; 3]],
    out: &'a mut [[f32; 3]],
}

#[cfg(target_arch = "x86_64")]
impl<const K: usize> pulp::NullaryFnOnce for Loop<'_, K> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let s = self.simd;
        let joints = self.skin.joints.as_chunks::<K>().0;
        let weights = self.skin.weights.as_chunks::<K>().0;
        for (((joints, weights), rest), out) in joints.iter().zip(weights).zip(self.rest).zip(self.out) {
            let mut m = [s.splat_f32x8(0.0); 2];
            for k in 0..K {
                let matrix: [pulp::f32x8; 2] = pulp::cast(self.palette[joints[k] as usize]);
                let w = s.splat_f32x8(weights[k]);
                m = [s.mul_add_f32x8(w, matrix[0], m[0]), s.mul_add_f32x8(w, matrix[1], m[1])];
            }
            let [a, b, c, t]: [pulp::f32x4; 4] = pulp::cast(m);
            let [x, y, z] = rest.map(|coordinate| s.splat_f32x4(coordinate));
            let p = s.mul_add_f32x4(a, x, s.mul_add_f32x4(b, y, s.mul_add_f32x4(c, z, t)));
            *out = [p.0, p.1, p.2];
        }
    }
}

/// The same without the instructions.
fn portable<const K: usize>(skin: &Skin, palette: &[Columns], rest: &[[f32; 3]], out: &mut [[f32; 3]]) {
    let rows = skin.joints.as_chunks::<K>().0.iter().zip(skin.weights.as_chunks::<K>().0);
    for (((joints, weights), rest), out) in rows.zip(rest).zip(out) {
        let mut m = [[0.0_f32; 4]; 4];
        for k in 0..K {
            let matrix = &palette[joints[k] as usize];
            m = std::array::from_fn(|c| std::array::from_fn(|r| m[c][r] + weights[k] * matrix[c][r]));
        }
        let [x, y, z] = *rest;
        *out = std::array::from_fn(|r| m[0][r] * x + m[1][r] * y + m[2][r] * z + m[3][r]);
    }
}
