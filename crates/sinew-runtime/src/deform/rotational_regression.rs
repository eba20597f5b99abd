//! Rotational regression enveloping, reduced (Wang, Pulli and Popović, 2007; the thesis has the matrices):
//! predictors give P key gradients d(q); proxy bones follow from them and from the skeleton, `t = c₁ d + c₂ q`; vertices
//! are drawn by palette skinning over proxy bones and bones together.
//!
//! Every term of the paper's Poisson equation treats x, y and z alike, so its matrices C₁ (12P × 9P) and C₂ (12P × 12J)
//! are `c₁ ⊗ I₃` and `c₂ ⊗ I₃`. We store and run c₁ (4P × 3P) and c₂ (4P × 4J): column r of a proxy's transform is a
//! sum of the columns of the key gradients and of the bones' transforms. Blocks that do not matter are left out.

use glam::{Affine3A, Mat3A, Vec3A};

use super::animation_space::{check_weights, projection_cost};
use super::linear_blend::{skin_positions, skinning_cost};
use super::{BlockRows, Cost, GradientPredictors, Scratch};
use crate::character::check_finite;
use crate::file::{TensorReader, TensorWriter};
use crate::joint_rotations::{JointRanges, JointRotations};
use crate::kernel::Matrix;
use crate::kernel::lanes::Instructions;
use crate::kernel::regress::{Regress, Regression};
use crate::{Character, ModelError, PosedSkeleton, Skin};

/// The tensor of [`RotationalRegression::points`].
const POINTS: &str = "proxy_skin.points";

/// The reduced model.
#[derive(Debug, Clone, PartialEq)]
pub struct RotationalRegression {
    /// The joints' trained ranges and branch references.
    pub ranges: JointRanges,
    /// The predictors of the key gradients, one a proxy bone, (P).
    pub predictors: GradientPredictors,
    /// From key gradients to proxy transforms, block rows (P) over block columns (P) of 4×3.
    pub c1: BlockRows<3>,
    /// From bone transforms (in the root's frame) to proxy transforms, block rows (P) over block columns (J) of 4×4.
    pub c2: BlockRows<4>,
    /// Weights over the combined palette: joints 0..P are proxy bones, P..P + J the skeleton's bones.
    pub skin: Skin,
    /// What the skin's entries draw each vertex from, (V, K), if that is not the vertex itself: points from the root's rest
    /// place, times weights that sum to one over a vertex, as in animation space. Otherwise empty.
    pub points: Vec<[f32; 4]>,
}

impl RotationalRegression {
    pub(crate) const KIND: &'static str = "rotational-regression";

    /// The number of proxy bones, P.
    #[must_use]
    pub fn proxy_count(&self) -> usize {
        self.predictors.len()
    }

    /// The (palette entry, h) pairs that draw every vertex as `Σ_i T_i h_i`, h in rest world space, (V).
    #[must_use]
    pub fn world_points(&self, character: &Character) -> Vec<Vec<(usize, [f32; 4])>> {
        let origin =
            if self.points.is_empty() { Vec3A::ZERO } else { character.bones[character.root()].rest.translation };
        let moved =
            |(entry, [x, y, z, w]): (usize, [f32; 4])| (entry, (Vec3A::new(x, y, z) + w * origin).extend(w).to_array());
        let rest = character.rest_positions.iter().enumerate();
        rest.map(|(v, &rest)| self.vertex(v, rest).map(moved).collect()).collect()
    }

    /// The (palette entry, h) pairs that draw vertex `v` as `Σ_i T_i h_i`, its rest position `rest` and h counted from the
    /// same place, the root's rest place.
    pub fn vertex(&self, v: usize, rest: [f32; 3]) -> impl Iterator<Item = (usize, [f32; 4])> + '_ {
        let range = v * self.skin.width..(v + 1) * self.skin.width;
        let blended = move |w: f32| [w * rest[0], w * rest[1], w * rest[2], w];
        let point = move |k: usize| self.points.get(k).copied().unwrap_or_else(|| blended(self.skin.weights[k]));
        range.map(move |k| (usize::from(self.skin.joints[k]), point(k))).filter(|(_, h)| *h != [0.0; 4])
    }

    pub(crate) fn check(&self, character: &Character) -> Result<(), ModelError> {
        let (proxies, bones) = (self.proxy_count(), character.bones.len());
        self.ranges.check("ranges", bones)?;
        self.predictors.check("predictors", character)?;
        self.c1.check("c1", proxies, proxies)?;
        self.c2.check("c2", proxies, bones)?;
        self.skin.check("proxy_skin", character.vertex_count(), proxies + bones)?;
        self.check_points()
    }

    fn check_points(&self) -> Result<(), ModelError> {
        if self.points.is_empty() {
            return Ok(());
        }
        if self.points.len() != self.skin.joints.len() {
            return Err(ModelError::Shape {
                name: POINTS.into(),
                found: format!("{} points", self.points.len()),
                expected: format!("{}, one an entry of proxy_skin", self.skin.joints.len()),
            });
        }
        check_finite(POINTS, self.points.as_flattened())?;
        self.points.chunks_exact(self.skin.width).enumerate().try_for_each(|(v, points)| check_weights(v, points))
    }

    pub(crate) fn cost(&self, character: &Character) -> Cost {
        let skinning = match self.points.is_empty() {
            true => skinning_cost(&self.skin),
            false => projection_cost(&self.points, self.skin.width),
        };
        let predictors = self.predictors.cost();
        // Blocks of 4×3 and 4×4 times columns of three numbers; joint rotations, about 200 a bone; two affine products
        // (126) a proxy to come back to the world.
        let blocks = 72 * self.c1.blocks.len() as u64 + 96 * self.c2.blocks.len() as u64;
        let rest = 200 * character.bones.len() as u64 + 126 * self.proxy_count() as u64;
        let block_bytes = 50 * self.c1.blocks.len() as u64 + 66 * self.c2.blocks.len() as u64;
        Cost {
            flops: skinning.flops + predictors.flops + blocks + rest,
            bytes: skinning.bytes + predictors.bytes + block_bytes,
        }
    }

    pub(crate) fn scratch(&self, character: &Character) -> Scratch {
        Scratch {
            joints: JointRotations::new(character),
            gradients: vec![Mat3A::IDENTITY; self.proxy_count()],
            palette: vec![Affine3A::IDENTITY; self.proxy_count() + character.bones.len()],
            proxy_deltas: Vec::with_capacity(self.proxy_count()),
            carries: Vec::with_capacity(self.proxy_count()),
            ..Scratch::default()
        }
    }

    pub(crate) fn deform(
        &self,
        character: &Character,
        posed: &PosedSkeleton,
        scratch: &mut Scratch,
        out: &mut [[f32; 3]],
    ) {
        self.pose_palette(posed, scratch);
        if self.points.is_empty() {
            return skin_positions(&self.skin, &scratch.palette, &character.rest_positions, out);
        }
        let origin = posed.rest_frame.translation;
        for (v, out) in out.iter_mut().enumerate() {
            let drawn = |(entry, [x, y, z, w]): (usize, [f32; 4])| {
                let transform = &scratch.palette[entry];
                transform.matrix3 * Vec3A::new(x, y, z) + w * transform.transform_point3a(origin)
            };
            *out = self.vertex(v, [0.0; 3]).map(drawn).sum::<Vec3A>().to_array();
        }
    }

    /// Fills `scratch.gradients` (P) with the key gradients in the root's frame, d(q).
    pub(crate) fn key_gradients(&self, posed: &PosedSkeleton, scratch: &mut Scratch) {
        scratch.joints.set(posed, &self.ranges.reference);
        for (k, gradient) in scratch.gradients.iter_mut().enumerate() {
            *gradient = self.predictors.gradient(k, &scratch.joints);
        }
        for (gradient, &carry) in scratch.gradients.iter_mut().zip(&scratch.carries) {
            *gradient = carry * *gradient;
        }
    }

    /// Fills `scratch.palette` (P + J) with transforms from the rest mesh to the posed one, both in the world.
    pub(crate) fn pose_palette(&self, posed: &PosedSkeleton, scratch: &mut Scratch) {
        self.key_gradients(posed, scratch);
        let (proxies, bones) = scratch.palette.split_at_mut(self.proxy_count());
        bones.copy_from_slice(&posed.world);
        let from_world = posed.rest_frame.inverse();
        for (p, proxy) in proxies.iter_mut().enumerate() {
            let mut transform = self.proxy(p, &scratch.gradients, &posed.relative);
            if let Some(delta) = scratch.proxy_deltas.get(p) {
                transform.matrix3 += delta.matrix3;
                transform.translation += delta.translation;
            }
            *proxy = posed.frame * transform * from_world;
        }
    }

    /// The same as [`Self::pose_palette`] by its kernel, into `palette` (P + J), whose bones are there already. Not the `whole` of it
    /// stops where a pose turns out to be beyond the trained ranges.
    pub(crate) fn fast_palette(
        &self,
        regression: &Regression,
        instructions: Instructions,
        posed: &PosedSkeleton,
        scratch: &mut Scratch,
        palette: &mut [Matrix],
        whole: bool,
    ) {
        let (proxies, bones) = palette.split_at_mut(self.proxy_count());
        let (room, frame) = (&mut scratch.regression, posed.frame);
        instructions.run(Regress { regression, room, frame, bones, proxies, whole });
    }

    /// The transform of proxy bone `p` in the root's frame: block row p of `c₁ d + c₂ q`.
    fn proxy(&self, p: usize, gradients: &[Mat3A], bones: &[Affine3A]) -> Affine3A {
        let mut columns = [Vec3A::ZERO; 4];
        for (k, block) in self.c1.row(p) {
            let d = &gradients[k];
            for (column, [x, y, z]) in columns.iter_mut().zip(block) {
                *column += *x * d.x_axis + *y * d.y_axis + *z * d.z_axis;
            }
        }
        for (b, block) in self.c2.row(p) {
            let (m, translation) = (&bones[b].matrix3, bones[b].translation);
            for (column, [x, y, z, t]) in columns.iter_mut().zip(block) {
                *column += *x * m.x_axis + *y * m.y_axis + *z * m.z_axis + *t * translation;
            }
        }
        let [x, y, z, translation] = columns;
        Affine3A { matrix3: Mat3A::from_cols(x, y, z), translation }
    }

    pub(crate) fn write(&self, writer: &mut TensorWriter) {
        self.ranges.write("ranges", writer);
        self.predictors.write("predictors", writer);
        self.c1.write("c1", writer);
        self.c2.write("c2", writer);
        writer.skin("proxy_skin", &self.skin);
        if !self.points.is_empty() {
            writer.f32(POINTS, &[self.skin.vertex_count(), self.skin.width, 4], self.points.as_flattened());
        }
    }

    pub(crate) fn read(reader: &TensorReader) -> Result<Self, ModelError> {
        Ok(Self {
            ranges: JointRanges::read("ranges", reader)?,
            predictors: GradientPredictors::read("predictors", reader)?,
            c1: BlockRows::read("c1", reader)?,
            c2: BlockRows::read("c2", reader)?,
            points: match reader.has(POINTS) {
                true => {
                    let width = reader.width(POINTS);
                    reader.f32(POINTS, &[None, Some(width), Some(4)])?.as_chunks().0.to_vec()
                }
                false => Vec::new(),
            },
            skin: reader.skin("proxy_skin")?,
        })
    }
}
