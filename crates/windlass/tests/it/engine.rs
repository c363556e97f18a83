//! Starts the binary, talks to it, and ends it in the ways a process can end.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    process::{ExitStatus, Output, Stdio},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::{Child, ChildStdout, Command},
    sync::Mutex,
    time::timeout,
};

/// How long anything may take on a slow, busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// How often a test looks again.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// The binary with nothing of this machine's configuration.
pub(crate) fn binary(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("WINDLASS_")) {
        command.env_remove(name);
    }
    command.env("HOME", home).env("XDG_CONFIG_HOME", home.join("config")).env("NO_COLOR", "1");
    command.current_dir(home).stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// A running `windlass up` or `windlass serve`.
pub(crate) struct Engine {
    child: Mutex<Child>,
    pid: Pid,
    stdout: BufReader<ChildStdout>,
    /// The line it printed once ready.
    pub(crate) line: Value,
    pub(crate) url: String,
    pub(crate) key: String,
    home: PathBuf,
    http: reqwest::Client,
}

impl Engine {
    /// `up` on the data in `home`.
    pub(crate) async fn up(home: &Path) -> Engine {
        Engine::start(home, &["up", "--port", "0", "-o", "json"]).await
    }

    /// Starts the binary and waits for the line that says it is ready.
    pub(crate) async fn start(home: &Path, args: &[&str]) -> Engine {
        let mut command = binary(home);
        command.args(args).stderr(Stdio::inherit());
        Engine::launch(home, command).await
    }

    /// The same, with a log of everything in a file.
    pub(crate) async fn start_logged(home: &Path, args: &[&str], level: &str, log: &Path) -> Engine {
        let mut command = binary(home);
        let file = std::fs::File::create(log).unwrap();
        command.args(args).env("WINDLASS_LOG", level).stderr(file);
        Engine::launch(home, command).await
    }

    pub(crate) async fn launch(home: &Path, mut command: Command) -> Engine {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary starts");
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        timeout(PATIENCE, stdout.read_line(&mut line)).await.expect("ready in time").unwrap();
        let line: Value = serde_json::from_str(&line).expect("one line of JSON");
        let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        let (url, key) = (text("url"), text("key"));
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let pid = Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap();
        Engine { child: Mutex::new(child), pid, stdout, url, key, line, home: home.to_owned(), http }
    }

    /// Runs a client command against this engine.
    pub(crate) async fn cli(&self, args: &[&str]) -> Said {
        let mut command = binary(&self.home);
        command.env("WINDLASS_URL", &self.url).env("WINDLASS_KEY", &self.key).args(args);
        said(command).await
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        self.request_as(&self.key, method, path)
    }

    /// The same with another key.
    pub(crate) fn request_as(&self, key: &str, method: &str, path: &str) -> reqwest::RequestBuilder {
        let url = format!("{}/api/v1{path}", self.url);
        self.http.request(method.parse().unwrap(), url).bearer_auth(key).timeout(PATIENCE)
    }

    /// A request to any address, without a key.
    pub(crate) fn post(&self, url: &str) -> reqwest::RequestBuilder {
        self.http.post(url).timeout(PATIENCE)
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let answer = self.request("GET", path).send().await.unwrap();
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
        answer.json().await.unwrap()
    }

    pub(crate) async fn deploy(&self, document: &str) {
        let request = self.request("POST", "/definitions").header("Content-Type", "application/yaml");
        let answer = request.body(document.to_owned()).send().await.unwrap();
        assert!(answer.status().is_success(), "{}: {}", answer.status(), answer.text().await.unwrap());
    }

    /// Starts an instance of a definition of the namespace `test`.
    pub(crate) async fn start_instance(&self, name: &str, input: Value) -> String {
        let body = serde_json::json!({ "definition": { "namespace": "test", "name": name }, "input": input });
        let answer = self.request("POST", "/instances").json(&body).send().await.unwrap();
        assert_eq!(answer.status(), 201);
        answer.json::<Value>().await.unwrap()["id"].as_str().unwrap().to_owned()
    }

    /// Waits for the end of an instance.
    pub(crate) async fn result(&self, id: &str) -> Value {
        self.result_as(&self.key, id).await
    }

    /// The same with another key.
    pub(crate) async fn result_as(&self, key: &str, id: &str) -> Value {
        self.result_held(key, id, 30).await
    }

    /// The same, asking again after so many seconds, for nodes that nobody tells anything.
    pub(crate) async fn result_held(&self, key: &str, id: &str, seconds: u32) -> Value {
        let waiting = async {
            loop {
                let request = self.request_as(key, "GET", &format!("/instances/{id}/result"));
                let answer = request.header("Prefer", format!("wait={seconds}")).send().await.unwrap();
                if answer.status() == 200 {
                    return answer.json().await.unwrap();
                }
                assert_eq!(answer.status(), 202);
            }
        };
        timeout(PATIENCE, waiting).await.expect("the instance ends in time")
    }

    /// Asks for `path` until `wanted` holds.
    pub(crate) async fn until(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let asking = async {
            let mut pace = tokio::time::interval(POLL);
            loop {
                pace.tick().await;
                let answer = self.get(path).await;
                if wanted(&answer) {
                    return answer;
                }
            }
        };
        timeout(PATIENCE, asking).await.unwrap_or_else(|_| panic!("{path} did not become as wanted in time"))
    }

    /// As `kill -9`.
    pub(crate) async fn kill(&self) {
        self.signal(Signal::KILL);
        self.ended().await;
    }

    /// How it ended, waiting for it.
    pub(crate) async fn ended(&self) -> ExitStatus {
        let gone = async {
            let mut child = self.child.lock().await;
            child.wait().await.unwrap()
        };
        timeout(PATIENCE, gone).await.expect("the process ends")
    }

    /// The number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// As `kill -STOP`: it stands still in the middle of whatever it does.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// As `kill -CONT`.
    pub(crate) fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).unwrap();
    }

    /// As `kill`: answers the exit status and what else was printed on stdout.
    pub(crate) async fn terminate(mut self) -> (ExitStatus, String) {
        self.signal(Signal::TERM);
        let status = timeout(PATIENCE, self.child.get_mut().wait()).await.expect("stops in time").unwrap();
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).await.unwrap();
        (status, rest)
    }
}

/// What a command said, and how it ended.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Said {
    /// Stdout of a command that must succeed.
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self.stdout
    }

    pub(crate) fn json(self) -> Value {
        serde_json::from_str(&self.ok()).expect("JSON on stdout")
    }
}

pub(crate) async fn said(mut command: Command) -> Said {
    let output = timeout(PATIENCE, command.output()).await.expect("ends in time").unwrap();
    let Output { status, stdout, stderr } = output;
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Said { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

/// Runs a script of client commands as a person would, against the engine at `url`.
pub(crate) async fn shell(folder: &Path, url: &str, key: &str, script: &str) -> Said {
    let own = binary(folder);
    let programs = Path::new(own.as_std().get_program()).parent().unwrap().display().to_string();
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec 2>&1\n{script}")]).current_dir(folder).kill_on_drop(true);
    command.env("PATH", format!("{programs}:{}", std::env::var("PATH").unwrap()));
    command.env("HOME", folder).env("WINDLASS_URL", url).env("WINDLASS_KEY", key);
    said(command).await
}

/// The names of an object's members, sorted.
pub(crate) fn members(value: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = value.as_object().expect("an object").keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}
