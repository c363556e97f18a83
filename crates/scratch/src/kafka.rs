//! A Kafka server for tests: librdkafka's mock cluster, run by Python with the library of a package from PyPI. No package of
//! the system brings a broker, and this one is not written by whoever wrote the client on trial.

use anyhow::{Context, Result, bail, ensure};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

/// What brings the library.
const PACKAGE: &str = "confluent-kafka==2.16.1";
const SCRIPT: &str = include_str!("kafka.py");

/// Where the package is put: beside what is built.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/kafka")
}

/// The library, if it was installed.
pub(crate) fn library() -> Option<PathBuf> {
    let files = fs::read_dir(folder().join("confluent_kafka.libs")).ok()?;
    let files = files.flatten().map(|file| file.path());
    files
        .into_iter()
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("librdkafka")))
}

/// Gets the library from PyPI, unless it is there. The error says why it cannot be had.
pub fn install_kafka() -> Result<()> {
    if library().is_some() {
        return Ok(());
    }
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check", "--target"]);
    let output = pip.arg(folder()).arg(PACKAGE).output().context("python3 does not start")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "pip cannot install {PACKAGE}: {}", said.trim());
    library().map(drop).context("the package brings no librdkafka for this machine")
}

/// A pipe to the server.
pub(crate) struct Orders {
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Orders {
    /// Answers what the server answers.
    pub(crate) fn give(&mut self, order: &str) -> Result<String> {
        writeln!(self.to, "{order}")?;
        self.answer()
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.from.read_line(&mut line)? {
            0 => bail!("the server has ended"),
            _ => Ok(line.trim().to_owned()),
        }
    }
}

/// Starts a cluster that is reached at the port.
pub(crate) fn start(port: u16, folder: &Path) -> Result<(Child, Orders)> {
    let library = library().context("librdkafka is not installed")?;
    let script = folder.join("kafka.py");
    fs::write(&script, SCRIPT)?;
    let mut command = Command::new("python3");
    command.arg(script).arg(library).arg(port.to_string()).current_dir(folder);
    let log = fs::File::create(folder.join("log"))?;
    let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn()?;
    let pipes = server.stdin.take().zip(server.stdout.take());
    let (to, from) = pipes.context("the pipes were asked for")?;
    let mut orders = Orders { to, from: BufReader::new(from) };
    let said = orders.answer().with_context(|| fs::read_to_string(folder.join("log")).unwrap_or_default())?;
    ensure!(said == "up", "the server said {said:?}");
    Ok((server, orders))
}
