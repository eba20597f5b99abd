//! What the tests on the GPU share.

use glam::Quat;
use sinew_gpu::{Backend, Gpu};
use sinew_runtime::{KernelRegion, PoseSpace};

/// A device, or a notice that there is none; in continuous integration there must be one.
pub fn gpu(backend: Backend) -> Option<Gpu> {
    match Gpu::new(backend) {
        Ok(gpu) => Some(gpu),
        Err(error) if std::env::var_os("CI").is_some() => panic!("{error}"),
        Err(error) => {
            eprintln!("SKIPPED: {error}");
            None
        }
    }
}

/// Two example poses and two regions, each with a joint of its own.
pub fn pose_space() -> PoseSpace {
    let (constant, product, additive, peak) = (0.1, 0.6, 0.3, 0.0);
    let region = |joint: u16| KernelRegion { joints: vec![(joint, 0.5)], constant, product, additive, peak };
    let turns = [Quat::IDENTITY, Quat::from_rotation_x(0.4)];
    let rotations = [0, 1].map(|_| [0, 1, 2, 3].map(|k| turns.map(|q| q.to_array()[k])));
    PoseSpace {
        poses: 2,
        joints: vec![2, 3],
        rotations: rotations.as_flattened().as_flattened().to_vec(),
        fade: vec![[50.0, 100.0]; 2],
        peak_rate: 1.0,
        regions: vec![region(0), region(1)],
    }
}
