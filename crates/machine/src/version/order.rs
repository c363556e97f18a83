//! Which elements of a list changed places: those outside the longest run that kept its order.

/// For each element (its position before, in the order it has now): true if it was moved.
pub(super) fn moved(before: &[usize]) -> Vec<bool> {
    // `tails[n]` is where the best run of length n + 1 ends; `previous` leads back along it.
    let mut tails: Vec<usize> = Vec::new();
    let mut previous: Vec<Option<usize>> = Vec::with_capacity(before.len());
    for (at, position) in before.iter().enumerate() {
        let length = tails.partition_point(|tail| before[*tail] < *position);
        previous.push(length.checked_sub(1).map(|shorter| tails[shorter]));
        match tails.get_mut(length) {
            Some(tail) => *tail = at,
            None => tails.push(at),
        }
    }
    let mut moved = vec![true; before.len()];
    let mut kept = tails.last().copied();
    while let Some(at) = kept {
        moved[at] = false;
        kept = previous[at];
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::moved;

    #[test]
    fn what_is_outside_the_longest_run_moved() {
        assert_eq!(moved(&[0, 1, 2]), [false, false, false]);
        assert_eq!(moved(&[2, 0, 1]), [true, false, false]);
        assert_eq!(moved(&[0, 3, 1, 2]), [false, true, false, false]);
        assert_eq!(moved(&[]), Vec::<bool>::new());
        assert_eq!(moved(&[1, 0]).iter().filter(|moved| **moved).count(), 1);
    }
}
