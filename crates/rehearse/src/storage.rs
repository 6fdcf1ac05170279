//! Storage as controllers leave it before pods are placed: claims made for pods, claims given
//! the default class and bound if they need not wait, volumes made available.
//!
//! What is bound or made once pods are placed is in [`crate::run`].

use std::collections::{BTreeMap, HashMap, HashSet};

use outrank_admission::default_storage_class::default_class;
use outrank_api::decode::Object;
use outrank_api::defaults::default_persistent_volume_claim;
use outrank_api::types::{
    Node, OwnerReference, PersistentVolumeClaim, Pod, StatefulSet, StorageClass, Volume,
    VolumeClaimTemplate,
};
use outrank_controllers::volumes::{ClaimName, PersistentVolumeBinder, Unbound, class_name};
use outrank_engine::Event;

/// By namespace and name.
type StatefulSets<'o> = HashMap<(&'o str, &'o str), &'o StatefulSet>;

/// Everything about storage: what is among the objects, and the claims that are missing of
/// those that controllers make for pods which want a place; and who binds claims from here
/// on. What holds claims of such pods back, and what had to be assumed, is told in
/// `warnings`.
pub(crate) fn prepare(
    objects: &[Object],
    nodes: &[Node],
    pods: &[Pod],
    deleted: &[Pod],
    warnings: &mut Vec<String>,
) -> (Vec<Event>, PersistentVolumeBinder) {
    let stored = stored(objects, pods);
    let mut binder = PersistentVolumeBinder::new(nodes, &stored);
    let outcome = binder.bind_claims();
    let pods_before = pods.iter().chain(deleted);
    bind_claims_in_use(pods_before, &outcome.unbound, &mut binder, warnings);
    warnings.extend(Doubts::of(pods, &outcome.unbound, &binder).warnings());
    warnings.extend(made_anywhere(
        &outcome.made_anywhere,
        pods,
        &outcome.unbound,
        &binder,
    ));
    let events = stored.into_iter().chain(binder.take_changes());
    let events = events.filter_map(Event::of_storage).collect();
    (events, binder)
}

/// What is stored about storage before the controller binds anything.
fn stored(objects: &[Object], pods: &[Pod]) -> Vec<Object> {
    let classes = objects.iter().filter_map(Object::get::<StorageClass>);
    let default_class = default_class(classes).map(|class| &*class.metadata.name);
    let mut known: HashSet<(&str, String)> = HashSet::new();
    let mut stored: Vec<Object> = Vec::new();
    let mut sets: StatefulSets<'_> = HashMap::new();
    for object in objects {
        match object {
            Object::PersistentVolumeClaim(claim) => {
                known.insert((&claim.metadata.namespace, claim.metadata.name.clone()));
                stored.push(object.clone());
            }
            Object::StatefulSet(set) => {
                sets.insert((&set.metadata.namespace, &set.metadata.name), set);
            }
            object if object.kind().is_storage() => stored.push(object.clone()),
            _ => {}
        }
    }
    for pod in pods.iter().filter(|pod| pod.spec.node_name.is_empty()) {
        for claim in claims_of(pod, &sets) {
            if known.insert((&pod.metadata.namespace, claim.metadata.name.clone())) {
                stored.push(Object::PersistentVolumeClaim(Box::new(claim)));
            }
        }
    }
    for object in &mut stored {
        match object {
            Object::PersistentVolumeClaim(claim) => give_class(claim, default_class),
            // Nobody has looked at it yet; the controller finds nothing wrong with it.
            Object::PersistentVolume(volume)
                if matches!(volume.status.phase.as_str(), "" | "Pending") =>
            {
                volume.status.phase = "Available".to_owned();
            }
            _ => {}
        }
    }
    stored
}

/// Whether a pod is there to be scheduled.
fn wants_place(pod: &Pod) -> bool {
    let is_going = pod.is_finished() || pod.metadata.deletion_timestamp.is_some();
    pod.spec.node_name.is_empty() && !is_going
}

/// The name of the claim that a volume of a pod is.
pub(crate) fn claim_of(pod: &Pod, volume: &Volume) -> Option<ClaimName> {
    let name = match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(claim), _) => claim.claim_name.clone(),
        (None, Some(_)) => format!("{}-{}", pod.metadata.name, volume.name),
        (None, None) => return None,
    };
    Some((pod.metadata.namespace.clone(), name))
}

/// A pod runs only with its volumes: claims that wait for their first pod and whose pod
/// runs, or ran until it was deleted, are bound, whatever the input says.
fn bind_claims_in_use<'p>(
    pods: impl Iterator<Item = &'p Pod>,
    unbound: &BTreeMap<ClaimName, Unbound>,
    binder: &mut PersistentVolumeBinder,
    warnings: &mut Vec<String>,
) {
    let mut bound = Claims::default();
    let is_running = |pod: &&Pod| pod.status.phase == "Running" && !pod.spec.node_name.is_empty();
    for pod in pods.filter(is_running) {
        for volume in &pod.spec.volumes {
            let Some(claim) = claim_of(pod, volume) else {
                continue;
            };
            let waits = unbound.get(&claim) == Some(&Unbound::WaitsForPod);
            let is_free = |it: &PersistentVolumeClaim| it.spec.volume_name.is_empty();
            if waits
                && binder.claim(&claim).is_some_and(is_free)
                && binder.bind_on(&claim, &pod.spec.node_name)
            {
                bound.add(&claim);
            }
        }
    }
    if bound.count > 0 {
        warnings.push(format!(
            "{bound}: not bound in the input, but a pod runs with it; taken as bound where the \
             pod is"
        ));
    }
}

/// Claims, for people: the first and how many more.
#[derive(Clone, Debug, Default)]
struct Claims {
    first: ClaimName,
    count: usize,
}

impl Claims {
    fn add(&mut self, claim: &ClaimName) {
        if self.count == 0 {
            self.first.clone_from(claim);
        }
        self.count += 1;
    }
}

impl std::fmt::Display for Claims {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (namespace, name) = &self.first;
        write!(f, "PersistentVolumeClaim {namespace}/{name}")?;
        match self.count {
            0 | 1 => Ok(()),
            count => write!(f, " and {} more", count - 1),
        }
    }
}

/// Why claims of pods that want a place hold these pods back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Doubt {
    NotInInput,
    VolumeNotInInput,
    VolumeUnfit,
    NoClass,
    ClassNotInInput(String),
    NoProvisioner(String),
    Selects,
}

impl Doubt {
    fn message(&self) -> String {
        match self {
            Doubt::NotInInput => "not in the input, so its pods wait; a dump should have \
                                  persistentvolumeclaims, persistentvolumes and storageclasses"
                .to_owned(),
            Doubt::VolumeNotInInput => {
                "its PersistentVolume is not in the input, so its pods wait".to_owned()
            }
            Doubt::VolumeUnfit => "the PersistentVolume that it names is another claim's or does \
                                   not do (size, class, mode), so its pods wait"
                .to_owned(),
            Doubt::NoClass => "no PersistentVolume will do, and there is no StorageClass to have \
                               one made, neither named nor default, so its pods wait"
                .to_owned(),
            Doubt::ClassNotInInput(class) => format!(
                "no PersistentVolume will do, and its StorageClass {class:?} is not in the input, \
                 so its pods wait"
            ),
            Doubt::Selects => "no PersistentVolume will do, and none is made for a claim with a \
                               selector, so its pods wait"
                .to_owned(),
            Doubt::NoProvisioner(class) => format!(
                "no PersistentVolume will do, and its StorageClass {class:?} makes none, so its \
                 pods wait"
            ),
        }
    }
}

#[derive(Default)]
struct Doubts(BTreeMap<Doubt, Claims>);

impl Doubts {
    fn of(
        pods: &[Pod],
        unbound: &BTreeMap<ClaimName, Unbound>,
        binder: &PersistentVolumeBinder,
    ) -> Self {
        let mut doubts: BTreeMap<ClaimName, Doubt> = BTreeMap::new();
        for pod in pods.iter().filter(|pod| wants_place(pod)) {
            for name in pod.spec.volumes.iter().filter_map(|it| claim_of(pod, it)) {
                let doubt = Self::about(&name, unbound, binder);
                doubts.extend(doubt.map(|doubt| (name, doubt)));
            }
        }
        let mut grouped = Self::default();
        for (name, doubt) in doubts {
            grouped.0.entry(doubt).or_default().add(&name);
        }
        grouped
    }

    fn about(
        name: &ClaimName,
        unbound: &BTreeMap<ClaimName, Unbound>,
        binder: &PersistentVolumeBinder,
    ) -> Option<Doubt> {
        let Some(claim) = binder.claim(name) else {
            return Some(Doubt::NotInInput);
        };
        if claim.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let class = || class_name(claim).to_owned();
        match unbound.get(name) {
            None => {
                let volume = binder.volume(&claim.spec.volume_name);
                volume.is_none().then_some(Doubt::VolumeNotInInput)
            }
            Some(Unbound::WaitsForPod) => None,
            Some(Unbound::VolumeMissing) => Some(Doubt::VolumeNotInInput),
            Some(Unbound::VolumeUnfit) => Some(Doubt::VolumeUnfit),
            Some(Unbound::NoClass) => Some(Doubt::NoClass),
            Some(Unbound::ClassMissing) => Some(Doubt::ClassNotInInput(class())),
            Some(Unbound::NoProvisioner) => Some(Doubt::NoProvisioner(class())),
            Some(Unbound::Selects) => Some(Doubt::Selects),
        }
    }

    fn warnings(&self) -> impl Iterator<Item = String> {
        let doubts = self.0.iter();
        doubts.map(|(doubt, claims)| format!("{claims}: {}", doubt.message()))
    }
}

/// What to say of volumes of which it is not known where they can be reached: by class.
/// Those made before any pod has a place may be anywhere; of the others it matters if
/// several pods want them.
fn made_anywhere(
    claims: &[ClaimName],
    pods: &[Pod],
    unbound: &BTreeMap<ClaimName, Unbound>,
    binder: &PersistentVolumeBinder,
) -> Vec<String> {
    let mut users: BTreeMap<ClaimName, usize> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| wants_place(pod)) {
        for name in pod.spec.volumes.iter().filter_map(|it| claim_of(pod, it)) {
            *users.entry(name).or_default() += 1;
        }
    }
    let is_shared =
        |name: &&ClaimName| unbound.get(*name) == Some(&Unbound::WaitsForPod) && users[*name] > 1;
    let shared = users.keys().filter(is_shared).map(|name| (name, false));
    let at_once = claims.iter().map(|name| (name, true));
    let mut by_class: BTreeMap<(&str, &str), Claims> = BTreeMap::new();
    for (name, is_at_once) in at_once.chain(shared) {
        let Some(claim) = binder.claim(name) else {
            continue;
        };
        let Some(class) = binder.class(class_name(claim)) else {
            continue;
        };
        let what = match (binder.is_topological(class), is_at_once) {
            (Some(true), true) => "makes volumes at once, wherever the driver likes",
            (None, _) => "does not say where its volumes can be reached, nor does a CSINode",
            _ => continue,
        };
        by_class
            .entry((&class.metadata.name, what))
            .or_default()
            .add(name);
    }
    let told = by_class.into_iter().map(|((class, what), claims)| {
        format!(
            "{claims}: StorageClass {class:?} {what}; taken as reachable from every node that \
             the class allows"
        )
    });
    told.collect()
}

/// The claims that controllers make for a pod: those of its StatefulSet, and those of its
/// ephemeral volumes.
fn claims_of(pod: &Pod, sets: &StatefulSets<'_>) -> Vec<PersistentVolumeClaim> {
    if pod.spec.volumes.is_empty() {
        return Vec::new();
    }
    let set = pod
        .metadata
        .controller()
        .filter(|owner| owner.kind == "StatefulSet");
    let set = set.and_then(|owner| sets.get(&(&*pod.metadata.namespace, &*owner.name)));
    let templates = set.iter().flat_map(|set| &set.spec.volume_claim_templates);
    let mut claims: Vec<PersistentVolumeClaim> = templates
        .map(|template| {
            let name = format!("{}-{}", template.metadata.name, pod.metadata.name);
            new_claim(template, name, &pod.metadata.namespace)
        })
        .collect();
    for volume in &pod.spec.volumes {
        let ephemeral = volume.ephemeral.as_ref();
        let Some(template) = ephemeral.and_then(|it| it.volume_claim_template.as_ref()) else {
            continue;
        };
        let name = format!("{}-{}", pod.metadata.name, volume.name);
        let mut claim = new_claim(template, name, &pod.metadata.namespace);
        claim.metadata.owner_references = vec![OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: pod.metadata.name.clone(),
            uid: pod.metadata.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }];
        claims.push(claim);
    }
    claims
}

fn new_claim(
    template: &VolumeClaimTemplate,
    name: String,
    namespace: &str,
) -> PersistentVolumeClaim {
    let mut claim = PersistentVolumeClaim {
        metadata: template.metadata.clone(),
        spec: template.spec.clone(),
        ..PersistentVolumeClaim::default()
    };
    claim.metadata.name = name;
    claim.metadata.namespace = namespace.to_owned();
    default_persistent_volume_claim(&mut claim);
    claim
}

fn give_class(claim: &mut PersistentVolumeClaim, default_class: Option<&str>) {
    // Admission looks at no more than the class; the controller, which comes to claims that
    // are there already, leaves alone those that name their volume.
    let is_stored = claim.metadata.creation_timestamp.is_some();
    if claim.class_name().is_none() && (!is_stored || claim.spec.volume_name.is_empty()) {
        claim.spec.storage_class_name = default_class.map(ToOwned::to_owned);
    }
}

#[cfg(test)]
mod tests {
    use crate::run::run;
    use crate::scenario::scenario_of;

    const CLUSTER: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: a, labels: {zone: one}}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: standard
  annotations: {storageclass.kubernetes.io/is-default-class: "true"}
provisioner: csi.example.com
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: nginx}]
      volumes:
      - name: scratch
        ephemeral:
          volumeClaimTemplate:
            spec:
              accessModes: [ReadWriteOnce]
              resources: {requests: {storage: 1Gi}}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec:
      accessModes: [ReadWriteOnce]
      resources: {requests: {storage: 1Gi}}
"#;

    fn pending(manifest: &str) -> Vec<String> {
        let scenario = scenario_of(manifest);
        let report = run(&scenario, &Default::default(), &mut |_, _| {});
        let pending = report.expect("a report").pending.into_iter();
        pending
            .map(|pod| format!("{}: {}", pod.name, pod.filter_message))
            .collect()
    }

    #[test]
    fn controllers_make_the_claims_of_pods_in_the_default_class() {
        assert_eq!(pending(CLUSTER), Vec::<String>::new());
        let without_class = CLUSTER.replace("is-default-class: \"true\"", "is-default-class: \"\"");
        let message = "0/1 nodes are available: pod has unbound immediate \
                       PersistentVolumeClaims.";
        let told = [format!("web-0: {message}"), format!("web-1: {message}")];
        assert_eq!(pending(&without_class), told);
    }

    fn pod(name: &str, claim: &str, more: &str) -> String {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  containers: \
             [{{name: c, image: i, resources: {{requests: {{cpu: 3}}}}}}]\n  volumes:\n  - name: \
             v\n    persistentVolumeClaim: {{claimName: {claim}}}\n{more}"
        )
    }

    fn claim(name: &str, more: &str) -> String {
        format!(
            "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: {name}}}\nspec:\n  \
             accessModes: [ReadWriteMany]\n  resources: {{requests: {{storage: 1Gi}}}}\n{more}"
        )
    }

    #[test]
    fn claims_that_hold_pods_back_are_told() {
        assert_eq!(scenario_of(CLUSTER).warnings, Vec::<String>::new());
        let cluster = [
            CLUSTER,
            &pod("p", "lost", ""),
            &pod("q", "lost-too", ""),
            &pod("r", "unclassed", ""),
            &claim("unclassed", "  storageClassName: \"\"\n"),
            &pod("s", "elsewhere", ""),
            &claim("elsewhere", "  storageClassName: other\n"),
            &pod("t", "half", ""),
            &claim("half", "  volumeName: gone\n"),
        ];
        let told = scenario_of(&cluster.concat()).warnings;
        let starts = [
            "PersistentVolumeClaim default/lost and 1 more: not in the input",
            "PersistentVolumeClaim default/half: its PersistentVolume is not in the input",
            "PersistentVolumeClaim default/unclassed: no PersistentVolume will do, and there is",
            "PersistentVolumeClaim default/elsewhere: no PersistentVolume will do, and its \
             StorageClass \"other\" is not in the input",
        ];
        assert_eq!(told.len(), starts.len(), "{told:?}");
        for (told, start) in told.iter().zip(starts) {
            assert!(told.starts_with(start), "{told}");
        }
    }

    #[test]
    fn volumes_that_do_not_wait_for_pods_are_made_first() {
        let at_once = CLUSTER.replace("WaitForFirstConsumer", "Immediate");
        assert_eq!(pending(&at_once), Vec::<String>::new());
        // It is known where they can be reached: everywhere.
        let told = |drivers: &str| scenario_of(&(at_once.clone() + drivers)).warnings;
        assert_eq!(told(&driver("")), Vec::<String>::new());
        let start =
            "PersistentVolumeClaim default/data-web-0 and 3 more: StorageClass \"standard\"";
        let zones = told(&driver("zone"));
        assert_eq!(zones.len(), 1, "{zones:?}");
        assert!(zones[0].starts_with(&format!("{start} makes volumes at once")));
        let unknown = told("");
        assert_eq!(unknown.len(), 1, "{unknown:?}");
        assert!(unknown[0].starts_with(&format!("{start} does not say where")));
    }

    #[test]
    fn a_claim_and_a_volume_that_name_each_other_are_bound() {
        let volume = "---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {name: v}\nspec:\n  \
                      capacity: {storage: 2Gi}\n  accessModes: [ReadWriteMany]\n  nfs: {server: \
                      s, path: /p}\n";
        let claim = claim("c", "  storageClassName: \"\"\n  volumeName: v\n");
        let manifest = [CLUSTER, volume, &claim, &pod("p", "c", "")].concat();
        assert_eq!(pending(&manifest), Vec::<String>::new());
        assert_eq!(scenario_of(&manifest).warnings, Vec::<String>::new());
    }

    const SECOND_NODE: &str = "---\napiVersion: v1\nkind: Node\nmetadata: {name: b, labels: \
                               {zone: two}}\nstatus: {allocatable: {cpu: \"4\", memory: 8Gi, pods: \
                               \"10\"}}\n";

    /// A driver that tells nodes apart by this label.
    fn driver(topology_keys: &str) -> String {
        let node = |name: &str| {
            format!(
                "---\napiVersion: storage.k8s.io/v1\nkind: CSINode\nmetadata: {{name: {name}}}\n\
                 spec: {{drivers: [{{name: csi.example.com, nodeID: {name}, topologyKeys: \
                 [{topology_keys}]}}]}}\n"
            )
        };
        node("a") + &node("b")
    }

    #[test]
    fn pods_that_share_a_claim_go_wherever_its_volume_can_be_reached() {
        let pods = pod("p", "c", "") + &pod("q", "c", "");
        let shared = [CLUSTER, SECOND_NODE, &claim("c", ""), &pods].concat();
        assert_eq!(pending(&shared), Vec::<String>::new());
        let zonal = shared.clone() + &driver("zone");
        let waits = "q: 0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match \
                     PersistentVolume's node affinity.";
        assert_eq!(pending(&zonal), [waits]);
        assert_eq!(pending(&(shared + &driver(""))), Vec::<String>::new());
    }

    #[test]
    fn a_claim_of_a_pod_that_runs_is_where_the_pod_is() {
        let running = pod("p", "c", "  nodeName: b\nstatus: {phase: Running}\n");
        let waiting = pod("q", "c", "");
        let pods = [&*running, &waiting].concat();
        let cluster = [
            CLUSTER,
            SECOND_NODE,
            &driver("zone"),
            &claim("c", ""),
            &pods,
        ]
        .concat();
        let told = scenario_of(&cluster).warnings;
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("PersistentVolumeClaim default/c: not bound in the input"));
        let waits = "q: 0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match \
                     PersistentVolume's node affinity.";
        assert_eq!(pending(&cluster), [waits]);
    }

    #[test]
    fn a_volume_nobody_looked_at_is_available() {
        let local = CLUSTER.replace("csi.example.com", "kubernetes.io/no-provisioner");
        assert_eq!(pending(&local).len(), 2);
        let volume = |name: &str| {
            format!(
                "---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: {name}}}\nspec:\n  \
                 capacity: {{storage: 2Gi}}\n  accessModes: [ReadWriteOnce]\n  \
                 storageClassName: standard\n  hostPath: {{path: /disk}}\n"
            )
        };
        let with_volumes = format!("{local}{}{}", volume("v1"), volume("v2"));
        assert_eq!(pending(&with_volumes).len(), 1);
    }
}
