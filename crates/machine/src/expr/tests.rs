//! What expressions answer, refuse and survive, as tables.

mod corpus;
mod hostile;
mod results;

use super::{Args, CompileError, Compiled};
use crate::{data::Data, fault::Fault};

fn data(json: &str) -> Data {
    Data::parse(json.as_bytes()).expect("test data is JSON")
}

fn compile(source: &str) -> Result<Compiled, CompileError> {
    Compiled::new(source, &["item".to_owned(), "error".to_owned()])
}

fn args() -> Args {
    let mut args = Args::default();
    args.fixed[0] = data(r#"{"user":"ann","limits":{"max":3},"list":[1,2,3]}"#);
    args.fixed[1] = data(r#"{"color":"red"}"#);
    args.locals = vec![data(r#"{"id":7}"#), Data::NULL];
    args
}

fn eval(source: &str, input: &str) -> Result<Data, Fault> {
    let compiled = compile(source).unwrap_or_else(|e| panic!("{source}: {e}"));
    let (input, args) = (data(input), args());
    // What takes long is done outside, with as much to spend as this or more.
    compiled.eval(&input, &args).unwrap_or_else(|| compiled.interpret(&input, &args, 1_000_000).0)
}
