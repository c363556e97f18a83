//! Hints between the nodes of one test, and what becomes of them on the way: chosen by whoever runs the tests, because
//! nothing may depend on it (B32).

use crate::time::pass;
use async_trait::async_trait;
use parking_lot::Mutex;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use store::{Hint, Hints, NoHints};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// One of [`Fate::WORDS`]; hints are off unless it is set.
pub const VARIABLE: &str = "WINDLASS_TEST_HINTS";

/// How long a late hint is on its way: longer than anything that follows from what it tells of.
const LATE: Duration = Duration::from_secs(5);

/// What becomes of hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nobody tells and nobody hears.
    Off,
    Whole,
    /// Every second one is lost.
    Lost,
    /// Each comes twice, and once more after a while, to whoever told it as well.
    Doubled,
    /// Each comes after a while, to whoever told it as well.
    Late,
}

impl Fate {
    pub const WORDS: [(&'static str, Fate); 5] = [
        ("off", Fate::Off),
        ("whole", Fate::Whole),
        ("lost", Fate::Lost),
        ("doubled", Fate::Doubled),
        ("late", Fate::Late),
    ];

    /// What [`VARIABLE`] asks for.
    pub fn chosen() -> Fate {
        let word = std::env::var(VARIABLE).unwrap_or_default();
        let found = Fate::WORDS.into_iter().find(|(known, _)| *known == word);
        match found {
            Some((_, fate)) => fate,
            None if word.is_empty() => Fate::Off,
            None => panic!("{VARIABLE} is off, whole, lost, doubled or late, not {word:?}"),
        }
    }
}

/// The nodes that hear each other.
pub struct Circle {
    fate: Fate,
    members: Arc<Mutex<Vec<UnboundedSender<Hint>>>>,
}

struct Member {
    fate: Fate,
    /// Where this one is in `members`.
    place: usize,
    members: Arc<Mutex<Vec<UnboundedSender<Hint>>>>,
    told: AtomicU64,
    heard: tokio::sync::Mutex<UnboundedReceiver<Hint>>,
}

impl Circle {
    pub fn new(fate: Fate) -> Circle {
        Circle { fate, members: Arc::default() }
    }

    /// The hints of one more node.
    pub fn join(&self) -> Arc<dyn Hints> {
        if self.fate == Fate::Off {
            return Arc::new(NoHints);
        }
        let (tell, heard) = unbounded_channel();
        let mut members = self.members.lock();
        members.push(tell);
        Arc::new(Member {
            fate: self.fate,
            place: members.len() - 1,
            members: self.members.clone(),
            told: AtomicU64::new(0),
            heard: tokio::sync::Mutex::new(heard),
        })
    }
}

impl Member {
    /// To all but one.
    fn send(members: &Mutex<Vec<UnboundedSender<Hint>>>, but: Option<usize>, hint: &Hint) {
        for (at, other) in members.lock().iter().enumerate() {
            if Some(at) != but {
                // One that is gone hears nothing.
                let _ = other.send(hint.clone());
            }
        }
    }
}

#[async_trait]
impl Hints for Member {
    fn tell(&self, hint: Hint) {
        let count = self.told.fetch_add(1, Ordering::Relaxed);
        let (now, later) = match self.fate {
            Fate::Off => (0, false),
            Fate::Whole => (1, false),
            Fate::Lost => (1 - count % 2, false),
            Fate::Doubled => (2, true),
            Fate::Late => (0, true),
        };
        for _ in 0..now {
            Member::send(&self.members, Some(self.place), &hint);
        }
        if later {
            let members = self.members.clone();
            tokio::spawn(async move {
                pass(LATE).await;
                Member::send(&members, None, &hint);
            });
        }
    }

    async fn heard(&self) -> Hint {
        match self.heard.lock().await.recv().await {
            Some(hint) => hint,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    /// How many of `told` hints the other node hears at once, and how many after a while.
    async fn heard(fate: Fate, told: u32) -> (u32, u32) {
        let circle = Circle::new(fate);
        let (one, other) = (circle.join(), circle.join());
        for _ in 0..told {
            one.tell(Hint::queues());
        }
        let count = |of: &Arc<dyn Hints>| {
            let mut count = 0;
            while of.heard().now_or_never().is_some() {
                count += 1;
            }
            count
        };
        let at_once = count(&other);
        assert_eq!(count(&one), 0, "nobody hears itself at once");
        pass(LATE * 2).await;
        let later = count(&other);
        assert_eq!(count(&one), later);
        (at_once, later)
    }

    #[tokio::test(start_paused = true)]
    async fn each_fate_is_what_it_is_called() {
        assert_eq!(heard(Fate::Off, 4).await, (0, 0));
        assert_eq!(heard(Fate::Whole, 4).await, (4, 0));
        assert_eq!(heard(Fate::Lost, 4).await, (2, 0));
        assert_eq!(heard(Fate::Doubled, 4).await, (8, 4));
        assert_eq!(heard(Fate::Late, 4).await, (0, 4));
    }
}
