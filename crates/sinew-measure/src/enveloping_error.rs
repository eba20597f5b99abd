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
    /// In percent. A motion that rigid binding reproduces exactly gives 0 for an exact prediction, infinity otherwise.
    #[must_use]
    pub fn percent(&self) -> f64 {
        if self.squared_error == 0.0 { 0.0 } else { 100.0 * (self.squared_error / self.rigid_squared_error).sqrt() }
    }
}

/// `Σ_v min_b Σ_e ‖T_b^e v̂ − y_v^e‖²`: `transforms` (N)(J) map the rest mesh (V) to `truth` (N)(V).
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
    per_vertex.iter().sum()
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
}
