//! What the server says of the types that it serves: discovery and OpenAPI.

use outrank_api::status::Status;

use crate::answer::Answer;
use crate::custom_types;
use crate::discovery::{Discovery, Form};
use crate::document::Document;
use crate::openapi::{OpenApi, version_2};
use crate::request::Query;
use crate::served_types::ServedTypes;

/// The documents about a set of types. They are made when they are asked for.
pub(crate) struct SelfDescription {
    discovery: Discovery,
    openapi: OpenApi,
}

impl SelfDescription {
    pub(crate) fn new(types: &ServedTypes, address: &str) -> Self {
        Self {
            discovery: Discovery::new(types.resources(), address),
            openapi: OpenApi::new(types.resources(), custom_types::schemas(types)),
        }
    }

    /// The document at a path, in a form that is accepted; `None` if there is none.
    pub(crate) fn answer(
        &self,
        path: &str,
        query: &str,
        accept: &str,
        if_none_match: &str,
    ) -> Option<Answer> {
        if let Some(path) = path.strip_prefix("/openapi/v3") {
            return self.openapi_document(path.trim_matches('/'), query, if_none_match);
        }
        if path == "/openapi/v2" {
            let document = version_2(accept);
            let answer = document.map(|it| tagged(&it, if_none_match));
            return Some(answer.unwrap_or_else(|| not_acceptable("application/json")));
        }
        let Some(form) = Form::accepted(accept) else {
            let wanted = self.discovery.document(path, Form::Plain)?;
            return Some(not_acceptable(wanted.content_type()));
        };
        let document = self.discovery.document(path, form)?;
        Some(tagged(&document, if_none_match))
    }

    fn openapi_document(&self, path: &str, query: &str, if_none_match: &str) -> Option<Answer> {
        if path.is_empty() {
            return Some(tagged(self.openapi.index(), if_none_match));
        }
        let document = self.openapi.document(path)?;
        match Query::parse(query).get("hash") {
            "" => Some(tagged(document, if_none_match)),
            hash if hash == document.hash() => {
                let mut answer = tagged(document, if_none_match);
                answer.may_be_kept = true;
                Some(answer)
            }
            _ => {
                let mut answer = Answer::text(301, "");
                let hash = document.hash();
                answer.location = Some(format!("/openapi/v3/{path}?hash={hash}"));
                Some(answer)
            }
        }
    }
}

fn not_acceptable(available: &str) -> Answer {
    Answer::status(&Status {
        code: 406,
        reason: Some(outrank_api::status::Reason::NotAcceptable),
        message: format!("only the following media types are accepted: {available}"),
        ..Status::bad_request("")
    })
}

/// The document, or that the client has it.
fn tagged(document: &Document, if_none_match: &str) -> Answer {
    let is_known = !if_none_match.is_empty() && document.is_match(if_none_match);
    let mut answer = match is_known {
        true => Answer::bytes(304, document.content_type(), Vec::new()),
        false => Answer::bytes(200, document.content_type(), document.body().clone()),
    };
    answer.etag = Some(document.etag());
    answer
}
