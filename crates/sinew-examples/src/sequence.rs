//! A mesh in several shapes, without a skeleton.

use glam::DVec3;

use crate::mesh::check_positions;
use crate::{ExamplesError, Mesh, Notice, Split};

/// A rest mesh and its frames (N), each a full set of vertex positions.
#[derive(Debug, Clone, PartialEq)]
pub struct MeshSequence {
    mesh: Mesh,
    frames: Vec<Vec<DVec3>>,
    split: Split,
    fps: Option<f64>,
    notices: Vec<Notice>,
}

impl MeshSequence {
    /// Checks and makes a sequence. Without a `split`, every frame trains.
    pub fn new(
        mesh: Mesh,
        frames: Vec<Vec<DVec3>>,
        split: Option<Split>,
        fps: Option<f64>,
    ) -> Result<Self, ExamplesError> {
        if frames.is_empty() {
            return Err(ExamplesError::NoFrames);
        }
        for (frame, vertices) in frames.iter().enumerate() {
            if vertices.len() != mesh.vertex_count() {
                let (found, expected) = (vertices.len(), mesh.vertex_count());
                return Err(ExamplesError::VertexCount { frame, found, expected });
            }
            check_positions(vertices, &format!("frame {frame}"))?;
        }
        if let Some(value) = fps.filter(|fps| !(fps.is_finite() && *fps > 0.0)) {
            return Err(ExamplesError::FrameRate { value });
        }
        let split = split.unwrap_or_else(|| Split::all(frames.len()));
        let mut notices = mesh.notices();
        notices.extend(split.check(frames.len())?);
        Ok(Self { mesh, frames, split, fps, notices })
    }

    /// The rest mesh.
    #[must_use]
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// Vertex positions of every frame, (N)(V).
    #[must_use]
    pub fn frames(&self) -> &[Vec<DVec3>] {
        &self.frames
    }

    /// The number of frames, N.
    #[must_use]
    pub fn frame_count(&self) -> usize {
        self.frames.len()
    }

    /// Which frames train and which test.
    #[must_use]
    pub fn split(&self) -> &Split {
        &self.split
    }

    /// Frames a second, if the source said.
    #[must_use]
    pub fn fps(&self) -> Option<f64> {
        self.fps
    }

    /// What was odd and accepted.
    #[must_use]
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }
}
