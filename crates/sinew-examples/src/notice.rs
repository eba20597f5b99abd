//! What is odd in example data but accepted: each is told to the user once.

use std::fmt;

/// Something unusual that was accepted, with what it means for the fit.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    /// The skeleton had several roots; they were joined under a new one that moves with the first.
    RootsJoined {
        /// Names of the roots that were joined.
        roots: Vec<String>,
    },
    /// Triangles without area.
    DegenerateTriangles {
        /// How many.
        count: usize,
        /// The first one's index.
        first: usize,
    },
    /// Triangles that repeat another triangle's three vertices.
    DuplicateTriangles {
        /// How many.
        count: usize,
        /// The first one's index.
        first: usize,
    },
    /// Vertices that no triangle uses.
    UnreferencedVertices {
        /// How many.
        count: usize,
        /// The first one's index.
        first: usize,
    },
    /// The mesh falls into several connected pieces.
    Components {
        /// How many.
        count: usize,
    },
    /// Edges with one triangle only.
    OpenBoundary {
        /// How many edges.
        edges: usize,
    },
    /// Edges with more than two triangles.
    NonManifoldEdges {
        /// How many edges.
        edges: usize,
    },
    /// Bones whose rest transform mirrors.
    MirroredBones {
        /// Names of the bones.
        bones: Vec<String>,
    },
    /// Bones that change scale between the rest pose and some frame.
    ScaledBones {
        /// Names of the bones.
        bones: Vec<String>,
        /// The frame with the largest change.
        frame: usize,
    },
    /// Frames that both train and test.
    SplitOverlaps {
        /// How many frames.
        count: usize,
        /// The first of them.
        first: usize,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RootsJoined { roots } => {
                write!(
                    f,
                    "{} roots ({}) were joined under a new bone that moves with {}",
                    roots.len(),
                    listed(roots),
                    roots[0]
                )
            }
            Self::DegenerateTriangles { count, first } => {
                write!(f, "{count} triangles have no area (the first is {first}); they take their neighbours' motion")
            }
            Self::DuplicateTriangles { count, first } => {
                write!(f, "{count} triangles repeat another one (the first is {first})")
            }
            Self::UnreferencedVertices { count, first } => {
                write!(
                    f,
                    "{count} vertices belong to no triangle (the first is {first}); they are skinned but have no normal"
                )
            }
            Self::Components { count } => write!(f, "the mesh consists of {count} separate pieces"),
            Self::OpenBoundary { edges } => write!(f, "the mesh is open: {edges} edges have one triangle only"),
            Self::NonManifoldEdges { edges } => write!(f, "{edges} edges have more than two triangles"),
            Self::MirroredBones { bones } => {
                write!(f, "{} bones are mirrored in the rest pose ({})", bones.len(), listed(bones))
            }
            Self::ScaledBones { bones, frame } => {
                write!(f, "{} bones change scale ({}; most in frame {frame})", bones.len(), listed(bones))
            }
            Self::SplitOverlaps { count, first } => {
                write!(
                    f,
                    "{count} frames both train and test (the first is {first}); errors on them are not errors on unseen poses"
                )
            }
        }
    }
}

/// The first few names, and how many more there are.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let head = names[..names.len().min(SHOWN)].join(", ");
    if names.len() > SHOWN { format!("{head} and {} more", names.len() - SHOWN) } else { head }
}
