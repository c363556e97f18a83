//! What only a real connection shows: heads out of bounds, endless bodies, clients that leave, a graceful stop.

use crate::harness::{HELLO, SLEEP, World};
use serde_json::json;
use server::Options;
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
};

struct Running {
    world: World,
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Result<(), server::Error>>,
}

async fn run() -> Running {
    let world = World::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let shutdown = async move {
        stopped.await.ok();
    };
    let served = tokio::spawn(server::serve(listener, world.node.handle(), Options::default(), shutdown));
    Running { world, address, stop, served }
}

impl Running {
    async fn connect(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream
    }

    fn head(&self, line: &str, more: &str) -> String {
        let token = self.world.token("acme", "admin");
        format!(
            "{line} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n{more}\r\n"
        )
    }
}

async fn read(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.ok();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn heads_out_of_bounds_are_answered() {
    let running = run().await;
    let many: String = (0..10_000).map(|at| format!("x-{at}: 1\r\n")).collect();
    let answer = read(running.connect(running.head("GET /healthz", &many).as_bytes()).await).await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    let some: String = (0..150).map(|at| format!("x-{at}: 1\r\n")).collect();
    let answer = read(running.connect(running.head("GET /healthz", &some).as_bytes()).await).await;
    assert!(answer.starts_with("HTTP/1.1 431") && answer.contains("headers-too-large"), "{answer}");
    let long = format!("GET /api/v1/me?{}", "x".repeat(20_000));
    let answer = read(running.connect(running.head(&long, "").as_bytes()).await).await;
    assert!(answer.starts_with("HTTP/1.1 414") && answer.contains("uri-too-long"), "{answer}");
}

#[tokio::test]
async fn oversized_bodies_are_answered_even_to_clients_that_write_first() {
    let running = run().await;
    let more = "Content-Type: application/json\r\nContent-Length: 67108864\r\n";
    let mut stream = running.connect(running.head("POST /api/v1/instances", more).as_bytes()).await;
    let chunk = vec![b' '; 1 << 20];
    for _ in 0..64 {
        stream.write_all(&chunk).await.unwrap();
    }
    let answer = read(stream).await;
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("body-too-large"), "{answer}");

    let more = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n";
    let mut stream = running.connect(running.head("POST /api/v1/instances", more).as_bytes()).await;
    let mut sent = 0usize;
    // Endless: it stops only because the server closes.
    while stream.write_all(b"10000\r\n").await.is_ok()
        && stream.write_all(&chunk[..1 << 16]).await.is_ok()
        && stream.write_all(b"\r\n").await.is_ok()
    {
        sent += 1 << 16;
        assert!(sent < 1 << 30, "the server reads without end");
    }
}

/// Clients that leave at any byte leave no half-done work: asking again with the same key ends in one instance each.
#[tokio::test]
async fn clients_that_leave_leave_nothing_half_done() {
    const CLIENTS: usize = 40;
    let running = run().await;
    running.world.deploy("hello", HELLO).await;
    let body = json!({"definition": {"namespace": "test", "name": "hello"}, "input": {"name": "x"}});
    let text = body.to_string();
    for at in 0..CLIENTS {
        let length = text.len();
        let more = format!(
            "Content-Type: application/json\r\nIdempotency-Key: leave-{at}\r\nContent-Length: {length}\r\n"
        );
        let request = running.head("POST /api/v1/instances", &more) + &text;
        // Every second client leaves right after its last byte, the others somewhere before.
        let sent = if at % 2 == 0 { request.len() } else { request.len() * at / CLIENTS };
        let stream = running.connect(&request.as_bytes()[..sent]).await;
        for _ in 0..at {
            tokio::task::yield_now().await;
        }
        drop(stream);
    }
    for at in 0..CLIENTS {
        let key = format!("leave-{at}");
        let again =
            running.world.post_with("/api/v1/instances", &[("idempotency-key", &key)], body.clone()).await;
        let id = again.ok(201)["id"].as_str().unwrap().to_owned();
        assert_eq!(running.world.result(&id).await["status"], "completed");
    }
    let all = running.world.get("/api/v1/instances?limit=200").await.ok(200);
    assert_eq!(all["items"].as_array().unwrap().len(), CLIENTS);
}

#[tokio::test]
async fn stopping_ends_what_waits_and_refuses_what_comes() {
    let running = run().await;
    running.world.deploy("sleep", SLEEP).await;
    let id = running.world.start("sleep", json!({})).await;
    let head = running.head(&format!("GET /api/v1/instances/{id}/result"), "Prefer: wait=60\r\n");
    let waiting = running.connect(head.as_bytes()).await;
    let mut stream = running.connect(running.head("GET /api/v1/stream", "").as_bytes()).await;
    // The stream's head shows that both requests are under way: they were sent in this order.
    let mut head = [0; 12];
    stream.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    let early = tokio::time::timeout(Duration::from_millis(200), waiting.readable()).await;
    assert!(early.is_err(), "the result is not there yet");
    let Running { stop, served, address, .. } = running;
    stop.send(()).unwrap();
    let answer = read(waiting).await;
    assert!(answer.starts_with("HTTP/1.1 202") && answer.contains("\"waiting\""), "{answer}");
    read(stream).await;
    tokio::time::timeout(Duration::from_secs(5), served).await.unwrap().unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}
