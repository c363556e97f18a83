//! The functions an expression can call, and which of them it needs.
//!
//! The engine would parse and compile its whole standard library for every expression (0.4 ms, 100 kB). Here it is
//! parsed once, and an expression is compiled with only the definitions it reaches.

use super::{natives, rewrite, tree};
use jaq_core::load::parse::Def;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// Name and number of arguments.
pub(super) type Signature<'s> = (&'s str, usize);

/// Never callable: they read the process, the clock or other inputs, print, or end the process.
pub(super) const DENIED: [&str; 19] = [
    "env",
    "input",
    "inputs",
    "input_filename",
    "input_line_number",
    "halt",
    "halt_error",
    "debug",
    "stderr",
    "now",
    "localtime",
    "strflocaltime",
    "get_search_list",
    "modulemeta",
    "include",
    "import",
    "module",
    "$ENV",
    "$__loc__",
];

/// Used by other definitions only.
const INTERNAL: [&str; 20] = [
    "error_empty",
    "debug_empty",
    "stderr_empty",
    "path_value",
    "key_values",
    "capture_of_match",
    "matches",
    "split_matches",
    "split_",
    "scan_",
    "min_by_or_empty",
    "max_by_or_empty",
    "escape_sh",
    "escape_html",
    "unescape_html",
    "encode_uri",
    "decode_uri",
    "encode_base64",
    "decode_base64",
    "totype",
];

/// Their cost depends on the value of an argument.
const LEFT_OUT: [&str; 6] = ["j0", "j1", "jn", "y0", "y1", "yn"];

/// The parsed library.
pub(super) struct Library {
    /// In the order of definition.
    defs: Vec<(Def<&'static str>, BTreeSet<Signature<'static>>)>,
    /// What expressions may call.
    pub(super) callable: BTreeMap<&'static str, BTreeSet<usize>>,
}

/// What one expression is compiled with.
pub(super) struct Needed {
    pub(super) defs: Vec<Def<&'static str>>,
    pub(super) funs: Vec<natives::Fun>,
}

pub(super) fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(Library::new)
}

impl Library {
    fn new() -> Library {
        let mut ours = jaq_core::load::parse(include_str!("defs.jq"), |p| p.defs()).unwrap_or_default();
        let engine = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
        let native: BTreeSet<_> =
            natives::funs().map(|(name, arguments, _)| (name, arguments.len())).collect();
        let mut all = Vec::new();
        for def in engine.filter(|def| !DENIED.contains(&def.name)) {
            if native.contains(&(def.name, def.args.len())) {
                continue;
            }
            let same = |our: &Def<&str>| (our.name, our.args.len()) == (def.name, def.args.len());
            match ours.iter().position(same) {
                Some(i) => all.push(ours.remove(i)),
                None => all.push(def),
            }
        }
        all.extend(ours);
        let defs: Vec<_> = all
            .into_iter()
            .map(rewrite::body_of)
            .map(|def| {
                let calls = tree::calls(&def.body);
                (def, calls)
            })
            .collect();

        let mut callable: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
        let natives = funs().map(|(name, arguments, _)| (name, arguments.len()));
        for (name, arity) in natives.chain(defs.iter().map(|(def, _)| (def.name, def.args.len()))) {
            if !INTERNAL.contains(&name) && !name.starts_with("windlass_") {
                callable.entry(name).or_default().insert(arity);
            }
        }
        Library { defs, callable }
    }

    /// The definitions and natives reached from `calls`.
    pub(super) fn needed<'s>(&'static self, calls: &BTreeSet<Signature<'s>>) -> Needed {
        let mut reached: BTreeSet<Signature<'s>> = calls.clone();
        let mut open: Vec<Signature<'s>> = calls.iter().copied().collect();
        while let Some(call) = open.pop() {
            let found = self.defs.iter().filter(|(def, _)| (def.name, def.args.len()) == call);
            for inner in found.flat_map(|(_, calls)| calls) {
                if reached.insert(*inner) {
                    open.push(*inner);
                }
            }
        }
        let is_reached = |name: &'static str, arity: usize| reached.contains(&(name, arity));
        let defs = self.defs.iter().filter(|(def, _)| is_reached(def.name, def.args.len()));
        Needed {
            defs: defs.map(|(def, _)| def.clone()).collect(),
            funs: funs().filter(|(name, arguments, _)| is_reached(name, arguments.len())).collect(),
        }
    }
}

/// Ours first: the engine takes the first native of a signature.
fn funs() -> impl Iterator<Item = natives::Fun> {
    let engine = jaq_core::funs().chain(jaq_std::funs());
    let engine = engine.filter(|(name, ..)| !DENIED.contains(name) && !LEFT_OUT.contains(name));
    natives::funs().chain(engine)
}
