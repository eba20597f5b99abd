//! A perspective camera that finds its own place.

use glam::{DMat3, DVec3};

/// How wide the larger side of the picture sees, as the tangent of half the angle: 12°, a portrait lens, so that shapes
/// at the edge are not stretched.
const HALF_FIELD: f64 = 0.21;

/// How much of the picture is left free on each side.
const MARGIN: f64 = 0.04;

/// A place to look from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Camera {
    /// World to camera: +X right, +Y up, +Z towards the viewer.
    rotation: DMat3,
    /// The point that is looked at.
    target: DVec3,
    /// From the target to the viewer.
    distance: f64,
    /// Width over height of the picture it was made for.
    aspect: f64,
}

impl Camera {
    /// A camera that sees all of `meshes`, from `yaw` degrees right of the front (+Z) and `pitch` degrees above, for
    /// pictures of the given aspect (width over height). Meshes that share a camera can be compared.
    #[must_use]
    pub fn around(meshes: &[&[DVec3]], yaw: f64, pitch: f64, aspect: f64) -> Self {
        let rotation = DMat3::from_rotation_x(pitch.to_radians()) * DMat3::from_rotation_y(-yaw.to_radians());
        let points = || meshes.iter().copied().flatten().map(|&p| rotation * p);
        let start = (DVec3::INFINITY, DVec3::NEG_INFINITY);
        let (low, high) = points().fold(start, |(low, high), p| (low.min(p), high.max(p)));
        if !(low.is_finite() && high.is_finite()) {
            return Self { rotation, target: DVec3::ZERO, distance: 1.0, aspect };
        }
        let middle = (low + high) / 2.0;
        let (right, up) = Self::fields(aspect);
        // A point at (x, y, z) from the target is inside if |x| ≤ right (distance − z), and so for y.
        let needed = |p: DVec3| {
            let p = p - middle;
            p.z + (p.x.abs() / right).max(p.y.abs() / up) / (1.0 - 2.0 * MARGIN)
        };
        let distance = points().map(needed).fold(1e-9, f64::max);
        Self { rotation, target: rotation.transpose() * middle, distance, aspect }
    }

    /// Half the view's width and height at distance one.
    fn fields(aspect: f64) -> (f64, f64) {
        if aspect >= 1.0 { (HALF_FIELD, HALF_FIELD / aspect) } else { (HALF_FIELD * aspect, HALF_FIELD) }
    }

    /// Pixel coordinates (right, down) and nearness of a world point, larger is nearer, in a picture of this size.
    pub(crate) fn project(&self, point: DVec3, width: f64, height: f64) -> DVec3 {
        let p = self.rotation * (point - self.target);
        let (right, up) = Self::fields(self.aspect);
        let near = 1.0 / (self.distance - p.z).max(1e-6 * self.distance);
        DVec3::new(0.5 * width * (1.0 + p.x * near / right), 0.5 * height * (1.0 - p.y * near / up), near)
    }

    /// A world direction as the camera sees it.
    pub(crate) fn turn(&self, direction: DVec3) -> DVec3 {
        self.rotation * direction
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_in_the_picture_and_fills_it() {
        let points = [DVec3::new(-1.0, 0.0, 0.3), DVec3::new(5.0, 1.0, -2.0), DVec3::new(0.0, 3.0, 1.0)];
        for (yaw, pitch, aspect) in [(0.0, 0.0, 1.0), (40.0, 20.0, 1.5), (-120.0, 60.0, 0.7)] {
            let camera = Camera::around(&[&points], yaw, pitch, aspect);
            let (width, height) = (300.0 * aspect, 300.0);
            let projected = points.map(|p| camera.project(p, width, height));
            assert!(projected.iter().all(|p| (0.0..=width).contains(&p.x) && (0.0..=height).contains(&p.y)));
            let wide = projected.iter().map(|p| (p.x / width - 0.5).abs().max((p.y / height - 0.5).abs()));
            // Some point reaches the margin: half the picture less 4 %, up to rounding.
            assert!((wide.fold(0.0, f64::max) - 0.46).abs() < 1e-9);
        }
    }
}
