//! The journal: where an append is on the disk first, in one write.
//!
//! SQLite would change a page of each of ten trees for an append, and sync them. So every process has a file
//! of its own beside the database, to whose end it writes what was appended since its last write, as one
//! *sheet*. The tables learn many sheets at once ([`super::settle`]); then the file is used from its beginning
//! again, under a new *generation*, which is recorded in the database. A sheet counts if it is of the
//! generation in the database, stands at its place, and is whole. What a crash left unfinished is not, and
//! was promised to nobody.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use loggia_core::Durability;
use memchr::memmem::Finder;
use nix::libc;
use uuid::Uuid;

/// Sheets of one generation are told from those of another by it.
pub type Generation = [u8; 16];

const MAGIC: [u8; 8] = *b"loggia\x01\n";
/// The magic, the generation, the sheet's own place, the length of its content, the sum over all of it.
const HEADER: usize = 8 + size_of::<Generation>() + 8 + 8 + 4;
/// Read at a time: some sheets.
const BUFFER: usize = 16 * 1024;
/// A file grows by as much as it has, within these bounds. To write where a file has been before costs the disk
/// one write; beyond its end, also one for where its end is now.
const GROWTH: std::ops::RangeInclusive<u64> = 256 * 1024..=1024 * 1024;
/// A buffer that one large append made larger than this is not kept.
const KEPT: usize = 1024 * 1024;

pub fn fresh_generation() -> Generation {
    Uuid::now_v7().into_bytes()
}

/// How names of such files begin.
pub const NAME: &str = "loggia.journal-";

/// The file of a slot.
pub fn path(directory: &Path, slot: i64) -> PathBuf {
    directory.join(format!("{NAME}{slot}"))
}

/// Where one goes that could not be read to its end.
pub fn aside(path: &Path) -> PathBuf {
    let mut aside = path.to_owned().into_os_string();
    aside.push("-damaged");
    aside.into()
}

/// What is to be written next.
pub struct Sheet(Vec<u8>);

impl Default for Sheet {
    fn default() -> Self {
        Self(vec![0; HEADER])
    }
}

impl Sheet {
    pub fn content(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }

    fn clear(&mut self) {
        self.0.truncate(HEADER);
        self.0.shrink_to(KEPT);
    }

    /// Writes the header, which makes it a sheet for that place and no other.
    fn seal(&mut self, generation: &Generation, place: u64) {
        let Some((header, content)) = self.0.split_first_chunk_mut::<HEADER>() else { return };
        *header = seal(generation, place, content);
    }
}

fn seal(generation: &Generation, place: u64, content: &[u8]) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    let (place, length) = (place.to_le_bytes(), (content.len() as u64).to_le_bytes());
    let known = MAGIC.iter().chain(generation).chain(&place).chain(&length);
    header.iter_mut().zip(known).for_each(|(byte, known)| *byte = *known);
    // For what is not whole or not intact. Its records have better sums of their own.
    let mut sum = crc32fast::Hasher::new();
    sum.update(&header);
    sum.update(content);
    if let Some(place) = header.last_chunk_mut() {
        *place = sum.finalize().to_le_bytes();
    }
    header
}

/// The file that this process writes.
pub struct Journal {
    file: File,
    /// The same file; what is written through this one is on the disk when the write returns.
    synced: File,
    generation: Generation,
    end: u64,
    length: u64,
    /// Something was written that is not on the disk yet.
    unsynced: bool,
}

impl Journal {
    /// For a generation that the database knows to begin now.
    pub fn open(path: &Path, generation: Generation) -> io::Result<Self> {
        let options = |flags| {
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(false).mode(0o600);
            options.custom_flags(flags).open(path)
        };
        let (file, synced) = (options(0)?, options(libc::O_DSYNC)?);
        if let Some(directory) = path.parent() {
            File::open(directory)?.sync_all()?; // its name, too, must be there after a crash
        }
        let length = file.metadata()?.len();
        Ok(Self { file, synced, generation, end: 0, length, unsynced: false })
    }

    /// Everything in it is elsewhere, for good.
    pub fn begin_anew(&mut self, generation: Generation) {
        (self.generation, self.end) = (generation, 0);
    }

    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Where the next sheet goes.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Writes the sheet, and empties it. After an error nothing is known about the file any more.
    pub fn write(&mut self, sheet: &mut Sheet, durability: Durability) -> io::Result<()> {
        sheet.seal(&self.generation, self.end);
        let written = self.make_room(sheet.0.len() as u64);
        let written = written.and_then(|()| self.put(&sheet.0, durability));
        match written {
            Ok(()) => self.end += sheet.0.len() as u64,
            // It may be there all the same, and was promised to nobody.
            Err(_) => {
                let _ = self.file.write_all_at(&[0; HEADER], self.end);
                let _ = self.file.sync_data();
            }
        }
        sheet.clear();
        written
    }

    /// So many bytes can be written where the file has been before.
    pub fn make_room(&mut self, bytes: u64) -> io::Result<()> {
        let wanted = self.end + bytes;
        if wanted <= self.length {
            return Ok(());
        }
        let length = wanted + self.length.clamp(*GROWTH.start(), *GROWTH.end());
        // Without room for more there may be enough for the sheet, which is then behind this length.
        let from = self.length.max(self.end);
        let zeros = vec![0; usize::try_from(length - from).unwrap_or_default()];
        if self.file.write_all_at(&zeros, from).is_ok() {
            self.file.sync_data()?; // or each sheet would still have to find its own blocks
            self.length = length;
        }
        Ok(())
    }

    fn put(&mut self, bytes: &[u8], durability: Durability) -> io::Result<()> {
        match durability {
            Durability::Decision if !self.unsynced => self.synced.write_all_at(bytes, self.end),
            // Everything before a decision is to be as durable as the decision.
            Durability::Decision => {
                self.file.write_all_at(bytes, self.end)?;
                self.file.sync_data()?;
                self.unsynced = false;
                Ok(())
            }
            Durability::Stream => {
                self.unsynced = true;
                self.file.write_all_at(bytes, self.end)
            }
        }
    }
}

/// Reads the sheets of a generation, one after the other.
pub struct Sheets {
    reader: BufReader<File>,
    length: u64,
    generation: Generation,
    place: u64,
}

impl Sheets {
    /// None if there is no such file.
    pub fn open(path: &Path, generation: Generation, place: u64) -> io::Result<Option<Self>> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let length = file.metadata()?.len();
        let mut reader = BufReader::with_capacity(BUFFER, file);
        reader.seek(SeekFrom::Start(place))?;
        Ok(Some(Self { reader, length, generation, place }))
    }

    /// Where the next sheet would begin.
    pub fn place(&self) -> u64 {
        self.place
    }

    /// What was read is on the disk when this returns, whoever wrote it.
    pub fn sync(&self) -> io::Result<()> {
        self.reader.get_ref().sync_data()
    }

    /// The content of the next sheet, or None where none is.
    pub fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some((header, length)) = self.header()? else { return Ok(None) };
        let mut content = vec![0; length];
        self.reader.read_exact(&mut content)?;
        if seal(&self.generation, self.place, &content) != header {
            return Ok(None);
        }
        self.place += (HEADER + length) as u64;
        Ok(Some(content))
    }

    fn header(&mut self) -> io::Result<Option<([u8; HEADER], usize)>> {
        let rest = self.length.saturating_sub(self.place);
        if rest < HEADER as u64 {
            return Ok(None);
        }
        let mut header = [0; HEADER];
        self.reader.read_exact(&mut header)?;
        let length = fitting(&header, &self.generation, self.place, rest);
        Ok(length.map(|length| (header, length)))
    }

    /// Where no whole sheet is: what there is instead, if it is not simply the end.
    pub fn damage(&self) -> io::Result<Option<Damage>> {
        if self.goes_on()? {
            return Ok(Some(Damage::InBetween));
        }
        let expected = beginning(&self.generation, self.place);
        let mut found = vec![0; expected.len()];
        let whole = read_at(self.reader.get_ref(), &mut found, self.place)? == expected.len();
        let differ = found.iter().zip(&expected).filter(|(found, expected)| found != expected);
        let begins = whole && differ.count() <= MISTAKEN;
        Ok(begins.then_some(Damage::AtTheEnd))
    }

    /// Whether another sheet of the generation stands further behind, which no killed process leaves. The power
    /// may, where nothing was synced.
    fn goes_on(&self) -> io::Result<bool> {
        let wanted = [&MAGIC[..], &self.generation].concat();
        let finder = Finder::new(&wanted);
        let (mut piece, mut from) = (vec![0; BUFFER], self.place + 1);
        loop {
            let read = read_at(self.reader.get_ref(), &mut piece, from)?;
            for at in finder.find_iter(piece.get(..read).unwrap_or_default()) {
                if self.is_sheet(from + at as u64)? {
                    return Ok(true);
                }
            }
            if read < piece.len() {
                return Ok(false);
            }
            // The last bytes again: one may begin in them.
            from += (read - wanted.len() + 1) as u64;
        }
    }

    fn is_sheet(&self, place: u64) -> io::Result<bool> {
        let (file, rest) = (self.reader.get_ref(), self.length.saturating_sub(place));
        let mut header = [0; HEADER];
        if read_at(file, &mut header, place)? < HEADER {
            return Ok(false);
        }
        let Some(length) = fitting(&header, &self.generation, place, rest) else {
            return Ok(false);
        };
        let mut content = vec![0; length];
        let read = read_at(file, &mut content, place + HEADER as u64)?;
        Ok(read == length && seal(&self.generation, place, &content) == header)
    }
}

/// As many bytes from a place on as there are.
fn read_at(file: &File, bytes: &mut [u8], place: u64) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, place + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// What stands where a whole sheet does not.
#[derive(Debug, PartialEq, Eq)]
pub enum Damage {
    /// Another one comes later.
    InBetween,
    /// A part of one, or a changed one, and nothing behind it. A process that is killed while it writes leaves
    /// the same.
    AtTheEnd,
}

/// The beginning of a header. All of it is known before it is read.
fn beginning(generation: &Generation, place: u64) -> Vec<u8> {
    [&MAGIC[..], generation, &place.to_le_bytes()].concat()
}

/// Bytes in which the beginning of a header may differ and still be taken for a damaged one. One of another
/// generation differs in most of them.
const MISTAKEN: usize = 4;

/// Whether a sheet begins at a place of a journal, whole or not. Asked before every look into the tables, so it
/// reads no more than that takes.
pub fn begins(path: &Path, generation: &Generation, place: u64) -> io::Result<bool> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let rest = file.metadata()?.len().saturating_sub(place);
    if rest < HEADER as u64 {
        return Ok(false);
    }
    let mut header = [0; HEADER];
    file.read_exact_at(&mut header, place)?;
    Ok(fitting(&header, generation, place, rest).is_some())
}

/// The length that a header tells, if it is one for this place and what it tells of can be there.
fn fitting(header: &[u8; HEADER], generation: &Generation, place: u64, rest: u64) -> Option<usize> {
    let fits = |length: &usize| *length as u64 <= rest.saturating_sub(HEADER as u64);
    length_of(header, generation, place).filter(fits)
}

/// The length that a header tells, if it is one for this place.
fn length_of(header: &[u8; HEADER], generation: &Generation, place: u64) -> Option<usize> {
    let rest = header.strip_prefix(&MAGIC)?.strip_prefix(generation)?;
    let (length, _) = rest.strip_prefix(&place.to_le_bytes())?.split_first_chunk()?;
    usize::try_from(u64::from_le_bytes(*length)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that has room for a sheet and none to grow, then has some again.
    #[test]
    fn room_is_never_made_over_what_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let generation = fresh_generation();
        let mut journal = Journal::open(&path, generation).unwrap();
        let (mut sheet, mut wanted) = (Sheet::default(), Vec::new());
        let mut write = |journal: &mut Journal, text: &[u8]| {
            sheet.content().extend(text);
            journal.write(&mut sheet, Durability::Decision).unwrap();
            wanted.push(text.to_vec());
        };
        let whole = std::mem::replace(&mut journal.file, File::open(&path).unwrap());
        write(&mut journal, b"one");
        write(&mut journal, b"two");
        journal.file = whole;
        write(&mut journal, b"three");
        write(&mut journal, b"four");
        let mut sheets = Sheets::open(&path, generation, 0).unwrap().unwrap();
        let found: Vec<_> = std::iter::from_fn(|| sheets.next().unwrap()).collect();
        assert_eq!(found, wanted);
        let length = path.metadata().unwrap().len();
        assert_eq!((journal.length, length >= *GROWTH.start()), (length, true));
    }

    /// It is looked for in pieces, and may begin in one and end in the next.
    #[test]
    fn a_sheet_behind_a_damaged_one_is_found_wherever_it_begins() {
        let directory = tempfile::tempdir().unwrap();
        let generation = fresh_generation();
        for begin in (BUFFER - HEADER)..(BUFFER + HEADER) {
            let path = directory.path().join(begin.to_string());
            let mut journal = Journal::open(&path, generation).unwrap();
            let mut sheet = Sheet::default();
            for length in [begin - HEADER, 100] {
                sheet.content().resize(HEADER + length, b'x');
                journal.write(&mut sheet, Durability::Stream).unwrap();
            }
            let damage = |changed: &[u64]| {
                let sheets = Sheets::open(&path, generation, 0).unwrap().unwrap();
                changed.iter().for_each(|at| journal.file.write_all_at(b"y", *at).unwrap());
                sheets.damage().unwrap()
            };
            let behind = begin as u64 + HEADER as u64;
            assert_eq!(damage(&[HEADER as u64]), Some(Damage::InBetween), "at {begin}");
            assert_eq!(damage(&[behind]), Some(Damage::AtTheEnd), "at {begin}, both");
        }
    }
}
