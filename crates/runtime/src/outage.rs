//! Says once that something fails and once that it works again: a store that is away for an hour is two lines, not one for
//! every try.

use std::fmt::Display;

/// What a pump does over and over.
pub(crate) struct Outage {
    what: &'static str,
    failing: bool,
}

impl Outage {
    pub(crate) fn new(what: &'static str) -> Outage {
        Outage { what, failing: false }
    }

    /// It failed. Answers whether that is news.
    pub(crate) fn failed(&mut self, error: &dyn Display) -> bool {
        let is_news = !std::mem::replace(&mut self.failing, true);
        match is_news {
            true => tracing::warn!(%error, "{} failed; it is tried again until it works", self.what),
            false => tracing::debug!(%error, "{} failed again", self.what),
        }
        is_news
    }

    /// It worked. Answers whether that is news.
    pub(crate) fn worked(&mut self) -> bool {
        let is_news = std::mem::take(&mut self.failing);
        if is_news {
            tracing::info!("{} works again", self.what);
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_change_is_news() {
        let mut outage = Outage::new("looking");
        assert!(!outage.worked());
        assert_eq!([(); 3].map(|()| outage.failed(&"away")), [true, false, false]);
        assert_eq!([(); 2].map(|()| outage.worked()), [true, false]);
        assert!(outage.failed(&"away again"));
    }
}
