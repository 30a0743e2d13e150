//! Amounts in dollars.

use pilothouse_domain::Usd;

/// An amount with two decimals, or more if it would otherwise read as zero: `$5.00`, `$0.0125`.
pub fn usd(amount: Usd) -> String {
    let exact = amount.to_string();
    let (whole, fraction) = exact.split_once('.').unwrap_or((&exact, ""));
    let small = whole == "0" && fraction.starts_with('0');
    let shown: String = if small {
        // Two significant digits.
        let zeros = fraction.bytes().take_while(|b| *b == b'0').count();
        fraction.chars().take(zeros + 2).collect()
    } else {
        fraction.chars().take(2).collect()
    };
    format!("${whole}.{shown:0<2}")
}

/// `$0.42 of $5.00 (8.4 %)`.
pub fn of_cap(spent: Usd, cap: Usd) -> String {
    format!("{} of {} ({} %)", usd(spent), usd(cap), spent.percent_of(cap))
}

#[cfg(test)]
mod tests {
    use super::{of_cap, usd};

    fn shown(amount: &str) -> String {
        usd(amount.parse().unwrap())
    }

    #[test]
    fn amounts_have_cents_and_small_ones_are_not_rounded_to_zero() {
        assert_eq!(
            [shown("0"), shown("5"), shown("12.5"), shown("1.2399")],
            ["$0.00", "$5.00", "$12.50", "$1.23"]
        );
        assert_eq!([shown("0.0125"), shown("0.000004"), shown("0.42")], ["$0.012", "$0.000004", "$0.42"]);
        assert_eq!(of_cap("0.42".parse().unwrap(), "5".parse().unwrap()), "$0.42 of $5.00 (8.4 %)");
    }
}
