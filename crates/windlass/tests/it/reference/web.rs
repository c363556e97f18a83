//! The web as the examples see it: what `# answers:` says, and what was asked.

use super::example::{Example, Word};
use crate::{
    conformance::compare::difference_of_members,
    conformance::steps::read,
    hosts::{self, Answer, Request},
};
use serde_json::{Map, Value, json};
use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex},
};

/// A method and an address without its query.
type Target = (String, String);

#[derive(Default)]
pub(crate) struct Web {
    /// What is answered, one after the other; the last one again and again.
    answers: HashMap<Target, Vec<(u16, String)>>,
    asked: Mutex<HashMap<Target, Vec<Value>>>,
}

/// `METHOD URL` as a target, and the query.
fn target(method: &str, url: &str) -> (Target, String) {
    let (address, query) = url.split_once('?').unwrap_or((url, ""));
    ((method.to_owned(), address.to_owned()), query.to_owned())
}

impl Web {
    pub(crate) fn of(examples: &[Example]) -> Arc<Web> {
        let mut answers: HashMap<Target, Vec<(u16, String)>> = HashMap::new();
        let mut owners: HashMap<Target, &str> = HashMap::new();
        for example in examples {
            for word in example.all("answers") {
                let [method, url, status, rest] = word.parts();
                let (target, _) = target(method, url);
                let owner = owners.entry(target.clone()).or_insert(&example.place);
                assert_eq!(*owner, example.place, "{}: another example answers there too", word.place);
                let status = status.parse().unwrap_or_else(|_| panic!("{}: no status", word.place));
                answers.entry(target).or_default().push((status, rest.to_owned()));
            }
        }
        Arc::new(Web { answers, asked: Mutex::default() })
    }

    /// Flags that make an engine find the hosts here.
    pub(crate) async fn flags(self: &Arc<Web>, folder: &Path) -> Vec<String> {
        let hosts = self.answers.keys().filter_map(|(_, url)| url.strip_prefix("https://"));
        let mut hosts: Vec<String> =
            hosts.filter_map(|rest| rest.split('/').next()).map(str::to_owned).collect();
        hosts.sort();
        hosts.dedup();
        let web = self.clone();
        hosts::flags(folder, &hosts, Arc::new(move |request: &Request| web.answer(request))).await
    }

    fn answer(&self, request: &Request) -> Answer {
        let url = format!("https://{}{}", request.header("host"), request.path);
        let target = (request.method.clone(), url);
        let mut asked = self.asked.lock().unwrap();
        let before = asked.entry(target.clone()).or_default();
        let nothing = (404, "{}".to_owned());
        let planned = self.answers.get(&target);
        let (status, rest) =
            planned.and_then(|planned| planned.get(before.len()).or(planned.last())).unwrap_or(&nothing);
        let headers: Map<String, Value> =
            request.headers.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let body = serde_json::from_str::<Value>(&request.body).unwrap_or_else(|_| json!(request.body));
        before.push(json!({ "query": request.query, "headers": headers, "body": body }));
        let is_header = rest.split_once(": ").is_some_and(|(name, _)| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-')
        });
        let kind = match serde_json::from_str::<Value>(rest) {
            Ok(_) => "content-type: application/json",
            Err(_) => "content-type: text/plain",
        };
        let (header, body) = if is_header { (rest.as_str(), "") } else { (kind, rest.as_str()) };
        Answer { status: format!("{status} As Planned"), header: header.to_owned(), body: body.to_owned() }
    }

    /// Every `# called:` of the example was asked in that order, and no other request of that method and address.
    pub(crate) fn check(&self, example: &Example) -> Result<(), String> {
        let mut wanted: HashMap<Target, Vec<(&Word, String, &str)>> = HashMap::new();
        for word in example.all("called") {
            let [method, url, rest] = word.parts();
            let (target, query) = target(method, url);
            wanted.entry(target).or_default().push((word, query, rest));
        }
        let asked = self.asked.lock().unwrap();
        for (target, calls) in wanted {
            let found = asked.get(&target).map(Vec::as_slice).unwrap_or_default();
            if found.len() != calls.len() {
                return Err(format!("{} {} was asked {} times: {found:?}", target.0, target.1, found.len()));
            }
            for ((word, query, rest), found) in calls.into_iter().zip(found) {
                check_call(found, &query, rest).map_err(|why| format!("{}: {why}", word.place))?;
            }
        }
        Ok(())
    }
}

/// `rest` has members `headers` and `body`; of the headers only those named count.
fn check_call(found: &Value, query: &str, rest: &str) -> Result<(), String> {
    if found["query"] != query {
        return Err(format!("the query was {}", found["query"]));
    }
    let wanted = if rest.is_empty() { json!({}) } else { read(rest)? };
    let difference =
        wanted.as_object().into_iter().flatten().find_map(|(part, wanted)| match part.as_str() {
            "headers" => difference_of_members(&found["headers"], wanted),
            part => difference_of_members(&json!({ part: found[part] }), &json!({ part: wanted })),
        });
    difference.map_or(Ok(()), |difference| Err(format!("{difference} in {found}")))
}
