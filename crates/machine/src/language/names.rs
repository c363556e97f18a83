//! Names as the language spells them: labels, versions, variables, and the nearest known word for a typo.

/// True for what the upstream schema demands of namespaces and names: a DNS label in either case.
pub fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    bytes.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
}

/// The three numbers of a semantic version, if `text` is one.
pub(crate) fn version(text: &str) -> Option<(u64, u64, u64)> {
    let (rest, build) = split(text, '+');
    let (core, pre) = split(rest, '-');
    let identifier =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let pre_part =
        |part: &str| identifier(part) && (!part.bytes().all(|b| b.is_ascii_digit()) || is_number(part));
    let valid = build.is_none_or(|build| build.split('.').all(identifier))
        && pre.is_none_or(|pre| pre.split('.').all(pre_part));
    let mut numbers = core.split('.').map(|part| is_number(part).then(|| part.parse().ok()).flatten());
    let version = (numbers.next()??, numbers.next()??, numbers.next()??);
    (valid && numbers.next().is_none()).then_some(version)
}

fn split(text: &str, at: char) -> (&str, Option<&str>) {
    match text.split_once(at) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

fn is_number(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) && (part == "0" || !part.starts_with('0'))
}

/// True if `text` can stand after `$` in an expression.
pub(crate) fn is_variable(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// The candidate most like `word`, if one is near enough to be a typo of it.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const WORD_BYTES_MAX: usize = 64;
    const CANDIDATES_MAX: usize = 200;
    if word.len() > WORD_BYTES_MAX {
        return None;
    }
    let distance_max = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .take(CANDIDATES_MAX)
        .filter(|candidate| candidate.len() <= 2 * WORD_BYTES_MAX && *candidate != word)
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= distance_max)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How many letters to add, drop, change or swap to get from one word to the other, case aside.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.to_lowercase().chars().collect();
    let right: Vec<char> = right.to_lowercase().chars().collect();
    let mut rows: Vec<Vec<usize>> = vec![(0..=right.len()).collect()];
    for (i, a) in left.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in right.iter().enumerate() {
            let change = rows[i][j] + usize::from(a != b);
            let mut best = change.min(row[j] + 1).min(rows[i][j + 1] + 1);
            if i > 0 && j > 0 && *a == right[j - 1] && left[i - 1] == *b {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[left.len()][right.len()]
}
