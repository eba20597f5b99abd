//! What a foreign file holds, in one shape for all formats: clips of skeletons and clips of meshes, already in
//! metres, Y up, right-handed, so far as the file says what it is in.

use std::fmt;

use glam::{DAffine3, DVec3};
use sinew_examples::{Bone, Polygons, Pose};

use crate::FileError;

/// How a clip counts time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Seconds on the scene's own time line: two files of one scene agree.
    Scene,
    /// Seconds from the clip's first frame; where that lies on the scene's time line the file does not say.
    FromStart,
    /// Numbers of frames, without a rate.
    FrameNumbers,
}

/// Whether the file says its units and axes, or the reader had to assume metres, Y up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Convention {
    /// The format, the file, or the custom of all exporters fixes them.
    Declared,
    /// Nothing fixes them.
    Assumed,
}

/// A skeleton and its motion.
#[derive(Debug, Clone)]
pub struct SkeletonClip {
    /// The skeleton's name in the file.
    pub name: String,
    /// The bones, (J).
    pub bones: Vec<Bone>,
    /// The time of each frame, (N), increasing; in seconds unless the clock counts frames.
    pub times: Vec<f64>,
    /// The pose of each frame, (N).
    pub poses: Vec<Pose>,
    /// What `times` mean.
    pub clock: Clock,
    /// Whether units and axes are known.
    pub convention: Convention,
}

/// Which bones move a vertex, and how much: one list of (bone, weight) a vertex, (V).
pub type VertexWeights = Vec<Vec<(usize, f32)>>;

/// A mesh's faces.
#[derive(Debug, Clone, PartialEq)]
pub struct Surface {
    /// The polygons, counter-clockwise seen from outside.
    pub polygons: Polygons,
    /// Texture coordinates, one a polygon corner, in the order of `polygons.vertices`; V up.
    pub uvs: Option<Vec<[f32; 2]>>,
}

/// A mesh and its motion. Frames are read when they are asked for, so that a cache need not fit in memory twice.
pub struct MeshClip {
    /// The mesh's name in the file.
    pub name: String,
    /// The number of vertices, V.
    pub vertex_count: usize,
    /// The faces, if the file has them.
    pub surface: Option<Surface>,
    /// The rest positions (V), if the file tells them from the frames: a skinned mesh, a mesh with morph targets.
    pub rest: Option<Vec<DVec3>>,
    /// Weights over the bones of a skeleton in the same file: (which skeleton, weights).
    pub skin: Option<(usize, VertexWeights)>,
    /// The time of each frame, (N), increasing.
    pub times: Vec<f64>,
    /// What `times` mean.
    pub clock: Clock,
    /// Whether units and axes are known.
    pub convention: Convention,
    /// Where the frames come from.
    pub frames: Box<dyn PointSource>,
}

/// Gives the positions of a mesh, frame by frame.
pub trait PointSource: Send {
    /// Replaces `points` by those of frame `frame`, (V).
    fn read(&mut self, frame: usize, points: &mut Vec<DVec3>) -> Result<(), FileError>;
}

/// Everything a file holds.
#[derive(Debug, Default)]
pub struct Scene {
    /// Skeletons with their motion.
    pub skeletons: Vec<SkeletonClip>,
    /// Meshes with their motion.
    pub meshes: Vec<MeshClip>,
    /// What the reader did or passed over, for the user to read.
    pub remarks: Vec<String>,
}

/// Frames that are in memory already, (N)(V).
pub struct StoredFrames(pub Vec<Vec<DVec3>>);

impl PointSource for StoredFrames {
    fn read(&mut self, frame: usize, points: &mut Vec<DVec3>) -> Result<(), FileError> {
        points.clear();
        points.extend_from_slice(&self.0[frame]);
        Ok(())
    }
}

impl SkeletonClip {
    /// Brings the bones' rest to the size of the poses, and says by which factor if it was another. Many exporters bind in
    /// centimetres under a node that scales by 0.01: the poses are scaled by it, the bind pose is not.
    pub(crate) fn bring_rest_to_size(&mut self) -> Option<f64> {
        let size = |transform: DAffine3| transform.matrix3.determinant().abs().cbrt();
        let of_pose = |pose: &Pose| {
            let pairs = self.bones.iter().zip(&pose.globals);
            pairs.map(|(bone, &global)| size(global) / size(bone.rest)).collect::<Vec<f64>>()
        };
        let scales: Vec<f64> = self.poses.iter().flat_map(of_pose).collect();
        let first = *scales.first()?;
        // One percent: a character that grows or squashes is none of this, and exporters' rounding is far less.
        let alike = scales.iter().all(|scale| (scale / first - 1.0).abs() < 0.01);
        if !alike || !first.is_finite() || (first - 1.0).abs() < 0.01 {
            return None;
        }
        self.bones.iter_mut().for_each(|bone| bone.rest = DAffine3::from_scale(DVec3::splat(first)) * bone.rest);
        Some(first)
    }
}

impl MeshClip {
    /// The number of frames, N.
    #[must_use]
    pub fn frame_count(&self) -> usize {
        self.times.len()
    }

    /// The positions of frame `frame`, (V).
    pub fn frame(&mut self, frame: usize) -> Result<Vec<DVec3>, FileError> {
        let mut points = Vec::with_capacity(self.vertex_count);
        self.frames.read(frame, &mut points)?;
        Ok(points)
    }
}

impl fmt::Debug for MeshClip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MeshClip")
            .field("name", &self.name)
            .field("vertex_count", &self.vertex_count)
            .field("frames", &self.times.len())
            .finish_non_exhaustive()
    }
}

impl Surface {
    /// Reverses the winding of every polygon; each keeps its first corner.
    pub fn flip(&mut self) {
        let mut start = 0;
        for &count in &self.polygons.counts {
            let end = start + count as usize;
            if end > start {
                self.polygons.vertices[start + 1..end].reverse();
                if let Some(uvs) = &mut self.uvs {
                    uvs[start + 1..end].reverse();
                }
            }
            start = end;
        }
    }

    /// The fan triangulation's texture coordinates, (F, 3, 2).
    #[must_use]
    pub fn triangle_uvs(&self) -> Option<Vec<[[f32; 2]; 3]>> {
        let uvs = self.uvs.as_ref()?;
        let mut start = 0;
        let mut corners = Vec::new();
        for &count in &self.polygons.counts {
            let count = count as usize;
            corners.extend((1..count.saturating_sub(1)).map(|k| [uvs[start], uvs[start + k], uvs[start + k + 1]]));
            start += count;
        }
        Some(corners)
    }

    /// Whether every polygon is a triangle.
    #[must_use]
    pub fn is_triangulated(&self) -> bool {
        self.polygons.counts.iter().all(|&count| count == 3)
    }

    /// Refuses counts and indices that do not fit `vertices`.
    pub(crate) fn check(&self, vertices: usize) -> Result<(), String> {
        let corners: u64 = self.polygons.counts.iter().map(|&count| u64::from(count)).sum();
        let listed = self.polygons.vertices.len();
        if corners != listed as u64 {
            return Err(format!("the polygons have {corners} corners, but {listed} are listed"));
        }
        if let Some(&v) = self.polygons.vertices.iter().find(|&&v| v as usize >= vertices) {
            return Err(format!("a polygon names vertex {v}, but there are {vertices} vertices"));
        }
        match &self.uvs {
            Some(uvs) if uvs.len() != listed => {
                Err(format!("there are {} texture coordinates for {listed} polygon corners", uvs.len()))
            }
            _ => Ok(()),
        }
    }
}

/// Whether `times` increase strictly and are finite.
pub(crate) fn increasing(times: &[f64]) -> bool {
    times.iter().all(|time| time.is_finite()) && times.windows(2).all(|pair| pair[0] < pair[1])
}
