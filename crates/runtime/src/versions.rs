//! Versions of definitions: comparing them, asking which instances fit, moving instances.
//!
//! The machine decides whether and how ([`machine::version`]); here instances are read in pages and moved one turn
//! each, so that a move is a commit like any other.

use crate::{
    api::{DefinitionRef, Migration, MigrationFilter, Moves, Preflight, Refusal, Unfit},
    definitions::Missing,
    engine::Engine,
    handle::{Answer, Handle},
    library, refusal,
    slots::Cached,
    turn::{self, Work},
};
use machine::{
    Command, Decision, Program, TenantId, language,
    state::OPEN_WORDS,
    version::{self, Fit, Mapping, Plan},
};
use std::{collections::HashMap, sync::Arc};
use store::views::{InstanceFilter, InstanceView, PAGE_MAX, Page};
use uuid::Uuid;

/// Instances looked at by one pre-flight; the answer says where to go on.
pub(crate) const CHECKED_MAX: usize = 10_000;
/// Instances moved by one request.
pub(crate) const MOVED_MAX: usize = 1_000;
/// Examples and distinct reasons kept of each sort.
const EXAMPLES_MAX: usize = 10;
const REASONS_MAX: usize = 100;

/// The program and decision of a move; no decision if the instance is in that version already.
pub(crate) async fn moved(
    engine: &Engine,
    tenant: &TenantId,
    current: &Cached,
    wanted: &str,
    mapping: &Mapping,
) -> Answer<(Arc<Program>, Option<Decision>)> {
    let ir = &current.program.ir;
    if ir.version == wanted {
        return Ok((current.program.clone(), None));
    }
    let program = exact(engine, tenant, &ir.namespace, &ir.name, wanted).await?;
    match Plan::new(&current.program, &program, mapping).migrate(&current.state) {
        Ok(decision) => Ok((program, Some(decision))),
        Err(fit) => Err(Refusal::Conflict { code: "does-not-fit", detail: reasons(&fit), existing: None }),
    }
}

async fn exact(
    engine: &Engine,
    tenant: &TenantId,
    namespace: &str,
    name: &str,
    version: &str,
) -> Answer<Arc<Program>> {
    let wanted = DefinitionRef {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        version: Some(version.to_owned()),
    };
    engine.definitions.resolve(tenant, &wanted).await
}

/// Why an instance does not fit, in one line.
fn reasons(fit: &Fit) -> String {
    match fit {
        Fit::Safe => "it fits".to_owned(),
        Fit::NeedsMapping { references } => {
            let needs = references.iter().map(|need| format!("{} ({})", need.reference, need.why));
            format!("a mapping is needed for {}", needs.collect::<Vec<_>>().join(", "))
        }
        Fit::Breaks { reasons } => reasons.join("; "),
    }
}

impl Handle {
    /// What changed between two deployed versions: by default the newest one, and the one before it.
    pub async fn diff(
        &self,
        tenant: &TenantId,
        namespace: &str,
        name: &str,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Answer<version::Diff> {
        let wanted = DefinitionRef {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            version: to.map(str::to_owned),
        };
        let new = self.engine.definitions.resolve(tenant, &wanted).await?;
        let from = match from {
            Some(from) => from.to_owned(),
            None => {
                let all = self.engine.store.versions(tenant, namespace, name).await;
                let all = all.map_err(refusal::of_store)?;
                let older = all.iter().skip_while(|row| row.version != new.ir.version).nth(1);
                older.map_or_else(|| new.ir.version.clone(), |row| row.version.clone())
            }
        };
        let old = exact(&self.engine, tenant, namespace, name, &from).await?;
        Ok(version::diff(&old.ir, &new.ir))
    }

    /// The deployed version as a document written from what is executed.
    pub async fn decompiled(&self, tenant: &TenantId, wanted: &DefinitionRef) -> Answer<String> {
        let program = self.engine.definitions.resolve(tenant, wanted).await?;
        Ok(language::decompile(&program.ir))
    }

    /// The program of a document that is not deployed.
    pub async fn compiled(&self, source: &[u8], format: language::Format) -> Answer<Arc<Program>> {
        let invalid =
            |detail: String, problems| Refusal::Invalid { code: "definition-invalid", detail, problems };
        let compiled = library::compile(&self.engine, source, format).await?;
        Program::new(compiled.workflow).map(Arc::new).map_err(|error| invalid(error.to_string(), vec![]))
    }

    /// The program of a deployed version.
    pub async fn program(&self, tenant: &TenantId, wanted: &DefinitionRef) -> Answer<Arc<Program>> {
        self.engine.definitions.resolve(tenant, wanted).await
    }

    /// Which instances of other versions could go on in `new`.
    pub async fn preflight(
        &self,
        tenant: &TenantId,
        new: &Arc<Program>,
        from: Option<&str>,
        mapping: &Mapping,
        after: Option<Uuid>,
    ) -> Answer<Preflight> {
        let mut answer = Preflight::default();
        let filter = live(&new.ir.namespace, &new.ir.name, from);
        let mut programs = HashMap::new();
        let mut after = after;
        let mut looked = 0;
        loop {
            let page = Page { after, limit: PAGE_MAX.min(CHECKED_MAX - looked) };
            let found =
                self.engine.store.instances(tenant, &filter, &page).await.map_err(refusal::of_store)?;
            for view in &found {
                if view.row.version != new.ir.version {
                    self.check(tenant, view, new, mapping, &mut programs, &mut answer).await?;
                }
            }
            looked += found.len();
            after = found.last().map(|view| view.row.id);
            if found.len() < page.limit {
                return Ok(answer);
            }
            if looked >= CHECKED_MAX {
                answer.next = after;
                return Ok(answer);
            }
        }
    }

    async fn check(
        &self,
        tenant: &TenantId,
        view: &InstanceView,
        new: &Arc<Program>,
        mapping: &Mapping,
        programs: &mut HashMap<String, Arc<Program>>,
        answer: &mut Preflight,
    ) -> Answer<()> {
        let row = &view.row;
        let loaded = self.engine.store.load(tenant, row.id).await.map_err(refusal::of_store)?;
        let Some(loaded) = loaded else { return Ok(()) };
        let old = match programs.get(&loaded.version) {
            Some(program) => program.clone(),
            None => {
                let found = self.engine.definitions.exact(tenant, &row.namespace, &row.name, &loaded.version);
                match found.await {
                    Ok(program) => programs.entry(loaded.version.clone()).or_insert(program).clone(),
                    Err(Missing::Store(error)) => return Err(refusal::of_store(error)),
                    Err(Missing::Unknown | Missing::Unusable(_) | Missing::Newer(_)) => {
                        let why = "its own version cannot be read".to_owned();
                        answer.add(row.id, &loaded.version, Fit::Breaks { reasons: vec![why] });
                        return Ok(());
                    }
                }
            }
        };
        let fit = match machine::snapshot::read(&old, &loaded.state_json) {
            Ok(state) => Plan::new(&old, new, mapping).fit(&state),
            Err(error) => Fit::Breaks { reasons: vec![error.to_string()] },
        };
        answer.add(row.id, &loaded.version, fit);
        Ok(())
    }

    /// Moves one instance to another version. Answers its status word; a dry run changes nothing.
    pub async fn migrate(
        &self,
        tenant: &TenantId,
        instance: Uuid,
        migration: &Migration,
        actor: &str,
    ) -> Answer<String> {
        if migration.dry_run {
            return self.would_migrate(tenant, instance, migration).await;
        }
        let command =
            Command::Migrate { version: migration.version.clone(), mapping: migration.mapping.clone() };
        let expected = migration.expected;
        let work =
            Work { actor: Some(actor.to_owned()), expected, ..Work::new(tenant.clone(), instance, command) };
        let turned = turn::ask(&self.engine, work).await?;
        tracing::info!(%tenant, %instance, actor, version = migration.version, "migrated");
        Ok(turned.status.to_owned())
    }

    async fn would_migrate(
        &self,
        tenant: &TenantId,
        instance: Uuid,
        migration: &Migration,
    ) -> Answer<String> {
        let loaded = self.engine.store.load(tenant, instance).await.map_err(refusal::of_store)?;
        let loaded = loaded.ok_or_else(|| Refusal::NotFound("instance".to_owned()))?;
        let old = exact(&self.engine, tenant, &loaded.namespace, &loaded.name, &loaded.version).await?;
        let state = machine::snapshot::read(&old, &loaded.state_json).map_err(|error| Refusal::Conflict {
            code: "turn-failed",
            detail: error.to_string(),
            existing: None,
        })?;
        let status = state.status_word().to_owned();
        let current = Cached { version: loaded.state_version, state: Arc::new(state), program: old };
        moved(&self.engine, tenant, &current, &migration.version, &migration.mapping).await.map(|_| status)
    }

    /// Moves the instances a filter finds, at most [`MOVED_MAX`] of them, each by itself.
    pub async fn migrate_many(
        &self,
        tenant: &TenantId,
        filter: &MigrationFilter,
        migration: &Migration,
        actor: &str,
    ) -> Answer<Moves> {
        let new = exact(&self.engine, tenant, &filter.namespace, &filter.name, &migration.version).await?;
        let live = live(&filter.namespace, &filter.name, filter.from.as_deref());
        let mut answer = Moves::default();
        let mut after = filter.after;
        let mut looked = 0;
        let limit = filter.limit.clamp(1, MOVED_MAX);
        loop {
            let page = Page { after, limit: PAGE_MAX.min(limit - looked) };
            let found = self.engine.store.instances(tenant, &live, &page).await.map_err(refusal::of_store)?;
            for view in found.iter().filter(|view| view.row.version != new.ir.version) {
                match self.migrate(tenant, view.row.id, migration, actor).await {
                    Ok(_) => answer.moved += 1,
                    Err(Refusal::Conflict { detail, .. }) => answer.refuse(view.row.id, detail),
                    // It ended and was purged meanwhile.
                    Err(Refusal::NotFound(_)) => {}
                    Err(refusal) => return Err(refusal),
                }
            }
            looked += found.len();
            after = found.last().map(|view| view.row.id);
            if found.len() < page.limit {
                return Ok(answer);
            }
            if looked >= limit {
                answer.next = after;
                return Ok(answer);
            }
        }
    }
}

/// Instances that may go on: also a faulted one, which may be run again.
fn live(namespace: &str, name: &str, version: Option<&str>) -> InstanceFilter {
    InstanceFilter {
        statuses: OPEN_WORDS.iter().chain([&"faulted"]).map(|word| (*word).to_owned()).collect(),
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        version: version.map(str::to_owned),
        ..InstanceFilter::default()
    }
}

impl Preflight {
    fn add(&mut self, id: Uuid, version: &str, fit: Fit) {
        self.checked += 1;
        let breaks = match &fit {
            Fit::Safe => {
                self.safe += 1;
                return;
            }
            Fit::NeedsMapping { references } => {
                self.needs_mapping += 1;
                references.iter().for_each(|need| tally(&mut self.needs, version, need));
                false
            }
            Fit::Breaks { reasons } => {
                self.breaks += 1;
                reasons.iter().for_each(|reason| tally(&mut self.reasons, version, reason));
                true
            }
        };
        if self.examples.iter().filter(|example| example.breaks() == breaks).count() < EXAMPLES_MAX {
            self.examples.push(Unfit { id, version: version.to_owned(), fit });
        }
    }
}

/// Counts one more of the same; beyond the limit only what is known already.
fn tally<T: Clone + PartialEq>(counts: &mut Vec<(String, T, u64)>, version: &str, item: &T) {
    let known = counts.iter().position(|(of, other, _)| of == version && other == item);
    match known {
        Some(position) => counts[position].2 += 1,
        None if counts.len() < REASONS_MAX => counts.push((version.to_owned(), item.clone(), 1)),
        None => {}
    }
}

impl Unfit {
    fn breaks(&self) -> bool {
        matches!(self.fit, Fit::Breaks { .. })
    }
}

impl Moves {
    fn refuse(&mut self, id: Uuid, why: String) {
        self.refused += 1;
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push((id, why));
        }
    }
}
