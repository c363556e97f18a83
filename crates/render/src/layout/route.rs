//! Routes: straight through the layers, and from one position to another in the gaps between them.
//!
//! What leaves an item at the same place is one net in the gap and shares a track; nets whose tracks would overlap get
//! tracks of their own, ordered so that few cross. Tracks make gaps as wide as they need to be.

use super::{
    grid::{Grid, LABEL_MARGIN},
    level::{Level, Pin, Placed, Point, Route},
};
use std::collections::BTreeMap;

/// Between two tracks.
const TRACK: i32 = 10;
/// The least gap between two layers, and next to a border.
const GAP_MIN: i32 = 34;
const BORDER_GAP_MIN: i32 = 12;
/// Between a track and the layers.
const GAP_MARGIN: i32 = 12;
/// Lines nearer than this would be taken for one.
const NEAR: i32 = 6;

/// Lines that meet on one track of a gap.
#[derive(Clone, Debug, Default)]
struct Net {
    /// Where lines come from the layer before, and from the layer after.
    lefts: Vec<i32>,
    rights: Vec<i32>,
    track: usize,
}

impl Net {
    fn range(&self) -> (i32, i32) {
        let ends = || self.lefts.iter().chain(&self.rights).copied();
        (ends().min().unwrap_or(0), ends().max().unwrap_or(0))
    }

    fn is_straight(&self) -> bool {
        let (low, high) = self.range();
        low == high
    }

    /// Lines that would lie on each other, then those that would cross, with this net's track before the other's.
    fn cost_before(&self, other: &Net) -> (usize, usize) {
        let meets = |a: &i32, lines: &[i32]| lines.iter().any(|b| (a - b).abs() < NEAR);
        let on = self.rights.iter().filter(|right| meets(right, &other.lefts)).count();
        let inside = |lines: &[i32], (low, high): (i32, i32)| {
            lines.iter().filter(|line| (low..=high).contains(*line)).count()
        };
        (on, inside(&self.rights, other.range()) + inside(&other.lefts, self.range()))
    }

    fn overlaps(&self, other: &Net) -> bool {
        let ((low, high), (other_low, other_high)) = (self.range(), other.range());
        low < other_high + NEAR && other_low < high + NEAR
    }
}

/// Which net a link is part of: what leaves the same cell at the same place, or the link itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Port { cell: usize, side: bool },
    Link { link: usize, cell: usize },
}

/// One change of position in a gap.
#[derive(Clone, Copy, Debug)]
struct Turn {
    gap: usize,
    source: Source,
    from: i32,
    to: i32,
}

pub(super) fn route(level: &Level, grid: &Grid, across: &[i32]) -> Placed {
    let turns: Vec<Vec<Turn>> = (0..level.links.len()).map(|link| turns(level, grid, across, link)).collect();
    let mut gaps: Vec<BTreeMap<Source, Net>> = vec![BTreeMap::new(); grid.layers.len() + 1];
    for (link, turns) in turns.iter().enumerate() {
        for (at, turn) in turns.iter().enumerate() {
            let net = gaps[turn.gap].entry(turn.source).or_default();
            // The last turn of a link that goes back comes from the right to the right, all others leave to the left.
            let goes_back = grid.back[link];
            let (first, last) = (at == 0, at + 1 == turns.len());
            let (from, to) = match (goes_back, first, last) {
                (false, ..) => (&mut net.lefts, &mut net.rights),
                (true, true, _) => {
                    net.lefts.extend([turn.from, turn.to]);
                    continue;
                }
                (true, _, true) => {
                    net.rights.extend([turn.from, turn.to]);
                    continue;
                }
                (true, ..) => (&mut net.rights, &mut net.lefts),
            };
            from.push(turn.from);
            to.push(turn.to);
        }
    }
    let tracks: Vec<usize> = gaps.iter_mut().map(assign).collect();
    let columns = columns(level, grid, &tracks);
    draw(level, grid, across, &Plan { turns, gaps, tracks, columns })
}

/// Where a link changes its position.
fn turns(level: &Level, grid: &Grid, across: &[i32], id: usize) -> Vec<Turn> {
    let (link, chain) = (level.links[id], &grid.chains[id]);
    let item = level.items[link.from];
    let exit = across[link.from] + if link.side { item.side } else { item.exit };
    let mut turns = Vec::new();
    for (at, pair) in chain.windows(2).enumerate() {
        let (first, last) = (at == 0, at + 2 == chain.len());
        let (from, to) = (if first { exit } else { across[pair[0]] }, across[pair[1]]);
        let layer = |cell: usize| grid.cells[cell].layer;
        let gap = match (grid.back[id], first, last) {
            (false, ..) => layer(pair[1]),
            (true, true, _) => layer(pair[0]) + 1,
            (true, _, true) => layer(pair[1]),
            (true, ..) => layer(pair[0]),
        };
        let source = match first {
            true => Source::Port { cell: pair[0], side: link.side },
            false => Source::Link { link: id, cell: pair[0] },
        };
        turns.push(Turn { gap, source, from, to });
    }
    turns
}

/// Gives every net of a gap that needs one a track; answers how many tracks there are.
fn assign(gap: &mut BTreeMap<Source, Net>) -> usize {
    let mut open: Vec<&mut Net> = gap.values_mut().filter(|net| !net.is_straight()).collect();
    let count = open.len();
    let mut cost = vec![(0i64, 0i64); count];
    for first in 0..count {
        for second in 0..count {
            if first != second && open[first].overlaps(open[second]) {
                let (forth, back) =
                    (open[first].cost_before(open[second]), open[second].cost_before(open[first]));
                cost[first].0 += forth.0 as i64 - back.0 as i64;
                cost[first].1 += forth.1 as i64 - back.1 as i64;
            }
        }
    }
    // Repeatedly the net that costs least before all the others; those left no longer have to be before it.
    let mut order: Vec<usize> = Vec::with_capacity(count);
    let mut left: Vec<usize> = (0..count).collect();
    while let Some(best) = (0..left.len()).min_by_key(|at| (cost[left[*at]], left[*at])) {
        let chosen = left.remove(best);
        for other in &left {
            if open[*other].overlaps(open[chosen]) {
                let (forth, back) =
                    (open[*other].cost_before(open[chosen]), open[chosen].cost_before(open[*other]));
                cost[*other].0 -= forth.0 as i64 - back.0 as i64;
                cost[*other].1 -= forth.1 as i64 - back.1 as i64;
            }
        }
        order.push(chosen);
    }
    let mut tracks = 0;
    for (at, net) in order.iter().copied().enumerate() {
        let before = order[..at].iter().filter(|other| open[**other].overlaps(open[net]));
        let track = before.map(|other| open[*other].track + 1).max().unwrap_or(0);
        open[net].track = track;
        tracks = tracks.max(track + 1);
    }
    tracks
}

/// Where layers and gaps begin along the flow.
struct Columns {
    layers: Vec<(i32, i32)>,
    gaps: Vec<(i32, i32)>,
    end: i32,
}

fn columns(level: &Level, grid: &Grid, tracks: &[usize]) -> Columns {
    let pin = |cell: &usize| grid.cells[*cell].item.map(|item| level.items[item].pin);
    let is_border =
        |layer: usize| grid.layers[layer].iter().all(|cell| !matches!(pin(cell), Some(Pin::Free)));
    let mut columns = Columns { layers: Vec::new(), gaps: Vec::new(), end: 0 };
    let mut at = 0;
    for (gap, tracks) in tracks.iter().enumerate() {
        let inner = gap > 0 && gap < grid.layers.len();
        let least = match inner {
            true if is_border(gap - 1) || is_border(gap) => BORDER_GAP_MIN,
            true => GAP_MIN,
            false => 0,
        };
        let wanted = if *tracks == 0 { 0 } else { 2 * GAP_MARGIN + (*tracks as i32 - 1) * TRACK };
        columns.gaps.push((at, least.max(wanted)));
        at += least.max(wanted);
        if let Some(cells) = grid.layers.get(gap) {
            let along = cells.iter().map(|cell| grid.cells[*cell].along).max().unwrap_or(0);
            columns.layers.push((at, along));
            at += along;
        }
    }
    columns.end = at;
    columns
}

struct Plan {
    turns: Vec<Vec<Turn>>,
    gaps: Vec<BTreeMap<Source, Net>>,
    tracks: Vec<usize>,
    columns: Columns,
}

impl Plan {
    /// Where along the flow a turn is made.
    fn along(&self, turn: &Turn) -> i32 {
        let (start, width) = self.columns.gaps[turn.gap];
        let used = (self.tracks[turn.gap].max(1) as i32 - 1) * TRACK;
        let track = self.gaps[turn.gap].get(&turn.source).map_or(0, |net| net.track as i32);
        start + (width - used) / 2 + track * TRACK
    }
}

fn draw(level: &Level, grid: &Grid, across: &[i32], plan: &Plan) -> Placed {
    let start = |cell: usize| {
        let (start, width) = plan.columns.layers[grid.cells[cell].layer];
        match grid.cells[cell].item.map(|item| level.items[item].pin) {
            Some(Pin::In) => 0,
            Some(Pin::Out) => plan.columns.end,
            _ => start + (width - grid.cells[cell].along) / 2,
        }
    };
    let items: Vec<Point> = (0..level.items.len()).map(|item| (start(item), across[item])).collect();
    let mut routes = Vec::new();
    for (id, link) in level.links.iter().enumerate() {
        let turns = &plan.turns[id];
        let begin =
            (items[link.from].0 + level.items[link.from].along, turns.first().map_or(0, |turn| turn.from));
        let mut points = vec![begin];
        for turn in turns.iter().filter(|turn| turn.from != turn.to) {
            let along = plan.along(turn);
            points.extend([(along, turn.from), (along, turn.to)]);
        }
        points.push((items[link.to].0, items[link.to].1));
        let label = link
            .label
            .and_then(|_| grid.chains[id].get(1))
            .map(|cell| (start(*cell) + LABEL_MARGIN, across[*cell] - grid.cells[*cell].before));
        routes.push(Route { points: simple(points), label });
    }
    let reach = |cell: usize| across[cell] + grid.cells[cell].after;
    let width = (0..grid.cells.len()).map(reach).max().unwrap_or(0);
    Placed { items, routes, along: plan.columns.end, across: width }
}

/// Without points in the middle of straight lines.
fn simple(points: Vec<Point>) -> Vec<Point> {
    let mut kept: Vec<Point> = Vec::with_capacity(points.len());
    for point in points {
        if kept.last() == Some(&point) {
            continue;
        }
        if let [.., first, second] = kept.as_slice()
            && ((first.0 == second.0 && second.0 == point.0) || (first.1 == second.1 && second.1 == point.1))
        {
            kept.pop();
        }
        kept.push(point);
    }
    kept
}
