//! Numbers that people write as a share of some whole: `25%`.

use outrank_api::types::IntOrString;

/// A number, or a share of the whole; `None` if the text is not a percentage. What is beyond the
/// range of numbers counts as its end.
///
/// Source: `pkg/util/intstr` of `k8s.io/apimachinery`, Kubernetes 1.36.
pub(crate) fn scaled(number: &IntOrString, whole: i32, round_up: bool) -> Option<i64> {
    match number {
        IntOrString::Int(number) => Some(i64::from(*number)),
        IntOrString::String(share) => {
            let percent: i64 = share.strip_suffix('%')?.parse().ok()?;
            let product = percent.saturating_mul(i64::from(whole));
            let rounding = if round_up { 99 } else { 0 };
            Some(product.saturating_add(rounding).div_euclid(100))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_and_do_not_overflow() {
        let share = |text: &str, round_up| scaled(&IntOrString::String(text.into()), 5, round_up);
        assert_eq!(
            (share("25%", true), share("25%", false)),
            (Some(2), Some(1))
        );
        assert_eq!((share("25", true), share("many%", true)), (None, None));
        assert!(share("9223372036854775807%", true).is_some());
        assert_eq!(scaled(&IntOrString::Int(-3), 5, true), Some(-3));
    }
}
