//! Normals: unit or nil, and palette normals against the blended matrix.

use super::*;

#[test]
fn normals_are_of_length_one_or_nil_and_never_nan() {
    let mut numbers = Numbers(3);
    let mut character = character(&mut numbers, &Size { vertices: 50, joints: 4, influences: 3 });
    // A third of the mesh collapses to a point.
    character.rest_positions[..17].fill([0.25; 3]);
    let pose = pose(&mut numbers, &character);
    for deformer in deformers(&mut numbers, &character) {
        let model = Model::new(character.clone(), deformer, Metadata::default()).unwrap();
        let options = Options { normals: true, ..Options::default() };
        let mut evaluator = Evaluator::with(&model, options);
        let [mut out, mut palette, mut ring] = [(); 3].map(|()| vec![[f32::NAN; 3]; 50]);
        evaluator.positions_and_palette_normals(&pose, &mut out, &mut palette);
        assert_close("positions beside normals", &out, &positions(&model, Instructions::Plain, &pose));
        evaluator.positions_and_normals(&pose, &mut out, &mut ring);
        // Palette normals are scaled by the processor's estimate of 1/√, which is off by up to 3.7e-4.
        for (normals, tolerance) in [(&palette, 4e-4), (&ring, 1e-5)] {
            for normal in normals {
                let length = Vec3::from_array(*normal).length();
                assert!(length == 0.0 || (length - 1.0).abs() < tolerance, "{normal:?}");
            }
        }
    }
}

/// A model and its weights, (joint, weight) pairs of every vertex.
type Weighted = (Model, Vec<Vec<(usize, f32)>>);

#[test]
fn palette_normals_are_the_rest_normals_turned_by_the_blended_matrix() {
    for vertices in [1, 7, 8, 9, 61] {
        let mut numbers = Numbers(vertices as u64);
        let character = character(&mut numbers, &Size { vertices, joints: 5, influences: 3 });
        let pose = pose(&mut numbers, &character);
        let rest: Vec<Affine3A> = character.bones.iter().map(|bone| bone.rest).collect();
        // Animation space has weights of its own, the last components: here some of the first joint's goes to the second.
        let mut points = AnimationSpace::from_linear_blend(&character);
        for row in points.coordinates.chunks_exact_mut(points.width) {
            let some = 0.3 * numbers.next();
            row[0][3] -= some;
            row[1][3] += some;
        }
        let skin: Vec<Vec<(usize, f32)>> = (0..vertices).map(|v| character.skin.vertex(v).collect()).collect();
        let own = (0..vertices).map(|v| points.vertex(v).map(|(joint, p)| (joint, p[3])).collect()).collect();
        let model = |deformer| Model::new(character.clone(), deformer, Metadata::default()).unwrap();
        let entries = MultiWeight::from_animation_space(&points, &character);
        // The others are turned by the skin's weights.
        for deformer in [
            Deformer::LinearBlend(LinearBlend),
            Deformer::DualQuaternion(DualQuaternion),
            Deformer::MultiWeight(entries),
        ] {
            check_palette_normals(&rest, &pose, &(model(deformer), Vec::clone(&skin)));
        }
        check_palette_normals(&rest, &pose, &(model(Deformer::AnimationSpace(points)), own));
    }
}

fn check_palette_normals(rest: &[Affine3A], pose: &[Affine3A], (model, weights): &Weighted) {
    let all = [
        Instructions::Plain,
        Instructions::Portable,
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2,
        Instructions::detect(),
    ];
    for instructions in all {
        let mut options = Options { normals: true, ..Options::default() };
        options.instructions = instructions;
        let mut evaluator = Evaluator::with(model, options);
        let [mut out, mut rest_normals, mut normals] = [(); 3].map(|()| vec![[f32::NAN; 3]; weights.len()]);
        // Of the character's rest mesh, which need not be the method's own in the rest pose.
        let skin = Model { deformer: Deformer::LinearBlend(LinearBlend), ..model.clone() };
        Evaluator::with(&skin, options).positions_and_normals(rest, &mut out, &mut rest_normals);
        evaluator.positions_and_palette_normals(pose, &mut out, &mut normals);
        for (v, weights) in weights.iter().enumerate() {
            let turned = |joint: usize| {
                let matrix = (pose[joint] * rest[joint].inverse()).matrix3;
                matrix * Vec3::from_array(rest_normals[v])
            };
            let expected = weights.iter().map(|&(joint, weight)| weight * turned(joint)).sum::<Vec3>();
            let found = Vec3::from_array(normals[v]);
            let off = match model.deformer {
                // What f32 adds grows where the blend nearly cancels.
                Deformer::LinearBlend(_) => 1e-5,
                // Numbers of 16 bits, and light weights moved to the heaviest joint.
                _ => rounding(weights) + moved(weights, turned),
            };
            // 3.7e-4 along the normal from the estimate of 1/√.
            let tolerance = 4e-4 + off / expected.length().max(1e-3);
            let what = format!("{}, vertex {v}", model.deformer.kind());
            assert!(found.distance(expected.normalize_or_zero()) < tolerance, "{what}: {found} and {expected}");
        }
    }
}

/// By how much 16 bits may move `Σ w T n̂` if the T are rotations: 5e-5 (k + 1) Σ|w|, as the kernel's file derives.
fn rounding(weights: &[(usize, f32)]) -> f32 {
    5e-5 * (weights.len() + 1) as f32 * weights.iter().map(|(_, weight)| weight.abs()).sum::<f32>()
}

/// By how much the lightest weights, a hundredth of them all, move `Σ w T n̂` if they go to the heaviest joint; `turned(b)` is
/// T_b n̂.
fn moved(weights: &[(usize, f32)], turned: impl Fn(usize) -> Vec3) -> f32 {
    let mut sorted: Vec<(usize, f32)> = Vec::new();
    for &(joint, weight) in weights {
        match sorted.iter_mut().find(|(other, _)| *other == joint) {
            Some((_, sum)) => *sum += weight,
            None => sorted.push((joint, weight)),
        }
    }
    sorted.sort_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
    let all: f32 = sorted.iter().map(|(_, weight)| weight.abs()).sum();
    let heaviest = turned(sorted.last().expect("a vertex has a joint").0);
    let mut light = 0.0;
    let lightest = sorted.iter().take_while(|(_, weight)| {
        light += weight.abs();
        light <= 0.01 * all
    });
    lightest.map(|&(joint, weight)| weight.abs() * turned(joint).distance(heaviest)).sum()
}

#[test]
fn weights_of_a_hundredth_turn_palette_normals_by_little() {
    let mut numbers = Numbers(23);
    let character = character(&mut numbers, &Size { vertices: 300, joints: 12, influences: 4 });
    let mut points = AnimationSpace::from_linear_blend(&character);
    for (joints, row) in points.joints.chunks_exact_mut(4).zip(points.coordinates.chunks_exact_mut(4)) {
        joints.copy_from_slice(&[0, 3, 6, 9].map(|first| first + numbers.below(3) as u16));
        let light = 0.005 * numbers.next().abs();
        for (p, weight) in row.iter_mut().zip([0.8, 0.2 - 2.0 * light, light, light]) {
            p[3] = weight;
        }
    }
    let weights: Vec<Vec<(usize, f32)>> =
        (0..300).map(|v| points.vertex(v).map(|(joint, p)| (joint, p[3])).collect()).collect();
    let model = Model::new(character, Deformer::AnimationSpace(points), Metadata::default()).unwrap();
    let rest: Vec<Affine3A> = model.character.bones.iter().map(|bone| bone.rest).collect();
    let options = Options { normals: true, ..Options::default() };
    let [mut out, mut rest_normals, mut normals] = [(); 3].map(|()| vec![[f32::NAN; 3]; 300]);
    let skin = Model { deformer: Deformer::LinearBlend(LinearBlend), ..model.clone() };
    Evaluator::with(&skin, options).positions_and_normals(&rest, &mut out, &mut rest_normals);
    let mut farthest = 0.0_f32;
    // Joints turned from each other by up to 60°, as in a bent limb: a hundredth of that is 0.6°, as documented.
    let turns: Vec<Quat> = (0..12)
        .map(|_| Quat::from_axis_angle(Vec3::from_array(numbers.point()).normalize(), 0.52 * numbers.next()))
        .collect();
    let pose: Vec<Affine3A> = turns.iter().zip(&rest).map(|(&turn, &rest)| Affine3A::from_quat(turn) * rest).collect();
    Evaluator::with(&model, options).positions_and_palette_normals(&pose, &mut out, &mut normals);
    for (v, weights) in weights.iter().enumerate() {
        let turned = |joint: usize| turns[joint] * Vec3::from_array(rest_normals[v]);
        let expected = weights.iter().map(|&(joint, weight)| weight * turned(joint)).sum::<Vec3>();
        if expected.length() == 0.0 {
            continue;
        }
        let angle = Vec3::from_array(normals[v]).angle_between(expected);
        let rounded = rounding(weights) / expected.length();
        // The blend of joints 60° apart is at least cos 30° = 0.87 long; what is promised is for one of length 1.
        assert!(angle < 0.0105 / 0.87 + rounded, "vertex {v}: {angle} rad");
        farthest = farthest.max(angle - rounded);
    }
    assert!(farthest > 0.0, "light weights were not left out");
}

#[test]
fn palette_normals_of_a_rigid_motion_are_the_turned_rest_normals() {
    let mut numbers = Numbers(5);
    let character = character(&mut numbers, &Size { vertices: 60, joints: 4, influences: 3 });
    let motion = numbers.motion();
    let pose: Vec<Affine3A> = character.bones.iter().map(|bone| motion * bone.rest).collect();
    let model = Model::new(character, Deformer::LinearBlend(LinearBlend), Metadata::default()).unwrap();
    let mut evaluator = Evaluator::with(&model, Options { normals: true, ..Options::default() });
    let [mut out, mut palette, mut ring] = [(); 3].map(|()| vec![[0.0; 3]; 60]);
    evaluator.positions_and_palette_normals(&pose, &mut out, &mut palette);
    evaluator.positions_and_normals(&pose, &mut out, &mut ring);
    for (v, (a, b)) in palette.iter().zip(&ring).enumerate() {
        let apart = Vec3::from_array(*a).distance(Vec3::from_array(*b));
        // Cross products of short random edges lose a few digits.
        assert!(apart < 1e-3, "vertex {v}: {a:?} and {b:?}");
    }
}
