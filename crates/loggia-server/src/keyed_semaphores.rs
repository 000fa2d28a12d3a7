//! A semaphore for each key, for limits of one client beside a limit of all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::Semaphore;

pub(crate) struct KeyedSemaphores {
    permits: usize,
    /// A lock, not a task: held for a look-up. A semaphore lives as long as one of its permits.
    semaphores: Mutex<HashMap<String, Weak<Semaphore>>>,
}

impl KeyedSemaphores {
    pub fn new(permits: usize) -> Self {
        Self { permits, semaphores: Mutex::default() }
    }

    pub fn of(&self, key: &str) -> Arc<Semaphore> {
        let mut semaphores = self.semaphores.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = semaphores.get(key).and_then(Weak::upgrade) {
            return found;
        }
        semaphores.retain(|_, semaphore| semaphore.strong_count() > 0);
        let new = Arc::new(Semaphore::new(self.permits));
        semaphores.insert(key.to_owned(), Arc::downgrade(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_keys_are_dropped() {
        let semaphores = KeyedSemaphores::new(2);
        let held = semaphores.of("a").try_acquire_owned().unwrap();
        for key in 0..100 {
            drop(semaphores.of(&key.to_string()));
        }
        assert_eq!(semaphores.of("a").available_permits(), 1);
        assert!(semaphores.semaphores.lock().unwrap().len() <= 3);
        drop(held);
        assert_eq!(semaphores.of("a").available_permits(), 2);
    }
}
