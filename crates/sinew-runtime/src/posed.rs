//! A pose prepared for the deformers: everything in the root bone's own frame.

use glam::{Affine3A, Mat3A, Vec3A};

use crate::kernel::Matrix;
use crate::{Bone, Character};

/// The skinning transforms of one pose, in the root's frame and in the world. Reused from frame to frame.
#[derive(Debug, Clone)]
pub struct PosedSkeleton {
    root: usize,
    /// `Ĝ_b⁻¹`, (J).
    inverse_rest: Vec<Affine3A>,
    /// The same row by row, (J).
    inverse_rest_rows: Vec<Matrix>,
    /// The same for a rest pose moved such that its root stands in the origin, row by row, (J).
    inverse_centred_rest_rows: Vec<Matrix>,
    /// `Ĝ_b⁻¹ F̂`, (J).
    from_rest_frame: Vec<Affine3A>,
    /// The root's rest frame F̂.
    pub rest_frame: Affine3A,
    /// The root's posed frame F.
    pub frame: Affine3A,
    /// `F⁻¹ G_b Ĝ_b⁻¹ F̂`, (J): rest to posed, both in the root's frame.
    pub relative: Vec<Affine3A>,
    /// `G_b Ĝ_b⁻¹`, (J): rest to posed, both in the world.
    pub world: Vec<Affine3A>,
    /// The rotations of `relative`, (J), where poses are held.
    pub(crate) turned: Vec<Mat3A>,
    /// The rotations of `relative` held within the trained ranges, Q′_b, (J), if [`Self::beyond`].
    pub(crate) held: Vec<Mat3A>,
    /// What `held` leaves of each bone's rotation, `E_b` with `Q_b = E_b Q′_b`, (J), if [`Self::beyond`].
    pub(crate) excess: Vec<Mat3A>,
    /// Whether some joint is beyond the trained ranges; told by who knows them, and never without.
    pub(crate) beyond: bool,
}

impl PosedSkeleton {
    /// Room for the poses of `character`, standing in its rest pose.
    #[must_use]
    pub fn new(character: &Character) -> Self {
        let root = character.root();
        let rest_frame = rigid_part(character.bones[root].rest);
        let bones = character.bones.len();
        let inverse_rest: Vec<Affine3A> = character.bones.iter().map(|bone| bone.rest.inverse()).collect();
        // Moved before it is inverted: what remains of a large translation afterwards would be its rounding.
        let centred =
            |bone: &Bone| Affine3A { translation: bone.rest.translation - rest_frame.translation, ..bone.rest };
        let inverse_centred_rest = character.bones.iter().map(|bone| centred(bone).inverse());
        Self {
            root,
            inverse_centred_rest_rows: inverse_centred_rest.map(|inverse| Matrix::from(&inverse)).collect(),
            inverse_rest_rows: inverse_rest.iter().map(Matrix::from).collect(),
            from_rest_frame: inverse_rest.iter().map(|&inverse| inverse * rest_frame).collect(),
            inverse_rest,
            rest_frame,
            frame: rest_frame,
            relative: vec![Affine3A::IDENTITY; bones],
            world: vec![Affine3A::IDENTITY; bones],
            turned: vec![Mat3A::IDENTITY; bones],
            held: vec![Mat3A::IDENTITY; bones],
            excess: vec![Mat3A::IDENTITY; bones],
            beyond: false,
        }
    }

    /// Takes a pose: global bone transforms G_b, (J). Panics if there are not J of them.
    pub fn set(&mut self, pose: &[Affine3A]) {
        assert_eq!(pose.len(), self.inverse_rest.len(), "a pose has one global transform a bone");
        self.beyond = false;
        self.frame = rigid_part(pose[self.root]);
        let inverse_frame = self.frame.inverse();
        for (b, &global) in pose.iter().enumerate() {
            self.world[b] = global * self.inverse_rest[b];
            self.relative[b] = inverse_frame * self.world[b] * self.rest_frame;
        }
    }

    /// The rotation of bone `b` in the root's frame as predictors see it: held within the trained ranges.
    #[must_use]
    pub fn seen_rotation(&self, b: usize) -> Mat3A {
        if self.beyond { self.held[b] } else { nearest_rotation(self.relative[b].matrix3) }
    }

    /// The world transforms of a pose as rows of 3×4 matrices, (J), and nothing else: all that plain skinning needs.
    pub(crate) fn world_palette(&self, pose: &[Affine3A], palette: &mut [Matrix]) {
        products(pose, &self.inverse_rest_rows, palette);
    }

    /// The global transforms of a pose as rows of 3×4 matrices, (J), for points in the bones' own frames: nothing to multiply.
    pub(crate) fn global_palette(&self, pose: &[Affine3A], palette: &mut [Matrix]) {
        assert_eq!(pose.len(), self.inverse_rest.len(), "a pose has one global transform a bone");
        palette.iter_mut().zip(pose).for_each(|(matrix, global)| *matrix = global.into());
    }

    /// The same as [`Self::world_palette`] for rest points from the root's rest place, as [`centred_rest`] gives them: far from the world's origin their
    /// numbers keep their digits.
    pub(crate) fn centred_palette(&self, pose: &[Affine3A], palette: &mut [Matrix]) {
        products(pose, &self.inverse_centred_rest_rows, palette);
    }

    /// Takes the root's frame of a pose and nothing else.
    pub(crate) fn set_frame(&mut self, pose: &[Affine3A]) {
        self.beyond = false;
        self.frame = rigid_part(pose[self.root]);
    }

    /// The transforms within the root's frame of a pose whose frame was set, as rows of 3×4 matrices, (J).
    pub(crate) fn relative_palette(&self, pose: &[Affine3A], palette: &mut [Matrix]) {
        assert_eq!(pose.len(), self.inverse_rest.len(), "a pose has one global transform a bone");
        let inverse_frame = self.frame.inverse();
        for ((matrix, &global), &from_rest_frame) in palette.iter_mut().zip(pose).zip(&self.from_rest_frame) {
            *matrix = Matrix::from(&(inverse_frame * (global * from_rest_frame)));
        }
    }
}

/// The rest positions from the root's rest place, (V).
pub(crate) fn centred_rest(character: &Character) -> Vec<[f32; 3]> {
    let origin = character.bones[character.root()].rest.translation;
    character.rest_positions.iter().map(|&p| (Vec3A::from_array(p) - origin).to_array()).collect()
}

/// `G_b X_b` of every bone, (J).
fn products(pose: &[Affine3A], rows: &[Matrix], palette: &mut [Matrix]) {
    assert_eq!(pose.len(), rows.len(), "a pose has one global transform a bone");
    for ((matrix, global), rows) in palette.iter_mut().zip(pose).zip(rows) {
        *matrix = Matrix::product(global, rows);
    }
}

/// The rotation and translation of `transform`; the f32 twin of `sinew_examples::rigid_part`.
pub(crate) fn rigid_part(transform: Affine3A) -> Affine3A {
    Affine3A { matrix3: nearest_rotation(transform.matrix3), translation: transform.translation }
}

/// The rotation nearest to `m` (to `−m` if `m` mirrors), by Newton's iteration for the polar factor; the identity if
/// `m` is singular.
pub(crate) fn nearest_rotation(m: Mat3A) -> Mat3A {
    // Nearly every bone only turns, so `m` is a rotation up to rounding: then one step of Newton and Schulz,
    // `m (3I − mᵀm) / 2`, which needs no inverse, leaves an error of the square, below f32.
    let gram = m.transpose() * m;
    let off = gram - Mat3A::IDENTITY;
    if off.x_axis.abs().max(off.y_axis.abs()).max(off.z_axis.abs()).max_element() < 1e-4 {
        let q = m * (Mat3A::IDENTITY * 3.0 - gram) * 0.5;
        return if q.determinant() < 0.0 { q * -1.0 } else { q };
    }
    let scale = m.x_axis.length().max(m.y_axis.length()).max(m.z_axis.length());
    if scale == 0.0 || !scale.is_finite() || (m.determinant() / (scale * scale * scale)).abs() < 1e-6 {
        return Mat3A::IDENTITY;
    }
    let mut q = m * (1.0 / scale);
    // f32 carries 24 bits, and the error squares with each step once below one.
    for _ in 0..24 {
        let next = (q + q.inverse().transpose()) * 0.5;
        let change = (next - q).to_cols_array().iter().fold(0.0_f32, |most, c| most.max(c.abs()));
        q = next;
        if change < 1e-7 {
            break;
        }
    }
    if q.determinant() < 0.0 { q * -1.0 } else { q }
}
