//! What is asked about records, their kinds, and groups of people.

use super::{Answer, Handle};
use crate::{
    api::{AclExplanation, Asker, RecordChange, RecordDraft},
    records,
};
use machine::{Data, TenantId, acl::Right, record::KeyDeclaration};
use std::collections::BTreeSet;
use store::{records::RecordView, rows::RecordKindRow};

impl Handle {
    /// Makes a record.
    pub async fn create_record(
        &self,
        tenant: &TenantId,
        asker: &Asker,
        draft: RecordDraft,
    ) -> Answer<RecordView> {
        records::create(&self.engine, tenant, asker, draft).await
    }

    /// The record, if whoever asks may read it.
    pub async fn record(&self, tenant: &TenantId, asker: &Asker, id: &str) -> Answer<RecordView> {
        records::read(&self.engine, tenant, asker, id).await
    }

    /// Changes a record and answers it as it is then. Those below it keep their lists until the new one reaches them.
    pub async fn change_record(
        &self,
        tenant: &TenantId,
        asker: &Asker,
        id: &str,
        change: &RecordChange,
    ) -> Answer<RecordView> {
        records::change(&self.engine, tenant, asker, id, change).await
    }

    /// Deletes a record that has nothing below it.
    pub async fn delete_record(
        &self,
        tenant: &TenantId,
        asker: &Asker,
        id: &str,
        version: Option<i64>,
    ) -> Answer<()> {
        records::delete(&self.engine, tenant, asker, id, version).await
    }

    /// Why somebody who is all of these may do this with a record, or may not.
    pub async fn explain_acl(
        &self,
        tenant: &TenantId,
        id: &str,
        names: &BTreeSet<String>,
        right: Right,
    ) -> Answer<AclExplanation> {
        records::explain(&self.engine, tenant, id, names, right).await
    }

    /// Makes or changes a kind of records. `true` if it is new.
    pub async fn put_record_kind(
        &self,
        tenant: &TenantId,
        name: &str,
        schema: Option<&Data>,
        keys: &[KeyDeclaration],
    ) -> Answer<bool> {
        records::put_kind(&self.engine, tenant, name, schema, keys).await
    }

    /// The keys that a kind declares.
    pub fn record_keys(&self, kind: &RecordKindRow) -> Vec<KeyDeclaration> {
        records::declared_keys(kind)
    }

    /// Forgets a kind that no record is of.
    pub async fn delete_record_kind(&self, tenant: &TenantId, name: &str) -> Answer<()> {
        records::delete_kind(&self.engine, tenant, name).await
    }

    /// Makes or replaces a group of users. `true` if it is new.
    pub async fn put_group(
        &self,
        tenant: &TenantId,
        name: &str,
        members: &BTreeSet<String>,
        roles: &BTreeSet<String>,
    ) -> Answer<bool> {
        records::put_group(&self.engine, tenant, name, members, roles).await
    }

    pub async fn delete_group(&self, tenant: &TenantId, name: &str) -> Answer<()> {
        records::delete_group(&self.engine, tenant, name).await
    }

    /// All that a user is: itself, the groups it is in, and the roles of those.
    pub async fn names_of(&self, tenant: &TenantId, user: &str) -> Answer<BTreeSet<String>> {
        records::names_of(&self.engine, tenant, user).await
    }
}
