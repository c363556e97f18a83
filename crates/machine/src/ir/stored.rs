//! The stored form of the IR: how it is read, and which version it says it is.

use super::{Kind, Workflow};
use crate::newer;

/// Raised when a definition can mean what no build before could execute; older ones are upcast on load, newer ones refused.
pub const IR_VERSION: u32 = 2;

/// Since this version there are custom functions with a `$context` of their own.
const FUNCTIONS_SINCE: u32 = 2;

/// Why a stored IR cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    #[error("the definition was compiled by a newer build: {0}")]
    Newer(String),
    #[error("the definition is not readable: {0}")]
    Broken(String),
}

/// The lowest version that can execute the workflow: builds that read it need not know of anything newer.
pub fn version_of(workflow: &Workflow) -> u32 {
    let is_function = |kind: &Kind| matches!(kind, Kind::Function { .. });
    match workflow.steps.iter().any(|step| is_function(&step.kind)) {
        true => FUNCTIONS_SINCE,
        false => 1,
    }
}

/// Reads a stored IR, unless it says something that this build does not know.
pub fn read(stored: &[u8]) -> Result<Workflow, Unread> {
    let broken = |error: serde_json::Error| Unread::Broken(error.to_string());
    let json: serde_json::Value = serde_json::from_slice(stored).map_err(broken)?;
    // Before all else: what a newer version says need not have this shape.
    let version = json.get("ir_version").and_then(serde_json::Value::as_u64).unwrap_or_default();
    if version > u64::from(IR_VERSION) {
        return Err(Unread::Newer(format!("IR {version}, this build reads {IR_VERSION}")));
    }
    let workflow: Workflow =
        serde_json::from_slice(stored).map_err(|error| match newer::says_unknown(&error) {
            true => Unread::Newer(error.to_string()),
            false => broken(error),
        })?;
    match newer::lost(&json, &serde_json::to_value(&workflow).map_err(broken)?) {
        Some(pointer) => Err(Unread::Newer(format!("this build does not know {pointer}"))),
        None => Ok(workflow),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::{Format, compile};

    fn compiled(body: &str) -> Workflow {
        let text = format!("document: {{ dsl: '1.0.3', namespace: n, name: a, version: '1.0.0' }}\n{body}");
        compile(text.as_bytes(), Format::Yaml).expect("compiles").workflow
    }

    #[test]
    fn a_definition_says_no_higher_version_than_it_needs() {
        assert_eq!(compiled("do: [ { a: { set: { x: 1 } } } ]").ir_version, 1);
        let function = "use: { functions: { f: { set: { x: 1 } } } }\ndo: [ { a: { call: f } } ]";
        assert_eq!(compiled(function).ir_version, 2);
    }

    #[test]
    fn what_is_stored_reads_as_it_was() {
        let workflow =
            compiled("do: [ { a: { set: { x: 1, y: [] }, if: '${ .n > 0 }' } }, { b: { wait: PT5S } } ]");
        assert_eq!(read(&serde_json::to_vec(&workflow).unwrap()), Ok(workflow));
    }

    #[test]
    fn what_a_newer_build_says_is_told_from_what_is_damaged() {
        let stored = serde_json::to_value(compiled("do: [ { a: { set: { x: 1 } } } ]")).unwrap();
        let changed = |change: &dyn Fn(&mut serde_json::Value)| {
            let mut json = stored.clone();
            change(&mut json);
            read(&serde_json::to_vec(&json).unwrap()).unwrap_err()
        };
        let is_newer = |unread: Unread| matches!(unread, Unread::Newer(_));
        assert!(is_newer(changed(&|json| json["ir_version"] = 99.into())));
        assert!(is_newer(changed(&|json| json["steps"][0]["retried"] = 3.into())));
        assert!(is_newer(changed(&|json| json["steps"][0]["kind"] = serde_json::json!({ "dream": {} }))));
        assert!(!is_newer(changed(&|json| json["steps"] = "gone".into())));
        assert!(matches!(read(b"{"), Err(Unread::Broken(_))));
    }
}
