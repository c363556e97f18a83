//! Which links go back.
//!
//! A link goes back if it is part of a cycle and leads to an item that stands earlier in the document, or to its own
//! start. Without these links there is no cycle: within a strongly connected part all others lead further down the
//! document.

use super::level::Level;

/// For each link, whether it goes back.
pub(super) fn back(level: &Level) -> Vec<bool> {
    let part = parts(level);
    let goes_back = |from: usize, to: usize| part[from] == part[to] && to <= from;
    level.links.iter().map(|link| goes_back(link.from, link.to)).collect()
}

/// The strongly connected part of each item (Tarjan's algorithm, without recursion).
fn parts(level: &Level) -> Vec<usize> {
    let count = level.items.len();
    let mut next = vec![Vec::new(); count];
    for link in &level.links {
        next[link.from].push(link.to);
    }
    let mut walk = Walk {
        index: vec![usize::MAX; count],
        low: vec![0; count],
        part: vec![usize::MAX; count],
        open: Vec::new(),
        count: 0,
        parts: 0,
    };
    for item in 0..count {
        if walk.index[item] == usize::MAX {
            walk.from(item, &next);
        }
    }
    walk.part
}

struct Walk {
    index: Vec<usize>,
    low: Vec<usize>,
    part: Vec<usize>,
    /// Seen, and in no part yet.
    open: Vec<usize>,
    count: usize,
    parts: usize,
}

impl Walk {
    fn from(&mut self, start: usize, next: &[Vec<usize>]) {
        let mut stack = vec![(start, 0)];
        self.enter(start);
        while let Some((item, at)) = stack.pop() {
            if let Some(to) = next[item].get(at).copied() {
                stack.push((item, at + 1));
                if self.index[to] == usize::MAX {
                    self.enter(to);
                    stack.push((to, 0));
                } else if self.part[to] == usize::MAX {
                    self.low[item] = self.low[item].min(self.index[to]);
                }
                continue;
            }
            self.leave(item);
            if let Some((above, _)) = stack.last() {
                self.low[*above] = self.low[*above].min(self.low[item]);
            }
        }
    }

    fn enter(&mut self, item: usize) {
        (self.index[item], self.low[item]) = (self.count, self.count);
        self.count += 1;
        self.open.push(item);
    }

    fn leave(&mut self, item: usize) {
        if self.low[item] != self.index[item] {
            return;
        }
        while let Some(member) = self.open.pop() {
            self.part[member] = self.parts;
            if member == item {
                break;
            }
        }
        self.parts += 1;
    }
}
