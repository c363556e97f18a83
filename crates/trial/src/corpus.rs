//! Payloads that broke something somewhere once (F23), as JSON texts: some are no JSON at all.

/// What they are, and the text of the event's data.
pub fn poison() -> Vec<(&'static str, Vec<u8>)> {
    let text = |text: &str| text.as_bytes().to_vec();
    let deep = |depth: usize| ["[".repeat(depth), "]".repeat(depth)].concat().into_bytes();
    vec![
        ("a NUL", text(r#"{"text": "a\u0000b"}"#)),
        ("a lone surrogate", text(r#"{"text": "\ud800"}"#)),
        ("a number beyond any", text(r#"{"n": 1e400}"#)),
        ("an integer that floats lose", text(r#"{"n": 9007199254740993}"#)),
        ("an integer beyond 64 bits", text(r#"{"n": 123456789012345678901234567890}"#)),
        ("a key twice", text(r#"{"n": 1, "n": 2}"#)),
        ("depth of ten thousand", deep(10_000)),
        ("depth of a hundred", deep(100)),
        ("no UTF-8", vec![b'"', 0xff, 0xfe, b'"']),
        ("an empty id", text(r#"{"id": "", "order": ""}"#)),
        ("a path upwards", text(r#"{"order": "../../etc/passwd", "name": ".."}"#)),
        ("a dot", text(r#"{"id": ".", "webhook": "a.b.c"}"#)),
        ("another type", text(r#"[1, "two", null]"#)),
        ("nothing", text("null")),
        ("a long text", format!(r#"{{"text": "{}"}}"#, "x".repeat(100_000)).into_bytes()),
    ]
}
