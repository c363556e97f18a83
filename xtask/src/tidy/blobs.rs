//! No file above 256 kB: what is large is made, not kept.

use super::{Finding, Tree};

const BYTES_MAX: u64 = 256 * 1024;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let large = tree.files.iter().filter(|file| file.bytes > BYTES_MAX);
    let finding = |path: &str, bytes: u64| {
        Finding::new(path, 0, "file", format!("{} kB; the limit is {} kB", bytes / 1024, BYTES_MAX / 1024))
    };
    large.map(|file| finding(&file.path, file.bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_files_are_found() {
        let (full, over) = (" ".repeat(256 * 1024), " ".repeat(256 * 1024 + 1));
        let tree = Tree::of(&[("full.txt", &full), ("over.txt", &over)]);
        let paths: Vec<_> = check(&tree).into_iter().map(|finding| finding.path).collect();
        assert_eq!(paths, ["over.txt"]);
    }
}
