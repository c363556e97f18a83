//! Files of `deploy/` say nothing that is not there: YAML and JSON that can be read, values that the chart has, templates that
//! are closed, files and packages that exist, metrics that the binary exposes.

use super::{Finding, Tree, tree::File};
use saphyr_parser::{Event, Parser};
use std::collections::BTreeSet;

const CHART: &str = "deploy/helm/windlass";
/// What a dashboard or an alert may ask a histogram for.
const SUFFIXES: [&str; 4] = ["", "_bucket", "_sum", "_count"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let files = tree.files.iter().filter(|file| file.path.starts_with("deploy/"));
    for (file, text) in files.filter_map(|file| Some((file, file.text.as_deref()?))) {
        let is_template = file.path.contains("/templates/");
        if file.path.ends_with(".yaml") && !is_template {
            findings.extend(readable(file, text));
        }
        if file.path.ends_with(".json")
            && let Err(error) = serde_json::from_str::<serde_json::Value>(text)
        {
            findings.push(Finding::new(&file.path, error.line(), "json", format!("cannot be read: {error}")));
        }
        if is_template {
            findings.extend(values(tree, file, text));
            findings.extend(closed(file, text));
            findings.extend(included(tree, file, text));
        }
        if file.path.starts_with("deploy/prometheus/") || file.path.starts_with("deploy/grafana/") {
            findings.extend(metrics(tree, file, text));
        }
        if file.path.ends_with("Dockerfile") {
            findings.extend(copied(tree, file, text));
        }
        if file.path.ends_with("compose.yaml") {
            findings.extend(mounted(tree, file, text));
        }
    }
    findings
}

fn readable(file: &File, text: &str) -> Option<Finding> {
    let error = Parser::new_from_str(text).find_map(Result::err)?;
    let line = error.marker().line();
    Some(Finding::new(&file.path, line, "yaml", format!("cannot be read: {}", error.info())))
}

/// `.Values.a.b` is in the chart's values.
fn values(tree: &Tree, file: &File, text: &str) -> Vec<Finding> {
    let known = keys(tree.text(&format!("{CHART}/values.yaml")).unwrap_or_default());
    let named = lines(text).flat_map(|(line, text)| {
        text.split(".Values.").skip(1).map(move |rest| (line, word(rest, "._"))).collect::<Vec<_>>()
    });
    let unknown = named.filter(|(_, name)| !known.contains(name.trim_end_matches('.')));
    unknown
        .map(|(line, name)| Finding::new(&file.path, line, name, format!("values.yaml has no {name}")))
        .collect()
}

/// Every key of a YAML document, with dots between those of maps within maps.
fn keys(text: &str) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    // One for each map or list that is open: the key of the map that stands before its value.
    let mut open: Vec<(bool, Option<String>)> = Vec::new();
    for (event, _) in Parser::new_from_str(text).map_while(Result::ok) {
        let is_value = match open.last_mut() {
            Some((true, key)) => match (&event, key.take()) {
                (Event::Scalar(name, ..), None) => {
                    *key = Some(name.to_string());
                    let path: Vec<&str> = open.iter().filter_map(|(_, key)| key.as_deref()).collect();
                    keys.insert(path.join("."));
                    false
                }
                (Event::MappingStart(..) | Event::SequenceStart(..), before) => {
                    *key = before;
                    true
                }
                _ => true,
            },
            _ => true,
        };
        match event {
            Event::MappingStart(..) if is_value => open.push((true, None)),
            Event::SequenceStart(..) if is_value => open.push((false, None)),
            Event::MappingEnd | Event::SequenceEnd => {
                open.pop();
                if let Some((_, key)) = open.last_mut() {
                    *key = None;
                }
            }
            _ => {}
        }
    }
    keys
}

/// `include "name"` names something that a template defines.
fn included(tree: &Tree, file: &File, text: &str) -> Vec<Finding> {
    let templates = || tree.files.iter().filter(|file| file.path.starts_with(CHART));
    let defined = |name: &str| {
        let define = format!("define \"{name}\"");
        templates().any(|file| file.text.as_deref().is_some_and(|text| text.contains(&define)))
    };
    let named = lines(text).flat_map(|(line, text)| {
        let names = text.split("include \"").skip(1).filter_map(|rest| rest.split('"').next());
        names.map(move |name| (line, name)).collect::<Vec<_>>()
    });
    let unknown = named.filter(|(_, name)| !defined(name));
    unknown
        .map(|(line, name)| Finding::new(&file.path, line, name, format!("no template defines {name}")))
        .collect()
}

/// Every block of a template ends.
fn closed(file: &File, text: &str) -> Option<Finding> {
    let mut depth = 0i64;
    for action in text.split("{{").skip(1).filter_map(|rest| rest.split("}}").next()) {
        match word(action.trim_start_matches('-').trim_start(), "") {
            "if" | "with" | "range" | "define" => depth += 1,
            "end" => depth -= 1,
            _ => {}
        }
    }
    let opened = text.matches("{{").count() == text.matches("}}").count();
    (depth != 0 || !opened).then(|| Finding::new(&file.path, 0, "template", "a block of it has no end"))
}

/// A metric is one whose name stands in the code of the product.
fn metrics(tree: &Tree, file: &File, text: &str) -> Vec<Finding> {
    let product = || tree.rust().filter(|(file, _)| file.path.contains("/src/") && !file.is_test());
    let exposed = |name: &str| {
        let names: Vec<String> = SUFFIXES
            .iter()
            .filter_map(|suffix| name.strip_suffix(suffix))
            .map(|name| format!("\"{name}\""))
            .collect();
        product().any(|(_, code)| names.iter().any(|name| code.contains(name)))
    };
    let mut findings = Vec::new();
    for (line, text) in lines(text) {
        for (at, _) in text.match_indices("windlass_") {
            let name = word(&text[at..], "_");
            if !exposed(name) {
                let message = format!("no code of the product exposes {name}");
                findings.push(Finding::new(&file.path, line, name, message));
            }
        }
    }
    findings
}

/// What an image is made of is in the tree.
fn copied(tree: &Tree, file: &File, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, text) in lines(text) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let sources: &[&str] = match words.as_slice() {
            ["COPY", flag, ..] if flag.starts_with("--from") => &[],
            ["COPY", sources @ .., _] => sources,
            _ => &[],
        };
        for source in sources.iter().filter(|source| **source != "." && !tree.has(source)) {
            findings.push(Finding::new(&file.path, line, source, format!("there is no {source} to copy")));
        }
        for pair in words.windows(2).filter(|pair| pair[0] == "--package") {
            if !tree.members.is_empty() && !tree.members.iter().any(|member| member.name == pair[1]) {
                let message = format!("there is no package {}", pair[1]);
                findings.push(Finding::new(&file.path, line, pair[1], message));
            }
        }
    }
    findings
}

/// Files beside a compose file that it mounts, and the file that its image is built with.
fn mounted(tree: &Tree, file: &File, text: &str) -> Vec<Finding> {
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut findings = Vec::new();
    for (line, text) in lines(text) {
        let beside = text.split(|c: char| c.is_whitespace() || "\"[".contains(c));
        let beside =
            beside.filter_map(|word| word.strip_prefix("./")).filter_map(|word| word.split(':').next());
        let built = text.trim().strip_prefix("dockerfile: ").map(str::to_owned);
        for path in beside.map(|name| format!("{folder}/{name}")).chain(built) {
            if !tree.has(&path) {
                findings.push(Finding::new(&file.path, line, &path, format!("there is no {path}")));
            }
        }
    }
    findings
}

fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(at, line)| (at + 1, line))
}

/// The letters, digits and `also` that the text begins with.
fn word<'a>(text: &'a str, also: &str) -> &'a str {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || also.contains(c)));
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).into_iter().map(|finding| finding.item).collect()
    }

    #[test]
    fn yaml_and_json_can_be_read() {
        assert_eq!(found(&[("deploy/a.yaml", "a: [1, 2\nb: }")]), ["yaml"]);
        assert_eq!(found(&[("deploy/a.yaml", "a: &x { b: 1 }\nc: *x\n")]), [""; 0]);
        assert_eq!(found(&[("deploy/a.json", "{\"a\": 1,}")]), ["json"]);
    }

    #[test]
    fn keys_of_maps_in_maps_have_dots() {
        let text = "a:\n  b: 1\n  c: { d: [x, { e: 1 }], f: 2 }\ng: []\nh: |\n  i: 1\n";
        let expected = ["a", "a.b", "a.c", "a.c.d", "a.c.d.e", "a.c.f", "g", "h"].map(str::to_owned);
        assert_eq!(keys(text), BTreeSet::from(expected));
    }

    #[test]
    fn templates_name_values_that_exist_and_end_what_they_begin() {
        let values = ("deploy/helm/windlass/values.yaml", "a: { b: 1 }\n");
        let of = |text| found(&[values, ("deploy/helm/windlass/templates/x.yaml", text)]);
        assert_eq!(of("x: {{ .Values.a.b | quote }}\n{{- if .Values.a }}y{{- end }}"), [""; 0]);
        assert_eq!(of("x: {{ $.Values.a.c }}"), ["a.c"]);
        assert_eq!(of("x: {{ include \"w.name\" . }}"), ["w.name"]);
        assert_eq!(of("{{- define \"w.name\" }}{{- end }}{{ include \"w.name\" . }}"), [""; 0]);
        assert_eq!(of("{{- with .Values.a }}"), ["template"]);
        assert_eq!(of("{{ .Values.a }"), ["template"]);
    }

    #[test]
    fn metrics_are_those_of_the_product() {
        let code = ("crates/server/src/x.rs", "const A: &str = \"windlass_seen\";");
        let of = |text| found(&[code, ("deploy/prometheus/x.yaml", text)]);
        assert_eq!(of("a: rate(windlass_seen_bucket[5m]) + windlass_seen"), [""; 0]);
        assert_eq!(of("a: windlass_gone"), ["windlass_gone"]);
    }

    #[test]
    fn what_is_copied_or_mounted_is_there() {
        let dockerfile = "COPY . .\nCOPY --from=build /out/x /x\nCOPY sdk/no /y\n";
        assert_eq!(found(&[("deploy/container/Dockerfile", dockerfile)]), ["sdk/no"]);
        let compose = "a:\n  - ./roles.sh:/x:ro\nb: [\"./no.cfg:/y\"]\ndockerfile: deploy/no\n";
        let files = [("deploy/compose/compose.yaml", compose), ("deploy/compose/roles.sh", "")];
        assert_eq!(found(&files), ["deploy/compose/no.cfg", "deploy/no"]);
    }
}
