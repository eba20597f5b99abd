//! MP4: a video track with all that a player must know before its pictures, so that it plays while it loads.
//!
//! A file is boxes of (size, name, contents), some of boxes in turn: `ftyp` says which players may try, `moov` describes the
//! track, `mdat` holds the compressed pictures one after the other (ISO/IEC 14496-12); `avc1` and `avcC` say how those are
//! compressed (ISO/IEC 14496-15). No box holds a date: the same pictures give the same bytes.

use anyhow::{Context, ensure};
use sinew_gpu::Picture;

use crate::h264::{self, Stream};

/// A video of pictures, all of the first one's size; a side of odd length gains a pixel.
pub fn video(pictures: &[Picture], fps: f64) -> anyhow::Result<Vec<u8>> {
    file(&h264::stream(pictures)?, Timing::of(fps))
}

/// Every picture's duration is `ticks` of which a second has `scale`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Timing {
    scale: u32,
    ticks: u32,
}

impl Timing {
    /// Broadcast rates, as they are written with two or three digits (23.976 for 24000/1001), exactly; others to a thousandth
    /// of a frame a second or, if a frame lasts longer than that, of a second.
    fn of(fps: f64) -> Self {
        // A frame of a day, or a thousand in a millisecond: 32 bits hold the numbers below.
        let fps = fps.clamp(1.0 / 86_400.0, 1e6);
        let broadcast = [24, 30, 48, 60, 120].into_iter().find(|&rate| (f64::from(rate) / 1.001 - fps).abs() < 0.005);
        match broadcast {
            Some(rate) => Self { scale: rate as u32 * 1000, ticks: 1001 },
            None if fps < 1.0 => Self { scale: 1000, ticks: (1000.0 / fps).round() as u32 },
            None => Self { scale: (fps * 1000.0).round() as u32, ticks: 1000 },
        }
    }
}

fn file(stream: &Stream, timing: Timing) -> anyhow::Result<Vec<u8>> {
    let data: Vec<u8> = stream.units.iter().flat_map(|unit| &unit.bytes).copied().collect();
    let total = stream.units.len() as u64 * u64::from(timing.ticks);
    let duration =
        u32::try_from(total).context("the clip is too long for an MP4; give more --fps or fewer --frames")?;
    // An ISO file, version 512, with H.264, for players of MP4.
    let brands = boxed(b"ftyp", &[b"isom", &512u32.to_be_bytes(), b"isom", b"iso2", b"avc1", b"mp41"]);
    // The description's size does not depend on where the pictures begin, which depends on it and the head of `mdat`.
    let begin = brands.len() + describe(stream, timing, duration, 0).len() + 8;
    ensure!(
        u32::try_from(begin + data.len()).is_ok(),
        "an MP4 holds 4 GB of pictures at most; choose fewer --frames or a smaller --size"
    );
    Ok([brands, describe(stream, timing, duration, begin as u32), boxed(b"mdat", &[&data])].concat())
}

/// `moov`: one track, which begins at once and lasts `duration`, its pictures from the file's byte `begin` on.
fn describe(stream: &Stream, timing: Timing, duration: u32, begin: u32) -> Vec<u8> {
    let (scale, duration) = (timing.scale.to_be_bytes(), duration.to_be_bytes());
    let movie = full(
        b"mvhd",
        0,
        // Dates; speed 1, volume 1, reserved; upright; reserved; the next track's number.
        &[&[0; 8], &scale, &duration, &[0, 1, 0, 0, 1, 0], &[0; 10], &upright(), &[0; 24], &[0, 0, 0, 2]],
    );
    // Sizes in 1/65536 of a pixel.
    let [width, height] = [stream.width, stream.height].map(|side| (side << 16).to_be_bytes());
    let track = full(
        b"tkhd",
        // Enabled, in the movie and in its preview.
        7,
        // Dates; the track's number; reserved; then reserved, layer, group, volume (none: no sound), reserved.
        &[&[0; 8], &[0, 0, 0, 1], &[0; 4], &duration, &[0; 16], &upright(), &width, &height],
    );
    // 0x55c4: "und", the language is undetermined.
    let media = full(b"mdhd", 0, &[&[0; 8], &scale, &duration, &[0x55, 0xc4, 0, 0]]);
    let handler = full(b"hdlr", 0, &[&[0; 4], b"vide", &[0; 12], b"video\0"]);
    let video = full(b"vmhd", 1, &[&[0; 8]]);
    // Flag 1: the pictures are in this file.
    let here = full(b"dref", 0, &[&[0, 0, 0, 1], &full(b"url ", 1, &[])]);
    let information = boxed(b"minf", &[&video, &boxed(b"dinf", &[&here]), &samples(stream, timing, begin)]);
    let media = boxed(b"mdia", &[&media, &handler, &information]);
    boxed(b"moov", &[&movie, &boxed(b"trak", &[&track, &media])])
}

/// `stbl`: how the pictures are compressed, how long each is shown, where each lies.
fn samples(stream: &Stream, timing: Timing, begin: u32) -> Vec<u8> {
    let count = (stream.units.len() as u32).to_be_bytes();
    let ticks = timing.ticks.to_be_bytes();
    let numbers = |numbers: Vec<u32>| numbers.into_iter().flat_map(u32::to_be_bytes).collect::<Vec<u8>>();
    let starts: Vec<u32> = (1..).zip(&stream.units).filter(|(_, unit)| unit.starts).map(|(number, _)| number).collect();
    let start_count = (starts.len() as u32).to_be_bytes();
    let sizes = stream.units.iter().map(|unit| unit.bytes.len() as u32).collect();
    let one = [0, 0, 0, 1];
    boxed(
        b"stbl",
        &[
            &full(b"stsd", 0, &[&one, &compression(stream)]),
            // All are shown for as long.
            &full(b"stts", 0, &[&one, &count, &ticks]),
            &full(b"stss", 0, &[&start_count, &numbers(starts)]),
            // From the first chunk on, a chunk has all pictures, of the first description.
            &full(b"stsc", 0, &[&one, &one, &count, &one]),
            // No common size: each its own.
            &full(b"stsz", 0, &[&[0; 4], &count, &numbers(sizes)]),
            &full(b"stco", 0, &[&one, &begin.to_be_bytes()]),
        ],
    )
}

/// `avc1`: the pictures' size, what the decoder must know (`avcC`) and the colours (`colr`), as the stream says them too.
fn compression(stream: &Stream) -> Vec<u8> {
    let length = |nal: &[u8]| (nal.len() as u16).to_be_bytes();
    let (sequence, parameters) = (&stream.sequence, &stream.parameters);
    let decoder = boxed(
        b"avcC",
        &[
            // Version 1; profile, its constraints and level; lengths of four bytes (0xff); one sequence set (0xe1).
            &[&[1], &sequence[1..4], &[0xff, 0xe1]].concat(),
            &length(sequence),
            sequence,
            &[1],
            &length(parameters),
            parameters,
            // For profiles from High on: 4:2:0, eight bits of luma and of chroma, no more sets.
            &[0xfd, 0xf8, 0xf8, 0],
        ],
    );
    // Not the full range.
    let colours = boxed(b"colr", &[b"nclx", &h264::COLOURS.map(|code| [0, code]).concat(), &[0]]);
    let [width, height] = [stream.width, stream.height].map(|side| (side as u16).to_be_bytes());
    // 72 pixels an inch, in 1/65536, both ways.
    let inch = [0, 72, 0, 0, 0, 72, 0, 0];
    boxed(
        b"avc1",
        &[
            // Reserved; the first data reference; reserved.
            &[0, 0, 0, 0, 0, 0, 0, 1],
            &[0; 16],
            &width,
            &height,
            &inch,
            // Reserved; a frame a sample; no compressor's name; 24 bits of colour; -1.
            &[0, 0, 0, 0, 0, 1],
            &[0; 32],
            &[0, 24, 0xff, 0xff],
            &decoder,
            &colours,
        ],
    )
}

/// The matrix that leaves a picture as it is, in 1/65536 and for its last column in 1/2³⁰.
fn upright() -> Vec<u8> {
    [1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1u32 << 30].into_iter().flat_map(u32::to_be_bytes).collect()
}

/// A box of version 0 with `flags`.
fn full(name: &[u8; 4], flags: u32, parts: &[&[u8]]) -> Vec<u8> {
    boxed(name, &[&[&flags.to_be_bytes()[..]], parts].concat())
}

fn boxed(name: &[u8; 4], parts: &[&[u8]]) -> Vec<u8> {
    let size = 8 + parts.iter().map(|part| part.len()).sum::<usize>();
    let head = [(size as u32).to_be_bytes(), *name].concat();
    [&[&head[..]], parts].concat().concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Boxes that hold boxes, and how many bytes stand before these.
    const HOLDERS: [(&[u8; 4], usize); 9] = [
        (b"moov", 0),
        (b"trak", 0),
        (b"mdia", 0),
        (b"minf", 0),
        (b"dinf", 0),
        (b"dref", 8),
        (b"stbl", 0),
        (b"stsd", 8),
        (b"avc1", 78),
    ];

    /// Every box's path and contents; sizes must nest without a byte left over.
    fn boxes<'a>(mut bytes: &'a [u8], path: &str, found: &mut Vec<(String, &'a [u8])>) {
        while !bytes.is_empty() {
            let size = u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize;
            let name = std::str::from_utf8(&bytes[4..8]).unwrap();
            let path = format!("{path}/{name}");
            let contents = &bytes[8..size];
            if let Some((_, before)) = HOLDERS.iter().find(|(holder, _)| *holder == name.as_bytes()) {
                boxes(&contents[*before..], &path, found);
            }
            found.push((path, contents));
            bytes = &bytes[size..];
        }
    }

    fn numbers(contents: &[u8]) -> Vec<u32> {
        contents.as_chunks().0.iter().map(|&bytes| u32::from_be_bytes(bytes)).collect()
    }

    fn pictures(count: u32) -> Vec<Picture> {
        let pixels = |k: u32| (0..33 * 17).flat_map(|p| [(p + 9 * k) as u8, (p / 3) as u8, 90, 255]).collect();
        (0..count).map(|k| Picture { width: 33, height: 17, pixels: pixels(k) }).collect()
    }

    #[test]
    fn a_player_finds_every_picture_and_how_long_it_is_shown() {
        let pictures = pictures(5);
        let bytes = video(&pictures, 23.976).unwrap();
        let mut found = Vec::new();
        boxes(&bytes, "", &mut found);
        let top: Vec<&str> = found.iter().map(|(path, _)| &path[..]).filter(|path| path.len() == 5).collect();
        // The description before the pictures.
        assert_eq!(top, ["/ftyp", "/moov", "/mdat"]);
        let contents =
            |end: &str| found.iter().find(|(path, _)| path.ends_with(end)).unwrap_or_else(|| panic!("{end}")).1;
        let table = |end: &str| numbers(&contents(end)[4..]);
        // Dates, scale, duration.
        assert_eq!(table("/moov/mvhd")[..4], [0, 0, 24_000, 5 * 1001]);
        assert_eq!(table("/trak/mdia/mdhd")[..4], [0, 0, 24_000, 5 * 1001]);
        assert_eq!(table("/moov/trak/tkhd")[18..], [34 << 16, 18 << 16]);
        assert_eq!(table("/stts"), [1, 5, 1001]);
        assert_eq!(table("/stsc"), [1, 1, 5, 1]);
        assert_eq!(table("/stss"), [1, 1]);
        let stream = h264::stream(&pictures).unwrap();
        let sizes: Vec<u32> = stream.units.iter().map(|unit| unit.bytes.len() as u32).collect();
        assert_eq!(table("/stsz"), [&[0, 5], &sizes[..]].concat());
        let begin = table("/stco")[1] as usize;
        let data: Vec<u8> = stream.units.into_iter().flat_map(|unit| unit.bytes).collect();
        assert_eq!(bytes[begin..], data);
        let decoder = contents("/avc1/avcC");
        assert_eq!(decoder[8..8 + stream.sequence.len()], stream.sequence);
        assert_eq!(decoder[11 + stream.sequence.len()..][..stream.parameters.len()], stream.parameters);
        assert_eq!(contents("/avc1/colr"), b"nclx\0\x01\0\x0d\0\x01\0");
    }

    #[test]
    fn the_same_pictures_give_the_same_bytes() {
        assert_eq!(video(&pictures(3), 24.0).unwrap(), video(&pictures(3), 24.0).unwrap());
    }

    #[test]
    fn any_rate_is_kept() {
        for (fps, scale, ticks) in [
            (24.0, 24_000, 1000),
            (23.976, 24_000, 1001),
            (24_000.0 / 1001.0, 24_000, 1001),
            (29.97, 30_000, 1001),
            (59.94, 60_000, 1001),
            (30.0, 30_000, 1000),
            (12.5, 12_500, 1000),
            (0.4, 1000, 2500),
        ] {
            assert_eq!(Timing::of(fps), Timing { scale, ticks }, "{fps}");
        }
        for fps in [1e-9, 1e12] {
            let timing = Timing::of(fps);
            assert!(timing.scale > 0 && timing.ticks > 0, "{fps}: {timing:?}");
        }
        let error = video(&pictures(50), 1e-9).expect_err("50 days are more milliseconds than 32 bits hold");
        assert!(error.to_string().contains("--fps"), "{error}");
    }
}
