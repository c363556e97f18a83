//! TLS to the database: a real server with certificates made on the spot.

use crate::fixture::*;
use machine::Time;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::fs;
use store::{postgres::*, *};

/// A server, and PEM files: the root that signed its certificate and a client's, and another root that signed nothing.
struct World {
    folder: tempfile::TempDir,
    server: scratch::Server,
}

/// Who may connect how: nobody without TLS, the application only with a certificate of its own.
const HBA: &str = "local all all trust
hostssl all windlass_app 127.0.0.1/32 trust clientcert=verify-full
hostssl all all 127.0.0.1/32 trust
";

fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate and its key as PEM.
fn signed(by: &CertifiedIssuer<'static, KeyPair>, name: &str, hosts: &[&str]) -> (String, String) {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = CertificateParams::new(hosts).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().unwrap();
    (params.signed_by(&key, by).unwrap().pem(), key.serialize_pem())
}

/// A server of its own; `None`, said loudly, without PostgreSQL on this machine.
fn world() -> Option<World> {
    scratch::database()?;
    let (root, stranger) = (authority("root"), authority("stranger"));
    let (certificate, key) = signed(&root, "server", &["localhost"]);
    let (client, client_key) = signed(&root, "windlass_app", &[]);
    let folder = tempfile::tempdir().unwrap();
    let files = [
        ("root.pem", root.pem()),
        ("stranger.pem", stranger.pem()),
        ("client.pem", client),
        ("client.key", client_key),
    ];
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let secure = scratch::Secure { certificate, key, authority: root.pem(), hba: HBA.to_owned() };
    let server = scratch::Server::start_secure(&secure).unwrap();
    Some(World { folder, server })
}

impl World {
    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).to_string_lossy().replace('/', "%2F")
    }

    /// The owner's URL with a host and a query.
    fn url(&self, database: &scratch::Database, host: &str, query: &str) -> String {
        format!("{}?{query}", database.owner_url.replace("127.0.0.1", host))
    }
}

async fn refused(url: &str) -> String {
    match migrate(url, None).await {
        Ok(_) => panic!("{url} was let in"),
        Err(err) => err.to_string(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_is_looked_at_as_closely_as_was_asked() {
    let Some(world) = world() else { return };
    let database = world.server.database().unwrap();
    let (root, stranger) = (world.file("root.pem"), world.file("stranger.pem"));
    let url = |host: &str, query: &str| world.url(&database, host, query);
    // As strictly as can be: the right authority and the right host.
    migrate(&url("localhost", &format!("sslmode=verify-full&sslrootcert={root}")), None).await.unwrap();
    let text = refused(&url("localhost", &format!("sslmode=verify-full&sslrootcert={stranger}"))).await;
    assert!(text.contains("UnknownIssuer"), "{text}");
    let text = refused(&url("127.0.0.1", &format!("sslmode=verify-full&sslrootcert={root}"))).await;
    assert!(text.contains("not valid for name"), "{text}");
    let text = refused(&url("localhost", "sslmode=verify-full")).await;
    assert!(text.contains("certificate"), "{text}");
    // The authority alone.
    migrate(&url("127.0.0.1", &format!("sslmode=verify-ca&sslrootcert={root}")), None).await.unwrap();
    let text = refused(&url("127.0.0.1", &format!("sslmode=verify-ca&sslrootcert={stranger}"))).await;
    assert!(text.contains("UnknownIssuer"), "{text}");
    let text = refused(&url("localhost", &format!("sslmode=require&sslrootcert={stranger}"))).await;
    assert!(text.contains("UnknownIssuer"), "{text}");
    // Whoever answers, as long as nobody else reads it.
    for query in ["sslmode=require", "sslmode=prefer", ""] {
        migrate(&url("127.0.0.1", query), None).await.unwrap();
    }
    let text = refused(&url("127.0.0.1", "sslmode=disable")).await;
    assert!(text.contains("no encryption"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_connection_of_a_node_is_secure_and_shows_its_certificate() {
    let Some(world) = world() else { return };
    let database = world.server.database().unwrap();
    migrate(&database.owner_url, Some(database.application)).await.unwrap();
    let url = database.url.replace("127.0.0.1", "localhost");
    let verified = format!("{url}?sslmode=verify-full&sslrootcert={}", world.file("root.pem"));
    let without = match Postgres::open(&verified).await {
        Ok(_) => panic!("a node without a certificate was let in"),
        Err(err) => err.to_string(),
    };
    assert!(without.contains("certificate"), "{without}");
    let own = format!("{verified}&sslcert={}&sslkey={}", world.file("client.pem"), world.file("client.key"));
    let store = Postgres::open(&own).await.unwrap();
    // Lease, writers, readers, and the channel of hints: the server lets in nobody without TLS.
    store.join(node(1), Time(0), LEASE_MS).await.unwrap();
    store.renew(node(1), Time(0), LEASE_MS).await.unwrap();
    assert_eq!(store.commit(node(1), vec![commit(vec![create(1)])]).await.unwrap(), [Outcome::Committed]);
    assert!(store.load(&acme(), id(1)).await.unwrap().is_some());
    let (hints, patience) = (store.hints(), std::time::Duration::from_secs(60));
    let heard = tokio::time::timeout(patience, hints.heard()).await.expect("the channel connects");
    assert_eq!(heard, Hint::everything(), "it listens");
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_it_is_required() {
    let Some(database) = scratch::database() else { return };
    let text = refused(&format!("{}?sslmode=require", database.owner_url)).await;
    assert!(text.contains("TLS"), "{text}");
    migrate(&format!("{}?sslmode=disable", database.owner_url), None).await.unwrap();
}
