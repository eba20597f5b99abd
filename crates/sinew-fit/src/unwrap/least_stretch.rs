//! From a nearly isometric map to the one with the least stretch (Sander, Snyder, Gortler and Hoppe 2001).
//!
//! A triangle with the edges q₂, q₃ on the surface and E = (U₂ − U₁ | U₃ − U₁) in the map has the stretch
//! `L2² = tr(E⁻ᵀ G E⁻¹) / 2`, G the Gram matrix of (q₂, q₃). The metric of a map, Σ area_T L2²_T · Σ texture area_T, does not
//! change with the map's scale; at the best scale it is the square of half of
//!
//!   Σ_T area_T tr(E_T⁻ᵀ G_T E_T⁻¹) / 2 + det E_T / 2,
//!
//! which is minimised here. This is a sum over triangles, so charts are independent of one another and their scales
//! come out right. It grows without bound as a triangle collapses, so that none is turned over.
//!
//! Limited-memory BFGS (Nocedal 1980) from the chart's Laplacian as the first guess of the Hessian (Zhu, Bridson and Kaufman,
//! "Blended cured quasi-Newton for distortion optimization", 2018, without their blending).

use std::collections::VecDeque;

use glam::{DMat2, DVec2};

use super::arap::Laplacian;
use super::charts::Chart;

/// Steps at most. Most maps settle after some dozens; a sheet with a narrow waist still gains a little after hundreds.
const STEPS: usize = 200;

/// Steps remembered by the quasi-Newton update; 5 to 8 are usual.
const MEMORY: usize = 6;

/// The search stops when this many steps together gain less than this part of the energy: far below what f32 texture
/// coordinates can show. Single steps may be small because one triangle is about to collapse.
const SMALLEST_GAIN: (usize, f64) = (10, 1e-9);

/// Where the descent stands.
struct Place {
    /// The chart's vertices, (n).
    uvs: Vec<DVec2>,
    energy: f64,
    /// ∂energy/∂uvs, (n).
    gradient: Vec<DVec2>,
}

/// A step of the descent and by how much it changed the gradient, both (n).
type Remembered = (Vec<DVec2>, Vec<DVec2>);

/// The map of `chart` with the least stretch, from `uvs`; `forms` (T) are `area · G` of its triangles, zero for those without
/// area. A map with turned-over triangles is left as it is.
pub fn improve(chart: &Chart, forms: &[DMat2], laplacian: &Laplacian, mut uvs: Vec<DVec2>) -> Vec<DVec2> {
    rescale(chart, forms, &mut uvs);
    let Some((energy, gradient)) = evaluate(chart, forms, &uvs) else { return uvs };
    let mut here = Place { uvs, energy, gradient };
    let mut memory: VecDeque<Remembered> = VecDeque::new();
    let mut before = here.energy;
    for count in 1..=STEPS {
        let direction = direction(&memory, &here.gradient, laplacian);
        match search(chart, forms, &here, &direction) {
            Some(next) => {
                remember(&mut memory, &here, &next);
                here = next;
            }
            // A wrong memory may point uphill; without one there is nothing left to gain.
            None if memory.is_empty() => break,
            None => memory.clear(),
        }
        if count % SMALLEST_GAIN.0 == 0 {
            if before - here.energy < SMALLEST_GAIN.1 * here.energy {
                break;
            }
            before = here.energy;
        }
    }
    here.uvs
}

fn dot(a: &[DVec2], b: &[DVec2]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a.dot(*b)).sum()
}

fn edges(uvs: &[DVec2], corners: &[usize; 3]) -> DMat2 {
    let [a, b, c] = corners.map(|v| uvs[v]);
    DMat2::from_cols(b - a, c - a)
}

/// The best scale: where the two parts of the energy are equal.
fn rescale(chart: &Chart, forms: &[DMat2], uvs: &mut [DVec2]) {
    let (mut stretch, mut area) = (0.0, 0.0);
    for (corners, form) in chart.corners.iter().zip(forms).filter(|(_, form)| **form != DMat2::ZERO) {
        let edges = edges(uvs, corners);
        stretch += trace(edges.inverse(), *form) / 2.0;
        area += edges.determinant() / 2.0;
    }
    let scale = (stretch / area).sqrt().sqrt();
    if scale.is_finite() && scale > 0.0 {
        uvs.iter_mut().for_each(|uv| *uv *= scale);
    }
}

/// `tr(E⁻ᵀ M E⁻¹)`.
fn trace(inverse: DMat2, form: DMat2) -> f64 {
    inverse.x_axis.dot(form * inverse.x_axis) + inverse.y_axis.dot(form * inverse.y_axis)
}

/// The energy and its gradient (n): `∂/∂E = −E⁻ᵀ M E⁻¹ E⁻ᵀ + det E · E⁻ᵀ / 2`. None if a triangle is turned over.
fn evaluate(chart: &Chart, forms: &[DMat2], uvs: &[DVec2]) -> Option<(f64, Vec<DVec2>)> {
    let mut energy = 0.0;
    let mut gradient = vec![DVec2::ZERO; uvs.len()];
    for (corners, form) in chart.corners.iter().zip(forms).filter(|(_, form)| **form != DMat2::ZERO) {
        let edges = edges(uvs, corners);
        let determinant = edges.determinant();
        if determinant.is_nan() || determinant <= 0.0 {
            return None;
        }
        let inverse = edges.inverse();
        energy += trace(inverse, *form) / 2.0 + determinant / 2.0;
        let transposed = inverse.transpose();
        let slope = (transposed * *form * inverse * transposed) * -1.0 + transposed * (determinant / 2.0);
        gradient[corners[0]] -= slope.x_axis + slope.y_axis;
        gradient[corners[1]] += slope.x_axis;
        gradient[corners[2]] += slope.y_axis;
    }
    energy.is_finite().then_some((energy, gradient))
}

/// Keeps the step from `here` to `next`, if the energy curves upwards along it: only such a step teaches the Hessian.
fn remember(memory: &mut VecDeque<Remembered>, here: &Place, next: &Place) {
    let moved: Vec<DVec2> = next.uvs.iter().zip(&here.uvs).map(|(new, old)| *new - *old).collect();
    let turned: Vec<DVec2> = next.gradient.iter().zip(&here.gradient).map(|(new, old)| *new - *old).collect();
    if dot(&moved, &turned) > 0.0 {
        memory.push_back((moved, turned));
        if memory.len() > MEMORY {
            memory.pop_front();
        }
    }
}

/// The two-loop recursion: minus the gradient times the guess of the inverse Hessian, (n).
fn direction(memory: &VecDeque<Remembered>, gradient: &[DVec2], laplacian: &Laplacian) -> Vec<DVec2> {
    let mut q = gradient.to_vec();
    let mut alphas = Vec::with_capacity(memory.len());
    for (moved, turned) in memory.iter().rev() {
        let alpha = dot(moved, &q) / dot(moved, turned);
        q.iter_mut().zip(turned).for_each(|(q, y)| *q -= alpha * *y);
        alphas.push(alpha);
    }
    let mut r = laplacian.solve(&q);
    for ((moved, turned), alpha) in memory.iter().zip(alphas.iter().rev()) {
        let beta = dot(turned, &r) / dot(moved, turned);
        r.iter_mut().zip(moved).for_each(|(r, s)| *r += (alpha - beta) * *s);
    }
    r.iter_mut().for_each(|r| *r = -*r);
    r
}

/// Halves the step along `direction` until the energy falls by some of what the slope promises (Armijo) and no triangle is
/// turned over.
fn search(chart: &Chart, forms: &[DMat2], here: &Place, direction: &[DVec2]) -> Option<Place> {
    let slope = dot(&here.gradient, direction);
    if slope.is_nan() || slope >= 0.0 {
        return None;
    }
    let mut length = 1.0;
    // 2⁻³⁰ of a Newton step moves nothing that f32 coordinates could show.
    for _ in 0..30 {
        let uvs: Vec<DVec2> = here.uvs.iter().zip(direction).map(|(uv, d)| *uv + length * *d).collect();
        if let Some((energy, gradient)) = evaluate(chart, forms, &uvs)
            && energy <= here.energy + 1e-4 * length * slope
        {
            return Some(Place { uvs, energy, gradient });
        }
        length /= 2.0;
    }
    None
}
