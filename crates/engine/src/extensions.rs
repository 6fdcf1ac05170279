//! What an engine may have beside what it brings: plugins and extenders of one's own.
//!
//! A plugin of one's own implements the traits of [`crate::framework`] as the built-in ones
//! do, and is kept up to date by the same caches; what it says about itself
//! ([`DependsOn`](crate::framework::DependsOn), [`Plugin::annotations`]) must be true. It is
//! handed over as a value, and has a say in the profiles that name it:
//!
//! ```
//! use outrank_engine::cluster::Cluster;
//! use outrank_engine::extensions::{Extensions, OwnPlugin};
//! use outrank_engine::framework::{DependsOn, Plugin, ScorePlugin, Stages};
//! use outrank_engine::ids::NodeId;
//! use outrank_engine::pod_class::PodClass;
//! use outrank_engine::{Engine, EngineConfig};
//!
//! /// Prefers nodes with short names.
//! struct ShortNames;
//!
//! impl Plugin for ShortNames {
//!     fn name(&self) -> &'static str {
//!         "ShortNames"
//!     }
//! }
//!
//! impl ScorePlugin for ShortNames {
//!     fn depends_on(&self) -> DependsOn {
//!         DependsOn::NodeObject
//!     }
//!
//!     fn score_node(&self, _: &PodClass, cluster: &Cluster, node: NodeId) -> i64 {
//!         100 - (cluster.name(node).len() as i64).min(100)
//!     }
//! }
//!
//! let mut config = EngineConfig::default();
//! config.profiles[0].score.push(("ShortNames".into(), 2));
//! let extensions = Extensions {
//!     plugins: vec![OwnPlugin::new(Stages::score(ShortNames)).unwrap()],
//!     ..Extensions::default()
//! };
//! assert!(Engine::with_extensions(&config, extensions).is_ok());
//! assert!(Engine::new(&config).is_err());
//! ```

use std::fmt;
use std::sync::Arc;

use crate::extender::Extender;
use crate::framework::{FilterStage, Plugin, ScoreStage, Stages};
use crate::profile::is_built_in;

/// Plugins and extenders of one's own.
#[derive(Clone, Debug, Default)]
pub struct Extensions {
    /// Plugins; those that no profile names have no say.
    pub plugins: Vec<OwnPlugin>,
    /// Extenders, in the order in which they are asked. Whether a pod is interesting to them
    /// is asked at every decision.
    pub extenders: Vec<Arc<dyn Extender>>,
}

impl Extensions {
    /// Refuses plugins whose names are taken.
    pub(crate) fn check_names(&self) -> Result<(), String> {
        for (index, plugin) in self.plugins.iter().enumerate() {
            let name = plugin.name;
            let is_twice = self.plugins[..index].iter().any(|it| it.name == name);
            if is_twice || is_built_in(name) {
                return Err(format!("there is another plugin {name:?}"));
            }
        }
        Ok(())
    }
}

/// A plugin of one's own.
#[derive(Clone)]
pub struct OwnPlugin {
    name: &'static str,
    stages: Stages,
}

impl OwnPlugin {
    /// A plugin with its stages; `None` if it has none.
    pub fn new(stages: Stages) -> Option<Self> {
        let filter = stages.filter.as_ref().map(FilterStage::name);
        let score = stages.score.as_ref().map(ScoreStage::name);
        Some(Self {
            name: filter.or(score)?,
            stages,
        })
    }

    /// Its name, as in configurations.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Where it has a say.
    pub fn stages(&self) -> &Stages {
        &self.stages
    }
}

impl fmt::Debug for OwnPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnPlugin").field(&self.name).finish()
    }
}

impl FilterStage {
    fn name(&self) -> &'static str {
        self.plugin().name()
    }

    /// The plugin, whatever it looks at.
    pub(crate) fn plugin(&self) -> &dyn Plugin {
        match self {
            Self::Node(plugin) => plugin.as_ref(),
            Self::Cluster(plugin) => plugin.as_ref(),
        }
    }
}

impl ScoreStage {
    fn name(&self) -> &'static str {
        self.plugin().name()
    }

    /// The plugin, whatever it looks at.
    pub(crate) fn plugin(&self) -> &dyn Plugin {
        match self {
            Self::Node(plugin) => plugin.as_ref(),
            Self::Cluster(plugin) => plugin.as_ref(),
        }
    }
}
