//! Model + pose → vertices, again and again, without allocating.

use std::sync::Arc;

use glam::Affine3A;

use crate::beyond::Beyond;
use crate::bounds::{Aabb, Bounds};
use crate::carry::{Carried, Carry};
use crate::correction::{CorrectionScratch, VertexCorrection};
use crate::deform::Scratch;
use crate::kernel::blend::{self, BlendSkin};
use crate::kernel::lanes::Instructions;
use crate::kernel::one_ring::OneRing;
use crate::kernel::regress::Regression;
use crate::kernel::turn::{self, Turn, TurningSkin};
use crate::kernel::{Matrix, Scatter};
use crate::plan::{Palette, Plan};
use crate::posed::{centred_rest, nearest_rotation};
use crate::{Correction, Deformer, Model, PosedSkeleton};

/// What an evaluator is prepared for.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Whether normals will be asked for; they cost construction time and memory. Default: no.
    pub normals: bool,
    /// Which instructions to use. Default: the fastest that the processor has.
    pub instructions: Instructions,
    /// Whether to spread the work over rayon's threads. Results are the same to the bit. Default: no.
    #[cfg(feature = "rayon")]
    pub threads: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            normals: false,
            instructions: Instructions::detect(),
            #[cfg(feature = "rayon")]
            threads: false,
        }
    }
}

/// Poses a model. Owns its scratch memory, borrows the model; one per thread. A clone shares what was prepared and
/// costs only scratch memory.
#[derive(Clone)]
pub struct Evaluator<'model> {
    pub(crate) model: &'model Model,
    options: Options,
    plan: Arc<Plan>,
    /// Rotational regression laid out for its kernel.
    regression: Option<Arc<Regression>>,
    /// What holds poses within rotational regression's trained ranges.
    beyond: Option<Arc<Beyond>>,
    /// The same if vertices are drawn from points, and the held pose.
    carry: Option<Arc<Carry>>,
    pub(crate) carried: Carried,
    normals: Option<Normals>,
    pub(crate) posed: PosedSkeleton,
    pub(crate) scratch: Scratch,
    pub(crate) correction_scratch: CorrectionScratch,
    /// The palette that the plan reads.
    matrices: Vec<Matrix>,
    #[cfg(feature = "rayon")]
    threads: crate::threads::Packed,
}

/// What normals need besides the plan.
#[derive(Clone)]
struct Normals {
    ring: OneRing,
    turning: Turning,
}

/// What turns the rest normals.
#[derive(Clone)]
enum Turning {
    /// A skin's matrices, with the positions; and room for the palette spread for its kernel.
    Skin(Arc<BlendSkin>, Vec<blend::Spread>),
    /// Weights that give no positions; and room for the palette in whole numbers.
    Weights(Arc<TurningSkin>, Vec<Turn>),
}

impl<'model> Evaluator<'model> {
    /// Prepares `model` for positions.
    #[must_use]
    pub fn new(model: &'model Model) -> Self {
        Self::with(model, Options::default())
    }

    /// Prepares `model` as `options` say.
    #[must_use]
    pub fn with(model: &'model Model, options: Options) -> Self {
        let character = &model.character;
        let plan = if options.instructions == Instructions::Plain { Plan::Direct } else { Plan::new(model) };
        let mut scratch = model.deformer.scratch(character);
        let regression = match &model.deformer {
            Deformer::RotationalRegression(d) if options.instructions != Instructions::Plain => {
                let regression = Regression::new(d, model.proxy_correction(), &model.watched_joints(d), character);
                scratch.regression = regression.room();
                Some(Arc::new(regression))
            }
            _ => None,
        };
        let (beyond, carry) = match &model.deformer {
            Deformer::RotationalRegression(d) if d.points.is_empty() => (Some(Arc::new(Beyond::new(model, d))), None),
            Deformer::RotationalRegression(d) => (None, Some(Arc::new(Carry::new(model, d, &plan)))),
            _ => (None, None),
        };
        let normals = options.normals.then(|| Normals::new(model));
        Self {
            model,
            options,
            regression,
            beyond,
            carried: carry.as_ref().map_or_else(Carried::default, |_| Carried::new(character.bones.len())),
            carry,
            normals,
            posed: PosedSkeleton::new(character),
            scratch,
            correction_scratch: model.correction.as_ref().map(Correction::scratch).unwrap_or_default(),
            matrices: vec![Matrix::default(); palette_len(model)],
            #[cfg(feature = "rayon")]
            threads: crate::threads::Packed::new(&plan, character.vertex_count(), options.threads),
            plan: Arc::new(plan),
        }
    }

    /// Vertex positions for a pose: global bone transforms in the order of the model's bones. Panics if `pose` does not
    /// have the model's number of bones or `positions` its number of vertices.
    pub fn positions(&mut self, pose: &[Affine3A], positions: &mut [[f32; 3]]) {
        assert_eq!(positions.len(), self.model.character.vertex_count(), "one position a vertex");
        self.prepare(pose);
        self.run(positions);
        self.correct(positions);
    }

    /// Vertex positions of many characters that share the model: `poses` is (N, J), `positions` (N, V), one character
    /// after the other. Panics if the lengths do not fit.
    pub fn crowd(&mut self, poses: &[Affine3A], positions: &mut [[f32; 3]]) {
        let (bones, vertices) = (self.model.character.bones.len(), self.model.character.vertex_count());
        assert_eq!(poses.len() % bones, 0, "one global transform a bone and character");
        assert_eq!(positions.len(), poses.len() / bones * vertices, "one position a vertex and character");
        #[cfg(feature = "rayon")]
        if self.options.threads {
            // Over characters first; what is left of a thread's time goes to the blocks of one of them.
            use rayon::prelude::*;
            let characters = poses.par_chunks(bones).zip(positions.par_chunks_mut(vertices.max(1)));
            characters.for_each_init(|| self.clone(), |own, (pose, positions)| own.positions(pose, positions));
            // The clones are gone; the last pose is to be this evaluator's all the same.
            if let Some(last) = poses.chunks_exact(bones).next_back() {
                self.prepare(last);
            }
            return;
        }
        // Not a few blocks of several characters at a time, so that blocks are read once for all of them: reading hardly costs
        // anything beside multiplying, even from the third-level cache, and turning from one character's memory to another's
        // does. On Zen 4, with results that leave the caches, a crowd took 15 to 25 % longer that way, whatever the number of
        // characters and blocks; with results that stay, as long.
        for (pose, positions) in poses.chunks_exact(bones).zip(positions.chunks_exact_mut(vertices.max(1))) {
            self.positions(pose, positions);
        }
    }

    /// How far the last pose lies outside the joint ranges that the model was trained on: the joint farthest out, and
    /// by how many radians. The last pose is the latest that any method of the evaluator was given, of a crowd the last
    /// character's. Nothing if it lies within, or if the model's method does not know its ranges.
    #[must_use]
    pub fn outside_training(&self) -> Option<(usize, f32)> {
        let ranges = self.model.deformer.ranges()?;
        let joints = &self.scratch.joints;
        let Deformer::RotationalRegression(d) = &self.model.deformer else {
            return joints.outside(ranges, |b| nearest_rotation(self.posed.relative[b].matrix3));
        };
        let (frame, rest_frame) = (self.posed.frame.matrix3, self.posed.rest_frame.matrix3);
        let world = &self.matrices[d.proxy_count()..];
        joints.outside(ranges, |b| {
            let mut turn = Affine3A::from(&world[b]).matrix3;
            if self.carried.beyond {
                turn = self.carried.excess[b].matrix3 * turn;
            }
            nearest_rotation(frame.transpose() * turn * rest_frame)
        })
    }

    /// The palette of the last pose, if the method draws vertices by proxy bones: transforms from the rest mesh to the
    /// posed one, both in the world, of the proxy bones (P) and then of the skeleton's bones (J). Empty otherwise. The last
    /// pose is the latest that positions or boxes were asked for; [`Self::inputs`] leaves the proxy bones where they are.
    pub fn palette(&self) -> impl ExactSizeIterator<Item = Affine3A> + '_ {
        let proxies = matches!(self.model.deformer, Deformer::RotationalRegression(_));
        let count = if proxies { self.matrices.len() } else { 0 };
        let to_centre = Affine3A::from_translation((-self.posed.rest_frame.translation).into());
        let carry = self.carry.as_ref().filter(|_| self.carried.beyond);
        self.matrices[..count].iter().enumerate().map(move |(i, matrix)| {
            let entry = Affine3A::from(matrix) * to_centre;
            carry.map_or(entry, |carry| carry.entry(&self.carried, i) * entry)
        })
    }

    /// A box around every block of `bounds` in a pose, in O(blocks): no vertex is looked at. `bounds` must be of this
    /// evaluator's model.
    pub fn bounds(&mut self, bounds: &Bounds, pose: &[Affine3A], boxes: &mut Vec<Aabb>) {
        self.set_posed(pose);
        let character = &self.model.character;
        self.set_proxy_deltas();
        match &self.model.deformer {
            Deformer::RotationalRegression(_) => {
                self.set_plain_palette();
                bounds.pose(&self.scratch.palette, boxes);
                if self.carried.beyond {
                    bounds.carry(&self.carried.excess, boxes);
                }
            }
            _ => bounds.pose(&self.posed.world, boxes),
        }
        if let Some(correction) = self.model.vertex_correction() {
            let scratch = self.correction_scratch.vertices_mut();
            correction.component_weights(character, &self.posed, scratch);
            let weights = |r: usize| VertexCorrection::region_weights(scratch, r);
            bounds.displace(weights, |bone| VertexCorrection::turn(&self.posed, bone), boxes);
        }
    }

    /// The number of vertices, V.
    #[must_use]
    pub fn vertex_count(&self) -> usize {
        self.model.character.vertex_count()
    }

    /// How many (vertex, joint) pairs the kernel computes a frame, lanes that only fill up a block included; 0 if the
    /// method has no kernel. Over the number of influences that is what blocks cost.
    #[must_use]
    pub fn pairs_computed(&self) -> usize {
        self.plan.pairs()
    }

    /// Positions, and normals turned by the palette: the rest normals moved by each vertex's blended matrix, as engines
    /// do it. Cheap; of length one to within 4e-4; wrong where the skin bulges, for that is not in the matrix.
    ///
    /// Methods that do not blend matrices for their positions (all but linear blend skinning, half-way joints and
    /// rotational regression) have them turned approximately: a vertex's lightest weights, up to a hundredth of them all,
    /// count for its heaviest joint, and the rest is rounded to 16 bits. With k joints a vertex, turned from each other by
    /// up to θ, and weights that are not negative the direction is off by at most 2 sin(θ/2) · 0.01 + 5e-5 (k + 1) radians,
    /// over the length of the blended normal: 0.6° for four joints at 60°.
    ///
    /// Panics as [`Self::positions`] does, and without [`Options::normals`].
    pub fn positions_and_palette_normals(
        &mut self,
        pose: &[Affine3A],
        positions: &mut [[f32; 3]],
        normals: &mut [[f32; 3]],
    ) {
        assert_eq!(normals.len(), self.model.character.vertex_count(), "one normal a vertex");
        let prepared = self.normals.as_ref().expect("prepared with Options { normals: true, .. }");
        if matches!(prepared.turning, Turning::Weights(..)) {
            self.positions(pose, positions);
            // It has them for its positions already.
            if !matches!(self.model.deformer, Deformer::RotationalRegression(_)) {
                self.posed.world_palette(pose, &mut self.matrices);
            }
            self.run_normals(positions, normals);
            if let Some(carry) = self.carry.as_ref().filter(|_| self.carried.beyond) {
                carry.normals(&self.model.character, &self.carried, normals);
            }
        } else {
            assert_eq!(positions.len(), self.model.character.vertex_count(), "one position a vertex");
            self.prepare(pose);
            self.run_normals(positions, normals);
            self.correct(positions);
        }
    }

    /// Positions, and normals from the posed triangles, each weighted by its area. Panics as [`Self::positions`] does,
    /// and without [`Options::normals`].
    pub fn positions_and_normals(&mut self, pose: &[Affine3A], positions: &mut [[f32; 3]], normals: &mut [[f32; 3]]) {
        assert_eq!(normals.len(), self.model.character.vertex_count(), "one normal a vertex");
        self.positions(pose, positions);
        let prepared = self.normals.as_mut().expect("prepared with Options { normals: true, .. }");
        prepared.ring.normals(&self.model.character.triangles, positions, normals);
    }

    /// Fills the palette for `pose`.
    pub(crate) fn prepare(&mut self, pose: &[Affine3A]) {
        let Self { model, plan, regression, .. } = self;
        let direct = matches!(**plan, Plan::Direct);
        // These take the bones' transforms straight from the pose.
        let own_palette = regression.is_some()
            || matches!(
                model.deformer,
                Deformer::LinearBlend(_) | Deformer::AnimationSpace(_) | Deformer::MultiWeight(_)
            );
        // The kernel has the proxies' correction in it.
        let deltas = regression.is_none() && model.proxy_correction().is_some();
        if !own_palette || direct || deltas || model.vertex_correction().is_some() {
            self.set_posed(pose);
        } else {
            self.posed.set_frame(pose);
        }
        if deltas {
            self.set_proxy_deltas();
        }
        let Self { model, posed, scratch, matrices, options, regression, .. } = self;
        match &model.deformer {
            Deformer::LinearBlend(_) => posed.world_palette(pose, matrices),
            Deformer::AnimationSpace(_) => posed.global_palette(pose, matrices),
            Deformer::MultiWeight(_) => posed.relative_palette(pose, matrices),
            Deformer::DualQuaternion(d) => d.palette(posed, scratch),
            Deformer::HalfWay(d) => {
                d.pose_palette(&model.character, posed, scratch);
                for (matrix, transform) in matrices.iter_mut().zip(&scratch.palette) {
                    *matrix = transform.into();
                }
            }
            Deformer::RotationalRegression(d) => match regression {
                Some(regression) => {
                    let mut predict = |pose: &[Affine3A], posed: &PosedSkeleton, whole: bool| {
                        posed.centred_palette(pose, &mut matrices[d.proxy_count()..]);
                        d.fast_palette(regression, options.instructions, posed, scratch, matrices, whole);
                        scratch.regression.beyond
                    };
                    let Some(carry) = &self.carry else {
                        predict(pose, posed, true);
                        return;
                    };
                    self.carried.beyond = predict(pose, posed, false);
                    if self.carried.beyond {
                        carry.hold(pose, posed, &mut self.carried);
                        predict(if self.carried.beyond { &self.carried.held } else { pose }, posed, true);
                    }
                }
                None => self.set_plain_palette(),
            },
            // It has no palette: `deform` does everything.
            Deformer::FullGradients(_) => {}
        }
    }

    /// Takes a pose, held within the trained ranges if the model has some to keep.
    pub(crate) fn set_posed(&mut self, pose: &[Affine3A]) {
        if let Some(carry) = &self.carry {
            return carry.hold(pose, &mut self.posed, &mut self.carried);
        }
        self.posed.set(pose);
        if let Some(beyond) = &self.beyond {
            beyond.hold(&mut self.posed, &mut self.scratch.carries);
        }
    }

    /// The palette of a regression without its kernel.
    fn set_plain_palette(&mut self) {
        let Self { model, posed, scratch, matrices, .. } = self;
        if let Deformer::RotationalRegression(d) = &model.deformer {
            d.pose_palette(posed, scratch);
            let from_centre = Affine3A::from_translation(posed.rest_frame.translation.into());
            for (matrix, &transform) in matrices.iter_mut().zip(&scratch.palette) {
                *matrix = (&(transform * from_centre)).into();
            }
        }
    }

    /// What the correction adds to the proxy bones in the pose that was set.
    pub(crate) fn set_proxy_deltas(&mut self) {
        let Self { model, posed, scratch, correction_scratch, .. } = self;
        if let (Some(correction), Some(ranges)) = (&model.correction, model.deformer.ranges()) {
            let (reference, carries) = (&ranges.reference, &scratch.carries);
            let deltas = correction.proxy_deltas(&model.character, posed, reference, carries, correction_scratch);
            self.scratch.proxy_deltas.clear();
            self.scratch.proxy_deltas.extend_from_slice(deltas);
        }
    }

    /// The skeleton's bones at the end of a regression's palette.
    pub(crate) fn set_bones(&mut self, pose: &[Affine3A]) {
        let first = self.matrices.len() - pose.len();
        self.posed.centred_palette(pose, &mut self.matrices[first..]);
    }

    /// Poses every vertex with the palette that was prepared, and carries it on if the pose was held.
    fn run(&mut self, positions: &mut [[f32; 3]]) {
        let Self { model, plan, posed, scratch, matrices, options, carry, carried, .. } = self;
        let carry = carry.as_ref().filter(|_| carried.beyond);
        if matches!(**plan, Plan::Direct) {
            model.deformer.deform(&model.character, posed, scratch, positions);
            if let Some(carry) = carry {
                carry.positions(carried, positions);
            }
            return;
        }
        let palette = Palette { matrices, duals: &scratch.dual, frame: (&posed.frame).into() };
        let carry = carry.and_then(|carry| carry.registers(carried));
        #[cfg(feature = "rayon")]
        if options.threads {
            self.threads.run(plan, options.instructions, &palette, carry, positions);
            return;
        }
        plan.run_carried(options.instructions, &palette, carry, 0..plan.blocks(), Scatter(positions));
    }

    /// Adds the correction, if there is one.
    fn correct(&mut self, positions: &mut [[f32; 3]]) {
        if let Some(correction) = &self.model.correction {
            let scratch = &mut self.correction_scratch;
            correction.add_to_positions(&self.model.character, &self.posed, scratch, positions);
        }
    }

    /// Turns the rest normals with the palette that was prepared; and poses the vertices, if the same kernel does.
    fn run_normals(&mut self, positions: &mut [[f32; 3]], normals: &mut [[f32; 3]]) {
        let Self { normals: prepared, matrices: palette, options, .. } = self;
        let (put, put_normal) = (Scatter(positions), Scatter(normals));
        match prepared.as_mut().map(|prepared| &mut prepared.turning) {
            Some(Turning::Skin(skin, spread)) => {
                options.instructions.run(blend::PositionsAndNormals { skin, palette, spread, put, put_normal });
            }
            Some(Turning::Weights(skin, turns)) => {
                options.instructions.run_pairs(turn::Normals { skin, palette, turns, put: put_normal });
            }
            None => {}
        }
    }
}

impl Turning {
    fn weights(skin: TurningSkin) -> Self {
        let room = skin.room();
        Self::Weights(Arc::new(skin), room)
    }
}

impl Normals {
    fn new(model: &Model) -> Self {
        let character = &model.character;
        let mut ring = OneRing::new(character.vertex_count(), &character.triangles);
        let mut rest = vec![[0.0; 3]; character.vertex_count()];
        ring.normals(&character.triangles, &character.rest_positions, &mut rest);
        let turning = match (&model.deformer, model.deformer.palette_skin(character)) {
            (Deformer::RotationalRegression(d), _) if !d.points.is_empty() => {
                Turning::weights(TurningSkin::new(&rest, |v| d.skin.vertex(v)))
            }
            (deformer, Some(skin)) => {
                let centred = matches!(deformer, Deformer::RotationalRegression(_)).then(|| centred_rest(character));
                let positions = centred.as_ref().unwrap_or(&character.rest_positions);
                let skin = BlendSkin::new(skin, positions, &rest);
                let room = skin.room();
                Turning::Skin(Arc::new(skin), room)
            }
            (Deformer::AnimationSpace(d), _) => {
                Turning::weights(TurningSkin::new(&rest, |v| d.vertex(v).map(|(joint, [.., weight])| (joint, weight))))
            }
            _ => Turning::weights(TurningSkin::new(&rest, |v| character.skin.vertex(v))),
        };
        Self { ring, turning }
    }
}

/// How many matrices the model's last stage reads.
fn palette_len(model: &Model) -> usize {
    let bones = model.character.bones.len();
    match &model.deformer {
        Deformer::HalfWay(d) => d.extras.len() + bones,
        Deformer::RotationalRegression(d) => d.proxy_count() + bones,
        _ => bones,
    }
}
