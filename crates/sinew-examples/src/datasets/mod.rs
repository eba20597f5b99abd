//! Procedural data sets, made by a mechanism of their own ([`sweep`]) and by none of the methods that are compared.
//!
//! Every coordinate is rounded to f32, so that a set in memory and the same set read back from a file are equal.

mod arm;
mod creature;
mod rig;
mod scene;
mod shoulder;
mod sweep;
mod tubes;

use crate::Examples;

/// A built-in data set.
#[derive(Debug, Clone, Copy)]
pub struct DatasetInfo {
    /// The name on the command line.
    pub name: &'static str,
    /// One line for the help.
    pub summary: &'static str,
    /// Makes it, with every joint turned so many times as far.
    make: fn(f64) -> Examples,
}

impl DatasetInfo {
    /// The data set.
    #[must_use]
    pub fn make(&self) -> Examples {
        (self.make)(1.0)
    }

    /// The same frames with every joint turned `factor` times as far from rest: what is true where a model was not
    /// trained. Of 1 it is the data set.
    #[must_use]
    pub fn turned_farther(&self, factor: f64) -> Examples {
        (self.make)(factor)
    }
}

/// Every built-in data set.
pub const DATASETS: &[DatasetInfo] = &[
    DatasetInfo {
        name: "bar",
        summary: "a square bar of 78 vertices twisted by 0 to 180°; 3 training poses, 50 test",
        make: tubes::bar,
    },
    DatasetInfo {
        name: "tube-bend",
        summary: "a tube bent by 0 to 90°; 40 training poses, 39 test",
        make: tubes::tube_bend,
    },
    DatasetInfo {
        name: "tube-twist",
        summary: "a tube twisted by 0 to 90°; 40 training poses, 39 test",
        make: tubes::tube_twist,
    },
    DatasetInfo {
        name: "tube-twist-180",
        summary: "a tube twisted by 0 to 180°; 40 training poses, 39 test",
        make: tubes::tube_twist_180,
    },
    DatasetInfo {
        name: "arm",
        summary: "an arm with muscles, elbow 0 to 130° while the forearm turns; 4 training poses, 40 test",
        make: arm::arm,
    },
    DatasetInfo {
        name: "shoulder",
        summary: "a shoulder turning about all axes under its deltoid; 10 training poses, 100 random test poses",
        make: shoulder::shoulder,
    },
    DatasetInfo {
        name: "creature",
        summary: "a walking biped with tail and quills, 29,380 vertices, 155 joints; 11 training poses, 121 test",
        make: creature::creature,
    },
];

/// The data set called `name`.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static DatasetInfo> {
    DATASETS.iter().find(|info| info.name == name)
}

#[cfg(test)]
mod tests;
