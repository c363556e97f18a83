//! Calls of `run.script` steps: handed to the sandbox, if the operator allows scripts.

use crate::{
    calls::{Attempted, accept},
    engine::Engine,
    sandbox::{NotRun, ScriptCall},
    unbegun::{self, Stop, Unbegun},
};
use machine::{
    Fault, TenantId,
    command::{Call, ScriptRequest},
    fault::Kind,
    time::Span,
};
use store::rows::CallRow;

/// How long a script waits before it is tried again when the sandbox could not take it.
const BUSY_WAIT: Span = Span::from_secs(5);

/// Runs the script once. What it computes depends on the call alone: its input, its key and when it was made.
pub(crate) async fn attempt(
    engine: &Engine,
    tenant: &TenantId,
    row: &CallRow,
    call: &Call,
) -> Result<Attempted, Unbegun> {
    let failed = |fault: Fault| Ok(Attempted::Failed { fault, exhausted: false });
    let request: ScriptRequest = match unbegun::read(call, "a script") {
        Ok(request) => request,
        Err(Stop::Fault(fault)) => return failed(fault),
        Err(Stop::Unbegun(unbegun)) => return Err(unbegun),
    };
    if !engine.options.scripts {
        let detail = "the operator of this engine does not allow scripts";
        return failed(Fault::new(Kind::Configuration, detail));
    }
    let script = ScriptCall { request, key: call.key.clone(), now: row.created_at };
    match engine.evaluator.script(tenant, script).await {
        Ok(Ok(data)) => Ok(accept(engine, data)),
        Ok(Err(fault)) => failed(fault),
        Err(NotRun(failure)) => Ok(Attempted::Again { after: BUSY_WAIT, attempt: row.attempt, failure }),
    }
}
