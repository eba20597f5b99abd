//! A learned skin on the GPU.
