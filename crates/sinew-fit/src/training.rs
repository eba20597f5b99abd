//! What a method sees: the chosen frames, in the root bone's own frame.

use glam::{DAffine3, DMat3, DVec3};
use sinew_examples::{Examples, ExamplesError, InfluenceMap, Mesh, Skeleton};

/// Training frames in the root's frame. Nothing of the other frames is in here, so no method can peek.
#[derive(Debug, Clone)]
pub struct Training {
    /// The rest mesh as the user gave it, in the world.
    pub mesh: Mesh,
    /// The skeleton as the user gave it, in the world.
    pub skeleton: Skeleton,
    /// Rest positions in the root's rest frame, (V).
    pub rest: Vec<DVec3>,
    /// Skinning transforms in the root's frame, (N)(J): `T_b` maps `rest` to the posed bone.
    pub transforms: Vec<Vec<DAffine3>>,
    /// Example positions in the root's posed frame, (N)(V).
    pub vertices: Vec<Vec<DVec3>>,
    /// How much each pose counts in a sum of squares, (N); their mean is one.
    pub pose_weights: Vec<f64>,
    /// The example that each pose comes from, (N): a pose and its mirror image come from the same one, and whoever leaves
    /// one of them out leaves both out.
    pub sources: Vec<usize>,
    /// Painted influences.
    pub influences: Option<InfluenceMap>,
    /// Frames a second of the source.
    pub fps: Option<f64>,
    /// The diagonal of the rest mesh's bounding box in the root's frame, so that it does not change as the character turns.
    pub diagonal: f64,
}

impl Training {
    /// The frames `chosen` of `examples`; frames with pose weight zero are left out.
    pub fn new(examples: &Examples, chosen: &[usize]) -> Result<Self, ExamplesError> {
        let weight = |e: usize| examples.pose_weights().map_or(1.0, |weights| weights[e]);
        if let Some(&frame) = chosen.iter().find(|&&e| e >= examples.frame_count()) {
            let what = "the training frames".to_string();
            return Err(ExamplesError::FrameIndex { what, frame: frame as i64, frames: examples.frame_count() });
        }
        if chosen.is_empty() {
            return Err(ExamplesError::NoFrames);
        }
        let frames = chosen.len();
        let chosen: Vec<usize> = chosen.iter().copied().filter(|&e| weight(e) > 0.0).collect();
        if chosen.is_empty() {
            return Err(ExamplesError::NoPoseWeight { frames });
        }
        let (mesh, skeleton) = (examples.mesh(), examples.skeleton());
        let to_root = skeleton.rest_root_frame().inverse();
        let rest: Vec<DVec3> = mesh.vertices().iter().map(|&v| to_root.transform_point3(v)).collect();
        let grid = Grid::of(&rest);
        let in_root = |e: usize| {
            let to_root = skeleton.root_frame(examples.pose(e)).inverse();
            examples.vertices(e).iter().map(|&v| grid.point(to_root.transform_point3(v))).collect()
        };
        let relative =
            |e: usize| skeleton.root_relative(examples.pose(e)).into_iter().map(|t| grid.transform(t)).collect();
        let mean = chosen.iter().map(|&e| weight(e)).sum::<f64>() / chosen.len() as f64;
        let rest: Vec<DVec3> = rest.into_iter().map(|v| grid.point(v)).collect();
        Ok(Self {
            diagonal: diagonal(&rest),
            rest,
            transforms: chosen.iter().map(|&e| relative(e)).collect(),
            vertices: chosen.iter().map(|&e| in_root(e)).collect(),
            pose_weights: chosen.iter().map(|&e| weight(e) / mean).collect(),
            sources: (0..chosen.len()).collect(),
            influences: examples.influences().cloned(),
            fps: examples.fps(),
            mesh: mesh.clone(),
            skeleton: skeleton.clone(),
        })
    }

    /// The number of vertices, V.
    #[must_use]
    pub fn vertex_count(&self) -> usize {
        self.rest.len()
    }

    /// The number of bones, J.
    #[must_use]
    pub fn bone_count(&self) -> usize {
        self.skeleton.bone_count()
    }

    /// The number of training poses, N.
    #[must_use]
    pub fn pose_count(&self) -> usize {
        self.transforms.len()
    }

    /// The training poses `keep` only, for leave-one-out.
    #[must_use]
    pub fn subset(&self, keep: &[usize]) -> Self {
        Self {
            transforms: keep.iter().map(|&e| self.transforms[e].clone()).collect(),
            vertices: keep.iter().map(|&e| self.vertices[e].clone()).collect(),
            pose_weights: keep.iter().map(|&e| self.pose_weights[e]).collect(),
            sources: keep.iter().map(|&e| self.sources[e]).collect(),
            mesh: self.mesh.clone(),
            skeleton: self.skeleton.clone(),
            rest: self.rest.clone(),
            influences: self.influences.clone(),
            fps: self.fps,
            diagonal: self.diagonal,
        }
    }

    /// Where bone `b` alone would carry vertex `v` in pose `e`: `T_b v̂`.
    #[must_use]
    pub fn carried(&self, e: usize, b: usize, v: usize) -> DVec3 {
        self.transforms[e][b].transform_point3(self.rest[v])
    }
}

/// A grid sixty times finer than f32 examples resolve. The same data elsewhere in the world differ in their last bits once
/// they are in the root's frame; on the grid they are the same again, so that equally good choices (on a symmetric
/// character there are many) are decided alike wherever the character stands.
struct Grid {
    /// The distance of its points, a power of two.
    step: f64,
}

impl Grid {
    /// Steps a metre-sized matrix entry may take: 2⁻³⁰, about a billionth.
    const FINENESS: f64 = 1.0 / (1 << 30) as f64;

    fn of(rest: &[DVec3]) -> Self {
        Self { step: diagonal(rest).log2().floor().exp2() * Self::FINENESS }
    }

    fn point(&self, p: DVec3) -> DVec3 {
        (p / self.step).round() * self.step
    }

    fn transform(&self, t: DAffine3) -> DAffine3 {
        let entry = |column: DVec3| (column / Self::FINENESS).round() * Self::FINENESS;
        let m = t.matrix3;
        let matrix3 = DMat3::from_cols(entry(m.x_axis), entry(m.y_axis), entry(m.z_axis));
        DAffine3 { matrix3, translation: self.point(t.translation) }
    }
}

fn diagonal(points: &[DVec3]) -> f64 {
    let start = (DVec3::INFINITY, DVec3::NEG_INFINITY);
    let (low, high) = points.iter().fold(start, |(low, high), &p| (low.min(p), high.max(p)));
    (high - low).length()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sinew_examples::datasets;

    #[test]
    fn frames_without_weight_are_left_out_and_all_of_them_are_an_error_that_says_so() {
        let bar = datasets::by_name("bar").unwrap().make();
        let weighed = |of: f64| {
            let mut weights = vec![0.0; bar.frame_count()];
            weights[2] = of;
            Training::new(&bar.clone().with_pose_weights(weights).unwrap(), &[0, 1, 2])
        };
        assert_eq!(weighed(5.0).unwrap().pose_weights, [1.0]);
        assert_eq!(weighed(0.0).unwrap_err(), ExamplesError::NoPoseWeight { frames: 3 });
    }
}
