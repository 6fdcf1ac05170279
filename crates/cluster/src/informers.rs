//! What those who take part in the cluster are told: all objects that there are, then every change.
//!
//! As informers of real components do, each kind is listed once and watched from there. An object
//! is read once and handed to everyone. Of types that come later (CustomResourceDefinitions) the
//! watches begin when they come.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use outrank_apiserver::served_types::ServedType;
use outrank_apiserver::server::watch::{WatchEvent, WatchOptions, Watching};
use outrank_apiserver::server::{ApiServer, Target};
use outrank_controllers::{Change, Key, Kind};
use tokio::runtime::Handle;

use crate::client::stored;

/// How often it is looked for new types.
const LOOK_FOR_TYPES: Duration = Duration::from_millis(500);

/// Tells everyone of all changes.
#[derive(Clone)]
pub struct Informers(Arc<Shared>);

struct Shared {
    server: ApiServer,
    listeners: Mutex<Vec<mpsc::Sender<Change>>>,
    /// Kinds that are watched, by what the store calls them.
    watched: Mutex<BTreeMap<Arc<str>, Kind>>,
    is_ending: AtomicBool,
}

impl Informers {
    /// Informers of a server.
    pub fn new(server: ApiServer) -> Self {
        Self(Arc::new(Shared {
            server,
            listeners: Mutex::default(),
            watched: Mutex::default(),
            is_ending: AtomicBool::new(false),
        }))
    }

    /// A new listener. To be called before [`Self::start`].
    pub fn listen(&self) -> mpsc::Receiver<Change> {
        let (sender, receiver) = mpsc::channel();
        self.lock_listeners().push(sender);
        receiver
    }

    /// Whether all objects of a kind are known to the listeners.
    pub fn knows(&self, kind: &Kind) -> bool {
        let watched = self
            .0
            .watched
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        watched.values().any(|known| known == kind)
    }

    /// Tells the listeners of all objects that there are, and watches from there. When this
    /// returns they have been told.
    pub fn start(&self, runtime: &Handle) {
        self.watch_new_types(runtime);
        let informers = self.clone();
        let runtime_of_task = runtime.clone();
        runtime.spawn(async move {
            while !informers.is_ending() {
                tokio::time::sleep(LOOK_FOR_TYPES).await;
                informers.watch_new_types(&runtime_of_task);
            }
        });
    }

    /// Ends all watches; the listeners hear no more.
    pub fn stop(&self) {
        self.0.is_ending.store(true, Ordering::SeqCst);
        self.lock_listeners().clear();
    }

    fn is_ending(&self) -> bool {
        self.0.is_ending.load(Ordering::SeqCst)
    }

    fn watch_new_types(&self, runtime: &Handle) {
        let types = self.0.server.types();
        for served in types.iter().filter(|it| is_of_interest(it)) {
            let kind = Kind::of(&served.resource.api_version(), &served.resource.kind);
            {
                let watched = self.0.watched.lock();
                let mut watched = watched.unwrap_or_else(PoisonError::into_inner);
                if watched.contains_key(&served.store_name) {
                    continue;
                }
                watched.insert(served.store_name.clone(), kind);
            }
            let target = Target {
                served: served.clone(),
                namespace: String::new(),
                name: String::new(),
                subresource: String::new(),
            };
            let Ok(mut watching) = self.0.server.watch(&target, &WatchOptions::default()) else {
                continue;
            };
            let mut known = BTreeSet::new();
            self.tell(&target, &mut watching, &mut known);
            let informers = self.clone();
            runtime.spawn(async move { informers.follow(target, watching, known).await });
        }
    }

    async fn follow(&self, target: Target, mut watching: Watching, mut known: BTreeSet<Key>) {
        while !self.is_ending() {
            watching.changed().await;
            if self.tell(&target, &mut watching, &mut known) {
                continue;
            }
            // It fell too far behind, and begins anew. What it does not find is gone.
            let Ok(new) = self.0.server.watch(&target, &WatchOptions::default()) else {
                return;
            };
            watching = new;
            let before = std::mem::take(&mut known);
            self.tell(&target, &mut watching, &mut known);
            for key in before.difference(&known) {
                let key = key.clone();
                self.send(&Change::Gone { key, version: 0 });
            }
        }
    }

    /// Tells all that there is to tell now. False if the watch is over.
    fn tell(&self, target: &Target, watching: &mut Watching, known: &mut BTreeSet<Key>) -> bool {
        loop {
            let events = watching.next_batch();
            if events.is_empty() {
                return true;
            }
            for event in events {
                match event {
                    WatchEvent::Added(_, object) | WatchEvent::Modified(_, object) => {
                        let stored = stored(target, &object);
                        known.insert(stored.key());
                        self.send(&Change::Set(stored));
                    }
                    WatchEvent::Deleted(_, object) => {
                        let last = stored(target, &object);
                        let version = last.metadata().resource_version.parse();
                        let key = last.key();
                        known.remove(&key);
                        self.send(&Change::Gone {
                            key,
                            version: version.unwrap_or(0),
                        });
                    }
                    WatchEvent::Bookmark { .. } => {}
                    WatchEvent::Error(_) => return false,
                }
            }
        }
    }

    fn send(&self, change: &Change) {
        for listener in self.lock_listeners().iter() {
            // Who listens no more has ended.
            let _ = listener.send(change.clone());
        }
    }

    fn lock_listeners(&self) -> std::sync::MutexGuard<'_, Vec<mpsc::Sender<Change>>> {
        self.0
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether objects of a type concern anyone here. Events tell people what was done and are many;
/// a type that is not the one in which its objects are stored shows the same objects again.
fn is_of_interest(served: &ServedType) -> bool {
    served.is_stored()
        && &*served.store_name != "events"
        && served.resource.group == served.stored.group
        && served.resource.version == served.stored.version
}
