//! A picture of rigid parts and the skeleton: the coloured mesh, and the bones in the same view.

use std::io::Write;
use std::path::Path;

use glam::DVec3;
use sinew_draw::{Camera, Image, Picture, Surface, group_colour, render};
use sinew_examples::Examples;

/// Seen from the front right and a little above: a profile with some depth.
const YAW: f64 = 60.0;
const PITCH: f64 = 12.0;

/// A bone's thickness over its length, and the least thickness over the mesh's diagonal, so that short bones show.
const THICKNESS: f64 = 0.12;
const THINNEST: f64 = 0.004;

/// Draws every vertex in the colour of its bone `parts[v]`, with the skeleton beside it, and writes a PNG.
pub fn write(path: &Path, examples: &Examples, parts: &[usize]) -> anyhow::Result<()> {
    let mesh = examples.mesh();
    let picture = Picture { width: 720, height: 540, ..Picture::default() };
    let camera = Camera::around(&[mesh.vertices()], YAW, PITCH, picture.width as f64 / picture.height as f64);
    let colours: Vec<[f64; 3]> = parts.iter().map(|&b| group_colour(b)).collect();
    let skin = Surface { positions: mesh.vertices(), triangles: mesh.triangles(), colours: Some(&colours) };
    let (positions, triangles, colours) = skeleton_mesh(examples, parts);
    let bones = Surface { positions: &positions, triangles: &triangles, colours: Some(&colours) };
    let images = [render(&skin, &camera, &picture), render(&bones, &camera, &picture)];
    let bytes = Image::grid(&images, 2, 8, [255; 4]).png();
    sinew_io::write_atomically(path, |file| file.write_all(&bytes))?;
    Ok(())
}

/// Every bone as a slender octahedron from its joint to each child's joint, or to the middle of its part if it has none.
fn skeleton_mesh(examples: &Examples, parts: &[usize]) -> (Vec<DVec3>, Vec<[u32; 3]>, Vec<[f64; 3]>) {
    let (mesh, skeleton) = (examples.mesh(), examples.skeleton());
    let mut sums = vec![(DVec3::ZERO, 0.0); skeleton.bone_count()];
    for (v, &b) in parts.iter().enumerate() {
        sums[b] = (sums[b].0 + mesh.vertices()[v], sums[b].1 + 1.0);
    }
    let (mut positions, mut triangles, mut colours) = (Vec::new(), Vec::new(), Vec::new());
    for (b, bone) in skeleton.bones().iter().enumerate() {
        let from = bone.rest.translation;
        let mut ends: Vec<DVec3> = skeleton.children(b).map(|c| skeleton.bones()[c].rest.translation).collect();
        if ends.is_empty() && sums[b].1 > 0.0 {
            ends.push(sums[b].0 / sums[b].1);
        }
        for to in ends {
            let start = positions.len() as u32;
            positions.extend(octahedron(from, to, THINNEST * mesh.diagonal()));
            colours.extend([group_colour(b); 6]);
            for k in 0..4 {
                let (left, right) = (start + 2 + k, start + 2 + (k + 1) % 4);
                triangles.extend([[start, left, right], [start + 1, right, left]]);
            }
        }
    }
    (positions, triangles, colours)
}

/// The two tips and the four corners between them, near the first tip.
fn octahedron(from: DVec3, to: DVec3, thinnest: f64) -> [DVec3; 6] {
    let length = from.distance(to);
    let along = (to - from).try_normalize().unwrap_or(DVec3::Y);
    let (side, up) = along.any_orthonormal_pair();
    let width = (THICKNESS * length).max(thinnest);
    let middle = from + (to - from) * 0.15;
    [from, to, middle + side * width, middle + up * width, middle - side * width, middle - up * width]
}
