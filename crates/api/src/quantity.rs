//! Amounts of resources: `500m`, `2Gi`, `1e3`.
//!
//! A quantity is a decimal fixed-point number with a notation. It is written as
//! digits with an optional fraction and a suffix: a decimal one (`n u m k M G T
//! P E`), a binary one (`Ki Mi Gi Ti Pi Ei`) or a power of ten (`e3`). The
//! notation, called the *format*, is remembered and used again when the quantity
//! is printed.
//!
//! Printing is *canonical*: no fraction, and the suffix as large as it can be
//! without one (`1.5Gi` becomes `1536Mi`). A binary quantity that is no integer or
//! below 1024 is printed in decimal.
//!
//! The behaviour, with all its edges, is that of `k8s.io/apimachinery/pkg/api/resource`
//! in Kubernetes 1.36:
//!
//! * amounts finer than `1n` are rounded up (away from zero) to `1n`;
//! * binary amounts are capped at 2^63-1, decimal ones are not;
//! * [`Quantity::value`] and its kin round up, and wrap around or are 0 where the result
//!   does not fit an `i64`;
//! * a text that needs no conversion is printed as it was written, so `+5`, `5.` and
//!   `1.500` stay what they are.
//!
//! Numbers of up to 18 digits are *short*: an `i64` and a power of ten, without a
//! heap allocation. *Long* ones hold a big integer. The difference shows at the edges
//! of upstream's arithmetic, and therefore here.
//!
//! Two limits of this implementation keep the cost linear: a text may have
//! [`MAX_TEXT_LEN`] bytes, and an amount [`MAX_INTEGER_DIGITS`] digits before the
//! decimal point (`1e1000000000` is refused; upstream takes it and computes nonsense).

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{AddAssign, Neg, SubAssign};
use std::str::FromStr;

use num_bigint::{BigInt, Sign};
use num_traits::{Signed, ToPrimitive, Zero};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};

/// Longest text of a quantity, in bytes.
pub const MAX_TEXT_LEN: usize = 1024;

/// Most digits that an amount may have before the decimal point.
pub const MAX_INTEGER_DIGITS: i64 = 1000;

/// The power of ten of the finest amount, `1n`.
const NANO: i32 = -9;

/// Most digits of a short number: every number of 18 digits fits an `i64`.
const SHORT_DIGITS: usize = 18;

/// The notation of a quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// `12M`: suffixes for powers of 1000.
    #[default]
    DecimalSi,
    /// `12Mi`: suffixes for powers of 1024.
    BinarySi,
    /// `12e6`: a power of ten.
    DecimalExponent,
}

impl Format {
    /// The API's name of the format: `DecimalSI`, `BinarySI` or `DecimalExponent`.
    pub fn name(self) -> &'static str {
        match self {
            Format::DecimalSi => "DecimalSI",
            Format::BinarySi => "BinarySI",
            Format::DecimalExponent => "DecimalExponent",
        }
    }
}

/// Why a text is no quantity. The first three read as upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuantityError {
    /// The text is not a number followed by a suffix.
    Format,
    /// The number has no digits.
    Numeric,
    /// The suffix is unknown.
    Suffix,
    /// Beyond [`MAX_TEXT_LEN`] or [`MAX_INTEGER_DIGITS`].
    TooLarge,
}

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QuantityError::Format => f.write_str(
                "quantities must match the regular expression \
                 '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            ),
            QuantityError::Numeric => f.write_str("unable to parse numeric part of quantity"),
            QuantityError::Suffix => f.write_str("unable to parse quantity's suffix"),
            QuantityError::TooLarge => write!(
                f,
                "quantities may have at most {MAX_TEXT_LEN} characters and \
                 {MAX_INTEGER_DIGITS} digits before the decimal point"
            ),
        }
    }
}

impl std::error::Error for QuantityError {}

/// An amount of a resource. See the [module](self).
///
/// Equality, order and hash look at the amount alone: `1`, `1000m` and `1e0` are equal.
#[derive(Clone, Default)]
pub struct Quantity {
    /// The amount is `mantissa * 10^scale`, unless `extra` holds a long number.
    mantissa: i64,
    scale: i32,
    format: Format,
    extra: Option<Box<Extra>>,
}

/// What few quantities have, kept out of line so that the others stay small.
#[derive(Clone, Default)]
struct Extra {
    /// A long number, in place of `mantissa`.
    long: Option<BigInt>,
    /// The text as written, where it differs from the canonical form but is to be kept.
    written: Option<Box<str>>,
}

impl Quantity {
    /// The amount `value`.
    pub fn from_value(value: i64, format: Format) -> Self {
        Self::short(value, 0, format)
    }

    /// The amount `milli / 1000`.
    pub fn from_milli(milli: i64, format: Format) -> Self {
        Self::short(milli, -3, format)
    }

    fn short(mantissa: i64, scale: i32, format: Format) -> Self {
        Self {
            mantissa,
            scale,
            format,
            extra: None,
        }
    }

    fn long(unscaled: BigInt, scale: i32, format: Format) -> Self {
        let extra = Extra {
            long: Some(unscaled),
            written: None,
        };
        Self {
            mantissa: 0,
            scale,
            format,
            extra: Some(Box::new(extra)),
        }
    }

    /// The notation.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The amount in whole units, rounded up (see [`Self::scaled_value`]).
    pub fn value(&self) -> i64 {
        self.scaled_value(0)
    }

    /// The amount in thousandths, rounded up (see [`Self::scaled_value`]).
    pub fn milli_value(&self) -> i64 {
        self.scaled_value(-3)
    }

    /// The amount in units of `10^scale`, rounded up.
    ///
    /// Short numbers round away from zero, long ones towards positive infinity. A result
    /// that does not fit is whatever upstream makes of it on 64-bit x86: wrapped around,
    /// or 0 for some powers of ten that a short number is multiplied with.
    pub fn scaled_value(&self, scale: i32) -> i64 {
        match self.long_part() {
            Some(unscaled) => scaled_long(unscaled, self.scale, scale),
            None if self.scale < scale => {
                round_short(self.mantissa, power_difference(scale, self.scale)).0
            }
            None => raise_or_overflow(self.mantissa, power_difference(self.scale, scale)),
        }
    }

    /// The amount, if it is a short integer written without fraction that fits.
    pub fn as_i64(&self) -> Option<i64> {
        if self.long_part().is_some() || self.scale < 0 {
            return None;
        }
        raise_short(self.mantissa, self.scale.unsigned_abs())
    }

    /// Whether the amount is zero.
    pub fn is_zero(&self) -> bool {
        self.sign() == 0
    }

    /// -1, 0 or 1 for amounts below, at and above zero.
    pub fn sign(&self) -> i32 {
        match self.long_part() {
            Some(unscaled) => match unscaled.sign() {
                Sign::Minus => -1,
                Sign::NoSign => 0,
                Sign::Plus => 1,
            },
            None => self.mantissa.signum() as i32,
        }
    }

    /// Rounds away from zero to a multiple of `10^scale`; whether nothing was lost.
    pub fn round_up(&mut self, scale: i32) -> bool {
        if let Some(unscaled) = self.long_part() {
            let (rounded, exact) = round_long(unscaled, self.scale, scale);
            *self = Self::long(rounded, scale, self.format);
            return exact;
        }
        if self.scale >= scale {
            return true;
        }
        let (rounded, exact) = round_short(self.mantissa, power_difference(scale, self.scale));
        *self = Self::short(rounded, scale, self.format);
        exact
    }

    fn long_part(&self) -> Option<&BigInt> {
        self.extra.as_ref()?.long.as_ref()
    }

    fn written(&self) -> Option<&str> {
        self.extra.as_ref()?.written.as_deref()
    }

    /// The amount is this number times `10^scale`.
    fn unscaled(&self) -> BigInt {
        self.long_part()
            .cloned()
            .unwrap_or_else(|| BigInt::from(self.mantissa))
    }

    /// Adds `other`, or subtracts it, after upstream's rules for the format.
    fn accumulate(&mut self, other: &Self, subtract: bool) {
        let format = if self.is_zero() {
            other.format
        } else {
            self.format
        };
        let both_short = self.long_part().is_none() && other.long_part().is_none();
        let short = both_short
            .then(|| add_short(self, other, subtract))
            .flatten();
        *self = if let Some((mantissa, scale)) = short {
            Self::short(mantissa, scale, format)
        } else {
            let scale = self.scale.min(other.scale);
            let mut sum = at_scale(self.unscaled(), self.scale, scale);
            let operand = at_scale(other.unscaled(), other.scale, scale);
            if subtract {
                sum -= operand;
            } else {
                sum += operand;
            }
            Self::long(sum, scale, format)
        };
    }

    /// The amount without trailing zeros: a unique form for each amount.
    fn normalized(&self) -> (BigInt, i32) {
        let unscaled = self.unscaled();
        if unscaled.is_zero() {
            return (unscaled, 0);
        }
        let digits = unscaled.to_string();
        let significant = digits.trim_end_matches('0');
        let zeros = (digits.len() - significant.len()) as i32;
        (
            significant.parse().unwrap_or_default(),
            self.scale.saturating_add(zeros),
        )
    }
}

impl AddAssign<&Quantity> for Quantity {
    /// Adds; a zero takes the format of what is added to it.
    fn add_assign(&mut self, other: &Quantity) {
        self.accumulate(other, false);
    }
}

impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Quantity) {
        self.accumulate(&other, false);
    }
}

impl SubAssign<&Quantity> for Quantity {
    /// Subtracts; a zero takes the format of what is subtracted from it.
    fn sub_assign(&mut self, other: &Quantity) {
        self.accumulate(other, true);
    }
}

impl SubAssign for Quantity {
    fn sub_assign(&mut self, other: Quantity) {
        self.accumulate(&other, true);
    }
}

impl Neg for Quantity {
    type Output = Quantity;

    fn neg(self) -> Quantity {
        match self.mantissa.checked_neg() {
            Some(mantissa) if self.long_part().is_none() => {
                Self::short(mantissa, self.scale, self.format)
            }
            _ => Self::long(-self.unscaled(), self.scale, self.format),
        }
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        if self.long_part().is_none() && other.long_part().is_none() {
            let scale = self.scale.min(other.scale);
            let left = wide(self.mantissa, power_difference(self.scale, scale));
            let right = wide(other.mantissa, power_difference(other.scale, scale));
            if let (Some(left), Some(right)) = (left, right) {
                return left.cmp(&right);
            }
        }
        self.sign().cmp(&other.sign()).then_with(|| {
            let scale = self.scale.min(other.scale);
            at_scale(self.unscaled(), self.scale, scale).cmp(&at_scale(
                other.unscaled(),
                other.scale,
                scale,
            ))
        })
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        if self.long_part().is_none() {
            let (mut mantissa, mut scale) = (self.mantissa, self.scale);
            while mantissa != 0 && mantissa % 10 == 0 {
                mantissa /= 10;
                scale = scale.saturating_add(1);
            }
            (mantissa, if mantissa == 0 { 0 } else { scale }).hash(state);
            return;
        }
        let (unscaled, scale) = self.normalized();
        match unscaled.to_i64() {
            Some(mantissa) => (mantissa, scale).hash(state),
            None => (unscaled, scale).hash(state),
        }
    }
}

impl fmt::Debug for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Quantity({self})")
    }
}

/// The canonical form, or the text as written where upstream keeps that.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(written) = self.written() {
            return f.write_str(written);
        }
        if self.is_zero() {
            return f.write_str("0");
        }
        if self.format == Format::BinarySi
            && let Some((amount, suffix)) = self.binary_form()
        {
            return write!(f, "{amount}{suffix}");
        }
        let (digits, exponent) = self.decimal_form();
        f.write_str(&digits)?;
        match self.format {
            Format::DecimalExponent if exponent == 0 => Ok(()),
            Format::DecimalExponent => write!(f, "e{exponent}"),
            // Amounts beyond the largest suffix lose it, as they do upstream.
            _ => f.write_str(decimal_suffix(exponent).unwrap_or_default()),
        }
    }
}

impl Quantity {
    /// Digits and suffix of an integer of at least 1024 in units of powers of 1024.
    fn binary_form(&self) -> Option<(String, &'static str)> {
        let (digits, times) = if let Some(amount) = self.as_i64() {
            let times = amount.trailing_zeros() / 10;
            (amount.unsigned_abs() >= 1024)
                .then(|| ((amount >> (times * 10)).to_string(), times))?
        } else {
            let (amount, exact) = round_long(&self.unscaled(), self.scale, 0);
            if !exact || amount.magnitude() < &1024u32.into() {
                return None;
            }
            let times = u32::try_from(amount.trailing_zeros().unwrap_or(0) / 10).unwrap_or(0);
            ((amount >> (times * 10)).to_string(), times)
        };
        // Upstream prints no suffix for amounts beyond the largest.
        let suffix = (times as usize)
            .checked_sub(1)
            .and_then(|i| BINARY_SUFFIXES.get(i));
        Some((digits, suffix.map_or("", |(suffix, _)| suffix)))
    }

    /// Digits and a power of ten that is a multiple of 3 and as large as possible.
    fn decimal_form(&self) -> (String, i32) {
        let mut digits = match self.long_part() {
            Some(unscaled) => unscaled.to_string(),
            None => self.mantissa.to_string(),
        };
        let significant = digits.trim_end_matches('0').len();
        let mut exponent = self
            .scale
            .saturating_add((digits.len() - significant) as i32);
        digits.truncate(significant);
        while exponent % 3 != 0 {
            digits.push('0');
            exponent -= 1;
        }
        (digits, exponent)
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.len() > MAX_TEXT_LEN {
            return Err(QuantityError::TooLarge);
        }
        let parts = Parts::split(text)?;
        let suffix = Suffix::interpret(parts.suffix)?;
        parts.check_size(&suffix)?;
        match parts.short(&suffix) {
            Some((mantissa, scale, keep)) => {
                let mut quantity = Self::short(mantissa, scale, suffix.format);
                if keep && !parts.is_canonical(text, &suffix) {
                    let extra = Extra {
                        long: None,
                        written: Some(text.into()),
                    };
                    quantity.extra = Some(Box::new(extra));
                }
                Ok(quantity)
            }
            None => parts.long(&suffix),
        }
    }
}

/// The parts of a quantity's text.
struct Parts<'a> {
    negative: bool,
    /// Whether there is a digit at all.
    has_digits: bool,
    /// Digits before the point, without leading zeros.
    integer: &'a str,
    /// Digits behind the point.
    fraction: &'a str,
    suffix: &'a str,
}

impl<'a> Parts<'a> {
    fn split(text: &'a str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let number = unsigned.trim_start_matches('0');
        let (integer, rest) = split_digits(number);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), split_digits);
        let power = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        let power = power.strip_prefix(['-', '+']).unwrap_or(power);
        if !power.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(QuantityError::Format);
        }
        let has_digits =
            unsigned.len() > number.len() || !(integer.is_empty() && fraction.is_empty());
        Ok(Self {
            negative,
            has_digits,
            integer,
            fraction,
            suffix,
        })
    }

    fn digits(&self) -> impl Iterator<Item = u8> + '_ {
        self.integer.bytes().chain(self.fraction.bytes())
    }

    fn is_zero(&self) -> bool {
        self.digits().all(|digit| digit == b'0')
    }

    fn check_size(&self, suffix: &Suffix) -> Result<(), QuantityError> {
        let digits = self.integer.len() as i64 + suffix.power_of_ten;
        if digits > MAX_INTEGER_DIGITS && !self.is_zero() {
            return Err(QuantityError::TooLarge);
        }
        Ok(())
    }

    /// Mantissa and scale, if the number is short enough for upstream's fast path, and
    /// whether that path keeps the text as the canonical form.
    fn short(&self, suffix: &Suffix) -> Option<(i64, i32, bool)> {
        let integer_len = self.integer.len().max(1);
        let scale = suffix.power_of_ten - self.fraction.len() as i64;
        let short_enough = match suffix.power_of_two {
            0 => integer_len + self.fraction.len() <= SHORT_DIGITS && scale >= i64::from(NANO),
            // A power of 2 has about three tenths as many decimal digits.
            power => self.fraction.is_empty() && integer_len + power * 3 / 10 <= 14,
        };
        if !short_enough {
            return None;
        }
        let digits = self
            .digits()
            .fold(0i64, |sum, digit| sum * 10 + i64::from(digit - b'0'));
        let mantissa = digits.checked_mul(1 << suffix.power_of_two)?;
        let keep = match suffix.power_of_two {
            0 => scale % 3 == 0 && !self.integer.is_empty() && digits % 1000 != 0,
            _ => digits % 8 != 0,
        };
        // The scale of a zero means nothing, and may be far out of range.
        let scale = i32::try_from(scale).unwrap_or(0);
        Some((
            if self.negative { -mantissa } else { mantissa },
            scale,
            keep,
        ))
    }

    /// Whether printing would yield `text` again, given that it needs no conversion.
    fn is_canonical(&self, text: &str, suffix: &Suffix) -> bool {
        let plain_len = usize::from(self.negative) + self.integer.len() + self.suffix.len();
        text.len() == plain_len
            && (suffix.format != Format::DecimalExponent
                || (suffix.power_of_ten != 0 && format!("e{}", suffix.power_of_ten) == self.suffix))
    }

    fn long(&self, suffix: &Suffix) -> Result<Quantity, QuantityError> {
        if !self.has_digits {
            return Err(QuantityError::Numeric);
        }
        if self.is_zero() {
            return Ok(Quantity::long(BigInt::zero(), 0, suffix.format));
        }
        let nanos = match suffix.power_of_two {
            0 => self.decimal_nanos(suffix.power_of_ten),
            power => self.binary_nanos(power),
        };
        let signed = |magnitude: BigInt| if self.negative { -magnitude } else { magnitude };
        let one = BigInt::from(10).pow(NANO.unsigned_abs());
        if suffix.format == Format::BinarySi {
            if nanos > &one * i64::MAX {
                return Ok(Quantity::long(signed(i64::MAX.into()), 0, suffix.format));
            }
            if nanos < one {
                return Ok(Quantity::long(signed(nanos), NANO, Format::DecimalSi));
            }
        }
        Ok(Quantity::long(signed(nanos), NANO, suffix.format))
    }

    /// The magnitude in units of `1n`, rounded up. The digits that are cut off need not
    /// be converted, only looked at.
    fn decimal_nanos(&self, power_of_ten: i64) -> BigInt {
        let wanted = self.integer.len() as i64 + power_of_ten - i64::from(NANO);
        let wanted = usize::try_from(wanted).unwrap_or(0);
        let kept: Vec<u8> = self
            .digits()
            .chain(std::iter::repeat(b'0'))
            .take(wanted)
            .collect();
        let nanos = BigInt::parse_bytes(&kept, 10).unwrap_or_default();
        let inexact = self.digits().skip(wanted).any(|digit| digit != b'0');
        nanos + i32::from(inexact)
    }

    /// As [`Self::decimal_nanos`], for a number times `2^power`.
    fn binary_nanos(&self, power: usize) -> BigInt {
        let digits: Vec<u8> = self.digits().collect();
        let unscaled = BigInt::parse_bytes(&digits, 10).unwrap_or_default() << power;
        round_long(&unscaled, -(self.fraction.len() as i32), NANO).0
    }
}

/// Splits off the leading digits.
fn split_digits(text: &str) -> (&str, &str) {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    text.split_at(text.len() - rest.len())
}

const DECIMAL_SUFFIXES: [(&str, i64); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];

const BINARY_SUFFIXES: [(&str, usize); 6] = [
    ("Ki", 10),
    ("Mi", 20),
    ("Gi", 30),
    ("Ti", 40),
    ("Pi", 50),
    ("Ei", 60),
];

fn decimal_suffix(exponent: i32) -> Option<&'static str> {
    let find = |(_, power): &&(&str, i64)| *power == i64::from(exponent);
    DECIMAL_SUFFIXES
        .iter()
        .find(find)
        .map(|(suffix, _)| *suffix)
}

/// What a suffix stands for: `2^power_of_two * 10^power_of_ten`, one of them 0.
struct Suffix {
    power_of_two: usize,
    power_of_ten: i64,
    format: Format,
}

impl Suffix {
    fn interpret(suffix: &str) -> Result<Self, QuantityError> {
        let decimal = |power_of_ten, format| Self {
            power_of_two: 0,
            power_of_ten,
            format,
        };
        if let Some((_, power)) = DECIMAL_SUFFIXES.iter().find(|(name, _)| *name == suffix) {
            return Ok(decimal(*power, Format::DecimalSi));
        }
        if let Some((_, power)) = BINARY_SUFFIXES.iter().find(|(name, _)| *name == suffix) {
            let format = Format::BinarySi;
            return Ok(Self {
                power_of_two: *power,
                power_of_ten: 0,
                format,
            });
        }
        let power = suffix
            .strip_prefix(['e', 'E'])
            .ok_or(QuantityError::Suffix)?;
        let power = i64::from_str(power).map_err(|_| QuantityError::Suffix)?;
        // Far beyond what `check_size` allows either way; keeps the sums from overflowing.
        let bound = i64::from(i32::MAX / 2);
        Ok(decimal(power.clamp(-bound, bound), Format::DecimalExponent))
    }
}

/// `10^(larger - smaller)`'s exponent.
fn power_difference(larger: i32, smaller: i32) -> u32 {
    u32::try_from(i64::from(larger) - i64::from(smaller)).unwrap_or(0)
}

/// `mantissa * 10^power`, if it fits.
fn raise_short(mantissa: i64, power: u32) -> Option<i64> {
    if mantissa == 0 {
        return Some(0);
    }
    10i64
        .checked_pow(power)
        .and_then(|factor| mantissa.checked_mul(factor))
}

/// `mantissa * 10^power`, or what upstream leaves when that does not fit: powers that it
/// multiplies with at once wrap around, others give 0.
fn raise_or_overflow(mantissa: i64, power: u32) -> i64 {
    match power {
        1 | 2 | 3 | 6 | 9 if mantissa != i64::MIN => mantissa.wrapping_mul(10i64.pow(power)),
        _ => raise_short(mantissa, power).unwrap_or(0),
    }
}

/// `mantissa * 10^power` in 128 bits, if it fits.
fn wide(mantissa: i64, power: u32) -> Option<i128> {
    if mantissa == 0 {
        return Some(0);
    }
    10i128
        .checked_pow(power)
        .and_then(|factor| factor.checked_mul(i128::from(mantissa)))
}

/// `mantissa / 10^power` rounded away from zero, and whether the division was exact.
fn round_short(mantissa: i64, power: u32) -> (i64, bool) {
    let Some(divisor) = 10i64.checked_pow(power) else {
        return (mantissa.signum(), mantissa == 0);
    };
    let (quotient, exact) = (mantissa / divisor, mantissa % divisor == 0);
    (
        if exact {
            quotient
        } else {
            quotient + mantissa.signum()
        },
        exact,
    )
}

/// Mantissa and scale of the sum or difference of short numbers, if it is short.
fn add_short(left: &Quantity, right: &Quantity, subtract: bool) -> Option<(i64, i32)> {
    let operand = if subtract {
        right.mantissa.checked_neg()?
    } else {
        right.mantissa
    };
    if operand == 0 {
        return Some((left.mantissa, left.scale));
    }
    if left.mantissa == 0 {
        return Some((operand, right.scale));
    }
    let scale = left.scale.min(right.scale);
    let left = raise_short(left.mantissa, power_difference(left.scale, scale))?;
    let right = raise_short(operand, power_difference(right.scale, scale))?;
    Some((left.checked_add(right)?, scale))
}

/// The number that, times `10^to`, is `unscaled * 10^from`; `to` is not above `from`.
fn at_scale(unscaled: BigInt, from: i32, to: i32) -> BigInt {
    if unscaled.is_zero() || from == to {
        return unscaled;
    }
    unscaled * BigInt::from(10).pow(power_difference(from, to))
}

/// As [`at_scale`] but to any scale, rounded away from zero; whether it was exact.
fn round_long(unscaled: &BigInt, from: i32, to: i32) -> (BigInt, bool) {
    if from >= to {
        return (at_scale(unscaled.clone(), from, to), true);
    }
    let divisor = BigInt::from(10).pow(power_difference(to, from));
    let (quotient, exact) = (unscaled / &divisor, (unscaled % &divisor).is_zero());
    (
        if exact {
            quotient
        } else {
            quotient + unscaled.signum()
        },
        exact,
    )
}

/// [`Quantity::scaled_value`] of a long number, wrapping where upstream does.
fn scaled_long(unscaled: &BigInt, from: i32, to: i32) -> i64 {
    if from >= to {
        // Upstream converts a floating-point power: out of range it becomes the minimum.
        let factor = 10i64
            .checked_pow(power_difference(from, to))
            .unwrap_or(i64::MIN);
        return low_bits(unscaled).wrapping_mul(factor);
    }
    let power = power_difference(to, from);
    if *unscaled < BigInt::from(i64::MAX)
        && let Some(divisor) = 10i64.checked_pow(power)
    {
        let value = low_bits(unscaled);
        return value / divisor + i64::from(value % divisor != 0);
    }
    let divisor = BigInt::from(10).pow(power);
    let remainder = unscaled % &divisor;
    let floor = unscaled / &divisor - i32::from(remainder.is_negative());
    low_bits(&floor).wrapping_add(i64::from(!remainder.is_zero()))
}

/// The lowest 64 bits, in two's complement.
fn low_bits(number: &BigInt) -> i64 {
    let magnitude = number.iter_u64_digits().next().unwrap_or(0).cast_signed();
    if number.is_negative() {
        magnitude.wrapping_neg()
    } else {
        magnitude
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// From a string, with spaces around it ignored, or a number; `null` is zero.
impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity such as \"500m\", \"2Gi\" or 4")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
        // Upstream trims the JSON text, where control characters are escaped and so stay.
        let space = |c: char| c.is_whitespace() && !c.is_ascii_control();
        text.trim_matches(space).parse().map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
        number.to_string().parse().map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
        number.to_string().parse().map_err(E::custom)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
        float_text(number).parse().map_err(E::custom)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Quantity, E> {
        Ok(Quantity::default())
    }
}

/// A floating-point number as clients send it on: Go's JSON encoder writes an exponent
/// only below 1e-6 and from 1e21 on (`encoding/json`), and the exponent decides the format.
fn float_text(number: f64) -> String {
    let magnitude = number.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        let text = format!("{number:e}");
        return if magnitude >= 1.0 {
            text.replace('e', "e+")
        } else {
            text
        };
    }
    number.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantity(text: &str) -> Quantity {
        text.parse()
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn stays_small() {
        assert!(size_of::<Quantity>() <= 24);
    }

    #[test]
    fn prints_canonically() {
        for (text, printed) in [
            ("1.5Gi", "1536Mi"),
            ("0.5", "500m"),
            ("1024Ki", "1Mi"),
            ("1023", "1023"),
            ("0.1n", "1n"),
            ("-0.1n", "-1n"),
            ("1e-1000000", "1e-9"),
            ("+5", "+5"),
            ("1.500", "1.500"),
            ("1E3", "1E3"),
            ("100e4", "1e6"),
            ("0e1000000000", "0"),
        ] {
            assert_eq!(quantity(text).to_string(), printed, "{text}");
        }
    }

    #[test]
    fn refuses_what_would_take_too_long() {
        let digits = "9".repeat(1 << 20);
        for text in [
            digits.as_str(),
            "1e1000000000",
            "1e9223372036854775807",
            "1e1000",
        ] {
            assert_eq!(text.parse::<Quantity>(), Err(QuantityError::TooLarge));
        }
        assert!("1e999".parse::<Quantity>().is_ok());
        assert_eq!(".e-10".parse::<Quantity>(), Err(QuantityError::Numeric));
    }

    #[test]
    fn compares_and_hashes_by_value() {
        let hash = |quantity: &Quantity| {
            let mut hasher = std::hash::DefaultHasher::new();
            quantity.hash(&mut hasher);
            hasher.finish()
        };
        for (a, b) in [
            ("1", "1000m"),
            ("1e3", "1k"),
            ("1Ki", "1024"),
            ("1e400", "10e399"),
        ] {
            assert_eq!(quantity(a), quantity(b));
            assert_eq!(hash(&quantity(a)), hash(&quantity(b)));
        }
        let long_one = quantity("1.0000000000000000000");
        assert!(long_one.long_part().is_some());
        assert_eq!(hash(&long_one), hash(&quantity("1")));
        assert!(quantity("1e400") > quantity("-1e500"));
        assert!(quantity("1n") < quantity("1e30"));
    }

    #[test]
    fn reads_json_numbers_as_clients_send_them() {
        for (json, printed) in [
            ("2", "2"),
            ("-2", "-2"),
            ("18446744073709551615", "18446744073709551615"),
            ("1.0", "1"),
            ("1.5", "1500m"),
            ("1e9", "1G"),
            ("1e-7", "100e-9"),
            ("1.5e21", "1500e18"),
            ("\" 2Gi\u{a0}\"", "2Gi"),
            ("null", "0"),
        ] {
            let mut quantity: Quantity = serde_json::from_str(json).unwrap();
            // Adding to zero forgets the text that may be kept in place of the canonical form.
            let mut sum = Quantity::default();
            sum += &quantity;
            assert_eq!(sum.to_string(), printed, "{json}");
            quantity -= sum;
            assert!(quantity.is_zero());
        }
        assert!(serde_json::from_str::<Quantity>("\"1\\n\"").is_err());
        assert!(serde_json::from_str::<Quantity>("true").is_err());
    }
}
