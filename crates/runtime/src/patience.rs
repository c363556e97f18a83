//! Waiting for a store that does not answer: a little longer each time, and no longer than the node lives.

use crate::engine::Engine;
use machine::time::Span;

const FIRST: Span = Span::from_millis(5);
const LONGEST: Span = Span::from_secs(5);

/// How long the next wait is.
pub(crate) struct Patience(Span);

impl Patience {
    pub(crate) fn new() -> Patience {
        Patience(FIRST)
    }

    /// Waits before the next try. `false` if the node stops: then there is none.
    pub(crate) async fn wait(&mut self, engine: &Engine) -> bool {
        let until = engine.now().after(self.0);
        self.0 = Span(self.0.0 * 2).min(LONGEST);
        let stopping = &engine.tasks.stopping;
        tokio::select! {
            biased;
            () = stopping.cancelled() => {}
            () = engine.clock.sleep_until(until) => {}
        }
        !stopping.is_cancelled()
    }
}
