//! A correction of proxy bones in lanes: eight joints, eight example poses or two proxies' rows at a time, on the rotations
//! that rotational regression's kernel has found already. The plain twin is
//! [`ProxyCorrection`](crate::correction::ProxyCorrection)'s own `pose`.
//!
//! Region by region κ ([`examples`](super::examples) or [`terms`](super::terms)), component weights `a = M κ`, and changes
//! `Δ = Σ_k a_k B_k` of its proxies. Where a region has so few proxies that it costs less, M goes into the components once.
//! With F the root's frame and F̂ its rest frame, a proxy's world transform changes by `F Q_b Δ F̂⁻¹`; F̂⁻¹ goes into
//! the components once. They stand [`Packed`], two components' rows together: off by at most 1.6e-5 of the largest entry of
//! a proxy's column.

use glam::{DMat3, DVec3};

use super::Matrix;
use super::examples::{Examples, ExamplesRoom};
use super::lanes::{Lanes, Packed, Row};
use super::regress::{LANES, eights, gathered};
use super::rotation::matrices;
use super::terms::{Terms, TermsRoom};
use crate::correction::{Drivers, ProxyCorrection, ProxyRegion};

/// A correction laid out for its kernel. Regions stand in the order of their numbers of joints and components: loops whose
/// lengths change seldom mislead no branch prediction.
#[derive(Debug, Clone)]
pub(crate) struct Corrections {
    driven: Driven,
    /// Which of the correction's regions they are, (R).
    order: Vec<usize>,
    /// Places of the regions' bones in the rotations, eight regions at a time.
    bones: Vec<[u32; LANES]>,
    /// What becomes of the inputs of every region, (R).
    mixed: Vec<Mixed>,
    /// Mixing matrices of the regions that have one, see [`blend`].
    mixing: Vec<Row>,
    /// Pairs of proxies of all regions, in the order of their numbers of components.
    pub(super) pairs: Vec<Pair>,
    /// Components of all pairs, two at a time: the three rows of both proxies.
    pub(super) changes: Vec<[Packed; 3]>,
}

/// What drives the regions.
#[derive(Debug, Clone)]
enum Driven {
    Examples(Examples),
    Terms(Terms),
}

/// How the inputs of a region become component weights.
#[derive(Debug, Clone, Copy)]
struct Mixed {
    /// The number of inputs, N, and the room they take.
    inputs: usize,
    room: usize,
    /// The number of component weights in eights.
    components: usize,
    /// Whether there is a matrix: otherwise the inputs are the weights.
    by_matrix: bool,
}

/// Two proxies that the same component weights change; one that is alone stands there twice.
#[derive(Debug, Clone)]
pub(super) struct Pair {
    region: u32,
    pub proxies: [u32; 2],
    /// Where its weights stand in [`CorrectionRoom::weights`], and how many there are, in twos.
    at: u32,
    pub twos: u32,
    /// What its components are to be multiplied by.
    steps: Row,
}

/// Memory of the kernel, reused from frame to frame.
#[derive(Debug, Clone, Default)]
pub(crate) struct CorrectionRoom {
    examples: ExamplesRoom,
    terms: TermsRoom,
    /// Component weights, each region's in eights.
    pub(super) weights: Vec<f32>,
    /// `F Q_b` of the regions' bones, row by row, (regions in eights).
    turns: Vec<[Row; 9]>,
}

impl Corrections {
    /// Lays `c` out; `bone` finds a bone among the bones' rotations, `joint` among the joints'; `rest_frame` is F̂,
    /// whose place the rest mesh is counted from.
    pub fn new(c: &ProxyCorrection, rest_frame: DMat3, bone: impl Fn(u16) -> u32, joint: impl Fn(u16) -> u32) -> Self {
        let order = Self::in_order(c);
        let after = rest_frame.transpose();
        let mut all = Self {
            driven: match &c.drivers {
                Drivers::Examples(space) => Driven::Examples(Examples::new(space, &order, &joint)),
                Drivers::Polynomials(polynomials) => Driven::Terms(Terms::new(polynomials, &order, &joint)),
            },
            order: order.clone(),
            bones: eights(&order.iter().map(|&r| bone(c.regions[r].bone as u16)).collect::<Vec<_>>()),
            mixed: Vec::with_capacity(order.len()),
            mixing: Vec::new(),
            pairs: Vec::new(),
            changes: Vec::new(),
        };
        let (mut pairs, mut at) = (Vec::new(), 0);
        for (place, &r) in order.iter().enumerate() {
            let (inputs, count, region) = (c.drivers.inputs(r), c.component_count(r), &c.regions[r]);
            let room = inputs.next_multiple_of(LANES);
            // A matrix costs a multiply-add an eight of components, a component of a pair of proxies three. Kernels over examples
            // cancel too much for components in 16 bits.
            let three = 3 * region.proxies.len().div_ceil(2);
            let by_matrix = matches!(c.drivers, Drivers::Examples(_))
                || inputs * count.div_ceil(LANES) + three * count < three * inputs;
            let region = if by_matrix { region.clone() } else { unmixed(region, inputs) };
            let count = if by_matrix { count } else { inputs };
            if by_matrix {
                all.mixing.extend(blendable(inputs, count, |i, k| region.mixing[k * inputs + i]));
            }
            if count > 0 {
                pairs.extend(paired(&region, place, count, at, after));
            }
            let components = count.next_multiple_of(LANES);
            all.mixed.push(Mixed { inputs, room, components, by_matrix });
            at += components;
        }
        pairs.sort_by_key(|(pair, _)| (pair.proxies[0] == pair.proxies[1], pair.twos));
        all.changes = pairs.iter().flat_map(|(_, changes)| changes).copied().collect();
        all.pairs = pairs.into_iter().map(|(pair, _)| pair).collect();
        all
    }

    /// The regions that change something, in the order in which they stand here.
    fn in_order(c: &ProxyCorrection) -> Vec<usize> {
        let mut order: Vec<usize> = (0..c.regions.len()).filter(|&r| c.drivers.inputs(r) > 0).collect();
        let terms = |r: usize| match &c.drivers {
            Drivers::Examples(space) => space.regions[r].joints.len(),
            Drivers::Polynomials(polynomials) => polynomials.regions[r].len(),
        };
        order.sort_by_key(|&r| (terms(r), c.component_count(r).div_ceil(LANES)));
        order
    }

    /// Whether what drives the regions are their component weights as they stand.
    pub fn unmixed(&self) -> bool {
        self.mixing.is_empty()
    }

    /// The regions in the order in which they stand here: place, where the component weights stand, and which it is of the
    /// correction's.
    pub fn places(&self) -> impl Iterator<Item = (u32, u32, usize)> {
        let starts = self.mixed.iter().scan(0, |at, mixed| {
            let start = *at;
            *at += mixed.components as u32;
            Some(start)
        });
        self.order.iter().zip(starts).enumerate().map(|(place, (&r, at))| (place as u32, at, r))
    }

    /// Room for it.
    pub fn room(&self) -> CorrectionRoom {
        let (examples, terms) = match &self.driven {
            Driven::Examples(examples) => (examples.room(), TermsRoom::default()),
            Driven::Terms(terms) => (nothing_faded(self.mixed.len()), terms.room()),
        };
        CorrectionRoom {
            examples,
            terms,
            weights: vec![0.0; self.mixed.iter().map(|mixed| mixed.components).sum()],
            turns: vec![[Row::default(); 9]; self.bones.len()],
        }
    }

    /// Finds the component weights of a pose; `rotations` are quaternions of F Q_b, `joints` those of the joints, x, y, z, w
    /// of eight at a time, `features` what predictors see of them.
    #[inline(always)]
    pub fn weigh<L: Lanes>(
        &self,
        s: L,
        rotations: &[Row],
        joints: &[[Row; 4]],
        features: &[(Row, f32)],
        room: &mut CorrectionRoom,
    ) {
        if self.pairs.is_empty() {
            return;
        }
        match &self.driven {
            Driven::Examples(examples) => examples.see(s, joints, &mut room.examples),
            Driven::Terms(terms) => terms.see(features, &mut room.terms),
        }
        for (places, out) in self.bones.iter().zip(&mut room.turns) {
            let turns = matrices(s, gathered(s, rotations, places));
            for k in 0..9 {
                out[k] = Row(s.array(turns[k]));
            }
        }
        match self.driven {
            // The terms as they stand.
            Driven::Terms(_) if self.unmixed() => std::mem::swap(&mut room.terms.seen, &mut room.weights),
            _ => self.mix(s, room),
        }
    }

    /// Component weights `a = M κ` of every region.
    #[inline(always)]
    fn mix<L: Lanes>(&self, s: L, room: &mut CorrectionRoom) {
        let CorrectionRoom { examples: ExamplesRoom { kernels, left, .. }, terms, weights, .. } = room;
        let mut inputs = match self.driven {
            Driven::Examples(_) => &kernels[..],
            Driven::Terms(_) => &terms.seen[..],
        };
        let (mut mixing, mut weights) = (&self.mixing[..], &mut weights[..]);
        for (mixed, &left) in self.mixed.iter().zip(&*left) {
            let (own, out);
            (own, inputs) = inputs.split_at(mixed.room);
            (out, weights) = weights.split_at_mut(mixed.components);
            if mixed.by_matrix {
                let matrix;
                (matrix, mixing) = mixing.split_at(mixed.components / LANES * mixed.inputs);
                if left != 0.0 {
                    blend(s, &own[..mixed.inputs], matrix, out);
                }
            } else {
                out.copy_from_slice(own);
            }
        }
    }

    /// Adds `F Q_b Σ_k a_k B_k` to every proxy's world transform, a the weights that were found.
    #[inline(always)]
    pub fn change<L: Lanes>(&self, s: L, room: &CorrectionRoom, proxies: &mut [Matrix]) {
        let mut changes = &self.changes[..];
        for pair in &self.pairs {
            let own;
            (own, changes) = changes.split_at(pair.twos as usize);
            if room.examples.left[pair.region as usize] == 0.0 {
                continue;
            }
            let [x, y, z] = pair.weighted(s, own, room);
            let [one, other] = pair.proxies;
            for (row, [a, b, c]) in room.turn(pair.region as usize).into_iter().enumerate() {
                let turned = s.array(s.mul_add(s.splat(a), x, s.mul_add(s.splat(b), y, s.mul(s.splat(c), z))));
                for c in 0..4 {
                    proxies[one as usize].0[4 * row + c] += turned[c];
                }
                if one != other {
                    for c in 0..4 {
                        proxies[other as usize].0[4 * row + c] += turned[4 + c];
                    }
                }
            }
        }
    }
}

impl Pair {
    /// `Σ_k a_k B_k`: rows of both proxies.
    #[inline(always)]
    pub fn weighted<L: Lanes>(&self, s: L, components: &[[Packed; 3]], room: &CorrectionRoom) -> [L::V; 3] {
        let (at, twos) = (self.at as usize, self.twos as usize);
        weighted(s, &room.weights[at..at + 2 * twos], components, s.load(&self.steps))
    }
}

impl CorrectionRoom {
    /// The rotation F Q_b of a region's bone, row by row.
    #[inline(always)]
    pub fn turn(&self, region: usize) -> [[f32; 3]; 3] {
        let (turn, lane) = (&self.turns[region / LANES], region % LANES);
        let row = |row: usize| [turn[3 * row].0[lane], turn[3 * row + 1].0[lane], turn[3 * row + 2].0[lane]];
        [row(0), row(1), row(2)]
    }
}

/// A region whose inputs are its component weights.
fn unmixed(region: &ProxyRegion, inputs: usize) -> ProxyRegion {
    let members = region.proxies.len();
    let mut components = vec![[0.0_f64; 12]; inputs * members];
    let rows = region.mixing.chunks_exact(inputs).zip(region.components.chunks_exact(members.max(1)));
    for (mixing, own) in rows {
        for (&m, sums) in mixing.iter().zip(components.chunks_exact_mut(members.max(1))) {
            for (sum, value) in sums.as_flattened_mut().iter_mut().zip(own.as_flattened()) {
                *sum += f64::from(m) * f64::from(*value);
            }
        }
    }
    ProxyRegion { components: components.iter().map(|c| c.map(|c| c as f32)).collect(), ..region.clone() }
}

/// Room of regions of which all is left.
fn nothing_faded(regions: usize) -> ExamplesRoom {
    let mut room = ExamplesRoom::default();
    room.left = vec![1.0; regions];
    room
}

/// The pairs of a region's proxies, with their components; `at` is where the region's weights stand.
fn paired(
    region: &ProxyRegion,
    place: usize,
    count: usize,
    at: usize,
    after: DMat3,
) -> impl Iterator<Item = (Pair, Vec<[Packed; 3]>)> {
    let members = region.proxies.len();
    region.proxies.chunks(2).enumerate().map(move |(pair, proxies)| {
        let change = |k: usize, half: usize| match 2 * pair + half {
            member if member < members => folded(&region.components[k * members + member], after),
            _ => [0.0; 12],
        };
        let row = |k: usize, row: usize| -> [f64; LANES] {
            let halves = if k < count { [change(k, 0), change(k, 1)] } else { [[0.0; 12]; 2] };
            std::array::from_fn(|lane| halves[lane / 4][4 * row + lane % 4])
        };
        let rows: Vec<[[f64; LANES]; 3]> =
            (0..count.next_multiple_of(2)).map(|k| [0, 1, 2].map(|i| row(k, i))).collect();
        let steps = std::array::from_fn(|lane| Packed::step(rows.as_flattened().iter().map(|row| row[lane])));
        let two = |two: &[[[f64; LANES]; 3]; 2]| [0, 1, 2].map(|i| Packed::new([two[0][i], two[1][i]], steps));
        let packed: Vec<[Packed; 3]> = rows.as_chunks::<2>().0.iter().map(two).collect();
        let proxies = [proxies[0], proxies.get(1).copied().unwrap_or(proxies[0])];
        let (region, at, twos) = (place as u32, at as u32, packed.len() as u32);
        (Pair { region, proxies, at, twos, steps: Row(steps.map(|step| step as f32)) }, packed)
    })
}

/// `Σ_k weights_k values_k`: the rows of two proxies' changes.
#[inline(always)]
fn weighted<L: Lanes>(s: L, weights: &[f32], values: &[[Packed; 3]], steps: L::V) -> [L::V; 3] {
    // Even and odd components apart: with three chains additions wait for each other.
    let [mut even, mut odd] = [[s.splat(0.0); 3]; 2];
    for (weights, values) in weights.as_chunks::<2>().0.iter().zip(values) {
        let (first, second) = (s.splat(weights[0]), s.splat(weights[1]));
        for row in 0..3 {
            let [a, b] = s.unpack(&values[row]);
            even[row] = s.mul_add(first, a, even[row]);
            odd[row] = s.mul_add(second, b, odd[row]);
        }
    }
    let sum = |row: usize| s.mul(s.add(even[row], odd[row]), steps);
    [sum(0), sum(1), sum(2)]
}

/// A 3×4 change column by column, as rows, with `after` applied to the rest mesh first.
pub(super) fn folded(columns: &[f32; 12], after: DMat3) -> [f64; 12] {
    let column = |k: usize| DVec3::from_array(std::array::from_fn(|i| f64::from(columns[3 * k + i])));
    let linear = DMat3::from_cols(column(0), column(1), column(2));
    let (linear, moved) = (linear * after, column(3));
    std::array::from_fn(|k| match k % 4 {
        3 => moved[k / 4],
        c => linear.col(c)[k / 4],
    })
}

/// Rows that [`blend`] works on together: enough for the additions not to wait for each other.
const TOGETHER: usize = 4;

/// A matrix (inputs, outputs) as [`blend`] reads it: the outputs in eights, of up to four eights those of the first input,
/// then of the second and so on, then of the next four eights.
fn blendable(inputs: usize, outputs: usize, entry: impl Fn(usize, usize) -> f32) -> Vec<Row> {
    let rows: Vec<usize> = (0..outputs.div_ceil(LANES)).collect();
    let value = |i: usize, o: usize| if o < outputs { entry(i, o) } else { 0.0 };
    let row = |i: usize, row: usize| Row(std::array::from_fn(|l| value(i, row * LANES + l)));
    let chunk = |rows: &[usize]| (0..inputs).flat_map(|i| rows.iter().map(move |&r| (i, r))).collect::<Vec<_>>();
    rows.chunks(TOGETHER).flat_map(chunk).map(|(i, r)| row(i, r)).collect()
}

/// `out = Σ_i inputs_i values_i`, out in eights.
#[inline(always)]
fn blend<L: Lanes>(s: L, inputs: &[f32], mut values: &[Row], out: &mut [f32]) {
    let mut out = out.as_chunks_mut::<LANES>().0;
    while !out.is_empty() {
        let together = out.len().min(TOGETHER);
        let (own, rest) = values.split_at(together * inputs.len());
        let (to, more) = std::mem::take(&mut out).split_at_mut(together);
        match together {
            1 => blend_rows::<L, 1>(s, inputs, own, to),
            2 => blend_rows::<L, 2>(s, inputs, own, to),
            3 => blend_rows::<L, 3>(s, inputs, own, to),
            _ => blend_rows::<L, TOGETHER>(s, inputs, own, to),
        }
        (values, out) = (rest, more);
    }
}

#[inline(always)]
fn blend_rows<L: Lanes, const R: usize>(s: L, inputs: &[f32], values: &[Row], out: &mut [[f32; LANES]]) {
    let mut sums = [s.splat(0.0); R];
    for (&input, values) in inputs.iter().zip(values.as_chunks::<R>().0) {
        let weight = s.splat(input);
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum = s.mul_add(weight, s.load(value), *sum);
        }
    }
    for (out, sum) in out.iter_mut().zip(sums) {
        *out = s.array(sum);
    }
}
