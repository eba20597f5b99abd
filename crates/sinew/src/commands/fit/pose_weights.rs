//! `--pose-weights`: how much each pose counts, as a list or from a file.

use std::path::Path;

use anyhow::Context;
use sinew_examples::Examples;

/// `examples` with the weights that `text` gives: `1,2,0.5`, or a file of numbers between spaces, commas or lines. One
/// number a frame of the examples, or one a frame of `frames`.
pub fn apply(examples: Examples, frames: &[usize], text: &str) -> anyhow::Result<Examples> {
    let (list, place) = match parse(text) {
        Ok(list) => (list, "--pose-weights".to_string()),
        Err(_) => {
            let content = std::fs::read_to_string(Path::new(text))
                .with_context(|| format!("--pose-weights {text}: neither a list of numbers nor a readable file"))?;
            (parse(&content).with_context(|| text.to_string())?, text.to_string())
        }
    };
    let count = examples.frame_count();
    let weights = if list.len() == count {
        list
    } else if list.len() == frames.len() {
        let mut weights = vec![1.0; count];
        frames.iter().zip(&list).for_each(|(&e, &w)| weights[e] = w);
        weights
    } else {
        anyhow::bail!(
            "{place} gives {} weights; give {count}, one a frame, or {}, one a training frame",
            list.len(),
            frames.len()
        )
    };
    examples.with_pose_weights(weights).context(place)
}

fn parse(text: &str) -> anyhow::Result<Vec<f64>> {
    let words = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
    let numbers: Vec<f64> = words
        .map(|word| word.parse().with_context(|| format!("`{word}` is not a number")))
        .collect::<Result<_, _>>()?;
    anyhow::ensure!(!numbers.is_empty(), "there are no numbers in it");
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_files_are_read_alike() {
        assert_eq!(parse("1,2, 0.5\n3").unwrap(), [1.0, 2.0, 0.5, 3.0]);
        assert!(parse("1,x").is_err() && parse(" ,").is_err());
    }
}
