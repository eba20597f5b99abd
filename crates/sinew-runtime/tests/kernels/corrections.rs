//! Corrections of proxy bones and vertices against their twins.

use super::*;

/// A correction of four proxies over `poses` random example poses: regions with no joint, with some, with many proxies and
/// components, with a proxy in two of them; `peak` is the weight of the narrow kernel.
fn proxy_correction(numbers: &mut Numbers, joints: usize, poses: usize, peak: f32) -> Correction {
    let turns: Vec<[f32; 4]> =
        (0..joints * poses).map(|_| Quat::from_mat3a(&numbers.motion().matrix3).to_array()).collect();
    let entry = |c: usize, k: usize, e: usize| turns[c * poses + e][k];
    let order = |c: usize| (0..4).flat_map(move |k| (0..poses).map(move |e| (c, k, e)));
    let mut region = |seen: &[u16], proxies: &[u32], components: usize| {
        let pairs = seen.iter().map(|&joint| (joint, 2.0 + 1.5 * numbers.next())).collect();
        let (product, additive) = if seen.is_empty() { (0.0, 0.0) } else { (0.6, 0.4) };
        let kernel = KernelRegion { joints: pairs, constant: 1.0, product, additive, peak };
        let change = |numbers: &mut Numbers| std::array::from_fn(|_| 0.1 * numbers.next());
        let own = ProxyRegion {
            bone: seen.len() % joints,
            proxies: proxies.to_vec(),
            mixing: (0..components * poses).map(|_| numbers.next()).collect(),
            components: (0..components * proxies.len()).map(|_| change(numbers)).collect(),
        };
        (kernel, own)
    };
    let last = joints as u16 - 1;
    let regions = [
        region(&[], &[0], 1),
        region(&[0, last], &[1, 2, 3], 2),
        region(&[0], &[3], poses.min(9)),
        region(&[0], &[2], 0),
    ];
    Correction::Proxies(ProxyCorrection {
        proxy_count: 4,
        drivers: Drivers::Examples(PoseSpace {
            poses,
            joints: (0..joints as u16).collect(),
            rotations: (0..joints).flat_map(order).map(|(c, k, e)| entry(c, k, e)).collect(),
            // Near enough for some poses to fade a little and some to nothing.
            fade: vec![[0.5, 3.5]; joints],
            peak_rate: 4.0,
            regions: regions.iter().map(|(kernel, _)| kernel.clone()).collect(),
        }),
        regions: regions.into_iter().map(|(_, own)| own).collect(),
    })
}

#[test]
fn the_kernel_of_corrected_proxies_equals_its_twin() {
    let sizes = [(1, 1, 0.0), (3, 7, 0.0), (9, 8, 0.5), (17, 11, 0.0), (5, 40, 0.2)];
    // Within the trained ranges; a little beyond some of them; far beyond all.
    for ((joints, poses, peak), range) in sizes.into_iter().flat_map(|size| [3.0, 0.8, 0.05].map(|range| (size, range)))
    {
        let mut numbers = Numbers(joints as u64);
        let character = character(&mut numbers, &Size { vertices: 50, joints, influences: 4 });
        let mut regression = rotational_regression(&mut numbers, &character, 4);
        regression.ranges.low = vec![[-range; 3]; joints];
        regression.ranges.high = vec![[range; 3]; joints];
        let plain = Model::new(character, Deformer::RotationalRegression(regression), Metadata::default()).unwrap();
        let corrected = plain.clone().with_correction(proxy_correction(&mut numbers, joints, poses, peak)).unwrap();
        let mut moved = false;
        for _ in 0..8 {
            let pose = pose(&mut numbers, &corrected.character);
            let what = format!("{joints} joints, {poses} poses, ranges to {range}");
            let expected = positions(&corrected, Instructions::Plain, &pose);
            assert_close(&what, &positions(&corrected, Instructions::Portable, &pose), &expected);
            assert_close(&what, &positions(&corrected, Instructions::detect(), &pose), &expected);
            moved |= positions(&plain, Instructions::Plain, &pose) != expected;
        }
        assert!(moved, "the correction does nothing");
    }
}

/// Changes of seven proxies by polynomials of the rotations of `joints` joints: an odd number of proxies a region, a region that
/// sees the constant alone, one without components, and a proxy in none.
fn polynomial_changes(numbers: &mut Numbers, joints: usize) -> Correction {
    let coordinates: Vec<Coordinate> = (0..2 * joints)
        .map(|c| Coordinate {
            joint: (c % joints) as u16,
            axis: std::array::from_fn(|_| numbers.next()),
            offset: 0.3 * numbers.next(),
        })
        .collect();
    let factors: Vec<[u16; 2]> = (0..30).map(|k| [(k * 7 % (k + 1)) as u16, (k * 5 % (2 * joints)) as u16]).collect();
    let mut region = |proxies: &[u32], terms: &[u16], components: usize| {
        let own = ProxyRegion {
            bone: proxies.len() % joints,
            proxies: proxies.to_vec(),
            mixing: (0..components * terms.len()).map(|_| numbers.next()).collect(),
            components: (0..components * proxies.len())
                .map(|_| std::array::from_fn(|_| 0.1 * numbers.next()))
                .collect(),
        };
        (terms.to_vec(), own)
    };
    let regions = [
        region(&[0], &[0], 1),
        region(&[1, 2, 4], &[0, 3, 9, 30, 17, 2, 5, 8, 11], 4),
        region(&[5], &[1, 2, 3, 4, 5, 6, 7], 7),
        region(&[3], &[4], 0),
    ];
    Correction::Proxies(ProxyCorrection {
        proxy_count: 7,
        drivers: Drivers::Polynomials(Polynomials {
            coordinates,
            factors,
            regions: regions.iter().map(|(terms, _)| terms.clone()).collect(),
        }),
        regions: regions.into_iter().map(|(_, own)| own).collect(),
    })
}

#[test]
fn the_kernel_of_changes_by_polynomials_equals_its_twin() {
    // With predictors, c₁ and c₂ under the changes, and with proxies that only follow blends of bones.
    for (joints, follows) in [1, 3, 9, 17].into_iter().flat_map(|joints| [(joints, false), (joints, true)]) {
        let mut numbers = Numbers(joints as u64 + 40);
        let character = character(&mut numbers, &Size { vertices: 50, joints, influences: 4 });
        let mut regression = rotational_regression(&mut numbers, &character, 7);
        if follows {
            let blocks =
                |share: f32| std::array::from_fn(|r| std::array::from_fn(|c| if r == c { share } else { 0.0 }));
            let rows =
                |p: usize| if joints > 1 { vec![(p % joints, 0.75), ((p + 1) % joints, 0.25)] } else { vec![(0, 1.0)] };
            regression.c1 = BlockRows { starts: vec![0; 8], columns: Vec::new(), blocks: Vec::new() };
            regression.c2 = BlockRows { starts: vec![0], columns: Vec::new(), blocks: Vec::new() };
            for p in 0..7 {
                let mut row = rows(p);
                row.sort_by_key(|&(b, _)| b);
                regression.c2.columns.extend(row.iter().map(|&(b, _)| b as u16));
                regression.c2.blocks.extend(row.iter().map(|&(_, share)| blocks(share)));
                regression.c2.starts.push(regression.c2.columns.len() as u32);
            }
        }
        for range in [3.0, 0.3] {
            regression.ranges.low = vec![[-range; 3]; joints];
            regression.ranges.high = vec![[range; 3]; joints];
            let deformer = Deformer::RotationalRegression(regression.clone());
            let plain = Model::new(character.clone(), deformer, Metadata::default()).unwrap();
            let changed = plain.clone().with_correction(polynomial_changes(&mut numbers, joints)).unwrap();
            assert!(Model::from_bytes(&changed.to_bytes()).unwrap() == changed, "a file changes the model");
            for _ in 0..6 {
                let pose = pose(&mut numbers, &changed.character);
                let what = format!("{joints} joints, ranges to {range}, {follows}");
                let expected = positions(&changed, Instructions::Plain, &pose);
                assert_close(&what, &positions(&changed, Instructions::Portable, &pose), &expected);
                assert_close(&what, &positions(&changed, Instructions::detect(), &pose), &expected);
                assert!(positions(&plain, Instructions::Plain, &pose) != expected, "{what}: the changes do nothing");
            }
        }
    }
}

#[test]
fn corrected_proxies_are_the_same_far_from_the_origin() {
    let mut numbers = Numbers(29);
    let character = character(&mut numbers, &Size { vertices: 50, joints: 9, influences: 4 });
    let regression = rotational_regression(&mut numbers, &character, 4);
    let near = Model::new(character, Deformer::RotationalRegression(regression), Metadata::default()).unwrap();
    let near = near.with_correction(proxy_correction(&mut numbers, 9, 8, 0.0)).unwrap();
    let away = Vec3::new(1024.0, -512.0, 256.0);
    let mut far = near.clone();
    far.character.rest_positions.iter_mut().for_each(|p| *p = (Vec3::from_array(*p) + away).to_array());
    far.character.bones.iter_mut().for_each(|bone| bone.rest.translation += Vec3A::from(away));
    let pose = pose(&mut numbers, &near.character);
    let moved: Vec<Affine3A> = pose.iter().map(|&bone| Affine3A::from_translation(away) * bone).collect();
    for instructions in [Instructions::Plain, Instructions::Portable, Instructions::detect()] {
        let there = positions(&far, instructions, &moved);
        for (v, (a, b)) in there.iter().zip(positions(&near, instructions, &pose)).enumerate() {
            let off = (Vec3::from_array(*a) - away).distance(Vec3::from_array(b));
            // Thirty roundings of numbers as large as the way, 6e-5 each. The square of the way would be lost to 0.06.
            assert!(off < 2e-3, "{instructions:?}, vertex {v}: {off}");
        }
        let palette = |model: &Model, pose: &[Affine3A]| -> Vec<Affine3A> {
            let mut evaluator = Evaluator::with(model, Options { instructions, ..Options::default() });
            evaluator.positions(pose, &mut vec![[0.0; 3]; 50]);
            evaluator.palette().collect()
        };
        for (a, b) in palette(&far, &moved).into_iter().zip(palette(&near, &pose)) {
            let back = Affine3A::from_translation(-away) * a * Affine3A::from_translation(away);
            assert!(back.abs_diff_eq(b, 2e-3), "{instructions:?}: {back:?} and {b:?}");
        }
    }
}

#[test]
fn proxies_and_vertices_corrected_at_once_add_up_and_come_back_from_a_file() {
    let (joints, poses) = (9, 8);
    let mut numbers = Numbers(5);
    let character = character(&mut numbers, &Size { vertices: 50, joints, influences: 4 });
    let regression = rotational_regression(&mut numbers, &character, 4);
    let plain = Model::new(character, Deformer::RotationalRegression(regression), Metadata::default()).unwrap();
    let Correction::Proxies(proxies) = proxy_correction(&mut numbers, joints, poses, 0.0) else { unreachable!() };
    let Drivers::Examples(space) = &proxies.drivers else { unreachable!() };
    let vertices = VertexCorrection {
        space: space.clone(),
        mixing: proxies.regions.iter().map(|_| (0..poses).map(|_| numbers.next()).collect()).collect(),
        parts: vec![VertexPart { region: 1, bone: 2, vertices: vec![3, 49], components: vec![[0.1, 0.2, -0.1]; 2] }],
    };
    let with = |correction| plain.clone().with_correction(correction).unwrap();
    let (a, b) = (with(Correction::Proxies(proxies.clone())), with(Correction::Vertices(vertices.clone())));
    let both = with(Correction::Both(proxies, vertices));
    assert!(Model::from_bytes(&both.to_bytes()).unwrap() == both, "a file changes the model");
    for _ in 0..8 {
        let pose = pose(&mut numbers, &both.character);
        let [plain, a, b] = [&plain, &a, &b].map(|model| positions(model, Instructions::Plain, &pose));
        let sum = |v: usize| std::array::from_fn(|k| a[v][k] + b[v][k] - plain[v][k]);
        let expected: Vec<[f32; 3]> = (0..50).map(sum).collect();
        for instructions in [Instructions::Plain, Instructions::Portable, Instructions::detect()] {
            assert_close("both", &positions(&both, instructions, &pose), &expected);
        }
        assert!(a != plain && b != plain, "a correction does nothing");
    }
}
