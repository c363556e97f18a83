//! How an expression may name `$secrets`: put in as it is, or inside a text, and in no other way.
//!
//! A decision never sees the value of a secret. It puts in a placeholder that is replaced when the call is made, so a
//! function applied to a secret would be applied to the placeholder. Such expressions do not compile.

use super::{CompileError, compile::literal_text, tree};
use jaq_core::{
    load::{
        lex::StrPart,
        parse::{BinaryOp, Term},
        span,
    },
    ops::Math,
    path::Part,
};

pub(super) const SECRETS: &str = "$secrets";

/// The secrets that `term` names, each as a path of keys; an error if it does anything else with `$secrets`.
pub(super) fn references(source: &str, term: &Term<&str>) -> Result<Vec<Vec<String>>, CompileError> {
    let mut found = Vec::new();
    place(source, term, &mut found)?;
    found.sort();
    found.dedup();
    // One would be text and the other an object.
    match found.windows(2).find(|pair| pair[1].starts_with(&pair[0])) {
        Some(pair) => {
            let name = pair[0].join(".");
            let message = format!("`$secrets.{name}` is used both whole and by its fields");
            Err(CompileError { message, offset: 0 })
        }
        None => Ok(found),
    }
}

/// A place whose value goes into the result unchanged.
fn place(source: &str, term: &Term<&str>, found: &mut Vec<Vec<String>>) -> Result<(), CompileError> {
    let mut go = |term: &Term<&str>| place(source, term, found);
    match term {
        Term::Path(from, path) if is_secrets(from) => {
            let keys = path.0.iter().map(|(part, _)| match part {
                Part::Index(index) => literal_text(index),
                Part::Range(..) => None,
            });
            match keys.collect::<Option<Vec<String>>>() {
                Some(keys) if !keys.is_empty() => found.push(keys),
                _ => return fail(source, from),
            }
            Ok(())
        }
        Term::Str(None, parts) => parts.iter().try_for_each(|part| match part {
            StrPart::Term(inner) => go(inner),
            _ => Ok(()),
        }),
        Term::Arr(Some(inner)) => go(inner),
        Term::Obj(fields) => fields.iter().try_for_each(|(key, value)| {
            free(source, key)?;
            value.iter().try_for_each(&mut go)
        }),
        Term::BinOp(left, BinaryOp::Math(Math::Add) | BinaryOp::Comma, right) => {
            go(left)?;
            go(right)
        }
        Term::BinOp(left, BinaryOp::Pipe(pattern), right) => {
            free(source, left)?;
            let mut bound = Vec::new();
            if let Some(pattern) = pattern {
                tree::variables(pattern, &mut bound);
            }
            match bound.contains(&SECRETS) {
                // From here on the name means something else.
                true => Ok(()),
                false => go(right),
            }
        }
        Term::IfThenElse(cases, otherwise) => {
            for (test, then) in cases {
                free(source, test)?;
                go(then)?;
            }
            otherwise.iter().try_for_each(|otherwise| go(otherwise))
        }
        other => free(source, other),
    }
}

fn is_secrets(term: &Term<&str>) -> bool {
    matches!(term, Term::Var(SECRETS))
}

/// A place whose value is computed with: no secret may stand here.
fn free(source: &str, term: &Term<&str>) -> Result<(), CompileError> {
    if is_secrets(term) {
        return fail(source, term);
    }
    let mut checked = Ok(());
    tree::each_part(term, &mut |part| {
        if checked.is_ok() {
            checked = free(source, part);
        }
    });
    checked
}

fn fail(source: &str, at: &Term<&str>) -> Result<(), CompileError> {
    let offset = match at {
        Term::Var(name) => span(source, name).start,
        _ => 0,
    };
    let message = "a secret can only be put in as it is: `$secrets.name`, or inside a text: `\"Bearer \\($secrets.name)\"`";
    Err(CompileError { message: message.to_owned(), offset })
}

#[cfg(test)]
mod tests {
    use crate::expr::Compiled;

    #[test]
    fn a_secret_may_be_put_in_as_it_is() {
        for (source, wanted) in [
            ("$secrets.a", "a"),
            ("$secrets[\"my-key\"].token", "my-key.token"),
            ("\"Bearer \\($secrets.a)\"", "a"),
            ("\"Bearer \" + $secrets.a", "a"),
            ("{ user: .name, password: $secrets.a.b }", "a.b"),
            ("[ $secrets.b, $secrets.a ]", "a b"),
            (". + { token: $secrets.a }", "a"),
            (".x as $x | \"\\($x)\\($secrets.a)\"", "a"),
            (".items | length | \"\\(.) \\($secrets.a)\"", "a"),
            ("if .test then $secrets.a else $secrets.b end", "a b"),
            (". as $secrets | $secrets.a | length", ""),
        ] {
            let found =
                Compiled::new(source, &[]).unwrap_or_else(|error| panic!("{source}: {error}")).secrets;
            let found: Vec<String> = found.iter().map(|path| path.join(".")).collect();
            assert_eq!(found.join(" "), wanted, "{source}");
        }
    }

    #[test]
    fn nothing_can_be_computed_with_a_secret() {
        for source in [
            "$secrets",
            "$secrets | .a",
            "$secrets.a | @base64",
            "@base64 \"\\($secrets.a)\"",
            "$secrets.a | length",
            "$secrets.a[0:3]",
            "$secrets[.name]",
            "$secrets.a == .guess",
            "$secrets.a as $x | $x",
            "if $secrets.a then 1 else 2 end",
            "{ ($secrets.a): 1 }",
            "{ $secrets }",
            "$secrets.a // \"none\"",
            "[.[] | $secrets.a] | join(\",\")",
            "reduce .[] as $x (0; $secrets.a)",
            "def f: $secrets.a; f",
            "map($secrets.a)",
            "try $secrets.a catch .",
            "-$secrets.a",
            "$secrets.a = 1",
            "$secrets | keys",
            "[$secrets.a, $secrets.a.b]",
        ] {
            let error = Compiled::new(source, &[]).err().unwrap_or_else(|| panic!("{source} compiles"));
            assert!(error.message.contains("secret"), "{source}: {error}");
        }
    }
}
