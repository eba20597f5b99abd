//! What every model carries besides its method: rest mesh, skeleton, and plain skinning weights to fall back on.

use glam::{Affine3A, Vec3};

use crate::ModelError;

/// A bone at run time.
#[derive(Debug, Clone, PartialEq)]
pub struct Bone {
    /// The bone's name.
    pub name: String,
    /// The parent's index; `None` for the root.
    pub parent: Option<usize>,
    /// The global rest transform.
    pub rest: Affine3A,
}

/// The mesh's own polygons, of which the triangles are a triangulation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Polygons {
    /// Corners of each polygon.
    pub counts: Vec<u32>,
    /// The polygons' vertices, one polygon after the other.
    pub vertices: Vec<u32>,
}

/// Linear blend weights: `width` (joint, weight) pairs a vertex, unused ones with weight 0 at joint 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Skin {
    /// Pairs a vertex, K.
    pub width: usize,
    /// Joint indices, (V, K).
    pub joints: Vec<u16>,
    /// Weights, (V, K), heaviest first; those of a vertex sum to one.
    pub weights: Vec<f32>,
}

impl Skin {
    /// The (joint, weight) pairs of vertex `v` that count.
    pub fn vertex(&self, v: usize) -> impl Iterator<Item = (usize, f32)> + '_ {
        let range = v * self.width..(v + 1) * self.width;
        let pairs = self.joints[range.clone()].iter().zip(&self.weights[range]);
        pairs.map(|(&joint, &weight)| (joint as usize, weight)).filter(|&(_, weight)| weight != 0.0)
    }

    /// The number of vertices, V.
    #[must_use]
    pub fn vertex_count(&self) -> usize {
        self.joints.len() / self.width.max(1)
    }

    /// The mean number of pairs a vertex that count.
    #[must_use]
    pub fn mean_count(&self) -> f64 {
        let count = self.weights.iter().filter(|&&weight| weight != 0.0).count();
        count as f64 / self.vertex_count().max(1) as f64
    }

    /// Refuses weights that do not fit `vertices` and `joints`; `name` stands in the error.
    pub fn check(&self, name: &str, vertices: usize, joints: usize) -> Result<(), ModelError> {
        for (part, len) in [("joints", self.joints.len()), ("weights", self.weights.len())] {
            if self.width == 0 || len != vertices * self.width {
                return Err(ModelError::Shape {
                    name: format!("{name}.{part}"),
                    found: format!("{len} entries"),
                    expected: format!("{vertices} × {}", self.width),
                });
            }
        }
        check_indices(&format!("{name}.joints"), self.joints.iter().map(|&j| j as usize), joints)?;
        check_finite(&format!("{name}.weights"), &self.weights)
    }
}

/// The rest mesh, the skeleton and plain skinning weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Character {
    /// Rest positions in world coordinates, (V).
    pub rest_positions: Vec<[f32; 3]>,
    /// Triangles, (F).
    pub triangles: Vec<[u32; 3]>,
    /// The mesh's own polygons.
    pub polygons: Option<Polygons>,
    /// Texture coordinates per triangle corner, (F).
    pub uvs: Option<Vec<[[f32; 2]; 3]>>,
    /// The bones, (J); exactly one has no parent.
    pub bones: Vec<Bone>,
    /// Linear blend weights over the bones.
    pub skin: Skin,
    /// Frames a second of the source, if it said.
    pub fps: Option<f32>,
}

impl Character {
    /// The number of vertices, V.
    #[must_use]
    pub fn vertex_count(&self) -> usize {
        self.rest_positions.len()
    }

    /// The root bone's index.
    #[must_use]
    pub fn root(&self) -> usize {
        self.bones.iter().position(|bone| bone.parent.is_none()).unwrap_or(0)
    }

    /// The length of the rest mesh's bounding box diagonal.
    #[must_use]
    pub fn diagonal(&self) -> f32 {
        let start = (Vec3::INFINITY, Vec3::NEG_INFINITY);
        let (low, high) =
            self.rest_positions.iter().fold(start, |(low, high), &p| (low.min(p.into()), high.max(p.into())));
        (high - low).length()
    }

    /// Refuses sizes and indices that do not fit together.
    pub fn check(&self) -> Result<(), ModelError> {
        let vertices = self.vertex_count();
        check_finite("rest_positions", self.rest_positions.as_flattened())?;
        check_indices("triangles", self.triangles.as_flattened().iter().map(|&v| v as usize), vertices)?;
        if let Some(polygons) = &self.polygons {
            let corners: u64 = polygons.counts.iter().map(|&count| u64::from(count)).sum();
            if corners != polygons.vertices.len() as u64 {
                return Err(ModelError::Shape {
                    name: "polygon_vertices".into(),
                    found: format!("{} entries", polygons.vertices.len()),
                    expected: format!("{corners}, the sum of polygon_counts"),
                });
            }
            check_indices("polygon_vertices", polygons.vertices.iter().map(|&v| v as usize), vertices)?;
        }
        if let Some(uvs) = &self.uvs {
            if uvs.len() != self.triangles.len() {
                return Err(ModelError::Shape {
                    name: "uvs".into(),
                    found: format!("{} triangles", uvs.len()),
                    expected: format!("{}", self.triangles.len()),
                });
            }
            check_finite("uvs", uvs.as_flattened().as_flattened())?;
        }
        self.check_bones()?;
        self.skin.check("skin", vertices, self.bones.len())
    }

    fn check_bones(&self) -> Result<(), ModelError> {
        let parents = self.bones.iter().filter_map(|bone| bone.parent);
        check_indices("bone_parents", parents, self.bones.len())?;
        let roots = self.bones.iter().filter(|bone| bone.parent.is_none()).count();
        if roots != 1 {
            return Err(ModelError::Format(format!("its skeleton has {roots} roots instead of one")));
        }
        for (b, bone) in self.bones.iter().enumerate() {
            check_finite("rest_bones", &bone.rest.to_cols_array())?;
            let mut ancestor = b;
            for _ in 0..self.bones.len() {
                let Some(parent) = self.bones[ancestor].parent else { break };
                ancestor = parent;
            }
            if self.bones[ancestor].parent.is_some() {
                return Err(ModelError::Format(format!("bone {b} ({}) is its own ancestor", bone.name)));
            }
            if !bone.rest.inverse().is_finite() {
                return Err(ModelError::Format(format!("the rest transform of bone {b} ({}) is singular", bone.name)));
            }
        }
        Ok(())
    }
}

/// Refuses an index that is not below `limit`.
pub(crate) fn check_indices(
    name: &str,
    indices: impl IntoIterator<Item = usize>,
    limit: usize,
) -> Result<(), ModelError> {
    match indices.into_iter().enumerate().find(|&(_, index)| index >= limit) {
        Some((entry, index)) => Err(ModelError::Index { name: name.into(), entry, index: index as i64, limit }),
        None => Ok(()),
    }
}

/// Refuses NaN and infinity.
pub(crate) fn check_finite(name: &str, values: &[f32]) -> Result<(), ModelError> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(entry) => Err(ModelError::NotFinite { name: name.into(), entry, value: values[entry] }),
        None => Ok(()),
    }
}

/// Refuses NaN, infinity and what is less than nil.
pub(crate) fn check_not_negative(name: &str, values: &[f32]) -> Result<(), ModelError> {
    check_finite(name, values)?;
    match values.iter().position(|&value| value < 0.0) {
        Some(entry) => {
            let value = f64::from(values[entry]);
            Err(ModelError::TooSmall { name: name.into(), entry, value, least: 0.0 })
        }
        None => Ok(()),
    }
}
