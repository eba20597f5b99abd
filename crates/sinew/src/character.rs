//! A model's mesh and motion in the shapes that writers take.

use std::collections::BTreeMap;

use glam::{Affine3A, DAffine3, DVec3};
use sinew_examples::{Mesh, Polygons, Pose};
use sinew_io::{GlbMesh, Surface};
use sinew_runtime::{Character, Evaluator, Model};

/// The mesh's own polygons, or its triangles, with texture coordinates a corner.
pub fn surface(character: &Character) -> Surface {
    let polygons = match &character.polygons {
        Some(polygons) => Polygons { counts: polygons.counts.clone(), vertices: polygons.vertices.clone() },
        None => Polygons {
            counts: vec![3; character.triangles.len()],
            vertices: character.triangles.as_flattened().to_vec(),
        },
    };
    let uvs = character.uvs.as_ref().map(|uvs| {
        let mut triangles = character.triangles.iter().zip(uvs);
        let mut corners = Vec::with_capacity(polygons.vertices.len());
        for polygon in polygons.iter() {
            // A polygon of n corners is n − 2 triangles, however it was cut.
            let mut at: BTreeMap<u32, [f32; 2]> = BTreeMap::new();
            for (triangle, uv) in triangles.by_ref().take(polygon.len() - 2) {
                at.extend(triangle.iter().copied().zip(uv.iter().copied()));
            }
            corners.extend(polygon.iter().map(|v| at.get(v).copied().unwrap_or_default()));
        }
        corners
    });
    Surface { polygons, uvs }
}

/// The rest mesh.
pub fn glb_mesh(character: &Character, name: &str) -> GlbMesh {
    GlbMesh {
        name: name.into(),
        positions: character.rest_positions.iter().map(|&p| glam::Vec3::from(p).as_dvec3()).collect(),
        triangles: character.triangles.clone(),
        uvs: character.uvs.clone(),
        extras: None,
    }
}

/// The rest mesh as a noun of examples.
pub fn mesh(character: &Character) -> anyhow::Result<Mesh> {
    let vertices = character.rest_positions.iter().map(|&p| glam::Vec3::from(p).as_dvec3()).collect();
    Ok(Mesh::new(vertices, character.triangles.clone(), None, None)?)
}

/// The model's vertices in each pose, (N)(V), computed when asked for; `each` sees the evaluator after every frame.
pub fn play(
    model: &Model,
    poses: &[Pose],
    mut each: impl FnMut(&Evaluator<'_>),
) -> impl ExactSizeIterator<Item = Vec<DVec3>> {
    let mut evaluator = Evaluator::new(model);
    let mut positions = vec![[0.0; 3]; model.character.vertex_count()];
    poses.iter().map(move |pose| {
        let globals: Vec<Affine3A> = pose.globals.iter().map(|&global| to_runtime(global)).collect();
        evaluator.positions(&globals, &mut positions);
        each(&evaluator);
        positions.iter().map(|&p| glam::Vec3::from(p).as_dvec3()).collect()
    })
}

fn to_runtime(transform: DAffine3) -> Affine3A {
    sinew_fit::to_model::transform(transform)
}

/// What a file is called inside: the output's name without its ending.
pub fn name_of(path: &std::path::Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_else(|| "character".into())
}
