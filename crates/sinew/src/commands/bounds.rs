//! `sinew bounds`: boxes and spheres for culling.

use std::path::PathBuf;

use glam::{Affine3A, Vec3};
use sinew_examples::{Examples, FrameSelection, Pose, Skeleton};
use sinew_fit::norm::ranges::RangesOfMotion;
use sinew_fit::range_bounds::over_ranges;
use sinew_runtime::bounds::{Aabb, BLOCK_SIZE, Bounds};
use sinew_runtime::{Evaluator, Model};

use crate::commands::unwrap;
use crate::{Outcome, load, output, skinned};

/// Poses within ranges of motion with which the bounds over them are compared.
const RANDOM_POSES: usize = 200;

/// Conservative boxes and spheres of a model, per bone and per block of vertices, for culling.
///
/// Without poses and ranges, the rest pose. Boxes over poses hold for those poses; boxes over ranges of motion hold for every
/// pose within them, in the root's rest frame. At run time `Evaluator::bounds` gives boxes for any pose.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sinew bounds arm.sinew --poses arm.npz --frames all --json bounds.json
  sinew bounds character.glb --ranges ranges.txt")]
pub struct Args {
    /// The model: linear blend, animation space or rotational regression, corrected or not; or a skinned .glb.
    model: PathBuf,
    /// Examples whose poses are to be bounded.
    #[arg(long, value_name = "EXAMPLES")]
    poses: Option<PathBuf>,
    /// Which of their frames.
    #[arg(long, default_value = "all", value_name = "FRAMES", requires = "poses")]
    frames: FrameSelection,
    /// Ranges of motion to be bounded: lines `BONE hinge X Y Z FROM TO` or `BONE cone X Y Z MOST`, in degrees.
    #[arg(long, value_name = "FILE")]
    ranges: Option<PathBuf>,
    /// Vertices a block at most.
    #[arg(long, default_value_t = BLOCK_SIZE, value_name = "N")]
    block_size: usize,
    /// Write the boxes and spheres as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Reads, bounds, tells how tight the bounds are.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    output::check_json(args.json.as_ref())?;
    let model = if skinned::is_skinned(&args.model) {
        skinned::model(&args.model)?
    } else {
        Model::read(&args.model).map_err(|error| load::named(&args.model, error))?
    };
    let bounds = Bounds::new(&model, args.block_size).map_err(|error| load::named(&args.model, error))?;
    let examples = args.poses.as_deref().map(load::examples).transpose()?;
    let poses = poses(&args, &model, examples.as_ref())?;
    let over = Over::new(&model, &bounds, &poses);
    let ranged = match &args.ranges {
        Some(path) => {
            let skeleton = unwrap::skeleton(&model)?;
            let ranges = unwrap::ranges(path, &skeleton)?;
            let boxes = over_ranges(&model, &bounds, &skeleton, &ranges)?;
            let reached = reached(&model, &bounds, &skeleton, &ranges);
            Some((boxes, reached))
        }
        None => None,
    };
    let whole = |boxes: &[Aabb]| boxes.iter().fold(Aabb::EMPTY, |all, &b| all.union(b));
    output::line(&format!(
        "{} blocks over {} poses: bounds {:.2} times the exact box of the character, {:.2} times those of the blocks (diagonals)",
        bounds.blocks.len(),
        poses.len(),
        over.character_ratio,
        over.block_ratio
    ))?;
    let tightness = ranged.as_ref().map(|(boxes, reached)| Tightness::new(boxes, reached));
    if let (Some((ranged, _)), Some(tightness)) = (&ranged, &tightness) {
        let all = whole(ranged);
        output::line(&format!("over the ranges of motion: {} to {} in the root's rest frame", all.low, all.high))?;
        output::line(&format!(
            "these are {:.2} times the box that {RANDOM_POSES} random poses within the ranges reach, {:.2} times those of the \
             blocks (diagonals; random poses reach few of the corners)",
            tightness.character, tightness.blocks
        ))?;
    }
    if let Some(path) = &args.json {
        let blocks: Vec<_> = (0..bounds.blocks.len())
            .map(|k| {
                let block = &bounds.blocks[k];
                let mut entry = boxed(over.boxes[k]);
                entry["bone"] = name(&model, block.terms[0].joint).into();
                entry["vertices"] = block.vertices.clone().into();
                if let Some((ranged, _)) = &ranged {
                    entry["ranges"] = boxed(ranged[k]);
                }
                entry
            })
            .collect();
        let value = serde_json::json!({
            "poses": poses.len(),
            "character": boxed(whole(&over.boxes)),
            "character_over_ranges": ranged.as_ref().map(|(ranged, _)| boxed(whole(ranged))),
            "bones": by_bone(&model, &bounds, &over.boxes),
            "blocks": blocks,
            "tightness": {"character_ratio": over.character_ratio, "block_ratio": over.block_ratio},
            "tightness_over_ranges": tightness.as_ref().map(|tightness| serde_json::json!({
                "random_poses": RANDOM_POSES,
                "character_ratio": tightness.character,
                "block_ratio": tightness.blocks,
            })),
        });
        output::json(path, &value)?;
    }
    Ok(Outcome::Done)
}

/// What a GLB says of its bounds: boxes and spheres of the character and its bones over `poses`, or over the rest pose if
/// there are none. Nothing for methods whose bounds are not known.
pub fn extras(model: &Model, poses: &[Pose]) -> Option<serde_json::Value> {
    let bounds = Bounds::new(model, BLOCK_SIZE).ok()?;
    let rest = || vec![model.character.bones.iter().map(|bone| bone.rest).collect()];
    let pose = |pose: &Pose| pose.globals.iter().map(|&g| sinew_fit::to_model::transform(g)).collect();
    let posed = if poses.is_empty() { rest() } else { poses.iter().map(pose).collect() };
    let over = Over::new(model, &bounds, &posed);
    let whole = over.boxes.iter().fold(Aabb::EMPTY, |all, &b| all.union(b));
    Some(serde_json::json!({
        "bounds": {"poses": posed.len(), "character": boxed(whole), "bones": by_bone(model, &bounds, &over.boxes)}
    }))
}

fn poses(args: &Args, model: &Model, examples: Option<&Examples>) -> anyhow::Result<Vec<Vec<Affine3A>>> {
    let Some(examples) = examples else {
        return Ok(vec![model.character.bones.iter().map(|bone| bone.rest).collect()]);
    };
    let (found, wanted) = (examples.skeleton().bone_count(), model.character.bones.len());
    anyhow::ensure!(found == wanted, "the examples have {found} bones, the model {wanted}");
    let frames = args.frames.resolve(examples.split(), examples.frame_count())?;
    let pose = |&e: &usize| examples.pose(e).globals.iter().map(|&g| sinew_fit::to_model::transform(g)).collect();
    Ok(frames.iter().map(pose).collect())
}

/// Blocks' boxes over poses, and how they compare with the exact ones.
struct Over {
    boxes: Vec<Aabb>,
    character_ratio: f64,
    block_ratio: f64,
}

impl Over {
    fn new(model: &Model, bounds: &Bounds, poses: &[Vec<Affine3A>]) -> Self {
        let mut evaluator = Evaluator::new(model);
        let mut positions = vec![[0.0; 3]; model.character.vertex_count()];
        let mut boxes = Vec::new();
        let mut over = vec![Aabb::EMPTY; bounds.blocks.len()];
        let (mut character, mut block, mut counted) = (0.0, 0.0, 0);
        for pose in poses {
            evaluator.positions(pose, &mut positions);
            evaluator.bounds(bounds, pose, &mut boxes);
            let all = boxes.iter().fold(Aabb::EMPTY, |all, &b| all.union(b));
            let exact_all = Aabb::around(positions.iter().map(|&p| Vec3::from(p)));
            character += f64::from(all.diagonal() / exact_all.diagonal().max(f32::MIN_POSITIVE));
            for ((over, bound), of) in over.iter_mut().zip(&boxes).zip(&bounds.blocks) {
                *over = over.union(*bound);
                let exact = Aabb::around(of.vertices.iter().map(|&v| Vec3::from(positions[v as usize])));
                // A block of one vertex has no size to compare with.
                if exact.diagonal() > 0.0 {
                    block += f64::from(bound.diagonal() / exact.diagonal());
                    counted += 1;
                }
            }
        }
        Self {
            boxes: over,
            character_ratio: character / poses.len().max(1) as f64,
            block_ratio: if counted > 0 { block / f64::from(counted) } else { 1.0 },
        }
    }
}

/// The boxes that the blocks reach in random poses within `ranges`, in the root's rest frame, (blocks). The same poses
/// every time.
fn reached(model: &Model, bounds: &Bounds, skeleton: &Skeleton, ranges: &RangesOfMotion) -> Vec<Aabb> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    // Knuth's linear congruential generator; its upper 53 bits.
    let mut unit = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut evaluator = Evaluator::new(model);
    let mut positions = vec![[0.0; 3]; model.character.vertex_count()];
    let mut reached = vec![Aabb::EMPTY; bounds.blocks.len()];
    for _ in 0..RANDOM_POSES {
        let globals = ranges.pose(skeleton, &mut unit);
        let pose: Vec<Affine3A> = globals.into_iter().map(sinew_fit::to_model::transform).collect();
        evaluator.positions(&pose, &mut positions);
        for (reached, block) in reached.iter_mut().zip(&bounds.blocks) {
            *reached = reached.union(Aabb::around(block.vertices.iter().map(|&v| Vec3::from(positions[v as usize]))));
        }
    }
    reached
}

/// How many times longer the boxes' diagonals are than those of what was reached.
struct Tightness {
    character: f64,
    /// The blocks' mean.
    blocks: f64,
}

impl Tightness {
    fn new(boxes: &[Aabb], reached: &[Aabb]) -> Self {
        let whole = |boxes: &[Aabb]| boxes.iter().fold(Aabb::EMPTY, |all, &b| all.union(b));
        let ratio = |bound: Aabb, exact: Aabb| f64::from(bound.diagonal() / exact.diagonal().max(f32::MIN_POSITIVE));
        // A block of one vertex that does not move has no size to compare with.
        let sized: Vec<f64> = boxes
            .iter()
            .zip(reached)
            .filter(|(_, reached)| reached.diagonal() > 0.0)
            .map(|(&bound, &reached)| ratio(bound, reached))
            .collect();
        Self {
            character: ratio(whole(boxes), whole(reached)),
            blocks: if sized.is_empty() { 1.0 } else { sized.iter().sum::<f64>() / sized.len() as f64 },
        }
    }
}

/// The union of the blocks of each heaviest joint.
fn by_bone(model: &Model, bounds: &Bounds, boxes: &[Aabb]) -> Vec<serde_json::Value> {
    let mut joints: std::collections::BTreeMap<usize, Aabb> = std::collections::BTreeMap::new();
    for (block, &own) in bounds.blocks.iter().zip(boxes) {
        let all = joints.entry(block.terms[0].joint).or_insert(Aabb::EMPTY);
        *all = all.union(own);
    }
    let entry = |(joint, all): (usize, Aabb)| {
        let mut entry = boxed(all);
        entry["bone"] = name(model, joint).into();
        entry
    };
    joints.into_iter().map(entry).collect()
}

/// The bone's name; a proxy bone of rotational regression is called by its number.
fn name(model: &Model, joint: usize) -> String {
    let proxies = match &model.deformer {
        sinew_runtime::Deformer::RotationalRegression(d) => d.proxy_count(),
        _ => 0,
    };
    match joint.checked_sub(proxies) {
        Some(bone) => model.character.bones[bone].name.clone(),
        None => format!("proxy {joint}"),
    }
}

fn boxed(bound: Aabb) -> serde_json::Value {
    let (centre, radius) = bound.sphere();
    serde_json::json!({
        "low": bound.low.to_array(),
        "high": bound.high.to_array(),
        "centre": centre.to_array(),
        "radius": radius,
    })
}
