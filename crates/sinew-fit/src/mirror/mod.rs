//! Every pose twice: the mirror images of the training poses of a symmetric character.
//!
//! A plane through the character maps its rest mesh and its bones onto themselves: bone b onto its partner σ(b), vertex v
//! onto a point of the surface, given by a triangle and barycentric weights, so that meshes which are only nearly symmetric
//! work too. With M the reflection, in the root's frame,
//!
//!   T'_b = M T_σ(b) M,    y'_v = M Σ_i β_vi (y_i + D_i (½ (p_v − v̂_i) + M r_v)),    p_v = Σ_i β_vi v̂_i,   r_v = v̂ − M p_v
//!
//! r is the rest mesh's own asymmetry, D_i the surface's mean gradient around vertex i, which turns and stretches it. Where
//! the surface bends, interpolation between the corners errs as much to one side as going on from each corner along its
//! gradient errs to the other: hence half of each, which is exact to second order. [`judge`] decides for `auto`.

mod judge;

use glam::{DAffine3, DMat3, DVec3};
use rayon::prelude::*;

use crate::geometry::gradient::RestTriangles;
use crate::geometry::topology::Topology;
use crate::{FitError, Fitted, Method, Progress, Training};

/// Whether to use mirror images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MirrorChoice {
    /// If the character is symmetric and less error is to be expected with the images.
    Auto,
    /// Yes; an error if the character is not symmetric.
    On,
    /// No.
    #[default]
    Off,
}

/// Fits `method` to the poses or to them and their images; also says in words which.
pub fn fit(
    training: &Training,
    choice: MirrorChoice,
    method: &Method,
    progress: &dyn Progress,
) -> Result<(Fitted, String), FitError> {
    if choice == MirrorChoice::Off {
        return Ok((crate::fit(training, method, progress)?, "off".into()));
    }
    match (find(training), choice) {
        (Ok(mirror), MirrorChoice::On) => {
            Ok((crate::fit(&mirror.with_images(training), method, progress)?, "every pose twice".into()))
        }
        (Ok(mirror), _) => judge::fit_better(training, &mirror.with_images(training), method, progress),
        (Err(NotSymmetric { reason }), MirrorChoice::On) => {
            Err(FitError::Data(format!("the character is not symmetric: {reason}; fit without --mirror on")))
        }
        (Err(NotSymmetric { reason }), _) => {
            Ok((crate::fit(training, method, progress)?, format!("not used, {reason}")))
        }
    }
}

/// A bone and its partner's image may be this far apart, a fraction of the diagonal.
const BONE_TOLERANCE: f64 = 0.02;

/// 95 % of the vertices must lie this near to the mirrored surface, a fraction of the diagonal: beyond, the two sides
/// have different shapes, and what one does says little of the other.
const VERTEX_TOLERANCE: f64 = 0.01;

/// Why a character has no mirror image of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct NotSymmetric {
    /// What is off, where and how far.
    pub reason: String,
}

/// A character's symmetry.
#[derive(Debug, Clone)]
pub struct Mirror {
    /// The reflection in the root's rest frame.
    pub reflection: DAffine3,
    /// Each bone's partner, (J); a bone in the plane is its own.
    pub partners: Vec<usize>,
    /// For each vertex the three vertices around its image, and their weights, (V).
    pub images: Vec<([usize; 3], [f64; 3])>,
    triangles: RestTriangles,
    /// Rest positions, (V).
    rest: Vec<DVec3>,
    /// The rest mesh's own asymmetry, (V).
    pub offsets: Vec<DVec3>,
}

/// Finds the symmetry of the character of `training`, or says why there is none.
pub fn find(training: &Training) -> Result<Mirror, NotSymmetric> {
    let triangles = RestTriangles::new(&training.rest, training.mesh.triangles());
    let topology = triangles.topology();
    let mut planes: Vec<(f64, DAffine3)> = [DVec3::X, DVec3::Y, DVec3::Z]
        .into_iter()
        .map(|axis| reflection(training, axis))
        .map(|reflection| (mean_distance(training, reflection), reflection))
        .collect();
    planes.sort_by(|a, b| a.0.total_cmp(&b.0));
    // The plane nearest to a symmetry of the mesh whose bones pair up; if none do, the reason of the nearest.
    let paired = planes.iter().map(|&(_, reflection)| Ok((reflection, partners(training, reflection)?)));
    let paired: Vec<Result<(DAffine3, Vec<usize>), NotSymmetric>> = paired.collect();
    let chosen = paired.iter().position(Result::is_ok).unwrap_or(0);
    let (reflection, partners) = paired.into_iter().nth(chosen).expect("three planes were tried")?;
    let images: Vec<([usize; 3], [f64; 3], DVec3)> = (0..training.vertex_count())
        .into_par_iter()
        .map(|v| image(training, topology, reflection.transform_point3(training.rest[v])))
        .collect();
    let offsets: Vec<DVec3> =
        (0..images.len()).map(|v| training.rest[v] - reflection.transform_point3(images[v].2)).collect();
    refuse_far(training, &offsets)?;
    Ok(Mirror {
        triangles,
        rest: training.rest.clone(),
        images: images.into_iter().map(|(corners, weights, _)| (corners, weights)).collect(),
        reflection,
        partners,
        offsets,
    })
}

impl Mirror {
    /// The poses of `training` and after them their mirror images, in the same order, each counting as its original.
    #[must_use]
    pub fn with_images(&self, training: &Training) -> Training {
        let mut both = training.clone();
        for e in 0..training.pose_count() {
            let transforms = self.transforms(&training.transforms[e]);
            both.vertices.push(self.vertices(&training.vertices[e]));
            both.transforms.push(transforms);
            both.pose_weights.push(training.pose_weights[e]);
            both.sources.push(training.sources[e]);
        }
        both
    }

    /// `M T_σ(b) M`, (J).
    fn transforms(&self, pose: &[DAffine3]) -> Vec<DAffine3> {
        self.partners.iter().map(|&partner| self.reflection * pose[partner] * self.reflection).collect()
    }

    /// The mirrored positions, (V).
    fn vertices(&self, posed: &[DVec3]) -> Vec<DVec3> {
        let gradients = self.triangles.gradients(posed);
        let around = |i: usize| {
            let faces = self.triangles.topology().vertex_faces.row(i);
            let sum = faces.iter().fold(DMat3::ZERO, |sum, &f| sum + gradients[f]);
            if faces.is_empty() { DMat3::IDENTITY } else { sum * (1.0 / faces.len() as f64) }
        };
        let vertex = |v: usize| {
            let (corners, weights) = self.images[v];
            let offset = self.reflection.transform_vector3(self.offsets[v]);
            let place = self.reflection.transform_point3(self.rest[v] - self.offsets[v]);
            let from = |i: usize| posed[i] + around(i) * (0.5 * (place - self.rest[i]) + offset);
            let point: DVec3 = corners.iter().zip(weights).map(|(&i, w)| w * from(i)).sum();
            self.reflection.transform_point3(point)
        };
        (0..posed.len()).map(vertex).collect()
    }
}

/// The reflection across the plane with the world's `axis` as its normal through the root, in the root's rest frame.
fn reflection(training: &Training, axis: DVec3) -> DAffine3 {
    let normal = training.skeleton.rest_root_frame().matrix3.transpose() * axis;
    let outer = DMat3::from_cols(normal * normal.x, normal * normal.y, normal * normal.z);
    DAffine3::from_mat3(DMat3::IDENTITY - outer * 2.0)
}

/// How far a sample of mirrored vertices is from the nearest vertex, on the mean.
fn mean_distance(training: &Training, reflection: DAffine3) -> f64 {
    let stride = training.vertex_count().div_ceil(500).max(1);
    let sample: Vec<usize> = (0..training.vertex_count()).step_by(stride).collect();
    let off = |&v: &usize| {
        let image = reflection.transform_point3(training.rest[v]);
        training.rest.iter().map(|w| w.distance_squared(image)).fold(f64::INFINITY, f64::min).sqrt()
    };
    sample.par_iter().map(off).collect::<Vec<f64>>().iter().sum::<f64>() / sample.len() as f64
}

/// Each bone's partner: the bone of the mirrored name if there is one, else the bone whose rest origin is nearest to the
/// image of its own.
fn partners(training: &Training, reflection: DAffine3) -> Result<Vec<usize>, NotSymmetric> {
    let skeleton = &training.skeleton;
    let to_root = skeleton.rest_root_frame().inverse();
    let origin = |b: usize| to_root.transform_point3(skeleton.bones()[b].rest.translation);
    let mut partners = Vec::with_capacity(training.bone_count());
    for (b, bone) in skeleton.bones().iter().enumerate() {
        let image = reflection.transform_point3(origin(b));
        let by_name = mirrored_name(&bone.name).and_then(|name| skeleton.find(&name));
        let nearest = || {
            let closer = |&a: &usize, &c: &usize| origin(a).distance(image).total_cmp(&origin(c).distance(image));
            // A bone in the plane is its own partner even where its child begins at the same place.
            if origin(b).distance(image) < 1e-3 * training.diagonal {
                Some(b)
            } else {
                (0..training.bone_count()).min_by(closer)
            }
        };
        let partner = by_name.or_else(nearest).unwrap_or(b);
        let off = origin(partner).distance(image);
        if off > BONE_TOLERANCE * training.diagonal {
            let (one, other) = (&bone.name, &skeleton.bones()[partner].name);
            let percent = 100.0 * off / training.diagonal;
            return Err(NotSymmetric {
                reason: format!(
                    "bone `{other}` is {percent:.1} % of the diagonal away from the mirror image of `{one}`"
                ),
            });
        }
        partners.push(partner);
    }
    for (b, &partner) in partners.iter().enumerate() {
        let parents_agree = partners[skeleton.parent(b)] == skeleton.parent(partner);
        if partners[partner] != b || !parents_agree {
            let name = &skeleton.bones()[b].name;
            return Err(NotSymmetric { reason: format!("the bones do not pair up at `{name}`") });
        }
    }
    Ok(partners)
}

/// The name of the other side, if the name has a side: left/right, or l/r standing alone.
fn mirrored_name(name: &str) -> Option<String> {
    for (one, other) in [("left", "right"), ("Left", "Right"), ("LEFT", "RIGHT")] {
        for (from, to) in [(one, other), (other, one)] {
            if name.contains(from) {
                return Some(name.replacen(from, to, 1));
            }
        }
    }
    let separators = ['_', '.', '-', ' ', ':'];
    let pieces: Vec<&str> = name.split(separators).collect();
    let side = pieces.iter().position(|piece| matches!(*piece, "l" | "r" | "L" | "R"))?;
    let start: usize = pieces[..side].iter().map(|piece| piece.len() + 1).sum();
    let swapped = match pieces[side] {
        "l" => "r",
        "r" => "l",
        "L" => "R",
        _ => "L",
    };
    Some(format!("{}{swapped}{}", &name[..start], &name[start + 1..]))
}

/// The point of the rest surface nearest to `target`: three vertices, their weights, the point.
fn image(training: &Training, topology: &Topology, target: DVec3) -> ([usize; 3], [f64; 3], DVec3) {
    let closer = |best: (f64, usize), (v, p): (usize, &DVec3)| {
        let d = p.distance_squared(target);
        if d < best.0 { (d, v) } else { best }
    };
    let (_, nearest) = training.rest.iter().enumerate().fold((f64::INFINITY, 0), closer);
    let mut best =
        (training.rest[nearest].distance_squared(target), [nearest; 3], [1.0, 0.0, 0.0], training.rest[nearest]);
    let around = topology.vertex_vertices.row(nearest).iter().chain([&nearest]);
    for &f in around.flat_map(|&v| topology.vertex_faces.row(v)) {
        let corners = training.mesh.triangles()[f].map(|v| v as usize);
        let weights = closest_weights(corners.map(|v| training.rest[v]), target);
        let point: DVec3 = corners.iter().zip(weights).map(|(&v, w)| w * training.rest[v]).sum();
        if point.distance_squared(target) < best.0 {
            best = (point.distance_squared(target), corners, weights, point);
        }
    }
    (best.1, best.2, best.3)
}

/// Barycentric weights of the point of a triangle nearest to `p`: inside if they are positive, else on an edge.
fn closest_weights([a, b, c]: [DVec3; 3], p: DVec3) -> [f64; 3] {
    let (e1, e2, d) = (b - a, c - a, p - a);
    let (d11, d12, d22) = (e1.dot(e1), e1.dot(e2), e2.dot(e2));
    let determinant = d11 * d22 - d12 * d12;
    if determinant > 1e-12 * d11 * d22 {
        let (p1, p2) = (d.dot(e1), d.dot(e2));
        let (v, w) = ((d22 * p1 - d12 * p2) / determinant, (d11 * p2 - d12 * p1) / determinant);
        if v >= 0.0 && w >= 0.0 && v + w <= 1.0 {
            return [1.0 - v - w, v, w];
        }
    }
    let on_edge = |from: DVec3, to: DVec3| {
        let along = (p - from).dot(to - from) / (to - from).length_squared().max(f64::MIN_POSITIVE);
        let t = along.clamp(0.0, 1.0);
        (from.lerp(to, t).distance_squared(p), t)
    };
    let (ab, bc, ca) = (on_edge(a, b), on_edge(b, c), on_edge(c, a));
    if ab.0 <= bc.0 && ab.0 <= ca.0 {
        [1.0 - ab.1, ab.1, 0.0]
    } else if bc.0 <= ca.0 {
        [0.0, 1.0 - bc.1, bc.1]
    } else {
        [ca.1, 0.0, 1.0 - ca.1]
    }
}

fn refuse_far(training: &Training, offsets: &[DVec3]) -> Result<(), NotSymmetric> {
    let mut far: Vec<(f64, usize)> = offsets.iter().enumerate().map(|(v, offset)| (offset.length(), v)).collect();
    far.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let (most, worst) = far[far.len() - 1];
    let (at_95, _) = far[far.len() * 95 / 100];
    if at_95 <= VERTEX_TOLERANCE * training.diagonal {
        return Ok(());
    }
    let percent = |d: f64| 100.0 * d / training.diagonal;
    Err(NotSymmetric {
        reason: format!(
            "one vertex in twenty is {:.1} % of the diagonal or more off the mirrored surface, vertex {worst} the most \
             with {:.1} %",
            percent(at_95),
            percent(most)
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sinew_examples::{Bone, Examples, ExamplesParts, Mesh, Pose};

    /// A cross of a body and two arms, mirrored in x; only the left arm moves, by the angle of each pose. With `lopsided`
    /// the right arm is longer.
    fn cross(angles: &[f64], lopsided: f64) -> Examples {
        let place = |x: f64, y: f64| DAffine3::from_translation(DVec3::new(x, y, 0.0));
        let bones = vec![
            Bone { name: "body".into(), parent: None, rest: place(0.0, 0.0) },
            Bone { name: "arm_L".into(), parent: Some(0), rest: place(0.3, 1.0) },
            Bone { name: "arm_R".into(), parent: Some(0), rest: place(-0.3, 1.0) },
        ];
        let mut vertices = Vec::new();
        let mut triangles = Vec::new();
        for (side, length) in [(1.0, 1.0), (-1.0, 1.0 + lopsided)] {
            let start = vertices.len() as u32;
            for k in 0..6 {
                let x = side * length * 0.2 * f64::from(k);
                vertices.extend([DVec3::new(x, 0.9, 0.0), DVec3::new(x, 1.1, 0.0), DVec3::new(x, 1.0, 0.1)]);
            }
            for k in 0..5 {
                let a = start + 3 * k;
                triangles.extend([
                    [a, a + 1, a + 3],
                    [a + 1, a + 4, a + 3],
                    [a + 1, a + 2, a + 4],
                    [a + 2, a + 5, a + 4],
                ]);
            }
        }
        let pose = |&angle: &f64| Pose {
            globals: vec![bones[0].rest, bones[1].rest * DAffine3::from_axis_angle(DVec3::Z, angle), bones[2].rest],
        };
        let poses: Vec<Pose> = angles.iter().map(pose).collect();
        let frame = |pose: &Pose| {
            let carried = |&v: &DVec3| {
                let b = if v.x > 0.3 { 1 } else { 0 };
                (pose.globals[b] * bones[b].rest.inverse()).transform_point3(v)
            };
            vertices.iter().map(carried).collect()
        };
        let frames = poses.iter().map(frame).collect();
        let mesh = Mesh::new(vertices.clone(), triangles, None, None).unwrap();
        let (split, influences, pose_weights, fps) = (None, None, None, None);
        Examples::new(ExamplesParts { mesh, bones, poses, frames, split, influences, pose_weights, fps }).unwrap()
    }

    fn training(examples: &Examples) -> Training {
        Training::new(examples, &(0..examples.frame_count()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn the_image_of_the_left_arm_s_motion_is_the_right_arm_s() {
        let training = training(&cross(&[0.0, 0.8], 0.0));
        let mirror = find(&training).unwrap();
        assert_eq!(mirror.partners, [0, 2, 1]);
        let both = mirror.with_images(&training);
        assert_eq!(both.pose_count(), 4);
        // The rest pose is its own image; the tip of the right arm goes where the left one's image is.
        for (v, position) in both.vertices[2].iter().enumerate() {
            assert!(position.distance(training.rest[v]) < 1e-12);
        }
        let (left, right) = (15, 18 + 15);
        let expected = both.vertices[1][left] * DVec3::new(-1.0, 1.0, 1.0);
        assert!(both.vertices[3][right].distance(expected) < 1e-12);
        // And the image is what the mirrored bones would do: the arm is rigid. 1e-8: training positions lie on a grid of
        // 2^-30 of the diagonal, which is 2e-9 here.
        assert!(both.carried(3, 2, right).distance(expected) < 1e-8);
        let twice = mirror.with_images(&Training {
            transforms: both.transforms[2..].to_vec(),
            vertices: both.vertices[2..].to_vec(),
            pose_weights: vec![1.0; 2],
            sources: vec![0, 1],
            ..training.clone()
        });
        assert!(twice.vertices[3][left].distance(training.vertices[1][left]) < 1e-12, "the image's image is the pose");
    }

    #[test]
    fn a_lopsided_character_is_refused_with_the_reason() {
        let refused = find(&training(&cross(&[0.0, 0.8], 0.4))).unwrap_err();
        assert!(refused.reason.contains("vertex") && refused.reason.contains('%'), "{}", refused.reason);
        let ssd = Method::by_name("ssd").unwrap();
        let lopsided = training(&cross(&[0.0, 0.8], 0.4));
        assert!(fit(&lopsided, MirrorChoice::On, &ssd, &crate::Quiet).is_err());
        let words = fit(&lopsided, MirrorChoice::Auto, &ssd, &crate::Quiet).unwrap().1;
        assert!(words.starts_with("not used") && words.contains("vertex"), "{words}");
    }

    #[test]
    fn sides_are_read_from_names() {
        for (name, other) in
            [("arm_L", "arm_R"), ("LeftHand", "RightHand"), ("thigh.r.001", "thigh.l.001"), ("r-foot", "l-foot")]
        {
            assert_eq!(mirrored_name(name).as_deref(), Some(other));
        }
        assert_eq!(mirrored_name("spine"), None);
        assert_eq!(mirrored_name("collar"), None);
    }
}
