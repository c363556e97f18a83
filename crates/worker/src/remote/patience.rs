//! How long to wait before the next try: up to twice as long each time, and anywhere below, so that many workers do not
//! come back together.

use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(5);

pub(super) struct Patience {
    ceiling: Duration,
    chance: SmallRng,
}

impl Patience {
    pub(super) fn new() -> Patience {
        Patience { ceiling: FIRST, chance: SmallRng::from_os_rng() }
    }

    /// The next wait, after what the server asked for.
    pub(super) fn next(&mut self, at_least: Duration) -> Duration {
        let wait = at_least + self.ceiling.mul_f64(self.chance.random::<f64>());
        self.ceiling = (self.ceiling * 2).min(LONGEST);
        wait
    }
}
