//! `cargo bench -p sinew-runtime`: the aims of the run time on characters of the papers' sizes, and the animation-space
//! paper's comparison of methods.

use sinew_bench::model::{Report, Target, bench};
use sinew_bench::peers::PEERS;
use sinew_bench::synthetic::{self, CREATURE, Size};
use sinew_bench::timing::{Effort, race};
use sinew_runtime::deform::{AnimationSpace, LinearBlend, MultiWeight};
use sinew_runtime::{Character, Deformer, Evaluator, Metadata, Model};

fn main() {
    let creature = synthetic::character(CREATURE);
    // The elbow of Wang, Pulli and Popović's Table 6.1.
    let elbow = synthetic::character(Size { vertices: 2_610, bones: 2, influences: 2.0 });
    let points = AnimationSpace::from_linear_blend(&creature);
    let entries = MultiWeight::from_animation_space(&points, &creature);
    let regression = |character: &Character, proxies| {
        Deformer::RotationalRegression(synthetic::rotational_regression(character, proxies))
    };
    // `cargo bench … -- rr` measures what begins with `rr` only.
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let cases = [
        ("ssd", &creature, Deformer::LinearBlend(LinearBlend)),
        ("rr, 60 proxy bones", &creature, regression(&creature, 60)),
        ("rr, 30 proxy bones", &elbow, regression(&elbow, 30)),
        ("as", &creature, Deformer::AnimationSpace(points)),
        ("mwe", &creature, Deformer::MultiWeight(entries)),
    ];
    for (name, character, deformer) in cases.into_iter().filter(|case| case.0.starts_with(&wanted)) {
        print(name, character, deformer);
    }
    if wanted == "prediction" {
        let small = synthetic::character(Size { vertices: 160, ..CREATURE });
        print("prediction", &small, regression(&small, 60));
        let small = synthetic::character(Size { vertices: 16, bones: 2, influences: 2.0 });
        print("prediction", &small, regression(&small, 30));
    }
    if "peers".starts_with(&wanted) {
        println!(
            "\nOthers, linear blend skinning of a mesh of the creature's size on one core at 3.2 GHz, million vertices a second"
        );
        for peer in PEERS {
            println!("{:8} {}: {}", peer.millions, peer.name, peer.source);
        }
    }
    if "table".starts_with(&wanted) {
        methods_by_influences();
    }
}

fn model(name: &str, character: &Character, deformer: Deformer) -> Model {
    let metadata = Metadata { method: name.into(), ..Metadata::default() };
    Model::new(character.clone(), deformer, metadata).expect("a synthetic model is sound")
}

fn print(name: &str, character: &Character, deformer: Deformer) {
    let report = bench(&model(name, character, deformer), Effort::default());
    let Report { vertices, joints, influences, pairs_over_influences: pairs, .. } = report;
    println!("{name}: {vertices} vertices, {joints} joints, {influences:.2} influences, blocks compute {pairs:.2}×");
    for (what, figures) in [("model", &report.model), ("ssd", &report.ssd)] {
        let millions = figures.vertices_per_second / 1e6;
        println!(
            "  {what:6} {:8.1} µs {millions:6.0} Mv/s  p50 {:.1}  p99 {:.1}  cold {:.1} µs  {:.2} MB  {:.2} Mflop",
            figures.microseconds,
            figures.p50_microseconds,
            figures.p99_microseconds,
            figures.cold_microseconds,
            figures.bytes as f64 / 1e6,
            figures.operations as f64 / 1e6,
        );
    }
    if let Some(plain) = report.plain_microseconds {
        println!("  plain  {plain:8.1} µs {:6.0} Mv/s", vertices as f64 / plain);
    }
    let bound = &report.bound;
    println!(
        "  bound  {:8.1} µs  ({:.1} G multiply-adds/s, {:.1} GB/s)   one-ring normals {:.2}×   ratios to ± {:.3}",
        bound.microseconds,
        bound.multiply_adds_per_second / 1e9,
        bound.bytes_per_second / 1e9,
        report.one_ring_normals_ratio,
        report.uncertainty,
    );
    for Target { name, value, limit, at_least, met } in &report.targets {
        let (sign, word) = (if *at_least { "≥" } else { "≤" }, if *met { "met" } else { "MISSED" });
        println!("  {word:7} {name}: {value:.2} (aim {sign} {limit})");
    }
}

/// Table III of Merry, Marais and Gain (2006): its models' sizes, its frames a second on the graphics card of the time,
/// and ours on one core.
fn methods_by_influences() {
    println!("\nMerry, Marais and Gain (2006), Table III: frames a second there, and on one core here");
    println!("model     vertices bones influences   SSD   AS  MWE      SSD     AS    MWE   AS/SSD MWE/SSD (time)");
    let table = [
        ("cylinder", 38_786, 2, 2.0, ["290", "458", "177"]),
        ("tube", 57_346, 2, 1.8, ["200", "327", "94"]),
        ("arm", 100_160, 3, 1.8, ["112", "186", "63"]),
        ("hand", 102_274, 29, 2.5, ["109", "187", "—"]),
        ("horse", 137_634, 24, 3.0, ["101", "144", "—"]),
    ];
    for (name, vertices, bones, influences, theirs) in table {
        let character = synthetic::character(Size { vertices, bones, influences });
        let points = AnimationSpace::from_linear_blend(&character);
        let entries = MultiWeight::from_animation_space(&points, &character);
        let models = [
            model("ssd", &character, Deformer::LinearBlend(LinearBlend)),
            model("as", &character, Deformer::AnimationSpace(points)),
            model("mwe", &character, Deformer::MultiWeight(entries)),
        ];
        let pose = synthetic::pose(&character, 1.0);
        let mut outs: [Vec<[f32; 3]>; 3] = std::array::from_fn(|_| vec![[0.0; 3]; vertices]);
        let mut evaluators = models.each_ref().map(Evaluator::new);
        let ([a, b, c], [x, y, z]) = (&mut evaluators, &mut outs);
        let mut contestants: [&mut dyn FnMut(); 3] =
            [&mut || a.positions(&pose, x), &mut || b.positions(&pose, y), &mut || c.positions(&pose, z)];
        let times = race(Effort { rounds: 40, ..Effort::default() }, &mut contestants);
        let fps = |k: usize| 1e6 / times[k].best;
        println!(
            "{name:9} {vertices:8} {bones:5} {influences:10} {:>5} {:>4} {:>4} {:8.0} {:6.0} {:6.0}   {:6.2} {:7.2}",
            theirs[0],
            theirs[1],
            theirs[2],
            fps(0),
            fps(1),
            fps(2),
            times[1].ratio_to(&times[0]),
            times[2].ratio_to(&times[0]),
        );
    }
}
