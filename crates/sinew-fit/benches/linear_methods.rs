//! Time and memory of the linear methods at the sizes their papers name. Not part of the tests: it runs for minutes.
//!
//!     cargo bench -p sinew-fit --bench linear_methods [-- creature film multi-weights-film]
//!
//! - `creature`: the built-in creature, animation space and multi-weights, cross-validation included;
//! - `film`: both on 55,000 vertices, 53 bones, 40 poses, cross-validation included;
//! - `multi-weights-film`: multi-weights on 200,000 points, 55 bones, 12 painted influences, 344 poses, the animal of Wang
//!   and Phillips 2002 (40 minutes then), cross-validation included.

mod support;

use sinew_examples::datasets;
use sinew_fit::Method;
use support::{run, synthetic, training};

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
    if wants("creature") {
        let training = training(datasets::by_name("creature").expect("it is built in").make());
        run("creature", &training, &method("as"));
        run("creature", &training, &method("mwe"));
    }
    if wants("film") {
        let training = training(synthetic(55_000, 53, 40, 0));
        run("film", &training, &method("as"));
        run("film", &training, &method("mwe"));
    }
    if wants("multi-weights-film") {
        run("multi-weights-film", &training(synthetic(200_000, 55, 344, 12)), &method("mwe"));
    }
}

fn method(name: &str) -> Method {
    Method::by_name(name).expect("a method")
}
