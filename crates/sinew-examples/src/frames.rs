//! Which frames train, which test, and how a user names a choice of frames.

use std::fmt;
use std::str::FromStr;

use crate::{ExamplesError, Notice};

/// The frames that train and the frames that are kept unseen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Indices of the training frames.
    pub train: Vec<usize>,
    /// Indices of the test frames; may be empty.
    pub test: Vec<usize>,
}

impl Split {
    /// Every frame trains.
    #[must_use]
    pub fn all(frames: usize) -> Self {
        Self { train: (0..frames).collect(), test: Vec::new() }
    }

    pub(crate) fn check(&self, frames: usize) -> Result<Option<Notice>, ExamplesError> {
        for (what, list) in [("train", &self.train), ("test", &self.test)] {
            if let Some(&frame) = list.iter().find(|&&frame| frame >= frames) {
                return Err(ExamplesError::FrameIndex { what: what.into(), frame: frame as i64, frames });
            }
        }
        let both: Vec<usize> = self.test.iter().copied().filter(|frame| self.train.contains(frame)).collect();
        Ok(both.first().map(|&first| Notice::SplitOverlaps { count: both.len(), first }))
    }
}

/// A choice of frames as the command line gives it: `train`, `test`, `all`, `0,5,10`, `0..40`, `every:5`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrameSelection {
    /// The training frames.
    Train,
    /// The test frames.
    Test,
    /// Every frame.
    All,
    /// These frames.
    List(Vec<usize>),
    /// From the first up to, not including, the second.
    Range(usize, usize),
    /// Every n-th frame from 0 on.
    Every(usize),
}

impl FrameSelection {
    /// The indices it selects among `frames` frames; never empty, never out of range.
    pub fn resolve(&self, split: &Split, frames: usize) -> Result<Vec<usize>, ExamplesError> {
        let list = match self {
            Self::Train => split.train.clone(),
            Self::Test => split.test.clone(),
            Self::All => (0..frames).collect(),
            Self::List(list) => list.clone(),
            Self::Range(from, to) => {
                // The end is looked at before the list is made: `0..99999999999` must not allocate.
                if *to > frames {
                    let last = to.saturating_sub(1) as i64;
                    return Err(ExamplesError::FrameIndex { what: self.to_string(), frame: last, frames });
                }
                (*from..*to).collect()
            }
            Self::Every(step) => (0..frames).step_by((*step).max(1)).collect(),
        };
        if let Some(&frame) = list.iter().find(|&&frame| frame >= frames) {
            return Err(ExamplesError::FrameIndex { what: self.to_string(), frame: frame as i64, frames });
        }
        if list.is_empty() {
            let why = match self {
                Self::Test => "the file names no test frames; choose with all, 0..40 or every:5",
                Self::Train => "the file names no training frames; choose with all, 0..40 or every:5",
                _ => "the range is empty",
            };
            return Err(ExamplesError::NothingSelected { what: self.to_string(), why });
        }
        Ok(list)
    }
}

impl FromStr for FrameSelection {
    type Err = ExamplesError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ExamplesError::FrameSyntax { text: text.into() };
        let number = |part: &str| part.trim().parse::<usize>().map_err(|_| wrong());
        match text.trim() {
            "train" => Ok(Self::Train),
            "test" => Ok(Self::Test),
            "all" => Ok(Self::All),
            other => {
                if let Some(step) = other.strip_prefix("every:") {
                    let step = number(step)?;
                    if step == 0 { Err(wrong()) } else { Ok(Self::Every(step)) }
                } else if let Some((from, to)) = other.split_once("..") {
                    Ok(Self::Range(number(from)?, number(to)?))
                } else {
                    other.split(',').map(number).collect::<Result<_, _>>().map(Self::List)
                }
            }
        }
    }
}

impl fmt::Display for FrameSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Train => f.write_str("train"),
            Self::Test => f.write_str("test"),
            Self::All => f.write_str("all"),
            Self::List(list) => {
                let words: Vec<String> = list.iter().map(ToString::to_string).collect();
                f.write_str(&words.join(","))
            }
            Self::Range(from, to) => write!(f, "{from}..{to}"),
            Self::Every(step) => write!(f, "every:{step}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[usize]) {
        let split = Split { train: vec![0, 2], test: vec![1, 3] };
        let selection: FrameSelection = text.parse().unwrap();
        assert_eq!(selection.to_string(), text);
        assert_eq!(selection.resolve(&split, 6).unwrap(), expected, "{text}");
    }

    #[test]
    fn every_form_is_read_and_written() {
        check("train", &[0, 2]);
        check("test", &[1, 3]);
        check("all", &[0, 1, 2, 3, 4, 5]);
        check("0,5,1", &[0, 5, 1]);
        check("2..5", &[2, 3, 4]);
        check("every:4", &[0, 4]);
    }

    #[test]
    fn nonsense_and_frames_that_do_not_exist_are_refused() {
        for text in ["", "x", "every:0", "every:", "1..x", "-1", "1,,2"] {
            assert!(text.parse::<FrameSelection>().is_err(), "{text}");
        }
        let split = Split::all(3);
        for text in ["3", "0..4", "2..2", "test", "0..99999999999999"] {
            assert!(text.parse::<FrameSelection>().unwrap().resolve(&split, 3).is_err(), "{text}");
        }
    }
}
