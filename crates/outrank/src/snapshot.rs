//! `outrank snapshot`: a cluster in a file.

mod anonymize;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use outrank_api::resource_type::ResourceType;
use serde_json::{Value, json};

use crate::live::{ClusterArguments, Found, Live, block_on};
use crate::{print_structured, progress, tell};

/// Write all objects of a cluster that decisions depend on into a file, for outrank rehearse and
/// outrank up. The cluster is only read.
///
/// What Secrets and ConfigMaps contain is left out, and so are events, leases and what only the API
/// server itself needs. What may not be read is left out with a warning.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  # The cluster that kubectl talks to, in a file
  outrank snapshot > cluster.yaml

  # Another one, without names that tell anything
  outrank snapshot --context prod --anonymize -f prod.yaml

  # Rehearse a change on it, or run it here
  outrank rehearse -f prod.yaml --apply change.yaml
  outrank up -f prod.yaml

Exit codes:
  0  written
  1  the cluster cannot be read, or the file not be written
  2  the command line is wrong")]
pub(crate) struct Snapshot {
    /// The file to write to, instead of standard output. It is readable by its owner alone.
    #[arg(short, long = "filename", value_name = "FILE")]
    filename: Option<PathBuf>,

    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Output::Yaml)]
    output: Output,

    /// Keep what Secrets contain.
    #[arg(long, conflicts_with = "anonymize")]
    with_secrets: bool,

    /// Keep what ConfigMaps contain.
    #[arg(long, conflicts_with = "anonymize")]
    with_config_data: bool,

    /// Give everything other names: namespaces, objects, images, labels, addresses; drop what
    /// programs are told (arguments, variables), and what no pod's place depends on: roles and
    /// their bindings, webhooks, types of your own, devices, endpoints. What was equal stays equal,
    /// and names keep their order, so that a rehearsal comes out the same; sizes, priorities, times,
    /// time zones and identifiers (uid) stay.
    #[arg(long)]
    anonymize: bool,

    #[command(flatten)]
    cluster: ClusterArguments,
}

#[derive(Clone, Copy, ValueEnum, PartialEq, Eq)]
enum Output {
    /// As YAML.
    Yaml,
    /// As JSON.
    Json,
}

/// Types that are none of anybody's business but the API server's, or say only what was.
const LEFT_OUT: [&str; 9] = [
    "events",
    "componentstatuses",
    "leases",
    "flowschemas",
    "prioritylevelconfigurations",
    "apiservices",
    "certificatesigningrequests",
    "ipaddresses",
    "servicecidrs",
];

/// How many objects are asked for at a time.
const PIECE: usize = 500;

pub(crate) fn main(arguments: &Snapshot) -> Result<ExitCode> {
    let mut objects = block_on(async {
        let live = arguments.cluster.connect().await?;
        read_all(&live).await
    })?;
    for object in &mut objects {
        tidy(object, arguments);
    }
    if arguments.anonymize {
        anonymize::anonymize(&mut objects);
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    write(arguments, &list)?;
    Ok(ExitCode::SUCCESS)
}

async fn read_all(live: &Live) -> Result<Vec<Value>> {
    let types = ResourceType::built_in().iter();
    let mut wanted: Vec<&ResourceType> = types
        .map(|it| &**it)
        .filter(|it| it.has_verb("list") && !LEFT_OUT.contains(&it.plural.as_str()))
        .collect();
    // Two versions of one type are the same objects.
    wanted.retain(|it| (it.group.as_str(), it.version.as_str()) != ("autoscaling", "v1"));
    let (bar, count) = (progress::bar("types read"), wanted.len());
    let mut objects = Vec::new();
    let mut refused = 0;
    for (index, resource) in wanted.into_iter().enumerate() {
        progress::advance(&bar, index, count);
        match read_type(live, resource).await? {
            Ok(items) => objects.extend(items),
            Err(why) => {
                refused += 1;
                tell(&format!("warning: {} are left out: {why}", resource.plural));
            }
        }
    }
    bar.finish_and_clear();
    if objects.is_empty() && refused > 0 {
        bail!("nothing in the cluster may be read with these credentials");
    }
    Ok(objects)
}

/// All objects of a type, or why they may not be read.
async fn read_type(live: &Live, resource: &ResourceType) -> Result<Result<Vec<Value>, String>> {
    let root = match resource.group.as_str() {
        "" => format!("/api/{}", resource.version),
        group => format!("/apis/{group}/{}", resource.version),
    };
    let mut items = Vec::new();
    let mut token = String::new();
    loop {
        let mut path = format!("{root}/{}?limit={PIECE}", resource.plural);
        if !token.is_empty() {
            path.push_str(&format!("&continue={token}"));
        }
        let mut list = match live.find(&path).await? {
            Found::Value(list) => list,
            // An older cluster may not have the type.
            Found::Missing => return Ok(Ok(items)),
            Found::Forbidden(why) => return Ok(Err(why)),
        };
        if let Value::Array(piece) = list["items"].take() {
            items.extend(piece.into_iter().map(|mut object| {
                object["apiVersion"] = resource.api_version().into();
                object["kind"] = resource.kind.as_str().into();
                object
            }));
        }
        match list["metadata"]["continue"].as_str() {
            Some(next) if !next.is_empty() => token = next.to_owned(),
            _ => return Ok(Ok(items)),
        }
    }
}

/// Takes out what nobody needs, and what is not to be seen.
fn tidy(object: &mut Value, arguments: &Snapshot) {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let hides = match kind.as_str() {
        "Secret" => !arguments.with_secrets,
        "ConfigMap" => !arguments.with_config_data,
        _ => false,
    };
    let Value::Object(fields) = object else {
        return;
    };
    if hides {
        for field in ["data", "binaryData", "stringData"] {
            fields.remove(field);
        }
    }
    if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
        metadata.remove("managedFields");
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            // It repeats the object, with what was left out.
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        }
    }
}

fn write(arguments: &Snapshot, list: &Value) -> Result<()> {
    let is_yaml = arguments.output == Output::Yaml;
    let Some(path) = &arguments.filename else {
        return print_structured(list, is_yaml);
    };
    let text = match is_yaml {
        true => serde_saphyr::to_string(list)?,
        false => serde_json::to_string_pretty(list)?,
    };
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    let mut file = options
        .open(path)
        .with_context(|| format!("cannot write {}", path.display()))?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.flush())
        .with_context(|| format!("cannot write {}", path.display()))
}
