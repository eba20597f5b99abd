//! What an engine does with a model: read it once, then pose it every frame without allocating.
//!
//!     cargo run --release -p sinew -- data arm -o arm.npz
//!     cargo run --release -p sinew -- fit arm.npz -o arm.sinew
//!     cargo run --release -p sinew --example run_a_model -- arm.sinew

use glam::{Affine3A, Quat, Vec3};
use sinew_runtime::{Evaluator, Model};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("give a .sinew file")?;
    let model = Model::read(path.as_ref())?;
    let bones = &model.character.bones;
    println!("{path}: {}, {} vertices, {} bones", model.metadata.method, model.character.vertex_count(), bones.len());

    let mut evaluator = Evaluator::new(&model);
    let mut positions = vec![[0.0_f32; 3]; model.character.vertex_count()];
    for frame in 0..5 {
        // A pose is one global transform a bone. Here the last bone turns about its own x axis.
        let mut pose: Vec<Affine3A> = bones.iter().map(|bone| bone.rest).collect();
        if let Some(last) = pose.last_mut() {
            *last *= Affine3A::from_quat(Quat::from_rotation_x(0.1 * frame as f32));
        }
        evaluator.positions(&pose, &mut positions);
        let highest = positions.iter().map(|&p| Vec3::from(p).y).fold(f32::NEG_INFINITY, f32::max);
        println!("frame {frame}: the highest vertex stands at {highest:.4} m");
    }
    Ok(())
}
