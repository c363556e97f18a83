//! The order within layers, with few crossings: barycentres, layer by layer, there and back; then neighbours that are
//! better the other way round change places.

use super::{Effort, grid::Grid};

/// Swaps of neighbours are tried at most this often over all layers.
const SWAP_ROUNDS_MAX: usize = 8;
/// So many sweeps in a row that find nothing better are the last.
const IDLE_MAX: usize = 6;
/// Layers with more cells are ordered by barycentres alone.
const SWAP_CELLS_MAX: usize = 200;

pub(super) fn untangle(grid: &mut Grid, effort: Effort) {
    let (sweeps, swaps) = match effort {
        Effort::Draft => (2, 0),
        Effort::Balanced => (8, 2),
        Effort::Best => (32, SWAP_ROUNDS_MAX),
    };
    let mut best = (crossings(grid), grid.layers.clone());
    let mut idle = 0;
    for sweep in 0..sweeps {
        if best.0 == 0 || idle == IDLE_MAX {
            break;
        }
        let forth = sweep % 2 == 0;
        let count = grid.layers.len();
        for step in 1..count {
            sort(grid, if forth { step } else { count - 1 - step }, forth);
        }
        // Until nothing is left to swap.
        let _ = (0..swaps).any(|_| !swap(grid));
        let found = crossings(grid);
        idle += 1;
        if found < best.0 {
            best = (found, grid.layers.clone());
            idle = 0;
        }
    }
    grid.layers = best.1;
    (0..grid.layers.len()).for_each(|layer| grid.number(layer));
}

/// Sorts one layer by the means of its neighbours' places. Lanes, and what has no neighbour, stay where they are.
fn sort(grid: &mut Grid, layer: usize, forth: bool) {
    const SCALE: usize = 1 << 16;
    let neighbours = if forth { &grid.lefts } else { &grid.rights };
    let key = |cell: usize| {
        let places: Vec<usize> = neighbours[cell].iter().map(|other| grid.at[other.cell]).collect();
        let free = !grid.cells[cell].lane && !places.is_empty();
        free.then(|| places.iter().sum::<usize>() * SCALE / places.len())
    };
    let cells = &grid.layers[layer];
    let mut sorted: Vec<(usize, usize)> =
        cells.iter().filter_map(|cell| Some((key(*cell)?, *cell))).collect();
    sorted.sort_by_key(|(key, _)| *key);
    let mut sorted = sorted.into_iter();
    let next: Vec<usize> = cells
        .iter()
        .map(|cell| match key(*cell) {
            Some(_) => sorted.next().map_or(*cell, |(_, next)| next),
            None => *cell,
        })
        .collect();
    grid.layers[layer] = next;
    grid.number(layer);
}

/// Swaps neighbours that cross less the other way round; true if any were swapped.
fn swap(grid: &mut Grid) -> bool {
    let mut swapped = false;
    for layer in 0..grid.layers.len() {
        let count = grid.layers[layer].len();
        if count > SWAP_CELLS_MAX {
            continue;
        }
        for at in 1..count {
            let (first, second) = (grid.layers[layer][at - 1], grid.layers[layer][at]);
            if grid.cells[first].lane || grid.cells[second].lane {
                continue;
            }
            if pair(grid, second, first) < pair(grid, first, second) {
                grid.layers[layer].swap(at - 1, at);
                (grid.at[first], grid.at[second]) = (at, at - 1);
                swapped = true;
            }
        }
    }
    swapped
}

/// Crossings among the links of two cells, the first standing before the second.
fn pair(grid: &Grid, first: usize, second: usize) -> usize {
    [&grid.lefts, &grid.rights]
        .into_iter()
        .map(|side| {
            let above = side[first].iter().map(|other| grid.at[other.cell]);
            above
                .map(|place| side[second].iter().filter(|other| grid.at[other.cell] < place).count())
                .sum::<usize>()
        })
        .sum()
}

/// Crossings in all gaps.
fn crossings(grid: &Grid) -> usize {
    (1..grid.layers.len()).map(|layer| crossings_before(grid, layer)).sum()
}

/// Crossings between a layer and the one before: inversions, counted with a Fenwick tree.
fn crossings_before(grid: &Grid, layer: usize) -> usize {
    let width = grid.layers[layer].len();
    let mut tree = vec![0usize; width + 1];
    let (mut seen, mut count) = (0, 0);
    for cell in &grid.layers[layer - 1] {
        let mut places: Vec<usize> = grid.rights[*cell].iter().map(|right| grid.at[right.cell] + 1).collect();
        places.sort_unstable();
        for place in &places {
            let mut at = *place;
            let mut before = 0;
            while at > 0 {
                before += tree[at];
                at &= at - 1;
            }
            count += seen - before;
        }
        for place in places {
            let mut at = place;
            while at <= width {
                tree[at] += 1;
                at += at & at.wrapping_neg();
            }
            seen += 1;
        }
    }
    count
}
