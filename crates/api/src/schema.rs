//! Which fields objects have and what may stand in them.
//!
//! Two tables hold the facts: `schema/types.txt`, made from the API's own schema, says
//! which fields each type has and of what type they are; `schema/rules.txt`, written by
//! hand, adds the values of enumerations, ranges and required fields. A check compares an
//! object with them and reports every unknown field, wrong type and impossible value.
//! `schema/go.txt` says which fields are written though they are nothing, `schema/defaults.txt`
//! what is filled in where a field is absent, and `schema/admission.txt` has the types of files
//! that configure admission.
//!
//! Whoever tells others what the types are, as OpenAPI does, reads the tables by [`kinds`],
//! [`fields`] and [`package`]:
//!
//! ```
//! use outrank_api::schema::{self, FieldType};
//!
//! let type_name = schema::type_of("scheduling.k8s.io/v1", "PriorityClass").unwrap();
//! assert_eq!(schema::package(type_name), "io.k8s.api.scheduling.v1");
//! let fields = schema::fields(type_name);
//! let (_, value) = fields.iter().find(|(name, _)| *name == "value").unwrap();
//! assert_eq!(value.field_type, FieldType::Int32);
//! ```

use std::collections::{BTreeSet, HashMap};
use std::sync::OnceLock;

use serde_json::{Map, Value};

use crate::diagnostic::{Finding, Findings, Here, Severity, Suggestion};
use crate::quantity::Quantity;

const TYPES: &str = include_str!("schema/types.txt");
const ADMISSION_TYPES: &str = include_str!("schema/admission.txt");
const RULES: &str = include_str!("schema/rules.txt");
const GO: &str = include_str!("schema/go.txt");
const DEFAULTS: &str = include_str!("schema/defaults.txt");

/// What is said of a field that a type does not have.
const UNKNOWN_FIELD: &str = "unknown field, left out";

/// The type of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// Any value.
    Any,
    /// `true` or `false`.
    Bool,
    /// Bytes, written in base64.
    Bytes,
    /// A number.
    Double,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    /// A whole number or a string, such as `25%`.
    IntOrString,
    /// An amount, such as `500m`.
    Quantity,
    /// A string.
    String,
    /// A time as RFC 3339 has it.
    Time,
    /// A list of values of one type.
    List(Box<FieldType>),
    /// A map from strings to values of one type.
    Map(Box<FieldType>),
    /// An object of a type of the table.
    Object(String),
}

/// What the tables say of a field.
#[derive(Debug)]
pub struct Field {
    /// The type of its value.
    pub field_type: FieldType,
    /// Whether the API's own schema says that it must be there. Values may be refused for more
    /// than that, and for less: a field that is required may be empty.
    pub is_required: bool,
    /// Whether the rules say that it must be there and not empty.
    must_be_filled: bool,
    /// The values that it may have; none stand for all. Those of a list are its elements.
    pub allowed: Vec<&'static str>,
    /// Whether the values, or the elements of a list, are words of the API, numbers, times or
    /// identifiers, be it said which ones or not: no names that people give, and no free text.
    pub has_words: bool,
    range: Option<(i64, i64)>,
    /// The field by which elements of a list are told apart when lists are merged; without
    /// one a list is replaced.
    pub merge_key: Option<&'static str>,
    /// Whether a list of scalars is merged by a strategic merge patch.
    pub merges_scalars: bool,
    /// Whether merging leaves the keys that the new value has, and no others.
    pub retains_keys: bool,
    /// What the type is called in Go, if that is not its own name.
    pub(crate) go_type: Option<&'static str>,
    /// Whether absence is something else than nothing (`false`, 0, "").
    pub(crate) is_pointer: bool,
    /// How the value is owned, if the rules say so.
    grain: Option<Grain>,
}

/// How much of a value has one owner (`managed_fields`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// All of it.
    Whole,
    /// Each field of an object, each key of a map, each element of a set.
    Parts,
    /// Each element of a list, told apart by these fields.
    Keys(&'static [&'static str]),
}

impl Field {
    /// How the value is owned, if the rules say so of the field.
    pub fn stated_grain(&self) -> Option<Grain> {
        self.grain
    }

    /// How the value is owned. Lists are owned whole unless the rules say otherwise.
    pub(crate) fn grain(&self) -> Grain {
        let of_type = self.field_type.object().filter(|name| is_whole(name));
        match (self.grain, &self.field_type) {
            (Some(grain), _) => grain,
            (None, FieldType::List(_)) => Grain::Whole,
            (None, _) if of_type.is_some() => Grain::Whole,
            (None, _) => Grain::Parts,
        }
    }
}

impl Field {
    fn new(field_type: FieldType) -> Field {
        Field {
            field_type,
            is_required: false,
            must_be_filled: false,
            allowed: Vec::new(),
            has_words: false,
            range: None,
            merge_key: None,
            merges_scalars: false,
            retains_keys: false,
            go_type: None,
            is_pointer: false,
            grain: None,
        }
    }
}

type Fields = HashMap<&'static str, Field>;

#[derive(Debug, Default)]
struct Schema {
    types: HashMap<&'static str, Fields>,
    /// By type, what its name begins with in OpenAPI.
    packages: HashMap<&'static str, &'static str>,
    kinds: HashMap<(&'static str, &'static str), &'static str>,
    /// By type, the fields of which there is one at most.
    single: HashMap<&'static str, Vec<&'static str>>,
    /// Types of which one of the fields in `single` must be there.
    choices: BTreeSet<&'static str>,
    /// Types whose values have one owner.
    whole: BTreeSet<&'static str>,
    /// By type, the fields that are never absent.
    present: HashMap<&'static str, Vec<&'static str>>,
    /// By type, the order in which fields are written.
    order: HashMap<&'static str, Vec<&'static str>>,
    /// By type, fields and what must be there with them.
    needs: HashMap<&'static str, Vec<(&'static str, &'static str)>>,
    /// By type, what absent fields get.
    defaults: HashMap<&'static str, Vec<(&'static str, Value)>>,
}

/// Whether Kubernetes 1.36 has this kind, as far as the table goes.
pub fn is_known(api_version: &str, kind: &str) -> bool {
    schema().kinds.contains_key(&(api_version, kind))
}

/// The version of the group in which there is such a kind, if the group that was named is
/// one of Kubernetes' own and has no such kind.
pub fn version_of(api_version: &str, kind: &str) -> Option<&'static str> {
    let known = schema().kinds.keys();
    let is_own = known.clone().any(|(version, _)| *version == api_version);
    let mut others = known.filter(|(_, other)| *other == kind);
    others
        .next()
        .filter(|_| is_own)
        .map(|(version, _)| *version)
}

/// The known kind that is most likely meant by one that is not known, of an API group that
/// is; `None` if nothing is near.
pub fn nearest_kind(api_version: &str, kind: &str) -> Option<&'static str> {
    let group = |version: &str| {
        version
            .split_once('/')
            .map_or("", |(group, _)| group)
            .to_owned()
    };
    let own = group(api_version);
    let kinds: Vec<&'static str> = schema()
        .kinds
        .keys()
        .filter(|(version, _)| group(version) == own)
        .map(|(_, kind)| *kind)
        .collect();
    nearest(kind, kinds.iter().copied()).filter(|near| *near != kind)
}

/// Which rules beyond types an object is checked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rules {
    /// None.
    None,
    /// What values fields may have.
    OfValues,
    /// Also which fields must be there.
    All,
}

/// Checks an object of a kind against the tables, and tidies it for typed decoding:
/// fields that are unknown, of the wrong type or `null` are taken out.
///
/// Knows nothing about kinds that are not in the table; [`is_known`] tells.
pub(crate) fn check(
    rules: Rules,
    api_version: &str,
    kind: &str,
    object: &mut Value,
    findings: &mut Findings,
) {
    let schema = schema();
    if let Some(type_name) = schema.kinds.get(&(api_version, kind)) {
        let check = Check { schema, rules };
        check.check_object(type_name, object, &Here::OBJECT, findings);
    }
}

/// What is wrong with a value of a type of the API, such as `NodeAffinity`: unknown fields
/// and wrong types, whatever the severity that they would have in an object.
pub fn findings_of_type(type_name: &str, value: &Value) -> Vec<Finding> {
    let mut findings = Findings::default();
    let check = Check {
        schema: schema(),
        rules: Rules::None,
    };
    check.check_object(type_name, &mut value.clone(), &Here::OBJECT, &mut findings);
    for finding in &mut findings.0 {
        // It is left out of the copy alone; what comes of it is for the caller to say.
        if finding.message == UNKNOWN_FIELD {
            finding.message = "unknown field".to_owned();
        }
    }
    findings.0
}

/// The type of the objects of a kind; `None` if the kind is not in the table.
pub fn type_of(api_version: &str, kind: &str) -> Option<&'static str> {
    schema().kinds.get(&(api_version, kind)).copied()
}

/// All kinds: API version, kind and type, in alphabetical order.
pub fn kinds() -> Vec<(&'static str, &'static str, &'static str)> {
    let kinds = schema().kinds.iter();
    let mut kinds: Vec<_> = kinds
        .map(|(&(version, kind), &it)| (version, kind, it))
        .collect();
    kinds.sort_unstable();
    kinds
}

/// The fields of a type, in alphabetical order; none if there is no such type.
pub fn fields(type_name: &str) -> Vec<(&'static str, &'static Field)> {
    let fields = schema().types.get(type_name).into_iter().flatten();
    let mut fields: Vec<_> = fields.map(|(name, field)| (*name, field)).collect();
    fields.sort_unstable_by_key(|(name, _)| *name);
    fields
}

/// What the name of a type begins with in OpenAPI, such as `io.k8s.api.core.v1`; empty if it is
/// not a type of the API.
pub fn package(type_name: &str) -> &'static str {
    schema()
        .packages
        .get(type_name)
        .copied()
        .unwrap_or_default()
}

/// Whether values of a type have one owner each (`managed_fields`).
pub fn is_whole(type_name: &str) -> bool {
    schema().whole.contains(type_name)
}

/// What the tables say of a field.
pub(crate) fn field(type_name: &str, name: &str) -> Option<&'static Field> {
    schema().types.get(type_name)?.get(name)
}

/// The fields of a type that are never absent, be they zero.
pub(crate) fn present_fields(type_name: &str) -> &'static [&'static str] {
    schema().present.get(type_name).map_or(&[], Vec::as_slice)
}

/// What absent fields of a type get, whatever else is there.
pub(crate) fn defaults_of(type_name: &str) -> &'static [(&'static str, Value)] {
    schema().defaults.get(type_name).map_or(&[], Vec::as_slice)
}

/// The order in which the API server writes the fields of a type, as far as it is known.
pub(crate) fn field_order(type_name: &str) -> &'static [&'static str] {
    schema().order.get(type_name).map_or(&[], Vec::as_slice)
}

fn schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let mut schema = Schema::default();
        schema.read_types(TYPES);
        schema.read_types(ADMISSION_TYPES);
        schema.read_rules(RULES);
        schema.read_rules(GO);
        schema.read_defaults(DEFAULTS);
        schema
    })
}

impl Schema {
    fn read_types(&mut self, table: &'static str) {
        let mut type_name = "";
        for line in table.lines().filter(|line| !line.starts_with('#')) {
            // A field may be called "type" or "kind"; its line is indented.
            let is_field = line.starts_with(' ');
            let words: Vec<&'static str> = line.split_whitespace().collect();
            match words.as_slice() {
                [name, field_type, required @ ..] if is_field => {
                    let mut field = Field::new(FieldType::parse(field_type));
                    field.is_required = required == ["required"];
                    let fields = self.types.entry(type_name).or_default();
                    fields.insert(*name, field);
                }
                ["kind", api_version, kind, type_name] => {
                    self.kinds.insert((*api_version, *kind), *type_name);
                }
                ["type", name, package @ ..] => {
                    type_name = *name;
                    self.types.entry(type_name).or_default();
                    if let [package] = package {
                        self.packages.insert(type_name, package);
                    }
                }
                _ => {}
            }
        }
    }

    fn read_rules(&mut self, table: &'static str) {
        for line in table.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&'static str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["required", type_name, fields @ ..] => {
                    for field in fields {
                        if let Some(field) = self.field_mut(type_name, field) {
                            field.must_be_filled = true;
                        }
                    }
                }
                ["enum", field, allowed @ ..] => {
                    if let Some(field) = self.rule_target(field) {
                        field.allowed = allowed.to_vec();
                        field.has_words = true;
                    }
                }
                ["words", type_name, fields @ ..] => {
                    for field in fields {
                        if let Some(field) = self.field_mut(type_name, field) {
                            field.has_words = true;
                        }
                    }
                }
                [rule @ ("single" | "choice"), type_name, fields @ ..] => {
                    self.single.insert(*type_name, fields.to_vec());
                    if *rule == "choice" {
                        self.choices.insert(*type_name);
                    }
                }
                ["needs", type_name, field, other] => {
                    self.needs
                        .entry(*type_name)
                        .or_default()
                        .push((*field, *other));
                }
                ["merge", field] => {
                    if let Some(field) = self.rule_target(field) {
                        field.merges_scalars = true;
                    }
                }
                ["merge", field, key] => {
                    if let Some(field) = self.rule_target(field) {
                        field.merge_key = Some(key);
                    }
                }
                ["go", field, go_type] => {
                    if let Some(field) = self.rule_target(field) {
                        field.go_type = Some(go_type);
                    }
                }
                ["present", type_name, fields @ ..] => {
                    self.present.insert(*type_name, fields.to_vec());
                }
                ["pointer", type_name, fields @ ..] => {
                    for field in fields {
                        if let Some(field) = self.field_mut(type_name, field) {
                            field.is_pointer = true;
                        }
                    }
                }
                ["order", type_name, fields @ ..] => {
                    self.order.insert(*type_name, fields.to_vec());
                }
                ["keys", field, keys @ ..] => {
                    let keys: &'static [&'static str] = keys.to_vec().leak();
                    self.set_grain(field, Grain::Keys(keys));
                }
                ["set", field] => self.set_grain(field, Grain::Parts),
                ["whole", type_name] if self.types.contains_key(type_name) => {
                    self.whole.insert(*type_name);
                }
                ["whole", field] => self.set_grain(field, Grain::Whole),
                ["retain", field] => {
                    if let Some(field) = self.rule_target(field) {
                        field.retains_keys = true;
                    }
                }
                ["range", field, min, max] => {
                    if let (Some(field), Ok(min), Ok(max)) =
                        (self.rule_target(field), min.parse(), max.parse())
                    {
                        field.range = Some((min, max));
                    }
                }
                _ => {}
            }
        }
    }

    fn read_defaults(&mut self, table: &'static str) {
        for line in table.lines().filter(|line| !line.starts_with('#')) {
            let target = line.split_once(' ').and_then(|(field, value)| {
                let (type_name, field) = field.rsplit_once('.')?;
                Some((type_name, field, serde_json::from_str(value).ok()?))
            });
            if let Some((type_name, field, value)) = target {
                let defaults = self.defaults.entry(type_name).or_default();
                defaults.push((field, value));
            }
        }
    }

    fn set_grain(&mut self, field: &str, grain: Grain) {
        if let Some(field) = self.rule_target(field) {
            field.grain = Some(grain);
        }
    }

    fn rule_target(&mut self, type_and_field: &str) -> Option<&mut Field> {
        let (type_name, field) = type_and_field.rsplit_once('.')?;
        self.field_mut(type_name, field)
    }

    fn field_mut(&mut self, type_name: &str, field: &str) -> Option<&mut Field> {
        self.types.get_mut(type_name)?.get_mut(field)
    }
}

/// A check of one object.
struct Check {
    schema: &'static Schema,
    /// What of rules.txt counts, too.
    rules: Rules,
}

impl Check {
    fn check_object(
        &self,
        type_name: &str,
        value: &mut Value,
        here: &Here<'_>,
        findings: &mut Findings,
    ) -> bool {
        let Some(fields) = self.schema.types.get(type_name) else {
            return true;
        };
        let Value::Object(map) = value else {
            return mismatch("an object", value, here, findings);
        };
        let mut refused = Vec::new();
        map.retain(|name, value| {
            if value.is_null() {
                return false;
            }
            let here = here.field(name);
            let Some(field) = fields.get(name.as_str()) else {
                unknown_field(name, fields, &here, findings);
                return false;
            };
            let ok = self.check_type(&field.field_type, value, &here, findings)
                && (self.rules == Rules::None || check_rules(field, value, &here, findings));
            if !ok {
                refused.push(name.clone());
            }
            ok
        });
        if self.rules == Rules::All {
            report_missing(fields, map, &refused, here, findings);
            for (field, other) in self.schema.needs.get(type_name).into_iter().flatten() {
                if map.contains_key(*field) && !map.contains_key(*other) {
                    let message = format!("must be there where {field} is");
                    findings.error(&here.field(other), message);
                }
            }
            if self.schema.choices.contains(type_name) {
                let names = &self.schema.single[type_name];
                report_none(names, map, &refused, here, findings);
            }
        }
        if self.rules != Rules::None
            && let Some(fields) = self.schema.single.get(type_name)
        {
            report_several(fields, map, here, findings);
        }
        true
    }

    /// Whether the value has the type; if not, that is reported.
    fn check_type(
        &self,
        field_type: &FieldType,
        value: &mut Value,
        here: &Here<'_>,
        findings: &mut Findings,
    ) -> bool {
        match field_type {
            FieldType::Any => true,
            FieldType::Bool if value.is_boolean() => true,
            FieldType::Double if value.is_number() => true,
            FieldType::String | FieldType::Bytes if value.is_string() => true,
            FieldType::IntOrString if value.is_string() => true,
            FieldType::Int32 => check_int(value, i32::MIN.into(), i32::MAX.into(), here, findings),
            FieldType::Int64 => check_int(value, i64::MIN, i64::MAX, here, findings),
            FieldType::IntOrString if value.is_number() => {
                check_int(value, i32::MIN.into(), i32::MAX.into(), here, findings)
            }
            FieldType::Quantity => check_quantity(value, here, findings),
            FieldType::Time if value.is_string() => check_time(value, here, findings),
            FieldType::Object(type_name) => self.check_object(type_name, value, here, findings),
            FieldType::List(element_type) => self.check_list(element_type, value, here, findings),
            FieldType::Map(value_type) => self.check_map(value_type, value, here, findings),
            scalar => mismatch(scalar.expected(), value, here, findings),
        }
    }

    fn check_list(
        &self,
        element_type: &FieldType,
        value: &mut Value,
        here: &Here<'_>,
        findings: &mut Findings,
    ) -> bool {
        let Value::Array(elements) = value else {
            return mismatch("a list", value, here, findings);
        };
        let mut ok = true;
        for (index, element) in elements.iter_mut().enumerate() {
            if element.is_null() {
                *element = element_type.zero();
            }
            ok &= self.check_type(element_type, element, &here.index(index), findings);
        }
        ok
    }

    fn check_map(
        &self,
        value_type: &FieldType,
        value: &mut Value,
        here: &Here<'_>,
        findings: &mut Findings,
    ) -> bool {
        let Value::Object(map) = value else {
            return mismatch("a map", value, here, findings);
        };
        map.retain(|key, value| {
            if value.is_null() {
                *value = value_type.zero();
            }
            self.check_type(value_type, value, &here.key(key), findings)
        });
        true
    }
}

impl FieldType {
    fn parse(text: &str) -> FieldType {
        let inside = |open, close| text.strip_prefix(open)?.strip_suffix(close);
        if let Some(element) = inside('[', ']') {
            return FieldType::List(Box::new(FieldType::parse(element)));
        }
        if let Some(value) = inside('{', '}') {
            return FieldType::Map(Box::new(FieldType::parse(value)));
        }
        match text {
            "any" => FieldType::Any,
            "bool" => FieldType::Bool,
            "bytes" => FieldType::Bytes,
            "double" => FieldType::Double,
            "int32" => FieldType::Int32,
            "int64" => FieldType::Int64,
            "intOrString" => FieldType::IntOrString,
            "quantity" => FieldType::Quantity,
            "string" => FieldType::String,
            "time" => FieldType::Time,
            type_name => FieldType::Object(type_name.to_owned()),
        }
    }

    /// The name of the type, if it has fields.
    pub(crate) fn object(&self) -> Option<&str> {
        match self {
            FieldType::Object(type_name) => Some(type_name),
            _ => None,
        }
    }

    /// What the API reads `null` as where a value must be.
    pub(crate) fn zero(&self) -> Value {
        match self {
            FieldType::Any => Value::Null,
            FieldType::Bool => Value::Bool(false),
            FieldType::Bytes | FieldType::String | FieldType::Time => Value::String(String::new()),
            FieldType::Double | FieldType::Int32 | FieldType::Int64 => Value::Number(0.into()),
            FieldType::IntOrString => Value::Number(0.into()),
            FieldType::Quantity => Value::String("0".to_owned()),
            FieldType::List(_) => Value::Array(Vec::new()),
            FieldType::Map(_) | FieldType::Object(_) => Value::Object(Map::new()),
        }
    }

    fn expected(&self) -> &'static str {
        match self {
            FieldType::Any => "a value",
            FieldType::Bool => "true or false",
            FieldType::Bytes | FieldType::String => "a string",
            FieldType::Double => "a number",
            FieldType::Int32 | FieldType::Int64 => "a whole number",
            FieldType::IntOrString => "a whole number or a string",
            FieldType::Quantity => "a quantity",
            FieldType::Time => "a time",
            FieldType::List(_) => "a list",
            FieldType::Map(_) => "a map",
            FieldType::Object(_) => "an object",
        }
    }
}

fn found(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(value) => format!("{value}"),
        Value::Number(number) => format!("number {number}"),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a map".to_owned(),
    }
}

/// Reports a wrong type, with the right way to write it where that is clear.
fn mismatch(expected: &str, value: &Value, here: &Here<'_>, findings: &mut Findings) -> bool {
    let suggestion = match (expected, value) {
        ("a string", Value::Bool(_) | Value::Number(_)) => Suggestion::Quote(value.to_string()),
        ("a string", Value::Null) => Suggestion::Text("write it as \"\"".to_owned()),
        ("a whole number" | "a number", Value::String(text))
            if text.trim().parse::<f64>().is_ok() =>
        {
            Suggestion::Text(format!("write it as {}, without quotes", text.trim()))
        }
        ("true or false", Value::String(text)) => match text.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" => Suggestion::Text("write it as true, without quotes".into()),
            "false" | "no" | "off" => Suggestion::Text("write it as false, without quotes".into()),
            _ => Suggestion::None,
        },
        ("a list", Value::Object(_)) => {
            Suggestion::Text("begin each element with \"- \"".to_owned())
        }
        ("an object" | "a map", Value::Array(_)) => {
            Suggestion::Text("leave out the \"- \" before it".to_owned())
        }
        _ => Suggestion::None,
    };
    let message = format!("expected {expected}, found {}", found(value));
    findings.add(Severity::Error, here, message, suggestion);
    false
}

fn check_int(value: &Value, min: i64, max: i64, here: &Here<'_>, findings: &mut Findings) -> bool {
    let Value::Number(number) = value else {
        return mismatch("a whole number", value, here, findings);
    };
    match number.as_i64() {
        Some(number) if (min..=max).contains(&number) => true,
        None if number.is_f64() && number.as_f64().is_some_and(|n| n.fract() != 0.0) => {
            mismatch("a whole number", value, here, findings)
        }
        _ => {
            findings.error(
                here,
                format!("{number} is out of range, from {min} to {max}"),
            );
            false
        }
    }
}

fn check_quantity(value: &Value, here: &Here<'_>, findings: &mut Findings) -> bool {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return mismatch("a quantity such as 500m or 2Gi", value, here, findings),
    };
    if text.parse::<Quantity>().is_ok() {
        return true;
    }
    let message = format!("{text:?} is not a quantity such as 500m, 2 or 2Gi");
    findings.add(Severity::Error, here, message, quantity_suggestion(&text));
    false
}

/// The likely quantity: without spaces, with the suffix in its right letters.
fn quantity_suggestion(text: &str) -> Suggestion {
    const SUFFIXES: [&str; 13] = [
        "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "n", "u", "m", "k", "M", "G", "T",
    ];
    let dense: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let number_end = dense
        .find(|c: char| c.is_alphabetic())
        .unwrap_or(dense.len());
    let (number, suffix) = dense.split_at(number_end);
    let bytes = suffix.strip_suffix(['B', 'b']).unwrap_or(suffix);
    let candidates = SUFFIXES
        .iter()
        .filter(|right| right.eq_ignore_ascii_case(bytes));
    let likely = candidates.map(|right| format!("{number}{right}"));
    match std::iter::once(dense.clone())
        .chain(likely)
        .find(|text| text.parse::<Quantity>().is_ok())
    {
        Some(quantity) => Suggestion::Text(format!("write it as {quantity}")),
        None => Suggestion::None,
    }
}

/// Whether it is an RFC 3339 time, of a day that there is.
fn check_time(value: &Value, here: &Here<'_>, findings: &mut Findings) -> bool {
    const FORM: &[u8] = b"0000-00-00T00:00:00";
    let text = value.as_str().unwrap_or_default();
    let fits = |(byte, form): (u8, &u8)| match form {
        b'0' => byte.is_ascii_digit(),
        b'T' => byte.eq_ignore_ascii_case(&b'T'),
        other => byte == *other,
    };
    let start_fits = text.bytes().zip(FORM).all(fits);
    let zone = text.get(FORM.len()..).unwrap_or_default();
    let zone = zone.strip_prefix('.').map_or(zone, |rest| {
        rest.trim_start_matches(|c: char| c.is_ascii_digit())
    });
    let zone_fits = zone.eq_ignore_ascii_case("Z")
        || (zone.len() == 6
            && zone.starts_with(['+', '-'])
            && zone.as_bytes().get(3) == Some(&b':'));
    let is_of_form = text.len() > FORM.len() && start_fits && zone_fits;
    // Leap seconds are not counted, so no minute has a sixtieth.
    let exists = || text.get(17..19) != Some("60") && text.parse::<jiff::Timestamp>().is_ok();
    if text.is_empty() || (is_of_form && exists()) {
        return true;
    }
    findings.error(
        here,
        format!("{text:?} is not a time such as 2006-01-02T15:04:05Z"),
    );
    false
}

/// Whether the value, which has the right type, may stand in this field.
fn check_rules(field: &Field, value: &Value, here: &Here<'_>, findings: &mut Findings) -> bool {
    if let (Value::Array(elements), false) = (value, field.allowed.is_empty()) {
        let mut ok = true;
        for (index, element) in elements.iter().enumerate() {
            ok &= check_rules(field, element, &here.index(index), findings);
        }
        return ok;
    }
    if let (Value::String(text), allowed @ [_, ..]) = (value, field.allowed.as_slice())
        && !text.is_empty()
        && !allowed.contains(&text.as_str())
    {
        let message = format!("{text:?} is not one of {}", allowed.join(", "));
        let near = nearest(text, allowed.iter().copied());
        findings.add(Severity::Error, here, message, did_you_mean(near));
        return false;
    }
    if let (Some(number), Some((min, max))) = (value.as_i64(), field.range)
        && !(min..=max).contains(&number)
    {
        let bounds = match field.field_type {
            // Nothing beyond can be written in such a field.
            FieldType::Int32 if max == i64::from(i32::MAX) => format!("at least {min}"),
            _ if max == i64::MAX => format!("at least {min}"),
            _ => format!("between {min} and {max}, inclusive"),
        };
        findings.error(here, format!("{number} is out of range: must be {bounds}"));
        return false;
    }
    true
}

fn unknown_field(name: &str, fields: &Fields, here: &Here<'_>, findings: &mut Findings) {
    let near = nearest(name, fields.keys().copied());
    let suggestion = did_you_mean(near);
    findings.add(
        Severity::Warning,
        here,
        UNKNOWN_FIELD.to_owned(),
        suggestion,
    );
}

pub(crate) fn did_you_mean(near: Option<&str>) -> Suggestion {
    near.map_or(Suggestion::None, |near| {
        Suggestion::Text(format!("did you mean {near:?}?"))
    })
}

fn report_none(
    fields: &[&'static str],
    map: &Map<String, Value>,
    refused: &[String],
    here: &Here<'_>,
    findings: &mut Findings,
) {
    let is_given =
        |name: &&str| map.contains_key(*name) || refused.iter().any(|refused| refused == name);
    if !fields.iter().any(is_given) {
        let message = format!("one of these must be given: {}", fields.join(", "));
        findings.error(here, message);
    }
}

fn report_several(
    fields: &[&'static str],
    map: &Map<String, Value>,
    here: &Here<'_>,
    findings: &mut Findings,
) {
    let given: Vec<&str> = fields
        .iter()
        .copied()
        .filter(|name| map.contains_key(*name))
        .collect();
    if let [first, _, ..] = given.as_slice() {
        let message = format!("only one may be given, found {}", given.join(", "));
        findings.error(&here.field(first), message);
    }
}

fn report_missing(
    fields: &Fields,
    map: &Map<String, Value>,
    refused: &[String],
    here: &Here<'_>,
    findings: &mut Findings,
) {
    let absent = |name: &str| match map.get(name) {
        None => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(list)) => list.is_empty(),
        Some(_) => false,
    };
    let mut missing: Vec<&str> = fields
        .iter()
        .filter(|(name, field)| field.must_be_filled && absent(name))
        .map(|(name, _)| *name)
        .filter(|name| !refused.iter().any(|refused| refused == name))
        .collect();
    missing.sort_unstable();
    for name in missing {
        findings.error(&here.field(name), "required field is missing or empty");
    }
}

/// The name that was likely meant: the same but for case, else the nearest by edit
/// distance if it is near enough to be a slip.
pub fn nearest<'a>(
    name: &str,
    candidates: impl Iterator<Item = &'a str> + Clone,
) -> Option<&'a str> {
    if let Some(same) = candidates
        .clone()
        .find(|other| other.eq_ignore_ascii_case(name))
    {
        return Some(same);
    }
    const NAME_BYTES_MAX: usize = 100;
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let allowed = 1 + name.len() / 5;
    let near_in_length = candidates.filter(|other| other.len().abs_diff(name.len()) <= allowed);
    let distances = near_in_length.map(|other| (edit_distance(name, other), other));
    distances
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, other)| other)
}

/// How many letters must be put in, taken out, replaced or swapped with their neighbour
/// to make one name of the other; case does not count.
fn edit_distance(left: &str, right: &str) -> usize {
    let left = left.to_ascii_lowercase().into_bytes();
    let right = right.to_ascii_lowercase().into_bytes();
    let width = right.len() + 1;
    let mut before_last: Vec<usize> = vec![0; width];
    let mut last: Vec<usize> = (0..width).collect();
    for (row, a) in left.iter().enumerate() {
        let mut current = Vec::with_capacity(width);
        current.push(row + 1);
        for (column, b) in right.iter().enumerate() {
            let replaced = last[column] + usize::from(a != b);
            let mut best = replaced.min(last[column + 1] + 1).min(current[column] + 1);
            let swapped = row > 0 && column > 0 && left[row - 1] == *b && right[column - 1] == *a;
            if swapped {
                best = best.min(before_last[column - 1] + 1);
            }
            current.push(best);
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_that_a_field_names_is_in_the_table() {
        fn names(field_type: &FieldType) -> Option<&str> {
            match field_type {
                FieldType::List(inner) | FieldType::Map(inner) => names(inner),
                FieldType::Object(name) => Some(name),
                _ => None,
            }
        }
        let schema = schema();
        for (type_name, fields) in &schema.types {
            for (field_name, field) in fields {
                if let Some(name) = names(&field.field_type) {
                    assert!(
                        schema.types.contains_key(name),
                        "{type_name}.{field_name}: {name}"
                    );
                }
            }
        }
        for type_name in schema.kinds.values() {
            assert!(schema.types.contains_key(type_name), "{type_name}");
        }
    }

    #[test]
    fn every_rule_is_about_a_field_of_the_table() {
        let mut schema = Schema::default();
        schema.read_types(TYPES);
        let tables = RULES.lines().chain(GO.lines());
        for line in tables.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let targets: Vec<String> = match words.as_slice() {
                [
                    "required" | "single" | "choice" | "needs" | "present" | "pointer" | "order"
                    | "words",
                    type_name,
                    fields @ ..,
                ] => fields
                    .iter()
                    .map(|field| format!("{type_name}.{field}"))
                    .collect(),
                ["whole", type_name] if schema.types.contains_key(type_name) => Vec::new(),
                [
                    "enum" | "range" | "merge" | "retain" | "go" | "keys" | "set" | "whole",
                    field,
                    ..,
                ] => vec![(*field).to_owned()],
                other => panic!("not a rule: {other:?}"),
            };
            for target in targets {
                assert!(schema.rule_target(&target).is_some(), "{target}");
            }
        }
    }

    #[test]
    fn every_default_is_of_a_field_of_the_table_and_of_its_type() {
        let lines = DEFAULTS
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        let defaults = &schema().defaults;
        assert_eq!(
            defaults.values().map(Vec::len).sum::<usize>(),
            lines.count()
        );
        for (type_name, fields) in defaults {
            for (name, value) in fields {
                let mut object = serde_json::json!({ *name: value });
                let mut findings = Findings::default();
                let check = Check {
                    schema: schema(),
                    rules: Rules::OfValues,
                };
                assert!(schema().types.contains_key(type_name), "{type_name}");
                check.check_object(type_name, &mut object, &Here::OBJECT, &mut findings);
                assert!(findings.0.is_empty(), "{type_name}.{name}");
            }
        }
    }

    #[test]
    fn slips_find_the_name_that_was_meant() {
        let fields = [
            "schedulerName",
            "nodeSelector",
            "containers",
            "tolerations",
            "os",
        ];
        let near = |name| nearest(name, fields.iter().copied());
        assert_eq!(near("schedulername"), Some("schedulerName"));
        assert_eq!(near("nodeSelctor"), Some("nodeSelector"));
        assert_eq!(near("toleratoins"), Some("tolerations"));
        assert_eq!(near("container"), Some("containers"));
        assert_eq!(near("replicas"), None);
        assert_eq!(near(&"x".repeat(1_000_000)), None);
    }

    #[test]
    fn quantities_are_put_right() {
        let suggestion = |text| match quantity_suggestion(text) {
            Suggestion::Text(text) => text,
            _ => String::new(),
        };
        assert_eq!(suggestion("2 Gi"), "write it as 2Gi");
        assert_eq!(suggestion("2GB"), "write it as 2G");
        assert_eq!(suggestion("500MiB"), "write it as 500Mi");
        assert_eq!(suggestion("2gi"), "write it as 2Gi");
        assert_eq!(suggestion("lots"), "");
    }
}
