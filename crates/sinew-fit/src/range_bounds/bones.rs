//! The skeleton's skinning transforms over ranges of motion.
//!
//! A model that holds whole poses within the trained ranges (`sinew-runtime/src/carry.rs`) is drawn by the bones of the held pose:
//! relative to its parent a bone turns by `exp(θ̃′_b)` about its joint. Transforms of that pose are marked `T′`; elsewhere they
//! are the bones' own.

use glam::DAffine3;

use super::blocks::Setting;
use super::form::FormAffine;
use super::joints::Joints;
use super::needs::Needs;

/// Skinning transforms in the root's rest frame. Those of bones that are not needed are the identity.
pub(super) struct Bones {
    /// `T′_h⁻¹ T′_b`, (J).
    pub(super) relative: Vec<FormAffine>,
    /// `T_h`.
    pub(super) home: FormAffine,
    /// `T′_h`.
    pub(super) seen_home: FormAffine,
}

impl Setting<'_> {
    /// Every bone's skinning transform relative to that of `home`, and that of `home` itself, in the root's rest frame.
    pub(super) fn bones_from(&self, home: usize, needs: &Needs, joints: &Joints) -> Bones {
        let parent = |b: usize| self.skeleton.bones()[b].parent;
        let joint = |b: usize| parent(b).map_or(DAffine3::IDENTITY, |p| self.rest[p].inverse() * self.rest[b]);
        let held = |b: usize| self.holds_bones && joints.seen(b).held;
        // `L̂ R₁ R₂ …` of each joint; the root stays.
        let local = |b: usize, held: bool| FormAffine::exact(joint(b)).rigid_times(&joints.turn(b, held));
        let inverse_local = |b: usize, held: bool| {
            joints.turn(b, held).inverse_rotation().rigid_times(&FormAffine::exact(joint(b).inverse()))
        };
        // G_h⁻¹ G_b: up from h to the root, then down to everything else.
        let mut relative: Vec<Option<FormAffine>> = vec![None; self.rest.len()];
        relative[home] = Some(FormAffine::exact(DAffine3::IDENTITY));
        let (mut b, mut up, mut path) = (home, FormAffine::exact(DAffine3::IDENTITY), vec![home]);
        while let Some(p) = parent(b) {
            up = up.rigid_times(&inverse_local(b, held(b)));
            relative[p] = Some(up);
            path.push(p);
            b = p;
        }
        for &b in self.skeleton.parents_first() {
            if let (true, None, Some(p)) = (needs.used[b], relative[b], parent(b)) {
                relative[b] = relative[p].map(|to_parent| to_parent.rigid_times(&local(b, held(b))));
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
        let down = |held: &dyn Fn(usize) -> bool| {
            let path = path.iter().rev().skip(1);
            let rest = FormAffine::exact(self.rest[root]);
            let global = path.fold(rest, |all, &b| all.rigid_times(&local(b, held(b))));
            global.rigid_times(&FormAffine::exact(self.rest[home].inverse()))
        };
        let relative = (0..self.rest.len()).map(skinning).collect();
        let own = down(&|_| false);
        let seen_home = if path.iter().any(|&b| held(b)) { down(&held) } else { own };
        Bones { relative, home: own, seen_home }
    }
}
