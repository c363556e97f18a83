//! A secret with a value of its own is used in every way there is; afterwards the value is looked for everywhere.

use crate::engine::*;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use std::{
    path::Path,
    sync::{Arc, Mutex},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

const CANARY: &str = "C4nary/+\u{fc}-9f8e7d6c5b4a";

/// Repeats whatever it is sent: in the body, in a header, with the status that the path names.
async fn echo(requests: Arc<Mutex<String>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let requests = requests.clone();
            tokio::spawn(async move {
                let mut bytes = vec![0; 65536];
                let mut filled = 0;
                while !is_whole(&bytes[..filled]) {
                    match socket.read(&mut bytes[filled..]).await {
                        Ok(0) | Err(_) => return,
                        Ok(count) => filled += count,
                    }
                }
                let text = String::from_utf8_lossy(&bytes[..filled]).into_owned();
                requests.lock().unwrap().push_str(&text);
                let answer = answer(&text);
                let _ = socket.write_all(answer.as_bytes()).await;
            });
        }
    });
    port
}

fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, _)) = text.split_once("\r\n\r\n") else { return false };
    let length = head
        .lines()
        .find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    bytes.len() >= head.len() + 4 + length.unwrap_or(0)
}

fn answer(text: &str) -> String {
    let path = text.split(' ').nth(1).unwrap_or_default();
    let (status, body) = if path.contains("/oauth2/token") {
        ("200 OK", json!({ "access_token": format!("token-{CANARY}"), "expires_in": 1 }).to_string())
    } else if path.contains("refused") {
        ("400 Bad Request", json!({ "error": CANARY, "error_description": text }).to_string())
    } else if path.contains("fail") {
        ("422 Unprocessable", format!("{} {text}", "x".repeat(480)))
    } else if text.contains("text/plain") {
        ("200 OK", text.to_owned())
    } else {
        ("200 OK", json!({ "echo": text, "again": [CANARY, STANDARD.encode(CANARY)] }).to_string())
    };
    let kind = if body.starts_with('{') { "application/json" } else { "text/plain" };
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nx-echo: {}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        STANDARD.encode(CANARY),
        body.len()
    )
}

/// One step per way to use the secret, all in one `try` each so that failing ones do not end the instance.
fn document(port: u16) -> String {
    let here = format!("http://127.0.0.1:{port}");
    let policy = |policy: &str| {
        format!(
            "{{ method: get, endpoint: {{ uri: '{here}/auth', authentication: {policy} }}, output: response }}"
        )
    };
    let steps = [
        (
            "header",
            format!(
                "{{ method: get, endpoint: '{here}/a', headers: {{ X-Key: '${{ $secrets.text }}' }}, output: response }}"
            ),
        ),
        (
            "query",
            format!(
                "{{ method: get, endpoint: '{here}/a', query: {{ q: '${{ $secrets.text }}' }}, output: response }}"
            ),
        ),
        (
            "path",
            format!("{{ method: get, endpoint: '${{ \"{here}/\\($secrets.text)\" }}', output: response }}"),
        ),
        (
            "body",
            format!(
                "{{ method: post, endpoint: '{here}/a', body: {{ all: '${{ $secrets.login }}', t: '${{ \"<\\($secrets.text)>\" }}' }} }}"
            ),
        ),
        (
            "raw",
            format!(
                "{{ method: post, endpoint: '{here}/a', output: raw, headers: {{ Accept: text/plain }}, body: '${{ $secrets.text }}' }}"
            ),
        ),
        (
            "fails",
            format!("{{ method: post, endpoint: '{here}/fail', body: {{ t: '${{ $secrets.text }}' }} }}"),
        ),
        ("basic", policy("{ basic: { use: login } }")),
        ("basic-inline", policy("{ basic: { username: ann, password: '${ $secrets.login.password }' } }")),
        ("bearer", policy("{ bearer: { use: text } }")),
        ("digest", policy("{ digest: { use: login } }")),
        (
            "token",
            policy(&format!(
                "{{ oauth2: {{ authority: '{here}', client: {{ id: me, secret: '${{ $secrets.text }}' }} }} }}"
            )),
        ),
        (
            "refused",
            policy(&format!(
                "{{ oauth2: {{ authority: '{here}/refused', endpoints: {{ token: /refused }}, client: {{ id: me, secret: '${{ $secrets.text }}' }} }} }}"
            )),
        ),
    ];
    let mut text = "document: { dsl: '1.0.3', namespace: test, name: canary, version: '1.0.0' }\nuse: { secrets: [ text, login ] }\ndo:\n".to_owned();
    for (name, with) in steps {
        text.push_str(&format!(
            "- try-{name}:\n    try: [ {{ {name}: {{ call: http, with: {with}, export: {{ as: '${{ {{ {name:?}: . }} }}' }} }} }} ]\n    catch: {{ as: problem, do: [ {{ told: {{ set: {{ problem: '${{ $problem }}' }} }} }} ] }}\n"
        ));
    }
    let last = format!("{{ method: post, endpoint: '{here}/fail', body: '${{ $secrets.text }}' }}");
    text.push_str(&format!("- last: {{ call: http, with: {last} }}\n"));
    text
}

/// The value and everything it could look like.
fn forms() -> Vec<String> {
    let percent: String = CANARY
        .bytes()
        .map(|byte| {
            if byte.is_ascii_alphanumeric() || byte == b'-' {
                (byte as char).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect();
    let json = serde_json::to_string(CANARY).unwrap().trim_matches('"').to_owned();
    let ascii = json.replace('\u{fc}', "\\u00fc");
    let mut forms =
        vec![CANARY.to_owned(), percent.to_lowercase(), percent, json, ascii, CANARY[8..].to_owned()];
    // Base64 looks different at each of three offsets; the characters at the edges depend on what is around.
    for before in ["", "a", "ab"] {
        let encoded = STANDARD.encode(format!("{before}{CANARY}"));
        let encoded = encoded.trim_end_matches('=');
        forms.push(encoded[before.len().div_ceil(1) * 4 / 3 + 1..encoded.len() - 2].to_owned());
        forms.push(forms.last().unwrap().replace('+', "-").replace('/', "_"));
    }
    forms
}

fn look(place: &str, text: &[u8]) {
    for form in forms() {
        let found = text.windows(form.len()).position(|part| part == form.as_bytes());
        if let Some(at) = found {
            let around = &text[at.saturating_sub(120)..(at + 120).min(text.len())];
            panic!("{place} holds the secret as {form:?}: …{}…", String::from_utf8_lossy(around));
        }
    }
}

fn look_in_files(folder: &Path) -> usize {
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files += look_in_files(&path);
        } else {
            look(&path.display().to_string(), &std::fs::read(&path).unwrap());
            files += 1;
        }
    }
    files
}

async fn set(engine: &Engine, name: &str, value: Value) {
    let request = engine.request("PUT", &format!("/secrets/{name}")).json(&json!({ "value": value }));
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 201);
    look("the answer to setting it", answer.text().await.unwrap().as_bytes());
}

#[tokio::test]
async fn a_secret_is_nowhere_but_where_it_was_sent() {
    let home = tempfile::tempdir().unwrap();
    let requests = Arc::new(Mutex::new(String::new()));
    let port = echo(requests.clone()).await;
    let log = home.path().join("log");
    let engine = Engine::start_logged(home.path(), &["up", "--port", "0", "-o", "json"], "trace", &log).await;
    set(&engine, "text", json!(CANARY)).await;
    set(&engine, "login", json!({ "username": "ann", "password": CANARY })).await;
    engine.deploy(&document(port)).await;
    let id = engine.start_instance("canary", json!({})).await;
    let result = engine.result(&id).await;
    assert_eq!(result["status"], "faulted", "{result}");
    assert_eq!(result["error"]["status"], 422);
    // It really went out, in every form.
    let sent = requests.lock().unwrap().clone();
    let percent = "C4nary%2F%2B%C3%BC-9f8e7d6c5b4a";
    for wanted in [CANARY, percent, &STANDARD.encode(format!("ann:{CANARY}")), &format!("token-{CANARY}")] {
        assert!(sent.contains(wanted), "{wanted} was never sent");
    }
    assert!(sent.contains("client_secret=C4nary%2F%2B%C3%BC-9f8e7d6c5b4a"));
    let wrong = engine.request("PUT", "/secrets/x").header("Content-Type", "application/json");
    let wrong = wrong.body(format!("{{\"value\": \"{CANARY}\", oops")).send().await.unwrap();
    assert_eq!(wrong.status(), 400);
    look("the answer to a broken body", wrong.text().await.unwrap().as_bytes());
    let bad = engine.request("PUT", "/secrets/a%20b").json(&json!({ "value": CANARY })).send().await.unwrap();
    assert_eq!(bad.status(), 400);
    look("the answer to a bad name", bad.text().await.unwrap().as_bytes());
    let paths = [
        format!("/instances/{id}"),
        format!("/instances/{id}/history"),
        format!("/instances/{id}/result"),
        "/instances".to_owned(),
        "/tasks".to_owned(),
        "/dead-letters".to_owned(),
        "/secrets".to_owned(),
        "/definitions/test/canary".to_owned(),
        "/me".to_owned(),
    ];
    for path in paths {
        look(&path, engine.get(&path).await.to_string().as_bytes());
    }
    let cli = engine.cli(&["secret", "list", "--trace"]).await;
    look("the command line", format!("{}{}", cli.stdout, cli.stderr).as_bytes());
    let history = engine.get(&format!("/instances/{id}/history")).await.to_string();
    assert!(history.contains("[secret "), "something was blotted out");
    let (status, rest) = engine.terminate().await;
    assert!(status.success());
    look("stdout", rest.as_bytes());
    assert!(std::fs::metadata(&log).unwrap().len() > 10_000, "there is a log to look at");
    assert!(look_in_files(home.path()) >= 3);
}

#[tokio::test]
async fn secrets_by_command_line() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    let file = home.path().join("value.txt");
    std::fs::write(&file, "t0p-secret\n").unwrap();
    let made = engine
        .cli(&[
            "secret",
            "set",
            "api-key",
            "--file",
            "value.txt",
            "--host",
            "api.example.com",
            "--trace",
            "-o",
            "json",
        ])
        .await;
    assert!(!made.stderr.contains("t0p-secret"), "{}", made.stderr);
    let made = made.json();
    assert_eq!(
        (&made["name"], &made["version"], &made["hosts"]),
        (&json!("api-key"), &json!(1), &json!(["api.example.com"]))
    );
    let listed = engine.cli(&["secret", "list", "-o", "json"]).await.json();
    assert_eq!(listed["items"][0]["name"], "api-key");
    engine.cli(&["secret", "delete", "api-key"]).await.ok();
    assert_eq!(engine.cli(&["secret", "delete", "api-key"]).await.code, Some(3));
    let key = std::fs::metadata(home.path().join("windlass-data/secrets-key")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&key.permissions()) & 0o777, 0o600);
}

#[tokio::test]
async fn egress_flags_are_checked_at_the_start() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("bad.pem"), "nothing").unwrap();
    for (args, said_part) in [
        (["--egress-resolve", "nonsense"], "HOST:PORT=ADDRESS"),
        (["--egress-allow-private", "10.0.0.0/99"], "no range of addresses"),
        (["--egress-proxy", "socks5://p"], "is no proxy"),
        (["--egress-ca", "bad.pem"], "bad.pem"),
        (["--egress-ca", "missing.pem"], "missing.pem"),
    ] {
        for command in ["up", "serve"] {
            let mut process = binary(home.path());
            process.arg(command).args(args);
            let outcome = said(process).await;
            assert_eq!(outcome.code, Some(2), "{command} {args:?}: {}", outcome.stderr);
            assert!(outcome.stderr.contains(said_part), "{command} {args:?}: {}", outcome.stderr);
        }
    }
}

#[tokio::test]
async fn serve_calls_nothing_private_unless_told_to() {
    let requests = Arc::new(Mutex::new(String::new()));
    let port = echo(requests.clone()).await;
    let text = format!(
        "document: {{ dsl: '1.0.3', namespace: test, name: near, version: '1.0.0' }}\ndo: [ {{ c: {{ call: http, with: {{ method: get, endpoint: 'http://127.0.0.1:{port}/' }} }} }} ]"
    );
    for (allowed, status) in [(false, "faulted"), (true, "completed")] {
        let home = tempfile::tempdir().unwrap();
        let mut args = vec!["serve", "-o", "json"];
        if allowed {
            args.extend(["--egress-allow-private", "127.0.0.0/8"]);
        }
        std::fs::write(home.path().join("c.toml"), "[server]\nlisten = '127.0.0.1:0'\n").unwrap();
        args.extend(["--config", "c.toml"]);
        let mut engine = Engine::start(home.path(), &args).await;
        engine.key = engine.line["platform_key"].as_str().unwrap().to_owned();
        engine.cli(&["tenant", "create", "acme"]).await.ok();
        let made = engine
            .cli(&["key", "create", "--tenant", "acme", "--name", "a", "--role", "admin", "-o", "json"])
            .await
            .json();
        engine.key = made["secret"].as_str().unwrap().to_owned();
        engine.deploy(&text).await;
        let id = engine.start_instance("near", json!({})).await;
        assert_eq!(engine.result(&id).await["status"], status);
        let refused =
            engine.request("PUT", "/secrets/a").json(&json!({ "value": "v" })).send().await.unwrap();
        assert_eq!(refused.status(), 409, "serve makes no key of its own");
    }
    assert_eq!(requests.lock().unwrap().matches("GET / ").count(), 1);
}
