//! What an expression may answer: JSON of bounded size and depth.

use crate::{
    data::{DEPTH_MAX, Data},
    fault::{Fault, Kind},
};
use jaq_json::{Num, Val};
use std::sync::Arc;

/// Outputs of one evaluation.
pub(super) const OUTPUTS_MAX: usize = 10_000;
/// Estimated length of the result as JSON text.
pub(super) const BYTES_MAX: usize = 1024 * 1024;

/// No output is null, one is itself, several are an array; checked and in the form it will be read back.
pub(super) fn finish(mut outputs: Vec<Val>) -> Result<Data, Fault> {
    let result = match outputs.len() {
        0 => Val::Null,
        1 => outputs.remove(0),
        _ => outputs.into_iter().collect(),
    };
    let mut check = Check { bytes: 0, plain: true };
    check.value(&result, 0).map_err(|detail| Fault::new(Kind::Expression, detail))?;
    Ok(Data(if check.plain { result } else { plain(result) }))
}

struct Check {
    bytes: usize,
    /// False once a number was seen that is stored differently from how it is held.
    plain: bool,
}

impl Check {
    fn value(&mut self, value: &Val, depth: usize) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Err(format!("the result is nested deeper than {DEPTH_MAX} levels"));
        }
        self.take(match value {
            Val::TStr(text) => text.len() + 3,
            _ => 4,
        })?;
        match value {
            Val::Null | Val::Bool(_) | Val::Num(Num::Int(_)) => Ok(()),
            Val::Num(Num::Float(f)) if !f.is_finite() => {
                Err(format!("the result holds {f}, which is not JSON"))
            }
            Val::Num(Num::Float(f)) => {
                self.plain &= f.fract() != 0.0;
                Ok(())
            }
            Val::Num(_) => {
                self.plain = false;
                Ok(())
            }
            Val::TStr(text) => check_text(text),
            Val::BStr(_) => Err("the result holds bytes, which are not JSON".to_owned()),
            Val::Arr(items) => items.iter().try_for_each(|item| self.value(item, depth + 1)),
            Val::Obj(map) => map.iter().try_for_each(|(key, value)| {
                let Val::TStr(text) = key else {
                    return Err("the result has a key that is not text".to_owned());
                };
                self.take(text.len() + 4)?;
                check_text(text)?;
                self.value(value, depth + 1)
            }),
        }
    }

    fn take(&mut self, bytes: usize) -> Result<(), String> {
        self.bytes += bytes;
        match self.bytes > BYTES_MAX {
            true => Err(format!("the result is larger than {BYTES_MAX} bytes")),
            false => Ok(()),
        }
    }
}

fn check_text(text: &[u8]) -> Result<(), String> {
    match std::str::from_utf8(text) {
        Err(_) => Err("the result holds text that is not valid UTF-8".to_owned()),
        Ok(text) if text.contains('\0') => Err("the result holds a NUL character".to_owned()),
        Ok(_) => Ok(()),
    }
}

/// Numbers as they are read back from their JSON text, so that a stored value and a kept one behave the same.
fn plain(value: Val) -> Val {
    match value {
        Val::Num(Num::Int(_)) => value,
        Val::Num(Num::Float(f)) if f.fract() != 0.0 => value,
        Val::Num(_) => serde_json::from_slice::<Data>(&Data(value).to_bytes()).unwrap_or_default().0,
        Val::Arr(items) => Arc::unwrap_or_clone(items).into_iter().map(plain).collect(),
        Val::Obj(map) => {
            Val::obj(Arc::unwrap_or_clone(map).into_iter().map(|(key, value)| (key, plain(value))).collect())
        }
        other => other,
    }
}
