//! What the changes of proxy bones follow from: kernels over example poses, or polynomials of joint rotations.

use crate::file::{TensorReader, TensorWriter};
use crate::polynomials::{PolynomialScratch, Polynomials};
use crate::pose_space::{PoseSpace, PoseSpaceScratch};
use crate::{Character, ModelError, PosedSkeleton};

/// Numbers that follow from a pose, for each region of a correction some.
#[derive(Debug, Clone, PartialEq)]
pub enum Drivers {
    /// Kernels over example poses: a correction of a regression.
    Examples(PoseSpace),
    /// Polynomials of joint rotations: a distilled regression.
    Polynomials(Polynomials),
}

/// Memory reused from frame to frame.
#[derive(Debug, Clone, Default)]
pub(super) struct DriverScratch {
    space: PoseSpaceScratch,
    polynomials: PolynomialScratch,
}

impl Drivers {
    /// The number of regions, R.
    #[must_use]
    pub fn region_count(&self) -> usize {
        match self {
            Self::Examples(space) => space.regions.len(),
            Self::Polynomials(polynomials) => polynomials.regions.len(),
        }
    }

    /// How many numbers drive region `r`, N.
    #[must_use]
    pub fn inputs(&self, r: usize) -> usize {
        match self {
            Self::Examples(space) => space.poses,
            Self::Polynomials(polynomials) => polynomials.regions[r].len(),
        }
    }

    /// The bones whose joints are looked at, some of them repeatedly.
    #[must_use]
    pub fn joints(&self) -> Vec<u16> {
        match self {
            Self::Examples(space) => space.joints.clone(),
            Self::Polynomials(polynomials) => polynomials.coordinates.iter().map(|c| c.joint).collect(),
        }
    }

    /// The bones whose joints region `r` looks at.
    #[must_use]
    pub fn region_joints(&self, r: usize) -> Vec<u16> {
        match self {
            Self::Examples(space) => space.region_joints(r),
            Self::Polynomials(polynomials) => polynomials.region_joints(r),
        }
    }

    /// Whether beyond the trained ranges the changes are those of the held pose, carried on with the bones as key gradients are
    /// (see `beyond`). Kernels over examples turn with their region's bone: they change little, and fade.
    pub(crate) fn carried(&self) -> bool {
        matches!(self, Self::Polynomials(_))
    }

    pub(super) fn check(&self, character: &Character) -> Result<(), ModelError> {
        match self {
            Self::Examples(space) => space.check(character),
            Self::Polynomials(polynomials) => polynomials.check(character),
        }
    }

    pub(super) fn flops(&self) -> u64 {
        match self {
            Self::Examples(space) => space.flops(),
            Self::Polynomials(polynomials) => polynomials.flops(),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Examples(space) => space.bytes(),
            Self::Polynomials(polynomials) => polynomials.bytes(),
        }
    }

    pub(super) fn scratch(&self) -> DriverScratch {
        match self {
            Self::Examples(space) => DriverScratch { space: space.scratch(), ..DriverScratch::default() },
            Self::Polynomials(polynomials) => {
                DriverScratch { polynomials: polynomials.scratch(), ..DriverScratch::default() }
            }
        }
    }

    /// Takes a pose; `reference` holds the branch reference of each joint, (J).
    pub(super) fn set(
        &self,
        character: &Character,
        posed: &PosedSkeleton,
        reference: &[[f32; 3]],
        scratch: &mut DriverScratch,
    ) {
        match self {
            Self::Examples(space) => space.set(character, posed, &mut scratch.space),
            Self::Polynomials(polynomials) => {
                polynomials.set(character, posed, reference, &mut scratch.polynomials);
            }
        }
    }

    /// What drives region `r` in the pose that was [`set`](Self::set), (N).
    pub(super) fn values<'scratch>(&self, r: usize, scratch: &'scratch mut DriverScratch) -> &'scratch [f32] {
        match self {
            Self::Examples(space) => space.kernel(r, &mut scratch.space),
            Self::Polynomials(polynomials) => polynomials.seen(r, &mut scratch.polynomials),
        }
    }

    pub(super) fn write(&self, writer: &mut TensorWriter) {
        match self {
            Self::Examples(space) => space.write(writer),
            Self::Polynomials(polynomials) => polynomials.write(writer),
        }
    }

    /// Of whichever kind the file holds.
    pub(super) fn read(reader: &TensorReader) -> Result<Self, ModelError> {
        if reader.has(&format!("{}.joints", Polynomials::NAME)) {
            return Polynomials::read(reader).map(Self::Polynomials);
        }
        PoseSpace::read(reader).map(Self::Examples)
    }
}
