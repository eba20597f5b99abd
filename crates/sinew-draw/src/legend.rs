//! The colour scale's key.

use crate::{Image, TEXT_HEIGHT, draw_text, error_colour, text_width};

/// A horizontal key of the error scale, `width` pixels wide, with `low` and `high` written under its ends.
#[must_use]
pub fn legend(width: usize, low: &str, high: &str, ink: [u8; 4], scale: usize) -> Image {
    let bar = 10 * scale;
    let mut image = Image::filled(width, bar + (TEXT_HEIGHT + 4) * scale, [0; 4]);
    for column in 0..width {
        let colour = error_colour(column as f64 / (width.max(2) - 1) as f64).map(|c| (c * 255.0).round() as u8);
        for row in 0..bar {
            image.pixels[row * width + column] = [colour[0], colour[1], colour[2], 255];
        }
    }
    let below = bar + 3 * scale;
    draw_text(&mut image, low, 0, below, scale, ink);
    draw_text(&mut image, high, width.saturating_sub(text_width(high, scale)), below, scale, ink);
    image
}
