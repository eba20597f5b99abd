//! Rotational regression: what its papers claim, on the built-in data sets and on real data, on poses that trained nothing.

use sinew_fit::Method;
use sinew_fit::methods::rr::RrParams;

use crate::linear::errors;
use crate::support::{dataset, method, shared};

fn rr(proxies: usize, refined: bool) -> Method {
    let params = RrParams { proxy_bones: Some(proxies), ..RrParams::default() };
    let refine = if refined { params.refine.clone() } else { None };
    Method::RotationalRegression(RrParams { refine, ..params })
}

/// The central claim of Wang, Pulli and Popović 2007.
#[test]
fn it_beats_linear_blending_on_every_set_and_the_linear_methods_on_bar_and_arm() {
    for name in ["bar", "tube-bend", "tube-twist", "arm", "shoulder"] {
        let examples = dataset(name);
        let (_, ours) = errors(&examples, &method("rr"));
        let rivals: &[&str] = if ["bar", "arm"].contains(&name) { &["ssd", "as", "mwe"] } else { &["ssd"] };
        for rival in rivals {
            let (_, theirs) = errors(&examples, &method(rival));
            assert!(ours < theirs, "{name}: rr {ours:.1} %, {rival} {theirs:.1} %");
        }
    }
}

/// The limits are a little under what an independent implementation reached.
#[test]
fn real_data_come_out_within_the_stated_errors() {
    for (file, proxies, limit, plain_limit) in [("muscle_arm.npz", 40, 14.0, 26.0), ("human.npz", 80, 21.0, 27.5)] {
        let Some(examples) = shared(file) else { continue };
        for (refined, limit) in [(true, limit), (false, plain_limit)] {
            let (_, test) = errors(&examples, &rr(proxies, refined));
            assert!(test <= limit, "{file}, refined {refined}: {test:.1} % on unseen poses, {limit} % expected");
        }
    }
}
