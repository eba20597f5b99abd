//! What to choose, and why, in words.

use super::contest::{Contender, Contest, Finished};

/// A limit that the user sets: the most bytes a frame may read, microseconds it may take, joints it may upload.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Budget {
    /// Bytes of model data a frame reads.
    pub bytes: Option<f64>,
    /// Microseconds a frame on one thread.
    pub microseconds: Option<f64>,
    /// Matrices in the palette: bones, and proxy bones where a method has them.
    pub joints: Option<f64>,
}

impl std::str::FromStr for Budget {
    type Err = String;

    /// `bytes=200k,microseconds=80,joints=64`, in any order; `k` and `M` are thousands and millions.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut budget = Self::default();
        for part in text.split(',') {
            let (name, value) = part.split_once('=').ok_or_else(|| format!("`{part}` is not NAME=NUMBER"))?;
            let (digits, factor) = match value.trim().strip_suffix(['k', 'K']) {
                Some(digits) => (digits, 1e3),
                None => value.trim().strip_suffix('M').map_or((value.trim(), 1.0), |digits| (digits, 1e6)),
            };
            let number = digits.parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0);
            let number = factor * number.ok_or_else(|| format!("`{value}` is not a positive number"))?;
            match name.trim() {
                "bytes" => budget.bytes = Some(number),
                "microseconds" => budget.microseconds = Some(number),
                "joints" => budget.joints = Some(number),
                other => return Err(format!("`{other}` is not bytes, microseconds or joints")),
            }
        }
        Ok(budget)
    }
}

impl Budget {
    /// Which limit `finished` breaks, in words.
    fn broken(&self, finished: &Finished) -> Option<String> {
        let over = |name: &str, found: f64, most: Option<f64>| {
            most.filter(|&most| found > most).map(|most| format!("{found:.0} {name} where {most:.0} are allowed"))
        };
        over("bytes", finished.model.cost().bytes as f64, self.bytes)
            .or_else(|| over("microseconds", finished.microseconds, self.microseconds))
            .or_else(|| over("joints", palette(finished) as f64, self.joints))
    }
}

/// Matrices that a frame uploads: the skeleton's bones, and the proxy bones of rotational regression.
pub fn palette(finished: &Finished) -> usize {
    let bones = finished.model.character.bones.len();
    match &finished.model.deformer {
        sinew_runtime::Deformer::RotationalRegression(rr) => bones + rr.predictors.len(),
        _ => bones,
    }
}

/// The error that decides: on unseen poses.
pub fn error(finished: &Finished) -> f64 {
    finished.test.details.measures.ee_percent
}

/// The contenders that no other beats in both error and `cost`, cheapest first.
pub fn frontier(contest: &Contest, cost: impl Fn(&Finished) -> f64) -> Vec<(&Contender, &Finished)> {
    let mut all: Vec<_> = contest.finished().collect();
    all.sort_by(|a, b| cost(a.1).total_cmp(&cost(b.1)).then(error(a.1).total_cmp(&error(b.1))));
    let mut best = f64::INFINITY;
    all.retain(|(_, finished)| {
        let better = error(finished) < best;
        best = best.min(error(finished));
        better
    });
    all
}

/// The best under a budget, in words.
pub fn under_budget(contest: &Contest, budget: &Budget) -> String {
    let fits = contest.finished().filter(|(_, finished)| budget.broken(finished).is_none());
    match fits.min_by(|a, b| error(a.1).total_cmp(&error(b.1))) {
        Some((contender, finished)) => {
            let mut words = format!(
                "Under this budget choose {} ({}): {:.1} % error on {}, {} bytes, {:.0} µs a frame, {} joints.",
                contender.title,
                contender.name,
                error(finished),
                contest.rules.measured(),
                finished.model.cost().bytes,
                finished.microseconds,
                palette(finished)
            );
            let better = contest.finished().filter(|(_, other)| error(other) < error(finished));
            let nearest = better.max_by(|a, b| error(a.1).total_cmp(&error(b.1)));
            if let Some((contender, other)) = nearest
                && let Some(broken) = budget.broken(other)
            {
                words.push_str(&format!(
                    " The next better, {} ({:.1} %), needs {broken}.",
                    contender.title,
                    error(other)
                ));
            }
            words
        }
        None => "No method fits this budget.".into(),
    }
}

/// A paragraph each: what to choose and why.
pub fn words(contest: &Contest) -> Vec<String> {
    let Some((best, best_finished)) = contest.finished().min_by(|a, b| error(a.1).total_cmp(&error(b.1))) else {
        return vec!["No method could be fitted; see the reasons in the table.".into()];
    };
    let mut words = Vec::new();
    let unseen = contest.rules.measured();
    let mut first = format!(
        "{} ({}) has the least error on {unseen}: {:.1} % of the best rigid binding's",
        best.title,
        best.name,
        error(best_finished)
    );
    match contest.finished().find(|(contender, _)| contender.name == "ssd") {
        Some((_, ssd)) if best.name != "ssd" => first.push_str(&format!(
            ", against {:.1} % for linear blend skinning, at {:.1} times its time a frame and {:.1} times its bytes.",
            error(ssd),
            best_finished.microseconds / ssd.microseconds,
            best_finished.model.cost().bytes as f64 / ssd.model.cost().bytes as f64
        )),
        _ => first.push('.'),
    }
    words.push(first);
    words.extend(cheaper(contest, best, best_finished));
    words.extend(limited(contest));
    words.extend(overfitted(contest));
    words
}

/// A much cheaper method that is nearly as good, if there is one.
fn cheaper(contest: &Contest, best: &Contender, best_finished: &Finished) -> Option<String> {
    let nearly = |finished: &Finished| {
        // A quarter more error for at most two thirds of the time: worth a mention.
        error(finished) <= 1.25 * error(best_finished) && finished.microseconds <= 0.67 * best_finished.microseconds
    };
    let (contender, finished) = contest
        .finished()
        .filter(|(contender, finished)| contender.name != best.name && nearly(finished))
        .min_by(|a, b| a.1.microseconds.total_cmp(&b.1.microseconds))?;
    Some(format!(
        "Where time counts, {} ({}) comes near it, {:.1} %, at {:.0} % of the time a frame.",
        contender.title,
        contender.name,
        error(finished),
        100.0 * finished.microseconds / best_finished.microseconds
    ))
}

/// Whether more proxy bones or more poses would help the best method that has proxy bones.
fn limited(contest: &Contest) -> Option<String> {
    let with_limit = contest.finished().filter_map(|(c, f)| Some((c, f, f.limit_percent?)));
    let (contender, finished, limit) = with_limit.min_by(|a, b| error(a.1).total_cmp(&error(b.1)))?;
    Some(limit_words(&contender.name, error(finished), limit))
}

/// What the distance of an error from its limit means. Errors add up in squares: `error² = limit² + prediction²`, so a
/// limit above 0.7 of the error is more than half of it.
fn limit_words(name: &str, error: f64, limit: f64) -> String {
    let advice = if limit > 0.7 * error {
        "Most of what remains is how finely the proxy bones can draw: more proxy bones (--proxy-bones) would help, more poses little."
    } else if limit < 0.5 * error {
        "Most of what remains is prediction: more training poses would help, more proxy bones little; `sinew suggest` says which poses."
    } else {
        "Both more training poses and more proxy bones (--proxy-bones) would help."
    };
    format!(
        "With the best possible transforms for each unseen pose the proxy bones of {name} would leave {limit:.1} % (the limit) instead of {error:.1} %. {advice}"
    )
}

/// Methods that know the training poses much better than unseen ones.
fn overfitted(contest: &Contest) -> Option<String> {
    let names: Vec<&str> = contest
        .finished()
        .filter(|(_, finished)| {
            let train = finished.train.details.measures.ee_percent;
            error(finished) > 20.0 && error(finished) > 3.0 * train
        })
        .map(|(contender, _)| contender.name.as_str())
        .collect();
    if names.is_empty() {
        return None;
    }
    Some(format!(
        "Much better on the training poses than on unseen ones: {}. More poses would help these most; `sinew suggest` says which.",
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_says_what_would_help() {
        assert!(limit_words("rr", 10.0, 2.0).contains("more training poses would help"));
        assert!(
            limit_words("rr", 10.0, 9.0).contains("more proxy bones (--proxy-bones) would help, more poses little")
        );
        assert!(limit_words("rr", 10.0, 6.0).contains("Both"));
    }

    #[test]
    fn a_budget_is_read_with_its_units() {
        let budget: Budget = "bytes=200k,microseconds=80,joints=64".parse().unwrap();
        assert_eq!(budget, Budget { bytes: Some(200e3), microseconds: Some(80.0), joints: Some(64.0) });
        assert_eq!("bytes=1.5M".parse::<Budget>().unwrap().bytes, Some(1.5e6));
        for wrong in ["", "bytes", "bytes=", "bytes=-1", "bytes=x", "colour=3", "bytes=nan"] {
            assert!(wrong.parse::<Budget>().is_err(), "{wrong}");
        }
    }
}
