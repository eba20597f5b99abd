use glam::{DAffine3, DMat3, DQuat, DVec3};
use sinew_examples::{Mesh, MeshSequence};

use super::*;
use crate::Quiet;
use crate::solve::few::{FewSolver, Gram};
use crate::solve::simplex;

const FRAMES: usize = 12;

/// A tube along x with rings of eight, open at both ends.
fn tube(rings: usize, from: f64) -> (Vec<DVec3>, Vec<[u32; 3]>) {
    let around = 8;
    let point = |k: usize| {
        let (ring, angle) = (k / around, (k % around) as f64 * std::f64::consts::TAU / around as f64);
        DVec3::new(from + ring as f64 * 0.1, 0.2 * angle.cos(), 0.25 * angle.sin())
    };
    let mut triangles = Vec::new();
    for ring in 0..rings - 1 {
        for k in 0..around {
            let corner = |r: usize, k: usize| (r * around + k % around) as u32;
            triangles.push([corner(ring, k), corner(ring, k + 1), corner(ring + 1, k)]);
            triangles.push([corner(ring + 1, k), corner(ring, k + 1), corner(ring + 1, k + 1)]);
        }
    }
    ((0..rings * around).map(point).collect(), triangles)
}

/// A small generator of numbers in −½ to ½; the tests need variety, not chance.
fn numbers(mut state: u64) -> impl FnMut() -> f64 {
    move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as f64 / (1_u64 << 31) as f64 - 0.5
    }
}

/// Three bones in a chain with joints at x = 1 and 2, (N)(3).
fn chain() -> Vec<Vec<DAffine3>> {
    let turn = |axis: DVec3, angle: f64, at: DVec3| {
        let rotation = DAffine3::from_quat(DQuat::from_axis_angle(axis.normalize(), angle));
        DAffine3::from_translation(at) * rotation * DAffine3::from_translation(-at)
    };
    (0..FRAMES)
        .map(|e| {
            let t = e as f64 / FRAMES as f64 * std::f64::consts::TAU;
            let root = turn(DVec3::Y, 0.3 * t.sin(), DVec3::ZERO);
            let middle = root * turn(DVec3::new(0.1, 0.2, 1.0), 0.8 * (t + 0.5).sin(), DVec3::X);
            let end = middle * turn(DVec3::new(0.3, 1.0, 0.1), 0.9 * (2.0 * t).cos(), DVec3::X * 2.0);
            vec![root, middle, end]
        })
        .collect()
}

/// A chain of three bones draws a tube, with weights that change linearly over ±0.25 around the joints.
fn planted() -> (MeshSequence, Vec<Vec<DAffine3>>, SparseWeights) {
    let (vertices, triangles) = tube(31, 0.0);
    let transforms = chain();
    let row = |v: &DVec3| {
        let share = |joint: f64| ((v.x - joint) / 0.5 + 0.5).clamp(0.0, 1.0);
        let (one, two) = (share(1.0), share(2.0));
        let all = [(0, 1.0 - one), (1, one - two), (2, two)];
        all.into_iter().filter(|&(_, w)| w > 0.0).collect::<Vec<_>>()
    };
    let weights = SparseWeights { vertices: vertices.iter().map(row).collect() };
    let frames = transforms
        .iter()
        .map(|bones| {
            let place = |v: usize| {
                weights.vertices[v].iter().map(|&(b, w)| bones[b].transform_point3(vertices[v]) * w).sum::<DVec3>()
            };
            (0..vertices.len()).map(place).collect()
        })
        .collect();
    (sequence(vertices, triangles, frames), transforms, weights)
}

fn sequence(vertices: Vec<DVec3>, triangles: Vec<[u32; 3]>, frames: Vec<Vec<DVec3>>) -> MeshSequence {
    let mesh = Mesh::new(vertices, triangles, None, None).expect("a proper mesh");
    MeshSequence::new(mesh, frames, None, None).expect("a proper sequence")
}

fn run(sequence: &MeshSequence, given: &Given, bones: usize) -> Decomposition {
    let frames: Vec<usize> = (0..sequence.frame_count()).collect();
    let params = DecomposeParams { bones, ..DecomposeParams::default() };
    decompose(sequence, &frames, given, &params, &Quiet).expect("a decomposition")
}

/// E_RMS from the drawn meshes themselves, without the sums that the solver keeps.
fn measured(sequence: &MeshSequence, result: &Decomposition) -> f64 {
    let rest = sequence.mesh().vertices();
    let squares: f64 = (0..sequence.frame_count())
        .map(|e| {
            let drawn = result.draw(rest, e);
            drawn.iter().zip(&sequence.frames()[e]).map(|(a, b)| a.distance_squared(*b)).sum::<f64>()
        })
        .sum();
    let numbers = (3 * rest.len() * sequence.frame_count()) as f64;
    1000.0 * (squares / numbers).sqrt() / (sequence.mesh().diagonal() / 2.0)
}

#[test]
fn a_planted_chain_is_found_and_the_reported_error_is_the_true_one() {
    let (sequence, ..) = planted();
    let result = run(&sequence, &Given::default(), 3);
    let error = measured(&sequence, &result);
    // 1e-6: the reported error is a difference of large sums, good to about 1e-7 of the diagonal here.
    assert!((result.report.e_rms - error).abs() < 1e-3 * error + 1e-6, "{} reported, {error}", result.report.e_rms);
    // 5 thousandths of half the diagonal: one bone leaves about 100; the alternation is stopped by its tolerance.
    assert!(error < 5.0, "{error}");
    let affine = DecomposeParams { bones: 3, kind: BoneKind::Affine, ..DecomposeParams::default() };
    let frames: Vec<usize> = (0..FRAMES).collect();
    let affine = decompose(&sequence, &frames, &Given::default(), &affine, &Quiet).expect("a decomposition");
    assert!(measured(&sequence, &affine) < 5.0);
}

#[test]
fn more_bones_never_come_back_than_there_is_motion() {
    let (vertices, triangles) = tube(21, 0.0);
    let rigid: Vec<Vec<DVec3>> =
        chain().iter().map(|bones| vertices.iter().map(|&v| bones[2].transform_point3(v)).collect()).collect();
    let one = sequence(vertices.clone(), triangles.clone(), rigid.clone());
    let result = run(&one, &Given::default(), 10);
    assert_eq!(result.bone_count(), 1);
    assert!(
        result.report.warnings.iter().any(|warning| warning.contains("1 came back")),
        "{:?}",
        result.report.warnings
    );
    // The same with noise of a thousandth: bones must not be spent on it.
    let mut random = numbers(7);
    let noisy = rigid
        .iter()
        .map(|frame| frame.iter().map(|&v| v + DVec3::new(random(), random(), random()) * 2e-3).collect::<Vec<_>>());
    let noisy = sequence(vertices.clone(), triangles.clone(), noisy.collect());
    assert!(run(&noisy, &Given::default(), 10).bone_count() <= 2);
    // A static frame, alone.
    let still = sequence(vertices.clone(), triangles, vec![vertices]);
    assert_eq!(run(&still, &Given::default(), 5).bone_count(), 1);
}

#[test]
fn separate_pieces_get_a_bone_each() {
    let (mut vertices, mut triangles) = tube(9, 0.0);
    let first = vertices.len();
    let (more, faces) = tube(9, 3.0);
    vertices.extend(more);
    triangles.extend(faces.iter().map(|face| face.map(|v| v + first as u32)));
    let frames = chain().into_iter().map(|bones| {
        let carried = |(v, &x): (usize, &DVec3)| bones[if v < first { 0 } else { 2 }].transform_point3(x);
        vertices.iter().enumerate().map(carried).collect::<Vec<_>>()
    });
    let frames = frames.collect();
    let sequence = sequence(vertices, triangles, frames);
    let result = run(&sequence, &Given::default(), 2);
    // Half a thousandth of half the diagonal, where one bone leaves about a hundred: two rigid bones draw it exactly, and
    // the alternation stops by its tolerance on the way there.
    assert!(measured(&sequence, &result) < 0.5, "{}", measured(&sequence, &result));
}

#[test]
fn locks_are_kept() {
    let (sequence, transforms, weights) = planted();
    // Weights only: the given bones do not move, and their weights draw the mesh.
    let kept = Given { transforms: transforms.clone(), locked_bones: vec![true; 3], ..Given::default() };
    let result = run(&sequence, &kept, 3);
    for (found, given) in result.transforms.iter().flatten().zip(transforms.iter().flatten()) {
        // 1e-12: into the solver's units and back.
        assert!(found.abs_diff_eq(*given, 1e-12));
    }
    assert!(measured(&sequence, &result) < 1e-2);
    // Transforms only: the given weights stay, and the motion that made the mesh is found from nothing.
    let kept = Given {
        weights: Some(weights.clone()),
        locked_vertices: vec![true; weights.vertices.len()],
        ..Given::default()
    };
    let result = run(&sequence, &kept, 3);
    for (found, given) in result.weights.vertices.iter().zip(&weights.vertices) {
        assert!(given.iter().all(|(b, w)| found.iter().any(|(c, u)| b == c && (u - w).abs() < 1e-12)));
    }
    assert!(measured(&sequence, &result) < 0.5, "{}", measured(&sequence, &result));
    // Helper bones beside a kept one: the kept one stays, the error falls.
    let root: Vec<Vec<DAffine3>> = transforms.iter().map(|frame| vec![frame[0]]).collect();
    let kept = Given { transforms: root.clone(), locked_bones: vec![true], ..Given::default() };
    let (alone, helped) = (run(&sequence, &kept, 1), run(&sequence, &kept, 3));
    assert!(helped.transforms.iter().zip(&root).all(|(frame, kept)| frame[0].abs_diff_eq(kept[0], 1e-12)));
    assert!(helped.report.e_rms < 0.1 * alone.report.e_rms);
}

#[test]
fn one_thread_and_three_give_the_same_bits_and_a_moved_world_the_same_result() {
    let (sequence, ..) = planted();
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        pool.install(|| run(&sequence, &Given::default(), 4))
    };
    assert!(with(1) == with(3));
    let move_all = DAffine3 {
        matrix3: DMat3::from_quat(DQuat::from_axis_angle(DVec3::new(1.0, 1.0, 0.2).normalize(), 1.1)),
        translation: DVec3::new(3.0, -2.0, 5.0),
    };
    let moved: Vec<Vec<DVec3>> =
        sequence.frames().iter().map(|frame| frame.iter().map(|&v| move_all.transform_point3(v)).collect()).collect();
    let moved = self::sequence(sequence.mesh().vertices().to_vec(), sequence.mesh().triangles().to_vec(), moved);
    let (here, there) = (run(&sequence, &Given::default(), 3), run(&moved, &Given::default(), 3));
    // 1 %: rounding may turn a swap of bones the other way, which the alternation then follows.
    assert!((here.report.e_rms - there.report.e_rms).abs() < 0.01 * here.report.e_rms + 1e-6);
}

#[test]
fn bad_requests_are_refused_with_their_number() {
    let (sequence, transforms, _) = planted();
    let refuse = |given: &Given, params: DecomposeParams, frames: &[usize], word: &str| {
        let error = decompose(&sequence, frames, given, &params, &Quiet).expect_err("must be refused").to_string();
        assert!(error.contains(word), "{error}");
    };
    let default = DecomposeParams::default;
    refuse(&Given::default(), DecomposeParams { bones: 0, ..default() }, &[0], "bones is 0");
    refuse(&Given::default(), DecomposeParams { influences: 17, ..default() }, &[0], "17");
    refuse(&Given::default(), DecomposeParams { tolerance: f64::NAN, ..default() }, &[0], "tolerance");
    refuse(&Given::default(), default(), &[], "no example frames");
    refuse(&Given::default(), default(), &[99], "99");
    let given = Given { transforms, ..Given::default() };
    refuse(&given, default(), &[0, 1], "given bones");
    refuse(&Given { locked_vertices: vec![true], ..Given::default() }, default(), &[0], "locked vertices");
}

/// The quick solver against Wolfe's algorithm with plain backward elimination, on random hulls.
#[test]
fn the_quick_weights_are_as_good_as_plain_elimination() {
    let mut random = numbers(3);
    let (n, length, most) = (20, 30, 4);
    let (mut quick, mut plain) = (0.0, 0.0);
    for _ in 0..200 {
        let centre: Vec<f64> = (0..length).map(|_| random() * 0.3).collect();
        let residuals: Vec<Vec<f64>> = (0..n).map(|_| centre.iter().map(|c| c + random()).collect()).collect();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        let entries: Vec<f64> = residuals.iter().flat_map(|a| residuals.iter().map(move |b| dot(a, b))).collect();
        let gram = Gram { entries: &entries, n, rounding: 0.0 };
        let mut solver = FewSolver::default();
        let value = solver.solve(gram, most, &[], true);
        let weights: Vec<(usize, f64)> = solver.entries().collect();
        assert!(weights.len() <= most && weights.iter().all(|&(_, w)| w >= 0.0));
        // 1e-12: four numbers that sum to one.
        assert!((weights.iter().map(|&(_, w)| w).sum::<f64>() - 1.0).abs() < 1e-12);
        // Never worse than the best single candidate, nor than what it started from.
        assert!((0..n).all(|i| value <= entries[i * n + i] * (1.0 + 1e-12)));
        let start = [0, 1, 2, 3];
        let among = solver.solve_among(gram, &start);
        assert!(solver.solve(gram, most, &start, false) <= among * (1.0 + 1e-9));
        quick += value;
        let reference = simplex::solve_sparse(&entries, n, most, 0.0, &mut simplex::Workspace::default());
        let at = |&(i, w): &(usize, f64)| reference.iter().map(|&(j, u)| w * u * entries[i * n + j]).sum::<f64>();
        plain += reference.iter().map(at).sum::<f64>();
    }
    // 1 %: the quick solver stops entering candidates a thousandth short of the optimum, and then swaps.
    assert!(quick <= 1.01 * plain, "{quick} against {plain}");
}
