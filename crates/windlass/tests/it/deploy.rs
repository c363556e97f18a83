//! What `deploy/` tells the binary, the binary understands: names of settings, the chart's configuration, the unit of systemd,
//! the query that scales. What can be told without it is checked by `cargo xtask tidy`.

use crate::engine::{Said, binary, said};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// Names that are no settings: those of the command line, and those that the compose file gives another name.
const OTHERS: [&str; 5] =
    ["WINDLASS_URL", "WINDLASS_KEY", "WINDLASS_IMAGE", "WINDLASS_PUBLIC_URL", "WINDLASS_SECTION_KEY"];

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(deploy().join(path)).unwrap()
}

/// Every file below, with its text.
fn files(folder: &Path) -> Vec<(PathBuf, String)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| match path.is_dir() {
            true => files(&path),
            false => vec![(path.clone(), std::fs::read_to_string(&path).unwrap())],
        })
        .collect()
}

async fn print_config(args: &[&str]) -> Said {
    let home = tempfile::tempdir().unwrap();
    let mut command = binary(home.path());
    command.args(["serve", "--print-config"]).args(args);
    said(command).await
}

#[tokio::test]
async fn every_setting_that_is_named_is_one() {
    let printed = print_config(&[]).await.ok();
    let mut known: BTreeSet<String> = OTHERS.map(str::to_owned).into();
    let mut section = String::new();
    for line in printed.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_uppercase().replace('.', "_");
        } else if let Some((key, _)) = line.split_once(" = ") {
            known.insert(format!("WINDLASS_{section}_{}", key.to_uppercase()));
        }
    }
    assert!(known.len() > 30, "{printed}");
    // It seals secrets, so it is printed nowhere.
    known.insert("WINDLASS_SECRETS_KEY".to_owned());
    let mut seen = 0;
    for (path, text) in files(&deploy()) {
        for (at, _) in text.match_indices("WINDLASS_") {
            let end = text[at..].find(|c: char| !(c.is_ascii_uppercase() || c == '_')).map(|end| at + end);
            let name = &text[at..end.unwrap_or(text.len())];
            assert!(known.contains(name), "{}: there is no setting {name}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen}");
}

#[tokio::test]
async fn the_charts_configuration_is_taken() {
    let values = read("helm/windlass/values.yaml");
    let (_, rest) = values.split_once("\nconfig: |\n").expect("a configuration");
    let lines = rest.lines().take_while(|line| line.starts_with("  "));
    let config: String = lines.map(|line| format!("{}\n", &line[2..])).collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("windlass.toml");
    std::fs::write(&file, &config).unwrap();
    let printed = print_config(&["--config", file.to_str().unwrap()]).await.ok();
    assert!(printed.contains("format = \"json\""), "{printed}");
}

/// The flags that containers and units start the binary with are its own.
#[tokio::test]
async fn every_command_that_is_started_is_one() {
    let home = tempfile::tempdir().unwrap();
    for (args, file) in [
        (&["migrate", "--app-role", "windlass_app"][..], "compose/compose.yaml"),
        (&["migrate", "--app-role", "windlass_app"], "helm/windlass/templates/migrate.yaml"),
        (&["serve", "--config=/etc/windlass/windlass.toml"], "helm/windlass/templates/deployment.yaml"),
        (&["serve", "--config", "/etc/windlass/windlass.toml"], "systemd/windlass.service"),
        (&["api", "GET", "/readyz", "--url", "http://127.0.0.1:8400"], "compose/compose.yaml"),
        (&["api", "GET", "/healthz", "--url", "http://127.0.0.1:8400"], "container/Dockerfile"),
    ] {
        let text = read(file);
        for word in args.iter().filter(|word| !word.starts_with("windlass_")) {
            assert!(text.contains(word), "{file} does not say {word}");
        }
        let mut command = binary(home.path());
        command.args(args).arg("--help");
        assert!(said(command).await.ok().contains("Usage:"), "{args:?}");
    }
}

#[tokio::test]
#[allow(clippy::print_stderr, reason = "skipping must be seen")]
async fn the_unit_of_systemd_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("windlass.service");
    let text = read("systemd/windlass.service");
    assert!(text.contains("/usr/local/bin/windlass"));
    std::fs::write(&unit, text.replace("/usr/local/bin/windlass", env!("CARGO_BIN_EXE_windlass"))).unwrap();
    let mut verify = tokio::process::Command::new("systemd-analyze");
    verify.args(["verify", "--man=no"]).arg(&unit).env("SYSTEMD_LOG_LEVEL", "warning");
    let Ok(output) = verify.output().await else {
        return eprintln!("SKIPPED: systemd-analyze is not on this machine");
    };
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    // Other units of the machine are none of ours.
    let ours: Vec<&str> = words.lines().filter(|line| line.contains("windlass.service")).collect();
    assert_eq!(ours, [""; 0]);
}

/// The scaler's role counts what is due, of all tenants, and may do nothing else.
#[tokio::test]
async fn the_query_that_scales_counts_what_is_due() {
    let Some(database) = scratch::database() else { return };
    let home = tempfile::tempdir().unwrap();
    let mut migrate = binary(home.path());
    migrate.args(["migrate", "--store", &database.owner_url, "--app-role", database.application]);
    said(migrate).await.ok();
    let template = read("helm/windlass/templates/keda.yaml");
    let (_, rest) = template.split_once("query: >-\n").expect("a query");
    let (query, _) = rest.split_once("targetQueryValue").unwrap();
    database
        .ask(
            "INSERT INTO calls (tenant, instance, token, target, created_at, visible_at, attempt, envelope)
             SELECT 'acme', gen_random_uuid(), n, 't', 1, n, 0, '' FROM generate_series(1, 3) n;
             INSERT INTO deliveries (tenant, id, worker, created_at, visible_at, attempt, events)
             SELECT 'zoo', gen_random_uuid(), 'w', 1, n, 0, uuid_send(gen_random_uuid()) FROM generate_series(1, 4) n;
             INSERT INTO deliveries (tenant, id, worker, created_at, visible_at, attempt, events)
             VALUES ('zoo', gen_random_uuid(), 'w', 1, 9e15, 0, uuid_send(gen_random_uuid()))",
        )
        .unwrap();
    // As the chart's page tells people to make it.
    let readme = read("helm/windlass/README.md");
    let grant = readme.lines().find(|line| line.starts_with("GRANT SELECT ON")).expect("a grant");
    let role = database.url.rsplit('/').next().unwrap().replace("test_", "scaler_");
    database.ask(&format!("CREATE ROLE {role}; {}", grant.replace("windlass_scaler", &role))).unwrap();
    let counted = database.ask(&format!("SET ROLE {role}; SET windlass.tenants = '*'; {query}"));
    let refused = database.ask(&format!("SET ROLE {role}; SELECT count(*) FROM wf_instances"));
    database.ask(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).unwrap();
    assert_eq!(counted.unwrap(), "7");
    assert!(refused.is_err());
}
