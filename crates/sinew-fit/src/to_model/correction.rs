//! Corrections in f32.

use sinew_runtime::{KernelRegion, PoseSpace};

use crate::correct::kernel::Kernel;
use crate::correct::poses::PoseTable;

/// The example poses and kernels over them.
pub fn pose_space<'a>(table: &PoseTable, kernels: impl Iterator<Item = &'a Kernel>) -> PoseSpace {
    let kernels: Vec<&Kernel> = kernels.collect();
    // ν looks at every joint.
    let peaks = kernels.iter().any(|kernel| kernel.peak > 0.0);
    let used: Vec<usize> = (0..table.joints.len())
        .filter(|c| peaks || kernels.iter().any(|kernel| kernel.joints.iter().any(|(joint, _)| joint == c)))
        .collect();
    let axis = |c: usize, k: usize| table.rotations[c].iter().map(move |q| q.to_array()[k] as f32);
    let region = |kernel: &&Kernel| KernelRegion {
        joints: kernel
            .joints
            .iter()
            .map(|&(c, width)| (used.partition_point(|&u| u < c) as u16, (0.5 / (width * width)) as f32))
            .collect(),
        constant: kernel.constant as f32,
        product: if kernel.joints.is_empty() { 0.0 } else { kernel.product as f32 },
        additive: if kernel.joints.is_empty() { 0.0 } else { kernel.additive as f32 },
        peak: kernel.peak as f32,
    };
    PoseSpace {
        poses: table.poses,
        joints: used
            .iter()
            .map(|&c| u16::try_from(table.joints[c]).expect("a model has at most 65,536 joints"))
            .collect(),
        rotations: used.iter().flat_map(|&c| (0..4).flat_map(move |k| axis(c, k))).collect(),
        fade: used.iter().map(|&c| table.fade(c).map(|squared| squared as f32)).collect(),
        peak_rate: table.peak_rate() as f32,
        regions: kernels.iter().map(region).collect(),
    }
}
