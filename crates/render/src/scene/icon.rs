//! Icons and signs: paths on a grid of 16 by 16, so that no font has to have them.

use super::{Ink, Move, Shape, circle};
use crate::{
    graph::{Frame, Kind},
    overlay::{Change, Mark, State},
    theme::{Role, Tone},
};

/// Side of the grid.
const GRID: f32 = 16.0;

/// The icon of a node, in words of [`path`].
pub(super) fn of_node(kind: Kind) -> &'static str {
    match kind {
        Kind::Start => "M 5 3.5 L 12.5 8 L 5 12.5 Z",
        Kind::End => "O 8 8 3",
        Kind::Split | Kind::Join => "M 8 4 L 8 12 M 4 8 L 12 8",
        Kind::Call => "O 8 8 6 M 5 8 L 11 8 M 8.5 5.5 L 11 8 L 8.5 10.5",
        Kind::Http => "O 8 8 6 M 2 8 L 14 8 M 8 2 Q 3.6 8 8 14 M 8 2 Q 12.4 8 8 14",
        Kind::HumanTask => "O 8 5 2.7 M 2.8 14 Q 2.8 9.6 8 9.6 Q 13.2 9.6 13.2 14",
        Kind::SignalToken => "O 5 8 3 M 8 8 L 14 8 M 11.5 8 L 11.5 11 M 14 8 L 14 10.5",
        Kind::Child => "M 2 2 L 10 2 L 10 10 L 2 10 Z M 6 10 L 6 14 L 14 14 L 14 6 L 10 6",
        Kind::Script => "M 5 4 L 2 8 L 5 12 M 11 4 L 14 8 L 11 12 M 9.2 3 L 6.8 13",
        Kind::Set => "M 3 6 L 13 6 M 3 10 L 13 10",
        Kind::Switch => "M 8 2 L 14 8 L 8 14 L 2 8 Z",
        Kind::Wait => "O 8 8 6 M 8 4.5 L 8 8 L 10.5 9.5",
        Kind::Raise => "M 8 2 L 14.5 13.5 L 1.5 13.5 Z M 8 6.5 L 8 9.5 M 8 11.4 L 8 11.6",
        Kind::Emit => "M 2 7.6 L 14 2.5 L 10.5 13.5 L 7.4 9 Z M 14 2.5 L 7.4 9",
        Kind::Listen => LETTER,
        Kind::Empty => "M 4 8 L 12 8",
        Kind::Unsupported => "O 8 8 6 M 3.8 3.8 L 12.2 12.2",
    }
}

const LETTER: &str = "M 2 4 L 14 4 L 14 12 L 2 12 Z M 2 4 L 8 8.6 L 14 4";

/// The icon of a group's header.
pub(super) fn of_group(frame: Frame) -> &'static str {
    match frame {
        Frame::Do => "M 3 4 L 13 4 M 3 8 L 13 8 M 3 12 L 13 12",
        Frame::For => {
            "M 12.6 5 Q 11 2.5 8 2.5 Q 2.5 2.5 2.5 8 Q 2.5 13.5 8 13.5 Q 13.5 13.5 13.5 8.6 M 13 1.8 L 12.6 5 L 9.4 5"
        }
        Frame::Fork => "M 2 8 L 6 8 L 10 4 L 14 4 M 6 8 L 10 12 L 14 12",
        Frame::Try => "M 8 2 L 13.5 4 L 13.5 8 Q 13.5 12 8 14.5 Q 2.5 12 2.5 8 L 2.5 4 Z",
        Frame::Catch => "M 9 1.5 L 4 9 L 7.5 9 L 6.5 14.5 L 12 6.5 L 8.5 6.5 Z",
        Frame::Saga => "M 6 3 L 2.5 6.5 L 6 10 M 2.5 6.5 L 10 6.5 Q 13.5 6.5 13.5 9.8 Q 13.5 13 10 13 L 6 13",
        Frame::Map => {
            "M 2.5 2.5 L 6.5 2.5 L 6.5 6.5 L 2.5 6.5 Z M 9.5 2.5 L 13.5 2.5 L 13.5 6.5 L 9.5 6.5 Z \
             M 2.5 9.5 L 6.5 9.5 L 6.5 13.5 L 2.5 13.5 Z M 9.5 9.5 L 13.5 9.5 L 13.5 13.5 L 9.5 13.5 Z"
        }
        Frame::Listen => LETTER,
        Frame::Extended => "M 2.5 5 L 2.5 11 M 13.5 5 L 13.5 11 M 5 8 L 11 8 M 8 5 L 8 11",
    }
}

/// The sign of a mark, and whether it is filled.
fn sign(mark: &Mark) -> Option<(&'static str, bool)> {
    match (mark.change, mark.state) {
        (Some(Change::Added), _) => Some(("M 8 4.5 L 8 11.5 M 4.5 8 L 11.5 8", false)),
        (Some(Change::Removed), _) => Some(("M 4.5 8 L 11.5 8", false)),
        (Some(Change::Changed), _) => Some(("M 4 9 Q 6 5 8 8 Q 10 11 12 7", false)),
        (None, Some(state)) => Some(match state {
            State::Running => ("O 8 8 3.4", true),
            State::Waiting => ("M 8 4 L 8 12 Q 4 12 4 8 Q 4 4 8 4 Z", true),
            State::Paused => ("M 6.2 5 L 6.2 11 M 9.8 5 L 9.8 11", false),
            State::Completed => ("M 4.4 8.2 L 7 10.8 L 11.6 5.4", false),
            State::Skipped => ("M 4.5 5.5 L 7 8 L 4.5 10.5 M 8.5 5.5 L 11 8 L 8.5 10.5", false),
            State::Faulted => ("M 5.3 5.3 L 10.7 10.7 M 10.7 5.3 L 5.3 10.7", false),
            State::Cancelled => ("M 5.5 5.5 L 10.5 5.5 L 10.5 10.5 L 5.5 10.5 Z", true),
            State::Undone => ("M 6 4 L 4 6 L 6 8 M 4 6 L 9 6 Q 11.5 6 11.5 8.5 Q 11.5 11 9 11 L 6 11", false),
        }),
        (None, None) => None,
    }
}

/// The badge of a mark around a point.
pub(super) fn badge(mark: &Mark, tone: Tone, (x, y): (f32, f32)) -> Vec<Shape> {
    const RADIUS: f32 = 8.0;
    let Some((words, filled)) = sign(mark) else { return Vec::new() };
    let ring = Ink::stroke(Role::Page, 1.5).and_fill(Role::Mark(tone));
    let ink = if filled { Ink::fill(Role::Sign) } else { Ink::stroke(Role::Sign, 1.8) };
    let at = (x - GRID / 2.0, y - GRID / 2.0);
    vec![
        Shape::Path { path: circle(x, y, RADIUS), ink: ring },
        Shape::Path { path: path(words, at, 1.0), ink },
    ]
}

/// A path written as words: `M x y`, `L x y`, `Q cx cy x y`, `Z`, and `O x y r` for a circle.
pub(super) fn path(words: &str, (x, y): (f32, f32), scale: f32) -> Vec<Move> {
    let mut words = words.split_ascii_whitespace();
    let mut moves = Vec::new();
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(|word| word.parse::<f32>().ok()).unwrap_or(0.0) * scale;
        match word {
            "M" => moves.push(Move::To(x + number(), y + number())),
            "L" => moves.push(Move::Line(x + number(), y + number())),
            "Q" => moves.push(Move::Curve(x + number(), y + number(), x + number(), y + number())),
            "O" => moves.extend(circle(x + number(), y + number(), number())),
            _ => moves.push(Move::Close),
        }
    }
    moves
}
