//! From documents to typed objects, with everything that is wrong reported at once.
//!
//! ```
//! let manifest = b"apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, lables: {}}\n";
//! let loaded = outrank_api::decode::load([("shop.yaml", manifest.as_slice())]);
//! assert_eq!(loaded.objects.len(), 1);
//! assert_eq!(
//!     loaded.warnings[0].to_string(),
//!     "shop.yaml:3: warning: metadata.lables: unknown field, left out; did you mean \"labels\"?",
//! );
//! ```

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::defaults;
use crate::diagnostic::{Diagnostic, Finding, Findings, Here, Severity, Suggestion};
use crate::document::{self, Document, DuplicateKey, Location, Place, Receiver, Request};
use crate::schema::{self, Rules};
use crate::status::Qualified;
use crate::types::{
    CSIDriver, CSINode, CSIStorageCapacity, ControllerRevision, CronJob, DaemonSet, Deployment,
    Job, LabelSelector, LimitRange, Namespace, Node, ObjectMeta, PersistentVolume,
    PersistentVolumeClaim, Pod, PodDisruptionBudget, PodTemplateSpec, PriorityClass, ReplicaSet,
    ReplicationController, ResourceQuota, RuntimeClass, Service, StatefulSet, StorageClass,
    VolumeAttachment,
};
use crate::validation::{self, Standing};
use crate::written_form;

/// How many different errors and how many different warnings of one file are kept.
pub const FINDINGS_PER_FILE_MAX: usize = 200;

macro_rules! objects {
    ($($kind:ident $api_version:literal $plural:literal,)*) => {
        /// An object of one of the kinds that decisions read.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Object {
            $(#[doc = concat!("A ", stringify!($kind), ".")] $kind(Box<$kind>),)*
        }

        /// A kind of [`Object`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ObjectKind {
            $(#[doc = concat!("`", $api_version, "` ", stringify!($kind), ".")] $kind,)*
        }

        impl ObjectKind {
            /// Every kind.
            pub const ALL: &'static [ObjectKind] = &[$(ObjectKind::$kind,)*];

            /// The name, such as `Pod`.
            pub fn name(self) -> &'static str {
                match self { $(ObjectKind::$kind => stringify!($kind),)* }
            }

            /// The API version in Kubernetes 1.36, such as `apps/v1`.
            pub fn api_version(self) -> &'static str {
                match self { $(ObjectKind::$kind => $api_version,)* }
            }

            /// The name in URLs and on the command line, such as `pods`.
            pub fn plural(self) -> &'static str {
                match self { $(ObjectKind::$kind => $plural,)* }
            }

            /// The API group, such as `apps`; empty for the core group.
            pub fn group(self) -> &'static str {
                self.api_version().split_once('/').map_or("", |(group, _)| group)
            }

            /// The plural with its group, such as `deployments.apps`.
            pub fn resource(self) -> Qualified<'static> {
                Qualified { group: self.group(), name: self.plural() }
            }

            /// The name with its group, such as `Deployment.apps`.
            pub fn qualified(self) -> Qualified<'static> {
                Qualified { group: self.group(), name: self.name() }
            }

            /// Where a value has fields that the type does not.
            fn unread_paths(self, value: &Value) -> Vec<Vec<String>> {
                match self { $(ObjectKind::$kind => unread_paths::<$kind>(value),)* }
            }

            fn decode(self, value: &Value) -> Result<Object, serde_json::Error> {
                let mut object = match self {
                    $(ObjectKind::$kind => Object::$kind(Box::new($kind::deserialize(value)?)),)*
                };
                note_unread(&mut object, value);
                Ok(object)
            }
        }

        impl Object {
            /// The kind.
            pub fn kind(&self) -> ObjectKind {
                match self { $(Object::$kind(_) => ObjectKind::$kind,)* }
            }

            /// The object as JSON, with `apiVersion` and `kind`: the fields that the types
            /// know.
            pub fn to_value(&self) -> Value {
                let value = match self { $(Object::$kind(object) => serde_json::to_value(object),)* };
                // Types with string keys and finite numbers always have a JSON form.
                let mut value = value.unwrap_or_default();
                if let Value::Object(fields) = &mut value {
                    fields.insert("apiVersion".to_owned(), self.kind().api_version().into());
                    fields.insert("kind".to_owned(), self.kind().name().into());
                }
                value
            }

            /// The object as one of its kind, if it is.
            pub fn get<T: Typed>(&self) -> Option<&T> {
                T::of(self)
            }

            /// Kind, namespace and name.
            pub fn key(&self) -> ObjectKey {
                let metadata = self.metadata();
                (self.kind(), metadata.namespace.clone(), metadata.name.clone())
            }

            /// The metadata.
            pub fn metadata(&self) -> &ObjectMeta {
                match self { $(Object::$kind(object) => &object.metadata,)* }
            }

            /// The metadata, to change.
            pub fn metadata_mut(&mut self) -> &mut ObjectMeta {
                match self { $(Object::$kind(object) => &mut object.metadata,)* }
            }
        }

        $(impl Typed for $kind {
            const KIND: ObjectKind = ObjectKind::$kind;

            fn of(object: &Object) -> Option<&Self> {
                match object {
                    Object::$kind(object) => Some(object),
                    _ => None,
                }
            }

            fn into_object(self) -> Object {
                Object::$kind(Box::new(self))
            }
        })*
    };
}

/// A type of which there is an [`Object`], such as [`Pod`].
pub trait Typed: Sized + 'static {
    /// Its kind.
    const KIND: ObjectKind;

    /// The object as one of this kind, if it is.
    fn of(object: &Object) -> Option<&Self>;

    /// As an object of any kind.
    fn into_object(self) -> Object;
}

objects! {
    Pod "v1" "pods",
    Node "v1" "nodes",
    Namespace "v1" "namespaces",
    PriorityClass "scheduling.k8s.io/v1" "priorityclasses",
    Deployment "apps/v1" "deployments",
    ReplicaSet "apps/v1" "replicasets",
    ReplicationController "v1" "replicationcontrollers",
    StatefulSet "apps/v1" "statefulsets",
    DaemonSet "apps/v1" "daemonsets",
    Job "batch/v1" "jobs",
    CronJob "batch/v1" "cronjobs",
    ControllerRevision "apps/v1" "controllerrevisions",
    Service "v1" "services",
    PersistentVolume "v1" "persistentvolumes",
    PersistentVolumeClaim "v1" "persistentvolumeclaims",
    StorageClass "storage.k8s.io/v1" "storageclasses",
    CSINode "storage.k8s.io/v1" "csinodes",
    CSIDriver "storage.k8s.io/v1" "csidrivers",
    CSIStorageCapacity "storage.k8s.io/v1" "csistoragecapacities",
    VolumeAttachment "storage.k8s.io/v1" "volumeattachments",
    PodDisruptionBudget "policy/v1" "poddisruptionbudgets",
    ResourceQuota "v1" "resourcequotas",
    LimitRange "v1" "limitranges",
    RuntimeClass "node.k8s.io/v1" "runtimeclasses",
}

impl ObjectKind {
    /// Whether storage is made of objects of this kind.
    pub fn is_storage(self) -> bool {
        matches!(
            self,
            ObjectKind::PersistentVolume
                | ObjectKind::PersistentVolumeClaim
                | ObjectKind::StorageClass
                | ObjectKind::CSINode
                | ObjectKind::CSIDriver
                | ObjectKind::CSIStorageCapacity
                | ObjectKind::VolumeAttachment
        )
    }

    /// Whether objects of the kind live in a namespace.
    pub fn is_namespaced(self) -> bool {
        !matches!(
            self,
            ObjectKind::Node
                | ObjectKind::Namespace
                | ObjectKind::PriorityClass
                | ObjectKind::PersistentVolume
                | ObjectKind::StorageClass
                | ObjectKind::CSINode
                | ObjectKind::CSIDriver
                | ObjectKind::VolumeAttachment
                | ObjectKind::RuntimeClass
        )
    }

    /// The short name on kubectl's command line, such as `po`, if there is one.
    pub fn short_name(self) -> Option<&'static str> {
        Some(match self {
            ObjectKind::Pod => "po",
            ObjectKind::Node => "no",
            ObjectKind::Namespace => "ns",
            ObjectKind::PriorityClass => "pc",
            ObjectKind::Deployment => "deploy",
            ObjectKind::ReplicaSet => "rs",
            ObjectKind::ReplicationController => "rc",
            ObjectKind::StatefulSet => "sts",
            ObjectKind::DaemonSet => "ds",
            ObjectKind::CronJob => "cj",
            ObjectKind::Service => "svc",
            ObjectKind::PersistentVolume => "pv",
            ObjectKind::PersistentVolumeClaim => "pvc",
            ObjectKind::StorageClass => "sc",
            ObjectKind::PodDisruptionBudget => "pdb",
            ObjectKind::ResourceQuota => "quota",
            ObjectKind::LimitRange => "limits",
            ObjectKind::Job
            | ObjectKind::ControllerRevision
            | ObjectKind::CSINode
            | ObjectKind::CSIDriver
            | ObjectKind::CSIStorageCapacity
            | ObjectKind::VolumeAttachment
            | ObjectKind::RuntimeClass => return None,
        })
    }

    /// The kind that kubectl's command line calls so: by name, plural or short name, in any
    /// case, alone or with its group.
    ///
    /// ```
    /// use outrank_api::decode::ObjectKind;
    ///
    /// for resource in ["Deployment", "deployments", "deploy", "deployment.apps"] {
    ///     assert_eq!(ObjectKind::of_resource(resource), Some(ObjectKind::Deployment));
    /// }
    /// assert_eq!(ObjectKind::of_resource("deployment.batch"), None);
    /// ```
    pub fn of_resource(resource: &str) -> Option<ObjectKind> {
        let (name, group) = match resource.split_once('.') {
            Some((name, group)) => (name, Some(group)),
            None => (resource, None),
        };
        let is_called = |kind: &&ObjectKind| {
            let names = [Some(kind.name()), Some(kind.plural()), kind.short_name()];
            let mut names = names.into_iter().flatten();
            names.any(|known| known.eq_ignore_ascii_case(name))
        };
        let is_in_group = |kind: &&ObjectKind| {
            let own = kind.api_version().split_once('/').map(|(group, _)| group);
            group.is_none() || group == own
        };
        let mut kinds = ObjectKind::ALL.iter();
        kinds
            .find(|kind| is_called(kind) && is_in_group(kind))
            .copied()
    }

    /// The kind with this name in this API version, also in versions that are gone from
    /// current Kubernetes but have the same fields.
    pub fn find(api_version: &str, kind: &str) -> Option<ObjectKind> {
        let found = ObjectKind::ALL
            .iter()
            .copied()
            .find(|known| known.name() == kind)?;
        let fits = found.api_version() == api_version || gone_since(api_version, kind).is_some();
        fits.then_some(found)
    }
}

/// The Kubernetes release that no longer serves this kind in this old API version.
fn gone_since(api_version: &str, kind: &str) -> Option<&'static str> {
    Some(match (api_version, kind) {
        ("extensions/v1beta1", "Deployment" | "DaemonSet" | "ReplicaSet") => "1.16",
        ("apps/v1beta1", "Deployment" | "StatefulSet") => "1.16",
        ("apps/v1beta2", "Deployment" | "DaemonSet" | "ReplicaSet" | "StatefulSet") => "1.16",
        ("batch/v2alpha1", "CronJob") => "1.21",
        ("batch/v1beta1", "CronJob") => "1.25",
        (
            "storage.k8s.io/v1beta1",
            "StorageClass" | "CSINode" | "CSIDriver" | "VolumeAttachment",
        ) => "1.22",
        ("storage.k8s.io/v1beta1", "CSIStorageCapacity") => "1.27",
        ("policy/v1beta1", "PodDisruptionBudget") => "1.25",
        ("node.k8s.io/v1beta1", "RuntimeClass") => "1.25",
        ("scheduling.k8s.io/v1alpha1" | "scheduling.k8s.io/v1beta1", "PriorityClass") => "1.22",
        _ => return None,
    })
}

/// Everything that was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    /// The objects, in the order of the inputs. As the API server would store them:
    /// defaulted ([`defaults::default_object`]), but without what admission adds.
    pub objects: Vec<LoadedObject>,
    /// Objects of kinds that no decision reads.
    pub ignored: Vec<Ignored>,
    /// What may not be meant so.
    pub warnings: Vec<Diagnostic>,
    /// What is wrong. If there is anything here, the objects must not be used.
    pub errors: Vec<Diagnostic>,
}

/// An object and where it is from.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedObject {
    /// The object.
    pub object: Object,
    /// As it was written, without `metadata.managedFields`; `null` unless it was asked for
    /// ([`LoadOptions::keep_raw`]).
    pub raw: Value,
    /// Where it is from.
    pub origin: Origin,
}

/// Where an object is from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    /// Name of the input.
    pub file: Arc<str>,
    /// The line where the object starts, from 1.
    pub line: usize,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Objects of one kind and one input that were not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// Their API version.
    pub api_version: String,
    /// Their kind.
    pub kind: String,
    /// How many.
    pub count: usize,
    /// Name of the first.
    pub name: String,
    /// Where the first is from.
    pub origin: Origin,
}

/// Kind, namespace and name of an object.
pub type ObjectKey = (ObjectKind, String, String);

/// Choices in reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadOptions<'k> {
    /// Which objects to keep as they were written, too; costs several times their memory.
    pub keep_raw: KeepRaw<'k>,
    /// Objects that may lack fields which they must have, being there already and only to be
    /// changed. They are not validated, beyond single fields.
    pub partial: Option<&'k HashSet<ObjectKey>>,
}

/// Which objects to keep as they were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeepRaw<'k> {
    /// None.
    #[default]
    None,
    /// All.
    All,
    /// These.
    Of(&'k HashSet<ObjectKey>),
}

impl KeepRaw<'_> {
    fn wants(self, kind: ObjectKind, value: &Value) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Of(keys) => keys.contains(&key_of(kind, value)),
        }
    }
}

/// Kind, namespace and name of an object that is not typed yet.
fn key_of(kind: ObjectKind, value: &Value) -> ObjectKey {
    let text = |path: &str| {
        value
            .pointer(path)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let namespace = match (kind.is_namespaced(), text("/metadata/namespace")) {
        (false, _) => "",
        (true, "") => defaults::NAMESPACE,
        (true, namespace) => namespace,
    };
    (
        kind,
        namespace.to_owned(),
        text("/metadata/name").to_owned(),
    )
}

impl Object {
    /// The template of a workload's pods, and where it is in the workload's JSON.
    pub fn template_mut(&mut self) -> Option<(&mut PodTemplateSpec, &'static str)> {
        let template = match self {
            Object::Deployment(it) => &mut it.spec.template,
            Object::ReplicaSet(it) => &mut it.spec.template,
            Object::ReplicationController(it) => &mut it.spec.template,
            Object::StatefulSet(it) => &mut it.spec.template,
            Object::DaemonSet(it) => &mut it.spec.template,
            Object::Job(it) => &mut it.spec.template,
            Object::CronJob(it) => {
                let template = &mut it.spec.job_template.spec.template;
                return Some((template, "/spec/jobTemplate/spec/template"));
            }
            _ => return None,
        };
        Some((template, "/spec/template"))
    }
}

/// Notes what the template of a workload says beside the fields that are typed.
fn note_unread(object: &mut Object, value: &Value) {
    if let Some((template, pointer)) = object.template_mut()
        && let Some(value) = value.pointer(pointer)
    {
        template.unread = unread::<PodTemplateSpec>(value);
    }
}

/// Stands for what a value says beside the fields that its type has: equal, in one process,
/// where that is; 0 if there is nothing.
pub(crate) fn unread<'v, T: Deserialize<'v>>(value: &'v Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut is_empty = true;
    for path in unread_paths::<T>(value) {
        let name = path.last().map_or("", String::as_str);
        let unread = at(value, &path).cloned();
        if let Some(unread) = unread.and_then(|it| without_nothing(name, it)) {
            is_empty = false;
            (path, unread.to_string()).hash(&mut hasher);
        }
    }
    if is_empty { 0 } else { hasher.finish() }
}

/// Where a value has fields that its type does not: names of fields and indices.
fn unread_paths<'v, T: Deserialize<'v>>(value: &'v Value) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    let mut note = |path: serde_ignored::Path<'_>| {
        let mut steps = Vec::new();
        collect_steps(&path, &mut steps);
        paths.push(steps);
    };
    let _: Result<T, _> = serde_ignored::deserialize(value, &mut note);
    paths
}

fn collect_steps(path: &serde_ignored::Path<'_>, steps: &mut Vec<String>) {
    use serde_ignored::Path;
    match path {
        Path::Root => {}
        Path::Seq { parent, index } => {
            collect_steps(parent, steps);
            steps.push(index.to_string());
        }
        Path::Map { parent, key } => {
            collect_steps(parent, steps);
            steps.push(key.clone());
        }
        Path::Some { parent }
        | Path::NewtypeStruct { parent }
        | Path::NewtypeVariant { parent } => collect_steps(parent, steps),
    }
}

fn at<'v>(value: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, step| match value {
        Value::Object(fields) => fields.get(step),
        Value::Array(elements) => elements.get(step.parse::<usize>().ok()?),
        _ => None,
    })
}

/// An object in full: its fields as they are typed, and those that the type does not have as
/// they were written. Elements of lists must stand where they stood.
///
/// ```
/// use outrank_api::decode::{decode_value, whole};
/// use serde_json::json;
///
/// let written = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
///                      "spec": {"containers": [{"name": "c", "tty": true}]}});
/// let mut pod = decode_value(&written).unwrap();
/// pod.metadata_mut().namespace = "shop".into();
/// let whole = whole(&pod, &written);
/// assert_eq!(whole["metadata"]["namespace"], "shop");
/// assert_eq!(whole["spec"]["containers"][0]["tty"], true);
/// ```
pub fn whole(object: &Object, written: &Value) -> Value {
    let mut whole = object.to_value();
    for path in object.kind().unread_paths(written) {
        if let Some(value) = at(written, &path) {
            put(&mut whole, &path, value);
        }
    }
    whole
}

fn put(target: &mut Value, path: &[String], value: &Value) {
    let Some((step, rest)) = path.split_first() else {
        *target = value.clone();
        return;
    };
    match target {
        Value::Object(fields) => {
            let field = fields
                .entry(step.clone())
                .or_insert_with(|| Map::new().into());
            put(field, rest, value);
        }
        Value::Array(elements) => {
            let index = step.parse::<usize>().ok();
            if let Some(element) = index.and_then(|index| elements.get_mut(index)) {
                put(element, rest, value);
            }
        }
        _ => {}
    }
}

/// Fields of which the API server does not store `false` or 0.
const ABSENT_IF_ZERO: [&str; 8] = [
    "hostIPC",
    "hostPID",
    "initialDelaySeconds",
    "optional",
    "readOnly",
    "stdin",
    "stdinOnce",
    "tty",
];

/// The value of a field without what says no more than its absence; `None` if nothing is left.
fn without_nothing(name: &str, value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Bool(false) if ABSENT_IF_ZERO.contains(&name) => None,
        Value::Number(number) if number.as_i64() == Some(0) && ABSENT_IF_ZERO.contains(&name) => {
            None
        }
        Value::String(text) => (!text.is_empty()).then_some(Value::String(text)),
        Value::Array(elements) => {
            let elements = elements.into_iter().map(|element| {
                let kept = without_nothing("", element);
                kept.unwrap_or(Value::Null)
            });
            let elements: Vec<Value> = elements.collect();
            (!elements.is_empty()).then_some(Value::Array(elements))
        }
        Value::Object(fields) => {
            let fields = fields.into_iter().filter_map(|(name, value)| {
                let kept = without_nothing(&name, value)?;
                Some((name, kept))
            });
            let fields: Map<String, Value> = fields.collect();
            (!fields.is_empty()).then_some(Value::Object(fields))
        }
        other => Some(other),
    }
}

/// Reads inputs, each a name for messages and bytes, into objects.
pub fn load<'a>(inputs: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Loaded {
    load_with(LoadOptions::default(), inputs)
}

/// Reads inputs as [`load`] does, with options.
pub fn load_with<'a>(
    options: LoadOptions<'_>,
    inputs: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) -> Loaded {
    let mut loaded = Loaded::default();
    for (name, bytes) in inputs {
        load_one(options, name, bytes, &mut loaded);
    }
    loaded
}

/// Types an object that already is JSON, defaulted and checked as [`load`] does it.
///
/// # Errors
///
/// A kind that is not one of [`ObjectKind`], or what is wrong with the object: all of it.
pub fn decode_whole(value: Value) -> Result<Object, Vec<Finding>> {
    let kind = known_kind(&value)?;
    let (object, findings) = checked(kind, value, Standing::New);
    errors_or(object, findings)
}

/// Types an object that is there and was changed, as [`decode_whole`] does it. What was wrong with
/// it before may stay.
///
/// # Errors
///
/// A kind that is not one of [`ObjectKind`], or what is wrong with the object now.
pub(crate) fn decode_changed(value: Value, before: &Value) -> Result<Object, Vec<Finding>> {
    let kind = known_kind(&value)?;
    let (object, mut findings) = checked(kind, value, Standing::Changed);
    if !findings.0.is_empty() {
        let (_, known) = checked(kind, before.clone(), Standing::Changed);
        findings.0.retain(|finding| !known.0.contains(finding));
    }
    errors_or(object, findings)
}

/// An object, defaulted, and all that can be said of it.
fn checked(
    kind: ObjectKind,
    mut value: Value,
    standing: Standing,
) -> (Result<Object, serde_json::Error>, Findings) {
    let mut findings = Findings::default();
    let (api_version, name) = (kind.api_version(), kind.name());
    schema::check(Rules::All, api_version, name, &mut value, &mut findings);
    let object = kind.decode(&value).map(|mut object| {
        defaults::default_object(&mut object);
        validation::validate(&object, value, standing, &mut findings);
        object
    });
    (object, findings)
}

/// An object that is from nowhere in particular.
impl From<Object> for LoadedObject {
    fn from(object: Object) -> Self {
        Self {
            object,
            raw: Value::Null,
            origin: Origin::default(),
        }
    }
}

impl LoadedObject {
    /// What is wrong with an object that was read as a part ([`LoadOptions::partial`]) and is
    /// to stand for itself.
    pub fn findings(&self) -> Vec<Finding> {
        let kind = self.object.kind();
        let mut findings = Findings::default();
        let mut value = match &self.raw {
            Value::Null => self.object.to_value(),
            raw => raw.clone(),
        };
        let (api_version, name) = (kind.api_version(), kind.name());
        schema::check(Rules::All, api_version, name, &mut value, &mut findings);
        validation::validate(&self.object, value, Standing::New, &mut findings);
        findings
            .0
            .retain(|finding| finding.severity == Severity::Error);
        findings.0
    }
}

/// Types an object that already is JSON. Nothing is defaulted or validated, unknown fields
/// pass, `null` means absent.
///
/// # Errors
///
/// A kind that is not one of [`ObjectKind`], or fields of the wrong type: all of them.
pub fn decode_value(value: &Value) -> Result<Object, Vec<Finding>> {
    let found = known_kind(value)?;
    if let Ok(object) = found.decode(value) {
        return Ok(object);
    }
    let mut value = value.clone();
    let mut findings = Findings::default();
    let (api_version, name) = (found.api_version(), found.name());
    schema::check(Rules::None, api_version, name, &mut value, &mut findings);
    errors_or(found.decode(&value), findings)
}

fn known_kind(value: &Value) -> Result<ObjectKind, Vec<Finding>> {
    let (api_version, kind) = identity(value);
    ObjectKind::find(api_version, kind).ok_or_else(|| {
        let mut findings = Findings::default();
        let message = format!("unknown kind {kind:?} of {api_version:?}");
        findings.error(&Here::OBJECT, message);
        findings.0
    })
}

/// The object, if nothing is wrong with it.
fn errors_or(
    object: Result<Object, serde_json::Error>,
    mut findings: Findings,
) -> Result<Object, Vec<Finding>> {
    findings
        .0
        .retain(|finding| finding.severity == Severity::Error);
    match object {
        Ok(object) if findings.0.is_empty() => Ok(object),
        Ok(_) => Err(findings.0),
        Err(error) => {
            if findings.0.is_empty() {
                findings.error(&Here::OBJECT, error.to_string());
            }
            Err(findings.0)
        }
    }
}

fn identity(value: &Value) -> (&str, &str) {
    let text = |key| value.get(key).and_then(Value::as_str).unwrap_or_default();
    (text("apiVersion"), text("kind"))
}

fn load_one(options: LoadOptions<'_>, name: &str, bytes: &[u8], loaded: &mut Loaded) {
    let mut file = File {
        options,
        name: Arc::from(name),
        loaded,
        ignored: HashMap::new(),
        reports: Reports::default(),
    };
    let outcome = document::text(bytes).and_then(|text| {
        let outcome = document::read(&text, &mut file);
        file.report(&text);
        outcome
    });
    if let Err(error) = outcome {
        file.loaded.errors.push(Diagnostic {
            severity: Severity::Error,
            file: file.name.clone(),
            line: error.line,
            path: String::new(),
            message: error.message,
            suggestion: None,
            more: 0,
        });
    }
}

/// One input while it is read.
struct File<'l> {
    options: LoadOptions<'l>,
    name: Arc<str>,
    loaded: &'l mut Loaded,
    /// Index into `loaded.ignored` by API version and kind.
    ignored: HashMap<(String, String), usize>,
    reports: Reports,
}

impl Receiver for File<'_> {
    fn document(&mut self, document: Document) {
        self.take(document.value, document.location);
    }

    fn duplicate_key(&mut self, duplicate: DuplicateKey) {
        let message = format!("key {:?} appears twice; the last one counts", duplicate.key);
        let location = Location {
            line: duplicate.line,
            ..Location::default()
        };
        let mut findings = Findings::default();
        findings.warning(&Here::OBJECT, message);
        self.reports.add(location, findings.0);
    }
}

impl File<'_> {
    fn take(&mut self, value: Value, location: Location) {
        let (api_version, kind) = identity(&value);
        if let Some(found) = ObjectKind::find(api_version, kind) {
            self.take_object(found, value, location);
        } else if kind.ends_with("List") && value.get("items").is_some() {
            self.take_list(value, location);
        } else if api_version.is_empty() || kind.is_empty() {
            self.refuse(&value, location);
        } else {
            self.ignore(&value, location);
        }
    }

    fn take_object(&mut self, kind: ObjectKind, mut value: Value, location: Location) {
        let raw = match self.options.keep_raw.wants(kind, &value) {
            true => value.clone(),
            false => Value::Null,
        };
        let mut findings = Findings::default();
        let old_version = note_old_version(&value, kind, &mut findings);
        let partial = self.options.partial;
        let is_part = partial.is_some_and(|keys| keys.contains(&key_of(kind, &value)));
        let rules = match is_part {
            true => Rules::OfValues,
            false => Rules::All,
        };
        let (api_version, name) = (kind.api_version(), kind.name());
        schema::check(rules, api_version, name, &mut value, &mut findings);
        match kind.decode(&value) {
            Ok(mut object) => {
                if old_version {
                    let before = object.to_value();
                    select_by_template_labels(&mut object);
                    written_form::carry(&before, &object.to_value(), &mut value);
                }
                defaults::default_object(&mut object);
                if !is_part {
                    let standing = Standing::in_file(&object, &value);
                    validation::validate(&object, value, standing, &mut findings);
                }
                let origin = Origin {
                    file: self.name.clone(),
                    line: location.line,
                };
                self.loaded.objects.push(LoadedObject {
                    object,
                    raw,
                    origin,
                });
            }
            // The table and the types disagree; better a rough message than a lost object.
            Err(error) => findings.error(&Here::OBJECT, error.to_string()),
        }
        self.reports.add(location, findings.0);
    }

    /// Takes the items of a list that have not been handed on while it was read.
    fn take_list(&mut self, mut list: Value, location: Location) {
        let items = list.get_mut("items").map(Value::take);
        let (api_version, kind) = identity(&list);
        let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
        let Some(Value::Array(items)) = items else {
            if !matches!(items, None | Some(Value::Null)) {
                self.error(location, format!("items of a {kind} must be a list"));
            }
            return;
        };
        for (index, mut item) in items.into_iter().enumerate() {
            if let (Value::Object(fields), Some(kind)) = (&mut item, document::item_kind(&kind)) {
                complete(fields, &api_version, kind);
            }
            let item_location = match location.item {
                None => Location {
                    item: Some(index),
                    ..location
                },
                Some(_) => location,
            };
            if !item.is_null() {
                self.take(item, item_location);
            }
        }
    }

    fn refuse(&mut self, value: &Value, location: Location) {
        let message = match value {
            Value::Object(fields) => {
                let missing: Vec<&str> = ["apiVersion", "kind"]
                    .into_iter()
                    .filter(|key| !fields.get(*key).is_some_and(|value| value != ""))
                    .collect();
                match missing.as_slice() {
                    [] => "apiVersion and kind must be strings".to_owned(),
                    [one] => format!("not a Kubernetes object: {one} is missing"),
                    _ => "not a Kubernetes object: apiVersion and kind are missing".to_owned(),
                }
            }
            Value::Array(_) => document::LIST_DOCUMENT.to_owned(),
            _ => "expected a Kubernetes object, found text".to_owned(),
        };
        self.error(location, message);
    }

    fn ignore(&mut self, value: &Value, location: Location) {
        let (api_version, kind) = identity(value);
        let key = (api_version.to_owned(), kind.to_owned());
        let ignored = &mut self.loaded.ignored;
        let index = *self
            .ignored
            .entry(key)
            .or_insert_with_key(|(api_version, kind)| {
                let name = value.pointer("/metadata/name").and_then(Value::as_str);
                ignored.push(Ignored {
                    api_version: api_version.clone(),
                    kind: kind.clone(),
                    count: 0,
                    name: name.unwrap_or_default().to_owned(),
                    origin: Origin {
                        file: self.name.clone(),
                        line: location.line,
                    },
                });
                ignored.len() - 1
            });
        if let Some(ignored) = ignored.get_mut(index) {
            ignored.count += 1;
        }
    }

    fn error(&mut self, location: Location, message: String) {
        let mut findings = Findings::default();
        findings.error(&Here::OBJECT, message);
        self.reports.add(location, findings.0);
    }

    /// Looks up the lines of what was found and hands it out.
    fn report(&mut self, text: &str) {
        let reports = std::mem::take(&mut self.reports);
        let requests: Vec<Request<'_>> = reports.kept.iter().map(Report::request).collect();
        if requests.is_empty() {
            return;
        }
        let places = document::positions(text, &requests);
        let found = reports.kept.iter().zip(places);
        let mut diagnostics: Vec<Diagnostic> = found
            .map(|(report, place)| report.diagnostic(&self.name, place))
            .collect();
        diagnostics.sort_by_key(|diagnostic| diagnostic.line);
        let (errors, warnings) = diagnostics
            .into_iter()
            .partition(|one| one.severity == Severity::Error);
        self.loaded.errors.extend::<Vec<_>>(errors);
        self.loaded.warnings.extend::<Vec<_>>(warnings);
        for (severity, left_out) in reports.left_out {
            let diagnostic = Diagnostic {
                severity,
                file: self.name.clone(),
                line: 0,
                path: String::new(),
                message: format!("{left_out} more of these are not shown"),
                suggestion: None,
                more: 0,
            };
            match severity {
                Severity::Error => self.loaded.errors.push(diagnostic),
                Severity::Warning => self.loaded.warnings.push(diagnostic),
            }
        }
    }
}

/// Fills in what an item of a typed list leaves to the list.
fn complete(fields: &mut Map<String, Value>, api_version: &str, kind: &str) {
    if !fields.contains_key("kind") {
        fields
            .entry("apiVersion")
            .or_insert_with(|| api_version.into());
        fields.insert("kind".to_owned(), kind.into());
    }
}

/// Warns if the object has an API version of the past. Returns whether its selector, if
/// absent, is made from the template's labels, as those versions did.
fn note_old_version(value: &Value, kind: ObjectKind, findings: &mut Findings) -> bool {
    let (api_version, _) = identity(value);
    let Some(release) = gone_since(api_version, kind.name()) else {
        return false;
    };
    let message = format!("{api_version} is gone since Kubernetes {release}");
    let right = format!("read as {}", kind.api_version());
    let here = Here::OBJECT;
    let here = here.field("apiVersion");
    findings.add(Severity::Warning, &here, message, Suggestion::Text(right));
    matches!(api_version, "extensions/v1beta1" | "apps/v1beta1")
}

fn select_by_template_labels(object: &mut Object) {
    let (selector, template): (&mut Option<LabelSelector>, &PodTemplateSpec) = match object {
        Object::Deployment(object) => (&mut object.spec.selector, &object.spec.template),
        Object::ReplicaSet(object) => (&mut object.spec.selector, &object.spec.template),
        Object::DaemonSet(object) => (&mut object.spec.selector, &object.spec.template),
        Object::StatefulSet(object) => (&mut object.spec.selector, &object.spec.template),
        _ => return,
    };
    selector.get_or_insert_with(|| LabelSelector {
        match_labels: template.metadata.labels.clone(),
        match_expressions: Vec::new(),
    });
}

/// What was found in one file, the same thing once.
#[derive(Default)]
struct Reports {
    kept: Vec<Report>,
    /// Index into `kept` by severity, field and message.
    seen: HashMap<(Severity, String, String), usize>,
    counts: BTreeMap<Severity, usize>,
    left_out: BTreeMap<Severity, usize>,
}

struct Report {
    location: Location,
    finding: Finding,
    more: usize,
}

impl Reports {
    fn add(&mut self, location: Location, findings: Vec<Finding>) {
        for finding in findings {
            let severity = finding.severity;
            let key = (severity, finding.path.pattern(), finding.message.clone());
            if let Some(kept) = self
                .seen
                .get(&key)
                .and_then(|index| self.kept.get_mut(*index))
            {
                kept.more += 1;
                continue;
            }
            let count = self.counts.entry(severity).or_default();
            if *count >= FINDINGS_PER_FILE_MAX {
                *self.left_out.entry(severity).or_default() += 1;
                continue;
            }
            *count += 1;
            self.seen.insert(key, self.kept.len());
            self.kept.push(Report {
                location,
                finding,
                more: 0,
            });
        }
    }
}

impl Report {
    fn request(&self) -> Request<'_> {
        Request {
            location: self.location,
            path: &self.finding.path,
        }
    }

    fn diagnostic(&self, file: &Arc<str>, place: Place) -> Diagnostic {
        let suggestion = match &self.finding.suggestion {
            Suggestion::None => None,
            Suggestion::Text(text) => Some(text.clone()),
            Suggestion::Quote(json) => {
                let written = place.text.as_deref().unwrap_or(json);
                Some(format!("write it as \"{written}\""))
            }
        };
        let is_object = self.finding.path.segments().is_empty();
        Diagnostic {
            severity: self.finding.severity,
            file: file.clone(),
            line: if is_object {
                self.location.line
            } else {
                place.line
            },
            path: self.finding.path.to_string(),
            message: self.finding.message.clone(),
            suggestion,
            more: self.more,
        }
    }
}
