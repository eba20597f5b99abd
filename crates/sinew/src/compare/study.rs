//! A user study: blind clips of truth beside each method, a page to rate them, and the key that tells which was which.
//!
//! Set up as in Jacka, Reid, Merry and Gain, "A comparison of linear skinning techniques for character animation", 2007,
//! section 4.2: viewers see the truth and an unnamed method and rate their likeness from 0 to 10.

use std::path::Path;

use anyhow::Context;
use glam::DVec3;
use rayon::prelude::*;
use sinew_draw::{Camera, Image, Picture};

use super::contest::{Contest, Finished};
use super::{pictures, write};

/// Frames in a clip at most: two seconds at 24 a second.
const FRAMES: usize = 48;

/// Writes `index.html`, a clip for each finished method, and `key.json` into `folder`.
pub fn write_study(folder: &Path, contest: &Contest) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let finished: Vec<_> = contest.finished().collect();
    let names = clip_names(finished.len());
    let mut key = serde_json::Map::new();
    for ((contender, finished), name) in finished.iter().zip(&names) {
        write(&folder.join(format!("{name}.png")), &clip(contest, finished)?)?;
        key.insert(name.clone(), contender.name.clone().into());
    }
    crate::output::json(&folder.join("key.json"), &serde_json::Value::Object(key))?;
    let mut sorted = names;
    sorted.sort();
    let quoted: Vec<String> = sorted.iter().map(|name| format!("\"{name}\"")).collect();
    let page = include_str!("study.html").replace("/*CLIPS*/", &quoted.join(", "));
    write(&folder.join("index.html"), page.as_bytes())
}

/// A name for each method that says nothing of it, the same on every run: letters dealt out by multiplication modulo a
/// prime.
fn clip_names(count: usize) -> Vec<String> {
    let mut places: Vec<usize> = (0..count).collect();
    places.sort_by_key(|k| (k + 1) * 37 % 101);
    let mut names = vec![String::new(); count];
    for (place, method) in places.into_iter().enumerate() {
        names[method] = format!("clip_{}", char::from(b'a' + (place % 26) as u8));
        if place >= 26 {
            names[method].push_str(&(place / 26).to_string());
        }
    }
    names
}

/// Truth on the left, the method on the right, as an animated PNG.
fn clip(contest: &Contest, finished: &Finished) -> anyhow::Result<Vec<u8>> {
    let count = contest.test_frames.len().min(FRAMES);
    let chosen: Vec<usize> =
        (0..count).map(|k| if count == 1 { 0 } else { k * (contest.test_frames.len() - 1) / (count - 1) }).collect();
    let truth: Vec<&[DVec3]> = chosen.iter().map(|&k| contest.examples.vertices(contest.test_frames[k])).collect();
    let size = Picture { width: 320, height: 260, samples: 2, background: [255; 4] };
    let yaw = if wide(contest) { 20.0 } else { 65.0 };
    let camera = Camera::around(&truth, yaw, 12.0, size.width as f64 / size.height as f64);
    let draw = |(&k, truth): (&usize, &&[DVec3])| {
        let predicted = contest.predicted(finished, k);
        let pair = [truth, predicted.as_slice()].map(|mesh| pictures::surface(contest, mesh, None, &camera, &size));
        Image::grid(&pair, 2, 4, [255; 4])
    };
    let images: Vec<Image> = chosen.par_iter().zip(&truth).map(draw).collect();
    animated_png(&images, contest.examples.fps().unwrap_or(24.0))
}

fn wide(contest: &Contest) -> bool {
    let (low, high) = contest.examples.mesh().bounds();
    (high - low).z <= 1.2 * (high - low).x
}

/// Opaque images of one size, played for ever.
fn animated_png(images: &[Image], fps: f64) -> anyhow::Result<Vec<u8>> {
    let first = images.first().context("there are no frames to show")?;
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, first.width as u32, first.height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_animated(images.len() as u32, 0)?;
    encoder.set_frame_delay(1, fps.round().clamp(1.0, 120.0) as u16)?;
    let mut writer = encoder.write_header()?;
    for image in images {
        let data: Vec<u8> = image.pixels.iter().flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
        writer.write_image_data(&data)?;
    }
    writer.finish()?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clips_have_names_of_their_own_that_do_not_follow_the_table() {
        let names = clip_names(14);
        let mut sorted = names.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), 14);
        assert_ne!(names, sorted);
    }
}
