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
            let mut places = [[0.0; LANES]; 3];
            for (lane, &v) in eight.vertices.iter().enumerate() {
                let position = positions[v as usize];
                for k in 0..3 {
                    places[k][lane] = position[k];
                }
            }
            let [x, y, z] = [s.load_array(&places[0]), s.load_array(&places[1]), s.load_array(&places[2])];
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
