//! The document's own name and version, and what it declares for the whole definition.

use super::{Lowering, expression::Site, list::Targets};
use crate::{
    ir::Lifecycle,
    language::{
        names::{self, nearest},
        source::At,
    },
};

/// The newest version of the language this engine knows.
const DSL_MAX: (u64, u64, u64) = (1, 0, 3);
/// What may stand under `document.metadata.windlass`.
const OWN_KEYS: &[&str] = &["lifecycleEvents", "missed", "timeZone"];

#[derive(Default)]
pub(super) struct Header {
    pub dsl: String,
    pub namespace: String,
    pub name: String,
    pub version: String,
    pub title: Option<String>,
    pub summary: Option<String>,
}

impl<'t> Lowering<'t, '_> {
    /// Reads `document`, and reports what this engine does not do with the definition as a whole.
    pub(super) fn header(&mut self) -> Header {
        if let Some(evaluate) = self.root.get("evaluate") {
            self.evaluate(evaluate);
        }
        let Some(document) = self.root.get("document") else { return Header::default() };
        let text = |key| document.get(key).and_then(At::text).map(str::to_owned);
        self.dsl(document);
        self.label(document, "namespace");
        self.label(document, "name");
        self.version(document);
        Header {
            dsl: text("dsl").unwrap_or_default(),
            namespace: text("namespace").unwrap_or_default(),
            name: text("name").unwrap_or_default(),
            version: text("version").unwrap_or_default(),
            title: text("title"),
            summary: text("summary"),
        }
    }

    fn dsl(&mut self, document: At<'_>) {
        let Some((at, text)) = document.get("dsl").and_then(|at| Some((at, at.text()?))) else { return };
        let (major, minor, patch) = DSL_MAX;
        let newest = format!("{major}.{minor}.{patch}");
        match names::version(text) {
            None => {
                let message = format!("the version of the language, `{text}`, is not a semantic version");
                self.error(at.place(), "bad-version", message, Some(format!("write `dsl: '{newest}'`")));
            }
            Some(version) if version > DSL_MAX => {
                let message =
                    format!("version {text} of the language is newer than {newest}, the newest known here");
                let hint = format!("write `dsl: '{newest}'` and use only what that version has");
                self.error(at.place(), "unknown-dsl", message, Some(hint));
            }
            Some((0, _, _)) => {
                let message =
                    format!("version {text} of the language is older than 1.0.0, the oldest known here");
                let hint = format!("convert the document and write `dsl: '{newest}'`");
                self.error(at.place(), "unknown-dsl", message, Some(hint));
            }
            Some(_) => {}
        }
    }

    fn label(&mut self, document: At<'_>, key: &str) {
        let Some((at, text)) = document.get(key).and_then(|at| Some((at, at.text()?))) else { return };
        if !names::is_label(text) {
            let message = format!("the {key} `{text}` is not a DNS label");
            let hint = "use at most 63 letters, digits and `-`, with a letter or digit at both ends";
            self.error(at.place(), "bad-name", message, Some(hint.to_owned()));
        }
    }

    fn version(&mut self, document: At<'_>) {
        let Some((at, text)) = document.get("version").and_then(|at| Some((at, at.text()?))) else { return };
        if names::version(text).is_none() {
            let message = format!("the version `{text}` is not a semantic version");
            self.error(
                at.place(),
                "bad-version",
                message,
                Some("write three numbers, such as `1.0.0`".to_owned()),
            );
        }
    }

    fn evaluate(&mut self, evaluate: At<'_>) {
        if let Some(language) = evaluate.get("language").filter(|language| language.text() != Some("jq")) {
            let what = format!("expressions in `{}`", language.text().unwrap_or_default());
            self.unsupported(language.place(), &what);
        }
    }

    /// Checks what `use` declares, also what nothing uses.
    pub(super) fn check_definitions(&mut self) {
        let Some(declared) = self.root.get("use") else { return };
        let group = |key: &str| declared.get(key).into_iter().flat_map(At::entries);
        for (name, function) in group("functions") {
            self.look(|dry| {
                dry.functions.push(name);
                let reference = function.pointer();
                dry.step(name, function, reference, &Targets::none());
            });
        }
        for (_, error) in group("errors") {
            self.look(|dry| {
                dry.raised(error);
            });
        }
        for (_, timeout) in group("timeouts") {
            self.look(|dry| {
                dry.delay_in(timeout, "after", Site::Body);
            });
        }
        for (_, authentication) in group("authentications") {
            self.look(|dry| {
                dry.policy(authentication);
            });
        }
        for (_, catalog) in group("catalogs").filter(|(name, _)| *name == "default") {
            let message = "the catalog `default` is the engine's own and cannot be declared".to_owned();
            self.error(catalog.key_place(), "reserved-name", message, Some("choose another name".to_owned()));
        }
        self.check_retries(declared);
        if let Some(extensions) = declared.get("extensions") {
            self.check_extensions(extensions);
        }
    }

    /// Which changes of its instances the definition wants told.
    pub(super) fn lifecycle(&mut self) -> Lifecycle {
        let own = self.root.get("document").and_then(|document| document.get("metadata")?.get("windlass"));
        for (key, at) in own.into_iter().flat_map(At::entries).filter(|(key, _)| !OWN_KEYS.contains(key)) {
            let message = format!("`{key}` means nothing to this engine");
            let hint = match nearest(key, OWN_KEYS.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("it knows {}", OWN_KEYS.join(", ")),
            };
            self.warn(at.key_place(), "unknown-key", message, &hint);
        }
        let wanted = own.and_then(|own| own.get("lifecycleEvents"));
        match wanted.map(|at| (at, at.text())) {
            None | Some((_, Some("none"))) => Lifecycle::None,
            Some((_, Some("workflow"))) => Lifecycle::Workflow,
            Some((_, Some("all"))) => Lifecycle::All,
            Some((at, _)) => {
                let message = "`lifecycleEvents` must be none, workflow or all".to_owned();
                self.error(at.place(), "bad-value", message, None);
                Lifecycle::None
            }
        }
    }
}
