// A Rust program that nobody wrote for a profiler: its output must stay as it is.
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

fn main() {
    let shared = Arc::new(Mutex::new(BTreeMap::new()));
    let threads: Vec<_> = (0..4)
        .map(|t| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || {
                let mut words: HashMap<String, Vec<u64>> = HashMap::new();
                for i in 0..20000u64 {
                    words.entry(format!("word {}", i * 31 % 977)).or_default().push(i * t);
                }
                let mut all = shared.lock().unwrap();
                for (word, values) in words {
                    *all.entry(word).or_insert(0u64) += values.iter().sum::<u64>();
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let caught = std::panic::catch_unwind(|| {
        let held = vec![1u8; 300000];
        if held.len() > 2 {
            std::panic::resume_unwind(Box::new(held.len()));
        }
    });
    let all = shared.lock().unwrap();
    println!("{} {} {:?}", all.len(), all.values().sum::<u64>(), caught.is_err());
}
