//! Whether a tenant may begin something new. Each node counts for itself; how many instances are open the store knows, and
//! is asked at most once a second.

use super::{Known, Standing};
use crate::{api::Refusal, bucket::Bucket, engine::Engine, refusal};
use machine::{TenantId, Time, time::Span};

/// How long a count of open instances is good for.
const COUNT_GOOD_FOR: Span = Span::from_secs(1);
/// How long whoever has too many open instances is asked to stay away.
const FULL_WAIT: Span = Span::from_secs(1);
/// How long whoever may begin nothing at all is asked to stay away.
const CLOSED_WAIT: Span = Span::from_secs(30);

/// What one node has let in for a tenant.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    starts: Option<Bucket>,
    degraded: Option<Bucket>,
    /// Open instances when they were counted, and what was started here since.
    open: Option<(Time, u64)>,
}

impl Admission {
    /// Takes `count` of what fills at `per_second`.
    fn take(bucket: &mut Option<Bucket>, per_second: u32, count: usize, now: Time) -> Result<(), Span> {
        let rate = f64::from(per_second);
        let bucket = bucket.get_or_insert_with(|| Bucket::new(rate, now));
        bucket.pour(rate, now);
        bucket.take(count as f64, now)
    }

    /// Counts one more open instance. `None` if nobody knows how many there are.
    fn open_one(&mut self, open_max: u32, now: Time) -> Option<bool> {
        let (at, open) = self.open.as_mut()?;
        if now.since(*at) >= COUNT_GOOD_FOR {
            return None;
        }
        let has_room = *open < u64::from(open_max);
        *open += u64::from(has_room);
        Some(has_room)
    }
}

/// Whether the tenant may write at all.
pub(crate) fn is_writable(tenant: &TenantId, standing: Standing) -> Result<(), Refusal> {
    let (code, detail) = match standing {
        Standing::Active | Standing::Degraded => return Ok(()),
        Standing::Suspended => ("tenant-suspended", format!("tenant {tenant} is suspended")),
        Standing::Deleted => ("tenant-deleted", format!("tenant {tenant} is deleted")),
    };
    let detail = format!("{detail}: it can be read, and nothing can be changed");
    Err(Refusal::Parked { code, detail })
}

/// Whether something new may begin while the tenant is degraded.
fn while_degraded(engine: &Engine, tenant: &TenantId, known: Known, count: usize) -> Result<(), Refusal> {
    if known.standing != Standing::Degraded {
        return Ok(());
    }
    let per_second = known.limits.degraded_per_second;
    let mut all = engine.tenants.admission.lock();
    let admission = all.entry(tenant.clone()).or_default();
    Admission::take(&mut admission.degraded, per_second, count, engine.now()).map_err(|wait| {
        let detail = match per_second {
            0 => format!("tenant {tenant} is degraded: nothing new begins, what is under way goes on"),
            rate => format!("tenant {tenant} is degraded: {rate} starts and events in a second begin"),
        };
        Refusal::Limited { code: "tenant-degraded", detail, after: wait.min(CLOSED_WAIT) }
    })
}

/// Whether so many events may be published.
pub(crate) fn admit_publish(engine: &Engine, tenant: &TenantId, count: usize) -> Result<(), Refusal> {
    let Some(known) = engine.tenants.known(tenant) else { return Ok(()) };
    is_writable(tenant, known.standing)?;
    while_degraded(engine, tenant, known, count)
}

/// Whether an instance may be started.
pub(crate) async fn admit_start(engine: &Engine, tenant: &TenantId) -> Result<(), Refusal> {
    let Some(known) = engine.tenants.known(tenant) else { return Ok(()) };
    is_writable(tenant, known.standing)?;
    while_degraded(engine, tenant, known, 1)?;
    let (open_max, per_second) = (known.limits.open_max, known.limits.starts_per_second);
    if open_max > 0 && !has_room(engine, tenant, open_max).await? {
        let detail =
            format!("tenant {tenant} has {open_max} instances that have not ended, which is its limit");
        return Err(Refusal::Limited { code: "too-many-open", detail, after: FULL_WAIT });
    }
    if per_second == 0 {
        return Ok(());
    }
    let mut all = engine.tenants.admission.lock();
    let admission = all.entry(tenant.clone()).or_default();
    Admission::take(&mut admission.starts, per_second, 1, engine.now()).map_err(|after| {
        let detail = format!("tenant {tenant} may start {per_second} instances in a second");
        Refusal::Limited { code: "too-many-starts", detail, after }
    })
}

/// Whether one more instance may be open; counts it if so.
async fn has_room(engine: &Engine, tenant: &TenantId, open_max: u32) -> Result<bool, Refusal> {
    let one_more = |now: Time| {
        let mut all = engine.tenants.admission.lock();
        all.entry(tenant.clone()).or_default().open_one(open_max, now)
    };
    if let Some(has_room) = one_more(engine.now()) {
        return Ok(has_room);
    }
    let open = engine.store.open_instances(tenant, open_max.into()).await.map_err(refusal::of_store)?;
    let now = engine.now();
    engine.tenants.admission.lock().entry(tenant.clone()).or_default().open = Some((now, open));
    Ok(one_more(now).unwrap_or(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_good_for_a_second_and_grows_by_what_is_started() {
        let mut admission = Admission::default();
        assert_eq!(admission.open_one(2, Time(0)), None, "nobody has counted");
        admission.open = Some((Time(0), 1));
        assert_eq!(admission.open_one(2, Time(10)), Some(true));
        assert_eq!(admission.open_one(2, Time(20)), Some(false), "one was there, one was started");
        assert_eq!(admission.open_one(3, Time(30)), Some(true), "a limit may be raised");
        assert_eq!(admission.open_one(9, Time(COUNT_GOOD_FOR.0)), None, "too old");
    }

    #[test]
    fn who_is_parked_is_told_how() {
        let tenant = TenantId::new("acme").expect("valid");
        for (standing, expected) in [
            (Standing::Active, None),
            (Standing::Degraded, None),
            (Standing::Suspended, Some("tenant-suspended")),
            (Standing::Deleted, Some("tenant-deleted")),
        ] {
            let found = match is_writable(&tenant, standing) {
                Err(Refusal::Parked { code, .. }) => Some(code),
                _ => None,
            };
            assert_eq!(found, expected);
        }
    }
}
