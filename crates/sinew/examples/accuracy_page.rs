//! Writes `docs/ACCURACY.md`: what each part of rotational regression and its correction gains on unseen poses.
//!
//!     cargo run --release -p sinew --example accuracy_page -- docs/ACCURACY.md [examples.npz=PROXIES …]
//!
//! Every figure on that page comes from here. Rows of data sets that are not given stay out.

use std::fmt::Write;
use std::path::Path;

use glam::DVec3;
use sinew_examples::{Examples, datasets};
use sinew_fit::correct::distil::Distil;
use sinew_fit::correct::redraw::TURNS;
use sinew_fit::correct::{Closeness, CorrectionParams, Place};
use sinew_fit::cross_validation::squared_error;
use sinew_fit::methods::rr::RrParams;
use sinew_fit::methods::rr::refine::RefineParams;
use sinew_fit::mirror::{self, MirrorChoice};
use sinew_fit::{Method, Quiet, Training, fit, limit, predict};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const INTRODUCTION: &str = "# What was tried for unseen poses, and what it gained

Made by `cargo run --release -p sinew --example accuracy_page -- docs/ACCURACY.md [examples.npz=PROXIES ...]`. Enveloping
error on the test frames, percent. `by left-out poses` is what `sinew fit` does: it chooses on training poses alone. The fixed ridges show what that choice is
worth. The methods themselves were developed with these test frames in view, so other characters are the fairer judge.
";

const WORDS: &str = "
## What the rows say

- *Refinement* is the largest gain. *Correction* comes next; on the vertices it gains more than on the proxy bones, for more
  memory.
- *The drawing weights* of corrected proxy bones: weights that were fitted before the correction do not suit proxies that move
  otherwise. Fitted in turns with the correction, they gain on nearly every character at no cost a frame. They also see, with
  little weight, training poses turned twice as far, where a vertex should lie among its neighbours: that changes unseen
  poses within the ranges little, but keeps vertices from sticking out beyond them, and so allows leaving out more blocks of c₁
  and c₂ before a correction, which gains accuracy and time.
- *Distillation*: what a corrected regression has learned from a few examples, polynomials of joint rotations learn from some
  hundred poses that it draws, blends of the examples. They cost a fraction of it a frame and are about as close to unseen poses as
  their teacher. Since a teacher need not be fast, it displaces its vertices too; that gains a tenth on a body and a third on
  `creature`. And there are two of them, the second with a quarter more proxy bones: which triangles go together decides what becomes
  of unseen poses more than the examples do, and the mean of two errs less. Over seven splits of two characters' frames that, with fewer
  terms in exchange for more points, is a tenth less error for about the same time. A third teacher brings hardly more.
  Eight vertices in a row are drawn from points of their own over the same few entries of the palette: four numbers
  an entry instead of one weight, so that two entries do what took four, and nothing is visited in vain. As many entries are visited
  as the time of plain skinning allows; a tenth more of that time would be a tenth less error on a body. The poses are blended
  joint by joint where examples are few, for whole blends leave most of what an arm can do unseen; on a body a few terms cannot learn what a teacher makes of combinations that no example comes near, and
  whole poses are blended. Which of both is settled by the training poses: joint by joint unless that costs the student
  there. Where polynomials lose too much of what the correction gained (a bar twisted by half a turn, a ball joint that turns
  every way), or vertices would stick out beyond the trained ranges, the corrected regression stays as it is. A few registers
  draw the corners of the trained ranges badly, which everything beyond them is drawn by; these are drawn anew with the corners
  counted up to hundreds of times as much, until at twice the range no vertex sticks out farther than with plain skinning. That
  changes the error on unseen poses in the third digit.
- *Beyond the ranges* models that draw by weights have those vertices drawn anew that stick out at twice the range farther than
  plain skinning, the examples and the shape as a whole do: on `shoulder` a few dozen, on an arm with displaced vertices a few.
  Nothing changes for poses within the ranges beyond the third digit. What a whole tube does when it is twisted twice as far is left to it:
  drawn by weights that keep it as smooth as where skinning collapses it, it would be several times as far from poses within the ranges.
- *Points without a correction*: fewer blocks of c₁ and c₂, and vertices drawn from points, save a quarter to two fifths of a plain
  regression's time a frame on a mesh of a few thousand vertices, little on a large one, for about the same error. Engines that take joints and weights alone
  lose what points draw, and poses beyond the trained ranges take longer: `--points off` draws by weights.
- *The refinement's ridge*: without a correction a weak one is best, with a correction often a stronger one, whose
  residual is smoother over poses. Left-out poses choose it after an emulated correction. Where the poses are few,
  leaving one out can speak for a strong ridge where it is wrong (`shoulder`), and now and then one ridge's residual is
  predicted badly where its neighbours' are not (on an arm the error used to leap by a third at some numbers of proxy bones).
  So the next best ridge and the refinement's own are fitted and corrected too, and the one with clearly less error to
  expect is taken, which counts the training poses as well as the left-out ones.
- *Mirror images* help characters that move as symmetrically as they look (`shoulder`) and ruin others: `bar` turns by half
  a turn, where both directions are the same rotation, and `human` bends its two knees differently in the same pose.
  `--mirror auto` fits both ways and keeps the model with less error to expect, from the training poses and from poses
  left out together with their images. It costs a second fit with twice the poses, so it is asked for.

## What was tried beside these, and did not earn its place

Tried on the residuals of fitted models (two real characters, judged on their test frames):

- product-only or additive-only kernels instead of the mixed one: equal where one joint moves, additive alone clearly worse on a body;
- the marginal likelihood instead of predicting each pose from the others: worse on a body;
- a kernel chosen for every proxy bone by itself: better on an arm, worse on a body, where chance finds more joints;
- a price on every joint that a kernel takes: no effect on a body, worse on an arm;
- a stronger or weaker ridge in spreading the residual over proxy bones: no gain;
- weighing left-out poses by how near the others are: the same choices;
- the mean of all kernels, weighted by how little the poses surprise them, instead of the best one: no gain;
- a region's own joint always in its kernel, or the nearest joints to begin with: no gain;
- the swing and the twist of a joint about its bone as drivers of their own, taken freely or in place of the whole rotation: no
  gain over rotational regression. A hinge's parts are its one angle again, measured otherwise: some splits of an arm
  better, its own split clearly worse; where joints turn about several axes, on a body and on `creature`, the same error.
  Over linear blend skinning a planted bulge that follows the twist alone is found, and unseen poses gain much; but one that follows
  the swing comes out worse, though left-out poses speak for the part, and so does `shoulder`;
- changes in the frame of the proxy bone as predicted instead of its bone's: no gain;
- kernels of six other shapes, products over all subsets of joints: no gain;
- all regions' coefficients in one solve for the error at the vertices: no gain;
- for drawing weights beyond the trained ranges, vertices where linear blend skinning would carry them from the training poses:
  it collapses there, and weights that imitate it fold the skin;
- leaving out nearly all blocks of c₁ and c₂ before a correction (four times the tolerance): less error still on most splits
  of two characters' frames, but at twice the trained ranges vertices stick out of the arm. Keeping the blocks
  that matter in those poses cures that and loses the gain. It is the blocks of c₁ that hold the arm together there: leaving out
  more of c₂ alone does neither harm nor good;
- drawing weights fitted half to proxies as the correction predicts each pose from the others: a few percent less error on a body,
  one percent more on half of the arm's splits, and vertices stick out of arms at twice the trained ranges;
- drawing weights that are to resemble their neighbours': more error on a body, whose vertices stand far apart, the same on an arm;
- twice the influences a vertex: closer to the training poses, more error on a body's test frames;
- imagined poses for polynomials in which every joint lies anywhere in its range, or goes beyond it by a third: no gain over
  blends; only whole blends, or only joints one by one: a fifth more error on an arm, twice the error on `creature`;
- vertices displaced by polynomials of their own over linear blend skinning or animation space, in clusters with a few
  modes each, instead of proxy bones that follow polynomials: more error on an arm, and on a body unsteady;
- vertices that lie in a row made to share their proxy bones with one weight each instead of points: slower, for more
  proxies are visited;
- other teachers of a distilled regression beside the first: the corrected regressions with the rival ridges, with
  displaced vertices or without (a few percent less error on arms, a few more on bodies), pose-space deformation or corrected
  animation space among them (more error, or vertices stick out);
- a distilled regression that learns a tenth or a fifth of every joint's range beyond its ends, from teachers that carry the skin on
  there: a fiftieth less error on the body whose test poses go there, several hundredths more on all other splits, and an
  arm's student loses too much;
- half of its imagined poses blended joint by joint: a tenth more error on a body; two thirds more of them: a few percent less on
  some splits, more on others;
- more terms than the time of plain skinning leaves room for: what they gain is less than what fewer points lose. With half as
  much time again, a body's error would be a seventh less, an arm's a fourteenth;
- distillation wherever it loses little of the error to expect, not only of what the correction gains: `shoulder` would take two thirds
  of the time, and be a hundredth worse than without a correction;
- for the points of a distilled regression, twice four vertices in a row or scattered ones that move alike instead of eight in a
  row: what they gain is less than writing them costs;
- terms chosen until nothing is left to gain: on a body twice the error beyond some twenty terms a region;
- the mean of three corrected models with different numbers of proxy bones: a fifth less error on a body, hardly less on an arm, at
  three times the cost a frame. No single model of the same size came near it.

Tried for the refinement's ridge under a correction, instead of the error to expect of corrected models:

- one standard error over the left-out poses: on `shoulder` and `creature` nearly every left-out pose speaks for a stronger
  ridge, beyond doubt and wrongly, on an arm only just and rightly;
- the refinement's own ridge, unless the corrected model comes as near to the training poses with the other: right on every
  character as a whole, but blind to single bad fits;
- the error halfway between training and left-out poses instead of their geometric mean: refuses the stronger ridge on
  `shoulder`, but also on an arm where it is right, and does not decide on `creature`. Left-out errors of a few far poses are two to four
  times those of the test frames, so that small differences between them say little.
";

struct Variant {
    words: &'static str,
    refine: Option<Option<f64>>,
    correct: Option<(Place, Closeness)>,
    mirror: MirrorChoice,
    turns: usize,
    distil: Distil,
    points: bool,
}

const fn variant(words: &'static str, refine: Option<Option<f64>>, correct: Option<(Place, Closeness)>) -> Variant {
    Variant { words, refine, correct, mirror: MirrorChoice::Off, turns: TURNS, distil: Distil::Off, points: false }
}

const PROXIES: Option<(Place, Closeness)> = Some((Place::Proxies, Closeness::Smooth));
const VERTICES: Option<(Place, Closeness)> = Some((Place::Vertices, Closeness::Smooth));

const VARIANTS: [Variant; 17] = [
    variant("no refinement (the thesis's form)", None, None),
    variant("refined, ridge 1", Some(Some(1.0)), None),
    variant("refined, ridge 10", Some(Some(10.0)), None),
    variant("refined, ridge 100", Some(Some(100.0)), None),
    variant("refined, ridge by left-out poses", Some(None), None),
    Variant {
        points: true,
        ..variant("ridge by left-out poses, drawn from points where that holds", Some(None), None)
    },
    variant("no refinement, proxies corrected", None, PROXIES),
    variant("ridge 1, proxies corrected", Some(Some(1.0)), PROXIES),
    variant("ridge 10, proxies corrected", Some(Some(10.0)), PROXIES),
    variant("ridge 100, proxies corrected", Some(Some(100.0)), PROXIES),
    variant("ridge by left-out poses, proxies corrected", Some(None), PROXIES),
    Variant {
        turns: 0,
        ..variant("the same, the drawing weights not fitted to corrected proxies", Some(None), PROXIES)
    },
    Variant {
        distil: Distil::Auto,
        ..variant("ridge by left-out poses, proxies corrected, distilled where little is lost", Some(None), PROXIES)
    },
    variant("ridge by left-out poses, proxies corrected exactly", Some(None), Some((Place::Proxies, Closeness::Exact))),
    variant("ridge by left-out poses, vertices corrected", Some(None), VERTICES),
    Variant { mirror: MirrorChoice::On, ..variant("the same with mirror images", Some(None), VERTICES) },
    Variant { mirror: MirrorChoice::Auto, ..variant("the same, mirror images by `auto`", Some(None), VERTICES) },
];

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let page = arguments.next().unwrap_or_else(|| "docs/ACCURACY.md".into());
    let mut sets: Vec<(String, Examples, Option<usize>)> = Vec::new();
    for name in ["bar", "tube-bend", "tube-twist", "arm", "shoulder"] {
        sets.push((name.into(), datasets::by_name(name).ok_or("a built-in set")?.make(), None));
    }
    for argument in arguments {
        let (path, proxies) = argument.split_once('=').ok_or("write examples.npz=PROXIES")?;
        let sinew_io::Loaded::Examples(examples) = sinew_io::npz::read(Path::new(path))? else {
            return Err(format!("{path} has no skeleton").into());
        };
        let name = Path::new(path).file_stem().unwrap_or_default().to_string_lossy();
        sets.push((format!("{name} ({proxies} proxy bones)"), *examples, Some(proxies.parse()?)));
    }
    let mut text = format!("{INTRODUCTION}\n| |");
    sets.iter().for_each(|(name, ..)| write!(text, " {name} |").expect("text grows"));
    write!(text, "\n|---|{}\n", "---|".repeat(sets.len()))?;
    for variant in &VARIANTS {
        write!(text, "| {} |", variant.words)?;
        for (_, examples, proxies) in &sets {
            write!(text, " {} |", error(examples, *proxies, variant)?)?;
        }
        text.push('\n');
    }
    write!(text, "| limit: the best possible transforms |")?;
    for (_, examples, proxies) in &sets {
        write!(text, " {} |", limit_of(examples, *proxies)?)?;
    }
    text.push('\n');
    text.push_str(WORDS);
    std::fs::write(page, text)?;
    Ok(())
}

fn method(proxy_bones: Option<usize>, variant: &Variant) -> Method {
    let refine = variant.refine.map(|ridge| RefineParams { ridge, ..RefineParams::default() });
    let rr =
        Method::RotationalRegression(RrParams { proxy_bones, refine, points: variant.points, ..RrParams::default() });
    match variant.correct {
        Some((place, closeness)) => {
            let params = CorrectionParams {
                closeness,
                turns: variant.turns,
                distil: variant.distil,
                ..CorrectionParams::new(place)
            };
            Method::Corrected(Box::new(rr), params)
        }
        None => rr,
    }
}

/// Test EE in percent; a dash where the character has no mirror image.
fn error(examples: &Examples, proxies: Option<usize>, variant: &Variant) -> Result<String> {
    let method = method(proxies, variant);
    let training = Training::new(examples, &examples.split().train)?;
    let Ok((fitted, _)) = mirror::fit(&training, variant.mirror, &method, &Quiet) else { return Ok("–".into()) };
    let unseen = Training::new(examples, &examples.split().test)?;
    Ok(percent(&unseen, squared_error(&unseen, &predict::training_poses(&fitted.model, &unseen))))
}

fn limit_of(examples: &Examples, proxies: Option<usize>) -> Result<String> {
    let training = Training::new(examples, &examples.split().train)?;
    let model = fit(&training, &method(proxies, &VARIANTS[4]), &Quiet)?.model;
    let frames = &examples.split().test;
    let Some(drawn) = limit::limit(&model, examples, frames) else { return Ok("–".into()) };
    let unseen = Training::new(examples, frames)?;
    let pairs = |(drawn, &e): (&Vec<DVec3>, &usize)| {
        drawn.iter().zip(examples.vertices(e)).map(|(a, b)| a.distance_squared(*b)).sum::<f64>()
    };
    Ok(percent(&unseen, drawn.iter().zip(frames).map(pairs).sum()))
}

/// The enveloping error of a summed squared error.
fn percent(unseen: &Training, squared: f64) -> String {
    let truth: Vec<&[DVec3]> = unseen.vertices.iter().map(Vec::as_slice).collect();
    let rigid = sinew_measure::best_rigid_error(&unseen.rest, &unseen.transforms, &truth);
    format!("{:.2}", 100.0 * (squared / rigid).sqrt())
}
