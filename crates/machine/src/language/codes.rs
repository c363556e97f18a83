//! Every code a [`Problem`](super::Problem) can have. They are stable: tools branch on them, `docs/errors.md` lists them.

/// Code and meaning, by code. What begins with `warning:` does not keep a document from being deployed.
pub const CODES: &[(&str, &str)] = &[
    ("alias-cycle", "an alias refers to what it stands in"),
    ("argument-unavailable", "an expression names an argument that is not there at this place"),
    ("bad-cron", "a `cron` text is not one"),
    ("bad-duration", "a duration is not one"),
    ("bad-expression", "an expression cannot be read, or names what does not exist"),
    ("bad-function", "a function is called with what it does not take"),
    ("bad-item", "an element of a list is not of the kind that belongs there"),
    ("bad-name", "a name has characters or a length that names may not have"),
    ("bad-pattern", "an event filter cannot match anything"),
    ("bad-schedule", "a schedule says too much or too little"),
    ("bad-schema", "a JSON Schema is not one"),
    ("bad-tag", "a YAML tag that has no meaning here"),
    ("bad-task", "a task is of no known kind, or of several"),
    ("bad-time-zone", "a time zone that does not exist"),
    ("bad-value", "a value outside what the key allows"),
    ("bad-version", "a version that is not a semantic one"),
    ("concurrent-export", "warning: branches that run at once export to the same context"),
    ("configuration", "the operator of this engine has not enabled or does not offer what is used"),
    ("conflicting-keys", "keys that exclude each other"),
    ("duplicate-case", "two cases of a `switch` have the same name"),
    ("duplicate-key", "the same key twice in one object"),
    ("duplicate-task", "two tasks of one list have the same name"),
    ("duplicate-variable", "two variables of the same name at one place"),
    ("embedded-expression", "warning: `${ }` inside a longer text stays text"),
    ("empty-document", "there is nothing in the document"),
    ("empty-list", "a list that needs an element has none"),
    ("end-in-saga", "a saga step may not end the workflow"),
    ("function-cycle", "functions call each other in a circle"),
    ("if-then", "warning: `then` of a task whose `if` is false does not apply"),
    ("key-not-text", "a key that is not text"),
    ("leading-zero", "warning: a number with a leading zero is read otherwise than it looks"),
    ("lone-surrogate", "half of a surrogate pair"),
    ("merge-key", "YAML merge keys are not supported"),
    ("missing-key", "a key that must be there is not"),
    ("not-fetched", "a document that is named could not be fetched"),
    ("not-formatted", "the document cannot be formatted without changing what it means"),
    ("not-utf8", "the document is not UTF-8"),
    ("nul-character", "a NUL character"),
    ("number-range", "a number that 64 bits cannot hold"),
    ("reserved-name", "a name that the language keeps for itself"),
    ("schema", "data does not fit its JSON Schema"),
    ("secret-exposed", "a secret would leave the place where secrets are allowed"),
    ("several-documents", "more than one YAML document in one text"),
    ("static-only", "an expression where only a fixed value is possible"),
    ("syntax", "this is not YAML or not JSON"),
    ("too-deep", "nested deeper than allowed"),
    ("too-large", "longer or more than allowed"),
    ("too-many-aliases", "aliases that would blow up the document"),
    ("two-defaults", "a `switch` with two cases without `when`"),
    ("unknown-dsl", "a version of the language that this engine does not know"),
    ("unknown-key", "a key that is not known there"),
    ("unknown-reference", "a name that refers to nothing"),
    ("unknown-target", "`then` to a task that is not there"),
    ("unreachable-task", "warning: a task that nothing leads to"),
    ("unsupported", "this engine does not execute it"),
    ("unused-undo", "warning: an `undo` that can never be needed"),
    ("wrong-type", "a value of the wrong type"),
];

/// True if the code is one of them.
pub(crate) fn is_known(code: &str) -> bool {
    CODES.binary_search_by_key(&code, |(code, _)| code).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_order_and_there_once() {
        assert!(CODES.is_sorted_by(|(a, _), (b, _)| a < b));
    }
}
