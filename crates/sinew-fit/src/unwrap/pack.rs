//! Charts into the unit square: shelves, the tallest chart first. Simple, and charts keep their scale.

use glam::DVec2;

/// The gap around every chart, a fraction of the square's side: two texels at 1,024.
const GAP: f64 = 0.002;

/// Where each box goes, and the side of the square that holds them all.
pub fn pack(sizes: &[DVec2]) -> (Vec<DVec2>, f64) {
    let area: f64 = sizes.iter().map(|size| size.x * size.y).sum();
    let widest = sizes.iter().map(|size| size.x.max(size.y)).fold(f64::MIN_POSITIVE, f64::max);
    let mut side = (1.05 * area.sqrt()).max(widest * (1.0 + 2.0 * GAP));
    loop {
        let (places, height) = shelves(sizes, side);
        if height <= side {
            return (places, side);
        }
        // Grows until the shelves fit: charts never change size relative to one another.
        side *= 1.02;
    }
}

fn shelves(sizes: &[DVec2], side: f64) -> (Vec<DVec2>, f64) {
    let gap = GAP * side;
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by(|&a, &b| sizes[b].y.total_cmp(&sizes[a].y).then(a.cmp(&b)));
    let mut places = vec![DVec2::ZERO; sizes.len()];
    let (mut x, mut y, mut shelf) = (gap, gap, 0.0_f64);
    for index in order {
        if x + sizes[index].x + gap > side && x > gap {
            (x, y, shelf) = (gap, y + shelf + gap, 0.0);
        }
        places[index] = DVec2::new(x, y);
        x += sizes[index].x + gap;
        shelf = shelf.max(sizes[index].y);
    }
    (places, y + shelf + gap)
}
