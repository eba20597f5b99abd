//! The weight step: the best sparse convex weights of every vertex for given bones.
//!
//! Since the weights sum to one, vertex v's error is `wᵀ G w` with the Gram matrix of the single bones' residuals,
//!
//! ```text
//! G_bc = (M_b x̂ − y)·(M_c x̂ − y) = x̂ᵀ (M_bᵀM_c) x̂ − x̂ᵀM_bᵀy − x̂ᵀM_cᵀy + yᵀy .
//! ```
//!
//! `M_bᵀM_c` does not depend on the vertex, and `x̂ᵀ A x̂` is a product of the ten distinct entries of `x̂x̂ᵀ` with those of A.
//! So all Gram matrices of a chunk of vertices are two matrix products, and their cost hardly grows with the frames.

use rayon::prelude::*;
use sinew_linalg::{Mat, product, transposed_product};

use super::problem::{Motion, PRODUCTS, Problem, Weights, dot};
use crate::solve::few::{FewSolver, Gram};

/// Rounding of a Gram entry relative to the trajectory's energy, from which it is the difference.
pub(crate) const ROUNDING: f64 = 1e-14;

/// Weights below this are dropped: at 0.1 % they move a vertex less than a thousandth of what its bones differ by.
const SMALLEST_WEIGHT: f64 = 1e-3;

/// The largest number of bones a vertex.
pub(crate) const MOST: usize = 16;

/// Vertices whose Gram matrices are made together: few enough for them to stay in the cache, enough for the products to be
/// matrix products; fixed, so that nothing depends on the number of threads.
const CHUNK: usize = 128;

/// How thoroughly to look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Search {
    /// From the previous bones only.
    Near,
    /// From all bones as well.
    Whole,
}

/// Weights and what they leave.
#[derive(Debug, Clone)]
pub(crate) struct Solved {
    /// The weights.
    pub weights: Weights,
    /// Each vertex's sum of squares, (V).
    pub errors: Vec<f64>,
}

impl Solved {
    /// The sum of squares.
    pub fn total(&self) -> f64 {
        self.errors.iter().sum()
    }
}

/// The best weights. Vertices in `locked` keep theirs; without previous weights every vertex starts from all bones.
pub(crate) fn solve(
    problem: &Problem,
    motion: &Motion,
    previous: Option<&Weights>,
    most: usize,
    search: Search,
    locked: Option<&[bool]>,
) -> Solved {
    for_each_vertex(problem, motion, most, |solver, v, gram, row| {
        let Some(previous) = previous else { return solve_vertex(solver, gram, most, &[], search, row) };
        let entries = previous.of(v);
        if locked.is_some_and(|locked| locked[v]) {
            row[..entries.len()].copy_from_slice(entries);
            return objective(gram, entries);
        }
        let mut bones = [0; MOST];
        bones.iter_mut().zip(entries).for_each(|(bone, entry)| *bone = entry.0 as usize);
        solve_vertex(solver, gram, most, &bones[..entries.len()], search, row)
    })
}

/// The best weights where a vertex of part `owner[v]` may only use the bones `allowed[owner[v]]`, (B)(B).
pub(crate) fn solve_allowed(
    problem: &Problem,
    motion: &Motion,
    most: usize,
    allowed: &[Vec<bool>],
    owner: &[usize],
) -> Solved {
    let grams = GramMaker::new(motion);
    let bones: Vec<Vec<usize>> = allowed.iter().map(|row| (0..row.len()).filter(|&b| row[b]).collect()).collect();
    let solve_one = |(solver, memory): &mut (FewSolver, Vec<f64>), v: usize| {
        let bones = &bones[owner[v]];
        let mut row = vec![(0, 0.0); most];
        solver.forget();
        let value = solve_vertex(solver, grams.near(problem, v, bones, memory), most, &[], Search::Whole, &mut row);
        row.iter_mut().filter(|entry| entry.1 > 0.0).for_each(|entry| entry.0 = bones[entry.0 as usize] as u32);
        (row, value)
    };
    let solved: Vec<(Vec<(u32, f64)>, f64)> =
        (0..problem.vertex_count()).into_par_iter().map_init(Default::default, solve_one).collect();
    let errors = solved.iter().map(|entry| entry.1).collect();
    Solved { weights: Weights { most, entries: solved.into_iter().flat_map(|entry| entry.0).collect() }, errors }
}

/// Runs `solve` on every vertex's Gram matrix; it fills the row and returns the vertex's sum of squares.
fn for_each_vertex(
    problem: &Problem,
    motion: &Motion,
    most: usize,
    solve: impl Fn(&mut FewSolver, usize, Gram<'_>, &mut [(u32, f64)]) -> f64 + Sync,
) -> Solved {
    let grams = GramMaker::new(motion);
    let starts: Vec<usize> = (0..problem.vertex_count()).step_by(CHUNK).collect();
    let one_chunk = |solver: &mut FewSolver, &start: &usize| {
        let end = (start + CHUNK).min(problem.vertex_count());
        let mut entries = vec![(0, 0.0); (end - start) * most];
        let mut whole = vec![0.0; grams.bones * grams.bones];
        let chunk = grams.chunk(problem, start, end);
        solver.forget();
        let errors = (start..end).zip(entries.chunks_mut(most)).map(|(v, row)| {
            chunk.fill(problem, v, &mut whole);
            let gram = Gram { entries: &whole, n: grams.bones, rounding: ROUNDING * problem.energy[v] };
            solve(solver, v, gram, row)
        });
        let errors = errors.collect();
        Solved { weights: Weights { most, entries }, errors }
    };
    let chunks: Vec<Solved> = starts.par_iter().map_init(FewSolver::default, one_chunk).collect();
    let mut solved = Solved { weights: Weights { most, entries: Vec::new() }, errors: Vec::new() };
    for chunk in chunks {
        solved.weights.entries.extend(chunk.weights.entries);
        solved.errors.extend(chunk.errors);
    }
    solved
}

fn solve_vertex(
    solver: &mut FewSolver,
    gram: Gram<'_>,
    most: usize,
    start: &[usize],
    search: Search,
    row: &mut [(u32, f64)],
) -> f64 {
    let mut value = solver.solve(gram, most, start, search == Search::Whole);
    if solver.entries().any(|(_, w)| w < SMALLEST_WEIGHT) {
        let mut kept = [0; MOST];
        let mut count = 0;
        for (b, _) in solver.entries().filter(|&(_, w)| w >= SMALLEST_WEIGHT) {
            kept[count] = b;
            count += 1;
        }
        value = solver.solve_among(gram, &kept[..count]);
    }
    for (slot, (b, w)) in row.iter_mut().zip(solver.entries()) {
        *slot = (b as u32, w);
    }
    row.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    value
}

fn objective(gram: Gram<'_>, entries: &[(u32, f64)]) -> f64 {
    let at = |a: u32, b: u32| gram.entries[a as usize * gram.n + b as usize];
    entries.iter().map(|&(a, wa)| entries.iter().map(|&(b, wb)| wa * wb * at(a, b)).sum::<f64>()).sum()
}

/// What the Gram matrices of all vertices share.
pub(crate) struct GramMaker<'a> {
    motion: &'a Motion,
    /// The number of bones, B.
    pub bones: usize,
    /// The coefficients of [`PRODUCTS`] in `x̂ᵀ (M_bᵀM_c) x̂` for each pair c ≤ b, (B(B+1)/2, 10).
    pairs: Mat<f64>,
}

/// The two matrix products of a chunk of vertices.
pub(crate) struct GramChunk {
    start: usize,
    bones: usize,
    /// `x̂ᵀ (M_bᵀM_c) x̂`, (pairs, n).
    quadratic: Mat<f64>,
    /// `Mᵀ y`, (4B, n).
    linear: Mat<f64>,
}

impl<'a> GramMaker<'a> {
    /// Prepares the pairs of bones.
    pub fn new(motion: &'a Motion) -> Self {
        let bones = motion.bone_count();
        let cross = transposed_product(motion.matrix.as_ref(), motion.matrix.as_ref());
        let mut pairs = Mat::zeros(bones * (bones + 1) / 2, 10);
        for b in 0..bones {
            for c in 0..=b {
                for (k, &(i, j)) in PRODUCTS.iter().enumerate() {
                    let one = cross[(4 * b + i, 4 * c + j)];
                    let other = if i == j { 0.0 } else { cross[(4 * b + j, 4 * c + i)] };
                    pairs[(b * (b + 1) / 2 + c, k)] = one + other;
                }
            }
        }
        Self { motion, bones, pairs }
    }

    /// The Gram matrix of vertex `v` over `bones` alone, in `memory`.
    pub fn near<'m>(&self, problem: &Problem, v: usize, bones: &[usize], memory: &'m mut Vec<f64>) -> Gram<'m> {
        let n = bones.len();
        let (x, y) = (&problem.rest[v], problem.targets.col_as_slice(v));
        let (products, energy) = (problem.products.col_as_slice(v), problem.energy[v]);
        memory.clear();
        memory.resize(n * n + n, 0.0);
        let (entries, linear) = memory.split_at_mut(n * n);
        for (l, &b) in linear.iter_mut().zip(bones) {
            *l = (0..4).map(|k| x[k] * dot(self.motion.matrix.col_as_slice(4 * b + k), y)).sum();
        }
        for i in 0..n {
            for j in 0..=i {
                let (b, c) = (bones[i].max(bones[j]), bones[i].min(bones[j]));
                let pair = b * (b + 1) / 2 + c;
                let quadratic: f64 = (0..10).map(|k| self.pairs[(pair, k)] * products[k]).sum();
                let value = quadratic + energy - linear[i] - linear[j];
                entries[i * n + j] = value;
                entries[j * n + i] = value;
            }
        }
        Gram { entries: &memory[..n * n], n, rounding: ROUNDING * energy }
    }

    /// The products for vertices `start..end`.
    pub fn chunk(&self, problem: &Problem, start: usize, end: usize) -> GramChunk {
        let n = end - start;
        let products = problem.products.as_ref().subcols(start, n);
        let quadratic = product(self.pairs.as_ref(), products);
        let targets = problem.targets.as_ref().subcols(start, n);
        let linear = transposed_product(self.motion.matrix.as_ref(), targets);
        GramChunk { start, bones: self.bones, quadratic, linear }
    }
}

impl GramChunk {
    /// The Gram matrix of vertex `v`, (B, B), into `gram`.
    pub fn fill(&self, problem: &Problem, v: usize, gram: &mut [f64]) {
        let n = self.bones;
        let (quadratic, linear) =
            (self.quadratic.col_as_slice(v - self.start), self.linear.col_as_slice(v - self.start));
        let [x, y, z, _] = problem.rest[v];
        let energy = problem.energy[v];
        let mut pair = 0;
        for b in 0..n {
            let l = &linear[4 * b..4 * b + 4];
            let l_b = x * l[0] + y * l[1] + z * l[2] + l[3];
            // Until the end the diagonal holds x̂ᵀM_bᵀy.
            gram[b * n + b] = l_b;
            for c in 0..b {
                let value = quadratic[pair] + energy - l_b - gram[c * n + c];
                gram[b * n + c] = value;
                gram[c * n + b] = value;
                pair += 1;
            }
            pair += 1;
        }
        for b in 0..n {
            let l_b = gram[b * n + b];
            gram[b * n + b] = quadratic[b * (b + 1) / 2 + b] + energy - 2.0 * l_b;
        }
    }
}
