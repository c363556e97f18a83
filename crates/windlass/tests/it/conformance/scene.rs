//! One scenario's world: an engine, a definition, an instance, and what was said so far.

use crate::engine::{Engine, PATIENCE, POLL, binary};
use scratch::Database;
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tempfile::TempDir;
use tokio::time::timeout;

/// How a scenario is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Calm,
    /// The engine is killed and started again after every step that acts.
    Killing,
}

/// Where the engines keep what they know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In memory; in a file if it has to outlive the engine.
    Own,
    /// In a database that two nodes share: what one is told the other has to know.
    Database(Told),
}

/// Whether nodes tell each other what happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    All,
    Nothing,
}

/// An engine and the folder it lives in.
pub(crate) struct Home {
    engine: Engine,
    /// The other node of the same database.
    other: Option<Engine>,
    turns: AtomicUsize,
    place: Place,
    folder: TempDir,
    /// Where the hosts that scenarios call are found.
    hosts: Vec<String>,
    database: Option<Database>,
    tenants: AtomicUsize,
}

/// The engine that scenarios share; with kills each has one of its own. `None` if there is no database to play it on.
pub(crate) async fn shared(mode: Mode, place: Place) -> Option<Option<Arc<Home>>> {
    match mode {
        Mode::Calm => Some(Some(Arc::new(Home::new(place, true).await?))),
        Mode::Killing if place != Place::Own && scratch::database().is_none() => None,
        Mode::Killing => Some(None),
    }
}

impl Home {
    async fn new(place: Place, ephemeral: bool) -> Option<Home> {
        let folder = tempfile::tempdir().unwrap();
        let hosts = super::stub::flags(folder.path()).await;
        Home::with(folder, hosts, place, ephemeral).await
    }

    /// A home whose engines find hosts by these flags. `None`, said loudly, if it needs a database and there is none.
    pub(crate) async fn with(
        folder: TempDir,
        hosts: Vec<String>,
        place: Place,
        ephemeral: bool,
    ) -> Option<Home> {
        let database = match place {
            Place::Own => None,
            Place::Database(_) => Some(scratch::database()?),
        };
        let start = || start(&folder, &hosts, place, database.as_ref(), ephemeral);
        let engine = start().await;
        let other = if database.is_some() { Some(start().await) } else { None };
        let (turns, tenants) = Default::default();
        Some(Home { engine, other, turns, place, folder, hosts, database, tenants })
    }

    /// Whichever node has its turn.
    pub(crate) fn any(&self) -> &Engine {
        match &self.other {
            Some(other) if self.turns.fetch_add(1, Ordering::Relaxed) % 2 == 1 => other,
            _ => &self.engine,
        }
    }

    /// The other node, if there are two: whoever sends several things that have to come in order asks one node.
    fn other(&self) -> &Engine {
        self.other.as_ref().unwrap_or(&self.engine)
    }

    /// Kills a node and starts another in its place; where there are two, the other one the next time.
    async fn kill(&mut self) {
        self.engine.kill().await;
        self.engine = start(&self.folder, &self.hosts, self.place, self.database.as_ref(), false).await;
        if let Some(other) = &mut self.other {
            std::mem::swap(&mut self.engine, other);
        }
    }

    /// Makes a tenant and answers a key for it.
    pub(crate) async fn tenant(&self, id: &str) -> Result<String, String> {
        let ask = async |path: &str, body: Value| -> Result<Value, reqwest::Error> {
            let request = self.any().request("POST", path);
            let request = if path == "/keys" { request.header("Tenant", id) } else { request };
            request.json(&body).send().await?.error_for_status()?.json().await
        };
        let made = async {
            ask("/tenants", json!({ "id": id })).await?;
            ask("/keys", json!({ "name": "example", "roles": ["admin"] })).await
        };
        let key = made.await.map_err(|error| error.to_string())?;
        Ok(key["secret"].as_str().unwrap_or_default().to_owned())
    }

    /// How long a question may be held: a node that nobody tells anything answers what it knew at the beginning.
    fn held_seconds(&self) -> u32 {
        if self.place == Place::Database(Told::Nothing) { 1 } else { 30 }
    }
}

async fn start(
    folder: &TempDir,
    hosts: &[String],
    place: Place,
    database: Option<&Database>,
    ephemeral: bool,
) -> Engine {
    let mut command = binary(folder.path());
    command.args(["up", "--port", "0", "-o", "json"]).args(hosts);
    if let Some(database) = database {
        command.args(["--store", &database.owner_url]);
        // What a killed node had is taken over soon.
        command.env("WINDLASS_RUNTIME_LEASE_SECONDS", "3");
    } else if ephemeral {
        command.arg("--ephemeral");
    }
    if place == Place::Database(Told::Nothing) {
        command.env("WINDLASS_HINTS_URL", "off").env("WINDLASS_RUNTIME_DEQUEUE_WAIT_SECONDS", "1");
    }
    Engine::launch(folder.path(), command).await
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
    pub(crate) async fn new(mode: Mode, place: Place, shared: Option<Arc<Home>>) -> Scene {
        let home = match shared {
            Some(home) => home,
            None => Arc::new(Home::new(place, false).await.expect("what was there a moment ago is there")),
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
            home.kill().await;
        }
    }

    /// Asks the API; `Err` is the status and what it said.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Said {
        let node = if path.contains("/signals/") { self.home.other() } else { self.home.any() };
        let mut request = node.request_as(&self.key, method, path);
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
                let number = self.home.tenants.fetch_add(1, Ordering::Relaxed);
                self.key = self.home.tenant(&format!("scenario-{number}")).await?;
            }
            let request = self.home.any().request_as(&self.key, "POST", "/definitions");
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
        Err("the definition is already there, of a tenant that was just made".to_owned())
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
        let result = self.home.any().result_held(&self.key, &id, self.home.held_seconds()).await;
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
