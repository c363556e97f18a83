//! Changes to a parsed expression before it is compiled.
//!
//! - Every function the expression defines begins by paying the meter, so that recursion can be stopped.
//! - Interpolation converts with our `windlass_text` instead of the engine's own conversion.

use jaq_core::load::{
    lex::StrPart,
    parse::{BinaryOp, Def, Pattern, Term},
};
use jaq_core::path::{Part, Path};

type Source<'s> = Term<&'s str>;

/// The expression as it will be compiled.
pub(super) fn term(source: Source<'_>) -> Source<'_> {
    match source {
        Term::Str(format, parts) => text(format, parts),
        Term::Arr(inner) => Term::Arr(inner.map(boxed)),
        Term::Obj(fields) => {
            Term::Obj(fields.into_iter().map(|(key, value)| (term(key), value.map(term))).collect())
        }
        Term::Neg(inner) => Term::Neg(boxed(inner)),
        Term::BinOp(left, op, right) => Term::BinOp(boxed(left), operator(op), boxed(right)),
        Term::Label(name, inner) => Term::Label(name, boxed(inner)),
        Term::Fold(name, items, bound, arguments) => {
            Term::Fold(name, boxed(items), pattern(bound), arguments.into_iter().map(term).collect())
        }
        Term::TryCatch(body, handler) => Term::TryCatch(boxed(body), handler.map(boxed)),
        Term::IfThenElse(cases, otherwise) => Term::IfThenElse(
            cases.into_iter().map(|(test, then)| (term(test), term(then))).collect(),
            otherwise.map(boxed),
        ),
        Term::Def(defs, body) => {
            Term::Def(defs.into_iter().map(|def| paying(body_of(def))).collect(), boxed(body))
        }
        Term::Call(name, arguments) => Term::Call(name, arguments.into_iter().map(term).collect()),
        Term::Path(from, path) => {
            let part = |part| match part {
                Part::Index(index) => Part::Index(term(index)),
                Part::Range(start, end) => Part::Range(start.map(term), end.map(term)),
            };
            Term::Path(
                boxed(from),
                Path(path.0.into_iter().map(|(p, optional)| (part(p), optional)).collect()),
            )
        }
        Term::Id | Term::Recurse | Term::Num(_) | Term::Break(_) | Term::Var(_) => source,
    }
}

/// A definition with its body rewritten.
pub(super) fn body_of(def: Def<&str>) -> Def<&str> {
    Def { body: term(def.body), ..def }
}

fn boxed(mut inner: Box<Source<'_>>) -> Box<Source<'_>> {
    *inner = term(std::mem::take(&mut *inner));
    inner
}

fn text<'s>(format: Option<&'s str>, parts: Vec<StrPart<&'s str, Source<'s>>>) -> Source<'s> {
    let parts: Vec<_> = parts
        .into_iter()
        .map(|part| match part {
            StrPart::Term(inner) => StrPart::Term(term(inner)),
            other => other,
        })
        .collect();
    Term::Str(Some(format.unwrap_or("windlass_text")), parts)
}

fn operator(op: BinaryOp<&str>) -> BinaryOp<&str> {
    match op {
        BinaryOp::Pipe(Some(bound)) => BinaryOp::Pipe(Some(pattern(bound))),
        other => other,
    }
}

fn pattern(bound: Pattern<&str>) -> Pattern<&str> {
    match bound {
        Pattern::Var(name) => Pattern::Var(name),
        Pattern::Arr(items) => Pattern::Arr(items.into_iter().map(pattern).collect()),
        Pattern::Obj(fields) => {
            Pattern::Obj(fields.into_iter().map(|(key, value)| (term(key), pattern(value))).collect())
        }
    }
}

/// Puts `windlass_tick as $windlass_tick |` before the body: a form that keeps paths and tail calls intact.
fn paying(def: Def<&str>) -> Def<&str> {
    let tick = Term::Call("windlass_tick", Vec::new());
    let bind = BinaryOp::Pipe(Some(Pattern::Var("$windlass_tick")));
    Def { body: Term::BinOp(Box::new(tick), bind, Box::new(def.body)), ..def }
}
