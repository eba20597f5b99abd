//! `sinew render`: a model in motion as pictures, posed and drawn on the GPU.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use glam::Affine3A;
use sinew_examples::{Examples, FrameSelection};
use sinew_gpu::{Backend, Camera, Gpu, GpuError, GpuSkin, Picture, Renderer};
use sinew_runtime::Model;

use crate::webp::{self, Frame};
use crate::{Outcome, load, mp4, output};

/// Draw a model through an animation: a folder of PNG frames, an MP4 video, an animated GIF or WebP.
#[derive(clap::Args)]
#[command(after_help = "The mesh is posed and drawn on the GPU; a software driver (Mesa's lavapipe) will do.

Examples:
  sinew render arm.sinew --animation arm.npz -o arm.mp4
  sinew render arm.sinew --animation arm.npz -o arm.gif
  sinew render arm.sinew --animation arm.npz -o arm.webp
  sinew render arm.sinew --animation arm.npz --frames test --errors -o frames/")]
pub struct Args {
    /// The model.
    model: PathBuf,
    /// The animation: an examples.npz, or anything `sinew pack` reads, of the same character.
    #[arg(long, value_name = "CLIP")]
    animation: PathBuf,
    /// A folder for PNG frames, or an .mp4, .gif or .webp file.
    #[arg(short, long, value_name = "PATH")]
    output: PathBuf,
    /// The frames to draw: train, test, all, 0,5,10, 0..40 or every:5.
    #[arg(long, default_value = "all", value_name = "FRAMES")]
    frames: FrameSelection,
    /// Colour each vertex by its distance from the animation's own mesh.
    #[arg(long)]
    errors: bool,
    /// The distance at the dark end of the scale, in percent of the rest mesh's diagonal.
    #[arg(long, default_value_t = 2.0, value_name = "PERCENT")]
    error_scale: f64,
    /// The picture's size in pixels.
    #[arg(long, default_value = "640x480", value_name = "WxH", value_parser = size)]
    size: [u32; 2],
    /// Frames a second; without it the animation's own, or 24.
    #[arg(long, value_name = "FPS")]
    fps: Option<f64>,
}

/// What the output's name asks for.
enum Target {
    Mp4,
    Gif,
    WebP,
    Folder,
}

/// A mesh without errors to show, sRGB.
const PLAIN: [f64; 3] = [0.62, 0.68, 0.76];

/// Draws and writes.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let target = target(&args.output)?;
    ensure!(args.error_scale > 0.0, "--error-scale must be above 0, not {}", args.error_scale);
    let model = Model::read(&args.model).map_err(|error| load::named(&args.model, error))?;
    let examples = load::examples(&args.animation)?;
    crate::predict::check_same_character(&model, &examples)?;
    let frames = args.frames.resolve(examples.split(), examples.frame_count())?;
    let fps = args.fps.or(examples.fps()).unwrap_or(24.0);
    ensure!(fps > 0.0 && fps.is_finite(), "--fps must be above 0, not {fps}");
    let pictures = draw(&args, &model, &examples, &frames)?;
    match target {
        Target::Mp4 => write_mp4(&args.output, &pictures, fps)?,
        Target::Gif => write_gif(&args.output, &pictures, fps)?,
        Target::WebP => write_webp(&args.output, &pictures, fps)?,
        Target::Folder => write_folder(&args.output, &pictures, &frames)?,
    }
    output::line(&format!("{} frames → {}", pictures.len(), args.output.display()))?;
    Ok(Outcome::Done)
}

fn target(path: &Path) -> anyhow::Result<Target> {
    if path.is_dir() || path.to_string_lossy().ends_with(std::path::is_separator) {
        return Ok(Target::Folder);
    }
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    match ending.as_deref() {
        Some("mp4") => output::check(path, &["mp4"]).map(|()| Target::Mp4),
        Some("gif") => output::check(path, &["gif"]).map(|()| Target::Gif),
        Some("webp") => output::check(path, &["webp"]).map(|()| Target::WebP),
        None => Ok(Target::Folder),
        Some(other) => bail!(
            "{}: sinew writes an .mp4, a .gif, a .webp or a folder of PNG frames, not .{other}; name one of these",
            path.display()
        ),
    }
}

fn draw(args: &Args, model: &Model, examples: &Examples, frames: &[usize]) -> anyhow::Result<Vec<Picture>> {
    let gpu = Gpu::new(Backend::Any)?;
    let mut skin = GpuSkin::new(&gpu, model, 1).map_err(|error| match error {
        GpuError::Unsupported(_) => anyhow::anyhow!(
            "the GPU does not pose `{}`, which is not made for real time; `sinew pose {} {} -o clip.glb` writes its motion",
            model.metadata.method,
            args.model.display(),
            args.animation.display()
        ),
        other => other.into(),
    })?;
    let triangles = &model.character.triangles;
    let renderer = Renderer::new(&gpu, model.character.vertex_count(), triangles, args.size)?;
    // One camera for the whole clip, so that it does not jump: around the true meshes.
    let truth = |e: usize| examples.vertices(e).iter().map(|v| v.as_vec3().to_array());
    let camera = Camera::around(frames.iter().flat_map(|&e| truth(e)));
    let scale = args.error_scale / 100.0 * f64::from(model.character.diagonal());
    let mut pictures = Vec::with_capacity(frames.len());
    for &e in frames {
        let pose: Vec<Affine3A> = examples.pose(e).globals.iter().map(|&g| sinew_fit::to_model::transform(g)).collect();
        skin.pose(&gpu, &pose)?;
        let colours: Vec<[f32; 3]> = if args.errors {
            let posed = skin.read_positions(&gpu)?;
            let errors =
                posed.iter().zip(examples.vertices(e)).map(|(p, t)| glam::Vec3::from(*p).as_dvec3().distance(*t));
            errors.map(|error| linear(sinew_draw::error_colour(error / scale))).collect()
        } else {
            vec![linear(PLAIN); model.character.vertex_count()]
        };
        pictures.push(renderer.draw(&gpu, &skin, &camera, &colours)?);
    }
    Ok(pictures)
}

/// sRGB to linear light.
fn linear(srgb: [f64; 3]) -> [f32; 3] {
    srgb.map(|c| if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) } as f32)
}

fn write_mp4(path: &Path, pictures: &[Picture], fps: f64) -> anyhow::Result<()> {
    let bytes = mp4::video(pictures, fps).with_context(|| path.display().to_string())?;
    sinew_io::write_atomically(path, |file| file.write_all(&bytes))?;
    Ok(())
}

fn write_gif(path: &Path, pictures: &[Picture], fps: f64) -> anyhow::Result<()> {
    let Some(first) = pictures.first() else { bail!("no frames were chosen") };
    let side = |pixels: u32| u16::try_from(pixels).context("a GIF is at most 65,535 pixels wide and high");
    let (width, height) = (side(first.width)?, side(first.height)?);
    let mut bytes = Vec::new();
    let mut encoder = gif::Encoder::new(&mut bytes, width, height, &[])?;
    encoder.set_repeat(gif::Repeat::Infinite)?;
    for picture in pictures {
        // Speed 10 of 1 (best colours) to 30: no difference that shows on smooth shading.
        let mut frame = gif::Frame::from_rgba_speed(width, height, &mut picture.pixels.clone(), 10);
        // Hundredths of a second; viewers do not honour less than two.
        frame.delay = (100.0 / fps).round().clamp(2.0, 65_535.0) as u16;
        encoder.write_frame(&frame)?;
    }
    drop(encoder);
    sinew_io::write_atomically(path, |file| file.write_all(&bytes))?;
    Ok(())
}

fn write_webp(path: &Path, pictures: &[Picture], fps: f64) -> anyhow::Result<()> {
    fn frame(p: &Picture) -> Frame<'_> {
        Frame { width: p.width, height: p.height, pixels: &p.pixels }
    }
    // Whole milliseconds, as many as three bytes hold.
    let milliseconds = (1000.0 / fps).round().clamp(1.0, 16_777_215.0) as u32;
    let frames: Vec<Frame> = pictures.iter().map(frame).collect();
    let bytes = webp::animation(&frames, milliseconds)?;
    sinew_io::write_atomically(path, |file| file.write_all(&bytes))?;
    Ok(())
}

fn write_folder(path: &Path, pictures: &[Picture], frames: &[usize]) -> anyhow::Result<()> {
    std::fs::create_dir_all(path).with_context(|| path.display().to_string())?;
    for (picture, frame) in pictures.iter().zip(frames) {
        let (width, height) = (picture.width as usize, picture.height as usize);
        let image = sinew_draw::Image { width, height, pixels: picture.pixels.as_chunks().0.to_vec() };
        let file = path.join(format!("frame_{frame:05}.png"));
        sinew_io::write_atomically(&file, |writer| writer.write_all(&image.png()))?;
    }
    Ok(())
}

fn size(text: &str) -> Result<[u32; 2], String> {
    let wrong = || format!("`{text}` is not a size such as 640x480");
    let (width, height) = text.split_once('x').ok_or_else(wrong)?;
    let side = |side: &str| side.parse::<u32>().ok().filter(|&side| side > 0).ok_or_else(wrong);
    Ok([side(width)?, side(height)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_nonsense_is_refused() {
        assert_eq!(size("320x200"), Ok([320, 200]));
        for wrong in ["320", "0x200", "ax2", "-1x5"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_ending_that_is_not_written_names_what_is() {
        let error = target(Path::new("clip.mov")).err().expect("mov is not written");
        assert!(error.to_string().contains("clip.mov: sinew writes an .mp4"), "{error}");
        assert!(matches!(target(Path::new("clip.MP4")), Ok(Target::Mp4)));
        assert!(matches!(target(Path::new("frames")), Ok(Target::Folder)));
        assert!(matches!(target(Path::new("take.2/")), Ok(Target::Folder)));
        let error = target(Path::new("no/such/folder/clip.gif")).err().expect("there is no folder for it");
        assert!(error.to_string().contains("there is no folder no/such/folder"), "{error}");
    }
}
