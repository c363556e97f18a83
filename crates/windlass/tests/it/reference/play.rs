//! Plays one example: prepares it, does what its comments say in order, and checks what they expect.

use super::{
    example::{Example, Word},
    web::Web,
};
use crate::{
    conformance::{
        compare::{difference, difference_of_members},
        scene::{Home, Mode, Scene},
        steps::{began, complete, ended, order, read, waiting},
    },
    engine::shell,
};
use machine::Time;
use serde_json::{Value, json};
use std::{cell::Cell, sync::Arc, time::Duration};
use tokio::time::timeout;

/// How long one example may take on a slow, busy machine.
const PATIENCE: Duration = Duration::from_secs(45);
/// How long it may wait for one thing.
const PATIENCE_FOR_ONE: Duration = Duration::from_secs(20);

type Done = Result<(), String>;

/// The error says where and why.
pub(crate) async fn play(home: Arc<Home>, web: &Web, number: usize, example: &Example) -> Done {
    example.check()?;
    let place = Cell::new(example.place.as_str());
    let playing = async {
        let key = home.tenant(&format!("example-{number}")).await?;
        let mut play = Play { scene: Scene::of(Mode::Calm, home, key), example, web, said: Value::Null };
        play.prepare().await?;
        for word in example.words.iter().filter(|word| !word.is_setting()) {
            place.set(&word.place);
            play.word(word).await?;
        }
        play.scripts().await
    };
    match timeout(PATIENCE, playing).await {
        Ok(done) => done.map_err(|why| format!("{}: {why}", place.get())),
        Err(_) => Err(format!("{}: this did not happen in time", place.get())),
    }
}

struct Play<'e> {
    scene: Scene,
    example: &'e Example,
    web: &'e Web,
    /// What the engine said to the definition.
    said: Value,
}

impl Play<'_> {
    /// Secrets, data sets, the definitions.
    async fn prepare(&mut self) -> Done {
        for word in self.example.all("secret") {
            let [name, value] = word.parts();
            let body = json!({ "value": read(value)? });
            self.scene.ask("PUT", &format!("/secrets/{name}"), Some(&body)).await?;
        }
        let (last, before) = self.example.documents.split_last().ok_or("there is no document")?;
        for document in before {
            if let Err(refusal) = self.scene.deploy(document).await? {
                return Err(format!("a document before the last was refused: {refusal}"));
            }
        }
        self.scene.definition = last.clone();
        let refused = self.example.all("refused").next().is_some();
        match self.scene.deploy(last).await? {
            Ok(said) if !refused => self.said = said,
            Err(said) if refused => self.said = said,
            Ok(said) => return Err(format!("it was accepted: {said}")),
            Err(said) => return Err(format!("it was refused: {said}")),
        }
        Ok(())
    }

    async fn word(&mut self, word: &Word) -> Done {
        let about_deploying = matches!(word.name.as_str(), "refused" | "warned" | "started" | "input");
        if !about_deploying && self.scene.instance.is_none() && !self.is_scheduled() {
            self.start("{}").await?;
        }
        match word.name.as_str() {
            "input" => self.start(&word.rest).await,
            "signal" => self.signal(word).await,
            "token" => self.token(word).await,
            "event" => self.event(word).await,
            "task" => self.task(&read(&word.rest)?).await,
            "advance" => self.advance(&word.rest).await,
            "cancel" | "pause" | "resume" | "retry" => {
                self.scene.result = None;
                order(&mut self.scene, &word.name).await
            }
            _ => self.expect(word).await,
        }
    }

    async fn expect(&mut self, word: &Word) -> Done {
        let found = match word.name.as_str() {
            "output" => {
                let result = ended(&mut self.scene, "completed").await?;
                difference(&result["output"], &read(&word.rest)?)
            }
            "error" => {
                let result = ended(&mut self.scene, "faulted").await?;
                difference_of_members(&result["error"], &read(&word.rest)?)
            }
            "status" => return waiting(&self.scene, &word.rest).await,
            "context" => {
                self.scene.end().await?;
                difference(&self.scene.show().await?["context"], &read(&word.rest)?)
            }
            "ran" => {
                self.scene.end().await?;
                let ran =
                    began(&self.scene).await?.iter().map(|step| name(step)).collect::<Vec<_>>().join(", ");
                (ran != word.rest).then(|| format!("the steps that ran: {ran}"))
            }
            "called" => {
                self.scene.end().await?;
                return self.web.check(self.example);
            }
            "task-refused" => return self.task_refused(word).await,
            "emitted" => return self.emitted(word).await,
            "children" => return self.children(word).await,
            "started" => return self.started(word).await,
            _ => {
                let said = self.said.to_string().replace("\\\"", "\"");
                (!said.contains(&word.rest)).then(|| format!("this was said: {said}"))
            }
        };
        found.map_or(Ok(()), Err)
    }

    fn is_scheduled(&self) -> bool {
        self.scene.definition.lines().any(|line| line.starts_with("schedule:"))
    }

    /// `$dataset` in the input is the id of the data set that the example has.
    async fn start(&mut self, input: &str) -> Done {
        let mut input = input.to_owned();
        for word in self.example.all("dataset") {
            let lines: String = word.rest.split(' ').map(|item| format!("{item}\n")).collect();
            let engine = self.scene.home.any();
            let request = engine.request_as(&self.scene.key, "POST", "/datasets");
            let request = request.header("Content-Type", "application/x-ndjson").body(lines);
            let answer = request.send().await.and_then(reqwest::Response::error_for_status);
            let said: Value =
                answer.map_err(|error| error.to_string())?.json().await.map_err(|error| error.to_string())?;
            input = input.replace("$dataset", said["id"].as_str().unwrap_or_default());
        }
        self.scene.input = read(&input)?;
        self.scene.result = None;
        self.scene.start_deployed().await
    }

    async fn signal(&mut self, word: &Word) -> Done {
        let [name, data] = word.parts();
        let mut data = if data.is_empty() { "null" } else { data }.to_owned();
        if data.contains("$token") {
            let token = self.context("token").await?;
            data = data.replace("$token", &token);
        }
        let path = format!("/instances/{}/signals/{name}", self.scene.id()?);
        self.scene.ask("POST", &path, Some(&read(&data)?)).await.map(drop)
    }

    /// Signals by the address that the instance gave out, without a key.
    async fn token(&mut self, word: &Word) -> Done {
        let [name, data] = word.parts();
        let url = format!("{}?name={name}", self.context("url").await?);
        let request = self.scene.home.any().post(&url).json(&read(data)?);
        let answer = request.send().await.and_then(reqwest::Response::error_for_status);
        answer.map(drop).map_err(|error| error.to_string())
    }

    /// A text in the instance's context, once it is there.
    async fn context(&self, key: &str) -> Result<String, String> {
        let path = format!("/instances/{}", self.scene.id()?);
        let shown = self.until(&path, |instance| instance["context"][key].is_string()).await?;
        Ok(shown["context"][key].as_str().unwrap_or_default().to_owned())
    }

    async fn event(&mut self, word: &Word) -> Done {
        let mut event = json!({ "specversion": "1.0", "id": word.place, "source": "https://docs.example" });
        let given = read(&word.rest)?;
        for (key, value) in given.as_object().ok_or("an event is an object")? {
            event[key] = value.clone();
        }
        let request = self.scene.home.any().request_as(&self.scene.key, "POST", "/events");
        let request = request.header("Content-Type", "application/cloudevents+json").body(event.to_string());
        let answer = request.send().await.and_then(reqwest::Response::error_for_status);
        answer.map(drop).map_err(|error| error.to_string())
    }

    /// Moves the clock, once the instance waits for something that is still to come.
    async fn advance(&mut self, by: &str) -> Done {
        if let Some(id) = &self.scene.instance {
            let now = self.now().await?;
            let is_ahead = |instance: &Value| {
                (instance["status"] == "waiting" || instance["status"] == "cancelling")
                    && time(&instance["waiting"]["until"]).is_none_or(|until| until.since(now).0 > 0)
            };
            self.until(&format!("/instances/{id}"), is_ahead).await?;
        }
        self.scene.ask("POST", "/dev/clock", Some(&json!({ "by": by }))).await.map(drop)
    }

    /// Completes the open task; one that has just ended, or is somebody else's until it does, is followed by another.
    async fn task(&mut self, result: &Value) -> Done {
        loop {
            match complete(&mut self.scene, |_| true, result).await {
                Err(said) if said.contains("task-ended") || said.contains("task-claimed") => {}
                done => return done,
            }
        }
    }

    /// Completing the open task with this is refused.
    async fn task_refused(&mut self, word: &Word) -> Done {
        match complete(&mut self.scene, |_| true, &read(&word.rest)?).await {
            Err(said) if said.contains("task-result-invalid") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    }

    /// An event of this type is there, with this data if any is given.
    async fn emitted(&mut self, word: &Word) -> Done {
        let [kind, data] = word.parts();
        let some = |page: &Value| page["items"].as_array().is_some_and(|items| !items.is_empty());
        let page = self.until(&format!("/events?type={kind}"), some).await?;
        if data.is_empty() {
            return Ok(());
        }
        let path = format!("/events/{}", page["items"][0]["id"].as_str().unwrap_or_default());
        let event = self.scene.ask("GET", &path, None).await?;
        difference(&event["event"]["data"], &read(data)?).map_or(Ok(()), Err)
    }

    async fn children(&mut self, word: &Word) -> Done {
        let wanted = read(&word.rest)?;
        let path = format!("/instances/{}", self.scene.id()?);
        self.scene
            .until(&path, |instance| difference(&instance["children"], &wanted).is_none())
            .await
            .map(drop)
    }

    /// The schedule started as many instances, and none is due; the first of them is looked at further.
    async fn started(&mut self, word: &Word) -> Done {
        let count: usize = word.rest.parse().map_err(|_| "a number is wanted")?;
        let now = self.now().await?;
        let is_ahead =
            |page: &Value| time(&page["items"][0]["next_slot"]).is_none_or(|next| next.since(now).0 > 0);
        self.until("/schedules", is_ahead).await?;
        let name = read(&self.scene.definition)?["document"]["name"].as_str().unwrap_or_default().to_owned();
        let items = |page: &Value| page["items"].as_array().map_or(0, Vec::len);
        let path = format!("/instances?name={name}");
        let page = self.until(&path, |page| items(page) == count).await?;
        let first = page["items"].as_array().and_then(|items| items.last());
        self.scene.instance = first.and_then(|first| first["id"].as_str()).map(str::to_owned);
        self.scene.result = None;
        Ok(())
    }

    /// Asks for something until it is as wanted; the error says what it is instead.
    async fn until(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value, String> {
        match timeout(PATIENCE_FOR_ONE, self.scene.until(path, wanted)).await {
            Ok(said) => said,
            Err(_) => {
                let last = self.scene.ask("GET", path, None).await?;
                Err(format!("{path} did not become as wanted; it is {last}"))
            }
        }
    }

    /// What the tenant's clock says.
    async fn now(&self) -> Result<Time, String> {
        let clock = self.scene.ask("GET", "/dev/clock", None).await?;
        time(&clock["now"]).ok_or_else(|| "the clock has no time".to_owned())
    }

    /// The commands after the example, in a folder that has its documents.
    async fn scripts(&mut self) -> Done {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        for document in &self.example.documents {
            let name = read(document)?["document"]["name"].as_str().unwrap_or_default().to_owned();
            std::fs::write(folder.path().join(format!("{name}.yaml")), document)
                .map_err(|error| error.to_string())?;
        }
        for script in &self.example.scripts {
            let instance = self.scene.instance.clone().unwrap_or_default();
            let script = format!("set -e\n{}", script.replace("INSTANCE", &instance));
            let said = shell(folder.path(), &self.scene.home.any().url, &self.scene.key, &script).await;
            if said.code != Some(0) {
                return Err(format!("the commands after it failed: {}{}", said.stdout, said.stderr));
            }
        }
        Ok(())
    }
}

fn time(value: &Value) -> Option<Time> {
    value.as_str().and_then(Time::parse_rfc3339)
}

/// The name of a step; of a saga's step its number too.
fn name(reference: &str) -> String {
    let mut parts = reference.rsplit('/');
    match (parts.next().unwrap_or_default(), parts.next()) {
        (last @ ("do" | "undo"), Some(number)) => format!("{number}/{last}"),
        (last, _) => last.to_owned(),
    }
}
