//! What was found about files that are to become examples, and how to mend it.

use std::fmt;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Nothing is wrong; the user may want to know.
    Note,
    /// The examples would be wrong: it must be mended.
    Fault,
}

/// The kinds of trouble that are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Skeleton and mesh are in different units.
    Units,
    /// Skeleton and mesh have different axes, or one is mirrored.
    Axes,
    /// The mesh stands beside the skeleton.
    Offset,
    /// The mesh's frames are those of other times of the skeleton.
    FrameOffset,
    /// Some frames have no counterpart.
    Unmatched,
    /// Two sources of one mesh order or split its vertices differently.
    VertexOrder,
    /// One source is triangulated, the other has the polygons.
    Triangulated,
    /// The faces are inside out.
    Winding,
    /// Nothing moves.
    Static,
    /// Bones that only mark the end of a chain.
    EndBones,
    /// The rest mesh is not the mesh in the skeleton's rest pose.
    RestPose,
    /// The mesh does not move with this skeleton.
    Unrelated,
    /// Anything else a reader said.
    Remark,
}

/// One finding.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// What kind of trouble.
    pub trouble: Trouble,
    /// How much it matters.
    pub severity: Severity,
    /// What was found, with numbers.
    pub what: String,
    /// How to mend it, or what was done about it.
    pub mend: String,
    /// Whether it has been mended.
    pub mended: bool,
}

impl Finding {
    /// Something to know.
    pub(crate) fn note(trouble: Trouble, what: impl Into<String>) -> Self {
        Self { trouble, severity: Severity::Note, what: what.into(), mend: String::new(), mended: false }
    }

    /// Something wrong that `fix` decides to mend.
    pub(crate) fn fault(trouble: Trouble, what: impl Into<String>, mend: impl Into<String>, mended: bool) -> Self {
        Self { trouble, severity: Severity::Fault, what: what.into(), mend: mend.into(), mended }
    }

    /// Whether it stands in the way.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.severity == Severity::Fault && !self.mended
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        match (self.severity, self.mended) {
            (Severity::Fault, true) => write!(f, " (mended: {})", self.mend),
            (Severity::Fault, false) => write!(f, "; {}", self.mend),
            (Severity::Note, _) if !self.mend.is_empty() => write!(f, "; {}", self.mend),
            _ => Ok(()),
        }
    }
}
