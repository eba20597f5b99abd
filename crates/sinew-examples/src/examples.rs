//! Examples: frames of (skeleton pose, mesh), the only thing that fitting sees.

use glam::DVec3;

use crate::skeleton::join_roots;
use crate::{Bone, ExamplesError, Mesh, MeshSequence, Notice, Pose, Skeleton, Split};

/// How much each bone may influence each vertex, painted by the artist; (V, J), row by row, nothing negative.
#[derive(Debug, Clone, PartialEq)]
pub struct InfluenceMap {
    bones: usize,
    values: Vec<f32>,
}

impl InfluenceMap {
    /// The influences of vertex `v`, (J).
    #[must_use]
    pub fn vertex(&self, v: usize) -> &[f32] {
        &self.values[v * self.bones..(v + 1) * self.bones]
    }

    /// The map of the vertices `kept` only, in that order.
    #[must_use]
    pub fn of_vertices(&self, kept: &[usize]) -> Self {
        Self { bones: self.bones, values: kept.iter().flat_map(|&v| self.vertex(v).iter().copied()).collect() }
    }

    /// All values, (V, J) row by row.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }
}

/// What examples are made of, before it is checked.
#[derive(Debug, Clone)]
pub struct ExamplesParts {
    /// The rest mesh.
    pub mesh: Mesh,
    /// The bones, (J).
    pub bones: Vec<Bone>,
    /// The pose of each frame, (N).
    pub poses: Vec<Pose>,
    /// The mesh in each frame, (N)(V).
    pub frames: Vec<Vec<DVec3>>,
    /// Which frames train and test; without it every frame trains.
    pub split: Option<Split>,
    /// Painted influences (V, J) row by row.
    pub influences: Option<Vec<f32>>,
    /// How much each pose counts, (N).
    pub pose_weights: Option<Vec<f64>>,
    /// Frames a second.
    pub fps: Option<f64>,
}

/// Frames of (skeleton pose, mesh) over one rest mesh and one skeleton, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Examples {
    sequence: MeshSequence,
    skeleton: Skeleton,
    poses: Vec<Pose>,
    influences: Option<InfluenceMap>,
    pose_weights: Option<Vec<f64>>,
    notices: Vec<Notice>,
}

impl Examples {
    /// Checks and makes examples. Several roots are joined under a new bone, which is then the last.
    pub fn new(parts: ExamplesParts) -> Result<Self, ExamplesError> {
        let ExamplesParts { mesh, mut bones, mut poses, frames, split, influences, pose_weights, fps } = parts;
        let sequence = MeshSequence::new(mesh, frames, split, fps)?;
        if poses.len() != sequence.frame_count() {
            let (found, expected) = (poses.len(), sequence.frame_count());
            return Err(ExamplesError::Length { what: "bones (poses)", found, expected });
        }
        let given_bones = bones.len();
        let joined = join_roots(&mut bones, &mut poses);
        let skeleton = Skeleton::new(bones)?;
        for (frame, pose) in poses.iter().enumerate() {
            skeleton.check_pose(pose, frame)?;
        }
        let influences = influences
            .map(|values| check_influences(values, sequence.mesh().vertex_count(), given_bones, skeleton.bone_count()))
            .transpose()?;
        if let Some(weights) = &pose_weights {
            check_pose_weights(weights, sequence.frame_count())?;
        }
        let mut notices = sequence.notices().to_vec();
        notices.extend(joined);
        notices.extend(skeleton.notices(&poses));
        Ok(Self { sequence, skeleton, poses, influences, pose_weights, notices })
    }

    /// The rest mesh.
    #[must_use]
    pub fn mesh(&self) -> &Mesh {
        self.sequence.mesh()
    }

    /// The mesh frames without the skeleton.
    #[must_use]
    pub fn sequence(&self) -> &MeshSequence {
        &self.sequence
    }

    /// The skeleton.
    #[must_use]
    pub fn skeleton(&self) -> &Skeleton {
        &self.skeleton
    }

    /// The number of frames, N.
    #[must_use]
    pub fn frame_count(&self) -> usize {
        self.poses.len()
    }

    /// The pose of frame `e`.
    #[must_use]
    pub fn pose(&self, e: usize) -> &Pose {
        &self.poses[e]
    }

    /// The vertex positions of frame `e`, (V).
    #[must_use]
    pub fn vertices(&self, e: usize) -> &[DVec3] {
        &self.sequence.frames()[e]
    }

    /// Which frames train and which test.
    #[must_use]
    pub fn split(&self) -> &Split {
        self.sequence.split()
    }

    /// Painted influence maps.
    #[must_use]
    pub fn influences(&self) -> Option<&InfluenceMap> {
        self.influences.as_ref()
    }

    /// How much each pose counts, (N).
    #[must_use]
    pub fn pose_weights(&self) -> Option<&[f64]> {
        self.pose_weights.as_deref()
    }

    /// The same examples with other pose weights, (N).
    pub fn with_pose_weights(mut self, weights: Vec<f64>) -> Result<Self, ExamplesError> {
        check_pose_weights(&weights, self.frame_count())?;
        self.pose_weights = Some(weights);
        Ok(self)
    }

    /// Frames a second, if the source said.
    #[must_use]
    pub fn fps(&self) -> Option<f64> {
        self.sequence.fps()
    }

    /// What was odd and accepted.
    #[must_use]
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }
}

/// Checks painted influences (V, `given`) and widens the rows by a zero for a joined root.
fn check_influences(
    values: Vec<f32>,
    vertices: usize,
    given: usize,
    bones: usize,
) -> Result<InfluenceMap, ExamplesError> {
    if values.len() != vertices * given {
        let (found, expected) = (values.len(), vertices * given);
        return Err(ExamplesError::Length { what: "influences", found, expected });
    }
    for (index, &value) in values.iter().enumerate() {
        let place = || format!("the influence of bone {} on vertex {}", index % given, index / given);
        if !value.is_finite() {
            return Err(ExamplesError::NotFinite { place: place(), value: value.into() });
        }
        if value < 0.0 {
            return Err(ExamplesError::NegativeWeight { place: place(), value: value.into() });
        }
    }
    if given == bones {
        return Ok(InfluenceMap { bones, values });
    }
    let widened = values
        .chunks(given)
        .flat_map(|row| row.iter().copied().chain(std::iter::repeat_n(0.0, bones - given)))
        .collect();
    Ok(InfluenceMap { bones, values: widened })
}

fn check_pose_weights(weights: &[f64], frames: usize) -> Result<(), ExamplesError> {
    if weights.len() != frames {
        return Err(ExamplesError::Length { what: "pose_weights", found: weights.len(), expected: frames });
    }
    for (frame, &value) in weights.iter().enumerate() {
        let place = || format!("the weight of frame {frame}");
        if !value.is_finite() {
            return Err(ExamplesError::NotFinite { place: place(), value });
        }
        if value < 0.0 {
            return Err(ExamplesError::NegativeWeight { place: place(), value });
        }
    }
    Ok(())
}
