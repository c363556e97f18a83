//! What checking against a schema costs at worst, known from the schema alone and the size of the data.
//!
//! A value is looked at by every subschema that applies to it in place (`allOf`, `$ref`, ...), and its children by
//! every one that applies to children. [`Cost`] holds, for each depth of data, how many evaluations the way from the
//! root to one value takes at most; times the number of values that bounds the whole.

use super::SchemaError;
use crate::data::DEPTH_MAX;
use serde_json::Value;
use std::collections::HashMap;

/// The most subschemas of one schema.
const SUBSCHEMAS_MAX: usize = 5_000;
/// The longest pattern, with its repetitions counted.
const PATTERN_MAX: usize = 4_096;
/// Reading this many bytes of text counts as one more value.
const BYTES_PER_VALUE: u64 = 32;

/// Applied to the value itself: lists, single schemas, and maps.
const IN_PLACE: [&str; 9] =
    ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"];
/// Applied to children, each to another child.
const BY_NAME: [&str; 2] = ["properties", "prefixItems"];
/// Applied to children, possibly several to the same.
const BY_RULE: [&str; 7] = [
    "patternProperties",
    "additionalProperties",
    "propertyNames",
    "additionalItems",
    "contains",
    "unevaluatedItems",
    "unevaluatedProperties",
];
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

pub(super) struct Cost {
    /// By depth of the data.
    path_max: Vec<u64>,
}

#[derive(Default)]
struct Node {
    in_place: Vec<usize>,
    by_name: Vec<usize>,
    by_rule: Vec<usize>,
}

struct Walk<'s> {
    root: &'s Value,
    nodes: Vec<Node>,
    ids: HashMap<String, usize>,
    anchors: HashMap<String, String>,
}

impl Cost {
    pub(super) fn new(root: &Value) -> Result<Cost, SchemaError> {
        let mut walk = Walk { root, nodes: Vec::new(), ids: HashMap::new(), anchors: HashMap::new() };
        walk.names(root, String::new())?;
        walk.visit(root, String::new())?;
        let order = walk.order()?;
        let mut path_max = Vec::with_capacity(DEPTH_MAX + 2);
        let mut below = vec![0u64; walk.nodes.len()];
        for _ in 0..=DEPTH_MAX + 1 {
            let mut here = vec![0u64; walk.nodes.len()];
            for id in &order {
                let node = &walk.nodes[*id];
                let sum =
                    |ids: &[usize], of: &[u64]| ids.iter().fold(0u64, |sum, id| sum.saturating_add(of[*id]));
                let named = node.by_name.iter().map(|id| below[*id]).max().unwrap_or(0);
                here[*id] = 1u64
                    .saturating_add(sum(&node.in_place, &here))
                    .saturating_add(sum(&node.by_rule, &below))
                    .saturating_add(named);
            }
            path_max.push(here[0]);
            below = here;
        }
        Ok(Cost { path_max })
    }

    /// What checking `data` costs at most.
    pub(super) fn of(&self, data: &Value) -> u64 {
        fn measure(value: &Value, depth: usize, deepest: &mut usize) -> u64 {
            *deepest = depth.max(*deepest);
            let text = |text: &str| text.len() as u64 / BYTES_PER_VALUE;
            1 + match value {
                Value::String(own) => text(own),
                Value::Array(items) => items.iter().map(|item| measure(item, depth + 1, deepest)).sum(),
                Value::Object(members) => {
                    members.iter().map(|(key, value)| text(key) + measure(value, depth + 1, deepest)).sum()
                }
                _ => 0,
            }
        }
        let mut depth = 0;
        let values = measure(data, 0, &mut depth);
        let path = self.path_max.get(depth).copied().unwrap_or(u64::MAX);
        values.saturating_mul(path)
    }
}

impl<'s> Walk<'s> {
    /// Finds anchors, and refuses what changes the meaning of references further inside.
    fn names(&mut self, value: &'s Value, pointer: String) -> Result<(), SchemaError> {
        match value {
            Value::Object(members) => {
                if !pointer.is_empty() && members.get("$id").is_some_and(Value::is_string) {
                    let message = "`$id` may only stand at the top of a schema".to_owned();
                    return Err(SchemaError { pointer: pointer + "/$id", message });
                }
                for key in ["$anchor", "$dynamicAnchor"] {
                    if let Some(name) = members.get(key).and_then(Value::as_str) {
                        self.anchors.insert(name.to_owned(), pointer.clone());
                    }
                }
                members.iter().try_for_each(|(key, value)| self.names(value, child(&pointer, key)))
            }
            Value::Array(items) => items
                .iter()
                .enumerate()
                .try_for_each(|(index, value)| self.names(value, format!("{pointer}/{index}"))),
            _ => Ok(()),
        }
    }

    fn visit(&mut self, schema: &'s Value, pointer: String) -> Result<usize, SchemaError> {
        if let Some(id) = self.ids.get(&pointer) {
            return Ok(*id);
        }
        let id = self.nodes.len();
        if id >= SUBSCHEMAS_MAX {
            let message = format!("the schema has more than {SUBSCHEMAS_MAX} parts");
            return Err(SchemaError { pointer, message });
        }
        self.nodes.push(Node::default());
        self.ids.insert(pointer.clone(), id);
        let Value::Object(members) = schema else { return Ok(id) };
        let mut node = Node::default();
        for (key, value) in members {
            let at = child(&pointer, key);
            match key.as_str() {
                key if IN_PLACE.contains(&key) => node.in_place.extend(self.parts(value, at)?),
                key if BY_NAME.contains(&key) => node.by_name.extend(self.parts(value, at)?),
                "patternProperties" => {
                    for pattern in value.as_object().into_iter().flat_map(|patterns| patterns.keys()) {
                        check_pattern(pattern, child(&at, pattern))?;
                    }
                    node.by_rule.extend(self.parts(value, at)?);
                }
                key if BY_RULE.contains(&key) => node.by_rule.push(self.visit(value, at)?),
                "items" if value.is_array() => node.by_name.extend(self.parts(value, at)?),
                "items" => node.by_rule.push(self.visit(value, at)?),
                "pattern" => check_pattern(value.as_str().unwrap_or_default(), at)?,
                key if REFERENCES.contains(&key) => {
                    if let Some(target) = value.as_str() {
                        node.in_place.push(self.target(target, at)?);
                    }
                }
                _ => {}
            }
        }
        self.nodes[id] = node;
        Ok(id)
    }

    /// The schemas of a keyword that holds one, a list, or a map of them.
    fn parts(&mut self, value: &'s Value, at: String) -> Result<Vec<usize>, SchemaError> {
        let is_map = ["properties", "patternProperties", "dependentSchemas", "dependencies"]
            .iter()
            .any(|key| at.ends_with(&format!("/{key}")));
        match value {
            Value::Array(items) => items
                .iter()
                .enumerate()
                .map(|(index, item)| self.visit(item, format!("{at}/{index}")))
                .collect(),
            Value::Object(members) if is_map => {
                members.iter().map(|(key, value)| self.visit(value, child(&at, key))).collect()
            }
            other => Ok(vec![self.visit(other, at)?]),
        }
    }

    fn target(&mut self, target: &str, at: String) -> Result<usize, SchemaError> {
        let outside = || SchemaError {
            pointer: at.clone(),
            message: format!("`{target}` is outside this schema; put what it refers to under `$defs`"),
        };
        let missing =
            || SchemaError { pointer: at.clone(), message: format!("nothing stands at `{target}`") };
        let fragment = target.strip_prefix('#').ok_or_else(outside)?;
        let pointer = match fragment.starts_with('/') || fragment.is_empty() {
            true => percent_decoded(fragment),
            false => self.anchors.get(fragment).cloned().ok_or_else(missing)?,
        };
        let schema = self.root.pointer(&pointer).ok_or_else(missing)?;
        self.visit(schema, pointer)
    }

    /// The nodes in an order in which those applied in place come before where they are applied.
    fn order(&self) -> Result<Vec<usize>, SchemaError> {
        let mut open: Vec<usize> = self.nodes.iter().map(|node| node.in_place.len()).collect();
        let mut users: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        for (id, node) in self.nodes.iter().enumerate() {
            node.in_place.iter().for_each(|part| users[*part].push(id));
        }
        let mut order: Vec<usize> = (0..self.nodes.len()).filter(|id| open[*id] == 0).collect();
        let mut next = 0;
        while let Some(id) = order.get(next).copied() {
            next += 1;
            for user in &users[id] {
                open[*user] -= 1;
                if open[*user] == 0 {
                    order.push(*user);
                }
            }
        }
        match order.len() == self.nodes.len() {
            true => Ok(order),
            false => {
                let stuck =
                    self.ids.iter().filter(|(_, id)| open[**id] > 0).map(|(pointer, _)| pointer).min();
                let message = "the schema refers to itself without going deeper into the data".to_owned();
                Err(SchemaError { pointer: stuck.cloned().unwrap_or_default(), message })
            }
        }
    }
}

fn child(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// The text with `%41` and the like decoded; references are URI fragments.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = (*first == b'%').then(|| std::str::from_utf8(tail.get(..2)?).ok()).flatten();
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => (bytes.push(byte), rest = &tail[2..]).1,
            None => (bytes.push(*first), rest = tail).1,
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn check_pattern(pattern: &str, pointer: String) -> Result<(), SchemaError> {
    match is_small_pattern(pattern) {
        true => Ok(()),
        false => {
            let message = "the pattern is too large; give it fewer or smaller repetitions".to_owned();
            Err(SchemaError { pointer, message })
        }
    }
}

/// True if a regular expression stays small when its counted repetitions are written out.
fn is_small_pattern(pattern: &str) -> bool {
    let counts = pattern.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
    let largest = |(count, _): (&str, &str)| {
        count.split(',').filter_map(|number| number.trim().parse::<usize>().ok()).max().unwrap_or(1).max(1)
    };
    let written_out = counts.map(largest).fold(pattern.len(), usize::saturating_mul);
    written_out <= PATTERN_MAX
}
