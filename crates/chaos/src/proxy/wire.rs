//! As much of PostgreSQL's protocol as a fault needs to see: where a message ends, and whether it is about COMMIT.

/// One message with its header: a letter, the length of the rest, the rest. The first of a client has no letter.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Message {
    kind: Option<u8>,
    pub(crate) bytes: Vec<u8>,
}

impl Message {
    /// A client asks for COMMIT.
    pub(crate) fn asks_for_commit(&self) -> bool {
        self.kind == Some(b'Q') && self.rest() == b"COMMIT\0"
    }

    /// A server says that it has committed.
    pub(crate) fn tells_of_commit(&self) -> bool {
        self.kind == Some(b'C') && self.rest() == b"COMMIT\0"
    }

    fn rest(&self) -> &[u8] {
        self.bytes.get(5..).unwrap_or_default()
    }
}

/// Cuts a stream of bytes into messages.
pub(crate) struct Frames {
    begins: bool,
    kept: Vec<u8>,
}

impl Frames {
    /// What a client sends. Encryption is not asked for: nodes do not speak it to a database.
    pub(crate) fn of_client() -> Frames {
        Frames { begins: true, kept: Vec::new() }
    }

    /// What a server sends.
    pub(crate) fn of_server() -> Frames {
        Frames { begins: false, kept: Vec::new() }
    }

    /// The messages that are complete with these bytes.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Vec<Message> {
        self.kept.extend_from_slice(bytes);
        let mut messages = Vec::new();
        let mut at = 0;
        while let Some(length) = length(&self.kept[at..], self.begins) {
            let bytes = self.kept[at..at + length].to_vec();
            let kind = (!self.begins).then(|| bytes[0]);
            messages.push(Message { kind, bytes });
            self.begins = false;
            at += length;
        }
        self.kept.drain(..at);
        messages
    }
}

/// How long the first message is, if all of it is there.
fn length(bytes: &[u8], begins: bool) -> Option<usize> {
    let letter = usize::from(!begins);
    let length = bytes.get(letter..letter + 4)?;
    let length = u32::from_be_bytes(length.try_into().ok()?);
    // A length counts itself; less would never end.
    let whole = letter + usize::try_from(length).ok()?.max(4);
    (bytes.len() >= whole).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn message(kind: u8, rest: &[u8]) -> Vec<u8> {
        let length = u32::try_from(rest.len() + 4).unwrap().to_be_bytes();
        [&[kind], &length[..], rest].concat()
    }

    #[test]
    fn messages_are_found_however_the_bytes_come() {
        let startup = [&9u32.to_be_bytes()[..], b"hello"].concat();
        let sent = [startup, message(b'Q', b"BEGIN\0"), message(b'Q', b"COMMIT\0")].concat();
        for size in 1..=sent.len() {
            let mut frames = Frames::of_client();
            let found: Vec<Message> = sent.chunks(size).flat_map(|part| frames.take(part)).collect();
            let commits: Vec<bool> = found.iter().map(Message::asks_for_commit).collect();
            assert_eq!(commits, [false, false, true], "in pieces of {size}");
            assert_eq!(found.iter().flat_map(|m| m.bytes.clone()).collect::<Vec<_>>(), sent);
        }
    }

    #[test]
    fn only_the_answer_to_commit_tells_of_it() {
        let answers = [message(b'C', b"BEGIN\0"), message(b'C', b"COMMIT\0"), message(b'Z', b"I")].concat();
        let told: Vec<bool> =
            Frames::of_server().take(&answers).iter().map(Message::tells_of_commit).collect();
        assert_eq!(told, [false, true, false]);
    }
}
