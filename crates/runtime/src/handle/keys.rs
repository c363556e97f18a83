//! Making API keys.

use super::{Answer, Handle, unexpected};
use crate::api::NewKey;
use machine::{TenantId, Time};
use store::{Outcome, Write, rows::KeyRow};

impl Handle {
    /// Makes a key, good until `expires_at` if that is given; only its hash is stored.
    pub async fn create_key(
        &self,
        tenant: &TenantId,
        name: &str,
        roles: &[String],
        expires_at: Option<Time>,
    ) -> Answer<NewKey> {
        self.create_key_for(tenant, name, roles, (expires_at, None)).await
    }

    /// The same for a key that acts for a user: of records it reaches what that user may.
    pub async fn create_key_for(
        &self,
        tenant: &TenantId,
        name: &str,
        roles: &[String],
        (expires_at, subject): (Option<Time>, Option<&str>),
    ) -> Answer<NewKey> {
        use sha2::{Digest, Sha256};
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let id = hex(&self.engine.entropy.bytes16()[..8]);
        let secret = hex(&[self.engine.entropy.bytes16(), self.engine.entropy.bytes16()].concat());
        let row = KeyRow {
            id: id.clone(),
            name: name.to_owned(),
            hash: Sha256::digest(secret.as_bytes()).to_vec(),
            roles: crate::rows::to_json(&roles),
            created_at: self.engine.now(),
            expires_at,
            revoked_at: None,
            subject: subject.map(str::to_owned),
        };
        match self.commit(tenant, vec![Write::CreateKey(row)]).await? {
            Outcome::Committed => Ok(NewKey { id, secret }),
            other => Err(unexpected(&other)),
        }
    }
}
