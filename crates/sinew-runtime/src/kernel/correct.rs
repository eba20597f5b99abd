//! A correction of proxy bones in lanes: eight joints, eight example poses or two proxies' rows at a time, on the rotations
//! that rotational regression's kernel has found already. The plain twin is
//! [`ProxyCorrection`](crate::correction::ProxyCorrection)'s own `pose`.
//!
//! A region's changes are blended from what is less to read: from the example poses, `Σ_e κ_e C_e` with
//! `C_e = Σ_k M_ke B_k`, or from the components, `Σ_k a_k B_k` with `a = M κ`. With F the root's frame and F̂ its rest frame,
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
    /// (joint, rate) of every region's kernel, one after the other.
    pairs: Vec<(u32, f32)>,
    /// Mixing matrices of the regions that have one, see [`blend`].
    mixing: Vec<Row>,
    /// Changes of every region, two proxies at a time: for each input the three rows of both.
    changes: Vec<[Row; 3]>,
    /// Proxies of every region, one after the other.
    proxies: Vec<u32>,
}

#[derive(Debug, Clone)]
struct Joints {
    /// Places among the joints' rotations.
    places: [u32; LANES],
    /// The distance at which fading begins, and one over how much farther it ends.
    near: Row,
    rate: Row,
}

/// Ends of a region's ranges in the lists of [`Corrections`], and its kernel.
#[derive(Debug, Clone)]
struct Region {
    pairs: usize,
    proxies: usize,
    /// The number of components if the changes are blended from them, otherwise nil.
    components: usize,
    constant: f32,
    product: f32,
    /// The weight of each joint's own term.
    share: f32,
    peak: f32,
}

/// Memory of the kernel, reused from frame to frame.
#[derive(Debug, Clone, Default)]
pub(crate) struct CorrectionRoom {
    /// `d²`, (C in eights, rows).
    distances: Vec<Row>,
    /// (C in eights).
    fades: Vec<Row>,
    /// ν, (rows).
    peaks: Vec<Row>,
    /// κ of one region, (N in eights).
    kernel: Vec<f32>,
    /// One region's component weights, in eights.
    weights: Vec<f32>,
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
            pairs: Vec::new(),
            mixing: Vec::new(),
            changes: Vec::new(),
            proxies: Vec::new(),
        };
        let after = DAffine3 {
            matrix3: DMat3::from_cols_array(&rest_frame.matrix3.to_cols_array().map(f64::from)),
            translation: rest_frame.translation.as_dvec3(),
        }
        .inverse();
        for (kernel, region) in space.regions.iter().zip(&c.regions) {
            laid.pairs.extend(kernel.joints.iter().map(|&(joint, rate)| (u32::from(joint), rate)));
            laid.proxies.extend(&region.proxies);
            let components = laid.add_values(region, n, after);
            laid.regions.push(Region {
                pairs: laid.pairs.len(),
                proxies: laid.proxies.len(),
                components,
                constant: kernel.constant,
                product: kernel.product,
                share: kernel.additive / kernel.joints.len().max(1) as f32,
                peak: kernel.peak,
            });
        }
        laid
    }

    /// Adds a region's mixing matrix, if it is of use, and changes; the number of components, nil without a mixing matrix.
    fn add_values(&mut self, region: &ProxyRegion, n: usize, after: DAffine3) -> usize {
        let (count, members) = (region.mixing.len() / n.max(1), region.proxies.len());
        let component = |k: usize, member: usize| folded(&region.components[k * members + member], after);
        let mixing = |k: usize, e: usize| f64::from(region.mixing[k * n + e]);
        // What is less to read, in rows of lanes.
        let two = 3 * members.div_ceil(2);
        let few = count.div_ceil(LANES) * n + count * two < n * two;
        let change = |input: usize, member: usize| -> [f64; 12] {
            if few {
                return component(input, member);
            }
            let mut mixed = [0.0; 12];
            for k in 0..count {
                let entries = component(k, member);
                mixed.iter_mut().zip(entries).for_each(|(sum, entry)| *sum += mixing(k, input) * entry);
            }
            mixed
        };
        for pair in (0..members).step_by(2) {
            for input in 0..if few { count } else { n } {
                let [first, second] =
                    [0, 1].map(|m| if pair + m < members { change(input, pair + m) } else { [0.0; 12] });
                let row =
                    |i: usize| Row(std::array::from_fn(|l| (if l < 4 { first } else { second })[4 * i + l % 4] as f32));
                self.changes.push([row(0), row(1), row(2)]);
            }
        }
        if !few {
            return 0;
        }
        self.mixing.extend(blendable(n, count, |e, k| mixing(k, e)));
        count
    }

    /// Room for it.
    pub fn room(&self) -> CorrectionRoom {
        let row = Row::default();
        let most = self.regions.iter().map(|region| region.components).max().unwrap_or(0);
        CorrectionRoom {
            distances: vec![row; LANES * self.joints.len() * self.rows],
            fades: vec![row; self.joints.len()],
            peaks: vec![row; if self.peak_rate.is_some() { self.rows } else { 0 }],
            kernel: vec![0.0; LANES * self.rows],
            weights: vec![0.0; most.next_multiple_of(LANES)],
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
        let (mut pairs, mut members) = (&self.pairs[..], &self.proxies[..]);
        let (mut mixing, mut changes) = (&self.mixing[..], &self.changes[..]);
        let (mut first_pair, mut first_proxy) = (0, 0);
        for (r, region) in self.regions.iter().enumerate() {
            let (own_pairs, own_members, own_mixing, own_changes);
            (own_pairs, pairs) = pairs.split_at(region.pairs - first_pair);
            (own_members, members) = members.split_at(region.proxies - first_proxy);
            (first_pair, first_proxy) = (region.pairs, region.proxies);
            let mixed = region.components.div_ceil(LANES);
            let inputs = if mixed == 0 { self.poses } else { region.components };
            (own_mixing, mixing) = mixing.split_at(mixed * self.poses);
            (own_changes, changes) = changes.split_at(own_members.len().div_ceil(2) * inputs);
            let fade = |&(c, _): &(u32, f32)| room.fades[c as usize / LANES].0[c as usize % LANES];
            let faded: f32 = own_pairs.iter().map(fade).product();
            if faded == 0.0 {
                continue;
            }
            self.kernel(s, region, own_pairs, faded, room);
            if mixed != 0 {
                blend(s, &room.kernel[..self.poses], own_mixing, &mut room.weights[..LANES * mixed]);
            }
            let inputs = if mixed == 0 { &room.kernel[..inputs] } else { &room.weights[..inputs] };
            let (turn, lane) = (&room.turns[r / LANES], r % LANES);
            for (two, values) in own_members.chunks(2).zip(own_changes.chunks_exact(inputs.len().max(1))) {
                let [x, y, z] = change(s, inputs, values);
                for row in 0..3 {
                    let [a, b, c] = [turn[3 * row].0[lane], turn[3 * row + 1].0[lane], turn[3 * row + 2].0[lane]];
                    let turned = s.mul_add(s.splat(a), x, s.mul_add(s.splat(b), y, s.mul(s.splat(c), z)));
                    let turned = s.array(turned);
                    for (&p, turned) in two.iter().zip(turned.as_chunks::<4>().0) {
                        let out = &mut proxies[p as usize].0[4 * row..][..4];
                        out.iter_mut().zip(turned).for_each(|(out, turned)| *out += turned);
                    }
                }
            }
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
            self.joints.iter().zip(examples).zip(distances).zip(&mut room.fades)
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
            *fade = Row(s.array(s.neg_mul_add(s.mul(t, t), step, one)));
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

    /// κ of a region: with `f_j = 1 + rate_j d_j²`, `Σ_j share / f_j + product / Π_j f_j` over one common denominator.
    #[inline(always)]
    fn kernel<L: Lanes>(&self, s: L, region: &Region, pairs: &[(u32, f32)], faded: f32, room: &mut CorrectionRoom) {
        // Two eights of poses at a time: they share what is looked up of a joint, and neither waits for the other.
        for row in (0..self.rows - 1).step_by(2) {
            self.kernel_rows::<L, 2>(s, region, pairs, faded, room, row);
        }
        if self.rows % 2 == 1 {
            self.kernel_rows::<L, 1>(s, region, pairs, faded, room, self.rows - 1);
        }
    }

    /// κ of R eights of poses.
    #[inline(always)]
    fn kernel_rows<L: Lanes, const R: usize>(
        &self,
        s: L,
        region: &Region,
        pairs: &[(u32, f32)],
        faded: f32,
        room: &mut CorrectionRoom,
        row: usize,
    ) {
        let (one, share) = (s.splat(1.0), s.splat(region.share));
        let (mut above, mut below) = ([s.splat(0.0); R], [one; R]);
        for &(c, rate) in pairs {
            let rate = s.splat(rate);
            let distances = &room.distances[c as usize * self.rows + row..][..R];
            for r in 0..R {
                let f = s.mul_add(rate, s.load(&distances[r]), one);
                above[r] = s.mul_add(above[r], f, s.mul(below[r], share));
                below[r] = s.mul(below[r], f);
            }
        }
        let (constant, product, faded) = (s.splat(region.constant), s.splat(region.product), s.splat(faded));
        for r in 0..R {
            let mut kappa = s.add(constant, s.div(s.add(above[r], product), below[r]));
            if region.peak != 0.0 {
                kappa = s.mul_add(s.splat(region.peak), s.load(&room.peaks[row + r]), kappa);
            }
            room.kernel[LANES * (row + r)..][..LANES].copy_from_slice(&s.array(s.mul(kappa, faded)));
        }
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
