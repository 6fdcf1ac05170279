//! Forms in which bodies are sent: what clients accept, and what they send.
//!
//! A client says in `Accept` which forms it takes, the best first. Beside JSON and YAML, clients may
//! ask for an object in another shape: as a table for people, or its metadata alone. Source:
//! `k8s.io/apiserver/pkg/endpoints/handlers/negotiation/negotiate.go`, Kubernetes 1.36.

use crate::table::TableVersion;

/// How an answer is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// JSON.
    #[default]
    Json,
    /// YAML.
    Yaml,
    /// Protocol buffers, for clients that take nothing else.
    Protobuf,
}

/// In which shape objects are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// As they are.
    #[default]
    Whole,
    /// As rows of a table.
    Table(TableVersion),
    /// Their metadata, of this version of `meta.k8s.io`.
    Metadata(&'static str),
}

/// What a client accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// How the answer is written.
    pub encoding: Encoding,
    /// In which shape objects are.
    pub shape: Shape,
}

impl Accepted {
    /// The best that a client accepts and that is served; `None` if nothing is. JSON is preferred
    /// to protocol buffers wherever a client takes both.
    pub fn of(accept: &str) -> Option<Self> {
        if accept.trim().is_empty() {
            return Some(Self::default());
        }
        let offers = accept.split(',').filter_map(offer);
        let mut protobuf = None;
        for offer in offers {
            match offer.encoding {
                Encoding::Protobuf => protobuf = protobuf.or(Some(offer)),
                _ => return Some(offer),
            }
        }
        protobuf
    }
}

fn offer(text: &str) -> Option<Accepted> {
    let mut parts = text.split(';').map(str::trim);
    let encoding = match parts.next()? {
        "application/json" | "*/*" | "application/*" => Encoding::Json,
        "application/yaml" => Encoding::Yaml,
        "application/vnd.kubernetes.protobuf" => Encoding::Protobuf,
        _ => return None,
    };
    let (mut shape, mut group, mut version) = ("", "", "");
    for (name, value) in parts.filter_map(|part| part.split_once('=')) {
        match name {
            "as" => shape = value,
            "g" => group = value,
            "v" => version = value,
            _ => {}
        }
    }
    let shape = match (shape, group, version) {
        ("", ..) => Shape::Whole,
        ("Table", "meta.k8s.io", "v1") => Shape::Table(TableVersion::V1),
        ("Table", "meta.k8s.io", "v1beta1") => Shape::Table(TableVersion::V1Beta1),
        ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", version) => {
            match version {
                "v1" => Shape::Metadata("v1"),
                "v1beta1" => Shape::Metadata("v1beta1"),
                _ => return None,
            }
        }
        _ => return None,
    };
    // Tables have no form in protocol buffers.
    let is_served = !(matches!(shape, Shape::Table(_)) && encoding == Encoding::Protobuf);
    is_served.then_some(Accepted { encoding, shape })
}

/// How a body is written that a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// Protocol buffers.
    Protobuf,
}

impl Sent {
    /// What a content type stands for; nothing is JSON.
    pub fn of(content_type: &str) -> Option<Self> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "" | "application/json" => Some(Self::Json),
            "application/yaml" => Some(Self::Yaml),
            "application/vnd.kubernetes.protobuf" => Some(Self::Protobuf),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_is_served_is_taken() {
        let of = |accept| Accepted::of(accept).map(|it| (it.encoding, it.shape));
        assert_eq!(of(""), Some((Encoding::Json, Shape::Whole)));
        assert_eq!(of("application/xml"), None);
        let protobuf = "application/vnd.kubernetes.protobuf";
        assert_eq!(of(protobuf), Some((Encoding::Protobuf, Shape::Whole)));
        let both = format!("{protobuf}, */*");
        assert_eq!(of(&both), Some((Encoding::Json, Shape::Whole)));
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(
            of(table),
            Some((Encoding::Json, Shape::Table(TableVersion::V1)))
        );
        let other = "application/json;as=Chair;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(of(other), Some((Encoding::Json, Shape::Whole)));
        let metadata = format!(
            "{protobuf};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
             application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
        );
        assert_eq!(of(&metadata), Some((Encoding::Json, Shape::Metadata("v1"))));
    }
}
