//! Steps that start another instance: `run.workflow` and `child:1.0.0@default`.
//!
//! Starting is a call like any other, made by the engine itself: the commit that takes the call's row creates the
//! child. The wait stands for the child until it ends, or until it has started if nobody waits for its end.

use super::{
    Ran, Turn,
    body::kind_of,
    eval::{Stop, affordable},
};
use crate::{
    child::{self, Awaited, Close, NESTING_MAX, Outcome, Parent, START, StartCall, Until, Workflow},
    command::Effect,
    data::Data,
    fault::{Fault, Kind},
    id,
    ir::Step,
    state::{Next, ROOT, Wait, WaitKind},
};

/// One child to be started.
pub(super) struct Wanted {
    pub(super) workflow: Workflow,
    pub(super) input: Data,
    pub(super) key: Option<String>,
    pub(super) close: Close,
    pub(super) until: Until,
}

impl Turn<'_> {
    pub(super) fn start_child(&mut self, branch: u32, step: &Step, wanted: Wanted) -> Result<(), Stop> {
        let Wanted { workflow, input, key, close, until } = wanted;
        affordable(&input)?;
        // Going on as another instance is no deeper: it may do so for ever.
        let depth = self.depth_below()? - u32::from(until == Until::Continued);
        let call_key = self.effect_key(branch, step);
        let token = self.add_wait(branch, WaitKind::Child, None);
        self.mark_begun(branch, token);
        let awaited = Awaited {
            instance: id::derive(self.subject.instance, token),
            workflow: workflow.clone(),
            close,
            started: false,
            until,
        };
        self.state.waits.last_mut().expect("just added").child = Some(Box::new(awaited));
        let tell = until == Until::Ended;
        let parent = Parent { instance: self.subject.instance, token, depth, tell, item: None };
        let input = child::to_data(&StartCall { workflow, input, parent, key });
        self.effects.push(self.own_call(token, START, call_key, &step.reference, input));
        Ok(())
    }

    /// How deep a child of this instance would be.
    pub(super) fn depth_below(&self) -> Result<u32, Stop> {
        let depth = self.state.parent.as_ref().map_or(0, |parent| parent.depth) + 1;
        match depth > NESTING_MAX {
            true => {
                let detail = format!("instances start instances more than {NESTING_MAX} levels deep");
                Err(Stop::Fault(Fault::new(Kind::Configuration, detail)))
            }
            false => Ok(depth),
        }
    }

    /// What `child:1.0.0@default` was asked for.
    pub(super) fn wanted_child(&self, with: &Data) -> Result<Wanted, Fault> {
        let text = |key: &str| with.get(key).and_then(|value| value.as_str().map(str::to_owned));
        let flag = |key: &str| with.get(key).is_some_and(|value| value.is_true());
        let close = match with.get("onParentClose") {
            None => Close::default(),
            Some(word) => word.as_str().and_then(Close::parse).ok_or_else(|| {
                invalid(format!("onParentClose must be cancel, abandon or wait, it is {word:?}"))
            })?,
        };
        let until = match (flag("continueWith"), flag("detached")) {
            (true, _) => Until::Continued,
            (false, true) => Until::Detached,
            (false, false) => Until::Ended,
        };
        Ok(Wanted {
            workflow: workflow_of(with)?,
            input: with.get("input").unwrap_or_else(Data::object),
            key: text("id").filter(|key| !key.is_empty()),
            close,
            until,
        })
    }

    /// The child is there. A second time changes nothing.
    pub(super) fn child_started(&mut self, token: u64) -> bool {
        let Some(position) = self.state.waits.iter().position(|wait| wait.token == token) else {
            return false;
        };
        let wait = &mut self.state.waits[position];
        let Some(child) = wait.child.as_mut().filter(|child| !child.started) else { return false };
        child.started = true;
        let (branch, child) = (wait.branch, child.clone());
        let shown = Data::text(id::show(id::Kind::Instance, child.instance));
        let detail = Data::map([("child".to_owned(), shown.clone())]);
        let step = self.state.branch(branch).and_then(|branch| branch.frames.last()?.step);
        self.note("child.started", step, Some(detail));
        let (output, then) = match child.until {
            Until::Ended => return true,
            Until::Started => (self.top(branch).input().clone(), None),
            Until::Detached => (Data::map([("id".to_owned(), shown)]), None),
            Until::Continued => (Data::map([("id".to_owned(), shown)]), Some(crate::ir::Then::End)),
        };
        self.state.waits.remove(position);
        self.push(branch, Next::Complete { output, then });
        true
    }

    /// The child ended: so does the wait for it.
    pub(super) fn child_done(&mut self, token: u64, outcome: &Outcome) -> Ran<bool> {
        let Some(wait) = self.take_wait(token, WaitKind::Child) else { return Ok(false) };
        let ended = |child: &Awaited| Data::text(id::show(id::Kind::Instance, child.instance));
        let detail = wait.child.as_deref().map(|child| Data::map([("child".to_owned(), ended(child))]));
        if wait.frame == 0 {
            self.note("child.ended", None, detail);
            self.settle_end();
            return Ok(true);
        }
        let step = self.top(wait.branch).step;
        self.note("child.ended", step, detail);
        match (outcome, outcome.fault()) {
            (Outcome::Completed { output }, _) => {
                self.push(wait.branch, Next::Complete { output: output.clone(), then: None });
            }
            (_, fault) => self.fail(wait.branch, fault.expect("what did not complete has a fault"))?,
        }
        Ok(true)
    }

    /// The step no longer waits for its child. Answers the wait if the instance has to outlive the child.
    pub(super) fn close_child(&mut self, mut wait: Wait) -> Option<Wait> {
        let child = wait.child.as_deref()?;
        match (child.started, child.close) {
            // Its row goes with the wait, so it will not start any more.
            (false, _) => self.effects.push(Effect::DropCall { token: wait.token }),
            (true, Close::Abandon) => {}
            (true, Close::Cancel) => self.effects.push(Effect::CloseChild { child: child.instance }),
            (true, Close::Wait) => {
                (wait.branch, wait.frame) = (ROOT, 0);
                return Some(wait);
            }
        }
        None
    }

    /// The parent no longer waits for this instance.
    pub(super) fn parent_closed(&mut self) -> Ran<bool> {
        let Some(parent) = &mut self.state.parent else { return Ok(false) };
        let heard = std::mem::replace(&mut parent.tell, false);
        Ok(self.cancel()? || heard)
    }

    /// Tells the parent how this instance ended, once.
    pub(super) fn tell_parent(&mut self) {
        use crate::state::Status;
        let outcome = match (self.state.status, &self.state.error) {
            (Status::Completed, _) => {
                Outcome::Completed { output: self.state.output.clone().unwrap_or_default() }
            }
            (Status::Faulted, Some(error)) => Outcome::Faulted { error: error.clone() },
            (Status::Faulted | Status::Cancelled, _) => Outcome::Cancelled {},
            (Status::Open | Status::Paused, _) => return,
        };
        if let Some(parent) = self.state.parent.as_mut().filter(|parent| parent.tell) {
            parent.tell = false;
            self.effects.push(Effect::TellParent(Box::new(((**parent).clone(), outcome))));
        }
    }
}

/// The definition that `with.workflow` names.
pub(super) fn workflow_of(with: &Data) -> Result<Workflow, Fault> {
    let workflow = with.get("workflow").unwrap_or_default();
    let part = |key: &str| -> Result<String, Fault> {
        let value = workflow.get(key).unwrap_or_default();
        match value.as_str() {
            Some(text) if !text.is_empty() => Ok(text.to_owned()),
            _ => Err(invalid(format!("workflow.{key} must be a text, it is {}", kind_of(&value)))),
        }
    };
    Ok(Workflow { namespace: part("namespace")?, name: part("name")?, version: part("version")? })
}

pub(super) fn invalid(detail: String) -> Fault {
    Fault::new(Kind::Validation, detail)
}
