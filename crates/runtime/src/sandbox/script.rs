//! Runs one script inside an evaluator process: QuickJS with limits of its own, and nothing to reach outside with.
//!
//! A script sees `console`, `process.argv`, `process.env`, `process.exit`, its standard input, and the language
//! itself. There are no files, no network, no timers and no modules; `node:fs` reads the standard input only.
//! Time stands still at the time of the call and chance is drawn from the call's key, so that every attempt of a
//! call computes the same. The engine is C code, which is why it must never run in the node's own process.

use super::wire::ScriptCall;
use machine::{Data, Fault, fault::Kind, ir::Returned};
use rquickjs::{
    CatchResultExt, CaughtError, Context, Ctx, Exception, Function, Module, Object, Persistent, Runtime,
    loader::{BuiltinLoader, BuiltinResolver},
};
use sha2::{Digest, Sha256};
use std::{cell::RefCell, rc::Rc};

/// What values of the script may take; the process itself has more.
const MEMORY_MAX_BYTES: usize = 64 * 1024 * 1024;
/// Far less than the thread has, so that recursion ends as an exception.
const STACK_MAX_BYTES: usize = 4 * 1024 * 1024;
/// What a script may write to both streams together.
pub(super) const OUTPUT_MAX_BYTES: usize = 1024 * 1024;

const PRELUDE: &str = include_str!("prelude.js");
const STDIN_MODULE: &str = "
const text = process.stdin.text;
export function readFileSync(file) {
  if (file !== 0 && file !== '/dev/stdin') throw new Error('there are no files here, only the standard input (0)');
  return text;
}
export default { readFileSync };
";

const REJECTED: &str = "(() => {
  const open = new Map();
  return {
    note: (promise, reason, handled) => void (handled ? open.delete(promise) : open.set(promise, reason)),
    throw: () => { for (const reason of open.values()) throw reason; },
  };
})()";

/// What the script has written so far.
#[derive(Default)]
struct Written {
    stdout: String,
    stderr: String,
    exit: Option<i32>,
    too_much: bool,
}

/// Runs the script to its end.
pub(super) fn run(call: &ScriptCall) -> Result<Data, Fault> {
    let written = Rc::new(RefCell::new(Written::default()));
    let ran = evaluate(call, &written);
    let written = written.borrow();
    if written.too_much {
        return Err(stopped(&format!("its output is larger than {OUTPUT_MAX_BYTES} bytes")));
    }
    let code = match (written.exit, ran) {
        (Some(code), _) => code,
        (None, Ok(())) => 0,
        (None, Err(detail)) => return Err(Fault::new(Kind::Runtime, detail)),
    };
    let text = |text: &str| Data::text(text);
    Ok(match call.request.returned {
        Returned::Code => Data::int(i64::from(code)),
        Returned::All => Data::map([
            ("code".to_owned(), Data::int(i64::from(code))),
            ("stdout".to_owned(), text(&written.stdout)),
            ("stderr".to_owned(), text(&written.stderr)),
        ]),
        // Whoever does not look at the code must not miss that it failed.
        _ if code != 0 => {
            let said = written.stderr.trim_end();
            let detail =
                format!("the script ended with code {code}{}{said}", if said.is_empty() { "" } else { ": " });
            return Err(Fault::new(Kind::Runtime, detail));
        }
        Returned::Stdout => text(&written.stdout),
        Returned::Stderr => text(&written.stderr),
        Returned::None => Data::NULL,
    })
}

fn stopped(why: &str) -> Fault {
    Fault::new(Kind::Runtime, format!("the script was stopped: {why}"))
}

fn evaluate(call: &ScriptCall, written: &Rc<RefCell<Written>>) -> Result<(), String> {
    let broken = |error: rquickjs::Error| format!("the script did not run: {error}");
    let runtime = Runtime::new().map_err(broken)?;
    runtime.set_memory_limit(MEMORY_MAX_BYTES);
    runtime.set_max_stack_size(STACK_MAX_BYTES);
    runtime.set_loader(
        BuiltinResolver::default().with_module("node:fs"),
        BuiltinLoader::default().with_module("node:fs", STDIN_MODULE),
    );
    let context = Context::full(&runtime).map_err(broken)?;
    let rejected = track_rejections(&runtime, &context).map_err(broken)?;
    let ended = context.with(|ctx| {
        prepare(&ctx, call, written).map_err(broken)?;
        let module = Module::evaluate(ctx.clone(), "script", call.request.code.as_str());
        let ended = module.and_then(|promise| promise.finish::<()>());
        ended.catch(&ctx).map_err(|error| describe(&error))?;
        // What the script left for later is done too, unless it has ended itself.
        while written.borrow().exit.is_none() && ctx.execute_pending_job() {}
        let throw = rejected.restore(&ctx).and_then(|rejected| rejected.get::<_, Function<'_>>("throw"));
        throw.map_err(broken)?.call::<_, ()>(()).catch(&ctx).map_err(|error| describe(&error))
    });
    // It holds a value of the runtime, and must not outlive it.
    runtime.set_host_promise_rejection_tracker(None);
    ended
}

/// Keeps the rejections that nobody handles; `throw` of what is answered throws the first of them.
fn track_rejections(runtime: &Runtime, context: &Context) -> rquickjs::Result<Persistent<Object<'static>>> {
    let (rejected, note) = context.with(|ctx| {
        let rejected: Object<'_> = ctx.eval(REJECTED)?;
        let note: Function<'_> = rejected.get("note")?;
        Ok::<_, rquickjs::Error>((Persistent::save(&ctx, rejected), Persistent::save(&ctx, note)))
    })?;
    runtime.set_host_promise_rejection_tracker(Some(Box::new(move |ctx, promise, reason, is_handled| {
        if let Ok(note) = note.clone().restore(&ctx) {
            // A script that breaks its own `Map` harms itself.
            let _ = note.call::<_, ()>((promise, reason, is_handled));
        }
    })));
    Ok(rejected)
}

/// Gives the script what it may use.
fn prepare(ctx: &Ctx<'_>, call: &ScriptCall, written: &Rc<RefCell<Written>>) -> rquickjs::Result<()> {
    let request = &call.request;
    let host = Object::new(ctx.clone())?;
    let to = written.clone();
    let write = move |is_error: bool, text: String| {
        let mut written = to.borrow_mut();
        written.too_much |= written.stdout.len() + written.stderr.len() + text.len() > OUTPUT_MAX_BYTES;
        if !written.too_much {
            let stream = if is_error { &mut written.stderr } else { &mut written.stdout };
            stream.push_str(&text);
        }
        !written.too_much
    };
    host.set("write", Function::new(ctx.clone(), write)?)?;
    let to = written.clone();
    let exit = move |code: i32| {
        to.borrow_mut().exit.get_or_insert(code);
    };
    host.set("exit", Function::new(ctx.clone(), exit)?)?;
    host.set("arguments", request.arguments.clone())?;
    let environment = Object::new(ctx.clone())?;
    for (name, value) in &request.environment {
        environment.set(name.as_str(), value.as_str())?;
    }
    host.set("environment", environment)?;
    host.set("stdin", request.stdin.as_str())?;
    host.set("now", call.now.0.div_euclid(1000) as f64)?;
    let digest = Sha256::digest(call.key.as_bytes());
    let words =
        digest.chunks_exact(4).take(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    host.set("seed", words.collect::<Vec<u32>>())?;
    ctx.globals().set("host", host)?;
    ctx.eval(PRELUDE)
}

/// The exception as one line, with the line of the script where it came from.
fn describe(error: &CaughtError<'_>) -> String {
    match error {
        CaughtError::Exception(exception) => of_exception(exception),
        CaughtError::Value(value) if value.is_null() => {
            // What is thrown when there is no memory left even for an error.
            "the script threw null, or ran out of memory".to_owned()
        }
        CaughtError::Value(value) => {
            let text = value.as_string().and_then(|text| text.to_string().ok());
            format!("the script threw {}", text.unwrap_or_else(|| format!("{value:?}")))
        }
        CaughtError::Error(rquickjs::Error::WouldBlock) => {
            "the script waits for something that never comes: there are no timers and no input or output"
                .to_owned()
        }
        CaughtError::Error(error) => format!("the script did not run: {error}"),
    }
}

fn of_exception(exception: &Exception<'_>) -> String {
    let name = exception.as_object().get::<_, String>("name").unwrap_or_else(|_| "Error".to_owned());
    let message = exception.message().unwrap_or_default();
    let stack = exception.stack().unwrap_or_default();
    let line = stack.split("script:").skip(1).find_map(|rest| {
        let (line, rest) = rest.split_once(':')?;
        line.parse::<u32>().ok().filter(|_| rest.starts_with(|digit: char| digit.is_ascii_digit()))
    });
    match line {
        Some(line) => format!("{name}: {message} (line {line} of the script)"),
        None => format!("{name}: {message}"),
    }
}
