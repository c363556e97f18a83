//! W3C trace context of what goes out.

use machine::{Data, command::Call};
use sha2::{Digest, Sha256};
use store::rows::Traced;
use uuid::Uuid;

/// The `traceparent` that a call is made with: the trace of whoever started the instance, or one named after the
/// instance, and a span of the call's own. Attempts of one call are the same span.
pub(crate) fn of_call(instance: Uuid, call: &Call) -> String {
    child(call.trace.traceparent.as_deref(), instance, &call.key)
}

/// A span of its own, named after `key`, in the trace of `parent`; in one named after `root` if there is none.
pub(crate) fn child(parent: Option<&str>, root: Uuid, key: &str) -> String {
    let span = span(key);
    let parent: Vec<&str> = parent.iter().flat_map(|text| text.split('-')).collect();
    match parent.as_slice() {
        ["00", trace, _, flags] => format!("00-{trace}-{span}-{flags}"),
        _ => format!("00-{}-{span}-01", root.simple()),
    }
}

/// What an event is found by.
pub(crate) fn traced(event: &Data) -> Traced {
    let text = |name: &str| event.get(name).and_then(|value| value.as_str().map(str::to_owned));
    let short = |text: &String| (1..=Traced::BYTES_MAX).contains(&text.len());
    Traced {
        trace_id: text("traceparent").and_then(|given| read(&given)).map(|place| place.trace),
        correlation_id: text("correlationid").filter(short),
    }
}

/// The id of the span that is named after `key`.
pub(crate) fn span(key: &str) -> String {
    let hash: [u8; 32] = Sha256::digest(key.as_bytes()).into();
    // An all-zero span is no span.
    let span = u64::from_be_bytes(hash[..8].try_into().expect("eight bytes")).max(1);
    format!("{span:016x}")
}

/// What a `traceparent` says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) trace: String,
    pub(crate) span: String,
    /// Whoever began the trace wants it kept.
    pub(crate) is_sampled: bool,
}

/// Reads a `traceparent`; nothing if it is none.
pub(crate) fn read(traceparent: &str) -> Option<Place> {
    let parts: Vec<&str> = traceparent.split('-').collect();
    let ["00", trace, span, flags] = parts.as_slice() else { return None };
    let is_id = |text: &str, digits: usize| {
        let all = text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        text.len() == digits && all && text.bytes().any(|byte| byte != b'0')
    };
    let flags = u8::from_str_radix(flags, 16).ok()?;
    let is_one = is_id(trace, 32) && is_id(span, 16);
    is_one.then(|| Place { trace: (*trace).to_owned(), span: (*span).to_owned(), is_sampled: flags & 1 == 1 })
}

#[cfg(test)]
mod tests {
    use super::of_call;
    use machine::{Data, command::Call};
    use uuid::Uuid;

    fn of(parent: Option<&str>, key: &str) -> String {
        let mut call = Call {
            token: 1,
            target: "t".to_owned(),
            version: None,
            key: key.to_owned(),
            step: "/do/0/a".to_owned(),
            input: Data::NULL,
            trace: Default::default(),
            secrets: vec![],
            again: false,
        };
        call.trace.traceparent = parent.map(str::to_owned);
        of_call(Uuid::from_u128(7), &call)
    }

    #[test]
    fn a_call_is_a_span_of_its_starters_trace() {
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
        let made = of(Some(parent), "k");
        assert!(made.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-") && made.ends_with("-00"), "{made}");
        assert_eq!(made.len(), parent.len());
        assert_ne!(made, parent);
        assert_eq!(made, of(Some(parent), "k"));
        assert_ne!(made, of(Some(parent), "other"));
    }

    #[test]
    fn what_is_no_traceparent_says_nothing() {
        let place = super::read("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03").expect("one");
        assert_eq!((place.span.as_str(), place.is_sampled), ("00f067aa0ba902b7", true));
        for text in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-zz",
        ] {
            assert_eq!(super::read(text), None, "{text}");
        }
    }

    #[test]
    fn without_a_starter_the_instance_names_the_trace() {
        assert!(of(None, "k").starts_with("00-00000000000000000000000000000007-"));
    }
}
