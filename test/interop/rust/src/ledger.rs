//! Which record was acknowledged at which offset: written beside a data directory, checked against its segments later.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::record::Record;

/// Acknowledged records of one data directory.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    digests: BTreeMap<u64, u32>,
}

impl Ledger {
    /// Notes an acknowledgement; an offset is given out once.
    pub fn acknowledged(&mut self, offset: u64, record: &Record) {
        let before = self.digests.insert(offset, record.digest());
        assert!(before.is_none(), "offset {offset} was given out twice");
    }

    pub fn entries(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.digests.iter().map(|(offset, digest)| (*offset, *digest))
    }

    pub fn get(&self, offset: u64) -> Option<u32> {
        self.digests.get(&offset).copied()
    }

    pub fn len(&self) -> usize {
        self.digests.len()
    }

    pub fn is_empty(&self) -> bool {
        self.digests.is_empty()
    }

    /// Writes it beside `data_dir`. `head` is the first offset not in the log.
    pub fn save(&self, data_dir: &Path, head: u64) -> io::Result<()> {
        let mut text = format!("head {head}\n");
        for (offset, digest) in self.entries() {
            text.push_str(&format!("{offset} {digest}\n"));
        }
        fs::write(path_beside(data_dir), text)
    }

    /// Reads what [`Ledger::save`] wrote: the ledger and the head.
    pub fn load(data_dir: &Path) -> io::Result<(Ledger, u64)> {
        let text = fs::read_to_string(path_beside(data_dir))?;
        let mut head = 0;
        let mut ledger = Ledger::default();
        for line in text.lines() {
            let (first, second) = line.split_once(' ').ok_or_else(|| invalid(line))?;
            if first == "head" {
                head = second.parse().map_err(|_| invalid(line))?;
            } else {
                let offset = first.parse().map_err(|_| invalid(line))?;
                ledger.digests.insert(offset, second.parse().map_err(|_| invalid(line))?);
            }
        }
        Ok((ledger, head))
    }
}

fn path_beside(data_dir: &Path) -> PathBuf {
    data_dir.with_extension("ledger")
}

fn invalid(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("no line of a ledger: {line}"))
}
