//! Settings from the environment: `WINDLASS_SECTION_KEY` for every `[section] key`. A name that nothing reads is refused like
//! one in the file: whoever set it believes that it is in force.

use super::Config;
use std::collections::BTreeMap;
use toml::{Table, Value};

/// Variables by name.
pub(crate) type Environment = BTreeMap<String, String>;

const PREFIX: &str = "WINDLASS_";
/// What is read elsewhere in this program.
const OTHERS: [&str; 7] = [
    "WINDLASS_CONFIG",
    "WINDLASS_DATA",
    "WINDLASS_KEY",
    "WINDLASS_LOG",
    "WINDLASS_PROFILE",
    crate::outward::KEY_VARIABLE,
    "WINDLASS_URL",
];

/// The variables of this process that are about this program.
pub(super) fn read() -> Environment {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text).filter(|(name, _)| name.starts_with(PREFIX)).collect()
}

/// Puts `WINDLASS_SECTION_KEY` over the file's values.
pub(super) fn put_over(table: &mut Table, env: &Environment) -> Result<(), String> {
    let defaults = Table::try_from(Config::default()).map_err(|error| error.to_string())?;
    refuse_unknown(&defaults, env)?;
    for (section, keys) in &defaults {
        for (key, default) in keys.as_table().into_iter().flatten() {
            let name = name_of(section, key);
            let Some(text) = env.get(&name) else { continue };
            let value = value_of(&name, text, default)?;
            let section = table.entry(section.as_str()).or_insert_with(|| Value::Table(Table::new()));
            let section =
                section.as_table_mut().ok_or_else(|| format!("{name}: the file has no such section"))?;
            section.insert(key.clone(), value);
        }
    }
    put_workers_over(table, env)?;
    put_buses_over(table, env)
}

/// Workers have names of their own too.
fn put_workers_over(table: &mut Table, env: &Environment) -> Result<(), String> {
    for (variable, text) in env {
        let Some((worker, key)) = super::workers::setting_of(variable) else { continue };
        let value = value_of(variable, text, &Value::Integer(0))?;
        put_named(table, "workers", worker, variable)?.insert(key.to_owned(), value);
    }
    Ok(())
}

/// What the file has of one of a section's own names.
fn put_named<'t>(
    table: &'t mut Table,
    section: &str,
    name: String,
    variable: &str,
) -> Result<&'t mut Table, String> {
    let empty = || Value::Table(Table::new());
    let named = table.entry(section).or_insert_with(empty).as_table_mut();
    let entry = named.and_then(|named| named.entry(name).or_insert_with(empty).as_table_mut());
    entry.ok_or_else(|| format!("{variable}: the file has no such section"))
}

/// Buses have names of their own, so a variable may be about one that the file does not have.
fn put_buses_over(table: &mut Table, env: &Environment) -> Result<(), String> {
    for (variable, text) in env {
        let Some((bus, key, default)) = super::buses::setting_of(variable) else { continue };
        let value = value_of(variable, text, &default)?;
        put_named(table, "buses", bus, variable)?.insert(key, value);
    }
    Ok(())
}

/// The text as a value of the same type as the default.
fn value_of(name: &str, text: &str, default: &Value) -> Result<Value, String> {
    let value = match default {
        Value::Integer(_) => text.parse().ok().map(Value::Integer),
        Value::Boolean(_) => text.parse().ok().map(Value::Boolean),
        Value::Array(_) => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            Some(Value::Array(items.map(|item| Value::String(item.to_owned())).collect()))
        }
        _ => Some(Value::String(text.to_owned())),
    };
    value.ok_or_else(|| format!("{name} is {text:?}, which is no {}", default.type_str()))
}

fn name_of(section: &str, key: &str) -> String {
    format!("{PREFIX}{}_{}", section.to_uppercase(), key.to_uppercase())
}

fn refuse_unknown(defaults: &Table, env: &Environment) -> Result<(), String> {
    let mut known: Vec<String> = OTHERS.iter().map(|name| (*name).to_owned()).collect();
    for (section, keys) in defaults {
        known.extend(keys.as_table().into_iter().flatten().map(|(key, _)| name_of(section, key)));
    }
    let is_named =
        |name: &str| super::buses::setting_of(name).is_some() || super::workers::setting_of(name).is_some();
    let unknown = |name: &&String| {
        name.starts_with(PREFIX) && !known.contains(name) && !is_link(name) && !is_named(name)
    };
    let Some(name) = env.keys().find(unknown) else { return Ok(()) };
    // What all names begin with says nothing of how near they are.
    let bare = |name: &'_ str| name.strip_prefix(PREFIX).unwrap_or(name).to_owned();
    let known: Vec<String> = known.iter().map(|name| bare(name)).collect();
    Err(match machine::language::nearest(&bare(name), known.iter().map(String::as_str)) {
        Some(meant) => format!("{name} is not known; is {PREFIX}{meant} meant?"),
        None => format!("{name} is not known; `windlass serve --print-config` shows every setting"),
    })
}

/// Kubernetes tells every container of the services beside it, in variables that begin with their names.
fn is_link(name: &str) -> bool {
    let ends = ["_SERVICE_HOST", "_SERVICE_PORT", "_PORT"].iter().any(|end| name.ends_with(end));
    ends || name.contains("_SERVICE_PORT_")
        || (name.contains("_PORT_") && (name.contains("_TCP") || name.contains("_UDP")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(name: &str) -> Option<String> {
        put_over(&mut Table::new(), &Environment::from([(name.to_owned(), "1".to_owned())])).err()
    }

    #[test]
    fn what_other_parts_and_services_beside_it_are_told_is_no_mistake() {
        for name in OTHERS {
            assert_eq!(refused(name), None, "{name}");
        }
        let links = [
            "WINDLASS_SERVICE_HOST",
            "WINDLASS_PORT",
            "WINDLASS_PORT_8400_TCP_ADDR",
            "WINDLASS_SERVICE_PORT_HTTP",
        ];
        for name in links {
            assert_eq!(refused(name), None, "{name}");
        }
    }

    #[test]
    fn a_name_that_nothing_reads_is_refused_with_the_one_that_is_meant() {
        let said = refused("WINDLASS_SERVER_LISTENS").unwrap();
        assert!(said.contains("is WINDLASS_SERVER_LISTEN meant?"), "{said}");
        let said = refused("WINDLASS_FROBNICATE").unwrap();
        assert!(said.contains("--print-config"), "{said}");
    }
}
