//! How much of each pixel is covered, from the edges of polygons.

/// Changes of the covered share from one pixel of a row to the next.
pub(super) struct Area {
    left: f32,
    top: f32,
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) stride: usize,
    pub(super) shares: Vec<f32>,
}

impl Area {
    pub(super) fn new(left: usize, top: usize, width: usize, height: usize) -> Area {
        let stride = width + 2;
        let shares = vec![0.0; stride * height];
        Area { left: left as f32, top: top as f32, width, height, stride, shares }
    }

    /// Adds what an edge covers to its right.
    pub(super) fn edge(&mut self, from: (f32, f32), to: (f32, f32)) {
        let (from, to) = ((from.0 - self.left, from.1 - self.top), (to.0 - self.left, to.1 - self.top));
        if from.1 == to.1 {
            return;
        }
        let (sign, upper, lower) = if from.1 < to.1 { (1.0, from, to) } else { (-1.0, to, from) };
        let slope = (lower.0 - upper.0) / (lower.1 - upper.1);
        let first = upper.1.max(0.0);
        let last = lower.1.min(self.height as f32);
        let mut y = first;
        while y < last {
            let row = y as usize;
            let next = ((row + 1) as f32).min(last);
            let x0 = upper.0 + (y - upper.1) * slope;
            let x1 = upper.0 + (next - upper.1) * slope;
            self.span(row, (x0.min(x1), x0.max(x1)), sign * (next - y));
            y = next;
        }
    }

    /// Spreads the height of a piece of an edge over the pixels of one row that it passes.
    fn span(&mut self, row: usize, (low, high): (f32, f32), height: f32) {
        let end = self.width as f32;
        let (low, high) = (low.clamp(0.0, end), high.clamp(0.0, end));
        let row = row * self.stride;
        let (first, last) = (low as usize, high as usize);
        if first == last {
            let middle = (low + high) / 2.0 - first as f32;
            self.shares[row + first] += height * (1.0 - middle);
            self.shares[row + first + 1] += height * middle;
            return;
        }
        // The share of the height that each pixel's piece has, and how much of the pixel lies right of it.
        let whole = high - low;
        for pixel in first..=last {
            let (start, stop) = (low.max(pixel as f32), high.min((pixel + 1) as f32));
            let part = height * (stop - start) / whole;
            let middle = (start + stop) / 2.0 - pixel as f32;
            self.shares[row + pixel] += part * (1.0 - middle);
            self.shares[row + pixel + 1] += part * middle;
        }
    }
}
