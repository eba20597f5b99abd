//! Writes the pages about animation space under `docs/`: subdivision, and texture maps that fit the whole motion.
//!
//!     cargo run --release -p sinew --example linear_pages -- docs [body.npz …]
//!
//! Every number and picture on those pages comes from here.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use glam::{DAffine3, DVec2, DVec3, Vec3};
use sinew_draw::{Camera, Image, Picture, Surface, error_colour, render};
use sinew_examples::{Examples, datasets};
use sinew_fit::methods::animation_space::Coordinates;
use sinew_fit::norm::{MotionModel, MotionSamples, PoseNorm};
use sinew_fit::subdivide::{LoopStep, subdivide, subdivide_skin};
use sinew_fit::unwrap::{Unwrapped, stretch, unwrap};
use sinew_fit::{Method, Quiet, Training, fit, to_model};
use sinew_runtime::{Deformer, Evaluator, Model, deform};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().unwrap_or_else(|| "docs".into()));
    std::fs::create_dir_all(&folder)?;
    subdivision_page(&folder)?;
    texture_page(&folder, &arguments.map(PathBuf::from).collect::<Vec<_>>())
}

fn dataset(name: &str) -> Examples {
    datasets::by_name(name).expect("a built-in data set").make()
}

fn fitted(examples: &Examples, method: &str) -> Result<Model> {
    let training = Training::new(examples, &examples.split().train)?;
    Ok(fit(&training, &Method::by_name(method).expect("a method"), &Quiet)?.model)
}

fn posed(model: &Model, examples: &Examples, e: usize) -> Vec<DVec3> {
    let pose: Vec<_> = examples.pose(e).globals.iter().map(|&g| to_model::transform(g)).collect();
    let mut positions = vec![[0.0; 3]; model.character.vertex_count()];
    Evaluator::new(model).positions(&pose, &mut positions);
    positions.into_iter().map(|p| Vec3::from(p).as_dvec3()).collect()
}

// Subdivision.

fn subdivision_page(folder: &Path) -> Result<()> {
    let examples = dataset("tube-bend");
    let test = &examples.split().test;
    let diagonal = examples.mesh().diagonal();
    let mut rows = String::new();
    let mut pictures = Vec::new();
    for (name, method) in [("linear blend skinning", "ssd"), ("animation space", "as")] {
        let model = fitted(&examples, method)?;
        let first = LoopStep::new(model.character.vertex_count(), &model.character.triangles);
        let second = LoopStep::new(first.stencils.len(), &first.triangles);
        let mut fine = subdivide(&model, 2)?;
        if method == "ssd" {
            fine.character.skin = subdivide_skin(&subdivide_skin(&model.character.skin, &first), &second);
            fine.deformer = Deformer::LinearBlend(deform::LinearBlend);
        }
        let distances = |e: usize| -> Vec<f64> {
            let truth = second.apply(&first.apply(&posed(&model, &examples, e)));
            posed(&fine, &examples, e).iter().zip(&truth).map(|(a, b)| 100.0 * a.distance(*b) / diagonal).collect()
        };
        let worst = test.iter().flat_map(|&e| distances(e)).fold(0.0, f64::max);
        writeln!(rows, "| {name} | {worst:.6} |")?;
        let last = *test.last().expect("the data set has test frames");
        // Half a percent of the diagonal is dark.
        let colours: Vec<[f64; 3]> = distances(last).iter().map(|d| error_colour(d / 0.5)).collect();
        let positions = posed(&fine, &examples, last);
        let camera = Camera::around(&[&positions], 20.0, 15.0, 4.0 / 3.0);
        let surface = Surface { positions: &positions, triangles: &fine.character.triangles, colours: Some(&colours) };
        pictures.push(render(&surface, &camera, &Picture { background: [255; 4], ..Picture::default() }));
    }
    std::fs::write(folder.join("subdivision.png"), Image::grid(&pictures, 2, 8, [255; 4]).png())?;
    let page = format!(
        "# Subdividing a skin\n\n\
         `sinew subdivide model.sinew -o fine.sinew --levels 2` refines an animation-space model by Loop's rule. Every new\n\
         vertex is an affine combination of old ones, and animation space is linear, so the fine model is the subdivided\n\
         posed mesh in every pose. Linear blend skinning multiplies weights and positions; averaging both gives another\n\
         surface wherever a joint bends. (A linear blend model is turned into animation space first, which loses nothing.)\n\n\
         ![A bent tube, subdivided twice, coloured by the distance to the subdivided posed mesh: left linear blend \
         skinning with averaged weights, right animation space](subdivision.png)\n\n\
         The bent tube subdivided twice, coloured by its distance from the subdivided posed mesh (dark: half a percent of the\n\
         rest diagonal or more). Left linear blend skinning with averaged positions and weights, right animation space.\n\n\
         | `tube-bend`, all test frames | largest distance, % of the rest diagonal |\n|---|---|\n{rows}\n\
         This page is written by `cargo run --release -p sinew --example linear_pages`.\n"
    );
    Ok(std::fs::write(folder.join("subdivision.md"), page)?)
}

// Texture maps.

/// A model, its name, and the map for each of the three kinds of statistics.
struct Mapped {
    name: String,
    examples: Examples,
    model: Model,
    maps: Vec<(Unwrapped, f64)>,
}

fn texture_page(folder: &Path, files: &[PathBuf]) -> Result<()> {
    let mut sets: Vec<(String, Examples)> =
        ["tube-bend", "tube-twist", "arm", "shoulder"].iter().map(|name| (name.to_string(), dataset(name))).collect();
    for file in files {
        let sinew_io::Loaded::Examples(examples) = sinew_io::npz::read(file)? else {
            return Err(format!("{}: there is no skeleton in it", file.display()).into());
        };
        sets.push((file.file_name().unwrap_or_default().to_string_lossy().into_owned(), *examples));
    }
    let mapped: Vec<Mapped> = sets.into_iter().map(|(name, examples)| mapped(name, examples)).collect::<Result<_>>()?;
    let (mut unseen, mut seen, mut times) = (String::new(), String::new(), String::new());
    for set in &mapped {
        let Mapped { name, examples, model, maps } = set;
        let stretches = |frames: &[usize]| -> Vec<String> {
            maps.iter().map(|(map, _)| format!("{:.2} %", mean_stretch(model, examples, frames, map))).collect()
        };
        writeln!(unseen, "| {name} | {} |", stretches(&examples.split().test).join(" | "))?;
        writeln!(seen, "| {name} | {} |", stretches(&examples.split().train).join(" | "))?;
        let vertices = model.character.vertex_count();
        let bones = model.character.bones.len();
        let (rest, motion) = (maps[0].1, maps[2].1);
        writeln!(
            times,
            "| {name} | {vertices} | {bones} | {} | {rest:.3} | {motion:.3} | {:.2} |",
            maps[2].0.charts,
            motion / rest
        )?;
    }
    std::fs::write(folder.join("texture-maps.png"), checkerboards(&mapped[0])?.png())?;
    let head = "| | rest pose | skeleton only | skeleton and motion |\n|---|---|---|---|\n";
    let page = format!(
        "# Texture maps that fit the whole motion\n\n\
         `sinew unwrap examples.npz --statistics motion -o out.glb` flattens a skin so that its texture is distorted least over\n\
         all poses, not just at rest (Merry, Marais and Gain, \"Animation space\", 2006, section 5). Triangles are measured by\n\
         the root mean square over the poses: of the rest pose alone, of a skeleton whose joints turn in every way, or of\n\
         joints that turn as they do in the training frames. In that measure each map has the least stretch it can have.\n\n\
         Stretch is the L2 metric of Sander et al. (2001), in percent above an isometry, averaged over frames.\n\n\
         On test frames, which the statistics have not seen:\n\n{head}{unseen}\n\
         On the training frames:\n\n{head}{seen}\n\
         Seconds to unwrap:\n\n| | vertices | bones | charts | rest pose | skeleton and motion | ratio |\n|---|---|---|---|---|---|---|\n{times}\n\
         ![The tube under its maps: rows from straight to bent, columns rest pose, skeleton only, skeleton and \
         motion](texture-maps.png)\n\n\
         `tube-bend` under its three maps (columns as in the tables), straight, half bent and bent (rows).\n\n\
         This page is written by `cargo run --release -p sinew --example linear_pages -- docs FILES`.\n"
    );
    Ok(std::fs::write(folder.join("texture-maps.md"), page)?)
}

fn mapped(name: String, examples: Examples) -> Result<Mapped> {
    let model = fitted(&examples, "as")?;
    let coordinates = Coordinates::from_model(&model).ok_or("an animation-space model has coordinates")?;
    let skeleton = examples.skeleton();
    let rest: Vec<DVec3> = examples.mesh().vertices().to_vec();
    let samples = MotionSamples::new(skeleton, examples.split().train.iter().map(|&e| examples.pose(e)));
    let make = |norm: &dyn Fn() -> Result<PoseNorm>| -> Result<(Unwrapped, f64)> {
        let start = Instant::now();
        let map = unwrap(&coordinates, &rest, &model.character.triangles, model.character.uvs.as_deref(), &norm()?)?;
        Ok((map, start.elapsed().as_secs_f64()))
    };
    let maps = vec![
        make(&|| Ok(PoseNorm::average(&[vec![DAffine3::IDENTITY; skeleton.bone_count()]])))?,
        make(&|| Ok(PoseNorm::new(skeleton, &MotionModel::UniformRotations)?))?,
        make(&|| Ok(PoseNorm::new(skeleton, &MotionModel::Average(samples.clone()))?))?,
    ];
    Ok(Mapped { name, examples, model, maps })
}

fn mean_stretch(model: &Model, examples: &Examples, frames: &[usize], map: &Unwrapped) -> f64 {
    let of = |&e: &usize| stretch::percent(&posed(model, examples, e), &model.character.triangles, &map.uvs);
    frames.iter().map(of).sum::<f64>() / frames.len().max(1) as f64
}

fn checkerboards(set: &Mapped) -> Result<Image> {
    let test = &set.examples.split().test;
    let frames = [test[0], test[test.len() / 2], test[test.len() - 1]];
    let mut pictures = Vec::new();
    for e in frames {
        let positions = posed(&set.model, &set.examples, e);
        let camera = Camera::around(&[&positions], 20.0, 25.0, 4.0 / 3.0);
        for (map, _) in &set.maps {
            let (fine, triangles, colours) = checkered(&positions, &set.model.character.triangles, &map.uvs);
            let surface = Surface { positions: &fine, triangles: &triangles, colours: Some(&colours) };
            let picture = Picture { width: 360, height: 270, background: [255; 4], ..Picture::default() };
            pictures.push(render(&surface, &camera, &picture));
        }
    }
    Ok(Image::grid(&pictures, 3, 8, [255; 4]))
}

/// Every triangle cut into small ones, coloured as a checkerboard of 32 squares across the texture.
fn checkered(
    positions: &[DVec3],
    triangles: &[[u32; 3]],
    uvs: &[[[f32; 2]; 3]],
) -> (Vec<DVec3>, Vec<[u32; 3]>, Vec<[f64; 3]>) {
    const CUTS: u32 = 6;
    let (mut points, mut small, mut colours) = (Vec::new(), Vec::new(), Vec::new());
    for (triangle, corners) in triangles.iter().zip(uvs) {
        let [a, b, c] = triangle.map(|v| positions[v as usize]);
        let [p, q, r] = corners.map(|uv| DVec2::new(uv[0].into(), uv[1].into()));
        for i in 0..CUTS {
            for j in 0..CUTS - i {
                let at = |i: u32, j: u32| (f64::from(i) / f64::from(CUTS), f64::from(j) / f64::from(CUTS));
                let mut add = |three: [(u32, u32); 3]| {
                    let middle = three.iter().map(|&(i, j)| DVec2::from(at(i, j))).sum::<DVec2>() / 3.0;
                    let uv = (p + (q - p) * middle.x + (r - p) * middle.y) * 32.0;
                    let dark = (uv.x.floor() as i64 + uv.y.floor() as i64) % 2 == 0;
                    let start = points.len() as u32;
                    for (i, j) in three {
                        let (s, t) = at(i, j);
                        points.push(a + (b - a) * s + (c - a) * t);
                        colours.push(if dark { [0.25, 0.35, 0.5] } else { [0.92, 0.9, 0.86] });
                    }
                    small.push([start, start + 1, start + 2]);
                };
                add([(i, j), (i + 1, j), (i, j + 1)]);
                if i + j + 1 < CUTS {
                    add([(i + 1, j), (i + 1, j + 1), (i, j + 1)]);
                }
            }
        }
    }
    (points, small, colours)
}
