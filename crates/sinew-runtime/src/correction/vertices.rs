//! Displacements of vertices, interpolated over poses: the correction of pose-space deformation, of EigenSkin, and of
//! any other method's residual.
//!
//! Region r turns its kernel κ (N) into component weights `a = M_r κ`, (K_r); each of its parts adds
//! `Q_b Σ_k a_k B_k` to its vertices, Q_b the rotation of the part's bone in the pose. Vertices that need no
//! correction stand in no part.

use glam::{Mat3A, Vec3A};

use crate::character::{check_finite, check_indices};
use crate::file::{TensorReader, TensorWriter};
use crate::pose_space::{PoseSpace, PoseSpaceScratch, short};
use crate::posed::nearest_rotation;
use crate::{Character, ModelError, PosedSkeleton};

/// Pose-dependent displacements of vertices.
#[derive(Debug, Clone, PartialEq)]
pub struct VertexCorrection {
    /// The example poses and the regions' kernels.
    pub space: PoseSpace,
    /// Each region's mixing matrix, (R): (K_r, N) row by row; kernel values to component weights.
    pub mixing: Vec<Vec<f32>>,
    /// The vertices that are displaced.
    pub parts: Vec<VertexPart>,
}

/// Vertices that one region displaces in one bone's frame.
#[derive(Debug, Clone, PartialEq)]
pub struct VertexPart {
    /// The region whose component weights count.
    pub region: usize,
    /// The bone in whose rotated frame the displacements stand.
    pub bone: usize,
    /// The vertices, (n).
    pub vertices: Vec<u32>,
    /// Displacements of each component, (K_r, n), metres.
    pub components: Vec<[f32; 3]>,
}

/// Memory reused from frame to frame.
#[derive(Debug, Clone, Default)]
pub(crate) struct VertexScratch {
    space: PoseSpaceScratch,
    /// Component weights of every region, one after the other.
    weights: Vec<f32>,
    /// Where each region's weights start, (R + 1).
    starts: Vec<usize>,
    /// One part's displacements.
    sums: Vec<[f32; 3]>,
}

impl VertexCorrection {
    pub(crate) const KIND: &'static str = "vertices";

    pub(crate) fn check(&self, character: &Character) -> Result<(), ModelError> {
        self.space.check(character)?;
        let wrong = |name: &str, found: String, expected: String| ModelError::Shape {
            name: format!("correction.{name}"),
            found,
            expected,
        };
        let n = self.space.poses;
        if self.mixing.len() != self.space.regions.len() {
            let expected = format!("{}, one a region", self.space.regions.len());
            return Err(wrong("mixing", format!("{} matrices", self.mixing.len()), expected));
        }
        for mixing in &self.mixing {
            check_finite("correction.mixing", mixing)?;
            if (n == 0 && !mixing.is_empty()) || (n > 0 && !mixing.len().is_multiple_of(n)) {
                return Err(wrong("mixing", format!("{} entries", mixing.len()), format!("a multiple of {n}")));
            }
        }
        for part in &self.parts {
            check_indices("correction.part_regions", [part.region], self.mixing.len())?;
            check_indices("correction.part_bones", [part.bone], character.bones.len())?;
            let vertices = part.vertices.iter().map(|&v| v as usize);
            check_indices("correction.part_vertices", vertices, character.vertex_count())?;
            check_finite("correction.components", part.components.as_flattened())?;
            let expected = self.component_count(part.region) * part.vertices.len();
            if part.components.len() != expected {
                let found = format!("{} displacements", part.components.len());
                return Err(wrong("components", found, expected.to_string()));
            }
        }
        Ok(())
    }

    /// The number of components of region `r`, K_r.
    fn component_count(&self, r: usize) -> usize {
        self.mixing[r].len().checked_div(self.space.poses).unwrap_or(0)
    }

    pub(crate) fn flops(&self) -> u64 {
        let mixing: usize = self.mixing.iter().map(|m| 2 * m.len()).sum();
        let parts: usize = self.parts.iter().map(|part| 6 * part.components.len() + 18 * part.vertices.len()).sum();
        self.space.flops() + (mixing + parts) as u64
    }

    pub(crate) fn bytes(&self) -> u64 {
        let mixing: usize = self.mixing.iter().map(|m| 4 * m.len()).sum();
        let parts: usize = self.parts.iter().map(|part| 12 * part.components.len() + 4 * part.vertices.len()).sum();
        self.space.bytes() + (mixing + parts) as u64
    }

    pub(crate) fn scratch(&self) -> VertexScratch {
        let mut starts = vec![0];
        for r in 0..self.mixing.len() {
            starts.push(starts[r] + self.component_count(r));
        }
        let most = self.parts.iter().map(|part| part.vertices.len()).max().unwrap_or(0);
        VertexScratch {
            space: self.space.scratch(),
            weights: vec![0.0; starts[self.mixing.len()]],
            starts,
            sums: vec![[0.0; 3]; most],
        }
    }

    /// The component weights of every region in a pose, one region after the other.
    pub(crate) fn component_weights<'scratch>(
        &self,
        character: &Character,
        posed: &PosedSkeleton,
        scratch: &'scratch mut VertexScratch,
    ) -> &'scratch [f32] {
        self.space.set(character, posed, &mut scratch.space);
        for (r, mixing) in self.mixing.iter().enumerate() {
            let kernel = self.space.kernel(r, &mut scratch.space);
            let weights = &mut scratch.weights[scratch.starts[r]..scratch.starts[r + 1]];
            mix(mixing, kernel, weights);
        }
        &scratch.weights
    }

    /// The component weights of region `r`, as [`Self::component_weights`] left them.
    pub(crate) fn region_weights(scratch: &VertexScratch, r: usize) -> &[f32] {
        &scratch.weights[scratch.starts[r]..scratch.starts[r + 1]]
    }

    /// The rotation of `bone`'s frame in the world, by which displacements are turned.
    pub(crate) fn turn(posed: &PosedSkeleton, bone: usize) -> Mat3A {
        posed.frame.matrix3 * nearest_rotation(posed.relative[bone].matrix3)
    }

    /// Adds the displacements to `positions`, which stand in the world.
    pub(crate) fn add(
        &self,
        character: &Character,
        posed: &PosedSkeleton,
        scratch: &mut VertexScratch,
        positions: &mut [[f32; 3]],
    ) {
        self.component_weights(character, posed, scratch);
        for part in &self.parts {
            let weights = &scratch.weights[scratch.starts[part.region]..scratch.starts[part.region + 1]];
            let sums = &mut scratch.sums[..part.vertices.len()];
            sum_components(weights, &part.components, sums);
            let turn = Self::turn(posed, part.bone);
            for (&v, sum) in part.vertices.iter().zip(sums) {
                let position = &mut positions[v as usize];
                *position = (Vec3A::from_array(*position) + turn * Vec3A::from_array(*sum)).to_array();
            }
        }
    }

    pub(crate) fn write(&self, writer: &mut TensorWriter) {
        self.space.write(writer);
        let counts: Vec<u32> = (0..self.mixing.len()).map(|r| self.component_count(r) as u32).collect();
        let mixing = self.mixing.concat();
        writer.u32("correction.component_counts", &[counts.len()], &counts);
        writer.f32("correction.mixing", &[mixing.len()], &mixing);
        let regions: Vec<u32> = self.parts.iter().map(|part| part.region as u32).collect();
        let bones: Vec<u32> = self.parts.iter().map(|part| part.bone as u32).collect();
        let sizes: Vec<u32> = self.parts.iter().map(|part| part.vertices.len() as u32).collect();
        let vertices: Vec<u32> = self.parts.iter().flat_map(|part| part.vertices.iter().copied()).collect();
        let components: Vec<f32> = self.parts.iter().flat_map(|part| part.components.as_flattened()).copied().collect();
        writer.u32("correction.part_regions", &[regions.len()], &regions);
        writer.u32("correction.part_bones", &[bones.len()], &bones);
        writer.u32("correction.part_sizes", &[sizes.len()], &sizes);
        writer.u32("correction.part_vertices", &[vertices.len()], &vertices);
        writer.f32("correction.components", &[components.len() / 3, 3], &components);
    }

    pub(crate) fn read(reader: &TensorReader) -> Result<Self, ModelError> {
        let space = PoseSpace::read(reader)?;
        let counts = reader.u32("correction.component_counts", &[Some(space.regions.len())])?;
        let flat = reader.f32("correction.mixing", &[None])?;
        let mut rest = &flat[..];
        let mut mixing = Vec::with_capacity(counts.len());
        for &count in &counts {
            let (head, tail) = split(rest, count as usize, space.poses).ok_or_else(|| short("correction.mixing"))?;
            mixing.push(head.to_vec());
            rest = tail;
        }
        let regions = reader.u32("correction.part_regions", &[None])?;
        let bones = reader.u32("correction.part_bones", &[Some(regions.len())])?;
        let sizes = reader.u32("correction.part_sizes", &[Some(regions.len())])?;
        let vertices = reader.u32("correction.part_vertices", &[None])?;
        let flat = reader.f32("correction.components", &[None, Some(3)])?;
        let components = crate::file::to_triples(&flat);
        let (mut vertices, mut components) = (&vertices[..], &components[..]);
        let mut parts = Vec::with_capacity(regions.len());
        for ((&region, &bone), &size) in regions.iter().zip(&bones).zip(&sizes) {
            let count = *counts.get(region as usize).ok_or_else(|| ModelError::Index {
                name: "correction.part_regions".into(),
                entry: parts.len(),
                index: region.into(),
                limit: counts.len(),
            })?;
            let (part_vertices, tail) =
                split(vertices, size as usize, 1).ok_or_else(|| short("correction.part_vertices"))?;
            vertices = tail;
            let (part_components, tail) =
                split(components, count as usize, size as usize).ok_or_else(|| short("correction.components"))?;
            components = tail;
            parts.push(VertexPart {
                region: region as usize,
                bone: bone as usize,
                vertices: part_vertices.to_vec(),
                components: part_components.to_vec(),
            });
        }
        Ok(Self { space, mixing, parts })
    }
}

/// The first `rows · columns` entries and the rest; none if there are not so many.
pub(super) fn split<T>(values: &[T], rows: usize, columns: usize) -> Option<(&[T], &[T])> {
    values.split_at_checked(rows.checked_mul(columns)?)
}

/// `weights = mixing · kernel`, mixing (K, N) row by row.
pub(super) fn mix(mixing: &[f32], kernel: &[f32], weights: &mut [f32]) {
    for (row, weight) in mixing.chunks_exact(kernel.len().max(1)).zip(weights) {
        *weight = row.iter().zip(kernel).map(|(m, k)| m * k).sum();
    }
}

/// `sums_v = Σ_k weights_k components_kv`, components (K, n).
fn sum_components(weights: &[f32], components: &[[f32; 3]], sums: &mut [[f32; 3]]) {
    let sums = sums.as_flattened_mut();
    sums.fill(0.0);
    for (&weight, row) in weights.iter().zip(components.as_flattened().chunks_exact(sums.len().max(1))) {
        for (sum, component) in sums.iter_mut().zip(row) {
            *sum += weight * component;
        }
    }
}
