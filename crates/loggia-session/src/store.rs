//! Where logs are kept. Both stores pass the same contract suite.

pub mod checksum;
pub mod memory;
pub mod sqlite;
