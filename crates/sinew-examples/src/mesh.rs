//! A triangle mesh that remembers the polygons and UVs it came with.

use std::collections::{BTreeMap, BTreeSet};

use glam::DVec3;

use crate::{ExamplesError, Notice};

/// Coordinates beyond this (metres) cannot be meant: their squares overflow f32, in which models run.
const LARGEST_COORDINATE: f64 = 1e15;

/// The polygons as the mesh's author made them, of which the triangles are a triangulation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Polygons {
    /// Corners of each polygon.
    pub counts: Vec<u32>,
    /// The polygons' vertices, one polygon after the other.
    pub vertices: Vec<u32>,
}

impl Polygons {
    /// Each polygon's vertices.
    pub fn iter(&self) -> impl Iterator<Item = &[u32]> {
        let mut start = 0;
        self.counts.iter().map(move |&count| {
            let polygon = &self.vertices[start..start + count as usize];
            start += count as usize;
            polygon
        })
    }

    /// The fan triangulation: a polygon `a b c d` gives `a b c`, `a c d`.
    #[must_use]
    pub fn fan(&self) -> Vec<[u32; 3]> {
        self.iter().flat_map(|p| (1..p.len().saturating_sub(1)).map(|k| [p[0], p[k], p[k + 1]])).collect()
    }
}

/// A rest mesh: vertices (V), triangles (F), and optionally polygons and UVs.
#[derive(Debug, Clone, PartialEq)]
pub struct Mesh {
    vertices: Vec<DVec3>,
    triangles: Vec<[u32; 3]>,
    polygons: Option<Polygons>,
    uvs: Option<Vec<[[f32; 2]; 3]>>,
}

impl Mesh {
    /// Checks and makes a mesh. `uvs` are per triangle corner, (F, 3, 2).
    pub fn new(
        vertices: Vec<DVec3>,
        triangles: Vec<[u32; 3]>,
        polygons: Option<Polygons>,
        uvs: Option<Vec<[[f32; 2]; 3]>>,
    ) -> Result<Self, ExamplesError> {
        if vertices.len() < 3 || triangles.is_empty() {
            return Err(ExamplesError::EmptyMesh { vertices: vertices.len(), faces: triangles.len() });
        }
        check_positions(&vertices, "rest mesh")?;
        let mesh = Self { vertices, triangles, polygons, uvs };
        if mesh.diagonal() == 0.0 {
            return Err(ExamplesError::PointMesh { vertices: mesh.vertices.len() });
        }
        mesh.check_faces()?;
        mesh.check_uvs()?;
        Ok(mesh)
    }

    /// Rest positions, (V).
    #[must_use]
    pub fn vertices(&self) -> &[DVec3] {
        &self.vertices
    }

    /// Triangles, (F).
    #[must_use]
    pub fn triangles(&self) -> &[[u32; 3]] {
        &self.triangles
    }

    /// The mesh's own polygons, if they are not just the triangles.
    #[must_use]
    pub fn polygons(&self) -> Option<&Polygons> {
        self.polygons.as_ref()
    }

    /// Texture coordinates per triangle corner, (F).
    #[must_use]
    pub fn uvs(&self) -> Option<&[[[f32; 2]; 3]]> {
        self.uvs.as_deref()
    }

    /// The number of vertices, V.
    #[must_use]
    pub fn vertex_count(&self) -> usize {
        self.vertices.len()
    }

    /// The length of the bounding box's diagonal: the yardstick of every relative error.
    #[must_use]
    pub fn diagonal(&self) -> f64 {
        let (low, high) = self.bounds();
        (high - low).length()
    }

    /// The bounding box's lowest and highest corner.
    #[must_use]
    pub fn bounds(&self) -> (DVec3, DVec3) {
        self.vertices.iter().fold((DVec3::INFINITY, DVec3::NEG_INFINITY), |(low, high), &v| (low.min(v), high.max(v)))
    }

    /// The same faces over other positions, which must be as many and finite.
    pub fn with_vertices(&self, vertices: Vec<DVec3>) -> Result<Self, ExamplesError> {
        if vertices.len() != self.vertices.len() {
            return Err(ExamplesError::Length {
                what: "vertices",
                found: vertices.len(),
                expected: self.vertices.len(),
            });
        }
        Self::new(vertices, self.triangles.clone(), self.polygons.clone(), self.uvs.clone())
    }

    /// What is unusual about this mesh.
    #[must_use]
    pub fn notices(&self) -> Vec<Notice> {
        let mut notices = Vec::new();
        self.note_triangles(&mut notices);
        self.note_vertices(&mut notices);
        self.note_edges(&mut notices);
        notices
    }

    fn check_faces(&self) -> Result<(), ExamplesError> {
        let check = |face: usize, corners: &[u32]| match corners.iter().find(|&&v| v as usize >= self.vertices.len()) {
            Some(&vertex) => Err(ExamplesError::FaceIndex { face, vertex, vertices: self.vertices.len() }),
            None => Ok(()),
        };
        for (face, triangle) in self.triangles.iter().enumerate() {
            check(face, triangle)?;
        }
        let Some(polygons) = &self.polygons else { return Ok(()) };
        if let Some(polygon) = polygons.counts.iter().position(|&count| count < 3) {
            return Err(ExamplesError::PolygonCorners { polygon, corners: polygons.counts[polygon] });
        }
        let corners: usize = polygons.counts.iter().map(|&count| count as usize).sum();
        if corners != polygons.vertices.len() {
            return Err(ExamplesError::Length {
                what: "polygon_vertices",
                found: polygons.vertices.len(),
                expected: corners,
            });
        }
        for (face, polygon) in polygons.iter().enumerate() {
            check(face, polygon)?;
        }
        let triangles: usize = polygons.counts.iter().map(|&count| count as usize - 2).sum();
        if triangles != self.triangles.len() {
            return Err(ExamplesError::Length {
                what: "faces (the polygons' triangulation)",
                found: self.triangles.len(),
                expected: triangles,
            });
        }
        Ok(())
    }

    fn check_uvs(&self) -> Result<(), ExamplesError> {
        let Some(uvs) = &self.uvs else { return Ok(()) };
        if uvs.len() != self.triangles.len() {
            return Err(ExamplesError::Length { what: "uvs", found: uvs.len(), expected: self.triangles.len() });
        }
        for (face, corners) in uvs.iter().enumerate() {
            if let Some(&value) = corners.as_flattened().iter().find(|value| !value.is_finite()) {
                return Err(ExamplesError::NotFinite {
                    place: format!("a texture coordinate of face {face}"),
                    value: value.into(),
                });
            }
        }
        Ok(())
    }

    fn note_triangles(&self, notices: &mut Vec<Notice>) {
        // Relative to the mesh: an area of (1e-7 · diagonal)² is below what f32 coordinates resolve.
        let smallest = (1e-7 * self.diagonal()).powi(2);
        let degenerate: Vec<usize> = (0..self.triangles.len()).filter(|&f| self.twice_area(f) <= smallest).collect();
        if let Some(&first) = degenerate.first() {
            notices.push(Notice::DegenerateTriangles { count: degenerate.len(), first });
        }
        let mut seen = BTreeSet::new();
        let duplicate: Vec<usize> = (0..self.triangles.len())
            .filter(|&f| {
                let mut corners = self.triangles[f];
                corners.sort_unstable();
                !seen.insert(corners)
            })
            .collect();
        if let Some(&first) = duplicate.first() {
            notices.push(Notice::DuplicateTriangles { count: duplicate.len(), first });
        }
    }

    fn note_vertices(&self, notices: &mut Vec<Notice>) {
        let mut used = vec![false; self.vertices.len()];
        for &v in self.triangles.as_flattened() {
            used[v as usize] = true;
        }
        if let Some(first) = used.iter().position(|&used| !used) {
            notices.push(Notice::UnreferencedVertices { count: used.iter().filter(|&&used| !used).count(), first });
        }
        let components = self.components();
        let count =
            components.iter().zip(&used).filter(|&(_, &used)| used).map(|(&c, _)| c).collect::<BTreeSet<_>>().len();
        if count > 1 {
            notices.push(Notice::Components { count });
        }
    }

    fn note_edges(&self, notices: &mut Vec<Notice>) {
        let mut uses: BTreeMap<[u32; 2], usize> = BTreeMap::new();
        for t in &self.triangles {
            for (a, b) in [(t[0], t[1]), (t[1], t[2]), (t[2], t[0])] {
                *uses.entry([a.min(b), a.max(b)]).or_default() += 1;
            }
        }
        let open = uses.values().filter(|&&n| n == 1).count();
        if open > 0 {
            notices.push(Notice::OpenBoundary { edges: open });
        }
        let crowded = uses.values().filter(|&&n| n > 2).count();
        if crowded > 0 {
            notices.push(Notice::NonManifoldEdges { edges: crowded });
        }
    }

    /// Twice the rest area of triangle `f`.
    #[must_use]
    pub fn twice_area(&self, f: usize) -> f64 {
        let [a, b, c] = self.triangles[f].map(|v| self.vertices[v as usize]);
        (b - a).cross(c - a).length()
    }

    /// The connected component of each vertex, numbered from 0 in order of first vertex; (V).
    #[must_use]
    pub fn components(&self) -> Vec<usize> {
        let mut parent: Vec<usize> = (0..self.vertices.len()).collect();
        fn find(parent: &mut [usize], mut v: usize) -> usize {
            while parent[v] != v {
                parent[v] = parent[parent[v]];
                v = parent[v];
            }
            v
        }
        for t in &self.triangles {
            for k in 1..3 {
                let (a, b) = (find(&mut parent, t[0] as usize), find(&mut parent, t[k] as usize));
                parent[a.max(b)] = a.min(b);
            }
        }
        let mut number = BTreeMap::new();
        (0..self.vertices.len())
            .map(|v| {
                let next = number.len();
                *number.entry(find(&mut parent, v)).or_insert(next)
            })
            .collect()
    }
}

/// Refuses positions that are not finite or absurdly large; `place` names the mesh or frame.
pub(crate) fn check_positions(positions: &[DVec3], place: &str) -> Result<(), ExamplesError> {
    for (v, position) in positions.iter().enumerate() {
        for value in position.to_array() {
            if !value.is_finite() {
                return Err(ExamplesError::NotFinite { place: format!("{place}, vertex {v}"), value });
            }
            if value.abs() > LARGEST_COORDINATE {
                return Err(ExamplesError::TooLarge { place: format!("{place}, vertex {v}"), value });
            }
        }
    }
    Ok(())
}
