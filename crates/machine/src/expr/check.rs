//! The static check: every name is known and allowed, and whether the expression is *bounded*.
//!
//! An expression is bounded if it cannot loop by itself: it defines no function, calls none that iterates until a
//! condition holds, and its ranges are short and constant. What remains (iterating over data, `reduce`, growing
//! text and arrays) is finite, and the meter cuts it off. `..` and `recurse` without arguments are bounded: they
//! visit each part of their input once.

use super::{
    CompileError,
    library::{DENIED, Library},
    tree,
};
use jaq_core::load::{
    parse::{BinaryOp, Def, Pattern, Term},
    span,
};
use jaq_core::ops::Math;

/// The longest constant range of a bounded expression.
const RANGE_MAX: f64 = 10_000.0;
/// The longest constant repetition of a text in a bounded expression.
const REPEAT_MAX: f64 = 10_000.0;

/// Library functions that may iterate without end.
const UNBOUNDED: [(&str, usize); 7] = [
    ("recurse", 1),
    ("recurse", 2),
    ("repeat", 1),
    ("while", 2),
    ("until", 2),
    ("combinations", 0),
    ("combinations", 1),
];

/// What the check found out.
pub(super) struct Findings<'s> {
    pub(super) bounded: bool,
    /// The global variables it mentions, with `$`.
    pub(super) globals: Vec<&'s str>,
}

/// Checks `term`, parsed from `source`, in which the variables `globals` (with `$`) are known.
pub(super) fn check<'s>(
    source: &'s str,
    term: &Term<&'s str>,
    globals: &[String],
    library: &Library,
) -> Result<Findings<'s>, CompileError> {
    let findings = Findings { bounded: true, globals: Vec::new() };
    let mut check =
        Check { source, globals, library, variables: vec![], labels: vec![], functions: vec![], findings };
    check.term(term)?;
    Ok(check.findings)
}

struct Check<'a, 's> {
    source: &'s str,
    globals: &'a [String],
    library: &'a Library,
    /// Bound inside the expression.
    variables: Vec<&'s str>,
    labels: Vec<&'s str>,
    functions: Vec<(&'s str, usize)>,
    findings: Findings<'s>,
}

type Checked = Result<(), CompileError>;

impl<'s> Check<'_, 's> {
    fn fail<T>(&self, at: &str, message: String) -> Result<T, CompileError> {
        Err(CompileError { message, offset: span(self.source, at).start })
    }

    fn term(&mut self, term: &Term<&'s str>) -> Checked {
        match term {
            Term::Var(name) => self.variable(name),
            Term::Call(name, arguments) => {
                self.call(name, arguments)?;
                self.parts(term)
            }
            Term::Str(format, _) => {
                if let Some(format) = format {
                    self.call(format, &[])?;
                }
                self.parts(term)
            }
            Term::BinOp(left, BinaryOp::Pipe(Some(pattern)), right) => {
                self.term(left)?;
                self.keys(pattern)?;
                self.binding(pattern, |check| check.term(right))
            }
            Term::BinOp(left, op, right) => {
                self.repetition(left, op, right);
                self.parts(term)
            }
            Term::Fold(name, items, pattern, arguments) => self.fold(name, items, pattern, arguments),
            Term::Label(name, body) => {
                self.labels.push(name);
                let checked = self.term(body);
                self.labels.pop();
                checked
            }
            Term::Break(name) => match self.labels.contains(name) {
                true => Ok(()),
                false => self.fail(name, format!("there is no `label {name}` around this `break`")),
            },
            Term::Def(defs, body) => self.definitions(defs, body),
            _ => self.parts(term),
        }
    }

    fn parts(&mut self, term: &Term<&'s str>) -> Checked {
        let mut checked = Ok(());
        tree::each_part(term, &mut |part| {
            if checked.is_ok() {
                checked = self.term(part);
            }
        });
        checked
    }

    fn keys(&mut self, pattern: &Pattern<&'s str>) -> Checked {
        let mut checked = Ok(());
        tree::each_key(pattern, &mut |key| {
            if checked.is_ok() {
                checked = self.term(key);
            }
        });
        checked
    }

    fn binding(&mut self, pattern: &Pattern<&'s str>, inside: impl FnOnce(&mut Self) -> Checked) -> Checked {
        let before = self.variables.len();
        tree::variables(pattern, &mut self.variables);
        let checked = inside(self);
        self.variables.truncate(before);
        checked
    }

    fn variable(&mut self, name: &'s str) -> Checked {
        if self.variables.contains(&name) {
            return Ok(());
        }
        if self.globals.iter().any(|global| global == name) {
            if !self.findings.globals.contains(&name) {
                self.findings.globals.push(name);
            }
            return Ok(());
        }
        if DENIED.contains(&name) {
            return self.fail(name, format!("{name} is not available in definitions"));
        }
        let known = self.globals.iter().map(String::as_str).chain(self.variables.iter().copied());
        let hint = hint(name, known);
        self.fail(name, format!("{name} is not defined here{hint}"))
    }

    fn call(&mut self, name: &'s str, arguments: &[Term<&'s str>]) -> Checked {
        let signature = (name, arguments.len());
        if self.functions.contains(&signature) {
            return Ok(());
        }
        if DENIED.contains(&name) {
            return self.fail(name, format!("{name} is not available in definitions"));
        }
        if name.contains("::") {
            return self.fail(name, format!("modules are not available in definitions: {name}"));
        }
        let Some(arities) = self.library.callable.get(name) else {
            let known =
                self.functions.iter().map(|(name, _)| *name).chain(self.library.callable.keys().copied());
            let hint = hint(name, known);
            return self.fail(name, format!("unknown function {name}{hint}"));
        };
        if !arities.contains(&arguments.len()) {
            let wanted: Vec<String> = arities.iter().map(usize::to_string).collect();
            let (wanted, given) = (wanted.join(" or "), arguments.len());
            return self.fail(name, format!("{name} takes {wanted} arguments, not {given}"));
        }
        if UNBOUNDED.contains(&signature) || (name == "range" && !is_short_range(arguments)) {
            self.findings.bounded = false;
        }
        Ok(())
    }

    fn fold(
        &mut self,
        name: &'s str,
        items: &Term<&'s str>,
        pattern: &Pattern<&'s str>,
        arguments: &[Term<&'s str>],
    ) -> Checked {
        let (least, most) = if name == "reduce" { (2, 2) } else { (2, 3) };
        if !(least..=most).contains(&arguments.len()) {
            return self.fail(name, format!("{name} needs `(start; update)` behind its variable"));
        }
        self.term(items)?;
        self.keys(pattern)?;
        self.term(&arguments[0])?;
        self.binding(pattern, |check| arguments[1..].iter().try_for_each(|argument| check.term(argument)))
    }

    fn definitions(&mut self, defs: &[Def<&'s str>], body: &Term<&'s str>) -> Checked {
        self.findings.bounded = false;
        let before = self.functions.len();
        for def in defs {
            if def.name.starts_with("windlass_") {
                return self.fail(def.name, "names that begin with windlass_ are reserved".to_owned());
            }
            self.functions.push((def.name, def.args.len()));
            let (functions, variables) = (self.functions.len(), self.variables.len());
            for argument in &def.args {
                match argument.starts_with('$') {
                    true => self.variables.push(argument),
                    false => self.functions.push((argument, 0)),
                }
            }
            let checked = self.term(&def.body);
            self.functions.truncate(functions);
            self.variables.truncate(variables);
            checked?;
        }
        let checked = self.term(body);
        self.functions.truncate(before);
        checked
    }

    /// `"x" * 1e9`
    fn repetition(&mut self, left: &Term<&str>, op: &BinaryOp<&str>, right: &Term<&str>) {
        if let BinaryOp::Math(Math::Mul) = op {
            let is_text = [left, right].iter().any(|side| matches!(side, Term::Str(..)));
            let is_large = [left, right].iter().any(|side| number(side).is_some_and(|n| n > REPEAT_MAX));
            if is_text && is_large {
                self.findings.bounded = false;
            }
        }
    }
}

fn number(term: &Term<&str>) -> Option<f64> {
    match term {
        Term::Num(n) => n.parse().ok(),
        Term::Neg(inner) => number(inner).map(|n| -n),
        _ => None,
    }
}

/// True if the arguments of `range` are constants that yield few numbers.
fn is_short_range(arguments: &[Term<&str>]) -> bool {
    let numbers: Option<Vec<f64>> = arguments.iter().map(number).collect();
    let (from, to, by) = match numbers.as_deref() {
        Some([to]) => (0.0, *to, 1.0),
        Some([from, to]) => (*from, *to, 1.0),
        Some([from, to, by]) => (*from, *to, *by),
        _ => return false,
    };
    by != 0.0 && (to - from) / by <= RANGE_MAX
}

/// `, did you mean x?` if a known name is close.
fn hint<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let allowed = if name.len() <= 4 { 1 } else { 2 };
    let near = known.map(|known| (distance(name, known), known)).filter(|(d, _)| *d <= allowed).min();
    near.map(|(_, known)| format!(", did you mean {known}?")).unwrap_or_default()
}

/// The number of edits between two names.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, l) in left.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, r) in right.iter().enumerate() {
            let changed = diagonal + usize::from(l != *r);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[right.len()]
}
