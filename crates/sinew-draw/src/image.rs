//! Pixels, and PNG.

/// An image with transparency, sRGB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Pixels across.
    pub width: usize,
    /// Pixels down.
    pub height: usize,
    /// Red, green, blue, opacity, row by row, (height, width).
    pub pixels: Vec<[u8; 4]>,
}

impl Image {
    /// All pixels alike.
    #[must_use]
    pub fn filled(width: usize, height: usize, pixel: [u8; 4]) -> Self {
        Self { width, height, pixels: vec![pixel; width * height] }
    }

    /// Draws `other` over this image with its upper left corner at (`x`, `y`); what falls outside is cut off.
    pub fn draw(&mut self, other: &Self, x: usize, y: usize) {
        for row in 0..other.height.min(self.height.saturating_sub(y)) {
            for column in 0..other.width.min(self.width.saturating_sub(x)) {
                let below = &mut self.pixels[(y + row) * self.width + x + column];
                *below = over(other.pixels[row * other.width + column], *below);
            }
        }
    }

    /// Images in rows of `columns`, `gap` pixels apart, over `background`. Every cell is as large as the largest image.
    #[must_use]
    pub fn grid(images: &[Self], columns: usize, gap: usize, background: [u8; 4]) -> Self {
        let columns = columns.clamp(1, images.len().max(1));
        let rows = images.len().div_ceil(columns);
        let width = images.iter().map(|image| image.width).max().unwrap_or(0);
        let height = images.iter().map(|image| image.height).max().unwrap_or(0);
        let mut grid = Self::filled(columns * (width + gap) + gap, rows * (height + gap) + gap, background);
        for (k, image) in images.iter().enumerate() {
            grid.draw(image, gap + (k % columns) * (width + gap), gap + (k / columns) * (height + gap));
        }
        grid
    }

    /// The image as a PNG file's bytes.
    #[must_use]
    pub fn png(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let (width, height) = (self.width.max(1) as u32, self.height.max(1) as u32);
        let mut encoder = png::Encoder::new(&mut bytes, width, height);
        let opaque = self.pixels.iter().all(|pixel| pixel[3] == 255);
        encoder.set_color(if opaque { png::ColorType::Rgb } else { png::ColorType::Rgba });
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::High);
        let channels = if opaque { 3 } else { 4 };
        let mut data: Vec<u8> = self.pixels.iter().flat_map(|pixel| pixel[..channels].to_vec()).collect();
        data.resize(width as usize * height as usize * channels, 0);
        let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(&data));
        written.expect("a PNG of the right size is written to memory");
        bytes
    }
}

/// `above` over `below`, both with straight opacity.
fn over(above: [u8; 4], below: [u8; 4]) -> [u8; 4] {
    let (a, b) = (u32::from(above[3]), u32::from(below[3]));
    let opacity = a * 255 + b * (255 - a);
    if opacity == 0 {
        return [0; 4];
    }
    let mix = |c: usize| {
        let sum = u32::from(above[c]) * a * 255 + u32::from(below[c]) * b * (255 - a);
        ((sum + opacity / 2) / opacity) as u8
    };
    [mix(0), mix(1), mix(2), ((opacity + 127) / 255) as u8]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opacity_mixes() {
        assert_eq!(over([10, 20, 30, 255], [200, 200, 200, 255]), [10, 20, 30, 255]);
        assert_eq!(over([10, 20, 30, 0], [200, 100, 0, 255]), [200, 100, 0, 255]);
        assert_eq!(over([0, 0, 0, 128], [255, 255, 255, 255]), [127, 127, 127, 255]);
        assert_eq!(over([0; 4], [0; 4]), [0; 4]);
    }

    #[test]
    fn a_png_comes_back() {
        let mut image = Image::filled(3, 2, [1, 2, 3, 4]);
        image.pixels[4] = [9, 8, 7, 255];
        let bytes = image.png();
        let mut reader = png::Decoder::new(std::io::Cursor::new(&bytes)).read_info().unwrap();
        let mut data = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut data).unwrap();
        assert_eq!(data, image.pixels.as_flattened());
    }

    #[test]
    fn a_grid_holds_its_images() {
        let images = [Image::filled(2, 2, [1, 1, 1, 255]), Image::filled(1, 2, [2, 2, 2, 255])];
        let grid = Image::grid(&images, 2, 1, [0, 0, 0, 255]);
        assert_eq!((grid.width, grid.height), (7, 4));
        assert_eq!(grid.pixels[7 + 1][0], 1);
        assert_eq!(grid.pixels[7 + 4][0], 2);
    }
}
