//! `.sinew`: what is written comes back; every flipped bit is noticed; hostile files are errors.

use glam::{Affine3A, Quat, Vec3};
use sinew_runtime::correction::{Drivers, ProxyCorrection, ProxyRegion};
use sinew_runtime::deform::{DualQuaternion, LinearBlend};
use sinew_runtime::polynomials::Coordinate;
use sinew_runtime::{
    Bone, Character, Correction, Deformer, Evaluator, Instructions, KernelRegion, Metadata, Model, ModelError, Options,
    Polygons, Polynomials, PoseSpace, Skin,
};

fn character() -> Character {
    let bone =
        |name: &str, parent, x| Bone { name: name.into(), parent, rest: Affine3A::from_translation(Vec3::X * x) };
    Character {
        rest_positions: vec![[0.0; 3], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 0.0]],
        triangles: vec![[0, 1, 2], [0, 2, 3]],
        polygons: Some(Polygons { counts: vec![4], vertices: vec![0, 1, 2, 3] }),
        uvs: Some(vec![[[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]], [[0.0, 0.0], [1.0, 1.0], [0.0, 1.0]]]),
        bones: vec![bone("hip", None, 0.5), bone("knee", Some(0), 1.0)],
        skin: Skin {
            width: 2,
            joints: vec![0, 0, 1, 0, 0, 1, 1, 0],
            weights: vec![1.0, 0.0, 0.75, 0.25, 0.5, 0.5, 1.0, 0.0],
        },
        fps: Some(24.0),
    }
}

fn model(deformer: Deformer) -> Model {
    let mut metadata = Metadata { method: "ssd".into(), source: "test.npz".into(), ..Metadata::default() };
    metadata.figures.insert("train.ee_percent".into(), 12.5);
    // Numbers whose shortest decimals a hasty parser rounds to their neighbour.
    for k in 1..200 {
        metadata.figures.insert(format!("figure.{k}"), (f64::from(k) * 0.7391).exp() / 3.0);
    }
    metadata.notes.insert("remark".into(), "ein „Wort“".into());
    Model::new(character(), deformer, metadata).unwrap()
}

#[test]
fn what_is_written_comes_back() {
    for deformer in [Deformer::LinearBlend(LinearBlend), Deformer::DualQuaternion(DualQuaternion)] {
        let model = model(deformer);
        let bytes = model.to_bytes();
        let back = Model::from_bytes(&bytes).unwrap();
        assert_eq!(back, model);
        assert_eq!(back.to_bytes(), bytes);
    }
}

#[test]
fn every_flipped_bit_and_every_truncation_is_noticed() {
    let bytes = model(Deformer::LinearBlend(LinearBlend)).to_bytes();
    for position in 0..bytes.len() {
        assert!(Model::from_bytes(&bytes[..position]).is_err(), "truncated to {position}");
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[position] ^= 1 << bit;
            assert!(Model::from_bytes(&damaged).is_err(), "byte {position} bit {bit} flipped unnoticed");
        }
    }
}

/// Behind the checksum: whatever numbers stand in the tensors, the model is refused or evaluates.
#[test]
fn damaged_numbers_are_refused_or_evaluate() {
    for seed in ["ssd.sinew", "rr.sinew"] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/sinew").join(seed);
        let bytes = std::fs::read(path).unwrap();
        assert!(Model::from_bytes(&bytes).is_ok(), "{seed}");
        // A linear congruential generator: the same damages on every machine.
        let mut state = 7_usize;
        let mut below = |bound: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        let mut evaluated = 0;
        for k in 0..2000 {
            let mut damaged = bytes.clone();
            let place = below(bytes.len());
            match k % 3 {
                0 => damaged[place] ^= 1 << below(8),
                1 => damaged.iter_mut().skip(place).take(4).for_each(|byte| *byte = 0xff),
                _ => damaged.copy_within(place..(place + 16).min(bytes.len()), below(bytes.len() - 16)),
            }
            let Ok(model) = Model::from_bytes_without_checksum(&damaged) else { continue };
            let pose: Vec<_> = model.character.bones.iter().map(|bone| bone.rest).collect();
            let mut positions = vec![[0.0; 3]; model.character.vertex_count()];
            Evaluator::new(&model).positions(&pose, &mut positions);
            evaluated += 1;
        }
        assert!(evaluated > 100, "{seed}: only {evaluated} damages reach the evaluation");
    }
}

#[test]
fn a_header_that_claims_terabytes_is_refused_at_once() {
    let mut bytes = model(Deformer::LinearBlend(LinearBlend)).to_bytes();
    bytes[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(Model::from_bytes(&bytes).is_err());
    let header = br#"{"a":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4000000000000]}}"#;
    let mut hostile = (header.len() as u64).to_le_bytes().to_vec();
    hostile.extend_from_slice(header);
    assert!(Model::from_bytes(&hostile).is_err());
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    let refused = |break_it: fn(&mut Character), message: &str| {
        let mut broken = character();
        break_it(&mut broken);
        let error = Model::new(broken, Deformer::LinearBlend(LinearBlend), Metadata::default()).unwrap_err();
        assert!(error.to_string().contains(message), "`{error}` does not say `{message}`");
    };
    refused(|c| c.skin.joints[3] = 2, "`skin.joints` entry 3 is 2; it must be below 2");
    refused(|c| c.triangles[1][2] = 4, "`triangles` entry 5 is 4");
    refused(|c| c.bones[0].parent = Some(1), "0 roots");
    refused(|c| c.skin.weights.truncate(7), "skin.weights");
    refused(|c| c.skin.weights[2] = f32::NAN, "not a finite number");
    refused(|c| c.bones[1].rest.matrix3 = glam::Mat3A::ZERO, "singular");
}

/// A correction of `corpus/sinew/rr.sinew` by one region with one example pose; `change` makes it unusable, or odd.
fn corrected(change: fn(&mut ProxyCorrection)) -> Result<Model, ModelError> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/sinew/rr.sinew");
    let mut model = Model::read(&path)?;
    model.correction = None;
    let Deformer::RotationalRegression(d) = &model.deformer else { panic!("rr.sinew is rotational regression") };
    let region = KernelRegion { joints: vec![(0, 1.0)], constant: 0.0, product: 1.0, additive: 0.0, peak: 0.0 };
    let mut correction = ProxyCorrection {
        proxy_count: d.proxy_count(),
        drivers: Drivers::Examples(PoseSpace {
            poses: 1,
            joints: vec![1],
            rotations: vec![0.0, 0.0, 0.0, 1.0],
            fade: vec![[1.0, 4.0]],
            peak_rate: 0.0,
            regions: vec![region],
        }),
        regions: vec![ProxyRegion { bone: 1, proxies: vec![0, 1], mixing: vec![1.0], components: vec![[0.1; 12]; 2] }],
    };
    change(&mut correction);
    model.with_correction(Correction::Proxies(correction))
}

/// The example poses of a correction.
fn examples(c: &mut ProxyCorrection) -> &mut PoseSpace {
    match &mut c.drivers {
        Drivers::Examples(space) => space,
        Drivers::Polynomials(_) => panic!("it follows examples"),
    }
}

#[test]
fn kernels_that_give_no_number_are_refused() {
    assert!(corrected(|_| {}).is_ok());
    let refused = |change: fn(&mut ProxyCorrection), message: &str| {
        let error = corrected(change).unwrap_err().to_string();
        assert!(error.contains(message), "`{error}` does not say `{message}`");
    };
    refused(|c| examples(c).fade[0][0] = -1.0, "`pose_space.fade` entry 0 is -1; it must be at least 0");
    refused(|c| examples(c).peak_rate = -2.0, "`pose_space.peak_rate` entry 0 is -2");
    refused(|c| examples(c).regions[0].joints[0].1 = f32::NAN, "`pose_space.region_rates` entry 0 is NaN");
    refused(|c| examples(c).regions[0].joints[0].1 = -1.0, "`pose_space.region_rates` entry 0 is -1");
}

#[test]
fn polynomials_that_point_nowhere_are_refused() {
    let by_polynomials = |change: fn(&mut Polynomials)| {
        let mut polynomials = Polynomials {
            coordinates: vec![Coordinate { joint: 1, axis: [1.0, 0.0, 0.0], offset: 0.0 }],
            factors: vec![[0, 0], [1, 0]],
            regions: vec![vec![0, 2]],
        };
        change(&mut polynomials);
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/sinew/rr.sinew");
        let mut model = Model::read(&path).unwrap();
        model.correction = None;
        let Deformer::RotationalRegression(d) = &model.deformer else { panic!("rr.sinew is rotational regression") };
        let correction = ProxyCorrection {
            proxy_count: d.proxy_count(),
            drivers: Drivers::Polynomials(polynomials),
            regions: vec![ProxyRegion { bone: 1, proxies: vec![0], mixing: vec![1.0; 2], components: vec![[0.1; 12]] }],
        };
        model.with_correction(Correction::Proxies(correction))
    };
    let good = by_polynomials(|_| {}).unwrap();
    assert!(Model::from_bytes(&good.to_bytes()).unwrap() == good, "a file changes the model");
    let refused = |change: fn(&mut Polynomials), message: &str| {
        let error = by_polynomials(change).unwrap_err().to_string();
        assert!(error.contains(message), "`{error}` does not say `{message}`");
    };
    refused(|p| p.coordinates[0].joint = 500, "`polynomials.joints` entry 0 is 500");
    refused(|p| p.coordinates[0].offset = f32::NAN, "`polynomials.axes` entry 3 is NaN");
    // A term is made of earlier ones.
    refused(|p| p.factors[0] = [1, 0], "`polynomials.factors` entry 0 is 1; it must be below 1");
    refused(|p| p.factors[1] = [0, 1], "`polynomials.factors` entry 0 is 1; it must be below 1");
    refused(|p| p.regions[0][1] = 3, "`polynomials.region_terms` entry 1 is 3");
    refused(|p| p.regions[0].push(1), "mixing entries");
}

#[test]
fn a_region_without_components_corrects_nothing() {
    let empty = corrected(|c| {
        c.regions[0].mixing.clear();
        c.regions[0].components.clear();
    });
    let empty = empty.unwrap();
    let plain = Model { correction: None, ..empty.clone() };
    let pose: Vec<Affine3A> = plain.character.bones.iter().map(|bone| bone.rest).collect();
    for instructions in [Instructions::detect(), Instructions::Plain] {
        let positions = |model: &Model| {
            let mut positions = vec![[0.0; 3]; model.character.vertex_count()];
            Evaluator::with(model, Options { instructions, ..Options::default() }).positions(&pose, &mut positions);
            positions
        };
        assert_eq!(positions(&empty), positions(&plain));
    }
}

#[test]
fn the_rest_pose_gives_the_rest_mesh_and_a_rigid_motion_carries_through() {
    for deformer in [Deformer::LinearBlend(LinearBlend), Deformer::DualQuaternion(DualQuaternion)] {
        let model = model(deformer);
        let mut evaluator = Evaluator::new(&model);
        let rest: Vec<Affine3A> = model.character.bones.iter().map(|bone| bone.rest).collect();
        let mut out = vec![[0.0; 3]; 4];
        evaluator.positions(&rest, &mut out);
        for (p, r) in out.iter().zip(&model.character.rest_positions) {
            // 1e-6: a few roundings of coordinates near one.
            assert!(Vec3::from(*p).distance(Vec3::from(*r)) < 1e-6);
        }
        let motion = Affine3A::from_rotation_translation(Quat::from_rotation_y(2.0), Vec3::new(3.0, -1.0, 2.0));
        let bent = vec![rest[0], rest[1] * Affine3A::from_rotation_z(1.2)];
        evaluator.positions(&bent, &mut out);
        let expected: Vec<Vec3> = out.iter().map(|&p| motion.transform_point3(p.into())).collect();
        let moved: Vec<Affine3A> = bent.iter().map(|&g| motion * g).collect();
        evaluator.positions(&moved, &mut out);
        for (p, e) in out.iter().zip(&expected) {
            // 2e-6: the same, for coordinates up to five.
            assert!(Vec3::from(*p).distance(*e) < 2e-6);
        }
    }
}
