//! Bounds for culling: boxes and spheres that no vertex of a block ever leaves, for any pose, in O(blocks) a pose.
//!
//! The palette methods (linear blend skinning, animation space, reduced rotational regression) all draw
//! `v = Σ_j T_j p_vj` with weights that sum to one. With a pivot o (the block's rest centre), `x = p.xyz − o w` and the block's
//! heaviest joint d this is
//!
//!   v = T_d o + Σ_j R_j x_vj + Σ_j w_vj (T_j o − T_d o).
//!
//! Over the vertices of a block x and w lie in boxes `c ± h`, so v lies in a box whose centre puts c for both and whose
//! half side is `Σ_j |R_j| h_j + Σ_j h_w |T_j o − T_d o|`. Nothing is assumed of the T: bones may scale and shear. Merry,
//! Marais and Gain 2006 name such bounds as future work (§8).
//!
//! Points on several joints may differ much from vertex to vertex and still add up to the same place. So v is bounded a second
//! time, with X_v = Σ_j x_vj in a box of its own and `Σ_j R_j x_vj = R_d X_v + Σ_j (R_j − R_d) x_vj`: joints that turn
//! alike add next to nothing. It lies in both boxes.
//!
//! A correction of proxy bones is in their transforms already. One of vertices adds `Q_b Σ_k a_k B_kv`, and over a block B_k
//! lies in a box too.
//!
//! A model with points draws a held pose beyond its trained ranges and carries the vertices on, `v = Σ_b w_b X_b v′` (see
//! `carry`). With v′ in its box, and so `X_b v′` in one with upper ends u_b, and w_b from `least_b` to `most_b`, for any μ
//!
//!   v ≤ μ + Σ_b max(most_b (u_b − μ), least_b (u_b − μ)),
//!
//! because the w_b sum to one. The μ that says most is one of the u_b.

use glam::{Affine3A, Mat3A, Vec3, Vec3A};

use crate::carry::smooth_skin;
use crate::correction::VertexCorrection;
use crate::{Deformer, Model, ModelError, Skin};

/// Vertices a block by default: small enough to be tight, large enough to be few.
pub const BLOCK_SIZE: usize = 64;

/// How much a bound is widened, relative to the sizes that are summed: some thirty roundings in f32.
const SLACK: f32 = 4e-6;

/// An axis-aligned box.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Aabb {
    /// The lowest corner.
    pub low: Vec3,
    /// The highest corner.
    pub high: Vec3,
}

impl Aabb {
    /// Nothing yet: the union with it is the other box.
    pub const EMPTY: Self = Self { low: Vec3::INFINITY, high: Vec3::NEG_INFINITY };

    /// The box around both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// The box around `points`.
    #[must_use]
    pub fn around(points: impl IntoIterator<Item = Vec3>) -> Self {
        points.into_iter().fold(Self::EMPTY, |all, p| all.union(Self { low: p, high: p }))
    }

    /// Whether `point` is inside or on the box.
    #[must_use]
    pub fn contains(&self, point: Vec3) -> bool {
        point.cmpge(self.low).all() && point.cmple(self.high).all()
    }

    /// The sphere around the box: (centre, radius).
    #[must_use]
    pub fn sphere(&self) -> (Vec3, f32) {
        ((self.low + self.high) / 2.0, (self.high - self.low).length() / 2.0 * (1.0 + SLACK))
    }

    /// The length of the diagonal; nil for an empty box.
    #[must_use]
    pub fn diagonal(&self) -> f32 {
        (self.high - self.low).max(Vec3::ZERO).length()
    }
}

/// What a joint does to a block: the box of x and w over its vertices.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// The palette's joint.
    pub joint: usize,
    /// The middle of x.
    pub centre: Vec3,
    /// Half the sides of the box of x.
    pub half: Vec3,
    /// The middle of w.
    pub weight: f32,
    /// Half the range of w.
    pub half_weight: f32,
}

/// What a part of a vertex correction does to a block: the box of its components over the block's vertices.
#[derive(Debug, Clone, PartialEq)]
pub struct Displacement {
    /// The region whose component weights count.
    pub region: usize,
    /// The bone in whose rotated frame the displacements stand.
    pub bone: usize,
    /// The middles of the components' boxes, (K).
    pub centres: Vec<Vec3>,
    /// Half their sides, (K).
    pub halves: Vec<Vec3>,
}

/// How much of a block a bone carries on from a held pose: its weight there over the block's vertices.
#[derive(Debug, Clone, PartialEq)]
pub struct Share {
    /// The bone.
    pub bone: usize,
    /// Its smallest weight.
    pub least: f32,
    /// Its largest weight.
    pub most: f32,
}

/// Vertices that are bounded together.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// The vertices, ascending.
    pub vertices: Vec<u32>,
    /// The pivot in rest world space.
    pub pivot: Vec3,
    /// The terms, the heaviest joint first.
    pub terms: Vec<Term>,
    /// The middle and the half side of the box of X_v.
    pub sum: [Vec3; 2],
    /// What a correction of vertices adds; nothing without one.
    pub displacements: Vec<Displacement>,
    /// The bones that carry the block on beyond the trained ranges, ascending; none if the model draws no points.
    pub shares: Vec<Share>,
}

/// The blocks of a model. Every vertex is in exactly one.
#[derive(Debug, Clone, PartialEq)]
pub struct Bounds {
    /// The blocks; those of one heaviest joint stand together.
    pub blocks: Vec<Block>,
}

impl Bounds {
    /// The blocks of `model`, at most `block_size` vertices each.
    pub fn new(model: &Model, block_size: usize) -> Result<Self, ModelError> {
        let rows = rows(model)?;
        let rest: Vec<Vec3> = model.character.rest_positions.iter().map(|&p| p.into()).collect();
        let heaviest = |v: &u32| {
            let row = &rows[*v as usize];
            let strongest = |a: &&(usize, [f32; 4]), b: &&(usize, [f32; 4])| a.1[3].abs().total_cmp(&b.1[3].abs());
            row.iter().rev().max_by(strongest).map_or(0, |pair| pair.0)
        };
        let mut vertices: Vec<u32> = (0..rest.len() as u32).collect();
        vertices.sort_by_key(|v| (heaviest(v), *v));
        let mut blocks = Vec::new();
        for together in vertices.chunk_by(|a, b| heaviest(a) == heaviest(b)) {
            split(together.to_vec(), &rest, block_size.max(1), &mut |vertices| {
                let joint = heaviest(&vertices[0]);
                blocks.push(Block::new(vertices, joint, &rows, &rest));
            });
        }
        if let Some(correction) = model.vertex_correction() {
            blocks.iter_mut().for_each(|block| block.displacements = displacements(block, correction));
        }
        if matches!(&model.deformer, Deformer::RotationalRegression(d) if !d.points.is_empty()) {
            let skin = smooth_skin(&model.character);
            blocks.iter_mut().for_each(|block| block.shares = shares(block, &skin));
        }
        Ok(Self { blocks })
    }

    /// A box for every block in a pose, (blocks). `palette` are the transforms from the rest mesh to the posed one, as
    /// [`Evaluator::bounds`](crate::Evaluator::bounds) makes them.
    pub fn pose(&self, palette: &[Affine3A], out: &mut Vec<Aabb>) {
        out.clear();
        out.extend(self.blocks.iter().map(|block| block.pose(palette)));
    }

    /// Carries each box on from the held pose, as the vertices in it are; `excess` is X_b of every bone in the world, (J).
    pub(crate) fn carry(&self, excess: &[Affine3A], boxes: &mut [Aabb]) {
        for (block, bound) in self.blocks.iter().zip(boxes) {
            *bound = block.carried(excess, *bound);
        }
    }

    /// Adds what a correction of vertices may add to each box: `weights` are the component weights of each region, `turns`
    /// the rotation of each bone in the world.
    pub(crate) fn displace<'w>(
        &self,
        weights: impl Fn(usize) -> &'w [f32],
        turns: impl Fn(usize) -> Mat3A,
        boxes: &mut [Aabb],
    ) {
        for (block, bound) in self.blocks.iter().zip(boxes) {
            for displacement in &block.displacements {
                let (mut centre, mut half) = (Vec3A::ZERO, Vec3A::ZERO);
                let parts = displacement.centres.iter().zip(&displacement.halves);
                for (&weight, (&c, &h)) in weights(displacement.region).iter().zip(parts) {
                    centre += weight * Vec3A::from(c);
                    // Rounding of the sum over components goes by their sizes.
                    half += weight.abs() * (Vec3A::from(h) + SLACK * Vec3A::from(c).abs());
                }
                let turn = turns(displacement.bone);
                let (centre, half) = (turn * centre, absolute(turn) * half);
                let slack = SLACK * (Vec3A::from(bound.low).abs() + Vec3A::from(bound.high).abs());
                bound.low += Vec3::from(centre - half - slack);
                bound.high += Vec3::from(centre + half + slack);
            }
        }
    }
}

impl Block {
    fn new(mut vertices: Vec<u32>, heaviest: usize, rows: &[Row], rest: &[Vec3]) -> Self {
        vertices.sort_unstable();
        let around = Aabb::around(vertices.iter().map(|&v| rest[v as usize]));
        let pivot = (around.low + around.high) / 2.0;
        let mut joints: Vec<usize> =
            vertices.iter().flat_map(|&v| rows[v as usize].iter().map(|pair| pair.0)).collect();
        joints.push(heaviest);
        joints.sort_unstable();
        joints.dedup();
        joints.sort_by_key(|&joint| (joint != heaviest, joint));
        let term = |&joint: &usize| {
            let (mut low, mut high) = ([f32::INFINITY; 4], [f32::NEG_INFINITY; 4]);
            for &v in &vertices {
                let pairs = rows[v as usize].iter().filter(|pair| pair.0 == joint);
                let own = pairs.fold([0.0; 4], |sum, pair| std::array::from_fn(|k| sum[k] + pair.1[k]));
                let x = Vec3::new(own[0], own[1], own[2]) - pivot * own[3];
                for (k, value) in [x.x, x.y, x.z, own[3]].into_iter().enumerate() {
                    low[k] = low[k].min(value);
                    high[k] = high[k].max(value);
                }
            }
            let middle = |k: usize| (low[k] + high[k]) / 2.0;
            let half = |k: usize| (high[k] - low[k]) / 2.0;
            Term {
                joint,
                centre: Vec3::new(middle(0), middle(1), middle(2)),
                half: Vec3::new(half(0), half(1), half(2)),
                weight: middle(3),
                half_weight: half(3),
            }
        };
        let terms = joints.iter().map(term).collect();
        let point = |own: &[f32; 4]| Vec3::new(own[0], own[1], own[2]) - pivot * own[3];
        let sums = Aabb::around(vertices.iter().map(|&v| rows[v as usize].iter().map(|(_, own)| point(own)).sum()));
        let sum = [(sums.low + sums.high) / 2.0, (sums.high - sums.low) / 2.0];
        Self { terms, vertices, pivot, sum, displacements: Vec::new(), shares: Vec::new() }
    }

    /// The block's box in a pose.
    #[must_use]
    pub fn pose(&self, palette: &[Affine3A]) -> Aabb {
        let pivot = Vec3A::from(self.pivot);
        let first = &palette[self.terms[0].joint];
        let heaviest = first.transform_point3a(pivot);
        let [middle, side] = self.sum.map(Vec3A::from);
        let (mut shift, mut slide) = (heaviest, Vec3A::ZERO);
        let (mut apiece, mut half_apiece) = (Vec3A::ZERO, Vec3A::ZERO);
        let (mut together, mut half_together) = (first.matrix3 * middle, absolute(first.matrix3) * side);
        let mut size = heaviest.abs() + pivot.abs();
        for term in &self.terms {
            let bone = &palette[term.joint];
            let (centre, half) = (Vec3A::from(term.centre), Vec3A::from(term.half));
            let apart = bone.transform_point3a(pivot) - heaviest;
            shift += term.weight * apart;
            slide += term.half_weight * apart.abs();
            let turned = absolute(bone.matrix3);
            apiece += bone.matrix3 * centre;
            half_apiece += turned * half;
            let other = bone.matrix3 - first.matrix3;
            together += other * centre;
            half_together += absolute(other) * half;
            // What the skin itself adds up for this joint, in world space, so that its rounding is covered too.
            let weight = term.weight.abs() + term.half_weight;
            size += turned * (centre.abs() + half + weight * pivot.abs()) + weight * bone.translation.abs();
        }
        let around = |centre: Vec3A, half: Vec3A| {
            let half = half + slide + SLACK * (size + half + slide);
            (shift + centre - half, shift + centre + half)
        };
        let (one, other) = (around(apiece, half_apiece), around(together, half_together));
        Aabb { low: one.0.max(other.0).into(), high: one.1.min(other.1).into() }
    }

    /// The box of what was in `held` in the held pose, carried on by the transforms `excess`, (J).
    fn carried(&self, excess: &[Affine3A], held: Aabb) -> Aabb {
        let (middle, side) = (Vec3A::from(held.low + held.high) / 2.0, Vec3A::from(held.high - held.low) / 2.0);
        let image = |share: &Share| {
            let x = &excess[share.bone];
            let (centre, half) = (x.transform_point3a(middle), absolute(x.matrix3) * side);
            (centre - half, centre + half)
        };
        let (mut low, mut high) = (Vec3A::NEG_INFINITY, Vec3A::INFINITY);
        let (mut size, mut negative) = (Vec3A::ZERO, Vec3A::ZERO);
        for share in &self.shares {
            let at = image(share);
            let (mut lowest, mut highest) = at;
            for other in &self.shares {
                let (below, above) = image(other);
                let (below, above) = (below - at.0, above - at.1);
                lowest += (other.least * below).min(other.most * below);
                highest += (other.least * above).max(other.most * above);
            }
            (low, high) = (low.max(lowest), high.min(highest));
            // A negative weight takes the box's other end.
            negative += (-share.least).max(0.0) * (at.1 - at.0);
            // What the skin adds up for this bone, so that its rounding is covered too.
            let x = &excess[share.bone];
            size = size.max(absolute(x.matrix3) * (middle.abs() + side) + x.translation.abs());
        }
        if self.shares.is_empty() {
            return held;
        }
        let widen = negative + SLACK * size;
        Aabb { low: (low - widen).into(), high: (high + widen).into() }
    }
}

/// The range of every bone's weight over the block's vertices.
fn shares(block: &Block, skin: &Skin) -> Vec<Share> {
    let mut bones: Vec<usize> =
        block.vertices.iter().flat_map(|&v| skin.vertex(v as usize).map(|pair| pair.0)).collect();
    bones.sort_unstable();
    bones.dedup();
    let share = |bone: usize| {
        let own = |v: u32| skin.vertex(v as usize).filter(|pair| pair.0 == bone).map(|pair| pair.1).sum::<f32>();
        let weights = block.vertices.iter().map(|&v| own(v));
        let (least, most) =
            weights.fold((f32::INFINITY, f32::NEG_INFINITY), |(least, most), w| (least.min(w), most.max(w)));
        Share { bone, least, most }
    };
    bones.into_iter().map(share).collect()
}

/// The boxes of the correction's components over the block's vertices; a vertex that a part does not move counts as nil.
fn displacements(block: &Block, correction: &VertexCorrection) -> Vec<Displacement> {
    let of_part = |part: &crate::correction::VertexPart| {
        let moved: Vec<usize> =
            (0..part.vertices.len()).filter(|&k| block.vertices.binary_search(&part.vertices[k]).is_ok()).collect();
        if moved.is_empty() {
            return None;
        }
        let still = moved.len() < block.vertices.len();
        let component = |row: &[[f32; 3]]| {
            let around = Aabb::around(moved.iter().map(|&k| Vec3::from(row[k])));
            if still { around.union(Aabb { low: Vec3::ZERO, high: Vec3::ZERO }) } else { around }
        };
        let boxes: Vec<Aabb> = part.components.chunks_exact(part.vertices.len()).map(component).collect();
        Some(Displacement {
            region: part.region,
            bone: part.bone,
            centres: boxes.iter().map(|b| (b.low + b.high) / 2.0).collect(),
            halves: boxes.iter().map(|b| (b.high - b.low) / 2.0).collect(),
        })
    };
    correction.parts.iter().filter_map(of_part).collect()
}

/// A vertex's (joint, p) pairs over the palette.
type Row = Vec<(usize, [f32; 4])>;

/// The pairs of every vertex.
fn rows(model: &Model) -> Result<Vec<Row>, ModelError> {
    let of_skin = |skin: &Skin| {
        let rest = &model.character.rest_positions;
        let pair = |v: usize, joint: usize, w: f32| (joint, [w * rest[v][0], w * rest[v][1], w * rest[v][2], w]);
        (0..rest.len()).map(|v| skin.vertex(v).map(|(joint, w)| pair(v, joint, w)).collect()).collect()
    };
    match &model.deformer {
        Deformer::LinearBlend(_) => Ok(of_skin(&model.character.skin)),
        Deformer::AnimationSpace(skin) => Ok((0..skin.vertex_count()).map(|v| skin.vertex(v).collect()).collect()),
        Deformer::RotationalRegression(regression) => Ok(regression.world_points(&model.character)),
        other => Err(ModelError::NoBounds { kind: other.kind() }),
    }
}

/// Halves `vertices` across their longest side until no part has more than `most`.
fn split(mut vertices: Vec<u32>, rest: &[Vec3], most: usize, done: &mut impl FnMut(Vec<u32>)) {
    if vertices.len() <= most {
        done(vertices);
        return;
    }
    let around = Aabb::around(vertices.iter().map(|&v| rest[v as usize]));
    let side = around.high - around.low;
    let axis = if side.x >= side.y && side.x >= side.z { 0 } else { 1 + usize::from(side.z > side.y) };
    vertices.sort_by(|&a, &b| rest[a as usize][axis].total_cmp(&rest[b as usize][axis]).then(a.cmp(&b)));
    let second = vertices.split_off(vertices.len() / 2);
    split(vertices, rest, most, done);
    split(second, rest, most, done);
}

fn absolute(m: Mat3A) -> Mat3A {
    Mat3A::from_cols(m.x_axis.abs(), m.y_axis.abs(), m.z_axis.abs())
}
