//! Changes of proxy bones' transforms that follow the pose: a few dozen numbers a proxy, whatever the size of the mesh.
//!
//! Region r turns what drives it, κ (N: kernels over example poses, or polynomials, see [`Drivers`]), into component weights
//! `a = M_r κ`, (K_r); each of its proxies p adds `Q_b Σ_k a_k B_kp` to its transform in the root's frame, Q_b the rotation
//! of the region's bone, B_kp a 3×4 matrix.

use glam::{Affine3A, Mat3A, Vec3A};

use super::drivers::{DriverScratch, Drivers};
use super::vertices::{mix, split};
use crate::character::{check_finite, check_indices};
use crate::file::{TensorReader, TensorWriter};
use crate::pose_space::short;
use crate::posed::nearest_rotation;
use crate::{Character, ModelError, PosedSkeleton};

/// Pose-dependent corrections of proxy bones.
#[derive(Debug, Clone, PartialEq)]
pub struct ProxyCorrection {
    /// The number of proxy bones of the deformer, P.
    pub proxy_count: usize,
    /// What the regions' changes follow from.
    pub drivers: Drivers,
    /// What each region corrects, (R).
    pub regions: Vec<ProxyRegion>,
}

/// Proxy bones that one kernel corrects in one bone's frame.
#[derive(Debug, Clone, PartialEq)]
pub struct ProxyRegion {
    /// The bone in whose rotated frame the corrections stand.
    pub bone: usize,
    /// The proxy bones, (n).
    pub proxies: Vec<u32>,
    /// From what drives the region to component weights, (K, N) row by row.
    pub mixing: Vec<f32>,
    /// Corrections of each component, (K, n): a 3×4 matrix column by column, in the root's frame.
    pub components: Vec<[f32; 12]>,
}

/// Memory reused from frame to frame.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProxyScratch {
    drivers: DriverScratch,
    /// One region's component weights.
    weights: Vec<f32>,
    /// What is added to each proxy's transform in the root's frame, (P).
    pub deltas: Vec<Affine3A>,
}

impl ProxyCorrection {
    pub(crate) const KIND: &'static str = "proxies";

    pub(crate) fn check(&self, character: &Character) -> Result<(), ModelError> {
        self.drivers.check(character)?;
        let wrong = |found: String, expected: String| ModelError::Shape { name: "correction".into(), found, expected };
        if self.regions.len() != self.drivers.region_count() {
            let expected = format!("{}, one a kernel", self.drivers.region_count());
            return Err(wrong(format!("{} regions", self.regions.len()), expected));
        }
        for (r, region) in self.regions.iter().enumerate() {
            let n = self.drivers.inputs(r).max(1);
            check_indices("correction.region_bones", [region.bone], character.bones.len())?;
            let proxies = region.proxies.iter().map(|&p| p as usize);
            check_indices("correction.region_proxies", proxies, self.proxy_count)?;
            check_finite("correction.mixing", &region.mixing)?;
            check_finite("correction.components", region.components.as_flattened())?;
            let count = region.mixing.len() / n;
            if !region.mixing.len().is_multiple_of(n) || region.components.len() != count * region.proxies.len() {
                let found = format!("{} mixing entries, {} corrections", region.mixing.len(), region.components.len());
                return Err(wrong(found, format!("K × {n} and K × {}", region.proxies.len())));
            }
        }
        Ok(())
    }

    /// The number of components of region `r`, K.
    #[must_use]
    pub fn component_count(&self, r: usize) -> usize {
        self.regions[r].mixing.len() / self.drivers.inputs(r).max(1)
    }

    /// The change of member `i` of region `r` for its input `k`, mixing and components multiplied.
    pub(crate) fn mixed_component(&self, r: usize, k: usize, i: usize) -> [f32; 12] {
        let (region, inputs) = (&self.regions[r], self.drivers.inputs(r));
        let mut sum = [0.0_f64; 12];
        let own = region.components.iter().skip(i).step_by(region.proxies.len());
        for (component, mixing) in own.zip(region.mixing.iter().skip(k).step_by(inputs)) {
            sum.iter_mut().zip(component).for_each(|(sum, &c)| *sum += f64::from(*mixing) * f64::from(c));
        }
        sum.map(|x| x as f32)
    }

    pub(crate) fn flops(&self) -> u64 {
        // Per component and proxy 12 multiply-adds; per proxy a rotation of four columns and an addition.
        let region = |r: &ProxyRegion| 2 * r.mixing.len() + 24 * r.components.len() + 72 * r.proxies.len();
        self.drivers.flops() + self.regions.iter().map(region).sum::<usize>() as u64
    }

    pub(crate) fn bytes(&self) -> u64 {
        let region = |r: &ProxyRegion| 4 * r.mixing.len() + 48 * r.components.len() + 4 * r.proxies.len();
        self.drivers.bytes() + self.regions.iter().map(region).sum::<usize>() as u64
    }

    pub(crate) fn scratch(&self) -> ProxyScratch {
        let most = (0..self.regions.len()).map(|r| self.component_count(r)).max().unwrap_or(0);
        ProxyScratch {
            drivers: self.drivers.scratch(),
            weights: vec![0.0; most],
            deltas: vec![NOTHING; self.proxy_count],
        }
    }

    /// Computes `scratch.deltas` for a pose; `reference` holds the branch reference of each joint, (J), `carries` what carries
    /// each proxy on beyond the trained ranges, (P), or nothing within them.
    pub(crate) fn pose(
        &self,
        character: &Character,
        posed: &PosedSkeleton,
        reference: &[[f32; 3]],
        carries: &[Mat3A],
        scratch: &mut ProxyScratch,
    ) {
        self.drivers.set(character, posed, reference, &mut scratch.drivers);
        scratch.deltas.fill(NOTHING);
        for (r, region) in self.regions.iter().enumerate() {
            let values = self.drivers.values(r, &mut scratch.drivers);
            let weights = &mut scratch.weights[..self.component_count(r)];
            mix(&region.mixing, values, weights);
            let own = nearest_rotation(posed.relative[region.bone].matrix3);
            for (i, &p) in region.proxies.iter().enumerate() {
                let mut sum = [0.0_f32; 12];
                let components = region.components.iter().skip(i).step_by(region.proxies.len());
                for (component, &weight) in components.zip(&*weights) {
                    sum.iter_mut().zip(component).for_each(|(sum, c)| *sum += weight * c);
                }
                let turn = match carries.get(p as usize).filter(|_| self.drivers.carried()) {
                    Some(&carry) => carry * posed.seen_rotation(region.bone),
                    None => own,
                };
                let column = |k: usize| turn * Vec3A::new(sum[3 * k], sum[3 * k + 1], sum[3 * k + 2]);
                let delta = &mut scratch.deltas[p as usize];
                delta.matrix3 += Mat3A::from_cols(column(0), column(1), column(2));
                delta.translation += column(3);
            }
        }
    }

    pub(crate) fn write(&self, writer: &mut TensorWriter) {
        self.drivers.write(writer);
        let list =
            |value: fn(&ProxyRegion) -> usize| self.regions.iter().map(value).map(|v| v as u32).collect::<Vec<_>>();
        let components: Vec<u32> = (0..self.regions.len()).map(|r| self.component_count(r) as u32).collect();
        writer.u32("correction.proxy_count", &[1], &[self.proxy_count as u32]);
        writer.u32("correction.region_bones", &[self.regions.len()], &list(|r| r.bone));
        writer.u32("correction.region_sizes", &[self.regions.len()], &list(|r| r.proxies.len()));
        writer.u32("correction.component_counts", &[self.regions.len()], &components);
        let proxies: Vec<u32> = self.regions.iter().flat_map(|r| r.proxies.iter().copied()).collect();
        let mixing: Vec<f32> = self.regions.iter().flat_map(|r| r.mixing.iter().copied()).collect();
        let values: Vec<f32> = self.regions.iter().flat_map(|r| r.components.as_flattened()).copied().collect();
        writer.u32("correction.region_proxies", &[proxies.len()], &proxies);
        writer.f32("correction.mixing", &[mixing.len()], &mixing);
        writer.f32("correction.components", &[values.len() / 12, 12], &values);
    }

    pub(crate) fn read(reader: &TensorReader) -> Result<Self, ModelError> {
        let drivers = Drivers::read(reader)?;
        let count = drivers.region_count();
        let proxy_count = reader.u32("correction.proxy_count", &[Some(1)])?[0] as usize;
        let bones = reader.u32("correction.region_bones", &[Some(count)])?;
        let sizes = reader.u32("correction.region_sizes", &[Some(count)])?;
        let counts = reader.u32("correction.component_counts", &[Some(count)])?;
        let proxies = reader.u32("correction.region_proxies", &[None])?;
        let mixing = reader.f32("correction.mixing", &[None])?;
        let values = reader.f32("correction.components", &[None, Some(12)])?;
        let (values, _) = values.as_chunks::<12>();
        let (mut proxies, mut mixing, mut values) = (&proxies[..], &mixing[..], values);
        let mut regions = Vec::with_capacity(count);
        for r in 0..count {
            let (size, components) = (sizes[r] as usize, counts[r] as usize);
            let (own, rest) = split(proxies, size, 1).ok_or_else(|| short("correction.region_proxies"))?;
            let (own_mixing, rest_mixing) =
                split(mixing, components, drivers.inputs(r)).ok_or_else(|| short("correction.mixing"))?;
            let (own_values, rest_values) =
                split(values, components, size).ok_or_else(|| short("correction.components"))?;
            (proxies, mixing, values) = (rest, rest_mixing, rest_values);
            regions.push(ProxyRegion {
                bone: bones[r] as usize,
                proxies: own.to_vec(),
                mixing: own_mixing.to_vec(),
                components: own_values.to_vec(),
            });
        }
        Ok(Self { proxy_count, drivers, regions })
    }
}

const NOTHING: Affine3A = Affine3A { matrix3: Mat3A::ZERO, translation: Vec3A::ZERO };
