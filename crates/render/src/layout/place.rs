//! Positions across the flow, after Brandes and Köpf ("Fast and Simple Horizontal Coordinate Assignment", 2001, with the
//! correction of 2020), extended by sizes and by where links leave their items.
//!
//! Cells that a straight line should go through form blocks; blocks are pushed together. That is done four times, from
//! either side and in either direction, and the two middle positions are averaged. Links are straight wherever they pass
//! through several layers.

use super::{Effort, grid::Grid};
use std::collections::BTreeSet;

/// The anchor of each cell.
pub(super) fn across(grid: &Grid, effort: Effort) -> Vec<i32> {
    let marked = conflicts(grid);
    let run = |forth: bool, mirrored: bool| Run::new(grid, &marked, forth, mirrored).positions();
    let mut found = match effort {
        Effort::Draft => run(true, false),
        _ => average(&[run(true, false), run(true, true), run(false, false), run(false, true)]),
    };
    spread(grid, &mut found);
    found
}

/// Pairs of cells whose link crosses a link that passes on both sides; those give way.
fn conflicts(grid: &Grid) -> BTreeSet<(usize, usize)> {
    let mut marked = BTreeSet::new();
    for layer in 1..grid.layers.len() {
        let cells = &grid.layers[layer];
        let inner =
            |cell: usize| grid.lefts[cell].iter().find(|left| grid.passes(cell) && grid.passes(left.cell));
        let (mut low, mut first) = (0, 0);
        for (at, cell) in cells.iter().enumerate() {
            let bound = inner(*cell).map(|left| grid.at[left.cell]);
            if bound.is_none() && at + 1 < cells.len() {
                continue;
            }
            let high = bound.unwrap_or(usize::MAX);
            for other in &cells[first..=at] {
                for left in &grid.lefts[*other] {
                    let place = grid.at[left.cell];
                    if (place < low || place > high) && !(grid.passes(*other) && grid.passes(left.cell)) {
                        marked.insert((left.cell, *other));
                    }
                }
            }
            (low, first) = (high, at + 1);
        }
    }
    marked
}

/// One of the four runs.
struct Run<'g> {
    grid: &'g Grid,
    forth: bool,
    mirrored: bool,
    /// The first cell of each cell's block.
    root: Vec<usize>,
    /// The next cell of the block, round.
    align: Vec<usize>,
    /// Position within the block, from its root.
    shift: Vec<i32>,
}

impl<'g> Run<'g> {
    fn new(grid: &'g Grid, marked: &BTreeSet<(usize, usize)>, forth: bool, mirrored: bool) -> Run<'g> {
        let every: Vec<usize> = (0..grid.cells.len()).collect();
        let shift = vec![0; every.len()];
        let mut run = Run { grid, forth, mirrored, root: every.clone(), align: every, shift };
        let count = grid.layers.len();
        for step in 1..count {
            run.align(if forth { step } else { count - 1 - step }, marked);
        }
        run
    }

    /// A layer's cells in the order of this run.
    fn cells(&self, layer: usize) -> Vec<usize> {
        let mut cells = self.grid.layers[layer].clone();
        if self.mirrored {
            cells.reverse();
        }
        cells
    }

    /// Puts the cells of a layer into the blocks of their middle neighbours.
    fn align(&mut self, layer: usize, marked: &BTreeSet<(usize, usize)>) {
        let grid = self.grid;
        let place = |cell: usize| match self.mirrored {
            false => grid.at[cell],
            true => grid.layers[grid.cells[cell].layer].len() - 1 - grid.at[cell],
        };
        // One more than the place of the last neighbour taken.
        let mut taken = 0;
        for cell in self.cells(layer) {
            let mut others = if self.forth { grid.lefts[cell].clone() } else { grid.rights[cell].clone() };
            if others.iter().any(|other| !other.side) {
                others.retain(|other| !other.side);
            }
            others.sort_by_key(|other| place(other.cell));
            let Some(last) = others.len().checked_sub(1) else { continue };
            for other in &others[last / 2..=last.div_ceil(2)] {
                let key = if self.forth { (other.cell, cell) } else { (cell, other.cell) };
                if self.align[cell] != cell || marked.contains(&key) || taken > place(other.cell) {
                    continue;
                }
                self.align[other.cell] = cell;
                self.root[cell] = self.root[other.cell];
                self.align[cell] = self.root[cell];
                let offset = if self.forth == self.mirrored { -other.offset } else { other.offset };
                self.shift[cell] = self.shift[other.cell] + offset;
                taken = place(other.cell) + 1;
            }
        }
    }

    /// The cell before this one in its layer, and how far its position has to be.
    fn before(&self, cell: usize) -> Option<(usize, i32)> {
        let (layer, at) = (&self.grid.layers[self.grid.cells[cell].layer], self.grid.at[cell]);
        let (other, distance) = match self.mirrored {
            false => (layer[at.checked_sub(1)?], self.grid.distance(layer[at - 1], cell)),
            true => (*layer.get(at + 1)?, self.grid.distance(cell, layer[at + 1])),
        };
        Some((other, distance + self.shift[other] - self.shift[cell]))
    }

    /// The cells of a block, its root first.
    fn block(&self, root: usize) -> Vec<usize> {
        let next = |cell: &usize| Some(self.align[*cell]).filter(|next| *next != root);
        std::iter::successors(Some(root), next).collect()
    }

    /// Blocks such that each comes after those that stand before it.
    fn sequence(&self) -> Vec<usize> {
        let mut done = vec![false; self.root.len()];
        let mut sequence = Vec::new();
        for start in (0..self.root.len()).filter(|cell| self.root[*cell] == *cell) {
            let mut stack = vec![start];
            while let Some(root) = stack.pop() {
                if done[root] {
                    continue;
                }
                let before = self.block(root).into_iter().filter_map(|cell| self.before(cell));
                let open: Vec<usize> =
                    before.map(|(other, _)| self.root[other]).filter(|other| !done[*other]).collect();
                if open.is_empty() {
                    done[root] = true;
                    sequence.push(root);
                } else {
                    stack.push(root);
                    stack.extend(open);
                }
            }
        }
        sequence
    }

    fn positions(&self) -> Vec<i32> {
        let count = self.root.len();
        let mut sink: Vec<usize> = (0..count).collect();
        let mut at = vec![0; count];
        for root in self.sequence() {
            for cell in self.block(root) {
                let Some((other, distance)) = self.before(cell) else { continue };
                let other = self.root[other];
                if sink[root] == root {
                    sink[root] = sink[other];
                }
                if sink[root] == sink[other] {
                    at[root] = at[root].max(at[other] + distance);
                }
            }
        }
        let moved = self.classes(&sink, &at);
        let position = |cell: usize| {
            let root = self.root[cell];
            let position = at[root] + moved[sink[root]] + self.shift[cell];
            if self.mirrored { -position } else { position }
        };
        (0..count).map(position).collect()
    }

    /// How far each class of blocks (known by its sink) moves, so that classes stand as close as they may.
    fn classes(&self, sink: &[usize], at: &[i32]) -> Vec<i32> {
        const FAR: i32 = i32::MAX / 2;
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); sink.len()];
        for cell in 0..sink.len() {
            members[sink[self.root[cell]]].push(cell);
        }
        let mut order: Vec<usize> = (0..sink.len()).filter(|cell| !members[*cell].is_empty()).collect();
        let layers = self.grid.layers.len();
        let depth = |cell: usize| {
            let layer = self.grid.cells[cell].layer;
            if self.forth { layer } else { layers - layer }
        };
        order.sort_by_key(|class| depth(*class));
        let mut moved = vec![FAR; sink.len()];
        // A class binds those that stand before it further along, and they begin later.
        for class in order {
            if moved[class] == FAR {
                moved[class] = 0;
            }
            for cell in &members[class] {
                let Some((other, distance)) = self.before(*cell) else { continue };
                let (here, there) = (self.root[*cell], self.root[other]);
                if sink[there] != class {
                    let room = moved[class] + at[here] - at[there] - distance;
                    moved[sink[there]] = moved[sink[there]].min(room);
                }
            }
        }
        moved
    }
}

/// The mean of the two middle positions of each cell, the runs moved so that the narrowest holds them.
fn average(runs: &[Vec<i32>; 4]) -> Vec<i32> {
    let bounds = |run: &Vec<i32>| {
        let (low, high) = (run.iter().min().copied(), run.iter().max().copied());
        (low.unwrap_or(0), high.unwrap_or(0))
    };
    let bounds: Vec<(i32, i32)> = runs.iter().map(bounds).collect();
    let narrowest = bounds.iter().copied().min_by_key(|(low, high)| high - low).unwrap_or((0, 0));
    // Runs 0 and 2 push everything to the low side, the others to the high side.
    let moves: Vec<i32> = bounds
        .iter()
        .enumerate()
        .map(|(run, (low, high))| if run % 2 == 0 { narrowest.0 - low } else { narrowest.1 - high })
        .collect();
    let middle = |cell: usize| {
        let mut found: Vec<i32> = runs.iter().zip(&moves).map(|(run, by)| run[cell] + by).collect();
        found.sort_unstable();
        (found[1] + found[2]).div_euclid(2)
    };
    (0..runs[0].len()).map(middle).collect()
}

/// Moves cells apart that are still too close, and everything so that the first begins at 0.
fn spread(grid: &Grid, at: &mut [i32]) {
    for layer in &grid.layers {
        for pair in layer.windows(2) {
            at[pair[1]] = at[pair[1]].max(at[pair[0]] + grid.distance(pair[0], pair[1]));
        }
    }
    let low = grid.cells.iter().zip(at.iter()).map(|(cell, at)| at - cell.before).min().unwrap_or(0);
    at.iter_mut().for_each(|at| *at -= low);
}
