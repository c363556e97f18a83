//! `windlass event publish --lines`: any number of events, one on each line, in requests of some hundreds.

use super::{Context, start::patiently};
use crate::{client::Ask, failure::Failure, out::Format};
use machine::time::Span;
use runtime::clock::{Clock, SystemClock};
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    fs::File,
    io::{BufRead, BufReader, Read, stdin},
};

/// Lines in one request.
const LINES_MAX: usize = 500;
/// Bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 20;
/// The longest line that is sent.
const LINE_BYTES_MAX: usize = 256 * 1024;
/// How often lines that are refused for now are sent again.
const TRIES_MAX: u32 = 60;
const BUSY_PAUSE: Span = Span::from_millis(500);
/// Refused lines that are shown one by one.
const SHOWN_MAX: usize = 100;

/// A line of the file, by its number.
struct Line {
    number: u64,
    text: Vec<u8>,
}

#[derive(Default)]
struct Tally {
    accepted: u64,
    refused: u64,
    /// The first of those that are refused.
    shown: Vec<Value>,
}

pub(crate) async fn publish(context: &Context, file: &str) -> Result<(), Failure> {
    let source: Box<dyn Read + Send> = match file {
        "-" => Box::new(stdin()),
        file => Box::new(File::open(file).map_err(|error| Failure::usage(format!("{file}: {error}")))?),
    };
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, source);
    let mut tally = Tally::default();
    let mut lines = Vec::new();
    let mut number = 0;
    while let Some(text) = read_line(&mut reader)? {
        number += 1;
        if text.len() > LINE_BYTES_MAX {
            let detail = format!("the line has more than {LINE_BYTES_MAX} bytes");
            tally.refuse(
                context,
                json!({ "line": number, "problem": { "code": "event-too-large", "detail": detail } }),
            )?;
        } else if !text.trim_ascii().is_empty() {
            lines.push(Line { number, text });
        }
        // What was read is sent before more is waited for: lines may come as slowly as somebody types.
        if lines.len() >= LINES_MAX || reader.buffer().is_empty() {
            send(context, std::mem::take(&mut lines), &mut tally).await?;
        }
    }
    send(context, lines, &mut tally).await?;
    tally.end(context)
}

/// The next line, without more of it than is needed to see that it is too long.
fn read_line(reader: &mut BufReader<Box<dyn Read + Send>>) -> Result<Option<Vec<u8>>, Failure> {
    let mut text = Vec::new();
    reader.by_ref().take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut text)?;
    if text.len() > LINE_BYTES_MAX && !text.ends_with(b"\n") {
        loop {
            let there = reader.fill_buf()?;
            let end = there.iter().position(|byte| *byte == b'\n');
            let (count, is_over) =
                (end.map_or(there.len(), |end| end + 1), end.is_some() || there.is_empty());
            reader.consume(count);
            if is_over {
                break;
            }
        }
    }
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// Sends lines until each has an answer that stays.
async fn send(context: &Context, lines: Vec<Line>, tally: &mut Tally) -> Result<(), Failure> {
    let mut open: VecDeque<Line> = lines.into();
    let mut tries = 0;
    while !open.is_empty() {
        let mut body = Vec::new();
        for line in &open {
            body.extend_from_slice(line.text.trim_ascii());
            body.push(b'\n');
        }
        let ask = || Ask::post("/events").body("application/x-ndjson", body.clone());
        let answer = patiently(context, ask).await?;
        let mut again = VecDeque::new();
        tries += 1;
        for answer in answer.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let mut answer: Value = serde_json::from_slice(answer)
                .map_err(|_| Failure::failed("the answer is not understood"))?;
            // The last line counts, and says why the rest was not read.
            if answer["line"].is_null() {
                continue;
            }
            let Some(line) = open.pop_front() else { break };
            if answer["problem"]["retryable"] == true && tries < TRIES_MAX {
                again.push_back(line);
                continue;
            }
            answer["line"] = line.number.into();
            match answer["problem"].is_null() {
                true => tally.accept(context, &answer)?,
                false => tally.refuse(context, answer)?,
            }
        }
        // Lines without an answer were not read: the same event sent again has no second effect.
        again.append(&mut open);
        open = again;
        if !open.is_empty() {
            if tries >= TRIES_MAX {
                return Err(Failure::failed(format!(
                    "line {} and those after it have no answer",
                    open[0].number
                )));
            }
            SystemClock.sleep_until(SystemClock.now().after(BUSY_PAUSE)).await;
        }
    }
    Ok(())
}

impl Tally {
    fn accept(&mut self, context: &Context, answer: &Value) -> Result<(), Failure> {
        self.accepted += 1;
        match context.out.format {
            Format::Jsonl => context.out.line(&answer.to_string()),
            Format::Id => context.out.line(answer["id"].as_str().unwrap_or_default()),
            Format::Json | Format::Table => Ok(()),
        }
    }

    fn refuse(&mut self, context: &Context, answer: Value) -> Result<(), Failure> {
        self.refused += 1;
        if context.out.format == Format::Jsonl {
            context.out.line(&answer.to_string())?;
        }
        if self.shown.len() < SHOWN_MAX {
            let text = |key: &str| answer["problem"][key].as_str().unwrap_or_default().to_owned();
            context.out.note(&format!("line {}: {}: {}", answer["line"], text("code"), text("detail")));
            self.shown.push(answer);
        }
        Ok(())
    }

    fn end(self, context: &Context) -> Result<(), Failure> {
        let Tally { accepted, refused, shown } = self;
        if context.out.format == Format::Json {
            context
                .out
                .line(&json!({ "accepted": accepted, "refused": refused, "lines": shown }).to_string())?;
        }
        context.out.note(&format!("{accepted} of {} events accepted", accepted + refused));
        match shown.first() {
            Some(first) => Err(Failure::of_answer(422, first["problem"].to_string().into_bytes())),
            None => Ok(()),
        }
    }
}
