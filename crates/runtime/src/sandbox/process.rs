//! One evaluator process as its node sees it.

use super::{
    Options,
    evaluator::EXIT_MEMORY,
    wire::{self, Answer, Limits},
};
use machine::{Data, Fault};
use std::{io, process::Stdio};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStdin, ChildStdout, Command},
};

/// Why an evaluation has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Deadline,
    Memory,
    Died,
    Output,
}

/// A running evaluator. Dropping it kills it.
pub(super) struct Process {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    limits: Option<Limits>,
    pub(super) evaluations: u32,
}

impl Process {
    /// Starts an evaluator: no environment, no files, a process group of its own so that an interrupt at the
    /// terminal reaches the node only.
    pub(super) fn start(options: &Options) -> io::Result<Process> {
        let mut child = Command::new(&options.program)
            .args(&options.args)
            .env_clear()
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let limits = Limits {
            memory_max_bytes: options.memory_max_bytes,
            deadline_ms: options.deadline.as_millis().try_into().unwrap_or(u64::MAX),
            evaluations_max: options.evaluations_max,
        };
        Ok(Process { child, input, output, limits: Some(limits), evaluations: 0 })
    }

    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends one evaluation and reads its answer.
    pub(super) async fn exchange(
        &mut self,
        request: &[u8],
        output_max_bytes: usize,
    ) -> Result<Result<Data, Fault>, Failure> {
        self.evaluations += 1;
        self.send(request).await.map_err(|_| Failure::Died)?;
        let length = self.output.read_u32_le().await.map_err(|_| Failure::Died)? as usize;
        if length > output_max_bytes {
            return Err(Failure::Output);
        }
        let mut text = vec![0; length];
        self.output.read_exact(&mut text).await.map_err(|_| Failure::Died)?;
        let answer: Answer = serde_json::from_slice(&text).map_err(|_| Failure::Died)?;
        Ok(answer.into())
    }

    async fn send(&mut self, request: &[u8]) -> io::Result<()> {
        if let Some(limits) = self.limits.take() {
            self.input.write_all(&wire::frame(&serde_json::to_vec(&limits)?)?).await?;
        }
        self.input.write_all(&wire::frame(request)?).await?;
        self.input.flush().await
    }

    /// Kills the process, waits until it is gone, and says why its evaluation has no answer.
    pub(super) async fn end(mut self, failure: Failure) -> Failure {
        if failure != Failure::Died && self.child.start_kill().is_err() {
            tracing::warn!("cannot kill a sandbox process");
        }
        match self.child.wait().await {
            Ok(status) if failure == Failure::Died && status.code() == Some(EXIT_MEMORY) => Failure::Memory,
            _ => failure,
        }
    }
}
