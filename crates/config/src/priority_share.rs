//! Arguments of PriorityShare, a plugin that kube-scheduler does not have.

use outrank_api::names::{dns1123_label_errors, dns1123_subdomain_errors};
use outrank_api::pod_resources::is_scalar_resource_name;
use outrank_api::quantity::{Format, Quantity};
use outrank_engine::plugins::priority_share::{LimitedShare, ShareLimit};
use outrank_engine::shares::SharePods;
use serde_json::Value;

use crate::ConfigError;
use crate::fields::Fields;

/// Reads the shares of the arguments. Those that something is wrong with are left out.
pub(crate) fn read(fields: &mut Fields<'_>, errors: &mut Vec<ConfigError>) -> Vec<LimitedShare> {
    let list_path = fields.path("shares");
    let list = fields.list("shares", errors).map_or(&[][..], |it| it.1);
    if list.is_empty() {
        let message = "at least one share must be specified".to_owned();
        let path = list_path.clone();
        errors.push(ConfigError { path, message });
    }
    let mut shares: Vec<(usize, LimitedShare)> = Vec::new();
    for (index, value) in list.iter().enumerate() {
        let path = format!("{list_path}[{index}]");
        let Some(share) = read_share(value, &path, errors) else {
            continue;
        };
        let is_same = |other: &LimitedShare| {
            (&other.pods, &other.namespace, &other.resource)
                == (&share.pods, &share.namespace, &share.resource)
        };
        if let Some((first, _)) = shares.iter().find(|(_, other)| is_same(other)) {
            let message = format!("is of the same pods and resource as {list_path}[{first}]");
            errors.push(ConfigError { path, message });
        }
        shares.push((index, share));
    }
    shares.into_iter().map(|(_, share)| share).collect()
}

fn read_share(value: &Value, path: &str, errors: &mut Vec<ConfigError>) -> Option<LimitedShare> {
    let mut fields = Fields::of(value, path, errors)?;
    let pods = read_pods(&mut fields, path, errors);
    let namespace = read_name(&mut fields, "namespace", dns1123_label_errors, errors);
    let resource = read_resource(&mut fields, errors);
    let limit = read_limit(&mut fields, resource.as_deref(), errors);
    fields.finish(errors);
    Some(LimitedShare {
        pods: pods?,
        namespace,
        resource: resource?,
        limit: limit?,
    })
}

/// Either a priority class or a range of priorities, one end of which may be open.
fn read_pods(
    fields: &mut Fields<'_>,
    path: &str,
    errors: &mut Vec<ConfigError>,
) -> Option<SharePods> {
    let class = read_name(
        fields,
        "priorityClassName",
        dns1123_subdomain_errors,
        errors,
    );
    let least = read_priority(fields, "minPriority", errors);
    let most = read_priority(fields, "maxPriority", errors);
    let mut refuse = |path: String, message: String| {
        errors.push(ConfigError { path, message });
        None
    };
    match (class, least, most) {
        (Some(class), None, None) => Some(SharePods::PriorityClass(class)),
        (Some(_), _, _) => {
            let message = "cannot have priorityClassName beside minPriority or maxPriority";
            refuse(path.to_owned(), message.to_owned())
        }
        (None, None, None) => {
            let message = "must have priorityClassName, or minPriority, maxPriority or both";
            refuse(path.to_owned(), message.to_owned())
        }
        (None, Some(least), Some(most)) if least > most => refuse(
            fields.path("minPriority"),
            format!("{least} must not be above maxPriority, which is {most}"),
        ),
        (None, least, most) => Some(SharePods::Priorities {
            least: least.unwrap_or(i32::MIN),
            most: most.unwrap_or(i32::MAX),
        }),
    }
}

fn read_priority(
    fields: &mut Fields<'_>,
    name: &str,
    errors: &mut Vec<ConfigError>,
) -> Option<i32> {
    let (path, given) = fields.integer(name, errors)?;
    let priority = i32::try_from(given);
    if priority.is_err() {
        let (least, most) = (i32::MIN, i32::MAX);
        let message = format!("{given} is out of range, from {least} to {most}");
        errors.push(ConfigError { path, message });
    }
    // What is out of range counts as given.
    Some(priority.unwrap_or(if given < 0 { i32::MIN } else { i32::MAX }))
}

fn read_name(
    fields: &mut Fields<'_>,
    name: &str,
    mistakes: fn(&str) -> Vec<String>,
    errors: &mut Vec<ConfigError>,
) -> Option<String> {
    let (path, given) = fields.text(name, errors)?;
    let mistakes = mistakes(given).into_iter();
    errors.extend(mistakes.map(|mistake| ConfigError {
        path: path.clone(),
        message: format!("{given:?}: {mistake}"),
    }));
    Some(given.to_owned())
}

fn read_resource(fields: &mut Fields<'_>, errors: &mut Vec<ConfigError>) -> Option<String> {
    let path = fields.path("resource");
    let resource = fields.text("resource", errors).map_or("", |it| it.1);
    let message = match resource {
        "" => "is required".to_owned(),
        "cpu" | "memory" | "ephemeral-storage" => return Some(resource.to_owned()),
        _ if is_scalar_resource_name(resource) => return Some(resource.to_owned()),
        _ => format!(
            "{resource:?} is not supported: it must be cpu, memory, ephemeral-storage, hugepages \
             or an extended resource such as nvidia.com/gpu"
        ),
    };
    errors.push(ConfigError { path, message });
    None
}

fn read_limit(
    fields: &mut Fields<'_>,
    resource: Option<&str>,
    errors: &mut Vec<ConfigError>,
) -> Option<ShareLimit> {
    let path = fields.path("limit");
    let given = fields.take("limit").map(|(_, value)| value);
    let limit = match given {
        None | Some(Value::Null) => Err("is required".to_owned()),
        Some(Value::String(text)) => limit(text, resource),
        Some(Value::Number(number)) => limit(&number.to_string(), resource),
        Some(other) => Err(format!(
            "expected a percentage such as \"50%\" or a quantity such as 32, found {other}"
        )),
    };
    let refuse = |message| errors.push(ConfigError { path, message });
    limit.map_err(refuse).ok()
}

/// A limit of a resource; `None` if it is not known of which.
fn limit(text: &str, resource: Option<&str>) -> Result<ShareLimit, String> {
    if let Some(percentage) = text.strip_suffix('%') {
        let percentage: i64 = percentage
            .parse()
            .map_err(|_| format!("{text:?}: expected a whole number of percent"))?;
        let in_range = u8::try_from(percentage).ok().filter(|it| *it <= 100);
        let out_of_range = || format!("{text}: not in valid range [0%, 100%]");
        return in_range.map(ShareLimit::Percent).ok_or_else(out_of_range);
    }
    let quantity: Quantity = text
        .parse()
        .map_err(|error| format!("{text:?} is neither a percentage nor a quantity: {error}"))?;
    if quantity.sign() < 0 {
        return Err(format!("{text}: must not be negative"));
    }
    let (units, counted, what) = match resource {
        Some("cpu") => {
            let milli = quantity.milli_value();
            let counted = Quantity::from_milli(milli, Format::DecimalSi);
            (milli, counted, "thousandths")
        }
        _ => {
            let value = quantity.value();
            let counted = Quantity::from_value(value, Format::DecimalSi);
            (value, counted, "units")
        }
    };
    // A limit that is not what was written would surprise.
    if counted != quantity {
        return Err(format!(
            "{text}: must be a whole number of {what} below 2^63"
        ));
    }
    Ok(ShareLimit::Amount(units))
}
