//! Mistakes as they are found, and the small checks that all kinds share.

use serde_json::Value;

use crate::diagnostic::Here;
use crate::field_error::{BadValue, FieldError};
use crate::fields_of::FieldsOf;
use crate::names::{self, NameRule, label_key_errors, label_value_errors};

/// Mistakes in the order in which the API server reports them.
#[derive(Debug, Default)]
pub(super) struct Errors(pub(super) Vec<FieldError>);

/// A check of a text: the rules that it breaks.
pub(super) type TextRule = fn(&str) -> Vec<String>;

pub(super) const NOT_NEGATIVE: &str = "must be greater than or equal to 0";
pub(super) const IMMUTABLE: &str = "field is immutable";

impl Errors {
    pub(super) fn required(&mut self, here: &Here<'_>, detail: impl Into<String>) {
        self.0.push(FieldError::required(here, detail));
    }

    pub(super) fn invalid(
        &mut self,
        here: &Here<'_>,
        value: impl Into<BadValue>,
        detail: impl Into<String>,
    ) {
        self.0.push(FieldError::invalid(here, value, detail));
    }

    pub(super) fn forbidden(&mut self, here: &Here<'_>, detail: impl Into<String>) {
        self.0.push(FieldError::forbidden(here, detail));
    }

    pub(super) fn duplicate(&mut self, here: &Here<'_>, value: impl Into<BadValue>) {
        self.0.push(FieldError::duplicate(here, value));
    }

    pub(super) fn not_found(&mut self, here: &Here<'_>, value: &str) {
        self.0.push(FieldError::not_found(here, value, ""));
    }

    pub(super) fn not_supported(
        &mut self,
        here: &Here<'_>,
        value: impl Into<BadValue>,
        supported: &[&str],
    ) {
        self.0
            .push(FieldError::not_supported(here, value, supported));
    }

    /// A text that must keep a rule; each breach is a mistake.
    pub(super) fn text(&mut self, rule: TextRule, text: &str, here: &Here<'_>) {
        for broken in rule(text) {
            self.invalid(here, text, broken);
        }
    }

    /// A text that must be there and keep a rule.
    pub(super) fn required_text(&mut self, rule: TextRule, text: &str, here: &Here<'_>) {
        match text {
            "" => self.required(here, ""),
            text => self.text(rule, text, here),
        }
    }

    /// A text that must keep a rule, if it is there.
    pub(super) fn optional_text(&mut self, rule: TextRule, text: &str, here: &Here<'_>) {
        if !text.is_empty() {
            self.text(rule, text, here);
        }
    }

    /// A word that must be there and be one of these.
    pub(super) fn required_word(&mut self, word: &str, supported: &[&str], here: &Here<'_>) {
        match word {
            "" => self.required(here, ""),
            word => self.word(word, supported, here),
        }
    }

    /// A word that must be one of these.
    pub(super) fn word(&mut self, word: &str, supported: &[&str], here: &Here<'_>) {
        if !supported.contains(&word) {
            self.not_supported(here, word, supported);
        }
    }

    /// A number that must not be below zero, if it is there.
    pub(super) fn not_negative(&mut self, object: &Value, field: &str, here: &Here<'_>) {
        if let Some(number) = object.number(field)
            && number < 0
        {
            self.invalid(&here.field(field), number, NOT_NEGATIVE);
        }
    }

    /// Labels: each key and each value on its own.
    pub(super) fn labels(&mut self, object: &Value, field: &str, here: &Here<'_>) {
        let here = here.field(field);
        for (key, value) in object.entries(field) {
            self.text(label_key_errors, key, &here);
            self.text(
                label_value_errors,
                value.as_str().unwrap_or_default(),
                &here,
            );
        }
    }

    /// Annotations: their keys, and how long they are together.
    pub(super) fn annotations(&mut self, object: &Value, field: &str, here: &Here<'_>) {
        let here = here.field(field);
        let mut bytes = 0;
        for (key, value) in object.entries(field) {
            for broken in label_key_errors(&key.to_lowercase()) {
                self.invalid(&here, key, broken);
            }
            bytes += key.len() + value.as_str().unwrap_or_default().len();
        }
        if bytes > crate::metadata::ANNOTATIONS_BYTES_MAX {
            let max = crate::metadata::ANNOTATIONS_BYTES_MAX;
            self.0.push(FieldError::too_long(&here, max));
        }
    }

    /// A field that may not change.
    pub(super) fn immutable(&mut self, new: &Value, old: &Value, field: &str, here: &Here<'_>) {
        let (new, old) = (new.part(field), old.part(field));
        if new != old {
            let value = new.unwrap_or(&Value::Null);
            self.invalid(&here.field(field), value, IMMUTABLE);
        }
    }
}

/// What is wrong with a DNS label.
pub(super) fn dns_label(name: &str) -> Vec<String> {
    NameRule::DnsLabel.errors(name)
}

/// What is wrong with a DNS subdomain.
pub(super) fn dns_subdomain(name: &str) -> Vec<String> {
    NameRule::DnsSubdomain.errors(name)
}

/// What is wrong with a number that is or should be one of a port.
pub(super) fn port_number(number: i64, here: &Here<'_>, errors: &mut Errors) {
    if !(1..=65535).contains(&number) {
        errors.invalid(here, number, "must be between 1 and 65535, inclusive");
    }
}

/// What is wrong with a port that is a number or the name of one.
pub(super) fn port_number_or_name(port: Option<&Value>, here: &Here<'_>, errors: &mut Errors) {
    match port {
        Some(Value::String(name)) => errors.text(names::port_name_errors, name, here),
        port => port_number(port.and_then(Value::as_i64).unwrap_or(0), here, errors),
    }
}

/// What is wrong with a number, or a share in percent, that may not be below zero.
pub(super) fn count_or_percent(value: &Value, here: &Here<'_>, errors: &mut Errors) {
    match value {
        Value::String(share) => errors.text(names::percent_errors, share, here),
        value => {
            if value.as_i64().is_some_and(|number| number < 0) {
                errors.invalid(here, value, NOT_NEGATIVE);
            }
        }
    }
}

/// What is wrong with a share of more than all.
pub(super) fn at_most_all(value: &Value, here: &Here<'_>, errors: &mut Errors) {
    if percent_of(value).is_some_and(|percent| percent > 100) {
        errors.invalid(here, value, "must not be greater than 100%");
    }
}

/// The number in a share; `None` if it is none. What is too long to be read is large.
fn percent_of(value: &Value) -> Option<u64> {
    let digits = value.as_str()?.strip_suffix('%')?;
    let are_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    are_digits.then(|| digits.parse().unwrap_or(u64::MAX))
}

/// Whether a number or a share is zero. Texts that are neither are, too.
pub(super) fn is_zero_count(value: Option<&Value>) -> bool {
    match value {
        Some(Value::String(text)) => match percent_of(&Value::from(text.as_str())) {
            Some(percent) => percent == 0,
            None => text.parse::<i64>().unwrap_or(0) == 0,
        },
        value => value.and_then(Value::as_i64).unwrap_or(0) == 0,
    }
}

/// What is wrong with an IP address.
pub(super) fn ip(text: &str, here: &Here<'_>, errors: &mut Errors) {
    if text.parse::<std::net::IpAddr>().is_err() {
        let rule = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        errors.invalid(here, text, rule);
    }
}

/// What is wrong with a range of IP addresses.
pub(super) fn cidr(text: &str, here: &Here<'_>, errors: &mut Errors) {
    let is_valid = text.split_once('/').is_some_and(|(address, length)| {
        let bits_max = match address.parse::<std::net::IpAddr>() {
            Ok(std::net::IpAddr::V4(_)) => 32,
            Ok(std::net::IpAddr::V6(_)) => 128,
            Err(_) => return false,
        };
        length.parse::<u8>().is_ok_and(|bits| bits <= bits_max)
    });
    if !is_valid {
        let rule = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        errors.invalid(here, text, rule);
    }
}

/// What is wrong with a path that must not leave the place it starts from.
pub(super) fn no_back_steps(path: &str, here: &Here<'_>, errors: &mut Errors) {
    if path.split('/').any(|step| step == "..") {
        errors.invalid(here, path, "must not contain '..'");
    }
}

/// What is wrong with a path that must be relative and lead downwards.
pub(super) fn descending_path(path: &str, here: &Here<'_>, errors: &mut Errors) {
    if path.starts_with('/') {
        errors.invalid(here, path, "must be a relative path");
    }
    no_back_steps(path, here, errors);
}

/// What is wrong with the number of a user or a group.
pub(super) fn identity(object: &Value, field: &str, here: &Here<'_>, errors: &mut Errors) {
    if let Some(id) = object.number(field)
        && !(0..=i64::from(i32::MAX)).contains(&id)
    {
        errors.invalid(&here.field(field), id, between(0, i32::MAX.into()));
    }
}

/// The rule that a number is in a range.
pub(super) fn between(min: i64, max: i64) -> String {
    format!("must be between {min} and {max}, inclusive")
}
