//! The fast kernels: eight vertices at a time, each with a plain twin (see [`lanes`]).
//!
//! | file | what it computes for a block of eight vertices |
//! |---|---|
//! | `blend` | linear blend skinning, positions and palette normals |
//! | `points` | `Σ_b T_b h_b`: linear blend skinning and animation space (4 numbers a joint), multi-weight enveloping (12) |
//! | `dual` | dual quaternion skinning |
//! | `turn` | palette normals alone, of sixteen vertices: animation space, multi-weight enveloping, dual quaternions |
//! | `regress` | rotational regression, from bones to proxy bones |
//! | `predict` | its predictors |
//! | `hold` | poses beyond its trained ranges |
//! | `draw` | proxy bones from gradients and bones, four proxies at a time |
//! | `follow` | proxy bones of a distilled regression, two at a time |
//! | `carry` | vertices carried on beyond the trained ranges by linear blend skinning |
//! | `correct` | corrections of proxy bones |
//! | `examples` | how much each example pose of a correction has to say |
//! | `terms` | polynomials of joint rotations |
//! | `rotation` | rotations: nearest, quaternion, logarithm, exponential |
//! | `one_ring` | normals from the posed triangles |
//! | `lanes` | the eight lanes, as AVX2 + FMA and as plain arrays |
//! | `vnni` | the same with AVX-512's products of pairs, for `turn` |
//! | `blocks` | which eight vertices stand together |

pub(crate) mod blend;
pub(crate) mod blocks;
pub(crate) mod carry;
pub(crate) mod correct;
mod draw;
pub(crate) mod dual;
mod examples;
mod follow;
mod hold;
pub(crate) mod lanes;
pub(crate) mod one_ring;
pub(crate) mod points;
mod predict;
pub(crate) mod regress;
mod rotation;
mod terms;
pub(crate) mod turn;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod vnni;

use blocks::{Eight, HALF, LANES, Lie};
use glam::{Affine3A, Vec4};
use lanes::{Lanes, SPREAD};

/// A 3×4 matrix row by row: what a palette is made of. One cache line each.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[repr(C, align(64))]
pub(crate) struct Matrix(pub [f32; 12]);

/// Where a kernel's eight points go. A trait and not a closure because it must be inlined into the kernel: otherwise the
/// points travel through memory.
pub(crate) trait Put {
    /// Takes the coordinates of these vertices, a row of lanes each; they follow each other.
    fn put_row<L: Lanes>(&mut self, lanes: L, eight: &Eight, rows: [L::V; 3]);
    /// The same of vertices of which the first four follow each other, and so do the others.
    fn put_halves<L: Lanes>(&mut self, lanes: L, eight: &Eight, rows: [L::V; 3]);
    /// The same of vertices that lie anywhere.
    fn put_scattered<L: Lanes>(&mut self, lanes: L, eight: &Eight, rows: [L::V; 3]);
    /// The same of any.
    #[inline(always)]
    fn put<L: Lanes>(&mut self, lanes: L, eight: &Eight, rows: [L::V; 3]) {
        match eight.lie {
            Lie::Row => self.put_row(lanes, eight, rows),
            Lie::Halves => self.put_halves(lanes, eight, rows),
            Lie::Scattered => self.put_scattered(lanes, eight, rows),
        }
    }
}

/// To the vertices' places in the caller's order.
pub(crate) struct Scatter<'out>(pub &'out mut [[f32; 3]]);

impl Put for Scatter<'_> {
    #[inline(always)]
    fn put_row<L: Lanes>(&mut self, lanes: L, eight: &Eight, rows: [L::V; 3]) {
        let first = eight.vertices[0] as usize;
        self.0[first..first + LANES].copy_from_slice(&lanes.points(rows));
    }
    #[inline(always)]
    fn put_halves<L: Lanes>(&mut self, lanes: L, eight: &Eight, rows: [L::V; 3]) {
        let [first, second] = [eight.vertices[0] as usize, eight.vertices[HALF] as usize];
        let halves = lanes.point_halves(rows);
        self.0[first..first + HALF].copy_from_slice(&halves[0]);
        self.0[second..second + HALF].copy_from_slice(&halves[1]);
    }
    // Two stores a vertex. Tried and not faster: one store of four numbers, the next vertex's x kept; (x, y) and (y, z) from
    // the halves of a register; neighbours written in pairs, whose eights visit more joints.
    #[inline(always)]
    fn put_scattered<L: Lanes>(&mut self, lanes: L, eight: &Eight, rows: [L::V; 3]) {
        for (&lane, [x, y, z, _]) in SPREAD.iter().zip(lanes.spread(rows)) {
            self.0[eight.vertices[lane] as usize] = [x, y, z];
        }
    }
}

impl Matrix {
    /// `a b`, a row at a time: row i is Σ_k a_ik (row k of b). Nothing need be transposed, which the product of two
    /// [`Affine3A`] would take longer for than for multiplying; the sums are the same to the bit.
    #[inline]
    pub fn product(a: &Affine3A, b: &Self) -> Self {
        let [p, q, r] = [0, 4, 8].map(|k| Vec4::from_slice(&b.0[k..k + 4]));
        let (x, y, z, t) = (a.matrix3.x_axis, a.matrix3.y_axis, a.matrix3.z_axis, a.translation);
        let row = |i: usize| p * x[i] + q * y[i] + r * z[i] + Vec4::new(0.0, 0.0, 0.0, t[i]);
        let mut product = Self::default();
        for i in 0..3 {
            row(i).write_to_slice(&mut product.0[4 * i..]);
        }
        product
    }
}

impl From<&Affine3A> for Matrix {
    #[inline]
    fn from(transform: &Affine3A) -> Self {
        let (m, t) = (&transform.matrix3, transform.translation);
        let ([a, d, g], [b, e, h], [c, f, i]) = (m.x_axis.to_array(), m.y_axis.to_array(), m.z_axis.to_array());
        Self([a, b, c, t.x, d, e, f, t.y, g, h, i, t.z])
    }
}

impl From<&Matrix> for Affine3A {
    #[inline]
    fn from(matrix: &Matrix) -> Self {
        let [a, b, c, x, d, e, f, y, g, h, i, z] = matrix.0;
        Self::from_cols_array(&[a, d, g, b, e, h, c, f, i, x, y, z])
    }
}
