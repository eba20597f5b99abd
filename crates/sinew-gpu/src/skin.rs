//! A model on the GPU: its data uploaded once, a few hundred numbers a frame, vertices and normals in buffers.

use glam::Affine3A;
use sinew_runtime::{Character, Deformer, Evaluator, Inputs, Model};

use crate::pass::Pass;
use crate::{Gpu, GpuError, shaders, tables};

/// How a model is put on the GPU.
#[derive(Debug, Clone, Copy)]
pub struct SkinOptions {
    /// Characters posed in one dispatch, at least 1. Default 1.
    pub instances: usize,
    /// Whether rotational regression's key gradients are predicted on the GPU too; then a frame uploads the bones alone.
    /// Other methods do not look at it. Default: no, for the processor predicts in microseconds.
    pub predict: bool,
}

impl Default for SkinOptions {
    fn default() -> Self {
        Self { instances: 1, predict: false }
    }
}

/// What pass `joints` keeps of a joint: 9 features and a rotation.
const JOINT_FLOATS: usize = 18;

/// A model ready to be posed many times, for a number of instances at once.
pub struct GpuSkin<'model> {
    evaluator: Evaluator<'model>,
    model: &'model Model,
    instances: usize,
    /// Whether the GPU predicts d(q).
    predict: bool,
    /// Up to the vertices of poses within the trained ranges.
    passes: Vec<Pass>,
    /// From there on beyond them.
    carry: Option<Carry>,
    /// What follows from the vertices' places.
    last_passes: Vec<Pass>,
    /// What the frame uploads: the pose for pass `proxies`, or the palette itself.
    pose: wgpu::Buffer,
    /// What pass `correction` uploads.
    correction: Option<wgpu::Buffer>,
    positions: wgpu::Buffer,
    normals: wgpu::Buffer,
    /// Reused from frame to frame.
    upload: Vec<[f32; 4]>,
    gradients: Vec<[f32; 4]>,
    excess_upload: Vec<[f32; 4]>,
    correction_upload: Vec<f32>,
}

/// Pass `carry` and what it uploads.
struct Carry {
    pass: Pass,
    /// X_b of every instance.
    excess: wgpu::Buffer,
}

impl Carry {
    /// Carries the `positions` of `instances` characters on.
    fn new(gpu: &Gpu, character: &Character, positions: &wgpu::Buffer, instances: usize) -> Result<Self, GpuError> {
        let (vertices, bones) = (character.vertex_count(), character.bones.len());
        let skin = sinew_runtime::smooth_skin(character);
        let words = gpu.buffer_with("the smoothed skin", &tables::carry(&skin))?;
        let bytes = 16 * (3 * bones * instances) as u64;
        let excess = gpu.buffer("the bones beyond the ranges", bytes, wgpu::BufferUsages::COPY_DST)?;
        let params = [vertices as u32, skin.width as u32, bones as u32, 0];
        let shader = (shaders::CARRY, "carry");
        let pass = Pass::new(gpu, shader, &params, [&words, &excess, positions], (vertices, instances))?;
        Ok(Self { pass, excess })
    }
}

impl<'model> GpuSkin<'model> {
    /// Uploads `model` for `instances` characters.
    pub fn new(gpu: &Gpu, model: &'model Model, instances: usize) -> Result<Self, GpuError> {
        Self::with(gpu, model, SkinOptions { instances, ..SkinOptions::default() })
    }

    /// Uploads `model` as `options` say.
    pub fn with(gpu: &Gpu, model: &'model Model, options: SkinOptions) -> Result<Self, GpuError> {
        let character = &model.character;
        let (vertices, instances) = (character.vertex_count(), options.instances.max(1));
        let copied = wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::VERTEX;
        let room = 16 * (vertices * instances) as u64;
        let positions = gpu.buffer("positions", room, copied)?;
        let normals = gpu.buffer("normals", room, copied)?;
        let palette_vectors = palette_vectors(model);
        let palette_bytes = 16 * (palette_vectors * instances) as u64;
        let palette = gpu.buffer("the palette", palette_bytes, wgpu::BufferUsages::COPY_DST)?;
        let mut passes = Vec::new();
        let pose = match &model.deformer {
            Deformer::RotationalRegression(d) => {
                let (size, count) = (pose_vectors(model), d.proxy_count());
                let gradients = (size * instances) as u32;
                let bytes = 16 * ((size + 3 * count) * instances) as u64;
                let pose = gpu.buffer("the pose", bytes, wgpu::BufferUsages::COPY_DST)?;
                if options.predict {
                    let (params, tables) = tables::predict(d, character, size as u32, gradients);
                    let tables = gpu.buffer_with("the predictors", &tables)?;
                    let bones = character.bones.len();
                    let bytes = 4 * (JOINT_FLOATS * bones * instances) as u64;
                    let joints = gpu.buffer("the joint rotations", bytes, wgpu::BufferUsages::empty())?;
                    for (entry, threads) in [("joints", bones), ("predict", count)] {
                        let (shader, threads) = ((shaders::PREDICT, entry), (threads, instances));
                        passes.push(Pass::new(gpu, shader, &params, [&tables, &pose, &joints], threads)?);
                    }
                }
                let (params, blocks) = tables::proxies(d, character, has_deltas(model), gradients);
                let blocks = gpu.buffer_with("the proxy blocks", &blocks)?;
                let threads = (d.proxy_count() + character.bones.len(), instances);
                passes.push(Pass::new(
                    gpu,
                    (shaders::PROXIES, "proxies"),
                    &params,
                    [&blocks, &pose, &palette],
                    threads,
                )?);
                pose
            }
            _ => palette.clone(),
        };
        let table = tables::skin(model)?;
        let words = gpu.buffer_with("the skin", &table.words)?;
        let params = [vertices as u32, table.width as u32, palette_vectors as u32, 0];
        let threads = (vertices, instances);
        passes.push(Pass::new(gpu, (shaders::SKIN, table.entry), &params, [&words, &palette, &positions], threads)?);
        let carry = match &model.deformer {
            Deformer::RotationalRegression(d) if !d.points.is_empty() => {
                Some(Carry::new(gpu, character, &positions, instances)?)
            }
            _ => None,
        };
        let mut last_passes = Vec::new();
        let mut correction = None;
        if let Some(c) = model.vertex_correction() {
            let (words, parts) = tables::correction(c, vertices);
            let words = gpu.buffer_with("the correction", &words)?;
            let weights = c.mixing.iter().map(|m| m.len() / c.space.poses.max(1)).sum::<usize>();
            let params = [vertices as u32, weights as u32, character.bones.len() as u32, parts];
            let bytes = 4 * ((weights + 9 * character.bones.len()) * instances) as u64;
            let inputs = gpu.buffer("the correction's weights", bytes, wgpu::BufferUsages::COPY_DST)?;
            let shader = (shaders::CORRECTION, "correction");
            last_passes.push(Pass::new(gpu, shader, &params, [&words, &inputs, &positions], threads)?);
            correction = Some(inputs);
        }
        let ring = gpu.buffer_with("the one-rings", &tables::ring(vertices, &character.triangles))?;
        let params = [vertices as u32, 0, 0, 0];
        let shader = (shaders::NORMALS, "normals_of");
        last_passes.push(Pass::new(gpu, shader, &params, [&ring, &positions, &normals], threads)?);
        Ok(Self {
            evaluator: Evaluator::new(model),
            model,
            instances,
            predict: options.predict,
            passes,
            carry,
            last_passes,
            pose,
            correction,
            positions,
            normals,
            upload: Vec::new(),
            gradients: Vec::new(),
            excess_upload: Vec::new(),
            correction_upload: Vec::new(),
        })
    }

    /// Poses every instance: `poses` is (N, J), global bone transforms. Positions and normals stay on the GPU.
    pub fn pose(&mut self, gpu: &Gpu, poses: &[Affine3A]) -> Result<(), GpuError> {
        let bones = self.model.character.bones.len();
        if poses.len() != self.instances * bones {
            return Err(GpuError::Pose { found: poses.len(), instances: self.instances, bones });
        }
        self.upload.clear();
        self.gradients.clear();
        self.excess_upload.clear();
        self.correction_upload.clear();
        let mut beyond = false;
        for (instance, pose) in poses.chunks_exact(bones).enumerate() {
            let inputs = if self.predict { self.evaluator.pose_only(pose) } else { self.evaluator.inputs(pose) };
            let first = self.upload.len();
            push_pose(self.model, &inputs, &mut self.upload);
            inputs.gradients.iter().for_each(|d| self.gradients.extend(tables::columns(d)));
            if self.predict && !inputs.gradients.is_empty() {
                // Beyond the trained ranges: what the GPU would predict is there already, behind all poses.
                self.upload[first][3] = 1.0;
                let place = pose_vectors(self.model) * self.instances + self.gradients.len() * instance;
                gpu.queue.write_buffer(&self.pose, 16 * place as u64, bytemuck::cast_slice(&self.gradients));
                self.gradients.clear();
            }
            if self.carry.is_some() {
                beyond |= !inputs.excess.is_empty();
                push_excess(&inputs, &mut self.excess_upload);
            }
            if self.correction.is_some() {
                push_correction(&inputs, &mut self.correction_upload);
            }
        }
        // Gradients of all instances stand behind their poses.
        self.upload.append(&mut self.gradients);
        gpu.queue.write_buffer(&self.pose, 0, bytemuck::cast_slice(&self.upload));
        let carry = self.carry.as_ref().filter(|_| beyond);
        if let Some(carry) = carry {
            gpu.queue.write_buffer(&carry.excess, 0, bytemuck::cast_slice(&self.excess_upload));
        }
        if let Some(buffer) = &self.correction {
            gpu.queue.write_buffer(buffer, 0, bytemuck::cast_slice(&self.correction_upload));
        }
        let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        for pass in self.passes.iter().chain(carry.map(|carry| &carry.pass)).chain(&self.last_passes) {
            pass.encode(&mut encoder);
        }
        gpu.queue.submit([encoder.finish()]);
        Ok(())
    }

    /// The posed vertices, (N, V).
    pub fn read_positions(&self, gpu: &Gpu) -> Result<Vec<[f32; 3]>, GpuError> {
        self.read(gpu, &self.positions)
    }

    /// The normals, (N, V).
    pub fn read_normals(&self, gpu: &Gpu) -> Result<Vec<[f32; 3]>, GpuError> {
        self.read(gpu, &self.normals)
    }

    /// The buffers of positions and normals, (N, V) vectors of four floats, for passes of your own.
    #[must_use]
    pub fn buffers(&self) -> [&wgpu::Buffer; 2] {
        [&self.positions, &self.normals]
    }

    fn read(&self, gpu: &Gpu, buffer: &wgpu::Buffer) -> Result<Vec<[f32; 3]>, GpuError> {
        let count = self.instances * self.model.character.vertex_count();
        let bytes = gpu.read(buffer, 16 * count as u64)?;
        let vectors: Vec<[f32; 4]> = bytemuck::pod_collect_to_vec(&bytes);
        Ok(vectors.into_iter().take(count).map(|[x, y, z, _]| [x, y, z]).collect())
    }
}

fn has_deltas(model: &Model) -> bool {
    model.proxy_correction().is_some()
}

/// Vectors of the palette an instance.
fn palette_vectors(model: &Model) -> usize {
    let bones = model.character.bones.len();
    match &model.deformer {
        Deformer::RotationalRegression(d) => 3 * (d.proxy_count() + bones),
        Deformer::HalfWay(d) => 3 * (d.extras.len() + bones),
        Deformer::MultiWeight(_) => 3 * bones + 3,
        Deformer::DualQuaternion(_) => 2 * bones + 3,
        _ => 3 * bones,
    }
}

/// Vectors of the pose an instance, for pass `proxies`, without the gradients.
fn pose_vectors(model: &Model) -> usize {
    let bones = model.character.bones.len();
    match &model.deformer {
        Deformer::RotationalRegression(d) => 4 + 4 * bones + if has_deltas(model) { 4 * d.proxy_count() } else { 0 },
        _ => 0,
    }
}

/// One instance of what the first pass reads.
fn push_pose(model: &Model, inputs: &Inputs, upload: &mut Vec<[f32; 4]>) {
    let push_columns = |t: &Affine3A, upload: &mut Vec<[f32; 4]>| {
        upload.extend(tables::columns(&t.matrix3));
        upload.push([t.translation.x, t.translation.y, t.translation.z, 0.0]);
    };
    let push_rows = |t: Affine3A, upload: &mut Vec<[f32; 4]>| upload.extend(tables::rows(t));
    match &model.deformer {
        Deformer::RotationalRegression(_) => {
            push_columns(&inputs.frame, upload);
            inputs.relative.iter().for_each(|q| push_columns(q, upload));
            inputs.proxy_deltas.iter().for_each(|delta| push_columns(delta, upload));
        }
        Deformer::HalfWay(_) => inputs.palette.iter().for_each(|&t| push_rows(t, upload)),
        Deformer::MultiWeight(_) => {
            inputs.relative.iter().for_each(|&t| push_rows(t, upload));
            push_rows(inputs.frame, upload);
        }
        Deformer::DualQuaternion(_) => {
            inputs.duals().for_each(|dual| upload.extend(dual));
            push_rows(inputs.frame, upload);
        }
        _ => inputs.world.iter().for_each(|&t| push_rows(t, upload)),
    }
}

/// One instance of what pass `carry` reads.
fn push_excess(inputs: &Inputs, upload: &mut Vec<[f32; 4]>) {
    if inputs.excess.is_empty() {
        let still = tables::rows(Affine3A::IDENTITY);
        inputs.world.iter().for_each(|_| upload.extend(still));
    }
    inputs.excess.iter().for_each(|&x| upload.extend(tables::rows(x)));
}

/// One instance of what pass `correction` reads.
fn push_correction(inputs: &Inputs, upload: &mut Vec<f32>) {
    upload.extend(inputs.component_weights);
    for b in 0..inputs.relative.len() {
        upload.extend(inputs.rotation(b).to_cols_array());
    }
}
