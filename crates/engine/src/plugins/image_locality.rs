//! ImageLocality: prefers nodes that already have the pod's images.
//!
//! Each image counts with its size, scaled down by the share of nodes that have it (so
//! that one node that happens to have an image does not attract everything); the sum is
//! mapped from 23 MiB .. 1000 MiB a container to 0 .. 100.
//! Source: `plugins/imagelocality/image_locality.go`, Kubernetes 1.36.

use crate::cluster::Cluster;
use crate::framework::{DependsOn, MAX_NODE_SCORE, Plugin, PreparedBy, ScorePlugin};
use crate::ids::{NodeId, Symbol};
use crate::pod_class::PodClass;
use crate::release::Release;

const MIB: i64 = 1024 * 1024;
const LEAST_BYTES: i64 = 23 * MIB;
const MOST_BYTES_PER_CONTAINER: i64 = 1000 * MIB;

/// See the module.
pub struct ImageLocality {
    release: Release,
}

impl ImageLocality {
    /// Name in configurations.
    pub const NAME: &'static str = "ImageLocality";

    /// The plugin as of a release. In 1.20 an image is on as many nodes as had it when the
    /// node in question was last told of.
    pub fn new(release: Release) -> Self {
        Self { release }
    }

    fn scaled_bytes(&self, cluster: &Cluster, node: NodeId, image: Symbol) -> i64 {
        let Some(state) = cluster.image_on_node(node, image) else {
            return 0;
        };
        let node_count = match self.release {
            Release::V1_36 => state.node_count,
            Release::V1_20 => cluster
                .legacy_node(node)
                .map_or(0, |legacy| legacy.image_node_count(image)),
        };
        let spread = f64::from(node_count) / cluster.node_count() as f64;
        (state.size_bytes as f64 * spread) as i64
    }
}

/// An image reference as nodes report it: with the tag `latest` if it has none.
pub(crate) fn with_tag(reference: &str) -> String {
    let tagged = match (reference.rfind(':'), reference.rfind('/')) {
        (Some(colon), Some(slash)) => colon > slash,
        (Some(_), None) => true,
        (None, _) => false,
    };
    if tagged {
        reference.to_owned()
    } else {
        format!("{reference}:latest")
    }
}

impl Plugin for ImageLocality {
    fn name(&self) -> &'static str {
        Self::NAME
    }
}

impl ScorePlugin for ImageLocality {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeObject
    }

    fn prepared_by(&self) -> PreparedBy {
        PreparedBy::Nothing
    }

    fn score_node(&self, class: &PodClass, cluster: &Cluster, node: NodeId) -> i64 {
        let images = class.images.iter();
        let bytes: i64 = images
            .map(|&image| self.scaled_bytes(cluster, node, image))
            .sum();
        let most = MOST_BYTES_PER_CONTAINER * class.container_count;
        // Not clamp: without containers `most` is below LEAST_BYTES.
        let bytes = if bytes < LEAST_BYTES {
            LEAST_BYTES
        } else {
            bytes.min(most)
        };
        MAX_NODE_SCORE * (bytes - LEAST_BYTES) / (most - LEAST_BYTES)
    }

    fn epoch(&self, class: &PodClass, cluster: &Cluster) -> u64 {
        let known = class
            .images
            .iter()
            .any(|&image| cluster.image(image).is_some());
        if known { cluster.images_epoch() } else { 0 }
    }
}
