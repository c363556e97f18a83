//! Which layer each item is in.
//!
//! Longest paths first, so that every link leads to a later layer; a link with a label skips one, where the label goes.
//! Then items move within what their neighbours allow, so that links get short.

use super::{
    Effort,
    level::{Level, Pin},
};
use std::collections::BTreeSet;

/// The layer of each item, from 0 without a gap at the start.
pub(super) fn layers(level: &Level, back: &[bool], effort: Effort) -> Vec<usize> {
    let net = Net::new(level, back);
    let order = net.order();
    let mut layer = vec![0; level.items.len()];
    for item in &order {
        for (to, length) in &net.next[*item] {
            layer[*to] = layer[*to].max(layer[*item] + length);
        }
    }
    let rounds = match effort {
        Effort::Draft => 1,
        Effort::Balanced => 4,
        Effort::Best => 16,
    };
    for _ in 0..rounds {
        if !net.tighten(level, &order, &mut layer) {
            break;
        }
    }
    let last = layer.iter().copied().max().unwrap_or(0);
    for (item, layer) in level.items.iter().zip(&mut layer) {
        match item.pin {
            Pin::In => *layer = 0,
            Pin::Out => *layer = last,
            Pin::Free => {}
        }
    }
    layer
}

/// Links that go forward, with their least lengths.
struct Net {
    next: Vec<Vec<(usize, usize)>>,
    previous: Vec<Vec<(usize, usize)>>,
}

impl Net {
    fn new(level: &Level, back: &[bool]) -> Net {
        let count = level.items.len();
        let mut net = Net { next: vec![Vec::new(); count], previous: vec![Vec::new(); count] };
        for (link, back) in level.links.iter().zip(back) {
            if !back {
                let length = if link.label.is_some() { 2 } else { 1 };
                net.next[link.from].push((link.to, length));
                net.previous[link.to].push((link.from, length));
            }
        }
        net
    }

    /// Items such that every link leads onwards, otherwise as in the document.
    fn order(&self) -> Vec<usize> {
        let mut missing: Vec<usize> = self.previous.iter().map(Vec::len).collect();
        let mut ready: BTreeSet<usize> = (0..missing.len()).filter(|item| missing[*item] == 0).collect();
        let mut order = Vec::with_capacity(missing.len());
        while let Some(item) = ready.pop_first() {
            order.push(item);
            for (to, _) in &self.next[item] {
                missing[*to] -= 1;
                if missing[*to] == 0 {
                    ready.insert(*to);
                }
            }
        }
        order
    }

    /// Moves items towards the side that more of their links are on; true if any moved.
    fn tighten(&self, level: &Level, order: &[usize], layer: &mut [usize]) -> bool {
        let mut moved = false;
        for item in order.iter().rev().copied() {
            let (ins, outs) = (self.previous[item].len(), self.next[item].len());
            let latest = self.next[item].iter().map(|(to, length)| layer[*to] - length).min();
            // What nothing leads to (a target of jumps back, say) goes to where it leads.
            if let Some(latest) = latest
                && level.items[item].pin == Pin::Free
                && outs > ins
                && latest > layer[item]
            {
                layer[item] = latest;
                moved = true;
            }
        }
        moved
    }
}
