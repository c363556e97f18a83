//! Scripts: a call like any other, to the sandbox.

use super::{Turn, eval::Stop, eval::affordable};
use crate::{
    command::{SCRIPT, ScriptRequest},
    data::Data,
    ir::{Script, Step},
    state::WaitKind,
};

impl Turn<'_> {
    pub(super) fn begin_script(
        &mut self,
        branch: u32,
        step: &Step,
        script: &Script,
        input: &Data,
    ) -> Result<(), Stop> {
        let mut request = ScriptRequest {
            code: script.code.clone(),
            arguments: Vec::new(),
            environment: Vec::new(),
            stdin: String::new(),
            returned: script.returned,
        };
        for argument in &script.arguments {
            request.arguments.push(self.text(branch, argument, input)?);
        }
        for (name, value) in &script.environment {
            request.environment.push((name.clone(), self.text(branch, value, input)?));
        }
        if let Some(stdin) = &script.stdin {
            request.stdin = self.text(branch, stdin, input)?;
        }
        let payload = Data::from_json(serde_json::to_value(request).expect("a request is plain JSON"));
        affordable(&payload)?;
        let key = self.effect_key(branch, step);
        // Nothing waits for a script that is not awaited: its answer finds nobody and is dropped.
        let token = match script.awaited {
            true => self.add_wait(branch, WaitKind::Call, None),
            false => self.state.next_sequence(),
        };
        self.effects.push(self.own_call(token, SCRIPT, key, &step.reference, payload));
        if script.awaited { Ok(()) } else { self.done(branch, input.clone(), None) }
    }
}
