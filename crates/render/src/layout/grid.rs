//! Layers of cells: items, and where links pass through a layer.
//!
//! A link that goes back passes through every layer from its start's to its end's, in a lane at the far side of the
//! layers; it turns round in the gaps beside its ends.

use super::level::Level;

/// Room for a link that passes, on either side of its line.
const PASS: i32 = 3;
/// Between two items, and where a link passes.
const ITEM_GAP: i32 = 20;
const PASS_GAP: i32 = 8;
/// Between an item and a link that passes.
const MIXED_GAP: i32 = 12;
/// Free line on both sides of a label.
pub(super) const LABEL_MARGIN: i32 = 6;

#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub(super) layer: usize,
    /// None where a link passes.
    pub(super) item: Option<usize>,
    pub(super) along: i32,
    pub(super) before: i32,
    pub(super) after: i32,
    /// Part of a link that goes back.
    pub(super) lane: bool,
}

/// The neighbour of a cell in the layer beside it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Neighbour {
    pub(super) cell: usize,
    /// Where the right one has to be from the left one for a straight line.
    pub(super) offset: i32,
    /// Through a link of the other kind, which need not be straight.
    pub(super) side: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Grid {
    pub(super) cells: Vec<Cell>,
    /// Cells in order. Lanes are last.
    pub(super) layers: Vec<Vec<usize>>,
    /// Place of each cell in its layer.
    pub(super) at: Vec<usize>,
    pub(super) lefts: Vec<Vec<Neighbour>>,
    pub(super) rights: Vec<Vec<Neighbour>>,
    /// The cells of each link, from its start to its end.
    pub(super) chains: Vec<Vec<usize>>,
    pub(super) back: Vec<bool>,
}

impl Grid {
    pub(super) fn new(level: &Level, back: &[bool], layers: &[usize]) -> Grid {
        let mut grid = Grid { back: back.to_vec(), ..Grid::default() };
        for (at, (item, layer)) in level.items.iter().zip(layers).enumerate() {
            let (along, before, after) = (item.along, item.before, item.after);
            grid.add(Cell { layer: *layer, item: Some(at), along, before, after, lane: false });
        }
        grid.chains = vec![Vec::new(); level.links.len()];
        // Short lanes first: they are the inner ones where several go round. Links of the other kind after those that the
        // flow takes, so that it goes straight on above what is done about errors.
        let mut links: Vec<usize> = (0..level.links.len()).collect();
        let span = |link: usize| layers[level.links[link].from].abs_diff(layers[level.links[link].to]);
        links.sort_by_key(|link| {
            let lane = if back[*link] { span(*link) } else { 0 };
            (back[*link], lane, level.links[*link].side, *link)
        });
        for link in links {
            grid.thread(level, link, layers);
        }
        grid.begin();
        grid
    }

    fn add(&mut self, cell: Cell) -> usize {
        self.cells.push(cell);
        self.lefts.push(Vec::new());
        self.rights.push(Vec::new());
        self.at.push(0);
        if self.layers.len() <= cell.layer {
            self.layers.resize(cell.layer + 1, Vec::new());
        }
        self.layers[cell.layer].push(self.cells.len() - 1);
        self.cells.len() - 1
    }

    /// Leads a link through the layers between its ends.
    fn thread(&mut self, level: &Level, id: usize, layers: &[usize]) {
        let link = level.links[id];
        let (first, last, lane) = match self.back[id] {
            false => (layers[link.from] + 1, layers[link.to], false),
            true => (layers[link.to], layers[link.from] + 1, true),
        };
        let mut passes: Vec<usize> = (first..last)
            .map(|layer| self.add(Cell { layer, item: None, along: 0, before: PASS, after: PASS, lane }))
            .collect();
        if lane {
            passes.reverse();
        }
        if let (Some((along, across)), Some(cell)) = (link.label, passes.first()) {
            let cell = &mut self.cells[*cell];
            cell.along = along + 2 * LABEL_MARGIN;
            (cell.before, cell.after) = (across / 2, across - across / 2);
        }
        if lane {
            passes.windows(2).for_each(|pair| self.join(pair[1], pair[0], 0, false));
        }
        let chain: Vec<usize> = std::iter::once(link.from).chain(passes).chain([link.to]).collect();
        if !lane {
            let from = level.items[link.from];
            let exit = if link.side { from.side } else { from.exit };
            for (at, pair) in chain.windows(2).enumerate() {
                let (exit, side) = if at == 0 { (exit, link.side) } else { (0, false) };
                self.join(pair[0], pair[1], exit, side);
            }
        }
        self.chains[id] = chain;
    }

    fn join(&mut self, left: usize, right: usize, offset: i32, side: bool) {
        self.rights[left].push(Neighbour { cell: right, offset, side });
        self.lefts[right].push(Neighbour { cell: left, offset, side });
    }

    /// The first order: below each cell what it leads to, in the order of its links.
    fn begin(&mut self) {
        for layer in 0..self.layers.len() {
            let mut cells = std::mem::take(&mut self.layers[layer]);
            let key = |cell: usize| {
                let from = self.lefts[cell].iter().map(|left| {
                    let nth = self.rights[left.cell].iter().position(|right| right.cell == cell);
                    (self.at[left.cell], nth.unwrap_or(0))
                });
                (self.cells[cell].lane, from.min().unwrap_or((usize::MAX, 0)), cell)
            };
            let keys: Vec<_> = cells.iter().map(|cell| (key(*cell), *cell)).collect();
            let mut keys = keys;
            // Lanes keep the order in which they were led.
            keys.sort_by_key(|((lane, from, cell), _)| (*lane, if *lane { (0, 0) } else { *from }, *cell));
            cells.clear();
            cells.extend(keys.into_iter().map(|(_, cell)| cell));
            self.layers[layer] = cells;
            self.number(layer);
        }
    }

    /// Notes the places of a layer's cells.
    pub(super) fn number(&mut self, layer: usize) {
        for (at, cell) in self.layers[layer].iter().enumerate() {
            self.at[*cell] = at;
        }
    }

    /// The least distance of the anchors of two cells, `second` following `first` in their layer.
    pub(super) fn distance(&self, first: usize, second: usize) -> i32 {
        let (first, second) = (&self.cells[first], &self.cells[second]);
        let gap = match (first.item, second.item) {
            (Some(_), Some(_)) => ITEM_GAP,
            (None, None) => PASS_GAP,
            _ => MIXED_GAP,
        };
        first.after + gap + second.before
    }

    pub(super) fn passes(&self, cell: usize) -> bool {
        self.cells[cell].item.is_none()
    }
}
