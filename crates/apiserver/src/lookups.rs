//! What admission plugins look up, as it is in the store at the time of a request.

use std::cell::OnceCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use outrank_admission::namespace_lifecycle::NamespacePhase;
use outrank_admission::service_account::{AccountSettings, ENFORCE_MOUNTABLE_SECRETS, is_true};
use outrank_admission::{Cluster, PriorityResolver};
use outrank_api::decode::Typed;
use outrank_api::types::{LimitRange, Node, PriorityClass, RuntimeClass, StorageClass};
use outrank_store::{Key, ListQuery, Range, Store};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::stored_object::StoredObject;

/// The priority classes, compiled; made again when one of them has changed.
#[derive(Debug, Default)]
pub(crate) struct PriorityClasses {
    changes: AtomicU64,
    resolver: Mutex<Option<(u64, Arc<PriorityResolver>)>>,
}

/// What the store calls priority classes.
const PRIORITY_CLASSES: &str = "priorityclasses.scheduling.k8s.io";

impl PriorityClasses {
    /// Notes that an object has changed, after it has.
    pub(crate) fn note(&self, key: &Key) {
        if &*key.resource == PRIORITY_CLASSES {
            self.changes.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// The classes that there are.
    pub(crate) fn resolver(&self, store: &Store<StoredObject>) -> Arc<PriorityResolver> {
        // Read before the classes: what changes after it is seen the next time.
        let changes = self.changes.load(Ordering::SeqCst);
        let mut known = self.resolver.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, resolver)) = &*known
            && *at == changes
        {
            return resolver.clone();
        }
        let classes: Vec<PriorityClass> = typed_within(store, "");
        let resolver = Arc::new(PriorityResolver::new(&classes));
        *known = Some((changes, resolver.clone()));
        resolver
    }
}

/// What plugins look up for one request. It is read when it is asked for.
pub(crate) struct Lookups<'s> {
    store: &'s Store<StoredObject>,
    resolver: Arc<PriorityResolver>,
    /// Those of the namespace of the request.
    limit_ranges: OnceCell<Vec<LimitRange>>,
    runtime_classes: OnceCell<Vec<RuntimeClass>>,
    storage_classes: OnceCell<Vec<StorageClass>>,
    /// The node that was asked for; a request names one at most.
    node: OnceCell<Option<Node>>,
}

impl<'s> Lookups<'s> {
    /// For a request.
    pub(crate) fn new(store: &'s Store<StoredObject>, classes: &PriorityClasses) -> Self {
        Self {
            store,
            resolver: classes.resolver(store),
            limit_ranges: OnceCell::new(),
            runtime_classes: OnceCell::new(),
            storage_classes: OnceCell::new(),
            node: OnceCell::new(),
        }
    }
}

impl Cluster for Lookups<'_> {
    fn priority_classes(&self) -> &PriorityResolver {
        &self.resolver
    }

    fn namespace(&self, name: &str) -> Option<NamespacePhase> {
        let namespace = self.store.get(&Key::new("namespaces", "", name))?;
        Some(match namespace.value.is_deleting() {
            true => NamespacePhase::Terminating,
            false => NamespacePhase::Active,
        })
    }

    fn limit_ranges(&self, namespace: &str) -> Vec<&LimitRange> {
        let ranges = self
            .limit_ranges
            .get_or_init(|| typed_within(self.store, namespace));
        ranges.iter().collect()
    }

    fn runtime_class(&self, name: &str) -> Option<&RuntimeClass> {
        let classes = self
            .runtime_classes
            .get_or_init(|| typed_within(self.store, ""));
        classes.iter().find(|class| class.metadata.name == name)
    }

    fn node(&self, name: &str) -> Option<&Node> {
        let node = self.node.get_or_init(|| {
            let entry = self.store.get(&Key::new("nodes", "", name))?;
            serde_json::from_slice(entry.value.json()).ok()
        });
        node.as_ref().filter(|node| node.metadata.name == name)
    }

    fn storage_classes(&self) -> Vec<&StorageClass> {
        let classes = self
            .storage_classes
            .get_or_init(|| typed_within(self.store, ""));
        classes.iter().collect()
    }

    fn service_account(&self, namespace: &str, name: &str) -> Option<AccountSettings> {
        let entry = self
            .store
            .get(&Key::new("serviceaccounts", namespace, name));
        let Some(entry) = entry else {
            // Every namespace has this one, or will have it in a moment.
            return (name == "default").then(AccountSettings::default);
        };
        let account: Value = serde_json::from_slice(entry.value.json()).ok()?;
        let names = |list: &str| {
            let secrets = account[list].as_array().into_iter().flatten();
            let names = secrets.filter_map(|it| it["name"].as_str());
            names.map(str::to_owned).collect::<Vec<String>>()
        };
        let enforces = &account["metadata"]["annotations"][ENFORCE_MOUNTABLE_SECRETS];
        let enforces = enforces.as_str().is_some_and(is_true);
        Some(AccountSettings {
            automount_token: account["automountServiceAccountToken"].as_bool(),
            image_pull_secrets: names("imagePullSecrets"),
            mountable_secrets: enforces.then(|| names("secrets")),
        })
    }
}

/// The objects of a type in a namespace, by name. One that cannot be read is left out.
pub(crate) fn typed_within<T: Typed + DeserializeOwned>(
    store: &Store<StoredObject>,
    namespace: &str,
) -> Vec<T> {
    let entries = entries_within(store, &T::KIND.resource().to_string(), namespace);
    let objects = entries.into_iter();
    let objects = objects.map(|entry| serde_json::from_slice(entry.value.json()));
    objects.filter_map(Result::ok).collect()
}

/// The entries of a resource in a namespace, by name; of all namespaces if it is empty.
pub(crate) fn entries_within(
    store: &Store<StoredObject>,
    resource: &str,
    namespace: &str,
) -> Vec<outrank_store::Entry<StoredObject>> {
    let range = match namespace {
        "" => Range::Resource(resource.into()),
        namespace => Range::Namespace(resource.into(), namespace.into()),
    };
    let list = store.list(&range, ListQuery::default());
    // A list of what is there now has no reason to fail.
    list.map(|list| list.entries).unwrap_or_default()
}
