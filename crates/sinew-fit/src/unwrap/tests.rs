//! Maps of surfaces whose flattening is known, and of surfaces that cannot be flattened.

use glam::{DAffine3, DVec3, DVec4};

use super::*;

/// A sheet bent over a cylinder: developable, so its map is an isometry.
fn sheet(columns: usize, rows: usize) -> (Vec<DVec3>, Vec<[u32; 3]>) {
    let point = |x: usize, y: usize| {
        let angle = 0.1 * x as f64;
        DVec3::new(angle.sin(), 0.1 * y as f64, angle.cos())
    };
    let positions = (0..columns).flat_map(|x| (0..rows).map(move |y| point(x, y))).collect();
    let mut triangles = Vec::new();
    for x in 0..columns - 1 {
        for y in 0..rows - 1 {
            let corner = |x: usize, y: usize| (x * rows + y) as u32;
            let [a, b, c, d] = [corner(x, y), corner(x, y + 1), corner(x + 1, y + 1), corner(x + 1, y)];
            triangles.extend([[a, c, b], [a, d, c]]);
        }
    }
    (positions, triangles)
}

fn rigid(positions: &[DVec3]) -> Coordinates {
    let vertex = |p: &DVec3| vec![(0, p.extend(1.0))];
    Coordinates { vertices: positions.iter().map(vertex).collect() }
}

fn rest_norm(bones: usize) -> PoseNorm {
    PoseNorm::average(&[vec![DAffine3::IDENTITY; bones]])
}

#[test]
fn a_developable_sheet_is_mapped_without_stretch() {
    let (positions, triangles) = sheet(9, 6);
    let map = unwrap(&rigid(&positions), &positions, &triangles, None, &rest_norm(1)).unwrap();
    assert_eq!((map.charts, map.flipped), (1, 0));
    assert!(map.uvs.as_flattened().as_flattened().iter().all(|x| (0.0..=1.0).contains(x)));
    let stretch = stretch::percent(&positions, &triangles, &map.uvs);
    // UVs are f32 and the cylinder's chords are not quite developable across the diagonals.
    assert!(stretch.abs() < 0.05, "{stretch} %");
}

#[test]
fn a_closed_surface_with_bad_triangles_is_cut_and_said() {
    // An octahedron, one of whose triangles is doubled without area, under UVs that make it one closed chart.
    let positions = vec![DVec3::X, DVec3::Y, DVec3::Z, -DVec3::X, -DVec3::Y, -DVec3::Z];
    let triangles =
        vec![[0, 1, 2], [1, 3, 2], [3, 4, 2], [4, 0, 2], [1, 0, 5], [3, 1, 5], [4, 3, 5], [0, 4, 5], [0, 0, 1]];
    let uvs: Vec<[[f32; 2]; 3]> =
        triangles[..8].iter().chain([&[0, 0, 1]]).map(|t: &[u32; 3]| t.map(|v| [v as f32, 0.0])).collect();
    let map = unwrap(&rigid(&positions), &positions, &triangles, Some(&uvs), &rest_norm(1)).unwrap();
    assert!(map.uvs.as_flattened().as_flattened().iter().all(|x| x.is_finite()));
    let map = unwrap(&rigid(&positions), &positions, &triangles[..8], Some(&uvs[..8]), &rest_norm(1)).unwrap();
    assert!(map.notes.iter().any(|note| note.contains("closed")), "{:?}", map.notes);
    assert!(map.charts > 1);
    assert_eq!(map.flipped, 0);
}

#[test]
fn local_triangles_have_the_norms_lengths() {
    // A triangle whose one corner follows a bone that moves away: lengths are root mean squares over the two poses.
    let coordinates = Coordinates {
        vertices: vec![
            vec![(0, DVec4::new(0.0, 0.0, 0.0, 1.0))],
            vec![(0, DVec4::new(1.0, 0.0, 0.0, 1.0))],
            vec![(1, DVec4::new(0.0, 1.0, 0.0, 1.0))],
        ],
    };
    let moved = DAffine3::from_translation(DVec3::Y);
    let norm = PoseNorm::average(&[vec![DAffine3::IDENTITY; 2], vec![DAffine3::IDENTITY, moved]]);
    let local = lscm::Local::new(&coordinates, &norm, [0, 1, 2]);
    let [a, b, c] = local.corners;
    // Exact but for rounding.
    assert!((a.distance(b) - 1.0).abs() < 1e-14);
    assert!((a.distance(c) - (2.5_f64).sqrt()).abs() < 1e-14);
    assert!((b.distance(c) - (3.5_f64).sqrt()).abs() < 1e-14);
}

#[test]
fn a_texture_squeezed_to_half_stretches_as_by_hand() {
    let positions = [DVec3::ZERO, DVec3::X, DVec3::Y];
    let uvs = [[[0.0, 0.0], [0.5, 0.0], [0.0, 1.0]]];
    // S_s = 2, S_t = 1: L2² = 2.5, times the area ratio 1/2.
    let expected = 100.0 * (1.25_f64.sqrt() - 1.0);
    assert!((stretch::percent(&positions, &[[0, 1, 2]], &uvs) - expected).abs() < 1e-9);
}

#[test]
fn a_chart_with_turned_over_triangles_is_cut_until_none_is() {
    // A full hemisphere and more in one chart: its rim folds over when it is flattened whole.
    let (rings, around) = (14, 24);
    let mut positions = vec![DVec3::Y];
    for ring in 1..=rings {
        let down = 2.95 * f64::from(ring) / f64::from(rings);
        for k in 0..around {
            let angle = std::f64::consts::TAU * f64::from(k) / f64::from(around);
            positions.push(DVec3::new(down.sin() * angle.cos(), down.cos(), down.sin() * angle.sin()));
        }
    }
    let at = |ring: i32, k: i32| if ring == 0 { 0 } else { (1 + (ring - 1) * around + k % around) as u32 };
    let mut triangles = Vec::new();
    for ring in 0..rings {
        for k in 0..around {
            if ring > 0 {
                triangles.push([at(ring, k), at(ring, k + 1), at(ring + 1, k)]);
            }
            triangles.push([at(ring, k + 1), at(ring + 1, k + 1), at(ring + 1, k)]);
        }
    }
    let uvs: Vec<[[f32; 2]; 3]> = triangles.iter().map(|t| t.map(|v| [v as f32, 0.0])).collect();
    let map = unwrap(&rigid(&positions), &positions, &triangles, Some(&uvs), &rest_norm(1)).unwrap();
    assert_eq!(map.flipped, 0, "{:?}", map.notes);
    // Automatic charts of the same: few, for a ball has six sides at most.
    let map = unwrap(&rigid(&positions), &positions, &triangles, None, &rest_norm(1)).unwrap();
    assert_eq!(map.flipped, 0);
    assert!(map.charts <= 6, "{} charts", map.charts);
}

/// A cap of a ball, which no map flattens without stretch, in one chart.
fn cap() -> (Vec<DVec3>, Vec<[u32; 3]>) {
    let (mut positions, triangles) = sheet(12, 12);
    for p in &mut positions {
        let angle = (p.y - 0.55) / 1.2;
        *p = DVec3::new(p.x * angle.cos(), angle.sin(), p.z * angle.cos());
    }
    (positions, triangles)
}

#[test]
fn no_small_change_of_the_map_lowers_the_stretch() {
    let (positions, triangles) = cap();
    let map = unwrap(&rigid(&positions), &positions, &triangles, None, &rest_norm(1)).unwrap();
    assert_eq!(map.charts, 1);
    let least = stretch::percent(&positions, &triangles, &map.uvs);
    // A small cap: some hundredths of a percent, hundreds of times what f32 coordinates blur.
    assert!(least > 0.01, "{least} %: the cap cannot be flat");
    for direction in [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]] {
        for vertex in (0..positions.len() as u32).step_by(7) {
            let mut uvs = map.uvs.clone();
            // A twentieth of an edge: large against f32 and against how far the descent stops from the minimum.
            let moved = |uv: &mut [f32; 2]| (0..2).for_each(|k| uv[k] += 0.004 * direction[k]);
            let corners = triangles.as_flattened().iter().zip(uvs.as_flattened_mut());
            corners.filter(|(v, _)| **v == vertex).for_each(|(_, uv)| moved(uv));
            let found = stretch::percent(&positions, &triangles, &uvs);
            assert!(found > least, "vertex {vertex} moved by {direction:?}: {found} % below {least} %");
        }
    }
}
