//! The picture of the README: truth, linear blend skinning and the best method at the worst pose, errors in colour.

use sinew_draw::{Camera, Image, Picture, TEXT_HEIGHT, draw_text, legend, text_width};

use super::advice;
use super::contest::{Contest, Finished};
use super::pictures;

const INK: [u8; 4] = [40, 44, 52, 255];
const PAPER: [u8; 4] = [255, 255, 255, 255];

/// Draws it: three panels in a row and the colour key, as a PNG; `None` without two finished methods.
pub fn png(contest: &Contest) -> Option<Vec<u8>> {
    let (_, ssd) = contest.finished().find(|(contender, _)| contender.name == "ssd")?;
    let (best, best_finished) = contest.finished().min_by(|a, b| advice::error(a.1).total_cmp(&advice::error(b.1)))?;
    let (index, _) = *pictures::frames_to_show(contest, None).first()?;
    let truth = contest.examples.vertices(contest.test_frames[index]);
    let size = Picture { width: 400, height: 330, samples: 4, background: PAPER };
    let camera = Camera::around(&[truth], 12.0, 10.0, 400.0 / 330.0);
    let end = pictures::scale_end(contest);
    let with_error = |finished: &Finished| {
        let predicted = contest.predicted(finished, index);
        pictures::with_error(contest, truth, &predicted, end, &camera, &size)
    };
    let error = |finished: &Finished| format!("error {:.1} %", advice::error(finished));
    let panels = [
        (pictures::surface(contest, truth, None, &camera, &size), "truth, unseen pose".into(), String::new()),
        (with_error(ssd), "linear blend skinning".into(), error(ssd)),
        (with_error(best_finished), format!("sinew, {}", best.name), error(best_finished)),
    ];
    let label_height = 56;
    let mut image = Image::filled(3 * size.width, size.height + label_height + 40, PAPER);
    for (k, (panel, title, words)) in panels.iter().enumerate() {
        let left = k * size.width;
        image.draw(panel, left, 0);
        for (line, text) in [title, words].into_iter().enumerate() {
            let x = left + size.width.saturating_sub(text_width(text, 2)) / 2;
            draw_text(&mut image, text, x, size.height + 8 + line * (2 * TEXT_HEIGHT + 8), 2, INK);
        }
    }
    let percent = 100.0 * end / contest.examples.mesh().diagonal();
    let key = legend(420, "0", &format!("{percent:.1} % of diagonal"), INK, 1);
    image.draw(&key, (3 * size.width - 420) / 2, size.height + label_height + 8);
    Some(image.png())
}
