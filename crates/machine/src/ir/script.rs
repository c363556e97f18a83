//! What a `run.script` step runs.

use super::Template;
use serde::{Deserialize, Serialize};

/// JavaScript with what it is given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Script {
    pub code: String,
    /// What follows the program's own name in `process.argv`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<Template>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<(String, Template)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<Template>,
    /// False if the step is over as soon as the script is handed out; its output is its input then.
    #[serde(rename = "await")]
    pub awaited: bool,
    #[serde(default)]
    pub returned: Returned,
}

/// What of a process becomes the step's output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Returned {
    #[default]
    Stdout,
    Stderr,
    Code,
    /// An object of all three.
    All,
    None,
}

impl Returned {
    /// As the document writes it.
    pub fn word(self) -> &'static str {
        match self {
            Returned::Stdout => "stdout",
            Returned::Stderr => "stderr",
            Returned::Code => "code",
            Returned::All => "all",
            Returned::None => "none",
        }
    }

    pub fn of(word: &str) -> Option<Returned> {
        use Returned::*;
        [Stdout, Stderr, Code, All, None].into_iter().find(|returned| returned.word() == word)
    }
}
