//! Blocks of vertices that are drawn from points, written over the skeleton's bones alone.
//!
//! A vertex is `Σ_i T_i h_i` over the palette, and the transforms of proxy bones are linear in bones and key gradients, so
//!
//!   `v = Σ_b T_b H_b + Σ_k D_k g_k + Σ_r Q_r Σ_e κ_e u_e`
//!
//! with `H_b = Σ_p c₂_pbᵀ h_p`, `g_k = Σ_p c₁_pkᵀ h_p` and `u_e = Σ_p D_ep h_p` over the changes of region r. Points have weights of
//! both signs: what forms leave over of entries that follow the same bone would add up one by one, and cancels here.

use std::collections::BTreeMap;

use glam::{DAffine3, DVec3, DVec4};
use sinew_runtime::bounds::Block;
use sinew_runtime::deform::RotationalRegression;

use super::blocks::Setting;
use super::bones::Bones;
use super::form::Form;
use super::interval::{Interval, blended};
use super::kernels::Displaced;
use super::proxies::Proxies;

/// Vertices of a part at most: time against tightness.
const PART: usize = 8;

/// Weights sum to one up to this: a dozen numbers in f32.
const ROUNDED: f64 = 1e-5;

/// The points of every vertex of a model, in the root's rest frame, (V): palette entries and h.
pub(super) type Points = Vec<Vec<(usize, DVec4)>>;

/// The points of `rr`'s vertices; `world` as the model gives them.
pub(super) fn points(world: Vec<Vec<(usize, [f32; 4])>>, to_root: DAffine3) -> Points {
    let in_root = |(entry, [x, y, z, w]): (usize, [f32; 4])| {
        let (xyz, w) = (DVec3::new(x.into(), y.into(), z.into()), f64::from(w));
        (entry, (to_root.matrix3 * xyz + to_root.translation * w).extend(w))
    };
    world.into_iter().map(|row| row.into_iter().map(in_root).collect()).collect()
}

/// A block as above.
pub(super) struct Drawn {
    /// Boxes of `H_b`, its place counted from the pivot times its weight: (bone, place, weight), the heaviest first.
    bones: Vec<(usize, [Interval; 3], Interval)>,
    /// Boxes of `g_k`: (key gradient, g).
    gradients: Vec<(usize, [Interval; 3])>,
    /// `u_e` of each region, (vertices)(N).
    changes: Vec<Displaced>,
    /// The range of `Σ_b w_b − 1`: nil unless c₂ does not keep places.
    remains: Interval,
    pivot: DVec3,
}

impl Drawn {
    /// Parts of `block` whose vertices are drawn from the same entries. What is known of a source's numbers is a box
    /// around those of all vertices: vertices that do not have it would pull nil into it, and numbers of either sign, which
    /// cancel in each vertex, would no longer do so in the sum of boxes.
    pub(super) fn parts(setting: &Setting, rr: &RotationalRegression, points: &Points, block: &Block) -> Vec<Self> {
        let mut alike = BTreeMap::<Vec<usize>, Vec<&[(usize, DVec4)]>>::new();
        for &v in &block.vertices {
            let row = &points[v as usize][..];
            alike.entry(row.iter().map(|pair| pair.0).collect()).or_default().push(row);
        }
        let parts = alike.values().flat_map(|rows| rows.chunks(PART));
        parts.map(|rows| Self::new(setting, rr, block, rows)).collect()
    }

    /// `vertices` of `block`.
    fn new(setting: &Setting, rr: &RotationalRegression, block: &Block, vertices: &[&[(usize, DVec4)]]) -> Self {
        let pivot = setting.to_root.transform_point3(block.pivot.as_dvec3());
        let over_bones = |row: &&[(usize, DVec4)]| {
            let mut sums = BTreeMap::<usize, DVec4>::new();
            for &(entry, h) in *row {
                match entry.checked_sub(setting.proxies) {
                    Some(bone) => *sums.entry(bone).or_default() += h,
                    None => rr.c2.row(entry).for_each(|(b, c)| *sums.entry(b).or_default() += transposed(c, h)),
                }
            }
            // The root stands at the origin of its own frame: how often its place counts does not matter, but weights that sum
            // to one leave nothing over.
            let remains = 1.0 - sums.values().map(|h| h.w).sum::<f64>();
            if remains.abs() > ROUNDED {
                sums.entry(setting.root).or_default().w += remains;
            }
            sums.values_mut().for_each(|h| *h -= (pivot * h.w).extend(0.0));
            sums
        };
        let over_gradients = |row: &&[(usize, DVec4)]| {
            let mut sums = BTreeMap::<usize, DVec4>::new();
            for &(entry, h) in row.iter().filter(|pair| pair.0 < setting.proxies) {
                rr.c1.row(entry).for_each(|(k, c)| *sums.entry(k).or_default() += transposed(c, h));
            }
            sums
        };
        let bones: Vec<_> = vertices.iter().map(over_bones).collect();
        let gradients: Vec<_> = vertices.iter().map(over_gradients).collect();
        let weights = bones.iter().map(|sums| Interval::exact(sums.values().map(|h| h.w).sum::<f64>() - 1.0));
        let remains = weights.reduce(Interval::hull).unwrap_or(Interval::exact(0.0));
        let place = |[x, y, z, _]: [Interval; 4]| [x, y, z];
        let mut bones: Vec<_> = boxes(&bones).into_iter().map(|(b, all)| (b, place(all), all[3])).collect();
        bones.sort_by(|a, b| b.2.middle().abs().total_cmp(&a.2.middle().abs()).then(a.0.cmp(&b.0)));
        Self {
            bones,
            gradients: boxes(&gradients).into_iter().map(|(k, all)| (k, place(all))).collect(),
            changes: changes(setting, vertices),
            remains,
            pivot,
        }
    }

    /// The block relative to the home bone of `bones`, over a piece of the ranges.
    pub(super) fn over(&self, bones: &Bones, proxies: &Proxies) -> [Form; 3] {
        let mut sides = self.pivots(bones, proxies);
        let mut add = |part: [Form; 3]| (0..3).for_each(|i| sides[i] = sides[i] + part[i]);
        for (b, place, _) in &self.bones {
            add(bones.relative[*b].vector(place.map(Form::interval)));
        }
        for (k, g) in &self.gradients {
            add(proxies.gradient(*k).vector(g.map(Form::interval)));
        }
        for change in &self.changes {
            if let Some(driven) = proxies.driven {
                add(change.over(driven.region(change.region), bones));
            }
        }
        sides
    }

    /// `Σ_b w_b T_b o`, o the pivot, relative to the home bone: the heaviest bone's image and the others relative to it; or, if
    /// that says more, what images within their ranges may be blended to.
    fn pivots(&self, bones: &Bones, proxies: &Proxies) -> [Form; 3] {
        let images: Vec<[Form; 3]> = self.bones.iter().map(|bone| bones.relative[bone.0].point(self.pivot)).collect();
        let Some((first, others)) = images.split_first() else { return proxies.back };
        let shares: Vec<Interval> = self.bones.iter().map(|bone| bone.2).collect();
        std::array::from_fn(|i| {
            let sum = others
                .iter()
                .zip(&shares[1..])
                .fold(first[i], |sum, (image, &share)| sum + Form::interval(share) * (image[i] - first[i]));
            let ranges: Vec<Interval> = images.iter().map(|image| image[i].range()).collect();
            let hull = Form::interval(blended(&shares, &ranges));
            let pivot = if hull.radius() < sum.radius() { hull } else { sum };
            // With weights that sum to 1 + r there is r (μ + τ) more, τ as in `Proxies`: μ is the first image for `sum`, and some
            // place among the images for `hull`.
            let among = ranges.iter().copied().reduce(Interval::hull).map_or(0.0, |all| all.high - all.low);
            let mut more = Form::interval(self.remains) * (first[i] - proxies.back[i]);
            more.rest += self.remains.most() * among;
            pivot + more
        })
    }
}

/// A block of c₁ or c₂ transposed times h.
fn transposed<const N: usize>(block: &[[f32; N]; 4], h: DVec4) -> DVec4 {
    let entry = |s: usize| (0..4).map(|r| f64::from(block[r][s]) * h[r]).sum();
    DVec4::from_array(std::array::from_fn(|s| if s < N { entry(s) } else { 0.0 }))
}

/// The boxes around what `rows` hold for each key; a row without it holds nil.
fn boxes(rows: &[BTreeMap<usize, DVec4>]) -> BTreeMap<usize, [Interval; 4]> {
    let mut all = BTreeMap::new();
    for key in rows.iter().flat_map(BTreeMap::keys) {
        all.entry(*key).or_insert_with(|| {
            let own = |row: &BTreeMap<usize, DVec4>| row.get(key).copied().unwrap_or(DVec4::ZERO);
            let (low, high) = rows
                .iter()
                .map(own)
                .fold((DVec4::INFINITY, DVec4::NEG_INFINITY), |(low, high), h| (low.min(h), high.max(h)));
            std::array::from_fn(|i| Interval { low: low[i], high: high[i] })
        });
    }
    all
}

/// `u_e` of the regions that change proxies which draw `vertices`.
fn changes(setting: &Setting, vertices: &[&[(usize, DVec4)]]) -> Vec<Displaced> {
    let Some(correction) = setting.model.proxy_correction() else { return Vec::new() };
    let of_region = |r: usize| {
        let inputs = correction.drivers.inputs(r);
        let vertex = |row: &&[(usize, DVec4)]| {
            let mut sum = vec![DVec3::ZERO; inputs];
            for (entry, h) in *row {
                let own = setting.changes.get(*entry).into_iter().flatten().filter(|change| change.region == r);
                own.for_each(|change| change.at(*h).zip(&mut sum).for_each(|(u, sum)| *sum += u));
            }
            sum
        };
        let displacements: Vec<Vec<DVec3>> = vertices.iter().map(vertex).collect();
        let changed = displacements.iter().flatten().any(|u| *u != DVec3::ZERO);
        changed.then(|| Displaced::new(r, correction.regions[r].bone, displacements))
    };
    (0..correction.regions.len()).filter_map(of_region).collect()
}
