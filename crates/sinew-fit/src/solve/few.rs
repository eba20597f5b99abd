//! Convex weights with few entries: minimise `wᵀ G w` subject to `w ≥ 0`, `Σ w = 1`, at most K of them not zero.
//!
//! The same problem as [`super::simplex`], made for the inner loop of an alternation: it starts from the previous entries,
//! keeps its memory, and never returns something worse than the best weights over those entries. Problems that are much
//! alike start from the last one's passive set. Two searches, and the better one wins:
//!
//! - *whole*: Wolfe's algorithm over all candidates ("Finding the nearest point in a polytope", 1976), then backward
//!   elimination to K entries;
//! - *near*: from the given entries, let the candidate with the steepest descent enter, eliminate back to K, and repeat
//!   while that pays.
//!
//! Both carry the inverse `H = G_PP⁻¹` of the passive set P along. On P's affine hull the minimiser is `H1 / (1ᵀH1)` and
//! the minimum `1 / (1ᵀH1)`; a candidate enters or leaves by a rank-one change of H; and without candidate k the minimum
//! is `1 / (1ᵀH1 − (H1)_k² / H_kk)`, so the cheapest loss is the smallest `(H1)_k² / H_kk`.

/// The largest passive set. Wolfe's algorithm stops there; the entries are eliminated down to K ≤ 16 anyway.
const CAPACITY: usize = 24;

/// Ridge on the diagonal relative to the smallest single-candidate error: candidates that move alike share the weight.
const RIDGE: f64 = 1e-9;

/// A candidate enters if its gradient lies below the objective by more than this fraction.
const ENTRY: f64 = 1e-3;

/// The Gram matrix of one problem, (n, n) row by row.
#[derive(Debug, Clone, Copy)]
pub struct Gram<'a> {
    /// The entries.
    pub entries: &'a [f64],
    /// The number of candidates.
    pub n: usize,
    /// Differences below this are rounding.
    pub rounding: f64,
}

impl Gram<'_> {
    fn at(&self, i: usize, j: usize) -> f64 {
        self.entries[i * self.n + j]
    }

    fn row(&self, i: usize) -> &[f64] {
        &self.entries[i * self.n..(i + 1) * self.n]
    }
}

/// A passive set, its weights and the inverse of its Gram matrix.
#[derive(Debug, Clone)]
struct Passive {
    count: usize,
    set: [usize; CAPACITY],
    weight: [f64; CAPACITY],
    /// `H`, (count, count).
    inverse: [[f64; CAPACITY]; CAPACITY],
    /// `H1`, (count).
    sums: [f64; CAPACITY],
}

/// A passive set alone, to return to.
#[derive(Debug, Clone, Copy)]
struct Support {
    count: usize,
    set: [usize; CAPACITY],
}

impl Support {
    fn slice(&self) -> &[usize] {
        &self.set[..self.count]
    }
}

/// Solves one problem after the other in the same memory.
#[derive(Debug, Clone)]
pub struct FewSolver {
    passive: Passive,
    /// The gradient `G w` of every candidate, (n).
    gradient: Vec<f64>,
    ridge: f64,
    /// The passive set of the last search from all candidates; empty at first.
    last: Support,
}

impl Default for FewSolver {
    fn default() -> Self {
        let passive = Passive {
            count: 0,
            set: [0; CAPACITY],
            weight: [0.0; CAPACITY],
            inverse: [[0.0; CAPACITY]; CAPACITY],
            sums: [0.0; CAPACITY],
        };
        Self { passive, gradient: Vec::new(), ridge: 0.0, last: Support { count: 0, set: [0; CAPACITY] } }
    }
}

impl FewSolver {
    /// Solves for at most `most` entries and returns the objective; the entries are then in [`FewSolver::entries`].
    /// `start` are the candidates to start from (may be empty); `whole` says whether to search from all candidates too.
    /// Without a start, the last search's set is one: [`FewSolver::forget`] it if the candidates are others.
    pub fn solve(&mut self, gram: Gram<'_>, most: usize, start: &[usize], whole: bool) -> f64 {
        let best = (0..gram.n).min_by(|&a, &b| gram.at(a, a).total_cmp(&gram.at(b, b))).unwrap_or(0);
        let single = gram.at(best, best);
        self.ridge = RIDGE * single + gram.rounding;
        if single <= gram.rounding {
            self.begin(gram, &[best]);
            return single.max(0.0);
        }
        if !whole && !start.is_empty() {
            self.begin(gram, start);
            return self.climb(gram, most);
        }
        self.begin(gram, if start.is_empty() { std::slice::from_ref(&best) } else { start });
        let before = (self.support(), self.value(gram));
        if start.is_empty() && self.last.count > 0 {
            let last = self.last;
            self.begin(gram, last.slice());
        }
        self.wolfe(gram);
        self.last = self.support();
        self.eliminate(gram, most);
        let value = self.climb(gram, most);
        if value <= before.1 {
            return value;
        }
        self.begin(gram, before.0.slice());
        self.climb(gram, most)
    }

    /// Forgets the last problem, so that what follows does not depend on it. Between problems that are much alike, such as
    /// those of neighbouring vertices, the last passive set is a good start.
    pub fn forget(&mut self) {
        self.last.count = 0;
    }

    /// The best weights over `candidates` only, no more than 16 of them; returns the objective.
    pub fn solve_among(&mut self, gram: Gram<'_>, candidates: &[usize]) -> f64 {
        let best = candidates.iter().map(|&i| gram.at(i, i)).fold(f64::INFINITY, f64::min);
        self.ridge = RIDGE * best + gram.rounding;
        self.begin(gram, candidates);
        self.value(gram)
    }

    /// The entries of the last solution, in no particular order.
    pub fn entries(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        let passive = &self.passive;
        passive.set[..passive.count].iter().copied().zip(passive.weight[..passive.count].iter().copied())
    }

    fn support(&self) -> Support {
        Support { count: self.passive.count, set: self.passive.set }
    }

    /// The best weights over `start`.
    fn begin(&mut self, gram: Gram<'_>, start: &[usize]) {
        self.passive.count = 0;
        for &candidate in &start[..start.len().min(CAPACITY)] {
            self.enter(gram, candidate);
        }
        let passive = &mut self.passive;
        if passive.count == 0 {
            // Every candidate was refused as no different from nothing; any one will do.
            passive.count = 1;
            passive.set[0] = start[0];
            passive.inverse[0][0] = 1.0;
            passive.sums[0] = 1.0;
        }
        passive.weight[..passive.count].fill(1.0 / passive.count as f64);
        self.settle();
    }

    /// `wᵀ G w`.
    fn value(&self, gram: Gram<'_>) -> f64 {
        let passive = &self.passive;
        let mut sum = 0.0;
        for i in 0..passive.count {
            let row = gram.row(passive.set[i]);
            let mut part = 0.5 * passive.weight[i] * row[passive.set[i]];
            for j in 0..i {
                part += passive.weight[j] * row[passive.set[j]];
            }
            sum += 2.0 * passive.weight[i] * part;
        }
        sum
    }

    /// The candidate with the lowest gradient, if that lies below the objective by more than [`ENTRY`] of it and rounding.
    fn steepest(&mut self, gram: Gram<'_>) -> Option<usize> {
        let passive = &self.passive;
        self.gradient.clear();
        self.gradient.resize(gram.n, 0.0);
        for k in 0..passive.count {
            let w = passive.weight[k];
            for (g, entry) in self.gradient.iter_mut().zip(gram.row(passive.set[k])) {
                *g += w * entry;
            }
        }
        let level: f64 = (0..passive.count).map(|k| passive.weight[k] * self.gradient[passive.set[k]]).sum();
        for &i in &passive.set[..passive.count] {
            self.gradient[i] = f64::INFINITY;
        }
        let mut lowest = level - (ENTRY * level).max(gram.rounding);
        let mut found = None;
        for (i, &g) in self.gradient.iter().enumerate() {
            if g < lowest {
                (lowest, found) = (g, Some(i));
            }
        }
        found
    }

    /// Wolfe's algorithm from the current set until no candidate descends or the set is full.
    fn wolfe(&mut self, gram: Gram<'_>) {
        // Each candidate enters a few times at most in practice; the bound stops cycling on rounding.
        for _ in 0..3 * gram.n + 10 {
            if self.passive.count == CAPACITY {
                return;
            }
            let Some(entering) = self.steepest(gram) else { return };
            if !self.enter(gram, entering) {
                return;
            }
            self.settle();
        }
    }

    /// Swaps candidates in while that lowers the objective; returns it.
    fn climb(&mut self, gram: Gram<'_>, most: usize) -> f64 {
        let mut value = self.value(gram);
        for _ in 0..2 * most {
            let Some(entering) = self.steepest(gram) else { break };
            let before = self.support();
            let entered = self.enter(gram, entering);
            if entered {
                self.settle();
                self.eliminate(gram, most);
            }
            let after = self.value(gram);
            if !entered || after >= value * (1.0 - ENTRY) {
                self.begin(gram, before.slice());
                break;
            }
            value = after;
        }
        value
    }

    /// Takes entries away, cheapest first, until `most` are left; then solves for those afresh.
    fn eliminate(&mut self, gram: Gram<'_>, most: usize) {
        if self.passive.count <= most {
            return;
        }
        while self.passive.count > most {
            let passive = &self.passive;
            let loss = |k: usize| passive.sums[k] * passive.sums[k] / passive.inverse[k][k];
            let cheapest = (0..passive.count).min_by(|&a, &b| loss(a).total_cmp(&loss(b))).unwrap_or(0);
            self.leave(cheapest);
            let passive = &mut self.passive;
            let total: f64 = passive.weight[..passive.count].iter().sum();
            let even = 1.0 / passive.count as f64;
            for w in &mut passive.weight[..passive.count] {
                *w = if total > 0.0 { *w / total } else { even };
            }
            self.settle();
        }
        let support = self.support();
        self.begin(gram, support.slice());
    }

    /// Adds a candidate with weight zero; false (and nothing changed) if it is a combination of the others.
    fn enter(&mut self, gram: Gram<'_>, candidate: usize) -> bool {
        let passive = &mut self.passive;
        let m = passive.count;
        let row = gram.row(candidate);
        let (mut u, mut g) = ([0.0; CAPACITY], [0.0; CAPACITY]);
        for (g, &j) in g.iter_mut().zip(&passive.set[..m]) {
            *g = row[j];
        }
        // u = H g as a sum of H's rows (H is symmetric), which the compiler turns into vector instructions.
        for i in 0..m {
            for (u, h) in u[..m].iter_mut().zip(&passive.inverse[i][..m]) {
                *u += g[i] * h;
            }
        }
        let schur = row[candidate] + self.ridge - u[..m].iter().zip(&g).map(|(u, g)| u * g).sum::<f64>();
        // The ridge keeps the exact Schur complement above it; less is rounding.
        if !(schur > 0.5 * self.ridge) {
            return false;
        }
        let inverse = 1.0 / schur;
        let mut total = inverse;
        for i in 0..m {
            let scaled = u[i] * inverse;
            for (h, u) in passive.inverse[i][..m].iter_mut().zip(&u) {
                *h += scaled * u;
            }
            passive.inverse[i][m] = -scaled;
            passive.inverse[m][i] = -scaled;
            total -= scaled;
        }
        passive.inverse[m][m] = inverse;
        // (H'1)_i = (H1)_i + u_i (1ᵀu − 1)/s.
        for i in 0..m {
            passive.sums[i] -= u[i] * total;
        }
        passive.sums[m] = total;
        passive.set[m] = candidate;
        passive.weight[m] = 0.0;
        passive.count += 1;
        true
    }

    /// Takes entry `k` away.
    fn leave(&mut self, k: usize) {
        let passive = &mut self.passive;
        let last = passive.count - 1;
        let column: [f64; CAPACITY] = passive.inverse[k];
        let pivot = 1.0 / column[k];
        let sum = passive.sums[k];
        for i in 0..=last {
            let scaled = column[i] * pivot;
            for (h, c) in passive.inverse[i][..=last].iter_mut().zip(&column) {
                *h -= scaled * c;
            }
            passive.sums[i] -= scaled * sum;
        }
        // The last entry takes the place of the one that leaves.
        if k != last {
            passive.inverse[k] = passive.inverse[last];
            for i in 0..=last {
                passive.inverse[i][k] = passive.inverse[i][last];
            }
            passive.sums[k] = passive.sums[last];
            passive.set[k] = passive.set[last];
            passive.weight[k] = passive.weight[last];
        }
        passive.count = last;
    }

    /// Moves to the minimiser over the set's affine hull, dropping entries that would turn negative on the way.
    fn settle(&mut self) {
        while self.passive.count > 1 {
            let passive = &mut self.passive;
            let inverse = 1.0 / passive.sums[..passive.count].iter().sum::<f64>();
            let (mut step, mut blocking) = (1.0, None);
            for k in 0..passive.count {
                let t = passive.sums[k] * inverse;
                if !(t > 0.0) {
                    let s = (passive.weight[k] / (passive.weight[k] - t)).max(0.0);
                    if s < step || blocking.is_none() {
                        (step, blocking) = (s.min(step), Some(k));
                    }
                }
            }
            for k in 0..passive.count {
                passive.weight[k] += step * (passive.sums[k] * inverse - passive.weight[k]);
            }
            match blocking {
                Some(k) => self.leave(k),
                None => return,
            }
        }
        self.passive.weight[0] = 1.0;
    }
}
