//! Orders version texts as semantic versions: numbers by value, a pre-release before its release, build ignored.
//! A text that is no semantic version comes before every one that is.

use std::cmp::Ordering;

/// Compares two versions; texts of equal precedence compare as text, so that the order is total.
pub(crate) fn compare(a: &str, b: &str) -> Ordering {
    match (parse(a), parse(b)) {
        (Some(x), Some(y)) => x.numbers.cmp(&y.numbers).then_with(|| pre_release(x.pre, y.pre)),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => Ordering::Equal,
    }
    .then_with(|| a.cmp(b))
}

/// Which of two versions stands for the name when none is given is the greater one: the newest release, and a
/// pre-release only where nothing is released.
pub fn by_preference(a: &str, b: &str) -> Ordering {
    let is_released = |text: &str| parse(text).is_some_and(|version| version.pre.is_none());
    is_released(a).cmp(&is_released(b)).then_with(|| compare(a, b))
}

struct Version<'t> {
    numbers: [u64; 3],
    pre: Option<&'t str>,
}

fn parse(text: &str) -> Option<Version<'_>> {
    let text = text.split_once('+').map_or(text, |(version, _)| version);
    let (core, pre) = match text.split_once('-') {
        Some((core, pre)) => (core, Some(pre)),
        None => (text, None),
    };
    let mut parts = core.split('.');
    let mut numbers = [0; 3];
    for number in &mut numbers {
        *number = parts.next()?.parse().ok()?;
    }
    parts.next().is_none().then_some(Version { numbers, pre })
}

fn pre_release(a: Option<&str>, b: Option<&str>) -> Ordering {
    match (a, b) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(a), Some(b)) => {
            let mut left = a.split('.');
            let mut right = b.split('.');
            loop {
                match (left.next(), right.next()) {
                    (None, None) => return Ordering::Equal,
                    (None, Some(_)) => return Ordering::Less,
                    (Some(_), None) => return Ordering::Greater,
                    (Some(x), Some(y)) => match identifier(x, y) {
                        Ordering::Equal => {}
                        unequal => return unequal,
                    },
                }
            }
        }
    }
}

/// Numbers compare by value and come before words.
fn identifier(a: &str, b: &str) -> Ordering {
    match (a.parse::<u64>(), b.parse::<u64>()) {
        (Ok(x), Ok(y)) => x.cmp(&y),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => a.cmp(b),
    }
}
