//! How store errors look to callers.

use crate::api::Refusal;

pub(crate) fn of_store(error: store::Error) -> Refusal {
    match error {
        store::Error::Full(_) => Refusal::Full,
        store::Error::Fenced => Refusal::Unavailable("this node was taken over".to_owned()),
        store::Error::Unavailable(detail) | store::Error::Unknown(detail) | store::Error::InUse(detail) => {
            Refusal::Unavailable(detail)
        }
        store::Error::Misconfigured(detail) => {
            tracing::error!(detail, "the store cannot be used as it is set up");
            Refusal::Unavailable("the store is not set up; see the node's log".to_owned())
        }
        store::Error::Corrupt(detail) => {
            tracing::error!(detail, "store corrupt");
            Refusal::Unavailable("the store is damaged; see the node's log".to_owned())
        }
    }
}
