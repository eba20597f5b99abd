//! Loop subdivision of a model (Loop, "Smooth subdivision surfaces based on triangles", 1987; Merry et al. 2006, §3.3).
//!
//! Every new vertex is an affine combination of old ones, and animation space is linear: with `p' = Σ_v a_v p_v`,
//! `Σ_b T_b p'_b = Σ_v a_v (Σ_b T_b p_vb)` for every pose. So the subdivided model is the subdivided posed mesh, whatever
//! the pose. Linear blend skinning multiplies weight and position and has no such vertex; it is first turned into animation
//! space, which loses nothing. Displacements of a correction (pose-space deformation, EigenSkin) are sums of vectors that one
//! bone turns for all vertices of a part, and combine in the same way.
//!
//! Boundaries and edges with more than two triangles are creases with the usual boundary rule; a vertex where other than
//! two creases meet stays where it is. Texture coordinates are halved along edges, corner by corner.

use std::collections::BTreeMap;

use sinew_runtime::correction::{VertexCorrection, VertexPart};
use sinew_runtime::{Character, Correction, Deformer, Model, Skin, deform};

use crate::FitError;

/// Triangles that a subdivided model may have at most: 2²⁶, a few gigabytes of model.
const MOST_TRIANGLES: usize = 1 << 26;

/// One step of Loop's rule on a triangle mesh.
#[derive(Debug, Clone, PartialEq)]
pub struct LoopStep {
    /// Every new vertex as (old vertex, coefficient), the coefficients of each summing to one. The first V are the old
    /// vertices in their new places, the others stand on the edges.
    pub stencils: Vec<Vec<(usize, f64)>>,
    /// The triangles, four for each old one: its three corners, then its middle.
    pub triangles: Vec<[u32; 3]>,
}

impl LoopStep {
    /// The step for `triangles` over `vertices` vertices.
    #[must_use]
    pub fn new(vertices: usize, triangles: &[[u32; 3]]) -> Self {
        let edges = edges(triangles);
        let mut stencils = vertex_stencils(vertices, &edges);
        let mut middle = BTreeMap::new();
        for (&(a, b), opposite) in &edges {
            middle.insert((a, b), stencils.len() as u32);
            stencils.push(match opposite[..] {
                [c, d] => vec![(a, 0.375), (b, 0.375), (c, 0.125), (d, 0.125)],
                _ => vec![(a, 0.5), (b, 0.5)],
            });
        }
        let mut split = Vec::with_capacity(4 * triangles.len());
        for &[a, b, c] in triangles {
            // A corner named twice has no edge to itself; its middle is the corner.
            let mid = |u: u32, v: u32| if u == v { u } else { middle[&ordered(u as usize, v as usize)] };
            let (ab, bc, ca) = (mid(a, b), mid(b, c), mid(c, a));
            split.extend([[a, ab, ca], [ab, b, bc], [ca, bc, c], [ab, bc, ca]]);
        }
        Self { stencils, triangles: split }
    }

    /// `Σ a_v value_v` for every new vertex; `value` (old V) of any kind that can be scaled and added.
    pub fn apply<T>(&self, values: &[T]) -> Vec<T>
    where
        T: Copy + std::ops::Mul<f64, Output = T> + std::iter::Sum<T>,
    {
        self.stencils.iter().map(|stencil| stencil.iter().map(|&(v, a)| values[v] * a).sum()).collect()
    }
}

/// `model` subdivided `levels` times: an animation-space model, four times the triangles with each level.
pub fn subdivide(model: &Model, levels: usize) -> Result<Model, FitError> {
    let mut skin = match &model.deformer {
        Deformer::AnimationSpace(skin) => skin.clone(),
        Deformer::LinearBlend(_) => deform::AnimationSpace::from_linear_blend(&model.character),
        other => {
            return Err(FitError::Data(format!(
                "only animation-space and linear blend models subdivide exactly; this one is `{}` (fit one with --method as)",
                other.kind()
            )));
        }
    };
    let mut character = model.character.clone();
    let mut correction = model.vertex_correction().cloned();
    for _ in 0..levels {
        if character.triangles.len() > MOST_TRIANGLES / 4 {
            return Err(FitError::Data(format!(
                "{levels} levels would give more than {MOST_TRIANGLES} triangles; use fewer"
            )));
        }
        let step = LoopStep::new(character.vertex_count(), &character.triangles);
        skin = subdivide_coordinates(&skin, &step);
        correction = correction.map(|correction| subdivide_correction(correction, &step));
        character = subdivide_character(&character, &step);
    }
    let fine = Model::new(character, Deformer::AnimationSpace(skin), model.metadata.clone())?;
    Ok(match correction {
        Some(correction) => fine.with_correction(Correction::Vertices(correction))?,
        None => fine,
    })
}

/// Triangles' edges as (lower, higher) vertex, with the third vertex of every triangle at the edge.
fn edges(triangles: &[[u32; 3]]) -> BTreeMap<(usize, usize), Vec<usize>> {
    let mut edges: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for triangle in triangles {
        for k in 0..3 {
            let [a, b, c] = [0, 1, 2].map(|j| triangle[(k + j) % 3] as usize);
            if a != b {
                edges.entry(ordered(a, b)).or_default().push(c);
            }
        }
    }
    edges
}

fn ordered(a: usize, b: usize) -> (usize, usize) {
    (a.min(b), a.max(b))
}

/// Where the old vertices go.
fn vertex_stencils(vertices: usize, edges: &BTreeMap<(usize, usize), Vec<usize>>) -> Vec<Vec<(usize, f64)>> {
    let mut around = vec![Vec::new(); vertices];
    let mut creases = vec![Vec::new(); vertices];
    for (&(a, b), opposite) in edges {
        for (v, u) in [(a, b), (b, a)] {
            around[v].push(u);
            if opposite.len() != 2 {
                creases[v].push(u);
            }
        }
    }
    let stencil = |v: usize| match (creases[v].len(), around[v].len()) {
        (0, n) if n > 0 => {
            let cosine = 0.375 + 0.25 * (std::f64::consts::TAU / n as f64).cos();
            let beta = (0.625 - cosine * cosine) / n as f64;
            let ring = around[v].iter().map(|&u| (u, beta));
            std::iter::once((v, 1.0 - n as f64 * beta)).chain(ring).collect()
        }
        (2, _) => vec![(v, 0.75), (creases[v][0], 0.125), (creases[v][1], 0.125)],
        _ => vec![(v, 1.0)],
    };
    (0..vertices).map(stencil).collect()
}

fn subdivide_coordinates(skin: &deform::AnimationSpace, step: &LoopStep) -> deform::AnimationSpace {
    let combine = |stencil: &Vec<(usize, f64)>| {
        let mut sums: BTreeMap<usize, [f64; 4]> = BTreeMap::new();
        for &(v, a) in stencil {
            for (joint, p) in skin.vertex(v) {
                let sum = sums.entry(joint).or_default();
                (0..4).for_each(|k| sum[k] += a * f64::from(p[k]));
            }
        }
        sums
    };
    let rows: Vec<BTreeMap<usize, [f64; 4]>> = step.stencils.iter().map(combine).collect();
    let width = rows.iter().map(BTreeMap::len).max().unwrap_or(1).max(1);
    let mut out = deform::AnimationSpace { width, joints: Vec::new(), coordinates: Vec::new() };
    for row in rows {
        let filled = row.into_iter().chain(std::iter::repeat((0, [0.0; 4]))).take(width);
        for (joint, p) in filled {
            out.joints.push(joint as u16);
            out.coordinates.push(p.map(|x| x as f32));
        }
    }
    out
}

/// The kernels stay; each part displaces all vertices that have one of its own in their stencil.
fn subdivide_correction(correction: VertexCorrection, step: &LoopStep) -> VertexCorrection {
    let parts = correction.parts.iter().map(|part| subdivide_part(part, step)).collect();
    VertexCorrection { parts, ..correction }
}

fn subdivide_part(part: &VertexPart, step: &LoopStep) -> VertexPart {
    let place: BTreeMap<usize, usize> = part.vertices.iter().enumerate().map(|(i, &v)| (v as usize, i)).collect();
    let stencils: Vec<(u32, Vec<(usize, f64)>)> = (0..)
        .zip(&step.stencils)
        .map(|(v, stencil)| (v, stencil.iter().filter_map(|&(u, a)| Some((*place.get(&u)?, a))).collect()))
        .filter(|(_, own): &(u32, Vec<_>)| !own.is_empty())
        .collect();
    let combine = |component: &[[f32; 3]], own: &[(usize, f64)]| {
        let sum: glam::DVec3 = own.iter().map(|&(i, a)| glam::Vec3::from(component[i]).as_dvec3() * a).sum();
        sum.as_vec3().to_array()
    };
    let components = part.components.chunks_exact(part.vertices.len().max(1));
    VertexPart {
        vertices: stencils.iter().map(|&(v, _)| v).collect(),
        components: components.flat_map(|c| stencils.iter().map(move |(_, own)| combine(c, own))).collect(),
        ..*part
    }
}

fn subdivide_character(character: &Character, step: &LoopStep) -> Character {
    let rest: Vec<glam::DVec3> = character.rest_positions.iter().map(|&p| glam::Vec3::from(p).as_dvec3()).collect();
    let middle = |a: [f32; 2], b: [f32; 2]| [(a[0] + b[0]) / 2.0, (a[1] + b[1]) / 2.0];
    let uvs = character.uvs.as_ref().map(|uvs| {
        let split = |&[a, b, c]: &[[f32; 2]; 3]| {
            let (ab, bc, ca) = (middle(a, b), middle(b, c), middle(c, a));
            [[a, ab, ca], [ab, b, bc], [ca, bc, c], [ab, bc, ca]]
        };
        uvs.iter().flat_map(split).collect()
    });
    Character {
        rest_positions: step.apply(&rest).into_iter().map(|p| p.as_vec3().to_array()).collect(),
        triangles: step.triangles.clone(),
        polygons: None,
        uvs,
        bones: character.bones.clone(),
        skin: subdivide_skin(&character.skin, step),
        fps: character.fps,
    }
}

/// Plain weights to fall back on: averaged like the positions, cut to the width there was, summing to one. This is what
/// linear blend skinning can do, and it is not the subdivided posed mesh.
#[must_use]
pub fn subdivide_skin(skin: &Skin, step: &LoopStep) -> Skin {
    let mut out = Skin { width: skin.width, joints: Vec::new(), weights: Vec::new() };
    for stencil in &step.stencils {
        let mut sums: BTreeMap<usize, f64> = BTreeMap::new();
        for &(v, a) in stencil {
            skin.vertex(v).for_each(|(joint, w)| *sums.entry(joint).or_default() += a * f64::from(w));
        }
        let mut pairs: Vec<(usize, f64)> = sums.into_iter().collect();
        pairs.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        pairs.truncate(skin.width);
        let total: f64 = pairs.iter().map(|&(_, w)| w).sum();
        let filled = pairs.into_iter().chain(std::iter::repeat((0, 0.0))).take(skin.width);
        for (joint, w) in filled {
            out.joints.push(joint as u16);
            out.weights.push((w / total) as f32);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Method, Quiet, Training, fit};
    use glam::DVec3;
    use sinew_examples::datasets;

    fn check_affine(step: &LoopStep, vertices: usize) {
        for (v, stencil) in step.stencils.iter().enumerate() {
            let sum: f64 = stencil.iter().map(|&(_, a)| a).sum();
            // A dozen roundings of numbers below one.
            assert!((sum - 1.0).abs() < 1e-14, "vertex {v}: {sum}");
            assert!(stencil.iter().all(|&(u, _)| u < vertices));
        }
    }

    #[test]
    fn a_flat_interior_stays_flat_and_the_boundary_stays_on_its_line() {
        // A regular hexagonal fan in the plane z = 0 around vertex 0.
        let ring = |k: usize| DVec3::new((k as f64).cos(), (k as f64).sin(), 0.0);
        let positions: Vec<DVec3> = std::iter::once(DVec3::ZERO).chain((0..6).map(ring)).collect();
        let triangles: Vec<[u32; 3]> = (0..6).map(|k| [0, 1 + k, 1 + (k + 1) % 6]).collect();
        let step = LoopStep::new(7, &triangles);
        check_affine(&step, 7);
        assert_eq!(step.stencils.len(), 7 + 12);
        assert_eq!(step.triangles.len(), 24);
        assert!(step.apply(&positions).iter().all(|p| p.z == 0.0));
        // Valence six is regular: β = 1/16, so the centre keeps 5/8 of itself.
        assert!((step.stencils[0][0].1 - 0.625).abs() < 1e-15);
    }

    #[test]
    fn corners_non_manifold_edges_and_repeated_corners_do_no_harm() {
        // Three triangles on one edge, one triangle that names a corner twice, one vertex that nothing uses.
        let triangles = [[0, 1, 2], [0, 1, 3], [1, 0, 4], [2, 2, 3]];
        let step = LoopStep::new(6, &triangles);
        check_affine(&step, 6);
        assert_eq!(step.triangles.len(), 16);
        assert_eq!(step.stencils[5], [(5, 1.0)]);
        let count = step.stencils.len() as u32;
        assert!(step.triangles.as_flattened().iter().all(|&v| v < count));
    }

    #[test]
    fn corrections_of_vertices_are_subdivided_with_the_rest() {
        let examples = datasets::by_name("bar").map(|info| info.make()).unwrap();
        let training = Training::new(&examples, &[0, 20, 40]).unwrap();
        for name in ["psd", "eigenskin"] {
            let model = fit(&training, &Method::by_name(name).unwrap(), &Quiet).unwrap().model;
            let fine = subdivide(&model, 1).unwrap();
            assert!(model.correction.is_some() && fine.correction.is_some(), "{name}");
            let step = LoopStep::new(model.character.vertex_count(), &model.character.triangles);
            let pose: Vec<_> = examples.pose(30).globals.iter().map(|&g| crate::to_model::transform(g)).collect();
            let positions = |model: &Model| -> Vec<DVec3> {
                let mut out = vec![[0.0; 3]; model.character.vertex_count()];
                sinew_runtime::Evaluator::new(model).positions(&pose, &mut out);
                out.into_iter().map(|p| glam::Vec3::from(p).as_dvec3()).collect()
            };
            let far = positions(&fine).into_iter().zip(step.apply(&positions(&model))).map(|(a, b)| a.distance(b));
            // A few roundings of f32 at the bar's size of 2.4 m.
            assert!(far.fold(0.0, f64::max) < 5e-6, "{name}");
        }
    }
}
