//! What other runtimes reach, to set our own figures beside.
//!
//! Measured once with public releases on one core (AVX2 + FMA, about 3.2 GHz): linear blend skinning, 4 influences, on
//! a character of the size of [`CREATURE`](crate::synthetic::CREATURE), in cache. They say where the others stand, not
//! what this machine does: for that the plain loop runs beside our kernels in the same run.

/// One runtime's speed.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    /// The runtime and how it was built.
    pub name: &'static str,
    /// Million vertices a second, positions only.
    pub millions: f64,
    /// Whose code, where it is found.
    pub source: &'static str,
}

/// Linear blend skinning, or what a runtime has instead, fastest first.
pub const PEERS: [Peer; 8] = [
    Peer {
        name: "blocks of eight vertices that share joints, by hand",
        millions: 657.0,
        source: "intrinsics, the arrangement we use",
    },
    Peer { name: "vertex by vertex, by hand", millions: 366.0, source: "intrinsics, AVX2" },
    Peer { name: "Eigen, -march=native", millions: 337.0, source: "eigen.tuxfamily.org: blend, then transform" },
    Peer {
        name: "ozz-animation 0.16, -march=native",
        millions: 243.0,
        source: "github.com/guillaumeblanc/ozz-animation",
    },
    Peer { name: "ozz-animation 0.16", millions: 190.0, source: "its SkinningJob, built as it comes" },
    Peer { name: "ozz-animation 0.16 with normals", millions: 147.0, source: "its SkinningJob, built as it comes" },
    Peer { name: "libigl, dual quaternions", millions: 0.8, source: "igl::dqs" },
    Peer { name: "Direct Delta Mush", millions: 0.09, source: "Le and Lewis, 2019" },
];
