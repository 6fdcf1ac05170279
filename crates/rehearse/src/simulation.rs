//! A whole cluster under a virtual clock: what happens, and when.
//!
//! [`run`](crate::run()) answers who lands where when nothing moves any more. Here time passes.
//! Controllers make pods one rollout step after the other, the scheduler places them, the
//! kubelets of the nodes admit, start and end them, taints evict when their time has come, and a
//! node that is lost is noticed only when it has been silent for long enough. All of it runs in
//! one thread, and nothing takes time but what is said to: the same input gives the same
//! timeline.
//!
//! Whoever takes part does so as in a real cluster: it is told of changes and answers with
//! writes, which the API server (here a [`VirtualCluster`]) carries out or refuses.

mod changes;
mod drain;
mod input;
mod kubelets;
mod report;
mod timeline;
mod volumes;

use std::collections::BTreeMap;

use outrank_controllers::virtual_cluster::{PodLife, VirtualCluster};
use outrank_controllers::{Controllers, Write};
use outrank_engine::EngineConfig;
use outrank_engine::extensions::Extensions;
use outrank_node::kubelets::Kubelets;
use outrank_scheduler::Scheduler;

use drain::Drains;

pub use input::doubts;
pub use report::{SimulationReport, WaitingPod};
pub use timeline::{Entry, Timeline};

/// What is later is never reached, so that what comes again and again comes to an end.
const END_OF_TIME: i64 = i64::MAX - 24 * 3_600 * 1_000_000_000;

/// A cluster, and everyone who takes part in it.
pub struct Simulation {
    cluster: VirtualCluster,
    scheduler: Scheduler,
    kubelets: Kubelets,
    drains: Drains,
    /// Nodes that were away and are back, and when they are heard of next. Of others it is known
    /// that they are well, without a word.
    heartbeats: BTreeMap<String, i64>,
    has_storage_news: bool,
    timeline: Timeline,
}

impl Simulation {
    /// A cluster without objects at a time, RFC 3339.
    ///
    /// # Errors
    /// What the engine refuses in its configuration.
    pub fn new(
        controllers: Controllers,
        config: &EngineConfig,
        extensions: Extensions,
        start: &str,
    ) -> Result<Self, String> {
        let mut cluster = VirtualCluster::new(controllers, start);
        cluster.pod_life = PodLife::OfKubelets;
        cluster.take_news();
        Ok(Self {
            timeline: Timeline::new(cluster.now()),
            cluster,
            scheduler: Scheduler::new(config, extensions)?,
            kubelets: Kubelets::default(),
            drains: Drains::default(),
            heartbeats: BTreeMap::new(),
            has_storage_news: false,
        })
    }

    /// The objects.
    pub fn cluster(&self) -> &VirtualCluster {
        &self.cluster
    }

    /// The objects, to change them as a person would.
    pub fn cluster_mut(&mut self) -> &mut VirtualCluster {
        &mut self.cluster
    }

    /// The scheduler.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// What has happened so far.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// Lets everything happen that is due at this time.
    pub fn settle(&mut self) {
        loop {
            self.cluster.settle();
            let mut has_moved = self.tell_news();
            has_moved |= self.schedule();
            has_moved |= self.step_kubelets();
            has_moved |= self.beat_hearts();
            has_moved |= self.bind_volumes();
            has_moved |= self.drains.step(&mut self.cluster, &mut self.timeline);
            if !has_moved {
                return;
            }
        }
    }

    /// Lets everything happen that is due before something is changed: the cluster as given comes
    /// to rest, its waiting pods are decided. From then on the timeline tells of the change.
    pub fn begin_change(&mut self) {
        self.settle();
        self.timeline.changed(self.cluster.now());
    }

    /// Lets time pass until a time, with everything that happens on the way. Time ends in April
    /// 2262, a day before its count in nanoseconds does.
    pub fn run_until(&mut self, time: i64) {
        let time = time.min(END_OF_TIME);
        loop {
            self.settle();
            match self.next_time() {
                Some(next) if next <= time => self.cluster.set_time(next),
                _ => break,
            }
        }
        self.cluster.set_time(time);
        self.settle();
    }

    /// When something happens next by itself; `None` if nothing does.
    pub fn next_time(&self) -> Option<i64> {
        let times = [
            self.cluster.next_time(),
            self.scheduler.next_time(),
            self.kubelets.next_time(),
            self.drains.next_time(),
            self.heartbeats.values().copied().min(),
        ];
        times.into_iter().flatten().min()
    }

    /// Tells scheduler and kubelets what has changed; whether anything has.
    fn tell_news(&mut self) -> bool {
        let news = self.cluster.take_news();
        let now = self.cluster.now();
        for change in &news {
            self.has_storage_news |= volumes::are_concerned(change);
            self.timeline.note(change, now);
            self.scheduler.handle(change, now);
            self.kubelets.handle(change, now);
        }
        self.timeline.tell(&mut self.cluster.events);
        self.cluster.log.clear();
        !news.is_empty()
    }

    /// Has the scheduler decide until it has nothing to do; whether it had.
    fn schedule(&mut self) -> bool {
        let mut has_moved = false;
        while let Some(work) = self.scheduler.next(self.cluster.now()) {
            has_moved = true;
            let has_killed = work.writes.iter().any(|it| matches!(it, Write::Delete(_)));
            let outcomes = work.writes.iter();
            let outcomes = outcomes.map(|write| self.cluster.carry_out("scheduler", write));
            let outcomes = outcomes.collect();
            for write in self.scheduler.done(work, outcomes, self.cluster.now()) {
                self.cluster.carry_out("scheduler", &write);
            }
            // What has changed by this counts before the next decision. So does what controllers
            // make of a kill: that its budget allows one less.
            if has_killed {
                self.cluster.settle();
            }
            self.tell_news();
        }
        has_moved
    }

    /// Binds claims, if there is news of claims or volumes.
    fn bind_volumes(&mut self) -> bool {
        std::mem::take(&mut self.has_storage_news) && volumes::bind(&mut self.cluster)
    }

    fn step_kubelets(&mut self) -> bool {
        let writes = self.kubelets.advance(self.cluster.now());
        let has_moved = !writes.is_empty();
        for (node, write) in writes {
            kubelets::carry_out(&node, write, &mut self.cluster);
        }
        has_moved
    }
}

#[cfg(test)]
mod tests;
