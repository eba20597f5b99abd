//! One compute pass: a shader, its parameters and three storage buffers.

use crate::{Gpu, GpuError};

/// Threads a workgroup in every shader.
const WORKGROUP: u32 = 64;

/// A pipeline with its buffers bound.
pub(crate) struct Pass {
    pipeline: wgpu::ComputePipeline,
    group: wgpu::BindGroup,
    workgroups: [u32; 2],
}

impl Pass {
    /// Runs `entry` of `source` over `threads` × `instances`; `params` is its uniform, `buffers` its bindings 1, 2, 3.
    pub fn new(
        gpu: &Gpu,
        (source, entry): (&str, &str),
        params: &[u32],
        buffers: [&wgpu::Buffer; 3],
        (threads, instances): (usize, usize),
    ) -> Result<Self, GpuError> {
        let workgroups = [(threads as u32).div_ceil(WORKGROUP), instances as u32];
        let allowed = u64::from(gpu.device.limits().max_compute_workgroups_per_dimension);
        gpu.allow(&format!("the pass `{entry}` (workgroups)"), u64::from(workgroups[0].max(workgroups[1])), allowed)?;
        let module = gpu.device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: Some(entry),
            source: wgpu::ShaderSource::Wgsl(source.into()),
        });
        let pipeline = gpu.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(entry),
            layout: None,
            module: &module,
            entry_point: Some(entry),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        let uniform = gpu.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("parameters"),
            size: 4 * params.len() as u64,
            usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        gpu.queue.write_buffer(&uniform, 0, bytemuck::cast_slice(params));
        let bound = [&uniform, buffers[0], buffers[1], buffers[2]];
        let entries: Vec<wgpu::BindGroupEntry> = bound
            .iter()
            .enumerate()
            .map(|(binding, buffer)| wgpu::BindGroupEntry {
                binding: binding as u32,
                resource: buffer.as_entire_binding(),
            })
            .collect();
        let layout = pipeline.get_bind_group_layout(0);
        let group = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some(entry),
            layout: &layout,
            entries: &entries,
        });
        Ok(Self { pipeline, group, workgroups })
    }

    /// Adds the pass to `encoder`.
    pub fn encode(&self, encoder: &mut wgpu::CommandEncoder) {
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&self.pipeline);
        pass.set_bind_group(0, &self.group, &[]);
        pass.dispatch_workgroups(self.workgroups[0], self.workgroups[1], 1);
    }
}
