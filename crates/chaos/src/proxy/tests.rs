//! Every mode against a real peer on a real socket: it remembers what reached it and answers every COMMIT.

use super::{wire::Frames, *};
use parking_lot::Mutex;
use std::io::ErrorKind;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(30);

fn message(kind: u8, rest: &[u8]) -> Vec<u8> {
    let length = u32::try_from(rest.len() + 4).unwrap().to_be_bytes();
    [&[kind], &length[..], rest].concat()
}

fn startup() -> Vec<u8> {
    [&8u32.to_be_bytes()[..], &[0, 3, 0, 0]].concat()
}

/// A peer that answers each query by its own text, as a command that was carried out.
async fn peer() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noting = seen.clone();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let noting = noting.clone();
            tokio::spawn(async move {
                let mut frames = Frames::of_client();
                let mut chunk = [0; 1024];
                while let Ok(count @ 1..) = socket.read(&mut chunk).await {
                    for message in frames.take(&chunk[..count]) {
                        if message.bytes[0] != b'Q' {
                            continue;
                        }
                        let text = &message.bytes[5..];
                        noting.lock().push(String::from_utf8_lossy(&text[..text.len() - 1]).into_owned());
                        let answer = [super::tests::message(b'C', text), super::tests::message(b'Z', b"I")];
                        let _ = socket.write_all(&answer.concat()).await;
                    }
                }
            });
        }
    });
    (address, seen)
}

struct Client(TcpStream);

impl Client {
    async fn new(proxy: &Proxy) -> Client {
        let mut socket = TcpStream::connect(("127.0.0.1", proxy.port)).await.unwrap();
        socket.write_all(&startup()).await.unwrap();
        Client(socket)
    }

    async fn send(&mut self, text: &str) {
        self.0.write_all(&message(b'Q', format!("{text}\0").as_bytes())).await.unwrap();
    }

    /// The next bytes; the kind of error if there are none.
    async fn answer(&mut self) -> Result<Vec<u8>, ErrorKind> {
        let mut bytes = vec![0; 1024];
        let count = timeout(PATIENCE, self.0.read(&mut bytes)).await.expect("an answer or an end");
        match count {
            Ok(0) => Err(ErrorKind::UnexpectedEof),
            Ok(count) => Ok(bytes[..count].to_vec()),
            Err(error) => Err(error.kind()),
        }
    }
}

fn done(text: &str) -> Vec<u8> {
    [message(b'C', format!("{text}\0").as_bytes()), message(b'Z', b"I")].concat()
}

#[tokio::test]
async fn what_passes_is_not_changed() {
    let (address, seen) = peer().await;
    let proxy = Proxy::start(address).await.unwrap();
    let mut client = Client::new(&proxy).await;
    client.send("BEGIN").await;
    assert_eq!(client.answer().await.unwrap(), done("BEGIN"));
    assert_eq!(*seen.lock(), ["BEGIN"]);
}

#[tokio::test]
async fn a_commit_is_carried_out_and_its_reply_is_lost() {
    let (address, seen) = peer().await;
    let proxy = Proxy::start(address).await.unwrap();
    let mut client = Client::new(&proxy).await;
    proxy.set(Mode::LoseReply { one_in: 2 });
    client.send("BEGIN").await;
    assert_eq!(client.answer().await.unwrap(), done("BEGIN"));
    client.send("COMMIT").await;
    assert_eq!(client.answer().await.unwrap_err(), ErrorKind::ConnectionReset);
    assert_eq!(*seen.lock(), ["BEGIN", "COMMIT"], "the database has committed");
    let mut next = Client::new(&proxy).await;
    next.send("COMMIT").await;
    assert_eq!(next.answer().await.unwrap(), done("COMMIT"), "the second one of two is answered");
    assert_eq!(proxy.cuts(), 1);
}

#[tokio::test]
async fn a_commit_is_lost_on_its_way() {
    let (address, seen) = peer().await;
    let proxy = Proxy::start(address).await.unwrap();
    let mut client = Client::new(&proxy).await;
    proxy.set(Mode::LoseCommit { one_in: 1 });
    client.send("BEGIN").await;
    assert_eq!(client.answer().await.unwrap(), done("BEGIN"));
    client.send("COMMIT").await;
    assert_eq!(client.answer().await.unwrap_err(), ErrorKind::ConnectionReset);
    assert_eq!(*seen.lock(), ["BEGIN"], "the database never heard of it");
}

#[tokio::test]
async fn a_connection_is_cut_inside_a_message() {
    let (address, _) = peer().await;
    let proxy = Proxy::start(address).await.unwrap();
    let mut client = Client::new(&proxy).await;
    proxy.set(Mode::CutAfter(7));
    client.send("BEGIN").await;
    let mut got = Vec::new();
    let end = loop {
        match client.answer().await {
            Ok(bytes) => got.extend(bytes),
            Err(kind) => break kind,
        }
    };
    // A reset may overtake the last bytes; more than were allowed never arrive.
    assert_eq!(end, ErrorKind::ConnectionReset);
    assert!(done("BEGIN")[..7].starts_with(&got), "{got:?}");
}

#[tokio::test]
async fn what_is_stalled_is_neither_lost_nor_closed() {
    let (address, seen) = peer().await;
    let proxy = Proxy::start(address).await.unwrap();
    let mut client = Client::new(&proxy).await;
    client.send("ONE").await;
    assert_eq!(client.answer().await.unwrap(), done("ONE"));
    proxy.set(Mode::Stall);
    client.send("TWO").await;
    let mut late = Client::new(&proxy).await;
    late.send("THREE").await;
    let silence = timeout(Duration::from_millis(200), client.answer()).await;
    assert!(silence.is_err(), "no answer, no end");
    assert_eq!(*seen.lock(), ["ONE"]);
    proxy.set(Mode::Pass);
    assert_eq!(client.answer().await.unwrap(), done("TWO"));
    assert_eq!(late.answer().await.unwrap(), done("THREE"));
}

#[tokio::test]
async fn an_answer_is_late_by_what_was_asked_for() {
    let (address, _) = peer().await;
    let proxy = Proxy::start(address).await.unwrap();
    let mut client = Client::new(&proxy).await;
    proxy.set(Mode::Slow(Duration::from_millis(100)));
    let began = crate::clock::now_us();
    client.send("BEGIN").await;
    assert_eq!(client.answer().await.unwrap(), done("BEGIN"));
    assert!(crate::clock::now_us() - began >= 100_000);
}

#[tokio::test]
async fn a_reset_reaches_every_connection_and_no_later_one() {
    let (address, _) = peer().await;
    let proxy = Proxy::start(address).await.unwrap();
    let (mut one, mut two) = (Client::new(&proxy).await, Client::new(&proxy).await);
    for client in [&mut one, &mut two] {
        client.send("BEGIN").await;
        assert_eq!(client.answer().await.unwrap(), done("BEGIN"));
    }
    proxy.reset();
    for client in [&mut one, &mut two] {
        assert_eq!(client.answer().await.unwrap_err(), ErrorKind::ConnectionReset);
    }
    let mut next = Client::new(&proxy).await;
    next.send("BEGIN").await;
    assert_eq!(next.answer().await.unwrap(), done("BEGIN"));
}

#[tokio::test]
async fn what_is_cut_off_one_way_is_heard_and_not_answered() {
    let (address, seen) = peer().await;
    let proxy = Proxy::start(address).await.unwrap();
    let mut client = Client::new(&proxy).await;
    client.send("ONE").await;
    assert_eq!(client.answer().await.unwrap(), done("ONE"));
    proxy.set(Mode::OneWay);
    client.send("TWO").await;
    let silence = timeout(Duration::from_millis(200), client.answer()).await;
    assert!(silence.is_err(), "no answer, no end");
    assert_eq!(*seen.lock(), ["ONE", "TWO"], "it arrived");
    proxy.set(Mode::Pass);
    assert_eq!(client.answer().await.unwrap(), done("TWO"));
}

#[tokio::test]
async fn a_commit_is_held_before_its_answer_and_somebody_is_told() {
    for moment in [Moment::Asked, Moment::Answered] {
        let (address, seen) = peer().await;
        let proxy = Proxy::start(address).await.unwrap();
        let mut client = Client::new(&proxy).await;
        proxy.set(Mode::HoldCommit(moment));
        client.send("BEGIN").await;
        assert_eq!(client.answer().await.unwrap(), done("BEGIN"));
        client.send("COMMIT").await;
        timeout(PATIENCE, proxy.held()).await.expect("it is told of");
        if moment == Moment::Answered {
            assert_eq!(*seen.lock(), ["BEGIN", "COMMIT"], "the database has committed");
            let silence = timeout(Duration::from_millis(200), client.answer()).await;
            assert!(silence.is_err(), "the answer goes no further");
        }
        proxy.set(Mode::Pass);
        assert_eq!(client.answer().await.unwrap(), done("COMMIT"), "{moment:?}");
    }
}
