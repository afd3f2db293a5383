//! What the two programs of this crate share.

pub mod ledger;
pub mod record;
pub mod report;
