//! Enveloping error (Wang, Pulli and Popović, "Real-time enveloping with rotational regression", 2007, section 7):
//!
//!   EE = √( Σ_e Σ_v ‖y_v^e − ŷ_v^e‖² / Σ_e Σ_v ‖r_v^e − y_v^e‖² )
//!
//! where r is the best articulated rigid prediction: for each vertex the single bone that fits it best over *the
//! evaluated poses*. Zero is perfect, 100 % is as good as rigid binding. For leave-one-out the numerators of the folds are
//! added up over one denominator over all poses.

use glam::{DAffine3, DVec3};
use rayon::prelude::*;

/// Numerator and denominator of the enveloping error, kept apart so that folds can be summed.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct EnvelopingError {
    /// Sum of squared errors of the prediction.
    pub squared_error: f64,
    /// Sum of squared errors of the best single bones.
    pub rigid_squared_error: f64,
}

impl EnvelopingError {
    /// In percent.
    #[must_use]
    pub fn percent(&self) -> f64 {
        if self.squared_error == 0.0 { 0.0 } else { 100.0 * (self.squared_error / self.rigid_squared_error).sqrt() }
    }
}

/// `Σ_v min_b Σ_e ‖T_b^e v̂ − y_v^e‖²`: `transforms` (N)(J) map the rest mesh (V) to `truth` (N)(V). No less than if every
/// vertex were off by the rounding of f32 at the mesh's size, so that the enveloping error of a motion that rigid binding
/// reproduces is a number too.
#[must_use]
pub fn best_rigid_error(rest: &[DVec3], transforms: &[Vec<DAffine3>], truth: &[&[DVec3]]) -> f64 {
    let bones = transforms.first().map_or(0, Vec::len);
    let best = |v: usize| {
        let mut best = f64::INFINITY;
        for b in 0..bones {
            let mut error = 0.0;
            for (bones, truth) in transforms.iter().zip(truth) {
                error += (bones[b].transform_point3(rest[v]) - truth[v]).length_squared();
                // Errors only grow: a bone that is already worse is given up, which most bones of a body are at once.
                if error >= best {
                    break;
                }
            }
            best = best.min(error);
        }
        best
    };
    // Collected before summing: the order of a parallel sum would depend on the threads.
    let per_vertex: Vec<f64> = (0..rest.len()).into_par_iter().map(best).collect();
    per_vertex.iter().sum::<f64>().max(rounding(rest, truth.len()))
}

/// `N V (ε d)²`, ε that of f32 and d the diagonal of the rest mesh's bounding box.
fn rounding(rest: &[DVec3], frames: usize) -> f64 {
    let box_of = |(low, high): (DVec3, DVec3), &p: &DVec3| (low.min(p), high.max(p));
    let (low, high) = rest.iter().fold((DVec3::INFINITY, DVec3::NEG_INFINITY), box_of);
    let off = f64::from(f32::EPSILON) * (high - low).length();
    (frames * rest.len()) as f64 * off * off
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        // Two vertices, one frame, two bones: one rests, one moves by 2 along x. The truth moved by 1 and by 2.
        let rest = [DVec3::ZERO, DVec3::Y];
        let transforms = [vec![DAffine3::IDENTITY, DAffine3::from_translation(DVec3::X * 2.0)]];
        let truth = [DVec3::X, DVec3::new(2.0, 1.0, 0.0)];
        let rigid = best_rigid_error(&rest, &transforms, &[&truth]);
        assert_eq!(rigid, 1.0);
        let ee = EnvelopingError { squared_error: 0.25, rigid_squared_error: rigid };
        assert_eq!(ee.percent(), 50.0);
    }

    #[test]
    fn a_rigid_motion_has_a_number() {
        let rest = [DVec3::ZERO, DVec3::Y];
        let rigid = best_rigid_error(&rest, &[vec![DAffine3::IDENTITY]], &[&rest]);
        // Both vertices off by the rounding at the diagonal, 1: as bad as the floor.
        let squared_error = 2.0 * f64::from(f32::EPSILON).powi(2);
        assert_eq!(EnvelopingError { squared_error, rigid_squared_error: rigid }.percent(), 100.0);
    }
}
