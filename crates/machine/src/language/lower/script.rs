//! `run.script`: JavaScript, if the operator allows it.

use super::{Lowering, expression::Site};
use crate::{
    ir::{Call, Kind, Returned, Script},
    language::source::At,
};

impl<'t> Lowering<'t, '_> {
    /// The script `process` of the `run` object at `run`.
    pub(super) fn script(&mut self, run: At<'t>, process: At<'t>) -> Kind {
        if let Some(language) = process.get("language")
            && !matches!(language.text(), Some("js" | "javascript"))
        {
            let message = format!("scripts in `{}` are not run", language.text().unwrap_or_default());
            return self.refused(language.place(), "`run.script`", &message, "write it in `js`");
        }
        let Some(code) = process.get("code").and_then(At::text) else {
            let Some(source) = process.get("source") else { return Kind::Do { list: Vec::new() } };
            self.look(|dry| dry.resource(source));
            let message = "scripts from elsewhere are not run";
            return self.refused(source.key_place(), "`run.script`", message, "write the script into `code`");
        };
        let arguments = process.get("arguments").into_iter().flat_map(At::items);
        let arguments = arguments.map(|argument| self.template(argument, Site::Body)).collect();
        let environment = process.get("environment");
        let environment = environment.map(|all| self.members(all, Site::Body)).unwrap_or_default();
        let script = Script {
            code: code.to_owned(),
            arguments,
            environment,
            stdin: self.template_in(process, "stdin", Site::Body),
            awaited: run.get("await").and_then(At::flag).unwrap_or(true),
            returned: run.get("return").and_then(At::text).and_then(Returned::of).unwrap_or_default(),
        };
        if !self.dry {
            self.report.script(process.key_place());
        }
        Kind::Call { call: Call::Script(script) }
    }
}
