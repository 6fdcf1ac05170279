//! What controllers know of a cluster: its objects, and who belongs to whom.
//!
//! A [`World`] is fed with [`Change`]s, in the order of a list and the watch that follows it.
//! It never goes back: an object that is older than the one it has is left aside, so that
//! what a controller has just written (see [`Controllers::done`]) stays known while the feed
//! lags behind.
//!
//! [`Controllers::done`]: crate::Controllers::done

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use outrank_api::decode::{LoadedObject, Object, ObjectKind, Typed, decode_value};
use outrank_api::types::{ObjectMeta, Pod, PodSpec};
use serde_json::{Value, json};

use crate::write::{difference, merge};

/// A kind of object: one that decisions read, or any other, of which only the metadata is
/// known.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A kind with a type.
    Known(ObjectKind),
    /// Another: API version and kind.
    Other(Arc<(String, String)>),
}

impl Kind {
    /// The kind of this name in this API version.
    pub fn of(api_version: &str, kind: &str) -> Self {
        match ObjectKind::find(api_version, kind) {
            Some(known) => Self::Known(known),
            None => Self::Other(Arc::new((api_version.to_owned(), kind.to_owned()))),
        }
    }

    /// API version, such as `apps/v1`.
    pub fn api_version(&self) -> &str {
        match self {
            Self::Known(kind) => kind.api_version(),
            Self::Other(other) => &other.0,
        }
    }

    /// Name, such as `Pod`.
    pub fn name(&self) -> &str {
        match self {
            Self::Known(kind) => kind.name(),
            Self::Other(other) => &other.1,
        }
    }

    /// The group, such as `apps`; empty for the core group.
    pub fn group(&self) -> &str {
        let group = self.api_version().split_once('/');
        group.map_or("", |(group, _)| group)
    }

    /// The name in URLs, such as `pods`. Where it is not known it is guessed as upstream does
    /// (`UnsafeGuessKindToResource`).
    pub fn plural(&self) -> String {
        let name = match self {
            Self::Known(kind) => return kind.plural().to_owned(),
            Self::Other(other) => other.1.to_lowercase(),
        };
        match name.strip_suffix('y') {
            _ if name.ends_with("endpoints") => name,
            Some(stem) => format!("{stem}ies"),
            None if name.ends_with('s') => format!("{name}es"),
            None => format!("{name}s"),
        }
    }

    /// `pods`, or `deployments.apps`.
    pub fn group_resource(&self) -> String {
        match self.group() {
            "" => self.plural(),
            group => format!("{}.{group}", self.plural()),
        }
    }
}

impl From<ObjectKind> for Kind {
    fn from(kind: ObjectKind) -> Self {
        Self::Known(kind)
    }
}

/// Kind, namespace (empty for what is in none) and name of an object. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Kind.
    pub kind: Kind,
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl Key {
    /// A key of these parts.
    pub fn new(kind: impl Into<Kind>, namespace: &str, name: &str) -> Self {
        Self {
            kind: kind.into(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The key of a typed object with this metadata.
    pub fn of<T: Typed>(metadata: &ObjectMeta) -> Self {
        Self::new(T::KIND, &metadata.namespace, &metadata.name)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            namespace,
            name,
        } = self;
        match &**namespace {
            "" => write!(f, "{} {name}", kind.name()),
            namespace => write!(f, "{} {namespace}/{name}", kind.name()),
        }
    }
}

/// An object as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    content: Content,
    raw: Option<Arc<Value>>,
}

#[derive(Clone, Debug, PartialEq)]
enum Content {
    Known(Object),
    Other(Kind, Box<ObjectMeta>),
}

impl Stored {
    /// A typed object of which no more is known than its types say.
    pub fn typed(object: Object) -> Self {
        Self {
            content: Content::Known(object),
            raw: None,
        }
    }

    /// An object as the API server gives it. Of a kind without a type, or if it cannot be
    /// read as its type, the metadata is known.
    pub fn whole(value: Value) -> Self {
        let content = match decode_value(&value) {
            Ok(object) => Content::Known(object),
            Err(_) => {
                let text = |name| value.get(name).and_then(Value::as_str).unwrap_or_default();
                let kind = Kind::of(text("apiVersion"), text("kind"));
                let metadata = value.get("metadata").cloned().unwrap_or_default();
                Content::Other(kind, serde_json::from_value(metadata).unwrap_or_default())
            }
        };
        Self {
            content,
            raw: Some(Arc::new(value)),
        }
    }

    /// An object of which no more is known than its metadata.
    pub fn of_metadata(kind: Kind, metadata: ObjectMeta) -> Self {
        Self {
            content: Content::Other(kind, Box::new(metadata)),
            raw: None,
        }
    }

    /// The typed object, if its kind has a type.
    pub fn object(&self) -> Option<&Object> {
        match &self.content {
            Content::Known(object) => Some(object),
            Content::Other(..) => None,
        }
    }

    /// The object as one of a type, if it is.
    pub fn get<T: Typed>(&self) -> Option<&T> {
        self.object().and_then(T::of)
    }

    /// The metadata.
    pub fn metadata(&self) -> &ObjectMeta {
        match &self.content {
            Content::Known(object) => object.metadata(),
            Content::Other(_, metadata) => metadata,
        }
    }

    /// The kind.
    pub fn kind(&self) -> Kind {
        match &self.content {
            Content::Known(object) => Kind::Known(object.kind()),
            Content::Other(kind, _) => kind.clone(),
        }
    }

    /// Kind, namespace and name.
    pub fn key(&self) -> Key {
        let metadata = self.metadata();
        Key::new(self.kind(), &metadata.namespace, &metadata.name)
    }

    /// The object in full, if that is known.
    pub fn raw(&self) -> Option<&Arc<Value>> {
        self.raw.as_ref()
    }

    /// The object in full, or what is known of it.
    pub fn to_value(&self) -> Value {
        match (&self.raw, &self.content) {
            (Some(raw), _) => Value::clone(raw),
            (None, Content::Known(object)) => object.to_value(),
            (None, Content::Other(kind, metadata)) => json!({
                "apiVersion": kind.api_version(), "kind": kind.name(), "metadata": metadata,
            }),
        }
    }

    /// The typed object, to change it alone: what is known untyped does not follow.
    pub(crate) fn object_mut(&mut self) -> Option<&mut Object> {
        match &mut self.content {
            Content::Known(object) => Some(object),
            Content::Other(..) => None,
        }
    }

    /// Sets what is known untyped.
    pub(crate) fn set_raw(&mut self, raw: Value) {
        self.raw = Some(Arc::new(raw));
    }

    /// Forgets what is known untyped, as nothing was of what it was made from; of that one's
    /// template, it is still known that it says more.
    pub(crate) fn forget_raw_of(&mut self, origin: &Self) {
        let Some(object) = self.object_mut() else {
            return;
        };
        let mut origin = origin.object().cloned();
        let old = origin.as_mut().and_then(Object::template_mut);
        if let (Some((new, _)), Some((old, _))) = (object.template_mut(), old) {
            new.unread = old.unread;
        }
        self.raw = None;
    }

    /// Shares the spec of a pod or a template with an earlier version, if it is the same: pods
    /// of one template go on sharing theirs.
    pub(crate) fn share_specs_with(&mut self, earlier: &Self) {
        let mut earlier = earlier.object().cloned();
        let old = earlier.as_mut().and_then(spec_mut);
        let new = self.object_mut().and_then(spec_mut);
        if let (Some(new), Some(old)) = (new, old)
            && new == old
        {
            *new = old.clone();
        }
    }

    /// Changes a typed object in both forms.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Object)) {
        let Content::Known(object) = &mut self.content else {
            return;
        };
        let Some(raw) = &mut self.raw else {
            change(object);
            return;
        };
        let old = object.to_value();
        change(object);
        if let Some(changes) = difference(&old, &object.to_value()) {
            merge(Arc::make_mut(raw), &changes);
        }
    }

    /// Changes the metadata in both forms.
    pub(crate) fn change_metadata(&mut self, change: impl FnOnce(&mut ObjectMeta)) {
        let metadata = match &mut self.content {
            Content::Known(object) => object.metadata_mut(),
            Content::Other(_, metadata) => metadata,
        };
        let Some(raw) = &mut self.raw else {
            change(metadata);
            return;
        };
        let json = |metadata: &ObjectMeta| serde_json::to_value(metadata).unwrap_or_default();
        let old = json(metadata);
        change(metadata);
        if let Some(changes) = difference(&old, &json(metadata)) {
            merge(Arc::make_mut(raw), &json!({ "metadata": changes }));
        }
    }

    /// The number of the version, if there is one.
    pub(crate) fn version(&self) -> Option<u64> {
        self.metadata().resource_version.parse().ok()
    }
}

impl From<LoadedObject> for Stored {
    fn from(loaded: LoadedObject) -> Self {
        Self {
            content: Content::Known(loaded.object),
            raw: (!loaded.raw.is_null()).then(|| Arc::new(loaded.raw)),
        }
    }
}

impl From<Object> for Stored {
    fn from(object: Object) -> Self {
        Self::typed(object)
    }
}

/// The spec of a pod, or of a workload's template.
fn spec_mut(object: &mut Object) -> Option<&mut Arc<PodSpec>> {
    match object {
        Object::Pod(pod) => Some(&mut pod.spec),
        other => other.template_mut().map(|(template, _)| &mut template.spec),
    }
}

/// News of one object.
#[derive(Clone, Debug)]
pub enum Change {
    /// It is there, as it is now.
    Set(Arc<Stored>),
    /// It is there no more.
    Gone {
        /// Which object.
        key: Key,
        /// The `resourceVersion` of its end; 0 if there is none.
        version: u64,
    },
}

/// A change that was new: the object before and after.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Which object.
    pub key: Key,
    /// As it was; `None` if it was not there.
    pub old: Option<Arc<Stored>>,
    /// As it is; `None` if it has gone.
    pub new: Option<Arc<Stored>>,
}

impl Seen {
    /// The object before and after, as far as it is one of a type.
    pub fn both<T: Typed>(&self) -> [Option<&T>; 2] {
        [&self.old, &self.new].map(|it| it.as_ref().and_then(|it| it.get()))
    }
}

/// Objects by key.
pub type Objects = BTreeMap<Key, Arc<Stored>>;

/// The objects of a cluster with the indices that reconcilers need.
#[derive(Clone, Debug, Default)]
pub struct World {
    objects: Objects,
    by_uid: HashMap<String, Key>,
    /// By the uid of each of their owners.
    dependents: HashMap<String, Objects>,
    /// Those that no controller manages.
    orphans: Objects,
    pods_on: HashMap<String, Objects>,
    kinds: BTreeMap<Kind, usize>,
}

impl World {
    /// A world without objects.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a change; `None` if it is old news.
    pub fn apply(&mut self, change: Change) -> Option<Seen> {
        match change {
            Change::Set(new) => self.set(new),
            Change::Gone { key, version } => {
                let known = self.objects.get(&key)?.version();
                // One of the same name has come since.
                if version > 0 && known.is_some_and(|known| known > version) {
                    return None;
                }
                let old = self.take(&key);
                Some(Seen {
                    key,
                    old,
                    new: None,
                })
            }
        }
    }

    fn set(&mut self, new: Arc<Stored>) -> Option<Seen> {
        let key = new.key();
        if let Some(known) = self.objects.get(&key)
            && let (Some(known), Some(new)) = (known.version(), new.version())
            && known >= new
        {
            return None;
        }
        let old = self.take(&key);
        self.put(&key, &new);
        Some(Seen {
            key,
            old,
            new: Some(new),
        })
    }

    /// The object of this key.
    pub fn stored(&self, key: &Key) -> Option<&Arc<Stored>> {
        self.objects.get(key)
    }

    /// The object of this key as one of a type.
    pub fn get<T: Typed>(&self, key: &Key) -> Option<&T> {
        self.objects.get(key)?.get()
    }

    /// The object of this name.
    pub fn find<T: Typed>(&self, namespace: &str, name: &str) -> Option<&T> {
        self.get(&Key::new(T::KIND, namespace, name))
    }

    /// The object with this uid.
    pub fn with_uid(&self, uid: &str) -> Option<&Arc<Stored>> {
        self.objects.get(self.by_uid.get(uid)?)
    }

    /// All objects of a type, by namespace and name.
    pub fn all<T: Typed>(&self) -> impl Iterator<Item = &T> {
        all(&self.objects)
    }

    /// All objects of a type in a namespace, by name.
    pub fn within<'a, T: Typed>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a T> {
        within(&self.objects, T::KIND.into(), namespace).filter_map(|stored| stored.get())
    }

    /// All objects in a namespace, by kind and name.
    pub fn everything_within<'a>(
        &'a self,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Stored>> {
        let kinds = self.kinds.keys();
        kinds.flat_map(move |kind| within(&self.objects, kind.clone(), namespace))
    }

    /// The kinds of which there are objects.
    pub fn kinds(&self) -> impl Iterator<Item = &Kind> {
        self.kinds.keys()
    }

    /// All objects of a kind, which may be one without a type, by namespace and name.
    pub fn untyped<'a>(&'a self, kind: &'a Kind) -> impl Iterator<Item = &'a Arc<Stored>> {
        let from_here = self.objects.range(Key::new(kind.clone(), "", "")..);
        let of_kind = from_here.take_while(move |(key, _)| key.kind == *kind);
        of_kind.map(|(_, stored)| stored)
    }

    /// The objects that name the owner with this uid, by kind and name.
    pub fn dependents(&self, uid: &str) -> impl Iterator<Item = &Arc<Stored>> {
        self.dependents
            .get(uid)
            .into_iter()
            .flat_map(Objects::values)
    }

    /// The objects of a kind that name the owner with this uid, by name.
    pub fn dependents_of_kind(
        &self,
        uid: &str,
        kind: impl Into<Kind>,
    ) -> impl Iterator<Item = &Arc<Stored>> {
        let kind = kind.into();
        let first = Key::new(kind.clone(), "", "");
        let objects = self.dependents.get(uid).into_iter();
        let from_here = objects.flat_map(move |objects| objects.range(first.clone()..));
        from_here
            .take_while(move |(key, _)| key.kind == kind)
            .map(|(_, stored)| stored)
    }

    /// Objects of a type in a namespace that no controller manages, by name.
    pub fn orphans<'a, T: Typed>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a T> {
        self.orphans_stored::<T>(namespace)
            .filter_map(|stored| stored.get())
    }

    /// The same, as they are stored.
    pub fn orphans_stored<'a, T: Typed>(
        &'a self,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Stored>> {
        within(&self.orphans, T::KIND.into(), namespace)
    }

    /// The pods on a node, by namespace and name.
    pub fn pods_on(&self, node: &str) -> impl Iterator<Item = &Pod> {
        let pods = self.pods_on.get(node).into_iter().flat_map(Objects::values);
        pods.filter_map(|stored| stored.get())
    }

    fn put(&mut self, key: &Key, new: &Arc<Stored>) {
        self.objects.insert(key.clone(), new.clone());
        *self.kinds.entry(key.kind.clone()).or_default() += 1;
        let metadata = new.metadata();
        if !metadata.uid.is_empty() {
            self.by_uid.insert(metadata.uid.clone(), key.clone());
        }
        for owner in &metadata.owner_references {
            note(&mut self.dependents, &owner.uid, key, new);
        }
        if metadata.controller().is_none() {
            self.orphans.insert(key.clone(), new.clone());
        }
        if let Some(node) = node_of(new) {
            note(&mut self.pods_on, node, key, new);
        }
    }

    fn take(&mut self, key: &Key) -> Option<Arc<Stored>> {
        let old = self.objects.remove(key)?;
        if let Some(count) = self.kinds.get_mut(&key.kind) {
            *count -= 1;
            if *count == 0 {
                self.kinds.remove(&key.kind);
            }
        }
        let metadata = old.metadata();
        self.by_uid.remove(&metadata.uid);
        for owner in &metadata.owner_references {
            forget(&mut self.dependents, &owner.uid, key);
        }
        self.orphans.remove(key);
        if let Some(node) = node_of(&old) {
            forget(&mut self.pods_on, node, key);
        }
        Some(old)
    }
}

/// All objects of a type, by namespace and name.
pub(crate) fn all<T: Typed>(objects: &Objects) -> impl Iterator<Item = &T> {
    let first = Key::new(T::KIND, "", "");
    let from_here = objects.range(first..);
    from_here.map_while(|(_, stored)| stored.get())
}

/// All objects of a kind in a namespace, by name.
pub(crate) fn within<'o>(
    objects: &'o Objects,
    kind: Kind,
    namespace: &str,
) -> impl Iterator<Item = &'o Arc<Stored>> + use<'o> {
    let namespace: Arc<str> = namespace.into();
    let first = Key {
        kind: kind.clone(),
        namespace: namespace.clone(),
        name: "".into(),
    };
    let from_here = objects.range(first..);
    from_here
        .take_while(move |(key, _)| key.kind == kind && key.namespace == namespace)
        .map(|(_, stored)| stored)
}

fn node_of(stored: &Stored) -> Option<&str> {
    let node = stored.get::<Pod>()?.spec.node_name.as_str();
    (!node.is_empty()).then_some(node)
}

fn note(index: &mut HashMap<String, Objects>, at: &str, key: &Key, stored: &Arc<Stored>) {
    match index.get_mut(at) {
        Some(objects) => {
            objects.insert(key.clone(), stored.clone());
        }
        None => {
            let objects = Objects::from([(key.clone(), stored.clone())]);
            index.insert(at.to_owned(), objects);
        }
    }
}

fn forget(index: &mut HashMap<String, Objects>, at: &str, key: &Key) {
    if let Some(objects) = index.get_mut(at) {
        objects.remove(key);
        if objects.is_empty() {
            index.remove(at);
        }
    }
}
