//! Failures of requests.

use engine::handler::AskError;

/// Reason why a request was not fulfilled: a status of HTTP and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// 4xx: the request is wrong; 5xx: the router cannot answer.
    pub status: u16,
    /// Reason for the failure, a sentence.
    pub text: String,
}

impl Failure {
    /// A failure.
    pub fn new(status: u16, text: impl Into<String>) -> Failure {
        Failure {
            status,
            text: text.into(),
        }
    }
}

impl From<AskError> for Failure {
    fn from(error: AskError) -> Failure {
        let status = match &error {
            AskError::NoElement(_) | AskError::NoHandler(_) => 404,
            AskError::Refused(_) => 422,
            AskError::NoAnswer(_) => 503,
        };
        Failure::new(status, error.to_string())
    }
}
