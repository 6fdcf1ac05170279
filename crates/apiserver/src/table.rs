//! Tables: what `kubectl get` prints.
//!
//! kubectl knows nothing of pods. It asks the server for a Table (`Accept:
//! application/json;as=Table;v=v1;g=meta.k8s.io`) and prints its cells: the definitions of the
//! columns say what they are called and which are shown with `-o wide` only, each row has a cell
//! for each column, and beside them (the metadata of) the object itself, of which kubectl takes
//! namespace and labels. So every client shows the same, and a new kind needs no new client.
//!
//! [`Columns`] are those of a type of resource: the built-in types have theirs here, in one file
//! for each family of kinds; for custom resources the CustomResourceDefinition says which
//! ([`CustomColumn`]). [`table`] makes the answer for a list or an object, [`event_table`] for an
//! object of a watch.
//!
//! ```
//! use outrank_api::resource_type::ResourceType;
//! use outrank_apiserver::table::{Columns, TableOptions, table};
//! use serde_json::json;
//!
//! let namespaces = ResourceType::of_kind("v1", "Namespace").unwrap();
//! let namespace = json!({
//!     "metadata": {"name": "team", "creationTimestamp": "1970-01-01T00:00:00Z"},
//!     "status": {"phase": "Active"},
//! });
//! let columns = Columns::of(namespaces, &[]);
//! let metadata = json!({"resourceVersion": "42"});
//! let now_nanos = 3 * 3_600_000_000_000;
//! let answer = table(&columns, [&namespace], &metadata, &TableOptions::default(), now_nanos);
//! assert_eq!(answer["columnDefinitions"][1]["name"], "Status");
//! assert_eq!(answer["rows"][0]["cells"], json!(["team", "Active", "3h"]));
//! assert_eq!(answer["rows"][0]["object"]["kind"], "PartialObjectMetadata");
//! ```
//!
//! Objects come as they are served. A field that is missing or of another type than it should be
//! counts as absent; no object makes a table fail.
//!
//! Source: `pkg/printers/internalversion/printers.go` for columns and cells, if a file here does
//! not say otherwise; `k8s.io/apiserver/pkg/endpoints/handlers/response.go` for the rest;
//! Kubernetes 1.36. The descriptions of columns are our own.

use std::cmp::Ordering;

use outrank_api::resource_type::ResourceType;
use outrank_api::status::Status;
use serde_json::{Map, Value, json};

/// Cells of a row, each made a JSON value.
macro_rules! cells {
    ($($cell:expr),* $(,)?) => {
        vec![$(serde_json::Value::from($cell)),*]
    };
}

mod access;
mod admission;
mod age;
mod apps;
mod autoscaling;
mod batch;
mod cell;
mod column;
mod control_plane;
mod core;
mod custom;
mod devices;
mod events;
mod json_path;
mod network;
mod nodes;
mod pods;
mod policy;
mod storage;

pub use column::Column;
use column::Heading;
pub use custom::CustomColumn;

/// The whole answer for objects of one type: a list, or a single object.
///
/// `metadata` is that of the list, or of the object if it is one; its `resourceVersion`,
/// `continue` and `remainingItemCount` are taken over. `now_nanos` is the time, in nanoseconds
/// since 1970. Rows are in the order of the objects, except those of FlowSchemas, which are in the
/// order in which schemas are tried. Costs time linear in the size of the objects.
pub fn table<'o>(
    columns: &Columns,
    objects: impl IntoIterator<Item = &'o Value>,
    metadata: &Value,
    options: &TableOptions,
    now_nanos: i64,
) -> Value {
    let definitions = json!(columns.definitions());
    let rows = columns.rows(objects, options, now_nanos);
    assemble(definitions, rows, metadata, options)
}

/// The object of an event of a watch. Only the first event of a stream has the definitions of the
/// columns (`is_first`); `columnDefinitions` of all others is null.
///
/// Goes for bookmarks, too. A Status, which an event of type `ERROR` has, is sent as it is.
pub fn event_table(
    columns: &Columns,
    object: &Value,
    is_first: bool,
    options: &TableOptions,
    now_nanos: i64,
) -> Value {
    let definitions = match is_first {
        true => json!(columns.definitions()),
        false => Value::Null,
    };
    let rows = columns.rows([object], options, now_nanos);
    assemble(definitions, rows, &object["metadata"], options)
}

fn assemble(definitions: Value, rows: Vec<Value>, from: &Value, options: &TableOptions) -> Value {
    let fields = ["resourceVersion", "continue", "remainingItemCount"].into_iter();
    let present = fields.filter(|field| !matches!(&from[*field], Value::Null));
    let metadata: Map<String, Value> = present
        .map(|field| (field.to_owned(), from[field].clone()))
        .collect();
    json!({
        "kind": "Table",
        "apiVersion": options.version.api_version(),
        "metadata": metadata,
        "columnDefinitions": definitions,
        "rows": rows,
    })
}

/// How a table is asked for. The default is what clients get that do not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableOptions {
    /// The version of the Table, the `v` of the `Accept` header.
    pub version: TableVersion,
    /// What of the object stands in a row, the query parameter `includeObject`.
    pub include_object: IncludeObject,
}

/// A version of `meta.k8s.io` that has Tables. Both are the same but for their names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TableVersion {
    /// `v1`.
    #[default]
    V1,
    /// `v1beta1`, for clients older than Kubernetes 1.15.
    V1Beta1,
}

impl TableVersion {
    /// `meta.k8s.io/v1` or `meta.k8s.io/v1beta1`.
    pub fn api_version(self) -> &'static str {
        match self {
            TableVersion::V1 => "meta.k8s.io/v1",
            TableVersion::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// What of the object stands in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    /// Its metadata, as a PartialObjectMetadata.
    #[default]
    Metadata,
    /// All of it.
    Object,
    /// Nothing.
    None,
}

impl IncludeObject {
    /// Reads the query parameter `includeObject`; it is empty if a request has none. The error is
    /// the answer to the request.
    ///
    /// ```
    /// use outrank_apiserver::table::IncludeObject;
    ///
    /// assert_eq!(IncludeObject::parse(""), Ok(IncludeObject::Metadata));
    /// assert_eq!(IncludeObject::parse("Object"), Ok(IncludeObject::Object));
    /// assert_eq!(IncludeObject::parse("object").unwrap_err().code, 400);
    /// ```
    pub fn parse(text: &str) -> Result<Self, Status> {
        match text {
            "" | "Metadata" => Ok(IncludeObject::Metadata),
            "Object" => Ok(IncludeObject::Object),
            "None" => Ok(IncludeObject::None),
            other => Err(Status::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {}: must \
                 be 'Metadata', 'Object', 'None', or empty",
                outrank_api::names::quoted(other)
            ))),
        }
    }
}

/// The columns of a type of resource, and how their cells are made.
#[derive(Clone, Debug)]
pub struct Columns {
    definitions: Vec<Column>,
    cells: Cells,
}

#[derive(Clone, Debug)]
enum Cells {
    BuiltIn(&'static BuiltIn),
    /// The cells behind the name.
    Custom(Vec<CustomColumn>),
}

/// The columns of a built-in type.
#[derive(Debug)]
struct BuiltIn {
    columns: &'static [Heading],
    /// As many cells as columns, of an object at a time (nanoseconds since 1970).
    cells: fn(&Value, i64) -> Vec<Value>,
    /// The order of rows; as the objects come if there is none.
    order: Option<fn(&Value, &Value) -> Ordering>,
    /// What is said of a row beside its cells, such as that the object has had its day.
    conditions: Option<fn(&Value) -> Option<Value>>,
}

impl BuiltIn {
    const fn new(columns: &'static [Heading], cells: fn(&Value, i64) -> Vec<Value>) -> Self {
        Self {
            columns,
            cells,
            order: None,
            conditions: None,
        }
    }
}

impl Columns {
    /// The columns of a type of resource. A type that is in no [schema](outrank_api::schema) is a
    /// custom one; `custom` has its columns ([`CustomColumn::of_definition`]), the name goes
    /// before them. Of built-in types, `custom` is ignored.
    pub fn of(resource_type: &ResourceType, custom: &[CustomColumn]) -> Self {
        if resource_type.type_name.is_some() {
            return Self::built_in(built_in(resource_type));
        }
        let behind_name = custom.iter().map(CustomColumn::column).cloned();
        Self {
            definitions: std::iter::once(column::NAME.into())
                .chain(behind_name)
                .collect(),
            cells: Cells::Custom(custom.to_vec()),
        }
    }

    /// The columns of a Scale, which the subresource `scale` of any type answers with.
    pub fn of_scale() -> Self {
        Self::built_in(&autoscaling::SCALES)
    }

    /// What the columns are called and what is in them.
    pub fn definitions(&self) -> &[Column] {
        &self.definitions
    }

    /// The cells of an object at a time in nanoseconds since 1970, as many as there are columns.
    /// Ages are text, such as `5m`, so that they are right for a moment only.
    pub fn cells(&self, object: &Value, now_nanos: i64) -> Vec<Value> {
        match &self.cells {
            Cells::BuiltIn(built_in) => (built_in.cells)(object, now_nanos),
            Cells::Custom(columns) => {
                let name = Value::from(cell::name(object));
                let behind_name = columns.iter().map(|it| it.cell(object, now_nanos));
                std::iter::once(name).chain(behind_name).collect()
            }
        }
    }

    /// Rows as they stand in a table, for answers that are put together elsewhere.
    pub fn rows<'o>(
        &self,
        objects: impl IntoIterator<Item = &'o Value>,
        options: &TableOptions,
        now_nanos: i64,
    ) -> Vec<Value> {
        let row = |object| self.row(object, options, now_nanos);
        match &self.cells {
            Cells::BuiltIn(BuiltIn {
                order: Some(order), ..
            }) => {
                let mut objects: Vec<&Value> = objects.into_iter().collect();
                objects.sort_by(|a, b| order(a, b));
                objects.into_iter().map(row).collect()
            }
            _ => objects.into_iter().map(row).collect(),
        }
    }

    fn row(&self, object: &Value, options: &TableOptions, now_nanos: i64) -> Value {
        let mut row = json!({"cells": self.cells(object, now_nanos)});
        if let Cells::BuiltIn(built_in) = self.cells
            && let Some(conditions) = built_in.conditions.and_then(|of| of(object))
        {
            row["conditions"] = conditions;
        }
        row["object"] = match options.include_object {
            IncludeObject::Object => object.clone(),
            // Whoever waits for the end of the initial events finds it in the metadata only.
            IncludeObject::None if !ends_initial_events(object) => Value::Null,
            _ => json!({
                "kind": "PartialObjectMetadata",
                "apiVersion": options.version.api_version(),
                "metadata": object["metadata"],
            }),
        };
        row
    }

    fn built_in(built_in: &'static BuiltIn) -> Self {
        Self {
            definitions: built_in.columns.iter().copied().map(Column::from).collect(),
            cells: Cells::BuiltIn(built_in),
        }
    }
}

/// Whether an object is the bookmark that closes the initial events of a watch.
fn ends_initial_events(object: &Value) -> bool {
    cell::has_true_annotation(object, "k8s.io/initial-events-end")
}

fn built_in(resource_type: &ResourceType) -> &'static BuiltIn {
    let kind = resource_type.kind.as_str();
    match (resource_type.group.as_str(), kind) {
        ("", "ComponentStatus") => &core::COMPONENT_STATUSES,
        ("", "ConfigMap") => &core::CONFIG_MAPS,
        ("", "Endpoints") => &network::ENDPOINTS,
        ("", "Event") => &events::CORE_EVENTS,
        ("", "Namespace") => &core::NAMESPACES,
        ("", "Node") => &nodes::NODES,
        ("", "PersistentVolume") => &storage::PERSISTENT_VOLUMES,
        ("", "PersistentVolumeClaim") => &storage::PERSISTENT_VOLUME_CLAIMS,
        ("", "Pod") => &pods::PODS,
        ("", "PodTemplate") => &pods::POD_TEMPLATES,
        ("", "ReplicationController") => &apps::REPLICATION_CONTROLLERS,
        ("", "ResourceQuota") => &policy::RESOURCE_QUOTAS,
        ("", "Secret") => &core::SECRETS,
        ("", "Service") => &network::SERVICES,
        ("", "ServiceAccount") => &core::SERVICE_ACCOUNTS,
        ("admissionregistration.k8s.io", kind) => admission_built_in(kind),
        ("apiregistration.k8s.io", "APIService") => &control_plane::API_SERVICES,
        ("apps", "ControllerRevision") => &apps::CONTROLLER_REVISIONS,
        ("apps", "DaemonSet") => &apps::DAEMON_SETS,
        ("apps", "Deployment") => &apps::DEPLOYMENTS,
        ("apps", "ReplicaSet") => &apps::REPLICA_SETS,
        ("apps", "StatefulSet") => &apps::STATEFUL_SETS,
        ("autoscaling", "HorizontalPodAutoscaler") if resource_type.version == "v1" => {
            &autoscaling::AUTOSCALERS_V1
        }
        ("autoscaling", "HorizontalPodAutoscaler") => &autoscaling::AUTOSCALERS_V2,
        ("batch", "CronJob") => &batch::CRON_JOBS,
        ("batch", "Job") => &batch::JOBS,
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            &access::CERTIFICATE_SIGNING_REQUESTS
        }
        ("coordination.k8s.io", "Lease") => &nodes::LEASES,
        ("discovery.k8s.io", "EndpointSlice") => &network::ENDPOINT_SLICES,
        ("events.k8s.io", "Event") => &events::EVENTS,
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => &control_plane::FLOW_SCHEMAS,
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => {
            &control_plane::PRIORITY_LEVEL_CONFIGURATIONS
        }
        ("networking.k8s.io", "Ingress") => &network::INGRESSES,
        ("networking.k8s.io", "IngressClass") => &network::INGRESS_CLASSES,
        ("networking.k8s.io", "IPAddress") => &network::IP_ADDRESSES,
        ("networking.k8s.io", "NetworkPolicy") => &network::NETWORK_POLICIES,
        ("networking.k8s.io", "ServiceCIDR") => &network::SERVICE_CIDRS,
        ("node.k8s.io", "RuntimeClass") => &nodes::RUNTIME_CLASSES,
        ("policy", "PodDisruptionBudget") => &policy::POD_DISRUPTION_BUDGETS,
        ("rbac.authorization.k8s.io", "ClusterRoleBinding" | "RoleBinding") => {
            &access::ROLE_BINDINGS
        }
        ("resource.k8s.io", "DeviceClass" | "ResourceClaimTemplate") => &devices::NAME_AND_AGE,
        ("resource.k8s.io", "ResourceClaim") => &devices::RESOURCE_CLAIMS,
        ("resource.k8s.io", "ResourceSlice") => &devices::RESOURCE_SLICES,
        ("scheduling.k8s.io", "PriorityClass") => &policy::PRIORITY_CLASSES,
        ("storage.k8s.io", kind) => storage_built_in(kind),
        _ => &core::DEFAULT,
    }
}

fn admission_built_in(kind: &str) -> &'static BuiltIn {
    match kind {
        "MutatingAdmissionPolicy" => &admission::MUTATING_ADMISSION_POLICIES,
        "MutatingAdmissionPolicyBinding" | "ValidatingAdmissionPolicyBinding" => {
            &admission::ADMISSION_POLICY_BINDINGS
        }
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            &admission::WEBHOOK_CONFIGURATIONS
        }
        "ValidatingAdmissionPolicy" => &admission::VALIDATING_ADMISSION_POLICIES,
        _ => &core::DEFAULT,
    }
}

fn storage_built_in(kind: &str) -> &'static BuiltIn {
    match kind {
        "CSIDriver" => &storage::CSI_DRIVERS,
        "CSINode" => &storage::CSI_NODES,
        "CSIStorageCapacity" => &storage::CSI_STORAGE_CAPACITIES,
        "StorageClass" => &storage::STORAGE_CLASSES,
        "VolumeAttachment" => &storage::VOLUME_ATTACHMENTS,
        "VolumeAttributesClass" => &storage::VOLUME_ATTRIBUTES_CLASSES,
        _ => &core::DEFAULT,
    }
}
