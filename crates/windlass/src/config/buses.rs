//! `[buses.NAME]`: servers that events go out and come in over.

use bus::{Channel, Inlet, Intakes, Outlet, Server, Template};
use runtime::{
    buses::Incomings,
    clock::{Clock as _, Dice, Entropy as _, SystemClock},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};
use toml::{Table, Value};

const NAME_MAX: usize = 40;
const TYPES_MAX: usize = 100;
/// What begins the names of these settings in the environment: `WINDLASS_BUSES_NAME_KEY`.
const PREFIX: &str = "WINDLASS_BUSES_";

/// Buses by name.
pub(crate) type Buses = BTreeMap<String, Bus>;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Bus {
    /// A server such as `nats://host:4222`, `redis://host:6379` or `kafka://host:9092`. May hold a password: prefer the environment,
    /// WINDLASS_BUSES_NAME_URL.
    pub(crate) url: String,
    /// Types of emitted events that go out over it; one that ends with `*` is the beginning of a type. None if empty.
    pub(crate) types: Vec<String>,
    /// Where events go, with `{tenant}` and `{type}` in it; what fits the server if empty.
    pub(crate) subject: String,
    /// NATS: the stream that keeps them.
    pub(crate) stream: String,
    /// NATS: makes the stream if it is not there. Kafka: lets the cluster make topics.
    pub(crate) create: bool,
    /// NATS: how many days a stream that is made here keeps what it has; 0 is for ever.
    pub(crate) keep_days: i64,
    /// Redis: about how many events a stream keeps; 0 is all.
    pub(crate) length_max: i64,
    /// Hears commands to workflows at `windlass-wf-{tenant}`.
    pub(crate) commands: bool,
    /// Places that CloudEvents are heard at, with `{tenant}` in each.
    pub(crate) events: Vec<String>,
    /// What a consumer has held for so long without acknowledging it, or Kafka has not heard of for so long, goes to another.
    pub(crate) claim_seconds: i64,
    /// Redis: replicas that must have an event before it counts as carried.
    pub(crate) replicas: i64,
}

impl Default for Bus {
    fn default() -> Bus {
        Bus {
            url: String::new(),
            types: vec!["*".to_owned()],
            subject: String::new(),
            stream: "windlass-events".to_owned(),
            create: true,
            keep_days: 7,
            length_max: 0,
            commands: false,
            events: vec![],
            claim_seconds: 60,
            replicas: 0,
        }
    }
}

impl Bus {
    fn outlet(&self) -> Result<Outlet, String> {
        let server = Server::parse(&self.url).map_err(|why| {
            format!("url: {why}; write redis://host:port, nats://host:port or kafka://host:port")
        })?;
        let range = |name: &str, value: i64, most: i64| match (0..=most).contains(&value) {
            true => Ok(value.unsigned_abs()),
            false => Err(format!("{name} is {value}; it must be 0 to {most}")),
        };
        let mut outlet = Outlet {
            stream: self.stream.clone(),
            create: self.create,
            keep: Duration::from_secs(range("keep_days", self.keep_days, 36_500)? * 86_400),
            length_max: range("length_max", self.length_max, i64::MAX)?,
            replicas: range("replicas", self.replicas, 100)? as u32,
            ..Outlet::new(server)
        };
        if !self.subject.is_empty() {
            outlet.subject = Template::parse(&self.subject).map_err(|why| format!("subject: {why}"))?;
        }
        let is_type = |kind: &String| {
            (1..=1024).contains(&kind.len()) && !kind.strip_suffix('*').unwrap_or(kind).contains('*')
        };
        if self.types.len() > TYPES_MAX || !self.types.iter().all(is_type) {
            return Err(format!(
                "types: at most {TYPES_MAX}, each of 1 to 1024 bytes with a * only at its end"
            ));
        }
        outlet.flaw().map_or(Ok(outlet), Err)
    }

    /// The places that are heard.
    fn inlets(&self) -> Result<Vec<Inlet>, String> {
        let mut inlets = Vec::new();
        if self.commands {
            inlets.push(Inlet { channel: Channel::Commands, subject: Template::of_commands() });
        }
        for subject in &self.events {
            let template = Template::parse(subject).map_err(|why| format!("events: {why}"))?;
            if subject.contains("{type}") {
                return Err(format!("events: {subject:?} is no place for the events of a tenant"));
            }
            inlets.push(Inlet { channel: Channel::Events, subject: template });
        }
        match self.claim_seconds {
            1..=86_400 => Ok(inlets),
            other => Err(format!("claim_seconds is {other}; it must be 1 to 86400")),
        }
    }

    /// What comes in over it, if anything does.
    fn incomings(&self, server: Server) -> Result<Option<Incomings>, String> {
        let inlets = self.inlets()?;
        if inlets.is_empty() {
            return Ok(None);
        }
        let intakes = Intakes {
            server,
            create: self.create,
            claim_after: Duration::from_secs(self.claim_seconds.unsigned_abs()),
            consumer: Dice::from_os().id(SystemClock.now()).to_string(),
        };
        Ok(Some(Incomings { source: intakes.source()?, inlets }))
    }

    /// As a node works with it; the error names what is wrong.
    fn open(&self, name: &str) -> Result<runtime::buses::Bus, String> {
        let outlet = self.outlet()?;
        let incomings = self.incomings(outlet.server.clone())?;
        let (name, types) = (name.to_owned(), self.types.clone());
        Ok(runtime::buses::Bus { name, types, carrier: outlet.carrier()?, incomings })
    }
}

/// What nodes carry events out over; the error names what is wrong.
pub(crate) fn open(buses: &Buses) -> Result<Vec<runtime::buses::Bus>, String> {
    let open = |(name, bus): (&String, &Bus)| bus.open(name).map_err(|why| format!("buses.{name}.{why}"));
    buses.iter().map(open).collect()
}

/// What is wrong with them.
pub(super) fn flaws(buses: &Buses) -> Vec<String> {
    let mut flaws = Vec::new();
    for (name, bus) in buses {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(is_plain) {
            flaws.push(format!("buses.{name}: a name is 1 to {NAME_MAX} of a-z, 0-9 and -"));
        }
        let wrong = [bus.outlet().err(), bus.inlets().err()];
        flaws.extend(wrong.into_iter().flatten().map(|why| format!("buses.{name}.{why}")));
    }
    flaws
}

/// The bus and the key that a variable is about: `WINDLASS_BUSES_MY_BUS_URL` is `url` of `my-bus`.
pub(super) fn setting_of(variable: &str) -> Option<(String, String, Value)> {
    let rest = variable.strip_prefix(PREFIX)?;
    let keys = Table::try_from(Bus::default()).ok()?;
    let found = keys.into_iter().find_map(|(key, default)| {
        let name = rest.strip_suffix(&key.to_uppercase())?.strip_suffix('_')?;
        Some((name.to_lowercase().replace('_', "-"), key, default))
    });
    found.filter(|(name, _, _)| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bus(url: &str) -> Bus {
        Bus { url: url.to_owned(), ..Bus::default() }
    }

    #[test]
    fn a_variable_names_a_bus_and_a_key() {
        let of = |name: &str| setting_of(name).map(|(bus, key, _)| (bus, key));
        let is = |bus: &str, key: &str| Some((bus.to_owned(), key.to_owned()));
        assert_eq!(of("WINDLASS_BUSES_MAIN_URL"), is("main", "url"));
        assert_eq!(of("WINDLASS_BUSES_FAR_AWAY_LENGTH_MAX"), is("far-away", "length_max"));
        for other in ["WINDLASS_BUSES_URL", "WINDLASS_BUSES_MAIN_URI", "WINDLASS_BUS_MAIN_URL"] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn flaws_are_named_and_passwords_are_not() {
        let of = |name: &str, bus: Bus| flaws(&Buses::from([(name.to_owned(), bus)])).join("\n");
        assert_eq!(of("main", bus("nats://u:secret@n:4222")), "");
        for (bus, said) in [
            (bus(""), "buses.main.url: it is no URL"),
            (bus("amqp://u:secret@h"), "\"amqp\" is none of"),
            (
                Bus { subject: "events".into(), ..bus("redis://r") },
                "buses.main.subject: \"events\" needs {tenant}",
            ),
            (Bus { subject: "x-{tenant}".into(), ..bus("nats://u:secret@n") }, "stand alone between dots"),
            (Bus { subject: "windlass-wf-{tenant}".into(), ..bus("redis://r") }, "which is reserved"),
            (Bus { events: vec!["windlass-wf-{tenant}".into()], ..bus("redis://r") }, "which is reserved"),
            (Bus { replicas: -1, ..bus("redis://r") }, "buses.main.replicas is -1"),
            (Bus { types: vec!["a*b".into()], ..bus("redis://r") }, "buses.main.types"),
        ] {
            let flaws = of("main", bus);
            assert!(flaws.contains(said) && !flaws.contains("secret"), "{flaws}");
        }
        assert!(of("Main", bus("redis://r")).contains("a name is 1 to 40"));
        let shared = Bus { subject: "x-{tenant}".into(), create: false, ..bus("nats://n") };
        assert_eq!(of("main", shared), "");
    }
}
