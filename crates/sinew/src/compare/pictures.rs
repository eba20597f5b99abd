//! The pictures of a report: truth and every method at the same frames, from the same place, on one error scale.

use glam::DVec3;
use rayon::prelude::*;
use sinew_draw::{Camera, Image, Picture, Surface, error_colour, group_colour, render};
use sinew_runtime::Deformer;

use super::contest::{Contest, Finished};

/// A frame that is shown, and why.
pub struct Shown {
    /// Its number among the test frames.
    pub index: usize,
    /// "worst", "median" or "chosen".
    pub why: &'static str,
    /// Truth as clay.
    pub truth: Vec<u8>,
    /// Each finished method with its error in colour, in the contest's order; PNG.
    pub methods: Vec<Vec<u8>>,
}

/// A false-colour picture of a model.
pub struct FalseColour {
    /// What it shows.
    pub title: String,
    /// PNG.
    pub png: Vec<u8>,
}

/// The error at the end of the colour scale, metres: what 99 % of linear blend skinning's vertices stay below on their
/// worst pose would be harsh to compare across data; we take the largest vertex rms of `ssd`, or of the worst method.
pub fn scale_end(contest: &Contest) -> f64 {
    let worst = |finished: &Finished| {
        let mut errors = finished.test.vertex_rms.clone();
        errors.sort_by(f64::total_cmp);
        errors.get(errors.len().saturating_sub(1 + errors.len() / 100)).copied().unwrap_or(0.0)
    };
    let ssd = contest.finished().find(|(contender, _)| contender.name == "ssd").map(|(_, finished)| worst(finished));
    let end = ssd.unwrap_or_else(|| contest.finished().map(|(_, finished)| worst(finished)).fold(0.0, f64::max));
    if end > 0.0 { 1.5 * end } else { 1e-3 * contest.examples.mesh().diagonal() }
}

/// The test frames worth showing, by the mean error of all methods: the worst, the median, and `chosen` if given.
pub fn frames_to_show(contest: &Contest, chosen: Option<usize>) -> Vec<(usize, &'static str)> {
    let count = contest.test_frames.len();
    let mut order: Vec<usize> = (0..count).collect();
    let mean = |k: usize| contest.finished().map(|(_, f)| f.test.frame_rms_percent[k]).sum::<f64>();
    let errors: Vec<f64> = (0..count).map(mean).collect();
    order.sort_by(|&a, &b| errors[b].total_cmp(&errors[a]).then(a.cmp(&b)));
    let mut shown = Vec::new();
    shown.extend(order.first().map(|&k| (k, "worst")));
    shown.extend(order.get(count / 2).map(|&k| (k, "median")));
    shown.extend(chosen.and_then(|e| contest.test_frames.iter().position(|&f| f == e)).map(|k| (k, "chosen")));
    shown.dedup_by_key(|shown| shown.0);
    shown
}

/// Draws the frames.
pub fn shown_frames(contest: &Contest, frames: &[(usize, &'static str)], size: &Picture) -> Vec<Shown> {
    let end = scale_end(contest);
    let draw = |&(index, why): &(usize, &'static str)| {
        let truth = contest.examples.vertices(contest.test_frames[index]);
        let camera = camera(contest, truth, size);
        let finished: Vec<&Finished> = contest.finished().map(|(_, finished)| finished).collect();
        let method = |finished: &&Finished| {
            let predicted = contest.predicted(finished, index);
            with_error(contest, truth, &predicted, end, &camera, size).png()
        };
        Shown {
            index,
            why,
            truth: surface(contest, truth, None, &camera, size).png(),
            methods: finished.par_iter().map(method).collect(),
        }
    };
    frames.iter().map(draw).collect()
}

/// A camera around one pose: three-quarter from the front, but limbs that lie in a plane are seen square.
pub fn camera(contest: &Contest, positions: &[DVec3], size: &Picture) -> Camera {
    let (low, high) = contest.examples.mesh().bounds();
    let extent = high - low;
    // What is longer along Z than across is seen from its side.
    let yaw = if extent.z > 1.2 * extent.x { 65.0 } else { 20.0 };
    Camera::around(&[positions], yaw, 12.0, size.width as f64 / size.height as f64)
}

/// A mesh in the colours of its error.
pub fn with_error(
    contest: &Contest,
    truth: &[DVec3],
    predicted: &[DVec3],
    scale_end: f64,
    camera: &Camera,
    size: &Picture,
) -> Image {
    let colours: Vec<[f64; 3]> =
        truth.iter().zip(predicted).map(|(t, p)| error_colour(t.distance(*p) / scale_end)).collect();
    surface(contest, predicted, Some(&colours), camera, size)
}

/// A mesh in given colours, or as clay.
pub fn surface(
    contest: &Contest,
    positions: &[DVec3],
    colours: Option<&[[f64; 3]]>,
    camera: &Camera,
    size: &Picture,
) -> Image {
    render(&Surface { positions, triangles: contest.examples.mesh().triangles(), colours }, camera, size)
}

/// Dominant joints of the plain weights, and of the last model with proxy bones: its proxies, its predictors' joints and
/// their scale factor u.
pub fn false_colours(contest: &Contest, size: &Picture) -> Vec<FalseColour> {
    let Some((_, any)) = contest.finished().next() else { return Vec::new() };
    let rest = contest.examples.mesh().vertices();
    let camera = camera(contest, rest, size);
    let draw = |title: String, colours: Vec<[f64; 3]>| FalseColour {
        title,
        png: surface(contest, rest, Some(&colours), &camera, size).png(),
    };
    let skin = contest.finished().find(|(c, _)| c.name == "ssd").map_or(&any.model, |(_, f)| &f.model);
    let dominant = |v: usize| skin.character.skin.vertex(v).next().map_or(0, |(joint, _)| joint);
    let mut pictures = vec![draw(
        "the bone that moves each vertex most".into(),
        (0..rest.len()).map(|v| group_colour(dominant(v))).collect(),
    )];
    let with_proxies = contest.finished().filter_map(|(contender, finished)| match &finished.model.deformer {
        Deformer::RotationalRegression(rr) => Some((contender, rr)),
        _ => None,
    });
    if let Some((contender, rr)) = with_proxies.last() {
        let proxies = rr.predictors.len();
        let name = &contender.name;
        let heaviest = |v: usize| rr.skin.vertex(v).next().map_or(0, |(joint, _)| joint);
        let grey = [0.75; 3];
        let of_proxy = |colour: &dyn Fn(usize) -> [f64; 3]| -> Vec<[f64; 3]> {
            (0..rest.len()).map(|v| Some(heaviest(v)).filter(|&p| p < proxies).map_or(grey, colour)).collect()
        };
        let width = rr.predictors.width;
        let joint = |p: usize| group_colour(rr.predictors.joints[p * width] as usize);
        pictures.push(draw(format!("{name}: proxy bones (grey: drawn by the skeleton)"), of_proxy(&group_colour)));
        pictures.push(draw(format!("{name}: the joint that each proxy bone follows"), of_proxy(&joint)));
        let columns = rr.predictors.columns();
        let scale = |p: usize| {
            // ‖M₁‖ / √3 is u where M₁ = u W with W a rotation.
            let rows = &rr.predictors.rotation[p * 3 * columns..(p + 1) * 3 * columns];
            let sum: f32 = rows.chunks(columns).flat_map(|row| row[..3].iter()).map(|m| m * m).sum();
            error_colour(f64::from(sum / 3.0).sqrt() / 1.25)
        };
        pictures
            .push(draw(format!("{name}: scale factor u of the predictors, light 0 to dark 1.25"), of_proxy(&scale)));
    }
    pictures
}
