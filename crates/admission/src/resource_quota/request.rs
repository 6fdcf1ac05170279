//! A request as quotas see it, and what comes of it.

use std::fmt;

use outrank_api::decode::ObjectKind;
use outrank_api::types::{ObjectMeta, PersistentVolumeClaim, Pod, ResourceList, Service};

use super::devices::DevicesClaimed;

/// A kind of objects as URLs have it: `deployments` of the group `apps`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource {
    /// API group; empty is the core group.
    pub group: String,
    /// Plural name.
    pub resource: String,
}

impl GroupResource {
    /// The resource of this group and name.
    pub fn new(group: &str, resource: &str) -> Self {
        Self {
            group: group.to_owned(),
            resource: resource.to_owned(),
        }
    }
}

impl From<ObjectKind> for GroupResource {
    fn from(kind: ObjectKind) -> Self {
        let group = kind.api_version().split_once('/');
        Self::new(group.map_or("", |(group, _)| group), kind.plural())
    }
}

/// `deployments.apps`, or `pods` for the core group.
impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        match self.group.as_str() {
            "" => Ok(()),
            group => write!(f, ".{group}"),
        }
    }
}

/// An object as quotas see it; it must have its defaults.
#[derive(Clone, Copy, Debug)]
pub enum QuotaObject<'o> {
    /// A pod.
    Pod(&'o Pod),
    /// A service.
    Service(&'o Service),
    /// A claim to a volume.
    PersistentVolumeClaim(&'o PersistentVolumeClaim),
    /// A claim to devices.
    ResourceClaim(DevicesClaimed<'o>),
    /// An object that merely counts.
    Other(&'o ObjectMeta),
}

impl QuotaObject<'_> {
    /// The metadata.
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Pod(it) => &it.metadata,
            Self::Service(it) => &it.metadata,
            Self::PersistentVolumeClaim(it) => &it.metadata,
            Self::ResourceClaim(it) => &it.claim.metadata,
            Self::Other(metadata) => metadata,
        }
    }
}

/// What is to be done with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// It is new.
    Create,
    /// It changes.
    Update,
}

/// A request to the API server, as far as quotas are concerned.
#[derive(Clone, Copy, Debug)]
pub struct QuotaRequest<'o> {
    /// What is to be done.
    pub operation: Operation,
    /// With an object of which kind.
    pub resource: &'o GroupResource,
    /// Empty, or a part such as `status` or `resize`.
    pub subresource: &'o str,
    /// Namespace; empty for objects that are in none.
    pub namespace: &'o str,
    /// The object as it is to be.
    pub object: QuotaObject<'o>,
    /// The object as it is.
    pub old_object: Option<QuotaObject<'o>>,
    /// Whether nothing is to be written.
    pub dry_run: bool,
}

/// What a request adds to a quota.
#[derive(Clone, Debug, PartialEq)]
pub struct Charge {
    /// Index of the quota among those that were given.
    pub quota: usize,
    /// Its new `status.used`.
    pub used: ResourceList,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// HTTP 403, reason `Forbidden`.
    Forbidden(String),
    /// HTTP 500 without a reason.
    Internal(String),
}

impl Refusal {
    /// The HTTP code of the answer.
    pub fn code(&self) -> u16 {
        match self {
            Self::Forbidden(_) => 403,
            Self::Internal(_) => 500,
        }
    }

    /// The reason that the answer's Status gives; empty if it gives none.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Forbidden(_) => "Forbidden",
            Self::Internal(_) => "",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forbidden(message) | Self::Internal(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for Refusal {}
