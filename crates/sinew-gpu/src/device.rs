//! A device to run on.

use thiserror::Error;

/// Which graphics interface to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// The best there is.
    Any,
    /// Vulkan.
    Vulkan,
    /// OpenGL or OpenGL ES, the fallback.
    Gl,
}

/// Why the GPU cannot do it.
#[derive(Debug, Error)]
pub enum GpuError {
    /// No adapter answers.
    #[error(
        "no graphics adapter was found for {backend:?} ({reason}); install a driver (Mesa's lavapipe runs without a graphics card)"
    )]
    NoAdapter {
        /// What was asked for.
        backend: Backend,
        /// What the system said.
        reason: String,
    },
    /// The adapter gives no device.
    #[error("the graphics adapter {adapter} gives no device: {reason}")]
    NoDevice {
        /// The adapter's name.
        adapter: String,
        /// What the system said.
        reason: String,
    },
    /// The model needs more than the device has.
    #[error("{what} needs {needed}, the device {adapter} allows {allowed}; use fewer instances or the CPU")]
    Limit {
        /// The buffer or dispatch.
        what: String,
        /// What it needs.
        needed: u64,
        /// What there is.
        allowed: u64,
        /// The adapter's name.
        adapter: String,
    },
    /// The method has no GPU passes.
    #[error("the method `{0}` has no GPU passes; evaluate it on the CPU")]
    Unsupported(String),
    /// The poses do not fit.
    #[error("{found} bone transforms were given; {instances} instances of {bones} bones need {}", instances * bones)]
    Pose {
        /// Transforms given.
        found: usize,
        /// Instances.
        instances: usize,
        /// Bones of the model.
        bones: usize,
    },
    /// The device stopped working.
    #[error("the graphics device failed: {0}")]
    Device(String),
}

/// A device and its queue.
pub struct Gpu {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    name: String,
}

impl Gpu {
    /// Opens the first adapter that `backend` has, with all its limits.
    pub fn new(backend: Backend) -> Result<Self, GpuError> {
        let best = wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12;
        match backend {
            // OpenGL only if there is nothing else: looking for it wakes the window system, and Mesa's driver complains on
            // stderr where there is none.
            Backend::Any => Self::open(backend, best).or_else(|_| Self::open(backend, wgpu::Backends::GL)),
            Backend::Vulkan => Self::open(backend, wgpu::Backends::VULKAN),
            Backend::Gl => Self::open(backend, wgpu::Backends::GL),
        }
    }

    fn open(backend: Backend, backends: wgpu::Backends) -> Result<Self, GpuError> {
        let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
        descriptor.backends = backends;
        let instance = wgpu::Instance::new(descriptor);
        let adapter = pollster::block_on(instance.request_adapter(&wgpu::RequestAdapterOptions::default()))
            .map_err(|error| GpuError::NoAdapter { backend, reason: error.to_string() })?;
        let info = adapter.get_info();
        let name = format!("{} ({:?})", info.name, info.backend);
        let descriptor = wgpu::DeviceDescriptor { required_limits: adapter.limits(), ..Default::default() };
        let (device, queue) = pollster::block_on(adapter.request_device(&descriptor))
            .map_err(|error| GpuError::NoDevice { adapter: name.clone(), reason: error.to_string() })?;
        Ok(Self { device, queue, name })
    }

    /// The adapter's name and interface.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Refuses more than the device allows.
    pub(crate) fn allow(&self, what: &str, needed: u64, allowed: u64) -> Result<(), GpuError> {
        if needed <= allowed {
            return Ok(());
        }
        Err(GpuError::Limit { what: what.into(), needed, allowed, adapter: self.name.clone() })
    }

    /// A storage buffer of `bytes`, within the device's limits.
    pub(crate) fn buffer(&self, what: &str, bytes: u64, usage: wgpu::BufferUsages) -> Result<wgpu::Buffer, GpuError> {
        let limits = self.device.limits();
        let allowed = limits.max_buffer_size.min(limits.max_storage_buffer_binding_size);
        // A binding is never empty.
        let size = bytes.max(16).next_multiple_of(16);
        self.allow(&format!("the buffer of {what} (bytes)"), size, allowed)?;
        let usage = usage | wgpu::BufferUsages::STORAGE;
        Ok(self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some(what),
            size,
            usage,
            mapped_at_creation: false,
        }))
    }

    /// A storage buffer that holds `words`.
    pub(crate) fn buffer_with(&self, what: &str, words: &[u32]) -> Result<wgpu::Buffer, GpuError> {
        let buffer = self.buffer(what, 4 * words.len() as u64, wgpu::BufferUsages::COPY_DST)?;
        self.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(words));
        Ok(buffer)
    }

    /// Copies a buffer of `bytes` back.
    pub(crate) fn read(&self, buffer: &wgpu::Buffer, bytes: u64) -> Result<Vec<u8>, GpuError> {
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let descriptor =
            wgpu::BufferDescriptor { label: Some("read back"), size: bytes.max(16), usage, mapped_at_creation: false };
        let staging = self.device.create_buffer(&descriptor);
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.copy_buffer_to_buffer(buffer, 0, &staging, 0, bytes);
        self.queue.submit([encoder.finish()]);
        self.map(&staging, bytes)
    }

    /// The content of a mappable buffer, once all work is done.
    pub(crate) fn map(&self, staging: &wgpu::Buffer, bytes: u64) -> Result<Vec<u8>, GpuError> {
        let failed = |error: &dyn std::fmt::Display| GpuError::Device(error.to_string());
        let (sender, receiver) = std::sync::mpsc::channel();
        staging.map_async(wgpu::MapMode::Read, 0..bytes, move |result| {
            // The receiver waits below; if it has gone there is nobody to tell.
            let _ = sender.send(result);
        });
        self.device
            .poll(wgpu::PollType::Wait { submission_index: None, timeout: None })
            .map_err(|error| failed(&error))?;
        receiver.recv().map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
        let view = staging.get_mapped_range(0..bytes).map_err(|error| failed(&error))?;
        Ok(view.to_vec())
    }
}
