//! Time of a classification and of the verdict about it. Asserts nothing. `cargo bench -p pilothouse-classification`.

// Benches panic on errors, like tests.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../tests/verdict/mod.rs"]
mod verdict;

use std::hint::black_box;
use std::time::Instant;

/// Rounds of a batch, and batches. The median of the batches is printed.
const ROUNDS: u32 = 50;
const BATCHES: usize = 60;

fn main() {
    let long = "cat a.txt | grep -n 'x y' && cp a.txt b.txt; ".repeat(350);
    for command in [
        "ls -la",
        "cd src && cargo test 2>&1 | tail -20",
        "git add -A && git commit -m \"fix: $(date)\"",
        "for f in *.rs; do wc -l \"$f\" | sort -n; done; cat /etc/shadow",
        &long,
    ] {
        let rounds = if command.len() > 1_000 { 1 } else { ROUNDS };
        let mut micros: Vec<f64> = (0..BATCHES).map(|_| batch(command, rounds)).collect();
        micros.sort_by(f64::total_cmp);
        let shown: String = command.chars().take(70).collect();
        println!("{:>9.1} µs  {shown} ({} bytes)", micros[BATCHES / 2], command.len());
    }
}

/// Microseconds of one call.
fn batch(command: &str, rounds: u32) -> f64 {
    let begun = Instant::now();
    for _ in 0..rounds {
        black_box(verdict::asks(&verdict::classified(black_box(command))));
    }
    begun.elapsed().as_secs_f64() * 1e6 / f64::from(rounds)
}
