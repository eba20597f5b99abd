//! What the benches of fitting share: a synthetic character of any size, and time and memory of a fit.

use std::time::Instant;

use cpu_time::ProcessTime;
use glam::{DAffine3, DQuat, DVec3};
use sinew_examples::{Bone, Examples, ExamplesParts, Mesh, Pose};
use sinew_fit::{Method, Quiet, Training, fit};

/// The training poses of `examples`.
pub fn training(examples: Examples) -> Training {
    let train = examples.split().train.clone();
    Training::new(&examples, &train).expect("sound examples")
}

/// Fits and prints what it took; returns the CPU seconds, which a busy machine disturbs least.
pub fn run(name: &str, training: &Training, method: &Method) -> f64 {
    let (start, cpu) = (Instant::now(), ProcessTime::now());
    let fitted = fit(training, method, &Quiet).expect("a model");
    let seconds = cpu.elapsed().as_secs_f64();
    println!(
        "{name} {}: {} vertices, {} bones, {} poses: {:.1} s, {seconds:.1} CPU s, peak {:.2} GB, {:?}",
        method.name(),
        training.vertex_count(),
        training.bone_count(),
        training.pose_count(),
        start.elapsed().as_secs_f64(),
        peak_memory(),
        fitted.report.findings.iter().filter(|(_, words)| words.len() < 40).collect::<Vec<_>>()
    );
    seconds
}

/// The largest memory that the process ever held, in GB; 0 where the system does not say.
fn peak_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(0.0) / 1e6
}

/// A snake of `bones` bones, bent and twisted by smooth waves, whose skin bulges where it bends. With `painted` above
/// zero every vertex has that many painted bones.
pub fn synthetic(vertices: usize, bones: usize, poses: usize, painted: usize) -> Examples {
    let around = 50;
    let rings = vertices / around;
    let length = bones as f64;
    let along = |v: usize| length * ((v / around) as f64 + 0.5) / rings as f64;
    let rest: Vec<DVec3> = (0..rings * around)
        .map(|v| {
            let angle = std::f64::consts::TAU * (v % around) as f64 / around as f64;
            DVec3::new(along(v), 0.4 * angle.cos(), 0.4 * angle.sin())
        })
        .collect();
    let mut triangles = Vec::new();
    for ring in 0..rings - 1 {
        for k in 0..around {
            let corner = |r: usize, k: usize| (r * around + k % around) as u32;
            let [a, b, c, d] = [corner(ring, k), corner(ring + 1, k), corner(ring + 1, k + 1), corner(ring, k + 1)];
            triangles.extend([[a, b, c], [a, c, d]]);
        }
    }
    let rest_bone = |b: usize| DAffine3::from_translation(DVec3::X * b as f64);
    let bend =
        |e: usize, b: usize, axis: f64| 0.35 * (0.37 * e as f64 * (1.0 + 0.1 * axis) + 0.9 * b as f64 + axis).sin();
    let pose = |e: usize| {
        let mut globals = vec![DAffine3::IDENTITY];
        for b in 1..bones {
            let turn = DQuat::from_euler(glam::EulerRot::ZYX, bend(e, b, 0.0), bend(e, b, 1.0), bend(e, b, 2.0));
            globals.push(globals[b - 1] * DAffine3::from_rotation_translation(turn, DVec3::X));
        }
        Pose { globals }
    };
    let poses: Vec<Pose> = (0..poses).map(pose).collect();
    let frame = |e: usize| {
        let place = |v: usize| {
            let x = along(v);
            let b = (x as usize).min(bones - 1);
            let t = x - b as f64;
            let near = |b: usize| {
                let bulge = 1.0 + 0.3 * (bend(e, b, 0.0) * (t - 0.5)).sin();
                let carried = (poses[e].globals[b] * rest_bone(b).inverse()).transform_point3(rest[v]);
                let axis = (poses[e].globals[b] * rest_bone(b).inverse()).transform_point3(DVec3::X * x);
                axis + (carried - axis) * bulge
            };
            near(b).lerp(near((b + 1).min(bones - 1)), (t - 0.5).max(0.0))
        };
        (0..rest.len()).map(place).collect()
    };
    let influences = (painted > 0).then(|| {
        let row = |v: usize| {
            let reach = painted as f64 / 2.0;
            let first = ((along(v) - reach).round().max(0.0) as usize).min(bones - painted);
            let value = |b: usize| {
                let gap = (along(v) - b as f64 - 0.5) / reach;
                if (first..first + painted).contains(&b) { (-gap * gap).exp() as f32 } else { 0.0 }
            };
            (0..bones).map(value).collect::<Vec<f32>>()
        };
        (0..rest.len()).flat_map(row).collect()
    });
    let bone = |b: usize| Bone { name: format!("bone{b}"), parent: b.checked_sub(1), rest: rest_bone(b) };
    Examples::new(ExamplesParts {
        mesh: Mesh::new(rest.clone(), triangles, None, None).expect("a sound mesh"),
        bones: (0..bones).map(bone).collect(),
        frames: (0..poses.len()).map(frame).collect(),
        poses: poses.clone(),
        split: None,
        influences,
        pose_weights: None,
        fps: None,
    })
    .expect("sound examples")
}
