//! What a pose comes down to before any vertex is touched: the few hundred numbers that a GPU is sent each frame.

use glam::{Affine3A, Mat3A};

use crate::deform::to_dual;
use crate::posed::{nearest_rotation, rigid_part};
use crate::{Deformer, Evaluator};

/// A pose as the last stages of the methods read it: with [`Self::excess`] the pose held within the trained ranges.
/// Everything borrows from the evaluator.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    /// From the root's frame to the world, F.
    pub frame: Affine3A,
    /// From the root's frame in the rest pose to the world, F̂.
    pub rest_frame: Affine3A,
    /// `G_b Ĝ_b⁻¹`, (J): rest to posed, both in the world.
    pub world: &'a [Affine3A],
    /// The same within the root's frame, (J): the thesis's q.
    pub relative: &'a [Affine3A],
    /// Key gradients in the root's frame, (P): the thesis's d(q). Empty without proxy bones.
    pub gradients: &'a [Mat3A],
    /// Half-way joints and bones in the world, as their skin counts them. Empty for other methods.
    pub palette: &'a [Affine3A],
    /// What a correction adds to the proxy bones' transforms in the root's frame, (P) or empty.
    pub proxy_deltas: &'a [Affine3A],
    /// What carries vertices on from the held pose, X_b in the world, (J): `v = Σ_b w_b X_b v′`, v′ being the vertex drawn
    /// in the held pose and w the weights of [`smooth_skin`](crate::smooth_skin). Empty within the trained ranges, and for
    /// models that hold no whole pose.
    pub excess: &'a [Affine3A],
    /// Component weights of a vertex correction, region after region; empty without one.
    pub component_weights: &'a [f32],
}

impl Inputs<'_> {
    /// The bones' dual quaternions in the root's frame, (J): real and dual part, x, y, z, w each. Their scale is dropped.
    pub fn duals(&self) -> impl Iterator<Item = [[f32; 4]; 2]> + '_ {
        self.relative.iter().map(|&t| bytemuck::cast(to_dual(rigid_part(t)).0))
    }

    /// The rotation of bone `b` in the world, its scale dropped.
    #[must_use]
    pub fn rotation(&self, b: usize) -> Mat3A {
        self.frame.matrix3 * nearest_rotation(self.relative[b].matrix3)
    }
}

impl Evaluator<'_> {
    /// Prepares a pose without posing any vertex. Panics if `pose` does not have the model's number of bones.
    pub fn inputs(&mut self, pose: &[Affine3A]) -> Inputs<'_> {
        self.set_inputs(pose);
        self.with_gradients()
    }

    /// The same without key gradients, for those who predict them elsewhere. With them all the same if the pose is beyond
    /// the trained ranges and not held as a whole: what is to be done there is done here.
    pub fn pose_only(&mut self, pose: &[Affine3A]) -> Inputs<'_> {
        self.set_inputs(pose);
        if self.posed.beyond { self.with_gradients() } else { self.borrowed(false) }
    }

    fn with_gradients(&mut self) -> Inputs<'_> {
        if let Deformer::RotationalRegression(d) = &self.model.deformer {
            d.key_gradients(&self.posed, &mut self.scratch);
        }
        self.borrowed(true)
    }

    fn set_inputs(&mut self, pose: &[Affine3A]) {
        self.set_posed(pose);
        self.set_proxy_deltas();
        let Self { model, posed, scratch, .. } = self;
        match &model.deformer {
            Deformer::HalfWay(d) => d.pose_palette(&model.character, posed, scratch),
            // What tells whether a pose is within the trained ranges reads them.
            Deformer::RotationalRegression(_) => {
                let held = std::mem::take(&mut self.carried.held);
                self.set_bones(if self.carried.beyond { &held } else { pose });
                self.carried.held = held;
            }
            _ => {}
        }
    }

    fn borrowed(&mut self, gradients: bool) -> Inputs<'_> {
        let component_weights = match self.model.vertex_correction() {
            Some(c) => c.component_weights(&self.model.character, &self.posed, self.correction_scratch.vertices_mut()),
            None => &[],
        };
        let half_way = matches!(self.model.deformer, Deformer::HalfWay(_));
        Inputs {
            frame: self.posed.frame,
            rest_frame: self.posed.rest_frame,
            world: &self.posed.world,
            relative: &self.posed.relative,
            gradients: if gradients { &self.scratch.gradients } else { &[] },
            palette: if half_way { &self.scratch.palette } else { &[] },
            proxy_deltas: &self.scratch.proxy_deltas,
            excess: if self.carried.beyond { &self.carried.excess } else { &[] },
            component_weights,
        }
    }
}
