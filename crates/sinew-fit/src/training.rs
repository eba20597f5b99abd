//! What a method sees: the chosen frames, in the root bone's own frame.

use glam::{DAffine3, DVec3};
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
    /// Painted influences.
    pub influences: Option<InfluenceMap>,
    /// Frames a second of the source.
    pub fps: Option<f64>,
    /// The rest bounding box's diagonal.
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
        let chosen: Vec<usize> = chosen.iter().copied().filter(|&e| weight(e) > 0.0).collect();
        if chosen.is_empty() {
            return Err(ExamplesError::NoFrames);
        }
        let (mesh, skeleton) = (examples.mesh(), examples.skeleton());
        let to_root = skeleton.rest_root_frame().inverse();
        let in_root = |e: usize| {
            let to_root = skeleton.root_frame(examples.pose(e)).inverse();
            examples.vertices(e).iter().map(|&v| to_root.transform_point3(v)).collect()
        };
        let mean = chosen.iter().map(|&e| weight(e)).sum::<f64>() / chosen.len() as f64;
        Ok(Self {
            rest: mesh.vertices().iter().map(|&v| to_root.transform_point3(v)).collect(),
            transforms: chosen.iter().map(|&e| skeleton.root_relative(examples.pose(e))).collect(),
            vertices: chosen.iter().map(|&e| in_root(e)).collect(),
            pose_weights: chosen.iter().map(|&e| weight(e) / mean).collect(),
            influences: examples.influences().cloned(),
            fps: examples.fps(),
            diagonal: mesh.diagonal(),
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
