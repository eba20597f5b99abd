//! Rotations of eight joints at a time, without branches and without the C library's functions: the nearest rotation,
//! quaternions, the logarithm and the exponential.
//!
//! Sine, cosine and arc tangent are polynomials, least in the largest error over their range; each says its error. The
//! Loops and not `map`: a closure that the compiler does not inline is compiled without the lanes' instructions. The
//! plain twins are in [`joint_rotations`](crate::joint_rotations) and [`posed`](crate::posed).

use core::f32::consts::{FRAC_1_PI, PI, TAU};

use super::lanes::Lanes;

/// Quaternions x, y, z, w in lanes.
pub(super) type Quaternions<L> = [<L as Lanes>::V; 4];
/// 3×3 matrices row by row in lanes.
pub(super) type Matrices<L> = [<L as Lanes>::V; 9];
/// Vectors in lanes.
pub(super) type Vectors<L> = [<L as Lanes>::V; 3];

/// How far `mᵀm` may be from the identity for [`polished`] to hold: the error left is of the order of its square.
pub(super) const NEARLY_ROTATION: f32 = 1e-4;

/// `c₀ + c₁ y + …` by Horner's rule.
#[inline(always)]
fn polynomial<L: Lanes, const N: usize>(s: L, y: L::V, coefficients: [f32; N]) -> L::V {
    let mut sum = s.splat(coefficients[N - 1]);
    for k in (0..N - 1).rev() {
        sum = s.mul_add(sum, y, s.splat(coefficients[k]));
    }
    sum
}

/// The same of six, two at a time: a shorter chain, where nothing else is left to do in the meantime.
#[inline(always)]
fn in_pairs<L: Lanes>(s: L, y: L::V, [a, b, c, d, e, f]: [f32; 6]) -> L::V {
    let square = s.mul(y, y);
    let low = s.mul_add(s.splat(b), y, s.splat(a));
    let middle = s.mul_add(s.splat(d), y, s.splat(c));
    let high = s.mul_add(s.splat(f), y, s.splat(e));
    s.mul_add(s.mul_add(high, square, middle), square, low)
}

/// The nearest whole number, for |v| below 2²².
#[inline(always)]
fn round<L: Lanes>(s: L, v: L::V) -> L::V {
    // At 1.5 · 2²³ a step of f32 is one: adding it rounds.
    let shift = s.splat(12_582_912.0);
    s.sub(s.add(v, shift), shift)
}

#[inline(always)]
fn scaled<L: Lanes>(s: L, [x, y, z]: Vectors<L>, factor: L::V) -> Vectors<L> {
    [s.mul(x, factor), s.mul(y, factor), s.mul(z, factor)]
}

#[inline(always)]
pub(super) fn dot<L: Lanes>(s: L, a: Vectors<L>, b: Vectors<L>) -> L::V {
    s.mul_add(a[0], b[0], s.mul_add(a[1], b[1], s.mul(a[2], b[2])))
}

/// One step of Newton and Schulz, `m (3I − mᵀm) / 2`, its sign turned if `m` mirrors; and the largest entry of
/// `|mᵀm − I|`, which says whether one step is enough (see [`NEARLY_ROTATION`]).
#[inline(always)]
pub(super) fn polished<L: Lanes>(s: L, m: Matrices<L>) -> (Matrices<L>, L::V) {
    let column = |c: usize| [m[c], m[3 + c], m[6 + c]];
    let (x, y, z) = (column(0), column(1), column(2));
    let gram = [dot(s, x, x), dot(s, y, y), dot(s, z, z), dot(s, x, y), dot(s, x, z), dot(s, y, z)];
    let (one, zero, half) = (s.splat(1.0), s.splat(0.0), s.splat(0.5));
    let mut off = zero;
    for (k, &entry) in gram.iter().enumerate() {
        let square = if k < 3 { s.sub(entry, one) } else { entry };
        let square = s.mul(square, square);
        off = s.select_less(off, square, square, off);
    }
    let cross = [
        s.neg_mul_add(y[2], z[1], s.mul(y[1], z[2])),
        s.neg_mul_add(y[0], z[2], s.mul(y[2], z[0])),
        s.neg_mul_add(y[1], z[0], s.mul(y[0], z[1])),
    ];
    let sign = s.select_less(dot(s, x, cross), zero, s.splat(-0.5), half);
    let three = s.splat(3.0);
    let [xx, yy, zz, xy, xz, yz] = gram;
    let (a, b, c) = (s.sub(three, xx), s.sub(three, yy), s.sub(three, zz));
    let mut out = m;
    for row in 0..3 {
        let [p, q, r] = [m[3 * row], m[3 * row + 1], m[3 * row + 2]];
        let entries = [
            s.neg_mul_add(r, xz, s.neg_mul_add(q, xy, s.mul(p, a))),
            s.neg_mul_add(r, yz, s.neg_mul_add(p, xy, s.mul(q, b))),
            s.neg_mul_add(q, yz, s.neg_mul_add(p, xz, s.mul(r, c))),
        ];
        for (k, entry) in entries.into_iter().enumerate() {
            out[3 * row + k] = s.mul(sign, entry);
        }
    }
    (out, s.sqrt(off))
}

/// The unit quaternions of rotations: of the four ways to read one off a matrix, the one with the largest divisor.
#[inline(always)]
pub(super) fn quaternions<L: Lanes>(s: L, m: Matrices<L>) -> Quaternions<L> {
    let [xx, xy, xz, yx, yy, yz, zx, zy, zz] = m;
    let one = s.splat(1.0);
    let (up, down) = (s.add(one, xx), s.sub(one, xx));
    let (sum, difference) = (s.add(yy, zz), s.sub(yy, zz));
    let (wx, wy, wz) = (s.sub(zy, yz), s.sub(xz, zx), s.sub(yx, xy));
    let (pxy, pxz, pyz) = (s.add(yx, xy), s.add(xz, zx), s.add(zy, yz));
    // Each is the quaternion times four times one of its entries: w, x, y, z.
    let (by_w, by_x) = ([wx, wy, wz, s.add(up, sum)], [s.sub(up, sum), pxy, pxz, wx]);
    let (by_y, by_z) = ([pxy, s.add(down, difference), pyz, wy], [pxz, pyz, s.sub(down, difference), wz]);
    let ((first, most), (second, other)) =
        (better(s, (by_w, by_w[3]), (by_x, by_x[0])), better(s, (by_y, by_y[1]), (by_z, by_z[2])));
    let mut q = first;
    for k in 0..4 {
        q[k] = s.select_less(most, other, second[k], first[k]);
    }
    let square = s.mul_add(q[3], q[3], dot(s, [q[0], q[1], q[2]], [q[0], q[1], q[2]]));
    let scale = s.div(one, s.sqrt(square));
    [s.mul(q[0], scale), s.mul(q[1], scale), s.mul(q[2], scale), s.mul(q[3], scale)]
}

/// The quaternion with the larger number, and that number.
#[inline(always)]
fn better<L: Lanes>(s: L, a: (Quaternions<L>, L::V), b: (Quaternions<L>, L::V)) -> (Quaternions<L>, L::V) {
    let mut q = a.0;
    for k in 0..4 {
        q[k] = s.select_less(a.1, b.1, b.0[k], q[k]);
    }
    (q, s.select_less(a.1, b.1, b.1, a.1))
}

/// The product a b.
#[inline(always)]
pub(super) fn product<L: Lanes>(s: L, a: Quaternions<L>, b: Quaternions<L>) -> Quaternions<L> {
    let [ax, ay, az, aw] = a;
    let [bx, by, bz, bw] = b;
    [
        s.neg_mul_add(az, by, s.mul_add(ay, bz, s.mul_add(ax, bw, s.mul(aw, bx)))),
        s.neg_mul_add(ax, bz, s.mul_add(az, bx, s.mul_add(ay, bw, s.mul(aw, by)))),
        s.neg_mul_add(ay, bx, s.mul_add(ax, by, s.mul_add(az, bw, s.mul(aw, bz)))),
        s.neg_mul_add(az, bz, s.neg_mul_add(ay, by, s.neg_mul_add(ax, bx, s.mul(aw, bw)))),
    ]
}

/// The product a⁻¹ b of unit quaternions.
#[inline(always)]
pub(super) fn from_to<L: Lanes>(s: L, [x, y, z, w]: Quaternions<L>, b: Quaternions<L>) -> Quaternions<L> {
    let zero = s.splat(0.0);
    product(s, [s.sub(zero, x), s.sub(zero, y), s.sub(zero, z), w], b)
}

/// The logarithms (axis times angle) of unit quaternions, with angles up to π, and what they are the quaternions' x, y, z
/// times. Off by 5e-7 at most.
///
/// With φ half the angle, `u = v / (1 + w)` has length tan(φ/2) and `u / (1 + √(1 + u²))` length tan(φ/4), at most 0.42:
/// there arctan is a short polynomial, and nothing is singular at zero.
#[inline(always)]
pub(super) fn short_logarithms<L: Lanes>(s: L, [x, y, z, w]: Quaternions<L>) -> (Vectors<L>, L::V) {
    let (zero, one) = (s.splat(0.0), s.splat(1.0));
    // q and −q are one rotation: the one with w ≥ 0 has the smaller angle.
    let sign = s.select_less(w, zero, s.splat(-1.0), one);
    let once = s.div(sign, s.mul_add(sign, w, one));
    let square = s.mul(s.mul(once, once), dot(s, [x, y, z], [x, y, z]));
    let twice = s.div(one, s.add(one, s.sqrt(s.add(one, square))));
    // arctan(√y)/√y for y ≤ 0.1716, off by 6e-10.
    let arctan = [1.0, -0.333_333_08, 0.199_982_37, -0.142_404_11, 0.105_756_49, -0.060_398_113];
    // The angle is 2φ, eight times the arc tangent.
    let scale = in_pairs(s, s.mul(s.mul(twice, twice), square), arctan.map(|c| 8.0 * c));
    let factor = s.mul(s.mul(once, twice), scale);
    (scaled(s, [x, y, z], factor), factor)
}

/// The logarithms of the same rotations on the branch nearest to `reference`; `direction` is the reference's own, for
/// rotations too small to have one.
#[inline(always)]
pub(super) fn on_branch<L: Lanes>(s: L, rho: Vectors<L>, reference: Vectors<L>, direction: Vectors<L>) -> Vectors<L> {
    // Whole turns about the rotation's axis. Below 2e-6 radians the axis is rounding.
    let square = dot(s, rho, rho);
    let (tiny, inverse) = (s.splat(4e-12), s.div(s.splat(1.0), s.sqrt(square)));
    let (mut axis, mut apart) = (scaled(s, rho, inverse), rho);
    for k in 0..3 {
        axis[k] = s.select_less(square, tiny, direction[k], axis[k]);
        apart[k] = s.sub(reference[k], rho[k]);
    }
    let turns = s.mul(s.splat(TAU), round(s, s.mul(dot(s, apart, axis), s.splat(0.5 * FRAC_1_PI))));
    let mut log = rho;
    for k in 0..3 {
        log[k] = s.mul_add(axis[k], turns, rho[k]);
    }
    log
}

/// Whether the short logarithms are on the branch nearest to `reference` already, told from what is cheap: no whole turn
/// is due where `|reference · ρ − ρ²| < π |ρ|`. `still` is what may be added to the right side's square, for rotations next
/// to nil: a little if the reference is shorter than π, otherwise something negative.
#[inline(always)]
pub(super) fn on_short_branch<L: Lanes>(s: L, rho: Vectors<L>, reference: Vectors<L>, still: L::V) -> bool {
    let square = dot(s, rho, rho);
    let off = s.sub(dot(s, reference, rho), square);
    s.all_less(s.mul(off, off), s.mul_add(s.splat(0.99 * PI * PI), square, still))
}

/// The square of the angle up to which [`half_angle`] needs no root and no division: beyond π, because branches go there, and
/// as far as six coefficients do.
const MODERATE: f32 = 4.5 * 4.5;

/// sin(θ/2)/θ and cos(θ/2) from θ², or both negated, which is the same rotation; off by 2e-7.
#[inline(always)]
pub(super) fn half_angle<L: Lanes>(s: L, square: L::V) -> [L::V; 2] {
    if s.all_less(square, s.splat(MODERATE)) {
        // Off by 4e-9 and 3e-8 there, before rounding.
        let sine = [0.5, -0.020_833_332, 2.604_156e-4, -1.549_854_8e-6, 5.357_841_3e-9, -1.111_408_7e-11];
        let cosine = [1.0, -0.124_999_96, 0.002_604_139_3, -2.169_510_3e-5, 9.625_152_6e-8, -2.402_379_4e-10];
        return [in_pairs(s, square, sine), in_pairs(s, square, cosine)];
    }
    let (one, half) = (s.splat(1.0), s.splat(0.5));
    let theta = s.sqrt(square);
    let turns = round(s, s.mul(theta, s.splat(0.5 * FRAC_1_PI)));
    // Half of what is left of θ after whole turns, within ±π/2; over θ it is ½ − π turns / θ, where θ > 1 if turns > 0.
    let rest = s.neg_mul_add(turns, s.splat(PI), s.mul(theta, half));
    let over = s.neg_mul_add(turns, s.div(s.splat(PI), s.select_less(theta, one, one, theta)), half);
    let y = s.mul(rest, rest);
    // sin(√y)/√y and cos(√y) for y ≤ π²/4, off by 4e-9 and 2e-10.
    let sine = [1.0, -0.166_666_58, 0.008_333_051, -0.000_198_090_75, 2.605_224_8e-6];
    let cosine = [1.0, -0.5, 0.041_666_638, -0.001_388_836_2, 2.476_016_2e-5, -2.605_149_5e-7];
    [s.mul(over, polynomial(s, y, sine)), polynomial(s, y, cosine)]
}

/// The quaternions of the rotations by ‖ρ‖ about ρ.
#[inline(always)]
pub(super) fn exponentials<L: Lanes>(s: L, rho: Vectors<L>) -> Quaternions<L> {
    let [sine, cosine] = half_angle(s, dot(s, rho, rho));
    [s.mul(rho[0], sine), s.mul(rho[1], sine), s.mul(rho[2], sine), cosine]
}

/// The rotation matrices of unit quaternions.
#[inline(always)]
pub(super) fn matrices<L: Lanes>(s: L, [x, y, z, w]: Quaternions<L>) -> Matrices<L> {
    let one = s.splat(1.0);
    let (x2, y2, z2) = (s.add(x, x), s.add(y, y), s.add(z, z));
    let (xx, yy, zz) = (s.mul(x, x2), s.mul(y, y2), s.mul(z, z2));
    let (wx, wy, wz) = (s.mul(w, x2), s.mul(w, y2), s.mul(w, z2));
    [
        s.sub(one, s.add(yy, zz)),
        s.neg_mul_add(w, z2, s.mul(x, y2)),
        s.mul_add(x, z2, wy),
        s.mul_add(x, y2, wz),
        s.sub(one, s.add(xx, zz)),
        s.neg_mul_add(w, x2, s.mul(y, z2)),
        s.neg_mul_add(w, y2, s.mul(x, z2)),
        s.mul_add(y, z2, wx),
        s.sub(one, s.add(xx, yy)),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::lanes::{Instructions, Kernel, Row};
    use super::*;
    use crate::joint_rotations::{exp, log_near};
    use crate::posed::nearest_rotation;
    use glam::{Mat3A, Vec3A};

    /// From a matrix near a rotation to its logarithm and back, eight at a time.
    struct RoundTrip<'a> {
        matrices: [Mat3A; 8],
        references: [Vec3A; 8],
        logs: &'a mut [[f32; 8]; 3],
        back: &'a mut [[f32; 8]; 9],
    }

    impl Kernel for RoundTrip<'_> {
        fn run<L: Lanes>(self, s: L) {
            let lanes = |value: &dyn Fn(usize) -> f32| s.load(&Row(std::array::from_fn(value)));
            let m = std::array::from_fn(|k| lanes(&|l| self.matrices[l].to_cols_array()[k % 3 * 3 + k / 3]));
            let reference = std::array::from_fn(|k| lanes(&|l| self.references[l][k]));
            let direction = std::array::from_fn(|k| lanes(&|l| self.references[l].normalize_or_zero()[k]));
            let q = quaternions(s, polished(s, m).0);
            let rho = on_branch(s, short_logarithms(s, q).0, reference, direction);
            *self.logs = rho.map(|v| s.array(v));
            *self.back = matrices(s, exponentials(s, rho)).map(|v| s.array(v));
        }
    }

    fn check(rotations: [Vec3A; 8], references: [Vec3A; 8], scale: f32) {
        let matrices = rotations.map(|rho| exp(rho) * scale);
        for instructions in [Instructions::Portable, Instructions::detect()] {
            let (mut logs, mut back) = ([[0.0; 8]; 3], [[0.0; 8]; 9]);
            instructions.run(RoundTrip { matrices, references, logs: &mut logs, back: &mut back });
            for l in 0..8 {
                let found = Vec3A::new(logs[0][l], logs[1][l], logs[2][l]);
                let rotation = nearest_rotation(matrices[l]);
                let twin = log_near(rotation, references[l]);
                // Six digits of an angle of a few radians; beside π the twin itself keeps half of f32's digits (its
                // arc tangent of a vanishing cosine), hence the second term.
                let near_pi = (twin.length() - PI).abs() < 0.01;
                let tolerance = if near_pi { 1e-3 } else { 3e-6 };
                assert!((found - twin).length() < tolerance, "{found} instead of {twin}");
                for k in 0..9 {
                    let entry = rotation.to_cols_array()[k % 3 * 3 + k / 3];
                    // Each of the dozen steps in between rounds; angles go up to 9 radians.
                    assert!((back[k][l] - entry).abs() < 3e-6, "{} instead of {entry} for {twin}", back[k][l]);
                }
            }
        }
    }

    #[test]
    fn lanes_do_as_the_plain_functions() {
        let axis = Vec3A::new(0.36, -0.48, 0.8);
        // The last two are 4.49 and 4.50 the other way round: beside where the exponential changes its ways.
        for angle in [0.0, 1e-7, 1e-3, 0.5, 1.6, 3.0, 3.1, -1.79, -1.78] {
            let around = |l: usize| [axis, -axis, Vec3A::X, Vec3A::Y, -Vec3A::Z, axis.yzx(), axis.zxy(), Vec3A::Z][l];
            let rotations = std::array::from_fn(|l| around(l) * angle);
            check(rotations, [Vec3A::ZERO; 8], 1.0);
            check(rotations, [Vec3A::ZERO; 8], -1.00001);
            // Another branch: references up to 9 radians away.
            check(rotations, std::array::from_fn(|l| around(l) * (2.0 + l as f32)), 0.99999);
            // All eight on one branch.
            for reference in [4.5, 6.2, 9.0] {
                check(rotations, std::array::from_fn(|l| around(l) * reference), 1.0);
            }
        }
    }

    /// sin(θ/2)/θ and cos(θ/2) of eight angles.
    struct Halves<'a>([f32; 8], &'a mut [[f32; 8]; 2]);

    impl Kernel for Halves<'_> {
        fn run<L: Lanes>(self, s: L) {
            let squares = s.load(&Row(self.0.map(|angle| angle * angle)));
            *self.1 = half_angle(s, squares).map(|v| s.array(v));
        }
    }

    #[test]
    fn half_angles_are_right_on_both_ways() {
        let check = |angles: [f32; 8]| {
            for instructions in [Instructions::Portable, Instructions::detect()] {
                let mut found = [[0.0; 8]; 2];
                instructions.run(Halves(angles, &mut found));
                for l in 0..8 {
                    // Of the rounded square, which is what was asked for.
                    let theta = f64::from(angles[l] * angles[l]).sqrt();
                    let sine = if theta == 0.0 { 0.5 } else { (theta / 2.0).sin() / theta };
                    let cosine = (theta / 2.0).cos();
                    let [found_sine, found_cosine] = [f64::from(found[0][l]), f64::from(found[1][l])];
                    // Both may be negated: it is the same rotation.
                    let sign = (found_sine * sine + found_cosine * cosine).signum();
                    let off = [(found_sine - sign * sine).abs(), (found_cosine - sign * cosine).abs()];
                    // Two ten-millionths, and half the last bit of one for rounding it.
                    assert!(off.iter().all(|&off| off < 2.6e-7), "{}: off by {off:?}", angles[l]);
                }
            }
        };
        for k in 0..1200 {
            let angle = k as f32 * 0.0075;
            let near = std::array::from_fn(|l| angle + l as f32 * 1e-3);
            check(near);
            // One that is not moderate takes the other way with all.
            check(std::array::from_fn(|l| if l == 5 { 9.0 } else { near[l] }));
        }
    }

    use glam::Vec3Swizzles as _;
}
