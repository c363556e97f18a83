//! Documents that a definition refers to by URL: functions from elsewhere, functions of other catalogs, schemas.
//!
//! Nothing is fetched here. [`super::compile_with`] says what it lacks ([`Wanted`]); whoever deploys fetches it, puts
//! it into a [`Library`] and compiles again. What was fetched becomes part of the IR, so it never changes afterwards.

use super::{Format, Problem, report::Report, source, source::Tree};
use std::collections::{BTreeMap, HashMap};

/// What was fetched, by URL.
#[derive(Clone, Debug, Default)]
pub struct Library {
    texts: BTreeMap<String, Vec<u8>>,
}

/// A document that a definition needs and the library lacks.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    pub url: String,
    /// What to say if it cannot be had, with the place that refers to it.
    pub problem: Problem,
}

impl Library {
    pub fn insert(&mut self, url: String, text: Vec<u8>) {
        self.texts.insert(url, text);
    }

    pub fn len(&self) -> usize {
        self.texts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// The documents as trees whose places name the URL. What cannot be read is an error.
    pub(crate) fn trees(&self, report: &mut Report) -> HashMap<String, Tree> {
        let mut trees = HashMap::new();
        for (url, text) in &self.texts {
            // YAML may begin with a brace too; where the address does not say so, JSON is the better guess.
            let says_yaml = [".yaml", ".yml"].iter().any(|end| url.ends_with(end));
            let has_brace = text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
            let is_json = has_brace && !says_yaml;
            let format = if is_json { Format::Json } else { Format::Yaml };
            match source::read(text, format, report) {
                Ok(tree) => {
                    trees.insert(url.clone(), tree.at_url(url));
                }
                Err(problem) => {
                    report.error(Problem { pointer: format!("{url}#{}", problem.pointer), ..problem });
                    trees.insert(url.clone(), Tree::default());
                }
            }
        }
        trees
    }
}

/// Where a catalog keeps a function. Trees of GitHub and GitLab are read where their files lie.
pub(crate) fn function_url(catalog: &str, function: &str, version: &str) -> String {
    let catalog = catalog.trim_end_matches('/');
    let base = match catalog.strip_prefix("https://github.com/") {
        Some(tree) => {
            let mut parts = tree.splitn(3, '/');
            let repository: Vec<&str> = parts.by_ref().take(2).collect();
            let branch = parts.next().and_then(|rest| rest.strip_prefix("tree/")).unwrap_or("main");
            format!("https://raw.githubusercontent.com/{}/{branch}", repository.join("/"))
        }
        None if catalog.starts_with("https://gitlab.com/") => catalog.replacen("/-/tree/", "/-/raw/", 1),
        None => catalog.to_owned(),
    };
    format!("{base}/functions/{function}/{version}/function.yaml")
}

#[cfg(test)]
mod tests {
    use super::function_url;

    #[test]
    fn catalogs_have_one_layout() {
        let check = |catalog: &str, expected: &str| {
            assert_eq!(
                function_url(catalog, "log", "1.0.0"),
                format!("{expected}/functions/log/1.0.0/function.yaml")
            );
        };
        check("https://catalog.example.com/", "https://catalog.example.com");
        check("https://github.com/acme/catalog", "https://raw.githubusercontent.com/acme/catalog/main");
        check(
            "https://github.com/acme/catalog/tree/next/own",
            "https://raw.githubusercontent.com/acme/catalog/next/own",
        );
        check("https://gitlab.com/a/b/-/tree/main", "https://gitlab.com/a/b/-/raw/main");
    }
}
