//! The Poisson equation of a mesh (Wang, thesis 2007, sections 3.1 and 3.2): vertices whose edges agree with given
//! gradients as well as they can.
//!
//!   minimise Σ_k Σ_{(i,j) ∈ k} ‖ D_k ê_ij − (y_i − y_j) ‖²,   y_a given for a in F
//!
//! All three edges of a triangle count (the thesis takes two), so that the order of its vertices does not matter. The matrix
//! does not depend on the pose: it is factored once, and a pose costs a back-substitution.

use glam::{DMat3, DVec3};

use crate::geometry::topology::Topology;
use crate::solve::sparse_cholesky::{NotDefinite, SparseFactor, nested_dissection};

/// The factored equation of a mesh with some vertices held.
#[derive(Debug, Clone)]
pub struct Poisson {
    /// The vertices that are solved for, ascending.
    pub free: Vec<usize>,
    /// The factor over `free`.
    pub factor: SparseFactor,
    triangles: Vec<[u32; 3]>,
    rest: Vec<DVec3>,
}

impl Poisson {
    /// Factors the equation of `triangles` over `rest` (V) with the vertices `held` (V) given. Vertices without triangles
    /// must be held, and one of every connected piece, or the matrix is singular.
    pub fn new(
        rest: &[DVec3],
        triangles: &[[u32; 3]],
        topology: &Topology,
        held: &[bool],
    ) -> Result<Self, NotDefinite> {
        let free: Vec<usize> = (0..rest.len()).filter(|&v| !held[v]).collect();
        let mut index = vec![usize::MAX; rest.len()];
        free.iter().enumerate().for_each(|(k, &v)| index[v] = k);
        let mut matrix: Vec<Vec<(usize, f64)>> = (0..free.len()).map(|k| vec![(k, 0.0)]).collect();
        for &[a, b, c] in triangles {
            for (i, j) in [(a, b), (b, c), (c, a)].map(|(i, j)| (i as usize, j as usize)) {
                for (i, j) in [(i, j), (j, i)] {
                    if i == j || held[i] {
                        continue;
                    }
                    let row = &mut matrix[index[i]];
                    row[0].1 += 1.0;
                    if held[j] {
                        continue;
                    }
                    match row.iter_mut().find(|(column, _)| *column == index[j]) {
                        Some((_, value)) => *value -= 1.0,
                        None => row.push((index[j], -1.0)),
                    }
                }
            }
        }
        let order = nested_dissection(&free, &topology.vertex_vertices, rest);
        let factor = SparseFactor::new(&matrix, order)
            .map_err(|NotDefinite { unknown }| NotDefinite { unknown: free[unknown] })?;
        Ok(Self { free, factor, triangles: triangles.to_vec(), rest: rest.to_vec() })
    }

    /// The vertices, (V), for gradients (F); `positions` holds the given vertices and receives the others.
    pub fn solve(&self, gradients: &[DMat3], positions: &mut [DVec3]) {
        let mut held = vec![true; positions.len()];
        self.free.iter().for_each(|&v| held[v] = false);
        let mut right = vec![DVec3::ZERO; positions.len()];
        for (&triangle, &d) in self.triangles.iter().zip(gradients) {
            for k in 0..3 {
                let (i, j) = (triangle[k] as usize, triangle[(k + 1) % 3] as usize);
                let edge = d * (self.rest[i] - self.rest[j]);
                right[i] += edge;
                right[j] -= edge;
                if i != j {
                    right[i] += if held[j] { positions[j] } else { DVec3::ZERO };
                    right[j] += if held[i] { positions[i] } else { DVec3::ZERO };
                }
            }
        }
        let mut solution: Vec<DVec3> = self.free.iter().map(|&v| right[v]).collect();
        self.factor.solve(&mut solution);
        self.free.iter().zip(solution).for_each(|(&v, y)| positions[v] = y);
    }
}
