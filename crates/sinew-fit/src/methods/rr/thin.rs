//! Drawing weights thinned for the kernel (ours): fewer palette entries where they hardly show.
//!
//! The run time poses vertices in registers of eight, and a register visits every entry that any of its vertices uses: an
//! entry that one of them hardly needs costs as much as one that all of them need. So entries leave a whole register at a
//! time. With G_v the Gram matrix of vertex v's residuals, a register R with entries U costs
//!
//!   E(U) = Σ_{v∈R} min { wᵀ G_v w : w ≥ 0, Σ w = 1, w nil outside of U, at most K entries };
//!
//! entries are taken from U one after the other, each time the one that raises E least. Over all registers those steps
//! are taken that raise it least an entry, while together they stay within what may be lost.

use glam::DAffine3;
use rayon::prelude::*;
use sinew_runtime::Writing;

use super::weights::{SMALLEST_WEIGHT, residual_gram};
use crate::Training;
use crate::methods::ssd::SparseWeights;
use crate::solve::simplex::{self, Workspace, objective};
use crate::to_model;

/// Registers are filled anew with what is left and thinned again: vertices that use the same entries now stand together.
const ROUNDS: usize = 2;

/// No single step may lose more than this part of what all may lose together: nothing shows in one place.
const STEP: f64 = 0.01;

/// A vertex's (entry, weight) pairs.
type Pairs = Vec<(usize, f64)>;

/// What plain rotational regression may lose, of the squared error that is there ([`shown`]): nothing that shows.
const HARDLY: f64 = 1e-4;

/// What it may lose if that brings a frame down to the time of plain skinning by a count of cycles (which leaves out what registers
/// that share a block visit in vain: measured, it comes to a seventh more): a hundredth of the error that shows.
const LITTLE: f64 = 0.02;

/// About how many cycles it takes to predict proxy bones: at all, for a key gradient and for a block of c₁ or c₂ (Zen 5).
const BEGUN: f32 = 300.0;
const GRADIENT: f32 = 31.0;
const BLOCK: f32 = 3.0;

/// When to stop.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// By how much the squared error over the training poses may grow, square metres.
    pub loss: f64,
    /// The [`visits`] that are few enough.
    pub visits: usize,
}

/// The squared error beside which a loss shows or does not: halfway, in root mean squares, from the poses of the fit to
/// left-out ones, if some were. Not the error to expect, which nears nil with that of the poses of the fit: nothing could
/// then leave a model that meets them.
#[must_use]
pub fn shown(training: f64, left_out: Option<f64>) -> f64 {
    left_out.map_or(training, |left_out| training.sqrt().midpoint(left_out.sqrt()).powi(2))
}

/// Takes entries from `weights` within `limits`. `proxies` (N)(P) are the proxies' transforms, and a vertex keeps at most
/// `influences` entries.
#[must_use]
pub fn thin(
    training: &Training,
    proxies: &[Vec<DAffine3>],
    weights: SparseWeights,
    influences: usize,
    limits: Limits,
) -> SparseWeights {
    let mut weights = weights;
    for _ in 0..ROUNDS {
        let registers = registers(&weights);
        let visited = visits_of(&registers, &weights);
        let steps = |room: &mut Workspace, vertices: &Vec<usize>| {
            Register::new(training, proxies, &weights, vertices, influences).steps(STEP * limits.loss, room)
        };
        let steps: Vec<Vec<Step>> = registers.par_iter().map_init(Workspace::default, steps).collect();
        for step in cheapest(&steps, limits.loss / ROUNDS as f64, visited.saturating_sub(limits.visits)) {
            for (v, pairs) in &step.changed {
                weights.vertices[*v].clone_from(pairs);
            }
        }
    }
    weights
}

/// Takes entries from `weights` that hardly show beside an error of `shown`.
#[must_use]
pub fn hardly(
    training: &Training,
    proxies: &[Vec<DAffine3>],
    weights: SparseWeights,
    influences: usize,
    shown: f64,
) -> SparseWeights {
    thin(training, proxies, weights, influences, Limits { loss: HARDLY * shown, visits: 0 })
}

/// The same, and more of them if that brings a frame down to about the time of plain skinning with `skin`: large meshes may get
/// there, small ones do not and keep what they have. Beside drawing, a frame predicts the proxies from so many `blocks`.
#[must_use]
pub fn toward_skinning(
    training: &Training,
    proxies: &[Vec<DAffine3>],
    weights: SparseWeights,
    influences: usize,
    shown: f64,
    skin: &SparseWeights,
    blocks: usize,
) -> SparseWeights {
    let weights = hardly(training, proxies, weights, influences, shown);
    let cycles = |weights: &SparseWeights| sinew_runtime::skinning_cycles(&to_model::skin(weights));
    let predicted = BEGUN + GRADIENT * proxies.first().map_or(0, Vec::len) as f32 + BLOCK * blocks as f32;
    let afforded = cycles(skin) - predicted;
    let over = (cycles(&weights) - afforded).max(0.0) / Writing::VISIT;
    let limits = Limits { loss: LITTLE * shown, visits: visits(&weights).saturating_sub(over.ceil() as usize) };
    if over == 0.0 || limits.visits == 0 {
        return weights;
    }
    let fewer = thin(training, proxies, weights.clone(), influences, limits);
    if cycles(&fewer) <= afforded { fewer } else { weights }
}

/// Multiply-adds a visit: twelve for each of eight vertices.
pub const VISIT: usize = 96;

/// How many entries all registers visit together.
#[must_use]
pub fn visits(weights: &SparseWeights) -> usize {
    visits_of(&registers(weights), weights)
}

fn visits_of(registers: &[Vec<usize>], weights: &SparseWeights) -> usize {
    registers.iter().map(|vertices| entries(weights, vertices).len()).sum()
}

/// Vertices that are posed together.
fn registers(weights: &SparseWeights) -> Vec<Vec<usize>> {
    sinew_runtime::registers(&to_model::skin(weights))
}

/// The entries that any of `vertices` uses, ascending.
fn entries(weights: &SparseWeights, vertices: &[usize]) -> Vec<usize> {
    let mut entries: Vec<usize> = vertices.iter().flat_map(|&v| weights.vertices[v].iter().map(|&(i, _)| i)).collect();
    entries.sort_unstable();
    entries.dedup();
    entries
}

/// Vertices that are posed together.
struct Register<'a> {
    /// The entries in use, U, and which of them are left.
    entries: Vec<usize>,
    left: Vec<usize>,
    vertices: &'a [usize],
    /// G of each vertex over U.
    grams: Vec<Vec<f64>>,
    /// The pairs of each vertex, entries counted within U, and its error.
    pairs: Vec<Pairs>,
    errors: Vec<f64>,
    influences: usize,
}

/// An entry leaves a register.
#[derive(Debug, Clone)]
struct Step {
    /// By how much the error grows.
    loss: f64,
    /// The pairs of the vertices that used it.
    changed: Vec<(usize, Pairs)>,
}

impl<'a> Register<'a> {
    fn new(
        training: &Training,
        proxies: &[Vec<DAffine3>],
        weights: &SparseWeights,
        vertices: &'a [usize],
        influences: usize,
    ) -> Self {
        let entries = entries(weights, vertices);
        let grams = vertices.iter().map(|&v| residual_gram(training, &entries, proxies, v)).collect();
        let within = |&(i, w): &(usize, f64)| (entries.binary_search(&i).expect("it was listed"), w);
        let pairs: Vec<Pairs> = vertices.iter().map(|&v| weights.vertices[v].iter().map(within).collect()).collect();
        let left = (0..entries.len()).collect();
        let mut register = Self { left, vertices, grams, errors: Vec::new(), pairs, influences, entries };
        register.errors = (0..vertices.len()).map(|l| register.error(l, &register.pairs[l])).collect();
        register
    }

    fn error(&self, lane: usize, pairs: &[(usize, f64)]) -> f64 {
        objective(&self.grams[lane], self.entries.len(), pairs)
    }

    /// The steps down to one entry, or to where a single one loses more than `most`.
    fn steps(mut self, most: f64, room: &mut Workspace) -> Vec<Step> {
        let mut steps = Vec::new();
        while self.left.len() > 1 {
            let without: Vec<(f64, Vec<(usize, Pairs)>)> =
                self.left.iter().map(|&entry| self.without(entry, room)).collect();
            let best = (0..without.len()).min_by(|&a, &b| without[a].0.total_cmp(&without[b].0)).unwrap_or(0);
            let (loss, changed) = without.into_iter().nth(best).expect("more than one entry is left");
            if loss > most {
                break;
            }
            self.left.remove(best);
            for (lane, pairs) in &changed {
                self.errors[*lane] = self.error(*lane, pairs);
                self.pairs[*lane].clone_from(pairs);
            }
            let outside = |(lane, pairs): (usize, Pairs)| {
                (self.vertices[lane], pairs.into_iter().map(|(i, w)| (self.entries[i], w)).collect())
            };
            steps.push(Step { loss, changed: changed.into_iter().map(outside).collect() });
        }
        steps
    }

    /// How much the error grows without `entry`, and the pairs of the lanes that used it.
    fn without(&self, entry: usize, room: &mut Workspace) -> (f64, Vec<(usize, Pairs)>) {
        let among: Vec<usize> = self.left.iter().copied().filter(|&i| i != entry).collect();
        let mut loss = 0.0;
        let mut changed = Vec::new();
        for lane in 0..self.vertices.len() {
            if self.pairs[lane].iter().all(|&(i, _)| i != entry) {
                continue;
            }
            let n = self.entries.len();
            let pairs =
                simplex::solve_sparse_among(&self.grams[lane], n, &among, self.influences, SMALLEST_WEIGHT, room);
            loss += self.error(lane, &pairs) - self.errors[lane];
            changed.push((lane, pairs));
        }
        (loss, changed)
    }
}

/// The steps of all registers that lose least: `enough` of them, or as many as lose no more than `most` together. Steps of
/// a register are taken in their order: one that must wait for dearer ones counts as dear as their mean.
fn cheapest(registers: &[Vec<Step>], most: f64, enough: usize) -> impl Iterator<Item = &Step> {
    let mut segments: Vec<(f64, usize, std::ops::Range<usize>)> = Vec::new();
    for (r, steps) in registers.iter().enumerate() {
        let first = segments.len();
        for k in 0..steps.len() {
            let mut segment = (steps[k].loss, r, k..k + 1);
            // The lower convex hull of the error over the number of steps.
            while segments.len() > first && segments[segments.len() - 1].0 >= segment.0 {
                let (_, _, before) = segments.pop().expect("there is one");
                let range = before.start..k + 1;
                let mean = steps[range.clone()].iter().map(|step| step.loss).sum::<f64>() / range.len() as f64;
                segment = (mean, r, range);
            }
            segments.push(segment);
        }
    }
    segments.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).then(a.2.start.cmp(&b.2.start)));
    let (mut lost, mut taken) = (0.0, 0);
    let affordable = segments.into_iter().take_while(move |(mean, _, range)| {
        let more = taken < enough;
        lost += mean * range.len() as f64;
        taken += range.len();
        more && lost <= most
    });
    affordable.flat_map(|(_, r, range)| &registers[r][range])
}

#[cfg(test)]
mod tests {
    use super::super::weights::{drawing_error, solve_weights};
    use super::*;

    fn step(loss: f64) -> Step {
        Step { loss, changed: Vec::new() }
    }

    fn taken(registers: &[Vec<Step>], most: f64, enough: usize) -> Vec<f64> {
        cheapest(registers, most, enough).map(|step| step.loss).collect()
    }

    #[test]
    fn the_cheapest_steps_of_all_registers_are_taken_in_their_order() {
        let registers = [vec![step(1.0), step(4.0)], vec![step(2.0), step(3.0)]];
        assert_eq!(taken(&registers, 6.0, 10), [1.0, 2.0, 3.0]);
        assert_eq!(taken(&registers, 100.0, 2), [1.0, 2.0]);
        assert!(taken(&registers, 0.5, 10).is_empty());
    }

    #[test]
    fn a_cheap_step_behind_a_dear_one_counts_with_it() {
        let registers = [vec![step(5.0), step(1.0)], vec![step(2.0)]];
        assert_eq!(taken(&registers, 100.0, 10), [2.0, 5.0, 1.0]);
        // Both together or none: what the second gains is not to be had alone.
        assert_eq!(taken(&registers, 7.5, 10), [2.0]);
    }

    #[test]
    fn more_goes_where_that_reaches_the_time_of_plain_skinning_and_only_there() {
        let examples = sinew_examples::datasets::by_name("shoulder").unwrap().make();
        let training = Training::new(&examples, &examples.split().train).unwrap();
        // The bones in place of proxies, the best weights of two of them, and the heavier one alone.
        let proxies: Vec<Vec<DAffine3>> = training.transforms.clone();
        let two = solve_weights(&training, &vec![vec![0, 1]; training.vertex_count()], &proxies, 2);
        let one = SparseWeights { vertices: two.vertices.iter().map(|pairs| vec![(pairs[0].0, 1.0)]).collect() };
        let few = SparseWeights { vertices: vec![vec![(0, 1.0)]; 8] };
        // An error beside which half of the second entries may go, and hardly any of them.
        let lost = drawing_error(&training, &one, &proxies) - drawing_error(&training, &two, &proxies);
        let shown = 0.5 * lost / LITTLE;
        let base = visits(&hardly(&training, &proxies, two.clone(), 2, shown));
        let toward = |skin: &SparseWeights, blocks: usize| {
            visits(&toward_skinning(&training, &proxies, two.clone(), 2, shown, skin, blocks))
        };
        // Predicting takes some sixty visits. Beside a skin that makes forty more, another bone for so many registers, some
        // entries must go; beside one of eight vertices or many blocks no number of them would do, and all stay.
        let more = |k: usize| {
            let third =
                |(v, pairs): (usize, &Pairs)| pairs.iter().copied().chain((v < 8 * k).then_some((2, 0.01))).collect();
            SparseWeights { vertices: two.vertices.iter().enumerate().map(third).collect() }
        };
        let reached = toward(&more(40), 0);
        assert!(reached < base && reached > visits(&one), "{reached} of {base}");
        assert_eq!([toward(&few, 0), toward(&two, 100_000), toward(&more(200), 0)], [base; 3]);
    }
}
