//! CloudEvents as the language sees them: how a wanted attribute is compared with the one found.

use crate::{
    data::Data,
    expr::{Args, Evaluation},
    fault::Fault,
    ir::{EventFilter, ExprId, Template},
    program::Program,
};

/// The longest attribute that is looked at as a pattern, or by one.
const PATTERN_BYTES_MAX: usize = 1024;

/// True if a wanted text is a regular expression and not just itself. A dot alone does not make it one: event types
/// are full of them.
pub fn is_pattern(text: &str) -> bool {
    text.contains(['\\', '^', '$', '*', '+', '?', '(', ')', '[', ']', '{', '}', '|'])
}

/// True if `found` is what is wanted: equal, or a text that the wanted text matches as a regular expression from end
/// to end.
pub fn attribute_fits(wanted: &Data, found: &Data) -> bool {
    if wanted == found {
        return true;
    }
    let (Some(pattern), Some(text)) = (wanted.as_str(), found.as_str()) else { return false };
    if !is_pattern(pattern) || pattern.len() > PATTERN_BYTES_MAX || text.len() > PATTERN_BYTES_MAX {
        return false;
    }
    regex(pattern).is_ok_and(|pattern| pattern.is_match(text))
}

fn regex(pattern: &str) -> Result<regex_bites::Regex, String> {
    regex_bites::Regex::new(&format!("^(?:{pattern})$")).map_err(|error| error.to_string())
}

/// What makes a wanted text a pattern that nothing can fit.
pub(crate) fn pattern_problem(text: &str) -> Option<String> {
    if !is_pattern(text) {
        return None;
    }
    match text.len() > PATTERN_BYTES_MAX {
        true => Some(format!("it has more than {PATTERN_BYTES_MAX} bytes")),
        false => regex(text).err(),
    }
}

/// True if one of the filters takes the event, outside of any instance: for schedules that events start. Expressions
/// see the event and nothing else. `answers` are as in [`crate::decide()`]. A filter that faults on an event does not
/// take it.
pub fn wanted(
    program: &Program,
    filters: &[EventFilter],
    event: &Data,
    answers: &[Result<Data, Fault>],
) -> Result<bool, Box<Evaluation>> {
    let mut look = Look { program, answers, asked: 0 };
    for filter in filters {
        match look.fits(filter, event) {
            Ok(true) => return Ok(true),
            Ok(false) | Err(Stop::Fault) => {}
            Err(Stop::Needs(evaluation)) => return Err(evaluation),
        }
    }
    Ok(filters.is_empty())
}

enum Stop {
    Fault,
    Needs(Box<Evaluation>),
}

struct Look<'a> {
    program: &'a Program,
    answers: &'a [Result<Data, Fault>],
    asked: usize,
}

impl Look<'_> {
    fn fits(&mut self, filter: &EventFilter, event: &Data) -> Result<bool, Stop> {
        for (name, template) in &filter.with {
            let found = event.get(name).unwrap_or_default();
            let holds = match template {
                Template::Expr(id) if name == "data" => self.eval(*id, &found)?.is_true(),
                template => attribute_fits(&self.template(template, event)?, &found),
            };
            if !holds {
                return Ok(false);
            }
        }
        for correlation in &filter.correlate {
            let found = self.eval(correlation.from, event)?;
            if let Some(expect) = &correlation.expect
                && self.template(expect, event)? != found
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn template(&mut self, template: &Template, dot: &Data) -> Result<Data, Stop> {
        match template {
            Template::Literal(data) => Ok(data.clone()),
            Template::Expr(id) => self.eval(*id, dot),
            Template::Loose(id, text) => match self.eval(*id, dot) {
                Err(Stop::Fault) => Ok(Data::text(text.as_str())),
                evaluated => evaluated,
            },
            Template::Array(items) => {
                let items: Result<Vec<_>, _> = items.iter().map(|item| self.template(item, dot)).collect();
                Ok(Data::array(items?))
            }
            Template::Object(entries) => {
                let entries: Result<Vec<_>, Stop> = entries
                    .iter()
                    .map(|(key, value)| Ok((key.clone(), self.template(value, dot)?)))
                    .collect();
                Ok(Data::map(entries?))
            }
        }
    }

    fn eval(&mut self, id: ExprId, dot: &Data) -> Result<Data, Stop> {
        let compiled = &self.program.exprs[id as usize];
        let args = Args::default();
        if compiled.bounded
            && let Some(result) = compiled.eval(dot, &args)
        {
            return result.map_err(|_| Stop::Fault);
        }
        let position = self.asked;
        self.asked += 1;
        match self.answers.get(position) {
            Some(answer) => answer.clone().map_err(|_| Stop::Fault),
            None => Err(Stop::Needs(Box::new(Evaluation {
                source: compiled.source.clone(),
                local_names: compiled.local_names.clone(),
                input: dot.clone(),
                args,
            }))),
        }
    }
}
