//! From the text of an expression to a filter the interpreter can run.

use super::{
    CompileError, check,
    library::{DENIED, library},
    natives::Engine,
    rewrite, secrets, shortcut, tree,
};
use jaq_core::load::{
    self, Arena, File, Lexer, Loader, Parser,
    lex::{StrPart, Tok, Token},
    parse::{Def, Term},
    span,
};

pub(super) const SOURCE_BYTES_MAX: usize = 16 * 1024;
const TOKENS_MAX: usize = 4000;
/// Of brackets.
const NESTING_MAX: usize = 64;
/// Of the parsed expression; long chains of operators count too.
const DEPTH_MAX: usize = 400;
/// Stack that parsing and compiling may need per token, measured in a debug build and doubled.
const STACK_PER_TOKEN: usize = 8 * 1024;
const STACK_BASE: usize = 256 * 1024;
/// Under this name the expression is compiled; no expression can call it.
const MAIN: &str = "windlass_main";

/// A compiled filter with what is known about it.
pub(super) struct Parts {
    pub(super) filter: jaq_core::Filter<Engine>,
    pub(super) shortcut: Option<shortcut::Shortcut>,
    pub(super) bounded: bool,
    /// The positions, among the given global names, of those it mentions.
    pub(super) globals: Vec<usize>,
    /// The secrets it names.
    pub(super) secrets: Vec<Vec<String>>,
    /// Levels of the parsed expression.
    pub(super) depth: usize,
}

/// Compiles `source`; `globals` are the variables it may name, without `$`.
pub(super) fn compile(source: &str, globals: &[&str]) -> Result<Parts, CompileError> {
    if source.len() > SOURCE_BYTES_MAX {
        return fail(format!("the expression is longer than {SOURCE_BYTES_MAX} bytes"), SOURCE_BYTES_MAX);
    }
    check_nesting(source)?;
    let tokens = Lexer::new(source).lex().map_err(|errors| lex_error(source, &errors))?;
    let count = count_tokens(&tokens);
    if count > TOKENS_MAX {
        return fail(format!("the expression has more than {TOKENS_MAX} parts"), 0);
    }
    let names: Vec<String> = globals.iter().map(|name| format!("${name}")).collect();
    let stack = STACK_BASE + count * STACK_PER_TOKEN;
    stacker::maybe_grow(stack, stack, || compile_tokens(source, &tokens, &names))
}

fn compile_tokens(source: &str, tokens: &[Token<&str>], names: &[String]) -> Result<Parts, CompileError> {
    if let Some(Token(word @ ("import" | "include" | "module"), Tok::Word)) = tokens.first() {
        return fail(format!("{word} is not available in definitions"), span(source, word).start);
    }
    let parsed =
        Parser::new(tokens).parse(|p| p.term()).map_err(|errors| parse_error(source, errors.first()))?;
    let depth = tree::depth(&parsed);
    if depth > DEPTH_MAX {
        return fail(format!("the expression is nested deeper than {DEPTH_MAX} levels"), 0);
    }
    let library = library();
    let findings = check::check(source, &parsed, names, library)?;
    let named = match findings.globals.contains(&secrets::SECRETS) {
        true => secrets::references(source, &parsed)?,
        false => Vec::new(),
    };
    let shortcut = shortcut::find(&parsed, names);
    let main = rewrite::term(parsed);
    let needed = library.needed(&tree::calls(&main));

    let defs: Vec<Def<&str>> =
        needed.defs.into_iter().chain([Def { name: MAIN, args: Vec::new(), body: main }]).collect();
    let arena = Arena::default();
    let modules = Loader::new(defs)
        .load(&arena, File { code: MAIN, path: () })
        .map_err(|_| internal("the library does not load"))?;
    let mut globals: Vec<usize> =
        findings.globals.iter().filter_map(|used| names.iter().rposition(|name| name == used)).collect();
    globals.sort_unstable();
    let filter = jaq_core::Compiler::<_, Engine>::default()
        .with_funs(needed.funs)
        .with_global_vars(globals.iter().map(|i| names[*i].as_str()))
        .compile(modules)
        .map_err(|errors| undefined(source, &errors))?;
    Ok(Parts { filter, shortcut, bounded: findings.bounded, globals, secrets: named, depth })
}

/// The members that `source` reads of `$variable` by a literal name, each with the offset of the variable. None if
/// it binds the name itself: then the name means something else in places.
pub(crate) fn members(source: &str, variable: &str) -> Vec<(String, usize)> {
    let tokens = check_nesting(source).ok().and_then(|()| Lexer::new(source).lex().ok());
    let Some(tokens) = tokens else { return Vec::new() };
    let stack = STACK_BASE + count_tokens(&tokens) * STACK_PER_TOKEN;
    stacker::maybe_grow(stack, stack, || {
        let parsed = Parser::new(&tokens).parse(|p| p.term());
        let mut found = Vec::new();
        match parsed.is_ok_and(|term| tree::members(&term, &format!("${variable}"), &mut found)) {
            true => found.into_iter().map(|(name, at)| (name, span(source, at).start)).collect(),
            false => Vec::new(),
        }
    })
}

fn fail<T>(message: String, offset: usize) -> Result<T, CompileError> {
    Err(CompileError { message, offset })
}

fn internal(message: &str) -> CompileError {
    CompileError { message: message.to_owned(), offset: 0 }
}

/// Refuses brackets nested so deeply that the recursive lexer would overflow the stack.
fn check_nesting(source: &str) -> Result<(), CompileError> {
    let mut open: Vec<u8> = Vec::new();
    let mut bytes = source.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        let in_text = open.last() == Some(&b'"');
        match byte {
            b'\\' if in_text => {
                if let Some((_, b'(')) = bytes.next() {
                    open.push(b'(');
                }
            }
            b'"' if in_text => _ = open.pop(),
            _ if in_text => {}
            b'"' | b'(' | b'[' | b'{' => open.push(byte),
            b')' | b']' | b'}' => _ = open.pop(),
            _ => {}
        }
        if open.len() > NESTING_MAX {
            return fail(format!("brackets are nested deeper than {NESTING_MAX} levels"), at);
        }
    }
    Ok(())
}

fn count_tokens(tokens: &[Token<&str>]) -> usize {
    let inner = |token: &Token<&str>| match &token.1 {
        Tok::Block(inner) => count_tokens(inner),
        Tok::Str(parts) => parts
            .iter()
            .map(|part| match part {
                StrPart::Term(token) => count_tokens(std::slice::from_ref(token)),
                _ => 1,
            })
            .sum(),
        _ => 0,
    };
    tokens.iter().map(|token| 1 + inner(token)).sum()
}

fn lex_error(source: &str, errors: &[load::lex::Error<&str>]) -> CompileError {
    match errors.first() {
        Some((expected, found)) => CompileError {
            message: format!("expected {} but found {}", expected.as_str(), shown(found)),
            offset: span(source, found).start,
        },
        None => internal("not an expression"),
    }
}

fn parse_error(source: &str, error: Option<&load::parse::TError<'_, &str>>) -> CompileError {
    let Some((expected, found)) = error else { return internal("not an expression") };
    let found = Token::opt_as_str(*found, source);
    if DENIED.contains(&found) {
        return CompileError {
            message: format!("{found} is not available in definitions"),
            offset: span(source, found).start,
        };
    }
    CompileError {
        message: format!("expected {} but found {}", expected.as_str(), shown(found)),
        offset: span(source, found).start,
    }
}

/// The beginning of unexpected source.
fn shown(found: &str) -> String {
    let word: String = found.chars().take(20).collect();
    match word.as_str() {
        "" => "the end".to_owned(),
        word => format!("`{word}`"),
    }
}

/// The check has resolved every name before, so this names a gap between the check and the compiler.
fn undefined(source: &str, errors: &jaq_core::compile::Errors<&str, ()>) -> CompileError {
    let first = errors.iter().flat_map(|(_, errors)| errors).next();
    let Some((name, kind)) = first else { return internal("the expression does not compile") };
    let within = source.as_bytes().as_ptr_range().contains(&name.as_ptr());
    CompileError {
        message: format!("unknown {} {name}", kind.as_str()),
        offset: if within { span(source, name).start } else { 0 },
    }
}

/// A literal text without interpolation.
pub(super) fn literal_text(term: &Term<&str>) -> Option<String> {
    let Term::Str(None, parts) = term else { return None };
    let mut text = String::new();
    for part in parts {
        match part {
            StrPart::Str(piece) => text.push_str(piece),
            StrPart::Char(c) => text.push(*c),
            StrPart::Term(_) => return None,
        }
    }
    Some(text)
}
