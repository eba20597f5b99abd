//! What makes example data unusable. Every message names the frame, bone or face and the number.

use thiserror::Error;

/// Why a mesh, skeleton or set of examples was refused.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ExamplesError {
    /// A frame's mesh does not have the rest mesh's number of vertices.
    #[error(
        "frame {frame} has {found} vertices, the rest mesh {expected}; every frame must be the same mesh in another shape"
    )]
    VertexCount {
        /// The frame's index.
        frame: usize,
        /// Vertices in that frame.
        found: usize,
        /// Vertices in the rest mesh.
        expected: usize,
    },
    /// A frame's pose does not have a transform for every bone.
    #[error("frame {frame} has {found} bone transforms, the skeleton {expected} bones")]
    BoneCount {
        /// The frame's index.
        frame: usize,
        /// Transforms in that frame.
        found: usize,
        /// Bones of the skeleton.
        expected: usize,
    },
    /// A number is NaN or infinite.
    #[error("{place} is not a finite number ({value}); look for a broken simulation frame or a bad export")]
    NotFinite {
        /// Where it stands, e.g. `frame 7, vertex 12`.
        place: String,
        /// The offending value.
        value: f64,
    },
    /// A coordinate is so large that f32, in which models run, cannot hold its square.
    #[error("{place} is {value:e}, which is too large to be a coordinate in metres; check the file's units")]
    TooLarge {
        /// Where it stands.
        place: String,
        /// The offending value.
        value: f64,
    },
    /// The rest mesh has no vertices or no triangles.
    #[error("the mesh has {vertices} vertices and {faces} faces; it needs at least 3 and 1")]
    EmptyMesh {
        /// Vertices found.
        vertices: usize,
        /// Triangles found.
        faces: usize,
    },
    /// All vertices of the rest mesh stand in one point.
    #[error("all {vertices} vertices of the rest mesh stand at one point")]
    PointMesh {
        /// Vertices found.
        vertices: usize,
    },
    /// A face names a vertex that does not exist.
    #[error("face {face} names vertex {vertex}, but the mesh has {vertices} vertices (0 to {})", vertices - 1)]
    FaceIndex {
        /// The triangle's or polygon's index.
        face: usize,
        /// The vertex it names.
        vertex: u32,
        /// Vertices in the mesh.
        vertices: usize,
    },
    /// A polygon has fewer than three corners.
    #[error("polygon {polygon} has {corners} corners; it needs at least 3")]
    PolygonCorners {
        /// The polygon's index.
        polygon: usize,
        /// Its corner count.
        corners: u32,
    },
    /// Two arrays that belong together differ in length.
    #[error("{what} has {found} entries where {expected} are needed")]
    Length {
        /// Which array.
        what: &'static str,
        /// Entries found.
        found: usize,
        /// Entries needed.
        expected: usize,
    },
    /// The skeleton has no bones.
    #[error("the skeleton has no bones; for a bare mesh sequence recover one first (`sinew recover`)")]
    NoBones,
    /// A bone's parent does not exist.
    #[error("bone {bone} ({name}) has parent {parent}, but there are {bones} bones")]
    ParentIndex {
        /// The bone's index.
        bone: usize,
        /// Its name.
        name: String,
        /// The parent it names.
        parent: i64,
        /// How many bones there are.
        bones: usize,
    },
    /// A bone is its own ancestor.
    #[error("bone {bone} ({name}) is its own ancestor; the parents must form a tree")]
    ParentCycle {
        /// The bone's index.
        bone: usize,
        /// Its name.
        name: String,
    },
    /// A bone's transform cannot be inverted.
    #[error(
        "{place}: the transform of bone {bone} ({name}) is singular (determinant {determinant:e}); a bone must not be scaled to nothing"
    )]
    SingularBone {
        /// `rest pose`, or `frame 7`.
        place: String,
        /// The bone's index.
        bone: usize,
        /// Its name.
        name: String,
        /// The determinant of its 3×3 part.
        determinant: f64,
    },
    /// No example at all.
    #[error("there are no example frames; at least one posed mesh is needed")]
    NoFrames,
    /// Every chosen frame has pose weight zero.
    #[error("all {frames} training frames have pose weight 0; give at least one of them a positive weight")]
    NoPoseWeight {
        /// How many frames were chosen.
        frames: usize,
    },
    /// The frame rate is no rate.
    #[error("fps is {value}; it must be a positive number of frames a second")]
    FrameRate {
        /// The offending value.
        value: f64,
    },
    /// The split or a selection names a frame that does not exist.
    #[error("{what} names frame {frame}, but there are {frames} frames (0 to {})", frames.saturating_sub(1))]
    FrameIndex {
        /// `train`, `test`, or the selection's text.
        what: String,
        /// The frame it names.
        frame: i64,
        /// How many frames there are.
        frames: usize,
    },
    /// A selection came out empty.
    #[error("`{what}` selects no frame: {why}")]
    NothingSelected {
        /// The selection's text.
        what: String,
        /// The reason and the remedy.
        why: &'static str,
    },
    /// A selection could not be read.
    #[error("`{text}` is not a choice of frames; use train, test, all, a list 0,5,10, a range 0..40, or every:5")]
    FrameSyntax {
        /// The text as given.
        text: String,
    },
    /// An influence or a pose weight is negative.
    #[error("{place} is {value}; weights must not be negative")]
    NegativeWeight {
        /// Where it stands.
        place: String,
        /// The offending value.
        value: f64,
    },
}
