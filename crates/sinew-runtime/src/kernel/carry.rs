//! Vertices carried on by linear blend skinning from where they are: `v ← Σ_b w_b X_b v`, eight at a time. Registers that no
//! transform moves are passed over.

use super::blocks::{Blocks, JOINT, LANES};
use super::lanes::{Kernel, Lanes, Row};
use super::{Matrix, Put, Scatter};
use crate::Skin;

/// Weights in blocks.
#[derive(Debug, Clone)]
pub(crate) struct CarrySkin {
    blocks: Blocks<1>,
    /// A weight for every joint of every block.
    weights: Vec<[Row; 1]>,
}

impl CarrySkin {
    pub fn new(skin: &Skin) -> Self {
        let blocks: Blocks<1> = Blocks::new(skin.vertex_count(), JOINT, |v| skin.vertex(v).map(|(joint, _)| joint));
        let weight = |v: usize, joint: usize| skin.vertex(v).filter(|pair| pair.0 == joint).map(|pair| pair.1).sum();
        Self { weights: blocks.rows(weight), blocks }
    }
}

/// The kernel.
pub(crate) struct CarriedOn<'a> {
    pub skin: &'a CarrySkin,
    /// X_b, (J).
    pub excess: &'a [Matrix],
    pub positions: &'a mut [[f32; 3]],
}

const STILL: Matrix = Matrix([1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0]);

impl Kernel for CarriedOn<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, s: L) {
        let Self { skin, excess, positions } = self;
        for ([eight], slots) in skin.blocks.iter(0..skin.blocks.len()) {
            let joints = &skin.blocks.joints[slots.clone()];
            if joints.iter().all(|&b| excess[b as usize] == STILL) {
                continue;
            }
            let [x, y, z] = read(s, positions.as_flattened(), &eight.vertices);
            let mut sums = [s.splat(0.0); 3];
            for (&b, [weights]) in joints.iter().zip(&skin.weights[slots]) {
                let (m, w) = (&excess[b as usize].0, s.load(weights));
                let [wx, wy, wz] = [s.mul(w, x), s.mul(w, y), s.mul(w, z)];
                for row in 0..3 {
                    let entry = |column: usize| s.splat(m[4 * row + column]);
                    let near = s.mul_add(entry(0), wx, s.mul_add(entry(1), wy, sums[row]));
                    sums[row] = s.mul_add(entry(2), wz, s.mul_add(entry(3), w, near));
                }
            }
            Scatter(positions).put(s, eight, sums);
        }
    }
}

/// The coordinates of eight vertices. Each is read with five numbers more, which is less than gathering single numbers takes.
#[inline(always)]
fn read<L: Lanes>(s: L, numbers: &[f32], vertices: &[u32; LANES]) -> [L::V; 3] {
    let mut rows = [s.splat(0.0); LANES];
    for (row, &v) in rows.iter_mut().zip(vertices) {
        let own = &numbers[3 * v as usize..];
        *row = match own.first_chunk::<LANES>() {
            Some(own) => s.load_array(own),
            // One of the last two vertices.
            None => s.load_array(&std::array::from_fn(|k| own.get(k).copied().unwrap_or(0.0))),
        };
    }
    let [x, y, z, ..] = s.transpose(rows);
    [x, y, z]
}

#[cfg(test)]
mod tests {
    use super::super::lanes::Instructions;
    use super::*;

    #[test]
    fn vertices_are_carried_as_the_plain_sum_does_whatever_their_number() {
        // Whole numbers and quarters: every sum is exact, in whichever order.
        let moved = |b: usize| Matrix(std::array::from_fn(|k| ((b * 5 + k * 3) % 11) as f32 - 5.0));
        let excess: Vec<Matrix> = (0..6).map(|b| if b < 3 { STILL } else { moved(b) }).collect();
        for count in [1, 2, 3, 7, 8, 9, 16, 41] {
            let joints = |v: usize| [(v / 3) % 6, (v / 5 + 1) % 6];
            let skin = Skin {
                width: 2,
                joints: (0..count).flat_map(joints).map(|b| b as u16).collect(),
                weights: (0..count).flat_map(|v| [0.25 * (v % 4) as f32, 1.0 - 0.25 * (v % 4) as f32]).collect(),
            };
            let start: Vec<[f32; 3]> = (0..count).map(|v| [v as f32, 3.0 - v as f32, (v * 7 % 5) as f32]).collect();
            let carried = |v: usize| -> [f32; 3] {
                let [x, y, z] = start[v];
                let term = |row: usize, b: usize| {
                    let m = &excess[b].0[4 * row..][..4];
                    m[0] * x + m[1] * y + m[2] * z + m[3]
                };
                std::array::from_fn(|row| skin.vertex(v).map(|(b, w)| w * term(row, b)).sum())
            };
            let plain: Vec<[f32; 3]> = (0..count).map(carried).collect();
            let laid_out = CarrySkin::new(&skin);
            for instructions in [Instructions::Portable, Instructions::detect()] {
                let mut positions = start.clone();
                instructions.run(CarriedOn { skin: &laid_out, excess: &excess, positions: &mut positions });
                assert_eq!(positions, plain, "{count} vertices");
            }
        }
    }
}
