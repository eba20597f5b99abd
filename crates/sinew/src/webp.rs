//! Animated WebP: lossless pictures one after the other ("WebP Container Specification", Google).
//!
//! A file is `RIFF size WEBP` and chunks of (name, size, bytes, padded to even): `VP8X` says how large and that it moves,
//! `ANIM` how often it repeats, each `ANMF` holds a frame's place and duration and its picture as a `VP8L` chunk. The
//! pictures' own compression is image-webp's.

use anyhow::{Context, ensure};

/// A picture without transparency.
pub struct Frame<'a> {
    /// Pixels across.
    pub width: u32,
    /// Pixels down.
    pub height: u32,
    /// RGBA, row by row, (height · width · 4); A is not looked at.
    pub pixels: &'a [u8],
}

/// The largest side that the format can state.
const LARGEST: u32 = 1 << 14;

/// An animation that repeats for ever, each frame shown for `milliseconds`; all of the first one's size.
pub fn animation(frames: &[Frame], milliseconds: u32) -> anyhow::Result<Vec<u8>> {
    let first = frames.first().context("no frames were chosen")?;
    let (width, height) = (first.width, first.height);
    ensure!(
        (1..=LARGEST).contains(&width) && (1..=LARGEST).contains(&height),
        "a WebP is at most {LARGEST} pixels wide and high, not {width}x{height}"
    );
    // Three bytes each: the width and height less one.
    let size = [three(width - 1), three(height - 1)].concat();
    let mut body = b"WEBP".to_vec();
    // Flag 2: it moves. Three reserved bytes.
    chunk(&mut body, b"VP8X", &[&[2, 0, 0, 0][..], &size].concat());
    // Background (not drawn: frames cover it), and 0 repetitions, which stands for ever.
    chunk(&mut body, b"ANIM", &[0; 6]);
    for frame in frames {
        let place = [0; 6];
        // Flag 2: draw over what was there, without blending.
        let head = [&place[..], &size, &three(milliseconds), &[2]].concat();
        let mut bytes = head;
        chunk(&mut bytes, b"VP8L", &lossless(frame)?);
        chunk(&mut body, b"ANMF", &bytes);
    }
    let mut file = Vec::with_capacity(body.len() + 8);
    chunk(&mut file, b"RIFF", &body);
    Ok(file)
}

/// One picture's `VP8L` bytes, out of the file of one that image-webp makes.
fn lossless(frame: &Frame) -> anyhow::Result<Vec<u8>> {
    let pixels: Vec<u8> = frame.pixels.as_chunks::<4>().0.iter().flat_map(|[r, g, b, _]| [*r, *g, *b]).collect();
    let mut still = Vec::new();
    let encoder = image_webp::WebPEncoder::new(&mut still);
    encoder.encode(&pixels, frame.width, frame.height, image_webp::ColorType::Rgb8)?;
    let mut rest = still.get(12..).unwrap_or_default();
    while let Some((head, after)) = rest.split_first_chunk::<8>() {
        let size = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        ensure!(size <= after.len(), "the encoder's picture ends early");
        if &head[..4] == b"VP8L" {
            return Ok(after[..size].to_vec());
        }
        rest = after.get(size + size % 2..).unwrap_or_default();
    }
    anyhow::bail!("the encoder gave no lossless picture")
}

/// The lower three bytes, the least first.
fn three(value: u32) -> [u8; 3] {
    let [a, b, c, _] = value.to_le_bytes();
    [a, b, c]
}

fn chunk(out: &mut Vec<u8>, name: &[u8; 4], bytes: &[u8]) {
    out.extend(name);
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(bytes);
    out.extend(&[0][..bytes.len() % 2]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decoder_finds_every_frame_as_it_was() {
        // An odd size, and pictures that compress to odd and even lengths.
        let (width, height) = (7, 5);
        let picture = |seed: u32| -> Vec<u8> {
            (0..width * height).flat_map(|k| [(k * seed) as u8, (k + seed) as u8, seed as u8, 255]).collect()
        };
        let pictures: Vec<Vec<u8>> = (0..5).map(picture).collect();
        let frames: Vec<Frame> = pictures.iter().map(|pixels| Frame { width, height, pixels }).collect();
        let file = animation(&frames, 40).unwrap();
        let mut decoder = image_webp::WebPDecoder::new(std::io::Cursor::new(&file)).unwrap();
        assert_eq!((decoder.dimensions(), decoder.num_frames()), ((width, height), 5));
        for pixels in &pictures {
            let mut found = vec![0; decoder.output_buffer_size().unwrap()];
            assert_eq!(decoder.read_frame(&mut found).unwrap(), 40);
            let without_alpha: Vec<u8> = pixels.as_chunks::<4>().0.iter().flat_map(|p| [p[0], p[1], p[2]]).collect();
            let step = if decoder.has_alpha() { 4 } else { 3 };
            let found: Vec<u8> = found.chunks(step).flat_map(|p| [p[0], p[1], p[2]]).collect();
            assert_eq!(found, without_alpha);
        }
    }

    #[test]
    fn nothing_to_show_is_an_error() {
        assert!(animation(&[], 40).is_err());
        assert!(animation(&[Frame { width: 0, height: 4, pixels: &[] }], 40).is_err());
    }
}
