//! Limited-memory BFGS (Nocedal, "Updating quasi-Newton matrices with limited storage", 1980) with backtracking.

/// Steps and gradients remembered. More than ten gain little on our problems.
const MEMORY: usize = 10;

/// Sufficient decrease, the usual 1e-4 (Nocedal and Wright, "Numerical Optimization", 2006, section 3.1).
const ARMIJO: f64 = 1e-4;

/// When to stop.
#[derive(Debug, Clone, PartialEq)]
pub struct LbfgsParams {
    /// Steps at most.
    pub iterations: usize,
    /// Stop when ten steps together lower the objective by less than this fraction of it.
    pub tolerance: f64,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct LbfgsReport {
    /// The objective at the start and after each step.
    pub objectives: Vec<f64>,
    /// Why it stopped.
    pub stopped: &'static str,
}

/// Minimises from `x` on, in place. `objective(x, gradient)` returns the value and fills the gradient.
pub fn minimise(
    x: &mut [f64],
    params: &LbfgsParams,
    mut objective: impl FnMut(&[f64], &mut [f64]) -> f64,
) -> LbfgsReport {
    let mut gradient = vec![0.0; x.len()];
    let mut value = objective(x, &mut gradient);
    let mut objectives = vec![value];
    let mut history: Vec<(Vec<f64>, Vec<f64>, f64)> = Vec::new();
    let (mut candidate, mut new_gradient) = (x.to_vec(), gradient.clone());
    let mut stopped = "the number of steps";
    while objectives.len() <= params.iterations {
        let mut direction = two_loops(&gradient, &history);
        let mut slope = dot(&direction, &gradient);
        if !(slope < 0.0) {
            history.clear();
            direction = gradient.iter().map(|g| -g).collect();
            slope = -dot(&gradient, &gradient);
        }
        if !(slope < 0.0) {
            stopped = "a flat objective";
            break;
        }
        let mut step = if history.is_empty() { (0.01 / (-slope).sqrt()).min(1.0) } else { 1.0 };
        let accepted = loop {
            for ((c, &x), &d) in candidate.iter_mut().zip(&*x).zip(&direction) {
                *c = x + step * d;
            }
            let new_value = objective(&candidate, &mut new_gradient);
            if new_value <= value + ARMIJO * step * slope {
                break Some(new_value);
            }
            step *= 0.5;
            if step < 1e-12 {
                break None;
            }
        };
        let Some(new_value) = accepted else {
            stopped = "no further decrease";
            break;
        };
        let s: Vec<f64> = candidate.iter().zip(&*x).map(|(c, x)| c - x).collect();
        let y: Vec<f64> = new_gradient.iter().zip(&gradient).map(|(n, g)| n - g).collect();
        let curvature = dot(&s, &y);
        if curvature > 1e-12 * dot(&y, &y).sqrt() * dot(&s, &s).sqrt() {
            if history.len() == MEMORY {
                history.remove(0);
            }
            history.push((s, y, 1.0 / curvature));
        }
        x.copy_from_slice(&candidate);
        gradient.copy_from_slice(&new_gradient);
        value = new_value;
        objectives.push(value);
        let before = objectives.len().checked_sub(11).map(|k| objectives[k]);
        if before.is_some_and(|before| before - value < params.tolerance * before.abs()) {
            stopped = "convergence";
            break;
        }
    }
    LbfgsReport { objectives, stopped }
}

/// `−H g` by the two-loop recursion; `−g` without history.
fn two_loops(gradient: &[f64], history: &[(Vec<f64>, Vec<f64>, f64)]) -> Vec<f64> {
    let mut q: Vec<f64> = gradient.to_vec();
    let mut alphas = Vec::with_capacity(history.len());
    for (s, y, rho) in history.iter().rev() {
        let alpha = rho * dot(s, &q);
        q.iter_mut().zip(y).for_each(|(q, y)| *q -= alpha * y);
        alphas.push(alpha);
    }
    if let Some((_, y, rho)) = history.last() {
        let scale = 1.0 / (rho * dot(y, y));
        q.iter_mut().for_each(|q| *q *= scale);
    }
    for ((s, y, rho), alpha) in history.iter().zip(alphas.into_iter().rev()) {
        let beta = rho * dot(y, &q);
        q.iter_mut().zip(s).for_each(|(q, s)| *q += (alpha - beta) * s);
    }
    q.iter_mut().for_each(|q| *q = -*q);
    q
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_bottom_of_rosenbrocks_valley() {
        let mut x = [-1.2, 1.0];
        let report = minimise(&mut x, &LbfgsParams { iterations: 200, tolerance: 1e-14 }, |x, g| {
            let (a, b) = (1.0 - x[0], x[1] - x[0] * x[0]);
            g[0] = -2.0 * a - 400.0 * x[0] * b;
            g[1] = 200.0 * b;
            a * a + 100.0 * b * b
        });
        // 1e-5: where the valley's floor differs from its bottom by less than the tolerance.
        assert!((x[0] - 1.0).abs() < 1e-5 && (x[1] - 1.0).abs() < 1e-5, "{x:?}, {}", report.stopped);
    }
}
