//! Who touches whom on a triangle mesh.

/// Lists of indices, one a row, in one allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adjacency {
    /// Where each row starts, (rows + 1).
    starts: Vec<usize>,
    /// The rows, one after the other, each ascending and without repeats.
    items: Vec<usize>,
}

impl Adjacency {
    /// Row `row` holds every second member of the `pairs` whose first member is `row`.
    #[must_use]
    pub fn from_pairs(rows: usize, pairs: &mut Vec<(usize, usize)>) -> Self {
        pairs.sort_unstable();
        pairs.dedup();
        let mut starts = vec![0; rows + 1];
        for &(row, _) in pairs.iter() {
            starts[row + 1] += 1;
        }
        for row in 0..rows {
            starts[row + 1] += starts[row];
        }
        Self { starts, items: pairs.iter().map(|&(_, item)| item).collect() }
    }

    /// The indices of `row`.
    #[must_use]
    pub fn row(&self, row: usize) -> &[usize] {
        &self.items[self.starts[row]..self.starts[row + 1]]
    }

    /// The number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Everything within `rings` steps of `start`, `start` itself included, ascending.
    #[must_use]
    pub fn within(&self, start: usize, rings: usize) -> Vec<usize> {
        let mut found = vec![start];
        let mut front = 0..1;
        for _ in 0..rings {
            let end = found.len();
            for index in front.clone() {
                for &next in self.row(found[index]) {
                    if !found.contains(&next) {
                        found.push(next);
                    }
                }
            }
            front = end..found.len();
        }
        found.sort_unstable();
        found
    }
}

/// Adjacency of a mesh's vertices and triangles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// The triangles at each vertex, (V).
    pub vertex_faces: Adjacency,
    /// The vertices that share an edge with each vertex, (V).
    pub vertex_vertices: Adjacency,
    /// The triangles that share an edge with each triangle, (F). Open and non-manifold meshes are welcome.
    pub face_faces: Adjacency,
}

impl Topology {
    /// The adjacency of `triangles` over `vertices` vertices. Triangles that name a vertex twice touch nothing by that edge.
    #[must_use]
    pub fn new(vertices: usize, triangles: &[[u32; 3]]) -> Self {
        let mut vertex_faces = Vec::with_capacity(3 * triangles.len());
        let mut vertex_vertices = Vec::with_capacity(6 * triangles.len());
        let mut edges = Vec::with_capacity(3 * triangles.len());
        for (f, triangle) in triangles.iter().enumerate() {
            for k in 0..3 {
                let (a, b) = (triangle[k] as usize, triangle[(k + 1) % 3] as usize);
                vertex_faces.push((a, f));
                if a != b {
                    vertex_vertices.push((a, b));
                    vertex_vertices.push((b, a));
                    edges.push(((a.min(b), a.max(b)), f));
                }
            }
        }
        Self {
            vertex_faces: Adjacency::from_pairs(vertices, &mut vertex_faces),
            vertex_vertices: Adjacency::from_pairs(vertices, &mut vertex_vertices),
            face_faces: Adjacency::from_pairs(triangles.len(), &mut faces_over_edges(edges)),
        }
    }
}

fn faces_over_edges(mut edges: Vec<((usize, usize), usize)>) -> Vec<(usize, usize)> {
    edges.sort_unstable();
    let mut pairs = Vec::with_capacity(2 * edges.len());
    for around in edges.chunk_by(|a, b| a.0 == b.0) {
        for &(_, f) in around {
            pairs.extend(around.iter().filter(|&&(_, g)| g != f).map(|&(_, g)| (f, g)));
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strip_of_three_triangles() {
        let topology = Topology::new(6, &[[0, 1, 2], [2, 1, 3], [2, 3, 4]]);
        assert_eq!(topology.vertex_faces.row(2), [0, 1, 2]);
        assert_eq!(topology.vertex_vertices.row(1), [0, 2, 3]);
        assert_eq!(topology.face_faces.row(1), [0, 2]);
        assert_eq!(topology.face_faces.row(0), [1]);
        assert!(topology.vertex_faces.row(5).is_empty(), "an unreferenced vertex touches nothing");
        assert_eq!(topology.vertex_vertices.within(0, 2), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn duplicate_and_degenerate_triangles_do_not_touch_themselves() {
        let topology = Topology::new(3, &[[0, 1, 2], [0, 1, 2], [1, 1, 2]]);
        assert_eq!(topology.face_faces.row(0), [1, 2]);
        assert_eq!(topology.face_faces.row(2), [0, 1]);
    }
}
