//! Which form of discovery a client asks for, by the header `Accept`.
//!
//! Clients ask for the aggregated form and name the plain one as what they would take else:
//! `application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,…,application/json`.

/// A form of discovery documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One document for each group and version.
    Plain,
    /// All groups and versions with their resources in one document.
    Aggregated(AggregatedVersion),
}

/// A version of `apidiscovery.k8s.io`, the group of the aggregated form. They differ in their
/// name alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregatedVersion {
    /// Of clients since 1.30.
    V2,
    /// Of clients since 1.26.
    V2Beta1,
}

impl AggregatedVersion {
    pub(super) fn api_version(self) -> &'static str {
        match self {
            AggregatedVersion::V2 => "apidiscovery.k8s.io/v2",
            AggregatedVersion::V2Beta1 => "apidiscovery.k8s.io/v2beta1",
        }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            AggregatedVersion::V2 => {
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            }
            AggregatedVersion::V2Beta1 => {
                "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
            }
        }
    }
}

impl Form {
    /// The form that the header asks for, that with the highest `q` and of several the first;
    /// `None` if there is none that can be given, which is answered by 406. An empty header takes
    /// anything.
    pub fn accepted(accept: &str) -> Option<Form> {
        if accept.trim().is_empty() {
            return Some(Form::Plain);
        }
        let mut best: Option<(f32, Form)> = None;
        for (quality, form) in accept.split(',').filter_map(read_range) {
            if quality > best.map_or(0.0, |(highest, _)| highest) {
                best = Some((quality, form));
            }
        }
        best.map(|(_, form)| form)
    }
}

/// Quality and form of a media range; `None` if it is none that we give.
fn read_range(range: &str) -> Option<(f32, Form)> {
    let mut parts = range.split(';').map(str::trim);
    let media_type = parts.next()?.to_ascii_lowercase();
    if !matches!(
        media_type.as_str(),
        "application/json" | "application/*" | "*/*"
    ) {
        return None;
    }
    let (mut quality, mut target) = (1.0, ["", "", ""]);
    for (name, value) in parts.filter_map(|it| it.split_once('=')) {
        match name.trim().to_ascii_lowercase().as_str() {
            "q" => quality = value.trim().parse().unwrap_or(0.0),
            "as" => target[0] = value.trim(),
            "g" => target[1] = value.trim(),
            "v" => target[2] = value.trim(),
            _ => {}
        }
    }
    let form = match target {
        ["", _, _] => Form::Plain,
        ["APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2"] => {
            Form::Aggregated(AggregatedVersion::V2)
        }
        ["APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2beta1"] => {
            Form::Aggregated(AggregatedVersion::V2Beta1)
        }
        _ => return None,
    };
    Some((quality, form))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_that_can_be_given_is() {
        let v2 = Some(Form::Aggregated(AggregatedVersion::V2));
        let beta = Some(Form::Aggregated(AggregatedVersion::V2Beta1));
        let plain = Some(Form::Plain);
        let v2_text = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let beta_text = v2_text.replace("v=v2", "v=v2beta1");
        let cases = [
            ("", plain),
            ("*/*", plain),
            ("application/json, */*", plain),
            ("application/vnd.kubernetes.protobuf, */*", plain),
            (&format!("{v2_text},{beta_text},application/json"), v2),
            (&format!("{beta_text},application/json"), beta),
            (&format!("{v2_text};q=0.5,application/json;q=0.9"), plain),
            (&format!("{v2_text};q=0,application/json;q=0.1"), plain),
            (&v2_text.replace("v2", "v3"), None),
            ("application/xml", None),
            ("application/json;q=0", None),
            ("application/json;q=NaN", None),
            (";;,=,;q=", None),
        ];
        for (accept, expected) in cases {
            assert_eq!(Form::accepted(accept), expected, "{accept}");
        }
    }
}
