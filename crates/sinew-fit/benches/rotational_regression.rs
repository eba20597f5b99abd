//! Time and memory of rotational regression, and how they grow. Not part of the tests: it runs for minutes.
//!
//!     cargo bench -p sinew-fit --bench rotational_regression [-- creature film slopes]
//!
//! - `creature`: the built-in creature, everything chosen automatically;
//! - `film`: 55,000 vertices, 53 bones, 40 poses, everything chosen automatically;
//! - `slopes`: CPU seconds over vertices and over poses at 80 proxy bones, and the exponents k of `seconds ∝ nᵏ` between
//!   neighbouring sizes.

mod support;

use sinew_examples::datasets;
use sinew_fit::Method;
use sinew_fit::methods::rr::RrParams;
use support::{run, synthetic, training};

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
    let automatic = Method::RotationalRegression(RrParams::default());
    if wants("creature") {
        run("creature", &training(datasets::by_name("creature").expect("it is built in").make()), &automatic);
    }
    if wants("film") {
        run("film", &training(synthetic(55_000, 53, 40, 0)), &automatic);
    }
    if wants("slopes") {
        slope("vertices", &[5_000, 10_000, 20_000, 40_000], |vertices| synthetic(vertices, 20, 20, 0));
        slope("poses", &[10, 20, 40, 80], |poses| synthetic(10_000, 20, poses, 0));
    }
}

/// Fits at each size and prints how the time grows.
fn slope(what: &str, sizes: &[usize], make: impl Fn(usize) -> sinew_examples::Examples) {
    let method = Method::RotationalRegression(RrParams { proxy_bones: Some(80), ..RrParams::default() });
    let seconds: Vec<f64> = sizes.iter().map(|&n| run(what, &training(make(n)), &method)).collect();
    for k in 1..sizes.len() {
        let exponent = (seconds[k] / seconds[k - 1]).ln() / (sizes[k] as f64 / sizes[k - 1] as f64).ln();
        println!("{what} {} to {}: seconds grow as n^{exponent:.2}", sizes[k - 1], sizes[k]);
    }
}
