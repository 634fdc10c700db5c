// Generics, closures and iterators that the compiler inlines.
use std::collections::HashMap;
use std::time::Instant;

mod shapes {
    pub trait Area {
        fn area(&self) -> f64;
    }
    pub struct Square(pub f64);
    pub struct Circle(pub f64);
    impl Area for Square {
        fn area(&self) -> f64 {
            self.0 * self.0
        }
    }
    impl Area for Circle {
        fn area(&self) -> f64 {
            3.14159 * self.0 * self.0 / (1.0 + self.0).sqrt()
        }
    }
}

#[inline(never)]
fn total(shapes: &[Box<dyn shapes::Area>]) -> f64 {
    shapes.iter().map(|s| s.area()).sum()
}

#[inline(never)]
fn largest<T: PartialOrd + Copy>(values: &[T]) -> T {
    let mut best = values[0];
    for &v in values {
        if v > best {
            best = v;
        }
    }
    best
}

#[inline(never)]
fn histogram(values: &[u64]) -> usize {
    let mut counts: HashMap<u64, u32> = HashMap::new();
    for v in values {
        *counts.entry(v % 101).or_insert(0) += 1;
    }
    counts.len()
}

fn main() {
    let seconds: f64 = std::env::args().nth(1).map_or(0.3, |a| a.parse().unwrap());
    let start = Instant::now();
    let mut state = 1u64;
    let mut sum = 0.0;
    while start.elapsed().as_secs_f64() < seconds {
        let mut values: Vec<u64> = (0..3000)
            .map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                state >> 20
            })
            .collect();
        values.sort_by(|a, b| b.cmp(a));
        let mut all: Vec<Box<dyn shapes::Area>> = Vec::new();
        for &v in &values {
            if v & 1 == 0 {
                all.push(Box::new(shapes::Square(v as f64)));
            } else {
                all.push(Box::new(shapes::Circle(v as f64)));
            }
        }
        sum += total(&all) + largest(&values) as f64 + histogram(&values) as f64;
    }
    println!("{}", sum > 0.0);
}
