//! A correction of proxy bones in lanes: eight joints, eight example poses or two proxies' rows at a time, on the rotations
//! that rotational regression's kernel has found already. The plain twin is
//! [`ProxyCorrection`](crate::correction::ProxyCorrection)'s own `pose`.
//!
//! A region's changes are blended from what is less to read: from the example poses, `Σ_e κ_e C_e` with
//! `C_e = Σ_k M_ke B_k`, or, where it is much less, from the components, `Σ_k a_k B_k` with `a = M κ`. With F the root's frame and F̂ its rest frame,
//! a proxy's world transform changes by `F Q_b Δ F̂⁻¹`; F̂⁻¹ goes into the changes once.

use glam::{Affine3A, DAffine3, DMat3, DVec3};

use super::Matrix;
use super::lanes::{Lanes, Row};
use super::regress::{LANES, eights, gathered};
use super::rotation::matrices;
use crate::correction::{ProxyCorrection, ProxyRegion};

/// A correction laid out for its kernel. N example poses, in `rows` eights where they stand in lanes.
#[derive(Debug, Clone)]
pub(crate) struct Corrections {
    poses: usize,
    rows: usize,
    /// Joints that count, eight at a time; the last repeats.
    joints: Vec<Joints>,
    /// The number of joints, C.
    joint_count: usize,
    /// Quaternions of the examples, x, y, z, w of eight joints at a time, (C in eights, N).
    examples: Vec<[Row; 4]>,
    /// The rate of ν; none if no region has a peak.
    peak_rate: Option<f32>,
    /// Places of the regions' bones in the rotations, eight regions at a time.
    bones: Vec<[u32; LANES]>,
    regions: Vec<Region>,
    /// Joints of every region's kernel, one after the other, in fours: loops of few lengths mislead no branch prediction.
    terms: Vec<[Term; 4]>,
    /// Regions whose changes are blended from components.
    mixed: Vec<Mixed>,
    /// Mixing matrices of those regions, see [`blend`].
    mixing: Vec<Row>,
    /// Pairs of proxies of all regions.
    pairs: Vec<Pair>,
    /// Changes of all pairs: for each input the three rows of both proxies.
    changes: Vec<[Row; 3]>,
}

#[derive(Debug, Clone)]
struct Joints {
    /// Places among the joints' rotations.
    places: [u32; LANES],
    /// The distance at which fading begins, and one over how much farther it ends.
    near: Row,
    rate: Row,
}

/// A region's kernel.
#[derive(Debug, Clone)]
struct Region {
    /// Where its joints end in [`Corrections::terms`].
    terms: usize,
    constant: f32,
    product: f32,
    peak: f32,
}

/// A joint of a kernel; what fills up a four has neither rate nor share, and a joint that never fades.
#[derive(Debug, Clone, Copy)]
struct Term {
    joint: u32,
    /// Where its distances stand.
    distances: u32,
    rate: f32,
    /// The weight of the joint's own term.
    share: f32,
}

/// A region whose component weights become the inputs of its pairs.
#[derive(Debug, Clone)]
struct Mixed {
    region: usize,
    components: usize,
}

/// Two proxies that the same inputs change; one that is alone stands there twice, the second time without a change.
#[derive(Debug, Clone)]
struct Pair {
    region: u32,
    proxies: [u32; 2],
    /// Where its inputs stand in [`CorrectionRoom::inputs`], and how many there are.
    at: u32,
    count: u32,
}

/// Memory of the kernel, reused from frame to frame.
#[derive(Debug, Clone, Default)]
pub(crate) struct CorrectionRoom {
    /// `d²`, (C in eights and one more eight of nil, rows).
    distances: Vec<Row>,
    /// (C in eights and one more eight of one).
    fades: Vec<f32>,
    /// ν, (rows).
    peaks: Vec<Row>,
    /// What changes are blended from: κ of every region, (R, N in eights), then component weights, each region's in eights.
    inputs: Vec<f32>,
    /// How much of each region the pose leaves, (R).
    faded: Vec<f32>,
    /// `F Q_b` of the regions' bones, row by row, (regions in eights).
    turns: Vec<[Row; 9]>,
}

impl Corrections {
    /// Lays `c` out; `bone` finds a bone among the bones' rotations, `joint` among the joints'; `rest_frame` is F̂.
    pub fn new(
        c: &ProxyCorrection,
        rest_frame: Affine3A,
        bone: impl Fn(u16) -> u32,
        joint: impl Fn(u16) -> u32,
    ) -> Self {
        let (space, n) = (&c.space, c.space.poses);
        let rows = n.div_ceil(LANES);
        let order: Vec<usize> = (0..space.joints.len()).collect();
        let groups = eights(&order);
        let joints = |eight: &[usize; LANES]| {
            let fade = eight.map(|c| space.fade[c].map(f32::sqrt));
            Joints {
                places: eight.map(|c| joint(space.joints[c])),
                near: Row(fade.map(|[near, _]| near)),
                rate: Row(fade.map(|[near, far]| 1.0 / (far - near).max(1e-12))),
            }
        };
        let example = |eight: &[usize; LANES], e: usize| {
            std::array::from_fn(|k| Row(eight.map(|c| space.rotations[(c * 4 + k) * n + e])))
        };
        let examples = groups.iter().flat_map(|eight| (0..n).map(move |e| example(eight, e)));
        let mut laid = Self {
            poses: n,
            rows,
            joints: groups.iter().map(joints).collect(),
            joint_count: space.joints.len(),
            examples: examples.collect(),
            peak_rate: space.regions.iter().any(|r| r.peak != 0.0).then_some(space.peak_rate),
            bones: eights(&c.regions.iter().map(|r| bone(r.bone as u16)).collect::<Vec<_>>()),
            regions: Vec::new(),
            terms: Vec::new(),
            mixed: Vec::new(),
            mixing: Vec::new(),
            pairs: Vec::new(),
            changes: Vec::new(),
        };
        let after = DAffine3 {
            matrix3: DMat3::from_cols_array(&rest_frame.matrix3.to_cols_array().map(f64::from)),
            translation: rest_frame.translation.as_dvec3(),
        }
        .inverse();
        let term = |joint: u32, rate, share| Term { joint, distances: joint * rows as u32, rate, share };
        let filling = term((LANES * laid.joints.len()) as u32, 0.0, 0.0);
        let mut weights = LANES * rows * space.regions.len();
        for (kernel, region) in space.regions.iter().zip(&c.regions) {
            let share = kernel.additive / kernel.joints.len().max(1) as f32;
            for four in kernel.joints.chunks(4) {
                let own = |&(joint, rate): &(u16, f32)| term(u32::from(joint), rate, share);
                laid.terms.push(std::array::from_fn(|k| four.get(k).map_or(filling, own)));
            }
            if n > 0 {
                weights += laid.add_changes(region, n, weights, after);
            }
            let (constant, product, peak) = (kernel.constant, kernel.product, kernel.peak);
            laid.regions.push(Region { terms: laid.terms.len(), constant, product, peak });
        }
        laid
    }

    /// Adds the changes of the next region; `weights` is where its component weights would stand. Returns how much room those
    /// take, nil if there are none.
    fn add_changes(&mut self, region: &ProxyRegion, n: usize, weights: usize, after: DAffine3) -> usize {
        let (r, count, members) = (self.regions.len(), region.mixing.len() / n, region.proxies.len());
        let component = |k: usize, member: usize| folded(&region.components[k * members + member], after);
        let mixing = |k: usize, e: usize| f64::from(region.mixing[k * n + e]);
        // Rows of lanes to read, which is what this costs; mixing must save a quarter of them to be worth its own loops.
        let (mixed, two) = (count.div_ceil(LANES), 3 * members.div_ceil(2));
        let few = 4 * (mixed * n + count * two) < 3 * n * two;
        let change = |input: usize, member: usize| -> [f64; 12] {
            if few {
                return component(input, member);
            }
            let mut sum = [0.0; 12];
            for k in 0..count {
                sum.iter_mut().zip(component(k, member)).for_each(|(sum, entry)| *sum += mixing(k, input) * entry);
            }
            sum
        };
        let (at, inputs) = if few { (weights, count) } else { (LANES * self.rows * r, n) };
        for (pair, proxies) in region.proxies.chunks(2).enumerate() {
            let (first, second) = (proxies[0], proxies.get(1).copied());
            for input in 0..inputs {
                let halves = [change(input, 2 * pair), second.map_or([0.0; 12], |_| change(input, 2 * pair + 1))];
                let row = |i: usize| Row(std::array::from_fn(|l| halves[l / 4][4 * i + l % 4] as f32));
                self.changes.push([row(0), row(1), row(2)]);
            }
            let proxies = [first, second.unwrap_or(first)];
            self.pairs.push(Pair { region: r as u32, proxies, at: at as u32, count: inputs as u32 });
        }
        if !few {
            return 0;
        }
        self.mixing.extend(blendable(n, count, |e, k| mixing(k, e)));
        self.mixed.push(Mixed { region: r, components: count });
        LANES * mixed
    }

    /// Room for it.
    pub fn room(&self) -> CorrectionRoom {
        let row = Row::default();
        let weights: usize = self.mixed.iter().map(|mixed| mixed.components.next_multiple_of(LANES)).sum();
        CorrectionRoom {
            distances: vec![row; LANES * (self.joints.len() + 1) * self.rows],
            fades: vec![1.0; LANES * (self.joints.len() + 1)],
            peaks: vec![row; if self.peak_rate.is_some() { self.rows } else { 0 }],
            inputs: vec![0.0; LANES * self.rows * self.regions.len() + weights],
            faded: vec![0.0; self.regions.len()],
            turns: vec![[row; 9]; self.bones.len()],
        }
    }

    /// Adds the changes to the proxy bones' world transforms; `rotations` are quaternions of F Q_b, `joints` those of the
    /// joints, x, y, z, w of eight at a time.
    #[inline(always)]
    pub fn add<L: Lanes>(
        &self,
        s: L,
        rotations: &[Row],
        joints: &[[Row; 4]],
        room: &mut CorrectionRoom,
        proxies: &mut [Matrix],
    ) {
        if self.poses == 0 {
            return;
        }
        self.see(s, joints, room);
        self.peaks(s, room);
        for (places, out) in self.bones.iter().zip(&mut room.turns) {
            let turns = matrices(s, gathered(s, rotations, places));
            for k in 0..9 {
                out[k] = Row(s.array(turns[k]));
            }
        }
        self.kernels(s, room);
        self.mix(s, room);
        let CorrectionRoom { inputs, faded, turns, .. } = room;
        let mut changes = &self.changes[..];
        for Pair { region, proxies: [one, other], at, count } in &self.pairs {
            let (at, count) = (*at as usize, *count as usize);
            let own;
            (own, changes) = changes.split_at(count);
            if faded[*region as usize] == 0.0 {
                continue;
            }
            let [x, y, z] = change(s, &inputs[at..at + count], own);
            let (turn, lane) = (&turns[*region as usize / LANES], *region as usize % LANES);
            for row in 0..3 {
                let [a, b, c] = [turn[3 * row].0[lane], turn[3 * row + 1].0[lane], turn[3 * row + 2].0[lane]];
                let turned = s.mul_add(s.splat(a), x, s.mul_add(s.splat(b), y, s.mul(s.splat(c), z)));
                let turned = s.array(turned);
                for c in 0..4 {
                    proxies[*one as usize].0[4 * row + c] += turned[c];
                }
                for c in 0..4 {
                    proxies[*other as usize].0[4 * row + c] += turned[4 + c];
                }
            }
        }
    }

    /// Component weights `a = M κ` of the regions that have them.
    #[inline(always)]
    fn mix<L: Lanes>(&self, s: L, room: &mut CorrectionRoom) {
        let mut mixing = &self.mixing[..];
        let (kernels, mut weights) = room.inputs.split_at_mut(LANES * self.rows * self.regions.len());
        for Mixed { region, components } in &self.mixed {
            let (own, out);
            (own, mixing) = mixing.split_at(components.div_ceil(LANES) * self.poses);
            (out, weights) = weights.split_at_mut(components.next_multiple_of(LANES));
            blend(s, &kernels[LANES * self.rows * region..][..self.poses], own, out);
        }
    }

    /// Distances of every joint to every example, and the fades.
    #[inline(always)]
    fn see<L: Lanes>(&self, s: L, rotations: &[[Row; 4]], room: &mut CorrectionRoom) {
        let one = s.splat(1.0);
        let zero = s.splat(0.0);
        let examples = self.examples.chunks_exact(self.poses);
        let distances = room.distances.chunks_exact_mut(LANES * self.rows);
        for (((joints, examples), distances), fade) in
            self.joints.iter().zip(examples).zip(distances).zip(room.fades.as_chunks_mut::<LANES>().0)
        {
            let mut own = [Row::default(); 4];
            for (lane, &place) in joints.places.iter().enumerate() {
                let q = &rotations[place as usize / LANES];
                for k in 0..4 {
                    own[k].0[lane] = q[k].0[place as usize % LANES];
                }
            }
            let own = [s.load(&own[0]), s.load(&own[1]), s.load(&own[2]), s.load(&own[3])];
            let mut least = s.splat(f32::MAX);
            for (row, examples) in examples.chunks(LANES).enumerate() {
                let mut eight = [zero; LANES];
                for (d, example) in eight.iter_mut().zip(examples) {
                    *d = apart(s, &own, example);
                    least = s.select_less(*d, least, *d, least);
                }
                let eight = s.transpose(eight);
                for l in 0..LANES {
                    distances[l * self.rows + row] = Row(s.array(eight[l]));
                }
            }
            // 1 − t² (3 − 2t), t from nil at `near` to one at `far`.
            let t = s.mul(s.sub(s.sqrt(least), s.load(&joints.near)), s.load(&joints.rate));
            let t = s.select_less(t, zero, zero, s.select_less(one, t, one, t));
            let step = s.neg_mul_add(s.splat(2.0), t, s.splat(3.0));
            *fade = s.array(s.neg_mul_add(s.mul(t, t), step, one));
        }
    }

    /// ν of every example.
    #[inline(always)]
    fn peaks<L: Lanes>(&self, s: L, room: &mut CorrectionRoom) {
        let Some(rate) = self.peak_rate else { return };
        for (row, peak) in room.peaks.iter_mut().enumerate() {
            let own = room.distances.iter().skip(row).step_by(self.rows).take(self.joint_count);
            let mut sum = s.splat(0.0);
            for d in own {
                sum = s.add(sum, s.load(d));
            }
            let root = s.mul_add(s.splat(rate), sum, s.splat(1.0));
            *peak = Row(s.array(s.div(s.splat(1.0), s.mul(root, root))));
        }
    }

    /// κ of every region, and how much of each the pose leaves.
    #[inline(always)]
    fn kernels<L: Lanes>(&self, s: L, room: &mut CorrectionRoom) {
        let CorrectionRoom { distances, fades, peaks, inputs, faded, .. } = room;
        let (kernels, mut first) = (inputs.chunks_exact_mut(LANES * self.rows), 0);
        for ((region, kernel), faded) in self.regions.iter().zip(kernels).zip(faded) {
            let terms = &self.terms[first..region.terms];
            first = region.terms;
            let fade = |term: &Term| fades[term.joint as usize];
            *faded = 1.0;
            for [a, b, c, d] in terms {
                *faded *= (fade(a) * fade(b)) * (fade(c) * fade(d));
            }
            // Two eights of poses at a time: they share what is looked up of a joint, and neither waits for the other.
            let (twos, last) = kernel.as_chunks_mut::<{ 2 * LANES }>();
            let even = 2 * twos.len();
            for (two, kernel) in twos.iter_mut().enumerate() {
                kernel_rows::<L, 2>(s, region, terms, *faded, 2 * two, distances, peaks, kernel);
            }
            if !last.is_empty() {
                kernel_rows::<L, 1>(s, region, terms, *faded, even, distances, peaks, last);
            }
        }
    }
}

/// κ of R eights of poses from `row` on: with `f_j = 1 + rate_j d_j²`, `Σ_j share_j / f_j + product / Π_j f_j` over one
/// common denominator.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "slices apart, so that none is looked up again in the loop")]
fn kernel_rows<L: Lanes, const R: usize>(
    s: L,
    region: &Region,
    terms: &[[Term; 4]],
    faded: f32,
    row: usize,
    distances: &[Row],
    peaks: &[Row],
    kernel: &mut [f32],
) {
    let one = s.splat(1.0);
    let (mut above, mut below) = ([s.splat(0.0); R], [one; R]);
    for term in terms.as_flattened() {
        let (rate, share) = (s.splat(term.rate), s.splat(term.share));
        let distances = &distances[term.distances as usize + row..][..R];
        for r in 0..R {
            let f = s.mul_add(rate, s.load(&distances[r]), one);
            above[r] = s.mul_add(above[r], f, s.mul(below[r], share));
            below[r] = s.mul(below[r], f);
        }
    }
    let (constant, product, faded) = (s.splat(region.constant), s.splat(region.product), s.splat(faded));
    for (r, kernel) in kernel.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
        let mut kappa = s.add(constant, s.div(s.add(above[r], product), below[r]));
        if region.peak != 0.0 {
            kappa = s.mul_add(s.splat(region.peak), s.load(&peaks[row + r]), kappa);
        }
        *kernel = s.array(s.mul(kappa, faded));
    }
}

/// `Σ_i inputs_i values_i`: the rows of two proxies' changes.
#[inline(always)]
fn change<L: Lanes>(s: L, inputs: &[f32], values: &[[Row; 3]]) -> [L::V; 3] {
    // Even and odd inputs apart: with three chains additions wait for each other.
    let mut sums = [[s.splat(0.0); 3]; 2];
    let ((twos, last), (values, last_value)) = (inputs.as_chunks::<2>(), values.as_chunks::<2>());
    for (inputs, values) in twos.iter().zip(values) {
        for k in 0..2 {
            let weight = s.splat(inputs[k]);
            for row in 0..3 {
                sums[k][row] = s.mul_add(weight, s.load(&values[k][row]), sums[k][row]);
            }
        }
    }
    if let ([input], [value]) = (last, last_value) {
        let weight = s.splat(*input);
        for row in 0..3 {
            sums[0][row] = s.mul_add(weight, s.load(&value[row]), sums[0][row]);
        }
    }
    let [even, odd] = sums;
    [s.add(even[0], odd[0]), s.add(even[1], odd[1]), s.add(even[2], odd[2])]
}

/// `d² = ‖q − e‖² ‖q + e‖²`: the narrow ν sees its last digits, which a dot product would lose.
#[inline(always)]
fn apart<L: Lanes>(s: L, own: &[L::V; 4], example: &[Row; 4]) -> L::V {
    let (mut minus, mut plus) = (s.splat(0.0), s.splat(0.0));
    for k in 0..4 {
        let example = s.load(&example[k]);
        let (difference, sum) = (s.sub(own[k], example), s.add(own[k], example));
        minus = s.mul_add(difference, difference, minus);
        plus = s.mul_add(sum, sum, plus);
    }
    s.mul(minus, plus)
}

/// A 3×4 change column by column, as rows, with `after` applied to the rest mesh first.
fn folded(columns: &[f32; 12], after: DAffine3) -> [f64; 12] {
    let column = |k: usize| DVec3::from_array(std::array::from_fn(|i| f64::from(columns[3 * k + i])));
    let linear = DMat3::from_cols(column(0), column(1), column(2));
    let moved = linear * after.translation + column(3);
    let linear = linear * after.matrix3;
    std::array::from_fn(|k| match k % 4 {
        3 => moved[k / 4],
        c => linear.col(c)[k / 4],
    })
}

/// Rows that [`blend`] works on together: enough for the additions not to wait for each other.
const TOGETHER: usize = 4;

/// A matrix (inputs, outputs) as [`blend`] reads it: the outputs in eights, of up to four eights those of the first input,
/// then of the second and so on, then of the next four eights.
fn blendable(inputs: usize, outputs: usize, entry: impl Fn(usize, usize) -> f64) -> Vec<Row> {
    let rows: Vec<usize> = (0..outputs.div_ceil(LANES)).collect();
    let value = |i: usize, o: usize| if o < outputs { entry(i, o) as f32 } else { 0.0 };
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
