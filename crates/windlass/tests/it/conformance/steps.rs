//! What the words of a scenario mean.

use super::{
    compare::{difference, difference_of_members, member},
    scene::Scene,
};
use machine::{Time, time::Span};
use serde_json::{Value, json};

type Done = Result<(), String>;

/// YAML or JSON as a value.
pub(crate) fn read(text: &str) -> Result<Value, String> {
    let data = machine::language::data(text.as_bytes(), machine::language::Format::Yaml);
    data.map(|data| data.to_json()).map_err(|problem| format!("{}: {}", problem.line, problem.message))
}

/// The step's text block, without its media type.
fn block(step: &gherkin::Step) -> Result<String, String> {
    let text = step.docstring.as_deref().ok_or("the step needs a text block")?;
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let is_type = matches!(first.trim(), "yaml" | "json" | "text" | "");
    Ok(if is_type { rest.to_owned() } else { text.to_owned() })
}

fn value(step: &gherkin::Step) -> Result<Value, String> {
    let text = block(step)?;
    read(&text)
}

/// The parts in single quotes.
fn quoted(text: &str) -> Vec<&str> {
    text.split('\'').skip(1).step_by(2).collect()
}

fn check(difference: Option<String>) -> Done {
    difference.map_or(Ok(()), Err)
}

pub(crate) async fn play(scene: &mut Scene, step: &gherkin::Step) -> Done {
    let text = step.value.trim();
    let text = text.strip_prefix("given ").unwrap_or(text);
    let names = quoted(text);
    match text {
        "a workflow with definition:" => {
            scene.definition = block(step)?;
            Ok(())
        }
        "a deployed workflow with definition:" => match scene.deploy(&block(step)?).await? {
            Ok(_) => Ok(()),
            Err(refusal) => Err(format!("it was refused: {refusal}")),
        },
        "the workflow input is:" => {
            scene.input = value(step)?;
            Ok(())
        }
        "the workflow is executed" | "the workflow is started" => scene.start().await,
        "the workflow is waiting" => waiting(scene, "waiting").await,
        "the workflow is cancelled"
        | "the workflow is paused"
        | "the workflow is resumed"
        | "the workflow is retried" => ordered(scene, text.rsplit(' ').next().unwrap_or_default()).await,
        _ if text.starts_with("the signal ") => {
            let path = format!("/instances/{}/signals/{}", scene.id()?, names[0]);
            scene.ask("POST", &path, Some(&value(step)?)).await?;
            scene.acted().await;
            Ok(())
        }
        _ if text.starts_with("the task ") && text.ends_with("is completed with:") => {
            complete(scene, |task| task["title"] == names[0], &value(step)?).await
        }
        _ => then(scene, step, text, &names).await,
    }
}

pub(crate) async fn waiting(scene: &Scene, status: &str) -> Done {
    let path = format!("/instances/{}", scene.id()?);
    scene.until(&path, |instance| instance["status"] == status).await.map(drop)
}

async fn ordered(scene: &mut Scene, done: &str) -> Done {
    let verb = match done {
        "cancelled" => "cancel",
        "paused" => "pause",
        "resumed" => "resume",
        _ => "retry",
    };
    order(scene, verb).await
}

pub(crate) async fn order(scene: &mut Scene, verb: &str) -> Done {
    if verb == "retry" {
        waiting(scene, "faulted").await?;
    }
    scene.ask("POST", &format!("/instances/{}/{verb}", scene.id()?), None).await?;
    scene.acted().await;
    Ok(())
}

/// Completes the open task of the instance that is wanted.
pub(crate) async fn complete(scene: &mut Scene, wanted: impl Fn(&Value) -> bool, result: &Value) -> Done {
    let path = format!("/tasks?instance={}", scene.id()?);
    let open = |task: &Value| wanted(task) && task["ended_at"].is_null();
    let find =
        |tasks: &Value| tasks["items"].as_array().and_then(|all| all.iter().find(|task| open(task)).cloned());
    let tasks = scene.until(&path, |tasks| find(tasks).is_some()).await?;
    let task = find(&tasks).ok_or("the task is gone")?;
    let path = format!("/tasks/{}", task["id"].as_str().unwrap_or_default());
    scene.ask("POST", &format!("{path}/claim"), None).await?;
    scene.ask("POST", &format!("{path}/complete"), Some(&json!({ "result": result }))).await?;
    scene.acted().await;
    Ok(())
}

async fn then(scene: &mut Scene, step: &gherkin::Step, text: &str, names: &[&str]) -> Done {
    match text {
        "the workflow should complete" => ended(scene, "completed").await.map(drop),
        "the workflow should complete with output:" => {
            let result = ended(scene, "completed").await?;
            check(difference(&result["output"], &value(step)?))
        }
        "the workflow should fault" => ended(scene, "faulted").await.map(drop),
        "the workflow should fault with error:" => {
            let result = ended(scene, "faulted").await?;
            check(difference_of_members(&result["error"], &value(step)?))
        }
        "the workflow should be cancelled" => ended(scene, "cancelled").await.map(drop),
        "the workflow should be refused" => ended(scene, "refused").await.map(drop),
        "the workflow context should be:" => {
            ended(scene, "completed").await?;
            check(difference(&scene.show().await?["context"], &value(step)?))
        }
        _ if text.starts_with("the workflow should be ") => {
            waiting(scene, text.rsplit(' ').next().unwrap_or_default()).await
        }
        _ if text.starts_with("the workflow output should have properties") => {
            let output = ended(scene, "completed").await?["output"].clone();
            match names.iter().find(|path| member(&output, path).is_none()) {
                None => Ok(()),
                Some(missing) => Err(format!("there is no {missing} in {output}")),
            }
        }
        _ if text.starts_with("the workflow output should have a ") => {
            let output = ended(scene, "completed").await?["output"].clone();
            let found = member(&output, names[0]).ok_or(format!("there is no {} in {output}", names[0]))?;
            check(difference(found, &value(step)?))
        }
        _ if text.starts_with("the workflow should last at least") => lasted(scene, names[0]).await,
        _ if text.starts_with("the definition should be refused") => refused(scene, names),
        _ if text.contains(" should ") => ran(scene, text).await,
        _ => Err("nobody knows what this means".to_owned()),
    }
}

pub(crate) async fn ended(scene: &mut Scene, status: &str) -> Result<Value, String> {
    let result = scene.end().await?;
    match result["status"] == status {
        true => Ok(result),
        false => Err(format!("it did not end {status}: {result}")),
    }
}

async fn lasted(scene: &mut Scene, length: &str) -> Done {
    scene.end().await?;
    let shown = scene.show().await?;
    let time =
        |key: &str| shown[key].as_str().and_then(Time::parse_rfc3339).ok_or(format!("no {key} in {shown}"));
    let lasted = time("ended_at")?.since(time("created_at")?);
    let wanted = Span::parse_iso8601(length).ok_or("the length is not ISO 8601")?;
    if lasted >= wanted { Ok(()) } else { Err(format!("it lasted only {} ms", lasted.as_millis())) }
}

/// The first name is the code of a problem, further ones are parts of what is said.
fn refused(scene: &Scene, names: &[&str]) -> Done {
    let refusal = scene.refusal.as_ref().ok_or("the definition was accepted")?;
    let said = refusal.to_string();
    match names.iter().find(|part| !said.contains(**part)) {
        None => Ok(()),
        Some(missing) => Err(format!("{missing:?} is not said: {said}")),
    }
}

/// The steps that began, in order.
pub(crate) async fn began(scene: &Scene) -> Result<Vec<String>, String> {
    let history = scene.history().await?;
    let began = history.iter().filter(|event| event["kind"] == "step.started");
    Ok(began.filter_map(|event| event["step"].as_str()).map(str::to_owned).collect())
}

/// `X should run`, `first`, `last`, `after Y`, `N times`; `X should not run`.
async fn ran(scene: &mut Scene, text: &str) -> Done {
    let (name, rest) = text.split_once(" should ").unwrap_or((text, ""));
    if name != "the saga" {
        scene.end().await?;
    }
    let began = began(scene).await?;
    let is = |step: &String, name: &str| step.ends_with(&format!("/{name}"));
    let position = |name: &str| began.iter().position(|step| is(step, name));
    let count = began.iter().filter(|step| is(step, name)).count();
    let words: Vec<&str> = rest.split(' ').collect();
    let holds = match words.as_slice() {
        ["run", "first"] => position(name) == Some(0),
        ["run", "last"] => began.last().is_some_and(|step| is(step, name)),
        ["run", "after", other] => {
            matches!((position(other), began.iter().rposition(|step| is(step, name))), (Some(a), Some(b)) if a < b)
        }
        ["run"] => count > 0,
        ["run", "once"] => count == 1,
        ["run", times, "times"] => times.parse() == Ok(count),
        ["not", "run"] => count == 0,
        _ => return Err("nobody knows what this means".to_owned()),
    };
    if holds { Ok(()) } else { Err(format!("the steps that ran: {began:?}")) }
}
