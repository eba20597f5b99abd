//! Multi-weights in f64, as the fit makes them.

use glam::{DAffine3, DVec3};
use rayon::prelude::*;

/// `v_i = c_i + Σ_b Σ_s u_b[i,s] T_b[i,s]`, T the skinning transforms in the root's frame.
#[derive(Debug, Clone, PartialEq)]
pub struct MultiWeights {
    /// The (bone, u) pairs of each vertex, (V), bones ascending; u is 3×4 row by row.
    pub vertices: Vec<Vec<(usize, [f64; 12])>>,
    /// The constant part, (V).
    pub constants: Vec<DVec3>,
}

impl MultiWeights {
    /// The vertices in a pose, (V); `transforms` (J) are root-relative.
    #[must_use]
    pub fn pose(&self, transforms: &[DAffine3]) -> Vec<DVec3> {
        let rows: Vec<[f64; 12]> = transforms.iter().map(rows).collect();
        let vertex = |(pairs, &constant): (&Vec<(usize, [f64; 12])>, &DVec3)| {
            let mut sum = constant.to_array();
            for (b, u) in pairs {
                for k in 0..12 {
                    sum[k / 4] += u[k] * rows[*b][k];
                }
            }
            DVec3::from_array(sum)
        };
        self.vertices.par_iter().zip(&self.constants).map(vertex).collect()
    }
}

/// A 3×4 matrix row by row.
pub(super) fn rows(transform: &DAffine3) -> [f64; 12] {
    let m = transform.matrix3;
    let columns = [m.x_axis, m.y_axis, m.z_axis, transform.translation].map(|c| c.to_array());
    std::array::from_fn(|k| columns[k % 4][k / 4])
}
