use super::*;
use glam::DVec3;

fn check(name: &str, vertices: std::ops::RangeInclusive<usize>, bones: usize, train: usize, test: usize) -> Examples {
    let examples = by_name(name).expect("a built-in name").make();
    assert!(vertices.contains(&examples.mesh().vertex_count()), "{name}: {} vertices", examples.mesh().vertex_count());
    assert_eq!(examples.skeleton().bone_count(), bones, "{name}: joints");
    assert_eq!(examples.split().train.len(), train, "{name}: training poses");
    assert_eq!(examples.split().test.len(), test, "{name}: test poses");
    assert_eq!(examples.frame_count(), train + test);
    for frame in 0..examples.frame_count() {
        let volume = signed_volume(&examples, examples.vertices(frame));
        assert!(volume > 0.0, "{name}: frame {frame} is inside out");
    }
    examples
}

fn signed_volume(examples: &Examples, vertices: &[DVec3]) -> f64 {
    let corner = |v: u32| vertices[v as usize];
    examples.mesh().triangles().iter().map(|&[a, b, c]| corner(a).dot(corner(b).cross(corner(c))) / 6.0).sum()
}

#[test]
fn the_sets_have_the_sizes_they_promise() {
    check("bar", 78..=82, 2, 3, 50);
    check("tube-bend", 1000..=2000, 2, 40, 39);
    check("tube-twist", 1000..=2000, 2, 40, 39);
    check("tube-twist-180", 1000..=2000, 2, 40, 39);
    check("arm", 5000..=6000, 3, 4, 40);
    check("shoulder", 2500..=2700, 2, 10, 100);
    check("creature", 29_380..=29_380, 155, 11, 121);
}

#[test]
fn the_ends_of_a_limb_move_exactly_with_a_bone() {
    for name in ["bar", "tube-bend", "tube-twist-180", "arm", "shoulder"] {
        let examples = by_name(name).unwrap().make();
        let mut rigid = vec![0; examples.skeleton().bone_count()];
        for v in 0..examples.mesh().vertex_count() {
            for (b, count) in rigid.iter_mut().enumerate() {
                let follows = |e: usize| {
                    let bone = examples.pose(e).globals[b] * examples.skeleton().bones()[b].rest.inverse();
                    let carried = bone.transform_point3(examples.mesh().vertices()[v]);
                    // Coordinates of about one metre in f32 through two f32 matrices: a few units of 6e-8.
                    carried.distance(examples.vertices(e)[v]) < 1e-6
                };
                *count += usize::from((0..examples.frame_count()).all(follows));
            }
        }
        assert!(rigid.iter().all(|&count| count >= 8), "{name}: vertices that follow each bone: {rigid:?}");
    }
}

#[test]
fn skin_is_continuous_from_frame_to_frame() {
    for name in ["tube-bend", "tube-twist-180", "arm", "creature"] {
        let examples = by_name(name).unwrap().make();
        let diagonal = examples.mesh().diagonal();
        for e in 1..examples.frame_count() {
            let step = examples.vertices(e).iter().zip(examples.vertices(e - 1)).map(|(a, b)| a.distance(*b));
            // The fastest point is the creature's foot, swinging 0.15 m a frame over a body 5 m long; a jump would be
            // a limb's radius or more.
            assert!(step.fold(0.0, f64::max) < 0.05 * diagonal, "{name}: frame {e} jumps");
        }
    }
}

#[test]
fn the_arm_keeps_its_elbow_and_its_muscles_bulge() {
    let arm = by_name("arm").unwrap().make();
    let straight = signed_volume(&arm, arm.vertices(0));
    let bent = signed_volume(&arm, arm.vertices(43));
    // Flesh is nearly incompressible: a collapsing elbow would lose a tenth, a balloon would gain it.
    assert!((bent / straight - 1.0).abs() < 0.1, "the volume goes from {straight} to {bent}");
    let highest = |e: usize| {
        let upper = arm.vertices(e).iter().filter(|p| (0.10..0.2).contains(&p.x));
        upper.map(|p| p.y).fold(f64::NEG_INFINITY, f64::max)
    };
    assert!(highest(29) > highest(0) + 0.008, "the biceps rises by a centimetre or two");
}

#[test]
fn the_same_set_is_made_every_time() {
    for info in DATASETS.iter().filter(|info| info.name != "creature") {
        assert!(info.make() == info.make(), "{}", info.name);
    }
}

#[test]
fn turned_farther_the_joints_turn_as_many_times_as_far_and_the_skin_goes_with_them() {
    for name in ["tube-bend", "tube-twist", "arm"] {
        let info = by_name(name).unwrap();
        let (set, farther) = (info.make(), info.turned_farther(1.5));
        assert!(info.turned_farther(1.0) == set, "{name}: once as far is as far");
        assert!(farther.mesh() == set.mesh() && farther.split() == set.split(), "{name}: the rest pose stays");
        // One joint in the tubes turns about one axis; the arm's swing and twist at once, each turned farther by itself.
        for e in (0..set.frame_count()).filter(|_| name != "arm") {
            let expected = set.skeleton().turned_farther(set.pose(e), 1.5);
            let off = expected.globals[1].matrix3 - farther.pose(e).globals[1].matrix3;
            // 1e-6: a quaternion read off a matrix near no turn at all keeps half of the digits.
            assert!(off.to_cols_array().iter().all(|x| x.abs() < 1e-6), "{name}, frame {e}: {off}");
        }
        let moved = set.vertices(set.frame_count() - 1).iter().zip(farther.vertices(set.frame_count() - 1));
        assert!(moved.fold(0.0_f64, |most, (a, b)| most.max(a.distance(*b))) > 0.05 * set.mesh().diagonal(), "{name}");
    }
}
