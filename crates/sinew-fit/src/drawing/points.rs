//! Points in place of drawing weights: vertices drawn by proxy bones as animation space draws them by bones (ours, after Merry,
//! Marais and Gain 2006).
//!
//! Palette skinning draws a vertex from one rest position with a weight an entry, `Σ_i w_i T_i (v̂, 1)`. The kernel takes any
//! point an entry, `Σ_i T_i h_i`, at the same cost, and with four numbers an entry instead of one two entries draw what took
//! four. The eight vertices of a register R share their entries U, so that nothing is visited in vain:
//!
//!   minimise Σ_{v∈R} Σ_e a_e ‖y_v^e − Σ_{i∈U} T_i^e h_vi‖² + ε Σ_i ‖h_vi‖²,   Σ_i h_vi,w = 1,
//!
//! h about the middle of the register. U grows by the entry that lowers this most (matching pursuit by groups) to twice as many
//! as are wanted, and shrinks by the one that is missed least. Over all registers those entries stay that are missed
//! most, as many as may be visited.

use glam::{DAffine3, DVec3, DVec4};
use nalgebra::{DMatrix, Matrix4};
use rayon::prelude::*;
use sinew_linalg::{Mat, transposed_product};

use super::registers::Registers;
use crate::Training;

/// ε, for each pose: next to nothing. Entries that move alike in all poses share a vertex.
const RIDGE: f64 = 1e-6;

/// What a weight of one counts as beside a point's metres, a fraction of the diagonal.
const REACH: f64 = 0.05;

/// How exactly weights sum to one while points are sought: to some ten thousandths, and exactly afterwards.
const WHOLE: f64 = 100.0;

/// Vertices of which products with the palette are made together.
const TOGETHER: usize = 256;

/// What is drawn, and by what.
pub struct Drawing<'a> {
    /// Poses, vertices in which are to be drawn.
    pub poses: &'a Training,
    /// The proxies' transforms in them, (N)(P).
    pub proxies: &'a [Vec<DAffine3>],
    /// The palette entries that may draw each vertex, (V).
    pub candidates: &'a [Vec<usize>],
    /// The bone that carries each vertex, (V).
    pub carriers: &'a [usize],
    /// The most entries of a register.
    pub width: usize,
}

/// What draws a register.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawn {
    /// Its vertices, and each one's points on the entries, (lanes)(U), in the root's rest frame.
    pub vertices: Vec<(usize, Vec<DVec4>)>,
    /// U, ascending.
    pub entries: Vec<usize>,
}

/// A register with its entries, those that are missed most first.
pub struct Pursued {
    register: Register,
    taken: Vec<usize>,
    /// The error that is left with the first k + 1 of them, ridge and all, square metres.
    pub left: Vec<f64>,
}

impl Drawing<'_> {
    /// The entries that draw each of `registers`.
    #[must_use]
    pub fn pursue(&self, registers: &[Vec<usize>]) -> Vec<Pursued> {
        let palette = Palette::new(self.poses, self.proxies);
        let chunk = |registers: &[Vec<usize>]| {
            let vertices: Vec<usize> = registers.iter().flatten().copied().collect();
            let asked = palette.asked(self.poses, &vertices);
            let mut first = 0;
            let register = |vertices: &Vec<usize>| {
                let mut among: Vec<usize> = vertices.iter().flat_map(|&v| &self.candidates[v]).copied().collect();
                among.sort_unstable();
                among.dedup();
                let base = self.proxies[0].len() + self.carriers[vertices[0]];
                let register = Register::new(self.poses, &palette, &asked, first, vertices, among, base);
                first += vertices.len();
                register.pursued(self.width)
            };
            registers.iter().map(register).collect::<Vec<_>>()
        };
        registers.par_chunks(TOGETHER / 8).flat_map_iter(chunk).collect()
    }

    /// Draws the vertices of `registers`, which visit so many entries together at most.
    #[must_use]
    pub fn draw(&self, registers: &Registers, visits: usize) -> Vec<Drawn> {
        let pursued = self.pursue(&registers.vertices);
        let (counts, _) = worthwhile(&pursued, visits);
        pursued.par_iter().zip(counts).map(|(register, count)| register.drawn(count)).collect()
    }
}

/// The entries' matrices in all poses: of each the three axes and the translation, as columns.
struct Palette {
    /// (3N, 4E), poses as much longer as they count.
    columns: Mat<f64>,
    /// Its products with itself, (4E, 4E).
    gram: Mat<f64>,
}

/// Products of the palette with where vertices are.
struct Asked {
    /// (4E, vertices).
    products: Mat<f64>,
    /// Of the vertices with themselves.
    squares: Vec<f64>,
}

impl Palette {
    fn new(poses: &Training, proxies: &[Vec<DAffine3>]) -> Self {
        let count = proxies.first().map_or(0, Vec::len);
        let entry = |e: usize, i: usize| if i < count { proxies[e][i] } else { poses.transforms[e][i - count] };
        let columns = Mat::from_fn(3 * poses.pose_count(), 4 * (count + poses.bone_count()), |row, column| {
            let (e, transform) = (row / 3, entry(row / 3, column / 4));
            let axis = if column % 4 == 3 { transform.translation } else { transform.matrix3.col(column % 4) };
            poses.pose_weights[e].sqrt() * axis[row % 3]
        });
        let gram = transposed_product(columns.as_ref(), columns.as_ref());
        Self { columns, gram }
    }

    fn asked(&self, poses: &Training, vertices: &[usize]) -> Asked {
        let truth = Mat::from_fn(self.columns.nrows(), vertices.len(), |row, k| {
            poses.pose_weights[row / 3].sqrt() * poses.vertices[row / 3][vertices[k]][row % 3]
        });
        let square = |k: usize| (0..truth.nrows()).map(|row| truth[(row, k)].powi(2)).sum();
        Asked {
            products: transposed_product(self.columns.as_ref(), truth.as_ref()),
            squares: (0..vertices.len()).map(square).collect(),
        }
    }
}

/// The equations of a register, about the middle of its vertices.
struct Register {
    vertices: Vec<usize>,
    middle: DVec3,
    /// Entries that may draw it, (C).
    among: Vec<usize>,
    /// `AᵀA`, the sum of weights and the ridge in it, (4C, 4C).
    gram: DMatrix<f64>,
    /// `Aᵀy`, (4C, lanes), and `yᵀy`.
    right: DMatrix<f64>,
    square: f64,
}

impl Register {
    fn new(
        poses: &Training,
        palette: &Palette,
        asked: &Asked,
        first: usize,
        vertices: &[usize],
        among: Vec<usize>,
        base: usize,
    ) -> Self {
        let middle = vertices.iter().map(|&v| poses.rest[v]).sum::<DVec3>() / vertices.len() as f64;
        let counted: f64 = poses.pose_weights.iter().sum();
        let reach = counted * (REACH * poses.diagonal).powi(2);
        let whole = WHOLE * reach;
        // The translation's column becomes that of the middle.
        let about = |value: &dyn Fn(usize) -> f64, k: usize| match k {
            3 => (0..3).map(|a| middle[a] * value(a)).sum::<f64>() + value(3),
            _ => value(k),
        };
        let product = |i: (usize, usize), j: (usize, usize)| {
            let column = |a: usize| about(&|b| palette.gram[(4 * i.0 + a, 4 * j.0 + b)], j.1);
            about(&column, i.1)
        };
        let pulled = |i: (usize, usize), lane: usize| about(&|a| asked.products[(4 * i.0 + a, first + lane)], i.1);
        // Moves of the middle are counted from where its bone carries it: differences of centimetres, not of metres.
        let base = (base, 3);
        let moved = |(i, k): (usize, usize), other: &dyn Fn((usize, usize)) -> f64| {
            other((i, k)) - if k == 3 { other(base) } else { 0.0 }
        };
        let n = 4 * among.len();
        let place = |row: usize| (among[row / 4], row % 4);
        let mut gram = DMatrix::zeros(n, n);
        for r in 0..n {
            for c in 0..=r {
                gram[(r, c)] = moved(place(r), &|i| moved(place(c), &|j| product(i, j)));
                gram[(r, c)] += if r % 4 == 3 && c % 4 == 3 { whole } else { 0.0 };
                gram[(c, r)] = gram[(r, c)];
            }
            gram[(r, r)] += RIDGE * if r % 4 < 3 { counted } else { reach };
        }
        let right = DMatrix::from_fn(n, vertices.len(), |row, lane| {
            moved(place(row), &|i| pulled(i, lane) - product(i, base)) + if row % 4 == 3 { whole } else { 0.0 }
        });
        let square = |lane: usize| asked.squares[first + lane] - 2.0 * pulled(base, lane) + product(base, base) + whole;
        let square = (0..vertices.len()).map(square).sum();
        Self { vertices: vertices.to_vec(), middle, among, gram, right, square }
    }

    /// Rows or columns of some entries.
    fn places(entries: &[usize]) -> Vec<usize> {
        entries.iter().flat_map(|&i| 4 * i..4 * i + 4).collect()
    }

    /// The inverse matrix of some entries, and the points that they draw the vertices from, (4U, lanes).
    fn solved(&self, entries: &[usize]) -> Option<(DMatrix<f64>, DMatrix<f64>)> {
        let places = Self::places(entries);
        let inverse = self.gram.select_rows(&places).select_columns(&places).cholesky()?.inverse();
        let points = &inverse * self.right.select_rows(&places);
        Some((inverse, points))
    }

    /// Its entries, at most `width`.
    fn pursued(self, width: usize) -> Pursued {
        let mut taken = Vec::new();
        while taken.len() < (2 * width).min(self.among.len()) {
            let Some(next) = self.next(&taken) else { break };
            taken.push(next);
        }
        let (mut taken, mut left) = self.without_the_least(taken);
        taken.truncate(width);
        left.truncate(width);
        Pursued { register: self, taken, left }
    }

    /// The entry that gains most beside those that are `taken`: `rᵀ S⁻¹ r`, r what is left to be asked of it, S what is left of
    /// its block.
    fn next(&self, taken: &[usize]) -> Option<usize> {
        let places = Self::places(taken);
        let solved = if taken.is_empty() { None } else { Some(self.solved(taken)?) };
        let gain = |j: usize| {
            let mut asked = self.right.rows(4 * j, 4).into_owned();
            let mut own = Matrix4::from_fn(|r, c| self.gram[(4 * j + r, 4 * j + c)]);
            if let Some((inverse, points)) = &solved {
                let beside = self.gram.columns(4 * j, 4).select_rows(&places);
                asked -= beside.tr_mul(points);
                let explained = beside.tr_mul(&(inverse * &beside));
                own -= Matrix4::from_fn(|r, c| explained[(r, c)]);
            }
            let root = own.cholesky().and_then(|factor| factor.l().solve_lower_triangular(&asked));
            root.map_or(0.0, |root| root.norm_squared())
        };
        let others = (0..self.among.len()).filter(|j| !taken.contains(j)).map(|j| (j, gain(j)));
        let better = |best: Option<(usize, f64)>, (j, gain): (usize, f64)| match best {
            Some((_, most)) if gain <= most * (1.0 + 1e-9) => best,
            _ => Some((j, gain)),
        };
        others.fold(None, better).filter(|&(_, gain)| gain > 0.0).map(|(j, _)| j)
    }

    /// `taken` in the order in which they are missed, and the error that is left with the first k + 1 of them. Without entry i
    /// the error grows by `h_iᵀ (A⁻¹)_ii⁻¹ h_i`.
    fn without_the_least(&self, mut taken: Vec<usize>) -> (Vec<usize>, Vec<f64>) {
        let Some((mut inverse, mut points)) = self.solved(&taken) else { return (Vec::new(), Vec::new()) };
        let mut error = self.square - points.dot(&self.right.select_rows(&Self::places(&taken)));
        let (mut order, mut left) = (Vec::new(), Vec::new());
        while !taken.is_empty() {
            let missed = |k: usize| {
                let own = Matrix4::from_fn(|r, c| inverse[(4 * k + r, 4 * k + c)]);
                let root =
                    own.cholesky().and_then(|f| f.l().solve_lower_triangular(&points.rows(4 * k, 4).into_owned()));
                root.map_or(f64::INFINITY, |root| root.norm_squared())
            };
            let growths: Vec<f64> = (0..taken.len()).map(missed).collect();
            let least = crate::cross_validation::least(&growths);
            left.push(error.max(0.0));
            error += growths[least];
            let keep: Vec<usize> = (0..4 * taken.len()).filter(|row| row / 4 != least).collect();
            let gone: Vec<usize> = (4 * least..4 * least + 4).collect();
            let beside = inverse.select_rows(&keep).select_columns(&gone);
            let own = Matrix4::from_fn(|r, c| inverse[(4 * least + r, 4 * least + c)]).try_inverse();
            let part = &beside * own.unwrap_or_else(Matrix4::zeros);
            points = points.select_rows(&keep) - &part * points.rows(4 * least, 4);
            inverse = inverse.select_rows(&keep).select_columns(&keep) - &part * beside.transpose();
            order.push(taken.remove(least));
        }
        order.reverse();
        left.reverse();
        (order, left)
    }
}

impl Pursued {
    /// Drawn by the first `count` entries.
    #[must_use]
    pub fn drawn(&self, count: usize) -> Drawn {
        let Self { register, taken, .. } = self;
        let mut taken = taken[..count.min(taken.len())].to_vec();
        taken.sort_unstable();
        let solved = register.solved(&taken);
        let of_lane = |(lane, &v): (usize, &usize)| {
            let number = |row: usize| solved.as_ref().map_or(0.0, |(_, points)| points[(row, lane)]);
            let point = |k: usize| DVec4::from_array(std::array::from_fn(|c| number(4 * k + c)));
            let mut points: Vec<DVec4> = (0..taken.len()).map(point).collect();
            let sum = points.iter().map(|h| h.w).sum::<f64>();
            // From the middle to the root's rest place.
            points.iter_mut().for_each(|h| *h = (h.truncate() + h.w / sum * register.middle).extend(h.w / sum));
            (v, points)
        };
        Drawn {
            vertices: register.vertices.iter().enumerate().map(of_lane).collect(),
            entries: taken.iter().map(|&i| register.among[i]).collect(),
        }
    }
}

/// How many entries each register takes, so that all visit no more than `visits` and leave the least error; and what the last of
/// them gained. Every register takes one.
#[must_use]
pub fn worthwhile(registers: &[Pursued], visits: usize) -> (Vec<usize>, f64) {
    let mut steps: Vec<(f64, usize, usize)> = Vec::new();
    for (r, Pursued { left, .. }) in registers.iter().enumerate() {
        // The lower convex hull of the error over the number of entries: steps between its corners, each with its gain an entry.
        let mut corners = vec![0];
        let slope = |a: usize, b: usize| (left[a] - left[b]) / (b - a) as f64;
        for k in 1..left.len() {
            while corners.len() > 1
                && slope(corners[corners.len() - 2], corners[corners.len() - 1]) <= slope(corners[corners.len() - 1], k)
            {
                corners.pop();
            }
            corners.push(k);
        }
        steps.extend(corners.windows(2).map(|w| (slope(w[0], w[1]), r, w[1] - w[0])));
    }
    steps.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let (mut counts, mut taken, mut last) = (vec![1; registers.len()], registers.len(), 0.0);
    for (gain, r, more) in steps {
        if taken + more > visits {
            break;
        }
        counts[r] += more;
        taken += more;
        last = gain;
    }
    (counts, last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sinew_examples::{Rng, datasets};
    use sinew_runtime::REGISTER;

    /// Turns and shifts that differ from pose to pose and from proxy to proxy, (N)(P).
    fn proxies(poses: usize, count: usize) -> Vec<Vec<DAffine3>> {
        let mut rng = Rng::new(11);
        let mut numbers = || DVec3::new(rng.range(-1.0, 1.0), rng.range(-1.0, 1.0), rng.range(-1.0, 1.0));
        let mut one = || {
            let turn = glam::DQuat::from_scaled_axis(0.5 * numbers());
            DAffine3::from_rotation_translation(turn, 0.05 * numbers())
        };
        (0..poses).map(|_| (0..count).map(|_| one()).collect()).collect()
    }

    #[test]
    fn planted_points_are_drawn_again_by_the_entries_that_they_were_planted_on() {
        let examples = datasets::by_name("shoulder").unwrap().make();
        let mut poses = crate::Training::new(&examples, &examples.split().train).unwrap();
        let proxies = proxies(poses.pose_count(), 6);
        // Eights take two entries each: a share of the rest position on either, and a point of its own.
        let planted = |v: usize| [v / REGISTER % 6, (v / REGISTER + 1) % 6];
        let rest = poses.rest.clone();
        for (vertices, proxies) in poses.vertices.iter_mut().zip(&proxies) {
            for (v, vertex) in vertices.iter_mut().enumerate() {
                let [one, other] = planted(v).map(|p| proxies[p]);
                let aside = DVec3::new(0.01 * (v % 5) as f64, 0.0, 0.02);
                *vertex =
                    one.matrix3 * aside + 0.25 * one.transform_point3(rest[v]) + 0.75 * other.transform_point3(rest[v]);
            }
        }
        let count = poses.vertex_count();
        let candidates = vec![(0..6).collect::<Vec<_>>(); count];
        let carriers = vec![0; count];
        let drawing =
            Drawing { poses: &poses, proxies: &proxies, candidates: &candidates, carriers: &carriers, width: 4 };
        let rows: Vec<Vec<usize>> =
            (0..count).collect::<Vec<_>>().chunks(REGISTER).map(<[usize]>::to_vec).take(20).collect();
        for pursued in drawing.pursue(&rows) {
            let drawn = pursued.drawn(2);
            let mut expected = planted(drawn.vertices[0].0).to_vec();
            expected.sort_unstable();
            assert_eq!(drawn.entries, expected);
            for (v, points) in &drawn.vertices {
                for (e, proxies) in proxies.iter().enumerate() {
                    let sum: DVec3 = drawn
                        .entries
                        .iter()
                        .zip(points)
                        .map(|(&p, h)| proxies[p].matrix3 * h.truncate() + h.w * proxies[p].translation)
                        .sum();
                    let off = sum.distance(poses.vertices[e][*v]) / poses.diagonal;
                    // 1e-4: the ridge pulls points a little toward the register's middle.
                    assert!(off < 1e-4, "vertex {v}, pose {e}: {off}");
                }
            }
        }
    }

    #[test]
    fn visits_go_where_they_gain_most_and_no_register_is_left_without() {
        let register = || Register {
            vertices: vec![0],
            middle: DVec3::ZERO,
            among: Vec::new(),
            gram: DMatrix::zeros(0, 0),
            right: DMatrix::zeros(0, 1),
            square: 0.0,
        };
        let pursued = |left: &[f64]| Pursued { register: register(), taken: Vec::new(), left: left.to_vec() };
        // The second entry of the third gains nothing by itself, but with its third entry most of all.
        let registers = [pursued(&[1.0, 0.9, 0.8]), pursued(&[5.0, 1.0, 0.9]), pursued(&[9.0, 9.0, 0.0])];
        assert_eq!(worthwhile(&registers, 0).0, [1, 1, 1]);
        assert_eq!(worthwhile(&registers, 5).0, [1, 1, 3]);
        assert_eq!(worthwhile(&registers, 6).0, [1, 2, 3]);
        assert_eq!(worthwhile(&registers, 100).0, [3, 3, 3]);
    }
}
