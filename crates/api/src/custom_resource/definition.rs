//! What a CustomResourceDefinition defines.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::schema::Schema;
use super::structural::{flag, list, object, text};
use crate::resource_type::{ResourceType, VERBS};

/// What a definition says, read from an object that was found right ([`super::validate`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The group of the kind, such as `stable.example.com`.
    pub group: String,
    /// What the resource is called.
    pub names: Names,
    /// Whether its objects are in namespaces.
    pub is_namespaced: bool,
    /// Its versions, in their order in the definition.
    pub versions: Vec<Version>,
}

/// What a resource is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// The name in URLs.
    pub plural: String,
    /// The name of one.
    pub singular: String,
    /// Names for the command line.
    pub short_names: Vec<String>,
    /// The kind of its objects.
    pub kind: String,
    /// The kind of a list of them.
    pub list_kind: String,
    /// Groups for the command line.
    pub categories: Vec<String>,
}

/// A version of a custom resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Its name, such as `v1`.
    pub name: String,
    /// Whether it is served.
    pub is_served: bool,
    /// Whether objects are stored so; that of exactly one is.
    pub is_storage: bool,
    /// What clients are warned of who use it, if it is deprecated.
    pub deprecation_warning: Option<String>,
    /// What its objects are; `None` if anything may stand in them.
    pub schema: Option<Arc<Schema>>,
    /// Whether the status is written apart.
    pub has_status: bool,
    /// How it is scaled, if it can be.
    pub scale: Option<Scale>,
    /// Columns of tables beside the name; without any there is the age.
    pub columns: Vec<Column>,
    /// Fields by which lists can be selected, such as `.spec.color`.
    pub selectable_fields: Vec<String>,
}

/// Where the numbers of a scale stand: paths of fields, such as `.spec.replicas`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scale {
    /// How many there should be.
    pub spec_replicas_path: String,
    /// How many there are.
    pub status_replicas_path: String,
    /// The selector of the pods, as text; may be empty.
    pub label_selector_path: String,
}

/// A column of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// The title.
    pub name: String,
    /// `integer`, `number`, `string`, `boolean` or `date`.
    pub column_type: String,
    /// The format of the type, if any.
    pub format: String,
    /// For people.
    pub description: String,
    /// 0 is shown always, more only in wide tables.
    pub priority: i64,
    /// Where the value stands, such as `.spec.replicas`.
    pub json_path: String,
}

impl Definition {
    /// Reads a definition. What is missing is empty; what it may say is in [`super::validate`].
    pub fn read(crd: &Value) -> Self {
        let nothing = Value::Null;
        let spec = crd.get("spec").unwrap_or(&nothing);
        Self {
            group: text(spec, "group").to_owned(),
            names: Names::read(spec.get("names").unwrap_or(&nothing)),
            is_namespaced: text(spec, "scope") == "Namespaced",
            versions: list(spec, "versions")
                .iter()
                .map(|it| Version::read(it, spec))
                .collect(),
        }
    }

    /// The types of resources that are served, those of the versions that clients should prefer
    /// first: stable ones before betas and alphas, higher ones before lower.
    pub fn resource_types(&self) -> Vec<ResourceType> {
        let mut versions: Vec<&Version> = self.versions.iter().filter(|it| it.is_served).collect();
        versions.sort_by_cached_key(|version| std::cmp::Reverse(version_key(&version.name)));
        versions
            .into_iter()
            .map(|it| self.resource_type(it))
            .collect()
    }

    fn resource_type(&self, version: &Version) -> ResourceType {
        let names = &self.names;
        let subresources = [
            ("status", version.has_status),
            ("scale", version.scale.is_some()),
        ];
        let subresources = subresources.into_iter().filter(|(_, is_there)| *is_there);
        ResourceType {
            group: self.group.clone(),
            version: version.name.clone(),
            kind: names.kind.clone(),
            plural: names.plural.clone(),
            singular: names.singular.clone(),
            short_names: names.short_names.clone(),
            categories: names.categories.clone(),
            is_namespaced: self.is_namespaced,
            verbs: VERBS.map(str::to_owned).to_vec(),
            subresources: subresources.map(|(name, _)| name.to_owned()).collect(),
            type_name: None,
            schema: version.schema.clone(),
        }
    }

    /// A version by its name.
    pub fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// The version in which objects are stored.
    pub fn storage_version(&self) -> Option<&Version> {
        self.versions.iter().find(|version| version.is_storage)
    }

    /// Makes an object one of another version: only its `apiVersion` changes (strategy `None`).
    /// What the schema of that version does not have is for the caller to prune.
    pub fn convert(&self, object: &mut Value, version: &str) {
        if let Value::Object(fields) = object {
            let api_version = format!("{}/{version}", self.group);
            fields.insert("apiVersion".to_owned(), api_version.into());
        }
    }
}

impl Names {
    pub(super) fn read(names: &Value) -> Self {
        let texts = |name: &str| -> Vec<String> {
            let texts = list(names, name).iter().filter_map(Value::as_str);
            texts.map(str::to_owned).collect()
        };
        Self {
            plural: text(names, "plural").to_owned(),
            singular: text(names, "singular").to_owned(),
            short_names: texts("shortNames"),
            kind: text(names, "kind").to_owned(),
            list_kind: text(names, "listKind").to_owned(),
            categories: texts("categories"),
        }
    }

    /// The names as they stand in objects.
    pub(super) fn to_value(&self) -> Value {
        let mut value = json!({"plural": self.plural, "kind": self.kind});
        let mut put = |name: &str, is_there: bool, what: Value| {
            if is_there {
                value[name] = what;
            }
        };
        put("singular", !self.singular.is_empty(), json!(self.singular));
        put(
            "shortNames",
            !self.short_names.is_empty(),
            json!(self.short_names),
        );
        put(
            "listKind",
            !self.list_kind.is_empty(),
            json!(self.list_kind),
        );
        put(
            "categories",
            !self.categories.is_empty(),
            json!(self.categories),
        );
        value
    }
}

impl Version {
    fn read(version: &Value, spec: &Value) -> Self {
        let nothing = Value::Null;
        let subresources = version.get("subresources").unwrap_or(&nothing);
        let name = text(version, "name").to_owned();
        let warning = text(version, "deprecationWarning");
        let (group, kind) = (text(spec, "group"), spec.pointer("/names/kind"));
        let kind = kind.and_then(Value::as_str).unwrap_or_default();
        let deprecation_warning = flag(version, "deprecated").then(|| match warning {
            "" => format!("{group}/{name} {kind} is deprecated"),
            warning => warning.to_owned(),
        });
        let schema = version.pointer("/schema/openAPIV3Schema").map(Schema::read);
        let columns = list(version, "additionalPrinterColumns").iter();
        let fields = list(version, "selectableFields").iter();
        Self {
            name,
            is_served: flag(version, "served"),
            is_storage: flag(version, "storage"),
            deprecation_warning,
            schema: schema.map(Arc::new),
            has_status: object(subresources, "status").is_some(),
            scale: object(subresources, "scale").map(|scale| Scale {
                spec_replicas_path: text(scale, "specReplicasPath").to_owned(),
                status_replicas_path: text(scale, "statusReplicasPath").to_owned(),
                label_selector_path: text(scale, "labelSelectorPath").to_owned(),
            }),
            columns: columns.map(Column::read).collect(),
            selectable_fields: fields.map(|it| text(it, "jsonPath").to_owned()).collect(),
        }
    }
}

impl Column {
    fn read(column: &Value) -> Self {
        Self {
            name: text(column, "name").to_owned(),
            column_type: text(column, "type").to_owned(),
            format: text(column, "format").to_owned(),
            description: text(column, "description").to_owned(),
            priority: column
                .get("priority")
                .and_then(Value::as_i64)
                .unwrap_or_default(),
            json_path: text(column, "jsonPath").to_owned(),
        }
    }
}

/// Writes into a definition what it leaves out (`apiextensions/v1/defaults.go`).
pub fn default_definition(crd: &mut Value) {
    let Some(Value::Object(spec)) = crd.get_mut("spec") else {
        return;
    };
    if let Some(Value::Object(names)) = spec.get_mut("names") {
        let kind = names.get("kind").and_then(Value::as_str);
        let kind = kind.unwrap_or_default().to_owned();
        let mut fill_in = |name: &str, value: String| {
            let is_empty = names
                .get(name)
                .and_then(Value::as_str)
                .is_none_or(str::is_empty);
            if is_empty && !kind.is_empty() {
                names.insert(name.to_owned(), value.into());
            }
        };
        fill_in("singular", kind.to_lowercase());
        fill_in("listKind", format!("{kind}List"));
    }
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
    }
    let service = spec
        .get_mut("conversion")
        .and_then(|it| it.pointer_mut("/webhook/clientConfig/service"));
    if let Some(Value::Object(service)) = service {
        service.entry("port").or_insert_with(|| 443.into());
    }
    remember_storage(crd);
}

/// Adds the storage version to those in which objects may be stored; upstream does this with
/// every write of a definition.
pub fn remember_storage(crd: &mut Value) {
    let Some(storage) = Definition::read(crd)
        .storage_version()
        .map(|it| it.name.clone())
    else {
        return;
    };
    let Value::Object(fields) = crd else { return };
    let status = fields
        .entry("status")
        .or_insert_with(|| Value::Object(Map::new()));
    let Value::Object(status) = status else {
        return;
    };
    let stored = status.entry("storedVersions").or_insert_with(|| json!([]));
    if stored.is_null() {
        *stored = json!([]);
    }
    if let Value::Array(stored) = stored
        && !stored.iter().any(|it| *it == storage)
    {
        stored.push(storage.into());
    }
}

/// Orders versions (`k8s.io/apimachinery/pkg/version`): `v2`, `v1`, `v2beta1`, `v1alpha2`, then
/// names that are none, by the alphabet.
fn version_key(name: &str) -> (u8, u64, u64, std::cmp::Reverse<String>) {
    let other = || (0, 0, 0, std::cmp::Reverse(name.to_owned()));
    let Some(rest) = name.strip_prefix('v') else {
        return other();
    };
    let digits = |text: &str| {
        let end = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        text.split_at(end).0.len()
    };
    let (major, rest) = rest.split_at(digits(rest));
    let (stage, minor) = match rest {
        "" => (3, "0"),
        _ => match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
            (Some(minor), _) => (2, minor),
            (_, Some(minor)) => (1, minor),
            _ => return other(),
        },
    };
    match (major.parse(), minor.parse()) {
        (Ok(major), Ok(minor)) => (stage, major, minor, std::cmp::Reverse(String::new())),
        _ => other(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crd() -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "crontabs.stable.example.com"},
            "spec": {
                "group": "stable.example.com", "scope": "Namespaced",
                "names": {"plural": "crontabs", "kind": "CronTab", "shortNames": ["ct"],
                          "categories": ["all"]},
                "versions": [
                    {"name": "v1beta1", "served": true, "storage": false, "deprecated": true,
                     "schema": {"openAPIV3Schema": {"type": "object"}}},
                    {"name": "v1", "served": true, "storage": true,
                     "schema": {"openAPIV3Schema": {"type": "object"}},
                     "subresources": {"status": {}, "scale": {
                         "specReplicasPath": ".spec.replicas",
                         "statusReplicasPath": ".status.replicas"}}},
                    {"name": "v2", "served": false, "storage": false,
                     "schema": {"openAPIV3Schema": {"type": "object"}}},
                ],
            },
        })
    }

    #[test]
    fn a_definition_makes_types_of_resources() {
        let mut crd = crd();
        default_definition(&mut crd);
        assert_eq!(crd["spec"]["names"]["listKind"], "CronTabList");
        assert_eq!(crd["spec"]["conversion"], json!({"strategy": "None"}));
        assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
        let definition = Definition::read(&crd);
        let types = definition.resource_types();
        let versions: Vec<&str> = types.iter().map(|it| it.version.as_str()).collect();
        assert_eq!(versions, ["v1", "v1beta1"]);
        assert_eq!(
            types[0].resource().to_string(),
            "crontabs.stable.example.com"
        );
        assert_eq!(types[0].singular, "crontab");
        assert_eq!(types[0].subresources, ["status", "scale"]);
        assert_eq!(types[1].subresources, Vec::<String>::new());
        let warning = definition
            .version("v1beta1")
            .and_then(|it| it.deprecation_warning.clone());
        assert_eq!(
            warning.as_deref(),
            Some("stable.example.com/v1beta1 CronTab is deprecated")
        );
        let mut object = json!({"apiVersion": "stable.example.com/v1beta1", "spec": {"a": 1}});
        definition.convert(&mut object, "v1");
        assert_eq!(
            object,
            json!({"apiVersion": "stable.example.com/v1", "spec": {"a": 1}})
        );
    }

    #[test]
    fn versions_have_an_order() {
        let mut versions = [
            "v1",
            "foo1",
            "v10",
            "v1alpha1",
            "v2beta1",
            "v11alpha2",
            "v2",
            "bar",
        ];
        versions.sort_by_key(|name| std::cmp::Reverse(version_key(name)));
        assert_eq!(
            versions,
            [
                "v10",
                "v2",
                "v1",
                "v2beta1",
                "v11alpha2",
                "v1alpha1",
                "bar",
                "foo1"
            ]
        );
    }
}
