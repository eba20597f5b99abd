//! How much each example pose has to say about the present one, for every region of a correction: κ of
//! [`PoseSpace`], eight example poses at a time. The plain twin is `PoseSpace::kernel`.

use super::lanes::{Lanes, Row};
use super::regress::{LANES, eights};
use crate::pose_space::PoseSpace;

/// A pose space laid out for its kernel: N example poses, which stand in `rows` eights; the last repeats to fill up.
#[derive(Debug, Clone)]
pub(crate) struct Examples {
    pub rows: usize,
    /// Places of the joints that count among the joints' rotations, (C).
    places: Vec<u32>,
    /// Quaternions of the examples, x, y, z, w of eight poses, (C, rows).
    rotations: Vec<[Row; 4]>,
    /// The distances at which fading begins, and one over how much farther it ends, (C in eights).
    fades: Vec<[Row; 2]>,
    /// The rate of ν; none if no region has a peak.
    peak_rate: Option<f32>,
    regions: Vec<Region>,
    /// Joints of every region's kernel, one after the other.
    terms: Vec<Term>,
}

/// A region's kernel.
#[derive(Debug, Clone)]
struct Region {
    /// Its number of terms.
    terms: usize,
    constant: f32,
    product: f32,
    peak: f32,
}

/// A joint of a kernel.
#[derive(Debug, Clone, Copy)]
struct Term {
    joint: u32,
    rate: f32,
    /// The weight of the joint's own term.
    share: f32,
}

/// Memory of the kernel, reused from frame to frame.
#[derive(Debug, Clone, Default)]
pub(crate) struct ExamplesRoom {
    /// `d²`, (C, rows).
    distances: Vec<Row>,
    /// The least `d²` of each joint, lane by lane, (C in eights).
    nearest: Vec<Row>,
    /// How much of a region each joint leaves, (C in eights).
    fades: Vec<f32>,
    /// ν, (rows).
    peaks: Vec<Row>,
    /// κ of every region, (R, N in eights); stale where nothing of the region is left.
    pub kernels: Vec<f32>,
    /// How much of each region the pose leaves, (R).
    pub left: Vec<f32>,
}

impl Examples {
    /// Lays `space` out, its regions in the given order; `joint` finds a joint among the joints' rotations.
    pub fn new(space: &PoseSpace, order: &[usize], joint: impl Fn(u16) -> u32) -> Self {
        let (n, rows) = (space.poses, space.poses.div_ceil(LANES));
        let entry = |c: usize, k: usize, e: usize| space.rotations[(c * 4 + k) * n + e.min(n - 1)];
        let eight =
            |c: usize, row: usize| std::array::from_fn(|k| Row(std::array::from_fn(|l| entry(c, k, row * LANES + l))));
        let fade = |fades: &[[f32; 2]; LANES]| {
            let [near, far] = [0, 1].map(|end| fades.map(|fade| fade[end].sqrt()));
            [Row(near), Row(std::array::from_fn(|l| 1.0 / (far[l] - near[l]).max(1e-12)))]
        };
        let mut laid = Self {
            rows,
            places: space.joints.iter().map(|&b| joint(b)).collect(),
            rotations: (0..space.joints.len()).flat_map(|c| (0..rows).map(move |row| eight(c, row))).collect(),
            fades: eights(&space.fade).iter().map(fade).collect(),
            peak_rate: space.regions.iter().any(|r| r.peak != 0.0).then_some(space.peak_rate),
            regions: Vec::new(),
            terms: Vec::new(),
        };
        for kernel in order.iter().map(|&r| &space.regions[r]) {
            let share = kernel.additive / kernel.joints.len().max(1) as f32;
            let term = |&(joint, rate): &(u16, f32)| Term { joint: u32::from(joint), rate, share };
            laid.terms.extend(kernel.joints.iter().map(term));
            let (constant, product, peak) = (kernel.constant, kernel.product, kernel.peak);
            laid.regions.push(Region { terms: kernel.joints.len(), constant, product, peak });
        }
        laid
    }

    /// Room for it.
    pub fn room(&self) -> ExamplesRoom {
        let row = Row::default();
        ExamplesRoom {
            distances: vec![row; self.rotations.len()],
            nearest: vec![row; LANES * self.fades.len()],
            fades: vec![1.0; LANES * self.fades.len()],
            peaks: vec![row; if self.peak_rate.is_some() { self.rows } else { 0 }],
            kernels: vec![0.0; LANES * self.rows * self.regions.len()],
            left: vec![0.0; self.regions.len()],
        }
    }

    /// Fills in κ and what is left of every region; `joints` are the joints' rotations, x, y, z, w of eight at a time.
    #[inline(always)]
    pub fn see<L: Lanes>(&self, s: L, joints: &[[Row; 4]], room: &mut ExamplesRoom) {
        self.distances(s, joints, room);
        self.fades(s, room);
        self.peaks(s, room);
        self.kernels(s, room);
    }

    #[inline(always)]
    fn distances<L: Lanes>(&self, s: L, joints: &[[Row; 4]], room: &mut ExamplesRoom) {
        let examples = self.rotations.chunks_exact(self.rows).zip(room.distances.chunks_exact_mut(self.rows));
        for ((&place, nearest), (examples, distances)) in self.places.iter().zip(&mut room.nearest).zip(examples) {
            let (q, lane) = (&joints[place as usize / LANES], place as usize % LANES);
            let own = [s.splat(q[0].0[lane]), s.splat(q[1].0[lane]), s.splat(q[2].0[lane]), s.splat(q[3].0[lane])];
            let mut least = s.splat(f32::MAX);
            for (example, distance) in examples.iter().zip(distances) {
                let d = if self.peak_rate.is_some() { apart(s, &own, example) } else { about(s, &own, example) };
                least = s.select_less(d, least, d, least);
                *distance = Row(s.array(d));
            }
            *nearest = Row(s.array(least));
        }
    }

    /// `1 − t² (3 − 2t)`, t from nil at the distance `near` of the nearest example to one at `far`.
    #[inline(always)]
    fn fades<L: Lanes>(&self, s: L, room: &mut ExamplesRoom) {
        let (zero, one) = (s.splat(0.0), s.splat(1.0));
        let fades = room.nearest.as_chunks::<LANES>().0.iter().zip(room.fades.as_chunks_mut::<LANES>().0);
        for ([near, rate], (nearest, fade)) in self.fades.iter().zip(fades) {
            let mut rows = [zero; LANES];
            for l in 0..LANES {
                rows[l] = s.load(&nearest[l]);
            }
            let rows = s.transpose(rows);
            let mut least = rows[0];
            for l in 1..LANES {
                least = s.select_less(rows[l], least, rows[l], least);
            }
            // Rounding may leave less than nothing.
            let least = s.sqrt(s.select_less(least, zero, zero, least));
            let t = s.mul(s.sub(least, s.load(near)), s.load(rate));
            let t = s.select_less(t, zero, zero, s.select_less(one, t, one, t));
            let step = s.neg_mul_add(s.splat(2.0), t, s.splat(3.0));
            *fade = s.array(s.neg_mul_add(s.mul(t, t), step, one));
        }
    }

    /// ν of every example.
    #[inline(always)]
    fn peaks<L: Lanes>(&self, s: L, room: &mut ExamplesRoom) {
        let Some(rate) = self.peak_rate else { return };
        for (row, peak) in room.peaks.iter_mut().enumerate() {
            let mut sum = s.splat(0.0);
            for d in room.distances.iter().skip(row).step_by(self.rows) {
                sum = s.add(sum, s.load(d));
            }
            let root = s.mul_add(s.splat(rate), sum, s.splat(1.0));
            *peak = Row(s.array(s.div(s.splat(1.0), s.mul(root, root))));
        }
    }

    #[inline(always)]
    fn kernels<L: Lanes>(&self, s: L, room: &mut ExamplesRoom) {
        let ExamplesRoom { distances, fades, peaks, kernels, left, .. } = room;
        let mut terms = &self.terms[..];
        let kernels = kernels.chunks_exact_mut(LANES * self.rows);
        for ((region, kernel), left) in self.regions.iter().zip(kernels).zip(left) {
            let own;
            (own, terms) = terms.split_at(region.terms);
            *left = 1.0;
            for term in own {
                *left *= fades[term.joint as usize];
            }
            if *left == 0.0 {
                continue;
            }
            // Two eights of poses at a time: they share what is looked up of a joint, and neither waits for the other.
            let (twos, last) = kernel.as_chunks_mut::<{ 2 * LANES }>();
            let even = 2 * twos.len();
            for (two, kernel) in twos.iter_mut().enumerate() {
                self.kernel_rows::<L, 2>(s, region, own, *left, 2 * two, distances, peaks, kernel);
            }
            if !last.is_empty() {
                self.kernel_rows::<L, 1>(s, region, own, *left, even, distances, peaks, last);
            }
        }
    }

    /// κ of R eights of poses from `row` on: with `f_j = 1 + rate_j d_j²`, `Σ_j share_j / f_j + product / Π_j f_j` over one
    /// common denominator.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "slices apart, so that none is looked up again in the loop")]
    fn kernel_rows<L: Lanes, const R: usize>(
        &self,
        s: L,
        region: &Region,
        terms: &[Term],
        left: f32,
        row: usize,
        distances: &[Row],
        peaks: &[Row],
        kernel: &mut [f32],
    ) {
        let one = s.splat(1.0);
        let (mut above, mut below) = ([s.splat(0.0); R], [one; R]);
        for term in terms {
            let (rate, share) = (s.splat(term.rate), s.splat(term.share));
            let distances = &distances[term.joint as usize * self.rows + row..][..R];
            for r in 0..R {
                let f = s.mul_add(rate, s.load(&distances[r]), one);
                above[r] = s.mul_add(above[r], f, s.mul(below[r], share));
                below[r] = s.mul(below[r], f);
            }
        }
        let (constant, product, left) = (s.splat(region.constant), s.splat(region.product), s.splat(left));
        for (r, kernel) in kernel.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
            let mut kappa = s.add(constant, s.div(s.add(above[r], product), below[r]));
            if region.peak != 0.0 {
                kappa = s.mul_add(s.splat(region.peak), s.load(&peaks[row + r]), kappa);
            }
            *kernel = s.array(s.mul(kappa, left));
        }
    }
}

/// `d² = 4 (1 − (q · e)²)`, off by 1e-6: enough for every kernel but the narrow ν.
#[inline(always)]
fn about<L: Lanes>(s: L, own: &[L::V; 4], example: &[Row; 4]) -> L::V {
    let mut cosine = s.mul(own[0], s.load(&example[0]));
    for k in 1..4 {
        cosine = s.mul_add(own[k], s.load(&example[k]), cosine);
    }
    let four = s.splat(4.0);
    s.neg_mul_add(s.mul(four, cosine), cosine, four)
}

/// `d² = ‖q − e‖² ‖q + e‖²`: ν sees its last digits.
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
