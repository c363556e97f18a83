//! Reads a page: the examples in it, and what the comments of each say.

/// What prepares an example.
const SETTINGS: [&str; 3] = ["secret", "answers", "dataset"];
/// What is done with it, in order.
const ACTIONS: [&str; 10] =
    ["input", "signal", "token", "event", "task", "advance", "cancel", "pause", "resume", "retry"];
/// What must come of it.
const EXPECTATIONS: [&str; 12] = [
    "output",
    "error",
    "status",
    "context",
    "ran",
    "called",
    "emitted",
    "children",
    "started",
    "refused",
    "warned",
    "task-refused",
];

/// A fenced `yaml` block, with the `sh` blocks that follow it.
pub(crate) struct Example {
    /// `page:line`, where it begins.
    pub(crate) place: String,
    /// All but the last are deployed before it, and the last is what is started.
    pub(crate) documents: Vec<String>,
    pub(crate) words: Vec<Word>,
    pub(crate) scripts: Vec<String>,
}

/// A comment that means something.
pub(crate) struct Word {
    pub(crate) place: String,
    pub(crate) name: String,
    pub(crate) rest: String,
}

pub(crate) fn read(page: &str, text: &str) -> Vec<Example> {
    let mut found: Vec<Example> = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(kind) = line.trim_start().strip_prefix("```") else { continue };
        let body = lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```");
        let body: Vec<&str> = body.collect();
        match kind {
            "yaml" => found.push(Example::new(page, number + 1, &body)),
            "sh" => found.last_mut().expect("an example before the commands").scripts.push(body.join("\n")),
            _ => {}
        }
    }
    found
}

impl Example {
    fn new(page: &str, line: usize, body: &[&str]) -> Example {
        let mut words: Vec<Word> = Vec::new();
        for (number, text) in body.iter().enumerate() {
            if let (Some(more), Some(word)) = (text.strip_prefix("#   "), words.last_mut()) {
                word.rest = format!("{} {}", word.rest, more.trim());
            } else if let Some((name, rest)) = text.strip_prefix("# ").and_then(|text| text.split_once(':'))
                && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
            {
                let place = format!("{page}:{}", line + 1 + number);
                words.push(Word { place, name: name.to_owned(), rest: rest.trim().to_owned() });
            }
        }
        let documents = body.split(|line| *line == "---").map(document).collect();
        Example { place: format!("{page}:{line}"), documents, words, scripts: Vec::new() }
    }

    /// An example must say what comes of it, in words that are known.
    pub(crate) fn check(&self) -> Result<(), String> {
        let known =
            |name: &str| [&SETTINGS[..], &ACTIONS, &EXPECTATIONS].iter().any(|set| set.contains(&name));
        if let Some(word) = self.words.iter().find(|word| !known(&word.name)) {
            return Err(format!("{}: nobody knows what `# {}:` means", word.place, word.name));
        }
        match self.words.iter().any(|word| EXPECTATIONS.contains(&word.name.as_str())) {
            true => Ok(()),
            false => Err(format!("{}: an example without an expectation", self.place)),
        }
    }

    pub(crate) fn all<'e>(&'e self, name: &'e str) -> impl Iterator<Item = &'e Word> {
        self.words.iter().filter(move |word| word.name == name)
    }
}

impl Word {
    pub(crate) fn is_setting(&self) -> bool {
        SETTINGS.contains(&self.name.as_str())
    }

    /// The rest in as many parts, the last of which has spaces.
    pub(crate) fn parts<const N: usize>(&self) -> [&str; N] {
        let mut parts = self.rest.splitn(N, ' ');
        std::array::from_fn(|_| parts.next().unwrap_or_default())
    }
}

/// The document, with the head that it leaves out.
fn document(lines: &[&str]) -> String {
    const HEAD: &str = "document: { dsl: '1.0.3', namespace: docs, name: example, version: '1.0.0' }";
    let has_head = lines.iter().any(|line| line.starts_with("document:"));
    let head = if has_head { &[][..] } else { &[HEAD] };
    head.iter().chain(lines).map(|line| format!("{line}\n")).collect()
}
