//! The evaluator process: limits itself, then evaluates what it is sent until its input ends.
//!
//! One thread with a deep stack evaluates; the main thread watches memory and time, so that the process ends even
//! when its node cannot end it. Memory is watched as well as limited, because an allocator may have reserved its
//! address space before the limit was set. When the node is gone the input ends, and so does an idle evaluator;
//! a busy one ends at its deadline. (A death signal of the parent would come too early: it follows the *thread*
//! that started the process.)

use super::{
    script,
    wire::{self, Answer, Limits, Request},
};
use machine::{Data, Fault, fault::Kind};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::{
    io,
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    thread,
    time::Duration,
};

/// How the process ends when its evaluation took too much memory.
pub(super) const EXIT_MEMORY: i32 = 3;
const EXIT_DEADLINE: i32 = 4;
const EXIT_BROKEN: i32 = 5;

/// Deep enough that the meter's check of the remaining stack stops recursion, not the guard page.
const STACK_BYTES: usize = 64 * 1024 * 1024;
/// How often memory and time are looked at: at a gigabyte per second, 10 MB pass unseen.
const CHECK_EVERY: Duration = Duration::from_millis(10);
/// Standard streams and what reading `/proc` takes.
const FILES_MAX: u64 = 16;

/// Serves evaluations on standard input and output until the input ends.
pub fn evaluator_main() {
    if serve(&mut io::stdin().lock(), &mut io::stdout().lock()).is_err() {
        std::process::exit(EXIT_BROKEN);
    }
}

fn serve(input: &mut impl io::Read, output: &mut impl io::Write) -> io::Result<()> {
    let Some(limits) = wire::read(input)? else { return Ok(()) };
    let limits: Limits = serde_json::from_slice(&limits)?;
    apply(&limits)?;
    let memory_max_bytes = status_bytes("VmRSS:") + limits.memory_max_bytes;
    let (evaluations, results) = start_thread()?;
    while let Some(request) = wire::read(input)? {
        let answer: Answer = match serde_json::from_slice::<Request>(&request) {
            Ok(request) => {
                evaluations.send(request).map_err(|_| io::ErrorKind::BrokenPipe)?;
                watch(&results, memory_max_bytes, limits.deadline_ms).into()
            }
            Err(error) => Answer::Fault(Fault::new(Kind::Expression, format!("not an evaluation: {error}"))),
        };
        wire::write(output, &serde_json::to_vec(&answer)?)?;
    }
    Ok(())
}

/// Limits of the whole process, from here to its end.
fn apply(limits: &Limits) -> io::Result<()> {
    let lifetime_s = limits.deadline_ms.div_ceil(1000).saturating_mul(limits.evaluations_max.into());
    let address_space = status_bytes("VmSize:") + STACK_BYTES as u64 + limits.memory_max_bytes;
    let all = [
        (Resource::As, address_space),
        (Resource::Cpu, lifetime_s.max(60)),
        (Resource::Core, 0),
        (Resource::Fsize, 0),
        (Resource::Nofile, FILES_MAX),
    ];
    for (resource, maximum) in all {
        setrlimit(resource, Rlimit { current: Some(maximum), maximum: Some(maximum) })?;
    }
    Ok(())
}

type Channels = (SyncSender<Request>, Receiver<Result<Data, Fault>>);

fn start_thread() -> io::Result<Channels> {
    let (evaluations, todo) = sync_channel::<Request>(1);
    let (done, results) = sync_channel(1);
    thread::Builder::new().name("evaluate".to_owned()).stack_size(STACK_BYTES).spawn(move || {
        for request in todo {
            let result = match request {
                Request::Expression(evaluation) => evaluation.run(),
                Request::Script(call) => script::run(&call),
            };
            if done.send(result).is_err() {
                break;
            }
        }
    })?;
    Ok((evaluations, results))
}

/// Waits for the result; ends the process when the evaluation takes too much.
fn watch(
    results: &Receiver<Result<Data, Fault>>,
    memory_max_bytes: u64,
    deadline_ms: u64,
) -> Result<Data, Fault> {
    let mut waited = Duration::ZERO;
    loop {
        match results.recv_timeout(CHECK_EVERY) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Disconnected) => std::process::exit(EXIT_BROKEN),
            Err(RecvTimeoutError::Timeout) => waited += CHECK_EVERY,
        }
        if status_bytes("VmRSS:") > memory_max_bytes {
            std::process::exit(EXIT_MEMORY);
        }
        // The node kills at the deadline; this is for an evaluator whose node is gone.
        if waited > Duration::from_millis(deadline_ms.saturating_mul(2)) {
            std::process::exit(EXIT_DEADLINE);
        }
    }
}

/// A size from the process's own status, or 0 where there is none.
fn status_bytes(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kilobytes = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
