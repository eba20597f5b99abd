//! One character over many threads (feature `rayon`).
//!
//! Threads take runs of blocks, which lie anywhere in the output; so each writes its run side by side with the others
//! into a packed buffer, and a second pass, again over many threads, copies every vertex to its place.

use rayon::prelude::*;

use crate::kernel::Put;
use crate::kernel::blocks::{Eight, LANES};
use crate::kernel::carry::{CarrySkin, Excess};
use crate::kernel::lanes::{Instructions, Lanes};
use crate::plan::{Palette, Plan};

/// Blocks a task poses: enough work (some 10 µs) to be worth a task.
const TASK: usize = 256;

/// One block after the other.
struct InOrder<'room>(std::slice::IterMut<'room, [[f32; 3]; LANES]>);

impl Put for InOrder<'_> {
    #[inline(always)]
    fn put_row<L: Lanes>(&mut self, lanes: L, _eight: &Eight, rows: [L::V; 3]) {
        if let Some(place) = self.0.next() {
            *place = lanes.points(rows);
        }
    }
    #[inline(always)]
    fn put_halves<L: Lanes>(&mut self, lanes: L, eight: &Eight, rows: [L::V; 3]) {
        self.put_row(lanes, eight, rows);
    }
    #[inline(always)]
    fn put_scattered<L: Lanes>(&mut self, lanes: L, eight: &Eight, rows: [L::V; 3]) {
        self.put_row(lanes, eight, rows);
    }
}

/// The packed buffer and the way back.
#[derive(Debug, Clone)]
pub(crate) struct Packed {
    /// Posed points register by register.
    points: Vec<[[f32; 3]; LANES]>,
    /// Each vertex's register × 8 + lane, (V).
    slots: Vec<u32>,
}

impl Packed {
    /// Room for `plan`; none if `wanted` is false.
    pub fn new(plan: &Plan, vertices: usize, wanted: bool) -> Self {
        let eights = if wanted { plan.eights() } else { &[] };
        let mut slots = vec![0; if wanted { vertices } else { 0 }];
        for (b, eight) in eights.iter().enumerate() {
            for (lane, &v) in eight.vertices.iter().enumerate() {
                slots[v as usize] = (b * LANES + lane) as u32;
            }
        }
        Self { points: vec![[[0.0; 3]; LANES]; eights.len()], slots }
    }

    /// Poses every block, carried on if `carry` says so, see [`Plan::run_carried`].
    pub fn run(
        &mut self,
        plan: &Plan,
        instructions: Instructions,
        palette: &Palette,
        carry: Option<(&CarrySkin, Excess)>,
        out: &mut [[f32; 3]],
    ) {
        let registers = self.points.len() / plan.blocks().max(1);
        self.points.par_chunks_mut(TASK * registers).enumerate().for_each(|(task, room)| {
            let blocks = task * TASK..(task + 1) * TASK;
            let blocks = blocks.start..blocks.end.min(plan.blocks());
            plan.run_carried(instructions, palette, carry, blocks, InOrder(room.iter_mut()));
        });
        let points = self.points.as_flattened();
        out.par_chunks_mut(8 * TASK).zip(self.slots.par_chunks(8 * TASK)).for_each(|(out, slots)| {
            for (out, &slot) in out.iter_mut().zip(slots) {
                *out = points[slot as usize];
            }
        });
    }
}
