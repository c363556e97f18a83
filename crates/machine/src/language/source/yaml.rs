//! Reads YAML 1.2 into the tree, from the parser's events.
//!
//! Aliases are copied in place, within a budget. Tags other than the core schema's, merge keys, keys that are
//! not text and a second document are refused: each would mean something else to another reader.

use super::{
    ALIAS_NODES_MAX, DEPTH_MAX, Mark, NodeId, Origin, Place, Problem, ROOT, Report, Segment, Tree, Value,
    escape,
    json::{duplicate_key, nul, number_range, refuse_long, too_deep},
    scalar,
};
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};
use std::collections::{HashMap, HashSet};

pub(super) fn read(text: &str, report: &mut Report, strict: bool) -> Result<Tree, Problem> {
    let (tree, anchors) = (Tree::default(), HashMap::new());
    let mut builder = Builder { tree, open: Vec::new(), anchors, copied: 0, strict, report };
    let mut documents = 0;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| syntax(&error))?;
        if let Event::DocumentStart(_) = event {
            documents += 1;
            if documents > 1 {
                let message = "the file holds several documents";
                return Err(Problem::new(mark(&span.start).place(), "several-documents", message)
                    .hint("keep one definition per file; remove the `---` line and what follows"));
            }
        }
        builder.event(event, span)?;
    }
    match builder.tree.nodes.is_empty() {
        true => Err(Problem::new(Mark::START.place(), "empty-document", "the document is empty")),
        false => Ok(builder.tree),
    }
}

fn syntax(error: &ScanError) -> Problem {
    let place = mark(error.marker()).place();
    let info = error.info();
    if info.contains("recursion limit") {
        return too_deep(place);
    }
    let hints = [
        ("escape character", "double quotes give `\\` a meaning; use single quotes"),
        (
            "escape code",
            "half of a surrogate pair is no character; write the whole one, such as `\\U0001F600`",
        ),
        ("tab", "indent with spaces"),
        ("unknown anchor", "an alias `*name` repeats a value marked `&name` before it"),
        ("", "check the indentation, and quote texts that hold `: `, ` #` or start with one of `{[*&!|>%@`"),
    ];
    let hint = hints.iter().find(|(part, _)| info.contains(part)).map(|(_, hint)| (*hint).to_owned());
    Problem::new(place, "syntax", format!("this is not valid YAML: {info}")).maybe_hint(hint)
}

fn mark(marker: &saphyr_parser::Marker) -> Mark {
    Mark { line: marker.line().max(1) as u32, column: marker.col() as u32 + 1 }
}

/// A list or object whose end has not been seen.
struct Open {
    id: NodeId,
    anchor: usize,
    keyed: bool,
    /// The key whose value comes next.
    key: Option<(String, Mark)>,
    keys: HashSet<String>,
}

struct Builder<'a> {
    tree: Tree,
    open: Vec<Open>,
    anchors: HashMap<usize, NodeId>,
    copied: usize,
    /// Keys must be text.
    strict: bool,
    report: &'a mut Report,
}

impl Builder<'_> {
    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Problem> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let value = self.scalar(&text, style, tag.as_deref(), span)?;
                if self.wants_key() {
                    return self.key(&text, &value, style, span);
                }
                let id = self.add(mark(&span.start), value);
                self.anchor(anchor, id);
            }
            Event::SequenceStart(anchor, tag) => {
                self.begin(Value::List(Vec::new()), anchor, tag.as_deref(), span)?;
            }
            Event::MappingStart(anchor, tag) => {
                self.begin(Value::Object(Vec::new()), anchor, tag.as_deref(), span)?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(open) = self.open.pop() {
                    self.anchor(open.anchor, open.id);
                }
            }
            Event::Alias(anchor) => self.alias(anchor, span)?,
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => {}
        }
        Ok(())
    }

    /// The place of what stands at `span`, with the pointer as far as it is known.
    fn here(&self, span: Span) -> Place {
        let mut place = mark(&span.start).place();
        if let Some(open) = self.open.last() {
            place.pointer = self.tree.at(open.id).pointer();
            match &open.key {
                Some((key, _)) => place.pointer += &format!("/{}", escape(key)),
                None if open.keyed => {}
                None => place.pointer += &format!("/{}", self.tree.len(open.id)),
            }
        }
        place
    }

    fn wants_key(&self) -> bool {
        self.open.last().is_some_and(|open| open.keyed && open.key.is_none())
    }

    fn begin(&mut self, value: Value, anchor: usize, tag: Option<&Tag>, span: Span) -> Result<(), Problem> {
        let keyed = matches!(value, Value::Object(_));
        if self.wants_key() {
            return Err(key_not_text(self.here(span), "a list or object"));
        }
        if let Some(tag) = tag.filter(|tag| !(is_core(tag, "map") && keyed || is_core(tag, "seq") && !keyed))
        {
            return Err(bad_tag(tag, self.here(span)));
        }
        let id = self.add(mark(&span.start), value);
        if self.open.len() >= DEPTH_MAX {
            return Err(too_deep(self.tree.at(id).place()));
        }
        self.open.push(Open { id, anchor, keyed, key: None, keys: HashSet::new() });
        Ok(())
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        span: Span,
    ) -> Result<Value, Problem> {
        let as_text = || Value::Text { text: text.to_owned(), origin: origin(text, style, span) };
        let place = self.here(span);
        let value = match tag {
            Some(tag) if is_core(tag, "str") || tag.handle == "!" && tag.suffix.is_empty() => as_text(),
            Some(tag) if ["int", "float", "bool", "null"].iter().any(|core| is_core(tag, core)) => {
                match scalar::resolve(text) {
                    Some(Ok(value)) => value,
                    _ => return Err(bad_tag(tag, self.here(span))),
                }
            }
            Some(tag) => return Err(bad_tag(tag, self.here(span))),
            None if style != ScalarStyle::Plain => as_text(),
            None => match scalar::resolve(text) {
                None => as_text(),
                Some(Ok(value)) => value,
                Some(Err(message)) => {
                    self.report.error(number_range(place.clone(), message));
                    Value::Null
                }
            },
        };
        if text.contains('\0') {
            self.report.error(nul(place.clone()));
        }
        if matches!(value, Value::Number(_)) && scalar::has_leading_zero(text) {
            let message = format!("{text} is read as the decimal number without its leading zeros");
            let problem = Problem::new(place, "leading-zero", message);
            self.report.warn(problem.hint("quote it to keep it as text"));
        }
        Ok(value)
    }

    fn key(&mut self, text: &str, value: &Value, style: ScalarStyle, span: Span) -> Result<(), Problem> {
        let place = self.here(span);
        match value {
            Value::Text { .. } if text == "<<" && style == ScalarStyle::Plain => {
                return Err(Problem::new(place, "merge-key", "merge keys (`<<`) are not part of YAML 1.2")
                    .hint("repeat the keys, or move what is shared to `use`"));
            }
            Value::Text { text, .. } => {
                refuse_long(text, mark(&span.start))?;
                if let Some(open) = self.open.last_mut() {
                    open.key = Some((text.clone(), mark(&span.start)));
                }
            }
            Value::Bool(_) | Value::Number(_) if !self.strict => {
                if let Some(open) = self.open.last_mut() {
                    open.key = Some((text.to_owned(), mark(&span.start)));
                }
            }
            Value::Null => return Err(key_not_text(place, "empty")),
            Value::Bool(_) => return Err(key_not_text(place, "a boolean")),
            _ => return Err(key_not_text(place, "a number")),
        }
        Ok(())
    }

    /// Adds a node where the parser stands.
    fn add(&mut self, mark: Mark, value: Value) -> NodeId {
        let Some(open) = self.open.last_mut() else {
            return self.tree.add(ROOT, Segment::Root, mark, value);
        };
        let parent = open.id;
        let mut duplicate = false;
        let segment = match open.key.take() {
            Some((key, mark)) => {
                duplicate = !open.keys.insert(key.clone());
                Segment::Key { key, mark }
            }
            None => Segment::Index(self.tree.len(parent)),
        };
        let id = self.tree.add(parent, segment, mark, value);
        if duplicate {
            self.report.error(duplicate_key(self.tree.at(id)));
        }
        id
    }

    fn anchor(&mut self, anchor: usize, id: NodeId) {
        // The parser numbers anchors from 1; 0 is no anchor.
        if anchor != 0 {
            self.anchors.insert(anchor, id);
        }
    }

    fn alias(&mut self, anchor: usize, span: Span) -> Result<(), Problem> {
        let start = mark(&span.start);
        let Some(&source) = self.anchors.get(&anchor) else {
            return Err(Problem::new(
                self.here(span),
                "alias-cycle",
                "the alias stands inside what it repeats",
            ));
        };
        if self.wants_key() {
            return match self.tree.nodes[source].value.clone() {
                Value::Text { text, .. } => {
                    refuse_long(&text, start)?;
                    if let Some(open) = self.open.last_mut() {
                        open.key = Some((text, start));
                    }
                    Ok(())
                }
                _ => Err(key_not_text(self.here(span), "an alias of something else than text")),
            };
        }
        let value = childless(&self.tree.nodes[source].value);
        let id = self.add(self.tree.nodes[source].mark, value);
        self.copy(source, id, self.open.len(), start)
    }

    /// Copies the children of `source` below `target`, which already is a copy of the node itself.
    fn copy(&mut self, source: NodeId, target: NodeId, depth: usize, alias: Mark) -> Result<(), Problem> {
        self.copied += 1;
        if self.copied > ALIAS_NODES_MAX {
            let message =
                format!("the aliases of this document expand to more than {ALIAS_NODES_MAX} values");
            return Err(Problem::new(alias.place(), "too-many-aliases", message)
                .hint("write the values out, or move what is shared to `use`"));
        }
        let children = match &self.tree.nodes[source].value {
            Value::List(children) | Value::Object(children) => children.clone(),
            _ => return Ok(()),
        };
        if depth >= DEPTH_MAX {
            return Err(too_deep(alias.place()));
        }
        for child in children {
            let node = self.tree.nodes[child].clone();
            let id = self.tree.add(target, node.segment, node.mark, childless(&node.value));
            self.copy(child, id, depth + 1, alias)?;
        }
        Ok(())
    }
}

fn childless(value: &Value) -> Value {
    match value {
        Value::List(_) => Value::List(Vec::new()),
        Value::Object(_) => Value::Object(Vec::new()),
        other => other.clone(),
    }
}

/// The text stands as it is if it takes as many characters in the document, on one line.
fn origin(text: &str, style: ScalarStyle, span: Span) -> Origin {
    let quotes = match style {
        ScalarStyle::Plain => 0,
        ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => 1,
        ScalarStyle::Literal | ScalarStyle::Folded => return Origin::Start,
    };
    let same_length = span.len() == text.chars().count() + 2 * quotes;
    match same_length && span.start.line() == span.end.line() {
        true => Origin::Shifted(quotes as u32),
        false => Origin::Start,
    }
}

fn is_core(tag: &Tag, suffix: &str) -> bool {
    tag.is_yaml_core_schema() && tag.suffix == suffix
}

fn bad_tag(tag: &Tag, place: Place) -> Problem {
    let name = if tag.is_yaml_core_schema() { format!("!!{}", tag.suffix) } else { tag.to_string() };
    Problem::new(place, "bad-tag", format!("the tag `{name}` does not fit here"))
        .hint("remove the tag; write the value itself")
}

fn key_not_text(place: Place, what: &str) -> Problem {
    Problem::new(place, "key-not-text", format!("a key must be text, but this one is {what}"))
        .hint("put the key in quotes")
}
