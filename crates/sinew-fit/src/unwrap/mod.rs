//! Texture maps that fit the whole motion (Merry, Marais and Gain 2006, §5 and appendix B): least-squares conformal maps
//! (Lévy, Petitjean, Ray and Maillot, "Least squares conformal maps for automatic texture atlas generation", 2002) whose
//! triangles are measured in the L2,2 norm, the root mean square over all poses, rather than in the rest pose.
//!
//! Charts are the mesh's own UV charts or, without UVs, found by [`charts::automatic`]. Each is flattened by `lscm`, made
//! nearly isometric by `arap`, then given the least stretch by `least_stretch` and packed into the unit square by `pack`.
//! [`stretch`] measures the result. The paper stops at conformal maps. Those keep angles, not sizes, so what a map gains from
//! knowing the motion could be lost again in its scale; lowering the very stretch that is measured, in every norm alike,
//! leaves only the norms to differ.
//!
//! What goes wrong is mended and said: a closed chart is cut into automatic ones, a chart that comes out on its back is
//! mirrored, one with some triangles turned over is halved and flattened again, triangles without area are held by
//! their neighbours.

mod arap;
pub mod charts;
mod least_stretch;
mod lscm;
mod pack;
pub mod stretch;

use rayon::prelude::*;

use crate::FitError;
use crate::methods::animation_space::Coordinates;
use crate::norm::PoseNorm;
use charts::Chart;
use glam::{DVec2, DVec3};

/// A chart with turned-over triangles is halved at most this often.
const MOST_HALVINGS: usize = 5;

/// Texture coordinates and what was done to get them.
#[derive(Debug, Clone, PartialEq)]
pub struct Unwrapped {
    /// Texture coordinates per triangle corner in the unit square, (F).
    pub uvs: Vec<[[f32; 2]; 3]>,
    /// The chart of each triangle, (F).
    pub chart: Vec<usize>,
    /// The number of charts.
    pub charts: usize,
    /// Triangles that the map turns over.
    pub flipped: usize,
    /// What was mended, in words.
    pub notes: Vec<String>,
}

/// Texture coordinates for the surface `coordinates` (V) over `triangles` (F), measured by `norm`. `rest` (V) is used to
/// find charts where `uvs` (F) does not give them.
pub fn unwrap(
    coordinates: &Coordinates,
    rest: &[DVec3],
    triangles: &[[u32; 3]],
    uvs: Option<&[[[f32; 2]; 3]]>,
    norm: &PoseNorm,
) -> Result<Unwrapped, FitError> {
    let mut notes = Vec::new();
    let charts = find_charts(rest, triangles, uvs, &mut notes);
    let measured: Vec<lscm::Local> =
        triangles.par_iter().map(|triangle| lscm::Local::new(coordinates, norm, *triangle)).collect();
    let flat: Vec<Vec<Flat>> =
        charts.into_par_iter().map(|chart| flatten(chart, rest, &measured)).collect::<Result<_, _>>()?;
    let flat: Vec<Flat> = flat.into_iter().flatten().collect();
    tell_impossible(&measured, &mut notes);
    tell_flips(&flat, &mut notes);
    let sizes: Vec<DVec2> = flat.iter().map(|flat| flat.size).collect();
    let (places, side) = pack::pack(&sizes);
    let mut out = vec![[[0.0; 2]; 3]; triangles.len()];
    let mut chart_of = vec![0; triangles.len()];
    for (index, (flat, place)) in flat.iter().zip(&places).enumerate() {
        for (k, &f) in flat.chart.faces.iter().enumerate() {
            chart_of[f] = index;
            out[f] = flat.chart.corners[k].map(|c| ((flat.uvs[c] + *place) / side).as_vec2().to_array());
        }
    }
    Ok(Unwrapped {
        uvs: out,
        chart: chart_of,
        charts: flat.len(),
        flipped: flat.iter().map(|f| f.flipped).sum(),
        notes,
    })
}

/// A chart in the plane, its lower left corner at the origin, in units of the surface.
struct Flat {
    chart: Chart,
    uvs: Vec<DVec2>,
    size: DVec2,
    flipped: usize,
    halved: bool,
    degenerate: usize,
}

fn find_charts(
    rest: &[DVec3],
    triangles: &[[u32; 3]],
    uvs: Option<&[[[f32; 2]; 3]]>,
    notes: &mut Vec<String>,
) -> Vec<Chart> {
    let all: Vec<usize> = (0..triangles.len()).collect();
    let Some(uvs) = uvs else { return charts::automatic(rest, triangles, &all) };
    let (open, closed): (Vec<Chart>, Vec<Chart>) =
        charts::from_uvs(triangles, uvs).into_iter().partition(Chart::has_boundary);
    if !closed.is_empty() {
        let faces: Vec<usize> = closed.iter().flat_map(|chart| chart.faces.iter().copied()).collect();
        notes.push(format!("{} closed charts ({} triangles) were cut into open ones", closed.len(), faces.len()));
        return open.into_iter().chain(charts::automatic(rest, triangles, &faces)).collect();
    }
    open
}

/// Flattens a chart; it is halved while triangles come out turned over.
fn flatten(chart: Chart, rest: &[DVec3], measured: &[lscm::Local]) -> Result<Vec<Flat>, FitError> {
    let mut waiting = vec![(chart, 0)];
    let mut done = Vec::new();
    while let Some((chart, halvings)) = waiting.pop() {
        let locals: Vec<lscm::Local> = chart.faces.iter().map(|&f| measured[f]).collect();
        let solved = lscm::solve(&chart, &locals)?;
        if solved.flipped > 0 && halvings < MOST_HALVINGS && chart.faces.len() > 3 {
            waiting.extend(charts::halve(rest, &chart).into_iter().map(|half| (half, halvings + 1)));
            continue;
        }
        done.push(Flat {
            size: solved.size,
            uvs: solved.uvs,
            flipped: solved.flipped,
            halved: halvings > 0,
            degenerate: solved.degenerate,
            chart,
        });
    }
    Ok(done)
}

fn tell_impossible(measured: &[lscm::Local], notes: &mut Vec<String>) {
    let impossible = measured.iter().filter(|local| local.impossible).count();
    if impossible > 0 {
        notes.push(format!(
            "{impossible} triangles have no lengths under what is assumed of the motion: joints that were taken to be \
             independent move together; assume less (rotations), or the average over the poses"
        ));
    }
}

fn tell_flips(flat: &[Flat], notes: &mut Vec<String>) {
    let flipped: usize = flat.iter().map(|flat| flat.flipped).sum();
    if flipped > 0 {
        notes.push(format!("{flipped} triangles are turned over; cut their charts smaller to mend it"));
    }
    let halved = flat.iter().filter(|flat| flat.halved).count();
    if halved > 0 {
        notes.push(format!("{halved} charts are parts of larger ones that would have turned triangles over"));
    }
    let degenerate: usize = flat.iter().map(|flat| flat.degenerate).sum();
    if degenerate > 0 {
        notes.push(format!("{degenerate} triangles have no area in any pose; their neighbours place them"));
    }
}

#[cfg(test)]
mod tests;
