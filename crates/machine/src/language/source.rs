//! The document as a tree that remembers where everything stands.
//!
//! [`read`] turns text into a [`Tree`]; [`At`] is a place in it: a node that knows its line, column and JSON
//! pointer. YAML and JSON give the same tree. What a document may be is limited here, before anything looks
//! at it: size, depth, aliases, characters, numbers.

mod json;
mod scalar;
mod yaml;

use super::{
    Format, Problem,
    report::{Place, Report},
};
use crate::data::Data;

/// Longest document.
pub(crate) const BYTES_MAX: usize = 1024 * 1024;
/// Deepest nesting of lists and objects.
pub(crate) const DEPTH_MAX: usize = 64;
/// Longest key, in bytes: pointers and messages repeat keys.
pub(crate) const KEY_BYTES_MAX: usize = 256;
/// How many nodes all aliases of a document may copy.
pub(crate) const ALIAS_NODES_MAX: usize = 10_000;

type NodeId = usize;
const ROOT: NodeId = 0;

/// A document. Nodes lie in one vector, so that dropping a deep tree does not recurse.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    /// What pointers begin with: nothing, or the URL of a document that another one refers to.
    base: String,
}

#[derive(Clone, Debug)]
struct Node {
    parent: NodeId,
    segment: Segment,
    mark: Mark,
    value: Value,
}

/// A position in the text, 1-based, in characters.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Mark {
    line: u32,
    column: u32,
}

/// How a node is reached from its parent.
#[derive(Clone, Debug)]
enum Segment {
    Root,
    Key { key: String, mark: Mark },
    Index(usize),
}

#[derive(Clone, Debug)]
enum Value {
    Null,
    Bool(bool),
    Number(Data),
    Text { text: String, origin: Origin },
    List(Vec<NodeId>),
    Object(Vec<NodeId>),
}

/// How positions inside a text map to positions in the document.
#[derive(Clone, Copy, Debug)]
enum Origin {
    /// Character for character, starting this many columns after the node's mark.
    Shifted(u32),
    /// Escapes or line folding in between: only the start is known.
    Start,
}

/// What sort of value a node holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    Null,
    Bool,
    Number,
    Text,
    List,
    Object,
}

/// Reads a document; the error is what made reading stop, lesser findings go to the report.
pub(crate) fn read(text: &[u8], format: Format, report: &mut Report) -> Result<Tree, Problem> {
    read_with(text, format, report, true)
}

/// The same for a document of any sort: keys need not be text.
pub(crate) fn read_any(text: &[u8], format: Format) -> Result<Tree, Problem> {
    read_with(text, format, &mut Report::default(), false)
}

fn read_with(text: &[u8], format: Format, report: &mut Report, strict: bool) -> Result<Tree, Problem> {
    if text.len() > BYTES_MAX {
        let message = format!("the document has {} bytes, more than the allowed {BYTES_MAX}", text.len());
        return Err(Problem::new(Mark::START.place(), "too-large", message)
            .hint("move large literals out of the definition and pass them as input"));
    }
    let text = match std::str::from_utf8(text) {
        Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
        Err(error) => {
            let valid = String::from_utf8_lossy(&text[..error.valid_up_to()]);
            return Err(Problem::new(
                Mark::after(&valid).place(),
                "not-utf8",
                "the document is not valid UTF-8",
            )
            .hint("save the file with UTF-8 encoding"));
        }
    };
    if let Some(offset) = text.find('\0') {
        let place = Mark::after(&text[..offset]).place();
        return Err(Problem::new(place, "nul-character", "the document holds a NUL character"));
    }
    match format {
        Format::Yaml => yaml::read(text, report, strict),
        Format::Json => json::read(text, report),
    }
}

impl Mark {
    const START: Mark = Mark { line: 1, column: 1 };

    /// The position right after `text`.
    fn after(text: &str) -> Mark {
        let line_start = text.rfind('\n').map_or(0, |newline| newline + 1);
        let line = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
        Mark { line: line as u32, column: text[line_start..].chars().count() as u32 + 1 }
    }

    fn place(self) -> Place {
        Place { line: self.line, column: self.column, pointer: String::new() }
    }
}

impl Tree {
    /// The tree of a document that another one refers to: its places name the URL.
    pub(crate) fn at_url(self, url: &str) -> Tree {
        Tree { base: format!("{url}#"), ..self }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(crate) fn root(&self) -> At<'_> {
        self.at(ROOT)
    }

    fn at(&self, id: NodeId) -> At<'_> {
        At { tree: self, id }
    }

    fn add(&mut self, parent: NodeId, segment: Segment, mark: Mark, value: Value) -> NodeId {
        let id = self.nodes.len();
        self.nodes.push(Node { parent, segment, mark, value });
        if id != ROOT
            && let Value::List(children) | Value::Object(children) = &mut self.nodes[parent].value
        {
            children.push(id);
        }
        id
    }

    /// How many children a list or object has so far.
    fn len(&self, id: NodeId) -> usize {
        match &self.nodes[id].value {
            Value::List(children) | Value::Object(children) => children.len(),
            _ => 0,
        }
    }
}

/// A node of the document, in place.
#[derive(Clone, Copy)]
pub(crate) struct At<'t> {
    tree: &'t Tree,
    id: NodeId,
}

impl<'t> At<'t> {
    fn node(self) -> &'t Node {
        &self.tree.nodes[self.id]
    }

    /// Where the value stands; an empty value stands at its key.
    pub(crate) fn place(self) -> Place {
        let node = self.node();
        match (&node.segment, &node.value) {
            (Segment::Key { .. }, Value::Null) => self.key_place(),
            _ => self.placed(node.mark),
        }
    }

    /// Where the key stands; the value's place if it has none.
    pub(crate) fn key_place(self) -> Place {
        let node = self.node();
        match &node.segment {
            Segment::Key { mark, .. } => self.placed(*mark),
            _ => self.placed(node.mark),
        }
    }

    /// Where the character at byte `offset` of this text stands, as exactly as it is known.
    pub(crate) fn place_in_text(self, offset: usize) -> Place {
        let mut place = self.place();
        if let Value::Text { text, origin: Origin::Shifted(shift) } = &self.node().value {
            place.column +=
                shift + text.char_indices().take_while(|(start, _)| *start < offset).count() as u32;
        }
        place
    }

    fn placed(self, mark: Mark) -> Place {
        Place { line: mark.line, column: mark.column, pointer: self.pointer() }
    }

    /// JSON pointer from the root of the document.
    pub(crate) fn pointer(self) -> String {
        let mut segments = Vec::new();
        let mut id = self.id;
        while id != ROOT {
            let node = &self.tree.nodes[id];
            segments.push(match &node.segment {
                Segment::Key { key, .. } => escape(key),
                Segment::Index(index) => index.to_string(),
                Segment::Root => String::new(),
            });
            id = node.parent;
        }
        segments.iter().rev().fold(self.tree.base.clone(), |pointer, segment| pointer + "/" + segment)
    }

    /// True in a document that another one refers to.
    pub(crate) fn is_elsewhere(self) -> bool {
        !self.tree.base.is_empty()
    }

    /// The key under which this node stands.
    pub(crate) fn key(self) -> Option<&'t str> {
        match &self.node().segment {
            Segment::Key { key, .. } => Some(key),
            _ => None,
        }
    }

    /// How messages call this node: its key, or its position in a list.
    pub(crate) fn label(self) -> String {
        match &self.node().segment {
            Segment::Key { key, .. } => format!("`{key}`"),
            Segment::Index(index) => format!("item {}", index + 1),
            Segment::Root => "the document".to_owned(),
        }
    }

    pub(crate) fn sort(self) -> Sort {
        match &self.node().value {
            Value::Null => Sort::Null,
            Value::Bool(_) => Sort::Bool,
            Value::Number(_) => Sort::Number,
            Value::Text { .. } => Sort::Text,
            Value::List(_) => Sort::List,
            Value::Object(_) => Sort::Object,
        }
    }

    pub(crate) fn text(self) -> Option<&'t str> {
        match &self.node().value {
            Value::Text { text, .. } => Some(text),
            _ => None,
        }
    }

    pub(crate) fn flag(self) -> Option<bool> {
        match self.node().value {
            Value::Bool(flag) => Some(flag),
            _ => None,
        }
    }

    pub(crate) fn number(self) -> Option<&'t Data> {
        match &self.node().value {
            Value::Number(number) => Some(number),
            _ => None,
        }
    }

    pub(crate) fn integer(self) -> Option<i64> {
        self.number().and_then(Data::as_i64)
    }

    /// The value under `key` if this is an object that has it.
    pub(crate) fn get(self, key: &str) -> Option<At<'t>> {
        self.entries().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// The members of an object; none if this is something else.
    pub(crate) fn entries(self) -> impl DoubleEndedIterator<Item = (&'t str, At<'t>)> + use<'t> {
        let ids: &[NodeId] = match &self.node().value {
            Value::Object(ids) => ids,
            _ => &[],
        };
        ids.iter().map(move |id| self.tree.at(*id)).map(|at| (at.key().unwrap_or_default(), at))
    }

    /// The elements of a list; none if this is something else.
    pub(crate) fn items(self) -> impl DoubleEndedIterator<Item = At<'t>> + ExactSizeIterator + use<'t> {
        let ids: &[NodeId] = match &self.node().value {
            Value::List(ids) => ids,
            _ => &[],
        };
        ids.iter().map(move |id| self.tree.at(*id))
    }

    /// The value without its positions.
    pub(crate) fn to_data(self) -> Data {
        match &self.node().value {
            Value::Null => Data::NULL,
            Value::Bool(flag) => Data::bool(*flag),
            Value::Number(number) => number.clone(),
            Value::Text { text, .. } => Data::text(text.as_str()),
            Value::List(_) => Data::array(self.items().map(At::to_data)),
            Value::Object(_) => {
                Data::map(self.entries().map(|(key, value)| (key.to_owned(), value.to_data())))
            }
        }
    }
}

/// The start of the document.
pub(crate) fn start() -> Place {
    Mark::START.place()
}

/// True if a reader of YAML 1.2 takes the text for text when it stands without quotes.
pub(crate) fn is_plain_text(text: &str) -> bool {
    scalar::resolve(text).is_none()
}

/// One segment of a JSON pointer.
pub(crate) fn escape(segment: &str) -> String {
    segment.replace('~', "~0").replace('/', "~1")
}
