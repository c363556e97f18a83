//! Room for a few at a time. Those who wait are let in tenant by tenant, so that a tenant with a thousand in the queue
//! holds up another one's first by one turn and not by a thousand.

use machine::TenantId;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};
use tokio::sync::oneshot;

/// A number of places.
pub(crate) struct Fair {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Mutex<Queue>,
    /// How many of one tenant may wait.
    waiting_max: usize,
}

struct Queue {
    free: usize,
    waiting: BTreeMap<TenantId, VecDeque<oneshot::Sender<Place>>>,
    /// The tenants in `waiting`, in the order they are served.
    ring: VecDeque<TenantId>,
}

/// One place; free again when dropped.
pub(crate) struct Place {
    shared: Option<Arc<Shared>>,
}

/// As many of this tenant wait as may.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Crowded;

impl Fair {
    pub(crate) fn new(places: usize, waiting_max: usize) -> Fair {
        let queue = Queue { free: places.max(1), waiting: BTreeMap::new(), ring: VecDeque::new() };
        Fair { shared: Arc::new(Shared { queue: Mutex::new(queue), waiting_max }) }
    }

    /// Waits for a place. Dropping the future gives up the turn.
    pub(crate) async fn enter(&self, tenant: &TenantId) -> Result<Place, Crowded> {
        let called = {
            let mut queue = self.shared.queue.lock();
            if queue.free > 0 {
                queue.free -= 1;
                return Ok(Place { shared: Some(self.shared.clone()) });
            }
            let (call, called) = oneshot::channel();
            match queue.waiting.get_mut(tenant) {
                None => {
                    queue.ring.push_back(tenant.clone());
                    queue.waiting.insert(tenant.clone(), VecDeque::from([call]));
                }
                Some(waiting) => {
                    if waiting.len() >= self.shared.waiting_max {
                        // Who went away has left an entry behind.
                        waiting.retain(|caller| !caller.is_closed());
                    }
                    if waiting.len() >= self.shared.waiting_max {
                        return Err(Crowded);
                    }
                    waiting.push_back(call);
                }
            }
            called
        };
        // The queue lives as long as `self`, and calls everybody in the end.
        called.await.map_err(|_| Crowded)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(shared) = self.shared.take() else { return };
        let mut queue = shared.queue.lock();
        while let Some(tenant) = queue.ring.pop_front() {
            let Some(waiting) = queue.waiting.get_mut(&tenant) else { continue };
            let next = waiting.pop_front();
            match waiting.is_empty() {
                true => drop(queue.waiting.remove(&tenant)),
                false => queue.ring.push_back(tenant),
            }
            let Some(next) = next else { continue };
            match next.send(Place { shared: Some(shared.clone()) }) {
                Ok(()) => return,
                // It went away; the place is still here.
                Err(mut place) => drop(place.shared.take()),
            }
        }
        queue.free += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{FutureExt, future::BoxFuture};

    fn tenant(name: &str) -> TenantId {
        TenantId::new(name).unwrap()
    }

    #[test]
    fn tenants_take_turns() {
        let fair = Arc::new(Fair::new(1, 10));
        let mut place = fair.enter(&tenant("a")).now_or_never().unwrap().ok();
        let mut waiting: Vec<(&str, BoxFuture<'_, Result<Place, Crowded>>)> = Vec::new();
        for name in ["a", "a", "a", "b"] {
            let fair = fair.clone();
            let mut entering = async move { fair.enter(&tenant(name)).await }.boxed();
            assert!((&mut entering).now_or_never().is_none());
            waiting.push((name, entering));
        }
        let mut order = Vec::new();
        while !waiting.is_empty() {
            drop(place.take());
            let at = waiting.iter_mut().position(|(_, entering)| {
                place = entering.now_or_never().map(|entered| entered.unwrap());
                place.is_some()
            });
            order.push(waiting.remove(at.expect("somebody is let in")).0);
        }
        assert_eq!(order, ["a", "b", "a", "a"]);
    }

    #[test]
    fn who_goes_away_takes_no_place_along() {
        let fair = Fair::new(1, 1);
        let place = fair.enter(&tenant("a")).now_or_never().unwrap().ok();
        let one = tenant("b");
        let mut gone = Box::pin(fair.enter(&one));
        assert!((&mut gone).now_or_never().is_none());
        assert_eq!(fair.enter(&one).now_or_never().unwrap().err(), Some(Crowded), "one may wait");
        drop(gone);
        drop(place);
        assert!(fair.enter(&one).now_or_never().unwrap().is_ok());
    }
}
