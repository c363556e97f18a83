//! Walking a parsed expression.

use super::{compile::literal_text, library::Signature};
use jaq_core::load::{
    lex::StrPart,
    parse::{BinaryOp, Pattern, Term},
};
use jaq_core::path::Part;
use std::collections::BTreeSet;

/// Calls `visit` for every direct part of `term`, in the order of the source.
pub(super) fn each_part<'t, 's>(term: &'t Term<&'s str>, visit: &mut dyn FnMut(&'t Term<&'s str>)) {
    match term {
        Term::Id | Term::Recurse | Term::Num(_) | Term::Break(_) | Term::Var(_) => {}
        Term::Str(_, parts) => {
            for part in parts {
                if let StrPart::Term(inner) = part {
                    visit(inner);
                }
            }
        }
        Term::Arr(inner) => inner.iter().for_each(|inner| visit(inner)),
        Term::Obj(fields) => {
            for (key, value) in fields {
                visit(key);
                value.iter().for_each(&mut *visit);
            }
        }
        Term::Neg(inner) | Term::Label(_, inner) => visit(inner),
        Term::BinOp(left, op, right) => {
            visit(left);
            if let BinaryOp::Pipe(Some(pattern)) = op {
                each_key(pattern, visit);
            }
            visit(right);
        }
        Term::Fold(_, items, pattern, arguments) => {
            visit(items);
            each_key(pattern, visit);
            arguments.iter().for_each(visit);
        }
        Term::TryCatch(body, handler) => {
            visit(body);
            handler.iter().for_each(|handler| visit(handler));
        }
        Term::IfThenElse(cases, otherwise) => {
            for (test, then) in cases {
                visit(test);
                visit(then);
            }
            otherwise.iter().for_each(|otherwise| visit(otherwise));
        }
        Term::Def(defs, body) => {
            defs.iter().for_each(|def| visit(&def.body));
            visit(body);
        }
        Term::Call(_, arguments) => arguments.iter().for_each(visit),
        Term::Path(from, path) => {
            visit(from);
            for (part, _) in &path.0 {
                match part {
                    Part::Index(index) => visit(index),
                    Part::Range(start, end) => start.iter().chain(end).for_each(&mut *visit),
                }
            }
        }
    }
}

/// Calls `visit` for every computed key of a binding pattern.
pub(super) fn each_key<'t, 's>(pattern: &'t Pattern<&'s str>, visit: &mut dyn FnMut(&'t Term<&'s str>)) {
    match pattern {
        Pattern::Var(_) => {}
        Pattern::Arr(items) => items.iter().for_each(|item| each_key(item, visit)),
        Pattern::Obj(fields) => {
            for (key, value) in fields {
                visit(key);
                each_key(value, visit);
            }
        }
    }
}

/// The variables (with `$`) that a pattern binds.
pub(super) fn variables<'s>(pattern: &Pattern<&'s str>, found: &mut Vec<&'s str>) {
    match pattern {
        Pattern::Var(name) => found.push(name),
        Pattern::Arr(items) => items.iter().for_each(|item| variables(item, found)),
        Pattern::Obj(fields) => fields.iter().for_each(|(_, value)| variables(value, found)),
    }
}

/// Collects the literal members that are read of `variable` (with `$`), each with the variable as it stands in the
/// source. `false` if the name is bound anywhere inside.
pub(super) fn members<'s>(term: &Term<&'s str>, variable: &str, found: &mut Vec<(String, &'s str)>) -> bool {
    let mut bound = Vec::new();
    match term {
        Term::BinOp(_, BinaryOp::Pipe(Some(pattern)), _) | Term::Fold(_, _, pattern, _) => {
            variables(pattern, &mut bound);
        }
        Term::Def(defs, _) => bound.extend(defs.iter().flat_map(|def| def.args.iter().copied())),
        Term::Path(from, path) => {
            let first = path.0.first().map(|(part, _)| part);
            if let (Term::Var(name), Some(Part::Index(index))) = (&**from, first)
                && *name == variable
                && let Some(key) = literal_text(index)
            {
                found.push((key, name));
            }
        }
        _ => {}
    }
    let mut free = !bound.contains(&variable);
    each_part(term, &mut |part| free &= members(part, variable, found));
    free
}

/// Every function that is called anywhere in `term`, its own definitions included.
pub(super) fn calls<'s>(term: &Term<&'s str>) -> BTreeSet<Signature<'s>> {
    fn collect<'s>(term: &Term<&'s str>, found: &mut BTreeSet<Signature<'s>>) {
        match term {
            Term::Call(name, arguments) => _ = found.insert((name, arguments.len())),
            Term::Str(Some(format), _) => _ = found.insert((format, 0)),
            _ => {}
        }
        each_part(term, &mut |part| collect(part, found));
    }
    let mut found = BTreeSet::new();
    collect(term, &mut found);
    found
}

/// The number of levels of `term`.
pub(super) fn depth(term: &Term<&str>) -> usize {
    let mut deepest = 0;
    each_part(term, &mut |part| deepest = deepest.max(depth(part)));
    deepest + 1
}
