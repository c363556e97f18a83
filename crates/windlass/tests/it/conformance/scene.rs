//! One scenario's world: an engine, a definition, an instance, and what was said so far.

use crate::engine::{Engine, PATIENCE, POLL};
use serde_json::{Value, json};
use std::sync::Arc;
use tempfile::TempDir;
use tokio::time::timeout;

/// How a scenario is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Calm,
    /// The engine is killed and started again after every step that acts.
    Killing,
}

/// An engine and the folder it lives in.
pub(crate) struct Home {
    pub(crate) engine: Engine,
    folder: TempDir,
    /// Where the hosts that scenarios call are found.
    hosts: Vec<String>,
}

/// The engine that scenarios share; with kills each has one of its own.
pub(crate) async fn shared(mode: Mode) -> Option<Arc<Home>> {
    match mode {
        Mode::Calm => Some(Arc::new(Home::new(true).await)),
        Mode::Killing => None,
    }
}

impl Home {
    async fn new(ephemeral: bool) -> Home {
        let folder = tempfile::tempdir().unwrap();
        let hosts = super::stub::flags(folder.path()).await;
        Home::with(folder, hosts, ephemeral).await
    }

    /// A home whose engine finds hosts by these flags.
    pub(crate) async fn with(folder: TempDir, hosts: Vec<String>, ephemeral: bool) -> Home {
        let engine = Home::start(&folder, &hosts, ephemeral).await;
        Home { engine, folder, hosts }
    }

    async fn start(folder: &TempDir, hosts: &[String], ephemeral: bool) -> Engine {
        let mut args = vec!["up", "--port", "0", "-o", "json"];
        args.extend(hosts.iter().map(String::as_str));
        args.extend(ephemeral.then_some("--ephemeral"));
        Engine::start(folder.path(), &args).await
    }
}

pub(crate) struct Scene {
    mode: Mode,
    pub(crate) home: Arc<Home>,
    /// Whom the scenario acts as.
    pub(crate) key: String,
    pub(crate) definition: String,
    pub(crate) input: Value,
    pub(crate) instance: Option<String>,
    /// What the engine said to the definition, if it refused it.
    pub(crate) refusal: Option<Value>,
    pub(crate) result: Option<Value>,
}

type Said = Result<Value, String>;

impl Scene {
    pub(crate) async fn new(mode: Mode, shared: Option<Arc<Home>>) -> Scene {
        let home = match shared {
            Some(home) => home,
            None => Arc::new(Home::new(false).await),
        };
        let key = home.engine.key.clone();
        Scene::of(mode, home, key)
    }

    pub(crate) fn of(mode: Mode, home: Arc<Home>, key: String) -> Scene {
        let definition = String::new();
        Scene { mode, home, key, definition, input: json!({}), instance: None, refusal: None, result: None }
    }

    /// In killing mode: the engine dies without warning, and another one takes over its data.
    pub(crate) async fn acted(&mut self) {
        if self.mode == Mode::Killing {
            let home = Arc::get_mut(&mut self.home).expect("with kills a scenario has an engine of its own");
            home.engine.kill().await;
            home.engine = Home::start(&home.folder, &home.hosts, false).await;
        }
    }

    /// Asks the API; `Err` is the status and what it said.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Said {
        let mut request = self.home.engine.request_as(&self.key, method, path);
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await.map_err(|error| error.to_string())?;
        let (good, status) = (answer.status().is_success(), answer.status());
        let body: Value = answer.json().await.unwrap_or_default();
        if good { Ok(body) } else { Err(format!("{method} {path} is answered with {status}: {body}")) }
    }

    /// Deploys a document: what the engine said to it, or why it refused it.
    pub(crate) async fn deploy(&mut self, document: &str) -> Result<Result<Value, Value>, String> {
        for fresh in [false, true] {
            if fresh {
                // Another scenario has a definition of that name and version.
                self.home = Arc::new(Home::new(true).await);
                self.key = self.home.engine.key.clone();
            }
            let request = self.home.engine.request_as(&self.key, "POST", "/definitions");
            let request = request.header("Content-Type", "application/yaml").body(document.to_owned());
            let answer = request.send().await.map_err(|error| error.to_string())?;
            let good = answer.status().is_success();
            let said: Value = answer.json().await.map_err(|error| error.to_string())?;
            if good {
                return Ok(Ok(said));
            }
            if said["code"] != "version-exists" {
                return Ok(Err(said));
            }
        }
        Err("the definition is already there, in an engine that was just made".to_owned())
    }

    /// Deploys the definition and starts an instance of it.
    pub(crate) async fn start(&mut self) -> Result<(), String> {
        let document = self.definition.clone();
        self.refusal = self.deploy(&document).await?.err();
        if self.refusal.is_some() {
            return Ok(());
        }
        self.start_deployed().await
    }

    /// Starts an instance of the definition, which is deployed.
    pub(crate) async fn start_deployed(&mut self) -> Result<(), String> {
        let document = super::steps::read(&self.definition)?;
        let wanted = &document["document"];
        let definition =
            json!({ "namespace": wanted["namespace"], "name": wanted["name"], "version": wanted["version"] });
        let body = json!({ "definition": definition, "input": self.input });
        match self.ask("POST", "/instances", Some(&body)).await {
            Ok(started) => self.instance = started["id"].as_str().map(str::to_owned),
            Err(said) => self.result = Some(json!({ "status": "refused", "said": said })),
        }
        self.acted().await;
        Ok(())
    }

    pub(crate) fn id(&self) -> Result<&str, String> {
        match (&self.instance, &self.refusal) {
            (Some(id), _) => Ok(id),
            (None, Some(refusal)) => Err(format!("the definition was refused: {refusal}")),
            (None, None) => Err(format!("nothing was started: {:?}", self.result)),
        }
    }

    /// How the instance ended, waiting for it.
    pub(crate) async fn end(&mut self) -> Said {
        if let Some(result) = &self.result {
            return Ok(result.clone());
        }
        let id = self.id()?.to_owned();
        let result = self.home.engine.result_as(&self.key, &id).await;
        self.result = Some(result.clone());
        Ok(result)
    }

    pub(crate) async fn show(&self) -> Said {
        self.ask("GET", &format!("/instances/{}", self.id()?), None).await
    }

    /// Asks for something until it is as wanted.
    pub(crate) async fn until(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Said {
        let mut last = Value::Null;
        let asking = async {
            let mut pace = tokio::time::interval(POLL);
            loop {
                pace.tick().await;
                last = self.ask("GET", path, None).await?;
                if wanted(&last) {
                    return Ok(last.clone());
                }
            }
        };
        match timeout(PATIENCE, asking).await {
            Ok(said) => said,
            Err(_) => Err(format!("{path} did not become as wanted; it is {last}")),
        }
    }

    /// Every event of the instance's history.
    pub(crate) async fn history(&self) -> Result<Vec<Value>, String> {
        let (mut events, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = format!("/instances/{}/history?limit=200{cursor}", self.id()?);
            let page = self.ask("GET", &path, None).await?;
            events.extend(page["items"].as_array().cloned().unwrap_or_default());
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(events),
            }
        }
    }
}
