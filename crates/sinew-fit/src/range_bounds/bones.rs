//! The skeleton's skinning transforms over ranges of motion.

use glam::DAffine3;

use super::blocks::Setting;
use super::form::FormAffine;
use super::needs::Needs;
use crate::norm::ranges::RangesOfMotion;

/// Skinning transforms in the root's rest frame. Those of bones that are not needed are the identity.
pub(super) struct Bones {
    /// `T_h⁻¹ T_b`, (J).
    pub(super) relative: Vec<FormAffine>,
    /// `T_h`.
    pub(super) home: FormAffine,
}

impl Setting<'_> {
    /// Every bone's skinning transform relative to that of `home`, and that of `home` itself, in the root's rest frame.
    pub(super) fn bones_from(&self, needs: &Needs, ranges: &RangesOfMotion) -> Bones {
        let home = needs.home;
        let turn = |b: usize, k: usize| FormAffine::turn(&ranges.joints[b][k], needs.symbol(b, k));
        let parent = |b: usize| self.skeleton.bones()[b].parent;
        // `L̂ R₁ R₂ …` of each joint; the root stays.
        let local = |b: usize| {
            let joint = parent(b).map_or(DAffine3::IDENTITY, |p| self.rest[p].inverse() * self.rest[b]);
            let turns = 0..ranges.joints[b].len();
            turns.fold(FormAffine::exact(joint), |all, k| all.rigid_times(&turn(b, k)))
        };
        let inverse_local = |b: usize| {
            let joint = parent(b).map_or(DAffine3::IDENTITY, |p| self.rest[p].inverse() * self.rest[b]);
            let turns = (0..ranges.joints[b].len()).rev();
            let back = turns
                .fold(FormAffine::exact(DAffine3::IDENTITY), |all, k| all.rigid_times(&turn(b, k).inverse_rotation()));
            back.rigid_times(&FormAffine::exact(joint.inverse()))
        };
        // G_h⁻¹ G_b: up from h to the root, then down to everything else.
        let mut relative: Vec<Option<FormAffine>> = vec![None; self.rest.len()];
        relative[home] = Some(FormAffine::exact(DAffine3::IDENTITY));
        let (mut b, mut up, mut path) = (home, FormAffine::exact(DAffine3::IDENTITY), vec![home]);
        while let Some(p) = parent(b) {
            up = up.rigid_times(&inverse_local(b));
            relative[p] = Some(up);
            path.push(p);
            b = p;
        }
        for &b in self.skeleton.parents_first() {
            if let (true, None, Some(p)) = (needs.used[b], relative[b], parent(b)) {
                relative[b] = relative[p].map(|to_parent| to_parent.rigid_times(&local(b)));
            }
        }
        let identity = FormAffine::exact(DAffine3::IDENTITY);
        // Ĝ_h (G_h⁻¹ G_b) Ĝ_b⁻¹.
        let skinning = |b: usize| {
            if !needs.used[b] {
                return identity;
            }
            let between = relative[b].unwrap_or(identity).rigid_times(&FormAffine::exact(self.rest[b].inverse()));
            FormAffine::exact(self.rest[home]).rigid_times(&between)
        };
        // The root keeps its rest transform; down its path to h.
        let root = path.last().copied().unwrap_or(home);
        let down = path.iter().rev().skip(1);
        let global = down.fold(FormAffine::exact(self.rest[root]), |all, &b| all.rigid_times(&local(b)));
        Bones {
            relative: (0..self.rest.len()).map(skinning).collect(),
            home: global.rigid_times(&FormAffine::exact(self.rest[home].inverse())),
        }
    }
}
