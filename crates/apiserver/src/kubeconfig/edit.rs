//! Changing kubeconfig files.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use outrank_api::document;
use serde_json::{Map, Value, json};

use super::{Cluster, KubeconfigError};
use crate::private_file;

/// The lists of a kubeconfig.
const LISTS: [&str; 3] = ["clusters", "contexts", "users"];

/// Whether a context that is merged into a file becomes the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Current {
    /// It does.
    Set,
    /// It does only if there is no current one.
    Keep,
}

/// Writes a file with this cluster and nothing else, over an older one of the same cluster.
///
/// # Errors
///
/// The file cannot be written, or has something else in it. Then it is left as it is.
pub fn write(path: &Path, cluster: &Cluster) -> Result<(), KubeconfigError> {
    let _lock = Lock::take(path)?;
    if let Some(old) = read(path)? {
        let mut rest = old;
        take_out(&mut rest, &cluster.name);
        let mut lists = LISTS.iter().filter_map(|list| rest.get(*list)?.as_array());
        if !lists.all(Vec::is_empty) {
            let path = path.to_owned();
            return Err(KubeconfigError::HasOthers { path });
        }
    }
    let mut config = Map::new();
    put_in(&mut config, cluster);
    set_current(&mut config, &cluster.name);
    store(path, config)
}

/// Puts this cluster into a file that has others, or into a new one. An older one of the same
/// name is replaced; everything else stays. Returns the context that was the current one, if it was
/// another.
///
/// # Errors
///
/// The file cannot be read or written, or is not a kubeconfig. Then it is left as it is.
pub fn merge(
    path: &Path,
    cluster: &Cluster,
    current: Current,
) -> Result<Option<String>, KubeconfigError> {
    let _lock = Lock::take(path)?;
    let mut config = read(path)?.unwrap_or_default();
    put_in(&mut config, cluster);
    let before = current_context(&config).map(str::to_owned);
    if current == Current::Set || before.is_none() {
        set_current(&mut config, &cluster.name);
    }
    store(path, config)?;
    Ok(before.filter(|before| *before != cluster.name))
}

/// The server of the cluster of a name in a file, if the file has one.
///
/// # Errors
///
/// The file cannot be read, or is not a kubeconfig.
pub fn server_of(path: &Path, name: &str) -> Result<Option<String>, KubeconfigError> {
    let config = read(path)?.unwrap_or_default();
    let clusters = config.get("clusters").and_then(Value::as_array);
    let mut clusters = clusters.into_iter().flatten();
    let server = clusters.find(|it| it["name"] == *name);
    Ok(server.and_then(|it| it["cluster"]["server"].as_str().map(str::to_owned)))
}

/// Takes the cluster, context and user of a name out of a file; `false` if none is in it. If the
/// context was the current one, `back_to` is it afterwards, if the file has that, or else none.
///
/// # Errors
///
/// The file cannot be read or written, or is not a kubeconfig. Then it is left as it is.
pub fn remove(path: &Path, name: &str, back_to: Option<&str>) -> Result<bool, KubeconfigError> {
    let _lock = Lock::take(path)?;
    let Some(mut config) = read(path)? else {
        return Ok(false);
    };
    let was_current = current_context(&config) == Some(name);
    let is_changed = take_out(&mut config, name);
    if is_changed {
        let contexts = config.get("contexts").and_then(Value::as_array);
        let has = |context: &&str| {
            contexts.is_some_and(|all| all.iter().any(|it| it["name"] == **context))
        };
        if let Some(context) = back_to.filter(has).filter(|_| was_current) {
            set_current(&mut config, context);
        }
        store(path, config)?;
    }
    Ok(is_changed)
}

/// What is in a file, checked so far that its lists are lists; `None` if there is no file. A file
/// with nothing in it is an empty kubeconfig, as it is for kubectl.
pub(super) fn read(path: &Path) -> Result<Option<Map<String, Value>>, KubeconfigError> {
    let malformed = |what: String| KubeconfigError::Malformed {
        path: path.to_owned(),
        what,
    };
    let Some(bytes) = private_file::read(path).map_err(|error| io_error("read", path, error))?
    else {
        return Ok(None);
    };
    // The place is told, the text is not: it may be a secret.
    let documents = document::values(&bytes);
    let documents = documents.map_err(|error| {
        malformed(format!(
            "line {} is neither YAML nor JSON that can be read",
            error.line
        ))
    })?;
    let mut documents = documents.into_iter();
    let config = match (documents.next(), documents.next()) {
        (None, _) => Map::new(),
        (Some(Value::Object(config)), None) => config,
        (Some(_), None) => return Err(malformed("it is not a map".to_owned())),
        (Some(_), Some(_)) => return Err(malformed("it has several documents".to_owned())),
    };
    for list in LISTS {
        match config.get(list) {
            None | Some(Value::Null) => {}
            Some(Value::Array(elements)) if elements.iter().all(is_named) => {}
            Some(_) => {
                let what = format!("{list} is not a list of maps with a name each");
                return Err(malformed(what));
            }
        }
    }
    Ok(Some(config))
}

/// The name of the current context.
pub(super) fn current_context(config: &Map<String, Value>) -> Option<&str> {
    let name = config.get("current-context").and_then(Value::as_str);
    name.filter(|name| !name.is_empty())
}

pub(super) fn io_error(what: &'static str, path: &Path, error: io::Error) -> KubeconfigError {
    KubeconfigError::Io {
        what,
        path: path.to_owned(),
        error,
    }
}

fn is_named(element: &Value) -> bool {
    element.get("name").is_some_and(Value::is_string)
}

fn set_current(config: &mut Map<String, Value>, name: &str) {
    config.insert("current-context".to_owned(), name.into());
}

fn put_in(config: &mut Map<String, Value>, cluster: &Cluster) {
    for (field, value) in [("apiVersion", "v1"), ("kind", "Config")] {
        config.entry(field).or_insert_with(|| value.into());
    }
    for (list, field, value) in cluster.entries() {
        let elements = config.entry(list).or_insert_with(|| json!([]));
        if elements.is_null() {
            *elements = json!([]);
        }
        let Some(elements) = elements.as_array_mut() else {
            continue;
        };
        let entry = json!({"name": cluster.name, field: value});
        match elements.iter_mut().find(|it| it["name"] == *cluster.name) {
            Some(old) => *old = entry,
            None => elements.push(entry),
        }
    }
}

fn take_out(config: &mut Map<String, Value>, name: &str) -> bool {
    let mut is_changed = false;
    for list in LISTS {
        if let Some(elements) = config.get_mut(list).and_then(Value::as_array_mut) {
            let before = elements.len();
            elements.retain(|element| element["name"] != *name);
            is_changed |= elements.len() < before;
        }
    }
    if current_context(config) == Some(name) {
        set_current(config, "");
        is_changed = true;
    }
    is_changed
}

/// Writes a file, once it is sure that it will be read as it is meant: words such as `yes` mean
/// something else without quotes.
fn store(path: &Path, config: Map<String, Value>) -> Result<(), KubeconfigError> {
    let config = Value::Object(config);
    let plain = serde_saphyr::ser_options! { prefer_block_scalars: false };
    let quoted = serde_saphyr::ser_options! { prefer_block_scalars: false, quote_all: true };
    let texts = [plain, quoted].into_iter().filter_map(|options| {
        let text = serde_saphyr::to_string_with_options(&config, options).ok()?;
        let is_read_so = document::values(text.as_bytes()).is_ok_and(|it| it == [config.clone()]);
        is_read_so.then_some(text)
    });
    // JSON is YAML, too.
    let text = texts
        .into_iter()
        .next()
        .unwrap_or_else(|| config.to_string());
    if let Some(directory) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
        private_file::create_directory(directory)
            .map_err(|error| io_error("make the directory", directory, error))?;
    }
    private_file::write(path, text.as_bytes()).map_err(|error| io_error("write", path, error))
}

/// Keeps kubectl, which does the same, from changing a file at the same time.
struct Lock(PathBuf);

impl Lock {
    fn take(path: &Path) -> Result<Self, KubeconfigError> {
        let mut lock = path.as_os_str().to_owned();
        lock.push(".lock");
        let lock = PathBuf::from(lock);
        if let Some(directory) = lock.parent().filter(|it| !it.as_os_str().is_empty()) {
            private_file::create_directory(directory)
                .map_err(|error| io_error("make the directory", directory, error))?;
        }
        match File::create_new(&lock) {
            Ok(_) => Ok(Self(lock)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let path = path.to_owned();
                Err(KubeconfigError::Locked { path, lock })
            }
            Err(error) => Err(io_error("lock", path, error)),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // That it stays is told to whoever comes next.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Credentials;
    use super::*;
    use crate::authentication::Secret;

    const OTHERS: &str = "\
apiVersion: v1
kind: Config
preferences: {colors: true}
current-context: work
clusters:
- name: work
  cluster: {server: 'https://work:6443', insecure-skip-tls-verify: true, tls-server-name: x}
contexts:
- context: {cluster: work, user: me, namespace: 'yes', extensions: [{name: a, extension: {b: 1}}]}
  name: work
users:
- name: me
  user:
    exec: {command: login, args: ['0644', 'null', '~', '1e3', '2001-01-01', ' x', 'a: b', '#']}
unknown: {field: [1, 2.5, true, null, 'off']}
";

    fn cluster(token: &str) -> Cluster {
        Cluster {
            name: "outrank".to_owned(),
            server: "https://127.0.0.1:6443".to_owned(),
            ca_pem: "CERTIFICATE".to_owned(),
            credentials: Credentials::Token(Secret::new(token)),
            namespace: None,
        }
    }

    fn value(path: &Path) -> Value {
        let mut values = document::values(&fs::read(path).unwrap()).unwrap();
        values.remove(0)
    }

    #[test]
    fn what_is_in_a_file_stays_in_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        fs::write(&path, OTHERS).unwrap();
        let before = value(&path);
        merge(&path, &cluster("one"), Current::Keep).unwrap();
        merge(&path, &cluster("two"), Current::Keep).unwrap();
        let merged = value(&path);
        assert_eq!(merged["users"].as_array().map(Vec::len), Some(2));
        assert_eq!(merged["users"][1]["user"], json!({"token": "two"}));
        assert_eq!(merged["current-context"], "work");
        assert!(remove(&path, "outrank", None).unwrap());
        assert_eq!(value(&path), before);
        assert!(!remove(&path, "outrank", None).unwrap());

        let current = merge(&path, &cluster("one"), Current::Set).unwrap();
        assert_eq!(current.as_deref(), Some("work"));
        assert_eq!(value(&path)["current-context"], "outrank");
        assert!(remove(&path, "outrank", current.as_deref()).unwrap());
        assert_eq!(value(&path), before);

        merge(&path, &cluster("one"), Current::Set).unwrap();
        assert!(remove(&path, "outrank", Some("gone")).unwrap());
        assert_eq!(value(&path)["current-context"], "");
    }

    #[test]
    fn a_new_file_is_for_its_owner() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/config");
        write(&path, &cluster("one")).unwrap();
        write(&path, &cluster("two")).unwrap();
        let config = value(&path);
        assert_eq!(
            config,
            json!({
                "apiVersion": "v1", "kind": "Config", "current-context": "outrank",
                "clusters": [{"name": "outrank", "cluster": {
                    "server": "https://127.0.0.1:6443",
                    "certificate-authority-data": "Q0VSVElGSUNBVEU=",
                }}],
                "contexts": [{"name": "outrank", "context": {
                    "cluster": "outrank", "user": "outrank",
                }}],
                "users": [{"name": "outrank", "user": {"token": "two"}}],
            })
        );
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(
                fs::metadata(&path).unwrap().permissions().mode() & 0o777,
                0o600
            );
        }
    }

    #[test]
    fn files_of_others_are_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        for (text, expected) in [
            (OTHERS, "has other clusters"),
            ("a: [", "is not a kubeconfig"),
            ("- a", "it is not a map"),
            ("a: 1\n---\nb: 2\n", "several documents"),
            ("users: {a: b}", "users is not a list"),
            ("clusters: [1]", "clusters is not a list"),
            ("a: 1\na: 2", "is not a kubeconfig"),
        ] {
            fs::write(&path, text).unwrap();
            let error = write(&path, &cluster("one")).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            if text != OTHERS {
                assert!(
                    merge(&path, &cluster("one"), Current::Set).is_err(),
                    "{text}"
                );
                assert_eq!(fs::read_to_string(&path).unwrap(), text);
            }
        }
        let lock = directory.path().join("config.lock");
        assert!(!lock.exists());
        fs::write(&lock, "").unwrap();
        let error = merge(&path, &cluster("one"), Current::Set).unwrap_err();
        assert!(matches!(error, KubeconfigError::Locked { .. }), "{error}");
        assert!(lock.exists());
    }

    #[test]
    fn secrets_are_in_no_message() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        for damaged in [
            "users: [{name: a, user: {token: s3cret",
            "token: s3cret: x",
            "s3cret",
        ] {
            fs::write(&path, damaged).unwrap();
            let error = merge(&path, &cluster("t0ken"), Current::Set).unwrap_err();
            let shown = format!("{error} {error:?} {:?}", cluster("t0ken"));
            assert!(
                !shown.contains("s3cret") && !shown.contains("t0ken"),
                "{shown}"
            );
        }
    }
}
