//! Colours by what they are for, in light and dark. Every text has a contrast of at least 4.5 to what it stands on, every
//! line that matters at least 3.

use crate::overlay::{Change, State};
use serde::{Deserialize, Serialize};

/// Which colours a picture has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Theme {
    Light,
    Dark,
    /// What the reader's system says; light where a picture cannot ask.
    #[default]
    Auto,
}

/// What a colour is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    Page,
    Node,
    /// The space inside a group; it is painted over what is around it.
    Group,
    Border,
    GroupBorder,
    Line,
    Text,
    Quiet,
    Icon,
    /// A state's mark, and the surface it stands on.
    Mark(Tone),
    Tint(Tone),
    /// A step of a heat map, from 0 to 4.
    Heat(u8),
    /// On a mark.
    Sign,
}

/// A meaning that a colour carries, never alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tone {
    Blue,
    Amber,
    Green,
    Red,
    Violet,
    Grey,
}

const TONES: [Tone; 6] = [Tone::Blue, Tone::Amber, Tone::Green, Tone::Red, Tone::Violet, Tone::Grey];
/// Steps of a heat map.
pub(crate) const HEATS: u8 = 5;

impl From<State> for Tone {
    fn from(state: State) -> Tone {
        match state {
            State::Running => Tone::Blue,
            State::Waiting => Tone::Amber,
            State::Completed => Tone::Green,
            State::Faulted => Tone::Red,
            State::Undone => Tone::Violet,
            State::Paused | State::Skipped | State::Cancelled => Tone::Grey,
        }
    }
}

impl From<Change> for Tone {
    fn from(change: Change) -> Tone {
        match change {
            Change::Added => Tone::Green,
            Change::Removed => Tone::Red,
            Change::Changed => Tone::Amber,
        }
    }
}

impl Role {
    /// Every role, for the style of pictures that follow the reader.
    pub(crate) fn all() -> Vec<Role> {
        use Role::*;
        let plain = [Page, Node, Group, Border, GroupBorder, Line, Text, Quiet, Icon, Sign];
        let tones = TONES.into_iter().flat_map(|tone| [Mark(tone), Tint(tone)]);
        plain.into_iter().chain(tones).chain((0..HEATS).map(Heat)).collect()
    }

    /// A short name that no other role has.
    pub(crate) fn class(self) -> String {
        match self {
            Role::Page => "pg".to_owned(),
            Role::Node => "nd".to_owned(),
            Role::Group => "gr".to_owned(),
            Role::Border => "bo".to_owned(),
            Role::GroupBorder => "gb".to_owned(),
            Role::Line => "ln".to_owned(),
            Role::Text => "tx".to_owned(),
            Role::Quiet => "qt".to_owned(),
            Role::Icon => "ic".to_owned(),
            Role::Sign => "sg".to_owned(),
            Role::Mark(tone) => format!("m{}", tone as u8),
            Role::Tint(tone) => format!("t{}", tone as u8),
            Role::Heat(level) => format!("h{level}"),
        }
    }

    /// The colour as 0xRRGGBB.
    pub(crate) fn colour(self, dark: bool) -> u32 {
        let (light, night) = match self {
            Role::Page => (0xffffff, 0x14171c),
            Role::Node => (0xffffff, 0x1d222a),
            Role::Group => (0xf6f8fa, 0x191d24),
            Role::Border => (0x6b7684, 0x7d8896),
            Role::GroupBorder => (0xaab4c0, 0x4b5563),
            Role::Line => (0x5b6673, 0x8b96a5),
            Role::Text => (0x1b222b, 0xe8edf3),
            Role::Quiet => (0x4d5763, 0xa7b1be),
            Role::Icon => (0x3d4855, 0xbcc6d2),
            Role::Sign => (0xffffff, 0x101318),
            Role::Mark(tone) => tone.mark(),
            Role::Tint(tone) => tone.tint(),
            Role::Heat(level) => heat(level),
        };
        if dark { night } else { light }
    }
}

impl Tone {
    fn mark(self) -> (u32, u32) {
        match self {
            Tone::Blue => (0x1f6feb, 0x58a6ff),
            Tone::Amber => (0x9a6700, 0xd9a520),
            Tone::Green => (0x1a7f37, 0x4ac26b),
            Tone::Red => (0xc62828, 0xff7b72),
            Tone::Violet => (0x7a3fd0, 0xbc8cff),
            Tone::Grey => (0x5b6673, 0x9aa5b1),
        }
    }

    fn tint(self) -> (u32, u32) {
        match self {
            Tone::Blue => (0xe8f1fe, 0x16263d),
            Tone::Amber => (0xfff6dd, 0x322810),
            Tone::Green => (0xe9f7ec, 0x14291b),
            Tone::Red => (0xfdecea, 0x3a1a1b),
            Tone::Violet => (0xf3ecfd, 0x2a1d3e),
            Tone::Grey => (0xf0f2f5, 0x23282f),
        }
    }
}

fn heat(level: u8) -> (u32, u32) {
    match level {
        0 => (0xffffff, 0x1d222a),
        1 => (0xfff3d6, 0x33290f),
        2 => (0xffdfb0, 0x4a3210),
        3 => (0xffcf9a, 0x5f3512),
        _ => (0xffbfa3, 0x6e3014),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance of WCAG 2.
    fn luminance(colour: u32) -> f64 {
        let part = |shift: u32| {
            let value = f64::from(colour >> shift & 0xff) / 255.0;
            if value <= 0.03928 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(16) + 0.7152 * part(8) + 0.0722 * part(0)
    }

    fn contrast(a: u32, b: u32) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn texts_can_be_read_on_every_surface() {
        let tints = TONES.map(Role::Tint).into_iter().chain((0..HEATS).map(Role::Heat));
        let surfaces: Vec<Role> = [Role::Page, Role::Node, Role::Group].into_iter().chain(tints).collect();
        for dark in [false, true] {
            for surface in &surfaces {
                for text in [Role::Text, Role::Quiet] {
                    let found = contrast(text.colour(dark), surface.colour(dark));
                    assert!(found >= 4.5, "{text:?} on {surface:?}, dark {dark}: {found:.2}");
                }
            }
            for tone in TONES {
                let mark = Role::Mark(tone).colour(dark);
                assert!(contrast(mark, Role::Sign.colour(dark)) >= 3.0, "{tone:?}, dark {dark}");
                assert!(contrast(mark, Role::Page.colour(dark)) >= 3.0, "{tone:?}, dark {dark}");
            }
        }
    }

    #[test]
    fn every_role_has_a_class_of_its_own() {
        let mut classes: Vec<String> = Role::all().into_iter().map(Role::class).collect();
        let count = classes.len();
        classes.sort();
        classes.dedup();
        assert_eq!(classes.len(), count);
    }
}
