//! Where the events of a tenant go and come from: names with `{tenant}` and `{type}` in them.

use machine::TenantId;

/// The topic of workflow commands of a tenant: what comes in there is done, so nothing else may use the name.
const COMMANDS: &str = "windlass-wf-{tenant}";
/// The topic of changes of access rules of a tenant; nothing else may use the name.
pub const ACCESS: &str = "windlass-acl-{tenant}";

/// The longest name of a place: servers have limits of their own that are not smaller.
const NAME_MAX: usize = 200;

/// A name with places for the tenant and the type of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(String);

impl Template {
    /// The error says what to write.
    pub fn parse(text: &str) -> Result<Template, String> {
        let rest = text.replace("{tenant}", "").replace("{type}", "");
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if !rest.chars().all(is_plain) {
            return Err(format!(
                "{text:?} may hold letters, digits, -, _, dots, {{tenant}} and {{type}} only"
            ));
        }
        if text.is_empty() || text.len() > NAME_MAX || text.split('.').any(str::is_empty) {
            return Err(format!(
                "{text:?} must be 1 to {NAME_MAX} characters with something between its dots"
            ));
        }
        if !text.contains("{tenant}") {
            return Err(format!("{text:?} needs {{tenant}}: tenants never share a place"));
        }
        for reserved in [COMMANDS, ACCESS].map(|name| name.trim_end_matches("{tenant}")) {
            if text.starts_with(reserved) {
                return Err(format!("{text:?} begins with {reserved}, which is reserved"));
            }
        }
        Ok(Template(text.to_owned()))
    }

    /// The place of workflow commands.
    pub fn of_commands() -> Template {
        Template(COMMANDS.to_owned())
    }

    /// The place of events of this tenant and type.
    pub fn of(&self, tenant: &TenantId, event_type: &str) -> String {
        let name = self.0.replace("{tenant}", tenant.as_str());
        if name.contains("{type}") { name.replace("{type}", &escaped(event_type)) } else { name }
    }

    /// Whether types have places of their own.
    pub(crate) fn is_by_type(&self) -> bool {
        self.0.contains("{type}")
    }

    /// The NATS subjects of all tenants and types; the error says why there is no pattern for them.
    pub(crate) fn pattern(&self) -> Result<String, String> {
        let parts: Vec<&str> = self.0.split('.').collect();
        let mut pattern = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            match *part {
                "{tenant}" => pattern.push("*"),
                // A type has dots of its own.
                "{type}" if at + 1 == parts.len() => pattern.push(">"),
                "{type}" => return Err(format!("{{type}} must come last in {:?}", self.0)),
                part if part.contains('{') => {
                    return Err(format!(
                        "{{tenant}} and {{type}} must stand alone between dots in {:?}",
                        self.0
                    ));
                }
                part => pattern.push(part),
            }
        }
        Ok(pattern.join("."))
    }
}

/// A type as part of a name: what is no letter, digit, `-` or `_` becomes `%` and its byte, and so does a dot that has
/// nothing before or after it.
fn escaped(event_type: &str) -> String {
    let bytes = event_type.as_bytes();
    let mut name = String::with_capacity(bytes.len());
    for (at, byte) in bytes.iter().enumerate() {
        let is_inner = at > 0 && at + 1 < bytes.len() && bytes[at - 1] != b'.';
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => name.push(char::from(*byte)),
            b'.' if is_inner => name.push('.'),
            byte => name.push_str(&format!("%{byte:02X}")),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant() -> TenantId {
        TenantId::new("acme").unwrap()
    }

    #[test]
    fn a_place_is_made_of_tenant_and_type() {
        let template = Template::parse("windlass.{tenant}.events.{type}").unwrap();
        for (kind, place) in [
            ("order.created", "windlass.acme.events.order.created"),
            ("a b*>", "windlass.acme.events.a%20b%2A%3E"),
            (".a..b.", "windlass.acme.events.%2Ea.%2Eb%2E"),
            ("{tenant}", "windlass.acme.events.%7Btenant%7D"),
            ("é", "windlass.acme.events.%C3%A9"),
        ] {
            assert_eq!(template.of(&tenant(), kind), place);
        }
        assert_eq!(template.pattern().unwrap(), "windlass.*.events.>");
        assert_eq!(Template::parse("w.{tenant}").unwrap().of(&tenant(), "x"), "w.acme");
        assert_eq!(Template::parse("w.{tenant}").unwrap().pattern().unwrap(), "w.*");
    }

    #[test]
    fn names_that_mix_tenants_or_cannot_be_names_are_refused() {
        for (text, said) in [
            ("", "must be 1 to"),
            ("events", "needs {tenant}"),
            ("a..{tenant}", "between its dots"),
            ("a b.{tenant}", "may hold"),
            ("a.{tenant}.>", "may hold"),
            ("a.{tennant}", "may hold"),
            ("windlass-acl-{tenant}", "reserved"),
            // An event that goes out there would be taken for a command.
            ("windlass-wf-{tenant}", "reserved"),
            ("windlass-wf-{tenant}.{type}", "reserved"),
        ] {
            let error = Template::parse(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
        for text in ["{type}.{tenant}", "x-{tenant}.y", "a.{tenant}.{type}-x"] {
            assert!(Template::parse(text).unwrap().pattern().is_err(), "{text}");
        }
    }
}
