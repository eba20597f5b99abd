//! Poses farther than the trained ones, so that drawing weights hold there too (ours).
//!
//! Weights that are fitted to training poses alone may draw neighbouring vertices by proxies that agree in those poses and
//! nowhere else. So they also see training poses with every joint turned twice as far, in which a vertex should lie among
//! its neighbours as it did in the training pose:
//!
//!   `y′_v = mean_w x′_w + (Σ_b w_vb E_b) (y_v − mean_w y_w)`,   `E_b = Q′_b Q_bᵀ`,   w over the neighbours of v,
//!
//! x′ being where the model as it is draws them, w_vb the weights of linear blend skinning, Q and Q′ the bones' rotations in
//! the trained and in the farther pose. (Where linear blend skinning itself would carry the vertices on is no such
//! guide: there it collapses, and weights that imitate it fold the skin.)

use glam::{DAffine3, DMat3, DVec3};
use sinew_examples::{Pose, nearest_rotation};
use sinew_runtime::deform::LinearBlend;
use sinew_runtime::{Deformer, Model, Skin};

use crate::geometry::topology::Topology;
use crate::{Training, predict};

/// How many times as far the joints are turned.
const FACTOR: f64 = 2.0;

/// Farther poses at most: the time of a fit grows with them.
pub const MOST: usize = 12;

/// How much farther than they do in the examples vertices may stick out if nothing keeps them from it, in the neighbours' distance:
/// a tenth of it does not show.
const STICKS_OUT: f64 = 0.09;

/// Training poses, and beside them farther ones.
pub struct Farther {
    /// Both, the training poses first.
    both: Training,
    /// `(Σ_b w_vb E_b) (y_v − mean_w y_w)` of each farther pose, (F)(V).
    offsets: Vec<Vec<DVec3>>,
}

impl Farther {
    /// Beside the poses of `training`, those of them in `taken` turned farther, which count `share` times as much all together;
    /// `skin` are linear blend skinning's weights.
    pub fn new(training: &Training, taken: &[usize], skin: &Skin, topology: &Topology, share: f64) -> Self {
        let counted: f64 = taken.iter().map(|&e| training.pose_weights[e]).sum();
        let weight = share * training.pose_weights.iter().sum::<f64>() / counted;
        let mut both = training.clone();
        let mut offsets = Vec::with_capacity(taken.len());
        for &e in taken {
            let there = turned_farther(training, &training.transforms[e]);
            let carries = carries(skin, &training.transforms[e], &there);
            let vertices = &training.vertices[e];
            let offset = |v: usize| carries[v] * (vertices[v] - around(topology, vertices, v));
            offsets.push((0..vertices.len()).map(offset).collect());
            both.transforms.push(there);
            both.vertices.push(vertices.clone());
            both.pose_weights.push(weight * training.pose_weights[e]);
            both.sources.push(training.sources[e]);
        }
        Self { both, offsets }
    }

    /// The training poses and the farther ones, each vertex of these where its neighbours are as `model` draws them, `left` times
    /// as far out of their middle as in the training pose.
    pub fn drawn_by(&mut self, model: &Model, topology: &Topology, left: f64) -> &Training {
        let trained = self.both.pose_count() - self.offsets.len();
        let drawn = predict::poses(model, &self.both, self.both.transforms[trained..].iter().map(Vec::as_slice));
        for ((vertices, drawn), offsets) in self.both.vertices[trained..].iter_mut().zip(&drawn).zip(&self.offsets) {
            for (v, vertex) in vertices.iter_mut().enumerate() {
                *vertex = around(topology, drawn, v) + left * offsets[v];
            }
        }
        &self.both
    }
}

/// At most so many of the poses, spread over them.
pub fn spread(poses: usize, most: usize) -> Vec<usize> {
    let count = poses.min(most);
    (0..count).map(|i| i * poses / count).collect()
}

/// How far vertices stick out of their neighbours beyond what they do at rest, in the neighbours' mean distance.
pub struct Spikes<'a> {
    topology: &'a Topology,
    /// Each vertex's distance from the middle of its neighbours at rest, and their mean distance from it, (V).
    rest: Vec<(f64, f64)>,
}

impl<'a> Spikes<'a> {
    /// Those of a mesh.
    pub fn new(training: &Training, topology: &'a Topology) -> Self {
        let of_vertex = |v: usize| {
            let ring = topology.vertex_vertices.row(v);
            let sum = ring.iter().map(|&w| training.rest[v].distance(training.rest[w])).sum::<f64>();
            (training.rest[v].distance(around(topology, &training.rest, v)), sum / ring.len().max(1) as f64)
        };
        Self { topology, rest: (0..training.vertex_count()).map(of_vertex).collect() }
    }

    /// How far each vertex sticks out in the one of some poses (N)(V) in which it does most, (V).
    pub fn most(&self, poses: &[Vec<DVec3>]) -> Vec<f64> {
        let spike = |vertices: &[DVec3], v: usize| {
            let (out, distance) = self.rest[v];
            let now = vertices[v].distance(around(self.topology, vertices, v));
            if distance > 0.0 { (now - out) / distance } else { 0.0 }
        };
        (0..self.rest.len()).map(|v| poses.iter().map(|pose| spike(pose, v)).fold(0.0, f64::max)).collect()
    }

    /// Those poses of (N)(V) in which vertices stick out farthest, ascending.
    pub fn worst(&self, poses: &[Vec<DVec3>]) -> Vec<usize> {
        let out: Vec<f64> = poses.iter().map(|pose| self.farthest(std::slice::from_ref(pose))).collect();
        let mut order: Vec<usize> = (0..poses.len()).collect();
        order.sort_by(|&a, &b| out[b].total_cmp(&out[a]));
        order.truncate(MOST);
        order.sort_unstable();
        order
    }

    /// The farthest of them.
    pub fn farthest(&self, poses: &[Vec<DVec3>]) -> f64 {
        self.most(poses).into_iter().fold(0.0, f64::max)
    }

    /// Vertex `v` of a pose (V), moved toward the middle of its neighbours if it sticks out farther than `most`.
    pub fn held(&self, vertices: &[DVec3], v: usize, most: f64) -> DVec3 {
        let (out, distance) = self.rest[v];
        let middle = around(self.topology, vertices, v);
        middle + (vertices[v] - middle).clamp_length_max(out + most * distance)
    }
}

/// How far vertices may stick out at twice the trained ranges.
#[derive(Debug, Clone, Copy)]
pub struct Allowed {
    /// As far as with linear blend skinning.
    pub skinned: f64,
    /// As far as in the examples, if that is farther.
    pub examples: f64,
    /// As far as `model` draws them, which they are to be drawn by otherwise, if that is farther still.
    pub most: f64,
}

impl Allowed {
    /// If vertices are drawn otherwise than by `model`.
    pub fn new(training: &Training, spikes: &Spikes, model: &Model) -> Self {
        let farther = |model: &Model| spikes.farthest(&drawn_farther(training, model));
        let skinned = Model { deformer: Deformer::LinearBlend(LinearBlend), correction: None, ..model.clone() };
        let skinned = farther(&skinned);
        let examples = spikes.farthest(&training.vertices).max(skinned);
        Self { skinned, examples, most: (examples + STICKS_OUT).max(farther(model)) }
    }
}

/// Where `model` draws the training poses with every joint turned farther, (N)(V).
pub fn drawn_farther(training: &Training, model: &Model) -> Vec<Vec<DVec3>> {
    let poses: Vec<Vec<DAffine3>> = training.transforms.iter().map(|pose| turned_farther(training, pose)).collect();
    predict::poses(model, training, poses.iter().map(Vec::as_slice))
}

/// The `T_b` of a pose with every joint turned farther, (J).
fn turned_farther(training: &Training, pose: &[DAffine3]) -> Vec<DAffine3> {
    let skeleton = &training.skeleton;
    let to_root = skeleton.rest_root_frame().inverse();
    let rest: Vec<DAffine3> = skeleton.bones().iter().map(|bone| to_root * bone.rest).collect();
    let globals = pose.iter().zip(&rest).map(|(&t, &rest)| t * rest).collect();
    let farther = skeleton.turned_farther(&Pose { globals }, FACTOR);
    farther.globals.iter().zip(&rest).map(|(&global, rest)| global * rest.inverse()).collect()
}

/// `Σ_b w_vb E_b`, (V).
fn carries(skin: &Skin, here: &[DAffine3], there: &[DAffine3]) -> Vec<DMat3> {
    let rotation = |t: &DAffine3| nearest_rotation(t.matrix3);
    let excess: Vec<DMat3> =
        here.iter().zip(there).map(|(here, there)| rotation(there) * rotation(here).transpose()).collect();
    let carry = |v: usize| skin.vertex(v).fold(DMat3::ZERO, |sum, (b, w)| sum + excess[b] * f64::from(w));
    (0..skin.vertex_count()).map(carry).collect()
}

/// The middle of the neighbours of `v`, or itself if it has none.
fn around(topology: &Topology, vertices: &[DVec3], v: usize) -> DVec3 {
    let ring = topology.vertex_vertices.row(v);
    if ring.is_empty() {
        return vertices[v];
    }
    ring.iter().map(|&w| vertices[w]).sum::<DVec3>() / ring.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Method, Quiet};
    use sinew_examples::datasets;

    #[test]
    fn where_one_bone_carries_a_vertex_and_its_neighbours_it_should_lie_where_the_bone_carries_it() {
        let examples = datasets::by_name("arm").unwrap().make();
        let mut training = Training::new(&examples, &examples.split().train).unwrap();
        let skinned = crate::fit(&training, &Method::by_name("ssd").unwrap(), &Quiet).unwrap().model;
        // Examples that skinning draws exactly.
        training.vertices = predict::training_poses(&skinned, &training);
        let topology = Topology::new(training.vertex_count(), training.mesh.triangles());
        let skin = &skinned.character.skin;
        let mut farther = Farther::new(&training, &spread(training.pose_count(), MOST), skin, &topology, 0.01);
        let seen = farther.drawn_by(&skinned, &topology, 1.0);
        let (trained, all) = (training.pose_count(), seen.pose_count());
        assert_eq!(all, 2 * trained);
        assert_eq!(seen.vertices[..trained], training.vertices[..]);
        let carrier = |v: usize| skin.vertex(v).find(|&(_, w)| w > 0.9999).map(|(b, _)| b);
        let ring = |v: usize| topology.vertex_vertices.row(v).iter();
        let alone = |&v: &usize| carrier(v).is_some() && ring(v).all(|&w| carrier(w) == carrier(v));
        let checked: Vec<usize> = (0..training.vertex_count()).filter(alone).collect();
        assert!(checked.len() > 100, "{}", checked.len());
        for e in trained..all {
            for &v in &checked {
                let off = (seen.vertices[e][v] - seen.carried(e, carrier(v).unwrap(), v)).length();
                // 1e-3 of the diagonal: weights of 0.9999, and f32 positions.
                assert!(off < 1e-3 * training.diagonal, "pose {e}, vertex {v}: {off}");
            }
        }
    }

    #[test]
    fn a_vertex_that_is_pulled_out_of_its_neighbours_spikes_by_how_far() {
        let examples = datasets::by_name("bar").unwrap().make();
        let training = Training::new(&examples, &examples.split().train).unwrap();
        let topology = Topology::new(training.vertex_count(), training.mesh.triangles());
        let spikes = Spikes::new(&training, &topology);
        assert_eq!(spikes.farthest(std::slice::from_ref(&training.rest)), 0.0);
        let ring = topology.vertex_vertices.row(40);
        let distances = ring.iter().map(|&w| training.rest[40].distance(training.rest[w]));
        let mean = distances.sum::<f64>() / ring.len() as f64;
        let mut posed = training.rest.clone();
        let out = posed[40] - around(&topology, &posed, 40);
        let away = if out.length() > 0.0 { out.normalize() } else { DVec3::X };
        posed[40] += 3.0 * mean * away;
        let held = spikes.held(&posed, 40, 1.0);
        let spike = spikes.farthest(&[training.rest.clone(), posed.clone()]);
        // 1e-9: a sum and a division in f64.
        assert!((spike - 3.0).abs() < 1e-9, "{spike}");
        posed[40] = held;
        let spike = spikes.most(&[posed])[40];
        assert!((spike - 1.0).abs() < 1e-9, "held at one, it spikes by {spike}");
    }
}
