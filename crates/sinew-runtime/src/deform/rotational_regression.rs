//! Rotational regression enveloping, reduced (Wang, Pulli and Popović, 2007; the thesis has the matrices):
//! predictors give P key gradients d(q); proxy bones follow from them and from the skeleton, `t = c₁ d + c₂ q`; vertices
//! are drawn by palette skinning over proxy bones and bones together.
//!
//! Every term of the paper's Poisson equation treats x, y and z alike, so its matrices C₁ (12P × 9P) and C₂ (12P × 12J)
//! are `c₁ ⊗ I₃` and `c₂ ⊗ I₃`. We store and run c₁ (4P × 3P) and c₂ (4P × 4J): column r of a proxy's transform is a
//! sum of the columns of the key gradients and of the bones' transforms. Blocks that do not matter are left out.

use glam::{Affine3A, Mat3A, Vec3A};

use super::linear_blend::{skin_positions, skinning_cost};
use super::{BlockRows, Cost, GradientPredictors, Scratch};
use crate::file::{TensorReader, TensorWriter};
use crate::joint_rotations::{JointRanges, JointRotations};
use crate::kernel::lanes::{Instructions, Row};
use crate::kernel::regress::{Predict, Proxies, Regression};
use crate::{Character, ModelError, PosedSkeleton, Skin};

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
}

/// A regression laid out for its kernels.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    /// The joints that predictors see, ascending.
    used: Vec<u16>,
    regression: Regression,
}

/// Memory of the kernels, reused from frame to frame.
#[derive(Debug, Clone, Default)]
pub(crate) struct RegressionRoom {
    /// (P).
    sums: Vec<[Row; 2]>,
    /// (P, 3).
    gradients: Vec<Row>,
    /// (J, 4).
    bones: Vec<Row>,
    /// (P).
    transforms: Vec<[Row; 2]>,
}

/// A column in both halves of a row.
fn twice([x, y, z]: [f32; 3]) -> Row {
    Row([x, y, z, 0.0, x, y, z, 0.0])
}

impl RotationalRegression {
    pub(crate) const KIND: &'static str = "rotational-regression";

    /// The number of proxy bones, P.
    #[must_use]
    pub fn proxy_count(&self) -> usize {
        self.predictors.len()
    }

    pub(crate) fn check(&self, character: &Character) -> Result<(), ModelError> {
        let (proxies, bones) = (self.proxy_count(), character.bones.len());
        self.ranges.check("ranges", bones)?;
        self.predictors.check("predictors", character)?;
        self.c1.check("c1", proxies, proxies)?;
        self.c2.check("c2", proxies, bones)?;
        self.skin.check("proxy_skin", character.vertex_count(), proxies + bones)
    }

    pub(crate) fn cost(&self, character: &Character) -> Cost {
        let skinning = skinning_cost(&self.skin);
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
            regression: RegressionRoom {
                sums: vec![<[Row; 2]>::default(); self.proxy_count()],
                gradients: vec![Row::default(); 3 * self.proxy_count()],
                bones: vec![Row::default(); 4 * character.bones.len()],
                transforms: vec![<[Row; 2]>::default(); self.proxy_count()],
            },
            proxy_deltas: Vec::with_capacity(self.proxy_count()),
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
        skin_positions(&self.skin, &scratch.palette, &character.rest_positions, out);
    }

    /// Fills `scratch.palette` (P + J) with transforms from the rest mesh to the posed one, both in the world.
    pub(crate) fn pose_palette(&self, posed: &PosedSkeleton, scratch: &mut Scratch) {
        scratch.joints.set(posed, &self.ranges.reference);
        for (k, gradient) in scratch.gradients.iter_mut().enumerate() {
            *gradient = self.predictors.gradient(k, &scratch.joints);
        }
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

    /// The same as [`Self::pose_palette`] by the kernels of `prepared`, and the logarithms of the joints that predictors
    /// see only.
    pub(crate) fn fast_palette(
        &self,
        prepared: &Prepared,
        instructions: Instructions,
        posed: &PosedSkeleton,
        scratch: &mut Scratch,
    ) {
        let Scratch { joints, gradients, palette, proxy_deltas, regression: room, .. } = scratch;
        joints.set_used(posed, &self.ranges.reference, &prepared.used);
        let (features, predictors) = (&joints.features[..], &self.predictors);
        let regression = &prepared.regression;
        instructions.run(Predict { regression, predictors, features, sums: &mut room.sums });
        for (k, sums) in room.sums.iter().enumerate() {
            gradients[k] = predictors.compose(k, joints, sums);
            for (row, column) in room.gradients[3 * k..].iter_mut().zip(gradients[k].to_cols_array().as_chunks::<3>().0)
            {
                *row = twice(*column);
            }
        }
        for (rows, bone) in room.bones.as_chunks_mut::<4>().0.iter_mut().zip(&posed.relative) {
            let m = &bone.matrix3;
            *rows = [m.x_axis, m.y_axis, m.z_axis, bone.translation].map(|column| twice(column.to_array()));
        }
        let (columns, bones, transforms) = (&room.gradients[..], &room.bones[..], &mut room.transforms[..]);
        instructions.run(Proxies { regression, model: self, gradients: columns, bones, transforms });
        let (proxies, bones) = palette.split_at_mut(self.proxy_count());
        bones.copy_from_slice(&posed.world);
        let from_world = posed.rest_frame.inverse();
        for (p, (proxy, [xy, zt])) in proxies.iter_mut().zip(&room.transforms).enumerate() {
            let column = |row: &Row, half: usize| Vec3A::from_slice(&row.0[4 * half..4 * half + 3]);
            let mut transform = Affine3A {
                matrix3: Mat3A::from_cols(column(xy, 0), column(xy, 1), column(zt, 0)),
                translation: column(zt, 1),
            };
            if let Some(delta) = proxy_deltas.get(p) {
                transform.matrix3 += delta.matrix3;
                transform.translation += delta.translation;
            }
            *proxy = posed.frame * transform * from_world;
        }
    }

    /// What [`Self::fast_palette`] needs, laid out once.
    pub(crate) fn prepared(&self) -> Prepared {
        let mut used = self.predictors.joints.clone();
        used.sort_unstable();
        used.dedup();
        Prepared { used, regression: Regression::new(self) }
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
    }

    pub(crate) fn read(reader: &TensorReader) -> Result<Self, ModelError> {
        Ok(Self {
            ranges: JointRanges::read("ranges", reader)?,
            predictors: GradientPredictors::read("predictors", reader)?,
            c1: BlockRows::read("c1", reader)?,
            c2: BlockRows::read("c2", reader)?,
            skin: reader.skin("proxy_skin")?,
        })
    }
}
