//! Changes to a cluster before it is rehearsed, and how a command line writes them.

use std::fmt;
use std::str::FromStr;

use outrank_api::decode::{LoadedObject, ObjectKind};
use outrank_api::defaults;
use outrank_api::schema::nearest;
use outrank_api::taints::TaintSpecs;

/// What is changed in a cluster, as kubectl would change it. Changes are made in the order
/// of the fields, those of one field in their own order.
///
/// ```
/// use outrank_rehearse::scenario::Changes;
///
/// let changes = Changes {
///     delete: vec!["shop/deployment/web".parse()?],
///     scale: vec!["sts/db=5".parse()?],
///     taint: vec!["node-1=gpu=a100:NoSchedule".parse()?],
///     drain: vec!["node-2".to_owned()],
///     ..Changes::default()
/// };
/// assert!(!changes.is_empty() && Changes::default().is_empty());
/// assert_eq!(changes.delete[0].to_string(), "Deployment shop/web");
/// assert_eq!(changes.scale[0].object.to_string(), "StatefulSet default/db");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Objects that are put on top, as `kubectl apply` does ([`outrank_api::apply`]). They
    /// must have been read with [`keep_raw`](outrank_api::decode::LoadOptions), and so
    /// should the objects that they change.
    pub apply: Vec<LoadedObject>,
    /// Objects that are deleted with all that belongs to them, as `kubectl delete` does. A
    /// namespace takes all along that is in it, a node its pods.
    pub delete: Vec<ObjectName>,
    /// Workloads that get another number of replicas, as `kubectl scale` does.
    pub scale: Vec<Scale>,
    /// Nodes that take no new pods, as after `kubectl cordon`.
    pub cordon: Vec<String>,
    /// Nodes that get or lose a taint, as `kubectl taint` does. A new `NoExecute` taint
    /// evicts the pods that do not tolerate it for ever: this is the end of time, when
    /// `tolerationSeconds` are over.
    pub taint: Vec<NodeTaint>,
    /// Nodes that are cordoned and lose their pods, as after `kubectl drain
    /// --ignore-daemonsets --delete-emptydir-data --force`. Nobody waits for
    /// PodDisruptionBudgets; a warning names those that allow less.
    pub drain: Vec<String>,
}

impl Changes {
    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.apply.is_empty() && !self.has_commands()
    }

    /// Whether anything is changed otherwise than by applied objects.
    pub(super) fn has_commands(&self) -> bool {
        let Self {
            apply: _,
            delete,
            scale,
            cordon,
            taint,
            drain,
        } = self;
        !delete.is_empty()
            || !scale.is_empty()
            || !cordon.is_empty()
            || !taint.is_empty()
            || !drain.is_empty()
    }
}

/// Applied objects alone.
impl From<Vec<LoadedObject>> for Changes {
    fn from(apply: Vec<LoadedObject>) -> Self {
        Self {
            apply,
            ..Self::default()
        }
    }
}

/// How [`ObjectName`] is written.
const OBJECT_FORM: &str = "KIND/NAME, such as deployment/web, or NAMESPACE/KIND/NAME";

/// An object by kind and name.
///
/// Written as kubectl writes it, `KIND/NAME`. The namespace is `default`; another one comes
/// first: `NAMESPACE/KIND/NAME`. Kinds are called as on kubectl's command line
/// ([`ObjectKind::of_resource`]).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectName {
    /// Kind.
    pub kind: ObjectKind,
    /// Namespace; empty if objects of the kind live in none.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl ObjectName {
    /// A node.
    pub(super) fn node(name: &str) -> Self {
        Self {
            kind: ObjectKind::Node,
            namespace: String::new(),
            name: name.to_owned(),
        }
    }

    /// As it is written on the command line.
    pub(super) fn written(&self) -> String {
        let Self {
            kind,
            namespace,
            name,
        } = self;
        let kind = kind.name().to_ascii_lowercase();
        match namespace.as_str() {
            "" | defaults::NAMESPACE => format!("{kind}/{name}"),
            namespace => format!("{namespace}/{kind}/{name}"),
        }
    }
}

/// Kind, namespace and name for people.
impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            namespace,
            name,
        } = self;
        let slash = if namespace.is_empty() { "" } else { "/" };
        write!(f, "{} {namespace}{slash}{name}", kind.name())
    }
}

impl FromStr for ObjectName {
    type Err = String;

    /// # Errors
    ///
    /// What is wrong, and what would be right.
    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('/').collect();
        let (namespace, kind, name) = match parts.as_slice() {
            [kind, name] => (None, *kind, *name),
            [namespace, kind, name] => (Some(*namespace), *kind, *name),
            _ => return Err(format!("write {OBJECT_FORM}")),
        };
        if parts.iter().any(|part| part.is_empty()) {
            return Err(format!("a part is empty; write {OBJECT_FORM}"));
        }
        let Some(found) = ObjectKind::of_resource(kind) else {
            if namespace.is_some_and(|it| ObjectKind::of_resource(it).is_some()) {
                let (kind, namespace) = (namespace.unwrap_or_default(), kind);
                return Err(format!(
                    "the namespace comes first: write {namespace}/{kind}/{name}"
                ));
            }
            return Err(unknown_kind(kind));
        };
        let namespace = match (found.is_namespaced(), namespace) {
            (true, namespace) => namespace.unwrap_or(defaults::NAMESPACE),
            (false, None) => "",
            (false, Some(_)) => {
                return Err(format!(
                    "objects of kind {} are in no namespace; write {kind}/{name}",
                    found.name()
                ));
            }
        };
        Ok(Self {
            kind: found,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }
}

/// What to say of a kind that there is not, or that no decision reads.
fn unknown_kind(kind: &str) -> String {
    let names = || {
        let names = ObjectKind::ALL.iter().map(|kind| kind.name());
        names.map(|name| name.to_ascii_lowercase())
    };
    let singular: Vec<String> = names().collect();
    // A known kind may be given with the wrong group.
    let alone = kind.split_once('.').map_or(kind, |(alone, _)| alone);
    let near = nearest(alone, singular.iter().map(String::as_str));
    match near {
        Some(near) => format!("there is no kind {kind:?} here; did you mean {near}?"),
        None => format!(
            "there is no kind {kind:?} among those that decisions read: {}",
            singular.join(", ")
        ),
    }
}

/// Another number of replicas for a workload, written `OBJECT=N`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// A workload of a kind that can be scaled.
    pub object: ObjectName,
    /// How many pods it is to have; of a Job, how many at once.
    pub replicas: i32,
}

/// Kinds that can be scaled.
const SCALABLE: [ObjectKind; 5] = [
    ObjectKind::Deployment,
    ObjectKind::ReplicaSet,
    ObjectKind::StatefulSet,
    ObjectKind::ReplicationController,
    ObjectKind::Job,
];

impl FromStr for Scale {
    type Err = String;

    /// # Errors
    ///
    /// What is wrong, and what would be right.
    fn from_str(text: &str) -> Result<Self, String> {
        let Some((object, number)) = text.rsplit_once('=') else {
            return Err("there is no number; write KIND/NAME=N, such as deployment/web=3".into());
        };
        let object: ObjectName = object.parse()?;
        if !SCALABLE.contains(&object.kind) {
            let scalable = SCALABLE.map(ObjectKind::name).join(", ");
            return Err(format!(
                "objects of kind {} cannot be scaled, only those of {scalable}",
                object.kind.name()
            ));
        }
        let replicas = number.parse().ok().filter(|number| *number >= 0);
        let replicas = replicas.ok_or_else(|| {
            format!(
                "{number:?} is not a number of replicas: write a whole number from 0 to {}",
                i32::MAX
            )
        })?;
        Ok(Self { object, replicas })
    }
}

/// A taint that a node gets or loses, written as for `kubectl taint nodes`, with `=` after
/// the node: `NODE=KEY[=VALUE]:EFFECT` adds a taint, `NODE=KEY[:EFFECT]-` removes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTaint {
    /// The node.
    pub node: String,
    /// What is added or removed.
    pub taints: TaintSpecs,
}

impl FromStr for NodeTaint {
    type Err = String;

    /// # Errors
    ///
    /// What is wrong, in upstream's words, and what would be right.
    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "write NODE=KEY[=VALUE]:EFFECT with the effect NoSchedule, \
                            PreferNoSchedule or NoExecute, or NODE=KEY[:EFFECT]- to remove it";
        let (node, taint) = text
            .split_once('=')
            .filter(|(node, taint)| !node.is_empty() && !taint.is_empty())
            .ok_or(FORM)?;
        let taints = TaintSpecs::parse(&[taint]).map_err(|error| format!("{error}; {FORM}"))?;
        Ok(Self {
            node: node.to_owned(),
            taints,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Result<String, String> {
        text.parse::<ObjectName>().map(|it| it.to_string())
    }

    #[test]
    fn objects_are_called_as_kubectl_calls_them() {
        for (text, expected) in [
            ("deployment/web", "Deployment default/web"),
            ("deployments.apps/web", "Deployment default/web"),
            ("Deploy/web", "Deployment default/web"),
            ("shop/deployment/web", "Deployment shop/web"),
            ("no/a", "Node a"),
            ("ns/shop", "Namespace shop"),
            ("job/j", "Job default/j"),
            ("PVC/c", "PersistentVolumeClaim default/c"),
            ("csinodes/a", "CSINode a"),
        ] {
            assert_eq!(name(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn wrong_names_are_told_with_what_is_right() {
        for (text, expected) in [
            ("web", "write KIND/NAME"),
            ("a/b/c/d", "write KIND/NAME"),
            ("deployment/", "a part is empty"),
            ("deploymnt/web", "did you mean deployment?"),
            ("deployment.batch/web", "did you mean deployment?"),
            ("configmap/c", "among those that decisions read: pod, node"),
            ("deployment/shop/web", "write shop/deployment/web"),
            ("shop/node/a", "are in no namespace; write node/a"),
        ] {
            let error = name(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn written_names_are_read_back() {
        for text in ["deployment/web", "shop/job/j", "node/a"] {
            assert_eq!(
                text.parse::<ObjectName>().map(|it| it.written()),
                Ok(text.to_owned())
            );
        }
    }

    #[test]
    fn only_workloads_with_replicas_are_scaled() {
        let scale = "shop/rs/web=0".parse::<Scale>().expect("a scale");
        assert_eq!(
            (scale.object.to_string().as_str(), scale.replicas),
            ("ReplicaSet shop/web", 0)
        );
        for (text, expected) in [
            ("deploy/web", "there is no number"),
            ("deploy/web=", "not a number of replicas"),
            ("deploy/web=-1", "not a number of replicas"),
            ("deploy/web=2147483648", "from 0 to 2147483647"),
            (
                "ds/agent=2",
                "kind DaemonSet cannot be scaled, only those of Deployment,",
            ),
        ] {
            let error = text.parse::<Scale>().expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn taints_are_written_as_for_kubectl() {
        let taint = |text: &str| text.parse::<NodeTaint>();
        let added = taint("a=gpu=a100:NoExecute").expect("a taint");
        let only = &added.taints.add[0];
        assert_eq!((added.node.as_str(), only.value.as_str()), ("a", "a100"));
        assert_eq!(
            taint("a=gpu:NoSchedule").expect("a taint").taints.add[0].key,
            "gpu"
        );
        assert_eq!(
            taint("a=gpu-").expect("a taint").taints.remove[0].key,
            "gpu"
        );
        for text in [
            "a",
            "a=",
            "=k:NoSchedule",
            "a=k",
            "a=k:Never",
            "a=k=v=w:NoSchedule",
        ] {
            let error = taint(text).expect_err(text);
            assert!(
                error.contains("write NODE=KEY[=VALUE]:EFFECT"),
                "{text}: {error}"
            );
        }
    }
}
