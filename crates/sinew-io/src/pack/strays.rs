//! Frames that went astray: a mesh far from its skeleton in some frames only.

use glam::DVec3;
use sinew_examples::Pose;

use super::correspond::diagonal;
use super::{Finding, PackOptions, Trouble};

/// Finds and leaves out frames whose mesh is far from its skeleton while the others are not: broken frames
/// of a simulation. `pairs` are (frame of the mesh, frame of the skeleton).
pub(super) fn leave_out(
    pairs: &[(usize, usize)],
    poses: &mut Vec<Pose>,
    frames: &mut Vec<Vec<DVec3>>,
    options: &PackOptions,
    findings: &mut Vec<Finding>,
) {
    let mean = |points: &mut dyn Iterator<Item = DVec3>| {
        let (sum, count) = points.fold((DVec3::ZERO, 0), |(sum, count), point| (sum + point, count + 1));
        sum / f64::from(count.max(1))
    };
    // From the middle of the bones to that of the mesh.
    let apart = |(pose, frame): (&Pose, &Vec<DVec3>)| {
        mean(&mut frame.iter().copied()) - mean(&mut pose.globals.iter().map(|global| global.translation))
    };
    let apart: Vec<DVec3> = poses.iter().zip(&*frames).map(apart).collect();
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(0.0)
    };
    let usual = DVec3::from_array([0, 1, 2].map(|axis| median(apart.iter().map(|apart| apart[axis]).collect())));
    let size = median(frames.iter().map(|frame| diagonal(frame)).collect());
    // By its own size: farther than any pose takes the middle of a mesh from that of its bones.
    let stray: Vec<bool> = apart.iter().map(|apart| apart.distance(usual) > size).collect();
    let found: Vec<usize> = (0..pairs.len()).filter(|&k| stray[k]).collect();
    let (Some(&first), true) = (found.first(), 4 * found.len() < pairs.len()) else { return };
    let what = format!(
        "{} of the mesh's frames, {} the first, are far from the skeleton ({:.2} m, the mesh is {size:.2} m across): broken \
         frames of a simulation?",
        found.len(),
        pairs[first].0,
        apart[first].distance(usual)
    );
    findings.push(Finding::fault(
        Trouble::Unmatched,
        what,
        "mend them in the source, or leave them out with --fix",
        options.fix,
    ));
    // Without --fix nothing is written, but what is looked at next must not be misled by them.
    let mut keep = stray.iter().map(|stray| !stray);
    poses.retain(|_| keep.next().unwrap_or(true));
    let mut keep = stray.iter().map(|stray| !stray);
    frames.retain(|_| keep.next().unwrap_or(true));
}
