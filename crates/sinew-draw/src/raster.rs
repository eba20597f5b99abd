//! Triangles to pixels: a depth buffer, smooth shading, several samples a pixel.

use glam::DVec3;

use crate::{Camera, Image};

/// A mesh to draw.
#[derive(Debug, Clone, Copy)]
pub struct Surface<'a> {
    /// Positions, (V).
    pub positions: &'a [DVec3],
    /// Triangles, (F).
    pub triangles: &'a [[u32; 3]],
    /// sRGB a vertex, 0 to 1, (V); without it, clay.
    pub colours: Option<&'a [[f64; 3]]>,
}

/// Size and quality of a picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Picture {
    /// Pixels across.
    pub width: usize,
    /// Pixels down.
    pub height: usize,
    /// Samples a pixel along each side, 1 to 4; 3 hides the steps of an edge.
    pub samples: usize,
    /// What is behind the mesh; transparent by default, so that a page's own background shows.
    pub background: [u8; 4],
}

impl Default for Picture {
    fn default() -> Self {
        Self { width: 480, height: 360, samples: 3, background: [0; 4] }
    }
}

/// The colour of a surface without colours: warm clay, on which shading reads well in light and dark pages.
const CLAY: [f64; 3] = [0.80, 0.76, 0.72];

/// Two lights as the camera sees them (direction to the light, strength), and the light from above and below.
const KEY: (DVec3, f64) = (DVec3::new(-0.42, 0.62, 0.66), 0.62);
const FILL: (DVec3, f64) = (DVec3::new(0.80, 0.10, 0.59), 0.20);
const SKY: f64 = 0.34;
const GROUND: f64 = 0.16;

/// Draws a surface.
#[must_use]
pub fn render(surface: &Surface, camera: &Camera, picture: &Picture) -> Image {
    let samples = picture.samples.clamp(1, 4);
    let mut buffer = Buffer::new(picture.width * samples, picture.height * samples);
    let (width, height) = (buffer.width as f64, buffer.height as f64);
    let projected: Vec<DVec3> = surface.positions.iter().map(|&p| camera.project(p, width, height)).collect();
    let normals = normals(surface);
    let shaded: Vec<[f64; 3]> = (0..projected.len())
        .map(|v| shade(camera.turn(normals[v]), surface.colours.map_or(CLAY, |colours| colours[v])))
        .collect();
    for triangle in surface.triangles {
        let corners = triangle.map(|v| (projected[v as usize], shaded[v as usize]));
        buffer.fill(corners);
    }
    buffer.resolve(samples, picture)
}

/// Unit vertex normals, weighted by area, (V); zero where no triangle has area.
fn normals(surface: &Surface) -> Vec<DVec3> {
    let mut normals = vec![DVec3::ZERO; surface.positions.len()];
    for triangle in surface.triangles {
        let [a, b, c] = triangle.map(|v| surface.positions[v as usize]);
        let area = (b - a).cross(c - a);
        for &v in triangle {
            normals[v as usize] += area;
        }
    }
    normals.into_iter().map(DVec3::normalize_or_zero).collect()
}

/// Linear light from a colour under the two lights, the sky and the ground; both sides of a surface are lit.
fn shade(normal: DVec3, colour: [f64; 3]) -> [f64; 3] {
    let normal = if normal.z < 0.0 { -normal } else { normal };
    let from = |light: (DVec3, f64)| light.1 * normal.dot(light.0.normalize()).max(0.0);
    let around = GROUND + (SKY - GROUND) * (0.5 + 0.5 * normal.y);
    let light = from(KEY) + from(FILL) + around;
    colour.map(|c| c.powf(2.2) * light)
}

/// Samples with their depth.
struct Buffer {
    width: usize,
    height: usize,
    /// Nearness of what is drawn, 0 where nothing is, (height, width).
    nearness: Vec<f32>,
    /// Linear light, (height, width).
    light: Vec<[f32; 3]>,
}

impl Buffer {
    fn new(width: usize, height: usize) -> Self {
        Self { width, height, nearness: vec![0.0; width * height], light: vec![[0.0; 3]; width * height] }
    }

    /// Fills a triangle given by its corners' (right, down, nearness) and light.
    fn fill(&mut self, corners: [(DVec3, [f64; 3]); 3]) {
        let [a, b, c] = corners.map(|corner| corner.0);
        let area = (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x);
        if !area.is_finite() || area == 0.0 {
            return;
        }
        let limit = |low: f64, high: f64, size: usize| {
            (low.floor().clamp(0.0, size as f64) as usize, high.ceil().clamp(0.0, size as f64) as usize)
        };
        let (left, right) = limit(a.x.min(b.x).min(c.x), a.x.max(b.x).max(c.x), self.width);
        let (top, bottom) = limit(a.y.min(b.y).min(c.y), a.y.max(b.y).max(c.y), self.height);
        for row in top..bottom {
            let y = row as f64 + 0.5;
            for column in left..right {
                let x = column as f64 + 0.5;
                let u = ((b.x - x) * (c.y - y) - (b.y - y) * (c.x - x)) / area;
                let v = ((c.x - x) * (a.y - y) - (c.y - y) * (a.x - x)) / area;
                let w = 1.0 - u - v;
                if u < 0.0 || v < 0.0 || w < 0.0 {
                    continue;
                }
                // Nearness (one over depth) is linear on the screen, so this is the true depth order.
                let near = (u * a.z + v * b.z + w * c.z) as f32;
                let k = row * self.width + column;
                if near > self.nearness[k] {
                    self.nearness[k] = near;
                    let mix = |c: usize| u * corners[0].1[c] + v * corners[1].1[c] + w * corners[2].1[c];
                    self.light[k] = [mix(0) as f32, mix(1) as f32, mix(2) as f32];
                }
            }
        }
    }

    /// Averages the samples of each pixel over the background.
    fn resolve(&self, samples: usize, picture: &Picture) -> Image {
        let mut image = Image::filled(picture.width, picture.height, picture.background);
        for row in 0..picture.height {
            for column in 0..picture.width {
                let (mut light, mut covered) = ([0.0_f32; 3], 0);
                for dy in 0..samples {
                    for dx in 0..samples {
                        let k = (row * samples + dy) * self.width + column * samples + dx;
                        if self.nearness[k] > 0.0 {
                            covered += 1;
                            light = std::array::from_fn(|c| light[c] + self.light[k][c]);
                        }
                    }
                }
                if covered > 0 {
                    let channel = |c: usize| {
                        let mean = (light[c] / covered as f32).clamp(0.0, 1.0);
                        (mean.powf(1.0 / 2.2) * 255.0).round() as u8
                    };
                    let opacity = (255 * covered / (samples * samples)) as u8;
                    let pixel = Image::filled(1, 1, [channel(0), channel(1), channel(2), opacity]);
                    image.draw(&pixel, column, row);
                }
            }
        }
        image
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RED: [f64; 3] = [1.0, 0.0, 0.0];
    const BLUE: [f64; 3] = [0.0, 0.0, 1.0];

    /// Two squares facing +Z, the red one nearer.
    fn squares() -> (Vec<DVec3>, Vec<[u32; 3]>, Vec<[f64; 3]>) {
        let square = |z: f64, size: f64| {
            [(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)].map(|(x, y)| DVec3::new(x * size, y * size, z))
        };
        let positions = [square(0.0, 1.0), square(0.5, 0.4)].concat();
        let triangles = vec![[0, 1, 2], [0, 2, 3], [4, 5, 6], [4, 6, 7]];
        (positions, triangles, [[BLUE; 4], [RED; 4]].concat())
    }

    #[test]
    fn what_is_nearer_hides_what_is_behind_whatever_the_order() {
        let (positions, mut triangles, colours) = squares();
        let camera = Camera::around(&[&positions], 0.0, 0.0, 1.0);
        let picture = Picture { width: 41, height: 41, ..Picture::default() };
        let draw = |triangles: &[[u32; 3]]| {
            render(&Surface { positions: &positions, triangles, colours: Some(&colours) }, &camera, &picture)
        };
        let image = draw(&triangles);
        let middle = image.pixels[20 * 41 + 20];
        assert!(middle[0] > 150 && middle[2] == 0 && middle[3] == 255, "{middle:?}");
        let outer = image.pixels[20 * 41 + 4];
        assert!(outer[2] > 150 && outer[0] == 0, "{outer:?}");
        assert_eq!(image.pixels[0], [0; 4]);
        triangles.reverse();
        assert_eq!(draw(&triangles), image);
    }

    #[test]
    fn edges_are_soft() {
        let positions = [DVec3::ZERO, DVec3::new(1.0, 0.2, 0.0), DVec3::new(0.3, 1.0, 0.0)];
        let camera = Camera::around(&[&positions], 0.0, 0.0, 1.0);
        let surface = Surface { positions: &positions, triangles: &[[0, 1, 2]], colours: None };
        let image = render(&surface, &camera, &Picture { width: 40, height: 40, ..Picture::default() });
        assert!(image.pixels.iter().any(|pixel| pixel[3] > 0 && pixel[3] < 255));
    }

    #[test]
    fn nonsense_is_drawn_as_nothing() {
        let positions = [DVec3::NAN, DVec3::X, DVec3::Y, DVec3::ZERO];
        let camera = Camera::around(&[&positions[1..]], 0.0, 0.0, 1.0);
        let triangles = [[0, 1, 2], [1, 1, 2]];
        let surface = Surface { positions: &positions, triangles: &triangles, colours: None };
        let image = render(&surface, &camera, &Picture { width: 20, height: 20, ..Picture::default() });
        assert!(image.pixels.iter().all(|pixel| pixel[3] == 0));
    }
}
