//! Sparse LDLᵀ factors of symmetric positive definite matrices, kept in the open: the run time stores and applies them.
//!
//! Up-looking factorisation along the elimination tree (Davis, "Algorithm 849: a concise sparse Cholesky factorization
//! package", 2005), in an order by nested dissection of the unknowns' positions (George, "Nested dissection of a regular
//! finite element mesh", 1973): halves first, the vertices between them last, so that fill stays within the halves.

use glam::DVec3;

use crate::geometry::topology::Adjacency;

/// Pieces up to this size are not cut further: their fill is small whatever the order.
const SMALLEST_PIECE: usize = 24;

/// `A = Pᵀ L D Lᵀ P`, L with a unit diagonal.
#[derive(Debug, Clone, PartialEq)]
pub struct SparseFactor {
    /// The unknown that each row of L stands for, (n).
    pub order: Vec<usize>,
    /// Where each column of L starts in `rows`, (n + 1).
    pub starts: Vec<usize>,
    /// The rows of L's entries below the diagonal, ascending in a column.
    pub rows: Vec<usize>,
    /// L's entries below the diagonal.
    pub values: Vec<f64>,
    /// D, (n).
    pub diagonal: Vec<f64>,
}

/// The matrix is not positive definite: some unknown hangs on nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotDefinite {
    /// The unknown at which it showed.
    pub unknown: usize,
}

impl SparseFactor {
    /// Factors the symmetric matrix given by `rows`: for each unknown its (column, value) entries, diagonal included, no
    /// column twice. `order` says which unknown is eliminated when.
    pub fn new(matrix: &[Vec<(usize, f64)>], order: Vec<usize>) -> Result<Self, NotDefinite> {
        let n = matrix.len();
        let mut place = vec![0; n];
        order.iter().enumerate().for_each(|(k, &unknown)| place[unknown] = k);
        let upper: Vec<Vec<(usize, f64)>> = order
            .iter()
            .enumerate()
            .map(|(k, &unknown)| {
                let entries = matrix[unknown].iter().map(|&(j, value)| (place[j], value));
                entries.filter(|&(j, _)| j <= k).collect()
            })
            .collect();
        let (parent, counts) = elimination_tree(&upper);
        let mut starts = vec![0; n + 1];
        for k in 0..n {
            starts[k + 1] = starts[k] + counts[k];
        }
        let (mut rows, mut values) = (vec![0; starts[n]], vec![0.0; starts[n]]);
        let mut diagonal = vec![0.0; n];
        let (mut filled, mut dense, mut seen) = (vec![0_usize; n], vec![0.0; n], vec![usize::MAX; n]);
        let (mut pattern, mut path): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
        for k in 0..n {
            // The pattern of row k: every path from an entry up the elimination tree, in topological order.
            pattern.clear();
            seen[k] = k;
            for &(j, value) in &upper[k] {
                dense[j] += value;
                path.clear();
                let mut i = j;
                while seen[i] != k {
                    path.push(i);
                    seen[i] = k;
                    i = parent[i];
                }
                pattern.extend(path.iter().rev());
            }
            // Columns come out descending in depth along each path; a descending sort of columns is topological.
            pattern.sort_unstable();
            let mut pivot = std::mem::take(&mut dense[k]);
            for &i in &pattern {
                let y = std::mem::take(&mut dense[i]);
                let range = starts[i]..starts[i] + filled[i];
                for (&row, &l) in rows[range.clone()].iter().zip(&values[range]) {
                    dense[row] -= l * y;
                }
                let l = y / diagonal[i];
                pivot -= l * y;
                rows[starts[i] + filled[i]] = k;
                values[starts[i] + filled[i]] = l;
                filled[i] += 1;
            }
            if !(pivot > 0.0) || !pivot.is_finite() {
                return Err(NotDefinite { unknown: order[k] });
            }
            diagonal[k] = pivot;
        }
        Ok(Self { order, starts, rows, values, diagonal })
    }

    /// Solves `A x = b` for points, in place, (n).
    pub fn solve(&self, b: &mut [DVec3]) {
        let mut x: Vec<DVec3> = self.order.iter().map(|&unknown| b[unknown]).collect();
        for k in 0..x.len() {
            let value = x[k];
            for index in self.starts[k]..self.starts[k + 1] {
                x[self.rows[index]] -= self.values[index] * value;
            }
        }
        for k in (0..x.len()).rev() {
            let mut value = x[k] / self.diagonal[k];
            for index in self.starts[k]..self.starts[k + 1] {
                value -= self.values[index] * x[self.rows[index]];
            }
            x[k] = value;
        }
        self.order.iter().zip(x).for_each(|(&unknown, x)| b[unknown] = x);
    }
}

/// Each column's parent (`usize::MAX` for a root) and its number of entries below the diagonal, from the upper triangle.
fn elimination_tree(upper: &[Vec<(usize, f64)>]) -> (Vec<usize>, Vec<usize>) {
    let n = upper.len();
    let (mut parent, mut counts, mut seen) = (vec![usize::MAX; n], vec![0; n], vec![usize::MAX; n]);
    for k in 0..n {
        seen[k] = k;
        for &(j, _) in &upper[k] {
            let mut i = j;
            while seen[i] != k {
                if parent[i] == usize::MAX {
                    parent[i] = k;
                }
                counts[i] += 1;
                seen[i] = k;
                i = parent[i];
            }
        }
    }
    (parent, counts)
}

/// An elimination order by nested dissection: `unknowns` are vertices of `rings`, at `positions`; returns indices into
/// `unknowns`.
#[must_use]
pub fn nested_dissection(unknowns: &[usize], rings: &Adjacency, positions: &[DVec3]) -> Vec<usize> {
    let mut side = vec![0_u32; rings.len()];
    let mut index = vec![0; rings.len()];
    unknowns.iter().enumerate().for_each(|(k, &v)| index[v] = k);
    let mut order = Vec::with_capacity(unknowns.len());
    let mut mark = 0;
    dissect(unknowns.to_vec(), rings, positions, &mut side, &mut mark, &mut order);
    order.into_iter().map(|v: usize| index[v]).collect()
}

fn dissect(
    mut piece: Vec<usize>,
    rings: &Adjacency,
    positions: &[DVec3],
    side: &mut [u32],
    mark: &mut u32,
    order: &mut Vec<usize>,
) {
    if piece.len() <= SMALLEST_PIECE {
        order.extend(piece);
        return;
    }
    let start = (DVec3::INFINITY, DVec3::NEG_INFINITY);
    let (low, high) = piece.iter().fold(start, |(l, h), &v| (l.min(positions[v]), h.max(positions[v])));
    let extent = high - low;
    let axis = (0..3).fold(0, |best, k| if extent[k] > extent[best] { k } else { best });
    piece.sort_by(|&a, &b| positions[a][axis].total_cmp(&positions[b][axis]).then(a.cmp(&b)));
    let upper = piece.split_off(piece.len() / 2);
    *mark += 1;
    upper.iter().for_each(|&v| side[v] = *mark);
    let (between, lower): (Vec<usize>, Vec<usize>) =
        piece.into_iter().partition(|&v| rings.row(v).iter().any(|&w| side[w] == *mark));
    dissect(lower, rings, positions, side, mark, order);
    dissect(upper, rings, positions, side, mark, order);
    order.extend(between);
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rows = Vec<Vec<(usize, f64)>>;

    /// The Laplacian of a grid of `n` × `n` with one on its diagonal, and its adjacency and positions.
    fn grid(n: usize) -> (Rows, Adjacency, Vec<DVec3>) {
        let mut pairs = Vec::new();
        for i in 0..n * n {
            let (x, y) = (i % n, i / n);
            let around =
                [(x + 1 < n, i + 1), (x > 0, i.wrapping_sub(1)), (y + 1 < n, i + n), (y > 0, i.wrapping_sub(n))];
            pairs.extend(around.iter().filter(|(inside, _)| *inside).map(|&(_, j)| (i, j)));
        }
        let rings = Adjacency::from_pairs(n * n, &mut pairs);
        let row = |i: usize| {
            let around = rings.row(i);
            std::iter::once((i, 1.0 + around.len() as f64)).chain(around.iter().map(|&j| (j, -1.0))).collect()
        };
        let matrix = (0..n * n).map(row).collect();
        let positions = (0..n * n).map(|i| DVec3::new((i % n) as f64, (i / n) as f64, 0.0)).collect();
        (matrix, rings, positions)
    }

    #[test]
    fn solves_a_grid() {
        let (matrix, rings, positions) = grid(20);
        let all: Vec<usize> = (0..400).collect();
        let order = nested_dissection(&all, &rings, &positions);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, all, "every unknown once");
        let factor = SparseFactor::new(&matrix, order).unwrap();
        let truth: Vec<DVec3> = (0..400).map(|i| DVec3::new(i as f64, (i * i % 7) as f64, 1.0)).collect();
        let mut b: Vec<DVec3> = matrix.iter().map(|row| row.iter().map(|&(j, value)| value * truth[j]).sum()).collect();
        factor.solve(&mut b);
        for (x, truth) in b.iter().zip(&truth) {
            // 1e-10: values up to 400 through a matrix of condition 10.
            assert!((*x - *truth).length() < 1e-10);
        }
        // A band order would have 400 · 20 entries.
        assert!(factor.rows.len() < 6_000, "{} entries", factor.rows.len());
    }

    #[test]
    fn a_singular_matrix_is_refused() {
        let matrix = vec![vec![(0, 1.0), (1, -1.0)], vec![(0, -1.0), (1, 1.0)]];
        assert!(SparseFactor::new(&matrix, vec![0, 1]).is_err());
    }
}
