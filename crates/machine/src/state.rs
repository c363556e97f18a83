//! The state of one instance: branches of frames, the waits they stand at, and what has not been used yet.
//!
//! A *branch* is one line of control (the root, and one per fork branch). Its *frames* are the steps it is inside
//! of, outermost first. A *wait* is something outside the instance that a frame stands at; it has its own token.
//! `snapshot` turns this into the stored JSON.

mod listen;

use crate::{
    child::{Awaited, Map, Parent},
    command::{Command, Trace},
    data::Data,
    fault::Fault,
    ir::{StepId, Then},
    saga::{Act, Closing, Saga},
    time::{Span, Time},
};
pub use listen::{EVENTS_MAX, Expectation, Interest, Key, Listening, Wanted};
use serde::{Deserialize, Serialize};

/// Where an instance stands as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    Open,
    Paused,
    Completed,
    Faulted,
    Cancelled,
}

impl Status {
    /// True if nothing will happen any more unless an operator asks.
    pub fn is_ended(self) -> bool {
        matches!(self, Status::Completed | Status::Faulted | Status::Cancelled)
    }
}

/// What the caller calls the instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BusinessReference {
    pub key: String,
    #[serde(default)]
    pub parts: Data,
}

/// One instance.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub status: Status,
    pub business: Option<BusinessReference>,
    pub trace: Trace,
    /// The instance that started this one.
    pub parent: Option<Box<Parent>>,
    pub started_at: Time,
    /// The last number handed out; tokens and derived ids come from it.
    pub sequence: u64,
    /// The raw workflow input.
    pub input: Data,
    /// `$context` of the root branch.
    pub context: Data,
    pub branches: Vec<Branch>,
    pub waits: Vec<Wait>,
    /// What ends parts of the instance as soon as the sagas in them are settled.
    pub closings: Vec<Closing>,
    /// Saga steps undone so far.
    pub undone: u64,
    /// Signals nothing waits for yet (at most [`SIGNALS_MAX`]), and what came in while paused (as many as waits).
    pub buffer: Vec<Command>,
    pub output: Option<Data>,
    pub error: Option<Fault>,
    /// Turns in a row that ended only because they were long enough; nothing came from outside in between.
    pub yields: u32,
    /// The instance is closing: what it will come to once its last waits have ended.
    pub ending: Option<Box<Ending>>,
}

/// An end that is decided and not yet reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ending {
    pub status: Status,
    #[serde(default, deserialize_with = "crate::data::present", skip_serializing_if = "Option::is_none")]
    pub output: Option<Data>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Fault>,
}

impl Ending {
    pub fn completed(output: Data) -> Ending {
        Ending { status: Status::Completed, output: Some(output), error: None }
    }

    pub fn faulted(error: Fault) -> Ending {
        Ending { status: Status::Faulted, output: None, error: Some(error) }
    }

    pub fn cancelled() -> Ending {
        Ending { status: Status::Cancelled, output: None, error: None }
    }
}

/// The most unused signals an instance keeps; history tells of those beyond.
pub const SIGNALS_MAX: usize = 1000;

/// The id of the branch every instance begins with.
pub const ROOT: u32 = 0;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Branch {
    pub id: u32,
    /// The branch whose top frame is the fork, and this branch's position in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<(u32, u32)>,
    /// The branch's own copy of `$context`; the root's is [`State::context`].
    #[serde(default, deserialize_with = "crate::data::present", skip_serializing_if = "Option::is_none")]
    pub context: Option<Data>,
    pub frames: Vec<Frame>,
    /// What the branch does next, when it stands between two steps instead of at a wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Next>,
}

impl Branch {
    /// What the innermost step of the branch is in the middle of.
    pub fn top_body(&self) -> Option<&Body> {
        self.frames.last().map(|frame| &frame.body)
    }
}

/// One hop of a branch. Every hop can be stored, so that a turn can stop, and a fault can be retried, at any of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "hop", rename_all = "camelCase", deny_unknown_fields)]
pub enum Next {
    /// Begin the workflow: its own input and limit.
    Begin {},
    /// Enter the step at the cursor of the top frame, or the fork branch's own step.
    Enter { data: Data },
    /// Go through the `try` list of the top frame (again).
    Attempt {},
    /// Begin the iteration of the top frame's index, or end the loop.
    Iterate { data: Data },
    /// End the top step with its raw output.
    Complete {
        output: Data,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        then: Option<Then>,
    },
    /// End the workflow with its raw output.
    Finish { output: Data },
}

/// One step the branch is inside of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frame {
    /// `None` is the workflow's own `do` list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepId>,
    /// Unique inside the instance.
    #[serde(rename = "seq")]
    pub sequence: u64,
    pub started_at: Time,
    /// Data before `input.from`.
    pub raw: Data,
    /// Data after `input.from`, when there is one.
    #[serde(default, deserialize_with = "crate::data::present", skip_serializing_if = "Option::is_none")]
    pub input: Option<Data>,
    /// `$context` of the function that is called here, while its task runs.
    #[serde(default, deserialize_with = "crate::data::present", skip_serializing_if = "Option::is_none")]
    pub context: Option<Data>,
    pub body: Body,
}

impl Frame {
    pub fn input(&self) -> &Data {
        self.input.as_ref().unwrap_or(&self.raw)
    }
}

/// What a frame is in the middle of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Body {
    /// A step without steps inside: it stands at a wait, or is being decided right now.
    Leaf,
    List(Cursor),
    For {
        items: Data,
        index: u32,
        cursor: Cursor,
    },
    Try(Attempt),
    Fork {
        /// By position: what each branch has come to.
        joined: Vec<Joined>,
    },
    Listen(Listening),
    Saga(Saga),
    /// Inside what extensions put around the step.
    Around(Around),
    /// A `map` step.
    Map(Box<Map>),
}

/// How far a step's extensions have come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Around {
    /// Which of those before the step, or after it, counted in the order they run.
    pub at: u32,
    /// True while its list runs.
    pub inside: bool,
    pub cursor: Cursor,
    /// The step's output and where the flow goes next, once it has run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done: Option<(Data, Then)>,
    /// An extension gave the output instead of the step.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub replaced: bool,
}

/// A place in a list of steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cursor {
    pub at: u32,
    /// Times the flow jumped back; makes every visit of a step distinct.
    #[serde(default)]
    pub jumps: u32,
}

/// A try step's progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    /// Retries made so far.
    pub retries: u32,
    pub phase: Phase,
    pub cursor: Cursor,
    /// The caught error, from the first failure on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Fault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    Trying,
    /// Waits for the next attempt.
    BackingOff,
    /// Runs the `catch.do` list.
    Catching,
    /// The list came to its end: what faults now is not the list's.
    Done,
}

/// What a fork knows of one branch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Joined {
    Running,
    Done { output: Data, context: Data },
    Failed { fault: Fault },
}

/// Something outside the instance that a frame stands at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    pub token: u64,
    pub kind: WaitKind,
    pub branch: u32,
    /// Sequence of the frame that waits; 0 is the whole workflow (its timeout).
    pub frame: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// Only in snapshots from before listening was a [`Body`]: by filter and correlation, what is expected.
    #[serde(default, deserialize_with = "crate::data::present", skip_serializing_if = "Option::is_none")]
    pub expect: Option<Data>,
    /// For children: which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<Box<Awaited>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WaitKind {
    Timer,
    Retry,
    Timeout,
    /// Limit of one attempt of a try step.
    AttemptTimeout,
    Call,
    TaskCompletion,
    Event,
    /// Another instance, started by this one.
    Child,
    /// The children of a `map` step.
    Map,
    /// The turn used up its fuel; the rest follows in the next one.
    Continue,
}

impl WaitKind {
    pub fn word(self) -> &'static str {
        match self {
            WaitKind::Timer => "Timer",
            WaitKind::Retry => "Retry",
            WaitKind::Timeout => "Timeout",
            WaitKind::AttemptTimeout => "AttemptTimeout",
            WaitKind::Call => "Call",
            WaitKind::TaskCompletion => "TaskCompletion",
            WaitKind::Event => "Event",
            WaitKind::Child => "Child",
            WaitKind::Map => "Map",
            WaitKind::Continue => "Continue",
        }
    }

    /// True for waits that a row of the timer queue ends.
    pub fn has_timer(self) -> bool {
        self == WaitKind::Timer || self == WaitKind::Retry || self.is_limit()
    }

    /// True for waits that only bound something else.
    pub fn is_limit(self) -> bool {
        matches!(self, WaitKind::Timeout | WaitKind::AttemptTimeout)
    }
}

/// Every status word of an instance that has not ended.
pub const OPEN_WORDS: [&str; 5] = ["pending", "running", "waiting", "paused", "cancelling"];
/// Every status word of one that has.
pub const ENDED_WORDS: [&str; 3] = ["completed", "faulted", "cancelled"];

impl State {
    /// An instance that has not begun.
    pub fn new(input: Data, business: Option<BusinessReference>, trace: Trace, now: Time) -> State {
        State {
            status: Status::Open,
            business,
            trace,
            parent: None,
            started_at: now,
            sequence: 0,
            input,
            context: Data::NULL,
            branches: Vec::new(),
            waits: Vec::new(),
            closings: Vec::new(),
            undone: 0,
            buffer: Vec::new(),
            output: None,
            error: None,
            yields: 0,
            ending: None,
        }
    }

    /// True if the instance has faulted, or will once it has closed.
    pub fn faults(&self) -> bool {
        self.status == Status::Faulted
            || self.ending.as_ref().is_some_and(|ending| ending.status == Status::Faulted)
    }

    pub fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    pub fn branch(&self, id: u32) -> Option<&Branch> {
        self.branches.iter().find(|branch| branch.id == id)
    }

    pub fn branch_mut(&mut self, id: u32) -> Option<&mut Branch> {
        self.branches.iter_mut().find(|branch| branch.id == id)
    }

    /// The wait people should see: the one due first, then the oldest. A timeout around a call is not it.
    pub fn shown_wait(&self) -> Option<&Wait> {
        self.waits
            .iter()
            .min_by_key(|wait| (wait.kind.is_limit(), wait.until.unwrap_or(Time(i64::MAX)), wait.token))
    }

    /// True once the instance was told to cancel and something must be settled first.
    pub fn is_cancelling(&self) -> bool {
        let ending = self.ending.as_ref().is_some_and(|ending| ending.status == Status::Cancelled);
        ending || self.closings.iter().any(|closing| closing.act == Act::Cancel {})
    }

    /// The status word of the API.
    pub fn status_word(&self) -> &'static str {
        match self.status {
            Status::Completed => "completed",
            Status::Faulted => "faulted",
            Status::Cancelled => "cancelled",
            Status::Paused => "paused",
            Status::Open if self.is_cancelling() => "cancelling",
            Status::Open
                if self.waits.iter().any(|wait| matches!(wait.kind, WaitKind::Call | WaitKind::Map)) =>
            {
                "running"
            }
            Status::Open => match self.shown_wait().map(|wait| wait.kind) {
                None | Some(WaitKind::Call | WaitKind::Continue) => "running",
                Some(_) => "waiting",
            },
        }
    }

    /// The runtime status of the snapshot row: `Suspended` while only a timer is waited for.
    pub fn runtime_status(&self) -> &'static str {
        match self.status {
            Status::Completed => "Completed",
            Status::Faulted => "Faulted",
            Status::Cancelled => "Cancelled",
            Status::Paused => "Paused",
            Status::Open => match self.shown_wait().map(|wait| wait.kind) {
                Some(WaitKind::Timer) if self.status_word() == "waiting" => "Suspended",
                _ => "Open",
            },
        }
    }
}

/// A fixed bound on how far one decision runs before it yields.
pub const STEPS_PER_TURN_MAX: u32 = 1000;

/// The most turns in a row that end only because they were long enough: a flow that goes round without ever waiting
/// for anything would fill the store.
pub const YIELDS_MAX: u32 = 1000;

/// The turns in a row, ended only because they were long enough, whose steps history tells one by one: 1,000,000 steps
/// that wait for nothing are some 128 MB of it, these are the first 1.3.
pub const YIELDS_TOLD_MAX: u32 = 10;

/// What the expressions of one decision may spend before it yields; some 80 ms at worst.
pub const FUEL_PER_TURN: u64 = 600_000;

/// The engine's own cap on retries where the definition gives none.
pub const RETRIES_MAX: u32 = 100;

/// The longest back-off where the definition gives none.
pub const BACKOFF_MAX: Span = Span::from_secs(86_400);
