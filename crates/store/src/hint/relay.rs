//! Hints over a connection that may break: [`Relay`] tells and hears through a [`Line`].

use super::{
    Hint, Hints,
    text::{self, Heard},
};
use async_trait::async_trait;
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::{sync::Notify, time::Instant};

/// Between two hints of one node.
const PAUSE: Duration = Duration::from_millis(50);
/// How often a silent line is asked whether it still passes words on.
const CHECK_EVERY: Duration = Duration::from_secs(60);
/// How long a server may take to answer, and to be connected to.
const ANSWER_MAX: Duration = Duration::from_secs(5);
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How long a lost line stays lost: doubled each time.
const RETRY_MIN: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// The way to a server that passes words on to all who listen there, the speaker included.
#[async_trait]
pub trait Line: Send + Sync + 'static {
    /// What hints go over, for the log: without a password.
    fn name(&self) -> String;

    /// Connects and begins to listen; the error says why not.
    async fn connect(&self) -> Result<(Box<dyn Speaker>, Box<dyn Listener>), String>;

    /// False if nothing can be heard on this line, only told.
    fn listens(&self) -> bool {
        true
    }

    /// Why what was said does not come back, as far as anybody can tell.
    fn unheard(&self) -> &'static str {
        "the server does not pass words on"
    }
}

#[async_trait]
pub trait Speaker: Send {
    /// Hands the words to the server; the error says why the line has ended.
    async fn say(&mut self, words: &str) -> Result<(), String>;
}

#[async_trait]
pub trait Listener: Send {
    /// The next words; the error says why the line has ended. Drives the connection if that needs driving.
    async fn hear(&mut self) -> Result<Vec<u8>, String>;
}

/// Tells and hears hints. Connects in the background, again and again: a node works without hints too.
pub struct Relay {
    shared: Arc<Shared>,
    running: tokio::task::AbortHandle,
}

struct Shared {
    /// Tells this relay's own words from those of others.
    mark: String,
    out: Mutex<Hint>,
    told: Notify,
    heard: Mutex<Hint>,
    hear: Notify,
    /// Own words came back.
    echoed: Notify,
}

impl Relay {
    pub fn open(line: impl Line) -> Relay {
        let shared = Arc::new(Shared {
            mark: text::mark(),
            out: Mutex::default(),
            told: Notify::new(),
            heard: Mutex::default(),
            hear: Notify::new(),
            echoed: Notify::new(),
        });
        let running = tokio::spawn(run(shared.clone(), line)).abort_handle();
        Relay { shared, running }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.running.abort();
    }
}

#[async_trait]
impl Hints for Relay {
    fn tell(&self, hint: Hint) {
        self.shared.out.lock().merge(hint);
        self.shared.told.notify_one();
    }

    async fn heard(&self) -> Hint {
        loop {
            let hint = std::mem::take(&mut *self.shared.heard.lock());
            if !hint.is_none() {
                return hint;
            }
            self.shared.hear.notified().await;
        }
    }
}

impl Shared {
    fn hears(&self, hint: Hint) {
        if !hint.is_none() {
            self.heard.lock().merge(hint);
            self.hear.notify_one();
        }
    }
}

/// Whether the line is there, as the log was told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    Nothing,
    Lost,
    Here,
}

async fn run(shared: Arc<Shared>, line: impl Line) {
    let mut wait = RETRY_MIN;
    let mut said = Said::Nothing;
    loop {
        let began = Instant::now();
        let why = serve(&shared, &line, &mut said).await;
        // One that lasted was sound: its end is an event, not a state.
        wait = if began.elapsed() > RETRY_MAX { RETRY_MIN } else { (wait * 2).min(RETRY_MAX) };
        let over = line.name();
        if said == Said::Lost {
            tracing::debug!(over, why, "hints to other nodes are still interrupted");
        } else {
            said = Said::Lost;
            tracing::warn!(
                over,
                why,
                "hints to other nodes are interrupted; the re-scan finds what they miss"
            );
        }
        pause(wait).await;
    }
}

/// Tells and hears over one connection until it ends; answers why.
async fn serve(shared: &Shared, line: &impl Line, said: &mut Said) -> String {
    let connected = tokio::time::timeout(CONNECT_MAX, line.connect()).await;
    let (mut speaker, mut listener) = match connected {
        Ok(Ok(connected)) => connected,
        Ok(Err(why)) => return why,
        Err(_) => return "the server does not answer".to_owned(),
    };
    // Neither is ever left half done: both go on until the line ends.
    tokio::select! {
        why = tell_on(shared, line, &mut *speaker, said) => why,
        why = hear_on(shared, &mut *listener) => why,
    }
}

async fn hear_on(shared: &Shared, listener: &mut dyn Listener) -> String {
    loop {
        match listener.hear().await {
            Ok(words) => match text::read(&words, &shared.mark) {
                Heard::Own => shared.echoed.notify_waiters(),
                Heard::Of(hint) => shared.hears(hint),
            },
            Err(why) => return why,
        }
    }
}

async fn tell_on(shared: &Shared, line: &impl Line, speaker: &mut dyn Speaker, said: &mut Said) -> String {
    if let Err(why) = check(shared, line, speaker).await {
        return why;
    }
    if line.listens() {
        // First listen, then look: what was told in between is not missed.
        shared.hears(Hint::everything());
    }
    if *said == Said::Lost {
        tracing::info!(over = line.name(), "hints to other nodes are back");
    }
    *said = Said::Here;
    loop {
        let step = tokio::select! {
            () = shared.told.notified() => tell(shared, speaker).await,
            () = pause(CHECK_EVERY) => check(shared, line, speaker).await,
        };
        if let Err(why) = step {
            return why;
        }
    }
}

async fn tell(shared: &Shared, speaker: &mut dyn Speaker) -> Result<(), String> {
    let mut telling = Telling { shared, hint: std::mem::take(&mut *shared.out.lock()) };
    if telling.hint.is_none() {
        return Ok(());
    }
    say(speaker, &text::write(&telling.hint, &shared.mark)).await?;
    telling.hint = Hint::default();
    pause(PAUSE).await;
    Ok(())
}

/// A hint on its way. If the line ends before it is told, the next line tells it.
struct Telling<'a> {
    shared: &'a Shared,
    hint: Hint,
}

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        if !self.hint.is_none() {
            self.shared.out.lock().merge(std::mem::take(&mut self.hint));
            self.shared.told.notify_one();
        }
    }
}

/// Says a word without meaning and waits until it comes back.
async fn check(shared: &Shared, line: &impl Line, speaker: &mut dyn Speaker) -> Result<(), String> {
    // Counts from here on, before the word is out.
    let echoed = shared.echoed.notified();
    say(speaker, &text::write(&Hint::default(), &shared.mark)).await?;
    if !line.listens() {
        return Ok(());
    }
    tokio::time::timeout(ANSWER_MAX, echoed).await.map_err(|_| line.unheard().to_owned())
}

async fn say(speaker: &mut dyn Speaker, words: &str) -> Result<(), String> {
    match tokio::time::timeout(ANSWER_MAX, speaker.say(words)).await {
        Ok(done) => done,
        Err(_) => Err("the server does not answer".to_owned()),
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "nothing depends on when a hint comes, so no test owns this time"
)]
async fn pause(length: Duration) {
    tokio::time::sleep(length).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc;
    use uuid::Uuid;

    /// A server in memory whose connections end as they are told.
    #[derive(Clone, Default)]
    struct Town {
        said: Arc<Mutex<Vec<String>>>,
        connections: Arc<Mutex<usize>>,
        /// It takes no words.
        mute: Arc<Mutex<bool>>,
        /// It takes them and passes nothing on.
        deaf: Arc<Mutex<bool>>,
        ears: Arc<Mutex<Vec<mpsc::UnboundedSender<Vec<u8>>>>>,
    }

    struct Voice(Town);
    struct Ear(mpsc::UnboundedReceiver<Vec<u8>>);

    #[async_trait]
    impl Line for Town {
        fn name(&self) -> String {
            "a town".to_owned()
        }

        async fn connect(&self) -> Result<(Box<dyn Speaker>, Box<dyn Listener>), String> {
            *self.connections.lock() += 1;
            let (ear, hearing) = mpsc::unbounded_channel();
            self.ears.lock().push(ear);
            Ok((Box::new(Voice(self.clone())), Box::new(Ear(hearing))))
        }
    }

    #[async_trait]
    impl Speaker for Voice {
        async fn say(&mut self, words: &str) -> Result<(), String> {
            if *self.0.mute.lock() {
                return std::future::pending().await;
            }
            self.0.said.lock().push(words.to_owned());
            if !*self.0.deaf.lock() {
                self.0.ears.lock().retain(|ear| ear.send(words.as_bytes().to_vec()).is_ok());
            }
            Ok(())
        }
    }

    #[async_trait]
    impl Listener for Ear {
        async fn hear(&mut self) -> Result<Vec<u8>, String> {
            self.0.recv().await.ok_or("the town is gone".to_owned())
        }
    }

    impl Town {
        fn cut(&self) {
            self.ears.lock().clear();
        }

        /// Hints that were said; words that only prove the line are left out.
        fn hints(&self) -> usize {
            self.said
                .lock()
                .iter()
                .filter(|words| words.split(' ').skip(1).any(|part| !part.is_empty()))
                .count()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_tells_at_most_twenty_times_a_second() {
        let town = Town::default();
        let relay = Relay::open(town.clone());
        assert_eq!(relay.heard().await, Hint::everything());
        for number in 0..1_000 {
            relay.tell(Hint::ended(Uuid::from_u128(number)));
            pause(Duration::from_millis(1)).await;
        }
        assert!((15..=21).contains(&town.hints()), "{}", town.hints());
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_on_its_way_when_the_line_ended_is_told_on_the_next() {
        let town = Town::default();
        let relay = Relay::open(town.clone());
        assert_eq!(relay.heard().await, Hint::everything());
        *town.mute.lock() = true;
        relay.tell(Hint::ended(Uuid::from_u128(4)));
        pause(Duration::from_secs(1)).await;
        town.cut();
        pause(Duration::from_secs(1)).await;
        assert_eq!(town.hints(), 0);
        *town.mute.lock() = false;
        assert_eq!(relay.heard().await, Hint::everything(), "it listens again and looks");
        pause(Duration::from_secs(1)).await;
        let id = Uuid::from_u128(4).simple().to_string();
        assert!(town.said.lock().iter().any(|words| words.ends_with(&id)), "{:?}", town.said.lock());
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_that_passes_nothing_on_is_made_again() {
        let town = Town::default();
        let relay = Relay::open(town.clone());
        assert_eq!(relay.heard().await, Hint::everything());
        *town.deaf.lock() = true;
        // Noticed at the next check; tried again and again, ever more seldom.
        pause(CHECK_EVERY * 10).await;
        let tried = *town.connections.lock();
        assert!((5..60).contains(&tried), "{tried}");
        *town.deaf.lock() = false;
        assert_eq!(relay.heard().await, Hint::everything());
    }
}
