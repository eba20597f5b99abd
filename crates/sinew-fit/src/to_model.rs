//! Where f64 becomes f32: the fit's results as a run-time model.

pub mod correction;

use glam::{Affine3A, DAffine3, DMat3, DVec3, Mat3A, Vec3A};
use sinew_runtime::{Bone, Character, Deformer, JointRanges, Metadata, Model, Polygons, Skin, deform};

use crate::drawing::points::Drawn;
use crate::geometry::JointRotations;
use crate::methods::animation_space::Coordinates;
use crate::methods::multi_weight::MultiWeights;
use crate::methods::rr::RrFit;
use crate::methods::rr::full::FullFit;
use crate::methods::rr::poisson::Poisson;
use crate::methods::rr::predictor::{COLUMNS, FEATURES, JOINTS, Predictor};
use crate::methods::scape::ScapeFit;
use crate::methods::ssd::SparseWeights;
use crate::{FitError, Training};

/// The model of a fit: the character of `training` with `skin` to fall back on, deformed by `deformer`.
pub fn model(training: &Training, skin: &SparseWeights, deformer: Deformer, method: &str) -> Result<Model, FitError> {
    let metadata = Metadata { method: method.into(), ..Metadata::default() };
    Ok(Model::new(character(training, skin), deformer, metadata)?)
}

fn character(training: &Training, skin: &SparseWeights) -> Character {
    let mesh = &training.mesh;
    Character {
        rest_positions: mesh.vertices().iter().map(|&v| position(v)).collect(),
        triangles: mesh.triangles().to_vec(),
        polygons: mesh.polygons().map(|p| Polygons { counts: p.counts.clone(), vertices: p.vertices.clone() }),
        uvs: mesh.uvs().map(<[_]>::to_vec),
        bones: training
            .skeleton
            .bones()
            .iter()
            .map(|bone| Bone { name: bone.name.clone(), parent: bone.parent, rest: transform(bone.rest) })
            .collect(),
        skin: self::skin(skin),
        fps: training.fps.map(|fps| fps as f32),
    }
}

/// Sparse weights in rows of equal width.
#[must_use]
pub fn skin(weights: &SparseWeights) -> Skin {
    let width = weights.vertices.iter().map(Vec::len).max().unwrap_or(1).max(1);
    let mut skin = Skin { width, joints: Vec::new(), weights: Vec::new() };
    for pairs in &weights.vertices {
        let filled = pairs.iter().copied().chain(std::iter::repeat((0, 0.0))).take(width);
        for (joint, weight) in filled {
            skin.joints.push(u16::try_from(joint).expect("a model has at most 65,536 joints"));
            skin.weights.push(weight as f32);
        }
    }
    skin
}

/// What registers draw their vertices by, in rows of equal width: the entries with the weights of `weights`, and points from the
/// root's rest frame to the world's axes.
#[must_use]
pub fn drawn_points(training: &Training, drawn: &[Drawn], weights: &SparseWeights) -> (Skin, Vec<[f32; 4]>) {
    let turn = training.skeleton.rest_root_frame().matrix3;
    let width = drawn.iter().map(|register| register.entries.len()).max().unwrap_or(1).max(1);
    let places = training.vertex_count() * width;
    let mut skin = Skin { width, joints: vec![0; places], weights: vec![0.0; places] };
    let mut all = vec![[0.0; 4]; places];
    for Drawn { vertices, entries } in drawn {
        for (v, points) in vertices {
            for (k, (&entry, point)) in entries.iter().zip(points).enumerate() {
                let weight = weights.vertices[*v].iter().find(|&&(i, _)| i == entry).map_or(0.0, |&(_, w)| w);
                let place = v * width + k;
                skin.joints[place] = u16::try_from(entry).expect("a model has at most 65,536 joints");
                skin.weights[place] = weight as f32;
                all[place] = (turn * point.truncate()).extend(point.w).as_vec4().to_array();
            }
        }
    }
    (skin, all)
}

/// Animation-space coordinates from the root's rest frame to rest world space, in rows of equal width, the bone with the
/// largest weight first.
#[must_use]
pub fn animation_space(training: &Training, coordinates: &Coordinates) -> deform::AnimationSpace {
    let frame = training.skeleton.rest_root_frame();
    let width = coordinates.vertices.iter().map(Vec::len).max().unwrap_or(1).max(1);
    let mut skin = deform::AnimationSpace { width, joints: Vec::new(), coordinates: Vec::new() };
    for pairs in &coordinates.vertices {
        let mut pairs = pairs.clone();
        pairs.sort_by(|a, b| b.1.w.abs().total_cmp(&a.1.w.abs()).then(a.0.cmp(&b.0)));
        let empty = std::iter::repeat((0, glam::DVec4::ZERO));
        for (joint, p) in pairs.into_iter().chain(empty).take(width) {
            let world = (frame.matrix3 * p.truncate() + frame.translation * p.w).extend(p.w);
            skin.joints.push(u16::try_from(joint).expect("a model has at most 65,536 joints"));
            skin.coordinates.push(world.as_vec4().to_array());
        }
    }
    skin
}

/// Multi-weights in rows of equal width.
#[must_use]
pub fn multi_weight(weights: &MultiWeights) -> deform::MultiWeight {
    let width = weights.vertices.iter().map(Vec::len).max().unwrap_or(1).max(1);
    let mut skin = deform::MultiWeight {
        width,
        joints: Vec::new(),
        weights: Vec::new(),
        constants: weights.constants.iter().map(|&c| position(c)).collect(),
    };
    for pairs in &weights.vertices {
        let filled = pairs.iter().copied().chain(std::iter::repeat((0, [0.0; 12]))).take(width);
        for (joint, u) in filled {
            skin.joints.push(u16::try_from(joint).expect("a model has at most 65,536 joints"));
            skin.weights.push(u.map(|x| x as f32));
        }
    }
    skin
}

/// An affine transform of the run time in f64.
#[must_use]
pub fn widened(t: Affine3A) -> DAffine3 {
    let column = |c: Vec3A| glam::Vec3::from(c).as_dvec3();
    let Mat3A { x_axis, y_axis, z_axis } = t.matrix3;
    DAffine3 {
        matrix3: DMat3::from_cols(column(x_axis), column(y_axis), column(z_axis)),
        translation: column(t.translation),
    }
}

/// A point in f32.
#[must_use]
pub fn position(p: DVec3) -> [f32; 3] {
    p.as_vec3().to_array()
}

/// An affine transform in f32.
#[must_use]
pub fn transform(t: DAffine3) -> Affine3A {
    let DMat3 { x_axis, y_axis, z_axis } = t.matrix3;
    let column = |c: DVec3| Vec3A::from(c.as_vec3());
    Affine3A {
        matrix3: Mat3A::from_cols(column(x_axis), column(y_axis), column(z_axis)),
        translation: column(t.translation),
    }
}

/// Reduced rotational regression: proxies about the root's origin instead of their centres, blocks instead of matrices.
#[must_use]
pub fn rotational_regression(fit: &RrFit) -> deform::RotationalRegression {
    let centres = &fit.palette.centres;
    deform::RotationalRegression {
        ranges: joint_ranges(&fit.joints),
        predictors: gradient_predictors(&fit.predictors),
        c1: block_rows(&fit.reduction.c1, centres),
        c2: block_rows(&fit.reduction.c2, centres),
        skin: skin(&fit.weights),
        points: Vec::new(),
    }
}

/// Full rotational regression: first-order predictors and the factor in the order of elimination.
#[must_use]
pub fn full_gradients(fit: &FullFit) -> deform::FullGradients {
    deform::FullGradients {
        ranges: joint_ranges(&fit.joints),
        predictors: deform::TrianglePredictors::Rotational(first_order_predictors(&fit.predictors)),
        factor: poisson_factor(&fit.poisson),
    }
}

/// SCAPE: nine linear predictors a triangle and the factor in the order of elimination.
#[must_use]
pub fn linear_gradients(fit: &ScapeFit) -> deform::FullGradients {
    let bone = |b: usize| u16::try_from(b).expect("a model has at most 65,536 joints");
    let entries = fit.predictors.iter().flat_map(|p| p.entries.as_flattened());
    deform::FullGradients {
        ranges: joint_ranges(&fit.joints),
        predictors: deform::TrianglePredictors::Linear(deform::LinearGradients {
            frames: fit.predictors.iter().map(|p| bone(p.part)).collect(),
            joints: fit.predictors.iter().flat_map(|p| p.joints).map(bone).collect(),
            entries: entries.map(|&a| a as f32).collect(),
        }),
        factor: poisson_factor(&fit.poisson),
    }
}

fn poisson_factor(poisson: &Poisson) -> deform::PoissonFactor {
    let index = |i: usize| u32::try_from(i).expect("fewer than 2³² entries");
    let indices = |list: &[usize]| list.iter().map(|&i| index(i)).collect::<Vec<u32>>();
    let factor = &poisson.factor;
    deform::PoissonFactor {
        vertices: factor.order.iter().map(|&unknown| index(poisson.free[unknown])).collect(),
        starts: indices(&factor.starts),
        rows: indices(&factor.rows),
        values: factor.values.clone(),
        diagonal: factor.diagonal.clone(),
    }
}

/// Predictors without their second-order columns, which are zero unless refined.
fn first_order_predictors(predictors: &[Predictor]) -> deform::GradientPredictors {
    let all = gradient_predictors(predictors);
    let kept = |row: &[f32]| {
        let joints = row[..FEATURES * JOINTS].chunks_exact(FEATURES).flat_map(|joint| joint[..3].to_vec());
        joints.chain([row[COLUMNS - 1]]).collect::<Vec<f32>>()
    };
    deform::GradientPredictors {
        features: 3,
        rotation: all.rotation.chunks_exact(COLUMNS).flat_map(kept).collect(),
        stretch: all.stretch.chunks_exact(COLUMNS).flat_map(kept).collect(),
        ..all
    }
}

/// The joints' branch references and trained ranges.
#[must_use]
pub fn joint_ranges(joints: &JointRotations) -> JointRanges {
    let (low, high) =
        (0..joints.reference.len()).map(|b| joints.range(b)).map(|(l, h)| (position(l), position(h))).unzip();
    JointRanges { reference: joints.reference.iter().map(|&r| position(r)).collect(), low, high }
}

/// Predictors of gradients.
#[must_use]
pub fn gradient_predictors(predictors: &[Predictor]) -> deform::GradientPredictors {
    let bone = |b: usize| u16::try_from(b).expect("a model has at most 65,536 joints");
    let rows = |rows: &[[f64; COLUMNS]]| rows.as_flattened().iter().map(|&x| x as f32).collect::<Vec<f32>>();
    deform::GradientPredictors {
        width: JOINTS,
        features: FEATURES,
        frames: predictors.iter().map(|p| bone(p.frame)).collect(),
        joints: predictors.iter().flat_map(|p| p.joints).map(bone).collect(),
        rotation: predictors.iter().flat_map(|p| rows(&p.rotation)).collect(),
        stretch: predictors.iter().flat_map(|p| rows(&p.stretch)).collect(),
    }
}

/// The blocks of a matrix (4P, C·columns) that are not zero, its proxies moved from their centres to the origin:
/// `T v = L (v − c) + t_c`, so that the fourth row becomes `t_c − Σ_k c_k L_k`.
fn block_rows<const C: usize>(matrix: &sinew_linalg::Mat<f64>, centres: &[DVec3]) -> deform::BlockRows<C> {
    let mut rows = deform::BlockRows { starts: vec![0], columns: Vec::new(), blocks: Vec::new() };
    for (p, centre) in centres.iter().enumerate() {
        for column in 0..matrix.ncols() / C {
            let entry = |r: usize, c: usize| matrix[(4 * p + r, C * column + c)];
            if (0..4 * C).all(|k| entry(k / C, k % C) == 0.0) {
                continue;
            }
            let moved = |c: usize| entry(3, c) - (0..3).map(|k| centre[k] * entry(k, c)).sum::<f64>();
            let value = |r: usize, c: usize| if r == 3 { moved(c) } else { entry(r, c) };
            rows.columns.push(u16::try_from(column).expect("a model has at most 65,536 proxy bones"));
            rows.blocks.push(std::array::from_fn(|r| std::array::from_fn(|c| value(r, c) as f32)));
        }
        rows.starts.push(u32::try_from(rows.columns.len()).expect("fewer than 2³² blocks"));
    }
    rows
}
