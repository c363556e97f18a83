//! Files of lines that are on disk before anybody goes on: what a client did, what the sink saw, which faults there were.

use anyhow::{Context, Result};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::Path,
};
use tokio::sync::{mpsc, oneshot};

/// Lines that may wait for the disk.
const WAITING_MAX: usize = 10_000;

type Line = (String, oneshot::Sender<()>);

/// Appends lines; several that wait share one sync.
#[derive(Clone)]
pub(crate) struct Journal {
    lines: mpsc::Sender<Line>,
}

impl Journal {
    pub(crate) fn open(path: &Path) -> Result<Journal> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        let (lines, waiting) = mpsc::channel(WAITING_MAX);
        std::thread::spawn(move || write(file, waiting));
        Ok(Journal { lines })
    }

    /// Returns once the line is on disk.
    pub(crate) async fn append(&self, line: &impl Serialize) -> Result<()> {
        let (done, written) = oneshot::channel();
        let text = serde_json::to_string(line)? + "\n";
        self.lines.send((text, done)).await.ok().context("the journal cannot be written any more")?;
        written.await.context("the journal cannot be written any more")
    }
}

/// Ends, and with it every append to come, at the first line that the disk refuses.
fn write(mut file: File, mut waiting: mpsc::Receiver<Line>) {
    while let Some((mut text, done)) = waiting.blocking_recv() {
        let mut answers = vec![done];
        while let Ok((more, done)) = waiting.try_recv() {
            text.push_str(&more);
            answers.push(done);
        }
        if file.write_all(text.as_bytes()).and_then(|()| file.sync_data()).is_err() {
            return;
        }
        for done in answers {
            let _ = done.send(());
        }
    }
}

/// Every line of the file. The last one may be cut off where its writer was killed.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let (whole, _) = text.rsplit_once('\n').unwrap_or_default();
    let line =
        |line: &str| serde_json::from_str(line).with_context(|| format!("{} holds {line:?}", path.display()));
    whole.lines().map(line).collect()
}

/// The file again, whole: for what is collected once at the end.
pub(crate) fn save<T: Serialize>(path: &Path, lines: &[T]) -> Result<()> {
    let mut text = String::new();
    for line in lines {
        text += &serde_json::to_string(line)?;
        text.push('\n');
    }
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_read_as_written_and_a_torn_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let journal = Journal::open(&path).unwrap();
        for n in 0..3 {
            journal.append(&n).await.unwrap();
        }
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"torn\":").unwrap();
        assert_eq!(read::<u32>(&path).unwrap(), [0, 1, 2]);
    }
}
