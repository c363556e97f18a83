//! How a command fails: what is printed on stderr, and the exit code. [`Failure`] is the error type of the binary.
//!
//! The exit codes are a contract; scripts branch on them.

use serde::Deserialize;
use std::process::ExitCode;

/// Why the process ends with something other than 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command, or the instance it followed, failed.
    Failed = 1,
    Usage = 2,
    NotFound = 3,
    Forbidden = 4,
    Conflict = 5,
    Unreachable = 6,
    TimedOut = 124,
    Interrupted = 130,
}

impl Exit {
    /// The code for an HTTP status of 400 and more.
    fn of_status(status: u16) -> Exit {
        match status {
            400 => Exit::Usage,
            401 | 403 => Exit::Forbidden,
            404 => Exit::NotFound,
            409 | 412 => Exit::Conflict,
            _ => Exit::Failed,
        }
    }
}

/// What went wrong, for a person to read. Boxed, because every function hands it on.
#[derive(Debug)]
pub(crate) struct Failure(Box<Said>);

#[derive(Debug)]
struct Said {
    exit: Exit,
    title: String,
    detail: String,
    flaws: Vec<Flaw>,
    /// The file that the flaws are in.
    file: Option<String>,
    hint: Option<String>,
    request_id: Option<String>,
    /// Asking again later may help.
    passing: bool,
    /// The server's answer as it came, for `-o json`.
    body: Option<Vec<u8>>,
}

/// One thing wrong in what was sent; a member of a problem's `errors`.
#[derive(Debug, Deserialize)]
pub(crate) struct Flaw {
    #[serde(default)]
    pub(crate) pointer: String,
    #[serde(default)]
    pub(crate) message: String,
    pub(crate) line: Option<u32>,
    pub(crate) column: Option<u32>,
    pub(crate) hint: Option<String>,
}

/// The body of an answer of 400 and more.
#[derive(Deserialize)]
struct Problem {
    #[serde(default)]
    title: String,
    #[serde(default)]
    detail: String,
    #[serde(default)]
    code: String,
    #[serde(default)]
    errors: Vec<Flaw>,
    #[serde(default)]
    retryable: bool,
    request_id: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, title: impl Into<String>) -> Failure {
        Failure(Box::new(Said {
            exit,
            title: title.into(),
            detail: String::new(),
            flaws: Vec::new(),
            file: None,
            hint: None,
            request_id: None,
            passing: false,
            body: None,
        }))
    }

    pub(crate) fn failed(title: impl Into<String>) -> Failure {
        Failure::new(Exit::Failed, title)
    }

    pub(crate) fn usage(title: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, title)
    }

    /// Ends with `exit` and says nothing: everything has been said.
    pub(crate) fn silent(exit: Exit) -> Failure {
        Failure::new(exit, "")
    }

    /// What the server answered instead of what was asked.
    pub(crate) fn of_answer(status: u16, body: Vec<u8>) -> Failure {
        let exit = Exit::of_status(status);
        let Ok(problem) = serde_json::from_slice::<Problem>(&body) else {
            let text: String = String::from_utf8_lossy(&body).chars().take(500).collect();
            let title = format!("the server answered {status}");
            return Failure::new(exit, title)
                .detail(text)
                .hint("is there a windlass server at this address? check --url");
        };
        let title = match problem.code.is_empty() {
            true => problem.title,
            false => format!("{} ({})", problem.title, problem.code),
        };
        let mut failure = Failure::new(exit, title);
        failure.0.detail = problem.detail;
        failure.0.flaws = problem.errors;
        failure.0.request_id = problem.request_id;
        failure.0.passing = problem.retryable;
        failure.0.hint = hint_of(exit);
        failure.0.body = Some(body);
        failure
    }

    pub(crate) fn detail(mut self, detail: impl Into<String>) -> Failure {
        self.0.detail = detail.into();
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.0.hint = Some(hint.into());
        self
    }

    /// Says which file the positions are in.
    pub(crate) fn in_file(mut self, file: &str) -> Failure {
        self.0.file = Some(file.to_owned());
        self
    }

    pub(crate) fn exit(&self) -> Exit {
        self.0.exit
    }

    /// True if asking again later may help.
    pub(crate) fn is_passing(&self) -> bool {
        self.0.passing
    }

    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(self.0.exit as u8)
    }

    /// The server's answer byte for byte, if this came from one.
    pub(crate) fn body(&self) -> Option<&[u8]> {
        self.0.body.as_deref()
    }

    /// The text for stderr; empty if there is nothing to say.
    pub(crate) fn text(&self) -> String {
        if self.0.title.is_empty() {
            return String::new();
        }
        let mut lines = vec![format!("error: {}", self.0.title)];
        // The detail often repeats the first flaw, which is about to be shown with its place.
        let is_repeated = self.0.flaws.iter().any(|flaw| self.0.detail.contains(&flaw.message));
        if !self.0.detail.is_empty() && !is_repeated {
            lines.push(format!("  {}", self.0.detail.trim_end().replace('\n', "\n  ")));
        }
        lines.extend(flaw_lines(&self.0.flaws, self.0.file.as_deref()));
        if let Some(hint) = &self.0.hint {
            lines.push(format!("  hint: {hint}"));
        }
        if let Some(id) = &self.0.request_id {
            lines.push(format!("  request id: {id}"));
        }
        lines.join("\n")
    }
}

/// `file:line:column: message` for each, with its hint below.
pub(crate) fn flaw_lines(flaws: &[Flaw], file: Option<&str>) -> Vec<String> {
    let mut lines = Vec::new();
    for flaw in flaws {
        let place = match (file, flaw.line) {
            (Some(file), Some(line)) => format!("{file}:{line}:{}: ", flaw.column.unwrap_or(1)),
            (Some(file), None) => format!("{file}: "),
            (None, Some(line)) => format!("{line}:{}: ", flaw.column.unwrap_or(1)),
            (None, None) if flaw.pointer.is_empty() => String::new(),
            (None, None) => format!("{}: ", flaw.pointer),
        };
        lines.push(format!("{place}{}", flaw.message));
        if let Some(hint) = &flaw.hint {
            lines.push(format!("    hint: {hint}"));
        }
    }
    lines
}

fn hint_of(exit: Exit) -> Option<String> {
    let hint = match exit {
        Exit::Forbidden => {
            "set WINDLASS_KEY to a key that may do this; `windlass api GET /me` shows what yours may"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::failed(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_become_lines_with_places() {
        let body = br#"{"title":"The definition is not valid","code":"definition-invalid","status":422,
            "detail":"the definition has one problem: no such step","errors":[{"pointer":"/do/0","message":"no such step","line":3,"column":7,
            "hint":"name one of: a, b"}],"request_id":"req_1"}"#;
        let failure = Failure::of_answer(422, body.to_vec()).in_file("flow.yaml");
        assert_eq!(failure.exit(), Exit::Failed);
        assert_eq!(
            failure.text(),
            "error: The definition is not valid (definition-invalid)\n\
             flow.yaml:3:7: no such step\n    hint: name one of: a, b\n  request id: req_1"
        );
    }

    #[test]
    fn statuses_have_their_exit_code() {
        for (status, exit) in [(400, 2), (401, 4), (403, 4), (404, 3), (409, 5), (412, 5), (422, 1), (503, 1)]
        {
            assert_eq!(Exit::of_status(status) as u8, exit, "{status}");
        }
    }

    #[test]
    fn an_answer_that_is_no_problem_is_still_said() {
        let failure = Failure::of_answer(502, b"<html>bad gateway</html>".to_vec());
        assert!(failure.text().contains("502") && failure.text().contains("bad gateway"));
    }
}
