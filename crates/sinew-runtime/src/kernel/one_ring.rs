//! Vertex normals from the posed triangles, as in Wang, Pulli and Popović's GPU version ("Real-time enveloping with
//! rotational regression", 2007): `n_v ∝ Σ_{f ∋ v} (b − a) × (c − a)`, so that a triangle counts by its area.
//!
//! Their GPU walks each vertex's ring and computes every cross product three times. A processor core has memory to
//! keep the products, so they are computed once and then gathered.

use glam::Vec3A;

/// Which triangles meet at each vertex, and room for their normals.
#[derive(Debug, Clone)]
pub(crate) struct OneRing {
    /// Where each vertex's triangles start in `incident`, (V + 1).
    starts: Vec<u32>,
    /// Triangles by vertex, each vertex's ascending.
    incident: Vec<u32>,
    /// The cross product of each triangle, (F).
    products: Vec<Vec3A>,
}

impl OneRing {
    pub fn new(vertices: usize, triangles: &[[u32; 3]]) -> Self {
        let mut starts = vec![0_u32; vertices + 1];
        for &corner in triangles.as_flattened() {
            starts[corner as usize + 1] += 1;
        }
        for v in 0..vertices {
            starts[v + 1] += starts[v];
        }
        let mut next = starts.clone();
        let mut incident = vec![0; 3 * triangles.len()];
        for (f, triangle) in triangles.iter().enumerate() {
            for &corner in triangle {
                incident[next[corner as usize] as usize] = f as u32;
                next[corner as usize] += 1;
            }
        }
        Self { starts, incident, products: vec![Vec3A::ZERO; triangles.len()] }
    }

    /// The normals of `positions`, (V); 0 where no triangle has area.
    pub fn normals(&mut self, triangles: &[[u32; 3]], positions: &[[f32; 3]], normals: &mut [[f32; 3]]) {
        for (product, corners) in self.products.iter_mut().zip(triangles) {
            let [a, b, c] = corners.map(|v| Vec3A::from_array(positions[v as usize]));
            *product = (b - a).cross(c - a);
        }
        for (v, normal) in normals.iter_mut().enumerate() {
            let ring = &self.incident[self.starts[v] as usize..self.starts[v + 1] as usize];
            let sum = ring.iter().fold(Vec3A::ZERO, |sum, &f| sum + self.products[f as usize]);
            *normal = sum.normalize_or_zero().to_array();
        }
    }
}
