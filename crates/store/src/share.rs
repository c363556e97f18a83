//! How the rows of one claim are shared out among the tenants that have something due.

use machine::{TenantId, Time};
use std::collections::{BTreeMap, HashMap};

/// What a tenant's backlog looks like to a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) tenant: TenantId,
    pub(crate) oldest: Time,
    /// A tenant of weight 2 is given twice as much as one of weight 1.
    pub(crate) weight: u32,
}

/// How many rows each tenant may have of `limit`, in the order in which they are taken: who has waited longest comes
/// first. Everybody who is named may have one; `full` are not named, nor is who has nothing due at `now`.
pub(crate) fn shares(
    mut waiting: Vec<Waiting>,
    now: Time,
    limit: usize,
    full: &[TenantId],
) -> Vec<(TenantId, usize)> {
    waiting.retain(|one| one.oldest <= now && !full.contains(&one.tenant));
    waiting.sort_by(|a, b| (a.oldest, &a.tenant).cmp(&(b.oldest, &b.tenant)));
    let total: u64 = waiting.iter().map(|one| u64::from(one.weight.max(1))).sum();
    let share = |weight: u32| (limit as u64 * u64::from(weight.max(1))).div_ceil(total.max(1)) as usize;
    waiting.into_iter().map(|one| (one.tenant, share(one.weight))).collect()
}

/// The same for what waits for several workers: a tenant's share is split evenly over the workers that it has something
/// due for.
pub(crate) fn of_workers<'w>(
    waiting: Vec<(&'w str, Waiting)>,
    now: Time,
    limit: usize,
    full: &[TenantId],
) -> Vec<(&'w str, TenantId, usize)> {
    let mut tenants = BTreeMap::<TenantId, (Waiting, Vec<&'w str>)>::new();
    for (worker, one) in waiting.into_iter().filter(|(_, one)| one.oldest <= now) {
        let (of_tenant, workers) =
            tenants.entry(one.tenant.clone()).or_insert_with(|| (one.clone(), Vec::new()));
        of_tenant.oldest = of_tenant.oldest.min(one.oldest);
        workers.push(worker);
    }
    let shares = shares(tenants.values().map(|(one, _)| one.clone()).collect(), now, limit, full);
    let of_tenant = |(tenant, share): (TenantId, usize)| {
        let workers = &tenants[&tenant].1;
        let share = share.div_ceil(workers.len());
        workers.iter().map(move |worker| (*worker, tenant.clone(), share)).collect::<Vec<_>>()
    };
    shares.into_iter().flat_map(of_tenant).collect()
}

/// Whether somebody took all of its share, and so may have left something behind.
pub(crate) fn is_exhausted<'a>(
    shares: &[(TenantId, usize)],
    claimed: impl Iterator<Item = &'a TenantId>,
) -> bool {
    let mut taken = HashMap::<&TenantId, usize>::new();
    claimed.for_each(|tenant| *taken.entry(tenant).or_default() += 1);
    shares.iter().any(|(tenant, share)| taken.get(tenant).is_some_and(|taken| taken >= share))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(waiting: &[(&str, i64, u32)], limit: usize, full: &[&str], expected: &[(&str, usize)]) {
        let tenant = |name: &str| TenantId::new(name).expect("valid");
        let waiting = waiting
            .iter()
            .map(|(name, oldest, weight)| Waiting {
                tenant: tenant(name),
                oldest: Time(*oldest),
                weight: *weight,
            })
            .collect();
        let full: Vec<TenantId> = full.iter().map(|name| tenant(name)).collect();
        let found = shares(waiting, Time(100), limit, &full);
        let expected: Vec<_> = expected.iter().map(|(name, share)| (tenant(name), *share)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn rows_are_shared_by_weight_among_those_who_wait() {
        check(&[], 10, &[], &[]);
        check(&[("a", 1, 1)], 10, &[], &[("a", 10)]);
        check(&[("a", 5, 1), ("b", 2, 1)], 10, &[], &[("b", 5), ("a", 5)]);
        check(&[("a", 1, 3), ("b", 2, 1)], 8, &[], &[("a", 6), ("b", 2)]);
        check(&[("a", 1, 1), ("b", 2, 1), ("late", 101, 1)], 4, &["a"], &[("b", 4)]);
        check(&[("a", 1, 1000), ("b", 2, 1)], 10, &[], &[("a", 10), ("b", 1)]);
        check(&[("a", 1, 0), ("b", 2, 1), ("c", 3, 1)], 1, &[], &[("a", 1), ("b", 1), ("c", 1)]);
    }

    #[test]
    fn a_tenants_share_is_split_over_its_workers() {
        let waiting = |worker: &'static str, name: &str, oldest: i64| {
            let tenant = TenantId::new(name).expect("valid");
            (worker, Waiting { tenant, oldest: Time(oldest), weight: 1 })
        };
        let all = vec![
            waiting("mail", "a", 5),
            waiting("mail", "b", 3),
            waiting("ship", "a", 1),
            waiting("late", "a", 101),
        ];
        let found = of_workers(all, Time(100), 8, &[]);
        let found: Vec<(&str, &str, usize)> =
            found.iter().map(|(worker, tenant, share)| (*worker, tenant.as_str(), *share)).collect();
        assert_eq!(found, [("mail", "a", 2), ("ship", "a", 2), ("mail", "b", 4)]);
    }

    #[test]
    fn who_took_all_of_its_share_may_have_left_something() {
        let tenant = |name: &str| TenantId::new(name).expect("valid");
        let shares = [(tenant("a"), 2), (tenant("b"), 1)];
        let exhausted = |claimed: &[&str]| {
            let claimed: Vec<TenantId> = claimed.iter().map(|name| tenant(name)).collect();
            is_exhausted(&shares, claimed.iter())
        };
        assert!(!exhausted(&[]) && !exhausted(&["a"]));
        assert!(exhausted(&["a", "a"]) && exhausted(&["a", "b"]));
    }
}
