//! Controllers at work: whose turn it is, and what came of it.
//!
//! ```text
//!   handle(change, now)   the cluster has changed
//!   next(now)             some writes to carry out, or nothing to do
//!   done(work, outcomes)  what came of them
//!   next_time()           when to ask again if nothing changes
//! ```
//!
//! The caller has a clock, real or virtual, and an API server, real or virtual; nothing here
//! has. What a controller writes is known to it at once, as the outcomes tell, long before the
//! feed of changes comes round to it: so nothing is made twice. Before the first [`next`], all
//! objects that are there must have been handed in.
//!
//! Objects get their turn in the order in which they were noticed. One object of a controller
//! is not worked on twice at a time. After a refusal an object waits, at first 5 ms, each time
//! twice as long, at most 1,000 s (`DefaultTypedControllerRateLimiter`, Kubernetes 1.36).
//!
//! [`next`]: Controllers::next

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use outrank_api::time::rfc3339;

use crate::controller::Controller;
use crate::world::{Change, Key, Seen, World};
use crate::write::{Outcome, Refusal, Write};

/// The first wait after a refusal, and the longest, in nanoseconds.
const BACK_OFF_NANOS: i64 = 5_000_000;
const BACK_OFF_NANOS_MAX: i64 = 1_000_000_000_000;

/// Writes to carry out for one object, in any order.
#[derive(Debug)]
pub struct Work {
    id: u64,
    /// Name of the controller.
    pub controller: &'static str,
    /// The object on whose behalf.
    pub key: Key,
    /// The writes. [`Controllers::done`] wants an outcome for each.
    pub writes: Arc<[Write]>,
}

/// Several controllers, and what they know.
#[derive(Default)]
pub struct Controllers {
    world: World,
    controllers: Vec<Box<dyn Controller + Send>>,
    queue: Queue,
    /// How often in a row each was refused.
    refusals: HashMap<Item, u32>,
    at_work: BTreeMap<u64, AtWork>,
    /// What is to be done next for what is at work.
    next_steps: VecDeque<Work>,
    next_id: u64,
    /// What has gone while something was at work: an outcome may be older than that.
    gone: HashSet<String>,
}

/// A controller, by index, and an object.
type Item = (usize, Key);

/// A plan that is carried out.
struct AtWork {
    item: Item,
    steps: VecDeque<Vec<Write>>,
    look_again: Option<i64>,
    was_refused: bool,
}

impl Controllers {
    /// These controllers, in a world that is empty yet.
    pub fn new(controllers: Vec<Box<dyn Controller + Send>>) -> Self {
        Self {
            controllers,
            ..Self::default()
        }
    }

    /// What they know.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Takes a change of the cluster.
    pub fn handle(&mut self, change: Change, now: i64) {
        let Some(seen) = self.world.apply(change) else {
            return;
        };
        let has_gone = |old: &Arc<_>| {
            seen.new
                .as_ref()
                .is_none_or(|new| uid_of(new) != uid_of(old))
        };
        if let Some(old) = &seen.old
            && !self.at_work.is_empty()
            && !uid_of(old).is_empty()
            && has_gone(old)
        {
            self.gone.insert(old.metadata().uid.clone());
        }
        self.notice(&seen, now);
    }

    /// Looks at these objects again, as if they had changed.
    pub fn resync(&mut self, keys: impl IntoIterator<Item = Key>, now: i64) {
        for key in keys {
            let stored = self.world.stored(&key).cloned();
            let seen = Seen {
                key,
                old: stored.clone(),
                new: stored,
            };
            self.notice(&seen, now);
        }
    }

    /// The next writes to carry out, if there is anything to do. May be called again before
    /// they are [`done`](Self::done), to have several carried out at a time.
    pub fn next(&mut self, now: i64) -> Option<Work> {
        if let Some(work) = self.next_steps.pop_front() {
            return Some(work);
        }
        while let Some(item) = self.queue.pop(now) {
            let (index, key) = &item;
            let plan = self.controllers[*index].reconcile(key, &self.world, now);
            let at_work = AtWork {
                item,
                steps: plan.steps.into(),
                look_again: plan.look_again,
                was_refused: false,
            };
            if let Some(work) = self.hand_out(at_work, now) {
                return Some(work);
            }
        }
        None
    }

    /// Takes the outcomes of the writes of `work`, in their order.
    pub fn done(&mut self, work: Work, outcomes: Vec<Outcome>, now: i64) {
        let Some(mut at_work) = self.at_work.remove(&work.id) else {
            return;
        };
        let (index, key) = at_work.item.clone();
        let mut events = Vec::new();
        let mut refusals: Vec<(Write, Refusal)> = Vec::new();
        for (write, outcome) in work.writes.iter().zip(&outcomes) {
            let told = self.controllers[index].tell(&key, &self.world, write, outcome);
            events.extend(told.map(Write::Event));
            if let Outcome::Refused(refusal) = outcome
                && !is_content(write, refusal)
            {
                refusals.push((write.clone(), refusal.clone()));
            }
        }
        for (write, outcome) in work.writes.iter().zip(outcomes) {
            self.anticipate(write, outcome, now);
        }
        if !refusals.is_empty() && !at_work.was_refused {
            at_work.was_refused = true;
            let controller = &mut self.controllers[index];
            let more = controller.refused(&key, &self.world, now, &refusals);
            at_work.steps = VecDeque::from([more]);
        }
        if !events.is_empty() {
            at_work.steps.push_front(events);
        }
        let more = self.hand_out(at_work, now);
        self.next_steps.extend(more);
    }

    /// When there is something to do if nothing changes: a time that may have come already.
    /// `None` if there will not be.
    pub fn next_time(&self) -> Option<i64> {
        match self.next_steps.is_empty() {
            true => self.queue.next_time(),
            false => Some(i64::MIN),
        }
    }

    /// Tells the controllers what was seen, and queues what concerns them.
    fn notice(&mut self, seen: &Seen, now: i64) {
        for (index, controller) in self.controllers.iter_mut().enumerate() {
            for key in controller.concerned(seen, &self.world, now) {
                self.queue.add((index, key));
            }
        }
    }

    /// The next step of a plan as work; `None` if it has none left, and then it is over.
    fn hand_out(&mut self, mut at_work: AtWork, now: i64) -> Option<Work> {
        let step = loop {
            match at_work.steps.pop_front() {
                None => {
                    self.finish(at_work, now);
                    return None;
                }
                Some(step) if step.is_empty() => {}
                Some(step) => break step,
            }
        };
        let id = self.next_id;
        self.next_id += 1;
        let (index, key) = at_work.item.clone();
        self.at_work.insert(id, at_work);
        Some(Work {
            id,
            controller: self.controllers[index].name(),
            key,
            writes: step.into(),
        })
    }

    fn finish(&mut self, at_work: AtWork, now: i64) {
        let AtWork {
            item, look_again, ..
        } = at_work;
        let mut time = look_again;
        if at_work.was_refused {
            let count = self.refusals.entry(item.clone()).or_default();
            let wait = BACK_OFF_NANOS.saturating_mul(1 << (*count).min(40));
            *count += 1;
            let again = now.saturating_add(wait.min(BACK_OFF_NANOS_MAX));
            time = Some(look_again.map_or(again, |time| time.min(again)));
        } else {
            self.refusals.remove(&item);
        }
        self.queue.finish(item, time);
        if self.at_work.is_empty() {
            self.gone.clear();
        }
    }

    /// Puts into the world what a write has made of an object, until the feed tells.
    fn anticipate(&mut self, write: &Write, outcome: Outcome, now: i64) {
        let change = match (write, outcome) {
            (_, Outcome::Stored(stored)) => match self.gone.contains(uid_of(&stored)) {
                true => return,
                false => Change::Set(stored),
            },
            // The feed says when it has gone; until then it is on its way.
            (Write::Delete(delete), Outcome::Done) => match self.going(&delete.key, now) {
                Some(change) => change,
                None => return,
            },
            _ => return,
        };
        if let Some(seen) = self.world.apply(change) {
            self.notice(&seen, now);
        }
    }

    /// That an object is being deleted, unless that is known.
    fn going(&self, key: &Key, now: i64) -> Option<Change> {
        let stored = self.world.stored(key)?;
        if stored.metadata().deletion_timestamp.is_some() {
            return None;
        }
        let mut going = (**stored).clone();
        let version = stored.version();
        going.change_metadata(|metadata| {
            metadata.deletion_timestamp = Some(rfc3339(now));
            // Newer than what is known, and no newer than what the feed will tell.
            metadata.resource_version = version.map_or_else(String::new, |it| (it + 1).to_string());
        });
        Some(Change::Set(Arc::new(going)))
    }
}

fn uid_of(stored: &crate::world::Stored) -> &str {
    &stored.metadata().uid
}

/// Whether a refusal does not matter: what is to be deleted is not there, what is to be made
/// would go with its namespace, or nobody is told.
fn is_content(write: &Write, refusal: &Refusal) -> bool {
    match write {
        Write::Create(_) => refusal.namespace_ends(),
        Write::Delete(_) => refusal.is_not_found(),
        Write::Event(_) => true,
        Write::Patch(_) => false,
    }
}

/// Whose turn it is.
#[derive(Default)]
struct Queue {
    ready: VecDeque<Item>,
    /// Those in `ready`.
    waiting: HashSet<Item>,
    /// Those being worked on, and whether they were noticed again since.
    busy: HashMap<Item, bool>,
    later: BTreeMap<(i64, u64), Item>,
    /// Where in `later` each is.
    due: HashMap<Item, (i64, u64)>,
    sequence: u64,
}

impl Queue {
    fn add(&mut self, item: Item) {
        if let Some(again) = self.busy.get_mut(&item) {
            *again = true;
        } else if self.waiting.insert(item.clone()) {
            self.ready.push_back(item);
        }
    }

    fn pop(&mut self, now: i64) -> Option<Item> {
        while let Some(entry) = self.later.first_entry()
            && entry.key().0 <= now
        {
            let item = entry.remove();
            self.due.remove(&item);
            self.add(item);
        }
        let item = self.ready.pop_front()?;
        self.waiting.remove(&item);
        self.busy.insert(item.clone(), false);
        Some(item)
    }

    /// The item is not worked on any more; to be looked at again at `time` at the latest.
    fn finish(&mut self, item: Item, time: Option<i64>) {
        if let Some(known) = self.due.remove(&item) {
            self.later.remove(&known);
        }
        if let Some(time) = time {
            let at = (time, self.sequence);
            self.sequence += 1;
            self.later.insert(at, item.clone());
            self.due.insert(item.clone(), at);
        }
        if self.busy.remove(&item) == Some(true) {
            self.add(item);
        }
    }

    fn next_time(&self) -> Option<i64> {
        if !self.ready.is_empty() {
            return Some(i64::MIN);
        }
        self.later.keys().next().map(|(time, _)| *time)
    }
}
