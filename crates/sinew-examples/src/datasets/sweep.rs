//! The mechanism behind the built-in data sets: a cross-section swept along a curved axis.
//!
//! None of the compared methods can make these shapes exactly. A strand is an axis through a chain of bones. Between
//! two bones the axis is the circular arc inscribed in their corner, so that it never kinks and runs along the bones
//! beyond the joint's reach; the frame turns evenly along the arc, and twist is spread smoothly over a stretch of the
//! bones. The skin lies in the planes across the axis. Where the two sides of a bend would meet, it flattens against
//! the plane between them; it widens there, keeps the point of the elbow, and muscles push it outwards.
//! Away from joints and muscles the skin moves exactly with a bone.
//!
//! With bend θ and reach h the arc has radius `R = h / tan(θ/2)`; at fraction t of its way the axis is at
//! `−h y + R (sin θt · y + (1 − cos θt) · n)` from the joint, n pointing to the arc's centre.

use std::f64::consts::{PI, TAU};

use glam::{DAffine3, DMat3, DQuat, DVec2, DVec3};

use super::rig::Turn;

/// How much of the space up to the plane between two sides of a bend the skin may fill.
const CONTACT_FILL: f64 = 0.97;

/// Over which part of that space the flattening sets in.
const CONTACT_SOFTNESS: f64 = 0.45;

/// A joint between two neighbouring segments of a strand.
#[derive(Debug, Clone)]
pub(super) struct StrandJoint {
    /// Its place along the strand, metres.
    pub at: f64,
    /// Half the length of axis that bends, metres.
    pub reach: f64,
    /// The stretch of the strand over which its twist is spread, metres.
    pub twist: (f64, f64),
    /// How much of the corner that the arc cuts off the outer skin keeps (an elbow's point), 0 to 1.
    pub point: f64,
    /// How much the skin widens across a right-angle bend, as a fraction.
    pub widen: f64,
    /// The bone whose turn this is.
    pub bone: usize,
    /// The turn leads from the segment after to the segment before (the strand runs against the hierarchy).
    pub reversed: bool,
}

/// An axis through a chain of bones.
#[derive(Debug, Clone)]
pub(super) struct Strand {
    /// The bone of each segment and where that bone's origin lies along the strand.
    pub segments: Vec<(usize, f64)>,
    /// The joints between them, one fewer, in order.
    pub joints: Vec<StrandJoint>,
    /// The strand's place in the bone's frame; only for a strand of one segment.
    pub mount: DAffine3,
}

/// A radius along a strand, as (place, radius to the sides, to the front +Z, to the back −Z), metres.
pub(super) type Profile = Vec<(f64, f64, f64, f64)>;

/// A muscle: a smooth bump that rises as a joint turns.
#[derive(Debug, Clone)]
pub(super) struct Muscle {
    /// Its middle along the strand and half its length, metres.
    pub along: (f64, f64),
    /// Its middle around the axis (0 front, +90° towards +X) and half its width, degrees.
    pub around: (f64, f64),
    /// Its height when fully tense, metres.
    pub height: f64,
    /// How far its middle slides along the strand when fully tense, metres.
    pub slide: f64,
    /// The bone whose joint drives it, and how tense that joint's turn makes it (0 to 1).
    pub drive: (usize, fn(Turn) -> f64),
}

/// A closed skin over a strand.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    pub strand: Strand,
    pub profile: Profile,
    /// Length of the rounded ends, metres; 0 for a flat end.
    pub caps: (f64, f64),
    pub muscles: Vec<Muscle>,
    /// Rings of vertices along the strand, and vertices in each.
    pub rings: usize,
    pub around: usize,
    /// 2 for an ellipse, more for a rounder box.
    pub squareness: f64,
}

impl Piece {
    /// V = rings · around and the two poles.
    pub(super) fn vertex_count(&self) -> usize {
        self.rings * self.around + 2
    }

    /// The skin in a pose: the ring vertices, ring by ring, then the pole before and the pole after, (V).
    pub(super) fn skin(&self, globals: &[DAffine3], turns: &[Turn]) -> Vec<DVec3> {
        let axis = Axis::new(&self.strand, globals, turns);
        let tension: Vec<f64> = self.muscles.iter().map(|m| (m.drive.1)(turns[m.drive.0])).collect();
        let mut skin = Vec::with_capacity(self.vertex_count());
        for &s in &self.places() {
            let section = axis.section(s);
            let (side, front, back) = self.radii(s);
            for k in 0..self.around {
                let angle = TAU * k as f64 / self.around as f64;
                let offset = self.offset(s, angle, side, front, back, &tension);
                skin.push(section.place(offset, side.max(front).max(back)));
            }
        }
        let (start, end) = self.ends();
        skin.push(axis.section(start).place(DVec2::ZERO, 1.0));
        skin.push(axis.section(end).place(DVec2::ZERO, 1.0));
        skin
    }

    /// The offset from the axis, across it, at `angle` from the front: radius and muscles.
    fn offset(&self, s: f64, angle: f64, side: f64, front: f64, back: f64, tension: &[f64]) -> DVec2 {
        let (sin, cos) = angle.sin_cos();
        let round = 2.0 / self.squareness;
        let ellipse = DVec2::new(
            side * sin.signum() * sin.abs().powf(round),
            if cos > 0.0 { front } else { back } * cos.signum() * cos.abs().powf(round),
        );
        let bump: f64 = self.muscles.iter().zip(tension).map(|(m, &tense)| m.bump(s, angle, tense)).sum();
        ellipse + DVec2::new(sin, cos) * bump
    }

    /// Radii to the sides, front and back at `s`, rounded off towards the ends.
    fn radii(&self, s: f64) -> (f64, f64, f64) {
        let (start, end) = self.ends();
        let cap = |inside: f64, length: f64| {
            let x = if length > 0.0 { (1.0 - inside / length).clamp(0.0, 1.0) } else { 0.0 };
            (1.0 - x * x).sqrt()
        };
        let round = cap(s - start, self.caps.0) * cap(end - s, self.caps.1);
        let (side, front, back) = interpolate(&self.profile, s);
        (side * round, front * round, back * round)
    }

    fn ends(&self) -> (f64, f64) {
        (self.profile[0].0, self.profile[self.profile.len() - 1].0)
    }

    /// Where the rings lie: evenly, but closer in the rounded ends; on the edge of a flat one.
    fn places(&self) -> Vec<f64> {
        let (start, end) = self.ends();
        // A cap of length c is drawn as if it were c · π/2 long, with rings at even angles.
        let (first, last) = (self.caps.0 * (PI / 2.0 - 1.0), self.caps.1 * (PI / 2.0 - 1.0));
        let total = end - start + first + last;
        // A rounded end begins with its pole, a flat one with a ring.
        let (before, after) = (f64::from(self.caps.0 > 0.0), f64::from(self.caps.1 > 0.0));
        let place = |k: usize| {
            let u = total * (k as f64 + before) / (self.rings as f64 - 1.0 + before + after);
            let (cap_start, cap_end) = (self.caps.0 * PI / 2.0, self.caps.1 * PI / 2.0);
            if u < cap_start {
                start + self.caps.0 * (1.0 - (u / self.caps.0).cos())
            } else if total - u < cap_end {
                end - self.caps.1 * (1.0 - ((total - u) / self.caps.1).cos())
            } else {
                start + u - first
            }
        };
        (0..self.rings).map(place).collect()
    }

    /// The piece's polygons over vertices numbered from `first`, outward, and a UV for each corner within the tile
    /// `(left, bottom, width, height)`.
    pub(super) fn polygons(&self, first: u32, tile: [f64; 4]) -> Vec<Vec<(u32, [f32; 2])>> {
        let around = self.around;
        let uv = |k: usize, row: f64| {
            let (u, v) = (k as f64 / around as f64, row / (self.rings + 1) as f64);
            [(tile[0] + tile[2] * u) as f32, (tile[1] + tile[3] * v) as f32]
        };
        let vertex = |ring: usize, k: usize| first + (ring * around + k % around) as u32;
        let poles = first + (self.rings * around) as u32;
        let mut polygons = Vec::new();
        for k in 0..around {
            let at = |ring: usize, k: usize| (vertex(ring, k), uv(k, (ring + 1) as f64));
            // The pole's corner sits in the middle of the triangle's edge in the texture.
            let pole = |row: f64| {
                let (left, right) = (uv(k, row), uv(k + 1, row));
                [(left[0] + right[0]) / 2.0, left[1]]
            };
            polygons.push(vec![(poles, pole(0.0)), at(0, k + 1), at(0, k)]);
            for ring in 0..self.rings - 1 {
                polygons.push(vec![at(ring, k), at(ring, k + 1), at(ring + 1, k + 1), at(ring + 1, k)]);
            }
            let last = self.rings - 1;
            polygons.push(vec![at(last, k), at(last, k + 1), (poles + 1, pole((self.rings + 1) as f64))]);
        }
        polygons
    }
}

impl Muscle {
    fn bump(&self, s: f64, angle: f64, tense: f64) -> f64 {
        let along = (s - self.along.0 - self.slide * tense) / self.along.1;
        let turned = (angle - self.around.0.to_radians()).rem_euclid(TAU);
        let around = turned.min(TAU - turned) / self.around.1.to_radians();
        self.height * tense * bell(along) * bell(around)
    }
}

/// A strand in a pose.
struct Axis<'a> {
    strand: &'a Strand,
    /// The frame of each segment.
    frames: Vec<DAffine3>,
    /// The turn from each segment to the next.
    turns: Vec<Turn>,
}

/// The plane across the axis at one place.
struct Section {
    origin: DVec3,
    rotation: DMat3,
    twist: f64,
    bends: Vec<Bend>,
}

/// What a nearby bend does to the skin of a section.
struct Bend {
    /// Towards the arc's centre, in the section's frame.
    inward: DVec3,
    /// The room up to the plane between the two sides.
    room: f64,
    /// How far the outer skin is pushed back out.
    point: f64,
    /// The factor across.
    widen: f64,
}

impl<'a> Axis<'a> {
    fn new(strand: &'a Strand, globals: &[DAffine3], turns: &[Turn]) -> Self {
        let turn = |joint: &StrandJoint| {
            let turn = turns[joint.bone];
            if joint.reversed { turn.inverse() } else { turn }
        };
        Self {
            strand,
            frames: strand.segments.iter().map(|&(bone, _)| globals[bone] * strand.mount).collect(),
            turns: strand.joints.iter().map(turn).collect(),
        }
    }

    fn section(&self, s: f64) -> Section {
        let joints = &self.strand.joints;
        let k = joints.iter().take_while(|joint| s >= joint.at - joint.reach).count();
        // Joint k − 1 begins before s: s is in its arc, or on the segment after it.
        if let Some(joint) = k.checked_sub(1).map(|k| &joints[k])
            && s < joint.at + joint.reach
        {
            return self.arc_section(k - 1, s);
        }
        let (_, origin) = self.strand.segments[k];
        let frame = self.frames[k];
        let mut section = Section {
            origin: frame.transform_point3(DVec3::Y * (s - origin)),
            rotation: frame.matrix3,
            twist: 0.0,
            bends: Vec::new(),
        };
        if k > 0 {
            // This segment's frame has the whole twist of the joint before it.
            section.twist -= self.turns[k - 1].twist * (1.0 - self.spread(k - 1, s));
            section.bends.push(self.bend(k - 1, s, -self.turns[k - 1].twist));
        }
        if k < joints.len() {
            section.twist += self.turns[k].twist * self.spread(k, s);
            section.bends.push(self.bend(k, s, 0.0));
        }
        section
    }

    /// The section within the arc of joint `k`.
    fn arc_section(&self, k: usize, s: f64) -> Section {
        let (joint, turn, before) = (&self.strand.joints[k], self.turns[k], self.frames[k]);
        let (bend, h) = (turn.swing_angle(), joint.reach);
        let t = (s - (joint.at - h)) / (2.0 * h);
        let inward = turn.axis().cross(DVec3::Y);
        let from_joint = if bend < 1e-9 {
            DVec3::Y * (s - joint.at)
        } else {
            let radius = h / (bend / 2.0).tan();
            let (sin, cos) = (bend * t).sin_cos();
            DVec3::Y * (radius * sin - h) + inward * (radius * (1.0 - cos))
        };
        let centre = DVec3::Y * (joint.at - self.strand.segments[k].1);
        let mut section = Section {
            origin: before.transform_point3(centre + from_joint),
            rotation: before.matrix3 * DMat3::from_axis_angle(turn.axis(), bend * t),
            twist: turn.twist * self.spread(k, s),
            bends: vec![self.bend(k, s, 0.0)],
        };
        if k > 0 {
            section.twist -= self.turns[k - 1].twist * (1.0 - self.spread(k - 1, s));
            section.bends.push(self.bend(k - 1, s, -self.turns[k - 1].twist));
        }
        if k + 1 < self.turns.len() {
            section.twist += self.turns[k + 1].twist * self.spread(k + 1, s);
            section.bends.push(self.bend(k + 1, s, turn.twist));
        }
        section
    }

    /// The part of joint `k`'s twist that the skin at `s` has made.
    fn spread(&self, k: usize, s: f64) -> f64 {
        let (from, to) = self.strand.joints[k].twist;
        smooth_step((s - from) / (to - from))
    }

    /// The bend of joint `k` as the skin at `s` meets it; `twist` turns the joint's frame into the section's.
    fn bend(&self, k: usize, s: f64, twist: f64) -> Bend {
        let (joint, turn) = (&self.strand.joints[k], self.turns[k]);
        let (angle, away) = (turn.swing_angle(), (s - joint.at).abs());
        let half = (angle / 2.0).tan();
        Bend {
            inward: DQuat::from_rotation_y(twist) * turn.axis().cross(DVec3::Y),
            room: if half > 1e-9 { CONTACT_FILL * away.max(joint.reach) / half } else { f64::INFINITY },
            // The arc passes the corner at h tan(θ/4).
            point: joint.point * joint.reach * (angle / 4.0).tan() * bell(away / (1.5 * joint.reach)),
            widen: joint.widen * (1.0 - angle.cos()) * bell(away / (3.0 * joint.reach)),
        }
    }
}

impl Section {
    /// The skin point at `offset` from the axis, before this section's twist; `radius` is the section's size.
    fn place(&self, offset: DVec2, radius: f64) -> DVec3 {
        let mut across = DQuat::from_rotation_y(self.twist) * DVec3::new(offset.x, 0.0, offset.y);
        for bend in &self.bends {
            let depth = across.dot(bend.inward);
            let sideways = across - bend.inward * depth;
            let outside = (-depth / radius).clamp(0.0, 1.0);
            let depth = smooth_min(depth, bend.room) - bend.point * outside * outside;
            across = bend.inward * depth + sideways * (1.0 + bend.widen);
        }
        self.origin + self.rotation * across
    }
}

/// The smaller of `value` and `limit`, smoothly: exactly `value` well below the limit, never above it.
fn smooth_min(value: f64, limit: f64) -> f64 {
    let soft = CONTACT_SOFTNESS * limit;
    if limit.is_infinite() || value <= limit - soft {
        value
    } else if value >= limit + soft {
        limit
    } else {
        limit - (limit + soft - value).powi(2) / (4.0 * soft)
    }
}

/// 0 before 0, 1 after 1, with two continuous derivatives.
pub(super) fn smooth_step(x: f64) -> f64 {
    let x = x.clamp(0.0, 1.0);
    x * x * x * (10.0 - 15.0 * x + 6.0 * x * x)
}

/// 1 at 0, 0 from ±1 on, with two continuous derivatives.
fn bell(x: f64) -> f64 {
    (1.0 - x * x).max(0.0).powi(3)
}

/// The profile at `s`: a cubic through the entries with slopes that never overshoot (Fritsch and Carlson, "Monotone
/// piecewise cubic interpolation", 1980).
fn interpolate(profile: &Profile, s: f64) -> (f64, f64, f64) {
    let k = profile.partition_point(|entry| entry.0 <= s).clamp(1, profile.len() - 1) - 1;
    let column = |pick: fn(&(f64, f64, f64, f64)) -> f64| {
        let value = |k: usize| pick(&profile[k]);
        let width = |k: usize| profile[k + 1].0 - profile[k].0;
        let rise = |k: usize| (value(k + 1) - value(k)) / width(k);
        let slope = |k: usize| {
            if k == 0 || k + 1 == profile.len() {
                return 0.0;
            }
            let (left, right) = (rise(k - 1), rise(k));
            if left * right <= 0.0 { 0.0 } else { 2.0 * left * right / (left + right) }
        };
        let (w, t) = (width(k), ((s - profile[k].0) / width(k)).clamp(0.0, 1.0));
        let (t2, t3) = (t * t, t * t * t);
        value(k) * (2.0 * t3 - 3.0 * t2 + 1.0)
            + value(k + 1) * (3.0 * t2 - 2.0 * t3)
            + w * (slope(k) * (t3 - 2.0 * t2 + t) + slope(k + 1) * (t3 - t2))
    };
    (column(|entry| entry.1), column(|entry| entry.2), column(|entry| entry.3))
}

/// A profile's radius to the front at `s`.
pub(super) fn radius_at(profile: &Profile, s: f64) -> f64 {
    interpolate(profile, s).1
}
