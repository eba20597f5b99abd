//! Pictures as H.264 video (ITU-T H.264), for the file around it see `mp4`.
//!
//! The pictures' compression is rusty_h264's, without its `std` feature: so it reads no environment variables, and its
//! arithmetic is in Rust alone, which gives the same bytes on every machine. Colours become BT.709 luma and chroma in the
//! limited range, chroma once in two by two pixels, and the sequence parameter set says so: without a word on colours,
//! players guess BT.601 for small pictures and BT.709 for large ones.

use anyhow::{Context, ensure};
use rayon::prelude::*;
use rusty_h264_common::nal::split_annex_b;
use rusty_h264_common::{BitWriter, NalUnit, NalUnitType, YuvFrame};
use rusty_h264_encoder::{Encoder, EncoderConfig, Preset, Sps};
use sinew_gpu::Picture;

/// Colours as the code points of ITU-T H.273: BT.709 primaries, sRGB's own transfer curve, BT.709's matrix.
pub const COLOURS: [u8; 3] = [1, 13, 1];

/// Compressed pictures and what a decoder must know before them.
pub struct Stream {
    /// Pixels across: even.
    pub width: u32,
    /// Pixels down: even.
    pub height: u32,
    /// The sequence parameter set, a NAL unit.
    pub sequence: Vec<u8>,
    /// The picture parameter set, a NAL unit.
    pub parameters: Vec<u8>,
    /// A compressed picture each.
    pub units: Vec<Unit>,
}

/// A compressed picture.
pub struct Unit {
    /// NAL units, each behind its length in four bytes (ISO/IEC 14496-15).
    pub bytes: Vec<u8>,
    /// A decoder may start here.
    pub starts: bool,
}

/// 0 to 51, six of which double the error. At 14 what is lost is chroma's half resolution (an arm clip comes back at 57 dB, at
/// 18 at 55 dB and a quarter smaller), and a clip still takes a seventh of a GIF.
const QUANTIZER: u8 = 14;

/// Pictures from one that a decoder may start at to the next: about two seconds, how finely players seek. These runs are
/// compressed by themselves, whatever the number of threads.
const RUN: usize = 48;

/// Level 4.2, which players have: 1920x1080 at 60 frames a second. The encoder raises it for larger pictures.
const LEVEL: u8 = 42;

/// The most macroblocks, of 16 by 16 pixels, in a picture of level 5.2, the encoder's last (ITU-T H.264, table A-1).
const MOST_BLOCKS: usize = 36_864;

/// The most of them in a row or a column: √(8 · [`MOST_BLOCKS`]).
const MOST_ACROSS: usize = 543;

/// All pictures, of the first one's size, to be shown one after the other.
pub fn stream(pictures: &[Picture]) -> anyhow::Result<Stream> {
    let first = pictures.first().context("no frames were chosen")?;
    let (width, height) = (first.width, first.height);
    ensure!(pictures.iter().all(|p| (p.width, p.height) == (width, height)), "a video's pictures are of one size");
    let config = config(width.next_multiple_of(2) as usize, height.next_multiple_of(2) as usize);
    let (across, down) = (config.mb_width(), config.mb_height());
    ensure!(
        (1..=MOST_ACROSS).contains(&across) && (1..=MOST_ACROSS).contains(&down) && across * down <= MOST_BLOCKS,
        "a video is at most {} pixels wide and high and has {} at most, not {width}x{height}; give a smaller --size, or write a \
         folder of PNG frames",
        16 * MOST_ACROSS,
        256 * MOST_BLOCKS
    );
    let runs: Vec<Vec<Vec<u8>>> =
        pictures.par_chunks(RUN).map(|run| compress(&config, run)).collect::<Result<_, _>>()?;
    let units: Vec<Unit> = runs.iter().flatten().map(|unit| self::unit(unit)).collect();
    let head = split_annex_b(&runs[0][0]);
    let parameters = head.iter().find(|nal| kind(nal) == NalUnitType::Pps).context("the encoder gave no parameters")?;
    Ok(Stream {
        width: config.width as u32,
        height: config.height as u32,
        sequence: sequence(&config),
        parameters: parameters.to_vec(),
        units,
    })
}

fn config(width: usize, height: usize) -> EncoderConfig {
    let mut config = EncoderConfig::new(width, height);
    config.qp = QUANTIZER;
    config.preset = Preset::Balanced;
    config.level_idc = LEVEL;
    config.gop_size = RUN as u32;
    // No starting points between: runs are short, and a cut within a turning character is none.
    config.scenecut = 0;
    config
}

/// A run's pictures, each an access unit in the byte stream format (ITU-T H.264, annex B).
fn compress(config: &EncoderConfig, run: &[Picture]) -> anyhow::Result<Vec<Vec<u8>>> {
    let wrong = |error| anyhow::anyhow!("the pictures could not be compressed: {error:?}");
    let frames: Vec<YuvFrame> = run.iter().map(|picture| planes(picture, config.width, config.height)).collect();
    let units = Encoder::new(config.clone()).and_then(|encoder| encoder.encode_all(&frames)).map_err(wrong)?;
    ensure!(units.len() == run.len(), "{} pictures became {}", run.len(), units.len());
    Ok(units)
}

/// Luma and chroma: Y = 16 + 219 y and C = 128 + 224 c, where y = kr R + kg G + kb B of values from 0 to 1,
/// cb = (B − y) / (2 − 2 kb) and cr = (R − y) / (2 − 2 kr) (ITU-R BT.709-6, section 3).
///
/// Where the video is a pixel larger than the picture, the edge is repeated.
fn planes(picture: &Picture, width: usize, height: usize) -> YuvFrame {
    const KR: f32 = 0.2126;
    const KB: f32 = 0.0722;
    let (across, down) = (picture.width as usize, picture.height as usize);
    let pixels = picture.pixels.as_chunks::<4>().0;
    let rgb = |x: usize, y: usize| {
        let [r, g, b, _] = pixels[y.min(down - 1) * across + x.min(across - 1)];
        [r, g, b].map(|value| f32::from(value) / 255.0)
    };
    let luma = |[r, g, b]: [f32; 3]| KR * r + (1.0 - KR - KB) * g + KB * b;
    let mut frame = YuvFrame::black(width, height);
    for (k, value) in frame.y.iter_mut().enumerate() {
        *value = (16.0 + 219.0 * luma(rgb(k % width, k / width))).round() as u8;
    }
    for (k, (u, v)) in frame.u.iter_mut().zip(&mut frame.v).enumerate() {
        let (x, y) = (k % (width / 2) * 2, k / (width / 2) * 2);
        let four = [rgb(x, y), rgb(x + 1, y), rgb(x, y + 1), rgb(x + 1, y + 1)];
        let mean = [0, 1, 2].map(|channel| four.iter().map(|colour| colour[channel]).sum::<f32>() / 4.0);
        let luma = luma(mean);
        *u = (128.0 + 224.0 * (mean[2] - luma) / (2.0 - 2.0 * KB)).round() as u8;
        *v = (128.0 + 224.0 * (mean[0] - luma) / (2.0 - 2.0 * KR)).round() as u8;
    }
    frame
}

/// An access unit without its start codes and parameter sets, which the file's head holds.
fn unit(bytes: &[u8]) -> Unit {
    let mut unit = Unit { bytes: Vec::with_capacity(bytes.len()), starts: false };
    for nal in split_annex_b(bytes) {
        if matches!(kind(nal), NalUnitType::Sps | NalUnitType::Pps) {
            continue;
        }
        unit.starts |= kind(nal) == NalUnitType::IdrSlice;
        unit.bytes.extend((nal.len() as u32).to_be_bytes());
        unit.bytes.extend(nal);
    }
    unit
}

fn kind(nal: &[u8]) -> NalUnitType {
    NalUnitType::from_id(nal.first().copied().unwrap_or_default())
}

/// The encoder's sequence parameter set, with its last flag set and followed by the video usability information (ITU-T H.264,
/// annex E), which it does not write.
fn sequence(config: &EncoderConfig) -> Vec<u8> {
    let mut set = Sps::from_config(config);
    // "Also of the Main profile", which pictures with 8x8 transforms are not.
    set.constraint_set1_flag = false;
    let mut whole = BitWriter::new();
    set.write_rbsp(&mut whole);
    let whole = whole.into_bytes();
    // It ends in the flag, a bit of 1 and bits of 0 up to the byte's end.
    let last = whole.iter().rposition(|&byte| byte != 0).unwrap_or_default();
    let flag = 8 * last + 6 - whole[last].trailing_zeros() as usize;
    let mut bits = BitWriter::new();
    for k in 0..flag {
        bits.write_bit(whole[k / 8] >> (7 - k % 8) & 1 == 1);
    }
    bits.write_bit(true);
    bits.write_bit(false); // no shape of pixels: square
    bits.write_bit(false); // no overscan
    bits.write_bit(true); // colours:
    bits.write_bits(5, 3); // of no broadcast format,
    bits.write_bit(false); // the limited range,
    bits.write_bit(true);
    COLOURS.iter().for_each(|&code| bits.write_bits(u32::from(code), 8));
    bits.write_bit(true); // chroma lies amid its four pixels, in both fields
    bits.write_ue(1);
    bits.write_ue(1);
    bits.write_bit(false); // no times: the file has them
    bits.write_bits(0, 2); // no model of the decoder's buffer, neither kind
    bits.write_bit(false); // no structure of fields
    bits.write_bit(true); // limits:
    bits.write_bit(true); // motion may point past edges,
    bits.write_ue(0); // pictures and blocks may take any room,
    bits.write_ue(0);
    bits.write_ue(15); // motion may be as long as it can,
    bits.write_ue(15);
    bits.write_ue(0); // and pictures come in the order in which they are shown: none waits for another,
    bits.write_ue(set.max_num_ref_frames); // and as many are kept as are referred to.
    bits.rbsp_trailing_bits();
    // The writer begins with a start code of four bytes.
    NalUnit::new(3, NalUnitType::Sps, bits.into_bytes()).to_annex_b().split_off(4)
}

#[cfg(test)]
mod tests {
    use rusty_h264_common::BitReader;
    use rusty_h264_common::nal::emulation_unprevent;
    use rusty_h264_decoder::Decoder;

    use super::*;

    fn picture(width: u32, height: u32, colour: impl Fn(u32, u32) -> [u8; 3]) -> Picture {
        let rgba = |k: u32| {
            let [r, g, b] = colour(k % width, k / width);
            [r, g, b, 255]
        };
        Picture { width, height, pixels: (0..width * height).flat_map(rgba).collect() }
    }

    /// A clip with smooth shading, an edge and a line of one pixel, which move.
    fn clip(width: u32, height: u32, count: u32) -> Vec<Picture> {
        let shade = |frame: u32, x: u32, y: u32| match (x + 200 - frame) % 50 {
            0 => [0, 0, 0],
            1..25 => [255, 255, 255],
            _ => [(x * 255 / width) as u8, (y * 255 / height) as u8, 140],
        };
        (0..count).map(|frame| picture(width, height, |x, y| shade(frame, x, y))).collect()
    }

    /// What a decoder shows of a stream whose lengths are start codes again.
    fn decoded(stream: &Stream) -> Vec<YuvFrame> {
        let mut bytes = Vec::new();
        let mut nal = |nal: &[u8]| {
            bytes.extend([0, 0, 0, 1]);
            bytes.extend(nal);
        };
        nal(&stream.sequence);
        nal(&stream.parameters);
        for unit in &stream.units {
            let mut rest = &unit.bytes[..];
            while let Some((length, after)) = rest.split_first_chunk() {
                let (this, next) = after.split_at(u32::from_be_bytes(*length) as usize);
                nal(this);
                rest = next;
            }
        }
        Decoder::new().decode_stream(&bytes).unwrap()
    }

    /// The largest and the mean.
    fn distances(found: &[u8], expected: &[u8]) -> (u8, f64) {
        assert_eq!(found.len(), expected.len());
        let distances = || found.iter().zip(expected).map(|(a, b)| a.abs_diff(*b));
        (distances().max().unwrap(), distances().map(f64::from).sum::<f64>() / found.len() as f64)
    }

    #[test]
    fn colours_are_those_of_the_standard() {
        // ITU-R BT.709-6 at eight bits, as ITU-R BT.1361's and every test pattern's 100 % bars have them.
        for (rgb, yuv) in [
            ([0, 0, 0], [16, 128, 128]),
            ([255, 255, 255], [235, 128, 128]),
            ([255, 0, 0], [63, 102, 240]),
            ([0, 255, 0], [173, 42, 26]),
            ([0, 0, 255], [32, 240, 118]),
        ] {
            let frame = planes(&picture(2, 2, |_, _| rgb), 2, 2);
            assert_eq!([frame.y[3], frame.u[0], frame.v[0]], yuv, "{rgb:?}");
        }
    }

    #[test]
    fn a_decoder_shows_what_was_compressed_at_even_and_odd_sizes() {
        // More pictures than a run.
        for (width, height, count) in [(64, 48, RUN as u32 + 3), (61, 47, 3), (1, 1, 1)] {
            let clip = clip(width, height, count);
            let stream = stream(&clip).unwrap();
            let (across, down) = (width.next_multiple_of(2), height.next_multiple_of(2));
            assert_eq!((stream.width, stream.height), (across, down));
            let starts: Vec<bool> = stream.units.iter().map(|unit| unit.starts).collect();
            assert!(starts.iter().enumerate().all(|(k, &starts)| starts == (k % RUN == 0)), "{starts:?}");
            let found = decoded(&stream);
            assert_eq!(found.len(), clip.len());
            for (found, picture) in found.iter().zip(&clip) {
                let expected = planes(picture, across as usize, down as usize);
                // The quantizer's step at 14 is 3.25, up to 5 where a picture is busy; in a pixel a few coefficients meet that
                // are off by half of it. On average they cancel to less than a level.
                for (found, expected) in [(&found.y, &expected.y), (&found.u, &expected.u), (&found.v, &expected.v)] {
                    let (farthest, mean) = distances(found, expected);
                    assert!(farthest <= 8 && mean < 1.0, "{width}x{height}: {farthest} {mean}");
                }
            }
        }
    }

    #[test]
    fn the_same_pictures_give_the_same_bytes_with_any_number_of_threads() {
        let clip = clip(64, 48, 2 * RUN as u32 + 5);
        let bytes = || stream(&clip).unwrap().units.into_iter().flat_map(|unit| unit.bytes).collect::<Vec<u8>>();
        let threads = |count| rayon::ThreadPoolBuilder::new().num_threads(count).build().unwrap().install(bytes);
        assert_eq!(threads(1), threads(3));
    }

    #[test]
    fn the_sequence_set_tells_colours_and_order() {
        let set = sequence(&config(642, 480));
        assert_eq!(&set[..4], [0x67, 100, 0, LEVEL]);
        let bytes = emulation_unprevent(&set[4..]);
        let mut bits = BitReader::new(&bytes);
        let mut number = || bits.read_ue().unwrap();
        // Number, 4:2:0, eight bits twice.
        assert_eq!([number(), number(), number(), number()], [0, 1, 0, 0]);
        assert_eq!(bits.read_bits(2).unwrap(), 0);
        let mut number = || bits.read_ue().unwrap();
        let [_, order, _, kept] = [number(), number(), number(), number()];
        assert_eq!(order, 0);
        bits.read_bits(1).unwrap();
        let mut number = || bits.read_ue().unwrap();
        assert_eq!([number(), number()], [40, 29]);
        // Whole frames; cropped, by 14 pixels on the right.
        assert_eq!(bits.read_bits(3).unwrap(), 0b111);
        let mut number = || bits.read_ue().unwrap();
        assert_eq!([number(), number(), number(), number()], [0, 7, 0, 0]);
        // There is more; no shape, no overscan, colours of no format in the limited range, told.
        assert_eq!(bits.read_bits(9).unwrap(), 0b1_0011_0101);
        assert_eq!(COLOURS.map(|_| bits.read_bits(8).unwrap() as u8), COLOURS);
        assert_eq!(bits.read_bits(1).unwrap(), 1);
        assert_eq!([bits.read_ue().unwrap(), bits.read_ue().unwrap()], [1, 1]);
        assert_eq!(bits.read_bits(6).unwrap(), 0b00_0011);
        let mut number = || bits.read_ue().unwrap();
        assert_eq!([number(), number(), number(), number(), number(), number()], [0, 0, 15, 15, 0, kept]);
    }

    #[test]
    fn pictures_that_no_player_shows_are_refused() {
        let error = |pictures: &[Picture]| stream(pictures).err().expect("no video is made of these").to_string();
        assert!(error(&[]).contains("no frames"));
        let empty = |width, height| Picture { width, height, pixels: Vec::new() };
        assert!(error(&[empty(0, 4)]).contains("not 0x4"));
        assert!(error(&[empty(9000, 16)]).contains("--size"));
        assert!(error(&[empty(8000, 8000)]).contains("--size"));
        assert!(error(&[empty(4, 4), empty(4, 6)]).contains("one size"));
    }
}
