//! What stands for a text: something of the same form that tells nothing.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use outrank_api::quantity::Quantity;
use outrank_api::time::unix_nanos;

/// The pseudonyms given so far.
#[derive(Default)]
pub(super) struct Pseudonyms {
    known: HashMap<String, String>,
    /// Of names that are made of others.
    composed: HashMap<String, String>,
    addresses: HashMap<IpAddr, IpAddr>,
}

/// Domains of keys that Kubernetes itself gives a meaning, of ours, and of makers of GPUs.
const KNOWN_DOMAINS: [&str; 6] = [
    "kubernetes.io",
    "k8s.io",
    "x-k8s.io",
    "outrank.dev",
    "nvidia.com",
    "amd.com",
];

/// Domains of these in which people make keys of their own.
const OPEN_DOMAINS: [&str; 3] = [
    "node-role.kubernetes.io",
    "node-restriction.kubernetes.io",
    "feature.node.kubernetes.io",
];

/// Keys without a domain that controllers give a meaning, and a field that is selected as one.
const KNOWN_KEYS: [&str; 6] = [
    "controller-revision-hash",
    "controller-uid",
    "job-name",
    "metadata.name",
    "pod-template-generation",
    "pod-template-hash",
];

/// Names that are there in every cluster, words in fields of text, and CSI drivers that stand for
/// types of volumes.
const KNOWN_TEXTS: [&str; 46] = [
    "",
    "/",
    "/dev/termination-log",
    "/var/run/secrets/kubernetes.io/serviceaccount",
    "None",
    "Opaque",
    "amd64",
    "api",
    "arm64",
    "baseline",
    "cinder.csi.openstack.org",
    "cluster-autoscaler",
    "control-plane",
    "cpu",
    "csi.vsphere.vmware.com",
    "default",
    "default-scheduler",
    "disk.csi.azure.com",
    "ebs.csi.aws.com",
    "ephemeral-storage",
    "false",
    "file",
    "file.csi.azure.com",
    "foregroundDeletion",
    "kube-node-lease",
    "kube-public",
    "kube-root-ca.crt",
    "kube-system",
    "kubernetes",
    "linux",
    "master",
    "memory",
    "no",
    "orphan",
    "pd.csi.storage.gke.io",
    "ppc64le",
    "privileged",
    "pxd.portworx.com",
    "restricted",
    "s390x",
    "storage",
    "system-cluster-critical",
    "system-node-critical",
    "true",
    "windows",
    "yes",
];

impl Pseudonyms {
    /// What stands for any text.
    pub(super) fn text(&mut self, text: &str) -> String {
        if is_harmless(text) {
            return text.to_owned();
        }
        if let Some(composed) = self.composed.get(text) {
            return composed.clone();
        }
        if let Ok(address) = text.parse() {
            return self.address(address).to_string();
        }
        if let Some(network) = self.network(text) {
            return network;
        }
        if let Some((scheme @ ("http" | "https"), rest)) = text.split_once("://") {
            return format!("{scheme}://{}/", self.pseudonym(rest));
        }
        if let Some(path) = text.strip_prefix('/') {
            return format!("/{}", self.pseudonym(path));
        }
        if let Some(domain) = text.strip_prefix("*.") {
            return format!("*.{}", self.text(domain));
        }
        // The beginning of names that are generated.
        if let Some(stem) = text.strip_suffix('-') {
            return format!("{}-", self.text(stem));
        }
        if text.starts_with("iqn.") {
            return format!("iqn.2001-04.com.example:{}", self.pseudonym(text));
        }
        if let Some((host, port)) = text.rsplit_once(':')
            && !port.is_empty()
            && port.bytes().all(|it| it.is_ascii_digit())
        {
            return format!("{}:{port}", self.text(host));
        }
        match text.contains('/') {
            true => self.key(text),
            false => self.pseudonym(text),
        }
    }

    /// Has a name stand for what its parts stand for, with `-` between them.
    pub(super) fn compose(&mut self, name: &str, parts: &[String]) {
        let parts = parts.iter().map(|it| self.text(it));
        let composed = parts.collect::<Vec<_>>().join("-");
        self.composed.insert(name.to_owned(), composed);
    }

    /// What stands for a key of a label, taint or annotation.
    pub(super) fn key(&mut self, key: &str) -> String {
        if is_known_key(key) {
            return key.to_owned();
        }
        let domain = match key.split_once('/') {
            Some((domain, _)) if OPEN_DOMAINS.contains(&domain) => domain,
            _ => "example.com",
        };
        format!("{domain}/{}", self.pseudonym(key))
    }

    /// What stands for an image. One without a tag is the one that is tagged `latest`.
    pub(super) fn image(&mut self, image: &str) -> String {
        let has_tag = image.contains('@') || image.rfind(':') > image.rfind('/');
        let image = match has_tag {
            true => image.to_owned(),
            false => format!("{image}:latest"),
        };
        format!("registry.example/{}:1", self.pseudonym(&image))
    }

    /// What stands for a field of a pod: labels and annotations have other keys.
    pub(super) fn field_path(&mut self, path: &str) -> String {
        let key = path.strip_suffix("']").and_then(|it| it.split_once("['"));
        match key {
            Some((field, key)) => format!("{field}['{}']", self.key(key)),
            None => path.to_owned(),
        }
    }

    /// What stands for a resource, also in quotas, where names of resources and classes are parts
    /// of longer ones.
    pub(super) fn resource(&mut self, name: &str) -> String {
        const OF_CLASS: [&str; 2] = [
            ".storageclass.storage.k8s.io/",
            ".deviceclass.resource.k8s.io/",
        ];
        const ATTACHABLE: &str = "attachable-volumes-csi-";
        let prefixes = ["requests.", "limits."];
        if let Some(prefix) = prefixes.into_iter().find(|it| name.starts_with(*it)) {
            return format!("{prefix}{}", self.resource(&name[prefix.len()..]));
        }
        for suffix in OF_CLASS {
            if let Some((class, what)) = name.split_once(suffix) {
                return format!("{}{suffix}{what}", self.text(class));
            }
        }
        if let Some(driver) = name.strip_prefix(ATTACHABLE) {
            return format!("{ATTACHABLE}{}", self.text(driver));
        }
        if let Some(counted) = name.strip_prefix("count/") {
            return match counted.split_once('.') {
                Some((plural, group)) if !is_known_group(group) => {
                    format!("count/{}.{}", self.text(plural), self.text(group))
                }
                _ => name.to_owned(),
            };
        }
        let Some((_, device)) = name.split_once('/') else {
            return name.to_owned();
        };
        // What is counted as a GPU still is.
        let is_gpu = device == "gpu" || device.starts_with("gpu.") || device.starts_with("mig-");
        match is_known_key(name) {
            true => name.to_owned(),
            false if is_gpu => format!("example.com/gpu.{}", self.pseudonym(name)),
            false => format!("example.com/{}", self.pseudonym(name)),
        }
    }

    /// What stands for a group, with or without a version.
    pub(super) fn api_version(&mut self, text: &str) -> String {
        let (group, version) = match text.split_once('/') {
            Some((group, version)) => (group, Some(version)),
            None => (text, None),
        };
        let group = match is_known_group(group) {
            true => group.to_owned(),
            false => format!("{}.example.com", self.pseudonym(group)),
        };
        version.map_or(group.clone(), |version| format!("{group}/{version}"))
    }

    fn address(&mut self, address: IpAddr) -> IpAddr {
        if address.is_unspecified() || address.is_loopback() {
            return address;
        }
        let number = self.addresses.len() as u32 + 1;
        *self
            .addresses
            .entry(address)
            .or_insert_with(|| match address {
                IpAddr::V4(_) => Ipv4Addr::from_bits(10 << 24 | number & 0xff_ffff).into(),
                IpAddr::V6(_) => Ipv6Addr::from_bits(0xfd << 120 | u128::from(number)).into(),
            })
    }

    /// A network of the same size, if the text is one.
    fn network(&mut self, text: &str) -> Option<String> {
        let (address, length) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let length: u32 = length.parse().ok()?;
        if address.is_unspecified() {
            return Some(text.to_owned());
        }
        // Networks that differ still do: each is another one of this size in a private one.
        let (bits, private, own) = match self.address(address) {
            IpAddr::V4(other) => (32, 10 << 24, u128::from(other.to_bits() & 0xff_ffff)),
            IpAddr::V6(other) => (128, 0xfd << 120, other.to_bits() & 0xffff_ffff),
        };
        let rest: u32 = bits - (length <= bits).then_some(length)?;
        let mask = u128::MAX.checked_shl(rest).unwrap_or(0);
        let own = own.checked_shl(rest).unwrap_or(0) & ((1 << (bits - 8)) - 1);
        let network = (private | own) & mask;
        let network: IpAddr = match u32::try_from(network) {
            Ok(network) if bits == 32 => Ipv4Addr::from_bits(network).into(),
            _ => Ipv6Addr::from_bits(network).into(),
        };
        Some(format!("{network}/{length}"))
    }

    fn pseudonym(&mut self, text: &str) -> String {
        let number = self.known.len() + 1;
        let pseudonym = self.known.entry(text.to_owned());
        pseudonym
            .or_insert_with(|| format!("n-{number:06}"))
            .clone()
    }
}

/// Whether a key means something to Kubernetes itself, or to everyone.
pub(super) fn is_known_key(key: &str) -> bool {
    if KNOWN_KEYS.contains(&key) {
        return true;
    }
    let (domain, name) = key.split_once('/').unwrap_or_default();
    // Paths and the like begin so, too.
    if name.contains(['/', '^']) {
        return false;
    }
    let is_open = OPEN_DOMAINS.contains(&domain) && !KNOWN_TEXTS.contains(&name);
    !is_open && KNOWN_DOMAINS.iter().any(|it| is_of_domain(key, it))
}

/// Whether a key is of a domain or one below it.
pub(super) fn is_of_domain(key: &str, known: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    is_within(domain, known)
}

fn is_within(domain: &str, known: &str) -> bool {
    domain == known || domain.ends_with(&format!(".{known}"))
}

/// Whether an API group is one of Kubernetes: those without a dot are.
fn is_known_group(group: &str) -> bool {
    !group.contains('.') || KNOWN_DOMAINS.iter().any(|it| is_within(group, it))
}

/// Whether a text tells nothing: words, numbers (sizes and counts, as in `Gt`), parts of a whole,
/// times, and identifiers.
fn is_harmless(text: &str) -> bool {
    let amount = text.strip_suffix('%').unwrap_or(text);
    KNOWN_TEXTS.contains(&text)
        || amount.parse::<Quantity>().is_ok()
        || unix_nanos(text).is_some()
        || is_uid(text)
}

fn is_uid(text: &str) -> bool {
    const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
    let mut groups = text.split('-');
    let is_group = |length: usize, group: &str| {
        group.len() == length && group.bytes().all(|it| it.is_ascii_hexdigit())
    };
    let mut lengths = GROUPS.into_iter();
    lengths.all(|length| groups.next().is_some_and(|it| is_group(length, it)))
        && groups.next().is_none()
}
