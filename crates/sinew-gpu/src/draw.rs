//! Pictures of a posed mesh, drawn offscreen from the buffers that the passes filled.

use glam::{Mat4, Vec3, Vec4};

use crate::{Gpu, GpuError, GpuSkin, shaders};

/// Where the viewer stands: around `centre`, far enough to see a ball of `radius`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Camera {
    /// What is looked at.
    pub centre: Vec3,
    /// The ball that fits the picture, metres.
    pub radius: f32,
    /// About the vertical axis, radians; 0 looks along −z.
    pub yaw: f32,
    /// From above, radians.
    pub pitch: f32,
}

impl Camera {
    /// A camera that sees all of `points`, from the front, a little from the side and from above.
    #[must_use]
    pub fn around(points: impl IntoIterator<Item = [f32; 3]>) -> Self {
        let start = (Vec3::INFINITY, Vec3::NEG_INFINITY);
        let (low, high) =
            points.into_iter().map(Vec3::from_array).fold(start, |(low, high), p| (low.min(p), high.max(p)));
        let (low, high) = if low.is_finite() { (low, high) } else { (Vec3::ZERO, Vec3::ZERO) };
        Self { centre: 0.5 * (low + high), radius: (0.5 * (high - low).length()).max(1e-6), yaw: 0.6, pitch: 0.3 }
    }

    fn direction(&self) -> Vec3 {
        let (sin, cos) = self.yaw.sin_cos();
        Vec3::new(sin * self.pitch.cos(), self.pitch.sin(), cos * self.pitch.cos())
    }

    fn matrix(&self, aspect: f32) -> Mat4 {
        // 30° of view: a ball of radius r fits at distance r / sin 15°.
        let half = 15.0_f32.to_radians();
        let distance = self.radius / half.sin();
        let eye = self.centre + distance * self.direction();
        let view = look_at(eye, self.centre);
        let narrow = if aspect < 1.0 { 2.0 * (half.tan() / aspect).atan() } else { 2.0 * half };
        let (near, far) = (0.5 * (distance - self.radius), 2.0 * (distance + self.radius));
        perspective(narrow, aspect, near, far) * view
    }
}

/// From the world to the viewer, who looks along −z with +y up.
fn look_at(eye: Vec3, centre: Vec3) -> Mat4 {
    let back = (eye - centre).normalize_or(Vec3::Z);
    let right = Vec3::Y.cross(back).normalize_or(Vec3::X);
    let up = back.cross(right);
    let row = |axis: Vec3| axis.extend(-axis.dot(eye));
    Mat4::from_cols(row(right), row(up), row(back), Vec4::W).transpose()
}

/// From the viewer to clip space: depth 0 at `near`, 1 at `far`; `angle` is vertical, radians.
fn perspective(angle: f32, aspect: f32, near: f32, far: f32) -> Mat4 {
    let scale = 1.0 / (0.5 * angle).tan();
    let depth = far / (near - far);
    Mat4::from_cols(
        Vec4::new(scale / aspect, 0.0, 0.0, 0.0),
        Vec4::new(0.0, scale, 0.0, 0.0),
        Vec4::new(0.0, 0.0, depth, -1.0),
        Vec4::new(0.0, 0.0, near * depth, 0.0),
    )
}

/// Red, green, blue, alpha a pixel, row by row from the top.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// Pixels a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// (height, width, 4).
    pub pixels: Vec<u8>,
}

/// Draws the first instance of a skin.
pub struct Renderer {
    pipeline: wgpu::RenderPipeline,
    group: wgpu::BindGroup,
    view: wgpu::Buffer,
    colours: wgpu::Buffer,
    indices: wgpu::Buffer,
    index_count: u32,
    vertices: usize,
    target: wgpu::Texture,
    depth: wgpu::TextureView,
    staging: wgpu::Buffer,
    row_bytes: u32,
    size: [u32; 2],
}

const FORMAT: wgpu::TextureFormat = wgpu::TextureFormat::Rgba8UnormSrgb;
const DEPTH: wgpu::TextureFormat = wgpu::TextureFormat::Depth32Float;

impl Renderer {
    /// Prepares pictures of `width` × `height` pixels of a mesh with these triangles.
    pub fn new(
        gpu: &Gpu,
        vertices: usize,
        triangles: &[[u32; 3]],
        [width, height]: [u32; 2],
    ) -> Result<Self, GpuError> {
        let limits = gpu.device.limits();
        gpu.allow(
            "the picture (pixels a side)",
            u64::from(width.max(height)),
            u64::from(limits.max_texture_dimension_2d),
        )?;
        gpu.allow("the picture (no pixels)", u64::from(width == 0 || height == 0), 0)?;
        let indices_bytes = (12 * triangles.len() as u64).max(4);
        gpu.allow("the buffer of triangles (bytes)", indices_bytes, limits.max_buffer_size)?;
        let buffer = |label, size: u64, usage| {
            let usage = usage | wgpu::BufferUsages::COPY_DST;
            gpu.device.create_buffer(&wgpu::BufferDescriptor {
                label: Some(label),
                size,
                usage,
                mapped_at_creation: false,
            })
        };
        let indices = buffer("triangles", indices_bytes, wgpu::BufferUsages::INDEX);
        gpu.queue.write_buffer(&indices, 0, bytemuck::cast_slice(triangles));
        let colours = buffer("colours", 16 * vertices.max(1) as u64, wgpu::BufferUsages::VERTEX);
        let view = buffer("view", 80, wgpu::BufferUsages::UNIFORM);
        // Rows of a copy start at multiples of 256 bytes.
        let row_bytes = (4 * width).next_multiple_of(256);
        let staging = buffer("picture", u64::from(row_bytes) * u64::from(height), wgpu::BufferUsages::MAP_READ);
        let texture = |format, usage| {
            gpu.device.create_texture(&wgpu::TextureDescriptor {
                label: None,
                size: wgpu::Extent3d { width, height, depth_or_array_layers: 1 },
                mip_level_count: 1,
                sample_count: 1,
                dimension: wgpu::TextureDimension::D2,
                format,
                usage: usage | wgpu::TextureUsages::RENDER_ATTACHMENT,
                view_formats: &[],
            })
        };
        let target = texture(FORMAT, wgpu::TextureUsages::COPY_SRC);
        let depth = texture(DEPTH, wgpu::TextureUsages::empty()).create_view(&wgpu::TextureViewDescriptor::default());
        let pipeline = pipeline(gpu);
        let group = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &[wgpu::BindGroupEntry { binding: 0, resource: view.as_entire_binding() }],
        });
        let index_count = 3 * triangles.len() as u32;
        let size = [width, height];
        Ok(Self {
            pipeline,
            group,
            view,
            colours,
            indices,
            index_count,
            vertices,
            target,
            depth,
            staging,
            row_bytes,
            size,
        })
    }

    /// Draws the skin as it was last posed; `colours` (V) in linear light, 0 … 1.
    pub fn draw(&self, gpu: &Gpu, skin: &GpuSkin, camera: &Camera, colours: &[[f32; 3]]) -> Result<Picture, GpuError> {
        assert_eq!(colours.len(), self.vertices, "one colour a vertex");
        let [width, height] = self.size;
        let padded: Vec<[f32; 4]> = colours.iter().map(|&[r, g, b]| [r, g, b, 1.0]).collect();
        gpu.queue.write_buffer(&self.colours, 0, bytemuck::cast_slice(&padded));
        let light = (camera.direction() + Vec3::new(-0.4, 0.5, 0.0)).normalize_or(Vec3::Y);
        let mut view = camera.matrix(width as f32 / height as f32).to_cols_array().to_vec();
        view.extend([light.x, light.y, light.z, 0.0]);
        gpu.queue.write_buffer(&self.view, 0, bytemuck::cast_slice(&view));
        let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        self.encode(&mut encoder, skin);
        gpu.queue.submit([encoder.finish()]);
        let bytes = gpu.map(&self.staging, u64::from(self.row_bytes) * u64::from(height))?;
        self.staging.unmap();
        let rows = bytes.chunks_exact(self.row_bytes as usize);
        let pixels = rows.flat_map(|row| &row[..4 * width as usize]).copied().collect();
        Ok(Picture { width, height, pixels })
    }

    fn encode(&self, encoder: &mut wgpu::CommandEncoder, skin: &GpuSkin) {
        let target = self.target.create_view(&wgpu::TextureViewDescriptor::default());
        let mut pass = encoder.begin_render_pass(&wgpu::RenderPassDescriptor {
            label: Some("draw"),
            color_attachments: &[Some(wgpu::RenderPassColorAttachment {
                view: &target,
                depth_slice: None,
                resolve_target: None,
                ops: wgpu::Operations { load: wgpu::LoadOp::Clear(wgpu::Color::WHITE), store: wgpu::StoreOp::Store },
            })],
            depth_stencil_attachment: Some(wgpu::RenderPassDepthStencilAttachment {
                view: &self.depth,
                depth_ops: Some(wgpu::Operations { load: wgpu::LoadOp::Clear(1.0), store: wgpu::StoreOp::Discard }),
                stencil_ops: None,
            }),
            timestamp_writes: None,
            occlusion_query_set: None,
            multiview_mask: None,
        });
        let [positions, normals] = skin.buffers();
        pass.set_pipeline(&self.pipeline);
        pass.set_bind_group(0, &self.group, &[]);
        pass.set_vertex_buffer(0, positions.slice(..));
        pass.set_vertex_buffer(1, normals.slice(..));
        pass.set_vertex_buffer(2, self.colours.slice(..));
        pass.set_index_buffer(self.indices.slice(..), wgpu::IndexFormat::Uint32);
        pass.draw_indexed(0..self.index_count, 0, 0..1);
        drop(pass);
        encoder.copy_texture_to_buffer(
            self.target.as_image_copy(),
            wgpu::TexelCopyBufferInfo {
                buffer: &self.staging,
                layout: wgpu::TexelCopyBufferLayout {
                    offset: 0,
                    bytes_per_row: Some(self.row_bytes),
                    rows_per_image: None,
                },
            },
            self.target.size(),
        );
    }
}

fn pipeline(gpu: &Gpu) -> wgpu::RenderPipeline {
    let module = gpu.device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: Some("draw"),
        source: wgpu::ShaderSource::Wgsl(shaders::DRAW.into()),
    });
    const ATTRIBUTES: [[wgpu::VertexAttribute; 1]; 3] = [
        wgpu::vertex_attr_array![0 => Float32x4],
        wgpu::vertex_attr_array![1 => Float32x4],
        wgpu::vertex_attr_array![2 => Float32x4],
    ];
    let buffers = ATTRIBUTES.each_ref().map(|attributes| {
        Some(wgpu::VertexBufferLayout { array_stride: 16, step_mode: wgpu::VertexStepMode::Vertex, attributes })
    });
    gpu.device.create_render_pipeline(&wgpu::RenderPipelineDescriptor {
        label: Some("draw"),
        layout: None,
        vertex: wgpu::VertexState {
            module: &module,
            entry_point: Some("corner"),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            buffers: &buffers,
        },
        primitive: wgpu::PrimitiveState::default(),
        depth_stencil: Some(wgpu::DepthStencilState {
            format: DEPTH,
            depth_write_enabled: Some(true),
            depth_compare: Some(wgpu::CompareFunction::Less),
            stencil: wgpu::StencilState::default(),
            bias: wgpu::DepthBiasState::default(),
        }),
        multisample: wgpu::MultisampleState::default(),
        fragment: Some(wgpu::FragmentState {
            module: &module,
            entry_point: Some("shade"),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            targets: &[Some(FORMAT.into())],
        }),
        multiview_mask: None,
        cache: None,
    })
}
