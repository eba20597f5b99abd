//! Writes the page about near-rigid vertices under `docs/`: what holds the limbs of rotational regression in place.
//!
//!     cargo run --release -p sinew --example regression_pages -- docs
//!
//! Every number and picture on that page comes from here.

use std::fmt::Write;
use std::path::PathBuf;

use glam::{DAffine3, DVec3, Vec3};
use sinew_draw::{Camera, Image, Picture, Surface, error_colour, render};
use sinew_examples::{Examples, datasets};
use sinew_fit::methods::rr::full::FullParams;
use sinew_fit::methods::rr::near_rigid::NearRigidParams;
use sinew_fit::{Method, Quiet, Training, fit, to_model};
use sinew_measure::measure;
use sinew_runtime::{Evaluator, Model};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The error that is drawn dark, % of the rest diagonal.
const DARK: f64 = 2.0;

fn main() -> Result<()> {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "docs".into()));
    std::fs::create_dir_all(&folder)?;
    let arm = datasets::by_name("arm").expect("a built-in data set").make();
    let training = Training::new(&arm, &arm.split().train)?;
    let held = NearRigidParams::default();
    // One vertex a piece is always held, or the Poisson equation would have no single solution.
    let free = NearRigidParams { threshold: 0.0, coverage: 0.0 };
    let mut rows = String::new();
    let mut fitted = Vec::new();
    for (name, near_rigid) in [("near-rigid vertices held", held), ("one vertex held", free)] {
        let params = FullParams { near_rigid, ..FullParams::default() };
        let result = fit(&training, &Method::FullRotationalRegression(params), &Quiet)?;
        let errors = [&arm.split().train, &arm.split().test].map(|frames| error(&result.model, &arm, frames));
        let count = result.report.findings.iter().find(|(what, _)| what.starts_with("near-rigid"));
        let count = count.map_or("", |(_, count)| count);
        writeln!(rows, "| {name} | {count} | {:.1} | {:.1} |", errors[0], errors[1])?;
        fitted.push(result.model);
    }
    std::fs::write(folder.join("near-rigid.png"), pictures(&arm, &fitted).png())?;
    let page = format!(
        "# Why some vertices are held\n\n\
         Rotational regression predicts how every triangle turns and stretches, and a Poisson equation puts the triangles\n\
         together again. The equation knows differences only: small errors of the rotations add up along a limb, and its end\n\
         drifts away from its bone (Wang, Pulli and Popovi\u{107}, \"Real-time enveloping with rotational regression\", 2007, figure 7).\n\
         So the vertices that linear blend skinning already draws well, the near-rigid ones, are held where it puts them.\n\n\
         ![The arm in a pose that trained nothing: the truth, with near-rigid vertices held, with one vertex held; coloured by \
         the distance to the truth](near-rigid.png)\n\n\
         The arm in a pose that trained nothing, coloured by its distance from the truth (dark: {DARK} % of the rest diagonal or\n\
         more). From the left: the truth, `rr-full` with near-rigid vertices held, and with a single vertex held.\n\n\
         | `arm`, `rr-full` | vertices held | EE % on training poses | EE % on unseen poses |\n|---|---|---|---|\n{rows}\n\
         This page is written by `cargo run --release -p sinew --example regression_pages`.\n"
    );
    Ok(std::fs::write(folder.join("near-rigid.md"), page)?)
}

fn posed(model: &Model, examples: &Examples, e: usize) -> Vec<DVec3> {
    let pose: Vec<_> = examples.pose(e).globals.iter().map(|&g| to_model::transform(g)).collect();
    let mut positions = vec![[0.0; 3]; model.character.vertex_count()];
    Evaluator::new(model).positions(&pose, &mut positions);
    positions.into_iter().map(|p| Vec3::from(p).as_dvec3()).collect()
}

/// EE % over `frames`.
fn error(model: &Model, examples: &Examples, frames: &[usize]) -> f64 {
    let drawn: Vec<Vec<DVec3>> = frames.iter().map(|&e| posed(model, examples, e)).collect();
    let truth: Vec<&[DVec3]> = frames.iter().map(|&e| examples.vertices(e)).collect();
    let transforms = |e: &usize| -> Vec<DAffine3> {
        let bones = examples.skeleton().bones().iter();
        bones.zip(&examples.pose(*e).globals).map(|(bone, &global)| global * bone.rest.inverse()).collect()
    };
    let transforms: Vec<Vec<DAffine3>> = frames.iter().map(transforms).collect();
    measure(examples.mesh(), &transforms, &truth, &drawn).ee_percent
}

/// The truth and each model side by side, in the unseen pose where the last one is farthest off.
fn pictures(examples: &Examples, models: &[Model]) -> Image {
    let diagonal = examples.mesh().diagonal();
    let last = models.last().expect("two models");
    let off = |e: usize| -> f64 {
        posed(last, examples, e).iter().zip(examples.vertices(e)).map(|(a, b)| a.distance_squared(*b)).sum()
    };
    let worst = examples.split().test.iter().copied().max_by(|&a, &b| off(a).total_cmp(&off(b)));
    let e = worst.expect("the data set has test frames");
    let truth = examples.vertices(e).to_vec();
    let drawn: Vec<Vec<DVec3>> = models.iter().map(|model| posed(model, examples, e)).collect();
    let everything: Vec<&[DVec3]> = std::iter::once(&truth).chain(&drawn).map(Vec::as_slice).collect();
    let camera = Camera::around(&everything, 20.0, 15.0, 4.0 / 3.0);
    let picture = |positions: &Vec<DVec3>| {
        let level = |(a, b): (&DVec3, &DVec3)| error_colour(100.0 * a.distance(*b) / diagonal / DARK);
        let colours: Vec<[f64; 3]> = positions.iter().zip(&truth).map(level).collect();
        let surface = Surface { positions, triangles: examples.mesh().triangles(), colours: Some(&colours) };
        render(&surface, &camera, &Picture { background: [255; 4], ..Picture::default() })
    };
    let images: Vec<Image> = std::iter::once(&truth).chain(&drawn).map(picture).collect();
    Image::grid(&images, images.len(), 8, [255; 4])
}
