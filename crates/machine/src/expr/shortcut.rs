//! Expressions so simple that the interpreter is not needed: constants and plain field paths.
//!
//! About half of the expressions of real definitions are `.a.b` or `$context.a`. A shortcut answers only when the
//! result is certain; otherwise (a field of a number, say) the interpreter runs and finds the error message.

use super::compile::literal_text;
use crate::data::Data;
use jaq_core::load::parse::Term;
use jaq_core::path::{Opt, Part};
use jaq_json::Val;

#[derive(Debug, PartialEq)]
pub(super) enum Shortcut {
    Constant(Val),
    /// Fields of the input or of the global at a position.
    Path {
        global: Option<usize>,
        fields: Vec<Val>,
    },
}

/// The shortcut for `term`, if there is one; `globals` with `$`.
pub(super) fn find(term: &Term<&str>, globals: &[String]) -> Option<Shortcut> {
    let root = |term: &Term<&str>| match term {
        Term::Id => Some(None),
        Term::Var(name) => globals.iter().rposition(|global| global == name).map(Some),
        _ => None,
    };
    match term {
        Term::Path(from, path) => {
            let global = root(from)?;
            let field = |(part, optional): &(Part<Term<&str>>, Opt)| match (part, optional) {
                (Part::Index(key), Opt::Essential) => literal_text(key).map(|key| Data::text(key).0),
                _ => None,
            };
            Some(Shortcut::Path { global, fields: path.0.iter().map(field).collect::<Option<Vec<_>>>()? })
        }
        Term::Num(n) => n.parse().ok().map(|n: isize| Shortcut::Constant(Val::from(n))),
        Term::Str(..) => literal_text(term)
            .filter(|text| !text.contains('\0'))
            .map(|text| Shortcut::Constant(Data::text(text).0)),
        Term::Call("true", arguments) if arguments.is_empty() => Some(Shortcut::Constant(Val::Bool(true))),
        Term::Call("false", arguments) if arguments.is_empty() => Some(Shortcut::Constant(Val::Bool(false))),
        Term::Call("null", arguments) if arguments.is_empty() => Some(Shortcut::Constant(Val::Null)),
        _ => root(term).map(|global| Shortcut::Path { global, fields: Vec::new() }),
    }
}

impl Shortcut {
    /// The result, or nothing if only the interpreter can tell.
    pub(super) fn eval<'a>(&self, input: &'a Data, global: impl Fn(usize) -> &'a Data) -> Option<Data> {
        match self {
            Shortcut::Constant(value) => Some(Data(value.clone())),
            Shortcut::Path { global: None, fields } => follow(&input.0, fields),
            Shortcut::Path { global: Some(at), fields } => follow(&global(*at).0, fields),
        }
    }
}

fn follow(mut value: &Val, fields: &[Val]) -> Option<Data> {
    for field in fields {
        value = match value {
            Val::Obj(map) => map.get(field).unwrap_or(&Val::Null),
            Val::Null => &Val::Null,
            _ => return None,
        };
    }
    Some(Data(value.clone()))
}
