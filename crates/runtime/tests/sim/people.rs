//! People: those who answer tasks, and the operators who pause, resume and cancel.

use super::{clients::PATIENCE, time, world::World};
use machine::Data;
use runtime::api::{Order, Refusal, TaskAct};
use std::time::Duration;
use store::{Store, rows::TaskRow, views::*};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

const PEOPLE: [&str; 2] = ["ann", "bob"];

impl World {
    /// Answers the instance's tasks until it has ended; some are left too long.
    pub(crate) async fn people(&self, instance: Option<Uuid>) {
        let Some(instance) = instance else { return };
        loop {
            sleep(Duration::from_millis(100 + self.chaos.below(900))).await;
            if matches!(self.status(instance).await.as_str(), "completed" | "cancelled") {
                return;
            }
            let filter = TaskFilter { instance: Some(instance), ..TaskFilter::default() };
            let page = Page { after: None, limit: 10 };
            let tasks =
                self.store.tasks(&self.tenant, &filter, &page).await.expect("the inner store answers");
            let Some(task) = tasks.iter().find(|task| task.ended_at.is_none()) else { continue };
            match self.chaos.below(4) {
                0 => {}
                1 => self.claim(task).await,
                _ if self.chaos.strikes(self.chaos.levels.rivals) => {
                    tokio::join!(self.complete(task, PEOPLE[0]), self.complete(task, PEOPLE[1]));
                }
                _ => {
                    let anybody = PEOPLE[self.chaos.below(2) as usize];
                    let holder = PEOPLE.into_iter().find(|name| task.assignee.as_deref() == Some(name));
                    self.complete(task, holder.unwrap_or(anybody)).await;
                }
            }
        }
    }

    /// Somebody takes the task, or gives it back.
    async fn claim(&self, task: &TaskRow) {
        let somebody = PEOPLE[self.chaos.below(2) as usize];
        match &task.assignee {
            None => self.act(task, somebody, TaskAct::Claim, "assigned").await,
            Some(_) => self.act(task, somebody, TaskAct::Release, "released").await,
        }
    }

    async fn complete(&self, task: &TaskRow, actor: &'static str) {
        sleep(Duration::from_millis(self.chaos.below(3))).await;
        let result = Data::map([("by".to_owned(), Data::text(actor))]);
        self.act(task, actor, TaskAct::Complete { result }, "completed").await;
    }

    async fn act(&self, task: &TaskRow, actor: &'static str, act: TaskAct, event: &'static str) {
        let node = self.any_node().await;
        let answer = timeout(PATIENCE, node.act_on_task(&self.tenant, task.id, act, actor, None)).await;
        if matches!(answer, Ok(Ok(_))) {
            self.chaos.note(format_args!("{actor} did {event} on {}", task.id));
            self.seen.lock().acts.push((task.id, event, actor));
        }
    }

    /// Sometimes pauses and resumes the instance, or cancels it.
    pub(crate) async fn operator(&self, instance: Uuid) {
        let wait = Duration::from_millis(self.chaos.below(3500));
        if self.chaos.strikes(self.chaos.levels.cancel) {
            sleep(wait).await;
            self.cancel(instance).await;
        } else if self.chaos.strikes(self.chaos.levels.pause) {
            sleep(wait).await;
            self.order(instance, Order::Pause).await;
            sleep(Duration::from_millis(self.chaos.below(2500))).await;
            while self.status(instance).await == "paused" {
                self.order(instance, Order::Resume).await;
                sleep(Duration::from_millis(self.chaos.below(200))).await;
            }
        }
    }

    /// Asks until the cancellation is acknowledged or it is too late for one.
    async fn cancel(&self, instance: Uuid) {
        self.seen.lock().cancel_asked.insert(instance);
        loop {
            match self.order(instance, Order::Cancel).await {
                Some(Ok(status)) if status == "cancelled" => {
                    self.chaos.note(format_args!("{instance} is cancelled"));
                    self.seen.lock().cancelled.insert(instance, time::now());
                    return;
                }
                Some(Ok(status)) if status == "cancelling" => {
                    self.seen.lock().cancelling.insert(instance);
                    sleep(Duration::from_millis(20 + self.chaos.below(200))).await;
                }
                Some(Err(Refusal::Conflict { .. })) => return,
                _ => sleep(Duration::from_millis(20 + self.chaos.below(200))).await,
            }
        }
    }

    /// `None` if there was no answer.
    pub(crate) async fn order(&self, instance: Uuid, order: Order) -> Option<Result<String, Refusal>> {
        let node = self.any_node().await;
        timeout(PATIENCE, node.order(&self.tenant, instance, order, "sim")).await.ok()
    }

    pub(crate) async fn status(&self, instance: Uuid) -> String {
        let view = self.store.instance(&self.tenant, instance).await.expect("the inner store answers");
        view.map(|view| view.row.status).unwrap_or_default()
    }
}
