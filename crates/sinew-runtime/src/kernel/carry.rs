//! Vertices carried on by linear blend skinning on their way out: `v ← Σ_b w_b X_b v`, a register at a time, between the kernel that
//! poses it and where it goes. Registers that no transform moves pass as they are.

use super::blocks::Eight;
use super::lanes::{Lanes, Row};
use super::{Matrix, Put};
use crate::Skin;

/// Weights, register by register.
#[derive(Debug, Clone)]
pub(crate) struct CarrySkin {
    /// Where each register's joints start, and where the last one's end, (R + 1).
    starts: Vec<u32>,
    joints: Vec<u32>,
    /// A weight for every joint of every register.
    weights: Vec<Row>,
}

impl CarrySkin {
    /// Lays `skin` out for the registers `eights`, in the order in which they are put.
    pub fn new(skin: &Skin, eights: &[Eight]) -> Self {
        let mut all = Self { starts: vec![0], joints: Vec::new(), weights: Vec::new() };
        for eight in eights {
            let vertices = eight.vertices.map(|v| v as usize);
            let mut joints: Vec<u32> = vertices.iter().flat_map(|&v| skin.vertex(v).map(|(b, _)| b as u32)).collect();
            joints.sort_unstable();
            joints.dedup();
            for &joint in &joints {
                let own = |v: usize| skin.vertex(v).filter(|pair| pair.0 == joint as usize).map(|pair| pair.1).sum();
                all.weights.push(Row(vertices.map(own)));
            }
            all.joints.extend(joints);
            all.starts.push(u32::try_from(all.joints.len()).expect("fewer than 2³² joint uses"));
        }
        all
    }
}

/// What vertices are carried on by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Excess<'a> {
    /// X_b, (J).
    pub transforms: &'a [Matrix],
    /// Which of them move nothing, (J).
    pub still: &'a [bool],
}

/// Carries vertices on before `put` takes them.
pub(crate) struct CarriedOn<'a, P> {
    pub skin: &'a CarrySkin,
    pub excess: Excess<'a>,
    /// The register that comes next.
    pub next: usize,
    pub put: P,
}

impl<P> CarriedOn<'_, P> {
    #[inline(always)]
    fn carried<L: Lanes>(&mut self, s: L, [x, y, z]: [L::V; 3]) -> [L::V; 3] {
        let [start, end] = [self.next, self.next + 1].map(|at| self.skin.starts[at] as usize);
        self.next += 1;
        let joints = &self.skin.joints[start..end];
        let Excess { transforms, still } = self.excess;
        if joints.iter().all(|&b| still[b as usize]) {
            return [x, y, z];
        }
        let mut sums = [s.splat(0.0); 3];
        for (&b, weights) in joints.iter().zip(&self.skin.weights[start..end]) {
            let (m, w) = (&transforms[b as usize].0, s.load(weights));
            if still[b as usize] {
                sums = [s.mul_add(w, x, sums[0]), s.mul_add(w, y, sums[1]), s.mul_add(w, z, sums[2])];
                continue;
            }
            let [wx, wy, wz] = [s.mul(w, x), s.mul(w, y), s.mul(w, z)];
            for row in 0..3 {
                let near = s.mul_add(s.splat(m[4 * row]), wx, s.mul_add(s.splat(m[4 * row + 1]), wy, sums[row]));
                sums[row] = s.mul_add(s.splat(m[4 * row + 2]), wz, s.mul_add(s.splat(m[4 * row + 3]), w, near));
            }
        }
        sums
    }
}

impl<P: Put> Put for CarriedOn<'_, P> {
    #[inline(always)]
    fn put_row<L: Lanes>(&mut self, s: L, eight: &Eight, rows: [L::V; 3]) {
        let rows = self.carried(s, rows);
        self.put.put_row(s, eight, rows);
    }
    #[inline(always)]
    fn put_halves<L: Lanes>(&mut self, s: L, eight: &Eight, rows: [L::V; 3]) {
        let rows = self.carried(s, rows);
        self.put.put_halves(s, eight, rows);
    }
    #[inline(always)]
    fn put_scattered<L: Lanes>(&mut self, s: L, eight: &Eight, rows: [L::V; 3]) {
        let rows = self.carried(s, rows);
        self.put.put_scattered(s, eight, rows);
    }
    #[inline(always)]
    fn put<L: Lanes>(&mut self, s: L, eight: &Eight, rows: [L::V; 3]) {
        let rows = self.carried(s, rows);
        self.put.put(s, eight, rows);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Scatter;
    use super::super::lanes::Instructions;
    use super::super::points::{PointSkin, Points};
    use super::*;

    const STILL: Matrix = Matrix([1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0]);

    #[test]
    fn vertices_are_carried_as_the_plain_sum_does_whatever_their_number_and_order() {
        // Whole numbers and quarters: every sum is exact, in whichever order.
        let moved = |b: usize| Matrix(std::array::from_fn(|k| ((b * 5 + k * 3) % 11) as f32 - 5.0));
        let transforms: Vec<Matrix> = (0..6).map(|b| if b < 3 { STILL } else { moved(b) }).collect();
        let still: Vec<bool> = (0..6).map(|b| b < 3).collect();
        let excess = Excess { transforms: &transforms, still: &still };
        for count in [1, 2, 3, 7, 8, 9, 16, 41, 200] {
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
                    let m = &transforms[b].0[4 * row..][..4];
                    m[0] * x + m[1] * y + m[2] * z + m[3]
                };
                std::array::from_fn(|row| skin.vertex(v).map(|(b, w)| w * term(row, b)).sum())
            };
            let plain: Vec<[f32; 3]> = (0..count).map(carried).collect();
            // Where they are, drawn by four entries that stand still: even blocks and ragged ones, rows and scattered ones.
            let entries = |v: usize| [[0, 1], [2, 3], [0, 3]][(v / 9) % 3];
            let halves = |v: usize| entries(v).map(|entry| (entry, [0.5, 0.5, 0.5, 0.5]));
            let drawn = |v: usize| {
                let [x, y, z] = start[v];
                halves(v).map(|(entry, [a, b, c, w])| (entry, [a * x, b * y, c * z, w]))
            };
            let points = PointSkin::new(count, drawn, &[]);
            let laid_out = CarrySkin::new(&skin, points.blocks.eights.as_flattened());
            for instructions in [Instructions::Portable, Instructions::detect()] {
                let mut positions = vec![[f32::NAN; 3]; count];
                for blocks in [0..points.blocks.len() / 2, points.blocks.len() / 2..points.blocks.len()] {
                    let next = 2 * blocks.start;
                    let put = CarriedOn { skin: &laid_out, excess, next, put: Scatter(&mut positions) };
                    instructions.run(Points { skin: &points, palette: &[STILL; 4], blocks, put });
                }
                assert_eq!(positions, plain, "{count} vertices");
            }
        }
    }
}
