//! Claims become bound to volumes.
//!
//! A PersistentVolumeClaim asks for storage, a PersistentVolume is some. The controller
//! binds a claim to the volume that it or the volume names, else to the smallest one that
//! will do, else it has a volume made by the class's provisioner. A claim whose
//! StorageClass waits for the first pod (`WaitForFirstConsumer`) is left to the scheduler,
//! which says what it is to get once that pod has a node: [`PersistentVolumeBinder::bind`]
//! and [`PersistentVolumeBinder::provision`].
//!
//! Provisioning takes no time here and always succeeds. Where the new volume can be reached
//! from is the provisioner's decision; it is taken as from nodes that agree with the pod's
//! node on the labels by which its CSI driver tells places apart (`topologyKeys` of the
//! CSINode), or on those that the class restricts (`allowedTopologies`), or else as from
//! everywhere.
//!
//! Sources: `pkg/controller/volume/persistentvolume/{pv_controller,index}.go` and
//! `component-helpers/storage/volume/pv_helpers.go`, Kubernetes 1.36; external-provisioner
//! 5 for topology.

use std::collections::{BTreeMap, BTreeSet};

use outrank_api::decode::Object;
use outrank_api::labels::Selector;
use outrank_api::node_selector::{is_empty_term, parse_term};
use outrank_api::quantity::Quantity;
use outrank_api::types::{
    BIND_COMPLETED, ClaimReference, CsiPersistentVolumeSource, Node, NodeSelector,
    NodeSelectorRequirement, NodeSelectorTerm, ObjectMeta, PersistentVolume, PersistentVolumeClaim,
    PersistentVolumeSpec, PersistentVolumeStatus, ResourceList, SELECTED_NODE, StorageClass,
    StringMap, VolumeNodeAffinity,
};

/// Namespace and name of a claim.
pub type ClaimName = (String, String);

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

/// A provisioner of which more is known than CSINodes say.
struct KnownProvisioner {
    name: &'static str,
    /// The CSI driver that does its work today.
    driver: Option<&'static str>,
    /// The label by which the place shows where its volumes stay.
    topology_key: &'static str,
}

const fn known(
    name: &'static str,
    driver: Option<&'static str>,
    topology_key: &'static str,
) -> KnownProvisioner {
    KnownProvisioner {
        name,
        driver,
        topology_key,
    }
}

/// The plugins that were built into Kubernetes for cloud disks, which stay in their zone
/// (`csi-translation-lib/plugins`, Kubernetes 1.36), and widespread provisioners of
/// directories on nodes that are no CSI drivers.
const KNOWN_PROVISIONERS: [KnownProvisioner; 6] = [
    known("kubernetes.io/aws-ebs", Some("ebs.csi.aws.com"), ZONE),
    known("kubernetes.io/azure-disk", Some("disk.csi.azure.com"), ZONE),
    known(
        "kubernetes.io/cinder",
        Some("cinder.csi.openstack.org"),
        ZONE,
    ),
    known("kubernetes.io/gce-pd", Some("pd.csi.storage.gke.io"), ZONE),
    known("openebs.io/local", None, HOSTNAME),
    known("rancher.io/local-path", None, HOSTNAME),
];

/// Claims, volumes and what decides about them.
#[derive(Clone, Debug, Default)]
pub struct PersistentVolumeBinder {
    claims: BTreeMap<ClaimName, PersistentVolumeClaim>,
    volumes: BTreeMap<String, PersistentVolume>,
    classes: BTreeMap<String, StorageClass>,
    /// Labels by node.
    nodes: BTreeMap<String, StringMap>,
    /// `topologyKeys` by node and CSI driver.
    topology_keys: BTreeMap<(String, String), Vec<String>>,
    /// Volumes that are kept for a claim, by the claim.
    kept: BTreeMap<ClaimName, BTreeSet<String>>,
    /// Volumes that anyone may have, by class and then by how many access modes they have,
    /// the smallest first.
    free: BTreeMap<String, BTreeMap<usize, BTreeSet<(Quantity, String)>>>,
    changed_claims: BTreeSet<ClaimName>,
    changed_volumes: BTreeSet<String>,
}

/// Why a claim is not bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unbound {
    /// It waits for the first pod that uses it.
    WaitsForPod,
    /// It names a volume that is not there.
    VolumeMissing,
    /// It names a volume that is somebody else's or does not do.
    VolumeUnfit,
    /// No volume will do, and it has no class that could have one made.
    NoClass,
    /// No volume will do, and its class is not there.
    ClassMissing,
    /// No volume will do, and its class has none made.
    NoProvisioner,
    /// No volume will do, and provisioners make none for a claim that selects volumes by
    /// label.
    Selects,
}

/// How a claim is bound.
enum Bound {
    /// To a volume that was there or that was made for a node.
    ToVolume,
    /// To a volume that was made for no node in particular.
    MadeAnywhere,
}

/// What became of claims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BoundClaims {
    /// Claims for which a volume was made, for no node in particular.
    pub made_anywhere: Vec<ClaimName>,
    /// Claims that stay unbound.
    pub unbound: BTreeMap<ClaimName, Unbound>,
}

/// Binds the claims that can be bound now, and has volumes made for those of which a scheduler has
/// said for which node: the claims and volumes that change, and why others stay as they are. `nodes`
/// and `storage` are all that there are. Nothing is looked at if no claim waits.
pub fn bind_waiting(
    nodes: &[Node],
    storage: &[Object],
) -> (Vec<Object>, BTreeMap<ClaimName, Unbound>) {
    let waiting = |claim: &PersistentVolumeClaim| {
        claim.spec.volume_name.is_empty() && claim.metadata.deletion_timestamp.is_none()
    };
    let claims = storage
        .iter()
        .filter_map(Object::get::<PersistentVolumeClaim>);
    let claims: Vec<&PersistentVolumeClaim> = claims.filter(|it| waiting(it)).collect();
    if claims.is_empty() {
        return (Vec::new(), BTreeMap::new());
    }
    let mut binder = PersistentVolumeBinder::new(nodes, storage);
    for volume in storage.iter().filter_map(Object::get::<PersistentVolume>) {
        if let Some(claim) = &volume.spec.claim_ref {
            let name = (claim.namespace.clone(), claim.name.clone());
            if binder.claim(&name).is_some_and(waiting) {
                binder.bind(&name, &volume.metadata.name);
            }
        }
    }
    for claim in claims {
        let name = claim_name(claim);
        if let Some(node) = claim.metadata.annotations.get(SELECTED_NODE)
            && binder.claim(&name).is_some_and(waiting)
        {
            binder.provision(&name, node);
        }
    }
    let unbound = binder.bind_claims().unbound;
    (binder.take_changes(), unbound)
}

impl PersistentVolumeBinder {
    /// Takes in nodes, and of other objects claims, volumes, storage classes and CSINodes.
    pub fn new(nodes: &[Node], objects: &[Object]) -> Self {
        let mut binder = Self::default();
        for Node { metadata, .. } in nodes {
            let labels = metadata.labels.clone();
            binder.nodes.insert(metadata.name.clone(), labels);
        }
        for object in objects {
            let name = object.metadata().name.clone();
            match object {
                Object::PersistentVolumeClaim(it) => {
                    binder.claims.insert(claim_name(it), (**it).clone());
                }
                Object::PersistentVolume(it) => {
                    binder.volumes.insert(name, (**it).clone());
                }
                Object::StorageClass(it) => {
                    binder.classes.insert(name, (**it).clone());
                }
                Object::CSINode(it) => {
                    for driver in &it.spec.drivers {
                        let key = (name.clone(), driver.name.clone());
                        let keys = driver.topology_keys.clone();
                        binder.topology_keys.insert(key, keys);
                    }
                }
                _ => {}
            }
        }
        let names: Vec<String> = binder.volumes.keys().cloned().collect();
        names.iter().for_each(|name| binder.index(name));
        binder
    }

    /// The claim of that name.
    pub fn claim(&self, claim: &ClaimName) -> Option<&PersistentVolumeClaim> {
        self.claims.get(claim)
    }

    /// The volume of that name.
    pub fn volume(&self, name: &str) -> Option<&PersistentVolume> {
        self.volumes.get(name)
    }

    /// Binds every claim that need not wait for a pod, provisioning where that is to be
    /// done. O(n log n) in claims and volumes, if the smallest volumes will do.
    pub fn bind_claims(&mut self) -> BoundClaims {
        let mut outcome = BoundClaims::default();
        let names: Vec<ClaimName> = self.claims.keys().cloned().collect();
        for name in names {
            match self.bind_claim(&name) {
                Ok(Bound::ToVolume) => {}
                Ok(Bound::MadeAnywhere) => outcome.made_anywhere.push(name),
                Err(reason) => {
                    outcome.unbound.insert(name, reason);
                }
            }
        }
        outcome
    }

    /// Binds a claim to a volume, as the scheduler or a person has decided.
    pub fn bind(&mut self, name: &ClaimName, volume_name: &str) {
        let (Some(claim), Some(volume)) =
            (self.claims.get_mut(name), self.volumes.get_mut(volume_name))
        else {
            return;
        };
        volume_name.clone_into(&mut claim.spec.volume_name);
        "Bound".clone_into(&mut claim.status.phase);
        let annotations = &mut claim.metadata.annotations;
        annotations.insert(BIND_COMPLETED.to_owned(), "yes".to_owned());
        volume.spec.claim_ref = Some(ClaimReference {
            namespace: name.0.clone(),
            name: name.1.clone(),
            uid: claim.metadata.uid.clone(),
        });
        "Bound".clone_into(&mut volume.status.phase);
        self.changed_claims.insert(name.clone());
        self.changed_volumes.insert(volume_name.to_owned());
        self.index(volume_name);
    }

    /// Makes a volume for a claim whose pod goes to this node, and binds it. Nothing happens
    /// if there is no such claim.
    pub fn provision(&mut self, name: &ClaimName, node: &str) {
        let Some(claim) = self.claims.get(name) else {
            return;
        };
        let class = class_of(claim).and_then(|it| self.classes.get(it));
        let affinity = class.and_then(|class| self.affinity_on(class, node));
        self.make(name, affinity);
    }

    /// Gives a claim what it must have if a pod on this node runs with it: a volume that is
    /// there and can be reached, else one that is made. Returns whether there is either.
    pub fn bind_on(&mut self, name: &ClaimName, node: &str) -> bool {
        let Some(claim) = self.claims.get(name) else {
            return false;
        };
        let labels = self.nodes.get(node);
        let is_reached = |volume: &PersistentVolume| {
            let affinity = volume.spec.node_affinity.as_ref();
            let required = affinity.and_then(|affinity| affinity.required.as_ref());
            required.is_none_or(|it| labels.is_some_and(|labels| selects(it, node, labels)))
        };
        if let Some(volume) = self.best_free(claim, is_reached) {
            self.bind(name, &volume);
            return true;
        }
        let class = class_of(claim).and_then(|it| self.classes.get(it));
        let is_made = class.is_some_and(StorageClass::makes_volumes);
        if is_made {
            self.provision(name, node);
        }
        is_made
    }

    /// Whether volumes of the class can be reached from some nodes only: from what CSINodes
    /// say, else from what the provisioner is known for; `None` if that is not known.
    pub fn is_topological(&self, class: &StorageClass) -> Option<bool> {
        let driver = driver_of(class);
        let is_of_driver = |it: &&(String, String)| it.1 == driver;
        let mut known = self.topology_keys.keys().filter(is_of_driver).peekable();
        match known.peek() {
            Some(_) => Some(known.any(|key| !self.topology_keys[key].is_empty())),
            None => known_provisioner(class).map(|_| true),
        }
    }

    /// The class of that name.
    pub fn class(&self, name: &str) -> Option<&StorageClass> {
        self.classes.get(name)
    }

    /// Claims and volumes as they have become since this was asked last.
    pub fn take_changes(&mut self) -> Vec<Object> {
        let volumes = std::mem::take(&mut self.changed_volumes);
        let volumes = volumes.iter().filter_map(|name| self.volumes.get(name));
        let volumes = volumes.map(|it| Object::PersistentVolume(Box::new(it.clone())));
        let claims = std::mem::take(&mut self.changed_claims);
        let claims = claims.iter().filter_map(|name| self.claims.get(name));
        let claims = claims.map(|it| Object::PersistentVolumeClaim(Box::new(it.clone())));
        // A claim is bound to a volume that is there already.
        volumes.chain(claims).collect()
    }

    fn bind_claim(&mut self, name: &ClaimName) -> Result<Bound, Unbound> {
        let Some(claim) = self.claims.get(name) else {
            return Ok(Bound::ToVolume);
        };
        if claim.metadata.annotations.contains_key(BIND_COMPLETED)
            || claim.metadata.deletion_timestamp.is_some()
        {
            return Ok(Bound::ToVolume);
        }
        let wanted = claim.spec.volume_name.clone();
        if !wanted.is_empty() {
            let volume = self.volumes.get(&wanted).ok_or(Unbound::VolumeMissing)?;
            let is_own = match &volume.spec.claim_ref {
                Some(reference) => means(reference, claim) && will_do(volume, claim),
                None => will_do(volume, claim) && volume.class_name() == class_name(claim),
            };
            if !is_own {
                return Err(Unbound::VolumeUnfit);
            }
            self.bind(name, &wanted);
            return Ok(Bound::ToVolume);
        }
        let class = class_of(claim).and_then(|it| self.classes.get(it));
        let waits = class.is_some_and(waits_for_pod);
        if let Some(volume) = self.kept_for(claim) {
            self.bind(name, &volume);
            return Ok(Bound::ToVolume);
        }
        if waits {
            let node = claim.metadata.annotations.get(SELECTED_NODE).cloned();
            let node = node.ok_or(Unbound::WaitsForPod)?;
            self.provision(name, &node);
            return Ok(Bound::ToVolume);
        }
        if let Some(volume) = self.best_free(claim, |_| true) {
            self.bind(name, &volume);
            return Ok(Bound::ToVolume);
        }
        if class_name(claim).is_empty() {
            return Err(Unbound::NoClass);
        }
        let class = class.ok_or(Unbound::ClassMissing)?;
        if !class.makes_volumes() {
            return Err(Unbound::NoProvisioner);
        }
        if claim.spec.selector.is_some() {
            return Err(Unbound::Selects);
        }
        let affinity = affinity_of_class(class);
        self.make(name, affinity);
        Ok(Bound::MadeAnywhere)
    }

    /// The volume that is kept for a claim.
    fn kept_for(&self, claim: &PersistentVolumeClaim) -> Option<String> {
        let kept = self.kept.get(&claim_name(claim))?;
        let mut kept = kept.iter().filter_map(|name| self.volumes.get(name));
        let is_own = |it: &&PersistentVolume| {
            will_do(it, claim)
                && it
                    .spec
                    .claim_ref
                    .as_ref()
                    .is_some_and(|it| means(it, claim))
        };
        kept.find(is_own).map(|it| it.metadata.name.clone())
    }

    /// Of the volumes kept for nobody that will do, the smallest of those with the fewest
    /// access modes.
    fn best_free(
        &self,
        claim: &PersistentVolumeClaim,
        is_wanted: impl Fn(&PersistentVolume) -> bool,
    ) -> Option<String> {
        let selector = claim.spec.selector.as_ref();
        let selector = selector.map(|it| Selector::from_label_selector(Some(it)));
        let selector = selector.transpose().ok()?;
        let size = claim.spec.resources.requests.get("storage");
        let at_least = (size.cloned().unwrap_or_default(), String::new());
        let groups = self.free.get(class_name(claim))?.values();
        let large_enough = groups.flat_map(|volumes| volumes.range(at_least.clone()..));
        let mut free = large_enough.filter_map(|(_, name)| self.volumes.get(name));
        let fits = |it: &&PersistentVolume| {
            will_do(it, claim)
                && is_wanted(it)
                && (selector.as_ref()).is_none_or(|selector| selector.matches(&it.metadata.labels))
        };
        free.find(fits).map(|it| it.metadata.name.clone())
    }

    /// Makes a volume for a claim, as its class's provisioner would, and binds it.
    fn make(&mut self, name: &ClaimName, nodes: Option<NodeSelector>) {
        let Some(claim) = self.claims.get(name) else {
            return;
        };
        let by_uid = format!("pvc-{}", claim.metadata.uid);
        let is_taken = claim.metadata.uid.is_empty() || self.volumes.contains_key(&by_uid);
        let volume_name = match is_taken {
            // No object can have a name with a slash, so nothing that is there has it.
            true => format!("pvc-{}/{}", name.0, name.1),
            false => by_uid,
        };
        let class = class_of(claim).and_then(|it| self.classes.get(it));
        let size = claim.spec.resources.requests.get("storage");
        let volume = PersistentVolume {
            metadata: ObjectMeta {
                name: volume_name.clone(),
                ..ObjectMeta::default()
            },
            spec: PersistentVolumeSpec {
                capacity: ResourceList::from_iter([(
                    "storage".to_owned(),
                    size.cloned().unwrap_or_default(),
                )]),
                access_modes: claim.spec.access_modes.clone(),
                storage_class_name: class_name(claim).to_owned(),
                volume_attributes_class_name: claim.spec.volume_attributes_class_name.clone(),
                volume_mode: claim.spec.volume_mode.clone(),
                node_affinity: nodes.map(|required| VolumeNodeAffinity {
                    required: Some(required),
                }),
                csi: class.map(|class| CsiPersistentVolumeSource {
                    driver: driver_of(class).to_owned(),
                    volume_handle: volume_name.clone(),
                }),
                ..PersistentVolumeSpec::default()
            },
            status: PersistentVolumeStatus::default(),
        };
        self.volumes.insert(volume_name.clone(), volume);
        self.bind(name, &volume_name);
    }

    /// From where a volume can be reached that is made for a pod on this node; `None` is
    /// from everywhere.
    fn affinity_on(&self, class: &StorageClass, node: &str) -> Option<NodeSelector> {
        let of_driver = (node.to_owned(), driver_of(class).to_owned());
        let of_driver = self.topology_keys.get(&of_driver);
        let mut keys: BTreeSet<&str> = of_driver.into_iter().flatten().map(|it| &**it).collect();
        if of_driver.is_none() {
            keys.extend(known_provisioner(class).map(|it| it.topology_key));
            let terms = class.allowed_topologies.iter();
            let restricted = terms.flat_map(|term| &term.match_label_expressions);
            keys.extend(restricted.map(|it| it.key.as_str()));
        }
        let labels = self.nodes.get(node)?;
        let values = keys.into_iter().filter_map(|key| {
            let value = labels.get(key)?.clone();
            Some(is_one_of(key, vec![value]))
        });
        let match_expressions: Vec<_> = values.collect();
        (!match_expressions.is_empty()).then(|| NodeSelector {
            node_selector_terms: vec![NodeSelectorTerm {
                match_expressions,
                ..NodeSelectorTerm::default()
            }],
        })
    }

    /// Notes for whom a volume is.
    fn index(&mut self, name: &str) {
        let Some(volume) = self.volumes.get(name) else {
            return;
        };
        let place = (size_of(volume).clone(), name.to_owned());
        let class = volume.class_name().to_owned();
        let free = self.free.entry(class).or_default();
        let free = free.entry(volume.spec.access_modes.len()).or_default();
        match &volume.spec.claim_ref {
            None if volume.status.phase == "Available" => {
                free.insert(place);
            }
            None => {}
            Some(claim) => {
                free.remove(&place);
                let claim = (claim.namespace.clone(), claim.name.clone());
                self.kept.entry(claim).or_default().insert(name.to_owned());
            }
        }
    }
}

/// Whether a node is one of those that a volume's affinity names.
fn selects(selector: &NodeSelector, node: &str, labels: &StringMap) -> bool {
    let terms = selector.node_selector_terms.iter();
    let mut terms = terms.filter(|term| !is_empty_term(term));
    terms.any(|term| parse_term(term, "").is_ok_and(|term| term.matches(node, labels)))
}

fn claim_name(claim: &PersistentVolumeClaim) -> ClaimName {
    let metadata = &claim.metadata;
    (metadata.namespace.clone(), metadata.name.clone())
}

/// The name of a claim's class; empty is none.
pub fn class_name(claim: &PersistentVolumeClaim) -> &str {
    claim.class_name().unwrap_or_default()
}

fn class_of(claim: &PersistentVolumeClaim) -> Option<&str> {
    Some(class_name(claim)).filter(|name| !name.is_empty())
}

fn waits_for_pod(class: &StorageClass) -> bool {
    class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
}

fn size_of(volume: &PersistentVolume) -> &Quantity {
    static NONE: std::sync::OnceLock<Quantity> = std::sync::OnceLock::new();
    let size = volume.spec.capacity.get("storage");
    size.unwrap_or_else(|| NONE.get_or_init(Quantity::default))
}

/// Whether a volume's reference means this claim.
fn means(reference: &ClaimReference, claim: &PersistentVolumeClaim) -> bool {
    let metadata = &claim.metadata;
    reference.namespace == metadata.namespace
        && reference.name == metadata.name
        && (reference.uid.is_empty() || reference.uid == metadata.uid)
}

/// Whether a volume is large enough and of the right kind for a claim.
fn will_do(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let mode = |mode: &Option<String>| mode.clone().unwrap_or_else(|| "Filesystem".to_owned());
    let (has, wants) = (&volume.spec, &claim.spec);
    let size = wants.resources.requests.get("storage");
    let attributes = |name: &Option<String>| name.clone().unwrap_or_default();
    size.is_none_or(|size| size_of(volume) >= size)
        && (wants.access_modes.iter()).all(|mode| has.access_modes.contains(mode))
        && mode(&has.volume_mode) == mode(&wants.volume_mode)
        && attributes(&has.volume_attributes_class_name)
            == attributes(&wants.volume_attributes_class_name)
        && volume.metadata.deletion_timestamp.is_none()
}

fn known_provisioner(class: &StorageClass) -> Option<&'static KnownProvisioner> {
    let mut known = KNOWN_PROVISIONERS.iter();
    known.find(|known| known.name == class.provisioner)
}

/// The name of the CSI driver that makes the volumes of a class.
fn driver_of(class: &StorageClass) -> &str {
    let known = known_provisioner(class).and_then(|known| known.driver);
    known.unwrap_or(&class.provisioner)
}

fn is_one_of(key: &str, values: Vec<String>) -> NodeSelectorRequirement {
    NodeSelectorRequirement {
        key: key.to_owned(),
        operator: "In".to_owned(),
        values,
    }
}

/// From where a volume can be reached that is made for no pod in particular.
fn affinity_of_class(class: &StorageClass) -> Option<NodeSelector> {
    let terms = class
        .allowed_topologies
        .iter()
        .map(|term| NodeSelectorTerm {
            match_expressions: term
                .match_label_expressions
                .iter()
                .map(|it| is_one_of(&it.key, it.values.clone()))
                .collect(),
            ..NodeSelectorTerm::default()
        });
    let node_selector_terms: Vec<_> = terms.collect();
    (!node_selector_terms.is_empty()).then_some(NodeSelector {
        node_selector_terms,
    })
}

#[cfg(test)]
mod tests {
    use outrank_api::decode::load;

    use super::*;

    const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

    fn binder(manifest: &str) -> PersistentVolumeBinder {
        let loaded = load([("test.yaml", manifest.as_bytes())]);
        assert_eq!(loaded.errors, []);
        let objects: Vec<Object> = loaded.objects.into_iter().map(|it| it.object).collect();
        let nodes: Vec<Node> = objects
            .iter()
            .filter_map(|object| match object {
                Object::Node(node) => Some((**node).clone()),
                _ => None,
            })
            .collect();
        PersistentVolumeBinder::new(&nodes, &objects)
    }

    fn claim(name: &str, size: &str, more: &str) -> String {
        format!(
            "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: {name}}}\nspec:\n  \
             accessModes: [ReadWriteOnce]\n  resources: {{requests: {{storage: {size}}}}}\n{more}"
        )
    }

    fn volume(name: &str, size: &str, modes: &str, more: &str) -> String {
        format!(
            "---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: {name}}}\nspec:\n  \
             capacity: {{storage: {size}}}\n  accessModes: [{modes}]\n  hostPath: {{path: \
             /d}}\n{more}status: {{phase: Available}}\n"
        )
    }

    fn class(mode: &str, more: &str) -> String {
        format!(
            "---\napiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {{name: \
             disk}}\nprovisioner: csi.example.com\nvolumeBindingMode: {mode}\n{more}"
        )
    }

    fn of(name: &str) -> ClaimName {
        ("default".to_owned(), name.to_owned())
    }

    fn volume_of<'b>(binder: &'b PersistentVolumeBinder, name: &str) -> &'b str {
        &binder.claim(&of(name)).expect("a claim").spec.volume_name
    }

    #[test]
    fn a_claim_gets_the_smallest_volume_that_will_do() {
        let mut binder = binder(
            &[
                claim("c", "2Gi", "  storageClassName: \"\"\n"),
                claim("d", "2Gi", "  storageClassName: \"\"\n"),
                volume("large", "9Gi", "ReadWriteOnce", ""),
                volume("small", "1Gi", "ReadWriteOnce", ""),
                volume("shared", "2Gi", "ReadWriteOnce, ReadWriteMany", ""),
                volume("read", "2Gi", "ReadOnlyMany", ""),
            ]
            .concat(),
        );
        assert_eq!(binder.bind_claims(), BoundClaims::default());
        // Fewer access modes come before a better size.
        assert_eq!(volume_of(&binder, "c"), "large");
        assert_eq!(volume_of(&binder, "d"), "shared");
        assert_eq!(binder.take_changes().len(), 4);
        assert_eq!(binder.take_changes().len(), 0);
    }

    #[test]
    fn claims_and_volumes_may_name_each_other() {
        let mut binder = binder(
            &[
                claim("c", "2Gi", "  storageClassName: \"\"\n  volumeName: v\n"),
                claim("d", "2Gi", "  storageClassName: \"\"\n"),
                claim("e", "2Gi", "  storageClassName: \"\"\n  volumeName: gone\n"),
                claim("f", "2Gi", "  storageClassName: \"\"\n  volumeName: w\n"),
                claim("g", "2Gi", "  storageClassName: \"\"\n  volumeName: x\n"),
                volume("x", "9Gi", "ReadWriteMany", ""),
                volume("v", "9Gi", "ReadWriteOnce", ""),
                volume(
                    "w",
                    "9Gi",
                    "ReadWriteOnce",
                    "  claimRef: {namespace: default, name: d}\n",
                ),
            ]
            .concat(),
        );
        let unbound = binder.bind_claims().unbound;
        assert_eq!(
            (volume_of(&binder, "c"), volume_of(&binder, "d")),
            ("v", "w")
        );
        assert_eq!(unbound[&of("e")], Unbound::VolumeMissing);
        assert_eq!(unbound[&of("g")], Unbound::VolumeUnfit, "of other modes");
        assert_eq!(unbound[&of("f")], Unbound::VolumeUnfit);
    }

    #[test]
    fn a_class_makes_volumes_at_once_or_for_a_node() {
        let of_class = |name| claim(name, "1Gi", "  storageClassName: disk\n");
        let mut at_once = binder(&[class("Immediate", ""), of_class("c")].concat());
        assert_eq!(at_once.bind_claims().made_anywhere, [of("c")]);
        assert_eq!(volume_of(&at_once, "c"), "pvc-default/c");

        let node = "---\napiVersion: v1\nkind: Node\nmetadata: {name: m, labels: {zone: one}}\n\
                    ---\napiVersion: storage.k8s.io/v1\nkind: CSINode\nmetadata: {name: m}\nspec: \
                    {drivers: [{name: csi.example.com, nodeID: m, topologyKeys: [zone]}]}\n";
        let mut waits =
            binder(&[&class("WaitForFirstConsumer", ""), &of_class("c"), node].concat());
        assert_eq!(waits.bind_claims().unbound[&of("c")], Unbound::WaitsForPod);
        waits.provision(&of("c"), "m");
        let volume = waits.volume(volume_of(&waits, "c")).expect("a volume");
        let affinity = volume.spec.node_affinity.as_ref().expect("an affinity");
        let terms = &affinity
            .required
            .as_ref()
            .expect("terms")
            .node_selector_terms;
        assert_eq!(
            terms[0].match_expressions,
            [is_one_of("zone", vec!["one".into()])]
        );
    }

    #[test]
    fn what_cannot_be_bound_says_why() {
        let none = class("Immediate", "").replace("csi.example.com", NO_PROVISIONER);
        let mut binder = binder(
            &[
                none,
                claim("c", "1Gi", "  storageClassName: disk\n"),
                claim("d", "1Gi", "  storageClassName: lost\n"),
                claim("e", "1Gi", ""),
            ]
            .concat(),
        );
        let unbound: Vec<Unbound> = binder.bind_claims().unbound.into_values().collect();
        let expected = [
            Unbound::NoProvisioner,
            Unbound::ClassMissing,
            Unbound::NoClass,
        ];
        assert_eq!(unbound, expected);
    }

    #[test]
    fn made_volumes_are_nobody_elses() {
        let in_namespace = |namespace: &str, name: &str| {
            let claim = claim(name, "1Gi", "  storageClassName: disk\n");
            claim.replace(
                "metadata: {",
                &format!("metadata: {{namespace: {namespace}, "),
            )
        };
        let taken = volume("pvc-a-b-c", "1Gi", "ReadWriteOnce", "");
        let claims = in_namespace("a-b", "c") + &in_namespace("a", "b-c");
        let mut binder = binder(&[class("Immediate", ""), taken, claims].concat());
        assert_eq!(binder.bind_claims().made_anywhere.len(), 2);
        let volume = |namespace: &str, name: &str| {
            let claim = binder.claim(&(namespace.to_owned(), name.to_owned()));
            claim.expect("a claim").spec.volume_name.clone()
        };
        assert_ne!(volume("a-b", "c"), volume("a", "b-c"));
        let taken = binder.volume("pvc-a-b-c").expect("the volume of before");
        assert_eq!(taken.spec.claim_ref, None);
    }

    #[test]
    fn a_claim_in_use_is_bound_to_what_its_node_reaches() {
        let local = class("WaitForFirstConsumer", "").replace("csi.example.com", NO_PROVISIONER);
        let on = |name: &str, node: &str| {
            let affinity = format!(
                "  storageClassName: disk\n  nodeAffinity: {{required: {{nodeSelectorTerms: \
                 [{{matchExpressions: [{{key: host, operator: In, values: [{node}]}}]}}]}}}}\n"
            );
            volume(name, "1Gi", "ReadWriteOnce", &affinity)
        };
        let node = "---\napiVersion: v1\nkind: Node\nmetadata: {name: m1, labels: {host: m1}}\n";
        let claims = ["c", "d"].map(|name| claim(name, "1Gi", "  storageClassName: disk\n"));
        let volumes = on("a", "l1") + &on("b", "m1");
        let mut binder = binder(&[local, node.to_owned(), claims.concat(), volumes].concat());
        assert!(binder.bind_on(&of("c"), "m1"));
        assert_eq!(volume_of(&binder, "c"), "b");
        assert!(!binder.bind_on(&of("d"), "m1"));
    }
}
