//! BVH (Biovision): a skeleton of offsets and its motion as Euler angles in degrees.
//!
//! A joint's rest is a pure translation, `Ĝ = Ĝ_parent · T(offset)`; a frame's local transform is the translation
//! channels (or the offset) and then the rotations in the order of the channels. `End Site`s are not joints. The file
//! says neither units nor axes: metres, Y up are assumed, and `pack` finds from the mesh what they really are.

use std::path::Path;

use glam::{DAffine3, DVec3};
use sinew_examples::{Bone, Pose};

use crate::{Clock, Convention, FileError, Scene, SkeletonClip};

/// Deeper nesting than this is not a skeleton.
const DEEPEST: usize = 256;

/// What a column of numbers moves.
#[derive(Debug, Clone, Copy)]
enum Channel {
    Position(usize),
    Rotation(usize),
}

struct Joint {
    name: String,
    parent: Option<usize>,
    offset: DVec3,
    channels: Vec<Channel>,
}

/// Reads a BVH file.
pub fn read_bvh(path: &Path) -> Result<Scene, FileError> {
    let bytes = std::fs::read(path).map_err(|source| FileError::system(path, source))?;
    let text = String::from_utf8_lossy(&bytes);
    let mut words = Words { path, text: &text, position: 0 };
    let joints = read_hierarchy(&mut words)?;
    let (step, values) = read_motion(&mut words, &joints)?;
    let bones: Vec<Bone> = rest_of(&joints);
    let width: usize = joints.iter().map(|joint| joint.channels.len()).sum();
    let poses: Vec<Pose> = values.chunks_exact(width.max(1)).map(|row| pose_of(&joints, row)).collect();
    let clip = SkeletonClip {
        name: bones[0].name.clone(),
        times: (0..poses.len()).map(|frame| frame as f64 * step).collect(),
        bones,
        poses,
        clock: Clock::FromStart,
        convention: Convention::Assumed,
    };
    Ok(Scene { skeletons: vec![clip], ..Scene::default() })
}

/// The file's words, with the position of the last one for messages.
struct Words<'a> {
    path: &'a Path,
    text: &'a str,
    position: usize,
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Result<&'a str, FileError> {
        let left = &self.text[self.position..];
        let start = left.len() - left.trim_start().len();
        let word = left[start..].split(char::is_whitespace).next().unwrap_or_default();
        self.position += start + word.len();
        if word.is_empty() { Err(self.wrong("the file ends in the middle of something")) } else { Ok(word) }
    }

    fn peek(&mut self) -> Result<&'a str, FileError> {
        let position = self.position;
        let word = self.next();
        self.position = position;
        word
    }

    fn expect(&mut self, expected: &str) -> Result<(), FileError> {
        let found = self.next()?;
        match found.eq_ignore_ascii_case(expected) {
            true => Ok(()),
            false => Err(self.wrong(format!("`{expected}` is expected, `{found}` stands there"))),
        }
    }

    fn number(&mut self) -> Result<f64, FileError> {
        let word = self.next()?;
        let value = word.parse().ok().filter(|value: &f64| value.is_finite());
        value.ok_or_else(|| self.wrong(format!("`{word}` is not a number")))
    }

    fn count(&mut self) -> Result<usize, FileError> {
        let word = self.next()?;
        word.parse().map_err(|_| self.wrong(format!("`{word}` is not a count")))
    }

    fn wrong(&self, what: impl std::fmt::Display) -> FileError {
        let line = 1 + self.text[..self.position].matches('\n').count();
        FileError::format(self.path, format!("at byte {} (line {line}): {what}", self.position))
    }
}

fn read_hierarchy(words: &mut Words<'_>) -> Result<Vec<Joint>, FileError> {
    words.expect("HIERARCHY")?;
    let mut joints: Vec<Joint> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    loop {
        match words.next()? {
            "ROOT" | "JOINT" => {
                let joint = read_joint(words, open.last().copied())?;
                if open.len() > DEEPEST {
                    return Err(words.wrong("joints are nested without end"));
                }
                open.push(joints.len());
                joints.push(joint);
            }
            "End" => {
                words.expect("Site")?;
                words.expect("{")?;
                words.expect("OFFSET")?;
                for _ in 0..3 {
                    words.number()?;
                }
                words.expect("}")?;
            }
            "}" if !open.is_empty() => {
                open.pop();
            }
            "MOTION" if open.is_empty() && !joints.is_empty() => return Ok(joints),
            other => return Err(words.wrong(format!("`{other}` is not expected here"))),
        }
    }
}

fn read_joint(words: &mut Words<'_>, parent: Option<usize>) -> Result<Joint, FileError> {
    let mut name = words.next()?.to_owned();
    // Names may have spaces: everything up to the brace.
    while words.peek()? != "{" {
        name = format!("{name} {}", words.next()?);
    }
    words.expect("{")?;
    words.expect("OFFSET")?;
    let offset = DVec3::new(words.number()?, words.number()?, words.number()?);
    words.expect("CHANNELS")?;
    let count = words.count()?;
    if count > 6 {
        return Err(words.wrong(format!("a joint with {count} channels")));
    }
    let mut channels = Vec::new();
    for _ in 0..count {
        let word = words.next()?;
        let axis = "XYZ".find(word.chars().next().unwrap_or_default().to_ascii_uppercase());
        channels.push(match (axis, word.get(1..).unwrap_or_default().to_ascii_lowercase().as_str()) {
            (Some(axis), "position") => Channel::Position(axis),
            (Some(axis), "rotation") => Channel::Rotation(axis),
            _ => return Err(words.wrong(format!("`{word}` is not a channel"))),
        });
    }
    Ok(Joint { name, parent, offset, channels })
}

/// The seconds between frames, and the numbers of all frames one after the other.
fn read_motion(words: &mut Words<'_>, joints: &[Joint]) -> Result<(f64, Vec<f64>), FileError> {
    words.expect("Frames:")?;
    let frames = words.count()?;
    words.expect("Frame")?;
    words.expect("Time:")?;
    let step = words.number()?;
    if frames == 0 || step <= 0.0 {
        return Err(words.wrong(format!("there are {frames} frames of {step} s")));
    }
    let width: usize = joints.iter().map(|joint| joint.channels.len()).sum();
    let needed = frames.saturating_mul(width);
    // Every number takes at least a digit and a space.
    if needed > words.text.len() / 2 + 1 {
        return Err(words.wrong(format!("{frames} frames of {width} numbers do not fit in the rest of the file")));
    }
    let values = (0..needed).map(|_| words.number()).collect::<Result<Vec<_>, _>>()?;
    Ok((step, values))
}

fn rest_of(joints: &[Joint]) -> Vec<Bone> {
    let mut bones: Vec<Bone> = Vec::new();
    for joint in joints {
        let above = joint.parent.map_or(DAffine3::IDENTITY, |parent| bones[parent].rest);
        let rest = above * DAffine3::from_translation(joint.offset);
        bones.push(Bone { name: joint.name.clone(), parent: joint.parent, rest });
    }
    bones
}

fn pose_of(joints: &[Joint], row: &[f64]) -> Pose {
    let mut globals: Vec<DAffine3> = Vec::new();
    let mut values = row.iter();
    for joint in joints {
        let mut translation = joint.offset;
        let mut rotation = DAffine3::IDENTITY;
        for (channel, &value) in joint.channels.iter().zip(&mut values) {
            match *channel {
                Channel::Position(axis) => translation[axis] = value,
                Channel::Rotation(0) => rotation *= DAffine3::from_rotation_x(value.to_radians()),
                Channel::Rotation(1) => rotation *= DAffine3::from_rotation_y(value.to_radians()),
                Channel::Rotation(_) => rotation *= DAffine3::from_rotation_z(value.to_radians()),
            }
        }
        let above = joint.parent.map_or(DAffine3::IDENTITY, |parent| globals[parent]);
        globals.push(above * DAffine3::from_translation(translation) * rotation);
    }
    Pose { globals }
}
